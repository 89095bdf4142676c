"""Say what a data set's privacy budget amounts to: its total, what was drawn, what still fits.

Values only; `_privacy/budget_file.py` keeps them in a file. Costs are exact and add up, which is
valid also where each run's epsilon was chosen after seeing what the earlier runs published. A
series that was declared before its first run is one cost, by optimal composition
(docs/guarantee.md, Theorem 18).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from littlestone._privacy.accounting import NOTHING, Cost, Guarantee, Unit, per_release
from littlestone._privacy.parameters import BadParameter, context, decimal_of, float_above

# A total is enforced with so much more: ten runs of 0.1, which as a 64-bit float is a little more
# than a tenth, fit into 1. What may be quoted has it too (`BudgetState.guarantee`).
FLOAT_ALLOWANCE = Fraction(1, 10**12)

# How a draw was charged: added up, as part of a series that was declared, or in a series' place.
Charged: TypeAlias = Literal["sum", "series", "repeat"]


class BudgetExceeded(BadParameter):
    """Report a draw that a data set has too little left for. Nothing was drawn."""


class RunsOfCost(NamedTuple):
    """Hold so many runs of one cost, of a series that was declared."""

    runs: int
    cost: Cost


@dataclass(frozen=True)
class BudgetDraw:
    """Record what was drawn from a data set, and for what."""

    at: str
    run: str
    cost: Cost
    planned: Cost
    charged: Charged
    unit: Unit
    note: str
    series: str | None = None
    slot: Cost | None = None
    runs: tuple[RunsOfCost, ...] = ()

    @property
    def by(self) -> str:
        """Return by which composition it was charged."""
        if self.runs:
            summed = self.planned.epsilon == self.cost.epsilon
            return "sum of a declared series" if summed else "optimal composition, declared"
        return {"sum": "sum", "series": f"part of {self.series}", "repeat": "rows learned again"}[
            self.charged
        ]


@dataclass(frozen=True)
class BudgetState:
    """Hold what is known of a data set's budget.

    Parameters
    ----------
    dataset : str
        Its name.
    total : Cost
        What all runs may cost together.
    unit : {"event", "user"}
        What is protected whole.
    created : str
        When the budget was created.
    draws : tuple of BudgetDraw
        What was drawn, in order.
    """

    dataset: str
    total: Cost
    unit: Unit
    created: str
    draws: tuple[BudgetDraw, ...] = ()

    @property
    def spent(self) -> Cost:
        """Return what was drawn in all: costs add (basic composition, a valid filter)."""
        return sum((draw.cost for draw in self.draws), NOTHING)

    @property
    def left(self) -> Cost:
        """Return what can still be drawn."""
        spent = self.spent
        return Cost(
            max(Fraction(0), self.total.epsilon - spent.epsilon),
            max(Fraction(0), self.total.delta - spent.delta),
        )

    @property
    def guarantee(self) -> Guarantee:
        """Return what may be quoted for all runs together, now and later."""
        most = enforced(self.total)
        return Guarantee(float_above(most.epsilon), float_above(most.delta), unit=self.unit)

    def slots(self) -> Counter[tuple[str, Cost]]:
        """Return the runs that are declared and were not begun yet, by series and cost."""
        free: Counter[tuple[str, Cost]] = Counter()
        for draw in self.draws:
            for count, cost in draw.runs:
                free[draw.run, cost] += count
            if draw.series is not None and draw.slot is not None:
                free[draw.series, draw.slot] -= 1
        return +free

    def of_run(self, run: str) -> tuple[BudgetDraw, ...]:
        """Return what a run has drawn."""
        return tuple(draw for draw in self.draws if draw.run == run and not draw.runs)

    def slot_for(self, cost: Cost) -> tuple[str, Cost] | None:
        """Return the cheapest declared run, not begun yet, that a run of this cost may be."""
        fits = [
            (series, slot)
            for series, slot in self.slots()
            if cost.epsilon <= slot.epsilon and cost.delta <= slot.delta
        ]
        return min(fits, key=lambda found: (found[1].epsilon, found[1].delta), default=None)

    def refuse_overdraft(self, cost: Cost, what: str) -> None:
        """Raise `BudgetExceeded` if less than `cost` is left."""
        after, most = self.spent + cost, enforced(self.total)
        if after.epsilon <= most.epsilon and after.delta <= most.delta:
            return
        left = self.left
        raise BudgetExceeded(
            f"data set {self.dataset!r} has {cost_text(left)} left of {cost_text(self.total)}, and "
            f"{what} draws {cost_text(cost)}. {_advice(left)} `littlestone budget explain` shows "
            "who drew what"
        )

    def refuse_other_unit(self, unit: Unit) -> None:
        """Raise `BadParameter` for a run per event on a data set that is counted per user."""
        # The other way round is fine: a neighbour per event is one per user (Theorem 18).
        if self.unit == "user" and unit == "event":
            raise BadParameter(
                f"data set {self.dataset!r} is counted per user, and this run protects events: a "
                "user may have many, so the two do not add up. Say which column is the --user, or "
                "create a budget per event"
            )


class StillPossible(NamedTuple):
    """Hold what each of so many further runs may cost: added up, and declared beforehand."""

    runs: int
    added: Cost
    declared: Cost


def still_possible(left: Cost, runs: Iterable[int] = (1, 2, 5, 10, 100)) -> list[StillPossible]:
    """Return what further equal runs may cost each, so that all of them fit."""
    if not left.epsilon:
        return []
    return [
        StillPossible(
            count, Cost(left.epsilon / count, left.delta / count), per_release(left, count)
        )
        for count in runs
    ]


def cost_text(cost: Cost) -> str:
    """Return a cost for people, rounded down to five digits."""
    return f"(epsilon {float_below(cost.epsilon):g}, delta {float_below(cost.delta):g})"


def float_below(value: Fraction) -> float:
    """Return a float of at most five digits that is not above `value`: it can be typed."""
    # A little more than asked for first: 0.1 as a float is a fraction above a tenth.
    return float(decimal_of(value * (1 + FLOAT_ALLOWANCE), context(5, ROUND_FLOOR)))


def _advice(left: Cost) -> str:
    """Say what would fit."""
    if float_below(left.epsilon) == 0:
        return "Nothing fits any more: learn from other data, with a budget of its own."
    pure = "" if left.delta else ", by a learner without a delta (finite classes)"
    delta = f" --delta {float_below(left.delta):g}" if left.delta else ""
    return f"What fits: --epsilon {float_below(left.epsilon):g}{delta} or less{pure}."


def enforced(total: Cost) -> Cost:
    """Return what is enforced for a total: a millionth of a millionth more, for floats."""
    return Cost(total.epsilon * (1 + FLOAT_ALLOWANCE), total.delta * (1 + FLOAT_ALLOWANCE))
