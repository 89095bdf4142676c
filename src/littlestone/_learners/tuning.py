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

Choose the constants of a plan that makes few mistakes: from formulas, never from the data.

For epochs (`best`): try a few splits of the budget; for each, take enough trees and the least
threshold at which a firing rarely fails to release; return the split with the fewest mistakes at
its worst pace.

`Climb` is the threshold as a public function of an epoch's age. The base is raised by half after
each refusal, and by the logarithm of the checks per mistake of the base, since
each check is one more chance of a false alarm:

    raised base + ceil(ln(1 + age / (check_every x base)) / rate)

The logarithm grows by one at a few ages only, which are computed once; so one age and an array of
ages give the same integers.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass
from littlestone._classes.conjunctions import Conjunctions
from littlestone._classes.intervals import Intervals
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Sets
from littlestone._classes.thresholds import Cuts
from littlestone._classes.union import Complement
from littlestone._hypotheses.rules import NEVER, Hypothesis, OneOf, negation, one_of
from littlestone._hypotheses.values import encode
from littlestone._privacy.parameters import LARGEST_INTEGER, BadParameter
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection
from littlestone.errors import TooLarge

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
    """Describe what makes a tree vote right."""

    mistakes_needed: int
    share: float
    ways: int = 1


def threshold_noise_law(epsilon: float, one_sided: bool, noise: npt.NDArray[np.int64]) -> Floats:
    """Return P(threshold noise = k) for integer noise of scale 1/epsilon."""
    a = math.exp(-epsilon)
    if one_sided:
        return np.where(noise >= 0, (1 - a) * a ** np.maximum(noise, 0), 0.0)
    return np.asarray((1 - a) / (1 + a) * a ** np.abs(noise))


def exceeding(gap: npt.NDArray[np.float64], epsilon: float, one_sided: bool) -> Floats:
    """Return P(noise >= gap), interpolated between the integers."""
    a, up = math.exp(-epsilon), np.maximum(gap, 0)
    if one_sided:
        return np.asarray(a**up)
    down = np.maximum(1 - gap, 0)
    return np.where(gap > 0, a**up / (1 + a), 1 - a**down / (1 + a))


class FiringLaw(NamedTuple):
    """Hold the law of the mistakes at the firing."""

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
    """Compute when a monitor fires if a mistake comes every `pace` rounds."""
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
    """Return P(a tree got exactly i mistakes) for each i that is too few (Poisson)."""
    return [np.exp(-load) * load**i / math.factorial(i) for i in range(mistakes_needed)]


def votes_law(mistakes: Floats, trees: int, model: VotesPerMistake) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the leading rule's votes (balls in bins)."""
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
    """Predict a selector's releases from the leading rule's votes."""

    selector: type[AnySelector]
    epsilon: float
    delta: float

    def named(self, votes: Floats) -> Floats:
        """Return the probability that a leading rule with so many votes is released."""
        return np.interp(votes, *self._curve)

    def votes_for(self, level: float) -> int:
        """Return the votes with which a leading rule is released with this probability."""
        votes, chances = self._curve
        return math.ceil(np.interp(level, chances, votes))

    @property
    def _curve(self) -> tuple[Floats, Floats]:
        return _release_curve(self.selector is StableHistogram, self.epsilon, self.delta)

    def refusal(self, law: FiringLaw, trees: int, model: VotesPerMistake) -> float:
        """Return the probability that a firing releases nothing."""
        mean, spread = votes_law(law.mistakes, trees, model)
        released = np.mean([self.named(mean + node * spread) for node in QUADRATURE_NODES], axis=0)
        return float(1 - law.chance @ released)


# By which refusals raise a threshold, at most.
LARGEST_FACTOR = 8.0
# No stream is longer.
LONGEST_AGE = 1 << 40
# Its exp exceeds LONGEST_AGE: clamping avoids an overflow at a huge epsilon.
LARGEST_EXPONENT = 40.0
# Of the logarithm, at most: where a tiny rate would need more, each climbs by more than one.
MOST_STEPS = 1 << 16


class Climb:
    """Compute thresholds from public values: the age of an epoch, and the refusals before it."""

    def __init__(
        self,
        base: int,
        rate: float,
        check_every: int,
        largest_factor: float = LARGEST_FACTOR,
    ) -> None:
        self.base = base = min(base, LARGEST_INTEGER)
        self.rate, self.check_every = rate, check_every
        self._largest_factor = largest_factor
        self._raised = cache(self._base_after)
        self._climb = max(1, math.ceil(LARGEST_EXPONENT / rate / MOST_STEPS))
        # Ages at which the logarithm steps, computed once.
        steps: list[int] = []
        while not steps or steps[-1] < LONGEST_AGE:
            climbed = math.expm1(min(rate * self._climb * len(steps), LARGEST_EXPONENT))
            steps.append(min(LONGEST_AGE, math.floor(check_every * base * climbed)))
        self._ages = np.array(steps)

    def __call__(self, age: Any, refusals: int) -> Any:
        """Return the threshold at an age, or at each of an array of ages."""
        # Beyond 64 refusals the factor is at its limit, and the cache stays small.
        base = self._raised(min(refusals, 64))
        steps = self._ages.searchsorted(age)
        # Clipped, since a monitor refuses larger thresholds.
        if isinstance(age, int):  # rounds that come one by one
            return min(base + self._climb * int(steps), LARGEST_INTEGER)
        return np.minimum(base + self._climb * steps, LARGEST_INTEGER)

    def _base_after(self, refusals: int) -> int:
        """Return the base, raised by half for each refusal."""
        return math.ceil(self.base * min(1.5**refusals, self._largest_factor))


SPLITS = tuple(Fraction(n, 20) for n in range(4, 11))
USUAL_SPLIT = Fraction(7, 20)
# Below it the splits differ little, and each takes seconds to evaluate: use the usual one.
SMALL_EPSILON = 0.03
# How often a firing may find too few votes for a release.
MOST_REFUSED = 0.005
SAFETY_QUANTILE = 0.99
# Trees per vote needed when one mistake makes a vote: few mistakes fall twice into a tree.
EASY_SHARE = 32


def complexity(cls: HypothesisClass) -> int:
    """Return the Littlestone dimension, or the learner's mistake bound where it is unknown."""
    try:
        return cls.dimension
    except TooLarge:
        return cls.mistake_bound


def votes_per_mistake(cls: HypothesisClass) -> VotesPerMistake:
    """Return the mistakes that make a tree of this class vote right; a guess for custom classes."""
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
    """Return how many causes the published rule may lack: votes may be split so many ways."""
    match cls, rule:
        case Complement(of), _:
            return missing_from(negation(rule), of)
        case Sets(k), OneOf(values):
            return max(1, k - len(values))
        case Sets(k), _:
            return k
    return 1


def fallbacks_of(rule: Hypothesis, cls: HypothesisClass) -> list[Hypothesis]:
    """Return the rules that call less positive than the published rule: each leaves out one value."""
    match cls, rule:
        case Complement(of), _:
            return [negation(some) for some in fallbacks_of(negation(rule), of)]
        case Sets(), OneOf(values, column):
            return [one_of(values[:n] + values[n + 1 :], column) for n in range(len(values))]
        case Rules(), _ if rule != NEVER:
            return [NEVER]
    return []


def is_narrower(rule: Hypothesis, published: Hypothesis, cls: HypothesisClass) -> bool:
    """Tell whether a rule is the published one without some of its values."""
    # First what most votes are for, because the cases below take longer.
    if isinstance(rule, OneOf) and (
        not isinstance(published, OneOf) or len(rule.values) >= len(published.values)
    ):
        return False
    match cls, rule:
        case Complement(of), _:
            return is_narrower(negation(rule), negation(published), of)
        case Sets() | Rules(), _ if rule == NEVER:
            return True
        case Sets(), OneOf(values) if isinstance(published, OneOf):
            return set(map(encode, values)) < set(map(encode, published.values))
    return False


def can_stall(cls: HypothesisClass) -> bool:
    """Tell whether learners without mistakes may still differ: then some trees are taller."""
    match cls:
        case Complement(of):
            return can_stall(of)
        # Right on the same examples, two learners hold the same rule: an end that is the shallowest
        # of a range is that of every part that holds it, and a conjunction is what all positive
        # rows have in common.
        case Sets() | Rules() | Cuts() | Intervals() | Conjunctions():
            return False
    return complexity(cls) > 1


@dataclass(frozen=True)
class Choice:
    """Hold one split of the budget, and the constants that follow from it."""

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
    """Choose the split of the budget with the fewest mistakes at the pace that suits it least."""
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
        schedule = Climb(threshold, rate, check_every)
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
    """Return `UnknownDomainSelection`, unless its curve would be too long to build."""
    try:
        UnknownDomainSelection(epsilon=epsilon, delta=delta)
    except BadParameter:
        return StableHistogram
    return UnknownDomainSelection


def _trees(votes: int, model: VotesPerMistake) -> int:
    """Return enough trees for the votes."""
    if model.mistakes_needed == 1:
        return math.ceil(EASY_SHARE * votes / model.share)
    loads = np.arange(1, 80, dtype=np.float64) / 10
    voting = 1 - np.sum(too_few_mistakes(loads, model.mistakes_needed), axis=0)
    best_share = float(voting[np.argmin(loads / voting)])
    return math.ceil(1.25 * votes / (best_share * model.share))
