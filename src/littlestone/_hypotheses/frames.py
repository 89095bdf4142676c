"""Columns of data frames and arrays (pandas, polars, pyarrow, numpy) as cells.

Promises: what a cell is read as never depends on the other rows (docs/guarantee.md, Lemma 0).
Libraries give a column one type, and often guess it from the rows: in a column of whole numbers one
missing cell makes floats of all, one cell with letters makes text of all, and ``007`` is 7 or
``'007'`` as its neighbours decide. So types are not trusted (`refuse_guessed`):

- where numbers or truth values are read, every type is fine: a cell is the same number as a whole
  number, as a float and as text (`_hypotheses/cells.py`);
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

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from littlestone._hypotheses.cells import Cells, Kind, flat_type, is_arrow, is_text
from littlestone._hypotheses.columns import Column, column_from_cells, column_from_codes
from littlestone.errors import BadColumn, BadExample

_TABLES = ("pandas", "polars", "pyarrow")
_NUMBER_KINDS = "biuf"
# How each library reads a file with all columns as text, and makes text of a column.
_AS_TEXT = {
    "pandas": ("pandas.read_csv(..., dtype=str)", "frame[COLUMN].astype('string')"),
    "polars": (
        "polars.read_csv(..., infer_schema=False)",
        "polars.col(COLUMN).cast(polars.String)",
    ),
    "pyarrow": (
        "pyarrow.csv.ConvertOptions(column_types={COLUMN: 'string'}), or in DuckDB read_csv(..., "
        "all_varchar=true)",
        "table[COLUMN].cast('string'), or in SQL CAST(COLUMN AS VARCHAR)",
    ),
}


def _library(held: Any) -> str:
    return type(held).__module__.partition(".")[0]


def raw_cells(held: Any) -> Cells:
    """Return the cells of a column, as its library has them."""
    if isinstance(held, Column | list):
        return held
    match _library(held):
        case "pandas":
            cells = _pandas(held)
        case "polars" if hasattr(held, "null_count"):
            cells = _polars(held)
        case "pyarrow" if is_arrow(held):
            return held
        case _:
            cells = _array_or_list(held)
    if isinstance(cells, np.ndarray):
        return _checked_array(cells)
    return cells


def _array_or_list(held: Any) -> Cells:
    if isinstance(held, np.ma.MaskedArray):
        # A list has None for what is masked, and counts what dates are in: their type is refused.
        kept = np.ma.is_masked(held) and held.dtype.kind not in _REFUSED_KINDS
        return held.tolist() if kept else np.asarray(held)
    if hasattr(held, "__array__"):
        return np.asarray(held)
    if isinstance(held, Iterable) and not isinstance(held, str | bytes):
        return list(held)
    raise BadExample(f"a batch of examples is an array or a list, not {type(held).__name__}")


_REFUSED_KINDS = "cmM"


def _checked_array(array: Any) -> Any:
    if array.ndim != 1:
        raise BadExample(f"a column has one dimension: this one has shape {array.shape}")
    if array.dtype.kind in _REFUSED_KINDS and len(array):
        raise BadColumn(
            f"an array of {array.dtype}, which no class reads: numpy may have taken that type from "
            "one row, and then no other row could be read. Pass numbers, text, or a list"
        )
    return array


def _pandas(column: Any) -> Cells:
    held = column.dtype
    # Categories first: their own type says nothing about the type of the values.
    if hasattr(held, "categories"):
        categories = getattr(column, "cat", column)
        return column_from_codes(categories.categories.tolist(), np.asarray(categories.codes))
    if hasattr(held, "pyarrow_dtype") or getattr(held, "storage", None) == "pyarrow":
        return getattr(column, "array", column).__arrow_array__()
    plain = isinstance(held, np.dtype) and held.kind != "O"
    if plain or (held.kind in _NUMBER_KINDS and not column.isna().any()):
        return np.asarray(column)
    cells = column_from_cells(column.tolist())
    cells.values[sys.modules["pandas"].isna(cells.values)] = None
    return cells


def _polars(column: Any) -> Cells:
    held = column.dtype
    if str(held) in ("Null", "Int128", "UInt128"):  # of which nobody else has the same
        return column.to_list()
    numbers = held.is_integer() or held.is_float() or str(held) == "Boolean"
    if numbers and not column.null_count():
        return column.to_numpy()
    try:
        return column.to_arrow()
    except ImportError:  # polars needs pyarrow for this
        return column.to_list()


def refuse_guessed(held: Any, cells: Cells, kind: Kind) -> None:
    """Raise `BadColumn` for a column of values whose type may come from other rows."""
    # A column without rows has no row that could have decided its type.
    if kind != "value" or isinstance(held, Column | list) or not len(cells):
        return
    if _library(held) in _TABLES:
        # A column of numbers has lost its text even if all are missing: some were, such as '+nan'.
        # In a column without a type pyarrow.csv takes NA and '' for missing, beside text for text.
        if is_arrow(cells):
            texts = is_text(flat_type(cells.type))
        else:
            numbers = getattr(getattr(held, "dtype", None), "kind", "") in tuple(_NUMBER_KINDS)
            values = cells.values if isinstance(cells, Column) else cells
            texts = not numbers and all(cell is None or isinstance(cell, str) for cell in values)
        if not texts:
            read, convert = _AS_TEXT[_library(held)]
            raise BadColumn(
                f"a column of {getattr(held, 'dtype', None) or held.type} where the class tells "
                "values apart by their text: whoever read the table may have guessed that type "
                "from its rows, and then one row changes how all others are read. Read the file "
                f"as text: {read}. Or, if the type is declared, as in Parquet and in databases, "
                f"convert the column: {convert}"
            )
    elif isinstance(cells, np.ndarray) and cells.dtype.kind in "bf":
        raise BadColumn(
            f"an array of {cells.dtype} where the class tells values apart by their text: numpy "
            "may have taken that type from other rows, and then one row changes how all others are "
            "read. Pass whole numbers (array.astype(int)), text, or a list"
        )


# Frames whose columns are read as they are.
_FRAMES = ("pandas", "polars", "numpy")


def arrow_stream(X: Any) -> Any:
    """Return a stream of Arrow data as a RecordBatchReader of pyarrow; None of anything else."""
    library = _library(X)
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
    if _library(X) not in ("pyarrow", *_FRAMES) and hasattr(X, "__arrow_c_array__"):
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
