"""Rows of a Kafka topic: every offset is a round, in an order that no message can change.

A message is a JSON object, as a line of JSON lines is. One that cannot be read is a null round, and
so is an offset without a message (a transaction's marker, or one that was compacted away): which
offset becomes which round never depends on what a message holds (docs/guarantee.md, Lemma 0).

Within a partition rounds are in the order of offsets. Over several partitions the stream is a
sequence of *cuts*. A cut is what came between two looks at the ends of all partitions; a thread
looks by the clock, whether or not learning keeps up. Within a cut the partitions are interleaved
evenly: the j-th of the n offsets of a partition is at (j - 1/2) / n, and equal places are in the
order of the partitions. The order in which brokers deliver would not do: a fetch is limited in
bytes, so the length of one message would move the messages of other partitions.

What a partition is read by is no consumer group: one store reads all partitions, and its lock says
who reads. So no rebalance can take a partition away. Offsets are committed to a group afterwards,
for the tools that show how far a group is; littlestone never reads them.

librdkafka, through confluent-kafka (`pip install 'littlestone[kafka]'`), speaks the protocol. What
it is told is taken from `kafka://BROKERS/TOPIC`, from `--kafka-config FILE` and from
`--kafka-option KEY=VALUE`; a value that may be a secret is in no error and no log.
"""

import logging
import queue
import re
import stat
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from littlestone._data.formats import JsonLines, object_columns, parse_objects
from littlestone._data.readers import refuse_bad_row, refuse_mostly_bad
from littlestone._data.rounds import LARGEST_BLOCK, BadRow, BadStream, Rounds, block_size
from littlestone._data.schema import Faults, Schema
from littlestone._data.text import CHECKED_ROWS, MAX_LINE_BYTES

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

SCHEME = "kafka://"
MISSING = "{name}: topics are read with confluent-kafka: pip install 'littlestone[kafka]'"
# Seconds that the brokers have to answer the first questions, and those about a topic's settings.
ANSWER_SECONDS, POLICY_SECONDS = 10.0, 2.0
# How many reports of the client are looked at for the cause of an error.
NOTED = 10
# Seconds between two looks at the ends of the partitions, and of one wait for messages.
CUT_SECONDS, POLL_SECONDS = 1.0, 0.2
# Messages that are taken from the client at once, and of a partition before it is paused.
FETCHED, MOST_WAITING = 10_000, 100_000
# How many waits in vain for messages that are known to be there, before an error.
PATIENCE = 50
NO_MESSAGE = "no message has this offset (a transaction's marker, or it was compacted away)"
NO_VALUE = "the message has no value"
TOO_LONG = f"the message has more than {MAX_LINE_BYTES:,} bytes"
COMPACTED = (
    "{name}: the topic is compacted (cleanup.policy={policy}). There a message is removed because "
    "of a later one, so one message decides about other rounds, and the guarantee does not hold: "
    "read a topic that keeps every message (cleanup.policy=delete)"
)
OTHER_TOPIC = (
    "{name}: {what}: the topic was deleted and made again, or cut off. If none of its messages was "
    "learned before, say --new-rows; otherwise name the topic that was learned"
)
LOST = (
    "{name}: {gaps} gone from the topic, by its retention or by hand: {count:,} offsets that were "
    "never learned, and cannot be any more. To go on with what is there, say --new-rows; to lose "
    "nothing, raise retention.ms, or learn more often"
)
# What the order of rounds and the store rest on, and what the address says.
OUR_SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_CONSUMER_ONLY = (*OUR_SETTINGS, "group.id", "fetch.wait.max.ms")
FROM_ADDRESS = ("bootstrap.servers", "metadata.broker.list")
_SECRET = re.compile("password|secret|token|jaas|credential|key.pem|sasl.username|basic.auth")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
# librdkafka would write to standard error, once for every attempt to connect. Made by hand: a
# logger of the root's family would be switched on by whoever configures logging.
_LOG = logging.Logger("librdkafka")
_LOG.addHandler(logging.NullHandler())


class TopicAddress(NamedTuple):
    """Hold where a topic is, and which of its partitions is read; None for all of them."""

    brokers: str
    topic: str
    partition: int | None = None

    def __str__(self) -> str:
        return f"{SCHEME}{self.brokers}/{self.path}"

    @property
    def path(self) -> str:
        """Return the topic, and the partition if only one is read."""
        return self.topic if self.partition is None else f"{self.topic}/{self.partition}"


def is_topic(source: str) -> bool:
    """Return whether a source is a topic, and not a file."""
    return source.startswith(SCHEME)


def parse_address(text: str) -> TopicAddress:
    """Read `kafka://BROKERS/TOPIC` or `kafka://BROKERS/TOPIC/PARTITION`."""
    brokers, _, path = text.removeprefix(SCHEME).partition("/")
    topic, _, partition = path.partition("/")
    if "@" in brokers:
        raise BadStream(
            "a kafka:// address holds no user and no password: put sasl.username and sasl.password "
            "into a file, and name it with --kafka-config"
        )
    if not brokers or not _NAME.fullmatch(topic) or (partition and not partition.isdecimal()):
        raise BadStream(
            f"{text}: a topic is named kafka://HOST:PORT,HOST:PORT/TOPIC, and one of its partitions"
            " kafka://HOST:PORT/TOPIC/NUMBER"
        )
    return TopicAddress(brokers, topic, int(partition) if partition else None)


def read_settings(options: Sequence[str] = (), config: Path | None = None) -> dict[str, str]:
    """Return the settings of the client that a person asked for."""
    settings: dict[str, str] = {}
    if config is not None:
        for number, line in enumerate(config.read_text("utf-8").splitlines(), 1):
            if line.strip() and not line.lstrip().startswith(("#", "!")):
                settings |= _setting(line, f"{config}, line {number}")
        if any(map(_SECRET.search, settings)) and stat.S_IMODE(config.stat().st_mode) & 0o077:
            raise BadStream(
                f"{config} holds a secret and can be read by others: chmod 600 {config}"
            )
    for option in options:
        settings |= _setting(option, "--kafka-option")
    return settings


def _setting(text: str, where: str) -> dict[str, str]:
    key, is_there, value = (part.strip() for part in text.partition("="))
    # The text may be a secret, so it is not repeated.
    if not is_there or not key:
        raise BadStream(f"{where}: a setting is KEY=VALUE, such as security.protocol=SSL")
    if key in OUR_SETTINGS or key in FROM_ADDRESS:
        why = "the address says it" if key in FROM_ADDRESS else "offsets are kept in the store"
        raise BadStream(f"{where}: {key} is set by littlestone ({why}): leave it out")
    return {key: value}


class Client:
    """Connect to a cluster with a consumer, and turn its errors into sentences."""

    def __init__(self, address: TopicAddress, settings: Mapping[str, str], group: str) -> None:
        try:
            import confluent_kafka
        except ModuleNotFoundError:
            raise BadStream(MISSING.format(name=address)) from None
        self.kafka = confluent_kafka
        self.address, self.settings = address, settings
        # What the client reported last, and whether no broker can be reached, until one answers.
        self.problem: str | None = None
        self.is_down = False
        self.config: dict[str, Any] = {
            "fetch.wait.max.ms": 100,
            "group.id": group,
            **settings,
            **OUR_SETTINGS,
            "bootstrap.servers": address.brokers,
        }
        options = self.config | {"error_cb": self._note}
        try:
            self.consumer: Consumer = confluent_kafka.Consumer(options, logger=_LOG)
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            raise BadStream(f"{address}: {self.describe(error)}: see --kafka-option") from None

    def _note(self, error: "KafkaError") -> None:
        # That all brokers are away is reported beside the reason why, which says more.
        all_away = error.code() == self.kafka.KafkaError._ALL_BROKERS_DOWN
        self.is_down |= all_away
        if self.problem is None or not all_away:
            self.problem = self._masked(error.str())

    def answered(self) -> None:
        """Forget what was reported: a broker has answered."""
        self.problem, self.is_down = None, False

    def describe(self, error: Exception) -> str:
        """Return what an error of the client says, without secrets."""
        first = error.args[0] if error.args else error
        text = first.str() if isinstance(first, self.kafka.KafkaError) else str(first)
        return self._masked(text)

    def _masked(self, text: str) -> str:
        for key, value in self.settings.items():
            if value and _SECRET.search(key):
                text = text.replace(value, "***")
        return text

    def partitions(self) -> tuple[str, list[int]]:
        """Return the name of the cluster, and which partitions the topic has."""
        address, errors = self.address, self.kafka.KafkaError
        try:
            cluster = self.consumer.list_topics(address.topic, timeout=ANSWER_SECONDS)
        except self.kafka.KafkaException as error:
            for _ in range(NOTED):  # calls `_note` with the cause, which the exception lacks
                self.consumer.poll(0)
            cause = self.problem or self.describe(error)
            raise BadStream(
                f"{address}: no broker answered within {ANSWER_SECONDS:g} seconds ({cause}): check "
                "the address, and the settings for encryption and authentication (--kafka-config)"
            ) from None
        topic = cluster.topics[address.topic]
        if topic.error is not None:
            code = topic.error.code()
            if code == errors.TOPIC_AUTHORIZATION_FAILED:
                why = "may not be read by this user: allow Read and Describe on it"
            elif code == errors.UNKNOWN_TOPIC_OR_PART:
                why = "does not exist on these brokers: check its name, or create it"
            else:
                why = f"cannot be read: {self._masked(topic.error.str())}"
            raise BadStream(f"{address}: the topic {address.topic!r} {why}")
        numbers = sorted(topic.partitions)
        if address.partition is not None and address.partition not in numbers:
            raise BadStream(
                f"{address}: the topic has {len(numbers)} partitions, and none is numbered "
                f"{address.partition}"
            )
        chosen = numbers if address.partition is None else [address.partition]
        return str(cluster.cluster_id), chosen

    def watermarks(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset of each partition that is still there, and the one after its end."""
        marks = {}
        for number in partitions:
            place = self.kafka.TopicPartition(self.address.topic, number)
            try:
                pair = self.consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
            except self.kafka.KafkaException as error:
                raise BadStream(f"{self.address}: {self.describe(error)}") from None
            if pair is None:
                raise BadStream(
                    f"{self.address}: the leader of partition {number} did not answer within "
                    f"{ANSWER_SECONDS:g} seconds: check the brokers, and try again"
                )
            marks[number] = pair
        return marks

    def cleanup_policy(self) -> str | None:
        """Return how the topic removes old messages ("delete", "compact"); None if not told."""
        from confluent_kafka import admin as kafka_admin

        kept = {key: value for key, value in self.config.items() if key not in _CONSUMER_ONLY}
        try:
            # The package does not list these names as exported.
            names: Any = kafka_admin
            topic = names.ConfigResource(names.ResourceType.TOPIC, self.address.topic)
            admin = kafka_admin.AdminClient(kept, logger=_LOG)
            (asked,) = admin.describe_configs([topic], request_timeout=POLICY_SECONDS).values()
            return str(asked.result()["cleanup.policy"].value)
        # Brokers may forbid the question, and some do not know it.
        except (self.kafka.KafkaException, KeyError, TimeoutError):
            return None

    def close(self) -> None:
        """Leave the cluster."""
        self.consumer.close()


class PartitionPlace(NamedTuple):
    """Hold how far a partition is read."""

    next: int
    begin: int
    end: int
    last: int = -1


Position = Mapping[int, PartitionPlace]
Offsets = npt.NDArray[np.int64]


def position_from_json(data: Mapping[str, Sequence[int]]) -> dict[int, PartitionPlace]:
    """Read back a position that was written as JSON data."""
    return {int(number): PartitionPlace(*place) for number, place in data.items()}


def next_rounds(position: Position, count: int) -> tuple[Offsets, Offsets]:
    """Return the partition and the offset of each of the next rounds of a cut."""
    total = sum(place.end - place.begin for place in position.values())
    empty = np.zeros(0, dtype=np.int64)
    partitions, offsets, keys = [empty], [empty], [np.zeros(0)]
    for number in sorted(position):
        place = position[number]
        length = place.end - place.begin
        # Partitions advance evenly: no more than these are among the next rounds.
        most = length * (count + len(position)) // max(1, total) + 2
        next_offsets = np.arange(place.next, min(place.end, place.next + most), dtype=np.int64)
        partitions.append(np.full(len(next_offsets), number, dtype=np.int64))
        offsets.append(next_offsets)
        keys.append((2 * (next_offsets - place.begin) + 1) / (2 * max(1, length)))
    merged = np.concatenate(partitions), np.concatenate(offsets)
    order = np.lexsort((*merged[::-1], np.concatenate(keys)))[:count]
    return merged[0][order], merged[1][order]


def read_messages(
    schema: Schema, values: Sequence[bytes | None], faults: Faults, offsets: Offsets
) -> tuple[Rounds, list[str]]:
    """Return messages as rows, and their texts."""
    texts = []
    for row, value in enumerate(values):
        if value is None or len(value) > MAX_LINE_BYTES:
            faults.setdefault(row, NO_VALUE if value is None else TOO_LONG)
            value = b"{}"
        texts.append(value.decode("utf-8", "surrogateescape"))
    rows = parse_objects(texts, faults)
    return schema.read(object_columns(schema, rows, faults), faults, offsets), texts


class _OtherTopic(BadStream):
    """A topic that is not the one that was learned."""


class _Waiting:
    """Hold the messages of a partition that were read and are no rounds yet."""

    def __init__(self, seen: int) -> None:
        self.messages: deque[tuple[int, bytes | None]] = deque()
        # All messages below this offset have come.
        self.seen = seen

    def take(self, offset: int) -> tuple[bool, bytes | None]:
        """Return whether there is a message with an offset, and its value."""
        if self.messages and self.messages[0][0] == offset:
            return True, self.messages.popleft()[1]
        return False, None


class TopicRows:
    """Read the rows of a topic in blocks, from a position on."""

    unit = "offset"
    unfinished = 0

    def __init__(
        self,
        source: str,
        schema: Schema,
        *,
        settings: Mapping[str, str] | None = None,
        until_end: bool = False,
        stop: threading.Event | None = None,
        strict: bool = False,
    ) -> None:
        self.address = parse_address(source)
        self.name, self._schema, self._strict = str(self.address), schema, strict
        self._settings = settings or {}
        self._until_end, self.stop = until_end, stop or threading.Event()
        self._waiting: dict[int, _Waiting] = {}
        self._group: str | None = None
        self._client = self.connected()
        try:
            cluster, partitions = self._client.partitions()
            self._marks = self._client.watermarks(partitions)
        except BaseException:
            self.close()
            raise
        # The name under which a store knows the topic, whichever brokers were asked.
        self.key = f"kafka://{cluster}/{self.address.path}"

    def connected(self) -> Client:
        """Return a connection of its own, which reads nothing yet."""
        # A name of its own, if nothing is committed under it.
        group = self._group or f"littlestone-{uuid.uuid4().hex}"
        return Client(self.address, self._settings, group)

    @property
    def length(self) -> int | None:
        """Return how many offsets there are, if the rows end there."""
        if not self._until_end:
            return None
        return sum(end - begin for begin, end in self._marks.values())

    @property
    def problem(self) -> str | None:
        """Return why no broker can be reached; None if one can."""
        return self._client.problem if self._client.is_down else None

    @property
    def first(self) -> dict[int, PartitionPlace]:
        """Return the position of the first messages that are there."""
        return {
            number: PartitionPlace(begin, begin, begin)
            for number, (begin, _) in self._marks.items()
        }

    def check(self) -> str | None:
        """Check a topic of which nothing was learned before, and return a note about it."""
        policy = self._client.cleanup_policy()
        if policy is not None and "compact" in policy:
            raise BadStream(COMPACTED.format(name=self.name, policy=policy))
        self._seek(self.first)
        cut = self._cut(self.first, _ends(self._marks))
        if (read := self._read(cut, CHECKED_ROWS, PATIENCE)) is not None and len(read[0]):
            block, _, texts = read
            JsonLines(self.name, self._schema).begin(texts)
            refuse_mostly_bad(self.name, self.unit, [block], self._schema)
        if policy is None:
            return (
                f"{self.name}: the brokers did not say whether the topic is compacted; of one that "
                "is, one message decides about others (docs/limits.md)"
            )
        return None

    def begin(self, known: Position | None, new_rows: bool = False) -> tuple[Position, bool]:
        """Go to where a store has read to, after checking that it is still the same topic."""
        if known is not None:
            try:
                return self._continued(known, skip=new_rows), True
            except _OtherTopic:
                if not new_rows:
                    raise
        self._seek(self.first)
        return self.first, False

    def _continued(self, known: Position, *, skip: bool) -> dict[int, PartitionPlace]:
        position = self.first | dict(known)
        gaps = []
        for number, place in known.items():
            if number not in self._marks:
                raise self._other(f"it has no partition {number} any more")
            begin, end = self._marks[number]
            if place.next > end:
                raise self._other(
                    f"partition {number} ends at offset {end:,}, and {place.next:,} were learned"
                )
            if place.next < begin:
                gaps.append((number, place.next, begin))
                # A cut that was begun loses what is gone of it.
                position[number] = PartitionPlace(begin, begin, max(begin, place.end))
        if gaps and not skip:
            raise self._lost(gaps)
        # From the last message that was learned on: it must be the same one.
        self._seek(position, back=1)
        if not self._fetch({number: place.next for number, place in known.items()}, PATIENCE):
            raise BadStream(
                f"{self.name}: the brokers do not deliver the last messages that were learned: try "
                "again"
            )
        for number, place in position.items():
            is_there, value = self._waiting[number].take(place.next - 1)
            if is_there and place.last >= 0 and place.last != _checksum(value):
                raise self._other(
                    f"the message at offset {place.next - 1:,} of partition {number} is not the "
                    "one that was learned"
                )
        return position

    def _other(self, what: str) -> "_OtherTopic":
        return _OtherTopic(OTHER_TOPIC.format(name=self.name, what=what))

    def _lost(self, gaps: Sequence[tuple[int, int, int]]) -> BadStream:
        described = ", ".join(f"{a:,} to {b - 1:,} of partition {p}" for p, a, b in gaps)
        count = sum(b - a for _, a, b in gaps)
        words = f"offsets {described} are" if count > 1 else f"offset {gaps[0][1]:,} is"
        return BadStream(LOST.format(name=self.name, gaps=words, count=count))

    def commit_to(self, run: str) -> None:
        """Commit offsets to a group of the cluster from now on, for information."""
        self._group = f"littlestone-{run}"

    def blocks(
        self, position: Position, size: int = LARGEST_BLOCK, most: int | None = None
    ) -> Iterator[tuple[Rounds | None, Position]]:
        """Yield the rows from a position on, each block with the position after it."""
        ends: queue.SimpleQueue[dict[int, int]] = queue.SimpleQueue()
        ends.put(_ends(self._marks))
        over = threading.Event()
        looking = threading.Thread(target=self._look, args=(ends, over), daemon=True)
        if not self._until_end:
            looking.start()
        rows = 0
        try:
            while (most is None or rows < most) and not self.stop.is_set():
                if all(place.next == place.end for place in position.values()):
                    if self._until_end and ends.empty():
                        return
                    try:
                        position = self._cut(position, ends.get(timeout=POLL_SECONDS))
                    except queue.Empty:
                        self._take_messages(0)  # errors of the connection are reported there
                        yield None, position
                    continue
                count = block_size(rows, size)
                read = self._read(position, count if most is None else min(count, most - rows))
                if read is None:
                    yield None, position
                    continue
                block, position, _ = read
                if self._strict:
                    refuse_bad_row(self.name, self.unit, block)
                yield block, position
                rows += len(block)
                self._commit(position)
        finally:
            over.set()
            if looking.is_alive():
                looking.join(POLL_SECONDS)

    def _look(self, ends: "queue.SimpleQueue[dict[int, int]]", over: threading.Event) -> None:
        """Look at the ends of the partitions by the clock, whether or not learning keeps up."""
        before: dict[int, int] = {}
        client = self.connected()
        while not over.wait(CUT_SECONDS):
            # Brokers may be away; what is fatal is found where messages are read.
            with suppress(BadStream):
                marks = client.watermarks(client.partitions()[1])
                if (now := _ends(marks)) != before:
                    ends.put(now)
                    before = now
        client.close()

    def _cut(self, position: Position, ends: Mapping[int, int]) -> dict[int, PartitionPlace]:
        """Return the position at the beginning of the next cut, which a new partition may join."""
        places = dict(position)
        for number in sorted(ends):
            if number not in places:
                places[number] = PartitionPlace(0, 0, 0)
                self._assign({number: 0}, add=True)
        return {
            number: place._replace(
                begin=place.next, end=max(place.next, ends.get(number, place.next))
            )
            for number, place in places.items()
        }

    def _seek(self, position: Position, back: int = 0) -> None:
        """Have a new client read from a position on, or from so many messages before it."""
        # A new one: a message of an earlier place that is still on its way would hide others.
        self._client.close()
        self._client = self.connected()
        self._assign(
            {
                number: max(min(self._marks[number][0], place.next), place.next - back)
                for number, place in position.items()
            }
        )

    def _assign(self, starts: Mapping[int, int], add: bool = False) -> None:
        # Offsets are given here, and never asked of the group.
        places, consumer = self._places(starts), self._client.consumer
        consumer.incremental_assign(places) if add else consumer.assign(places)
        self._waiting = self._waiting if add else {}
        self._waiting |= {number: _Waiting(start) for number, start in starts.items()}

    def _read(
        self, position: Position, size: int, patience: int = 5
    ) -> tuple[Rounds, dict[int, PartitionPlace], list[str]] | None:
        """Return the next rounds of a cut; None if they have not all come yet."""
        partitions, offsets = next_rounds(position, size)
        numbers, counts = np.unique(partitions, return_counts=True)
        stops = {
            number: position[number].next + count
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        }
        if not self._fetch(stops, patience):
            return None
        values: list[bytes | None] = []
        faults, last = Faults(), dict[int, int]()
        for row, (number, offset) in enumerate(
            zip(partitions.tolist(), offsets.tolist(), strict=True)
        ):
            is_there, value = self._waiting[number].take(offset)
            values.append(value)
            last[number] = _checksum(value) if is_there else -1
            if not is_there:
                faults[row] = NO_MESSAGE
        rounds, texts = read_messages(self._schema, values, faults, offsets)
        if len(position) > 1:
            # Reasons are kept in the order of rows.
            rows = sorted(faults)[: len(rounds.bad)]
            bad = tuple(
                BadRow(fault.line, f"of partition {partitions[row]}: {fault.sentence}")
                for row, fault in zip(rows, rounds.bad, strict=True)
            )
            rounds = replace(rounds, bad=bad)
        after = dict(position)
        for number, stop in stops.items():
            after[number] = after[number]._replace(next=stop, last=last[number])
        return rounds, after, texts

    def _fetch(self, stops: Mapping[int, int], patience: int) -> bool:
        """Wait until all messages of some partitions below some offsets have come."""
        self._client.consumer.resume(self._places(stops))
        waits = 0
        while any(self._waiting[number].seen < stop for number, stop in stops.items()):
            if self.stop.is_set() or waits >= patience:
                return False
            waits = 0 if self._take_messages(POLL_SECONDS) else waits + 1
            # Another partition is slower: what has come must fit into memory.
            ahead = {
                number: waiting.seen
                for number, waiting in self._waiting.items()
                if len(waiting.messages) > MOST_WAITING and waiting.seen >= stops.get(number, 0)
            }
            self._client.consumer.pause(self._places(ahead))
        return True

    def _places(self, offsets: Mapping[int, int]) -> "list[TopicPartition]":
        """Return partitions, each with an offset, as the client takes them."""
        make, topic = self._client.kafka.TopicPartition, self.address.topic
        return [make(topic, number, offset) for number, offset in offsets.items()]

    def _take_messages(self, seconds: float) -> int:
        """Take what has come, and return how much; wait for something if there is nothing."""
        messages = self._client.consumer.consume(FETCHED, seconds)
        for message in messages:
            self._take(message)
        return len(messages)

    def _take(self, message: "Message") -> None:
        number, offset, error = message.partition(), message.offset(), message.error()
        # An error of the connection is of no partition.
        waiting = None if number is None else self._waiting.get(number)
        if waiting is None or number is None or offset is None:
            self._refuse_fatal(error)
        elif error is not None:
            self._take_error(error, number, offset)
        else:
            self._client.answered()
            # What comes a second time, after a pause, is there already.
            if offset >= waiting.seen:
                waiting.messages.append((offset, message.value()))
                waiting.seen = offset + 1

    def _take_error(self, error: "KafkaError", number: int, offset: int) -> None:
        codes, code, waiting = self._client.kafka.KafkaError, error.code(), self._waiting[number]
        if code == codes._PARTITION_EOF:
            self._client.answered()
            waiting.seen = max(waiting.seen, offset)
        elif code in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            ((begin, end),) = self._client.watermarks([number]).values()
            if waiting.seen < begin:
                raise self._lost([(number, waiting.seen, begin)])
            raise self._other(
                f"partition {number} ends at offset {end:,}, and {waiting.seen:,} were read"
            )
        elif code in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
            raise BadStream(
                f"{self.name}: the topic was deleted while it was read. What was learned stands; "
                "name another topic to go on with"
            )
        else:
            self._refuse_fatal(error)

    def _refuse_fatal(self, error: "KafkaError | None") -> None:
        """Refuse to go on after an error that librdkafka does not mend by trying again."""
        denied = self._client.kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
        if error is not None and (error.code() == denied or error.fatal()):
            raise BadStream(f"{self.name}: {self._client.describe(Exception(error))}")

    def _commit(self, position: Position) -> None:
        if self._group is None:
            return
        places = self._places({number: place.next for number, place in position.items()})
        # For information only: a foreign member of the group may be in the way.
        with suppress(self._client.kafka.KafkaException):
            self._client.consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _ends(marks: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    return {number: end for number, (_, end) in marks.items()}


def _checksum(value: bytes | None) -> int:
    return -1 if value is None else crc32(value)
