"""The report and the page of sliders in a real browser: whole on a telephone, in light and in dark,
and alone. Needs Chromium on the machine."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from test_report import rendered

from axe import needs_axe, violations
from commands import littlestone
from effort import scaled

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SHOWN = (
    "a run", "hostile", "many releases", "causes", "hostile causes", "no cause", "over time",
    "hostile over time",
)  # fmt: skip
CUT = """
[...document.querySelectorAll('svg')].filter(svg => svg.checkVisibility()).flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')]
        .map(text => [text.textContent, text.getBoundingClientRect()])
        .filter(([_, box]) => box.height < 8 || box.left < frame.left - 1
            || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
        .map(([text, _]) => text);
})
"""
"""The texts of figures that are cut, or too small to read."""

BESIDE = """
[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth + 1)
    .map(box => box.getAttribute('aria-label'))
"""
"""The tables of which a part is beside the screen."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    sliders = (Path(__file__).parents[2] / "docs" / "whatif.html").read_text("utf-8")
    return {name: rendered(name) for name in SHOWN} | {"what if": sliders}


def opened(context: BrowserContext, path: Path) -> tuple[Page, list[str]]:
    """Return a page of a file, and all that it asked for or complained of."""
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url))
    page.goto(path.as_uri())
    return page, said


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_whole_and_ask_for_nothing(
    browser: Browser, pages: dict[str, str], tmp_path: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    for name, text in pages.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        page, said = opened(context, path)
        assert said == [path.as_uri()], "it asked for more, or broke the policy"
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(CUT) == []
        if "hostile" not in name:
            assert page.evaluate(BESIDE) == []
        figures = page.locator("figure svg:visible")
        wide = page.locator("figure:visible").count()
        assert figures.count() == wide > 0, "one size of each figure"
        for at in range(wide):
            drawn_box = figures.nth(at).bounding_box()
            assert drawn_box is not None
            assert drawn_box["height"] > 100
        curves = page.locator("figure svg:visible path[style*='var(--c0)']")
        assert curves.count() > 0
        drawn = curves.first.evaluate("curve => getComputedStyle(curve).stroke")
        assert drawn == {"light": "rgb(68, 119, 170)", "dark": "rgb(91, 143, 196)"}[scheme]
    context.close()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@needs_axe
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_keep_the_guidelines_for_people_who_cannot_see_them(
    browser: Browser, pages: dict[str, str], tmp_path: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    for name in ("a run", "causes", "no cause", "what if"):
        path = tmp_path / f"{name}.html"
        path.write_text(pages[name], encoding="utf-8")
        page, _ = opened(context, path)
        assert violations(page) == [], name
    page.evaluate("document.querySelector('h1').outerHTML = '<img src=data:,>'")
    assert [found for found in violations(page) if found.startswith("image-alt")], "it can find"
    context.close()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_everything_can_be_reached_and_read_with_the_keyboard(
    browser: Browser, pages: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "causes.html"
    path.write_text(pages["causes"], encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page, _ = opened(context, path)
    details = page.locator("details")
    assert details.get_attribute("open") is None
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    assert details.get_attribute("open") is not None
    page.keyboard.press("Tab")
    named = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert named.startswith("Table: round, published, nothing")
    context.close()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_sliders_say_what_the_plan_says(browser: Browser, tmp_path: Path) -> None:
    path, draw, kinds = tmp_path / "sliders.html", random.Random(1), set[str]()
    asked = ("plan", "causes:version,country:2", "--horizon", 20_000, "--min-rate", 0.015)
    given = {"epsilon": 0.8, "share": 0.06, "rate": 0.25, "base": 0.003}
    written = littlestone(*asked, *options(given), "--html", path)
    assert written.returncode == 0, written.stderr
    page, _ = opened(browser.new_context(viewport={"width": 390, "height": 844}), path)
    for place in range(scaled(80, least=30)):
        for slider in page.locator("input").all():
            # By keys, as somebody without a mouse does: to an end, and some stops back.
            keys = draw.choice((["Home", "ArrowRight"], ["End", "ArrowLeft"]))
            steps = [keys[0], *[keys[1]] * draw.randrange(9)] if place else []
            slider.focus()
            for key in steps:
                page.keyboard.press(key)
        shown = {
            str(slider.get_attribute("id")): stop_of(slider.get_attribute("aria-valuetext") or "")
            for slider in page.locator("input").all()
        }
        assert place or shown == pytest.approx(given)
        told = json.loads(littlestone(*asked, *options(shown), "--json").stdout)["forecast"][0]
        said = page.locator("output").inner_text()
        curve = page.locator("svg").get_attribute("aria-label") or ""
        if told["positives"] is None:
            kinds.add("not expected")
            assert "is not expected to be named" in said
            assert f" {shown['epsilon']:g}: not expected" in curve
            continue
        beyond = told["rounds"] > 20_000
        kinds.add("beyond" if beyond else "expected")
        numbers = f"about {told['positives']:,} of its failures, about {told['rounds']:,} events."
        assert numbers in said
        assert ("beyond the horizon" in said) == beyond
        assert f" {shown['epsilon']:g}: {told['positives']:,}" in curve
    assert kinds == {"expected", "beyond", "not expected"}
    page.context.close()


def options(values: dict[str, float]) -> list[object]:
    return [word for name, value in values.items() for word in (f"--{name}", value)]


def stop_of(label: str) -> float:
    """Return the number that a slider stands at: "5 %" is 0.05."""
    number, percent, _ = label.partition("\N{NO-BREAK SPACE}%")
    return round(float(number) / 100, 9) if percent else float(number)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_paper_has_the_wide_figure_and_whole_tables(
    browser: Browser, pages: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "causes.html"
    path.write_text(pages["causes"], encoding="utf-8")
    context = browser.new_context(viewport={"width": 794, "height": 1123}, color_scheme="dark")
    page, _ = opened(context, path)
    page.emulate_media(media="print")
    assert page.locator("div.wide").is_visible()
    assert not page.locator("div.narrow").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 252, 250)"
    assert page.evaluate(CUT) == page.evaluate(BESIDE) == []
    context.close()
