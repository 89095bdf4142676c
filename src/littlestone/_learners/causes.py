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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._classes.causes import Causes, Ranges
from littlestone._data.cells import NO_USER
from littlestone._data.rounds import RowSpan, join_rounds
from littlestone._data.schema import BadRows, read_parts, readable_batch
from littlestone._hypotheses.causes import outcome_of
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.base import PrivateLearner
from littlestone._learners.cause_counts import MILLION, CauseCounts
from littlestone._learners.causes_plan import AUTO, USER_ROUNDS, CausesPlan, remarks_on
from littlestone._learners.dpsoa import Engine, engine_of
from littlestone._learners.evidence import (
    Evidence,
    Window,
    evidence_of,
    over_time,
    summarize_causes,
)
from littlestone._learners.outcomes import predicted_labels, read_outcome
from littlestone._learners.plan_table import CHANGE_COST, given_plan
from littlestone._learners.rate_to_beat import FOLLOW, Baseline, rate_of_odds
from littlestone._learners.trace import Sample
from littlestone._learners.tree import fresh_seed
from littlestone._plots import INK, LETTERS, plot_over_time, plot_rates
from littlestone._privacy.accounting import Unit
from littlestone._privacy.causes import CausesMechanism
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, Real
from littlestone.errors import BadExample

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
        How many epochs may read a user, required for users of a stream. A stream has two epochs,
        or as many as the cap; each reads the first 16 rounds of a user, who counts as one.
    table : bool
        Whether the rows are those of a finished table, whose order means nothing: they are learned
        whole, by one call of `learn_many`; `horizon` is their number. See `find_causes`.
    plan : CausesPlan, optional
        All constants; `CausesPlan.practical` if not given.
    seed : int, optional
        Says which rows of a user are read, of a finished table; nothing else depends on it.
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
        table: bool = False,
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
            "table": table,
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
        if plan.table:
            self._noun = "row"

    def learn_many(
        self, X: Any, y: object, users: Any = None, *, bad_rows: BadRows = "refuse"
    ) -> None:
        """Learn a batch of labelled examples; a finished table whole (see `PrivateLearner`)."""
        if not self.plan.table:
            super().learn_many(X, y, users, bad_rows=bad_rows)
            return
        self.learn(join_rounds(list(read_parts(self.cls, X, y, users, bad_rows))))

    def learn(self, rounds: RowSpan) -> None:
        """Learn rounds that a schema has read; of a finished table, all of them at once."""
        if self.plan.table and (self.rounds or len(rounds) != self._horizon):
            raise BadParameter(
                f"a finished table is learned whole, once: {self._horizon:,} rows were planned for, "
                f"{self.rounds:,} are learned, and {len(rounds):,} came. Learn other rows with a "
                "learner (another --db) and a budget of their own"
            )
        super().learn(rounds)

    def _advance(self, rounds: RowSpan, stop: int) -> None:
        if not self.plan.table:
            super()._advance(rounds, stop)
            return
        self._counts.begin_table(rounds)
        self.loop.learn_table(rounds, stop)

    def _pass(self, x: object, y: bool | None, route: int) -> None:
        if self.plan.table:
            raise BadParameter("a finished table is learned whole: call learn_many, not learn_one")
        super()._pass(x, y, route)

    def _within(self, routes: list[int]) -> Mask:
        if not self.plan.table:
            return super()._within(routes)
        # Which rows of a user are read must not follow from their order: it may be that of labels.
        order = np.random.default_rng(self.seed).permutation(len(routes))
        within = np.zeros(len(routes), dtype=bool)
        for number in order.tolist():
            within[number] = self._within_cap(routes[number], number)
        return within

    def _within_cap(self, route: int, number: int) -> bool:
        """Return whether an epoch reads a round of a user: by who appears when, which is public."""
        if route == NO_USER:
            return True
        epoch = 0 if self.plan.table else number // self.plan.longest_epoch
        epochs, last, rounds = _unpack(self._rounds_of.get(route, 0))
        if not epochs or last != epoch:
            epochs, last, rounds = epochs + 1, epoch, 0
        # The evidence counts the first round of a user in every epoch; draws read a few epochs.
        counted = not rounds and number < self._horizon
        read = epochs <= self.plan.reads and rounds < (self.plan.rounds_of_user or 0)
        if counted:
            self._counts.note_user(number, read)
        rounds = min(rounds + 1, USER_ROUNDS)
        self._rounds_of[route] = _pack(min(epochs, self.plan.reads + 1), last, rounds)
        self._unsaved.add(route)
        return counted or read

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
    def remarks(self) -> list[str]:
        """Say why no cause is published, if so, and what else to know of the evidence. Public."""
        return remarks_on(self.plan, self._counts.windows, silent=self.hypothesis == NEVER)

    @property
    def _reached(self) -> str:
        if not self.plan.table:
            return super()._reached
        return f"the table of {self._horizon:,} rows is learned"

    def _published_html(self) -> Markup:
        return self.evidence._repr_html_() if self.plan.table else super()._published_html()

    def _in_words(self) -> str:
        why = "".join(f"; {remark}" for remark in self.remarks)
        return f"no cause is published{why}" if self.hypothesis == NEVER else super()._in_words()

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
        title = f"Public: rates estimated from private counts of {self.plan.counted}"
        ax.set_title(title, loc="left", color=INK, fontsize=LETTERS + 1)
        ax.set_xlabel("positive rate (grey: of all other events; dashed: rate to beat)")
        return ax

    def plot_over_time(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the rate of each cause over the rounds: whether it came down, say. Public.

        A step is the rate in one or more windows of rounds, the band around it the interval of
        95 %, the grey line the rate of the events that no published cause matches. The axis is of
        times where the rounds came with them (`littlestone learn --time`).

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default, which pyplot does not know of:
            `learner.plot_over_time().figure.savefig("rates.svg")`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        found = over_time(self.windows, self.evidence)
        ax = plot_over_time(found.lines, ax, timed=found.timed)
        title = f"Public: rates estimated from private counts of {self.plan.counted}"
        ax.set_title(title, loc="left", color=INK, fontsize=LETTERS + 1)
        ax.set_xlabel(f"{found.zone} (grey: the rate of all other events)")
        if found.histories:
            for name in ax.legend(frameon=False, fontsize=LETTERS, labelcolor=INK).get_texts():
                # A dollar in text from the data must not begin mathematics.
                name.set_parse_math(False)
        return ax

    def end_window(self) -> None:
        """Release the counts of the present window now, before its scheduled end.

        When to call this must not depend on the data: at the end of a file, say.
        """
        self._enter()
        self.loop.gather()
        self._counts.end_window(min(self.rounds, self._horizon))
        self._under_way.release()


# What is kept of a user, in one whole number: epochs that have read it, the last, and rounds in that.
EPOCH_BITS, ROUND_BITS = 32, 8


def _pack(epochs: int, last: int, rounds: int) -> int:
    return (epochs << EPOCH_BITS | last) << ROUND_BITS | rounds


def _unpack(held: int) -> tuple[int, int, int]:
    rounds, rest = held & ((1 << ROUND_BITS) - 1), held >> ROUND_BITS
    return rest >> EPOCH_BITS, rest & ((1 << EPOCH_BITS) - 1), rounds


def _mechanism(plan: CausesPlan, noise: Noise) -> CausesMechanism:
    """Return the mechanisms of a plan; where there is a first window, the gate begins after it."""
    rounds, reads = plan.rounds_of_user, plan.reads
    if rounds is not None:
        # Those that draws read, and one in each other epoch, for the evidence.
        rounds = rounds * reads + plan.counts_of_unit - reads
    return CausesMechanism(
        noise,
        budget=plan.budget,
        epsilon_evidence=plan.epsilon_evidence,
        draw=plan.draw,
        check_every=plan.check_every,
        units=plan.units,
        reads=reads,
        counts=plan.counts_of_unit,
        rounds=rounds,
        epsilon_base=plan.epsilon_base,
    )


def find_causes(
    X: Any,
    label: Any,
    columns: Sequence[str | Ranges],
    *,
    epsilon: Real,
    delta: Real,
    users: Any = None,
    width: int = 1,
    limit: int = 8,
    normal: Sequence[Any] = (),
    values: Mapping[str, Sequence[Any]] | None = None,
    min_rate: Real | str = AUTO,
    bad_rows: BadRows = "refuse",
) -> PrivateCauses:
    """Find out, privately, what causes the positives of a finished table.

    The order of the rows does not matter. The whole table is learned at once, and one rule is
    published: read `hypothesis`, `evidence` and `guarantee` of what is returned, or `plot()` it.

    Parameters
    ----------
    X : table
        The rows: a frame of pandas or polars, a table of pyarrow, a dict of columns, a list of dicts.
    label : sequence or str
        Their labels, 0 and 1; or the name of their column.
    columns : sequence of str or Ranges
        The columns that may be the cause.
    epsilon, delta : Real
        The privacy budget.
    users : sequence or str, optional
        Whose each row is, or the name of that column: then all rows of a user are protected.
    width, limit, normal, values
        As in `Causes`.
    min_rate : Real or "auto"
        The positive rate that a cause has to beat at least; "auto" asks for twice the odds of all
        rows, and at least 2 %.
    bad_rows : {"refuse", "null"}
        What happens to rows that cannot be read.

    Returns
    -------
    PrivateCauses
        The learner, at the end of the table.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> eaten = {dish: draw.choice(["yes", "no"], 500) for dish in ("soup", "fish", "cake")}
    >>> ill = draw.random(500) < np.where(eaten["fish"] == "yes", 0.7, 0.1)
    >>> answers = {dish: ["yes", "no"] for dish in eaten}
    >>> found = find_causes(eaten, ill, list(eaten), epsilon=1, delta=1e-6, values=answers)
    >>> print(found.hypothesis)
    fish = 'yes'
    """
    cls = Causes(columns, width, limit, normal, values or {})
    rounds = join_rounds(list(read_parts(cls, X, label, users, bad_rows)))
    if not len(rounds):
        raise BadExample("the table has no rows")
    learner = PrivateCauses(
        cls,
        epsilon,
        delta,
        len(rounds),
        min_rate=min_rate,
        unit="event" if users is None else "user",
        table=True,
    )
    learner.learn(rounds)
    return learner
