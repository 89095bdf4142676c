"""Speed beside River's LogisticRegression, which learns rounds one by one.

`speed`: rounds a second of DPSOA's `learn_many`, in blocks as a reader hands them out, with clean
and with noisy labels. `single_rows`: microseconds a round of `predict_one` + `learn_one`.

Only the ratios mean anything: both sides run on the same machine, one after the other, and
processor time is counted, the better of two tries. The noise is the real one. Where values are
names, River has them one-hot encoded, without zeros: its fastest way.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from river.linear_model import LogisticRegression
from river.preprocessing import OneHotEncoder

from bench.clock import seconds as wall_seconds
from bench.output import publish
from bench.streams import rows, scores, value_column
from littlestone import (
    DPSOA,
    Causes,
    HypothesisClass,
    Points,
    PrivateCauses,
    PrivateExperts,
    Rules,
    Sets,
    Thresholds,
)
from littlestone._simulate.streams import Stream

BLOCK, ONES, TRIES = 65_536, 50_000, 2
NAMES, FIFTEEN = ["a", "b", "c", "d", "e"], Thresholds(1, 15, column="x")
seconds = partial(wall_seconds, tries=TRIES, clock=time.process_time)
Examples = list[tuple[dict[str, object], bool]]


class Contest(NamedTuple):
    """A class, its columns and labels; whether River needs them one-hot encoded; the aim."""

    name: str
    cls: HypothesisClass
    stream: Stream
    encoded: bool
    aim: int


def run() -> None:
    """Print the rounds a second of batches."""
    title = f"Rounds a second: DPSOA in blocks of {BLOCK:,} beside River one by one"
    table = _table("stream", "rounds", "DPSOA", title=title)
    for contest in _contests():
        total, examples = len(contest.stream.answers), _examples(contest.stream.part(0, ONES))
        ours = total / seconds(partial(_learn, contest))
        river = ONES / seconds(partial(_river, examples, contest.encoded))
        figures = f"{total:,}", f"{ours:,.0f}", f"{river:,.0f}"
        table.add_row(contest.name, *figures, *_verdict(ours / river, contest.aim))
    publish("speed", table)


def run_single_rows() -> None:
    """Print the microseconds of a round that comes by itself."""
    title = "Microseconds a round: predict_one + learn_one beside River's"
    table = _table("learner", "littlestone", title=title)
    for name, stream, encoded, make in _single_contests():
        examples = _examples(stream)
        ours = seconds(partial(_ours, make, examples))
        river = seconds(partial(_river, examples, encoded))
        figures = (f"{took / len(examples) * 1e6:.1f}" for took in (ours, river))
        table.add_row(name, *figures, *_verdict(river / ours, 1))
    publish("single_rows", table)


def _table(name: str, *figures: str, title: str) -> Table:
    table = Table(name, title=title)
    for figure in (*figures, "River", "ratio", "aim"):
        table.add_column(figure, justify="right")
    table.add_column("ok")
    return table


def _verdict(ratio: float, aim: float) -> tuple[str, str, str]:
    return f"{ratio:,.2f}", f">= {aim:g}", "yes" if ratio >= aim else "NO"


def _contests() -> Iterator[Contest]:
    """One at a time: the streams are large."""
    points, rules = Points("x"), Rules(NAMES)
    yield Contest("Thresholds, 15", FIFTEEN, _named(scores(7, 10**7, 15)), False, 50)
    yield Contest("Rules of 5, strings", rules, rows(7, 10**6, 0.06), True, 10)
    yield Contest("Points", points, _named(value_column(7, 10**6, 0.06)), True, 10)
    noisy = _named(scores(7, 10**7, 15, noise=0.02))
    yield Contest("Thresholds, 2 % noise", FIFTEEN, noisy, False, 45)
    yield Contest("Rules of 5, 5 % noise", rules, rows(7, 10**6, 0.06, noise=0.05), True, 1)
    noisy = _named(value_column(7, 10**6, 0.06, noise=0.1))
    yield Contest("Points, 10 % noise", points, noisy, True, 10)
    noisy = _named(value_column(7, 10**6, 0.06, culprits=3, noise=0.1))
    yield Contest("Sets of 3, 10 % noise", Sets(3, "x"), noisy, True, 1)


def _single_contests() -> Iterator[tuple[str, Stream, bool, Callable[[], Any]]]:
    horizon = 10**6
    numbers, named = _named(scores(7, ONES, 15)), rows(7, ONES, 0.06)
    noisy, values = _named(scores(7, ONES, 15, noise=0.02)), _named(value_column(7, ONES, 0.06))
    terms = (1, 1e-9, horizon)
    yield "DPSOA, Thresholds, 15", numbers, False, partial(DPSOA, FIFTEEN, *terms)
    yield "DPSOA, the same, 2 % noise", noisy, False, partial(DPSOA, FIFTEEN, *terms)
    yield "PrivateExperts, Thresholds", numbers, False, partial(PrivateExperts, FIFTEEN, 1, horizon)
    yield "DPSOA, Points", values, True, partial(DPSOA, Points("x"), *terms)
    yield "DPSOA, Rules of 5", named, True, partial(DPSOA, Rules(NAMES), *terms)
    for width in (1, 2):
        made = partial(PrivateCauses, Causes(NAMES, width=width), *terms)
        yield f"PrivateCauses of 5, width {width}", named, True, made


def _named(stream: Stream) -> Stream:
    """A stream of bare values as one of a column x."""
    assert isinstance(stream.batch, np.ndarray)
    return Stream({"x": stream.batch}, stream.answers, stream.truth)


def _examples(stream: Stream) -> Examples:
    """The same rounds one by one, as dicts."""
    assert isinstance(stream.batch, Mapping)
    names, columns = list(stream.batch), [column.tolist() for column in stream.batch.values()]
    each = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return list(zip(each, stream.answers.tolist(), strict=True))


def _learn(contest: Contest) -> None:
    rounds = len(contest.stream.answers)
    learner = DPSOA(contest.cls, 1, 1e-9, rounds)
    for start in range(0, rounds, BLOCK):
        part = contest.stream.part(start, start + BLOCK)
        learner.learn_many(part.batch, part.answers)


def _ours(make: Callable[[], Any], examples: Examples) -> None:
    _one_by_one(make(), examples)


def _river(examples: Examples, encoded: bool) -> None:
    regression = LogisticRegression()
    _one_by_one(OneHotEncoder(drop_zeros=True) | regression if encoded else regression, examples)


def _one_by_one(learner: Any, examples: Examples) -> None:
    for x, y in examples:
        learner.predict_one(x)
        learner.learn_one(x, y)
