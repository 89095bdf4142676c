"""Rows: examples and batches, and how their columns are found.

An example is a value, or a row (a mapping from column to value). A table is an array or a list of
values; or a mapping from column to array, a data frame (pandas, polars, pyarrow), a structured
array, or a list of rows. Of a table only the columns that are asked for are read, each by the
reader of its kind (`_hypotheses/cells.py`), and they are then a *batch*.

The meaning of a missing value depends on the class, and not on where the table comes from:

- where values are compared by their text (`Points`, `Sets`, `Rules`, a table without a grid) a
  missing one is None, a value like any other: `x = None` is a rule. A table without a point for it
  refuses it;
- where numbers are compared (`Thresholds`, `Bins`, `Intervals`, a table on a grid) a missing
  number, None or NaN, lies below every cut;
- where truths are read (`Conjunctions`) a missing one is refused, or makes a null round.

Missing is None in Python; a null of polars, pyarrow and pandas' own types; NaN in a column of
pandas; what a masked array masks.
"""

from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from littlestone._hypotheses.cells import (
    Absent,
    AnyColumn,
    Cells,
    Kind,
    arrow_cells,
    cell_of,
    is_arrow,
    read_column,
    refuse_wrong,
)
from littlestone._hypotheses.columns import Column as ValueColumn
from littlestone._hypotheses.columns import join_columns, objects
from littlestone._hypotheses.frames import arrow_table, raw_cells, refuse_guessed, refuse_lazy
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


# Many examples: a column, or several by name, all of one length. A column holds distinct values and
# codes, 64-bit floats or truth values; as it came, where nobody says how it is read.
Batch = AnyColumn | dict[str, AnyColumn]


def batch_length(batch: Batch) -> int:
    """Return the number of examples in a batch."""
    if isinstance(batch, dict):
        return len(next(iter(batch.values()), ()))
    return len(batch)


def part_of(batch: Batch, rows: Any) -> Batch:
    """Return some rows of a batch."""
    if isinstance(batch, dict):
        return {name: column[rows] for name, column in batch.items()}
    return batch[rows]


def join_batches(parts: Sequence[Batch]) -> Batch:
    """Return the rows of several batches of the same columns as one."""
    if isinstance(parts[0], dict):
        named = [part for part in parts if isinstance(part, dict)]
        return {name: join_columns([part[name] for part in named]) for name in parts[0]}
    return join_columns([part for part in parts if not isinstance(part, dict)])


def row_of(batch: Batch, row: int) -> object:
    """Return one example of a batch: a value, or a row."""
    if isinstance(batch, dict):
        return {name: column[row] for name, column in batch.items()}
    return batch[row]


RowCells = tuple[object, ...]
# The names of the columns of a batch; None if an example is the value itself.
Names = tuple[str, ...] | None


def batch_cells(batch: Batch) -> tuple[Names, list[list[Any]]]:
    """Return the names and the cells of columns; cells that have been read are plain Python."""
    if isinstance(batch, dict):
        return tuple(batch), list(map(_cells_of_column, batch.values()))
    return None, [_cells_of_column(batch)]


def _cells_of_column(column: AnyColumn) -> list[Any]:
    # What came in a type of numpy's stays in it, unless the type is the same thing in Python.
    plain = isinstance(column, ValueColumn) or column.dtype in (np.float64, np.bool_)
    return column.tolist() if plain and column.ndim == 1 else list(column)


Reads = Mapping[Column, Kind]


def as_batch(X: Any, reads: Reads | None = None) -> Batch:
    """Return a table as a batch; raise `BadExample` for a cell that is not of its kind."""
    batch, wrong = read_examples(X, reads or {})
    if wrong.any():
        for column, kind in (reads or {}).items():
            column_of(X, column, kind)
    return batch


def read_examples(X: Any, reads: Reads) -> tuple[Batch, Mask]:
    """Read the columns of a table, or the one that has no name; return which rows are wrong.

    A wrong row has a cell that is not of its kind, for which the batch has a placeholder.
    """
    X = arrow_table(X)
    if not reads or (None in reads and len(reads) > 1):
        batch = _as_it_came(X)
        return batch, np.zeros(batch_length(batch), dtype=bool)
    if None in reads:
        return read_column(checked_cells(_unnamed(X), reads[None]), reads[None])
    columns, wrong = {}, []
    for name, kind in reads.items():
        cells = checked_cells(named_column(X, str(name)), kind, f"column {name!r}")
        columns[str(name)], unread = read_column(cells, kind)
        wrong.append(unread)
    return _of_one_length(X, columns), reduce(or_, wrong)


def _as_it_came(X: Any) -> Batch:
    """Return all columns of a table as arrays: nobody says which are read, and how."""
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        if not all(isinstance(x, Mapping) and x.keys() == X[0].keys() for x in X):
            return objects(X)  # rows with different columns stay rows
        # csv.DictReader keeps surplus cells under the name None, which no class reads.
        return {name: objects([x[name] for x in X]) for name in X[0] if name is not None}
    names = column_names(X)
    if names is None:
        return _array(X)
    odd = [name for name in names if not isinstance(name, str)]
    if odd and not isinstance(X, Mapping):
        raise BadExample(f"a column is named by a string: {_listed(odd)} is not; {RENAME}")
    kept = [name for name in names if isinstance(name, str)]
    return _of_one_length(X, {name: _array(named_column(X, name)) for name in kept})


def _array(held: Any) -> AnyColumn:
    cells = raw_cells(held)
    if is_arrow(cells):
        cells = arrow_cells(cells)
    return objects(cells) if isinstance(cells, list) else cells


def example_at(X: Any, reads: Reads, row: int) -> object:
    """Return one row of a table as it came."""
    if column_names(X) is None:
        return cell_of(raw_cells(X), row)
    return {name: cell_of(raw_cells(named_column(X, str(name))), row) for name in reads}


def checked_cells(held: Any, kind: Kind, where: str = "") -> Cells:
    """Return the cells of a column; raise `BadColumn` if its type may come from other rows."""
    try:
        cells = raw_cells(held)
        refuse_guessed(held, cells, kind)
    except BadColumn as error:
        raise BadColumn(f"{where}: {error.sentence}" if where else error.sentence) from None
    return cells


def column_of(X: Any, column: Column, kind: Kind) -> AnyColumn:
    """Return one column of a table or a batch; raise `BadExample` for a cell not of its kind."""
    held = _unnamed(X) if column is None else named_column(X, column)
    if type(held) is ValueColumn and kind == "value":  # the common case: it has been read
        return held
    cells = raw_cells(held)
    read, wrong = read_column(cells, kind)
    refuse_wrong(cells, kind, wrong, column)
    return read


def labels(y: object) -> Mask:
    """Return the labels of a batch."""
    cells = checked_cells(y, "truth", "labels")
    answers, wrong = read_column(cells, "truth")
    refuse_wrong(cells, "truth", wrong, None)
    return np.asarray(answers)


def _of_one_length(X: Any, columns: dict[str, AnyColumn]) -> dict[str, AnyColumn]:
    # Columns of different lengths would pair cells of different rows.
    lengths = {name: len(column) for name, column in columns.items()}
    if isinstance(X, Mapping):
        lengths |= {name: len(column) for name, column in X.items() if isinstance(column, Sized)}
    if len(set(lengths.values())) > 1:
        raise BadExample(f"the columns of the batch have different lengths: {lengths}")
    return columns


def table_length(X: Any) -> int:
    """Return the number of rows of a table."""
    names = column_names(X)
    if not names:
        return len(raw_cells(X))
    return len(named_column(X, names[0])) if isinstance(X, Mapping) else len(X)


def column_names(X: Any) -> list[Any] | None:
    """Return the columns of a mapping, a structured array or a data frame; None of others."""
    if isinstance(X, Mapping):
        return list(X)
    if isinstance(X, np.ndarray):
        return list(X.dtype.names) if X.dtype.names else None
    names = getattr(refuse_lazy(X), "column_names", None)
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None else list(names)


def _unnamed(X: Any) -> Any:
    """Return a table that is a single column."""
    names = column_names(X)
    # A frame without a column name is refused: guessing one could read the label.
    if names is not None:
        raise BadExample(f"the batch has columns {_listed(names)}: name one with column=")
    return X


# What to do about columns whose names are not strings.
RENAME = "rename them first, such as with frame.rename(columns=str)"


def named_column(X: Any, column: str) -> Any:
    """Return a column of a table as it stands there."""
    if type(X) is dict and column in X:
        return X[column]
    names = None if type(X) is list else column_names(X)
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
    # The common case without a call.
    return [x[column] if type(x) is dict and column in x else _picked(x, column) for x in X]


def _picked(x: Any, column: str) -> object:
    try:
        return value_of(x, column)
    except BadExample as error:
        return Absent(error.sentence)


def _listed(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
