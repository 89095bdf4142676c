"""Speed of rounds one by one: `predict_one` + `learn_one` beside River's LogisticRegression.

Seconds of processor time, so that other programs on the machine disturb less; the better of several
tries; only the ratios mean anything. The noise is the real one. Where values are names, River has
them one-hot encoded, without zeros: its fastest way.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table
from river.linear_model import LogisticRegression
from river.preprocessing import OneHotEncoder

from bench.speed import Examples, _examples, _named, _one_by_one
from bench.streams import rows, scores, value_column
from littlestone import DPSOA, Causes, Points, PrivateCauses, PrivateExperts, Rules, Thresholds
from littlestone._simulate.streams import Stream

ROUNDS, HORIZON, TRIES = 50_000, 10**6, 3


def run() -> None:
    """Print the table."""
    table = Table("learner", "microseconds a round", "River", "ratio", "aim", "ok")
    for name, stream, encoded, make in _contests():
        examples = _examples(stream)
        ours = _seconds(partial(_ours, make, examples))
        theirs = _seconds(partial(_river, examples, encoded))
        ratio = theirs / ours
        figures = (f"{seconds / len(examples) * 1e6:.1f}" for seconds in (ours, theirs))
        table.add_row(name, *figures, f"{ratio:.2f}", ">= 1", "yes" if ratio >= 1 else "NO")
    Console(highlight=False, width=100).print(table)


def _contests() -> Iterator[tuple[str, Stream, bool, Callable[[], Any]]]:
    fifteen, five = Thresholds(1, 15, column="x"), ["a", "b", "c", "d", "e"]
    numbers, named = _named(scores(7, ROUNDS, 15)), rows(7, ROUNDS, 0.06)
    values = _named(value_column(7, ROUNDS, 0.06))
    terms = (1, 1e-9, HORIZON)
    yield "DPSOA, Thresholds, 15", numbers, False, partial(DPSOA, fifteen, *terms)
    yield "PrivateExperts, the same", numbers, False, partial(PrivateExperts, fifteen, 1, HORIZON)
    yield "DPSOA, Points", values, True, partial(DPSOA, Points("x"), *terms)
    yield "DPSOA, Rules of 5", named, True, partial(DPSOA, Rules(five), *terms)
    for width in (1, 2):
        made = partial(PrivateCauses, Causes(five, width=width), *terms)
        yield f"PrivateCauses of 5, width {width}", named, True, made


def _ours(make: Callable[[], Any], examples: Examples) -> None:
    _one_by_one(make(), examples)


def _river(examples: Examples, encoded: bool) -> None:
    regression = LogisticRegression()
    _one_by_one(OneHotEncoder(drop_zeros=True) | regression if encoded else regression, examples)


def _seconds(what: Callable[[], None]) -> float:
    found = []
    for _ in range(TRIES):
        start = time.process_time()
        what()
        found.append(time.process_time() - start)
    return min(found)
