"""The plane that the pictures of a report are drawn on: one axis of rounds, and values upwards.

Promises: pictures with equal axes put a round at the same place, and no value from 0 to `top` is
drawn outside the plane. Scaling and nothing else.

Two curves of a run: the mistakes of the published rules, and what the trees vote for.

Promises: votes are stacked, coloured rules first, up to the number of trees and never beyond; a
rule has one colour throughout a report. Both pictures say in words what they show.

The timeline of a run: a band for each published rule, along the rounds for which it stood.

Promises: labels overlap neither each other nor the lines that lead from them to their bands; a
label that has no room is left out, and every band says its whole rule when pointed at.

The private report: one HTML file that shows the data owner how a run went.

Promises: the file says that it is private before it says anything else; it asks the network for
nothing and runs no script; whatever comes from the data is shown as text.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby, pairwise
from typing import NamedTuple

from littlestone.display import Markup, clipped, columns, element, join_markup
from littlestone.hypotheses.base import Hypothesis
from littlestone.learners.base import Release
from littlestone.learners.trace import TOP, Sample

WIDTH, LEFT, RIGHT = 760, 56, 740
CEILING, FLOOR = 10, 24
"""The room above a plane, and below it for the numbers of the rounds."""

XY = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """Rounds from left to right; with `log`, equal steps multiply the rounds by equal factors."""

    rounds: int
    log: bool

    @property
    def name(self) -> str:
        return "log" if self.log else "linear"

    @property
    def end(self) -> int:
        return max(self.rounds, 10)

    def x(self, number: int) -> float:
        """Where a round is."""
        number = min(max(number, int(self.log)), self.end)
        share = math.log(number) / math.log(self.end) if self.log else number / self.end
        return round(LEFT + share * (RIGHT - LEFT), 1)

    def ticks(self) -> list[int]:
        """The rounds that have a number."""
        powers = len(str(self.end))
        tens = [10**power for power in range(0, powers, math.ceil(powers / 10))]
        found = tens if self.log else ticks(self.end, 6)
        return found + [self.end] * (self.x(found[-1]) + 48 < RIGHT)


@dataclass(frozen=True)
class Plane:
    """Where a round and a value meet. `top` None: bands instead of values."""

    axis: Axis
    top: int | None = None
    height: float = 150

    @property
    def base(self) -> float:
        return CEILING + self.height

    def y(self, value: int) -> float:
        """Where a value is: 0 at the base, `top` at the ceiling."""
        return round(self.base - self.height * value / (self.top or 1), 1)

    def levels(self) -> list[int]:
        """The values that have a line: round ones, and the top, which makes room for itself."""
        if self.top is None:
            return []
        return [tick for tick in ticks(self.top, 5) if tick <= 0.85 * self.top] + [self.top]


def picture(plane: Plane, name: str, title: str, words: str, marks: Iterable[Markup]) -> Markup:
    """Marks on their plane, with its grid and what they say to a person who cannot see them."""
    ident = f"{name}-{plane.axis.name}"
    return element(
        "svg",
        element("title", title, id=f"{ident}-title"),
        element("desc", words, id=f"{ident}-desc"),
        join_markup(_rounds(plane)),
        join_markup(_levels(plane)),
        *marks,
        role="img",
        aria_labelledby=f"{ident}-title",
        aria_describedby=f"{ident}-desc",
        viewBox=f"0 0 {WIDTH} {plane.base + FLOOR:g}",
        class_=plane.axis.name,
    )


def _rounds(plane: Plane) -> Iterator[Markup]:
    numbers, base = plane.axis.ticks(), plane.base
    for number, written in zip(numbers, shortened(numbers), strict=True):
        x = plane.axis.x(number)
        yield element("line", class_="grid", x1=x, x2=x, y1=CEILING, y2=f"{base + 4:g}")
        yield element("text", written, class_="tick", x=x, y=f"{base + 18:g}")


def _levels(plane: Plane) -> Iterator[Markup]:
    levels = plane.levels()
    for level, written in zip(levels, shortened(levels), strict=True):
        y = plane.y(level)
        yield element("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y)
        yield element("text", written, class_="level", x=LEFT - 8, y=round(y + 4, 1))


def step_path(points: Sequence[XY]) -> str:
    """The path that holds each value until the next is known.

    >>> steps([(56, 90), (60, 90), (70, 40), (80, 20)])
    'M56 90H70V40H80V20H80'
    """
    path = [f"M{x:g} {y:g}" for x, y in points[:1]]
    for (_, before), (x, after) in pairwise(points):
        if after != before:
            path.append(f"H{x:g}V{after:g}")
    return "".join([*path, *(f"H{x:g}" for x, _ in points[-1:])])


def slopes(points: Sequence[XY]) -> str:
    """The path straight from value to value: for what grows between samples.

    >>> slopes([(56, 90), (60, 90), (70, 40)])
    'M56 90L60 90L70 40'
    """
    return "".join(f"{'L' if n else 'M'}{x:g} {y:g}" for n, (x, y) in enumerate(points))


def area(path: str, points: Sequence[XY], base: float) -> str:
    """The path around what lies between a path through the points and the base."""
    return f"{path}V{base:g}H{points[0][0]:g}Z" if points else ""


def ticks(end: int, most: int) -> list[int]:
    """Round numbers from 0 to `end`, in at most `most` steps.

    >>> ticks(400_000, 6), ticks(83, 5), ticks(1, 5)
    ([0, 100000, 200000, 300000, 400000], [0, 20, 40, 60, 80], [0, 1])
    """
    ten = 10 ** max(0, len(str(end)) - 2)
    step = next(ten * by for by in (1, 2, 5, 10, 20, 50, 100) if end <= ten * by * most)
    return list(range(0, end + 1, step))


def shortened(values: Sequence[int]) -> list[str]:
    """Numbers for an axis: all in full, or in thousands and millions if one of them is long.

    >>> shortened([0, 50_000]), shortened([0, 500_000, 1_000_000])
    (['0', '50,000'], ['0', '500k', '1M'])
    """
    long = max(values, default=0) >= 100_000
    return [_short(value) if long else f"{value:,}" for value in values]


def _short(value: int) -> str:
    for size, unit in ((10**9, "bn"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:,.4g}{unit}"
    return str(value)


RULE_COLOURS = 6
"""How many colours the style sheet has."""

MANY_SAMPLES = 60
"""With more releases than this, curves are drawn without a line for each."""

LONGEST_RULE_SHOWN = 2_000
"""A title in a picture is cut here; the table of releases is where a rule is never cut."""

Colours = dict[Hypothesis, int]


def rule_colours(releases: Sequence[Release], samples: Iterable[Sample]) -> Colours:
    """The rules with a colour of their own: the standing one, then published ones, by best vote."""
    best: Colours = {release.rule: 0 for release in releases}
    published, standing = set(best), releases[-1].rule if releases else None
    for sample in samples:
        for rule, votes in sample.votes:
            best[rule] = max(votes, best.get(rule, 0))
    ranked = sorted(best, key=lambda rule: (rule != standing, rule not in published, -best[rule]))
    return {rule: number for number, rule in enumerate(ranked[:RULE_COLOURS])}


def colour_of(rule: Hypothesis | None, palette: Colours) -> str:
    """A rule's colour, by its name in the style sheet."""
    return f"c{palette[rule]}" if rule in palette else "other"


def mistakes_chart(axis: Axis, samples: Sequence[Sample], releases: Sequence[Release]) -> Markup:
    """The mistakes of the published rules, summed, against the rounds."""
    plane = Plane(axis, max([1, *(sample.mistakes for sample in samples)]))
    shown = thinned(samples, axis)
    points = _points(plane, [x for x, _ in shown], [sample.mistakes for _, sample in shown])
    marks = [
        *_firings(plane, releases),
        element("path", class_="under", d=area(slopes(points), points, plane.base)),
        element("path", class_="curve", d=slopes(points)),
        *(element("circle", class_="dot", cx=x, cy=y, r=3.5) for x, y in points[-1:]),
    ]
    return picture(plane, "mistakes", "Mistakes so far", _mistakes_in_words(samples), marks)


def votes_chart(
    axis: Axis,
    samples: Sequence[Sample],
    releases: Sequence[Release],
    trees: int,
    palette: Colours,
) -> Markup:
    """What the trees vote for. A layer reaches down to the base; lower ones are drawn over it."""
    plane, shown, layers = Plane(axis, height_of(samples, trees)), thinned(samples, axis), []
    xs, stacks = [x for x, _ in shown], [stacked(sample, palette) for _, sample in shown]
    for layer, rule in reversed([*enumerate([*palette, None])]):
        if any(stack[layer] > (layer and stack[layer - 1]) for stack in stacks):
            points = _points(plane, xs, [stack[layer] for stack in stacks])
            around = area(step_path(points), points, plane.base)
            title = element(
                "title", "other rules" if rule is None else clipped(str(rule), LONGEST_RULE_SHOWN)
            )
            layers.append(element("path", title, class_=colour_of(rule, palette), d=around))
    words, marks = _votes_in_words(samples, trees), [*_firings(plane, releases), *layers]
    return picture(plane, "votes", f"What {trees:,} trees vote for", words, marks)


def height_of(samples: Iterable[Sample], trees: int) -> int:
    """How many trees the picture shows: all, or as many as ever voted if those are few."""
    most = max(map(voters, samples), default=0)
    return trees if 2 * most > trees else max(1, most)


def _firings(plane: Plane, releases: Sequence[Release]) -> Iterator[Markup]:
    """A line wherever the rule changed, unless the lines would hide the picture."""
    for release in releases[1:] if len(releases) <= MANY_SAMPLES else ():
        x = plane.axis.x(release.round)
        yield element("line", class_="firing", x1=x, x2=x, y1=CEILING, y2=f"{plane.base:g}")


def stacked(sample: Sample, palette: Colours) -> list[int]:
    """Up to which tree each layer reaches: the coloured rules, then all others.

    >>> from littlestone.hypotheses.base import ALWAYS, NEVER
    >>> stacked(Sample(9, 0, ((NEVER, 5), (ALWAYS, 2))), {ALWAYS: 0})
    [2, 7]
    """
    tops = [0] * (len(palette) + 1)
    for rule, votes in sample.votes:
        tops[palette.get(rule, -1)] += votes
    for layer in range(len(palette)):
        tops[layer + 1] += tops[layer]
    return tops


def thinned(samples: Sequence[Sample], axis: Axis) -> list[tuple[float, Sample]]:
    """Samples that the eye can tell apart, and where they are. Of several in one column of the
    picture, the last and the one with the most votes stay, each on its side of the column, so that
    the peak before a firing is seen however short it was."""
    kept: list[tuple[float, Sample]] = []
    for column, group in groupby(samples, key=lambda sample: round(axis.x(sample.round))):
        first, *others = group
        if others:
            fullest = max([first, *others], key=voters)
            kept += [(max(LEFT, column - 0.5), fullest), (min(RIGHT, column + 0.5), others[-1])]
        else:
            kept.append((axis.x(first.round), first))
    return kept


def _points(plane: Plane, xs: Sequence[float], values: Iterable[int]) -> list[XY]:
    """Values on the plane, the whole at least two wide: a single sample is seen too."""
    points = [(x, plane.y(value)) for x, value in zip(xs, values, strict=True)]
    if points:
        (start, first), (end, last) = points[0], points[-1]
        end = max(end, LEFT + 2)
        points = [(min(start, end - 2), first), *points[1:], (end, last)]
    return points


def voters(sample: Sample) -> int:
    """How many trees vote for the rules that a sample lists."""
    return sum(votes for _, votes in sample.votes)


def silence(samples: Iterable[Sample]) -> str:
    """What the trees that a sample does not list do."""
    full = any(len(sample.votes) >= TOP for sample in samples)
    return f"no vote, or for a rule not among the first {TOP}" if full else "no vote"


def _mistakes_in_words(samples: Sequence[Sample]) -> str:
    if not samples:
        return "Nothing was recorded."
    last = samples[-1]
    half = next(sample for sample in samples if 2 * sample.mistakes >= last.mistakes)
    return (
        f"{last.mistakes:,} mistakes in {last.round:,} rounds;"
        f" {half.mistakes:,} of them by round {half.round:,}."
    )


def _votes_in_words(samples: Sequence[Sample], trees: int) -> str:
    if not samples:
        return "Nothing was recorded."
    last = samples[-1]
    listed = [f"{votes:,} for {clipped(str(rule), 80)}" for rule, votes in last.votes]
    listed.append(f"{trees - voters(last):,} {silence(samples)}")
    return f"Of {trees:,} trees after round {last.round:,}: {', '.join(listed)}."


BAND, ROW, ROWS = 24, 18, 4
LETTER, ROOM, GAP = 6.4, 30, 8
"""The width of a letter, how many a label may have, and the room between labels."""


class TimelineLabel(NamedTuple):
    """A release's label from `left` to `right`, `row` rows above the bands. The line that leads
    from it to its band, at `x`, is at one of its ends."""

    release: Release
    text: str
    x: float
    left: float
    right: float
    row: int = 0


def timeline(axis: Axis, releases: Sequence[Release], palette: Colours) -> Markup:
    """The picture of what was published when."""
    labels = placed(releases, axis)
    top = CEILING + ROW * (1 + max((label.row for label in labels), default=-1))
    plane = Plane(axis, height=top + BAND - CEILING)
    ends = [*(release.round for release in releases[1:]), axis.rounds + 1]
    marks = [_label(label, top) for label in labels]
    for release, end in zip(releases, ends, strict=False):
        marks.append(_band(axis, release, end, top, colour_of(release.rule, palette)))
    return picture(plane, "releases", "Published rules", _in_words(releases), marks)


def placed(releases: Sequence[Release], axis: Axis) -> list[TimelineLabel]:
    """The labels that fit, each above those that it would run into. Those that reach back to the
    left climb to the right, the others climb to the left: so no line crosses a label."""
    labels, found = _beside_their_lines(releases, axis), list[TimelineLabel]()
    backward = [label for label in reversed(labels) if label.right == label.x]
    for label in [*backward, *(label for label in labels if label.right != label.x)]:
        near = [o for o in found if o.left < label.right + GAP and label.left - GAP < o.right]
        row = 1 + max((other.row for other in near), default=-1)
        if row < ROWS and not any(o.left - GAP < label.x < o.right + GAP for o in near):
            found.append(label._replace(row=row))
    return found


def _beside_their_lines(releases: Sequence[Release], axis: Axis) -> list[TimelineLabel]:
    """From the last to the first: to the right of its line, or to the left if that has no room."""
    labels, limit = [], float(RIGHT)
    for release in reversed(releases):
        text, x = clipped(str(release.rule), ROOM), axis.x(release.round)
        width = LETTER * columns(text)
        backward = x + width > limit and x - width >= LEFT
        limit = x if backward else limit
        labels.append(
            TimelineLabel(release, text, x, x - width * backward, x + width * (not backward))
        )
    return labels


def _label(label: TimelineLabel, top: float) -> Markup:
    x, y = label.x, top - ROW * label.row - 6
    return element(
        "g",
        element("title", _title(label.release)),
        element("line", class_="lead", x1=x, x2=x, y1=f"{y + 3:g}", y2=f"{top:g}"),
        element("text", label.text, x=x, y=f"{y:g}", class_="back" if label.right == x else "on"),
    )


def _band(axis: Axis, release: Release, end: int, top: float, colour: str) -> Markup:
    left = axis.x(release.round)
    width = max(1.5, axis.x(end) - left - 1)
    return element(
        "rect",
        element("title", _title(release)),
        class_=colour,
        x=f"{min(left, RIGHT - width):g}",
        y=f"{top:g}",
        width=f"{width:g}",
        height=BAND,
    )


def _title(release: Release) -> str:
    return f"From round {release.round:,}: {clipped(str(release.rule), LONGEST_RULE_SHOWN)}"


def _in_words(releases: Sequence[Release]) -> str:
    said = [f"{clipped(str(rule), 80)} from round {number:,}" for number, rule in releases]
    if len(said) > 10:
        said[5:-5] = [f"{len(said) - 10:,} others"]
    return f"{len(releases):,} published: {'; '.join(said)}." if said else "No rule is published."


POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Belt and braces: even if text became markup, a browser would load and run nothing."""

BANNER = (
    "Of everything on this page only the releases are public, that is, the published rules and the"
    " rounds from which they stood; all else that was computed from the data (mistakes, votes, null"
    " rounds) carries no noise and belongs to the data owner."
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


def render_report(report: Report) -> str:
    """The report as one HTML file."""
    sheets = (files("littlestone.report").joinpath(name) for name in ("colours.css", "report.css"))
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
    return [
        since,
        element("code", clipped(str(rule), 160), title=clipped(str(rule), LONGEST_RULE_SHOWN)),
    ]


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
    palette = rule_colours(releases, samples)
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
    palette = rule_colours(report.releases, report.samples)
    entries = [(colour_of(rule, palette), _rule(str(rule), 60)) for rule in palette]
    if len(palette) == RULE_COLOURS:
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
    return element("bdi", clipped(text, room), title=clipped(text, LONGEST_RULE_SHOWN))


def _mark(word: str) -> Markup:
    return join_markup([" ", element("small", word, class_=word)])
