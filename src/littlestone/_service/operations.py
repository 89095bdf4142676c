"""What whoever runs the service sees of it: logs, who did what, and metrics for Prometheus.

A line of the log has the client, the request and the status, no query and no control character.
Clients decide how many lines there are, so each kind of line has a rate; lines beyond it are counted,
and the next line says how many there were.

The audit log has a line of JSON for each private request: the name and role of a token, the client's
address, method, route and status, and of a batch that was learned the numbers of its rounds. It never
has anything of a row, a query, a key that a client chose, or a token. The line of a request is
written before its response is sent, so whatever was acknowledged is in the log. The file may be
moved away at any time, as programs that rotate logs do: the next line goes to a new file.

Public metrics are what follows from the published rules, the number of rounds, the configuration and
the requests of clients, but for the statuses of `/rounds`: that a batch was refused tells about its
rows, so everybody sees accepted ones only. What depends on rows in any other way (mistakes, null
rounds, the seconds of a commit, the memory) is for the operator.
"""

import json
import logging
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from littlestone._display import library_version
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes import PrivateCauses
from littlestone._report.report import learner_counts
from littlestone._service.limits import RateLimit
from littlestone._service.tokens import TokenEntry
from littlestone._store.files import wal_file
from littlestone._store.request import RunConfig
from littlestone._store.store import Receipt

LOG = logging.getLogger("littlestone")
ACCESS = logging.getLogger("littlestone.access")
LogFormat: TypeAlias = Literal["text", "json"]
# Lines a second: of requests, and of any other kind.
ACCESS_RATE, OTHER_RATE = 100.0, 5.0
# Lines of the audit log a second about requests without a valid token: anybody can cause them.
UNKNOWN_RATE = 5.0


class LogFilter(logging.Filter):
    """Drop lines beyond the rate of their kind, and escape what does not print."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._access, self._other = (RateLimit(rate, clock) for rate in (ACCESS_RATE, OTHER_RATE))
        self._dropped: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        # The kind is the template, without its arguments.
        kind = f"{record.name} {record.msg}"
        if (self._access if record.name == ACCESS.name else self._other).wait(kind):
            self._dropped[kind] += 1
            return False
        if isinstance(record.args, tuple):
            record.args = tuple(map(_printable, record.args))
        if record.exc_info and record.exc_info[1] is not None:
            # The type and the place only: the text of an error may quote a row.
            record.msg = f"{record.msg} ({describe_error(record.exc_info[1])})"
            record.exc_info = record.exc_text = None
        if dropped := self._dropped.pop(kind, 0):
            record.msg += f" (and {dropped:,} lines like it, which were left out)"
        return True


def _printable(part: object) -> object:
    """Return an argument of a line with escapes for what would move a terminal's cursor."""
    if not isinstance(part, str) or part.isprintable():
        return part
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in part
    )


def describe_error(error: BaseException) -> str:
    """Return the type of an error and where it was raised; its text may hold private data."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    return f"{type(error).__name__} at {where}"


def log_loop_error(loop: object, context: dict[str, Any]) -> None:
    """Log an error of the event loop itself as one line; asyncio would write a traceback."""
    error = context.get("exception")
    description = "no error" if error is None else describe_error(error)
    LOG.error("%s (%s)", context["message"], description)


class JsonFormatter(logging.Formatter):
    """Format a line as JSON: time, level, message; of a request also its parts."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, which has passed `LogFilter`."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.name == ACCESS.name and isinstance(record.args, tuple):
            client, method, path, _, status = record.args
            line |= {"client": client, "method": method, "path": path, "status": status}
        return json.dumps(line)


def logging_config(form: LogFormat) -> dict[str, Any]:
    """Return the configuration of logging for a format."""
    plain = {"format": "%(asctime)s %(levelname)s %(message)s"}
    loggers = ("asyncio", "littlestone", "_granian")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"limited": {"()": LogFilter}},
        "formatters": {"line": plain if form == "text" else {"()": JsonFormatter}},
        "handlers": {
            "lines": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["limited"],
                "stream": "ext://sys.stderr",
            }
        },
        "loggers": {
            name: {"handlers": ["lines"], "level": "INFO", "propagate": False} for name in loggers
        },
    }


class AuditLog:
    """Append lines to an audit log."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        # Lines that could not be written.
        self.failures = 0
        self._left_out = 0
        self._unknown = RateLimit(UNKNOWN_RATE, clock)
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def request(
        self, token: TokenEntry | None, receipt: Receipt | None = None, **facts: Any
    ) -> None:
        """Write the line of a request."""
        if token is None:
            if self._unknown.wait(""):
                self._left_out += 1
                return
            if self._left_out:
                facts["left_out"], self._left_out = self._left_out, 0
        if receipt is not None:
            # Without the null rounds: how many there are is private, and not part of who did what.
            facts |= {"first": receipt.first, "rounds": receipt.rounds, "again": receipt.again}
        who = {"who": token and token.name, "role": token and token.role}
        self.event("request", **who, **facts)

    def event(self, action: str, **facts: Any) -> None:
        """Write a line."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        data = (json.dumps({"time": now, "action": action, **facts}) + "\n").encode()
        try:
            self._follow()
            # One call, so that lines of several processes never mix.
            if os.write(self._file, data) < len(data):
                raise OSError("a line was cut short")
        except OSError as error:
            # The rows are on disk by now: refusing the request would be a lie.
            self.failures += 1
            LOG.error("a line of the audit log is lost: %s", error.strerror or error)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _follow(self) -> None:
        """Open the file again if it was moved or removed."""
        ours = os.fstat(self._file)
        try:
            present = os.stat(self.path)
        except FileNotFoundError:
            present = None
        if present is None or (present.st_dev, present.st_ino) != (ours.st_dev, ours.st_ino):
            # The new one first: if it cannot be opened, the old one is still there to write to.
            opened = self._open()
            os.close(self._file)
            self._file = opened


# Metrics.

# Upper ends of the buckets for the seconds of a commit.
COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# The routes whose refusals are private.
GUARDED = frozenset({"/rounds"})
disable_created_metrics()


def commit_seconds() -> Histogram:
    """Return a count of commits by the seconds that they took. Private."""
    name, words = "littlestone_commit_seconds", "Seconds to learn and commit."
    return Histogram(name, words, buckets=COMMIT_BUCKETS, registry=None)


class _Families(Collector):
    """Pass families on to prometheus_client."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def exposed(families: Iterable[Metric]) -> Response:
    """Return the response with families in the text format of Prometheus."""
    text = generate_latest(_Families(families))
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


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
        "littlestone_requests", f"Requests by route and status{more}.", labels=["route", "status"]
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
    counts = learner_counts(learner)
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
