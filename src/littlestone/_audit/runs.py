"""Bound epsilon from counts of an event (Clopper and Pearson 1934).

Promises: `epsilon_bound` is above the true epsilon (given delta) with probability at most 1 -
confidence, for every learner, if the event was chosen before the counts were made.

Run a learner many times on two neighbouring streams, and record what was published.

Only what is public is recorded: when the gate fired, and which rule was published then. Learners
that can be audited are registered by name, each with its plan. An `AuditTarget` makes learners with
fresh secret noise and the random bits of `seed`. These are not secret: the guarantee holds for each
value of them, so both worlds and all runs have the same ones.
"""

import math
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from multiprocessing import get_context
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from littlestone._classes.base import HypothesisClass
from littlestone._learners.base import Release
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.experts import ExpertsPlan
from littlestone._learners.plan import SELECTORS, Plan
from littlestone._learners.registry import LEARNERS
from littlestone._learners.tuning import Selection
from littlestone._privacy.accounting import Cost
from littlestone._privacy.parameters import BadParameter

STEPS = 60
NODES = 9


def binomial_tail(count: int, runs: int, p: float) -> float:
    """Return P(binomial >= count), by the incomplete beta function."""
    if count <= 0 or p >= 1:
        return 1.0
    if count > runs or p <= 0:
        return 0.0
    a, b = float(count), float(runs - count + 1)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(p) + b * math.log1p(-p)
    )  # fmt: skip
    # The continued fraction converges fast on one side only; the other is its complement.
    if p < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, p) / a
    return 1 - math.exp(log_front) * _fraction(b, a, 1 - p) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    total = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            total *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return total


def lower_bound(count: int, runs: int, miss: float) -> float:
    """Return a lower bound on a probability."""
    # The tail grows with the probability, so bisection finds where it is `miss`.
    low, high = 0.0, count / runs
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_tail(count, runs, middle) <= miss else (low, middle)
    return low


def upper_bound(count: int, runs: int, miss: float) -> float:
    """Return an upper bound on a probability."""
    # An upper bound on an event is a lower bound on its complement.
    return 1 - lower_bound(runs - count, runs, miss)


def epsilon_bound(likely: int, unlikely: int, runs: int, delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon, from an event's counts in two worlds."""
    miss = (1 - confidence) / 2
    # Both bounds hold together by the union bound.
    p, q = lower_bound(likely, runs, miss), upper_bound(unlikely, runs, miss)
    return math.log((p - delta) / q) if p > delta else -math.inf


def approximate_epsilon_bound(
    likely: int, unlikely: int, runs: int, delta: float, confidence: float
) -> float:
    """Approximate `epsilon_bound` fast (Wilson's intervals), for choosing among many events."""
    # Accurate enough to rank events; the event that is chosen gets the exact bound.
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p, q = _wilson(likely, runs, -z), _wilson(unlikely, runs, z)
    return math.log((p - delta) / q) if p > delta else -math.inf


def _wilson(count: int, runs: int, z: float) -> float:
    rate, square = count / runs, z * z / runs
    spread = z * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs))
    return max(0.0, (rate + square / 2 + spread) / (1 + square))


def power(p: float, q: float, runs: int, claimed: float, delta: float, confidence: float) -> float:
    """Return how probably an event refutes a claim."""
    miss, spread = (1 - confidence) / 2, math.sqrt(runs * q * (1 - q))
    chances = []
    for part in range(NODES):
        z = NormalDist().inv_cdf((part + 0.5) / NODES)
        seen = min(runs, max(0, math.ceil(runs * q + z * spread)))
        rate = delta + math.exp(claimed) * upper_bound(seen, runs, miss)
        chances.append(binomial_tail(_needed(rate, runs, miss), runs, p))
    return sum(chances) / NODES


def _needed(rate: float, runs: int, miss: float) -> int:
    """Return the least count that shows a probability above `rate`."""
    least, most = 1, runs + 1
    while least < most:
        middle = (least + most) // 2
        if middle <= runs and binomial_tail(middle, runs, rate) > miss:
            least = middle + 1
        else:
            most = middle
    return least


def separation(p: float, q: float, claimed: float) -> float:
    """Return how far p is above what the claim allows, in standard deviations of one run."""
    allowed = math.exp(claimed)
    return (p - allowed * q) / math.sqrt(p + allowed * allowed * q) if p + q else 0.0


# An example and its label; without a label it is a null round.
Row: TypeAlias = tuple[object, bool | None]
NULL: Row = (None, None)
# Runs that a worker makes before it reports.
PART = 25


class AuditedLearner(Protocol):
    """Describe what an audit needs of a learner. `ledger` and `skip_one` are used if present."""

    @property
    def releases(self) -> tuple[Release, ...]: ...

    def learn_one(self, x: Any, y: Any) -> None: ...


# Makes a learner, with its own secret noise. It is sent to other processes: a function of a module,
# or a frozen value with `__call__`.
Make: TypeAlias = Callable[[], AuditedLearner]


@dataclass(frozen=True)
class Neighbours:
    """Hold two streams that differ in one round."""

    what: str
    one: tuple[Row, ...]
    other: tuple[Row, ...]
    every: int = 1

    def __post_init__(self) -> None:
        # The guarantee compares streams that differ in exactly one round.
        changed = sum(a != b for a, b in zip(self.one, self.other, strict=False))
        if len(self.one) != len(self.other) or changed != 1:
            raise BadParameter("neighbours are streams of one length that differ in one round")

    @property
    def example(self) -> object:
        """Return the example that was replaced."""
        pairs = zip(self.one, self.other, strict=True)
        here, there = next((a, b) for a, b in pairs if a != b)
        return there[0] if here[1] is None else here[0]


class FiringRecord(NamedTuple):
    """Record a firing."""

    round: int
    rule: str | None
    answer: bool


# All that one run made public.
Seen: TypeAlias = tuple[FiringRecord, ...]


def in_both_worlds(
    make: Make, pair: Neighbours, runs: int, workers: int | None, watch: Callable[[int], None]
) -> tuple[list[Seen], list[Seen]]:
    """Return what was published in every run of the two worlds."""
    found: tuple[list[Seen], list[Seen]] = ([], [])
    # "spawn", because a forked worker would share the noise that was drawn ahead.
    with ProcessPoolExecutor(workers or os.cpu_count(), get_context("spawn")) as pool:
        jobs = [
            (world, pool.submit(_several, make, rows, pair, min(PART, runs - at)))
            for at in range(0, runs, PART)
            for world, rows in enumerate((pair.one, pair.other))
        ]
        for world, job in jobs:
            found[world].extend(job.result())
            watch(len(found[0]) + len(found[1]))
    return found


def _several(make: Make, rows: Sequence[Row], pair: Neighbours, count: int) -> list[Seen]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [published(make(), rows, pair) for _ in range(count)]


def published(learner: AuditedLearner, rows: Sequence[Row], pair: Neighbours) -> Seen:
    """Return what a learner publishes on some rows, one check after the other."""
    firings: list[FiringRecord] = []
    uses, releases = _uses(learner), len(learner.releases)
    for at in range(0, len(rows), pair.every):
        part = rows[at : at + pair.every]
        _learn(learner, part, at)
        # A firing shows in the ledger, also where it published nothing.
        if _uses(learner) > uses:
            rule = learner.releases[-1].rule
            new = str(rule) if len(learner.releases) > releases else None
            firings.append(FiringRecord(at + len(part), new, rule(pair.example)))
            uses, releases = _uses(learner), len(learner.releases)
    return tuple(firings)


def _learn(learner: Any, rows: Sequence[Row], start: int) -> None:
    """Make a learner learn some rounds."""
    per_user = getattr(getattr(learner, "plan", None), "unit", "event") == "user"
    # Null rounds must keep their number, or the two streams would not be aligned.
    if hasattr(learner, "skip_one"):
        xs, ys = map(list, zip(*rows, strict=True))
        users = {"users": list(range(start, start + len(rows)))} if per_user else {}
        learner.learn_many(xs, ys, **users, bad_rows="null")
        return
    for x, y in rows:
        if y is not None:
            learner.learn_one(x, y)


def _uses(learner: AuditedLearner) -> int:
    if isinstance(learner, PrivateCauses):
        # Its ledger has the counts of windows too, which end on a public schedule.
        return learner._runner.gate.releases_made
    ledger = getattr(learner, "ledger", None)
    return len(learner.releases if ledger is None else ledger)


@dataclass(frozen=True)
class TwiceCausesPlan(CausesPlan):
    """Spend what a plan of half the epsilon has thresholds for."""

    def threshold(self, cost: Fraction) -> float:
        """Return the threshold for half of the epsilon."""
        return CausesPlan.threshold(replace(self, epsilon=self.epsilon / 2), cost)


AnyPlan: TypeAlias = Plan | ExpertsPlan | CausesPlan
# Trees, and rounds, for each vote in a small plan: rounds then reach enough different trees.
TREES_A_VOTE = 2


@dataclass(frozen=True)
class AuditTarget:
    """Make a learner that claims what its plan says; or one that is not private, as `soa`."""

    name: str
    cls: HypothesisClass
    plan: AnyPlan
    seed: int

    @property
    def claim(self) -> Cost:
        """Return what is claimed."""
        return Cost(self.plan.epsilon, getattr(self.plan, "delta", Fraction(0)))

    def __call__(self) -> AuditedLearner:
        made: AuditedLearner = LEARNERS[self.name].make(self.cls, self.plan, seed=self.seed)
        return made

    @property
    def private(self) -> bool:
        """Return whether the learner claims anything; what does not is a leak to be found."""
        return LEARNERS[self.name].private

    @property
    def every(self) -> int:
        """Return the rounds from one check to the next; without a plan, 1."""
        return getattr(self.plan, "check_every", 1) if self.private else 1

    @property
    def control(self) -> "AuditTarget | None":
        """Return the same learner with twice the epsilon; None if nothing is claimed."""
        return replace(self, plan=twice(self.plan)) if self.private else None


def twice(plan: AnyPlan) -> AnyPlan:
    """Return the plan with twice the epsilon, and every count as it was."""
    if isinstance(plan, CausesPlan):
        fields = {field.name: getattr(plan, field.name) for field in dataclass_fields(plan)}
        return TwiceCausesPlan(**fields | {"epsilon": 2 * plan.epsilon})
    return replace(plan, epsilon=2 * plan.epsilon, epsilon_monitor=2 * plan.epsilon_monitor)


def critical_votes(plan: Plan, times: int = 1) -> int:
    """Return the votes at which one more or less is seen best."""
    epsilon, delta = times * float(plan.epsilon_selector), float(plan.delta_selector)
    selection = Selection(SELECTORS[plan.selector], epsilon, delta)
    votes = range(1, selection.votes_for(0.95) + 1)
    released = selection.named(np.arange(0.0, len(votes) + 1)).tolist()
    return max(votes, key=lambda n: separation(released[n], released[n - 1], epsilon / 2))


def small(plan: AnyPlan) -> list[AnyPlan]:
    """Return the plan with counts so small that a leak shows in a few runs."""
    if isinstance(plan, ExpertsPlan):
        # Without a head start for staying, a draw shows the most.
        return [replace(plan, threshold=1, check_every=2, stay_nats=Fraction(0))]
    # The counts of causes follow from epsilon and delta, and so does what a leak would show.
    if isinstance(plan, CausesPlan):
        return [plan]
    return [_for_mistakes(plan, trees) for trees in (TREES_A_VOTE * critical_votes(plan), 2)]


def _for_mistakes(plan: Plan, trees: int) -> Plan:
    """Give each tree a round, all mistakes; the first check just reaches the threshold."""
    return replace(
        plan,
        leaves={1: trees},
        thresholds=(trees - 1,),
        check_every=trees,
    )
