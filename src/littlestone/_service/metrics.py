"""Metrics in the text format of Prometheus: public figures, and those for the operator only.

Public is what follows from the published rules, the number of rounds, the configuration and the
requests of clients, but for the statuses of `/rounds`: that a batch was refused tells about its
rows, so everybody sees accepted ones only. What depends on rows in any other way (mistakes, null
rounds, the seconds of a commit, the memory) is for the operator.
"""

import math
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upper ends of the buckets for the seconds of a commit.
COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# The route of a request to a path that is none of ours: clients must not choose names of series.
OTHER = "other"


class MetricSample(NamedTuple):
    """Hold a value with its labels; `suffix` is added to the name of the family."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""


class Family(NamedTuple):
    """Hold the samples of one metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    description: str
    samples: Sequence[MetricSample]


def single(name: str, kind: Literal["counter", "gauge"], description: str, value: float) -> Family:
    """Return a family with one sample."""
    return Family(name, kind, description, [MetricSample(value)])


def exposition(families: Iterable[Family]) -> str:
    r"""Return families in the text format of Prometheus."""
    lines = []
    for family in families:
        name = f"littlestone_{family.name}"
        lines.append(f"# HELP {name} {_escape(family.description, quotes=False)}")
        lines.append(f"# TYPE {name} {family.kind}")
        for sample in family.samples:
            pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in sample.labels.items())
            labels = f"{{{pairs}}}" if pairs else ""
            lines.append(f"{name}{sample.suffix}{labels} {_number(sample.value)}")
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str, quotes: bool = True) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    # A rule's specification may hold a lone surrogate, which UTF-8 cannot.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace('"', r"\"") if quotes else text


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(value) if isinstance(value, int) else repr(float(value))


class RequestCounts:
    """Count requests by route and status."""

    def __init__(self, routes: Iterable[str], guarded: Iterable[str]) -> None:
        self._routes, self._guarded = frozenset(routes), frozenset(guarded)
        self._counts: Counter[tuple[str, int]] = Counter()

    def route_of(self, path: str) -> str:
        """Return the route of a path; `OTHER` if it is none of ours."""
        return path if path in self._routes else OTHER

    def add(self, route: str, status: int) -> None:
        """Count a request."""
        self._counts[route, status] += 1

    def family(self, *, private: bool) -> Family:
        """Return the counts; all of them if `private`."""
        shown = [
            MetricSample(count, {"route": route, "status": str(status)})
            for (route, status), count in sorted(self._counts.items())
            if private or route not in self._guarded or status == 200
        ]
        more = "" if private else " (of /rounds, accepted ones only)"
        return Family("requests_total", "counter", f"Requests by route and status{more}.", shown)


class CommitTimes:
    """Count commits by the seconds that they took. Private."""

    def __init__(self) -> None:
        self._counts, self._total = [0] * (len(COMMIT_BUCKETS) + 1), 0.0
        # The writer's thread adds, the event loop reads.
        self._lock = Lock()
        self.failures = 0

    def add(self, seconds: float) -> None:
        """Count a commit that took so long."""
        with self._lock:
            self._counts[bisect_left(COMMIT_BUCKETS, seconds)] += 1
            self._total += seconds

    def family(self) -> Family:
        """Return the histogram."""
        with self._lock:
            counts, total = list(self._counts), self._total
        samples, below = [], 0
        for count, end in zip(counts, (*COMMIT_BUCKETS, math.inf), strict=True):
            below += count
            samples.append(MetricSample(below, {"le": _number(end)}, "_bucket"))
        samples += [MetricSample(total, {}, "_sum"), MetricSample(below, {}, "_count")]
        return Family("commit_seconds", "histogram", "Seconds to learn and commit.", samples)


def process_families(store: Path, log: Path) -> list[Family]:
    """Return what the process and the disk look like. Private: memory and files grow with rows."""
    disk = os.statvfs(store.parent)
    size = sum(file.stat().st_size for file in (store, log) if file.exists())
    found = [
        single("process_cpu_seconds_total", "counter", "Processor time.", time.process_time()),
        single("disk_free_bytes", "gauge", "Left on the disk.", disk.f_bavail * disk.f_frsize),
        single("store_bytes", "gauge", "The file of the learner, with its log.", size),
    ]
    memory = Path("/proc/self/statm")
    if memory.exists():  # Linux
        pages = int(memory.read_text().split()[1])
        resident = pages * os.sysconf("SC_PAGE_SIZE")
        found.append(single("process_resident_memory_bytes", "gauge", "Memory.", resident))
    return found
