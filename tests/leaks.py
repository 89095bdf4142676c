"""Learners that leak, for the audit to find: the real one with one thing spoilt."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import littlestone as ls
from littlestone._audit.runs import AnyPlan, small
from littlestone._privacy import StableHistogram, SystemNoise
from littlestone._privacy.noise import Address, Gaps

SMALL = replace(
    ls.Plan.practical(ls.Points(), 2, 0.001, 10),
    thresholds=(1,),
    check_every=1,
    epsilon_monitor=Fraction(9, 5),
    selector=StableHistogram.name,
    leaves={1: 4},
)
"""A few checks, few trees, a large epsilon: small enough for an audit to have power."""

_, FEW_TREES = small(
    replace(ls.Plan.practical(ls.Points(), 1, 0.001, 100), selector=StableHistogram.name)
)
"""What `littlestone audit --small` makes of a plan with a histogram, for single votes."""

SMALLER = replace(SMALL, epsilon=Fraction(1), epsilon_monitor=Fraction(9, 10))


class HalvedNoise(SystemNoise):
    """Half of all the noise."""

    def laplace(self, scale: Fraction, at: Address) -> int:
        return super().laplace(scale / 2, at)

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        return super().exceeds(gap, scale / 2, at, one_sided)

    def first_exceeding(
        self, gaps: Gaps, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        return super().first_exceeding(gaps, scale / 2, check, one_sided)


@dataclass(frozen=True)
class WithHalvedNoise:
    """Makes a learner whose noise is halved."""

    plan: ls.Plan = SMALL

    def __call__(self) -> ls.DPSOA:
        return ls.DPSOA(ls.Points(), plan=self.plan, seed=0, noise=HalvedNoise())


@dataclass(frozen=True)
class KeepingSingleVotes:
    """Makes a learner whose histogram keeps single votes."""

    plan: AnyPlan = SMALLER

    def __call__(self) -> ls.DPSOA:
        assert isinstance(self.plan, ls.Plan)
        learner = ls.DPSOA(ls.Points(), plan=self.plan, seed=0)
        histogram = cast(Any, learner._runner.gate).draw.search
        assert isinstance(histogram, StableHistogram)
        histogram.threshold = 1
        return learner
