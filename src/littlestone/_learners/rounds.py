"""Represent a batch of rounds, ready to be learned.

A null round, one without a usable example, uses up its number and nothing else: it is left out, and
the rounds after it keep their numbers. So neighbouring streams stay aligned (docs/guarantee.md,
Lemma 0 and Theorem 9).

Rows may be remote: a learner asks a batch of rounds which of them a rule gets wrong, and passes it
the state that is to learn them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import (
    HypothesisClass,
    check_row,
    kinds_of,
    predict_rows,
    read_row,
    readable_rows,
)
from littlestone._hypotheses.columns import Column
from littlestone._hypotheses.compare import readable as readable_values
from littlestone._hypotheses.frames import arrow_stream, arrow_table
from littlestone._hypotheses.rows import (
    Batch,
    as_batch,
    column_of,
    each,
    label,
    label_column,
    labels,
    named_column,
    part_of,
    passes,
    row_of,
)
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask, key_of
from littlestone._learners.tree import user_address
from littlestone.errors import BadColumn, BadExample

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

    def here(self) -> "Rounds":
        """Return the rows themselves."""


class Rounds(NamedTuple):
    """Hold rounds in this process."""

    batch: Batch
    answers: Mask
    number: Numbers
    route: Numbers

    @property
    def size(self) -> int:
        """Return the number of rounds."""
        return len(self.number)

    def between(self, start: int, stop: int) -> "Rounds":
        """Return the rounds from `start` up to `stop`."""
        # Null rounds are left out, so numbers have gaps: search, do not subtract.
        first, last = np.searchsorted(self.number, [start, stop])
        if first == 0 and last == len(self.number):
            return self
        part = slice(int(first), int(last))
        return self.taken(part)

    def copied(self) -> "Rounds":
        """Return the same rounds in arrays of their own, for keeping."""
        return self.taken(np.arange(len(self.number)))

    def wrong(self, cls: HypothesisClass, rule: Hypothesis) -> Numbers:
        """Return the rounds that a rule gets wrong."""
        return np.asarray(self.number[predict_rows(cls, rule, self.batch) != self.answers])

    def update(self, state: Learnable) -> None:
        """Let `state` learn the rounds."""
        state.learn(self.batch, self.answers, self.route)

    def here(self) -> "Rounds":
        """Return the rows themselves."""
        return self

    def taken(self, part: Any) -> "Rounds":
        """Return some of the rows, by a mask, their places or a slice."""
        return Rounds(
            part_of(self.batch, part), self.answers[part], self.number[part], self.route[part]
        )


# What happens to rows that cannot be read: the batch is refused, or they are null rounds.
BadRows = Literal["refuse", "null"]


def readable_batch(cls: HypothesisClass, X: Any) -> Batch:
    """Return a batch as arrays, if the class can read every row of it."""
    batch = as_batch(X, kinds_of(cls))
    refuse_unreadable(cls, batch, readable_rows(cls, batch))
    return batch


def refuse_unreadable(cls: HypothesisClass, batch: Batch, readable: Mask) -> None:
    """Raise `BadExample` for the first row that cannot be read, if there is one."""
    if readable.all():
        return
    row = int(np.argmin(readable))
    try:
        check_row(cls, row_of(batch, row))
    except BadExample as error:
        raise BadExample(error.sentence, row) from None
    raise AssertionError(f"{cls!r} reads row {row} alone and not in a batch")


def readable_rounds(
    cls: HypothesisClass, X: Any, y: object, bad_rows: BadRows, *, coded: bool = False
) -> tuple[Batch, Mask, Mask]:
    """Read a batch of labelled examples."""
    given = label_column(y)
    batch, readable = read_labelled(cls, X, len(given), bad_rows, coded=coded)
    if bad_rows == "refuse":
        return batch, readable, labels(given)
    # Row by row: one label that is no label must not change how the others are read.
    positive, negative = (_labelled(given, answer) for answer in (True, False))
    return batch, readable & (positive | negative), positive


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


def read_labelled(
    cls: HypothesisClass, X: Any, count: int, bad_rows: BadRows, *, coded: bool = False
) -> tuple[Batch, Mask]:
    """Read a batch that has a number of labels, and return which rows have an example."""
    if bad_rows not in get_args(BadRows):
        raise BadExample(f"bad_rows must be 'refuse' or 'null', not {bad_rows!r}")
    # Checked here whatever a reader has checked before: all batches enter this way (Lemma 0).
    batch, readable = read_rows(cls, X, bad_rows, coded=coded)
    if count != len(readable):
        raise BadExample(f"{len(readable)} examples and {count} labels")
    if bad_rows == "refuse":
        refuse_unreadable(cls, batch, readable)
    for column in batch.values() if isinstance(batch, dict) else ():
        if isinstance(column, Column):
            # Values of null rounds, which nothing may have to compare.
            column.values[~column.map(readable_values)] = None
    return batch, readable


def read_rows(
    cls: HypothesisClass, X: Any, bad_rows: BadRows, *, coded: bool = False
) -> tuple[Batch, Mask]:
    """Return a batch, and which of its rows the class can read."""
    try:
        batch = as_batch(X, kinds_of(cls), coded=coded)
        return batch, readable_rows(cls, batch)
    except BadColumn:
        raise
    except BadExample:
        if bad_rows == "refuse" or not isinstance(X, list | tuple | np.ndarray):
            raise
    rows: list[Any] = list(X)
    readable = np.array([passes(partial(check_row, cls), x) for x in rows], dtype=bool)
    kept = [read_row(cls, x) if reads else None for x, reads in zip(rows, readable, strict=True)]
    # What cannot be read is never learned: a readable row stands in its place, so that all line up.
    stand_in = next((x for x, reads in zip(kept, readable, strict=True) if reads), None)
    lined_up = [x if reads else stand_in for x, reads in zip(kept, readable, strict=True)]
    try:
        return as_batch(lined_up, kinds_of(cls)), readable
    except BadExample:  # a class may read a column where there is one: each row keeps its own
        return column_of(lined_up, None), readable


def _labelled(given: npt.NDArray[Any], answer: bool) -> Mask:
    """Return which labels are this answer; one that is no label at all is neither."""
    # Vectorised where equality with a truth value is what `label` would find.
    if given.dtype.kind in "biuf":
        return np.asarray(given == answer)
    return each(lambda y: passes(label, y) and label(y) == answer, given)


def usable_rounds(
    batch: Batch, answers: Mask, usable: Mask, first: int, users: Numbers | None
) -> Rounds:
    """Return the usable rounds of a batch."""
    number = np.arange(first, first + len(answers))
    route = number if users is None else users
    if usable.all():
        return Rounds(batch, answers, number, route)
    # Rounds keep their numbers and routes: a null round moves no other one (Theorem 9).
    kept = np.flatnonzero(usable)
    return Rounds(part_of(batch, kept), answers[kept], number[kept], route[kept])


# The number that routes a round without a user, which is a null round.
NO_USER = 0
_NO_NAMES = {key_of(None), key_of("")}


def user_number(user: object) -> int:
    """Return the number of a user, by the canonical bytes of its name."""
    name = _user_key(user)
    # Odd, so that it is never NO_USER.
    return NO_USER if name is None else user_address(name) | 1


def _user_key(user: object) -> bytes | None:
    """Return what identifies a user; None for nobody."""
    key = key_of(user)
    missing = key in _NO_NAMES or (isinstance(user, float | np.floating) and user != user)
    return None if missing else key


def named_user(user: object) -> object:
    """Return a user, or None where it names nobody or has no text that identifies it."""
    return user if passes(user_number, user) and user_number(user) != NO_USER else None


def user_numbers(users: Any, count: int, bad_rows: BadRows = "null") -> npt.NDArray[np.uint64]:
    """Return the number that stands for each user of a batch."""
    # Read as values are: a type that was guessed from other rows is refused (Lemma 0).
    try:
        names = column_of(users, None, "value")
    except BadColumn as error:
        raise BadColumn(f"users: {error.sentence}") from None
    if len(names) != count:
        raise BadExample(f"{count} examples and {len(names)} users")
    known: dict[bytes | None, int] = {None: NO_USER}
    found = np.full(count, NO_USER, dtype=np.uint64)
    for row, name in enumerate(names.tolist()):
        try:
            # (1,), (1.0,) and (True,) are equal and are three users: they are told apart by text.
            key = _user_key(name)
        except BadExample as error:
            if bad_rows == "refuse":
                raise BadExample(error.sentence, row) from None
            continue
        if key not in known:
            known[key] = user_number(name)
        found[row] = known[key]
    return found
