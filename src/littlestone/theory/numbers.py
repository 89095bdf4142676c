"""Numbers in rules: comparing a column with a cut, exactly.

A cut is an int where it can be (70, not 70.0), so that one cut has one spelling. Comparison is by
value, in whatever type the data comes, without rounding. A missing number (None or NaN) is below
every cut.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.theory.errors import BadExample
from littlestone.theory.rows import each
from littlestone.theory.values import Mask

Number = int | float


def simplest(cut: float) -> Number:
    """The one spelling of a finite number: an int where it is whole.

    >>> simplest(70.0), simplest(0.5)
    (70, 0.5)
    """
    if not isinstance(cut, int | float | np.integer | np.floating) or not math.isfinite(cut):
        raise BadExample(f"{cut!r} is not a finite number")
    return int(cut) if cut == int(cut) else float(cut)


def number_of(value: object) -> Number:
    """The number in an example.

    >>> number_of(np.int8(3)), number_of(None)
    (3, -inf)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value != value:
        return -math.inf
    if not isinstance(value, int | float):
        raise BadExample(f"{value!r} is not a number")
    return value


def compare_all(column: npt.NDArray[Any], cut: Number) -> Mask:
    """Which entries are at least the cut.

    >>> compare_all(np.array([69, 70, 71]), 69.5)
    array([False,  True,  True])
    >>> compare_all(np.array([None, 70, float("nan"), 80.5], dtype=object), 70)
    array([False,  True, False,  True])
    """
    kind = column.dtype.kind
    if kind in "biu":
        return np.asarray(column >= math.ceil(cut))
    if kind == "f":
        return np.asarray(column.astype(np.float64, copy=False) >= cut)
    return each(lambda value: number_of(value) >= cut, column)
