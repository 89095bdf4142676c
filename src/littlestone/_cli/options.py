"""Define the options that several verbs share, and make one request of them.

`takes_request` gives a verb an option for each named field of a `LearnRequest`. So `learn`, `serve`,
`plan` and `audit` have the same options with the same words, and a new one is added here, once.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from littlestone._learners.plan_table import AUTO_RATE, USUAL_DELTA, checked_min_rate
from littlestone._learners.registry import planned_names
from littlestone._store.request import LearnRequest


def _option(kind: Any, words: str, *names: str, metavar: str | None = None) -> Any:
    return Annotated[kind, typer.Option(*names, help=words, metavar=metavar)]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a machine.")]
PrivateJson = _option(
    Path | None, "Write the private side here, as JSON, for its owner only.", metavar="FILE"
)
ChangeCost = _option(
    float,
    "For causes and experts: the mistakes that one change of rule is worth; 0 follows every change.",
)
MinRate = _option(
    str,
    "The positive rate above which it pays to predict positive, such as 0.1: for causes, where auto "
    "takes twice the base rate of a first window, and experts, where it is 0.5.",
    "--min-rate",
    metavar="RATE|auto",
)
KafkaOption = _option(
    list[str] | None,
    "For kafka://: a setting of librdkafka, such as security.protocol=SSL. Can be repeated. Secrets "
    "belong in --kafka-config.",
    "--kafka-option",
    metavar="KEY=VALUE",
)
KafkaConfig = _option(
    Path | None, "For kafka://: settings of librdkafka, a KEY=VALUE a line.", metavar="FILE"
)
FileFormat = _option(str | None, "csv, tsv, jsonl, parquet or arrow; else by name.", "--format")
Delimiter = _option(
    str | None,
    "What separates the cells of a CSV file; else comma, semicolon, tab or |, as its first line says.",
    metavar="CHARACTER",
)
Encoding = _option(str | None, "Of a text file, such as latin-1; else utf-8.", metavar="NAME")
BudgetsFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file of budgets.")]
DatasetName = Annotated[str, typer.Argument(metavar="NAME", help="The data set.")]
SomeDataset = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The data set; all of the file by default.")
]
DrawNote = Annotated[str, typer.Option("--note", help="What it is for, in words.")]

# What a person chooses before any data.
BUDGET_AND_UNIT = (
    "epsilon", "delta", "horizon", "user", "cap", "change_cost", "min_rate", "learner",
)  # fmt: skip
LABELS = ("spec", "label", "positive", "negative")
# An option for each field of a request.
OPTIONS: Mapping[str, Any] = {
    "spec": _option(
        str | None, "The class of rules: see `dimension --help`.", "--class", metavar="SPEC"
    ),
    "label": _option(str | None, "The column of 0 and 1, or true and false.", metavar="COLUMN"),
    "positive": _option(
        list[str] | None,
        "A value of --label that is positive, if it has others than 0 and 1; or a condition on its "
        "numbers, such as '>60'. Can be repeated.",
        metavar="VALUE",
    ),
    "negative": _option(
        list[str] | None,
        "For causes: a value of --label that is normal; each other value is an outcome, and a "
        "cause says which. Can be repeated.",
        metavar="VALUE",
    ),
    "epsilon": _option(float, "The privacy budget: 1 is a usual choice."),
    "delta": _option(float, "At most 1 / (10 x rounds)."),
    "horizon": _option(int | None, "Rounds to plan for; of a file by default its rows."),
    "user": _option(str | None, "Protect all rounds of a user together.", metavar="COLUMN"),
    "cap": _option(int | None, "Rounds a user has at most; later ones are null rounds."),
    "change_cost": ChangeCost,
    "min_rate": MinRate,
    # The registry checks names when a verb runs: a learner may be registered after this import.
    "learner": _option(
        str,
        f"One of {', '.join(planned_names())}; auto takes what the class, budget and unit recommend.",
        metavar="NAME",
    ),
    "seed": _option(int | None, "Of the forest's random bits, which are not secret."),
    "budget": _option(
        Path | None,
        "Draw from the budget of --dataset in this file: see `budget --help`.",
        metavar="FILE",
    ),
    "dataset": _option(str | None, "With --budget: whose budget to draw from.", metavar="NAME"),
    "out": _option(Path | None, "Write the releases here, as JSON lines. Public."),
    "report": _option(Path | None, "Write an HTML report here. Private."),
    "private_json": PrivateJson,
    "force": _option(bool, "Overwrite --out and --report.", "--force"),
    "strict": _option(bool, "Stop at a bad row, outside the guarantee.", "--strict"),
    "format": FileFormat,
    "delimiter": Delimiter,
    "encoding": Encoding,
    "complete": _option(bool, "With --db: a last line without a line feed is a row.", "--complete"),
    "new_rows": _option(
        bool,
        "With --db: no row of the file was learned before; of a topic: go on though messages are "
        "gone.",
        "--new-rows",
    ),
    "again": _option(bool, "With --db: learn known rows once more; epsilon adds up.", "--again"),
    "follow": _option(bool, "Wait for rows that are added to a text file, as tail -F.", "--follow"),
    "until_end": _option(
        bool, "For kafka://: learn what the topic holds now, and end.", "--until-end"
    ),
    "engine": _option(
        str | None,
        "Work on a Ray cluster: of its own, or at an address (auto: one that runs here).",
        metavar="ray[:ADDRESS]",
    ),
    "workers": _option(int | None, "Shards of the engine; as many as it has cores by default."),
}
# Where an option that was left out is not what a request has by default.
_LEFT_OUT = {"epsilon": 1.0, "delta": USUAL_DELTA, "spec": None, "label": None}


def takes_request(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb an option for each field of a request, which it gets as its parameter `task`."""
    defaults = {
        field.name: None if field.default in (MISSING, ()) else field.default
        for field in fields(LearnRequest)
    } | _LEFT_OUT

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        parameters = list[inspect.Parameter]()
        for own in inspect.signature(verb).parameters.values():
            if own.name != "task":
                parameters.append(own.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            parameters += [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=defaults[name],
                    annotation=OPTIONS[name],
                )
                for name in names
            ]

        @wraps(verb)
        def run(**values: Any) -> None:
            said = {name: values.pop(name) for name in names}
            verb(task=request_of(said, values["context"]), **values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def request_of(said: Mapping[str, Any], context: typer.Context) -> LearnRequest:
    """Return the request that options make; what is left out has its default."""
    read = {name: value for name, value in said.items() if value is not None}
    for name in ("positive", "negative"):
        read[name] = tuple(read.get(name, ()))
    read["min_rate"] = read_min_rate(said["min_rate"])
    usual = {"spec": "", "label": "", "given": given(context)}
    return LearnRequest(**usual | read)


def read_min_rate(text: str) -> float | str:
    """Return the value of --min-rate: a number, or "auto"."""
    exact = checked_min_rate(text)
    return exact if exact == AUTO_RATE else float(text)


def given(context: typer.Context) -> frozenset[str]:
    """Return the options that were given, and not left to their defaults."""
    # With a store, an option that was left out takes the value that the store was begun with.
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(n for n, source in sources.items() if source and source.name == "COMMANDLINE")
