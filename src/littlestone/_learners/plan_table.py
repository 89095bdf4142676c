"""Share what plans have in common: ranges of parameters, tables for people, JSON."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, SupportsIndex, get_args

from littlestone._display import facts_table
from littlestone._privacy.accounting import Unit
from littlestone._privacy.parameters import (
    LARGEST_INTEGER,
    BadParameter,
    Real,
    positive,
    probability,
    whole,
)

if TYPE_CHECKING:
    from littlestone._learners.plan import Plan

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
            "costs votes, and so unlikely a failure needs no protection; 1e-9 is a usual choice"
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
            "protecting users requires a cap (--cap, cap=), the rounds of a user that count: with "
            "many users 1 is a usual choice"
        )
    if unit == "event" and cap is not None:
        raise BadParameter("a cap is for users: give --user (unit='user'), or leave it out")


class PlanLine(NamedTuple):
    """Hold one row of a plan table."""

    what: str
    value: str
    why: str


VACUOUS = PlanLine(
    "vacuous",
    "a change requires more mistakes than there are rounds",
    "the first rule will stand: plan for more rounds, or a larger epsilon",
)


class PlanTable(ABC):
    """Present a plan, a frozen dataclass, as a table, as text and as JSON data."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @abstractmethod
    def lines(self) -> Iterator[PlanLine]:
        """Yield the rows of the plan table."""

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


def plan_lines(plan: "Plan") -> Iterator[PlanLine]:
    """Yield the rows of a plan table: what is proved, where the budget goes, what is expected."""
    yield from _proved(plan)
    yield from _machinery(plan)
    yield from _expected(plan)


def _proved(plan: "Plan") -> Iterator[PlanLine]:
    pair = f"epsilon {float(plan.epsilon):g}, delta {float(plan.delta):g}"
    yield PlanLine("privacy: proved", pair, f"replace-one, per {plan.unit}; any stream")
    yield PlanLine(
        "monitor's budget", f"epsilon {float(plan.epsilon_monitor):.4g}", "once, for all rounds"
    )
    each = f"epsilon {float(plan.epsilon_selector):.4g}, delta {float(plan.delta_selector):.3g}"
    if plan.cap is not None:
        why = f"each; a user's rounds are read by at most {plan.cap}"
    else:
        why = "each epoch reads its own rounds: releases are unlimited"
    yield PlanLine("selector's budget", each, why)


def _machinery(plan: "Plan") -> Iterator[PlanLine]:
    shapes = ", ".join(f"{count:,} of {n}" for n, count in plan.leaves.items())
    yield PlanLine("trees x leaves", shapes, "copies of the class's learner")
    limits = " / ".join(f"{count:,}" for count in _few(plan.thresholds))
    yield PlanLine(
        "monitor", f"mistakes of the published rule >= {limits}", "then the trees are queried"
    )
    yield PlanLine("selector", plan.selector, f"needs about {plan.votes_needed} votes")
    yield PlanLine("check every", f"{plan.check_every:,} rounds", "a public schedule")
    if plan.cap is not None:
        yield PlanLine("rounds a user", f"at most {plan.cap}", "later ones are null rounds")
    yield PlanLine("horizon", f"{plan.horizon:,} rounds", "then the last rule stands")


def _few(several: Sequence[int]) -> Sequence[int]:
    """Return all of them, or the first and the last."""
    return several if len(several) < 6 else [several[0], several[-1]]


def _expected(plan: "Plan") -> Iterator[PlanLine]:
    if plan.expected_mistakes is None:
        yield PlanLine("utility: heuristic", "no prediction", "measure it on synthetic streams")
        return
    yield PlanLine(
        "utility: heuristic",
        f"about {plan.expected_mistakes:,} mistakes a change of rule",
        "when some rule of the class fits the stream",
    )
    yield PlanLine(
        "firings without release", f"{plan.refusal:.1%}", "then votes are collected anew"
    )
    if plan.vacuous:
        yield VACUOUS


def delta_warning(delta: Fraction, horizon: int) -> str | None:
    """Say that a delta is so large that some record might be published as it is; None if not."""
    # Publishing each record with probability delta would be (0, delta)-private: with so many
    # records, delta must be far below one in their number.
    if delta * 10 * horizon <= 1:
        return None
    return (
        f"delta = {float(delta):g} is above 1 / (10 x horizon) = {1 / (10 * horizon):g}: that "
        f"allows some record of the stream to be published. Take {10.0 ** -_digits(horizon):g}, say"
    )


def _digits(horizon: int) -> int:
    """Return the power of ten of a delta well below one in the number of rounds."""
    return len(str(horizon)) + 2


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
