"""What `learn` and `plan` show a person: a live line while it runs, tables when it is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from littlestone.edge.outcome import Outcome, ledger_rows
from littlestone.edge.tasks import Chosen
from littlestone.learning.theorem import TheoremPlan

LONGEST_RULE = 48


class _Rounds(ProgressColumn):
    """Rounds so far, and rounds a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        rate = f"  {speed:,.0f} rounds/s" if speed else ""
        return Text(f"{int(task.completed):,} rounds{rate}")


@contextmanager
def watching(console: Console) -> Iterator[Callable[[Outcome], None]]:
    """A progress bar with the published rule and the budget; silent where nobody looks.

    What is to be known before anything is spent is said at once, wherever that goes.
    """
    told: list[str] = []
    columns = SpinnerColumn(), BarColumn(24), _Rounds(), TextColumn("{task.description}")
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)

        def watch(outcome: Outcome) -> None:
            for note in outcome.notes[len(told) :]:
                bar.console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
                told.append(note)
            learner = outcome.learner
            repeats = outcome.guarantee.repeats
            spent = learner.spent.for_group(repeats)
            rule = Text(clipped(str(learner.hypothesis))).plain.replace("[", r"\[")
            budget = (
                f"epsilon {float(spent.epsilon):.3g} of {float(learner.plan.epsilon) * repeats:.3g}"
            )
            bar.update(
                task,
                total=outcome.length,
                completed=learner.rounds,
                description=outcome.passing or f"{rule}  ({budget})",
            )

        yield watch


def clipped(sentence: str) -> str:
    """A sentence that fits a line."""
    return sentence if len(sentence) <= LONGEST_RULE else sentence[: LONGEST_RULE - 1] + "…"


def _some(count: int, what: str) -> str:
    """1 round, 2 rounds."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The end of a run: what is public, then what is not."""
    learner, task = outcome.learner, outcome.task
    console.print("PUBLIC: the rules, and the rounds from which they stood")
    rules = table("from round", "published rule")
    for release in learner.releases[-20:]:
        rules.add_row(f"{release.round:,}", str(release.rule))
    console.print(rules)
    if len(learner.releases) > 20:
        console.print(f"  (the last 20 of {len(learner.releases):,})")
    console.print(f"\n  {outcome.guarantee}")
    console.print(f"  by {outcome.chosen.learner_name}. {outcome.chosen.why}")
    if task.out is not None:
        console.print(f"  releases written to {task.out}")
    console.print("\nPRIVATE: for the data's holder only")
    share = f" ({learner.mistakes / learner.rounds:.3%})" if learner.rounds else ""
    mistakes, rounds = _some(learner.mistakes, "mistake"), _some(learner.rounds, "round")
    console.print(f"  {mistakes} in {rounds}{share}")
    if learner.null_rounds:
        nulls = _some(learner.null_rounds, "null round")
        console.print(f"  {nulls}: rows that could not be used")
        for bad in outcome.bad_rows[:5]:
            console.print(f"    line {bad.line:,}: {bad.sentence}")
    for mechanism, times, each, adding in ledger_rows(learner):
        console.print(f"  {mechanism} x {times}: {each}, {adding}")
    if task.report is not None:
        console.print(f"  report written to {task.report}")
    for note in outcome.notes:
        console.print(f"\nnote: {note}")


def print_plan(console: Console, chosen: Chosen, theorem: TheoremPlan) -> None:
    """A plan as a table, and what the theorem would ask for."""
    console.print(f"{chosen.learner_name}. {chosen.why}\n")
    constants = table("what", "value", "why")
    for line in chosen.plan.lines():
        constants.add_row(*line)
    console.print(constants)
    console.print("\nWhat the paper's proof would ask for (powers of two; nobody can run it):")
    numbers = table("what", "value")
    for name, value in theorem.lines():
        numbers.add_row(name, value)
    console.print(numbers)


def table(*names: str) -> Table:
    """An open table with these columns."""
    made = Table(box=None, padding=(0, 2, 0, 2), show_edge=False)
    for name in names:
        made.add_column(name, overflow="fold")
    return made
