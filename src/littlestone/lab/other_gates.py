"""Enumerate the gates of the other learners, against their claims.

Epochs with the exponential mechanism (Theorem 10), and a selection at every check (Theorem 11).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from littlestone.lab.drawn_laws import FromLaw
from littlestone.lab.enumeration import Enumerated, Transcript, World, transcripts
from littlestone.lab.mechanisms import Finding, Laws, at_one, mistakes_monitor, selection, worst
from littlestone.lab.small_streams import OLD, A, B, experts, forest, neighbours, of, streams
from littlestone.learning.adaptive import EveryRoundPlan
from littlestone.learning.weighing import ExpertsPlan
from littlestone.privacy.above_threshold import MistakesMonitor
from littlestone.privacy.accounting import Cost
from littlestone.privacy.epochs import MistakesGate
from littlestone.privacy.every_check import EveryCheck
from littlestone.privacy.exponential import Scores
from littlestone.privacy.gate import STAY, Decision
from littlestone.privacy.histogram import StableHistogram
from littlestone.privacy.noise import Noise
from littlestone.privacy.rehearsal import ScriptedNoise

KEYS = (A, B)
CUT = 8
"""How many scales of a lift are walked through."""
LEAD, QUIET = 16, 8
CROWD = 1000
FEW = 3
"""So many releases of a gate that releases at every check are enumerated."""
Threshold = Callable[[Any, int], Any]


def gate_of_two(
    noise: Noise,
    monitor: Fraction,
    selector: Fraction,
    *,
    threshold: Threshold = lambda age, refusals: 1,
    check_every: int = 1,
) -> MistakesGate[Scores]:
    """Return a gate of epochs over two rules, at its beginning.

    Parameters
    ----------
    noise
        Where all noise is drawn.
    monitor
        The monitor's epsilon.
    selector
        The selector's epsilon.
    threshold
        The threshold, as a function of (age, refusals).
    check_every
        The rounds from one check to the next.

    Returns
    -------
    MistakesGate
        The gate.
    """
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
    """Enumerate every stream of so many rounds, for two rules.

    Parameters
    ----------
    monitor
        The monitor's epsilon.
    selector
        The selector's epsilon.
    rounds
        The number of rounds.

    Returns
    -------
    Finding
        The largest loss.
    """
    width = CUT * math.ceil(1 / monitor)
    laws = {
        rows: transcripts(
            lambda noise: gate_of_two(noise, monitor, selector), experts(of(rows)), rounds, width
        )
        for rows in streams(rounds)
    }
    pairs = ((laws[one], laws[other]) for one in laws for other in neighbours(one))
    family = f"{len(laws)} streams of {rounds} rounds"
    return at_one("epochs gate", family, Cost(monitor + selector), pairs)


def extremal_experts(monitor: Fraction, selector: Fraction, restarted: bool = True) -> Finding:
    """Enumerate a pair of streams that costs all that is claimed.

    Quiet checks pin the threshold noise; the replaced round then fires the gate, and speaks for an
    underdog, which is drawn.

    Parameters
    ----------
    monitor
        The monitor's epsilon.
    selector
        The selector's epsilon.
    restarted
        False is a fault: scores never forget, so that the round speaks at a second firing too.

    Returns
    -------
    Finding
        The loss.
    """
    fires = 1 if restarted else 2
    unit = math.ceil(1 / monitor)
    every = 12 * unit
    high = 30 * unit
    only: Transcript = (*(STAY,) * QUIET, *(Decision(True, A) for _ in range(fires)))

    def make(noise: Noise) -> MistakesGate[Scores]:
        return gate_of_two(
            noise,
            monitor,
            selector,
            threshold=lambda age, refusals: 0 if age <= QUIET * every else high,
            check_every=every,
        )

    def world(new: int) -> World:
        def inputs(past: Transcript) -> tuple[object, ...]:
            firings = len(past) - QUIET
            mistakes = every if not past or firings > 0 else new if firings == 0 else 0
            return mistakes, (-LEAD * unit + new, -new)

        return inputs

    one, other = (transcripts(make, world(n), len(only), 60 * unit, only) for n in (1, 0))
    laws: list[Laws] = [(one, other)]
    return at_one("epochs gate", "quiet checks, then underdogs", Cost(monitor + selector), laws)


def exponential(epsilon: Fraction) -> Iterator[Finding]:
    """Enumerate the exponential mechanism, on scores that one example moves by one (Theorem 6)."""
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
    lead = CROWD * math.ceil(1 / epsilon)
    crowd = law([1, *[0] * lead]), law([0, *[1] * lead])
    yield worst(FromLaw.name, f"one up, {lead:,} down", claim, [crowd])


def experts_findings(plan: ExpertsPlan) -> Iterator[Finding]:
    """Enumerate every mechanism of a plan of private experts."""
    monitor, selector = plan.epsilon_monitor, plan.epsilon_selector
    yield from mistakes_monitor(lambda noise: MistakesMonitor(noise, epsilon=monitor), monitor)
    yield from exponential(selector)
    yield small_experts(monitor, selector, rounds=3 if monitor >= 1 else 2)
    yield extremal_experts(monitor, selector)


def every_check_findings(plan: EveryRoundPlan) -> Iterator[Finding]:
    """Enumerate the histogram of one release, and a few releases of the gate that add up."""
    each = EveryCheck(
        ScriptedNoise({}),
        epsilon=plan.epsilon,
        delta=plan.delta,
        releases=plan.horizon,
        published=OLD,
    ).each
    yield from selection(StableHistogram(epsilon=each.epsilon, delta=each.delta), each)
    yield every_check(plan.epsilon, plan.delta, min(FEW, plan.horizon))


def every_check(epsilon: Fraction, delta: Fraction, releases: int) -> Finding:
    """Enumerate all small streams, a release at each round.

    Parameters
    ----------
    epsilon
        What is claimed.
    delta
        What is claimed.
    releases
        How many releases there are.

    Returns
    -------
    Finding
        The largest loss.
    """
    first = EveryCheck(
        ScriptedNoise({}), epsilon=epsilon, delta=delta, releases=releases, published=OLD
    )
    histogram = StableHistogram(epsilon=first.each.epsilon, delta=first.each.delta)
    width = CUT * 3 * math.ceil(histogram.scale)
    selector = Enumerated(histogram, width)

    def gate(noise: Noise) -> EveryCheck:
        made = EveryCheck(noise, epsilon=epsilon, delta=delta, releases=releases, published=OLD)
        made._selector = selector
        return made

    laws = {
        rows: transcripts(gate, forest(of(rows)), releases, width) for rows in streams(releases)
    }
    pairs = ((laws[one], laws[other]) for one in laws for other in neighbours(one))
    family = f"{len(laws)} streams of {releases} rounds"
    return worst("every check", family, Cost(epsilon, delta), pairs)
