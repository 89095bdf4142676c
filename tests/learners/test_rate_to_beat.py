"""The rate to beat: what it follows, what it is clamped to, and the weights that come of it."""

from fractions import Fraction

import pytest

from littlestone._learners.evidence import Window
from littlestone._learners.rate_to_beat import Firing, RateToBeat, odds, rate_of_odds, weights_of
from littlestone._privacy.causes import UNITS, Weights


def followed(base: float, floor: float = 0.02, baseline: str = "follow") -> RateToBeat:
    beat = RateToBeat(baseline, UNITS, floor)  # type: ignore[arg-type]
    beat.begin(base)
    return beat


def window(rows: int, rate: float) -> Window:
    positives = round(rows * rate)
    return Window(1, rows, (), (rows - positives,), (positives,), 1e-6)


@pytest.mark.parametrize(
    ("before", "now", "wanted"),
    [
        (0.05, 0.05, 2 * odds(0.05)),  # twice the odds before
        (0.05, 0.3, 1.5 * odds(0.3)),  # but at least 1.5 times those now
        (0.3, 0.05, 2 * odds(0.05)),  # and at most twice those now
        (0.001, 0.001, odds(0.02)),  # never below the floor
        (0.7, 0.7, 2 * odds(0.7)),  # above one half too
    ],
)
def test_it_lies_between_before_and_now(before: float, now: float, wanted: float) -> None:
    cost = followed(before).at_end([window(50_000, now)], 50_000, None)
    assert cost == pytest.approx(wanted, rel=0.01)


def test_a_fixed_one_stays_and_one_that_follows_moves_on() -> None:
    fixed, moving = followed(0.05, baseline="fixed"), followed(0.05)
    for beat in (fixed, moving):
        beat.at_end([window(50_000, 0.3)], 50_000, None)
    assert rate_of_odds(fixed.cost) == pytest.approx(rate_of_odds(2 * odds(0.05)))
    assert moving.cost == pytest.approx(2 * odds(0.3), rel=0.01)


def test_at_a_firing_the_threshold_is_believed_more_than_noisy_counts() -> None:
    noisy = Window(1, 400, (), (400,), (0,), 20.0)
    firing = Firing(120 * UNITS, Weights(UNITS, UNITS // 10), 1.0)
    without = followed(0.05).at_end([noisy], 400, None)
    assert followed(0.05).at_end([noisy], 400, firing) > 1.4 * odds(0.25) > 3 * without


def test_rounds_without_an_example_are_not_counted() -> None:
    half = Window(1, 50_000, (), (20_000,), (5_000,), 20.0)
    cost = followed(0.2).at_end([half], 50_000, None)
    assert cost == pytest.approx(2 * odds(0.2), rel=0.02)


def test_where_nearly_all_rows_are_positive_no_cause_can_be_told() -> None:
    beat = followed(0.99)
    assert not beat.can_tell(beat.at_end([window(50_000, 0.99)], 50_000, None))
    assert followed(0.5).can_tell(2.0)


@pytest.mark.parametrize("head", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize("cost", [1e-6, 0.0204, 1 / 9, 0.7, 1.0, 1.3, 7.0, 49.0])
def test_weights_are_within_their_terms(cost: float, head: float) -> None:
    swing = 1 + Fraction(head)
    weights = weights_of(cost, swing)
    assert min(weights) > 0
    assert max(weights) <= UNITS
    assert sum(weights) <= swing * UNITS
