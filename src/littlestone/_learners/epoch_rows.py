"""Keep the rows of an epoch compactly, and count the rows that list each pattern.

A row lists *patterns*: every and of at most `width` conditions that hold for it. At a firing the
learner needs, for each pattern of an unmatched positive row, how many unmatched positive and
negative rows of the epoch list it. Rows are kept and counted at a firing only, and only patterns of
positive rows are counted: all others are no candidates.

Positive rows are kept exactly. Of negative rows each value is kept as a hash of 32 bits, a function
of that value alone: values that share a hash share their negatives. Every key reads the negatives
of its hash, whatever other keys there are, so what a negative row does is still a function of that
row, and moves its keys by the same amount: the proof holds whatever the hash (docs/guarantee.md,
Theorem 15, "Hashed negatives"). Hashing positive rows would not be private.

Where users are protected each row is kept with its user, and rows are counted for each pair of a user
and a pattern (Theorem 19).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, groupby
from math import prod
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from littlestone._classes.causes import Causes, Ranges
from littlestone._hypotheses.causes import OUTCOME, Cause, Condition
from littlestone._hypotheses.columns import Column, column_from_cells, objects
from littlestone._hypotheses.rows import Batch, column_of
from littlestone._hypotheses.values import Mask, Plain, canonical, from_json, key_of, to_json
from littlestone._learners.loop import ChangedState, StateData
from littlestone._privacy.causes import Counts, UserPairs

Hashes = npt.NDArray[np.uint32]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Users = npt.NDArray[np.uint64]

# Batches are joined up to so many rows.
SMALL_CHUNK = 1 << 12
# Counts of so many keys are kept in a table by key; of more keys, only those that are wanted.
LARGEST_TABLE = 1 << 20
# Distinct positive patterns are found by one whole number each, up to this size.
LARGEST_NUMBER = 1 << 62
NO_HASHES = np.zeros(0, dtype=np.uint32)


def hash_values(values: npt.NDArray[Any]) -> Hashes:
    """Return the hash of each value, by its identity: stores keep it, so it never changes."""
    return np.fromiter(map(crc32, map(key_of, values.tolist())), np.uint32, len(values))


class NegativeRows(Protocol):
    """Specify negative rows of an epoch: in this process, or where they were read."""

    def __len__(self) -> int: ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the hash of each value, column by column; remote ones are fetched."""

    def part(self, rows: Any) -> "NegativeRows":
        """Return some of the rows."""

    def count_with(self, others: Any, cls: Causes, wanted: "Wanted") -> Counts:
        """Return how many of these and of other rows that are kept alike list each wanted key."""


@dataclass(frozen=True, eq=False)
class HashedRows:
    """Hold negative rows in this process."""

    columns: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0])

    def part(self, rows: Any) -> "HashedRows":
        """Implement `NegativeRows.part`."""
        return HashedRows(tuple(column[rows] for column in self.columns))

    def count_with(self, others: "list[HashedRows]", cls: Causes, wanted: "Wanted") -> Counts:
        """Implement `NegativeRows.count_with`."""
        return count_listed(cls, wanted, [rows.columns for rows in (self, *others)])


class ColumnsOfRows(NamedTuple):
    """Hold what an epoch keeps of unmatched rows: hashes of negative ones, positive ones exactly.

    A column of ranges holds the cells of its numbers, and the last one of positive rows their
    outcomes, if the class has them.
    """

    negatives: NegativeRows
    positives: tuple[Column, ...]
    # The users of negative and of positive rows, where users are protected.
    users: tuple[Users, Users] | None = None

    def part(self, negatives: slice | Mask, positives: slice | Mask) -> "ColumnsOfRows":
        """Return some of the rows."""
        return ColumnsOfRows(
            self.negatives.part(negatives),
            tuple(column[positives] for column in self.positives),
            None if self.users is None else (self.users[0][negatives], self.users[1][positives]),
        )


class PatternIndex:
    """List the patterns of rows, in a public order."""

    def __init__(self, cls: Causes) -> None:
        self.cls, self.names = cls, cls.names
        self.ranges = tuple(c if isinstance(c, Ranges) else None for c in cls.columns)
        # A slot is a column of values, or one level of the ranges of a column.
        self.slots: list[int] = []
        # For each slot of ranges, the number of the condition of each cell; 0 is none.
        self.tables: list[Ids | None] = []
        self._conditions: list[list[Condition]] = []
        for place, ranges in enumerate(self.ranges):
            levels = [(None, [])] if ranges is None else _levels(ranges)
            for table, conditions in levels:
                self.slots.append(place)
                self.tables.append(table)
                self._conditions.append(conditions)
        self.forms = [
            form
            for width in range(1, cls.width + 1)
            for form in combinations(range(len(self.slots)), width)
            if len({self.slots[slot] for slot in form}) == width
        ]

    def read(self, batch: Batch, negative: Rows, positive: Rows) -> ColumnsOfRows:
        """Return what an epoch keeps of a batch, each row a function of that row alone."""
        columns = [
            column_of(batch, name, "value") if ranges is None else range_cells(batch, ranges)
            for name, ranges in zip(self.names, self.ranges, strict=True)
        ]
        hashed = [
            _hashed(column, negative) if ranges is None else column[negative]
            for column, ranges in zip(columns, self.ranges, strict=True)
        ]
        exact = [column[positive] for column in columns]
        if self.cls.has_outcomes:
            exact.append(column_of(batch, OUTCOME, "value")[positive])
        return ColumnsOfRows(HashedRows(tuple(hashed)), tuple(exact))

    def condition(self, slot: int, number: int, values: Sequence[Plain]) -> Condition:
        """Return a condition of a slot: that of a value of its column, or one of its ranges."""
        if self.tables[slot] is not None:
            return self._conditions[slot][number]
        return Condition(self.names[self.slots[slot]], values[number])

    def size(self, slot: int) -> int:
        """Return how many conditions a slot of ranges has."""
        return len(self._conditions[slot])


@lru_cache(maxsize=16)
def pattern_index(cls: Causes) -> PatternIndex:
    """Return the patterns of a class; tasks on a cluster ask for them block by block."""
    return PatternIndex(cls)


def _levels(ranges: Ranges) -> Iterator[tuple[Ids, list[Condition]]]:
    """Yield, for each level of the dyadic tree, the condition number of each cell, from 1."""
    sizes = Counter(condition for held in ranges.conditions for condition in held)
    by_level: dict[int, dict[Condition, list[int]]] = {}
    for cell, held in enumerate(ranges.conditions):
        for condition in held:
            # Ranges that hold one cell differ in size up to the next power of two: a clipped range
            # of no more than half of its size equals its left half, and is listed once.
            level = (sizes[condition] - 1).bit_length()
            by_level.setdefault(level, {}).setdefault(condition, []).append(cell)
    for level in sorted(by_level):
        table = np.zeros(ranges.cells, dtype=np.int64)
        for number, cells in enumerate(by_level[level].values(), start=1):
            table[cells] = number
        yield table, list(by_level[level])


def range_cells(batch: Batch, ranges: Ranges) -> Column:
    """Return the cell of each number of a batch."""
    cells = ranges.cells_of(column_of(batch, ranges.column, "number"))
    return Column(np.arange(ranges.cells, dtype=np.uint32), cells.astype(np.int32))


class _Chunk(NamedTuple):
    """Hold rows: the number of each value of positive ones, the hash of each of negative ones."""

    positives: Ids
    negatives: tuple[NegativeRows, ...]
    users: tuple[Users, Users] | None = None

    @property
    def size(self) -> int:
        return len(self.positives[0]) + sum(map(len, self.negatives))


def _joined(chunks: list[_Chunk]) -> _Chunk:
    """Return chunks as one, in which negatives in this process have a hash a row."""
    positives = np.concatenate([chunk.positives for chunk in chunks], axis=1)
    negatives = list[NegativeRows]()
    for kind, parts in groupby([rows for chunk in chunks for rows in chunk.negatives], type):
        rows = list(parts)
        negatives += [_with_hash_a_row(rows)] if kind is HashedRows else rows
    return _Chunk(positives, tuple(negatives), _users_of(chunks))


def _with_hash_a_row(parts: list[NegativeRows]) -> HashedRows:
    hashes = (np.concatenate(column) for column in zip(*map(_hashes_of, parts), strict=True))
    return HashedRows(tuple(map(_column_of_hashes, hashes)))


def _hashes_of(rows: NegativeRows) -> list[Hashes]:
    """Return the hashes of rows, column by column."""
    return [np.asarray(column.values[column.codes]) for column in rows.columns]


def _users_of(chunks: list[_Chunk]) -> tuple[Users, Users] | None:
    """Return the users of all negative and of all positive rows, where users are protected."""
    pairs = [chunk.users for chunk in chunks if chunk.users is not None]
    if not pairs:
        return None
    negative, positive = map(np.concatenate, zip(*pairs, strict=True))
    return negative, positive


class EpochRows:
    """Hold the unmatched rows of an epoch. Private."""

    def __init__(self, cls: Causes, by_user: bool = False) -> None:
        self.cls, self.index, self.by_user = cls, pattern_index(cls), by_user
        self.clear()

    def __repr__(self) -> str:
        return f"EpochRows({self.cls!r}, private)"

    def clear(self) -> None:
        """Forget all rows: an epoch has ended."""
        # For each column the number of each value of positive rows, in the order of occurrence; a
        # cell of ranges is its own number.
        self._numbers: list[dict[Plain, int]] = [
            {} if ranges is None else {cell: cell for cell in range(ranges.cells)}
            for ranges in self.index.ranges
        ]
        if self.cls.has_outcomes:
            self._numbers.append({})
        # Small batches wait behind the chunks that are complete, and are joined when they are read.
        self._chunks: list[_Chunk] = []
        self._complete = self._waiting_rows = 0
        # How many chunks are saved, and the size of the last of them, which may have grown since.
        self._saved, self._cleared = (0, 0), True

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return sum(chunk.size for chunk in self._chunks)

    def add(self, rows: ColumnsOfRows) -> None:
        """Add rows that no published cause matches."""
        positives = map(_number, rows.positives, self._numbers)
        chunk = _Chunk(np.array(list(positives)), (rows.negatives,), rows.users)
        if self._waiting_rows + chunk.size > SMALL_CHUNK:
            self._join()
            self._complete, self._waiting_rows = len(self._chunks), 0
        self._chunks.append(chunk)
        self._waiting_rows += chunk.size

    def _join(self) -> None:
        """Make one chunk of the batches that wait; of rows there are none, no chunk."""
        waiting = self._chunks[self._complete :]
        if len(waiting) > 1 or not self._waiting_rows:
            self._chunks[self._complete :] = [_joined(waiting)] if self._waiting_rows else []

    def counts(self) -> "PatternCounts":
        """Return the rows that list each active pattern; where users are protected, by user."""
        values = [list(numbers) for numbers in self._numbers]
        patterns = PatternKeys(self.index, values)
        self._join()
        if not self._chunks:
            return PatternCounts(np.zeros((0, 2), np.int64), np.zeros(0, np.intp), patterns)
        positives = np.concatenate([chunk.positives for chunk in self._chunks], axis=1)
        users = _users_of(self._chunks)
        slots = [
            self._slot(slot, positives[place], values[place])
            for slot, place in enumerate(self.index.slots)
        ]
        # A key is a pattern and an outcome: the outcome is one more number of it.
        ids = [positives[-1] + 1] if self.cls.has_outcomes else []
        widths, listed_by = list[npt.NDArray[np.intp]](), list[Counts]()
        wanted = Wanted([slot.hashes for slot in slots], [slot.groups for slot in slots], [])
        pairs, keys_before = list[UserPairs](), 0
        negatives = [rows for chunk in self._chunks for rows in chunk.negatives]
        of_rows = list[_Groups]()
        if users is not None:
            columns_of_rows = [rows.columns for rows in negatives]
            of_rows = _groups_of_slots(self.index, wanted, columns_of_rows)
        for form in self.index.forms:
            chosen = [slots[slot] for slot in form]
            sizes = [*(slot.size for slot in chosen), *(len(values[-1]) for _ in ids)]
            columns = [*(slot.positives for slot in chosen), *ids]
            keys, listed, key_of_row = _distinct(columns, sizes, by_row=users is not None)
            listed_by.append(listed)
            widths.append(np.full(len(keys), len(form) - 1, dtype=np.intp))
            patterns.keys.append(keys)
            wanted.keys.append(
                [slot.group_of[keys[:, i]].astype(np.int32) for i, slot in enumerate(chosen)]
            )
            if users is not None:
                rows, groups, _ = _groups_of(wanted.keys[-1], [of_rows[slot] for slot in form])
                found = _pairs_of(rows, groups, key_of_row, users)
                pairs.append(UserPairs(found.counts, found.places + keys_before))
                keys_before += len(keys)
        by_user = UserPairs(*map(np.concatenate, zip(*pairs, strict=True))) if pairs else None
        # A normal row speaks against its patterns whatever their outcome.
        counts = np.stack(
            [_count_negatives(self.cls, negatives, wanted), np.concatenate(listed_by)], axis=1
        )
        return PatternCounts(counts, np.concatenate(widths), patterns, by_user)

    def _slot(self, slot: int, positives: Ids, values: list[Plain]) -> "_Slot":
        table = self.index.tables[slot]
        if table is not None:
            # Cells are exact: a condition has the same number in negative rows.
            size = self.index.size(slot)
            return _Slot(table[positives], size, NO_HASHES, np.arange(size + 1), size)
        # By hash, not by condition: two conditions of one hash both read its negatives.
        hashes, of_value = np.unique(hash_values(objects(values)), return_inverse=True)
        group_of = np.concatenate([[0], of_value + 1])
        return _Slot(positives + 1, len(values), hashes, group_of, len(hashes))

    def get_state(self) -> StateData:
        """Return what is not in parts."""
        return {"rows": self.size}

    def unsaved(self) -> ChangedState:
        """Return the chunks of rows that are new, or have grown, since the last call."""
        self._join()
        chunks, size = self._saved
        # The last chunk that was saved may have been joined with others.
        first = chunks - 1 if chunks and self._chunks[chunks - 1].size > size else chunks
        parts = {n: self._dump(self._chunks[n]) for n in range(first, len(self._chunks))}
        changed = ChangedState(self._cleared, parts)
        self._mark_saved()
        return changed

    def _mark_saved(self) -> None:
        last = self._chunks[-1].size if self._chunks else 0
        self._saved, self._cleared = (len(self._chunks), last), False

    def _dump(self, chunk: _Chunk) -> bytes:
        exact = []
        for numbers, column in zip(self._numbers, chunk.positives.tolist(), strict=True):
            values, held = list(numbers), set(column)
            cells = {number: to_json(values[number]) for number in held}
            exact.append([cells[number] for number in column])
        hashes = np.concatenate([np.array(_hashes_of(rows)) for rows in chunk.negatives], axis=1)
        users = b"" if chunk.users is None else np.concatenate(chunk.users).astype("<u8").tobytes()
        return json.dumps(exact).encode() + b"\n" + hashes.astype("<u4").tobytes() + users

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load a saved state. Only called on a fresh object."""
        for _, part in sorted(parts.items()):
            text, _, data = part.partition(b"\n")
            exact = [column_from_cells(list(map(from_json, cells))) for cells in json.loads(text)]
            users, columns = None, len(self.index.names)
            if self.by_user:
                rows = (len(data) - 8 * len(exact[0])) // (8 + 4 * columns)
                data, held = data[: 4 * columns * rows], data[4 * columns * rows :]
                users = np.frombuffer(held, "<u8")[:rows], np.frombuffer(held, "<u8")[rows:]
            hashes = np.frombuffer(data, "<u4").reshape(columns, -1)
            positives = map(_number, exact, self._numbers)
            # As they were: what is saved next must not be a part of another number.
            self._chunks.append(
                _Chunk(
                    np.array(list(positives)),
                    (HashedRows(tuple(map(_column_of_hashes, hashes))),),
                    users,
                )
            )
        self._complete = max(len(self._chunks) - 1, 0)
        self._waiting_rows = sum(chunk.size for chunk in self._chunks[self._complete :])
        self._mark_saved()
        if self.size != live["rows"]:
            raise ValueError(f"{self.size} rows of an epoch were saved as {live['rows']}")


def _number(column: Column, numbers: dict[Plain, int]) -> Ids:
    """Return the number of each value of a column; values that have none get the next."""
    if not len(column):  # the common case: positives are rare
        return np.zeros(0, dtype=np.int64)
    found = np.zeros(len(column.values), dtype=np.int64)
    # In the order in which they occur, as if they came one by one.
    for code in dict.fromkeys(column.codes.tolist()):
        # Canonical values hold neither truth values nor floats, so equal ones are the same value.
        found[code] = numbers.setdefault(canonical(column.values[code]), len(numbers))
    return np.asarray(found[column.codes])


def _hashed(column: Column, rows: Rows) -> Column:
    """Return the hashes of rows: one a value of the column, or one a row where these are fewer."""
    hashes, codes = column.map(hash_values), column.codes.take(rows)
    return Column(hashes, codes) if len(hashes) <= len(codes) else _column_of_hashes(hashes[codes])


def _column_of_hashes(hashes: Hashes) -> Column:
    return Column(hashes, np.arange(len(hashes), dtype=np.int32))


class PatternCounts(NamedTuple):
    """Hold the active patterns: negative and positive rows, width from 0, key; the rows by user."""

    counts: Counts
    widths: npt.NDArray[np.intp]
    keys: "PatternKeys"
    pairs: UserPairs | None = None


class PatternKeys:
    """Return the bytes of active patterns by their index, made when asked for."""

    def __init__(self, index: PatternIndex, values: list[list[Plain]]) -> None:
        self._index, self.values = index, values
        # For each form, the numbers of its patterns' conditions.
        self.keys: list[Ids] = []

    def cause(self, place: int) -> Cause:
        """Return a pattern, as a cause."""
        for form, keys in zip(self._index.forms, self.keys, strict=True):
            if place < len(keys):
                numbers = (keys[place] - 1).tolist()
                outcome = self.values[-1][numbers.pop()] if self._index.cls.has_outcomes else None
                conditions = (
                    self._index.condition(slot, number, self.values[self._index.slots[slot]])
                    for slot, number in zip(form, numbers, strict=True)
                )
                return Cause(tuple(conditions), outcome)
            place -= len(keys)
        raise IndexError(place)

    def __call__(self, place: int) -> bytes:
        return self.cause(place).key


class Wanted(NamedTuple):
    """Specify the keys whose negatives are counted, by the groups of their conditions.

    A group is a hash, or a condition of ranges, counted from 1. Private.
    """

    # For each slot, the hashes of its groups in order; none of ranges, which have a table.
    hashes: list[Hashes]
    sizes: list[int]
    # For each form, the group of each condition of its keys.
    keys: list[list[npt.NDArray[np.int32]]]


def _count_negatives(cls: Causes, negatives: Iterable[NegativeRows], wanted: Wanted) -> Counts:
    """Return how many rows list each wanted key: a sum over where they are kept."""
    by_kind: dict[type, list[NegativeRows]] = {}
    for rows in negatives:
        by_kind.setdefault(type(rows), []).append(rows)
    counts = [first.count_with(others, cls, wanted) for first, *others in by_kind.values()]
    return np.asarray(sum(counts[1:], counts[0]))


def count_listed(cls: Causes, wanted: Wanted, parts: Sequence[tuple[Column, ...]]) -> Counts:
    """Return how many rows list each wanted key: a sum over rows, wherever they are."""
    index = pattern_index(cls)
    groups = _groups_of_slots(index, wanted, parts)
    counts = [
        _count_of_form(keys, [groups[slot] for slot in form])
        for form, keys in zip(index.forms, wanted.keys, strict=True)
    ]
    return np.concatenate(counts)


class _Groups:
    """Hold the groups of rows in one slot: for each part its column, and the group of a value."""

    def __init__(self, columns: list[Column], groups: list[Ids], size: int) -> None:
        self._parts, self.size = list(zip(columns, groups, strict=True)), size

    @cached_property
    def rows(self) -> Ids:
        """Return the group of each row."""
        return np.concatenate([groups[column.codes] for column, groups in self._parts])

    @cached_property
    def counts(self) -> Counts:
        """Return how many rows are in each group, and first in none."""
        counts = np.zeros(self.size + 1, dtype=np.int64)
        for column, group in self._parts:
            # Codes are counted, and not their groups: rows need not be looked up.
            np.add.at(counts, group, np.bincount(column.codes, minlength=len(group)))
        return counts


def _groups_of_slots(
    index: PatternIndex, wanted: Wanted, parts: Sequence[tuple[Column, ...]]
) -> list[_Groups]:
    """Return the groups of rows, slot by slot."""
    found = []
    for place, table, hashes, size in zip(
        index.slots, index.tables, wanted.hashes, wanted.sizes, strict=True
    ):
        columns = [columns[place] for columns in parts]
        groups = [
            _places(column.values, hashes) if table is None else table[column.values]
            for column in columns
        ]
        found.append(_Groups(columns, groups, size))
    return found


class _Slot(NamedTuple):
    """Hold the conditions of positive rows in one slot, by number from 1; 0 is none."""

    positives: Ids
    size: int
    # The hashes of the groups; none of ranges.
    hashes: Hashes
    group_of: Ids
    groups: int


def _distinct(ids: list[Ids], sizes: list[int], by_row: bool) -> tuple[Ids, Counts, Ids]:
    """Return the distinct rows of numbers without a 0, in order, and how often each occurs.

    Last comes which of them each row is, -1 for none.
    """
    listed = np.logical_and.reduce([column > 0 for column in ids])
    if prod(size + 1 for size in sizes) > LARGEST_NUMBER:
        rows, axis = np.stack(ids, axis=1), 0
    else:
        rows, axis = np.zeros(len(listed), dtype=np.int64), None
        for column, size in zip(ids, sizes, strict=True):
            rows = rows * (size + 1) + column
    key_of_row = np.full(len(listed), -1, dtype=np.int64)
    if by_row:
        keys, places, counts = np.unique(
            rows[listed], axis=axis, return_inverse=True, return_counts=True
        )
        key_of_row[listed] = places.ravel()
    else:
        keys, counts = np.unique(rows[listed], axis=axis, return_counts=True)
    if axis is None:
        columns = []
        for size in reversed(sizes):
            keys, column = np.divmod(keys, size + 1)
            columns.append(column)
        keys = np.stack(columns[::-1], axis=1)
    return keys, counts.astype(np.int64), key_of_row


def _count_of_form(keys: list[npt.NDArray[np.int32]], slots: list[_Groups]) -> Counts:
    """Return how many rows are in the groups of each key."""
    if len(slots) == 1:
        return slots[0].counts[keys[0]]
    rows, wanted, size = _groups_of(keys, slots)
    if size > LARGEST_TABLE:
        rows, wanted, size = _narrowed(rows, wanted)
    return np.asarray(np.bincount(rows, minlength=size)[wanted], dtype=np.int64)


def _groups_of(keys: list[npt.NDArray[np.int32]], slots: list[_Groups]) -> tuple[Ids, Ids, int]:
    """Return the group of each row and of each key, and how many groups there are."""
    rows = wanted = np.zeros(1, dtype=np.int64)
    size = 1
    for groups, slot in zip(keys, slots, strict=True):
        if size * (slot.size + 1) > LARGEST_TABLE and size > len(groups) + 1:
            rows, wanted, size = _narrowed(rows, wanted)
        rows = rows * (slot.size + 1) + slot.rows
        wanted = wanted * (slot.size + 1) + groups
        size *= slot.size + 1
    return rows, wanted, size


def _pairs_of(rows: Ids, wanted: Ids, key_of_row: Ids, users: tuple[Users, Users]) -> UserPairs:
    """Return, for each pair of a user and a key that some row has, its negatives and positives."""
    keys = len(wanted)
    groups, group_of_key = np.unique(wanted, return_inverse=True)
    negative = _places(rows, groups) - 1
    _, numbers = np.unique(np.concatenate(users), return_inverse=True)
    of_negative, of_positive = np.split(numbers.astype(np.int64), [len(users[0])])
    # A negative row speaks against every key of its group.
    by_group, size = np.argsort(group_of_key, kind="stable"), np.bincount(group_of_key)
    first = np.cumsum(size) - size
    held = np.flatnonzero(negative >= 0)
    often = size[negative[held]]
    within = np.arange(often.sum()) - np.repeat(np.cumsum(often) - often, often)
    key_of_negative = by_group[np.repeat(first[negative[held]], often) + within]
    listing = key_of_row >= 0
    pairs, places = np.unique(
        np.concatenate(
            [
                np.repeat(of_negative[held], often) * keys + key_of_negative,
                of_positive[listing] * keys + key_of_row[listing],
            ]
        ),
        return_inverse=True,
    )
    counts = np.stack(
        [
            np.bincount(places[: len(within)], minlength=len(pairs)),
            np.bincount(places[len(within) :], minlength=len(pairs)),
        ],
        axis=1,
    )
    return UserPairs(counts.astype(np.int64), pairs % max(keys, 1))


def _narrowed(rows: Ids, wanted: Ids) -> tuple[Ids, Ids, int]:
    """Return numbers anew, 0 for all that are not wanted: they stay small, and never overflow."""
    keys, wanted = np.unique(wanted, return_inverse=True)
    return _places(rows, keys), wanted + 1, len(keys) + 1


def _places(rows: npt.NDArray[Any], keys: npt.NDArray[Any]) -> Ids:
    """Return for each row the place of its number among sorted keys, from 1; 0 if it is none."""
    if not len(keys):
        return np.zeros(len(rows), dtype=np.int64)
    nearest = np.minimum(np.searchsorted(keys, rows), len(keys) - 1)
    return np.where(keys[nearest] == rows, nearest + 1, 0)
