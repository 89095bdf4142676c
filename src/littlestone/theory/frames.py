"""Columns of data frames: pandas, polars and pyarrow columns as arrays, each value as it stands.

Promises: how one row's value is spelt never depends on the other rows. (The libraries' own
conversion makes floats of all whole numbers of a column in which one is missing: then one replaced
row would change the votes of all.) A missing value is None; NaN, where a column of floats can hold
both, is NaN. Numbers without a missing one are not copied where the library can help it.

None of the libraries is imported: a column is known by where its type comes from.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from littlestone.theory.errors import BadExample

Array = npt.NDArray[Any]
Kind = Literal["value", "number", "truth"]
"""How a family reads a column: any value as it stands, a number or a missing one, 0 or 1."""


def column_array(column: Any, kind: Kind = "value") -> Array | None:
    """A column of a data frame as an array; None where it is not one.

    A missing float is NaN where numbers are read: there both mean the same, and it is faster.

    >>> column_array(np.ma.array([1, 2], mask=[False, True]))
    array([1, None], dtype=object)
    """
    match type(column).__module__.partition(".")[0]:
        case "pandas":
            return _pandas(column, kind)
        case "polars":
            return _polars(column, kind)
        case "pyarrow":
            return _arrow(column, kind)
    if isinstance(column, np.ma.MaskedArray):
        return _masked(column)
    return None


def _pandas(column: Any, kind: Kind) -> Array:
    if isinstance(column.dtype, np.dtype):
        return np.asarray(column)
    if hasattr(column.dtype, "categories"):
        return _taken(getattr(column, "cat", column), kind)
    missing = np.asarray(column.isna())
    if not missing.any() or (kind == "number" and column.dtype.kind == "f"):
        return np.asarray(column)
    return _without(np.asarray(column.astype(object)), missing)


def _taken(categories: Any, kind: Kind) -> Array:
    """Categories by their codes; the code -1 is a missing one."""
    codes, values = np.asarray(categories.codes), _pandas(categories.categories, kind)
    missing = np.asarray(codes < 0)
    if not missing.any():
        return np.asarray(values[codes])
    if not len(values):
        return np.full(codes.shape, None)
    return _without(values[codes].astype(object), missing)


def _polars(column: Any, kind: Kind) -> Array:
    if not hasattr(column, "null_count"):
        return np.asarray(column)
    if not column.null_count() or (kind == "number" and column.dtype.is_float()):
        return np.asarray(column.to_numpy())
    return np.fromiter(column.to_list(), dtype=object)


def _arrow(column: Any, kind: Kind) -> Array:
    if not hasattr(column, "null_count"):
        return np.asarray(column)
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):
        column = column.cast(column.type.value_type)
    if not column.null_count:
        return np.asarray(column)
    if kind == "number" and str(column.type) in ("halffloat", "float", "double"):
        return np.asarray(column)
    return np.fromiter(column.to_pylist(), dtype=object)


def _masked(column: Any) -> Array:
    if not np.ma.is_masked(column):
        return np.asarray(column)
    return _without(column.data.astype(object), np.ma.getmaskarray(column))


def _without(entries: Array, missing: Array) -> Array:
    """Entries of a new array, None where they are missing."""
    found = entries.copy()
    found[missing] = None
    return found


def collected(X: Any) -> Any:
    """A batch, refused when it is a promise of one."""
    if type(X).__name__ == "LazyFrame":
        raise BadExample("a LazyFrame holds no rows yet: select what is read, and collect it")
    return X
