"""A learner that leaks, for the audit to find: the real one with one thing spoilt."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import littlestone as ls
from littlestone._audit.audit import small
from littlestone._privacy.selection import StableHistogram

SMALL = replace(
    ls.Plan.practical(ls.Points(), 2, 0.001, 10),
    thresholds=(1,),
    check_every=1,
    epsilon_monitor=Fraction(9, 5),
    selector=StableHistogram.name,
    leaves={1: 4},
)
"""A few checks, few trees, a large epsilon: small enough for an audit to have power."""

_, FEW_TREES = cast(
    list[ls.Plan],
    small(replace(ls.Plan.practical(ls.Points(), 1, 0.001, 100), selector=StableHistogram.name)),
)
"""What `littlestone audit --small` makes of a plan with a histogram, for single votes."""


@dataclass(frozen=True)
class KeepingSingleVotes:
    """Makes a learner whose histogram keeps single votes."""

    def __call__(self) -> ls.DPSOA:
        learner = ls.DPSOA(ls.Points(), plan=FEW_TREES, seed=0)
        histogram = cast(Any, learner.loop.gate).draw.search
        assert isinstance(histogram, StableHistogram)
        histogram.threshold = 1
        return learner
