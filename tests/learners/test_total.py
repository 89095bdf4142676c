"""Class functions are total on readable rows (Lemma 0): no row can stop a learner half-way.

Every class, those of users included, is shown rows that are as odd as rows can be. What a class
cannot read is a null round, and what it said that it can read never raises inside a learner.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import littlestone as ls
from classes import CASES
from littlestone._classes.base import VersionSpace, check_row, kinds_of
from littlestone._data.readers import open_rows
from littlestone._data.rounds import NULL, Rounds
from littlestone._data.schema import read_rounds
from littlestone._hypotheses.cells import passes
from littlestone._hypotheses.rows import as_batch, part_of, row_of, value_of
from littlestone._learners.experts import ExpertScores
from littlestone._learners.forest import Forest
from littlestone._privacy.testing import SeededNoise
from littlestone.paper import EveryRound, PaperDPSOA, PaperPlan

pytestmark = pytest.mark.filterwarnings("ignore:delta")

ODD: list[Any] = [
    *(10**400, -(10**400), 2**63, 2**1024, 1e308, -1e308, 5e-324, float("inf"), float("nan"), -0.0),
    *(None, True, "", "oops", "1e400", "9" * 400, "\ud800", b"\xff", ("a", (1,)), np.float32(0.1)),
    *(10**1500, 10**5000, 0, 1, 2, 3.5, "red", object(), [], {}, 1j),
]


def odd_rows(cls: ls.HypothesisClass, draw: random.Random, count: int) -> list[Any]:
    """Rows of odd cells, in the columns that the class reads, some with a column missing."""
    names = [name for name in kinds_of(cls) if name is not None]
    rows: list[Any] = []
    for _ in range(count):
        row = {name: draw.choice(ODD) for name in names if draw.random() < 0.98}
        rows.append(row if names else draw.choice(ODD))
    return rows


def learners(cls: ls.HypothesisClass, seed: int) -> Iterator[Any]:
    """Learners of every kind: epochs, one forest of deep trees, experts, a release a round."""
    own: dict[str, Any] = {"seed": seed, "noise": SeededNoise(seed)}
    deep = replace(
        PaperPlan.of(ls.Points(), 200, 1e-3, 60, trees=9, releases=20), made_for=repr(cls)
    )
    yield PaperDPSOA(cls, replace(deep, leaves={8: 3, 2: 3}), **own)
    few = replace(
        ls.Plan.practical(ls.Points(), 40, 1e-3, 60), leaves={1: 4, 4: 2}, made_for=repr(cls)
    )
    yield ls.DPSOA(cls, plan=replace(few, thresholds=(1,)), **own)
    yield EveryRound(cls, 300, 0.01, 12, trees=3, **own)
    if cls.size is not None:
        yield ls.PrivateExperts(cls, 40, 60, **own)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_no_row_stops_a_learner(name: str, seed: int) -> None:
    cls, points = CASES[name]
    draw = random.Random(f"{name} {seed}")
    rows = odd_rows(cls, draw, 30) + draw.choices(points, k=20)
    draw.shuffle(rows)
    answers = [draw.random() < 0.5 for _ in rows]
    for learner, twin in zip(learners(cls, seed), learners(cls, seed), strict=True):
        learner.learn_many(rows, answers, bad_rows="null")
        for x, y in zip(rows, answers, strict=True):
            if passes(lambda one: check_row(cls, one), x):
                twin.learn_one(x, y)
            else:
                twin.skip_one()
        assert learner.rounds == twin.rounds == len(rows)
        assert learner.releases == twin.releases, "one by one and together"


def test_a_huge_whole_number_is_a_value_like_others() -> None:
    cls = ls.Union(ls.Points(), ls.Points())
    learner = ls.DPSOA(cls, epsilon=8, delta=1e-3, horizon=1000)
    for n in range(300):
        learner.learn_one(10**400 if n % 3 == 0 else n % 3, n % 3 == 0)
    assert learner.rounds == 300


class Raising(ls.Points):
    """A class of somebody's own: one of its functions raises on rows that it says it can read."""

    raises: str = ""

    def _raise(self, function: str, x: object) -> None:
        if self.raises == function and x in ("bad", True):
            raise ZeroDivisionError(f"{function} of {x!r}")

    def check(self, x: object) -> None:
        self._raise("check", x)
        super().check(x)

    def readable(self, batch: Any) -> Any:
        return ls.HypothesisClass.readable(self, batch)

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        self._raise("learn", x)
        return super().learn(state, x, y)

    def hypothesis(self, state: VersionSpace) -> ls.Hypothesis | None:
        found = super().hypothesis(state)
        self._raise("hypothesis", found == ls.one_of(["bad"]))
        return found

    def predict(self, rule: ls.Hypothesis, X: Any) -> Any:
        if self.raises == "predict":
            raise ZeroDivisionError
        return super().predict(rule, X)

    def disagreement(self, one: ls.Hypothesis, other: ls.Hypothesis) -> object:
        self._raise("disagreement", True)
        return super().disagreement(one, other)


FUNCTIONS = ["check", "learn", "hypothesis", "predict", "disagreement"]


def raising(function: str) -> Raising:
    cls = Raising()
    object.__setattr__(cls, "raises", function)
    return cls


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_a_class_that_raises_stops_nobody(function: str) -> None:
    cls, draw = raising(function), random.Random(function)
    rows = draw.choices(["bad", "a", "b"], k=60)
    for learner in learners(cls, 1):
        learner.learn_many(rows, [x != "b" for x in rows], bad_rows="null")
        assert learner.rounds == len(rows)
        assert learner.null_rounds == (rows.count("bad") if function == "check" else 0)
        if function == "check":
            with pytest.raises(ls.BadExample, match="cannot read the row: ZeroDivisionError"):
                learner.learn_one("bad", 1)
            with pytest.raises(ls.BadExample, match=r"row 1: .*ZeroDivisionError"):
                learner.learn_many(["a", "bad"], [0, 1])
            assert learner.rounds == len(rows), "refused before anything is spent"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_where_a_class_raises_one_row_still_moves_one_vote(function: str) -> None:
    cls, moved = raising(function), 0
    for seed in range(60):
        draw = random.Random(f"{function} {seed}")
        rows = draw.choices(["bad", "a", "b", "c"], k=9)
        answers = np.array([x != "c" for x in rows])
        at, other = draw.randrange(9), draw.choice(["bad", "a", "b", "c"])
        votes = []
        for stream in (rows, [*rows[:at], other, *rows[at + 1 :]]):
            forest = Forest(cls, [4, 2, 1, 4, 2, 8], seed)
            forest.learn(Rounds(as_batch(stream), answers))
            votes.append(forest.standing)
        changed = sum(one != two for one, two in zip(*votes, strict=True))
        assert changed <= 1
        moved += changed
    assert moved, "no vote ever moved: the test could not fail"


def test_a_default_check_tries_both_labels() -> None:
    class OnlyPositives(ls.Points):
        check = ls.HypothesisClass.check
        readable: Callable[..., Any] = ls.HypothesisClass.readable

        def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
            if not y and x == 0:
                raise KeyError(x)
            return super().learn(state, x, y)

    learner = ls.DPSOA(OnlyPositives(), 1, 1e-3, 10)
    learner.learn_many([0, 1], [1, 1], bad_rows="null")
    assert learner.null_rounds == 1


class Optional(ls.Points):
    """A class of somebody's own, which reads a second column where there is one."""

    reads: ClassVar[Any] = {}
    readable: Callable[..., Any] = ls.HypothesisClass.readable

    def check(self, x: Any) -> None:
        if x.get("b", 0) not in (0, 1):
            raise KeyError(x["b"])
        super().check(x)


@pytest.mark.parametrize(
    "reads", [{}, {"a": "value", "b": "value"}], ids=["kinds left out", "kinds given"]
)
def test_the_columns_of_one_row_are_not_those_of_another(reads: Any) -> None:
    cls = type("WithKinds", (Optional,), {"reads": reads})("a")
    rows: list[Any] = [{"a": 1, "b": 1}, {"a": 2, "b": 7}, {"a": 3, "b": 1}]
    found = []
    for other in ({"a": 1, "b": 1}, {"a": 1}, {"b": 1}, {}, None, 7):
        read = read_rounds(cls, [other, *rows, {"c": 1}], [1] * 5, None, "null")
        kept = [row_of(part_of(read.columns, [row]), 0) for row in (1, 3)]
        found.append((read.usable.tolist()[1:], kept))
    assert found == [([True, False, True, False], [rows[0], rows[2]])] * 6


class Unable(ls.Points):
    """A class of somebody's own whose vectorised answer fails, and whose `check` raises its own."""

    def readable(self, batch: Any) -> Any:
        raise ZeroDivisionError

    def check(self, x: object) -> None:
        super().check(x)
        if value_of(x, self.column) == "bad":
            raise ZeroDivisionError


def test_a_class_that_fails_on_a_row_makes_one_null_round(tmp_path: Path) -> None:
    learner = ls.DPSOA(Unable(), 1, 1e-3, 10)
    learner.learn_many(["a", "bad", "b"], [1, 1, 0], bad_rows="null")
    assert (learner.rounds, learner.null_rounds) == (3, 1)
    path = tmp_path / "s.csv"
    path.write_text("a,y\nx,1\nbad,1\ny,0\n")
    with open_rows(path, Unable("a"), label="y") as rows:
        (block,) = rows
    assert block.labels.tolist() == [1, NULL, 0]
    assert "ZeroDivisionError" in block.bad[0].sentence


class Anything(ls.FiniteClass):
    """A class of somebody's own which takes every row, and runs out of memory when it is told to."""

    reads: ClassVar[Any] = {}
    readable: Callable[..., Any] = ls.HypothesisClass.readable
    full = False

    def check(self, x: object) -> None:
        """Take it."""

    def predict(self, rule: Any, batch: Any) -> Any:
        if self.full:
            raise MemoryError
        return super().predict(rule, batch)


TABLE = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("odd", [["a list"], {}, object(), 1j, {"q": 1}, None], ids=range(6))
def test_experts_take_rows_that_have_no_point(odd: Any) -> None:
    rows = ["a", "b", "c", odd, "a", "c"]
    nets = []
    for learned in (rows, [row for row in rows if row is not odd]):
        for one_by_one in (False, True):
            cls = Anything(TABLE, ["a", "b", "c"])
            learner = ls.PrivateExperts(cls, 1, 1000, noise=SeededNoise(1))
            if one_by_one:
                for x in learned:
                    learner.learn_one(x, x == "a")
                learner.loop.gather()
            else:
                learner.learn_many(learned, [x == "a" for x in learned], bad_rows="null")
            assert (learner.rounds, learner.null_rounds) == (len(learned), 0)
            counts = cast(ExpertScores, learner.loop.state).counts
            nets.append((counts.get_state(), counts.mistakes.tolist()))
    assert nets == [nets[0]] * 4


def test_rounds_that_could_not_be_judged_still_wait() -> None:
    cls = Anything(TABLE, ["a", "b", "c"])
    learner = ls.PrivateExperts(cls, 1, 1000, noise=SeededNoise(1))
    for label in (True, False) * 3:  # whatever the rule is, three of them are mistakes
        learner.learn_one("a", label)
    cls.full = True
    with pytest.raises(MemoryError):
        _ = learner.mistakes
    cls.full = False
    assert learner.mistakes == 3


HELD: list[Any] = [
    *(Decimal("3.5"), Decimal("sNaN"), Decimal("1e400"), np.longdouble(3.5), np.float16(3.5)),
    *(b"3.5", "3.50", -0.0, 10**400, 2**64, np.uint8(3), True, None, "NA"),
]


@pytest.mark.parametrize("cls", [ls.Thresholds(0, 9, 0.5, "a"), ls.Points("a")], ids=["n", "v"])
@pytest.mark.parametrize("together", [False, True])
def test_what_was_learned_can_be_kept_and_is_the_same_after(cls: Any, together: bool) -> None:
    """Whatever the type of a cell, and whatever stands in columns that nobody reads."""
    rows = [{"a": cell, "when": datetime(2026, 1, 1), "what": object()} for cell in HELD]
    rows = [x for x in rows if passes(lambda one: check_row(cls, one), x)]
    assert len(rows) == (14 if cls.reads["a"] == "number" else 11)
    plan = ls.Plan.practical(cls, 0.01, 1e-3, 1000)
    one, two = (ls.DPSOA(cls, plan=plan, seed=1, noise=SeededNoise(1)) for _ in range(2))
    answers = [n % 2 == 0 for n in range(len(rows))]
    if together:
        one.learn_many(rows, answers)
    else:
        for x, y in zip(rows, answers, strict=True):
            one.learn_one(x, y)
    with one.checkpoint() as saved:
        assert saved.memory.parts, "no tree had learned anything: the test could not fail"
    two.resume(saved)
    assert two.votes == one.votes
