"""Say what a learner has published, in words, as Markdown for a ticket and as CSV. Public.

Everything here is computed from the published rules, the released counts and the plan.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import Any, NamedTuple

from littlestone._display import visible
from littlestone._hypotheses.causes import causes_of, either
from littlestone._hypotheses.rules import NEVER, Constant, Hypothesis
from littlestone._learners.base import Release
from littlestone._learners.evidence import (
    COLUMNS,
    HEAD,
    CauseSummary,
    Evidence,
    OverTime,
    evidence_of,
    over_time,
    summarize_causes,
)
from littlestone._plots import percent
from littlestone._store.request import RunConfig
from littlestone._store.store import Published

# The length of the bar of a rate of 100 %.
BAR = 20
# The most columns of several causes in one line.
LONGEST_HEADLINE = 100


class CausesSummary(NamedTuple):
    """Hold what is public of a learner of causes, beside its rules."""

    causes: list[CauseSummary]
    evidence: Evidence
    over_time: OverTime
    # As it was committed: the rate to beat, the base rate, and words for both.
    committed: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        names = ("rate_to_beat", "why_that_rate", "remarks", "base_rate")
        words = {name: self.committed[name] for name in names}
        histories = [history.to_json() for history in self.over_time.histories]
        return {**words, "evidence": self.evidence.to_json(), "over_time": histories}

    def sentences(self) -> list[str]:
        """Return what to print below the table: how rates went, remarks, and the rate to beat."""
        return [*map(str, self.over_time.histories), *self.reasons()]

    def reasons(self) -> list[str]:
        """Return the base rate, if no cause stands beside it, remarks, and the rate to beat."""
        base, said = self.committed["base_rate"], list[str]()
        if base is not None and not any(one.standing for one in self.causes):
            others = "other " if self.causes else ""
            said = [f"about {percent(base)} of all {others}events are positive"]
        return [*said, *self.committed["remarks"], self.committed["why_that_rate"]]

    def headline(self, label: str) -> str:
        """Say what happens when; several causes are in the table, one to a line."""
        standing = [each.cause for each in self.causes if each.standing]
        if not standing:
            return f"no cause of {label} {'stands now' if self.causes else 'is published'}"
        # A cause with an outcome says itself what happens.
        named = standing[0].outcome is not None
        causes = either(standing) if len(standing) > 1 else str(standing[0])
        if len(standing) > 1 and len(causes) > LONGEST_HEADLINE:
            many = f"these {len(standing)} causes"
            return f"{label}: {many}" if named else f"{label} when one of {many} holds"
        return causes if named else f"{label} when {causes}"

    def rows(self) -> list[tuple[tuple[str, ...], float | None]]:
        """Return a table of text and, for each row, the rate."""
        return [(cause.row(), cause.bar.rate) for cause in self.causes]


def summary_of(published: Published) -> CausesSummary | None:
    """Summarise what a learner has published; None if it is no learner of causes."""
    if published.evidence is None:
        return None
    evidence = evidence_of(published.windows, causes_of(published.releases[-1].rule))
    causes = summarize_causes(published.releases, evidence)
    histories = over_time(published.windows, evidence)
    return CausesSummary(causes, evidence, histories, published.evidence)


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


def rules_as_text(releases: Sequence[Release], *, of_causes: bool) -> list[tuple[str, str]]:
    """Return the round and the text of each release; of causes, `never` is that there is none."""
    return [
        (f"{number:,}", "no cause" if of_causes and rule == NEVER else str(rule))
        for number, rule in releases
    ]


def rule_in_words(rule: Hypothesis, label: str, *, of_causes: bool = False) -> str:
    """Say what happens when, or that nothing is published."""
    if of_causes and rule == NEVER:
        return f"no cause of {label} is published"
    if isinstance(rule, Constant):
        return f"{label}: {rule}"
    # A cause with an outcome says itself what happens.
    named = any(cause.outcome is not None for cause in causes_of(rule))
    return str(rule) if named else f"{label} when {rule}"


def bar(rate: float | None, *, full: str = "█") -> str:
    """Draw a rate as a bar of text."""
    return "" if rate is None else full * max(1, round(BAR * rate))


def markdown_of(about: RunConfig, published: Published) -> str:
    """Return what is published, with its evidence and the guarantee, as Markdown."""
    last, label = published.releases[-1], label_in_words(**about.terms.label_data)
    causes = summary_of(published)
    sentence = rule_in_words(last.rule, label) if causes is None else causes.headline(label)
    lines = [f"**{_escaped(sentence)}**", ""]
    if causes is not None:
        rows = [row for row, _ in causes.rows()]
        lines += [*_table(HEAD, rows), ""] if rows else []
        lines += [_escaped(f"{line[:1].upper()}{line[1:]}.") for line in causes.sentences()] + [""]
    else:
        rules = ((f"{round_:,}", str(rule)) for round_, rule in published.releases)
        lines += [*_table(("from event", "rule"), rules), ""]
    when = "Of a table of {:,} rows" if about.terms.table else "As of event {:,}"
    public = f"Everything above is public: {published.guarantee}."
    lines.append(f"{when.format(published.rounds)}. {public}")
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head)):
        yield f"| {' | '.join(row)} |"
    for row in rows:
        yield f"| {' | '.join(map(_escaped, row))} |"


def _escaped(text: str) -> str:
    """Return text in which nothing is markup: values of the data are shown as they are."""
    return re.sub(r"([\\`*_{}\[\]<>|#&~@])", r"\\\1", visible(text))


def csv_of(published: Published) -> str:
    """Return the evidence for causes, or else the published rules, as CSV."""
    causes, text = summary_of(published), StringIO()
    if causes is not None:
        rows = causes.evidence.to_json()
        names = [*dict.fromkeys((*COLUMNS, *(name for row in rows for name in row)))]
    else:
        rows = [{"round": number, "rule": str(rule)} for number, rule in published.releases]
        names = ["round", "rule"]
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
