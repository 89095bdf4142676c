"""Learners without privacy: the floor that private ones are measured against.

`SOA` is Littlestone's Standard Optimal Algorithm (Section 2.1); `Halving` votes by head count. What
they publish follows the data at once, so it is not private at all.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from littlestone.learning.releases import Release
from littlestone.theory.classes import HypothesisClass, State
from littlestone.theory.combinations import Complement
from littlestone.theory.errors import BadExample
from littlestone.theory.finite import explicit
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import label, labels, row_at, row_count, rows_between
from littlestone.theory.rules import Rules
from littlestone.theory.values import Mask

_FIRST_WINDOW = 64


class _Plain:
    """A class's own learner, run by itself. When no rule fits what it was shown, it starts again,
    from the latest example if a rule fits that."""

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls
        self._state = cls.start()
        self._rule = self._rule_of(self._state)
        self.rounds = 0
        self.mistakes = 0
        self.releases = [Release(1, self._rule)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cls!r}): {self._rule} (not private)"

    @property
    def hypothesis(self) -> Hypothesis:
        """The rule published for the next example."""
        return self._rule

    def predict_one(self, x: object) -> bool:
        """What the published rule says of an example."""
        return self._rule(x)

    def predict_many(self, X: Any) -> Mask:
        """What the published rule says of a batch."""
        return self.cls.predict(self._rule, X)

    def learn_one(self, x: object, y: object) -> None:
        """See one example's label."""
        wrong = self._rule(x) != label(y)
        if wrong:
            self._correct(x, y)
        self.rounds += 1

    def learn_many(self, X: Any, y: object) -> None:
        """See a batch of labels, as if one after the other; a bad batch changes nothing."""
        before = dict(vars(self), releases=list(self.releases))
        try:
            self._learn_many(X, labels(y))
        except Exception:
            vars(self).update(before)
            raise

    def _learn_many(self, X: Any, answers: Mask) -> None:
        """Windows grow while the rule is right, so that a quiet stretch costs one evaluation."""
        end = row_count(X)
        if end != len(answers):
            raise BadExample(f"{end} examples and {len(answers)} labels")
        at, window = 0, _FIRST_WINDOW
        while at < end:
            stop = min(end, at + window)
            said = self.cls.predict(self._rule, rows_between(X, at, stop))
            wrong = np.flatnonzero(said != answers[at:stop])
            if len(wrong):
                stop = at + int(wrong[0])
                self.rounds += stop - at
                self.learn_one(row_at(X, stop), answers[stop])
                at, window = stop + 1, _FIRST_WINDOW
            else:
                self.rounds += stop - at
                at, window = stop, 2 * window

    def _correct(self, x: object, y: object) -> None:
        start = self.cls.start()
        tries = [self.cls.learn(self._state, x, y), start]
        if self._rule_of(start)(x) != label(y):
            tries.insert(1, self.cls.learn(start, x, y))
        self._state = next(state for state in tries if self.cls.hypothesis(state) is not None)
        self._rule = self._rule_of(self._state)
        self.mistakes += 1
        self.releases.append(Release(self.rounds + 2, self._rule))

    def _rule_of(self, state: State) -> Hypothesis:
        rule = self.cls.hypothesis(state)
        if rule is None:
            raise AssertionError(f"{self.cls!r} has no rule before any example")
        return rule


class SOA(_Plain):
    """The Standard Optimal Algorithm: at most `dimension` mistakes when some rule fits.

    Not private.

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
    match cls:
        case Rules():
            return replace(cls, guess="majority")
        case Complement(of):
            return Complement(_optimal(of))
    return cls if cls.mistake_bound == cls.dimension else explicit(cls, "soa")


class Halving(_Plain):
    """The majority of the rules that still fit: at most floor(log2 of their number) mistakes.

    For finite classes over one column. Not private.

    >>> from littlestone.theory.intervals import Intervals
    >>> Halving(Intervals(1, 8)).cls.mistake_bound
    5
    """

    def __init__(self, cls: HypothesisClass) -> None:
        super().__init__(explicit(cls, "halving"))
