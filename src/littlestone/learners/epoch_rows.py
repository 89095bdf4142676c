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
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.classes.causes import Causes, Ranges
from littlestone.hypotheses.causes import Cause, Condition
from littlestone.hypotheses.rows import Batch, column_of
from littlestone.hypotheses.values import Mask, Plain, canonical, encode, from_json, to_json
from littlestone.learners.base import ChangedState, StateData
from littlestone.privacy.causes import Counts

Codes = npt.NDArray[np.uint32]
Ids = npt.NDArray[np.int64]

# Text of at most so many characters is hashed as arrays, longer text one by one.
LONGEST = 64
# Hashes of texts that are remembered, for arrays of objects.
MOST_REMEMBERED = 1 << 18
# Rows that are saved together.
PAGE = 1024
# A key that a table of this size holds is found by indexing, others by a search.
LARGEST_TABLE = 1 << 22


@cache
def _multipliers() -> npt.NDArray[np.uint64]:
    """Return the public constants of the hash: the same in every version, as stores keep hashes."""
    digests = (blake2b(f"littlestone text {n}".encode(), digest_size=8) for n in range(LONGEST + 1))
    return np.array([int.from_bytes(digest.digest()) | 1 for digest in digests], dtype=np.uint64)


def text_hash(text: str) -> int:
    """Return a hash of 32 bits of a text: multilinear, so equal for padded and unpadded text.

    >>> text_hash("4.2.1") == int(hash_column(np.array(["4.2.1", "a longer text"]))[0])
    True
    """
    if len(text) > LONGEST:
        digest = blake2b(text.encode("utf-32-le", "surrogatepass"), digest_size=4)
        return int.from_bytes(digest.digest())
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    factors = _multipliers()
    total = int(factors[LONGEST]) + int((points * factors[: len(points)]).sum(dtype=np.uint64))
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
        self[text] = found = 0 if text is None else text_hash(text)
        return found


_REMEMBERED = _TextHashes()


def hash_column(array: npt.NDArray[Any]) -> Codes:
    """Return the hash of each value of a column, as `value_hash` gives it, vectorised."""
    if array.dtype.kind in "iu":
        array = array.astype(np.str_)
    if array.dtype.kind == "U":
        return _hash_texts(array.astype(array.dtype.newbyteorder("="), copy=False))
    cells = array.tolist()
    if set(map(type, cells)) <= {str, type(None)}:
        return np.fromiter(map(_REMEMBERED.__getitem__, cells), np.uint32, len(cells))
    return np.fromiter(map(value_hash, cells), np.uint32, len(cells))


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

    def codes(self, batch: Batch) -> Codes:
        """Return a number for each column and row: the hash of a text, the cell of a number."""
        rows = [
            hash_column(column_of(batch, name)) if ranges is None else _cells(batch, ranges)
            for name, ranges in zip(self.names, self.ranges, strict=True)
        ]
        return np.array(rows, dtype=np.uint32)

    def values(self, batch: Batch, rows: Ids) -> list[tuple[Plain, ...]]:
        """Return some rows exactly: canonical values, and cells of numbers."""
        columns = [
            [canonical(value) for value in column_of(batch, name)[rows].tolist()]
            if ranges is None
            else _cells(batch, ranges)[rows].tolist()
            for name, ranges in zip(self.names, self.ranges, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def slot_ids(self, slot: int, exact: Sequence[Plain]) -> tuple[Ids, Codes, list[Condition]]:
        """Return numbers for the conditions of positive rows in a slot.

        The number of each row's condition from 1 (0 is none), the code of each condition and the
        conditions, by number less 1.

        Parameters
        ----------
        slot : int
            The slot.
        exact : sequence of Plain
            The exact values of the slot's column.
        """
        table = self._tables[slot]
        if table is not None:
            # Cells are exact already; a condition's own number stands for it in negative rows too.
            ids = table[np.array(exact, dtype=np.int64)] if len(exact) else np.zeros(0, np.int64)
            codes = np.arange(1, len(self._conditions[slot]) + 1, dtype=np.uint32)
            return ids, codes, self._conditions[slot]
        numbers: dict[bytes, int] = {}
        values: list[Plain] = []
        ids = np.zeros(len(exact), dtype=np.int64)
        for row, value in enumerate(exact):
            key = encode(value)
            if key not in numbers:
                numbers[key] = len(numbers) + 1
                values.append(value)
            ids[row] = numbers[key]
        name = self.names[self.slots[slot]]
        codes = np.array([value_hash(value) for value in values], dtype=np.uint32)
        return ids, codes, [Condition(name, value) for value in values]

    def slot_codes(self, slot: int, codes: Codes) -> npt.NDArray[Any]:
        """Return the codes of a slot for rows, from the codes of its column; 0 is none."""
        table = self._tables[slot]
        return codes if table is None else table[codes]


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
        self._codes = np.zeros((len(self.index.names), PAGE), dtype=np.uint32)
        self._labels = np.zeros(PAGE, dtype=bool)
        self._positives: list[tuple[Plain, ...]] = []
        self.size, self._saved, self._cleared = 0, 0, True

    def __repr__(self) -> str:
        return f"EpochRows({self.cls!r}, private)"

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
        codes = self.index.codes(batch)
        if not unmatched.all():
            codes = codes[:, unmatched]
        positives = self.index.values(batch, np.flatnonzero(labels & unmatched))
        self._append(codes, labels[unmatched], positives)

    def add_coded(self, codes: Codes, labels: Mask, positives: list[tuple[Plain, ...]]) -> None:
        """Add rows that were coded where they are, as `add` would.

        Parameters
        ----------
        codes : Codes
            The codes of the rows: a row for each column.
        labels : Mask
            Their labels.
        positives : list of tuple
            The exact values of the positive ones.
        """
        self._append(codes, labels, positives)

    def _append(self, codes: Codes, labels: Mask, positives: list[tuple[Plain, ...]]) -> None:
        end = self.size + len(labels)
        if end > len(self._labels):
            room = max(end, 2 * len(self._labels))
            grown = np.zeros((len(self._codes), room), dtype=np.uint32)
            grown[:, : self.size] = self._codes[:, : self.size]
            self._codes = grown
            self._labels = np.resize(self._labels, room)
        self._codes[:, self.size : end], self._labels[self.size : end] = codes, labels
        self._positives += positives
        self.size = end

    def clear(self) -> None:
        """Forget all rows: an epoch has ended."""
        # A new object would keep its capacity too: streams have epochs of similar lengths.
        self._positives, self.size, self._saved, self._cleared = [], 0, 0, True

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
        index, labels = self.index, self._labels[: self.size]
        positive_slots = [
            index.slot_ids(slot, [row[place] for row in self._positives])
            for slot, place in enumerate(index.slots)
        ]
        negative_codes = self._codes[:, : self.size][:, ~labels]
        hashed = [
            _hash_ids(
                index.slot_codes(slot, negative_codes[place]),
                positive_slots[slot][1],
            )
            for slot, place in enumerate(index.slots)
        ]
        gains, classes, forms, keys = [], [], [], []
        for number, form in enumerate(index.forms):
            found, positives = _distinct([positive_slots[slot][0] for slot in form])
            if not len(found):
                continue
            negatives = _negatives(found, [hashed[slot] for slot in form])
            gains.append(units * positives - alarm * negatives)
            classes.append(np.full(len(found), len(form) - 1, dtype=np.intp))
            forms.append(np.full(len(found), number, dtype=np.int64))
            keys.append(found)
        patterns = PatternKeys(index, [slot[2] for slot in positive_slots], forms, keys)
        if not gains:
            return np.zeros(0, np.int64), np.zeros(0, np.intp), patterns
        return np.concatenate(gains), np.concatenate(classes), patterns

    def get_state(self) -> StateData:
        """Return what is not in parts."""
        return {"size": self.size}

    def unsaved(self) -> ChangedState:
        """Return the pages of rows that are new since the last call."""
        first = 0 if self._cleared else self._saved // PAGE
        parts = {page: self._page(page) for page in range(first, -(-self.size // PAGE))}
        changed = ChangedState(self._cleared, parts)
        self._saved, self._cleared = self.size, False
        return changed

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load a saved state. Only called on a fresh object."""
        for page in range(-(-live["size"] // PAGE)):
            count, codes, labels, positives = _read_page(parts[page], len(self._codes))
            self._append(codes, labels, positives)
            assert count == len(labels)
        self._saved, self._cleared = self.size, False

    def _page(self, page: int) -> bytes:
        rows = slice(page * PAGE, min((page + 1) * PAGE, self.size))
        before = int(self._labels[: rows.start].sum())
        labels = self._labels[rows]
        positives = self._positives[before : before + int(labels.sum())]
        head = json.dumps([[to_json(value) for value in row] for row in positives]).encode()
        count = len(labels).to_bytes(4) + len(head).to_bytes(8)
        return count + head + np.packbits(labels).tobytes() + self._codes[:, rows].tobytes()


def _read_page(page: bytes, columns: int) -> tuple[int, Codes, Mask, list[tuple[Plain, ...]]]:
    count, head = int.from_bytes(page[:4]), int.from_bytes(page[4:12])
    positives = [
        tuple(from_json(value) for value in row) for row in json.loads(page[12 : 12 + head])
    ]
    packed = -(-count // 8)
    at = 12 + head
    labels = np.unpackbits(np.frombuffer(page[at : at + packed], np.uint8), count=count)
    codes = np.frombuffer(page[at + packed :], np.uint32).reshape(columns, count)
    return count, codes, labels.astype(bool), positives


class PatternKeys:
    """Return the bytes of active patterns by their index, made when asked for.

    Parameters
    ----------
    index : PatternIndex
        The slots and forms.
    conditions : list
        The conditions of each slot, by number less 1.
    forms : list of numpy.ndarray
        The form of each pattern, in parts.
    keys : list of numpy.ndarray
        The condition numbers of each pattern, a row each, in the same parts.
    """

    def __init__(
        self,
        index: PatternIndex,
        conditions: list[list[Condition]],
        forms: list[Ids],
        keys: list[Ids],
    ) -> None:
        self._index, self._conditions, self._forms, self._keys = index, conditions, forms, keys

    def cause(self, place: int) -> Cause:
        """Return a pattern, as a cause."""
        for forms, keys in zip(self._forms, self._keys, strict=True):
            if place < len(forms):
                slots = self._index.forms[int(forms[place])]
                numbers = keys[place].tolist()
                chosen = zip(slots, numbers, strict=True)
                return Cause(tuple(self._conditions[slot][number - 1] for slot, number in chosen))
            place -= len(forms)
        raise IndexError(place)

    def __call__(self, place: int) -> bytes:
        return self.cause(place).key


class _Hashed:
    """Number rows of negatives by the code of a slot, for the codes of positive rows only.

    Parameters
    ----------
    ids : numpy.ndarray
        The number of each negative row's code from 1; 0 is a code of no positive row.
    of_key : numpy.ndarray
        The number of the code of each condition of positive rows, by condition number less 1.
    size : int
        How many different codes there are.
    """

    def __init__(self, ids: Ids, of_key: Ids, size: int) -> None:
        self.ids, self.of_key, self.size = ids, of_key, size


def _hash_ids(codes: npt.NDArray[Any], wanted: Codes) -> _Hashed:
    """Return the number of each row's code among those of positive rows."""
    # By code, not by condition: two conditions of one code both read its negatives.
    some, of_key = np.unique(wanted, return_inverse=True)
    if not len(some):
        return _Hashed(np.zeros(len(codes), np.int64), np.zeros(0, np.int64), 0)
    nearest = np.minimum(np.searchsorted(some, codes), len(some) - 1)
    ids = np.where(some[nearest] == codes, nearest + 1, 0)
    return _Hashed(ids, of_key + 1, len(some))


def _distinct(ids: list[Ids]) -> tuple[Ids, Counts]:
    """Return the distinct rows of numbers without a 0, in order, and how often each occurs."""
    rows = np.stack(ids, axis=1)
    rows = rows[(rows > 0).all(axis=1)]
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    found, counts = np.unique(rows, axis=0, return_counts=True)
    return found, counts.astype(np.int64)


def _negatives(keys: Ids, hashed: list[_Hashed]) -> Counts:
    """Return how many negative rows have the codes of each key."""
    combined = np.zeros(len(hashed[0].ids), dtype=np.int64)
    listed = np.ones(len(combined), dtype=bool)
    wanted = np.zeros(len(keys), dtype=np.int64)
    size = 1
    for place, slot in enumerate(hashed):
        combined = combined * (slot.size + 1) + slot.ids
        listed &= slot.ids > 0
        wanted = wanted * (slot.size + 1) + slot.of_key[keys[:, place] - 1]
        size *= slot.size + 1
    if size <= LARGEST_TABLE:
        counts = np.bincount(combined[listed], minlength=size)
        return np.asarray(counts[wanted], dtype=np.int64)
    some, inverse = np.unique(wanted, return_inverse=True)
    combined = combined[listed]
    nearest = np.minimum(np.searchsorted(some, combined), len(some) - 1)
    hits = nearest[some[nearest] == combined]
    return np.asarray(np.bincount(hits, minlength=len(some))[inverse], dtype=np.int64)
