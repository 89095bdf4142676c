"""Select at every check: no monitor, many releases, composition solved (Thm 4.2 of the paper).

Each selection reads the whole stream so far, so all of them add up; to how much is not quoted from
Lemma 5.4 but solved (`per_release`). Proof: docs/guarantee.md, Theorem 11.
"""

from collections.abc import Mapping

from littlestone.privacy.accounting import NOTHING, Cost, Event, composed_epsilon, per_release
from littlestone.privacy.exact import Real, positive, probability, whole
from littlestone.privacy.gate import STAY, Decision, Gate
from littlestone.privacy.histogram import StableHistogram
from littlestone.privacy.noise import Noise


class EveryCheck(Gate[Mapping[bytes, int]]):
    """Ask the stable histogram at every check, `releases` times at most.

    Requires: given the transcript, a replaced example moves at most one vote of each ballot.
    Promises: the transcript is (epsilon, delta)-differentially private.

    Parameters
    ----------
    noise
        Where all noise is drawn.
    epsilon, delta
        What the whole transcript costs.
    releases
        How many selections are made at most.
    published
        The first key.

    Examples
    --------
    >>> from littlestone.privacy.rehearsal import ScriptedNoise
    >>> gate = EveryCheck(ScriptedNoise({}), epsilon=20, delta=1e-6, releases=2, published=b"old")
    >>> gate.check({b"new": 30}), gate.check({b"new": 1}), gate.exhausted
    (Decision(fired=True, key=b'new'), Decision(fired=True, key=None), True)
    """

    def __init__(
        self, noise: Noise, *, epsilon: Real, delta: Real, releases: int, published: bytes
    ) -> None:
        self.releases = whole(releases, "releases", least=1)
        self._asked = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        each = per_release(self._asked, self.releases)
        selector = StableHistogram(epsilon=each.epsilon, delta=each.delta)
        super().__init__(noise, selector, published, False, "event")

    @property
    def each(self) -> Cost:
        """Return what one selection costs."""
        return self._selector.cost

    @property
    def exhausted(self) -> bool:
        """Return whether every release has been made."""
        return self.releases_made >= self.releases

    def check(self, ballot: Mapping[bytes, int]) -> Decision:
        """Select once; None leaves the published key in place."""
        with self._step:
            return STAY if self.exhausted else self._release(ballot)

    @property
    def ledger(self) -> tuple[Event, ...]:
        return (self._event(self._selector.name, self.each),) * self.releases_made

    @property
    def spent(self) -> Cost:
        """Return what the releases so far compose to, solved; never more than the guarantee."""
        made = self.releases_made
        if made == 0:
            return NOTHING
        delta = self._asked.delta
        return Cost(composed_epsilon(self.each, made, delta), delta)

    def _total(self) -> Cost:
        return self._asked

    def _promise(self) -> dict[str, object]:
        return {
            **super()._promise(),
            "asked": [str(self._asked.epsilon), str(self._asked.delta)],
            "releases": self.releases,
        }
