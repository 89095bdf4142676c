"""Decide when to draw again, and how much a change of rule must win. Public throughout.

A stream that no rule fits makes every rule err, and every firing of the monitor would draw another.
Three things keep the published rule in place there, and none of them reads a row:

- Staying is an outcome of the draw, and so many mistakes ahead of every other rule.
- `StaySchedule`: each draw that stays doubles the loss at which the next one is made. After
  `COUNTED` of them the rate of the rule's loss is known; from then on draws are made at doubling
  ages, and sooner if the loss of a window runs ahead of that rate: then the stream has changed.
- `ChangeCharges`: a change is charged with the prior weight of the rules that it contradicts. Where
  one rule fits, the weight moves to it and the charges end (docs/guarantee.md, Theorem 17, bounds
  their sum); where none fits, rules are exchanged to and fro, and almost
  every change is charged in full. Beyond a free allowance each charge adds `change_cost` mistakes
  to what a challenger must win by. Charges are forgiven slowly, so that a stream that drifts is
  followed.

The constants were chosen by simulation, on other seeds than those of `python -m bench agnostic`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from littlestone._learners.tuning import Schedule
from littlestone._privacy.parameters import LARGEST_INTEGER
from littlestone._privacy.stay import Tenure

# So many draws that stay are made at a growing loss; by then the rate of the loss is known.
COUNTED = 4
# An epoch is so many times as long as the longest before it.
GROWTH = 2
# The loss ahead of the known rate that ends an epoch, in mistakes: about 3 standard deviations of
# what a window of `WINDOW` times as many mistakes varies by.
BURST, WINDOW = 40, 4
# What the noise brings a firing forward by, in units of its scale.
EARLY = 2
# Rounds for each mistake of `change_cost` after which a charge is forgiven.
FORGIVEN_AFTER = 1200
# No threshold and no margin exceeds it: a monitor refuses larger ones.
LARGEST_LOSS = LARGEST_INTEGER


@dataclass(frozen=True)
class StaySchedule:
    """Compute when to check and at which threshold, from the tenure of the published rule."""

    base: int
    rate: float
    check_every: int
    units: int = 1

    def window(self, tenure: Tenure) -> int | None:
        """Return the rounds after which the monitor starts afresh, or None for never."""
        if tenure.refusals < COUNTED:
            return None
        rounds = WINDOW * self._burst(tenure) / self._slope(tenure)
        return self._at_checks(rounds)

    def epoch(self, tenure: Tenure) -> int | None:
        """Return the rounds after which a draw is made without a firing, or None for never."""
        return None if tenure.refusals < COUNTED else self._at_checks(GROWTH * tenure.longest)

    def thresholds(self, tenure: Tenure, ages: Any) -> Any:
        """Return the threshold at an age of the monitor's window, or at each of an array."""
        if tenure.refusals < COUNTED:
            climb = self._climb(ages, 0) - self._base
            line = self._level(tenure) * GROWTH**tenure.refusals + climb
        else:
            line = self._burst(tenure) + self._slope(tenure) * ages
        if isinstance(ages, int):
            return min(math.ceil(line), LARGEST_LOSS)
        return np.asarray(np.minimum(np.ceil(line), LARGEST_LOSS), dtype=np.int64)

    def stayed(self, tenure: Tenure, fired_at: int | None, age: int) -> Tenure:
        """Return the tenure after a draw that stayed."""
        loss, rounds = tenure.loss, tenure.rounds
        if tenure.refusals < COUNTED:
            # At a firing the loss is about the threshold, less what the noise brings it forward by.
            reached = float(self._level(tenure) * GROWTH**tenure.refusals)
            loss += max(reached / 2, reached - EARLY / self.rate)
            rounds += age
        elif fired_at is not None:
            # The rate has changed, and no rule is better: half of what was known is kept.
            loss = loss / 2 + self._burst(tenure) + self._slope(tenure) * fired_at
            rounds = rounds / 2 + fired_at
        longest = max(tenure.longest, age)
        return Tenure(tenure.refusals + 1, tenure.margin, loss, rounds, longest)

    @cached_property
    def _base(self) -> int:
        return min(self.base, LARGEST_LOSS)

    @cached_property
    def _climb(self) -> Schedule:
        # Computed once and stepwise, so that one age and an array of ages agree.
        return Schedule(self._base, self.rate, self.check_every)

    def _level(self, tenure: Tenure) -> int:
        return min(self._base + tenure.margin, LARGEST_LOSS)

    def _burst(self, tenure: Tenure) -> int:
        return max(BURST * self.units, self._level(tenure))

    def _slope(self, tenure: Tenure) -> float:
        return tenure.loss / max(tenure.rounds, 1.0)

    def _at_checks(self, rounds: float) -> int:
        """Return a number of rounds that is whole checks, at least one."""
        whole_checks = int(min(rounds, float(LARGEST_LOSS))) // self.check_every
        return max(1, whole_checks) * self.check_every


class ChangeCharges:
    """Add up what the changes of a stream were charged. Public: a function of the releases."""

    def __init__(self, change_cost: Fraction, free: float) -> None:
        self._cost, self._free = change_cost, free
        self._total, self._at = 0.0, 0

    def add(self, number: int, weight: float) -> None:
        """Charge a change."""
        self._total, self._at = self._left(number) + weight, number

    def margin(self, number: int) -> int:
        """Return what a challenger must win by after so many rounds, in mistakes."""
        margin = float(self._cost) * max(0.0, self._left(number) - self._free)
        return int(min(margin, float(LARGEST_LOSS)))

    def _left(self, number: int) -> float:
        """Return the charges that are not forgiven."""
        forgiven = (number - self._at) / (FORGIVEN_AFTER * float(self._cost))
        return max(0.0, self._total - forgiven)
