"""Combine a monitor, which decides when to change, with a selector, which decides what to.

Only here does private become public. A gate's `check` is called on a public schedule; what it
returns, (fired, key or None), is the transcript, and the transcript is all that is released.
`HistSparse` is Alg. 2 of the paper (Lemma 5.3), repaired; the gate that counts mistakes is in
`epochs`. Proofs: docs/guarantee.md, Theorem 7.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from littlestone.privacy.above_threshold import AboveThreshold
from littlestone.privacy.accounting import Cost, Event, Guarantee, Unit, spent
from littlestone.privacy.drawn_and_kept import DrawnAndKept
from littlestone.privacy.exact import BadParameter, Numbers, Real, positive, probability, whole
from littlestone.privacy.histogram import StableHistogram, counted
from littlestone.privacy.noise import Noise
from littlestone.privacy.spender import Spender, State, whole_field

Ballot = TypeVar("Ballot")
BallotIn = TypeVar("BallotIn", contravariant=True)


class Selector(Protocol[BallotIn]):
    """Pick a key from a private ballot, at a stated cost."""

    name: str
    cost: Cost

    def select(
        self, ballot: BallotIn, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        """Select a key, or None.

        Parameters
        ----------
        ballot
            Votes or scores (private).
        noise
            Where all noise is drawn.
        release
            The number of the release: part of the address of every draw.
        leave_out
            A public key that is no candidate.

        Returns
        -------
        bytes or None
            The key, which is public.
        """

    def promise(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""


class Decision(NamedTuple):
    """Hold what one check makes public."""

    fired: bool
    key: bytes | None


STAY = Decision(False, None)


class Step(NamedTuple):
    """Hold how many checks a run made, and what the last one decided."""

    checks: int
    decision: Decision


class Gate(Spender, Generic[Ballot]):
    """Hold what the gates share: the published key, the releases made so far, the ledger.

    Parameters
    ----------
    noise
        Where all noise is drawn.
    selector
        Picks the key at a firing.
    published
        The first key, which no release has named.
    leave_out_published
        Whether the published key is left out of the next selection. It is public, so this is free.
    unit
        What is protected whole: an event or a user.
    """

    def __init__(
        self,
        noise: Noise,
        selector: Selector[Ballot],
        published: bytes,
        leave_out_published: bool,
        unit: Unit,
    ) -> None:
        super().__init__()
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

    @property
    def _user_cap(self) -> int | None:
        """Return how many rounds of a user count, where there is a limit."""
        return None

    @property
    @abstractmethod
    def ledger(self) -> tuple[Event, ...]:
        """Return every use of a mechanism so far."""

    @property
    @abstractmethod
    def spent(self) -> Cost:
        """Return what the ledger adds up to: never more than the guarantee."""

    @abstractmethod
    def _total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""

    def _release(self, ballot: Ballot) -> Decision:
        """Charge a release, then select. None leaves the published key in place."""
        # Charged first: a selection that fails on the way, or selects None, has been paid for.
        number = self.releases_made
        self.releases_made += 1
        leave_out = self.published if self.leave_out_published else None
        key = self._selector.select(ballot, self._noise, number, leave_out)
        if key is not None:
            self.published = key
        return Decision(True, key)

    def _event(self, mechanism: str, cost: Cost, epoch: int | None = None) -> Event:
        return Event(mechanism, cost, epoch, repr(self._noise))

    def _promise(self) -> State:
        return {
            "selector": self._selector.promise(),
            "leave_out_published": self.leave_out_published,
            "unit": self.unit,
        }

    def _live(self) -> State:
        return {"published": self.published.hex(), "releases_made": self.releases_made}

    def _revive(self, live: State) -> None:
        self.published = bytes.fromhex(live["published"])
        self.releases_made = whole_field(live, "releases_made")


class HistSparse(Gate[Mapping[bytes, int]]):
    """Fire when the published rule has lost its votes, then select by votes (Alg. 2, repaired).

    Requires: given the transcript, a replaced example (or user) moves at most one vote.
    Promises: the transcript is (epsilon, delta)-differentially private. The sparse vector has
    epsilon/2; each of `releases` histograms has epsilon/(2 releases) and delta/releases. The last
    firing still releases; then the gate is exhausted and serves its key for ever. The query is the
    number of trees that do not vote for the published key, which stays among the candidates.

    Parameters
    ----------
    noise
        Where all noise is drawn.
    epsilon, delta
        What the whole transcript costs.
    releases
        How often it may fire.
    trees
        How many trees vote.
    threshold
        The lost votes at which it fires, before noise (public).
    published
        The first key.
    selector
        The mechanism that selects a key by votes.
    unit
        What is protected whole. Per user, all rounds of a user must reach one tree.

    Examples
    --------
    >>> from littlestone.privacy.rehearsal import ScriptedNoise
    >>> gate = HistSparse(ScriptedNoise({}), epsilon=1, delta=1e-6, releases=1, trees=200,
    ...                   threshold=100, published=b"old")
    >>> gate.check({b"old": 150, b"new": 50})
    Decision(fired=False, key=None)
    >>> gate.check({b"old": 60, b"new": 140})
    Decision(fired=True, key=b'new')
    >>> gate.exhausted, gate.published
    (True, b'new')
    """

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
        selector: type[StableHistogram] | type[DrawnAndKept] = StableHistogram,
        unit: Unit = "event",
    ) -> None:
        self.cost = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        self.releases = whole(releases, "releases", least=1)
        self.trees, self.threshold = whole(trees, "trees", least=1), whole(threshold, "threshold")
        half = self.cost.epsilon / 2
        chosen = selector(epsilon=half / releases, delta=self.cost.delta / releases)
        super().__init__(noise, chosen, published, False, unit)
        self._monitor = AboveThreshold(noise, epsilon=half, releases=releases)

    @property
    def exhausted(self) -> bool:
        """Return whether the published key is final."""
        return self._monitor.exhausted

    def check(self, votes: Mapping[bytes, int]) -> Decision:
        """Make one scheduled check of the votes (private); the decision is public."""
        counts = counted(votes)
        with self._step:
            if self._monitor.check(self.trees - counts.get(self.published, 0), self.threshold):
                return self._release(counts)
            return STAY

    def run(self, lost: Numbers, ballot: Callable[[int], Mapping[bytes, int]]) -> Step:
        """Make checks in a row, up to the first that fires: as many calls of `check`, in one.

        Parameters
        ----------
        lost
            The number of trees that do not vote for the published key, at each check (private).
        ballot
            Returns the votes at a check of this run, by its index; called at a firing only.

        Returns
        -------
        Step
            How many checks were made, and the decision of the last.
        """
        with self._step:
            fired = self._monitor.run(lost, self.threshold)
            if fired is None:
                return Step(len(lost), STAY)
            return Step(fired + 1, self._release(counted(ballot(fired))))

    @property
    def ledger(self) -> tuple[Event, ...]:
        monitor = self._event("sparse vector", self._monitor.cost)
        release = self._event(self._selector.name, self._selector.cost)
        return (monitor, *[release] * self.releases_made)

    @property
    def spent(self) -> Cost:
        return spent(self.ledger)

    def _total(self) -> Cost:
        return self._monitor.cost + self._selector.cost.times(self.releases)

    def _promise(self) -> State:
        return {
            **super()._promise(),
            "monitor": self._monitor._promise(),
            "trees": self.trees,
            "threshold": self.threshold,
        }

    def _live(self) -> State:
        return {**super()._live(), "monitor": self._monitor._state()}

    def _revive(self, live: State) -> None:
        super()._revive(live)
        self._monitor.resume(live["monitor"])
        if self.releases_made != self._monitor.firings:
            raise BadParameter("the state counts releases and firings differently")
