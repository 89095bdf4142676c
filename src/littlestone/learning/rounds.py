"""Rounds: a stretch of the stream, ready to be learned.

A null round, one without a usable example, uses up its number and nothing else: it is not here, and
the rounds after it keep theirs. So neighbouring streams stay aligned.

Rows need not be here to be learned: a learner asks of a `Stretch` which rounds a rule gets wrong,
and has it shown to what it remembers with.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from littlestone.learning.coins import number_of
from littlestone.theory.classes import HypothesisClass, check_row, kinds_of, predict_rows
from littlestone.theory.errors import BadColumn, BadExample
from littlestone.theory.frames import checked_array
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import (
    Batch,
    as_batch,
    column_of,
    each,
    label,
    labels,
    part_of,
    passes,
    row_of,
)
from littlestone.theory.values import Mask, key_of

Numbers = npt.NDArray[np.integer[Any]]

Told = TypeVar("Told", covariant=True)


class Learns(Protocol[Told]):
    """What can be shown rows."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> Told: ...


class Stretch(Protocol):
    """Consecutive rounds that have an example, wherever their rows are."""

    @property
    def size(self) -> int:
        """How many rounds, at most."""

    def between(self, start: int, stop: int) -> "Stretch":
        """The rounds from `start` up to, not including, `stop`."""

    def wrong(self, cls: HypothesisClass, rule: Hypothesis) -> Numbers:
        """The numbers of the rounds that a rule gets wrong, in order."""

    def teach(self, memory: Learns[Told]) -> Told:
        """Show the rounds to a memory: what it says to them, by row."""

    def number_of(self, row: int) -> int:
        """The number of the round of a row."""

    def copied(self) -> "Stretch":
        """The same rounds in arrays of their own, for keeping."""

    def here(self) -> "Rounds":
        """The rows themselves."""


class Rounds(NamedTuple):
    """Examples and labels, each with the number of its round and what routes it to a tree."""

    batch: Batch
    answers: Mask
    number: Numbers
    route: Numbers

    @property
    def size(self) -> int:
        """How many rounds."""
        return len(self.number)

    def between(self, start: int, stop: int) -> "Rounds":
        """The rounds from `start` up to, not including, `stop`."""
        first, last = np.searchsorted(self.number, [start, stop])
        if first == 0 and last == len(self.number):
            return self
        part = slice(int(first), int(last))
        return self.taken(part)

    def copied(self) -> "Rounds":
        """The same rounds in arrays of their own, for keeping."""
        return self.taken(np.arange(len(self.number)))

    def wrong(self, cls: HypothesisClass, rule: Hypothesis) -> Numbers:
        """The numbers of the rounds that a rule gets wrong, in order."""
        return np.asarray(self.number[predict_rows(cls, rule, self.batch) != self.answers])

    def teach(self, memory: Learns[Told]) -> Told:
        """Show the rounds to a memory: what it says to them, by row."""
        return memory.learn(self.batch, self.answers, self.route)

    def number_of(self, row: int) -> int:
        """The number of the round of a row."""
        return int(self.number[row])

    def here(self) -> "Rounds":
        """The rows themselves."""
        return self

    def taken(self, part: Any) -> "Rounds":
        """Some of the rows, by a mask, their places or a slice."""
        return Rounds(
            part_of(self.batch, part), self.answers[part], self.number[part], self.route[part]
        )


BadRows = Literal["refuse", "null"]
"""What becomes of rows that cannot be read: the batch is refused, or they are null rounds."""


def readable_batch(cls: HypothesisClass, X: Any) -> Batch:
    """A batch as arrays, if the class can read every row of it."""
    batch = as_batch(X, kinds_of(cls))
    _refuse_unreadable(cls, batch, cls.readable(batch))
    return batch


def _refuse_unreadable(cls: HypothesisClass, batch: Batch, readable: Mask) -> None:
    if readable.all():
        return
    row = int(np.argmin(readable))
    try:
        check_row(cls, row_of(batch, row))
    except BadExample as error:
        raise BadExample(error.sentence, row) from None
    raise AssertionError(f"{cls!r} reads row {row} alone and not in a batch")


def readable_rounds(
    cls: HypothesisClass, X: Any, y: object, bad_rows: BadRows
) -> tuple[Batch, Mask, Mask]:
    """A batch, which of its rows have an example, and the labels of those that have."""
    if bad_rows not in get_args(BadRows):
        raise BadExample(f"bad_rows is 'refuse' or 'null', not {bad_rows!r}")
    batch, readable = _read(cls, X, bad_rows)
    given = column_of(y, None)
    if len(given) != len(readable):
        raise BadExample(f"{len(readable)} examples and {len(given)} labels")
    if bad_rows == "refuse":
        _refuse_unreadable(cls, batch, readable)
        return batch, readable, labels(given)
    positive, negative = (_labelled(given, answer) for answer in (True, False))
    return batch, readable & (positive | negative), positive


def _read(cls: HypothesisClass, X: Any, bad_rows: BadRows) -> tuple[Batch, Mask]:
    """A batch, and which of its rows the class can read.

    Rows that do not line up (one lacks a column, one is no row at all) make no batch. Where bad
    rows are null rounds, they may not stand in the way of the others: each is read on its own.
    """
    try:
        batch = as_batch(X, kinds_of(cls))
        return batch, cls.readable(batch)
    except BadColumn:
        raise
    except BadExample:
        if bad_rows == "refuse" or not isinstance(X, list | tuple | np.ndarray):
            raise
    rows: list[Any] = list(X)
    readable = np.array([passes(partial(check_row, cls), x) for x in rows], dtype=bool)
    good = [x for x, reads in zip(rows, readable, strict=True) if reads]
    columns = [n for n in _columns(good[:1]) if all(n in _columns([x]) for x in good)]
    stand_in: Any = good[0] if good else None
    lined_up = [x if reads else stand_in for x, reads in zip(rows, readable, strict=True)]
    if columns:
        lined_up = [{name: x[name] for name in columns} for x in lined_up]
    return as_batch(lined_up), readable


def _columns(rows: list[Any]) -> Mapping[Any, object]:
    """The columns of a row, if there is one and it has any."""
    return rows[0] if rows and isinstance(rows[0], Mapping) else {}


def _labelled(given: npt.NDArray[Any], answer: bool) -> Mask:
    """Which labels are this answer; one that is no label at all is neither."""
    if given.dtype.kind in "biuf":
        return np.asarray(given == answer)
    return each(lambda y: passes(label, y) and label(y) == answer, given)


def usable_rounds(
    batch: Batch, answers: Mask, usable: Mask, first: int, users: Numbers | None
) -> Rounds:
    """The rounds of a batch that have an example, numbered from `first`."""
    number = np.arange(first, first + len(answers))
    route = number if users is None else users
    if usable.all():
        return Rounds(batch, answers, number, route)
    kept = np.flatnonzero(usable)
    return Rounds(part_of(batch, kept), answers[kept], number[kept], route[kept])


NOBODY = 0
"""What routes a round without a user, which is a null round."""


def user_number(user: object) -> int:
    """The number that stands for a user, by the canonical bytes of its name; None is nobody.

    >>> user_number("alice") == user_number("alice") != user_number("bob")
    True
    """
    return NOBODY if user is None else number_of(key_of(user)) | 1


def user_numbers(users: Any, count: int, bad_rows: BadRows = "refuse") -> npt.NDArray[np.uint64]:
    """Return the number that stands for each user of a batch.

    Parameters
    ----------
    users
        A name for each row, as an array or a list.
    count
        How many rows there are.
    bad_rows
        What becomes of a row whose user has no text, such as a whole number too long to print:
        "refuse" raises, with "null" it is nobody's, and so a null round. Nobody else is affected.

    Returns
    -------
    numpy.ndarray
        `NOBODY` for a row without a user.

    Raises
    ------
    BadExample
        If there are not as many users as rows, or one cannot be read and `bad_rows` is "refuse".
    """
    # Floats and truth values are refused: their spelling may follow from other users' rows.
    names = checked_array(column_of(users, None), "value")
    if len(names) != count:
        raise BadExample(f"{count} examples and {len(names)} users")
    known: dict[bytes, int] = {key_of(None): NOBODY}
    found = np.empty(count, dtype=np.uint64)
    for row, name in enumerate(names.tolist()):
        # (1,), (1.0,) and (True,) are equal and are three users: they are told apart by text.
        spelt = _spelt(name, row, bad_rows)
        if spelt not in known:
            known[spelt] = user_number(name)
        found[row] = known[spelt]
    return found


def _spelt(name: object, row: int, bad_rows: BadRows) -> bytes:
    try:
        return key_of(name)
    except BadExample as error:
        if bad_rows == "null":
            return key_of(None)
        raise BadExample(error.sentence, row) from None
