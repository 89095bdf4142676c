"""Speed of the causes learner: `learn_many` beside polars' group-bys, one by one beside River.

Five columns of text, 2,000,000 rows. Polars counts rows and positives of every choice of at most
`width` columns (5, 15 and 25 group-bys) in one thread. Both in seconds of processor time, so that
other programs on the machine disturb less; only the ratios mean anything. The noise is the real
one.
"""

import os

# Before polars is imported: it reads the number of threads once.
os.environ["POLARS_MAX_THREADS"] = "1"

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from river.linear_model import LogisticRegression
from river.preprocessing import OneHotEncoder

from bench.speed import ONES, _examples, _one_by_one
from bench.streams import rows
from littlestone import Causes, PrivateCauses

ROWS, TRIES = 2_000_000, 3
NAMES, SIZES = tuple("abcde"), (10, 30, 100, 300, 1000)
AIMS = {1: 1, 2: 2, 3: 3}


def run() -> None:
    """Print the table."""
    threads = pl.thread_pool_size()
    title = f"Rows a second of processor time, polars with {threads} thread"
    table = Table("width", "rows as", "rows/s", "of", "rows/s", "ratio", "aim", "ok", title=title)
    for line in (*_batches(), *_ones()):
        table.add_row(*line)
    Console(highlight=False, width=100).print(table)


def _columns() -> tuple[dict[str, Any], Any]:
    draw = np.random.default_rng(0)
    columns = {
        name: np.array([f"v{n:03d}" for n in range(size)])[
            np.minimum(draw.zipf(1.5, ROWS), size) - 1
        ]
        for name, size in zip(NAMES, SIZES, strict=True)
    }
    return columns, draw.random(ROWS) < np.where(columns["b"] == "v001", 0.3, 0.01)


def _batches() -> Iterator[list[str]]:
    columns, labels = _columns()
    frame = pl.DataFrame({name: column.tolist() for name, column in columns.items()})
    kinds: dict[str, Any] = {
        "text arrays": columns,
        "object arrays": {name: column.astype(object) for name, column in columns.items()},
        "polars frame": frame,
        "pandas frame": frame.to_pandas(),
        "pandas categories": frame.to_pandas().astype("category"),
        "Arrow table": frame.to_arrow(),
    }
    labelled = frame.with_columns(y=pl.Series(labels))
    for width, aim in AIMS.items():
        other = ROWS / _seconds(partial(_group_bys, labelled, width))
        for kind, batch in kinds.items():
            own = ROWS / _seconds(partial(_learn, batch, labels, width))
            yield _line(str(width), kind, own, "polars", other, aim)


def _ones() -> Iterator[list[str]]:
    examples = _examples(rows(7, ONES, 0.06))
    names = list(examples[0][0])

    def private(width: int) -> None:
        causes = Causes(names, width=width)
        _one_by_one(PrivateCauses(causes, 1, 1e-9, ONES, min_rate=0.1), examples)

    def river() -> None:
        _one_by_one(OneHotEncoder(drop_zeros=True) | LogisticRegression(), examples)

    other = ONES / _seconds(river)
    for width in AIMS:
        own = ONES / _seconds(partial(private, width))
        yield _line(str(width), "one by one", own, "River", other, 1)


def _learn(batch: Any, labels: Any, width: int) -> None:
    learner = PrivateCauses(Causes(NAMES, width=width), 1, 1e-7, ROWS, min_rate=0.09)
    learner.learn_many(batch, labels)


def _group_bys(frame: pl.DataFrame, width: int) -> None:
    for size in range(1, width + 1):
        for some in combinations(NAMES, size):
            frame.group_by(some).agg(pl.len(), pl.col("y").sum())


def _seconds(action: Callable[[], None]) -> float:
    """Return the least processor time of several runs."""
    taken = []
    for _ in range(TRIES):
        began = time.process_time()
        action()
        taken.append(time.process_time() - began)
    return min(taken)


def _line(width: str, kind: str, own: float, of: str, other: float, aim: int) -> list[str]:
    ok = "yes" if own >= aim * other else "NO"
    return [width, kind, f"{own:,.0f}", of, f"{other:,.0f}", f"{own / other:.2f}", f">= {aim}", ok]
