"""Search for a key by votes, or compare the known ones by mistakes: epochs of two kinds.

Where no rule fits the stream, a search alone would publish one rule after the other. After a search
that finds nothing, an epoch compares the published key with those known before. Which kind an epoch
has follows from the transcript, and either kind reads the rounds of its own epoch only
(docs/guarantee.md, Theorem 7 with Theorems 5 and 6).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from littlestone._privacy.draw import Draw
from littlestone._privacy.exponential import ExponentialMechanism
from littlestone._privacy.gates import Ages, EpochEnd, Schedule
from littlestone._privacy.mechanism import State
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, whole
from littlestone._privacy.selection import positive_votes

# The keys given up that are remembered: the latest.
MOST_GIVEN_UP = 64
# Far from the limits of 64 bits, at which a score would wrap around.
LARGEST_MARGIN = 1 << 40


class Settling(Schedule):
    """Search in one epoch; after one that found nothing, compare the known keys in the next."""

    def __init__(
        self,
        threshold: Callable[[Ages, int, bool], Any],
        margin: Callable[[int, bool], int],
        fallbacks: Callable[[], Iterable[bytes]] = tuple,
    ) -> None:
        self._threshold, self._margin, self._fallbacks = threshold, margin, fallbacks
        self.given_up: tuple[bytes, ...] = ()
        self.comparing = False

    def known(self, published: bytes) -> tuple[bytes, ...]:
        """Return the known keys other than the published one. Public."""
        keys = dict.fromkeys((*self._fallbacks(), *self.given_up))
        return tuple(key for key in keys if key != published)

    @property
    def margin(self) -> int:
        """Return the votes, or mistakes, that a key must be ahead by."""
        return whole(self._margin(self.refusals, self.comparing), "the margin", least=0)

    def limits(self, ages: Ages) -> Any:
        """Return the threshold at each age."""
        return self._threshold(ages, self.refusals, self.comparing)

    def after(self, end: EpochEnd, published: bytes) -> None:
        """Remember a key that was given up; after a search that found nothing, compare."""
        super().after(end, published)
        if end.key is not None:
            given_up = (*(key for key in self.given_up if key != published), published)
            self.given_up = given_up[-MOST_GIVEN_UP:]
        self.comparing = end.key is None and not self.comparing and bool(self.known(published))

    def dump(self) -> State:
        """Return what the schedule knows, as JSON data."""
        given_up = [key.hex() for key in self.given_up]
        return super().dump() | {"comparing": self.comparing, "given_up": given_up}

    def load(self, state: State) -> None:
        """Load what `dump` returned."""
        super().load(state)
        self.given_up = tuple(map(bytes.fromhex, state["given_up"]))
        self.comparing = bool(state["comparing"])


class SearchOrCompare(Draw[Mapping[bytes, int]]):
    """Select a new key by votes, or the best of the known ones by mistakes, as scheduled."""

    def __init__(self, search: Draw[Mapping[bytes, int]], schedule: Settling) -> None:
        self.name, self.cost = search.name, search.cost
        self.search, self._schedule = search, schedule

    # An attribute, so that an audit can draw from its law in one step.
    comparison: Callable[..., Draw[Any]] = ExponentialMechanism

    def select(
        self,
        scores: Mapping[bytes, int],
        noise: Noise,
        release: int,
        published: bytes | None = None,
    ) -> bytes | None:
        """Select a key; None leaves the published one in place."""
        assert published is not None, "it is compared with what is published"
        known, margin = self._schedule.known(published), self._schedule.margin
        if not self._schedule.comparing:
            # Known keys are public: a vote moved to or from one is only added or removed. So is the
            # margin: what is left of a count moves by no more than the count (Theorem 5).
            votes = {key: n - margin for key, n in positive_votes(scores).items() if n > margin}
            fresh = {key: n for key, n in votes.items() if key not in known}
            return self.search.select(fresh, noise, release, published)
        keys = (published, *known)
        if set(scores) != set(keys):
            raise BadParameter("a comparison requires the mistakes of every known key, no others")
        ahead = [-whole(scores[key], "mistakes", least=0) for key in keys]
        # Clipped, which is free as it is public.
        ahead[0] += min(margin, LARGEST_MARGIN)
        # Theorem 6: a comparison spends what a search may spend, on rounds of its own epoch.
        comparison = self.comparison(keys, epsilon=self.cost.epsilon)
        key = comparison.select(ahead, noise, release)
        return None if key == published else key

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        return self.search.parameters()
