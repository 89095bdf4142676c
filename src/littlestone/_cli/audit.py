"""Run `littlestone audit`: arguments in, a verdict out."""

import json
import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console

from littlestone._classes.causes import Causes
from littlestone._classes.specs import parse_spec
from littlestone._cli.options import BUDGET_AND_UNIT, AsJson, takes_request
from littlestone._cli.terminal import plain_console
from littlestone._learners.registry import LEARNERS, check_name
from littlestone._privacy.parameters import BadParameter
from littlestone._report.report import refuse_file, write_private
from littlestone._store.request import LearnRequest, choose_learner

# Below it neighbouring streams would have millions of rounds, and a leak take as many runs.
LEAST_EPSILON = 0.01
EXAMPLE = "Example: littlestone audit points:merchant --epsilon 1 --horizon 1000 --small"


@takes_request(*(name for name in BUDGET_AND_UNIT if name != "learner"), "private_json")
def audit(
    context: typer.Context,
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="As in `dimension --help`.")],
    task: LearnRequest,
    shrunk: Annotated[
        bool,
        typer.Option(
            "--small", help="The same mechanisms and budget with few trees: leaks show sooner."
        ),
    ] = False,
    learner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(LEARNERS)}; soa and halving are not private, and must be "
            "caught. By default causes for classes of causes, dpsoa for others.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs in each of two worlds; 0 for none.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the random bits that are not secret.")] = 0,
    file: Annotated[
        str | None, typer.Option(help="Run on this stream of yours: what that shows is private.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of 0 and 1 of --file.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that the code keeps its guarantee."""
    from littlestone._audit.audit import AnyPlan, AuditTarget, small
    from littlestone._cli.audit_run import (
        print_computed,
        print_runs,
        progress,
        read_audit_rows,
        run_audit,
    )

    if task.epsilon < LEAST_EPSILON:
        raise BadParameter(
            f"an audit is for an epsilon of at least {LEAST_EPSILON}, not {task.epsilon}: a leak as "
            "small as that would take millions of runs to show. The mechanisms are the same at any "
            "epsilon: audit at 1"
        )
    if file is None and task.private_json is not None:
        raise BadParameter("without a --file nothing is private: take --json, not --private-json")
    refuse_file(task.private_json)
    cls = parse_spec(spec)
    learner = learner or ("causes" if isinstance(cls, Causes) else "dpsoa")
    check_name(learner, LEARNERS)
    # One without privacy has no plan, and is held to what DPSOA promises.
    held_to = learner if LEARNERS[learner].private else "dpsoa"
    task = replace(task, spec=spec, learner=held_to)
    if task.horizon is None:
        raise BadParameter("say --horizon, the number of rounds to plan for")
    plan = choose_learner(task, task.horizon).plan
    if not isinstance(plan, AnyPlan):
        raise BadParameter(f"{learner} cannot be audited: no law is known for its mechanisms")
    plans = small(plan) if shrunk else [plan]
    subjects = [AuditTarget(learner, cls, each, seed) for each in plans]
    rows = None if file is None else read_audit_rows(file, cls, label)
    try:
        with progress(Console(stderr=True)) as watch:
            found = run_audit(subjects, runs=runs, rows=rows, workers=workers, watch=watch)
    # Overflow in exp(epsilon) is the range of floats, and no fault of the plan.
    except ArithmeticError as error:
        raise BadParameter(
            f"epsilon {task.epsilon:g} is too large to audit ({error}): probabilities that differ by "
            "a factor of exp(epsilon) do not fit floats. The mechanisms are the same at any epsilon: "
            "audit at 1"
        ) from None
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        print_computed(plain_console(), found)
    if task.private_json is not None:
        text = json.dumps(found.runs_to_json(), ensure_ascii=False) + "\n"
        write_private(task.private_json, text)
    # What the runs show on made-up streams is in the JSON already.
    if found.audits and (found.private or not as_json):
        sys.stdout.flush()
        print_runs(plain_console(stderr=found.private), found)
    # For scripts: a refuted claim is a failure.
    if not found.kept:
        raise typer.Exit(1)
