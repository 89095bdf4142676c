"""Draw the examples and the target of a class, for every family.

Promises: a target is a rule of the class, and the class can read every example. Families without a
bound draw from Zipf vocabularies, in which a share of the rounds holds values that the target
mentions; the others draw uniformly from the values that distinguish their rules.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.lab.streams import VOCABULARY, spelt, zipf
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.combinations import Complement, Union
from littlestone.theory.conjunctions import Conjunctions
from littlestone.theory.errors import TooLarge
from littlestone.theory.grids import OnGrid
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.intervals import Intervals
from littlestone.theory.rows import Batch, Column, as_batch, part_of
from littlestone.theory.rules import Rules
from littlestone.theory.sets import Sets
from littlestone.theory.thresholds import Cuts
from littlestone.theory.vocabulary import all_of, negation, one_of

SHARE = 0.05
"""The share of rounds that holds what a target without a bounded domain is about."""

MOST_LISTED = 100_000
COMMON = 10
"""The commonest values of a vocabulary are nobody's target."""


def target_of(cls: HypothesisClass, draw: np.random.Generator) -> Hypothesis:
    """Draw a rule of the class.

    Parameters
    ----------
    cls
        The class.
    draw
        The random bits.

    Returns
    -------
    Hypothesis
        The rule.

    Examples
    --------
    >>> from littlestone.theory.thresholds import Thresholds
    >>> print(target_of(Thresholds(0, 100, 5, "score"), np.random.default_rng(3)))
    score >= 85
    """
    match cls:
        case Sets(k, column):
            chosen = draw.choice(np.arange(COMMON, VOCABULARY), size=k, replace=False)
            return one_of(chosen.tolist(), column)
        case Rules(columns):
            rank = int(draw.integers(COMMON, VOCABULARY))
            return one_of([f"v{rank}"], columns[int(draw.integers(len(columns)))])
        case Complement(of):
            return negation(target_of(of, draw))
        case Union():
            return target_of(cls.members[int(draw.integers(len(cls.members)))], draw)
        case Cuts():
            return cls.rule(int(draw.integers(cls.size)))
        case Intervals() if cls.size > MOST_LISTED:
            first, last = sorted(draw.integers(cls.grid.count, size=2).tolist())
            return cls.rule(first, last)
        case Conjunctions(columns, negation=both) if cls.size > MOST_LISTED:
            kinds = draw.integers(3 if both else 2, size=len(columns)).tolist()
            return all_of((c, kind == 1) for c, kind in zip(columns, kinds, strict=True) if kind)
    if cls.size is None or cls.size > MOST_LISTED:
        rules = cls.skeleton()[0]
        return rules[int(draw.integers(len(rules)))]
    return next(islice(cls.hypotheses(), int(draw.integers(cls.size)), None))


def examples(
    cls: HypothesisClass, target: Hypothesis, draw: np.random.Generator, rounds: int
) -> Batch:
    """Draw independent examples.

    Parameters
    ----------
    cls
        The class.
    target
        The target, whose values are put into a share of the rounds.
    draw
        The random bits.
    rounds
        How many.

    Returns
    -------
    Batch
        The examples.
    """
    match cls:
        case Sets(_, column):
            batch = _batch({column: zipf(draw, rounds)})
        case Rules(columns):
            batch = {name: spelt(zipf(draw, rounds)) for name in columns}
        case Complement(of):
            return examples(of, target, draw, rounds)
        case Union():
            return _merged([examples(some, target, draw, rounds) for some in cls.members], draw)
        case _:
            return _from_domain(cls, draw, rounds)
    _plant(batch, target, draw, rounds)
    return batch


def _from_domain(cls: HypothesisClass, draw: np.random.Generator, rounds: int) -> Batch:
    if isinstance(cls, OnGrid) and isinstance(cls.grid.lo, int) and isinstance(cls.grid.step, int):
        places = draw.integers(cls.grid.count, size=rounds)
        return _batch({cls.column: cls.grid.lo + cls.grid.step * places})
    try:
        domain = cls.domain()
    except TooLarge:
        points = as_batch(cls.skeleton()[1])
        return part_of(points, draw.integers(_count(points), size=rounds))
    return _batch({c: _array(some)[draw.integers(len(some), size=rounds)]
                   for c, some in domain.items()})  # fmt: skip


def _array(values: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Return values as an array in which each keeps its type."""
    kinds = set(map(type, values))
    return np.array(values, dtype=None if kinds <= {int} or kinds <= {float} else object)


def _batch(columns: Mapping[Column, npt.NDArray[Any]]) -> Batch:
    if None in columns:
        return columns[None]
    return {name: column for name, column in columns.items() if name is not None}


def _count(batch: Batch) -> int:
    return len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)


def _merged(parts: list[Batch], draw: np.random.Generator) -> Batch:
    """Put the members' examples side by side.

    A column that several read is drawn from all of them.
    """
    columns: dict[Column, list[npt.NDArray[Any]]] = {}
    for part in parts:
        for name, column in part.items() if isinstance(part, dict) else [(None, part)]:
            columns.setdefault(name, []).append(column)
    return _batch({name: _mixed(some, draw) for name, some in columns.items()})


def _mixed(some: list[npt.NDArray[Any]], draw: np.random.Generator) -> npt.NDArray[Any]:
    if len(some) == 1:
        return some[0]
    kind = some[0].dtype if len({column.dtype for column in some}) == 1 else np.dtype(object)
    stacked = np.array([column.astype(kind) for column in some])
    which = draw.integers(len(some), size=stacked.shape[1])
    return np.asarray(stacked[which, np.arange(stacked.shape[1])])


def _plant(batch: Batch, target: Hypothesis, draw: np.random.Generator, rounds: int) -> None:
    """Put what the target mentions into a share of the rounds, where the columns can hold it."""
    columns: dict[Column, npt.NDArray[Any]]
    columns = dict(batch.items()) if isinstance(batch, dict) else {None: batch}
    for name, values in target.mentions().items():
        column, planted = columns.get(name), _array(values)
        if column is not None and column.dtype == planted.dtype:
            at = np.flatnonzero(draw.random(rounds) < SHARE)
            column[at] = planted[draw.integers(len(values), size=len(at))]
