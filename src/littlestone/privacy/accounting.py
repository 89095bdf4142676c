"""Account for what was spent. Rounding is always towards less privacy claimed.

Events are frozen records of what happened; how they are counted is a function of them. Adaptive
composition is Lemma 5.4 of the paper, which is true but loose: here it is solved. The optimal
curve for equal releases is Kairouz, Oh and Viswanath (2015); see docs/guarantee.md, Theorem 8.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import groupby
from typing import Literal, TypeAlias

from littlestone.privacy.noise import Noise
from littlestone.privacy.parameters import (
    BadParameter,
    context,
    decimal_of,
    enclose_exp,
    float_above,
    whole,
)

Unit: TypeAlias = Literal["event", "user"]

DIGITS = 60
# Far above what rounding to 60 digits can do in a million steps; always added, never taken.
SLACK = Decimal("1e-40")
NEGLIGIBLE = Decimal("1e-80")
# Powers of e above it are not computed.
LARGEST_POWER = 1000


@dataclass(frozen=True)
class Cost:
    """Hold an exact (epsilon, delta) that one mechanism claims. Costs add: basic composition.

    Parameters
    ----------
    epsilon, delta
        At least 0, exact.

    Examples
    --------
    >>> Cost(Fraction(1, 2)) + Cost(Fraction(1, 4), Fraction(1, 100))
    Cost(epsilon=Fraction(3, 4), delta=Fraction(1, 100))
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        # `not >=` also refuses a NaN, should a float ever get here.
        if self.epsilon < 0 or not self.delta >= 0:
            raise BadParameter("a cost has epsilon and delta of at least 0")

    def parameters(self, name: str) -> dict[str, str]:
        """Return the cost as the parameters of the mechanism of this name."""
        return {"name": name, "epsilon": str(self.epsilon), "delta": str(self.delta)}

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta)

    def times(self, count: int) -> "Cost":
        """Return the basic composition of `count` mechanisms of this cost."""
        return Cost(self.epsilon * count, self.delta * count)

    def for_group(self, rounds: int) -> "Cost":
        """Return what this cost of one round amounts to for a row that is in several rounds.

        Group privacy (docs/guarantee.md, Theorem 14), rounded up.

        >>> cost = Cost(Fraction(1), Fraction(1, 10**6)).for_group(2)
        >>> float(cost.epsilon), round(float(cost.delta), 8)
        (2.0, 3.72e-06)
        """
        whole(rounds, "rounds", least=1)
        epsilon, delta = self.epsilon * rounds, self.delta
        # A delta of 1 claims nothing, hence is true.
        if epsilon > LARGEST_POWER:
            return Cost(epsilon, Fraction(1 if delta else 0))
        # Theorem 14: k replaced rounds cost k epsilon and delta (1 + e^epsilon + ...).
        powers = (Fraction(enclose_exp(self.epsilon * n, DIGITS)[1]) for n in range(1, rounds))
        return Cost(epsilon, min(delta * (1 + sum(powers)), Fraction(1)))


NOTHING = Cost(Fraction(0))


@dataclass(frozen=True)
class Guarantee:
    """Hold what may be quoted: floats, rounded up. Without secret noise there is no guarantee.

    Parameters
    ----------
    epsilon, delta
        The guarantee; infinite and 1 if there is none.
    adjacency
        What neighbouring streams are.
    unit
        What is protected whole: an event or a user.
    noise
        Where the noise was drawn.
    cap
        How many rounds of a user count, where there is a limit.
    repeats
        How often the same row was learned, at most.

    Examples
    --------
    >>> print(Guarantee(1.0, 1e-6))
    (1.0, 1e-06)-differential privacy, replace-one, per event
    >>> print(Guarantee(1.0, 1e-6, unit="user", cap=5))
    (1.0, 1e-06)-differential privacy, replace-one, per user: at most 5 rounds a user count
    """

    epsilon: float
    delta: float
    adjacency: str = "replace-one"
    unit: Unit = "event"
    noise: str = "SystemNoise()"
    cap: int | None = None
    repeats: int = 1

    def for_repeats(self, repeats: int) -> "Guarantee":
        """Return the guarantee of a row that is learned up to `repeats` times (Theorem 14).

        Per user nothing changes: all rounds of a user are protected together, however many.

        >>> print(Guarantee(1.0, 0.0).for_repeats(2))
        (2.0, 0.0)-differential privacy, replace-one, per event (rows were learned up to 2 times)
        """
        # Theorem 14: per user, all rounds are protected together already.
        if repeats == 1 or self.unit == "user" or math.isinf(self.epsilon):
            return self
        cost = Cost(Fraction(self.epsilon), Fraction(self.delta)).for_group(repeats)
        epsilon, delta = float_above(cost.epsilon), float_above(cost.delta)
        return replace(self, epsilon=epsilon, delta=delta, repeats=repeats)

    @classmethod
    def of(
        cls, cost: Cost, noise: Noise, unit: Unit = "event", cap: int | None = None
    ) -> "Guarantee":
        """Return the guarantee that a cost amounts to, in floats rounded up.

        Parameters
        ----------
        cost
            What everything costs together.
        noise
            Where the noise is drawn; if it is not private, there is no guarantee.
        unit
            What is protected whole.
        cap
            How many rounds of a user count, where there is a limit: later ones are not read.
        """
        # Whatever the mechanisms claim, draws that anyone can know protect no one.
        if not noise.private:
            return cls(math.inf, 1.0, unit=unit, noise=f"the noise was {noise!r}", cap=cap)
        epsilon, delta = float_above(cost.epsilon), float_above(cost.delta)
        return cls(epsilon, delta, unit=unit, noise=repr(noise), cap=cap)

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"no privacy at all: {self.noise}"
        pair = f"({self.epsilon!r}, {self.delta!r})"
        text = f"{pair}-differential privacy, {self.adjacency}, per {self.unit}"
        rounds = "round" if self.cap == 1 else "rounds"
        capped = f": at most {self.cap:,} {rounds} a user count" if self.cap else ""
        again = f" (rows were learned up to {self.repeats} times)" if self.repeats > 1 else ""
        return text + capped + again


@dataclass(frozen=True)
class PrivacyEvent:
    """Record one use of a mechanism.

    Parameters
    ----------
    mechanism
        Its name.
    cost
        What the use cost.
    epoch
        Uses of different epochs read disjoint rounds; None reads any.
    noise
        Where the noise was drawn.
    """

    mechanism: str
    cost: Cost
    epoch: int | None = None
    noise: str = "SystemNoise()"


def spent(events: Iterable[PrivacyEvent], max_epochs: int = 1) -> Cost:
    """Return what events cost together.

    Events without an epoch add up. Events of one mechanism in different epochs compose in parallel:
    only its most expensive epochs count, as many as one unit has rounds in. Mechanisms add up.

    Parameters
    ----------
    events
        What happened.
    max_epochs
        The most epochs that one unit has rounds in: 1 per event, the cap per user.

    Examples
    --------
    >>> monitor = [PrivacyEvent("monitor", Cost(Fraction(1, 4)), epoch=n) for n in range(1000)]
    >>> selector = [PrivacyEvent("selector", Cost(Fraction(3, 4)), epoch=n) for n in range(999)]
    >>> spent(monitor + selector)
    Cost(epsilon=Fraction(1, 1), delta=Fraction(0, 1))
    """
    whole(max_epochs, "max_epochs", least=1)
    # `groupby` needs them sorted; the order within a mechanism does not matter.
    ordered = sorted(events, key=lambda event: event.mechanism)
    groups = (list(uses) for _, uses in groupby(ordered, key=lambda event: event.mechanism))
    return sum((_mechanism_cost(uses, max_epochs) for uses in groups), NOTHING)


def _mechanism_cost(uses: list[PrivacyEvent], max_epochs: int) -> Cost:
    """Return the cost of one mechanism's events."""
    always = [event.cost for event in uses if event.epoch is None]
    epochs: dict[int, Cost] = {}
    for event in uses:
        if event.epoch is not None:
            epochs[event.epoch] = epochs.get(event.epoch, NOTHING) + event.cost
    # Epochs read disjoint rounds, so a unit meets at most `max_epochs` of them (Theorem 7).
    # The largest epsilons and the largest deltas may sit in different epochs: take both.
    epsilon = sum(sorted(cost.epsilon for cost in epochs.values())[-max_epochs:])
    delta = sum(sorted(cost.delta for cost in epochs.values())[-max_epochs:])
    return sum(always, Cost(Fraction(epsilon), Fraction(delta)))


def composed_epsilon(cost: Cost, count: int, delta: Fraction) -> Fraction:
    """Return an epsilon for adaptive uses of one cost at a total delta: optimal, rounded up.

    Solves 1 - (1 - cost.delta)^count (1 - D(epsilon)) = delta, where D is the privacy curve of
    `count` draws of randomized response with odds e^eps : 1. That curve is the maximum of the
    lines A - e^epsilon B, one for each number of outcomes included, so the solution is a maximum.

    Parameters
    ----------
    cost
        What each use costs.
    count
        How many uses there are.
    delta
        The delta of all of them together.

    Raises
    ------
    BadParameter
        If the uses cost more than `delta` already.

    Examples
    --------
    >>> round(float(composed_epsilon(Cost(Fraction(1, 10)), 100, Fraction(1, 10**6))), 3)
    4.775
    """
    count = whole(count, "count", least=1)
    if not 0 <= delta < 1:
        raise BadParameter(f"delta must be at least 0 and below 1, not {delta}")
    if cost.delta * count > delta:
        raise BadParameter(f"{count} releases cost more than delta = {float(delta):g} already")
    with localcontext(context(DIGITS, ROUND_HALF_EVEN)) as arithmetic:
        each, total = decimal_of(cost.delta, arithmetic), decimal_of(delta, arithmetic)
        # SLACK is taken from what may be spent, so rounding never spends more than `delta`.
        spare = 1 - (1 - total) / (1 - each) ** count - SLACK
        # Theorem 8: the smallest E is the logarithm of the largest (A_n - D)/B_n.
        steepest = max((a - spare) / b for a, b in _lines(cost.epsilon, count))
        solved = Fraction(max(steepest, Decimal(1)).ln() + SLACK)
    # Basic composition holds too, and is better for few uses.
    return min(solved, cost.epsilon * count)


def _lines(epsilon: Fraction, count: int) -> Iterable[tuple[Decimal, Decimal]]:
    """Yield pairs (A, B): the probability in each world of at most n unlikely answers.

    Goes outwards from the likeliest n while masses are not negligible. What is left out is added to
    every A and to no B, so the curve can only be overestimated.
    """
    # Rounded up: more unlikely answers can only overestimate the curve.
    odds = enclose_exp(-epsilon, DIGITS)[1]
    middle = int(count * odds / (1 + odds))
    lower = _masses(n / odds / (count - n + 1) for n in range(middle, 0, -1))
    upper = _masses((count - n) * odds / (n + 1) for n in range(middle, count))
    masses = lower[:0:-1] + upper
    total = sum(masses)
    first = middle - len(lower) + 1
    ratio = enclose_exp((2 * first - count) * epsilon, DIGITS)[0] * (1 - SLACK)
    # The masses that are left out: at most `count` on either side, each below NEGLIGIBLE.
    a, b = 2 * count * NEGLIGIBLE, Decimal(0)
    for mass in masses:
        a += mass / total * (1 + SLACK)
        b += mass / total * ratio
        ratio /= odds * odds
        yield a, b


def _masses(ratios: Iterable[Decimal]) -> list[Decimal]:
    """Return 1 and its running products with `ratios`, down to the first negligible one."""
    masses = [Decimal(1)]
    for ratio in ratios:
        # Relative to the mode: all masses are divided by their sum later.
        masses.append(masses[-1] * ratio)
        if masses[-1] < NEGLIGIBLE:
            break
    return masses


@cache
def per_release(total: Cost, count: int) -> Cost:
    """Return the cost that each of several adaptive releases may have, solved to nine digits.

    The largest with half of delta for the releases themselves and half for composing them, unless
    plain division does better, as it does for few releases.

    Parameters
    ----------
    total
        What all releases may cost together.
    count
        How many releases there are.

    Examples
    --------
    >>> each = per_release(Cost(Fraction(1), Fraction(1, 10**6)), 1000)
    >>> round(float(each.epsilon), 5), float(each.delta)
    (0.00726, 5e-10)
    """
    count = whole(count, "count", least=1)
    plain = Cost(total.epsilon / count, total.delta / count)
    if total.delta == 0 or count == 1:
        return plain
    # Composition is monotone in epsilon, so bisection finds the largest that fits.
    low, high = float(plain.epsilon), float(total.epsilon)
    while high > low * (1 + 1e-9):
        middle = (low + high) / 2
        each = Cost(Fraction(middle), total.delta / (2 * count))
        fits = composed_epsilon(each, count, total.delta) <= total.epsilon
        low, high = (middle, high) if fits else (low, middle)
    solved = Cost(Fraction(low), total.delta / (2 * count))
    # Plain division has the simpler proof: it is given up only for a gain of a tenth.
    return solved if solved.epsilon > plain.epsilon * Fraction(11, 10) else plain
