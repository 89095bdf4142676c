"""Opening a text file: plain or gzip, from a path or from standard input."""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader, FileIO
from typing import IO

from littlestone.edge.blocks import BadStream, Block, Start
from littlestone.edge.lines import Bytes
from littlestone.edge.pieces import in_blocks
from littlestone.edge.text import TextFormat, TextStream

STDIN = "-"
_GZIP = b"\x1f\x8b"
_PASSED_AT_ONCE = 1 << 20

Passing = Callable[[int, int], None]
"""Is told how much of how much was passed over."""


def ignore(done: int, total: int) -> None:
    """Tell nobody."""


class TextRows:
    """A text file of some format, open. If it is `growing`, what is unfinished at its end is no row
    yet."""

    unit = "line"

    def __init__(self, path: str, name: str, form: TextFormat, growing: bool = False) -> None:
        self.path, self.name, self.form, self._growing = path, name, form, growing
        self.unfinished = 0
        self._open = ExitStack()
        self._status = os.stat(path) if is_regular(path) else None
        try:
            self._file = self._opened(self._open, 0)
        except BadStream:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._open.close()

    def identity(self, rows: int) -> str | None:
        """Return what changes when another file takes this one's place; None for a pipe."""
        status = self._status
        return None if status is None else f"{status.st_dev:x}:{status.st_ino:x}"

    def blocks(
        self, size: int, start: Start | None = None, passing: Passing = ignore
    ) -> Iterator[Block]:
        """Return the rows, `size` at a time, from a place on at which a row begins.

        A plain file is read from there. A packed one has to be unpacked up to there, and `passing`
        is told how far that has come.
        """
        at = start or Start(0, line=1)
        with ExitStack() as stack, self._unpacked():
            file = self._file
            if start is not None:
                file = self._opened(stack, at.byte)
                if not isinstance(file, _Prefix):
                    _pass_over(file, at.byte, passing)
            stream = TextStream(file, self.form, growing=self._growing, at=at.byte, line=at.line)
            yield from in_blocks(stream.pieces(), size)
            self.unfinished = stream.unfinished

    def length(self) -> int | None:
        """How many rows there are, by a pass of its own; None for a pipe, which has one pass."""
        if self._status is None:
            return None
        with ExitStack() as stack, self._unpacked():
            return TextStream(self._opened(stack, 0), self.form, growing=self._growing).count()

    def _opened(self, stack: ExitStack, byte: int) -> Bytes:
        """The bytes of the file; of a plain one, from a byte on."""
        piped = self.path == STDIN
        raw = FileIO(0 if piped else self.path, closefd=not piped)
        file = stack.enter_context(BufferedReader(raw))
        if file.peek(len(_GZIP)).startswith(_GZIP):
            return stack.enter_context(gzip.GzipFile(fileobj=file))
        if self.path.lower().endswith(".gz"):
            raise BadStream(f"{self.name}: named .gz, but not packed by gzip")
        if self._status is None:
            return file
        file.seek(byte)
        return _Prefix(file, max(0, self._status.st_size - byte))

    @contextmanager
    def _unpacked(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            more = ". A store goes on from here when the file is whole" if self._growing else ""
            raise BadStream(
                f"{self.name}: the gzip file is damaged or cut off: {error}{more}"
            ) from None


class _Prefix:
    """What a file held when it was opened. A log may grow between counting rows and reading them;
    the length must stay the length."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._read, self._left = file.read, size

    def read1(self, size: int, /) -> bytes:
        data = self._read(min(size, self._left))
        self._left -= len(data)
        return data


def _pass_over(file: Bytes, size: int, passing: Passing) -> None:
    """Read so many bytes for nothing."""
    left = size
    while left and (data := file.read1(min(left, _PASSED_AT_ONCE))):
        left -= len(data)
        passing(size - left, size)


def is_regular(path: str) -> bool:
    """Whether a path is a file that can be read twice, and not a pipe."""
    return path != STDIN and stat.S_ISREG(os.stat(path).st_mode)
