"""Select a key by votes: the stable histogram, and selection from an unknown domain.

The stable histogram (Thm 5.1 of the paper) releases the key with the most votes. A replaced example
moves one vote from one key to another, an L1 distance of 2. Every key with a vote gets discrete
Laplace noise of scale 2/epsilon, and the top noisy key is released if its noisy count reaches tau:
the smallest tau >= 1 at which a single vote is released with probability at most delta,
a^(tau-1)/(1+a) <= delta, where a = exp(-epsilon/2). Proof: docs/guarantee.md, Theorem 4.

Unknown-domain selection needs half the votes of that. A key is drawn by weight, then accepted with
a probability that grows with its own votes. With q a rational at most exp(epsilon/2), a key with n
votes has the weight w = (q - 1) q^(n-1), releasing none has the weight 1, Z is the sum of all
weights, and key a is released with probability

    P(a) = 1 / (1/accept(n) + (Z - w)/w).

The first term holds the threshold and falls by exp(epsilon) a vote; the second holds the other keys
and falls by exp(epsilon) for two votes of lead. A moved vote costs a step of one or the other, not
the sum of both. Proof: docs/guarantee.md, Theorem 5.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from functools import cache
from itertools import count, pairwise
from typing import Any

from littlestone._privacy.accounting import Cost
from littlestone._privacy.draws import Draw, ExponentialMechanism
from littlestone._privacy.noise import Noise, noise_scale
from littlestone._privacy.parameters import (
    LARGEST_INTEGER,
    BadParameter,
    Real,
    context,
    decimal_of,
    enclose_exp,
    log_of,
    positive,
    probability,
    whole,
)
from littlestone._privacy.schedules import Settling

# q is a multiple of 2^-24: at most 2^-23 of epsilon is lost, and powers of q stay short.
GROWTH_BITS = 24

# A larger epsilon protects no one, and its rationals get long.
MOST_EPSILON = 256

# The longest curve that is built. Counts are cut off here: that moves no count by more than the
# votes move, so it is free, and it bounds the time that a selection takes.
LONGEST_CURVE = 20_000

# Of all probabilities of a curve together: a tiny delta makes each of them long.
MOST_BITS = 1 << 23

# The part of delta that is spent on reaching certainty; the rest is spent on the first vote.
TOP_SHARE = Fraction(1, 1024)


class StableHistogram(Draw[Mapping[bytes, int]]):
    """Select the key with the most votes, with noise, from any domain, known or not."""

    name = "stable histogram"

    def __init__(self, *, epsilon: Real, delta: Real) -> None:
        self.cost = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        # Theorem 4: the votes move by 2 in all; tau follows from the raised scale that is drawn.
        self.scale = noise_scale(2 / self.cost.epsilon)
        self.threshold = release_threshold(self.scale, self.cost.delta)

    def select(
        self,
        scores: Mapping[bytes, int],
        noise: Noise,
        release: int,
        published: bytes | None = None,
    ) -> bytes | None:
        """Select the top noisy key that reaches the threshold, or None."""
        # Theorem 4: noise for every key with votes, in an order that does not depend on the data.
        best, top = None, self.threshold - 1
        for rank, (key, n) in enumerate(positive_votes(scores, published).items()):
            noisy = n + noise.laplace(self.scale, ("histogram", release, rank))
            if noisy > top:
                best, top = key, noisy
        return best


def positive_votes(votes: Mapping[bytes, int], published: bytes | None = None) -> dict[bytes, int]:
    """Return the votes of the keys that have some, sorted by key, as Python integers."""
    for key in votes:
        # Keys are compared and sorted as bytes: the order must not depend on the data (Theorem 4).
        if type(key) is not bytes:
            raise BadParameter(f"a key must be bytes, not {key!r}")
    counts = {key: whole(votes[key], "votes", least=0) for key in sorted(votes)}
    return {key: n for key, n in counts.items() if n > 0 and key != published}


@cache
def release_threshold(scale: Fraction, delta: Fraction) -> int:
    """Return the smallest tau >= 1 with a^(tau-1)/(1+a) <= delta, a = exp(-1/scale), exactly."""
    # A guess in floats, corrected by exact decisions below: only those count.
    guess = -float(scale) * (log_of(delta) + math.log1p(math.exp(-1 / float(scale))))
    below = max(0, math.floor(guess))
    while below > 0 and _tail_at_most_delta(below - 1, scale, delta):
        below -= 1
    while not _tail_at_most_delta(below, scale, delta):
        below += 1
    return below + 1


def _tail_at_most_delta(n: int, scale: Fraction, delta: Fraction) -> bool:
    """Return whether a^n <= delta (1 + a), decided with as many digits as it takes."""
    # Forty digits nearly always decide; an undecided comparison gets forty more.
    for digits in count(40, 40):
        down, up = context(digits, ROUND_FLOOR), context(digits, ROUND_CEILING)
        left_low, left_high = enclose_exp(-n / scale, digits)
        a_low, a_high = enclose_exp(-1 / scale, digits)
        right_low = down.multiply(down.add(a_low, 1), decimal_of(delta, down))
        right_high = up.multiply(up.add(a_high, 1), decimal_of(delta, up))
        if left_high <= right_low:
            return True
        if left_low > right_high:
            return False
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class AcceptanceCurve:
    """Hold the acceptance probability by votes, and the growth q of the weights. All public."""

    epsilon: Fraction
    delta: Fraction
    growth: Fraction
    accept: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        # Theorem 5 asks for g = q^2 <= exp(epsilon), and for k_1 <= low, k_n >= 1 - top at the end.
        if not 1 < self.growth <= exp_below(self.epsilon / 2):
            raise BadParameter(f"growth {float(self.growth)} is not within 1 and exp(epsilon/2)")
        low, top, p = self.delta * (1 - TOP_SHARE), self.delta * TOP_SHARE, self.accept
        if len(p) < 2 or p[0] != 0 or not 0 < p[1] <= low or not 1 - top <= p[-1] < 1:
            raise BadParameter(
                "an acceptance curve starts at 0, goes on below delta, and ends just below 1"
            )
        for n, (now, after) in enumerate(pairwise(p[1:]), start=1):
            if not is_valid_step(now, after, self.growth**2, low):
                raise BadParameter(
                    f"the acceptance curve is too steep between {n} and {n + 1} votes"
                )

    def at(self, votes: int) -> Fraction:
        """Return the acceptance probability of a key with so many votes."""
        return self.accept[votes] if votes < len(self.accept) else Fraction(1)


def exp_below(x: Fraction) -> Fraction:
    """Return a rational at most exp(x), x > 0: a partial sum of its series."""
    # All terms are positive, so a partial sum is a lower bound.
    term = total = Fraction(1)
    for j in range(1, 24 + 4 * int(x + 1)):
        term = term * x / j
        total += term
    return total


def is_valid_step(now: Fraction, after: Fraction, g: Fraction, low: Fraction) -> bool:
    """Return whether conditions (1) to (4) of Theorem 5 hold for a step of the curve."""
    # Cross-multiplied odds: no division, so the comparison is exact in integers.
    odds_now, odds_after = now * (1 - after), after * (1 - now)
    return (
        0 < now < after < 1
        and after <= g * now + low
        and 1 - now <= g * (1 - after)
        and g * odds_now <= odds_after <= g**2 * odds_now
    )


@cache
def acceptance_curve(epsilon: Fraction, delta: Fraction) -> AcceptanceCurve:
    """Return the largest valid curve on a fine grid."""
    if epsilon > MOST_EPSILON:
        raise BadParameter(f"an epsilon above {MOST_EPSILON} protects no one: select with less")
    longest = (-log_of(TOP_SHARE) - 2 * log_of(delta)) / float(epsilon)
    if longest > LONGEST_CURVE or longest * acceptance_bits(epsilon, delta) > MOST_BITS:
        raise BadParameter(
            f"at epsilon {float(epsilon):g} and delta {float(delta):g} a selection needs some "
            f"{longest:,.0f} votes, and the curve of them is too long to build: use the stable "
            "histogram"
        )
    # Rounded down: a smaller q is private at the same epsilon.
    growth, bits = _floor(exp_below(epsilon / 2), GROWTH_BITS), acceptance_bits(epsilon, delta)
    g, low = growth**2, delta * (1 - TOP_SHARE)
    accept = [Fraction(0), _floor(low, bits)]
    while 1 - accept[-1] > delta * TOP_SHARE:
        p = accept[-1]
        # Conditions (1), (2) and (4) of Theorem 5, solved for the next value.
        best = min(g * p + low, 1 - (1 - p) / g, g**2 * p / (1 - p + g**2 * p))
        accept.append(_floor(best, bits))
    return AcceptanceCurve(epsilon, delta, growth, tuple(accept))


def acceptance_bits(epsilon: Fraction, delta: Fraction) -> int:
    """Return the bits of the grid of probabilities: 2^-bits is far below delta, exp(-2 epsilon)."""
    return 128 - 4 * math.floor(log_of(delta)) + 4 * math.ceil(epsilon)


def _floor(x: Fraction, bits: int) -> Fraction:
    return Fraction((x.numerator << bits) // x.denominator, 1 << bits)


class UnknownDomainSelection(Draw[Mapping[bytes, int]]):
    """Select a key with many votes, from any domain, known or not; exactly, in integers."""

    name = "unknown-domain selection"

    def __init__(self, *, epsilon: Real, delta: Real) -> None:
        self.cost = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        self.curve = acceptance_curve(self.cost.epsilon, self.cost.delta)

    def select(
        self,
        scores: Mapping[bytes, int],
        noise: Noise,
        release: int,
        published: bytes | None = None,
    ) -> bytes | None:
        """Select a key, or None."""
        levels = self._levels(scores, published)
        top = max(levels, default=0)
        weights = {n: self._weight(n, top) for n in levels}
        none = self._weight(0, top)
        total = none + sum(weights[n] * len(keys) for n, keys in levels.items())
        # The first of two uniform integers: which key is drawn, None first.
        ticket = noise.uniform(total, ("drawn", release, 0)) - none
        for n, keys in levels.items():
            if 0 <= ticket < weights[n] * len(keys):
                # Accepted with Z k / (Z k + w (1 - k)): P of the module's formula, times Z/w.
                k = self.curve.at(n)
                yes = total * k.numerator
                no = weights[n] * (k.denominator - k.numerator)
                accepted = noise.uniform(yes + no, ("kept", release, 0)) < yes
                return keys[ticket // weights[n]] if accepted else None
            ticket -= weights[n] * len(keys)
        return None

    def law(
        self, votes: Mapping[bytes, int], published: bytes | None = None
    ) -> dict[bytes | None, Fraction]:
        """Return the exact law of `select`, for plans and for enumeration."""
        levels = self._levels(votes, published)
        top = max(levels, default=0)
        total = self._weight(0, top) + sum(self._weight(n, top) * len(levels[n]) for n in levels)
        masses: dict[bytes | None, Fraction] = {}
        for n, keys in levels.items():
            rivals = Fraction(total, self._weight(n, top)) - 1
            masses |= dict.fromkeys(keys, 1 / (1 / self.curve.at(n) + rivals))
        masses[None] = 1 - sum(masses.values(), Fraction(0))
        return masses

    def alone(self, votes: int) -> float:
        """Return the probability that a lone key is released, as a float: plans need many of them."""
        accept, growth = float(self.curve.at(votes)), float(self.curve.growth)
        if accept == 0:
            return 0.0
        return 1 / (1 / accept + math.exp(-(votes - 1) * math.log(growth)) / (growth - 1))

    def _levels(
        self, votes: Mapping[bytes, int], published: bytes | None
    ) -> dict[int, list[bytes]]:
        """Return the keys by their number of votes: keys with as many votes weigh the same."""
        levels: dict[int, list[bytes]] = {}
        for key, n in positive_votes(votes, published).items():
            # A public limit: cutting counts off moves none by more than the votes move.
            levels.setdefault(min(n, LONGEST_CURVE), []).append(key)
        return dict(sorted(levels.items(), reverse=True))

    def _weight(self, n: int, top: int) -> int:
        """Return the weight of n votes (of None, for 0) over the common denominator."""
        up, down = self.curve.growth.numerator, self.curve.growth.denominator
        return int((up - down) * up ** (n - 1) * down ** (top - n) if n else down**top)


class SearchOrCompare(Draw[Mapping[bytes, int]]):
    """Select a new key by votes, or the best of the known ones by mistakes, as scheduled."""

    def __init__(self, search: Draw[Mapping[bytes, int]], schedule: Settling) -> None:
        self.name, self.cost = search.name, search.cost
        self.search, self._schedule = search, schedule

    # An attribute, so that an audit can draw from its law in one step.
    comparison: Callable[..., Draw[Any]] = ExponentialMechanism

    def select(
        self,
        scores: Mapping[bytes, int],
        noise: Noise,
        release: int,
        published: bytes | None = None,
    ) -> bytes | None:
        """Select a key; None leaves the published one in place."""
        assert published is not None, "it is compared with what is published"
        known, margin = self._schedule.known(published), self._schedule.margin
        if not self._schedule.comparing:
            # Known keys are public: a vote moved to or from one is only added or removed. So is the
            # margin: what is left of a count moves by no more than the count (Theorem 7, "Searches
            # and comparisons").
            votes = {key: n - margin for key, n in positive_votes(scores).items() if n > margin}
            fresh = {key: n for key, n in votes.items() if key not in known}
            return self.search.select(fresh, noise, release, published)
        keys = (published, *known)
        if set(scores) != set(keys):
            raise BadParameter("a comparison requires the mistakes of every known key, no others")
        ahead = [-whole(scores[key], "mistakes", least=0) for key in keys]
        # Clipped, which is free as it is public.
        ahead[0] += min(margin, LARGEST_INTEGER)
        # Theorem 6: a comparison spends what a search may spend, on rounds of its own epoch.
        comparison = self.comparison(keys, epsilon=self.cost.epsilon)
        key = comparison.select(ahead, noise, release)
        return None if key == published else key

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        return self.search.parameters()
