"""Enumerate the gate that draws a rule or stays (Theorem 17), with faults to plant in it.

The gate is the real one, over two rules, with a schedule small enough to reach everything in a few
rounds: a draw at a firing, a draw at a public age, a window of the monitor that ends, a margin that
follows the transcript. A row is what each rule loses on it, in units.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any, Literal, SupportsIndex

import numpy as np

from littlestone._audit.enumeration import (
    BranchingNoise,
    EnumeratedTranscript,
    World,
    transcripts,
)
from littlestone._audit.laws import A, B, Finding, Laws, at_one, law_of, lead_for
from littlestone._privacy.accounting import Cost
from littlestone._privacy.exponential import Scores
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.noise import Noise
from littlestone._privacy.sparse_vector import MistakesMonitor
from littlestone._privacy.stay import STAY, StayGate, StayOrDraw, Tenure

# What the rules A and B lose on a row.
Losses = tuple[int, int]
# Rows of 0/1 loss, and of a missed positive that costs twice a false alarm.
EVEN_ROWS: tuple[Losses, ...] = ((0, 0), (1, 0), (0, 1), (1, 1))
COSTED_ROWS: tuple[Losses, ...] = ((0, 0), (2, 0), (0, 1), (0, 2))
# The faults that are planted in the gate or in what it is given.
Fault = Literal[
    "", "stay weight from rows", "counts kept", "shared noise", "loss kept", "unit noise"
]
CUTOFF, QUIET = 8, 8


class StayFromLaw(StayOrDraw):
    """Select from the mechanism's law in one step of an enumeration."""

    def select(
        self, ballot: Scores, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        if not isinstance(noise, BranchingNoise):
            raise TypeError("an enumerated mechanism is for enumeration: it protects no one")
        key = noise.choose(self.law(ballot, leave_out))
        return None if key == STAY else key

    def law(self, scores: Scores, leave_out: bytes | None) -> list[tuple[bytes, float]]:
        """Return the probability of each candidate but the one that is left out."""
        pairs = zip(self.candidates, map(int, scores), strict=True)
        kept = [(key, score) for key, score in pairs if key != leave_out]
        # Candidates of equal score are one group, as in the mechanism itself.
        sizes = Counter(score for _, score in kept)
        levels = sorted(sizes, reverse=True)
        gaps = tuple(levels[0] - level for level in levels)
        masses = _masses(gaps, tuple(sizes[level] for level in levels), self.rate)
        chance = dict(zip(levels, masses, strict=True))
        return [(key, chance[score] / sizes[score]) for key, score in kept]


@cache
def _masses(gaps: tuple[int, ...], sizes: tuple[int, ...], rate: Fraction) -> list[float]:
    return law_of(list(gaps), list(sizes), rate)


@dataclass(frozen=True)
class SmallSchedule:
    """Count to a threshold first; after one refusal use windows, and draw at a public age."""

    limit: int = 1
    ends: int = 2
    quiet: int = 0
    high: int = 0

    def window(self, tenure: Tenure) -> int | None:
        """Return one round, once a draw has stayed."""
        return 1 if tenure.refusals and not self.quiet else None

    def epoch(self, tenure: Tenure) -> int | None:
        """Return the end of an epoch, once a draw has stayed."""
        return self.ends if tenure.refusals and not self.quiet else None

    def thresholds(self, tenure: Tenure, ages: Any) -> Any:
        """Return the limit with the margin, or the quiet thresholds."""
        limits = self.limit + tenure.margin + 0 * ages
        if self.quiet:
            limits = np.where(ages <= self.quiet, 0, self.high)
        return int(limits) if isinstance(ages, int) else limits

    def stayed(self, tenure: Tenure, fired_at: int | None, age: int) -> Tenure:
        """Return the tenure with one more refusal."""
        return Tenure(tenure.refusals + 1, tenure.margin, 1.0, 1.0, age)


class _SmallGate(StayGate):
    """The real gate, which is given the margin of an epoch with its first check."""

    def check(self, mistakes: SupportsIndex, ballot: Scores, margin: int = 0) -> Decision:
        if not self.epoch_age:
            self.set_margin(margin)
        return super().check(mistakes, ballot)


class _SharedNoise(MistakesMonitor):
    """Planted: epochs share their threshold noise."""

    def _begin_epoch(self) -> None:
        drawn = self._threshold_draw
        super()._begin_epoch()
        self._threshold_draw = drawn


class _KeepsLoss(MistakesMonitor):
    """Planted: the loss survives the end of an epoch."""

    def _begin_epoch(self) -> None:
        loss = self._mistakes
        super()._begin_epoch()
        self._mistakes = loss


def stay_gate(
    noise: Noise,
    monitor: Fraction,
    selector: Fraction,
    *,
    schedule: SmallSchedule | None = None,
    units: int = 1,
    check_every: int = 1,
    fault: Fault = "",
) -> StayGate:
    """Return the gate over two rules, at its beginning."""
    sensitivity = 1 if fault == "unit noise" else units
    gate = _SmallGate(
        noise,
        epsilon=monitor,
        selector=StayFromLaw((A, B), epsilon=selector, sensitivity=sensitivity),
        schedule=schedule or SmallSchedule(),
        published=A,
        check_every=check_every,
        largest_loss=units,
    )
    kinds: dict[str, type[MistakesMonitor]] = {
        "shared noise": _SharedNoise,
        "loss kept": _KeepsLoss,
        "unit noise": MistakesMonitor,
    }
    if fault in kinds:
        gate._monitor = kinds[fault](noise, epsilon=monitor, cap=sensitivity)
    return gate


def two_rules(rows: Callable[[EnumeratedTranscript], Losses], fault: Fault = "") -> World:
    """Return what the gate reads of a stream: losses, scores with penalties, and the margin."""

    def world(past: EnumeratedTranscript) -> tuple[object, ...]:
        published, since, changes, refusals = A, 0, 0, 0
        for number, decision in enumerate(past):
            assert isinstance(decision, Decision)
            if not decision.fired:
                continue
            changes += decision.key is not None
            refusals = refusals + 1 if decision.key is None else 0
            published = decision.key or published
            if decision.key is not None or fault != "counts kept":
                since = number + 1
        rounds = [rows(past[:number]) for number in range(since, len(past) + 1)]
        lost = [sum(row[place] for row in rounds) for place in (0, 1)]
        place = (A, B).index(published)
        ahead = 1 + changes + bool(refusals)
        if fault == "stay weight from rows":
            ahead += 4 * lost[place]
        scores = [*(-loss - ahead for loss in lost), -lost[place]]
        return rows(past)[place], tuple(scores), changes

    return world


def small_stays(
    monitor: Fraction,
    selector: Fraction,
    rounds: int,
    *,
    costed: bool = False,
    fault: Fault = "",
) -> Finding:
    """Enumerate every stream of so many rounds."""
    kinds, units = (COSTED_ROWS, 2) if costed else (EVEN_ROWS, 1)
    width = CUTOFF * math.ceil(units / monitor)

    def make(noise: Noise) -> StayGate:
        return stay_gate(noise, monitor, selector, units=units, fault=fault)

    laws = {
        rows: transcripts(make, two_rules(_fixed(rows), fault), rounds, width)
        for rows in product(kinds, repeat=rounds)
    }
    pairs = (
        (laws[rows], laws[(*rows[:number], other, *rows[number + 1 :])])
        for rows in laws
        for number, other in product(range(rounds), kinds)
    )
    name = "stay gate with costs" if costed else "stay gate"
    family = f"{len(laws)} streams of {rounds} rounds"
    return at_one(name, family, Cost(monitor + selector), pairs)


def extremal_stays(monitor: Fraction, selector: Fraction) -> Finding:
    """Enumerate a pair of streams that costs all that is claimed."""
    unit = math.ceil(1 / monitor)
    only: EnumeratedTranscript = (*(NO_CHANGE,) * QUIET, Decision(True, B))

    def inputs(new: int, past: EnumeratedTranscript) -> tuple[object, ...]:
        # The quiet checks are noes although the loss is far above the threshold.
        mistakes = new if len(past) == QUIET else 0 if past else 12 * unit
        return mistakes, (0, new - lead_for(selector), -new)

    return _at(monitor, selector, only, inputs, "quiet checks, then an underdog")


def repeated_stays(monitor: Fraction, selector: Fraction, fault: Fault = "") -> Finding:
    """Enumerate two draws in a row that stay, although the other rule is far ahead."""
    unit = math.ceil(1 / monitor)
    only: EnumeratedTranscript = (Decision(True, None),) * 2

    def inputs(new: int, past: EnumeratedTranscript) -> tuple[object, ...]:
        read = 0 if past and fault != "counts kept" else new
        # So many mistakes that every check fires.
        return 12 * unit, (0, lead_for(selector) + read, -read)

    return _at(monitor, selector, only, inputs, "two stays in a row", fault, quiet=False)


def pinned_stays(monitor: Fraction, selector: Fraction, fault: Fault = "") -> Finding:
    """Enumerate quiet checks that pin the threshold noise, and then firings that stay."""
    unit = math.ceil(1 / monitor)
    only: EnumeratedTranscript = (*(NO_CHANGE,) * QUIET, *(Decision(True, None),) * 6)

    def inputs(new: int, past: EnumeratedTranscript) -> tuple[object, ...]:
        return 0 if past else 12 * unit - 1 + new, (0, 0, 0)

    return _at(monitor, selector, only, inputs, "quiet checks, then stays", fault)


def _at(
    monitor: Fraction,
    selector: Fraction,
    only: EnumeratedTranscript,
    inputs: Callable[[int, EnumeratedTranscript], tuple[object, ...]],
    family: str,
    fault: Fault = "",
    quiet: bool = True,
) -> Finding:
    """Return the loss at one transcript; the worlds are `inputs` for 1 and for 0."""
    unit = math.ceil(1 / monitor)
    # Many rounds a check, so that the mistakes of one can lie far beyond the threshold noise.
    every = 12 * unit
    pinned = SmallSchedule(quiet=QUIET * every, high=30 * unit)
    schedule = pinned if quiet else SmallSchedule()

    def make(noise: Noise) -> StayGate:
        return stay_gate(
            noise, monitor, selector, schedule=schedule, check_every=every, fault=fault
        )

    one, other = (
        transcripts(make, partial(inputs, new), len(only), 60 * unit, only) for new in (1, 0)
    )
    laws: list[Laws] = [(one, other)]
    return at_one("stay gate", family, Cost(monitor + selector), laws)


def stay_findings(monitor: Fraction, selector: Fraction, costed: bool) -> Iterator[Finding]:
    """Enumerate the gate of a plan that stays."""
    yield small_stays(monitor, selector, rounds=2, costed=costed)
    yield extremal_stays(monitor, selector)
    yield repeated_stays(monitor, selector)
    yield pinned_stays(monitor, selector)


def _fixed(rows: tuple[Losses, ...]) -> Callable[[EnumeratedTranscript], Any]:
    return lambda past: rows[len(past)]
