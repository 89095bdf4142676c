"""Draw a rule or stay with the published one: epochs that end at a firing or at a public age.

`StayGate` is the mistakes monitor with a draw that may also leave the published rule in place. All
that decides when it checks, at which threshold, and how hard a change is, is the state of the
*tenure* of the published rule: how often in a row the draw has stayed, when, and a public margin.
It is a function of the transcript (docs/guarantee.md, Theorem 17).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, SupportsIndex

import numpy as np

from littlestone._privacy.exponential import ExponentialMechanism, Scores
from littlestone._privacy.gates import NO_CHANGE, Decision, MistakesGate, Selector, Step
from littlestone._privacy.mechanism import State, whole_field
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, Numbers, Real, whole, whole_numbers

# The key of staying, which names no rule. Its score is the last of a ballot.
STAY = b"stay"


class StayOrDraw(ExponentialMechanism):
    """Select one of a fixed list of candidates, or stay with what is published."""

    name = "exponential mechanism with staying"

    def __init__(self, candidates: Sequence[bytes], *, epsilon: Real, sensitivity: int = 1) -> None:
        super().__init__([*candidates, STAY], epsilon=epsilon, sensitivity=sensitivity)

    def select(
        self, ballot: Scores, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        """Select a candidate, or None to stay."""
        key = super().select(ballot, noise, release, leave_out)
        return None if key == STAY else key


class Tenure(NamedTuple):
    """Hold what a published rule has been through. Public: a function of the transcript."""

    refusals: int = 0
    margin: int = 0
    loss: float = 0.0
    rounds: float = 0.0
    longest: int = 0


class TenureSchedule(Protocol):
    """Return when a gate checks, and at which threshold, from the public tenure."""

    def window(self, tenure: Tenure) -> int | None:
        """Return the rounds after which the monitor starts afresh, or None for never."""

    def epoch(self, tenure: Tenure) -> int | None:
        """Return the rounds after which a draw is made without a firing, or None for never."""

    def thresholds(self, tenure: Tenure, ages: Any) -> Any:
        """Return the threshold at an age of the monitor's window, or at each of an array."""

    def stayed(self, tenure: Tenure, fired_at: int | None, age: int) -> Tenure:
        """Return the tenure after a draw that stayed."""


class StayGate(MistakesGate[Any]):
    """Fire when the published rule loses too much, then draw a rule or stay."""

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real,
        selector: Selector[Any],
        schedule: TenureSchedule,
        published: bytes,
        check_every: int = 1,
        largest_loss: int = 1,
    ) -> None:
        super().__init__(
            noise,
            epsilon=epsilon,
            selector=selector,
            threshold=lambda age, refusals: 0,
            published=published,
            check_every=check_every,
            # Staying is an outcome of its own: the published key would be a second one.
            leave_out_published=True,
            largest_loss=largest_loss,
        )
        self._schedule, self.tenure = schedule, Tenure()
        # `age` is that of the monitor's window, this one that of the counts.
        self.epoch_age = 0

    def set_margin(self, margin: int) -> None:
        """Set the margin of the epoch that begins: a public number of units."""
        if self.epoch_age:
            raise BadParameter("the epoch has begun")
        self.tenure = self.tenure._replace(margin=whole(margin, "margin", least=0))

    def check_with(self, mistakes: SupportsIndex, ballot: Callable[[], Any]) -> Decision:
        """Make one scheduled check, as `run` does with arrays; the ballot is made at a draw only."""
        loss = whole(mistakes, "mistakes", least=0)
        if loss > self.check_every * self.largest_loss:
            raise BadParameter(f"{loss} mistakes in {self.check_every} rounds")
        with self._step:
            age = self.age + self.check_every
            fired = self._monitor.check(loss, self._schedule.thresholds(self.tenure, age))
            due = self._due_after(1)
            if fired or due:
                return self._draw(ballot(), fired=not due)
            self._end_window()
            return NO_CHANGE

    def run(self, mistakes: Numbers, ballot: Callable[[int], Any]) -> Step:
        """Make checks in a row, up to the first draw."""
        losses = whole_numbers(mistakes, "mistakes", least=0)
        if len(losses) and losses.max() > self.check_every * self.largest_loss:
            raise BadParameter(f"{losses.max()} mistakes in {self.check_every} rounds")
        with self._step:
            done = 0
            while done < len(losses):
                part = losses[done : done + self._checks_left()]
                ages = self.age + self.check_every * np.arange(1, len(part) + 1)
                fired = self._monitor.run(part, self._schedule.thresholds(self.tenure, ages))
                made = len(part) if fired is None else fired + 1
                done += made
                due = self._due_after(made)
                if fired is not None or due:
                    return Step(done, self._draw(ballot(done - 1), fired=not due))
                self._end_window()
            return Step(len(losses), NO_CHANGE)

    def _due_after(self, checks: int) -> bool:
        """Count checks that were made; return whether a draw is due at this age."""
        self.age += checks * self.check_every
        self.epoch_age += checks * self.check_every
        return self._left(self._schedule.epoch, self.epoch_age) == 0

    def _end_window(self) -> None:
        """Restart the monitor at the end of a window: a public schedule, so free (Theorem 3)."""
        if self._left(self._schedule.window, self.age) == 0:
            self._monitor.restart()
            self.age = 0

    def _checks_left(self) -> int:
        """Return how many checks there are before the monitor or the epoch ends by its age."""
        window = self._left(self._schedule.window, self.age)
        return min(window, self._left(self._schedule.epoch, self.epoch_age))

    def _left(self, end: Callable[[Tenure], int | None], age: int) -> int:
        rounds = end(self.tenure)
        return 1 << 62 if rounds is None else max(0, -(-(rounds - age) // self.check_every))

    def _draw(self, ballot: Any, fired: bool) -> Decision:
        """Draw, and begin an epoch. Threshold noise and loss of the monitor are fresh as well."""
        if not fired:
            # A firing has restarted the monitor already; twice is as good.
            self._monitor.restart()
        fired_at, age = self.age if fired else None, self.epoch_age
        self.age = self.epoch_age = 0
        decision = self._release(ballot)
        if decision.key is None:
            self.tenure = self._schedule.stayed(self.tenure, fired_at, age)
        else:
            self.tenure = Tenure()
        self.refusals = self.tenure.refusals
        return Decision(True, decision.key)

    def _parameters(self) -> State:
        return super()._parameters() | {"largest_loss": self.largest_loss}

    def _state_data(self) -> State:
        own = {"epoch_age": self.epoch_age, "tenure": list(self.tenure)}
        return super()._state_data() | own

    def _load_state_data(self, data: State) -> None:
        super()._load_state_data(data)
        self.epoch_age = whole_field(data, "epoch_age")
        self.tenure = Tenure(*data["tenure"])
