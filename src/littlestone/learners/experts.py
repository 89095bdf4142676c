"""Learn privately from a finite public class: draw a rule when the last has erred too often.

After Asi, Feldman, Koren and Talwar (2023), with epochs (docs/guarantee.md, Theorem 10): the
mistakes monitor decides when, the exponential mechanism over all rules decides what. There is no
delta, and the number of releases is unlimited.

An epoch discards the data of those before it, but the rules they published give a public prior
(`FixedSharePrior`). When a rule is replaced, some example on which the two rules differ was
evidence for the new one. So rules that agree with the replaced one wherever the two differ lose
weight by Bayes' rule, with an error probability of `ERROR_RATE`; and as the target may change, a
little of the weight is shared out evenly each time (fixed share, Herbster and Warmuth 1998). All of
it is a function of what was published, so it costs no privacy.

`ExpertsPlan` holds the constants. Privacy holds for every value of every field; utility is a
heuristic: a rule is drawn with weight exp(-epsilon_h mistakes / 2), so a release is worth making
when the rules that made the published rule's mistakes are outweighed by those that did not.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from littlestone.classes.base import HypothesisClass, checked_class
from littlestone.errors import TooLarge
from littlestone.hypotheses.rules import Hypothesis
from littlestone.hypotheses.values import Mask
from littlestone.learners.base import EventLearner, Release, StateData
from littlestone.learners.plan_table import (
    VACUOUS,
    PlanLine,
    PlanTable,
    planned_epsilon,
    planned_horizon,
)
from littlestone.learners.runners import BallotWatcher, EpochRunner, Publish
from littlestone.learners.scores import MistakeCounts, index_key, mistake_counts
from littlestone.learners.tree import Purpose, below, fresh_seed, random_bits
from littlestone.learners.tuning import Schedule, complexity, fresh_start, tolerated
from littlestone.privacy.exponential import ExponentialMechanism, Scores
from littlestone.privacy.gates import Decision, MistakesGate
from littlestone.privacy.noise import Noise, SystemNoise
from littlestone.privacy.parameters import BadParameter, Real, positive, whole

# How probably a draw selects a rule that erred like the one it replaces.
ERROR_RATE = 0.1
# The weight that is shared out evenly at every release.
EVEN_SHARE = 0.02


# The most mistakes that the prior may be worth: far from the limits of 64 bits.
LARGEST_PENALTY = 1 << 40


class FixedSharePrior:
    """Hold the prior weight of every rule of a finite class, by its index in the public order.

    Parameters
    ----------
    size
        How many rules there are.

    Examples
    --------
    >>> prior = FixedSharePrior(4)
    >>> prior.drop(np.array([True, True, False, False]))
    >>> prior.penalties(Fraction(1, 4))
    array([8, 8, 0, 0])
    """

    def __init__(self, size: int) -> None:
        self._weights = np.full(size, 1 / size)

    def drop(self, agreement: Mask) -> None:
        """Update the weights after a rule was replaced.

        Parameters
        ----------
        agreement
            Which rules agree with the replaced rule wherever it differs from the new one.
        """
        posterior = self._weights * np.where(agreement, ERROR_RATE, 1 - ERROR_RATE)
        # Fixed share: no weight falls so far that a target that changed could not come back.
        self._weights = (1 - EVEN_SHARE) * posterior / posterior.sum() + EVEN_SHARE / len(posterior)

    def penalties(self, rate: Fraction) -> npt.NDArray[np.int64]:
        """Return the weights as mistakes.

        Parameters
        ----------
        rate
            A mistake divides a rule's weight by exp(rate).
        """
        # Relative to the best rule, so that penalties are small integers.
        nats = np.log(self._weights.max() / self._weights)
        # Clipped (they are public, so that is free): a number beyond 64 bits would wrap around, and
        # one row would then move a score by more than 1.
        mistakes = np.minimum(np.round(nats / float(rate)), LARGEST_PENALTY)
        penalties: npt.NDArray[np.int64] = mistakes.astype(np.int64)
        return penalties


# The monitor's share of epsilon.
SPLIT = Fraction(1, 2)
# Added to a threshold for the noise, in units of its scale: about half of all firings come with
# fewer mistakes than planned when mistakes are rare, and far fewer firings do in a burst.
NOISE_ALLOWANCE = 1.5


@dataclass(frozen=True)
class ExpertsPlan(PlanTable):
    """Hold the constants of `PrivateExperts`. Make one with `ExpertsPlan.practical`.

    Parameters
    ----------
    made_for
        The class that it was made for, in words.
    epsilon
        The privacy budget.
    horizon
        The number of rounds.
    epsilon_monitor
        What the monitor spends, once; a draw may spend the rest.
    threshold
        The mistakes of a new epoch at which the monitor fires, before noise.
    check_every
        The rounds from one check to the next.
    tolerance
        The share of mistakes that causes no change.
    restart_every
        The rounds after which an epoch of the monitor ends without a firing, or None.
    expected_mistakes
        The mistakes that a change of rule is expected to take.

    Examples
    --------
    >>> from littlestone.classes.thresholds import Thresholds
    >>> plan = ExpertsPlan.practical(Thresholds(1, 1000), epsilon=1, horizon=100_000)
    >>> plan.threshold, plan.check_every
    (16, 4)
    """

    made_for: str
    epsilon: Fraction
    horizon: int
    epsilon_monitor: Fraction
    threshold: int
    check_every: int
    tolerance: Fraction = Fraction(0)
    restart_every: int | None = None
    expected_mistakes: int | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "epsilon_monitor"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        for name in ("horizon", "threshold", "check_every"):
            whole(getattr(self, name), name, least=1)
        tolerated(self.tolerance)
        if self.epsilon_monitor >= self.epsilon:
            raise BadParameter("the monitor's epsilon leaves nothing for the draws")

    @classmethod
    def practical(
        cls, hypotheses: HypothesisClass, epsilon: Real, horizon: int, *, tolerance: Real = 0
    ) -> "ExpertsPlan":
        """Choose all constants to make few mistakes, from the class's size and dimension.

        Parameters
        ----------
        hypotheses
            The class.
        epsilon
            The privacy budget.
        horizon
            The number of rounds.
        tolerance
            The share of mistakes that causes no change.

        Raises
        ------
        TooLarge
            If the class is infinite.
        """
        exact, horizon = planned_epsilon(epsilon), planned_horizon(horizon)
        size = checked_class(hypotheses).size
        if size is None:
            raise TooLarge(f"{hypotheses!r} has infinitely many rules: use DPSOA")
        rate, rest = float(exact * SPLIT), float(exact * (1 - SPLIT))
        # No search needs more bits than the rules have names.
        bits = max(1, math.ceil(math.log2(size)))
        # Rules per bit of dimension: thresholds halve the rules with every mistake, points do not.
        spread = math.log(size) / max(1, min(complexity(hypotheses), bits))
        threshold = mistakes_to_outweigh(rest, spread) + round(NOISE_ALLOWANCE / rate)
        return cls(
            made_for=repr(hypotheses),
            epsilon=exact,
            horizon=horizon,
            epsilon_monitor=exact * SPLIT,
            threshold=threshold,
            check_every=max(1, round(2 / rate)),
            tolerance=tolerated(tolerance),
            restart_every=fresh_start(threshold, tolerated(tolerance)),
            expected_mistakes=threshold + math.ceil(1 / (2 * rate)),
        )

    @property
    def epsilon_selector(self) -> Fraction:
        """Return what one draw may spend."""
        return self.epsilon - self.epsilon_monitor

    @property
    def vacuous(self) -> bool:
        """Return whether a change of rule would take more mistakes than there are rounds."""
        return self.expected_mistakes is not None and self.expected_mistakes > self.horizon

    def schedule(self) -> Schedule:
        """Return the mistakes at which the monitor fires, as a function of the epoch's age."""
        rate = float(self.epsilon_monitor)
        return Schedule(self.threshold, rate, self.check_every, self.tolerance)

    def lines(self) -> Iterator[PlanLine]:
        """Yield the plan as a table: what is proved, where the budget goes, what is expected."""
        yield PlanLine(
            "privacy: proved",
            f"epsilon {float(self.epsilon):g}, delta 0",
            "replace-one, per event; any stream",
        )
        yield PlanLine(
            "monitor's budget", f"epsilon {float(self.epsilon_monitor):.4g}", "once, for all rounds"
        )
        yield PlanLine(
            "draws' budget",
            f"epsilon {float(self.epsilon_selector):.4g} a draw",
            "each draw reads its own rounds: releases are unlimited",
        )
        yield PlanLine("monitor", f"mistakes of the rule >= {self.threshold:,}", "then draw a rule")
        yield PlanLine("check every", f"{self.check_every:,} rounds", "a public schedule")
        if self.tolerance:
            yield PlanLine(
                "tolerance", f"{float(self.tolerance):.2%}", "mistakes that cause no change"
            )
        if self.restart_every is not None:
            yield PlanLine(
                "fresh start every", f"{self.restart_every:,} rounds", "discards unused tolerance"
            )
        yield PlanLine("horizon", f"{self.horizon:,} rounds", "then the last rule stands")
        yield PlanLine(
            "utility: heuristic",
            f"about {self.expected_mistakes or 0:,} mistakes a change of rule",
            "when some rule of the class fits the stream",
        )
        if self.vacuous:
            yield VACUOUS


def mistakes_to_outweigh(epsilon: float, spread: float) -> int:
    """Return the mistakes after which the rules that made them are outweighed by the others.

    Parameters
    ----------
    epsilon
        What a draw spends.
    spread
        The logarithm of how many rules made the mistakes, for each that did not: for a search by
        bisection, that of a bit.

    Examples
    --------
    >>> mistakes_to_outweigh(0.5, math.log(2)), mistakes_to_outweigh(0.5, math.log(1000))
    (12, 37)
    """
    return math.ceil(2 / epsilon * (spread - math.log(ERROR_RATE)))


# The key of the first rule, which no draw selects.
FIRST = b"first"

FirstRule = Literal["drawn", "own"]


class PrivateExperts(EventLearner):
    """Learn privately from a finite class. Forward only: it cannot be copied or pickled.

    Requires: nothing of the stream. Promises: `guarantee`, which is (epsilon, 0), for every stream,
    also an adaptive one; the same rules however the rounds are batched.

    Parameters
    ----------
    cls
        The hypothesis class, which must be finite.
    epsilon
        The privacy budget; leave it out if a plan is given.
    horizon
        The number of rounds after which the last rule stands.
    plan
        The constants; `ExpertsPlan.practical` if left out.
    tolerance
        The share of mistakes that causes no change.
    first
        Where the first rule comes from: "drawn" by the seed, or the class's "own". Neither makes
        fewer mistakes on the whole (`make bench`, "experts"); a drawn one is not known in advance.
    seed
        The seed of the first rule, which is not secret.
    noise
        Where all noise is drawn; `SystemNoise()` if left out.

    Examples
    --------
    >>> from littlestone.classes.thresholds import Thresholds
    >>> learner = PrivateExperts(Thresholds(0, 100, column="score"), epsilon=8, horizon=10_000)
    >>> learner.learn_many({"score": [40, 90, 60, 80] * 1000}, [0, 1, 0, 1] * 1000)
    >>> learner.predict_one({"score": 90}), learner.predict_one({"score": 40})
    (True, False)
    >>> print(learner.guarantee)
    (8.0, 0.0)-differential privacy, replace-one, per event
    """

    plan: ExpertsPlan

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        horizon: int | None = None,
        *,
        plan: ExpertsPlan | None = None,
        tolerance: Real = 0,
        first: FirstRule = "drawn",
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        counts = mistake_counts(checked_class(cls))
        self.plan = _plan(cls, epsilon, horizon, plan, tolerance)
        self.seed = fresh_seed() if seed is None else seed
        rule = _first_rule(counts, first, self.seed)
        super().__init__(cls, rule, self.plan.horizon)
        gate = _gate(self.plan, counts.size, SystemNoise() if noise is None else noise)
        rate = self.plan.epsilon_selector / 2
        self._runner = ExpertsRunner(counts, gate, rule, self._publish, self._watch, rate)


class ExpertsRunner(EpochRunner[Scores]):
    """Run the mistake counts of a class and a gate of epochs through the rounds.

    Parameters
    ----------
    forest
        The mistake counts.
    gate
        Decides when to draw a rule, and draws it.
    rule
        The first rule.
    publish
        Called with every new rule.
    watch
        Called with private figures, for the data owner.
    rate
        A mistake divides a rule's weight in the draw by exp(rate).
    """

    def __init__(
        self,
        forest: MistakeCounts,
        gate: MistakesGate[Scores],
        rule: Hypothesis,
        publish: Publish,
        watch: BallotWatcher,
        rate: Fraction,
    ) -> None:
        super().__init__(forest, gate, rule, publish, watch, lazy=False)
        self._counts, self._prior, self._last_rule = forest, FixedSharePrior(forest.size), rule
        self._rate = rate

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Restore a saved state; the prior follows from what was published."""
        super().load_state(live, releases)
        # The prior is not saved: it is a function of the releases, as the proof requires.
        for release in releases[1:]:
            self._update_prior(release.rule)
        self._counts.penalised = self._prior.penalties(self._rate)

    def _check(self) -> Decision:
        """Make one check; all rules are scored at a firing only."""
        # A run of one check: scores of all rules are computed only if it fires.
        return self.gate.run([self._pending], lambda place: self.forest.ballot).decision

    def _restart_state(self) -> None:
        """Begin an epoch without earlier rounds; the prior from what was published stays."""
        if self.rule != self._last_rule:
            self._update_prior(self.rule)
            self._counts.penalised = self._prior.penalties(self._rate)
        # The next draw must not read these rounds again: Theorem 10 has each read once.
        super()._restart_state()

    def _update_prior(self, rule: Hypothesis) -> None:
        """Update the prior: a rule was published in the place of the one before."""
        self._prior.drop(self._counts.agreement_with(self._last_rule, rule))
        self._last_rule = rule

    def _restart_if_due(self) -> None:
        """Keep the counts: a public restart is the monitor's alone (Theorem 10)."""


def _plan(
    cls: HypothesisClass,
    epsilon: Real | None,
    horizon: int | None,
    plan: ExpertsPlan | None,
    tolerance: Real,
) -> ExpertsPlan:
    """Return the plan given, or the practical one for these parameters."""
    if plan is None:
        if epsilon is None or horizon is None:
            raise BadParameter("give epsilon and horizon, or a plan")
        return ExpertsPlan.practical(cls, epsilon, horizon, tolerance=tolerance)
    asked = {"epsilon": epsilon, "horizon": horizon, "tolerance": tolerance or None}
    for name, value in asked.items():
        if value is not None and value != getattr(plan, name):
            raise BadParameter(
                f"{name}={value} conflicts with the plan's {name}={getattr(plan, name)}"
            )
    return plan


def _first_rule(counts: MistakeCounts, first: FirstRule, seed: int) -> Hypothesis:
    """Return the rule before any example: it reads no data, hence costs nothing."""
    if first not in ("drawn", "own"):
        raise BadParameter(f"first is 'drawn' or 'own', not {first!r}")
    own = counts.cls.hypothesis(counts.cls.start())
    # A class may have no rule of its own before the first example.
    if first == "own" and own is not None:
        return own
    return counts.rule(int(below(counts.size, random_bits(seed, Purpose.FIRST))))


def _gate(plan: ExpertsPlan, size: int, noise: Noise) -> MistakesGate[Scores]:
    keys = [index_key(index) for index in range(size)]
    return MistakesGate(
        noise,
        epsilon=plan.epsilon_monitor,
        selector=ExponentialMechanism(keys, epsilon=plan.epsilon_selector),
        threshold=plan.schedule(),
        published=FIRST,
        check_every=plan.check_every,
        restart_every=plan.restart_every,
        # A false alarm on a right rule must not replace it for certain (Theorem 10).
        leave_out_published=False,
    )
