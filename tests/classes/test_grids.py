"""Grids: exact points, the placing of other numbers, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import littlestone as ls
from littlestone._classes.grids import Grid, nearest, shallowest

untyped: Any = ls


def test_decimal_grids_are_exact() -> None:
    grid = Grid(0, 1, 0.1)
    assert [grid[i] for i in range(grid.count)] == [n / 10 for n in range(11)]
    assert [grid.place(grid[i]) for i in range(grid.count)] == list(range(11))


@given(st.one_of(st.floats(), st.integers()))
def test_a_threshold_says_of_a_number_what_it_says_of_its_place(number: Any) -> None:
    """So the published sentence is literally true of raw numbers."""
    scores = ls.Thresholds(-1, 2, 0.5)
    hours = ls.Intervals(-1, 2, 0.5)
    for rule in (*scores.hypotheses(), *hours.hypotheses()):
        assert rule(number) == rule(scores.grid[scores.grid.place(number)])


def test_missing_and_infinite_numbers_are_placed() -> None:
    grid = Grid(0, 10, 5)
    assert [grid.place(v) for v in (None, math.nan, -math.inf, math.inf)] == [0, 0, 0, 2]


@pytest.mark.parametrize(
    ("lo", "hi", "step", "why"),
    [
        (0, 10, 3, "does not divide the range from 0 to 10: .* 9 and 12"),
        (0, 1, 0.3, "does not divide"),
        (0, 10, 0, "step must be above zero"),
        (0, 10, -1, "step must be above zero"),
        (5, 1, 1, "ends before it begins"),
        (0, math.inf, 1, "hi: inf is not a finite number"),
        (math.nan, 1, 1, "lo: nan is not a finite number"),
        (0, 10**400, 1, "hi: .* is not a finite number"),
        ("0", 1, 1, "lo: '0' is not a number"),
        (False, 1, 1, "lo: False is not a number"),
        (2**53, 2**53 + 10, 0.5, "too fine for numbers of this size"),
        (0, 1, 5e-324, "too fine for numbers of this size"),
    ],
)
@pytest.mark.parametrize("family", [ls.Thresholds, ls.Intervals])
def test_grids_that_make_no_sense(family: Any, lo: Any, hi: Any, step: Any, why: str) -> None:
    with pytest.raises(ls.BadClass, match=why):
        family(lo, hi, step)


def test_numbers_and_names_come_in_many_types() -> None:
    assert untyped.Thresholds(np.float64(0), np.int64(1), np.float32(0.5)).grid == Grid(0, 1, 0.5)
    assert untyped.Sets(np.int64(3)) == ls.Sets(3)
    for names in (("a", "b"), np.array(["a", "b"]), {"a": 1, "b": 2}.keys(), iter("ab")):
        assert untyped.Rules(names) == ls.Rules(["a", "b"])


def test_intervals_are_members_as_they_are_published() -> None:
    hours = ls.Intervals(0, 7)
    assert hours.mistake_bound == 7
    assert ls.between(None, 3) in hours
    assert ls.between(0, 3) not in hours, "it differs below the grid"
    assert ls.steps(True, [2, 4]) not in hours
    assert ls.steps(False, [2, 4, 6]) not in hours
    assert ls.between(2.5, None) not in hours


def test_one_point_is_a_grid() -> None:
    assert ls.Thresholds(7, 7).dimension == ls.Intervals(7, 7).dimension == 1


@given(st.integers(1, 200), st.data())
def test_the_shallowest_node_is_in_range_and_halves(size: int, data: st.DataObject) -> None:
    """A player who always answers `elsewhere` is out of nodes after floor(log2 size) + 1."""
    low, high, asked = 0, size - 1, 0
    while low <= high:
        middle = shallowest(low, high, size)
        assert low <= middle <= high
        asked += 1
        if data.draw(st.booleans()):
            high = middle - 1
        else:
            low = middle + 1
    assert asked <= size.bit_length()


def test_copies_with_different_intervals_guess_alike() -> None:
    """What the fixed tree is for: halving one's own interval, these copies would differ."""
    assert len({shallowest(low, 15, 16) for low in range(8)}) == 1
    assert len({(low + 15) // 2 for low in range(8)}) == 5


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: untyped.Sets(0), "k must be a whole number from 1 on"),
        (lambda: untyped.Sets(True), "k must be a whole number from 1 on"),
        (lambda: untyped.Sets(2, column=5), "named by a string"),
        (lambda: untyped.Points(column=""), "named by a string"),
        (lambda: untyped.Rules([]), "at least one column"),
        (lambda: untyped.Rules("version"), "list of names"),
        (lambda: untyped.Rules(["a", "b", "a"]), "column 'a' is named twice"),
        (lambda: untyped.Rules(["a"], guess="best"), "guess is 'first' or 'majority'"),
        (lambda: untyped.Conjunctions([1]), "list of names"),
        (lambda: untyped.FiniteClass([]), "the table is empty"),
        (lambda: untyped.FiniteClass([[]]), "the table is empty"),
        (lambda: untyped.FiniteClass([[0, 1], [1]]), "row 1 has 1 labels and row 0 has 2"),
        (
            lambda: untyped.FiniteClass([[0, 1], [1, 0], [0, 1]]),
            "row 2 is the same hypothesis as row 0",
        ),
        (lambda: untyped.FiniteClass([[0, 2]]), "row 0: label 2 is not 0 or 1"),
        (lambda: untyped.FiniteClass([7]), "row 0 is not a list of 0 and 1"),
        (lambda: untyped.FiniteClass([[0, 1]], ["a"]), "1 points are named and a row has 2 labels"),
        (lambda: untyped.FiniteClass([[0, 1]], ["a", "a"]), "point 'a' is named twice"),
        (lambda: untyped.FiniteClass([[0, 1]], vote="best"), "vote is 'soa'"),
        (lambda: untyped.FiniteClass(5), "list of rows"),
        (lambda: untyped.FiniteClass([[0, 1]], points=5), "list of values"),
        (lambda: untyped.FiniteClass([[0, 1]], points=[[1], [2]]), "no canonical form"),
        (lambda: untyped.Rules(None), "list of names"),
        (lambda: untyped.Rules(5), "list of names"),
        (lambda: untyped.Rules(iter(())), "at least one column"),
        (lambda: untyped.Conjunctions(["a"], negation=2), "negation is True or False"),
        (lambda: untyped.Union(ls.Points()), "at least two classes"),
        (lambda: untyped.Union(5, 6), "is not a hypothesis class"),
        (lambda: untyped.Complement(3), "is not a hypothesis class"),
        (lambda: untyped.SOA(3), "is not a hypothesis class"),
        (lambda: untyped.SOA(ls.Points), "is not a hypothesis class"),
        (lambda: untyped.dimension("points"), "is not a hypothesis class"),
    ],
)
def test_classes_that_make_no_sense(build: Any, why: str) -> None:
    with pytest.raises(ls.BadClass, match=why):
        build()


def twin_of_nearest(low: int, high: int, claim: int, size: int) -> int:
    """The search tree over range(size) as nested tuples, walked as the sentence says."""

    def tree(start: int, end: int) -> list[list[int]]:
        """The nodes from start to end, level by level."""
        if start > end:
            return []
        middle = start + (end - start + 1) // 2
        left, right = tree(start, middle - 1), tree(middle + 1, end)
        deeper = max(len(left), len(right))
        below = [
            [*(left[n] if n < len(left) else []), *(right[n] if n < len(right) else [])]
            for n in range(deeper)
        ]
        return [[middle], *below]

    def subtrees(start: int, end: int) -> list[list[list[int]]]:
        """Those around the claim, the smallest first."""
        middle = start + (end - start + 1) // 2
        if middle == claim:
            return [tree(start, end)]
        inner = subtrees(start, middle - 1) if claim < middle else subtrees(middle + 1, end)
        return [*inner, tree(start, end)]

    if low <= claim <= high:
        return claim
    for levels in subtrees(0, size - 1):
        for level in levels:
            for node in level:
                if low <= node <= high:
                    return node
    raise AssertionError("the largest subtree is everything")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 16, 17])
def test_nearest_is_its_sentence(size: int) -> None:
    for claim in range(size):
        for low in range(size):
            for high in range(low, size):
                expected = twin_of_nearest(low, high, claim, size)
                assert nearest(low, high, claim, size) == expected
                assert low <= expected <= high


@pytest.mark.parametrize("points", [1, 2, 3, 4, 7, 8, 15, 16, 31])
def test_thresholds_restarted_anywhere_keep_their_bound(points: int) -> None:
    """An adversary who tries every answer at every place, from every published rule."""
    scores = ls.Thresholds(0, points - 1)
    seen: dict[tuple[ls.VersionSpace, ls.Hypothesis], int] = {}

    def most(state: ls.VersionSpace) -> int:
        """The mistakes that can still be forced."""
        rule = scores.hypothesis(state)
        if rule is None:
            return -1
        if (state, rule) not in seen:
            moves = (scores.learn(state, x, not rule(x)) for x in range(points))
            seen[state, rule] = max(0, *(1 + most(after) for after in moves))
        return seen[state, rule]

    d, worst = scores.dimension, 0
    for published in scores.hypotheses():
        state = scores.restart(published)
        assert scores.hypothesis(state) == published
        worst = max(worst, most(state))
    assert worst <= (d + 1) * (d + 2) // 2
    assert most(scores.start()) == d
    assert worst >= d
