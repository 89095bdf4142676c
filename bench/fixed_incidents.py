"""Make the fixed streams of DESIGN's table of figures, and real tables with planted causes.

Fixed streams have five string columns (of 20 to 1,000 values, Zipf frequencies) unless their name
says otherwise; each condition of a culprit is a value of its own, written over rows at random, so
that shares are exact in expectation and columns are independent.
"""

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bench.incidents import (
    Codes,
    Draft,
    Floats,
    Incident,
    Recipe,
    chances_of,
    finish,
    plant,
    zipf,
)

# The rounds of a day, and the largest base rate on one.
DAY, MOST_STORMY = 1000, 0.6
SIZES = (100, 50, 20, 200, 1000, 30, 60, 10, 400, 25)


class Row(NamedTuple):
    """A row of DESIGN's table: rates, share, and what differs from its usual stream."""

    rate: float
    base: float
    share: float
    min_rate: float | None = 0.09
    causes: int = 1
    width: int = 1
    columns: int = 5
    rounds: int = 200_000
    first: int = 0
    phases: int = 1
    storms: bool = False


FIXED: dict[str, Row] = {
    "p.3 q.01": Row(0.3, 0.01, 0.05),
    # At a min_rate of one half the loss is the number of mistakes.
    "p.7 q.05": Row(0.7, 0.05, 0.05, 0.5),
    "p.6 q.05": Row(0.6, 0.05, 0.025, 0.5),
    "p.7 q.1": Row(0.7, 0.1, 0.05, 0.5),
    "p1 q0": Row(1.0, 0.0, 0.05, 0.5),
    "p1 q0 column": Row(1.0, 0.0, 0.05, 0.5, columns=1),
    "common pair": Row(0.3, 0.01, 0.02, width=2),
    "3 causes": Row(0.3, 0.01, 0.03, causes=3),
    "10 columns": Row(0.3, 0.01, 0.026, width=2, columns=10),
    "share .3%": Row(0.3, 0.01, 0.003, rounds=1_000_000),
    "appears": Row(0.3, 0.01, 0.05, first=120_000),
    "no cause": Row(0.0, 0.01, 0.0, causes=0),
    "storms": Row(0.0, 0.05, 0.0, None, 0, storms=True),
    "storms p.5": Row(0.5, 0.05, 0.05, None, storms=True),
    "changing": Row(0.9, 0.01, 0.05, 0.5, phases=10),
}


def make_fixed(name: str, seed: int) -> Incident:
    """Make a stream of DESIGN's table of figures."""
    row = FIXED[name]
    rng = np.random.default_rng([crc32(name.encode()), seed])
    sizes = SIZES[: row.columns]
    codes = {
        f"column{n}": zipf(rng, row.rounds, size, rng.uniform(0.8, 1.2))
        for n, size in enumerate(sizes)
    }
    edges = np.linspace(row.first, row.rounds, row.phases + 1).astype(int)
    drafts = []
    for number in range(row.causes):
        for first, last in pairwise(edges.tolist()):
            pattern = _write_culprit(rng, codes, row, number)
            drafts.append(Draft(pattern, first, last, row.rate))
    base = np.full(row.rounds, row.base)
    if row.storms:
        base = stormy(rng, row.rounds, row.base)
    facts: dict[str, Any] = {"kind": name, "seed": seed, "width": row.width}
    chances = chances_of(codes, base, drafts)
    return finish(rng, codes, chances, drafts, min_rate=row.min_rate, **facts)


def stormy(rng: np.random.Generator, rounds: int, base: float) -> Floats:
    """Return a base rate that is another multiple of `base` every day."""
    logs = np.zeros(-(-rounds // DAY))
    for day in range(1, len(logs)):
        logs[day] = 0.5 * logs[day - 1] + rng.normal()
    return np.minimum(base * np.repeat(np.exp(logs), DAY)[:rounds], MOST_STORMY)


def _write_culprit(
    rng: np.random.Generator, codes: dict[str, Codes], row: Row, number: int
) -> tuple[tuple[str, int], ...]:
    """Write a new value over rows at random, in one column for each condition."""
    each = row.share ** (1 / row.width)
    pattern = []
    for name in [str(n) for n in rng.permutation(list(codes))[: row.width]]:
        code = int(codes[name].max()) + 1
        codes[name] = np.where(rng.random(row.rounds) < each, np.int32(code), codes[name])
        pattern.append((name, code))
    return tuple(pattern)


# Real tables.


def _river(name: str, columns: int) -> pd.DataFrame:
    from river import datasets

    rows = [x for x, _ in getattr(datasets, name)()]
    return pd.DataFrame(rows).iloc[:, :columns]


def _sklearn(name: str, columns: int) -> pd.DataFrame:
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")(as_frame=True).data
    # The columns with most distinct values first: pixels at the border of digits are constant.
    return data[data.nunique().sort_values(ascending=False, kind="stable").index[:columns]]


REAL: dict[str, partial[pd.DataFrame]] = {
    "phishing": partial(_river, "Phishing", 9),
    "solar flare": partial(_river, "SolarFlare", 8),
    "shuttle": partial(_river, "Shuttle", 7),
    "image segments": partial(_river, "ImageSegments", 7),
    "chick weights": partial(_river, "ChickWeights", 3),
    "trump approval": partial(_river, "TrumpApproval", 6),
    "yeast": partial(_river, "Yeast", 6),
    "wine": partial(_sklearn, "wine", 6),
    "breast cancer": partial(_sklearn, "breast_cancer", 6),
    "diabetes": partial(_sklearn, "diabetes", 6),
    "digits": partial(_sklearn, "digits", 6),
}


def binned(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column as text: numbers of more than 12 values in five quantile bins."""
    if column.nunique() > 12 and pd.api.types.is_numeric_dtype(column):
        column = pd.qcut(column, 5, duplicates="drop")
    return column.astype(object).where(column.notna(), "missing").astype(str)


def coded(frame: pd.DataFrame) -> tuple[dict[str, Codes], dict[str, NDArray[np.object_]]]:
    """Return the codes of each column's rows, and the text of each code."""
    pairs = {str(column): pd.factorize(frame[column]) for column in frame.columns}
    return (
        {name: codes.astype(np.int32) for name, (codes, _) in pairs.items()},
        {name: np.asarray(values, dtype=object) for name, (_, values) in pairs.items()},
    )


def make_real(seed: int) -> Incident:
    """Make a stream of rows of a real table, drawn with replacement, with planted causes.

    The table goes round `REAL` with the seed. Causes are filtered like those of the groups; columns
    of real tables follow each other, so some tables have no solvable cause among the tries.
    """
    name = list(REAL)[seed % len(REAL)]
    rng = np.random.default_rng([crc32(name.encode()), seed])
    frame = REAL[name]().apply(binned)
    rounds = int(np.exp(rng.uniform(np.log(50_000), np.log(300_000))))
    drawn = rng.integers(0, len(frame), rounds)
    codes, values = coded(frame.iloc[drawn])
    base, drafts = plant(rng, codes, Recipe((1, 2), (1, 1, 2, 3)))
    chances = chances_of(codes, base, drafts)
    return finish(rng, codes, chances, drafts, values=values, kind="real", seed=seed)
