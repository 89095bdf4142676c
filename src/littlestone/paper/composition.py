"""Compose equal releases adaptively: Lemma 5.4, which is true but loose, solved instead of quoted.

The optimal curve is that of Kairouz, Oh and Viswanath (2015); see docs/guarantee.md, Theorem 8.
Rounding is always towards less privacy claimed.
"""

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import cache

from littlestone._privacy.accounting import DIGITS, Cost
from littlestone._privacy.parameters import BadParameter, context, decimal_of, enclose_exp, whole

# Far above what rounding to 60 digits can do in a million steps; always added, never taken.
SLACK = Decimal("1e-40")
NEGLIGIBLE = Decimal("1e-80")


def composed_epsilon(cost: Cost, count: int, delta: Fraction) -> Fraction:
    """Return an epsilon for adaptive uses of one cost at a total delta: optimal, rounded up."""
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
    """Yield pairs (A, B): the probability in each world of at most n unlikely answers."""
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
    """Return the cost that each of several adaptive releases may have, solved to nine digits."""
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
