"""Numbers in rules: comparing a column with a cut.

A cut is an int where it can be (70, not 70.0), so that one cut has one spelling. **A number in a
row is a 64-bit float**, whatever type it comes in: a whole number, a decimal, a truth value (1 or
0), or text that spells one of these. A reader that makes floats or text of a whole column because
of one cell does not change what its other cells are (docs/guarantee.md, Lemma 0). A missing number
(None, NaN, empty text, and the words that readers of tables take for a missing number, such as NA)
is below every cut. Comparison with a cut is exact.
"""

import math
import re
import reprlib
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.errors import BadExample
from littlestone.hypotheses.frames import plain_number
from littlestone.hypotheses.rows import each, passes
from littlestone.hypotheses.values import Mask, Plain, plain

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


def number_of(value: object) -> float:
    """Return the number in a cell as `float_of` does, but minus infinity where it is missing.

    >>> number_of(np.int8(3)), number_of(None)
    (3.0, -inf)
    """
    number = value if type(value) is float else float_of(value)
    return number if number == number else -math.inf


def float_of(value: object) -> float:
    """Return the number in a cell, NaN where it is missing.

    Parameters
    ----------
    value : object
        A cell of a row: a number, a truth value, text that spells one, or a missing value.

    Returns
    -------
    float
        The nearest 64-bit float; infinite where the number is too large for one.

    Raises
    ------
    BadExample
        If the cell is not a number.

    Examples
    --------
    >>> float_of(np.int8(3)), float_of("3.0"), float_of(None), float_of(10**400)
    (3.0, 3.0, nan, inf)
    >>> float_of("oops")
    Traceback (most recent call last):
    littlestone.errors.BadExample: 'oops' is not a number
    """
    if type(value) is float:
        return value
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bytes):
        return _from_text(value.decode("ascii", "replace"))
    return _from_plain(plain(plain_number(value)))


def _from_plain(value: Plain) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise BadExample(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# Beside text these words stay text, beside numbers pandas and pyarrow make of them what they are
# here: one number whatever its neighbours are.
_TRUTHS = {"true": 1.0, "false": 0.0}
_MISSING = re.compile(
    r"|na|n/a|<na>|#na|#n/a|#n/a n/a|null|none|-?1\.#(ind|qnan)|[+-]?nan\(\w*\)", re.ASCII
)
_HEX = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII)


def _from_text(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        word = text.strip().lower()
    if word in _TRUTHS:
        return _TRUTHS[word]
    if _MISSING.fullmatch(word):
        return math.nan
    if _HEX.fullmatch(word):
        whole = int(word, 16)
        return float(whole - (1 << 64) if whole >> 63 else whole)
    raise BadExample(f"{reprlib.repr(str(text))} is not a number")


def compare_all(column: npt.NDArray[Any], cut: Number) -> Mask:
    """Which entries are at least the cut.

    >>> compare_all(np.array([69, 70, 71]), 69.5)
    array([False,  True,  True])
    >>> compare_all(np.array([None, 70, float("nan"), 80.5], dtype=object), 70)
    array([False,  True, False,  True])
    """
    if column.dtype.kind in "biuf":
        return np.asarray(column.astype(np.float64, copy=False) >= _float_from(cut))
    return each(lambda value: number_of(value) >= cut, column)


def _float_from(cut: Number) -> float:
    """The smallest float that is not below the cut."""
    nearest = float(cut)
    return nearest if nearest >= cut else math.nextafter(nearest, math.inf)


def readable_numbers(column: npt.NDArray[Any]) -> Mask:
    """Which entries are numbers, or missing."""
    if column.dtype.kind in "biuf":
        return np.ones(len(column), dtype=bool)
    return each(partial(passes, number_of), column)
