"""The private report: it says that it is private, stays alone, and shows hostile text as text."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes

import littlestone as ls
from littlestone.display import clipped, columns, environment, visible
from littlestone.hypotheses.rules import NEVER, Hypothesis, one_of
from littlestone.learners.base import Release
from littlestone.learners.trace import TOP, Sample
from littlestone.plots import COLOURS, inline_svg, plot_mistakes, svg_file
from littlestone.privacy.testing import SeededNoise
from littlestone.report.report import Report, lettered_rules, render_report, run_figure
from littlestone.simulate.games import play
from littlestone.simulate.streams import value_column

HOSTILE = (
    "</title><script>alert('1')</script>\"><img src=x onerror=y>&amp;\n\x00\x1b\u202eevil\ud800"
)
TAGS = re.compile(
    "html|head|meta|title|style|body|aside|p|strong|main|header|h1|h2|span|code|dl|div|dt|dd|small"
    "|section|figure|figcaption|svg|defs|clippath|text|path|rect|use|g|ul|li|i|bdi|details|summary"
    "|table|thead|tbody|tr|th|td"
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
)
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
every_case = pytest.mark.parametrize("report", CASES.values(), ids=CASES.keys())


@every_case
def test_every_report_is_well_formed_private_and_alone(report: Report) -> None:
    written = render_report(report)
    page = Page(written)
    assert all(TAGS.fullmatch(tag) for tag, _ in page.found)
    assert page.said("title")[0].startswith("PRIVATE: ")
    assert len(written.encode("utf-8")) < 1_000_000
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
    page = Page(render_report(RUN))
    tags = [tag for tag, _ in page.found]
    assert tags.index("aside") == tags.index("body") + 1
    said = " ".join(page.said("strong") + page.said("p"))
    assert "Private. Not for publication." in said
    assert "only the releases are public" in said
    assert "rounds from which they stood" in said
    assert "tune after reading this page" in said
    assert "a second run on the same data: its epsilon adds" in said


def test_the_headline() -> None:
    page = Page(render_report(RUN))
    assert page.said("code") == [str(rule(2))]
    assert "The published rule, since round 212,962" in page.said("span")
    assert page.said("dd") == ["120", "400,000", "399,998", "3", "2"]
    assert RUN.guarantee in page.said("p")
    assert RUN.notes[0] in page.said("p")


def test_mistakes_that_were_not_seen_are_not_claimed() -> None:
    assert "120 by round 400,000" in Page(render_report(replace(RUN, rounds=500_000))).said("dd")
    assert "not recorded" in Page(render_report(replace(RUN, samples=[]))).said("dd")


def test_the_tables_hold_everything() -> None:
    cells = Page(render_report(RUN)).said("bdi")
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
        patch.setattr("littlestone.report.report.inline_svg", lambda figure, name: "")
        patch.setattr("littlestone.report.report.run_figure", lambda report: None)
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
    )
    for case in ("hostile", "many samples"):
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


def figure_words(report: Report) -> str:
    (shown,) = [a for a in Page(render_report(report)).all("div") if a.get("role") == "img"]
    return shown["aria-label"]


def test_the_words_give_the_numbers() -> None:
    said = figure_words(RUN)
    assert "120 mistakes in 400,000 rounds; 120 of them by round 400,000." in said
    assert (
        "Of 300 trees after round 400,000: 180 for merchant = 'M-2', 20 for merchant = 'M-1',"
        " 100 no vote." in said
    )
    assert "3 published: never from round 1; " in said


def test_silence_is_not_claimed_when_a_sample_may_leave_rules_out() -> None:
    full = Sample(400_000, 1, tuple((rule(n), 1) for n in range(TOP)))
    said = figure_words(replace(RUN, samples=[full]))
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
def test_every_curve_is_inside_its_axes(report: Report) -> None:
    if not report.rounds:
        return
    for ax in run_figure(report).axes:
        bottom, top = sorted(ax.get_ylim())
        for line in ax.lines[:1] if "Mistakes" in ax.get_title("left") else ax.lines:
            assert all(0 <= x <= report.rounds and bottom <= y <= top for x, y in data(line))


@every_case
def test_the_figure_follows_light_and_dark(report: Report) -> None:
    for svg in re.findall(r"<svg.*?</svg>", render_report(report), re.DOTALL):
        assert not re.search(r"#[0-9a-f]{6}[^0-9a-z]", svg), "a colour that stays in the dark"
        assert "var(--" in svg


def test_a_figure_is_the_same_every_time_and_names_no_address() -> None:
    assert render_report(RUN) == render_report(RUN)
    figure = run_figure(RUN)
    assert "<title>a &lt;b&gt;␊</title>" in svg_file(figure, "run", "a <b>\n")
    assert "http" not in inline_svg(figure, "run")


def test_votes_beyond_the_trees_are_refused() -> None:
    with pytest.raises(ValueError, match=r"19 trees cannot have cast the 22 votes.*round 500"):
        replace(RUN, trees=19)


def test_a_report_does_not_print() -> None:
    assert repr(RUN) == "Report(private)"


def test_the_standing_rule_and_the_published_ones_get_the_colours() -> None:
    letters = lettered_rules(RUN.releases, RUN.samples)
    assert letters == {rule(2): "A", rule(1): "B", NEVER: "C", rule(3): "D"}
    many = CASES["many samples"]
    assert len(lettered_rules(many.releases, many.samples)) == len(COLOURS)
    assert "all other rules" in Page(render_report(many)).said("li")
    assert "all other rules" not in Page(render_report(RUN)).said("li")


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
