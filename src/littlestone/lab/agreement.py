"""Measure how large a share of the votes the most voted rule has (Lemma 6.2).

The lemma says that in the paper's forest some rule has a share eta of the votes at all times; the
eta that its proof supports is 2^(-4 k1 - 4)/k1 for trees of k1 leaves. The measure takes the forest
alone, without a gate: it is not private, and nothing of it is published.
"""

import math
from itertools import pairwise

import numpy as np

from littlestone.lab.games import marks
from littlestone.lab.streams import Stream
from littlestone.learning.forest import Forest
from littlestone.theory.classes import HypothesisClass


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
        forest.learn(part.batch, part.answers, np.arange(start, stop))
        least = min(least, max(forest.votes.values(), default=0) / trees)
    return least
