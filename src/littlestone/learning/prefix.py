"""The prefix: a fresh flat forest over all rounds so far, whenever it is asked (Theorem 4.2).

Every ballot plants its trees anew, with coins of its own, and replays the whole prefix: O(t) a
ballot. It is replayed for all trees at once: trees in the same state look for their next error in
one vectorised pass, and what an example makes of a state is worked out once for all forests.

Promises: given the coins, a replaced round moves at most one vote of each ballot, as a round
reaches one tree of each forest.
"""

import pickle
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.learning.coins import Purpose, below, coins
from littlestone.learning.rounds import Numbers
from littlestone.learning.saving import Live, Unsaved
from littlestone.theory.classes import HypothesisClass, kinds_of
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import Batch, as_batch, packed, part_of, row_of, unpacked
from littlestone.theory.values import Mask, decode, encode


class Prefix:
    """All rounds so far, and the votes of a forest planted on them. A machine; private."""

    def __init__(self, cls: HypothesisClass, trees: int, seed: int, *, fresh: bool = True) -> None:
        self.cls, self.trees, self.seed, self.fresh = cls, trees, seed, fresh
        self._parts: list[tuple[Batch, Mask, Numbers]] = []
        self._votes: Counter[Hypothesis] = Counter()
        self._learned = Learned(cls)
        self._new: list[tuple[Batch, Mask, Numbers]] = []
        self._saved = 0

    def __repr__(self) -> str:
        return f"Prefix({self.cls!r}, private)"

    def learn(self, batch: Batch, answers: Mask, numbers: Numbers) -> None:
        """Take some rounds in, each with its number."""
        self._parts.append((batch, answers, numbers))
        self._new.append((batch, answers, numbers))

    def ballot(self, planted: int) -> Mapping[bytes, int]:
        """The votes of forest number `planted`, by key; unless fresh, all have the same coins."""
        if not self._parts:
            first = self.cls.hypothesis(self.cls.start())
            self._votes = Counter() if first is None else Counter({first: self.trees})
        else:
            batch, answers, numbers = self._joined()
            address = planted if self.fresh else 0
            routes = below(self.trees, coins(self.seed, Purpose.TREE, address, numbers))
            self._votes = replayed(self._learned, batch, answers, numbers, routes, self.trees)
        return {rule.key: votes for rule, votes in self._votes.items()}

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """The votes of the forest planted last. Private."""
        return self._votes

    def named(self, key: bytes) -> Hypothesis:
        """The rule of a key that some tree voted for."""
        return next(rule for rule in self._votes if rule.key == key)

    def live(self) -> Live:
        """Nothing but rounds, which are in parts."""
        return {}

    def unsaved(self) -> Unsaved:
        """The rounds that came since this was asked last, as one part."""
        rows = [
            (packed(row_of(batch, row)), bool(answers[row]), int(numbers[row]))
            for batch, answers, numbers in self._new
            for row in range(len(answers))
        ]
        self._new = []
        if not rows:
            return Unsaved(False, {})
        self._saved += 1
        return Unsaved(False, {self._saved: encode(tuple(rows))})

    def revive(self, live: Live, parts: Mapping[int, bytes]) -> None:
        """Take in the rounds that were saved."""
        for number in sorted(parts):
            rows: Any = decode(parts[number])
            xs, answers, numbers = zip(*rows, strict=True)
            batch = as_batch(list(map(unpacked, xs)), kinds_of(self.cls))
            self.learn(batch, np.array(answers), np.array(numbers))
            self._saved = number
        self._new = []

    def _joined(self) -> tuple[Batch, Mask, Numbers]:
        if len(self._parts) > 1:
            batches, answers, numbers = zip(*self._parts, strict=True)
            joined = _concatenated(batches), np.concatenate(answers), np.concatenate(numbers)
            self._parts = [joined]
        return self._parts[0]


def _concatenated(batches: Any) -> Batch:
    """Batches in a row; where their types differ, as objects, so that 1 and 1.0 stay two values.
    A column that one of them lacks is none that the class reads."""
    if isinstance(batches[0], dict):
        names = [name for name in batches[0] if all(name in batch for batch in batches)]
        return {name: _column([batch[name] for batch in batches]) for name in names}
    return _column(batches)


def _column(arrays: Any) -> npt.NDArray[Any]:
    if len({array.dtype for array in arrays}) > 1:
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)


class Learned:
    """What the class's learner makes of an example in a state, worked out once for all forests.

    States are numbered as they come up; 0 is the start. A round has one example for good, so its
    number stands for it. States are told apart by their bytes: a class may keep values as they
    came, and 1 == True, so that equal states may lead to different rules.
    """

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls
        self.states, self._numbers = [cls.start()], {pickle.dumps(cls.start()): 0}
        self.rules = [cls.hypothesis(cls.start())]
        self._after: list[dict[int, int]] = [{}]

    def known(self, state: int) -> dict[int, int]:
        """The states after some rounds, as far as they have been worked out."""
        return self._after[state]

    def learn(self, state: int, number: int, x: object, y: bool) -> int:
        """The state after round `number`, which holds (x, y)."""
        after = self.cls.learn(self.states[state], x, y)
        spelled = pickle.dumps(after)
        if spelled not in self._numbers:
            self._numbers[spelled] = len(self.states)
            self.states.append(after)
            self.rules.append(self.cls.hypothesis(after))
            self._after.append({})
        self._after[state][number] = self._numbers[spelled]
        return self._numbers[spelled]


def replayed(
    learned: Learned, batch: Batch, answers: Mask, numbers: Numbers, routes: Any, trees: int
) -> Counter[Hypothesis]:
    """The votes of flat trees that were shown some rounds, each round to one tree.

    >>> from littlestone.theory.sets import Points
    >>> batch, answers = np.array([7, 3, 7]), np.array([True, False, True])
    >>> found = replayed(Learned(Points()), batch, answers, np.arange(3), [0, 1, 2], 4)
    >>> {str(rule): votes for rule, votes in found.items()}
    {'never': 2, 'x = 7': 2}
    """
    order = np.argsort(routes, kind="stable")
    shown, labels, rounds = part_of(batch, order), answers[order], numbers[order]
    ends = np.cumsum(np.bincount(routes, minlength=trees))
    at = np.concatenate([[0], ends[:-1]])
    groups: dict[int, list[int]] = {0: list(range(trees))}
    votes: Counter[Hypothesis] = Counter()
    while groups:
        state, some = groups.popitem()
        rule, members = learned.rules[state], np.array(some)
        if rule is None:
            continue
        error = _next_errors(learned.cls.predict(rule, shown) != labels)[at[members]]
        erring = error < ends[members]
        if not erring.all():
            votes[rule] += int((~erring).sum())
        surprised, rows = members[erring], error[erring]
        at[surprised] = rows + 1
        known = learned.known(state)
        for tree, row, number in zip(
            surprised.tolist(), rows.tolist(), rounds[rows].tolist(), strict=True
        ):
            after = known.get(number)
            if after is None:
                after = learned.learn(state, number, row_of(shown, row), bool(labels[row]))
            groups.setdefault(after, []).append(tree)
    return votes


def _next_errors(wrong: Mask) -> Any:
    """For each place, and the one behind the last, the first error from there on."""
    places = np.where(wrong, np.arange(len(wrong)), len(wrong))
    return np.append(np.minimum.accumulate(places[::-1])[::-1], len(wrong))
