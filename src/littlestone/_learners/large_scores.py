"""Score the rules of classes that are too large for a list: intervals of long grids, vocabularies.

Rules that no row has touched have the same score, and rules that the published rules do not tell
apart have the same prior: both form groups, and only groups take memory and time. The prior is a
function of the published rules, through their *groups*.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._classes.intervals import Intervals
from littlestone._classes.vocabulary import VocabularyRules
from littlestone._hypotheses.rows import Batch, column_of
from littlestone._hypotheses.rules import NEVER, Hypothesis, OneOf
from littlestone._hypotheses.values import Mask, encode
from littlestone._learners.base import ChangedState, StateData
from littlestone._learners.rounds import Numbers
from littlestone._learners.scores import (
    MOST_RULES,
    NOT_IN_DOMAIN,
    PAGE,
    Counts,
    DomainIndex,
    MistakeCounts,
    mistake_counts,
    place_values,
    why_unsupported,
)
from littlestone._privacy.stay import STAY
from littlestone._privacy.structured import GroupScores, PairScores, free_place, pair_of

Floats = npt.NDArray[np.float64]

# The most cuts of the grid that the prior keeps: with more it begins again.
MOST_CUTS = 128


class Refinement(NamedTuple):
    """Hold how the groups of a prior are divided after a release. Public."""

    parents: npt.NDArray[np.intp] | None
    sizes: Floats


class LargeCounts(MistakeCounts):
    """Count the mistakes of the rules of a large class, by groups."""

    def rule(self, index: int) -> Hypothesis:
        """Return a rule, by its index in the public order."""
        raise NotImplementedError

    def _summed(self, net: Counts) -> Counts:
        raise NotImplementedError("there are too many rules for a list")

    @property
    @abstractmethod
    def group_sizes(self) -> Floats:
        """Return how many rules each group of the prior has."""

    @abstractmethod
    def refine(self, old: Hypothesis, new: Hypothesis) -> Refinement:
        """Divide the groups of the prior so that each agrees or disagrees as a whole."""

    @abstractmethod
    def group_of(self, rule: Hypothesis) -> int:
        """Return the group of a published rule, once `refine` has seen it. Public."""

    @abstractmethod
    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key in the draw."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Return what the list of rules is, as text. Public."""

    def _penalty(self, group: int) -> int:
        return int(self.penalised if isinstance(self.penalised, int) else self.penalised[group])


class IntervalCounts(LargeCounts):
    """Count for intervals on a long grid: pairs a < b, positive from point a to point b - 1."""

    cls: Intervals

    def __init__(self, cls: Intervals) -> None:
        self.cls = cls
        self._place = DomainIndex(cls)
        self._net = np.zeros(self._place.points, dtype=np.int64)
        self._positives = 0
        self._cleared, self._changed = True, set[int]()
        self._cuts: list[int] = []

    @property
    def size(self) -> int:
        return self.cls.size

    @property
    def description(self) -> str:
        return repr(self.cls)

    def rule(self, index: int) -> Hypothesis:
        # By the last point, then by the first, as in the list of a small class.
        if index == 0:
            return NEVER
        last = _triangular_root(index - 1)
        return self.cls.rule(index - 1 - last * (last + 1) // 2, last)

    def named(self, key: bytes) -> Hypothesis:
        pair = pair_of(key)
        return NEVER if pair is None else self.cls.rule(pair[0], pair[1] - 1)

    @property
    def ballot(self) -> PairScores:  # type: ignore[override]
        """Return the scores of all intervals, and of `never`."""
        prefix = np.concatenate([[0], np.cumsum(self._net)])
        starts = self._starts()
        penalties = np.zeros((len(starts), len(starts)), dtype=np.int64)
        if not isinstance(self.penalised, int):
            penalties[np.triu_indices(len(starts))] = self.penalised[1:]
        # Positives are mistakes of every rule: a common term, which moves no probability.
        rule = self.standing
        stay = None if rule is None else self._positives - self.mistakes_of(rule)
        return PairScores(prefix, starts, penalties, -self._penalty(0), stay)

    def _starts(self) -> npt.NDArray[np.int64]:
        """Return where cells begin: each cut is a cell, and what is between two is one."""
        edges = {0} | {at for cut in self._cuts for at in (cut, cut + 1)}
        return np.array(sorted(edge for edge in edges if edge <= self.cls.grid.count))

    @property
    def group_sizes(self) -> Floats:
        starts = self._starts()
        lengths = np.diff(np.append(starts, self.cls.grid.count + 1)).astype(float)
        pairs = np.outer(lengths, lengths)
        np.fill_diagonal(pairs, lengths * (lengths - 1) / 2)
        return np.concatenate([[1.0], pairs[np.triu_indices(len(starts))]])

    def refine(self, old: Hypothesis, new: Hypothesis) -> Refinement:
        before = self._starts()
        cuts = sorted({*self._cuts, *self._ends(old), *self._ends(new)})
        if len(cuts) > MOST_CUTS:
            self._cuts = sorted({*self._ends(old), *self._ends(new)})
            return Refinement(None, self.group_sizes)
        self._cuts = cuts
        after = self._starts()
        old_cell = np.searchsorted(before, after, side="right") - 1
        # The numbers of the groups of pairs of cells, in the order of `triu_indices`.
        numbers = np.zeros((len(before), len(before)), dtype=np.intp)
        numbers[np.triu_indices(len(before))] = np.arange(
            1, 1 + len(before) * (len(before) + 1) // 2
        )
        x, y = np.triu_indices(len(after))
        parents = np.concatenate([[0], numbers[old_cell[x], old_cell[y]]])
        return Refinement(parents.astype(np.intp), self.group_sizes)

    def group_of(self, rule: Hypothesis) -> int:
        ends = self._ends(rule)
        if not ends:
            return 0
        starts = self._starts()
        x, y = (int(np.searchsorted(starts, end, side="right")) - 1 for end in ends)
        # The place of (x, y) in the order of `triu_indices`, after `never`.
        return 1 + x * len(starts) - x * (x - 1) // 2 + y - x

    def _ends(self, rule: Hypothesis) -> tuple[int, ...]:
        if rule == NEVER:
            return ()
        first, last = self.cls.ends(rule)
        return first, last + 1

    def agreement_with(self, old: Hypothesis, new: Hypothesis) -> Mask:
        """Return which groups agree with one rule wherever it differs from another. Public."""
        starts = self._starts()
        last = np.append(starts[1:], self.cls.grid.count + 1) - 1
        x, y = np.triu_indices(len(starts))
        # Any pair of a group stands for all: cuts are cells of their own.
        a, b = starts[x], last[y]
        agree, never = np.ones(len(a), dtype=bool), True
        edges = sorted({*self._ends(old), *self._ends(new)})
        for s, e in pairwise(edges):
            was, is_now = (_covers(self._ends(rule), s, e) for rule in (old, new))
            if was and not is_now:
                agree &= (a <= s) & (b >= e)
                never = False
            elif is_now and not was:
                agree &= (b <= s) | (a >= e)
        return np.concatenate([[never], agree])


class VocabularyCounts(LargeCounts):
    """Count for rules over public vocabularies: only pairs that some row held take memory."""

    cls: VocabularyRules

    def __init__(self, cls: VocabularyRules) -> None:
        self.cls = cls
        sizes = [len(values) for values in cls.vocabularies]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._nets: dict[int, int] = {}
        self._positives = 0
        self._cleared, self._changed = True, set[int]()
        # Groups of the prior: `never`, the rest of each column, then pairs that were published.
        self._published: list[int] = []

    @property
    def size(self) -> int:
        return self.cls.size

    @property
    def description(self) -> str:
        return f"{self.cls!r} {self.cls.digest}"

    def rule(self, index: int) -> Hypothesis:
        if index == self.size - 1:
            return NEVER
        column = int(np.searchsorted(self._offsets, index, side="right")) - 1
        return self.cls.rule(column, index - int(self._offsets[column]))

    def named(self, key: bytes) -> Hypothesis:
        return self.rule(int.from_bytes(key))

    def _number(self, rule: Hypothesis) -> int | None:
        """Return the number of a rule; None for `never`."""
        match rule:
            case OneOf((value,), str(column)):
                at = list(self.cls.columns).index(column)
                return int(self._offsets[at]) + self.cls.places[at][encode(value)]
        return None

    @property
    def ballot(self) -> "_VocabularyBallot":  # type: ignore[override]
        """Return the scores of all rules: touched and published ones, and the rest of columns."""
        return _VocabularyBallot(self)

    @property
    def group_sizes(self) -> Floats:
        taken = np.searchsorted(np.sort(np.array(self._published, dtype=np.int64)), self._offsets)
        rest = np.diff(self._offsets) - np.diff(taken)
        return np.concatenate([[1], rest, np.ones(len(self._published))]).astype(float)

    def refine(self, old: Hypothesis, new: Hypothesis) -> Refinement:
        parents = list(range(len(self.group_sizes)))
        for rule in (old, new):
            number = self._number(rule)
            if number is not None and number not in self._published:
                parents.append(1 + self._column(number))
                self._published.append(number)
        return Refinement(np.array(parents, dtype=np.intp), self.group_sizes)

    def group_of(self, rule: Hypothesis) -> int:
        number = self._number(rule)
        return 0 if number is None else 1 + len(self.cls.columns) + self._published.index(number)

    def mistakes_of(self, rule: Hypothesis) -> int:
        """Return the mistakes of one rule."""
        number = self._number(rule)
        return self._positives + (0 if number is None else self._nets.get(number, 0))

    def _column(self, number: int) -> int:
        return int(np.searchsorted(self._offsets, number, side="right")) - 1

    def agreement_with(self, old: Hypothesis, new: Hypothesis) -> Mask:
        """Return which groups agree with one rule wherever it differs from another. Public."""
        was, is_now = self._number(old), self._number(new)
        columns = len(self.cls.columns)
        agree = np.zeros(1 + columns + len(self._published), dtype=bool)
        if was is None and is_now is not None:
            column = self._column(is_now)
            agree[0] = agree[1 + column] = True
            for place, number in enumerate(self._published):
                agree[1 + columns + place] = number != is_now and self._column(number) == column
        elif was is not None:
            agree[1 + columns + self._published.index(was)] = True
        return agree

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> None:
        """Count rounds."""
        missed, alarm = self.costs
        signed = np.where(answers, -missed, alarm)
        for at, name in enumerate(self.cls.columns):
            found = place_values(column_of(batch, name), self.cls.places[at])
            inside = found != NOT_IN_DOMAIN
            numbers, where = np.unique(found[inside] + self._offsets[at], return_inverse=True)
            sums = np.zeros(len(numbers), dtype=np.int64)
            np.add.at(sums, where, signed[inside])
            for number, net in zip(numbers.tolist(), sums.tolist(), strict=True):
                self._nets[number] = self._nets.get(number, 0) + net
                self._changed.add(number // PAGE)
        self._positives += missed * int(answers.sum())

    def restart(self, published: Hypothesis) -> None:
        """Discard all rounds."""
        self._nets, self._positives = {}, 0
        self._cleared, self._changed = True, set()

    def unsaved(self) -> ChangedState:
        """Return the counts of pages that have changed since the last call, as pairs."""
        pages: dict[int, list[tuple[int, int]]] = {page: [] for page in sorted(self._changed)}
        for number, net in sorted(self._nets.items()) if pages else ():
            if number // PAGE in pages:
                pages[number // PAGE].append((number, net))
        parts = {page: np.array(pairs, "<i8").tobytes() for page, pairs in pages.items()}
        found = ChangedState(self._cleared, parts)
        self._cleared, self._changed = False, set()
        return found

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Restore the counts that were saved."""
        self._positives, self._cleared = live["positives"], False
        for part in parts.values():
            self._nets |= dict(np.frombuffer(part, "<i8").reshape(-1, 2).tolist())


class _VocabularyBallot:
    """Hold the scores of all rules over vocabularies, relative to an untouched rule. Private."""

    def __init__(self, counts: VocabularyCounts) -> None:
        columns = len(counts.cls.columns)
        single = {number: 1 + columns + at for at, number in enumerate(counts._published)}
        self._offsets, self._never = counts._offsets, counts.size - 1
        self._numbers = sorted({*single, *counts._nets})
        listed = np.array(self._numbers, dtype=np.int64)
        self._ends = np.searchsorted(listed, counts._offsets)
        # Positives are mistakes of every untouched rule: a common term, which moves no probability.
        scores = [-counts._penalty(0)]
        scores += [-counts._penalty(1 + column) for column in range(columns)]
        scores += [
            -counts._nets.get(number, 0)
            - counts._penalty(single.get(number, 1 + counts._column(number)))
            for number in self._numbers
        ]
        rest = (np.diff(counts._offsets) - np.diff(self._ends)).tolist()
        sizes = [1, *rest, *[1] * len(self._numbers)]
        # Staying with the published rule is a group of its own, the last one.
        self._stay = None if counts.standing is None else len(sizes)
        if counts.standing is not None:
            scores.append(counts._positives - counts.mistakes_of(counts.standing))
            sizes.append(1)
        self.groups = GroupScores(scores, sizes)

    def draw(self, rate: Any, noise: Any, release: int) -> bytes:
        """Draw the key of a rule."""
        group, place = self.groups.draw_member(rate, noise, release)
        return STAY if group == self._stay else self.number_of(group, place).to_bytes(8)

    def number_of(self, group: int, place: int) -> int:
        """Return the number of the rule at a place of a group."""
        columns = len(self._offsets) - 1
        if group == 0:
            return int(self._never)
        if group > columns:
            return self._numbers[group - 1 - columns]
        offset = int(self._offsets[group - 1])
        taken = self._numbers[self._ends[group - 1] : self._ends[group]]
        return offset + free_place(place, [number - offset for number in taken])


def rule_counts(cls: HypothesisClass) -> MistakeCounts:
    """Return empty mistake counts for a finite class, by groups where its list is too long."""
    checked_class(cls)
    if isinstance(cls, VocabularyRules):
        return VocabularyCounts(cls)
    refusal = why_unsupported(cls)
    if refusal is None and isinstance(cls, Intervals) and cls.size > MOST_RULES:
        return IntervalCounts(cls)
    return mistake_counts(cls)


def _triangular_root(place: int) -> int:
    return (isqrt(8 * place + 1) - 1) // 2


def _covers(ends: Sequence[int], start: int, end: int) -> bool:
    return bool(ends) and ends[0] <= start and end <= ends[1]
