"""Grids: cuts, evenly spaced or given one by one, and the search among them that copies agree on.

A grid has points lo, lo + step, ..., hi. A number off the grid is placed at the largest point not
above it; below lo, or missing, at lo; above hi, at hi. So `x >= cut` is literally true of raw
numbers, and no published sentence needs a footnote.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from littlestone.theory.errors import BadClass, BadExample
from littlestone.theory.numbers import Number, number_of, readable_numbers, simplest
from littlestone.theory.rows import Batch, Column, Kind, checked, column_of, value_of
from littlestone.theory.values import Mask, Plain

MOST_KEPT = 1 << 16


@dataclass(frozen=True)
class Grid:
    """The points lo, lo + step, ..., hi.

    >>> grid = Grid(0, 1, 0.1)
    >>> grid.count, grid[3], grid.place(0.35), grid.place(-5), grid.place(99)
    (11, 0.3, 3, 0, 10)
    >>> Grid(0, 10, 3)
    Traceback (most recent call last):
    littlestone.theory.errors.BadClass: step 3 does not divide the range from 0 to 10: ...
    """

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
            raise BadClass(f"step is above zero: {self.step!r} is not", "step")
        if self.hi < self.lo:
            raise BadClass(f"the range from {self.lo} to {self.hi} ends before it begins", "hi")
        if self._steps.denominator != 1:
            raise BadClass(
                f"step {self.step} does not divide the range from {self.lo} to {self.hi}: "
                f"the nearest ends that work are {self._reached(math.floor(self._steps))} "
                f"and {self._reached(math.ceil(self._steps))}",
                "step",
            )
        if self.count > 1 and (self[0] == self[1] or self[-2] == self[-1]):
            raise BadClass(f"step {self.step} is too fine for numbers of this size", "step")

    @cached_property
    def _steps(self) -> Fraction:
        return (decimal(self.hi) - decimal(self.lo)) / decimal(self.step)

    def _reached(self, steps: int) -> Number:
        exact = decimal(self.lo) + steps * decimal(self.step)
        return int(exact) if exact.denominator == 1 else float(exact)

    @property
    def count(self) -> int:
        """How many points."""
        return int(self._steps) + 1

    def __getitem__(self, index: int) -> Number:
        return simplest(self._reached(index if index >= 0 else index + self.count))

    @cached_property
    def _points(self) -> list[Number] | None:
        """All points, where they are not too many to keep."""
        return list(map(self._reached, range(self.count))) if self.count <= MOST_KEPT else None

    def place(self, value: object) -> int:
        """The index of the point at which a number is placed."""
        number = number_of(value)
        if self._points is not None:
            return max(0, bisect_right(self._points, number) - 1)
        return max(0, bisect_right(range(self.count), number, key=self._reached) - 1)


@dataclass(frozen=True)
class Edges:
    """Cuts given one by one, which need not be evenly spaced: so many, and one more bin.

    Its points are the edges, and one below them that stands for all that is.

    >>> ages = Edges((18, 30, 65))
    >>> ages.count, ages.place(17), ages.place(18), ages.place(99), ages.place(None)
    (4, 0, 1, 3, 0)
    """

    cuts: tuple[Number, ...]

    def __post_init__(self) -> None:
        try:
            cuts = tuple(simplest(cut) for cut in self.cuts)
        except BadExample as error:
            raise BadClass(f"edges: {error}", "edges") from None
        object.__setattr__(self, "cuts", cuts)
        if not cuts:
            raise BadClass("there is at least one edge", "edges")
        for low, high in pairwise((self[0], *cuts)):
            if low >= high:
                raise BadClass(
                    f"edges rise from one to the next: {high} does not after {low}", "edges"
                )

    @property
    def count(self) -> int:
        """How many bins."""
        return len(self.cuts) + 1

    def __getitem__(self, index: int) -> Number:
        at = index if index >= 0 else index + self.count
        return self.cuts[at - 1] if at else simplest(self.cuts[0] - 1)

    def place(self, value: object) -> int:
        """The number of the bin in which a number lies."""
        return bisect_right(self.cuts, number_of(value))


class OnPoints:
    """What the families over the points of one column share; they say `column` and `grid`."""

    column: Column

    @property
    def grid(self) -> Grid | Edges:
        """The points, and where other numbers are placed."""
        raise NotImplementedError

    def check(self, x: object) -> None:
        """Raise `BadExample` unless the example holds a number, or none."""
        number_of(value_of(x, self.column))

    def readable(self, batch: Batch) -> Mask:
        """Every number can be placed, and a missing one too."""
        return readable_numbers(column_of(batch, self.column))

    @property
    def reads(self) -> Mapping[Column, Kind]:
        """Its one column, as numbers."""
        return {self.column: "number"}

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        """The points, for the one column."""
        return {self.column: tuple(map(self.grid.__getitem__, range(self.grid.count)))}


@dataclass(frozen=True)
class OnGrid(OnPoints):
    """What the families over one grid share: its ends, its step, and the column they read."""

    lo: Number
    hi: Number
    step: Number = 1
    column: Column = None

    def __post_init__(self) -> None:
        checked(self.column)
        _ = self.grid

    @cached_property
    def grid(self) -> Grid:
        """The points, and where other numbers are placed."""
        return Grid(self.lo, self.hi, self.step)


def decimal(number: Number) -> Fraction:
    """What the person wrote: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def shallowest(low: int, high: int, size: int) -> int:
    """The shallowest node from `low` to `high` in the balanced search tree over range(size).

    A learner that narrows down an index guesses this node. Each wrong guess leads strictly down,
    so it errs at most floor(log2(size)) times, as often as one that halves its own interval; but
    the tree is the same for every copy, so copies with different intervals still tend to guess
    alike, and agreement is what the private learner waits for.

    >>> shallowest(0, 15, 16), shallowest(3, 6, 16), shallowest(5, 5, 16)
    (8, 4, 5)
    """
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
    """The claim if it lies from `low` to `high`; else the shallowest node there that is in the
    smallest subtree around the claim that reaches so far.

    So a claim that was right about where to look, and wrong about the last step, costs that step
    only. While subtrees around it prove empty they grow, one level at a time, and each is searched
    down from its root: with d + 1 levels in all, at most (d + 1)(d + 2)/2 wrong guesses.

    >>> nearest(3, 15, claim=2, size=16), nearest(4, 15, claim=2, size=16)
    (3, 4)
    """
    subtrees, start, end = [(0, size - 1)], 0, size - 1
    while (middle := start + (end - start + 1) // 2) != claim:
        start, end = (start, middle - 1) if claim < middle else (middle + 1, end)
        subtrees.append((start, end))
    if low <= claim <= high:
        return claim
    reaching = ((max(s, low), min(e, high)) for s, e in reversed(subtrees))
    return shallowest(*next(pair for pair in reaching if pair[0] <= pair[1]), size)
