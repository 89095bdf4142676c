"""How many votes the leader needs before a selector names it, from exact laws."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, exp

from rich.table import Table

from bench.output import publish
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection

LEVELS = (0.95, 0.99, 0.999)
MOST = 400
Named = Callable[[int, int], float]
"""The probability that a leader with n votes is named against one rival with m."""


def run() -> None:
    """Print the table of docs/theory.md."""
    title = "Votes the leader needs to be named with 95 / 99 / 99.9 %"
    table = Table("eps_h", "delta", "selector", "no rival", "rival has 30 % of all", title=title)
    for epsilon in (Fraction(3, 10), Fraction(3, 5), Fraction(1)):
        for delta in (Fraction(1, 10**6), Fraction(1, 10**9)):
            for name, make in SELECTORS.items():
                named = make(epsilon, delta)
                cells = [needed(named, share) for share in (0.0, 0.3)]
                table.add_row(str(float(epsilon)), f"{float(delta):.0e}", name, *cells)
    publish("selectors", table)


def needed(named: Named, share: float) -> str:
    """The fewest votes from which on the leader is named often enough, for each level."""
    chances = [named(n, ceil(round(n * share / (1 - share), 9))) for n in range(1, MOST)]
    return " / ".join(_first_for_good(chances, level) for level in LEVELS)


def _first_for_good(chances: list[float], level: float) -> str:
    if chances[-1] < level:
        return "never"
    return str(1 + max((n for n, chance in enumerate(chances, 1) if chance < level), default=0))


def unknown_domain_selection(epsilon: Fraction, delta: Fraction) -> Named:
    selector = UnknownDomainSelection(epsilon=epsilon, delta=delta)
    return lambda n, m: float(selector.law({b"a": n, b"b": m})[b"a"])


def histogram(epsilon: Fraction, delta: Fraction) -> Named:
    """By summing over the leader's noisy count; a tie goes to the rival."""
    selector = StableHistogram(epsilon=epsilon, delta=delta)
    tau, a = selector.threshold, exp(-1 / selector.scale)
    reach = ceil(40 * selector.scale)

    def below(k: int) -> float:
        return float(a ** (1 - k) / (1 + a) if k <= 0 else 1 - a**k / (1 + a))

    def named(n: int, m: int) -> float:
        if m == 0:
            return 1 - below(tau - n)
        counts = range(tau, n + reach)
        mass = (1 - a) / (1 + a)
        return float(sum(mass * a ** abs(c - n) * below(max(c, tau) - m) for c in counts))

    return named


def kept_set(epsilon: Fraction, delta: Fraction) -> Named:
    """Every key kept on its own at half of the budget, the first of a public order named; the
    rival comes first. The alternative of FIELD.md, left out of the room: see the figures."""
    accept = acceptance_limit(float(epsilon) / 2, float(delta) / 2)
    return lambda n, m: accept(n) * (1 - accept(m))


def limit(epsilon: Fraction, delta: Fraction) -> Named:
    """What no mechanism that names only keys with votes can exceed, whatever the rivals."""
    accept = acceptance_limit(float(epsilon), float(delta))
    return lambda n, m: accept(n)


def acceptance_limit(epsilon: float, delta: float) -> Callable[[int], float]:
    """The optimal acceptance probability of a single key (Desfontaines et al. 2020)."""
    found = [0.0]
    while found[-1] < 1:
        p = found[-1]
        found.append(min(exp(epsilon) * p + delta, 1 - exp(-epsilon) * (1 - p - delta), 1.0))
    return lambda n: found[min(n, len(found) - 1)]


SELECTORS: dict[str, Callable[[Fraction, Fraction], Named]] = {
    "stable histogram": histogram,
    "kept set": kept_set,
    "unknown-domain selection": unknown_domain_selection,
    "limit": limit,
}
