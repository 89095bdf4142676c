"""How the rate of a cause went: in stretches of windows, in words, over an axis of rounds or times."""

from typing import Any

import numpy as np
import pytest

from littlestone import Causes, PrivateCauses
from littlestone._hypotheses.causes import Cause, Condition
from littlestone._learners.evidence import OverTime, Window, evidence_of, over_time
from littlestone._plots import plot_over_time, svg_of, top_rate
from littlestone._privacy.testing import SeededNoise

BAD = Cause((Condition("version", "4.2.1"),))
NEW = Cause((Condition("country", "DE"),))
LENGTH = 1000


def window(number: int, *rates: float, time: str | None = None) -> Window:
    """The window of a number: causes with 200 events each, and 600 other rows of which 6 fail."""
    causes = (BAD, NEW)[: len(rates)]
    positives = [round(200 * rate) for rate in rates]
    negatives = [200 - count for count in positives]
    start = 1 + LENGTH * number
    counts = (*negatives, 594), (*positives, 6)
    return Window(start, start + LENGTH - 1, causes, *counts, 2.0, time=time)


def told(windows: list[Window]) -> OverTime:
    return over_time(windows, evidence_of(windows, [BAD]))


def clock(number: int) -> str:
    return f"2026-07-12T{number:02}:30:00+00:00"


def test_a_rate_that_came_down_is_said_to_have_since_the_round_at_which_it_did() -> None:
    rates = [0.3] * 5 + [0.02] * 3
    (history,) = told([window(n, rate) for n, rate in enumerate(rates)]).histories
    assert str(history) == (
        "version = '4.2.1': 30.0 % of about 1,000 events before round 5,001, 2.0 % since: "
        "the rate came down"
    )
    (history,) = told([window(n, rate) for n, rate in enumerate(reversed(rates))]).histories
    assert str(history).endswith("before round 3,001, 30.0 % since: the rate went up")
    timed = [window(n, rate, time=clock(n)) for n, rate in enumerate(rates)]
    assert "before round 5,001 (2026-07-12 04:30 UTC), 2.0 %" in str(told(timed).histories[0])


def test_what_came_down_and_went_up_again_is_up() -> None:
    rates = [0.3] * 5 + [0.02] * 5 + [0.3]
    (history,) = told([window(n, rate) for n, rate in enumerate(rates)]).histories
    assert str(history).endswith("before round 10,001, 30.0 % since: the rate went up")


def test_a_cause_whose_events_are_gone_has_too_few_to_tell() -> None:
    *most, last = (window(n, 0.3) for n in range(5))
    gone = last._replace(negatives=(3, 594), positives=(-2, 6))
    (history,) = told([*most, gone]).histories
    assert str(history).endswith(
        "30.0 % of about 800 events before round 4,001; about 1 since: too few to tell their rate"
    )
    assert history.stretches[-1].estimate.rate is None
    assert history.to_json()["stretches"][-1]["high"] > 0.5, "the band says that it is not known"


def test_a_dropped_cause_is_told_up_to_where_it_was_dropped() -> None:
    windows = [window(n, 0.3, 0.1) for n in range(3)]
    after = [window(n, 0.0)._replace(causes=(NEW,)) for n in range(3, 5)]
    lines = {str(one.cause): str(one) for one in told([*windows, *after]).histories}
    assert "from there to round 3,000, when it was dropped: no clear change" in lines[str(BAD)]
    assert lines[str(NEW)].endswith("% since: the rate came down")


@pytest.mark.parametrize("seed", range(3))
def test_chance_is_seldom_called_a_change(seed: int) -> None:
    draw, changed = np.random.default_rng(seed), 0
    for _ in range(100):
        counts = draw.binomial(200, 0.3, 20)
        noise = np.round(draw.laplace(0, 2.0, (20, 2))).astype(int)
        windows = [
            window(n, 0)._replace(
                negatives=(200 - int(count) + int(a), 594), positives=(int(count) + int(b), 6)
            )
            for n, (count, (a, b)) in enumerate(zip(counts, noise, strict=True))
        ]
        changed += not str(told(windows).histories[0]).endswith("no clear change")
    assert changed <= 3, "intervals that merely do not meet give 6 to 11"


def test_short_windows_are_shown_together_and_the_counts_add_up() -> None:
    long = [window(n, 0.3) for n in range(8)]
    last = 1 + 8 * LENGTH
    short = [window(8, 0.3)._replace(start=last + 10 * n, stop=last + 10 * n + 9) for n in range(4)]
    (history,) = told([*long, *short]).histories
    *_, before, latest = history.stretches
    assert (before.start, latest.start, latest.stop) == (6001, 7001, 8040), "none by itself"
    assert sum(part.estimate.events for part in history.stretches) == 12 * 200
    many = [window(n, 0.3) for n in range(500)]
    assert len(told(many).histories[0].stretches) <= 60


def test_one_window_has_no_history_and_a_gap_is_none() -> None:
    assert not told([window(0, 0.3)]).histories
    assert told([]).to_page() is None
    windows = [window(0, 0.3), window(1), window(2, 0.3)]
    (history,) = told(windows).histories
    assert [(part.start, part.stop) for part in history.stretches] == [(1, 1000), (2001, 3000)]


AXES: dict[str, tuple[list[str | None], bool]] = {
    "times": ([clock(n) for n in range(4)], True),
    "one is missing": ([clock(0), None, clock(2), clock(3)], True),
    "most are missing": ([clock(0), None, None, None], False),
    "out of order": ([clock(n) for n in (0, 2, 1, 3)], False),
    "none": ([None] * 4, False),
    "all in one second": ([clock(0)] * 4, False),
    "without a zone": ([clock(n)[:19] for n in range(4)], True),
}


@pytest.mark.parametrize("name", AXES)
def test_the_axis_is_of_times_where_most_windows_have_them_in_order(name: str) -> None:
    times, timed = AXES[name]
    windows = [window(n, 0.3, time=time) for n, time in enumerate(times)]
    found = told(windows)
    assert found.timed is timed
    page = found.to_page()
    assert page is not None
    zone = "" if name == "without a zone" else " UTC"
    ends = f"2026-07-12 00:30{zone}", f"2026-07-12 03:30{zone}"
    assert (page["from"], page["to"]) == (ends if timed else ("round 0", "round 4,000"))
    (line,) = page["lines"]
    assert [point[1] for point in line["points"]][-1] == 1000
    across = [x for point in line["points"] for x in point[:2]]
    assert across == sorted(across)
    assert all(low <= rate <= high for _, _, rate, low, high, _ in line["points"])
    assert 0.3 < page["top"] == top_rate(found.lines) < 0.5


SPANS = [
    ("0001-01-01T00:00:00", "9999-12-31T23:59:59"),
    ("9999-12-31T23:59:58", "9999-12-31T23:59:59"),
]
SPANS += [("2026-01-01T00:00:00", f"2026-{end}") for end in (
    "01-01T00:00:01", "01-01T00:02:59", "01-01T02:59:59", "01-03T23:00:00", "03-01T00:00:00"
)]  # fmt: skip


@pytest.mark.parametrize(("first", "last"), SPANS)
def test_every_span_of_times_can_be_drawn(first: str, last: str) -> None:
    found = told([window(0, 0.3, time=first), window(1, 0.3, time=last), window(2, 0.3, time=last)])
    assert found.timed
    figure = plot_over_time(found.lines, timed=True).figure
    assert "<svg" in svg_of(figure, "rates")  # type: ignore[arg-type]
    assert found.to_page() is not None


def test_a_learner_draws_the_rates_and_their_bands() -> None:
    draw = np.random.default_rng(5)
    versions = draw.choice(["4.$2$.1", "4.2.0", "4.3.0"], 40_000)
    bad = (versions == "4.$2$.1") & (np.arange(40_000) < 20_000)
    failed = draw.random(40_000) < np.where(bad, 0.6, 0.05)
    learner: Any = PrivateCauses(
        Causes(["version"]), 1, 1e-7, 40_000, min_rate=0.2, noise=SeededNoise(2)
    )
    assert not learner.plot_over_time().lines
    learner.learn_many({"version": versions}, failed)
    learner.end_window()
    (history,) = over_time(learner.windows, learner.evidence).histories
    assert "the rate came down" in str(history)
    ax = learner.plot_over_time()
    base, rate = ax.lines
    (name,) = ax.get_legend().get_texts()
    assert name.get_text().strip() == "version = '4.$2$.1'"
    assert not name.get_parse_math(), "a dollar is a dollar"
    assert rate.get_xdata()[-1] == history.stretches[-1].stop
    assert rate.get_ydata()[-1] == history.stretches[-1].estimate.rate
    assert base.get_ydata()[0] == history.stretches[0].base.rate
    (band,) = ax.collections
    highest = max(part.estimate.high for part in history.stretches)
    assert band.get_datalim(ax.transData).y1 == pytest.approx(highest)
    assert "PRIVATE" not in ax.get_title("left")
    assert ax.get_xlabel().startswith("rounds")
    assert learner.plot_over_time(ax) is ax
