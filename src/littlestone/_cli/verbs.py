"""Declare every verb: what it takes, and what its help says.

The module of a verb does the work, and is imported when the verb runs. So `--help` and the completion
of a shell, which need the words only, import nothing that learns.
"""

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from littlestone._cli.options import (
    ALERTS,
    AS_JSON,
    BASELINE,
    BUDGET_AND_UNIT,
    CHANGE_COST,
    DELIMITER,
    ENCODING,
    FORMAT,
    KAFKA_CONFIG,
    KAFKA_OPTION,
    LABELS,
    MIN_RATE,
    OPTIONS,
    PANELS,
    PRIVATE_JSON,
    Parameter,
    argument,
    option,
    request_of,
)
from littlestone._display import library_version

# The panels of the verbs, the first to be tried first.
BEGIN, RUN, CHECK = "Begin here", "Keep it running", "Understand and check"
# A verb with fewer options shows them in one list.
_MANY_OPTIONS = 12
Records = dict[str, list[tuple[str, str]]]


class _Verb(TyperCommand):
    """Show the options of a verb in panels, if they are many."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        parameters = self.get_params(ctx)
        names = [*PANELS] if len(parameters) >= _MANY_OPTIONS else ["Options"]
        records: Records = {name: [] for name in ("Arguments", *names)}
        for parameter in parameters:
            panels = [name for name in names if parameter.name in PANELS.get(name, "").split()]
            if parameter.param_type_name == "argument":
                panels = ["Arguments"]
            if (record := parameter.get_help_record(ctx)) is not None:
                records[(panels or names)[0]].append(record)
        _write_panels(formatter, records)


class _Verbs(TyperGroup):
    """Show the verbs in panels, in the order in which they are declared."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        records: Records = {}
        for name, verb in self.commands.items():
            panel = getattr(verb, "rich_help_panel", None) or "Commands"
            records.setdefault(panel, []).append((name, verb.get_short_help_str(200)))
        _write_panels(formatter, records)


def _write_panels(formatter: Any, records: Records) -> None:
    for panel, rows in records.items():
        if rows:
            with formatter.section(panel):
                formatter.write_dl(rows)


def _group(words: str, **options: Any) -> typer.Typer:
    return typer.Typer(
        help=words,
        cls=_Verbs,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        **options,
    )


app = _group(
    "Find out what causes the failures in a stream of sensitive events, and publish it with a "
    "privacy guarantee.",
    name="littlestone",
)
budgets = _group(
    "Keep the privacy budgets of data sets in a file that all runs draw from.\n\n"
    "A data set has a total epsilon and delta. With `learn --budget FILE --dataset NAME`, and the "
    "same for `serve`, every run draws what it costs before it learns a row, or is refused. All "
    "that is shown here is public.",
    add_completion=False,
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


def _verb(
    work: str,
    panel: str,
    words: str,
    *examples: str,
    request: Sequence[str] = (),
    group: typer.Typer = app,
    **own: Parameter,
) -> None:
    """Declare a verb; `work` names its module and the function in it that does the work.

    With the fields of a `request` it has an option for each, and its function gets them as `task`.
    """
    module, _, function = work.partition(".")

    def run(context: typer.Context, **values: Any) -> None:
        if request:
            values["task"] = request_of({name: values.pop(name) for name in request}, context)
        getattr(import_module(f"littlestone._cli.{module}"), function)(**values)

    required = {n: each for n, each in own.items() if each.default is inspect.Parameter.empty}
    parameters = {
        "context": Parameter(typer.Context, inspect.Parameter.empty),
        **required,
        **{name: OPTIONS[name] for name in request},
        **own,
    }
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for name, (annotation, default) in parameters.items()
        ]
    )
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    group.command(
        function.rpartition("_")[2] if group is app else function.partition("_")[0],
        cls=_Verb,
        help=words,
        epilog="\n\n".join(f"Example: {example}" for example in examples),
        rich_help_panel=panel,
    )(run)


DB = argument(Path, "The learner's file.", "RUN.DB")
SPEC = argument(str, "As in `dimension --help`.", "SPEC")
TOKENS = option(Path | None, "The file of tokens; RUN.DB.tokens by default.")
BUDGETS_FILE = argument(Path, "The file of budgets.", "FILE")
DATASET = argument(str, "The data set.", "NAME")
ANY_DATASET = argument(str | None, "The data set; all of the file by default.", "[NAME]", None)

_verb(
    "demo.demo",
    BEGIN,
    "Run the whole story on a built-in stream of telemetry: a cause is found, privately.",
    "littlestone demo",
    folder=option(
        Path,
        "Where to leave the events, releases and report.",
        "--out",
        default=Path("littlestone-demo"),
    ),
    min_rate=MIN_RATE,
)

_verb(
    "init.init",
    BEGIN,
    "Propose a command for a file, with the reason for each choice.",
    "littlestone init events.csv",
    file=argument(str, "CSV, TSV, JSON lines, Parquet or Arrow; a folder of the last two; a URI."),
    label=option(str | None, "The column of labels; else it is guessed by name.", metavar="COLUMN"),
    sample=option(
        str | None,
        "A table of the same columns that may be published: its values are looked at.",
        metavar="FILE",
    ),
    horizon=option(int | None, "Rounds to plan for, if more rows will come."),
    format_=FORMAT,
    delimiter=DELIMITER,
    encoding=ENCODING,
    as_json=AS_JSON,
)

_verb(
    "learn.learn",
    BEGIN,
    "Learn a rule from a stream of labelled rows, privately: before each row a rule is published.",
    "littlestone learn events.csv --class causes:version,country,device:2 --label failed "
    "--epsilon 1 --delta 1e-7 --out releases.jsonl --report report.html",
    "littlestone learn kafka://localhost:9092/events --db run.db --class points:merchant "
    "--label fraud --horizon 10000000 --delta 1e-9",
    request=(
        *LABELS, *BUDGET_AND_UNIT, "out", "report", "private_json", "force", *ALERTS, "budget",
        "dataset", "strict", "time", "format", "delimiter", "encoding", "complete", "new_rows",
        "again", "follow", "until_end", "seed", "engine", "workers",
    ),
    file=argument(
        str,
        "CSV, TSV or JSON lines, plain or .gz; Parquet or Arrow, or a folder of such; a "
        "URI such as s3://bucket/events; - is stdin; kafka://BROKERS/TOPIC.",
    ),
    db=option(Path | None, "Keep the learner in this file, and go on from it. Private."),
    kafka_option=KAFKA_OPTION,
    kafka_config=KAFKA_CONFIG,
    as_json=AS_JSON,
)  # fmt: skip

_verb(
    "show.show",
    RUN,
    "Show what a stored learner has published; with --private, what only its owner may see.",
    "littlestone show run.db --private",
    file=argument(Path, "The file that `learn --db` or `serve` keeps."),
    statement=option(
        bool, "Print one page for a privacy officer: what is promised, and what not.", "--statement"
    ),
    markdown=option(bool, "Print Markdown, for a ticket.", "--markdown"),
    as_csv=option(bool, "Print the evidence as CSV; without causes, the rules.", "--csv"),
    as_json=AS_JSON,
    private=option(bool, "Show the private side too, on standard error.", "--private"),
    private_json=PRIVATE_JSON,
)

_verb(
    "serve.serve",
    RUN,
    "Serve a stored learner over HTTP, with a live page.",
    "littlestone serve run.db --class points:merchant --label fraud --delta 1e-9 "
    "--horizon 10000000 --source kafka://localhost:9092/payments",
    request=(*LABELS, *BUDGET_AND_UNIT, "time", "seed", "budget", "dataset", "new_rows", *ALERTS),
    db=DB,
    source=option(
        str | None,
        "Also learn the messages of a topic, in the background.",
        metavar="kafka://BROKERS/TOPIC",
    ),
    kafka_option=KAFKA_OPTION,
    kafka_config=KAFKA_CONFIG,
    host=option(str, "Where to listen.", default="127.0.0.1"),
    port=option(int, "0 lets the system choose.", default=8000, min=0, max=65535),
    tokens=TOKENS,
    limit=option(
        list[str] | None,
        "A limit of docs/service.md, such as rows=10000 or rate=50. Can be repeated.",
        metavar="NAME=NUMBER",
    ),
    host_name=option(
        list[str] | None, "A name by which clients may call this service. Can be repeated."
    ),
    trusted_proxy=option(
        list[str] | None,
        "A proxy, or its network, whose X-Forwarded-For is trusted. Can be repeated.",
        metavar="ADDRESS",
    ),
    tls_certificate=option(
        Path | None, "Serve over TLS: the certificate chain, in PEM.", metavar="FILE"
    ),
    tls_key=option(Path | None, "The certificate's private key, in PEM.", metavar="FILE"),
    log_format=option(
        Literal["text", "json"], "How the lines of the log are written.", default="text"
    ),
    audit_log=option(
        Path | None, "Append who did what to this file: tokens by name, no rows.", metavar="FILE"
    ),
)

_verb(
    "show.backup",
    RUN,
    "Copy a stored learner to another file, also while it is running.",
    "littlestone backup run.db copy.db",
    file=argument(Path | None, "The learner's file.", "RUN.DB", None),
    copy=argument(Path | None, "Where the copy is to be.", "COPY.DB", None),
    continued=option(
        Path | None,
        "Go on with this copy from now on; its original is marked, and never goes on.",
        "--take-over",
        metavar="COPY.DB",
    ),
    original=option(Path | None, "Where the original is now, if it was moved.", metavar="RUN.DB"),
    original_lost=option(
        bool,
        "With --take-over: promise that the original never goes on, and has published "
        "nothing since the copy was made. Nobody can check that.",
        "--original-lost",
    ),
)

_verb(
    "serve.token",
    RUN,
    "List the tokens of a service by name, or replace one without a restart.",
    "littlestone token run.db --rotate feeder --overlap 3600",
    db=DB,
    rotate=option(
        Literal["feeder", "operator"] | None,
        "Make a new token for this role, and end the present one.",
    ),
    overlap=option(float, "Seconds for which the token that is replaced works on.", default=3600.0),
    tokens=TOKENS,
)

_verb(
    "plan.plan",
    CHECK,
    "Print every constant of a learner before it sees any data.",
    "littlestone plan causes:version,country:2 --delta 1e-7 --horizon 100000 --rate 0.3 "
    "--share 0.05 --base 0.01",
    request=(*BUDGET_AND_UNIT, "force"),
    spec=SPEC,
    rate=option(float | None, "For causes: how often a cause's events are positive."),
    share=option(float | None, "With --rate: the share of events that the cause matches."),
    base=option(float | None, "With --rate: how often other events are positive."),
    mistakes=option(
        int | None, "Instead of --epsilon: the smallest with so many mistakes a change."
    ),
    positives=option(
        int | None, "The same for causes, with --rate: positives until one is published."
    ),
    rounds=option(int | None, "The same for causes, with --rate and --share: rounds."),
    html=option(
        Path | None,
        "For causes: write a page with sliders for epsilon, share, rate and base.",
        metavar="FILE",
    ),
    as_json=AS_JSON,
)

_verb(
    "audit.audit",
    CHECK,
    "Check that the code keeps its guarantee.",
    "littlestone audit points:merchant --epsilon 1 --horizon 1000 --small",
    request=(*(name for name in BUDGET_AND_UNIT if name != "learner"), "private_json"),
    spec=SPEC,
    shrunk=option(
        bool, "The same mechanisms and budget with few trees: leaks show sooner.", "--small"
    ),
    learner=option(
        str | None,
        "One of dpsoa, experts, causes, soa, halving; soa and halving are not private, and must be "
        "caught. By default causes for classes of causes, dpsoa for others.",
        metavar="NAME",
    ),
    runs=option(int, "Runs in each of two worlds; 0 for none.", default=2000),
    seed=option(int, "Of the random bits that are not secret.", default=0),
    file=option(str | None, "Run on this stream of yours: what that shows is private."),
    label=option(str | None, "The column of 0 and 1 of --file.", metavar="COLUMN"),
    workers=option(int | None, "Processes; all cores by default."),
    as_json=AS_JSON,
)

_verb(
    "compare.compare",
    CHECK,
    "Compare learners on synthetic streams that know the truth.",
    "littlestone compare --class points:merchant --learners dpsoa,soa "
    "--streams iid,halving --rounds 10000,100000 --seeds 5; or, for causes, "
    "littlestone compare --class causes:a,b,c --learners causes,dpsoa --streams rates:0.3:0.01:0.05",
    spec=option(
        str, "As in `dimension --help`.", "--class", default=inspect.Parameter.empty, metavar="SPEC"
    ),
    learners=option(
        str, "Some of auto, dpsoa, experts, causes, soa, halving, with commas.", default="dpsoa,soa"
    ),
    streams=option(
        str,
        "Some of iid, noisy, rates, sorted, burst, halving, drift, stall, mirror, tree, with "
        "commas. rates:0.3:0.01:0.05 is a cause whose events are positive 30 % of the time, others "
        "1 %, that 5 % of events have.",
        default="iid,sorted,burst,halving",
    ),
    rounds=option(str, "Rounds a game; several with commas.", default="100000"),
    epsilon=option(str, "Privacy budget; several with commas.", default="1"),
    delta=OPTIONS["delta"],
    seeds=option(int, "Games of each learner on each stream.", default=5, min=1),
    noise=option(float, "The share of labels that is flipped.", default=0.0),
    change_cost=CHANGE_COST,
    min_rate=MIN_RATE,
    baseline=BASELINE,
    as_json=AS_JSON,
)

_verb(
    "plan.print_dimension",
    CHECK,
    """Print the Littlestone dimension of a class: the number of mistakes that the
best learner without privacy cannot avoid.

SPEC is one of

\b
    points:COLUMN                   at most one positive value
    sets:COLUMN:K                   at most K positive values
    rules:COLUMN,COLUMN,...         one column = value
    thresholds:COLUMN:LO:HI[:STEP]  column >= cut, on a grid (STEP 1 if left out)
    intervals:COLUMN:LO:HI[:STEP]   low <= column < high, on a grid
    conjunctions:COLUMN,COLUMN,...  ands of boolean columns, negated or not
    causes:COLUMN,COLUMN,...[:WIDTH[:LIMIT]]
                                    an or of up to LIMIT ands of up to WIDTH
                                    conditions (8 and 1 if left out), each
                                    column = value, or a range of numbers with
                                    edges of yours, written age@18/30/65; values
                                    known beforehand: country=@FILE, one a line
    table:FILE.csv                  any explicit class

A table is a CSV file. Its first line names the column and the points, which are read as text; each
further line is a hypothesis, its name and then 0 or 1 for each point:

\b
    merchant,A,B,C
    only A,1,0,0
    all but A,0,1,1

A backslash before a colon, a comma or a backslash makes it part of a name; in `causes` also before
an at sign.
""",
    "littlestone dimension thresholds:score:0:100:5 --witness",
    spec=argument(str, "The class, as above.", "SPEC"),
    witness=option(bool, "Draw a shattered mistake tree, which proves it.", "--witness"),
    as_json=AS_JSON,
)

_EPSILON = option(float, "What all runs may cost together.", default=inspect.Parameter.empty)
_COST = option(float, "What it costs.", default=inspect.Parameter.empty)
_DELTA = option(float, "The same for delta.", default=0.0)

_verb(
    "budget.create_budget",
    RUN,
    "Create the budget of a data set, and the file if there is none.",
    "littlestone budget create budgets.db visits --epsilon 3 --delta 1e-6",
    group=budgets,
    file=BUDGETS_FILE,
    dataset=DATASET,
    epsilon=_EPSILON,
    delta=_DELTA,
    per_user=option(bool, "Count per user: every run must protect users.", "--user"),
)

_verb(
    "budget.show_budgets",
    RUN,
    "Show what each data set has left.",
    "littlestone budget show budgets.db",
    group=budgets,
    file=BUDGETS_FILE,
    dataset=ANY_DATASET,
    as_json=AS_JSON,
)

_verb(
    "budget.explain_budgets",
    RUN,
    "Explain who drew what and when, and what could still be run.",
    "littlestone budget explain budgets.db visits",
    group=budgets,
    file=BUDGETS_FILE,
    dataset=ANY_DATASET,
    as_json=AS_JSON,
)

_verb(
    "budget.draw_by_hand",
    RUN,
    "Draw for something else that was, or will be, published about the data set.",
    "littlestone budget draw budgets.db visits --epsilon 0.5 --note survey",
    group=budgets,
    file=BUDGETS_FILE,
    dataset=DATASET,
    epsilon=_COST,
    delta=_DELTA,
    per_user=option(bool, "It protects all rounds of a user together.", "--user"),
    note=option(str, "What it is for, in words.", default=""),
)
app.add_typer(budgets, name="budget", rich_help_panel=RUN)
