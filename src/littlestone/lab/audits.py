"""Audit a whole learner as a black box: run it many times on two neighbouring streams.

Half of the runs choose an event that distinguishes the worlds, the other half bound its
probabilities: so the bound holds for every learner. An audit can refute a claim; it cannot prove
one. What it could have seen is measured: the same learner with twice the epsilon is audited too, on
the same streams and against the same claim. Where that would mostly go unnoticed, the audit says
so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from littlestone.lab.bounds import epsilon_bound, power
from littlestone.lab.events import best_event
from littlestone.lab.runs import Make, Neighbours, in_both_worlds
from littlestone.privacy.exact import BadParameter

ENOUGH_POWER = 0.8


@dataclass(frozen=True)
class Measured:
    """Hold an event, and how often it was seen in runs of each world that did not choose it.

    Parameters
    ----------
    event
        The event in words.
    runs
        The runs of each world.
    likely
        In how many it happened where it is likely.
    unlikely
        In how many it happened where it is unlikely.
    """

    event: str
    runs: int
    likely: int
    unlikely: int

    @property
    def rates(self) -> tuple[float, float]:
        """Return the two probabilities, rather too close than too far apart."""
        return self.likely / (self.runs + 1), (self.unlikely + 1) / (self.runs + 1)


@dataclass(frozen=True)
class Audit:
    """Hold what the runs showed.

    Parameters
    ----------
    what
        The pair of streams, in words.
    found
        The event that was measured.
    control
        The same for the learner with twice the epsilon, if there is one.
    bound
        The lower bound on epsilon.
    claimed
        The epsilon claimed.
    delta
        The delta claimed.
    confidence
        The confidence of the bound.
    power
        The probability with which the control is refuted.
    """

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
    """Return the outcome of several pairs in a sentence: the highest bound, the greatest power.

    Their confidences have to be such that all bounds hold together.
    """
    highest = max(audits, key=lambda audit: audit.bound)
    most = max(audit.power for audit in audits)
    least = f"at least {max(0.0, highest.bound):.3g}, claimed {highest.claimed:.3g}"
    if highest.convicts:
        return f"VIOLATION: {least}"
    seen = f"twice the epsilon would be seen with probability {most:.2g}"
    if most < ENOUGH_POWER:
        return f"not detectable at this size: {least}; {seen}"
    return f"no violation found: {least}; {seen}"


def audit(
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
    """Run a learner many times in each world, and bound its epsilon from below.

    Parameters
    ----------
    make
        Makes the learner.
    pair
        The two streams.
    control
        Makes the same learner with twice the epsilon, to measure what would have been seen.
    claimed
        The epsilon claimed.
    delta
        The delta claimed.
    runs
        How many runs are made in each world.
    confidence
        The confidence of the bound.
    workers
        How many processes run; all processors if left out.
    watch
        Called with the number of runs made so far, of twice `runs`, or four times with a control.

    Returns
    -------
    Audit
        What was found.
    """
    if runs < 4:
        raise BadParameter(f"an audit needs at least 4 runs in each world, not {runs}")
    found = measured(make, pair, delta, runs, workers, watch)
    bound = epsilon_bound(found.likely, found.unlikely, found.runs, delta, confidence)
    twice, seen = None, 0.0
    if control is not None:
        twice = measured(control, pair, delta, runs, workers, lambda done: watch(2 * runs + done))
        seen = power(*twice.rates, twice.runs, claimed, delta, confidence)
    return Audit(pair.what, found, twice, bound, claimed, delta, confidence, seen)


def measured(
    make: Make,
    pair: Neighbours,
    delta: float,
    runs: int,
    workers: int | None,
    watch: Callable[[int], None],
) -> Measured:
    """Find an event and count it: a quarter of the runs sorts, a quarter cuts, half are counted.

    Parameters
    ----------
    make
        Makes the learner.
    pair
        The two streams.
    delta
        The delta claimed.
    runs
        How many runs are made in each world.
    workers
        How many processes run.
    watch
        Called with the number of runs made so far.

    Returns
    -------
    Measured
        The event and its counts.
    """
    one, other = in_both_worlds(make, pair, runs, workers, watch)
    quarter, half = runs // 4, runs // 2
    ordering, cutting = (
        (one[part], other[part]) for part in (slice(quarter), slice(quarter, half))
    )
    event = best_event(ordering, cutting, delta)
    likely, unlikely = event.counts((one[half:], other[half:]))
    return Measured(str(event), runs - half, likely, unlikely)
