"""Choose where the trees of a forest grow: in this process, unless an engine is named.

An engine is named as in `DPSOA(..., engine="ray")`, and made on request: what it needs is imported
then. The gate, the noise and the published rule never leave the learner (docs/guarantee.md,
Theorem 13).
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
    """Describe a forest, wherever its trees are."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> Iterable[VoteChange]:
        """Learn a batch of rounds.

        Parameters
        ----------
        batch : Batch
            The examples.
        answers : Mask
            Their labels.
        routes : Numbers
            What routes each to a tree.

        Returns
        -------
        Iterable of VoteChange
            The changes of votes, in the order of the rows.
        """


class Engine(Protocol):
    """Create forests.

    `far` tells whether their trees are remote: then querying them is slow, and happens after at
    most `largest_window` rounds.
    """

    @property
    def far(self) -> bool:
        """Tell whether the trees are in another process."""

    @property
    def largest_window(self) -> int:
        """Return the most rounds that are learned in one step."""

    def plant(
        self, cls: HypothesisClass, leaves: Sequence[int], seed: int, root: Root, replant: bool
    ) -> Grown:
        """Create a forest.

        Parameters
        ----------
        cls : HypothesisClass
            The class that is learned.
        leaves : Sequence of int
            The leaves of each tree: powers of two.
        seed : int
            Fixes the random bits.
        root : {"learns", "dies"}
            What happens when a tree's root is reached.
        replant : bool
            Whether dead trees are replaced.

        Returns
        -------
        Grown
        """


class Here:
    """Create forests in this process."""

    far, largest_window = False, LARGEST_WINDOW

    def plant(
        self, cls: HypothesisClass, leaves: Sequence[int], seed: int, root: Root, replant: bool
    ) -> Forest:
        """Create a forest in this process.

        Parameters
        ----------
        cls : HypothesisClass
            The class that is learned.
        leaves : Sequence of int
            The leaves of each tree: powers of two.
        seed : int
            Fixes the random bits.
        root : {"learns", "dies"}
            What happens when a tree's root is reached.
        replant : bool
            Whether dead trees are replaced.

        Returns
        -------
        Forest
        """
        return Forest(cls, leaves, seed, root=root, replant=replant)


ENGINES: dict[str, Callable[[str], Engine]] = {}
"""Engine factories by name; each takes an address, which may be empty."""


def engine_of(given: "str | Engine | None") -> Engine:
    """Return the engine of a name: `ray`, or `ray:ADDRESS` for a running cluster.

    Raises
    ------
    BadParameter
        If no engine has that name.
    """
    if given is None:
        return Here()
    if not isinstance(given, str):
        return given
    name, _, address = given.partition(":")
    if name not in ENGINES:
        raise BadParameter(
            f"engine={given!r} is unknown: use {', '.join(ENGINES)}, or with an address, ray:auto"
        )
    return ENGINES[name](address)
