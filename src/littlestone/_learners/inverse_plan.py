"""Find the smallest epsilon for an acceptable number of mistakes, positives or rounds.

The inverse of the plan's own forecast, and nothing else: the plan is made anew for each epsilon
that is tried, on a grid of epsilons with two significant digits, from 0.001 to 100. What is
returned was checked: its plan meets the number, and that of the next smaller epsilon does not.

Forecasts of causes and of finite classes take a fraction of a millisecond, so the whole grid is
tried from below and the answer is the smallest. A plan of DPSOA takes a tenth of a second or more:
there a bisection finds where the forecast crosses the number. Its forecast has waves of a few percent
(the constants are whole numbers), so an epsilon some percent below the answer may meet the number too.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from littlestone._classes.base import HypothesisClass
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.causes_plan import CausesPlan, forecast
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._learners.registry import LEARNERS, LearnerChoice, choose
from littlestone._learners.terms import AUTO, Terms
from littlestone._privacy.accounting import Unit
from littlestone._privacy.parameters import BadParameter, Real

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
    unit, cap, change_cost, min_rate
        As in `recommend`.

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
        )
        return choose(terms)

    first = chosen(len(GRID) - 1)
    _refuse_unlike(first, what, rate=rate, share=share)

    @cache
    def forecast_at(place: int) -> float:
        plan = chosen(place).plan
        if not isinstance(plan, CausesPlan):
            return int(getattr(plan, "expected_mistakes", 0))
        assert rate is not None, "checked above"
        most = len(plan.prior) if width is None else width
        found = forecast(plan, rate, share=share, base=base, width=most)
        # Infinite where the cause is not expected to be published; otherwise as `plan` prints it.
        number = found.rounds if what == "rounds" and found.rounds is not None else found.positives
        return round(number) if found.found else number

    slow = first.learner_name == LEARNERS["dpsoa"].learner_name
    place = (_crossing if slow else _first_of_all)(forecast_at, number)
    if place is None:
        least = min(map(forecast_at, [len(GRID) - 1] if slow else range(len(GRID))))
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


def _first_of_all(forecast_at: Callable[[int], float], number: int) -> int | None:
    """Return the first place of the grid whose forecast meets the number."""
    return next((place for place in range(len(GRID)) if forecast_at(place) <= number), None)


def _crossing(forecast_at: Callable[[int], float], number: int) -> int | None:
    """Return a place whose forecast meets the number, while that of the place below does not."""
    last = len(GRID) - 1
    if forecast_at(last) > number:
        return None
    return bisect_left(range(last), True, key=lambda place: forecast_at(place) <= number)


def _impossible(what: str, number: int, least: float) -> str:
    if least == float("inf"):
        return (
            "with no epsilon up to 100 the cause is expected to be published: its rate is too low "
            "for min_rate, or it is too rare among the positives"
        )
    return (
        f"no epsilon up to 100 has a forecast of {number:,} {what} or fewer: the least that is "
        f"possible with this class, delta and horizon is about {least:,.0f}"
    )
