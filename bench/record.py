"""Which run the tables of the documents are of: when, of which source tree, and how long it took.

docs/results.md holds the record between the marks `run` and `run.parts`: a line for each part of the
bench. A run of some parts replaces their lines. It needs no other package, so that
`make release-check` can ask whether every table is of the tree that is released (`outdated`).
"""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from bench.output import MARKED, marks, part_of

RESULTS, SOURCE = Path("docs/results.md"), "src/littlestone"
HEADS = "| part | run on | minutes | source tree |\n|---|---|--:|---|"
FAILED = "failed"


class Entry(NamedTuple):
    """Say when a part ran, how many minutes it took (or `FAILED`), and of which source tree."""

    part: str
    day: str
    minutes: str
    tree: str


def source_tree(root: Path = Path()) -> str:
    """Return git's name of the package's source tree, with a + if it has changes, or `unknown`."""
    name = _git(root, "rev-parse", f"HEAD:{SOURCE}")[:12]
    changed = _git(root, "status", "--porcelain", "--", SOURCE)
    return f"{name}+" if name and changed else name or "unknown"


def _git(root: Path, *arguments: str) -> str:
    git = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def read_record(root: Path = Path()) -> dict[str, Entry]:
    """Return the line of each part."""
    text = (root / RESULTS).read_text("utf-8")
    blocks = {match[2]: match[3] for match in MARKED.finditer(text)}
    lines = re.findall(r"^\| (.*) \|$", blocks.get("run.parts", ""), re.M)
    entries = [Entry(*line.split(" | ")) for line in lines[1:] if not line.startswith("--")]
    return {entry.part.split()[0]: entry for entry in entries}


def record_table(entries: Mapping[str, Entry], order: Iterable[str]) -> str:
    """Return the lines of the parts as Markdown, in the order of the bench."""
    lines = (f"| {' | '.join(entries[part])} |" for part in order if part in entries)
    return "\n".join((HEADS, *lines))


def describe_run(tree: str, parts: int, seconds: float, failed: Iterable[str]) -> str:
    """Return one sentence on a run."""
    from littlestone import __version__

    broken, plural = ", ".join(failed), "s" if parts > 1 else ""
    return (
        f"The latest run, on {date.today():%-d %B %Y}, played {parts} part{plural} in "
        f"{seconds / 60:.0f} minutes with littlestone {__version__} (source tree `{tree}`), Python "
        f"{platform.python_version()} and {os.cpu_count()} cores"
        + (f"; these failed: {broken}." if broken else ".")
    )


def outdated(root: Path = Path()) -> dict[str, str]:
    """Return the parts that documents quote and that were not run on this source tree, and why.

    A tree that has changes, or whose name git does not know, is nobody's.
    """
    entries, tree, reasons = read_record(root), source_tree(root), dict[str, str]()
    for part in sorted({part_of(name) for name in marks(root)} - {"run"}):
        if part not in entries:
            reasons[part] = "never run"
        elif entries[part].minutes == FAILED:
            reasons[part] = "failed"
        elif entries[part].tree != tree or not tree.isalnum() or tree == "unknown":
            reasons[part] = f"run on {entries[part].tree}, and this is {tree}"
    return reasons
