"""Compute the constants of Theorem 4.1 (Lemmas 6.2 and 6.3, with the repairs of docs/paper.md).

With d the dimension, T the horizon and beta = 1/T:

    k1   = the least power of two with k1 >= 2^(d+1) and k1 >= 20      leaves
    eta  = 2^(-4 k1 - 4) / k1                                          votes of a frequent rule
    c    = 8 k1 / eta                                                  releases
    k2   = the largest of                                              trees
             2^(8 k1 + 6) k1^2 ln(5 T ln(k1) / beta)                   Lemma 6.2
             16 c (ln T + ln(2 c / beta)) / (eps eta / 32)             the sparse vector, at eps/2
             4/eta + ln(c / (eta^2 beta delta)) / (eta eps / (2 c))    the histogram, at eps/2c
    mistakes <= 16 k1^2 k2 / eta + 3                                   Lemma 6.3

The numbers are far too large for any machine, so they are held as powers of two and never run.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._display import facts_table
from littlestone._learners.tuning import complexity
from littlestone._privacy.parameters import Real, log_of, positive, probability, whole

LN2 = math.log(2)
# Beyond it even the logarithms of the constants, which grow as 2^d, are too large for floats.
LARGEST_DIMENSION = 1000


@dataclass(frozen=True)
class TheoremPlan:
    """Hold constants for which few mistakes are proved; too large to be run.

    Parameters
    ----------
    dimension : int
        The Littlestone dimension d of the class.
    epsilon, delta : Fraction
        The privacy budget.
    horizon : int
        The number of rounds T.
    leaves : int
        The paper's k1.
    eta, releases, trees, mistakes : float
        Binary logarithms of the paper's eta, c and k2, and of the bound on mistakes.

    Examples
    --------
    >>> from littlestone._classes.sets import Points
    >>> print(TheoremPlan.of(Points(), epsilon=1, delta=1e-6, horizon=1000))
    leaves    32
    eta       2^-137.0
    releases  2^145.0
    trees     2^297.8
    mistakes  2^448.8
    """

    dimension: int
    epsilon: Fraction
    delta: Fraction
    horizon: int
    leaves: int
    eta: float
    releases: float
    trees: float
    mistakes: float

    @classmethod
    def of(
        cls, hypotheses: HypothesisClass, epsilon: Real, delta: Real, horizon: int
    ) -> "TheoremPlan":
        """Compute the constants for a class.

        Parameters
        ----------
        hypotheses : HypothesisClass
            The class that is learned.
        epsilon, delta : Real
            The privacy budget.
        horizon : int
            The number of rounds, at least 2.
        """
        dimension = complexity(checked_class(hypotheses))
        exact, small = positive(epsilon, "epsilon"), probability(delta, "delta")
        horizon = whole(horizon, "horizon", least=2)
        # The least power of two that is at least 20 is 32.
        k1 = max(2 ** (dimension + 1), 32)
        if dimension > LARGEST_DIMENSION:
            return cls(dimension, exact, small, horizon, k1, -math.inf, *[math.inf] * 3)
        eta = -4 * k1 - 4 - math.log2(k1)
        c = 3 + math.log2(k1) - eta
        time, eps = math.log(horizon), log_of(exact) / LN2
        frequent = 8 * k1 + 6 + 2 * math.log2(k1)
        frequent += math.log2(math.log(5) + 2 * time + math.log(math.log(k1)))
        sparse = 4 + c + math.log2(2 * time + (1 + c) * LN2) - (eps + eta - 5)
        log_term = (c - 2 * eta) * LN2 + time - log_of(small)
        histogram = 1 + c + math.log2(log_term) - (eta + eps)
        # A maximum of logarithms stands for the sum 4/eta + ...: they differ by at most one bit.
        k2 = max(frequent, sparse, histogram, 2 - eta)
        mistakes = 4 + 2 * math.log2(k1) + k2 - eta
        return cls(dimension, exact, small, horizon, k1, eta, c, k2, mistakes)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the constants by name."""
        beyond = self.dimension > LARGEST_DIMENSION
        yield "leaves", f"2^{self.dimension + 1:,}" if beyond else f"{self.leaves:,}"
        for name in ("eta", "releases", "trees", "mistakes"):
            yield name, _power(getattr(self, name))

    def _repr_html_(self) -> str:
        return facts_table("TheoremPlan", list(self.lines()), note="cannot be run")

    def __str__(self) -> str:
        return "\n".join(f"{name:<10}{value}" for name, value in self.lines())


def _power(log2: float) -> str:
    """Write a power of two, by its binary logarithm."""
    if math.isinf(log2):
        return f"2^{'-' if log2 < 0 else ''}(2^{LARGEST_DIMENSION:,} or more)"
    return f"2^{log2:,.1f}"
