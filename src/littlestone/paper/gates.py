"""The gates of the paper, whose releases are limited because each of them reads the whole stream.

- `HistSparse` is Alg. 2 of the paper (Lemma 5.3), repaired: every selection reads the whole stream,
  so the number of releases is limited and their costs add up.
- `EveryCheck` has no monitor and selects at every check (Thm 4.2 of the paper); the costs compose
  to what `per_release` solves for, instead of Lemma 5.4's bound.

Proofs: docs/guarantee.md, Theorems 7 and 11.
"""

from abc import abstractmethod
from collections.abc import Mapping

from littlestone._privacy.accounting import (
    NOTHING,
    Cost,
    Guarantee,
    PrivacyEvent,
    Unit,
    spent,
)
from littlestone._privacy.draw import Draw
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.mechanism import Mechanism, State, whole_field
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import (
    BadParameter,
    Real,
    positive,
    probability,
    whole,
)
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection, positive_votes
from littlestone.paper.above_threshold import AboveThreshold
from littlestone.paper.composition import composed_epsilon, per_release


class LimitedGate(Mechanism):
    """Hold what the gates of the paper share: the published key, the releases, the ledger."""

    def __init__(
        self,
        noise: Noise,
        selector: Draw[Mapping[bytes, int]],
        published: bytes,
        unit: Unit,
    ) -> None:
        super().__init__()
        # `str` keys would compare unequal to every selected key, and the published one would never
        # be left out.
        if type(published) is not bytes:
            raise BadParameter(f"the first published key must be bytes, not {published!r}")
        if unit not in ("event", "user"):
            raise BadParameter(f"the unit is 'event' or 'user', not {unit!r}")
        self._noise, self._selector = noise, selector
        self.published, self.unit = published, unit
        self.releases_made = 0

    @property
    def guarantee(self) -> Guarantee:
        """Return what the whole transcript guarantees, however long it gets."""
        return Guarantee.of(self.total, self._noise, self.unit, None)

    @property
    @abstractmethod
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far."""

    @property
    def spent(self) -> Cost:
        """Return what the ledger adds up to: never more than the guarantee."""
        return spent(self.ledger)

    @property
    @abstractmethod
    def total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""

    def _release(self, ballot: Mapping[bytes, int]) -> Decision:
        """Charge a release, then select. None leaves the published key in place."""
        # Charged first: a selection that fails on the way, or selects None, costs as much
        # (Theorem 7 counts selections, whatever they return).
        # The number is part of every noise address: two releases must not have the same.
        number = self.releases_made
        self.releases_made += 1
        key = self._selector.select(ballot, self._noise, number)
        # None leaves the rule that stands: there is nothing better that may be known.
        if key is not None:
            self.published = key
        return Decision(True, key)

    def _event(self, mechanism: str, cost: Cost) -> PrivacyEvent:
        return PrivacyEvent(mechanism, cost, None, repr(self._noise))

    def _parameters(self) -> State:
        return {"selector": self._selector.parameters(), "unit": self.unit}

    def _state_data(self) -> State:
        return {"published": self.published.hex(), "releases_made": self.releases_made}

    def _load_state_data(self, data: State) -> None:
        self.published = bytes.fromhex(data["published"])
        self.releases_made = whole_field(data, "releases_made")


class HistSparse(LimitedGate):
    """Fire when the published rule has lost its votes, then select by votes (Alg. 2, repaired)."""

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real,
        delta: Real,
        releases: int,
        trees: int,
        threshold: int,
        published: bytes,
        selector: type[StableHistogram] | type[UnknownDomainSelection] = StableHistogram,
        unit: Unit = "event",
    ) -> None:
        self.cost = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        self.releases = whole(releases, "releases", least=1)
        self.trees, self.threshold = whole(trees, "trees", least=1), whole(threshold, "threshold")
        # Theorem 7 with k = releases: e_m = epsilon/2, and the selections share the rest.
        half = self.cost.epsilon / 2
        # Each selection may read all rounds, so the shares add up (basic composition).
        chosen = selector(epsilon=half / releases, delta=self.cost.delta / releases)
        super().__init__(noise, chosen, published, unit)
        # The sparse vector stops after `releases` firings: its cost is for all of them together.
        self._monitor = AboveThreshold(noise, epsilon=half, releases=releases)

    @property
    def exhausted(self) -> bool:
        """Return whether the published key is final."""
        return self._monitor.exhausted

    def check(self, votes: Mapping[bytes, int]) -> Decision:
        """Make one scheduled check of the votes (private); the decision is public."""
        # Before the step: a ballot that cannot be read must not spend anything.
        counts = positive_votes(votes)
        with self._step:
            if self._monitor.check(self.trees - counts.get(self.published, 0), self.threshold):
                return self._release(counts)
            return NO_CHANGE

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        monitor = self._event("sparse vector", self._monitor.cost)
        release = self._event(self._selector.name, self._selector.cost)
        return (monitor, *[release] * self.releases_made)

    @property
    def total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""
        # Theorem 7: selections over the whole stream add up.
        return self._monitor.cost + self._selector.cost.times(self.releases)

    def _parameters(self) -> State:
        own = {"trees": self.trees, "threshold": self.threshold}
        return super()._parameters() | {"monitor": self._monitor._parameters()} | own

    def _state_data(self) -> State:
        return {**super()._state_data(), "monitor": self._monitor._state()}

    def _load_state_data(self, data: State) -> None:
        super()._load_state_data(data)
        self._monitor.resume(data["monitor"])
        # A state in which they differ was edited: it would give more releases than were paid for.
        if self.releases_made != self._monitor.firings:
            raise BadParameter("the state counts releases and firings differently")


class EveryCheck(LimitedGate):
    """Select by the stable histogram at every check, `releases` times at most."""

    def __init__(
        self, noise: Noise, *, epsilon: Real, delta: Real, releases: int, published: bytes
    ) -> None:
        self.releases = whole(releases, "releases", least=1)
        self._budget = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        # Theorem 11: each selection reads the whole stream, so adaptive composition pays for all.
        each = per_release(self._budget, self.releases)
        selector = StableHistogram(epsilon=each.epsilon, delta=each.delta)
        super().__init__(noise, selector, published, "event")

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
            return NO_CHANGE if self.exhausted else self._release(ballot)

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        return (self._event(self._selector.name, self.each),) * self.releases_made

    @property
    def spent(self) -> Cost:
        """Return what the releases so far compose to, solved; never more than the guarantee."""
        made = self.releases_made
        if made == 0:
            return NOTHING
        delta = self._budget.delta
        return Cost(composed_epsilon(self.each, made, delta), delta)

    @property
    def total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""
        return self._budget

    def _parameters(self) -> dict[str, object]:
        asked = [str(self._budget.epsilon), str(self._budget.delta)]
        return super()._parameters() | {"asked": asked, "releases": self.releases}
