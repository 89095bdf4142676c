"""Provide intervals on a grid: `a <= x < b`, with `never`, `always` and one-sided ones.

*The dimension, in closed form.* Before any positive, the negatives cut the N points into gaps. Give
a gap of n points the length n + 1, so that a query cuts a stick of length s into s1 + s2 = s. A
positive answer leaves s1 places for the left end and s2 for the right, two independent thresholds
of dimension floor(log2 s1) + floor(log2 s2). So the dimension is at least k exactly when a stick of
length N + 1 allows cuts number k, k - 1, ..., 1 in turn, cut j in a piece it divides so that
floor(log2 s1) + floor(log2 s2) >= j - 1. The shortest such stick is

    M(2j) = 7 * 2^(j-2)   and   M(2j + 1) = 5 * 2^(j-1),    each rounded down.

Long enough: cut 2j takes 7u, u = 2^(j-2), into 2u and 5u = M(2j - 1). Cut 2j + 1 takes 5u,
u = 2^(j-1), into 2u and 3u, from which all of cuts 2j, ..., 1 can be made: cut 2j takes 3u into u
and 2u, cut 2j - 1 a 2u into u and u, cut 2j - 2 the other 2u into u/2 and 3u/2. Beside that 3u/2
lies a u: the same situation at half the size, from which cuts 2j - 2, ..., 1 can be made, and only
2j - 3, ..., 1 are left to make. It ends at j = 1, u = 1, with cuts 2 and 1: 3 into 1 and 2, 2 into
1 and 1.
Not shorter: for 2j + 1, both pieces of a stick below 5u are below 3u, which the next cut needs. For
2j, a stick below 7u gives pieces below 3u and 5u, the next cut divides the second into two pieces
below 3u, and the one after needs 3u.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from littlestone.classes.base import (
    INCONSISTENT,
    HypothesisClass,
    VersionSpace,
    distinguishing_example,
    points_of,
)
from littlestone.classes.grids import OnGrid, shallowest
from littlestone.hypotheses.rows import label, value_of
from littlestone.hypotheses.rules import ALWAYS, NEVER, Hypothesis, Steps, between


class _Search(NamedTuple):
    """Hold the version space after a positive, as indices of points.

    The first positive point of the interval is from `low` to `core_low`, the last from `core_high`
    to `high`; all from `core_low` to `core_high` is positive.
    """

    low: int
    core_low: int
    core_high: int
    high: int


_NO_POSITIVE = ()


@dataclass(frozen=True)
class Intervals(OnGrid, HypothesisClass):
    """Learn an interval of the points of a grid, or `never`.

    The learner publishes `never` until the first positive, then searches for both ends at once. At
    most 1 + 2 floor(log2 N) mistakes on N points: a few more than the dimension, in exchange for
    guesses that copies with different positives still share (see `shallowest`).

    Parameters
    ----------
    lo, hi : int or float
        The first and the last point of the grid.
    step : int or float
        The distance of two points, which divides hi - lo.
    column : str, optional
        The column to read; None if an example is the number itself.

    Examples
    --------
    >>> Intervals(1, 16).dimension
    6
    >>> hours = Intervals(0, 23, column="hour")
    >>> print(hours.rule(9, 16), "|", hours.rule(22, 23), "|", hours.rule(0, 4))
    9 <= hour < 17 | hour >= 22 | hour < 5
    """

    _closed = True

    @property
    def size(self) -> int:
        points = self.grid.count
        return points * (points + 1) // 2 + 1

    @property
    def dimension(self) -> int:
        return next(k for k in count() if fewest_points(k + 1) > self.grid.count)

    @property
    def mistake_bound(self) -> int:
        # One mistake for the first positive, then two binary searches.
        return 1 + 2 * (self.grid.count.bit_length() - 1)

    def start(self) -> VersionSpace:
        return VersionSpace(_NO_POSITIVE)

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        index, positive = self.grid.place(value_of(x, self.column)), label(y)
        if state == INCONSISTENT:
            return INCONSISTENT
        if state.content == _NO_POSITIVE:
            return (
                VersionSpace(_Search(0, index, index, self.grid.count - 1)) if positive else state
            )
        found = _narrowed(state.content, index, positive)
        return INCONSISTENT if found is None else VersionSpace(found)

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        if state.content == _NO_POSITIVE:
            return NEVER
        low, core_low, core_high, high = state.content
        points = self.grid.count
        return self.rule(shallowest(low, core_low, points), shallowest(core_high, high, points))

    def rule(self, first: int, last: int) -> Hypothesis:
        """Return the rule whose positives are the points from one index to another.

        There is no limit at an end of the grid.

        Parameters
        ----------
        first, last : int
            The indices of the first and the last positive point.
        """
        # No limit at an end: numbers off the grid are placed at its ends.
        low = self.grid[first] if first > 0 else None
        high = self.grid[last + 1] if last + 1 < self.grid.count else None
        return between(low, high, self.column)

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return distinguishing_example(one, other, self.column)

    def __contains__(self, rule: object) -> bool:
        match rule:
            case Steps(below, cuts, column):
                # A cut between two points would be another function of raw numbers.
                on_grid = all(self.grid[self.grid.place(cut)] == cut for cut in cuts)
                one_piece = len(cuts) <= 2 - below
                inside = self.grid[0] not in cuts
                return on_grid and one_piece and inside and column == self.column
        return rule in (ALWAYS, NEVER)

    def hypotheses(self) -> Iterator[Hypothesis]:
        yield NEVER
        for last in range(self.grid.count):
            yield from (self.rule(first, last) for first in range(last + 1))

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        # The fewest points with this dimension suffice: a longer grid contains their intervals.
        last = self.grid[fewest_points(self.dimension) - 1]
        part = Intervals(self.lo, last, self.step, self.column)
        return list(part.hypotheses()), points_of(part.domain())


def fewest_points(dimension: int) -> int:
    """Return the fewest points on which intervals have this dimension: M(k) - 1 of the module.

    Examples
    --------
    >>> [fewest_points(k) for k in range(8)]
    [0, 1, 2, 4, 6, 9, 13, 19]
    """
    half, odd = divmod(dimension, 2)
    # M(2j) = 7 * 2^j / 4 and M(2j + 1) = 10 * 2^j / 4, rounded down.
    return ((10 if odd else 7) << half) // 4 - 1


def _narrowed(search: _Search, index: int, positive: bool) -> _Search | None:
    low, core_low, core_high, high = search
    if positive:
        found = _Search(low, min(core_low, index), max(core_high, index), high)
    elif index < core_low:
        found = search._replace(low=max(low, index + 1))
    elif index > core_high:
        found = search._replace(high=min(high, index - 1))
    else:
        return None
    return found if found.low <= found.core_low and found.core_high <= found.high else None
