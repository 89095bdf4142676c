"""Provide explicit classes: a table whose rows are hypotheses and whose columns are points.

The learner keeps its version space, the rows that fit its mistakes, as a bitmask, and votes:

- `vote="soa"`, the Standard Optimal Algorithm: each point gets the label whose rows have the larger
  dimension. At most `dimension` mistakes, and no learner does better.
- `vote="halving"`: each point gets the label that more rows give. At most floor(log2 rows).
- `vote="first"`: the first row left, in the order of the table. Proper, at most rows - 1 mistakes;
  copies agree as soon as the same row comes first, sooner than with votes over version spaces.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from littlestone._classes.base import INCONSISTENT, HypothesisClass, VersionSpace, checked_class
from littlestone._classes.dimension import Shattering, Table, bitmasks, refuse_absurd
from littlestone._classes.grids import Edges, Grid, OnPoints
from littlestone._hypotheses.cells import Kind, label
from littlestone._hypotheses.rows import (
    Batch,
    Column,
    checked_column,
    example,
    labels,
    read_examples,
    value_of,
)
from littlestone._hypotheses.rules import ALWAYS, Hypothesis, one_of, steps
from littlestone._hypotheses.values import Mask, Plain, canonical, encode, key_of, plain
from littlestone.errors import BadClass, BadExample, TooLarge

# How a version space predicts.
Vote = Literal["soa", "halving", "first"]


@dataclass(frozen=True, repr=False)
class FiniteClass(HypothesisClass):
    """Learn a row of a table of 0 and 1.

    Parameters
    ----------
    rows : sequence of sequences
        The hypotheses: for each, its label at every point. No two are the same.
    points : sequence, optional
        The values that are the columns of the table; by default 0, 1, 2, ...
    column : str, optional
        The column to read; None if an example is the value itself.
    vote : {"soa", "halving", "first"}
        How the version space predicts (see the module).
    grid : Grid or Edges, optional
        The points, instead of `points`; then any number is placed on it.

    Raises
    ------
    BadClass
        If the table is empty, ragged or has equal rows, or does not fit its points.
    TooLarge
        If the table has too many cells.

    Examples
    --------
    >>> singles = FiniteClass([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> singles.dimension
    1
    >>> print(singles.hypothesis(singles.learn(singles.start(), 2, 1)))
    x = 2
    """

    rows: Sequence[Sequence[int] | Mask]
    points: Sequence[Any] | None = None
    column: Column = None
    vote: Vote = "soa"
    grid: Grid | Edges | None = None

    def __post_init__(self) -> None:
        if self.vote not in get_args(Vote):
            raise BadClass(f"vote is 'soa', 'halving' or 'first': not {self.vote!r}")
        checked_column(self.column)
        rows = _checked_rows(self.rows)
        # On a grid points are compared as numbers, elsewhere by their text.
        read = plain if self.grid else canonical
        points = _checked_points(self._point_values(len(rows[0])), read)
        if len(points) != len(rows[0]):
            raise BadClass(f"{len(points)} points are named and a row has {len(rows[0])} labels")
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "points", points)

    def _point_values(self, width: int) -> Iterable[object]:
        if self.grid is not None:
            return [self.grid[index] for index in range(self.grid.count)]
        return range(width) if self.points is None else self.points

    def __repr__(self) -> str:
        size = f"{len(self.rows):,} hypotheses on {len(self._points):,} points"
        return f"FiniteClass({size}, column={self.column!r}, vote={self.vote!r})"

    @cached_property
    def _points(self) -> tuple[Plain, ...]:
        return tuple(self.points or ())

    @cached_property
    def _place(self) -> dict[bytes, int]:
        return {encode(point): index for index, point in enumerate(self._points)}

    @cached_property
    def _exact(self) -> Shattering:
        return Shattering(self.table)

    @cached_property
    def table(self) -> Table:
        """Return the class as the search for the dimension reads it."""
        points = tuple(example(point, self.column) for point in self._points)
        return Table(tuple(self.hypotheses()), points, bitmasks(np.array(self.rows, dtype=bool)))

    @property
    def size(self) -> int:
        return len(self.rows)

    @cached_property
    def dimension(self) -> int:
        self._exact.refill()
        return self._exact.dimension(self.table.everything)

    @property
    def mistake_bound(self) -> int:
        match self.vote:
            case "soa":
                return self.dimension
            case "halving":
                return self.size.bit_length() - 1
            case "first":
                return self.size - 1

    def start(self) -> VersionSpace:
        return VersionSpace(self.table.everything)

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        ones = self.table.ones[self._index(value_of(x, self.column))]
        # `or 0`: an inconsistent state has no rows left, and stays so.
        rows = (state.content or 0) & (ones if label(y) else ~ones)
        return VersionSpace(rows) if rows else INCONSISTENT

    def _index(self, value: object) -> int:
        if self.grid is not None:
            return self.grid.place(value)
        key = key_of(value)
        if key not in self._place:
            raise BadExample(f"{value!r} is not a point of the table")
        return self._place[key]

    def readable(self, batch: Batch) -> Mask:
        batch, wrong = read_examples(batch, self.reads)
        if self.grid is not None:
            return ~wrong
        return one_of(self._points, self.column).predict(batch) & ~wrong

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return {self.column: "value" if self.grid is None else "number"}

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        self._exact.refill()
        return self._rule([self._vote(state.content, ones) for ones in self.table.ones])

    def _vote(self, space: int, ones: int) -> bool:
        if self.vote == "first":
            # Space & -space is the lowest bit: the first row.
            return bool(space & -space & ones)
        yes, no = space & ones, space & ~ones
        if self.vote == "halving" or not (yes and no):
            return yes.bit_count() > no.bit_count()
        return self._weight(yes) > self._weight(no)

    def _weight(self, space: int) -> tuple[int, int]:
        # Ties between equal dimensions go to the larger half, and then to 0.
        return self._exact.dimension(space), space.bit_count()

    def _rule(self, answers: Sequence[object]) -> Hypothesis:
        """Return the rule with these labels at the points."""
        if self.grid is not None:
            # On a grid a rule is where its labels change, so that it holds between the points too.
            cuts = (self.grid[i] for i in range(1, len(answers)) if answers[i] != answers[i - 1])
            return steps(bool(answers[0]), cuts, self.column)
        positive = [point for point, answer in zip(self._points, answers, strict=True) if answer]
        return ALWAYS if len(positive) == len(answers) else one_of(positive, self.column)

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return next((point for point in self.table.points if one(point) != other(point)), None)

    def __contains__(self, rule: object) -> bool:
        return rule in self.table.hypotheses

    def hypotheses(self) -> Iterator[Hypothesis]:
        return (self._rule(tuple(row)) for row in self.rows)

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        return {self.column: self._points}

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        return list(self.table.hypotheses), list(self.table.points)


def _checked_rows(rows: Iterable[Sequence[int] | Mask]) -> tuple[tuple[bool, ...], ...]:
    """Return the rows as truth values: at least one, all of one length, no two equal."""
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise BadClass(f"the table is a list of rows: {rows!r} is not one")
    numbers: dict[tuple[bool, ...], int] = {}
    for number, row in enumerate(rows):
        checked_row = _checked_row(row, number)
        width = len(next(iter(numbers), checked_row))
        if len(checked_row) != width:
            raise BadClass(f"row {number} has {len(checked_row)} labels and row 0 has {width}")
        if checked_row in numbers:
            raise BadClass(f"row {number} is the same hypothesis as row {numbers[checked_row]}")
        numbers[checked_row] = number
        # In the loop, so that an endless iterable is refused too.
        refuse_absurd(len(numbers), width)
    if not numbers or () in numbers:
        raise BadClass("the table is empty: it needs at least one row and one point")
    return tuple(numbers)


def _checked_row(row: Sequence[int] | Mask, number: int) -> tuple[bool, ...]:
    if isinstance(row, str) or not isinstance(row, Iterable):
        raise BadClass(f"row {number} is not a list of 0 and 1: {row!r}")
    try:
        return tuple(labels(np.asarray(row)).tolist())
    except BadExample as error:
        raise BadClass(f"row {number}: {error.sentence}") from None


def _checked_points(points: Iterable[object], read: Callable[[object], Plain]) -> tuple[Plain, ...]:
    if not isinstance(points, Iterable):
        raise BadClass(f"points are a list of values: {points!r} is not one")
    seen: dict[bytes, Plain] = {}
    for point in points:
        try:
            value = read(point)
        except BadExample as error:
            raise BadClass(f"point {point!r}: {error}") from None
        key = encode(value)
        if key in seen:
            raise BadClass(f"point {point!r} is named twice")
        seen[key] = value
    return tuple(seen.values())


def explicit(cls: HypothesisClass, vote: Vote) -> FiniteClass:
    """Return a class as a table with another vote."""
    checked_class(cls)
    if isinstance(cls, FiniteClass):
        return replace(cls, vote=vote)
    if cls.size is None:
        raise TooLarge(f"{cls!r} has infinitely many rules: it cannot be written as a table")
    if not isinstance(cls, OnPoints):
        raise BadClass(f"{cls!r} is neither a table nor on one grid: no table is made of it")
    refuse_absurd(cls.size, cls.grid.count)
    points = np.array([cls.grid[index] for index in range(cls.grid.count)])
    batch = points if cls.column is None else {cls.column: points}
    rows = [rule.predict(batch) for rule in cls.hypotheses()]
    return FiniteClass(rows, column=cls.column, vote=vote, grid=cls.grid)
