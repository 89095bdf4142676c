"""Provide thresholds: `x >= cut` on a grid or at public edges, with `always` and `never`.

N points make N + 1 rules. Binary search makes floor(log2(N + 1)) mistakes at most, and that is the
dimension: a mistake tree that halves the cuts left is shattered, and no tree with more than N + 1
leaves can be.

An edge of `Bins` appears in published rules, so it must be public: chosen without looking at the
data. Edges that are computed from the data (its smallest value, its quantiles) publish the data
with the first rule, before any noise is drawn. So edges are given as a list of numbers, and arrays
are refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from littlestone._classes.base import INCONSISTENT, HypothesisClass, VersionSpace, reads_plain_rows
from littlestone._classes.grids import Edges, OnGrid, OnPoints, decimal, nearest, shallowest
from littlestone._hypotheses.cells import Number, label, simplest
from littlestone._hypotheses.rows import Column, checked_column, example, value_of
from littlestone._hypotheses.rules import ALWAYS, NEVER, Hypothesis, Steps, between
from littlestone.errors import BadClass, BadExample


class _Search(NamedTuple):
    """Hold the version space: the rules from `low` to `high`, by the index of their cut."""

    low: int
    high: int
    claim: int | None = None


@reads_plain_rows
class Cuts(OnPoints, HypothesisClass):
    """Learn `column >= cut` for a point but the first, with `always` and `never`."""

    _closed = True

    @property
    def size(self) -> int:
        return self.grid.count + 1

    @property
    def dimension(self) -> int:
        # floor(log2 size): binary search halves the rules at every mistake, and no learner does
        # better.
        return self.size.bit_length() - 1

    mistake_bound = most_releases = dimension

    def start(self) -> VersionSpace:
        return VersionSpace(_Search(0, self.size - 1))

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        return VersionSpace(_Search(0, self.size - 1, self._index(rule) if rule in self else None))

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        index = self.grid.place(value_of(x, self.column))
        if state == INCONSISTENT:
            return INCONSISTENT
        low, high, claim = state.content
        if label(y):
            # Positives begin at the cut: a positive at `index` puts the cut there or before.
            high = min(high, index)
        else:
            low = max(low, index + 1)
        return VersionSpace(_Search(low, high, claim)) if low <= high else INCONSISTENT

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        low, high, claim = state.content
        if claim is None:
            return self.rule(shallowest(low, high, self.size))
        return self.rule(nearest(low, high, claim, self.size))

    def rule(self, index: int) -> Hypothesis:
        """Return the rule whose positives begin at a point of the grid, by index."""
        # Kept, because a rule computes its key once, and rules are compared often.
        if index not in self._cache:
            self._cache[index] = self._make(index)
        return self._cache[index]

    @cached_property
    def _cache(self) -> dict[int, Hypothesis]:
        return {}

    def _make(self, index: int) -> Hypothesis:
        if index == self.grid.count:
            return NEVER
        return between(self.grid[index], None, self.column) if index else ALWAYS

    def _index(self, rule: Hypothesis) -> int:
        match rule:
            case Steps(False, (cut,), _):
                return self.grid.place(cut)
        return 0 if rule == ALWAYS else self.grid.count

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        # The rule with the smaller cut is positive there, the other is not. `never` has no point of
        # its own, hence the last one.
        first = min(self._index(one), self._index(other), self.grid.count - 1)
        return example(self.grid[first], self.column)

    def __contains__(self, rule: object) -> bool:
        return isinstance(rule, Hypothesis) and self.rule(self._index(rule)) == rule

    def hypotheses(self) -> Iterator[Hypothesis]:
        return map(self.rule, range(self.size))

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        # 2^dimension rules, spread evenly, and a point between each two neighbours: binary search.
        cuts = 1 << self.dimension
        rules = [self.rule(index * (self.size - 1) // (cuts - 1)) for index in range(cuts)]
        return rules, [self.disagreement(a, b) for a, b in pairwise(rules)]


@dataclass(frozen=True)
class Thresholds(OnGrid, Cuts):
    """Learn `column >= cut` for a cut on a grid, with `always` and `never`.

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
    >>> scores = Thresholds(0, 100, 5, column="score")
    >>> scores.dimension
    4
    >>> print(scores.hypothesis(scores.start()))
    score >= 55
    """


@dataclass(frozen=True)
class Bins(Cuts):
    """Learn `column >= edge` for one of some public edges, with `always` and `never`.

    The edges need not be evenly spaced. A missing number is in the lowest bin.

    Parameters
    ----------
    edges : list, tuple or range of numbers
        The edges, increasing, in the units of the column.
    column : str, optional
        The column to read; None if an example is the number itself.

    Raises
    ------
    BadClass
        If the edges do not increase, or are an array or a series, which may come from data.

    Examples
    --------
    >>> ages = Bins([18, 30, 65], column="age")
    >>> [str(rule) for rule in ages.hypotheses()]
    ['always', 'age >= 18', 'age >= 30', 'age >= 65', 'never']
    >>> ages.dimension
    2
    """

    edges: Sequence[Number]
    column: Column = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", Edges(_written(self.edges)).cuts)
        checked_column(self.column)

    @cached_property
    def grid(self) -> Edges:
        """Return the bins."""
        return Edges(tuple(self.edges))


def binned(
    column: Column,
    edges: Sequence[Number] | None = None,
    *,
    lo: Number | None = None,
    hi: Number | None = None,
    bins: int | None = None,
) -> Thresholds | Bins:
    """Return a class of thresholds for a numeric column, at given edges or between equal bins.

    Returns `Thresholds` if the bins are equal and their width has an exact decimal, else `Bins`.

    Parameters
    ----------
    column : str or None
        The column to read; None if an example is the number itself.
    edges : list, tuple or range of numbers, optional
        Public edges, increasing. Give these, or `lo`, `hi` and `bins`.
    lo, hi : int or float, optional
        The public range. A number below it is in the lowest bin, one above it in the highest.
    bins : int, optional
        The number of bins of equal width, at least 2.

    Raises
    ------
    BadClass
        If the parameters are incomplete or contradictory, or may come from data.

    Examples
    --------
    >>> binned("age", [18, 30, 65])
    Bins(edges=(18, 30, 65), column='age')
    >>> binned("score", lo=0, hi=100, bins=20)
    Thresholds(lo=0, hi=95, step=5, column='score')
    >>> import numpy as np
    >>> binned("score", np.array([31.7, 55.2]))
    Traceback (most recent call last):
    littlestone.errors.BadClass: edges are public, ... not private: give a list ...
    """
    equal = (lo, hi, bins)
    if edges is not None and equal == (None, None, None):
        return Bins(edges, column)
    if edges is not None or lo is None or hi is None or bins is None:
        raise BadClass("give either edges, or all of lo, hi and bins")
    return _equal(column, lo, hi, bins)


def _equal(column: Column, lo: Number, hi: Number, bins: int) -> Thresholds | Bins:
    """Return bins of equal width: on a grid if the width is a decimal, else at rounded edges."""
    try:
        low, high = decimal(simplest(lo)), decimal(simplest(hi))
    except BadExample as error:
        raise BadClass(f"lo and hi must be public numbers: {error}") from None
    if not isinstance(bins, int) or isinstance(bins, bool) or bins < 2:
        raise BadClass(f"bins must be a whole number from 2 on, not {bins!r}", "bins")
    if high <= low:
        raise BadClass(f"the range from {lo} to {hi} ends before it begins", "hi")
    width = (high - low) / bins
    # A third has no exact float: then every edge is rounded by itself, so that errors do not add.
    if decimal(_number(width)) == width:
        return Thresholds(simplest(lo), _number(high - width), _number(width), column)
    return Bins([_number(low + width * index) for index in range(1, bins)], column)


def _number(exact: Fraction) -> Number:
    return simplest(float(exact))


def _written(edges: object) -> tuple[Number, ...]:
    """Return the edges as a tuple. Arrays and series are refused, as they may come from data."""
    if isinstance(edges, list | tuple | range):
        return tuple(edges)
    raise BadClass(
        f"edges are public, and this is a {type(edges).__name__}: edges that are computed from "
        "data (its range, its quantiles) appear in the rules and are not private: give a list of "
        "numbers that are chosen without looking at the data, or give lo, hi and bins. An array "
        "that does not come from data, such as that of np.linspace, can be given as a list",
        "edges",
    )
