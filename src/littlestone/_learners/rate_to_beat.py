"""Follow the rate that a cause has to beat: from released counts and firings, which are public.

A cause is worth publishing if its rate is well above that of all other rows; where that rate moves,
one number for a whole stream is wrong. Each epoch has its own, computed when it ends and before its
move is drawn (docs/guarantee.md, Theorem 15, "What is chosen anew"):

- *now*: the rate of the rows of the epoch that no published cause matches. The counts of the
  evidence have noise; at a firing the loss has just reached a public threshold, which says the same
  with less of it.
- *before*: the same in the last rounds before the epoch.

The odds to beat are twice those before, but at least 1.5 times and at most twice those now. *Before*
is needed because a cause of much of the traffic raises *now* above itself; *now* is needed where the
rate drifts or comes in storms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from littlestone._learners.evidence import Window
from littlestone._privacy.causes import UNITS, Weights

Baseline = Literal["follow", "fixed"]
FOLLOW: Baseline = "follow"
# The odds to beat, in odds of before; and in odds of now, at least.
LIFT, LIFT_NOW = 2.0, 1.5
# No rate to beat is below the first or above the second.
LEAST_RATE, MOST_RATE = Fraction(1, 50), Fraction(49, 50)
# How many rounds are "before".
MEMORY = 4000
# The largest rate that counts are believed to show: odds stay finite.
CERTAIN = 0.99


def odds(rate: float) -> float:
    """Return the odds of a rate: what a false alarm costs where that rate is to be beaten."""
    return rate / (1 - rate)


def rate_of_odds(cost: float) -> float:
    """Return the rate of odds."""
    return cost / (1 + cost)


def weights_of(cost: float, swing: Fraction, units: int = UNITS) -> Weights:
    """Return the weights of a positive and a negative row at odds to beat, rounded down.

    None is above a whole one, and together they are at most `swing` (Theorem 15, step 1).
    """
    whole = min(1.0, 1 / cost, float(swing) / (1 + cost))
    positive, negative = (max(1, math.floor(units * whole * part)) for part in (1.0, cost))
    # A float may have been rounded up.
    return Weights(positive, min(negative, math.floor(swing * units) - positive))


class Firing(NamedTuple):
    """Hold what a firing says: the loss has reached a threshold, up to the monitor's noise."""

    threshold: int
    costs: Weights
    epsilon: float


@dataclass
class RateToBeat:
    """Hold the rate to beat and what it follows from. All of it is public."""

    baseline: Baseline
    # Costs are whole numbers of so many to one.
    units: int
    # Nothing below is beaten; a given `min_rate`, or the least of all.
    floor: float
    # The rate of rows that no cause matches, as far as it is known, and the odds to beat next.
    base: float = 0.0
    cost: float = 0.0
    # For the last epochs, the positive rows that no cause matches, and all of them.
    recent: list[tuple[float, float]] = field(default_factory=list)

    def begin(self, base: float) -> None:
        """Begin with a base rate; 0 if it is unknown."""
        self.base = base
        self.cost = self._before(base)

    def _before(self, base: float) -> float:
        return self._within(LIFT * odds(min(base, CERTAIN)))

    def _within(self, cost: float) -> float:
        return max(odds(self.floor), min(cost, odds(float(MOST_RATE))))

    def at_end(self, windows: Sequence[Window], rounds: int, firing: Firing | None) -> float:
        """Return the odds to beat in an epoch of so many rounds, by its windows, and follow it."""
        if self.baseline != FOLLOW:
            return self.cost
        now, rows = self._now(windows, rounds, firing)
        cost = self.clamped(now)
        self.follow(now * rows, rows)
        return cost

    def clamped(self, now: float) -> float:
        """Return the odds to beat, given the rate now."""
        least, most = LIFT_NOW * odds(now), LIFT * odds(now)
        return self._within(min(most, max(self.cost, least)))

    def can_tell(self, cost: float) -> bool:
        """Return whether a cause can be told from all other rows: not where nearly all are positive.

        Every value beats the largest rate there, as in a file that is sorted by its label.
        """
        return cost < odds(float(MOST_RATE)) or self.floor >= MOST_RATE

    def _now(
        self, windows: Sequence[Window], rounds: int, firing: Firing | None
    ) -> tuple[float, float]:
        """Return the rate of the rows that no cause matches, and about how many there are."""
        causes = windows[-1].causes
        noise = 2 * windows[-1].scale ** 2 * len(windows)
        rest = [window.rest for window in windows]
        positives = float(sum(cell.positives for cell in rest))
        variance = noise * rest[-1].terms
        matched = sum(sum(w.negatives[:-1]) + sum(w.positives[:-1]) for w in windows)
        others = min(float(rounds), max(1.0, float(rounds - matched)))
        counted = positives + sum(cell.negatives for cell in rest)
        # Rounds without an example are not counted: believed where the noise does not explain it.
        rows = others if counted >= others - 4 * math.sqrt(2 * variance) else max(1.0, counted)
        outcomes = any(cause.outcome is not None for cause in causes)
        if firing is not None and not outcomes:
            miss, alarm = (cost / self.units for cost in firing.costs)
            alarms = sum(sum(window.negatives[:-1]) for window in windows)
            by_loss = (firing.threshold / self.units - alarm * alarms) / miss
            spread = (4 / firing.epsilon**2 + alarm**2 * noise * len(causes)) / miss**2
            share = variance / (variance + spread)
            positives += share * (by_loss - positives)
            variance *= 1 - share
        rate = min(CERTAIN, max(0.0, positives / rows))
        return _toward(rate, rows, self.base, variance), rows

    def follow(self, positives: float, rows: float) -> None:
        """Note how many rows of an epoch no cause matches, and how many of them are positive."""
        self.recent.append((positives, rows))
        total_positives = total = 0.0
        for place, (some, of) in enumerate(reversed(self.recent), start=1):
            total_positives, total = total_positives + some, total + of
            if total >= MEMORY:
                self.recent = self.recent[-place:]
                break
        self.base = min(CERTAIN, total_positives / total)
        self.cost = self._before(self.base)

    def to_json(self) -> dict[str, Any]:
        """Return what has been followed, as JSON data."""
        return {"base": self.base, "cost": self.cost, "recent": self.recent}

    def load(self, data: dict[str, Any]) -> None:
        """Load what `to_json` returned."""
        self.base, self.cost = data["base"], data["cost"]
        self.recent = [(some, of) for some, of in data["recent"]]


def _toward(rate: float, rows: float, aim: float, noise: float) -> float:
    """Return a rate of so many rows moved toward another: only what exceeds noise is believed."""
    gap = rate - aim
    if not gap:
        return rate
    variance = noise / rows**2 + aim * (1 - aim) / rows
    return min(CERTAIN, max(0.0, aim + gap * max(0.0, 1 - 2 * variance / gap**2)))
