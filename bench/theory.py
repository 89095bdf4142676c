"""The theory room: exact dimensions, and `predict` against the bare numpy expression."""

import random
from collections.abc import Callable
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import littlestone as ls
from bench.clock import seconds
from littlestone._classes.base import points_of
from littlestone._classes.dimension import Shattering, tabulate

ROWS = 1_000_000


def run() -> None:
    """Print both tables."""
    console = Console(highlight=False, width=100)
    console.print(dimensions(), predictions())


def written_out(cls: ls.HypothesisClass) -> int:
    """The dimension by search over the whole table, closed forms aside."""
    table = tabulate(list(cls.hypotheses()), points_of(cls.domain()))
    return Shattering(table).dimension(table.everything)


def rectangles(side: int) -> ls.FiniteClass:
    """Axis-parallel rectangles on a square of cells, and the empty one."""
    cells = list(product(range(side), repeat=2))
    spans = list(combinations(range(side + 1), 2))
    boxes = [[a <= i < b and c <= j < d for i, j in cells] for a, b in spans for c, d in spans]
    return ls.FiniteClass([[False] * len(cells), *boxes])


def scattered(hypotheses: int, points: int, seed: int) -> ls.FiniteClass:
    """Random rows, all different."""
    draw = random.Random(seed)
    rows: set[tuple[int, ...]] = set()
    while len(rows) < hypotheses:
        rows.add(tuple(draw.randint(0, 1) for _ in range(points)))
    return ls.FiniteClass(sorted(rows))


def dimensions() -> Table:
    """Exact dimensions by search. Aim: each under a second or two."""
    found: dict[str, Callable[[], int]] = {
        "thresholds on 127 points": lambda: written_out(ls.Thresholds(1, 127)),
        "intervals on 16 points": lambda: written_out(ls.Intervals(1, 16)),
        "rectangles on 4x4 cells": lambda: rectangles(4).dimension,
        "200 random hypotheses on 20 points": lambda: scattered(200, 20, seed=1).dimension,
        "1,000 random hypotheses on 40 points": lambda: scattered(1000, 40, seed=1).dimension,
    }
    table = Table("class", "dimension", "seconds", title="Exact Littlestone dimension")
    for name, work in found.items():
        table.add_row(name, str(work()), f"{seconds(work, tries=3):.3f}")
    return table


def predictions() -> Table:
    """`predict` on a million rows as a multiple of the bare expression. Aim: at most 3."""
    draw = np.random.default_rng(1)
    whole = draw.integers(0, 100, ROWS)
    words = np.array([f"merchant {number}" for number in whole])
    score, word = ls.Thresholds(0, 100, 5), ls.Points()
    at_70, is_7 = ls.between(70, None), ls.one_of(["merchant 7"])
    cases: list[tuple[str, ls.HypothesisClass, ls.Hypothesis, Any, Callable[[Any], Any]]] = [
        ("thresholds, int64", score, at_70, whole, lambda X: X >= 70),
        ("thresholds, float64", score, at_70, whole.astype(float), lambda X: X >= 70),
        ("points, int64", word, ls.one_of([7]), whole, lambda X: X == 7),
        ("points, text", word, is_7, words, lambda X: X == "merchant 7"),
        ("points, objects", word, is_7, words.astype(object), lambda X: X == "merchant 7"),
    ]
    table = Table("case", "times the bare numpy expression", title=f"predict on {ROWS:,} rows")
    for name, cls, rule, X, bare in cases:
        assert np.array_equal(cls.predict(rule, X), bare(X))
        ours, theirs = seconds(partial(cls.predict, rule, X)), seconds(partial(bare, X))
        table.add_row(name, f"{ours / theirs:.2f}")
    return table
