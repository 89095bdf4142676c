"""Define the options that several verbs share, and tell which of them were given."""

from pathlib import Path
from typing import Annotated

import typer

from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.causes_plan import checked_min_rate
from littlestone._learners.registry import planned_names

Spec = Annotated[
    str | None,
    typer.Option("--class", metavar="SPEC", help="The class of rules: see `dimension --help`."),
]
Epsilon = Annotated[float, typer.Option(help="The privacy budget: 1 is a usual choice.")]
Delta = Annotated[float, typer.Option(help="Well below 1 / (10 x rounds).")]
UserOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Protect all rounds of a user together.")
]
CapOption = Annotated[
    int | None, typer.Option(help="Rounds a user has at most; later ones are null rounds.")
]
ChangeCost = Annotated[
    float,
    typer.Option(
        help="For causes and experts: the mistakes that one change of rule is worth; 0 follows "
        "every change."
    ),
]
MinRate = Annotated[
    str,
    typer.Option(
        "--min-rate",
        metavar="RATE|auto",
        help="The positive rate above which it pays to predict positive, such as 0.1: for causes, "
        "where auto takes twice the base rate of a first window, and experts, where it is 0.5.",
    ),
]
# The registry checks names when a verb runs: a learner may be registered after this import.
WhichLearner = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"One of {', '.join(planned_names())}; auto takes what the class, budget and unit "
        "recommend.",
    ),
]
LabelOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of 0 and 1, or true and false.")
]
PositiveOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE",
        help="A value of --label that is positive, if it has others than 0 and 1; or a condition "
        "on its numbers, such as '>60'. Can be repeated.",
    ),
]
NegativeOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE",
        help="For causes: a value of --label that is normal; each other value is an outcome, and a "
        "cause says which. Can be repeated.",
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="Of the forest's random bits, which are not secret.")
]
WhichEngine = Annotated[
    str | None,
    typer.Option(
        metavar="ray[:ADDRESS]",
        help="Work on a Ray cluster: of its own, or at an address (auto: one that runs here).",
    ),
]
KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        metavar="KEY=VALUE",
        help="For kafka://: a setting of librdkafka, such as security.protocol=SSL. Can be "
        "repeated. Secrets belong in --kafka-config.",
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For kafka://: settings of librdkafka, a KEY=VALUE a line."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a machine.")]

BudgetOption = Annotated[
    Path | None,
    typer.Option(
        "--budget",
        metavar="FILE",
        help="Draw from the budget of --dataset in this file: see `budget --help`.",
    ),
]
DatasetOption = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="With --budget: whose budget to draw from."),
]
BudgetsFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file of budgets.")]
DatasetName = Annotated[str, typer.Argument(metavar="NAME", help="The data set.")]
SomeDataset = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The data set; all of the file by default.")
]
DrawNote = Annotated[str, typer.Option("--note", help="What it is for, in words.")]
PrivateJson = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the private side here, as JSON, for its owner only."),
]


def read_min_rate(text: str) -> float | str:
    """Return the value of --min-rate: a number, or "auto"."""
    exact = checked_min_rate(text)
    return exact if exact == AUTO_RATE else float(text)


def given(context: typer.Context) -> frozenset[str]:
    """Return the options that were given, and not left to their defaults."""
    # With a store, an option that was left out takes the value that the store was begun with.
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(n for n, source in sources.items() if source and source.name == "COMMANDLINE")
