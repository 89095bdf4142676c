"""One draw from classes that are too large for a list: seconds of scoring and drawing."""

from fractions import Fraction
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

import littlestone as ls
from bench.clock import seconds
from littlestone._learners.large_scores import IntervalCounts, VocabularyCounts
from littlestone._privacy.noise import SystemNoise

POINTS, VALUES = 100_000, 500_000
RATE = Fraction(1, 4)


def run() -> None:
    """Print the table."""
    table = Table("class", "rules", "rows of the epoch", "a draw, s", title="large finite classes")
    draw = np.random.default_rng(1)
    intervals = ls.Intervals(1, POINTS)
    for rows in (1_000, 20_000, 200_000):
        numbers, counts = draw.integers(1, POINTS + 1, rows), IntervalCounts(intervals)
        counts.learn(numbers, (numbers > 30_000) & (numbers < 50_000), np.arange(rows))
        took = f"{seconds(partial(_draw, counts)):.3f}"
        table.add_row(f"intervals of {POINTS:,} points", f"{intervals.size:,}", f"{rows:,}", took)
    vocabularies = {name: [f"{name}{n}" for n in range(VALUES)] for name in "ab"}
    cls = ls.VocabularyRules(vocabularies)
    for rows in (1_000, 20_000):
        numbers = draw.integers(0, 5_000, (2, rows))
        batch = {
            name: np.array([f"{name}{n}" for n in column])
            for name, column in zip("ab", numbers, strict=True)
        }
        found = VocabularyCounts(cls)
        found.learn(batch, batch["a"] == "a7", np.arange(rows))
        took = f"{seconds(partial(_draw, found)):.3f}"
        table.add_row(f"2 vocabularies of {VALUES:,}", f"{cls.size:,}", f"{rows:,}", took)
    Console(highlight=False, width=100).print(table)


def _draw(counts: IntervalCounts | VocabularyCounts) -> bytes:
    return counts.ballot.draw(RATE, SystemNoise(), 0)
