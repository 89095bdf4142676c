"""Readers of cells: one for each kind of column, each a function of one cell.

What another row holds never changes what a cell becomes (docs/guarantee.md, Lemma 0). A reader is
mapped over the distinct cells of a column; where a library holds a column as numbers or truth
values, all cells are converted at once, to what the reader gives for each.

A *value* is identified by its text (`_hypotheses/values.py`). A *number* is a 64-bit float, whatever
it comes as: a whole number, a decimal, a truth value (1 or 0), or text of one of these. A missing
number (None, NaN, empty text, and the words that readers of tables take for a missing number, such
as NA) is below every cut. Comparison with a cut is exact. A *truth* is 0 or 1, also as text.
"""

import math
import re
import reprlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.columns import (
    Column,
    column_from_array,
    column_from_cells,
    column_from_codes,
    join_columns,
)
from littlestone._hypotheses.values import SMALL, Mask, Plain, key_of, plain
from littlestone.errors import BadExample

# How a class reads a column: as text, as a number or a missing one, as 0 or 1.
Kind = Literal["value", "number", "truth"]
# What a column comes as: a list, an array, a column of pyarrow, or distinct cells and codes.
Cells = Any
# A column that has been read: values, or an array of 64-bit floats or of truth values.
AnyColumn = Any
# What was read of each row, and which rows have a wrong cell, for which there is a placeholder.
ReadColumn = tuple[AnyColumn, Mask]

Number = int | float
LARGEST = float(np.finfo(np.float64).max)


def passes(read: Callable[[Any], object], value: object) -> bool:
    """Return whether a function accepts a value."""
    try:
        read(value)
    except BadExample:
        return False
    return True


def quoted(cell: object) -> str:
    """Return a cell as it is quoted in an error, shortened."""
    try:
        return reprlib.repr(cell)
    except ValueError:  # a whole number of more digits than Python prints
        return "a whole number that is too long to print"


def label(y: object) -> bool:
    """Return the label of an example: 0 or 1, true or false, also as text.

    Text counts because a reader of tables makes text of a whole column when one cell is no number.

    Parameters
    ----------
    y : object
        What stands for the label.

    Raises
    ------
    BadExample
        If it is something else.

    Examples
    --------
    >>> label(1), label(np.int8(0)), label(True), label("1.0"), label("False")
    (True, False, True, True, False)
    >>> label(2)
    Traceback (most recent call last):
    littlestone.errors.BadExample: label 2 is not 0 or 1: pass truth values, such as y > 60
    """
    if type(y) in _TRUTH_TYPES and y in (0, 1):  # the common case, before slower tests
        return bool(y)
    if isinstance(y, np.generic):
        y = plain(y)
    if isinstance(y, bytes):
        y = y.decode("ascii", "replace")
    if isinstance(y, int | float) and y in (0, 1):
        return bool(y)
    # Lemma 0: the label of a row must not depend on whether another row made text of the column.
    if isinstance(y, str) and (word := y.strip().lower()) in _TRUTHS:
        return bool(_TRUTHS[word])
    if isinstance(y, str) and (number := _plain_float(y)) in (0, 1):
        return bool(number)
    such = "y == 'yes'" if isinstance(y, str) else "y > 60"
    raise BadExample(f"label {quoted(y)} is not 0 or 1: pass truth values, such as {such}")


_TRUTH_TYPES = {bool, int}


def _plain_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def truth_of(cell: object, column: str | None) -> bool:
    """Return the truth value in a cell of a column."""
    try:
        return label(cell)
    except BadExample:
        if column is None:
            raise
        sentence = f"column {column!r} holds {quoted(cell)}: a conjunction reads 0 or 1"
        raise BadExample(sentence) from None


def simplest(cut: float) -> Number:
    """Return the canonical form of a finite number: an int where it is whole."""
    number = plain(cut)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BadExample(f"{cut!r} is not a number")
    if not -LARGEST <= number <= LARGEST:
        raise BadExample(f"{cut!r} is not a finite number that a computer can hold")
    return int(number) if number == int(number) else number


def float_not_below(cut: Number) -> float:
    """Return the smallest float that is not below the cut."""
    # A cut above 2^53 may have no float: rounded up, the comparison with floats stays exact.
    nearest = float(cut)
    return nearest if nearest >= cut else math.nextafter(nearest, math.inf)


def number_of(value: object) -> float:
    """Return the number in a cell as `float_of` does, but minus infinity where it is missing."""
    if type(value) is int and -SMALL < value < SMALL:  # the common case, before slower tests
        return float(value)
    number = value if type(value) is float else float_of(value)
    return number if number == number else -math.inf


def float_of(value: object) -> float:
    """Return the number in a cell, NaN where it is missing."""
    if type(value) is float:
        return value
    if isinstance(value, str):
        return _float_from_text(value)
    if isinstance(value, bytes):
        return _float_from_text(value.decode("ascii", "replace"))
    return _float_from_plain(plain(plain_number(value)))


def is_missing(cell: object) -> bool:
    """Return whether a cell holds nothing: None, NaN, empty text, or a word such as NA."""
    return passes(float_of, cell) and math.isnan(float_of(cell))


def plain_number(cell: object) -> object:
    """Return a cell as it is, decimals as floats."""
    if isinstance(cell, Decimal):
        return math.nan if cell.is_nan() else float(cell)
    return cell


def _float_from_plain(value: Plain) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise BadExample(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# Beside text these words stay text; beside numbers pandas and pyarrow read them as below. Here they
# are one number whatever the other rows are (docs/guarantee.md, Lemma 0).
_TRUTHS = {"0": 0.0, "1": 1.0, "true": 1.0, "false": 0.0}
_MISSING = re.compile(
    r"|na|n/a|<na>|#na|#n/a|#n/a n/a|null|none|-?1\.#(ind|qnan)|[+-]?nan\(\w*\)", re.ASCII
)
_HEX = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII)


def _float_from_text(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        word = text.strip().lower()
    if word in _TRUTHS:
        return _TRUTHS[word]
    if _MISSING.fullmatch(word):
        return math.nan
    if _HEX.fullmatch(word):
        whole = int(word, 16)
        return float(whole - (1 << 64) if whole >> 63 else whole)
    raise BadExample(f"{quoted(str(text))} is not a number")


def read_column(cells: Cells, kind: Kind) -> ReadColumn:
    """Read a column. One that has been read is read as itself."""
    return _READERS[kind](cells)


def refuse_wrong(cells: Cells, kind: Kind, wrong: Mask, column: str | None) -> None:
    """Raise `BadExample` for the first wrong cell, if there is one."""
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    cell = cell_of(cells, row)
    if isinstance(cell, Absent):
        raise BadExample(cell.sentence, row)
    try:
        truth_of(cell, column) if kind == "truth" else _READ_CELL[kind](cell)
    except BadExample as error:
        raise BadExample(error.sentence, row) from None
    raise AssertionError(f"{cell!r} is read alone, and not in a column")


class Absent:
    """Stand for the cell of a row that has no such column: every reader refuses it."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence


def cell_of(cells: Cells, row: int) -> object:
    """Return one cell as it came."""
    return _scalar(cells[row]) if is_arrow(cells) else cells[row]


def coded(cells: Cells) -> Column:
    """Return the cells of a column, each distinct one once."""
    if isinstance(cells, Column):
        return cells
    if isinstance(cells, np.ndarray):
        return column_from_array(cells)
    return _coded_arrow(cells) if is_arrow(cells) else column_from_cells(cells)


def _coded_arrow(cells: Any) -> Column:
    if hasattr(cells, "chunks"):
        # Each by itself. Arrow's way to one dictionary for all of them (`unify_dictionaries`) changes
        # half floats, and fails where one has a null, or where codes get too large for their type.
        parts = [_coded_arrow(chunk) for chunk in cells.chunks]
        joined: Column = join_columns(parts) if parts else column_from_cells([])
        return joined
    if not hasattr(cells, "indices"):
        held = str(cells.type)
        cells = cells.cast(_WITHOUT_VIEWS[held]) if held in _WITHOUT_VIEWS else cells
        try:
            cells = cells.dictionary_encode()
        except NotImplementedError:  # pyarrow makes no dictionary of this type
            return column_from_cells(arrow_cells(cells))
    indices = cells.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(-1)
    return column_from_codes(arrow_cells(cells.dictionary), np.asarray(indices))


# Of views pyarrow makes no dictionary.
_WITHOUT_VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}


def is_arrow(cells: Cells) -> bool:
    """Return whether cells are a column of pyarrow."""
    return hasattr(cells, "null_count")


def is_text(held: Any) -> bool:
    """Return whether a type of pyarrow is text."""
    return str(held) in ("string", "large_string", "string_view")


def flat_type(held: Any) -> Any:
    """Return the type of the values of a column of pyarrow, also of a dictionary."""
    return held.value_type if hasattr(held, "value_type") and hasattr(held, "index_type") else held


def arrow_cells(column: Any) -> list[Any]:
    """Return the cells of a column of pyarrow; text that is not UTF-8 gets lone surrogates."""
    try:
        cells: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return list(map(_scalar, column))
    return cells


def _scalar(cell: Any) -> object:
    if hasattr(cell, "dictionary"):
        cell = cell.value
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
    except (ValueError, OverflowError):  # a time that Python cannot hold
        return None


# Types of which every value has a text.
_WITH_TEXT = {str, type(None), bool, float, bytes}


def _values(cells: Cells) -> ReadColumn:
    """Read values, each as it is; a cell that has no text is wrong."""
    column = coded(cells)
    wrong = column.map(_without_text)
    if not wrong:
        return column, np.zeros(len(column), dtype=bool)
    return column.without(wrong), np.isin(column.codes, wrong)


def _without_text(values: npt.NDArray[Any]) -> list[int]:
    """Return the codes of the values that have no text."""
    return [
        code
        for code, value in enumerate(values.tolist())
        if type(value) not in _WITH_TEXT
        and not (type(value) is int and -SMALL < value < SMALL)
        and not passes(key_of, value)
    ]


def _numbers(cells: Cells) -> ReadColumn:
    """Read numbers as 64-bit floats; a missing number is NaN."""
    if is_arrow(cells):
        import pyarrow

        held = flat_type(cells.type)
        # Decimals one by one as well: a cast makes 0.30000000000000004 of 0.3.
        if is_text(held) or pyarrow.types.is_decimal(held):
            cells = coded(cells)
        else:
            # safe=False: integers above 2^53 are rounded, as they are in every other format.
            cells = cells.cast(held).cast(pyarrow.float64(), safe=False)
            cells = cells.to_numpy(zero_copy_only=False)
    if isinstance(cells, Column):
        numbers, wrong = cells.map(_read_numbers)
        return numbers[cells.codes], wrong[cells.codes]
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return cells.astype(np.float64, copy=False), np.zeros(len(cells), dtype=bool)
    return _read_numbers(cells)


# Types that numpy makes floats of as `float_of` does.
_PYTHON_NUMBERS = {float, int, bool}


def _read_numbers(cells: Sequence[Any] | npt.NDArray[Any]) -> ReadColumn:
    """Return the number in each of several cells, and which of them have none."""
    # What most cells are without a call, which takes longer than all the rest.
    read = [cell if type(cell) in _PYTHON_NUMBERS else _number(cell) for cell in cells]
    try:
        numbers = np.array(read, dtype=np.float64)
    except OverflowError:  # a whole number beyond floats is infinite
        numbers = np.array(list(map(_number, cells)), dtype=np.float64)
    wrong = np.isnan(numbers)
    # NaN is a missing number, too.
    wrong[wrong] = [not passes(float_of, cells[row]) for row in np.flatnonzero(wrong).tolist()]
    return numbers, wrong


def _number(cell: Any) -> float:
    """Return the number in a cell; NaN where it is missing, and where there is none."""
    # What most cells are, without the cases of `float_of`; where both read a cell, they agree.
    if type(cell) is str:
        try:
            return float(cell)
        except ValueError:
            pass
    try:
        return float_of(cell)
    except BadExample:
        return math.nan


def _truths(cells: Cells) -> ReadColumn:
    """Read truth values; a missing one is wrong."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return cells == 1, np.asarray((cells != 0) & (cells != 1))
    column = coded(cells)
    truths = column.map(_read_truths)[column.codes]
    return truths == 1, truths < 0


def _read_truths(cells: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Return the truth value in each of several cells: 0 or 1, and -1 where there is none."""
    truths = (int(label(cell)) if passes(label, cell) else -1 for cell in cells.tolist())
    return np.fromiter(truths, dtype=np.int8, count=len(cells))


_READERS: dict[Kind, Callable[[Cells], ReadColumn]] = {
    "value": _values,
    "number": _numbers,
    "truth": _truths,
}
_READ_CELL: dict[Kind, Callable[[Any], object]] = {
    "value": key_of,
    "number": float_of,
    "truth": label,
}
