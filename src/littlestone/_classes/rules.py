"""Provide rules: one `column = value`, where any value may occur.

Until the first positive row the rule is `never`; that row leaves n candidates, one for each column.
The dimension is 1 + floor(log2 n): an adversary can make each later mistake leave half of the
candidates, and the majority vote of the candidates leaves at most half at every mistake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from littlestone._classes.base import (
    INCONSISTENT,
    HypothesisClass,
    VersionSpace,
    fresh_value,
    reads_plain_rows,
)
from littlestone._hypotheses.cells import Kind, label
from littlestone._hypotheses.rows import Column, checked_columns, value_of
from littlestone._hypotheses.rules import NEVER, AtLeast, Hypothesis, OneOf, Pair, at_least, one_of
from littlestone._hypotheses.values import decode, encode, key_of
from littlestone.errors import BadClass

# How the candidates predict.
Guess = Literal["first", "majority"]
# A column and the canonical bytes of a value.
_KeyedPair = tuple[str, bytes]


class _VersionSpace(NamedTuple):
    """Hold the pairs that fit the mistakes so far."""

    candidates: tuple[_KeyedPair, ...] | None = None
    claim: _KeyedPair | None = None
    refuted: frozenset[_KeyedPair] = frozenset()
    order: tuple[str, ...] = ()


@reads_plain_rows
@dataclass(frozen=True)
class Rules(HypothesisClass):
    """Learn one `column = value` out of several columns, or `never`.

    Parameters
    ----------
    columns : sequence of str
        The columns to read.
    guess : {"first", "majority"}
        "first" publishes the first candidate in the order of the columns: proper, at most n
        mistakes, and copies agree as soon as their first candidates do. "majority" publishes the
        vote of all candidates: at most 1 + floor(log2 n) mistakes, but copies agree only when all
        their candidates do, so the private learner makes more mistakes with it.

    Examples
    --------
    >>> rules = Rules(["version", "country"])
    >>> state = rules.learn(rules.start(), {"version": "4.2.1", "country": "SE"}, 1)
    >>> print(rules.hypothesis(state))
    version = '4.2.1'
    >>> state = rules.learn(state, {"version": "4.2.1", "country": "NO"}, 0)
    >>> print(rules.hypothesis(state))
    country = 'SE'
    """

    _closed = True
    columns: Sequence[str]
    guess: Guess = "first"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", checked_columns(self.columns))
        if self.guess not in get_args(Guess):
            raise BadClass(f"guess is 'first' or 'majority': not {self.guess!r}")

    @property
    def dimension(self) -> int:
        return len(self.columns).bit_length()

    @property
    def mistake_bound(self) -> int:
        return self.dimension if self.guess == "majority" else len(self.columns)

    @property
    def most_releases(self) -> int | None:
        return 2 * len(self.columns) - 1 if self.guess == "first" else None

    def start(self) -> VersionSpace:
        return VersionSpace(_VersionSpace(order=tuple(self.columns)))

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        order: tuple[str, ...] = (self.start() if last is None else last).content.order
        match rule:
            case OneOf((value,), str(column)) if rule in self:
                # A column that was published and replaced is guessed last: the others come first.
                order = (*(name for name in order if name != column), column)
                return VersionSpace(_VersionSpace(claim=(column, encode(value)), order=order))
        return VersionSpace(_VersionSpace(order=order))

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        row, positive = self._pairs(x), label(y)
        if state == INCONSISTENT:
            return INCONSISTENT
        candidates, _, refuted, order = state.content
        if candidates is None and not positive:
            # A mistake on a negative row before any positive: the row refutes the claim, and no
            # pair of it can be the rule.
            return VersionSpace(_VersionSpace(refuted=refuted | set(row.values()), order=order))
        if candidates is None:
            # The first positive row names all candidates, less what a claim has refuted.
            pairs = tuple(row[name] for name in order if name in row and row[name] not in refuted)
        else:
            pairs = tuple(pair for pair in candidates if (row.get(pair[0]) == pair) == positive)
        return VersionSpace(_VersionSpace(pairs, order=order)) if pairs else INCONSISTENT

    def _pairs(self, x: object) -> dict[str, _KeyedPair]:
        """Return the pairs of a row that may be a rule, by column."""
        return {name: (name, key_of(value_of(x, name))) for name in self.columns}

    def check(self, x: object) -> None:
        for name in self.columns:
            key_of(value_of(x, name))

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return dict.fromkeys(self.columns, "value")

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        candidates, claim, *_ = state.content
        if candidates is None:
            return NEVER if claim is None else at_least(1, _decoded([claim]))
        if self.guess == "first":
            return at_least(1, _decoded(candidates[:1]))
        # A row is positive if more than half of the candidates are true of it.
        return at_least(len(candidates) // 2 + 1, _decoded(candidates))

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return self._only(one, other) or self._only(other, one)

    def _only(self, one: Hypothesis, other: Hypothesis) -> dict[str, object] | None:
        """Return a row that `one` accepts and `other` does not, or None."""
        count, pairs = _vote_of(one)
        _, other_pairs = _vote_of(other)
        keys = {(name, encode(value)) for name, value in other_pairs}
        # Just enough pairs of `one` hold, first those that give `other` no vote.
        unshared_first = sorted(pairs, key=lambda pair: (pair[0], encode(pair[1])) in keys)
        mentioned = [value for _, value in (*pairs, *other_pairs)]
        row: dict[str, object] = dict.fromkeys(self.columns, fresh_value(mentioned))
        row.update(unshared_first[:count])
        return row if one(row) and not other(row) else None

    def __contains__(self, rule: object) -> bool:
        match rule:
            case OneOf((_,), column):
                return column in self.columns
        return rule == NEVER

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        # A tree of this depth begins with rows that have one fresh value everywhere; after the
        # first positive one, rows by the bits of a column's number halve the columns.
        values = [f"v{number}" for number in range(1, self.dimension + 1)]
        rules = [NEVER, *(one_of([v], name) for name in self.columns for v in values)]
        everywhere = -1
        tests = [everywhere, *(1 << bit for bit in range(self.dimension - 1))]
        points: list[object] = [
            {
                name: v if test & (number + 1) else "other"
                for number, name in enumerate(self.columns)
            }
            for v in values
            for test in tests
        ]
        return rules, points


def _decoded(pairs: Sequence[_KeyedPair]) -> list[Pair]:
    return [(name, decode(key)) for name, key in pairs]


def _vote_of(rule: Hypothesis) -> tuple[int, list[Pair]]:
    """Return how many pairs must hold, and the pairs."""
    match rule:
        case OneOf((value,), str(column)):
            return 1, [(column, value)]
        case AtLeast(count, pairs):
            return count, list(pairs)
    return 1, []
