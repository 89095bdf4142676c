"""Extreme parameters: every one gets a plan, or a sentence, and neither takes long.

There is no timed assertion: before searches had a bound, some of these did not end.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from commands import littlestone
from effort import thinned
from littlestone._classes.specs import parse_spec
from littlestone._learners.dpsoa import MOST_LEAVES
from littlestone._learners.plan import Plan
from littlestone._learners.registry import learner_choice_from_json as again
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import ScriptedNoise
from littlestone._store.request import LearnRequest, choose_learner

USUAL: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "horizon": 1000}
KINDS: dict[str, dict[str, Any]] = {
    "dpsoa": {"learner": "dpsoa"},
    "capped": {"learner": "dpsoa", "user": "u", "cap": 3},
    "experts": {"learner": "experts", "spec": "thresholds:x:0:7"},
    "experts, costs": {"learner": "experts", "spec": "thresholds:x:0:7", "min_rate": 0.001},
    "experts that stay": {"learner": "experts", "spec": "thresholds:x:0:7", "change_cost": 2.0**40},
    "intervals": {"learner": "dpsoa", "spec": "intervals:x:0:9"},
    "many causes": {"learner": "dpsoa", "spec": "sets:x:100000"},
}
SLOW = "intervals", "many causes"
EXTREMES: list[dict[str, Any]] = [
    *[{"epsilon": e} for e in (5e-324, 1e-9, 1e-6, 1e6, 1e308)],
    *[{"delta": d} for d in (5e-324, 1e-100, 0.5)],
    *[{"horizon": h} for h in (1, 10**5, 2**40, 10**30)],
    *[{"epsilon": e, "delta": d} for e in (1e-3, 200.0) for d in (1e-90, 0.9)],
]


def answer(ask: Callable[[], Any]) -> Any:
    """What is answered, or the sentence of a refusal: nothing else may be raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ask()
        except BadParameter as refusal:
            return str(refusal)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_extreme_has_a_plan_or_a_sentence(kind: str) -> None:
    """And a plan that can be shown, kept as JSON and, unless it is too large, begun with."""
    for extreme in thinned(EXTREMES[: 7 if kind in SLOW else None]):
        asked: dict[str, Any] = {"spec": "points:x"} | USUAL | KINDS[kind] | extreme
        task = LearnRequest(source="", label="y", **asked)
        chosen = answer(partial(choose_learner, task, asked["horizon"]))
        if isinstance(chosen, str):
            assert any(word in chosen for word in ("epsilon", "delta", "horizon", "rounds")), chosen
            continue
        assert list(chosen.plan.lines())
        assert again(json.loads(json.dumps(chosen.to_json()))) == chosen
        if getattr(chosen.plan, "trees", 0) < 5000:
            answer(partial(chosen.make, parse_spec(task.spec), 0))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"epsilon": 1e-320}, "epsilon 1e-320 is too small: below 1e-09 the noise is wider"),
        ({"epsilon": 1e308}, "epsilon must be at most 1,000,000"),
        ({"delta": 1e-300}, "delta must be at least 1e-100, not 1e-300"),
        ({"horizon": 2**40 + 1}, r"horizon must be at most 2\^40 rounds"),
        ({"unit": "user", "cap": 10**10}, "epsilon 1.0 shared by a cap of 10,000,000,000 rounds"),
    ],
)
def test_a_refusal_says_the_range_and_why(options: dict[str, Any], why: str) -> None:
    asked = {name: USUAL[name] for name in ("epsilon", "delta", "horizon")} | options
    with pytest.raises(BadParameter, match=why):
        Plan.practical(ls.Points(), **asked)
    if not options.keys() - {"epsilon", "delta", "horizon"}:
        with pytest.raises(BadParameter, match=why):
            ls.recommend(ls.Points(), **asked)


@pytest.mark.parametrize("thresholds", [(2**40,), (2**63,), (2**70,)])
@pytest.mark.parametrize("comparing", [False, True])
def test_thresholds_that_a_batch_cannot_hold_are_cut_off(
    thresholds: tuple[int, ...], comparing: bool
) -> None:
    """A batch accepts what one round accepts: hand-made plans may have any threshold."""
    usual = Plan.practical(ls.Points(), 1, 1e-6, 1000)
    # With so little for the selector a comparison has a threshold of 10^13.
    split: dict[str, Any] = {
        "epsilon_monitor": 1 - Fraction(1, 10**12),
        "selector": "stable histogram",
    }
    plan = replace(usual, thresholds=thresholds, **split if comparing else {})
    learner = ls.DPSOA(ls.Points(), plan=plan, seed=1, noise=ScriptedNoise({}))
    gate: Any = learner.loop.gate
    gate.schedule.comparing = comparing
    learner.learn_many(["a"] * 100, [1] * 100)
    learner.learn_one("a", 1)
    assert (learner.rounds, len(learner.releases)) == (101, 1)
    gate.schedule.refusals = 64
    assert (gate.schedule.limits(np.array([4, 2**39])) == 2**40).all()


def test_a_forest_that_no_machine_holds_is_refused() -> None:
    plan = Plan.practical(ls.Points(), 1e-6, 1e-15, 2**40)
    assert plan.trees > MOST_LEAVES
    with pytest.raises(BadParameter, match="10,000,000 is the limit"):
        ls.DPSOA(ls.Points(), plan=plan)


PLANS = json.loads((Path(__file__).parent / "plans.json").read_text("utf-8"))


@pytest.mark.parametrize("name", PLANS)
def test_usual_plans_are_those_of_the_first_version(name: str) -> None:
    """Bounding the searches changed none of their constants."""
    spec, epsilon, delta, horizon, more = json.loads(name)
    asked = LearnRequest(spec=spec, label="y", epsilon=epsilon, delta=delta, **more)
    chosen = choose_learner(asked, horizon)
    plan, before = json.loads(json.dumps(chosen.plan.to_json())), dict(PLANS[name])
    assert plan.pop("refusal", None) == pytest.approx(before.pop("refusal", None))
    assert plan == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("compare", "--class", "points:x", "--rounds", "inf"), "--rounds is one or more whole"),
        (("compare", "--class", "points:x", "--rounds", "1e30"), "--rounds is at most 100,000,000"),
        (
            ("compare", "--class", "points:x", "--epsilon", "nan"),
            "--epsilon is one or more numbers",
        ),
        (("compare", "--class", "points:x", "--epsilon", "1e-300"), "epsilon 1e-300 is too small"),
        (("audit", "points:x", "--horizon", 9, "--epsilon", "1e-3"), "at least 0.01, not 0.001"),
        (
            ("audit", "points:x", "--horizon", 9, "--epsilon", 400, "--runs", 0),
            "epsilon 400 is too large to audit",
        ),
    ],
)
def test_commands_that_play_games_say_their_range(arguments: tuple[object, ...], why: str) -> None:
    done = littlestone(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert why in done.stderr
