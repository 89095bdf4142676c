"""Engines: where the trees of a forest grow. Here, unless an engine is named.

An engine is known by its name, as in `DPSOA(..., engine="ray")`, and made when it is asked for:
what it needs is imported then. The gate, the noise and the published rule never leave the learner.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from littlestone.learning.forest import Forest, Root, VoteChange
from littlestone.learning.lasting import Voters
from littlestone.learning.restarting import LARGEST_WINDOW, Memory
from littlestone.learning.rounds import Numbers
from littlestone.privacy.exact import BadParameter
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.rows import Batch
from littlestone.theory.values import Mask


class Grown(Memory[Mapping[bytes, int]], Voters, Protocol):
    """A forest, wherever its trees are."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> Iterable[VoteChange]:
        """Take some rounds in: the changes of votes, in the order of the rows."""


class Engine(Protocol):
    """Plants forests. `far` if their trees grow elsewhere: then it takes time to ask them, and they
    are asked after as many rounds as `largest_window`."""

    @property
    def far(self) -> bool: ...

    @property
    def largest_window(self) -> int: ...

    def plant(
        self, cls: HypothesisClass, leaves: Sequence[int], seed: int, root: Root, replant: bool
    ) -> Grown: ...


class Here:
    """Trees in this process."""

    far, largest_window = False, LARGEST_WINDOW

    def plant(
        self, cls: HypothesisClass, leaves: Sequence[int], seed: int, root: Root, replant: bool
    ) -> Forest:
        """A forest whose trees grow here."""
        return Forest(cls, leaves, seed, root=root, replant=replant)


ENGINES: dict[str, Callable[[str], Engine]] = {}
"""By name, what makes an engine of an address, which may be empty."""


def engine_of(given: "str | Engine | None") -> Engine:
    """The engine that a name stands for: `ray`, or `ray:ADDRESS` of a cluster that is running."""
    if given is None:
        return Here()
    if not isinstance(given, str):
        return given
    name, _, address = given.partition(":")
    if name not in ENGINES:
        raise BadParameter(
            f"no engine is called {name!r}: say {', '.join(ENGINES)}, or with an address, ray:auto"
        )
    return ENGINES[name](address)
