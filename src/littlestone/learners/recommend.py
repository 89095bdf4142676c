"""Recommend a learner by the class and the budget, never by the stream, so it costs no privacy."""

from collections.abc import Callable
from dataclasses import dataclass, field

from littlestone.classes.base import HypothesisClass, checked_class
from littlestone.display import facts
from littlestone.learners.dpsoa import DPSOA
from littlestone.learners.experts import FirstRule, PrivateExperts
from littlestone.learners.plan_table import planned_delta, planned_epsilon, planned_horizon
from littlestone.learners.scores import why_unsupported
from littlestone.privacy.accounting import Unit
from littlestone.privacy.parameters import Real

FIRST: FirstRule = "own"
"""Experts begin with the class's own rule, as DPSOA does: where it is right, so are both."""


@dataclass(frozen=True)
class Recommendation:
    """Recommend a learner.

    Parameters
    ----------
    learner_name : str
        The name of the learner's class.
    why : str
        The reason, in two sentences.
    make : Callable
        Makes the learner.
    """

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

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    epsilon, delta : Real
        The privacy budget.
    horizon : int
        The number of rounds.
    unit : {"event", "user"}
        What is protected: one round, or all rounds of a user.
    tolerance : Real
        Mistakes per round that cause no change of rule.

    Returns
    -------
    Recommendation

    Raises
    ------
    BadParameter
        If a parameter is out of range.

    Examples
    --------
    >>> from littlestone.classes.sets import Points
    >>> from littlestone.classes.thresholds import Thresholds
    >>> recommend(Thresholds(1, 100), 1, 1e-6, 10**6).learner_name
    'PrivateExperts'
    >>> print(recommend(Points(), 1, 1e-6, 10**6))
    DPSOA: The class has infinitely many rules, so they cannot all be scored. DPSOA ...
    """
    size = checked_class(cls).size
    planned_epsilon(epsilon)
    planned_delta(delta)
    planned_horizon(horizon)

    def forest() -> DPSOA:
        return DPSOA(cls, epsilon, delta, horizon, unit=unit, cap=cap, tolerance=tolerance)

    def experts() -> PrivateExperts:
        return PrivateExperts(cls, epsilon, horizon, tolerance=tolerance, first=FIRST)

    votes = "DPSOA lets copies of the class's own learner vote, and spends delta to release a rule."
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
            "All rounds of a user are protected together, which a forest routed by user does "
            "without a limit on them. PrivateExperts would require a cap and noise to match.",
            forest,
        )
    if size is None:
        why = "The class has infinitely many rules, so they cannot all be scored."
        return Recommendation("DPSOA", f"{why} {votes}", forest)
    if why_unsupported(cls) is not None:
        why = f"The class has {size:,} rules, too many to count the mistakes of each."
        return Recommendation("DPSOA", f"{why} {votes}", forest)
    return Recommendation(
        "PrivateExperts",
        f"The mistakes of all {size:,} rules of the class can be counted: few are needed for a "
        "release, and no delta. Copies that vote would first have to agree.",
        experts,
    )
