"""Run `littlestone demo`: find what makes an app fail, from events nobody may publish."""

from pathlib import Path

from rich.console import Console

from littlestone._cli.options import read_min_rate
from littlestone._cli.terminal import plain_console, print_private, print_result, progress_bar, say
from littlestone._learners.plan_table import USUAL_DELTA
from littlestone._store.request import LearnRequest

EVENTS = 300_000
EPSILON, DELTA = 1.0, USUAL_DELTA


def demo(folder: Path, min_rate: str) -> None:
    """Run the whole story on a built-in stream of telemetry: a cause is found, privately."""
    run_demo(plain_console(), plain_console(stderr=True), folder, min_rate=read_min_rate(min_rate))


def run_demo(
    console: Console, private: Console, folder: Path, *, min_rate: float | str = "auto"
) -> None:
    """Make the events, learn from them, leave everything in the folder."""
    from littlestone._cli.learn import run
    from littlestone._simulate.streams import (
        BASE_RATE,
        CULPRIT,
        CULPRIT_RATE,
        CULPRIT_SHARE,
        TELEMETRY_COLUMNS,
        write_events,
    )

    folder.mkdir(parents=True, exist_ok=True)
    events = folder / "events.csv"
    console.rule("1. The stream")
    start = write_events(events, EVENTS)
    console.print()
    say(
        console,
        f"{EVENTS:,} events of an app, each with {', '.join(TELEMETRY_COLUMNS)}, and whether it "
        f"failed. From event {start:,} on, {CULPRIT_SHARE:.0%} of the devices have version "
        f"{CULPRIT}, which fails {CULPRIT_RATE:.0%} of the time; everything else fails "
        f"{BASE_RATE:.0%} of the time. Every event is somebody's: none may show in what is "
        "published. None of this is given to the learner.",
        "",
    )
    console.print()
    console.rule("2. Learning: causes are published with their evidence, the events are not")
    spec = "causes:" + ",".join(TELEMETRY_COLUMNS)
    task = LearnRequest(
        source=str(events),
        spec=spec,
        label="failed",
        epsilon=EPSILON,
        delta=DELTA,
        min_rate=min_rate,
        out=folder / "releases.jsonl",
        report=folder / "report.html",
        force=True,
    )
    with progress_bar(Console(stderr=True)) as watch:
        outcome = run(task, watch)
    print_result(console, outcome)
    print_private(private, outcome)
    console.print()
    console.rule("3. Now yours")
    console.print(
        f"\nOpen {folder / 'report.html'} for the pictures. The same, as a command:\n\n"
        f"    littlestone learn {events} \\\n"
        f"        --class {spec} \\\n"
        f"        --label failed --epsilon {EPSILON:g} --delta {DELTA:g}\n"
    )
