"""Add and drop causes privately: weighted loss, unknown keys, private counts of what they match.

The published rule is an or of causes. A missed positive costs 1 and a false alarm costs c, with
0 < c <= 1. Costs are counted in whole units: with c = a/b in lowest terms a missed positive is b
units and a false alarm is a units, so that all noise is integer (docs/guarantee.md, Theorem 15).

Three mechanisms, and one that holds them together:

- `SparseExponential` draws a move: add a key, drop a cause, or nothing. Keys are unknown before
  they occur (after the sparse exponential mechanism of Ghazi, Kumar and Manurangsi 2020).
- `Gate` watches the weighted loss with `CausesSchedule`. Monitor and draw are accounted for jointly:
  where a replaced row moves the monitor it moves the draw less.
- `WindowCounts` releases counts over disjoint windows of rounds.
- `CausesMechanism` has all of them, and an optional first window that is read by nothing else.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._privacy.accounting import NOTHING, Cost, Guarantee, PrivacyEvent, Unit
from littlestone._privacy.draws import Draw, draw_by_score
from littlestone._privacy.gates import Gate, Step
from littlestone._privacy.mechanism import Mechanism, State, whole_field
from littlestone._privacy.noise import Noise, noise_scale
from littlestone._privacy.parameters import (
    BadParameter,
    Numbers,
    Real,
    positive,
    probability,
    whole,
    whole_numbers,
)
from littlestone._privacy.schedules import Ages, EpochEnd, Schedule

Counts = npt.NDArray[np.int64]
Classes = npt.NDArray[np.intp]
# What the key of a move begins with.
ADD, DROP = b"+", b"-"
# The largest margin, in missed positives: scores stay far from the limits of 64 bits.
LARGEST_MARGIN = 1 << 32


class Gains(NamedTuple):
    """Hold what every move would have gained in an epoch, in units. Private."""

    adds: Counts
    classes: Classes
    add_key: Callable[[int], bytes]
    drops: Counts
    drop_keys: Sequence[bytes]


class SparseExponential(Draw[Gains]):
    """Draw a move by its gain: add a key, drop a cause, or nothing."""

    name = "sparse exponential mechanism"

    def __init__(
        self,
        *,
        rate: Real,
        delta: Real,
        prior: Sequence[Fraction],
        alarm: Fraction = Fraction(1),
        drop_penalty: int = 0,
        margin: Callable[[], int] = lambda: 0,
    ) -> None:
        if not 0 < alarm <= 1:
            raise BadParameter(f"a false alarm costs more than 0 and at most 1, not {alarm}")
        self.rate, self.delta = positive(rate, "rate"), probability(delta, "delta")
        # What a missed positive costs in units, of which a false alarm costs a whole number.
        self.alarm, self.units, self._margin = alarm, alarm.denominator, margin
        self.drop_penalty = whole(drop_penalty, "drop_penalty", least=0)
        self.prior = tuple(Fraction(share) for share in prior)
        if not self.prior or any(not 0 < share <= 1 for share in self.prior):
            raise BadParameter("the prior of each class of keys lies above 0 and is at most 1")
        self.cost = Cost(2 * self.rate, self.delta)
        # Whole weights of the classes: nothing and drops first, then the classes of keys.
        rational = [Fraction(1), *(self.delta * share for share in self.prior)]
        common = lcm(*(weight.denominator for weight in rational))
        self._weights = [int(weight * common) for weight in rational]

    def select(
        self, scores: Gains, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        """Draw a move: ADD or DROP and the bytes of a key, or None for nothing."""
        values, classes = self.scored(scores)
        drawn = draw_by_score(
            values,
            self.rate / self.units,
            noise,
            release,
            classes=classes,
            weights=self._weights,
        )
        if drawn == 0:
            return None
        if drawn <= len(scores.drops):
            return DROP + scores.drop_keys[drawn - 1]
        return ADD + scores.add_key(drawn - 1 - len(scores.drops))

    def scored(self, gains: Gains) -> tuple[Counts, Classes]:
        """Return the scores and weight classes of nothing, all drops and all adds, in that order."""
        # A margin is public and at least 0, and is taken off every key alike: a key that is active
        # in one world only becomes lighter, and differences stay what they are (Theorem 15).
        margin = min(whole(self._margin(), "margin", least=0), LARGEST_MARGIN)
        # Theorem 15: gains - 1, so that a key which one row alone makes active has score <= 0.
        adds = gains.adds - (1 + margin) * self.units
        drops = gains.drops - self.drop_penalty * self.units
        scores = np.concatenate([np.zeros(1, dtype=np.int64), drops, adds])
        fixed = np.zeros(1 + len(drops), dtype=np.intp)
        return scores, np.concatenate([fixed, gains.classes + 1])

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """Return the weight of each class at score 0: nothing and drops first, then keys."""
        return tuple(Fraction(weight, self._weights[0]) for weight in self._weights)

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        return super().parameters() | {
            "rate": str(self.rate),
            "prior": ", ".join(map(str, self.prior)),
            "alarm": str(self.alarm),
            "drop_penalty": str(self.drop_penalty),
        }

    def joint(self, monitor: Cost, reads: int) -> Cost:
        """Return what monitor and draws cost together: all of it from the first check on."""
        if reads > 1:
            raise BadParameter("the joint cost is that of one round: groups pay by Theorem 14")
        # Theorem 15: where a replaced row moves the monitor, it moves the draw less.
        epsilon = max(2 * self.rate, monitor.epsilon + (1 + self.alarm) * self.rate)
        return Cost(epsilon, self.delta)


class CausesSchedule(Schedule):
    """Raise the threshold after nothing was drawn; end epochs by age; ask for a margin."""

    def __init__(
        self, threshold: Callable[[Any, int, Fraction, int], Any], longest_epoch: int = 1 << 40
    ) -> None:
        self._threshold, self._longest = threshold, whole(longest_epoch, "longest_epoch", least=1)
        # In units; 0 until an epoch has ended with nothing, and after a move.
        self.loss_rate = Fraction(0)
        # Epochs since the last move that have reached their age.
        self.margin = self.aged = 0

    def begin_epoch(self, rounds: int, margin: int = 0) -> None:
        """Set what is public of the epoch: both must follow from what was released."""
        self._longest = whole(rounds, "rounds", least=1)
        self.margin = min(whole(margin, "margin", least=0), LARGEST_MARGIN)

    @property
    def epoch(self) -> int:
        """Return the rounds after which a move is drawn without a firing."""
        return self._longest

    def limits(self, ages: Ages) -> Any:
        """Return the threshold at each age."""
        return self._threshold(ages, self.refusals, self.loss_rate, self.margin)

    def after(self, end: EpochEnd, published: bytes) -> None:
        """Note what a round has cost, if the monitor has fired in vain."""
        self.aged = self.aged + end.aged if end.key is None else 0
        if end.key is not None:
            self.refusals, self.loss_rate = 0, Fraction(0)
        elif end.fired:
            # At a firing the loss is about the threshold, which is public: so is the rate.
            reached = int(self.limits(end.window_age))
            self.refusals += 1
            self.loss_rate = Fraction(reached, end.window_age)

    def dump(self) -> State:
        """Return what the schedule knows, as JSON data."""
        public = {"ends": self._longest, "margin": self.margin, "aged": self.aged}
        return super().dump() | {"rate": str(self.loss_rate)} | public

    def load(self, state: State) -> None:
        """Load what `dump` returned."""
        super().load(state)
        self.loss_rate, self.aged = Fraction(state["rate"]), whole_field(state, "aged")
        self.begin_epoch(whole_field(state, "ends", least=1), whole_field(state, "margin"))


class WindowCounts(Mechanism):
    """Release the counts of disjoint windows of rounds, with discrete Laplace noise."""

    def __init__(self, noise: Noise, *, epsilon: Real, name: str) -> None:
        super().__init__()
        self.cost = Cost(positive(epsilon, "epsilon"))
        self._noise, self.name = noise, name
        # A replaced round leaves one cell and enters another: an L1 sensitivity of 2.
        self.scale = noise_scale(2 / self.cost.epsilon)
        self.windows = 0

    def release(self, counts: Numbers) -> list[int]:
        """Return the counts of a window with noise, and begin the next window."""
        exact = whole_numbers(counts, "counts", least=0)
        with self._step:
            number, self.windows = self.windows, self.windows + 1
            return [
                int(count) + self._noise.laplace(self.scale, (self.name, number, cell))
                for cell, count in enumerate(exact)
            ]

    def _parameters(self) -> State:
        return {"epsilon": str(self.cost.epsilon), "name": self.name, "noise": repr(self._noise)}

    def _state_data(self) -> State:
        return {"windows": self.windows}

    def _load_state_data(self, data: State) -> None:
        self.windows = whole_field(data, "windows")


class CausesMechanism(Mechanism):
    """Hold all mechanisms of a causes learner: a first window, the gate, and the evidence."""

    def __init__(
        self,
        noise: Noise,
        *,
        per_round: Cost,
        epsilon_evidence: Fraction,
        gate: Callable[[Fraction, Fraction], Gate[Gains]],
        cost: Fraction | None,
        unit: Unit = "event",
        cap: int | None = None,
    ) -> None:
        super().__init__()
        if (unit == "user") != (cap is not None):
            raise BadParameter("unit='user' requires a cap on a user's rounds; 'event' has none")
        self._noise, self.unit, self._cap = noise, unit, cap
        self._per_round, self._make_gate, self._given = per_round, gate, cost
        self.evidence = WindowCounts(noise, epsilon=epsilon_evidence, name="evidence")
        self._first = WindowCounts(noise, epsilon=per_round.epsilon, name="first window")
        self.gate: Gate[Gains] | None = None
        self.cost: Fraction | None = None
        self.base = Fraction(0)
        if cost is not None:
            self.begin(cost)

    # Releases are unlimited.
    exhausted = False

    def release_first(self, counts: Numbers) -> list[int]:
        """Return the noisy counts of the first window, which ends here."""
        if self._given is not None or self._first.windows:
            raise BadParameter("there is one first window at most, before everything else")
        return self._first.release(counts)

    def begin(self, cost: Fraction, base: Fraction = Fraction(0)) -> None:
        """Make the gate."""
        if self.gate is not None:
            raise BadParameter("the gate has begun: its cost of false alarms is fixed")
        gate = self._make_gate(cost, base)
        # What the gate and the evidence read, they both read.
        total = gate.total + self.evidence.cost
        if total.epsilon > self._per_round.epsilon or total.delta > self._per_round.delta:
            raise BadParameter("gate and evidence together cost more than a round may cost")
        self.gate, self.cost, self.base = gate, cost, base

    def run(self, losses: Numbers, ballot: Callable[[int], Gains]) -> Step:
        """Make checks in a row, up to the first that fires (see `Gate.run`)."""
        if self.gate is None:
            raise BadParameter("the first window has not ended")
        with self._step:
            return self.gate.run(losses, ballot)

    @property
    def first_scale(self) -> Fraction:
        """Return the scale of the noise of the first window."""
        return self._first.scale

    @property
    def releases_made(self) -> int:
        """Return how many draws were made."""
        return 0 if self.gate is None else self.gate.releases_made

    @property
    def guarantee(self) -> Guarantee:
        """Return what all that is released guarantees, however long the stream gets."""
        cost = self._per_round.for_group(self._cap or 1)
        return Guarantee.of(cost, self._noise, self.unit, self._cap)

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far."""
        noise = repr(self._noise)
        first = [PrivacyEvent("first window", self._first.cost, 0, noise)] * self._first.windows
        evidence = [
            PrivacyEvent("evidence", self.evidence.cost, window, noise)
            for window in range(self.evidence.windows)
        ]
        return (*first, *(self.gate.ledger if self.gate else ()), *evidence)

    @property
    def spent(self) -> Cost:
        """Return what one round may have cost so far; never more than the guarantee."""
        gate = NOTHING if self.gate is None else self.gate.spent
        later = gate + (self.evidence.cost if self.evidence.windows else NOTHING)
        first = self._first.cost if self._first.windows else NOTHING
        # Disjoint rounds: the larger of the two, not the sum.
        largest = Cost(max(first.epsilon, later.epsilon), max(first.delta, later.delta))
        return largest.for_group(self._cap or 1)

    def _parameters(self) -> State:
        return {
            "epsilon": str(self._per_round.epsilon),
            "delta": str(self._per_round.delta),
            "evidence": self.evidence._parameters(),
            "cost": None if self._given is None else str(self._given),
            "unit": self.unit,
            "cap": self._cap,
        }

    def _state_data(self) -> State:
        return {
            "first": self._first._state(),
            "evidence": self.evidence._state(),
            "cost": None if self.cost is None else str(self.cost),
            "base": str(self.base),
            "gate": None if self.gate is None else self.gate._state(),
        }

    def _load_state_data(self, data: State) -> None:
        self._first.resume(data["first"])
        self.evidence.resume(data["evidence"])
        if data["gate"] is not None:
            if self.gate is None:
                self.begin(Fraction(data["cost"]), Fraction(data["base"]))
            assert self.gate is not None
            self.gate.resume(data["gate"])
