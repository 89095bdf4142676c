"""The service as its clients meet it: who may do what, and that nothing is lost, doubled or leaked.

The service is real (a socket, a thread, a file); only the clock of the limits is not waited for.
"""

import asyncio
import contextlib
import gzip
import json
import logging
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands import littlestone
from effort import scaled
from littlestone._classes.sets import Points
from littlestone._classes.thresholds import Thresholds
from littlestone._data.readers import open_rows
from littlestone._data.schema import file_schema
from littlestone._service import routes, server, writer
from littlestone._service.bodies import (
    MANY_ROWS,
    MAX_ROW,
    BodyFormat,
    Waits,
    parse_block,
    parse_examples,
    receive_body,
)
from littlestone._service.limits import Limits, Refused
from littlestone._service.operations import ACCESS, LogFilter
from littlestone._service.tokens import Role
from littlestone._service.writer import PublicState, Writer
from littlestone._store.files import BadStore, OldCopy
from littlestone._store.request import LearnRequest
from littlestone._store.store import KeyConflict, KeyedBatch, Receipt, Store, open_store, read_store
from running_service import TOKENS, Running, bearing, begun, block_of, events, running, until

ROLES: list[Role | None] = [None, "feeder", "operator"]
SCORES = LearnRequest(
    spec="thresholds:score:0:100:5", label="bad", epsilon=1.0, delta=1e-9, horizon=100_000
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for every test that does not spoil it."""
    with running(tmp_path_factory.mktemp("service") / "run.db") as found:
        found.feed(events(100))
        yield found


# Who may do what.

OPEN = {
    "/hypothesis", "/releases", "/evidence", "/guarantee", "/ready", "/openapi.json", "/",
    "/live", "/metrics",
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", sorted(OPEN))
def test_rules_are_for_everybody(served: Running, path: str, role: Role | None) -> None:
    assert served.get(path, role).status_code == 200


@pytest.mark.parametrize(
    ("role", "writes", "looks"),
    [(None, 401, 401), ("feeder", 200, 403), ("operator", 403, 200), ("other", 401, 401)],
)
def test_only_a_feeder_writes_and_only_an_operator_looks_inside(
    served: Running, role: Any, writes: int, looks: int
) -> None:
    headers = {"Authorization": "Bearer no such token"} if role == "other" else bearing(role)
    before = served.tables()
    answer = served.client.post("/rounds", json=events(3), headers=headers)
    assert answer.status_code == writes
    assert (served.tables() == before) == (writes != 200)
    assert ("www-authenticate" in answer.headers) == (writes == 401)
    inside = served.client.get("/private/trace", headers=headers)
    assert inside.status_code == looks
    private = {"mistakes", "missed", "votes", "rate", "null_rounds", "ledger"}
    assert (private <= inside.json().keys()) == (looks == 200)


@pytest.mark.parametrize("role", ROLES)
def test_everybody_may_ask_what_the_rule_says(served: Running, role: Role | None) -> None:
    answer = served.client.post("/predict", json={"merchant": "M1"}, headers=bearing(role))
    assert answer.json()["predictions"] == [False]
    with served.watching() as found:
        assert next(found)[0] == "rounds"


@pytest.mark.parametrize(
    "given_", ["Basic dXNlcg==", "Bearer", "Bearer  x", f"bearer{TOKENS['feeder']}", "Bearer \xe9"]
)
def test_other_credentials_are_none(served: Running, given_: str) -> None:
    headers = [(b"Authorization", given_.encode("latin-1"))]
    answer = served.client.post("/rounds", json=events(1), headers=headers)
    assert answer.status_code == 401


def test_every_route_is_in_the_table_of_roles(served: Running) -> None:
    described = served.get("/openapi.json").json()
    assert {*described["paths"]} == {
        *(OPEN - {"/openapi.json", "/"}), "/rounds", "/predict", "/events", "/private/trace",
        "/private/metrics",
    }  # fmt: skip
    security = {
        path: routes.get("security")
        for path, verbs in described["paths"].items()
        for routes in verbs.values()
    }
    inside = {"/private/trace", "/private/metrics"}
    assert {path for path, needs in security.items() if needs} == {"/rounds", *inside}
    assert security["/rounds"] == [{"feeder": []}]
    assert all(security[path] == [{"operator": []}] for path in inside)


def test_answers_are_as_described_and_kept_by_no_cache(served: Running) -> None:
    answer = served.get("/nothing/here")
    assert answer.status_code == 404
    assert answer.json()["error"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert served.client.delete("/rounds").status_code == 405


# Rounds.


def test_a_retry_is_not_a_second_round(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served:
        first = served.feed(events(5), key="a")
        tables = served.tables()
        again = served.feed(events(5), key="a")
        other = served.feed(events(6), key="a")
        # The same bytes mean other rounds in the other mode.
        in_other_mode = served.feed(events(5), key="a", query="?bad_rows=null")
        assert first.json() == {"first": 1, "rounds": 5, "null_rounds": 0, "again": False}
        assert again.json() == first.json() | {"again": True}
        assert (other.status_code, in_other_mode.status_code) == (409, 409)
        assert served.tables() == tables
        assert served.feed(events(5), key="b").json()["first"] == 6
        assert served.feed(events(5)).json()["first"] == 11
    with running(tmp_path / "run.db") as served:  # and not after a restart
        assert served.feed(events(5), key="a").json() == first.json() | {"again": True}
        assert served.get("/hypothesis").json()["rounds"] == 15


def test_many_retries_at_once_are_one_batch(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served:
        answers: list[Any] = []
        threads = [
            threading.Thread(target=lambda: answers.append(served.feed(events(9), key="k").json()))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answer["again"] for answer in answers) == [False] + [True] * 7
        assert served.get("/ready").json()["rounds"] == 9


def test_batches_that_wait_are_committed_together_and_answered_apart(tmp_path: Path) -> None:
    with begun(tmp_path / "run.db") as store:
        block = block_of(store, events(2))
        found = store.learn_all(
            [
                KeyedBatch(block, "a"),
                KeyedBatch(block, "a"),
                KeyedBatch(block, "a", b"other"),
                KeyedBatch(block),
            ]
        )
        assert found[:2] == [Receipt(1, 2, 0), Receipt(1, 2, 0, again=True)]
        assert isinstance(found[2], KeyConflict)
        assert found[3] == Receipt(3, 2, 0)
        assert store.published.rounds == read_store(store.path).published.rounds == 4
        assert store.learn_all([KeyedBatch(block, "a")]) == [Receipt(1, 2, 0, again=True)]


class Waiting:
    """A writer whose answers wait until they are called."""

    def __init__(self, path: Path, publish: Callable[[PublicState], None]) -> None:
        self.store = begun(path)
        self.block = block_of(self.store, events(2))
        self.calls = SimpleQueue[Callable[[], None]]()
        self.writer = Writer(self.store, publish, self.calls.put)

    def learn(self, *keys: str) -> list[Any]:
        """What batches wait for, on disk and not answered; the last call answers all."""
        busy = threading.Event()
        self.writer.inspect(lambda learner: busy.wait(60))
        receipts = [self.writer.learn(self.block, key, b"") for key in keys]
        busy.set()  # all wait: one commit
        self.answer = self.calls.get(timeout=60)
        self.writer.stop()
        return receipts


def test_what_a_commit_changed_is_public_before_its_batches_are_acknowledged(
    tmp_path: Path,
) -> None:
    seen = list[tuple[int, list[bool]]]()
    receipts = list[Any]()
    waiting = Waiting(
        tmp_path / "run.db",
        lambda state: seen.append((state.published.rounds, [one.done() for one in receipts])),
    )
    receipts += waiting.learn("a", "b", "c")
    # On disk, and neither public nor acknowledged: that is done where clients are answered.
    assert read_store(waiting.store.path).published.rounds == 6
    assert not seen
    assert not any(receipt.done() for receipt in receipts)
    waiting.answer()
    assert seen == [(6, [False] * 3)]
    assert [receipt.result(0).first for receipt in receipts] == [1, 3, 5]
    assert waiting.calls.empty()


def test_a_state_that_cannot_be_published_keeps_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def publish(state: PublicState) -> None:
        raise MemoryError("M7")

    waiting = Waiting(tmp_path / "run.db", publish)
    (receipt,) = waiting.learn("a")
    waiting.answer()
    assert receipt.result(0) == Receipt(1, 2, 0)
    assert "MemoryError at" in caplog.text
    assert "M7" not in caplog.text


def test_an_old_copy_does_not_learn_what_waits(tmp_path: Path) -> None:
    waiting, busy = Waiting(tmp_path / "run.db", lambda state: None), threading.Event()
    waiting.writer.inspect(lambda learner: busy.wait(60))
    receipt = waiting.writer.learn(waiting.block, "a", b"")
    waiting.writer.mark_old_copy("it is an old copy")
    busy.set()
    waiting.calls.get(timeout=60)()
    waiting.writer.stop()
    with pytest.raises(Refused, match="old copy"):
        receipt.result(0)
    assert read_store(waiting.store.path).published.rounds == 0


@pytest.mark.parametrize(
    ("query", "key", "sentence"),
    [
        ("?bad_rows=maybe", "k", "query bad_rows: it must be refuse or null"),
        ("?bad_rows=", "k", "query bad_rows: it must be refuse or null"),
        ("", "", "header idempotency-key: it must be 1 to 200 visible characters"),
        ("", "k" * 201, "header idempotency-key: it must be 1 to 200 visible characters"),
        ("", "two words", "header idempotency-key: it must be 1 to 200 visible characters"),
        ("", "caf\xe9", "header idempotency-key: it must be 1 to 200 visible characters"),
    ],
)
def test_options_of_a_batch_that_cannot_be_read_are_said(
    served: Running, query: str, key: str, sentence: str
) -> None:
    before = served.tables()
    headers = bearing("feeder") | {"Content-Type": "application/json"}
    raw = [(name.encode(), text.encode("latin-1")) for name, text in headers.items()]
    raw.append((b"Idempotency-Key", key.encode("latin-1")))
    answer = served.client.post(f"/rounds{query}", content=json.dumps(events(1)), headers=raw)
    assert (answer.status_code, answer.json()["error"][: len(sentence)]) == (422, sentence)
    assert served.tables() == before


@pytest.mark.parametrize("committed", [False, True], ids=["before the commit", "after it"])
def test_a_batch_that_spoils_a_commit_is_tried_apart_and_never_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Three batches wait while a first is learned; the one with three rows makes them fail."""
    learn, first, go_on = Store.learn_all, threading.Event(), threading.Event()

    def failing(self: Store, batches: list[KeyedBatch]) -> Any:
        if not first.is_set():
            first.set()
            assert go_on.wait(60)
        spoilt = any(len(batch.block) == 3 for batch in batches)
        if spoilt and not committed:
            raise sqlite3.OperationalError("spoilt")
        found = learn(self, batches)
        if spoilt:
            raise sqlite3.OperationalError("nobody knows whether it was written")
        return found

    monkeypatch.setattr(Store, "learn_all", failing)
    store = begun(tmp_path / "run.db")
    with running(tmp_path / "run.db", store=store) as served:
        writer = served.service.writer
        blocks = [block_of(store, events(size)) for size in (1, 2, 3, 4)]
        answers = [writer.learn(blocks[0], None, b"")]
        assert first.wait(60)
        answers += [writer.learn(block, None, b"") for block in blocks[1:]]
        go_on.set()
        done = [answer.exception(60) is None for answer in answers]
        ending = "it is learned" if committed else "none of it is learned"
        assert ending in str(answers[2].exception(60))
        assert done == ([True, False, False, False] if committed else [True, True, False, True])
        rounds = read_store(served.path).published.rounds
        assert rounds == (1 + 2 + 3 + 4 if committed else 1 + 2 + 4)
        assert served.get("/ready").json()["rounds"] == rounds


def test_a_batch_comes_as_json_or_as_lines(served: Running) -> None:
    before = served.get("/ready").json()["rounds"]
    lines = "".join(json.dumps(row) + "\n" for row in events(4)).encode()
    assert served.feed({"rows": events(4)}).json()["rounds"] == 4
    assert served.send(lines, "application/x-ndjson").json()["rounds"] == 4
    assert served.send(lines[:-1], "application/jsonl").json()["rounds"] == 4
    assert served.get("/ready").json()["rounds"] == before + 12


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(-1e300, 1e300),
    st.text(max_size=4), st.just([1]), st.just({}), st.just("\ud800"),
)  # fmt: skip
ROWS = st.lists(
    st.one_of(
        st.fixed_dictionaries({}, optional={"x": CELLS, "y": CELLS, "who": CELLS, "z": CELLS}),
        st.just(7),
    ),
    min_size=1,
    max_size=8,
)


@given(rows=ROWS, numbers=st.booleans(), per_user=st.booleans())
@settings(
    max_examples=scaled(60, least=10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_row_means_what_it_means_in_a_file(
    tmp_path: Path, rows: list[Any], numbers: bool, per_user: bool
) -> None:
    cls = Thresholds(0, 10, column="x") if numbers else Points("x")
    user = "who" if per_user else None
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    sound = json.dumps({"x": 1, "y": 0, "who": "me"}).encode()
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join([*[sound] * 20, lines]))
    with open_rows(tmp_path / "rows.jsonl", cls, label="y", user=user) as read:
        (block,) = read
    forms: list[tuple[bytes, BodyFormat]] = [(json.dumps(rows).encode(), "json"), (lines, "ndjson")]
    for body, form in forms:
        ours = parse_block(body, form, file_schema(cls, "y", user), Limits())
        assert ours.labels.tolist() == block.labels[20:].tolist()
        usable = ours.labels >= 0
        assert repr(ours.columns["x"][usable].tolist()) == repr(
            block.columns["x"][20:][usable].tolist()
        )
        assert [bad.sentence for bad in ours.bad] == [bad.sentence for bad in block.bad]
        if ours.users is not None and block.users is not None:
            assert repr(ours.users.tolist()) == repr(block.users[20:].tolist())


def test_a_bad_batch_changes_nothing_and_says_where(served: Running) -> None:
    before = served.tables()
    rows = [*events(2), {"merchant": "x", "fraud": "perhaps"}, {"merchnt": "x", "fraud": 0}]
    answer = served.feed(rows, key="bad")
    assert answer.status_code == 422
    assert answer.json()["rows"] == [
        {"row": 3, "error": "column 'fraud': 'perhaps' is not 0, 1, true or false"},
        {"row": 4, "error": "no column 'merchant'"},
    ]
    assert served.tables() == before
    receipt = served.feed(rows, key="bad", query="?bad_rows=null").json()
    assert (receipt["rounds"], receipt["null_rounds"]) == (4, 2)
    assert served.feed(rows, query="?bad_rows=maybe").status_code == 422


def test_a_user_goes_with_every_round(tmp_path: Path) -> None:
    task = LearnRequest(
        spec="points:merchant",
        label="fraud",
        epsilon=1.0,
        delta=1e-9,
        horizon=10_000,
        user="who",
        cap=20,
    )
    with running(tmp_path / "run.db", task=task) as served:
        assert "no column 'who'" in served.feed(events(2)).json()["error"]
        rows = [row | {"who": n % 7} for n, row in enumerate(events(20))]
        assert served.feed(rows).json() == {
            "first": 1, "rounds": 20, "null_rounds": 0, "again": False
        }  # fmt: skip
        assert served.get("/guarantee").json()["unit"] == "user"
        long = json.dumps([row | {"who": 77} for row in rows]).replace("77", "7" * 5000, 1)
        refused = served.send(long.encode()).json()
        assert refused["rows"][0]["error"] == "column 'who': the number is too large"
        taken = served.send(long.encode(), query="?bad_rows=null").json()
        assert (taken["rounds"], taken["null_rounds"]) == (20, 1)


def test_the_rule_is_published_and_says_what_it_says(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served:
        assert served.feed_until_found() == "merchant = 'M7'"
        now = served.get("/hypothesis").json()
        assert now["stood"] == now["rounds"] - now["round"] + 1
        assert now["since"]
        listed = served.get("/releases").json()
        assert [release["number"] for release in listed["releases"]] == [
            *range(1, listed["total"] + 1)
        ]
        after = served.get("/releases", params={"after": 1}).json()["releases"]
        assert after == listed["releases"][1:]
        rows = [{"merchant": "M7"}, {"merchant": "M8", "more": [1]}]
        said = served.client.post("/predict", json=rows).json()
        assert said == {"sentence": "merchant = 'M7'", "predictions": [True, False]}
        wrong = served.client.post("/predict", json=[{"merchant": "M7"}, {}])
        assert wrong.json()["rows"] == [{"row": 2, "error": "no column 'merchant'"}]
        inside = served.get("/private/trace", "operator").json()
        assert inside["mistakes"] > 0
        assert inside["rounds"] == now["rounds"]
        assert inside["mistakes_of_rule"] <= inside["mistakes"]
        assert len(served.get("/private/trace?samples=3", "operator").json()["samples"]) == 3
        stored = read_store(served.path).published.releases
        assert [str(release.rule) for release in stored] == [
            release["sentence"] for release in listed["releases"]
        ]


# Limits.


@pytest.mark.parametrize("kind", ["json", "x-ndjson"])
def test_rows_beyond_the_limit_are_counted_and_not_parsed(served: Running, kind: str) -> None:
    """8 MiB of `[],` were parsed in 3.6 seconds, in which nothing else was answered."""
    separator = b"," if kind == "json" else b"\n"
    body = b"[" + separator.join([b"[]"] * 100_001) + b", and this is not JSON"
    answer = served.send(body, f"application/{kind}")
    assert (answer.status_code, "100,000 rows" in answer.text) == (413, True)


def test_a_row_beyond_the_limit_is_refused_wherever_it_stands(served: Running) -> None:
    row, sound = b"[" + b"[]," * MAX_ROW + b"[]]", json.dumps(events(1)[0]).encode()
    for body in (row, sound + b"," + row, row + b"," + sound):
        assert served.send(b"[" + body + b"]").status_code == 413
    assert served.send(sound + b"\n" + row, "application/x-ndjson").status_code == 422
    # Windows of the text: a row is read alike wherever one of them ends.
    tricky = json.dumps({"merchant": "},{", "fraud": 0, "more": {"a": 1}}).encode()
    for most in (MANY_ROWS, MAX_ROW, 2 * MAX_ROW):
        for more in range(most - 3 * len(sound), most + len(sound), 23):
            rows = b"[" + sound + b"," + b" " * more + (tricky + b" , 12345 , ") * 3 + sound + b"]"
            taken = served.send(rows, query="?bad_rows=null").json()
            assert (taken["rounds"], taken["null_rounds"]) == (8, 3)


def test_a_body_too_long_is_refused_before_it_is_read(tmp_path: Path) -> None:
    limits = Limits(body=2000, public_body=1000, rows=20, rate=1e6)
    with running(tmp_path / "run.db", limits=limits) as served:
        before = served.tables()
        assert served.send(b" " * 2001).status_code == 413
        assert served.send(b" " * 1001).status_code == 400  # a feeder may, and it is no JSON
        assert served.client.post("/predict", content=b" " * 1001).status_code == 413
        headers = bearing("feeder", **{"Content-Type": "application/json"})
        chunked = served.client.post("/rounds", content=iter([b" " * 900] * 9), headers=headers)
        assert chunked.status_code == 413
        assert served.feed(events(21)).status_code == 413
        assert served.send(b"{}\n" * 21, "application/x-ndjson").status_code == 413
        assert served.tables() == before
        assert served.feed(events(20)).status_code == 200


def test_asking_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    with running(tmp_path / "run.db", limits=Limits(rate=0.001)) as served:
        assert served.get("/ready").status_code == 200
        answer = served.get("/ready")
        assert answer.status_code == 429
        assert 900 < int(answer.headers["retry-after"]) <= 1000
        assert served.feed(events(1)).status_code == 200  # a token has a bucket of its own
        assert served.feed(events(1)).status_code == 429
        assert served.feed(events(1), role=None).status_code == 429  # guessing tokens is slow
        for path in ("/", "/openapi.json", "/nothing/here", "/events"):
            assert served.get(path).status_code == 429, path


def test_a_client_is_who_connects_unless_a_trusted_proxy_says_otherwise(tmp_path: Path) -> None:
    def asked(served: Running, *clients: str) -> list[int]:
        headers = [{"X-Forwarded-For": client} for client in clients]
        return [served.client.get("/ready", headers=some).status_code for some in headers]

    limits = Limits(rate=0.001)
    with running(tmp_path / "run.db", limits=limits) as served:
        assert asked(served, "192.0.2.1", "192.0.2.2") == [200, 429]
    with running(tmp_path / "run.db", limits=limits, proxies=["127.0.0.0/8"]) as served:
        assert asked(served, "192.0.2.1", "192.0.2.2", "192.0.2.2") == [200, 200, 429]
        assert asked(served, "2001:db8::1", "2001:db8::2") == [200, 429]  # one site has many


def test_a_name_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "run.db", hosts=["Wall.example"]) as served:
        for name in ("localhost:1", "127.0.0.1", "[::1]:8000", "192.0.2.7", "wall.example.:80"):
            answer = served.client.get("/hypothesis", headers={"Host": name})
            assert answer.status_code == 200, name
        evil = "evil.example", "evil.example:8000", "wall.example.evil", "localhost.evil", ":", "["
        for name in evil:
            for path in ("/hypothesis", "/", "/openapi.json", "/nothing/here"):
                answer = served.client.get(path, headers={"Host": name})
                assert answer.status_code == 421, name
                assert "--host-name" in answer.json()["error"]
        refused = served.client.post("/rounds", json=events(1), headers={
            **bearing("feeder"), "Host": "evil.example"
        })  # fmt: skip
        assert refused.status_code == 421
        with served.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n") as raw:
            assert raw.recv(100).startswith(b"HTTP/1.1 421")
        assert served.get("/ready").json()["rounds"] == 0


def test_a_head_is_a_get_without_its_body(served: Running) -> None:
    changing = {"/metrics"}  # with every request
    for path in sorted((OPEN | {"/nothing/here", "/rounds", "/private/trace"}) - changing):
        answer, wanted_ = served.client.head(path), served.get(path)
        assert (answer.status_code, answer.content) == (wanted_.status_code, b""), path
        for header in ("content-type", "content-length"):
            assert answer.headers.get(header) == wanted_.headers.get(header), path
    assert served.client.head("/events").headers["content-type"].startswith("text/event-stream")
    until(lambda: served.service.watchers.taken == 0)


def test_predictions_hold_up_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many large bodies are read, and none of it ends; everything else is answered meanwhile."""
    go_on, read = threading.Event(), parse_examples

    def slowly(body: bytes, *given: Any) -> Any:
        assert len(body) < 1 << 12 or go_on.wait(60)
        return read(body, *given)

    monkeypatch.setattr(routes, "parse_examples", slowly)
    with running(tmp_path / "run.db") as served:
        rows, answers = [{"merchant": f"M{n}"} for n in range(1000)], list[int]()

        def ask() -> None:
            answers.append(served.client.post("/predict", json=rows).status_code)

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(answers) == 16)  # one address has four of the places
            assert {*answers} == {429}
            with httpx.Client(base_url=served.url, timeout=20) as client:
                assert client.get("/hypothesis").status_code == 200
                assert client.post("/predict", json=rows[0]).status_code == 200
                body = client.post("/rounds", json=events(4000), headers=bearing("feeder"))
                assert body.json()["rounds"] == 4000
        finally:
            go_on.set()
            for thread in threads:
                thread.join()
        assert answers[16:] == [200] * 4


def test_a_full_queue_is_told_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, go_on = threading.Event(), threading.Event()
    learn = Store.learn_all

    def slowly(self: Store, *given: Any, **more: Any) -> Any:
        begin.set()
        assert go_on.wait(60)
        return learn(self, *given, **more)

    monkeypatch.setattr(Store, "learn_all", slowly)
    with running(tmp_path / "run.db", limits=Limits(queue=1, rate=1e6)) as served:
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(served.feed(events(2), key="a")))
        thread.start()
        assert begin.wait(60)
        full = served.feed(events(2), key="b")
        rounds = served.get("/hypothesis").json()["rounds"]
        go_on.set()
        thread.join()
        assert full.status_code == 503
        assert full.headers["retry-after"] == "1"
        assert rounds == 0
        assert answers[0].json()["rounds"] == 2
        assert served.feed(events(2), key="b").json()["first"] == 3


def test_subscribers_have_places(tmp_path: Path) -> None:
    limits = Limits(watchers=2, watchers_each=1, rate=1e6)
    with running(tmp_path / "run.db", limits=limits) as served:
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with served.watching() as found, httpx.Client(base_url=served.url, transport=other) as them:
            next(found)
            assert served.get("/events").status_code == 429  # one of the two is for others
            with them.stream("GET", "/events") as answer:
                assert answer.status_code == 200
                assert served.get("/events").status_code == 503
            assert served.get("/hypothesis").status_code == 200
        until(lambda: served.service.watchers.taken == 0)
        with served.watching() as found:
            assert next(found)[0] == "rounds"


@pytest.mark.parametrize("limits", [Limits(body_timeout=0.05), Limits(idle_timeout=0.05)])
def test_a_slow_body_is_not_waited_for(tmp_path: Path, limits: Limits) -> None:
    with running(tmp_path / "run.db", limits=limits) as served:
        wait = threading.Event()

        def drip() -> Iterator[bytes]:
            yield b"["
            wait.wait(0.5)
            yield b"]"

        headers = bearing("feeder", **{"Content-Type": "application/json"})
        answer = served.client.post("/rounds", content=drip(), headers=headers)
        assert answer.status_code == 408


# Clients that keep a connection and do not use it.

GET = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
QUICK = Limits(idle_timeout=0.3, rate=1e6)
KEPT = {
    "nothing": (b"", b"", b""),
    "half a head": (b"GET / HTTP/1.1\r\n", b"X: y\r\n", b""),
    "silence after an answer": (GET, b"", b"HTTP/1.1 200"),
    "half a second head": (GET, b"G", b"HTTP/1.1 200"),
    "a body that was refused": (LONG, b"x", b"HTTP/1.1 413"),
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("quick") / "run.db", limits=QUICK) as found:
        yield found


@pytest.mark.parametrize("name", KEPT)
def test_a_connection_that_is_not_used_is_closed(quick: Running, name: str) -> None:
    """Also while pieces keep coming: the time is for the whole."""
    first, more, begins = KEPT[name]
    with quick.raw(first) as raw:
        raw.settimeout(0.01)
        came = bytearray()

        def is_closed() -> bool:
            try:
                raw.sendall(more)
                piece = raw.recv(1 << 16)
            except TimeoutError:
                return False
            except OSError:
                return True
            came.extend(piece)
            return not piece

        until(is_closed)
        assert came.startswith(begins)


@pytest.mark.skipif(sys.platform != "linux", reason="the system drops such clients on Linux only")
def test_a_client_that_does_not_read_is_not_written_to_for_ever(quick: Running) -> None:
    with quick.raw() as raw:
        raw.settimeout(0.1)
        with contextlib.suppress(OSError):  # until neither side takes any more
            raw.sendall(GET * 20_000)

        def is_dropped() -> bool:
            with contextlib.suppress(TimeoutError):
                try:
                    raw.sendall(GET)
                except OSError as error:
                    return not isinstance(error, TimeoutError)
            return False

        until(is_dropped)


@pytest.mark.parametrize("lengths", [(0, 1), (1, 0)], ids=["length first", "length last"])
def test_a_request_of_two_lengths_is_the_last_of_its_connection(
    served: Running, lengths: tuple[int, int]
) -> None:
    """A proxy in front may take what follows for a part of it, or for a request of another client."""
    said = (b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n")
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n" + b"".join(said[n] for n in lengths)
    with served.raw(head, b"\r\n2\r\n[]\r\n0\r\n\r\n", GET) as raw:
        raw.settimeout(60)
        came = b"".join(iter(lambda: raw.recv(1 << 16), b""))
    assert came.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in came.lower()


def test_half_a_body_does_not_delay_a_stop(tmp_path: Path) -> None:
    head = f"POST /rounds HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKENS['feeder']}"
    with running(tmp_path / "run.db") as served:
        raw = served.raw(head.encode(), b"\r\nContent-Length: 100\r\n\r\n[")
        until(lambda: served.service.batches.taken == 1)
    with raw:
        assert raw.recv(100).startswith(b"HTTP/1.1 503")


def test_a_batch_that_outlasts_a_stop_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, go_on, learn = threading.Event(), threading.Event(), Store.learn_all

    def slowly(self: Store, *given: Any) -> Any:
        begin.set()
        assert go_on.wait(60)
        return learn(self, *given)

    monkeypatch.setattr(Store, "learn_all", slowly)
    monkeypatch.setattr(server, "GRACE", 0.1)
    answers: list[httpx.Response] = []

    def feed(url: str, key: str) -> None:
        headers = bearing("feeder", **{"Idempotency-Key": key})
        answers.append(httpx.post(f"{url}/rounds", json=events(2), headers=headers))
        if len(answers) == 2:
            go_on.set()

    with running(tmp_path / "run.db") as first:
        threads = [threading.Thread(target=feed, args=(first.url, key)) for key in "ab"]
        threads[0].start()
        assert begin.wait(60)
        threads[1].start()
        until(lambda: first.service.writer.queued == 1)
    for thread in threads:
        thread.join()
    for answer in answers:
        assert answer.status_code == 503
        assert "send it again, with the same key" in answer.json()["error"]
    # What was begun is learned, and what was not is dropped.
    with running(tmp_path / "run.db") as again:
        assert again.get("/ready").json()["rounds"] == 2
        assert again.feed(events(2), key="a").json()["again"]
        assert not again.feed(events(2), key="b").json()["again"]


def test_a_log_cannot_be_flooded() -> None:
    now, written = [0.0], list[str]()
    careful = LogFilter(clock=lambda: now[0])

    def log(name: str, text: str, *parts: object) -> None:
        line = logging.makeLogRecord({"name": name, "msg": text, "args": parts})
        if careful.filter(line):
            written.append(line.getMessage())

    for n in range(1000):
        log("littlestone", "a fault of ours: %s", n)
    assert (len(written), written[0]) == (5, "a fault of ours: 0")
    now[0] = 1.0
    log("littlestone", "a fault of ours: %s", "\x1b[2J\n")
    assert written[-1] == (
        "a fault of ours: \\x1b[2J\\n (and 995 lines like it, which were left out)"
    )
    for _ in range(1000):
        log(ACCESS.name, "%s", "a request")
    assert written.count("a request") == 100


# Bodies that nobody should send.

WRONG = {
    "no JSON": b"hello",
    "empty": b"",
    "cut off": b'[{"merchant": "a", "fraud": ',
    "not UTF-8": b'[{"merchant": "\xff\xfe", "fraud": 0}]',
    "a lone surrogate": b'[{"merchant": "\\ud800", "fraud": 0}]',
    "NaN": b'[{"merchant": "a", "fraud": NaN}]',
    "NaN elsewhere": b'[{"merchant": NaN, "fraud": 0}]',
    "infinity": b'[{"merchant": -Infinity, "fraud": 0}]',
    "a huge number": b'[{"merchant": 1e999, "fraud": 0}]',
    "a huge label": b'[{"merchant": "a", "fraud": 1e999}]',
    "a number of many digits": b'[{"merchant": ' + b"9" * 5000 + b', "fraud": 0}]',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'[{"merchant":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}]",
    "many columns": json.dumps([{f"c{n}": 0 for n in range(100_000)} | events(1)[0]]).encode(),
    "no rows": b"[]",
    "no list": b'{"rows": 7}',
    "more than rows": b'{"rows": [], "more": 1}',
    "one row": b'{"merchant": "a", "fraud": 0}',
    "text": b'"rows"',
    "rows that are lists": b'[["a", 0]]',
    "null": b"null",
    "a mark of byte order": b'\xef\xbb\xbf[{"merchant": "a", "fraud": 0}]',
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_body_gets_a_sentence_and_changes_nothing(served: Running, name: str) -> None:
    before = served.tables()
    answer = served.send(WRONG[name])
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"]
    assert len(answer.text) < 5000
    if b"\n" not in WRONG[name] and WRONG[name]:
        line = WRONG[name][1:-1] if WRONG[name].startswith(b"[") else WRONG[name]
        if name not in ("no rows", "one row"):
            assert served.send(line, "application/x-ndjson").status_code == 422
    if name != "one row":
        predicted = served.client.post("/predict", content=WRONG[name])
        large = len(WRONG[name]) > served.service.limits.public_body
        expected = (413,) if large else (200,) if "label" in name else (400, 422)
        assert predicted.status_code in expected
    assert served.tables() == before


@pytest.mark.parametrize("kind", ["text/csv", "application/json; charset=utf-16", "x"])
def test_an_unknown_kind_of_body_is_refused(served: Running, kind: str) -> None:
    assert served.send(b"[]", kind).status_code == 415


def test_a_packed_body_is_refused(served: Running) -> None:
    headers = bearing("feeder", **{"Content-Encoding": "gzip"})
    packed = gzip.compress(json.dumps(events(1)).encode())
    assert served.client.post("/rounds", content=packed, headers=headers).status_code == 415


@given(body=st.binary(max_size=80), query=st.sampled_from(["", "?bad_rows=null"]))
@settings(
    max_examples=scaled(40, least=10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_lines_are_rounds_or_refused(served: Running, body: bytes, query: str) -> None:
    before = served.get("/ready").json()["rounds"]
    answer = served.send(body, "application/x-ndjson", query)
    after = served.get("/ready").json()["rounds"]
    lines = body.count(b"\n") + (body[-1:] not in (b"\n", b""))
    if query and lines:
        assert (answer.status_code, after - before) == (200, lines)
    else:
        assert (answer.status_code, after) == (422, before)


def test_numbers_that_no_computer_holds_are_refused(tmp_path: Path) -> None:
    with running(tmp_path / "run.db", task=SCORES) as served:
        for number in ("1e999", "-1e999", "9" * 5000, "NaN", '"high"', "[7]"):
            answer = served.send(b'[{"score": %s, "bad": 0}]' % number.encode())
            assert answer.status_code in (400, 422), number
        for number in ("1e300", "1" + "0" * 400, '"7"', "true"):  # floats, as everywhere (Lemma 0)
            answer = served.send(b'[{"score": %s, "bad": 0}]' % number.encode())
            assert answer.status_code == 200, number


def test_refusals_are_sentences() -> None:
    with pytest.raises(Refused, match="nested too deep"):
        parse_block(b"[" * 10**6, "json", file_schema(Points("x"), "y", None), Limits())


@pytest.mark.parametrize("digits", [4299, 4300, 4301])
def test_a_long_number_is_read_alike_whatever_another_row_holds(digits: int) -> None:
    """A body with a number that is too long is decoded in a second way."""
    schema = file_schema(Points("x"), "y", None)
    for number in ("9" * digits, "-" + "9" * digits):
        first = [
            parse_block(f'[{{"x": {number}, "y": 1}}, {other}]'.encode(), "json", schema, Limits())
            .part(0, 1)
            .labels.tolist()
            for other in ('{"x": 1, "y": 0}', f'{{"x": {"1" * 5000}, "y": 0}}')
        ]
        assert first == [[1 if digits <= 4300 else -1]] * 2


# What outlives the process.


def test_a_restart_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with running(path) as served:
        served.feed_until_found()
        before = {name: served.get(name).json() for name in ("/hypothesis", "/guarantee")}
        inside = served.get("/private/trace", "operator").json()
    with running(path) as served:
        for name, said in before.items():
            assert served.get(name).json() | {"since": None} == said | {"since": None}
        assert served.get("/private/trace", "operator").json() == inside
        assert served.feed(events(1)).json()["first"] == inside["rounds"] + 1


def test_a_full_disk_publishes_nothing_and_is_gone_on_from(tmp_path: Path) -> None:
    store = begun(tmp_path / "run.db")
    with running(tmp_path / "run.db", store=store) as served:
        served.feed(events(10), key="a")
        before = served.tables()
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        rows = [{"merchant": f"{'long' * 200}{n}", "fraud": 1} for n in range(2000)]
        full = served.feed(rows, key="b")
        assert full.status_code == 503
        assert "retry-after" in full.headers
        known = served.tables()
        for name in ("about", "seal"):  # a new generation: it was opened again
            assert known.pop(name) != before.pop(name)
        assert known == before
        assert served.get("/hypothesis").json()["rounds"] == 10
        assert served.get("/ready").status_code == 200
        assert served.feed(events(10), key="a").json()["again"]
        assert served.feed(rows, key="b").json() == {
            "first": 11, "rounds": 2000, "null_rounds": 0, "again": False
        }  # fmt: skip


def test_a_file_that_cannot_be_opened_again_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [True]

    def reopen(path: Path, after: int) -> Store:
        if broken[0]:
            raise sqlite3.OperationalError("disk I/O error")
        return open_store(path, after=after)

    monkeypatch.setattr(writer, "open_store", reopen)
    store = begun(tmp_path / "run.db")
    with running(tmp_path / "run.db", store=store) as served:
        store.close()
        assert served.feed(events(2), key="a").status_code == 503
        assert served.feed(events(2), key="a").status_code == 503
        assert served.get("/ready").status_code == 503
        assert served.get("/hypothesis").status_code == 200
        broken[0] = False
        assert served.feed(events(2), key="a").json()["first"] == 1
        assert served.get("/ready").status_code == 200


@pytest.mark.parametrize("dead", [False, True], ids=["while it lives", "while it is broken"])
def test_a_file_that_another_took_is_not_taken_back(tmp_path: Path, dead: bool) -> None:
    store = begun(tmp_path / "run.db")
    with running(tmp_path / "run.db", store=store) as served:
        served.feed(events(3))
        with open_store(tmp_path / "run.db") as other:
            if dead:
                store.close()
            for _ in range(2):
                answer = served.feed(events(3))
                assert answer.status_code == 503
                assert "another process" in answer.json()["error"]
                assert "retry-after" not in answer.headers
            health = served.get("/ready")
            assert health.status_code == 503
            assert "another process" in health.json()["error"]
            assert served.get("/hypothesis").json()["rounds"] == 3
            receipt = other.learn(block_of(other, events(3)))  # it is still the other's
            assert receipt.first == 4
            assert read_store(served.path).generation == other.generation


# An old copy.


def last_mark(served: Running) -> str:
    with served.watching() as found:
        name, mark, data = next(found)
    assert (name, data["rounds"]) == ("rounds", served.get("/ready").json()["rounds"])
    return mark


def test_a_witness_that_is_ahead_stops_an_old_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "run.db", tmp_path / "copy.db"
    with running(path) as served:
        served.feed(events(10))
        behind = last_mark(served)
    shutil.copy(path, copy)
    with running(path) as served:
        served.feed(events(10))
        ahead = last_mark(served)
    shutil.copy(copy, path)
    rounds, rest = ahead.split("-", 1)
    forged = f"{int(rounds) + 1000}-{rest}"
    with running(path) as served:
        for harmless in (behind, forged, "20-1-x", "-", "", "9" * 99, "\xff", rest):
            with served.client.stream(
                "GET", "/events", headers=[(b"Last-Event-ID", harmless.encode("latin-1"))]
            ) as answer:
                assert answer.status_code == 200
            assert served.get("/ready").status_code == 200, harmless
        assert served.feed(events(1)).status_code == 200
        with served.watching(ahead) as found:
            _, mark, _ = next(found)
        assert mark == ""  # the witness keeps what it has
        refused = served.feed(events(1))
        assert refused.status_code == 503
        assert "old copy" in refused.json()["error"]
        assert "old copy" in served.get("/ready").json()["error"]
        assert served.get("/hypothesis").json()["rounds"] == 11
    with pytest.raises(OldCopy, match=r"is an old copy.*Put the newest file back"):
        open_store(path)  # a restart forgets nothing
    done = littlestone("learn", "-", "--db", path, text="merchant,fraud\nM1,0\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is an old copy" in done.stderr
    assert "is an old copy" in littlestone("show", path).stdout


def test_a_service_that_lost_the_file_does_not_judge_it(tmp_path: Path) -> None:
    """Its successor is ahead of it: whoever has seen that is no witness of an old copy."""
    with running(tmp_path / "run.db") as first, running(tmp_path / "run.db") as second:
        second.feed(events(10))
        ahead = last_mark(second)
        with first.watching(ahead):
            pass
        first.service.writer.inspect(lambda learner: None).exception()  # after what is queued
        assert "another process" in first.get("/ready").json()["error"]
        assert second.feed(events(10)).status_code == 200
    assert not read_store(tmp_path / "run.db").marks.old_copy


def test_a_file_that_was_moved_away_takes_no_more_rounds(tmp_path: Path) -> None:
    """Nor does the service go on with another file that is put in its place."""
    path = tmp_path / "run.db"
    with running(path) as served:
        served.feed(events(10))
        path.rename(tmp_path / "away.db")
        begun(tmp_path / "other.db").close()
        (tmp_path / "other.db").rename(path)
        for _ in range(2):
            refused = served.feed(events(10))
            assert refused.status_code == 503
            assert "moved, removed or replaced" in refused.json()["error"]
        assert served.get("/hypothesis").json()["rounds"] == 10
    with pytest.raises(BadStore, match="the last commits of"):
        read_store(path)
    (tmp_path / "away.db").rename(path)
    with open_store(path) as store:
        assert store.published.rounds == 10


def test_a_witness_of_another_history_stops_it_too(tmp_path: Path) -> None:
    path, copy = tmp_path / "run.db", tmp_path / "copy.db"
    with running(path) as served:
        served.feed(events(10))
    shutil.copy(path, copy)
    with running(path) as served:
        served.feed_until_found()
        seen = last_mark(served)
        rounds = served.get("/ready").json()["rounds"]
    shutil.copy(copy, path)
    with running(path) as served:
        rows = [{"merchant": "other", "fraud": 1}] * 1000
        while served.get("/ready").json()["rounds"] <= rounds:
            served.feed(rows)
        with served.client.stream("GET", "/events", params={"last": seen}):
            pass
        assert "old copy" in served.feed(events(1)).json()["error"]


def test_events_tell_of_releases_and_rounds_after_they_are_on_disk(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served, served.watching() as found:
        name, mark, data = next(found)
        assert (name, data["rounds"], data["releases"]) == ("rounds", 0, 1)
        sentence = served.feed_until_found()
        seen: list[tuple[str, str, Any]] = []
        while not seen or seen[-1][0] != "release":
            seen.append(next(found))
        assert seen[-1][2]["sentence"] == sentence
        rounds = next(found)
        assert rounds[2]["releases"] == 2
        assert read_store(served.path).published.rounds >= rounds[2]["rounds"]
        with served.watching(mark) as again:  # whoever comes back hears what was missed
            assert next(again)[2]["sentence"] == sentence


def test_a_stop_ends_also_a_body_that_has_just_come_too_late() -> None:
    async def play() -> str:
        waits, silent = Waits(), asyncio.Event()
        limits = Limits(idle_timeout=0.1, body_timeout=0.1)
        request: Any = SimpleNamespace(headers={"content-length": "9"}, receive=silent.wait)
        body = asyncio.create_task(receive_body(request, limits, 100, waits))
        await asyncio.sleep(0)
        (timeout,) = waits.timeouts
        loop, problems = asyncio.get_running_loop(), list[object]()
        loop.set_exception_handler(lambda loop, problem: problems.append(problem))
        # Both in one turn of the loop: the timeout has expired, and is not over.
        loop.call_at((timeout.when() or 0) + 1e-6, waits.end)
        time.sleep(0.2)
        with pytest.raises(Refused) as refused:
            await body
        assert waits.ended
        assert not problems
        return refused.value.detail

    assert "stopping" in asyncio.run(play())
