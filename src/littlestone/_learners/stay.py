"""Decide when to draw again, and how much a change of rule must win. Public throughout.

A stream that no rule fits makes every rule err, and every firing of the monitor would draw another.
Three things keep the published rule in place there, and none of them reads a row:

- Staying is an outcome of the draw, and so many mistakes ahead of every other rule.
- `StaySchedule`: each draw that stays doubles the loss at which the next one is made. After
  `COUNTED` of them the rate of the rule's loss is known; from then on draws are made at doubling
  ages, and sooner if the loss of a window runs ahead of that rate: then the stream has changed.
- `ChangeCharges`: a change is charged with the prior weight of the rules that it contradicts. Where
  one rule fits, the weight moves to it and the charges end; where none fits, rules are exchanged to
  and fro, and almost every change is charged in full. Beyond a free allowance each charge adds
  `change_cost` mistakes to what a challenger must win by. Charges are forgiven slowly, so that a
  stream that drifts is followed.

The constants were chosen by simulation, on other seeds than those of `python -m bench agnostic`.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from littlestone._learners.tuning import Climb
from littlestone._privacy.mechanism import State
from littlestone._privacy.parameters import LARGEST_INTEGER, whole
from littlestone._privacy.schedules import Ages, EpochEnd, Schedule

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


class Tenure(NamedTuple):
    """Hold what a published rule has been through. Public: a function of the transcript."""

    refusals: int = 0
    margin: int = 0
    loss: float = 0.0
    rounds: float = 0.0
    longest: int = 0


class StaySchedule(Schedule):
    """Compute when to check and at which threshold, from the tenure of the published rule."""

    def __init__(self, base: int, rate: float, check_every: int, units: int = 1) -> None:
        self._base, self._rate = min(base, LARGEST_LOSS), rate
        self._every, self._units = check_every, units
        self._climb = Climb(self._base, rate, check_every)
        self.tenure = Tenure()

    def set_margin(self, margin: int) -> None:
        """Set the margin of the epoch that begins: a public number of units."""
        self.tenure = self.tenure._replace(margin=whole(margin, "margin", least=0))

    @property
    def window(self) -> int | None:
        """Return the rounds after which the monitor starts afresh, or None for never."""
        if self.tenure.refusals < COUNTED:
            return None
        return self._at_checks(WINDOW * self._burst / self._slope)

    @property
    def epoch(self) -> int | None:
        """Return the rounds after which a draw is made without a firing, or None for never."""
        if self.tenure.refusals < COUNTED:
            return None
        return self._at_checks(GROWTH * self.tenure.longest)

    def limits(self, ages: Ages) -> Ages:
        """Return the threshold at each age of the monitor's window."""
        if self.tenure.refusals < COUNTED:
            line = self._reached + self._climb(ages, 0) - self._base
        else:
            line = self._burst + self._slope * ages
        if isinstance(ages, int):  # rounds that come one by one
            limit: int = min(math.ceil(line), LARGEST_LOSS)
            return limit
        return np.asarray(np.minimum(np.ceil(line), LARGEST_LOSS), dtype=np.int64)

    def after(self, end: EpochEnd, published: bytes) -> None:
        """Note a draw that stayed; a change begins a tenure."""
        if end.key is not None:
            self.tenure = Tenure()
            return
        refusals, margin, loss, rounds, longest = self.tenure
        if refusals < COUNTED:
            # At a firing the loss is about the threshold, less what the noise brings it forward by.
            reached = float(self._reached)
            loss += max(reached / 2, reached - EARLY / self._rate)
            rounds += end.epoch_age
        elif not end.aged:
            # The rate has changed, and no rule is better: half of what was known is kept.
            loss = loss / 2 + self._burst + self._slope * end.window_age
            rounds = rounds / 2 + end.window_age
        self.tenure = Tenure(refusals + 1, margin, loss, rounds, max(longest, end.epoch_age))

    def dump(self) -> State:
        """Return the tenure as JSON data."""
        return {"tenure": list(self.tenure)}

    def load(self, state: State) -> None:
        """Load what `dump` returned."""
        self.tenure = Tenure(*state["tenure"])

    @property
    def _level(self) -> int:
        return min(self._base + self.tenure.margin, LARGEST_LOSS)

    @property
    def _reached(self) -> int:
        """Return the loss at which a draw is made while draws are counted."""
        return self._level * int(GROWTH**self.tenure.refusals)

    @property
    def _burst(self) -> int:
        return max(BURST * self._units, self._level)

    @property
    def _slope(self) -> float:
        return self.tenure.loss / max(self.tenure.rounds, 1.0)

    def _at_checks(self, rounds: float) -> int:
        """Return a number of rounds that is whole checks, at least one."""
        whole_checks = int(min(rounds, float(LARGEST_LOSS))) // self._every
        return max(1, whole_checks) * self._every


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
