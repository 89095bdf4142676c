"""Run `littlestone plan` and `littlestone dimension`: what is known before any data."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from littlestone._classes import specs
from littlestone._classes.base import HypothesisClass
from littlestone._classes.dimension import Leaf, MistakeTree, draw
from littlestone._classes.dimension import witness as shattered_tree
from littlestone._classes.specs import parse_spec
from littlestone._cli.options import (
    AnyLearner,
    AsJson,
    CapOption,
    ChangeCost,
    Delta,
    Epsilon,
    MinRate,
    WhichPlan,
    given,
    read_min_rate,
)
from littlestone._cli.terminal import plain_console, print_plan
from littlestone._display import plural
from littlestone._hypotheses.values import to_json
from littlestone._learners.base import LearnerPlan
from littlestone._learners.causes_plan import CauseForecast, CausesPlan, forecast
from littlestone._learners.inverse_plan import SmallestEpsilon, smallest_epsilon
from littlestone._learners.plan import Plan
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._privacy.parameters import BadParameter
from littlestone._store.request import LearnRequest, choose_learner

EXAMPLE = (
    "Example: littlestone plan causes:version,country:2 --delta 1e-7 --horizon 100000 --rate 0.3 "
    "--share 0.05 --base 0.01"
)


def plan(
    context: typer.Context,
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="As in `dimension --help`.")],
    horizon: Annotated[int, typer.Option(help="Rounds to plan for.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    per_user: Annotated[
        bool, typer.Option("--user", help="Protect all rounds of a user together.")
    ] = False,
    cap: CapOption = None,
    change_cost: ChangeCost = CHANGE_COST,
    min_rate: MinRate = "auto",
    rate: Annotated[
        float | None, typer.Option(help="For causes: how often a cause's events are positive.")
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="With --rate: the share of events that the cause matches.")
    ] = None,
    base: Annotated[
        float | None, typer.Option(help="With --rate: how often other events are positive.")
    ] = None,
    mistakes: Annotated[
        int | None,
        typer.Option(help="Instead of --epsilon: the smallest with so many mistakes a change."),
    ] = None,
    positives: Annotated[
        int | None,
        typer.Option(help="The same for causes, with --rate: positives until one is published."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="The same for causes, with --rate and --share: rounds.")
    ] = None,
    learner: AnyLearner = "auto",
    kind: WhichPlan = "practical",
    as_json: AsJson = False,
) -> None:
    """Print every constant of a learner before it sees any data."""
    found = None
    if any(number is not None for number in (mistakes, positives, rounds)):
        if "epsilon" in given(context):
            raise BadParameter("--epsilon conflicts with --mistakes, --positives and --rounds")
        if kind != "practical":
            raise BadParameter(f"--plan {kind} has no forecast: leave it out")
        for name, number in (("positives", positives), ("rounds", rounds)):
            if number is not None and rate is None:
                raise BadParameter(f"--{name} requires --rate: how often is a cause positive?")
        found = smallest_epsilon(
            parse_spec(spec),
            delta,
            horizon,
            mistakes=mistakes,
            positives=positives,
            rounds=rounds,
            rate=rate,
            share=share,
            base=base or 0.0,
            learner=learner,
            unit="user" if per_user else "event",
            cap=cap,
            change_cost=change_cost,
            min_rate=read_min_rate(min_rate),
        )
        epsilon = found.epsilon
    task = LearnRequest(
        spec=spec,
        label="",
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        user="user" if per_user else None,
        cap=cap,
        change_cost=change_cost,
        min_rate=read_min_rate(min_rate),
        learner=learner,
        plan=kind,
    )
    chosen = choose_learner(task, horizon)
    forecasts = _forecasts(chosen.plan, rate, share=share, base=base)
    # The paper's theorem is about DPSOA, which counts mistakes: nothing in it is about causes.
    causes = isinstance(chosen.plan, CausesPlan)
    theorem = None
    if not causes:
        theorem = Plan.theorem(parse_spec(spec), epsilon, delta, max(2, horizon))
    if as_json:
        data = {} if found is None else {"smallest_epsilon": _smallest_to_json(found)}
        data |= chosen.to_json() | (
            {"forecast": _forecasts_to_json(forecasts)} if forecasts else {}
        )
        asked = {} if theorem is None else {"theorem": dict(theorem.lines())}
        typer.echo(json.dumps(data | asked, ensure_ascii=False))
        return
    console = plain_console()
    if found is not None:
        what = "mistakes" if mistakes else "positives" if positives else "rounds"
        console.print(f"{_smallest_in_words(found, what)}\n")
    print_plan(console, chosen, theorem)
    if rate is not None and forecasts:
        console.print(f"\nA cause that is positive {rate:.1%} of the time:")
        for sentence in _in_words(forecasts, share, horizon):
            console.print(f"  {sentence}")


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
    plan: LearnerPlan, rate: float | None, *, share: float | None, base: float | None
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
            "min_rate": found.min_rate,
            "positives": round(found.positives) if found.found else None,
            "rounds": None if found.rounds is None else round(found.rounds),
        }
        for width, found in enumerate(forecasts, 1)
    ]


def _in_words(forecasts: list[CauseForecast], share: float | None, horizon: int) -> Iterator[str]:
    for width, found in enumerate(forecasts, 1):
        conditions = "1 condition" if width == 1 else f"{width} conditions"
        if not found.found:
            yield (
                f"of {conditions}: not expected to be published, with min_rate "
                f"{found.min_rate:.1%}: its rate is too low, or it is too rare among the positives"
            )
            continue
        words = f"of {conditions}: published after about {found.positives:,.0f} of its positives"
        if found.rounds is not None:
            words += f", {found.rounds:,.0f} rounds"
            words += " (beyond the horizon)" if found.rounds > horizon else ""
        yield f"{words}, with min_rate {found.min_rate:.1%}"
    if share is None:
        yield "give --share, the share of events that it matches, for the number of rounds"
    yield "a heuristic for one cause that stands alone: half of all runs or so take longer"


DIMENSION_EXAMPLE = "Example: littlestone dimension thresholds:score:0:100:5 --witness"
GRAMMAR = (specs.__doc__ or "").split("\n\n", 1)[1].replace("\n\n    ", "\n\n\b\n    ")
DIMENSION_HELP = f"""Print the Littlestone dimension of a class: the number of mistakes that the
best learner without privacy cannot avoid.

SPEC is one of

\b
{GRAMMAR}"""


def print_dimension(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="The class, as above.")],
    witness: Annotated[
        bool, typer.Option("--witness", help="Draw a shattered mistake tree, which proves it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the Littlestone dimension of a class, and a tree that proves it if asked for."""
    cls = specs.parse_spec(spec)
    found: dict[str, Any] = {
        "class": spec,
        "dimension": cls.dimension,
        # Readers of JSON often hold 64 bits: a larger count would be rounded by them.
        "hypotheses": cls.size if (cls.size or 0) < 2**63 else None,
        "mistake_bound": cls.mistake_bound,
    }
    tree = shattered_tree(cls) if witness else None
    if as_json:
        typer.echo(json.dumps(found | ({"witness": tree_to_json(tree)} if tree else {})))
    else:
        _print_dimension(cls, found, tree)


def _print_dimension(cls: HypothesisClass, found: dict[str, Any], tree: MistakeTree | None) -> None:
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
