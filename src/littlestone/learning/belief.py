"""Keep a public prior over the rules, from the rules that were published.

When a rule is replaced by another, some example on which the two differ was evidence for the other.
So a rule that agrees with the replaced one wherever the two differ is wrong as well, unless the
draw fell among the rules that erred: `MISLED` of the draws. The weights follow Bayes' rule; and as
the target may change, a little of the weight is shared out evenly each time (fixed share, Herbster
and Warmuth 1998).

All of it is a function of what was published, so it costs no privacy: later draws start from it as
they start from the published rule (docs/guarantee.md, Theorem 10). It keeps an adaptive adversary
from refuting the same rules again and again.
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
    """Hold the prior weight of every rule of a finite class, by its index in the public order.

    Parameters
    ----------
    size
        How many rules there are.

    Examples
    --------
    >>> belief = Belief(4)
    >>> belief.drop(np.array([True, True, False, False]))
    >>> belief.penalties(Fraction(1, 4))
    array([8, 8, 0, 0])
    """

    def __init__(self, size: int) -> None:
        self._weights = np.full(size, 1 / size)

    def drop(self, siding: Mask) -> None:
        """Update the weights after a rule was replaced.

        Parameters
        ----------
        siding
            Which rules agree with the replaced rule wherever it differs from the new one.
        """
        posterior = self._weights * np.where(siding, MISLED, 1 - MISLED)
        # Fixed share: no weight falls so far that a target that changed could not come back.
        self._weights = (1 - CHANGED) * posterior / posterior.sum() + CHANGED / len(posterior)

    def penalties(self, rate: Fraction) -> npt.NDArray[np.int64]:
        """Return the weights as mistakes.

        Parameters
        ----------
        rate
            A mistake divides a rule's weight by exp(rate).

        Returns
        -------
        array of int64
            What each rule's score is lowered by.
        """
        nats = np.log(self._weights.max() / self._weights)
        penalties: npt.NDArray[np.int64] = np.round(nats / float(rate)).astype(np.int64)
        return penalties
