"""Exact Littlestone dimension of an explicit class (Section 2.1), by a decision procedure.

A version space is a bitmask over hypotheses. It shatters a tree of depth k when some root splits it
into two halves that shatter depth k - 1. What keeps that fast: fewer than 2^k hypotheses shatter
nothing of depth k; balanced roots come first; answers are remembered for each version space as a
lower and an upper bound; points that split alike are tried once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from littlestone.theory.errors import TooLarge
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import as_batch
from littlestone.theory.trees import Leaf, MistakeTree, Node

MAX_CELLS = 2_000_000
"""The largest table that is written out."""

MAX_WORK = 20_000_000
"""Words of bitmask read before a search gives up: some seconds."""


@dataclass(frozen=True)
class Table:
    """Hypotheses and points; `ones[i]` is the bitmask of the hypotheses that say 1 at point i."""

    hypotheses: tuple[Hypothesis, ...]
    points: tuple[object, ...]
    ones: tuple[int, ...]

    @property
    def everything(self) -> int:
        """The version space before any example."""
        return (1 << len(self.hypotheses)) - 1


def tabulate(hypotheses: Sequence[Hypothesis], points: Sequence[object]) -> Table:
    """The table of a finite class; hypotheses alike on every point are kept once.

    >>> from littlestone.theory.vocabulary import NEVER, one_of
    >>> tabulate([NEVER, one_of([1]), one_of([2])], [1, 2]).ones
    (2, 4)
    """
    refuse_absurd(len(hypotheses), len(points))
    batch = as_batch(list(points))
    rows = {rule.predict(batch).tobytes(): rule for rule in reversed(hypotheses)}
    matrix = np.array([np.frombuffer(row, dtype=bool) for row in rows]).reshape(len(rows), -1)
    return Table(tuple(rows.values())[::-1], tuple(points), bitmasks(matrix[::-1]))


def bitmasks(matrix: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Each column of a truth table as the bitmask of its true rows.

    >>> bitmasks(np.array([[True, False], [True, True]]))
    (3, 2)
    """
    packed = np.packbits(matrix.T, axis=1, bitorder="little")
    return tuple(int.from_bytes(column.tobytes(), "little") for column in packed)


def refuse_absurd(hypotheses: int, points: int) -> None:
    """Raise before the table is built, when it is too large to build."""
    if hypotheses * points > MAX_CELLS:
        raise TooLarge(
            f"a table of {_size(hypotheses)} hypotheses on {_size(points)} points is too large to "
            f"write out: {MAX_CELLS:,} cells, such as 10,000 on 200, would work"
        )


def _size(number: int) -> str:
    return f"{number:,}" if number < 10**18 else "more than 10^18"


class Shattering:
    """Answers about the version spaces of one table, remembered.

    >>> from littlestone.theory.vocabulary import one_of
    >>> pairs = [one_of([a, b]) for a in range(4) for b in range(a)]
    >>> table = tabulate(pairs, range(4))
    >>> Shattering(table).dimension(table.everything)
    2
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._splits = _distinct_splits(table)
        self._bounds: dict[int, tuple[int, int]] = {}
        self._work = 0

    def dimension(self, space: int) -> int:
        """The dimension of a version space; -1 when it is empty."""
        depth = -1
        while self.at_least(space, depth + 1):
            depth += 1
        return depth

    def at_least(self, space: int, depth: int) -> bool:
        """Whether the version space shatters a tree of this depth."""
        size = space.bit_count()
        if depth <= 1 or size < 1 << depth:
            return size >= 1 << depth
        low, high = self._bounds.get(space, (1, size.bit_length() - 1))
        if low < depth <= high:
            found = any(
                self.at_least(smaller, depth - 1) and self.at_least(larger, depth - 1)
                for smaller, larger, _ in self._roots(space, depth)
            )
            low, high = (depth, high) if found else (low, depth - 1)
            self._bounds[space] = (low, high)
        return depth <= low

    def _roots(self, space: int, depth: int) -> list[tuple[int, int, int]]:
        """The points whose halves are large enough, as (smaller, larger, point), balanced first;
        points that split this space alike count once."""
        self._spend()
        size, needed = space.bit_count(), 1 << (depth - 1)
        roots: dict[int, tuple[int, int, int]] = {}
        for point, ones in self._splits:
            yes = space & ones
            count = yes.bit_count()
            if needed <= count <= size - needed:
                smaller = yes if 2 * count <= size else space ^ yes
                roots[smaller] = (min(count, size - count), smaller, point)
        best_first = sorted(roots.values(), reverse=True)
        return [(smaller, space ^ smaller, point) for _, smaller, point in best_first]

    def _spend(self) -> None:
        words = 4 + len(self._table.hypotheses) // 64
        self._work += len(self._splits) * words
        if self._work > MAX_WORK:
            raise TooLarge(
                f"gave up on {len(self._table.hypotheses):,} hypotheses over {len(self._splits):,} "
                "points: 1,000 random hypotheses on 40 points would work, more if they are alike"
            )

    def refill(self) -> None:
        """Give the next questions a whole budget of work, together."""
        self._work = 0

    def root(self, space: int, depth: int) -> int:
        """The root of a tree of this depth that the version space shatters, as a point's index.

        Requires: `at_least(space, depth)`, and a depth above 0.
        """
        return next(
            point
            for smaller, larger, point in self._roots(space, depth)
            if self.at_least(smaller, depth - 1) and self.at_least(larger, depth - 1)
        )

    def tree(self, space: int, depth: int) -> MistakeTree:
        """A mistake tree of this depth that the version space shatters.

        Requires: `at_least(space, depth)`.
        """
        if depth == 0:
            return Leaf(self._table.hypotheses[(space & -space).bit_length() - 1])
        point = self.root(space, depth)
        ones = space & self._table.ones[point]
        return Node(
            self._table.points[point],
            self.tree(space ^ ones, depth - 1),
            self.tree(ones, depth - 1),
        )


def _distinct_splits(table: Table) -> list[tuple[int, int]]:
    """One (point, ones) for each way the points split the class in two."""
    splits: dict[int, tuple[int, int]] = {}
    for point, ones in reversed(list(enumerate(table.ones))):
        splits[min(ones, table.everything ^ ones)] = (point, ones)
    return [split for halves, split in splits.items() if halves]
