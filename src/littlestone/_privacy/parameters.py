"""Turn parameters into exact rationals, once; they are never rounded in our favour.

Promises: epsilon, delta and every noise scale are `Fraction`s; `exp` enters only as two rationals
that enclose it; a float is made for reports alone, and rounded up.
"""

import math
import operator
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from littlestone.errors import LittlestoneError

Real: TypeAlias = float | Fraction


# The largest number in a list, so that 64 bits hold their sums and any noise.
LARGEST_INTEGER = 1 << 40


class BadParameter(LittlestoneError, ValueError):
    """Report a parameter that cannot be used; raised before any noise is drawn."""


def positive(value: Real, name: str) -> Fraction:
    """Return the rational that a number above zero is exactly."""
    exact = _rational(value)
    if exact is None or exact <= 0:
        raise BadParameter(f"{name} must be a finite number above 0, not {value}")
    return exact


def probability(value: Real, name: str) -> Fraction:
    """Return the rational that a probability is exactly."""
    exact = _rational(value)
    if exact is None or not 0 < exact < 1:
        raise BadParameter(f"{name} must lie strictly between 0 and 1, not {value}")
    return exact


def whole(value: SupportsIndex, name: str, least: int | None = None) -> int:
    """Return a whole number as a Python integer."""
    if type(value) is int and least is not None and value >= least:
        return value  # the common case
    try:
        exact = operator.index(value)
    except TypeError:
        exact = None
    if exact is None or isinstance(value, bool):
        raise BadParameter(f"{name} must be a whole number, not {value!r}")
    if least is not None and exact < least:
        raise BadParameter(f"{name} must be at least {least}, not {exact}")
    return exact


# Many whole numbers, as a caller may pass them.
Numbers: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]


def whole_numbers(values: Numbers, name: str, least: int | None = None) -> npt.NDArray[np.int64]:
    """Return whole numbers as 64-bit integers, small enough to add them up."""
    # numpy would turn a list of large integers into floats or objects: both are refused.
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise BadParameter(f"{name} must be a list of whole numbers")
    smallest, largest = (int(array.min()), int(array.max())) if len(array) else (least or 0, 0)
    if largest > LARGEST_INTEGER or smallest < -LARGEST_INTEGER:
        raise BadParameter(f"{name} must be within 2^40 of zero")
    if least is not None and smallest < least:
        raise BadParameter(f"{name} must be at least {least}")
    return array.astype(np.int64)


def float_above(value: Fraction) -> float:
    """Return the smallest float that is not below `value`."""
    try:
        # `float` rounds to nearest, which may claim less than was spent: step up where it does.
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def log_of(x: Fraction) -> float:
    """Return the logarithm, for guesses only; it does not overflow."""
    return math.log(x.numerator) - math.log(x.denominator)


def enclose_exp(x: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    """Return two decimals with exp(x) between them."""
    # Decimal.exp is correctly rounded, so the next numbers down and up enclose it.
    low, high = context(digits, ROUND_FLOOR), context(digits, ROUND_CEILING)
    below, above = low.exp(decimal_of(x, low)), high.exp(decimal_of(x, high))
    return below.next_minus(low), above.next_plus(high)


def decimal_of(x: Fraction, arithmetic: Context) -> Decimal:
    """Return a rational as a decimal."""
    return arithmetic.divide(Decimal(x.numerator), Decimal(x.denominator))


def context(digits: int, rounding: str) -> Context:
    """Return decimal arithmetic with no practical limit on the exponent."""
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)


def _rational(value: Real) -> Fraction | None:
    """Return the exact rational behind an int, float or Fraction, or None."""
    # True is an int in Python, and a budget of True is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return Fraction(value)
