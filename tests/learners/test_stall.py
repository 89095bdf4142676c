"""Why trees are mixed (DESIGN, section 4): copies may be right on all they are shown and still be
different functions. A flat forest of such copies never agrees; a tournament makes them meet."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import littlestone as ls
from littlestone._learners.tuning import can_stall
from littlestone._privacy.testing import SeededNoise
from naive import dimension

pytestmark = pytest.mark.filterwarnings("ignore:delta")

SIDE = 1000
"""Points of X are 0, 1, ...; the z that belongs to x is SIDE + x."""


class Marked(ls.HypothesisClass):
    """All of X is positive, or none of it; and at most one z is positive.

    One bit and one point: the dimension is two. After a positive x, the learner calls all of X
    positive, and the z of that x too, until a label contradicts it: three mistakes at most.
    """

    dimension, mistake_bound = 2, 3

    def __init__(self, side: int = SIDE) -> None:
        self.side = side

    def start(self) -> ls.VersionSpace:
        return ls.VersionSpace((False, None, False))

    def learn(self, state: ls.VersionSpace, x: object, y: object) -> ls.VersionSpace:
        if not isinstance(x, int | np.integer):
            raise ls.BadExample(f"{x!r} is not a whole number")
        number, positive = int(x), ls.label(y)
        if state == ls.INCONSISTENT:
            return ls.INCONSISTENT
        all_of_x, mark, sure = state.content
        match positive, number < self.side:
            case True, True:
                return ls.VersionSpace((True, mark if sure else number + self.side, sure))
            case True, False if not sure:
                return ls.VersionSpace((all_of_x, number, True))
            case False, False if not sure:
                return ls.VersionSpace((all_of_x, None, False))
        return ls.INCONSISTENT

    def hypothesis(self, state: ls.VersionSpace) -> ls.Hypothesis | None:
        return None if state == ls.INCONSISTENT else self.rule(*state.content[:2])

    def rule(self, all_of_x: bool, mark: int | None) -> ls.Hypothesis:
        """X or not, and one z or none: where the answer changes."""
        changes = {self.side} if all_of_x else set()
        return ls.steps(all_of_x, sorted(changes ^ ({mark, mark + 1} if mark else set())))

    def rules(self) -> list[ls.Hypothesis]:
        """All of them."""
        marks = (None, *range(self.side, 2 * self.side))
        return [self.rule(*pair) for pair in product((False, True), marks)]

    def disagreement(self, one: ls.Hypothesis, other: ls.Hypothesis) -> object:
        return next(x for x in range(2 * self.side) if one(x) != other(x))

    def __contains__(self, rule: object) -> bool:
        return rule in self.rules()


def learned(leaves: dict[int, int], rounds: int = 6000) -> ls.DPSOA:
    """A learner on a stream that shows X only, all of it positive."""
    cls = Marked()
    plan = replace(ls.Plan.practical(cls, 4, 1e-4, 2 * rounds), leaves=leaves)
    learner = ls.DPSOA(cls, plan=plan, seed=3, noise=SeededNoise(5))
    learner.learn_many(np.random.default_rng(2).integers(0, SIDE, rounds), np.ones(rounds))
    return learner


def test_flat_copies_stall_and_mixed_ones_do_not() -> None:
    """Flat trees vote for as many rules as there are values of x; taller ones meet at one."""
    trees = 60
    flat, mixed = learned({1: trees}), learned({1: trees, 4: trees})
    assert flat.mistakes == flat.rounds, "every round is a mistake, for ever"
    assert len(flat.releases) == 1
    assert mixed.mistakes < flat.mistakes / 3
    assert mixed.hypothesis(7)
    more = learned({1: trees, 4: trees}, rounds=12_000)
    assert more.mistakes == mixed.mistakes, "it has found its rule"


def test_the_practical_plan_mixes_for_such_a_class() -> None:
    plan = ls.Plan.practical(Marked(), 4, 1e-4, 1000)
    assert can_stall(Marked())
    assert set(plan.leaves) == {1, 4}
    assert abs(plan.leaves[1] - plan.leaves[4]) <= 1
    assert set(ls.Plan.practical(ls.Points(), 4, 1e-4, 1000).leaves) == {1}


@pytest.mark.parametrize("side", [2, 3])
def test_its_dimension_is_two(side: int) -> None:
    cls = Marked(side)
    rows = [tuple(int(rule(x)) for x in range(2 * side)) for rule in cls.rules()]
    assert len(set(rows)) == len(rows)
    assert dimension(rows) == ls.FiniteClass([list(row) for row in rows]).dimension == 2


@pytest.mark.parametrize("side", [2, 3])
def test_its_learner_errs_three_times_at_most(side: int) -> None:
    """Every truth, and every order of four points, twice over."""
    cls, worst = Marked(side), 0
    for truth, points in product(cls.rules(), product(range(2 * side), repeat=4)):
        state, mistakes = cls.start(), 0
        for x in points * 2:
            rule = cls.hypothesis(state)
            assert rule is not None
            if rule(x) != truth(x):
                mistakes, state = mistakes + 1, cls.learn(state, x, truth(x))
                now = cls.hypothesis(state)
                assert now is not None
                assert now(x) == truth(x)
        worst = max(worst, mistakes)
    assert worst == cls.mistake_bound
