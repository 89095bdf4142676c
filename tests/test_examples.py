"""The stories of examples/ run, find what they look for, and draw their plot."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
FOUND = {
    "telemetry": "version = '4.2.1'",
    "blocklist": "sender in {'ceo@phish.example', 'deals@spam.example', 'win@prize.example'}",
    "cutoff": "score >= 45",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_story_finds_what_it_looks_for(name: str, tmp_path: Path) -> None:
    script = str(EXAMPLES / f"{name}.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    last = [line for line in done.stdout.splitlines() if "from round" in line][-1]
    assert last.endswith(FOUND[name])
    assert "differential privacy" in done.stdout
    assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")


def test_every_example_is_here() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == {*FOUND, "story"}
