"""The audit log: who did what, a line of JSON each, appended to a file of the operator.

A line has the name and role of a token, the client's address, method, route and status, and of a
batch that was learned the numbers of its rounds. It never has anything of a row, a query, a key
that a client chose, or a token. The line of a request is written before its response is sent, so
whatever was acknowledged is in the log.

The file may be moved away at any time, as programs that rotate logs do: the next line goes to a new
file of the old name.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from littlestone._service.limits import RateLimit
from littlestone._service.tokens import TokenEntry
from littlestone._store.store import Receipt

LOG = logging.getLogger("littlestone")
# Lines a second about requests without a valid token: anybody can cause them.
UNKNOWN_RATE = 5.0


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
        self,
        token: TokenEntry | None,
        *,
        client: str,
        method: str,
        route: str,
        status: int,
        receipt: Receipt | None = None,
    ) -> None:
        """Write the line of a request."""
        left_out = 0
        if token is None:
            if self._unknown.wait(""):
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
        line: dict[str, Any] = {
            "action": "request",
            "who": None if token is None else token.name,
            "role": None if token is None else token.role,
            "client": client,
            "method": method,
            "route": route,
            "status": status,
        }
        if receipt is not None:
            # Without the null rounds: how many there are is private, and not part of who did what.
            line |= {"first": receipt.first, "rounds": receipt.rounds, "again": receipt.again}
        if left_out:
            line["left_out"] = left_out
        self._append(line)

    def event(self, action: str, **facts: Any) -> None:
        """Write a line about the service itself."""
        self._append({"action": action, **facts})

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _append(self, line: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        data = (json.dumps({"time": now, **line}) + "\n").encode()
        try:
            self._follow()
            # One call, so that lines of several processes never mix.
            if os.write(self._file, data) < len(data):
                raise OSError("a line was cut short")
        except OSError as error:
            # The rows are on disk by now: refusing the request would be a lie.
            self.failures += 1
            LOG.error("a line of the audit log is lost: %s", error.strerror or error)

    def _follow(self) -> None:
        """Open the file again if it was moved or removed."""
        ours = os.fstat(self._file)
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
            # The new one first: if it cannot be opened, the old one is still there to write to.
            opened = self._open()
            os.close(self._file)
            self._file = opened
