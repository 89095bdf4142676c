"""The prefix: a fresh flat forest over all rounds so far, whenever it is asked (Theorem 4.2).

Every ballot plants its trees anew, with coins of its own, and replays the whole prefix: O(t) a
ballot. It is replayed for all trees at once: a tree changes only where the rule of its state errs,
so trees in the same state look at those rounds alone. Where a rule errs, and what an example makes
of a state, is worked out once for all forests.

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
from littlestone.theory.classes import HypothesisClass, kinds_of, learn_row, predict_rows
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import Batch, as_batch, batch_length, packed, part_of, row_of, unpacked
from littlestone.theory.values import Mask, decode, encode

MOST_KEPT = 512
"""The states of which it is remembered where their rules err."""


class Prefix:
    """All rounds so far, and the votes of a forest planted on them. A machine; private."""

    def __init__(self, cls: HypothesisClass, trees: int, seed: int, *, fresh: bool = True) -> None:
        self.cls, self.trees, self.seed, self.fresh = cls, trees, seed, fresh
        self._parts: list[tuple[Batch, Mask, Numbers]] = []
        self._votes: Counter[Hypothesis] = Counter()
        self._replay = Replay(Learned(cls))
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
            self._votes = self._replay.votes(batch, answers, numbers, routes, self.trees)
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

    Some batches may come as columns and some as rows; a column that not all have is one that the
    class does not read.
    """
    columns = [isinstance(batch, dict) for batch in batches]
    if all(columns):
        names = [name for name in batches[0] if all(name in batch for batch in batches)]
        return {name: _column([batch[name] for batch in batches]) for name in names}
    return _column([_rows(batch) if isinstance(batch, dict) else batch for batch in batches])


def _rows(batch: Batch) -> npt.NDArray[Any]:
    """A batch of columns, as rows."""
    rows = np.empty(batch_length(batch), dtype=object)
    rows[:] = [row_of(batch, row) for row in range(len(rows))]
    return rows


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
        after, rule = learn_row(self.cls, self.states[state], x, y)
        spelled = pickle.dumps(after)
        if spelled not in self._numbers:
            self._numbers[spelled] = len(self.states)
            self.states.append(after)
            self.rules.append(rule)
            self._after.append({})
        self._after[state][number] = self._numbers[spelled]
        return self._numbers[spelled]


class _Errors:
    """Of one state: the rows seen so far, those on which its rule errs, and the states after these,
    -1 where nobody has asked yet."""

    def __init__(self) -> None:
        self.seen = 0
        self.rows: npt.NDArray[np.intp] = np.array([], dtype=np.intp)
        self.after: npt.NDArray[np.intp] = np.array([], dtype=np.intp)

    def see(self, wrong: Mask) -> None:
        """Take in the rows that have come since."""
        found = self.seen + np.flatnonzero(wrong)
        self.rows = np.concatenate([self.rows, found])
        self.after = np.concatenate([self.after, np.full(len(found), -1)])
        self.seen += len(wrong)


class Replay:
    """Replays a stream that grows, for one forest of flat trees after another.

    >>> from littlestone.theory.sets import Points
    >>> replay = Replay(Learned(Points()))
    >>> batch, answers = np.array([7, 3, 7]), np.array([True, False, True])
    >>> found = replay.votes(batch, answers, np.arange(3), np.array([0, 1, 2]), trees=4)
    >>> {str(rule): votes for rule, votes in found.items()}
    {'never': 2, 'x = 7': 2}
    """

    def __init__(self, learned: Learned) -> None:
        self._learned = learned
        self._known: dict[int, _Errors] = {}

    def votes(
        self, batch: Batch, answers: Mask, numbers: Numbers, routes: Any, trees: int
    ) -> Counter[Hypothesis]:
        """The votes of trees that were shown some rounds, each round to one tree. From call to call
        the rounds are the same, and more."""
        at = np.full(trees, -1)
        groups: dict[int, list[Any]] = {0: [np.arange(trees)]}
        votes: Counter[Hypothesis] = Counter()
        while groups:
            state, some = groups.popitem()
            rule, members = self._learned.rules[state], np.concatenate(some)
            if rule is None:
                continue
            errors = self._errors(state, rule, batch, answers)
            places = _first_errors(errors.rows, routes, at, members)
            erring = places < len(errors.rows)
            if not erring.all():
                votes[rule] += int((~erring).sum())
            surprised, places = members[erring], places[erring]
            at[surprised] = errors.rows[places]
            self._learn(state, errors, places, batch, answers, numbers)
            after = errors.after[places]
            for reached in np.unique(after).tolist():
                groups.setdefault(reached, []).append(surprised[after == reached])
        return votes

    def _errors(self, state: int, rule: Hypothesis, batch: Batch, answers: Mask) -> _Errors:
        """Where a state's rule errs. Kept for so many states: what is dropped is found again."""
        errors = self._known.setdefault(state, _Errors())
        if errors.seen < len(answers):
            new = slice(errors.seen, None)
            errors.see(predict_rows(self._learned.cls, rule, part_of(batch, new)) != answers[new])
        if len(self._known) > MOST_KEPT:
            self._known.pop(
                next((kept for kept in self._known if kept not in (0, state)), -1), None
            )
        return errors

    def _learn(
        self,
        state: int,
        errors: _Errors,
        places: Any,
        batch: Batch,
        answers: Mask,
        numbers: Numbers,
    ) -> None:
        """Work out the states after some errors that nobody has asked about."""
        known = self._learned.known(state)
        for place in places[errors.after[places] < 0].tolist():
            row = int(errors.rows[place])
            number = int(numbers[row])
            after = known.get(number)
            if after is None:
                x, y = row_of(batch, row), bool(answers[row])
                after = self._learned.learn(state, number, x, y)
            errors.after[place] = after


def _first_errors(rows: Any, routes: Any, at: Any, members: Any) -> Any:
    """For each of some trees, the place among the rows of its first one behind where it stands;
    their number when there is none."""
    waiting, first = np.zeros(len(at), dtype=bool), np.full(len(at), len(rows))
    waiting[members] = True
    trees = routes[rows]
    ahead = np.flatnonzero(waiting[trees] & (rows > at[trees]))[::-1]
    first[trees[ahead]] = ahead  # of a tree's several, the one written last stays: the first
    return first[members]
