"""Blocks of rows: the columns to read, cells as arrays, null rounds, and checksums.

A row that cannot be read is a *null round*: its label is `NULL`, it keeps its place, and the rows
after it keep theirs. So two files that differ in one row make two streams that differ in one round,
which is what the guarantee is about (docs/guarantee.md, Lemma 0). Why a round is null is private,
and so is how many are.

A format finds rows in small pieces, so that a row is done with while it is in the processor's
cache and the garbage collector never meets a million small lists; `in_blocks` joins the pieces.

A cell is read by itself: what another row holds never changes what it becomes. So numbers are
always 64-bit floats (whole numbers above 2^53 are rounded), never integers in one block and floats
in the next.
"""

import difflib
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import repeat
from types import NoneType
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, check_row, checked_class, readable_rows
from littlestone._classes.causes import Causes
from littlestone._hypotheses.causes import OUTCOME
from littlestone._hypotheses.compare import float_of
from littlestone._hypotheses.rows import Kind, label, passes, row_of
from littlestone._hypotheses.values import Mask, key_of
from littlestone.errors import BadExample, LittlestoneError

# 32 columns, each 32 bits.
Matrix = tuple[int, ...]


class Checksums(tuple[tuple[int, int], ...]):
    """Hold the CRC-32 of each column of some rows, and how many bytes it covers."""

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
        """Return the checksums that `str` wrote."""
        columns = (column.split(":") for column in text.split())
        return cls((int(crc, 16), int(length, 16)) for crc, length in columns)


def crc_combine(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two texts, one after the other."""
    # A CRC is linear: zeros behind a text multiply its checksum by a matrix over the field of two
    # elements, and 2^k zeros by that matrix squared k times.
    power = 0
    while length:
        if length & 1:
            first = _multiply(_zeros_matrix(power), first)
        length, power = length >> 1, power + 1
    return first ^ second


@cache
def _zeros_matrix(power: int) -> Matrix:
    """Return the matrix of 2 ** power bytes of zeros; power -3 is one bit."""
    if power > -3:
        half = _zeros_matrix(power - 1)
        return tuple(_multiply(half, column) for column in half)
    return 0xEDB88320, *(1 << bit for bit in range(31))


def _multiply(matrix: Matrix, vector: int) -> int:
    product = 0
    for bit, column in enumerate(matrix):
        if vector >> bit & 1:
            product ^= column
    return product


# The label of a null round.
NULL = -1

AnyArray = npt.NDArray[Any]


class BadStream(LittlestoneError, ValueError):
    """Report a file that cannot be read as a stream; the text names file, line and column."""


class BadRow(NamedTuple):
    """Hold why a round is null. Private."""

    line: int
    sentence: str


class Start(NamedTuple):
    """Hold where a row begins."""

    row: int
    byte: int = 0
    line: int = 0


class RowSpan(Protocol):
    """Specify consecutive rows, local or remote."""

    def __len__(self) -> int: ...

    @property
    def bad(self) -> tuple[BadRow, ...]:
        """Return why the first null rounds are null. Private."""

    @property
    def nulls(self) -> int:
        """Return the number of null rounds. Private."""

    def nulls_before(self, stop: int) -> int:
        """Return the number of null rounds among the first rows. Private."""

    def part(self, start: int, stop: int) -> "RowSpan":
        """Return some of the rows, without the reasons of bad ones."""

    def start(self, row: int) -> Start:
        """Return where the first of the rows begins, if `row` rows of the source precede it."""

    def sums(self) -> Checksums:
        """Return the checksum of each column, to be added to those of the rows before."""


@dataclass(frozen=True)
class Block:
    """Hold consecutive rows as arrays."""

    columns: dict[str, AnyArray]
    labels: npt.NDArray[np.int8]
    users: npt.NDArray[np.object_] | None
    bad: tuple[BadRow, ...]
    nulls: int
    places: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, stop: int) -> "Block":
        """Implement `RowSpan.part`: views of the arrays."""
        some = slice(start, stop)
        return Block(
            {name: column[some] for name, column in self.columns.items()},
            labels=self.labels[some],
            users=None if self.users is None else self.users[some],
            bad=(),
            nulls=int((self.labels[some] == NULL).sum()),
            places=None if self.places is None else self.places[some],
        )

    def start(self, row: int) -> Start:
        """Implement `RowSpan.start`: in text also byte and line."""
        return Start(row) if self.places is None else Start(row, *self.places[0].tolist())

    def nulls_before(self, stop: int) -> int:
        """Implement `RowSpan.nulls_before`."""
        return int((self.labels[:stop] == NULL).sum())

    @property
    def targets(self) -> AnyArray:
        """Return what a learner is given as labels: outcomes where there are some, None if null."""
        if OUTCOME not in self.columns:
            return self.labels
        outcomes = self.columns[OUTCOME].astype(object)
        outcomes[self.labels == NULL] = None
        return outcomes

    def sums(self) -> Checksums:
        """Implement `RowSpan.sums`."""
        users = [] if self.users is None else [self.users]
        texts = self.labels.tobytes(), *map(_column_bytes, [*self.columns.values(), *users])
        return Checksums((crc32(text), len(text)) for text in texts)


def _column_bytes(column: AnyArray) -> bytes:
    """Return the values of a column as bytes."""
    # As text, not as the array's own bytes: a missing value in a block gives it another dtype.
    return "".join(f"{value}\0" for value in column.tolist()).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class ColumnSchema:
    """Hold which columns are read. Make one with `column_schema`."""

    cls: HypothesisClass
    kinds: dict[str, Kind]
    label: str
    user: str | None
    positive: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return every column, once."""
        users = () if self.user is None else (self.user,)
        return tuple(dict.fromkeys((*self.kinds, self.label, *users)))

    @cached_property
    def normal(self) -> tuple[str, ...]:
        """Return the labels of normal rows, if all others are outcomes."""
        return tuple(self.cls.normal) if isinstance(self.cls, Causes) else ()

    @cached_property
    def named_labels(self) -> bool:
        """Return whether labels have other values than 0 and 1."""
        return bool(self.positive or self.normal)

    @cached_property
    def label_kind(self) -> Kind:
        """Return how the column of labels is read."""
        if self.bounds:
            return "number"
        return "value" if self.named_labels else "truth"

    @cached_property
    def bounds(self) -> tuple["Bound", ...]:
        """Return the conditions under which a number is a positive label, if there are any."""
        return label_bounds(self.positive)

    @cached_property
    def wrong_label(self) -> str:
        """Return the fault of a label that cannot be read."""
        return WRONG_VALUE if self.label_kind == "value" else WRONG[self.label_kind]

    def labels_of(self, cells: "Cells") -> tuple[npt.NDArray[np.int8], list[int]]:
        """Read labels, each by itself; return them, and the rows of those that are `NULL`."""
        if self.bounds:
            return bounded_label_cells(cells, self.bounds)
        if not self.normal:
            return named_label_cells(cells, self.positive) if self.positive else label_cells(cells)
        array, wrong = named_label_cells(cells, self.normal)
        # What is named is normal here, hence negative.
        array[array != NULL] ^= 1
        return array, wrong

    def check_names(self, where: str, found: Iterable[str]) -> None:
        """Check that a file has every column to read, once."""
        names = list(found)
        for name in self.names:
            if name not in names:
                raise BadStream(
                    f"{where}: no column {name!r}, which {self._reader(name)}: "
                    f"the file has {_listed(names)}.{self._hint(name, names)}"
                )
            if names.count(name) > 1:
                raise BadStream(f"{where}: column {name!r} is there twice: which of them to read?")

    def _hint(self, name: str, names: list[str]) -> str:
        """Return what to do about a column that is missing."""
        if hint := separator_hint(names):
            return hint
        if "," in name and set(name.split(",")) <= set(names):
            if name in self.kinds:
                return f" This class reads one column: causes:{name} reads several."
            return " It is one column: run once for each, or make one column of them."
        if name in self.kinds:
            return _alike(name, names) or " Name one of them in --class."
        option = "label" if name == self.label else "user"
        return _alike(name, names) or f" Name one of them as --{option}."

    def _reader(self, name: str) -> str:
        if name == self.label:
            return "holds the label"
        return "the class reads" if name in self.kinds else "holds the user"


def _alike(name: str, names: list[str]) -> str:
    """Return a hint for a mistyped name."""
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def separator_hint(names: list[str]) -> str:
    """Return a hint for a file with another separator."""
    other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if other is None:
        return ""
    if other == "\t":
        return " Are its fields separated by tabs? Then pass --format tsv."
    return (
        f" Are its fields separated by {other!r}? They must be by commas, or with --format tsv by "
        "tabs."
    )


def column_schema(
    cls: HypothesisClass, label: str, user: str | None, positive: Sequence[str] = ()
) -> ColumnSchema:
    """Return which columns of a file a class needs."""
    kinds = dict(checked_class(cls).reads)
    named = {name: kind for name, kind in kinds.items() if name is not None}
    if not kinds:
        raise BadStream(
            f"{cls!r} does not declare which columns it reads: give it a property `reads`"
        )
    if len(named) < len(kinds):
        raise BadStream(f"{cls!r} reads bare values, and a file has columns: name one with column=")
    if label in named:
        raise BadStream(
            f"column {label!r} is the label: a class that reads it would only copy it. Leave it "
            "out of --class, or name another --label"
        )
    if label == user:
        raise BadStream(
            f"column {label!r} is named as the label and as the user: it can be one of them. Name "
            "the column that identifies a person as --user"
        )
    schema = ColumnSchema(cls, named, label, user, tuple(positive))
    # Read here, so that a condition that cannot be read is an error before anything is read.
    label_bounds(schema.positive)
    if schema.positive and schema.normal:
        raise BadStream(
            "--positive conflicts with --negative (normal=): name positive labels, or normal ones"
        )
    return schema


def quoted(cell: object) -> str:
    """Return a cell as it is quoted in an error, shortened."""
    return reprlib.repr(cell)


def _listed(names: list[str]) -> str:
    limit = 20
    listed = ", ".join(map(repr, names[:limit])) or "none"
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"


# The first fault of each bad row of a piece, by row.
Faults = dict[int, str]

# The most bad rows whose faults a block keeps.
MAX_FAULTS_KEPT = 100


@dataclass(frozen=True)
class Piece:
    """Hold some consecutive rows as a format finds them."""

    columns: dict[str, AnyArray]
    labels: npt.NDArray[np.int8]
    users: npt.NDArray[np.object_] | None
    lines: npt.NDArray[np.intp]
    faults: Faults
    places: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, end: int) -> "Piece":
        """Return the rows from `start` to before `end`."""
        return Piece(
            {name: column[start:end] for name, column in self.columns.items()},
            labels=self.labels[start:end],
            users=None if self.users is None else self.users[start:end],
            lines=self.lines[start:end],
            faults={row - start: why for row, why in self.faults.items() if start <= row < end},
            places=None if self.places is None else self.places[start:end],
        )

    def block(self) -> Block:
        """Return the rows as a block."""
        kept = sorted(self.faults)[:MAX_FAULTS_KEPT]
        bad = tuple(BadRow(int(self.lines[row]), self.faults[row]) for row in kept)
        nulls = int(np.count_nonzero(self.labels == NULL))
        return Block(self.columns, self.labels, self.users, bad, nulls, self.places)


def make_piece(
    schema: ColumnSchema,
    columns: dict[str, AnyArray],
    *,
    labels: npt.NDArray[np.int8],
    users: npt.NDArray[np.object_] | None,
    faults: Faults,
    lines: npt.NDArray[np.intp],
) -> Piece:
    """Return a piece in which rows with faults, or unreadable for the class, are null rounds."""
    # The round stays, without a label: the rows after it keep their numbers (Lemma 0).
    if faults:
        labels[list(faults)] = NULL
    # The class judges rows before the gate sees them: a learner never meets an unreadable example.
    readable = readable_rows(schema.cls, columns)
    if not readable.all():
        unread = np.flatnonzero((labels != NULL) & ~readable)
        labels[unread] = NULL
        for row in unread[:MAX_FAULTS_KEPT].tolist():
            faults[row] = why_unread(schema.cls, row_of(columns, row))
    return Piece(columns, labels=labels, users=users, lines=lines, faults=faults)


def why_unread(cls: HypothesisClass, x: object) -> str:
    """Return why a class cannot read an example."""
    try:
        check_row(cls, x)
    except BadExample as error:
        return error.sentence
    return "the class cannot read the row"


def in_blocks(pieces: Iterable[Piece], size: int) -> Iterator[Block]:
    """Yield the rows of some pieces as blocks."""
    waiting: list[Piece] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(piece)
        # Blocks have exactly `size` rows, however a format cuts its pieces.
        if count >= size:
            whole, full = _concatenate(waiting), count - count % size
            for at in range(0, full, size):
                yield whole.part(at, at + size).block()
            waiting, count = [whole.part(full, count)], count - full
    if count:
        yield _concatenate(waiting).block()


def _concatenate(pieces: list[Piece]) -> Piece:
    first, faults, at = pieces[0], Faults(), 0
    for piece in pieces:
        faults |= {at + row: why for row, why in piece.faults.items()}
        at += len(piece)
    users = [piece.users for piece in pieces if piece.users is not None]
    places = [piece.places for piece in pieces if piece.places is not None]
    return Piece(
        {name: np.concatenate([piece.columns[name] for piece in pieces]) for name in first.columns},
        labels=np.concatenate([piece.labels for piece in pieces]),
        users=np.concatenate(users) if users else None,
        lines=np.concatenate([piece.lines for piece in pieces]),
        faults=faults,
        places=np.concatenate(places) if places else None,
    )


Cells = Sequence[Any]
# Cells as an array, and the rows with wrong cells, which hold a placeholder.
CellArray = tuple[AnyArray, Iterable[int]]

# The fault of a cell that is not of its kind.
WRONG: dict[Kind, str] = {
    "value": "is not a plain value in UTF-8",
    "number": "is not a number",
    "truth": "is not 0, 1, true or false",
}

# The fault of a label whose positive values are named: it is missing, or no plain value.
WRONG_VALUE = "is not a value that a label can have"

# The most frequent labels; `label` reads the others, one by one.
_TRUTHS: dict[object, int] = {0: 0, 1: 1, "0": 0, "1": 1, "false": 0, "true": 1}
_PLAIN = {NoneType, bool, int, float, str}


def read_cells(
    schema: ColumnSchema,
    cells: Mapping[str, Cells],
    faults: Faults,
    lines: npt.NDArray[np.intp],
) -> Piece:
    """Return columns of raw cells as a piece."""
    columns = read_columns(schema, cells, faults)
    labels = _read_column(cells, schema.label, schema.wrong_label, faults, schema.labels_of)
    if schema.normal:
        columns[OUTCOME], _ = value_cells(cells[schema.label])
    users = None
    if schema.user is not None:
        users = _read_column(cells, schema.user, "does not name a user", faults, user_cells)
    return make_piece(schema, columns, labels=labels, users=users, faults=faults, lines=lines)


def read_columns(
    schema: ColumnSchema, cells: Mapping[str, Cells], faults: Faults
) -> dict[str, AnyArray]:
    """Return the columns that the class reads."""
    return {
        name: _read_column(cells, name, WRONG[kind], faults, _READERS[kind])
        for name, kind in schema.kinds.items()
    }


def _read_column(
    cells: Mapping[str, Cells],
    name: str,
    wrong: str,
    faults: Faults,
    read: Callable[[Cells], CellArray],
) -> AnyArray:
    array, rows = read(cells[name])
    for row in rows:
        faults.setdefault(row, f"column {name!r}: {quoted(cells[name][row])} {wrong}")
    return array


def value_cells(cells: Cells) -> CellArray:
    """Read values as they are; bytes that were not UTF-8, lists and objects are wrong."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    # The common case in one test: all text, and no lone surrogate in any of it.
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


def user_cells(cells: Cells) -> CellArray:
    """Read users: values that are neither empty nor missing."""
    # A value that cannot be read is None by now, and no user.
    array, _ = value_cells(cells)
    nobody = [row for row, cell in enumerate(array) if cell in (None, "") or cell != cell]
    array[nobody] = None
    return array, nobody


def number_cells(cells: Cells) -> CellArray:
    """Read numbers as 64-bit floats; a missing number is NaN."""
    # All at once where every cell is a number for Python too; cell by cell otherwise, so that one
    # bad cell changes nothing about the others (Lemma 0).
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


def truth_cells(cells: Cells) -> CellArray:
    """Read truth values; a missing one is wrong."""
    array, wrong = label_cells(cells)
    return array == 1, wrong


def label_cells(cells: Cells) -> tuple[npt.NDArray[np.int8], list[int]]:
    """Read labels: 0, 1, true or false, as numbers or text; anything else is `NULL`."""
    try:
        # dict.get finds 1, 1.0 and True under one key, as they are equal.
        found = map(_TRUTHS.get, cells, repeat(NULL))
        array = np.fromiter(found, dtype=np.int8, count=len(cells))
    except TypeError:  # a list or an object of JSON
        array = np.full(len(cells), NULL, dtype=np.int8)
    wrong = []
    for row in np.flatnonzero(array == NULL).tolist():
        if passes(label, cells[row]):
            array[row] = label(cells[row])
        else:
            wrong.append(row)
    return array, wrong


def named_label_cells(
    cells: Cells, positive: Iterable[str]
) -> tuple[npt.NDArray[np.int8], list[int]]:
    """Read labels of several values: 1 if the text is among the positive ones, 0 if it is another."""
    names = set(positive)
    keys = set(map(key_of, names))
    values, wrong = value_cells(cells)
    array = np.zeros(len(cells), dtype=np.int8)
    # Values repeat: each distinct one is looked up once.
    known: dict[object, int] = {}
    for row, cell in enumerate(values.tolist()):
        # With its type, as 1, 1.0 and True are one key of a dict and not one text.
        place = type(cell), cell
        if place not in known:
            missing = cell is None or cell != cell or (cell == "" and "" not in names)
            known[place] = NULL if missing else int(key_of(cell) in keys)
        array[row] = known[place]
    array[list(wrong)] = NULL
    return array, np.flatnonzero(array == NULL).tolist()


# A condition on a number: how it is compared, and with what.
Bound = tuple[str, float]
_BOUND = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
_COMPARE: dict[str, Callable[[AnyArray, float], Mask]] = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
}


def label_bounds(positive: Sequence[str]) -> tuple[Bound, ...]:
    """Read the conditions under which a number is a positive label; none if values are named."""
    found = [_BOUND.fullmatch(text) for text in positive]
    if not any(found):
        return ()
    bounds = []
    for text, match in zip(positive, found, strict=True):
        if match is None:
            raise BadStream(
                f"--positive {text} is a value and others are conditions on a number: name either "
                "values or conditions"
            )
        numbers, wrong = number_cells([match[2]])
        if wrong or math.isnan(numbers[0]):
            raise BadStream(f"--positive {text!r}: no number follows {match[1]}, as in '>60'")
        bounds.append((match[1], float(numbers[0])))
    return tuple(bounds)


def bounded_label_cells(
    cells: Cells, bounds: Sequence[Bound]
) -> tuple[npt.NDArray[np.int8], list[int]]:
    """Read labels that are numbers: 1 if a condition holds, 0 if none does, `NULL` if missing."""
    numbers, wrong = number_cells(cells)
    holds = np.zeros(len(cells), dtype=bool)
    for compare, bound in bounds:
        holds |= _COMPARE[compare](numbers, bound)
    array = holds.astype(np.int8)
    array[np.isnan(numbers)] = NULL
    array[list(wrong)] = NULL
    return array, np.flatnonzero(array == NULL).tolist()


_READERS: dict[Kind, Callable[[Cells], CellArray]] = {
    "value": value_cells,
    "number": number_cells,
    "truth": truth_cells,
}
