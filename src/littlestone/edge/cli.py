"""The command line. Each verb reads its arguments, asks the inner rooms, and prints.

Tables are for people, `--json` is for machines. Bad input is one sentence on standard error and
exit code 2, never a traceback.
"""

import io
import json
import math
import sys
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from littlestone import __version__
from littlestone.edge import demo as tour
from littlestone.edge import specs
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.dimension import witness as shattered_tree
from littlestone.theory.errors import BadClass, BadExample, TooLarge
from littlestone.theory.trees import Leaf, MistakeTree, draw
from littlestone.theory.values import to_json

REFUSALS = (specs.BadSpec, BadClass, BadExample, TooLarge)
GRAMMAR = (specs.__doc__ or "").split("\n\n", 1)[1].replace("\n\n    ", "\n\n\b\n    ")

app = typer.Typer(
    name="littlestone",
    help="Differentially private online classification.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _console() -> Console:
    """Prints what it is given: no markup, no emoji (the `:100:` of a specification), no colours."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"littlestone {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None: ...


@app.command(
    epilog="Example: littlestone dimension thresholds:score:0:100:5 --witness",
    help=f"""The Littlestone dimension of a class: the number of mistakes that the best learner
without privacy cannot avoid.

SPEC is one of

\b
{GRAMMAR}""",
)
def dimension(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="The class, as above.")],
    witness: Annotated[
        bool, typer.Option("--witness", help="Draw a shattered mistake tree, which proves it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a machine.")] = False,
) -> None:
    cls = specs.parse_spec(spec)
    found: dict[str, Any] = {
        "class": spec,
        "dimension": cls.dimension,
        "hypotheses": cls.size if (cls.size or 0) < 2**63 else None,
        "mistake_bound": cls.mistake_bound,
    }
    tree = shattered_tree(cls) if witness else None
    if as_json:
        typer.echo(json.dumps(found | ({"witness": tree_to_json(tree)} if tree else {})))
    else:
        _print_dimension(cls, found, tree)


def _print_dimension(cls: HypothesisClass, found: dict[str, Any], tree: MistakeTree | None) -> None:
    console = _console()
    lines = {
        "class": found["class"],
        "Littlestone dimension": cls.dimension,
        "hypotheses": "unbounded" if cls.size is None else _count(cls.size),
        "our learner's mistakes": f"at most {cls.mistake_bound}",
    }
    for name, value in lines.items():
        console.print(f"{name:<24}{value}")
    if tree is not None:
        console.print("\nA shattered mistake tree (whatever the labels, a rule takes that path):\n")
        console.print(draw(tree))


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"about 10^{int(math.log10(number))}"


def tree_to_json(tree: MistakeTree) -> dict[str, object]:
    """A mistake tree as JSON data."""
    if isinstance(tree, Leaf):
        return {"sentence": str(tree.rule), "rule": tree.rule.to_json()}
    point = tree.point
    row = {k: to_json(v) for k, v in point.items()} if isinstance(point, dict) else to_json(point)
    return {"point": row, "zero": tree_to_json(tree.zero), "one": tree_to_json(tree.one)}


@app.command(epilog="Example: littlestone demo")
def demo() -> None:
    """A tour of what exists so far: a class, its dimension, its tree, and a game against it."""
    tour.run(_console())


def main() -> None:
    """Run the command line; refusals become a sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without line drawing shows ?
    try:
        app()
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except REFUSALS as error:
        _refuse(str(error))


def _refuse(sentence: str) -> NoReturn:
    typer.echo(f"error: {sentence}", err=True)
    sys.exit(2)
