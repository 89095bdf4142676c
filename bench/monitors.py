"""How many mistakes pass before the monitor fires, by the sides of its noise; exact laws."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from rich.table import Table

from bench.output import publish
from littlestone._learners.tuning import exceeding, firing_law, threshold_noise_law

REACH = 600
DRAWS = np.arange(-REACH, REACH + 1)
FALSE_ALARMS = 0.01
LEVELS = (0.5, 0.95, 0.99)


def run() -> None:
    """Print after how many mistakes a monitor fires, by its noise."""
    title = f"Mistakes at the firing, threshold set for {FALSE_ALARMS:.0%} false alarms"
    table = Table(
        "eps_m", "quiet checks", "noise", "threshold", "median", "95 %", "99 %", title=title
    )
    for epsilon in (0.25, 0.3, 0.4):
        for checks in (10**3, 10**4, 10**6):
            for one_sided in (False, True):
                theta = threshold(epsilon, checks, one_sided)
                law = firing_law(epsilon, _always(theta), 1, 1, one_sided)
                found = [f"{law.quantile(level):.0f}" for level in LEVELS]
                sides = "one-sided" if one_sided else "two-sided"
                table.add_row(str(epsilon), f"{checks:,}", sides, str(theta), *found)
    publish("monitors", table)


def threshold(epsilon: float, checks: int, one_sided: bool) -> int:
    """The smallest threshold with few false alarms in so many checks at no mistakes."""
    chances = threshold_noise_law(epsilon, one_sided, DRAWS)
    for theta in range(REACH):
        fires = np.minimum(exceeding(theta + DRAWS.astype(float), epsilon, one_sided), 1 - 1e-16)
        if (chances * -np.expm1(checks * np.log1p(-fires))).sum() <= FALSE_ALARMS:
            return theta
    raise AssertionError("no threshold within reach")


def _always(theta: int) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    return lambda ages: np.full(len(ages), theta)
