"""Print for people: a progress line while a verb runs, tables when it is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from littlestone._hypotheses.causes import any_of
from littlestone._hypotheses.rules import NEVER
from littlestone._learners.base import PrivateLearner
from littlestone._learners.registry import LearnerChoice
from littlestone._report.causes import HEAD, CausesSummary, bar, label_in_words, rule_in_words
from littlestone._report.report import (
    RunResult,
    causes_published,
    counts_in_words,
    ledger_rows,
)
from littlestone._store.request import RunConfig
from littlestone._store.store import Published

LONGEST_RULE, MOST_RULES = 48, 20
WIDEST = 200
PRIVATE = "PRIVATE: for the data owner only"


def plain_console(stderr: bool = False) -> Console:
    """Return a console that prints what it is given: no markup, no emoji, no colours."""
    # Rules hold values of the data: markup or emoji in them must be printed as they are.
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def wide_console(console: Console) -> Console:
    """Return a console for wide tables: a file has no width, so nothing is cut into lines there."""
    if console.is_terminal:
        return console
    return Console(file=console.file, width=WIDEST, highlight=False, markup=False, emoji=False)


class _Rounds(ProgressColumn):
    """Rounds so far, and rounds a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        rate = f"  {speed:,.0f} rounds/s" if speed else ""
        return Text(f"{int(task.completed):,} rounds{rate}")


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[RunResult], None]]:
    """Yield a callback that shows notes, and on a terminal rounds and the rule that stands."""
    if not console.is_terminal:
        # Nothing is drawn: control codes would end up in files.
        yield partial(_print_notes, console)
        return
    columns = SpinnerColumn(), BarColumn(24), _Rounds(), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def watch(outcome: RunResult) -> None:
            _print_notes(bar.console, outcome)
            learner = outcome.learner
            # A rule holds values of the data: brackets in it are no markup of rich.
            said = rule_in_words(learner.hypothesis, label_in_words(**outcome.task.label_data))
            rule = Text(clip_line(said)).plain.replace("[", r"\[")
            bar.update(
                task,
                total=outcome.length,
                completed=learner.rounds,
                description=outcome.passing or rule,
            )

        yield watch


def _print_notes(console: Console, outcome: RunResult) -> None:
    for note in outcome.new_notes():
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)


def clip_line(sentence: str) -> str:
    """Shorten a sentence to fit a line."""
    return sentence if len(sentence) <= LONGEST_RULE else sentence[: LONGEST_RULE - 1] + "…"


def print_public(console: Console, about: RunConfig, published: Published) -> None:
    """Print what is public of a run: its rules, what the last one says, and the guarantee."""
    console.print("PUBLIC: the rules, and the rounds from which they stood")
    rules = plain_table("from round", "published rule")
    for release in published.releases[-MOST_RULES:]:
        rules.add_row(f"{release.round:,}", str(release.rule))
    console.print(rules)
    if len(published.releases) > MOST_RULES:
        console.print(f"  (the last {MOST_RULES} of {len(published.releases):,})")
    label = label_in_words(**about.terms.label_data)
    if (causes := causes_published(about, published)) is not None:
        print_causes(console, causes, label)
    else:
        console.print(f"\nPUBLIC: {rule_in_words(published.releases[-1].rule, label)}")
    horizon = about.chosen.plan.horizon
    left = max(0, horizon - published.rounds)
    console.print(f"\n  {published.guarantee}")
    console.print(
        f"  for everything ever published here; {left:,} of {horizon:,} planned rounds are left"
    )
    console.print(f"  by {about.chosen.learner_name} on {about.terms.spec}. {about.chosen.why}")


def print_result(console: Console, outcome: RunResult) -> None:
    """Print what is public of a run that has just ended."""
    print_public(console, outcome.run.about, outcome.run.published)
    if outcome.task.out is not None:
        console.print(f"  releases written to {outcome.task.out}")


def print_causes(console: Console, causes: CausesSummary, label: str) -> None:
    """Print the causes that are, or were, published, with their evidence. Public."""
    said = rule_in_words(any_of(causes.causes), label)
    if not causes.causes:
        said = f"no cause of {label} " + ("stands now: see below" if causes.rows() else "yet")
    console.print(f"\nPUBLIC: {said}")
    if rows := causes.rows():
        table, full = plain_table(*HEAD, ""), "█" if console.is_terminal else "#"
        for column in table.columns[1:]:
            column.no_wrap = True
        for row, rate in rows:
            table.add_row(*row, bar(rate, full=full))
        wide_console(console).print(table)
    for sentence in causes.sentences():
        console.print(f"  {sentence}")


def print_private(console: Console, outcome: RunResult) -> None:
    """Print what is private of a run."""
    learner, task = outcome.learner, outcome.task
    console.print(f"\n{PRIVATE}")
    for line in counts_in_words(outcome.private()):
        console.print(f"  {line}")
    for bad in outcome.bad_rows[:5]:
        console.print(f"    {outcome.unit} {bad.line:,}: {bad.sentence}")
    if _saw_no_positive(learner):
        console.print("    no row was positive: is --label, or --positive, as you meant it?")
    for mechanism, times, each, adding in ledger_rows(learner):
        console.print(f"  {mechanism} x {times}: {each}, {adding}")
    spent = learner.spent
    console.print(
        f"  spent in all: epsilon {float(spent.epsilon):.4g}, delta {float(spent.delta):.3g}"
    )
    for path in (task.report, task.private_json):
        if path is not None:
            console.print(f"  written to {path}, for its owner only")
    for note in outcome.new_notes():
        console.print(f"\nnote: {note}")


def _saw_no_positive(learner: PrivateLearner) -> bool:
    """Return whether no row was positive. Private: `never` was always right."""
    only = [release.rule for release in learner.releases] == [NEVER]
    return only and learner.counted_rounds > 0 and learner.mistakes == 0


def print_plan(console: Console, chosen: LearnerChoice) -> None:
    """Print a plan as a table."""
    console.print(f"{chosen.learner_name}. {chosen.why}\n")
    constants = plain_table("what", "value", "why")
    for line in chosen.plan.lines():
        constants.add_row(*line)
    console.print(constants)


def plain_table(*names: str) -> Table:
    """Make a table without borders, with these columns."""
    made = Table(box=None, padding=(0, 2, 0, 2), show_edge=False)
    for name in names:
        made.add_column(name, overflow="fold")
    return made
