"""Logging: lines without queries and control characters, and never more than a disk can take.

A line has the client, the request and the status. Clients decide how many lines there are, so each
kind of line has a rate; lines beyond it are counted, and the next line says how many there were.
"""

import logging
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from littlestone.service.limits import RateLimit

LOG = logging.getLogger("littlestone")
ACCESS = "uvicorn.access"
ACCESS_RATE, OTHER_RATE = 100.0, 5.0
"""Lines a second: of requests, and of any other kind."""


class LogFilter(logging.Filter):
    """Drop lines beyond the rate of their kind, and escape what does not print.

    Parameters
    ----------
    clock
        Returns the time in seconds.

    Examples
    --------
    >>> log_filter = LogFilter(clock=lambda: 0.0)
    >>> line = logging.makeLogRecord({"name": "x", "msg": "from %s", "args": ("\\x1b[2J",)})
    >>> log_filter.filter(line), line.getMessage()
    (True, 'from \\\\x1b[2J')
    """

    def __init__(self, clock: Any = time.monotonic) -> None:
        super().__init__()
        self._access, self._others = RateLimit(ACCESS_RATE, clock), RateLimit(OTHER_RATE, clock)
        self._dropped: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; the line of a request loses its query."""
        # The kind is the template, without its arguments: all requests are of one kind.
        kind = f"{record.name} {record.msg}"
        limit = self._access if record.name == ACCESS else self._others
        if limit.wait(kind):
            self._dropped[kind] += 1
            return False
        if isinstance(record.args, tuple):
            if record.name == ACCESS and len(record.args) == 5:
                client, method, path, version, status = record.args
                record.args = client, method, str(path).partition("?")[0], version, status
            record.args = tuple(map(_printable, record.args))
        if dropped := self._dropped.pop(kind, 0):
            record.msg = f"{record.msg} (and {dropped:,} lines like it, which were left out)"
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
    """Log an error of the event loop itself as one line; asyncio would write a traceback.

    An accept() without a file descriptor is reported for every connection that waits.

    Parameters
    ----------
    loop, context
        What asyncio passes to an exception handler.
    """
    error = context.get("exception")
    description = "no error" if error is None else describe_error(error)
    LOG.error("%s (%s)", context["message"], description)


LOGGING_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"limited": {"()": LogFilter}},
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {
        "lines": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["limited"],
            "stream": "ext://sys.stderr",
        }
    },
    "loggers": {
        name: {"handlers": ["lines"], "level": "INFO", "propagate": False}
        for name in ("asyncio", "uvicorn", ACCESS, "littlestone")
    },
}
