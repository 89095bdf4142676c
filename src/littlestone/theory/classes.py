"""The hypothesis-class protocol, and what every family shares.

A class brings its own learner A (Section 2.1): a mistake-bounded, conservative learner, written as
pure functions on states. `learn` is called on a mistake only, and from then on the learner is right
on that example, so a mistake always changes its hypothesis. On a sample that no hypothesis of the
class fits, A answers None (the paper's bottom).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count, product
from typing import Any, Protocol

from littlestone.theory.errors import TooLarge
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import Column
from littlestone.theory.values import Mask, Plain, encode


@dataclass(frozen=True, repr=False)
class State:
    """What a learner remembers. It is a digest of somebody's data, so it never prints."""

    content: Any

    def __repr__(self) -> str:
        return "State(private)"


DEAD = State(None)
"""The state after an inconsistent sample: its hypothesis is None, for ever."""


class HypothesisClass(Protocol):
    """A set of hypotheses and a learner for it. Inherit to get the defaults."""

    @property
    def dimension(self) -> int:
        """The Littlestone dimension: the depth of the deepest shattered mistake tree."""
        ...

    @property
    def mistake_bound(self) -> int:
        """How many mistakes the learner makes at most on a sample that the class fits."""
        ...

    def start(self) -> State:
        """The state before any example."""
        ...

    def learn(self, state: State, x: object, y: object) -> State:
        """The state after a mistake on (x, y)."""
        ...

    def hypothesis(self, state: State) -> Hypothesis | None:
        """The rule of a state, or None when the sample was inconsistent."""
        ...

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        """An example on which two different rules differ."""
        ...

    def __contains__(self, rule: object) -> bool:
        """Whether a rule belongs to the class. A learner may publish rules that do not."""
        ...

    def predict(self, rule: Hypothesis, X: Any) -> Mask:
        """What a rule says of a batch."""
        return rule.predict(X)

    def restart(self, rule: Hypothesis) -> State:
        """A state that predicts as a published rule does; `start()` where a family has none."""
        return self.start()

    @property
    def size(self) -> int | None:
        """How many rules; None when there is no end of them."""
        return None

    def hypotheses(self) -> Iterator[Hypothesis]:
        """Every rule of a finite class, once."""
        raise TooLarge(f"{self!r} has no end of rules to list")

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        """For each column that a finite class reads, the values that tell its rules apart."""
        raise TooLarge(f"{self!r} has no end of values to list")

    def skeleton(self) -> tuple[list[Hypothesis], list[object]]:
        """A small finite part with the dimension of the whole: hypotheses, and points to tell
        them apart. It is what a shattered tree is made from."""
        raise TooLarge(f"{self!r} does not say which finite part of it has its dimension")


def points_of(domain: Mapping[Column, Iterable[Plain]]) -> list[object]:
    """Every example over a domain: values, or rows where it has columns.

    >>> points_of({None: (1, 2)}), points_of({"a": (1, 2)}), points_of({})
    ([1, 2], [{'a': 1}, {'a': 2}], [None])
    """
    if not domain or None in domain:
        return list(domain.get(None, [None]))
    return [dict(zip(domain, row, strict=True)) for row in product(*domain.values())]


def differ(one: Hypothesis, other: Hypothesis) -> object:
    """An example on which two rules differ, searched over the values that they mention.

    Requires: different rules. The search is over a product of columns, so a family whose rules
    read many columns has its own way.

    >>> from littlestone.theory.vocabulary import ALWAYS, between, one_of
    >>> differ(one_of(["a"], "c"), one_of(["a", "b"], "c")), differ(ALWAYS, between(3, None))
    ({'c': 'b'}, None)
    """
    mentioned: dict[Column, dict[bytes, Plain]] = {}
    for column, some in chain(one.mentions().items(), other.mentions().items()):
        mentioned.setdefault(column, {}).update((encode(value), value) for value in some)
    domain = {
        column: (*found.values(), unlike(found.values())) for column, found in mentioned.items()
    }
    for x in points_of(domain):
        if one(x) != other(x):
            return x
    raise AssertionError(f"{one} and {other} agree on all that they mention")


def unlike(some: Iterable[Plain]) -> int:
    """A value that is none of these. It is a whole number, which every family can read.

    >>> unlike(["a"]), unlike([0, 1, 1.0])
    (0, 2)
    """
    taken = {encode(value) for value in some}
    return next(number for number in count() if encode(number) not in taken)
