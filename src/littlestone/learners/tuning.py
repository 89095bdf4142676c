"""Choose the constants of a plan that makes few mistakes: from formulas, never from the data.

For epochs (`best`): try a few splits of the budget; for each, take enough trees and the least
threshold at which a firing rarely fails to release; return the split with the fewest mistakes at
its worst pace. For a single forest (`single_forest_choice`): take a threshold that the monitor's
noise rarely exceeds.

`Schedule` is the threshold as a public function of an epoch's age. The base is raised by half after
each refusal; by the tolerance; and by the logarithm of the checks per mistake of the base, since
each check is one more chance of a false alarm:

    raised base + ceil(ln(1 + age / (check_every x base)) / rate) + floor(tolerance x age)

The logarithm grows by one at a few ages only, which are computed once; so one age and an array of
ages give the same integers.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from littlestone.classes.base import HypothesisClass
from littlestone.classes.rules import Rules
from littlestone.classes.sets import Sets
from littlestone.classes.thresholds import Cuts
from littlestone.classes.union import Complement
from littlestone.errors import TooLarge
from littlestone.hypotheses.base import Hypothesis
from littlestone.hypotheses.kinds import OneOf, negation
from littlestone.learners.vote_model import (
    PACES,
    AnySelector,
    FiringLaw,
    Selection,
    VotesPerMistake,
    firing_law,
    too_few_mistakes,
)
from littlestone.privacy.histogram import StableHistogram
from littlestone.privacy.parameters import BadParameter, Real
from littlestone.privacy.selection import UnknownDomainSelection
from littlestone.privacy.sparse_vector import sparse_vector_scales

MILLION = 10**6
LARGEST_FACTOR = 8.0
# No stream is longer.
LONGEST_AGE = 1 << 40
# Its exp exceeds LONGEST_AGE: clamping avoids an overflow at a huge epsilon.
LARGEST_EXPONENT = 40.0
# Of the logarithm, at most: where a tiny rate would need more, each climbs by more than one.
MOST_STEPS = 1 << 16


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
        self._climb = max(1, math.ceil(LARGEST_EXPONENT / rate / MOST_STEPS))
        # Ages at which the logarithm steps: computed once, so that one age and arrays agree.
        while not self._ages or self._ages[-1] < LONGEST_AGE:
            climbed = math.expm1(min(rate * self._climb * len(self._ages), LARGEST_EXPONENT))
            self._ages.append(min(LONGEST_AGE, math.floor(check_every * base * climbed)))

    def __call__(self, age: Any, refusals: int) -> Any:
        """Return the threshold at an age, or at each of an array of ages.

        Parameters
        ----------
        age : int or array of int
            The rounds since the epoch began.
        refusals : int
            The firings in a row that released nothing.
        """
        # Beyond 64 refusals the factor is at its limit, and the cache stays small.
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
        # The float 0.1 is not a tenth; thresholds must be the same integers on every machine.
        exact = Fraction(tolerance).limit_denominator(MILLION)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(-1)
    if not 0 <= exact < 1:
        raise BadParameter(f"tolerance must be at least 0 and below 1, not {tolerance}")
    return exact


SPLITS = tuple(Fraction(n, 20) for n in range(4, 11))
USUAL_SPLIT = Fraction(7, 20)
# Below it the splits differ little, and each takes seconds to evaluate: use the usual one.
SMALL_EPSILON = 0.03
# How often a firing may find too few votes for a release.
MOST_REFUSED = 0.002
SAFETY_QUANTILE = 0.99
# Trees per vote needed when one mistake makes a vote: few mistakes fall twice into a tree.
EASY_SHARE = 8
# Thresholds' worth of tolerated mistakes after which the count is reset.
CREDIT = 8


def complexity(cls: HypothesisClass) -> int:
    """Return the Littlestone dimension, or the learner's mistake bound where it is unknown."""
    try:
        return cls.dimension
    except TooLarge:
        return cls.mistake_bound


def votes_per_mistake(cls: HypothesisClass) -> VotesPerMistake:
    """Return the mistakes that make a tree of this class vote right; a guess for custom classes.

    >>> from littlestone.classes.sets import Points
    >>> votes_per_mistake(Points()), votes_per_mistake(Rules(["a", "b"]))
    (VotesPerMistake(mistakes_needed=1, share=1.0, ways=1),
     VotesPerMistake(mistakes_needed=2, share=1.0, ways=1))
    """
    match cls:
        case Complement(of):
            return votes_per_mistake(of)
        case Sets(k):
            return VotesPerMistake(1, 1 / k, ways=k)
        case Rules(columns):
            return VotesPerMistake(min(2, len(columns)), 1.0)
        case Cuts():
            return VotesPerMistake(1, 0.5)
    return VotesPerMistake(max(1, min(complexity(cls), 3)), 0.5)


def missing_from(rule: Hypothesis, cls: HypothesisClass) -> int:
    """Return how many causes the published rule may lack: votes may be split so many ways.

    At least 1. A function of public things, so thresholds may depend on it (Theorem 9).

    Parameters
    ----------
    rule : Hypothesis
        The published rule.
    cls : HypothesisClass
        Its class.

    Examples
    --------
    >>> from littlestone.hypotheses.kinds import one_of
    >>> missing_from(one_of(["a"]), Sets(3)), missing_from(one_of(["a"]), Sets(1))
    (2, 1)
    """
    match cls, rule:
        case Complement(of), _:
            return missing_from(negation(rule), of)
        case Sets(k), OneOf(values):
            return max(1, k - len(values))
        case Sets(k), _:
            return k
    return 1


def can_stall(cls: HypothesisClass) -> bool:
    """Tell whether learners without mistakes may still differ: then some trees are taller."""
    match cls:
        case Complement(of):
            return can_stall(of)
        case Sets() | Rules() | Cuts():
            return False
    return complexity(cls) > 1


@dataclass(frozen=True)
class Choice:
    """Hold one split of the budget, and the constants that follow from it.

    Parameters
    ----------
    split : Fraction
        The monitor's share of epsilon.
    selector : type
        The selection mechanism.
    check_every : int
        Rounds between checks.
    trees : int
        Trees of the forest.
    thresholds : tuple of int
        Mistakes until a firing, by how many ways votes may be split.
    typical, worst : float
        The median and the 99 % quantile of the mistakes until a firing, at the worst pace.
    refusal : float
        The probability that a firing releases nothing.
    """

    split: Fraction
    selector: type[AnySelector]
    check_every: int
    trees: int
    thresholds: tuple[int, ...]
    typical: float
    worst: float
    refusal: float


@cache
def best(epsilon: float, delta: float, model: VotesPerMistake) -> Choice:
    """Choose the split of the budget with the fewest mistakes at the pace that suits it least.

    Parameters
    ----------
    epsilon, delta : float
        The budget of monitor and selector together.
    model : VotesPerMistake
        The mistakes that make a tree vote right.
    """
    splits = SPLITS if epsilon > SMALL_EPSILON else (USUAL_SPLIT,)
    choices = [_choice(split, epsilon, delta, model) for split in splits]
    return min(choices, key=lambda choice: choice.worst)


def _choice(split: Fraction, epsilon: float, delta: float, model: VotesPerMistake) -> Choice:
    rate, rest = epsilon * float(split), epsilon * float(1 - split)
    selection = Selection(selector_for(rest, delta), rest, delta)
    # More frequent checks only add noise; rarer ones delay a firing by about its own noise.
    check_every = max(1, round(2 / rate))
    trees = _trees(selection.votes_for(SAFETY_QUANTILE), model)

    @cache
    def law(threshold: int, pace: int) -> FiringLaw:
        schedule = Schedule(threshold, rate, check_every)
        return firing_law(rate, partial(schedule, refusals=0), check_every, pace)

    def refusals(threshold: int, share: float) -> Iterator[float]:
        # The slowest pace first: it has the most checks, and so mostly the most false alarms.
        for pace in reversed(PACES):
            yield selection.refusal(law(threshold, pace), trees, model._replace(share=share))

    def refused_too_often(threshold: int, share: float) -> bool:
        return any(refusal > MOST_REFUSED for refusal in refusals(threshold, share))

    def least(share: float) -> int:
        """Search for the least threshold at which a firing rarely fails to release."""
        low, high = 1, 2
        while refused_too_often(high, share) and high < 64 * trees:
            low, high = high, 2 * high
        while high - low > max(1, low // 50):
            middle = (low + high) // 2
            low, high = (middle, high) if refused_too_often(middle, share) else (low, middle)
        return high

    # The threshold for votes split all ways, and for votes that are not split: others lie between.
    last = least(model.share)
    first = least(1.0) if model.ways > 1 else last
    return Choice(
        split,
        selection.selector,
        check_every,
        trees,
        tuple(first + (last - first) * n // max(1, model.ways - 1) for n in range(model.ways)),
        typical=max(law(last, pace).quantile(0.5) for pace in PACES),
        worst=max(law(last, pace).quantile(SAFETY_QUANTILE) for pace in PACES),
        refusal=max(refusals(last, model.share)),
    )


def selector_for(epsilon: float, delta: float) -> type[AnySelector]:
    """Return `UnknownDomainSelection`, unless its curve would be too long to build.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one selection.
    """
    try:
        UnknownDomainSelection(epsilon=epsilon, delta=delta)
    except BadParameter:
        return StableHistogram
    return UnknownDomainSelection


def _trees(votes: int, model: VotesPerMistake) -> int:
    """Return enough trees for the votes.

    Many when one mistake makes a vote; otherwise as many as minimise the mistakes per vote,
    load / P(Poisson(load) >= mistakes_needed).
    """
    if model.mistakes_needed == 1:
        return math.ceil(EASY_SHARE * votes / model.share)
    loads = np.arange(1, 80, dtype=np.float64) / 10
    voting = 1 - np.sum(too_few_mistakes(loads, model.mistakes_needed), axis=0)
    best_share = float(voting[np.argmin(loads / voting)])
    return math.ceil(1.25 * votes / (best_share * model.share))


def fresh_start(threshold: int, tolerance: Real) -> int | None:
    """Return the rounds between public restarts, which discard unused tolerance.

    None without a tolerance.

    Parameters
    ----------
    threshold : int
        Mistakes until a firing.
    tolerance : Real
        Tolerated mistakes per round.
    """
    return math.ceil(CREDIT * threshold / float(tolerance)) if tolerance else None


class SingleForestChoice(NamedTuple):
    """Hold the constants of a forest that is never restarted.

    Parameters
    ----------
    trees : int
        Trees of the forest.
    threshold : int
        Lost votes until a firing.
    check_every : int
        Rounds between checks.
    """

    trees: int
    threshold: int
    check_every: int


def single_forest_choice(
    epsilon: float, delta: float, releases: int, horizon: int, selector: type[AnySelector]
) -> SingleForestChoice:
    """Choose so many trees that half of them clearly exceed the votes of a release and the noise.

    A rule is dropped when it has lost half of the trees and a gap for the noise; the next one then
    has at least a quarter of them.

    Parameters
    ----------
    epsilon, delta : float
        The budget of all releases together.
    releases : int
        The number of releases.
    horizon : int
        The number of rounds.
    selector : type
        The selection mechanism.

    Examples
    --------
    >>> single_forest_choice(1.0, 1e-6, 2, 100_000, UnknownDomainSelection).trees
    772
    """
    # Half of epsilon for the sparse vector, half for the selections: Theorem 7, `HistSparse`.
    half = epsilon / 2
    threshold_scale, scale = map(float, sparse_vector_scales(Fraction(half), releases))
    # A union bound over the checks keeps false alarms below MOST_REFUSED.
    gap = scale * math.log1p(horizon / scale / MOST_REFUSED) + 3 * threshold_scale
    votes = Selection(selector, half / releases, delta / releases).votes_for(SAFETY_QUANTILE)
    # A quarter of the trees must exceed both the noise and the votes of a release.
    trees = 4 * math.ceil(max(gap, votes))
    return SingleForestChoice(trees, trees // 2 + math.ceil(gap), max(1, round(scale)))
