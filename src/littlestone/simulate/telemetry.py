"""Make a stream of telemetry: events of a mobile app, one of whose versions fails.

Columns have many values, with a few common values and a long tail. The bad version is rolled
out some way into the stream; before that failures are noise.
"""

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from littlestone.simulate.streams import zipf

TELEMETRY_COLUMNS = ("version", "country", "device", "carrier", "language")
CULPRIT = "4.2.1"
SIZES = {"version": 2_000, "country": 240, "device": 8_000, "carrier": 900, "language": 180}
ROLLED_OUT, SHARE, NOISE = 0.2, 0.05, 0.01


def column_values(column: str) -> list[str]:
    """Return the values of a column, the commonest first."""
    size = SIZES[column]
    if column == "version":
        names = [f"{n // 200 + 3}.{n // 20 % 10}.{n % 20}" for n in range(size)]
        return [name for name in names if name != CULPRIT]
    if column == "device":
        makers = ("Nova", "Pixel", "Aero", "Moto", "Zen")
        return [f"{makers[n % 5]} {n // 5 + 1}" for n in range(size)]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    codes = [a + b for a in letters for b in letters]
    return codes[:size] if column != "carrier" else [f"carrier-{n}" for n in range(size)]


def write_events(path: Path, events: int = 300_000, seed: int = 7) -> int:
    """Write the stream as a CSV file.

    Returns the event from which on the bad version is in use.

    Parameters
    ----------
    path
        The file.
    events
        How many events.
    seed
        The seed.
    """
    draw = np.random.default_rng(seed)
    columns = {name: _column(draw, name, events) for name in TELEMETRY_COLUMNS}
    start = round(ROLLED_OUT * events)
    # Before the roll-out nobody has the bad version: failures there are noise.
    bad = (np.arange(events) >= start) & (draw.random(events) < SHARE)
    columns["version"][bad] = CULPRIT
    failed = (bad ^ (draw.random(events) < NOISE)).astype(int)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*TELEMETRY_COLUMNS, "failed"])
        writer.writerows(zip(*columns.values(), failed.tolist(), strict=True))
    return start


def _column(draw: np.random.Generator, name: str, events: int) -> npt.NDArray[np.object_]:
    values = np.array(column_values(name), dtype=object)
    return np.asarray(values[zipf(draw, events, len(values))])
