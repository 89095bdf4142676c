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
from littlestone.theory.errors import BadExample
from littlestone.theory.numbers import float_of
from littlestone.theory.rows import Kind, label, passes

Cells = Sequence[Any]
Read = tuple[Array, Iterable[int]]

WRONG: dict[Kind, str] = {
    "value": "is not a plain value in UTF-8",
    "number": "is not a number",
    "truth": "is not 0, 1, true or false",
}
"""What is said of a cell that is not of its kind."""

_TRUTHS: dict[object, int] = {0: 0, 1: 1, "0": 0, "1": 1, "false": 0, "true": 1}
"""The labels that are met most: the others are read by `label`, one by one."""
_PLAIN = {NoneType, bool, int, float, str}


def read_cells(
    wanted: Wanted,
    cells: Mapping[str, Cells],
    faults: Faults,
    lines: npt.NDArray[np.intp],
) -> Piece:
    """The piece that columns of raw cells make."""
    columns = read_columns(wanted, cells, faults)
    labels = _noted(cells, wanted.label, WRONG["truth"], faults, labels_of)
    users = None
    if wanted.user is not None:
        users = _noted(cells, wanted.user, "does not name a user", faults, users_of)
    return piece_of(wanted, columns, labels, users, faults, lines)


def read_columns(wanted: Wanted, cells: Mapping[str, Cells], faults: Faults) -> dict[str, Array]:
    """The columns that the class reads; what is wrong with a row is noted among the faults."""
    return {
        name: _noted(cells, name, WRONG[kind], faults, _READERS[kind])
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


def numbers(cells: Cells) -> Read:
    """Return cells as 64-bit floats; a missing number is NaN.

    >>> numbers(["7", " 1e3", "", "abc"])
    (array([   7., 1000.,   nan,   nan]), [3])
    >>> numbers([7, 1.5, None, True, 10**400])
    (array([7. , 1.5, nan, 1. , inf]), [])
    """
    try:
        return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells)), ()
    except (TypeError, ValueError, OverflowError):
        pass
    array, wrong = np.full(len(cells), math.nan), []
    for row, cell in enumerate(cells):
        try:
            array[row] = float_of(cell)
        except BadExample:
            wrong.append(row)
    return array, wrong


def truths(cells: Cells) -> Read:
    """Truth values; a missing one is wrong.

    >>> truths(["0", "TRUE", 1, ""])
    (array([False,  True,  True, False]), [3])
    """
    array, wrong = labels_of(cells)
    return array == 1, wrong


def labels_of(cells: Cells) -> tuple[npt.NDArray[np.int8], list[int]]:
    """Labels: 0, 1, true or false, as numbers or as text; anything else is `NULL`.

    >>> labels_of([True, "0.0", "False", "yes"])
    (array([ 1,  0,  0, -1], dtype=int8), [3])
    """
    try:
        found = map(_TRUTHS.get, cells, repeat(NULL))
        array = np.fromiter(found, dtype=np.int8, count=len(cells))
    except TypeError:  # a list or an object of JSON
        array = np.full(len(cells), NULL, dtype=np.int8)
    for row in np.flatnonzero(array == NULL).tolist():
        if passes(label, cells[row]):
            array[row] = label(cells[row])
    return array, np.flatnonzero(array == NULL).tolist()


_READERS: dict[Kind, Callable[[Cells], Read]] = {
    "value": values,
    "number": numbers,
    "truth": truths,
}
