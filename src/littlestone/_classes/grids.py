"""Provide grids: cuts, evenly spaced or given one by one, and the search tree over them.

A grid has points lo, lo + step, ..., hi. A number off the grid is placed at the largest point not
above it; below lo, or missing, at lo; above hi, at hi. So a published `x >= cut` holds exactly of
numbers as they are, not only of rounded ones.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from littlestone._hypotheses.cells import Kind, Number, number_of, simplest
from littlestone._hypotheses.rows import Column, checked_column, value_of
from littlestone._hypotheses.values import Plain
from littlestone.errors import BadClass, BadExample

# The largest number of points that a grid keeps as a list.
MOST_CACHED = 1 << 16


@dataclass(frozen=True)
class Grid:
    """Place numbers on the points lo, lo + step, ..., hi."""

    lo: Number
    hi: Number
    step: Number

    def __post_init__(self) -> None:
        for name in ("lo", "hi", "step"):
            try:
                object.__setattr__(self, name, simplest(getattr(self, name)))
            except BadExample as error:
                raise BadClass(f"{name}: {error}", name) from None
        if self.step <= 0:
            raise BadClass(f"step must be above zero, not {self.step!r}", "step")
        if self.hi < self.lo:
            raise BadClass(f"the range from {self.lo} to {self.hi} ends before it begins", "hi")
        # A range that the step does not divide has no last point, and rounding would choose one in
        # silence.
        if self._steps.denominator != 1:
            raise BadClass(
                f"step {self.step} does not divide the range from {self.lo} to {self.hi}: "
                f"the nearest ends that work are {self._point(math.floor(self._steps))} "
                f"and {self._point(math.ceil(self._steps))}",
                "step",
            )
        # Floats are sparsest at the end of the range that is larger in size, so these two suffice.
        if self.count > 1 and (self[0] == self[1] or self[-2] == self[-1]):
            raise BadClass(f"step {self.step} is too fine for numbers of this size", "step")

    @cached_property
    def _steps(self) -> Fraction:
        # Exact: 0.3 / 0.1 in floats is just below 3, and the grid would lose a point.
        return (decimal(self.hi) - decimal(self.lo)) / decimal(self.step)

    def _point(self, steps: int) -> Number:
        # From the start each time: adding the step again and again would add up its rounding.
        exact = decimal(self.lo) + steps * decimal(self.step)
        return int(exact) if exact.denominator == 1 else float(exact)

    @property
    def count(self) -> int:
        """Return the number of points."""
        return int(self._steps) + 1

    def __getitem__(self, index: int) -> Number:
        return simplest(self._point(index if index >= 0 else index + self.count))

    @cached_property
    def _points(self) -> list[Number] | None:
        """Return all points, or None if they are too many to keep."""
        return list(map(self._point, range(self.count))) if self.count <= MOST_CACHED else None

    def place(self, value: object) -> int:
        """Return the index of the point at which a number is placed."""
        # The class reads a number through the grid alone: numbers between two points are one value.
        number = number_of(value)
        if self._points is not None:
            return max(0, bisect_right(self._points, number) - 1)
        return max(0, bisect_right(range(self.count), number, key=self._point) - 1)


@dataclass(frozen=True)
class Edges:
    """Place numbers in the bins between cuts that are given one by one."""

    cuts: tuple[Number, ...]

    def __post_init__(self) -> None:
        try:
            cuts = tuple(simplest(cut) for cut in self.cuts)
        except BadExample as error:
            raise BadClass(f"edges: {error}", "edges") from None
        object.__setattr__(self, "cuts", cuts)
        if not cuts:
            raise BadClass("edges must hold at least one edge", "edges")
        for low, high in pairwise((self[0], *cuts)):
            if low >= high:
                raise BadClass(f"edges must increase: {high} comes after {low}", "edges")

    @property
    def count(self) -> int:
        """Return the number of bins."""
        return len(self.cuts) + 1

    def __getitem__(self, index: int) -> Number:
        place = index if index >= 0 else index + self.count
        # The first bin is open below: any number under the first cut stands for it.
        return self.cuts[place - 1] if place else simplest(self.cuts[0] - 1)

    def place(self, value: object) -> int:
        """Return the index of the bin in which a number lies."""
        return bisect_right(self.cuts, number_of(value))


class OnPoints:
    """Share what the families over the points of one column have in common."""

    column: Column

    @property
    def grid(self) -> Grid | Edges:
        """Return the points, on which any number is placed."""
        raise NotImplementedError

    def check(self, x: object) -> None:
        """Raise `BadExample` unless the example holds a number or a missing value."""
        number_of(value_of(x, self.column))

    @property
    def reads(self) -> Mapping[Column, Kind]:
        """Return the one column, read as numbers."""
        return {self.column: "number"}

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        """Return the points, for the one column."""
        return {self.column: tuple(map(self.grid.__getitem__, range(self.grid.count)))}


@dataclass(frozen=True)
class OnGrid(OnPoints):
    """Share what the families over one grid have in common."""

    lo: Number
    hi: Number
    step: Number = 1
    column: Column = None

    def __post_init__(self) -> None:
        checked_column(self.column)
        # Built here, so that a bad grid is refused at once.
        _ = self.grid

    @cached_property
    def grid(self) -> Grid:
        """Return the points, on which any number is placed."""
        return Grid(self.lo, self.hi, self.step)


def decimal(number: Number) -> Fraction:
    """Return a number exactly as it is written: 0.1 is a tenth, not the nearest binary fraction."""
    # `repr` is the shortest text that reads back as the same float: what the person wrote.
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def shallowest(low: int, high: int, size: int) -> int:
    """Return the shallowest node from `low` to `high` in the balanced search tree over range(size)."""
    start, end = 0, size - 1
    while True:
        middle = start + (end - start + 1) // 2
        if high < middle:
            end = middle - 1
        elif low > middle:
            start = middle + 1
        else:
            return middle


def nearest(low: int, high: int, claim: int, size: int) -> int:
    """Return the claim if it is possible, else a possible node in the smallest subtree around it."""
    if low <= claim <= high:
        return claim
    possible = ((max(s, low), min(e, high)) for s, e in reversed(_subtrees(claim, size)))
    return shallowest(*next(pair for pair in possible if pair[0] <= pair[1]), size)


def subtree(index: int, size: int) -> tuple[int, int]:
    """Return the first and the last node of the subtree below a node of the search tree."""
    return _subtrees(index, size)[-1]


def _subtrees(index: int, size: int) -> list[tuple[int, int]]:
    """Return the subtrees that hold a node, from the largest to its own."""
    subtrees, start, end = [(0, size - 1)], 0, size - 1
    while (middle := start + (end - start + 1) // 2) != index:
        start, end = (start, middle - 1) if index < middle else (middle + 1, end)
        subtrees.append((start, end))
    return subtrees
