"""Compute the law of the exponential mechanism from its code, by bisection."""

from fractions import Fraction

import numpy as np

from littlestone.lab.enumeration import Branching
from littlestone.privacy.exponential import ExponentialMechanism, Scores, _draw_group
from littlestone.privacy.noise import Address, Noise

Question = tuple[tuple[int, ...], Fraction]
_laws: dict[Question, list[tuple[bytes, float]]] = {}


class Point(Noise):
    """Return a given point of [0, 2^64) as the first draw, and 0 for every later one."""

    def __init__(self, point: int) -> None:
        self.point = point

    def __repr__(self) -> str:
        return "Point(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        raise AssertionError("the exponential mechanism has no use for Laplace noise")

    def uniform(self, below: int, at: Address) -> int:
        return self.point if at[2] == 1 else 0


def law_of(gaps: list[int], sizes: list[int], rate: Fraction) -> list[float]:
    """Return the probability of each group.

    Parameters
    ----------
    gaps
        How far each group's score is below the best.
    sizes
        How many candidates each group has.
    rate
        What a unit of score adds to the logarithm of a weight.

    Returns
    -------
    list of float
        The probabilities.
    """
    ends = ends_of(gaps, sizes, rate)
    return [(end - start) / 2**64 for start, end in zip([0, *ends], ends, strict=False)]


def ends_of(gaps: list[int], sizes: list[int], rate: Fraction) -> list[int]:
    """Return where in [0, 2^64) each group ends: bisect for the first point of the next one.

    Parameters
    ----------
    gaps
        How far each group's score is below the best.
    sizes
        How many candidates each group has.
    rate
        What a unit of score adds to the logarithm of a weight.

    Returns
    -------
    list of int
        The ends.
    """
    ends = []
    for group in range(len(gaps)):
        low, high = 0, 2**64
        while low < high:
            middle = (low + high) // 2
            if _draw_group(gaps, sizes, rate, Point(middle), 0) <= group:
                low = middle + 1
            else:
                high = middle
        ends.append(low)
    return ends


class FromLaw(ExponentialMechanism):
    """Select from the mechanism's law in one step of an enumeration."""

    def select(
        self, scores: Scores, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        if not isinstance(noise, Branching):
            raise TypeError("an enumerated mechanism is for enumeration: it protects no one")
        assert leave_out is None, "experts leave no rule out"
        return noise.choose(self.law(scores))

    def law(self, scores: Scores) -> list[tuple[bytes, float]]:
        """Return the probability of each candidate."""
        question = (tuple(map(int, scores)), self.rate)
        if question not in _laws:
            levels, counts = np.unique(scores, return_counts=True)
            gaps = [int(levels[-1] - level) for level in levels[::-1]]
            masses = law_of(gaps, counts[::-1].tolist(), self.rate)
            chance = dict(zip(levels[::-1].tolist(), masses, strict=True))
            size = dict(zip(levels.tolist(), counts.tolist(), strict=True))
            pairs = zip(self.candidates, question[0], strict=True)
            _laws[question] = [(key, chance[n] / size[n]) for key, n in pairs]
        return _laws[question]
