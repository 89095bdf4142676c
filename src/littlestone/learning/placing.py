"""Find the point of a finite domain at which a row lies: a public function, vectorised.

A number lies at the largest point not above it; below all of them, or missing, at the first
(`theory/grids.py`). A truth value, or any other value, lies at the point with its canonical bytes.
A row that lies at no point gets `NOWHERE`: it does not distinguish the rules of the class.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.theory.classes import HypothesisClass, kinds_of
from littlestone.theory.grids import Edges, Grid, OnPoints
from littlestone.theory.numbers import Number, number_of
from littlestone.theory.rows import Batch, Column, Kind, column_of
from littlestone.theory.values import Plain, key_of
from littlestone.theory.vocabulary import truths

Indices = npt.NDArray[np.int64]
Place = Callable[[npt.NDArray[Any]], Indices]
NOWHERE = -1
EXACT = 1 << 53
"""Whole numbers up to this are floats."""


class Placing:
    """Map rows to the points of a class's domain, which are in the order of `points_of`.

    `everywhere` is a batch of all these points.

    Parameters
    ----------
    cls
        The class.

    Examples
    --------
    >>> from littlestone.theory.conjunctions import Conjunctions
    >>> placing = Placing(Conjunctions(["a", "b"]))
    >>> placing.domain
    {'a': (False, True), 'b': (False, True)}
    >>> placing({"a": np.array([0, 1]), "b": np.array([True, False])})
    array([1, 2])
    """

    def __init__(self, cls: HypothesisClass) -> None:
        self.domain: dict[Column, tuple[Plain, ...]] = {}
        self.everywhere: Batch
        self._columns: list[tuple[Column, int, Place]] = []
        if isinstance(cls, OnPoints):
            points = _points(cls.grid)
            self._columns = [(cls.column, cls.grid.count, _numbers(points))]
            self.everywhere = points if cls.column is None else {cls.column: points}
            return
        kinds = kinds_of(cls)
        for column, values in cls.domain().items():
            if kinds.get(column, "value") == "number":
                values = tuple(sorted(values, key=number_of))
            self.domain[column] = values
            place = _place(values, kinds.get(column, "value"), column)
            self._columns.append((column, len(values), place))
        self.everywhere = batch_of(self.domain)

    @property
    def points(self) -> int:
        """Return how many points there are."""
        sizes = [size for _, size, _ in self._columns]
        return int(np.prod(sizes, dtype=object))

    def __call__(self, batch: Batch) -> Indices:
        index: Indices | None = None
        for column, size, place in self._columns:
            found = place(column_of(batch, column))
            nowhere = found == NOWHERE
            if index is not None:
                nowhere |= index == NOWHERE
                found = index * size + found
            found[nowhere] = NOWHERE
            index = found
        if index is None:
            raise AssertionError("a domain has at least one column")
        return index


def _place(values: tuple[Plain, ...], kind: Kind, column: Column) -> Place:
    if kind == "number":
        return _numbers(np.array([number_of(value) for value in values], dtype=object))
    keys = {key_of(value): index for index, value in enumerate(values)}
    if kind == "truth":
        answers = np.array([keys.get(key_of(truth), NOWHERE) for truth in (False, True)])
        return lambda array: answers[truths(array, str(column)).astype(np.intp)]
    return lambda array: _values(array, keys)


def _values(array: npt.NDArray[Any], keys: Mapping[bytes, int]) -> Indices:
    """Return the point of each value. Values are identified by canonical bytes: (1,) == (True,)."""
    if array.dtype.kind in "biufUS":
        some, inverse = np.unique(array, return_inverse=True)
        found = [keys.get(key_of(value), NOWHERE) for value in some]
        return np.array(found, dtype=np.int64)[inverse]
    return np.array([keys.get(key_of(value), NOWHERE) for value in array.tolist()], dtype=np.int64)


def _numbers(points: npt.NDArray[Any]) -> Place:
    """Return a function that finds numbers among ascending points, exactly."""
    listed: list[Number] = points.tolist()
    if all(isinstance(point, float) or abs(point) <= EXACT for point in (listed[0], listed[-1])):
        floats = points.astype(np.float64)
    else:
        floats = None

    def place(array: npt.NDArray[Any]) -> Indices:
        if floats is None or array.dtype.kind not in "biuf":
            one_by_one = [bisect_right(listed, number_of(value)) - 1 for value in array]
            return np.maximum(np.array(one_by_one, dtype=np.int64), 0)
        numbers = array.astype(np.float64)
        found = np.searchsorted(floats, numbers, side="right") - 1
        return np.asarray(np.where(np.isnan(numbers), 0, np.maximum(found, 0)))

    return place


def _points(grid: Grid | Edges) -> npt.NDArray[Any]:
    """Return the points of a grid, all at once where floats can represent them exactly.

    Over a common denominator they are whole numbers, and the quotient of two whole numbers that are
    floats is the float nearest to it: what the grid says, one point at a time.
    """
    if isinstance(grid, Edges):
        return np.array([grid[index] for index in range(grid.count)], dtype=object)
    lo, hi, step = (Fraction(repr(end)) for end in (grid.lo, grid.hi, grid.step))
    below = math.lcm(lo.denominator, step.denominator)
    if any(abs(number) * below > EXACT for number in (lo, hi, Fraction(1))):
        return np.array([grid[index] for index in range(grid.count)], dtype=object)
    above = int(lo * below) + int(step * below) * np.arange(grid.count)
    return above if below == 1 else above / below


def batch_of(domain: Mapping[Column, tuple[Plain, ...]]) -> Batch:
    """Return every example over a domain, as arrays of the plainest type that holds them."""
    sizes = [len(values) for values in domain.values()]
    places = np.indices(sizes).reshape(len(sizes), -1)
    columns = {
        column: _array(values)[place]
        for (column, values), place in zip(domain.items(), places, strict=True)
    }
    if None in columns:
        return columns[None]
    return {str(column): array for column, array in columns.items()}


def _array(values: tuple[Plain, ...]) -> npt.NDArray[Any]:
    """Return values as an array that keeps every value's own type."""
    if {type(value) for value in values} == {bool}:
        return np.array(values, dtype=bool)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
