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
from typing import NamedTuple, get_args

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._hypotheses.causes import Cause
from littlestone._learners.evidence import Window, rate_of
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
    LIFT_NOW,
    Baseline,
    RateToBeat,
    odds,
    rate_of_odds,
    weights_of,
)
from littlestone._privacy.accounting import Cost, Unit
from littlestone._privacy.causes import UNITS, EpochTerms, Known, SparseExponential, Threshold
from littlestone._privacy.parameters import BadParameter, Real, enclose_exp, whole
from littlestone.errors import BadClass

AUTO = AUTO_RATE
# The share of epsilon that the evidence has.
EVIDENCE_SHARE = Fraction(1, 10)
# The rounds of the first window at most, and as a share of the horizon; and of these the ones that
# find the base rate, at least and as a share, where the others look for values.
FIRST_ROUNDS, FIRST_SHARE = 2000, Fraction(1, 20)
BASE_ROUNDS, BASE_SHARE = 400, 5
# The prior of a pattern falls with its width.
PRIOR = (Fraction(1), Fraction(3, 10), Fraction(1, 10))
# What all known patterns weigh that no row lists, beside nothing: a draw names one so often.
KNOWN_WEIGHT = Fraction(1, 2000)
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
# While causes are published an epoch ends after this share of the horizon, then twice as much, and
# so on: a cause that has been repaired is dropped after about as long as it stood.
FIRST_EPOCHS = 32
# How many values of a column are taken to be found in a first window, for a forecast.
TYPICAL_VALUES = 10
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
        The most rounds of one user; for users only.

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

    expected_mistakes = None
    # Costs and weights are whole numbers of so many to one.
    units = UNITS

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
        if not 0 <= self.base_rounds <= self.first_window:
            raise BadParameter("the base rate is found in rounds of the first window")
        checked_baseline(self.baseline)

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
            Whether the rate to beat follows the stream (docs/causes.md): about twice the odds of
            the rows that no published cause matches. "fixed" keeps what it was at first.
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
        first = at_checks(first)
        base = max(first // BASE_SHARE, min(first, BASE_ROUNDS)) if causes.undeclared else first
        known = KnownKeys(causes, causes.values).counts
        longest = max(length // FEWEST_WINDOWS, SHORTEST_WINDOW)
        return cls(
            made_for=repr(causes),
            epsilon=exact,
            delta=planned_delta(delta),
            horizon=length,
            pattern_counts=" ".join(map(str, causes.pattern_counts)),
            known_counts=" ".join(map(str, known)),
            values_known=not causes.undeclared or base < first,
            min_rate=given,
            baseline=baseline,
            first_window=first,
            base_rounds=base,
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
    def declared(self) -> list[int]:
        """Return how many patterns of each width are known before any row."""
        return list(map(int, self.known_counts.split()))

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

    def known(self, counts: Sequence[int]) -> tuple[Known, ...]:
        """Return how many patterns of each width are drawn as known ones, and what each weighs.

        A pattern of one condition weighs no less than one of two would: else wide ones, of which
        there are few, would be named in place of the narrow ones that they contain.
        """
        total = sum(PRIOR[: len(counts)])
        pairs = counts[min(1, len(counts) - 1)]
        found = []
        for count, share, prior in zip(counts, PRIOR, self.prior, strict=False):
            weight = KNOWN_WEIGHT * share / total / max(count, pairs, 1)
            # As unknown ones they may weigh more.
            drawn = 0 < count <= MOST_KNOWN and weight > self.per_round.delta * prior
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
        swing = 1 + Fraction(math.ceil(least * THOUSANDTHS), THOUSANDTHS)
        epsilon = self.per_round.epsilon - self.epsilon_evidence
        # A constant rational near the square root that minimises the sum.
        ratio = math.sqrt(float(swing) * MONITOR_MARGIN / self._nats(known, 1))
        best = epsilon / (swing + Fraction(round(1024 * ratio), 1024))
        rate = min(epsilon / 2, best, LARGEST_RATE)
        return EpochTerms(epsilon - swing * rate, rate, swing, known, margin)

    def _nats(self, known: Sequence[Known], width: int) -> float:
        """Return the logarithm of what the gain of a cause has to outweigh, with a margin."""
        weight = self.per_round.delta * self.prior[width - 1]
        # Some are known that were published before: the next cause need not be one of them.
        if self.values_known and len(known) >= width and known[width - 1].keys:
            weight = max(weight, known[width - 1].weight)
        return DRAW_MARGIN - math.log(float(weight))

    def needed(self, terms: EpochTerms, width: int = 1) -> float:
        """Return the gain, in missed positives, with which a cause is usually drawn.

        Parameters
        ----------
        terms : EpochTerms
            What was chosen for the epoch.
        width : int
            The conditions of the cause.
        """
        return 1 + self._nats(terms.known, width) / float(terms.rate)

    def threshold(self, terms: EpochTerms) -> float:
        """Return the loss above that of the base rate at which the monitor fires, before noise."""
        return self.needed(terms) + MONITOR_MARGIN / float(terms.monitor)

    def draw(self, terms: EpochTerms) -> SparseExponential:
        """Return the draw of an epoch."""
        return SparseExponential(
            terms,
            delta=self.per_round.delta,
            prior=self.prior,
            units=self.units,
            drop_penalty=DROP_PENALTY,
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
        if rate is None:
            return f"what a cause has to beat is known after the first {self.first_window:,} rounds"
        said, floor = f"a cause has to beat a rate of {rate:.1%}", float(self.given_rate)
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

    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        cost, auto = odds(float(self.given_rate)), self.min_rate == AUTO
        terms = self.terms(cost, self.declared)
        follows = self.baseline == FOLLOW
        least = f"{float(self.given_rate):.1%} at least"
        if auto:
            why = f"twice the odds of the first {self.base_rounds:,} rounds"
            yield "rate to beat", least, f"{why}, then it follows the stream" if follows else why
        else:
            why = "it follows the stream above that" if follows else "as given"
            yield "rate to beat", least if follows else f"{float(self.given_rate):.1%}", why
        if follows:
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
        if self.first_window > self.base_rounds:
            rounds = self.first_window - self.base_rounds
            yield "known values", "those that stand out", f"in {rounds:,} more of the first rounds"
        spent = f"epsilon {float(self.epsilon_evidence):.4g}"
        yield "evidence's budget", spent, "once, for all windows"
        yield (
            "monitor and draws",
            f"epsilon {float(self.per_round.epsilon - self.epsilon_evidence):.4g} together",
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

    def _forecast(self) -> Iterator[tuple[str, str]]:
        yield (
            f"about {forecast(self, 1.0).positives:.0f} positives of a cause that always fails",
            f"{forecast(self, 0.3).positives:.0f} of one that fails 30 % of the time",
        )


# Shares of the events for which silence is explained.
SHARES = (0.01, 0.05, 0.2)
# A rate that is hardly any, and the rounds, in scales of noise, of a window that can show it.
HARDLY, LONG_WINDOW = 0.02, 20


def remarks_on(plan: CausesPlan, windows: Sequence[Window], *, silent: bool) -> list[str]:
    """Say what to know of a run: why no cause is published, and that it may be sorted. Public.

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
        (sum(window.positives), sum(window.positives) + sum(window.negatives))
        for window in windows
        if window.stop - window.start > LONG_WINDOW * window.scale
    ]
    rates = [rate_of(positives, rows) for positives, rows in counts]
    said = []
    if rates and min(rates) <= HARDLY and max(rates) >= 1 - HARDLY:
        said.append(
            "some stretches have no positive row and others hardly any else: if the rows are sorted "
            "by their label, shuffle them and begin anew, as causes cannot be told apart so"
        )
    return [*said, *_why_silent(plan, windows)] if silent else said


def _why_silent(plan: CausesPlan, windows: Sequence[Window]) -> Iterator[str]:
    """Say what a cause would have taken, and which rows no draw has read."""
    draws = [window for window in windows if window.drawn]
    starts = [plan.first_window, *(window.stop for window in draws)]
    if draws:
        start, window = max(
            zip(starts, draws, strict=False), key=lambda epoch: epoch[1].stop - epoch[0]
        )
        margin = plan.margin([before for before in windows if before.stop <= start], ())
        taken = _taken(plan, window.to_beat, window.stop - start, margin)
        # A draw reads the rows since the one before.
        yield (
            f"the longest draw read rounds {start + 1:,} to {window.stop:,}: there a cause would "
            f"have been published {taken} positive or more. With fewer, it needs more rounds or a "
            "larger epsilon: `littlestone plan` says how many"
        )
    end = windows[-1].stop if windows else 0
    if end - starts[-1] >= plan.check_every:
        last = plan.horizon // plan.check_every * plan.check_every
        latest = min(starts[-1] + plan.longest_epoch, last)
        yield (
            f"rows after round {starts[-1]:,} have not been read by a draw yet: that comes at round "
            f"{latest:,} at the latest"
        )


def _taken(plan: CausesPlan, to_beat: float, rounds: int, margin: int) -> str:
    """Return how many positives causes of some shares would have needed in an epoch, in words."""
    cost = odds(to_beat)
    terms = plan.terms(cost, plan.declared, margin)
    positive, negative = (w / plan.units for w in weights_of(cost, terms.swing, plan.units))
    needed, words = plan.needed(terms) + margin, []
    for share in SHARES:
        rows = share * rounds
        positives = (needed + negative * rows) / (positive + negative)
        if positives <= rows:
            words.append(f"{positives:,.0f} of {rows:,.0f} events ({share:.0%} of all)")
    return f"with {', '.join(words)}" if words else "in no case: there are too few rows"


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
