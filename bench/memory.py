"""Memory and speed of learning ten million rounds from a CSV and from a Parquet file.

Thresholds here, causes in `bench/causes_memory.py`.

Prints the peak memory of a fresh process that reads and learns a file, and of one that only reads
it; and the speeds of both, of which the ratio counts. The files are written first, and deleted.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
from rich.console import Console
from rich.table import Table

from bench import causes_memory
from bench.streams import scores

ROUNDS, PART = 10**7, 10**6
AIM = 300
TRIES = 2


class Used(NamedTuple):
    """What a process took, in megabytes and seconds."""

    peak: float
    time: float


def run() -> None:
    """Print the table."""
    title = "Learning 1e7 rounds (thresholds on 15 values) from a file, in a process of its own"
    table = Table("file", "size", title=title)
    for name in ("peak MB", "read only", "aim", "ok", "rounds/s", "read only", "ratio"):
        table.add_column(name, justify="left" if name == "ok" else "right")
    with TemporaryDirectory() as folder:
        for path in (_csv(Path(folder)), _parquet(Path(folder))):
            learned, read = (_measured(path, what) for what in ("learn", "read"))
            table.add_row(
                path.suffix[1:],
                f"{path.stat().st_size / 1e6:.0f} MB",
                f"{learned.peak:.0f}",
                f"{read.peak:.0f}",
                f"< {AIM}",
                "yes" if learned.peak < AIM else "NO",
                f"{ROUNDS / learned.time:,.0f}",
                f"{ROUNDS / read.time:,.0f}",
                f"{read.time / learned.time:.2f}",
            )
    console = Console(highlight=False, width=100)
    console.print(table)
    for more in causes_memory.tables():
        console.print(more)


def _measured(path: Path, what: str) -> Used:
    """The highest peak and the shortest time of a few processes."""
    command = [sys.executable, "-m", "bench.reading", str(path), str(ROUNDS), what]
    runs = [
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(TRIES)
    ]
    peaks, times = zip(*runs, strict=True)
    return Used(max(map(float, peaks)) / 1e6, min(map(float, times)))


def _csv(folder: Path) -> Path:
    """Every line is one of few, so they are written once and looked up."""
    lines = np.array([[b"%d,%d\n" % (score, label) for label in (0, 1)] for score in range(16)])
    path = folder / "scores.csv"
    with path.open("wb") as file:
        file.write(b"score,label\n")
        for column, answers in _parts():
            file.write(b"".join(lines[column, answers].tolist()))
    return path


def _parquet(folder: Path) -> Path:
    path = folder / "scores.parquet"
    schema = pyarrow.schema([("score", pyarrow.int64()), ("label", pyarrow.int8())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for column, answers in _parts():
            writer.write_table(pyarrow.table([column, answers], schema=schema))
    return path


def _parts() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]]:
    """The stream, some rounds at a time."""
    for part in range(ROUNDS // PART):
        stream = scores(7, PART, 15, part=part)
        yield np.asarray(stream.batch), stream.answers.astype(np.int8)
