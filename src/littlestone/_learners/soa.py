"""Learn without privacy: the baseline for private learners.

`SOA` is Littlestone's Standard Optimal Algorithm (Section 2.1); `Halving` takes the majority. What
they publish follows the data at once, so it is not private at all.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from littlestone._classes.base import HypothesisClass, VersionSpace, checked_class
from littlestone._classes.finite import FiniteClass, explicit
from littlestone._classes.rules import Rules
from littlestone._classes.union import Complement
from littlestone._data.schema import readable_batch
from littlestone._display import facts, side_by_side
from littlestone._hypotheses.cells import label
from littlestone._hypotheses.rows import batch_length, labels, part_of, row_of
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.base import Release, Releases
from littlestone._privacy.accounting import Guarantee
from littlestone.errors import BadExample

_FIRST_WINDOW = 64


class _Plain:
    """Run a class's own learner by itself."""

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
        shown = {
            "class": repr(self.cls),
            "rule": str(self._rule),
            "rounds": f"{self.rounds:,}",
            "guarantee": "none: the rules follow the data without noise",
        }
        note = "not private"
        return side_by_side([facts(type(self).__name__, shown, note), self.releases._repr_html_()])

    @property
    def hypothesis(self) -> Hypothesis:
        """Return the rule published for the next example."""
        return self._rule

    @property
    def releases(self) -> Releases:
        """Return the rules published so far, each with its first round."""
        return Releases(self._releases)

    @property
    def guarantee(self) -> Guarantee:
        """Return the guarantee: none, epsilon is infinite."""
        return Guarantee(math.inf, 1.0, noise="rules follow the data without noise")

    def predict_one(self, x: object) -> bool:
        """Predict the label of an example by the published rule."""
        self.cls.check(x)
        return self._rule(x)

    def predict_many(self, X: Any) -> Mask:
        """Predict the labels of a batch by the published rule."""
        return self.cls.predict(self._rule, readable_batch(self.cls, X))

    def learn_one(self, x: object, y: object) -> None:
        """Learn one labelled example."""
        self.cls.check(x)
        self._learn(x, label(y))

    def learn_many(self, X: Any, y: object) -> None:
        """Learn a batch of labelled examples, as if one after the other."""
        batch, answers = readable_batch(self.cls, X), labels(y)
        end = batch_length(batch)
        if end != len(answers):
            raise BadExample(f"{end} examples and {len(answers)} labels")
        # Windows double while the rule is right, so that many rounds cost one evaluation.
        at, window = 0, _FIRST_WINDOW
        while at < end:
            stop = min(end, at + window)
            predicted = self.cls.predict(self._rule, part_of(batch, slice(at, stop)))
            wrong = np.flatnonzero(predicted != answers[at:stop])
            if len(wrong):
                stop = at + int(wrong[0])
                self.rounds += stop - at
                self._learn(row_of(batch, stop), bool(answers[stop]))
                at, window = stop + 1, _FIRST_WINDOW
            else:
                self.rounds += stop - at
                at, window = stop, 2 * window

    def _learn(self, x: object, y: bool) -> None:
        # Conservative: the state changes on a mistake only.
        if self._rule(x) != y:
            self._correct(x, y)
        self.rounds += 1

    def _correct(self, x: object, y: bool) -> None:
        # If no rule fits all examples, start again with this one; if none fits it, without.
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

    def _rule_of(self, state: VersionSpace) -> Hypothesis:
        rule = self.cls.hypothesis(state)
        if rule is None:
            raise AssertionError(f"{self.cls!r} has no rule before the first example")
        return rule


class SOA(_Plain):
    """Learn by the Standard Optimal Algorithm: at most `dimension` mistakes when some rule fits.

    For tables, and for every family but unions and custom classes whose learner makes more mistakes
    than the dimension. Not private.

    Parameters
    ----------
    cls : HypothesisClass
        The class of rules.

    Examples
    --------
    >>> from littlestone._classes.thresholds import Thresholds
    >>> learner = SOA(Thresholds(0, 100, 5, column="score"))
    >>> for score in range(100):
    ...     learner.learn_one({"score": score}, score >= 70)
    >>> print(learner.hypothesis, "after", learner.mistakes, "mistakes")
    score >= 70 after 2 mistakes
    """

    def __init__(self, cls: HypothesisClass) -> None:
        super().__init__(_optimal(cls))


def _optimal(cls: HypothesisClass) -> HypothesisClass:
    """Return the class with a learner whose mistake bound is the dimension."""
    match checked_class(cls):
        case Rules() as rules:
            return replace(rules, guess="majority")
        case Complement(of):
            return Complement(_optimal(of))
        case FiniteClass() as table:
            return explicit(table, "soa")
    return cls if cls.mistake_bound == cls.dimension else explicit(cls, "soa")


def _by_majority(cls: HypothesisClass) -> HypothesisClass:
    """Return the class with the majority vote of its rules as its learner."""
    if isinstance(cls, Complement):
        return Complement(_by_majority(cls.of))
    return explicit(cls, "halving")


class Halving(_Plain):
    """Learn by the majority of the consistent rules: at most floor(log2 of their number) mistakes.

    For tables and families on a grid. Not private.

    Parameters
    ----------
    cls : HypothesisClass
        The class of rules.

    Examples
    --------
    >>> from littlestone._classes.intervals import Intervals
    >>> Halving(Intervals(1, 8)).cls.mistake_bound
    5
    """

    def __init__(self, cls: HypothesisClass) -> None:
        super().__init__(_by_majority(cls))
