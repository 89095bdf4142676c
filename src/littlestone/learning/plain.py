"""Learners without privacy: the floor that private ones are measured against.

`SOA` is Littlestone's Standard Optimal Algorithm (Section 2.1); `Halving` votes by head count. What
they publish follows the data at once, so it is not private at all.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from littlestone.learning.releases import Release, Releases
from littlestone.learning.rounds import readable_batch
from littlestone.privacy.accounting import Guarantee
from littlestone.theory.classes import HypothesisClass, State, checked_class
from littlestone.theory.combinations import Complement
from littlestone.theory.errors import BadExample
from littlestone.theory.finite import FiniteClass, explicit
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.notebook import facts, side_by_side
from littlestone.theory.rows import batch_length, label, labels, part_of, row_of
from littlestone.theory.rules import Rules
from littlestone.theory.values import Mask

_FIRST_WINDOW = 64


class _Plain:
    """A class's own learner, run by itself. When no rule fits what it was shown, it starts again,
    from the latest example if a rule fits that."""

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = checked_class(cls)
        self._state = cls.start()
        self._rule = self._rule_of(self._state)
        self._releases = [Release(1, self._rule)]
        self.rounds = 0
        self.mistakes = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cls!r}): {self._rule} (not private)"

    def _repr_html_(self) -> str:
        told = {
            "class": repr(self.cls),
            "rule": str(self._rule),
            "rounds": f"{self.rounds:,}",
            "guarantee": "none: the rules follow the data without noise",
        }
        note = "not private"
        return side_by_side([facts(type(self).__name__, told, note), self.releases._repr_html_()])

    @property
    def hypothesis(self) -> Hypothesis:
        """The rule published for the next example."""
        return self._rule

    @property
    def releases(self) -> Releases:
        """The rules published so far, each with the round from which it stood."""
        return Releases(self._releases)

    @property
    def guarantee(self) -> Guarantee:
        """None worth the name: epsilon is infinite."""
        return Guarantee(math.inf, 1.0, noise="rules follow the data without noise")

    def predict_one(self, x: object) -> bool:
        """What the published rule says of an example."""
        self.cls.check(x)
        return self._rule(x)

    def predict_many(self, X: Any) -> Mask:
        """What the published rule says of a batch."""
        return self.cls.predict(self._rule, readable_batch(self.cls, X))

    def learn_one(self, x: object, y: object) -> None:
        """See one example's label. A row that the class cannot read is refused."""
        self.cls.check(x)
        self._learn(x, label(y))

    def learn_many(self, X: Any, y: object) -> None:
        """See a batch of labels, as if one after the other; a bad batch changes nothing.

        Windows grow while the rule is right, so that a quiet stretch costs one evaluation.
        """
        batch, answers = readable_batch(self.cls, X), labels(y)
        end = batch_length(batch)
        if end != len(answers):
            raise BadExample(f"{end} examples and {len(answers)} labels")
        at, window = 0, _FIRST_WINDOW
        while at < end:
            stop = min(end, at + window)
            said = self.cls.predict(self._rule, part_of(batch, slice(at, stop)))
            wrong = np.flatnonzero(said != answers[at:stop])
            if len(wrong):
                stop = at + int(wrong[0])
                self.rounds += stop - at
                self._learn(row_of(batch, stop), bool(answers[stop]))
                at, window = stop + 1, _FIRST_WINDOW
            else:
                self.rounds += stop - at
                at, window = stop, 2 * window

    def _learn(self, x: object, y: bool) -> None:
        if self._rule(x) != y:
            self._correct(x, y)
        self.rounds += 1

    def _correct(self, x: object, y: bool) -> None:
        start = self.cls.start()
        tries = [self.cls.learn(self._state, x, y), start]
        if self._rule_of(start)(x) != y:
            tries.insert(1, self.cls.learn(start, x, y))
        self._state = next(state for state in tries if self.cls.hypothesis(state) is not None)
        self.mistakes += 1
        rule = self._rule_of(self._state)
        if rule != self._rule:
            self._rule = rule
            self._releases.append(Release(self.rounds + 2, rule))

    def _rule_of(self, state: State) -> Hypothesis:
        rule = self.cls.hypothesis(state)
        if rule is None:
            raise AssertionError(f"{self.cls!r} has no rule before any example")
        return rule


class SOA(_Plain):
    """The Standard Optimal Algorithm: at most `dimension` mistakes when some rule fits.

    For tables, and for every family but unions and classes of your own whose learner makes more
    mistakes than the dimension. Not private.

    >>> from littlestone.theory.thresholds import Thresholds
    >>> learner = SOA(Thresholds(0, 100, 5, column="score"))
    >>> for score in range(100):
    ...     learner.learn_one({"score": score}, score >= 70)
    >>> print(learner.hypothesis, "after", learner.mistakes, "mistakes")
    score >= 70 after 2 mistakes
    """

    def __init__(self, cls: HypothesisClass) -> None:
        super().__init__(_optimal(cls))


def _optimal(cls: HypothesisClass) -> HypothesisClass:
    """The class with a learner whose bound is the dimension."""
    match checked_class(cls):
        case Rules() as rules:
            return replace(rules, guess="majority")
        case Complement(of):
            return Complement(_optimal(of))
        case FiniteClass() as table:
            return explicit(table, "soa")
    return cls if cls.mistake_bound == cls.dimension else explicit(cls, "soa")


def _by_majority(cls: HypothesisClass) -> HypothesisClass:
    """The class with the vote of all its rules as its learner."""
    if isinstance(cls, Complement):
        return Complement(_by_majority(cls.of))
    return explicit(cls, "halving")


class Halving(_Plain):
    """The majority of the rules that still fit: at most floor(log2 of their number) mistakes.

    For tables and families on a grid. Not private.

    >>> from littlestone.theory.intervals import Intervals
    >>> Halving(Intervals(1, 8)).cls.mistake_bound
    5
    """

    def __init__(self, cls: HypothesisClass) -> None:
        super().__init__(_by_majority(cls))
