"""Adversaries who react: the mirror against the forest and against `auto`, and the learner of
Theorem 4.2 beside the root of T, at an epsilon where it is not vacuous."""

import math
from statistics import median
from typing import NamedTuple

import numpy as np
from rich.table import Table

import littlestone as ls
from bench.output import publish
from littlestone._classes.specs import parse_spec
from littlestone._learners.registry import Terms, make_learner
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import Mirror
from littlestone._simulate.games import play
from littlestone.paper import AdaptiveDPSOA, EveryRoundPlan

EPSILON, DELTA = 20, 1e-6
HORIZONS = (1_000, 2_000, 5_000, 10_000)


class Case(NamedTuple):
    """A class and a learner against the mirror; the most mistakes aimed at, if any."""

    spec: str
    learner: str
    aim: int | None = None


FIVE, TEN = "rules:a,b,c,d,e", "rules:a,b,c,d,e,f,g,h,i,j"
MIRRORED = (
    Case("points:x", "dpsoa"),
    Case("sets:x:3", "dpsoa"),
    Case(FIVE, "dpsoa", 800),
    Case(TEN, "dpsoa", 1_700),
    Case("thresholds:x:1:30", "dpsoa"),
    Case("intervals:x:1:30", "dpsoa"),
    Case("conjunctions:a,b,c,d,e", "dpsoa"),
    Case("thresholds:x:1:30", "auto"),
    Case("intervals:x:1:30", "auto", 588),
    Case("conjunctions:a,b,c,d,e", "auto"),
)
MIRROR_EPSILON, MIRROR_DELTA, MIRROR_SEEDS, MIRROR_ROUNDS = 1, 1e-6, range(3), 20_000


def run() -> None:
    """Print both tables."""
    _mirror()
    _every_round()


def _mirror() -> None:
    """Print the mistakes and releases against the mirror, with aims and proved bounds."""
    title = (
        f"the mirror, which sees every rule: median of {len(MIRROR_SEEDS)} runs, "
        f"{MIRROR_ROUNDS:,} rounds, epsilon {MIRROR_EPSILON}, delta {MIRROR_DELTA}"
    )
    table = Table("class", "learner", title=title)
    for head in ("mistakes", "aim", "releases", "most releases proved"):
        table.add_column(head, justify="right")
    for spec, learner, aim in MIRRORED:
        cls = parse_spec(spec)
        runs = [_mirrored(cls, learner, MIRROR_ROUNDS, seed) for seed in MIRROR_SEEDS]
        mistakes, releases = (median(some) for some in zip(*runs, strict=True))
        bound = cls.most_releases if learner == "dpsoa" else None
        met = "" if aim is None else f"{aim:,}{'' if mistakes <= aim else ' NOT met'}"
        cells = f"{mistakes:,.0f}", met, f"{releases:,.0f}", "" if bound is None else f"{bound}"
        table.add_row(f"`{spec}`", learner, *cells)
    publish("adaptive", table)


def _mirrored(cls: ls.HypothesisClass, name: str, horizon: int, seed: int) -> tuple[int, int]:
    """Return the mistakes and the releases of one game."""
    terms = Terms(cls=cls, epsilon=MIRROR_EPSILON, delta=MIRROR_DELTA, horizon=horizon)
    learner = make_learner(name, terms, seed=seed, noise=SeededNoise(seed))
    game = play(learner, Mirror(cls), horizon)
    return game.mistakes, len(learner.releases) - 1


def _every_round() -> None:
    """Print the mistakes beside the root of T, and what the plan says at epsilon 1."""
    title = f"AdaptiveDPSOA, Points, half of the rounds positive, epsilon {EPSILON}, delta {DELTA}"
    table = Table(title=title)
    for head in ("T", "mistakes", "predicted by the plan", "mistakes / root of T", "releases"):
        table.add_column(head, justify="right")
    for horizon in HORIZONS:
        learner = AdaptiveDPSOA(ls.Points(), EPSILON, DELTA, horizon, seed=1, noise=SeededNoise(1))
        column = np.random.default_rng(1).integers(0, 2, horizon)
        learner.learn_many(column, column == 1)
        ratio = learner.mistakes / math.sqrt(horizon)
        predicted, releases = learner.plan.mistakes_needed or 0, len(learner.releases) - 1
        table.add_row(
            f"{horizon:,}", f"{learner.mistakes:,}", f"{predicted:,}", f"{ratio:.1f}", str(releases)
        )
    publish("adaptive.theorem", table)
    print(EveryRoundPlan.of(1, DELTA, 10_000))
