"""Opening a text file: plain or gzip, from a path or from standard input."""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader, FileIO
from typing import IO

from littlestone.edge.blocks import BadStream, Block
from littlestone.edge.lines import Bytes
from littlestone.edge.pieces import in_blocks
from littlestone.edge.text import TextFormat, count_records, pieces_of

STDIN = "-"
_GZIP = b"\x1f\x8b"


class TextRows:
    """A text file of some format, open."""

    unit = "line"

    def __init__(self, path: str, name: str, form: TextFormat) -> None:
        self.path, self.name, self.form = path, name, form
        self._open = ExitStack()
        self._size = os.stat(path).st_size if is_regular(path) else None
        try:
            self._file = self._opened(self._open)
        except BadStream:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._open.close()

    def blocks(self, size: int) -> Iterator[Block]:
        """The rows, `size` at a time."""
        with self._unpacked():
            yield from in_blocks(pieces_of(self._file, self.form), size)

    def length(self) -> int | None:
        """How many rows there are, by a pass of its own; None for a pipe, which has one pass."""
        if self._size is None:
            return None
        with ExitStack() as stack, self._unpacked():
            return count_records(self._opened(stack), self.form)

    def _opened(self, stack: ExitStack) -> Bytes:
        piped = self.path == STDIN
        raw = FileIO(0 if piped else self.path, closefd=not piped)
        file = stack.enter_context(BufferedReader(raw))
        if file.peek(len(_GZIP)).startswith(_GZIP):
            return stack.enter_context(gzip.GzipFile(fileobj=file))
        if self.path.lower().endswith(".gz"):
            raise BadStream(f"{self.name}: named .gz, but not packed by gzip")
        return file if self._size is None else _Prefix(file, self._size)

    @contextmanager
    def _unpacked(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadStream(f"{self.name}: the gzip file is damaged or cut off: {error}") from None


class _Prefix:
    """What a file held when it was opened. A log may grow between counting rows and reading them;
    the length must stay the length."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._read, self._left = file.read, size

    def read1(self, size: int, /) -> bytes:
        data = self._read(min(size, self._left))
        self._left -= len(data)
        return data


def is_regular(path: str) -> bool:
    """Whether a path is a file that can be read twice, and not a pipe."""
    return path != STDIN and stat.S_ISREG(os.stat(path).st_mode)
