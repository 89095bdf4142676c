"""The page in a real browser: it is filled, it is live, and it shows what is private to nobody
without the token. Needs Chromium on the machine."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from axe import needs_axe, violations
from incidents import CAUSE, CAUSES, evidence_of, incident, with_evidence
from littlestone._plots import multiple
from littlestone._service.limits import Limits
from littlestone._service.routes import load_page
from running_service import CULPRIT, TOKENS, Running, events, running

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "run.db") as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that may not complain."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    found = context.new_page()
    complaints: list[str] = []
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on(
        "console",
        lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None,
    )
    found.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    yield found
    context.close()
    assert [line for line in complaints if "Failed to load resource" not in line] == []


@needs_chromium
def test_it_is_filled_and_then_live(served: Running, page: Page, tmp_path: Path) -> None:
    served.feed(events(40))
    page.goto(served.url)
    expect(page.locator("#status")).to_have_text("live")
    expect(page.get_by_role("heading", level=1)).to_have_text("fraud: never")
    expect(page.locator("#stood")).to_contain_text("40 rounds")
    served.feed(events(2))
    expect(page.locator("#stood")).to_contain_text("42 rounds")
    sentence = served.feed_until_found()
    expect(page.locator("#rule")).to_have_text(sentence)
    expect(page.locator("#said")).to_contain_text(sentence)  # a screen reader says it
    expect(page.locator("#releases li")).to_have_count(2)
    expect(page.locator("#words li").first).to_contain_text("What is protected: Each single event")
    expect(page.locator("#epsilon")).to_have_text("1")
    rounds = served.get("/hypothesis").json()["rounds"]
    expect(page.locator("#left")).to_have_text(f"{1_000_000 - rounds:,}")
    expect(page.locator("#left-of")).to_have_text("rounds left of the 1,000,000 planned for")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 10_000


@needs_chromium
def test_the_heading_says_which_value_is_positive(page: Page, tmp_path: Path) -> None:
    task = replace(CAUSES, label="outcome", positive=["lost"])
    with running(tmp_path / "run.db", task=task) as served:
        page.goto(served.url)
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("outcome is 'lost':")
        for seed in range(12):
            rows = incident(1000, seed)
            for row in rows:
                row["outcome"] = "lost" if row.pop("failed") else "ok"
            served.feed(rows)
        expect(heading).to_contain_text("outcome is 'lost' when")


@needs_chromium
def test_what_is_private_is_shown_for_the_token_only(served: Running, page: Page) -> None:
    served.feed_until_found()
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request))
    page.goto(served.url)
    expect(page.locator("#rule")).to_contain_text(CULPRIT)
    expect(page.locator("#private")).to_be_hidden()
    assert not [request for request in asked if "private" in request.url]
    inside = served.get("/private/trace", "operator").json()
    # Not the minute of a time that the page shows, nor a part of a larger number, nor a percentage.
    alone = rf"(?<![\d,.:]){inside['mistakes']:,}(?![\d,:]|\s?%)"
    assert not re.search(alone, page.locator("body").inner_text())
    assert page.locator("#figures").inner_text() == ""

    page.fill("#token", TOKENS["feeder"])
    page.keyboard.press("Enter")
    expect(page.locator("#wrong")).to_contain_text("not the operator's")
    expect(page.locator("#private")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0

    page.fill("#token", TOKENS["operator"])
    page.keyboard.press("Enter")
    expect(page.locator("#figures")).to_contain_text(f"{inside['mistakes']:,}")
    expect(page.locator("#votes")).not_to_be_empty()
    expect(page.locator("#ledger tr")).to_have_count(len(inside["ledger"]))
    assert all(TOKENS["operator"] not in request.url for request in asked)
    assert page.evaluate("Object.values(localStorage).join()").find(TOKENS["operator"]) < 0

    page.reload()  # the tab remembers
    expect(page.locator("#figures")).to_contain_text(f"{inside['mistakes']:,}")
    page.get_by_role("button", name="forget").click()
    expect(page.locator("#private")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0
    assert page.locator("#figures").inner_text() == ""


@needs_chromium
def test_it_says_when_it_lost_the_connection_and_finds_it_again(page: Page, tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served:
        served.feed(events(7))
        page.goto(served.url)
        expect(page.locator("#stood")).to_contain_text("7 rounds")
        port = int(served.url.rpartition(":")[2])
    expect(page.locator("#status")).to_contain_text("connection lost")
    with running(tmp_path / "run.db", port=port) as served:
        expect(page.locator("#status")).to_have_text("live")
        served.feed(events(3))
        expect(page.locator("#stood")).to_contain_text("10 rounds")


@needs_chromium
def test_it_is_filled_and_live_where_no_stream_is_to_be_had(page: Page, tmp_path: Path) -> None:
    limits = Limits(watchers=1, rate=1e6)
    with running(tmp_path / "run.db", limits=limits) as served, served.watching() as found:
        next(found)
        page.goto(served.url)
        expect(page.locator("#status")).to_have_text("live")
        served.feed(events(7))
        expect(page.locator("#stood")).to_contain_text("7 rounds")


@needs_chromium
@pytest.mark.parametrize("locks", [True, False], ids=["with locks", "without"])
def test_many_tabs_are_live_at_once(browser: Browser, served: Running, locks: bool) -> None:
    """A browser has six connections to a server; without TLS, from afar, it has no locks."""
    context = browser.new_context()
    context.set_default_timeout(60_000)
    if not locks:
        context.add_init_script("Object.defineProperty(navigator, 'locks', {value: undefined})")
    tabs = [context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.goto(served.url)
        expect(tab.locator("#status")).to_have_text("live")
    served.feed(events(3))
    for tab in tabs:
        expect(tab.locator("#stood")).to_contain_text("3 rounds")
    if locks:
        assert served.service.watchers.taken == 1
    tabs.pop(0).close()  # the one that listened for the others
    served.feed(events(2))
    for tab in tabs:
        expect(tab.locator("#stood")).to_contain_text("5 rounds")
    context.close()


@needs_chromium
def test_a_page_is_a_witness_against_an_old_copy(page: Page, tmp_path: Path) -> None:
    path, copy = tmp_path / "run.db", tmp_path / "copy.db"
    with running(path) as served:
        served.feed(events(7))
    shutil.copy(path, copy)
    with running(path) as served:
        served.feed(events(7))
        page.goto(served.url)
        expect(page.locator("#stood")).to_contain_text("14 rounds")
        port = int(served.url.rpartition(":")[2])
    shutil.copy(copy, path)
    with running(path, port=port) as served:
        expect(page.locator("#status")).to_contain_text("old copy")
        assert served.feed(events(1)).status_code == 503


@needs_chromium
def test_text_of_the_data_is_text(served: Running, page: Page) -> None:
    rows = [{"merchant": HOSTILE if n % 2 else "x", "fraud": n % 2} for n in range(4000)]
    while HOSTILE[:4] not in served.get("/hypothesis").json()["sentence"]:
        assert served.feed(rows).status_code == 200
    page.goto(served.url)
    expect(page.locator("#rule")).to_contain_text("<img src=x onerror=alert(1)>")
    assert "\u202e" not in page.locator("body").inner_text()
    assert page.locator("img").count() == 0


def test_a_browser_may_run_this_script_and_no_other() -> None:
    text, policy = load_page()
    assert "'unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", text)
    assert not re.search(r"\son\w+=|\sstyle=", text)
    script = text.split("<script>")[1].split("</script>")[0]
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert len(re.findall("<h1", text)) == 1


# Causes.

BARS = """
item => [...item.querySelectorAll('rect.rate')].map(bar => Number(bar.getAttribute('width')))
"""

COSTS = """
Object.fromEntries(['ours', 'nothing'].map(kind => [kind, document.querySelector(`#costs .${kind}`)
    .getAttribute('d').split(' L').at(-1).split(',').map(Number)]))
"""
"""Where the curves of costs end."""


@pytest.fixture
def incidents(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "causes.db", task=CAUSES) as found:
        yield found


def percent(rate: float) -> str:
    return f"{100 * rate:.1f}\u00a0%"


@needs_chromium
def test_causes_come_live_with_their_evidence(incidents: Running, page: Page) -> None:
    page.goto(incidents.url)
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("failed: no cause is published")
    expect(page.locator("#scale")).to_contain_text("A cause has to beat a rate of 20.0%, the")
    expect(page.locator("#causes")).to_be_hidden()
    found = with_evidence(incidents)
    item = page.locator("#causes > li")
    expect(item).to_have_count(1)
    expect(heading).to_have_text(f"failed when {CAUSE}")  # for a screen reader, and in the title
    expect(page).to_have_title(f"failed when {CAUSE} · littlestone")
    expect(page.locator("#said")).to_contain_text(f"failed when {CAUSE}")
    expect(item.locator(".cause")).to_have_text(CAUSE)
    expect(item.locator(".facts")).to_contain_text(
        f"{percent(found['rate'])} of about {found['events']:,} ± "
        f"{found['events_high'] - found['events']:,} events"
    )
    expect(item).to_contain_text(f"{percent(found['low'])} to {percent(found['high'])}")
    expect(item).to_contain_text(f"{multiple(found['lift'])} times the rate of others")
    expect(item).to_contain_text(f"since round {found['since']:,}")
    rate, base = item.evaluate(BARS)
    assert rate / base == pytest.approx(found["rate"] / found["base_rate"], rel=0.02)
    lefts = (
        "item => [...item.querySelectorAll('.rates svg')].map(bar => bar.getBoundingClientRect().x)"
    )
    for _ in range(2):
        assert len(set(item.evaluate(lefts))) == 1, "bars begin at one line, with a lift or without"
        page.evaluate("document.querySelectorAll('.lift').forEach(lift => lift.remove())")
    path = item.locator(".whisker").get_attribute("d")
    assert path is not None
    low, high = (float(number) for number in re.findall(r"M([\d.]+),5", path))
    assert low < rate < high
    assert high / rate == pytest.approx(found["high"] / found["rate"], rel=0.01)
    assert item.locator("svg:not([aria-hidden=true])").count() == 0
    expect(page.locator("#timeline li")).to_have_count(1)
    expect(page.locator("#timeline")).to_contain_text(f"rounds {found['since']:,} to now")
    expect(page.locator("#releases li").first).to_contain_text(f"added {CAUSE}")
    expect(page.locator("#band")).to_be_hidden()
    incidents.feed(incident(8000, 99))  # longer than any window: the next counts come by themselves
    later = evidence_of(incidents)
    assert later["counted_to"] > found["counted_to"]
    expect(item.locator(".facts")).to_contain_text(f"about {later['causes'][0]['events']:,} ± ")
    (went,), (line,) = later["over_time"]["lines"], [page.locator("#rates li")]
    expect(line).to_have_count(1)
    expect(line).to_contain_text(went["words"])
    expect(line.locator("rect.between")).to_have_count(len(went["points"]))
    told = [point for point in went["points"] if point[2] is not None]
    drawn = re.findall(r"[V,]([\d.]+) H([\d.]+)", line.locator(".ours").get_attribute("d") or "")
    top = later["over_time"]["top"]
    assert [float(x) for _, x in drawn] == [point[1] for point in told]
    assert [(78 - float(y)) / 76 * top for y, _ in drawn] == pytest.approx(
        [min(point[2], top) for point in told], abs=0.01
    )
    expect(page.locator("#rates-to")).to_have_text(later["over_time"]["to"])
    _, ours, nothing = later["costs"][-1]
    assert ours < nothing
    expect(page.locator("#ours")).to_have_text(f"about {ours + 1e-9:,.0f}")
    expect(page.locator("#nothing")).to_have_text(f"about {nothing + 1e-9:,.0f}")
    ends = page.evaluate(COSTS)
    total = incidents.get("/guarantee").json()["rounds"]
    assert ends["ours"][0] == ends["nothing"][0]
    assert ends["ours"][0] == pytest.approx(1000 * later["counted_to"] / total, abs=0.2)
    assert (138 - ends["ours"][1]) / (138 - ends["nothing"][1]) == pytest.approx(
        ours / nothing, abs=0.01
    )


@needs_chromium
def test_a_dropped_cause_is_in_the_timeline_and_not_in_the_list(
    incidents: Running, page: Page
) -> None:
    with_evidence(incidents)
    for seed in range(30):
        if not incidents.get("/hypothesis").json()["causes"]:
            break
        assert incidents.feed(incident(1000, seed, rate=0.0)).status_code == 200
    (found,) = evidence_of(incidents)["causes"]
    assert not found["standing"]
    assert incidents.get("/hypothesis").json()["causes"] == [], "those that stand"
    page.goto(incidents.url)
    expect(page.locator("#rule")).to_have_text("no cause stands now")
    expect(page.locator("#causes")).to_be_hidden()
    expect(page.locator("#timeline .gone")).to_contain_text(
        f"dropped: rounds {found['since']:,} to {found['until']:,}"
    )
    expect(page.locator("#releases li").first).to_contain_text(f"dropped {CAUSE}")
    total = incidents.get("/guarantee").json()["rounds"]
    drawn = page.locator("#timeline .gone rect.stood")
    start, width = (float(drawn.get_attribute(name) or "") for name in ("x", "width"))
    assert start == pytest.approx(1000 * (found["since"] - 1) / total, abs=0.2)
    assert start + width == pytest.approx(1000 * found["until"] / total, abs=0.2)


@needs_chromium
def test_a_stream_that_ended_without_a_cause_says_so_and_why(page: Page, tmp_path: Path) -> None:
    with running(tmp_path / "run.db", task=replace(CAUSES, horizon=4000)) as served:
        served.feed(incident(2000, 1, rate=0.05))
        page.goto(served.url)
        expect(page.locator("#status")).to_have_text("live")
        expect(page.get_by_role("heading", level=1)).to_have_text("failed: no cause is published")
        served.feed(incident(2100, 2, rate=0.05))
        expect(page.locator("#status")).to_have_text("ended: all planned rounds have passed")
        expect(page.locator("#status")).not_to_have_class(re.compile("live"))
        expect(page.get_by_role("heading", level=1)).to_have_text("failed: no cause was published")
        for said in ("No draw found a cause with enough positives.", "What to try: more rows"):
            expect(page.locator("#scale")).to_contain_text(said)
        expect(page.locator("#stood")).to_contain_text("4,100 rounds: all that were planned")
        for word in ("so far", "never"):
            expect(page.locator(".first")).not_to_contain_text(re.compile(rf"\b{word}\b"))
        expect(page.locator("#axis")).to_be_hidden()


@needs_chromium
def test_causes_fit_every_screen_and_hostile_ones_are_text(
    browser: Browser, tmp_path: Path
) -> None:
    hostile = HOSTILE + "x" * 80
    with running(tmp_path / "run.db", task=CAUSES) as served:
        with_evidence(served, bad=hostile)
        for width in (390, 1280):
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": 844}, color_scheme=scheme
                )
                page = context.new_page()
                page.goto(served.url)
                expect(page.locator("#causes > li .cause")).to_contain_text("onerror=alert(1)>")
                assert "\u202e" not in page.locator("body").inner_text()
                assert page.locator("img").count() == 0
                assert page.evaluate("document.documentElement.scrollWidth") == width
                fill = page.evaluate(
                    "getComputedStyle(document.querySelector('#causes rect.rate')).fill"
                )
                assert fill == {"light": "rgb(68, 119, 170)", "dark": "rgb(91, 143, 196)"}[scheme]
                inside = page.evaluate(
                    "[...document.querySelectorAll('.rates b, .facts, .cause')].every(part => "
                    f"part.getBoundingClientRect().right <= {width})"
                )
                assert inside, "nothing is cut"
                context.close()


@needs_chromium
def test_what_has_not_changed_is_not_replaced(incidents: Running, page: Page) -> None:
    """A selection, a focus and a screen reader's place stay where they are."""
    with_evidence(incidents)
    page.goto(incidents.url)
    expect(page.locator("#causes > li .cause")).to_be_visible()
    # The stream of events has opened, and its refresh is done.
    page.evaluate("refresh()")
    page.evaluate(
        "document.querySelectorAll('#causes > li, #releases > li').forEach(n => n.old = 1)"
    )
    page.evaluate("refresh()")
    kept = "[...document.querySelectorAll('#causes > li, #releases > li')].every(n => n.old === 1)"
    assert page.evaluate(kept)


@needs_chromium
def test_other_learners_show_their_rule_with_the_label(served: Running, page: Page) -> None:
    sentence = served.feed_until_found()
    page.goto(served.url)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"fraud when {sentence}")
    expect(page.locator("#causes")).to_be_hidden()
    expect(page.locator("#timeline")).to_be_hidden()
    expect(page.locator("#band i")).to_have_count(2)
    expect(page.locator("#rule")).to_be_visible()


@needs_chromium
@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_keeps_the_guidelines_for_people_who_cannot_see_it(
    browser: Browser, incidents: Running, scheme: str
) -> None:
    with_evidence(incidents)
    for width in (390, 1280):
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(incidents.url)
        expect(page.locator("#causes > li .cause")).to_be_visible()
        expect(page.locator("#worth")).to_be_visible()
        assert violations(page) == []
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="To the rules so far")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#rules")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.type(TOKENS["operator"])
        page.keyboard.press("Enter")
        expect(page.locator("#ledger tr").first).to_be_visible()
        assert violations(page) == []
        beside = "box => box.scrollWidth - box.clientWidth"
        assert page.locator(".scroll").evaluate(beside) <= 1, "nothing is beside the screen"
        context.close()
