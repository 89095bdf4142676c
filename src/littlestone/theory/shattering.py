"""Exact Littlestone dimension of an explicit class (Section 2.1), by a decision procedure.

A version space is a bitmask over hypotheses. It shatters a tree of depth k when some root splits it
into two halves that shatter depth k - 1. What keeps that fast: fewer than 2^k hypotheses shatter
nothing of depth k; balanced roots come first; answers are remembered for each version space as a
lower and an upper bound; points that split alike are tried once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from littlestone.theory.errors import TooLarge
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.trees import Leaf, MistakeTree, Node

MAX_HYPOTHESES = 1 << 14
MAX_POINTS = 1 << 12
MAX_WORK = 20_000_000


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
    batch: Any = _columns(points)
    rows = {rule.predict(batch).tobytes(): rule for rule in reversed(hypotheses)}
    matrix = np.array([np.frombuffer(row, dtype=bool) for row in rows]).reshape(len(rows), -1)
    ones = (
        int.from_bytes(np.packbits(column, bitorder="little").tobytes(), "little")
        for column in matrix[::-1].T
    )
    return Table(tuple(rows.values())[::-1], tuple(points), tuple(ones))


def _columns(points: Sequence[object]) -> Any:
    """Rows as columns, so that rules evaluate them vectorised."""
    rows = [point for point in points if isinstance(point, dict)]
    if len(rows) < len(points) or not rows:
        return points
    return {name: np.fromiter((row[name] for row in rows), dtype=object) for name in rows[0]}


def refuse_absurd(hypotheses: int, points: int) -> None:
    """Raise before the table is built, when it is too large to build."""
    if hypotheses > MAX_HYPOTHESES or points > MAX_POINTS:
        raise TooLarge(
            f"{hypotheses:,} hypotheses on {points:,} points are too many to write out: "
            f"{MAX_HYPOTHESES:,} hypotheses on {MAX_POINTS:,} points would work"
        )


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
        self._work = 0
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
        self._work += len(self._splits)
        if self._work > MAX_WORK:
            raise TooLarge(
                f"gave up on {len(self._table.hypotheses):,} hypotheses over {len(self._splits):,} "
                "points after a few seconds: 200 hypotheses on 20 points work, more if they are "
                "structured"
            )

    def tree(self, space: int, depth: int) -> MistakeTree:
        """A mistake tree of this depth that the version space shatters.

        Requires: `at_least(space, depth)`.
        """
        if depth == 0:
            return Leaf(self._table.hypotheses[(space & -space).bit_length() - 1])
        point = next(
            point
            for smaller, larger, point in self._roots(space, depth)
            if self.at_least(smaller, depth - 1) and self.at_least(larger, depth - 1)
        )
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
