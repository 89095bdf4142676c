"""Make synthetic streams, fixed by a seed, so that a figure can be reproduced.

A stream is columns, labels and the rule behind them. Unbounded domains are Zipf distributed: value
r of a column occurs in proportion to 1/(r + 1).

A target is a rule of its class, and the class can read every example. Families without a bound draw
from Zipf distributions, in which a share of the rounds holds values that the target mentions; the
others draw uniformly from the values that distinguish their rules.

`write_events` writes telemetry: events of a mobile app, one of whose versions fails. Columns have a
few common values and a long tail. The bad version is rolled out some way into the stream. It fails
in a part of its events, and the others fail too now and then: no rule says which events fail.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, fresh_value
from littlestone._classes.causes import Causes, Ranges
from littlestone._classes.conjunctions import Conjunctions
from littlestone._classes.grids import OnGrid
from littlestone._classes.intervals import Intervals
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Sets
from littlestone._classes.thresholds import Cuts
from littlestone._classes.union import Complement, Union
from littlestone._hypotheses.causes import Cause, Condition, any_of, causes_of
from littlestone._hypotheses.rows import Batch, Column, as_batch, part_of
from littlestone._hypotheses.rules import Hypothesis, all_of, negation, one_of
from littlestone._hypotheses.values import Mask
from littlestone.errors import TooLarge

DOMAIN_SIZE = 100_000


@dataclass(frozen=True)
class Stream:
    """Hold examples with labels, and the rule that the labels follow but for noise."""

    batch: Batch
    answers: Mask
    truth: Hypothesis | None
    later: Hypothesis | None = None
    turn: int = 0

    def __len__(self) -> int:
        return len(self.answers)

    def part(self, start: int, stop: int) -> "Stream":
        """Return some of its rounds."""
        rows = slice(start, stop)
        return replace(
            self,
            batch=part_of(self.batch, rows),
            answers=self.answers[rows],
            turn=max(0, self.turn - start),
        )

    def errors(self, rule: Hypothesis) -> int:
        """Return the mistakes of one fixed rule."""
        return int((rule.predict(self.batch) != self.answers).sum())

    @property
    def targets(self) -> list[Hypothesis]:
        """Return the rules that the labels are about, one after the other."""
        return [rule for rule in (self.truth, self.later) if rule is not None]

    @property
    def unavoidable(self) -> int | None:
        """Return the mistakes of the targets, each while it is the target: the label noise."""
        if self.truth is None:
            return None
        if self.later is None:
            return self.errors(self.truth)
        before, after = self.part(0, self.turn), self.part(self.turn, len(self))
        return before.errors(self.truth) + after.errors(self.later)


def zipf(draw: np.random.Generator, count: int, size: int = DOMAIN_SIZE) -> npt.NDArray[np.int64]:
    """Draw ranks from 0 on, by inverting the logarithm that the weights 1/(r + 1) sum up to."""
    # Weights 1/(r + 1) sum up to a logarithm, so its inverse draws ranks.
    ranks = np.exp(draw.random(count) * np.log(size)).astype(np.int64)
    return np.asarray(np.minimum(ranks, size) - 1)


def as_strings(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
    """Return ranks as strings, each a Python object made once."""
    names = np.array([f"v{rank}" for rank in range(DOMAIN_SIZE)], dtype=object)
    return np.asarray(names[ranks])


# The share of rounds that holds what a target without a bounded domain is about.
SHARE = 0.05

MOST_VALUES_LISTED = 100_000
# The commonest values of a column are never the target.
COMMON = 10


def target_of(cls: HypothesisClass, draw: np.random.Generator) -> Hypothesis:
    """Draw a rule of the class."""
    match cls:
        case Sets(k, column):
            # Not among the commonest values, which would be half of the rounds.
            chosen = draw.choice(np.arange(COMMON, DOMAIN_SIZE), size=k, replace=False)
            return one_of(chosen.tolist(), column)
        case Rules(columns):
            rank = int(draw.integers(COMMON, DOMAIN_SIZE))
            return one_of([f"v{rank}"], columns[int(draw.integers(len(columns)))])
        case Causes():
            return any_of([_cause_of(cls, draw)])
        case Complement(of):
            return negation(target_of(of, draw))
        case Union():
            return target_of(cls.members[int(draw.integers(len(cls.members)))], draw)
        case Cuts():
            return cls.rule(int(draw.integers(cls.size)))
        case Intervals() if cls.size > MOST_VALUES_LISTED:
            first, last = sorted(draw.integers(cls.grid.count, size=2).tolist())
            return cls.rule(first, last)
        case Conjunctions(columns, negation=both) if cls.size > MOST_VALUES_LISTED:
            kinds = draw.integers(3 if both else 2, size=len(columns)).tolist()
            return all_of((c, kind == 1) for c, kind in zip(columns, kinds, strict=True) if kind)
    if cls.size is None or cls.size > MOST_VALUES_LISTED:
        rules = cls.finite_core()[0]
        return rules[int(draw.integers(len(rules)))]
    return next(islice(cls.hypotheses(), int(draw.integers(cls.size)), None))


def _cause_of(cls: Causes, draw: np.random.Generator) -> Cause:
    """Draw one cause, with as many conditions as the class allows."""
    which = sorted(draw.choice(len(cls.columns), size=_most_conditions(cls), replace=False))
    rank = int(draw.integers(COMMON, DOMAIN_SIZE))
    row = {
        name: c.number(int(draw.integers(c.cells))) if isinstance(c, Ranges) else f"v{rank}"
        for name, c in zip(cls.names, cls.columns, strict=True)
    }
    # The first condition of a column of numbers is the narrowest range.
    conditions = cls.conditions_of(row)
    return Cause(tuple(conditions[place][0] for place in which))


def _most_conditions(cls: Causes) -> int:
    return min(cls.width, len(cls.columns))


def examples(
    cls: HypothesisClass,
    target: Hypothesis,
    draw: np.random.Generator,
    rounds: int,
    *,
    share: float = SHARE,
) -> Batch:
    """Draw independent examples."""
    match cls:
        case Causes():
            return _cause_rows(cls, target, draw, rounds, share=share)
        case Sets(_, column):
            batch = _batch({column: zipf(draw, rounds)})
        case Rules(columns):
            batch = {name: as_strings(zipf(draw, rounds)) for name in columns}
        case Complement(of):
            return examples(of, target, draw, rounds, share=share)
        case Union():
            parts = [examples(member, target, draw, rounds, share=share) for member in cls.members]
            return _merged(parts, draw)
        case _:
            return _from_domain(cls, draw, rounds)
    _insert_values(batch, target, draw, rounds, share=share)
    return batch


def _cause_rows(
    cls: Causes, target: Hypothesis, draw: np.random.Generator, rounds: int, *, share: float
) -> Batch:
    """Draw rows of which a share matches one of the target's causes."""
    batch: dict[str, npt.NDArray[Any]] = {}
    for c in cls.columns:
        if isinstance(c, Ranges):
            cells = _array(tuple(c.number(cell) for cell in range(c.cells)))
            batch[c.column] = cells[draw.integers(c.cells, size=rounds)]
        else:
            batch[c] = as_strings(zipf(draw, rounds))
    causes = causes_of(target)
    matched = draw.random(rounds) < share
    which = draw.integers(max(1, len(causes)), size=rounds)
    for number, cause in enumerate(causes):
        rows = np.flatnonzero(matched & (which == number))
        # All conditions of a cause together: alone they say nothing about the label.
        for condition in cause.conditions:
            batch[condition.column][rows] = value_for(cls, condition)
    return batch


def value_for(cls: Causes, condition: Condition, *, holds: bool = True) -> Any:
    """Return a value of a column for which a condition holds, or does not."""
    column = dict(zip(cls.names, cls.columns, strict=True))[condition.column]
    if not isinstance(column, Ranges):
        return condition.value if holds else fresh_value([condition.value])
    cells = range(column.cells)
    return next(column.number(c) for c in cells if (condition in column.conditions[c]) == holds)


def _from_domain(cls: HypothesisClass, draw: np.random.Generator, rounds: int) -> Batch:
    if isinstance(cls, OnGrid) and isinstance(cls.grid.lo, int) and isinstance(cls.grid.step, int):
        places = draw.integers(cls.grid.count, size=rounds)
        return _batch({cls.column: cls.grid.lo + cls.grid.step * places})
    try:
        domain = cls.domain()
    except TooLarge:
        points = as_batch(cls.finite_core()[1])
        return part_of(points, draw.integers(_count(points), size=rounds))
    return _batch({c: _array(values)[draw.integers(len(values), size=rounds)]
                   for c, values in domain.items()})  # fmt: skip


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
    """Put the members' examples side by side."""
    columns: dict[Column, list[npt.NDArray[Any]]] = {}
    for part in parts:
        for name, column in part.items() if isinstance(part, dict) else [(None, part)]:
            columns.setdefault(name, []).append(column)
    return _batch({name: _mixed(arrays, draw) for name, arrays in columns.items()})


def _mixed(some: list[npt.NDArray[Any]], draw: np.random.Generator) -> npt.NDArray[Any]:
    if len(some) == 1:
        return some[0]
    kind = some[0].dtype if len({column.dtype for column in some}) == 1 else np.dtype(object)
    stacked = np.array([column.astype(kind) for column in some])
    which = draw.integers(len(some), size=stacked.shape[1])
    return np.asarray(stacked[which, np.arange(stacked.shape[1])])


def _insert_values(
    batch: Batch, target: Hypothesis, draw: np.random.Generator, rounds: int, *, share: float
) -> None:
    """Insert what the target mentions into a share of the rounds, where the columns can hold it."""
    columns: dict[Column, npt.NDArray[Any]]
    columns = dict(batch.items()) if isinstance(batch, dict) else {None: batch}
    for name, values in target.mentions().items():
        column, inserted = columns.get(name), _array(values)
        if column is not None and column.dtype == inserted.dtype:
            rows = np.flatnonzero(draw.random(rounds) < share)
            column[rows] = inserted[draw.integers(len(values), size=len(rows))]


TELEMETRY_COLUMNS = ("version", "country", "device", "carrier", "language")
CULPRIT = "4.2.1"
SIZES = {"version": 2_000, "country": 240, "device": 8_000, "carrier": 900, "language": 180}
# From this part of the stream on the bad version is in use, on this share of the devices.
ROLLED_OUT, CULPRIT_SHARE = 0.2, 0.05
# How often an event of the bad version fails, and how often any other does.
CULPRIT_RATE, BASE_RATE = 0.3, 0.01


def column_values(column: str) -> list[str]:
    """Return the values of a column, the commonest first."""
    size = SIZES[column]
    if column == "version":
        names = [f"{n // 200 + 3}.{n // 20 % 10}.{n % 20}" for n in range(size)]
        return [name for name in names if name != CULPRIT]
    if column == "device":
        makers = ("Nova", "Pixel", "Aero", "Moto", "Zen")
        return [f"{makers[n % 5]} {n // 5 + 1}" for n in range(size)]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    codes = [a + b for a in letters for b in letters]
    return codes[:size] if column != "carrier" else [f"carrier-{n}" for n in range(size)]


def write_events(path: Path, events: int = 300_000, seed: int = 7) -> int:
    """Write the stream as a CSV file."""
    draw = np.random.default_rng(seed)
    columns = {name: _column(draw, name, events) for name in TELEMETRY_COLUMNS}
    start = round(ROLLED_OUT * events)
    bad = (np.arange(events) >= start) & (draw.random(events) < CULPRIT_SHARE)
    columns["version"][bad] = CULPRIT
    failed = (draw.random(events) < np.where(bad, CULPRIT_RATE, BASE_RATE)).astype(int)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *TELEMETRY_COLUMNS, "failed"])
        # One event every two seconds.
        times = np.datetime64("2026-11-02T00:00:00") + 2 * np.arange(events)
        cells = times.astype(str).tolist(), *columns.values(), failed.tolist()
        writer.writerows(zip(*cells, strict=True))
    return start


def _column(draw: np.random.Generator, name: str, events: int) -> npt.NDArray[np.object_]:
    values = np.array(column_values(name), dtype=object)
    return np.asarray(values[zipf(draw, events, len(values))])
