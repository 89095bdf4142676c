"""Columns of repeated values: a small number for each row, and each distinct value once.

Text is slow to read row by row, and columns repeat a few values. A coded column holds the distinct
values and, for each row, which of them it has; what is a function of the value alone (its hash,
whether a published cause asks for it) is computed once for each value.

Promises: decoding gives back every cell as it was, so what a row is read as never depends on the
other rows (docs/guarantee.md, Lemma 0). Rows are told apart by all of their bytes, never by a hash:
a hash only finds the place at which to compare. Which number a value gets depends on the other
rows, so nothing may be read from numbers but equality; and one value may have several numbers.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.values import Mask

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.uint16]
Word = npt.NDArray[np.uint64]
# Return the rows from one place to another as whole numbers of 64 bits, as many for each row; equal
# numbers are equal cells. None if some cell does not fit.
ReadWords = Callable[[int, int], Sequence[Word] | None]
# Return whether the cell of a row fits: asked once for each value.
Fits = Callable[[int], bool]

# Codes have 16 bits: columns of more values are not coded.
MOST_VALUES = 1 << 16
# Batches of fewer rows are not coded.
FEWEST_ROWS = 1 << 11
# A column is coded if it has at least so many rows for each value.
LEAST_REPEATS = 4
# It is given up early if of some rows at the beginning more than one in so many has a new value.
MOST_NEW = 2
# Rows that are coded at once stay in the processor's cache. The first are few: most values are new.
FIRST_CHUNK, LARGEST_CHUNK = 1 << 9, 1 << 15
# A lookup has so many places for each value, up to a number of bits.
PLACES, FEWEST_BITS, MOST_BITS = 32, 12, 18
# Odd constants that mix words.
MIXERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)


class Dictionary:
    """Hold the values of a column, and what was computed for each of them."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self._computed: dict[Any, Array] = {}

    def __len__(self) -> int:
        return len(self.values)

    def map(self, function: Callable[[Array], Array]) -> Array:
        """Return a function of the values, computed once."""
        if function not in self._computed:
            self._computed[function] = function(self.values)
        return self._computed[function]


class CodedColumn:
    """Hold a column as codes. It is read like an array of objects."""

    dtype, ndim = np.dtype(object), 1

    def __init__(self, codes: Codes, dictionary: Dictionary) -> None:
        self.codes, self.dictionary = codes, dictionary

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array that it stands for."""
        return self.codes.shape

    def __getitem__(self, rows: Any) -> Any:
        codes = self.codes[rows]
        if codes.ndim == 0:
            return self.dictionary.values[codes]
        return CodedColumn(codes, self.dictionary)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.dictionary.values[self.codes], dtype=dtype)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return the cells."""
        cells: list[Any] = np.asarray(self).tolist()
        return cells

    def where(self, holds: Mask) -> Mask:
        """Return the rows whose value is marked."""
        marked = np.flatnonzero(holds)
        if len(marked) == len(holds):
            return np.ones(len(self), dtype=bool)
        # One comparison is faster than a lookup.
        if len(marked) <= 1:
            return self.codes == marked[0] if len(marked) else np.zeros(len(self), dtype=bool)
        return np.asarray(holds[self.codes])


def coded_array(array: Array) -> CodedColumn | None:
    """Return an array of text, of whole numbers, or of texts and None as codes."""
    if len(array) < FEWEST_ROWS or array.ndim != 1:
        return None
    match array.dtype.kind:
        case "U":
            return _coded_text(array)
        case "i" | "u":
            words = array.astype(np.int64 if array.dtype.kind == "i" else np.uint64).view(np.uint64)
            return _coded(array, [lambda start, stop: [words[start:stop]]])
        case "O":
            return coded_objects(array)
    return None


def _coded(array: Array, readers: Sequence[ReadWords]) -> CodedColumn | None:
    """Return an array as codes, read by the first reader that all of its cells fit."""
    found = code_words(len(array), readers)
    return None if found is None else CodedColumn(found[0], Dictionary(objects(array[found[1]])))


def objects(cells: Any) -> Array:
    """Return cells as an array of Python objects."""
    values = np.empty(len(cells), dtype=object)
    values[:] = cells.tolist() if isinstance(cells, np.ndarray) else cells
    return values


def _coded_text(array: Array) -> CodedColumn | None:
    width = array.dtype.itemsize // 4
    if not width:
        return CodedColumn(np.zeros(len(array), np.uint16), Dictionary(objects([""])))
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    points = native.view(np.uint32).reshape(len(array), width)
    # Two characters at a time; numpy also reads what is not aligned.
    pairs = np.ndarray((len(array), width // 2), np.uint64, points, strides=(4 * width, 8))

    def reader(bits: int) -> ReadWords:
        """Return what packs several pairs of characters of so many bits into one number."""

        def read(start: int, stop: int) -> list[Word] | None:
            if bits < 32 and np.bitwise_or.reduce(points[start:stop], axis=None) >> bits:
                return None
            columns: list[Any] = [pairs[start:stop, place] for place in range(width // 2)]
            if width % 2:
                columns.append(points[start:stop, -1].astype(np.uint64))
            packed = 32 // bits
            return [_pack(columns[at : at + packed], bits) for at in range(0, len(columns), packed)]

        return read

    return _coded(array, [reader(bits) for bits in (8, 16, 32)])


def _pack(columns: list[Word], bits: int) -> Word:
    word = columns[0].copy() if len(columns) > 1 else columns[0]
    for place, column in enumerate(columns[1:], start=1):
        word |= column << np.uint64(bits * place)
    return word


_TEXTS = {str, NoneType}


def coded_objects(
    array: Array, missing: Callable[[Array], Mask] | None = None
) -> CodedColumn | None:
    """Return an array of texts and None as codes."""
    # Readers of tables make one object of equal texts: rows of one object are of one value.
    array = np.ascontiguousarray(array)
    pointers: Any = (ctypes.c_uint64 * len(array)).from_address(array.ctypes.data)
    ids = np.frombuffer(pointers, np.uint64)
    found = code_words(len(array), [lambda start, stop: [ids[start:stop]]])
    if found is not None:
        values = objects(array[found[1]])
        if missing is not None:
            values[missing(values)] = None
        types = set(map(type, values.tolist()))
        return CodedColumn(found[0], Dictionary(values)) if types <= _TEXTS else None
    cells = array.tolist()
    if not set(map(type, cells)) <= _TEXTS:
        return None
    if MOST_NEW * len(set(cells[:FEWEST_ROWS])) > FEWEST_ROWS:
        return None
    numbers = _Numbers()
    try:
        codes = np.fromiter(map(numbers.__getitem__, cells), np.uint16, len(cells))
    except OverflowError:
        return None
    if LEAST_REPEATS * len(numbers) > len(cells):
        return None
    return CodedColumn(codes, Dictionary(objects(list(numbers))))


def coded_views(views: Word, missing: Mask | None) -> CodedColumn | None:
    """Return the short texts of an Arrow array of string views as codes."""
    lengths = views.view(np.uint32)[:, 0]

    def reader(longest: int) -> ReadWords:
        def read(start: int, stop: int) -> list[Word] | None:
            absent = None if missing is None else missing[start:stop]
            some = (
                lengths[start:stop] if absent is None else np.where(absent, 0, lengths[start:stop])
            )
            if some.max() > longest:
                return None
            # Bytes behind the end of a text are 0: of four bytes the second word holds none.
            words = [views[start:stop, place] for place in range(1 if longest == 4 else 2)]
            return words if absent is None else [np.where(absent, _MISSING, word) for word in words]

        return read

    found = code_words(len(views), [reader(4), reader(12)])
    if found is None:
        return None
    codes, rows = found
    texts = [
        None if missing is not None and missing[row] else _text_of(views[row].tobytes())
        for row in rows
    ]
    return CodedColumn(codes, Dictionary(objects(texts)))


# The length of no text.
_MISSING = np.uint64((1 << 64) - 1)


def _text_of(view: bytes) -> str:
    return view[4 : 4 + int.from_bytes(view[:4], sys.byteorder)].decode()


def coded_indices(indices: Array, values: Array) -> CodedColumn | None:
    """Return a column that comes as indices of values as codes."""
    if len(values) >= MOST_VALUES or LEAST_REPEATS * len(values) > len(indices):
        return None
    codes = indices.astype(np.uint16)
    if len(indices) and indices.min() < 0:
        codes[indices < 0] = len(values)
        values = objects([*values.tolist(), None])
    return CodedColumn(codes, Dictionary(objects(values)))


class _Numbers(dict[Any, int]):
    """Number texts in the order in which they occur."""

    def __missing__(self, text: str | None) -> int:
        self[text] = number = len(self)
        return number


def code_words(
    count: int, readers: Sequence[ReadWords], fits: Fits | None = None
) -> tuple[Codes, list[int]] | None:
    """Return a code for each row, equal for equal cells, and a row that has each code."""
    for read in readers:
        found = _code_words(count, read, fits)
        if found is not _DOES_NOT_FIT:
            return found
    return None


# Only its identity is used.
_DOES_NOT_FIT: tuple[Codes, list[int]] = (np.zeros(0, np.uint16), [])


def _code_words(count: int, read: ReadWords, fits: Fits | None) -> tuple[Codes, list[int]] | None:
    codes, index = np.empty(count, dtype=np.uint16), _Index()
    start, size = 0, FIRST_CHUNK
    while start < count:
        stop = min(count, start + size)
        words = read(start, stop)
        if words is None:
            return _DOES_NOT_FIT
        known = len(index.rows)
        if not index.look_up(words, start, codes[start:stop]):
            return None
        if fits is not None and not all(map(fits, index.rows[known:])):
            return None
        start, size = stop, min(2 * size, LARGEST_CHUNK)
    return None if LEAST_REPEATS * len(index.rows) > count else (codes, index.rows)


class _Index:
    """Number distinct rows of words, in the order in which they occur."""

    def __init__(self) -> None:
        # A row that has each code.
        self.rows: list[int] = []
        self._codes: dict[Any, int] = {}
        self._tables: list[_Table] = []
        # Since the tables were made: values that they lack, and rows that they did not find.
        self._new = self._slow = 0

    def look_up(self, words: Sequence[Word], start: int, out: Codes) -> bool:
        """Write the codes of rows; return whether there are not too many."""
        left: Any = None
        for table in self._tables:
            some = words if left is None else [word[left] for word in words]
            found, right = table.look_up(some)
            if left is None:
                out[:] = found
                left = np.flatnonzero(~right)
            else:
                out[left[right]] = found[right]
                left = left[~right]
            if not len(left):
                return True
        rows = np.arange(len(out)) if left is None else left
        known = len(self.rows)
        out[rows] = self._number([word[rows].tolist() for word in words], (start + rows).tolist())
        seen = start + len(out)
        if len(self.rows) >= MOST_VALUES:
            return False
        new = len(self.rows) - known
        if seen >= FEWEST_ROWS and MOST_NEW * new > len(out):
            return False
        if seen >= 4 * FEWEST_ROWS and LEAST_REPEATS * len(self.rows) > seen:
            return False
        # Tables are made anew where that pays: values that are in none of them are found slowly.
        self._new, self._slow = self._new + new, self._slow + len(rows)
        if self._new and 2 * self._slow > len(self.rows):
            self._tables, self._new, self._slow = self._made(), 0, 0
        return True

    def _number(self, words: list[list[int]], rows: list[int]) -> list[int]:
        """Return the codes of some rows, one by one."""
        found = []
        for row, cell in zip(rows, zip(*words, strict=True), strict=True):
            code = self._codes.setdefault(cell, len(self.rows))
            if code == len(self.rows):
                self.rows.append(row)
            found.append(code % MOST_VALUES)
        return found

    def _made(self) -> list["_Table"]:
        """Return tables of all values. The second has those whose place in the first is taken."""
        cells = list(self._codes)
        codes = np.arange(len(cells))
        words = [np.array(word, dtype=np.uint64) for word in zip(*cells, strict=True)]
        tables, attempt = [], 0
        while len(codes) and attempt < 2:
            table = _Table([word[codes] for word in words], codes.astype(np.uint16), attempt)
            tables.append(table)
            codes, attempt = codes[table.lost], attempt + 1
        return tables


class _Table:
    """Find codes by the leading bits of mixed words."""

    def __init__(self, words: list[Word], codes: Codes, attempt: int) -> None:
        self._words, self._codes, self._attempt = words, codes, attempt
        bits = min(max((PLACES * len(codes)).bit_length(), FEWEST_BITS), MOST_BITS)
        self._shift = np.uint64(64 - bits)
        places = self._places(words)
        self._table = np.zeros(1 << bits, dtype=np.uint16)
        # In reverse: what occurred first, and so probably often, keeps its place.
        order = np.arange(len(codes), dtype=np.uint16)
        self._table[places[::-1]] = order[::-1]
        self.lost = np.flatnonzero(self._table[places] != order)
        # Codes are often the places themselves.
        self._own = len(codes) == int(codes[-1]) + 1

    def _places(self, words: Sequence[Word]) -> npt.NDArray[np.int64]:
        mixed = words[0] * np.uint64(MIXERS[self._attempt])
        for place, word in enumerate(words[1:], start=1):
            mixed += word * np.uint64(MIXERS[(self._attempt + place) % len(MIXERS)] + 2 * place)
        mixed >>= self._shift
        return mixed.view(np.int64)

    def look_up(self, words: Sequence[Word]) -> tuple[Codes, Mask]:
        """Return the code of each row, and whether it is right."""
        found = self._table.take(self._places(words), mode="clip")
        right = self._words[0].take(found, mode="clip") == words[0]
        for mine, word in zip(self._words[1:], words[1:], strict=True):
            right &= mine.take(found, mode="clip") == word
        return found if self._own else self._codes.take(found), right
