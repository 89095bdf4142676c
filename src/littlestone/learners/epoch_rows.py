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
from functools import cache
from hashlib import blake2b
from itertools import combinations
from math import prod
from operator import mul
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone.classes.causes import Causes, Ranges
from littlestone.hypotheses.causes import OUTCOME, Cause, Condition
from littlestone.hypotheses.rows import Batch, column_of, part_of, value_of
from littlestone.hypotheses.values import Mask, Plain, canonical, encode, from_json, to_json
from littlestone.learners.base import ChangedState, StateData
from littlestone.privacy.causes import Counts

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
    """Return a hash of 32 bits of a text: multilinear, so equal for padded and unpadded text.

    >>> text_hash("4.2.1") == int(hash_column(np.array(["4.2.1", "a longer text"]))[0])
    True
    """
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
        _REMEMBERED.learn([text for text in set(cells) if text not in _REMEMBERED])
        return np.fromiter(map(_REMEMBERED.__getitem__, cells), np.uint32, len(cells))
    return np.fromiter(map(value_hash, cells), np.uint32, len(cells))


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
    """List the patterns of rows, in a public order.

    A column of text has one condition for each row; a column of ranges has one for each level of
    its dyadic tree. A *slot* is a column and a level, a *form* is a choice of slots of different
    columns: a row lists at most one pattern of each form.

    Parameters
    ----------
    cls : Causes
        The class.
    """

    def __init__(self, cls: Causes) -> None:
        self.cls = cls
        self.names = tuple(c.column if isinstance(c, Ranges) else c for c in cls.columns)
        self.ranges = tuple(c if isinstance(c, Ranges) else None for c in cls.columns)
        self._read = tuple(zip(self.names, self.ranges, strict=True))
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
        return [
            hash_column(column_of(batch, name)) if ranges is None else _cells(batch, ranges)
            for name, ranges in zip(self.names, self.ranges, strict=True)
        ]

    def codes_of(self, x: object) -> list[int]:
        """Return the numbers of one row, as `codes` has them."""
        return [
            ranges.cell(value_of(x, name))
            if ranges is not None
            else _REMEMBERED[cell]
            if type(cell := value_of(x, name)) is str
            else value_hash(cell)
            for name, ranges in self._read
        ]

    def cells(self, batch: Batch) -> list[list[Any]]:
        """Return each column of some rows exactly: its values, or the cells of its numbers.

        Where rows have outcomes these are the last column: an outcome is part of all keys of a row.
        """
        found = [
            column_of(batch, name).tolist() if ranges is None else _cells(batch, ranges).tolist()
            for name, ranges in zip(self.names, self.ranges, strict=True)
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
    """Number the distinct values of a column in the order in which they occur.

    Parameters
    ----------
    exact : bool
        Whether entries are cells of numbers, which are their own numbers.
    """

    def __init__(self, exact: bool) -> None:
        super().__init__()
        self.exact, self.known = exact, list[Plain]()
        self._numbers: dict[Plain, int] = {}

    def __missing__(self, cell: object) -> int:
        # Canonical values hold neither truth values nor floats, so equal ones are the same value.
        value = canonical(cell)
        number = self._numbers.setdefault(value, len(self.known))
        if number == len(self.known):
            self.known.append(value)
        if type(cell) in _PLAIN_CELLS:
            self[cell] = number
        return number

    def of(self, cell: Any) -> int:
        """Return the number of one entry."""
        if self.exact:
            return int(cell)
        # 1, 1.0 and True are equal and are three values: only texts and whole numbers are keys.
        return self[cell] if type(cell) in _PLAIN_CELLS else self.__missing__(cell)

    def all_of(self, cells: list[Any]) -> list[int]:
        """Return the number of each entry."""
        if self.exact:
            return cells
        plain = set(map(type, cells)) <= _PLAIN_CELLS
        return list(map(self.__getitem__ if plain else self.of, cells))

    def forget(self) -> None:
        """Begin again."""
        self.clear()
        self._numbers.clear()
        self.known = []

    def value(self, number: int) -> Plain:
        """Return the value that has a number."""
        return number if self.exact else self.known[number]


_PLAIN_CELLS = {str, int, NoneType}


class _Columns:
    """Hold columns of whole numbers of 32 bits that grow at the end."""

    def __init__(self, columns: int) -> None:
        self._array = np.zeros((columns, PAGE), dtype=np.uint32)
        self._rows: list[int] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size + len(self._rows) // len(self._array)

    def add(self, columns: Sequence[Any], count: int) -> None:
        """Add rows, given by columns."""
        self._flush()
        self._reserve(count)
        for place, column in enumerate(columns):
            self._array[place, self._size : self._size + count] = column
        self._size += count

    def add_one(self, row: Iterable[int]) -> None:
        """Add one row."""
        # Collected first: writing to an array costs as much for one number as for a hundred.
        self._rows.extend(row)

    def _flush(self) -> None:
        if self._rows:
            rows = np.array(self._rows, dtype=np.uint32).reshape(-1, len(self._array))
            self._rows = []
            self.add(list(rows.T), len(rows))

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

    @property
    def array(self) -> Codes:
        """Return the rows, a column each, as a view."""
        self._flush()
        return self._array[:, : self._size]


class EpochRows:
    """Hold the unmatched rows of an epoch. Private.

    Parameters
    ----------
    cls : Causes
        The class.
    """

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
        """Add the rows of a batch that no published cause matches.

        Parameters
        ----------
        batch : Batch
            The examples.
        labels : Mask
            Their labels.
        unmatched : Mask
            Which of them are added.
        """
        positive = np.flatnonzero(labels & unmatched)
        self._number(self.index.cells(part_of(batch, positive)), len(positive))
        negative = np.flatnonzero(unmatched & ~labels)
        codes = self.index.codes(batch)
        if len(negative) < len(labels):
            codes = [column[negative] for column in codes]
        self._negatives.add(codes, len(negative))

    def add_one(self, x: object, label: bool) -> None:
        """Add one row that no published cause matches, as `add` would.

        Parameters
        ----------
        x : object
            The row.
        label : bool
            Its label.
        """
        if not label:
            self._negatives.add_one(self.index.codes_of(x))
            return
        cells = zip(self._numbers, self.index.cells_of(x), strict=True)
        self._positives.add_one(numbers.of(cell) for numbers, cell in cells)

    def _number(self, cells: list[list[Any]], count: int) -> None:
        """Add positive rows, given by the values and cells of each column."""
        if count:
            columns = zip(self._numbers, cells, strict=True)
            self._positives.add([numbers.all_of(some) for numbers, some in columns], count)

    def add_coded(self, codes: Codes, labels: Mask, positives: list[tuple[Plain, ...]]) -> None:
        """Add rows that were coded where they are, as `add` would.

        Parameters
        ----------
        codes : Codes
            The codes of the rows: a row for each column.
        labels : Mask
            Their labels.
        positives : list of tuple
            The exact entries of the positive ones.
        """
        self._number([list(column) for column in zip(*positives, strict=True)], len(positives))
        self._negatives.add(list(codes[:, ~labels]), int((~labels).sum()))

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
        """Return the gain of every active pattern, its prior class, and the patterns.

        Parameters
        ----------
        units : int
            The units of a missed positive.
        alarm : int
            The units of a false alarm.
        """
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
        positives, negatives = self._positives.array, self._negatives.array
        for slot, place in enumerate(self.index.slots):
            table, values = self.index.table(slot), self._numbers[place].known
            if table is not None:
                # Cells are exact: a condition has the same number in negative rows.
                size = len(self.index.conditions(slot, values))
                ids = table[positives[place]]
                yield _Slot(ids, size, table[negatives[place]], np.arange(size + 1), size)
                continue
            hashes = _hash_values(values)
            # By hash, not by condition: two conditions of one hash both read its negatives.
            some, of_condition = np.unique(hashes, return_inverse=True)
            yield _Slot(
                positives[place].astype(np.int64) + 1,
                len(values),
                _places(negatives[place], some),
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
            self._negatives.add(list(codes), codes.shape[1])
        self._saved, self._cleared = [len(self._positives), len(self._negatives)], False

    def _page(self, kind: int, page: int) -> bytes:
        rows = slice(page * PAGE, (page + 1) * PAGE)
        if kind:
            return self._negatives.array[:, rows].astype("<u4").tobytes()
        exact = zip(self._numbers, self._positives.array[:, rows].tolist(), strict=True)
        columns = [[to_json(numbers.value(n)) for n in column] for numbers, column in exact]
        return json.dumps(list(zip(*columns, strict=True))).encode()


class PatternKeys:
    """Return the bytes of active patterns by their index, made when asked for.

    Parameters
    ----------
    index : PatternIndex
        The slots and forms.
    values : list
        The values of each slot's column, by condition number less 1; not read for ranges.
    forms : list of numpy.ndarray
        The form of each pattern, in parts.
    keys : list of numpy.ndarray
        The condition numbers of each pattern, a row each, in the same parts; where there are
        outcomes, the number of its outcome is the last one.
    outcomes : list
        The outcomes, by number less 1; empty if rows have none.
    """

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


class _Slot(NamedTuple):
    """Hold the conditions of all rows in one slot, by number from 1; 0 is none.

    Parameters
    ----------
    positives : numpy.ndarray
        The condition of each positive row.
    size : int
        The number of conditions.
    negatives : numpy.ndarray
        The group of each negative row: conditions of one hash are one group.
    group_of : numpy.ndarray
        The group of each condition.
    groups : int
        The number of groups.
    """

    positives: Ids
    size: int
    negatives: Ids
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
    rows, wanted = slots[0].negatives, slots[0].group_of[keys[:, 0]]
    size = slots[0].groups + 1
    for place, slot in enumerate(slots[1:], start=1):
        if size * (slot.groups + 1) > LARGEST_TABLE and size > len(keys) + 1:
            # Only prefixes of wanted keys are kept: numbers stay small, and never overflow.
            some, wanted = np.unique(wanted, return_inverse=True)
            rows, wanted, size = _places(rows, some), wanted + 1, len(some) + 1
        rows = rows * (slot.groups + 1) + slot.negatives
        wanted = wanted * (slot.groups + 1) + slot.group_of[keys[:, place]]
        size *= slot.groups + 1
    if size > LARGEST_TABLE:
        some, wanted = np.unique(wanted, return_inverse=True)
        rows, wanted, size = _places(rows, some), wanted + 1, len(some) + 1
    # Rows without a group count for keys with a 0, which nothing wants.
    return np.asarray(np.bincount(rows, minlength=size)[wanted], dtype=np.int64)


def _places(rows: npt.NDArray[Any], keys: npt.NDArray[Any], attempt: int = 0) -> Ids:
    """Return for each row the place of its number among distinct keys, from 1; 0 if it is none.

    Parameters
    ----------
    rows : numpy.ndarray
        Whole numbers, at least 0.
    keys : numpy.ndarray
        What to look for, sorted.
    attempt : int
        How many attempts were made to place all keys in a table.
    """
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
