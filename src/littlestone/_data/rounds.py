"""Rounds: rows as learners read them, with null rounds, reasons, places and checksums.

A row that cannot be read is a *null round*: its label is `NULL`, it keeps its place, and the rows
after it keep theirs. So two files that differ in one row make two streams that differ in one round,
which is what the guarantee is about (docs/guarantee.md, Lemma 0). Why a round is null is private,
and so is how many are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass
from littlestone._hypotheses.cells import cell_of
from littlestone._hypotheses.columns import Column
from littlestone._hypotheses.rows import Batch, join_batches, part_of
from littlestone._hypotheses.values import Mask, key_of
from littlestone.errors import LittlestoneError

# The CRC-32 of each column of some rows, and how many bytes it covers.
Checksums = tuple[tuple[int, int], ...]

# The label of a null round.
NULL = -1

Labels = npt.NDArray[np.int32]
UserNumbers = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.integer[Any]]


class BadStream(LittlestoneError, ValueError):
    """Report a file that cannot be read as a stream; the text names file, line and column."""


class BadRow(NamedTuple):
    """Hold why a round is null. Private."""

    line: int
    sentence: str


class Start(NamedTuple):
    """Hold where a row of a file begins: how many precede it; in text also byte and line."""

    row: int = 0
    byte: int = 0
    line: int = 1


FIRST_BLOCK, LARGEST_BLOCK = 4096, 65536
# How many rows a block has that so many rows precede.
BlockSize = Callable[[int], int]


def block_size(row: int, largest: int = LARGEST_BLOCK) -> int:
    """Return how many rows the block after so many rows has: few at first, to show progress soon."""
    return min(max(FIRST_BLOCK, row), largest)


class RowSpan(Protocol):
    """Specify consecutive rows, local or remote: what a learner learns and a store counts."""

    def __len__(self) -> int: ...

    @property
    def has_users(self) -> bool:
        """Return whether each row has a user."""

    def routes(self) -> Numbers:
        """Return what routes each row to its tree: the number of its user, or its own. Public."""

    def numbered(self, first: int, within: Mask | None = None) -> "RowSpan":
        """Return the rounds that have an example, by number; only those of a mask, if given."""

    def between(self, start: int, stop: int) -> "RowSpan":
        """Return the rounds from number `start` up to `stop`."""

    def apply(self, function: Callable[..., Any], cls: HypothesisClass, published: Any) -> Any:
        """Return `function(cls, rounds, published)`, computed where the rows are."""

    def time_cell(self, row: int) -> object:
        """Return the cell that holds the time of a row, counted from 0; None if there is none."""

    def null_rounds(self, within: Mask | None = None) -> int:
        """Return how many rows have no example, or are not among these. Private."""

    @property
    def bad(self) -> tuple[BadRow, ...]:
        """Return why the first null rounds are null. Private."""

    def part(self, start: int, stop: int) -> "RowSpan":
        """Return some of the rows, without the reasons of bad ones."""


@dataclass(frozen=True)
class Rounds:
    """Hold consecutive rows as a learner reads them; null rounds keep their place.

    A label is 1 for a positive row, 0 for a normal one, or `NULL`; where labels are outcomes, they
    are one more column. A user is a number, 0 for nobody. Rounds are numbered from 0 on, unless
    `numbers` says otherwise.
    """

    columns: Batch
    # Truth values will do where no round is null.
    labels: Labels | Mask
    users: Numbers | None = None
    bad: tuple[BadRow, ...] = ()
    numbers: Numbers | None = None
    # The cells of the column of times, as they came: only those at the ends of windows are read.
    times: Any = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def usable(self) -> Mask:
        """Return which rounds have an example."""
        return np.asarray(self.labels != NULL)

    @property
    def answers(self) -> Mask:
        """Return which rows are positive: neither normal nor null."""
        return np.asarray(self.labels > 0)

    @property
    def number(self) -> Numbers:
        """Return the number of each round."""
        return np.arange(len(self)) if self.numbers is None else self.numbers

    @property
    def has_users(self) -> bool:
        """Implement `RowSpan.has_users`."""
        return self.users is not None

    def routes(self) -> Numbers:
        """Implement `RowSpan.routes`."""
        return self.number if self.users is None else self.users

    def numbered(self, first: int, within: Mask | None = None) -> "Rounds":
        """Implement `RowSpan.numbered`. A null round moves no other one (Theorem 9)."""
        number = np.arange(first, first + len(self))
        rounds = Rounds(self.columns, self.labels, self.users, (), number)
        usable = self.usable if within is None else self.usable & within
        return rounds if usable.all() else rounds.taken(np.flatnonzero(usable))

    def between(self, start: int, stop: int) -> "Rounds":
        """Implement `RowSpan.between`."""
        # Null rounds are left out, so numbers have gaps: search, do not subtract.
        first, last = self.number.searchsorted((start, stop)).tolist()
        whole = first == 0 and last == len(self)
        return self if whole else self.taken(slice(first, last))

    def apply(self, function: Callable[..., Any], cls: HypothesisClass, published: Any) -> Any:
        """Implement `RowSpan.apply`."""
        return function(cls, self, published)

    def time_cell(self, row: int) -> object:
        """Implement `RowSpan.time_cell`."""
        return None if self.times is None else cell_of(self.times, row)

    def null_rounds(self, within: Mask | None = None) -> int:
        """Implement `RowSpan.null_rounds`."""
        usable = self.usable if within is None else self.usable & within
        return len(self) - int(np.count_nonzero(usable))

    def part(self, start: int, stop: int) -> "Rounds":
        """Implement `RowSpan.part`: views of the arrays."""
        return self.taken(slice(start, stop))

    def taken(self, rows: Any) -> "Rounds":
        """Return some of the rows, by a mask, their places or a slice."""
        return Rounds(
            part_of(self.columns, rows),
            self.labels[rows],
            None if self.users is None else self.users[rows],
            (),
            None if self.numbers is None else self.numbers[rows],
            self.times[rows] if self.times is not None and isinstance(rows, slice) else None,
        )

    def sums(self, before: Checksums = ()) -> Checksums:
        """Return the checksum of each column, which goes on from that of the rows before."""
        columns = self.columns.values() if isinstance(self.columns, dict) else [self.columns]
        users = b"" if self.users is None else self.users.tobytes()
        texts = self.labels.astype(np.int8).tobytes(), users, *map(_column_bytes, columns)
        starts = before or ((0, 0),) * len(texts)
        pairs = zip(texts, starts, strict=True)
        return tuple((crc32(text, crc), length + len(text)) for text, (crc, length) in pairs)


def join_rounds(parts: Sequence[Rounds]) -> Rounds:
    """Return the rows of several parts as one; the reasons of bad ones are left out."""
    if len(parts) == 1:
        return parts[0]
    users = [part.users for part in parts if part.users is not None]
    return Rounds(
        join_batches([part.columns for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate(users) if users else None,
    )


def _column_bytes(column: Any) -> bytes:
    """Return the values of a column as bytes."""
    # By what identifies a value, and as text, not as the array's own bytes: a missing value in a block
    # gives it another dtype, and equal zeros may have lost their sign to each other.
    if isinstance(column, Column):
        keys = [key_of(value) for value in column.values.tolist()]
        # With its length in front of each, no two columns have the same bytes.
        cells = [len(key).to_bytes(4) + key for key in keys]
        return b"".join(map(cells.__getitem__, column.codes.tolist()))
    numbers = (column + 0.0 if column.dtype.kind == "f" else column).tolist()
    return "".join([f"{number}\0" for number in numbers]).encode("utf-8", "surrogatepass")
