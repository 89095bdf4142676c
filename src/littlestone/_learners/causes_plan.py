"""Choose the constants of `PrivateCauses` by formulas, and forecast how long a cause takes.

Privacy holds for every value of every field of `CausesPlan` (docs/guarantee.md, Theorems 15 and
16); utility is a heuristic.

The forecast: the monitor fires when the weighted loss of the published rule reaches a threshold.
Positives of the cause and positives of all other rows add to that loss; only the rows of the cause
speak for it. If they do not yet outweigh "nothing", the draw most likely publishes nothing; then
more of the loss is taken for base rate, and the counts begin anew.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, get_args

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._hypotheses.causes import Cause
from littlestone._learners.evidence import COUNTED_ONCE, Window, rate_of
from littlestone._learners.known import KnownKeys
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
from littlestone._learners.rate_to_beat import (
    FOLLOW,
    LEAST_RATE,
    LIFT,
    LIFT_NOW,
    MOST_RATE,
    Baseline,
    RateToBeat,
    odds,
    rate_of_odds,
    weights_of,
)
from littlestone._privacy.accounting import Cost, Unit
from littlestone._privacy.causes import (
    UNITS,
    EpochTerms,
    Known,
    SparseExponential,
    Threshold,
    UserBound,
)
from littlestone._privacy.parameters import BadParameter, Real, whole
from littlestone.errors import BadClass

AUTO = AUTO_RATE
# The share of epsilon that the evidence has.
EVIDENCE_SHARE = Fraction(1, 10)
# Of users the evidence counts one round each in every epoch.
USER_EVIDENCE_SHARE = Fraction(1, 5)
# The rounds of the first window at most, and as a share of the horizon; and of these the ones that
# find the base rate, at least and as a share, where the others look for values.
FIRST_ROUNDS, FIRST_SHARE = 2000, Fraction(1, 20)
BASE_ROUNDS, BASE_SHARE = 400, 5
# The prior of a pattern falls with its width.
PRIOR = (Fraction(1), Fraction(3, 10), Fraction(1, 10))
# What all known patterns weigh that no row lists, beside nothing: a draw names one so often.
KNOWN_WEIGHT = Fraction(1, 2000)
# The same of all draws from a finished table together: each has a part, by its rate.
TABLE_KNOWN_WEIGHT = Fraction(1, 300)
# The largest number of known patterns that has a number of 64 bits.
MOST_KNOWN = 1 << 62
# A drop must gain so many missed positives to weigh as much as nothing. To replace a cause by a
# narrower one is never easier than to drop it: else one that matches nothing takes the place of a
# cause that was repaired.
DROP_PENALTY, REPLACE_PENALTY, REPLACE_WEIGHT = 10, 10, Fraction(1, 10)
# The largest rate of a draw. Beyond, what a draw needs falls below what chance gives, and more of
# epsilon would make the causes worse.
LARGEST_RATE = Fraction(1, 2)
# An epoch is planned for a cost of false alarms so many times as large as before.
HEADROOM = 1.25
LEAST_HEAD = 0.1
# How many changes are free that did not pay: after them a new cause has to gain more
# (`CausesPlan.margin`).
FREE_CHANGES = 2
# The loss at which the monitor fires, in thresholds, after 0, 1, 2, ... refusals in a row, if all
# of it is base rate: where false alarms are cheap, and where they cost as much as a miss;
# geometric means between. Cheap ones go with a low rate to beat, and there with a base rate: begin
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
# The most rows of a finished table: they are held in memory, and scores are exact in 64 bits.
MOST_ROWS = 1 << 27
# While causes are published an epoch ends after this share of the horizon, then twice as much, and
# so on: a cause that has been repaired is dropped after about as long as it stood.
FIRST_EPOCHS = 32
# How many values of a column are taken to be found in a first window, for a forecast.
TYPICAL_VALUES = 10
# Where users are protected epochs end at public ages: so many at least, and as many as may read a
# user. Each reads so many rounds of a user, whose part in a score is at least minus the third and at
# most 1. To drop a cause that nobody speaks for is so unlikely, in nats.
USER_EPOCHS, USER_ROUNDS, LOWEST_PART, DROP_NATS = 2, 16, 0.5, 7
# Of a finished table: the noise of the number of positives, in rows of a hundred, and what share of
# epsilon that has. The first draw is made at the rate at which a cause of this share of all positives
# is found; what finds nothing is tried at so many times the rate.
BASE_NOISE, LEAST_BASE, MOST_BASE = 140, Fraction(1, 100), Fraction(3, 20)
TABLE_SHARE, TABLE_STEP = 0.1, 3
# So many scales of noise are taken off the number of positives, and at most this share of it, or of
# the negatives: what a cause has to beat stays well above the base rate.
BASE_DOUBT, MOST_DOUBT = 2, Fraction(1, 10)
# How many positives a pattern of a table has at least that is not known and yet drawn: there are no
# more of them than positives over this number.
FEWEST_POSITIVES = 30
# Rates of draws from a table are multiples of this.
RATE_GRID = 1 << 20
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
    known_counts : str
        How many patterns of each width are known before any row, separated by spaces.
    values_known : bool
        Whether the values of a cause are expected to be known: all are declared, or looked for.
    min_rate : str
        The positive rate that a cause has to beat at least, exactly; or "auto".
    baseline : {"follow", "fixed"}
        Whether the rate to beat follows the stream, or stays what it was at first.
    first_window : int
        The rounds of the first window, which finds the base rate and common values; 0 with a given
        rate.
    base_rounds : int
        The rounds of the first window that find the base rate; the others look for values.
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
        The most epochs that read a user; for users only.
    table : bool
        Whether the rows are those of a finished table, in no order, which every draw reads.

    Examples
    --------
    >>> plan = CausesPlan.practical(Causes(["version", "country"]), 1, 1e-7, 100_000, min_rate=0.1)
    >>> plan.first_window, round(plan.threshold(plan.terms(1 / 9)))
    (0, 51)
    """

    made_for: str
    epsilon: Fraction
    delta: Fraction
    horizon: int
    pattern_counts: str
    known_counts: str
    values_known: bool
    min_rate: str
    baseline: Baseline
    first_window: int
    base_rounds: int
    evidence_share: Fraction
    check_every: int
    longest_epoch: int
    evidence_every: int
    change_cost: Fraction
    unit: Unit = "event"
    cap: int | None = None
    table: bool = False

    expected_mistakes = None
    # Costs and weights are whole numbers of so many to one.
    units = UNITS

    def __post_init__(self) -> None:
        self._check_fields(
            ("epsilon", "evidence_share"),
            ("horizon", "check_every", "longest_epoch", "evidence_every"),
        )
        object.__setattr__(self, "change_cost", checked_change_cost(self.change_cost))
        if not self.evidence_share < 1:
            raise BadParameter("the evidence's share of epsilon leaves nothing for the causes")
        if self.longest_epoch % self.check_every or self.first_window % self.check_every:
            raise BadParameter("epochs and the first window end at a check")
        # Scores are exact in 64 bits for units and epochs of these sizes only.
        if self.longest_epoch > LONGEST_EPOCH and not self.table:
            raise BadParameter(f"an epoch has at most {LONGEST_EPOCH:,} rounds")
        if self.horizon > MOST_ROWS and self.table:
            raise BadParameter(f"a table has at most {MOST_ROWS:,} rows")
        check_unit(self.unit, self.cap)
        if self.min_rate != checked_min_rate(self.min_rate):
            raise BadParameter(f"min_rate is a fraction of at most {THOUSANDTHS}ths, or 'auto'")
        first = whole(self.first_window, "first_window", least=0) > 0
        if (self.watches and self.min_rate == AUTO) != first:
            raise BadParameter("min_rate='auto' has a first window, and a given rate has none")
        if not 0 <= self.base_rounds <= self.first_window:
            raise BadParameter("the base rate is found in rounds of the first window")
        checked_baseline(self.baseline)
        if self.unit == "user" and self.baseline != FOLLOW and self.min_rate == AUTO:
            raise BadParameter("where users are protected, a fixed rate to beat is given: min_rate")

    @classmethod
    def practical(
        cls,
        causes: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        min_rate: Real | str = AUTO,
        baseline: Baseline = FOLLOW,
        change_cost: Real = CHANGE_COST,
        unit: Unit = "event",
        cap: int | None = None,
        table: bool = False,
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
            The positive rate that a cause has to beat at least, above 0 and below 1. "auto" begins
            with twice the odds of a first window, and at least 2 %.
        baseline : {"follow", "fixed"}
            Whether the rate to beat follows the stream (docs/choosing.md): about twice the odds of
            the rows that no published cause matches. "fixed" keeps what it was at first.
        change_cost : Real
            How many missed positives one published change of rule is worth; 0 publishes every
            cause that pays, however briefly.
        unit : {"event", "user"}
            What is protected whole.
        cap : int, optional
            The most epochs that read a user; required for users, but not of a table.
        table : bool
            Whether the rows are those of a finished table, all of which are learned at once.

        Raises
        ------
        BadParameter
            If a parameter is out of range.
        """
        if not isinstance(causes, Causes):
            raise BadClass(
                f"PrivateCauses learns Causes(columns), not {causes!r}: use DPSOA or PrivateExperts"
            )
        if table and unit == "user":
            # Every draw reads every user, whatever was asked for.
            cap = 1
        check_unit(unit, cap)
        reads = 1 if cap is None else whole(cap, "cap", least=1)
        exact, length = planned_epsilon(epsilon, reads, "a cap"), planned_horizon(horizon)
        given, watches = checked_min_rate(min_rate), unit == "event" and not table
        first = min(FIRST_ROUNDS, math.ceil(length * FIRST_SHARE))
        first = at_checks(first) if given == AUTO and watches else 0
        longest_epoch = LONGEST_EPOCH
        if not watches:
            longest_epoch = length if table else at_checks(-(-length // max(USER_EPOCHS, reads)))
            longest_epoch = longest_epoch if table else min(LONGEST_EPOCH, longest_epoch)
        base = max(first // BASE_SHARE, min(first, BASE_ROUNDS)) if causes.undeclared else first
        known = KnownKeys(causes, causes.values).counts
        longest = max(length // FEWEST_WINDOWS, SHORTEST_WINDOW)
        # Of users few rounds are counted: more windows would hold little but noise.
        windows = FIRST_WINDOWS if watches else FEWEST_WINDOWS
        return cls(
            made_for=repr(causes),
            epsilon=exact,
            delta=_planned_delta(delta, causes),
            horizon=length,
            pattern_counts=" ".join(map(str, causes.pattern_counts)),
            known_counts=" ".join(map(str, known)),
            values_known=not causes.undeclared or base < first,
            min_rate=given,
            baseline=baseline,
            first_window=first,
            base_rounds=base,
            evidence_share=USER_EVIDENCE_SHARE if unit == "user" and not table else EVIDENCE_SHARE,
            # A table has one check, at its end.
            check_every=length if table else CHECK_EVERY,
            longest_epoch=longest_epoch,
            evidence_every=at_checks(min(longest, max(SHORTEST_WINDOW, length // windows))),
            change_cost=checked_change_cost(change_cost),
            unit=unit,
            cap=cap,
            table=table,
        )

    @property
    def watches(self) -> bool:
        """Return whether a monitor ends epochs: else they end at public ages."""
        return self.unit == "event" and not self.table

    @property
    def given_rate(self) -> Fraction:
        """Return the given `min_rate`; for "auto" the smallest that it may find."""
        return LEAST_RATE if self.min_rate == AUTO else Fraction(self.min_rate)

    @property
    def declared(self) -> list[int]:
        """Return how many patterns of each width are known before any row."""
        return list(map(int, self.known_counts.split()))

    @property
    def budget(self) -> Cost:
        """Return what one unit may cost: a round, or all rounds of a user."""
        return Cost(self.epsilon, self.delta)

    @cached_property
    def reads(self) -> int:
        """Return from how many epochs at most a draw reads a unit."""
        return min(self.cap or 1, self.counts_of_unit)

    @property
    def counts_of_unit(self) -> int:
        """Return how many rounds of a unit the evidence counts: of a user, one in each epoch."""
        return 1 if self.unit == "event" else -(-self.horizon // self.longest_epoch)

    @property
    def rounds_of_user(self) -> int | None:
        """Return how many rounds of a user an epoch reads; None where rounds are protected."""
        return USER_ROUNDS if self.unit == "user" else None

    @property
    def epsilon_evidence(self) -> Fraction:
        """Return what the evidence of one unit costs."""
        return self.epsilon * self.evidence_share

    @property
    def epsilon_base(self) -> Fraction | None:
        """Return what the base rate of a finished table costs; None of a stream."""
        if not self.table:
            return None
        usual = Fraction(BASE_NOISE, self.horizon)
        return max(LEAST_BASE * self.epsilon, min(usual, MOST_BASE * self.epsilon))

    @property
    def prior(self) -> tuple[Fraction, ...]:
        """Return the prior of a pattern by its width: over the patterns of a row it sums to 1."""
        counts = [int(count) for count in self.pattern_counts.split()]
        total = sum(share * count for share, count in zip(PRIOR, counts, strict=False))
        return tuple(share / total for share in PRIOR[: len(counts)])

    def known(self, counts: Sequence[int]) -> tuple[Known, ...]:
        """Return how many patterns of each width are drawn as known ones, and what each weighs.

        A pattern of one condition weighs no less than one of two would: else wide ones, of which
        there are few, would be named in place of the narrow ones that they contain.
        """
        total = sum(PRIOR[: len(counts)])
        pairs = counts[min(1, len(counts) - 1)]
        found = []
        for count, share, prior in zip(counts, PRIOR, self.prior, strict=False):
            idle = TABLE_KNOWN_WEIGHT if self.table else KNOWN_WEIGHT
            weight = idle * share / total / max(count, pairs, 1)
            # As unknown ones they may weigh more.
            drawn = 0 < count <= MOST_KNOWN and weight > self._delta_of_row * prior
            found.append(Known(count, weight) if drawn else Known(0, Fraction(1)))
        return tuple(found)

    def terms(self, cost: float, counts: Sequence[int] = (), margin: int = 0) -> EpochTerms:
        """Return what is chosen for an epoch: how epsilon is divided, and what is known.

        The rate of the draw makes the threshold least: (nats of evidence) / rate + (noise allowed)
        / epsilon of the monitor.

        Parameters
        ----------
        cost : float
            The odds to beat before the epoch: what a false alarm costs.
        counts : sequence of int
            How many patterns of each width are known.
        margin : int
            What a cause has to gain beyond what it usually takes.
        """
        known = self.known(counts or (0,) * len(self.prior))
        least = min(cost, 1 / cost)
        if self.baseline == FOLLOW:
            # The cost of this epoch is found at its end, and may be larger.
            within = min(HEADROOM * cost, 1 / cost)
            least = 1.0 if cost < 1 < HEADROOM * cost else min(max(within, LEAST_HEAD), 1.0)
        epsilon = self.epsilon - self.epsilon_evidence
        if not self.watches:
            terms = self._unwatched_terms(least, epsilon / self.reads, known, margin)
            return terms._replace(frequent=self._frequent(cost)) if self.table else terms
        swing = 1 + Fraction(math.ceil(least * THOUSANDTHS), THOUSANDTHS)
        # A constant rational near the square root that minimises the sum.
        ratio = math.sqrt(float(swing) * MONITOR_MARGIN / self._nats(known, 1))
        best = epsilon / (swing + Fraction(round(1024 * ratio), 1024))
        rate = min(epsilon / 2, best, LARGEST_RATE)
        return EpochTerms(epsilon - swing * rate, rate, swing, known, margin)

    def _unwatched_terms(
        self, least: float, epsilon: Fraction, known: tuple[Known, ...], margin: int
    ) -> EpochTerms:
        """Return the terms of an epoch without a monitor that may cost so much."""
        users, swing = None, Fraction(2)
        if self.rounds_of_user is not None:
            lowest = Fraction(math.ceil(max(least, LOWEST_PART) * THOUSANDTHS), THOUSANDTHS)
            users, swing = UserBound(lowest, self.rounds_of_user), 1 + lowest
        # Theorem 19: a user moves scores through all of its part, a row by a whole weight.
        rate = min(epsilon / 2 / (swing if users else 1), LARGEST_RATE)
        share = Fraction(1, self.reads)
        return EpochTerms(Fraction(0), rate, swing, known, margin, share, users)

    def _frequent(self, cost: float) -> tuple[Fraction, ...]:
        """Return what unknown patterns weigh once enough positives of a table list them, by width."""
        counts, total = [int(count) for count in self.pattern_counts.split()], sum(PRIOR)
        # The odds to beat are twice those of all rows.
        positives = self.horizon * rate_of_odds(cost / LIFT)
        shares = [TABLE_KNOWN_WEIGHT * share / total for share in PRIOR]
        return tuple(
            share / max(1, math.ceil(count * positives / FEWEST_POSITIVES))
            for share, count in zip(shares, counts, strict=False)
        )

    def next_draw(
        self,
        terms: EpochTerms,
        left: Fraction,
        positives: float,
        before: tuple[Fraction, bool] | None,
    ) -> EpochTerms | None:
        """Return the terms of the next draw from a finished table, or None if there is none.

        Parameters
        ----------
        terms : EpochTerms
            The terms of a draw that costs everything.
        left : Fraction
            The epsilon that is left for draws.
        positives : float
            About how many positives there are, in whole weights.
        before : tuple of Fraction and bool, optional
            The rate of the draw before, and whether it found a cause.
        """
        reach = terms.swing if terms.users else Fraction(1)
        most = min(left / 2 / reach, LARGEST_RATE)
        whole = (self.epsilon - self.epsilon_evidence - (self.epsilon_base or 0)) / 2 / reach
        if before is None:
            least = TABLE_SHARE * max(positives, 1.0)
            first = self._nats(terms.known, 1, terms.frequent) / least
            # A draw of a low rate has a small part of what keys weigh in all draws.
            wanted = Fraction(first + max(0.0, math.log(float(whole) / first)) / least)
        else:
            wanted = before[0] if before[1] else TABLE_STEP * before[0]
            if before[0] >= LARGEST_RATE and not before[1]:
                return None
        # What would not be enough for another one is spent at once.
        rate = wanted if 2 * wanted <= most else most
        rate = Fraction(math.floor(rate * RATE_GRID), RATE_GRID)
        if rate <= 0:
            return None
        share = rate / max(whole, rate)
        known = tuple(Known(keys, weight * share) for keys, weight in terms.known)
        frequent = tuple(weight * share for weight in terms.frequent)
        return terms._replace(rate=rate, share=share, known=known, frequent=frequent)

    @property
    def _delta_of_row(self) -> Fraction:
        """Return what the unknown patterns of one row weigh at most, in the only or every epoch."""
        return self.delta / self.reads / (self.rounds_of_user or 1)

    def _nats(self, known: Sequence[Known], width: int, frequent: Sequence[Fraction] = ()) -> float:
        """Return the logarithm of what the gain of a cause has to outweigh, with a margin."""
        weight = self._delta_of_row * self.prior[width - 1]
        if weight and frequent:
            weight = max(weight, frequent[width - 1])
        # Some are known that were published before: the next cause need not be one of them.
        if self.values_known and len(known) >= width and known[width - 1].keys:
            weight = max(weight, known[width - 1].weight)
        # Without a delta patterns that are not known are never drawn.
        return DRAW_MARGIN - math.log(float(weight)) if weight else math.inf

    def needed(self, terms: EpochTerms, width: int = 1) -> float:
        """Return the gain, in missed positives, with which a cause is usually drawn.

        Parameters
        ----------
        terms : EpochTerms
            What was chosen for the epoch.
        width : int
            The conditions of the cause.
        """
        return 1 + self._nats(terms.known, width, terms.frequent) / float(terms.rate)

    def threshold(self, terms: EpochTerms) -> float:
        """Return the loss above that of the base rate at which the monitor fires, before noise."""
        return self.needed(terms) + MONITOR_MARGIN / float(terms.monitor)

    def draw(self, terms: EpochTerms) -> SparseExponential:
        """Return the draw of an epoch."""
        penalty = DROP_PENALTY if self.watches else math.ceil(DROP_NATS / terms.rate)
        return SparseExponential(
            terms,
            delta=self.delta * terms.share,
            prior=self.prior,
            units=self.units,
            drop_penalty=penalty,
            replace_weight=REPLACE_WEIGHT,
            replace_penalty=REPLACE_PENALTY,
        )

    def margin(self, windows: Iterable[Window], standing: Collection[Cause]) -> int:
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
        """
        full = FREE_CHANGES * self.change_cost
        allowance = full
        saved: dict[Cause, float] = {}

        def charge(now: Collection[Cause]) -> None:
            nonlocal allowance
            for cause in [cause for cause in saved if cause not in now]:
                # A cause that a narrower one has replaced is one change, and not two.
                changes = 1 if any(map(cause.contains, now)) else 2
                allowance += math.floor(saved.pop(cause)) - changes * self.change_cost
            allowance = min(full, allowance)

        for window in windows:
            charge(window.causes)
            cost = odds(window.to_beat)
            others = rate_of(window.positives[-1], window.negatives[-1] + window.positives[-1])
            for place, cause in enumerate(window.causes):
                no, yes = window.negatives[place], window.positives[place]
                # Not below zero: `others` may be nearly all noise, where a cause matches most rows.
                beyond = max(0.0, yes - float(others) * (yes + no))
                saved[cause] = saved.get(cause, 0.0) + min(yes - cost * no, beyond)
        charge(standing)
        # Without a cost every change is free, also one that loses.
        return max(0, math.ceil(-allowance)) if self.change_cost else 0

    def slack(self, cost: float, refusals: int, known: bool) -> float:
        """Return how many times the threshold the loss may be, if all of it is base rate.

        Parameters
        ----------
        cost : float
            The odds to beat. Where they are 1, a cause is right most of the time.
        refusals : int
            How often in a row nothing was drawn.
        known : bool
            Whether the base rate is known.
        """
        c, place = min(cost, 1 / cost), min(refusals, len(SLACK_CHEAP) - 1)
        slack = [float(x ** (1 - c) * y**c) for x, y in zip(SLACK_CHEAP, SLACK_EQUAL, strict=True)]
        start = KNOWN_BASE / slack[0] if known else 1.0
        return min(start * slack[place], MOST_SLACK)

    def limit(
        self, terms: EpochTerms, beat: RateToBeat, refusals: int, loss_rate: Fraction
    ) -> Threshold:
        """Return the threshold of an epoch, in units.

        Parameters
        ----------
        terms : EpochTerms
            What was chosen for the epoch.
        beat : RateToBeat
            The rate to beat before it, and the base rate.
        refusals : int
            How often in a row nothing was drawn.
        loss_rate : Fraction
            What a round has cost when the monitor fired in vain; 0 if it has not.
        """
        slack = self.slack(beat.cost, refusals, known=self.first_window > 0)
        # A cause has to gain the margin too, so it must have the time to.
        level = self.units * (self.threshold(terms) + terms.margin)
        missed = weights_of(beat.cost, terms.swing, self.units).positive
        expected = max(float(loss_rate), beat.base * missed)
        # A stream whose losses come at the expected rate fires at the most, one whose losses
        # have become more frequent sooner.
        slope = (1 - 1 / slack) * expected if expected else None
        return Threshold(math.ceil(level * slack), BURST * level, slope)

    def rate_in_words(self, rate: float | None, base: float | None) -> str:
        """Say which rate a cause has to beat, and why. Public.

        Parameters
        ----------
        rate : float or None
            The rate to beat now; None before the first window has ended.
        base : float or None
            The rate of the rows that no published cause matched; None if it is unknown.
        """
        if rate is None and self.table:
            return "the table is not learned yet: the `littlestone learn` that began it does so"
        if rate is None:
            return f"what a cause has to beat is known after the first {self.first_window:,} rounds"
        said, floor = f"a cause has to beat a rate of {rate:.1%}", float(self.given_rate)
        if self.table:
            why = "the least that is asked" if rate <= floor else "twice the odds of all rows"
            return f"{said}: {why}"
        if self.baseline == FOLLOW and rate <= floor:
            return f"{said}, the least that is asked: twice the odds of all other rows are less"
        if self.baseline == FOLLOW:
            return (
                f"{said} now: twice the odds of all other rows before; at least {LIFT_NOW:g} times "
                f"and at most twice those now, and never below {floor:.1%}"
            )
        first = f"twice the odds of the first {self.base_rounds:,} rounds"
        said += f", {'as given' if self.min_rate != AUTO else first}; it does not follow the stream"
        if base is None or base < rate:
            return said
        return (
            f"{said}. But {base:.1%} of all other rows are positive: values that have nothing to do "
            "with the label may be published. Begin a new run with --baseline follow"
        )

    @property
    def counted(self) -> str:
        """Say what the evidence counts."""
        if self.unit == "event":
            return "events"
        return f"events, one of each user{'' if self.table else ' and epoch'}"

    def _length(self) -> tuple[str, str, str]:
        return ("rows", f"{self.horizon:,}", "all at once") if self.table else super()._length()

    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        cost, auto = odds(float(self.given_rate)), self.first_window > 0
        terms = self.terms(cost, self.declared)
        follows = self.baseline == FOLLOW
        least = f"{float(self.given_rate):.1%} at least"
        if auto:
            why = f"twice the odds of the first {self.base_rounds:,} rounds"
            yield "rate to beat", least, f"{why}, then it follows the stream" if follows else why
        elif self.table:
            yield "rate to beat", least, "twice the odds of all rows"
        else:
            why = "it follows the stream above that" if follows else "as given"
            yield "rate to beat", least if follows else f"{float(self.given_rate):.1%}", why
        if follows and self.watches:
            yield (
                "if the base rate moves",
                "rate to beat, monitor and draws follow",
                "the guarantee, the evidence's budget, checks and horizon stay the same",
            )
        if known := sum(self.declared):
            yield (
                "known values",
                f"{known:,} patterns",
                "declared, or ranges: found on less evidence",
            )
        if not self.watches:
            yield from self._unwatched_lines(terms)
            return
        if self.first_window > self.base_rounds:
            rounds = self.first_window - self.base_rounds
            yield "known values", "those that stand out", f"in {rounds:,} more of the first rounds"
        spent = f"epsilon {float(self.epsilon_evidence):.4g}"
        yield "evidence's budget", spent, "once, for all windows"
        yield (
            "monitor and draws",
            f"epsilon {float(self.epsilon - self.epsilon_evidence):.4g} together",
            f"monitor {float(terms.monitor):.4g}, rate of the draw {float(terms.rate):.4g}, at the "
            "least rate to beat; releases are unlimited",
        )
        above = f"loss above the base rate's >= {self.threshold(terms):.0f}"
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

    def _unwatched_lines(self, terms: EpochTerms) -> Iterator[tuple[str, str, str]]:
        spent = f"epsilon {float(self.epsilon_evidence):.4g}"
        if self.table:
            base = float(self.epsilon_base or 0)
            yield "base rate", f"epsilon {base:.4g}", "how many rows are positive, once"
            left = float(self.epsilon) - base - float(self.epsilon_evidence)
            yield "draws", f"epsilon {left:.4g} together", "each reads the whole table"
            yield "evidence's budget", spent, "once, for what is published"
        else:
            draws = float(self.epsilon - self.epsilon_evidence)
            yield (
                "draws",
                f"epsilon {draws:.4g} together",
                f"at most {self.reads} read a user (--cap)",
            )
            yield "evidence's budget", spent, "one round of a user in each epoch"
            yield "epochs end after", f"{self.longest_epoch:,} rounds", "a public schedule"
        if terms.users is not None:
            rounds = terms.users.rounds
            what, most = (
                ("rows", f"{rounds} at most") if self.table else ("rounds", f"{rounds} in an epoch")
            )
            yield f"{what} of a user", most, "all of them count as one, or less"

    def _forecast(self) -> Iterator[tuple[str, str]]:
        if self.unit == "user":
            users = forecast(self, 1.0).positives
            yield f"about {users:.0f} users that a cause fails", "in one epoch, each at least once"
            return
        yield (
            f"about {forecast(self, 1.0).positives:.0f} positives until a cause that always fails is "
            "published",
            "if nothing else ever fails",
        )


# Shares of the events for which silence is explained.
SHARES = (0.01, 0.05, 0.2)
WHAT_TO_TRY = (
    "what to try: more rows or a larger epsilon (`littlestone plan` forecasts both), other "
    "columns, or values that are declared beforehand (`--values`). A second run on the same rows "
    "spends its epsilon again"
)
# A rate that is hardly any, and the rounds, in scales of noise, of a window that can show it.
HARDLY, LONG_WINDOW = 0.02, 20


def remarks_on(plan: CausesPlan, windows: Sequence[Window], *, silent: bool) -> list[str]:
    """Say how events count, why no cause is published, and that rows may be sorted. Public.

    Parameters
    ----------
    plan : CausesPlan
        The plan.
    windows : sequence of Window
        All counts that were released.
    silent : bool
        Whether no cause is published.
    """
    counts = [
        (sum(window.positives), sum(window.positives) + sum(window.negatives)) for window in windows
    ]
    # Of users a window counts fewer than it has rounds.
    rates = [
        rate_of(positives, rows)
        for window, (positives, rows) in zip(windows, counts, strict=True)
        if rows > LONG_WINDOW * window.scale
    ]
    said = [COUNTED_ONCE] if any(len(window.causes) > 1 for window in windows) else []
    if rates and min(rates) <= HARDLY and max(rates) >= 1 - HARDLY:
        said.append(
            "some stretches have no positive row and others hardly any else: if the rows are sorted "
            "by their label, their order means nothing, so learn them as a finished table (--table, "
            "find_causes) in a new run"
        )
    if plan.unit == "user":
        said.append(f"what is counted are {plan.counted}: rates are those of users")
    if plan.table and windows and windows[-1].drawn:
        taken = _taken(plan, windows[-1].to_beat, plan.horizon, 0)
        other = "" if silent else "other "
        said.append(f"no {other}cause has enough positives to be published: {taken}")
        return [*said, *([WHAT_TO_TRY] if silent else [])]
    return [*said, *_why_silent(plan, windows)] if silent else said


def _why_silent(plan: CausesPlan, windows: Sequence[Window]) -> Iterator[str]:
    """Say what a cause would have taken, and which rows no draw has read."""
    draws = [window for window in windows if window.drawn]
    starts = [plan.first_window, *(window.stop for window in draws)]
    stood = max((window.stop for window in windows if window.causes), default=0)
    silent = [epoch for epoch in zip(starts, draws, strict=False) if epoch[0] >= stood]
    if silent:
        start, window = max(silent, key=lambda epoch: epoch[1].stop - epoch[0])
        margin = plan.margin([before for before in windows if before.stop <= start], ())
        taken = _taken(plan, window.to_beat, window.stop - start, margin)
        # A draw reads the rows since the one before.
        yield (
            f"no draw{' since' if stood else ''} found a cause with enough positives. The longest "
            f"draw read rounds {start + 1:,} to {window.stop:,}: {taken}"
        )
        yield WHAT_TO_TRY
    elif plan.table and windows:
        yield "no draw was made: nearly all rows are positive, so no cause can be told apart"
    end = windows[-1].stop if windows else 0
    last = plan.horizon // plan.check_every * plan.check_every
    latest = min(starts[-1] + plan.longest_epoch, last)
    if starts[-1] + plan.check_every <= end < latest:
        yield (
            f"no draw has read the rows after round {starts[-1]:,}: the next comes at round "
            f"{latest:,} at the latest"
        )


def _taken(plan: CausesPlan, to_beat: float, rounds: int, margin: int) -> str:
    """Return how many positives causes of some shares would have needed in an epoch, in words."""
    if to_beat > float(MOST_RATE) - 1e-6 > plan.given_rate:
        return "no cause can stand out where nearly all rows are positive, or may be"
    cost = odds(to_beat)
    terms = plan.terms(cost, plan.declared, margin)
    positive, negative = (w / plan.units for w in weights_of(cost, terms.swing, plan.units))
    needed = plan.needed(terms) + margin
    cases = [
        (f"{100 * share:g} %", f"{positives:,}")
        for share in SHARES
        for rows in [share * rounds]
        for positives in [math.ceil((needed + negative * rows) / (positive + negative))]
        if positives <= rows
    ]
    if not cases:
        return "these rows are too few for any cause to be published"
    shares, numbers = (
        f"{', '.join(rest)} or {last}" if rest else last for *rest, last in zip(*cases, strict=True)
    )
    return f"a cause with {shares} of these events would have needed {numbers} positives"


def _planned_delta(delta: Real, causes: Causes) -> Fraction:
    """Return the delta of a plan: 0 will do where all values are known beforehand."""
    if delta != 0:
        return planned_delta(delta)
    if causes.undeclared or causes.has_outcomes:
        raise BadParameter(
            "delta = 0 requires that the values of all columns are declared, and labels of two "
            "values: what is not known beforehand cannot be published without a delta"
        )
    return Fraction(0)


def checked_baseline(baseline: str) -> None:
    """Raise `BadParameter` unless it is one."""
    if baseline not in get_args(Baseline):
        raise BadParameter(f"baseline is 'follow' or 'fixed', not {baseline!r}")


class CauseForecast(NamedTuple):
    """Hold about when a cause is published."""

    rate_to_beat: float
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
    # Without a share the cause is so small that it does not move the rate of all rows.
    mixed = base if share is None else part * p + (1 - part) * base
    beat = RateToBeat(plan.baseline, plan.units, float(plan.given_rate))
    beat.begin(mixed if plan.min_rate == AUTO else 0.0)
    if not plan.watches:
        return _unwatched_forecast(plan, p, share, width, beat)
    # The rows of a first window are read by no draw.
    rounds, loss = 0.0 if share is None else float(plan.first_window), 0.0
    for refusals in range(len(SLACK_CHEAP) + 1):
        terms = plan.terms(beat.cost, _likely_known(plan))
        cost = beat.clamped(mixed) if plan.baseline == FOLLOW else beat.cost
        limit = plan.limit(terms, beat, refusals, Fraction(loss))
        # What a round adds to the loss of publishing nothing, and to the gain of the cause.
        missed = weights_of(beat.cost, terms.swing, plan.units).positive
        loss = missed * (part * p + (1 - part) * base)
        positive, negative = weights_of(cost, terms.swing, plan.units)
        gain = part * (p * positive - (1 - p) * negative) / plan.units
        # Half of the draws find it with this gain: `needed` has a margin.
        enough = plan.needed(terms, width) - DRAW_MARGIN / float(terms.rate)
        epoch = _rounds_to_fire(limit, loss)
        left = plan.horizon - rounds
        if share is not None and 0 < left < epoch and left * gain >= enough:
            # The last draw reads what is there.
            epoch = left
        rounds += epoch
        if epoch * gain >= enough:
            told = None if share is None else rounds
            return CauseForecast(rate_of_odds(cost), rounds * part * p, told)
        if plan.baseline == FOLLOW:
            beat.follow(mixed * epoch, epoch)
    # At the largest threshold the same is tried again and again: luck may still find it.
    return CauseForecast(rate_of_odds(cost), math.inf, None)


def _unwatched_forecast(
    plan: CausesPlan, rate: float, share: float | None, width: int, beat: RateToBeat
) -> CauseForecast:
    """Forecast for one draw that costs everything: of a table, or of the users of an epoch."""
    terms = plan.terms(beat.cost, plan.declared)
    if plan.table:
        reach = terms.swing if terms.users else 1
        left = (plan.epsilon - plan.epsilon_evidence - (plan.epsilon_base or 0)) / 2 / reach
        terms = terms._replace(rate=min(left, LARGEST_RATE))
    positive, negative = (w / plan.units for w in weights_of(beat.cost, terms.swing, plan.units))
    # What a positive row, or a user with one, adds to the gain of the cause.
    gain = positive - (1 / rate - 1) * negative if terms.users is None else 1.0
    enough = plan.needed(terms, width) - DRAW_MARGIN / float(terms.rate)
    positives = enough / gain if gain > 0 else math.inf
    found = share is not None and terms.users is None and math.isfinite(positives)
    rounds = positives / (rate * share) if found and share is not None else None
    return CauseForecast(rate_of_odds(beat.cost), positives, rounds)


def _likely_known(plan: CausesPlan) -> list[int]:
    """Return how many patterns of each width are known when the first epoch begins, or about."""
    if plan.first_window == plan.base_rounds:
        return plan.declared
    patterns = map(int, plan.pattern_counts.split())
    return [count * TYPICAL_VALUES**width for width, count in enumerate(patterns, start=1)]


def _rounds_to_fire(limit: Threshold, loss: float) -> float:
    """Return after how many rounds a loss that grows evenly reaches a threshold."""
    above = 0.0 if limit.slope is None else loss - limit.slope
    return min(limit.most / loss, limit.start / above) if above > 0 else limit.most / loss


def _checked(value: float, name: str) -> float:
    if not 0 < value <= 1:
        raise BadParameter(f"{name} is above 0 and at most 1, not {value:g}: 0.3 is 30 %")
    return value


def at_checks(rounds: int) -> int:
    """Return a number of rounds, rounded up to whole checks."""
    return -(-rounds // CHECK_EVERY) * CHECK_EVERY
