"""Points and sets: at most k positive values, on a domain without bounds.

The learner calls nothing positive until it is shown, then remembers the positives it was shown: at
most k mistakes, and k is the dimension (k distinct points are shattered by their subsets). It is
proper, and copies that were shown the same positives agree at once, in whatever order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from typing import NamedTuple

from littlestone.theory.classes import DEAD, HypothesisClass, State, differ
from littlestone.theory.errors import BadClass
from littlestone.theory.hypothesis import NEVER, Hypothesis
from littlestone.theory.membership import readable
from littlestone.theory.rows import (
    Batch,
    Column,
    Kind,
    checked,
    column_of,
    example,
    label,
    value_of,
)
from littlestone.theory.values import Mask, decode, encode, key_of, plain
from littlestone.theory.vocabulary import OneOf, one_of


class _Known(NamedTuple):
    """By key: the positives shown, those a published rule claims untested, the claims refuted."""

    shown: frozenset[bytes] = frozenset()
    claimed: frozenset[bytes] = frozenset()
    refuted: frozenset[bytes] = frozenset()


@dataclass(frozen=True)
class Sets(HypothesisClass):
    """At most `k` positive values, out of any domain.

    From `start` the learner makes at most k mistakes; from `restart(rule)` at most 2k, as each one
    shows a positive or refutes a claim. When they are too many, the claims with the largest keys
    go first, so that copies with the same news stay equal.

    >>> merchants = Sets(2, column="merchant")
    >>> state = merchants.learn(merchants.start(), {"merchant": "M"}, 1)
    >>> print(merchants.hypothesis(state))
    merchant = 'M'
    """

    _closed = True
    k: int
    column: Column = None

    def __post_init__(self) -> None:
        k = plain(self.k)
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise BadClass(f"k is a whole number from 1 on: {self.k!r} is not", "k")
        object.__setattr__(self, "k", k)
        checked(self.column)

    @property
    def dimension(self) -> int:
        return self.k

    @property
    def mistake_bound(self) -> int:
        return self.k

    def start(self) -> State:
        return State(_Known())

    def restart(self, rule: Hypothesis) -> State:
        claims = rule.values if isinstance(rule, OneOf) and rule in self else ()
        return State(_Known(claimed=frozenset(map(encode, claims))))

    def learn(self, state: State, x: object, y: object) -> State:
        key = key_of(value_of(x, self.column))
        if state == DEAD:
            return DEAD
        shown, claimed, refuted = state.content
        if label(y):
            return self._room_for(_Known(shown | {key}, claimed - {key}, refuted))
        if key in shown:
            return DEAD
        return State(_Known(shown, claimed - {key}, refuted | {key}))

    def _room_for(self, known: _Known) -> State:
        if known.shown & known.refuted or len(known.shown) > self.k:
            return DEAD
        kept = sorted(known.claimed)[: self.k - len(known.shown)]
        return State(known._replace(claimed=frozenset(kept)))

    def hypothesis(self, state: State) -> Hypothesis | None:
        if state == DEAD:
            return None
        known: _Known = state.content
        return one_of(map(decode, known.shown | known.claimed), self.column)

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return differ(one, other, self.column)

    def check(self, x: object) -> None:
        key_of(value_of(x, self.column))

    def readable(self, batch: Batch) -> Mask:
        return readable(column_of(batch, self.column))

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return {self.column: "value"}

    def __contains__(self, rule: object) -> bool:
        return rule == NEVER or (
            isinstance(rule, OneOf) and rule.column == self.column and len(rule.values) <= self.k
        )

    def skeleton(self) -> tuple[list[Hypothesis], list[object]]:
        numbers = range(1, self.k + 1)
        subsets = chain.from_iterable(combinations(numbers, size) for size in range(self.k + 1))
        points = [example(number, self.column) for number in numbers]
        return [one_of(subset, self.column) for subset in subsets], points


@dataclass(frozen=True, init=False)
class Points(Sets):
    """At most one positive value, out of any domain.

    >>> Points().dimension
    1
    >>> Points(column="merchant")
    Points(column='merchant')
    """

    def __init__(self, column: Column = None) -> None:
        super().__init__(1, column)

    def __repr__(self) -> str:
        return f"Points(column={self.column!r})"
