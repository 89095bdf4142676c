"""Bins: numeric columns cut at public edges.

An edge appears in published rules, so it must be public: chosen without looking at the data. Edges
that are computed from the data (its smallest value, its quantiles) publish the data with the first
rule, before any noise is drawn. So edges are given as a list of numbers, and arrays are refused.
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
        checked(self.column)

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

    Returns
    -------
    Thresholds or Bins
        `Thresholds` if the bins are equal and their width has an exact decimal, else `Bins`.

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
    littlestone.theory.errors.BadClass: edges are public, ... not private: give a list ...
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
