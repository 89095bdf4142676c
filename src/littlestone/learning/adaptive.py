"""The adaptive learner (Theorem 4.2): a release at every round. O(t) a round, so O(T^2) in all.

At each round a fresh forest is planted on the whole prefix and a stable histogram of its votes is
released, so that a stream which reacts to what is published meets coins that it has not seen. All
releases read the whole stream, so all of them add up; at epsilon 1 that is vacuous for any stream
that can be run, and the plan says so. Where only privacy against such a stream matters, note that
`DPSOA` and `PrivateExperts` are private against it too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from littlestone.learning.coins import fresh_seed
from littlestone.learning.prediction import Selection
from littlestone.learning.prefix import Prefix
from littlestone.learning.private import EventLearner
from littlestone.learning.releases import Release
from littlestone.learning.restarting import Publish, Watch
from littlestone.learning.rounds import Rounds, Stretch
from littlestone.learning.saving import Live
from littlestone.learning.wording import Line, Planned
from littlestone.privacy.accounting import Cost, per_release
from littlestone.privacy.every_check import EveryCheck
from littlestone.privacy.exact import (
    BadParameter,
    Real,
    planned_delta,
    planned_epsilon,
    whole,
)
from littlestone.privacy.histogram import StableHistogram
from littlestone.privacy.noise import Noise, SystemNoise
from littlestone.theory.classes import HypothesisClass, checked_class, kinds_of, predict_rows
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import as_batch

SURE = 0.99
EVEN = 0.5
TREES_A_VOTE = 2
"""Trees for each vote that a release needs: with more, the first rule keeps more votes than the
news has; with fewer, mistakes meet in the same trees."""
LONGEST = 10**6
"""Rounds to plan for, at most: T rounds take some T^2 steps."""
MOST_SUMMED = 10**6
"""Terms that are added up one by one; more of them have a formula."""
STEPS = 3
"""Of the search for a horizon; two are enough."""


@dataclass(frozen=True)
class EveryRoundPlan(Planned):
    """The constants of a learner that releases at every round.

    `first` is the first round after which it asks its trees; before it too few rounds have come
    to make the votes that a release needs, whatever they are, so the schedule is public.
    `mistakes_needed` is how many mistakes of the published rule it takes, on average, until another
    rule has those votes and more than the rule it is to replace; None when no number does.

    >>> plan = EveryRoundPlan.of(epsilon=20, delta=1e-6, horizon=1000)
    >>> plan.votes_needed, plan.mistakes_needed, plan.vacuous
    (491, 681, False)
    """

    epsilon: Fraction
    delta: Fraction
    horizon: int
    trees: int
    first: int
    votes_needed: int
    mistakes_needed: int | None

    def __post_init__(self) -> None:
        for name in ("horizon", "trees", "first"):
            whole(getattr(self, name), name, least=1)

    @classmethod
    def of(
        cls, epsilon: Real, delta: Real, horizon: int, *, trees: int | None = None
    ) -> "EveryRoundPlan":
        """Trees enough for the votes that a release needs when `horizon` releases are made."""
        if whole(horizon, "horizon", least=1) > LONGEST:
            raise BadParameter(
                f"a release at every round reads the whole stream each time: at most {LONGEST:,} "
                f"rounds, not {horizon:,}. Take DPSOA, which has no such limit"
            )
        exact = planned_epsilon(epsilon, horizon, of=f"{horizon:,} releases")
        total = Cost(exact, planned_delta(delta))
        each = per_release(total, horizon)
        selection = Selection(StableHistogram, float(each.epsilon), float(each.delta))
        votes, even = selection.votes_for(SURE), selection.votes_for(EVEN)
        count = TREES_A_VOTE * votes if trees is None else whole(trees, "trees", least=1)
        mistakes = rounds_to_reach(max(even, math.ceil(count / 2)), count)
        return cls(total.epsilon, total.delta, horizon, count, max(1, votes // 2), votes, mistakes)

    @property
    def vacuous(self) -> bool:
        """Whether a release needs more mistakes than there are rounds."""
        return self.mistakes_needed is None or self.mistakes_needed >= self.horizon

    @property
    def not_vacuous_from(self) -> int | None:
        """About the horizon from which on there can be the mistakes: they grow as the root of it,
        and a little faster. With as many trees as are best there. None beyond `LONGEST`."""
        horizon = self.horizon
        for _ in range(STEPS):
            needed = EveryRoundPlan.of(self.epsilon, self.delta, horizon).mistakes_needed or 0
            horizon = max(1, math.ceil(needed**2 / horizon))
            if horizon > LONGEST:
                return None
        return horizon

    def lines(self) -> Iterator[Line]:
        """The plan as a table."""
        pair = f"epsilon {float(self.epsilon):g}, delta {float(self.delta):g}"
        yield Line("privacy: proved", pair, "replace-one, per event; any stream")
        yield Line("releases", f"{self.horizon:,}", "one a round: they add up")
        yield Line("trees", f"{self.trees:,} of one leaf", "planted afresh at every round")
        yield Line("votes a release needs", f"{self.votes_needed:,}", "for 99 %")
        if self.mistakes_needed is not None:
            yield Line(
                "mistakes for them", f"about {self.mistakes_needed:,}", "some meet in a tree"
            )
        yield Line("asks from round", f"{self.first:,}", "earlier there cannot be the votes")
        yield Line("horizon", f"{self.horizon:,} rounds", "then the last rule stands")
        if self.vacuous:
            enough = self.not_vacuous_from
            rounds = f"from about {enough:,} rounds on, or" if enough else "it takes"
            yield Line(
                "vacuous",
                "a release needs more mistakes than there are rounds",
                f"the first rule will stand: {rounds} a larger epsilon, or DPSOA",
            )
        else:
            yield Line("utility: heuristic", "no prediction", "measure it on synthetic streams")


def rounds_to_reach(some: int, trees: int) -> int | None:
    """How many rounds it takes, on average and rounded up, until so many trees have been reached,
    when each round goes to a tree at random; None when there are not so many (coupon collector).

    >>> rounds_to_reach(2, 3), rounds_to_reach(491, 982), rounds_to_reach(4, 3)
    (3, 681, None)
    """
    if some > trees:
        return None
    if some > MOST_SUMMED:  # the sum is close to an integral, of 1/x from trees - some to trees
        left = trees - some
        return math.ceil(trees * math.log((2 * trees + 1) / (2 * left + 1)))
    return math.ceil(float((trees / np.arange(trees, trees - some, -1)).sum()))


class EveryRoundRunner:
    """Voters and a gate that asks them at every round, moving through the rounds together."""

    def __init__(
        self,
        cls: HypothesisClass,
        forest: Prefix,
        gate: EveryCheck,
        rule: Hypothesis,
        first: int,
        publish: Publish,
        watch: Watch,
    ) -> None:
        self.forest, self.gate, self.rule = forest, gate, rule
        self.mistakes = 0
        self._cls, self._first, self._publish, self._watch = cls, first, publish, watch

    def live(self) -> Live:
        """What is needed to go on, beside the gate, the rule and the prefix."""
        return {"mistakes": self.mistakes}

    def revive(self, live: Live, releases: Sequence[Release]) -> None:
        """Go on from where another was saved; gate and prefix are revived already."""
        self.mistakes, self.rule = live["mistakes"], releases[-1].rule

    def advance(self, rounds: Stretch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`, one after the other."""
        near = rounds.here()
        for number in range(start, stop):
            one = near.between(number, number + 1)
            if one.size:
                self._learn(one.copied())
            self.pass_one(number)

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round."""
        batch = as_batch([x], kinds_of(self._cls))
        self._learn(Rounds(batch, np.array([y]), np.array([number]), np.array([route])))
        self.pass_one(number)

    def _learn(self, one: Rounds) -> None:
        self.mistakes += int((predict_rows(self._cls, self.rule, one.batch) != one.answers).sum())
        self.forest.learn(one.batch, one.answers, one.number)

    def pass_one(self, number: int) -> None:
        """The end of a round, null or not: ask the trees."""
        if number + 1 < self._first or self.gate.exhausted:
            return
        _, key = self.gate.check(self.forest.ballot(number))
        rule = self.rule if key is None else self.forest.named(key)
        changed = rule != self.rule
        if changed:
            self.rule = rule
            self._publish(number + 1, rule)
        self._watch(number + 1, self.forest.votes, changed)


class AdaptiveDPSOA(EventLearner):
    """The learner of Theorem 4.2. O(t) a round: for streams of some 10^4 rounds. Forward only.

    Requires: nothing of the stream. Promises: `guarantee`, for every stream, also one chosen in
    reaction; the same rules however the rounds are batched. `plan.vacuous` says whether epsilon is
    too small for a release to name anything but the first rule.

    >>> from littlestone.theory.sets import Points
    >>> learner = AdaptiveDPSOA(Points(), epsilon=90, delta=1e-3, horizon=200)
    >>> learner.learn_many(["a", "b"] * 100, [1, 0] * 100)
    >>> print(learner.hypothesis, "|", learner.guarantee)
    x = 'a' | (90.0, 0.001)-differential privacy, replace-one, per event
    """

    fresh = True

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        trees: int | None = None,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        checked_class(cls)
        self.plan = EveryRoundPlan.of(epsilon, delta, horizon, trees=trees)
        self.seed = fresh_seed() if seed is None else seed
        rule = cls.hypothesis(cls.start())
        if rule is None:
            raise BadParameter(f"{cls!r} has no rule before any example")
        super().__init__(cls, rule, horizon)
        gate = EveryCheck(
            SystemNoise() if noise is None else noise,
            epsilon=self.plan.epsilon,
            delta=self.plan.delta,
            releases=horizon,
            published=rule.key,
        )
        forest = Prefix(cls, self.plan.trees, self.seed, fresh=self.fresh)
        self._runner = EveryRoundRunner(
            cls, forest, gate, rule, self.plan.first, self._publish, self._watch
        )


class EveryRound(AdaptiveDPSOA):
    """The naive private baseline: the same, from one forest whose coins never change.

    Private all the same, as the proof fixes the coins; what it lacks is the promise of few
    mistakes against a stream that reacts.
    """

    fresh = False
