"""Which learner: decided by the class and the budget, never by the stream, so it costs nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field

from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.evidence import why_not
from littlestone.learning.experts import FirstRule, PrivateExperts
from littlestone.privacy.accounting import Unit
from littlestone.privacy.exact import Real, planned_delta, planned_epsilon, planned_horizon
from littlestone.theory.classes import HypothesisClass, checked_class
from littlestone.theory.notebook import facts

FIRST: FirstRule = "own"
"""Experts begin with the class's own rule, as votes do: where that is right they err as little."""


@dataclass(frozen=True)
class Recommendation:
    """A learner by name, why in two sentences, and `make`, which makes one."""

    learner_name: str
    why: str
    make: Callable[[], DPSOA | PrivateExperts] = field(repr=False, compare=False)

    def _repr_html_(self) -> str:
        return facts("Recommendation", {"learner": self.learner_name, "why": self.why})

    def __str__(self) -> str:
        return f"{self.learner_name}: {self.why}"


def recommend(
    cls: HypothesisClass,
    epsilon: Real,
    delta: Real,
    horizon: int,
    unit: Unit = "event",
    tolerance: Real = 0,
    cap: int | None = None,
) -> Recommendation:
    """Return the learner to use for a class and a budget.

    Parameters
    ----------
    cls
        The class of rules.
    epsilon, delta
        The privacy budget.
    horizon
        Rounds to plan for.
    unit
        What is protected whole: an event, or a user with all rounds of theirs.
    tolerance
        The share of mistakes that should not cause a change of rule.
    cap
        How many rounds of a user count, with `unit="user"`; no limit by default.

    Returns
    -------
    Recommendation
        The learner's name, why, and a function that makes one.

    >>> from littlestone.theory.sets import Points
    >>> from littlestone.theory.thresholds import Thresholds
    >>> recommend(Thresholds(1, 100), 1, 1e-6, 10**6).learner_name
    'PrivateExperts'
    >>> print(recommend(Points(), 1, 1e-6, 10**6))
    DPSOA: The class has no end of rules, so they cannot all be weighed. DPSOA lets copies ...
    """
    size = checked_class(cls).size
    planned_epsilon(epsilon)
    planned_delta(delta)
    planned_horizon(horizon)

    def forest() -> DPSOA:
        return DPSOA(cls, epsilon, delta, horizon, unit=unit, cap=cap, tolerance=tolerance)

    def experts() -> PrivateExperts:
        return PrivateExperts(cls, epsilon, horizon, tolerance=tolerance, first=FIRST)

    votes = "DPSOA lets copies of the class's own learner vote, and spends delta to name a rule."
    if unit == "user" and cap is not None:
        most = "1 round" if cap == 1 else f"{cap:,} rounds"
        return Recommendation(
            "DPSOA",
            f"At most {most} a user count, and are protected together by a forest routed by user; "
            "later ones are not learned. Experts protect events only.",
            forest,
        )
    if unit == "user":
        return Recommendation(
            "DPSOA",
            "All the rounds of a user are protected together, which a forest routed by user does "
            "without a limit on them. Experts would need a cap and noise to match.",
            forest,
        )
    if size is None:
        why = "The class has no end of rules, so they cannot all be weighed."
        return Recommendation("DPSOA", f"{why} {votes}", forest)
    if why_not(cls) is not None:
        why = f"The class has {size:,} rules, too many to weigh one by one."
        return Recommendation("DPSOA", f"{why} {votes}", forest)
    return Recommendation(
        "PrivateExperts",
        f"All {size:,} rules of the class can be weighed by their mistakes, which needs few of "
        "them and no delta. Copies that vote would first have to agree.",
        experts,
    )
