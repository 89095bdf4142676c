"""Plans: values that say what they promise, and predictions that hold when simulated."""

import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import littlestone as ls
from effort import scaled
from littlestone._learners.tuning import (
    LARGEST_FACTOR,
    SPLITS,
    Choice,
    Climb,
    Selection,
    VotesPerMistake,
    firing_law,
    votes_law,
    votes_per_mistake,
)
from littlestone._privacy.accounting import Cost
from littlestone._privacy.gates import Gate, MistakesMonitor
from littlestone._privacy.parameters import BadParameter, float_above
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection
from littlestone._privacy.testing import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore:delta")

untyped: Any = ls.Plan
POINTS = ls.Points()
PLANS: dict[str, Callable[[], ls.Plan]] = {
    "practical": lambda: ls.Plan.practical(POINTS, 1, 1e-6, 1000),
    "sets": lambda: ls.Plan.practical(ls.Sets(3), 0.7, 1e-6, 1000),
    "tall": lambda: ls.Plan.practical(ls.Conjunctions(["a", "b"]), 2, 1e-9, 10**6),
    "capped": lambda: ls.Plan.practical(POINTS, 2.2, 1e-7, 1000, unit="user", cap=3),
    "numpy": lambda: untyped.practical(POINTS, np.float64(1), 1e-6, np.int64(10**6)),
}


@pytest.mark.parametrize("kind", PLANS)
def test_json_round_trip(kind: str) -> None:
    plan = PLANS[kind]()
    again = ls.Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert (again.shapes, str(again)) == (plan.shapes, str(plan))
    assert [type(x) for x in (again.epsilon, again.delta)] == [Fraction] * 2


@pytest.mark.parametrize("kind", PLANS)
def test_plans_are_frozen(kind: str) -> None:
    plan: Any = PLANS[kind]()
    with pytest.raises(FrozenInstanceError):
        plan.epsilon = Fraction(2)


@pytest.mark.parametrize("field", ["epsilon", "leaves", "refusal"])
def test_json_of_something_else(field: str) -> None:
    data = PLANS["practical"]().to_json()
    with pytest.raises(
        BadParameter, match=f"not the JSON of a plan: missing or unknown fields colour, {field}"
    ):
        ls.Plan.from_json({**{n: v for n, v in data.items() if n != field}, "colour": "red"})


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("options", "why"),
    [
        *[({"epsilon": e}, "epsilon must be a finite number") for e in (0, -1, NAN, INF, None)],
        *[({"delta": d}, "delta must lie strictly between") for d in (0, 1, -1, NAN, 2)],
        *[({"horizon": t}, "horizon must be") for t in (0, -5, 1e6, None, "long", True)],
        *[({"unit": "user", "cap": m}, "cap must be") for m in (0, -1, 1.5, "many")],
        ({"cap": 3}, "a cap is for users"),
        ({"unit": "user"}, "requires a cap"),
        ({"unit": "household"}, "unit must be one of"),
    ],
)
def test_bad_parameters_get_a_sentence(options: dict[str, Any], why: str) -> None:
    asked = {"epsilon": 1, "delta": 1e-6, "horizon": 1000, **options}
    with pytest.raises(BadParameter, match=why):
        untyped.practical(POINTS, **asked)
    with pytest.raises((BadParameter, TypeError), match=f"{why}|give "):
        ls.DPSOA(POINTS, **asked)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"thresholds": ()}, "at least one threshold"),
        ({"thresholds": (0,)}, "a threshold must be at least 1"),
        ({"check_every": 0}, "check_every must be at least 1"),
        ({"epsilon_monitor": Fraction(1)}, "leaves nothing for the selector"),
        ({"selector": "best"}, "selector must be one of"),
        ({"unit": "user"}, "requires a cap"),
    ],
)
def test_bad_fields_get_a_sentence(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(BadParameter, match=why):
        replace(PLANS["practical"](), **changes)


# The promise.

epsilons = st.one_of(
    st.floats(0.2, 20), st.fractions(Fraction(1, 5), 20, max_denominator=30), st.integers(1, 20)
)
deltas = st.floats(1e-12, 0.01)


@settings(max_examples=scaled(60, least=10))
@given(epsilons, deltas, st.one_of(st.none(), st.integers(1, 9)), st.sampled_from(SPLITS))
def test_epochs_promise_what_was_asked(
    epsilon: Any, delta: float, cap: int | None, split: Fraction
) -> None:
    """Whatever is chosen for utility; the choice itself, which takes a while, is made up here."""
    unit: Any = "event" if cap is None else "user"
    selector = StableHistogram if epsilon / (cap or 1) < 1 else UnknownDomainSelection
    choice = Choice(split, selector, 3, 5, (4,), 10.0, 12.0, 0.1)
    with patch("littlestone._learners.plan.best", lambda *budget: choice):
        learner = ls.DPSOA(POINTS, epsilon, delta, 100, unit=unit, cap=cap)
    _promises(learner, Fraction(epsilon), Fraction(delta), selections=cap or 1)


def _promises(learner: ls.DPSOA, epsilon: Fraction, delta: Fraction, selections: int) -> None:
    plan, gate = learner.plan, cast(Any, learner.loop.gate)
    stated = learner.guarantee
    assert (stated.epsilon, stated.delta) == (float_above(epsilon), float_above(delta))
    assert (stated.unit, stated.adjacency) == (plan.unit, "replace-one")
    assert (plan.epsilon, plan.delta) == (epsilon, delta)
    monitor, each = (
        gate.monitor.cost,
        (gate.draw if isinstance(gate, Gate) else gate.selector).cost,
    )
    assert monitor == Cost(plan.epsilon_monitor)
    assert (each.epsilon, each.delta) == (plan.epsilon_selector, plan.delta_selector)
    assert monitor.epsilon + selections * each.epsilon == epsilon
    assert selections * each.delta == delta
    paid = (plan.cap or 1) / plan.epsilon_monitor
    assert gate.monitor.query_scale >= paid, "the noise is what is paid for"


@pytest.mark.parametrize("kind", PLANS)
def test_the_table_says_what_is_proved_and_what_is_hoped(kind: str) -> None:
    plan = PLANS[kind]()
    table = {line.what: line for line in plan.lines()}
    assert f"epsilon {float(plan.epsilon):g}" in table["privacy: proved"].value
    assert f"per {plan.unit}" in table["privacy: proved"].why
    assert f"{float(plan.epsilon_monitor):.4g}" in table["monitor's budget"].value
    assert f"{float(plan.epsilon_selector):.4g}" in table["selector's budget"].value
    assert f"{plan.expected_mistakes:,} mistakes" in table["utility: heuristic"].value
    assert ("rounds a user" in table) == (plan.cap is not None)
    assert all(line.what in str(plan) and line.value in str(plan) for line in table.values())


# The schedule.

schedules = st.builds(
    Climb,
    st.integers(1, 500),
    st.floats(0.01, 5),
    st.integers(1, 100),
)


@settings(max_examples=scaled(60, least=10))
@given(schedules, st.lists(st.integers(0, 10**7), min_size=2), st.integers(0, 9))
@example(Climb(1, 0.125, 1), [1], 0)
def test_schedules(schedule: Climb, ages: list[int], refusals: int) -> None:
    """One age as an array of them; higher with age and refusals; and the formula."""
    ages.sort()
    limits = schedule(np.array(ages), refusals)
    assert limits.tolist() == [schedule(age, refusals) for age in ages]
    assert (np.diff(limits) >= 0).all()
    assert all(schedule(age, refusals + 1) >= schedule(age, refusals) for age in ages)
    base = math.ceil(schedule.base * min(1.5**refusals, LARGEST_FACTOR))
    for age in ages:
        climb = math.log1p(age / (schedule.check_every * schedule.base)) / schedule.rate
        least, most = math.ceil(climb - 1e-9), math.ceil(climb + 1e-9)
        assert least <= schedule(age, refusals) - base <= most


# Predictions against simulation: wide enough not to flake, and an error of 15 % is caught.


@pytest.mark.parametrize(
    ("epsilon", "threshold", "check_every", "pace"),
    [(0.3, 40, 1, 1), (0.3, 40, 7, 1), (1.0, 20, 2, 16), (0.5, 30, 4, 4)],
)
def test_the_firing_law(epsilon: float, threshold: int, check_every: int, pace: int) -> None:
    schedule = Climb(threshold, epsilon, check_every)
    law = firing_law(epsilon, lambda ages: schedule(ages, 0), check_every, pace)
    assert law.chance.sum() == pytest.approx(1, abs=1e-6)
    fired = []
    rounds = np.arange(1, 400 * pace // check_every) * check_every
    made = np.diff(rounds // pace, prepend=0)
    for seed in range(600):
        monitor = MistakesMonitor(SeededNoise(seed), epsilon=epsilon)
        place = monitor.advance(made, schedule(rounds, 0))
        assert place is not None
        fired.append(rounds[place] // pace)
    mean = float(law.mistakes @ law.chance)
    assert np.mean(fired) == pytest.approx(mean, rel=0.05, abs=0.5 * check_every / pace + 0.5)
    assert np.std(fired) > 0
    for level in (0.1, 0.5, 0.9):
        slack = 0.08 * threshold + check_every / pace
        assert np.quantile(fired, level) == pytest.approx(law.quantile(level), abs=slack)


@pytest.mark.parametrize(
    "news",
    [
        VotesPerMistake(1, 1.0),
        VotesPerMistake(1, 0.5),
        VotesPerMistake(2, 1.0),
        VotesPerMistake(3, 0.5),
    ],
)
@pytest.mark.parametrize(("mistakes", "trees"), [(60, 300), (200, 80)])
def test_the_law_of_votes(news: VotesPerMistake, mistakes: int, trees: int) -> None:
    draw = np.random.default_rng(1)
    load = draw.multinomial(mistakes, [1 / trees] * trees, size=4000)
    votes = draw.binomial((load >= news.mistakes_needed).sum(axis=1), news.share)
    mean, spread = votes_law(np.array([float(mistakes)]), trees, news)
    assert votes.mean() == pytest.approx(mean[0], rel=0.05, abs=0.3)
    assert votes.std() == pytest.approx(spread[0], rel=0.12, abs=0.15)


@pytest.mark.parametrize("selector", [UnknownDomainSelection, StableHistogram])
def test_the_law_of_a_named_leader(
    selector: type[UnknownDomainSelection] | type[StableHistogram],
) -> None:
    made, law = selector(epsilon=1, delta=1e-3), Selection(selector, 1.0, 1e-3)
    for votes in (5, 8, 11, 14, 20):
        named = sum(
            made.select({b"a": votes}, SeededNoise(seed), release=0) == b"a" for seed in range(2000)
        )
        assert named / 2000 == pytest.approx(float(law.named(np.array(float(votes)))), abs=0.04)
    for level in (0.5, 0.95):
        least = law.votes_for(level)
        assert float(law.named(np.array(least + 0.0))) >= level
        assert float(law.named(np.array(least - 2.0))) < level


def test_the_chance_of_a_firing_in_vain() -> None:
    """Monitor, trees and selector together, at a threshold where refusals are common."""
    trees, epsilon, threshold = 200, 0.5, 13
    law = firing_law(epsilon, lambda ages: np.full(len(ages), threshold), 1, 1)
    predicted = Selection(UnknownDomainSelection, 1.0, 1e-4).refusal(
        law, trees, VotesPerMistake(1, 1.0)
    )
    selector, refused, draw = (
        UnknownDomainSelection(epsilon=1, delta=1e-4),
        0,
        np.random.default_rng(3),
    )
    for seed in range(1500):
        noise = SeededNoise(seed)
        place = MistakesMonitor(noise, epsilon=epsilon).advance([1] * 300, threshold)
        assert place is not None
        votes = len(set(draw.integers(trees, size=place + 1).tolist()))
        refused += selector.select({b"a": votes}, noise, release=0) is None
    assert 0.1 < predicted < 0.9
    assert refused / 1500 == pytest.approx(predicted, rel=0.13)


def test_what_a_practical_plan_expects() -> None:
    """Points, a positive every few rounds: the mistakes before the right rule."""
    plan = ls.Plan.practical(POINTS, 1, 1e-6, 20_000)
    made: list[int] = []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        xs = draw.integers(0, 6, size=1200)
        learner = ls.DPSOA(POINTS, plan=plan, seed=seed, noise=SeededNoise(seed))
        learner.learn_many(xs, xs == 3)
        assert learner.releases[-1].rule == ls.one_of([3])
        made.append(learner.mistakes)
    assert plan.expected_mistakes is not None
    assert np.median(made) == pytest.approx(plan.expected_mistakes, rel=0.12)


def test_news_of_a_class_of_your_own() -> None:
    assert votes_per_mistake(ls.Complement(ls.Sets(3))) == VotesPerMistake(1, 1 / 3, ways=3)
    assert votes_per_mistake(ls.Rules(["a"])) == VotesPerMistake(1, 1.0)
    assert votes_per_mistake(ls.Thresholds(0, 5)) == VotesPerMistake(1, 0.5)
    assert votes_per_mistake(ls.Conjunctions(["a", "b", "c"])) == VotesPerMistake(3, 0.5)


def test_the_more_causes_are_missing_the_higher_the_threshold() -> None:
    """Votes may be split as many ways as causes are missing from the published rule."""
    plan = replace(PLANS["practical"](), thresholds=(10, 20, 30))
    left = [1, 2, 3, 4]
    gate: Any = plan.gate(SeededNoise(1), b"", lambda: left.pop(0))
    assert [int(gate.schedule.limits(np.array([0]))[0]) for _ in range(4)] == [10, 20, 30, 30]


def test_a_cap_is_planned_for() -> None:
    """With a cap of m all noise is m times as large: the plan is that of epsilon and delta / m."""
    capped = ls.Plan.practical(POINTS, 6, 3e-6, 1000, unit="user", cap=3)
    event = ls.Plan.practical(POINTS, 2, 1e-6, 1000)
    assert (capped.thresholds, capped.check_every, capped.leaves) == (
        event.thresholds,
        event.check_every,
        event.leaves,
    )
    gates: list[Any] = [p.gate(SeededNoise(1), b"", lambda: 1) for p in (capped, event)]
    ages = np.arange(0, 100_000, 997)
    assert (gates[0].schedule.limits(ages) == gates[1].schedule.limits(ages)).all()


def test_refusals_raise_thresholds_and_what_a_rule_must_win_by() -> None:
    """By half each, up to a public limit; the margin of a comparison grows by the root."""
    plan = ls.Plan.practical(POINTS, 1, 1e-6, 1000)
    gate: Any = plan.gate(SeededNoise(1), b"", lambda: 1)
    settling = gate.schedule

    def threshold(refusals: int, comparing: bool = False) -> int:
        settling.refusals, settling.comparing = refusals, comparing
        return int(settling.limits(np.array([0]))[0])

    def margin(refusals: int, comparing: bool) -> int:
        settling.refusals, settling.comparing = refusals, comparing
        return int(settling.margin)

    first = [threshold(refusals) for refusals in range(40)]
    assert first[0] == plan.thresholds[0]
    assert all(later >= now for now, later in pairwise(first))
    assert first[-1] == 16 * first[0]
    assert (margin(0, False), margin(39, False)) == (0, first[-1] * 15 // 16 // 12)
    assert margin(39, True) == pytest.approx(4 * margin(0, True), abs=4)
    assert margin(0, True) < threshold(0, comparing=True) < first[0]
