"""Estimate from private counts how many events a cause matches, and at what rate they are positive.

A learner of causes releases, for disjoint windows of rounds, noisy counts of the rows that each
published cause matches first, by label, and of those that no cause matches. Everything here is
computed from these counts, so it costs no privacy (docs/guarantee.md, Theorem 16).
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from littlestone._display import facts_table
from littlestone._hypotheses.causes import Cause, cause_from_json, causes_of
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Plain, from_json, to_json
from littlestone._plots import RateBar, multiple

# The normal quantile of a two-sided interval of 95 %.
Z = 1.959964
# Rates at which an interval is tried, before its ends are refined.
GRID = 400
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

    def to_json(self) -> dict[str, Any]:
        """Return the window as JSON data."""
        data = {**self._asdict(), "causes": [cause.to_json() for cause in self.causes]}
        named = [[to_json(outcome), count] for outcome, count in data.pop("outcomes")]
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
    """Hold a rate that was estimated from noisy counts, with an interval of 95 %."""

    events: int
    positives: int
    rate: float | None
    low: float
    high: float


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
        """Return how many times the base rate the rate is; None if either is unknown or 0."""
        rate, base = self.estimate.rate, self.base.rate
        return None if rate is None or not base else rate / base

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON data."""
        return {
            "cause": str(self.cause),
            **_outcome_data(self.cause),
            "since": self.since,
            "until": self.until,
            "standing": self.standing,
            "events": self.estimate.events,
            "positives": self.estimate.positives,
            "rate": self.estimate.rate,
            "low": self.estimate.low,
            "high": self.estimate.high,
            "base_rate": self.base.rate,
            "lift": self.lift,
            "to_beat": self.to_beat,
        }


def _outcome_data(cause: Cause) -> dict[str, Any]:
    """Return the outcome of a cause as JSON data, if it has one."""
    return {} if cause.outcome is None else {"outcome": to_json(cause.outcome)}


class Evidence(tuple[CauseEvidence, ...]):
    """Hold the evidence for every cause that was published, the present ones first. Public."""

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
        rows = [HEAD, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        return facts_table("evidence", self.rows(), HEAD, note="public")


COLUMNS = (
    "cause", "since", "until", "standing", "events", "positives", "rate", "low", "high",
    "base_rate", "lift", "to_beat",
)  # fmt: skip
HEAD = ("cause", "events", "rate", "95 % interval", "others", "lift", "had to beat")


def _row(entry: CauseEvidence) -> tuple[str, ...]:
    estimate = entry.estimate
    name = str(entry.cause) if entry.standing else f"{entry.cause} (dropped)"
    interval = f"{estimate.low:.1%} to {estimate.high:.1%}"
    lift = "" if entry.lift is None else f"{entry.lift:.1f}x"
    beaten = "" if entry.to_beat is None else f"{entry.to_beat:.1%}"
    rates = _percent(estimate), interval, _percent(entry.base), lift, beaten
    return name, f"{estimate.events:,}", *rates


def _percent(rate: Rate) -> str:
    return "unknown" if rate.rate is None else f"{rate.rate:.1%}"


def evidence_of(windows: Iterable[Window], published: Sequence[Cause]) -> Evidence:
    """Return the evidence that released windows hold for each cause."""
    held: dict[Cause, list[Window]] = {}
    # The draw that published a cause ended the window before its first.
    to_beat: dict[Cause, float | None] = {}
    before: Window | None = None
    for window in windows:
        for cause in window.causes:
            held.setdefault(cause, []).append(window)
            if before is None or cause not in before.causes:
                to_beat[cause] = None if before is None else before.to_beat
        before = window
    entries = [
        CauseEvidence(
            cause,
            some[0].start,
            some[-1].stop,
            cause in published,
            estimate_rate([(*_cell(window, cause), window.scale) for window in some]),
            estimate_rate([window.rest_for(cause) for window in some]),
            to_beat[cause],
        )
        for cause, some in held.items()
    ]
    return Evidence(sorted(entries, key=lambda entry: (not entry.standing, -entry.since)))


def base_rate(windows: Iterable[Window]) -> Rate:
    """Return the positive rate of the counted rows that no published cause matches."""
    return estimate_rate([window.rest for window in windows])


def _cell(window: Window, cause: Cause) -> tuple[int, int]:
    place = window.causes.index(cause)
    return window.negatives[place], window.positives[place]


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
    return Rate(max(events, 0), shown, rate, low, high)


def _variance(scale: float) -> float:
    a = math.exp(-1 / scale)
    return 2 * a / (1 - a) ** 2


def _interval(
    negatives: int, positives: int, variance: float, fourth: float
) -> tuple[float, float]:
    events = max(negatives + positives, 1)

    def accepts(p: Any) -> Any:
        spread = events * p * (1 - p) + variance * ((1 - p) ** 2 + p**2)
        heavy = fourth * ((1 - p) ** 4 + p**4) / spread**2
        quantile = Z + (Z**3 - 3 * Z) * heavy / 24
        return np.abs((1 - p) * positives - p * negatives) <= quantile * np.sqrt(spread)

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


class CauseSummary(NamedTuple):
    """Hold when a cause was published, and what the released counts say about it. Public."""

    cause: Cause
    spans: tuple[tuple[int, int | None], ...]
    evidence: CauseEvidence | None

    @property
    def standing(self) -> bool:
        """Return whether it is published now."""
        return self.spans[-1][1] is None

    @property
    def bar(self) -> RateBar:
        """Return the rate as a bar to draw."""
        found = self.evidence
        if found is None:
            return RateBar(str(self.cause), None, 0.0, 1.0, None, "until counts are released")
        _, _, rate, low, high = found.estimate
        lift = "" if found.lift is None else f", {multiple(found.lift)} times the others"
        note = f"of {found.estimate.events:,} events{lift}"
        return RateBar(str(self.cause), rate, low, high, found.base.rate, note)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON data; figures that are not known yet are None."""
        found = self.evidence
        estimate = None if found is None else found.estimate
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
            "events": None if estimate is None else estimate.events,
            "positives": None if estimate is None else estimate.positives,
            "rate": None if estimate is None else estimate.rate,
            "low": None if estimate is None else estimate.low,
            "high": None if estimate is None else estimate.high,
            "base_rate": None if found is None else found.base.rate,
            "lift": None if found is None else found.lift,
            "to_beat": None if found is None else found.to_beat,
        }


def summarize_causes(
    releases: Iterable[tuple[int, Hypothesis]], evidence: Iterable[CauseEvidence]
) -> list[CauseSummary]:
    """Return every cause that was published, those that stand first, then the last ones dropped."""
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
    return [*standing, *dropped[:MOST_DROPPED]]


def estimate_base(windows: Sequence[Window]) -> Rate:
    """Estimate the positive rate of the rows that no published cause matched, in all windows."""
    if not windows:
        return Rate(0, 0, None, 0.0, 1.0)
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
