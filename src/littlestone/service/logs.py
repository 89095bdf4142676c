"""Logs: lines without a query, without what moves a terminal, and never more than a disk can take.

A line tells who asked, for what, and what came of it. Whoever asks decides how many lines there
are, so each kind of line has a rate; what is beyond it is counted, and the next line says so.
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
LINES, WARNINGS = 100.0, 5.0
"""Lines a second of requests, and of any other kind."""


class LogFilter(logging.Filter):
    """Lets a line pass if there were not too many like it, and cleans it.

    >>> careful = Careful(clock=lambda: 0.0)
    >>> line = logging.makeLogRecord({"name": "x", "msg": "from %s", "args": ("\\x1b[2J",)})
    >>> careful.filter(line), line.getMessage()
    (True, 'from \\\\x1b[2J')
    """

    def __init__(self, clock: Any = time.monotonic) -> None:
        super().__init__()
        self._access, self._others = RateLimit(LINES, clock), RateLimit(WARNINGS, clock)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written; a line of a request loses its query."""
        # A kind is a text before its parts are put in: requests are one kind, whoever makes them.
        kind = f"{record.name} {record.msg}"
        pace = self._access if record.name == ACCESS else self._others
        if pace.wait(kind):
            self._left_out[kind] += 1
            return False
        if isinstance(record.args, tuple):
            if record.name == ACCESS and len(record.args) == 5:
                client, method, path, version, status = record.args
                record.args = client, method, str(path).partition("?")[0], version, status
            record.args = tuple(map(_printable, record.args))
        if missing := self._left_out.pop(kind, 0):
            record.msg = f"{record.msg} (and {missing:,} lines like it, which were left out)"
        return True


def _printable(part: object) -> object:
    """A part of a line, with what does not print shown instead of obeyed."""
    if not isinstance(part, str) or part.isprintable():
        return part
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in part
    )


def place_of(error: BaseException) -> str:
    """Return where an error was raised, and its kind; its text may hold what is private."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    return f"{type(error).__name__} at {where}"


def log_loop(loop: object, context: dict[str, Any]) -> None:
    """Log what goes wrong in the event loop itself as a line; asyncio would write a traceback.

    An accept() without a file descriptor is reported for every connection that waits.
    """
    error = context.get("exception")
    LOG.error("%s (%s)", context["message"], "no error" if error is None else place_of(error))


LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"careful": {"()": LogFilter}},
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {
        "lines": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["careful"],
            "stream": "ext://sys.stderr",
        }
    },
    "loggers": {
        name: {"handlers": ["lines"], "level": "INFO", "propagate": False}
        for name in ("asyncio", "uvicorn", ACCESS, "littlestone")
    },
}
