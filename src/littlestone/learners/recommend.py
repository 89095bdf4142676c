"""Choose a learner by the class, the budget and the unit, never by the stream: it costs no privacy.

`choose` plans for a learner by its name, and "auto" is what `recommend` takes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from littlestone.classes.base import HypothesisClass, checked_class
from littlestone.display import facts
from littlestone.learners.base import PrivateLearner
from littlestone.learners.plan_table import planned_delta, planned_epsilon, planned_horizon
from littlestone.learners.registry import (
    AUTO,
    LEARNERS,
    LearnerChoice,
    LearnerTerms,
    check_name,
    learner_names,
    planned_names,
)
from littlestone.privacy.accounting import Unit
from littlestone.privacy.noise import Noise
from littlestone.privacy.parameters import BadParameter, Real


def choose(name: str, terms: LearnerTerms, why: str = "It was asked for.") -> LearnerChoice:
    """Choose a learner by its name, and plan for it.

    Parameters
    ----------
    name : str
        A name in `LEARNERS`, of a private learner; or "auto", for what `recommend` takes.
    terms : LearnerTerms
        What the plan is made from.
    why : str
        The reason to give, unless `recommend` has one.

    Returns
    -------
    LearnerChoice
        The plan, which can make the learner.

    Raises
    ------
    BadParameter
        If no private learner has the name, or it does not take these terms.
    TooLarge
        If it does not take the class.

    Examples
    --------
    >>> from littlestone.classes.thresholds import Thresholds
    >>> cuts = Thresholds(1, 100)
    >>> choose("auto", LearnerTerms(cls=cuts, epsilon=1, delta=1e-6, horizon=1000)).learner_name
    'PrivateExperts'
    """
    check_name(name, planned_names())
    if name == AUTO:
        name, why = _recommended(terms)
    entry = LEARNERS[name]
    # Here and not in each entrance, so that all of them refuse the same.
    if terms.unit not in entry.units:
        raise BadParameter(f"{name} protects events, not users: use dpsoa, or leave out the user")
    if terms.tolerance and not entry.takes_tolerance:
        raise BadParameter(f"{name} has no tolerance: use dpsoa, or leave out the tolerance")
    assert entry.make_plan is not None, "checked above"
    return LearnerChoice(entry.learner_name, entry.make_plan(terms), why)


def make_learner(
    name: str, terms: LearnerTerms, *, seed: int | None = None, noise: Noise | None = None
) -> Any:
    """Make a learner by its name, private or not.

    Parameters
    ----------
    name : str
        "auto", or a name in `LEARNERS`.
    terms : LearnerTerms
        What the plan is made from. A learner without a plan reads the class only, and one whose
        plan has no tolerance leaves that out.
    seed : int, optional
        Fixes the random bits that are not secret.
    noise : Noise, optional
        The source of secret noise; the system's if not given.

    Returns
    -------
    PrivateLearner, SOA or Halving
        The learner, before its first round.

    Raises
    ------
    BadParameter
        If no learner has the name, or it does not take these terms.

    Examples
    --------
    >>> from littlestone.classes.sets import Points
    >>> make_learner("soa", LearnerTerms(cls=Points(), epsilon=1, delta=1e-6, horizon=100))
    SOA(Points(column=None)): never (not private)
    """
    check_name(name, learner_names())
    entry = LEARNERS.get(name)
    if entry is not None and not entry.private:
        return entry.make(terms.cls)
    if entry is not None and not entry.takes_tolerance:
        # Learners are compared on one stream, whose tolerance is for those that have one.
        terms = replace(terms, tolerance=0)
    return choose(name, terms).make(terms.cls, seed, noise=noise)


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
    make: Callable[[], PrivateLearner] = field(repr=False, compare=False)

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
    """Recommend a learner by the class and the budget, never by the stream: it costs no privacy.

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
    cap : int, optional
        How many rounds of a user count, with `unit="user"`; no limit by default.

    Returns
    -------
    Recommendation
        The learner's name, why, and a function that makes one.

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
    terms = LearnerTerms(
        cls=cls,
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        unit=unit,
        cap=cap,
        tolerance=tolerance,
    )
    name, why = _recommended(terms)

    def make() -> PrivateLearner:
        return choose(name, terms, why).make(cls, None)

    return Recommendation(LEARNERS[name].learner_name, why, make)


def _recommended(terms: LearnerTerms) -> tuple[str, str]:
    """Return the name of the learner to use, and why."""
    cls = terms.cls
    size = checked_class(cls).size
    # A bad budget is refused before a class that may be large is looked at.
    planned_epsilon(terms.epsilon)
    planned_delta(terms.delta)
    planned_horizon(terms.horizon)
    votes = "DPSOA lets copies of the class's own learner vote, and spends delta to release a rule."
    if terms.unit == "user" and terms.cap is not None:
        most = "1 round" if terms.cap == 1 else f"{terms.cap:,} rounds"
        return "dpsoa", (
            f"At most {most} a user count, and are protected together by a forest routed by user; "
            "later ones are not learned. Experts protect events only."
        )
    if terms.unit == "user":
        return "dpsoa", (
            "All rounds of a user are protected together, which a forest routed by user does "
            "without a limit on them. PrivateExperts would require a cap and noise to match."
        )
    if size is None:
        return (
            "dpsoa",
            f"The class has infinitely many rules, so they cannot all be scored. {votes}",
        )
    if LEARNERS["experts"].unsupported(cls) is not None:
        why = f"The class has {size:,} rules, too many to count the mistakes of each."
        return "dpsoa", f"{why} {votes}"
    return "experts", (
        f"The mistakes of all {size:,} rules of the class can be counted: few are needed for a "
        "release, and no delta. Copies that vote would first have to agree."
    )
