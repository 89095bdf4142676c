"""Noisy labels, without a tolerance: releases, and whether the truth is what is published.

A culprit has 5 % of the rounds; its events are positive at the rate p, all others at the rate q.
`Points` and `Sets(3)` over 1,000 values, `Rules` over five columns of 100 values, where causes (one
of one column, 0/1 loss) are run beside DPSOA. Everything is fixed by seeds, which are not those on
which constants were chosen; the noise is `SeededNoise`, which is NOT PRIVATE.

    python -m bench noise [--classes points,sets,rules,rules-causes] [--seeds N]

Points alone take a minute, the others ten.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from bench.output import publish
from bench.trials import PROCESSES
from littlestone import DPSOA, Causes, Points, PrivateCauses, Rules, Sets
from littlestone._privacy.testing import SeededNoise

ROUNDS, SEEDS, SHARE, DELTA = 100_000, 20, 0.05, 1e-6
RATES, BASES = (0.6, 0.7, 0.8, 0.9, 1.0), (0.0, 0.02, 0.05, 0.1)
COLUMNS = list("abcde")
CLASSES: dict[str, Any] = {"points": Points("a"), "sets": Sets(3, "a"), "rules": Rules(COLUMNS)}
MAKERS: dict[str, Callable[[int], Any]] = {
    name: lambda seed, cls=cls: DPSOA(cls, 1, DELTA, ROUNDS, seed=seed, noise=SeededNoise(seed))
    for name, cls in CLASSES.items()
} | {
    "rules-causes": lambda seed: PrivateCauses(
        Causes(COLUMNS, 1, 1), 1, DELTA, ROUNDS, min_rate=0.5, seed=seed, noise=SeededNoise(seed)
    )
}


class Trial(NamedTuple):
    """Releases, mistakes beyond those of the truth, and whether the last rule is the truth."""

    releases: int
    excess: int
    found: bool


def _trial(asked: tuple[str, float, float, int]) -> Trial:
    name, p, q, seed = asked
    warnings.filterwarnings("ignore", message="delta = .* is above")
    draw, culprits = np.random.default_rng(seed), 3 if name == "sets" else 1
    size = 1_000 if name in ("points", "sets") else 100
    columns = {c: draw.integers(culprits, size, ROUNDS).astype(str) for c in COLUMNS}
    bad = draw.random(ROUNDS) < SHARE * culprits
    columns["a"] = np.where(bad, draw.integers(0, culprits, ROUNDS).astype(str), columns["a"])
    labels = np.where(bad, draw.random(ROUNDS) < p, draw.random(ROUNDS) < q)
    rows = {c: column.astype(object) for c, column in columns.items()}
    learner = MAKERS[name](seed)
    learner.learn_many(rows, labels)
    found = bool((np.asarray(learner.hypothesis.predict(rows)) == bad).all())
    return Trial(len(learner.releases) - 1, learner.mistakes - int((labels != bad).sum()), found)


def run(arguments: Sequence[str] = ()) -> None:
    """Print a table for each class."""
    parser = argparse.ArgumentParser(prog="python -m bench noise")
    parser.add_argument("--classes", default="points", help=f"of {', '.join(MAKERS)}")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    asked = parser.parse_args(list(arguments))
    seeds = asked.seeds
    for name in asked.classes.split(","):
        title = f"{name}: most releases / found in {seeds} / median excess, {ROUNDS:,} rounds"
        table = Table("p", *(f"q = {q:.0%}" for q in BASES), title=title)
        with get_context("spawn").Pool(PROCESSES) as pool:
            for p in RATES:
                cells = []
                for q in BASES:
                    tasks = [(name, p, q, 1_000 + seed) for seed in range(seeds)]
                    found = pool.map(_trial, tasks, chunksize=1)
                    most = max(trial.releases for trial in found)
                    right = sum(trial.found for trial in found)
                    excess = median(trial.excess for trial in found)
                    cells.append(f"{most} / {right} / {excess:,.0f}")
                table.add_row(f"{p:.0%}", *cells)
        publish("noise" if name == "points" else f"noise.{name}", table)
