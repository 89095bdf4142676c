"""A topic of Kafka in a store: offsets are in the transaction of the rows, and nowhere else."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from commands import MAIN, littlestone
from littlestone._cli.learn import refuse_conflicts, run
from littlestone._data import kafka
from littlestone._data.readers import open_rows
from littlestone._data.rounds import BadStream
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone._store.files import BadStore
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.sources import Source, new_messages, open_topic, topic_source
from littlestone._store.store import Store, StoreLost, StoreView, create, open_store, read_store
from mock_kafka import MockCluster, mock_cluster
from soak import soak_kafka

pytestmark = pytest.mark.filterwarnings("ignore:delta")
HORIZON, ROWS = 4000, 2000


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        cluster.send("day", events(ROWS))
        yield cluster


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "POLICY_SECONDS", 0.05)
    monkeypatch.setattr(kafka, "CUT_SECONDS", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def events(count: int, seed: int = 0) -> list[Any]:
    """Rows whose culprit changes, some of which cannot be read."""
    draw = random.Random(seed)
    found: list[Any] = []
    for n in range(count):
        name = draw.choice(["M1", "M2", "M3"])
        culprit = "M1" if n < count // 2 else "M2"
        found.append({"merchant": name, "fraud": int(name == culprit)} if n % 50 else "bad")
    return found


def asked(source: str, **more: Any) -> LearnRequest:
    options = {"horizon": HORIZON, "seed": 3, "until_end": source.startswith("kafka")} | more
    return LearnRequest(
        source=source, spec="points:merchant", label="fraud", epsilon=20.0, delta=1e-6, **options
    )


def learned(task: LearnRequest, path: Path | None, stop: Event | None = None) -> Any:
    return run(task, lambda outcome: None, path, stop)


def begun(path: Path, task: LearnRequest) -> Store:
    return create(path, task, choose_learner(task, HORIZON), noise=SeededNoise(1))


def feed(store: Store, task: LearnRequest, size: int) -> None:
    """Learn what is new of a topic, in blocks of a size; of an endless one, up to `ROWS` rounds."""
    most = None if task.until_end else ROWS - store.published.rounds
    with open_topic(task, task.cls) as rows:
        source = topic_source(store.sources(), rows, task, rounds=store.published.rounds)
        for block, reached in new_messages(rows, source, size=size, most=most, bad=[]):
            if block is not None:
                store.learn(block, source=reached)


def state(view: StoreView) -> dict[str, Any]:
    return {"public": view.published, "null": view.saved.state["null_rounds"],
            "mistakes": view.saved.state["loop"]["mistakes"]}  # fmt: skip


def test_a_topic_is_learned_as_a_file_of_the_same_rows(
    cluster: MockCluster, tmp_path: Path
) -> None:
    """Whatever the blocks, with a store that is closed and opened again in the middle."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in events(ROWS)]
    (tmp_path / "day.jsonl").write_text("\n".join(lines) + "\n")
    task = asked(str(tmp_path / "day.jsonl"))
    with begun(tmp_path / "file.db", task) as store, open_rows(
        task.source, task.cls, label="fraud"
    ) as rows:  # fmt: skip
        for block in rows:
            store.learn(block)
    expected = state(read_store(tmp_path / "file.db"))
    assert len(expected["public"].releases) > 2
    for size in (97, 4096):
        path = tmp_path / f"{size}.db"
        begun(path, asked(cluster.address("day"))).close()
        with open_store(path, noise=SeededNoise(1)) as store:
            feed(store, asked(cluster.address("day")), size)
        assert state(read_store(path)) == expected


class Killed(BaseException):
    """What stands for a kill: nothing catches it."""


def killed_at_random(
    cluster: MockCluster, path: Path, seed: int, name: str = "day", coming: list[Any] | None = None
) -> list[StoreView]:
    """Learn a topic, dying at a random commit, before or after it, and going on; what was seen.

    Messages that are coming are sent at the commits.
    """
    draw, seen = random.Random(seed), list[StoreView]()
    task, coming = asked(cluster.address(name), until_end=coming is None), coming or []
    begun(path, task).close()
    commit, is_over = Store._commit, False
    while not is_over:
        left = draw.randrange(1, 9)

        def dying(store: Store) -> None:
            nonlocal left
            left -= 1
            count = draw.randrange(1, 200)
            cluster.send(name, coming[:count], partition=draw.randrange(4))
            del coming[:count]
            if left != 1:
                commit(store)
            if left <= 1:
                raise Killed

        with pytest.MonkeyPatch.context() as patch, open_store(path, noise=SeededNoise(1)) as store:
            patch.setattr(Store, "_commit", dying)
            with suppress(Killed):
                feed(store, task, draw.randrange(50, 400))
                is_over = True
        seen.append(read_store(path))
    return seen


def consistent(seen: list[StoreView]) -> None:
    """Nothing lost, nothing twice, and what was published stays."""
    for before, now in zip([None, *seen], seen, strict=False):
        places = [place for source in now.sources for place in (source.topic or {}).values()]
        assert now.published.rounds == sum(place.next for place in places)
        if before is not None:
            old = before.published.releases
            assert now.published.releases[: len(old)] == old
    assert seen[-1].published.rounds == ROWS
    assert seen[-1].saved.state["null_rounds"] == ROWS // 50


def test_kills_lose_nothing_and_count_nothing_twice(cluster: MockCluster, tmp_path: Path) -> None:
    for seed in range(3):
        consistent(killed_at_random(cluster, tmp_path / f"{seed}.db", seed))


@pytest.mark.slow
def test_kills_while_messages_come(cluster: MockCluster, tmp_path: Path) -> None:
    """The same with a topic that is read without an end, whose partitions fill unevenly."""
    whole = events(ROWS)
    cluster.send("live", whole[:300])
    consistent(killed_at_random(cluster, tmp_path / "run.db", 4, "live", whole[300:]))


def apart_before(self: Store, source: Source) -> None:
    """A fault: offsets are committed in a transaction of their own, before the rows."""
    FAITHFUL(self, source)
    self._seal.write()
    self._db.execute("COMMIT")
    self._db.execute("BEGIN IMMEDIATE")
    self._seal.begin()


FAITHFUL = Store._write_source


def apart_after(self: Store, source: Source) -> None:
    """A fault: the offsets of a block are committed with the next block."""
    before, self.late = getattr(self, "late", None), source  # type: ignore[attr-defined]
    if before is not None:
        FAITHFUL(self, before)


@pytest.mark.parametrize("fault", [apart_before, apart_after])
def test_offsets_in_another_transaction_are_found_out(
    cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]
) -> None:
    monkeypatch.setattr(Store, "_write_source", fault)

    def some_seeds() -> None:
        for seed in range(3):
            consistent(killed_at_random(cluster, tmp_path / f"{seed}.db", seed))

    with pytest.raises(AssertionError):
        some_seeds()


def test_a_second_process_takes_over_and_the_first_is_refused(
    cluster: MockCluster, path: Path
) -> None:
    first = begun(path, asked(cluster.address("day")))
    with open_store(path, noise=SeededNoise(1)) as second:
        with pytest.raises(StoreLost):
            feed(first, asked(cluster.address("day")), 100)
        feed(second, asked(cluster.address("day")), 700)
        assert second.published.rounds == ROWS
    first.close()


def test_a_group_is_told_and_never_asked(cluster: MockCluster, path: Path) -> None:
    """Another member of the group takes all partitions by a rebalance: learning goes on."""
    cluster.send("shared", events(800))
    shared = {"group.id": "ours"}
    with mock_member(cluster) as other:
        assert other.assignment()
        task = asked(cluster.address("shared"), kafka=shared)
        assert learned(task, path).learner.rounds == 800
        cluster.send("shared", events(80, seed=1))
        other.consume(1, 0.2)
        assert learned(task, path).learner.rounds == 880
    # Without that member the group's offsets follow those of the store.
    cluster.send("shared", events(40, seed=2))
    task = asked(cluster.address("shared"), kafka={"group.id": "alone"})
    assert learned(task, path).learner.rounds == 920
    told = Consumer({"bootstrap.servers": cluster.brokers, "group.id": "alone"})
    try:
        for _ in range(50):
            (place,) = told.committed([TopicPartition("shared", 0)], timeout=10)
            if place.offset == 230:
                break
            time.sleep(0.1)
        assert place.offset == 230
        # Moved by somebody else, it is of no consequence.
        told.commit(offsets=[TopicPartition("shared", 0, 3)], asynchronous=False)
    finally:
        told.close()
    assert learned(task, path).learner.rounds == 920


class mock_member:  # noqa: N801
    """A member of the group that subscribes, as other programs do."""

    def __init__(self, cluster: MockCluster) -> None:
        self.consumer = Consumer({"bootstrap.servers": cluster.brokers, "group.id": "ours"})

    def __enter__(self) -> Any:
        self.consumer.subscribe(["shared"])
        while not self.consumer.assignment():
            self.consumer.consume(1, 0.2)
        return self.consumer

    def __exit__(self, *problem: object) -> None:
        self.consumer.close()


def test_a_topic_without_a_store(cluster: MockCluster) -> None:
    outcome = learned(asked(cluster.address("day"), horizon=None), None)
    assert outcome.learner.rounds == outcome.learner.plan.horizon == ROWS
    assert outcome.private()["bad_rows"][0].startswith("offset 0: of partition 0: not a line of")


def test_an_endless_run_ends_at_the_horizon(cluster: MockCluster, path: Path) -> None:
    """Exactly there; and a later run has nothing to read."""
    for _ in range(2):
        outcome = learned(asked(cluster.address("day"), until_end=False, horizon=1234), path)
        assert outcome.learner.rounds == 1234
        assert any("horizon of 1,234 rounds is reached" in note for note in outcome.notes)
    with pytest.raises(BadStream, match="say --horizon"):
        learned(asked(cluster.address("day"), until_end=False, horizon=None), None)


def test_a_topic_that_cannot_be_learned_leaves_no_store(cluster: MockCluster, path: Path) -> None:
    cluster.send("bad", ["bad"] * 40)
    with pytest.raises(BadStream, match="40 of the first 40 rows"):
        learned(asked(cluster.address("bad")), path)
    assert not path.exists()


def test_a_topic_beside_a_file_in_one_store(cluster: MockCluster, path: Path) -> None:
    file = path.with_name("some.jsonl")
    file.write_text('{"merchant": "M1", "fraud": 1}\n' * 40)
    assert learned(asked(str(file)), path).learner.rounds == 40
    assert learned(asked(cluster.address("day")), path).learner.rounds == ROWS + 40
    assert learned(asked(str(file)), path).learner.rounds == ROWS + 40
    again = learned(asked(cluster.address("day")), path)
    assert any("no new rows" in note for note in again.notes)
    first, second = read_store(path).sources
    assert (first.topic, second.rows, second.begun) == (None, ROWS, 41)


def test_a_topic_and_one_of_its_partitions_are_not_both_learned(
    cluster: MockCluster, path: Path
) -> None:
    """They have the same messages, which would be in two rounds each."""
    whole, other = path, path.with_name("other.db")
    learned(asked(cluster.address("day")), whole)
    for part in ("day/0", "day/1"):
        learned(asked(cluster.address(part)), other)
    before = read_store(whole), read_store(other)
    for store, source in ((whole, "day/0"), (other, "day")):
        for more in ({}, {"new_rows": True}):
            with pytest.raises(BadStore, match="are not both learned"):
                learned(asked(cluster.address(source), **more), store)
    after = read_store(whole), read_store(other)
    assert [one.published for one in after] == [one.published for one in before]


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"follow": True}, "--follow requires a file"),
        ({"again": True}, "--again requires a file"),
        ({"format": "csv"}, "are JSON objects"),
    ],
)
def test_options_that_are_for_files(more: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        refuse_conflicts(asked("kafka://localhost/t", **more), Path("run.db"))


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"until_end": True}, "--until-end requires a topic"),
        ({"kafka": {"a": "b"}}, "--kafka-option requires a topic"),
        ({"follow": True, "complete": True}, "--follow conflicts with --complete"),
    ],
)
def test_options_that_are_for_topics(more: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        refuse_conflicts(asked("day.csv", **more), Path("run.db"))


def test_secrets_are_not_shown(cluster: MockCluster, path: Path) -> None:
    task = asked("kafka://localhost/t", kafka={"sasl.password": "hunter2"})
    assert "hunter2" not in repr(task)
    said = littlestone(
        "learn", "kafka://127.0.0.1:1/t", "--db", path, "--kafka-option", "sasl.password=hunter2",
        "--kafka-option", "security.protocol=hunter2",
        "--class", "points:merchant", "--label", "fraud", "--horizon", 100,
    )  # fmt: skip
    assert said.returncode == 2
    assert said.stderr.startswith("error: kafka://127.0.0.1:1/t: ")
    assert "hunter2" not in said.stderr + said.stdout
    assert not path.exists()


def test_a_signal_ends_an_endless_run(cluster: MockCluster, path: Path) -> None:
    words = ["learn", cluster.address("day"), "--class", "points:merchant", "--label", "fraud",
             "--horizon", "100000", "--db", str(path), "--json"]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        while not path.exists() or read_store(path).published.rounds < ROWS:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0
    assert json.loads(out)["public"]["rounds"] == ROWS


@pytest.mark.slow
def test_kill_at_random_moments(tmp_path: Path) -> None:
    """The same in `make soak`, more often."""
    found = soak_kafka(tmp_path, 5, random.randrange(10**6))
    assert found.kills == 5
    assert found.moments > 1
