"""Forecast how long `PrivateCauses` takes to publish a cause, before any data. A heuristic.

The monitor fires when the weighted loss of the published rule reaches a threshold. Positives of the
cause and positives of all other rows add to that loss; only the rows of the cause speak for it. If
they do not yet outweigh "nothing", the draw most likely publishes nothing; then more of the loss is
taken for base rate, and the counts begin anew.
"""

import math
from fractions import Fraction
from typing import NamedTuple

from littlestone.learners.causes import (
    AUTO,
    LEAST_RATE,
    LIFT,
    MOST_RATE,
    MOST_SLACK,
    THOUSANDTHS,
    CausesPlan,
)
from littlestone.privacy.parameters import BadParameter


class CauseForecast(NamedTuple):
    """Hold about when a cause is published.

    Parameters
    ----------
    min_rate : float
        The rate above which causes are published.
    positives : float
        The positives of the cause until then; infinite if it is not expected to be published.
    rounds : float or None
        The rounds until then; None if the share of the cause is not known.
    """

    min_rate: float
    positives: float
    rounds: float | None

    @property
    def found(self) -> bool:
        """Return whether the cause is expected to be published at all."""
        return math.isfinite(self.positives)


def forecast(
    plan: CausesPlan,
    rate: float,
    *,
    share: float | None = None,
    base: float = 0.0,
    width: int = 1,
) -> CauseForecast:
    """Forecast how many positives of a cause, and how many rounds, pass before it is published.

    Parameters
    ----------
    plan : CausesPlan
        The learner's plan.
    rate : float
        The positive rate of the cause's rows.
    share : float, optional
        The share of the rows that the cause matches.
    base : float
        The positive rate of all other rows. From it follows `min_rate`, if that is "auto".
    width : int
        The conditions of the cause.

    Returns
    -------
    CauseForecast
        About how long it takes. Half of all runs or so take longer.

    Raises
    ------
    BadParameter
        If a rate or the share is not between 0 and 1, or the class has no cause of that width.

    Examples
    --------
    >>> from littlestone.classes.causes import Causes
    >>> plan = CausesPlan.practical(Causes(["version", "country"]), 1, 1e-7, 100_000, min_rate=0.1)
    >>> found = forecast(plan, 0.3, share=0.05, base=0.01)
    >>> found.positives > 50, found.rounds < 20_000, forecast(plan, 0.05).found
    (True, True, False)
    """
    p, part = _checked(rate, "rate"), 1.0 if share is None else _checked(share, "share")
    if not 0 <= base < 1:
        raise BadParameter(f"base is at least 0 and below 1, not {base:g}: it is a rate")
    if not 1 <= width <= len(plan.prior):
        raise BadParameter(f"a cause of this class has 1 to {len(plan.prior)} conditions")
    min_rate = plan.given_rate
    if plan.min_rate == AUTO:
        # The first window counts all rows, those of the cause too if it is there by then.
        mixed = part * p + (1 - part) * base if share is not None else base
        doubled = Fraction(math.ceil(LIFT * mixed * THOUSANDTHS), THOUSANDTHS)
        min_rate = min(max(doubled, LEAST_RATE), MOST_RATE)
    cost = plan.cost_of(min_rate)
    # Of one row: what it adds to the loss of publishing nothing, and to the gain of the cause.
    loss, gain = part * p + (1 - part) * base, part * (p - float(cost) * (1 - p))
    level, needed = plan.threshold(cost), plan.needed(cost, width)
    rounds, refusals = 0.0, 0
    while True:
        # On a stream that does not change the monitor fires at so many times its threshold.
        slack = plan.slack(cost, refusals, known=plan.min_rate == AUTO and base > 0)
        epoch = level * slack / loss
        rounds += epoch
        if epoch * gain >= needed:
            break
        # At the largest threshold the same is tried again and again: luck may still find it.
        if slack >= MOST_SLACK:
            return CauseForecast(float(min_rate), math.inf, None)
        refusals += 1
    if share is None:
        return CauseForecast(float(min_rate), rounds * p, None)
    # The rows of the first window are read for the base rate only.
    rounds += plan.first_window
    return CauseForecast(float(min_rate), rounds * part * p, rounds)


def _checked(value: float, name: str) -> float:
    if not 0 < value <= 1:
        raise BadParameter(f"{name} is above 0 and at most 1, not {value:g}: 0.3 is 30 %")
    return value
