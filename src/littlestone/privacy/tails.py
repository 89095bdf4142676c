"""Decide whether noise reaches a gap, exactly, many checks at a time.

A sparse vector asks one thing of its query noise: is it at least the gap? That is a coin of a
known bias, so a run of checks needs no noise at all, only the coins: 64 secret bits each, compared
with two integers that enclose the bias, and more bits in the one case in 2^60 or so that the
enclosure leaves open. The law is that of the noise, exactly (docs/guarantee.md, Lemma 1). The bits
come from `noise`.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from littlestone.privacy.exact import enclose_exp

WORD = 64
DIGITS = 30
Margins = npt.NDArray[np.int64]
Secret = Callable[[int], bytes]
"""A source of secret bytes, told how many."""


def tail(margin: int, scale: Fraction, one_sided: bool, digits: int) -> tuple[Fraction, Fraction]:
    """Return two rationals with P(noise >= margin) between them.

    With a = exp(-1/scale) it is a^margin on one side (1 up to margin 0), and on two sides
    a^margin/(1+a) from margin 1 on, 1 - a^(1-margin)/(1+a) up to margin 0.

    Parameters
    ----------
    margin
        The gap.
    scale
        The scale of the noise.
    one_sided
        Whether the noise is geometric; otherwise it is Laplace.
    digits
        The digits of the enclosure.

    Returns
    -------
    tuple of Fraction
        A lower and an upper bound.

    Examples
    --------
    >>> low, high = tail(2, Fraction(1), one_sided=True, digits=20)
    >>> float(low), float(high)
    (0.1353352832366127, 0.1353352832366127)
    """
    if one_sided:
        return _power(margin, scale, digits) if margin > 0 else (Fraction(1), Fraction(1))
    a_low, a_high = _power(1, scale, digits)
    low, high = _power(margin if margin > 0 else 1 - margin, scale, digits)
    low, high = low / (1 + a_high), high / (1 + a_low)
    return (low, high) if margin > 0 else (1 - high, 1 - low)


def _power(n: int, scale: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    low, high = enclose_exp(-n / scale, digits)
    return max(Fraction(low), Fraction(0)), Fraction(high)


def bounds(margin: int, scale: Fraction, one_sided: bool) -> tuple[int, int]:
    """Return the tail in units of 2^-64, enclosed by two integers.

    Parameters
    ----------
    margin
        The gap.
    scale
        The scale of the noise.
    one_sided
        Whether the noise is geometric; otherwise it is Laplace.

    Returns
    -------
    tuple of int
        A word below the first reaches the gap; one that is not below the second does not.
    """
    return _bounds(margin, *scale.as_integer_ratio(), one_sided)


@lru_cache(maxsize=1 << 16)
def _bounds(margin: int, up: int, down: int, one_sided: bool) -> tuple[int, int]:
    """Cache `bounds` by two integers, which are faster to look up than the fraction they make."""
    # Beyond 45 scales a tail is below 2^-64: there is no need to write its many zeros.
    if margin * down > 45 * up:
        return 0, 1
    if not one_sided and (1 - margin) * down > 45 * up:
        return 2**WORD - 1, 2**WORD
    low, high = tail(margin, Fraction(up, down), one_sided, DIGITS)
    return floor(low * 2**WORD), ceil(high * 2**WORD)


def first_reaching(
    margins: Margins, scale: Fraction, one_sided: bool, secret: Secret
) -> int | None:
    """Return the first index at which fresh noise reaches its gap.

    Parameters
    ----------
    margins
        The gaps.
    scale
        The scale of the noise.
    one_sided
        Whether the noise is geometric; otherwise it is Laplace.
    secret
        Returns so many fresh secret bytes.

    Returns
    -------
    int or None
        The index, or None.

    Examples
    --------
    >>> import os
    >>> margins = np.array([10**6, 10**6, -(10**6)])
    >>> first_reaching(margins, Fraction(1), one_sided=False, secret=os.urandom)
    2
    """
    levels, which = np.unique(margins, return_inverse=True)
    highs = [bounds(int(margin), scale, one_sided)[1] for margin in levels]
    # A word is at most the largest 64-bit integer, so `<= high - 1` is `< high` without overflow.
    last = np.array([max(high - 1, 0) for high in highs], dtype=np.uint64)[which]
    drawn = np.frombuffer(secret(8 * len(margins)), dtype=np.uint64)
    for place in np.flatnonzero(drawn <= last):
        if reaches(int(drawn[place]), int(margins[place]), scale, one_sided, secret):
            return int(place)
    return None


def reaches(word: int, margin: int, scale: Fraction, one_sided: bool, secret: Secret) -> bool:
    """Return whether a uniform point that begins with these 64 bits lies below the tail.

    Parameters
    ----------
    word
        The first 64 bits of the point.
    margin
        The gap.
    scale
        The scale of the noise.
    one_sided
        Whether the noise is geometric; otherwise it is Laplace.
    secret
        Returns so many fresh secret bytes, for the bits after them.

    Returns
    -------
    bool
        Whether the noise reaches the gap.
    """
    low, high = bounds(margin, scale, one_sided)
    width, digits = WORD, DIGITS
    while low <= word < high:
        word, width, digits = word << WORD | int.from_bytes(secret(8)), width + WORD, digits + 20
        below, above = tail(margin, scale, one_sided, digits)
        low, high = floor(below * 2**width), ceil(above * 2**width)
    return word < low
