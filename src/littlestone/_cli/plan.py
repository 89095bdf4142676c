"""Run `littlestone plan` and `dimension`: what is known before any data."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import typer
from markupsafe import Markup

from littlestone._classes.base import HypothesisClass
from littlestone._classes.dimension import Leaf, MistakeTree, draw
from littlestone._classes.dimension import witness as shattered_tree
from littlestone._classes.specs import parse_spec
from littlestone._cli.terminal import plain_console, print_json, print_plan, say
from littlestone._display import environment, plural
from littlestone._hypotheses.values import to_json
from littlestone._learners.causes_plan import CauseForecast, CausesPlan, forecast
from littlestone._learners.plan_table import PlanTable
from littlestone._learners.registry import SmallestEpsilon, smallest_epsilon
from littlestone._privacy.parameters import BadParameter
from littlestone._report.report import refuse_file
from littlestone._store.request import LearnRequest, choose_learner

# The stops of the sliders (epsilon, share, rate, base), and where they begin if nothing is said.
# What is asked for is one stop more.
STOPS = (
    (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8),
    (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1),
    (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
)
BEGIN = (1, 0.05, 0.3, 0.01)


def plan(
    spec: str,
    task: LearnRequest,
    *,
    rate: float | None,
    share: float | None,
    base: float | None,
    mistakes: int | None,
    positives: int | None,
    rounds: int | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Print every constant of a learner before it sees any data."""
    refuse_file(html, task.force)
    task, smallest, horizon = replace(task, spec=spec), None, task.horizon
    if horizon is None:
        raise BadParameter("say --horizon, the number of rounds to plan for")
    if any(number is not None for number in (mistakes, positives, rounds)):
        if "epsilon" in task.given:
            raise BadParameter("--epsilon conflicts with --mistakes, --positives and --rounds")
        for name, number in (("positives", positives), ("rounds", rounds)):
            if number is not None and rate is None:
                raise BadParameter(f"--{name} requires --rate: how often is a cause positive?")
        smallest = smallest_epsilon(
            task.cls,
            task.delta,
            horizon,
            mistakes=mistakes,
            positives=positives,
            rounds=rounds,
            rate=rate,
            share=share,
            base=base or 0.0,
            learner=task.learner,
            unit=task.unit,
            cap=task.cap,
            change_cost=task.change_cost,
            min_rate=task.min_rate,
            baseline=task.baseline,
            table=task.table,
        )
        task = replace(task, epsilon=smallest.epsilon)
    chosen = choose_learner(task, horizon)
    forecasts = _forecasts(chosen.plan, rate, share=share, base=base)
    if html is not None:
        asked = (task.epsilon, share, rate, base if rate is None else base or 0.0)
        html.write_text(what_if(task, horizon, asked), encoding="utf-8")
    if as_json:
        data = {} if smallest is None else {"smallest_epsilon": _smallest_to_json(smallest)}
        data |= chosen.to_json() | (
            {"forecast": _forecasts_to_json(forecasts)} if forecasts else {}
        )
        print_json(data)
        return
    console = plain_console()
    if smallest is not None:
        what = "mistakes" if mistakes else "positives" if positives else "rounds"
        say(console, f"{_smallest_in_words(smallest, what)}\n", "")
    # The answer first, then the constants that it follows from.
    if rate is not None and forecasts:
        console.print(f"A cause that is positive {rate:.1%} of the time:")
        of_its = "positives" if task.user is None else "users have failed"
        rows = "rows" if task.table else "rounds"
        for sentence in _in_words(forecasts, share, horizon, of_its, rows):
            say(console, sentence)
        console.print()
    print_plan(console, chosen, forecast=not forecasts)
    if html is not None:
        say(console, f"sliders for epsilon, share, rate and base written to {html}", "")


def what_if(task: LearnRequest, horizon: int, asked: Sequence[float | None]) -> str:
    """Return a page with sliders as HTML. Its table holds what `plan` prints for all their stops."""
    begin = [usual if value is None else value for value, usual in zip(asked, BEGIN, strict=True)]
    stops = [sorted({*usual, value}) for usual, value in zip(STOPS, begin, strict=True)]
    cells: list[CauseForecast] = []
    for epsilon in stops[0]:
        plan = choose_learner(replace(task, epsilon=epsilon), horizon).plan
        if not isinstance(plan, CausesPlan):
            raise BadParameter("--html is about a class of causes: causes:COLUMN,...")
        cells += (forecast(plan, r, share=s, base=b) for s, r, b in product(*stops[1:]))
    numbers = [[cell["positives"] or 0, cell["rounds"] or 0] for cell in _forecasts_to_json(cells)]
    # Only numbers, so nothing in it can end the script.
    table = json.dumps([*zip(*numbers, strict=True)], separators=(",", ":"))
    return (
        environment("littlestone._report")
        .get_template("what_if.html.j2")
        .render(
            task=task,
            horizon=horizon,
            stops=[
                [f"{100 * stop:g}\N{NO-BREAK SPACE}%" if axis else f"{stop:g}" for stop in found]
                for axis, found in enumerate(stops)
            ],
            begin=[found.index(value) for found, value in zip(stops, begin, strict=True)],
            table=Markup(table),
        )
    )


def _smallest_to_json(found: SmallestEpsilon) -> dict[str, Any]:
    # JSON has no infinity: null where nothing is expected to be published.
    numbers = found._asdict() | {"choice": None}
    finite = {n: None if v == float("inf") else v for n, v in numbers.items() if n != "choice"}
    return finite | {"grid": "two significant digits, 0.001 to 100"}


def _smallest_in_words(found: SmallestEpsilon, what: str) -> str:
    words = f"epsilon {found.epsilon:g} is the smallest of two digits: "
    words += f"about {found.forecast:,.0f} {what}"
    if found.below is None or found.forecast_below is None:
        return f"{words}, and no smaller one is tried"
    if found.forecast_below == float("inf"):
        return f"{words}; with {found.below:g} no cause is expected to be published"
    words += f"; with {found.below:g} it would be {found.forecast_below:,.0f}"
    return words + ("\nabove 4 it is hard to call it private" if found.epsilon > 4 else "")


def _forecasts(
    plan: PlanTable, rate: float | None, *, share: float | None, base: float | None
) -> list[CauseForecast]:
    """Return a forecast for every width of a cause."""
    if rate is None:
        if share is not None or base is not None:
            raise BadParameter("--share and --base require --rate: how often is a cause positive?")
        return []
    if not isinstance(plan, CausesPlan):
        raise BadParameter("--rate is about a class of causes: causes:COLUMN,...")
    widths = range(1, 1 + len(plan.prior))
    return [forecast(plan, rate, share=share, base=base or 0.0, width=width) for width in widths]


def _forecasts_to_json(forecasts: list[CauseForecast]) -> list[dict[str, Any]]:
    return [
        {
            "conditions": width,
            "rate_to_beat": each.rate_to_beat,
            "positives": round(each.positives) if each.found else None,
            "rounds": None if each.rounds is None else round(each.rounds),
        }
        for width, each in enumerate(forecasts, 1)
    ]


def _in_words(
    forecasts: list[CauseForecast], share: float | None, horizon: int, of_its: str, rows: str
) -> Iterator[str]:
    for width, expected in enumerate(forecasts, 1):
        conditions = "1 condition" if width == 1 else f"{width} conditions"
        if not expected.found:
            yield (
                f"of {conditions}: not expected to be published. It has to beat a rate of "
                f"{expected.rate_to_beat:.1%}, and must not be too rare among the positives"
            )
            continue
        words = f"of {conditions}: published after about {expected.positives:,.0f} of its {of_its}"
        if expected.rounds is not None:
            words += f", {expected.rounds:,.0f} {rows}"
            words += " (beyond the horizon)" if expected.rounds > horizon else ""
        yield f"{words}; it has to beat a rate of {expected.rate_to_beat:.1%}"
    if share is None:
        yield f"give --share, the share of events that it matches, for the number of {rows}"
    yield "a heuristic for one cause that stands alone: half of all runs or so take longer"


def print_dimension(spec: str, *, witness: bool, as_json: bool) -> None:
    """Print the Littlestone dimension of a class, and a tree that proves it if asked for."""
    cls = parse_spec(spec)
    facts: dict[str, Any] = {
        "class": spec,
        "dimension": cls.dimension,
        # Readers of JSON often hold 64 bits: a larger count would be rounded by them.
        "hypotheses": cls.size if (cls.size or 0) < 2**63 else None,
        "mistake_bound": cls.mistake_bound,
    }
    tree = shattered_tree(cls) if witness else None
    if as_json:
        typer.echo(json.dumps(facts | ({"witness": tree_to_json(tree)} if tree else {})))
    else:
        _print_facts(cls, facts, tree)


def _print_facts(cls: HypothesisClass, found: dict[str, Any], tree: MistakeTree | None) -> None:
    console = plain_console()
    lines = {
        "class": found["class"],
        "Littlestone dimension": cls.dimension,
        "hypotheses": "unbounded" if cls.size is None else plural(cls.size),
        "without privacy": f"at most {cls.mistake_bound} mistakes",
    }
    for name, value in lines.items():
        console.print(f"{name:<24}{value}")
    if tree is not None:
        console.print("\nA shattered mistake tree (whatever the labels, a rule takes that path):\n")
        console.print(draw(tree))


def tree_to_json(tree: MistakeTree) -> dict[str, object]:
    """Return a mistake tree as JSON data."""
    if isinstance(tree, Leaf):
        return {"sentence": str(tree.rule), "rule": tree.rule.to_json()}
    point = tree.point
    row = {k: to_json(v) for k, v in point.items()} if isinstance(point, dict) else to_json(point)
    return {"point": row, "zero": tree_to_json(tree.zero), "one": tree_to_json(tree.one)}
