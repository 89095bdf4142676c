"""The private report: one HTML file that shows the data's holder how a run went.

Promises: the file says that it is private before it says anything else; it asks the network for
nothing and runs no script; whatever comes from the data is shown as text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from littlestone.edge.charts import (
    COLOURS,
    LONGEST,
    colour_of,
    colours,
    height_of,
    mistakes_chart,
    silence,
    voters,
    votes_chart,
)
from littlestone.edge.markup import Markup, clipped, element, joined
from littlestone.edge.plane import Axis
from littlestone.edge.timeline import timeline
from littlestone.learning.releases import Release
from littlestone.learning.trace import Sample

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Belt and braces: even if text became markup, a browser would load and run nothing."""

BANNER = (
    "Of everything on this page only the releases are public, that is, the published rules and the"
    " rounds from which they stood; all else that was computed from the data (mistakes, votes, null"
    " rounds) carries no noise and belongs to the data's holder."
)
OUTSIDE = (
    "Whatever you tune after reading this page (the class, the tolerance, epsilon) is outside the"
    " guarantee, and so is a second run on the same data: its epsilon adds to the first."
)


@dataclass(frozen=True, repr=False)
class Report:
    """All that a report shows. Private, so it does not print."""

    title: str
    spec: str
    guarantee: str
    rounds: int
    null_rounds: int
    beyond_cap: int
    bad_rows: Sequence[str]
    trees: int
    releases: Sequence[Release]
    samples: Sequence[Sample]
    plan: Sequence[tuple[str, str, str]]
    ledger: Sequence[tuple[str, str, str, str]]
    notes: Sequence[str]
    provenance: Mapping[str, str]

    def __post_init__(self) -> None:
        for sample in self.samples:
            if voters(sample) > self.trees:
                raise ValueError(
                    f"A tree has one vote: {self.trees} trees cannot have cast the"
                    f" {voters(sample)} votes of the sample after round {sample.round}."
                )

    def __repr__(self) -> str:
        return "Report(private)"


def render(report: Report) -> str:
    """The report as one HTML file."""
    sheets = (files("littlestone.edge").joinpath(name) for name in ("colours.css", "report.css"))
    style = Markup("".join(sheet.read_text("utf-8") for sheet in sheets))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="robots", content="noindex"),
        element("title", f"PRIVATE: {report.title}, a littlestone report"),
        element("style", style),
    )
    body = element("body", _banner(), element("main", *_sections(report)))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _sections(report: Report) -> Iterator[Markup]:
    yield _headline(report)
    yield _figures(report)
    yield _releases(report)
    yield _table("The plan", ["what", "value", "why"], report.plan)
    ledger = ["mechanism", "times used", "cost each", "how it adds up"]
    yield _table("What was spent", ledger, report.ledger)
    yield _null_rounds(report)
    yield _table("Where this comes from", ["what", "value"], report.provenance.items())


def _banner() -> Markup:
    title = element("strong", "Private. Not for publication.")
    return element(
        "aside", element("p", title, " ", BANNER), element("p", OUTSIDE), aria_label="Privacy"
    )


def _headline(report: Report) -> Markup:
    last = report.samples[-1] if report.samples else None
    mistakes = "not recorded" if last is None else f"{last.mistakes:,}"
    if last is not None and last.round < report.rounds:
        mistakes += f" by round {last.round:,}"
    facts = {
        "mistakes": mistakes,
        "rounds": f"{report.rounds:,}",
        "rounds that counted": f"{report.rounds - report.null_rounds:,}",
        "rules published": f"{len(report.releases):,}",
        "rows not readable": f"{report.null_rounds - report.beyond_cap:,}",
    }
    if report.beyond_cap:
        facts["rounds beyond the cap"] = f"{report.beyond_cap:,}"
    return element(
        "header",
        element("p", "Run on ", _rule(report.title), " with the class ", _rule(report.spec)),
        element("h1", *_standing(report.releases)),
        element("dl", *(element("div", element("dt", k), element("dd", facts[k])) for k in facts)),
        element("p", report.guarantee, class_="guarantee"),
        *(element("p", note, class_="note") for note in report.notes),
    )


def _standing(releases: Sequence[Release]) -> list[str]:
    if not releases:
        return ["No rule is published."]
    number, rule = releases[-1]
    since = element("span", f"The published rule, since round {number:,}")
    return [since, element("code", clipped(str(rule), 160), title=clipped(str(rule), LONGEST))]


def _figures(report: Report) -> Markup:
    heading = element("h2", "How it went", _mark("private"))
    if not report.rounds:
        return element("section", heading, element("p", "No round was learned: nothing to draw."))
    figures = [
        element("figure", element("figcaption", caption), *drawn)
        for caption, drawn in _pictures(report)
    ]
    together = _scrolled("Pictures of the run", figures)
    shown = element("div", together, _legend(report), class_="figures")
    return element("section", heading, *_switch(), shown, _numbers(report))


def _pictures(report: Report) -> Iterator[tuple[str, list[Markup]]]:
    """The captions, and under each its picture on the logarithmic and on the linear axis."""
    samples, releases = report.samples, report.releases
    axes = [Axis(report.rounds, log=True), Axis(report.rounds, log=False)]
    palette = colours(releases, samples)
    drawn = [mistakes_chart(axis, samples, releases) for axis in axes]
    yield "Mistakes of the published rules since the first round", drawn
    if report.trees:
        drawn = [votes_chart(axis, samples, releases, report.trees, palette) for axis in axes]
        yield _votes_caption(report), drawn
    yield "Published rules", [timeline(axis, releases, palette) for axis in axes]


def _votes_caption(report: Report) -> str:
    shown, trees = height_of(report.samples, report.trees), report.trees
    if shown == trees:
        return f"Votes of {trees:,} trees"
    return f"Votes of {trees:,} trees, drawn up to {shown:,}"


def _switch() -> Iterator[Markup]:
    """Two radio buttons; the style sheet hides the pictures of the axis that is not chosen."""
    yield element("span", "Axis of rounds", class_="switch", id="axis")
    for name, checked in (("log", {"checked": "checked"}), ("linear", {})):
        kind: dict[str, object] = {"type": "radio", "name": "axis", "aria_describedby": "axis"}
        yield element("input", id=name, **kind, **checked)
        yield element("label", "Logarithmic" if name == "log" else "Linear", for_=name)


def _legend(report: Report) -> Markup:
    """What the colours of votes and bands mean."""
    palette = colours(report.releases, report.samples)
    entries = [(colour_of(rule, palette), _rule(str(rule), 60)) for rule in palette]
    if len(palette) == COLOURS:
        entries.append(("other", Markup("other rules")))
    if report.trees:
        entries.append(("silent", Markup(silence(report.samples))))
    listed = (element("li", _swatch(colour), name) for colour, name in entries)
    return element("ul", *listed, class_="legend", aria_label="Colours")


def _swatch(colour: str) -> Markup:
    return element("i", class_=f"swatch {colour}", aria_hidden="true")


def _numbers(report: Report) -> Markup:
    """The curves as a table, for who cannot see them or wants the figures."""
    rows = []
    for sample in report.samples:
        leader, votes = sample.votes[0] if sample.votes else ("none", 0)
        most = clipped(str(leader), 60)
        rows.append((f"{sample.round:,}", f"{sample.mistakes:,}", f"{votes:,}", most))
    table = _rows(["round", "mistakes", "most votes", "for the rule"], rows)
    return element("details", element("summary", "The curves in numbers"), table)


def _releases(report: Report) -> Markup:
    rows = [(f"{number:,}", str(rule)) for number, rule in report.releases]
    heading = element("h2", "Releases", _mark("public"))
    return element("section", heading, _rows(["from round", "rule"], rows))


def _null_rounds(report: Report) -> Markup:
    count = report.null_rounds - report.beyond_cap
    rows = "row" if count == 1 else "rows"
    said = f"{count:,} {rows} could not be read; each still takes up its round."
    beyond = (
        f"{report.beyond_cap:,} further rounds were beyond the cap of their user: they were not"
        " learned, and their mistakes are not counted."
    )
    listed = [element("ul", *(element("li", _rule(row)) for row in report.bad_rows))]
    return element(
        "section",
        element("h2", "Null rounds", _mark("private")),
        element("p", said if count else "Every row could be read."),
        *([element("p", beyond)] if report.beyond_cap else []),
        *(listed if report.bad_rows else []),
    )


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    return element("section", element("h2", title), _rows(columns, rows))


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    head = element("tr", *(element("th", name, scope="col") for name in columns))
    body = [element("tr", *(element("td", _rule(cell)) for cell in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body))
    return _scrolled(f"Table: {', '.join(columns)}", [table])


def _scrolled(label: str, inside: Iterable[Markup]) -> Markup:
    """What may be wider or longer than the screen; the keyboard reaches it."""
    return element("div", *inside, class_="scroll", tabindex=0, role="group", aria_label=label)


def _rule(text: str, room: int | None = None) -> Markup:
    """Text from the data, in a direction of reading of its own, whole when pointed at."""
    if room is None:
        return element("bdi", text)
    return element("bdi", clipped(text, room), title=clipped(text, LONGEST))


def _mark(word: str) -> Markup:
    return joined([" ", element("small", word, class_=word)])
