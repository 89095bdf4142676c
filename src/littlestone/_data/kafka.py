"""A Kafka cluster: addresses of topics, settings of the client, and errors as sentences.

librdkafka, through confluent-kafka (`pip install 'littlestone[kafka]'`), speaks the protocol. What
it is told is taken from `kafka://BROKERS/TOPIC`, from `--kafka-config FILE` and from
`--kafka-option KEY=VALUE`; a value that may be a secret is in no error and no log.
"""

import logging
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from littlestone._data.rounds import BadStream

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

SCHEME = "kafka://"
MISSING = "{name}: topics are read with confluent-kafka: pip install 'littlestone[kafka]'"
# Seconds that the brokers have to answer the first questions, and those about a topic's settings.
ANSWER_SECONDS, POLICY_SECONDS = 10.0, 2.0
# How many reports of the client are looked at for the cause of an error.
NOTED = 10
# What the order of rounds and the store rest on, and what the address says.
OUR_SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
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
    found: dict[str, str] = {}
    if config is not None:
        lines = config.read_text("utf-8").splitlines()
        kept = [(at, line) for at, line in enumerate(lines, 1) if line.strip()]
        for at, line in kept:
            if not line.lstrip().startswith(("#", "!")):
                found |= _setting(line, f"{config}, line {at}")
        if any(map(_SECRET.search, found)) and stat.S_IMODE(config.stat().st_mode) & 0o077:
            raise BadStream(
                f"{config} holds a secret and can be read by others: chmod 600 {config}"
            )
    for option in options:
        found |= _setting(option, "--kafka-option")
    return found


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
            found = self.consumer.list_topics(address.topic, timeout=ANSWER_SECONDS)
        except self.kafka.KafkaException as error:
            for _ in range(NOTED):  # calls `_note` with the cause, which the exception lacks
                self.consumer.poll(0)
            cause = self.problem or self.describe(error)
            raise BadStream(
                f"{address}: no broker answered within {ANSWER_SECONDS:g} seconds ({cause}): check "
                "the address, and the settings for encryption and authentication (--kafka-config)"
            ) from None
        topic = found.topics[address.topic]
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
        return str(found.cluster_id), chosen

    def watermarks(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset of each partition that is still there, and the one after its end."""
        found = {}
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
            found[number] = pair
        return found

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


_CONSUMER_ONLY = (*OUR_SETTINGS, "group.id", "fetch.wait.max.ms")
