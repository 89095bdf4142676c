"""Combine classes: the complement of a class, and the union of several."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod

import numpy as np

from littlestone._classes.base import (
    INCONSISTENT,
    HypothesisClass,
    VersionSpace,
    checked_class,
    distinguishes,
    distinguishing_example,
    points_of,
)
from littlestone._classes.dimension import Shattering, refuse_absurd, tabulate
from littlestone._hypotheses.cells import Kind, label
from littlestone._hypotheses.rows import Batch, Column
from littlestone._hypotheses.rules import ALWAYS, NEVER, Hypothesis, negation
from littlestone._hypotheses.values import Mask, Plain, encode
from littlestone.errors import BadClass, TooLarge

# The largest sum of sizes for which a union lists its rules, to count shared ones once.
MOST_LISTED = 20_000


@dataclass(frozen=True)
class Complement(HypothesisClass):
    """Learn the negations of the rules of a class.

    The dimension is the same, and the learner is that of the class with the labels exchanged.

    Parameters
    ----------
    of : HypothesisClass
        The class to negate.

    Examples
    --------
    >>> from littlestone._classes.sets import Points
    >>> all_but = Complement(Points(column="merchant"))
    >>> print(all_but.hypothesis(all_but.learn(all_but.start(), {"merchant": "M"}, 0)))
    merchant != 'M'
    """

    of: HypothesisClass

    def __post_init__(self) -> None:
        checked_class(self.of)

    @property
    def dimension(self) -> int:
        return self.of.dimension

    @property
    def mistake_bound(self) -> int:
        return self.of.mistake_bound

    @property
    def most_releases(self) -> int | None:
        return self.of.most_releases

    def start(self) -> VersionSpace:
        return self.of.start()

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        return self.of.restart(negation(rule), last)

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        # A negation errs exactly where the rule errs on the flipped label.
        return self.of.learn(state, x, not label(y))

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        rule = self.of.hypothesis(state)
        return None if rule is None else negation(rule)

    def check(self, x: object) -> None:
        self.of.check(x)

    def readable(self, batch: Batch) -> Mask:
        return self.of.readable(batch)

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return self.of.reads

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        return self.of.disagreement(negation(one), negation(other))

    def __contains__(self, rule: object) -> bool:
        return isinstance(rule, Hypothesis) and negation(rule) in self.of

    @property
    def size(self) -> int | None:
        return self.of.size

    def hypotheses(self) -> Iterator[Hypothesis]:
        return map(negation, self.of.hypotheses())

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        return self.of.domain()

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        rules, points = self.of.finite_core()
        return [negation(rule) for rule in rules], points


@dataclass(frozen=True, init=False)
class Union(HypothesisClass):
    """Learn a rule of any of several classes.

    The learner runs all members' learners, each on its own mistakes, and publishes the rule of the
    first that is still consistent. Each member can make as many mistakes as its bound and one more,
    which makes it inconsistent, so the bound is the sum of (bound + 1), less one. The rule is None
    when all members are inconsistent, which may be later than the first moment at which no rule of
    the union fits.

    Parameters
    ----------
    *members : HypothesisClass
        The classes, at least two.

    Raises
    ------
    BadClass
        If fewer than two classes are given, or something that is not a class.

    Examples
    --------
    >>> from littlestone._classes.sets import Points
    >>> either = Union(Points(), Complement(Points()))
    >>> either.mistake_bound
    3
    """

    members: tuple[HypothesisClass, ...]

    def __init__(self, *members: HypothesisClass) -> None:
        if len(members) < 2:
            raise BadClass("a union needs at least two classes")
        for member in members:
            checked_class(member)
        object.__setattr__(self, "members", members)

    @cached_property
    def dimension(self) -> int:
        table = tabulate(*self.finite_core())
        return Shattering(table).dimension(table.everything)

    @property
    def mistake_bound(self) -> int:
        return sum(member.mistake_bound + 1 for member in self.members) - 1

    def start(self) -> VersionSpace:
        return VersionSpace(tuple(member.start() for member in self.members))

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        if state == INCONSISTENT:
            return INCONSISTENT
        pairs = zip(self.members, state.content, strict=True)
        # Each member learns on its own mistakes: it stays conservative, so its bound holds.
        states = tuple(_corrected(member, part, x, label(y)) for member, part in pairs)
        return (
            VersionSpace(states) if any(part != INCONSISTENT for part in states) else INCONSISTENT
        )

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        rules = (m.hypothesis(part) for m, part in zip(self.members, state.content, strict=True))
        return next((rule for rule in rules if rule is not None), None)

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        examples = (member.disagreement(one, other) for member in self.members)
        x = next((x for x in examples if distinguishes(x, one, other)), None)
        return self.filled(distinguishing_example(one, other) if x is None else x)

    def filled(self, x: object) -> object:
        """Return the example with a value for every column that some member reads."""
        if not isinstance(x, dict):
            return x
        # An example of each member has its columns, with values that it can read.
        rows = [member.disagreement(ALWAYS, NEVER) for member in self.members]
        return {name: v for row in rows if isinstance(row, dict) for name, v in row.items()} | x

    def check(self, x: object) -> None:
        for member in self.members:
            member.check(x)

    def readable(self, batch: Batch) -> Mask:
        return np.asarray(np.logical_and.reduce([m.readable(batch) for m in self.members]))

    @property
    def reads(self) -> Mapping[Column, Kind]:
        # A column that members read in different ways is read as text, in which each finds what it
        # reads. One member that reads unknown columns makes the columns of the union unknown.
        merged: dict[Column, Kind] = {}
        for column, kind in chain.from_iterable(member.reads.items() for member in self.members):
            if merged.setdefault(column, kind) != kind:
                merged[column] = "value"
        return merged if all(member.reads for member in self.members) else {}

    def __contains__(self, rule: object) -> bool:
        return any(rule in member for member in self.members)

    @property
    def size(self) -> int | None:
        sizes = [member.size for member in self.members]
        total = sum(size or 0 for size in sizes)
        # Above MOST_LISTED, a rule that two members share counts twice.
        if None in sizes or total > MOST_LISTED:
            return None if None in sizes else total
        # A rule that two members share is one rule.
        return len(set(self._listed()))

    def hypotheses(self) -> Iterator[Hypothesis]:
        return iter(dict.fromkeys(self._listed()))

    def _listed(self) -> Iterator[Hypothesis]:
        return chain.from_iterable(member.hypotheses() for member in self.members)

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        # By canonical bytes: 1 and True are different values.
        merged: dict[Column, dict[bytes, Plain]] = {}
        for member in self.members:
            for column, values in member.domain().items():
                merged.setdefault(column, {}).update((encode(value), value) for value in values)
        return {column: tuple(values.values()) for column, values in merged.items()}

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        sizes = [member.size for member in self.members]
        if None in sizes:
            # Of a union: Ldim(A or B) <= Ldim(A) + Ldim(B) + 1, hence the upper end.
            least = max(member.dimension for member in self.members)
            most = sum(member.dimension + 1 for member in self.members) - 1
            raise TooLarge(
                "the dimension of a union is computed only where every member is finite: "
                f"that of this one is from {least} to {most}"
            )
        domain = self.domain()
        refuse_absurd(sum(size or 0 for size in sizes), prod(map(len, domain.values())))
        return list(self.hypotheses()), points_of(domain)


def _corrected(member: HypothesisClass, state: VersionSpace, x: object, y: bool) -> VersionSpace:
    """Return the state of one member's learner, which learns on its own mistakes only."""
    rule = member.hypothesis(state)
    return state if rule is None or rule(x) == y else member.learn(state, x, y)
