"""The service under load: rows acknowledged a second, and how long a reader of the rule waits.

Beside it, in turn, in the same run, on the same disk and on the same HTTP server (granian), a bare
FastAPI route that parses the same bytes and commits the same bytes to SQLite (WAL, synchronous
FULL). Only the ratios mean anything; 0.5 is the aim. Both are processes of their own; the clients
are threads with a connection each, which send bytes made before. Every batch of the service has a
key, as a careful client's would.

`python -m bench service --against TREE [--tries N]` compares, in turn, with the service of another
tree of this repository: one client, small batches.
"""

import argparse
import http.client
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from bench.clock import seconds
from bench.output import publish

MANY, TRIES, READS = 4, 15, 1000
SIZES = ((10, 60), (100, 40), (1_000, 16))
SOURCE = Path(__file__).parents[1] / "src"
WAYS = (("json", 1), ("json", MANY), ("x-ndjson", MANY))
BEGIN = (
    "--class", "rules:version,country,device", "--label", "failed", "--delta", "1e-9",
    "--horizon", "100000000", "--port", "0", "--limit", "rate=1000000",
)  # fmt: skip


class Peer(NamedTuple):
    """A server to send rounds to."""

    address: str
    headers: dict[str, str]


class Load(NamedTuple):
    """So many batches of a size, of a kind, over several connections."""

    size: int
    batches: int
    kind: str
    clients: int


def run(arguments: Sequence[str] = ()) -> None:
    """Print the tables, or the comparison with another tree."""
    parser = argparse.ArgumentParser(prog="python -m bench service", description=__doc__)
    parser.add_argument("--against", type=Path, metavar="TREE")
    parser.add_argument("--tries", type=int, default=TRIES)
    options = parser.parse_args(arguments)
    if options.against is None:
        _run_beside_bare()
    else:
        _run_beside(options.against / "src", options.tries)


def _run_beside(source: Path, tries: int) -> None:
    """Print the speed of this tree as a multiple of another's."""
    table = Table("batch", "as", title=f"Rows acknowledged a second, beside {source}; one client")
    for name in ("this tree", "that tree", "ratio", "lowest", "highest"):
        table.add_column(name, justify="right")
    with _service() as service, _service(source) as other:
        for size, kind in itertools.product((1, 10, 100), ("json", "x-ndjson")):
            load = Load(size, 100, kind, 1)
            ours, theirs, ratios = _compared(service, other, load, tries)
            shown = f"{median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}"
            table.add_row(f"{size:,}", kind, f"{ours:,.0f}", f"{theirs:,.0f}", *shown)
    Console(highlight=False, width=100).print(table)


def _run_beside_bare() -> None:
    table = Table("rows of a batch", "as", "clients", title="Rows acknowledged a second")
    for name in ("service", "bare route", "ratio"):
        table.add_column(name, justify="right")
    with _service() as service, _bare() as bare:
        for (size, batches), (kind, clients) in itertools.product(SIZES, WAYS):
            load = Load(size, batches, kind, clients)
            ours, theirs, _ = _compared(service, bare, load)
            shown = f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}"
            table.add_row(f"{size:,}", kind, str(clients), *shown)
        publish("service", table)
        waits = Table("written meanwhile", title="GET /hypothesis, milliseconds")
        for name in ("p50", "p99", "bare p50", "bare p99"):
            waits.add_column(name, justify="right")
        for writing in (None, 100, 1_000, 10_000):
            said = "nothing" if writing is None else f"batches of {writing:,}"
            both = [_reading(peer, writing) for peer in (service, bare)]
            quantiles = [found[int(share * len(found))] for found in both for share in (0.5, 0.99)]
            waits.add_row(said, *(f"{1000 * one:.2f}" for one in quantiles))
        publish("service.reads", waits)


def _compared(
    service: Peer, other: Peer, load: Load, tries: int = TRIES
) -> tuple[float, float, list[float]]:
    """Rows a second of both, at best, and the ratio of each try, in turn: a disk has its moods."""
    rows = load.size * load.batches
    for peer in (service, other):  # once untimed: until the rule is found, a batch takes longer
        _feed(peer, load)
    speeds = [
        [rows / seconds(partial(_feed, peer, load), 1) for peer in (service, other)]
        for _ in range(tries)
    ]
    ours, theirs = (max(speed) for speed in zip(*speeds, strict=True))
    return ours, theirs, [mine / that for mine, that in speeds]


@contextmanager
def _process(*command: str, source: Path = SOURCE) -> Iterator[tuple[str, Path]]:
    """A server in a folder of its own, stopped at the end; where it is, and its folder."""
    environment = os.environ | {"PYTHONPATH": str(source.resolve())}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield urlsplit(process.stdout.readline().split()[1]).netloc, Path(folder)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


@contextmanager
def _service(source: Path = SOURCE) -> Iterator[Peer]:
    # Before 0.3 the modules had no underscore, and the limit on requests an option of its own.
    old = not (source / "littlestone" / "_cli").exists()
    code = f"from littlestone.{'' if old else '_'}cli.main import main; main()"
    begin = (*BEGIN[:-2], "--rate", "1000000") if old else BEGIN
    with _process("-c", code, "serve", "run.db", *begin, source=source) as (address, folder):
        token = json.loads((folder / "run.db.tokens").read_text())["feeder"]
        yield Peer(address, {"Authorization": f"Bearer {token}"})


@contextmanager
def _bare() -> Iterator[Peer]:
    file = str(Path(__file__).with_name("bare.py"))
    with _process("-P", file) as (address, _):  # our `selectors` is not Python's
        yield Peer(address, {})


def _body(size: int, kind: str, seed: int) -> bytes:
    """Rows of four columns, one of them the cause."""
    draw = random.Random(seed)
    rows = [
        {
            "version": draw.choice(("4.1.9", "4.2.0", "4.2.1", "4.3.0")),
            "country": draw.choice(("SE", "NO", "DK", "FI")),
            "device": f"d{draw.randrange(50)}",
            "seconds": round(draw.random() * 100, 2),
        }
        for _ in range(size)
    ]
    labelled = [row | {"failed": int(row["version"] == "4.2.1")} for row in rows]
    return (
        "\n".join(map(json.dumps, labelled)) if kind == "x-ndjson" else json.dumps(labelled)
    ).encode()


_keys = itertools.count()


def _feed(peer: Peer, load: Load) -> None:
    """Send batches over several connections, and wait for every receipt."""
    body = _body(load.size, load.kind, load.size)
    given = peer, body, load.kind, load.batches // load.clients
    each = [threading.Thread(target=_send, args=given) for _ in range(load.clients)]
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()


def _send(
    peer: Peer, body: bytes, kind: str, batches: int, stop: threading.Event | None = None
) -> None:
    connection = http.client.HTTPConnection(peer.address)
    for _ in range(batches):
        key = {"Idempotency-Key": f"k{next(_keys)}", "Content-Type": f"application/{kind}"}
        connection.request("POST", "/rounds", body, peer.headers | key)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise RuntimeError(said.decode())
        if stop is not None and stop.is_set():
            break
    connection.close()


def _reading(peer: Peer, size: int | None) -> list[float]:
    """The times of many reads of the rule, sorted, while batches of a size are written."""
    stop = threading.Event()
    body = _body(size or 1, "json", 1)
    writer = threading.Thread(target=_send, args=(peer, body, "json", 10**9, stop))
    if size is not None:
        writer.start()
    connection = http.client.HTTPConnection(peer.address)
    found = []
    for _ in range(READS):
        start = time.perf_counter()
        connection.request("GET", "/hypothesis")
        connection.getresponse().read()
        found.append(time.perf_counter() - start)
    stop.set()
    connection.close()
    if size is not None:
        writer.join()
    return sorted(found)
