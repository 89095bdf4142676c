"""Choosing constants that make few mistakes: from formulas, never from the data.

For epochs (`best`): try a few splits of the budget; for each, enough trees, and the least threshold
at which a firing is rarely in vain; take the split whose mistakes, at the pace that suits it least,
are fewest. For a forest that lasts (`lasting`): a margin that the monitor's noise rarely crosses.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from littlestone.learning.prediction import (
    PACES,
    AnySelector,
    Firing,
    News,
    Selection,
    firing,
    untold,
)
from littlestone.learning.schedule import Schedule
from littlestone.privacy.above_threshold import kept_lift_scales
from littlestone.privacy.drawn_and_kept import DrawnAndKept
from littlestone.privacy.exact import BadParameter, Real
from littlestone.privacy.histogram import StableHistogram
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.combinations import Complement
from littlestone.theory.errors import TooLarge
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rules import Rules
from littlestone.theory.sets import Sets
from littlestone.theory.thresholds import Cuts
from littlestone.theory.vocabulary import OneOf, negation

SPLITS = tuple(Fraction(n, 20) for n in range(4, 11))
USUAL_SPLIT = Fraction(7, 20)
SMALL_EPSILON = 0.03
"""Below it the splits differ little, and each takes seconds to weigh: the usual one is taken."""
IN_VAIN = 0.002
"""How often a firing may find too few votes."""
SURE = 0.99
EASY_SHARE = 8
"""Trees for each vote needed when one surprise makes a vote: few surprises land twice in a tree."""
CREDIT = 8
"""Thresholds' worth of tolerated mistakes after which the count starts afresh."""


def complexity(cls: HypothesisClass) -> int:
    """The dimension; where that is not known, what bounds it: the mistakes of the learner."""
    try:
        return cls.dimension
    except TooLarge:
        return cls.mistake_bound


def news_of(cls: HypothesisClass) -> News:
    """What makes a tree of this class vote right; a guess for classes of your own.

    >>> from littlestone.theory.sets import Points
    >>> news_of(Points()), news_of(Rules(["a", "b"]))
    (News(surprises=1, share=1.0, ways=1), News(surprises=2, share=1.0, ways=1))
    """
    match cls:
        case Complement(of):
            return news_of(of)
        case Sets(k):
            return News(1, 1 / k, ways=k)
        case Rules(columns):
            return News(min(2, len(columns)), 1.0)
        case Cuts():
            return News(1, 0.5)
    return News(max(1, min(complexity(cls), 3)), 0.5)


def missing_from(rule: Hypothesis, cls: HypothesisClass) -> int:
    """How many causes a published rule may lack: votes may be split so many ways.

    >>> from littlestone.theory.vocabulary import one_of
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
    """Whether copies may be right on all they see and still differ: then some trees are taller."""
    match cls:
        case Complement(of):
            return can_stall(of)
        case Sets() | Rules() | Cuts():
            return False
    return complexity(cls) > 1


@dataclass(frozen=True)
class Choice:
    """One split of the budget, and what follows from it."""

    split: Fraction
    selector: type[AnySelector]
    check_every: int
    trees: int
    thresholds: tuple[int, ...]
    typical: float
    worst: float
    refusal: float


@cache
def best(epsilon: float, delta: float, news: News) -> Choice:
    """The split whose mistakes are fewest, at the pace that suits it least."""
    splits = SPLITS if epsilon > SMALL_EPSILON else (USUAL_SPLIT,)
    choices = [_choice(split, epsilon, delta, news) for split in splits]
    return min(choices, key=lambda choice: choice.worst)


def _choice(split: Fraction, epsilon: float, delta: float, news: News) -> Choice:
    rate, rest = epsilon * float(split), epsilon * float(1 - split)
    selection = Selection(selector_for(rest, delta), rest, delta)
    check_every = max(1, round(2 / rate))
    trees = _trees(selection.votes_for(SURE), news)

    @cache
    def law(threshold: int, pace: int) -> Firing:
        schedule = Schedule(threshold, rate, check_every)
        return firing(rate, partial(schedule, refusals=0), check_every, pace)

    def refusals(threshold: int, share: float) -> Iterator[float]:
        # The slowest pace first: it has the most checks, and so mostly the most false alarms.
        for pace in reversed(PACES):
            yield selection.refusal(law(threshold, pace), trees, news._replace(share=share))

    def in_vain(threshold: int, share: float) -> bool:
        return any(refusal > IN_VAIN for refusal in refusals(threshold, share))

    def least(share: float) -> int:
        """The least threshold at which a firing is rarely in vain."""
        low, high = 1, 2
        while in_vain(high, share) and high < 64 * trees:
            low, high = high, 2 * high
        while high - low > max(1, low // 50):
            middle = (low + high) // 2
            low, high = (middle, high) if in_vain(middle, share) else (low, middle)
        return high

    last = least(news.share)
    first = least(1.0) if news.ways > 1 else last
    return Choice(
        split,
        selection.selector,
        check_every,
        trees,
        tuple(first + (last - first) * n // max(1, news.ways - 1) for n in range(news.ways)),
        typical=max(law(last, pace).quantile(0.5) for pace in PACES),
        worst=max(law(last, pace).quantile(SURE) for pace in PACES),
        refusal=max(refusals(last, news.share)),
    )


def selector_for(epsilon: float, delta: float) -> type[AnySelector]:
    """Drawn and kept, unless its curve would be too long to build."""
    try:
        DrawnAndKept(epsilon=epsilon, delta=delta)
    except BadParameter:
        return StableHistogram
    return DrawnAndKept


def _trees(votes: int, news: News) -> int:
    """Enough trees for the votes: many when one surprise makes a vote; else as many as make the
    mistakes for each vote, load / P(Poisson(load) >= surprises), fewest."""
    if news.surprises == 1:
        return math.ceil(EASY_SHARE * votes / news.share)
    loads = np.arange(1, 80, dtype=np.float64) / 10
    told = 1 - np.sum(untold(loads, news.surprises), axis=0)
    best_told = float(told[np.argmin(loads / told)])
    return math.ceil(1.25 * votes / (best_told * news.share))


def fresh_start(threshold: int, tolerance: Real) -> int | None:
    """When to forget tolerated mistakes that were not made."""
    return math.ceil(CREDIT * threshold / float(tolerance)) if tolerance else None


class LastingChoice(NamedTuple):
    """Constants of a forest that is never restarted."""

    trees: int
    threshold: int
    check_every: int


def lasting(
    epsilon: float, delta: float, releases: int, horizon: int, selector: type[AnySelector]
) -> LastingChoice:
    """Trees enough that half of them are well above the votes a release needs and the noise.

    A rule is dropped when it has lost half of the trees and the margin; the next one has then at
    least a quarter of them.

    >>> lasting(1.0, 1e-6, 2, 100_000, DrawnAndKept).trees
    772
    """
    half = epsilon / 2
    lift, scale = map(float, kept_lift_scales(Fraction(half), releases))
    margin = scale * math.log1p(horizon / scale / IN_VAIN) + 3 * lift
    votes = Selection(selector, half / releases, delta / releases).votes_for(SURE)
    trees = 4 * math.ceil(max(margin, votes))
    return LastingChoice(trees, trees // 2 + math.ceil(margin), max(1, round(scale)))
