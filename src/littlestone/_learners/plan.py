"""Plan a private learner: every constant, chosen before it sees any data.

A plan is a frozen value. Privacy is proved for every value of every field (docs/guarantee.md): a
bad plan makes many mistakes, but it is private. Its last line states whether the expected mistakes
are a heuristic or a theorem. `tuning` chooses the constants of `Plan.practical`.

`TheoremPlan` has the constants of Theorem 4.1 (Lemmas 6.2 and 6.3, with the repairs of
docs/paper.md), which are printed and never run. With d the dimension, T the horizon, beta = 1/T:

    k1   = the least power of two with k1 >= 2^(d+1) and k1 >= 20      leaves
    eta  = 2^(-4 k1 - 4) / k1                                          votes of a frequent rule
    c    = 8 k1 / eta                                                  releases
    k2   = the largest of                                              trees
             2^(8 k1 + 6) k1^2 ln(5 T ln(k1) / beta)                   Lemma 6.2
             16 c (ln T + ln(2 c / beta)) / (eps eta / 32)             the sparse vector, at eps/2
             4/eta + ln(c / (eta^2 beta delta)) / (eta eps / (2 c))    the histogram, at eps/2c
    mistakes <= 16 k1^2 k2 / eta + 3                                   Lemma 6.3

The numbers are far too large for any machine, so they are held as powers of two.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._display import facts_table
from littlestone._learners.forest import Root
from littlestone._learners.plan_table import (
    PlanLine,
    PlanTable,
    plan_data_from_json,
    plan_lines,
    planned_delta,
    planned_epsilon,
    planned_horizon,
)
from littlestone._learners.tuning import (
    Schedule,
    Selection,
    best,
    can_stall,
    complexity,
    selector_for,
    single_forest_choice,
    votes_per_mistake,
)
from littlestone._privacy.accounting import Unit
from littlestone._privacy.gates import HistSparse, SettlingGate
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import (
    LARGEST_INTEGER,
    BadParameter,
    Real,
    log_of,
    positive,
    probability,
    whole,
)
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection

LN2 = math.log(2)
# Beyond it even the logarithms of the constants, which grow as 2^d, are too large for floats.
LARGEST_DIMENSION = 1000


@dataclass(frozen=True)
class TheoremPlan:
    """Hold constants for which few mistakes are proved; too large to be run."""

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
    def of(cls, dimension: int, epsilon: Real, delta: Real, horizon: int) -> "TheoremPlan":
        """Compute the constants for a class of this dimension."""
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

    def refusal(self) -> str:
        """Explain why it cannot be run."""
        return (
            f"the theorem requires {_power(self.trees, 0)} trees and bounds the mistakes by "
            f"{_power(self.mistakes, 0)}, in {self.horizon:,} rounds: it cannot be run. "
            "Use Plan.practical, or Plan.paper for the paper's algorithm with practical numbers"
        )

    def _repr_html_(self) -> str:
        return facts_table("TheoremPlan", list(self.lines()), note="cannot be run")

    def __str__(self) -> str:
        return "\n".join(f"{name:<10}{value}" for name, value in self.lines())


def _power(log2: float, digits: int = 1) -> str:
    """Write a power of two, by its binary logarithm."""
    if math.isinf(log2):
        return f"2^{'-' if log2 < 0 else ''}(2^{LARGEST_DIMENSION:,} or more)"
    return f"2^{log2:,.{digits}f}"


# Of a tree of the paper's plan.
MOST_LEVELS = 40
SELECTORS = {kind.name: kind for kind in (UnknownDomainSelection, StableHistogram)}
# Of a comparison of known rules, in units of its rate (Theorem 6): the mistakes after which it
# fires, and those by which another rule must be better. After refusals the first grow by a factor
# and the second by its root, as chance does: in many mistakes a small share of them decides.
COMPARISON, MARGIN = 6.0, 4.5
# Of a search: the share of the mistakes added by refusals that a rule must explain before its
# votes count. Frequent values get some by chance.
CHANCE_SHARE = 1 / 12
# And of the trees so many for each such vote, at least: few trees have few votes to give.
TREES_PER_CHANCE = 16
# By which refusals raise thresholds, at most: on noisy labels a search then fires rarely.
LARGEST_FACTOR = 16.0
VoteGate: TypeAlias = SettlingGate | HistSparse


@dataclass(frozen=True)
class Plan(PlanTable):
    """Hold the constants of a learner. Make one with `Plan.practical` or `Plan.paper`.

    Parameters
    ----------
    name : str
        The kind of plan.
    made_for : str
        The class it was made for.
    epsilon, delta : Fraction
        The privacy budget.
    horizon : int
        The number of rounds after which the last rule stands.
    unit : {"event", "user"}
        What is protected: one round, or all rounds of a user.
    monitor : {"mistakes", "votes"}
        What is counted: mistakes of the published rule, or votes that it lost.
    epsilon_monitor : Fraction
        The monitor's share of epsilon.
    thresholds : tuple of int
        The counts at which the monitor fires: the n-th when n causes may be missing from the
        published rule, so that votes may be split n ways.
    check_every : int
        Rounds between checks.
    selector : str
        The name of the selection mechanism.
    leaves : Mapping of int to int
        For each number of leaves, the number of such trees.
    root : {"learns", "dies"}
        What happens when a tree's root is reached.
    replant : bool
        Whether dead trees are replaced.
    releases : int, optional
        The number of releases; unlimited if None.
    cap : int, optional
        The rounds that count per user.
    expected_mistakes : int, optional
        The mistakes per change of rule that the heuristic predicts.
    refusal : float, optional
        The probability that a firing releases nothing, by the same heuristic.

    Raises
    ------
    BadParameter
        If a field is out of range, or fields contradict each other.
    """

    name: str
    made_for: str
    epsilon: Fraction
    delta: Fraction
    horizon: int
    unit: Unit
    monitor: Literal["mistakes", "votes"]
    epsilon_monitor: Fraction
    thresholds: tuple[int, ...]
    check_every: int
    selector: str
    leaves: Mapping[int, int] = field(hash=False)
    root: Root = "learns"
    replant: bool = False
    releases: int | None = None
    cap: int | None = None
    expected_mistakes: int | None = None
    refusal: float | None = None

    def __post_init__(self) -> None:
        for name, read in _EXACT.items():
            object.__setattr__(self, name, read(getattr(self, name), name))
        for name in ("horizon", "check_every"):
            object.__setattr__(self, name, whole(getattr(self, name), name, least=1))
        for name in ("releases", "cap"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(getattr(self, name), name, least=1))
        counts = tuple(whole(count, "a threshold", least=1) for count in self.thresholds)
        object.__setattr__(self, "thresholds", counts)
        if not counts:
            raise BadParameter("thresholds is empty: a plan requires at least one threshold")
        if self.epsilon_monitor >= self.epsilon:
            raise BadParameter(
                f"epsilon_monitor={self.epsilon_monitor} must be below epsilon={self.epsilon}: "
                "it leaves nothing for the selector"
            )
        for name, known in (("unit", get_args(Unit)), ("monitor", ("mistakes", "votes"))):
            if getattr(self, name) not in known:
                raise BadParameter(f"{name} must be one of {known}, not {getattr(self, name)!r}")
        # Theorem 7: selections over one forest add up, so their number is fixed beforehand; epochs
        # compose in parallel per event, and per user only up to a cap.
        if (self.monitor == "votes") != (self.releases is not None):
            raise BadParameter(
                f"monitor={self.monitor!r} conflicts with releases={self.releases}: the votes "
                "monitor requires a number of releases, and only it takes one"
            )
        if (self.cap is not None) != (self.unit == "user" and self.monitor == "mistakes"):
            raise BadParameter(
                f"cap={self.cap} conflicts with unit={self.unit!r} and monitor={self.monitor!r}: "
                "the mistakes monitor per user requires a cap, and only it takes one"
            )
        if self.selector not in SELECTORS:
            raise BadParameter(f"selector must be one of {list(SELECTORS)}, not {self.selector!r}")
        # Sorted, so that equal plans have equal trees in equal order.
        object.__setattr__(self, "leaves", dict(sorted(self.leaves.items())))

    @classmethod
    def practical(
        cls,
        hypotheses: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        unit: Unit = "event",
        cap: int | None = None,
        releases: int | None = None,
    ) -> "Plan":
        """Choose all constants to make few mistakes.

        Per event, or per user with a `cap`: epochs, with unlimited releases. Per user without a
        cap: the votes monitor over a single forest, with `releases` in all.

        Parameters
        ----------
        hypotheses : HypothesisClass
            The class that is learned.
        epsilon, delta : Real
            The privacy budget.
        horizon : int
            The number of rounds.
        unit : {"event", "user"}
            What is protected: one round, or all rounds of a user.
        cap : int, optional
            The rounds that count per user.
        releases : int, optional
            The number of releases, for users without a cap; dimension + 1 if not given.

        Raises
        ------
        BadParameter
            If a parameter is out of range, or does not apply.

        Examples
        --------
        >>> from littlestone._classes.sets import Points
        >>> plan = Plan.practical(Points(), epsilon=1, delta=1e-6, horizon=100_000)
        >>> plan.trees, plan.thresholds, plan.check_every
        (992, (39,), 4)
        """
        checked_class(hypotheses)
        if unit == "user" and cap is None:
            return cls._for_users(hypotheses, epsilon, delta, horizon, releases)
        if releases is not None:
            raise BadParameter(
                f"releases={releases} requires unit='user' without a cap: "
                "otherwise releases are unlimited"
            )
        per_user = 1 if cap is None else whole(cap, "cap", least=1)
        asked = _asked(hypotheses, epsilon, delta, horizon)
        # Each selection gets a share only, and that share must be large enough too.
        planned_epsilon(epsilon, per_user, of=f"a cap of {per_user:,} rounds")
        model = votes_per_mistake(hypotheses)
        share = model.share * (0.5 if can_stall(hypotheses) else 1)
        budget = float(asked["epsilon"]) / per_user, float(asked["delta"]) / per_user
        chosen = best(*budget, model._replace(share=share))
        # More trees than rounds would stay empty.
        trees = min(chosen.trees, max(2, asked["horizon"]))
        return cls(
            name="practical",
            **asked,
            unit=unit,
            monitor="mistakes",
            epsilon_monitor=asked["epsilon"] * chosen.split,
            thresholds=chosen.thresholds,
            check_every=chosen.check_every,
            selector=chosen.selector.name,
            leaves=_shapes(trees, hypotheses),
            replant=True,
            cap=cap,
            expected_mistakes=round(chosen.typical),
            refusal=chosen.refusal,
        )

    @classmethod
    def _for_users(
        cls,
        hypotheses: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        releases: int | None,
    ) -> "Plan":
        """Choose a single forest with the votes monitor: no cap on a user's rounds."""
        asked = _asked(hypotheses, epsilon, delta, horizon)
        count = _releases(hypotheses, epsilon, releases)
        budget = float(asked["epsilon"]), float(asked["delta"])
        selector = selector_for(budget[0] / 2 / count, budget[1] / count)
        trees, threshold, check_every = single_forest_choice(
            *budget, count, asked["horizon"], selector
        )
        return cls(
            name="practical",
            **asked,
            unit="user",
            monitor="votes",
            epsilon_monitor=asked["epsilon"] / 2,
            thresholds=(threshold,),
            check_every=check_every,
            selector=selector.name,
            leaves=_shapes(trees, hypotheses),
            replant=True,
            releases=count,
        )

    @classmethod
    def paper(
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
    ) -> "Plan":
        """Plan Algorithms 1 and 2 with the repairs of docs/paper.md.

        Trees have 2^(d+1) leaves; the monitor counts lost votes; the selector is the stable
        histogram.

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
        asked = _asked(checked_class(hypotheses), epsilon, delta, horizon)
        count, levels = _releases(hypotheses, epsilon, releases), complexity(hypotheses) + 1
        if levels > MOST_LEVELS:
            raise BadParameter(
                f"the paper's trees have 2^(d+1) leaves, and here d is {levels - 1:,}: no machine "
                f"holds more than 2^{MOST_LEVELS}. Take the practical plan, whose trees stay small"
            )
        leaves = 2**levels
        each = float(asked["epsilon"]) / 2 / count, float(asked["delta"]) / count
        votes = Selection(StableHistogram, *each).votes_for(0.99)
        k2 = leaves * votes if trees is None else whole(trees, "trees", least=1)
        return cls(
            name="paper",
            **asked,
            unit="event",
            monitor="votes",
            epsilon_monitor=asked["epsilon"] / 2,
            thresholds=(math.ceil(k2 * (1 - 3 * eta / 32)),),
            check_every=check_every,
            selector=StableHistogram.name,
            leaves={leaves: k2},
            root="dies",
            releases=count,
        )

    @staticmethod
    def theorem(
        hypotheses: HypothesisClass, epsilon: Real, delta: Real, horizon: int
    ) -> TheoremPlan:
        """Return the constants of the proof, to be printed: a learner refuses to run them.

        Parameters
        ----------
        hypotheses : HypothesisClass
            The class that is learned.
        epsilon, delta : Real
            The privacy budget.
        horizon : int
            The number of rounds.
        """
        return TheoremPlan.of(complexity(checked_class(hypotheses)), epsilon, delta, horizon)

    @property
    def trees(self) -> int:
        """Return the number of trees."""
        return sum(self.leaves.values())

    @property
    def shapes(self) -> list[int]:
        """Return the leaves of each tree."""
        return [leaves for leaves, count in self.leaves.items() for _ in range(count)]

    @property
    def epsilon_selector(self) -> Fraction:
        """Return the epsilon of one selection."""
        # The selections that may read one round, or one user: Theorem 7's k.
        selections = self.cap or 1 if self.releases is None else self.releases
        return (self.epsilon - self.epsilon_monitor) / selections

    @property
    def delta_selector(self) -> Fraction:
        """Return the delta of one selection."""
        return self.delta / (self.cap or 1 if self.releases is None else self.releases)

    def gate(
        self,
        noise: Noise,
        published: bytes,
        missing: Callable[[], int],
        fallbacks: Callable[[], Iterable[bytes]] = tuple,
    ) -> VoteGate:
        """Make the gate of this plan, in its initial state.

        Parameters
        ----------
        noise : Noise
            The source of secret noise.
        published : bytes
            The key of the published rule.
        missing : Callable
            Returns how many causes the published rule may lack; must be a function of public
            things.
        fallbacks : Callable
            Returns the keys of rules to compare the published one with; a function of public
            things.
        """
        if self.monitor == "votes":
            return self._votes_gate(noise, published)
        rate = float(self.epsilon_monitor) / (self.cap or 1)

        @cache
        def schedule(base: int) -> Schedule:
            # Made when needed: a class of many causes has many thresholds, and few are ever met.
            return Schedule(base, rate, self.check_every, largest_factor=LARGEST_FACTOR)

        # A mistake divides a weight of a comparison by exp(per_mistake).
        per_mistake = float(self.epsilon_selector) / 2

        def base(comparing: bool) -> int:
            found = self.thresholds[min(missing(), len(self.thresholds)) - 1]
            if comparing:
                found = math.ceil(COMPARISON / per_mistake)
            return min(found, LARGEST_INTEGER)

        def threshold(age: Any, refusals: int, comparing: bool) -> Any:
            # Clipped, which is public: beyond it a run of checks refuses what one check accepts.
            found = schedule(base(comparing))(age, refusals)
            # For one age without numpy, which takes ten times as long.
            return (min if type(found) is int else np.minimum)(found, LARGEST_INTEGER)

        def margin(refusals: int, comparing: bool) -> int:
            factor = min(1.5 ** min(refusals, 64), LARGEST_FACTOR)
            if comparing:
                return math.ceil(MARGIN / per_mistake * math.sqrt(factor))
            added = math.floor(CHANCE_SHARE * (factor - 1) * base(comparing))
            return min(added, self.trees // TREES_PER_CHANCE)

        return SettlingGate(
            noise,
            epsilon=self.epsilon_monitor,
            selector=SELECTORS[self.selector](
                epsilon=self.epsilon_selector, delta=self.delta_selector
            ),
            threshold=threshold,
            margin=margin,
            published=published,
            fallbacks=fallbacks,
            check_every=self.check_every,
            cap=self.cap,
            unit=self.unit,
        )

    def _votes_gate(self, noise: Noise, published: bytes) -> HistSparse:
        # `HistSparse` halves epsilon itself; a plan with another split would not be what is run.
        if self.releases is None or self.epsilon_monitor != self.epsilon / 2:
            raise BadParameter(
                f"epsilon_monitor={self.epsilon_monitor} must be half of epsilon={self.epsilon} "
                "for the votes monitor"
            )
        return HistSparse(
            noise,
            epsilon=self.epsilon,
            delta=self.delta,
            releases=self.releases,
            trees=self.trees,
            threshold=self.thresholds[-1],
            published=published,
            selector=SELECTORS[self.selector],
            unit=self.unit,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data; `plan_from_json` reads it back exactly."""
        leaves = {str(leaves): count for leaves, count in self.leaves.items()}
        return super().to_json() | {"leaves": leaves}

    def lines(self) -> Iterator[PlanLine]:
        """Yield the rows of the plan table."""
        return plan_lines(self)

    @property
    def vacuous(self) -> bool:
        """Tell whether a change of rule would take more mistakes than there are rounds."""
        return self.expected_mistakes is not None and self.expected_mistakes > self.horizon

    @property
    def votes_needed(self) -> int:
        """Return the votes with which a leading rule is released with probability 0.95."""
        epsilon, delta = float(self.epsilon_selector), float(self.delta_selector)
        return Selection(SELECTORS[self.selector], epsilon, delta).votes_for(0.95)


def _asked(cls: HypothesisClass, epsilon: Real, delta: Real, horizon: int) -> dict[str, Any]:
    """Check and return the parameters that every plan has."""
    return {
        "made_for": repr(cls),
        "epsilon": planned_epsilon(epsilon),
        "delta": planned_delta(delta),
        "horizon": planned_horizon(horizon),
    }


def _releases(cls: HypothesisClass, epsilon: Real, releases: int | None) -> int:
    """Return the releases of a single forest: one for each unavoidable mistake, and one."""
    count = complexity(cls) + 1 if releases is None else whole(releases, "releases", least=1)
    planned_epsilon(epsilon, count, of=f"{count:,} releases")
    return count


def _shapes(trees: int, cls: HypothesisClass) -> dict[int, int]:
    """Return flat trees; where learners may stall, half of them taller."""
    return {1: trees - trees // 2, 4: trees // 2} if can_stall(cls) else {1: trees}


_EXACT = {"epsilon": positive, "epsilon_monitor": positive, "delta": probability}


def plan_from_json(data: Mapping[str, Any]) -> Plan:
    """Read a plan from the JSON data of `Plan.to_json`.

    Parameters
    ----------
    data : mapping
        The data.
    """
    leaves = {"leaves": {int(n): count for n, count in data.get("leaves", {}).items()}}
    return plan_data_from_json(Plan, {name: leaves.get(name, data[name]) for name in data})
