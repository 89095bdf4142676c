"""Run `littlestone plan`: what is known before any data."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import typer

from littlestone._cli.terminal import plain_console, print_plan, say
from littlestone._learners.causes_plan import CauseForecast, CausesPlan, forecast
from littlestone._learners.plan_table import PlanTable
from littlestone._learners.registry import SmallestEpsilon, smallest_epsilon
from littlestone._privacy.parameters import BadParameter
from littlestone._store.request import LearnRequest, choose_learner


def plan(
    spec: str,
    task: LearnRequest,
    *,
    rate: float | None,
    share: float | None,
    base: float | None,
    mistakes: int | None,
    positives: int | None,
    rounds: int | None,
    as_json: bool,
) -> None:
    """Print every constant of a learner before it sees any data."""
    task, found, horizon = replace(task, spec=spec), None, task.horizon
    if horizon is None:
        raise BadParameter("say --horizon, the number of rounds to plan for")
    if any(number is not None for number in (mistakes, positives, rounds)):
        if "epsilon" in task.given:
            raise BadParameter("--epsilon conflicts with --mistakes, --positives and --rounds")
        for name, number in (("positives", positives), ("rounds", rounds)):
            if number is not None and rate is None:
                raise BadParameter(f"--{name} requires --rate: how often is a cause positive?")
        found = smallest_epsilon(
            task.cls,
            task.delta,
            horizon,
            mistakes=mistakes,
            positives=positives,
            rounds=rounds,
            rate=rate,
            share=share,
            base=base or 0.0,
            learner=task.learner,
            unit=task.unit,
            cap=task.cap,
            change_cost=task.change_cost,
            min_rate=task.min_rate,
            baseline=task.baseline,
        )
        task = replace(task, epsilon=found.epsilon)
    chosen = choose_learner(task, horizon)
    forecasts = _forecasts(chosen.plan, rate, share=share, base=base)
    if as_json:
        data = {} if found is None else {"smallest_epsilon": _smallest_to_json(found)}
        data |= chosen.to_json() | (
            {"forecast": _forecasts_to_json(forecasts)} if forecasts else {}
        )
        typer.echo(json.dumps(data, ensure_ascii=False))
        return
    console = plain_console()
    if found is not None:
        what = "mistakes" if mistakes else "positives" if positives else "rounds"
        say(console, f"{_smallest_in_words(found, what)}\n", "")
    # The answer first, then the constants that it follows from.
    if rate is not None and forecasts:
        console.print(f"A cause that is positive {rate:.1%} of the time:")
        for sentence in _in_words(forecasts, share, horizon):
            say(console, sentence)
        console.print()
    print_plan(console, chosen)


def _smallest_to_json(found: SmallestEpsilon) -> dict[str, Any]:
    # JSON has no infinity: null where nothing is expected to be published.
    numbers = found._asdict() | {"choice": None}
    finite = {n: None if v == float("inf") else v for n, v in numbers.items() if n != "choice"}
    return finite | {"grid": "two significant digits, 0.001 to 100"}


def _smallest_in_words(found: SmallestEpsilon, what: str) -> str:
    words = f"epsilon {found.epsilon:g} is the smallest of two digits: "
    words += f"about {found.forecast:,.0f} {what}"
    if found.below is None or found.forecast_below is None:
        return f"{words}, and no smaller one is tried"
    if found.forecast_below == float("inf"):
        return f"{words}; with {found.below:g} no cause is expected to be published"
    words += f"; with {found.below:g} it would be {found.forecast_below:,.0f}"
    return words + ("\nabove 4 it is hard to call it private" if found.epsilon > 4 else "")


def _forecasts(
    plan: PlanTable, rate: float | None, *, share: float | None, base: float | None
) -> list[CauseForecast]:
    """Return a forecast for every width of a cause."""
    if rate is None:
        if share is not None or base is not None:
            raise BadParameter("--share and --base require --rate: how often is a cause positive?")
        return []
    if not isinstance(plan, CausesPlan):
        raise BadParameter("--rate is about a class of causes: causes:COLUMN,...")
    widths = range(1, 1 + len(plan.prior))
    return [forecast(plan, rate, share=share, base=base or 0.0, width=width) for width in widths]


def _forecasts_to_json(forecasts: list[CauseForecast]) -> list[dict[str, Any]]:
    return [
        {
            "conditions": width,
            "rate_to_beat": found.rate_to_beat,
            "positives": round(found.positives) if found.found else None,
            "rounds": None if found.rounds is None else round(found.rounds),
        }
        for width, found in enumerate(forecasts, 1)
    ]


def _in_words(forecasts: list[CauseForecast], share: float | None, horizon: int) -> Iterator[str]:
    for width, found in enumerate(forecasts, 1):
        conditions = "1 condition" if width == 1 else f"{width} conditions"
        if not found.found:
            yield (
                f"of {conditions}: not expected to be published. It has to beat a rate of "
                f"{found.rate_to_beat:.1%}, and must not be too rare among the positives"
            )
            continue
        words = f"of {conditions}: published after about {found.positives:,.0f} of its positives"
        if found.rounds is not None:
            words += f", {found.rounds:,.0f} rounds"
            words += " (beyond the horizon)" if found.rounds > horizon else ""
        yield f"{words}; it has to beat a rate of {found.rate_to_beat:.1%}"
    if share is None:
        yield "give --share, the share of events that it matches, for the number of rounds"
    yield "a heuristic for one cause that stands alone: half of all runs or so take longer"
