"""Coverage of the evidence's intervals of 95 %: from 94 to 97 % of simulated windows.

Counts are simulated as the learner releases them: rows of a cause with a true rate, split evenly
among windows, with discrete Laplace noise in each at the evidence's share of epsilon (a tenth of
1), not by running the learner. Beside: the median length.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from bench.output import publish_text
from littlestone._learners.evidence import estimate_rate

RUNS = 5000
EVENTS, RATES, WINDOWS = (200, 1000, 5000, 20_000), (0.02, 0.1, 0.3, 0.5), (1, 4, 12)


def run() -> None:
    """Print the table."""
    table = Table("events", "rate", "windows", "holds", "median length", "of events", "ok")
    table.title = f"Intervals of 95 %, {RUNS:,} simulations each: aim 94 to 97 %"
    shares = []
    for events in EVENTS:
        for rate in RATES:
            for windows in WINDOWS:
                found = interval_coverage(
                    events=events,
                    rate=rate,
                    windows=windows,
                    epsilon=0.1,
                    runs=RUNS,
                    draw=np.random.default_rng([events, round(100 * rate), windows]),
                )
                shares.append(found.share)
                ok = "yes" if 0.94 <= min(found.share, found.of_events) <= 0.97 else "NO"
                cells = f"{events:,}", f"{rate:.0%}", str(windows), f"{found.share:.1%}"
                table.add_row(*cells, f"{found.length:.3f}", f"{found.of_events:.1%}", ok)
        table.add_section()
    Console(highlight=False, width=100).print(table)
    publish_text(
        "evidence",
        f"The 95 % intervals cover the true rate in {100 * min(shares):.1f} to "
        f"{100 * max(shares):.1f} % of {RUNS:,} simulations at each of {len(shares)} settings.",
    )


class Coverage(NamedTuple):
    """Hold how often intervals held the true rate and the true events, and how long the first was."""

    share: float
    length: float
    of_events: float


def interval_coverage(
    *,
    events: int,
    rate: float,
    windows: int = 1,
    epsilon: float,
    runs: int,
    draw: np.random.Generator,
) -> Coverage:
    """Simulate released counts, and see how often their intervals hold what is true."""
    scale = 2 / epsilon
    sizes = np.full(windows, events // windows)
    sizes[: events % windows] += 1
    held, counted, lengths = 0, 0, []
    for _ in range(runs):
        positives = draw.binomial(sizes, rate)
        noisy = [
            counts + _laplace(scale, windows, draw) for counts in (sizes - positives, positives)
        ]
        cells = [(int(no), int(yes), scale) for no, yes in zip(*noisy, strict=True)]
        found = estimate_rate(cells)
        held += found.low <= rate <= found.high
        counted += found.events_low <= events <= found.events_high
        lengths.append(found.high - found.low)
    return Coverage(held / runs, float(np.median(lengths)), counted / runs)


def _laplace(scale: float, size: int, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return discrete Laplace noise: the difference of two geometric integers."""
    share = -np.expm1(-1 / scale)
    return np.asarray(draw.geometric(share, size) - draw.geometric(share, size))
