"""Memory of the causes learner on ten million rows of a file, and the time of one release.

Five columns of text, with few values and with a million each, as CSV and as Parquet, at widths 1
and 3. Each file is learned in a fresh process, whose peak memory is printed. The files are written
first, and deleted. `python -m bench.causes_memory PATH WIDTH` is the process that is measured.

One release: the counts and the draw of an epoch whose positive rows list a million patterns.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from rich.table import Table

from bench.reading import peak
from littlestone import Causes, PrivateCauses
from littlestone._data.readers import open_rows
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.epoch_rows import EpochRows
from littlestone._learners.rate_to_beat import odds, weights_of
from littlestone._privacy.causes import Moves
from littlestone._privacy.noise import SystemNoise

ROUNDS, PART = 10**7, 10**6
NAMES, FEW, MANY = tuple("abcde"), (10, 30, 100, 300, 1000), (10**6,) * 5
WIDTHS = (1, 3)
AIM_MEGABYTES, AIM_SECONDS, PATTERNS = 500, 2, 10**6


def tables() -> Iterator[Table]:
    """Yield the tables."""
    yield _memory()
    yield _release()


def _memory() -> Table:
    table = Table(
        "values", "file", "size", title="Causes: 1e7 rounds of a file in a process of its own"
    )
    for name in ("width", "peak MB", "aim", "ok", "rounds/s"):
        table.add_column(name, justify="left" if name == "ok" else "right")
    for values, sizes in (("10 to 1,000", FEW), ("1,000,000", MANY)):
        for suffix in ("csv", "parquet"):
            with TemporaryDirectory() as folder:
                path = _written(Path(folder, f"events.{suffix}"), sizes)
                for width in WIDTHS:
                    used, seconds = _measured(path, width)
                    table.add_row(
                        values,
                        suffix,
                        f"{path.stat().st_size / 1e6:,.0f} MB",
                        str(width),
                        f"{used / 1e6:.0f}",
                        f"< {AIM_MEGABYTES}",
                        "yes" if used < AIM_MEGABYTES * 1e6 else "NO",
                        f"{ROUNDS / seconds:,.0f}",
                    )
    return table


def _measured(path: Path, width: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.causes_memory", str(path), str(width)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(printed[0]), float(printed[1])


def _written(path: Path, sizes: tuple[int, ...]) -> Path:
    """Write the stream, some rounds at a time."""
    draw = np.random.default_rng(7)
    schema = pyarrow.schema([*((name, pyarrow.string()) for name in NAMES), ("y", pyarrow.int8())])
    parquet = path.suffix == ".parquet"
    kind = pyarrow.parquet.ParquetWriter if parquet else pyarrow.csv.CSVWriter
    with kind(str(path), schema) as writer:
        for _ in range(ROUNDS // PART):
            columns, labels = _rows(draw, PART, sizes)
            arrays = [_texts(column) for column in columns]
            table = pyarrow.table([*arrays, labels.astype(np.int8)], schema=schema)
            # Groups of the usual size.
            writer.write_table(table)
    return path


def _rows(
    draw: np.random.Generator, count: int, sizes: tuple[int, ...]
) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]:
    """Return columns of numbers, and labels that one value of the second column raises."""
    columns = [
        draw.integers(size, size=count)
        if size > max(FEW)
        else np.minimum(draw.zipf(1.5, count), size) - 1
        for size in sizes
    ]
    return columns, draw.random(count) < np.where(columns[1] == 1, 0.3, 0.01)


def _texts(numbers: npt.NDArray[np.int64]) -> Any:
    return pyarrow.compute.binary_join_element_wise(
        "v", pyarrow.array(numbers).cast(pyarrow.string()), ""
    )


def _release() -> Table:
    """Time the counts and the draw of an epoch."""
    title = f"Causes: one release over {PATTERNS:,} patterns of positive rows, width 3"
    table = Table("positive rows", "negative rows", "patterns", title=title)
    for name in ("counts s", "draw s", "aim", "ok"):
        table.add_column(name, justify="left" if name == "ok" else "right")
    cls = Causes(NAMES, width=3)
    plan = CausesPlan.practical(cls, 1, 1e-7, ROUNDS, min_rate=0.09)
    cost = odds(0.09)
    terms = plan.terms(cost)
    selector = plan.draw(terms)
    draw = np.random.default_rng(7)
    for positives, negatives in ((46_000, 10**6), (46_000, 2 * 10**6)):
        count = positives + negatives
        columns, _ = _rows(draw, count, MANY)
        labels = np.arange(count) < positives
        rows, batch = EpochRows(cls), dict(zip(NAMES, columns, strict=True))
        rows.add(rows.index.read(batch, np.flatnonzero(~labels), np.flatnonzero(labels)))
        start = time.process_time()
        adds, widths, keys, _ = rows.counts()
        counted = time.process_time()
        unknown, none = np.full(len(adds), -1), np.zeros((0, 2), dtype=np.int64)
        weights = weights_of(cost, terms.swing)
        moves = Moves(weights, adds, widths, unknown, keys, lambda *_: b"", none, [])
        selector.select(moves, SystemNoise(), 0)
        drawn = time.process_time()
        table.add_row(
            f"{positives:,}",
            f"{negatives:,}",
            f"{len(adds):,}",
            f"{counted - start:.2f}",
            f"{drawn - counted:.2f}",
            f"< {AIM_SECONDS} in all",
            "yes" if drawn - start < AIM_SECONDS else "NO",
        )
    return table


def main(path: str, width: int) -> None:
    """Learn a file, and print the peak memory in bytes and the seconds it took."""
    cls = Causes(NAMES, width=width)
    learner = PrivateCauses(cls, 1, 1e-7, ROUNDS, min_rate=0.09)
    start = time.process_time()
    with open_rows(path, cls, label="y") as rows:
        for block in rows:
            learner.learn_many(block.columns, block.labels, bad_rows="null")
    print(peak(), time.process_time() - start)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
