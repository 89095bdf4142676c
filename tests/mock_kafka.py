"""librdkafka's own mock cluster: brokers on 127.0.0.1, which live as long as their producer.

Every topic has four partitions, and a partition keeps its last 5 MB: older messages are removed, as
retention does.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

PARTITIONS = 4


class MockCluster:
    """A cluster of one broker; messages are produced by the client that it lives in."""

    def __init__(self) -> None:
        options = {
            "bootstrap.servers": "mock",
            "test.mock.num.brokers": 1,
            "log_level": 0,
            "linger.ms": 1,
        }
        self.producer = Producer(options)
        found = self.producer.list_topics(timeout=10).brokers.values()
        self.brokers = ",".join(f"{broker.host}:{broker.port}" for broker in found)

    def address(self, topic: str) -> str:
        return f"kafka://{self.brokers}/{topic}"

    def send(self, topic: str, values: Iterable[Any], partition: int | None = None) -> None:
        """Produce values, to all partitions in turn or to one; text and bytes as they are."""
        for number, value in enumerate(values):
            place = number % PARTITIONS if partition is None else partition
            if not isinstance(value, str | bytes | None):
                value = json.dumps(value)
            while True:
                try:
                    self.producer.produce(topic, value, partition=place)
                    break
                except BufferError:
                    self.producer.poll(0.1)
        assert self.producer.flush(30) == 0


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    """Yield a cluster, and end it."""
    cluster = MockCluster()
    yield cluster
    cluster.producer.flush(1)
