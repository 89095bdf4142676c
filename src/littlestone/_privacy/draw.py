"""Say what a gate asks of a draw: a key from private scores, at a stated cost."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from littlestone._privacy.accounting import Cost
from littlestone._privacy.noise import Noise

Scores = TypeVar("Scores", contravariant=True)


class Draw(ABC, Generic[Scores]):
    """Select a key from the private scores of one epoch, at a stated cost."""

    name: str
    # What one draw costs, for scores that one replaced round moves as its lemma allows.
    cost: Cost

    @abstractmethod
    def select(
        self, scores: Scores, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        """Select a key, or None; the published one is public and may be left out."""

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        return self.cost.parameters(self.name)

    def joint(self, monitor: Cost, reads: int) -> Cost:
        """Return what the monitor costs together with so many draws that read one unit."""
        # Theorem 7: basic composition, unless a draw knows better.
        return monitor + self.cost.times(reads)
