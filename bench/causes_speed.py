"""Speed of the causes learner beside group-bys of polars and DuckDB, one by one beside River.

Five columns of text, 1,000,000 rows in a file and 2,000,000 in a frame. Polars and DuckDB count rows
and positives of every choice of at most `width` columns (5, 15 and 25 group-bys) in one thread; of a
file, each side also reads it, in the fastest of the ways that were tried. All in seconds of processor
time, so that other programs on the machine disturb less, the best of three runs in which the sides
take turns; only the ratios mean anything. Imports are not counted. The noise is the real one.
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
from rich.table import Table
from river.linear_model import LogisticRegression
from river.preprocessing import OneHotEncoder

from bench.output import publish
from bench.speed import ONES, _examples, _one_by_one
from bench.streams import rows
from littlestone import Causes, PrivateCauses
from littlestone._data.readers import open_rows

ROWS, FILE_ROWS, TRIES = 2_000_000, 1_000_000, 3
NAMES, SIZES = tuple("abcde"), (10, 30, 100, 300, 1000)
AIMS = {1: 1, 2: 2, 3: 3}


def run() -> None:
    """Publish the tables."""
    heads = ("file", "width", "times polars", "times DuckDB", "aim", "seconds", "polars", "DuckDB")
    _publish("causes_speed.files", heads, _files())
    _publish(
        "causes_speed.frames",
        ("rows as", "width", "times as fast", "as", "aim", "rows a second"),
        _frames(),
    )


def _publish(name: str, heads: tuple[str, ...], lines: Iterator[list[str]]) -> None:
    table = Table()
    for head in heads:
        table.add_column(head, justify="left" if head in ("file", "rows as", "as") else "right")
    for line in lines:
        table.add_row(*line)
    publish(name, table)


def _files() -> Iterator[list[str]]:
    """Yield how long `learn` takes of files, beside group-bys that read the same file."""
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
                ours, *others = _seconds(*(partial(work, path, width) for work in works))
                ratios = [f"{other / ours:.2f}" for other in others]
                figures = [f"{seconds:.2f}" for seconds in (ours, *others)]
                yield [path.suffix[1:], str(width), *ratios, str(aim), *figures]


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
            learner.learn(block)


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


def _frames() -> Iterator[list[str]]:
    """Yield how many rows are learned a second from memory, beside polars; one by one beside River."""
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
        works = [partial(_learn, batch, labels, width) for batch in kinds.values()]
        *ours, polars = _seconds(*works, partial(_group_bys, labelled, width))
        for kind, seconds in zip(kinds, ours, strict=True):
            ratio = f"{polars / seconds:.2f}"
            yield [kind, str(width), ratio, "polars", str(aim), f"{ROWS / seconds:,.0f}"]
    yield from _ones()


def _ones() -> Iterator[list[str]]:
    examples = _examples(rows(7, ONES, 0.06))
    names = list(examples[0][0])

    def private(width: int) -> None:
        causes = Causes(names, width=width)
        _one_by_one(PrivateCauses(causes, 1, 1e-9, ONES, min_rate=0.1), examples)

    def river() -> None:
        _one_by_one(OneHotEncoder(drop_zeros=True) | LogisticRegression(), examples)

    *ours, other = _seconds(*(partial(private, width) for width in AIMS), river)
    for width, seconds in zip(AIMS, ours, strict=True):
        ratio = f"{other / seconds:.2f}"
        yield ["one by one", str(width), ratio, "River", "1", f"{ONES / seconds:,.0f}"]


def _learn(batch: Any, labels: Any, width: int) -> None:
    learner = PrivateCauses(Causes(NAMES, width=width), 1, 1e-7, ROWS, min_rate=0.09)
    learner.learn_many(batch, labels)


def _group_bys(frame: pl.DataFrame, width: int) -> None:
    for some in _choices(width):
        frame.group_by(some).agg(pl.len(), pl.col("y").sum())


def _seconds(*actions: Callable[[], None]) -> list[float]:
    """Return the least processor time of several runs of each action; they take turns."""
    taken = list[list[float]]()
    for _ in range(TRIES):
        taken.append([])
        for action in actions:
            began = time.process_time()
            action()
            taken[-1].append(time.process_time() - began)
    return [min(seconds) for seconds in zip(*taken, strict=True)]
