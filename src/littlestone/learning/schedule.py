"""Schedule thresholds: how many mistakes an epoch may make, by its age. Public.

The base is raised by half after each refusal; by the tolerance; and by the logarithm of the checks
per mistake of the base, since each check is one more chance of a false alarm:

    raised base + ceil(ln(1 + age / (check_every x base)) / rate) + floor(tolerance x age)

The logarithm grows by one at a few ages only, which are computed once; so one age and an array of
ages give the same integers.
"""

import math
from bisect import bisect_left
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from littlestone.privacy.exact import BadParameter, Real

MILLION = 10**6
LARGEST_FACTOR = 8.0
FURTHEST = 1 << 40
"""No stream is longer."""
FURTHEST_CLIMB = 40.0
"""Its exp exceeds FURTHEST: clamping avoids an overflow at a huge epsilon."""
MOST_STEPS = 1 << 16
"""Of the logarithm, at most: where a tiny rate would need more, each climbs by more than one."""


class Schedule:
    """Compute thresholds from public values: the age of an epoch, and the refusals before it.

    Parameters
    ----------
    base : int
        The threshold at age 0.
    rate : float
        The monitor's epsilon.
    check_every : int
        Rounds between checks.
    tolerance : Fraction
        Tolerated mistakes per round.

    Examples
    --------
    >>> schedule = Schedule(base=40, rate=0.25, check_every=8)
    >>> schedule(0, 0), schedule(10_000, 0), schedule(0, refusals=1)
    (40, 54, 60)
    >>> schedule(np.array([0, 10_000]), 0)
    array([40, 54])
    """

    def __init__(
        self, base: int, rate: float, check_every: int, tolerance: Fraction = Fraction(0)
    ) -> None:
        self.base, self.rate, self.check_every = base, rate, check_every
        self._up, self._down = tolerance.as_integer_ratio()
        self._raised = cache(self._base_after)
        self._ages: list[int] = []
        self._climb = max(1, math.ceil(FURTHEST_CLIMB / rate / MOST_STEPS))
        while not self._ages or self._ages[-1] < FURTHEST:
            climbed = math.expm1(min(rate * self._climb * len(self._ages), FURTHEST_CLIMB))
            self._ages.append(min(FURTHEST, math.floor(check_every * base * climbed)))

    def __call__(self, age: Any, refusals: int) -> Any:
        """Return the threshold at an age, or at each of an array of ages.

        Parameters
        ----------
        age : int or array of int
            The rounds since the epoch began.
        refusals : int
            The firings in a row that released nothing.

        Returns
        -------
        int or array of int
        """
        base = self._raised(min(refusals, 64))
        tolerated = age * self._up // self._down if self._up else 0
        if isinstance(age, int):
            return base + self._climb * bisect_left(self._ages, age) + tolerated
        return base + self._climb * np.searchsorted(self._ages, age) + tolerated

    def _base_after(self, refusals: int) -> int:
        """Return the base, raised by half for each refusal."""
        return math.ceil(self.base * min(1.5**refusals, LARGEST_FACTOR))


def tolerated(tolerance: Real) -> Fraction:
    """Return a tolerance as the rational that was meant: 0.1 is a tenth.

    Raises
    ------
    BadParameter
        If it is not at least 0 and below 1.
    """
    try:
        exact = Fraction(tolerance).limit_denominator(MILLION)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(-1)
    if not 0 <= exact < 1:
        raise BadParameter(f"tolerance must be at least 0 and below 1, not {tolerance}")
    return exact
