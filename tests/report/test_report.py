"""The private report: it says that it is private, stays alone, and shows hostile text as text."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littlestone.display import VOID, clipped, columns, element, visible
from littlestone.hypotheses.base import ALWAYS, NEVER, Hypothesis
from littlestone.hypotheses.kinds import one_of
from littlestone.learners.base import Release
from littlestone.learners.trace import TOP, Sample
from littlestone.report.html import (
    CEILING,
    LEFT,
    RIGHT,
    ROWS,
    RULE_COLOURS,
    Axis,
    Plane,
    Report,
    TimelineLabel,
    placed,
    render_report,
    rule_colours,
    shortened,
    stacked,
    thinned,
    ticks,
    votes_chart,
)

HOSTILE = (
    "</title><script>alert('1')</script>\"><img src=x onerror=y>&amp;\n\x00\x1b\u202eevil\ud800"
)
TAGS = re.compile(
    "html|head|meta|title|style|body|aside|p|strong|main|header|h1|h2|span|code|dl|div|dt|dd|small"
    "|section|input|label|figure|figcaption|svg|desc|line|text|path|circle|rect|g|ul|li|i|bdi"
    "|details|summary|table|thead|tbody|tr|th|td"
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
        if tag not in VOID:
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
    names = {name for _, attributes in page.found for name in attributes}
    assert not {name for name in names if name.startswith(("on", "src", "href", "xlink", "style"))}
    markup = re.sub(r">[^<]*<", "><", written)
    for outside in ("http://", "https://", "url(", "@import", "//"):
        assert outside not in markup
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


def test_a_long_rule_is_cut_in_pictures_and_whole_in_the_table() -> None:
    long = one_of(["x" * 1_500], "column")
    report = replace(RUN, releases=[Release(1, long)])
    page = Page(render_report(report))
    assert clipped(str(long), 30) in page.said("text")
    assert f"From round 1: {long}" in page.said("title")
    assert str(long) in page.said("bdi")


@given(st.text(st.characters(), min_size=1, max_size=60))
def test_any_text_is_shown_as_text(text: str) -> None:
    hostile = one_of([text], text)
    page = Page(
        render_report(
            replace(
                RUN,
                title=text,
                notes=[text],
                releases=[Release(1, hostile)],
                samples=[Sample(9, 1, ((hostile, 3),))],
                provenance={text: text},
            )
        )
    )
    assert all(TAGS.fullmatch(tag) for tag, _ in page.found)
    assert visible(text) in page.said("p")
    assert page.said("bdi").count(visible(text)) >= 2
    assert visible(str(hostile)) in page.said("bdi")
    assert page.said("title")[0] == f"PRIVATE: {visible(text)}, a littlestone report"


def test_what_does_not_print_is_made_visible() -> None:
    assert visible("a\x00\n\x7f\u202e\ud800") == "a␀␊\\x7f\\u202e\\ud800"
    assert "\n" not in element("td", "one\ntwo", title="three\nfour")


@given(st.text(max_size=60), st.integers(2, 40))
def test_a_clipped_text_has_the_room_it_was_given(text: str, room: int) -> None:
    cut = clipped(text, room)
    assert columns(cut) <= room
    assert cut == visible(text) or cut.endswith("…")


@every_case
def test_pictures_speak_to_those_who_cannot_see_them(report: Report) -> None:
    page = Page(render_report(report))
    named = {
        a["id"]: text for (_, a), text in zip(page.found, page.texts, strict=True) if "id" in a
    }
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert named[svg["aria-labelledby"]]
        assert named[svg["aria-describedby"]].endswith(".")


def test_the_words_give_the_numbers() -> None:
    said = Page(render_report(RUN)).said("desc")
    assert "120 mistakes in 400,000 rounds; 120 of them by round 400,000." in said
    assert (
        "Of 300 trees after round 400,000: 180 for merchant = 'M-2', 20 for merchant = 'M-1',"
        " 100 no vote." in said
    )
    assert any(text.startswith("3 published: never from round 1; ") for text in said)


def test_two_axes_and_a_switch() -> None:
    page = Page(render_report(RUN))
    assert len(page.all("svg", "log")) == len(page.all("svg", "linear")) == 3
    switch = page.all("input")
    assert {button["id"] for button in switch} == {"log", "linear"}
    assert len({button["name"] for button in switch}) == 1
    assert [label["for"] for label in page.all("label")] == [button["id"] for button in switch]


@every_case
def test_the_pictures_share_the_axis(report: Report) -> None:
    drawn = re.findall(r"<svg.*?</svg>", render_report(report))
    for name in ("log", "linear"):
        pages = [Page(svg) for svg in drawn if f'class="{name}"' in svg]
        axes = {tuple(tick["x"] for tick in page.all("text", "tick")) for page in pages}
        widths = {page.all("svg")[0]["viewbox"].split()[2] for page in pages}
        assert len(axes) == len(widths) == bool(report.rounds)


@every_case
def test_nothing_is_drawn_outside_its_plane(report: Report) -> None:
    for svg in re.findall(r"<svg.*?</svg>", render_report(report)):
        page = Page(svg)
        base = float(page.all("svg")[0]["viewbox"].split()[3])
        for shape in page.all("path"):
            xs, ys = corners(shape["d"])
            assert all(LEFT <= x <= RIGHT for x in xs)
            assert all(CEILING <= y < base for y in ys)
        for band in page.all("rect"):
            assert float(band["x"]) >= LEFT
            assert float(band["x"]) + float(band["width"]) <= RIGHT
            assert float(band["width"]) > 0


def corners(path: str) -> tuple[list[float], list[float]]:
    xs = re.findall(r"[MH]([-\d.]+)", path)
    ys = re.findall(r"(?:V|M[-\d.]+ )([-\d.]+)", path)
    return [float(x) for x in xs], [float(y) for y in ys]


Votes = tuple[tuple[Hypothesis, int], ...]
votes = st.lists(st.tuples(st.integers(0, 9).map(rule), st.integers(0, 40)), max_size=TOP)


@given(st.lists(votes.map(lambda v: tuple(dict(v).items())), min_size=1, max_size=20))
def test_stacks_rise_to_the_number_of_votes_and_no_higher(cast: list[Votes]) -> None:
    samples = [Sample(10 * n, n, listed) for n, listed in enumerate(cast)]
    palette = rule_colours([Release(1, NEVER)], samples)
    trees = TOP * 40
    for sample in samples:
        stack = stacked(sample, palette)
        assert stack == sorted(stack)
        assert stack[-1] == sum(count for _, count in sample.votes)
    svg = Page(votes_chart(Axis(1_000, False), samples, [], trees, palette))
    assert all(y >= CEILING for path in svg.all("path") for y in corners(path["d"])[1])


def test_votes_beyond_the_trees_are_refused() -> None:
    with pytest.raises(ValueError, match=r"19 trees cannot have cast the 22 votes.*round 500"):
        replace(RUN, trees=19)


def test_a_report_does_not_print() -> None:
    assert repr(RUN) == "Report(private)"


def test_the_standing_rule_and_the_published_ones_get_the_colours() -> None:
    palette = rule_colours(RUN.releases, RUN.samples)
    assert list(palette) == [rule(2), rule(1), NEVER, rule(3)]
    many = CASES["many samples"]
    assert len(rule_colours(many.releases, many.samples)) == RULE_COLOURS


def test_silence_is_not_claimed_when_a_sample_may_leave_rules_out() -> None:
    assert "no vote" in Page(render_report(RUN)).said("li")
    full = Sample(400_000, 1, tuple((rule(n), 1) for n in range(TOP)))
    said = Page(render_report(replace(RUN, samples=[full]))).said("li")
    assert f"no vote, or for a rule not among the first {TOP}" in said
    assert "no vote" not in said


def test_few_votes_are_drawn_large_and_the_caption_says_so() -> None:
    few = replace(RUN, samples=[Sample(9, 1, ((rule(1), 26),))])
    assert "Votes of 300 trees, drawn up to 26" in Page(render_report(few)).said("figcaption")
    assert "Votes of 300 trees" in Page(render_report(RUN)).said("figcaption")


def test_a_short_peak_is_seen() -> None:
    """The votes of an epoch that is narrower than a column of the picture."""
    samples = [Sample(200_000 + n, n, ((ALWAYS, n),)) for n in range(27)]
    shown = thinned([Sample(1, 0, ()), *samples, Sample(200_030, 27, ())], Axis(400_000, False))
    (before, peak), (after, _) = shown[1:]
    assert peak.votes == ((ALWAYS, 26),)
    assert after - before >= 1


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.text(max_size=40)), min_size=1, max_size=40),
    st.booleans(),
)
def test_labels_and_their_lines_never_meet(chosen: list[tuple[int, str]], log: bool) -> None:
    releases = [Release(at, one_of([text])) for at, text in sorted(dict(chosen).items())]
    labels = placed(releases, Axis(10**6, log))
    assert labels
    for one, other in combinations(labels, 2):
        assert 0 <= one.row < ROWS
        assert not (one.row == other.row and one.left < other.right and other.left < one.right)
        assert not crossed(one, other)
        assert not crossed(other, one)


def test_the_labels_of_an_ordinary_run_all_fit() -> None:
    published = [NEVER, one_of(["4.2.1"], "version"), one_of(["Deutschland"], "country")]
    releases = list(map(Release, [1, 935, 60_971], published))
    releases.append(Release(212_962, one_of(["Pixel 9 Pro Fold"], "device")))
    assert len(placed(releases, Axis(400_000, log=True))) == 4


def crossed(high: TimelineLabel, low: TimelineLabel) -> bool:
    return high.row > low.row and low.left < high.x < low.right


@pytest.mark.parametrize("log", [False, True])
def test_what_lies_beyond_the_axis_is_at_its_ends(log: bool) -> None:
    axis = Axis(100, log)
    assert (axis.x(0), axis.x(100), axis.x(101)) == (LEFT, RIGHT, RIGHT)
    assert axis.x(10) == (LEFT + RIGHT) / 2 if log else axis.x(50) == (LEFT + RIGHT) / 2


@given(st.integers(1, 10**13), st.booleans())
def test_ticks_are_few_and_inside(rounds: int, log: bool) -> None:
    axis = Axis(rounds, log)
    places = [axis.x(tick) for tick in axis.ticks()]
    assert places == sorted(set(places))
    assert 2 <= len(places) <= 12
    assert places[0] >= LEFT
    assert places[-1] <= RIGHT
    assert all(right - left > 30 for left, right in pairwise(places))


@given(st.integers(1, 10**12))
def test_levels_rise_from_zero_to_the_top(top: int) -> None:
    levels = Plane(Axis(10, False), top).levels()
    assert levels[0] == 0
    assert levels[-1] == top
    assert levels == sorted(set(levels))
    assert len(levels) <= 7
    assert len(set(shortened(ticks(top, 5)))) == len(ticks(top, 5))
