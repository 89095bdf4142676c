"""Bound epsilon from counts of an event (Clopper and Pearson 1934).

Promises: `epsilon_bound` is above the true epsilon (given delta) with probability at most 1 -
confidence, for every learner, if the event was chosen before the counts were made.
"""

import math
from statistics import NormalDist

STEPS = 60
NODES = 9


def binomial_tail(count: int, runs: int, p: float) -> float:
    """Return P(binomial >= count), by the incomplete beta function.

    Parameters
    ----------
    count
        The least count.
    runs
        The number of trials.
    p
        The probability of one.

    Examples
    --------
    >>> round(binomial_tail(2, 3, 0.5), 12)
    0.5
    """
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
    """Return a lower bound on a probability.

    Parameters
    ----------
    count
        How often the event happened.
    runs
        In how many runs.
    miss
        The probability with which the bound may be wrong.

    Examples
    --------
    >>> round(lower_bound(10, 10, 0.05), 4)  # 0.05 ** (1 / 10)
    0.7411
    """
    # The tail grows with the probability, so bisection finds where it is `miss`.
    low, high = 0.0, count / runs
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_tail(count, runs, middle) <= miss else (low, middle)
    return low


def upper_bound(count: int, runs: int, miss: float) -> float:
    """Return an upper bound on a probability.

    Parameters
    ----------
    count
        How often the event happened.
    runs
        In how many runs.
    miss
        The probability with which the bound may be wrong.
    """
    # An upper bound on an event is a lower bound on its complement.
    return 1 - lower_bound(runs - count, runs, miss)


def epsilon_bound(likely: int, unlikely: int, runs: int, delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon, from an event's counts in two worlds.

    Any (epsilon, delta) has P <= e^epsilon Q + delta; P is bounded from below and Q from above,
    each at half of what the confidence leaves.

    A bound below zero shows nothing.

    Parameters
    ----------
    likely
        The count where the event is likely.
    unlikely
        The count where it is unlikely.
    runs
        The runs of each world.
    delta
        The delta claimed.
    confidence
        The confidence of the bound.

    Examples
    --------
    >>> round(epsilon_bound(900, 100, 1000, delta=0.0, confidence=0.95), 2)
    1.99
    """
    miss = (1 - confidence) / 2
    # Both bounds hold together by the union bound.
    p, q = lower_bound(likely, runs, miss), upper_bound(unlikely, runs, miss)
    return math.log((p - delta) / q) if p > delta else -math.inf


def approximate_epsilon_bound(
    likely: int, unlikely: int, runs: int, delta: float, confidence: float
) -> float:
    """Approximate `epsilon_bound` fast (Wilson's intervals), for choosing among many events.

    Parameters
    ----------
    likely
        The count where the event is likely.
    unlikely
        The count where it is unlikely.
    runs
        The runs of each world.
    delta
        The delta claimed.
    confidence
        The confidence of the bound.

    Examples
    --------
    >>> round(approximate_epsilon_bound(900, 100, 1000, delta=0.0, confidence=0.95), 2)
    1.99
    """
    # Accurate enough to rank events; the event that is chosen gets the exact bound.
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p, q = _wilson(likely, runs, -z), _wilson(unlikely, runs, z)
    return math.log((p - delta) / q) if p > delta else -math.inf


def _wilson(count: int, runs: int, z: float) -> float:
    rate, square = count / runs, z * z / runs
    spread = z * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs))
    return max(0.0, (rate + square / 2 + spread) / (1 + square))


def power(p: float, q: float, runs: int, claimed: float, delta: float, confidence: float) -> float:
    """Return how probably an event refutes a claim.

    The count of the less likely world takes nine values, each about as probable; for each of them
    the other count has to reach what `epsilon_bound` then asks for.

    Parameters
    ----------
    p
        Its probability where it is likely.
    q
        Its probability where it is unlikely.
    runs
        The runs of each world.
    claimed
        The epsilon claimed.
    delta
        The delta claimed.
    confidence
        The confidence of the bound.

    Examples
    --------
    >>> power(0.94, 0.06, 1000, claimed=2, delta=0.0, confidence=0.95) > 0.99
    True
    >>> power(0.8, 0.2, 1000, claimed=2, delta=0.0, confidence=0.95) < 0.01
    True
    """
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
    """Return how far p is above what the claim allows, in standard deviations of one run.

    Parameters
    ----------
    p
        The probability where the event is likely.
    q
        The probability where it is unlikely.
    claimed
        The epsilon claimed.

    Examples
    --------
    >>> separation(0.5, 0.05, claimed=1) > separation(0.9, 0.3, claimed=1) > 0
    True
    """
    allowed = math.exp(claimed)
    return (p - allowed * q) / math.sqrt(p + allowed * allowed * q) if p + q else 0.0
