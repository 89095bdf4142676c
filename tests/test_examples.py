"""The programs of examples/ run, print what their page says, and draw their picture."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "examples"
SHARED = "story"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != SHARED)


def said(name: str) -> str:
    """Return what the page of an example says that it prints; `...` stands for anything."""
    text = (PAGES / f"{name}.md").read_text("utf-8")
    (block,) = re.findall(r"^```text\n(.*?)^```", text, re.S | re.M)
    return str(block)


ONE = "telemetry"
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in NAMES if name != ONE]


@pytest.mark.parametrize("name", [*OTHERS, ONE])
def test_an_example_prints_what_its_page_says(name: str, tmp_path: Path) -> None:
    script = str(EXAMPLES / f"{name}.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(said(name), done.stdout, flags), done.stdout
    assert "<svg" in (tmp_path / f"{name}.svg").read_text("utf-8")


def test_every_example_has_a_page_with_its_picture() -> None:
    assert len(NAMES) >= 7
    assert {path.stem for path in PAGES.glob("*.md")} == {*NAMES, "index"}
    for name in NAMES:
        page = (PAGES / f"{name}.md").read_text("utf-8")
        assert f"(../figures/examples/{name}.svg)" in page
        assert f"{{literalinclude}} ../../examples/{name}.py" in page
        assert (ROOT / "docs" / "figures" / "examples" / f"{name}.svg").exists()


def test_a_page_that_says_something_else_is_found() -> None:
    checker = doctest.OutputChecker()
    assert not checker.check_output(said("telemetry"), "What may be published: never\n", 0)
