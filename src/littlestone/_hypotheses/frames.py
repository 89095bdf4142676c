"""Columns of data frames and arrays (pandas, polars, pyarrow, numpy), read cell by cell.

Promises: what a cell is read as never depends on the other rows (docs/guarantee.md, Lemma 0).
Libraries give a column one type, and often guess it from the rows: in a column of whole numbers one
missing cell makes floats of all, one cell with letters makes text of all, and ``007`` is 7 or
``'007'`` as its neighbours decide. So types are not trusted:

- where numbers or truth values are read, every type is fine: a cell is the same number as a whole
  number, as a float and as text (`_hypotheses/compare.py`);
- where text is read, a table (pandas, polars, pyarrow) must hold text there and nothing else: a
  column of numbers has lost its text, and is refused as a whole. So is one that holds some text
  and some numbers, as pandas makes of a long file that it guesses piece by piece. An array may
  hold whole numbers too, which numpy always prints in one way;
- an array of dates, time differences or complex numbers is refused: beside one of them numpy makes
  the same of whole numbers.

A missing cell is None. None of the libraries is imported: a column is recognised by the module of
its type. Whatever else has Arrow data (a RecordBatchReader, a DuckDB relation, anything with the
Arrow PyCapsule interface) is read by pyarrow, as tables are.
"""

import math
import sys
from decimal import Decimal
from types import NoneType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.columns import (
    Column,
    column_from_array,
    column_from_cells,
    column_from_codes,
)
from littlestone.errors import BadColumn, BadExample

Array = npt.NDArray[Any]
# How a class reads a column: as text, as a number or a missing one, as 0 or 1.
Kind = Literal["value", "number", "truth"]


def column_array(column: Any, kind: Kind | None = None) -> Array | None:
    """Return a column of a data frame as an array, or None where it is not one."""
    match type(column).__module__.partition(".")[0]:
        case "pandas":
            return _pandas(column, kind)
        case "polars":
            return _polars(column, kind)
        case "pyarrow":
            return _arrow(column, kind)
    if isinstance(column, np.ma.MaskedArray):
        return _masked(checked_array(column, kind))
    return None


def frame_values(column: Any) -> Column | None:
    """Return a column that is read as text as distinct values, where its library has them."""
    if isinstance(column, Column):
        return column
    match type(column).__module__.partition(".")[0]:
        case "pandas":
            return _pandas_values(column)
        case "polars":
            return _polars_values(column)
        case "pyarrow":
            return _arrow_values(column)
    if type(column) is np.ndarray and column.ndim == 1 and column.dtype.kind in "OUiu":
        return column_from_array(column)
    return None


def _pandas_values(column: Any) -> Column | None:
    held = getattr(column, "dtype", None)
    if hasattr(held, "categories"):
        categories = getattr(column, "cat", column)
        # What is not text is left to `_categories`, which refuses it.
        values = categories.categories.tolist()
        texts = all(type(value) is str for value in values)
        return column_from_codes(values, np.asarray(categories.codes)) if texts else None
    if getattr(held, "storage", None) == "pyarrow":
        return _arrow_values(getattr(column, "array", column).__arrow_array__())
    if held != np.dtype(object):
        return None
    coded = column_from_cells(column.tolist())
    coded.values[np.asarray(_series(coded.values).isna())] = None
    # What is not text is left to `_texts`, which refuses it.
    texts = all(value is None or type(value) is str for value in coded.values)
    return coded if texts else None


def _series(values: Array) -> Any:
    return sys.modules["pandas"].Series(values, dtype=object)


def _polars_values(column: Any) -> Column | None:
    if str(getattr(column, "dtype", "")).partition("(")[0] not in ("String", "Categorical", "Enum"):
        return None
    try:
        return _arrow_values(column.to_arrow())
    except ImportError:  # polars needs pyarrow for this
        return None


_TEXT_TYPES = ("string", "large_string", "string_view")


def _arrow_values(column: Any) -> Column | None:
    if not hasattr(column, "null_count"):
        return None
    if str(column.type) == "string_view":  # of which pyarrow makes no dictionary
        column = column.cast("large_string")
    if not hasattr(column.type, "index_type"):
        if str(column.type) not in _TEXT_TYPES:
            return None
        column = column.dictionary_encode()
    if hasattr(column, "chunks"):
        column = column.unify_dictionaries().combine_chunks()
    if hasattr(column, "chunks"):  # no rows, or more bytes than one array holds
        return None
    if str(column.dictionary.type) not in _TEXT_TYPES:
        return None
    indices = column.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(-1)
    return column_from_codes(_cells(column.dictionary).tolist(), np.asarray(indices))


def checked_array(array: Any, kind: Kind | None) -> Any:
    """Return a numpy array, if its type cannot come from other rows."""
    if kind is not None and array.dtype.kind in "cmM" and len(array):
        raise BadColumn(
            f"an array of {array.dtype}, which no class reads: numpy may have taken that type from "
            "one row, and then no other row could be read. Pass numbers, text, or a list"
        )
    # An array without rows has no row that could have decided its type.
    if kind == "value" and array.dtype.kind in "bf" and len(array):
        raise BadColumn(
            f"an array of {array.dtype} where the class tells values apart by their text: numpy "
            "may have taken that type from other rows, and then one row changes how all others are "
            "read. Pass whole numbers (array.astype(int)), text, or a list"
        )
    if kind == "number" and array.dtype.kind == "O":
        return _floats(array)
    return array


def _floats(array: Array) -> Array:
    """Return an array of Python numbers as floats; in any other array decimals become floats."""
    types = set(map(type, array))
    if types <= {int, float, bool}:
        try:
            return array.astype(np.float64)
        except OverflowError:  # a whole number beyond floats: read one by one, as infinite
            return array
    if Decimal not in types:
        return array
    found = np.empty(len(array), dtype=object)
    for row, cell in enumerate(array):
        found[row] = plain_number(cell)
    return found


def plain_number(cell: Any) -> Any:
    """Return a cell that is read as a number in a type that can be kept: decimals as floats."""
    if isinstance(cell, Decimal):
        return math.nan if cell.is_nan() else float(cell)
    return cell


def _not_text(held: object) -> BadColumn:
    return BadColumn(
        f"a column of {held} where the class tells values apart by their text: whoever read the "
        "table may have guessed that type from its rows, and then one row changes how all others "
        "are read. Read the file with that column as text (pandas: dtype=str), or, if the type is "
        "fixed beforehand, convert the column to text"
    )


def _texts(cells: Any, missing: Any, held: object, *, numbers: bool = False) -> Array:
    """Return cells of a table that are read as text: what is missing is None."""
    found = _without(np.asarray(cells, dtype=object), missing)
    # A column of numbers has lost its text even if all are missing: some were, such as '+nan'.
    lost = numbers and len(found)
    # By type first, which is much faster; a subclass of str is text too.
    if lost or (
        not set(map(type, found.tolist())) <= {str, NoneType}
        and not all(cell is None or isinstance(cell, str) for cell in found)
    ):
        raise _not_text(held)
    return found


def _pandas(column: Any, kind: Kind | None) -> Array:
    # Categories first: their own type says nothing about the type of the values.
    if hasattr(column.dtype, "categories"):
        return _categories(getattr(column, "cat", column), kind)
    if kind == "value":
        missing = np.asarray(column.isna())
        numbers = column.dtype.kind in "biuf"
        return _texts(column.astype(object), missing, column.dtype, numbers=numbers)
    if isinstance(column.dtype, np.dtype):
        return np.asarray(column)
    missing = np.asarray(column.isna())
    if not missing.any() or (kind == "number" and column.dtype.kind == "f"):
        return np.asarray(column)
    return _without(np.asarray(column.astype(object)), missing)


def _categories(categories: Any, kind: Kind | None) -> Array:
    """Return categories by their codes; the code -1 is a missing value."""
    codes, values = np.asarray(categories.codes), categories.categories
    missing = np.asarray(codes < 0)
    if missing.all():
        return np.full(codes.shape, None)
    found = _pandas(values, kind)
    if not missing.any():
        return np.asarray(found[codes])
    return _without(found[codes].astype(object), missing)


def _polars(column: Any, kind: Kind | None) -> Array:
    if not hasattr(column, "null_count"):
        return np.asarray(column)
    if kind == "value":
        cells = np.fromiter(column.to_list(), dtype=object, count=len(column))
        missing = np.asarray(column.is_null())
        return _texts(cells, missing, column.dtype, numbers=column.dtype.is_numeric())
    if str(column.dtype) in ("Int128", "UInt128"):  # numpy has no such numbers
        return np.fromiter(column.to_list(), dtype=object, count=len(column))
    if not column.null_count() or (kind == "number" and column.dtype.is_float()):
        return np.asarray(column.to_numpy())
    return np.fromiter(column.to_list(), dtype=object)


def _arrow(column: Any, kind: Kind | None) -> Array:
    if not hasattr(column, "null_count"):
        return np.asarray(column)
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):
        column = column.cast(column.type.value_type)
    if kind == "value":
        missing = column.is_null().to_numpy(zero_copy_only=False)
        # In a column without a type pyarrow.csv takes NA and '' for missing, beside text for text.
        numbers = str(column.type) not in _TEXT_TYPES
        return _texts(_cells(column), missing, column.type, numbers=numbers)
    if not column.null_count and str(column.type) not in _TEXT_TYPES:
        return np.asarray(column)
    if kind == "number" and str(column.type) in ("halffloat", "float", "double"):
        return np.asarray(column)
    return _cells(column)


def _cells(column: Any) -> Array:
    try:
        cells = column.to_pylist()
    except UnicodeDecodeError:
        cells = list(map(_cell, column))
    return np.fromiter(cells, dtype=object, count=len(column))


def _cell(cell: Any) -> object:
    """Return the value of a cell; text that is not UTF-8 is missing."""
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return None


def _masked(column: Any) -> Array:
    if not np.ma.is_masked(column):
        return np.asarray(column)
    return _without(column.data.astype(object), np.ma.getmaskarray(column))


def _without(entries: Array, missing: Array) -> Array:
    """Return a copy with None where entries are missing."""
    found = entries.copy()
    found[missing] = None
    return found


# Frames whose columns are read as they are.
_FRAMES = ("pandas", "polars", "numpy")


def arrow_stream(X: Any) -> Any:
    """Return a stream of Arrow data as a RecordBatchReader of pyarrow; None of anything else."""
    library = type(X).__module__.partition(".")[0]
    if library == "pyarrow":
        return X if hasattr(X, "read_next_batch") else None
    if library in _FRAMES or not hasattr(X, "__arrow_c_stream__"):
        return None
    return _pyarrow(X).RecordBatchReader.from_stream(X)


def arrow_table(X: Any) -> Any:
    """Return Arrow data as a table of pyarrow, a stream as a whole; anything else as it is."""
    stream = arrow_stream(X)
    if stream is not None:
        return stream.read_all()
    library = type(X).__module__.partition(".")[0]
    if library not in ("pyarrow", *_FRAMES) and hasattr(X, "__arrow_c_array__"):
        return _pyarrow(X).record_batch(X)
    return X


def _pyarrow(X: Any) -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise BadExample(
            f"a {type(X).__name__} is read by pyarrow: pip install 'littlestone[parquet]'"
        ) from None
    return pyarrow


def refuse_lazy(X: Any) -> Any:
    """Return a batch, or raise `BadExample` for a lazy frame, which has no rows yet."""
    if type(X).__name__ == "LazyFrame":
        raise BadExample("a LazyFrame holds no rows yet: select what is read, and collect it")
    return X
