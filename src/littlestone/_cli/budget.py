"""Run `littlestone budget`: create, show, explain and draw from the budgets of data sets."""

from pathlib import Path
from typing import Any

from rich.console import Console

from littlestone._cli.terminal import noting, plain_console, plain_table, print_json, wide_console
from littlestone._privacy.accounting import Cost, Unit
from littlestone._privacy.parameters import float_above
from littlestone._report.causes import bar
from littlestone._store.budgets import BadBudget, BudgetFile, BudgetState, cost_text, read_budgets


def create_budget(
    file: Path, dataset: str, *, epsilon: float, delta: float, per_user: bool
) -> None:
    """Create the budget of a data set, and the file if there is none."""
    unit: Unit = "user" if per_user else "event"
    with noting() as caught:
        made = BudgetFile.create(file, dataset, epsilon=epsilon, delta=delta, unit=unit)
    console = plain_console()
    console.print(f"{dataset}: {cost_text(made.read().total)}, per {unit}, nothing drawn")
    console.print(f"  draw from it with `learn ... --budget {file} --dataset {dataset}`")
    for note in caught:
        console.print(f"  {note}")


def show_budgets(file: Path, dataset: str | None, as_json: bool) -> None:
    """Show what each data set has left."""
    states = _states(file, dataset)
    if as_json:
        print_json([_to_json(state) for state in states])
        return
    console = plain_console()
    table = plain_table("data set", "per", "epsilon left", "", "delta left", "runs")
    full = "█" if console.is_terminal else "#"
    for state in states:
        left, total = state.left, state.total
        table.add_row(
            state.dataset,
            state.unit,
            f"{float(left.epsilon):.4g} of {float(total.epsilon):.4g}",
            bar(float(left.epsilon / total.epsilon) if left.epsilon else None, full=full),
            f"{float(left.delta):.3g} of {float(total.delta):.3g}",
            f"{len({draw.run for draw in state.draws}):,}",
        )
    wide_console(console).print(table)


def explain_budgets(file: Path, dataset: str | None, as_json: bool) -> None:
    """Explain who drew what and when, and what could still be run."""
    states = _states(file, dataset)
    if as_json:
        print_json([_to_json(state) | _details(state) for state in states])
        return
    for state in states:
        _explain(plain_console(), state)


def draw_by_hand(
    file: Path, dataset: str, *, epsilon: float, delta: float, per_user: bool, note: str
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
                "at": draw.at,
                "run": draw.run,
                "note": draw.note,
                "unit": draw.unit,
                "charged": _numbers(draw.cost),
                "again": draw.is_repeat,
            }
            for draw in state.draws
        ],
        "still_possible": [
            {"runs": runs, "each": _numbers(each)} for runs, each in _still_possible(state)
        ],
    }


def _still_possible(state: BudgetState) -> list[tuple[int, Cost]]:
    """Return what each of so many further runs may cost, so that all of them fit."""
    left = state.left
    counts = (1, 2, 5, 10, 100) if left.epsilon else ()
    return [(count, Cost(left.epsilon / count, left.delta / count)) for count in counts]


def _explain(console: Console, state: BudgetState) -> None:
    total, left = cost_text(state.total), cost_text(state.left)
    console.print(f"{state.dataset}: {left} left of {total}, per {state.unit}\n")
    if state.draws:
        table = plain_table("when (UTC)", "run", "epsilon", "delta", "what")
        for draw in state.draws:
            table.add_row(
                draw.at[:19].replace("T", " "),
                draw.run,
                f"{float(draw.cost.epsilon):.4g}",
                f"{float(draw.cost.delta):.3g}",
                f"{draw.note}, rows learned again" if draw.is_repeat else draw.note,
            )
        wide_console(console).print(table)
    if not (rows := _still_possible(state)):
        console.print("\nNothing can be run any more.")
        return
    console.print("\nWhat could still be run: so many runs, each of at most")
    table = plain_table("runs", "each")
    for runs, each in rows:
        table.add_row(f"{runs:,}", cost_text(each))
    wide_console(console).print(table)
    console.print(f"\nWhat may be quoted, for all runs together: {state.guarantee}")
    console.print("Both numbers are rounded up to five digits, so they understate nothing.")
