"""Decide when to change the published rule: the sparse vector technique, on integers.

A monitor compares query + noise with threshold + threshold noise, where the threshold noise is drawn
once and used in many checks. Thresholds are public. `paper.AboveThreshold` is the other monitor.
Proofs: docs/guarantee.md, Theorems 2 and 3.
"""

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np

from littlestone._privacy.accounting import Cost
from littlestone._privacy.mechanism import Mechanism, State, threshold_noise_field, whole_field
from littlestone._privacy.noise import Gaps, Noise, noise_scale
from littlestone._privacy.parameters import (
    BadParameter,
    Numbers,
    Real,
    positive,
    whole,
    whole_numbers,
)


class Monitor(Mechanism):
    """Hold the noise of a monitor: scales, and the threshold noise of an epoch."""

    _one_sided: ClassVar[bool]
    epoch = 0

    def __init__(self, noise: Noise, epsilon: Real) -> None:
        super().__init__()
        self._noise, self.cost = noise, Cost(positive(epsilon, "epsilon"))
        self.checks = 0
        self._threshold_draw: int | None = None

    @abstractmethod
    def _scales(self) -> tuple[Fraction, Fraction]:
        """Return the scales of the threshold noise and of the query noise."""

    def _set_scales(self) -> None:
        # The raised scales are those that are drawn and accounted with: never less than claimed.
        self._threshold_scale, self._query_scale = map(noise_scale, self._scales())

    def _threshold_noise(self) -> int:
        """Return the threshold noise of this epoch, drawn when it is first needed."""
        if self._threshold_draw is None:
            draw = self._noise.geometric if self._one_sided else self._noise.laplace
            self._threshold_draw = draw(self._threshold_scale, ("threshold", self.epoch, 0))
        return self._threshold_draw


class MistakesMonitor(Monitor):
    """Count mistakes since the epoch began; pay epsilon once, however often it fires (Theorem 3)."""

    _one_sided = True

    def __init__(self, noise: Noise, *, epsilon: Real, cap: int = 1) -> None:
        super().__init__(noise, epsilon)
        self.cap = whole(cap, "cap", least=1)
        self._mistakes = 0
        self._set_scales()

    def run(self, mistakes: Numbers, thresholds: Numbers) -> int | None:
        """Make checks in a row, up to the first that fires. Vectorised."""
        fresh = whole_numbers(mistakes, "mistakes", least=0)
        limits = whole_numbers(thresholds, "thresholds")
        # `numpy` would broadcast one threshold in silence.
        if len(fresh) != len(limits):
            raise BadParameter(f"{len(fresh)} checks and {len(limits)} thresholds")
        with self._step:
            return self.advance(fresh, limits if len(limits) > 1 else sum(limits))

    def advance(self, fresh: Sequence[int] | Gaps, limits: Gaps | int) -> int | None:
        """Make checks of whole numbers in a row, as `run` does, in the step of whoever owns this."""
        # Theorem 3: the query is the sum since the epoch began, so one replaced round shifts it by a
        # constant from its check on.
        if len(fresh) == 1:
            last = self._mistakes + int(fresh[0])
            # Theorem 3 asks for the threshold noise in every comparison: it pays for every "no".
            gap, at = int(limits) + self._threshold_noise() - last, ("query", self.checks, 0)
            fired = 0 if self._noise.exceeds(gap, self._query_scale, at, one_sided=True) else None
        elif len(fresh):
            sums = self._mistakes + np.cumsum(fresh)
            gaps = limits + self._threshold_noise() - sums
            last, scale = int(sums[-1]), self._query_scale
            fired = self._noise.first_exceeding(gaps, scale, self.checks, one_sided=True)
        else:
            return None
        # Nothing is counted before its noise is drawn: a run that failed can be tried again.
        self._mistakes = last
        self.checks += len(fresh) if fired is None else fired + 1
        if fired is not None:
            self._begin_epoch()
        return fired

    def restart(self) -> None:
        """Begin a new epoch; free, when it happens on a public schedule."""
        with self._step:
            self._begin_epoch()

    def _scales(self) -> tuple[Fraction, Fraction]:
        # Theorem 3, "Users": replacing `cap` rounds one at a time costs `cap` times 1/scale.
        return self.cap / self.cost.epsilon, self.cap / self.cost.epsilon

    def _begin_epoch(self) -> None:
        # Both must go: a count that survives is read by later firings, and threshold noise that
        # paid for a shift up is wrong for every later epoch (Theorem 3, "Why it breaks").
        self.epoch += 1
        self._mistakes, self._threshold_draw = 0, None

    def _parameters(self) -> State:
        return {"epsilon": str(self.cost.epsilon), "cap": self.cap, "noise": repr(self._noise)}

    def _state_data(self) -> State:
        counts = {"checks": self.checks, "epoch": self.epoch, "mistakes": self._mistakes}
        return {**counts, "threshold_noise": self._threshold_draw}

    def _load_state_data(self, data: State) -> None:
        self.checks, self.epoch = whole_field(data, "checks"), whole_field(data, "epoch")
        self._mistakes = whole_field(data, "mistakes")
        self._threshold_draw = threshold_noise_field(data)
