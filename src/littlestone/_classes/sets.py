"""Provide points and sets: at most k positive values, out of an infinite domain.

The learner labels as positive the values whose positive label it has seen, and no others: at most
k mistakes, and k is the dimension (k distinct points are shattered by their subsets). It is
proper, and copies that have seen the same positives agree, in whatever order they came.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations

from littlestone._classes.base import (
    INCONSISTENT,
    HypothesisClass,
    VersionSpace,
    distinguishing_example,
    reads_plain_rows,
)
from littlestone._hypotheses.cells import Kind, label
from littlestone._hypotheses.rows import Column, checked_column, example, value_of
from littlestone._hypotheses.rules import NEVER, Hypothesis, OneOf, one_of
from littlestone._hypotheses.values import decode, encode, key_of, plain
from littlestone.errors import BadClass

# What the mistakes so far say about values, by key, each in order: the positive, claimed and refuted
# ones. Tuples of bytes, and nothing else: a forest holds many, and the garbage collector none.
_Keys = tuple[bytes, ...]
_Space = tuple[_Keys, _Keys, _Keys]


def _with(keys: _Keys, key: bytes) -> _Keys:
    return keys if key in keys else tuple(sorted((*keys, key)))


# A plan has a threshold for each value of a set.
LARGEST_K = 1_000_000


@reads_plain_rows
@dataclass(frozen=True)
class Sets(HypothesisClass):
    """Learn a set of at most `k` positive values, out of any domain.

    From `start` the learner makes at most k mistakes; from `restart(rule)` at most 2k, as each one
    shows a positive or refutes a claim. When there are more than k positives and claims, the claims
    with the largest keys are dropped, so that copies with the same mistakes stay equal.

    Parameters
    ----------
    k : int
        The largest number of positive values, at least 1.
    column : str, optional
        The column to read; None if an example is the value itself.

    Examples
    --------
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
            raise BadClass(f"k must be a whole number from 1 on, not {self.k!r}", "k")
        if k > LARGEST_K:
            raise BadClass(f"k must be at most {LARGEST_K:,}, not {k:,}", "k")
        object.__setattr__(self, "k", k)
        checked_column(self.column)

    @property
    def dimension(self) -> int:
        return self.k

    mistake_bound = most_releases = dimension

    def start(self) -> VersionSpace:
        return VersionSpace(((), (), ()))

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        # A published rule that the class does not contain gives no claims.
        claims = rule.values if isinstance(rule, OneOf) and rule in self else ()
        return VersionSpace(((), tuple(sorted(map(encode, claims))), ()))

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        key, positive_row = key_of(value_of(x, self.column)), label(y)
        if state.content is None:
            return INCONSISTENT
        space: _Space = state.content
        positive, claimed, refuted = space
        # The same value with both labels: no rule fits.
        if key in (refuted if positive_row else positive):
            return INCONSISTENT
        if key in claimed:
            claimed = tuple(claim for claim in claimed if claim != key)
        if not positive_row:
            return VersionSpace((positive, claimed, _with(refuted, key)))
        positive = _with(positive, key)
        if len(positive) > self.k:
            return INCONSISTENT
        # By key, not by order of arrival: copies with the same mistakes must stay equal.
        return VersionSpace((positive, claimed[: self.k - len(positive)], refuted))

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state.content is None:
            return None
        space: _Space = state.content
        # What `one_of` returns: these are keys of canonical values.
        values = tuple(map(decode, sorted(space[0] + space[1])))
        return OneOf(values, self.column) if values else NEVER

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return distinguishing_example(one, other, self.column)

    def check(self, x: object) -> None:
        key_of(value_of(x, self.column))

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return {self.column: "value"}

    def __contains__(self, rule: object) -> bool:
        return rule == NEVER or (
            isinstance(rule, OneOf) and rule.column == self.column and len(rule.values) <= self.k
        )

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        numbers = range(1, self.k + 1)
        subsets = chain.from_iterable(combinations(numbers, size) for size in range(self.k + 1))
        points = [example(number, self.column) for number in numbers]
        return [one_of(subset, self.column) for subset in subsets], points


@dataclass(frozen=True, init=False)
class Points(Sets):
    """Learn at most one positive value, out of any domain.

    Parameters
    ----------
    column : str, optional
        The column to read; None if an example is the value itself.

    Examples
    --------
    >>> Points().dimension
    1
    >>> Points(column="merchant")
    Points(column='merchant')
    """

    def __init__(self, column: Column = None) -> None:
        super().__init__(1, column)

    def __repr__(self) -> str:
        return f"Points(column={self.column!r})"
