"""Speed of the causes learner beside polars' group-bys, on one thread.

Polars counts rows and positives for every set of at most `width` of five string columns (5, 15, 25
group-bys at width 1, 2, 3); `PrivateCauses.learn_many` learns the same rows, from the polars frame
and from numpy arrays. Only the ratios mean anything. Runs in a process of its own, because polars
reads POLARS_MAX_THREADS when it is imported.
"""

import os
import subprocess
import sys
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from bench.clock import seconds
from bench.incidents import zipf

ROWS, SIZES, TRIES = 1_000_000, (100, 50, 20, 200, 1000), 3
AIMS = {1: 1, 2: 2, 3: 3}


def run() -> None:
    """Print the table, from a process in which polars has one thread."""
    print("Rows a second of learn_many and of polars' group-bys, one thread", flush=True)
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "bench.causes_speed"], check=True, env=environment)


def _measure() -> None:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from bench.causes import private_causes_exist

    columns, labels = _rows()
    texts = {name: column.tolist() for name, column in columns.items()}
    frame = pl.DataFrame({**texts, "label": labels})
    title = f"{ROWS:,} rows, five string columns, polars with {pl.thread_pool_size()} thread"
    table = Table("width", "group-bys", title=title)
    for name in ("polars rows/s", "learn_many(frame)", "ratio", "learn_many(arrays)", "ratio"):
        table.add_column(name, justify="right")
    table.add_column("aim")
    for width, aim in AIMS.items():
        sets = [s for n in range(1, width + 1) for s in combinations(columns, n)]
        polars = ROWS / seconds(partial(_group_bys, frame, sets), TRIES)
        cells = [f"{polars:,.0f}"]
        for batch in (frame.select(list(columns)), columns):
            if not private_causes_exist():
                cells += ["not built", ""]
                continue
            speed = ROWS / seconds(partial(_learn, batch, labels, width), TRIES)
            cells += [f"{speed:,.0f}", f"{speed / polars:.2f}"]
        table.add_row(str(width), str(len(sets)), *cells, f">= {aim}")
    Console(highlight=False, width=110).print(table)


def _rows() -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {}
    for number, size in enumerate(SIZES):
        names = np.array([f"value{code}" for code in range(size)], dtype=object)
        columns[f"column{number}"] = names[zipf(rng, ROWS, size, 1.0)]
    culprit = columns["column0"] == "value7"
    return columns, rng.random(ROWS) < np.where(culprit, 0.3, 0.01)


def _group_bys(frame: Any, sets: list[tuple[str, ...]]) -> None:
    import polars as pl

    for names in sets:
        frame.group_by(names).agg(pl.len(), pl.col("label").sum())


def _learn(batch: Any, labels: Any, width: int) -> None:
    import littlestone as ls

    library: Any = ls
    names = [f"column{number}" for number in range(len(SIZES))]
    learner = library.PrivateCauses(
        library.Causes(names, width=width), epsilon=1, delta=1e-7, horizon=ROWS, min_rate=0.09
    )
    learner.learn_many(batch, labels)


if __name__ == "__main__":
    _measure()
