"""Decide whether noise reaches a gap, exactly, many checks at a time.

A sparse vector asks one thing of its query noise: is it at least the gap? That is a coin of a
known bias, so a run of checks needs no noise at all, only the coins: 64 secret bits each, compared
with two integers that enclose the bias, and more bits in the one case in 2^60 or so that the
enclosure leaves open. The law is that of the noise, exactly (docs/guarantee.md, Lemma 1). The bits
come from `noise`.

Draw secret randomness, here and nowhere else: exact integers of a rational scale.

Promises: `laplace(scale)` has the discrete Laplace law P(k) = (1-a)/(1+a) a^|k| with
a = exp(-1/scale), and `geometric(scale)` the one-sided law P(k) = (1-a) a^k on k >= 0, exactly.

OpenDP samples with the algorithm of Canonne, Kamath and Steinke (2020), in integers. It takes its
scale as a float and reads that float as the exact rational it is. So every scale is first raised
to the next float (`noise_scale`), and the raised rational is what mechanisms account with: the
noise is never smaller than claimed, and never other than claimed.
"""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from math import ceil, floor
from typing import NoReturn, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from littlestone.privacy.parameters import BadParameter, enclose_exp, float_above

WORD_BITS = 64
TAIL_DIGITS = 30
Gaps = npt.NDArray[np.int64]
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

    A word below the first exceeds the gap; one that is not below the second does not.

    Parameters
    ----------
    margin
        The gap.
    scale
        The scale of the noise.
    one_sided
        Whether the noise is geometric; otherwise it is Laplace.
    """
    return _bounds(margin, *scale.as_integer_ratio(), one_sided)


@lru_cache(maxsize=1 << 16)
def _bounds(margin: int, up: int, down: int, one_sided: bool) -> tuple[int, int]:
    """Cache `bounds` by two integers, which are faster to look up than the fraction they make."""
    # Beyond 45 scales a tail is below 2^-64: there is no need to write its many zeros.
    if margin * down > 45 * up:
        return 0, 1
    if not one_sided and (1 - margin) * down > 45 * up:
        return 2**WORD_BITS - 1, 2**WORD_BITS
    low, high = tail(margin, Fraction(up, down), one_sided, TAIL_DIGITS)
    return floor(low * 2**WORD_BITS), ceil(high * 2**WORD_BITS)


def first_exceeding(margins: Gaps, scale: Fraction, one_sided: bool, secret: Secret) -> int | None:
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
        if exceeds(int(drawn[place]), int(margins[place]), scale, one_sided, secret):
            return int(place)
    return None


def exceeds(word: int, margin: int, scale: Fraction, one_sided: bool, secret: Secret) -> bool:
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
    """
    low, high = bounds(margin, scale, one_sided)
    width, digits = WORD_BITS, TAIL_DIGITS
    while low <= word < high:
        word, width, digits = (
            word << WORD_BITS | int.from_bytes(secret(8)),
            width + WORD_BITS,
            digits + 20,
        )
        below, above = tail(margin, scale, one_sided, digits)
        low, high = floor(below * 2**width), ceil(above * 2**width)
    return word < low


Address: TypeAlias = tuple[str, int, int]
"""Where a draw is used: purpose, number of the check or release, rank of the key."""

LARGEST_SCALE = 2**48
"""OpenDP saturates at 63 bits; at this scale that has probability below exp(-32000)."""

BUFFER = 256


def noise_scale(scale: Fraction) -> Fraction:
    """Return the scale that is really used for `scale`: the next float, as an exact rational.

    >>> noise_scale(Fraction(2))
    Fraction(2, 1)
    >>> noise_scale(Fraction(1, 10)) > Fraction(1, 10)
    True
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise BadParameter("a noise scale must be above 0 and at most 2^48: epsilon is too small")
    return Fraction(float_above(scale))


class Noise(ABC):
    """Draw noise. `private` says whether the draws are secret, hence may protect anyone."""

    private = False

    @abstractmethod
    def laplace(self, scale: Fraction, at: Address) -> int:
        """Draw a discrete Laplace integer.

        Parameters
        ----------
        scale
            The scale of the noise.
        at
            The address of the draw.
        """

    @abstractmethod
    def uniform(self, below: int, at: Address) -> int:
        """Draw an integer uniformly from 0, 1, ..., below - 1.

        Parameters
        ----------
        below
            How many integers there are.
        at
            The address of the draw.
        """

    def geometric(self, scale: Fraction, at: Address) -> int:
        """Draw a one-sided integer, P(k) = (1-a) a^k: k and -k-1 of the Laplace law, folded.

        Parameters
        ----------
        scale
            The scale of the noise.
        at
            The address of the draw.
        """
        two_sided = self.laplace(scale, at)
        return two_sided if two_sided >= 0 else ~two_sided

    def exceeds(self, margin: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        """Return whether fresh noise is at least a gap: all that a sparse vector may ask of it.

        The draw itself is not returned, so it cannot be kept, compared twice or shown.

        Parameters
        ----------
        margin
            The gap: the noisy threshold less the query.
        scale
            The scale of the noise.
        at
            The address of the draw.
        one_sided
            Whether the noise is geometric; otherwise it is Laplace.
        """
        return (self.geometric if one_sided else self.laplace)(scale, at) >= margin

    def first_exceeding(
        self, margins: Gaps, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        """Return the first of a run of checks whose noise reaches its gap, as `exceeds` would.

        Parameters
        ----------
        margins
            The gap of each check.
        scale
            The scale of the noise.
        check
            The number of the first check, for the addresses of the draws.
        one_sided
            Whether the noise is geometric; otherwise it is Laplace.
        """
        for place, margin in enumerate(margins.tolist()):
            if self.exceeds(margin, scale, ("query", check + place, 0), one_sided):
                return place
        return None


class SystemNoise(Noise):
    """Draw noise from the operating system, through OpenDP, ahead of need in vectors.

    Unused draws live in memory only: they cannot be copied or pickled, and a forked child starts
    with none, so that no two processes ever use the same one.

    >>> SystemNoise()
    SystemNoise()
    >>> isinstance(SystemNoise().laplace(Fraction(2), ("doctest", 0, 0)), int)
    True
    """

    private = True

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Drop every draw made ahead."""
        self._ahead: dict[tuple[int, int], list[int]] = {}
        self._words: list[int] = []
        self._process = os.getpid()

    def __repr__(self) -> str:
        return "SystemNoise()"

    def laplace(self, scale: Fraction, at: Address) -> int:
        # After a fork the parent may use the same draws.
        if os.getpid() != self._process:
            self._forget()
        ahead = self._ahead.setdefault(scale.as_integer_ratio(), [])
        while True:
            try:
                return ahead.pop()  # atomic, so no two threads get one draw
            except IndexError:
                ahead.extend(_laplace_vector(scale)([0] * BUFFER))

    def uniform(self, below: int, at: Address) -> int:
        return secrets.randbelow(below)

    def exceeds(self, margin: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        """Flip a coin with the probability of the answer: the noise need not be drawn (`tails`)."""
        if os.getpid() != self._process:
            self._forget()
        return exceeds(self._word(), margin, scale, one_sided, secrets.token_bytes)

    def _word(self) -> int:
        """Return 64 secret bits, used once."""
        while True:
            try:
                return self._words.pop()
            except IndexError:
                fresh = np.frombuffer(secrets.token_bytes(8 * BUFFER), np.uint64)
                self._words.extend(fresh.tolist())

    def first_exceeding(
        self, margins: Gaps, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        return first_exceeding(margins, scale, one_sided, secrets.token_bytes)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("secret noise cannot be copied or pickled: a draw must be used once only")


@cache
def _laplace_vector(scale: Fraction) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's measurement that adds this noise to every entry of a vector."""
    # Imported on first use: it takes a while, and plans need no noise.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    as_float = float(scale)
    if Fraction(as_float) != scale:
        raise BadParameter(f"{scale} is not a float: pass it through noise_scale first")
    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l1_distance(T="i64")
    return cast(Callable[[list[int]], list[int]], make_laplace(*space, scale=as_float))
