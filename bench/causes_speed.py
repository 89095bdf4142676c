"""Speed of the causes learner beside group-bys of polars and DuckDB, one by one beside River.

Five columns of text, 1,000,000 rows in a file and 2,000,000 in a frame. Polars and DuckDB count rows
and positives of every choice of at most `width` columns (5, 15 and 25 group-bys) in one thread; of a
file, each side also reads it, in the fastest of the ways that were tried. All in seconds of processor
time, so that other programs on the machine disturb less; only the ratios mean anything. Imports are
not counted. The noise is the real one.
"""

import os

# Before polars is imported: it reads the number of threads once.
os.environ["POLARS_MAX_THREADS"] = "1"

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import polars as pl
from river.linear_model import LogisticRegression
from river.preprocessing import OneHotEncoder

from bench.speed import ONES, _examples, _one_by_one
from bench.streams import rows
from littlestone import Causes, PrivateCauses
from littlestone._data.readers import open_rows

ROWS, FILE_ROWS, TRIES = 2_000_000, 1_000_000, 2
NAMES, SIZES = tuple("abcde"), (10, 30, 100, 300, 1000)
AIMS = {1: 1, 2: 2, 3: 3}


def run() -> None:
    """Print the tables."""
    _print_files()
    print(f"\nRows a second of processor time, polars with {pl.thread_pool_size()} thread\n")
    print("| width | rows as | rows/s | of | rows/s | ratio | aim | ok |")
    print("|--:|---|--:|---|--:|--:|--:|---|")
    for line in (*_batches(), *_ones()):
        print("|", " | ".join(line), "|")


def _print_files() -> None:
    """Print how long `learn` takes of files, beside group-bys that read the same file."""
    print("| file | width | times polars | times DuckDB | seconds | polars | DuckDB | aim |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    columns, labels = _columns(FILE_ROWS)
    texts = {name: column.tolist() for name, column in columns.items()}
    frame = pl.DataFrame(texts | {"y": labels.astype(np.int8)})
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"events.{suffix}") for suffix in READ]
        frame.write_csv(paths[0])
        frame.write_ndjson(paths[1])
        frame.write_parquet(paths[2])
        for path in paths:
            for width, aim in AIMS.items():
                works = (_learn_file, _polars_file, _duckdb_file)
                # The sides take turns, so that what disturbs the machine disturbs all of them.
                tries = [
                    [_seconds(partial(work, path, width), 1) for work in works]
                    for _ in range(TRIES)
                ]
                ours, *others = (min(taken) for taken in zip(*tries, strict=True))
                ratios = [f"{other / ours:.2f}" for other in others]
                figures = [f"{seconds:.2f}" for seconds in (ours, *others)]
                print(
                    "|", " | ".join([path.suffix[1:], str(width), *ratios, *figures, f"{aim}"]), "|"
                )


READ: dict[str, Callable[[Path], pl.DataFrame]] = {
    "csv": pl.read_csv,
    "jsonl": pl.read_ndjson,
    "parquet": pl.read_parquet,
}


def _learn_file(path: Path, width: int) -> None:
    cls = Causes(NAMES, width=width)
    learner = PrivateCauses(cls, 1, 1e-7, FILE_ROWS, min_rate=0.09)
    with open_rows(str(path), cls, label="y") as rows:
        for block in rows:
            learner.learn_many(block.columns, block.labels, bad_rows="null")


def _polars_file(path: Path, width: int) -> None:
    if path.suffix != ".parquet":
        _group_bys(READ[path.suffix[1:]](path), width)
        return
    # Of Parquet the lazy way was the faster one; of text it reads the file for every group-by.
    lazy = pl.scan_parquet(path)
    counts = [pl.len(), pl.col("y").sum()]
    pl.collect_all([lazy.group_by(chosen).agg(counts) for chosen in _choices(width)])


def _duckdb_file(path: Path, width: int) -> None:
    """Count with grouping sets, which read a file once; beyond two columns single group-bys win."""
    connection = duckdb.connect(config={"threads": 1})
    reader = {"csv": "read_csv", "jsonl": "read_json", "parquet": "read_parquet"}[path.suffix[1:]]
    source = f"{reader}('{path}')"
    lists = [", ".join(chosen) for chosen in _choices(width)]
    if width < 3 or path.suffix == ".parquet":
        sets = ", ".join(f"({names})" for names in lists)
        counted = f"SELECT {', '.join(NAMES)}, count(*), sum(y) FROM {source}"
        connection.sql(f"{counted} GROUP BY GROUPING SETS ({sets})").to_arrow_table()
        return
    connection.execute(f"CREATE TABLE events AS FROM {source}")
    for names in lists:
        grouped = f"SELECT {names}, count(*), sum(y) FROM events GROUP BY {names}"
        connection.sql(grouped).to_arrow_table()


def _choices(width: int) -> Iterator[tuple[str, ...]]:
    return (some for size in range(1, width + 1) for some in combinations(NAMES, size))


def _columns(count: int) -> tuple[dict[str, Any], Any]:
    draw = np.random.default_rng(0)
    columns = {
        name: np.array([f"v{n:03d}" for n in range(size)])[
            np.minimum(draw.zipf(1.5, count), size) - 1
        ]
        for name, size in zip(NAMES, SIZES, strict=True)
    }
    return columns, draw.random(count) < np.where(columns["b"] == "v001", 0.3, 0.01)


def _batches() -> Iterator[list[str]]:
    columns, labels = _columns(ROWS)
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
    for some in _choices(width):
        frame.group_by(some).agg(pl.len(), pl.col("y").sum())


def _seconds(action: Callable[[], None], tries: int = TRIES) -> float:
    """Return the least processor time of several runs."""
    taken = []
    for _ in range(tries):
        began = time.process_time()
        action()
        taken.append(time.process_time() - began)
    return min(taken)


def _line(width: str, kind: str, own: float, of: str, other: float, aim: int) -> list[str]:
    ok = "yes" if own >= aim * other else "NO"
    return [width, kind, f"{own:,.0f}", of, f"{other:,.0f}", f"{own / other:.2f}", f">= {aim}", ok]
