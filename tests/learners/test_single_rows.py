"""Rounds one by one: they are read, and learned, as a batch is; `learn_many` is the oracle."""

import math
import operator
import random
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from littlestone._classes.base import read_row
from littlestone._hypotheses.cells import Kind
from littlestone._hypotheses.rows import Column
from littlestone._hypotheses.rules import OneOf, Steps
from littlestone._hypotheses.values import canonical, encode, key_of
from littlestone._learners.cause_counts import CauseCounts
from littlestone._learners.loop import EpochState
from littlestone._privacy.testing import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore:delta")

CELLS: list[Any] = [
    *("a", "3", "007", "-0.0", "0.0", "", "\ud800", "é", "9" * 2000, np.str_("a"), b"a"),
    *(3, -1, 2**62, 2**63, 10**400, 10**5000, True, False, np.int64(3), np.bool_(True)),
    *(0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, np.float64(0.5), Decimal("1.5")),
    *(None, object(), [], {}, ("a", 1), 1j),
]


def outcome(read: Any, x: object) -> object:
    """What a reader makes of a row, to the type of its cells; or what it refuses it with."""
    try:
        found = read(x)
    except ls.BadExample as error:
        return str(error)
    if isinstance(found, Mapping):
        return [(name, type(cell), written(cell)) for name, cell in found.items()]
    return type(found), written(found)


def written(cell: object) -> str:
    """A cell as text; whole numbers may be too long for digits."""
    return hex(cell) if isinstance(cell, int) else repr(cell)


@dataclass(frozen=True)
class NoRed(ls.Rules):
    """A subclass that refuses more than the class does."""

    def check(self, x: Any) -> None:
        if "red" in x.values():
            raise ls.BadExample("no red")
        super().check(x)


@dataclass(frozen=True)
class Fewer(ls.Rules):
    """A subclass that says it reads fewer columns than it checks."""

    @property
    def reads(self) -> Mapping[Column, Kind]:
        return {"a": "value"}


def test_a_subclass_with_a_check_of_its_own_is_asked() -> None:
    with pytest.raises(ls.BadExample, match="no red"):
        read_row(NoRed(["a", "b"]), {"a": "red", "b": "x"})
    with pytest.raises(ls.BadExample, match="no column 'b'"):
        read_row(Fewer(["a", "b"]), {"a": "x"})
    # The test can fail: the class itself reads the first row without asking.
    assert read_row(ls.Rules(["a", "b"]), {"a": "red", "b": "x"}) == {"a": "red", "b": "x"}


@pytest.mark.parametrize("column", [None, "m"])
def test_rules_of_text_and_numbers_are_evaluated_as_the_slow_path_does(column: str | None) -> None:
    readable = [cell for cell in CELLS if not isinstance(outcome(canonical, cell), str)]
    odd = OneOf(("3", True), column)  # values that `one_of` would not make: nothing is equal to 3
    for rule in [*(ls.one_of([cell], column) for cell in readable), odd]:
        assert isinstance(rule, OneOf)
        keys = set(map(encode, rule.values))
        for cell in readable:
            assert rule(cell if column is None else {column: cell}) == (key_of(cell) in keys)
    for cuts in ((0,), (-1, 0.5), (2**53 + 1,), (0, 1, 1.5)):
        rule = Steps(True, cuts, column)
        for cell in (*CELLS[11:28], None, "1e3", "nan"):
            x: Any = cell if column is None else {column: cell}
            assert rule(x) == rule.predict([x])[0], (rule, cell)


KINDS: dict[str, Any] = {
    "DPSOA": lambda noise: ls.DPSOA(ls.Points("m"), 20, 1e-5, 900, seed=3, noise=noise),
    "users": lambda noise: ls.DPSOA(
        ls.Points("m"), 60, 1e-3, 900, unit="user", cap=9, seed=3, noise=noise
    ),
    "thresholds": lambda noise: ls.DPSOA(
        ls.Thresholds(0, 9, column="m"), 8, 1e-5, 900, seed=3, noise=noise
    ),
    "experts": lambda noise: ls.PrivateExperts(
        ls.Thresholds(0, 9, column="m"), 4, 900, first="own", noise=noise
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [5, 1024])
def test_rounds_kept_one_by_one_are_learned_as_a_batch_is(
    kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one by one and together alternate, and a checkpoint is made on the way."""
    for state in (EpochState, CauseCounts):
        monkeypatch.setattr(state, "most_waiting", most)
    draw, together = random.Random(kind), KINDS[kind](SeededNoise(5))
    cells = [draw.randrange(4) for _ in range(480)]
    # A culprit that changes, and labels of which some are wrong: epochs that search and compare.
    culprit = operator.eq if isinstance(together.cls, ls.Points) else operator.ge
    answers = [
        culprit(c, 2 if n < 240 else 3) != (draw.random() < 0.2) for n, c in enumerate(cells)
    ]
    xs = [{"m": c} for c in cells]
    who = [f"u{draw.randrange(200)}" for _ in cells] if kind == "users" else None
    one, mixed = (KINDS[kind](SeededNoise(5)) for _ in range(2))
    together.learn_many(xs, answers, **({} if who is None else {"users": who}))
    for at, (x, y) in enumerate(zip(xs, answers, strict=True)):
        one.learn_one(x, y, **({} if who is None else {"user": who[at]}))
    for start in range(0, 480, 60):
        some = slice(start + 25, start + 60)
        for at in range(start, start + 25):
            user = {} if who is None else {"user": who[at]}
            mixed.learn_one(xs[at], answers[at], **user)
        with mixed.checkpoint():
            pass
        users = {} if who is None else {"users": who[some]}
        mixed.learn_many(xs[some], answers[some], **users)
    assert together.releases == one.releases == mixed.releases
    assert len(one.releases) > 1
    found = [
        (it.mistakes, it.ledger, it.null_rounds, it.trace[-1]) for it in (together, one, mixed)
    ]
    assert found[0] == found[1] == found[2]
    with together.checkpoint() as a, one.checkpoint() as b:
        assert a.memory == b.memory
        for name in ("gate", "loop"):
            assert a.state[name] == b.state[name]
