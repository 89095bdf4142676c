"""Run `littlestone budget`: create, show, explain and draw from the budgets of data sets."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from littlestone._cli.options import AsJson, BudgetsFile, DatasetName, DrawNote, SomeDataset
from littlestone._cli.terminal import open_table, plain_console, wide_console
from littlestone._privacy.accounting import Cost, Unit
from littlestone._privacy.budget_file import BadBudget, BudgetFile, read_budgets
from littlestone._privacy.budget_state import BudgetDraw, BudgetState, cost_text, still_possible
from littlestone._privacy.parameters import BadParameter, float_above
from littlestone._report.causes import bar

app = typer.Typer(
    help="Keep the privacy budgets of data sets in a file that all runs draw from.\n\n"
    "A data set has a total epsilon and delta. With `learn --budget FILE --dataset NAME`, and the "
    "same for `serve`, every run draws what it costs before it learns a row, or is refused. All "
    "that is shown here is public.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    "create", epilog="Example: littlestone budget create budgets.db visits --epsilon 3 --delta 1e-6"
)
def create_budget(
    file: BudgetsFile,
    dataset: DatasetName,
    epsilon: Annotated[float, typer.Option(help="What all runs may cost together.")],
    delta: Annotated[float, typer.Option(help="The same for delta.")] = 0.0,
    per_user: Annotated[
        bool, typer.Option("--user", help="Count per user: every run must protect users.")
    ] = False,
) -> None:
    """Create the budget of a data set, and the file if there is none."""
    unit: Unit = "user" if per_user else "event"
    made = BudgetFile.create(file, dataset, epsilon=epsilon, delta=delta, unit=unit)
    console = plain_console()
    console.print(f"{dataset}: {cost_text(made.read().total)}, per {unit}, nothing drawn")
    console.print(f"  draw from it with `learn ... --budget {file} --dataset {dataset}`")


@app.command("show", epilog="Example: littlestone budget show budgets.db")
def show_budgets(file: BudgetsFile, dataset: SomeDataset = None, as_json: AsJson = False) -> None:
    """Show what each data set has left."""
    states = _states(file, dataset)
    if as_json:
        typer.echo(json.dumps([_to_json(state) for state in states], ensure_ascii=False))
        return
    console = plain_console()
    table = open_table("data set", "per", "epsilon left", "", "delta left", "runs")
    full = "█" if console.is_terminal else "#"
    for state in states:
        left, total = state.left, state.total
        table.add_row(
            state.dataset,
            state.unit,
            f"{float(left.epsilon):.4g} of {float(total.epsilon):.4g}",
            bar(float(left.epsilon / total.epsilon) if left.epsilon else None, full=full),
            f"{float(left.delta):.3g} of {float(total.delta):.3g}",
            f"{len({one.run for one in state.draws if not one.runs}):,}",
        )
    wide_console(console).print(table)


@app.command("explain", epilog="Example: littlestone budget explain budgets.db visits")
def explain_budgets(
    file: BudgetsFile, dataset: SomeDataset = None, as_json: AsJson = False
) -> None:
    """Explain who drew what, when and by which composition, and what could still be run."""
    states = _states(file, dataset)
    if as_json:
        found = [_to_json(state) | _details(state) for state in states]
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for state in states:
        _explain(plain_console(), state)


@app.command(
    "declare",
    epilog="Example: littlestone budget declare budgets.db visits --runs 20x0.1 --runs 2x0.5,1e-9 "
    "--delta 5e-7",
)
def declare_runs(
    file: BudgetsFile,
    dataset: DatasetName,
    runs: Annotated[
        list[str],
        typer.Option(metavar="COUNTxEPSILON[,DELTA]", help="So many runs. Can be repeated."),
    ],
    delta: Annotated[float, typer.Option(help="The delta of all of them together.")],
    note: DrawNote = "",
) -> None:
    """Declare a series of runs beforehand, and draw what it costs: less than the sum, if many."""
    declared = [_runs(text) for text in runs]
    receipt = BudgetFile(file, dataset).declare(declared, delta, note=note)
    added = sum(count * epsilon for count, epsilon, _ in declared)
    plain_console().print(f"{receipt}\n  added up, epsilon would be {added:.4g}")


@app.command(
    "draw", epilog="Example: littlestone budget draw budgets.db visits --epsilon 0.5 --note survey"
)
def draw_by_hand(
    file: BudgetsFile,
    dataset: DatasetName,
    epsilon: Annotated[float, typer.Option(help="What it costs.")],
    delta: Annotated[float, typer.Option(help="The same for delta.")] = 0.0,
    per_user: Annotated[
        bool, typer.Option("--user", help="It protects all rounds of a user together.")
    ] = False,
    note: DrawNote = "",
) -> None:
    """Draw for something else that was, or will be, published about the data set."""
    unit: Unit = "user" if per_user else "event"
    drawn = BudgetFile(file, dataset).draw(epsilon, delta, unit=unit, note=note)
    plain_console().print(str(drawn))


def _states(file: Path, dataset: str | None) -> list[BudgetState]:
    if dataset is not None:
        return [BudgetFile(file, dataset).read()]
    if states := read_budgets(file):
        return states
    raise BadBudget(f"{file} has no data set yet: `littlestone budget create` creates one")


def _runs(text: str) -> tuple[int, float, float]:
    """Read 20x0.1 or 20x0.1,1e-9."""
    count, _, cost = text.partition("x")
    epsilon, _, delta = cost.partition(",")
    try:
        return int(count), float(epsilon), float(delta or 0)
    except ValueError:
        raise BadParameter(
            f"--runs {text!r} is not COUNTxEPSILON[,DELTA], such as 20x0.1 or 2x0.5,1e-9"
        ) from None


def _to_json(state: BudgetState) -> dict[str, Any]:
    return {
        "dataset": state.dataset,
        "unit": state.unit,
        "created": state.created,
        "guarantee": str(state.guarantee),
        "total": _numbers(state.total),
        "spent": _numbers(state.spent),
        # Rounded down: what is left may be typed.
        "left": {n: -float_above(-getattr(state.left, n)) for n in ("epsilon", "delta")},
    }


def _numbers(cost: Cost) -> dict[str, float]:
    return {"epsilon": float_above(cost.epsilon), "delta": float_above(cost.delta)}


def _details(state: BudgetState) -> dict[str, Any]:
    return {
        "draws": [
            {
                "at": one.at,
                "run": one.run,
                "note": one.note,
                "unit": one.unit,
                "charged": _numbers(one.cost),
                "planned": _numbers(one.planned),
                "by": one.by,
            }
            for one in state.draws
        ],
        "declared": [
            {"series": series, "runs": count, **_numbers(cost)}
            for (series, cost), count in state.slots().items()
        ],
        "still_possible": [
            {"runs": row.runs, "added": _numbers(row.added), "declared": _numbers(row.declared)}
            for row in still_possible(state.left)
        ],
    }


def _explain(console: Console, state: BudgetState) -> None:
    total, left = cost_text(state.total), cost_text(state.left)
    console.print(f"{state.dataset}: {left} left of {total}, per {state.unit}\n")
    if state.draws:
        table = open_table("when (UTC)", "run", "epsilon", "delta", "charged by", "what")
        for one in state.draws:
            table.add_row(
                one.at[:19].replace("T", " "),
                one.run,
                f"{float(one.cost.epsilon):.4g}",
                f"{float(one.cost.delta):.3g}",
                one.by,
                _what(one),
            )
        wide_console(console).print(table)
    for (series, cost), count in state.slots().items():
        console.print(f"  {count:,} runs of {cost_text(cost)} of {series} are not begun yet")
    rows = still_possible(state.left)
    if not rows:
        console.print("\nNothing can be run any more.")
        return
    console.print("\nWhat could still be run: epsilon and delta of each of so many runs")
    table = open_table("runs", "each, added up", "each, declared beforehand")
    for row in rows:
        table.add_row(f"{row.runs:,}", cost_text(row.added), cost_text(row.declared))
    wide_console(console).print(table)
    console.print(f"\nWhat may be quoted: {state.guarantee}, for all runs together")


def _what(one: BudgetDraw) -> str:
    if not one.runs:
        return one.note
    runs = ", ".join(f"{count} x {cost_text(cost)}" for count, cost in one.runs)
    return f"{one.note}: {runs}" if one.note else runs
