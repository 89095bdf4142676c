"""Register every learner once, choose among them, and find the smallest epsilon that is enough.

The command line, the store, the service, the adapters, `compare` and `audit` all make their
learners here, so that the learner that is audited is the learner that runs. To add one, write its
module and add an entry to `LEARNERS`.

`choose` plans for a learner by its name. "auto" is what `recommend` takes: by the class, the budget
and the unit, never by the stream, so it costs no privacy.

`smallest_epsilon` is the inverse of the plan's own forecast, and nothing else: the plan is made anew
for each epsilon that is tried, on a grid of epsilons with two significant digits, from 0.001 to 100.
What is returned was checked: its plan meets the number, and that of the next smaller epsilon does
not. For causes and finite classes it is the smallest of the grid. The forecast of DPSOA has waves of
a few percent (the constants are whole numbers), so an epsilon some percent below the answer may meet
the number too.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, NamedTuple

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._classes.causes import Causes
from littlestone._classes.rules import Rules
from littlestone._display import facts
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.causes_plan import CausesPlan, forecast
from littlestone._learners.dpsoa import DPSOA, Engine
from littlestone._learners.experts import ExpertsPlan, PrivateExperts
from littlestone._learners.plan import Plan
from littlestone._learners.plan_table import (
    CHANGE_COST,
    PlanTable,
    check_unit,
    planned_delta,
    planned_epsilon,
    planned_horizon,
)
from littlestone._learners.rate_to_beat import FOLLOW, Baseline
from littlestone._learners.scores import why_unsupported
from littlestone._learners.soa import SOA, Halving
from littlestone._privacy.accounting import Unit
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, Real

# The name that stands for the learner that the class, the budget and the unit recommend.
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Hold class, budget, horizon, unit, costs and learner. All of it is public."""

    cls: HypothesisClass
    epsilon: Real
    delta: Real
    horizon: int
    unit: Unit = "event"
    cap: int | None = None
    change_cost: Real = CHANGE_COST
    min_rate: Real | str = AUTO_RATE
    baseline: Baseline = FOLLOW
    # Whether the rows are those of a finished table, in no order.
    table: bool = False
    learner: str = AUTO


@dataclass(frozen=True, kw_only=True)
class LearnerEntry:
    """Describe a learner to everything that makes learners.

    `takes` are the terms, beside the class, that `plan.practical` takes; `options` are what the
    learner itself takes, beside class and plan, and `always` what it is given in any case.
    """

    learner: type
    what: str
    plan: type[Any] | None = None
    takes: tuple[str, ...] = ()
    options: tuple[str, ...] = ("seed", "noise", "engine")
    always: Mapping[str, Any] = field(default_factory=dict)
    unsupported: Callable[[HypothesisClass], str | None] = lambda cls: None

    @property
    def private(self) -> bool:
        """Return whether what it publishes is differentially private."""
        return self.plan is not None

    @property
    def learner_name(self) -> str:
        """Return the name of the learner's class, which a store keeps."""
        return self.learner.__name__

    def make_plan(self, terms: Terms) -> PlanTable:
        """Plan for a private learner."""
        assert self.plan is not None, "a learner without a plan is not private"
        taken = {name: getattr(terms, name) for name in self.takes}
        plan: PlanTable = self.plan.practical(terms.cls, **taken)
        return plan

    def make(self, cls: HypothesisClass, plan: PlanTable | None = None, **options: Any) -> Any:
        """Make the learner; what it has no use for is left out."""
        if not self.private:
            return self.learner(cls)
        used = {name: value for name, value in options.items() if name in self.options}
        return self.learner(cls, plan=plan, **self.always, **used)


def _not_causes(cls: HypothesisClass) -> str | None:
    return None if isinstance(cls, Causes) else f"{cls!r} is not a class of causes: use dpsoa"


LEARNERS: dict[str, LearnerEntry] = {
    "dpsoa": LearnerEntry(
        learner=DPSOA,
        what="DP-SOA, the practical plan",
        plan=Plan,
        takes=("epsilon", "delta", "horizon", "unit", "cap"),
        options=("seed", "noise", "watched", "engine"),
    ),
    "experts": LearnerEntry(
        learner=PrivateExperts,
        what="private experts, for finite classes",
        plan=ExpertsPlan,
        takes=("epsilon", "horizon", "change_cost", "min_rate"),
        # They begin with the class's own rule, as DPSOA does: where it is right, so are both.
        always={"first": "own"},
        unsupported=why_unsupported,
    ),
    "causes": LearnerEntry(
        learner=PrivateCauses,
        what="causes with their rates, for classes of causes",
        plan=CausesPlan,
        takes=tuple(term.name for term in fields(Terms) if term.name not in ("cls", "learner")),
        unsupported=_not_causes,
    ),
    # Without privacy: as a yardstick in `compare`, and as a leak that `audit` must find.
    "soa": LearnerEntry(learner=SOA, what="the optimal learner, not private"),
    "halving": LearnerEntry(learner=Halving, what="majority vote, not private"),
}


def learner_names(only: Callable[[LearnerEntry], bool] = lambda entry: True) -> list[str]:
    """Return `auto` and the names of the learners for which `only` is true."""
    return [AUTO, *(name for name, entry in LEARNERS.items() if only(entry))]


def planned_names() -> list[str]:
    """Return the names of the learners that have a plan: the private ones."""
    return learner_names(lambda entry: entry.private)


def check_name(name: str, names: Iterable[str]) -> None:
    """Raise `BadParameter` if a learner's name is not among those that are offered."""
    offered = list(names)
    if name in offered:
        return
    raise BadParameter(f"no learner is called {name!r}: there are {', '.join(offered)}")


# Terms that some learners have no use for, at their defaults.
OPTIONAL: dict[str, Any] = {
    "change_cost": CHANGE_COST, "min_rate": AUTO_RATE, "baseline": FOLLOW, "table": False
}  # fmt: skip


class LearnerChoice(NamedTuple):
    """Hold a plan, the learner that it is for, and why that one."""

    learner_name: str
    plan: PlanTable
    why: str

    @property
    def entry(self) -> LearnerEntry:
        """Return what is registered of the learner."""
        return _entry_of(self.learner_name)

    def make(
        self,
        cls: HypothesisClass,
        seed: int | None,
        *,
        watched: bool = False,
        noise: Noise | None = None,
        engine: Engine | None = None,
    ) -> PrivateLearner:
        """Return the learner, before its first round."""
        made: PrivateLearner = self.entry.make(
            cls, self.plan, seed=seed, watched=watched, noise=noise, engine=engine
        )
        return made

    def to_json(self) -> dict[str, Any]:
        """Return the choice as JSON data; `learner_choice_from_json` reads it back."""
        return {"learner": self.learner_name, "why": self.why, "plan": self.plan.to_json()}


def _entry_of(learner_name: str) -> LearnerEntry:
    """Return the first entry of a learner's class; entries of one class read the same plans."""
    entries = {entry.learner_name: entry for entry in LEARNERS.values() if entry.private}
    if learner_name not in entries:
        raise BadParameter(
            f"no private learner is called {learner_name!r}: there are {', '.join(sorted(entries))}"
        )
    return entries[learner_name]


def learner_choice_from_json(data: Mapping[str, Any]) -> LearnerChoice:
    """Read back what `LearnerChoice.to_json` wrote."""
    entry = _entry_of(data["learner"])
    assert entry.plan is not None, "it is private"
    return LearnerChoice(data["learner"], entry.plan.from_json(data["plan"]), data["why"])


def choose(terms: Terms, why: str = "It was asked for.") -> LearnerChoice:
    """Choose the learner that the terms name, and plan for it."""
    name = terms.learner
    check_name(name, planned_names())
    if name == AUTO:
        name, why = _recommended(terms)
    entry = LEARNERS[name]
    # Here and not in each entrance, so that all of them refuse the same.
    if terms.unit == "user" and "unit" not in entry.takes:
        raise BadParameter(f"{name} protects events, not users: use dpsoa, or leave out the user")
    for term, default in OPTIONAL.items():
        if getattr(terms, term) != default and term not in entry.takes:
            kinds = [kind for kind in ("causes", "experts") if term in LEARNERS[kind].takes]
            raise BadParameter(
                f"{name} has no {term}: leave it out, or use a class of {' or '.join(kinds)}"
            )
    return LearnerChoice(entry.learner_name, entry.make_plan(terms), why)


def make_learner(
    name: str, terms: Terms, *, seed: int | None = None, noise: Noise | None = None
) -> Any:
    """Make a learner by its name, private or not."""
    check_name(name, learner_names())
    entry = LEARNERS.get(name)
    if entry is not None and not entry.private:
        return entry.make(terms.cls)
    # Learners are compared on one stream, whose terms are for those that take them.
    entry = entry or LEARNERS[_recommended(terms)[0]]
    unused = {term: OPTIONAL[term] for term in OPTIONAL if term not in entry.takes}
    return choose(replace(terms, learner=name, **unused)).make(terms.cls, seed, noise=noise)


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
    change_cost: Real = CHANGE_COST,
    cap: int | None = None,
    min_rate: Real | str = AUTO_RATE,
    baseline: Baseline = FOLLOW,
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
    change_cost : Real
        The mistakes that one change of rule is worth, for a finite class.
    cap : int, optional
        How many rounds of a user count; required with `unit="user"`.
    min_rate : Real or "auto"
        The positive rate that a cause has to beat at least, for a class of causes.
    baseline : {"follow", "fixed"}
        Whether the rate to beat follows the stream, for a class of causes.

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
    >>> from littlestone._classes.sets import Points
    >>> from littlestone._classes.thresholds import Thresholds
    >>> recommend(Thresholds(1, 100), 1, 1e-6, 10**6).learner_name
    'PrivateExperts'
    >>> print(recommend(Points(), 1, 1e-6, 10**6))
    DPSOA: The class has infinitely many rules, so they cannot all be scored. DPSOA ...
    """
    terms = Terms(
        cls=cls,
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        unit=unit,
        cap=cap,
        change_cost=change_cost,
        min_rate=min_rate,
        baseline=baseline,
    )
    name, why = _recommended(terms)

    def make() -> PrivateLearner:
        return choose(replace(terms, learner=name), why).make(cls, None)

    return Recommendation(LEARNERS[name].learner_name, why, make)


def _recommended(terms: Terms) -> tuple[str, str]:
    """Return the name of the learner to use, and why."""
    cls = terms.cls
    size = checked_class(cls).size
    # A bad budget is refused before a class that may be large is looked at.
    planned_epsilon(terms.epsilon)
    planned_horizon(terms.horizon)
    # The plan of causes looks at delta and unit itself: it has more of them.
    if not isinstance(cls, Causes):
        planned_delta(terms.delta)
        check_unit(terms.unit, terms.cap)
    if isinstance(cls, Causes):
        return "causes", (
            "A cause is published if its events are positive clearly more often than all others, "
            "however rarely that is. Learners that count mistakes need a rule that is right most "
            "of the time."
        )
    votes = "DPSOA lets copies of the class's own learner vote, and spends delta to release a rule."
    if terms.cap is not None:
        most = "1 round" if terms.cap == 1 else f"{terms.cap:,} rounds"
        return "dpsoa", (
            f"At most {most} a user count, and are protected together by a forest routed by user; "
            "later ones are not learned. Experts protect events only."
        )
    if size is None:
        why = f"The class has infinitely many rules, so they cannot all be scored. {votes}"
        if isinstance(cls, Rules):
            why += (
                " If failures are not certain, or labels are noisy, use a class of causes instead: "
                "Causes(columns, width=1, limit=1) with min_rate=0.5."
            )
        return "dpsoa", why
    if LEARNERS["experts"].unsupported(cls) is not None:
        why = f"The class has {size:,} rules, too many to count the mistakes of each."
        return "dpsoa", f"{why} {votes}"
    return "experts", (
        f"The mistakes of all {size:,} rules of the class can be counted: few are needed for a "
        "release, and no delta. Copies that vote would first have to agree."
    )


# Two significant digits, from 0.001 to 100, as exact decimals.
GRID = [float(f"{digits}e{power}") for power in range(-4, 1) for digits in range(10, 100)] + [100.0]


class SmallestEpsilon(NamedTuple):
    """Hold the smallest epsilon that meets a number.

    Parameters
    ----------
    epsilon : float
        The epsilon, of two significant digits.
    forecast : float
        What the plan with this epsilon forecasts: at most what was asked for.
    below : float or None
        The next smaller epsilon, which does not meet it; None if no smaller one is tried.
    forecast_below : float or None
        What the plan with that one forecasts; infinite if nothing is expected to be published.
    choice : LearnerChoice
        The plan with the epsilon.
    """

    epsilon: float
    forecast: float
    below: float | None
    forecast_below: float | None
    choice: LearnerChoice


def smallest_epsilon(
    cls: HypothesisClass,
    delta: Real,
    horizon: int,
    *,
    mistakes: int | None = None,
    positives: int | None = None,
    rounds: int | None = None,
    rate: float | None = None,
    share: float | None = None,
    base: float = 0.0,
    width: int | None = None,
    learner: str = AUTO,
    unit: Unit = "event",
    cap: int | None = None,
    change_cost: Real = CHANGE_COST,
    min_rate: Real | str = AUTO_RATE,
    baseline: Baseline = FOLLOW,
    table: bool = False,
) -> SmallestEpsilon:
    """Return the smallest epsilon, of two digits, with which a plan's forecast meets a number.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    delta : Real
        The other half of the budget.
    horizon : int
        The number of rounds to plan for.
    mistakes : int, optional
        How many mistakes a change of rule may take; for all classes but causes.
    positives, rounds : int, optional
        For causes: how many positives of a cause, or how many rounds, may pass until the cause is
        published. Of the three numbers exactly one is given.
    rate, share, base : float, optional
        For causes: as in `littlestone plan --rate --share --base`.
    width : int, optional
        For causes: how many conditions the cause has; by default the most of the class, which takes
        longest.
    learner : str
        The learner's name in the registry.
    unit, cap, change_cost, min_rate, baseline
        As in `recommend`.
    table : bool
        As in `PrivateCauses`.

    Returns
    -------
    SmallestEpsilon
        The epsilon, and what was checked of it.

    Raises
    ------
    BadParameter
        If no epsilon up to 100 meets the number: the message has the least that is possible.

    Examples
    --------
    >>> from littlestone._classes.thresholds import Thresholds
    >>> found = smallest_epsilon(Thresholds(1, 100), delta=1e-6, horizon=10**6, mistakes=17)
    >>> found.epsilon, found.forecast, found.below, found.forecast_below
    (0.96, 17, 0.95, 18)
    """
    given = {"mistakes": mistakes, "positives": positives, "rounds": rounds}
    asked = {name: number for name, number in given.items() if number is not None}
    if len(asked) != 1:
        raise BadParameter("give one of mistakes, positives and rounds")
    ((what, number),) = asked.items()
    if number < 1:
        raise BadParameter(f"{what} must be at least 1, not {number}")

    def chosen(place: int) -> LearnerChoice:
        terms = Terms(
            learner=learner,
            cls=cls,
            epsilon=GRID[place],
            delta=delta,
            horizon=horizon,
            unit=unit,
            cap=cap,
            change_cost=change_cost,
            min_rate=min_rate,
            baseline=baseline,
            table=table,
        )
        return choose(terms)

    first = chosen(len(GRID) - 1)
    _refuse_unlike(first, what, rate=rate, share=share)

    @cache
    def forecast_at(place: int) -> float:
        plan = chosen(place).plan
        if not isinstance(plan, CausesPlan):
            return plan.expected_mistakes or 0
        assert rate is not None, "checked above"
        most = len(plan.prior) if width is None else width
        expected = forecast(plan, rate, share=share, base=base, width=most)
        # Infinite where the cause is not expected to be published; otherwise as `plan` prints it.
        count = expected.positives
        if what == "rounds" and expected.rounds is not None:
            count = expected.rounds
        return round(count) if expected.found else count

    def meets(place: int) -> bool:
        return forecast_at(place) <= number

    last, slow = len(GRID) - 1, first.learner_name == LEARNERS["dpsoa"].learner_name
    # A plan of DPSOA takes a tenth of a second or more: there a bisection finds where it crosses.
    place = (
        bisect_left(range(last), True, key=meets)
        if slow
        else next(filter(meets, range(len(GRID))), last)
    )
    if not meets(place):
        least = min(map(forecast_at, [last] if slow else range(len(GRID))))
        raise BadParameter(_impossible(what, number, least))
    below = place - 1 if place else None
    return SmallestEpsilon(
        GRID[place],
        forecast_at(place),
        None if below is None else GRID[below],
        None if below is None else forecast_at(below),
        chosen(place),
    )


def _refuse_unlike(
    choice: LearnerChoice, what: str, *, rate: float | None, share: float | None
) -> None:
    """Refuse a number that the learner's plan does not forecast."""
    if not isinstance(choice.plan, CausesPlan):
        if what != "mistakes":
            raise BadParameter(f"{what} is about a class of causes: here give mistakes")
        return
    if what == "mistakes":
        raise BadParameter("causes are not counted by mistakes: give positives, or rounds")
    if rate is None:
        raise BadParameter(f"{what} requires a rate: how often is a cause positive?")
    if what == "rounds" and share is None:
        raise BadParameter("rounds requires a share: how many of the events does it match?")


def _impossible(what: str, number: int, least: float) -> str:
    if least == float("inf"):
        return (
            "with no epsilon up to 100 the cause is expected to be published: its rate is too "
            "close to that of other events, or it is too rare among the positives"
        )
    return (
        f"no epsilon up to 100 has a forecast of {number:,} {what} or fewer: the least that is "
        f"possible with this class, delta and horizon is about {least:,.0f}"
    )
