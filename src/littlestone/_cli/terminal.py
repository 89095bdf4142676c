"""Print for people: a progress line while a verb runs, tables when it is done."""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from littlestone._display import columns
from littlestone._hypotheses.rules import NEVER
from littlestone._learners.base import PrivateLearner
from littlestone._learners.evidence import HEAD, in_columns
from littlestone._learners.plan_table import HEURISTIC
from littlestone._learners.registry import LearnerChoice
from littlestone._report.causes import (
    CausesSummary,
    bar,
    label_in_words,
    rule_in_words,
    rules_as_text,
    summary_of,
)
from littlestone._report.report import RunResult, counts_in_words, ledger_rows, some
from littlestone._store.request import RunConfig
from littlestone._store.store import Published

MOST_RULES = 20
WIDEST = 200
# On a terminal what is public is green, and what is private red; it also has a bar at its left.
COLOURS = {"PUBLIC": "bold green", "PRIVATE": "bold red"}
PRIVATE_MARGIN = "| "


@contextmanager
def noting() -> Iterator[list[str]]:
    """Yield a list that has, after the block, what was warned of in it."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += [str(warning.message) for warning in caught]


def print_json(data: object) -> None:
    """Print what `--json` asks for, on one line."""
    typer.echo(json.dumps(data, ensure_ascii=False))


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
        if not task.completed:
            return Text("")
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
            label = label_in_words(**outcome.task.label_data)
            of_causes = outcome.run.published.evidence is not None
            rule = rule_in_words(learner.hypothesis, label, of_causes=of_causes)
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
    if not about.terms.table:
        _print_rules(console, published)
    label = label_in_words(**about.terms.label_data)
    if (causes := summary_of(published)) is not None:
        print_causes(console, causes, label)
    else:
        print_heading(console, "PUBLIC", rule_in_words(published.releases[-1].rule, label))
    horizon = about.chosen.plan.horizon
    rest = max(0, horizon - published.rounds)
    console.print()
    say(console, str(published.guarantee))
    covered = f"ever published here; {rest:,} of {horizon:,} planned rounds are left"
    if about.terms.table:
        covered = f"that is published of this table of {some(horizon, 'row')}"
    say(console, f"for everything {covered}")
    say(console, f"by {about.chosen.learner_name} on {about.terms.spec}. {about.chosen.why}")


def _print_rules(console: Console, published: Published) -> None:
    """Print the rules of a stream, and when each was published."""
    print_heading(console, "PUBLIC", "the rules, and the rounds from which they stood")
    rules = plain_table("from round", "published rule")
    of_causes = published.evidence is not None
    for row in rules_as_text(published.releases[-MOST_RULES:], of_causes=of_causes):
        rules.add_row(*row)
    console.print(rules)
    if len(published.releases) > MOST_RULES:
        say(console, f"(the last {MOST_RULES} of {len(published.releases):,})")


def print_result(console: Console, outcome: RunResult) -> None:
    """Print what is public of a run that has just ended."""
    print_public(console, outcome.run.about, outcome.run.published)
    if outcome.task.out is not None:
        say(console, f"releases written to {outcome.task.out}")


def print_causes(console: Console, causes: CausesSummary, label: str) -> None:
    """Print the causes that are, or were, published, with their evidence. Public."""
    print_heading(console, "PUBLIC", causes.headline(label))
    if rows := causes.rows():
        _print_table(console, rows)
    for sentence in causes.sentences():
        say(console, sentence)


def _print_table(console: Console, rows: Sequence[tuple[tuple[str, ...], float | None]]) -> None:
    """Print the evidence; where lines are short, each cause above its figures."""
    texts, full = [row for row, _ in rows], "█" if console.is_terminal else "#"
    lines = in_columns([(*HEAD, ""), *((*row, bar(rate, full=full)) for row, rate in rows)])
    if not console.is_terminal or max(map(columns, lines)) + 2 <= console.width:
        for line in lines:
            say(console, line)
        return
    head, *figures = in_columns([row[1:] for row in (HEAD, *texts)])
    for name, line in zip([HEAD[0], *(row[0] for row in texts)], [head, *figures], strict=True):
        say(console, name)
        say(console, line, "    ")


def print_private(console: Console, outcome: RunResult) -> None:
    """Print what is private of a run."""
    learner, task = outcome.learner, outcome.task
    lines = list(counts_in_words(outcome.private(), "row" if task.table else "round"))
    lines += [f"  {outcome.unit} {bad.line:,}: {bad.sentence}" for bad in outcome.bad_rows[:5]]
    if _saw_no_positive(learner):
        lines.append("  no row was positive: is --label, or --positive, as you meant it?")
    spent, rows = learner.spent, ledger_rows(learner)
    total = f"spent in all: epsilon {float(spent.epsilon):.4g}, delta {float(spent.delta):.3g}"
    # The total first: people add up what they read above it.
    adding = "not the sum of these: uses that read disjoint rounds count once"
    if task.table:
        adding = "the sum of these: all of them read the table"
    lines.append(f"{total}, {adding}" if rows else total)
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


def print_plan(console: Console, chosen: LearnerChoice, *, forecast: bool = True) -> None:
    """Print a plan as a table; without its forecast, if one for the case in question stands above."""
    say(console, f"{chosen.learner_name}. {chosen.why}\n", "")
    constants = plain_table("what", "value", "why")
    for line in chosen.plan.lines():
        if forecast or line.what != HEURISTIC:
            constants.add_row(*line)
    console.print(constants)


def plain_table(*names: str) -> Table:
    """Make a table without borders, with these columns."""
    made = Table(box=None, padding=(0, 0, 0, 2), show_edge=False)
    for name in names:
        made.add_column(name, overflow="fold")
    return made
