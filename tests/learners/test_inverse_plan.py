"""The smallest epsilon: exactly the inverse of what the plan forecasts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import littlestone as ls
from commands import littlestone
from effort import scaled
from littlestone._learners.causes_plan import CausesPlan, forecast
from littlestone._learners.registry import GRID, smallest_epsilon

CUTS = ls.Thresholds(1, 100, column="x")
CAUSES = ls.Causes(["a", "b", "c"], width=2)
DELTA, HORIZON = 1e-7, 100_000


def test_the_grid_is_every_epsilon_of_two_digits() -> None:
    assert [GRID[0], GRID[-1], len(GRID)] == [0.001, 100.0, 5 * 90 + 1]
    assert sorted(set(GRID)) == GRID
    assert all(float(f"{epsilon:.1e}") == epsilon for epsilon in GRID)


@settings(max_examples=scaled(15, least=6), deadline=None)
@given(st.integers(3, 2000))
def test_of_a_finite_class_it_is_the_first_that_meets_the_number(mistakes: int) -> None:
    found = smallest_epsilon(CUTS, DELTA, HORIZON, mistakes=mistakes)
    forecasts = [ls.ExpertsPlan.practical(CUTS, e, HORIZON).expected_mistakes or 0 for e in GRID]
    first = next(n for n, one in enumerate(forecasts) if one <= mistakes)
    assert (found.epsilon, found.forecast) == (GRID[first], forecasts[first])
    assert found.choice.plan == ls.ExpertsPlan.practical(CUTS, GRID[first], HORIZON)
    if first:
        assert (found.below, found.forecast_below) == (GRID[first - 1], forecasts[first - 1])


@settings(max_examples=scaled(15, least=6), deadline=None)
@given(
    st.integers(40, 3000),
    st.sampled_from([0.2, 0.5, 1.0]),
    st.sampled_from([None, 0.05]),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from([0.1, "auto"]),
)
def test_of_causes_it_is_the_first_that_meets_the_number(
    positives: int, rate: float, share: float | None, base: float, min_rate: float | str
) -> None:
    """Also where the forecast rises with epsilon for a while: all of the grid is looked at."""

    def forecast_of(epsilon: float) -> float:
        plan = CausesPlan.practical(CAUSES, epsilon, DELTA, HORIZON, min_rate=min_rate)
        found = forecast(plan, rate, share=share, base=base, width=2)
        return round(found.positives) if found.found else found.positives

    try:
        found = smallest_epsilon(
            CAUSES, DELTA, HORIZON, positives=positives, rate=rate, share=share, base=base,
            min_rate=min_rate,
        )  # fmt: skip
    except ls.BadParameter:
        assert min(map(forecast_of, GRID)) > positives
        return
    assert found.forecast == forecast_of(found.epsilon) <= positives
    smaller = [epsilon for epsilon in GRID if epsilon < found.epsilon]
    assert all(forecast_of(epsilon) > positives for epsilon in smaller)


def test_of_dpsoa_the_forecast_crosses_the_number_there() -> None:
    cls = ls.Points("x")
    found = smallest_epsilon(cls, 1e-6, HORIZON, mistakes=30)
    assert found.below == GRID[GRID.index(found.epsilon) - 1]
    plans = [ls.Plan.practical(cls, e, 1e-6, HORIZON) for e in (found.epsilon, found.below)]
    assert [plan.expected_mistakes for plan in plans] == [found.forecast, found.forecast_below]
    assert found.forecast <= 30 < (found.forecast_below or 0)


def test_users_and_options_are_planned_for() -> None:
    one = smallest_epsilon(CAUSES, DELTA, HORIZON, positives=300, rate=0.3, min_rate=0.1)
    users = [
        smallest_epsilon(
            CAUSES, DELTA, HORIZON, positives=300, rate=0.3, min_rate=0.1, unit="user", cap=cap
        )
        for cap in (1, 5)
    ]
    assert users[1].epsilon > 4 * users[0].epsilon
    narrow = smallest_epsilon(
        CAUSES, DELTA, HORIZON, positives=300, rate=0.3, min_rate=0.1, width=1
    )
    assert narrow.epsilon <= one.epsilon
    rounds = smallest_epsilon(
        CAUSES, DELTA, HORIZON, rounds=20_000, rate=0.3, share=0.05, min_rate=0.1
    )
    plan = CausesPlan.practical(CAUSES, rounds.epsilon, DELTA, HORIZON, min_rate=0.1)
    found = forecast(plan, 0.3, share=0.05, width=2).rounds
    assert found is not None
    assert round(found) == rounds.forecast <= 20_000


@pytest.mark.parametrize(
    ("cls", "asked", "sentence"),
    [
        (CUTS, {"mistakes": 1}, "the least that is possible .* is about 2"),
        (ls.Points("x"), {"mistakes": 1}, "the least that is possible"),
        (CUTS, {}, "give one of"),
        (CUTS, {"mistakes": 9, "positives": 9}, "give one of"),
        (CUTS, {"mistakes": 0}, "at least 1"),
        (CUTS, {"positives": 9, "rate": 0.3}, "class of causes"),
        (CAUSES, {"mistakes": 9}, "not counted by mistakes"),
        (CAUSES, {"positives": 9}, "requires a rate"),
        (CAUSES, {"rounds": 9, "rate": 0.3}, "requires a share"),
        (CAUSES, {"positives": 9, "rate": 0.3, "share": 0.1}, "the least that is possible"),
        (CAUSES, {"positives": 9, "rate": 0.01}, "no epsilon up to 100 the cause is expected"),
        (ls.Points("x"), {"mistakes": 9, "unit": "user"}, "requires a cap"),
    ],
)
def test_what_cannot_be_had_is_said(
    cls: ls.HypothesisClass, asked: dict[str, float], sentence: str
) -> None:
    with pytest.raises(ls.BadParameter, match=sentence):
        smallest_epsilon(cls, DELTA, HORIZON, **asked)  # type: ignore[arg-type]


def test_the_verb_prints_the_plan_of_the_answer() -> None:
    words = ["plan", "causes:version,country:2", "--horizon", 100000, "--delta", 1e-7]
    about = ["--rate", 0.3, "--share", 0.05, "--base", 0.01]
    found = json.loads(littlestone(*words, *about, "--positives", 150, "--json").stdout)
    epsilon = found["smallest_epsilon"]["epsilon"]
    there = json.loads(littlestone(*words, *about, "--epsilon", epsilon, "--json").stdout)
    assert found["plan"] == there["plan"]
    assert found["forecast"] == there["forecast"]
    assert max(one["positives"] for one in found["forecast"]) <= 150
    below = found["smallest_epsilon"]["below"]
    before = json.loads(littlestone(*words, *about, "--epsilon", below, "--json").stdout)
    assert max(one["positives"] for one in before["forecast"]) > 150
    shown = littlestone(*words, *about, "--positives", 150).stdout
    assert shown.startswith(f"epsilon {epsilon:g} is the smallest of two digits: about")
    over = littlestone(*words, *about, "--positives", 150, "--epsilon", 1)
    assert over.returncode == 2
    assert "--epsilon conflicts with" in over.stderr
