"""The report and the comparison in a real browser: whole on a telephone, in light and in dark, and
alone. Needs Chromium on the machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from test_report import CASES

from littlestone.classes.specs import parse_spec
from littlestone.cli.compare import Sweep, render_comparison
from littlestone.report.report import render_report
from littlestone.simulate.sweeps import run_cell

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SHOWN = ("a run", "hostile", "many releases", "causes", "hostile causes", "no cause")
CUT = """
[...document.querySelectorAll('svg')].flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')]
        .map(text => [text.textContent, text.getBoundingClientRect()])
        .filter(([_, box]) => box.height < 8 || box.left < frame.left - 1
            || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
        .map(([text, _]) => text);
})
"""
"""The texts of figures that are cut, or too small to read."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    sweep = Sweep(["sets:m:2"], ["soa"], ["halving"], [50, 900], [1.0], 1e-6, 1)
    results = [run_cell(parse_spec(cell.cls), cell) for cell in sweep.cells()]
    return {
        "comparison": render_comparison(sweep, results, "littlestone compare"),
        **{name: render_report(CASES[name]) for name in SHOWN},
    }


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
        curves = page.locator("svg path[style*='var(--c0)']")
        assert curves.count() > 0
        drawn = curves.first.evaluate("curve => getComputedStyle(curve).stroke")
        assert drawn == {"light": "rgb(68, 119, 170)", "dark": "rgb(91, 143, 196)"}[scheme]
    context.close()
