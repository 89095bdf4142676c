"""Pieces of a stream: rows as a format finds them, joined into blocks of the size that is asked.

Pieces are small, so that a row is done with while it is in the processor's cache, and so that the
garbage collector never meets a million small lists.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from littlestone.edge.blocks import NULL, Array, BadRow, Block, Wanted
from littlestone.theory.classes import HypothesisClass, check_row, readable_rows
from littlestone.theory.errors import BadExample
from littlestone.theory.rows import row_of

Faults = dict[int, str]
"""By row of a piece: the first thing that is wrong with it."""

MOST_KEPT = 100
"""The most bad rows that a block tells about."""


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows, the line of each, and what is wrong with those that are null."""

    columns: dict[str, Array]
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
        kept = sorted(self.faults)[:MOST_KEPT]
        bad = tuple(BadRow(int(self.lines[row]), self.faults[row]) for row in kept)
        nulls = int(np.count_nonzero(self.labels == NULL))
        return Block(self.columns, self.labels, self.users, bad, nulls, self.places)


def piece_of(
    wanted: Wanted,
    columns: dict[str, Array],
    labels: npt.NDArray[np.int8],
    users: npt.NDArray[np.object_] | None,
    faults: Faults,
    lines: npt.NDArray[np.intp],
) -> Piece:
    """A piece, in which rows with faults, and rows that the class cannot read, are null rounds."""
    labels[list(faults)] = NULL
    unread = np.flatnonzero((labels != NULL) & ~readable_rows(wanted.cls, columns))
    labels[unread] = NULL
    for row in unread[:MOST_KEPT].tolist():
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
