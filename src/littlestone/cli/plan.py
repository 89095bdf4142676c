"""Run `littlestone plan`: print every constant of a learner before it sees any data."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from littlestone.classes.specs import parse_spec
from littlestone.cli.options import (
    AnyLearner,
    AsJson,
    CapOption,
    Delta,
    Epsilon,
    MinRate,
    Tolerance,
    WhichPlan,
    read_min_rate,
)
from littlestone.cli.terminal import plain_console, print_plan
from littlestone.learners.base import LearnerPlan
from littlestone.learners.causes import CausesPlan
from littlestone.learners.causes_forecast import CauseForecast, forecast
from littlestone.learners.plan import Plan
from littlestone.privacy.parameters import BadParameter
from littlestone.store.request import LearnRequest, choose_learner

EXAMPLE = (
    "Example: littlestone plan causes:version,country:2 --delta 1e-7 --horizon 100000 --rate 0.3 "
    "--share 0.05 --base 0.01"
)


def plan(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="As in `dimension --help`.")],
    horizon: Annotated[int, typer.Option(help="Rounds to plan for.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    per_user: Annotated[
        bool, typer.Option("--user", help="Protect all rounds of a user together.")
    ] = False,
    cap: CapOption = None,
    tolerance: Tolerance = 0.0,
    min_rate: MinRate = "auto",
    rate: Annotated[
        float | None, typer.Option(help="For causes: how often a cause's events are positive.")
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="With --rate: the share of events that the cause matches.")
    ] = None,
    base: Annotated[
        float | None, typer.Option(help="With --rate: how often other events are positive.")
    ] = None,
    learner: AnyLearner = "auto",
    kind: WhichPlan = "practical",
    as_json: AsJson = False,
) -> None:
    """Print every constant of a learner before it sees any data.

    What is proved, what is expected, where the budget goes, and what the paper's theorem would ask
    for. For a class of causes, --rate says how many positives of a cause it takes until the cause
    is published and, with --share, about how many rounds.
    """
    task = LearnRequest(
        spec=spec,
        label="",
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        user="user" if per_user else None,
        cap=cap,
        tolerance=tolerance,
        min_rate=read_min_rate(min_rate),
        learner=learner,
        plan=kind,
    )
    chosen = choose_learner(task, horizon)
    forecasts = _forecasts(chosen.plan, rate, share=share, base=base)
    # The paper's theorem is about DPSOA, which counts mistakes: nothing in it is about causes.
    causes = isinstance(chosen.plan, CausesPlan)
    theorem = None
    if not causes:
        theorem = Plan.theorem(parse_spec(spec), epsilon, delta, max(2, horizon))
    if as_json:
        data = chosen.to_json() | ({"forecast": _forecasts_to_json(forecasts)} if forecasts else {})
        asked = {} if theorem is None else {"theorem": dict(theorem.lines())}
        typer.echo(json.dumps(data | asked, ensure_ascii=False))
        return
    console = plain_console()
    print_plan(console, chosen, theorem)
    if rate is not None and forecasts:
        console.print(f"\nA cause that is positive {rate:.1%} of the time:")
        for sentence in _in_words(forecasts, share, horizon):
            console.print(f"  {sentence}")


def _forecasts(
    plan: LearnerPlan, rate: float | None, *, share: float | None, base: float | None
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
            "min_rate": found.min_rate,
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
                f"of {conditions}: not expected to be published, with min_rate "
                f"{found.min_rate:.1%}: its rate is too low, or it is too rare among the positives"
            )
            continue
        words = f"of {conditions}: published after about {found.positives:,.0f} of its positives"
        if found.rounds is not None:
            words += f", {found.rounds:,.0f} rounds"
            words += " (beyond the horizon)" if found.rounds > horizon else ""
        yield f"{words}, with min_rate {found.min_rate:.1%}"
    if share is None:
        yield "give --share, the share of events that it matches, for the number of rounds"
    yield "a heuristic for one cause that stands alone: half of all runs or so take longer"
