"""Run `littlestone dimension`: what no learner can avoid, and a tree that proves it."""

import json
from typing import Any

import typer

from littlestone._classes.base import HypothesisClass
from littlestone._classes.dimension import Leaf, MistakeTree, draw
from littlestone._classes.dimension import witness as shattered_tree
from littlestone._classes.specs import parse_spec
from littlestone._cli.terminal import plain_console
from littlestone._display import plural
from littlestone._hypotheses.values import to_json


def print_dimension(spec: str, *, witness: bool, as_json: bool) -> None:
    """Print the Littlestone dimension of a class, and a tree that proves it if asked for."""
    cls = parse_spec(spec)
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
        _print_facts(cls, found, tree)


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
