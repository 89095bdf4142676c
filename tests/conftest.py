"""Settings that every test shares."""

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from effort import scaled, spread

EXAMPLES = scaled(100, least=20)
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=EXAMPLES)
settings.register_profile("dev", deadline=None, max_examples=EXAMPLES)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Markers by file; `soak` is set on single tests.
MARKERS = {
    "ray/test_engine.py": pytest.mark.ray,
    "service/test_page.py": pytest.mark.browser,
    "report/test_browser.py": pytest.mark.browser,
    "audit/test_audit.py": pytest.mark.audit,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of some files, and keep an even spread of the cases of each test."""
    folder = Path(__file__).parent
    groups: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.is_relative_to(folder):
            name = str(item.path.relative_to(folder))
            if name in MARKERS:
                item.add_marker(MARKERS[name])
            if isinstance(item, pytest.Function):
                groups[item.path, item.originalname].append(item)
    dropped = set[pytest.Item]()
    for group in groups.values():
        kept = spread(len(group))
        dropped.update(item for place, item in enumerate(group) if place not in kept)
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many checks of River and of scikit-learn our adapters passed."""
    for suite in ("test_river_checks", "test_sklearn_checks"):
        counts = {
            outcome: sum(f"{suite}[" in report.nodeid for report in reports)
            for outcome, reports in terminalreporter.stats.items()
            if outcome in ("passed", "failed", "skipped", "xfailed")
        }
        if any(counts.values()):
            said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
            terminalreporter.write_line(f"{suite}: {said}")
