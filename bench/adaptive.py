"""The adaptive learner beside the root of T, at an epsilon where it is not vacuous."""

import math

import numpy as np
from rich.console import Console
from rich.table import Table

import littlestone as ls
from littlestone.privacy.testing import SeededNoise

EPSILON, DELTA = 20, 1e-6
HORIZONS = (1_000, 2_000, 5_000, 10_000, 20_000)


def run() -> None:
    """Print the table, and what the plan says at epsilon 1."""
    title = f"AdaptiveDPSOA, Points, half of the rounds positive, epsilon {EPSILON}, delta {DELTA}"
    table = Table("T", "mistakes", "predicted", "mistakes / root of T", "releases", title=title)
    for horizon in HORIZONS:
        learner = ls.AdaptiveDPSOA(
            ls.Points(), EPSILON, DELTA, horizon, seed=1, noise=SeededNoise(1)
        )
        column = np.random.default_rng(1).integers(0, 2, horizon)
        learner.learn_many(column, column == 1)
        ratio = learner.mistakes / math.sqrt(horizon)
        predicted, releases = learner.plan.mistakes_needed or 0, len(learner.releases) - 1
        table.add_row(
            f"{horizon:,}", f"{learner.mistakes:,}", f"{predicted:,}", f"{ratio:.1f}", str(releases)
        )
    Console(highlight=False, width=100).print(table)
    print(ls.EveryRoundPlan.of(1, DELTA, 10_000))
