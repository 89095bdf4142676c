"""Requests of all kinds, most of them wrong: `make fuzz` sends 100,000, the tests some hundred.

Checked at every request: no answer is a 5xx; one that is refused leaves the store as it was (the
seal in the file is a checksum of every row of every table); one that is accepted adds exactly its
rounds, and one that is sent again adds none. A second client reads the rule all the while. At the
end: the memory of the process, and how long reads took.
"""

import contextlib
import http.client
import json
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil

from commands import MAIN

BEGIN = (
    "serve", "run.db", "--class", "points:merchant", "--label", "fraud", "--delta", "1e-10",
    "--horizon", "10000000", "--port", "0", "--limit", "rate=1000000", "--limit", "body=30000",
    "--limit", "public_body=20000", "--limit", "rows=200", "--limit", "fields=50",
)  # fmt: skip
# Requests between two looks at the memory.
CHUNK = 500
CELLS: list[Any] = [
    "M1", "", "\ud800", "\x00", "é" * 50, 7, -1, 2**70, 1e308, True, None, [], {}, [1], "x" * 5000
]  # fmt: skip
LABELS: list[Any] = [0, 1, "0", "true", True, False]
WRONG_LABELS: list[Any] = ["perhaps", None, 2, [], {}, "", -1, 0.5]
TEXTS = [
    b"", b"hello", b"[", b"null", b"{}", b'"rows"', b"[" * 20_000, b"\xff\xfe", b"[NaN]",
    b'[{"merchant": ' + b"9" * 5000 + b', "fraud": 0}]', b'[{"merchant": 1e999, "fraud": 0}]',
    b'\xef\xbb\xbf[{"merchant": "a", "fraud": 0}]', b'{"rows": [], "x": 1}', b"[[]]", b" " * 29_000,
]  # fmt: skip
PATHS = [
    "/", "/hypothesis", "/releases", "/releases?after=-1", "/releases?after=x", "/evidence",
    "/guarantee", "/ready", "/live", "/ready", "/metrics", "/private/metrics", "/private/trace",
    "/private/trace?samples=99999", "/openapi.json", "/docs", "/x", "/rounds/", "//", "/%00",
    "/%ff?%ff", "/private/../rounds", "/releases?after=1&after=2", "/" + "a" * 3000,
]  # fmt: skip
METHODS = ["GET", "GET", "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "BREW", "TRACE"]
RAW = [
    b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 50,
    b"POST /rounds HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /rounds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nContent-Length: 8\r\n\r\n[",
    b"POST /rounds HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
]  # fmt: skip


class Answer(NamedTuple):
    """What came back; the status is 0 if the connection was closed instead."""

    status: int
    body: bytes
    # Whether the request was sent again after a time without an answer: both may be learned.
    late: bool = False


class Fuzzed(NamedTuple):
    """How many requests there were by status, the memory, and the seconds of reads, sorted."""

    statuses: Counter[int]
    memory: list[int]
    reads: list[float]


class Client:
    """Sends one request after the other, over one connection as long as that lives."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = http.client.HTTPConnection(address, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        late = False
        for attempt in (1, 2):
            try:
                self._connection.request(method, path, body, headers)
                answer = self._connection.getresponse()
                found = Answer(answer.status, answer.read(), late)
                break
            except (OSError, http.client.HTTPException) as error:
                # Closed after the request before, which was refused with its body unread; or, on a
                # machine that was asleep, no answer in time.
                late = isinstance(error, TimeoutError)
                self._connection.close()
                if attempt == 2:
                    return Answer(0, b"", late)
        if answer.will_close:
            self._connection.close()
        return found

    def raw(self, data: bytes) -> Answer:
        host, _, port = self.address.partition(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as link:
            link.settimeout(60)
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
            came = link.recv(1 << 16)
            if came.startswith(b"HTTP/1.1 "):
                return Answer(int(came[9:12]), came)
        return Answer(0, b"")


class Fuzzer:
    """Makes requests and checks their answers against what is in the file."""

    def __init__(self, address: str, folder: Path, draw: random.Random) -> None:
        self.client, self.draw = Client(address), draw
        tokens = json.loads((folder / "run.db.tokens").read_text())
        self.tokens = {role: f"Bearer {tokens[role]}" for role in ("feeder", "operator")}
        self.db = sqlite3.connect(f"file:{folder / 'run.db'}?mode=ro", uri=True)
        self.statuses: Counter[int] = Counter()
        self.keys: list[tuple[str, bytes, str]] = []
        self.number = 0

    def step(self) -> None:
        """Send one request, and check what it did."""
        before, rounds = self._seal(), self._rounds()
        kinds = {
            self._batch: 30, self._odd_body: 30, self._elsewhere: 20, self._prediction: 10,
            self._raw: 5, self._again: 5,
        }  # fmt: skip
        kind = self.draw.choices([*kinds], [*kinds.values()])[0]
        said, answer = kind()
        self.statuses[answer.status] += 1
        assert answer.status < 500, (said, answer)
        after = self._seal()
        if answer.status == 200 and said == "batch":
            receipt = json.loads(answer.body)
            added = 0 if receipt["again"] else receipt["rounds"]
            if not answer.late:
                assert self._rounds() - rounds == added, (said, answer)
                assert added == 0 or receipt["first"] == rounds + 1
        elif not answer.late:
            assert after == before, (said, answer)
        if answer.status >= 400 and answer.body.startswith(b"{"):
            assert json.loads(answer.body)["error"], said

    def _seal(self) -> tuple[Any, ...]:
        return tuple(self.db.execute("SELECT total FROM seal").fetchone())

    def _rounds(self) -> int:
        (public,) = self.db.execute("SELECT public FROM live").fetchone()
        return int(json.loads(public)["rounds"])

    def _row(self, sound: bool) -> Any:
        draw = self.draw
        if sound:
            return {"merchant": f"M{draw.randrange(40)}", "fraud": draw.choice(LABELS)}
        odd = {"merchant": draw.choice(CELLS), "fraud": draw.choice([*LABELS, *WRONG_LABELS])}
        some = {name: value for name, value in odd.items() if draw.random() < 0.8}
        return draw.choice([some, some, some, some | dict.fromkeys(map(str, range(60))), 7, [some]])

    def _headers(self, **more: str) -> dict[str, str]:
        return {"Authorization": self.tokens["feeder"], "Content-Type": "application/json", **more}

    def _batch(self) -> tuple[str, Answer]:
        """Rows, most of them sound; with or without a key; as JSON or as lines."""
        draw = self.draw
        rows = [self._row(draw.random() < 0.97) for _ in range(draw.choice((1, 2, 10, 100)))]
        lines = draw.random() < 0.3
        parts = [json.dumps(row) for row in rows]
        body = "\n".join(parts) if lines else f"[{','.join(parts)}]"
        query = draw.choice(["", "?bad_rows=null", "?bad_rows=refuse", "?bad_rows=x", "?x=1"])
        headers = self._headers()
        if lines:
            headers["Content-Type"] = "application/x-ndjson"
        if draw.random() < 0.6:
            self.number += 1
            headers["Idempotency-Key"] = f"k{self.number}"
            self.keys = [*self.keys[-20:], (f"k{self.number}", body.encode(), query)]
        return "batch", self.client.send("POST", f"/rounds{query}", body.encode(), headers)

    def _again(self) -> tuple[str, Answer]:
        """A key that was used, with the same bytes or with others."""
        if not self.keys:
            return self._batch()
        key, body, query = self.draw.choice(self.keys)
        if self.draw.random() < 0.5:
            body = b'[{"merchant": "other", "fraud": 0}]'
        headers = self._headers(**{"Idempotency-Key": key})
        return "batch", self.client.send("POST", f"/rounds{query}", body, headers)

    def _odd_body(self) -> tuple[str, Answer]:
        """Bytes that are no rows, or not for us: tokens, types, lengths, names that are wrong."""
        draw = self.draw
        body = draw.choice([*TEXTS, draw.randbytes(draw.randrange(300)), b"x" * 40_000])
        if draw.random() < 0.3:
            body = json.dumps([self._row(True)]).encode()
            wrong: list[dict[str, str]] = [
                {
                    "Authorization": draw.choice(
                        ["", "Bearer", "Basic x", "Bearer nobody's", "\xe9"]
                    )
                },
                {"Authorization": self.tokens["operator"]},
                {
                    "Content-Type": draw.choice(
                        ["text/csv", "application/json; charset=utf-16", "x"]
                    )
                },
                {"Content-Encoding": "gzip"},
                {"Idempotency-Key": draw.choice(["", " ", "é", "k" * 300])},
                {"Host": draw.choice(["evil.example", "[", ":", "localhost.evil"])},
            ]
            more = draw.choice(wrong)
        else:
            more = {"Content-Type": draw.choice(["application/json", "application/x-ndjson"])}
        return "odd", self.client.send("POST", "/rounds", body, self._headers(**more))

    def _elsewhere(self) -> tuple[str, Answer]:
        """Any path with any method, by anybody."""
        draw = self.draw
        who = draw.choice([{}, *({"Authorization": token} for token in self.tokens.values())])
        if draw.random() < 0.1:
            mark = draw.choice(["x", "1-1-00-ff", "9" * 150, "-", "\xff", "y" * 300])
            return "events", self.client.send("HEAD", "/events", None, {"Last-Event-ID": mark})
        path, method = draw.choice(PATHS), draw.choice(METHODS)
        return "elsewhere", self.client.send(method, path, None, dict(who))

    def _prediction(self) -> tuple[str, Answer]:
        draw = self.draw
        rows: Any = [self._row(draw.random() < 0.8) for _ in range(draw.choice((1, 5, 150)))]
        body = draw.choice([*TEXTS, json.dumps(rows).encode(), json.dumps(rows[0]).encode()])
        return "predict", self.client.send("POST", "/predict", body, {})

    def _raw(self) -> tuple[str, Answer]:
        data = self.draw.choice([*RAW, self.draw.randbytes(self.draw.randrange(1, 200))])
        return "raw", self.client.raw(data)


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A service as a process of its own: where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *BEGIN],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield urlsplit(process.stdout.readline().split()[1]).netloc, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def reading(address: str, seconds: list[float]) -> Iterator[None]:
    """Read the rule all the while, and note how long each read took."""
    over = threading.Event()

    def read() -> None:
        with closing(Client(address)) as client:
            while not over.is_set():
                begun = time.perf_counter()
                assert client.send("GET", "/hypothesis", None, {}).status == 200
                seconds.append(time.perf_counter() - begun)
                over.wait(0.002)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def fuzz(folder: Path, requests: int, seed: int, report: Callable[[str], Any]) -> Fuzzed:
    """Send so many requests."""
    reads, memory = list[float](), list[int]()
    with server(folder) as (address, process), reading(address, reads):
        fuzzer = Fuzzer(address, folder, random.Random(seed))
        with closing(fuzzer.db), closing(fuzzer.client):
            for number in range(1, 1 + requests):
                fuzzer.step()
                if number % CHUNK == 0 or number == requests:
                    memory.append(process.memory_info().rss)
                if number % (20 * CHUNK) == 0:
                    report(f"{number:,} requests, {memory[-1] >> 20} MiB")
    return Fuzzed(fuzzer.statuses, memory, sorted(reads))


if __name__ == "__main__":
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        fuzzed = fuzz(Path(place), int(sys.argv[1]), random.randrange(10**6), print)
    took = time.monotonic() - begun
    statuses = ", ".join(f"{status}: {n:,}" for status, n in sorted(fuzzed.statuses.items()))
    third = len(fuzzed.memory) // 3
    early, late = max(fuzzed.memory[: third + 1]) >> 20, max(fuzzed.memory[-third - 1 :]) >> 20
    p99 = 1000 * fuzzed.reads[int(0.99 * len(fuzzed.reads))]
    lines = (
        f"by status (0 is a closed connection): {statuses}",
        f"memory, most of the first third {early} MiB and of the last {late} MiB",
        f"GET /hypothesis meanwhile, p99: {p99:.1f} ms",
        f"{sum(fuzzed.statuses.values()):,} requests in {took:,.0f} s, and no 5xx",
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
