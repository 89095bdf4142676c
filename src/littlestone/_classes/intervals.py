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

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from littlestone._classes.base import (
    INCONSISTENT,
    HypothesisClass,
    VersionSpace,
    distinguishing_example,
    points_of,
)
from littlestone._classes.grids import OnGrid, shallowest, subtree
from littlestone._hypotheses.cells import label
from littlestone._hypotheses.rows import value_of
from littlestone._hypotheses.rules import ALWAYS, NEVER, Hypothesis, Steps, between


class _Published(NamedTuple):
    """Hold what the published rules say about the target, as indices of points. Public."""

    first: int | None
    low: int
    high: int
    last_low: int
    last_high: int


class _VersionSpace(NamedTuple):
    """Hold the mistakes so far, as indices of points."""

    published: _Published
    positive: tuple[int, ...] = ()
    negative: tuple[int, ...] = ()


@dataclass(frozen=True)
class Intervals(OnGrid, HypothesisClass):
    """Learn an interval of the points of a grid, or `never`.

    The learner publishes `never` until the first positive, then searches for both ends at once. At
    most 1 + 2 floor(log2 N) mistakes on N points: a few more than the dimension, in exchange for
    guesses that copies with different positives still share (see `shallowest`). How it begins an
    epoch, and what that promises, is in docs/theory.md.

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

    @property
    def most_releases(self) -> int:
        levels = self.grid.count.bit_length()
        return levels * (levels + 1)

    def start(self) -> VersionSpace:
        last = self.grid.count - 1
        return VersionSpace(_VersionSpace(_Published(None, 0, last, 0, last)))

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        start = self.start()
        if rule not in self:
            return start
        before: _Published = (start if last is None else last).content.published
        return VersionSpace(_VersionSpace(self._after(before, rule)))

    def _after(self, before: _Published, rule: Hypothesis) -> _Published:
        """Return what the published rules say, one rule later."""
        size = self.grid.count
        after: _Published = self.start().content.published
        if rule == NEVER:
            # An interval makes way for `never` only where its first point is before the target's.
            if before.first is not None and before.first < before.high:
                return before._replace(first=None, low=before.first + 1, last_high=size - 1)
            return before if before.first is None else after
        first, end = self.ends(rule)
        if before.first is not None and first > before.first:
            # `last_high` was for targets that begin at or before the first point published then.
            before = before._replace(low=before.first + 1, last_high=size - 1)
        for earlier in (before, after):
            # The ends are the shallowest that fit some learner's examples, so the target's are
            # below them; and its last point is not before a positive label at or after `first`.
            (low, high), (last_low, last_high) = subtree(first, size), subtree(end, size)
            after = _Published(
                first,
                max(earlier.low, low),
                min(earlier.high, high),
                max(earlier.last_low, last_low, first),
                min(earlier.last_high, last_high),
            )
            # Otherwise no rule fits the stream: what came before the published rule is forgotten.
            if after.low <= first <= after.high and after.last_low <= end <= after.last_high:
                break
        return after

    def ends(self, rule: Hypothesis) -> tuple[int, int]:
        """Return the indices of the first and the last positive point of a rule but `never`."""
        # `always` has neither end.
        below, cuts = (rule.below, rule.cuts) if isinstance(rule, Steps) else (True, ())
        places = [*([0] if below else []), *map(self.grid.place, cuts), self.grid.count]
        return places[0], places[1] - 1

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        index, positive = self.grid.place(value_of(x, self.column)), label(y)
        if state == INCONSISTENT:
            return INCONSISTENT
        space = _narrowed(state.content, index, positive)
        return INCONSISTENT if space is None else VersionSpace(space)

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        guess = _guess(state.content, self.grid.count)
        if guess is None:
            return NEVER
        return self.rule(*(shallowest(*ends, self.grid.count) for ends in guess))

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
    """Return the fewest points on which intervals have this dimension: M(k) - 1 of the module."""
    half, odd = divmod(dimension, 2)
    # M(2j) = 7 * 2^j / 4 and M(2j + 1) = 10 * 2^j / 4, rounded down.
    return ((10 if odd else 7) << half) // 4 - 1


# A range of indices, both ends included; empty if the first is above the second.
_Range = tuple[int, int]


def _narrowed(space: _VersionSpace, index: int, positive: bool) -> _VersionSpace | None:
    """Return the version space after one more mistake; None if no interval fits."""
    published, seen, negatives = space
    if positive:
        seen = (min(*seen, index), max(*seen, index)) if seen else (index, index)
    else:
        negatives = tuple(sorted({*negatives, index}))
    if seen and any(seen[0] <= x <= seen[1] for x in negatives):
        return None
    if seen:
        # The nearest on each side imply the others.
        below, above = bisect_left(negatives, seen[0]), bisect_left(negatives, seen[1])
        negatives = (*negatives[:below][-1:], *negatives[above:][:1])
    return _VersionSpace(published, seen, negatives)


def _guess(space: _VersionSpace, size: int) -> tuple[_Range, _Range] | None:
    """Return where to guess the first and the last positive point; None for `never`."""
    published, seen, negatives = space
    first, low, high, last_low, last_high = published
    if not seen:
        if first is None:
            return None
        # While the target may begin at `first`, a negative point after it is beyond the last.
        last = last_low, min(last_high, *(x - 1 for x in negatives), size)
        return ((first, first), last) if last[0] <= last[1] else None
    below = max((x + 1 for x in negatives if x < seen[0]), default=0)
    above = min((x - 1 for x in negatives if x > seen[1]), default=size - 1)
    start = max(low, below), min(high, seen[0])
    last = max(last_low, seen[1]), min(last_high, above)
    if first is not None and first <= seen[0]:
        if below <= first and last[0] <= last[1]:
            return (first, first), last
        # A positive label after `last_high`, or a negative one before a positive: the target begins
        # after `first`, and then `last_high` says nothing.
        start, last = (max(start[0], first + 1), start[1]), (last[0], above)
    if start[0] <= start[1] and last[0] <= last[1]:
        return start, last
    # The examples contradict what was published: they alone count.
    return (below, seen[0]), (seen[1], above)
