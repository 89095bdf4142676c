"""Choose the constants of private experts, before any data.

Privacy holds for every value of every field (docs/guarantee.md, Theorem 10). Utility is a
heuristic: a rule is drawn with weight exp(-epsilon_h mistakes / 2), so a release is worth making
when the rules that made the published rule's mistakes are outweighed by those that did not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from littlestone.learning.belief import MISLED
from littlestone.learning.choosing import complexity, fresh_start
from littlestone.learning.schedule import Schedule, tolerated
from littlestone.learning.wording import VACUOUS, Line, Planned
from littlestone.privacy.exact import (
    BadParameter,
    Real,
    planned_epsilon,
    planned_horizon,
    positive,
    whole,
)
from littlestone.theory.classes import HypothesisClass, checked_class
from littlestone.theory.errors import TooLarge

SPLIT = Fraction(1, 2)
"""The monitor's share of epsilon."""
MARGIN = 1.5
"""What noise takes off a threshold, in units of its scale: about half of all firings come with
fewer mistakes than are wanted when they come as slowly as they can, and far fewer in a burst."""


@dataclass(frozen=True)
class ExpertsPlan(Planned):
    """Hold the constants of `PrivateExperts`. Make one with `ExpertsPlan.practical`.

    Parameters
    ----------
    made_for
        The class that it was made for, in words.
    epsilon
        The privacy budget.
    horizon
        The number of rounds.
    epsilon_monitor
        What the monitor spends, once; a draw may spend the rest.
    threshold
        The mistakes of a new epoch at which the monitor fires, before noise.
    check_every
        The rounds from one check to the next.
    tolerance
        The share of mistakes that causes no change.
    restart_every
        The rounds after which an epoch of the monitor ends without a firing, or None.
    expected_mistakes
        The mistakes that a change of rule is expected to take.

    Examples
    --------
    >>> from littlestone.theory.thresholds import Thresholds
    >>> plan = ExpertsPlan.practical(Thresholds(1, 1000), epsilon=1, horizon=100_000)
    >>> plan.threshold, plan.check_every
    (16, 4)
    """

    made_for: str
    epsilon: Fraction
    horizon: int
    epsilon_monitor: Fraction
    threshold: int
    check_every: int
    tolerance: Fraction = Fraction(0)
    restart_every: int | None = None
    expected_mistakes: int | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "epsilon_monitor"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        for name in ("horizon", "threshold", "check_every"):
            whole(getattr(self, name), name, least=1)
        tolerated(self.tolerance)
        if self.epsilon_monitor >= self.epsilon:
            raise BadParameter("the monitor's epsilon leaves nothing for the draws")

    @classmethod
    def practical(
        cls, hypotheses: HypothesisClass, epsilon: Real, horizon: int, *, tolerance: Real = 0
    ) -> "ExpertsPlan":
        """Choose all constants to make few mistakes, from the class's size and dimension.

        Parameters
        ----------
        hypotheses
            The class.
        epsilon
            The privacy budget.
        horizon
            The number of rounds.
        tolerance
            The share of mistakes that causes no change.

        Returns
        -------
        ExpertsPlan
            The plan.

        Raises
        ------
        TooLarge
            If the class is infinite.
        """
        exact, horizon = planned_epsilon(epsilon), planned_horizon(horizon)
        size = checked_class(hypotheses).size
        if size is None:
            raise TooLarge(f"{hypotheses!r} has infinitely many rules: use DPSOA")
        rate, rest = float(exact * SPLIT), float(exact * (1 - SPLIT))
        bits = max(1, math.ceil(math.log2(size)))
        spread = math.log(size) / max(1, min(complexity(hypotheses), bits))
        threshold = mistakes_wanted(rest, spread) + round(MARGIN / rate)
        return cls(
            made_for=repr(hypotheses),
            epsilon=exact,
            horizon=horizon,
            epsilon_monitor=exact * SPLIT,
            threshold=threshold,
            check_every=max(1, round(2 / rate)),
            tolerance=tolerated(tolerance),
            restart_every=fresh_start(threshold, tolerated(tolerance)),
            expected_mistakes=threshold + math.ceil(1 / (2 * rate)),
        )

    @property
    def epsilon_selector(self) -> Fraction:
        """Return what one draw may spend."""
        return self.epsilon - self.epsilon_monitor

    @property
    def vacuous(self) -> bool:
        """Return whether a change of rule would take more mistakes than there are rounds."""
        return self.expected_mistakes is not None and self.expected_mistakes > self.horizon

    def schedule(self) -> Schedule:
        """Return the mistakes at which the monitor fires, as a function of the epoch's age."""
        rate = float(self.epsilon_monitor)
        return Schedule(self.threshold, rate, self.check_every, self.tolerance)

    def lines(self) -> Iterator[Line]:
        """Yield the plan as a table: what is proved, where the budget goes, what is expected."""
        yield Line(
            "privacy: proved",
            f"epsilon {float(self.epsilon):g}, delta 0",
            "replace-one, per event; any stream",
        )
        yield Line(
            "monitor's budget", f"epsilon {float(self.epsilon_monitor):.4g}", "once, for all rounds"
        )
        yield Line(
            "draws' budget",
            f"epsilon {float(self.epsilon_selector):.4g} a draw",
            "each draw reads its own rounds: releases are unlimited",
        )
        yield Line("monitor", f"mistakes of the rule >= {self.threshold:,}", "then draw a rule")
        yield Line("check every", f"{self.check_every:,} rounds", "a public schedule")
        if self.tolerance:
            yield Line("tolerance", f"{float(self.tolerance):.2%}", "mistakes that cause no change")
        if self.restart_every is not None:
            yield Line("fresh start every", f"{self.restart_every:,} rounds", "banks no credit")
        yield Line("horizon", f"{self.horizon:,} rounds", "then the last rule stands")
        yield Line(
            "utility: heuristic",
            f"about {self.expected_mistakes or 0:,} mistakes a change of rule",
            "when some rule of the class fits the stream",
        )
        if self.vacuous:
            yield VACUOUS


def mistakes_wanted(epsilon: float, spread: float) -> int:
    """Return the mistakes after which the rules that made them are outweighed by the others.

    Parameters
    ----------
    epsilon
        What a draw spends.
    spread
        The logarithm of how many rules made the mistakes, for each that did not: for a search by
        bisection, that of a bit.

    Returns
    -------
    int
        The number of mistakes.

    Examples
    --------
    >>> mistakes_wanted(0.5, math.log(2)), mistakes_wanted(0.5, math.log(1000))
    (12, 37)
    """
    return math.ceil(2 / epsilon * (spread - math.log(MISLED)))
