"""What axe-core finds wrong with a page in a browser: contrast, names, roles, order of headings.

It is a package of npm, which `.ci/run` puts where this looks for it; without it tests are skipped.
"""

from pathlib import Path

import pytest
from playwright.sync_api import Page

PLACES = (Path(__file__).parents[1] / ".venv" / "axe", Path("/usr/lib"), Path("/usr/local/lib"))
FOUND = [place / "node_modules" / "axe-core" / "axe.min.js" for place in PLACES]
AXE = next((path for path in FOUND if path.exists()), None)
needs_axe = pytest.mark.skipif(
    AXE is None, reason="no axe-core: npm install --no-save --prefix .venv/axe axe-core"
)
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page: Page) -> list[str]:
    """What violates the levels A and AA of the guidelines, with the elements."""
    assert AXE is not None
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("levels => axe.run({runOnly: levels})", LEVELS)
    assert found["passes"], "it has looked at something"
    return [
        f"{one['id']}: {[node['html'][:120] for node in one['nodes']]}"
        for one in found["violations"]
    ]
