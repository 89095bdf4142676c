"""Topics of Kafka as rows, on librdkafka's mock cluster: order, gaps, places, refusals."""

import json
import random
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import littlestone as ls
from littlestone._data import kafka
from littlestone._data.kafka import PartitionPlace, Position, TopicRows, next_rounds
from littlestone._data.readers import open_rows
from littlestone._data.rounds import BadStream, Rounds
from littlestone._data.schema import file_schema
from mock_kafka import PARTITIONS, MockCluster, mock_cluster

SCHEMA = file_schema(ls.Points("merchant"), "fraud", None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock broker does not answer questions about settings, and nobody answers at port 1."""
    monkeypatch.setattr(kafka, "POLICY_SECONDS", 0.05)
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(kafka, "CUT_SECONDS", 0.05)


def rows_of(count: int, seed: int = 0) -> list[Any]:
    """Messages, some of which cannot be read."""
    draw = random.Random(seed)
    names = [draw.choice(["M1", "M2", "M7"]) for _ in range(count)]
    found: list[Any] = [{"merchant": name, "fraud": int(name == "M7")} for name in names]
    odd = [b"\xff", "not JSON", "[1]", None, '{"merchant": 3}', '{"merchant": NaN, "fraud": 1}']
    for at, value in enumerate(odd):
        found[(at + 1) * count // 8] = value
    return found


def topic_rows(cluster: MockCluster, name: str, **options: Any) -> TopicRows:
    return TopicRows(cluster.address(name), SCHEMA, **({"until_end": True} | options))


def read(rows: TopicRows, known: Position | None = None, size: int = 65536) -> list[Rounds]:
    """All blocks of a topic, read to the end."""
    with rows:
        position, _ = rows.begin(known)
        return [block for block, _ in rows.blocks(position, size) if block is not None]


def cells(blocks: list[Rounds]) -> list[Any]:
    """Each round as the learner sees it."""
    found: list[Any] = []
    for block in blocks:
        names, labels = block.columns["merchant"].tolist(), block.labels.tolist()
        found += [None if y < 0 else (x, y) for x, y in zip(names, labels, strict=True)]
    return found


def as_file(path: Path, values: list[Any]) -> list[Any]:
    """The same rows in a file of JSON lines."""
    lines = [b"" if v is None else v if isinstance(v, bytes) else str(v).encode()
             if isinstance(v, str) else json.dumps(v).encode() for v in values]  # fmt: skip
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with open_rows(path, SCHEMA.cls, label="fraud", format="jsonl") as rows:
        return cells(list(rows))


PLACES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 40)), min_size=1, max_size=5
)  # begin and length of each partition


@given(places=PLACES, sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_a_cut_has_one_order_however_it_is_read(
    places: list[tuple[int, int]], sizes: list[int]
) -> None:
    """Every offset once, partitions evenly interleaved, in blocks of any size."""
    position = {
        number: PartitionPlace(begin, begin, begin + count)
        for number, (begin, count) in enumerate(places)
    }
    expected = sorted(
        (Fraction(2 * at + 1, 2 * count), number, begin + at)
        for number, (begin, count) in enumerate(places)
        for at in range(count)
    )
    found: list[tuple[int, int]] = []
    while len(found) < len(expected):
        some = list(zip(*(a.tolist() for a in next_rounds(position, sizes[0])), strict=True))
        assert 0 < len(some) <= sizes[0]
        sizes = [*sizes[1:], sizes[0]]
        for number, offset in some:
            assert position[number].next == offset
            position[number] = position[number]._replace(next=offset + 1)
        found += some
    assert found == [(number, offset) for _, number, offset in expected]
    assert not len(next_rounds(position, 3)[0])


def test_a_partition_is_read_as_the_file_of_its_messages(
    cluster: MockCluster, tmp_path: Path
) -> None:
    values = rows_of(2000)
    cluster.send("one", values, partition=0)
    found = cells(read(TopicRows(cluster.address("one/0"), SCHEMA, until_end=True), size=300))
    assert found == as_file(tmp_path / "rows", values)
    assert found.count(None) == 5


def test_partitions_in_turn_are_read_as_the_file_of_all(
    cluster: MockCluster, tmp_path: Path
) -> None:
    values = rows_of(4000)
    cluster.send("four", values)
    rows = topic_rows(cluster, "four")
    assert rows.length == 4000
    assert cells(read(rows, size=700)) == as_file(tmp_path / "rows", values)


def test_what_a_message_holds_moves_no_other(cluster: MockCluster) -> None:
    """Lemma 0: partitions of different lengths, small fetches, and one message replaced."""
    settings = {"fetch.message.max.bytes": "2000", "queued.min.messages": "10"}
    found = {}
    for name, other in (
        ("plain", None),
        ("long", "x" * 500_000),
        ("bad", b"\xff"),
        ("other", {"merchant": "M9", "fraud": 0}),
    ):
        for number in range(PARTITIONS):
            values = rows_of(50 * (number + 1), seed=number)
            if number == 2 and other is not None:
                values[40] = other
            cluster.send(name, values, partition=number)
        found[name] = cells(read(topic_rows(cluster, name, settings=settings), size=150))
    plain = found.pop("plain")
    assert len(plain) == 500
    for others in found.values():
        (at,) = [n for n, pair in enumerate(zip(plain, others, strict=True)) if pair[0] != pair[1]]
        assert plain[at] is not None


def test_an_offset_without_a_message_is_a_null_round(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a transaction, whose markers have offsets; the rows after it keep their places."""
    cluster.send("gaps", [{"merchant": f"M{n}", "fraud": 1} for n in range(400)])
    whole = cells(read(topic_rows(cluster, "gaps")))
    missing = {(1, 0), (1, 50), (3, 98), (3, 99), (0, 99)}

    class Losing(confluent_kafka.Consumer):
        def consume(self, *limits: Any) -> Any:
            return [
                message
                for message in super().consume(*limits)
                if message.error() or (message.partition(), message.offset()) not in missing
            ]

    monkeypatch.setattr(confluent_kafka, "Consumer", Losing)
    blocks = read(topic_rows(cluster, "gaps"), size=64)
    expected = [None if (n % 4, n // 4) in missing else cell for n, cell in enumerate(whole)]
    assert cells(blocks) == expected
    assert kafka.NO_MESSAGE in blocks[0].bad[0].sentence
    assert "partition 1" in blocks[0].bad[0].sentence


def test_memory_is_bounded_where_one_partition_is_ahead(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions are paused, and nothing is lost or doubled by that."""
    monkeypatch.setattr(kafka, "MOST_WAITING", 20)
    monkeypatch.setattr(kafka, "FETCHED", 50)
    paused = []

    class Noting(confluent_kafka.Consumer):
        def pause(self, partitions: Any) -> None:
            paused.extend(partitions)
            super().pause(partitions)

    monkeypatch.setattr(confluent_kafka, "Consumer", Noting)
    cluster.send("paused", [{"merchant": f"M{n}", "fraud": 1} for n in range(600)])
    found = cells(read(topic_rows(cluster, "paused"), size=40))
    assert found == [(f"M{n}", 1) for n in range(600)]
    assert paused


def test_an_endless_topic_goes_on_with_what_comes(cluster: MockCluster) -> None:
    """Also with a partition that was added; and it ends at the limit on rows."""
    cluster.send("endless", rows_of(400))
    rows, found = topic_rows(cluster, "endless", until_end=False), list[Any]()
    assert rows.length is None
    del rows._marks[3]  # as if the partition had been added since
    with rows:
        position, _ = rows.begin(None)
        assert sorted(position) == [0, 1, 2]
        for block, reached in rows.blocks(position, 100, most=900):
            position = reached
            if block is not None:
                before, found = len(found), [*found, *cells([block])]
                if before < 400 <= len(found):
                    cluster.send("endless", rows_of(700, seed=1))
    assert len(found) == 900
    assert sum(place.next for place in position.values()) == 900
    assert position[3].next > 100


def test_a_stop_ends_an_endless_topic(cluster: MockCluster) -> None:
    cluster.send("stopped", rows_of(100))
    stop = threading.Event()
    with topic_rows(cluster, "stopped", until_end=False, stop=stop) as rows:
        position, _ = rows.begin(None)
        for block, _ in rows.blocks(position, 30):
            if block is None:
                stop.set()


def test_reading_goes_on_from_a_position(cluster: MockCluster) -> None:
    """In the middle of a cut, and with more messages since; the last message is compared."""
    cluster.send("places", rows_of(1000))
    whole = cells(read(topic_rows(cluster, "places")))
    with topic_rows(cluster, "places") as rows:
        blocks = rows.blocks(rows.begin(None)[0], 130)
        first, position = [next(blocks) for _ in range(3)][-1]
        assert first is not None
        blocks.close()  # type: ignore[attr-defined]
    cluster.send("places", rows_of(80, seed=5))
    rest = cells(read(topic_rows(cluster, "places"), known=position, size=99))
    assert rest[:610] == whole[390:]
    assert len(rest) == 610 + 80
    other = {n: place._replace(last=place.last ^ 1) for n, place in position.items()}
    with topic_rows(cluster, "places") as rows, pytest.raises(BadStream, match="made again"):
        rows.begin(other)
    with topic_rows(cluster, "places") as rows:
        assert rows.begin(other, new_rows=True) == (rows.first, False)
    beyond = {**position, 2: PartitionPlace(10**6, 0, 10**6)}
    with (
        topic_rows(cluster, "places") as rows,
        pytest.raises(BadStream, match="ends at offset 270"),
    ):
        rows.begin(beyond)
    with topic_rows(cluster, "places") as rows, pytest.raises(BadStream, match="no partition 9"):
        rows.begin({**position, 9: PartitionPlace(1, 0, 1)})


def test_messages_that_are_gone_are_an_error(cluster: MockCluster) -> None:
    """The mock broker keeps 5 MB of a partition, as retention would."""
    cluster.send("gone", rows_of(400))
    with topic_rows(cluster, "gone") as rows:
        ((_, position),) = rows.blocks(rows.begin(None)[0], 400)
    cluster.send("gone", rows_of(10, seed=1), partition=1)
    for _ in range(8):
        cluster.send("gone", ["x" * 900_000], partition=1)
    with topic_rows(cluster, "gone") as rows:
        begin = rows.first[1].next
        assert begin > 100
        with pytest.raises(BadStream, match=f"offsets 100 to {begin - 1} of partition 1 are gone"):
            rows.begin(position)
        found, continued = rows.begin(position, new_rows=True)
        assert continued
        assert found == {**position, 1: PartitionPlace(begin, begin, begin)}
        lost = sum(len(block) for block, _ in rows.blocks(found, 100) if block is not None)
        assert lost == 118 - begin
    # Messages that are removed while they are being read.
    with topic_rows(cluster, "gone") as rows:
        rows._seek(position)
        with pytest.raises(BadStream, match="offsets 100 to"):
            list(rows.blocks(position, 100))


def test_a_compacted_topic_is_refused(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.send("compacted", rows_of(40))
    with topic_rows(cluster, "compacted") as rows:
        assert "did not say whether" in str(rows.check())
        monkeypatch.setattr(kafka.Client, "cleanup_policy", lambda client: "compact,delete")
        with pytest.raises(BadStream, match="the guarantee does not hold"):
            rows.check()
        monkeypatch.setattr(kafka.Client, "cleanup_policy", lambda client: "delete")
        assert rows.check() is None


def test_what_is_no_stream_of_such_rows_is_refused(cluster: MockCluster) -> None:
    cluster.send("labels", [{"merchant": "M", "fraud": "yes"}] * 9)
    cluster.send("columns", [{"merchant": "M", "failed": 1}] * 9)
    for name, what in (("labels", "9 of the first 9 rows"), ("columns", "no column 'fraud'")):
        with topic_rows(cluster, name) as rows, pytest.raises(BadStream, match=what):
            rows.check()
    cluster.send("strict", rows_of(40))
    with pytest.raises(BadStream, match=r"offset 1: of partition 1: .* strict run"):
        read(topic_rows(cluster, "strict", strict=True))


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("kafka://", "a topic is named kafka://HOST:PORT"),
        ("kafka://a:1/b c", "a topic is named kafka://HOST:PORT"),
        ("kafka://a:1/t/x", "a topic is named kafka://HOST:PORT"),
        ("kafka://me:secret@a:1/t", "--kafka-config"),
        ("kafka://127.0.0.1:1/t", "no broker answered within 2 seconds .*Connection refused"),
        ("kafka://{brokers}/nowhere", "'nowhere' does not exist on these brokers"),
        ("kafka://{brokers}/four/9", "has 4 partitions, and none is numbered 9"),
    ],
)
def test_an_address_that_leads_nowhere(cluster: MockCluster, address: str, what: str) -> None:
    cluster.send("four", rows_of(40))
    with pytest.raises(BadStream, match=what) as error:
        TopicRows(address.format(brokers=cluster.brokers), SCHEMA)
    assert "secret" not in str(error.value)


def test_settings(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# ours\nsecurity.protocol=SASL_SSL\n\nsasl.password = pass = word\n")
    with pytest.raises(BadStream, match="chmod 600") as error:
        kafka.read_settings((), file)
    assert "pass = word" not in str(error.value)
    file.chmod(0o600)
    found = kafka.read_settings(["security.protocol=SSL"], file)
    assert found == {"security.protocol": "SSL", "sasl.password": "pass = word"}
    for setting, what in (
        ("enable.auto.commit=true", "offsets are kept in the store"),
        ("bootstrap.servers=a", "the address says it"),
        ("hunter2", "KEY=VALUE"),
    ):
        with pytest.raises(BadStream, match=what) as error:
            kafka.read_settings([setting])
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"no.such.setting": "1"},
        {"ssl.key.password": "hunter2", "security.protocol": "hunter2"},
        {"sasl.oauthbearer.client.secret": "hunter2", "linger.ms": "hunter2"},
    ],
)
def test_a_setting_that_the_client_refuses(settings: dict[str, str]) -> None:
    with pytest.raises(BadStream, match="see --kafka-option") as error:
        TopicRows("kafka://127.0.0.1:1/t", SCHEMA, settings=settings)
    assert "hunter2" not in str(error.value)


def test_credentials_that_are_refused() -> None:
    """By a broker that answers the SASL handshake with another mechanism."""

    apis = ((3, 9), (17, 1), (18, 3), (36, 1))
    versions = b"".join(struct.pack(">hhhb", key, 0, newest, 0) for key, newest in apis)
    mechanism = b"SCRAM-SHA-512"
    answers = {
        18: struct.pack(">hb", 0, len(apis) + 1) + versions + struct.pack(">ib", 0, 0),
        17: struct.pack(">hih", 33, 1, len(mechanism)) + mechanism,
    }

    def answer(listening: socket.socket) -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            with link:
                while request := link.recv(1000):
                    body = request[8:12] + answers[int.from_bytes(request[4:6])]
                    link.sendall(struct.pack(">i", len(body)) + body)

    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "somebody",
        "sasl.password": "hunter2",
    }
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=[listening], daemon=True).start()
        with pytest.raises(BadStream, match=r"SASL.*SCRAM-SHA-512.*authentication") as error:
            TopicRows(
                f"kafka://127.0.0.1:{listening.getsockname()[1]}/t", SCHEMA, settings=settings
            )
    assert "hunter2" not in str(error.value)
    assert "somebody" not in str(error.value)


def test_without_confluent_kafka_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(BadStream, match=r"pip install 'littlestone\[kafka\]'"):
        TopicRows("kafka://127.0.0.1:1/t", SCHEMA)


def test_brokers_that_go_away_are_waited_for() -> None:
    """The client reports it, and nothing is read meanwhile."""
    with mock_cluster() as passing:
        passing.send("t", rows_of(40))
        rows = topic_rows(passing, "t", until_end=False)
    with rows:
        position, _ = rows.begin(None)
        blocks = rows.blocks(position, 65536)
        assert len(next(block for block, _ in blocks if block is not None)) == 40
        del passing
        for block, _ in blocks:
            assert block is None
            if rows.problem is not None:
                break
        rows.stop.set()


def test_offsets_are_numbers(cluster: MockCluster) -> None:
    """A position comes back from JSON as it was."""
    cluster.send("numbers", rows_of(80))
    with topic_rows(cluster, "numbers") as rows:
        ((_, position),) = rows.blocks(rows.begin(None)[0], 80)
    assert kafka.position_from_json(json.loads(json.dumps(position))) == position
    assert not any(isinstance(n, np.integer) for place in position.values() for n in place)
