"""A service that runs in a thread of the test, on a port of its own."""

import json
import socket
import sqlite3
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from littlestone._data.rounds import Rounds
from littlestone._data.schema import file_schema
from littlestone._service.app import make_app
from littlestone._service.bodies import parse_block
from littlestone._service.limits import Limits
from littlestone._service.server import Certificate, HttpServer, listening_socket
from littlestone._service.service import Service
from littlestone._service.tokens import Role, Tokens
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import Store, create, open_store

TOKENS: dict[Role, str] = {"feeder": "the feeder's own token", "operator": "the operator's token"}
QUIET: dict[str, Any] = {"version": 1, "disable_existing_loggers": False, "loggers": {}}
TASK = LearnRequest(
    spec="points:merchant", label="fraud", epsilon=1.0, delta=1e-9, horizon=1_000_000
)
CULPRIT = "M7"


def begun(path: Path, task: LearnRequest = TASK) -> Store:
    """A new store for a task."""
    assert task.horizon is not None
    return create(path, task, choose_learner(task, task.horizon))


def opened(path: Path, task: LearnRequest = TASK) -> Store:
    """The store at a path, begun if need be."""
    return open_store(path) if path.exists() else begun(path, task)


def block_of(store: Store, rows: list[dict[str, Any]]) -> Rounds:
    """Rows as the service gives them to its writer."""
    terms = store.about.terms
    schema = file_schema(store.cls, terms.label, terms.user)
    return parse_block(json.dumps(rows).encode(), "json", schema, Limits())


def known_tokens(path: Path) -> Tokens:
    """The tokens that the tests know, in a file."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(TOKENS))
    return Tokens(path)


def bearing(role: Role | None, **more: str) -> dict[str, str]:
    """Headers with the token of a role."""
    return more if role is None else {"Authorization": f"Bearer {TOKENS[role]}", **more}


def events(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows of forty merchants in turn, one of whom is the culprit."""
    names = [f"M{n % 40}" for n in range(first, first + count)]
    return [{"merchant": name, "fraud": int(name == CULPRIT)} for name in names]


@dataclass
class Running:
    """A service that can be talked to."""

    url: str
    client: httpx.Client
    service: Service
    path: Path

    def get(self, path: str, role: Role | None = None, **more: Any) -> httpx.Response:
        return self.client.get(path, headers=bearing(role), **more)

    def raw(self, *pieces: bytes) -> socket.socket:
        """A connection over which some bytes were sent."""
        found = socket.create_connection(("127.0.0.1", int(self.url.rpartition(":")[2])), 60)
        for piece in pieces:
            found.sendall(piece)
        return found

    def feed(
        self, rows: object, key: str | None = None, role: Role | None = "feeder", query: str = ""
    ) -> httpx.Response:
        """Send rows as JSON."""
        headers = bearing(role, **({} if key is None else {"Idempotency-Key": key}))
        return self.client.post(f"/rounds{query}", json=rows, headers=headers)

    def send(self, body: bytes, kind: str = "application/json", query: str = "") -> httpx.Response:
        """Send bytes."""
        headers = bearing("feeder", **{"Content-Type": kind})
        return self.client.post(f"/rounds{query}", content=body, headers=headers)

    def feed_until_found(self) -> str:
        """Feed until the culprit is published."""
        for at in range(0, 200_000, 4000):
            assert self.feed(events(4000, at)).status_code == 200
            sentence = str(self.get("/hypothesis").json()["sentence"])
            if CULPRIT in sentence:
                return sentence
        raise AssertionError("the culprit is not found")

    def tables(self) -> dict[str, list[Any]]:
        """Everything in the file, as another reader sees it."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
            tables = [name for name in names if not name.startswith("sqlite")]
            return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}

    @contextmanager
    def watching(self, last: str | None = None) -> Iterator[Iterator[tuple[str, str, Any]]]:
        """The stream of events: name, id, data."""
        headers = {} if last is None else {"Last-Event-ID": last}
        with self.client.stream("GET", "/events", headers=headers) as answer:
            yield _events(answer.iter_lines())


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come to hold")


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:
            found[name] = value
        elif line == "":
            if "data" in found:
                yield found["event"], found.get("id", ""), json.loads(found["data"])
            found = {}


@contextmanager
def running(
    path: Path,
    *,
    task: LearnRequest = TASK,
    limits: Limits | None = None,
    store: Store | None = None,
    port: int = 0,
    proxies: Sequence[str] = (),
    tokens: Tokens | None = None,
    tls: Certificate | None = None,
    **options: Any,
) -> Iterator[Running]:
    """A service on a file, begun if it is not there; stopped gracefully at the end."""
    limits = limits or Limits(rate=1e6)
    store = opened(path, task) if store is None else store
    keys = known_tokens(path.with_name("tokens")) if tokens is None else tokens
    app = make_app(store, keys, limits, **options)
    with listening_socket("127.0.0.1", port) as listening:
        server = HttpServer(listening, limits, proxies=proxies, certificate=tls, logs=QUIET)
        scheme = "http" if tls is None else "https"
        url = f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=(app,))
        thread.start()
        try:
            until(lambda: server.started.is_set() or not thread.is_alive())
            trusted = True if tls is None else ssl.create_default_context(cafile=tls.chain)
            with httpx.Client(base_url=url, timeout=60, verify=trusted) as client:
                yield Running(url, client, app.state.service, path)
        finally:
            server.stop()
            thread.join()
