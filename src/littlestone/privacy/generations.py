"""Generations: ballots that remember for a while, and a budget that never ends (Theorem 10).

A generation is a run of epochs that share one memory: its ballots hold the rounds since it began.
It makes a public number of releases, which add up to the selector's budget; then the memory is
emptied and the next generation has the whole budget again. A round is read in one generation only,
so generations compose in parallel, as epochs do: epochs all the way are generations of one release.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from littlestone.privacy.accounting import NOTHING, Cost, Event
from littlestone.privacy.epochs import MistakesGate
from littlestone.privacy.exact import BadParameter, Real, whole
from littlestone.privacy.gate import Ballot, Decision, Selector
from littlestone.privacy.noise import Noise
from littlestone.privacy.spender import State


class GenerationsGate(MistakesGate[Ballot]):
    """Fires when the published rule makes too many mistakes, then asks the generation's selector.

    Requires: given the transcript, a replaced example changes the mistakes of one check by at most
    one, and a ballot within its selector's terms; a ballot holds rounds since its generation began
    only. Promises: the transcript is differentially private at `guarantee`: the monitor once, and
    the dearest generation once, for any number of releases.

    The first `singles` generations make one release, by `alone`; every later one makes `releases`,
    each by `shared`. The published key stays among the candidates: a false alarm does no harm.

    >>> from littlestone.privacy import ExponentialMechanism
    >>> from littlestone.privacy.rehearsal import ScriptedNoise
    >>> keys = [b"old", b"new"]
    >>> gate = GenerationsGate(ScriptedNoise({}), epsilon=0.4, published=b"old", singles=1,
    ...                        alone=ExponentialMechanism(keys, epsilon=0.6),
    ...                        shared=ExponentialMechanism(keys, epsilon=0.2), releases=3,
    ...                        threshold=lambda age, refusals: 1)
    >>> [(gate.check(1, [-90, 0]).key, gate.generation) for _ in range(5)]
    [(b'new', 1), (b'new', 1), (b'new', 1), (b'new', 2), (b'new', 2)]
    """

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real,
        alone: Selector[Ballot],
        singles: int,
        shared: Selector[Ballot],
        releases: int,
        threshold: Callable[[Any, int], Any],
        published: bytes,
        check_every: int = 1,
        restart_every: int | None = None,
        one_sided: bool = True,
    ) -> None:
        super().__init__(
            noise,
            epsilon=epsilon,
            selector=alone,
            threshold=threshold,
            published=published,
            check_every=check_every,
            restart_every=restart_every,
            one_sided=one_sided,
            leave_out_published=False,
        )
        self._alone, self._shared = alone, shared
        self.singles = whole(singles, "singles", least=0)
        self.releases_each = whole(releases, "releases", least=1)
        if alone.name != shared.name:
            raise BadParameter(f"one mechanism in all generations: not {alone.name}, {shared.name}")

    @property
    def generation(self) -> int:
        """The number of the generation that the next release belongs to. Public.

        When it changes, the caller empties the memory that its ballots are made from.
        """
        return self._generation_of(self.releases_made)

    @property
    def next_cost(self) -> Cost:
        """What the next selection will cost. Public."""
        return self._selector_in(self.generation).cost

    def _generation_of(self, release: int) -> int:
        if release < self.singles:
            return release
        return self.singles + (release - self.singles) // self.releases_each

    def _selector_in(self, generation: int) -> Selector[Ballot]:
        return self._alone if generation < self.singles else self._shared

    def _release(self, ballot: Ballot) -> Decision:
        self._selector = self._selector_in(self.generation)
        return super()._release(ballot)

    @property
    def ledger(self) -> tuple[Event, ...]:
        numbers = map(self._generation_of, range(self.releases_made))
        return (
            self._event("mistakes monitor", self._monitor.cost),
            *(self._event(self._alone.name, self._selector_in(n).cost, n) for n in numbers),
        )

    @property
    def spent(self) -> Cost:
        """What `spent(ledger)` adds up to, without writing the ledger out."""
        return self._monitor.cost + self._dearest(self.releases_made)

    def _total(self) -> Cost:
        return self._monitor.cost + self._dearest(self.singles + self.releases_each)

    def _dearest(self, releases: int) -> Cost:
        """The most that one generation has spent after so many releases."""
        alone = self._alone.cost if self.singles and releases else NOTHING
        several = max(0, min(releases - self.singles, self.releases_each))
        shared = self._shared.cost.times(several)
        return Cost(
            Fraction(max(alone.epsilon, shared.epsilon)), Fraction(max(alone.delta, shared.delta))
        )

    def _promise(self) -> State:
        return {
            **super()._promise(),
            "selector": [self._alone.promise(), self._shared.promise()],
            "singles": self.singles,
            "releases_each": self.releases_each,
        }
