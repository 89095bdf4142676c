"""Draw secret randomness, here and nowhere else: exact integers of a rational scale.

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
from functools import cache
from typing import NoReturn, TypeAlias, cast

import numpy as np

from littlestone.privacy.exact import BadParameter, float_above
from littlestone.privacy.tails import Margins, first_reaching, reaches

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

        Returns
        -------
        int
            The draw.
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

        Returns
        -------
        int
            The draw.
        """

    def geometric(self, scale: Fraction, at: Address) -> int:
        """Draw a one-sided integer, P(k) = (1-a) a^k: k and -k-1 of the Laplace law, folded.

        Parameters
        ----------
        scale
            The scale of the noise.
        at
            The address of the draw.

        Returns
        -------
        int
            The draw.
        """
        two_sided = self.laplace(scale, at)
        return two_sided if two_sided >= 0 else ~two_sided

    def reaches(self, margin: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
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

        Returns
        -------
        bool
            Whether the noise reaches the gap.
        """
        return (self.geometric if one_sided else self.laplace)(scale, at) >= margin

    def first_reaching(
        self, margins: Margins, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        """Return the first of a run of checks whose noise reaches its gap, as `reaches` would.

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

        Returns
        -------
        int or None
            The index of the check, or None.
        """
        for place, margin in enumerate(margins.tolist()):
            if self.reaches(margin, scale, ("query", check + place, 0), one_sided):
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

    def reaches(self, margin: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        """Flip a coin with the probability of the answer: the noise need not be drawn (`tails`)."""
        if os.getpid() != self._process:
            self._forget()
        return reaches(self._word(), margin, scale, one_sided, secrets.token_bytes)

    def _word(self) -> int:
        """Return 64 secret bits, used once."""
        while True:
            try:
                return self._words.pop()
            except IndexError:
                fresh = np.frombuffer(secrets.token_bytes(8 * BUFFER), np.uint64)
                self._words.extend(fresh.tolist())

    def first_reaching(
        self, margins: Margins, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        return first_reaching(margins, scale, one_sided, secrets.token_bytes)

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
