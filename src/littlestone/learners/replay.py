"""Keep all rounds so far, and grow a fresh flat forest on them for every query (Theorem 4.2).

Every query grows new trees with random bits of their own and replays the whole prefix: O(t) a
query. All trees are replayed at once: a tree changes only where the rule of its state is wrong, so
trees in the same state read those rounds only. Where a rule is wrong, and the state after an
example, are computed once for all forests.

Given the random bits, a replaced round moves at most one vote of each query, as a round goes to one
tree of each forest (docs/guarantee.md, Theorem 11).
"""

import pickle
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.classes.base import HypothesisClass, kinds_of, learn_row, predict_rows
from littlestone.hypotheses.base import Hypothesis
from littlestone.hypotheses.rows import (
    Batch,
    as_batch,
    batch_length,
    packed,
    part_of,
    row_of,
    unpacked,
)
from littlestone.hypotheses.values import Mask, decode, encode
from littlestone.learners.base import ChangedState, StateData
from littlestone.learners.rounds import Numbers
from littlestone.learners.tree import Purpose, below, random_bits

# The most states for which the errors of their rules are cached.
MOST_STATES_CACHED = 512


class Prefix:
    """Hold all rounds so far, and the votes of a forest grown on them. Private.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    trees : int
        The trees of each forest.
    seed : int
        Fixes the routing of rounds.
    fresh : bool
        Whether each forest has random bits of its own.
    """

    def __init__(self, cls: HypothesisClass, trees: int, seed: int, *, fresh: bool = True) -> None:
        self.cls, self.trees, self.seed, self.fresh = cls, trees, seed, fresh
        self._parts: list[tuple[Batch, Mask, Numbers]] = []
        self._votes: Counter[Hypothesis] = Counter()
        self._replay = Replay(Learned(cls))
        self._new: list[tuple[Batch, Mask, Numbers]] = []
        self._saved = 0

    def __repr__(self) -> str:
        return f"Prefix({self.cls!r}, private)"

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> None:
        """Add some rounds; they are routed by their numbers."""
        self._parts.append((batch, answers, routes))
        self._new.append((batch, answers, routes))

    def ballot(self, number: int) -> Mapping[bytes, int]:
        """Return the votes, by key, of the forest with this number."""
        # No round yet: every tree votes for the first rule.
        if not self._parts:
            first = self.cls.hypothesis(self.cls.start())
            self._votes = Counter() if first is None else Counter({first: self.trees})
        else:
            batch, answers, numbers = self._joined()
            # `EveryRound` reuses one address: that is all that distinguishes it (Theorem 11).
            address = number if self.fresh else 0
            routes = below(self.trees, random_bits(self.seed, Purpose.TREE, address, numbers))
            self._votes = self._replay.votes(batch, answers, numbers, routes, self.trees)
        return {rule.key: votes for rule, votes in self._votes.items()}

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return the votes of the last forest. Private."""
        return self._votes

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that some tree voted for."""
        return next(rule for rule in self._votes if rule.key == key)

    def get_state(self) -> StateData:
        """Return nothing: all rounds are in parts."""
        return {}

    def unsaved(self) -> ChangedState:
        """Return the rounds since the last call, as one part."""
        rows = [
            (packed(row_of(batch, row)), bool(answers[row]), int(numbers[row]))
            for batch, answers, numbers in self._new
            for row in range(len(answers))
        ]
        self._new = []
        if not rows:
            return ChangedState(False, {})
        self._saved += 1
        return ChangedState(False, {self._saved: encode(tuple(rows))})

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load the saved rounds."""
        for number in sorted(parts):
            rows: Any = decode(parts[number])
            xs, answers, numbers = zip(*rows, strict=True)
            batch = as_batch(list(map(unpacked, xs)), kinds_of(self.cls))
            self.learn(batch, np.array(answers), np.array(numbers))
            self._saved = number
        self._new = []

    def _joined(self) -> tuple[Batch, Mask, Numbers]:
        """Join the parts into one, once."""
        if len(self._parts) > 1:
            batches, answers, numbers = zip(*self._parts, strict=True)
            joined = _concatenated(batches), np.concatenate(answers), np.concatenate(numbers)
            self._parts = [joined]
        return self._parts[0]


def _concatenated(batches: Any) -> Batch:
    """Concatenate batches.

    Some may come as columns and some as rows; a column that not all have is one that the class does
    not read.
    """
    columns = [isinstance(batch, dict) for batch in batches]
    if all(columns):
        names = [name for name in batches[0] if all(name in batch for batch in batches)]
        return {name: _column([batch[name] for batch in batches]) for name in names}
    return _column([_rows(batch) if isinstance(batch, dict) else batch for batch in batches])


def _rows(batch: Batch) -> npt.NDArray[Any]:
    """Return a batch of columns as rows."""
    rows = np.empty(batch_length(batch), dtype=object)
    rows[:] = [row_of(batch, row) for row in range(len(rows))]
    return rows


def _column(arrays: Any) -> npt.NDArray[Any]:
    """Concatenate arrays; of different types as objects, so that 1 and 1.0 stay two values."""
    if len({array.dtype for array in arrays}) > 1:
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)


class Learned:
    """Cache the states of the class's learner after each example, for all forests.

    States are numbered as they occur; 0 is the start. A round has one example for good, so its
    number stands for it.
    """

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls
        # States are identified by their bytes: a class may keep values as they came, and
        # 1 == True, so that equal states may lead to different rules.
        self.states, self._numbers = [cls.start()], {pickle.dumps(cls.start()): 0}
        self.rules = [cls.hypothesis(cls.start())]
        self._after: list[dict[int, int]] = [{}]

    def known(self, state: int) -> dict[int, int]:
        """Return the known states after some rounds, by round number."""
        return self._after[state]

    def learn(self, state: int, number: int, x: object, y: bool) -> int:
        """Compute the state after a round.

        Parameters
        ----------
        state : int
            The number of the state before it.
        number : int
            The number of the round.
        x : object
            Its example.
        y : bool
            Its label.
        """
        after, rule = learn_row(self.cls, self.states[state], x, y)
        data = pickle.dumps(after)
        if data not in self._numbers:
            self._numbers[data] = len(self.states)
            self.states.append(after)
            self.rules.append(rule)
            self._after.append({})
        self._after[state][number] = self._numbers[data]
        return self._numbers[data]


class _Errors:
    """Hold, of one state: the rows read, those its rule gets wrong, and the states after these.

    A state that is not computed yet is -1.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.rows: npt.NDArray[np.intp] = np.array([], dtype=np.intp)
        self.after: npt.NDArray[np.intp] = np.array([], dtype=np.intp)

    def see(self, wrong: Mask) -> None:
        """Add the errors among new rows."""
        found = self.seen + np.flatnonzero(wrong)
        self.rows = np.concatenate([self.rows, found])
        self.after = np.concatenate([self.after, np.full(len(found), -1)])
        self.seen += len(wrong)


class Replay:
    """Replay a growing stream, for one forest of flat trees after another.

    >>> from littlestone.classes.sets import Points
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
        """Return the votes of a forest after some rounds.

        Parameters
        ----------
        batch : Batch
            The examples; from call to call the same ones, and more.
        answers : Mask
            Their labels.
        numbers : Numbers
            The numbers of their rounds.
        routes : array of int
            The tree of each round.
        trees : int
            The number of trees.
        """
        at = np.full(trees, -1)
        groups: dict[int, list[Any]] = {0: [np.arange(trees)]}
        votes: Counter[Hypothesis] = Counter()
        while groups:
            # Trees in one state are handled together: there are far fewer states than trees.
            state, some = groups.popitem()
            rule, members = self._learned.rules[state], np.concatenate(some)
            if rule is None:
                continue
            errors = self._errors(state, rule, batch, answers)
            places = _first_errors(errors.rows, routes, at, members)
            erring = places < len(errors.rows)
            if not erring.all():
                votes[rule] += int((~erring).sum())
            moving, places = members[erring], places[erring]
            at[moving] = errors.rows[places]
            self._learn(state, errors, places, batch, answers, numbers)
            after = errors.after[places]
            for reached in np.unique(after).tolist():
                groups.setdefault(reached, []).append(moving[after == reached])
        return votes

    def _errors(self, state: int, rule: Hypothesis, batch: Batch, answers: Mask) -> _Errors:
        """Return where a state's rule is wrong; cached for `MOST_STATES_CACHED` states."""
        # Only new rows are evaluated: rows are appended and never change.
        errors = self._known.setdefault(state, _Errors())
        if errors.seen < len(answers):
            new = slice(errors.seen, None)
            errors.see(predict_rows(self._learned.cls, rule, part_of(batch, new)) != answers[new])
        # The state that was just read, and the start, are always needed again.
        if len(self._known) > MOST_STATES_CACHED:
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
        """Compute the states after some errors that are not known yet."""
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
    """Return, for each of some trees, the place among `rows` of its first one after `at`.

    Their number when there is none.
    """
    waiting, first = np.zeros(len(at), dtype=bool), np.full(len(at), len(rows))
    waiting[members] = True
    trees = routes[rows]
    ahead = np.flatnonzero(waiting[trees] & (rows > at[trees]))[::-1]
    # Places are in falling order, so of several of one tree the first place is assigned last.
    first[trees[ahead]] = ahead
    return first[members]
