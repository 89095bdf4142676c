"""Coverage of the evidence's intervals of 95 %: from 94 to 97 % of simulated windows.

Counts are simulated as the learner releases them: rows of a cause with a true rate, split evenly
among windows, with discrete Laplace noise in each at the evidence's share of epsilon (a tenth of
1), not by running the learner. Beside: the median length.
"""

import numpy as np
from rich.console import Console
from rich.table import Table

from littlestone._simulate.intervals import interval_coverage

RUNS = 5000
EVENTS, RATES, WINDOWS = (200, 1000, 5000, 20_000), (0.02, 0.1, 0.3, 0.5), (1, 4, 12)


def run() -> None:
    """Print the table."""
    table = Table("events", "rate", "windows", "holds", "median length", "ok")
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
                ok = "yes" if 0.94 <= found.share <= 0.97 else "NO"
                cells = f"{events:,}", f"{rate:.0%}", str(windows), f"{found.share:.1%}"
                table.add_row(*cells, f"{found.length:.3f}", ok)
        table.add_section()
    console = Console(highlight=False, width=100)
    console.print(table)
    console.print(f"all: {np.mean(shares):.2%}, from {min(shares):.1%} to {max(shares):.1%}")
