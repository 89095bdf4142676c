"""Metrics for Prometheus: public figures, and those for the operator only.

Public is what follows from the published rules, the number of rounds, the configuration and the
requests of clients, but for the statuses of `/rounds`: that a batch was refused tells about its
rows, so everybody sees accepted ones only. What depends on rows in any other way (mistakes, null
rounds, the seconds of a commit, the memory) is for the operator.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.responses import Response

from littlestone._display import library_version
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes import PrivateCauses
from littlestone._report.report import counts_of
from littlestone._store.files import wal_file
from littlestone._store.serialization import RunConfig

# Upper ends of the buckets for the seconds of a commit.
COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# The routes whose refusals are private.
GUARDED = frozenset({"/rounds"})
disable_created_metrics()


class CommitSeconds(Histogram):
    """Count commits by the seconds that they took. Private."""

    def __init__(self) -> None:
        super().__init__(
            "littlestone_commit_seconds",
            "Seconds to learn and commit.",
            buckets=COMMIT_BUCKETS,
            registry=None,
        )


class _Families(Collector):
    """Pass families on to prometheus_client."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def exposed(families: Iterable[Metric]) -> Response:
    """Return the response with families in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def gauge(name: str, description: str, value: float) -> Metric:
    """Return the family of a figure that goes up and down."""
    return GaugeMetricFamily(f"littlestone_{name}", description, value=value)


def counter(name: str, description: str, value: float) -> Metric:
    """Return the family of a figure that only goes up."""
    return CounterMetricFamily(f"littlestone_{name}", description, value=value)


def request_counts(requests: "Counter[tuple[str, int]]", *, private: bool) -> Metric:
    """Return requests by route and status; all of them if `private`."""
    more = "" if private else " (of /rounds, accepted ones only)"
    family = CounterMetricFamily(
        "littlestone_requests",
        f"Requests by route and status{more}.",
        labels=["route", "status"],
    )
    for (route, status), count in sorted(requests.items()):
        if private or route not in GUARDED or status == 200:
            family.add_metric([route, str(status)], count)
    return family


def run_info(config: RunConfig, unit: str) -> Metric:
    """Return what is served, as labels."""
    facts = {
        "version": library_version(),
        "learner": config.chosen.learner_name,
        # A rule's specification may hold a lone surrogate, which UTF-8 cannot.
        "class": config.terms.spec.encode("utf-8", "backslashreplace").decode(),
        "unit": unit,
    }
    family = GaugeMetricFamily("littlestone_info", "What is served.", labels=[*facts])
    family.add_metric([*facts.values()], 1)
    return family


def learner_families(learner: PrivateLearner) -> list[Metric]:
    """Return what became of the rounds. Private."""
    counts = counts_of(learner.rounds, learner.null_rounds, learner.beyond_cap, learner.mistakes)
    if isinstance(learner, PrivateCauses):
        counts["missed"] = learner.missed
    del counts["rounds"]
    return [
        counter(name, f"{name.replace('_', ' ').capitalize()}: private.", count)
        for name, count in counts.items()
    ]


def process_families(store: Path) -> list[Metric]:
    """Return what the process and the disk look like. Private: memory and files grow with rows."""
    disk = os.statvfs(store.parent)
    size = sum(file.stat().st_size for file in (store, wal_file(store)) if file.exists())
    return [
        gauge("disk_free_bytes", "Left on the disk.", disk.f_bavail * disk.f_frsize),
        gauge("store_bytes", "The file of the learner, with its log.", size),
        *ProcessCollector(namespace="littlestone", registry=None).collect(),
    ]


def uptime(started: float) -> Metric:
    """Return the seconds since the start."""
    return gauge("uptime_seconds", "Since the start.", time.time() - started)
