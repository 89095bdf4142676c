"""Run `littlestone learn`, from a stream of labelled rows, and `demo`, from a built-in one."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from littlestone.classes.rules import Rules
from littlestone.cli.options import (
    AsJson,
    CapOption,
    Delta,
    Epsilon,
    LabelOption,
    PrivateJson,
    Seed,
    Spec,
    Tolerance,
    UserOption,
    WhichEngine,
    WhichLearner,
    WhichPlan,
    given,
)
from littlestone.cli.terminal import (
    plain_console,
    print_plan,
    print_private,
    print_result,
    progress_bar,
)
from littlestone.learners.plan import Plan
from littlestone.learners.registry import check_name, storable_names
from littlestone.privacy.parameters import BadParameter
from littlestone.report.report import refuse_file
from littlestone.store.request import LearnRequest, choose_learner

EXAMPLE = (
    "Example: littlestone learn events.csv --class rules:version,country --label failed "
    "--epsilon 1 --delta 1e-7 --out releases.jsonl --report report.html"
)


def learn(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, JSON lines or Parquet, plain or .gz; a folder of Parquet; - is stdin."
        ),
    ],
    spec: Spec = None,
    label: LabelOption = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    horizon: Annotated[
        int | None, typer.Option(help="Rounds to plan for; by default the rows of the file.")
    ] = None,
    user: UserOption = None,
    cap: CapOption = None,
    tolerance: Tolerance = 0.0,
    learner: WhichLearner = "auto",
    plan: WhichPlan = "practical",
    db: Annotated[
        Path | None,
        typer.Option(help="Keep the learner in this file, and go on from it. Private."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the releases here, as JSON lines. Public.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here. Private.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a bad row, outside the guarantee.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out and --report.")] = False,
    format_: Annotated[
        str | None, typer.Option("--format", help="csv, tsv, jsonl or parquet; else by name.")
    ] = None,
    private_json: PrivateJson = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="With --db: a last line without a line feed is a row."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="With --db: check every row that was learned before."),
    ] = False,
    new_rows: Annotated[
        bool,
        typer.Option("--new-rows", help="With --db: no row of the file was learned before."),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="With --db: learn known rows once more; epsilon adds up."),
    ] = False,
    seed: Seed = None,
    engine: WhichEngine = None,
    workers: Annotated[
        int | None, typer.Option(help="Shards of the engine; as many as it has cores by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a rule from a stream of labelled rows, privately: before each row a rule is published.

    A row that cannot be read becomes a null round and keeps its place. What is printed on standard
    output is public. The report, and what is printed under PRIVATE on standard error (mistakes,
    null rounds), belong to the data owner. A second run on the same data spends again, unless
    --db goes on with the first: then each row is learned once, and a file is recognised by its
    rows, whatever its name. Then, too, a last line without a line feed waits for the next run: it
    may be unfinished.
    """
    from littlestone.cli.learn_run import run
    from littlestone.ray import redirect_output

    # A store knows what it was begun with.
    if db is None or not db.exists():
        asked = {"which --class of rules to learn": spec, "which column is the --label": label}
        if missing := [what for what, said in asked.items() if said is None]:
            raise BadParameter(f"say {', and '.join(missing)}")
    check_name(learner, storable_names())
    task = LearnRequest(
        source=file,
        spec=spec or "",
        label=label or "",
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        user=user,
        cap=cap,
        tolerance=tolerance,
        learner=learner,
        plan=plan,
        seed=seed,
        strict=strict,
        format=format_,
        out=out,
        report=report,
        private_json=private_json,
        force=force,
        engine=engine,
        workers=workers,
        given=given(context),
        again=again,
        new_rows=new_rows,
        complete=complete,
        verify=verify,
    )
    # Before the first row is read: options that need a store must not be ignored in silence.
    task.refuse_without_store(db)
    refuse_file(private_json, force)
    try:
        with redirect_output(engine), progress_bar(Console(stderr=True)) as watch:
            outcome = run(task, watch, db)
    except KeyboardInterrupt:
        # Standard output is public, and where a run stopped may depend on the rows.
        typer.echo(_stopped(db), err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps({"public": outcome.public()}, ensure_ascii=False))
    else:
        print_result(plain_console(), outcome)
    # Standard output and standard error may be one terminal: keep their order.
    sys.stdout.flush()
    print_private(plain_console(stderr=True), outcome)


def _stopped(db: Path | None) -> str:
    if db is None:
        return "stopped: what was released so far stands, and running again spends again"
    return "stopped: what was learned is in the file; the same command goes on, each row once"


DEMO_EXAMPLE = "Example: littlestone demo"
DEMO_EVENTS = 300_000
DEMO_EPSILON, DEMO_DELTA, DEMO_TOLERANCE = 1.0, 1e-7, 0.01


def demo(
    folder: Annotated[
        Path, typer.Option("--out", help="Where to leave the events, releases and report.")
    ] = Path("littlestone-demo"),
) -> None:
    """Run the whole story on a built-in stream of telemetry: a cause is found, privately."""
    run_demo(plain_console(), plain_console(stderr=True), folder)


def run_demo(console: Console, private: Console, folder: Path) -> None:
    """Make the events, learn from them, leave everything in the folder.

    Parameters
    ----------
    console
        Where to print what is public, and the story.
    private
        Where to print what is private.
    folder
        Where to leave the events, the releases and the report.
    """
    from littlestone.cli.learn_run import run
    from littlestone.simulate.streams import NOISE, SHARE, TELEMETRY_COLUMNS, write_events

    folder.mkdir(parents=True, exist_ok=True)
    events = folder / "events.csv"
    console.rule("1. The stream")
    start = write_events(events, DEMO_EVENTS)
    console.print(
        f"\n{DEMO_EVENTS:,} events of an app, each with {', '.join(TELEMETRY_COLUMNS)}, and whether"
        f" it\nfailed. From event {start:,} on a bad version is about, on {SHARE:.0%} of the"
        f" devices; {NOISE:.0%} of the"
        "\nlabels are wrong. Every event is somebody's: none may show in what is published.\n"
    )
    spec = "rules:" + ",".join(TELEMETRY_COLUMNS)
    console.rule("2. The plan, made before looking")
    console.print()
    task = LearnRequest(
        source=str(events),
        spec=spec,
        label="failed",
        epsilon=DEMO_EPSILON,
        delta=DEMO_DELTA,
        tolerance=DEMO_TOLERANCE,
        out=folder / "releases.jsonl",
        report=folder / "report.html",
        force=True,
    )
    theorem = Plan.theorem(Rules(TELEMETRY_COLUMNS), DEMO_EPSILON, DEMO_DELTA, DEMO_EVENTS)
    print_plan(console, choose_learner(task, DEMO_EVENTS), theorem)
    console.print()
    console.rule("3. Learning: a rule is published before each event")
    with progress_bar(Console(stderr=True)) as watch:
        outcome = run(task, watch)
    console.print()
    print_result(console, outcome)
    print_private(private, outcome)
    console.print()
    console.rule("4. Now yours")
    console.print(
        f"\nOpen {folder / 'report.html'} for the pictures. The same, as a command:\n\n"
        f"    littlestone learn {events} --class {spec} --label failed \\\n"
        f"        --epsilon {DEMO_EPSILON:g} --delta {DEMO_DELTA:g}"
        f" --tolerance {DEMO_TOLERANCE:g}\n"
    )
