"""The gates: a monitor says when, a selector says what to. Only here does private become public.

A gate has one verb, `check`, called on a public schedule; what it returns, (fired, key or None),
is the transcript, and the transcript is all that is released. `HistSparse` is Alg. 2 of the paper
(Lemma 5.3), repaired; the gate that watches mistakes is in `epochs`. Proofs: docs/guarantee.md.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

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
    """Anything that picks a key from a private ballot, at a stated cost."""

    name: str
    cost: Cost

    def select(
        self, ballot: BallotIn, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        """A key or None. `leave_out` is public."""

    def promise(self) -> dict[str, str]:
        """The public parameters on which the guarantee rests."""


class Decision(NamedTuple):
    """What one check makes public."""

    fired: bool
    key: bytes | None


STAY = Decision(False, None)


class Step(NamedTuple):
    """How many checks a run made, and what the last one decided."""

    checks: int
    decision: Decision


class Gate(Spender, Generic[Ballot]):
    """What the gates share: the published key, the releases made so far, the ledger."""

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
        """What the whole transcript promises, however long it gets."""
        return Guarantee.of(self._total(), self._noise, self.unit, self._user_cap)

    @property
    def _user_cap(self) -> int | None:
        """How many rounds of a user count, where there is a limit."""
        return None

    @property
    @abstractmethod
    def ledger(self) -> tuple[Event, ...]:
        """Every use of a mechanism so far."""

    @property
    @abstractmethod
    def spent(self) -> Cost:
        """What the ledger adds up to: never more than the guarantee."""

    @abstractmethod
    def _total(self) -> Cost:
        """The exact cost of everything this gate may ever do."""

    def _release(self, ballot: Ballot) -> Decision:
        """Charge a release, then select. None leaves the published key in place."""
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
    """Alg. 2, repaired: fires when the published rule has lost its votes, then asks the histogram.

    Requires: given the transcript, a replaced example (or user) moves at most one vote.
    Promises: the transcript is (epsilon, delta)-differentially private. The sparse vector has
    epsilon/2; each of `releases` histograms has epsilon/(2 releases) and delta/releases. The last
    firing still releases; then the gate is exhausted and serves its key for ever.

    `query="lost"` counts the trees that do not vote for the published key; `"challenger"` is the
    best other key's votes less the published key's, which moves by two.

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
        query: Literal["lost", "challenger"] = "lost",
        selector: type[StableHistogram] | type[DrawnAndKept] = StableHistogram,
        refreshed: bool = False,
        one_sided: bool = False,
        leave_out_published: bool = False,
        unit: Unit = "event",
    ) -> None:
        self.cost = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        self.releases = whole(releases, "releases", least=1)
        self.trees, self.threshold = whole(trees, "trees", least=1), whole(threshold, "threshold")
        if query not in ("lost", "challenger"):
            raise BadParameter(f"the query is 'lost' or 'challenger', not {query!r}")
        self.query = query
        half = self.cost.epsilon / 2
        chosen = selector(epsilon=half / releases, delta=self.cost.delta / releases)
        super().__init__(noise, chosen, published, leave_out_published, unit)
        self._monitor = AboveThreshold(
            noise,
            epsilon=half,
            releases=releases,
            sensitivity=1 if query == "lost" else 2,
            refreshed=refreshed,
            one_sided=one_sided,
        )

    @property
    def exhausted(self) -> bool:
        """Whether the published key is final."""
        return self._monitor.exhausted

    def check(self, votes: Mapping[bytes, int]) -> Decision:
        """One scheduled look at the votes (private); the decision is public."""
        counts = counted(votes)
        with self._step:
            if self._monitor.check(self._lost(counts), self.threshold):
                return self._release(counts)
            return STAY

    def run(self, lost: Numbers, ballot: Callable[[int], Mapping[bytes, int]]) -> Step:
        """Checks in a row, up to the first that fires: as many calls of `check`, in one.

        `lost` is the number of trees that do not vote for the published key, at each check;
        `ballot(place)` is asked for the votes at the firing check only, with its place in the run.
        """
        if self.query != "lost":
            raise BadParameter("a run of checks takes the votes lost: query='lost'")
        with self._step:
            fired = self._monitor.run(lost, self.threshold)
            if fired is None:
                return Step(len(lost), STAY)
            return Step(fired + 1, self._release(counted(ballot(fired))))

    def _lost(self, votes: dict[bytes, int]) -> int:
        held = votes.get(self.published, 0)
        if self.query == "lost":
            return self.trees - held
        others = (n for key, n in votes.items() if key != self.published)
        return max(others, default=0) - held

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
            "query": self.query,
        }

    def _live(self) -> State:
        return {**super()._live(), "monitor": self._monitor._state()}

    def _revive(self, live: State) -> None:
        super()._revive(live)
        self._monitor.resume(live["monitor"])
        if self.releases_made != self._monitor.firings:
            raise BadParameter("the state counts releases and firings differently")
