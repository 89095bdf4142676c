"""Lines of a text file, in chunks, with bounded memory.

A line ends at a line feed, or at the end of the file; a line feed at the very end begins no further
line. A byte that is not UTF-8 becomes a lone surrogate, which spoils the cell it is in and nothing
else. A line of more than `LONGEST_LINE` bytes is replaced by a short one that no format can read.

Text files: lines become records, records become pieces of the stream, whatever the format.

Opening a text file: plain or gzip, from a path or from standard input.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BufferedReader, FileIO
from typing import IO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from littlestone.data.blocks import (
    BadStream,
    Block,
    Cells,
    ColumnSchema,
    Faults,
    Piece,
    Start,
    in_blocks,
    read_cells,
)

LONGEST_LINE = 1 << 20
"""The most bytes of a line."""

_PIECE = 1 << 15
"""The most bytes that are read at a time: no more than `LONGEST_LINE`."""

_LINE_FEED = 10
_TOO_LONG = f"<a line of more than {LONGEST_LINE} bytes>".encode()


class Bytes(Protocol):
    """A file of bytes, plain or unpacked on the way."""

    def read1(self, size: int, /) -> bytes:
        """What is there, up to a size; nothing at the end."""
        ...


class Chunk(NamedTuple):
    """Whole lines of a file, and the byte of the file at which they end."""

    data: bytes
    end: int

    @property
    def is_finished(self) -> bool:
        """Whether the last line has its line feed; without one it may still be written."""
        return self.data.endswith(b"\n")

    def starts(self, before: int) -> npt.NDArray[np.int64]:
        """Return the byte of the file at which each line begins; the first begins at `before`.

        A line that was replaced by a short one is the first of its chunk, so the others are as far
        from the end of the chunk as they are in the file.
        """
        feeds = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == _LINE_FEED)
        ends = self.end - len(self.data) + 1 + feeds
        return np.append(before, ends[:-1] if self.is_finished else ends)


def chunks_of(file: Bytes, at: int = 0) -> Iterator[Chunk]:
    """The bytes of a file, which is read from byte `at` on, in pieces of whole lines.

    >>> import io
    >>> [*chunks_of(io.BytesIO(b"a\\nb"))]
    [Chunk(data=b'a\\n', end=2), Chunk(data=b'b', end=3)]
    """
    held = b""
    while data := file.read1(_PIECE):
        at += len(data)
        first, end = data.find(b"\n"), data.rfind(b"\n") + 1
        if end:
            whole = _bounded(held + data[:first]) + data[first:end]
            held = data[end:]
            yield Chunk(whole, at - len(held))
        elif len(held) <= LONGEST_LINE:
            held += data
    if held:
        yield Chunk(_bounded(held), at)


def _bounded(line: bytes) -> bytes:
    return line if len(line) <= LONGEST_LINE else _TOO_LONG


def lines_of(chunk: bytes) -> list[str]:
    """The lines of a chunk, as text.

    >>> lines_of(b"a\\n\\nb\\n"), lines_of(b"\\xff")
    (['a', '', 'b'], ['\\udcff'])
    """
    lines = chunk.decode("utf-8", "surrogateescape").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def count_lines(chunk: bytes) -> int:
    """How many lines a chunk has."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n") and chunk != b"")


LOOKED_AT = 1000
"""How many of the first rows are looked at before anything is handed out."""


class Split(NamedTuple):
    """Records: the cells of each wanted column, what is wrong with rows, the line at which each row
    begins (counted from the first given), and how many lines were used."""

    cells: Mapping[str, Cells]
    faults: Faults
    offsets: npt.NDArray[np.intp]
    used: int


class TextFormat(Protocol):
    """What CSV and JSON lines differ in."""

    @property
    def wanted(self) -> ColumnSchema:
        """What is to be read."""
        ...

    def begin(self, lines: list[str]) -> int:
        """Check the beginning of the file; say how many lines its header takes."""
        ...

    def is_plain(self, chunk: bytes) -> bool:
        """Whether every line of a chunk is sure to be one record."""
        ...

    def split(self, lines: list[str], last: bool) -> Split:
        """The records of some lines; unless these are the last, it leaves those for later that
        further lines could change."""
        ...


class TextStream:
    """The records of a text file from some place on.

    Parameters
    ----------
    file : Bytes
        The file, which stands at byte `at`.
    form : TextFormat
        Its format. If `at` is not 0, it has read the beginning of the file already.
    growing : bool
        Whether the file may still be written to. Then what is unfinished at its end (a line without
        a line feed, a quoted cell that is still open) is no record yet.
    at, line : int
        Where a record begins.
    """

    def __init__(
        self, file: Bytes, form: TextFormat, *, growing: bool = False, at: int = 0, line: int = 1
    ) -> None:
        self._file, self._form, self._growing = file, form, growing
        self._at, self._line = at, line
        self.unfinished = 0
        """How many lines were left at the end. Known when all records were read."""

    def pieces(self) -> Iterator[Piece]:
        """Return the records as rows."""
        for split, places in self._splits():
            form, lines = self._form, places[:, 1]
            yield replace(
                read_cells(form.wanted, split.cells, split.faults, lines),
                places=places,
            )

    def _splits(self) -> Iterator[tuple[Split, npt.NDArray[np.int64]]]:
        """The records of each chunk, and the byte and the line at which each of them begins."""
        rest, starts, line = list[str](), np.zeros(0, dtype=np.int64), self._line
        begun, cut_off = self._at > 0, False
        for chunk in chunks_of(self._file, self._at):
            if self._growing and not chunk.is_finished:
                cut_off = True
                break
            starts = np.append(starts, chunk.starts(self._at))
            self._at = chunk.end
            rest += lines_of(chunk.data)
            if not begun:
                used, begun = _begun(rest, self._form), True
                starts, line = starts[used:], line + used
            split = self._form.split(rest, False)
            yield split, self._places(split, starts, line)
            starts, line = starts[split.used :], line + split.used
            del rest[: split.used]
        if rest and not self._growing:
            split = self._form.split(rest, True)
            yield split, self._places(split, starts, line)
            rest.clear()
        self.unfinished = len(rest) + cut_off

    def _places(
        self, split: Split, starts: npt.NDArray[np.int64], line: int
    ) -> npt.NDArray[np.int64]:
        return np.column_stack([starts[split.offsets], split.offsets + line])

    def count(self) -> int:
        """Count the records, without reading cells where lines can be counted instead."""
        total, rest = 0, list[str]()
        for number, chunk in enumerate(chunks_of(self._file)):
            if self._growing and not chunk.is_finished:
                break
            if number == 0:
                rest = lines_of(chunk.data)
                _begun(rest, self._form)
            elif not rest and self._form.is_plain(chunk.data):
                total += count_lines(chunk.data)
                continue
            else:
                rest += lines_of(chunk.data)
            split = self._form.split(rest, False)
            total += len(split.offsets)
            del rest[: split.used]
        if rest and not self._growing:
            total += len(self._form.split(rest, True).offsets)
        return total


def _begun(lines: list[str], form: TextFormat) -> int:
    """Take the header off the first lines, and say how many it took."""
    lines[0] = lines[0].removeprefix("\ufeff")
    used = form.begin(lines)
    del lines[:used]
    return used


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
