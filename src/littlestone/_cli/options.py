"""Define the options that several verbs share, and make one request of them.

A verb that takes a request has an option for each field of a `LearnRequest` that it names. So `learn`,
`serve`, `plan` and `audit` have the same options with the same words, and a new one is added here,
once. Nothing of the library is imported before a verb runs: `--help` needs only the words.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from littlestone._store.request import LearnRequest

# The panels of `--help`, in their order; an option that is in none of them is in the first.
PANELS: Mapping[str, str] = {
    "What everybody needs": "",
    "Privacy": "user cap budget dataset again strict",
    "Output": "out report html private_json force time on_release command alert_key as_json",
    "Network": "host port host_name trusted_proxy tls_certificate tls_key tokens limit",
    "Advanced": "change_cost min_rate baseline values learner seed format delimiter encoding follow "
    "complete new_rows until_end engine workers source kafka_option kafka_config log_format audit_log "
    "noise help",
}


class Parameter(NamedTuple):
    """An option or an argument of a verb, and what it is when it is left out."""

    annotation: Any
    default: Any


def option(
    kind: Any,
    words: str,
    *flags: str,
    default: Any = None,
    metavar: str | None = None,
    **limits: Any,
) -> Parameter:
    """Declare an option. A truth value is a flag, which is off when it is left out."""
    made = typer.Option(*flags, help=words, metavar=metavar, **limits)
    return Parameter(Annotated[kind, made], False if kind is bool else default)


def argument(
    kind: Any, words: str, metavar: str | None = None, default: Any = inspect.Parameter.empty
) -> Parameter:
    """Declare an argument, which must be given if it has no default."""
    return Parameter(Annotated[kind, typer.Argument(help=words, metavar=metavar)], default)


AS_JSON = option(bool, "Print JSON for a machine.", "--json")
PRIVATE_JSON = option(
    Path | None, "Write the private side here, as JSON, for its owner only.", metavar="FILE"
)
CHANGE_COST = option(
    float,
    "For causes and experts: the mistakes that one change of rule is worth; 0 follows every change.",
    default=50,
)
MIN_RATE = option(
    str,
    "The positive rate above which it pays to predict positive, such as 0.1. For causes it is a "
    "floor, and auto begins with the base rate of a first window; for experts it is 0.5.",
    "--min-rate",
    default="auto",
    metavar="RATE|auto",
)
BASELINE = option(
    str,
    "For causes: the rate that a cause has to beat follows the stream (follow), or stays what it "
    "was at first (fixed).",
    "--baseline",
    default="follow",
    metavar="follow|fixed",
)
KAFKA_OPTION = option(
    list[str] | None,
    "For kafka://: a setting of librdkafka, such as security.protocol=SSL. Can be repeated. Secrets "
    "belong in --kafka-config.",
    "--kafka-option",
    metavar="KEY=VALUE",
)
KAFKA_CONFIG = option(
    Path | None, "For kafka://: settings of librdkafka, a KEY=VALUE a line.", metavar="FILE"
)
FORMAT = option(str | None, "csv, tsv, jsonl, parquet or arrow; else by name.", "--format")
DELIMITER = option(
    str | None,
    "What separates the cells of a CSV file; else comma, semicolon, tab or |, as its first line says.",
    metavar="CHARACTER",
)
ENCODING = option(str | None, "Of a text file, such as latin-1; else utf-8.", metavar="NAME")

# What a person chooses before any data.
BUDGET_AND_UNIT = (
    "table", "epsilon", "delta", "horizon", "user", "cap", "change_cost", "min_rate", "baseline",
    "values", "learner",
)  # fmt: skip
ALERTS = ("on_release", "command", "alert_key")
LABELS = ("spec", "label", "positive", "positive_if", "negative")
# An option for each field of a request.
OPTIONS: Mapping[str, Parameter] = {
    "spec": option(
        str | None, "The class of rules: see `dimension --help`.", "--class", metavar="SPEC"
    ),
    "label": option(str | None, "The column of 0 and 1, or true and false.", metavar="COLUMN"),
    "positive": option(
        list[str] | None,
        "A value of --label that is positive, if it has others than 0 and 1: yes, or '>50K', as it "
        "is written. Can be repeated.",
        metavar="VALUE",
    ),
    "positive_if": option(
        list[str] | None,
        "Of a --label of numbers: a condition under which one is positive, such as '>60'. Can be "
        "repeated: one that holds is enough.",
        "--positive-if",
        metavar="CONDITION",
    ),
    "negative": option(
        list[str] | None,
        "For causes: a value of --label that is normal; each other value is an outcome, and a "
        "cause says which. Can be repeated.",
        metavar="VALUE",
    ),
    "values": option(
        str | None,
        "For causes: values that are known beforehand, and so found on less evidence: a CSV file "
        "with the header column,value. They must be public.",
        metavar="FILE",
    ),
    "epsilon": option(float, "The privacy budget: 1 is a usual choice.", default=1.0),
    "delta": option(float, "At most 1 / (10 x rounds).", default=1e-7),
    "horizon": option(int | None, "Rounds to plan for; of a file by default its rows."),
    "user": option(str | None, "Protect all rounds of a user together.", metavar="COLUMN"),
    "cap": option(
        int | None,
        "With --user: how many epochs of causes read a user, or how many rounds count of others.",
    ),
    "table": option(
        bool,
        "For causes: the file is a finished table, whose order means nothing. It is learned whole, "
        "and one rule is published.",
        "--table",
    ),
    "change_cost": CHANGE_COST,
    "min_rate": MIN_RATE,
    "baseline": BASELINE,
    # The registry checks names when a verb runs.
    "learner": option(
        str,
        "One of auto, dpsoa, experts, causes; auto takes what the class, budget and unit recommend.",
        default="auto",
        metavar="NAME",
    ),
    "time": option(
        str | None,
        "When each row happened, for the axis of pictures and never for learning. Its values are "
        "published: those of the rows at which windows of counts end.",
        metavar="COLUMN",
    ),
    "seed": option(int | None, "Of the forest's random bits, which are not secret."),
    "budget": option(
        Path | None,
        "Draw from the budget of --dataset in this file: see `budget --help`.",
        metavar="FILE",
    ),
    "dataset": option(str | None, "With --budget: whose budget to draw from.", metavar="NAME"),
    "out": option(Path | None, "Write the releases here, as JSON lines. Public."),
    "report": option(Path | None, "Write an HTML report here. Private."),
    "private_json": PRIVATE_JSON,
    "force": option(bool, "Overwrite files that exist.", "--force"),
    "on_release": option(
        str | None,
        "Send each new rule there, as JSON with its evidence and the guarantee; slack+https://... as "
        "Slack takes it.",
        metavar="URL",
    ),
    "command": option(
        str | None,
        "Run this for each new rule, with the same JSON on its standard input.",
        "--exec",
        metavar="COMMAND",
    ),
    "alert_key": option(
        Path | None, "With --on-release: sign with the key in this file (HMAC).", metavar="FILE"
    ),
    "strict": option(bool, "Stop at a bad row, outside the guarantee.", "--strict"),
    "format": FORMAT,
    "delimiter": DELIMITER,
    "encoding": ENCODING,
    "complete": option(bool, "With --db: a last line without a line feed is a row.", "--complete"),
    "new_rows": option(
        bool,
        "With --db: no row of the file was learned before; of a topic: go on though messages are "
        "gone.",
        "--new-rows",
    ),
    "again": option(bool, "With --db: learn known rows once more; epsilon adds up.", "--again"),
    "follow": option(bool, "Wait for rows that are added to a text file, as tail -F.", "--follow"),
    "until_end": option(
        bool, "For kafka://: learn what the topic holds now, and end.", "--until-end"
    ),
    "engine": option(
        str | None,
        "Work on a Ray cluster: of its own, or at an address (auto: one that runs here).",
        metavar="ray[:ADDRESS]",
    ),
    "workers": option(int | None, "Shards of the engine; as many as it has cores by default."),
}


def request_of(said: Mapping[str, Any], context: typer.Context) -> "LearnRequest":
    """Return the request that options make; what is left out has its default."""
    from littlestone._store.request import LABEL_LISTS, LearnRequest

    read = {name: value for name, value in said.items() if value is not None}
    for name in LABEL_LISTS:
        read[name] = tuple(read.get(name, ()))
    read["min_rate"] = read_min_rate(said["min_rate"])
    usual = {"spec": "", "label": "", "given": given(context)}
    return LearnRequest(**usual | read)


def read_min_rate(text: str) -> float | str:
    """Return the value of --min-rate: a number, or "auto"."""
    from littlestone._learners.plan_table import AUTO_RATE, checked_min_rate

    exact = checked_min_rate(text)
    return exact if exact == AUTO_RATE else float(text)


def given(context: typer.Context) -> frozenset[str]:
    """Return the options that were given, and not left to their defaults."""
    # With a store, an option that was left out takes the value that the store was begun with.
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(n for n, source in sources.items() if source and source.name == "COMMANDLINE")
