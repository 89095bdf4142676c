"""Share what plans have in common: ranges of parameters, tables for people, JSON."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self, SupportsIndex, TypeVar, get_args

from littlestone._display import facts_table
from littlestone._privacy.accounting import Cost, Unit
from littlestone._privacy.parameters import (
    LARGEST_INTEGER,
    BadParameter,
    Real,
    positive,
    probability,
    whole,
)

# What a plan is made for. Below, noise is wider than any count; above, there is no privacy.
SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**9), 10**6
# What a plan is made for: floats hold it, divided by any horizon.
SMALLEST_DELTA = Fraction(1, 10**100)
# No stream is longer, and counts of its mistakes stay within `LARGEST_INTEGER`.
LONGEST_HORIZON = LARGEST_INTEGER


def planned_epsilon(value: Real, shares: int = 1, of: str = "") -> Fraction:
    """Return the epsilon of a plan as an exact rational."""
    exact = positive(value, "epsilon")
    if exact > LARGEST_EPSILON:
        raise BadParameter(
            f"epsilon must be at most {LARGEST_EPSILON:,}, not {value}: above 10 it hardly "
            "protects anyone, and up there nobody at all; a usual choice is 1"
        )
    # Each share has to be large enough, not only the whole.
    if exact < shares * SMALLEST_EPSILON:
        shared = f" shared by {of}" if of else ""
        raise BadParameter(
            f"epsilon {value}{shared} is too small: below {float(SMALLEST_EPSILON):g} the noise is "
            "wider than any stream is long, and no rule would ever change; a usual choice is 1"
        )
    return exact


def planned_delta(value: Real) -> Fraction:
    """Return the delta of a plan as an exact rational; refuse one that plans do not support."""
    exact = probability(value, "delta")
    if exact < SMALLEST_DELTA:
        raise BadParameter(
            f"delta must be at least {float(SMALLEST_DELTA):g}, not {value}: each tenth of it "
            f"costs votes, and protects nobody any better; {USUAL_DELTA:g} is a usual choice"
        )
    return exact


def planned_horizon(value: SupportsIndex) -> int:
    """Return the horizon of a plan; refuse one that no stream reaches."""
    exact = whole(value, "horizon", least=1)
    if exact > LONGEST_HORIZON:
        raise BadParameter(
            f"horizon must be at most 2^40 rounds (about 10^12), not {exact}: no stream is longer"
        )
    return exact


def check_unit(unit: str, cap: int | None) -> None:
    """Raise `BadParameter` unless users have a cap, and events have none."""
    if unit not in get_args(Unit):
        raise BadParameter(f"unit must be one of {get_args(Unit)}, not {unit!r}")
    # Epochs compose in parallel per event, and per user only up to a cap (Theorem 7).
    if unit == "user" and cap is None:
        raise BadParameter(
            "protecting users requires a cap (--cap, cap=): how many epochs of causes read a user, or "
            "how many rounds of a user count for other classes. 1 is a usual choice"
        )
    if unit == "event" and cap is not None:
        raise BadParameter("a cap is for users: give --user (unit='user'), or leave it out")


HEURISTIC = "utility: heuristic"


class PlanLine(NamedTuple):
    """Hold one row of a plan table."""

    what: str
    value: str
    why: str


class PlanTable(ABC):
    """Present a plan, a frozen dataclass, as a table, as text and as JSON data."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    epsilon: Fraction
    delta: Fraction
    horizon: int
    # The mistakes that a change of rule is expected to take; None without a forecast.
    expected_mistakes: int | None
    # What is protected, and how many rounds of a user count.
    unit: Unit
    cap: int | None

    def _check_fields(self, positives: Iterable[str], counts: Iterable[str]) -> None:
        """Make positive numbers exact, and refuse counts below 1."""
        for name in positives:
            object.__setattr__(self, name, positive(getattr(self, name), name))
        for name in counts:
            object.__setattr__(self, name, whole(getattr(self, name), name, least=1))

    @property
    def cost(self) -> Cost:
        """Return what a learner with this plan spends in all."""
        return Cost(self.epsilon, self.delta)

    @property
    def vacuous(self) -> bool:
        """Tell whether a change of rule would take more mistakes than there are rounds."""
        return self.expected_mistakes is not None and self.expected_mistakes > self.horizon

    def lines(self) -> Iterator[PlanLine]:
        """Yield the plan as a table: what is proved, where the budget goes, what is expected."""
        pair = f"epsilon {float(self.epsilon):g}, delta {float(self.delta):g}"
        yield PlanLine("privacy: proved", pair, f"replace-one, per {self.unit}; any stream")
        yield from (PlanLine(*line) for line in self._own_lines())
        yield PlanLine(*self._length())
        yield from (PlanLine(HEURISTIC, *line) for line in self._forecast())
        if self.vacuous:
            yield PlanLine(
                "vacuous",
                "a change requires more mistakes than there are rounds",
                "the first rule will stand: plan for more rounds, or a larger epsilon",
            )

    def _length(self) -> tuple[str, str, str]:
        """Return how much is learned: what, value and why."""
        return "horizon", f"{self.horizon:,} rounds", "then the last rule stands"

    @abstractmethod
    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        """Yield where the budget goes, and the constants: what, value and why."""

    def _forecast(self) -> Iterator[tuple[str, str]]:
        """Yield what is expected, and under which condition."""
        if self.expected_mistakes is None:
            yield "no prediction", "measure it on synthetic streams"
        else:
            yield (
                f"about {self.expected_mistakes:,} mistakes a change of rule",
                "when some rule of the class fits the stream",
            )

    def __str__(self) -> str:
        return "\n".join(f"{what:<24}{value:<48}{why}" for what, value, why in self.lines())

    def _repr_html_(self) -> str:
        return facts_table(
            type(self).__name__, list(self.lines()), note="public: chosen before any data"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data; fractions are exact, as text."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return {n: str(v) if isinstance(v, Fraction) else v for n, v in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a plan from the JSON data of `to_json`.

        Parameters
        ----------
        data : mapping
            The data.

        Raises
        ------
        BadParameter
            If fields are missing, or unknown.
        """
        # Fractions are written as text, exactly; floats would change the plan.
        exact = {field.name: field.type is Fraction for field in fields(cls)}
        if set(data) != set(exact):
            odd = ", ".join(sorted(set(data) ^ set(exact)))
            raise BadParameter(f"not the JSON of a plan: missing or unknown fields {odd}")
        return cls(**{n: Fraction(data[n]) if exact[n] else data[n] for n in exact})


def delta_warning(delta: Fraction, horizon: int) -> str | None:
    """Say that a delta is so large that some record might be published as it is; None if not."""
    # Publishing each record with probability delta would be (0, delta)-private: with so many
    # records, delta must be far below one in their number.
    if delta * 10 * horizon <= 1:
        return None
    return (
        f"delta = {float(delta):g} is above 1 / (10 x horizon) = {1 / (10 * horizon):g}: that "
        f"allows some record of the stream to be published. Take {usual_delta(horizon):g}, say"
    )


# What the command line takes unless it is told; enough for up to a million rounds.
USUAL_DELTA = 1e-7


def usual_delta(horizon: int) -> float:
    """Return a power of ten for delta that is at most 1 / (10 x horizon)."""
    return min(USUAL_DELTA, 10.0 ** -(len(str(horizon)) + 1))


# The mistakes that one published change of rule is worth, unless given; and the range, so that
# scores stay far from the limits of 64 bits and floats can divide by it.
CHANGE_COST, SMALLEST_CHANGE_COST, LARGEST_CHANGE_COST = 50, Fraction(1, 10**6), 1 << 40


def checked_change_cost(change_cost: Real) -> Fraction:
    """Return a change cost as an exact number of mistakes."""
    try:
        exact = Fraction(change_cost)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(-1)
    if exact != 0 and not SMALLEST_CHANGE_COST <= exact <= LARGEST_CHANGE_COST:
        raise BadParameter(
            f"change_cost must be 0, or between 1e-6 and 2^40, not {change_cost}: it is how many "
            "mistakes one change of rule is worth"
        )
    return exact


# A `min_rate` that the learner finds itself; one that is given is rounded to thousandths.
AUTO_RATE = "auto"
THOUSANDTHS = 1000


def checked_min_rate(min_rate: Real | str) -> str:
    """Return a `min_rate` as text: "auto", or an exact fraction above 0 and below 1."""
    if min_rate == AUTO_RATE:
        return AUTO_RATE
    try:
        rate = Fraction(str(min_rate)).limit_denominator(THOUSANDTHS)
    except (ValueError, OverflowError, ZeroDivisionError):
        rate = Fraction(0)
    if not 0 < rate < 1:
        raise BadParameter(
            f"min_rate must be above 0 and below 1, or 'auto', not {min_rate}: it is the positive "
            "rate above which a cause is worth publishing, or a rule worth predicting"
        )
    return str(rate)


# Options of learners at these values do not contradict a plan: nobody asked for them.
DEFAULTS = {"unit": "event", "cap": None, "change_cost": CHANGE_COST, "min_rate": AUTO_RATE,
            "baseline": "follow", "table": False}  # fmt: skip
AnyPlan = TypeVar("AnyPlan", bound=PlanTable)


def given_plan(
    kind: type[AnyPlan],
    cls: object,
    plan: AnyPlan | None,
    needed: Mapping[str, Any],
    **options: Any,
) -> AnyPlan:
    """Return the plan that is given, unless what else is asked for contradicts it; or make one."""
    asked = {n: v for n, v in options.items() if v is not None and v != DEFAULTS[n]}
    if plan is None:
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise BadParameter(f"give {' and '.join(missing)}, or a plan")
        practical: Any = kind
        made: AnyPlan = practical.practical(cls, **needed, **asked)
        return made
    for name, value in {**needed, **asked}.items():
        planned = getattr(plan, name)
        # Rates are compared as they are written: one of them may be "auto".
        rates = name == "min_rate" and (checked_min_rate(value), str(planned))
        if value is not None and (rates[0] != rates[1] if rates else value != planned):
            raise BadParameter(f"{name}={value} conflicts with the plan's {name}={planned}")
    return plan
