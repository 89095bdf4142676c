"""Membership: which entries of a column are one of some values. Canonical, and vectorised."""

from collections.abc import Iterable
from functools import partial
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.theory.errors import BadExample
from littlestone.theory.rows import each, passes
from littlestone.theory.values import Mask, Plain, encode

_PYTHON_TYPE = {"b": bool, "i": int, "u": int, "f": float, "U": str, "S": bytes, "T": str}
_SIMPLE = {NoneType, bool, float, str, bytes}
_FEW = 8


def among(array: npt.NDArray[Any], values: Iterable[Plain]) -> Mask:
    """Which entries are one of the values.

    >>> among(np.array(["a", 1, True, None], dtype=object), [1, None])
    array([False,  True, False,  True])
    >>> among(np.array([0, 1, 2]), [1, True, 2.0])
    array([False,  True, False])
    """
    values, kind = tuple(values), array.dtype.kind
    if not _has_spelling(array.dtype):
        raise BadExample(
            f"an array of {array.dtype} has no canonical values: convert it to strings or numbers"
        )
    if kind in "OT":
        return _objects_among(array.astype(object, copy=False), values)
    same = [v for v in values if type(v) is _PYTHON_TYPE[kind] and not _is_cut_off(v, kind)]
    if kind == "f":
        array = array.astype(np.float64, copy=False)
    if len(same) > _FEW:
        mask = np.isin(array, np.array(same, dtype=object if kind in "iu" else None))
    else:
        mask = np.zeros(array.shape, dtype=bool)
        for value in same:
            mask |= array == value
    if any(v != v for v in same):
        mask |= np.isnan(array)
    return mask


def readable(array: npt.NDArray[Any]) -> Mask:
    """Which entries have a canonical spelling.

    >>> readable(np.array(["a", 1, object(), None], dtype=object))
    array([ True,  True, False,  True])
    """
    if array.dtype.kind != "O":
        return np.full(array.shape, _has_spelling(array.dtype))
    if set(map(type, array)) <= _SIMPLE:
        return np.ones(array.shape, dtype=bool)
    return each(partial(passes, encode), array)


def every(masks: Iterable[Mask]) -> Mask:
    """Where all of several masks hold."""
    return np.asarray(np.logical_and.reduce(list(masks)))


def _has_spelling(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "O" or (
        dtype.kind in _PYTHON_TYPE and not (dtype.kind == "f" and dtype.itemsize > 8)
    )


def _is_cut_off(value: Plain, kind: str) -> bool:
    """Fixed-width numpy text drops trailing NULs, so such a value is never an entry of it."""
    if kind == "U":
        return isinstance(value, str) and value.endswith("\0")
    return kind == "S" and isinstance(value, bytes) and value.endswith(b"\0")


def _boxed(value: Plain) -> npt.NDArray[Any]:
    """The value as an object for numpy, which would otherwise make fixed-width text of it."""
    box = np.empty((), dtype=object)
    box[()] = value
    return box


def _objects_among(array: npt.NDArray[Any], values: tuple[Plain, ...]) -> Mask:
    strings = [value for value in values if isinstance(value, str)]
    if len(strings) == len(values) <= _FEW:
        try:
            masks = [np.asarray(array == _boxed(value), dtype=bool) for value in strings]
            return np.logical_or.reduce(masks) if masks else np.zeros(len(array), dtype=bool)
        except (TypeError, ValueError):
            pass  # an entry that will not be compared; below it gets its sentence
    if len(strings) == len(values):
        wanted = frozenset(strings)
        found = (isinstance(entry, str) and entry in wanted for entry in array)
        return np.fromiter(found, dtype=bool, count=len(array))
    keys = {encode(value) for value in values}
    return each(lambda entry: encode(entry) in keys, array)
