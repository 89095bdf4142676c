"""Summarise what a learner of causes has published: evidence, rates, and words for them. Public.

Everything here is computed from the published rules, the released counts and the plan.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from littlestone._hypotheses.causes import Cause, causes_of
from littlestone._hypotheses.rules import Constant, Hypothesis
from littlestone._learners.evidence import Evidence, evidence_of
from littlestone._store.store import Published

# The length of the bar of a rate of 100 %.
BAR = 20


class CausesSummary(NamedTuple):
    """Hold what is public of a learner of causes, beside its rules."""

    causes: tuple[Cause, ...]
    evidence: Evidence
    # As it was committed: the rate to beat, the base rate, and words for both.
    committed: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        names = ("rate_to_beat", "why_that_rate", "remarks", "base_rate")
        said = {name: self.committed[name] for name in names}
        return {**said, "evidence": self.evidence.to_json()}

    def sentences(self) -> list[str]:
        """Return what to print below the table: the rate to beat, and remarks."""
        return [self.committed["why_that_rate"], *self.committed["remarks"]]

    def rows(self) -> list[tuple[tuple[str, ...], float | None]]:
        """Return a table of text and, for each row, the rate; published causes come first."""
        found = [
            (row, entry.estimate.rate)
            for row, entry in zip(self.evidence.rows(), self.evidence, strict=True)
        ]
        counted = {entry.cause for entry in self.evidence}
        new = [cause for cause in self.causes if cause not in counted]
        return [*(((str(cause), "not counted", *[""] * 5), None) for cause in new), *found]


def summary_of(published: Published) -> CausesSummary | None:
    """Summarise what a learner has published; None if it is no learner of causes."""
    if published.evidence is None:
        return None
    causes = causes_of(published.releases[-1].rule)
    return CausesSummary(causes, evidence_of(published.windows, causes), published.evidence)


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
