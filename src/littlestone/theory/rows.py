"""Rows: how an example is read.

An example is a value, or a row (a mapping from column to value). A batch is an array or a list of
values; or a mapping from column to array, a data frame, a structured array, or a list of rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.theory.errors import BadClass, BadExample

Column = str | None
"""The column a family reads; None when the example is the value itself."""


def checked(column: Column) -> Column:
    """The name of a column, refused when it is not a string."""
    if column is None or (isinstance(column, str) and column):
        return column
    raise BadClass(f"a column is named by a string: {column!r} is not one")


def checked_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The names of several columns: at least one, none twice.

    >>> checked_columns(["version", "version"])
    Traceback (most recent call last):
    littlestone.theory.errors.BadClass: column 'version' is named twice
    """
    if isinstance(columns, str) or not all(isinstance(name, str) and name for name in columns):
        raise BadClass(f"columns are a list of names: {columns!r} is not one")
    if not columns:
        raise BadClass("the class needs at least one column")
    for name in columns:
        if columns.count(name) > 1:
            raise BadClass(f"column {name!r} is named twice")
    return tuple(columns)


def label(y: object) -> bool:
    """The label of an example: 0 or 1, and nothing that merely looks true.

    >>> label(1), label(np.int8(0)), label(True)
    (True, False, True)
    >>> label(2)
    Traceback (most recent call last):
    littlestone.theory.errors.BadExample: label 2 is not 0 or 1
    """
    if isinstance(y, bool | int | np.bool_ | np.integer) and y in (0, 1):
        return bool(y)
    if isinstance(y, float | np.floating) and y in (0.0, 1.0):
        return bool(y)
    raise BadExample(f"label {y!r} is not 0 or 1")


def labels(y: object) -> npt.NDArray[np.bool_]:
    """A batch of labels.

    >>> labels([0, 1, 1])
    array([False,  True,  True])
    """
    array = column_of(y, None)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iuf":
        bad = np.flatnonzero((array != 0) & (array != 1))
        if len(bad):
            raise BadExample(f"row {bad[0]}: label {array[bad[0]].item()!r} is not 0 or 1")
        return array.astype(bool)
    return each(label, array)


def each(says: Callable[[object], bool], column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """What a function says of each entry of a column; what is wrong with one names its row."""
    answers = np.empty(len(column), dtype=bool)
    for row, value in enumerate(column):
        try:
            answers[row] = says(value)
        except BadExample as error:
            raise BadExample(f"row {row}: {error}") from None
    return answers


def value_of(x: object, column: Column) -> object:
    """The value that a family over `column` reads in example x.

    >>> value_of({"version": "4.2.1"}, "version"), value_of("4.2.1", None)
    ('4.2.1', '4.2.1')
    """
    if column is None:
        if isinstance(x, Mapping):
            raise BadExample(
                f"the example is a row with columns {_listed(x)}: say which with column="
            )
        return x
    if not isinstance(x, Mapping):
        raise BadExample(f"the example is a {type(x).__name__}, not a row with column {column!r}")
    if column not in x:
        raise BadExample(f"no column {column!r} in the row: it has {_listed(x)}")
    return x[column]


def example(value: object, column: Column) -> object:
    """The example that holds one value: the value itself, or a row of one column.

    >>> example(7, None), example(7, "score")
    (7, {'score': 7})
    """
    return value if column is None else {column: value}


def column_of(X: Any, column: Column) -> npt.NDArray[Any]:
    """One column of a batch, as a one-dimensional array that keeps every value's own type.

    >>> column_of({"a": np.array([1, 2])}, "a")
    array([1, 2])
    >>> column_of([{"a": 1}, {"a": "one"}], "a")
    array([1, 'one'], dtype=object)
    """
    if column is not None:
        X = _pick(X, column)
    if isinstance(X, np.ndarray):
        array = X
    elif hasattr(X, "__array__"):
        array = np.asarray(X)
    elif isinstance(X, Iterable) and not isinstance(X, str | bytes | Mapping):
        array = np.fromiter(X, dtype=object)
    else:
        raise BadExample(
            f"a batch of examples is an array or a list, not {type(X).__name__}"
            + (f" with columns {_listed(X)}: say which with column=" if _has_columns(X) else "")
        )
    if array.ndim != 1 or array.dtype.names:
        raise BadExample(f"a column has one dimension: this one has shape {array.shape}")
    return array


def row_count(X: Any) -> int:
    """How many examples a batch holds.

    >>> row_count({"a": [1, 2, 3]}), row_count(["x", "y"])
    (3, 2)
    """
    if isinstance(X, Mapping):
        counts = {len(values) for values in X.values()}
        if len(counts) > 1:
            raise BadExample(f"the columns of the batch have different lengths: {sorted(counts)}")
        return counts.pop() if counts else 0
    return len(X)


def rows_between(X: Any, start: int, stop: int) -> Any:
    """The part of a batch from row `start` up to row `stop`, in the batch's own shape.

    >>> rows_between({"a": [1, 2, 3]}, 1, 3)
    {'a': [2, 3]}
    """
    if isinstance(X, Mapping):
        return {name: values[start:stop] for name, values in X.items()}
    return X[start:stop]


def row_at(X: Any, index: int) -> Any:
    """One example of a batch: a value, or a row.

    >>> row_at({"a": [1, 2, 3]}, 1), row_at(["x", "y"], 0)
    ({'a': 2}, 'x')
    """
    names = X.dtype.names if isinstance(X, np.ndarray) else None
    if names or _has_columns(X):
        one = rows_between(X, index, index + 1)
        return {str(name): column_of(one, name)[0] for name in names or one}
    return X[index]


def _pick(X: Any, column: str) -> Any:
    names = X.dtype.names if isinstance(X, np.ndarray) else None
    if names or _has_columns(X):
        known = names or (X.keys() if isinstance(X, Mapping) else X.columns)
        if column not in known:
            raise BadExample(f"no column {column!r} in the batch: it has {_listed(known)}")
        return X[column]
    if not isinstance(X, Iterable) or isinstance(X, str | bytes):
        raise BadExample(f"a {type(X).__name__} is not a batch of rows with column {column!r}")
    return [value_of(x, column) for x in X]


def _has_columns(X: object) -> bool:
    return isinstance(X, Mapping) or hasattr(X, "columns")


def _listed(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
