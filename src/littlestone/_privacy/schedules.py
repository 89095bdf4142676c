"""Decide when to check and against what: public, a function of the transcript alone.

A schedule reads nothing but what was released, so it costs no privacy (docs/guarantee.md, Theorem
7). `CausesSchedule` is in `causes`, and `StaySchedule` is with the learner that uses it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._privacy.mechanism import State, whole_field
from littlestone._privacy.parameters import whole

# Ages in rounds: one, or an array of several.
Ages = int | npt.NDArray[np.int64]
# The keys given up that are remembered: the latest.
MOST_GIVEN_UP = 64


class EpochEnd(NamedTuple):
    """Hold how an epoch ended, all of it public: by a firing, by its age, or by both at once."""

    key: bytes | None
    fired: bool
    aged: bool
    window_age: int
    epoch_age: int


class Schedule(ABC):
    """Decide when to check and against what. Public: a function of the transcript."""

    # How often in a row nothing was drawn.
    refusals = 0

    @property
    def window(self) -> int | None:
        """Return the rounds after which the monitor starts afresh, or None for never."""
        return None

    @property
    def epoch(self) -> int | None:
        """Return the rounds after which a key is drawn without a firing, or None for never."""
        return None

    @abstractmethod
    def limits(self, ages: Ages) -> Any:
        """Return the threshold at an age of the monitor's window, or at each of several."""

    def after(self, end: EpochEnd, published: bytes) -> None:
        """Note how an epoch ended, and what was published in it."""
        self.refusals = self.refusals + 1 if end.key is None else 0

    def dump(self) -> State:
        """Return what the schedule knows, as JSON data."""
        return {"refusals": self.refusals}

    def load(self, state: State) -> None:
        """Load what `dump` returned."""
        self.refusals = whole_field(state, "refusals")


class Climbing(Schedule):
    """Fire at a threshold that depends on the age of the epoch and on refusals in a row."""

    def __init__(self, threshold: Callable[[Ages, int], Any]) -> None:
        self._threshold = threshold

    def limits(self, ages: Ages) -> Any:
        """Return the threshold at each age."""
        return self._threshold(ages, self.refusals)


class Settling(Schedule):
    """Search in one epoch; after one that found nothing, compare the known keys in the next.

    Where no rule fits the stream, a search alone would publish one rule after the other.
    """

    def __init__(
        self,
        threshold: Callable[[Ages, int, bool], Any],
        margin: Callable[[int, bool], int],
        fallbacks: Callable[[], Iterable[bytes]] = tuple,
    ) -> None:
        self._threshold, self.margin_of, self.fallbacks = threshold, margin, fallbacks
        self.given_up: tuple[bytes, ...] = ()
        self.comparing = False

    def known(self, published: bytes) -> tuple[bytes, ...]:
        """Return the known keys other than the published one. Public."""
        keys = dict.fromkeys((*self.fallbacks(), *self.given_up))
        return tuple(key for key in keys if key != published)

    @property
    def margin(self) -> int:
        """Return the votes, or mistakes, that a key must be ahead by."""
        return whole(self.margin_of(self.refusals, self.comparing), "the margin", least=0)

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
