"""Settings that every test shares."""

import os
import sqlite3
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

# Files of which every test is slow (clusters, browsers, games by the thousand), but for these few,
# which `make test` runs as well.
SLOW = {
    "audit/test_audit.py": {
        "test_neighbours_differ_in_one_round",
        "test_what_cannot_be_seen_is_said",
    },
    "ray/test_engine.py": {"test_rows_on_a_cluster_are_learned_as_local_ones"},
    "report/test_browser.py": {"test_paper_has_the_wide_figure_and_whole_tables"},
    "service/test_serve.py": {
        "test_a_client_that_comes_before_the_server_has_started_waits",
        "test_a_start_refuses_what_does_not_fit_and_throws_nobody_out",
        "test_help_imports_no_server",
        "test_nothing_of_the_data_is_told",
    },
    "service/test_page.py": {
        "test_causes_come_live_with_their_evidence",
        "test_it_is_filled_and_then_live",
    },
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests of some files, and keep an even spread of the cases of each test."""
    folder = Path(__file__).parent
    groups: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function):
            quick = SLOW.get(str(item.path.relative_to(folder)), {item.originalname})
            if item.originalname not in quick:
                item.add_marker(pytest.mark.slow)
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


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """All connections that are made: the last one of a store that was just begun is its own."""
    made, connect = list[sqlite3.Connection](), sqlite3.connect

    def kept(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", kept)
    return made
