"""Gate the practical plan with epochs: a firing starts afresh, so epochs compose in parallel.

The monitor is paid once, because each round is read in one of its epochs only (after Asi, Feldman,
Koren and Talwar 2023). The ballot, too, holds only rounds since the last firing, so the selector
is paid once: releases are unlimited and nothing is ever used up. Proofs: docs/guarantee.md,
Theorems 3, 7 and 10.
"""

from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from littlestone.privacy.above_threshold import MistakesMonitor
from littlestone.privacy.accounting import Cost, Event, Unit
from littlestone.privacy.exact import BadParameter, Numbers, Real, whole, whole_numbers
from littlestone.privacy.gate import STAY, Ballot, Decision, Gate, Selector, Step
from littlestone.privacy.noise import Noise
from littlestone.privacy.spender import State, whole_field


class MistakesGate(Gate[Ballot]):
    """Fire when the published rule makes too many mistakes, then select.

    Requires: given the transcript, a replaced example changes the mistakes of one check by at most
    one, and the ballot within the selector's terms; the ballot holds rounds since the last firing
    only: *epochs all the way*, each with the whole budget, without end.
    Per user: at most `cap` rounds a user over the whole stream, and the rounds that a user has in
    one epoch reach one tree, so that they move one vote (for scores: a sensitivity of `cap`).
    Promises: the transcript is differentially private at `guarantee`.

    Parameters
    ----------
    noise
        Where all noise is drawn.
    epsilon
        The monitor's epsilon, paid once.
    selector
        Picks the key at a firing.
    threshold
        Returns the threshold for (age, refusals): the rounds since the epoch began (one number, or
        an array for a run of checks), and how often in a row the selector has returned None. It is
        public, because it reads nothing else.
    published
        The first key.
    check_every
        The rounds from one check to the next.
    restart_every
        The rounds after which an epoch of the monitor ends without a firing, or None.
    cap
        The most rounds of one user; for `unit="user"` only.
    leave_out_published
        Whether the published key is left out of the next selection.
    unit
        What is protected whole: an event or a user.

    Examples
    --------
    >>> from littlestone.privacy import StableHistogram
    >>> from littlestone.privacy.rehearsal import ScriptedNoise
    >>> gate = MistakesGate(ScriptedNoise({}), epsilon=0.25, published=b"old", check_every=8,
    ...                     selector=StableHistogram(epsilon=0.75, delta=1e-6),
    ...                     threshold=lambda age, refusals: 12)
    >>> gate.check(7, {b"new": 30})
    Decision(fired=False, key=None)
    >>> gate.check(7, {b"new": 60})
    Decision(fired=True, key=b'new')
    >>> print(gate.guarantee)
    no privacy at all: the noise was ScriptedNoise(NOT PRIVATE)
    """

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real,
        selector: Selector[Ballot],
        threshold: Callable[[Any, int], Any],
        published: bytes,
        check_every: int = 1,
        restart_every: int | None = None,
        cap: int | None = None,
        leave_out_published: bool = True,
        unit: Unit = "event",
    ) -> None:
        super().__init__(noise, selector, published, leave_out_published, unit)
        if (unit == "user") != (cap is not None):
            raise BadParameter("unit='user' needs a cap on a user's rounds, and only it has one")
        self._monitor = MistakesMonitor(noise, epsilon=epsilon, cap=1 if cap is None else cap)
        self._threshold = threshold
        self.check_every = whole(check_every, "check_every", least=1)
        self.restart_every = (
            None if restart_every is None else whole(restart_every, "restart_every", least=1)
        )
        self.age = self.refusals = 0

    @property
    def exhausted(self) -> bool:
        """Return False: with epochs the published key is never final."""
        return False

    def check(self, mistakes: SupportsIndex, ballot: Ballot) -> Decision:
        """Make one scheduled check. After a firing the caller empties what its ballots hold.

        Parameters
        ----------
        mistakes
            The mistakes of the last `check_every` rounds (private).
        ballot
            What the selector reads (private).

        Returns
        -------
        Decision
            Whether it fired, and the key selected: both public.
        """
        mistakes = whole(mistakes, "mistakes", least=0)
        if mistakes > self.check_every:
            raise BadParameter(f"{mistakes} mistakes in {self.check_every} rounds")
        with self._step:
            age = self.age + self.check_every
            fired = self._monitor.check(mistakes, self._threshold(age, self.refusals))
            self.age = age
            if fired:
                return self._fire(ballot)
            self._restart_if_due()
            return STAY

    def run(self, mistakes: Numbers, ballot: Callable[[int], Ballot]) -> Step:
        """Make checks in a row, up to the first that fires: as many calls of `check`, in one.

        Parameters
        ----------
        mistakes
            The mistakes of each check (private).
        ballot
            Returns the ballot at a check of this run, by its index; called at a firing only.

        Returns
        -------
        Step
            How many checks were made, and the decision of the last.
        """
        counts = whole_numbers(mistakes, "mistakes", least=0)
        if len(counts) and counts.max() > self.check_every:
            raise BadParameter(f"{counts.max()} mistakes in {self.check_every} rounds")
        with self._step:
            done = 0
            while done < len(counts):
                part = counts[done : done + self.checks_to_restart]
                ages = self.age + self.check_every * np.arange(1, len(part) + 1)
                limits = np.broadcast_to(self._threshold(ages, self.refusals), ages.shape)
                fired = self._monitor.run(part, limits)
                if fired is not None:
                    return Step(done + fired + 1, self._fire(ballot(done + fired)))
                done += len(part)
                self.age += len(part) * self.check_every
                self._restart_if_due()
            return Step(len(counts), STAY)

    @property
    def checks_to_restart(self) -> int:
        """Return how many checks are left before the public restart."""
        if self.restart_every is None:
            return 1 << 62
        return -(-(self.restart_every - self.age) // self.check_every)

    def _restart_if_due(self) -> None:
        if self.restart_every is not None and self.age >= self.restart_every:
            self._monitor.restart()
            self.age = 0

    def _fire(self, ballot: Ballot) -> Decision:
        self.age = 0
        decision = self._release(ballot)
        self.refusals = self.refusals + 1 if decision.key is None else 0
        return decision

    @property
    def ledger(self) -> tuple[Event, ...]:
        name, cost = self._selector.name, self._selector.cost
        return (
            self._event("mistakes monitor", self._monitor.cost),
            *(self._event(name, cost, epoch) for epoch in range(self.releases_made)),
        )

    @property
    def spent(self) -> Cost:
        """Return what `spent(ledger, touched=cap)` adds up to, without writing the ledger out."""
        read = min(self.releases_made, self._monitor.cap)
        return self._monitor.cost + self._selector.cost.times(read)

    @property
    def _user_cap(self) -> int | None:
        return self._monitor.cap if self.unit == "user" else None

    def _total(self) -> Cost:
        # Theorem 7: one unit's rounds are read by at most `cap` selections (per event, one).
        return self._monitor.cost + self._selector.cost.times(self._monitor.cap)

    def _promise(self) -> State:
        return {
            **super()._promise(),
            "monitor": self._monitor._promise(),
            "check_every": self.check_every,
            "restart_every": self.restart_every,
        }

    def _live(self) -> State:
        return {
            **super()._live(),
            "age": self.age,
            "refusals": self.refusals,
            "monitor": self._monitor._state(),
        }

    def _revive(self, live: State) -> None:
        super()._revive(live)
        self.age, self.refusals = whole_field(live, "age"), whole_field(live, "refusals")
        self._monitor.resume(live["monitor"])
