"""Settings that every test shares."""

import os
from typing import Any

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


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
