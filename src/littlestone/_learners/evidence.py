"""Estimate from private counts how many events a cause matches, and at what rate they are positive.

A learner of causes releases, for disjoint windows of rounds, noisy counts of the rows that each
published cause matches first, by label, and of those that no cause matches. Everything here is
computed from these counts, so it costs no privacy (docs/guarantee.md, Theorem 16).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from littlestone._display import columns, facts_table
from littlestone._hypotheses.causes import Cause, cause_from_json, causes_of
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Plain, from_json, to_json
from littlestone._plots import (
    COLOURS,
    RateBar,
    RateLine,
    RatePoint,
    multiple,
    percent,
    top_rate,
)

# The normal quantile of a two-sided interval of 95 %.
Z = 1.959964
# Rates at which an interval is tried, before its ends are refined.
GRID = 400
# The most parts into which the windows of a picture are cut, and the most causes in it.
MOST_STRETCHES, MOST_HISTORIES = 60, len(COLOURS)
# How much wider intervals of 95 % are made before two rates are said to differ: the place where they
# differ most is looked for, which chance alone would find too often.
CLEAR = 1.5
# A base rate that may be so many times as high is mostly noise: nothing is a multiple of it.
NOISE = 4
# The most dropped causes of a summary: a stream that drifts may publish any number.
MOST_DROPPED = 40


class Window(NamedTuple):
    """Hold the released counts of a window of rounds. Public."""

    start: int
    stop: int
    causes: tuple[Cause, ...]
    negatives: tuple[int, ...]
    positives: tuple[int, ...]
    scale: float
    outcomes: tuple[tuple[Plain, int], ...] = ()
    # The positive rate that a cause had to beat when the window ended, and whether a draw did.
    to_beat: float = 0.5
    drawn: bool = False
    # When the counts were released, as ISO 8601 text: the time of the round before that, if known.
    time: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the window as JSON data."""
        data = {**self._asdict(), "causes": [cause.to_json() for cause in self.causes]}
        named = [[to_json(outcome), count] for outcome, count in data.pop("outcomes")]
        if self.time is None:
            del data["time"]
        return data | {"outcomes": named} if named else data

    @property
    def rest(self) -> "NoisyCell":
        """Return the rows of no cause: normal ones, and all others."""
        return NoisyCell(self.negatives[-1], self.positives[-1], self.scale, 1 + len(self.outcomes))

    def rest_for(self, cause: Cause) -> "NoisyCell":
        """Return the rows of no cause: those without the outcome of a cause, and those with it."""
        if cause.outcome is None:
            return self.rest
        own = dict(self.outcomes)[cause.outcome]
        others = self.negatives[-1] + self.positives[-1] - own
        return NoisyCell(others, own, self.scale, 1 + len(self.outcomes))


class NoisyCell(NamedTuple):
    """Hold two noisy counts of a window."""

    negatives: int
    positives: int
    scale: float
    terms: int = 1


def window_from_json(data: dict[str, Any]) -> Window:
    """Return the window that `Window.to_json` wrote."""
    causes = tuple(cause_from_json(cause) for cause in data["causes"])
    tuples = {name: tuple(data[name]) for name in ("negatives", "positives")}
    named = tuple((from_json(outcome), count) for outcome, count in data.get("outcomes", ()))
    return Window(**{**data, "causes": causes, **tuples, "outcomes": named})


class Rate(NamedTuple):
    """Hold a rate and its events, estimated from noisy counts, each with an interval of 95 %."""

    events: int
    positives: int
    rate: float | None
    low: float
    high: float
    events_low: int
    events_high: int

    @property
    def counted(self) -> str:
        """Return the events with their interval, as text."""
        return f"{self.events:,} ± {self.events_high - self.events:,}"


class CauseEvidence(NamedTuple):
    """Hold what the released counts say about one cause."""

    cause: Cause
    since: int
    until: int
    standing: bool
    estimate: Rate
    base: Rate
    # The rate that it had to beat to be published; None if that was not released.
    to_beat: float | None = None

    @property
    def lift(self) -> float | None:
        """Return how many times the base rate the rate is; None if either is unknown, or noise."""
        rate, base = self.estimate.rate, self.base.rate
        return None if rate is None or not base or self.base.high > NOISE * base else rate / base

    @property
    def excess(self) -> float:
        """Return about how many positives it has beyond what the rate of all others would give."""
        rate, base = self.estimate.rate, self.base.rate
        return 0.0 if rate is None else self.estimate.events * (rate - (base or 0.0))

    def figures(self) -> dict[str, Any]:
        """Return what was estimated, as JSON data with the names `FIGURES`."""
        known = self.estimate._asdict()
        known |= {"base_rate": self.base.rate, "lift": self.lift, "to_beat": self.to_beat}
        return {name: known[name] for name in FIGURES}

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON data."""
        return {
            "cause": str(self.cause),
            **_outcome_data(self.cause),
            "since": self.since,
            "until": self.until,
            "standing": self.standing,
            **self.figures(),
        }


def _outcome_data(cause: Cause) -> dict[str, Any]:
    """Return the outcome of a cause as JSON data, if it has one."""
    return {} if cause.outcome is None else {"outcome": to_json(cause.outcome)}


def rank(standing: bool, evidence: CauseEvidence | None) -> tuple[bool, bool, float]:
    """Return the place of a cause in every list: what stands first, then by excess positives."""
    return not standing, evidence is None, 0.0 if evidence is None else -evidence.excess


class Evidence(tuple[CauseEvidence, ...]):
    """Hold the evidence for every cause that was published, in the order of `rank`. Public."""

    __slots__ = ()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the evidence as JSON data."""
        return [entry.to_json() for entry in self]

    def to_frame(self) -> Any:
        """Return the evidence as a frame of pandas, a row for each cause."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "evidence.to_frame() needs pandas: pip install pandas"
            ) from None
        return pandas.DataFrame(self.to_json(), columns=None if self else list(COLUMNS))

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table of text: cause, events, rate, interval, base rate, lift, rate to beat."""
        return [_row(entry) for entry in self]

    def __str__(self) -> str:
        if not self:
            return "no cause was published, or no counts since"
        lines = in_columns([HEAD, *self.rows()])
        return "\n".join([*lines, *([f"({COUNTED_ONCE})"] if len(self) > 1 else [])])

    def _repr_html_(self) -> Markup:
        note = f"public; {COUNTED_ONCE}" if len(self) > 1 else "public"
        return facts_table("evidence", self.rows(), HEAD, note=note)


COUNTED_ONCE = "an event that several causes match counts for the first of them in the rule only"
FIGURES = (
    "events", "events_low", "events_high", "positives", "rate", "low", "high", "base_rate", "lift",
    "to_beat",
)  # fmt: skip
COLUMNS = ("cause", "since", "until", "standing", *FIGURES)
HEAD = ("cause", "events", "rate", "95 % interval", "others", "lift", "had to beat")


def _row(entry: CauseEvidence) -> tuple[str, ...]:
    estimate = entry.estimate
    name = _name(entry.cause, entry.standing)
    interval = f"{estimate.low:.1%} to {estimate.high:.1%}"
    lift = "" if entry.lift is None else f"{entry.lift:.1f}x"
    beaten = "" if entry.to_beat is None else f"{entry.to_beat:.1%}"
    rates = _percent(estimate), interval, _percent(entry.base), lift, beaten
    return name, estimate.counted, *rates


def _name(cause: Cause, standing: bool) -> str:
    return str(cause) if standing else f"{cause} (dropped)"


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines of text."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]

    def padded(cell: str, width: int) -> str:
        return cell + " " * (width - columns(cell))

    return ["  ".join(map(padded, row, widths)).rstrip() for row in rows]


def _percent(rate: Rate) -> str:
    return "unknown" if rate.rate is None else f"{rate.rate:.1%}"


def evidence_of(windows: Iterable[Window], published: Sequence[Cause]) -> Evidence:
    """Return the evidence that released windows hold for each cause."""
    held: dict[Cause, list[Window]] = {}
    # The draw that published a cause ended the window before its first; a table has one window.
    to_beat: dict[Cause, float] = {}
    before: Window | None = None
    for window in windows:
        for cause in window.causes:
            held.setdefault(cause, []).append(window)
            if before is None or cause not in before.causes:
                to_beat[cause] = (before or window).to_beat
        before = window
    entries = [
        CauseEvidence(
            cause,
            some[0].start,
            some[-1].stop,
            cause in published,
            estimate_rate([_cell(window, cause) for window in some]),
            estimate_rate([window.rest_for(cause) for window in some]),
            to_beat[cause],
        )
        for cause, some in held.items()
    ]
    return Evidence(sorted(entries, key=lambda entry: rank(entry.standing, entry)))


def _cell(window: Window, cause: Cause) -> NoisyCell:
    place = window.causes.index(cause)
    return NoisyCell(window.negatives[place], window.positives[place], window.scale)


def estimate_rate(cells: Sequence[tuple[int, int, float] | NoisyCell]) -> Rate:
    """Estimate a positive rate from noisy counts of several windows, with an interval of 95 %."""
    counts = [NoisyCell(*cell) for cell in cells]
    negatives, positives = sum(cell[0] for cell in counts), sum(cell[1] for cell in counts)
    events = negatives + positives
    # Variance and fourth cumulant of the discrete Laplace law, at scales where they matter.
    variance = sum(cell.terms * _variance(cell.scale) for cell in counts)
    fourth = sum(cell.terms * (12 * cell.scale**4) for cell in counts)
    low, high = _interval(negatives, positives, variance, fourth)
    shown = min(max(positives, 0), max(events, 0))
    rate = min(max(positives / events, 0.0), 1.0) if events > 2 * math.sqrt(2 * variance) else None
    # Of events only the noise is unknown: that of two counts in each window. Where it is nearly
    # always 0 its kurtosis has no bound, and rounding up is enough.
    kurtosis = min(fourth / 2 / max(variance, 1e-9) ** 2, 3.0)
    half = math.ceil(_quantile(kurtosis) * math.sqrt(2 * variance))
    ends = max(events - half, 0), max(events + half, 0)
    return Rate(max(events, 0), shown, rate, low, high, *ends)


def _variance(scale: float) -> float:
    a = math.exp(-1 / scale)
    return 2 * a / (1 - a) ** 2


def _quantile(kurtosis: Any) -> Any:
    """Return how many standard deviations hold 95 % of a sum with a small excess kurtosis."""
    return Z + (Z**3 - 3 * Z) * kurtosis / 24


# Every commit asks for the rates of all windows so far.
@lru_cache(maxsize=1 << 10)
def _interval(
    negatives: int, positives: int, variance: float, fourth: float
) -> tuple[float, float]:
    events = max(negatives + positives, 1)

    def accepts(p: Any) -> Any:
        spread = events * p * (1 - p) + variance * ((1 - p) ** 2 + p**2)
        heavy = fourth * ((1 - p) ** 4 + p**4) / spread**2
        return np.abs((1 - p) * positives - p * negatives) <= _quantile(heavy) * np.sqrt(spread)

    rates = np.linspace(0, 1, GRID + 1)
    inside = np.flatnonzero(accepts(rates))
    if not len(inside):
        best = min(max(positives / events, 0.0), 1.0)
        inside = np.array([round(best * GRID)])
    return _end(accepts, int(inside[0]), -1), _end(accepts, int(inside[-1]), 1)


def _end(accepts: Any, place: int, step: int) -> float:
    """Refine the end of an interval between a grid point inside and its neighbour outside."""
    inside, outside = place / GRID, (place + step) / GRID
    if not 0 <= outside <= 1:
        return inside
    for _ in range(20):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if accepts(middle) else (inside, middle)
    return inside


def rate_of(count: int, of: int) -> Fraction:
    """Return a rate as a fraction between 0 and 1, from noisy counts."""
    return Fraction(min(max(count, 0), max(of, 1)), max(of, 1))


class Stretch(NamedTuple):
    """Hold the rate of a cause, and of the rows of no cause, in consecutive windows. Public."""

    start: int
    stop: int
    # When it ended, if that is known.
    time: str | None
    estimate: Rate
    base: Rate
    # Where it is on the axis of a picture: rounds, or seconds since 1970.
    across: tuple[float, float]

    @property
    def point(self) -> RatePoint:
        """Return the stretch as it is drawn."""
        return (*self.across, *self.estimate[2:5], self.base.rate)


class CauseHistory(NamedTuple):
    """Hold how the rate of a cause went. Public."""

    cause: Cause
    stretches: tuple[Stretch, ...]
    # The stretch from which on the rate is the latest one, and the rates before and since.
    turn: int
    before: Rate
    since: Rate
    # Whether it is still counted.
    counted: bool

    def __str__(self) -> str:
        return f"{self.cause}: {self.words}"

    @property
    def words(self) -> str:
        """Say whether the rate came down, and since when."""
        before, since, time = self.before, self.since, self.stretches[self.turn - 1].time
        then = "an unknown share" if before.rate is None else percent(before.rate)
        then = f"{then} of about {before.events:,} events"
        then += f" before round {self.stretches[self.turn].start:,}"
        then += "" if time is None else f" ({moment(time)})"
        span = "since"
        if not self.counted:
            span = f"from there to round {self.stretches[-1].stop:,}, when it was dropped"
        if since.rate is None:
            return f"{then}; about {since.events:,} {span}: too few to tell their rate"
        trend = "no clear change"
        if before.rate is not None and _gap(before, since, CLEAR) > 0:
            trend = f"the rate {'came down' if since.high < before.low else 'went up'}"
        return f"{then}, {percent(since.rate)} {span}: {trend}"

    def to_json(self) -> dict[str, Any]:
        """Return the history as JSON data."""
        return {
            "cause": str(self.cause),
            **_outcome_data(self.cause),
            "words": self.words,
            "stretches": [
                {
                    "start": part.start,
                    "stop": part.stop,
                    "time": part.time,
                    "events": part.estimate.events,
                    "rate": part.estimate.rate,
                    "low": part.estimate.low,
                    "high": part.estimate.high,
                    "base_rate": part.base.rate,
                }
                for part in self.stretches
            ],
        }


def moment(time: str) -> str:
    """Write a time for people, to the minute."""
    return time[:16].replace("T", " ") + " UTC" * time.endswith("+00:00")


class OverTime(NamedTuple):
    """Hold how the rates of causes went, over one axis: of times where they are known. Public."""

    histories: tuple[CauseHistory, ...]
    timed: bool

    @property
    def lines(self) -> list[RateLine]:
        """Return a line to draw for each cause."""
        return [RateLine(str(one.cause), [part.point for part in one.stretches]) for one in self[0]]

    @property
    def zone(self) -> str:
        """Return what the axis is of, in a word or two."""
        return "rounds" if not self.timed else "time (UTC)" if self._has_zone else "time"

    @property
    def _has_zone(self) -> bool:
        return any(part.time and part.time[19:] for one in self[0] for part in one.stretches)

    def to_page(self) -> dict[str, Any] | None:
        """Return what a page draws, as JSON data: places are thousandths of the axis."""
        if not self.histories:
            return None
        ends = [x for line in self.lines for point in line.points for x in point[:2]]
        begin, end = min(ends), max(ends)

        def place(x: float) -> float:
            return round(1000 * (x - begin) / ((end - begin) or 1.0), 1)

        return {
            "from": self._written(begin),
            "to": self._written(end),
            "top": top_rate(self.lines),
            "lines": [
                {
                    "cause": str(history.cause),
                    "words": history.words,
                    "points": [
                        [place(begun), place(ended), *(_short(rate) for rate in rates)]
                        for begun, ended, *rates in line.points
                    ],
                }
                for history, line in zip(self.histories, self.lines, strict=True)
            ],
        }

    def _written(self, x: float) -> str:
        if not self.timed:
            return f"round {x:,.0f}"
        return moment(datetime.fromtimestamp(x, UTC).isoformat()[: None if self._has_zone else 19])


def _short(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 4)


def over_time(windows: Sequence[Window], evidence: Iterable[CauseEvidence]) -> OverTime:
    """Return how the rates went of the first causes that were counted long enough to tell.

    Windows that are short beside the whole are taken together: their noise would hide the rest.
    """
    across, timed = _axis(windows)
    found = (_history(windows, entry.cause, across) for entry in evidence)
    told = (history for history in found if history is not None)
    return OverTime(tuple(islice(told, MOST_HISTORIES)), timed)


def _axis(windows: Sequence[Window]) -> tuple[Callable[[int], float], bool]:
    """Return where a round is on the axis: in seconds, if most windows have times, in order."""
    known = [(window.stop, _seconds(window.time)) for window in windows if window.time is not None]
    seconds = [second for _, second in known]
    if 2 * len(known) < len(windows) or seconds != sorted(seconds) or len({*seconds}) < 2:
        return float, False
    stops = [stop for stop, _ in known]
    return lambda number: float(np.interp(number, stops, seconds)), True


def _seconds(time: str) -> float:
    found = datetime.fromisoformat(time)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _history(
    windows: Sequence[Window], cause: Cause, across: Callable[[int], float]
) -> CauseHistory | None:
    least = windows[-1].stop // MOST_STRETCHES if windows else 0
    groups: list[list[Window]] = []
    for window in windows:
        if cause not in window.causes:
            continue
        follows = bool(groups) and groups[-1][-1].stop + 1 == window.start
        # The last one may be short, too: it is not shown by itself.
        short = follows and min(_length(groups[-1]), windows[-1].stop - groups[-1][-1].stop) < least
        groups[-1].append(window) if short else groups.append([window])
    if len(groups) < 2:
        return None
    stretches = tuple(
        Stretch(
            group[0].start,
            group[-1].stop,
            group[-1].time,
            _estimate([group], cause),
            estimate_rate([window.rest_for(cause) for window in group]),
            (across(group[0].start - 1), across(group[-1].stop)),
        )
        for group in groups
    )
    turn, before, since = _turn(groups, cause, stretches[-1].estimate)
    return CauseHistory(cause, stretches, turn, before, since, cause in windows[-1].causes)


def _turn(groups: Sequence[list[Window]], cause: Cause, last: Rate) -> tuple[int, Rate, Rate]:
    """Return where a rate changed most clearly to what it was last, and the rates around that."""
    turns = [
        (place, _estimate(groups[:place], cause), _estimate(groups[place:], cause))
        for place in range(1, len(groups))
    ]
    clear = [
        (_gap(before, since, CLEAR), place, before, since)
        for place, before, since in turns
        if before.rate is not None and _gap(before, since, CLEAR) > 0 and _gap(since, last) <= 0
    ]
    return max(clear)[1:] if clear else turns[-1]


def _gap(one: Rate, other: Rate, times: float = 1.0) -> float:
    """Return how far intervals are apart, each so many times as wide; not above 0 if they meet."""
    middles, widths = one.low + one.high - other.low - other.high, one.high - one.low
    return (abs(middles) - times * (widths + other.high - other.low)) / 2


def _estimate(groups: Iterable[Iterable[Window]], cause: Cause) -> Rate:
    return estimate_rate([_cell(window, cause) for group in groups for window in group])


def _length(group: Sequence[Window]) -> int:
    return group[-1].stop - group[0].start + 1


class CauseSummary(NamedTuple):
    """Hold when a cause was published, and what the released counts say about it. Public."""

    cause: Cause
    spans: tuple[tuple[int, int | None], ...]
    evidence: CauseEvidence | None

    @property
    def standing(self) -> bool:
        """Return whether it is published now."""
        return self.spans[-1][1] is None

    def row(self) -> tuple[str, ...]:
        """Return a row of text, under `HEAD`."""
        if self.evidence is not None:
            return _row(self.evidence)
        return _name(self.cause, self.standing), "not counted", *[""] * (len(HEAD) - 2)

    @property
    def bar(self) -> RateBar:
        """Return the rate as a bar to draw."""
        found = self.evidence
        if found is None:
            return RateBar(str(self.cause), None, 0.0, 1.0, None, "until counts are released")
        estimate = found.estimate
        lift = "" if found.lift is None else f", {multiple(found.lift)} times the others"
        note, ends = f"of {estimate.counted} events{lift}", (estimate.low, estimate.high)
        return RateBar(str(self.cause), estimate.rate, *ends, found.base.rate, note)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON data; figures that are not known yet are None."""
        found = self.evidence
        return {
            "cause": str(self.cause),
            **_outcome_data(self.cause),
            "conditions": [condition.to_json() for condition in self.cause.conditions],
            "standing": self.standing,
            "since": self.spans[-1][0],
            "until": self.spans[-1][1],
            "spans": [list(span) for span in self.spans],
            "counted_from": None if found is None else found.since,
            "counted_to": None if found is None else found.until,
            **(dict.fromkeys(FIGURES) if found is None else found.figures()),
        }


def summarize_causes(
    releases: Iterable[tuple[int, Hypothesis]], evidence: Iterable[CauseEvidence]
) -> list[CauseSummary]:
    """Return the causes that stand and the last ones dropped, in the order of `rank`."""
    spans: dict[Cause, list[tuple[int, int | None]]] = {}
    before: set[Cause] = set()
    for number, rule in releases:
        now = causes_of(rule)
        for cause in now:
            if cause not in before:
                spans.setdefault(cause, []).append((number, None))
        for cause in before - set(now):
            spans[cause][-1] = (spans[cause][-1][0], number - 1)
        before = set(now)
    known = {entry.cause: entry for entry in evidence}
    found = [CauseSummary(cause, tuple(some), known.get(cause)) for cause, some in spans.items()]
    standing = [one for one in found if one.standing]
    dropped = [one for one in found if not one.standing]
    dropped.sort(key=lambda one: -(one.spans[-1][1] or 0))
    shown = [*standing, *dropped[:MOST_DROPPED]]
    return sorted(shown, key=lambda one: rank(one.standing, one.evidence))


def estimate_base(windows: Sequence[Window]) -> Rate:
    """Estimate the positive rate of the rows that no published cause matched, in all windows."""
    if not windows:
        return Rate(0, 0, None, 0.0, 1.0, 0, 0)
    return estimate_rate([window.rest for window in windows])


class CostSample(NamedTuple):
    """Hold estimates of what the published rules have cost by a round, in missed positives. Public."""

    round: int
    published: float
    nothing: float


def costs_of(windows: Iterable[Window]) -> list[CostSample]:
    """Estimate from released counts what the published rules have cost by the end of each window."""
    published = nothing = 0.0
    found = [CostSample(0, 0.0, 0.0)]
    for window in windows:
        cost = window.to_beat / (1 - window.to_beat)
        published += window.positives[-1] + cost * sum(window.negatives[:-1])
        nothing += sum(window.positives)
        # The noise may take a sum below 0, which no cost is.
        found.append(CostSample(window.stop, max(0.0, published), max(0.0, nothing)))
    return found
