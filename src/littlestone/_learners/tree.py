"""Represent a tree of the forest (Algorithm 1), its random bits, and the rows routed to it.

*Random bits* are hashed from an address: `random_bits(seed, purpose, address)` is a function, not a
stream. A generator read in the order of use would let one replaced example shift all later bits,
and with them many votes. By address, one example changes what its own tree does and nothing else
(docs/guarantee.md, Theorem 9); any batch size and any number of workers see the same bits. They are
not secret: the privacy proof fixes them (Lemma 6.1). Secret noise is in `privacy`.

*A tree* is a tournament of learners. A pertinent vertex holds a learner, which is determined by the
examples it was updated with, in order: that is how a tree is saved and loaded, whatever the class.

Vertices of many trees hold the same few learners and rules. So these are kept once, in tables, and
a vertex holds their numbers: what a class says of a learner and a row is asked once, and all rows
are judged at once, each by the rule of its own vertex.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import chain
from random import SystemRandom
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import (
    HypothesisClass,
    VersionSpace,
    kinds_of,
    learn_row,
    predict_row,
    predict_rows,
)
from littlestone._hypotheses.cells import Kind, float_not_below
from littlestone._hypotheses.columns import hash_keys
from littlestone._hypotheses.rows import (
    Batch,
    Column,
    Names,
    RowCells,
    column_of,
    packed,
    part_of,
)
from littlestone._hypotheses.rules import Constant, Hypothesis, OneOf, Steps
from littlestone._hypotheses.values import Mask, encode

RandomBits = npt.NDArray[np.uint64]


class Purpose(IntEnum):
    """Name what random bits are for: equal addresses for different purposes give different bits."""

    TREE = 1
    LEAF = 2
    GUESS = 3
    CHOICE = 4
    FIRST = 5


def random_bits(seed: int, purpose: Purpose, *address: Any) -> RandomBits:
    """Return 64 random-looking bits for each address."""
    state = _first_state(seed, purpose)
    # Mixed between parts, so that (1, 2) and (2, 1) are different addresses.
    with np.errstate(over="ignore"):
        for part in address:
            state = _mixed(state + _mixed(np.asarray(part).astype(np.uint64)))
    return np.asarray(state)


def below(size: Any, drawn: RandomBits) -> npt.NDArray[np.intp]:
    """Map random bits to integers from 0 to size - 1."""
    # Multiply and shift: a remainder would need the low bits too, and a division each.
    high = drawn >> np.uint64(32)
    return np.asarray((high * np.asarray(size).astype(np.uint64)) >> np.uint64(32)).astype(np.intp)


def fresh_seed() -> int:
    """Draw a random seed. It need not be secret."""
    return SystemRandom().getrandbits(63)


_ALL = (1 << 64) - 1
_STEP, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@lru_cache(maxsize=256)
def _first_state(seed: int, purpose: Purpose) -> Any:
    """Return the bits of an empty address; a learner asks for a few of them, again and again."""
    with np.errstate(over="ignore"):
        return _mixed(np.uint64(seed & _ALL) ^ _mixed(np.uint64(purpose)))


def _mixed(state: Any) -> Any:
    """Mix all bits with the finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    first, second, third = _SHIFTS
    state = state + _STEP
    state = (state ^ (state >> first)) * _FIRST
    state = (state ^ (state >> second)) * _SECOND
    return state ^ (state >> third)


Indices = npt.NDArray[np.intp]
# The most marks of a rule that is evaluated together with others.
MOST_MARKS = 4
# No value has the hash -1, and no number reaches NaN.
_NO_MARK: dict[Kind, Any] = {"value": np.int64(-1), "number": np.float64("nan")}


class RuleTable:
    """Number rules, and evaluate many of them at once, each on rows of its own.

    Most rules read one column, and change their label at each of a few *marks*: at a value that the
    cell equals (compared by the hashes of their keys), or at a cut that it reaches. Such rules are
    arrays; others are evaluated one after the other. Rule 0 is None.
    """

    def __init__(self, cls: HypothesisClass) -> None:
        self._cls = cls
        # By key: a dict of rules would call their hashes in Python.
        self._numbers: dict[bytes | None, int] = {None: 0}
        self.rules: list[Hypothesis | None] = [None]
        # Of the rules that were evaluated, and with room for more: the label without a mark, which
        # are not arrays, marks.
        self._unmarked, self._alone = np.zeros(1, dtype=bool), np.zeros(1, dtype=bool)
        self._compiled = 1
        self._marks: dict[tuple[Column, Kind], list[npt.NDArray[Any]]] = {}
        # A class may evaluate its rules in its own way.
        self._plain = type(cls).predict is HypothesisClass.predict
        self._kinds = kinds_of(cls) if self._plain else {}

    def number(self, rule: Hypothesis | None) -> int:
        """Return the number of a rule."""
        key = None if rule is None else rule.key
        number = self._numbers.setdefault(key, len(self.rules))
        if number == len(self.rules):
            self.rules.append(rule)
        return number

    def predict(self, which: npt.NDArray[np.integer[Any]], batch: Batch) -> Mask:
        """Return the label of each row by the rule with its number; by rule 0, False."""
        self._compile()
        labels: Mask = self._unmarked[which]
        alone = self._alone[which]
        try:
            for (column, kind), marks in self._marks.items():
                cells = column_of(batch, column, kind)
                if kind == "value":
                    hashes = cells.map(hash_keys)[cells.codes]
                for mark in marks:
                    labels ^= hashes == mark[which] if kind == "value" else cells >= mark[which]
        except MemoryError:
            raise
        except Exception:  # a batch that was not read by the kinds of the class
            alone = which > 0
        if alone.any():
            for number in np.unique(which[alone]).tolist():
                rows = np.flatnonzero(which == number)
                rule: Any = self.rules[number]
                labels[rows] = predict_rows(self._cls, rule, part_of(batch, rows))
        return labels

    def _compile(self) -> None:
        """Make arrays of the rules that were added since the last call."""
        # Twice as long each time: a few rules are added at every mistake.
        added = 2 * len(self.rules) - len(self._alone) if len(self._alone) < len(self.rules) else 0
        if added:
            self._unmarked = np.append(self._unmarked, np.zeros(added, dtype=bool))
            self._alone = np.append(self._alone, np.zeros(added, dtype=bool))
            for (_, kind), marks in self._marks.items():
                marks[:] = [np.append(mark, np.full(added, _NO_MARK[kind])) for mark in marks]
        first, self._compiled = self._compiled, len(self.rules)
        for number, rule in enumerate(self.rules[first:], start=first):
            match rule:
                case Constant(answer) if self._plain:
                    self._unmarked[number] = answer
                case OneOf(values, column) if self._fits(column, "value", values):
                    self._mark(number, (column, "value"), [hash(encode(v)) for v in values])
                case Steps(below, cuts, column) if self._fits(column, "number", cuts):
                    self._unmarked[number] = below
                    self._mark(number, (column, "number"), [float_not_below(c) for c in cuts])
                case _:
                    self._alone[number] = True

    def _fits(self, column: Column, kind: Kind, values: Sequence[object]) -> bool:
        return self._kinds.get(column) == kind and len(values) <= MOST_MARKS

    def _mark(self, number: int, read: tuple[Column, Kind], values: list[Any]) -> None:
        marks = self._marks.setdefault(read, [])
        while len(marks) < len(values):
            marks.append(np.full(len(self._alone), _NO_MARK[read[1]]))
        for mark, value in zip(marks, values, strict=False):
            mark[number] = value


# Vertices of a tree are numbered as in a heap: 1 is the root, 2v and 2v + 1 the children of v.
ROOT = 1


# The names of the columns of an example, its cells, and its label. Atoms in tuples, which the garbage
# collector need not follow: there may be many learners.
Update = tuple[Names, RowCells, bool]
Updates = tuple[Update, ...]


class VertexLearner(NamedTuple):
    """Hold the learner of a pertinent vertex."""

    state: VersionSpace | None
    rule: Hypothesis | None
    updates: Updates | None = ()


DEAD = VertexLearner(None, None, None)


def updated(
    cls: HypothesisClass, state: VersionSpace | None, x: object, y: bool
) -> tuple[VersionSpace, Hypothesis | None]:
    """Return the state after a mistake, and its rule."""
    if state is None:
        # The published rule was held without a state: start the class's learner here.
        state = cls.start()
        rule = cls.hypothesis(state)
        if rule is None or predict_row(rule, x) == y:
            return state, rule
    return learn_row(cls, state, x, y)


# A cell of these types is no other value than any cell of its type that it equals, but for -0.0.
_PLAIN = frozenset({str, int, float, bool, bytes, NoneType})
# The numbers of a learner that is dead, and of one at the start of the epoch.
DEAD_NUMBER, FRESH_NUMBER = 0, 1
# In the place of a number that has yet to be found.
_UNKNOWN = -1


class LearnerTable:
    """Number learners: a vertex holds a number, and learners that saw the same examples share it.

    What a learner becomes is a function of itself and the example, so that it may be remembered:
    who asked first changes nothing for others (docs/guarantee.md, Theorem 9).
    """

    def __init__(self, cls: HypothesisClass, learners: Sequence[VertexLearner]) -> None:
        self._cls, self.rules = cls, RuleTable(cls)
        # The first two are dead and fresh.
        self._states = [learner.state for learner in learners]
        self.rule_numbers = [self.rules.number(learner.rule) for learner in learners]
        self._updates = [learner.updates for learner in learners]
        self._after: dict[tuple[object, ...], int] = {}

    def __len__(self) -> int:
        return len(self._states) + len(self._after)

    def __getitem__(self, number: int) -> VertexLearner:
        rule = self.rules.rules[self.rule_numbers[number]]
        return VertexLearner(self._states[number], rule, self._updates[number])

    def updated(self, number: int, x: object, y: bool) -> int:
        """Return the number of a learner after an update with a mistake."""
        if type(x) is dict:
            return self.after([number], tuple(x), [[cell] for cell in x.values()], [y])[0]
        return self.after([number], None, [[x]], [y])[0]

    def after(
        self, held: list[int], names: Names, columns: list[list[Any]], answers: list[bool]
    ) -> list[int]:
        """Return the numbers of learners, each after an update; the examples are in columns."""
        kinds = [list(map(type, cells)) for cells in columns]
        plain = _PLAIN.issuperset(chain.from_iterable(kinds))
        # As `plain` does: a negative zero equals zero, and must be the same example.
        if plain and any(0 in cells for cells in columns):
            columns = [[c + 0.0 if type(c) is float else c for c in cells] for cells in columns]
        named = [names] * len(held)
        asked = list(zip(held, answers, named, *columns, *kinds, strict=True))
        unknown = [_UNKNOWN] * len(held)
        after = list(map(self._after.get, asked, unknown)) if plain else unknown
        for place in [place for place, number in enumerate(after) if number == _UNKNOWN]:
            # Of equal ones in a batch, the first has been added by now.
            number = self._after.get(asked[place], _UNKNOWN) if plain else _UNKNOWN
            if number == _UNKNOWN:
                cells = tuple(column[place] for column in columns)
                number = self._add(held[place], (names, cells, answers[place]))
                if plain:
                    self._after[asked[place]] = number
            after[place] = number
        return after

    def _add(self, before: int, update: Update) -> int:
        """Return the number of one more learner: of one after one more update."""
        names, cells, y = update
        state, rule = updated(self._cls, self._states[before], _example(names, cells), y)
        # Without a rule it makes no mistake and learns no more: nothing else of it matters.
        if rule is None:
            return DEAD_NUMBER
        self._states.append(state)
        self.rule_numbers.append(self.rules.number(rule))
        self._updates.append((*(self._updates[before] or ()), update))
        return len(self._states) - 1


def _example(names: Names, cells: RowCells) -> object:
    return cells[0] if names is None else dict(zip(names, cells, strict=True))


def leaves_below(leaves: int, vertex: int) -> slice:
    """Return the leaves below a vertex."""
    # In a heap the leaves below a vertex are consecutive.
    depth = leaves.bit_length() - vertex.bit_length()
    return slice((vertex << depth) - leaves, ((vertex + 1) << depth) - leaves)


def updates_to_data(learner: VertexLearner) -> object:
    """Return the examples that a learner was updated with, as a value with canonical bytes."""
    if learner.updates is None:
        return None
    # Packed: rows may hold values of numpy, which the canonical encoding does not know.
    return tuple((packed(_example(names, cells)), y) for names, cells, y in learner.updates)
