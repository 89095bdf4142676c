"""The command line. Each verb reads its arguments, asks the inner rooms, and prints.

Tables are for people, `--json` is for machines. What is public goes to standard output, what is
private to standard error or to a file that only its owner may read. Bad input is one sentence on
standard error and exit code 2, never a traceback. What only one verb needs is imported when that
verb runs.
"""

import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from littlestone.classes import specs
from littlestone.classes.base import HypothesisClass
from littlestone.classes.dimension import Leaf, MistakeTree, draw
from littlestone.classes.dimension import witness as shattered_tree
from littlestone.cli import audit as trial
from littlestone.cli import compare as versus
from littlestone.cli import serve as serving
from littlestone.cli import show as viewing
from littlestone.cli.options import (
    AsJson,
    CapOption,
    Delta,
    Epsilon,
    LabelOption,
    PrivateJson,
    Seed,
    Spec,
    Tolerance,
    UserOption,
    WhichEngine,
    WhichLearner,
    WhichPlan,
    given,
)
from littlestone.cli.terminal import (
    plain_console,
    print_plan,
    print_private,
    print_result,
    progress_bar,
)
from littlestone.display import library_version, plural
from littlestone.errors import LittlestoneError
from littlestone.hypotheses.values import to_json
from littlestone.learners.plan import Plan
from littlestone.privacy.parameters import BadParameter
from littlestone.report.result import refuse_file
from littlestone.store.run_config import LearnRequest, choose_learner

GRAMMAR = (specs.__doc__ or "").split("\n\n", 1)[1].replace("\n\n    ", "\n\n\b\n    ")


app = typer.Typer(
    name="littlestone",
    help="Differentially private online classification.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"littlestone {library_version()}")
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
    as_json: AsJson = False,
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
    """A mistake tree as JSON data."""
    if isinstance(tree, Leaf):
        return {"sentence": str(tree.rule), "rule": tree.rule.to_json()}
    point = tree.point
    row = {k: to_json(v) for k, v in point.items()} if isinstance(point, dict) else to_json(point)
    return {"point": row, "zero": tree_to_json(tree.zero), "one": tree_to_json(tree.one)}


@app.command(
    epilog="Example: littlestone learn events.csv --class rules:version,country --label failed "
    "--epsilon 1 --delta 1e-7 --out releases.jsonl --report report.html"
)
def learn(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, JSON lines or Parquet, plain or .gz; a folder of Parquet; - is stdin."
        ),
    ],
    spec: Spec = None,
    label: LabelOption = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    horizon: Annotated[
        int | None, typer.Option(help="Rounds to plan for; by default the rows of the file.")
    ] = None,
    user: UserOption = None,
    cap: CapOption = None,
    tolerance: Tolerance = 0.0,
    learner: WhichLearner = "auto",
    plan: WhichPlan = "practical",
    db: Annotated[
        Path | None,
        typer.Option(help="Keep the learner in this file, and go on from it. Private."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the releases here, as JSON lines. Public.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here. Private.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a bad row, outside the guarantee.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out and --report.")] = False,
    format_: Annotated[
        str | None, typer.Option("--format", help="csv, tsv, jsonl or parquet; else by name.")
    ] = None,
    private_json: PrivateJson = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="With --db: a last line without a line feed is a row."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="With --db: check every row that was learned before."),
    ] = False,
    new_rows: Annotated[
        bool,
        typer.Option("--new-rows", help="With --db: no row of the file was learned before."),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="With --db: learn known rows once more; epsilon adds up."),
    ] = False,
    seed: Seed = None,
    engine: WhichEngine = None,
    workers: Annotated[
        int | None, typer.Option(help="Shards of the engine; as many as it has cores by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a rule from a stream of labelled rows, privately: before each row a rule is published.

    A row that cannot be read becomes a null round and keeps its place. What is printed on standard
    output is public. The report, and what is printed under PRIVATE on standard error (mistakes,
    null rounds), belong to the data owner. A second run on the same data spends again, unless
    --db goes on with the first: then each row is learned once, and a file is recognised by its
    rows, whatever its name. Then, too, a last line without a line feed waits for the next run: it
    may be unfinished.
    """
    from littlestone.cli.run import run, run_stored
    from littlestone.ray import redirect_output

    if db is None or not db.exists():
        asked = {"which --class of rules to learn": spec, "which column is the --label": label}
        if missing := [what for what, said in asked.items() if said is None]:
            raise BadParameter(f"say {', and '.join(missing)}")
    task = LearnRequest(
        file, spec or "", label or "", epsilon, delta, horizon, user, cap, tolerance, learner, plan,
        seed, strict, format_, out, report, private_json, force, engine, workers, given(context),
        again=again, new_rows=new_rows, complete=complete, verify=verify,
    )  # fmt: skip
    task.refuse_without_store(db)
    refuse_file(private_json, force)
    try:
        with redirect_output(engine), progress_bar(Console(stderr=True)) as watch:
            outcome = run(task, watch) if db is None else run_stored(task, db, watch)
    except KeyboardInterrupt:
        typer.echo(_stopped(db), err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps({"public": outcome.public()}, ensure_ascii=False))
    else:
        print_result(plain_console(), outcome)
    sys.stdout.flush()
    print_private(plain_console(stderr=True), outcome)


def _stopped(db: Path | None) -> str:
    if db is None:
        return "stopped: what was released so far stands, and running again spends again"
    return "stopped: what was learned is in the file; the same command goes on, each row once"


@app.command(epilog="Example: littlestone plan rules:version,country --delta 1e-7 --horizon 100000")
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
    learner: WhichLearner = "auto",
    kind: WhichPlan = "practical",
    as_json: AsJson = False,
) -> None:
    """Every constant of a learner before it sees any data: what is proved, what is hoped, where the
    budget goes, and what the paper's theorem would ask for."""
    task = LearnRequest(
        "",
        spec,
        "",
        epsilon,
        delta,
        horizon,
        "user" if per_user else None,
        cap,
        tolerance,
        learner,
        kind,
    )
    chosen = choose_learner(task, horizon)
    theorem = Plan.theorem(specs.parse_spec(spec), epsilon, delta, max(2, horizon))
    if as_json:
        asked = dict(theorem.lines())
        typer.echo(json.dumps(chosen.to_json() | {"theorem": asked}, ensure_ascii=False))
    else:
        print_plan(plain_console(), chosen, theorem)


app.command(epilog=versus.EXAMPLE)(versus.compare)
app.command(epilog=trial.EXAMPLE)(trial.audit)
app.command(epilog=viewing.EXAMPLE)(viewing.show)
app.command(epilog=serving.EXAMPLE)(serving.serve)


@app.command(epilog="Example: littlestone demo")
def demo(
    folder: Annotated[
        Path, typer.Option("--out", help="Where to leave the events, releases and report.")
    ] = Path("littlestone-demo"),
) -> None:
    """The whole story on a built-in stream of telemetry: a cause is found, privately."""
    from littlestone.cli.demo import run_demo

    run_demo(plain_console(), plain_console(stderr=True), folder)


def main() -> None:
    """Run the command line; refusals become a sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without line drawing shows ?
    try:
        app()
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except LittlestoneError as error:
        _refuse(str(error))


def _refuse(sentence: str) -> NoReturn:
    typer.echo(f"error: {sentence}", err=True)
    sys.exit(2)
