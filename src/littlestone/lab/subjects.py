"""Register the learners that can be audited, by name, each with its plan.

A subject makes learners with fresh secret noise and the random bits of `seed`. These are not
secret: the guarantee holds for each value of them, so both worlds and all runs have the same ones.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from littlestone.lab.bounds import separation
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
TREES_A_VOTE = 2
"""Trees, and rounds, for each vote in a small plan: coins then reach enough different trees."""


@dataclass(frozen=True)
class Subject:
    """Make a learner that claims what its plan says; or `soa`, which claims nothing.

    Parameters
    ----------
    name
        The learner's name.
    cls
        The class.
    plan
        The plan.
    seed
        The seed of the random bits.
    """

    name: str
    cls: HypothesisClass
    plan: AnyPlan
    seed: int

    @property
    def claim(self) -> Cost:
        """Return what is claimed."""
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
    def every(self) -> int:
        """Return the rounds from one check to the next; without a plan, 1."""
        return 1 if self.name == "soa" else getattr(self.plan, "check_every", 1)

    @property
    def control(self) -> "Subject | None":
        """Return the same learner with twice the epsilon; None if nothing is claimed."""
        return None if self.name == "soa" else replace(self, plan=twice(self.plan))


def twice(plan: AnyPlan) -> AnyPlan:
    """Return the plan with twice the epsilon, and every count as it was."""
    if isinstance(plan, EveryRoundPlan):
        return replace(plan, epsilon=2 * plan.epsilon)
    return replace(plan, epsilon=2 * plan.epsilon, epsilon_monitor=2 * plan.epsilon_monitor)


def votes_at_the_rim(plan: Plan, times: int = 1) -> int:
    """Return the votes at which one more or less is seen best.

    Parameters
    ----------
    plan
        The plan.
    times
        The selector spends so many times its epsilon, and half of that is claimed.

    Returns
    -------
    int
        The votes: a leader is then named about as often as not.
    """
    epsilon, delta = times * float(plan.epsilon_selector), float(plan.delta_selector)
    selection = Selection(SELECTORS[plan.selector], epsilon, delta)
    votes = range(1, selection.votes_for(0.95) + 1)
    named = selection.named(np.arange(0.0, len(votes) + 1)).tolist()
    return max(votes, key=lambda n: separation(named[n], named[n - 1], epsilon / 2))


def small(plan: AnyPlan) -> list[AnyPlan]:
    """Return the plan with counts so small that a leak shows in a few runs.

    The mechanisms and the budget are the same. Privacy holds for any counts, so these make the same
    claim where it can be tested.

    The first plan has trees for the votes at the threshold (where the first rule can be voted for,
    at that of twice the epsilon), the second has two, for votes that stand alone. Either has a
    threshold that can be reached at the first check, and one release where releases are counted.

    >>> from littlestone.theory.sets import Points
    >>> for plan in small(Plan.practical(Points(), epsilon=2, delta=1e-3, horizon=1000)):
    ...     print(plan.trees, plan.thresholds, plan.check_every)
    12 (11,) 12
    2 (1,) 2
    """
    if isinstance(plan, ExpertsPlan):
        few = replace(plan, threshold=1, check_every=2, restart_every=None, tolerance=Fraction(0))
        return [few]
    if isinstance(plan, EveryRoundPlan):
        return [plan]
    if plan.monitor == "votes":
        plan = replace(plan, releases=1)
        return [_for_votes(plan, trees) for trees in (votes_at_the_rim(plan, times=2), 2)]
    return [_for_mistakes(plan, trees) for trees in (TREES_A_VOTE * votes_at_the_rim(plan), 2)]


def _for_mistakes(plan: Plan, trees: int) -> Plan:
    """Give each tree a round, all mistakes; the first check just reaches the threshold.

    The schedule has raised it by one by then.
    """
    return replace(
        plan,
        leaves={1: trees},
        thresholds=(trees - 1,),
        check_every=trees,
        restart_every=None,
        tolerance=Fraction(0),
    )


def _for_votes(plan: Plan, trees: int) -> Plan:
    """Give rounds enough to reach all trees.

    The first rule is a candidate too, so it has to lose every tree.
    """
    return replace(
        plan,
        leaves={1: trees},
        root="learns",
        thresholds=(trees,),
        check_every=math.ceil(trees * (math.log(trees) + 3)),
    )
