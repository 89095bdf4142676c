"""Readers of what a stream has beside the columns of a class: labels, users and times.

Each is mapped over the distinct cells of a column, as the readers of `_hypotheses/cells.py` are:
what another row holds never changes what a cell becomes (docs/guarantee.md, Lemma 0).
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._data.rounds import NULL, Labels, UserNumbers
from littlestone._hypotheses.cells import Cells, Kind, ReadColumn, passes, read_column
from littlestone._hypotheses.columns import Column
from littlestone._hypotheses.values import Mask, Plain, key_of
from littlestone.errors import BadExample

# The fault of a cell that is not of its kind.
WRONG: dict[Kind, str] = {
    "value": "is not a plain value in UTF-8",
    "number": "is not a number",
    "truth": "is not 0, 1, true or false",
}
# The fault of a label whose positive values are named: it is missing, or no plain value.
WRONG_VALUE = "is not a value that a label can have"
WRONG_USER = "does not name a user"


def read_file_column(cells: Cells, kind: Kind) -> ReadColumn:
    """Read a column of a file, in which text must be UTF-8."""
    column, wrong = read_column(cells, kind)
    if kind != "value" or not (broken := column.map(_not_utf8)).any():
        return column, wrong
    return column.without(broken), wrong | broken[column.codes]


def _not_utf8(values: npt.NDArray[Any]) -> Mask:
    cells = values.tolist()
    # All at once is faster; only where a text is broken are they looked at one by one.
    if _is_utf8("".join([cell for cell in cells if isinstance(cell, str)])):
        return np.zeros(len(cells), dtype=bool)
    broken = (isinstance(cell, str) and not _is_utf8(cell) for cell in cells)
    return np.fromiter(broken, dtype=bool, count=len(cells))


def _is_utf8(text: str) -> bool:
    """Return whether no byte of a text was undecodable."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def read_labels(
    column: Column, read: Callable[[Any], Plain]
) -> tuple[Labels, list[Plain], dict[int, BadExample]]:
    """Read labels by a function of one: return them; by code, outcomes and what is wrong.

    The function returns a truth value, or an outcome that is None for a normal label.
    """
    outcomes: list[Plain] = []
    wrong: dict[int, BadExample] = {}
    for code, cell in enumerate(column.values.tolist()):
        try:
            outcomes.append(read(cell))
        except BadExample as error:
            outcomes.append(None)
            wrong[code] = error
    positive = [outcome is not None and outcome is not False for outcome in outcomes]
    labels = np.array(positive, dtype=np.int32)
    for code in wrong:
        labels[code] = NULL
    return labels[column.codes], outcomes, wrong


# The number of nobody: a round without a user is a null round.
NO_USER = 0
_NO_NAMES = {key_of(None), key_of("")}


def user_number(user: object) -> int:
    """Return the number of a user, by the canonical bytes of its name; `NO_USER` for nobody."""
    key = key_of(user)
    if key in _NO_NAMES or (isinstance(user, float | np.floating) and user != user):
        return NO_USER
    # Odd, so that it is never NO_USER.
    return user_address(key) | 1


def user_address(name: bytes) -> int:
    """Return the number that stands for a name (a user's canonical bytes) in an address."""
    return int.from_bytes(blake2b(name, digest_size=8).digest())


def named_user(user: object) -> object:
    """Return a user, or None where it names nobody or has no text that identifies it."""
    return user if passes(user_number, user) and user_number(user) != NO_USER else None


def read_users(column: Column) -> tuple[UserNumbers, dict[int, BadExample]]:
    """Read users: return their numbers, and what is wrong with which code."""
    numbers = np.full(len(column.values), NO_USER, dtype=np.uint64)
    wrong: dict[int, BadExample] = {}
    for code, cell in enumerate(column.values.tolist()):
        try:
            numbers[code] = user_number(cell)
        except BadExample as error:
            wrong[code] = error
    return numbers[column.codes], wrong


# Numbers above it are thousandths, millionths or billionths of a second.
_LARGEST_SECONDS = 1e11


def read_time(cell: object) -> str | None:
    """Read a time to the second, as ISO 8601 text, in UTC if it has a zone; None if it is no time.

    A time is ISO 8601 text, a date or time of Python, or a number of seconds since 1970, or of
    thousandths, millionths or billionths of one.
    """
    try:
        if isinstance(cell, date) and not isinstance(cell, datetime):
            cell = cell.isoformat()
        moment = cell if isinstance(cell, datetime) else _moment(cell)
        moment = moment if moment.tzinfo is None else moment.astimezone(UTC)
        return moment.isoformat(timespec="seconds")
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _moment(cell: object) -> datetime:
    text = str(cell).strip()
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        seconds = float(text)
    for _ in range(3):
        seconds /= 1000 if abs(seconds) >= _LARGEST_SECONDS else 1
    return datetime.fromtimestamp(seconds, UTC)
