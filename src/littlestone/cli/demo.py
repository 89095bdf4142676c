"""Run `littlestone demo`: find what makes an app fail, from events nobody may publish."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from littlestone.classes.rules import Rules
from littlestone.cli.terminal import (
    plain_console,
    print_plan,
    print_private,
    print_result,
    progress_bar,
)
from littlestone.learners.plan import Plan
from littlestone.store.request import LearnRequest, choose_learner

EXAMPLE = "Example: littlestone demo"
EVENTS = 300_000
EPSILON, DELTA, TOLERANCE = 1.0, 1e-7, 0.01


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
    start = write_events(events, EVENTS)
    console.print(
        f"\n{EVENTS:,} events of an app, each with {', '.join(TELEMETRY_COLUMNS)}, and whether it"
        f"\nfailed. From event {start:,} on a bad version is about, on {SHARE:.0%} of the devices;"
        f" {NOISE:.0%} of the"
        "\nlabels are wrong. Every event is somebody's: none may show in what is published.\n"
    )
    spec = "rules:" + ",".join(TELEMETRY_COLUMNS)
    console.rule("2. The plan, made before looking")
    console.print()
    task = LearnRequest(
        source=str(events),
        spec=spec,
        label="failed",
        epsilon=EPSILON,
        delta=DELTA,
        tolerance=TOLERANCE,
        out=folder / "releases.jsonl",
        report=folder / "report.html",
        force=True,
    )
    theorem = Plan.theorem(Rules(TELEMETRY_COLUMNS), EPSILON, DELTA, EVENTS)
    print_plan(console, choose_learner(task, EVENTS), theorem)
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
        f"        --epsilon {EPSILON:g} --delta {DELTA:g} --tolerance {TOLERANCE:g}\n"
    )
