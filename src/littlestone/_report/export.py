"""Write what a run has published for other tools: Markdown for a ticket, CSV for a table. Public."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from littlestone._display import visible
from littlestone._learners.evidence import COLUMNS, HEAD
from littlestone._report.causes import label_in_words, rule_in_words, summary_of
from littlestone._store.request import RunConfig
from littlestone._store.store import Published


def markdown_of(about: RunConfig, published: Published) -> str:
    """Return what is published, with its evidence and the guarantee, as Markdown."""
    last, label = published.releases[-1], label_in_words(**about.terms.label_data)
    causes = summary_of(published)
    lines = [f"**{_escaped(rule_in_words(last.rule, label))}**", ""]
    if causes is not None and causes.rows():
        lines += [*_table(HEAD, (row for row, _ in causes.rows())), ""]
    else:
        rules = ((f"{round_:,}", str(rule)) for round_, rule in published.releases)
        lines += [*_table(("from event", "rule"), rules), ""]
    lines.append(
        f"As of event {published.rounds:,}. Everything above is public: {published.guarantee}."
    )
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
        rows = [{"round": at, "rule": str(rule)} for at, rule in published.releases]
        names = ["round", "rule"]
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
