"""Halving's path is a path of a mistake tree that the class shatters, around the target."""

from itertools import combinations, groupby

import numpy as np
import pytest

import littlestone as ls
from classes import TABLE
from littlestone._classes.base import points_of
from littlestone._classes.dimension import Shattering, tabulate
from littlestone._classes.intervals import fewest_points
from littlestone._hypotheses.rows import row_of
from littlestone._simulate.adversaries import Labelled, halving, path_of
from littlestone._simulate.games import play
from littlestone._simulate.streams import Stream, target_of

ABC = ["a", "b", "c"]
FINITE: dict[str, ls.HypothesisClass] = {
    "thresholds": ls.Thresholds(1, 15, column="s"),
    "thresholds, no power of two": ls.Thresholds(0, 1, 0.05),
    "intervals, 2": ls.Intervals(1, 2),
    "intervals, 6": ls.Intervals(1, 6),
    "intervals, 9": ls.Intervals(1, 9),
    "intervals, 16": ls.Intervals(1, 16, column="s"),
    "conjunctions": ls.Conjunctions(ABC),
    "monotone conjunctions": ls.Conjunctions(["a", "b", "c", "d"], negation=False),
    "table": ls.FiniteClass(TABLE),
    "complement": ls.Complement(ls.Thresholds(1, 7)),
    "union": ls.Union(ls.Thresholds(0, 5), ls.Intervals(0, 5)),
}


def descends(
    rules: list[ls.Hypothesis], points: list[object], path: list[Labelled], depth: int
) -> bool:
    """Whether a path of so many points could be one of a shattered tree: at its n-th point, both
    answers leave rules that shatter what is left of the depth."""
    table = tabulate(rules, points)
    exact, space = Shattering(table), table.everything
    for left, (x, y) in zip(range(depth - 1, -1, -1), path, strict=False):
        ones = space & table.ones[points.index(x)]
        if not (exact.at_least(ones, left) and exact.at_least(space ^ ones, left)):
            return False
        space = ones if y else space ^ ones
    return len(path) == depth


@pytest.mark.parametrize("name", FINITE)
def test_every_targets_path_is_one_of_a_shattered_tree(name: str) -> None:
    cls = FINITE[name]
    rules, points = list(cls.hypotheses()), points_of(cls.domain())
    for seed, target in enumerate(rules):
        path = path_of(cls, target, np.random.default_rng(seed))
        assert all(target(x) == y for x, y in path)
        assert descends(rules, points, path, cls.dimension)


@pytest.mark.parametrize("name", FINITE)
def test_planted_a_path_that_asks_nothing_new_is_found(name: str) -> None:
    cls = FINITE[name]
    rules, points = list(cls.hypotheses()), points_of(cls.domain())
    path = path_of(cls, rules[-1], np.random.default_rng(1))
    assert not descends(rules, points, path[:-1], cls.dimension), "a level is missing"
    assert not descends(rules, points, [path[0], *path[:-1]], cls.dimension), "a point twice"


def test_families_without_a_bound_have_a_tree_around_every_target() -> None:
    """Shown among the rules about the target's values and about others, which come after a no."""
    for seed in range(10):
        draw = np.random.default_rng(seed)
        for cls in (ls.Points(), ls.Sets(3), ls.Rules(ABC), ls.Rules(list("abcdefgh"))):
            target = target_of(cls, draw)
            path = path_of(cls, target, draw)
            assert all(target(x) == y for x, y in path)
            rules, points = cls.finite_core()
            alike = near(cls, target)
            asked = [x for rule in [target, *alike] for x, _ in path_of(cls, rule, draw)]
            assert descends([*rules, *alike], [*asked, *points], path, cls.dimension)


def near(cls: ls.HypothesisClass, target: ls.Hypothesis) -> list[ls.Hypothesis]:
    """The rules about the values that the target is about."""
    (values,) = target.mentions().values()
    if isinstance(cls, ls.Sets):
        return [ls.one_of(some) for k in range(cls.k + 1) for some in combinations(values, k)]
    assert isinstance(cls, ls.Rules)
    return [ls.one_of(values, name) for name in cls.columns]


@pytest.mark.parametrize(
    "cls",
    [
        ls.Thresholds(1, 2**10 - 1),
        ls.Thresholds(1, 2**20 - 1),
        ls.Intervals(1, 2000),
        ls.Sets(20),
        ls.Conjunctions([f"c{n}" for n in range(19)]),
        ls.Rules([f"c{n}" for n in range(600)]),
    ],
    ids=lambda cls: type(cls).__name__,
)
def test_the_tree_is_not_written_out(cls: ls.HypothesisClass) -> None:
    """Deep ones take no longer: a tree of 2^20 leaves would not come back."""
    for seed in range(3):
        made = halving(cls, 40 * cls.dimension, seed)
        assert made.truth is not None
        assert made.truth in cls
        assert made.unavoidable == 0
        assert held(made, 40) == [40] * cls.dimension


def held(made: Stream, block: int) -> list[int]:
    """For how many rounds each point is held in a row; a point that comes back has come twice."""
    points = [repr(row_of(made.batch, n)) for n in range(len(made))]
    assert len(points) % block == 0
    runs = [len(list(run)) for _, run in groupby(points)]
    return runs if len(runs) == len(set(points)) else []


@pytest.mark.parametrize("deepest", range(1, 14))
def test_intervals_can_be_cut_to_their_dimension_on_every_grid(deepest: int) -> None:
    for points in range(fewest_points(deepest), fewest_points(deepest + 1)):
        path = path_of(ls.Intervals(1, points), ls.NEVER, np.random.default_rng(1))
        assert len(path) == deepest


def test_half_of_the_levels_are_mistakes_of_the_optimal_learner_and_none_twice() -> None:
    cls = ls.Thresholds(1, 2**10 - 1)
    games = [play(ls.SOA(cls), halving(cls, 1000, seed), 1000).mistakes for seed in range(40)]
    assert max(games) <= 10
    assert 4 < sum(games) / 40 < 6
