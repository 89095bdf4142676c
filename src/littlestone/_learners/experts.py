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

On a stream that no rule fits it settles: staying with the published rule is an outcome of the draw,
and rules that were exchanged in vain make further changes harder (`_learners/stay.py`; Theorem 17).
The one parameter is `change_cost`, how many mistakes one change of rule is worth; 0 switches
staying off. Mistakes may have different costs: a missed positive 1, a false alarm c = min_rate /
(1 - min_rate).

`ExpertsPlan` holds the constants. Privacy holds for every value of every field; utility is a
heuristic: a rule is drawn with weight exp(-epsilon_h mistakes / 2), so a release is worth making
when the rules that made the published rule's mistakes are outweighed by those that did not.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._data.rounds import RowSpan
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.base import PrivateLearner
from littlestone._learners.dpsoa import Engine, engine_of
from littlestone._learners.loop import ChangedState, EpochState, Judged, StateData
from littlestone._learners.plan_table import (
    AUTO_RATE,
    CHANGE_COST,
    PlanTable,
    checked_change_cost,
    checked_min_rate,
    given_plan,
    planned_epsilon,
    planned_horizon,
)
from littlestone._learners.scores import (
    Counts,
    MistakeCounts,
    Placed,
    Placing,
    index_key,
    mistake_counts,
)
from littlestone._learners.stay import ChangeCharges, StaySchedule
from littlestone._learners.tree import Purpose, below, fresh_seed, random_bits
from littlestone._learners.tuning import Climb, complexity
from littlestone._privacy.draws import ExponentialMechanism, StayOrDraw
from littlestone._privacy.gates import Gate
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, Real
from littlestone._privacy.schedules import Climbing
from littlestone.errors import TooLarge

# How probably a draw selects a rule that erred like the one it replaces.
ERROR_RATE = 0.1
# The weight that is shared out evenly at every release.
EVEN_SHARE = 0.02


# The most mistakes that the prior may be worth: far from the limits of 64 bits.
LARGEST_PENALTY = 1 << 40


class FixedSharePrior:
    """Hold the prior weight of every rule of a finite class, by its index in the public order."""

    def __init__(self, size: int) -> None:
        self._weights = np.full(size, 1 / size)

    def drop(self, agreement: Mask) -> float:
        """Update the weights after a rule was replaced; return the weight that speaks against it."""
        contradicted = float(self._weights[agreement].sum())
        posterior = self._weights * np.where(agreement, ERROR_RATE, 1 - ERROR_RATE)
        # Fixed share: no weight falls so far that a target that changed could not come back.
        even = EVEN_SHARE / len(posterior)
        self._weights = (1 - EVEN_SHARE) * posterior / posterior.sum() + even
        return contradicted

    def penalties(self, rate: Fraction) -> npt.NDArray[np.int64]:
        """Return the weights as mistakes."""
        # Relative to the best rule, so that penalties are small integers.
        nats = np.log(self._weights.max() / self._weights)
        # Clipped (they are public, so that is free): a number beyond 64 bits would wrap around, and
        # one row would then move a score by more than 1.
        mistakes = np.minimum(np.round(nats / float(rate)), LARGEST_PENALTY)
        penalties: npt.NDArray[np.int64] = mistakes.astype(np.int64)
        return penalties


# The monitor's share of epsilon: with staying, and without.
STAY_SPLIT, SPLIT = Fraction(9, 20), Fraction(1, 2)
# Added to a threshold for the noise, in units of its scale: about half of all firings come with
# fewer mistakes than planned when mistakes are rare, and far fewer firings do in a burst.
NOISE_ALLOWANCE = 1.5
# How far staying is ahead of every other rule, in nats: for each nat of `spread`, in any case, and
# more once a draw has stayed, because a stream that a rule fits rarely comes to that.
STAY_SPREAD, STAY_NATS, STAYED_NATS = 1.3, 1.2, 1.0
# The positive rate above which it pays to be positive: 1/2 counts all mistakes alike.
EVEN_RATE = Fraction(1, 2)
# No field of a plan exceeds it, and a draw spends at least one such part: floats hold both.
LARGEST_FIELD = 10**100


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
    change_cost
        The mistakes that one change of rule is worth; 0 switches staying off.
    min_rate
        The positive rate of rows above which it pays to predict positive, at most 1/2: a false
        alarm costs min_rate / (1 - min_rate) of a missed positive.
    stay_nats
        How far staying is ahead of every other rule in the draw, in nats.
    free_charges
        The charges of changes (`ChangeCharges`) before changes become harder.
    expected_mistakes
        The mistakes that a change of rule is expected to take.

    Examples
    --------
    >>> from littlestone._classes.thresholds import Thresholds
    >>> plan = ExpertsPlan.practical(Thresholds(1, 1000), epsilon=1, horizon=100_000)
    >>> plan.threshold, plan.check_every, plan.units
    (15, 4, 1)
    """

    # No fields: users are not protected together.
    delta, unit, cap = Fraction(0), "event", None

    made_for: str
    epsilon: Fraction
    horizon: int
    epsilon_monitor: Fraction
    threshold: int
    check_every: int
    change_cost: Fraction = Fraction(0)
    min_rate: Fraction = EVEN_RATE
    stay_nats: Fraction = Fraction(0)
    free_charges: Fraction = Fraction(0)
    expected_mistakes: int | None = None

    def __post_init__(self) -> None:
        self._check_fields(("epsilon", "epsilon_monitor"), ("horizon", "threshold", "check_every"))
        object.__setattr__(self, "min_rate", checked_rate(self.min_rate))
        object.__setattr__(self, "change_cost", checked_change_cost(self.change_cost))
        for name in ("stay_nats", "free_charges"):
            if not 0 <= getattr(self, name) <= LARGEST_FIELD:
                raise BadParameter(f"{name} must be at least 0 and at most 1e100")
        # A rate that is 0 as a float makes penalties of 0 / 0 mistakes, which would wrap around.
        if self.epsilon_selector * LARGEST_FIELD < 1:
            raise BadParameter("the monitor's epsilon leaves nothing for the draws")

    @classmethod
    def practical(
        cls,
        hypotheses: HypothesisClass,
        epsilon: Real,
        horizon: int,
        *,
        change_cost: Real = CHANGE_COST,
        min_rate: Real = EVEN_RATE,
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
        change_cost
            The mistakes that one change of rule is worth; 0 switches staying off.
        min_rate
            The positive rate above which it pays to predict positive, above 0 and at most 1/2.

        Raises
        ------
        TooLarge
            If the class is infinite.
        """
        exact, horizon = planned_epsilon(epsilon), planned_horizon(horizon)
        cost = checked_change_cost(change_cost)
        size = checked_class(hypotheses).size
        if size is None:
            raise TooLarge(f"{hypotheses!r} has infinitely many rules: use DPSOA")
        split = STAY_SPLIT if cost else SPLIT
        rate, rest = float(exact * split), float(exact * (1 - split))
        # No search needs more bits than the rules have names.
        bits = max(1, math.ceil(math.log2(size)))
        depth = max(1, min(complexity(hypotheses), bits))
        # Rules per bit of dimension: thresholds halve the rules with every mistake, points do not.
        spread = math.log(size) / depth
        threshold = mistakes_to_outweigh(rest, spread) + round(NOISE_ALLOWANCE / rate)
        nats = STAY_SPREAD * spread + STAY_NATS
        return cls(
            made_for=repr(hypotheses),
            epsilon=exact,
            horizon=horizon,
            epsilon_monitor=exact * split,
            threshold=threshold,
            check_every=max(1, round(2 / rate)),
            change_cost=cost,
            min_rate=checked_rate(min_rate),
            stay_nats=Fraction(round(100 * nats), 100) if cost else Fraction(0),
            free_charges=Fraction(depth, 2) if cost else Fraction(0),
            expected_mistakes=threshold + math.ceil(1 / (2 * rate)),
        )

    @property
    def epsilon_selector(self) -> Fraction:
        """Return what one draw may spend."""
        return self.epsilon - self.epsilon_monitor

    @property
    def costs(self) -> tuple[int, int]:
        """Return what a missed positive and a false alarm cost, in whole units."""
        # min_rate / (1 - min_rate) in lowest terms, as min_rate is.
        false_alarm = self.min_rate.numerator
        return self.min_rate.denominator - false_alarm, false_alarm

    @property
    def units(self) -> int:
        """Return how many units the dearer mistake, a missed positive, costs."""
        return self.costs[0]

    @property
    def rate(self) -> Fraction:
        """Return what a unit takes off the logarithm of a rule's weight in the draw."""
        return self.epsilon_selector / (2 * self.units)

    def schedule(self) -> Climb:
        """Return the loss at which the monitor fires without staying, by the epoch's age."""
        rate = float(self.epsilon_monitor) / self.units
        return Climb(self.threshold * self.units, rate, self.check_every)

    def stay_schedule(self) -> StaySchedule:
        """Return when the gate draws or stays, by the tenure of the published rule."""
        rate = float(self.epsilon_monitor) / self.units
        return StaySchedule(self.threshold * self.units, rate, self.check_every, self.units)

    def stay_penalty(self, refusals: int) -> int:
        """Return how far staying is ahead of every other rule, in units.

        Parameters
        ----------
        refusals
            How often in a row the draw has stayed.
        """
        nats = float(self.stay_nats) + (STAYED_NATS if refusals else 0.0)
        # Clipped, like all that is added to scores: see `FixedSharePrior.penalties`.
        return round(min(nats / float(self.rate), LARGEST_PENALTY))

    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        monitor, each = float(self.epsilon_monitor), float(self.epsilon_selector)
        yield "monitor's budget", f"epsilon {monitor:.4g}", "once, for all rounds"
        why = "each draw reads its own rounds: releases are unlimited"
        yield "draws' budget", f"epsilon {each:.4g} a draw", why
        if self.min_rate != EVEN_RATE:
            cost = float(Fraction(self.costs[1], self.units))
            why = f"min_rate {float(self.min_rate):g}"
            yield "cost of a false alarm", f"{cost:.4g} of a missed positive", why
        yield "monitor", f"mistakes of the rule >= {self.threshold:,}", "then draw a rule"
        yield "check every", f"{self.check_every:,} rounds", "a public schedule"
        if self.change_cost:
            why = "what a change must win where no rule fits; 0 follows every change"
            yield "change cost", f"{float(self.change_cost):g} mistakes", why


def checked_rate(min_rate: Real | str) -> Fraction:
    """Return a `min_rate` as an exact fraction, above 0 and at most 1/2; "auto" is 1/2."""
    given = checked_min_rate(min_rate)
    rate = EVEN_RATE if given == AUTO_RATE else Fraction(given)
    if rate > EVEN_RATE:
        raise BadParameter(f"min_rate of private experts must be at most 0.5, not {min_rate}")
    return rate


def mistakes_to_outweigh(epsilon: float, spread: float) -> int:
    """Return the mistakes after which the rules that made them are outweighed by the others."""
    return math.ceil(2 / epsilon * (spread - math.log(ERROR_RATE)))


# The key of the first rule, which no draw selects.
FIRST = b"first"

FirstRule = Literal["drawn", "own"]


class PrivateExperts(PrivateLearner):
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
    change_cost
        The mistakes that one change of rule is worth: on a stream that no rule fits it settles on
        a rule that is nearly best. With 0 it does not settle, and follows every change.
    min_rate
        The positive rate above which it pays to predict positive, above 0 and at most 1/2: a false
        alarm costs min_rate / (1 - min_rate) of a missed positive.
    first
        Where the first rule comes from: "drawn" by the seed, or the class's "own". Neither makes
        fewer mistakes on the whole (`make bench`, "experts"); a drawn one is not known in advance.
    seed
        The seed of the first rule, which is not secret.
    noise
        Where all noise is drawn; `SystemNoise()` if left out.
    engine
        Where remote rows are read: "ray" for a Ray cluster (docs/scale.md). The rules are the same.

    Examples
    --------
    >>> from littlestone._classes.thresholds import Thresholds
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
        change_cost: Real | None = None,
        min_rate: Real | None = None,
        first: FirstRule = "drawn",
        seed: int | None = None,
        noise: Noise | None = None,
        engine: str | Engine | None = None,
    ) -> None:
        # Only rows are remote, and they bring their own: here the cluster is merely reached.
        engine = engine_of(engine)
        engine.connected()
        counts = mistake_counts(cls)
        needed = {"epsilon": epsilon, "horizon": horizon}
        options = {"change_cost": change_cost, "min_rate": min_rate}
        plan = given_plan(ExpertsPlan, cls, plan, needed, **options)
        counts.costs = plan.costs
        seed = fresh_seed() if seed is None else seed
        rule = _first_rule(counts, first, seed)
        gate = _gate(plan, counts.size, SystemNoise() if noise is None else noise)
        state = ExpertScores(counts, plan, rule, gate)
        state.largest_step = engine.largest_window
        super().__init__(plan, seed, rule, state, gate)


class ExpertScores(EpochState):
    """Hold the mistakes of every rule of a class, and a prior from what was published."""

    def __init__(
        self, counts: MistakeCounts, plan: ExpertsPlan, rule: Hypothesis, gate: Gate[Any]
    ) -> None:
        self.cls, self.counts, self._plan, self._gate = counts.cls, counts, plan, gate
        self._costs, self._placing = plan.costs, Placing(counts.index)
        self._prior, self._published = FixedSharePrior(counts.size), rule
        self._charges = ChangeCharges(plan.change_cost, float(plan.free_charges))
        self._set_penalties()

    def judge(self, part: RowSpan, rule: Hypothesis) -> Judged:
        """Return rounds with their losses: missed positives and false alarms have their costs."""
        rows: Placed = part.apply(self._placing, self.cls, rule)
        missed, alarm = self._costs
        losses = None if missed == alarm else np.where(rows.answers[rows.is_wrong], missed, alarm)
        return Judged(rows, rows.number[rows.is_wrong], losses)

    def loss(self, x: object, y: bool, rule: Hypothesis) -> int:
        """Return the loss of one row, in units."""
        return super().loss(x, y, rule) * self._costs[0 if y else 1]

    def add(self, judged: Judged) -> None:
        """Count the mistakes of every rule."""
        self.counts.learn(judged.rows.points, judged.rows.answers)

    def scores(self, number: int, fired: bool) -> Counts:
        """Return the score of every rule, and that of staying."""
        return self.counts.ballot

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key: its index in the public order."""
        return self.counts.named(key)

    def restart(self, number: int, rule: Hypothesis) -> None:
        """Begin an epoch without earlier rounds; the prior from what was published stays."""
        if rule != self._published:
            self._changed(number, rule)
        if isinstance(self._gate.schedule, StaySchedule):
            margin = self._charges.margin(number) * self._plan.units
            self._gate.schedule.set_margin(min(margin, LARGEST_PENALTY))
        self._set_penalties()
        # The next draw must not read these rounds again: Theorem 10 has each read once.
        self.counts.restart(rule)

    def _set_penalties(self) -> None:
        """Set what the scores of the next draw begin with: functions of what was published."""
        penalties = self._prior.penalties(self._plan.rate)
        if isinstance(self._gate.schedule, StaySchedule):
            tenure = self._gate.schedule.tenure
            ahead = self._plan.stay_penalty(tenure.refusals) + tenure.margin
            # Relative to the published rule, where it is one of the list.
            listed = self._gate.published != FIRST
            own = penalties[int.from_bytes(self._gate.published)] if listed else 0
            penalties = penalties - own + ahead
            self.counts.standing = self._published
        self.counts.penalised = penalties

    def _changed(self, number: int, rule: Hypothesis) -> None:
        """Update prior and charges: a rule was published in the place of the one before."""
        contradicted = self._prior.drop(self.counts.agreement_with(self._published, rule))
        if self._plan.change_cost:
            self._charges.add(number, contradicted)
        self._published = rule

    def get_state(self) -> StateData:
        """Return what is not in pages of counts."""
        return self.counts.get_state()

    def unsaved(self) -> ChangedState:
        """Return the pages of counts that have changed since the last call."""
        return self.counts.unsaved()

    def load_state(
        self, live: StateData, parts: Mapping[int, bytes], rules: Sequence[tuple[int, Hypothesis]]
    ) -> None:
        """Load the saved counts; prior and charges follow from what was published."""
        self.counts.load_state(live, parts)
        # They are not saved: they are functions of the releases, as the proof requires.
        for number, rule in rules[1:]:
            self._changed(number - 1, rule)
        self._set_penalties()


def _first_rule(counts: MistakeCounts, first: FirstRule, seed: int) -> Hypothesis:
    """Return the rule before any example: it reads no data, hence costs nothing."""
    if first not in ("drawn", "own"):
        raise BadParameter(f"first is 'drawn' or 'own', not {first!r}")
    own = counts.cls.hypothesis(counts.cls.start())
    # A class may have no rule of its own before the first example.
    if first == "own" and own is not None:
        return own
    return counts.rule(int(below(counts.size, random_bits(seed, Purpose.FIRST))))


def _gate(plan: ExpertsPlan, size: int, noise: Noise) -> Gate[Any]:
    """Return the gate over so many rules."""
    keys = [index_key(index) for index in range(size)]
    stays = bool(plan.change_cost)
    draw = StayOrDraw if stays else ExponentialMechanism
    return Gate(
        noise,
        epsilon=plan.epsilon_monitor,
        schedule=plan.stay_schedule() if stays else Climbing(plan.schedule()),
        draw=draw(keys, epsilon=plan.epsilon_selector, sensitivity=plan.units),
        published=FIRST,
        check_every=plan.check_every,
        largest_loss=plan.units,
        # Staying is an outcome of its own: the published key would be a second one. Without it, a
        # false alarm on a right rule must not replace it for certain (Theorem 6).
        leave_out_published=stays,
    )
