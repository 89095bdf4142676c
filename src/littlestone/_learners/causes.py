"""Learn privately which causes raise the rate of positives: an or of ands of `column = value`.

A missed positive costs 1 and a false alarm costs c = min_rate / (1 - min_rate): a cause is worth
publishing if more than `min_rate` of its events are positive. The weighted loss of the published
rule is monitored; when it has grown too large a move is drawn: add a cause that the epoch's rows
speak for, drop one that costs more than it finds, or nothing (docs/guarantee.md, Theorems 15 and
16). After nothing the threshold grows, so a stream without causes is left alone. There is no
tolerance to set.

Where labels have several values, such as `ok`, `timeout` and `crash`, the class says which are
normal (`Causes(columns, normal=["ok"])`), and a cause says which outcome it is of.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._classes.causes import Causes
from littlestone._data.schema import readable_batch
from littlestone._hypotheses.causes import outcome_of
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._learners.base import PrivateLearner
from littlestone._learners.cause_counts import MILLION, CauseCounts
from littlestone._learners.causes_plan import AUTO, CausesPlan
from littlestone._learners.dpsoa import Engine, engine_of
from littlestone._learners.evidence import (
    Evidence,
    Window,
    evidence_of,
    summarize_causes,
)
from littlestone._learners.outcomes import predicted_labels, read_outcome
from littlestone._learners.plan_table import CHANGE_COST, given_plan
from littlestone._learners.rate_to_beat import FOLLOW, Baseline, rate_of_odds
from littlestone._learners.trace import Sample
from littlestone._learners.tree import fresh_seed
from littlestone._plots import INK, LETTERS, plot_rates
from littlestone._privacy.accounting import Unit
from littlestone._privacy.causes import CausesMechanism
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, Real

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PrivateCauses(PrivateLearner):
    """Learn privately which causes raise the rate of positives. Forward only.

    Requires: nothing of the stream. Promises: `guarantee`, for everything public (`hypothesis`,
    `releases`, `rate_to_beat`, `evidence`), for every stream, also an adaptive one; the same rules
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
        The positive rate that a cause has to beat at least; see `CausesPlan.practical`.
    baseline : {"follow", "fixed"}
        Whether the rate to beat follows the stream, or stays what it was at first.
    change_cost : Real
        How many missed positives one published change of rule is worth; see `CausesPlan.margin`.
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
    >>> import numpy as np
    >>> causes = Causes(["version", "country"])
    >>> learner = PrivateCauses(causes, epsilon=1, delta=1e-7, horizon=20_000, min_rate=0.2)
    >>> draw = np.random.default_rng(0)
    >>> rows = {"version": draw.choice(["4.2.0", "4.2.1", "4.3.0"], 20_000),
    ...         "country": draw.choice(["SE", "NO", "DK", "FI"], 20_000)}
    >>> failed = (rows["version"] == "4.2.1") & (draw.random(20_000) < 0.4)
    >>> learner.learn_many(rows, failed)
    >>> print(learner.hypothesis)
    version = '4.2.1'
    >>> outcomes = Causes(["version", "country"], normal=["ok"])
    >>> learner = PrivateCauses(outcomes, epsilon=1, delta=1e-7, horizon=20_000, min_rate=0.2)
    >>> learner.learn_many(rows, np.where(failed, "timeout", "ok"))
    >>> print(learner.hypothesis)
    timeout when version = '4.2.1'
    >>> learner.predict_one({"version": "4.2.1", "country": "SE"})
    'timeout'
    """

    cls: Causes
    plan: CausesPlan

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        *,
        min_rate: Real | str = AUTO,
        baseline: Baseline = FOLLOW,
        change_cost: Real = CHANGE_COST,
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
        needed = {"epsilon": epsilon, "delta": delta, "horizon": horizon}
        options = {
            "min_rate": min_rate,
            "baseline": baseline,
            "change_cost": change_cost,
            "unit": unit,
            "cap": cap,
        }
        plan = given_plan(CausesPlan, cls, plan, needed, **options)
        if not isinstance(cls, Causes) or repr(cls) != plan.made_for:
            raise BadParameter(f"the plan was made for {plan.made_for}, not for {cls!r}")
        # The priors of a row's patterns sum to 1 for these counts only (Theorem 15).
        if plan.pattern_counts != " ".join(map(str, cls.pattern_counts)):
            raise BadParameter(f"rows of {cls!r} do not list {plan.pattern_counts} patterns")
        gate = _mechanism(plan, SystemNoise() if noise is None else noise)
        self._counts, self._has_outcomes = CauseCounts(cls, plan, gate), cls.has_outcomes
        seed = fresh_seed() if seed is None else seed
        super().__init__(plan, seed, NEVER, self._counts, gate)

    def _read_one(self, x: object, y: object) -> tuple[object, bool]:
        return read_outcome(self.cls, x, y) if self._has_outcomes else super()._read_one(x, y)

    def predict_one(self, x: object) -> Any:
        """Predict the label of an example by the published rule.

        Returns
        -------
        bool or Plain
            The label. Of a class with normal labels: the outcome of the first published cause that
            holds, and else the first normal label.
        """
        if not self._has_outcomes:
            return super().predict_one(x)
        predicted = outcome_of(self.hypothesis, x)
        return self.cls.normal[0] if predicted is None else predicted

    def predict_many(self, X: Any) -> Any:
        """Predict the labels of a batch by the published rule, as `predict_one` does."""
        if not self._has_outcomes:
            return super().predict_many(X)
        return predicted_labels(self.cls, self.hypothesis, readable_batch(self.cls, X))

    @property
    def rate_to_beat(self) -> float | None:
        """Return the rate that a cause has to beat now; None before the first window has ended."""
        cost = self._counts.beat.cost
        return rate_of_odds(cost) if cost else None

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the counts that were released. Public."""
        return tuple(self._counts.windows)

    @property
    def evidence(self) -> Evidence:
        """Return events, rate, interval and lift of each published cause. Public."""
        return evidence_of(self._counts.windows, self._counts.causes)

    @property
    def missed(self) -> int:
        """Return the positives that the published rules missed. Private.

        With outcomes, those count too for which only causes of other outcomes held.
        """
        self.loop.gather()
        return self._counts.missed

    @property
    def cost(self) -> float:
        """Return what the published rules have cost, in missed positives. Private.

        A missed positive costs 1, a false alarm the odds of the rate to beat when it was made.
        """
        return self.missed + self._counts.alarm_cost / MILLION

    def _sample(self, number: int, votes: Mapping[Hypothesis, int]) -> Sample:
        return Sample(number, round(self.cost), ())

    def plot_private(self, ax: "Axes | None" = None) -> "Axes":
        """Draw `cost` over the rounds: a right cause makes the curve flatter. PRIVATE."""
        ax = super().plot_private(ax)
        ax.set_ylabel("cost, in missed positives")
        return ax

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the evidence: the rate of each standing cause beside the base rate. Public.

        A bar is the positive rate of a cause, with its interval of 95 %; the grey bar below it is
        the rate of the events that no published cause matches; a dashed line is the rate to beat. The
        private curve of what was missed is `plot_private`.

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
        ax = plot_rates(bars, ax, min_rate=self.rate_to_beat)
        title = "Public: rates estimated from private counts"
        ax.set_title(title, loc="left", color=INK, fontsize=LETTERS + 1)
        ax.set_xlabel("positive rate (grey: of all other events; dashed: rate to beat)")
        return ax

    def end_window(self) -> None:
        """Release the counts of the present window now, before its scheduled end.

        When to call this must not depend on the data: at the end of a file, say.
        """
        self._enter()
        self.loop.gather()
        self._counts.end_window(min(self.rounds, self._horizon))
        self._under_way.release()


def _mechanism(plan: CausesPlan, noise: Noise) -> CausesMechanism:
    """Return the mechanisms of a plan; where there is a first window, the gate begins after it."""
    return CausesMechanism(
        noise,
        per_round=plan.per_round,
        epsilon_evidence=plan.epsilon_evidence,
        draw=plan.draw,
        check_every=plan.check_every,
        units=plan.units,
        unit=plan.unit,
        cap=plan.cap,
    )
