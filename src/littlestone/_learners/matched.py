"""Match rounds with the published causes: what the causes learner reads of rows.

Of a row the learner reads its label, how many published causes match it and which is the first and,
if none does, what the rows of an epoch keep of it: the codes of its columns and, if it is positive,
its exact values. All of that is a function of the row and of what is published (`effect.py`), and
draws no noise: it may be computed anywhere, and again after a loss (docs/guarantee.md, Theorem 13).
So rows that are on a cluster stay there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.causes import Causes
from littlestone._data.rounds import Numbers, Rounds
from littlestone._hypotheses.causes import Cause, match_counts, own_causes
from littlestone._hypotheses.values import Mask
from littlestone._learners.epoch_rows import ColumnsOfRows, pattern_index
from littlestone._privacy.causes import Counts


def match(cls: Causes, rounds: Rounds, causes: Sequence[Cause]) -> "Matched":
    """Match rounds with causes, and code those that none matches."""
    size, index, own = len(rounds), pattern_index(cls), None
    answers = rounds.answers
    if causes and size:
        counts, first = match_counts(causes, rounds.columns)
        if cls.has_outcomes:
            own = own_causes(causes, rounds.columns, counts)
    else:
        counts, first = np.zeros(size, np.int8), np.full(size, -1, np.int8)
    unmatched = counts == 0
    negative, positive = unmatched & ~answers, unmatched & answers
    rows = index.read(rounds.columns, negative.nonzero()[0], positive.nonzero()[0])
    return Matched(rounds.number, answers, counts, first, rows, own)


class Matched(NamedTuple):
    """Hold rounds with how many causes match each, and which is the first (-1 if none)."""

    number: Numbers
    answers: Mask
    counts: npt.NDArray[np.int8]
    first: npt.NDArray[np.int8]
    unmatched: ColumnsOfRows
    # The first cause of a row's own outcome, if causes have outcomes.
    own: npt.NDArray[np.int8] | None = None

    @property
    def size(self) -> int:
        """Return the number of rounds."""
        return len(self.number)

    def between(self, start: int, stop: int) -> "Matched":
        """Return the rounds from `start` up to, not including, `stop`."""
        begin, end = map(int, np.searchsorted(self.number, [start, stop]))
        if (begin, end) == (0, self.size):
            return self
        kept = np.zeros(self.size, dtype=bool)
        kept[begin:end] = True
        return self.taken(kept)

    def taken(self, kept: Mask) -> "Matched":
        """Return the rounds of a mask."""
        unmatched = self.counts == 0
        return Matched(
            self.number[kept],
            self.answers[kept],
            self.counts[kept],
            self.first[kept],
            self.unmatched.part(kept[unmatched & ~self.answers], kept[unmatched & self.answers]),
            None if self.own is None else self.own[kept],
        )

    @property
    def wrong(self) -> Mask:
        """Return the rows with a loss: missed positives, and negatives that a cause matches."""
        told = self.first >= 0
        if self.own is not None:
            # A positive is told by a cause of its own outcome only.
            told &= (self.own >= 0) | ~self.answers
        return np.asarray(told != self.answers)

    @property
    def right(self) -> Mask:
        """Return the positive rows that no cause matches, or first one of their outcome."""
        if self.own is None:
            return self.answers
        return np.asarray(self.answers & ((self.first < 0) | (self.own == self.first)))

    def named(self, places: Counts) -> Counts:
        """Return how many rows that no cause matches have each outcome of a published cause."""
        assert self.own is not None, "causes have outcomes"
        rows = self.answers & (self.first < 0) & (self.own >= 0)
        counts = np.bincount(places[self.own[rows]], minlength=int(places.max()) + 1)
        return counts.astype(np.int64)

    def cells(self, causes: int) -> Counts:
        """Return the negatives and positives that each cause matches first; last, of none."""
        positives = int(np.count_nonzero(self.answers))
        total = np.array([[self.size - positives, positives]])
        if not causes:
            return total
        matched = np.flatnonzero(self.counts)
        first = _by_label(self.first[matched], self.right[matched], causes)
        answers = _by_label(self.first[matched], self.answers[matched], causes)
        return np.concatenate([first, total - answers.sum(axis=0)])

    def alone(self, causes: int) -> Counts:
        """Return the negatives and positives that each cause alone matches."""
        alone = self.counts == 1
        if self.own is not None:
            # A positive of another outcome moves no score.
            alone &= self.right == self.answers
        rows = np.flatnonzero(alone)
        return _by_label(self.first[rows], self.answers[rows], causes)


def _by_label(place: npt.NDArray[Any], labels: Mask, size: int) -> Counts:
    counts = np.bincount(2 * place.astype(np.int64) + labels, minlength=2 * size)
    return counts.reshape(size, 2).astype(np.int64)
