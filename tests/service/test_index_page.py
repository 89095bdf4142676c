"""The index of several learners in a real browser, and their pages beside each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from test_fleet import bearing, serving
from test_page import browser, needs_chromium, page

from axe import needs_axe, violations
from running_service import begun, events

__all__ = ["browser", "page"]  # fixtures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("logins", "payments", "x" * 90):
        begun(tmp_path / f"{name}.db").close()
    (tmp_path / "broken.db").write_text("no store")
    return tmp_path


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    """The address of the index, behind a proxy that has it below a path."""
    with serving(folder, below="/tools/rules") as client:
        feeder = bearing(folder, "payments", "feeder")
        long = [row | {"merchant": "M" * 300} if row["fraud"] else row for row in events(4000)]
        sent = client.post("/tools/rules/payments/rounds", json=long, headers=feeder)
        assert sent.status_code == 200
        yield f"{client.base_url}/tools/rules/"


@needs_chromium
def test_the_index_leads_to_every_page_below_a_proxys_path(address: str, page: Page) -> None:
    page.goto(address)
    expect(page.get_by_role("listitem")).to_have_count(4)
    expect(page.get_by_text("unavailable")).to_be_visible()
    expect(page.get_by_role("link", name="broken")).to_have_count(0)
    page.get_by_role("link", name="payments").click()
    expect(page.locator("#status")).to_have_text("live")
    expect(page.locator("#rounds")).to_have_text("4,000 rounds")
    assert page.url == f"{address}payments/"


@needs_chromium
def test_pages_of_two_learners_hear_nothing_of_each_other(
    address: str, folder: Path, page: Page
) -> None:
    other = page.context.new_page()
    page.goto(f"{address}logins/")
    expect(page.locator("#status")).to_have_text("live")
    other.goto(f"{address}payments/")
    expect(other.locator("#rounds")).to_have_text("4,000 rounds")
    feeder = bearing(folder, "payments", "feeder")
    sent = other.request.post(f"{address}payments/rounds", data=events(10), headers=feeder)
    assert sent.ok
    expect(other.locator("#rounds")).to_have_text("4,010 rounds")
    expect(page.locator("#rounds")).to_have_text("0 rounds")


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_of_the_index_is_cut(
    address: str, browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(address)
    page.screenshot(path=tmp_path / f"index-{width}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


@needs_axe
@needs_chromium
def test_the_index_is_for_everybody(address: str, page: Page) -> None:
    page.goto(address)
    assert violations(page) == []
