"""Explicit classes: a table whose rows are hypotheses and whose columns are points.

The learner keeps the rows that fit what it was shown, as a bitmask, and votes:

- `vote="soa"`, the Standard Optimal Algorithm: each point gets the label whose rows have the larger
  dimension. At most `dimension` mistakes, and no learner does better.
- `vote="halving"`: each point gets the label that more rows give. At most floor(log2 rows).
- `vote="first"`: the first row left, in the order of the table. Proper, at most rows - 1 mistakes;
  copies agree as soon as the same row comes first, sooner than votes over whole version spaces do.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from littlestone.theory.classes import DEAD, HypothesisClass, State
from littlestone.theory.errors import BadClass, BadExample, TooLarge
from littlestone.theory.hypothesis import ALWAYS, Hypothesis
from littlestone.theory.rows import Column, checked, column_of, example, label, value_of
from littlestone.theory.shattering import Shattering, Table, refuse_absurd
from littlestone.theory.values import Mask, Plain, among, encode, plain
from littlestone.theory.vocabulary import one_of

Vote = Literal["soa", "halving", "first"]


@dataclass(frozen=True)
class FiniteClass(HypothesisClass):
    """The rows of a table of 0 and 1. `points` names its columns; by default they are 0, 1, 2, ...

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

    def __post_init__(self) -> None:
        if self.vote not in get_args(Vote):
            raise BadClass(f"vote is 'soa', 'halving' or 'first': not {self.vote!r}")
        checked(self.column)
        rows = tuple(_checked_row(row, number) for number, row in enumerate(self.rows))
        if not rows or not rows[0]:
            raise BadClass("the table is empty: it needs at least one row and one point")
        refuse_absurd(len(rows), len(rows[0]))
        _refuse_ragged(rows)
        _refuse_twins(rows)
        points = _checked_points(range(len(rows[0])) if self.points is None else self.points)
        if len(points) != len(rows[0]):
            raise BadClass(f"{len(points)} points are named and a row has {len(rows[0])} labels")
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "points", points)

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
        """The class as the exact procedure reads it."""
        matrix = np.array(self.rows, dtype=bool)
        ones = tuple(sum(1 << int(row) for row in np.flatnonzero(column)) for column in matrix.T)
        points = tuple(example(point, self.column) for point in self._points)
        return Table(tuple(self.hypotheses()), points, ones)

    @property
    def size(self) -> int:
        return len(self.rows)

    @cached_property
    def dimension(self) -> int:
        return self._exact.dimension(self.table.everything)

    @property
    def mistake_bound(self) -> int:
        return {
            "soa": lambda: self.dimension,
            "halving": lambda: self.size.bit_length() - 1,
            "first": lambda: self.size - 1,
        }[self.vote]()

    def start(self) -> State:
        return State(self.table.everything)

    def learn(self, state: State, x: object, y: object) -> State:
        ones = self.table.ones[self._index(x)]
        left = (state.content or 0) & (ones if label(y) else ~ones)
        return State(left) if left else DEAD

    def _index(self, x: object) -> int:
        value = value_of(x, self.column)
        if encode(value) not in self._place:
            raise BadExample(f"{value!r} is not a point of the table")
        return self._place[encode(value)]

    def hypothesis(self, state: State) -> Hypothesis | None:
        if state == DEAD:
            return None
        return self._said(self._elects(state.content, ones) for ones in self.table.ones)

    def _elects(self, space: int, ones: int) -> bool:
        if self.vote == "first":
            return bool(space & -space & ones)
        yes, no = space & ones, space & ~ones
        if self.vote == "halving" or not (yes and no):
            return yes.bit_count() > no.bit_count()
        return self._weight(yes) > self._weight(no)

    def _weight(self, space: int) -> tuple[int, int]:
        return self._exact.dimension(space), space.bit_count()

    def _said(self, answers: Iterable[object]) -> Hypothesis:
        positive = [point for point, answer in zip(self._points, answers, strict=True) if answer]
        return ALWAYS if len(positive) == len(self._points) else one_of(positive, self.column)

    def predict(self, rule: Hypothesis, X: Any) -> Mask:
        column = column_of(X, self.column)
        known = among(column, self._points)
        if not known.all():
            row = int(np.flatnonzero(~known)[0])
            raise BadExample(f"row {row}: {column[row]!r} is not a point of the table")
        return rule.predict(X)

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return next(point for point in self.table.points if one(point) != other(point))

    def __contains__(self, rule: object) -> bool:
        return rule in self.table.hypotheses

    def hypotheses(self) -> Iterator[Hypothesis]:
        return map(self._said, self.rows)

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        return {self.column: self._points}

    def skeleton(self) -> tuple[list[Hypothesis], list[object]]:
        return list(self.table.hypotheses), list(self.table.points)


def _checked_row(row: Sequence[int] | Mask, number: int) -> tuple[bool, ...]:
    try:
        return tuple(label(value) for value in row)
    except BadExample as error:
        raise BadClass(f"row {number}: {error}") from None
    except TypeError:
        raise BadClass(f"row {number} is not a list of 0 and 1: {row!r}") from None


def _checked_points(points: Sequence[object]) -> tuple[Plain, ...]:
    seen: set[bytes] = set()
    for point in points:
        if encode(point) in seen:
            raise BadClass(f"point {point!r} is named twice")
        seen.add(encode(point))
    return tuple(map(plain, points))


def _refuse_ragged(rows: Sequence[Sequence[bool]]) -> None:
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise BadClass(f"row {number} has {len(row)} labels and row 0 has {len(rows[0])}")


def _refuse_twins(rows: Sequence[tuple[bool, ...]]) -> None:
    seen: dict[tuple[bool, ...], int] = {}
    for number, row in enumerate(rows):
        if row in seen:
            raise BadClass(f"row {number} is the same hypothesis as row {seen[row]}")
        seen[row] = number


def explicit(cls: HypothesisClass, vote: Vote = "soa") -> FiniteClass:
    """A finite class over one column, written out as a table.

    >>> from littlestone.theory.thresholds import Thresholds
    >>> explicit(Thresholds(1, 3)).size
    4
    """
    if isinstance(cls, FiniteClass):
        return replace(cls, vote=vote)
    if cls.size is None:
        raise TooLarge(f"{cls!r} has no end of hypotheses: only a finite class can be written out")
    domain = cls.domain()
    if len(domain) != 1:
        raise BadClass(f"{cls!r} reads several columns: only one column can be written out")
    ((column, points),) = domain.items()
    refuse_absurd(cls.size, len(points))
    batch = np.fromiter(points, dtype=object)
    rules = cls.hypotheses()
    rows = [rule.predict(batch if column is None else {column: batch}) for rule in rules]
    return FiniteClass(rows, points, column, vote)
