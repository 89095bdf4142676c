"""How many mistakes pass before the monitor fires, by the sides of its noise; exact laws."""

from math import exp

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

Floats = npt.NDArray[np.float64]
REACH = 600
LIFTS = np.arange(-REACH, REACH + 1)
FALSE_ALARMS = 0.01


def run() -> None:
    """Print the table of docs/guarantee.md."""
    title = f"Mistakes at the firing, threshold set for {FALSE_ALARMS:.0%} false alarms"
    table = Table(
        "eps_m", "quiet checks", "noise", "threshold", "median", "95 %", "99 %", title=title
    )
    for epsilon in (0.25, 0.3, 0.4):
        for checks in (10**3, 10**4, 10**6):
            for one_sided in (False, True):
                theta = threshold(epsilon, checks, one_sided)
                found = [str(q) for q in quantiles(epsilon, theta, one_sided)]
                sides = "one-sided" if one_sided else "two-sided"
                table.add_row(str(epsilon), f"{checks:,}", sides, str(theta), *found)
    Console(highlight=False, width=100).print(table)


def masses(epsilon: float, one_sided: bool) -> Floats:
    """P(lift = k) over LIFTS."""
    a = exp(-epsilon)
    if one_sided:
        return np.where(LIFTS >= 0, (1 - a) * a ** np.maximum(LIFTS, 0), 0.0)
    return np.asarray((1 - a) / (1 + a) * a ** np.abs(LIFTS))


def reaches(margin: npt.NDArray[np.int64], epsilon: float, one_sided: bool) -> Floats:
    """P(query noise >= margin)."""
    a, up = exp(-epsilon), np.maximum(margin, 0)
    if one_sided:
        return np.asarray(a**up)
    down = np.maximum(1 - margin, 1)
    return np.where(margin > 0, a**up / (1 + a), 1 - a**down / (1 + a))


def threshold(epsilon: float, checks: int, one_sided: bool) -> int:
    """The smallest threshold with few false alarms in so many checks at no mistakes."""
    lifts = masses(epsilon, one_sided)
    for theta in range(REACH):
        fires = np.minimum(reaches(theta + LIFTS, epsilon, one_sided), 1 - 1e-16)
        if (lifts * -np.expm1(checks * np.log1p(-fires))).sum() <= FALSE_ALARMS:
            return theta
    raise AssertionError("no threshold within reach")


def quantiles(epsilon: float, theta: int, one_sided: bool) -> list[int]:
    """The count at the firing when every check brings one mistake more."""
    alive, fired = masses(epsilon, one_sided), []
    for mistakes in range(REACH):
        fires = reaches(theta - mistakes + LIFTS, epsilon, one_sided)
        fired.append((alive * fires).sum())
        alive = alive * (1 - fires)
    total = np.cumsum(fired)
    return [int((total < level).sum()) for level in (0.5, 0.95, 0.99)]
