"""Choose the constants of `PrivateCauses` by formulas, and forecast how long a cause takes.

Privacy holds for every value of every field of `CausesPlan` (docs/guarantee.md, Theorems 15 and
16); utility is a heuristic.

The forecast: the monitor fires when the weighted loss of the published rule reaches a threshold.
Positives of the cause and positives of all other rows add to that loss; only the rows of the cause
speak for it. If they do not yet outweigh "nothing", the draw most likely publishes nothing; then
more of the loss is taken for base rate, and the counts begin anew.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._hypotheses.causes import Cause
from littlestone._learners.evidence import Window, rate_of
from littlestone._learners.plan_table import (
    AUTO_RATE,
    CHANGE_COST,
    THOUSANDTHS,
    PlanTable,
    check_unit,
    checked_change_cost,
    checked_min_rate,
    planned_delta,
    planned_epsilon,
    planned_horizon,
)
from littlestone._privacy.accounting import Cost, Unit
from littlestone._privacy.causes import CausesSchedule, Gains, SparseExponential
from littlestone._privacy.gates import Gate
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, Real, enclose_exp, whole
from littlestone.errors import BadClass

AUTO = AUTO_RATE
# The share of epsilon that the evidence has.
EVIDENCE_SHARE = Fraction(1, 10)
# The rounds of the first window at most, and as a share of the horizon.
FIRST_ROUNDS, FIRST_SHARE = 2000, Fraction(1, 20)
# "auto" is twice the base rate, within these limits, in thousandths.
LIFT, LEAST_RATE, MOST_RATE = 2, Fraction(1, 50), Fraction(1, 2)
# The prior of a pattern falls with its width.
PRIOR = (Fraction(1), Fraction(3, 10), Fraction(1, 10))
# A drop must gain so many missed positives to weigh as much as nothing.
DROP_PENALTY = 10
# How many changes are free that did not pay: after them a new cause has to gain more
# (`CausesPlan.margin`).
FREE_CHANGES = 2
# The loss at which the monitor fires, in thresholds, after 0, 1, 2, ... refusals in a row, if all
# of it is base rate: where false alarms are cheap, and where they cost as much as a miss;
# geometric means between. Cheap ones go with a low min_rate, and there with a base rate: begin
# higher. Where the first draw is likely to succeed a second one costs little, so that a refusal by
# chance does not multiply the regret; from there on steps are large, because each refused epoch is
# lost. `bench causes --fixed` measures it.
SLACK_CHEAP, SLACK_EQUAL = (2.5, 4.2, 9.5, 21, 46, 64), (1, 1.5, 4.5, 11.3, 26, 64)
# At the latest it fires at so many thresholds; and in the first epoch where the base rate is known.
MOST_SLACK, KNOWN_BASE = 64, 4
# A burst of losses fires at so many times the threshold above the expected loss.
BURST = 1.5
CHECK_EVERY = 8
# The nats by which the right cause should outweigh nothing at a firing, and the scales of the
# monitor's noise that are allowed for.
DRAW_MARGIN, MONITOR_MARGIN = 2, 3
# An epoch ends after so many rounds at the latest, so that memory is bounded.
LONGEST_EPOCH = 1 << 21
# While causes are published an epoch ends after this share of the horizon, then twice as much, and
# so on: a cause that has been repaired is dropped after about as long as it stood.
FIRST_EPOCHS = 32
# Windows of evidence: the first after a change as a share of the horizon, then twice as long.
SHORTEST_WINDOW, FIRST_WINDOWS, FEWEST_WINDOWS = 1000, 256, 8


@dataclass(frozen=True)
class CausesPlan(PlanTable):
    """Hold the constants of `PrivateCauses`. Make one with `CausesPlan.practical`.

    Parameters
    ----------
    made_for : str
        The class that it was made for, in words.
    epsilon, delta : Fraction
        The privacy budget.
    horizon : int
        The number of rounds.
    pattern_counts : str
        How many patterns of each width a row lists at most, separated by spaces.
    min_rate : str
        The positive rate above which a cause is worth publishing, exactly; or "auto".
    first_window : int
        The rounds of the first window, from which "auto" finds the rate; 0 with a given rate.
    evidence_share : Fraction
        The share of epsilon that the evidence has.
    check_every : int
        The rounds from one check to the next.
    longest_epoch : int
        The rounds after which an epoch ends at the latest.
    evidence_every : int
        The rounds of the first window of evidence after a change of rule.
    change_cost : Fraction
        How many missed positives one published change of rule is worth.
    unit : {"event", "user"}
        What is protected whole.
    cap : int, optional
        The most rounds of one user; for users only.

    Examples
    --------
    >>> plan = CausesPlan.practical(Causes(["version", "country"]), 1, 1e-7, 100_000, min_rate=0.1)
    >>> plan.cost_of(plan.given_rate), round(plan.threshold(Fraction(1, 9)))
    (Fraction(1, 9), 50)
    """

    made_for: str
    epsilon: Fraction
    delta: Fraction
    horizon: int
    pattern_counts: str
    min_rate: str
    first_window: int
    evidence_share: Fraction
    check_every: int
    longest_epoch: int
    evidence_every: int
    change_cost: Fraction
    unit: Unit = "event"
    cap: int | None = None

    expected_mistakes = None

    def __post_init__(self) -> None:
        self._check_fields(
            ("epsilon", "delta", "evidence_share"),
            ("horizon", "check_every", "longest_epoch", "evidence_every"),
        )
        object.__setattr__(self, "change_cost", checked_change_cost(self.change_cost))
        if not self.evidence_share < 1:
            raise BadParameter("the evidence's share of epsilon leaves nothing for the causes")
        if self.longest_epoch % self.check_every or self.first_window % self.check_every:
            raise BadParameter("epochs and the first window end at a check")
        # Scores are exact in 64 bits for units and epochs of these sizes only.
        if self.longest_epoch > LONGEST_EPOCH:
            raise BadParameter(f"an epoch has at most {LONGEST_EPOCH:,} rounds")
        if self.min_rate != checked_min_rate(self.min_rate):
            raise BadParameter(f"min_rate is a fraction of at most {THOUSANDTHS}ths, or 'auto'")
        if (self.min_rate == AUTO) != (whole(self.first_window, "first_window", least=0) > 0):
            raise BadParameter("min_rate='auto' has a first window, and a given rate has none")

    @classmethod
    def practical(
        cls,
        causes: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        min_rate: Real | str = AUTO,
        change_cost: Real = CHANGE_COST,
        unit: Unit = "event",
        cap: int | None = None,
    ) -> "CausesPlan":
        """Choose all constants by formulas, from the class and the budget.

        Parameters
        ----------
        causes : Causes
            The class.
        epsilon, delta : Real
            The privacy budget.
        horizon : int
            The number of rounds.
        min_rate : Real or "auto"
            The positive rate above which a cause is worth publishing, above 0 and at most 1/2.
            "auto" takes twice the base rate of a first window, between 2 % and 50 %.
        change_cost : Real
            How many missed positives one published change of rule is worth; 0 publishes every
            cause that pays, however briefly.
        unit : {"event", "user"}
            What is protected whole.
        cap : int, optional
            The most rounds of one user; required for users.

        Raises
        ------
        BadParameter
            If a parameter is out of range.
        """
        if not isinstance(causes, Causes):
            raise BadClass(
                f"PrivateCauses learns Causes(columns), not {causes!r}: use DPSOA or PrivateExperts"
            )
        check_unit(unit, cap)
        rounds = 1 if cap is None else whole(cap, "cap", least=1)
        exact, length = planned_epsilon(epsilon, rounds, "a cap"), planned_horizon(horizon)
        given = checked_min_rate(min_rate)
        first = min(FIRST_ROUNDS, math.ceil(length * FIRST_SHARE)) if given == AUTO else 0
        longest = max(length // FEWEST_WINDOWS, SHORTEST_WINDOW)
        return cls(
            made_for=repr(causes),
            epsilon=exact,
            delta=planned_delta(delta),
            horizon=length,
            pattern_counts=" ".join(map(str, causes.pattern_counts)),
            min_rate=given,
            first_window=at_checks(first),
            evidence_share=EVIDENCE_SHARE,
            check_every=CHECK_EVERY,
            longest_epoch=LONGEST_EPOCH,
            evidence_every=at_checks(min(longest, max(SHORTEST_WINDOW, length // FIRST_WINDOWS))),
            change_cost=checked_change_cost(change_cost),
            unit=unit,
            cap=cap,
        )

    @property
    def given_rate(self) -> Fraction:
        """Return the given `min_rate`; for "auto" the smallest that it may find."""
        return LEAST_RATE if self.min_rate == AUTO else Fraction(self.min_rate)

    @property
    def per_round(self) -> Cost:
        """Return what one round may cost, so that a user of `cap` rounds costs the budget."""
        if self.cap is None:
            return Cost(self.epsilon, self.delta)
        # Group privacy (Theorem 14), solved for one round; powers rounded up, so delta is enough.
        each = self.epsilon / self.cap
        powers = (Fraction(enclose_exp(each * n, 40)[1]) for n in range(self.cap))
        return Cost(each, self.delta / (sum(powers) * (1 + Fraction(1, 10**9))))

    @property
    def epsilon_evidence(self) -> Fraction:
        """Return what the evidence of one round costs."""
        return self.per_round.epsilon * self.evidence_share

    @property
    def prior(self) -> tuple[Fraction, ...]:
        """Return the prior of a pattern by its width: over the patterns of a row it sums to 1."""
        counts = [int(count) for count in self.pattern_counts.split()]
        total = sum(share * count for share, count in zip(PRIOR, counts, strict=False))
        return tuple(share / total for share in PRIOR[: len(counts)])

    def cost_of(self, min_rate: Fraction) -> Fraction:
        """Return the cost of a false alarm for a `min_rate`."""
        return min_rate / (1 - min_rate)

    def rate(self, cost: Fraction) -> Fraction:
        """Return the rate of the draw for a cost of false alarms.

        It makes the threshold least: (nats of evidence) / rate + (noise allowed) / epsilon_monitor.
        """
        epsilon = self.per_round.epsilon - self.epsilon_evidence
        # A constant rational near the square root that minimises the sum.
        ratio = math.sqrt(float(1 + cost) * MONITOR_MARGIN / self._nats(1))
        best = epsilon / (1 + cost + Fraction(round(1024 * ratio), 1024))
        return min(epsilon / 2, best)

    def _nats(self, width: int) -> float:
        """Return the logarithm of what the gain of a cause has to outweigh, with a margin."""
        return DRAW_MARGIN - math.log(float(self.per_round.delta * self.prior[width - 1]))

    def epsilon_monitor(self, cost: Fraction) -> Fraction:
        """Return the monitor's epsilon for a cost of false alarms: what the draw leaves."""
        epsilon = self.per_round.epsilon - self.epsilon_evidence
        return epsilon - (1 + cost) * self.rate(cost)

    def needed(self, cost: Fraction, width: int = 1) -> float:
        """Return the gain, in missed positives, with which a cause is usually drawn.

        Parameters
        ----------
        cost : Fraction
            The cost of a false alarm.
        width : int
            The conditions of the cause.
        """
        return 1 + self._nats(width) / float(self.rate(cost))

    def threshold(self, cost: Fraction) -> float:
        """Return the loss above that of the base rate at which the monitor fires, before noise."""
        return self.needed(cost) + MONITOR_MARGIN / float(self.epsilon_monitor(cost))

    def margin(self, windows: Iterable[Window], standing: Collection[Cause], cost: Fraction) -> int:
        """Return how many missed positives a new cause has to gain beyond what it usually takes.

        Each cause that was dropped has cost two changes, and has saved what its released counts
        say. What it falls short of is charged to an allowance of `FREE_CHANGES` changes; what it
        saved beyond that fills the allowance up again. The margin is what is charged beyond the
        allowance. So where positives come in storms that no cause explains, causes that do not last
        are published more and more rarely; where the culprit changes, and each lasts, they are
        published as before.

        A cause has saved at most the positives that it has beyond the rate of all other rows: in a
        storm every value has many, and naming one explains nothing. It loses by false alarms only.

        Parameters
        ----------
        windows : iterable of Window
            All counts that were released (public).
        standing : collection of Cause
            The causes that are published now.
        cost : Fraction
            The cost of a false alarm.
        """
        full = FREE_CHANGES * self.change_cost
        allowance = full
        saved: dict[Cause, Fraction] = {}

        def charge(gone: Iterable[Cause]) -> None:
            nonlocal allowance
            for cause in gone:
                allowance += math.floor(saved.pop(cause)) - 2 * self.change_cost
            allowance = min(full, allowance)

        for window in windows:
            charge([cause for cause in saved if cause not in window.causes])
            others = rate_of(window.positives[-1], window.negatives[-1] + window.positives[-1])
            for place, cause in enumerate(window.causes):
                no, yes = window.negatives[place], window.positives[place]
                # Not below zero: `others` may be nearly all noise, where a cause matches most rows.
                beyond = max(Fraction(0), yes - others * (yes + no))
                gain = min(yes - cost * no, beyond)
                saved[cause] = saved.get(cause, Fraction(0)) + gain
        charge([cause for cause in saved if cause not in standing])
        # Without a cost every change is free, also one that loses.
        return max(0, math.ceil(-allowance)) if self.change_cost else 0

    def slack(self, cost: Fraction, refusals: int, known: bool) -> float:
        """Return how many times the threshold the loss may be, if all of it is base rate.

        Parameters
        ----------
        cost : Fraction
            The cost of a false alarm. Where it is 1, a cause is right most of the time.
        refusals : int
            How often in a row nothing was drawn.
        known : bool
            Whether the base rate is known.
        """
        c, place = float(cost), min(refusals, len(SLACK_CHEAP) - 1)
        slack = [float(x ** (1 - c) * y**c) for x, y in zip(SLACK_CHEAP, SLACK_EQUAL, strict=True)]
        start = KNOWN_BASE / slack[0] if known else 1.0
        return min(start * slack[place], MOST_SLACK)

    def gate(self, noise: Noise, cost: Fraction, base: Fraction = Fraction(0)) -> Gate[Gains]:
        """Return the gate for a cost of false alarms.

        Parameters
        ----------
        noise : Noise
            Where all noise is drawn.
        cost : Fraction
            The cost of a false alarm.
        base : Fraction
            The positive rate of the first window; 0 if it is unknown.
        """
        units, least = cost.denominator, self.threshold(cost)

        @lru_cache(maxsize=16)
        def line(refusals: int, rate: Fraction, margin: int) -> tuple[int, float, float | None]:
            """Return the largest threshold, and the line by age below it, if there is one."""
            slack = self.slack(cost, refusals, known=base > 0)
            # A cause has to gain the margin too, so it must have the time to.
            level = least + margin
            most = math.ceil(units * level * slack)
            expected = max(float(rate), float(units * base))
            # A stream whose losses come at the expected rate fires at `most`, one whose losses
            # have become more frequent sooner.
            slope = (1 - 1 / slack) * expected if expected else None
            return most, BURST * units * level, slope

        def threshold(age: Any, refusals: int, rate: Fraction, margin: int) -> Any:
            most, start, slope = line(refusals, rate, margin)
            if slope is None:
                return most
            return np.minimum(most, np.ceil(start + slope * age).astype(np.int64))

        schedule = CausesSchedule(threshold, self.longest_epoch)
        return Gate(
            noise,
            epsilon=self.epsilon_monitor(cost),
            schedule=schedule,
            draw=SparseExponential(
                rate=self.rate(cost),
                delta=self.per_round.delta,
                prior=self.prior,
                alarm=cost,
                drop_penalty=DROP_PENALTY,
                margin=lambda: schedule.margin,
            ),
            check_every=self.check_every,
            largest_loss=units,
        )

    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        cost, auto = self.cost_of(self.given_rate), self.min_rate == AUTO
        if auto:
            between = f"{float(LEAST_RATE):.0%} to {float(MOST_RATE):.0%}"
            why = f"from the first {self.first_window:,} rounds, which nothing else reads"
            yield "min_rate", f"auto: {LIFT} x base rate, {between}", why
        else:
            yield "min_rate", f"{float(self.given_rate):.1%}", "causes above are published"
        of = f"{float(cost):.4g} of a missed positive{' or more' if auto else ''}"
        yield "cost of a false alarm", of, "min_rate / (1 - min_rate)"
        spent = f"epsilon {float(self.epsilon_evidence):.4g}"
        yield "evidence's budget", spent, "once, for all windows"
        yield (
            "monitor and draws",
            f"epsilon {float(self.per_round.epsilon - self.epsilon_evidence):.4g} together",
            f"monitor {float(self.epsilon_monitor(cost)):.4g}, "
            f"rate of the draw {float(self.rate(cost)):.4g}; releases are unlimited",
        )
        above = f"loss above the base rate's >= {self.threshold(cost):.0f}"
        yield "monitor", above, "the threshold rises each time a draw finds nothing"
        yield (
            "change cost",
            f"{float(self.change_cost):g} missed positives",
            "what a change of rule is worth: causes that do not last must gain more"
            if self.change_cost
            else "none: every cause that pays is published, however briefly",
        )
        yield "check every", f"{self.check_every:,} rounds", "a public schedule"
        yield "epochs end after", f"{self.longest_epoch:,} rounds at most", "bounds memory"

    def _forecast(self) -> Iterator[tuple[str, str]]:
        yield (
            f"about {forecast(self, 1.0).positives:.0f} positives of a cause that always fails",
            f"{forecast(self, 0.3).positives:.0f} of one that fails 30 % of the time",
        )


def auto_min_rate(negatives: int, positives: int) -> Fraction:
    """Return the `min_rate` for the noisy counts of the first window: twice the base rate."""
    doubled = LIFT * rate_of(positives, negatives + positives)
    rounded = Fraction(math.ceil(doubled * THOUSANDTHS), THOUSANDTHS)
    return min(max(rounded, LEAST_RATE), MOST_RATE)


class CauseForecast(NamedTuple):
    """Hold about when a cause is published."""

    min_rate: float
    positives: float
    rounds: float | None

    @property
    def found(self) -> bool:
        """Return whether the cause is expected to be published at all."""
        return math.isfinite(self.positives)


def forecast(
    plan: CausesPlan,
    rate: float,
    *,
    share: float | None = None,
    base: float = 0.0,
    width: int = 1,
) -> CauseForecast:
    """Forecast how many positives of a cause, and how many rounds, pass before it is published."""
    p, part = _checked(rate, "rate"), 1.0 if share is None else _checked(share, "share")
    if not 0 <= base < 1:
        raise BadParameter(f"base is at least 0 and below 1, not {base:g}: it is a rate")
    if not 1 <= width <= len(plan.prior):
        raise BadParameter(f"a cause of this class has 1 to {len(plan.prior)} conditions")
    min_rate = plan.given_rate
    if plan.min_rate == AUTO:
        # The first window counts all rows, those of the cause too if it is there by then.
        mixed = part * p + (1 - part) * base if share is not None else base
        doubled = Fraction(math.ceil(LIFT * mixed * THOUSANDTHS), THOUSANDTHS)
        min_rate = min(max(doubled, LEAST_RATE), MOST_RATE)
    cost = plan.cost_of(min_rate)
    # Of one row: what it adds to the loss of publishing nothing, and to the gain of the cause.
    loss, gain = part * p + (1 - part) * base, part * (p - float(cost) * (1 - p))
    level, needed = plan.threshold(cost), plan.needed(cost, width)
    rounds, refusals = 0.0, 0
    while True:
        # On a stream that does not change the monitor fires at so many times its threshold.
        slack = plan.slack(cost, refusals, known=plan.min_rate == AUTO and base > 0)
        epoch = level * slack / loss
        rounds += epoch
        if epoch * gain >= needed:
            break
        # At the largest threshold the same is tried again and again: luck may still find it.
        if refusals >= len(SLACK_CHEAP):
            return CauseForecast(float(min_rate), math.inf, None)
        refusals += 1
    if share is None:
        return CauseForecast(float(min_rate), rounds * p, None)
    # The rows of the first window are read for the base rate only.
    rounds += plan.first_window
    return CauseForecast(float(min_rate), rounds * part * p, rounds)


def _checked(value: float, name: str) -> float:
    if not 0 < value <= 1:
        raise BadParameter(f"{name} is above 0 and at most 1, not {value:g}: 0.3 is 30 %")
    return value


def at_checks(rounds: int) -> int:
    """Return a number of rounds, rounded up to whole checks."""
    return -(-rounds // CHECK_EVERY) * CHECK_EVERY
