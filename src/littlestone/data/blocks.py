"""Checksums of rows, column by column: the same however the rows are cut into blocks.

A CRC is linear: a text that is followed by zeros has the checksum of the text, times a matrix over
the field of two elements. With it checksums can be found where the rows are, and joined here.

Blocks of a stream: what a reader hands out, whatever the format of the file.

A row that cannot be read is a *null round*: its label is `NULL`, it keeps its place, and the rows
after it keep theirs. So two files that differ in one row make two streams that differ in one round,
which is what the guarantee is about. Why a round is null is private, and so is how many are.

Pieces of a stream: rows as a format finds them, joined into blocks of the size that is asked.

Pieces are small, so that a row is done with while it is in the processor's cache, and so that the
garbage collector never meets a million small lists.

Cells as arrays: a column of raw cells, text or JSON values, read as its kind.

Each function gives the array and the rows that are wrong, which hold a placeholder. A cell is read
by itself: what another row holds never changes what it becomes. So numbers are always 64-bit
floats (whole numbers above 2^53 are rounded), never integers in one block and floats in the next.
"""

import difflib
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from types import NoneType
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from littlestone.classes.base import HypothesisClass, check_row, checked_class, readable_rows
from littlestone.errors import BadExample, LittlestoneError
from littlestone.hypotheses.numbers import float_of
from littlestone.hypotheses.rows import Kind, label, passes, row_of

Matrix = tuple[int, ...]
"""32 columns, each 32 bits."""


class Checksums(tuple[tuple[int, int], ...]):
    """The CRC-32 of each column of some rows, and the bytes that it was taken over.

    `+` gives those of the rows of both, one after the other.

    >>> from zlib import crc32
    >>> one, other = (Sums([(crc32(text), len(text))]) for text in (b"Little", b"stone"))
    >>> one + other == Sums([(crc32(b"Littlestone"), 11)]), Sums() + one == one
    (True, True)
    >>> Sums.from_text(str(one)) == one
    True
    """

    def __new__(cls, columns: Iterable[tuple[int, int]] = ()) -> "Checksums":
        return super().__new__(cls, columns)

    def __add__(self, other: "Checksums") -> "Checksums":  # type: ignore[override]
        if not self or not other:
            return self or other
        pairs = zip(self, other, strict=True)
        return Checksums(
            (crc_combine(a, b, more), length + more) for (a, length), (b, more) in pairs
        )

    def __str__(self) -> str:
        return " ".join(f"{crc:08x}:{length:x}" for crc, length in self)

    @classmethod
    def from_text(cls, text: str) -> "Checksums":
        """Read what `str` wrote."""
        columns = (column.split(":") for column in text.split())
        return cls((int(crc, 16), int(length, 16)) for crc, length in columns)


def crc_combine(first: int, second: int, length: int) -> int:
    """The CRC-32 of a text that ends with `length` bytes whose CRC-32 is `second`, if that of the
    part before is `first`.

    >>> from zlib import crc32
    >>> joined(crc32(b"Little"), crc32(b"stone"), 5) == crc32(b"Littlestone")
    True
    """
    power = 0
    while length:
        if length & 1:
            first = _times(_zeros(power), first)
        length, power = length >> 1, power + 1
    return first ^ second


@cache
def _zeros(power: int) -> Matrix:
    """What 2 ** power bytes of zeros do to a checksum."""
    if power > -3:
        half = _zeros(power - 1)
        return tuple(_times(half, column) for column in half)
    return 0xEDB88320, *(1 << bit for bit in range(31))


def _times(matrix: Matrix, vector: int) -> int:
    product = 0
    for bit, column in enumerate(matrix):
        if vector >> bit & 1:
            product ^= column
    return product


NULL = -1
"""The label of a null round."""

AnyArray = npt.NDArray[Any]


class BadStream(LittlestoneError, ValueError):
    """A file that cannot be read as a stream; its text names the file, the line and the column."""


class BadRow(NamedTuple):
    """Why a round is null: private. `line` is where its record begins; in Parquet, its row."""

    line: int
    sentence: str


class Start(NamedTuple):
    """Where a row begins: how many rows come before it; in text also its byte, after unpacking, and
    its line."""

    row: int
    byte: int = 0
    line: int = 0


class RowSpan(Protocol):
    """Consecutive rows, here or elsewhere."""

    def __len__(self) -> int: ...

    @property
    def bad(self) -> tuple[BadRow, ...]:
        """Why the first null rounds are null. Private."""

    @property
    def nulls(self) -> int:
        """How many null rounds there are. Private."""

    def nulls_before(self, stop: int) -> int:
        """How many there are among the first rows. Private."""

    def part(self, start: int, stop: int) -> "RowSpan":
        """Some of the rows. What is told about bad rows stays with the whole."""

    def start(self, row: int) -> Start:
        """Where the first of the rows begins, if `row` rows of the source come before it."""

    def sums(self) -> Checksums:
        """The checksum of each column, which can be joined to those of the rows before."""


@dataclass(frozen=True)
class Block:
    """Some consecutive rows: an array for each column that the class reads, labels, users.

    `labels` are 0, 1 or `NULL`. What the columns hold in a null round means nothing. `users` is
    None when no column names them; the user of a null round is kept, or None where the row is too
    broken to tell. `bad` tells about the first null rounds, `nulls` is how many there are.
    """

    columns: dict[str, AnyArray]
    labels: npt.NDArray[np.int8]
    users: npt.NDArray[np.object_] | None
    bad: tuple[BadRow, ...]
    nulls: int
    places: npt.NDArray[np.int64] | None = None
    """In text: the byte and the line at which each row begins."""

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, stop: int) -> "Block":
        """Some of the rows. What is told about bad rows stays with the whole."""
        some = slice(start, stop)
        return Block(
            {name: column[some] for name, column in self.columns.items()},
            self.labels[some],
            None if self.users is None else self.users[some],
            (),
            int((self.labels[some] == NULL).sum()),
            None if self.places is None else self.places[some],
        )

    def start(self, row: int) -> Start:
        """Where the first of the rows begins, if `row` rows of the source come before it."""
        return Start(row) if self.places is None else Start(row, *self.places[0].tolist())

    def nulls_before(self, stop: int) -> int:
        """How many null rounds there are among the first rows."""
        return int((self.labels[:stop] == NULL).sum())

    def sums(self) -> Checksums:
        """The checksum of each column, the same however the rows are cut into blocks.

        >>> def rows(*names):
        ...     return Block({"a": np.array(names)}, np.ones(len(names), np.int8), None, (), 0)
        >>> rows("x", "y").sums() == rows("x").sums() + rows("y").sums()
        True
        """
        return Checksums((crc32(text), len(text)) for text in self.row_bytes())

    def row_bytes(self) -> list[bytes]:
        """Labels, columns and users as bytes, the same however the rows are cut into blocks."""
        users = [] if self.users is None else [self.users]
        return [self.labels.tobytes(), *map(_spelt, [*self.columns.values(), *users])]


def _spelt(column: AnyArray) -> bytes:
    """The values of a column, whatever array they are in: a missing one in a block makes it another
    sort of array."""
    return "".join(f"{value}\0" for value in column.tolist()).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class ColumnSchema:
    """What is to be read: the class's columns with their kinds, the label, and perhaps the user."""

    cls: HypothesisClass
    kinds: dict[str, Kind]
    label: str
    user: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Every column, once."""
        users = () if self.user is None else (self.user,)
        return tuple(dict.fromkeys((*self.kinds, self.label, *users)))

    def check_names(self, where: str, found: Iterable[str]) -> None:
        """Raise `BadStream` unless the columns of the file hold every one that is wanted, once."""
        names = list(found)
        for name in self.names:
            if name not in names:
                raise BadStream(
                    f"{where}: no column {name!r}, which {self._reader(name)}: "
                    f"the file has {_listed(names)}.{_separator(names) or _alike(name, names)}"
                )
            if names.count(name) > 1:
                raise BadStream(f"{where}: column {name!r} is there twice: which of them to read?")

    def _reader(self, name: str) -> str:
        if name == self.label:
            return "holds the label"
        return "the class reads" if name in self.kinds else "holds the user"


def _alike(name: str, names: list[str]) -> str:
    """A hint for a name that was misspelt."""
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _separator(names: list[str]) -> str:
    """A hint for a file that is not cut where its writer cut it."""
    other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if other is None:
        return ""
    if other == "\t":
        return " Is it cut at tabs? Say --format tsv."
    return f" Is it cut at {other!r}? Fields are cut at commas, or with --format tsv at tabs."


def column_schema(cls: HypothesisClass, label: str, user: str | None) -> ColumnSchema:
    """What a class needs of a file, refused where a file could not give it.

    >>> from littlestone.classes.rules import Rules
    >>> wanted(Rules(["version", "country"]), "failed", "device").names
    ('version', 'country', 'failed', 'device')
    """
    kinds = dict(checked_class(cls).reads)
    named = {name: kind for name, kind in kinds.items() if name is not None}
    if not kinds:
        raise BadStream(f"{cls!r} does not say which columns it reads: give it a property `reads`")
    if len(named) < len(kinds):
        raise BadStream(
            f"{cls!r} reads bare values, and a file has columns: say which with column="
        )
    if label in named:
        raise BadStream(f"column {label!r} is the label: a class that reads it would only copy it")
    if label == user:
        raise BadStream(f"column {label!r} is named as the label and as the user: it can be one")
    return ColumnSchema(cls, named, label, user)


def quoted(cell: object) -> str:
    """A cell in a sentence, not too long.

    >>> shown("abc"), len(shown("long" * 1000))
    ("'abc'", 30)
    """
    return reprlib.repr(cell)


def _listed(names: list[str]) -> str:
    most = 20
    listed = ", ".join(map(repr, names[:most])) or "none"
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"


Faults = dict[int, str]
"""By row of a piece: the first thing that is wrong with it."""

MOST_FAULTS_KEPT = 100
"""The most bad rows that a block tells about."""


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows, the line of each, and what is wrong with those that are null."""

    columns: dict[str, AnyArray]
    labels: npt.NDArray[np.int8]
    users: npt.NDArray[np.object_] | None
    lines: npt.NDArray[np.intp]
    faults: Faults
    places: npt.NDArray[np.int64] | None = None
    """In text: the byte and the line at which each row begins."""

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, end: int) -> "Piece":
        """The rows from one to before another."""
        return Piece(
            {name: column[start:end] for name, column in self.columns.items()},
            self.labels[start:end],
            None if self.users is None else self.users[start:end],
            self.lines[start:end],
            {row - start: why for row, why in self.faults.items() if start <= row < end},
            None if self.places is None else self.places[start:end],
        )

    def block(self) -> Block:
        """The rows as a block."""
        kept = sorted(self.faults)[:MOST_FAULTS_KEPT]
        bad = tuple(BadRow(int(self.lines[row]), self.faults[row]) for row in kept)
        nulls = int(np.count_nonzero(self.labels == NULL))
        return Block(self.columns, self.labels, self.users, bad, nulls, self.places)


def piece_of(
    wanted: ColumnSchema,
    columns: dict[str, AnyArray],
    labels: npt.NDArray[np.int8],
    users: npt.NDArray[np.object_] | None,
    faults: Faults,
    lines: npt.NDArray[np.intp],
) -> Piece:
    """A piece, in which rows with faults, and rows that the class cannot read, are null rounds."""
    labels[list(faults)] = NULL
    unread = np.flatnonzero((labels != NULL) & ~readable_rows(wanted.cls, columns))
    labels[unread] = NULL
    for row in unread[:MOST_FAULTS_KEPT].tolist():
        faults[row] = why_unread(wanted.cls, row_of(columns, row))
    return Piece(columns, labels, users, lines, faults)


def why_unread(cls: HypothesisClass, x: object) -> str:
    """What a class has against an example that it cannot read."""
    try:
        check_row(cls, x)
    except BadExample as error:
        return error.sentence
    return "the class cannot read the row"


def in_blocks(pieces: Iterable[Piece], size: int) -> Iterator[Block]:
    """The rows of the pieces, `size` at a time."""
    held: list[Piece] = []
    count = 0
    for piece in pieces:
        held.append(piece)
        count += len(piece)
        if count >= size:
            whole, full = _joined(held), count - count % size
            for at in range(0, full, size):
                yield whole.part(at, at + size).block()
            held, count = [whole.part(full, count)], count - full
    if count:
        yield _joined(held).block()


def _joined(pieces: list[Piece]) -> Piece:
    first, faults, at = pieces[0], Faults(), 0
    for piece in pieces:
        faults |= {at + row: why for row, why in piece.faults.items()}
        at += len(piece)
    users = [piece.users for piece in pieces if piece.users is not None]
    places = [piece.places for piece in pieces if piece.places is not None]
    return Piece(
        {name: np.concatenate([piece.columns[name] for piece in pieces]) for name in first.columns},
        np.concatenate([piece.labels for piece in pieces]),
        np.concatenate(users) if users else None,
        np.concatenate([piece.lines for piece in pieces]),
        faults,
        np.concatenate(places) if places else None,
    )


Cells = Sequence[Any]
Read = tuple[AnyArray, Iterable[int]]

WRONG: dict[Kind, str] = {
    "value": "is not a plain value in UTF-8",
    "number": "is not a number",
    "truth": "is not 0, 1, true or false",
}
"""What is said of a cell that is not of its kind."""

_TRUTHS: dict[object, int] = {0: 0, 1: 1, "0": 0, "1": 1, "false": 0, "true": 1}
"""The labels that are met most: the others are read by `label`, one by one."""
_PLAIN = {NoneType, bool, int, float, str}


def read_cells(
    wanted: ColumnSchema,
    cells: Mapping[str, Cells],
    faults: Faults,
    lines: npt.NDArray[np.intp],
) -> Piece:
    """The piece that columns of raw cells make."""
    columns = read_columns(wanted, cells, faults)
    labels = _noted(cells, wanted.label, WRONG["truth"], faults, label_cells)
    users = None
    if wanted.user is not None:
        users = _noted(cells, wanted.user, "does not name a user", faults, user_cells)
    return piece_of(wanted, columns, labels, users, faults, lines)


def read_columns(
    wanted: ColumnSchema, cells: Mapping[str, Cells], faults: Faults
) -> dict[str, AnyArray]:
    """The columns that the class reads; what is wrong with a row is noted among the faults."""
    return {
        name: _noted(cells, name, WRONG[kind], faults, _READERS[kind])
        for name, kind in wanted.kinds.items()
    }


def _noted(
    cells: Mapping[str, Cells],
    name: str,
    wrong: str,
    faults: Faults,
    read: Callable[[Cells], Read],
) -> AnyArray:
    array, rows = read(cells[name])
    for row in rows:
        faults.setdefault(row, f"column {name!r}: {quoted(cells[name][row])} {wrong}")
    return array


def value_cells(cells: Cells) -> Read:
    """Values as they stand. Bytes that were not UTF-8, and lists or objects of JSON, are wrong.

    >>> values(["a", 7, None, ["list"]])
    (array(['a', 7, None, None], dtype=object), [3])
    """
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    if set(map(type, cells)) == {str} and _is_text("".join(cells)):
        return array, ()
    wrong = [row for row, cell in enumerate(cells) if not _is_plain(cell)]
    array[wrong] = None
    return array, wrong


def _is_plain(cell: object) -> bool:
    return _is_text(cell) if isinstance(cell, str) else type(cell) in _PLAIN


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def user_cells(cells: Cells) -> Read:
    """Who the rows are from: values, but neither empty nor missing."""
    array, _ = value_cells(cells)
    nobody = [row for row, cell in enumerate(array) if cell in (None, "") or cell != cell]
    array[nobody] = None
    return array, nobody


def number_cells(cells: Cells) -> Read:
    """Return cells as 64-bit floats; a missing number is NaN.

    >>> numbers(["7", " 1e3", "", "abc"])
    (array([   7., 1000.,   nan,   nan]), [3])
    >>> numbers([7, 1.5, None, True, 10**400])
    (array([7. , 1.5, nan, 1. , inf]), [])
    """
    try:
        return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells)), ()
    except (TypeError, ValueError, OverflowError):
        pass
    array, wrong = np.full(len(cells), math.nan), []
    for row, cell in enumerate(cells):
        try:
            array[row] = float_of(cell)
        except BadExample:
            wrong.append(row)
    return array, wrong


def truth_cells(cells: Cells) -> Read:
    """Truth values; a missing one is wrong.

    >>> truths(["0", "TRUE", 1, ""])
    (array([False,  True,  True, False]), [3])
    """
    array, wrong = label_cells(cells)
    return array == 1, wrong


def label_cells(cells: Cells) -> tuple[npt.NDArray[np.int8], list[int]]:
    """Labels: 0, 1, true or false, as numbers or as text; anything else is `NULL`.

    >>> labels_of([True, "0.0", "False", "yes"])
    (array([ 1,  0,  0, -1], dtype=int8), [3])
    """
    try:
        found = map(_TRUTHS.get, cells, repeat(NULL))
        array = np.fromiter(found, dtype=np.int8, count=len(cells))
    except TypeError:  # a list or an object of JSON
        array = np.full(len(cells), NULL, dtype=np.int8)
    for row in np.flatnonzero(array == NULL).tolist():
        if passes(label, cells[row]):
            array[row] = label(cells[row])
    return array, np.flatnonzero(array == NULL).tolist()


_READERS: dict[Kind, Callable[[Cells], Read]] = {
    "value": value_cells,
    "number": number_cells,
    "truth": truth_cells,
}
