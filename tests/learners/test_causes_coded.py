"""The causes learner on coded columns: the same releases and states as row by row."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import littlestone as ls
from littlestone._hypotheses.rows import as_batch
from littlestone._learners.epoch_rows import EpochRows
from littlestone._privacy.testing import SeededNoise
from naive import add_rows

ROWS = 10_000
KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "polars": pl.DataFrame,
    "polars categories": lambda rows: pl.DataFrame(rows).cast({"a": pl.Categorical}),
    "pandas": pd.DataFrame,
    "pandas objects": lambda rows: pd.DataFrame(rows, dtype=object),
    "pandas categories": lambda rows: pd.DataFrame(rows).astype({"a": "category", "b": "category"}),
    "arrow": lambda rows: pa.table(rows),
    "objects": lambda rows: {name: np.array(cells, dtype=object) for name, cells in rows.items()},
    "lists": lambda rows: rows,
    "text and numbers": lambda rows: {
        "a": np.array(rows["a"], dtype=object),
        "b": np.array(rows["b"]),
        "c": np.array(rows["c"]).astype(int),
        "n": np.array(rows["n"]),
    },
    "rows": lambda rows: [
        dict(zip(rows, cells, strict=True)) for cells in zip(*rows.values(), strict=True)
    ],
}


def _stream(seed: int = 0, count: int = ROWS) -> tuple[dict[str, list[Any]], np.ndarray]:
    """Return rows with None, long text, numbers as text, a wide column; and two causes."""
    draw = np.random.default_rng(seed)
    values: dict[str, list[Any]] = {
        "a": ["4.2.0", "4.2.1", None, "-0.0", "a longer text than a view holds"],
        "b": ["SE", "NO", "DK", *(f"country {n}" for n in range(40))],
        "c": [str(n) for n in range(9)],
    }
    rows = {
        name: [some[at] for at in np.minimum(draw.geometric(0.3, count), len(some)) - 1]
        for name, some in values.items()
    }
    rows["n"] = draw.integers(100, size=count).tolist()
    raised = np.array([a == "4.2.1" or a is None for a in rows["a"]])
    return rows, draw.random(count) < np.where(raised, 0.5, 0.02)


def _class(width: int) -> ls.Causes:
    return ls.Causes(["a", "b", "c", ls.Ranges("n", [10, 50, 90])], width=width, limit=3)


def _learner(width: int) -> ls.PrivateCauses:
    noise = SeededNoise(1)
    return ls.PrivateCauses(_class(width), 2, 1e-5, 2 * ROWS, min_rate=0.2, noise=noise)


def _told(learner: ls.PrivateCauses) -> tuple[Any, ...]:
    releases = [(release.round, str(release.rule)) for release in learner.releases]
    return releases, learner.windows, learner.mistakes, learner.missed


@pytest.fixture(scope="module", params=[1, 2, 3])
def one_by_one(request: pytest.FixtureRequest) -> tuple[int, tuple[Any, ...]]:
    """Return a width, and what is released where rows come as objects, one by one."""
    learner, (rows, labels) = _learner(request.param), _stream()
    for cells, label in zip(zip(*rows.values(), strict=True), labels, strict=True):
        learner.learn_one(dict(zip(rows, cells, strict=True)), bool(label))
    told = _told(learner)
    assert len(told[0]) > 2, "something is published"
    return request.param, told


@pytest.mark.parametrize("kind", KINDS)
def test_releases_are_those_of_rows_one_by_one(
    kind: str, one_by_one: tuple[int, tuple[Any, ...]]
) -> None:
    width, told = one_by_one
    learner, (rows, labels) = _learner(width), _stream()
    learner.learn_many(KINDS[kind](rows), labels)
    assert _told(learner) == told


def test_batches_of_several_kinds_make_one_stream(
    one_by_one: tuple[int, tuple[Any, ...]],
) -> None:
    width, told = one_by_one
    learner, (rows, labels) = _learner(width), _stream()
    # Some batches are small, and some rows come alone.
    cuts = [0, 10, 2010, 4009, 4011, ROWS]
    kinds = ["objects", "polars", "pandas", None, "pandas categories"]
    for start, stop, kind in zip(cuts, cuts[1:], kinds, strict=False):
        part = {name: cells[start:stop] for name, cells in rows.items()}
        if kind is None:
            for row, label in zip(KINDS["rows"](part), labels[start:stop], strict=True):
                learner.learn_one(row, bool(label))
        else:
            learner.learn_many(KINDS[kind](part), labels[start:stop])
    assert _told(learner) == told


def test_few_wanted_rows_are_counted_as_many_are() -> None:
    """Negative rows without a value of a positive row are left out before keys are counted."""
    draw = np.random.default_rng(3)
    cls = ls.Causes(["a", "b", "c"], width=3)
    columns = {name: draw.integers(400, size=30_000) for name in "abc"}
    labels = np.arange(30_000) < 60
    rows = EpochRows(cls)
    everything = np.ones(30_000, dtype=bool)
    add_rows(rows, as_batch(columns, cls.reads), labels, everything)
    counts, _, keys, _ = rows.counts()
    for at in range(0, len(counts), 7):
        holds = keys.cause(at).predict(columns)
        assert counts[at].tolist() == [(holds & ~labels).sum(), (holds & labels).sum()]


@pytest.mark.parametrize("every", [1, 4, 8])
def test_epochs_are_no_longer_than_the_plan_says(every: int) -> None:
    cls = ls.Causes(["a", "b"])
    plan = ls.CausesPlan.practical(cls, 1, 1e-5, 10_000, min_rate=0.2)
    plan = replace(plan, check_every=every, longest_epoch=every * 3)
    learner = ls.PrivateCauses(cls, plan=plan, noise=SeededNoise(1))
    learner.loop.state.restart(0, ls.any_of([ls.Cause((ls.Condition("a", "x"),))]))
    assert learner.loop.gate.gate.schedule.epoch == every * 3
