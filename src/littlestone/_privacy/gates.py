"""Publish a rule: one gate, made of a public schedule and a private draw.

Only here does private become public. A gate watches the loss of what is published. It fires when
the noisy loss reaches a noisy threshold, or when an epoch has reached a public age; then a key is
drawn, and a new epoch begins. Without a monitor epochs end by age only. What `run` returns, (drawn,
key or None) of each check, is the transcript, and the transcript is all that is released
(docs/guarantee.md, Theorem 7).

- The `Schedule` is public: it says what the thresholds are and when epochs end, and reads nothing
  but the transcript, released evidence included.
- The `Draw` is private: it reads the scores of one epoch, and no round of another.

Each round is read by the monitor and the draw of its own epoch, so epochs compose in parallel, and
releases are unlimited (after Asi, Feldman, Koren and Talwar 2023).
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from littlestone._privacy.accounting import NOTHING, Cost, Guarantee, PrivacyEvent, Unit
from littlestone._privacy.draws import Draw
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
from littlestone._privacy.schedules import EpochEnd, Schedule

Scores = TypeVar("Scores")
# More checks than any stream has.
UNLIMITED = 1 << 62


class MistakesMonitor:
    """Count mistakes since the epoch began; pay epsilon once, however often it fires (Theorem 3).

    A part of a gate, which guards its steps. The threshold noise is drawn once an epoch and used
    in all of its checks.
    """

    def __init__(self, noise: Noise, *, epsilon: Real, cap: int = 1) -> None:
        self._noise, self.cap = noise, whole(cap, "cap", least=1)
        self.checks = self.epoch = self.mistakes = 0
        self.set_epsilon(epsilon)
        self._threshold_draw: int | None = None

    def set_epsilon(self, epsilon: Real) -> None:
        """Set what an epoch costs, before its first check."""
        self.cost = Cost(positive(epsilon, "epsilon"))
        # Theorem 3, "Users": replacing `cap` rounds one at a time costs `cap` times 1/scale.
        self.threshold_scale = self.query_scale = noise_scale(self.cap / self.cost.epsilon)

    def advance(self, mistakes: Sequence[int] | Gaps, thresholds: Gaps | int) -> int | None:
        """Make checks in a row, up to the first that fires: return which, or None."""
        # Theorem 3: the query is the sum since the epoch began, so one replaced round shifts it by a
        # constant from its check on.
        if len(mistakes) == 1:
            last = self.mistakes + int(mistakes[0])
            # Theorem 3 asks for the threshold noise in every comparison: it pays for every "no".
            gap, address = (
                int(thresholds) + self._threshold_noise() - last,
                ("query", self.checks, 0),
            )
            fired = (
                0 if self._noise.exceeds(gap, self.query_scale, address, one_sided=True) else None
            )
        elif len(mistakes):
            sums = self.mistakes + np.cumsum(mistakes)
            gaps = thresholds + self._threshold_noise() - sums
            last, scale = int(sums[-1]), self.query_scale
            fired = self._noise.first_exceeding(gaps, scale, self.checks, one_sided=True)
        else:
            return None
        # Nothing is counted before its noise is drawn: checks whose noise failed can be tried again.
        self.mistakes = last
        self.checks += len(mistakes) if fired is None else fired + 1
        if fired is not None:
            self.restart()
        return fired

    def restart(self) -> None:
        """Begin a new epoch; free, when it happens on a public schedule."""
        # Both must go: a count that survives is read by later firings, and threshold noise that
        # paid for a shift up is wrong for every later epoch (Theorem 3, "Why it breaks").
        self.epoch += 1
        self.mistakes, self._threshold_draw = 0, None

    def _threshold_noise(self) -> int:
        if self._threshold_draw is None:
            address = ("threshold", self.epoch, 0)
            self._threshold_draw = self._noise.geometric(self.threshold_scale, address)
        return self._threshold_draw

    def parameters(self) -> State:
        """Return the public parameters on which the guarantee rests."""
        return {"epsilon": str(self.cost.epsilon), "cap": self.cap, "noise": repr(self._noise)}

    def dump(self) -> State:
        """Return what the next check needs, live noise included."""
        counts = {"checks": self.checks, "epoch": self.epoch, "mistakes": self.mistakes}
        return {**counts, "threshold_noise": self._threshold_draw}

    def load(self, state: State) -> None:
        """Load what `dump` returned."""
        self.checks, self.epoch = whole_field(state, "checks"), whole_field(state, "epoch")
        self.mistakes = whole_field(state, "mistakes")
        self._threshold_draw = threshold_noise_field(state)


class Decision(NamedTuple):
    """Hold what one check makes public: whether a draw was made, and what it selected."""

    drawn: bool
    key: bytes | None


NO_CHANGE = Decision(False, None)


class Step(NamedTuple):
    """Hold how many checks a run made, and what the last one decided."""

    checks: int
    decision: Decision


class Gate(Mechanism, Generic[Scores]):
    """Watch a loss on a public schedule; draw a key where it is too large."""

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real | None,
        schedule: Schedule,
        draw: Draw[Scores],
        published: bytes = b"",
        check_every: int = 1,
        largest_loss: int = 1,
        unit: Unit = "event",
        cap: int | None = None,
        leave_out_published: bool = True,
    ) -> None:
        super().__init__()
        # `str` keys would compare unequal to every selected key, and the published one would never
        # be left out.
        if type(published) is not bytes:
            raise BadParameter(f"the first published key must be bytes, not {published!r}")
        # Theorem 7, "Users": without a cap, the draws that read a user are unlimited.
        if unit not in ("event", "user") or (unit == "user") != (cap is not None):
            raise BadParameter(
                "unit='user' requires a cap on a user's rounds, and unit='event' has none"
            )
        self.check_every = whole(check_every, "check_every", least=1)
        self.largest_loss = whole(largest_loss, "largest_loss", least=1)
        self.unit, self._cap, self._reads = unit, cap, 1 if cap is None else cap
        # Theorem 3 counts in units: one round shifts the loss by at most `largest_loss` of them.
        cap = self._reads * self.largest_loss
        self.monitor = None if epsilon is None else MistakesMonitor(noise, epsilon=epsilon, cap=cap)
        self._noise, self.schedule, self.draw = noise, schedule, draw
        self.published, self.leave_out_published = published, leave_out_published
        self.releases_made = 0
        # Of the monitor's window and of the epoch, in rounds.
        self.window_age = self.epoch_age = 0

    # Releases are unlimited.
    exhausted = False

    def begin_epoch(self, epsilon: Real | None, draw: Draw[Scores]) -> None:
        """Choose the monitor's epsilon and the draw anew, by public numbers alone (Theorem 7)."""
        if self.epoch_age:
            raise BadParameter("an epoch is under way: its terms are fixed")
        if (epsilon is None) != (self.monitor is None):
            raise BadParameter("a gate has a monitor from its first epoch on, or never")
        if self.monitor is not None and epsilon is not None:
            # The threshold noise of an epoch is drawn at its first check: none is drawn yet.
            self.monitor.set_epsilon(epsilon)
        self.draw = draw
        vars(self).pop("_identity", None)

    def run(self, losses: Numbers, scores: Callable[[int, bool], Scores]) -> Step:
        """Make checks in a row, up to the first that draws.

        `scores` is called at a draw only, with its check and whether the monitor has fired. After a
        draw the caller discards all rounds up to its check.
        """
        # One check is made without arrays, which would take longer than all else.
        counts: Sequence[int] | npt.NDArray[np.int64]
        if len(losses) == 1:
            counts = [largest := whole(losses[0], "losses", least=0)]
        else:
            counts = whole_numbers(losses, "losses", least=0)
            largest = int(counts.max(initial=0))
        # A larger loss than rounds can have would break the sensitivity that the monitor requires.
        if largest > self.check_every * self.largest_loss:
            raise BadParameter(f"a loss of {largest} in {self.check_every} rounds")
        with self._step:
            done = 0
            while done < len(counts):
                # The monitor sees one window at a time, and a part never crosses its end.
                to_age = self.checks_to_epoch_end
                part = counts[done : done + min(self._to_window_end, to_age)]
                fired = None
                if self.monitor is not None:
                    checks = np.arange(1, len(part) + 1) if len(part) > 1 else 1
                    ages = self.window_age + self.check_every * checks
                    fired = self.monitor.advance(part, self.schedule.limits(ages))
                made = len(part) if fired is None else fired + 1
                done += made
                aged = to_age <= made
                self.window_age += made * self.check_every
                self.epoch_age += made * self.check_every
                if fired is not None or aged:
                    read = scores(done - 1, fired is not None)
                    return Step(done, self._end_epoch(read, fired is not None, aged))
                self._end_window()
            return Step(len(counts), NO_CHANGE)

    @property
    def checks_to_epoch_end(self) -> int:
        """Return how many checks there are before the epoch ends by its age."""
        return self._checks_to(self.schedule.epoch, self.epoch_age)

    @property
    def _to_window_end(self) -> int:
        return self._checks_to(self.schedule.window, self.window_age)

    def _checks_to(self, end: int | None, age: int) -> int:
        # At least one: an end that has passed is reached at the next check.
        return UNLIMITED if end is None else max(1, -(-(end - age) // self.check_every))

    def _end_window(self) -> None:
        """Restart the monitor at the end of its window: a public time, so free (Theorem 3)."""
        if self.schedule.window is not None and self.window_age >= self.schedule.window:
            self._restart_monitor()
            self.window_age = 0

    def _restart_monitor(self) -> None:
        if self.monitor is not None:
            self.monitor.restart()

    def _end_epoch(self, scores: Scores, fired: bool, aged: bool) -> Decision:
        """Draw, and begin an epoch: nothing that this draw read is read again."""
        if not fired:
            # At a firing the monitor has begun afresh by itself.
            self._restart_monitor()
        # Charged first: a draw that fails on the way, or selects None, costs as much. The number
        # is part of every noise address: two releases must not have the same.
        number = self.releases_made
        self.releases_made += 1
        ages = self.window_age, self.epoch_age
        self.window_age = self.epoch_age = 0
        published = self.published if self.leave_out_published else None
        key = self.draw.select(scores, self._noise, number, published)
        # Theorem 7: the epoch ends whatever was drawn. None leaves what is published.
        self.schedule.after(EpochEnd(key, fired, aged, *ages), self.published)
        if key is not None:
            self.published = key
        return Decision(True, key)

    @property
    def total(self) -> Cost:
        """Return the exact cost of all epochs that cost no more than the present one."""
        # Theorem 7: one unit's rounds are read by at most `cap` draws (per event, one).
        return self.draw.joint(self._watching, self._reads)

    @property
    def _watching(self) -> Cost:
        return NOTHING if self.monitor is None else self.monitor.cost

    @property
    def guarantee(self) -> Guarantee:
        """Return what the whole transcript guarantees, however long it gets."""
        return Guarantee.of(self.total, self._noise, self.unit, self._cap)

    @property
    def spent(self) -> Cost:
        """Return what one unit may have cost so far: never more than the guarantee."""
        return self.draw.joint(self._watching, self._reads if self.releases_made else 0)

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far."""
        noise, before = repr(self._noise), self.draw.joint(self._watching, 0)
        monitor = [PrivacyEvent("monitor", before, None, noise)] * (self.monitor is not None)
        if before == self.total:
            return tuple(monitor)
        draws = range(self.releases_made)
        uses = (PrivacyEvent(self.draw.name, self.draw.cost, epoch, noise) for epoch in draws)
        return (*monitor, *uses)

    def _parameters(self) -> State:
        return {
            "draw": self.draw.parameters(),
            "monitor": None if self.monitor is None else self.monitor.parameters(),
            "check_every": self.check_every,
            "largest_loss": self.largest_loss,
            "leave_out_published": self.leave_out_published,
            "unit": self.unit,
        }

    def _state_data(self) -> State:
        return {
            "published": self.published.hex(),
            "releases_made": self.releases_made,
            "window_age": self.window_age,
            "epoch_age": self.epoch_age,
            "schedule": self.schedule.dump(),
            "monitor": None if self.monitor is None else self.monitor.dump(),
        }

    def _load_state_data(self, data: State) -> None:
        self.published = bytes.fromhex(data["published"])
        self.releases_made = whole_field(data, "releases_made")
        self.window_age = whole_field(data, "window_age")
        self.epoch_age = whole_field(data, "epoch_age")
        self.schedule.load(data["schedule"])
        if self.monitor is not None:
            self.monitor.load(data["monitor"])
