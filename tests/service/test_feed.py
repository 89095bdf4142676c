"""A service that also learns a topic of Kafka in the background."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import littlestone
from littlestone._data import kafka
from littlestone._service import writer
from littlestone._service.writer import TopicFeeder
from littlestone._store.sources import open_topic
from littlestone._store.store import Store, open_store, read_store
from mock_kafka import MockCluster, mock_cluster
from running_service import TASK, Running, events, running, until

pytestmark = pytest.mark.filterwarnings("ignore:delta")


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "POLICY_SECONDS", 0.05)
    monkeypatch.setattr(kafka, "CUT_SECONDS", 0.05)
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def feeder(cluster: MockCluster, name: str, **more: Any) -> TopicFeeder:
    task = replace(TASK, source=cluster.address(name), **more)
    return TopicFeeder(open_topic(task, task.cls), task, task.horizon or 0)


def rounds(service: Running) -> int:
    return int(service.get("/guarantee").json()["rounds"])


def learned(path: Path) -> int:
    """The rows of a topic that are in a store."""
    (source,) = read_store(path).sources
    assert source.topic is not None
    assert source.rows == sum(place.next for place in source.topic.values())
    return source.rows


def test_a_topic_is_learned_while_clients_write(cluster: MockCluster, path: Path) -> None:
    """Each message once, also over a restart."""
    cluster.send("both", events(900))
    with running(path, feeder=feeder(cluster, "both")) as service:
        assert service.feed(events(100)).status_code == 200
        until(lambda: rounds(service) == 1000)
        cluster.send("both", events(50))
        until(lambda: rounds(service) == 1050)
        assert service.get("/ready").json()["status"] == "ok"
    assert learned(path) == 950
    cluster.send("both", events(30))
    with running(path, feeder=feeder(cluster, "both")) as service:
        until(lambda: rounds(service) == 1080)
    assert learned(path) == 980


def test_a_commit_that_fails_is_made_up_for(
    cluster: MockCluster, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the commit and after it: the topic is read again from where the store is."""
    cluster.send("failing", events(600))
    monkeypatch.setattr(writer, "BLOCK_ROWS", 100)
    commit, calls = Store._commit, 0

    def failing(store: Store) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise sqlite3.OperationalError("disk full")
        commit(store)
        if calls == 4:
            raise sqlite3.OperationalError("nobody knows whether it was written")

    monkeypatch.setattr(Store, "_commit", failing)
    with running(path, feeder=feeder(cluster, "failing")) as service:
        until(lambda: rounds(service) == 600)
        assert service.get("/ready").status_code == 200
    assert learned(path) == 600
    assert calls > 6


def test_what_ends_the_reading_is_reported(cluster: MockCluster, path: Path) -> None:
    """Messages that are gone: the service goes on, and says that it is not fed."""
    cluster.send("lost", events(80))
    with running(path, feeder=feeder(cluster, "lost")) as service:
        until(lambda: rounds(service) == 80)
    for _ in range(8):
        cluster.send("lost", ["x" * 900_000], partition=2)
    with running(path, feeder=feeder(cluster, "lost")) as service:
        until(lambda: service.get("/ready").status_code == 503)
        assert "of partition 2 are gone" in service.get("/ready").text
        assert service.feed(events(10)).status_code == 200
        assert rounds(service) == 90
    with running(path, feeder=feeder(cluster, "lost", new_rows=True)) as service:
        until(lambda: rounds(service) > 90)
        assert service.get("/ready").status_code == 200


def test_a_file_that_was_taken_is_fed_no_more(cluster: MockCluster, path: Path) -> None:
    cluster.send("taken", events(40))
    with running(path, feeder=feeder(cluster, "taken")) as service:
        until(lambda: rounds(service) == 40)
        with open_store(path):
            cluster.send("taken", events(40))
            until(
                lambda: service.service.feeder is not None and not service.service.feeder.is_alive()
            )
        assert service.service.feeder is not None
        assert "another process" in str(service.service.feeder.error)
    assert learned(path) == 40


def test_the_horizon_ends_the_reading(cluster: MockCluster, path: Path) -> None:
    cluster.send("enough", events(100))
    task = replace(TASK, source=cluster.address("enough"), horizon=60)
    fed = TopicFeeder(open_topic(task, task.cls), task, 60)
    with running(path, task=task, feeder=fed) as service:
        until(lambda: not fed.is_alive())
        assert rounds(service) == 60
        assert service.get("/ready").status_code == 200


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--source", "day.csv"], "it must be kafka://BROKERS/TOPIC"),
        (["--kafka-option", "a=b"], "require --source"),
        (["--table"], "with `littlestone learn FILE --table"),
        (["--source", "kafka://127.0.0.1/a b"], "a topic is named"),
    ],
)
def test_refusals_at_the_start(path: Path, words: list[str], what: str) -> None:
    """Before the file is made; and no tokens are left."""
    begin = ["--class", "points:merchant", "--label", "fraud", "--horizon", "100", "--port", "0"]
    said = littlestone("serve", path, *begin, *words)
    assert said.returncode == 2
    assert what in said.stderr
    assert not list(path.parent.iterdir())
