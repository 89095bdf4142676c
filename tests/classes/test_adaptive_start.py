"""Adversaries who react: the most releases of flat trees on streams that a rule fits.

A vote is a rule that a learner reaches from the state in which the epoch began, by mistakes on true
examples. So all adversaries, all noise and all seeds are paths of one graph, which is walked here.
"""

from dataclasses import dataclass
from math import inf

import pytest

import littlestone as ls
from classes import targets
from littlestone._classes.base import points_of
from littlestone._hypotheses.rules import All
from littlestone._learners.forest import EpochStart

Example = tuple[object, bool]


def reached(
    cls: ls.HypothesisClass, start: EpochStart, stream: list[Example]
) -> set[ls.Hypothesis]:
    """Every rule that a tree of one leaf may vote for after some of these examples."""
    assert start.rule is not None
    if cls.hypothesis(start.state) != start.rule:
        # The rule is held without a state until its first mistake.
        if all(start.rule(x) == y for x, y in stream):
            return set()
        start = EpochStart.first(cls)
    seen, open_, rules = {start.state}, [start.state], set[ls.Hypothesis]()
    while open_:
        state = open_.pop()
        rule = cls.hypothesis(state)
        assert rule is not None, "no true example makes a learner inconsistent"
        rules.add(rule)
        after = {cls.learn(state, x, y) for x, y in stream if rule(x) != y} - seen
        seen |= after
        open_ += after
    return rules


def longest(cls: ls.HypothesisClass, target: ls.Hypothesis, points: list[object]) -> float:
    """The most releases, infinite if some adversary can lead the learner in a circle."""
    stream = [(x, target(x)) for x in points]
    found: dict[EpochStart, float] = {}

    def walk(start: EpochStart) -> float:
        if start not in found:
            # Until it is known: a start that comes again is a circle.
            found[start] = inf
            votes = reached(cls, start, stream) - {start.rule}
            found[start] = max((1 + walk(start.after(cls, vote)) for vote in votes), default=0)
        return found[start]

    return walk(EpochStart.first(cls))


ROWS = {
    columns: points_of(dict.fromkeys("abcd"[:columns], (0, 1, 2) if columns < 3 else (0, 1)))
    for columns in (1, 2, 3)
}
TIGHT: dict[str, tuple[ls.HypothesisClass, list[object]]] = {
    "points": (ls.Points(), [0, 1, 2]),
    "sets": (ls.Sets(3), [0, 1, 2, 3, 4]),
    **{f"rules of {n}": (ls.Rules(list("abc"[:n])), rows) for n, rows in ROWS.items()},
    **{f"{n} cuts": (ls.Thresholds(1, n), list(range(1, n + 1))) for n in (1, 2, 3, 6, 7, 12)},
    "bins": (ls.Bins([1, 2.5, 10]), [0, 1, 3, 10]),
    "conjunctions": (ls.Conjunctions(list("abc")), points_of(dict.fromkeys("abc", (False, True)))),
    "monotone": (
        ls.Conjunctions(list("abc"), negation=False),
        points_of(dict.fromkeys("abc", (False, True))),
    ),
    "complement": (ls.Complement(ls.Sets(2)), [0, 1, 2, 3]),
}


@pytest.mark.parametrize("name", TIGHT)
def test_the_bound_is_attained_and_never_exceeded(name: str) -> None:
    cls, points = TIGHT[name]
    worst = max(longest(cls, target, points) for target in targets(cls, points))
    assert worst == cls.most_releases


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7, 9, 11])
def test_intervals_keep_their_bound(size: int) -> None:
    cls, points = ls.Intervals(1, size), list[object](range(1, size + 1))
    worst = max(longest(cls, target, points) for target in cls.hypotheses())
    assert cls.dimension <= worst <= cls.most_releases


def test_without_the_order_of_columns_a_mirror_leads_rules_in_circles() -> None:
    """The planted fault, which was the code: an epoch that knows the last rule only."""

    class Forgetful(ls.Rules):
        def restart(
            self, rule: ls.Hypothesis, last: ls.VersionSpace | None = None
        ) -> ls.VersionSpace:
            return super().restart(rule)

    assert longest(Forgetful(["a", "b"]), ls.one_of([0], "b"), ROWS[2]) == inf


def test_intervals_that_forget_are_led_in_circles() -> None:
    class Forgetful(ls.Intervals):
        def restart(
            self, rule: ls.Hypothesis, last: ls.VersionSpace | None = None
        ) -> ls.VersionSpace:
            return self.start()

    points = list[object](range(1, 7))
    cls = Forgetful(1, 6)
    assert max(longest(cls, target, points) for target in cls.hypotheses()) == inf


@dataclass
class Drifting:
    """Two targets after each other: what was published for the first is wrong for the second."""

    cls: ls.HypothesisClass
    points: list[object]


@pytest.mark.parametrize(
    "case",
    [
        Drifting(ls.Rules(["a", "b"]), ROWS[2]),
        Drifting(ls.Intervals(1, 6), list(range(1, 7))),
        Drifting(ls.Thresholds(1, 6), list(range(1, 7))),
        Drifting(ls.Conjunctions(list("ab")), points_of(dict.fromkeys("ab", (False, True)))),
    ],
    ids=["rules", "intervals", "thresholds", "conjunctions"],
)
def test_a_target_that_changed_is_found_from_every_start(case: Drifting) -> None:
    """Whatever was published, a learner that sees every example ends at the target."""
    cls, points = case.cls, case.points
    rules = targets(cls, points)
    starts = {EpochStart.first(cls)}
    for _ in range(2):
        starts |= {start.after(cls, rule) for start in starts for rule in rules}
    for start in starts:
        for target in rules:
            state = start.state
            for _ in range(12):
                for x in points:
                    rule = cls.hypothesis(state)
                    assert rule is not None
                    if rule(x) != target(x):
                        state = cls.learn(state, x, target(x))
            rule = cls.hypothesis(state)
            assert rule is not None
            assert all(rule(x) == target(x) for x in points)


@pytest.mark.parametrize("negation", [True, False])
def test_conjunctions_are_published_in_their_shortest_form(negation: bool) -> None:
    """No column twice, sorted, and no literal could be left out: `a and not a` is `never`."""
    cls, points = ls.Conjunctions(["b", "a"], negation), points_of(dict.fromkeys("ab", (0, 1)))
    start = EpochStart.first(cls)
    starts = {start, *(start.after(cls, rule) for rule in cls.hypotheses())}
    stream = [(x, y) for x in points for y in (False, True)]
    seen, open_ = {each.state for each in starts}, [each.state for each in starts]
    while open_:
        state = open_.pop()
        rule = cls.hypothesis(state)
        if isinstance(rule, All):
            names = [name for name, _ in rule.literals]
            assert names == sorted(set(names))
            shorter = [ls.all_of(set(rule.literals) - {literal}) for literal in rule.literals]
            assert all(any(other(x) != rule(x) for x in points) for other in shorter)
        else:
            assert rule in (None, ls.NEVER, ls.ALWAYS)
        after = {cls.learn(state, x, y) for x, y in stream if rule and rule(x) != y} - seen
        seen |= after
        open_ += after
