"""Reduce rounds, where their rows are, to what the causes learner reads of them.

Of a row the learner reads its label, how many published causes match it and which is the first and,
if none does, what the rows of an epoch keep of it: the codes of its columns and, if it is positive,
its exact values. All of that is a function of the row and of what is published, and draws no noise:
it may be computed anywhere, and again after a loss (docs/guarantee.md, Theorem 13). So rows that
are on a cluster stay there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._data.rounds import Numbers, UsableRounds
from littlestone._hypotheses.causes import Cause, match_counts, own_causes
from littlestone._hypotheses.values import Mask
from littlestone._learners.epoch_rows import ColumnsOfRows, PatternIndex


class CodedRounds(NamedTuple):
    """Hold rounds as the causes learner reads them, for the causes that are published."""

    number: Numbers
    answers: Mask
    counts: npt.NDArray[np.int8]
    first: npt.NDArray[np.int8]
    unmatched: ColumnsOfRows
    own: npt.NDArray[np.int8] | None = None

    @classmethod
    def of(
        cls, rounds: UsableRounds, causes: Sequence[Cause], index: PatternIndex
    ) -> "CodedRounds":
        """Match rounds with causes, and code those that none matches."""
        counts, first = np.zeros(rounds.size, np.int8), np.full(rounds.size, -1, np.int8)
        own = None
        if causes and rounds.size:
            counts, first = match_counts(causes, rounds.batch)
            if index.cls.has_outcomes:
                own = own_causes(causes, rounds.batch, counts)
        negative = np.flatnonzero((counts == 0) & ~rounds.answers)
        positive = np.flatnonzero((counts == 0) & rounds.answers)
        unmatched = index.read(rounds.batch, negative, positive)
        return cls(rounds.number, rounds.answers, counts, first, unmatched, own)

    @property
    def size(self) -> int:
        """Return the number of rounds."""
        return len(self.number)

    def between(self, start: int, stop: int) -> "CodedRounds":
        """Return the rounds from `start` up to, not including, `stop`."""
        begin, end = map(int, np.searchsorted(self.number, [start, stop]))
        kept = np.zeros(self.size, dtype=bool)
        kept[begin:end] = True
        return self._part(kept)

    def taken(self, kept: Mask) -> "CodedRounds":
        """Return the rounds of a mask; the others have become null rounds."""
        return self._part(kept)

    def _part(self, kept: Mask) -> "CodedRounds":
        if kept.all():
            return self
        unmatched = self.counts == 0
        return CodedRounds(
            self.number[kept],
            self.answers[kept],
            self.counts[kept],
            self.first[kept],
            self.unmatched.part(kept[unmatched & ~self.answers], kept[unmatched & self.answers]),
            None if self.own is None else self.own[kept],
        )
