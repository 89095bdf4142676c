"""Bounds from counts: what so many runs prove about epsilon (Clopper and Pearson 1934).

Promises: `epsilon_bound` is above the true epsilon (given delta) with probability at most
1 - confidence, whatever the learner, for an event chosen before the counts were made.
"""

import math

STEPS = 60


def at_least(count: int, runs: int, p: float) -> float:
    """P(a binomial of so many runs is at least `count`), by the incomplete beta function.

    >>> round(at_least(2, 3, 0.5), 12)
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
    if p < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, p) / a
    return 1 - math.exp(log_front) * _fraction(b, a, 1 - p) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
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


def lower(count: int, runs: int, miss: float) -> float:
    """A bound below the probability, wrong with probability at most `miss`.

    >>> round(lower(10, 10, 0.05), 4)  # 0.05 ** (1 / 10)
    0.7411
    """
    low, high = 0.0, count / runs
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if at_least(count, runs, middle) <= miss else (low, middle)
    return low


def upper(count: int, runs: int, miss: float) -> float:
    """A bound above the probability, wrong with probability at most `miss`."""
    return 1 - lower(runs - count, runs, miss)


def epsilon_bound(likely: int, unlikely: int, runs: int, delta: float, confidence: float) -> float:
    """An epsilon that the truth is at least, from an event's counts in two worlds.

    Any (epsilon, delta) has P <= e^epsilon Q + delta; P is bounded from below and Q from above,
    each at half of what the confidence leaves. Below zero nothing is shown.

    >>> round(epsilon_bound(900, 100, 1000, delta=0.0, confidence=0.95), 2)
    1.99
    """
    miss = (1 - confidence) / 2
    p, q = lower(likely, runs, miss), upper(unlikely, runs, miss)
    return math.log((p - delta) / q) if p > delta else -math.inf


def power(
    likely: int, unlikely: int, runs: int, claimed: float, delta: float, confidence: float
) -> float:
    """How probably a learner with twice the epsilon would be convicted by this event.

    With half the noise, the two worlds' log-odds of the event are about twice as far apart, around
    the same middle. About, and rather too low than too high.

    >>> power(830, 170, 1000, claimed=2, delta=0.0, confidence=0.95) > 0.8
    True
    >>> power(5, 0, 1000, claimed=2, delta=0.0, confidence=0.95) < 0.01
    True
    """
    odds, less = (math.log((n + 0.5) / (runs - n + 0.5)) for n in (likely, unlikely))
    if odds <= less:
        return 0.0
    p, q = (1 / (1 + math.exp(-x)) for x in ((3 * odds - less) / 2, (3 * less - odds) / 2))
    seen = min(runs, math.ceil(runs * q + 1.3 * math.sqrt(runs * q * (1 - q))))
    needed, top = 0, runs + 1
    while needed < top:
        middle = (needed + top) // 2
        if middle <= runs and epsilon_bound(middle, seen, runs, delta, confidence) <= claimed:
            needed = middle + 1
        else:
            top = middle
    return 0.9 * at_least(needed, runs, p)
