"""Count the mistakes that every rule of a finite class would have made. Private.

A replaced round moves the mistakes of each rule by at most one, so they are scores for the
exponential mechanism (Theorem 6, sensitivity 1). What is kept is one number for each point of the
domain: negative labels less positive ones. Then a rule's mistakes are all positives plus the sum of
these numbers over the points that it says yes to: a prefix sum for thresholds and intervals, a
table for the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import isqrt, prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from littlestone.learning.placing import NOWHERE, Placing
from littlestone.learning.rounds import Numbers
from littlestone.learning.saving import Live, Unsaved
from littlestone.theory.classes import HypothesisClass, checked_class
from littlestone.theory.combinations import Complement
from littlestone.theory.errors import TooLarge
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.intervals import Intervals
from littlestone.theory.rows import Batch
from littlestone.theory.thresholds import Cuts
from littlestone.theory.values import Mask
from littlestone.theory.vocabulary import negation

Counts: TypeAlias = npt.NDArray[np.int64]

PAGE = 512
"""Counts that are saved together."""
MOST_RULES = 4_000_000
MOST_CELLS = 200_000_000
"""The largest table, in bytes."""


def index_key(index: int) -> bytes:
    """Return the key of a rule in the draw: its index in the public order of the class.

    >>> index_key(258)
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02'
    """
    return index.to_bytes(8)


class Evidence(ABC):
    """Count the mistakes of every rule of a finite class since it was last cleared.

    `penalised` is public: it counts as so many more mistakes of each rule.

    Parameters
    ----------
    cls
        The class.
    """

    penalised: Counts | int = 0

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls
        self._place = Placing(cls)
        self._net = np.zeros(self._place.points, dtype=np.int64)
        self._positives = 0
        self._cleared, self._changed = True, set[int]()

    def __repr__(self) -> str:
        return f"Evidence({self.cls!r}, private)"

    @property
    @abstractmethod
    def size(self) -> int:
        """Return how many rules there are."""

    @abstractmethod
    def rule(self, index: int) -> Hypothesis:
        """Return a rule, by its index in the public order."""

    @abstractmethod
    def _summed(self, net: Counts) -> Counts:
        """Return, for each rule, the sum of what is given at the points that it says yes to."""

    @property
    def mistakes(self) -> Counts:
        """Return the mistakes of each rule, in the public order."""
        return self._positives + self._summed(self._net)

    @property
    def ballot(self) -> Counts:
        """Return the scores of all rules: minus their mistakes, minus what is `penalised`."""
        return -self.mistakes - self.penalised

    def siding(self, old: Hypothesis, new: Hypothesis) -> Mask:
        """Return which rules agree with one rule wherever it differs from another. Public.

        Parameters
        ----------
        old
            The rule to agree with.
        new
            The rule it differs from.

        Returns
        -------
        array of bool
            The answer for each rule, in the public order.
        """
        was, is_now = (self.cls.predict(rule, self._place.everywhere) for rule in (old, new))
        differ = was != is_now
        net = np.where(differ, np.where(is_now, -1, 1), 0)
        wrong = int((differ & is_now).sum()) + self._summed(net)
        return np.asarray(wrong == differ.sum())

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return nothing: there are no trees to vote."""
        return {}

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> None:
        """Count rounds.

        Parameters
        ----------
        batch
            The examples.
        answers
            Their labels.
        routes
            Ignored: there are no trees to route to.
        """
        places = self._place(batch)
        inside = places != NOWHERE
        np.add.at(self._net, places[inside], np.where(answers[inside], -1, 1))
        self._changed |= set(np.unique(places[inside] // PAGE).tolist())
        self._positives += int(answers[inside].sum())

    def may_be_surprised(self, x: object, y: bool, right: Hypothesis) -> bool:
        """Return True: every example counts, for some rule.

        Parameters
        ----------
        x
            The example.
        y
            Its label.
        right
            A rule that predicts it.

        Returns
        -------
        bool
            Always True.
        """
        return True

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key in the draw."""
        return self.rule(int.from_bytes(key))

    def restart(self, published: Hypothesis) -> None:
        """Forget all rounds."""
        self._net[:] = 0
        self._positives = 0
        self._cleared, self._changed = True, set()

    def live(self) -> Live:
        """Return the number of positives, which count for rules that say yes nowhere."""
        return {"positives": self._positives}

    def unsaved(self) -> Unsaved:
        """Return the pages of counts that have changed since the last call."""
        parts = {page: self._page(page).astype("<i8").tobytes() for page in sorted(self._changed)}
        found = Unsaved(self._cleared, parts)
        self._cleared, self._changed = False, set()
        return found

    def revive(self, live: Live, parts: Mapping[int, bytes]) -> None:
        """Restore the counts that were saved.

        Parameters
        ----------
        live
            What `live` returned.
        parts
            The pages, by number.
        """
        self._positives, self._cleared = live["positives"], False
        for page, part in parts.items():
            self._page(page)[:] = np.frombuffer(part, "<i8")

    def _page(self, page: int) -> Counts:
        return self._net[page * PAGE : (page + 1) * PAGE]


class _OnThresholds(Evidence):
    """Count for thresholds: rule i says yes from point i on."""

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


class _OnIntervals(Evidence):
    """Count for intervals: rule 0 never says yes; the others go by last point, then by first."""

    cls: Intervals

    @property
    def size(self) -> int:
        return self.cls.size

    def rule(self, index: int) -> Hypothesis:
        if index == 0:
            return next(self.cls.hypotheses())
        last = (isqrt(8 * (index - 1) + 1) - 1) // 2
        return self.cls.rule(index - 1 - last * (last + 1) // 2, last)

    def _summed(self, net: Counts) -> Counts:
        before = np.concatenate([[0], np.cumsum(net)])
        inside = before[1:, None] - before[None, :-1]
        return np.concatenate([[0], inside[np.tri(len(inside), dtype=bool)]])


class _OnTable(Evidence):
    """Count with a table: every rule evaluated at every point, once."""

    def __init__(self, cls: HypothesisClass) -> None:
        super().__init__(cls)
        self._rules = list(cls.hypotheses())
        points = self._place.everywhere
        said = np.empty((len(self._rules), self._place.points), dtype=np.uint8)
        for row, rule in zip(said, self._rules, strict=True):
            row[:] = cls.predict(rule, points)
        self._says = np.ascontiguousarray(said.T)

    @property
    def size(self) -> int:
        return len(self._rules)

    def rule(self, index: int) -> Hypothesis:
        return self._rules[index]

    def _summed(self, net: Counts) -> Counts:
        total = np.zeros(self.size, dtype=np.int64)
        for point in np.flatnonzero(net):
            total += net[point] * self._says[point]
        return total


class _OfComplement(Evidence):
    """Count for negations: they err where the class errs on the labels exchanged."""

    def __init__(self, cls: Complement) -> None:
        self.cls = cls
        self._of = evidence(cls.of)

    @property
    def size(self) -> int:
        return self._of.size

    def rule(self, index: int) -> Hypothesis:
        return negation(self._of.rule(index))

    @property
    def mistakes(self) -> Counts:
        return self._of.mistakes

    def _summed(self, net: Counts) -> Counts:
        return self._of._summed(net)

    def siding(self, old: Hypothesis, new: Hypothesis) -> Mask:
        return self._of.siding(negation(old), negation(new))

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> None:
        self._of.learn(batch, ~answers, routes)

    def restart(self, published: Hypothesis) -> None:
        self._of.restart(published)

    def live(self) -> Live:
        return self._of.live()

    def unsaved(self) -> Unsaved:
        return self._of.unsaved()

    def revive(self, live: Live, parts: Mapping[int, bytes]) -> None:
        self._of.revive(live, parts)


def evidence(cls: HypothesisClass) -> Evidence:
    """Return empty mistake counts for a finite class.

    Parameters
    ----------
    cls
        The class.

    Returns
    -------
    Evidence
        The counts.

    Raises
    ------
    TooLarge
        If they cannot be kept for every rule.

    Examples
    --------
    >>> from littlestone.theory.thresholds import Thresholds
    >>> found = evidence(Thresholds(1, 3))
    >>> found.learn(np.array([1, 2, 3, 3]), np.array([False, True, True, True]), np.arange(4))
    >>> found.mistakes, print(found.rule(1))
    x >= 2
    (array([1, 0, 1, 3]), None)
    """
    refusal = why_not(checked_class(cls))
    if refusal is not None:
        raise TooLarge(refusal)
    match cls:
        case Cuts():
            return _OnThresholds(cls)
        case Intervals():
            return _OnIntervals(cls)
        case Complement():
            return _OfComplement(cls)
    return _OnTable(cls)


def why_not(cls: HypothesisClass) -> str | None:
    """Return why the mistakes of every rule cannot be kept, or None if they can.

    >>> from littlestone.theory.sets import Points
    >>> print(why_not(Points()))
    PrivateExperts draws from a list of all rules, and Points(column=None) has infinitely many: ...
    """
    if cls.size is None:
        sentence = f"PrivateExperts draws from a list of all rules, and {cls!r} has infinitely many"
    elif cls.size > MOST_RULES:
        sentence = f"PrivateExperts weighs at most {MOST_RULES:,} rules: {cls!r} has {cls.size:,}"
    elif isinstance(cls, Complement):
        return why_not(cls.of)
    elif isinstance(cls, Cuts | Intervals):
        return None
    else:
        points = prod(len(values) for values in cls.domain().values())
        if cls.size * points <= MOST_CELLS:
            return None
        table = f"{cls.size:,} rules x {points:,} points"
        sentence = f"a table of {table} is above {MOST_CELLS:,} cells, the most that is written out"
    return f"{sentence}: use DPSOA, which asks for no list"
