"""Run `littlestone plan`: print every constant of a learner before it sees any data."""

import json
from typing import Annotated

import typer

from littlestone.classes.specs import parse_spec
from littlestone.cli.options import (
    AnyLearner,
    AsJson,
    CapOption,
    Delta,
    Epsilon,
    Tolerance,
    WhichPlan,
)
from littlestone.cli.terminal import plain_console, print_plan
from littlestone.learners.plan import Plan
from littlestone.store.request import LearnRequest, choose_learner

EXAMPLE = "Example: littlestone plan rules:version,country --delta 1e-7 --horizon 100000"


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
    learner: AnyLearner = "auto",
    kind: WhichPlan = "practical",
    as_json: AsJson = False,
) -> None:
    """Print every constant of a learner before it sees any data.

    What is proved, what is expected, where the budget goes, and what the paper's theorem would ask
    for.
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
        learner=learner,
        plan=kind,
    )
    chosen = choose_learner(task, horizon)
    theorem = Plan.theorem(parse_spec(spec), epsilon, delta, max(2, horizon))
    if as_json:
        asked = dict(theorem.lines())
        typer.echo(json.dumps(chosen.to_json() | {"theorem": asked}, ensure_ascii=False))
    else:
        print_plan(plain_console(), chosen, theorem)
