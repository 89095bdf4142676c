"""Columns of values: each distinct value once, and for each row which of them it has.

Text is slow to read row by row, and columns repeat a few values. What is a function of a value
alone (its hash, whether a published cause asks for it) is computed once for each distinct value.

Promises: decoding gives back every cell as it was, but for the sign of a zero, which no reader looks
at; so what a row is read as never depends on the other rows (docs/guarantee.md, Lemma 0). Which code
a value gets does depend on them, so nothing may be read from codes but equality; and one value may
have several codes.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, count
from types import NoneType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.values import Mask, key_of

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]
Result = TypeVar("Result")


class Column:
    """Hold a column as distinct values and codes. It is read like an array of objects."""

    dtype, ndim = np.dtype(object), 1
    __slots__ = ("_computed", "codes", "values")

    def __init__(
        self, values: Array, codes: Codes, computed: dict[Hashable, Any] | None = None
    ) -> None:
        self.values, self.codes = values, codes
        # Shared by all parts of a column, as they share its values.
        self._computed = {} if computed is None else computed

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array that it stands for."""
        return self.codes.shape

    def __getitem__(self, rows: Any) -> Any:
        codes = self.codes[rows]
        if codes.ndim == 0:
            return self.values[codes]
        return Column(self.values, codes, self._computed)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.values[self.codes], dtype=dtype)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getstate__(self) -> tuple[Array, Codes]:
        # Only the values that occur travel to another process.
        occurs, codes = used_codes(self.codes, len(self.values))
        return self.values[occurs], codes

    def __setstate__(self, state: tuple[Array, Codes]) -> None:
        self.values, self.codes = state
        self._computed = {}

    def tolist(self) -> list[Any]:
        """Return the cells."""
        cells: list[Any] = np.asarray(self).tolist()
        return cells

    def map(self, function: Callable[[Array], Result]) -> Result:
        """Return a function of the values, which is computed once for all parts of the column."""
        if function not in self._computed:
            self._computed[function] = function(self.values)
        result: Result = self._computed[function]
        return result

    def without(self, wrong: Mask | list[int]) -> "Column":
        """Return the column with None in place of some of its values."""
        values = self.values.copy()
        values[wrong] = None
        return Column(values, self.codes)

    def compact(self) -> "Column":
        """Return the column with no more values than rows: then without those that no row has."""
        if len(self.values) <= len(self.codes):
            return self
        occurs, codes = used_codes(self.codes, len(self.values))
        return Column(self.values[occurs], codes)

    def among(self, keys: frozenset[bytes]) -> Mask:
        """Return the rows whose value has one of some keys."""
        if keys not in self._computed:
            self._computed[keys] = self._codes_of(keys)
        codes: list[int] = self._computed[keys]
        # One comparison is faster than a lookup.
        if len(codes) <= 1:
            return self.codes == codes[0] if codes else np.zeros(len(self), dtype=bool)
        holds = np.zeros(len(self.values), dtype=bool)
        holds[codes] = True
        return np.asarray(holds[self.codes])

    def _codes_of(self, keys: frozenset[bytes]) -> list[int]:
        """Return the codes of the values with one of some keys: a value may have several."""
        hashes, codes = self.map(hash_keys), list[int]()
        for key in keys:
            codes += np.flatnonzero(hashes == hash(key)).tolist()
        return [code for code in codes if key_of(self.values[code]) in keys]


def used_codes(codes: Codes, count: int) -> tuple[Mask, Codes]:
    """Return which of so many codes occur, and the codes among those."""
    # As numpy would convert them for each of two lookups.
    occurs, places = np.zeros(count, dtype=bool), codes.astype(np.intp)
    occurs[places] = True
    return occurs, codes if occurs.all() else (np.cumsum(occurs, dtype=np.int32) - 1)[places]


def join_columns(parts: Sequence["Column | Array | list[Any]"]) -> Any:
    """Return the cells of several columns of one kind as one column; of lists as a list."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, list) for part in parts):
        return list(chain.from_iterable(parts))
    if not any(isinstance(part, Column | list) for part in parts):
        return np.concatenate([np.asarray(part) for part in parts])
    numbers: dict[Any, int] = _numbering()
    codes = list[Codes]()
    # A part of a column still has all of its values: kept, they would add up, join after join.
    columns = [_as_column(part).compact() for part in parts]
    for place, column in enumerate(columns):
        # A text has one code in all parts; any other value has one in each.
        keys = (
            value if type(value) is str else (place, code)
            for code, value in enumerate(column.values.tolist())
        )
        joined = np.fromiter(map(numbers.__getitem__, keys), np.int32, len(column.values))
        codes.append(joined[column.codes])
    values = [key if type(key) is str else columns[key[0]].values[key[1]] for key in numbers]
    return Column(objects(values), np.concatenate(codes))


def _as_column(part: "Column | Array | list[Any]") -> "Column":
    if isinstance(part, Column):
        return part
    return column_from_cells(part) if isinstance(part, list) else column_from_array(part)


def hash_keys(values: Array) -> npt.NDArray[np.int64]:
    """Return the hash of the key of each value."""
    return np.fromiter(map(hash, map(key_of, values.tolist())), np.int64, len(values))


def objects(cells: Any) -> Array:
    """Return cells as an array of Python objects."""
    return np.fromiter(
        cells.tolist() if isinstance(cells, np.ndarray) else cells, dtype=object, count=len(cells)
    )


def _numbering() -> defaultdict[Hashable, int]:
    """Return a dict that numbers what is looked up, in the order in which it occurs."""
    return defaultdict(count().__next__)


# Arrays below this length are coded faster as Python objects.
FEW_CELLS = 512
# Importing pyarrow takes as long as numbering so many pieces without it.
FEW_PIECES = 1 << 15


def number_pieces(
    data: bytes, ends: Array, chosen: Array | None = None
) -> tuple[list[bytes], Codes]:
    """Return the distinct pieces of data that is cut at `ends`, and which of them each piece is.

    Only the `chosen` pieces count, which are all of them by default.
    """
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    try:
        if len(ends) < FEW_PIECES and "pyarrow" not in sys.modules:
            raise ModuleNotFoundError
        import pyarrow
    except ModuleNotFoundError:
        numbers: dict[Any, int] = _numbering()
        bounds = offsets.tolist()
        places = range(len(ends)) if chosen is None else chosen.tolist()
        pieces = (data[bounds[place] : bounds[place + 1]] for place in places)
        codes = np.fromiter(map(numbers.__getitem__, pieces), np.int32, len(places))
        return list(numbers), codes
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data)]
    cells = pyarrow.Array.from_buffers(pyarrow.binary(), len(ends), buffers)
    coded = (cells if chosen is None else cells.take(pyarrow.array(chosen))).dictionary_encode()
    return coded.dictionary.to_pylist(), np.asarray(coded.indices)


# A cell of these types is no other value than any cell that it equals, if that has its type.
_SAME_TYPE = (int, float, bool, bytes, NoneType)


def column_from_cells(cells: Sequence[Any]) -> Column:
    """Return cells as a column."""
    numbers, typed = _numbering(), _numbering()
    try:
        codes = np.fromiter(map(numbers.__getitem__, cells), np.int32, len(cells))
        # Text equals nothing but text; 1, 1.0 and True are one key, and three values.
        if {*map(type, numbers)} <= {str, NoneType}:
            return Column(objects(list(numbers)), codes)
        pairs = zip(map(type, cells), cells, strict=True)
        codes = np.fromiter(map(typed.__getitem__, pairs), np.int32, len(cells))
    except TypeError:  # a list of JSON, which is no key of a dict
        return _told_apart(cells)
    keys: list[Any] = list(typed)
    if all(held is str or held in _SAME_TYPE for held, _ in keys):
        return Column(objects([cell for _, cell in keys]), codes)
    return _told_apart(cells)


def _told_apart(cells: Sequence[Any]) -> Column:
    """Return cells as a column, told apart one by one."""
    numbers, values = _numbering(), list[Any]()
    codes = np.empty(len(cells), np.int32)
    for row, cell in enumerate(cells):
        held = type(cell)
        # Of other types, such as tuples, equal cells may be different values: each has its code.
        codes[row] = numbers[
            cell if held is str else (held, cell) if held in _SAME_TYPE else (row, None, None)
        ]
        if codes[row] == len(values):
            values.append(cell)
    return Column(objects(values), codes)


def column_from_array(array: Array) -> Column:
    """Return an array as a column."""
    if array.dtype.kind == "b":
        return Column(objects([False, True]), array.astype(np.int32))
    if array.dtype.kind == "f":
        values, codes = np.unique(array, return_inverse=True)
        return Column(objects(values), codes.astype(np.int32))
    if array.dtype.kind not in "iuU" or not array.dtype.itemsize or len(array) < FEW_CELLS:
        return column_from_cells(array.tolist())
    try:
        import pyarrow
    except ModuleNotFoundError:
        return column_from_cells(array.tolist())
    # Equal cells have equal bytes, all of one length.
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    held = pyarrow.binary(native.dtype.itemsize)
    cells = pyarrow.Array.from_buffers(held, len(native), [None, pyarrow.py_buffer(native)])
    coded = cells.dictionary_encode()
    buffer = coded.dictionary.buffers()[1] or b""
    values = np.frombuffer(buffer, native.dtype, len(coded.dictionary))
    return Column(objects(values), np.asarray(coded.indices))


def column_from_codes(values: Sequence[Any], codes: Array) -> Column:
    """Return a column that comes as codes of values; a code below 0 is a missing cell."""
    if len(values) > len(codes):
        # Few rows of many categories: what nobody has is not looked at.
        used, codes = np.unique(codes, return_inverse=True)
        values = [None if code < 0 else values[code] for code in used.tolist()]
        return Column(objects(values), codes.astype(np.int32))
    if len(codes) and codes.min() < 0:
        values, codes = [*values, None], np.where(codes < 0, len(values), codes)
    return Column(objects(values), codes.astype(np.int32, copy=False))
