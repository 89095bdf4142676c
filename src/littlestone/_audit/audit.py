"""Audit a whole learner as a black box: run it many times on two neighbouring streams.

An audit can refute a claim; it cannot prove one. A quarter of the runs sorts outcomes by how much
likelier they are in one world, a quarter cuts that order into the event that distinguishes the
worlds best (Neyman and Pearson 1933), and the other half is counted: so the bound holds for every
learner. An outcome is when the monitor fires together with what is then published, because each
spends a budget of its own, and neither alone shows the whole loss.

The power is measured too: the same learner with twice the epsilon is audited on the same streams,
against the same claim. Where that would mostly go unnoticed, the verdict is "not detectable".

Only what is public is recorded: when the gate fired, and which rule was published then. An
`AuditTarget` makes learners with fresh secret noise and the random bits of `seed`. These are not
secret: the guarantee holds for each value of them, so both worlds and all runs have the same ones.
`epsilon_bound` (Clopper and Pearson 1934) is above the true epsilon, given delta, with probability
at most 1 - confidence, for every learner, if the event was chosen before the counts were made.
"""

import math
import os
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import cache
from itertools import accumulate
from multiprocessing import get_context
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.experts import ExpertsPlan
from littlestone._learners.plan import SELECTORS, Plan
from littlestone._learners.registry import LEARNERS
from littlestone._learners.tuning import Selection
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import EpochTerms
from littlestone._privacy.parameters import BadParameter

STEPS = 60
NODES = 9


def binomial_tail(count: int, runs: int, p: float) -> float:
    """Return P(binomial >= count)."""
    if count <= 0 or p >= 1:
        return 1.0
    if count > runs or p <= 0:
        return 0.0
    counts = np.arange(count, runs + 1)
    logs = _log_choose(runs)[count:] + counts * math.log(p) + (runs - counts) * math.log1p(-p)
    return min(1.0, float(np.exp(logs).sum()))


@cache
def _log_choose(runs: int) -> npt.NDArray[np.float64]:
    """Return the logarithm of the binomial coefficient of each count."""
    logs = np.array([math.lgamma(n + 1) for n in range(runs + 1)])
    return np.asarray(logs[runs] - logs - logs[::-1])


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


# Makes a learner, with its own secret noise. It is sent to other processes: a function of a module,
# or a frozen value with `__call__`.
Make: TypeAlias = Callable[[], Any]


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


def published(learner: Any, rows: Sequence[Row], pair: Neighbours) -> Seen:
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


def _uses(learner: Any) -> int:
    if isinstance(learner, PrivateCauses):
        # Its ledger has the counts of windows too, which end on a public schedule.
        return learner.draws
    ledger = getattr(learner, "ledger", None)
    return len(learner.releases if ledger is None else ledger)


@dataclass(frozen=True)
class TwiceCausesPlan(CausesPlan):
    """Spend what a plan of half the epsilon has thresholds for."""

    def threshold(self, terms: EpochTerms) -> float:
        """Return the threshold for half of the epsilon."""
        half = terms._replace(monitor=terms.monitor / 2, rate=terms.rate / 2)
        return super().threshold(half)


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
        return self.plan.cost

    def __call__(self) -> Any:
        made: Any = LEARNERS[self.name].make(self.cls, self.plan, seed=self.seed)
        return made

    @property
    def private(self) -> bool:
        """Return whether the learner claims anything; what does not is a leak to be found."""
        return LEARNERS[self.name].private

    @property
    def every(self) -> int:
        """Return the rounds from one check to the next; without a plan, 1."""
        return self.plan.check_every if self.private else 1

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


Worlds: TypeAlias = tuple[Sequence[Seen], Sequence[Seen]]
# A description of a run: runs with equal words are one outcome.
View: TypeAlias = Callable[[Seen], str]
# Into how many parts, each about as likely, the rounds of a firing are divided.
PARTS = (1, 2, 4, 8, 16, 64)
RULES_LISTED = 3
# The confidence at which events are compared. It enters no bound.
CHOOSING = 0.95


@dataclass(frozen=True)
class OutcomeSet:
    """Hold a set of outcomes that is likelier in one world."""

    view: View
    outcomes: tuple[str, ...]
    reversed_: bool

    def counts(self, worlds: Worlds) -> tuple[int, int]:
        """Return in how many runs it happened where it is likely, and where it is not."""
        outcomes = frozenset(self.outcomes)
        one, other = (sum(self.view(seen) in outcomes for seen in world) for world in worlds)
        return (other, one) if self.reversed_ else (one, other)

    def __str__(self) -> str:
        more = len(self.outcomes) - RULES_LISTED
        text = "; or ".join(self.outcomes[:RULES_LISTED])
        return f"{text}; or {more} more" if more > 0 else text


def best_event(ordering: Worlds, cutting: Worlds, delta: float) -> OutcomeSet:
    """Return the event with the highest bound."""

    def worth(candidate: tuple[OutcomeSet, int, int]) -> float:
        return approximate_epsilon_bound(
            candidate[1], candidate[2], len(cutting[0]), delta, CHOOSING
        )

    candidates = [
        candidate
        for view in _views([*ordering[0], *ordering[1]])
        for reversed_ in (False, True)
        for candidate in _beginnings(view, reversed_, ordering, cutting)
    ]
    return max(candidates, key=worth)[0]


def _beginnings(
    view: View, reversed_: bool, ordering: Worlds, cutting: Worlds
) -> Iterator[tuple[OutcomeSet, int, int]]:
    """Yield every beginning of the order of outcomes, with its counts in the runs that cut."""
    likely, unlikely = _counted(view, reversed_, ordering)
    outcomes = sorted({*likely, *unlikely})
    # Half a count is added: an outcome seen once in one world is no proof of an infinite ratio.
    order = sorted(outcomes, key=lambda o: -(likely[o] + 0.5) / (unlikely[o] + 0.5))
    more, less = _counted(view, reversed_, cutting)
    totals = zip(
        accumulate(more[o] for o in order), accumulate(less[o] for o in order), strict=True
    )
    for length, (p, q) in enumerate(totals, start=1):
        yield OutcomeSet(view, tuple(order[:length]), reversed_), p, q


def _counted(view: View, reversed_: bool, worlds: Worlds) -> tuple[Counter[str], Counter[str]]:
    one, other = (Counter(map(view, world)) for world in worlds)
    return (other, one) if reversed_ else (one, other)


def _views(runs: Sequence[Seen]) -> list[View]:
    """Return descriptions of runs, fine and coarse; `runs` decide where rounds are divided."""
    # Parts of about equal probability, because rare outcomes show nothing in few runs.
    firsts = sorted(seen[0].round for seen in runs if seen)
    sums = sorted(_yes(seen) for seen in runs)
    return [
        *(_Firing(_divided(firsts, parts), named) for parts in PARTS for named in (False, True)),
        *(_Standing(_divided(sums, parts)) for parts in PARTS[1:]),
        _last,
    ]


@dataclass(frozen=True)
class _Firing:
    """Describe when the first firing was, and what it published: by name, or by its answer."""

    ends: tuple[int, ...]
    named: bool

    def __call__(self, seen: Seen) -> str:
        if not seen:
            return "it never fired"
        first = seen[0]
        if first.rule is None:
            then = "nothing"
        elif self.named:
            then = first.rule
        else:
            then = f"a rule that answers {'yes' if first.answer else 'no'} to the example"
        return f"it fired {_when(first.round, self.ends)} and published {then}"


@dataclass(frozen=True)
class _Standing:
    """Describe after how many firings the rule was positive on the replaced example."""

    ends: tuple[int, ...]

    def __call__(self, seen: Seen) -> str:
        return f"a rule that answers yes to the example, {_when(_yes(seen), self.ends, 'time')}"


def _last(seen: Seen) -> str:
    rules = [firing.rule for firing in seen if firing.rule is not None]
    return f"{len(seen)} firings, the last rule {rules[-1] if rules else 'the first one'}"


def _yes(seen: Seen) -> int:
    return sum(firing.answer for firing in seen)


def _divided(values: Sequence[int], parts: int) -> tuple[int, ...]:
    """Return the ends of so many parts, each about as likely."""
    return tuple(
        sorted({values[len(values) * n // parts] for n in range(1, parts)} if values else ())
    )


def _when(number: int, ends: tuple[int, ...], unit: str = "round") -> str:
    part = bisect_left(ends, number)
    if not ends:
        return f"at some {unit}"
    if part == 0:
        return f"by {unit} {ends[0]:,}"
    after = ends[part - 1] + 1
    if part == len(ends):
        return f"from {unit} {after:,} on"
    return (
        f"at {unit} {after:,}" if after == ends[part] else f"at {unit}s {after:,} to {ends[part]:,}"
    )


ENOUGH_POWER = 0.8


@dataclass(frozen=True)
class Measured:
    """Hold an event, and how often it was seen in runs of each world that did not choose it."""

    event: str
    runs: int
    likely: int
    unlikely: int

    @property
    def rates(self) -> tuple[float, float]:
        """Return the two probabilities, rather too close than too far apart."""
        # Shrunk towards each other, so that the power is not overestimated.
        return self.likely / (self.runs + 1), (self.unlikely + 1) / (self.runs + 1)


@dataclass(frozen=True)
class Audit:
    """Hold what the runs showed."""

    what: str
    found: Measured
    control: Measured | None
    bound: float
    claimed: float
    delta: float
    confidence: float
    power: float

    @property
    def convicts(self) -> bool:
        """Return whether the claim is refuted."""
        return self.bound > self.claimed

    @property
    def verdict(self) -> str:
        """Return the outcome in a sentence."""
        return verdict([self])


def verdict(audits: Sequence[Audit]) -> str:
    """Return the outcome of several pairs in a sentence: the highest bound, the greatest power."""
    highest = max(audits, key=lambda audit: audit.bound)
    most = max(audit.power for audit in audits)
    least = f"at least {max(0.0, highest.bound):.3g}, claimed {highest.claimed:.3g}"
    if highest.convicts:
        return f"VIOLATION: {least}"
    seen = f"twice the epsilon would be seen with probability {most:.2g}"
    # Silence is evidence only where a violation would have been seen.
    if most < ENOUGH_POWER:
        return f"not detectable at this size: {least}; {seen}"
    return f"no violation found: {least}; {seen}"


def audit_runs(
    make: Make,
    pair: Neighbours,
    *,
    control: Make | None,
    claimed: float,
    delta: float,
    runs: int,
    confidence: float = 0.95,
    workers: int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> Audit:
    """Run a learner many times in each world, and bound its epsilon from below."""
    # A quarter of the runs must be at least one.
    if runs < 4:
        raise BadParameter(f"an audit needs at least 4 runs in each world, not {runs}")
    found = _measured(make, pair, delta, runs, workers, watch)
    bound = epsilon_bound(found.likely, found.unlikely, found.runs, delta, confidence)
    twice, seen = None, 0.0
    if control is not None:
        twice = _measured(control, pair, delta, runs, workers, lambda done: watch(2 * runs + done))
        seen = power(*twice.rates, twice.runs, claimed, delta, confidence)
    return Audit(pair.what, found, twice, bound, claimed, delta, confidence, seen)


def _measured(
    make: Make,
    pair: Neighbours,
    delta: float,
    runs: int,
    workers: int | None,
    watch: Callable[[int], None],
) -> Measured:
    """Find an event and count it: a quarter of the runs sorts, a quarter cuts, half are counted."""
    one, other = in_both_worlds(make, pair, runs, workers, watch)
    # Runs that choose the event must not be counted for it: the bound would be too high.
    quarter, half = runs // 4, runs // 2
    ordering, cutting = (
        (one[part], other[part]) for part in (slice(quarter), slice(quarter, half))
    )
    event = best_event(ordering, cutting, delta)
    likely, unlikely = event.counts((one[half:], other[half:]))
    return Measured(str(event), runs - half, likely, unlikely)
