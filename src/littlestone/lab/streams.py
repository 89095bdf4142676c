"""Make synthetic streams, fixed by a seed, so that a figure can be printed again.

A stream is columns, labels and the rule behind them. Unbounded vocabularies are Zipf distributed:
value r of a column comes up in proportion to 1/(r + 1). A stream too long to hold at once comes in
parts: the same seed means the same truth, and another `part` means other rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import Batch, part_of
from littlestone.theory.thresholds import Thresholds
from littlestone.theory.values import Mask
from littlestone.theory.vocabulary import one_of

Spacing = Literal["i.i.d.", "burst", "even"]
SPACINGS: tuple[Spacing, ...] = ("i.i.d.", "burst", "even")
VOCABULARY = 100_000


@dataclass(frozen=True)
class Stream:
    """Hold examples with labels, and the rule that the labels follow but for noise.

    Parameters
    ----------
    batch
        The examples.
    answers
        The labels.
    truth
        The rule behind them; None if it is not known.
    later
        The target from round `turn` on, if it changes.
    turn
        The round, from 0, at which it changes.
    """

    batch: Batch
    answers: Mask
    truth: Hypothesis | None
    later: Hypothesis | None = None
    turn: int = 0

    def __len__(self) -> int:
        return len(self.answers)

    def part(self, start: int, stop: int) -> "Stream":
        """Return some of its rounds.

        Parameters
        ----------
        start
            The first round, from 0.
        stop
            The round after the last.

        Returns
        -------
        Stream
            The rounds.
        """
        some = slice(start, stop)
        return replace(
            self,
            batch=part_of(self.batch, some),
            answers=self.answers[some],
            turn=max(0, self.turn - start),
        )

    def errors(self, rule: Hypothesis) -> int:
        """Return the mistakes of one fixed rule."""
        return int((rule.predict(self.batch) != self.answers).sum())

    @property
    def unavoidable(self) -> int | None:
        """Return the mistakes of the targets, each while it is the target: the label noise."""
        if self.truth is None:
            return None
        if self.later is None:
            return self.errors(self.truth)
        before, after = self.part(0, self.turn), self.part(self.turn, len(self))
        return before.errors(self.truth) + after.errors(self.later)


def zipf(draw: np.random.Generator, count: int, size: int = VOCABULARY) -> npt.NDArray[np.int64]:
    """Draw ranks from 0 on, by inverting the logarithm that the weights 1/(r + 1) sum up to.

    Parameters
    ----------
    draw
        The random bits.
    count
        How many ranks.
    size
        How many values there are.

    Returns
    -------
    array of int64
        The ranks.

    Examples
    --------
    >>> zipf(np.random.default_rng(7), 6)
    array([ 1333, 30623,  7557,    12,    30, 23321])
    """
    ranks = np.exp(draw.random(count) * np.log(size)).astype(np.int64)
    return np.asarray(np.minimum(ranks, size) - 1)


def positions(
    draw: np.random.Generator, rounds: int, rate: float, spacing: Spacing
) -> npt.NDArray[np.intp]:
    """Draw the rounds of the positives.

    Parameters
    ----------
    draw
        The random bits.
    rounds
        The number of rounds.
    rate
        The share of positives.
    spacing
        How they are spread.

    Returns
    -------
    array of int
        The rounds.
    """
    count = round(rounds * rate)
    if spacing == "i.i.d.":
        return np.flatnonzero(draw.random(rounds) < rate)
    if spacing == "burst":
        start = int(draw.integers(0, rounds - count + 1))
        return np.arange(start, start + count)
    return (np.arange(count) * rounds) // count


def values(
    seed: int,
    rounds: int,
    rate: float,
    spacing: Spacing = "i.i.d.",
    culprits: int = 1,
    noise: float = 0.0,
    part: int = 0,
) -> Stream:
    """Make one column of whole numbers in which some values are the positives.

    Parameters
    ----------
    seed
        The seed.
    rounds
        The number of rounds.
    rate
        The share of positives.
    spacing
        How they are spread.
    culprits
        How many values are positive.
    noise
        The share of labels that are flipped.
    part
        Which part of the stream.

    Returns
    -------
    Stream
        The stream.
    """
    draw = np.random.default_rng(seed)
    bad = draw.choice(np.arange(10, VOCABULARY), size=culprits, replace=False)
    draw = _of_part(draw, part)
    column = zipf(draw, rounds)
    column[np.isin(column, bad)] = 0
    at = positions(draw, rounds, rate, spacing)
    column[at] = draw.choice(bad, size=len(at))
    truth = one_of(bad.tolist())
    return Stream(column, _noisy(draw, truth.predict(column), noise), truth)


def rows(
    seed: int,
    rounds: int,
    rate: float,
    spacing: Spacing = "i.i.d.",
    columns: Sequence[str] = ("a", "b", "c", "d", "e"),
    correlated: bool = False,
    noise: float = 0.0,
    part: int = 0,
) -> Stream:
    """Make several columns of strings; one value of one column causes the positives.

    Parameters
    ----------
    seed
        The seed.
    rounds
        The number of rounds.
    rate
        The share of positives.
    spacing
        How they are spread.
    columns
        The names of the columns.
    correlated
        Whether the column after the cause's agrees with it nine times in ten.
    noise
        The share of labels that are flipped.
    part
        Which part of the stream.

    Returns
    -------
    Stream
        The stream.
    """
    draw = np.random.default_rng(seed)
    where = int(draw.integers(0, len(columns)))
    bad = int(draw.integers(10, VOCABULARY))
    draw = _of_part(draw, part)
    ranks = {name: zipf(draw, rounds) for name in columns}
    culprit = ranks[columns[where]]
    culprit[culprit == bad] = 0
    culprit[positions(draw, rounds, rate, spacing)] = bad
    if correlated:
        follows = draw.random(rounds) < 0.9
        beside = ranks[columns[(where + 1) % len(columns)]]
        beside[follows] = culprit[follows]
    truth = one_of([f"v{bad}"], columns[where])
    answers = _noisy(draw, culprit == bad, noise)
    return Stream({name: spelt(column) for name, column in ranks.items()}, answers, truth)


def spelt(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
    """Return ranks as strings, each a Python object made once."""
    names = np.array([f"v{rank}" for rank in range(VOCABULARY)], dtype=object)
    return np.asarray(names[ranks])


def scores(seed: int, rounds: int, points: int, noise: float = 0.0, part: int = 0) -> Stream:
    """Make uniform numbers, positive from a random cut on.

    Parameters
    ----------
    seed
        The seed.
    rounds
        The number of rounds.
    points
        The largest number; the smallest is 1.
    noise
        The share of labels that are flipped.
    part
        Which part of the stream.

    Returns
    -------
    Stream
        The stream.
    """
    draw = np.random.default_rng(seed)
    cls = Thresholds(1, points)
    truth = cls.rule(int(draw.integers(0, cls.size)))
    draw = _of_part(draw, part)
    column = draw.integers(1, points + 1, size=rounds)
    return Stream(column, _noisy(draw, truth.predict(column), noise), truth)


def _of_part(draw: np.random.Generator, part: int) -> np.random.Generator:
    """Return the random bits of a part's rounds, once the truth is drawn."""
    return draw.spawn(part)[-1] if part else draw


def _noisy(draw: np.random.Generator, answers: Mask, noise: float) -> Mask:
    return np.asarray(answers ^ (draw.random(len(answers)) < noise)) if noise else answers
