"""Represent a batch of rounds, ready to be learned.

A null round, one without a usable example, uses up its number and nothing else: it is left out, and
the rounds after it keep their numbers. So neighbouring streams stay aligned (docs/guarantee.md,
Lemma 0 and Theorem 9).

Rows may be remote: a learner asks a batch of rounds which of them a rule gets wrong, and passes it
the state that is to learn them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, kinds_of, predict_rows
from littlestone._hypotheses.frames import arrow_stream, arrow_table
from littlestone._hypotheses.rows import Batch, named_column, part_of
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone.errors import BadExample

Numbers = npt.NDArray[np.integer[Any]]


class Learnable(Protocol):
    """Describe what can learn rows."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> None:
        """Learn a batch of rounds."""


class RoundBatch(Protocol):
    """Describe consecutive rounds that have an example, wherever their rows are."""

    @property
    def size(self) -> int:
        """Return the number of rounds, at most."""

    def between(self, start: int, stop: int) -> "RoundBatch":
        """Return the rounds from `start` up to `stop`."""

    def wrong(self, cls: HypothesisClass, rule: Hypothesis) -> Numbers:
        """Return the numbers of the rounds that a rule gets wrong, in order."""

    def update(self, state: Learnable) -> None:
        """Let `state` learn the rounds."""

    def copied(self) -> "RoundBatch":
        """Return the same rounds in arrays of their own, for keeping."""

    def here(self) -> "UsableRounds":
        """Return the rows themselves."""


class UsableRounds(NamedTuple):
    """Hold rounds in this process."""

    batch: Batch
    answers: Mask
    number: Numbers
    route: Numbers

    @property
    def size(self) -> int:
        """Return the number of rounds."""
        return len(self.number)

    def between(self, start: int, stop: int) -> "UsableRounds":
        """Return the rounds from `start` up to `stop`."""
        # Null rounds are left out, so numbers have gaps: search, do not subtract.
        first, last = np.searchsorted(self.number, [start, stop])
        if first == 0 and last == len(self.number):
            return self
        part = slice(int(first), int(last))
        return self.taken(part)

    def copied(self) -> "UsableRounds":
        """Return the same rounds in arrays of their own, for keeping."""
        return self.taken(np.arange(len(self.number)))

    def wrong(self, cls: HypothesisClass, rule: Hypothesis) -> Numbers:
        """Return the rounds that a rule gets wrong."""
        return np.asarray(self.number[predict_rows(cls, rule, self.batch) != self.answers])

    def update(self, state: Learnable) -> None:
        """Let `state` learn the rounds."""
        state.learn(self.batch, self.answers, self.route)

    def here(self) -> "UsableRounds":
        """Return the rows themselves."""
        return self

    def taken(self, part: Any) -> "UsableRounds":
        """Return some of the rows, by a mask, their places or a slice."""
        return UsableRounds(
            part_of(self.batch, part), self.answers[part], self.number[part], self.route[part]
        )


def learn_parts(
    cls: HypothesisClass,
    X: Any,
    y: object,
    users: Any,
    learn: Callable[[Any, object, Any], None],
) -> None:
    """Learn a batch; or a stream of Arrow data batch by batch, if its labels go by name."""
    named = [name for name in (y, users) if isinstance(name, str)]
    if not named:
        return learn(X, y, users)
    reads = kinds_of(cls)
    if not reads or None in reads:
        raise BadExample(
            f"{cls!r} does not say which columns it reads, so it would read {named[0]!r} as well: "
            "pass labels and users apart"
        )
    for name in named:
        if name in reads:
            raise BadExample(f"column {name!r} is read by the class: it is no label and no user")
    stream = arrow_stream(X) if isinstance(y, str) and (users is None or len(named) == 2) else None
    done = 0
    for part in [arrow_table(X)] if stream is None else stream:
        labels, names = (
            named_column(part, one) if isinstance(one, str) else one for one in (y, users)
        )
        try:
            learn(part, labels, names)
        except BadExample as error:
            if not done:
                raise
            raise BadExample(
                f"{error.sentence} (the {done:,} rows of the stream before this batch are learned)",
                None if error.row is None else done + error.row,
            ) from None
        done += 0 if stream is None else len(part)
    return None


def usable_rounds(
    batch: Batch, answers: Mask, usable: Mask, first: int, users: Numbers | None
) -> UsableRounds:
    """Return the usable rounds of a batch."""
    number = np.arange(first, first + len(answers))
    route = number if users is None else users
    if usable.all():
        return UsableRounds(batch, answers, number, route)
    # UsableRounds keep their numbers and routes: a null round moves no other one (Theorem 9).
    kept = np.flatnonzero(usable)
    return UsableRounds(part_of(batch, kept), answers[kept], number[kept], route[kept])
