"""Number the patterns that are known before a row of the epoch is read, and those narrower than one.

A value is known if it was declared, discovered in the first window, or published before; ranges
have public edges, so all of them are known. A pattern is known if all of its values are, and with
outcomes its outcome too. All of this is public (docs/guarantee.md, Theorem 15, "Known keys").
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._classes.causes import Causes
from littlestone._hypotheses.causes import OUTCOME, Cause, Condition
from littlestone._hypotheses.columns import Column
from littlestone._hypotheses.rows import Batch, column_of
from littlestone._hypotheses.values import Plain, canonical
from littlestone._learners.epoch_rows import Ids, PatternKeys, pattern_index, range_cells

# Columns and the values of each that are known.
Values = Mapping[str, Iterable[object]]


class KnownKeys:
    """Hold the known values of a class. It never changes: `with_values` returns another."""

    def __init__(self, cls: Causes, values: Values) -> None:
        self.cls, self._index = cls, pattern_index(cls)
        self.values = {name: tuple(dict.fromkeys(map(canonical, some)))
                       for name, some in values.items()}  # fmt: skip

    def with_values(self, values: Values) -> "KnownKeys":
        """Return the keys of which some more values are known; itself, if none is new."""
        new = {
            name: [v for v in map(canonical, some) if v not in self._numbers.get(name, {})]
            for name, some in values.items()
        }
        if not any(new.values()):
            return self
        names = dict.fromkeys([*self.values, *new])
        joined = {name: (*self.values.get(name, ()), *new.get(name, ())) for name in names}
        return KnownKeys(self.cls, joined)

    @cached_property
    def _numbers(self) -> dict[str, dict[Plain, int]]:
        """Return, for each column, the number of each known value, from 1."""
        return {
            name: {value: number for number, value in enumerate(some, start=1)}
            for name, some in self.values.items()
        }

    @cached_property
    def sizes(self) -> list[int]:
        """Return how many conditions of each slot are known."""
        return [
            len(self.values.get(self._index.names[place], ())) if table is None
            else self._index.size(slot)
            for slot, (place, table) in enumerate(
                zip(self._index.slots, self._index.tables, strict=True)
            )
        ]  # fmt: skip

    @cached_property
    def _outcomes(self) -> int:
        return len(self.values.get(OUTCOME, ())) if self.cls.has_outcomes else 1

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Return how many keys of each width are known, from width 1 on."""
        found = [0] * self.cls.width
        for form in self._index.forms:
            found[len(form) - 1] += self._of_form(form)
        return tuple(found)

    def _of_form(self, form: Sequence[int]) -> int:
        return prod(self.sizes[slot] for slot in form) * self._outcomes

    def _lookup(self, name: str, values: Any) -> Ids:
        """Return the number of each value of a column; 0 if it is not known."""
        known = self._numbers.get(name, {})
        cells = values.tolist() if isinstance(values, np.ndarray) else values
        return np.array([known.get(canonical(cell), 0) for cell in cells], dtype=np.int64)

    def ranks(self, patterns: PatternKeys, widths: Collection[int]) -> Ids:
        """Return the place of each active pattern among the known ones of its width.

        It is -1 where the pattern is not known, or the width is none of those given.
        """
        found = [np.zeros(0, dtype=np.int64)]
        numbers = [
            self._lookup(name, some) if self.values.get(name) else np.zeros(len(some), np.int64)
            for name, some in zip((*self._index.names, OUTCOME), patterns.values, strict=False)
        ]
        for form, keys in zip(self._index.forms, patterns.keys, strict=bool(patterns.keys)):
            if len(form) not in widths or not self._of_form(form):
                found.append(np.full(len(keys), -1, dtype=np.int64))
                continue
            columns = [
                numbers[place][keys[:, at] - 1] if self._index.tables[slot] is None else keys[:, at]
                for at, (slot, place) in enumerate((s, self._index.slots[s]) for s in form)
            ]
            sizes = [self.sizes[slot] for slot in form]
            if self.cls.has_outcomes:
                columns.append(numbers[-1][keys[:, -1] - 1])
                sizes.append(self._outcomes)
            rank = np.zeros(len(keys), dtype=np.int64)
            for column, size in zip(columns, sizes, strict=True):
                rank = rank * size + column - 1
            rank += sum(map(self._of_form, self._before(form)))
            found.append(np.where(np.logical_and.reduce([c > 0 for c in columns]), rank, -1))
        return np.concatenate(found)

    def _before(self, form: Sequence[int]) -> Iterator[Sequence[int]]:
        for other in self._index.forms:
            if other == form:
                return
            if len(other) == len(form):
                yield other

    def cause(self, width: int, rank: int) -> Cause:
        """Return the known pattern of a width that has a place."""
        for form in self._index.forms:
            if len(form) != width:
                continue
            if rank < self._of_form(form):
                outcome = None
                if self.cls.has_outcomes:
                    rank, number = divmod(rank, self._outcomes)
                    outcome = self.values[OUTCOME][number]
                conditions = []
                for slot in reversed(form):
                    rank, number = divmod(rank, self.sizes[slot])
                    conditions.append(self._condition(slot, number))
                return Cause(tuple(conditions), outcome)
            rank -= self._of_form(form)
        raise IndexError(rank)

    def _condition(self, slot: int, number: int) -> Condition:
        name = self._index.names[self._index.slots[slot]]
        return self._index.condition(slot, number, self.values.get(name, ()))

    def narrower(self, cause: Cause) -> list[tuple[int, int]]:
        """Return the slots of the patterns with one more known condition, and their numbers."""
        if cause.width >= self.cls.width:
            return []
        slots = range(len(self.sizes))
        others = (s for s in slots if self._index.names[self._index.slots[s]] not in cause.columns)
        return [(slot, self.sizes[slot]) for slot in others if self.sizes[slot]]

    def narrowed(self, cause: Cause, place: int) -> Cause:
        """Return the narrower pattern that has a place among those of a cause."""
        for slot, size in self.narrower(cause):
            if place < size:
                return Cause((*cause.conditions, self._condition(slot, place)), cause.outcome)
            place -= size
        raise IndexError(place)

    def read(self, batch: Batch, rows: npt.NDArray[np.intp]) -> tuple[Column, ...]:
        """Return the known number of each condition of some rows, slot by slot."""
        columns = [
            column_of(batch, name, "value") if ranges is None else range_cells(batch, ranges)
            for name, ranges in zip(self._index.names, self._index.ranges, strict=True)
        ]
        return tuple(
            Column(
                columns[place].map(self._readers[place]) if table is None else table,
                columns[place].codes[rows],
            )
            for place, table in zip(self._index.slots, self._index.tables, strict=True)
        )

    @cached_property
    def _readers(self) -> list[Callable[[npt.NDArray[Any]], Ids]]:
        """Return, for each column, what numbers its values; made once, as columns remember it."""
        return [
            partial(self._lookup, name) if self.values.get(name) else _unknown
            for name in self._index.names
        ]


def _unknown(values: npt.NDArray[Any]) -> Ids:
    return np.zeros(len(values), dtype=np.int64)
