"""Enumerate whole gates, and every mechanism of a plan, against their claims.

`enumerated(plan)` takes the plan's own monitor, selector and gate, with its epsilons, its delta and
its noise. Counts that only utility depends on (thresholds, trees, the schedule) are scaled down,
and so is noise too wide to enumerate; the notes say what was changed. Besides the gates of `Plan`
there are epochs with the exponential mechanism (Theorem 10) and a selection at every check
(Theorem 11).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from littlestone._audit.causes import causes_findings
from littlestone._audit.enumeration import (
    Enumerated,
    EnumeratedTranscript,
    Stepper,
    World,
    transcripts,
)
from littlestone._audit.laws import (
    OLD,
    A,
    B,
    Finding,
    FromLaw,
    Laws,
    Make,
    Votes,
    at_one,
    experts,
    fixed_rows,
    forest,
    lead_for,
    mistakes_monitor,
    neighbours,
    selection,
    settling,
    streams,
    votes_without_delta,
    worst,
)
from littlestone._audit.runs import AnyPlan
from littlestone._audit.stay import stay_findings
from littlestone._learners.causes_plan import AUTO, CausesPlan
from littlestone._learners.experts import ExpertsPlan
from littlestone._learners.plan import Plan
from littlestone._privacy.accounting import Cost
from littlestone._privacy.exponential import Scores
from littlestone._privacy.gates import (
    NO_CHANGE,
    Decision,
    EveryCheck,
    MistakesGate,
    Selector,
    SettlingGate,
)
from littlestone._privacy.noise import Noise
from littlestone._privacy.selection import StableHistogram
from littlestone._privacy.sparse_vector import MistakesMonitor
from littlestone._privacy.testing import ScriptedNoise

KEYS = (A, B)
# How many scales of threshold noise are enumerated.
CUTOFF = 8
QUIET = 8
MANY_CANDIDATES = 1000
# So many releases of a gate that releases at every check are enumerated.
FEW = 3
Threshold = Callable[[Any, int], Any]


def gate_of_two(
    noise: Noise,
    monitor: Fraction,
    selector: Fraction,
    *,
    threshold: Threshold = lambda age, refusals: 1,
    check_every: int = 1,
) -> MistakesGate[Scores]:
    """Return a gate of epochs over two rules, at its beginning."""
    return MistakesGate(
        noise,
        epsilon=monitor,
        selector=FromLaw(KEYS, epsilon=selector),
        threshold=threshold,
        published=A,
        check_every=check_every,
        leave_out_published=False,
    )


def small_experts(monitor: Fraction, selector: Fraction, rounds: int) -> Finding:
    """Enumerate every stream of so many rounds, for two rules."""
    # Noise is enumerated up to so many scales; what lies beyond has a mass of e^-CUTOFF.
    width = CUTOFF * math.ceil(1 / monitor)
    laws = {
        rows: transcripts(
            lambda noise: gate_of_two(noise, monitor, selector),
            experts(fixed_rows(rows)),
            rounds,
            width,
        )
        for rows in streams(rounds)
    }
    # Both orders occur, so the loss is that of the worse direction.
    pairs = ((laws[one], laws[other]) for one in laws for other in neighbours(one))
    family = f"{len(laws)} streams of {rounds} rounds"
    return at_one("epochs gate", family, Cost(monitor + selector), pairs)


def extremal_experts(monitor: Fraction, selector: Fraction, restarted: bool = True) -> Finding:
    """Enumerate a pair of streams that costs all that is claimed."""
    fires = 1 if restarted else 2
    unit = math.ceil(1 / monitor)
    # Many rounds a check, so that mistakes of one check can lie far beyond the threshold noise.
    every = 12 * unit
    high = 30 * unit
    only: EnumeratedTranscript = (*(NO_CHANGE,) * QUIET, *(Decision(True, A) for _ in range(fires)))

    def make(noise: Noise) -> MistakesGate[Scores]:
        return gate_of_two(
            noise,
            monitor,
            selector,
            threshold=lambda age, refusals: 0 if age <= QUIET * every else high,
            check_every=every,
        )

    def world(new: int) -> World:
        def inputs(past: EnumeratedTranscript) -> tuple[object, ...]:
            # The quiet checks are noes although the count is far above the threshold: they force
            # the threshold noise up, where the replaced round costs most.
            firings = len(past) - QUIET
            mistakes = every if not past or firings > 0 else new if firings == 0 else 0
            return mistakes, (new - lead_for(selector), -new)

        return inputs

    one, other = (transcripts(make, world(n), len(only), 60 * unit, only) for n in (1, 0))
    laws: list[Laws] = [(one, other)]
    return at_one("epochs gate", "quiet checks, then underdogs", Cost(monitor + selector), laws)


def exponential(epsilon: Fraction) -> Iterator[Finding]:
    """Enumerate the exponential mechanism, on scores that one example moves by one (Theorem 6)."""
    # Pure: the exponential mechanism spends no delta.
    claim = Cost(epsilon)

    def law(scores: Sequence[int]) -> dict[bytes, float]:
        keys = [index.to_bytes(2) for index in range(len(scores))]
        return dict(FromLaw(keys, epsilon=epsilon).law(scores))

    laws = {scores: law(scores) for scores in product(range(3), repeat=3)}
    small = (
        (laws[one], laws[other])
        for one, other in product(laws, laws)
        if all(abs(x - y) <= 1 for x, y in zip(one, other, strict=True))
    )
    yield worst(FromLaw.name, f"{len(laws)} lists of 3 scores", claim, small)
    lead = MANY_CANDIDATES * math.ceil(1 / epsilon)
    many = law([1, *[0] * lead]), law([0, *[1] * lead])
    yield worst(FromLaw.name, f"one up, {lead:,} down", claim, [many])


def _experts_findings(plan: ExpertsPlan) -> Iterator[Finding]:
    """Enumerate every mechanism of a plan of private experts."""
    monitor, selector = plan.epsilon_monitor, plan.epsilon_selector
    yield from mistakes_monitor(lambda noise: MistakesMonitor(noise, epsilon=monitor), monitor)
    yield from exponential(selector)
    if plan.change_cost:
        yield from stay_findings(monitor, selector, costed=plan.units > 1)
        return
    yield small_experts(monitor, selector, rounds=3 if monitor >= 1 else 2)
    yield extremal_experts(monitor, selector)


def every_check(epsilon: Fraction, delta: Fraction, releases: int) -> Finding:
    """Enumerate all small streams, a release at each round."""
    first = EveryCheck(
        ScriptedNoise({}), epsilon=epsilon, delta=delta, releases=releases, published=OLD
    )
    histogram = StableHistogram(epsilon=first.each.epsilon, delta=first.each.delta)
    width = CUTOFF * 3 * math.ceil(histogram.scale)
    selector = Enumerated(histogram, width)

    def gate(noise: Noise) -> EveryCheck:
        made = EveryCheck(noise, epsilon=epsilon, delta=delta, releases=releases, published=OLD)
        # The law of the real selector, computed once: drawing it value by value in every transcript
        # would not end.
        made._selector = selector
        if isinstance(made, SettlingGate):
            made._comparison = FromLaw
        return made

    laws = {
        rows: transcripts(gate, forest(fixed_rows(rows)), releases, width)
        for rows in streams(releases)
    }
    pairs = ((laws[one], laws[other]) for one in laws for other in neighbours(one))
    family = f"{len(laws)} streams of {releases} rounds"
    return worst("every check", family, Cost(epsilon, delta), pairs)


# The widest noise that is enumerated: beyond it, a larger epsilon is enumerated instead.
WIDEST = 24

# How many scales of threshold noise are enumerated where whole gates meet all small streams.
SHORT = 12

MOST_FIRINGS = 6


@dataclass(frozen=True)
class Enumeration:
    """Hold what was found for a plan, and what was not enumerated as it stands."""

    plan: AnyPlan
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Return whether every claim holds on every family."""
        return all(finding.kept for finding in self.findings)


def epochs_gate(
    make: Make, claim: Cost, scale: Fraction, selector: Selector[Votes]
) -> Iterator[Finding]:
    """Enumerate a gate of epochs (Theorem 7) that checks each round."""
    name, unit = "epochs gate", math.ceil(scale)
    # Transcripts grow with the noise to the power of the rounds: wide noise gets fewer rounds.
    length = 3 if unit <= 2 else 2
    laws = {
        rows: transcripts(make, settling(fixed_rows(rows)), length, SHORT * unit)
        for rows in streams(length)
    }
    small = ((laws[one], laws[other]) for one in laws for other in neighbours(one))
    yield worst(name, f"{len(laws)} streams of {length} rounds", claim, small)
    enough = votes_without_delta(selector)
    lead = 100 * math.ceil(2 / selector.cost.epsilon)
    fired: EnumeratedTranscript = (Decision(True, A),)
    ballots = {A: enough + 1, B: enough + lead}, {B: enough + lead + 1, A: enough}
    # Firings that release nothing cost as much: they are compared as well.
    nones: EnumeratedTranscript = (Decision(True, None),) * 4
    pairs = [
        _laws(make, (_constant(1, ballots[0]), _constant(0, ballots[1])), fired, 60 * unit),
        _laws(make, (_constant(1, {}), _constant(0, {})), nones, 60 * unit),
    ]
    yield at_one(name, "one round fires it and wins", claim, pairs)


def votes_gate(
    make: Callable[[Noise, int, int], Stepper],
    claim: Cost,
    releases: int,
    scales: tuple[Fraction, Fraction],
    selector: Selector[Votes],
) -> Iterator[Finding]:
    """Enumerate the gate of Algorithm 2 (Theorem 7)."""
    threshold_width, query = (math.ceil(scale) for scale in scales)
    high = 14 * query
    enough = votes_without_delta(selector)
    # So far ahead that the selector would almost surely take the favourite: the underdog's win has
    # the largest ratio.
    held = max(28 * query, enough + 100 * math.ceil(2 / selector.cost.epsilon))
    trees = 10 * held
    threshold = trees - 2 - high
    won = (Decision(True, A if n % 2 == 0 else OLD) for n in range(releases))
    pairs: list[Laws] = []
    for firings in (tuple(won), (Decision(True, None),) * (releases + 5)):
        only: EnumeratedTranscript = (*(NO_CHANGE,) * 10, *firings)
        under = enough if firings[0].key else 0
        worlds = _losing(held, under, 0), _losing(held, under, 1)
        pairs.append(
            _laws(lambda n: make(n, trees, threshold), worlds, only, high + 20 * threshold_width)
        )
    yield at_one("votes gate", f"quiet checks, then {releases} underdogs", claim, pairs)
    length = 3 if threshold_width <= 2 else 2
    laws = {
        rows: transcripts(
            lambda n: make(n, 2, 1), forest(fixed_rows(rows)), length, SHORT * threshold_width
        )
        for rows in streams(length)
    }
    small = ((laws[one], laws[other]) for one in laws for other in neighbours(one))
    yield worst("votes gate", f"{len(laws)} streams of {length} rounds", claim, small)


def _laws(make: Make, worlds: tuple[World, World], only: EnumeratedTranscript, width: int) -> Laws:
    one, other = (transcripts(make, world, len(only), width, only) for world in worlds)
    return one, other


def _constant(mistakes: int, ballot: dict[bytes, int]) -> World:
    """Return a world with mistakes at the first check, none later, and always this ballot."""
    return lambda past: (0 if past else mistakes, ballot)


def _losing(held: int, under: int, shift: int) -> World:
    """Return a world in which the published key loses its votes, then gets them back."""

    def world(past: EnumeratedTranscript) -> tuple[object, ...]:
        if len(past) < 10:
            return ({OLD: 2 - shift},)
        favourite, other = (OLD, A) if under == 0 or len(past) % 2 == 0 else (A, OLD)
        ballot = {favourite: held + shift}
        return (ballot | {other: under + 1 - shift} if under else ballot,)

    return world


def enumerated(
    plan: AnyPlan, watch: Callable[[Finding], None] = lambda finding: None
) -> Enumeration:
    """Enumerate every mechanism of a plan."""
    findings: list[Finding] = []
    notes, several = _enumerated(plan)
    for finding in several:
        findings.append(finding)
        watch(finding)
    return Enumeration(plan, tuple(findings), tuple(notes))


def _enumerated(plan: AnyPlan) -> tuple[list[str], Iterator[Finding]]:
    if isinstance(plan, ExpertsPlan):
        factor, notes = _narrowed(max(1 / plan.epsilon_monitor, 1 / plan.epsilon_selector))
        larger = replace(
            plan, epsilon=plan.epsilon * factor, epsilon_monitor=plan.epsilon_monitor * factor
        )
        return [*notes, "the gate enumerated with two rules"], _experts_findings(larger)
    if isinstance(plan, CausesPlan):
        return _causes_notes(plan), causes_findings(plan)
    small, notes = scaled_down(plan)
    return notes, _findings(small)


def _causes_notes(plan: CausesPlan) -> list[str]:
    """Return what is not enumerated as the plan has it."""
    notes = [
        f"the gate enumerated with thresholds of its families and a check each round, or one for "
        f"all rounds (the plan's: every {plan.check_every}): neither enters a proof"
    ]
    if plan.min_rate == AUTO:
        notes.append("the gate enumerated at the smallest and the largest min_rate of 'auto'")
    if plan.cap is not None:
        notes.append(
            f"claims are for one round: a user of {plan.cap} is a group of so many (Theorem 14)"
        )
    return notes


def _narrowed(widest: Fraction) -> tuple[int, list[str]]:
    """Return the factor by which epsilon is raised so that noise can be enumerated, and a note."""
    # The proof scales with epsilon, so a larger one tests the same code.
    factor = max(1, math.ceil(widest / WIDEST))
    note = (
        f"noise of scale {math.ceil(widest):,} is not enumerated at this size: the same code was, "
        f"at {factor:,} times the plan's epsilon"
    )
    return factor, [note] if factor > 1 else []


def scaled_down(plan: Plan) -> tuple[Plan, list[str]]:
    """Return the plan with counts that can be enumerated, and notes on what was changed."""
    # Privacy is proved for every threshold and schedule: the smallest are enumerated fastest.
    small = replace(plan, thresholds=(1,), check_every=1)
    thresholds = ", ".join(map(str, plan.thresholds))
    notes = [
        f"gates enumerated with a threshold of 1 (the plan's: {thresholds}) and a check each round "
        f"(the plan's: every {plan.check_every}): neither enters a proof"
    ]
    factor, note = _narrowed(max(_scales(small)))
    small = replace(
        small, epsilon=plan.epsilon * factor, epsilon_monitor=plan.epsilon_monitor * factor
    )
    notes += note
    return small, notes


def _gate(plan: Plan, noise: Noise) -> SettlingGate:
    return plan.gate(noise, OLD, lambda: 1)


def _scales(plan: Plan) -> tuple[Fraction, ...]:
    """Return the scales of the monitor's noise and the selector's."""
    monitor = _gate(plan, ScriptedNoise({}))._monitor
    return monitor._query_scale, 2 / plan.epsilon_selector


def _findings(plan: Plan) -> Iterator[Finding]:
    gate, scales = _gate(plan, ScriptedNoise({})), _scales(plan)
    chosen, claim = gate._selector, Cost(plan.epsilon, plan.delta)
    selector = Enumerated(chosen, width=votes_without_delta(chosen) + 200 * math.ceil(scales[-1]))

    # Plans check themselves when they are made, and the same few are asked for many times.
    @cache
    def sized(trees: int, threshold: int) -> Plan:
        return replace(plan, leaves={1: trees}, thresholds=(threshold,))

    def make(noise: Noise, trees: int = 1, threshold: int = 1) -> SettlingGate:
        made = _gate(sized(trees, threshold), noise)
        made._selector = selector
        made._comparison = FromLaw
        return made

    cap = plan.cap or 1
    yield from mistakes_monitor(lambda noise: _monitor(plan, noise), plan.epsilon_monitor, cap)
    yield from selection(chosen, Cost(plan.epsilon_selector, plan.delta_selector))
    yield from epochs_gate(make, claim, scales[0], chosen)


def _monitor(plan: Plan, noise: Noise) -> Stepper:
    return _gate(plan, noise)._monitor
