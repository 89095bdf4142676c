"""Provide conjunctions: ands of boolean columns, negated or not, and `never`.

The learner publishes the most specific conjunction that fits and drops the literals that a positive
row contradicts. With negation it begins with `never` (every literal at once): n + 1 mistakes at
most, and that is the dimension. Without, it begins with all columns: n, and that is the dimension.
It is proper, and a copy's rule depends on its positives as a set, never on their order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import NamedTuple

from littlestone._classes.base import INCONSISTENT, HypothesisClass, VersionSpace, reads_plain_rows
from littlestone._hypotheses.cells import Kind, label, truth_of
from littlestone._hypotheses.rows import Column, checked_columns, value_of
from littlestone._hypotheses.rules import ALWAYS, NEVER, All, Hypothesis, Literal, all_of
from littlestone._hypotheses.values import Plain
from littlestone.errors import BadClass

_Literals = frozenset[Literal]


class _VersionSpace(NamedTuple):
    """Hold what the mistakes so far leave."""

    literals: _Literals
    claim: _Literals | None = None
    refuted: _Literals | None = None


# The state without negation when even the conjunction of all columns accepted a negative row.
_ONLY_NEVER = VersionSpace("only never is left")


@reads_plain_rows
@dataclass(frozen=True)
class Conjunctions(HypothesisClass):
    """Learn an "and" of (negated) boolean columns, with `always` and `never`.

    Parameters
    ----------
    columns : sequence of str
        The boolean columns to read.
    negation : bool
        Whether rules may negate a column.

    Examples
    --------
    >>> likes = Conjunctions(["new", "vip"])
    >>> state = likes.learn(likes.start(), {"new": True, "vip": False}, 1)
    >>> print(likes.hypothesis(state), "|", likes.dimension)
    new and not vip | 3
    """

    _closed = True
    columns: Sequence[str]
    negation: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", checked_columns(self.columns))
        if not isinstance(self.negation, bool):
            raise BadClass(f"negation is True or False: {self.negation!r} is not", "negation")

    @property
    def size(self) -> int:
        return int((3 if self.negation else 2) ** len(self.columns)) + 1

    @property
    def dimension(self) -> int:
        return len(self.columns) + self.negation

    mistake_bound = most_releases = dimension

    def _literals(self) -> _Literals:
        return frozenset(product(self.columns, (True, False) if self.negation else (True,)))

    def start(self) -> VersionSpace:
        return VersionSpace(_VersionSpace(self._literals()))

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        if rule not in self or rule == NEVER:
            return self.start()
        return VersionSpace(_VersionSpace(self._literals(), frozenset(_literals_of(rule))))

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        holds = frozenset(literal for literal in self._literals() if all_of([literal])(x))
        positive = label(y)
        if state in (INCONSISTENT, _ONLY_NEVER):
            return INCONSISTENT
        literals, claim, refuted = state.content
        if positive:
            literals &= holds
        elif claim is not None:
            claim, refuted = None, holds
        else:
            refuted = holds
        # Without a claim the rule is the most specific conjunction that fits, so if it accepts a
        # negative row, every other conjunction that fits does. Only `never` may be left: with
        # negation it is the start itself, which accepts no row.
        if refuted is not None and literals <= refuted:
            return _ONLY_NEVER if literals == self._literals() else INCONSISTENT
        return VersionSpace(_VersionSpace(literals, claim, refuted))

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        if state == _ONLY_NEVER:
            return NEVER
        literals, claim, _ = state.content
        return all_of(literals if claim is None else literals & claim)

    def check(self, x: object) -> None:
        for name in self.columns:
            truth_of(value_of(x, name), name)

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return dict.fromkeys(self.columns, "truth")

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return self._only(one, other) or self._only(other, one)

    def _only(self, one: Hypothesis, other: Hypothesis) -> dict[str, bool] | None:
        """Return a row that `one` accepts and `other` does not, or None."""
        # Every literal of `other` violated, unless `one` needs it.
        violated = {name: not truth for name, truth in _literals_of(other)}
        row = dict.fromkeys(self.columns, True) | violated | dict(_literals_of(one))
        return row if one(row) and not other(row) else None

    def __contains__(self, rule: object) -> bool:
        if isinstance(rule, All):
            return self._literals() >= set(rule.literals)
        return rule in (ALWAYS, NEVER)

    def hypotheses(self) -> Iterator[Hypothesis]:
        yield NEVER
        for values in product((None, True, False) if self.negation else (None, True),
                              repeat=len(self.columns)):  # fmt: skip
            pairs = zip(self.columns, values, strict=True)
            yield all_of((name, truth) for name, truth in pairs if truth is not None)

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        return dict.fromkeys(self.columns, (False, True))

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        # Corners of the cube: the row in which all columns are true and, with negation, its
        # neighbours. Once one is positive, the labels of its neighbours decide which of its
        # literals the rule has.
        corners: list[frozenset[str]] = [frozenset()]
        if self.negation:
            corners += [frozenset([name]) for name in self.columns]
        rows = {corner ^ {name} for corner in corners for name in self.columns} | set(corners)
        consistent = {
            frozenset((name, name not in corner) for name in chosen)
            for corner in corners
            for chosen in _subsets(self.columns)
            if corner <= set(chosen)
        }
        points: list[object] = [
            {name: name not in falses for name in self.columns}
            for falses in sorted(rows, key=sorted)
        ]
        return [NEVER, *map(all_of, sorted(consistent, key=sorted))], points


def _literals_of(rule: Hypothesis) -> tuple[Literal, ...]:
    return rule.literals if isinstance(rule, All) else ()


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
