"""Bins: numeric columns cut at public edges.

An edge stands in published rules, so it must be public: chosen without a look at the data. Edges
that follow the data (its smallest value, its quantiles) publish the data with the first rule,
before any noise is drawn. So they are given as a list of numbers, and data is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from littlestone.theory.errors import BadClass, BadExample
from littlestone.theory.grids import Edges, decimal
from littlestone.theory.numbers import Number, simplest
from littlestone.theory.rows import Column, checked
from littlestone.theory.thresholds import Cuts, Thresholds


@dataclass(frozen=True)
class Bins(Cuts):
    """`column >= edge` for each of some public edges, with `always` and `never`.

    The edges need not be evenly spaced, and a rule reads in the column's own units. A missing
    number is in the lowest bin.

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
        checked(self.column)

    @cached_property
    def grid(self) -> Edges:
        """The bins."""
        return Edges(tuple(self.edges))


def binned(
    column: Column,
    edges: Sequence[Number] | None = None,
    *,
    lo: Number | None = None,
    hi: Number | None = None,
    bins: int | None = None,
) -> Thresholds | Bins:
    """A class of cuts for a numeric column: at public edges, or into equal bins from lo to hi.

    A number below lo is in the lowest bin, one above hi in the highest.

    >>> binned("age", [18, 30, 65])
    Bins(edges=(18, 30, 65), column='age')
    >>> binned("score", lo=0, hi=100, bins=20)
    Thresholds(lo=0, hi=95, step=5, column='score')
    >>> import numpy as np
    >>> binned("score", np.array([31.7, 55.2]))
    Traceback (most recent call last):
    littlestone.theory.errors.BadClass: edges are public, ... not private: write down ...
    """
    equal = (lo, hi, bins)
    if edges is not None and equal == (None, None, None):
        return Bins(edges, column)
    if edges is not None or lo is None or hi is None or bins is None:
        raise BadClass("say either edges, or lo, hi and bins")
    return _equal(column, lo, hi, bins)


def _equal(column: Column, lo: Number, hi: Number, bins: int) -> Thresholds | Bins:
    """Bins of one width: on a grid where its step can be written, else at the nearest numbers."""
    try:
        low, high = decimal(simplest(lo)), decimal(simplest(hi))
    except BadExample as error:
        raise BadClass(f"lo and hi are numbers that the data has no part in: {error}") from None
    if not isinstance(bins, int) or isinstance(bins, bool) or bins < 2:
        raise BadClass(f"bins are at least 2: {bins!r} is not such a number", "bins")
    if high <= low:
        raise BadClass(f"the range from {lo} to {hi} ends before it begins", "hi")
    width = (high - low) / bins
    if decimal(_number(width)) == width:
        return Thresholds(simplest(lo), _number(high - width), _number(width), column)
    return Bins([_number(low + width * index) for index in range(1, bins)], column)


def _number(exact: Fraction) -> Number:
    return simplest(float(exact))


def _written(edges: object) -> tuple[Number, ...]:
    """Edges as somebody wrote them down; what looks like data is refused."""
    if isinstance(edges, list | tuple | range):
        return tuple(edges)
    raise BadClass(
        f"edges are public, and this is a {type(edges).__name__}: edges that are taken from data "
        "(its range, its quantiles) appear in the rules and are not private: write down a list of "
        "numbers that you would give without looking, or say lo, hi and bins. An array that did "
        "not come from data, such as np.linspace makes, can be given as a list",
        "edges",
    )
