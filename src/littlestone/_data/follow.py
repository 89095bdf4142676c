"""Text files that are followed while they grow, as `tail -F` does; but another file is an error.

Rows become rounds as in a file that is read again whenever it has grown: a row is a line, or in CSV
a record, that is finished. When a row was seen changes nothing about it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader, FileIO
from threading import Event

import numpy as np

from littlestone._data.rounds import BadStream, Rounds, Start
from littlestone._data.text import (
    GZIP,
    STDIN,
    FilePrefix,
    SkipProgress,
    TextFormat,
    TextRows,
    TextStream,
    ignore_progress,
    is_regular,
)

# Seconds between two looks at the file.
LOOK_SECONDS = 0.5
REPLACED = (
    "{name} was {what} while it was followed. The rows that it had until then are learned. {then}"
)
NEW_FILE = (
    "To go on with the new file, start again; with --db, and if none of its rows was learned "
    "before, with --new-rows"
)
CUT_OFF = (
    "Whether rows were lost cannot be told: have it rotated by renaming, not by cutting it off "
    "(copytruncate). Then start again; with --db, and if none of its rows was learned before, with "
    "--new-rows"
)


def refuse_to_follow(path: str, name: str, form: str) -> None:
    """Refuse to follow what does not grow line by line."""
    why = None
    if "://" in path:
        why = "only a file on this machine can be followed"
    elif path == STDIN or not is_regular(path):
        why = "a pipe is read until it ends anyway: leave out --follow, or name the file itself"
    elif form == "parquet":
        why = (
            "Parquet files do not grow: write CSV or JSON lines, or learn each file when it is due"
        )
    elif path.lower().endswith(".gz") or _starts_with(path, GZIP):
        why = "a compressed file cannot be followed: follow the plain one"
    if why is not None:
        raise BadStream(f"{name}: --follow is for text files that grow. {why}")


def _starts_with(path: str, mark: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(mark)) == mark


class FollowedRows(TextRows):
    """Read a text file, then what is added to it, until an event is set."""

    def __init__(self, path: str, name: str, form: TextFormat, stop: Event) -> None:
        super().__init__(path, name, form, growing=True)
        self._stop = stop

    def length(self) -> int | None:
        """Return None: how many rows will come is not known."""
        return None

    def blocks(
        self, size: int, start: Start | None = None, progress: SkipProgress = ignore_progress
    ) -> Iterator[Rounds]:
        """Yield the rows that are there, or an empty block if there is none; then those that come."""
        at = start or Start(0, line=1)
        # One descriptor for all: what is added to a file that was renamed is read to its end.
        with BufferedReader(FileIO(self.path)) as file:
            is_first, replaced = start is None, False
            while True:
                read = os.fstat(file.fileno()).st_size - at.byte
                if read < 0:
                    raise BadStream(REPLACED.format(name=self.name, what="cut off", then=CUT_OFF))
                file.seek(at.byte)
                stream = TextStream(
                    FilePrefix(file, read), self.form, growing=True, at=at.byte, line=at.line
                )
                for block in stream.rounds(size):
                    is_first = False
                    yield block
                at, self.unfinished = stream.rest, stream.unfinished
                if is_first:
                    yield self._no_rows()
                if replaced:
                    raise BadStream(
                        REPLACED.format(name=self.name, what="moved or replaced", then=NEW_FILE)
                    )
                is_first, replaced = False, self._is_replaced(file.fileno())
                # After a renaming, too: whoever writes may not know of it yet.
                if self._stop.wait(LOOK_SECONDS):
                    return

    def _is_replaced(self, file: int) -> bool:
        """Return whether the path leads to another file than the one that is read, or to none."""
        with suppress(FileNotFoundError):
            return not os.path.samestat(os.stat(self.path), os.fstat(file))
        return True

    def _no_rows(self) -> Rounds:
        schema = self.form.schema
        return schema.read({name: [] for name in schema.names}, {}, np.zeros(0, dtype=np.intp))
