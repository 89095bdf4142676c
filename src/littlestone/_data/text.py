"""Text files: bytes become lines, lines become records, records become rounds.

A line ends at a line feed, or at the end of the file; a line feed at the very end begins no further
line. A byte that is not UTF-8 becomes a lone surrogate, which spoils the cell it is in and nothing
else. A line of more than `MAX_LINE_BYTES` is replaced by a short one that no format can read. Files
are plain or gzip, from a path or from standard input, and read in chunks with bounded memory.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader, FileIO, RawIOBase
from typing import IO, Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from littlestone._data.locations import is_uri, locate
from littlestone._data.rounds import BadStream, Rounds, Start
from littlestone._data.schema import Faults, Schema

# The most bytes of a line.
MAX_LINE_BYTES = 1 << 20

# The most bytes that are read at a time: no more than `MAX_LINE_BYTES`.
_CHUNK_BYTES = 1 << 15

_LINE_FEED = 10
_TOO_LONG = f"<a line of more than {MAX_LINE_BYTES} bytes>".encode()


class Bytes(Protocol):
    """Specify a file of bytes, plain or decompressed on the way."""

    def read1(self, size: int, /) -> bytes:
        """Return what is there, up to a size; nothing at the end."""
        ...


class Chunk(NamedTuple):
    """Hold whole lines of a file."""

    data: bytes
    end: int

    @property
    def is_finished(self) -> bool:
        """Return whether the last line has its line feed; without one it may still be written."""
        return self.data.endswith(b"\n")

    def starts(self, before: int) -> npt.NDArray[np.int64]:
        """Return the byte of the file at which each line begins; the first begins at `before`."""
        feeds = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == _LINE_FEED)
        ends = self.end - len(self.data) + 1 + feeds
        return np.append(before, ends[:-1] if self.is_finished else ends)


def chunks_of(file: Bytes, at: int = 0) -> Iterator[Chunk]:
    """Yield the bytes of a file in chunks of whole lines."""
    rest = b""
    while data := file.read1(_CHUNK_BYTES):
        at += len(data)
        # Only the line that was begun before can be too long: a chunk is shorter than the limit.
        first, end = data.find(b"\n"), data.rfind(b"\n") + 1
        if end:
            whole = _bounded(rest + data[:first]) + data[first:end]
            rest = data[end:]
            yield Chunk(whole, at - len(rest))
        # Bytes beyond the limit are dropped, so that one endless line cannot fill the memory.
        elif len(rest) <= MAX_LINE_BYTES:
            rest += data
    if rest:
        yield Chunk(_bounded(rest), at)


def _bounded(line: bytes) -> bytes:
    return line if len(line) <= MAX_LINE_BYTES else _TOO_LONG


def lines_of(chunk: bytes) -> list[str]:
    """Return the lines of a chunk, as text."""
    # split("\n"), not splitlines: other separators of Unicode are text inside a cell, and must not
    # make rows.
    lines = chunk.decode("utf-8", "surrogateescape").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def count_lines(chunk: bytes) -> int:
    """Return the number of lines of a chunk."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n") and chunk != b"")


# How many of the first rows are checked before anything is learned.
CHECKED_ROWS = 1000


class Split(NamedTuple):
    """Hold the records of some lines."""

    cells: Mapping[str, Sequence[Any]]
    faults: Faults
    offsets: npt.NDArray[np.intp]
    used: int


class TextFormat(Protocol):
    """Specify what CSV and JSON lines differ in."""

    @property
    def schema(self) -> Schema:
        """Return which columns are read."""
        ...

    def begin(self, lines: list[str]) -> int:
        """Check the beginning of the file; return how many lines its header takes."""
        ...

    def is_plain(self, chunk: bytes) -> bool:
        """Return whether every line of a chunk is certainly one record."""
        ...

    def split(self, lines: list[str], last: bool) -> Split:
        """Return the records of some lines."""
        ...


class TextStream:
    """Read the records of a text file from some place on."""

    def __init__(
        self, file: Bytes, form: TextFormat, *, growing: bool = False, at: int = 0, line: int = 1
    ) -> None:
        self._file, self._form, self._growing = file, form, growing
        self._at, self._line = at, line
        # The number of lines left at the end, and where they begin, once all records were read.
        self.unfinished = 0
        self.rest = Start(0, at, line)

    def rounds(self, size: int) -> Iterator[Rounds]:
        """Yield the records as rounds, `size` at a time."""
        cells: dict[str, list[Any]] = {name: [] for name in self._form.schema.names}
        faults, found, count = Faults(), list[npt.NDArray[np.int64]](), 0
        for split, places in self._splits():
            for name, column in cells.items():
                column += split.cells[name]
            faults |= {count + row: why for row, why in split.faults.items()}
            found.append(places)
            count += len(places)
            # Exactly so many rows, however the file is cut into chunks.
            while count >= size:
                all_places = np.concatenate(found)
                part = {name: column[:size] for name, column in cells.items()}
                now = {row: why for row, why in faults.items() if row < size}
                yield self._read(part, now, all_places[:size])
                cells = {name: column[size:] for name, column in cells.items()}
                faults = {row - size: why for row, why in faults.items() if row >= size}
                found, count = [all_places[size:]], count - size
        if count:
            yield self._read(cells, faults, np.concatenate(found))

    def _read(
        self, cells: Mapping[str, list[Any]], faults: Faults, places: npt.NDArray[np.int64]
    ) -> Rounds:
        return self._form.schema.read(cells, faults, places[:, 1], places)

    def _splits(self) -> Iterator[tuple[Split, npt.NDArray[np.int64]]]:
        """Yield the records of each chunk, and the byte and the line at which each begins."""
        rest, starts, line = list[str](), np.zeros(0, dtype=np.int64), self._line
        begun, cut_off = self._at > 0, False
        for chunk in chunks_of(self._file, self._at):
            # Read now, half a line would be one round, and the whole line another round in the next
            # run.
            if self._growing and not chunk.is_finished:
                cut_off = True
                break
            starts = np.append(starts, chunk.starts(self._at))
            self._at = chunk.end
            rest += lines_of(chunk.data)
            if not begun:
                used, begun = _read_header(rest, self._form), True
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
        self.rest = Start(0, int(starts[0]) if rest else self._at, line)

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
                _read_header(rest, self._form)
            # Without open quotes lines are records, and counting line feeds is faster.
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


def _read_header(lines: list[str], form: TextFormat) -> int:
    """Remove the header from the first lines, and return how many it took."""
    lines[0] = lines[0].removeprefix("\ufeff")  # the byte order mark that Excel writes
    used = form.begin(lines)
    del lines[:used]
    return used


STDIN = "-"
# The first bytes of a gzip file.
GZIP = b"\x1f\x8b"
_SKIPPED_AT_ONCE = 1 << 20

# Called with how many bytes of how many have been skipped.
SkipProgress = Callable[[int, int], None]


def ignore_progress(done: int, total: int) -> None:
    """Do nothing."""


class TextRows:
    """Read an open text file of some format."""

    unit = "line"

    def __init__(self, path: str, name: str, form: TextFormat, growing: bool = False) -> None:
        self.path, self.name, self.form, self._growing = path, name, form, growing
        self.unfinished = 0
        self._open = ExitStack()
        # Its size when it was opened, and what changes when another file replaces it; None for a
        # pipe, which has neither.
        self._size: int | None = None
        self._identity: str | None = None
        if is_uri(path):
            # An object is written as a whole: with another size or time it may be another one.
            self._size, self._identity = locate(path).size, locate(path).identity()
        elif is_regular(path):
            status = os.stat(path)
            self._size, self._identity = status.st_size, f"{status.st_dev:x}:{status.st_ino:x}"
        try:
            self._file = self._opened(self._open, 0)
        except BadStream:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def identity(self, rows: int) -> str | None:
        """Return what changes when another file replaces this one; None for a pipe."""
        return self._identity

    def blocks(
        self, size: int, start: Start | None = None, progress: SkipProgress = ignore_progress
    ) -> Iterator[Rounds]:
        """Yield the rows."""
        at = start or Start(0, line=1)
        with ExitStack() as stack, self._decompressing():
            file = self._file
            if start is not None:
                file = self._opened(stack, at.byte)
                if not isinstance(file, FilePrefix):
                    _skip(file, at.byte, progress)
            stream = TextStream(file, self.form, growing=self._growing, at=at.byte, line=at.line)
            yield from stream.rounds(size)
            self.unfinished = stream.unfinished

    def length(self) -> int | None:
        """Return the number of rows, by a pass of its own; None for a pipe, which has one pass."""
        if self._size is None:
            return None
        with ExitStack() as stack, self._decompressing():
            return TextStream(self._opened(stack, 0), self.form, growing=self._growing).count()

    def _opened(self, stack: ExitStack, byte: int) -> Bytes:
        """Return the bytes of the file; of a plain one, from a byte on."""
        piped = self.path == STDIN
        raw = FileIO(0, closefd=False) if piped else locate(self.path).open()
        file = stack.enter_context(BufferedReader(cast(RawIOBase, raw)))
        if file.peek(len(GZIP)).startswith(GZIP):
            return stack.enter_context(gzip.GzipFile(fileobj=file))
        if self.path.lower().endswith(".gz"):
            raise BadStream(f"{self.name}: named .gz, but not packed by gzip")
        # A pipe: it cannot seek, and has no size.
        if self._size is None:
            return file
        file.seek(byte)
        return FilePrefix(file, max(0, self._size - byte))

    @contextmanager
    def _decompressing(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            more = ". A store goes on from here when the file is whole" if self._growing else ""
            raise BadStream(
                f"{self.name}: the gzip file is damaged or cut off: {error}{more}"
            ) from None


class FilePrefix:
    """Read a file up to the size that it had when it was opened."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._read, self._left = file.read, size

    def read1(self, size: int, /) -> bytes:
        data = self._read(min(size, self._left))
        self._left -= len(data)
        return data


def _skip(file: Bytes, size: int, progress: SkipProgress) -> None:
    """Skip so many bytes."""
    left = size
    while left and (data := file.read1(min(left, _SKIPPED_AT_ONCE))):
        left -= len(data)
        progress(size - left, size)


def is_regular(path: str) -> bool:
    """Return whether a path is a file of this machine that can be read twice, and not a pipe."""
    return path != STDIN and stat.S_ISREG(os.stat(path).st_mode)
