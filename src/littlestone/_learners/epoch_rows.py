"""Keep the rows of an epoch compactly, and count what every move of the causes learner gains.

A row lists *patterns*: every and of at most `width` conditions that hold for it. At a firing the
learner needs, for each pattern of an unmatched positive row, how many unmatched positive and
negative rows of the epoch list it. Rows are kept and counted at a firing only, and only patterns of
positive rows are counted: all others are no candidates.

Positive rows are kept exactly. Of negative rows each text is kept as a hash of 32 bits: values that
share a hash share their negatives. Every key reads the negatives of its hash, whatever other keys
there are, so what a negative row does is still a function of that row, and moves its keys by the
same amount: the proof holds whatever the hash (docs/guarantee.md, Theorem 15, "Hashed negatives").
Hashing positive rows would not be private.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from hashlib import blake2b
from itertools import combinations, pairwise
from math import prod
from operator import mul
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.causes import Causes, Ranges
from littlestone._hypotheses.causes import OUTCOME, Cause, Condition
from littlestone._hypotheses.coded import CodedColumn, Dictionary, objects
from littlestone._hypotheses.rows import Batch, coded_column_of, column_of, part_of, value_of
from littlestone._hypotheses.values import Mask, Plain, canonical, encode, from_json, to_json
from littlestone._learners.base import ChangedState, StateData
from littlestone._privacy.causes import Counts

Codes = npt.NDArray[np.uint32]
Ids = npt.NDArray[np.int64]

# Text of at most so many characters is hashed as arrays, longer text one by one.
LONGEST = 64
# Hashes of texts that are remembered, for arrays of objects.
MOST_REMEMBERED = 1 << 18
# Fewer texts than these are hashed one by one.
FEW_TEXTS = 16
# Rows that are saved together.
PAGE = 1024
# Counts of so many keys are kept in a table by key; of more keys, only those that are wanted.
LARGEST_TABLE = 1 << 20
# Distinct positive patterns are found by one whole number each, up to this size.
LARGEST_NUMBER = 1 << 62
# A lookup has at least so many places for each key, so that few keys share a place.
PLACES = 16
# Odd constants that mix the numbers of a lookup, one for each attempt.
MIXERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@cache
def _multipliers() -> npt.NDArray[np.uint64]:
    """Return the public constants of the hash: the same in every version, as stores keep hashes."""
    digests = (blake2b(f"littlestone text {n}".encode(), digest_size=8) for n in range(LONGEST + 1))
    return np.array([int.from_bytes(digest.digest()) | 1 for digest in digests], dtype=np.uint64)


@cache
def _factors() -> list[int]:
    """Return the constants of the hash as whole numbers of Python."""
    return list(map(int, _multipliers()))


def text_hash(text: str) -> int:
    """Return a hash of 32 bits of a text: multilinear, so equal for padded and unpadded text."""
    if len(text) > LONGEST:
        digest = blake2b(text.encode("utf-32-le", "surrogatepass"), digest_size=4)
        return int.from_bytes(digest.digest())
    # Whole numbers of Python: faster than arrays for short text.
    factors = _factors()
    total: int = factors[LONGEST] + sum(map(mul, map(ord, text), factors))
    return total % (1 << 64) >> 32


def value_hash(value: object) -> int:
    """Return the hash of a value, by its identity (`canonical`)."""
    match canonical(value):
        case None:
            return 0
        case str() | int() as text:
            return text_hash(str(text))
        case other:
            return text_hash(encode(other).decode("latin-1"))


class _TextHashes(dict[str | None, int]):
    """Remember the hashes of texts: values repeat."""

    def __missing__(self, text: str | None) -> int:
        # Bounded, so that memory does not grow with the number of distinct values.
        if len(self) >= MOST_REMEMBERED:
            self.clear()
        self[text] = found = value_hash(text)
        return found

    def learn(self, texts: Iterable[str | None]) -> None:
        """Add the hashes of many texts at once, which is much faster than one by one."""
        short = [text for text in texts if text is not None and len(text) <= LONGEST]
        if not FEW_TEXTS <= len(short) <= MOST_REMEMBERED:
            return
        if len(self) + len(short) > MOST_REMEMBERED:
            self.clear()
        self.update(zip(short, _hash_texts(np.array(short)).tolist(), strict=True))


_REMEMBERED = _TextHashes()


def hash_column(array: npt.NDArray[Any]) -> Codes:
    """Return the hash of each value of a column, as `value_hash` gives it, vectorised."""
    if array.dtype.kind in "iu":
        array = array.astype(np.str_)
    if array.dtype.kind == "U":
        return _hash_texts(array.astype(array.dtype.newbyteorder("="), copy=False))
    cells = array.tolist()
    if set(map(type, cells)) <= {str, NoneType}:
        # Not `set.difference`: of a subclass of dict it would walk through all that is remembered.
        distinct = set(cells)
        new = [text for text in distinct if text not in _REMEMBERED]
        # All of them are short, not only new ones: the array holds all.
        if 2 * len(new) > len(cells) > FEW_TEXTS and _are_short(distinct):
            # Texts that hardly repeat are not worth remembering. Trailing NULs, which an array
            # leaves out, do not change a hash.
            return _hash_texts(np.array(cells, dtype=np.str_))
        _REMEMBERED.learn(new)
        return np.fromiter(map(_REMEMBERED.__getitem__, cells), np.uint32, len(cells))
    return np.fromiter(map(value_hash, cells), np.uint32, len(cells))


def _are_short(texts: Iterable[str | None]) -> bool:
    """Return whether all are texts that are hashed as arrays."""
    return all(text is not None and len(text) <= LONGEST for text in texts)


def _hash_values(values: Sequence[Plain]) -> Codes:
    """Return the hash of each of several canonical values."""
    if set(map(type, values)) <= {str, int}:
        texts = list(map(str, values))
        if max(map(len, texts), default=0) <= LONGEST:
            # The text of a canonical value is never one of a negative zero.
            return _hash_texts(np.array(texts, dtype=np.str_))
    return np.fromiter(map(value_hash, values), np.uint32, len(values))


@cache
def _zero_hashes() -> tuple[int, int]:
    """Return the hash of the text of a negative zero, and that of the value it stands for."""
    return text_hash("-0.0"), value_hash("-0.0")


def _hash_texts(array: npt.NDArray[np.str_]) -> Codes:
    width = array.dtype.itemsize // 4
    factors = _multipliers()
    total = np.full(len(array), factors[LONGEST], dtype=np.uint64)
    if width == 0:
        return (total >> np.uint64(32)).astype(np.uint32)
    points = np.ascontiguousarray(array).view(np.uint32).reshape(len(array), width)
    for place in range(min(width, LONGEST)):
        total += points[:, place] * factors[place]
    found = (total >> np.uint64(32)).astype(np.uint32)
    if width > LONGEST:
        for row in np.flatnonzero(points[:, LONGEST:].any(axis=1)):
            found[row] = text_hash(str(array[row]))
    # The one text that is not its own canonical text (`canonical`).
    written, meant = _zero_hashes()
    zeros = np.flatnonzero(found == written)
    found[zeros[array[zeros] == "-0.0"]] = meant
    return found


class PatternIndex:
    """List the patterns of rows, in a public order."""

    def __init__(self, cls: Causes) -> None:
        self.cls = cls
        self.names = tuple(c.column if isinstance(c, Ranges) else c for c in cls.columns)
        self.ranges = tuple(c if isinstance(c, Ranges) else None for c in cls.columns)
        self._read = tuple(zip(self.names, self.ranges, strict=True))
        self._only_text = not any(self.ranges)
        self.slots: list[int] = []
        # For each slot of ranges, the number of the condition of each cell; 0 is none.
        self._tables: list[Ids | None] = []
        self._conditions: list[list[Condition]] = []
        for place, ranges in enumerate(self.ranges):
            if ranges is None:
                self.slots.append(place)
                self._tables.append(None)
                self._conditions.append([])
                continue
            for table, conditions in _levels(ranges):
                self.slots.append(place)
                self._tables.append(table)
                self._conditions.append(conditions)
        self.forms: list[tuple[int, ...]] = [
            form
            for width in range(1, cls.width + 1)
            for form in combinations(range(len(self.slots)), width)
            if len({self.slots[slot] for slot in form}) == width
        ]

    def codes(self, batch: Batch) -> list[npt.NDArray[Any]]:
        """Return a number for each column and row: the hash of a text, the cell of a number."""
        return [codes if hashes is None else hashes[codes] for codes, hashes in self.coded(batch)]

    def coded(self, batch: Batch) -> list["_Coded"]:
        """Return the numbers of each column; of a coded one, what it holds and the hash of each."""
        return [
            _hashed(batch, name) if ranges is None else _Coded(_cells(batch, ranges), None)
            for name, ranges in self._read
        ]

    def codes_of(self, x: object) -> list[int]:
        """Return the numbers of one row, as `codes` has them."""
        if type(x) is dict and self._only_text:
            # The common case, without a call for each cell.
            try:
                cells = [x[name] for name in self.names]
            except KeyError:
                cells = [value_of(x, name) for name in self.names]
            return [_REMEMBERED[cell] if type(cell) is str else value_hash(cell) for cell in cells]
        return [
            ranges.cell(value_of(x, name))
            if ranges is not None
            else _REMEMBERED[cell]
            if type(cell := value_of(x, name)) is str
            else value_hash(cell)
            for name, ranges in self._read
        ]

    def cells(self, batch: Batch) -> list[list[Any]]:
        """Return each column of some rows exactly: its values, or the cells of its numbers."""
        return [
            column.tolist() if isinstance(column, CodedColumn) else column
            for column in self.exact(batch)
        ]

    def exact(self, batch: Batch) -> list[list[Any] | CodedColumn]:
        """Return each column as `cells` does, but coded columns as they are."""
        found: list[list[Any] | CodedColumn] = [
            coded_column_of(batch, name) or column_of(batch, name).tolist()
            if ranges is None
            else _cells(batch, ranges).tolist()
            for name, ranges in self._read
        ]
        return [*found, column_of(batch, OUTCOME).tolist()] if self.cls.has_outcomes else found

    def cells_of(self, x: object) -> Iterator[object]:
        """Yield the entries of one row, as `cells` has them."""
        for name, ranges in self._read:
            cell = value_of(x, name)
            yield cell if ranges is None else ranges.cell(cell)
        if self.cls.has_outcomes:
            yield value_of(x, OUTCOME)

    def conditions(self, slot: int, values: Sequence[Plain]) -> list[Condition]:
        """Return the conditions of a slot: one for each value of its column, or its ranges."""
        if self._tables[slot] is not None:
            return self._conditions[slot]
        name = self.names[self.slots[slot]]
        return [Condition(name, value) for value in values]

    def table(self, slot: int) -> Ids | None:
        """Return the condition number of each cell of a slot of ranges; None for text."""
        return self._tables[slot]


class _Coded(NamedTuple):
    """Hold a column of numbers: hashes or cells, or codes and the hash of each code."""

    codes: npt.NDArray[Any]
    hashes: Codes | None


def _hashed(batch: Batch, name: str) -> _Coded:
    coded = coded_column_of(batch, name)
    if coded is None:
        return _Coded(hash_column(column_of(batch, name)), None)
    return _Coded(coded.codes, coded.dictionary.map(hash_column))


def _levels(ranges: Ranges) -> Iterable[tuple[Ids, list[Condition]]]:
    """Yield, for each level of the dyadic tree, the condition number of each cell, from 1."""
    cells = ranges.cells
    sizes = Counter(condition for held in ranges.conditions for condition in held)
    by_level: dict[int, dict[Condition, list[int]]] = {}
    for cell, held in enumerate(ranges.conditions):
        for condition in held:
            # Ranges that hold one cell differ in size up to the next power of two: a clipped range
            # of no more than half of its size equals its left half, and is listed once.
            level = (sizes[condition] - 1).bit_length()
            by_level.setdefault(level, {}).setdefault(condition, []).append(cell)
    for level in sorted(by_level):
        table = np.zeros(cells, dtype=np.int64)
        for number, places in enumerate(by_level[level].values(), start=1):
            table[places] = number
        yield table, list(by_level[level])


def _cells(batch: Batch, ranges: Ranges) -> npt.NDArray[np.intp]:
    """Return the cell of each number of a batch."""
    return ranges.cells_of(column_of(batch, ranges.column, "number"))


class Numbering(dict[Any, int]):
    """Number the distinct values of a column in the order in which they occur."""

    def __init__(self, exact: bool) -> None:
        super().__init__()
        self.exact, self.known = exact, list[Plain]()
        self._numbers: dict[Plain, int] = {}
        # The number of each code of a dictionary, -1 where it has none yet.
        self._dictionary: Dictionary | None = None
        self._of_code: Ids = np.zeros(0, dtype=np.int64)

    def __missing__(self, cell: object) -> int:
        number = self._of_value(canonical(cell))
        if type(cell) in _PLAIN_CELLS:
            self[cell] = number
        return number

    def _of_value(self, value: Plain) -> int:
        # Canonical values hold neither truth values nor floats, so equal ones are the same value.
        number = self._numbers.setdefault(value, len(self.known))
        if number == len(self.known):
            self.known.append(value)
        return number

    def of(self, cell: Any) -> int:
        """Return the number of one entry."""
        if self.exact:
            return int(cell)
        # 1, 1.0 and True are equal and are three values: only texts and whole numbers are keys.
        return self[cell] if type(cell) in _PLAIN_CELLS else self.__missing__(cell)

    def all_of(self, cells: list[Any] | CodedColumn) -> list[int] | Ids:
        """Return the number of each entry."""
        if isinstance(cells, CodedColumn):
            return self._all_coded(cells)
        if self.exact:
            return cells
        plain = set(map(type, cells)) <= _PLAIN_CELLS
        return list(map(self.__getitem__ if plain else self.of, cells))

    def _all_coded(self, column: CodedColumn) -> Ids:
        if self._dictionary is not column.dictionary:
            self._dictionary = column.dictionary
            self._of_code = np.full(len(column.dictionary), -1, dtype=np.int64)
        found = self._of_code[column.codes]
        new = np.flatnonzero(found < 0)
        if len(new):
            # In the order in which they occur, as if they came one by one.
            values = column.dictionary.map(_canonical)
            for code in dict.fromkeys(column.codes[new].tolist()):
                self._of_code[code] = self._of_value(values[code])
            found[new] = self._of_code[column.codes[new]]
        return found

    def forget(self) -> None:
        """Begin again."""
        self.clear()
        self._dictionary = None
        self._numbers.clear()
        self.known = []

    def value(self, number: int) -> Plain:
        """Return the value that has a number."""
        return number if self.exact else self.known[number]


_PLAIN_CELLS = {str, int, NoneType}


def _canonical(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return each of several values in canonical form."""
    return objects([canonical(value) for value in values.tolist()])


class _Part(NamedTuple):
    """Hold where rows begin whose numbers are codes of these hashes, or no codes if None."""

    start: int
    hashes: Codes | None


class _Columns:
    """Hold columns of whole numbers of 32 bits that grow at the end."""

    def __init__(self, columns: int) -> None:
        self._array = np.zeros((columns, PAGE), dtype=np.uint32)
        self._rows: list[int] = []
        self._size = 0
        # For each column, where codes of another batch begin.
        self._parts = [[_Part(0, None)] for _ in range(columns)]

    def __len__(self) -> int:
        return self._size + len(self._rows) // len(self._array)

    def add(self, columns: Sequence[Any], count: int) -> None:
        """Add rows, given by columns."""
        self._flush()
        self._reserve(count)
        for place, column in enumerate(columns):
            self._array[place, self._size : self._size + count] = column
        self._size += count

    def add_coded(self, columns: Sequence[_Coded], count: int) -> None:
        """Add rows, some of whose columns are codes that stand for hashes."""
        self._flush()
        for parts, column in zip(self._parts, columns, strict=True):
            # Rows of one batch share their hashes.
            if parts[-1].hashes is not column.hashes:
                parts.append(_Part(self._size, column.hashes))
        self.add([column.codes for column in columns], count)

    def add_one(self, row: Iterable[int]) -> None:
        """Add one row."""
        # Collected first: writing to an array costs as much for one number as for a hundred.
        self._rows.extend(row)

    def parts(self, place: int) -> Iterator[_Coded]:
        """Yield a column in parts: numbers, and the hash of each if they are codes."""
        column = self.array[place]
        for part, after in pairwise([*self._parts[place], _Part(self._size, None)]):
            if part.start < after.start:
                yield _Coded(column[part.start : after.start], part.hashes)

    def numbers(self, rows: slice) -> Codes:
        """Return some rows, a column each, with hashes instead of codes."""
        found = self.array[:, rows].copy()
        start, stop, _ = rows.indices(self._size)
        for place, column in enumerate(found):
            for part, after in pairwise([*self._parts[place], _Part(self._size, None)]):
                some = slice(max(part.start - start, 0), max(min(after.start, stop) - start, 0))
                if part.hashes is not None:
                    column[some] = part.hashes[column[some]]
        return found

    def _flush(self) -> None:
        if self._rows:
            rows = np.array(self._rows, dtype=np.uint32).reshape(-1, len(self._array))
            self._rows = []
            self.add_coded([_Coded(column, None) for column in rows.T], len(rows))

    def _reserve(self, count: int) -> None:
        if self._size + count > self._array.shape[1]:
            # By half: doubling would leave up to as much unused as is used.
            room = max(self._size + count, self._array.shape[1] * 3 // 2)
            grown = np.zeros((len(self._array), room), dtype=np.uint32)
            grown[:, : self._size] = self._array[:, : self._size]
            self._array = grown

    def forget(self) -> None:
        """Drop all rows."""
        # The capacity is kept: streams have epochs of similar lengths.
        self._rows, self._size = [], 0
        self._parts = [[_Part(0, None)] for _ in self._array]

    @property
    def array(self) -> Codes:
        """Return the rows, a column each, as a view."""
        self._flush()
        return self._array[:, : self._size]


class EpochRows:
    """Hold the unmatched rows of an epoch. Private."""

    # There are no votes; the trace of a causes learner shows its mistakes.
    votes: Mapping[Any, int] = {}

    def __init__(self, cls: Causes) -> None:
        self.cls, self.index = cls, PatternIndex(cls)
        self._numbers = [Numbering(ranges is not None) for ranges in self.index.ranges]
        if cls.has_outcomes:
            self._numbers.append(Numbering(exact=False))
        self._positives = _Columns(len(self._numbers))
        self._negatives = _Columns(len(self.index.names))
        self._saved, self._cleared = [0, 0], True

    def __repr__(self) -> str:
        return f"EpochRows({self.cls!r}, private)"

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return len(self._positives) + len(self._negatives)

    def add(self, batch: Batch, labels: Mask, unmatched: Mask) -> None:
        """Add the rows of a batch that no published cause matches."""
        positive = np.flatnonzero(labels & unmatched)
        self._number(self.index.exact(part_of(batch, positive)), len(positive))
        negative = np.flatnonzero(unmatched & ~labels)
        columns = self.index.coded(batch)
        if len(negative) < len(labels):
            columns = [_Coded(codes[negative], hashes) for codes, hashes in columns]
        self._negatives.add_coded(columns, len(negative))

    def add_one(self, x: object, label: bool) -> None:
        """Add one row that no published cause matches, as `add` would."""
        if not label:
            self._negatives.add_one(self.index.codes_of(x))
            return
        cells = zip(self._numbers, self.index.cells_of(x), strict=True)
        self._positives.add_one(numbers.of(cell) for numbers, cell in cells)

    def _number(self, cells: Sequence[list[Any] | CodedColumn], count: int) -> None:
        """Add positive rows, given by the values and cells of each column."""
        if count:
            columns = zip(self._numbers, cells, strict=True)
            self._positives.add([numbers.all_of(some) for numbers, some in columns], count)

    def add_coded(self, codes: Codes, labels: Mask, positives: list[tuple[Plain, ...]]) -> None:
        """Add rows that were coded where they are, as `add` would."""
        self._number([list(column) for column in zip(*positives, strict=True)], len(positives))
        rows = [_Coded(column, None) for column in codes[:, ~labels]]
        self._negatives.add_coded(rows, int((~labels).sum()))

    def clear(self) -> None:
        """Forget all rows: an epoch has ended."""
        for rows in (self._positives, self._negatives):
            rows.forget()
        for numbers in self._numbers:
            numbers.forget()
        self._saved, self._cleared = [0, 0], True

    def gains(
        self, *, units: int, alarm: int
    ) -> tuple[Counts, npt.NDArray[np.intp], "PatternKeys"]:
        """Return the gain of every active pattern, its prior class, and the patterns."""
        index, slots = self.index, list(self._slots())
        outcomes = self._numbers[-1].known if self.cls.has_outcomes else []
        # A key is a pattern and an outcome: the outcome is one more number of it.
        ids = [self._positives.array[-1].astype(np.int64) + 1] if self.cls.has_outcomes else []
        gains, classes, forms, keys = [], [], [], []
        for number, form in enumerate(index.forms):
            some = [slots[slot] for slot in form]
            found, positives = _distinct(
                [*(s.positives for s in some), *ids],
                [*(s.size for s in some), *[len(outcomes)] * len(ids)],
            )
            if not len(found):
                continue
            # A normal row speaks against its patterns whatever their outcome.
            negatives = _count_negatives(found, some)
            gains.append(units * positives - alarm * negatives)
            classes.append(np.full(len(found), len(form) - 1, dtype=np.intp))
            forms.append(np.full(len(found), number, dtype=np.int64))
            keys.append(found)
        values = [self._numbers[place].known for place in index.slots]
        patterns = PatternKeys(index, values, forms, keys, outcomes)
        if not gains:
            return np.zeros(0, np.int64), np.zeros(0, np.intp), patterns
        return np.concatenate(gains), np.concatenate(classes), patterns

    def _slots(self) -> Iterator["_Slot"]:
        """Yield the conditions of all rows, slot by slot."""
        positives = self._positives.array
        for slot, place in enumerate(self.index.slots):
            table, values = self.index.table(slot), self._numbers[place].known
            negatives = list(self._negatives.parts(place))
            if table is not None:
                # Cells are exact: a condition has the same number in negative rows.
                size = len(self.index.conditions(slot, values))
                rows = _Groups([_Grouped(part.codes, table) for part in negatives])
                yield _Slot(table[positives[place]], size, rows, np.arange(size + 1), size)
                continue
            # By hash, not by condition: two conditions of one hash both read its negatives.
            some, of_condition = np.unique(_hash_values(values), return_inverse=True)
            yield _Slot(
                positives[place].astype(np.int64) + 1,
                len(values),
                _Groups([_grouped(part, some) for part in negatives]),
                np.concatenate([[0], of_condition + 1]).astype(np.int64),
                len(some),
            )

    def get_state(self) -> StateData:
        """Return what is not in parts."""
        return {"positives": len(self._positives), "negatives": len(self._negatives)}

    def unsaved(self) -> ChangedState:
        """Return the pages of rows that are new since the last call."""
        sizes = [len(self._positives), len(self._negatives)]
        # Even parts are pages of positive rows, odd ones of negative rows.
        parts = {
            2 * page + kind: self._page(kind, page)
            for kind, (saved, size) in enumerate(zip(self._saved, sizes, strict=True))
            for page in range(saved // PAGE, -(-size // PAGE))
        }
        changed = ChangedState(self._cleared, parts)
        self._saved, self._cleared = sizes, False
        return changed

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load a saved state. Only called on a fresh object."""
        for page in range(-(-live["positives"] // PAGE)):
            rows = json.loads(parts[2 * page])
            cells = [[from_json(value) for value in column] for column in zip(*rows, strict=True)]
            self._number(cells, len(rows))
        for page in range(-(-live["negatives"] // PAGE)):
            codes = np.frombuffer(parts[2 * page + 1], "<u4").reshape(len(self.index.names), -1)
            self._negatives.add_coded([_Coded(column, None) for column in codes], codes.shape[1])
        self._saved, self._cleared = [len(self._positives), len(self._negatives)], False

    def _page(self, kind: int, page: int) -> bytes:
        rows = slice(page * PAGE, (page + 1) * PAGE)
        if kind:
            return self._negatives.numbers(rows).astype("<u4").tobytes()
        exact = zip(self._numbers, self._positives.array[:, rows].tolist(), strict=True)
        columns = [[to_json(numbers.value(n)) for n in column] for numbers, column in exact]
        return json.dumps(list(zip(*columns, strict=True))).encode()


class PatternKeys:
    """Return the bytes of active patterns by their index, made when asked for."""

    def __init__(
        self,
        index: PatternIndex,
        values: list[list[Plain]],
        forms: list[Ids],
        keys: list[Ids],
        outcomes: Sequence[Plain] = (),
    ) -> None:
        self._index, self._values, self._forms, self._keys = index, values, forms, keys
        self._outcomes = outcomes

    def cause(self, place: int) -> Cause:
        """Return a pattern, as a cause."""
        for forms, keys in zip(self._forms, self._keys, strict=True):
            if place < len(forms):
                slots = self._index.forms[int(forms[place])]
                numbers = keys[place].tolist()
                outcome = self._outcomes[numbers.pop() - 1] if self._outcomes else None
                chosen = zip(slots, numbers, strict=True)
                conditions = tuple(self._condition(slot, number - 1) for slot, number in chosen)
                return Cause(conditions, outcome)
            place -= len(forms)
        raise IndexError(place)

    def _condition(self, slot: int, number: int) -> Condition:
        if self._index.table(slot) is not None:
            return self._index.conditions(slot, ())[number]
        return self._index.conditions(slot, self._values[slot][number : number + 1])[0]

    def __call__(self, place: int) -> bytes:
        return self.cause(place).key


class _Grouped(NamedTuple):
    """Hold the groups of some negative rows: of each, or of each of their codes."""

    rows: npt.NDArray[Any]
    of_code: Ids | None


def _grouped(part: _Coded, hashes: Codes) -> _Grouped:
    """Return the groups of rows: the places of their hashes among the wanted ones, from 1."""
    if part.hashes is None:
        return _Grouped(_places(part.codes, hashes), None)
    return _Grouped(part.codes, _places(part.hashes, hashes))


class _Groups:
    """Hold the groups of all negative rows."""

    def __init__(self, parts: list[_Grouped]) -> None:
        self._parts = parts

    @cached_property
    def rows(self) -> Ids:
        """Return the group of each row."""
        parts = [rows if of_code is None else of_code[rows] for rows, of_code in self._parts]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    @cached_property
    def are_few(self) -> bool:
        """Return whether few rows are in a group."""
        return bool(4 * np.count_nonzero(self.rows) < len(self.rows))

    def counts(self, groups: int) -> Counts:
        """Return how many rows are in each of so many groups, and first in none."""
        found = np.zeros(groups + 1, dtype=np.int64)
        for rows, of_code in self._parts:
            if of_code is None:
                found += np.bincount(rows, minlength=len(found))
            else:
                # Codes are counted, and not their groups: rows need not be looked up.
                np.add.at(found, of_code, np.bincount(rows, minlength=len(of_code)))
        return found


class _Slot(NamedTuple):
    """Hold the conditions of all rows in one slot, by number from 1; 0 is none."""

    positives: Ids
    size: int
    negatives: _Groups
    group_of: Ids
    groups: int


def _distinct(ids: list[Ids], sizes: list[int]) -> tuple[Ids, Counts]:
    """Return the distinct rows of numbers without a 0, in order, and how often each occurs."""
    if prod(size + 1 for size in sizes) > LARGEST_NUMBER:
        rows = np.stack(ids, axis=1)
        found, counts = np.unique(rows[(rows > 0).all(axis=1)], axis=0, return_counts=True)
        return found, counts.astype(np.int64)
    listed = np.logical_and.reduce([some > 0 for some in ids])
    numbers = np.zeros(len(listed), dtype=np.int64)
    for some, size in zip(ids, sizes, strict=True):
        numbers = numbers * (size + 1) + some
    keys, counts = np.unique(numbers[listed], return_counts=True)
    columns = []
    for size in reversed(sizes):
        keys, column = np.divmod(keys, size + 1)
        columns.append(column)
    return np.stack(columns[::-1], axis=1), counts.astype(np.int64)


def _count_negatives(keys: Ids, slots: list[_Slot]) -> Counts:
    """Return how many negative rows are in the groups of each key."""
    if len(slots) == 1:
        return slots[0].negatives.counts(slots[0].groups)[slots[0].group_of[keys[:, 0]]]
    kept: npt.NDArray[np.intp] | None = None
    rows = wanted = np.zeros(1, dtype=np.int64)
    size = 1
    for place, slot in enumerate(slots):
        if size * (slot.groups + 1) > LARGEST_TABLE and size > len(keys) + 1:
            # Only prefixes of wanted keys are kept: numbers stay small, and never overflow.
            some, wanted = np.unique(wanted, return_inverse=True)
            rows, wanted, size = _places(rows, some), wanted + 1, len(some) + 1
        more = slot.negatives.rows if kept is None else slot.negatives.rows[kept]
        if slot.negatives.are_few:
            # Rows without a group count for keys with a 0, which nothing wants.
            present = np.flatnonzero(more)
            kept = present if kept is None else kept[present]
            rows, more = rows if place == 0 else rows[present], more[present]
        rows = rows * (slot.groups + 1) + more
        wanted = wanted * (slot.groups + 1) + slot.group_of[keys[:, place]]
        size *= slot.groups + 1
    if size > LARGEST_TABLE:
        some, wanted = np.unique(wanted, return_inverse=True)
        rows, wanted, size = _places(rows, some), wanted + 1, len(some) + 1
    return np.asarray(np.bincount(rows, minlength=size)[wanted], dtype=np.int64)


def _places(rows: npt.NDArray[Any], keys: npt.NDArray[Any], attempt: int = 0) -> Ids:
    """Return for each row the place of its number among distinct keys, from 1; 0 if it is none."""
    if not len(keys):
        return np.zeros(len(rows), dtype=np.int64)
    if attempt == len(MIXERS):
        nearest = np.minimum(np.searchsorted(keys, rows), len(keys) - 1)
        return np.where(keys[nearest] == rows, nearest + 1, 0)
    # A table indexed by the leading bits of a product. Keys that lose their place to another one
    # are looked up in a second table.
    bits = (PLACES * len(keys)).bit_length()
    numbers = np.arange(1, len(keys) + 1, dtype=np.int32)
    table = np.zeros(1 << bits, dtype=np.int32)
    table[_leading(keys, bits, attempt)] = numbers
    held = table[_leading(rows, bits, attempt)]
    found = held * (np.concatenate([keys[:1], keys])[held] == rows)
    lost = np.flatnonzero(table[_leading(keys, bits, attempt)] != numbers)
    if len(lost):
        again = _places(rows, keys[lost], attempt + 1)
        found = np.where(again > 0, np.concatenate([[0], lost + 1])[again], found)
    return np.asarray(found, dtype=np.int64)


def _leading(numbers: npt.NDArray[Any], bits: int, attempt: int) -> npt.NDArray[np.uint64]:
    """Return the leading bits of numbers, mixed."""
    mixed = numbers.astype(np.uint64)
    mixed *= np.uint64(MIXERS[attempt])
    mixed >>= np.uint64(64 - bits)
    return mixed
