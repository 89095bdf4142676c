"""The private report: it says that it is private, stays alone, and shows hostile text as text."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from bench.streams import value_column
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes

import littlestone as ls
from littlestone._display import clipped, columns, environment, visible
from littlestone._hypotheses.causes import Cause, Condition, any_of
from littlestone._hypotheses.rules import NEVER, Hypothesis, one_of
from littlestone._learners.base import Release
from littlestone._learners.evidence import (
    CostSample,
    OverTime,
    Window,
    costs_of,
    evidence_of,
    over_time,
    summarize_causes,
)
from littlestone._learners.trace import TOP, Sample
from littlestone._plots import COLOURS, inline_svg, plot_mistakes, plot_rates, svg_file
from littlestone._privacy.accounting import Guarantee
from littlestone._privacy.testing import SeededNoise
from littlestone._report.report import (
    Report,
    RunResult,
    lettered_rules,
    over_time_figure,
    render_report,
    report_of,
    run_figure,
)
from littlestone._simulate.games import play
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import Run, begin

HOSTILE = (
    "</title><script>alert('1')</script>\"><img src=x onerror=y>&amp;\n\x00\x1b\u202eevil\ud800"
)
TAGS = re.compile(
    "html|head|meta|title|style|body|aside|p|strong|main|header|h1|h2|span|code|dl|div|dt|dd|small"
    "|ol|section|figure|figcaption|svg|defs|clippath|text|path|rect|use|g|ul|li|i|bdi|details|summary"
    "|table|thead|tbody|tr|th|td|b"
)


class Page(HTMLParser):
    """The elements of a page, each with its attributes and its own text; ill-formed pages fail."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[int] = []
        self.feed(page)
        self.close()
        assert not self._open, f"never closed: {[self.found[at] for at in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        self.texts.append("")
        if tag != "meta":
            self._open.append(len(self.found) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.found[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]] += data

    def all(self, tag: str, kind: str | None = None) -> list[dict[str, str]]:
        return [a for t, a in self.found if t == tag and kind in (None, a.get("class"))]

    def said(self, tag: str) -> list[str]:
        return [text for (t, _), text in zip(self.found, self.texts, strict=True) if t == tag]


def rule(number: int) -> Hypothesis:
    return one_of([f"M-{number}"], "merchant")


RUN = Report(
    title="events.csv",
    spec="points:merchant",
    guarantee="(1, 1e-6)-differentially private for the whole sequence of releases.",
    rounds=400_000,
    null_rounds=2,
    beyond_cap=0,
    bad_rows=["Line 7: no label."],
    trees=300,
    releases=[Release(1, NEVER), Release(935, rule(1)), Release(212_962, rule(2))],
    samples=[
        Sample(1, 0, ()),
        Sample(500, 30, ((rule(1), 20), (rule(3), 2))),
        Sample(934, 56, ((rule(1), 40), (rule(3), 3))),
        Sample(200_000, 57, ((rule(1), 250), (rule(2), 1))),
        Sample(400_000, 120, ((rule(2), 180), (rule(1), 20))),
    ],
    plan=[("trees", "300", "eight times the votes")],
    ledger=[("monitor", "3", "(0.4, 0)", "epochs are disjoint")],
    notes=["The horizon was not reached."],
    provenance={"version": "0.1.0", "seed": "7"},
    statement=Guarantee(1.0, 1e-6).meaning(),
)


def cause(*values: str) -> Cause:
    return Cause(tuple(Condition(f"c{at}", value) for at, value in enumerate(values)))


def went(*causes: Cause) -> OverTime:
    """Rates that came down after two of four hours."""
    windows = [
        Window(
            1 + 1000 * n, 1000 + 1000 * n, causes, (120,) * len(causes) + (500,),
            (80 if n < 2 else 6,) * len(causes) + (5,), 2.0, time=f"2026-07-12T0{n + 1}:00:00",
        )
        for n in range(4)
    ]  # fmt: skip
    return over_time(windows, evidence_of(windows, causes))


def causes_report(first: Cause, second: Cause) -> Report:
    """One cause from round 1,001 on, dropped at 5,001; another from 3,001 on, which stands."""
    releases = [
        Release(1, NEVER),
        Release(1_001, any_of([first])),
        Release(3_001, any_of([first, second])),
        Release(5_001, any_of([second])),
    ]
    windows = [
        Window(1, 1_000, (), (950,), (50,), 20.0, to_beat=0.1, drawn=True),
        Window(1_001, 3_000, (first,), (700, 970), (300, 30), 20.0, to_beat=0.1, drawn=True),
        Window(3_001, 5_000, (first, second), (700, 300, 500), (300, 190, 10), 20.0, to_beat=0.1),
        Window(5_001, 9_000, (second,), (600, 2_950), (400, 50), 20.0, to_beat=0.1),
    ]
    return replace(
        RUN,
        spec="causes:c0,c1:2",
        label="failed",
        rounds=9_000,
        trees=0,
        releases=releases,
        samples=[Sample(1, 0, ()), Sample(9_000, 2_940, ())],
        causes=summarize_causes(releases, evidence_of(windows, [second])),
        rate_to_beat=0.1,
        costs=costs_of(windows),
        missed=140,
        false_alarms=2_800,
    )


OLD, NEW = cause("4.2.1"), cause("K9", "SE")
CAUSES = causes_report(OLD, NEW)
EMPTY = replace(RUN, rounds=0, samples=[], releases=[Release(1, NEVER)], null_rounds=0, bad_rows=[])
CASES = {
    "a run": RUN,
    "the first rule stands": replace(RUN, releases=RUN.releases[:1]),
    "no rule": replace(RUN, releases=[], samples=[]),
    "one sample": replace(RUN, samples=RUN.samples[-1:]),
    "one round": replace(EMPTY, rounds=1, samples=[Sample(1, 1, ((NEVER, 300),))]),
    "zero rounds": EMPTY,
    "a sample before any round": replace(EMPTY, samples=[Sample(0, 0, ())]),
    "no samples": replace(RUN, samples=[]),
    "no trees": replace(RUN, trees=0, samples=[Sample(400_000, 9, ())]),
    "no mistakes": replace(RUN, samples=[Sample(1, 0, ()), Sample(400_000, 0, ())]),
    "a billion rounds": replace(
        RUN, rounds=10**9, samples=[*RUN.samples, Sample(10**9, 10**8, ((rule(2), 300),))]
    ),
    "a release for the next round": replace(
        RUN, releases=[*RUN.releases, Release(400_001, rule(9))]
    ),
    "many releases": replace(
        RUN, releases=[Release(1, NEVER), *(Release(2 + 790 * n, rule(n)) for n in range(499))]
    ),
    "many samples": replace(
        RUN,
        releases=[Release(1 + 800 * n, rule(n)) for n in range(500)],
        samples=[
            Sample(200 * n, n // 3, tuple((rule((n + k) % 500), 30 - k) for k in range(TOP)))
            for n in range(2_001)
        ],
    ),
    "causes": CAUSES,
    "no cause": replace(
        CAUSES,
        causes=[],
        releases=RUN.releases[:1],
        why=["no draw found enough", "what to try: more"],
    ),
    "no window": replace(CAUSES, causes=[], releases=RUN.releases[:1], costs=[], rate_to_beat=None),
    "a cause without counts": replace(
        CAUSES,
        releases=[Release(1, NEVER), Release(9_001, any_of([OLD]))],
        causes=summarize_causes([Release(1, NEVER), Release(9_001, any_of([OLD]))], []),
    ),
    "many causes": replace(
        CAUSES,
        causes=summarize_causes(
            [Release(1 + 100 * n, any_of([cause(f"v{n}")])) for n in range(90)], []
        ),
    ),
    "over time": replace(CAUSES, over_time=went(NEW, OLD)),
    "hostile over time": replace(
        causes_report(cause(HOSTILE), cause(HOSTILE * 300, HOSTILE)),
        over_time=went(cause(HOSTILE), cause(HOSTILE * 300, HOSTILE)),
    ),
    "hostile causes": causes_report(cause(HOSTILE), cause(HOSTILE * 300, HOSTILE)),
    "hostile": replace(
        RUN,
        title=HOSTILE,
        spec=HOSTILE,
        guarantee=HOSTILE,
        bad_rows=[HOSTILE],
        releases=[Release(1, one_of([HOSTILE * 500], HOSTILE))],
        samples=[Sample(400_000, 1, ((one_of([HOSTILE * 500], HOSTILE), 300),))],
        plan=[(HOSTILE,) * 3],
        ledger=[(HOSTILE,) * 4],
        notes=[HOSTILE],
        provenance={HOSTILE: HOSTILE},
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


@cache
def rendered(name: str) -> str:
    """A case as HTML: its figures are slow to draw."""
    return render_report(CASES[name])


@every_case
def test_every_report_is_well_formed_private_and_alone(name: str) -> None:
    written = rendered(name)
    page = Page(written)
    for svg in re.findall(r"<svg.*?</svg>", written, re.DOTALL):
        assert not re.search(r"#[0-9a-f]{6}[^0-9a-z]", svg), "a colour that stays in the dark"
        assert "var(--" in svg
    assert all(TAGS.fullmatch(tag) for tag, _ in page.found)
    assert page.said("title")[0].startswith("PRIVATE: ")
    assert len(written.encode("utf-8")) < 1_500_000
    for tag, attributes in page.found:
        assert not [name for name in attributes if name.startswith(("on", "src", "href"))]
        assert attributes.get("xlink:href", "#").startswith("#")
        assert "style" not in attributes or tag in {"g", "path", "text", "use"}
    markup = re.sub(r">[^<]*<", "><", written)
    for outside in ("http://", "https://", "url(", "@import", "//"):
        assert outside not in markup.replace("url(#", "")
        assert outside not in "".join(page.said("style"))
    idents = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(idents) == len(set(idents))


def test_the_banner_comes_first_and_says_what_is_outside_the_guarantee() -> None:
    page = Page(rendered("a run"))
    tags = [tag for tag, _ in page.found]
    assert tags.index("aside") == tags.index("body") + 1
    said = " ".join(page.said("strong") + page.said("p"))
    assert "Private. Not for publication." in said
    assert "only the releases are public" in said
    assert "rounds from which they stood" in said
    assert "tune after reading this page" in said
    assert "a second run on the same data: its epsilon adds" in said


def test_the_headline() -> None:
    page = Page(rendered("a run"))
    assert page.said("code") == [str(rule(2))]
    assert "The published rule" in page.said("span")
    assert "since round 212,962 of 400,000" in page.said("p")
    assert page.said("dd") == ["120", "400,000", "399,998", "3", "2"]
    assert RUN.guarantee in page.said("p")
    assert RUN.statement["In other words"] in page.said("bdi")
    assert RUN.notes[0] in page.said("p")


def test_mistakes_that_were_not_seen_are_not_claimed() -> None:
    assert "120 by round 400,000" in Page(render_report(replace(RUN, rounds=500_000))).said("dd")
    assert "not recorded" in Page(rendered("no samples")).said("dd")


def test_the_tables_hold_everything() -> None:
    cells = Page(rendered("a run")).said("bdi")
    expected = ["935", str(rule(1)), "epochs are disjoint", "eight times the votes", "seed", "7"]
    assert set(expected) <= set(cells)
    assert "Line 7: no label." in cells
    assert {"0", "30", "56", "57", "120"} <= set(cells)


def test_a_long_rule_is_cut_in_the_legend_and_whole_in_the_table() -> None:
    long = one_of(["x" * 1_500], "column")
    page = Page(render_report(replace(RUN, releases=[Release(1, long)])))
    assert clipped(str(long), 60) in page.said("bdi")
    assert str(long) in page.said("bdi")
    assert str(long) in [attributes.get("title") for attributes in page.all("bdi")]


@given(st.text(st.characters(), min_size=1, max_size=60))
def test_any_text_is_shown_as_text(text: str) -> None:
    hostile = one_of([text], text)
    report = replace(
        RUN,
        title=text,
        notes=[text],
        releases=[Release(1, hostile)],
        samples=[Sample(9, 1, ((hostile, 3),))],
        provenance={text: text},
    )
    # The figure is slow to draw, and holds no text from the data: see the next test.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("littlestone._report.report.inline_svg", lambda figure, name: "")
        patch.setattr("littlestone._report.report.run_figure", lambda *_: None)
        page = Page(render_report(report))
    assert all(TAGS.fullmatch(tag) for tag, _ in page.found)
    assert visible(text) in page.said("p")
    assert page.said("bdi").count(visible(text)) >= 2
    assert visible(str(hostile)) in page.said("bdi")
    assert page.said("title")[0] == f"PRIVATE: {visible(text)}, a littlestone report"


def test_the_figure_holds_no_text_from_the_data() -> None:
    """So text from the data needs no font that matplotlib has not, and no escape of `$`."""
    ours = re.compile(
        r"[A-F]|other|[\d.]+[kM]?|rounds|Votes of 300 trees|Published rules|Mistakes .*"
        r"|Cost, .*|Causes, .*|publishing nothing|the published (causes|rules)"
        r"|the best published rule"
    )
    for case in ("hostile", "many samples", "hostile causes"):
        texts = Page(inline_svg(run_figure(CASES[case]), "run")).said("text")
        assert texts
        assert all(ours.fullmatch(text) for text in texts)


def test_what_does_not_print_is_made_visible() -> None:
    assert visible("a\x00\n\x7f\u202e\ud800") == "a␀␊\\x7f\\u202e\\ud800"
    cell = environment().from_string('<td title="{{ text }}">{{ text }}</td>')
    assert "\n" not in cell.render(text="one\ntwo")


@given(st.text(max_size=60), st.integers(2, 40))
def test_a_clipped_text_has_the_room_it_was_given(text: str, room: int) -> None:
    cut = clipped(text, room)
    assert columns(cut) <= room
    assert cut == visible(text) or cut.endswith("…")


def figure_words(written: str) -> str:
    (shown,) = [a for a in Page(written).all("div") if a.get("role") == "img"]
    return shown["aria-label"]


def test_the_words_give_the_numbers() -> None:
    said = figure_words(rendered("a run"))
    assert "120 mistakes in 400,000 rounds; 120 of them by round 400,000." in said
    assert (
        "Of 300 trees after round 400,000: 180 for merchant = 'M-2', 20 for merchant = 'M-1',"
        " 100 no vote." in said
    )
    assert "3 published: never from round 1; " in said


def test_silence_is_not_claimed_when_a_sample_may_leave_rules_out() -> None:
    full = Sample(400_000, 1, tuple((rule(n), 1) for n in range(TOP)))
    said = figure_words(render_report(replace(RUN, samples=[full])))
    assert f"no vote, or for a rule not among the first {TOP}." in said


def data(line: object) -> list[list[float]]:
    points: list[list[float]] = np.asarray(getattr(line, "get_xydata")()).tolist()  # noqa: B009
    return points


def test_the_figure_draws_the_data_on_one_linear_axis() -> None:
    mistakes, votes, published = run_figure(RUN).axes
    assert data(mistakes.lines[0]) == [[s.round, s.mistakes] for s in RUN.samples]
    assert [line.get_xdata()[0] for line in mistakes.lines[1:]] == [935, 212_962]  # type: ignore[index]
    letters = {line.get_label(): data(line) for line in votes.lines}
    assert list(letters) == ["A", "B", "D"], "the standing rule, a published one, a candidate"
    assert letters["A"] == [[1, 0], [500, 0], [934, 0], [200_000, 1], [400_000, 180]]
    assert letters["D"][:3] == [[1, 0], [500, 2], [934, 3]]
    stood = [c.get_segments()[0][:, 0].tolist() for c in published.collections]  # type: ignore[attr-defined]
    assert stood == [[1, 935], [935, 212_962], [212_962, 400_000]]
    assert [tick.get_text() for tick in published.get_yticklabels()] == ["C", "B", "A"]
    for ax in (mistakes, votes, published):
        assert ax.get_xscale() == ax.get_yscale() == "linear"
        assert ax.get_xlim() == (0, RUN.rounds)


@every_case
def test_every_curve_is_inside_its_axes(name: str) -> None:
    report = CASES[name]
    if not report.rounds:
        return
    for ax in run_figure(report).axes:
        bottom, top = sorted(ax.get_ylim())
        for line in ax.lines[:1] if "Mistakes" in ax.get_title("left") else ax.lines:
            assert all(0 <= x <= report.rounds and bottom <= y <= top for x, y in data(line))


def test_a_figure_is_the_same_every_time_and_names_no_address() -> None:
    assert render_report(RUN) == rendered("a run")
    figure = run_figure(RUN)
    assert "<title>a &lt;b&gt;␊</title>" in svg_file(figure, "run", "a <b>\n")
    assert "http" not in inline_svg(figure, "run")


def test_a_report_does_not_print() -> None:
    assert repr(RUN) == "Report(private)"


def test_the_standing_rule_and_the_published_ones_get_the_colours() -> None:
    letters = lettered_rules(RUN.releases, RUN.samples)
    assert letters == {rule(2): "A", rule(1): "B", NEVER: "C", rule(3): "D"}
    many = CASES["many samples"]
    assert len(lettered_rules(many.releases, many.samples)) == len(COLOURS)
    assert "all other rules" in Page(rendered("many samples")).said("li")
    assert "all other rules" not in Page(rendered("a run")).said("li")


def shown(page: Page, tag: str, kind: str) -> list[str]:
    """The own texts of elements of a class."""
    return [
        text
        for (name, attributes), text in zip(page.found, page.texts, strict=True)
        if name == tag and attributes.get("class") == kind
    ]


def test_each_cause_is_drawn_beside_the_base_rate() -> None:
    written = rendered("causes")
    page = Page(written)
    assert page.said("code") == [str(NEW), "", ""], "the headline; in the list they are isolated"
    assert {str(NEW), str(OLD), "failed"} <= set(page.said("bdi"))
    assert "39.6 %" in page.said("strong")
    facts = " ".join(" ".join(part.split()) for part in (written,))
    assert "<strong>39.6 % of about 1,490 ± 114 events</strong>" in facts
    assert "<strong>30.0 % of about 2,000 ± 114 events</strong>" in facts
    assert "published: rounds 3,001 to the end." in facts
    assert "dropped: rounds 1,001 to 5,000." in facts
    assert "; it had to beat 10.0 %; published: rounds 3,001" in facts
    second, _ = CAUSES.causes or ()
    assert second.evidence is not None
    assert f"{second.evidence.lift:.2g} times the rate of others" in facts
    assert "<b>23\N{MULTIPLICATION SIGN}</b>as often as others" in written
    bars = [a for a in page.all("rect") if a.get("height") == "14"]
    scale = 0.5
    rates = [590 / 1_490, 60 / 3_510, 600 / 2_000, 40 / 1_510]
    assert [float(a["width"]) for a in bars] == pytest.approx(
        [1_000 * rate / scale for rate in rates], abs=0.1
    )
    assert [a["fill"] for a in bars] == ["var(--c0)", *["var(--other)"] * 3]
    low, high = second.evidence.estimate.low, second.evidence.estimate.high
    assert f"M{1_000 * low / scale:.1f},10 H{1_000 * high / scale:.1f}" in written
    assert shown(page, "li", "gone") != []
    assert page.said("dd")[:2] == ["140", "2,800"]


def test_the_costs_are_drawn_beside_publishing_nothing_and_causes_by_their_rounds() -> None:
    cost, spans = run_figure(CAUSES).axes
    nothing, ours = cost.lines[:2]
    (filled,) = cost.collections
    assert filled.get_alpha() == 0.1
    assert (nothing.get_label(), ours.get_label()) == ("publishing nothing", "the published causes")
    assert data(nothing) == [[0, 0], [1_000, 50], [3_000, 380], [5_000, 880], [9_000, 1_330]]
    expected = [0, 50, 80 + 700 / 9, 90 + 1_700 / 9, 140 + 2_300 / 9]
    assert [y for _, y in data(ours)] == pytest.approx(expected)
    assert [line.get_xdata()[0] for line in cost.lines[2:]] == [1_001, 3_001, 5_001]  # type: ignore[index]
    stood = [c.get_segments()[0][:, 0].tolist() for c in spans.collections]  # type: ignore[attr-defined]
    assert stood == [[3_001, 9_000], [1_001, 5_000]]
    assert [tick.get_text() for tick in spans.get_yticklabels()] == ["A", "B"]
    said = figure_words(rendered("causes"))
    assert "What was published cost about 396; publishing nothing would have cost" in said
    assert (
        "about 1,330. A missed positive costs 1, a false alarm the odds of the rate to beat" in said
    )
    assert f"{OLD}, dropped: rounds 1,001 to 5,000." in said


def test_several_causes_head_the_report_whole_and_in_the_order_of_the_list() -> None:
    causes = [cause(f"a value that is long enough to be cut {n}", "SE") for n in range(6)]
    counts = [300, 900, 600, 100, 500, 800]
    window = Window(2, 9_000, tuple(causes), (*[1_000] * 6, 9_000), (*counts, 90), 20.0)
    releases = [Release(1, NEVER), Release(2, any_of(causes))]
    found = summarize_causes(releases, evidence_of([window], causes))
    page = Page(render_report(replace(CAUSES, releases=releases, causes=found)))
    ordered = [str(causes[n]) for n in (1, 5, 2, 4, 0, 3)]
    assert [text for text in page.said("code") if text] == ordered
    assert [text for text in page.said("bdi") if text in ordered][-6:] == ordered
    assert "the causes changed last at round 2 of 9,000" in page.said("p")
    bars = plot_rates([one.bar for one in found])
    names = [text.get_text() for text in bars.texts][::2]
    assert [name[:40] for name in names] == [name[:40] for name in ordered]


def test_how_rates_went_is_drawn_with_letters_and_said_in_words() -> None:
    shown = Page(rendered("over time"))
    assert "Over time " in shown.said("h2")
    said = " ".join(" ".join(shown.said("li")).split())
    assert "40.0 % of about 400 events before round 2,001 (2026-07-12 02:00), 4.8 % since" in said
    assert said.count("the rate came down") == 2
    assert "Over time " not in Page(rendered("causes")).said("h2")
    for case, letters in (("over time", {"A", "B"}), ("hostile over time", {"A", "B"})):
        texts = Page(inline_svg(over_time_figure(CASES[case]), "rates")).said("text")
        ours = re.compile(r"[AB]|\d+ %|\d\d:\d\d|time|2026-\w+-\d+")
        assert all(ours.fullmatch(text) for text in texts), "no text from the data is drawn"
        assert letters <= {*texts}


def test_no_cause_is_said_in_words() -> None:
    page = Page(rendered("no cause"))
    assert page.said("code") == ["no cause was published"]
    said = " ".join(page.said("p"))
    assert "Nothing was published in 9,000 rounds. No draw found enough. What to try: more." in said
    assert "cost about" not in said, "publishing nothing beside publishing nothing"
    assert "since round" not in said
    assert len(run_figure(CASES["no cause"]).axes[0].lines) == 1
    assert "The causes " not in page.said("h2")
    dropped = [Release(1, NEVER), Release(5, any_of([OLD])), Release(90, NEVER)]
    gone = replace(CAUSES, releases=dropped, causes=summarize_causes(dropped, []))
    page = Page(render_report(gone))
    assert page.said("code")[0] == "no cause stands now"
    said = " ".join(page.said("p"))
    assert "dropped: rounds 5 to 89. No counts were released while it stood." in said


def test_a_rule_is_named_with_its_label() -> None:
    page = Page(render_report(replace(RUN, label="fraud")))
    assert " when" in page.said("span")
    assert "fraud" in page.said("bdi")
    assert ":" in Page(
        render_report(replace(RUN, label="fraud", releases=[Release(1, NEVER)]))
    ).said("span")


def test_a_cause_that_comes_back_has_both_spans_and_dropped_ones_are_few() -> None:
    one = any_of([OLD])
    releases = [Release(1, NEVER), Release(5, one), Release(9, NEVER), Release(20, one)]
    (found,) = summarize_causes(releases, [])
    assert found.spans == ((5, 8), (20, None))
    assert found.standing
    many = CASES["many causes"].causes or ()
    assert [one.standing for one in many] == [True, *[False] * 40]
    assert many[1].spans == ((8_801, 8_900),), "the last one that was dropped comes first"


def test_costs_are_never_below_nothing() -> None:
    windows = [Window(1, 9, (), (9,), (-4,), 2.0), Window(10, 20, (), (9,), (7,), 2.0)]
    assert costs_of(windows) == [
        CostSample(0, 0, 0), CostSample(9, 0, 0), CostSample(20, 3, 3)
    ]  # fmt: skip


def test_a_learner_of_causes_plots_its_evidence_in_public_and_its_mistakes_in_private() -> None:
    draw = np.random.default_rng(5)
    versions = draw.choice(["4.$2$.1", "4.2.0", "4.3.0"], 30_000)
    failed = draw.random(30_000) < np.where(versions == "4.$2$.1", 0.5, 0.05)
    learner = ls.PrivateCauses(
        ls.Causes(["version"]), 1, 1e-7, 30_000, min_rate=0.2, noise=SeededNoise(2)
    )
    assert "no cause is published" in [text.get_text() for text in learner.plot().texts]
    learner.learn_many({"version": versions}, failed)
    (entry,) = learner.evidence
    ax = learner.plot()
    assert isinstance(ax, Axes)
    assert "PRIVATE" not in ax.get_title("left")
    assert [float(bar.get_width()) for bar in ax.patches] == [  # type: ignore[attr-defined]
        entry.estimate.rate, entry.base.rate
    ]  # fmt: skip
    (whisker,) = ax.containers[1].lines[2]  # type: ignore[attr-defined]
    assert whisker.get_segments()[0][:, 0].tolist() == pytest.approx(
        [entry.estimate.low, entry.estimate.high]
    )
    name, said = ax.texts
    assert name.get_text() == "version = '4.$2$.1'"
    assert not name.get_parse_math(), "a dollar is a dollar"
    assert f"{entry.estimate.counted} events" in said.get_text()
    given = plot_mistakes([(1, 0)], [])
    assert learner.plot(given) is given
    private = learner.plot_private()
    assert "PRIVATE" in private.get_title()
    points = {int(at): height for at, height in data(private.lines[0])}
    assert points[30_000] == round(learner.cost) < learner.mistakes
    assert private.get_ylabel() == "cost, in missed positives"
    (_, (found, _)) = learner.releases
    before, after = points[found - 1] / found, (points[30_000] - points[found - 1]) / 30_000
    assert after < 0.8 * before, "a right cause makes the curve flatter"


def test_the_report_of_a_learner_of_causes_has_its_evidence() -> None:
    task = LearnRequest(
        spec="causes:version", label="failed", epsilon=1, delta=1e-7, horizon=9_000, min_rate=0.2
    )
    chosen = choose_learner(task, 9_000)
    learner = chosen.make(ls.Causes(["version"]), None, watched=True, noise=SeededNoise(3))
    assert isinstance(learner, ls.PrivateCauses)
    draw = np.random.default_rng(6)
    versions = draw.choice(["4.2.1", "4.2.0", "4.3.0"], 9_000)
    failed = draw.random(9_000) < np.where(versions == "4.2.1", 0.5, 0.05)
    learner.learn_many({"version": versions}, failed)
    report = report_of(RunResult(task, Run(begin(task, chosen), learner, ""), 9_000))
    assert (report.label, report.missed) == ("failed", learner.missed)
    assert report.rate_to_beat == learner.rate_to_beat
    assert report.why == [learner.plan.rate_in_words(report.rate_to_beat, None)]
    (found,) = report.causes or ()
    assert found.evidence == learner.evidence[0]
    assert report.costs[-1].round == learner.windows[-1].stop
    assert report.costs[-1].published < report.costs[-1].nothing
    assert f"{found.evidence.estimate.counted} events" in render_report(report)


def test_a_learner_and_a_transcript_plot_their_mistakes_and_say_private() -> None:
    learner = ls.DPSOA(ls.Points(), 4, 1e-6, 1_000, seed=1, noise=SeededNoise(1))
    game = play(learner, value_column(7, 1_000, 0.3), 1_000)
    assert game.mistakes
    for ax in (learner.plot(), game.plot()):
        assert isinstance(ax, Axes)
        assert data(ax.lines[0])[-1] == [1_000, game.mistakes]
        changes = [line.get_xdata()[0] for line in ax.lines[1:]]  # type: ignore[index]
        assert changes == [release.round for release in game.releases[1:]] != []
        assert "PRIVATE" in ax.get_title()
    given = plot_mistakes([(1, 0), (2_000, 3)], [])
    assert learner.plot(given) is given
    assert given.get_xlim() == (0, 2_000), "a second curve does not cut the first"
