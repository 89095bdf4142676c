"""Plan the paper's learner: the constants of Theorem 4.1, and numbers that a machine can run.

`TheoremPlan` has the constants of the proof (Lemmas 6.2 and 6.3, with the repairs of docs/paper.md).
With d the dimension, T the horizon and beta = 1/T:

    k1   = the least power of two with k1 >= 2^(d+1) and k1 >= 20      leaves
    eta  = 2^(-4 k1 - 4) / k1                                          votes of a frequent rule
    c    = 8 k1 / eta                                                  releases
    k2   = the largest of                                              trees
             2^(8 k1 + 6) k1^2 ln(5 T ln(k1) / beta)                   Lemma 6.2
             16 c (ln T + ln(2 c / beta)) / (eps eta / 32)             the sparse vector, at eps/2
             4/eta + ln(c / (eta^2 beta delta)) / (eta eps / (2 c))    the histogram, at eps/2c
    mistakes <= 16 k1^2 k2 / eta + 3                                   Lemma 6.3

They are far too large for any machine, so they are held as powers of two and never run. `PaperPlan`
has numbers for Algorithms 1 and 2 that can be run; utility is then a heuristic.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._display import facts_table
from littlestone._learners.forest import Root
from littlestone._learners.plan import SELECTORS, ForestPlan, flat_or_mixed
from littlestone._learners.plan_table import planned_delta, planned_epsilon, planned_horizon
from littlestone._learners.tuning import (
    MOST_REFUSED,
    SAFETY_QUANTILE,
    Selection,
    complexity,
    selector_for,
)
from littlestone._privacy.accounting import Unit
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, Real, log_of, positive, probability, whole
from littlestone._privacy.selection import StableHistogram
from littlestone.paper.gates import HistSparse, sparse_vector_scales

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


# Of a tree: no machine holds more leaves.
MOST_LEVELS = 40


@dataclass(frozen=True)
class PaperPlan(ForestPlan):
    """Hold the constants of `PaperDPSOA`. Make one with `PaperPlan.of` or `PaperPlan.for_users`.

    Parameters
    ----------
    made_for : str
        The class that it was made for, in words.
    epsilon, delta : Fraction
        The privacy budget: half of epsilon for Algorithm 3, half for the histograms.
    horizon : int
        The number of rounds T.
    unit : {"event", "user"}
        What is protected: one round, or all rounds of a user; without a cap, as all of them go to
        one tree (Theorem 7, "Users").
    releases : int
        The paper's c.
    threshold : int
        The lost votes of the published rule at which Algorithm 3 fires.
    check_every : int
        Rounds between checks; 1 in the paper.
    selector : str
        The name of the selection mechanism; `hist` in the paper.
    leaves : Mapping of int to int
        For each number of leaves (the paper's k1), the number of such trees (k2).
    root : {"learns", "dies"}
        What happens when a tree's root is reached: it dies in the paper.
    replant : bool
        Whether dead trees are replaced; not in the paper.
    """

    made_for: str
    epsilon: Fraction
    delta: Fraction
    horizon: int
    unit: Unit
    releases: int
    threshold: int
    check_every: int
    selector: str
    leaves: Mapping[int, int] = field(hash=False)
    root: Root = "dies"
    replant: bool = False

    # All rounds of a user go to one tree, so that none has to be left out (Theorem 7, "Users").
    cap = expected_mistakes = None

    def __post_init__(self) -> None:
        for name in ("horizon", "releases", "threshold", "check_every"):
            whole(getattr(self, name), name, least=1)
        self._check_forest()

    @classmethod
    def of(
        cls,
        hypotheses: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        trees: int | None = None,
        releases: int | None = None,
        eta: float = 1.0,
        check_every: int = 1,
    ) -> "PaperPlan":
        """Plan Algorithms 1 and 2 with the repairs of docs/paper.md.

        Parameters
        ----------
        hypotheses : HypothesisClass
            The class that is learned.
        epsilon, delta : Real
            The privacy budget.
        horizon : int
            The number of rounds.
        trees : int, optional
            The paper's k2; a practical number, far below the proof's, if not given.
        releases : int, optional
            The paper's c; dimension + 1 if not given.
        eta : float
            A rule is dropped when less than 3 eta / 32 of the trees vote for it.
        check_every : int
            Rounds between checks.

        Raises
        ------
        BadParameter
            If a parameter is out of range.
        """
        levels = complexity(checked_class(hypotheses)) + 1
        count = _releases(hypotheses, epsilon, releases)
        if levels > MOST_LEVELS:
            raise BadParameter(
                f"the paper's trees have 2^(d+1) leaves, and here d is {levels - 1:,}: no machine "
                f"holds more than 2^{MOST_LEVELS}. Use littlestone.DPSOA, whose trees stay small"
            )
        exact, small = planned_epsilon(epsilon), planned_delta(delta)
        each = float(exact) / 2 / count, float(small) / count
        votes = Selection(StableHistogram, *each).votes_for(SAFETY_QUANTILE)
        k2 = 2**levels * votes if trees is None else whole(trees, "trees", least=1)
        return cls(
            made_for=repr(hypotheses),
            epsilon=exact,
            delta=small,
            horizon=planned_horizon(horizon),
            unit="event",
            releases=count,
            # Algorithm 2: theta = 1 - 3 eta / 32, of Q_t = 1 - freq(h_{t-1}).
            threshold=math.ceil(k2 * (1 - 3 * eta / 32)),
            check_every=check_every,
            selector=StableHistogram.name,
            leaves={2**levels: k2},
        )

    @classmethod
    def for_users(
        cls,
        hypotheses: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        releases: int | None = None,
    ) -> "PaperPlan":
        """Plan one forest that is routed by user, with small trees and a threshold of our own.

        Parameters
        ----------
        hypotheses : HypothesisClass
            The class that is learned.
        epsilon, delta : Real
            The privacy budget, for all rounds of a user together.
        horizon : int
            The number of rounds.
        releases : int, optional
            The number of releases; dimension + 1 if not given.

        Raises
        ------
        BadParameter
            If a parameter is out of range.
        """
        count = _releases(checked_class(hypotheses), epsilon, releases)
        exact, small, rounds = (
            planned_epsilon(epsilon),
            planned_delta(delta),
            planned_horizon(horizon),
        )
        half, share = float(exact) / 2, float(small) / count
        selector = selector_for(half / count, share)
        threshold_scale, scale = map(float, sparse_vector_scales(Fraction(half), count))
        # A union bound over the checks keeps false alarms rare.
        gap = scale * math.log1p(rounds / scale / MOST_REFUSED) + 3 * threshold_scale
        votes = Selection(selector, half / count, share).votes_for(SAFETY_QUANTILE)
        # A quarter of the trees must exceed both the noise and the votes of a release.
        trees = 4 * math.ceil(max(gap, votes))
        return cls(
            made_for=repr(hypotheses),
            epsilon=exact,
            delta=small,
            horizon=rounds,
            unit="user",
            releases=count,
            threshold=trees // 2 + math.ceil(gap),
            check_every=max(1, round(scale)),
            selector=selector.name,
            leaves=flat_or_mixed(trees, hypotheses),
            root="learns",
            replant=True,
        )

    def gate(self, noise: Noise, published: bytes) -> HistSparse:
        """Make the gate of Algorithm 2, in its initial state.

        Parameters
        ----------
        noise : Noise
            The source of secret noise.
        published : bytes
            The key of the first rule.
        """
        return HistSparse(
            noise,
            epsilon=self.epsilon,
            delta=self.delta,
            releases=self.releases,
            trees=self.trees,
            threshold=self.threshold,
            published=published,
            selector=SELECTORS[self.selector],
            unit=self.unit,
        )

    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        half = f"epsilon {float(self.epsilon / 2):.4g}"
        yield "sparse vector", half, "once, for all rounds"
        yield "selections", half, f"shared by {self.releases} releases: they add up"
        yield self._forest_line()
        yield "monitor", f"lost votes >= {self.threshold:,}", "then a rule is selected"
        yield "check every", f"{self.check_every:,} rounds", "a public schedule"


def _releases(cls: HypothesisClass, epsilon: Real, releases: int | None) -> int:
    """Return the number of releases: one for each unavoidable mistake, and one."""
    count = complexity(cls) + 1 if releases is None else whole(releases, "releases", least=1)
    planned_epsilon(epsilon, count, of=f"{count:,} releases")
    return count
