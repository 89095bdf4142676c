"""Blocks of a stream: what a reader hands out, whatever the format of the file.

A row that cannot be read is a *null round*: its label is `NULL`, it keeps its place, and the rows
after it keep theirs. So two files that differ in one row make two streams that differ in one round,
which is what the guarantee is about. Why a round is null is private, and so is how many are.
"""

import difflib
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from littlestone.edge.checksums import Sums
from littlestone.errors import LittlestoneError
from littlestone.theory.classes import HypothesisClass, checked_class
from littlestone.theory.rows import Kind

NULL = -1
"""The label of a null round."""

Array = npt.NDArray[Any]


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


class SomeRows(Protocol):
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

    def part(self, start: int, stop: int) -> "SomeRows":
        """Some of the rows. What is told about bad rows stays with the whole."""

    def start(self, row: int) -> Start:
        """Where the first of the rows begins, if `row` rows of the source come before it."""

    def sums(self) -> Sums:
        """The checksum of each column, which can be joined to those of the rows before."""


@dataclass(frozen=True)
class Block:
    """Some consecutive rows: an array for each column that the class reads, labels, users.

    `labels` are 0, 1 or `NULL`. What the columns hold in a null round means nothing. `users` is
    None when no column names them; the user of a null round is kept, or None where the row is too
    broken to tell. `bad` tells about the first null rounds, `nulls` is how many there are.
    """

    columns: dict[str, Array]
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

    def sums(self) -> Sums:
        """The checksum of each column, the same however the rows are cut into blocks.

        >>> def rows(*names):
        ...     return Block({"a": np.array(names)}, np.ones(len(names), np.int8), None, (), 0)
        >>> rows("x", "y").sums() == rows("x").sums() + rows("y").sums()
        True
        """
        return Sums((crc32(text), len(text)) for text in self.spelt())

    def spelt(self) -> list[bytes]:
        """Labels, columns and users as bytes, the same however the rows are cut into blocks."""
        users = [] if self.users is None else [self.users]
        return [self.labels.tobytes(), *map(_spelt, [*self.columns.values(), *users])]


def _spelt(column: Array) -> bytes:
    """The values of a column, whatever array they are in: a missing one in a block makes it another
    sort of array."""
    return "".join(f"{value}\0" for value in column.tolist()).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Wanted:
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


def wanted(cls: HypothesisClass, label: str, user: str | None) -> Wanted:
    """What a class needs of a file, refused where a file could not give it.

    >>> from littlestone.theory.rules import Rules
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
    return Wanted(cls, named, label, user)


def shown(cell: object) -> str:
    """A cell in a sentence, not too long.

    >>> shown("abc"), len(shown("long" * 1000))
    ("'abc'", 30)
    """
    return reprlib.repr(cell)


def _listed(names: list[str]) -> str:
    most = 20
    listed = ", ".join(map(repr, names[:most])) or "none"
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"
