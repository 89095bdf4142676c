"""Plan a private learner: every constant, chosen before it sees any data.

A plan is a frozen value. Privacy is proved for every value of every field (docs/guarantee.md): a
bad plan makes many mistakes, but it is private. Its last line states whether the expected mistakes
are a heuristic. `tuning` chooses the constants of `Plan.practical`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Self

import numpy as np

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._learners.plan_table import (
    PlanTable,
    check_unit,
    planned_delta,
    planned_epsilon,
    planned_horizon,
)
from littlestone._learners.tuning import (
    Climb,
    Selection,
    best,
    can_stall,
    votes_per_mistake,
)
from littlestone._privacy.accounting import Unit
from littlestone._privacy.gates import Gate
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import LARGEST_INTEGER, BadParameter, Real, probability, whole
from littlestone._privacy.schedules import Settling
from littlestone._privacy.selection import SearchOrCompare, StableHistogram, UnknownDomainSelection

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


class ForestPlan(PlanTable):
    """Share what the plans of a forest have in common: its trees, and how a rule is selected."""

    selector: str
    leaves: Mapping[int, int]

    def _check_forest(self) -> None:
        """Refuse an unknown selector, and sort the trees: equal plans have them in equal order."""
        if self.selector not in SELECTORS:
            raise BadParameter(f"selector must be one of {list(SELECTORS)}, not {self.selector!r}")
        object.__setattr__(self, "leaves", dict(sorted(self.leaves.items())))

    @property
    def trees(self) -> int:
        """Return the number of trees."""
        return sum(self.leaves.values())

    @property
    def shapes(self) -> list[int]:
        """Return the leaves of each tree."""
        return [leaves for leaves, count in self.leaves.items() for _ in range(count)]

    def _forest_line(self) -> tuple[str, str, str]:
        shapes = ", ".join(f"{count:,} of {n}" for n, count in self.leaves.items())
        return "trees x leaves", shapes, "copies of the class's learner"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data; `from_json` reads it back exactly."""
        leaves = {str(leaves): count for leaves, count in self.leaves.items()}
        return super().to_json() | {"leaves": leaves}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a plan from the JSON data of `to_json`."""
        leaves = {int(n): count for n, count in data.get("leaves", {}).items()}
        return super().from_json({**data, "leaves": leaves} if leaves else data)


@dataclass(frozen=True)
class Plan(ForestPlan):
    """Hold the constants of a learner. Make one with `Plan.practical`.

    Parameters
    ----------
    made_for : str
        The class it was made for.
    epsilon, delta : Fraction
        The privacy budget.
    horizon : int
        The number of rounds after which the last rule stands.
    unit : {"event", "user"}
        What is protected: one round, or all rounds of a user.
    epsilon_monitor : Fraction
        The monitor's share of epsilon.
    thresholds : tuple of int
        The mistakes at which the monitor fires: the n-th when n causes may be missing from the
        published rule, so that votes may be split n ways.
    check_every : int
        Rounds between checks.
    selector : str
        The name of the selection mechanism.
    leaves : Mapping of int to int
        For each number of leaves, the number of such trees.
    cap : int, optional
        The rounds that count per user; for users only.
    expected_mistakes : int, optional
        The mistakes per change of rule that the heuristic predicts.
    refusal : float, optional
        The probability that a firing releases nothing, by the same heuristic.

    Raises
    ------
    BadParameter
        If a field is out of range, or fields contradict each other.
    """

    made_for: str
    epsilon: Fraction
    delta: Fraction
    horizon: int
    unit: Unit
    epsilon_monitor: Fraction
    thresholds: tuple[int, ...]
    check_every: int
    selector: str
    leaves: Mapping[int, int] = field(hash=False)
    cap: int | None = None
    expected_mistakes: int | None = None
    refusal: float | None = None

    def __post_init__(self) -> None:
        self._check_fields(
            ("epsilon", "epsilon_monitor"),
            ("horizon", "check_every", *(["cap"] if self.cap is not None else [])),
        )
        object.__setattr__(self, "delta", probability(self.delta, "delta"))
        counts = tuple(whole(count, "a threshold", least=1) for count in self.thresholds)
        object.__setattr__(self, "thresholds", counts)
        if not counts:
            raise BadParameter("thresholds is empty: a plan requires at least one threshold")
        if self.epsilon_monitor >= self.epsilon:
            raise BadParameter(
                f"epsilon_monitor={self.epsilon_monitor} must be below epsilon={self.epsilon}: "
                "it leaves nothing for the selector"
            )
        check_unit(self.unit, self.cap)
        self._check_forest()

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
    ) -> "Plan":
        """Choose all constants to make few mistakes.

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
            The rounds that count per user; required for users.

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
        check_unit(unit, cap)
        per_user = 1 if cap is None else whole(cap, "cap", least=1)
        # Each selection gets a share only, and that share must be large enough too.
        exact = planned_epsilon(epsilon, per_user, of=f"a cap of {cap:,} rounds" if cap else "")
        small, rounds = planned_delta(delta), planned_horizon(horizon)
        model = votes_per_mistake(hypotheses)
        share = model.share * (0.5 if can_stall(hypotheses) else 1)
        chosen = best(float(exact) / per_user, float(small) / per_user, model._replace(share=share))
        # More trees than rounds would stay empty.
        trees = min(chosen.trees, max(2, rounds))
        return cls(
            made_for=repr(hypotheses),
            epsilon=exact,
            delta=small,
            horizon=rounds,
            unit=unit,
            epsilon_monitor=exact * chosen.split,
            thresholds=chosen.thresholds,
            check_every=chosen.check_every,
            selector=chosen.selector.name,
            leaves=flat_or_mixed(trees, hypotheses),
            cap=cap,
            expected_mistakes=round(chosen.typical),
            refusal=chosen.refusal,
        )

    @property
    def epsilon_selector(self) -> Fraction:
        """Return the epsilon of one selection."""
        # The selections that may read one round, or one user: Theorem 7's k.
        return (self.epsilon - self.epsilon_monitor) / (self.cap or 1)

    @property
    def delta_selector(self) -> Fraction:
        """Return the delta of one selection."""
        return self.delta / (self.cap or 1)

    def gate(
        self,
        noise: Noise,
        published: bytes,
        missing: Callable[[], int],
        fallbacks: Callable[[], Iterable[bytes]] = tuple,
    ) -> Gate[Mapping[bytes, int]]:
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
        rate = float(self.epsilon_monitor) / (self.cap or 1)

        @cache
        def schedule(base: int) -> Climb:
            # Made when needed: a class of many causes has many thresholds, and few are ever met.
            return Climb(base, rate, self.check_every, largest_factor=LARGEST_FACTOR)

        # A mistake divides a weight of a comparison by exp(per_mistake).
        per_mistake = float(self.epsilon_selector) / 2

        def base(comparing: bool) -> int:
            mistakes = self.thresholds[min(missing(), len(self.thresholds)) - 1]
            if comparing:
                mistakes = math.ceil(COMPARISON / per_mistake)
            return min(mistakes, LARGEST_INTEGER)

        def threshold(age: Any, refusals: int, comparing: bool) -> Any:
            # Clipped, which is public: beyond it a run of checks is refused.
            return np.minimum(schedule(base(comparing))(age, refusals), LARGEST_INTEGER)

        def margin(refusals: int, comparing: bool) -> int:
            factor = min(1.5 ** min(refusals, 64), LARGEST_FACTOR)
            if comparing:
                return math.ceil(MARGIN / per_mistake * math.sqrt(factor))
            added = math.floor(CHANCE_SHARE * (factor - 1) * base(comparing))
            return min(added, self.trees // TREES_PER_CHANCE)

        settling = Settling(threshold, margin, fallbacks)
        search = SELECTORS[self.selector](epsilon=self.epsilon_selector, delta=self.delta_selector)
        return Gate(
            noise,
            epsilon=self.epsilon_monitor,
            schedule=settling,
            draw=SearchOrCompare(search, settling),
            published=published,
            check_every=self.check_every,
            cap=self.cap,
            unit=self.unit,
        )

    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        if self.cap is not None:
            yield "rounds a user", f"at most {self.cap}", "later ones are null rounds"
        monitor, each = float(self.epsilon_monitor), float(self.epsilon_selector)
        if self.cap is not None:
            yield "rounds a user", f"at most {self.cap}", "later ones are null rounds"
        yield "monitor's budget", f"epsilon {monitor:.4g}", "once, for all rounds"
        yield (
            "selector's budget",
            f"epsilon {each:.4g}, delta {float(self.delta_selector):.3g}",
            "each epoch reads its own rounds: releases are unlimited"
            if self.cap is None
            else f"each; a user's rounds are read by at most {self.cap}",
        )
        yield self._forest_line()
        counts = self.thresholds
        few = counts if len(counts) < 6 else (counts[0], counts[-1])
        limits = " / ".join(f"{count:,}" for count in few)
        yield "monitor", f"mistakes of the published rule >= {limits}", "then the trees are queried"
        yield "selector", self.selector, f"needs about {self.votes_needed} votes"
        yield "check every", f"{self.check_every:,} rounds", "a public schedule"
        if self.refusal is not None:
            yield "firings without release", f"{self.refusal:.1%}", "then votes are collected anew"

    @property
    def votes_needed(self) -> int:
        """Return the votes with which a leading rule is released with probability 0.95."""
        epsilon, delta = float(self.epsilon_selector), float(self.delta_selector)
        return Selection(SELECTORS[self.selector], epsilon, delta).votes_for(0.95)


def flat_or_mixed(trees: int, cls: HypothesisClass) -> dict[int, int]:
    """Return flat trees; where learners may stall, half of them taller."""
    return {1: trees - trees // 2, 4: trees // 2} if can_stall(cls) else {1: trees}
