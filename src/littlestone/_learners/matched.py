"""Match rounds with the published causes: what the causes learner reads of rows.

Of a row the learner reads its label, how many published causes match it and which is the first and,
if none does, what the rows of an epoch keep of it: the codes of its columns and, if it is positive,
its exact values. All of that is a function of the row and of what is published (`effect.py`), and
draws no noise: it may be computed anywhere, and again after a loss (docs/guarantee.md, Theorem 13).
So rows that are on a cluster stay there.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.causes import Causes
from littlestone._data.rounds import Numbers, Rounds
from littlestone._hypotheses.causes import Cause, match_counts, own_causes
from littlestone._hypotheses.columns import Column
from littlestone._hypotheses.rows import column_of
from littlestone._hypotheses.values import Mask, canonical, encode
from littlestone._learners.epoch_rows import (
    ColumnsOfRows,
    HashedRows,
    NegativeRows,
    Users,
    pattern_index,
)
from littlestone._learners.known import KnownKeys
from littlestone._privacy.causes import Counts

# Multiplied with the number of a round: which column it votes in, as if by chance. Public.
SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Asked(NamedTuple):
    """Hold what rows are matched with. Public."""

    causes: tuple[Cause, ...]
    # What rows of one cause alone are counted by; None if no cause can become narrower.
    known: KnownKeys | None = None
    # In a first window, the columns of which each round votes for a value.
    voted: tuple[str, ...] = ()
    # Whether rows are kept with their users.
    by_user: bool = False


def match(cls: Causes, rounds: Rounds, asked: Asked) -> "Matched":
    """Match rounds with causes, and code those that none matches."""
    size, index, own, causes = len(rounds), pattern_index(cls), None, asked.causes
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
    users = None
    if asked.by_user:
        users = rounds.routes().astype(np.uint64)
        rows = rows._replace(users=(users[negative], users[positive]))
    voted = tuple(column_of(rounds.columns, name, "value") for name in asked.voted)
    matched = Matched(rounds.number, answers, counts, first, rows, own, (), voted, users)
    if asked.known is None:
        return matched
    return matched._replace(lone=asked.known.read(rounds.columns, np.flatnonzero(matched.alone)))


class Matched(NamedTuple):
    """Hold rounds with how many causes match each, and which is the first (-1 if none)."""

    number: Numbers
    answers: Mask
    counts: npt.NDArray[np.int8]
    first: npt.NDArray[np.int8]
    unmatched: ColumnsOfRows
    # The first cause of a row's own outcome, if causes have outcomes.
    own: npt.NDArray[np.int8] | None = None
    # The known number of each condition of the rows that speak on one cause alone, slot by slot.
    lone: tuple[Column, ...] = ()
    # The values of the columns in which rounds vote, in a first window.
    voted: tuple[Column, ...] = ()
    # Whose each round is, where users are protected.
    users: Users | None = None

    @property
    def size(self) -> int:
        """Return the number of rounds."""
        return len(self.number)

    def between(self, start: int, stop: int) -> "Matched":
        """Return the rounds from `start` up to, not including, `stop`."""
        begin, end = map(int, np.searchsorted(self.number, [start, stop]))
        return self if (begin, end) == (0, self.size) else self.taken(slice(begin, end))

    def taken(self, rows: slice | Mask) -> "Matched":
        """Return some of the rounds."""
        lone = _among(self.alone, rows) if self.lone else rows
        return Matched(
            self.number[rows],
            self.answers[rows],
            self.counts[rows],
            self.first[rows],
            self.unmatched.part(*(_among(self.is_unmatched(y), rows) for y in (False, True))),
            None if self.own is None else self.own[rows],
            tuple(column[lone] for column in self.lone),
            tuple(column[rows] for column in self.voted),
            None if self.users is None else self.users[rows],
        )

    def is_unmatched(self, positive: bool) -> Mask:
        """Return which rows are positive, or are not, and no cause matches them."""
        return np.asarray((self.counts == 0) & (self.answers == positive))

    def detached(self) -> tuple["Matched", tuple[Column, ...]]:
        """Return what is read of every round, and the negatives, which may stay where they are."""
        negatives = self.unmatched.negatives
        # Rows of users are counted by user, in one process.
        if self.users is not None or not isinstance(negatives, HashedRows):
            return self, ()
        return self.attached(HashedRows(())), negatives.columns

    def attached(self, negatives: NegativeRows) -> "Matched":
        """Return the rounds with negatives that are elsewhere."""
        return self._replace(unmatched=self.unmatched._replace(negatives=negatives))

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

    def votes(self, names: Sequence[str], since: int) -> Counter[bytes]:
        """Return how many rounds from one on vote for each value.

        Each votes once, in the column that its number says: the number of the round, which is known
        here, and not where its block is kept.
        """
        # The high bits: low ones would follow the order in which a log is written.
        place_of_round = (self.number.astype(np.uint64) * SPREAD >> np.uint64(33)) % len(names)
        votes: Counter[bytes] = Counter()
        for place, (name, column) in enumerate(zip(names, self.voted, strict=True)):
            codes = column.codes[(self.number >= since) & (place_of_round == place)]
            for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
                votes[encode((name, canonical(column.values[code])))] += int(count)
        return votes

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

    @property
    def alone(self) -> Mask:
        """Return the rows that speak for or against one cause, which alone matches them."""
        alone = self.counts == 1
        if self.own is not None:
            # A positive of another outcome moves no score.
            alone &= self.right == self.answers
        return np.asarray(alone)

    def on_drops(self, causes: int) -> Counts:
        """Return the negatives and positives that each cause alone matches."""
        rows = np.flatnonzero(self.alone)
        return _by_label(self.first[rows], self.answers[rows], causes)

    def on_drops_by_user(self) -> Counter[tuple[int, int, bool]]:
        """Return how often a user has a row that a cause alone matches: user, cause, label."""
        assert self.users is not None, "users are protected"
        rows = np.flatnonzero(self.alone)
        columns = self.users[rows], self.first[rows], self.answers[rows]
        return Counter(zip(*(column.tolist() for column in columns), strict=True))

    def on_replaces(self, slots: Sequence[Sequence[tuple[int, int]]]) -> list[Counts]:
        """Return, of the rows of each cause alone, how many list each of its narrower patterns."""
        rows = np.flatnonzero(self.alone)
        first, answers = self.first[rows], self.answers[rows]
        found = []
        for cause, narrower in enumerate(slots):
            own = np.flatnonzero(first == cause)
            counts = [np.zeros((0, 2), np.int64)]
            for slot, size in narrower:
                column = self.lone[slot]
                numbers = column.values[column.codes[own]]
                # The first is of rows that list no known condition.
                counts.append(_by_label(numbers, answers[own], size + 1)[1:])
            found.append(np.concatenate(counts))
        return found


def _among(held: Mask, rows: slice | Mask) -> slice | Mask:
    """Return which of the rows that are held are among some rows."""
    if not isinstance(rows, slice):
        return rows[held]
    first = int(np.count_nonzero(held[: rows.start]))
    return slice(first, first + int(np.count_nonzero(held[rows])))


def _by_label(place: npt.NDArray[Any], labels: Mask, size: int) -> Counts:
    counts = np.bincount(2 * place.astype(np.int64) + labels, minlength=2 * size)
    return counts.reshape(size, 2).astype(np.int64)
