"""Numbers in rules: comparing a column with a cut, exactly.

A cut is an int where it can be (70, not 70.0), so that one cut has one spelling. Comparison is by
value, in whatever type the data comes, without rounding. A missing number (None or NaN) is below
every cut.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.theory.errors import BadExample
from littlestone.theory.rows import each, passes
from littlestone.theory.values import SMALL, Mask, plain

Number = int | float


LARGEST = float(np.finfo(np.float64).max)


def simplest(cut: float) -> Number:
    """The one spelling of a finite number: an int where it is whole.

    >>> simplest(70.0), simplest(0.5)
    (70, 0.5)
    """
    number = plain(cut)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BadExample(f"{cut!r} is not a number")
    if not -LARGEST <= number <= LARGEST:
        raise BadExample(f"{cut!r} is not a finite number that a computer can hold")
    return int(number) if number == int(number) else number


def number_of(value: object) -> Number:
    """The number in an example.

    >>> number_of(np.int8(3)), number_of(None)
    (3, -inf)
    """
    if type(value) is float or (type(value) is int and -SMALL < value < SMALL):
        return value if value == value else -math.inf
    number = plain(value)
    if number is None or number != number:
        return -math.inf
    if not isinstance(number, int | float):
        raise BadExample(f"{number!r} is not a number")
    return number


def compare_all(column: npt.NDArray[Any], cut: Number) -> Mask:
    """Which entries are at least the cut.

    >>> compare_all(np.array([69, 70, 71]), 69.5)
    array([False,  True,  True])
    >>> compare_all(np.array([None, 70, float("nan"), 80.5], dtype=object), 70)
    array([False,  True, False,  True])
    """
    kind = column.dtype.kind
    if kind == "b":
        column, kind = column.astype(np.int8), "i"
    if kind in "iu":
        return np.asarray(column >= math.ceil(cut))
    if kind == "f" and column.dtype.itemsize <= 8:
        return np.asarray(column.astype(np.float64, copy=False) >= _float_from(cut))
    return each(lambda value: number_of(value) >= cut, column)


def _float_from(cut: Number) -> float:
    """The smallest float that is not below the cut."""
    nearest = float(cut)
    return nearest if nearest >= cut else math.nextafter(nearest, math.inf)


def readable_numbers(column: npt.NDArray[Any]) -> Mask:
    """Which entries are numbers, or missing."""
    if column.dtype.kind in "biuf" and column.dtype.itemsize <= 8:
        return np.ones(len(column), dtype=bool)
    return each(partial(passes, number_of), column)
