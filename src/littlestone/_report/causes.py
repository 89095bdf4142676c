"""Summarise what a learner of causes has published: evidence, rates, and words for them. Public.

Everything here is computed from the published rules, the released counts and the plan.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from littlestone._hypotheses.causes import Cause, causes_of
from littlestone._hypotheses.rules import Constant, Hypothesis
from littlestone._learners.causes_plan import (
    AUTO,
    LEAST_RATE,
    LIFT,
    MOST_RATE,
    CausesPlan,
    auto_min_rate,
)
from littlestone._learners.evidence import Evidence, Rate, Window, base_rate, evidence_of
from littlestone._learners.plan_table import PlanTable

HEAD = ("cause", "events", "rate", "95 % interval", "others", "lift")
# The length of the bar of a rate of 100 %.
BAR = 20


class CausesSummary(NamedTuple):
    """Hold what is public of a learner of causes, beside its rules."""

    causes: tuple[Cause, ...]
    evidence: Evidence
    auto: bool
    min_rate: float | None
    first: Rate | None
    first_rounds: int
    base: Rate | None

    @property
    def too_low(self) -> bool:
        """Return whether a given `min_rate` is at or below the base rate that was counted."""
        rate = None if self.base is None else self.base.rate
        known = not self.auto and self.min_rate is not None and rate is not None
        return known and self.min_rate <= rate  # type: ignore[operator]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        return {
            "min_rate": self.min_rate,
            "auto": self.auto,
            "first_rate": None if self.first is None else self.first.rate,
            "base_rate": None if self.base is None else self.base.rate,
            "warning": self.warning,
            "evidence": self.evidence.to_json(),
        }

    @property
    def warning(self) -> str | None:
        """Return what is wrong with the given `min_rate`, if something is."""
        if not self.too_low:
            return None
        assert self.base is not None, "min_rate is compared with it"
        return (
            f"min_rate {self.min_rate:.1%} is not above the base rate of {self.base.rate:.1%}: "
            "values that have nothing to do with the label may be published as causes. Give a "
            "larger --min-rate, or auto, to a new run"
        )

    def sentences(self) -> Iterator[str]:
        """Yield what to print below the table: `min_rate`, where it is from, and warnings."""
        if not self.auto:
            yield f"min_rate {self.min_rate:.1%}, as given: causes above it are worth publishing"
        elif self.min_rate is None:
            yield f"min_rate auto: it is set after the first {self.first_rounds:,} rounds"
        else:
            first = None if self.first is None else self.first.rate
            said = "an unknown base rate" if first is None else f"the base rate of {first:.1%}"
            yield (
                f"min_rate {self.min_rate:.1%}, auto: {LIFT} x {said} in the first "
                f"{self.first_rounds:,} rounds, at least {float(LEAST_RATE):.0%} and at most "
                f"{float(MOST_RATE):.0%}"
            )
        if self.warning is not None:
            yield f"warning: {self.warning}"

    def rows(self) -> list[tuple[tuple[str, ...], float | None]]:
        """Return a table of text and, for each row, the rate; published causes come first."""
        found = [
            (row, entry.estimate.rate)
            for row, entry in zip(self.evidence.rows(), self.evidence, strict=True)
        ]
        counted = {entry.cause for entry in self.evidence}
        new = [cause for cause in self.causes if cause not in counted]
        return [*(((str(c), "not counted yet", "", "", "", ""), None) for c in new), *found]


def summary_of(
    plan: PlanTable, windows: Sequence[Window], rule: Hypothesis
) -> CausesSummary | None:
    """Summarise what a learner has published; None if it is no learner of causes."""
    if not isinstance(plan, CausesPlan):
        return None
    auto, causes = plan.min_rate == AUTO, causes_of(rule)
    min_rate, first = None if auto else float(plan.given_rate), None
    if auto and windows:
        # The first window of such a learner is the one that sets the rate.
        min_rate = float(auto_min_rate(windows[0].negatives[-1], windows[0].positives[-1]))
        first = base_rate(windows[:1])
    return CausesSummary(
        causes,
        evidence_of(windows, causes),
        auto,
        min_rate,
        first,
        plan.first_window,
        base_rate(windows) if windows else None,
    )


def label_in_words(
    label: str,
    positive: Sequence[str] = (),
    positive_if: Sequence[str] = (),
    negative: Sequence[str] = (),
) -> str:
    """Say what a positive row is."""
    if positive_if:
        return f"{label} {' or '.join(positive_if)}"
    if negative:
        return f"{label} is not {' or '.join(map(repr, negative))}"
    return f"{label} is {' or '.join(map(repr, positive))}" if positive else label


def rule_in_words(rule: Hypothesis, label: str) -> str:
    """Say what happens when, or that nothing is published."""
    if isinstance(rule, Constant):
        return f"{label}: {rule}"
    # A cause with an outcome says itself what happens.
    named = any(cause.outcome is not None for cause in causes_of(rule))
    return str(rule) if named else f"{label} when {rule}"


def bar(rate: float | None, *, full: str = "█") -> str:
    """Draw a rate as a bar of text."""
    return "" if rate is None else full * max(1, round(BAR * rate))
