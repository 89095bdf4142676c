"""Bins: public edges, uneven ones too, and never edges from the data."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import littlestone as ls
from littlestone._hypotheses.rows import as_batch

INCOMES = ls.Bins([10_000, 20_000.5, 100_000], column="income")


def test_rules_read_in_the_units_of_the_column() -> None:
    assert [str(rule) for rule in INCOMES.hypotheses()] == [
        "always",
        "income >= 10000",
        "income >= 20000.5",
        "income >= 100000",
        "never",
    ]
    assert ls.dimension(INCOMES) == INCOMES.dimension == 2


@pytest.mark.parametrize(
    "data",
    [
        np.array([1.0, 2.0]),
        np.arange(9)[::4],
        pd.Series([1, 2]),
        pd.DataFrame({"a": [1, 2]}),
        pl.Series([1, 2]),
        pl.DataFrame({"a": [1, 2]}),
        pa.array([1, 2]),
        pa.table({"a": [1, 2]}),
        {"a": [1, 2]},
        iter([1, 2]),
        "12",
        7,
    ],
    ids=lambda data: type(data).__name__,
)
def test_edges_are_not_taken_from_data(data: Any) -> None:
    with pytest.raises(ls.BadClass, match=r"edges are public.*not private"):
        ls.binned("a", data)
    with pytest.raises(ls.BadClass, match=r"edges are public.*not private"):
        ls.Bins(data, "a")


@pytest.mark.parametrize(
    ("edges", "why"),
    [
        ([], "at least one edge"),
        ([2, 1], "edges must increase: 1 comes after 2"),
        ([1, 1.0], "edges must increase"),
        ([1, float("nan")], "edges"),
        ([1, float("inf")], "edges"),
        (["a"], "edges"),
        ([True, 2], "edges"),
    ],
)
def test_edges_that_make_no_sense_get_a_sentence(edges: Any, why: str) -> None:
    with pytest.raises(ls.BadClass, match=why):
        ls.binned("a", edges)


def test_equal_bins_make_a_grid() -> None:
    assert ls.binned("s", lo=0, hi=100, bins=20) == ls.Thresholds(0, 95, 5, "s")
    assert ls.binned("s", lo=0, hi=1, bins=10) == ls.Thresholds(0, 0.9, 0.1, "s")
    assert ls.binned("s", lo=0, hi=1, bins=3) == ls.Bins([1 / 3, 2 / 3], "s")
    assert ls.binned("s", lo=-1, hi=1, bins=2) == ls.Thresholds(-1, 0, 1, "s")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"lo": 0, "hi": 1},
        {"edges": [1], "lo": 0},
        {"lo": 1, "hi": 0, "bins": 3},
        {"lo": 0, "hi": 1, "bins": 1},
        {"lo": 0, "hi": 1, "bins": 2.5},
        {"lo": np.array([1]), "hi": 2, "bins": 3},
        {"lo": "0", "hi": 2, "bins": 3},
    ],
)
def test_equal_bins_that_make_no_sense_get_a_sentence(given: dict[str, Any]) -> None:
    with pytest.raises(ls.BadClass):
        ls.binned("s", **given)


def test_a_grid_and_the_same_edges_are_the_same_functions() -> None:
    grid, bins = ls.Thresholds(0, 9, 1, "s"), ls.Bins(list(range(1, 10)), "s")
    assert list(grid.hypotheses()) == list(bins.hypotheses())


@pytest.mark.parametrize(
    "make",
    [
        lambda cls: ls.PrivateExperts(cls, epsilon=20, horizon=3000),
        lambda cls: ls.DPSOA(cls, 20, 1e-6, 3000),
        lambda cls: ls.SOA(cls),
        lambda cls: ls.Halving(cls),
    ],
    ids=["experts", "dpsoa", "soa", "halving"],
)
def test_learners_find_the_edge(make: Any) -> None:
    incomes = np.random.default_rng(1).choice([5e3, 1e4, 1.9e4, 2.1e4, 2e5, np.nan], 3000)
    learner = make(INCOMES)
    learner.learn_many({"income": incomes}, incomes >= 20_000.5)
    assert str(learner.hypothesis) == "income >= 20000.5"


def test_it_is_recommended_like_thresholds() -> None:
    assert ls.recommend(INCOMES, 1, 1e-6, 1000).learner_name == "PrivateExperts"
    assert ls.Plan.practical(INCOMES, 1, 1e-6, 10**5).trees == (
        ls.Plan.practical(ls.Thresholds(0, 3), 1, 1e-6, 10**5).trees
    )


def test_a_batch_is_placed_as_one_row_is() -> None:
    values = [None, float("nan"), -1, 9_999.9, 10_000, 20_000, 20_000.5, 1e9]
    batch = as_batch({"income": values})
    for rule in INCOMES.hypotheses():
        assert rule.predict(batch).tolist() == [rule({"income": value}) for value in values]
