"""Saving: all that a learner needs to go on elsewhere, as data. As sensitive as the stream.

A learner is a gate (counts and live noise), a memory of rounds, and what it has published. A memory
comes in numbered parts (a tree; a page of counts) and says which have changed since they were last
saved: a batch of rounds saves what it touched, however large the rest.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from littlestone.learning.releases import Release
from littlestone.learning.trace import Thinned

Live: TypeAlias = dict[str, Any]
"""Small state that changes with every batch, as JSON data."""


class Unsaved(NamedTuple):
    """The parts that have changed; if `cleared`, there are no others."""

    cleared: bool
    parts: dict[int, bytes]


class Saving(Protocol):
    """A memory that can be saved."""

    def live(self) -> Live:
        """What is not in parts."""

    def unsaved(self) -> Unsaved:
        """What has changed since this was asked last; it is taken to be saved now."""

    def revive(self, live: Live, parts: Mapping[int, bytes]) -> None:
        """Become the memory that was saved. Only a fresh one is asked."""


class Saved(NamedTuple):
    """A learner as data: what changed since it was saved last or, for resuming, all of it.

    `users` counts the rounds of users who have a cap. Releases are whole.
    """

    live: Live
    memory: Unsaved
    users: Mapping[int, int]
    releases: tuple[Release, ...]
    trace: Thinned
