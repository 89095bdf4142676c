"""Belief: what the published rules themselves tell about the rules that could be published next.

When a rule is dropped for another, some example on which the two differ spoke for the other. So a
rule that sides with the dropped one wherever they differ is wrong as well, unless the draw fell
among the rules that erred: `MISLED` of the draws. Bayes' rule keeps count; and as the truth may
change, a little of the weight is shared out evenly each time (Herbster and Warmuth 1998).

All of it is a function of what was published, so it costs no privacy: later draws start from it as
they start from the published rule (docs/guarantee.md, Theorem 10). It is what makes an adversary
who looks unable to refute the same rules again and again.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from littlestone.theory.values import Mask

MISLED = 0.1
"""How often a release may fall among the rules that erred with the one it replaces."""
CHANGED = 0.02
"""The weight that is shared out evenly at every release."""


class Belief:
    """The weight of every rule of a finite class, by its place in the public order.

    >>> belief = Belief(4)
    >>> belief.drop(np.array([True, True, False, False]))
    >>> belief.penalties(Fraction(1, 4))
    array([8, 8, 0, 0])
    """

    def __init__(self, size: int) -> None:
        self._weights = np.full(size, 1 / size)

    def drop(self, siding: Mask) -> None:
        """A rule was dropped for another; which rules side with it wherever the two differ."""
        told = self._weights * np.where(siding, MISLED, 1 - MISLED)
        self._weights = (1 - CHANGED) * told / told.sum() + CHANGED / len(told)

    def penalties(self, rate: Fraction) -> npt.NDArray[np.int64]:
        """The weights in mistakes, when a mistake divides a rule's weight by exp(rate)."""
        nats = np.log(self._weights.max() / self._weights)
        penalties: npt.NDArray[np.int64] = np.round(nats / float(rate)).astype(np.int64)
        return penalties
