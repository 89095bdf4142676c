"""Cells as arrays: a column of raw cells, text or JSON values, read as its kind.

Each function gives the array and the rows that are wrong, which hold a placeholder. A cell is read
by itself: what another row holds never changes what it becomes. So numbers are always 64-bit
floats (whole numbers above 2^53 are rounded), never integers in one block and floats in the next.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.edge.blocks import NULL, Array, Wanted, shown
from littlestone.edge.pieces import Faults, Piece, piece_of
from littlestone.theory.rows import Kind

Cells = Sequence[Any]
Read = tuple[Array, Iterable[int]]

WRONG: dict[Kind, str] = {
    "value": "is not a plain value in UTF-8",
    "number": "is not a number",
    "truth": "is not 0, 1, true or false",
}
"""What is said of a cell that is not of its kind."""

_TRUTHS: dict[object, int] = {
    0: 0, 1: 1, "0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1
}  # fmt: skip
_PLAIN = {NoneType, bool, int, float, str}


def read_cells(
    wanted: Wanted,
    cells: Mapping[str, Cells],
    faults: Faults,
    lines: npt.NDArray[np.intp],
    numbers: Callable[[Cells], Read],
) -> Piece:
    """The piece that columns of raw cells make; `numbers` is how the format spells a number."""
    columns = read_columns(wanted, cells, faults, numbers)
    labels = _noted(cells, wanted.label, WRONG["truth"], faults, labels_of)
    users = None
    if wanted.user is not None:
        users = _noted(cells, wanted.user, "does not name a user", faults, users_of)
    return piece_of(wanted, columns, labels, users, faults, lines)


def read_columns(
    wanted: Wanted, cells: Mapping[str, Cells], faults: Faults, numbers: Callable[[Cells], Read]
) -> dict[str, Array]:
    """The columns that the class reads; what is wrong with a row is noted among the faults."""
    readers: dict[Kind, Callable[[Cells], Read]]
    readers = {"value": values, "number": numbers, "truth": truths}
    return {
        name: _noted(cells, name, WRONG[kind], faults, readers[kind])
        for name, kind in wanted.kinds.items()
    }


def _noted(
    cells: Mapping[str, Cells],
    name: str,
    wrong: str,
    faults: Faults,
    read: Callable[[Cells], Read],
) -> Array:
    array, rows = read(cells[name])
    for row in rows:
        faults.setdefault(row, f"column {name!r}: {shown(cells[name][row])} {wrong}")
    return array


def values(cells: Cells) -> Read:
    """Values as they stand. Bytes that were not UTF-8, and lists or objects of JSON, are wrong.

    >>> values(["a", 7, None, ["list"]])
    (array(['a', 7, None, None], dtype=object), [3])
    """
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    if set(map(type, cells)) == {str} and _is_text("".join(cells)):
        return array, ()
    wrong = [row for row, cell in enumerate(cells) if not _is_plain(cell)]
    array[wrong] = None
    return array, wrong


def _is_plain(cell: object) -> bool:
    return _is_text(cell) if isinstance(cell, str) else type(cell) in _PLAIN


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def users_of(cells: Cells) -> Read:
    """Who the rows are from: values, but neither empty nor missing."""
    array, _ = values(cells)
    nobody = [row for row, cell in enumerate(array) if cell in (None, "") or cell != cell]
    array[nobody] = None
    return array, nobody


def text_numbers(cells: Cells) -> Read:
    """Numbers out of text, as Python spells them; an empty cell is a missing number.

    >>> text_numbers(["7", " 1e3", "", "abc"])
    (array([   7., 1000.,   nan,   nan]), [3])
    """
    return _numbers(cells, _from_text)


def json_numbers(cells: Cells) -> Read:
    """Numbers out of JSON; null is a missing number, and text is no number.

    >>> json_numbers([7, 1.5, None, "7", True])
    (array([7. , 1.5, nan, nan, nan]), [3, 4])
    >>> json_numbers([10**400, -(10**400)])
    (array([ inf, -inf]), [])
    """
    if set(map(type, cells)) <= {int, float}:
        return _numbers(cells, _from_json)
    return _one_by_one(cells, _from_json)


def _numbers(cells: Cells, number: Callable[[Any], float | None]) -> Read:
    try:
        return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells)), ()
    except (ValueError, OverflowError):
        return _one_by_one(cells, number)


def _one_by_one(cells: Cells, number: Callable[[Any], float | None]) -> Read:
    found = list(map(number, cells))
    wrong = [row for row, cell in enumerate(found) if cell is None]
    return np.array(found, dtype=np.float64), wrong


def _from_text(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None if cell.strip() else math.nan


def _from_json(cell: object) -> float | None:
    if cell is None:
        return math.nan
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return None
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def truths(cells: Cells) -> Read:
    """Truth values; a missing one is wrong.

    >>> truths(["0", "TRUE", 1, ""])
    (array([False,  True,  True, False]), [3])
    """
    array, wrong = labels_of(cells)
    return array == 1, wrong


def labels_of(cells: Cells) -> tuple[npt.NDArray[np.int8], list[int]]:
    """Labels: 0, 1, 0.0, 1.0, true or false, in any case; anything else is `NULL`.

    >>> labels_of([True, "0.0", "False", "yes"])
    (array([ 1,  0,  0, -1], dtype=int8), [3])
    """
    try:
        found = map(_TRUTHS.get, cells, repeat(NULL))
        array = np.fromiter(found, dtype=np.int8, count=len(cells))
    except TypeError:  # a list or an object of JSON
        array = np.full(len(cells), NULL, dtype=np.int8)
    for row in np.flatnonzero(array == NULL).tolist():
        array[row] = _truth(cells[row])
    return array, np.flatnonzero(array == NULL).tolist()


def _truth(cell: object) -> int:
    if isinstance(cell, str):
        return _TRUTHS.get(cell.lower(), NULL)
    return _TRUTHS.get(cell, NULL) if isinstance(cell, int | float) else NULL
