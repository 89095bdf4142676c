"""Reduce rounds, where their rows are, to what the causes learner reads of them.

Of a row the learner reads its label, how many published causes match it and which is the first and,
if none does, what the rows of an epoch keep of it: the codes of its columns and, if it is positive,
its exact values. All of that is a function of the row and of what is published, and draws no noise:
it may be computed anywhere, and again after a loss (docs/guarantee.md, Theorem 13). So rows that
are on a cluster stay there.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.causes import Cause, match_counts, own_causes
from littlestone._hypotheses.rows import part_of
from littlestone._hypotheses.values import Mask, Plain
from littlestone._learners.epoch_rows import Codes, PatternIndex
from littlestone._learners.rounds import Numbers, Rounds


class CodedRounds(NamedTuple):
    """Hold rounds as the causes learner reads them, for the causes that are published."""

    number: Numbers
    answers: Mask
    counts: npt.NDArray[np.int8]
    first: npt.NDArray[np.int8]
    codes: Codes
    positives: list[tuple[Plain, ...]]
    own: npt.NDArray[np.int8] | None = None

    @classmethod
    def of(cls, rounds: Rounds, causes: Sequence[Cause], index: PatternIndex) -> "CodedRounds":
        """Match rounds with causes, and code those that none matches."""
        counts, first = np.zeros(rounds.size, np.int8), np.full(rounds.size, -1, np.int8)
        if not rounds.size:
            empty = np.zeros((len(index.names), 0), dtype=np.uint32)
            return cls(rounds.number, rounds.answers, counts, first, empty, [])
        own = None
        if causes:
            counts, first = match_counts(causes, rounds.batch)
            if index.cls.has_outcomes:
                own = own_causes(causes, rounds.batch, counts)
        unmatched = counts == 0
        codes = np.array(index.codes(rounds.batch), dtype=np.uint32)[:, unmatched]
        positive = np.flatnonzero(rounds.answers & unmatched)
        exact = list(zip(*index.cells(part_of(rounds.batch, positive)), strict=True))
        return cls(rounds.number, rounds.answers, counts, first, codes, exact, own)

    @property
    def size(self) -> int:
        """Return the number of rounds."""
        return len(self.number)

    @property
    def unmatched_labels(self) -> Mask:
        """Return the labels of the rounds that no cause matches."""
        return np.asarray(self.answers[self.counts == 0])

    def between(self, start: int, stop: int) -> "CodedRounds":
        """Return the rounds from `start` up to, not including, `stop`."""
        begin, end = map(int, np.searchsorted(self.number, [start, stop]))
        if begin == 0 and end == self.size:
            return self
        part = slice(begin, end)
        # Codes and exact values are kept of some rounds only: count those before the part.
        (codes, after), (exact, after_exact) = (
            (int(np.count_nonzero(mask[:begin])), int(np.count_nonzero(mask[:end])))
            for mask in (self.counts == 0, (self.counts == 0) & self.answers)
        )
        return CodedRounds(
            self.number[part],
            self.answers[part],
            self.counts[part],
            self.first[part],
            self.codes[:, codes:after],
            self.positives[exact:after_exact],
            None if self.own is None else self.own[part],
        )

    def taken(self, kept: Mask) -> "CodedRounds":
        """Return the rounds of a mask; the others have become null rounds."""
        if kept.all():
            return self
        unmatched = self.counts == 0
        exact = zip(self.positives, kept[unmatched & self.answers].tolist(), strict=True)
        return CodedRounds(
            self.number[kept],
            self.answers[kept],
            self.counts[kept],
            self.first[kept],
            self.codes[:, kept[unmatched]],
            [row for row, keeps in exact if keeps],
            None if self.own is None else self.own[kept],
        )


@runtime_checkable
class CodesRemotely(Protocol):
    """Describe rounds whose rows are in another process, and are coded there."""

    def coded(self, causes: tuple[Cause, ...]) -> CodedRounds:
        """Return what the causes learner reads of the rounds."""
