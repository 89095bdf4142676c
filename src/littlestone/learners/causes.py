"""Learn privately which causes raise the rate of positives: an or of ands of `column = value`.

A missed positive costs 1 and a false alarm costs c = min_rate / (1 - min_rate): a cause is worth
publishing if more than `min_rate` of its events are positive. The weighted loss of the published
rule is monitored; when it has grown too large a move is drawn: add a cause that the epoch's rows
speak for, drop one that costs more than it finds, or nothing (docs/guarantee.md, Theorems 15 and
16). After nothing the threshold doubles, so a stream without causes is left alone. There is no
tolerance to set.

`CausesPlan` holds the constants. Privacy holds for every value of every field; utility is a
heuristic.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone.classes.base import HypothesisClass, checked_class
from littlestone.classes.causes import Causes
from littlestone.errors import BadClass
from littlestone.hypotheses.causes import Cause, any_of, cause_from_key, causes_of, match_counts
from littlestone.hypotheses.rules import NEVER, Hypothesis
from littlestone.hypotheses.values import Mask
from littlestone.learners.base import Release, StateData, UserLearner
from littlestone.learners.coded_rounds import CodedRounds, CodesRemotely
from littlestone.learners.dpsoa import Engine, engine_of
from littlestone.learners.epoch_rows import EpochRows
from littlestone.learners.evidence import (
    Evidence,
    Window,
    evidence_of,
    rate_of,
    summarize_causes,
    window_from_json,
)
from littlestone.learners.plan_table import (
    PlanLine,
    PlanTable,
    planned_delta,
    planned_epsilon,
    planned_horizon,
)
from littlestone.learners.rounds import RoundBatch, Rounds
from littlestone.learners.runners import FIRST_WINDOW, LARGEST_WINDOW, BallotWatcher, Publish
from littlestone.learners.tree import fresh_seed
from littlestone.plots import INK, LETTERS, plot_rates
from littlestone.privacy.accounting import Cost, Unit
from littlestone.privacy.causes import (
    ADD,
    CausesGate,
    CausesMechanism,
    Gains,
    SparseExponential,
)
from littlestone.privacy.noise import Noise, SystemNoise
from littlestone.privacy.parameters import BadParameter, Real, enclose_exp, positive, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AUTO = "auto"
# The share of epsilon that the evidence has.
EVIDENCE_SHARE = Fraction(1, 10)
# The rounds of the first window at most, and as a share of the horizon.
FIRST_ROUNDS, FIRST_SHARE = 2000, Fraction(1, 20)
# "auto" is twice the base rate, within these limits, in thousandths.
LIFT, LEAST_RATE, MOST_RATE = 2, Fraction(1, 50), Fraction(1, 2)
THOUSANDTHS = 1000
# The prior of a pattern falls with its width.
PRIOR = (Fraction(1), Fraction(3, 10), Fraction(1, 10))
# A drop must gain so many missed positives to weigh as much as nothing.
DROP_PENALTY = 10
# The loss at which the monitor fires at the latest, in thresholds; and in the first epoch where the
# base rate is known.
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
    unit: Unit = "event"
    cap: int | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "evidence_share"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        for name in ("horizon", "check_every", "longest_epoch", "evidence_every"):
            whole(getattr(self, name), name, least=1)
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
        if (unit == "user") != (cap is not None):
            raise BadParameter("unit='user' requires a cap on a user's rounds; 'event' has none")
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
            first_window=_at_checks(first),
            evidence_share=EVIDENCE_SHARE,
            check_every=CHECK_EVERY,
            longest_epoch=LONGEST_EPOCH,
            evidence_every=_at_checks(min(longest, max(SHORTEST_WINDOW, length // FIRST_WINDOWS))),
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
        c = float(cost)
        # A cheap false alarm goes with a low min_rate, and there with a base rate: begin higher. A
        # dear one goes with rules that are nearly right, or else nearly all of the loss is base
        # rate: begin low, and grow fast.
        first = KNOWN_BASE if known else 2 - c
        return min(first * (2 + 2 * c) ** min(refusals, MOST_SLACK), MOST_SLACK)

    def positives_needed(self, rate: float, width: int = 1) -> float:
        """Return about how many positives of a cause it takes until the cause is published.

        Parameters
        ----------
        rate : float
            The positive rate of the cause's events.
        width : int
            The conditions of the cause.

        Returns
        -------
        float
            The positives; infinite if the rate is not above `min_rate`.
        """
        cost = self.cost_of(self.given_rate)
        gain = rate - float(cost) * (1 - rate)
        if gain <= 0:
            return math.inf
        # The draw comes when the monitor fires, at the earliest after so many missed positives.
        return max(self.needed(cost, width) * rate / gain, self.threshold(cost))

    def gate(self, noise: Noise, cost: Fraction, base: Fraction = Fraction(0)) -> CausesGate:
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
        units, level = cost.denominator, self.threshold(cost)

        def threshold(age: Any, refusals: int, rate: Fraction) -> Any:
            slack = self.slack(cost, refusals, known=base > 0)
            most = math.ceil(units * level * slack)
            expected = max(float(rate), float(units * base))
            # A stream whose losses come at the expected rate fires at `most`, one whose losses
            # have become more frequent sooner.
            sooner = BURST * units * level + (1 - 1 / slack) * expected * age
            return np.minimum(most, np.ceil(sooner).astype(np.int64)) if expected else most

        return CausesGate(
            noise,
            epsilon=self.epsilon_monitor(cost),
            selector=SparseExponential(
                rate=self.rate(cost),
                delta=self.per_round.delta,
                prior=self.prior,
                units=units,
                drop_penalty=DROP_PENALTY,
            ),
            cost=cost,
            threshold=threshold,
            check_every=self.check_every,
            longest_epoch=self.longest_epoch,
        )

    def lines(self) -> Iterator[PlanLine]:
        """Yield the plan as a table: what is proved, where the budget goes, what is expected."""
        unit = f"per {self.unit}" + (f", {self.cap} rounds a user count" if self.cap else "")
        yield PlanLine(
            "privacy: proved",
            f"epsilon {float(self.epsilon):g}, delta {float(self.delta):g}",
            f"replace-one, {unit}; any stream",
        )
        cost = self.cost_of(self.given_rate)
        if self.min_rate == AUTO:
            yield PlanLine(
                "min_rate",
                f"auto: {LIFT} x base rate, {float(LEAST_RATE):.0%} to {float(MOST_RATE):.0%}",
                f"from the first {self.first_window:,} rounds, which nothing else reads",
            )
        else:
            yield PlanLine(
                "min_rate", f"{float(self.given_rate):.1%}", "causes above are published"
            )
        yield PlanLine(
            "cost of a false alarm",
            f"{float(cost):.4g} of a missed positive"
            + (" or more" if self.min_rate == AUTO else ""),
            "min_rate / (1 - min_rate)",
        )
        yield PlanLine(
            "evidence's budget",
            f"epsilon {float(self.epsilon_evidence):.4g}",
            "once, for all windows",
        )
        yield PlanLine(
            "monitor and draws",
            f"epsilon {float(self.per_round.epsilon - self.epsilon_evidence):.4g} together",
            f"monitor {float(self.epsilon_monitor(cost)):.4g}, "
            f"rate of the draw {float(self.rate(cost)):.4g}; releases are unlimited",
        )
        yield PlanLine(
            "monitor",
            f"loss above the base rate's >= {self.threshold(cost):.0f}",
            "more of it is taken for base rate, the more often nothing was found",
        )
        yield PlanLine("check every", f"{self.check_every:,} rounds", "a public schedule")
        yield PlanLine(
            "epochs end after", f"{self.longest_epoch:,} rounds at most", "bounds memory"
        )
        yield PlanLine("horizon", f"{self.horizon:,} rounds", "then the last rule stands")
        yield PlanLine(
            "utility: heuristic",
            f"about {self.positives_needed(1.0):.0f} positives of a cause that always fails",
            f"{self.positives_needed(0.3):.0f} of one that fails 30 % of the time",
        )


def checked_min_rate(min_rate: Real | str) -> str:
    """Return a `min_rate` as text: "auto", or an exact fraction above 0 and at most 1/2.

    Raises
    ------
    BadParameter
        If it is something else.

    >>> checked_min_rate(0.1), checked_min_rate("auto")
    ('1/10', 'auto')
    """
    if min_rate == AUTO:
        return AUTO
    try:
        rate = Fraction(str(min_rate)).limit_denominator(THOUSANDTHS)
    except ValueError:
        raise BadParameter(f"min_rate is a number or 'auto', not {min_rate!r}") from None
    if not 0 < rate <= MOST_RATE:
        raise BadParameter(
            f"min_rate must be above 0 and at most 0.5, not {min_rate}: it is the positive rate "
            "above which a cause is worth publishing"
        )
    return str(rate)


def auto_min_rate(negatives: int, positives: int) -> Fraction:
    """Return the `min_rate` for the noisy counts of the first window: twice the base rate.

    Parameters
    ----------
    negatives, positives : int
        The noisy counts.

    Examples
    --------
    >>> auto_min_rate(1980, 20), auto_min_rate(1000, 1000), auto_min_rate(2003, -3)
    (Fraction(1, 50), Fraction(1, 2), Fraction(1, 50))
    """
    doubled = LIFT * rate_of(positives, negatives + positives)
    rounded = Fraction(math.ceil(doubled * THOUSANDTHS), THOUSANDTHS)
    return min(max(rounded, LEAST_RATE), MOST_RATE)


class PrivateCauses(UserLearner):
    """Learn privately which causes raise the rate of positives. Forward only.

    Requires: nothing of the stream. Promises: `guarantee`, for everything public (`hypothesis`,
    `releases`, `min_rate`, `evidence`), for every stream, also an adaptive one; the same rules
    however the rounds are batched.

    Parameters
    ----------
    cls : Causes
        The hypothesis class.
    epsilon, delta : Real, optional
        The privacy budget; not needed with a plan.
    horizon : int, optional
        The number of rounds after which the last rule stands; not needed with a plan.
    min_rate : Real or "auto"
        The positive rate above which a cause is worth publishing; see `CausesPlan.practical`.
    unit : {"event", "user"}
        What is protected: one round, or all rounds of a user. With "user" each round needs its
        user.
    cap : int, optional
        The rounds that count per user; later ones are null rounds.
    plan : CausesPlan, optional
        All constants; `CausesPlan.practical` if not given.
    seed : int, optional
        Kept for all learners alike; nothing here depends on it.
    noise : Noise, optional
        The source of secret noise; the system's if not given.
    engine : str or Engine, optional
        Where remote rows are: "ray" for a Ray cluster (docs/scale.md). The rules are the same.

    Examples
    --------
    >>> causes = Causes(["version", "country"])
    >>> learner = PrivateCauses(causes, epsilon=1, delta=1e-7, horizon=20_000, min_rate=0.2)
    >>> draw = np.random.default_rng(0)
    >>> rows = {"version": draw.choice(["4.2.0", "4.2.1", "4.3.0"], 20_000),
    ...         "country": draw.choice(["SE", "NO", "DK", "FI"], 20_000)}
    >>> failed = (rows["version"] == "4.2.1") & (draw.random(20_000) < 0.4)
    >>> learner.learn_many(rows, failed)
    >>> print(learner.hypothesis)
    version = '4.2.1'
    """

    plan: CausesPlan
    _runner: "CausesRunner"

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        *,
        min_rate: Real | str = AUTO,
        unit: Unit = "event",
        cap: int | None = None,
        plan: CausesPlan | None = None,
        seed: int | None = None,
        noise: Noise | None = None,
        engine: str | Engine | None = None,
    ) -> None:
        checked_class(cls)
        # Only rows are remote, and they bring their own: here the cluster is merely reached.
        engine_of(engine).connected()
        if plan is None:
            if epsilon is None or delta is None or horizon is None:
                raise BadParameter("give epsilon, delta and horizon, or a plan")
            plan = CausesPlan.practical(
                cls, epsilon, delta, horizon, min_rate=min_rate, unit=unit, cap=cap
            )
        if not isinstance(cls, Causes) or repr(cls) != plan.made_for:
            raise BadParameter(f"the plan was made for {plan.made_for}, not for {cls!r}")
        # The priors of a row's patterns sum to 1 for these counts only (Theorem 15).
        if plan.pattern_counts != " ".join(map(str, cls.pattern_counts)):
            raise BadParameter(f"rows of {cls!r} do not list {plan.pattern_counts} patterns")
        self.plan, self.seed = plan, fresh_seed() if seed is None else seed
        super().__init__(cls, NEVER, plan.horizon)
        self._runner = CausesRunner(
            cls, plan, SystemNoise() if noise is None else noise, self._publish, self._watch
        )

    @property
    def min_rate(self) -> float | None:
        """Return the rate above which causes are published; None before "auto" has found it."""
        found = self._runner.min_rate
        return None if found is None else float(found)

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the counts that were released. Public."""
        return tuple(self._runner.windows)

    @property
    def evidence(self) -> Evidence:
        """Return events, rate, interval and lift of each published cause. Public."""
        return evidence_of(self._runner.windows, self._runner.causes)

    @property
    def missed(self) -> int:
        """Return the positives that the published rules missed. Private."""
        return self._runner.missed

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the evidence: the rate of each standing cause beside the base rate. Public.

        A bar is the positive rate of a cause, with its interval of 95 %; the grey bar below it is
        the rate of the events that no published cause matches; a dashed line is `min_rate`. The
        private curve of mistakes is `plot_private`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default, which pyplot does not know of:
            `learner.plot().figure.savefig("evidence.svg")`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        found = summarize_causes(self.releases, self.evidence)
        bars = [one.bar for one in found if one.standing]
        ax = plot_rates(bars, ax, min_rate=self.min_rate)
        title = "Public: rates estimated from private counts"
        ax.set_title(title, loc="left", color=INK, fontsize=LETTERS + 1)
        ax.set_xlabel("positive rate (grey: of all other events; dashed: min_rate)")
        return ax

    def end_window(self) -> None:
        """Release the counts of the present window now, before its scheduled end.

        When to call this must not depend on the data: at the end of a file, say.
        """
        self._enter()
        self._runner.end_window(min(self.rounds, self._horizon))
        self._under_way.release()


class CausesRunner:
    """Move through the rounds: count the weighted loss, draw moves, release counts of windows.

    Parameters
    ----------
    cls : Causes
        The class.
    plan : CausesPlan
        All constants.
    noise : Noise
        Where all noise is drawn.
    publish : Publish
        Called when the published rule changes.
    watch : BallotWatcher
        Called after each step, with private figures.
    """

    def __init__(
        self, cls: Causes, plan: CausesPlan, noise: Noise, publish: Publish, watch: BallotWatcher
    ) -> None:
        self.plan, self._publish, self._watch = plan, publish, watch
        given = None if plan.min_rate == AUTO else plan.given_rate
        self.min_rate = given
        self.gate = CausesMechanism(
            noise,
            per_round=plan.per_round,
            epsilon_evidence=plan.epsilon_evidence,
            gate=partial(plan.gate, noise),
            cost=None if given is None else plan.cost_of(given),
            unit=plan.unit,
            cap=plan.cap,
        )
        self.forest = EpochRows(cls)
        self._limit = cls.limit
        self.rule: Hypothesis = NEVER
        self.causes = causes_of(NEVER)
        self.mistakes = self.missed = 0
        self.windows: list[Window] = []
        self._pending, self._chunk = 0, FIRST_WINDOW
        self._epochs_ended = 0
        self._window_start, self._window_length = 0, plan.evidence_every
        self._begin_epoch()
        self._begin_window()

    def _begin_epoch(self) -> None:
        self.forest.clear()
        gate = self.gate.gate
        if gate is not None and self.causes:
            # Public: it depends on what was published when, and on epochs that ended by age.
            share = self.plan.horizon // FIRST_EPOCHS << min(self._epochs_ended, FIRST_EPOCHS)
            gate.end_epoch_after(_at_checks(min(max(share, 1), self.plan.longest_epoch)))
        elif gate is not None:
            gate.end_epoch_after(self.plan.longest_epoch)
        # For each cause, the negatives and positives that it alone matches.
        self._alone = np.zeros((len(self.causes), 2), dtype=np.int64)

    def _begin_window(self) -> None:
        self._cells = np.zeros((len(self.causes) + 1, 2), dtype=np.int64)

    def learn_buffered(self) -> None:
        """Do nothing: rounds are learned at once."""

    def advance(self, rounds: RoundBatch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        while start < stop:
            end = min(stop, start + self._chunk, self._boundary(start))
            some = rounds.between(start, end)
            # Remote rows stay where they are.
            part = some.coded(self.causes) if isinstance(some, CodesRemotely) else some.here()
            start = self._learn(part, start, end)
            self._end_rounds(start)

    def _boundary(self, number: int) -> int:
        """Return the next round at which something public happens whatever the rows are."""
        if number < self.plan.first_window:
            return self.plan.first_window
        every = self.plan.check_every
        at_age = (number // every + self._checks_to_age) * every
        return min(at_age, self._window_start + self._window_length)

    @property
    def _checks_to_age(self) -> int:
        """Return how many checks are left before the epoch ends by its age."""
        assert self.gate.gate is not None, "it begins when the first window ends"
        return self.gate.gate.checks_to_restart

    def _learn(self, part: Rounds | CodedRounds, start: int, stop: int) -> int:
        """Learn up to `stop`, or up to the first firing; return where it stopped."""
        every, rows = self.plan.check_every, _Matched.of(part, self.causes)
        if start < self.plan.first_window:
            self._count(rows)
            return stop
        first, complete = start // every, stop // every - start // every
        wrong, costs = rows.losses(self._costs)
        losses = np.bincount(
            part.number[wrong] // every - first, weights=costs, minlength=complete + 1
        ).astype(np.int64)
        # Losses since the last check belong to the first check of this part.
        losses[0] += self._pending

        # Called at a firing only. The draw must not read rounds after the check that fired: they
        # belong to the next epoch (Theorem 15).
        def gains_at(place: int) -> Gains:
            self._add(rows.before((first + place + 1) * every))
            return self._gains()

        to_age = self._checks_to_age
        step = self.gate.run(losses[:complete], gains_at)
        if step.decision.fired:
            stop = (first + step.checks) * every
            self._end_epoch(stop, step.decision.key, step.checks == to_age)
            return stop
        self._pending = int(losses[complete])
        self._add(rows)
        self._watch(stop, {}, False)
        self._chunk = min(2 * self._chunk, LARGEST_WINDOW)
        return stop

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round, without arrays: as `advance` would."""
        matched = [place for place, cause in enumerate(self.causes) if cause(x)]
        # The last cell is that of no cause.
        self._cells[matched[0] if matched else -1, int(y)] += 1
        if bool(matched) != y:
            self.mistakes += 1
            self.missed += y
        if number >= self.plan.first_window:
            if bool(matched) != y:
                self._pending += self._costs[0 if y else 1]
            if not matched:
                self.forest.add_one(x, y)
            elif len(matched) == 1:
                self._alone[matched[0], int(y)] += 1
        self.pass_one(number)

    def pass_one(self, number: int) -> None:
        """End a round, null or not: check if one is due."""
        number += 1
        if number > self.plan.first_window and not number % self.plan.check_every:
            by_age = self._checks_to_age == 1
            fired, key = self.gate.check(self._pending, self._gains)
            if fired:
                self._end_epoch(number, key, by_age)
            else:
                self._pending = 0
        self._end_rounds(number)

    @property
    def _costs(self) -> tuple[int, int]:
        """Return the units of a missed positive and of a false alarm."""
        cost = self.gate.cost
        assert cost is not None, "the first window has ended"
        return cost.denominator, cost.numerator

    def _count(self, rows: "_Matched") -> None:
        """Count rows for the window, and mistakes for the data owner."""
        cells = rows.cells(len(self.causes))
        self._cells += cells
        missed, alarms = int(cells[-1, 1]), int(cells[:-1, 0].sum())
        self.missed += missed
        self.mistakes += missed + alarms

    def _add(self, rows: "_Matched") -> None:
        """Count rows, and keep what the next draw reads of them."""
        self._count(rows)
        if self.causes:
            self._alone += rows.alone(len(self.causes))
        if isinstance(rows.part, CodedRounds):
            coded = rows.part
            self.forest.add_coded(coded.codes, coded.unmatched_labels, coded.positives)
        elif rows.part.size:
            self.forest.add(rows.part.batch, rows.part.answers, rows.counts == 0)

    def _gains(self) -> Gains:
        units, alarm = self._costs
        adds, classes, keys = self.forest.gains(units=units, alarm=alarm)
        if len(self.causes) >= self._limit:
            # The number of published causes is public, so this choice costs nothing.
            adds, classes = adds[:0], classes[:0]
        drops = alarm * self._alone[:, 0] - units * self._alone[:, 1]
        return Gains(adds, classes, keys, drops, [cause.key for cause in self.causes])

    def _end_epoch(self, number: int, key: bytes | None, by_age: bool) -> None:
        """End the epoch after a draw, and make the move that was drawn."""
        self._watch(number, {}, True)
        self._epochs_ended += by_age
        if key is not None:
            self._epochs_ended = 0
            move, cause = key[:1], cause_from_key(key[1:])
            others = [other for other in self.causes if other != cause]
            rule = any_of([*others, cause] if move == ADD else others)
            if rule != self.rule:
                # The window's cells are those of the old causes: it ends with them.
                self.end_window(number)
                self.rule, self.causes = rule, causes_of(rule)
                self._window_length = self.plan.evidence_every
                self._begin_window()
                self._publish(number, rule)
        # Also when nothing was drawn: counts that survive a firing are read twice (Theorem 15).
        self._begin_epoch()
        self._pending, self._chunk = 0, FIRST_WINDOW

    def _end_rounds(self, number: int) -> None:
        """Release counts where a window ends."""
        if number == self.plan.first_window and self.gate.gate is None:
            self._end_first_window(number)
        elif number == self._window_start + self._window_length or number == self.plan.horizon:
            self.end_window(number)

    def _end_first_window(self, number: int) -> None:
        negatives, positives = self.gate.release_first(self._cells.ravel())
        scale = float(self.gate.first_scale)
        self.windows.append(Window(1, number, (), (negatives,), (positives,), scale))
        self.min_rate = auto_min_rate(negatives, positives)
        base = rate_of(positives, negatives + positives)
        self.gate.begin(self.plan.cost_of(self.min_rate), base)
        self._window_start = number
        self._begin_window()

    def end_window(self, number: int) -> None:
        """Release the counts of the window that ends after `number` rounds, and begin the next."""
        if number <= self._window_start or number < self.plan.first_window:
            return
        counts = self.gate.evidence.release(self._cells.ravel())
        self.windows.append(
            Window(
                self._window_start + 1,
                number,
                self.causes,
                tuple(counts[::2]),
                tuple(counts[1::2]),
                float(self.gate.evidence.scale),
            )
        )
        self._window_start = number
        # Noise adds up over windows: fewer and longer ones, the longer a rule stands.
        longest = max(self.plan.horizon // FEWEST_WINDOWS, self.plan.evidence_every)
        self._window_length = _at_checks(min(2 * self._window_length, longest))
        self._begin_window()

    def get_state(self) -> StateData:
        """Return the runner's own state; gate, rule and rows of the epoch have theirs."""
        return {
            "mistakes": self.mistakes,
            "missed": self.missed,
            "pending": self._pending,
            "epochs_ended": self._epochs_ended,
            "alone": self._alone.tolist(),
            "cells": self._cells.tolist(),
            "window": [self._window_start, self._window_length],
            "windows": [window.to_json() for window in self.windows],
            "min_rate": None if self.min_rate is None else str(self.min_rate),
        }

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Load the runner's own state; gate and rows of the epoch are loaded already."""
        self.rule = releases[-1].rule
        self.causes = causes_of(self.rule)
        self.mistakes, self.missed = live["mistakes"], live["missed"]
        self._pending, self._epochs_ended = live["pending"], live["epochs_ended"]
        self._alone = np.array(live["alone"], dtype=np.int64).reshape(len(self.causes), 2)
        self._cells = np.array(live["cells"], dtype=np.int64).reshape(len(self.causes) + 1, 2)
        self._window_start, self._window_length = live["window"]
        self.windows = [window_from_json(window) for window in live["windows"]]
        self.min_rate = None if live["min_rate"] is None else Fraction(live["min_rate"])


class _Matched(NamedTuple):
    """Hold rounds with how many causes match each, and which is the first (-1 if none)."""

    part: Rounds | CodedRounds
    counts: npt.NDArray[np.int8]
    first: npt.NDArray[np.int8]

    @classmethod
    def of(cls, part: Rounds | CodedRounds, causes: Sequence[Cause]) -> "_Matched":
        """Match rounds with causes."""
        if isinstance(part, CodedRounds):
            return cls(part, part.counts, part.first)
        if not causes or not part.size:
            return cls(part, np.zeros(part.size, np.int8), np.full(part.size, -1, np.int8))
        return cls(part, *match_counts(causes, part.batch))

    def before(self, number: int) -> "_Matched":
        """Return the rounds before a round."""
        part = self.part.between(0, number)
        return _Matched(part, self.counts[: part.size], self.first[: part.size])

    def losses(self, costs: tuple[int, int]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        """Return the rounds with a loss and the loss of each.

        Parameters
        ----------
        costs : tuple of int
            The units of a missed positive and of a false alarm.
        """
        units, alarm = costs
        wrong = np.flatnonzero((self.first >= 0) != self.part.answers)
        return wrong, np.where(self.part.answers[wrong], units, alarm)

    def cells(self, causes: int) -> npt.NDArray[np.int64]:
        """Return the negatives and positives that each cause matches first; last, of none."""
        if not causes:
            positives = int(np.count_nonzero(self.part.answers))
            return np.array([[self.part.size - positives, positives]])
        place = np.where(self.first < 0, causes, self.first)
        return _by_label(place, self.part.answers, causes + 1)

    def alone(self, causes: int) -> npt.NDArray[np.int64]:
        """Return the negatives and positives that each cause alone matches."""
        one = self.counts == 1
        return _by_label(self.first[one], self.part.answers[one], causes)


def _by_label(place: npt.NDArray[Any], labels: Mask, size: int) -> npt.NDArray[np.int64]:
    counts = np.bincount(2 * place.astype(np.int64) + labels, minlength=2 * size)
    return counts.reshape(size, 2).astype(np.int64)


def _at_checks(rounds: int) -> int:
    """Return a number of rounds, rounded up to whole checks."""
    return -(-rounds // CHECK_EVERY) * CHECK_EVERY
