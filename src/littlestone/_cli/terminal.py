"""Print for people: a progress line while a verb runs, tables when it is done."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from littlestone._hypotheses.causes import any_of
from littlestone._hypotheses.rules import NEVER
from littlestone._learners.base import PrivateLearner
from littlestone._learners.evidence import HEAD
from littlestone._learners.registry import LearnerChoice
from littlestone._report.causes import (
    CausesSummary,
    bar,
    label_in_words,
    rule_in_words,
    summary_of,
)
from littlestone._report.report import (
    RunResult,
    counts_in_words,
    ledger_rows,
)
from littlestone._store.request import RunConfig
from littlestone._store.store import Published

MOST_RULES = 20
WIDEST = 200
# On a terminal what is public is green, and what is private red; it also has a bar at its left.
COLOURS = {"PUBLIC": "bold green", "PRIVATE": "bold red"}
PRIVATE_MARGIN = "| "


def plain_console(stderr: bool = False) -> Console:
    """Return a console that prints what it is given: no markup, no emoji, no colours."""
    # Rules hold values of the data: markup or emoji in them must be printed as they are.
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def wide_console(console: Console) -> Console:
    """Return a console for wide tables: a file has no width, so nothing is cut into lines there."""
    if console.is_terminal:
        return console
    return Console(file=console.file, width=WIDEST, highlight=False, markup=False, emoji=False)


def say(console: Console, sentence: str, margin: str = "  ") -> None:
    """Print a sentence after a margin; on a terminal its lines break between words."""
    text, style = Text(sentence), COLOURS["PRIVATE"] if margin == PRIVATE_MARGIN else ""
    lines = text.wrap(console, console.width - len(margin)) if console.is_terminal else [text]
    for line in lines:
        console.print(Text.assemble((margin, style), line), soft_wrap=True)


def print_heading(console: Console, side: str, sentence: str) -> None:
    """Print to which side, PUBLIC or PRIVATE, the following lines belong."""
    console.print()
    if console.is_terminal and side == "PRIVATE":
        console.rule(style=COLOURS[side])
    console.print(Text.assemble((f"{side}: ", COLOURS[side]), sentence))


def draws(console: Console) -> bool:
    """Return whether a moving line can be drawn: not into a file, nor into the cell of a notebook."""
    # FORCE_COLOR lets rich take a pipe for a terminal, and a cell of Jupyter is one that only grows.
    return console.file.isatty() and "JPY_PARENT_PID" not in os.environ


class _Rounds(ProgressColumn):
    """Rounds so far, and rounds a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        rate = f"  {speed:,.0f} rounds/s" if speed else ""
        return Text(f"{int(task.completed):,} rounds{rate}")


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[RunResult], None]]:
    """Yield a callback that shows notes, and on a terminal rounds and the rule that stands."""
    if not draws(console):
        # Nothing is drawn: control codes would end up in files.
        yield partial(_print_notes, console)
        return
    # Lines are cut at the edge: a second one would not be removed when the first is drawn again.
    cut = Column(no_wrap=True, overflow="ellipsis")
    columns = (
        SpinnerColumn(),
        BarColumn(12),
        _Rounds(table_column=Column(no_wrap=True)),
        TextColumn("{task.description}", markup=False, table_column=cut),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def watch(outcome: RunResult) -> None:
            _print_notes(bar.console, outcome)
            learner = outcome.learner
            rule = rule_in_words(learner.hypothesis, label_in_words(**outcome.task.label_data))
            bar.update(
                task,
                total=outcome.length,
                completed=learner.rounds,
                description=outcome.passing or rule,
            )

        yield watch


def _print_notes(console: Console, outcome: RunResult) -> None:
    for note in outcome.new_notes():
        say(console, f"note: {note}", "")


def print_public(console: Console, about: RunConfig, published: Published) -> None:
    """Print what is public of a run: its rules, what the last one says, and the guarantee."""
    print_heading(console, "PUBLIC", "the rules, and the rounds from which they stood")
    rules = plain_table("from round", "published rule")
    for release in published.releases[-MOST_RULES:]:
        rules.add_row(f"{release.round:,}", str(release.rule))
    console.print(rules)
    if len(published.releases) > MOST_RULES:
        say(console, f"(the last {MOST_RULES} of {len(published.releases):,})")
    label = label_in_words(**about.terms.label_data)
    if (causes := summary_of(published)) is not None:
        print_causes(console, causes, label)
    else:
        print_heading(console, "PUBLIC", rule_in_words(published.releases[-1].rule, label))
    horizon = about.chosen.plan.horizon
    left = max(0, horizon - published.rounds)
    console.print()
    say(console, str(published.guarantee))
    say(
        console,
        f"for everything ever published here; {left:,} of {horizon:,} planned rounds are left",
    )
    say(console, f"by {about.chosen.learner_name} on {about.terms.spec}. {about.chosen.why}")


def print_result(console: Console, outcome: RunResult) -> None:
    """Print what is public of a run that has just ended."""
    print_public(console, outcome.run.about, outcome.run.published)
    if outcome.task.out is not None:
        say(console, f"releases written to {outcome.task.out}")


def print_causes(console: Console, causes: CausesSummary, label: str) -> None:
    """Print the causes that are, or were, published, with their evidence. Public."""
    said = rule_in_words(any_of(causes.causes), label)
    if not causes.causes:
        said = f"no cause of {label} " + ("stands now" if causes.rows() else "is published")
    print_heading(console, "PUBLIC", said)
    if rows := causes.rows():
        table, full = plain_table(*HEAD, ""), "█" if console.is_terminal else "#"
        for column in table.columns[1:]:
            column.no_wrap = True
        for row, rate in rows:
            table.add_row(*row, bar(rate, full=full))
        wide_console(console).print(table)
    for sentence in causes.sentences():
        say(console, sentence)


def print_private(console: Console, outcome: RunResult) -> None:
    """Print what is private of a run."""
    learner, task = outcome.learner, outcome.task
    lines = list(counts_in_words(outcome.private()))
    lines += [f"  {outcome.unit} {bad.line:,}: {bad.sentence}" for bad in outcome.bad_rows[:5]]
    if _saw_no_positive(learner):
        lines.append("  no row was positive: is --label, or --positive, as you meant it?")
    spent, rows = learner.spent, ledger_rows(learner)
    total = f"spent in all: epsilon {float(spent.epsilon):.4g}, delta {float(spent.delta):.3g}"
    # The total first: people add up what they read above it.
    lines.append(
        f"{total}, not the sum of these: uses that read disjoint rounds count once"
        if rows
        else total
    )
    lines += [f"  {name} x {times}: {each}, {adding}" for name, times, each, adding in rows]
    paths = (task.report, task.private_json)
    lines += [f"written to {path}, for its owner only" for path in paths if path is not None]
    print_owner_lines(console, lines)
    for note in outcome.new_notes():
        console.print()
        say(console, f"note: {note}", "")


def print_owner_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines that only the data owner may see."""
    print_heading(console, "PRIVATE", "for the data owner only")
    for line in lines:
        say(console, line, PRIVATE_MARGIN)


def _saw_no_positive(learner: PrivateLearner) -> bool:
    """Return whether no row was positive. Private: `never` was always right."""
    only = [release.rule for release in learner.releases] == [NEVER]
    return only and learner.counted_rounds > 0 and learner.mistakes == 0


def print_plan(console: Console, chosen: LearnerChoice) -> None:
    """Print a plan as a table."""
    say(console, f"{chosen.learner_name}. {chosen.why}\n", "")
    constants = plain_table("what", "value", "why")
    for line in chosen.plan.lines():
        constants.add_row(*line)
    console.print(constants)


def plain_table(*names: str) -> Table:
    """Make a table without borders, with these columns."""
    made = Table(box=None, padding=(0, 0, 0, 2), show_edge=False)
    for name in names:
        made.add_column(name, overflow="fold")
    return made
