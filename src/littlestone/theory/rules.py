"""Rules: one `column = value`, with vocabularies without bounds.

Until the first positive row the answer is `never`; that row leaves n candidates, one a column. The
dimension is 1 + floor(log2 n): each later mistake can be made to leave half of the candidates, and
the majority vote of the candidates leaves at most half at every mistake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from littlestone.theory.classes import DEAD, HypothesisClass, State, unlike
from littlestone.theory.errors import BadClass
from littlestone.theory.hypothesis import NEVER, Hypothesis
from littlestone.theory.membership import every, readable
from littlestone.theory.rows import Batch, Column, Kind, checked_columns, column_of, label, value_of
from littlestone.theory.values import Mask, decode, encode, key_of
from littlestone.theory.vocabulary import AtLeast, OneOf, Pair, at_least, one_of

Guess = Literal["first", "majority"]
_Keyed = tuple[str, bytes]


class _Known(NamedTuple):
    """`candidates`: None before a positive row, else the pairs that fit. `claim`: the pair of a
    published rule, untested. `refuted`: the pairs of the negative row that refuted a claim."""

    candidates: tuple[_Keyed, ...] | None = None
    claim: _Keyed | None = None
    refuted: frozenset[_Keyed] = frozenset()


@dataclass(frozen=True)
class Rules(HypothesisClass):
    """One `column = value` out of several columns, or `never`.

    `guess="first"` (the default) publishes the first candidate in the order of the columns: proper,
    at most n mistakes, and copies agree as soon as they are down to the same first column.
    `guess="majority"` publishes the vote of all candidates: at most 1 + floor(log2 n) mistakes, but
    copies agree only when all their candidates do, so the private learner does worse with it.

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

    def start(self) -> State:
        return State(_Known())

    def restart(self, rule: Hypothesis) -> State:
        match rule:
            case OneOf((value,), str(column)) if rule in self:
                return State(_Known(claim=(column, encode(value))))
        return self.start()

    def learn(self, state: State, x: object, y: object) -> State:
        row, positive = self._pairs(x), label(y)
        if state == DEAD:
            return DEAD
        candidates, _, refuted = state.content
        if candidates is None and not positive:
            return State(_Known(refuted=refuted | set(row)))
        if candidates is None:
            left = tuple(pair for pair in row if pair not in refuted)
        else:
            left = tuple(pair for pair in candidates if (pair in row) == positive)
        return State(_Known(left)) if left else DEAD

    def _pairs(self, x: object) -> dict[_Keyed, None]:
        """The pairs of a row, in the order of the columns."""
        return dict.fromkeys((name, key_of(value_of(x, name))) for name in self.columns)

    def check(self, x: object) -> None:
        for name in self.columns:
            key_of(value_of(x, name))

    def readable(self, batch: Batch) -> Mask:
        return every(readable(column_of(batch, name)) for name in self.columns)

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return dict.fromkeys(self.columns, "value")

    def hypothesis(self, state: State) -> Hypothesis | None:
        if state == DEAD:
            return None
        candidates, claim, _ = state.content
        if candidates is None:
            return NEVER if claim is None else at_least(1, _spelt([claim]))
        if self.guess == "first":
            return at_least(1, _spelt(candidates[:1]))
        return at_least(len(candidates) // 2 + 1, _spelt(candidates))

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return self._only(one, other) or self._only(other, one)

    def _only(self, one: Hypothesis, other: Hypothesis) -> dict[str, object] | None:
        """A row that `one` accepts and `other` does not: pairs of `one` only come first."""
        count, pairs = _counted(one)
        theirs = {(name, encode(value)) for name, value in _counted(other)[1]}
        shared = sorted(pairs, key=lambda pair: (pair[0], encode(pair[1])) in theirs)
        mentioned = [value for _, value in (*pairs, *_counted(other)[1])]
        row: dict[str, object] = dict.fromkeys(self.columns, unlike(mentioned))
        row.update(shared[:count])
        return row if one(row) and not other(row) else None

    def __contains__(self, rule: object) -> bool:
        match rule:
            case OneOf((_,), column):
                return column in self.columns
        return rule == NEVER

    def skeleton(self) -> tuple[list[Hypothesis], list[object]]:
        """A fresh value a round; the bits of a column's number tell the columns apart."""
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


def _spelt(pairs: Sequence[_Keyed]) -> list[Pair]:
    return [(name, decode(key)) for name, key in pairs]


def _counted(rule: Hypothesis) -> tuple[int, list[Pair]]:
    match rule:
        case OneOf((value,), str(column)):
            return 1, [(column, value)]
        case AtLeast(count, pairs):
            return count, list(pairs)
    return 1, []
