"""The schedule of thresholds: how many mistakes an epoch may make, by its age. Public.

The base is raised by half after each refusal; by what is tolerated; and by the logarithm of the
checks made for each mistake of the base, since each check is one more chance of a false alarm:

    raised base + ceil(ln(1 + age / (check_every x base)) / rate) + floor(tolerance x age)

The logarithm climbs at a few ages only, which are worked out once; so one age and an array
of ages are answered in the same integers.
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
"""exp of it is further than that: a huge epsilon needs no huger number."""
MOST_STEPS = 1 << 16
"""Of the logarithm, at most: where a tiny rate would need more, each climbs by more than one."""


class Schedule:
    """A function of public things: the age of an epoch, and the refusals in a row before it.

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
        base = self._raised(min(refusals, 64))
        tolerated = age * self._up // self._down if self._up else 0
        if isinstance(age, int):
            return base + self._climb * bisect_left(self._ages, age) + tolerated
        return base + self._climb * np.searchsorted(self._ages, age) + tolerated

    def _base_after(self, refusals: int) -> int:
        """The base, raised by half for each refusal."""
        return math.ceil(self.base * min(1.5**refusals, LARGEST_FACTOR))


def tolerated(tolerance: Real) -> Fraction:
    """A tolerance as the rational that a person means: 0.1 is a tenth."""
    try:
        exact = Fraction(tolerance).limit_denominator(MILLION)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(-1)
    if not 0 <= exact < 1:
        raise BadParameter(f"tolerance is at least 0 and below 1, not {tolerance}")
    return exact
