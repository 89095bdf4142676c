"""The exact dimension against its definition, the known values, and the closed forms."""

import random
from itertools import combinations, product
from math import inf

import numpy as np
import pytest

import littlestone as ls
import naive
from classes import CASES
from littlestone._classes import dimension
from littlestone._classes import dimension as shattering
from littlestone._classes.base import points_of
from littlestone._classes.dimension import Leaf, Node, Shattering, tabulate
from littlestone._classes.intervals import fewest_points


def random_rows(draw: random.Random, points: int, most: int) -> list[naive.Row]:
    every = list(product((0, 1), repeat=points))
    return draw.sample(every, draw.randint(1, min(most, len(every))))


def exact(cls: ls.HypothesisClass) -> int:
    """The dimension of a finite family, written out and searched: no closed form."""
    table = tabulate(list(cls.hypotheses()), points_of(cls.domain()))
    return Shattering(table).dimension(table.everything)


@pytest.mark.parametrize("seed", range(60))
def test_equals_the_definition_over_all_trees(seed: int) -> None:
    rows = random_rows(random.Random(seed), points=2 + seed % 2, most=7)
    assert ls.FiniteClass(rows).dimension == naive.dimension_by_trees(rows)


@pytest.mark.parametrize("seed", range(300))
def test_equals_the_recursion(seed: int) -> None:
    draw = random.Random(seed)
    rows = random_rows(draw, points=draw.randint(1, 6), most=24)
    cls = ls.FiniteClass(rows)
    assert cls.dimension == naive.dimension(rows)
    assert ls.shattered_depth(ls.witness(cls)) == cls.dimension


def test_the_naive_twins_agree() -> None:
    for seed in range(60):
        rows = random_rows(random.Random(seed), points=3, most=7)
        assert naive.dimension(rows) == naive.dimension_by_trees(rows)


def rectangles(side: int) -> list[list[int]]:
    cells = list(product(range(side), repeat=2))
    spans = list(combinations(range(side + 1), 2))
    boxes = [[int(a <= i < b and c <= j < d) for i, j in cells] for a, b in spans for c, d in spans]
    return [[0] * len(cells), *boxes]


def lines(order: int) -> list[list[int]]:
    plane = list(product(range(order), repeat=2))
    sloped = [[int(y == (m * x + b) % order) for x, y in plane]
              for m, b in product(range(order), repeat=2)]  # fmt: skip
    return sloped + [[int(x == a) for x, _ in plane] for a in range(order)]


def parities(bits: int) -> list[list[int]]:
    return [[(a & b).bit_count() % 2 for b in range(1 << bits)] for a in range(1 << bits)]


def decision_lists(bits: int) -> list[naive.Row]:
    """1-decision lists: tests of one literal in turn, an answer for each, a default."""
    points = list(product((0, 1), repeat=bits))
    literals = list(product(range(bits), (0, 1)))
    lists = {(default,) * len(points) for default in (0, 1)}
    while True:
        longer = {
            tuple(answer if p[i] == v else rest for p, rest in zip(points, row, strict=True))
            for row in lists
            for i, v in literals
            for answer in (0, 1)
        }
        if longer <= lists:
            return sorted(lists)
        lists |= longer


@pytest.mark.parametrize(
    ("rows", "known"),
    [
        pytest.param(rectangles(3), 4, id="rectangles 3x3"),
        pytest.param(rectangles(4), 6, id="rectangles 4x4"),
        pytest.param(lines(3), 2, id="lines over F_3"),
        pytest.param(lines(5), 2, id="lines over F_5"),
        *(pytest.param(parities(n), n, id=f"parities on {n} bits") for n in (1, 2, 3, 4, 5)),
        pytest.param(decision_lists(2), 3, id="1-decision lists on 2 bits"),
        pytest.param([[1]], 0, id="one hypothesis"),
        pytest.param([[0, 1], [1, 0]], 1, id="two hypotheses"),
    ],
)
def test_known_values(rows: list[list[int]], known: int) -> None:
    cls = ls.FiniteClass(rows)
    assert cls.dimension == known
    assert ls.shattered_depth(ls.witness(cls)) == known


@pytest.mark.parametrize(
    "cls",
    [
        *(ls.Thresholds(1, points) for points in range(1, 34)),
        *(ls.Intervals(1, points) for points in range(1, 17)),
        *(ls.Conjunctions(list("abcd"[:n]), both) for n in range(1, 5) for both in (False, True)),
    ],
    ids=repr,
)
def test_closed_forms(cls: ls.HypothesisClass) -> None:
    assert cls.dimension == exact(cls)


def test_intervals_closed_form_by_cutting_sticks() -> None:
    """The recursion of the docstring of intervals, over every cut, beyond what a table reaches."""
    memo: dict[tuple[int, ...], int] = {}

    def most_cuts(sticks: tuple[int, ...]) -> int:
        if sticks not in memo:
            memo[sticks] = 0
            for at, stick in enumerate(sticks):
                for one in range(1, stick // 2 + 1):
                    other = stick - one
                    positive = one.bit_length() + other.bit_length() - 2
                    left = tuple(s for s in (one, other) if s > 1)
                    rest = tuple(sorted((*sticks[:at], *sticks[at + 1 :], *left)))
                    memo[sticks] = max(memo[sticks], 1 + min(positive, most_cuts(rest)))
        return memo[sticks]

    for points in range(1, 24):
        assert ls.Intervals(1, points).dimension == most_cuts((points + 1,))


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_rules_closed_form(columns: int) -> None:
    """On vocabularies of three words, which are enough for these dimensions."""
    names = list("abcd"[:columns])
    rules = [ls.NEVER, *(ls.one_of([word], name) for name in names for word in range(3))]
    table = tabulate(rules, points_of(dict.fromkeys(names, (0, 1, 2))))
    assert Shattering(table).dimension(table.everything) == ls.Rules(names).dimension


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 8, 20, 64])
def test_rules_witness(columns: int) -> None:
    cls = ls.Rules([f"c{number}" for number in range(columns)])
    assert ls.shattered_depth(ls.witness(cls)) == cls.dimension == columns.bit_length()


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_sets_closed_form(k: int) -> None:
    """Sets of at most k out of more than k points."""
    domain = range(k + 2)
    rules = [ls.one_of(some) for size in range(k + 1) for some in combinations(domain, size)]
    table = tabulate(rules, domain)
    assert Shattering(table).dimension(table.everything) == ls.Sets(k).dimension == k


def test_fewest_points_is_the_inverse_of_the_dimension() -> None:
    for depth in range(1, 40):
        points = fewest_points(depth)
        assert ls.Intervals(1, points).dimension == depth
        assert points == 1 or ls.Intervals(1, points - 1).dimension == depth - 1


def test_a_tree_that_is_not_shattered_is_caught() -> None:
    """The check is independent: it finds every kind of damage to a true witness."""
    tree = ls.witness(ls.Thresholds(1, 7))
    assert isinstance(tree, Node)
    assert ls.shattered_depth(tree) == 3
    assert ls.shattered_depth(Node(tree.point, tree.one, tree.zero)) is None
    assert ls.shattered_depth(Node(tree.point, tree.zero, Leaf(ls.ALWAYS))) is None
    assert ls.shattered_depth(Node(inf, tree.zero, tree.one)) is None


def test_no_witness_leaves_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dimension, "shattered_depth", lambda tree: None)
    with pytest.raises(AssertionError, match="is not shattered"):
        ls.witness(ls.Points())


def test_every_drawn_tree_shows_every_leaf() -> None:
    for cls, _ in CASES.values():
        if not isinstance(cls, ls.Union):
            drawn = ls.draw(ls.witness(cls))
            assert drawn.count("└─ 1") == 2**cls.dimension - 1


def test_absurd_sizes_are_refused_with_a_size_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = ls.Thresholds(0, 10**12)
    assert huge.dimension == 39
    with pytest.raises(ls.TooLarge, match="dimension 10 or less would work"):
        ls.witness(huge)
    with pytest.raises(ls.TooLarge, match="would work"):
        ls.Union(ls.Intervals(1, 1000), ls.Thresholds(1, 1000)).dimension  # noqa: B018
    with pytest.raises(ls.TooLarge, match="would work"):
        ls.FiniteClass(list(np.eye(2000, dtype=bool)))
    with pytest.raises(ls.TooLarge, match="would work"):
        ls.SOA(ls.Intervals(0, 10**6))
    assert ls.Union(ls.Intervals(0, 10**5), ls.Thresholds(0, 5)).size == 5_000_150_009
    monkeypatch.setattr(shattering, "MAX_WORK", 1000)
    draw = random.Random(0)
    with pytest.raises(ls.TooLarge, match="1,000 random hypotheses on 40 points would work"):
        ls.FiniteClass(random_rows(draw, 12, 400)).dimension  # noqa: B018
