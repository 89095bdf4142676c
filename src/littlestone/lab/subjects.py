"""Subjects: the learners that can be audited, by name, each with its plan.

A subject makes learners with fresh secret noise and the coins of `seed`. The coins are not secret:
the guarantee holds for each value of them, so both worlds and all runs have the same ones.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from littlestone.lab.runs import Audited
from littlestone.learning.adaptive import AdaptiveDPSOA, EveryRound, EveryRoundPlan
from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.experts import PrivateExperts
from littlestone.learning.plain import SOA
from littlestone.learning.plan import SELECTORS, Plan
from littlestone.learning.prediction import Selection
from littlestone.learning.weighing import ExpertsPlan
from littlestone.privacy.accounting import Cost
from littlestone.theory.classes import HypothesisClass

AnyPlan: TypeAlias = Plan | ExpertsPlan | EveryRoundPlan
ROUNDS_A_VOTE = 2
"""Rounds, and trees, for each vote in a small plan: coins then reach enough different trees."""


@dataclass(frozen=True)
class Subject:
    """Makes a learner that promises what its plan says; or `soa`, which promises nothing."""

    name: str
    cls: HypothesisClass
    plan: AnyPlan
    seed: int

    @property
    def claim(self) -> Cost:
        """What is promised."""
        return Cost(self.plan.epsilon, getattr(self.plan, "delta", Fraction(0)))

    def __call__(self) -> Audited:
        cls, plan, seed = self.cls, self.plan, self.seed
        if self.name == "soa":
            return SOA(cls)
        if isinstance(plan, ExpertsPlan):
            return PrivateExperts(cls, plan=plan, seed=seed)
        if isinstance(plan, Plan):
            return DPSOA(cls, plan=plan, seed=seed)
        kind = EveryRound if self.name == "every-round" else AdaptiveDPSOA
        return kind(cls, plan.epsilon, plan.delta, plan.horizon, trees=plan.trees, seed=seed)

    @property
    def control(self) -> "Subject | None":
        """The same learner with twice the epsilon; none of one that promises nothing."""
        return None if self.name == "soa" else replace(self, plan=twice(self.plan))


def twice(plan: AnyPlan) -> AnyPlan:
    """The plan with twice the epsilon, and every count as it was."""
    if isinstance(plan, EveryRoundPlan):
        return replace(plan, epsilon=2 * plan.epsilon)
    return replace(plan, epsilon=2 * plan.epsilon, epsilon_monitor=2 * plan.epsilon_monitor)


def votes_at_the_rim(plan: Plan) -> int:
    """The most votes with which a leader is named at most half of the time: there one vote more or
    less tells most."""
    epsilon, delta = float(plan.epsilon_selector), float(plan.delta_selector)
    return max(1, Selection(SELECTORS[plan.selector], epsilon, delta).votes_for(0.5) - 1)


def small(plan: AnyPlan) -> AnyPlan:
    """The same mechanisms and budget, with counts so small that a leak shows in a few runs: trees
    for the votes at the rim and no more, one release, and a threshold that is reached at the first
    check. Privacy holds for any counts, so this is the promise where it can be seen.

    >>> from littlestone.theory.sets import Points
    >>> plan = small(Plan.practical(Points(), epsilon=2, delta=1e-3, horizon=1000))
    >>> plan.trees, plan.thresholds, plan.check_every
    (14, (13,), 14)
    """
    if isinstance(plan, ExpertsPlan):
        return replace(plan, threshold=1, check_every=2, restart_every=None, tolerance=Fraction(0))
    if isinstance(plan, EveryRoundPlan):
        return plan
    if plan.monitor == "votes":
        return _small_for_votes(replace(plan, releases=1))
    trees = ROUNDS_A_VOTE * votes_at_the_rim(plan)
    return replace(
        plan,
        leaves={1: trees},
        thresholds=(trees - 1,),
        check_every=trees,
        restart_every=None,
        tolerance=Fraction(0),
    )


def _small_for_votes(plan: Plan) -> Plan:
    """Here the first rule stands for election too, so it has to lose every tree: rounds enough to
    reach them all."""
    trees = votes_at_the_rim(plan)
    return replace(
        plan,
        leaves={1: trees},
        root="learns",
        thresholds=(trees,),
        check_every=math.ceil(trees * (math.log(trees) + 3)),
    )
