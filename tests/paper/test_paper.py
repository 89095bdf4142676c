"""The paper's plans and its learner: constants of the proof, what is promised, a slow twin."""

import json
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_checkpoint import same
from test_dpsoa import LENGTH, Example, stream_of, users_of

import littlestone as ls
import naive
from classes import CASES
from effort import scaled
from littlestone._learners.tuning import Selection, complexity
from littlestone._privacy.accounting import Cost
from littlestone._privacy.parameters import BadParameter, Real, float_above
from littlestone._privacy.testing import SeededNoise
from littlestone.paper import (
    AdaptiveDPSOA,
    EveryRound,
    EveryRoundPlan,
    PaperDPSOA,
    PaperPlan,
    StableHistogram,
    TheoremPlan,
)

pytestmark = pytest.mark.filterwarnings("ignore:delta")
POINTS = ls.Points()


def exactly(dimension: int, epsilon: Fraction, delta: Fraction, horizon: int) -> dict[str, Decimal]:
    """The constants of `TheoremPlan` as decimals of 700 digits; beta = 1/horizon."""
    with localcontext(prec=700):
        eps, small, time = (
            Decimal(x.numerator) / Decimal(x.denominator)
            for x in (epsilon, delta, Fraction(horizon))
        )
        k1 = next(2**n for n in range(20) if 2**n >= 2 ** (dimension + 1) and 2**n >= 20)
        eta = 1 / (Decimal(2) ** (4 * k1 + 4) * k1)
        c = 8 * k1 / eta
        k2 = max(
            Decimal(2) ** (8 * k1 + 6) * k1**2 * (5 * time * time * Decimal(k1).ln()).ln(),
            16 * c * (time.ln() + (2 * c * time).ln()) / (eps * eta / 32),
            4 / eta + (c * time / (eta * eta * small)).ln() / (eta * eps / (2 * c)),
        )
        return {
            "eta": eta,
            "releases": c,
            "trees": k2,
            "mistakes": 16 * k1**2 * k2 / eta + 3,
            "leaves": Decimal(k1),
        }


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("epsilon", "delta", "horizon"),
    [(1, 1e-6, 10**6), (0.1, 1e-12, 2), (10**9, 1e-3, 10**12), (1, Fraction(1, 10**70_000), 100)],
    ids=["sparse vector", "short", "frequent", "histogram"],
)
def test_the_theorem_asks_for_this(
    dimension: int, epsilon: float, delta: Real, horizon: int
) -> None:
    """Each of the three demands on the trees is the largest in one of the cases."""
    stated = dict(TheoremPlan.of(ls.Sets(dimension), epsilon, delta, horizon).lines())
    sure = exactly(dimension, Fraction(epsilon), Fraction(delta), horizon)
    assert stated.pop("leaves") == f"{int(sure.pop('leaves')):,}"
    for name, value in sure.items():
        power = value.ln() / Decimal(2).ln()
        assert abs(Decimal(stated[name].removeprefix("2^").replace(",", "")) - power) < 0.0501


def test_the_constants_of_large_dimensions_are_said_and_not_computed() -> None:
    assert dict(TheoremPlan.of(ls.Sets(2000), 1, 1e-6, 1000).lines())["leaves"] == "2^2,001"
    with pytest.raises(BadParameter, match=r"here d is 100: no machine holds more than 2\^40"):
        PaperPlan.of(ls.Sets(100), 1, 1e-6, 1000)


@settings(max_examples=scaled(10, least=10))
@given(st.floats(0.2, 20), st.floats(1e-12, 0.01), st.integers(1, 5))
def test_it_promises_what_was_asked(epsilon: float, delta: float, releases: int) -> None:
    budget = Fraction(epsilon), Fraction(delta)
    for plan in (
        PaperPlan.of(POINTS, epsilon, delta, 100, releases=releases, trees=4),
        replace(PaperPlan.for_users(POINTS, epsilon, delta, 100, releases=releases), leaves={1: 4}),
    ):
        stated = PaperDPSOA(POINTS, plan).guarantee
        assert (stated.epsilon, stated.delta) == tuple(map(float_above, budget))
        assert (stated.unit, stated.adjacency) == (plan.unit, "replace-one")
        gate = plan.gate(SeededNoise(1), b"")
        half = Cost(budget[0] / 2)
        assert (gate.ledger[0].cost, gate.releases) == (half, releases)


def test_constants_of_usual_plans() -> None:
    plan = PaperPlan.of(POINTS, 1, 1e-6, 100_000)
    assert (plan.trees, plan.threshold, plan.releases) == (576, 522, 2)
    every = EveryRoundPlan.of(10, 1e-9, 10_000)
    assert (every.trees, every.votes_needed, every.mistakes_needed) == (8940, 4470, 6197)


def test_a_lasting_rule_is_dropped_between_a_half_and_three_quarters() -> None:
    """Not by noise while half of the trees vote for it; and a quarter is left for the next."""
    for releases in (1, 2, 5):
        plan = PaperPlan.for_users(POINTS, 1, 1e-6, 10**5, releases=releases)
        assert plan.trees / 2 < plan.threshold <= 3 * plan.trees / 4 + 1
        each = float(plan.epsilon) / 2 / releases, float(plan.delta) / releases
        assert plan.trees >= 4 * Selection(StableHistogram, *each).votes_for(0.5)


PLANS: dict[str, Any] = {
    "paper": lambda cls: PaperPlan.of(cls, 60, 0.1, 120, trees=6, releases=2),
    "users": lambda cls: replace(PaperPlan.for_users(cls, 200, 0.1, 120), leaves={1: 3, 2: 3}),
}


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_the_learner_is_its_twin_however_it_is_batched(name: str, kind: str) -> None:
    cls, _ = CASES[name]
    if kind == "paper" and complexity(cls) > 2:
        pytest.skip("its trees have 2^(d+1) leaves: the twin would take minutes")
    plan, stream = replace(PLANS[kind](cls), threshold=3, check_every=3), stream_of(name, 0.1, 1)
    users = users_of(plan)
    twin = naive.PaperLearner(cls, plan, 5, SeededNoise(3))
    for n, (x, y) in enumerate(stream):
        twin.step(x, y, *([] if users is None else [users[n]]))
    learner = same(lambda: PaperDPSOA(cls, plan, seed=5, noise=SeededNoise(3)), stream, users)
    assert list(learner.releases) == twin.releases
    assert (learner.mistakes, learner.rounds) == (twin.mistakes, LENGTH)
    assert learner.ledger == twin.gate.ledger
    if name in ("points", "rules", "thresholds"):
        assert len(twin.releases) > 1, "the test has power"


@pytest.mark.parametrize("kind", [AdaptiveDPSOA, EveryRound])
def test_a_release_at_every_round_moves_too(kind: type[AdaptiveDPSOA]) -> None:
    stream: list[Example] = [(x, x == "a") for x in ["a", 1, True] * 40]
    stayed = same(lambda: kind(POINTS, 90, 0.01, 120, seed=1, noise=SeededNoise(2)), stream)
    assert len(stayed.releases) > 1


def test_when_releases_are_used_up_the_last_rule_stands() -> None:
    plan = replace(PaperPlan.for_users(POINTS, 60, 0.001, 100, releases=1), unit="event")
    plan = replace(plan, leaves={1: 6}, threshold=3, check_every=3)
    learner = PaperDPSOA(POINTS, plan, seed=1, noise=SeededNoise(1))
    assert learner.final is None
    learner.learn_many([7] * 60, [1] * 60)
    assert learner.final == "all 1 releases are used up: the last rule stands"
    rule = learner.hypothesis
    learner.learn_many([8] * 30, [1] * 30)
    assert (learner.hypothesis, len(learner.ledger)) == (rule, 2)


def test_too_many_releases_leave_too_little_for_each() -> None:
    with pytest.raises(BadParameter, match="shared by 10,000,000,000 releases is too small"):
        PaperPlan.for_users(POINTS, 1, 1e-6, 1000, releases=10**10)


def test_plans_are_written_and_read() -> None:
    every = EveryRoundPlan.of(20, 1e-6, 1000)
    assert EveryRoundPlan.from_json(json.loads(json.dumps(every.to_json()))) == every
    for plan in (PaperPlan.of(POINTS, 1, 1e-6, 1000), PaperPlan.for_users(POINTS, 1, 1e-6, 1000)):
        table = {line.what: line for line in plan.lines()}
        assert f"per {plan.unit}" in table["privacy: proved"].why
