"""Plans: every constant of a private learner, chosen before it sees any data.

A plan is a frozen value. What it says of privacy is proved for every value of every field
(docs/guarantee.md): a plan can be bad, it cannot be unsafe. What it says of mistakes is a hope, or
a theorem, and it says which. How constants are chosen is in `choosing`; what the proof asks for,
which nobody can run, in `theorem`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

from littlestone.learning.choosing import (
    best,
    can_stall,
    complexity,
    fresh_start,
    lasting,
    news_of,
    selector_for,
)
from littlestone.learning.forest import Root
from littlestone.learning.prediction import Selection
from littlestone.learning.schedule import Schedule, tolerated
from littlestone.learning.theorem import TheoremPlan
from littlestone.learning.wording import Line, Planned, lines, planned_from_json
from littlestone.privacy.accounting import Unit
from littlestone.privacy.drawn_and_kept import DrawnAndKept
from littlestone.privacy.epochs import MistakesGate
from littlestone.privacy.exact import (
    BadParameter,
    Real,
    planned_delta,
    planned_epsilon,
    planned_horizon,
    positive,
    probability,
    whole,
)
from littlestone.privacy.gate import HistSparse
from littlestone.privacy.histogram import StableHistogram
from littlestone.privacy.noise import Noise
from littlestone.theory.classes import HypothesisClass, checked_class

NOISY_SHARES = (0.75, 0.65, 0.55)
"""What noisy labels leave of the votes, by the surprises that make one: guesses, the first two
checked by simulation (2 % noise, 6 % positives)."""
MOST_LEVELS = 40
"""Of a tree of the paper's plan."""
SELECTORS = {kind.name: kind for kind in (DrawnAndKept, StableHistogram)}
VoteGate: TypeAlias = MistakesGate[Mapping[bytes, int]] | HistSparse


@dataclass(frozen=True)
class Plan(Planned):
    """The constants of a learner. Make one with `Plan.practical` or `Plan.paper`.

    `leaves` maps leaves a tree to the number of such trees. `thresholds` are in mistakes for the
    mistakes monitor, in lost votes for the votes monitor: the n-th when n causes may be missing
    from the published rule, so that votes may be split n ways. `releases` is None when unlimited.
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
    tolerance: Fraction = Fraction(0)
    restart_every: int | None = None
    releases: int | None = None
    cap: int | None = None
    expected_mistakes: int | None = None
    refusal: float | None = None

    def __post_init__(self) -> None:
        for name, read in _EXACT.items():
            object.__setattr__(self, name, read(getattr(self, name), name))
        for name in ("horizon", "check_every"):
            object.__setattr__(self, name, whole(getattr(self, name), name, least=1))
        for name in ("restart_every", "releases", "cap"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(getattr(self, name), name, least=1))
        counts = tuple(whole(count, "a threshold", least=1) for count in self.thresholds)
        object.__setattr__(self, "thresholds", counts)
        if not counts:
            raise BadParameter("a plan has at least one threshold")
        tolerated(self.tolerance)
        if self.epsilon_monitor >= self.epsilon:
            raise BadParameter("the monitor's epsilon leaves nothing for the selector")
        for name, known in (("unit", get_args(Unit)), ("monitor", ("mistakes", "votes"))):
            if getattr(self, name) not in known:
                raise BadParameter(f"the {name} is one of {known}, not {getattr(self, name)!r}")
        if (self.monitor == "votes") != (self.releases is not None):
            raise BadParameter("the votes monitor has a number of releases, and only it has one")
        if (self.cap is not None) != (self.unit == "user" and self.monitor == "mistakes"):
            raise BadParameter("the mistakes monitor has a cap per user, and only it has one")
        if self.selector not in SELECTORS:
            raise BadParameter(f"the selector is one of {list(SELECTORS)}, not {self.selector!r}")
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
        tolerance: Real = 0,
        cap: int | None = None,
        releases: int | None = None,
    ) -> "Plan":
        """Everything chosen to make few mistakes.

        Per event, or per user with a `cap` on a user's rounds: epochs all the way, releases without
        end. Per user without a cap: the votes monitor over one lasting forest, `releases` in all.

        >>> from littlestone.theory.sets import Points
        >>> plan = Plan.practical(Points(), epsilon=1, delta=1e-6, horizon=100_000)
        >>> plan.trees, plan.thresholds, plan.check_every
        (248, (43,), 4)
        """
        checked_class(hypotheses)
        if unit == "user" and cap is None:
            if tolerated(tolerance):
                raise BadParameter("a tolerance is of mistakes: per user it needs a cap on rounds")
            return cls._for_users(hypotheses, epsilon, delta, horizon, releases)
        if releases is not None:
            raise BadParameter("releases are unlimited here: only unit='user' without a cap counts")
        tolerance, touched = tolerated(tolerance), 1 if cap is None else whole(cap, "cap", least=1)
        asked = _asked(hypotheses, epsilon, delta, horizon)
        planned_epsilon(epsilon, touched, of=f"a cap of {touched:,} rounds")
        news = news_of(hypotheses)
        noisy = NOISY_SHARES[news.surprises - 1] if tolerance else 1
        share = news.share * (0.5 if can_stall(hypotheses) else 1) * noisy
        budget = float(asked["epsilon"]) / touched, float(asked["delta"]) / touched
        chosen = best(*budget, news._replace(share=share))
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
            tolerance=tolerance,
            restart_every=fresh_start(chosen.thresholds[-1], tolerance),
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
        asked = _asked(hypotheses, epsilon, delta, horizon)
        count = _releases(hypotheses, epsilon, releases)
        budget = float(asked["epsilon"]), float(asked["delta"])
        selector = selector_for(budget[0] / 2 / count, budget[1] / count)
        trees, threshold, check_every = lasting(*budget, count, asked["horizon"], selector)
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
        """Algorithms 1 and 2 with the repairs: trees of 2^(d+1) leaves, votes monitor, histogram.

        `trees` (k2), `releases` (c) and `eta` are practical numbers, far below what the proof asks
        for; a rule is dropped when less than 3 eta / 32 of the trees vote for it.
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
        """What the proof asks for. It can be printed; a learner refuses to run it."""
        return TheoremPlan.of(complexity(checked_class(hypotheses)), epsilon, delta, horizon)

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return sum(self.leaves.values())

    @property
    def shapes(self) -> list[int]:
        """The leaves of each tree, tree by tree."""
        return [leaves for leaves, count in self.leaves.items() for _ in range(count)]

    @property
    def epsilon_selector(self) -> Fraction:
        """What one selection may spend."""
        touched = self.cap or 1 if self.releases is None else self.releases
        return (self.epsilon - self.epsilon_monitor) / touched

    @property
    def delta_selector(self) -> Fraction:
        """What one selection may spend."""
        return self.delta / (self.cap or 1 if self.releases is None else self.releases)

    def gate(self, noise: Noise, published: bytes, missing: Callable[[], int]) -> VoteGate:
        """The gate that this plan describes, at its beginning. `missing` is public: how many causes
        the rule that is published may lack."""
        if self.monitor == "votes":
            return self._votes_gate(noise, published)
        rate = float(self.epsilon_monitor) / (self.cap or 1)

        @cache
        def schedule(base: int) -> Schedule:
            # Made when needed: a class of many causes has many thresholds, and few are ever met.
            return Schedule(base, rate, self.check_every, self.tolerance)

        def threshold(age: Any, refusals: int) -> Any:
            base = self.thresholds[min(missing(), len(self.thresholds)) - 1]
            return schedule(base)(age, refusals)

        return MistakesGate(
            noise,
            epsilon=self.epsilon_monitor,
            selector=SELECTORS[self.selector](
                epsilon=self.epsilon_selector, delta=self.delta_selector
            ),
            threshold=threshold,
            published=published,
            check_every=self.check_every,
            restart_every=self.restart_every,
            cap=self.cap,
            unit=self.unit,
        )

    def _votes_gate(self, noise: Noise, published: bytes) -> HistSparse:
        if self.releases is None or self.epsilon_monitor != self.epsilon / 2:
            raise BadParameter("the votes monitor has half of epsilon and a number of releases")
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
        """The plan as JSON data; `plan_from_json` reads it back exactly."""
        leaves = {str(leaves): count for leaves, count in self.leaves.items()}
        return super().to_json() | {"leaves": leaves}

    def lines(self) -> Iterator[Line]:
        """The plan as a table: what is proved, where the budget goes, what is hoped."""
        return lines(self)

    @property
    def vacuous(self) -> bool:
        """Whether a change of rule would take more mistakes than there are rounds."""
        return self.expected_mistakes is not None and self.expected_mistakes > self.horizon

    @property
    def votes_needed(self) -> int:
        """The votes with which a leader is named nineteen times in twenty."""
        epsilon, delta = float(self.epsilon_selector), float(self.delta_selector)
        return Selection(SELECTORS[self.selector], epsilon, delta).votes_for(0.95)


def _asked(cls: HypothesisClass, epsilon: Real, delta: Real, horizon: int) -> dict[str, Any]:
    """What a person asks of any plan, checked."""
    return {
        "made_for": repr(cls),
        "epsilon": planned_epsilon(epsilon),
        "delta": planned_delta(delta),
        "horizon": planned_horizon(horizon),
    }


def _releases(cls: HypothesisClass, epsilon: Real, releases: int | None) -> int:
    """How many releases a lasting forest has: one for each mistake it cannot avoid, and one."""
    count = complexity(cls) + 1 if releases is None else whole(releases, "releases", least=1)
    planned_epsilon(epsilon, count, of=f"{count:,} releases")
    return count


def _shapes(trees: int, cls: HypothesisClass) -> dict[int, int]:
    """Flat trees; where copies may stall, half of them taller."""
    return {1: trees - trees // 2, 4: trees // 2} if can_stall(cls) else {1: trees}


_EXACT = {"epsilon": positive, "epsilon_monitor": positive, "delta": probability}


def plan_from_json(data: Mapping[str, Any]) -> Plan:
    """Read back what `Plan.to_json` wrote."""
    leaves = {"leaves": {int(n): count for n, count in data.get("leaves", {}).items()}}
    return planned_from_json(Plan, {name: leaves.get(name, data[name]) for name in data})
