"""Thresholds: `x >= cut` on a grid, with `always` and `never`.

N points make N + 1 rules. Binary search makes floor(log2(N + 1)) mistakes at most, and that is the
dimension: a mistake tree that halves the cuts left is shattered, and no tree with more than N + 1
leaves can be.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from littlestone.theory.classes import DEAD, HypothesisClass, State
from littlestone.theory.grids import OnGrid, OnPoints, nearest, shallowest
from littlestone.theory.hypothesis import ALWAYS, NEVER, Hypothesis
from littlestone.theory.rows import example, label, value_of
from littlestone.theory.vocabulary import Steps, between


class _Search(NamedTuple):
    """Hold the version space: the rules from `low` to `high`, by the index of their cut.

    `claim` is the index of the published rule that the learner restarted from, if any.
    """

    low: int
    high: int
    claim: int | None = None


class Cuts(OnPoints, HypothesisClass):
    """Learn `column >= cut` for a point but the first, with `always` and `never`.

    From `start` the learner makes at most `dimension` mistakes; from `restart(rule)`, where it
    searches near the rule first, at most (dimension + 1)(dimension + 2)/2.
    """

    _closed = True

    @property
    def size(self) -> int:
        return self.grid.count + 1

    @property
    def dimension(self) -> int:
        return self.size.bit_length() - 1

    @property
    def mistake_bound(self) -> int:
        return self.dimension

    def start(self) -> State:
        return State(_Search(0, self.size - 1))

    def restart(self, rule: Hypothesis) -> State:
        return State(_Search(0, self.size - 1, self._index(rule) if rule in self else None))

    def learn(self, state: State, x: object, y: object) -> State:
        index = self.grid.place(value_of(x, self.column))
        if state == DEAD:
            return DEAD
        low, high, claim = state.content
        if label(y):
            high = min(high, index)
        else:
            low = max(low, index + 1)
        return State(_Search(low, high, claim)) if low <= high else DEAD

    def hypothesis(self, state: State) -> Hypothesis | None:
        if state == DEAD:
            return None
        low, high, claim = state.content
        if claim is None:
            return self.rule(shallowest(low, high, self.size))
        return self.rule(nearest(low, high, claim, self.size))

    def rule(self, index: int) -> Hypothesis:
        """Return the rule whose positives begin at a point of the grid, by index."""
        # Kept, because a rule computes its key once, and rules are compared often.
        if index not in self._cache:
            self._cache[index] = self._make(index)
        return self._cache[index]

    @cached_property
    def _cache(self) -> dict[int, Hypothesis]:
        return {}

    def _make(self, index: int) -> Hypothesis:
        if index == self.grid.count:
            return NEVER
        return between(self.grid[index], None, self.column) if index else ALWAYS

    def _index(self, rule: Hypothesis) -> int:
        match rule:
            case Steps(False, (cut,), _):
                return self.grid.place(cut)
        return 0 if rule == ALWAYS else self.grid.count

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        first = min(self._index(one), self._index(other), self.grid.count - 1)
        return example(self.grid[first], self.column)

    def __contains__(self, rule: object) -> bool:
        return isinstance(rule, Hypothesis) and self.rule(self._index(rule)) == rule

    def hypotheses(self) -> Iterator[Hypothesis]:
        return map(self.rule, range(self.size))

    def skeleton(self) -> tuple[list[Hypothesis], list[object]]:
        # 2^dimension rules, spread evenly, and a point between each two neighbours: binary search.
        cuts = 1 << self.dimension
        rules = [self.rule(index * (self.size - 1) // (cuts - 1)) for index in range(cuts)]
        return rules, [self.disagreement(a, b) for a, b in pairwise(rules)]


@dataclass(frozen=True)
class Thresholds(OnGrid, Cuts):
    """Learn `column >= cut` for a cut on a grid, with `always` and `never`.

    Parameters
    ----------
    lo, hi : int or float
        The first and the last point of the grid.
    step : int or float
        The distance of two points, which divides hi - lo.
    column : str, optional
        The column to read; None if an example is the number itself.

    Examples
    --------
    >>> scores = Thresholds(0, 100, 5, column="score")
    >>> scores.dimension
    4
    >>> print(scores.hypothesis(scores.start()))
    score >= 55
    """
