"""Grids: exact points, the placing of other numbers, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import littlestone as ls
from littlestone.theory.grids import Grid, shallowest

untyped: Any = ls


def test_decimal_grids_are_exact() -> None:
    grid = Grid(0, 1, 0.1)
    assert [grid[i] for i in range(grid.count)] == [
        0,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1,
    ]
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
        (0, 10, 0, "step is above zero"),
        (0, 10, -1, "step is above zero"),
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
        (lambda: untyped.Sets(0), "k is a whole number from 1 on"),
        (lambda: untyped.Sets(True), "k is a whole number from 1 on"),
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
        (lambda: untyped.FiniteClass([[0, 1]], points=[[1], [2]]), "no canonical spelling"),
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
