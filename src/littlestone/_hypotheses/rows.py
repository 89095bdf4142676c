"""Rows: examples and batches, and how their columns are read.

An example is a value, or a row (a mapping from column to value). A batch is an array or a list of
values; or a mapping from column to array, a data frame (pandas, polars, pyarrow), a structured
array, or a list of rows. Of a batch only the columns that the class reads are used.

The meaning of a missing value depends on the class, and not on where the batch comes from:

- where values are compared by their text (`Points`, `Sets`, `Rules`, a table without a grid) a
  missing one is None, a value like any other: `x = None` is a rule. A table without a point for it
  refuses it;
- where numbers are compared (`Thresholds`, `Bins`, `Intervals`, a table on a grid) a missing
  number, None or NaN, lies below every cut;
- where truths are read (`Conjunctions`) a missing one is refused, or makes a null round.

Missing is None in Python; a null of polars, pyarrow and pandas' own types; NaN in a column of
pandas; what a masked array masks.
"""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.columns import Column as ValueColumn
from littlestone._hypotheses.columns import column_from_array, column_from_cells
from littlestone._hypotheses.frames import Kind as Kind
from littlestone._hypotheses.frames import (
    arrow_table,
    checked_array,
    column_array,
    frame_values,
    refuse_lazy,
)
from littlestone._hypotheses.values import Mask, Plain, plain
from littlestone.errors import BadClass, BadColumn, BadExample

# The column that a class reads; None if the example is the value itself.
Column = str | None


def checked_column(column: Column) -> Column:
    """Return the name of a column; raise `BadClass` unless it is a string or None."""
    if column is None or (isinstance(column, str) and column):
        return column
    raise BadClass(f"a column is named by a string: {column!r} is not one")


def checked_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of several columns: at least one, none twice."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise BadClass(f"columns are a list of names: {columns!r} is not one")
    names = tuple(map(plain, columns))
    if not names:
        raise BadClass("the class needs at least one column")
    seen: dict[str, None] = {}
    for name in names:
        if not isinstance(name, str) or not name:
            raise BadClass(f"columns are a list of names: {name!r} is not one")
        if name in seen:
            raise BadClass(f"column {name!r} is named twice")
        seen[name] = None
    return tuple(seen)


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
    if y is True or y is False:  # the common case, before slower tests
        return bool(y)
    if isinstance(y, np.generic):
        y = plain(y)
    if isinstance(y, bytes):
        y = y.decode("ascii", "replace")
    if isinstance(y, int | float) and y in (0, 1):
        return bool(y)
    # Lemma 0: the label of a row must not depend on whether another row made text of the column.
    if isinstance(y, str) and (word := y.strip().lower()) in _TRUTHS:
        return _TRUTHS[word]
    if isinstance(y, str) and (number := _number(y)) in (0, 1):
        return bool(number)
    raise BadExample(f"label {reprlib.repr(y)} is not 0 or 1: pass truth values, such as y > 60")


_TRUTHS = {"0": False, "1": True, "false": False, "true": True}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def labels(y: object) -> npt.NDArray[np.bool_]:
    """Return the labels of a batch."""
    array = label_column(y)
    return zeros_and_ones(array) if array.dtype.kind in "biuf" else each(label, array)


def label_column(y: object) -> npt.NDArray[Any]:
    """Return labels as an array, or raise `BadColumn` if its type cannot hold labels."""
    try:
        return column_of(y, None, "truth")
    except BadColumn as error:
        raise BadColumn(f"labels: {error.sentence}") from None


def zeros_and_ones(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return an array of numbers as truth values; raise `BadExample` unless all are 0 or 1."""
    bad = np.flatnonzero((array != 0) & (array != 1))
    if len(bad):
        raise BadExample(
            f"label {array[bad[0]].item()!r} is not 0 or 1: pass truth values, such as y > 60",
            int(bad[0]),
        )
    return array.astype(bool, copy=False)


def each(predicate: Callable[[object], bool], column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return the value of a predicate at each entry of a column."""
    # A loop, not np.vectorize: the row of the entry belongs to the error.
    answers = np.empty(len(column), dtype=bool)
    for row, value in enumerate(column):
        try:
            answers[row] = predicate(value)
        except BadExample as error:
            raise BadExample(error.sentence, row) from None
    return answers


def passes(read: Callable[[Any], object], value: object) -> bool:
    """Return whether a function accepts a value."""
    try:
        read(value)
    except BadExample:
        return False
    return True


def packed(x: object) -> Plain:
    """Return an example as one value, which has canonical bytes."""
    if not isinstance(x, Mapping):
        return "value", plain(x)
    return "row", *(part for name, value in x.items() for part in (plain(name), plain(value)))


def unpacked(value: tuple[Any, ...]) -> object:
    """Return the example from the value that `packed` made of it."""
    kind, *parts = value
    return parts[0] if kind == "value" else dict(zip(parts[::2], parts[1::2], strict=True))


_VALUES = {str, int, float}


def value_of(x: object, column: Column) -> object:
    """Return the value of a column in an example."""
    # First the common case, because isinstance with Mapping is slow.
    if type(x) is dict and column is not None and column in x:
        return x[column]
    if column is None:
        if type(x) not in _VALUES and isinstance(x, Mapping):
            raise BadExample(
                f"the example is a row with columns {_listed(x)}: name one with column="
            )
        return x
    if not isinstance(x, Mapping):
        raise BadExample(f"the example is a {type(x).__name__}, not a row with column {column!r}")
    if column not in x:
        raise BadExample(f"no column {column!r} in the row: it has {_listed(x)}")
    return x[column]


def example(value: object, column: Column) -> object:
    """Return the example that holds one value: the value itself, or a row of one column."""
    return value if column is None else {column: value}


# Many examples: an array of values, or an array for each column, all of one length.
Batch = npt.NDArray[Any] | dict[str, npt.NDArray[Any]]


def as_batch(X: Any, reads: Mapping[Column, Kind] | None = None, *, coded: bool = False) -> Batch:
    """Return a batch of any form as arrays."""
    kinds: dict[str, Kind | None]
    kinds = {name: kind for name, kind in (reads or {}).items() if name is not None}
    if len(kinds) < len(reads or {}):
        kinds = {}  # a class that also reads bare values: take all columns
    X = arrow_table(X)
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        if not kinds and not all(isinstance(x, Mapping) and x.keys() == X[0].keys() for x in X):
            return column_of(X, None)  # rows with different columns stay rows
        # csv.DictReader keeps surplus cells under the name None, which no class reads.
        names = kinds or {name: None for name in X[0] if name is not None}
        return {name: _picked_column(X, name, kind, coded) for name, kind in names.items()}
    found = column_names(X)
    if found is None:
        return column_of(X, None, (reads or {}).get(None))
    kinds = kinds or _all_of(X, found)
    read = _coded_or_array if coded else column_of
    columns = {name: read(X, name, kind) for name, kind in kinds.items()}
    # Columns of different lengths would pair cells of different rows.
    lengths = {name: len(column) for name, column in columns.items()}
    if isinstance(X, Mapping):
        lengths |= {name: len(column) for name, column in X.items() if isinstance(column, Sized)}
    if len(set(lengths.values())) > 1:
        raise BadExample(f"the columns of the batch have different lengths: {lengths}")
    return columns


def _picked_column(rows: Sequence[Any], name: str, kind: Kind | None, coded: bool) -> Any:
    """Return a column of a list of rows."""
    cells = _picked(rows, name)
    return column_from_cells(cells) if coded and kind == "value" else column_of(cells, None, kind)


def _coded_or_array(X: Any, column: str, kind: Kind | None) -> Any:
    """Return a column that is read as text as codes, if that can be done; any other as an array."""
    if kind != "value":
        return column_of(X, column, kind)
    coded = frame_values(named_column(X, column))
    return column_from_cells(column_of(X, column, kind).tolist()) if coded is None else coded


def coded_column_of(batch: Batch, column: str) -> ValueColumn | None:
    """Return a column of a batch if it is coded, None if it is an array."""
    found: object = batch[column] if isinstance(batch, dict) and column in batch else None
    return found if isinstance(found, ValueColumn) else None


def holds_where(X: Any, column: Column, test: Callable[[npt.NDArray[Any]], Mask]) -> Mask:
    """Return in which rows a test of values holds, asked once for each distinct value if coded."""
    coded = None if column is None else coded_column_of(X, column)
    return test(column_of(X, column)) if coded is None else coded.where(test(coded.values))


def values_of(batch: Batch, column: str) -> ValueColumn:
    """Return a column of a batch as distinct values and codes."""
    coded = coded_column_of(batch, column)
    return column_from_array(column_of(batch, column)) if coded is None else coded


def _all_of(X: Any, names: list[Any]) -> dict[str, Kind | None]:
    """Return every column, to be read as it stands."""
    odd = [name for name in names if not isinstance(name, str)]
    if odd and not isinstance(X, Mapping):
        raise BadExample(f"a column is named by a string: {_listed(odd)} is not; {RENAME}")
    return {name: None for name in names if isinstance(name, str)}


def batch_length(batch: Batch) -> int:
    """Return the number of examples in a batch."""
    if isinstance(batch, dict):
        return len(next(iter(batch.values()), ()))
    return len(batch)


def part_of(batch: Batch, rows: Any) -> Batch:
    """Return some rows of a batch."""
    if isinstance(batch, dict):
        return {name: column[rows] for name, column in batch.items()}
    return np.asarray(batch[rows])


def row_of(batch: Batch, row: int) -> object:
    """Return one example of a batch: a value, or a row."""
    if isinstance(batch, dict):
        return {name: column[row] for name, column in batch.items()}
    return batch[row]


def column_of(X: Any, column: Column, kind: Kind | None = None) -> npt.NDArray[Any]:
    """Return one column of a batch, as a one-dimensional array that keeps every value's own type."""
    if column is not None:
        X = named_column(X, column)
    # The common case first: small batches of the service spend much of their time here. An array
    # of objects holds every value's own type, so it is read as it stands (`checked_array`).
    if type(X) is np.ndarray and X.dtype == object and X.ndim == 1 and kind in (None, "value"):
        return X
    names = column_names(X)
    # A frame without a column name is refused: guessing one could read the label.
    if names is not None:
        raise BadExample(f"the batch has columns {_listed(names)}: name one with column=")
    try:
        array = _column(X, kind)
    except BadColumn as error:
        where = "" if column is None else f"column {column!r}: "
        raise BadColumn(f"{where}{error.sentence}") from None
    if array.ndim != 1:
        raise BadExample(f"a column has one dimension: this one has shape {array.shape}")
    return array


def _column(X: Any, kind: Kind | None) -> npt.NDArray[Any]:
    framed = column_array(X, kind)
    if framed is not None:
        return np.asarray(checked_array(framed, kind))
    if hasattr(X, "__array__"):
        return np.asarray(checked_array(np.asarray(X), kind))
    if isinstance(X, Iterable) and not isinstance(X, str | bytes):
        cells = np.fromiter(X, dtype=object)
        # Cell by cell, so nothing is refused; numbers become floats, which is faster to read.
        return np.asarray(checked_array(cells, kind))
    raise BadExample(f"a batch of examples is an array or a list, not {type(X).__name__}")


def column_names(X: Any) -> list[Any] | None:
    """Return the columns of a mapping, a structured array or a data frame; None of others."""
    if isinstance(X, Mapping):
        return list(X)
    if isinstance(X, np.ndarray):
        return list(X.dtype.names) if X.dtype.names else None
    names = getattr(refuse_lazy(X), "column_names", None)
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None else list(names)


# What to do about columns whose names are not strings.
RENAME = "rename them first, such as with frame.rename(columns=str)"


def named_column(X: Any, column: str) -> Any:
    """Return a column of a batch as it stands there."""
    if type(X) is dict and column in X:
        return X[column]
    names = column_names(X)
    if names is not None:
        if column not in names:
            odd = not all(isinstance(name, str) for name in names)
            hint = f". Columns are named by strings: {RENAME}" if odd else ""
            raise BadExample(f"no column {column!r} in the batch: it has {_listed(names)}{hint}")
        if names.count(column) > 1:
            raise BadExample(f"the batch has {names.count(column)} columns {column!r}")
        return X[column]
    if not isinstance(X, Iterable) or isinstance(X, str | bytes):
        raise BadExample(f"a {type(X).__name__} is not a batch of rows with column {column!r}")
    return _picked(X, column)


def _picked(rows: Iterable[object], column: Column) -> list[object]:
    if isinstance(rows, list) and column is not None and set(map(type, rows)) == {dict}:
        with suppress(KeyError):  # the common case; a row that lacks the column is found below
            return [row[column] for row in rows]
    return [_row_value(x, column, row) for row, x in enumerate(rows)]


def _row_value(x: object, column: Column, row: int) -> object:
    try:
        return value_of(x, column)
    except BadExample as error:
        raise BadExample(error.sentence, row) from None


def _listed(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
