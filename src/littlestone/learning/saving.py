"""Save all that a learner needs to go on elsewhere, as data. As sensitive as the stream.

A learner is a gate (counts and live noise), a state learned from rounds, and its releases. The
state comes in numbered parts (a tree; a page of counts) and knows which have changed since they
were last saved: a checkpoint writes what a batch of rounds changed, however large the rest.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from littlestone.learning.releases import Release
from littlestone.learning.trace import Thinned

Live: TypeAlias = dict[str, Any]
"""Small state that changes with every batch, as JSON data."""


class Unsaved(NamedTuple):
    """Hold the parts that have changed.

    Parameters
    ----------
    cleared : bool
        Whether all parts saved before are obsolete.
    parts : dict of int to bytes
        The changed parts by number.
    """

    cleared: bool
    parts: dict[int, bytes]


class Saving(Protocol):
    """Describe a learner state that can be saved."""

    def live(self) -> Live:
        """Return what is not in parts."""

    def unsaved(self) -> Unsaved:
        """Return what has changed since the last call; it is assumed to be saved now."""

    def revive(self, live: Live, parts: Mapping[int, bytes]) -> None:
        """Load a saved state. Only called on a fresh object.

        Parameters
        ----------
        live : Live
            What `live` returned.
        parts : Mapping of int to bytes
            All parts by number.
        """


class Saved(NamedTuple):
    """Hold a learner as data: what changed since the last checkpoint or, for resuming, all of it.

    Parameters
    ----------
    live : Live
        The small state.
    memory : Unsaved
        The parts of what was learned.
    users : Mapping of int to int
        The rounds of each user, if there is a cap.
    releases : tuple of Release
        All releases.
    trace : Thinned
        The changes of the trace.
    """

    live: Live
    memory: Unsaved
    users: Mapping[int, int]
    releases: tuple[Release, ...]
    trace: Thinned
