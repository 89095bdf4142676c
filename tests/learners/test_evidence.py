"""Evidence: what is computed from released counts, and intervals that hold as often as they say."""

import math
from fractions import Fraction

import numpy as np
import pytest
from bench.evidence import interval_coverage

from effort import EFFORT, scaled
from littlestone._hypotheses.causes import Cause, Condition, any_of
from littlestone._hypotheses.rules import NEVER
from littlestone._learners.evidence import (
    COUNTED_ONCE,
    Window,
    estimate_rate,
    evidence_of,
    rate_of,
    summarize_causes,
    window_from_json,
)

K9, SE = Cause((Condition("device", "K9"),)), Cause((Condition("country", "SE"),))
WINDOWS = [
    Window(1, 100, (), (95,), (5,), 20.0),
    Window(101, 200, (K9,), (30, 60), (10, 0), 20.0),
    Window(201, 400, (SE, K9), (50, 70, 40), (20, 30, -10), 20.0),
]


def test_counts_of_the_windows_of_a_cause_are_added_up() -> None:
    device, country = sorted(evidence_of(WINDOWS, [K9]), key=lambda entry: str(entry.cause))[::-1]
    assert (device.cause, country.cause) == (K9, SE)
    assert (device.since, device.until, device.standing) == (101, 400, True)
    assert (device.estimate.events, device.estimate.positives) == (140, 40)
    assert device.estimate.rate is None or device.estimate.rate == pytest.approx(40 / 140)
    assert (device.base.events, device.base.positives) == (90, 0)
    assert (country.since, country.until, country.standing) == (201, 400, False)
    assert (country.estimate.events, country.estimate.positives) == (70, 20)
    assert [entry.cause for entry in evidence_of(WINDOWS, [K9])] == [K9, SE]
    assert [entry.cause for entry in evidence_of(WINDOWS, [SE])] == [SE, K9]


def test_evidence_is_shown_and_written() -> None:
    evidence = evidence_of([Window(1, 9, (K9,), (700, 99_000), (300, 1000), 20.0)], [K9])
    (entry,) = evidence.to_json()
    assert entry["cause"] == "device = 'K9'"
    assert (entry["events"], entry["positives"], entry["rate"]) == (1000, 300, 0.3)
    assert entry["low"] < 0.3 < entry["high"]
    assert entry["lift"] == pytest.approx(30)
    assert "30.0x" in str(evidence)
    assert "device = &#39;K9&#39;" in evidence._repr_html_()
    assert "(dropped)" in str(evidence_of([Window(1, 9, (K9,), (1, 1), (1, 1), 1.0)], []))


def test_windows_are_written_and_read_back() -> None:
    for window in WINDOWS:
        assert window_from_json(window.to_json()) == window


def test_counts_that_noise_made_negative_are_no_rates_out_of_bounds() -> None:
    for negatives, positives in ((-50, -50), (0, 0), (-30, 10), (10, -30), (1000, -5), (-5, 1000)):
        rate = estimate_rate([(negatives, positives, 20.0)])
        assert 0 <= rate.low <= rate.high <= 1
        assert 0 <= rate.positives <= rate.events
        assert rate.rate is None or rate.low <= rate.rate <= rate.high
    assert estimate_rate([(0, 0, 20.0)]).rate is None
    assert [rate_of(*pair) for pair in ((-3, 10), (3, 10), (11, 10), (3, -2))] == [
        0, Fraction(3, 10), 1, 1,
    ]  # fmt: skip


def test_more_events_and_less_noise_make_intervals_shorter() -> None:
    def length(events: int, scale: float) -> float:
        rate = estimate_rate([(round(0.7 * events), round(0.3 * events), scale)])
        return rate.high - rate.low

    assert length(500, 20) > length(5000, 20) > length(50_000, 20)
    assert length(5000, 200) > length(5000, 20) > length(5000, 2)


# At 1,000 windows a share of .955 has a standard error of .0066; at fewer the bounds are wider.
RUNS = scaled(1000, least=100)
MARGIN = 0.0 if EFFORT == 1 else 0.06


@pytest.mark.parametrize("windows", [1, 4])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("events", [200, 2000, 20_000])
def test_an_interval_of_95_percent_holds_in_94_to_97_percent_of_runs(
    events: int, rate: float, windows: int
) -> None:
    draw = np.random.default_rng([events, round(100 * rate), windows])
    found = interval_coverage(
        events=events, rate=rate, windows=windows, epsilon=0.1, runs=4 * RUNS, draw=draw
    )
    assert 0.94 - MARGIN <= found.share <= 0.97 + MARGIN
    assert 0.94 - MARGIN <= found.of_events <= 0.97 + MARGIN


def test_the_interval_of_events_follows_from_noise_and_windows_alone() -> None:
    def half(windows: int, scale: float, events: int = 1000) -> int:
        rate = estimate_rate([(events // 2, events // 2, scale)] * windows)
        assert rate.events_low == windows * events - (rate.events_high - rate.events)
        return rate.events_high - rate.events

    # Of two Laplace counts, P(|sum| > x) = (1 + x / 2b) exp(-x / b): .05 at x = 4.11 b.
    assert half(1, 20.0) == pytest.approx(4.11 * 20, abs=2)
    assert half(1, 20.0, 9000) == half(1, 20.0), "how many events there are does not matter"
    assert half(16, 20.0) == pytest.approx(1.96 * math.sqrt(16 * 4) * 20, rel=0.02)
    assert half(4, 0.02) == 1, "hardly any noise, rounded up"
    low = estimate_rate([(-90, -90, 20.0)])
    assert (low.events, low.events_low, low.events_high) == (0, 0, 0), "no count is below 0"


MANY = [Cause((Condition("version", f"v{n}"),)) for n in range(4)]


def test_every_list_is_in_one_order_by_positives_beyond_the_rate_of_others() -> None:
    """The rarest has the highest rate, the largest most positives; the last ones were dropped."""
    window = Window(2, 50_000, (*MANY, K9), (100, 7_000, 2_000, 990, 20, 99_000),
                    (900, 3_000, 1_500, 10, 20, 1_000), 20.0)  # fmt: skip
    standing = [*MANY[:2], MANY[3]]
    evidence = evidence_of([window], standing)
    expected = [MANY[1], MANY[0], MANY[3], MANY[2], K9]
    assert [entry.cause for entry in evidence] == expected
    assert evidence[0].excess == pytest.approx(10_000 * (0.3 - 0.01))
    releases = [(1, NEVER), (2, any_of([*MANY, K9])), (50_001, any_of([*standing, SE]))]
    shown = summarize_causes(releases, evidence)
    assert [one.cause for one in shown] == [*expected[:3], SE, *expected[3:]], "not counted: last"
    assert [one.row()[1] for one in shown][3] == "not counted"


def test_what_nothing_says_and_what_several_causes_share_is_said() -> None:
    assert str(evidence_of([], [])) == "no cause was published, or no counts since"
    one = evidence_of(WINDOWS[:2], [K9])
    assert COUNTED_ONCE not in str(one) + one._repr_html_()
    several = evidence_of(WINDOWS, [K9, SE])
    assert str(several).endswith(f"({COUNTED_ONCE})")
    assert COUNTED_ONCE in several._repr_html_()
