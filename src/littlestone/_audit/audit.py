"""Audit a whole learner as a black box: run it many times on two neighbouring streams.

An audit can refute a claim; it cannot prove one. A quarter of the runs sorts outcomes by how much
likelier they are in one world, a quarter cuts that order into the event that distinguishes the
worlds best (Neyman and Pearson 1933), and the other half is counted: so the bound holds for every
learner. An outcome is when the monitor fires together with what is then published, because each
spends a budget of its own, and neither alone shows the whole loss.

The power is measured too: the same learner with twice the epsilon is audited on the same streams,
against the same claim. Where that would mostly go unnoticed, the verdict is "not detectable".
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from littlestone._audit.runs import (
    Make,
    Neighbours,
    Seen,
    approximate_epsilon_bound,
    epsilon_bound,
    in_both_worlds,
    power,
)
from littlestone._privacy.parameters import BadParameter

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

    def worth(found: tuple[OutcomeSet, int, int]) -> float:
        return approximate_epsilon_bound(found[1], found[2], len(cutting[0]), delta, CHOOSING)

    candidates = [
        found
        for view in _views([*ordering[0], *ordering[1]])
        for reversed_ in (False, True)
        for found in _beginnings(view, reversed_, ordering, cutting)
    ]
    return max(candidates, key=worth)[0]


def _beginnings(
    view: View, reversed_: bool, ordering: Worlds, cutting: Worlds
) -> Iterator[tuple[OutcomeSet, int, int]]:
    """Yield every beginning of the order of outcomes, with its counts in the runs that cut."""
    likely, unlikely = _counted(view, reversed_, ordering)
    known = sorted({*likely, *unlikely})
    # Half a count is added: an outcome seen once in one world is no proof of an infinite ratio.
    order = sorted(known, key=lambda o: -(likely[o] + 0.5) / (unlikely[o] + 0.5))
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
