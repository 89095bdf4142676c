"""Labels with several values: which cause for which outcome. Slow twin, inputs, evidence."""

import json
import random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from test_causes import AGES, ROUNDS, Stream, like_its_twin, moves_as_it_stays, private_too

import littlestone as ls
from littlestone._classes.specs import BadSpec, class_from_json, class_to_json, parse_spec
from littlestone._hypotheses.causes import (
    Cause,
    Condition,
    any_of,
    cause_from_json,
    cause_from_key,
    causes_of,
)
from littlestone._hypotheses.rules import rule_from_json
from littlestone._learners import causes_plan
from littlestone._learners.evidence import Window, evidence_of, window_from_json
from littlestone._privacy.testing import SeededNoise
from littlestone.errors import BadClass, BadExample

pytestmark = pytest.mark.filterwarnings("ignore:delta")


def stream(seed: int, rounds: int = ROUNDS, nulls: float = 0.0) -> Stream:
    """Rows whose causes change half-way, each with an outcome of its own; some rounds are null."""
    draw = random.Random(seed)
    rows: Stream = []
    for number in range(rounds):
        if draw.random() < nulls:
            rows.append((None, None))
            continue
        x = {
            "a": draw.choice(["x", "y", None]),
            "b": draw.choice([1, "1", 2, 3, "z"]),
            "age": draw.choice([None, 10, "20", 40.5, 70]),
        }
        late = number >= rounds // 2
        # Outcomes are told apart by their text, as 7 and "7" are one; several causes may hold.
        y: Any = "ok"
        if draw.random() < 0.03:
            y = draw.choice(["lost", "7", "timed out"])
        if x["b"] == 2 and draw.random() < 0.6:
            y = draw.choice([7, "7"])
        if x["a"] == "x" and draw.random() < 0.6:
            y = "lost" if late else "timed out"
        rows.append((x, y))
    return rows


def learner(width: int = 1, seed: int = 1, **given: Any) -> ls.PrivateCauses:
    cls = ls.Causes(["a", "b", AGES], width, given.pop("limit", 8), normal=["ok", "fine"])
    usual: dict[str, Any] = {"epsilon": 8, "delta": 1e-3, "horizon": ROUNDS, "min_rate": 0.2}
    return ls.PrivateCauses(cls, noise=SeededNoise(seed), **usual | given)


SETTINGS: dict[str, dict[str, Any]] = {
    "width 1": {"width": 1},
    "width 2": {"width": 2},
    "auto": {"width": 2, "min_rate": "auto"},
    "limit": {"limit": 1},
    "horizon": {"horizon": 1000},
    "half": {"min_rate": 0.5},
}


@pytest.mark.filterwarnings("ignore:.*after the horizon")
@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_its_slow_twin_however_it_is_fed(
    name: str, nulls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Epochs that end without a firing, and short windows, within a short stream.
    monkeypatch.setattr(causes_plan, "LONGEST_EPOCH", 400)
    monkeypatch.setattr(causes_plan, "SHORTEST_WINDOW", 100)
    slow = like_its_twin(lambda: learner(**SETTINGS[name]), stream(6, nulls=nulls))
    if name in ("width 1", "width 2"):
        told = {cause.outcome for _, rule in slow.releases for cause in causes_of(rule)}
        assert len(told) > 1, "a stream without a second outcome would show little"


def test_a_learner_that_moves_is_the_learner_that_stayed() -> None:
    moves_as_it_stays(lambda: learner(width=2), stream(3, nulls=0.1), 1)


def two_outcomes(rows: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Timeouts of one version and crashes of one device, at rates of 0.3 where 0.5 % is usual."""
    draw = np.random.default_rng(seed)
    names = {"version": "v", "device": "d", "country": "c"}
    x = {name: draw.choice([f"{one}{n}" for n in range(20)], rows) for name, one in names.items()}
    y = np.full(rows, "ok", dtype=object)
    for outcome, column, value in (("timeout", "version", "v3"), ("crash", "device", "d7")):
        y[draw.random(rows) < 0.005] = outcome
        y[(x[column] == value) & (draw.random(rows) < 0.3)] = outcome
    return x, y


@pytest.mark.parametrize("seed", range(3))
def test_two_outcomes_have_their_own_causes_and_rates(seed: int) -> None:
    rows = 60_000
    x, y = two_outcomes(rows, seed)
    cls = ls.Causes(["version", "device", "country"], width=2, normal=["ok"])
    private = ls.PrivateCauses(cls, 1, 1e-7, rows, noise=SeededNoise(seed))
    private.learn_many(x, y)
    private.end_window()
    assert str(private.hypothesis) == "crash when device = 'd7' or timeout when version = 'v3'"
    for entry in private.evidence:
        assert entry.estimate.low - 0.1 < 0.3 < entry.estimate.high + 0.1
        # The base rate is that of the same outcome, not of all outcomes (1 %).
        assert entry.base.low < 0.005 < entry.base.high < 0.02
    both = {"version": "v3", "device": "d7", "country": "c1"}
    none = {"version": "v1", "device": "d1", "country": "c1"}
    assert private.predict_one(both | {"device": "d1"}) == "timeout"
    assert private.predict_one(both) == "crash", "the first cause of the rule"
    assert private.predict_many([both, none]).tolist() == ["crash", "ok"]


def test_one_pattern_of_two_outcomes_is_published_once() -> None:
    """Rows of another outcome count as missed; nobody can tell a wrong cause from them."""
    rows, draw = 40_000, np.random.default_rng(2)
    x = {"version": draw.choice([f"v{n}" for n in range(10)], rows)}
    y = np.where(draw.random(rows) < 0.01, "crash", "ok").astype(object)
    y[(x["version"] == "v3") & (draw.random(rows) < 0.4)] = "timeout"
    private = ls.PrivateCauses(
        ls.Causes(["version"], normal=["ok"]), 1, 1e-7, rows, min_rate=0.1, noise=SeededNoise(1)
    )
    private.learn_many(x, y)
    # Crashes of v3 are as rare as elsewhere: no cause of them may follow from the first cause.
    assert str(private.hypothesis) == "timeout when version = 'v3'"


def test_labels_of_frames_give_the_same_releases() -> None:
    x, y = two_outcomes(4000, 1)
    texts = y.tolist()
    made = []
    for labels in (
        y,
        texts,
        np.array(texts),
        pd.Series(texts),
        pd.Series(texts).astype("category"),
        pl.Series(texts),
        pa.array(texts).dictionary_encode(),
    ):
        cls = ls.Causes(["version", "device"], normal=["ok"])
        made.append(ls.PrivateCauses(cls, 8, 1e-3, 4000, min_rate=0.2, noise=SeededNoise(1)))
        made[-1].learn_many(x, labels)
    assert len(made[0].releases) > 1
    for other in made[1:]:
        assert private_too(other) == private_too(made[0])


def test_a_label_that_is_no_outcome_is_refused_or_null() -> None:
    private = learner()
    row = {"a": "x", "b": 1, "age": 1}
    for bad in (None, "", float("nan"), object()):
        with pytest.raises(BadExample):
            private.learn_one(row, bad)
    with pytest.raises(BadExample, match=r"label .* is missing") as error:
        private.learn_many([row] * 3, ["ok", "", "lost"])
    assert error.value.row == 1
    with pytest.raises(BadExample, match="2 examples and 1 labels"):
        private.learn_many([row] * 2, ["ok"])
    with pytest.raises(ls.BadExample, match="labels: "):
        private.learn_many([row] * 2, np.array([0.0, 1.0]))
    assert private.rounds == 0
    private.learn_many([row] * 4, ["ok", "", None, "lost"], bad_rows="null")
    private.learn_many([{"a": 1}, {"b": 2}], ["ok", "lost"], bad_rows="null")
    assert (private.rounds, private.null_rounds) == (6, 4)


def test_only_private_causes_learns_outcomes() -> None:
    cls = ls.Causes(["a"], normal=["ok"])
    with pytest.raises(BadClass, match="only PrivateCauses learns"):
        ls.SOA(cls)
    with pytest.raises(BadClass, match="a normal label is a text"):
        ls.Causes(["a"], normal=[0])  # type: ignore[list-item]
    with pytest.raises(BadClass, match="rename it"):
        ls.Causes(["a", "littlestone.outcome"], normal=["ok"])
    with pytest.raises(BadClass, match="normal labels are a list of texts"):
        ls.Causes(["a"], normal="ok")
    with pytest.raises(BadSpec, match="--negative is for causes"):
        parse_spec("points:a", ["ok"])
    plan = ls.CausesPlan.practical(ls.Causes(["a"]), 1, 1e-6, 1000)
    with pytest.raises(ls.BadParameter, match="the plan was made for"):
        ls.PrivateCauses(cls, plan=plan)


def test_the_river_and_scikit_learn_adapters_say_what_to_use() -> None:
    pytest.importorskip("river")
    from littlestone import river, sklearn

    cls = ls.Causes(["a"], normal=["ok"])
    model = river.PrivateClassifier(cls, epsilon=1, delta=1e-6, horizon=100)
    with pytest.raises(BadClass, match="learn them with PrivateCauses itself"):
        model.learn_one({"a": 1}, "lost")
    fitted = sklearn.PrivateClassifier(cls, epsilon=1, delta=1e-6)
    with pytest.raises(BadClass, match="learn them with PrivateCauses itself"):
        fitted.fit(pd.DataFrame({"a": ["x", "y"]}), ["ok", "lost"])


def test_causes_with_outcomes_are_values() -> None:
    one = Condition("device", "K9")
    crash, odd = Cause((one,), "crash"), Cause((one, Condition("a", 1)), "timed out")
    assert (crash.outcome, Cause((one,), "7")) == ("crash", Cause((one,), 7))
    assert crash != crash.pattern == Cause((one,))
    assert len({crash.key, crash.pattern.key, Cause((one,), "lost").key}) == 3
    for cause in (crash, odd, Cause((one,), 7)):
        assert cause_from_key(cause.key) == cause
        assert cause_from_json(json.loads(json.dumps(cause.to_json()))) == cause
    for bad in ({"outcome": "7", "conditions": crash.pattern.to_json()}, {"outcome": "x"}, {}):
        with pytest.raises(BadExample):
            cause_from_json(bad)
    rule = any_of([odd, crash])
    assert str(rule) == "crash when device = 'K9' or 'timed out' when a = 1 and device = 'K9'"
    assert rule_from_json(json.loads(json.dumps(rule.to_json()))) == rule
    assert causes_of(any_of([crash])) == (crash,)
    # A wider cause of another outcome says something else: both stay.
    assert causes_of(any_of([odd, crash, Cause(odd.conditions, "crash")])) == (crash, odd)
    with pytest.raises(BadClass, match="all have an outcome, or none has"):
        any_of([crash, odd.pattern])


def test_a_class_with_outcomes_is_written_and_read() -> None:
    cls = ls.Causes(["a", AGES], width=2, normal=["ok", "fine"])
    assert class_from_json(json.loads(json.dumps(class_to_json(cls)))) == cls
    assert parse_spec("causes:a,age@18/30/65:2", ["ok", "fine"]) == cls
    assert "normal" not in class_to_json(ls.Causes(["a"]))
    assert repr(ls.Causes(["a"])) == "Causes(columns=('a',), width=1, limit=8)"
    one, other = Cause((Condition("a", 1),)), Cause((Condition("a", 1),), "lost")
    assert any_of([other]) in cls
    assert any_of([one]) not in cls
    assert any_of([other]) not in ls.Causes(["a"])


def test_the_rate_of_a_cause_is_that_of_its_outcome() -> None:
    lost, slow = Cause((Condition("a", 1),), "lost"), Cause((Condition("a", 2),), "slow")
    window = Window(1, 9, (lost, slow), (60, 90, 900), (40, 10, 100), 1.0,
                    (("lost", 30), ("slow", 50)))  # fmt: skip
    assert window_from_json(json.loads(json.dumps(window.to_json()))) == window
    first, second = sorted(evidence_of([window], [lost, slow]), key=lambda one: str(one.cause))
    assert (first.estimate.rate, first.base.rate) == (0.4, 0.03)
    assert (second.estimate.rate, second.base.rate) == (0.1, 0.05)
    assert second.to_json()["outcome"] == "slow"
    assert "outcomes" not in Window(1, 9, (), (9,), (1,), 1.0).to_json()
