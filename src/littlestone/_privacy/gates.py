"""Combine a monitor, which decides when to release, with a selector, which decides what.

Only here does private become public. A gate's `check` is called on a public schedule; what it
returns, (fired, key or None), is the transcript, and the transcript is all that is released.
Proofs: docs/guarantee.md, Theorems 7, 10 and 11.

- `HistSparse` is Alg. 2 of the paper (Lemma 5.3), repaired: every selection reads the whole stream,
  so the number of releases is limited and their costs add up.
- `MistakesGate` works in epochs: a firing starts afresh, so each round is read in one epoch, epochs
  compose in parallel, and releases are unlimited (after Asi, Feldman, Koren and Talwar 2023).
- `SettlingGate` is that gate with epochs of two kinds: some search for new keys by votes, others
  compare the published key with those known before, by their mistakes. So it settles on noisy data.
- `EveryCheck` has no monitor and selects at every check (Thm 4.2 of the paper); the costs compose
  to what `per_release` solves for, instead of Lemma 5.4's bound.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, SupportsIndex, TypeVar

import numpy as np

from littlestone._privacy.accounting import (
    NOTHING,
    Cost,
    Guarantee,
    PrivacyEvent,
    Unit,
    composed_epsilon,
    per_release,
    spent,
)
from littlestone._privacy.exponential import ExponentialMechanism
from littlestone._privacy.mechanism import Mechanism, State, whole_field
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import (
    BadParameter,
    Numbers,
    Real,
    positive,
    probability,
    whole,
    whole_numbers,
)
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection, positive_votes
from littlestone._privacy.sparse_vector import AboveThreshold, MistakesMonitor

Ballot = TypeVar("Ballot")
BallotIn = TypeVar("BallotIn", contravariant=True)


class Selector(Protocol[BallotIn]):
    """Pick a key from a private ballot, at a stated cost."""

    name: str
    cost: Cost

    def select(
        self, ballot: BallotIn, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        """Select a key, or None."""

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""


class Decision(NamedTuple):
    """Hold what one check makes public: whether it fired, and the key selected."""

    fired: bool
    key: bytes | None


NO_CHANGE = Decision(False, None)


class Step(NamedTuple):
    """Hold how many checks a run made, and what the last one decided."""

    checks: int
    decision: Decision


class Gate(Mechanism, Generic[Ballot]):
    """Hold what the gates share: the published key, the releases made so far, the ledger."""

    def __init__(
        self,
        noise: Noise,
        selector: Selector[Ballot],
        published: bytes,
        leave_out_published: bool,
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
        self.published, self.leave_out_published, self.unit = published, leave_out_published, unit
        self.releases_made = 0

    @property
    def guarantee(self) -> Guarantee:
        """Return what the whole transcript guarantees, however long it gets."""
        return Guarantee.of(self._total(), self._noise, self.unit, self._user_cap)

    _user_cap: int | None = None

    @property
    @abstractmethod
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far."""

    @property
    def spent(self) -> Cost:
        """Return what the ledger adds up to: never more than the guarantee."""
        return spent(self.ledger)

    @abstractmethod
    def _total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""

    def _release(self, ballot: Ballot) -> Decision:
        """Charge a release, then select. None leaves the published key in place."""
        # Charged first: a selection that fails on the way, or selects None, costs as much
        # (Theorem 7 counts selections, whatever they return).
        # The number is part of every noise address: two releases must not have the same.
        number = self.releases_made
        self.releases_made += 1
        key = self._select(ballot, number)
        # None leaves the rule that stands: there is nothing better that may be known.
        if key is not None:
            self.published = key
        return Decision(True, key)

    def _select(self, ballot: Ballot, release: int) -> bytes | None:
        """Select a key, or None; `release` is the number of the release."""
        leave_out = self.published if self.leave_out_published else None
        return self._selector.select(ballot, self._noise, release, leave_out)

    def _event(self, mechanism: str, cost: Cost, epoch: int | None = None) -> PrivacyEvent:
        return PrivacyEvent(mechanism, cost, epoch, repr(self._noise))

    def _parameters(self) -> State:
        return {
            "selector": self._selector.parameters(),
            "leave_out_published": self.leave_out_published,
            "unit": self.unit,
        }

    def _state_data(self) -> State:
        return {"published": self.published.hex(), "releases_made": self.releases_made}

    def _load_state_data(self, data: State) -> None:
        self.published = bytes.fromhex(data["published"])
        self.releases_made = whole_field(data, "releases_made")


class HistSparse(Gate[Mapping[bytes, int]]):
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
        super().__init__(noise, chosen, published, False, unit)
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

    def run(self, lost: Numbers, ballot: Callable[[int], Mapping[bytes, int]]) -> Step:
        """Make checks in a row, up to the first that fires: as many calls of `check`, in one."""
        with self._step:
            fired = self._monitor.run(lost, self.threshold)
            if fired is None:
                return Step(len(lost), NO_CHANGE)
            return Step(fired + 1, self._release(positive_votes(ballot(fired))))

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        monitor = self._event("sparse vector", self._monitor.cost)
        release = self._event(self._selector.name, self._selector.cost)
        return (monitor, *[release] * self.releases_made)

    def _total(self) -> Cost:
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


class MistakesGate(Gate[Ballot]):
    """Fire when the published rule makes too many mistakes, then select."""

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
        largest_loss: int = 1,
    ) -> None:
        super().__init__(noise, selector, published, leave_out_published, unit)
        # Theorem 7, "Users": without a cap, the selections that read a user are unlimited.
        if (unit == "user") != (cap is not None):
            raise BadParameter(
                "unit='user' requires a cap on a user's rounds, and unit='event' has none"
            )
        self.largest_loss = whole(largest_loss, "largest_loss", least=1)
        self._rounds_read = 1 if cap is None else cap
        # Theorem 3 counts in units: a round shifts the count by at most `largest_loss` of them.
        self._monitor = MistakesMonitor(
            noise, epsilon=epsilon, cap=self._rounds_read * self.largest_loss
        )
        self._user_cap, self._threshold = cap, threshold
        self.check_every = whole(check_every, "check_every", least=1)
        if restart_every is not None:
            restart_every = whole(restart_every, "restart_every", least=1)
        self.restart_every = restart_every
        self.age = self.refusals = 0

    # With epochs the published key is never final.
    exhausted = False

    def check(self, mistakes: SupportsIndex, ballot: Ballot) -> Decision:
        """Make one scheduled check. After a firing the caller empties what its ballots hold."""
        return self.check_with(mistakes, lambda: ballot)

    def check_with(self, mistakes: SupportsIndex, ballot: Callable[[], Ballot]) -> Decision:
        """Make one scheduled check as `check` does; the ballot is made at a firing only."""
        mistakes = whole(mistakes, "mistakes", least=0)
        # More mistakes than rounds would break the sensitivity that the monitor requires.
        if mistakes > self.check_every * self.largest_loss:
            raise BadParameter(f"{mistakes} mistakes in {self.check_every} rounds")
        with self._step:
            # Assigned after the check: a threshold that raises must not move the age.
            age = self.age + self.check_every
            fired = self._monitor.check(mistakes, self._threshold(age, self.refusals))
            self.age = age
            if fired:
                return self._fire(ballot())
            self._restart_if_due()
            return NO_CHANGE

    def run(self, mistakes: Numbers, ballot: Callable[[int], Ballot]) -> Step:
        """Make checks in a row, up to the first that fires: as many calls of `check`, in one."""
        counts = whole_numbers(mistakes, "mistakes", least=0)
        if len(counts) and counts.max() > self.check_every * self.largest_loss:
            raise BadParameter(f"{counts.max()} mistakes in {self.check_every} rounds")
        with self._step:
            done = 0
            while done < len(counts):
                # A public restart may fall inside the run: the monitor sees one epoch at a time.
                part = counts[done : done + self.checks_to_restart]
                ages = self.age + self.check_every * np.arange(1, len(part) + 1)
                # A threshold may be one number for all ages.
                limits = np.broadcast_to(self._threshold(ages, self.refusals), ages.shape)
                fired = self._monitor.run(part, limits)
                if fired is not None:
                    self.age = int(ages[fired])
                    return Step(done + fired + 1, self._fire(ballot(done + fired)))
                done += len(part)
                self.age += len(part) * self.check_every
                self._restart_if_due()
            return Step(len(counts), NO_CHANGE)

    @property
    def checks_to_restart(self) -> int:
        """Return how many checks are left before the public restart."""
        if self.restart_every is None:
            return 1 << 62
        return -(-(self.restart_every - self.age) // self.check_every)

    def _restart_if_due(self) -> None:
        # On a public schedule, so it costs nothing (Theorem 3).
        if self.restart_every is not None and self.age >= self.restart_every:
            self._monitor.restart()
            self.age = 0

    def _fire(self, ballot: Ballot) -> Decision:
        # Theorem 3: the epoch ends at every firing, whatever the selector returns.
        self.age = 0
        decision = self._release(ballot)
        # Both are public, so a threshold may depend on them (Theorem 3).
        self.refusals = self.refusals + 1 if decision.key is None else 0
        return decision

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        name, cost = self._selector.name, self._selector.cost
        uses = (self._event(name, cost, epoch) for epoch in range(self.releases_made))
        return (self._event("mistakes monitor", self._monitor.cost), *uses)

    @property
    def spent(self) -> Cost:
        """Return what `spent(ledger, max_epochs=cap)` is, without building the ledger."""
        # Theorem 7: one unit is read by at most `cap` of the selections.
        read = min(self.releases_made, self._rounds_read)
        return self._monitor.cost + self._selector.cost.times(read)

    def _total(self) -> Cost:
        # Theorem 7: one unit's rounds are read by at most `cap` selections (per event, one).
        return self._monitor.cost + self._selector.cost.times(self._rounds_read)

    def _parameters(self) -> State:
        own = {"check_every": self.check_every, "restart_every": self.restart_every}
        return super()._parameters() | {"monitor": self._monitor._parameters()} | own

    def _state_data(self) -> State:
        own = {"age": self.age, "refusals": self.refusals}
        return super()._state_data() | own | {"monitor": self._monitor._state()}

    def _load_state_data(self, data: State) -> None:
        super()._load_state_data(data)
        self.age, self.refusals = whole_field(data, "age"), whole_field(data, "refusals")
        self._monitor.resume(data["monitor"])


# The keys given up that are remembered: the latest.
MOST_GIVEN_UP = 64
# Far from the limits of 64 bits, at which a score would wrap around.
LARGEST_MARGIN = 1 << 40


class SettlingGate(MistakesGate[Mapping[bytes, int]]):
    """Fire like `MistakesGate`; search for new keys by votes, or compare known ones by mistakes."""

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real,
        selector: Selector[Mapping[bytes, int]],
        threshold: Callable[[Any, int, bool], Any],
        margin: Callable[[int, bool], int],
        published: bytes,
        fallbacks: Callable[[], Iterable[bytes]] = tuple,
        check_every: int = 1,
        cap: int | None = None,
        unit: Unit = "event",
    ) -> None:
        super().__init__(
            noise,
            epsilon=epsilon,
            selector=selector,
            # Both are public: the kind of an epoch follows from the transcript.
            threshold=lambda age, refusals: threshold(age, refusals, self.comparing),
            published=published,
            check_every=check_every,
            cap=cap,
            unit=unit,
        )
        self._margin, self._fallbacks = margin, fallbacks
        self.given_up: tuple[bytes, ...] = ()
        self.comparing = self.has_compared = False

    # An attribute, so that an audit can draw from its law in one step.
    _comparison = ExponentialMechanism

    @property
    def known(self) -> tuple[bytes, ...]:
        """Return the known keys other than the published one. Public."""
        keys = dict.fromkeys((*self._fallbacks(), *self.given_up))
        return tuple(key for key in keys if key != self.published)

    def _select(self, ballot: Mapping[bytes, int], release: int) -> bytes | None:
        known = self.known
        margin = whole(self._margin(self.refusals, self.comparing), "the margin", least=0)
        if not self.comparing:
            # Known keys are public: a vote moved to or from one is only added or removed. So is the
            # margin: what is left of a count moves by no more than the count (Theorem 5).
            left = {key: n - margin for key, n in positive_votes(ballot).items() if n > margin}
            return super()._select({key: left[key] for key in left if key not in known}, release)
        keys = (self.published, *known)
        if set(ballot) != set(keys):
            raise BadParameter("a comparison requires the mistakes of every known key, no others")
        scores = [-whole(ballot[key], "mistakes", least=0) for key in keys]
        # Clipped, which is free as it is public.
        scores[0] += min(margin, LARGEST_MARGIN)
        # Theorem 6: a comparison spends what a search may spend, on rounds of its own epoch.
        comparison = self._comparison(keys, epsilon=self._selector.cost.epsilon)
        key = comparison.select(scores, self._noise, release)
        return None if key == self.published else key

    def _fire(self, ballot: Mapping[bytes, int]) -> Decision:
        before, compared = self.published, self.comparing
        # Before the draw: one that fails on the way costs as much.
        self.has_compared |= compared
        decision = super()._fire(ballot)
        if decision.key is not None:
            given_up = (*(key for key in self.given_up if key != before), before)
            self.given_up = given_up[-MOST_GIVEN_UP:]
        # A function of the transcript. Where nothing was released, the fallbacks are as before.
        self.comparing = decision.key is None and not compared and bool(self.known)
        return decision

    @property
    def spent(self) -> Cost:
        """Return what one unit may have cost so far: never more than the guarantee."""
        return self._total() if self.has_compared else super().spent

    def _state_data(self) -> State:
        own = {"comparing": self.comparing, "has_compared": self.has_compared}
        return super()._state_data() | own | {"given_up": [key.hex() for key in self.given_up]}

    def _load_state_data(self, data: State) -> None:
        super()._load_state_data(data)
        self.given_up = tuple(map(bytes.fromhex, data["given_up"]))
        self.comparing, self.has_compared = bool(data["comparing"]), bool(data["has_compared"])


class EveryCheck(Gate[Mapping[bytes, int]]):
    """Select by the stable histogram at every check, `releases` times at most."""

    def __init__(
        self, noise: Noise, *, epsilon: Real, delta: Real, releases: int, published: bytes
    ) -> None:
        self.releases = whole(releases, "releases", least=1)
        self._budget = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        # Theorem 11: each selection reads the whole stream, so adaptive composition pays for all.
        each = per_release(self._budget, self.releases)
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

    def _total(self) -> Cost:
        return self._budget

    def _parameters(self) -> dict[str, object]:
        asked = [str(self._budget.epsilon), str(self._budget.delta)]
        return super()._parameters() | {"asked": asked, "releases": self.releases}
