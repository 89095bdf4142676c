"""Membership: which entries of a column are one of some values, vectorised.

Promises: `isin(array, values)` is ``key_of(entry) in keys`` for each entry, whatever the array.
"""

from collections.abc import Iterable
from functools import partial
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.errors import BadExample
from littlestone.hypotheses.rows import each, passes
from littlestone.hypotheses.values import Mask, Plain, canonical, key_of

_WHOLE = "iu"
_FEW_TYPES = "bfS"
"""Kinds of arrays of which only the distinct entries are compared."""
_SIMPLE = {NoneType, bool, float, str, bytes}
"""Types of which every value has a text."""
_FEW = 8
"""Up to how many values one comparison for each is faster than a search."""


def isin(array: npt.NDArray[Any], values: Iterable[Plain]) -> Mask:
    """Return which entries are one of the values.

    Parameters
    ----------
    array : numpy.ndarray
        A column, of any type whose entries have a text.
    values : iterable of Plain
        The values to look for, as `canonical` returns them.

    Returns
    -------
    Mask
        One truth value for each entry.

    Examples
    --------
    >>> among(np.array(["a", 1, True, None, "1"], dtype=object), [1, None])
    array([False,  True, False,  True,  True])
    >>> among(np.array(["0", "1", "1.0"]), [1])
    array([False,  True, False])
    """
    values, kind = tuple(map(canonical, values)), array.dtype.kind
    if not _has_text(array.dtype):
        raise BadExample(
            f"an array of {array.dtype} has no canonical values: convert it to strings"
        )
    if kind in "OT":
        return _objects_among(array.astype(object, copy=False), values)
    if kind in _FEW_TYPES:
        some, inverse = np.unique(array, return_inverse=True)
        keys = set(map(key_of, values))
        return np.asarray(np.array([key_of(entry) in keys for entry in some], dtype=bool)[inverse])
    if kind in _WHOLE:
        same: list[Any] = [value for value in values if type(value) is int]
    else:
        # Fixed-width numpy text drops trailing NULs, so such a text is never an entry of it.
        same = [text for text in _texts(values) if not text.endswith("\0")]
    if len(same) > _FEW:
        return np.isin(array, np.array(same, dtype=object if kind in _WHOLE else None))
    mask = np.zeros(array.shape, dtype=bool)
    for value in same:
        mask |= array == value
    return mask


def _texts(values: Iterable[Plain]) -> list[str]:
    """Return the texts that stand for some of the values."""
    found = [str(value) for value in values if isinstance(value, str | int)]
    return [*found, "-0.0"] if "0.0" in found else found


def readable(array: npt.NDArray[Any]) -> Mask:
    """Return which entries have a text that identifies them.

    Examples
    --------
    >>> readable(np.array(["a", 1, object(), None], dtype=object))
    array([ True,  True, False,  True])
    """
    if array.dtype.kind != "O":
        return np.full(array.shape, _has_text(array.dtype))
    if set(map(type, array)) <= _SIMPLE:
        return np.ones(array.shape, dtype=bool)
    return each(partial(passes, canonical), array)


def every(masks: Iterable[Mask]) -> Mask:
    """Return where all of several masks hold."""
    return np.asarray(np.logical_and.reduce(list(masks)))


def _has_text(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "OUTiubfS"


def _objects_among(array: npt.NDArray[Any], values: tuple[Plain, ...]) -> Mask:
    texts = _texts(values)
    only_texts = all(isinstance(value, str | int) for value in values)
    if only_texts and set(map(type, array)) <= {str, NoneType}:
        if len(texts) > _FEW:
            wanted = frozenset(texts)
            return np.fromiter((e in wanted for e in array), dtype=bool, count=len(array))
        mask = np.zeros(len(array), dtype=bool)
        for text in texts:
            # As an object: of a bare string numpy would make fixed-width text.
            box = np.empty((), dtype=object)
            box[()] = text
            mask |= np.asarray(array == box, dtype=bool)
        return mask
    keys = set(map(key_of, values))
    return each(lambda entry: key_of(entry) in keys, array)
