"""Lemma 6.2, measured: the least share of the votes that the most voted rule ever had."""

import math
from itertools import pairwise

import numpy as np
from rich.table import Table

from bench.output import publish
from littlestone._classes.base import HypothesisClass
from littlestone._classes.specs import parse_spec
from littlestone._data.rounds import Rounds
from littlestone._learners.forest import Forest
from littlestone._simulate.adversaries import ADVERSARIES
from littlestone._simulate.games import marks
from littlestone._simulate.streams import Stream

TREES, ROUNDS, SEEDS = 400, 100_000, range(1, 4)
STREAMS = ("iid", "burst", "halving")


def run() -> None:
    """Trees of 2^(d+1) leaves, as the lemma asks (without its minimum of 20)."""
    table = Table("class")
    for name in ("leaves", *STREAMS, "eta of the proof"):
        table.add_column(name, justify="right")
    table.title = f"The most voted rule, {TREES} trees, {ROUNDS:,} rounds, worst of {len(SEEDS)}"
    for spec in ("points:x", "sets:x:2", "thresholds:x:1:3", "thresholds:x:1:7"):
        cls = parse_spec(spec)
        leaves = 2 ** (cls.dimension + 1)
        shares = []
        for name in STREAMS:
            least = 1.0
            for seed in SEEDS:
                stream = ADVERSARIES[name](cls, ROUNDS, seed, 0.0)
                if isinstance(stream, Stream):
                    least = min(least, least_share(cls, stream, leaves, TREES, seed))
            shares.append(f"{least:.4f}")
        table.add_row(f"`{spec}`", str(leaves), *shares, f"2^{supported(leaves):.0f}")
    publish("agreement", table)


def supported(leaves: int) -> float:
    """Return the binary logarithm of the share that the proof supports.

    >>> supported(4)
    -22.0
    """
    return -4 * leaves - 4 - math.log2(leaves)


def least_share(cls: HypothesisClass, stream: Stream, leaves: int, trees: int, seed: int) -> float:
    """Return the least share that the most voted rule had, over the sampled rounds.

    Parameters
    ----------
    cls
        The class.
    stream
        The rounds.
    leaves
        The leaves of a tree.
    trees
        How many trees there are.
    seed
        The seed of the forest.

    Returns
    -------
    float
        The share of all trees.
    """
    forest = Forest(cls, [leaves] * trees, seed, root="dies")
    least = 1.0
    for start, stop in pairwise([0, *marks(len(stream))]):
        part = stream.part(start, stop)
        forest.learn(Rounds(part.batch, part.answers, numbers=np.arange(start, stop)))
        least = min(least, max(forest.votes.values(), default=0) / trees)
    return least
