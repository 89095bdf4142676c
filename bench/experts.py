"""Private experts on thresholds: mistakes per bit of dimension, epsilon 1. Aim: at most 35.

The mirror sees every rule that is published, so it is played round by round, for fewer rounds.
"""

from collections.abc import Callable
from statistics import median

from rich.console import Console
from rich.table import Table

import littlestone as ls
from bench.streams import scores
from littlestone._learners.experts import FirstRule
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import Adversary, halving, mirror
from littlestone._simulate.games import play

DIMENSIONS = (2, 4, 10)
HORIZONS = (10**5, 10**6, 10**7)
SHORT = 20_000
SEEDS = 20


def run() -> None:
    """Print the table."""
    title = f"PrivateExperts on thresholds, epsilon 1, {SEEDS} seeds: mistakes per bit"
    table = Table("stream", "d", "T", "first rule", "median", "worst", "releases", title=title)
    for name, make in STREAMS.items():
        for d in DIMENSIONS:
            for horizon in (SHORT,) if name == "mirror" else HORIZONS:
                for first in FIRST[: 1 if horizon > HORIZONS[0] else None]:
                    table.add_row(
                        name, str(d), f"{horizon:,}", first, *cells(make, d, horizon, first)
                    )
    Console(highlight=False, width=100).print(table)


def cells(
    make: Callable[[int, int, int], Adversary], d: int, horizon: int, first: FirstRule
) -> tuple[str, str, str]:
    """Median and worst mistakes per bit, and the releases in the median."""
    found = [one(make(seed, horizon, d), horizon, d, first, seed) for seed in range(SEEDS)]
    mistakes = [count / d for count, _ in found]
    releases = median(count for _, count in found)
    return f"{median(mistakes):.1f}", f"{max(mistakes):.1f}", f"{releases:.0f}"


def one(who: Adversary, horizon: int, d: int, first: FirstRule, seed: int) -> tuple[int, int]:
    """The mistakes of one run, and its releases."""
    noise = SeededNoise(seed)
    learner = ls.PrivateExperts(cuts(d), 1, horizon, first=first, seed=seed, noise=noise)
    game = play(learner, who, horizon)
    return game.mistakes, len(game.releases) - 1


def cuts(d: int) -> ls.Thresholds:
    """Thresholds of dimension d."""
    return ls.Thresholds(1, 2**d - 1)


STREAMS: dict[str, Callable[[int, int, int], Adversary]] = {
    "mirror": lambda seed, horizon, d: mirror(cuts(d), horizon, seed),
    "halving": lambda seed, horizon, d: halving(cuts(d), horizon, seed),
    "uniform i.i.d.": lambda seed, horizon, d: scores(seed, horizon, 2**d - 1),
}
FIRST: tuple[FirstRule, ...] = ("drawn", "own")
