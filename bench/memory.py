"""Peak memory of learning ten million rows of a file to the end, each in a process of its own.

Thresholds on one column of 15 numbers; causes of five columns of text, with 10 to 1,000 values each
and with a million each, at widths 1 to 3. Files are CSV and Parquet; they are written first, and
deleted. Two processes run at a time. `python -m bench memory --rounds 1000000` is a quick look, and
`python -m bench.memory PATH WIDTH ROUNDS` is the process that is measured (width 0: thresholds).

One release: the counts and the draw of an epoch whose positive rows list a million patterns.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from rich.table import Table

from bench.output import publish
from littlestone import DPSOA, Causes, PrivateCauses, Thresholds
from littlestone._data.readers import open_rows
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.epoch_rows import EpochRows
from littlestone._learners.rate_to_beat import odds, weights_of
from littlestone._privacy.causes import Moves
from littlestone._privacy.noise import SystemNoise

ROUNDS, PART = 10**7, 10**6
NAMES, FEW, MANY = tuple("abcde"), (10, 30, 100, 300, 1000), (10**6,) * 5
AIM_SECONDS, PATTERNS = 2, 10**6
LINUX = Path("/proc/self/status")


class Contest(NamedTuple):
    """Name the values of a file's columns, its format, the widths it is learned at, and the aim."""

    values: str
    sizes: tuple[int, ...]
    suffix: str
    widths: tuple[int, ...]
    megabytes: int = 500


# The longest first.
CONTESTS = (
    Contest("1,000,000", MANY, "parquet", (1, 2, 3)),
    Contest("1,000,000", MANY, "csv", (3,)),
    Contest("10 to 1,000", FEW, "csv", (1, 3)),
    Contest("10 to 1,000", FEW, "parquet", (1, 3)),
    Contest("1 to 15", (15,), "csv", (0,), 300),
    Contest("1 to 15", (15,), "parquet", (0,), 300),
)


def run(arguments: Sequence[str] = ()) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench memory")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args(list(arguments)).rounds
    publish("memory", _memory(rounds))
    publish("memory.release", _release())


def _memory(rounds: int) -> Table:
    title = f"{rounds:,} rows of a file, learned to the end in a process of its own"
    table = Table("learner", "values a column", "file", "size", title=title)
    for name in ("peak MB", "aim", "ok", "rows/s"):
        table.add_column(name, justify="left" if name == "ok" else "right")
    with ThreadPoolExecutor(2) as pool:
        for lines in pool.map(partial(_lines, rounds=rounds), CONTESTS):
            for line in lines:
                table.add_row(*line)
    return table


def _lines(contest: Contest, rounds: int) -> list[list[str]]:
    with TemporaryDirectory() as folder:
        path = _written(Path(folder, f"events.{contest.suffix}"), contest.sizes, rounds)
        size = f"{path.stat().st_size / 1e6:,.0f} MB"
        lines = []
        for width in contest.widths:
            peak, seconds = _measured(path, width, rounds)
            lines.append(
                [
                    f"causes, width {width}" if width else "DPSOA, thresholds",
                    contest.values,
                    contest.suffix,
                    size,
                    f"{peak / 1e6:.0f}",
                    f"< {contest.megabytes}",
                    "yes" if peak < contest.megabytes * 1e6 else "NO",
                    f"{rounds / seconds:,.0f}",
                ]
            )
    return lines


def _measured(path: Path, width: int, rounds: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.memory", str(path), str(width), str(rounds)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(printed[0]), float(printed[1])


def _written(path: Path, sizes: tuple[int, ...], rounds: int) -> Path:
    """Write the stream, some rounds at a time."""
    draw, names = np.random.default_rng(7), NAMES[: len(sizes)]
    held = pyarrow.string() if len(sizes) > 1 else pyarrow.int64()
    schema = pyarrow.schema([*((name, held) for name in names), ("y", pyarrow.int8())])
    parquet = path.suffix == ".parquet"
    kind = pyarrow.parquet.ParquetWriter if parquet else pyarrow.csv.CSVWriter
    with kind(str(path), schema) as writer:
        for arrays in _parts(draw, sizes, rounds):
            # Groups of the usual size.
            writer.write_table(pyarrow.table(arrays, schema=schema))
    return path


def _parts(
    draw: np.random.Generator, sizes: tuple[int, ...], rounds: int
) -> Iterator[list[npt.NDArray[Any]]]:
    for _ in range(rounds // PART):
        if len(sizes) == 1:
            scores = draw.integers(1, 1 + sizes[0], PART)
            yield [scores, (scores >= 8).astype(np.int8)]
        else:
            columns, labels = _rows(draw, PART, sizes)
            yield [*map(_texts, columns), labels.astype(np.int8)]


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


def peak() -> int:
    """Return the most memory this program has held, in bytes."""
    # `getrusage` also counts what the process was before it became this program.
    if LINUX.exists():
        (line,) = (line for line in LINUX.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(path: str, width: int, rounds: int) -> None:
    """Learn a file, and print the peak memory in bytes and the seconds it took."""
    learner: DPSOA | PrivateCauses
    if width:
        learner = PrivateCauses(Causes(NAMES, width=width), 1, 1e-8, rounds, min_rate=0.09)
    else:
        learner = DPSOA(Thresholds(1, 15, column=NAMES[0]), 1, 1e-9, rounds)
    start = time.process_time()
    with open_rows(path, learner.cls, label="y") as rows:
        for block in rows:
            learner.learn_many(block.columns, block.labels, bad_rows="null")
    print(peak(), time.process_time() - start)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
