"""Comparing a column with values and with cuts, vectorised.

Values: `isin(array, values)` is ``key_of(entry) in keys`` for each entry, whatever the array.

Numbers: a cut is an int where it can be (70, not 70.0), so that one cut has one form. **A number in
a row is a 64-bit float**, whatever type it comes in: a whole number, a decimal, a truth value (1 or
0), or text of one of these. A reader that makes floats or text of a whole column because of one
cell does not change what its other cells are (docs/guarantee.md, Lemma 0). A missing number (None,
NaN, empty text, and the words that readers of tables take for a missing number, such as NA) is
below every cut. Comparison with a cut is exact.
"""

import math
import re
import reprlib
from collections.abc import Iterable
from functools import partial
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.frames import plain_number
from littlestone._hypotheses.rows import each, passes
from littlestone._hypotheses.values import SMALL, Mask, Plain, canonical, key_of, plain
from littlestone.errors import BadExample

_INTEGER_KINDS = "iu"
# Kinds of arrays of which only the distinct entries are compared.
_DISTINCT_KINDS = "bfS"
# Types of which every value has a text.
_TEXT_TYPES = {NoneType, bool, float, str, bytes}
# Up to how many values one comparison for each is faster than a search.
_FEW = 8


def isin(array: npt.NDArray[Any], values: Iterable[Plain]) -> Mask:
    """Return which entries are one of the values."""
    values, kind = tuple(map(canonical, values)), array.dtype.kind
    if not _has_text(array.dtype):
        raise BadExample(
            f"an array of {array.dtype} has no canonical values: convert it to strings"
        )
    if kind in "OT":
        return _objects_isin(array.astype(object, copy=False), values)
    if kind in _DISTINCT_KINDS:
        # Their texts are slow to make, and few of the entries differ.
        some, inverse = np.unique(array, return_inverse=True)
        keys = set(map(key_of, values))
        return np.asarray(np.array([key_of(entry) in keys for entry in some], dtype=bool)[inverse])
    if kind in _INTEGER_KINDS:
        same: list[Any] = [value for value in values if type(value) is int]
    else:
        # Fixed-width numpy text drops trailing NULs, so such a text is never an entry of it.
        same = [text for text in texts_of(values) if not text.endswith("\0")]
    if len(same) > _FEW:
        return np.isin(array, np.array(same, dtype=object if kind in _INTEGER_KINDS else None))
    mask = np.zeros(array.shape, dtype=bool)
    for value in same:
        mask |= array == value
    return mask


def texts_of(values: Iterable[Plain]) -> list[str]:
    """Return the texts that stand for some of the values."""
    found = [str(value) for value in values if isinstance(value, str | int)]
    return [*found, "-0.0"] if "0.0" in found else found


def readable(array: npt.NDArray[Any]) -> Mask:
    """Return which entries have a text that identifies them."""
    if array.dtype.kind != "O":
        return np.full(array.shape, _has_text(array.dtype))
    if set(map(type, array.tolist())) <= _TEXT_TYPES:
        return np.ones(array.shape, dtype=bool)
    return each(partial(passes, canonical), array)


def every(masks: Iterable[Mask]) -> Mask:
    """Return where all of several masks hold."""
    return np.asarray(np.logical_and.reduce(list(masks)))


def _has_text(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "OUTiubfS"


def isin_each(array: npt.NDArray[Any], values: Iterable[Plain]) -> list[Mask]:
    """Return, for each of several values, which entries are that value."""
    values = tuple(map(canonical, values))
    if array.dtype.kind not in "OT" or len(values) == 1:
        return [isin(array, [value]) for value in values]
    objects = array.astype(object, copy=False)
    if all(isinstance(value, str | int) for value in values) and _only_texts(objects):
        return [_equal(objects, texts_of([value])) for value in values]
    index = {key_of(value): at for at, value in enumerate(values)}
    codes = np.empty(len(objects), dtype=np.intp)
    for row, entry in enumerate(objects):
        try:
            codes[row] = index.get(key_of(entry), -1)
        except BadExample as error:
            raise BadExample(error.sentence, row) from None
    return [np.asarray(codes == at) for at in range(len(values))]


def _only_texts(array: npt.NDArray[Any]) -> bool:
    return set(map(type, array.tolist())) <= {str, NoneType}


def _equal(array: npt.NDArray[Any], texts: Iterable[str]) -> Mask:
    """Return which entries of an array of texts and None are one of a few texts."""
    mask = np.zeros(len(array), dtype=bool)
    for text in texts:
        # As an object: a bare string would become fixed-width text, without trailing NULs.
        box = np.empty((), dtype=object)
        box[()] = text
        mask |= np.asarray(array == box, dtype=bool)
    return mask


def _objects_isin(array: npt.NDArray[Any], values: tuple[Plain, ...]) -> Mask:
    texts = texts_of(values)
    only_texts = all(isinstance(value, str | int) for value in values)
    if only_texts and _only_texts(array):
        if len(texts) <= _FEW:
            return _equal(array, texts)
        found = frozenset(texts)
        return np.fromiter((e in found for e in array), dtype=bool, count=len(array))
    keys = set(map(key_of, values))
    return each(lambda entry: key_of(entry) in keys, array)


Number = int | float
LARGEST = float(np.finfo(np.float64).max)


def simplest(cut: float) -> Number:
    """Return the canonical form of a finite number: an int where it is whole."""
    number = plain(cut)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BadExample(f"{cut!r} is not a number")
    if not -LARGEST <= number <= LARGEST:
        raise BadExample(f"{cut!r} is not a finite number that a computer can hold")
    return int(number) if number == int(number) else number


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
_TRUTHS = {"true": 1.0, "false": 0.0}
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
    raise BadExample(f"{reprlib.repr(str(text))} is not a number")


def compare_all(column: npt.NDArray[Any], cut: Number) -> Mask:
    """Return which entries are at least the cut."""
    if column.dtype.kind in "biuf":
        return np.asarray(column.astype(np.float64, copy=False) >= float_not_below(cut))
    return each(lambda value: number_of(value) >= cut, column)


def float_not_below(cut: Number) -> float:
    """Return the smallest float that is not below the cut."""
    # A cut above 2^53 may have no float: rounded up, the comparison with floats stays exact.
    nearest = float(cut)
    return nearest if nearest >= cut else math.nextafter(nearest, math.inf)


def readable_numbers(column: npt.NDArray[Any]) -> Mask:
    """Return which entries are numbers, or missing."""
    if column.dtype.kind in "biuf":
        return np.ones(len(column), dtype=bool)
    return each(partial(passes, number_of), column)
