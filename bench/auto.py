"""`auto` against the best of our learners in hindsight, over streams of every kind. Aim: at most 2.

`auto` is what `recommend` takes for the class and the budget, before it sees any example. Printed
are the median mistakes beyond those of the targets (label noise), and how many times those of the
best learner `auto` makes. The learners that release at every round are left out: at epsilon 1 they
are vacuous. Everything is fixed by seeds; the noise is `SeededNoise`, which is NOT PRIVATE.
"""

import csv
import warnings
from collections.abc import Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.output import publish, publish_text
from bench.trials import PROCESSES
from littlestone._classes.specs import parse_spec
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.registry import Terms, make_learner
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import ADVERSARIES, Adversary
from littlestone._simulate.games import REFUSALS, play
from littlestone._simulate.streams import TELEMETRY_COLUMNS, Stream, write_events

EPSILON, DELTA, SEEDS, AIM = 1.0, 1e-6, range(5), 2.0
LEARNERS = ("auto", "dpsoa", "experts")
FILE = "file"


class Case(NamedTuple):
    """A class and a stream, the share of labels flipped, and the rate above which positive pays."""

    spec: str
    stream: str
    rounds: int = 20_000
    noise: float = 0.0
    min_rate: float = 0.5


POINTS, SETS, RULES = "points:x", "sets:x:3", "rules:a,b,c,d,e"
FEW, MANY, BOTH = "thresholds:x:1:15", "thresholds:x:1:1023", "intervals:x:1:30"
ANDS, EVENTS = "conjunctions:a,b,c,d,e", f"rules:{','.join(TELEMETRY_COLUMNS)}"
SUITE = (
    Case(POINTS, "iid"),
    Case(POINTS, "burst"),
    Case(POINTS, "halving"),
    Case(POINTS, "drift"),
    Case(POINTS, "mirror"),
    Case(SETS, "sorted"),
    Case(SETS, "halving"),
    Case(RULES, "iid"),
    Case(RULES, "noisy"),
    Case(RULES, "stall"),
    Case(RULES, "mirror"),
    Case("thresholds:x:1:1", "iid"),
    Case("thresholds:x:1:3", "halving"),
    Case(FEW, "iid"),
    Case(FEW, "noisy"),
    Case(FEW, "mirror"),
    Case(FEW, "tree"),
    Case(MANY, "iid"),
    Case(MANY, "burst"),
    Case(MANY, "sorted"),
    Case(MANY, "halving"),
    Case(MANY, "halving", noise=0.05),
    Case(MANY, "drift"),
    Case(MANY, "mirror"),
    Case(BOTH, "iid"),
    Case(BOTH, "stall"),
    Case(BOTH, "halving"),
    Case(BOTH, "mirror"),
    Case(ANDS, "iid"),
    Case(ANDS, "halving"),
    Case(ANDS, "noisy"),
    Case(EVENTS, FILE),
    Case("thresholds:score:0:100:5", FILE),
    # Streams that no rule fits: labels flipped.
    *(
        Case(spec, "iid", 60_000, noise)
        for spec in (POINTS, SETS, FEW, ANDS)
        for noise in (0.05, 0.1)
    ),
    Case(FEW, "iid", 60_000, 0.2),
    Case(MANY, "iid", 60_000, 0.1),
    Case(MANY, "burst", noise=0.1),
    Case(BOTH, "iid", 60_000, 0.05),
    Case(BOTH, "halving", noise=0.1),
    Case(ANDS, "halving", noise=0.05),
    Case(FEW, "drift", 60_000),
    *(Case(spec, "drift", 60_000, 0.05) for spec in (POINTS, FEW, MANY, BOTH)),
    # A missed positive costs more than a false alarm.
    *(Case(spec, "iid", 60_000, 0.05, 0.2) for spec in (FEW, BOTH, ANDS)),
)
MOST_RELEASES = 20


class Row(NamedTuple):
    """The median excess of each learner that can take the class, and how much worse `auto` is."""

    case: Case
    excess: dict[str, float]
    releases: int

    @property
    def best(self) -> str:
        """The learner with the fewest mistakes; `auto` itself where it is as good."""
        return min(self.excess, key=lambda name: (self.excess[name], name != "auto"))

    @property
    def ratio(self) -> float:
        """What `auto` makes for each mistake of the best, one more of both so that none is none."""
        return (self.excess["auto"] + 1) / (self.excess[self.best] + 1)


def run() -> None:
    """Print the table, and the worst of it."""
    asked = [(case, name) for case in SUITE for name in LEARNERS]
    console = Console(stderr=True)
    with get_context("spawn").Pool(PROCESSES) as pool:
        answers = pool.imap(_excess, asked)
        found = list(track(answers, "auto", len(asked), console=console, transient=True))
    rows = [_row(case, asked, found) for case in SUITE]
    Console(highlight=False, emoji=False, width=110).print(_table(rows))
    publish("auto", _by_class(rows))
    worst = max(rows, key=lambda row: row.ratio)
    best = sum(row.best == "auto" for row in rows)
    steady = [row for row in rows if row.case.stream not in ("drift", "mirror")]
    over = [row.releases for row in steady if row.releases > MOST_RELEASES]
    publish_text(
        "auto.notes",
        f"- `auto` is the best of our learners on {best} of {len(rows)} streams. At worst it makes "
        f"{worst.ratio:.2f} times the mistakes of the best: `{worst.case.spec}`, "
        f"{worst.case.stream}. The aim is at most {AIM:g}.\n"
        f"- Without drift and mirrors it publishes more than {MOST_RELEASES} rules, the aim, in some "
        f"run of {len(over)} of {len(steady)} streams, {max(over, default=0)} at most.",
    )


def _by_class(rows: Sequence[Row]) -> Table:
    """Return the least and the most mistakes over the streams of each class that has several.

    With a `min_rate` the loss is counted, and not the mistakes beyond the target's.
    """
    table = Table("class")
    for name in ("streams", *LEARNERS, "most rules published by `auto`"):
        table.add_column(name, justify="right")
    for spec in dict.fromkeys(row.case.spec for row in rows):
        of = [row for row in rows if row.case.spec == spec and row.case.min_rate == 0.5]
        if len(of) == 1:
            continue
        cells = []
        for name in LEARNERS:
            excess = [row.excess[name] for row in of if name in row.excess]
            cells.append(f"{min(excess):,.0f} to {max(excess):,.0f}" if excess else "")
        most = max(row.releases for row in of)
        table.add_row(f"`{spec}`", str(len(of)), *cells, str(most))
    return table


Found = tuple[float, int] | None


def _row(case: Case, asked: Sequence[tuple[Case, str]], found: Sequence[Found]) -> Row:
    of_case = {
        name: one
        for (some, name), one in zip(asked, found, strict=True)
        if some == case and one is not None
    }
    return Row(case, {name: excess for name, (excess, _) in of_case.items()}, of_case["auto"][1])


def _excess(asked: tuple[Case, str]) -> Found:
    """The median and the most releases over the seeds; None if it cannot take the class."""
    case, name = asked
    warnings.filterwarnings("ignore", message="delta = .* is above")
    try:
        excess, releases = zip(*(_one(case, name, seed) for seed in SEEDS), strict=True)
    except REFUSALS:
        return None
    return median(excess), max(releases)


def _one(case: Case, name: str, seed: int) -> tuple[float, int]:
    cls, adversary = parse_spec(case.spec), _adversary(case, seed)
    terms = Terms(
        cls=cls,
        epsilon=EPSILON,
        delta=DELTA,
        horizon=case.rounds,
        min_rate=AUTO_RATE if case.min_rate == 0.5 else case.min_rate,
    )
    learner = make_learner(name, terms, seed=seed, noise=SeededNoise(seed))
    game = play(learner, adversary, case.rounds)
    releases = len(game.releases) - 1
    if case.min_rate != 0.5:
        # The loss itself: the best rule by this loss is not known.
        assert game.missed is not None, "the stream is fixed"
        alarms = game.mistakes - game.missed
        return game.missed + case.min_rate / (1 - case.min_rate) * alarms, releases
    known = game.best if game.unavoidable is None else game.unavoidable
    return game.mistakes - (known or 0), releases


@cache
def _file(spec: str, rounds: int, seed: int) -> Stream:
    """The events of the demo, as they are in its file; of other classes independent examples."""
    if spec != EVENTS:
        made = ADVERSARIES["iid"](parse_spec(spec), rounds, seed, 0.0)
        assert isinstance(made, Stream)
        return made
    with TemporaryDirectory() as folder:
        path = Path(folder) / "stream.csv"
        write_events(path, rounds, seed)
        with path.open(newline="") as file:
            names, *rows = csv.reader(file)
    columns = {name: np.array(cells, object) for name, *cells in zip(names, *rows, strict=True)}
    failed = columns.pop("failed") == "1"
    return Stream(dict(columns), failed, None)


def _adversary(case: Case, seed: int) -> Adversary:
    if case.stream == FILE:
        return _file(case.spec, case.rounds, seed)
    return ADVERSARIES[case.stream](parse_spec(case.spec), case.rounds, seed, case.noise)


def _table(rows: Sequence[Row]) -> Table:
    title = (
        f"auto against the best in hindsight: median mistakes beyond the targets', {len(SEEDS)}"
        f" seeds,\nepsilon {EPSILON:g}, delta {DELTA:g}; aim: at most {AIM:g} times the best"
    )
    table = Table("class", "stream", "T", title=title)
    for name in (*LEARNERS, "ratio", "releases"):
        table.add_column(name, justify="right")
    for row in rows:
        case = row.case
        noise = f", {case.noise:.0%} noise" if case.noise else ""
        noise += f", min_rate {case.min_rate}" if case.min_rate != 0.5 else ""
        cells = [f"{row.excess[n]:,.0f}" if n in row.excess else "" for n in LEARNERS]
        ratio = f"{row.ratio:.2f}{'' if row.ratio <= AIM else ' NO'}"
        table.add_row(
            case.spec[:24],
            f"{case.stream}{noise}",
            f"{case.rounds:,}",
            *cells,
            ratio,
            str(row.releases),
        )
    return table


# Streams with rates are for learners of causes, which `bench causes` measures.
assert {case.stream for case in SUITE} == {*ADVERSARIES, FILE} - {"rates"}, "a stream is left out"
