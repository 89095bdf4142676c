"""Speed of the private learner: its ratio to River's LogisticRegression, and to a bare pass.

Prints rounds a second of `learn_many`, in blocks as a reader hands them out and as one array, and
of `predict_one` + `learn_one`, beside River's `predict_one` + `learn_one` on the first rounds of
the same stream. Only the ratios mean anything: both sides run on the same machine, one after the
other, and processor time is counted. The noise is the real one. Where values are names, River has
them one-hot encoded, without zeros: its fastest way.

    python -m bench speed              every stream
    python -m bench.speed noise        those with noisy labels
"""

import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from river.linear_model import LogisticRegression
from river.preprocessing import OneHotEncoder

from bench.clock import seconds as wall_seconds
from bench.streams import rows, scores, value_column
from littlestone import DPSOA, HypothesisClass, Plan, Points, Rules, Sets, Thresholds
from littlestone._learners.forest import Forest
from littlestone._simulate.streams import Stream

BLOCK, ONES, TRIES = 65_536, 100_000, 3
seconds = partial(wall_seconds, tries=TRIES, clock=time.process_time)
Examples = list[tuple[dict[str, object], bool]]


class Contest(NamedTuple):
    """A class, its columns and labels; whether River needs them one-hot encoded; the aims."""

    name: str
    cls: HypothesisClass
    stream: Stream
    encoded: bool
    aim: int
    noise: float = 0.0


def run(noise: bool = False) -> None:
    """Print the table, or its part with noisy labels."""
    title = (
        "Rounds a second, of which the ratios count: learn_many in blocks or with one array,\n"
        "predict_one + learn_one one by one; River: LogisticRegression, one by one"
    )
    table = Table("stream", "T", "how", title=title)
    for name in ("rounds/s", "of", "rounds/s", "ratio", "aim", "ok"):
        table.add_column(name, justify="right" if "/s" in name or name == "ratio" else "left")
    for contest in _contests(noise):
        for line in _lines(contest):
            table.add_row(contest.name, *line)
        table.add_section()
    Console(highlight=False, width=100).print(table)


def _contests(noise: bool) -> Iterator[Contest]:
    """One at a time: the streams are large."""
    fifteen, five = Thresholds(1, 15, column="x"), Rules(["a", "b", "c", "d", "e"])
    if not noise:
        yield Contest("Thresholds, 15", fifteen, _named(scores(7, 10**7, 15)), False, 50)
        yield Contest("Rules of 5, strings", five, rows(7, 10**6, 0.06), True, 10)
        yield Contest("Points", Points("x"), _named(value_column(7, 10**6, 0.06)), True, 10)
    noisy = _named(scores(7, 10**7, 15, noise=0.02))
    yield Contest("Thresholds, 2 % noise", fifteen, noisy, False, 10, 0.02)
    noisy = rows(7, 10**6, 0.06, noise=0.05)
    yield Contest("Rules of 5, 5 % noise", five, noisy, True, 1, 0.05)
    noisy = _named(value_column(7, 10**6, 0.06, noise=0.1))
    yield Contest("Points, 10 % noise", Points("x"), noisy, True, 10, 0.1)
    noisy = _named(value_column(7, 10**6, 0.06, culprits=3, noise=0.1))
    yield Contest("Sets of 3, 10 % noise", Sets(3, "x"), noisy, True, 1, 0.1)


def _named(stream: Stream) -> Stream:
    """A stream of bare values as one of a column x."""
    assert isinstance(stream.batch, np.ndarray)
    return Stream({"x": stream.batch}, stream.answers, stream.truth)


def _lines(contest: Contest) -> Iterator[list[str]]:
    total = len(contest.stream.answers)
    plan = Plan.practical(contest.cls, 1, 1e-9, total)
    examples = _examples(contest.stream.part(0, ONES))
    river = ONES / seconds(partial(_river, contest, examples))
    in_blocks = total / seconds(partial(_learn, contest, plan, BLOCK))
    at_once = total / seconds(partial(_learn, contest, plan, total))
    size = f"{total:.0e}".replace("e+0", "e")
    yield _line(size, "blocks", in_blocks, "River", river, contest.aim)
    yield _line(size, "one array", at_once, "River", river, contest.aim)
    if not contest.noise:
        one_by_one = ONES / seconds(partial(_learn_ones, contest, plan, examples))
        yield _line("1e5", "one by one", one_by_one, "River", river, 1)
    if contest.aim == 50:
        floor = total / seconds(partial(_floor, contest, plan))
        yield _line(size, "blocks", in_blocks, "bare pass", floor, 1 / 3)


def _line(size: str, verb: str, speed: float, of: str, other: float, aim: float) -> list[str]:
    ratio = speed / other
    return [
        size,
        verb,
        f"{speed:,.0f}",
        of,
        f"{other:,.0f}",
        f"{ratio:,.2f}",
        f">= {aim:g}" if aim >= 1 else f">= 1/{1 / aim:.0f}",
        "yes" if ratio >= aim else "NO",
    ]


def _examples(stream: Stream) -> Examples:
    """The same rounds one by one, as dicts."""
    assert isinstance(stream.batch, Mapping)
    names, columns = list(stream.batch), [column.tolist() for column in stream.batch.values()]
    each = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return list(zip(each, stream.answers.tolist(), strict=True))


def _learn(contest: Contest, plan: Plan, block: int) -> None:
    learner = DPSOA(contest.cls, plan=plan)
    for start in range(0, plan.horizon, block):
        part = contest.stream.part(start, start + block)
        learner.learn_many(part.batch, part.answers)


def _floor(contest: Contest, plan: Plan) -> None:
    """Draw the tree of each round, gather by it, evaluate one rule: what every forest that looks at
    every round has to do at least."""
    forest, held = Forest(contest.cls, plan.shapes, seed=7), np.zeros(plan.trees, dtype=bool)
    rule = contest.stream.truth
    assert rule is not None
    for start in range(0, plan.horizon, BLOCK):
        part = contest.stream.part(start, start + BLOCK)
        trees, _ = forest.routed(np.arange(start, start + len(part.answers)))
        wrong = contest.cls.predict(rule, part.batch) != part.answers
        np.count_nonzero(held[trees] | wrong)


def _river(contest: Contest, examples: Examples) -> None:
    regression = LogisticRegression()
    _one_by_one(
        OneHotEncoder(drop_zeros=True) | regression if contest.encoded else regression, examples
    )


def _learn_ones(contest: Contest, plan: Plan, examples: Examples) -> None:
    _one_by_one(DPSOA(contest.cls, plan=plan), examples)


def _one_by_one(learner: Any, examples: Examples) -> None:
    for x, y in examples:
        learner.predict_one(x)
        learner.learn_one(x, y)


if __name__ == "__main__":
    run("noise" in sys.argv[1:])
