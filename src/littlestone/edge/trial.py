"""`littlestone audit`: arguments in, a verdict out."""

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from littlestone.edge import specs
from littlestone.edge.auditing import print_audit, progress, read_rows, run_audit
from littlestone.edge.running import Task, plan_for
from littlestone.lab.subjects import AnyPlan, Subject, small
from littlestone.learning.adaptive import EveryRoundPlan
from littlestone.learning.weighing import ExpertsPlan
from littlestone.privacy.exact import BadParameter
from littlestone.theory.classes import HypothesisClass

EXAMPLE = "Example: littlestone audit points:merchant --epsilon 1 --horizon 1000 --small"


class PlanKind(StrEnum):
    """The plans of DP-SOA that can be audited."""

    practical = "practical"
    paper = "paper"


class LearnerKind(StrEnum):
    """The learners that can be audited."""

    dpsoa = "dpsoa"
    experts = "experts"
    adaptive = "adaptive"
    every_round = "every-round"
    soa = "soa"


def audit(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="As in `dimension --help`.")],
    horizon: Annotated[int, typer.Option(help="Rounds to plan for.")],
    epsilon: Annotated[float, typer.Option(help="What is promised.")] = 1.0,
    delta: Annotated[float, typer.Option(help="What is promised; experts promise 0.")] = 1e-6,
    per_user: Annotated[
        bool, typer.Option("--user", help="The plan that protects all rounds of a user.")
    ] = False,
    cap: Annotated[int | None, typer.Option(help="Rounds a user has at most.")] = None,
    tolerance: Annotated[
        float, typer.Option(help="The share of mistakes that should not cause a change of rule.")
    ] = 0.0,
    kind: Annotated[
        PlanKind, typer.Option("--plan", help="What the constants of dpsoa are chosen for.")
    ] = PlanKind.practical,
    shrunk: Annotated[
        bool,
        typer.Option(
            "--small", help="The same mechanisms and budget with few trees: leaks show sooner."
        ),
    ] = False,
    learner: Annotated[
        LearnerKind, typer.Option(help="Which to audit; soa has no privacy, and must be caught.")
    ] = LearnerKind.dpsoa,
    runs: Annotated[int, typer.Option(help="Runs in each of two worlds; 0 for none.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the coins, which are not secret.")] = 0,
    file: Annotated[
        str | None, typer.Option(help="Run on this stream of yours; what is printed is private.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of 0 and 1 of --file.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a machine.")] = False,
) -> None:
    """Does the code keep its promise? The plan's mechanisms are enumerated: their output laws
    computed, and compared with what they claim. Then a whole learner is run many times on
    neighbouring streams made to show a leak: a lower bound on its epsilon; and the same learner
    with twice the epsilon, to show what would be seen. Exit code 1 when a claim is refuted.
    """
    task = Task("", spec, "", epsilon, delta, horizon, "user" if per_user else None, cap, tolerance,
                kind.value)  # fmt: skip
    cls = specs.parse_spec(spec)
    plan = plan_of(learner, cls, task, horizon)
    plans = small(plan) if shrunk else [plan]
    subjects = [Subject(learner.value, cls, each, seed) for each in plans]
    rows = None if file is None else read_rows(file, cls, label)
    with progress(Console(stderr=True)) as watch:
        found = run_audit(subjects, runs=runs, rows=rows, workers=workers, watch=watch)
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        print_audit(console, found)
    if not found.kept:
        raise typer.Exit(1)


def plan_of(learner: LearnerKind, cls: HypothesisClass, task: Task, horizon: int) -> AnyPlan:
    """The plan of a learner; what it has no use for is refused."""
    if learner in (LearnerKind.dpsoa, LearnerKind.soa):
        return plan_for(task, horizon)
    if task.user is not None or task.cap is not None or task.plan != PlanKind.practical:
        raise BadParameter(f"--user, --cap and --plan are for dpsoa: {learner.value} has none")
    if learner is LearnerKind.experts:
        return ExpertsPlan.practical(cls, task.epsilon, horizon, tolerance=task.tolerance)
    if task.tolerance:
        raise BadParameter(f"{learner.value} counts no mistakes: leave out --tolerance")
    return EveryRoundPlan.of(task.epsilon, task.delta, horizon)
