"""Count the mistakes that every rule of a finite class would have made. Private.

A replaced round moves the mistakes of each rule by at most one, so they are scores for the
exponential mechanism (Theorem 6, sensitivity 1). The counts hold one number for each point of the
domain: negative labels less positive ones. Then a rule's mistakes are all positives plus the sum of
these numbers over the points that it labels positive: a prefix sum for thresholds and intervals, a
table for the rest.

`DomainIndex` finds the point of a row: a public function, vectorised. A number belongs to the
largest point not above it; below all of them, or missing, to the first (`_classes/grids.py`). A
truth value, or any other value, belongs to the point with its canonical bytes. A row without a
point, or whose cells have none, gets `NOT_IN_DOMAIN`: it does not distinguish the rules of the class.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isqrt, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, checked_class, kinds_of, predict_rows
from littlestone._classes.grids import Edges, Grid, OnPoints
from littlestone._classes.intervals import Intervals
from littlestone._classes.thresholds import Cuts
from littlestone._classes.union import Complement
from littlestone._data.rounds import Numbers, Rounds
from littlestone._hypotheses.cells import Kind, Number, number_of
from littlestone._hypotheses.columns import Column as ValueColumn
from littlestone._hypotheses.rows import Batch, Column, as_batch, batch_length, column_of, row_of
from littlestone._hypotheses.rules import Hypothesis, negation
from littlestone._hypotheses.values import Mask, Plain, key_of
from littlestone._learners.loop import ChangedState, StateData
from littlestone.errors import TooLarge

Indices = npt.NDArray[np.int64]
Place = Callable[[Any], Indices]
NOT_IN_DOMAIN = -1
# Whole numbers up to this are floats.
EXACT = 1 << 53


class DomainIndex:
    """Map rows to the points of a class's domain, which are in the order of `points_of`."""

    def __init__(self, cls: HypothesisClass) -> None:
        self.domain: dict[Column, tuple[Plain, ...]] = {}
        self.everywhere: Batch
        self._columns: list[tuple[Column, Kind, int, Place]] = []
        # Grids may have millions of points: they are indexed by arithmetic, not by a dictionary.
        if isinstance(cls, OnPoints):
            points = _points(cls.grid)
            self._columns = [(cls.column, "number", cls.grid.count, _numbers(points))]
            self.everywhere = points if cls.column is None else {cls.column: points}
            return
        kinds = kinds_of(cls)
        for column, values in cls.domain().items():
            if kinds.get(column, "value") == "number":
                # Ascending, because a number belongs to the largest point not above it.
                values = tuple(sorted(values, key=number_of))
            self.domain[column] = values
            kind = kinds.get(column, "value")
            self._columns.append((column, kind, len(values), _place(values, kind)))
        self.everywhere = batch_of(self.domain)

    @property
    def points(self) -> int:
        """Return how many points there are."""
        sizes = [size for _, _, size, _ in self._columns]
        return int(np.prod(sizes, dtype=object))

    def __call__(self, batch: Batch) -> Indices:
        try:
            return self._places(batch)
        except MemoryError:
            raise
        except Exception:  # a class of one's own may take rows whose columns cannot be read
            rows = (self._place(row_of(batch, row)) for row in range(batch_length(batch)))
            return np.fromiter(rows, dtype=np.int64, count=batch_length(batch))

    def _place(self, x: object) -> int:
        try:
            return int(self._places(as_batch([x]))[0])
        except MemoryError:
            raise
        except Exception:
            return NOT_IN_DOMAIN

    def _places(self, batch: Batch) -> Indices:
        index: Indices | None = None
        for column, kind, size, place in self._columns:
            found = place(column_of(batch, column, kind))
            nowhere = found == NOT_IN_DOMAIN
            if index is not None:
                nowhere |= index == NOT_IN_DOMAIN
                found = index * size + found
            found[nowhere] = NOT_IN_DOMAIN
            index = found
        if index is None:
            raise AssertionError("a domain has at least one column")
        return index


def _place(values: tuple[Plain, ...], kind: Kind) -> Place:
    if kind == "number":
        return _numbers(np.array([number_of(value) for value in values], dtype=object))
    keys = {key_of(value): index for index, value in enumerate(values)}
    if kind == "truth":
        answers = np.array([keys.get(key_of(truth), NOT_IN_DOMAIN) for truth in (False, True)])
        return lambda truths: answers[truths.astype(np.intp)]
    return lambda values: place_values(values, keys)


def place_values(column: ValueColumn, keys: Mapping[bytes, int]) -> Indices:
    """Return the point of each value. Values are identified by canonical bytes: (1,) == (True,)."""
    found = [keys.get(key_of(value), NOT_IN_DOMAIN) for value in column.values.tolist()]
    return np.array(found, dtype=np.int64)[column.codes]


def _numbers(points: npt.NDArray[Any]) -> Place:
    """Return a function that finds numbers among ascending points, exactly."""
    listed: list[Number] = points.tolist()
    if all(isinstance(point, float) or abs(point) <= EXACT for point in (listed[0], listed[-1])):
        floats = points.astype(np.float64)
    else:
        floats = None

    def place(numbers: npt.NDArray[np.float64]) -> Indices:
        if floats is None:
            one_by_one = [bisect_right(listed, number_of(value)) - 1 for value in numbers]
            return np.maximum(np.array(one_by_one, dtype=np.int64), 0)
        found = np.searchsorted(floats, numbers, side="right") - 1
        return np.asarray(np.where(np.isnan(numbers), 0, np.maximum(found, 0)))

    return place


def _points(grid: Grid | Edges) -> npt.NDArray[Any]:
    """Return the points of a grid, all at once where floats can represent them exactly."""
    if isinstance(grid, Edges):
        return np.array([grid[index] for index in range(grid.count)], dtype=object)
    lo, hi, step = (Fraction(repr(end)) for end in (grid.lo, grid.hi, grid.step))
    below = math.lcm(lo.denominator, step.denominator)
    if any(abs(number) * below > EXACT for number in (lo, hi, Fraction(1))):
        return np.array([grid[index] for index in range(grid.count)], dtype=object)
    above = int(lo * below) + int(step * below) * np.arange(grid.count)
    return above if below == 1 else above / below


def batch_of(domain: Mapping[Column, tuple[Plain, ...]]) -> Batch:
    """Return every example over a domain, as arrays of the plainest type that holds them."""
    sizes = [len(values) for values in domain.values()]
    places = np.indices(sizes).reshape(len(sizes), -1)
    columns = {
        column: _array(values)[place]
        for (column, values), place in zip(domain.items(), places, strict=True)
    }
    if None in columns:
        return columns[None]
    return {str(column): array for column, array in columns.items()}


def _array(values: tuple[Plain, ...]) -> npt.NDArray[Any]:
    """Return values as an array that keeps every value's own type."""
    if {type(value) for value in values} == {bool}:
        return np.array(values, dtype=bool)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


class Placed(NamedTuple):
    """Hold what experts read of rounds: point and label of each, and whether a rule is wrong."""

    number: Numbers
    points: Indices
    answers: Mask
    is_wrong: Mask

    def between(self, start: int, stop: int) -> "Placed":
        """Return the rounds from `start` up to, not including, `stop`."""
        return self.taken(slice(*np.searchsorted(self.number, [start, stop])))

    def taken(self, rows: Mask | slice) -> "Placed":
        """Return some of the rounds."""
        number, points, answers, is_wrong = self
        return Placed(number[rows], points[rows], answers[rows], is_wrong[rows])

    def detached(self) -> tuple["Placed", tuple[()]]:
        """Return all of it: nothing stays where the rows are."""
        return self, ()


class Placing:
    """Place rounds on the points of a class: a question that may be asked of remote rows."""

    def __init__(self, index: DomainIndex | None = None) -> None:
        self._index = index

    def __reduce__(self) -> tuple[type, tuple[()]]:
        # The index may be large, and follows from the class, which is where the rows are.
        return Placing, ()

    def __call__(self, cls: HypothesisClass, rounds: Rounds, rule: Hypothesis) -> Placed:
        if self._index is None:
            self._index = domain_index(cls)
        answers = rounds.answers
        is_wrong = predict_rows(cls, rule, rounds.columns) != answers
        return Placed(rounds.number, self._index(rounds.columns), answers, is_wrong)


def domain_index(cls: HypothesisClass) -> DomainIndex:
    """Return the index of a class; negations have the points of what they negate."""
    return domain_index(cls.of) if isinstance(cls, Complement) else DomainIndex(cls)


Counts: TypeAlias = npt.NDArray[np.int64]

# Counts that are saved together.
PAGE = 512
MOST_RULES = 4_000_000
# The largest table, in bytes.
MOST_CELLS = 200_000_000


def index_key(index: int) -> bytes:
    """Return the key of a rule in the draw: its index in the public order of the class."""
    return index.to_bytes(8)


class MistakeCounts(ABC):
    """Count the mistakes of every rule of a finite class since it was last cleared."""

    penalised: Counts | int = 0
    standing: Hypothesis | None = None
    costs: tuple[int, int] = (1, 1)

    def __init__(self, cls: HypothesisClass, index: DomainIndex | None = None) -> None:
        self.cls = cls
        self.index = DomainIndex(cls) if index is None else index
        self._net = np.zeros(self.index.points, dtype=np.int64)
        self._positives = 0
        self._cleared, self._changed = True, set[int]()

    def __repr__(self) -> str:
        return f"MistakeCounts({self.cls!r}, private)"

    @property
    @abstractmethod
    def size(self) -> int:
        """Return how many rules there are."""

    @abstractmethod
    def rule(self, index: int) -> Hypothesis:
        """Return a rule, by its index in the public order."""

    @abstractmethod
    def _summed(self, net: Counts) -> Counts:
        """Return, for each rule, the sum of what is given at the points that it labels positive."""

    @property
    def mistakes(self) -> Counts:
        """Return the mistakes of each rule, in the public order."""
        return self._positives + self._summed(self._net)

    @property
    def ballot(self) -> Counts:
        """Return the scores of all rules: minus their mistakes, minus what is `penalised`."""
        scores = -self.mistakes - self.penalised
        if self.standing is None:
            return scores
        return np.append(scores, -self.mistakes_of(self.standing))

    def mistakes_of(self, rule: Hypothesis) -> int:
        """Return the mistakes of one rule, of the class or not."""
        labels = self.cls.predict(rule, self.index.everywhere)
        return self._positives + int(self._net[labels].sum())

    def agreement_with(self, old: Hypothesis, new: Hypothesis) -> Mask:
        """Return which rules agree with one rule wherever it differs from another. Public."""
        # Evaluated at the points of the domain: public, so the prior stays public.
        was, is_now = (self.cls.predict(rule, self.index.everywhere) for rule in (old, new))
        differ = was != is_now
        net = np.where(differ, np.where(is_now, -1, 1), 0)
        wrong = int((differ & is_now).sum()) + self._summed(net)
        return np.asarray(wrong == differ.sum())

    def learn(self, points: Indices, answers: Mask) -> None:
        """Count rows by their points and labels."""
        inside = points != NOT_IN_DOMAIN
        points, answers = points[inside], answers[inside]
        missed, alarm = self.costs
        # `add.at`, because several rows may have the same point.
        np.add.at(self._net, points, np.where(answers, -missed, alarm))
        self._changed |= set(np.unique(points // PAGE).tolist())
        self._positives += missed * int(answers.sum())

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key in the draw."""
        return self.rule(int.from_bytes(key))

    def restart(self, published: Hypothesis) -> None:
        """Discard all rounds."""
        self._net[:] = 0
        self._positives = 0
        self._cleared, self._changed = True, set()

    def get_state(self) -> StateData:
        """Return the number of positives, which count for rules without positive points."""
        return {"positives": self._positives}

    def unsaved(self) -> ChangedState:
        """Return the pages of counts that have changed since the last call."""
        parts = {page: self._page(page).astype("<i8").tobytes() for page in sorted(self._changed)}
        found = ChangedState(self._cleared, parts)
        self._cleared, self._changed = False, set()
        return found

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Restore the counts that were saved."""
        self._positives, self._cleared = live["positives"], False
        for page, part in parts.items():
            self._page(page)[:] = np.frombuffer(part, "<i8")

    def _page(self, page: int) -> Counts:
        return self._net[page * PAGE : (page + 1) * PAGE]


class _OnThresholds(MistakeCounts):
    """Count for thresholds: rule i is positive from point i on."""

    cls: Cuts

    @property
    def size(self) -> int:
        return self.cls.size

    def rule(self, index: int) -> Hypothesis:
        return self.cls.rule(index)

    def _summed(self, net: Counts) -> Counts:
        from_here = np.zeros(self.size, dtype=np.int64)
        from_here[:-1] = np.cumsum(net[::-1])[::-1]
        return from_here


class _OnIntervals(MistakeCounts):
    """Count for intervals: rule 0 is never positive; the others go by last point, then by first."""

    cls: Intervals

    @property
    def size(self) -> int:
        return self.cls.size

    def rule(self, index: int) -> Hypothesis:
        if index == 0:
            return next(self.cls.hypotheses())
        # The inverse of the triangular numbers: intervals are listed by their last point.
        last = (isqrt(8 * (index - 1) + 1) - 1) // 2
        return self.cls.rule(index - 1 - last * (last + 1) // 2, last)

    def _summed(self, net: Counts) -> Counts:
        before = np.concatenate([[0], np.cumsum(net)])
        # All intervals at once: differences of prefix sums, the lower triangle of which is first <=
        # last.
        inside = before[1:, None] - before[None, :-1]
        return np.concatenate([[0], inside[np.tri(len(inside), dtype=bool)]])


class _OnTable(MistakeCounts):
    """Count with a table: every rule evaluated at every point, once."""

    def __init__(self, cls: HypothesisClass) -> None:
        super().__init__(cls)
        self._rules = list(cls.hypotheses())
        points = self.index.everywhere
        labels = np.empty((len(self._rules), self.index.points), dtype=np.uint8)
        for row, rule in zip(labels, self._rules, strict=True):
            row[:] = cls.predict(rule, points)
        self._labels = np.ascontiguousarray(labels.T)

    @property
    def size(self) -> int:
        return len(self._rules)

    def rule(self, index: int) -> Hypothesis:
        return self._rules[index]

    def _summed(self, net: Counts) -> Counts:
        total = np.zeros(self.size, dtype=np.int64)
        # Few points have counts in an epoch, so this is faster than a matrix product.
        for point in np.flatnonzero(net):
            total += net[point] * self._labels[point]
        return total


class _OnNegations(MistakeCounts):
    """Count for negations: each is positive where a rule of the class is not."""

    def __init__(self, cls: Complement) -> None:
        self._of = mistake_counts(cls.of)
        super().__init__(cls, self._of.index)

    @property
    def size(self) -> int:
        return self._of.size

    def rule(self, index: int) -> Hypothesis:
        return negation(self._of.rule(index))

    def _summed(self, net: Counts) -> Counts:
        return np.asarray(net.sum() - self._of._summed(net))


def mistake_counts(cls: HypothesisClass) -> MistakeCounts:
    """Return empty mistake counts for a finite class."""
    # Refused before any array is made: its size is what is refused.
    refusal = why_unsupported(checked_class(cls))
    if refusal is not None:
        raise TooLarge(refusal)
    match cls:
        case Cuts():
            return _OnThresholds(cls)
        case Intervals():
            return _OnIntervals(cls)
        case Complement():
            return _OnNegations(cls)
    return _OnTable(cls)


def why_unsupported(cls: HypothesisClass) -> str | None:
    """Return why the mistakes of every rule cannot be counted, or None if they can."""
    if cls.size is None:
        sentence = f"PrivateExperts draws from a list of all rules, and {cls!r} has infinitely many"
    elif cls.size > MOST_RULES:
        sentence = f"PrivateExperts scores at most {MOST_RULES:,} rules: {cls!r} has {cls.size:,}"
    elif isinstance(cls, Complement):
        return why_unsupported(cls.of)
    elif isinstance(cls, Cuts | Intervals):
        return None
    else:
        points = prod(len(values) for values in cls.domain().values())
        # A byte for each rule and point.
        if cls.size * points <= MOST_CELLS:
            return None
        table = f"{cls.size:,} rules x {points:,} points"
        sentence = f"a table of {table} has more than {MOST_CELLS:,} cells, the limit"
    return f"{sentence}: use DPSOA, which needs no list"
