"""Streams for measuring: values, rows and scores at a rate of positives.

A stream too long to hold at once comes in parts: the same seed means the same target, and another
`part` means other rounds.
"""

from collections.abc import Sequence

import numpy as np

from littlestone import Thresholds, one_of
from littlestone._simulate.adversaries import flipped
from littlestone._simulate.streams import DOMAIN_SIZE, Stream, as_strings, zipf


def value_column(
    seed: int,
    rounds: int,
    rate: float,
    culprits: int = 1,
    noise: float = 0.0,
    part: int = 0,
) -> Stream:
    """Make one column of whole numbers in which some values are the positives."""
    draw = np.random.default_rng(seed)
    bad = draw.choice(np.arange(10, DOMAIN_SIZE), size=culprits, replace=False)
    draw = _of_part(draw, part)
    column = zipf(draw, rounds)
    # The culprits come only where positives are drawn, so that the rate is the given one.
    column[np.isin(column, bad)] = 0
    at = np.flatnonzero(draw.random(rounds) < rate)
    column[at] = draw.choice(bad, size=len(at))
    truth = one_of(bad.tolist())
    return Stream(column, flipped(draw, truth.predict(column), noise), truth)


def rows(
    seed: int,
    rounds: int,
    rate: float,
    columns: Sequence[str] = ("a", "b", "c", "d", "e"),
    noise: float = 0.0,
    part: int = 0,
) -> Stream:
    """Make several columns of strings; one value of one column causes the positives."""
    draw = np.random.default_rng(seed)
    where = int(draw.integers(0, len(columns)))
    bad = int(draw.integers(10, DOMAIN_SIZE))
    draw = _of_part(draw, part)
    ranks = {name: zipf(draw, rounds) for name in columns}
    culprit = ranks[columns[where]]
    culprit[culprit == bad] = 0
    culprit[draw.random(rounds) < rate] = bad
    truth = one_of([f"v{bad}"], columns[where])
    answers = flipped(draw, culprit == bad, noise)
    return Stream({name: as_strings(column) for name, column in ranks.items()}, answers, truth)


def scores(seed: int, rounds: int, points: int, noise: float = 0.0, part: int = 0) -> Stream:
    """Make uniform numbers, positive from a random cut on."""
    draw = np.random.default_rng(seed)
    cls = Thresholds(1, points)
    truth = cls.rule(int(draw.integers(0, cls.size)))
    draw = _of_part(draw, part)
    column = draw.integers(1, points + 1, size=rounds)
    return Stream(column, flipped(draw, truth.predict(column), noise), truth)


def _of_part(draw: np.random.Generator, part: int) -> np.random.Generator:
    """Return the random bits of a part's rounds, once the truth is drawn."""
    return draw.spawn(part)[-1] if part else draw
