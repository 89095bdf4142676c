"""Draw secret randomness, here and nowhere else: exact integers of a rational scale.

Promises: `laplace(scale)` has the discrete Laplace law P(k) = (1-a)/(1+a) a^|k| with
a = exp(-1/scale), and `geometric(scale)` the one-sided law P(k) = (1-a) a^k on k >= 0, exactly.

OpenDP samples with the algorithm of Canonne, Kamath and Steinke (2020), in integers. It takes its
scale as a float and reads that float as the exact rational it is. So every scale is first raised
to the next float (`noise_scale`), and the raised rational is what mechanisms account with: the
noise is never smaller than claimed, and never other than claimed.

A sparse vector needs one thing of its query noise: whether it is at least a gap. That is an event
of known probability, so a check draws 64 secret bits and compares them with two integers that
enclose the probability, and draws more bits in the one case in 2^60 or so that the enclosure leaves
open. The law is that of the noise, exactly (docs/guarantee.md, Lemma 1).
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

from littlestone._privacy.parameters import BadParameter, enclose_exp, float_above

WORD_BITS = 64
TAIL_DIGITS = 30
Gaps = npt.NDArray[np.int64]
# Returns so many fresh secret bytes.
Secret = Callable[[int], bytes]


def tail(gap: int, scale: Fraction, one_sided: bool, digits: int) -> tuple[Fraction, Fraction]:
    """Return two rationals with P(noise >= gap) between them."""
    if one_sided:
        return _power(gap, scale, digits) if gap > 0 else (Fraction(1), Fraction(1))
    # Bounds are paired so that the quotient stays an enclosure: low with high, high with low.
    a_low, a_high = _power(1, scale, digits)
    low, high = _power(gap if gap > 0 else 1 - gap, scale, digits)
    low, high = low / (1 + a_high), high / (1 + a_low)
    return (low, high) if gap > 0 else (1 - high, 1 - low)


def _power(n: int, scale: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    # exp is rounded outwards, and a lower bound below zero says no more than zero.
    low, high = enclose_exp(-n / scale, digits)
    return max(Fraction(low), Fraction(0)), Fraction(high)


def bounds(gap: int, scale: Fraction, one_sided: bool) -> tuple[int, int]:
    """Return the tail in units of 2^-64, enclosed by two integers."""
    return _bounds(gap, *scale.as_integer_ratio(), one_sided)


@lru_cache(maxsize=1 << 16)
def _bounds(gap: int, up: int, down: int, one_sided: bool) -> tuple[int, int]:
    """Cache `bounds` by two integers, which are faster to look up than the fraction they make."""
    # Beyond 45 scales a tail is below 2^-64: there is no need to write its many zeros.
    if gap * down > 45 * up:
        return 0, 1
    if not one_sided and (1 - gap) * down > 45 * up:
        return 2**WORD_BITS - 1, 2**WORD_BITS
    low, high = tail(gap, Fraction(up, down), one_sided, TAIL_DIGITS)
    return floor(low * 2**WORD_BITS), ceil(high * 2**WORD_BITS)


def first_exceeding(gaps: Gaps, scale: Fraction, one_sided: bool, secret: Secret) -> int | None:
    """Return the first index at which fresh noise is at least its gap."""
    drawn = np.frombuffer(secret(8 * len(gaps)), dtype=np.uint64)
    # Both tails are at most exp(-gap / scale). Floats only leave out words that are above that by
    # far more than rounding explains; `exceeds` decides on all others exactly.
    most = np.exp(-np.maximum(gaps, 0) / float(scale)) * ((1 + 1e-9) * 2.0**WORD_BITS) + 1
    for place in np.flatnonzero(drawn.astype(np.float64) <= most):
        if exceeds(int(drawn[place]), int(gaps[place]), scale, one_sided, secret):
            return int(place)
    return None


def exceeds(word: int, gap: int, scale: Fraction, one_sided: bool, secret: Secret) -> bool:
    """Return whether a uniform point that begins with these 64 bits lies below the tail."""
    low, high = bounds(gap, scale, one_sided)
    width, digits = WORD_BITS, TAIL_DIGITS
    while low <= word < high:
        # The enclosure leaves this word open: refine both, so that no rounding enters the law.
        word = word << WORD_BITS | int.from_bytes(secret(8))
        width, digits = width + WORD_BITS, digits + 20
        below, above = tail(gap, scale, one_sided, digits)
        low, high = floor(below * 2**width), ceil(above * 2**width)
    return word < low


# Where a draw is used: purpose, number of the check or release, rank of the key.
Address: TypeAlias = tuple[str, int, int]

# OpenDP saturates at 63 bits; at this scale that has probability below exp(-32000).
LARGEST_SCALE = 2**48

BUFFER = 256


def noise_scale(scale: Fraction) -> Fraction:
    """Return the scale that is really used for `scale`: the next float, as an exact rational."""
    # Saturation at 63 bits would be a law other than the one that is claimed.
    if not 0 < scale <= LARGEST_SCALE:
        raise BadParameter("a noise scale must be above 0 and at most 2^48: epsilon is too small")
    return Fraction(float_above(scale))


class Noise(ABC):
    """Draw noise. Draws protect people only if they are secret: `private` says so."""

    private = False

    @abstractmethod
    def laplace(self, scale: Fraction, at: Address) -> int:
        """Draw a discrete Laplace integer."""

    @abstractmethod
    def uniform(self, below: int, at: Address) -> int:
        """Draw an integer uniformly from 0, 1, ..., below - 1."""

    def geometric(self, scale: Fraction, at: Address) -> int:
        """Draw a one-sided integer, P(k) = (1-a) a^k: k and -k-1 of the Laplace law, folded."""
        # Lemma 1: a^k + a^(k+1) is proportional to a^k, so folding gives the one-sided law.
        two_sided = self.laplace(scale, at)
        return two_sided if two_sided >= 0 else ~two_sided

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        """Return whether fresh noise is at least a gap: all that a sparse vector needs of it."""
        # Greater or equal: the proofs write "noise >= gap" for a firing.
        return (self.geometric if one_sided else self.laplace)(scale, at) >= gap

    def first_exceeding(
        self, gaps: Gaps, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        """Return the first of a run of checks whose noise is at least its gap, as `exceeds` would."""
        for place, gap in enumerate(gaps.tolist()):
            if self.exceeds(gap, scale, ("query", check + place, 0), one_sided):
                return place
        return None


class SystemNoise(Noise):
    """Draw noise from the operating system; Laplace noise through OpenDP, ahead of need in vectors."""

    private = True

    def __init__(self) -> None:
        self._discard()

    def _discard(self) -> None:
        """Drop every draw made ahead."""
        self._ahead: dict[tuple[int, int], list[int]] = {}
        self._process = os.getpid()

    def __repr__(self) -> str:
        return "SystemNoise()"

    def laplace(self, scale: Fraction, at: Address) -> int:
        # After a fork the parent may use the same draws.
        if os.getpid() != self._process:
            self._discard()
        ahead = self._ahead.setdefault(scale.as_integer_ratio(), [])
        while True:
            try:
                # Atomic, so no two threads get one draw.
                return ahead.pop()
            except IndexError:
                ahead.extend(_laplace_vector(scale)([0] * BUFFER))

    def uniform(self, below: int, at: Address) -> int:
        # Exactly uniform: `randbelow` rejects, it does not reduce modulo `below`.
        return secrets.randbelow(below)

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        """Draw the answer by its probability (Lemma 1); the noise itself is not drawn."""
        word = int.from_bytes(secrets.token_bytes(WORD_BITS // 8))
        return exceeds(word, gap, scale, one_sided, secrets.token_bytes)

    def first_exceeding(
        self, gaps: Gaps, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        return first_exceeding(gaps, scale, one_sided, secrets.token_bytes)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # Theorem 12 needs noise that is drawn once and used once.
        raise TypeError("secret noise cannot be copied or pickled: a draw must be used once only")


@cache
def _laplace_vector(scale: Fraction) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's measurement that adds this noise to every entry of a vector."""
    # Imported on first use: it takes a while, and plans need no noise.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    # OpenDP reads the float as an exact rational; any other scale would be rounded in silence.
    as_float = float(scale)
    if Fraction(as_float) != scale:
        raise BadParameter(f"{scale} is not a float: pass it through noise_scale first")
    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l1_distance(T="i64")
    return cast(Callable[[list[int]], list[int]], make_laplace(*space, scale=as_float))
