"""Text files: bytes become lines, lines become records, records become rounds.

A line ends at a line feed, or at the end of the file; a line feed at the very end begins no further
line. A byte that is not of the encoding (UTF-8, unless another is named) becomes a lone surrogate,
which spoils the cell it is in and nothing else. A line of more than `MAX_LINE_BYTES` is replaced by
a short one that no format can read. Files are plain or gzip, from a path or from standard input, and
read in chunks with bounded memory.

A file that grows can be followed, as `tail -F` does; but another file is an error. Its rows are
those of a file that is read again whenever it has grown: a row is a line, or in CSV a record, that is
finished. When a row was seen changes nothing about it.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from gzip import GzipFile
from io import BufferedReader, FileIO
from pathlib import Path
from threading import Event
from typing import IO, Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from littlestone._data.locations import is_uri, locate
from littlestone._data.rounds import BadStream, BlockSize, Rounds, Start
from littlestone._data.schema import Faults, Schema
from littlestone._hypotheses.cells import Cells
from littlestone._hypotheses.columns import join_columns
from littlestone._hypotheses.values import Mask

STDIN = "-"
UTF_8 = "utf-8"
# How lone surrogates are written in UTF-8, which has none.
SURROGATES = "surrogatepass"
# The first bytes of a gzip file.
GZIP = b"\x1f\x8b"
# How many of the first rows are checked before anything is learned.
CHECKED_ROWS = 1000
# The most bytes of a line.
MAX_LINE_BYTES = 1 << 20
# The most bytes that are read at a time: no more than `MAX_LINE_BYTES`.
_CHUNK_BYTES = 1 << 20
_LINE_FEED = 10
_TOO_LONG = f"<a line of more than {MAX_LINE_BYTES} bytes>".encode()
# Seconds between two looks at a file that is followed.
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

Places = npt.NDArray[np.int64]
TextFile = BufferedReader | GzipFile


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

    def starts(self, before: int) -> Places:
        """Return the byte of the file at which each line begins; the first begins at `before`."""
        ends = self.end - len(self.data) + line_ends(self.data)
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


# Each means itself in an encoding that lines can be read in.
_PLAIN_TEXTS = [*map(chr, range(128)), "".join(map(chr, range(128))), r"\u000a\n\x0a\N{COMMA}"]


def checked_encoding(given: str) -> str:
    """Return an encoding in which every byte of ASCII means itself, as line feeds and commas must."""
    try:
        if any(text.encode().decode(given, "surrogateescape") != text for text in _PLAIN_TEXTS):
            raise UnicodeError
        # Elsewhere a quote could be a byte that a count of the lines does not know.
        if {*bytes(range(128, 256)).decode(given, "replace")} & {*'"\\{}[]:,;|\t\r\n'}:
            raise UnicodeError
    except LookupError:
        raise BadStream(
            f"--encoding {given}: there is no encoding of this name; utf-8, latin-1 and cp1252 are "
            "common ones"
        ) from None
    except UnicodeError:
        raise BadStream(
            f"--encoding {given}: such a text cannot be read line by line. Convert the file first: "
            f"`iconv -f {given} -t utf-8 FILE > NEW`"
        ) from None
    return given


def lines_of(chunk: bytes, encoding: str = UTF_8) -> list[str]:
    """Return the lines of a chunk, as text."""
    # At line feeds, not splitlines: other separators of Unicode are text inside a cell, and must
    # not make rows.
    if encoding == UTF_8:
        lines = chunk.decode(UTF_8, "surrogateescape").split("\n")
    else:
        # Lemma 0: each by itself, so that no byte of one line reaches into the next.
        lines = [line.decode(encoding, "surrogateescape") for line in chunk.split(b"\n")]
    if not lines[-1]:
        lines.pop()
    return lines


def as_utf8(chunk: bytes, encoding: str = UTF_8) -> bytes:
    """Return lines as UTF-8, each with a line feed; with lone surrogates for bytes that are wrong."""
    try:
        if encoding == UTF_8 and (chunk.isascii() or chunk.decode()):
            return chunk if chunk.endswith(b"\n") else chunk + b"\n"
    except UnicodeDecodeError:
        pass
    return as_bytes(lines_of(chunk, encoding))


def as_bytes(lines: list[str]) -> bytes:
    """Return lines as the bytes that `as_utf8` has for them."""
    return "".join([f"{line}\n" for line in lines]).encode(UTF_8, SURROGATES)


def as_lines(data: bytes) -> list[str]:
    """Return the lines in what `as_utf8` returned."""
    return data.decode(UTF_8, SURROGATES).split("\n")[:-1]


def line_ends(data: bytes) -> Places:
    """Return where the byte after each line feed is."""
    return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _LINE_FEED) + 1


def lines_among(data: bytes, chosen: Mask) -> bytes:
    """Return some of the lines of a text."""
    lengths = np.diff(line_ends(data), prepend=0)
    return np.frombuffer(data, dtype=np.uint8)[np.repeat(chosen, lengths)].tobytes()


def count_lines(chunk: bytes) -> int:
    """Return the number of lines of a chunk."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n") and chunk != b"")


class Split(NamedTuple):
    """Hold the records of some lines: cells, faults, the lines they begin at, and lines left over."""

    cells: Mapping[str, Cells]
    faults: Faults
    offsets: Places
    rest: bytes = b""


class TextFormat(Protocol):
    """Specify which lines of a text make a record, and which cells it has."""

    schema: Schema

    def begin(self, lines: list[str]) -> int:
        """Check the beginning of the file; return how many lines its header takes."""
        ...

    def is_plain(self, chunk: bytes) -> bool:
        """Return whether every line of a chunk is certainly one record."""
        ...

    def split(self, data: bytes, last: bool) -> Split:
        """Return the records of some lines, which are as `as_utf8` returns them."""
        ...


class TextStream:
    """Read the records of a text file from a position on."""

    def __init__(
        self, file: Bytes, form: TextFormat, start: Start, *, growing: bool, encoding: str
    ) -> None:
        self._file, self._form, self._start, self._growing = file, form, start, growing
        self._encoding = encoding
        # How many lines at the end are no records yet, once all others were read.
        self.unfinished = 0

    def blocks(self, size_after: BlockSize) -> Iterator[tuple[Rounds, Start]]:
        """Yield the records as rounds, each block with the position after it."""
        waiting = list[Mapping[str, Cells]]()
        faults, pieces, row, end = Faults(), list[Places](), self._start.row, self._start
        count = 0
        for split, places in self._splits():
            waiting.append(split.cells)
            faults |= {count + number: why for number, why in split.faults.items()}
            pieces.append(places[:-1])
            count += len(places) - 1
            # Exactly so many rows, however the file is cut into chunks.
            while count >= (size := size_after(row)):
                gathered, cells = np.concatenate([*pieces, places[-1:]]), self._joined(waiting)
                row += size
                end = Start(row, *gathered[size].tolist())
                part = {name: column[:size] for name, column in cells.items()}
                now = {number: why for number, why in faults.items() if number < size}
                yield self._form.schema.read(part, now, gathered[:size, 1]), end
                waiting = [{name: column[size:] for name, column in cells.items()}]
                faults = {number - size: why for number, why in faults.items() if number >= size}
                pieces, count = [gathered[size:-1]], count - size
            end = Start(row + count, *places[-1].tolist())
        if count:
            lines = np.concatenate(pieces)[:, 1]
            yield self._form.schema.read(self._joined(waiting), faults, lines), end

    def _joined(self, parts: Sequence[Mapping[str, Cells]]) -> dict[str, Cells]:
        return {
            name: join_columns([part[name] for part in parts]) for name in self._form.schema.names
        }

    def _splits(self) -> Iterator[tuple[Split, Places]]:
        """Yield the records of each chunk; and byte and line of each, and of what comes next."""
        _, at, line = self._start
        rest, starts, begun, cut_off = b"", np.zeros(0, dtype=np.int64), at > 0, False
        for chunk in chunks_of(self._file, at):
            # Read now, half a line would be one round, and the whole line another round in the next
            # run.
            if self._growing and not chunk.is_finished:
                cut_off = True
                break
            starts, at = np.append(starts, chunk.starts(at)), chunk.end
            data = rest + as_utf8(chunk.data, self._encoding)
            if not begun:
                (data, used), begun = _without_header(data, self._form), True
                starts, line = starts[used:], line + used
                if not data:
                    continue
            split = self._form.split(data, False)
            rest, used = split.rest, len(starts) - count_lines(split.rest)
            yield split, _places(split, starts, at, line)
            starts, line = starts[used:], line + used
        if rest and not self._growing:
            split = self._form.split(rest, True)
            yield split, _places(split, starts, at, line)
            rest = b""
        self.unfinished = count_lines(rest) + cut_off

    def count(self) -> int:
        """Count the records, without reading cells where lines can be counted instead."""
        total, rest = 0, b""
        for number, chunk in enumerate(chunks_of(self._file)):
            if self._growing and not chunk.is_finished:
                break
            # Without open quotes lines are records, and counting line feeds is faster.
            if number and not rest and self._form.is_plain(chunk.data):
                total += count_lines(chunk.data)
                continue
            data = rest + as_utf8(chunk.data, self._encoding)
            if number == 0:
                data, _ = _without_header(data, self._form)
                if not data:
                    continue
            split = self._form.split(data, False)
            total, rest = total + len(split.offsets), split.rest
        if rest and not self._growing:
            total += len(self._form.split(rest, True).offsets)
        return total


def _places(split: Split, starts: Places, end: int, line: int) -> Places:
    offsets = np.append(split.offsets, len(starts) - count_lines(split.rest))
    return np.column_stack([np.append(starts, end)[offsets], offsets + line])


_BYTE_ORDER_MARK = "\ufeff"  # which Excel writes


def _without_header(data: bytes, form: TextFormat) -> tuple[bytes, int]:
    """Return the first lines of a file without its header, and how many lines that took."""
    data = data.removeprefix(_BYTE_ORDER_MARK.encode())
    used = form.begin(as_lines(data))
    return data.split(b"\n", used)[used], used


@contextmanager
def open_text(path: str, name: str, growing: bool = False) -> Iterator[TextFile]:
    """Open a file or standard input; what gzip has packed is unpacked on the way."""
    raw = FileIO(0, closefd=False) if path == STDIN else locate(path).open()
    try:
        with BufferedReader(cast(Any, raw)) as file:
            if file.peek(len(GZIP)).startswith(GZIP):
                yield GzipFile(fileobj=file)
            elif path.lower().endswith(".gz"):
                raise BadStream(f"{name}: named .gz, but not packed by gzip")
            else:
                yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        more = ". A store goes on from here when the file is whole" if growing else ""
        raise BadStream(f"{name}: the gzip file is damaged or cut off: {error}{more}") from None


def first_line(path: str, encoding: str = UTF_8) -> str:
    """Return the first line of a file."""
    with open_text(path, path) as file:
        line = file.readline(MAX_LINE_BYTES + 1)
    if not line.strip():
        raise BadStream(f"{path}: there is no first line, which should name the columns")
    if len(line) > MAX_LINE_BYTES:
        raise BadStream(f"{path}: the first line is longer than {MAX_LINE_BYTES} bytes")
    return lines_of(line, encoding)[0].removeprefix(_BYTE_ORDER_MARK).removesuffix("\r")


class TextRows:
    """Read a text file of some format."""

    unit = "line"

    def __init__(
        self,
        path: str,
        name: str,
        form: TextFormat,
        *,
        growing: bool = False,
        encoding: str = UTF_8,
    ) -> None:
        self.path, self.name, self.form, self._growing = path, name, form, growing
        self._encoding = encoding
        self.schema, self.unfinished = form.schema, 0
        # Its size now, and what changes when another file replaces it; None for a pipe, which has
        # neither.
        self._size: int | None = None
        self._identity: str | None = None
        if is_uri(path):
            # An object is written as a whole: with another size or time it may be another one.
            self._size, self._identity = locate(path).size, locate(path).identity()
        elif is_regular(path):
            status = os.stat(path)
            self._size, self._identity = status.st_size, f"{status.st_dev:x}:{status.st_ino:x}"

    def identity(self, rows: int) -> str | None:
        """Return what changes when another file replaces this one; None for a pipe."""
        return self._identity

    def length(self) -> int | None:
        """Return the number of rows, by a pass of its own; None for a pipe, which has one pass."""
        if self._size is None:
            return None
        with open_text(self.path, self.name, self._growing) as file:
            return self._stream(file, Start()).count()

    def blocks(self, size: BlockSize, after: Start | None = None) -> Iterator[tuple[Rounds, Start]]:
        """Yield the rows."""
        with open_text(self.path, self.name, self._growing) as file:
            stream = self._stream(file, after or Start())
            yield from stream.blocks(size)
            self.unfinished = stream.unfinished

    def _stream(self, file: TextFile, start: Start) -> TextStream:
        rest: Bytes = file
        # A pipe cannot seek, and a packed file is read through to do it.
        if self._size is not None:
            file.seek(start.byte)
            if not isinstance(file, GzipFile):
                rest = FilePrefix(file, max(0, self._size - start.byte))
        return self._lines(rest, start)

    def _lines(self, file: Bytes, start: Start) -> TextStream:
        return TextStream(file, self.form, start, growing=self._growing, encoding=self._encoding)


class FilePrefix:
    """Read a file up to the size that it had when it was opened."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._read, self._left = file.read, size

    def read1(self, size: int, /) -> bytes:
        data = self._read(min(size, self._left))
        self._left -= len(data)
        return data


def is_regular(path: str) -> bool:
    """Return whether a path is a file of this machine that can be read twice, and not a pipe."""
    return path != STDIN and stat.S_ISREG(os.stat(path).st_mode)


class FollowedRows(TextRows):
    """Read a text file, then what is added to it, until an event is set."""

    def __init__(
        self, path: str, name: str, form: TextFormat, stop: Event, encoding: str = UTF_8
    ) -> None:
        super().__init__(path, name, form, growing=True, encoding=encoding)
        self._stop = stop

    def length(self) -> int | None:
        """Return None: how many rows will come is not known."""
        return None

    def blocks(self, size: BlockSize, after: Start | None = None) -> Iterator[tuple[Rounds, Start]]:
        """Yield the rows that are there, or an empty block if there is none; then those that come."""
        end, is_first, replaced = after or Start(), after is None, False
        # One descriptor for all: what is added to a file that was renamed is read to its end.
        with BufferedReader(FileIO(self.path)) as file:
            while True:
                new = os.fstat(file.fileno()).st_size - end.byte
                if new < 0:
                    raise BadStream(REPLACED.format(name=self.name, what="cut off", then=CUT_OFF))
                file.seek(end.byte)
                stream = self._lines(FilePrefix(file, new), end)
                for block, end in stream.blocks(size):
                    is_first = False
                    yield block, end
                self.unfinished = stream.unfinished
                if is_first:
                    yield self._no_rows(), end
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
        cells: dict[str, Cells] = {name: [] for name in self.schema.names}
        return self.schema.read(cells, {}, np.zeros(0, dtype=np.intp))


def refuse_to_follow(path: str, name: str, is_text: bool) -> None:
    """Refuse to follow what does not grow line by line."""
    why = None
    if is_uri(path):
        why = "only a file on this machine can be followed"
    elif not is_regular(path):
        why = "a pipe is read until it ends anyway: leave out --follow, or name the file itself"
    elif not is_text:
        why = (
            "Parquet and Arrow files do not grow: write CSV or JSON lines, or learn each file when "
            "it is due"
        )
    elif path.lower().endswith(".gz") or _is_packed(path):
        why = "a compressed file cannot be followed: follow the plain one"
    if why is not None:
        raise BadStream(f"{name}: --follow is for text files that grow. {why}")


def _is_packed(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(len(GZIP)) == GZIP
