"""Run `littlestone plan` and `littlestone dimension`: what is known before any data."""

import json
from typing import Annotated, Any

import typer

from littlestone.classes import specs
from littlestone.classes.base import HypothesisClass
from littlestone.classes.dimension import Leaf, MistakeTree, draw
from littlestone.classes.dimension import witness as shattered_tree
from littlestone.classes.specs import parse_spec
from littlestone.cli.options import (
    AnyLearner,
    AsJson,
    CapOption,
    Delta,
    Epsilon,
    Tolerance,
    WhichPlan,
)
from littlestone.cli.terminal import plain_console, print_plan
from littlestone.display import plural
from littlestone.hypotheses.values import to_json
from littlestone.learners.plan import Plan
from littlestone.store.request import LearnRequest, choose_learner

EXAMPLE = "Example: littlestone plan rules:version,country --delta 1e-7 --horizon 100000"


def plan(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="As in `dimension --help`.")],
    horizon: Annotated[int, typer.Option(help="Rounds to plan for.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    per_user: Annotated[
        bool, typer.Option("--user", help="Protect all rounds of a user together.")
    ] = False,
    cap: CapOption = None,
    tolerance: Tolerance = 0.0,
    learner: AnyLearner = "auto",
    kind: WhichPlan = "practical",
    as_json: AsJson = False,
) -> None:
    """Print every constant of a learner before it sees any data.

    What is proved, what is expected, where the budget goes, and what the paper's theorem would ask
    for.
    """
    task = LearnRequest(
        spec=spec,
        label="",
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        user="user" if per_user else None,
        cap=cap,
        tolerance=tolerance,
        learner=learner,
        plan=kind,
    )
    chosen = choose_learner(task, horizon)
    # The theorem is stated from two rounds on.
    theorem = Plan.theorem(parse_spec(spec), epsilon, delta, max(2, horizon))
    if as_json:
        asked = dict(theorem.lines())
        typer.echo(json.dumps(chosen.to_json() | {"theorem": asked}, ensure_ascii=False))
    else:
        print_plan(plain_console(), chosen, theorem)


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
