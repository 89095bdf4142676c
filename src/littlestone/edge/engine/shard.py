"""A shard: some trees of a forest, in an actor. A machine, not a spender; it knows no noise.

Every call says which sowing it is for. A shard that was lost and started again by Ray knows of
none, and says so, whatever it is asked.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from littlestone.edge.blocks import Wanted
from littlestone.edge.engine.tasks import Put
from littlestone.learning.forest import Forest, Root, VoteChange
from littlestone.learning.rounds import Rounds
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.hypothesis import Hypothesis


class Forgotten(Exception):
    """A shard was started again, and knows nothing."""


class Seeds(NamedTuple):
    """What a forest grows from."""

    cls: HypothesisClass
    leaves: tuple[int, ...]
    seed: int
    root: Root
    replant: bool

    def planted(self, share: range) -> Forest:
        """The trees of a share."""
        return Forest(
            self.cls, self.leaves, self.seed, root=self.root, replant=self.replant, share=share
        )


class Shard:
    """The trees of a share."""

    def __init__(self, seeds: Seeds, share: range) -> None:
        self._seeds, self._share = seeds, share
        self._forest = seeds.planted(share)
        self._sowing = 0

    def sow(
        self, sowing: int, epoch: int, published: Hypothesis | None, parts: Mapping[int, bytes]
    ) -> None:
        """Begin an epoch, with some of the trees grown as far as they were kept."""
        if published is None:
            self._forest = self._seeds.planted(self._share)
        else:
            self._forest.begin_epoch(epoch, published)
        self._forest.regrow(parts)
        self._sowing = sowing

    def learn(self, sowing: int, rows: Rounds, told: bool) -> list[VoteChange]:
        """Show the trees some rows of theirs; the changes, by the numbers of the rows, if told."""
        changes = rows.teach(self._sown(sowing))
        if not told:
            return []
        return [change._replace(row=rows.number_of(change.row)) for change in changes]

    def fetch(
        self, sowing: int, wanted: Wanted, spread: list[Any], place: int, told: bool
    ) -> list[VoteChange]:
        """Show the trees the rows that were put by for them, at a place of a list."""
        import ray

        self._sown(sowing)
        put: Put = ray.get(spread[place])
        return self.learn(sowing, put.rounds(wanted), told)

    def votes(self, sowing: int) -> Counter[Hypothesis]:
        """How many of the trees vote for each rule."""
        return Counter(self._sown(sowing).votes)

    def standing(self, sowing: int) -> list[Hypothesis | None]:
        """What each of the trees votes for."""
        return self._sown(sowing).standing

    def changed(self, sowing: int) -> dict[int, bytes]:
        """The trees that have changed since this was asked last, for keeping."""
        return self._sown(sowing).unsaved().parts

    def _sown(self, sowing: int) -> Forest:
        if self._sowing != sowing:
            raise Forgotten
        return self._forest
