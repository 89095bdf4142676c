"""Predict how many mistakes pass before the right rule is published.

The formulas behind `Plan.practical`, for one epoch of a stream that some rule fits. Utility only:
nothing here enters a privacy proof, so floats suffice. Three questions, in the order they arise:

1. *When does the monitor fire?* It compares mistakes plus fresh noise with a noisy threshold. Given
   the threshold noise, checks are independent, so the law of the mistakes at the firing is a
   product.
2. *How many trees vote right by then?* M mistakes fall into k trees at random; a tree that got
   `mistakes_needed` of them votes for the right rule, if they concern the leading cause (`share` of
   them).
3. *Is the leading rule released?* By the selector's own law.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone.privacy.histogram import StableHistogram
from littlestone.privacy.selection import UnknownDomainSelection

Floats = npt.NDArray[np.float64]
AnySelector = UnknownDomainSelection | StableHistogram

# Normal quantiles in the middle of nine equal parts: votes vary about their mean.
QUADRATURE_NODES = np.array([-1.83, -1.1, -0.67, -0.32, 0.0, 0.32, 0.67, 1.1, 1.83])

# Above it a curve of votes is as long as there.
LARGEST_DELTA = 1e-3

# Of a law of mistakes: what would need more than the first is worked out at the second, so that the
# time a plan takes has a bound, whatever its parameters.
MOST_POINTS, FEW_POINTS = 1 << 16, 1 << 12

# Points that are worked out together: most laws are over long before their last.
CHUNK = 1 << 11

# Rounds per mistake, from a burst to a trickle: what a plan is judged on.
PACES = (1, 16, 256, 4096)


class VotesPerMistake(NamedTuple):
    """Describe what makes a tree vote right.

    Parameters
    ----------
    mistakes_needed : int
        The mistakes that make a tree vote right.
    share : float
        The share of such trees that vote for the leading rule.
    ways : int
        How many causes may compete.
    """

    mistakes_needed: int
    share: float
    ways: int = 1


def threshold_noise_law(epsilon: float, one_sided: bool, noise: npt.NDArray[np.int64]) -> Floats:
    """Return P(threshold noise = k) for integer noise of scale 1/epsilon.

    Parameters
    ----------
    epsilon : float
        The inverse of the scale.
    one_sided : bool
        Whether the noise is one-sided.
    noise : ndarray of int64
        The values k.
    """
    a = math.exp(-epsilon)
    if one_sided:
        return np.where(noise >= 0, (1 - a) * a ** np.maximum(noise, 0), 0.0)
    return np.asarray((1 - a) / (1 + a) * a ** np.abs(noise))


def exceeding(gap: npt.NDArray[np.float64], epsilon: float, one_sided: bool) -> Floats:
    """Return P(noise >= gap), interpolated between the integers.

    Parameters
    ----------
    gap : ndarray of float64
        What the noise has to reach.
    epsilon : float
        The inverse of the scale.
    one_sided : bool
        Whether the noise is one-sided.
    """
    a, up = math.exp(-epsilon), np.maximum(gap, 0)
    if one_sided:
        return np.asarray(a**up)
    down = np.maximum(1 - gap, 0)
    return np.where(gap > 0, a**up / (1 + a), 1 - a**down / (1 + a))


class FiringLaw(NamedTuple):
    """Hold the law of the mistakes at the firing.

    Parameters
    ----------
    mistakes : ndarray of float64
        The possible numbers of mistakes.
    chance : ndarray of float64
        The probability of each.
    """

    mistakes: Floats
    chance: Floats

    def quantile(self, level: float) -> float:
        """Return the mistakes that are not exceeded with this probability."""
        return float(self.mistakes[min(self._below(level), len(self.mistakes) - 1)])

    def _below(self, level: float) -> int:
        return int((np.cumsum(self.chance) < level).sum())


def firing_law(
    epsilon: float,
    threshold: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
    check_every: int,
    pace: int,
    one_sided: bool = True,
) -> FiringLaw:
    """Compute when a monitor fires if a mistake comes every `pace` rounds.

    Parameters
    ----------
    epsilon : float
        The monitor's epsilon.
    threshold : Callable
        Maps an array of ages to an array of thresholds.
    check_every : int
        Rounds between checks.
    pace : int
        Rounds per mistake.
    one_sided : bool
        Whether the noise is one-sided.

    Examples
    --------
    >>> law = firing_law(0.3, lambda ages: np.full(len(ages), 40), check_every=1, pace=1)
    >>> law.quantile(0.5), law.quantile(0.99)
    (37.0, 50.0)
    """
    # Step through the mistakes in sixths of the noise scale: arrays stay small at a small epsilon.
    unit = max(1, round(1 / (6 * epsilon)))
    # Between two checks nothing can fire.
    step = max(unit, check_every // pace)
    end = 4 * int(threshold(np.zeros(1, np.int64))[0]) + 40 / epsilon
    if end > MOST_POINTS * step:
        step = math.ceil(end / FEW_POINTS)
    checks = step * pace / check_every
    mistakes = np.arange(0, end, step)
    noise = unit * np.arange(0 if one_sided else -14 / (epsilon * unit), 14 / (epsilon * unit))
    limits = threshold((mistakes * pace).astype(np.int64)).astype(float)
    weights = threshold_noise_law(epsilon, one_sided, noise.astype(np.int64))
    # The noise is cut off at 14 scales; what is left is normalised.
    weights /= weights.sum()
    survival, before = np.zeros(len(mistakes)), np.zeros(len(noise))
    for start in range(0, len(mistakes), CHUNK):
        some = slice(start, start + CHUNK)
        fires = exceeding(limits[some, None] + noise - mistakes[some, None], epsilon, one_sided)
        # Logarithms, because a product of many probabilities close to one loses its digits.
        quiet = checks * np.log1p(-np.minimum(fires, 1 - 1e-16))
        quiet[0] += before
        quiet = np.cumsum(quiet, axis=0)
        survival[some] = np.exp(quiet) @ weights
        before = quiet[-1]
        # It has fired by now: the rest stays 0.
        if not np.exp(before).any():
            break
    # The law of the firing is what survival loses at each count.
    return FiringLaw(mistakes, -np.diff(survival, prepend=1.0))


def too_few_mistakes(load: Floats, mistakes_needed: int) -> list[Floats]:
    """Return P(a tree got exactly i mistakes) for each i that is too few (Poisson).

    Returns one array for each i below `mistakes_needed`.

    Parameters
    ----------
    load : ndarray of float64
        Mistakes per tree.
    mistakes_needed : int
        The mistakes that make a tree vote right.
    """
    return [np.exp(-load) * load**i / math.factorial(i) for i in range(mistakes_needed)]


def votes_law(mistakes: Floats, trees: int, model: VotesPerMistake) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the leading rule's votes (balls in bins).

    Parameters
    ----------
    mistakes : ndarray of float64
        The mistakes so far.
    trees : int
        The number of trees.
    model : VotesPerMistake
        The mistakes that make a tree vote right.

    Examples
    --------
    >>> mean, _ = votes_law(np.array([50.0]), trees=400, model=VotesPerMistake(1, 1.0))
    >>> round(float(mean[0]))
    47
    """
    load = mistakes / trees
    masses = too_few_mistakes(load, model.mistakes_needed)
    voting = 1 - np.sum(masses, axis=0)
    mean = model.share * trees * voting
    # Occupied bins vary less than independent ones would: their loads sum to the mistakes.
    bins = trees * np.maximum(voting * (1 - voting) - load * masses[-1] ** 2, 0)
    return mean, np.sqrt(model.share**2 * bins + mean * (1 - model.share))


@cache
def _release_curve(histogram: bool, epsilon: float, delta: float) -> tuple[Floats, Floats]:
    """Return votes, and the probability that a leading rule with so many, alone, is released."""
    selector: AnySelector = (StableHistogram if histogram else UnknownDomainSelection)(
        epsilon=epsilon, delta=delta
    )
    # A large delta lets few votes through often, and still needs as many to let them through
    # nearly always: a shorter curve would send the search of `tuning.best` to its limit.
    most = math.ceil(4 * (1 - math.log(min(delta, LARGEST_DELTA))) / epsilon) + 8
    votes = np.unique(np.linspace(0, most, 160).astype(int))
    if isinstance(selector, StableHistogram):
        gap = np.asarray(selector.threshold - votes, dtype=float)
        return votes.astype(float), exceeding(gap, float(1 / selector.scale), one_sided=False)
    return votes.astype(float), np.array([selector.alone(int(n)) for n in votes])


@dataclass(frozen=True)
class Selection:
    """Predict a selector's releases from the leading rule's votes.

    Parameters
    ----------
    selector : type
        The selection mechanism.
    epsilon, delta : float
        The budget of one selection.
    """

    selector: type[AnySelector]
    epsilon: float
    delta: float

    def named(self, votes: Floats) -> Floats:
        """Return the probability that a leading rule with so many votes is released."""
        return np.interp(votes, *self._curve)

    def votes_for(self, level: float) -> int:
        """Return the votes with which a leading rule is released with this probability.

        >>> Selection(UnknownDomainSelection, 0.6, 1e-6).votes_for(0.95)
        26
        """
        votes, chances = self._curve
        return math.ceil(np.interp(level, chances, votes))

    @property
    def _curve(self) -> tuple[Floats, Floats]:
        return _release_curve(self.selector is StableHistogram, self.epsilon, self.delta)

    def refusal(self, law: FiringLaw, trees: int, model: VotesPerMistake) -> float:
        """Return the probability that a firing releases nothing.

        Parameters
        ----------
        law : FiringLaw
            The law of the mistakes at the firing.
        trees : int
            The number of trees.
        model : VotesPerMistake
            The mistakes that make a tree vote right.
        """
        mean, spread = votes_law(law.mistakes, trees, model)
        released = np.mean([self.named(mean + node * spread) for node in QUADRATURE_NODES], axis=0)
        return float(1 - law.chance @ released)
