"""Readers of cells: one for each kind of column, each a function of one cell.

What another row holds never changes what a cell becomes (docs/guarantee.md, Lemma 0): a reader is
mapped over the distinct cells of a column, and the type of an Arrow column is in the schema of its
file, which is public. Numbers are always 64-bit floats (whole numbers above 2^53 are rounded), never
integers in one block and floats in the next.
"""

import math
import reprlib
from collections.abc import Callable, Sequence
from hashlib import blake2b
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._data.rounds import NULL, Labels, UserNumbers
from littlestone._hypotheses.columns import Column, column_from_cells, column_from_codes
from littlestone._hypotheses.compare import float_of
from littlestone._hypotheses.rows import Kind, label, passes
from littlestone._hypotheses.values import Mask, Plain, key_of
from littlestone.errors import BadExample

# A list of cells, or a column of pyarrow.
Cells = Any
# What was read of each row, and which rows have a wrong cell, for which there is a placeholder.
ReadColumn = tuple[Any, Mask]

# The fault of a cell that is not of its kind.
WRONG: dict[Kind, str] = {
    "value": "is not a plain value in UTF-8",
    "number": "is not a number",
    "truth": "is not 0, 1, true or false",
}
# The fault of a label whose positive values are named: it is missing, or no plain value.
WRONG_VALUE = "is not a value that a label can have"
WRONG_USER = "does not name a user"
_PLAIN = {NoneType, bool, int, float, str}


def quoted(cell: object) -> str:
    """Return a cell as it is quoted in an error, shortened."""
    return reprlib.repr(cell)


def read_column(cells: Cells, kind: Kind) -> ReadColumn:
    """Read a column that the class reads."""
    return _READERS[kind](cells)


def cell_of(cells: Cells, row: int) -> object:
    """Return one cell as it stands in its file."""
    return _scalar(cells[row]) if _is_arrow(cells) else cells[row]


def coded(cells: Cells) -> Column:
    """Return the cells of a column, each distinct one once."""
    if not _is_arrow(cells):
        return column_from_cells(cells)
    held = str(flat_type(cells.type))
    if held in _WITHOUT_VIEWS:
        cells = cells.cast(_WITHOUT_VIEWS[held])
    if not hasattr(cells.type, "index_type"):
        cells = cells.dictionary_encode()
    if hasattr(cells, "chunks"):
        cells = cells.unify_dictionaries().combine_chunks()
        if hasattr(cells, "chunks"):  # no rows
            return column_from_cells([])
    indices = cells.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(-1)
    return column_from_codes(list(map(_scalar, cells.dictionary)), np.asarray(indices))


_WITHOUT_VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}


def _is_arrow(cells: Cells) -> bool:
    return hasattr(cells, "null_count")


def _scalar(cell: Any) -> object:
    """Return the value of a cell; text that is not UTF-8 gets lone surrogates."""
    if hasattr(cell, "dictionary"):
        cell = cell.value
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")


def value_cell(cell: Any) -> Any:
    """Read a value, as it is; bytes that were not UTF-8, lists and objects are wrong."""
    if isinstance(cell, str):
        try:
            cell.encode()
        except UnicodeEncodeError:
            raise BadExample(f"{quoted(cell)} {WRONG['value']}") from None
    elif type(cell) not in _PLAIN and type(cell) is not bytes:
        raise BadExample(f"{quoted(cell)} {WRONG['value']}")
    return cell


def _values(cells: Cells) -> ReadColumn:
    column = coded(cells)
    wrong = np.array([not passes(value_cell, cell) for cell in column.values.tolist()], dtype=bool)
    column.values[wrong] = None
    return column, column.where(wrong)


def _numbers(cells: Cells) -> ReadColumn:
    """Read numbers as 64-bit floats; a missing number is NaN."""
    if _is_arrow(cells):
        import pyarrow

        cells = cells.cast(flat_type(cells.type))
        # Decimals one by one as well: a cast makes 0.30000000000000004 of 0.3.
        if not _is_text(cells.type) and not pyarrow.types.is_decimal(cells.type):
            # safe=False: integers above 2^53 are rounded, as they are in every other format.
            floats = cells.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
            return floats, np.zeros(len(floats), dtype=bool)
        cells = list(map(_scalar, cells))
    return number_cells(cells)


def number_cells(cells: Sequence[Any]) -> tuple[npt.NDArray[np.float64], Mask]:
    """Read a list of numbers."""
    numbers, wrong = list[float](), np.zeros(len(cells), dtype=bool)
    for row, cell in enumerate(cells):
        try:
            numbers.append(_number(cell))
        except BadExample:
            numbers.append(math.nan)
            wrong[row] = True
    return np.array(numbers, dtype=np.float64), wrong


def _number(cell: Any) -> float:
    # What most cells are, without the cases of `float_of`; where both read a cell, they agree.
    if type(cell) is str or type(cell) is float:
        try:
            return float(cell)
        except ValueError:
            pass
    return float_of(cell)


def _truths(cells: Cells) -> ReadColumn:
    """Read truth values; a missing one is wrong."""
    labels, _, _ = read_labels(coded(cells), label)
    return labels == 1, labels == NULL


_READERS: dict[Kind, Callable[[Cells], ReadColumn]] = {
    "value": _values,
    "number": _numbers,
    "truth": _truths,
}


def read_labels(
    column: Column, read: Callable[[Any], Plain]
) -> tuple[Labels, tuple[Plain, ...], dict[int, BadExample]]:
    """Read labels by a function of one: return them, outcomes, and what is wrong with which code.

    The function returns a truth value, or an outcome that is None for a normal label.
    """
    numbers = np.full(len(column.values), NULL, dtype=np.int32)
    outcomes: dict[Plain, int] = {}
    wrong: dict[int, BadExample] = {}
    for code, cell in enumerate(column.values.tolist()):
        try:
            found = read(cell)
        except BadExample as error:
            wrong[code] = error
            continue
        if found is None or found is True or found is False:
            numbers[code] = bool(found)
        else:
            numbers[code] = outcomes.setdefault(found, len(outcomes) + 1)
    return numbers[column.codes], tuple(outcomes), wrong


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


def validated(batch: Any) -> Any:
    """Return a batch that comes from outside; raise `ArrowInvalid` if reading it is not safe.

    An offset or an index that leads out of its buffer would read other memory, or end the process.
    """
    # First the sizes of the buffers, without which nothing below may look into them.
    batch.validate()
    for column in batch.columns:
        _as_bytes(column).validate(full=True)
    return batch


def _as_bytes(column: Any) -> Any:
    """Return a column with bytes in place of text: text that is not UTF-8 is a fault of its row."""
    held = str(flat_type(column.type))
    if held not in _BYTES_OF:
        return column
    if held == str(column.type):
        return column.cast(_BYTES_OF[held])
    column.dictionary.cast(_BYTES_OF[held]).validate(full=True)
    return column.from_arrays(column.indices, column.dictionary.cast(_BYTES_OF[held]))


_BYTES_OF = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}


# What a column must hold to be read as a kind, for errors.
EXPECTED: dict[Kind, str] = {
    "value": "text, bytes or whole numbers; convert the column to text",
    "number": "whole numbers, floats, decimals, truth values or text",
    "truth": "truth values, numbers or text",
}


def flat_type(held: Any) -> Any:
    """Return the type of the values of a column, also of a dictionary."""
    return held.value_type if hasattr(held, "value_type") and hasattr(held, "index_type") else held


def is_usable(held: Any, kind: Kind) -> bool:
    """Return whether a column of some type can be read as a kind of value."""
    from pyarrow import types

    if kind == "value":
        # Floats and truth values have no one text: whoever wrote the file may have guessed the
        # type from the rows, and one missing cell makes 3.0 of 3 (docs/guarantee.md, Lemma 0).
        whole = bool(types.is_integer(held) or types.is_null(held))
        return whole or _is_text(held) or _is_bytes(held)
    number = bool(types.is_integer(held) or types.is_floating(held) or types.is_boolean(held))
    if kind == "number":
        number = number or bool(types.is_decimal(held) or types.is_null(held))
    return number or _is_text(held)


def _is_text(held: Any) -> bool:
    return str(held) in ("string", "large_string", "string_view")


def _is_bytes(held: Any) -> bool:
    return str(held) in ("binary", "large_binary", "binary_view")
