"""Unknown-domain selection: its law in exact rationals over all neighbours, and planted
faults.

The divergence is taken at q^2 <= exp(epsilon), so what is shown is a little more than the claim.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import scaled
from littlestone._privacy.noise import Address, SystemNoise
from littlestone._privacy.parameters import BadParameter, enclose_exp
from littlestone._privacy.selection import (
    LONGEST_CURVE,
    TOP_SHARE,
    AcceptanceCurve,
    UnknownDomainSelection,
    acceptance_bits,
    acceptance_curve,
    exp_below,
    is_valid_step,
)
from littlestone._privacy.testing import ScriptedNoise, SeededNoise

F = Fraction
Votes = dict[bytes, int]
Law = Mapping[bytes | None, F]
Accept = Callable[[int], F]
KEYS = (b"a", b"b", b"c", b"d")
SMALL = [(F(1, 2), F(1, 20)), (F(1), F(1, 10)), (F(1), F(1, 100)), (F(2), F(1, 100))]
REAL = [(F(3, 5), F(1, 10**6)), (F(3, 10), F(1, 10**9))]


def maps(keys: int, total: int) -> Iterator[Votes]:
    """Every vote map up to a renaming of keys; the mechanisms below are symmetric."""
    for counts in combinations_with_replacement(range(total + 1), keys):
        if sum(counts) <= total:
            yield {key: n for key, n in zip(KEYS, counts, strict=False) if n}


def neighbours(votes: Votes, keys: int) -> Iterator[Votes]:
    """Every map one moved, added or removed vote away."""
    for source in (None, *votes):
        for target in (None, *KEYS[:keys]):
            moved = Counter(votes)
            moved.update([target] if target else [])
            moved.subtract([source] if source else [])
            yield {key: n for key, n in moved.items() if n}


def excess(one: Law, two: Law, e: F) -> F:
    """The smallest delta at exp(epsilon) = e, from `one` to `two`."""
    return sum((max(F(0), p - e * two.get(key, F(0))) for key, p in one.items()), F(0))


def both(mechanism: Callable[[Votes], Law], one: Votes, two: Votes, e: F) -> F:
    there, back = mechanism(one), mechanism(two)
    return max(excess(there, back, e), excess(back, there, e))


def worst(mechanism: Callable[[Votes], Law], e: F, keys: int, total: int) -> F:
    """The largest delta over all pairs of neighbours, in both directions."""
    return max(
        both(mechanism, v, u, e) for v in maps(keys, total) for u in neighbours(v, keys) if v != u
    )


def written_out(votes: Votes, q: F, accept: Accept, none: F | int = 1, slope: int = 1) -> Law:
    """The law as the theorem writes it; `none` and `slope` are where faults go in."""
    weight = {key: (q - 1) * q ** (slope * (n - 1)) for key, n in votes.items()}
    total = none + sum(weight.values())
    named: dict[bytes | None, F] = {
        key: 1 / (1 / accept(n) + (total - weight[key]) / weight[key]) for key, n in votes.items()
    }
    named[None] = 1 - sum(named.values(), F(0))
    return named


@pytest.mark.parametrize(("epsilon", "delta"), SMALL)
def test_every_small_vote_keeps_the_claim(epsilon: F, delta: F) -> None:
    selector = UnknownDomainSelection(epsilon=epsilon, delta=delta)
    q = selector.curve.growth
    assert q**2 <= exp_below(epsilon)
    for keys, total in ((4, 9), (2, 20)):
        found = worst(selector.law, q**2, keys, total)
        assert found <= delta
        assert found >= delta * (1 - TOP_SHARE) * (q - 1) / (q - 1 + delta), "the first vote alone"


def test_the_claim_is_tight_in_both_parameters() -> None:
    selector = UnknownDomainSelection(epsilon=2, delta=F(1, 100))
    e = selector.curve.growth**2
    assert worst(selector.law, e, 3, 10) >= F(99, 100) * selector.cost.delta
    assert worst(selector.law, e * F(97, 100), 3, 10) > F(11, 10) * selector.cost.delta


@pytest.mark.parametrize("left", KEYS[:2])
def test_a_left_out_key_is_no_vote(left: bytes) -> None:
    selector = UnknownDomainSelection(epsilon=1, delta=F(1, 10))
    for v in maps(3, 6):
        rest = {key: n for key, n in v.items() if key != left}
        assert selector.law(v, left) == selector.law(rest)
        for u in neighbours(v, 3):
            e = selector.curve.growth**2
            assert both(lambda w: selector.law(w, left), v, u, e) <= selector.cost.delta


@pytest.mark.parametrize(("epsilon", "delta"), REAL)
def test_real_curves_keep_the_claim_along_their_whole_length(epsilon: F, delta: F) -> None:
    selector = UnknownDomainSelection(epsilon=epsilon, delta=delta)
    end = len(selector.curve.accept) + 3
    for i in sorted({*range(1, end, 9), 1, 2, 3, *range(end - 6, end)}):
        for j in (0, 1, 2, i // 2, i - 1, i):
            v = {key: n for key, n in ((b"a", i), (b"b", j)) if n}
            for u in neighbours(v, 3):
                assert both(selector.law, v, u, selector.curve.growth**2) <= delta


@settings(max_examples=scaled(100, least=10))
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=9),
    st.sampled_from([(F(1, 5), F(1, 10**4)), (F(1), F(1, 10**6)), (F(3), F(1, 20))]),
    st.randoms(use_true_random=False),
)
def test_any_vote_and_any_move(counts: list[int], at: tuple[F, F], draw: random.Random) -> None:
    selector = UnknownDomainSelection(epsilon=at[0], delta=at[1])
    v = {bytes([65 + i]): n for i, n in enumerate(counts) if n}
    u = Counter(v)
    if v and draw.random() < 0.8:
        u.subtract([draw.choice(sorted(v))])
    u.update([bytes([65 + draw.randrange(len(counts) + 1)])])
    assert both(selector.law, v, dict(u), selector.curve.growth**2) <= selector.cost.delta


@pytest.mark.parametrize(("epsilon", "delta"), [*SMALL, *REAL, (F(20), F(1, 10**12))])
def test_the_curve_is_valid_largest_and_below_the_limit(epsilon: F, delta: F) -> None:
    """No mechanism that names only keys with votes can exceed `limit`."""
    selector = UnknownDomainSelection(epsilon=epsilon, delta=delta)
    curve = selector.curve
    e, low = curve.growth**2, delta * (1 - TOP_SHARE)
    for now, after in pairwise(curve.accept[1:]):
        assert is_valid_step(now, after, e, low)
        assert not is_valid_step(now, after + F(1, 1 << acceptance_bits(epsilon, delta)), e, low)
    limit = F(0)
    for n in range(1, 12):
        limit = min(e * limit + delta, 1 - (1 - limit - delta) / e, F(1))
        assert selector.law({b"a": n})[b"a"] < curve.at(n) <= limit


def test_an_invalid_curve_cannot_be_made() -> None:
    good = acceptance_curve(F(1), F(1, 100))
    for n in range(1, len(good.accept)):
        for nudge in (F(1, 1 << acceptance_bits(F(1), F(1, 100))), -good.accept[n] / 2):
            accept = (*good.accept[:n], good.accept[n] + nudge, *good.accept[n + 1 :])
            with pytest.raises(BadParameter, match="acceptance curve"):
                AcceptanceCurve(good.epsilon, good.delta, good.growth, accept)
    for accept in (good.accept[:-1], good.accept[1:], (F(0),), (*good.accept, F(1))):
        with pytest.raises(BadParameter, match="acceptance curve"):
            AcceptanceCurve(good.epsilon, good.delta, good.growth, accept)
    with pytest.raises(BadParameter, match="growth"):
        AcceptanceCurve(good.epsilon, good.delta, good.growth + F(1, 1 << 23), good.accept)


@pytest.mark.parametrize(
    ("now", "after", "valid"),
    [
        ("0.3", "0.5", True),
        ("0.01", "0.0211", False),  # (1): after > 2 now + low
        ("0.5", "0.76", False),  # (2): 1 - now > 2 (1 - after)
        ("0.3", "0.31", False),  # (3): the odds grow by less than 2
        ("0.0001", "0.0009", False),  # (4): the odds grow by more than 4
        ("0.3", "0.3", False),
        ("0", "0.001", False),
        ("0.5", "1", False),
    ],
)
def test_each_condition_is_asked_on_its_own(now: str, after: str, valid: bool) -> None:
    """With g = 2 and low = 1/1000; each step breaks one condition and keeps the others."""
    assert is_valid_step(F(now), F(after), F(2), F(1, 1000)) == valid


def test_a_curve_that_stops_growing_cannot_be_made() -> None:
    """Condition (3), the one lower bound: a flat step, all else as it was."""
    good = acceptance_curve(F(1), F(1, 100))
    for n in range(3, len(good.accept) - 1):
        flat = good.accept[n] + (good.accept[n + 1] - good.accept[n]) / 100
        accept = (*good.accept[: n + 1], flat, *good.accept[n + 1 :])
        with pytest.raises(BadParameter, match=f"too steep between {n} and"):
            AcceptanceCurve(good.epsilon, good.delta, good.growth, accept)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *product([F(1, 100), F(1, 2), 5, 30], [F(9, 10), F(1, 1000), F(1, 10**12), F(1, 10**30)]),
        *product([88, 256], [F(9, 10), F(1, 10**12)]),
    ],
)
def test_curves_exist_at_the_extremes(epsilon: F, delta: F) -> None:
    """Being made is being checked: a `AcceptanceCurve` that breaks a condition raises."""
    selector = UnknownDomainSelection(epsilon=epsilon, delta=delta)
    assert selector.law({b"a": LONGEST_CURVE})[b"a"] > F(99, 100)


@pytest.mark.parametrize("x", [F(1, 1000), F(1, 4), 1, 2, F(7, 2), 15, 50, 128])
def test_exp_below_is_below_and_close(x: F) -> None:
    """Against the correctly rounded exponential of the standard library."""
    low, high = enclose_exp(F(x), 40)
    assert F(low) * (1 - F(1, 10**9)) < exp_below(F(x)) < F(high)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int8, np.uint32])
def test_counts_of_fixed_width_do_not_wrap_around(kind: Any) -> None:
    selector = UnknownDomainSelection(epsilon=1, delta=1e-6)
    for votes in ({b"a": 33, b"b": 34}, {b"a": 120}, {b"a": 27, b"b": 1}):
        narrow = {key: kind(n) for key, n in votes.items()}
        assert selector.law(narrow) == selector.law(votes)
        for seed in range(5):
            noise = SeededNoise(seed)
            assert selector.select(narrow, noise, 0) == selector.select(votes, noise, 0)


def test_counts_are_cut_off_where_they_no_longer_matter() -> None:
    selector = UnknownDomainSelection(epsilon=1, delta=1e-6)
    assert selector.law({b"a": 10**9}) == selector.law({b"a": LONGEST_CURVE})
    assert selector.select({b"a": 10**9, b"b": 10**6}, SystemNoise(), 0) in (b"a", b"b")


@pytest.mark.parametrize(
    ("epsilon", "delta", "why"),
    [
        (0, 0.5, "epsilon must be a finite number above 0"),
        (float("nan"), 0.5, "epsilon must be a finite number above 0"),
        (1, 0, "delta must lie strictly between 0 and 1"),
        (1, 1, "delta must lie strictly between 0 and 1"),
        (1e-6, 1e-6, "use the stable histogram"),
        (300, 1e-6, "protects no one"),
        (10**400, 1e-6, "protects no one"),
    ],
)
def test_parameters_that_cannot_be_honoured(epsilon: float, delta: float, why: str) -> None:
    with pytest.raises(BadParameter, match=why):
        UnknownDomainSelection(epsilon=epsilon, delta=delta)


class Tickets(ScriptedNoise):
    """Answers two draws from a script and remembers what it was asked."""

    def __init__(self, *answers: int) -> None:
        super().__init__({})
        self.answers, self.asked = answers, list[int]()

    def uniform(self, below: int, at: Address) -> int:
        self.asked.append(below)
        return self.answers[len(self.asked) - 1]


@pytest.mark.parametrize("counts", [(), (1,), (2, 1), (3, 3), (2, 3, 1, 0), (2, 2, 2, 1)])
def test_the_sampler_has_the_law_exactly(counts: tuple[int, ...]) -> None:
    """Every pair of tickets is drawn, on a coarse curve (not a valid one), so they are few."""
    coarse = AcceptanceCurve.__new__(AcceptanceCurve)
    object.__setattr__(coarse, "growth", F(3, 2))
    object.__setattr__(coarse, "accept", (F(0), F(1, 8), F(1, 2), F(7, 8)))
    selector = UnknownDomainSelection(epsilon=1, delta=F(1, 10))
    selector.curve = coarse
    votes = dict(zip(KEYS, counts, strict=False))
    found: Counter[bytes | None] = Counter()
    masses: dict[bytes | None, F] = {}
    first, total = 0, 1
    while first < total:
        second, sides = 0, 1
        while second < sides:
            noise = Tickets(first, second)
            key = selector.select(votes, noise, release=0)
            total, sides = (*noise.asked, 1)[:2]
            found[key] += 1
            masses[key] = masses.get(key, F(0)) + F(1, total * sides)
            second += 1
        first += 1
    assert masses == {key: p for key, p in selector.law(votes).items() if p}


def test_the_law_is_the_theorems_and_order_does_not_matter() -> None:
    selector = UnknownDomainSelection(epsilon=1, delta=F(1, 100))
    for v in maps(4, 8):
        assert selector.law(v) == written_out(v, selector.curve.growth, selector.curve.at)
        turned = dict(reversed(v.items()))
        for seed in range(3):
            assert selector.select(v, SeededNoise(seed), 0) == selector.select(
                turned, SeededNoise(seed), 0
            )


def test_secret_draws_name_who_has_the_votes() -> None:
    selector, noise = UnknownDomainSelection(epsilon=1, delta=1e-6), SystemNoise()
    votes = {b"key %d" % n: 1 for n in range(2000)} | {b"top": 3000}
    assert {selector.select(votes, noise, n) for n in range(5)} == {b"top"}
    assert selector.select({}, noise, 0) is None
    assert selector.select({b"a": 500}, noise, 0, published=b"a") is None
    with pytest.raises(BadParameter, match="at least 0"):
        selector.select({b"a": -1}, noise, 0)
    by_text: Any = {"a": 1}
    with pytest.raises(BadParameter, match="must be bytes"):
        selector.select(by_text, noise, 0)


def limit_curve(e: F, delta: F) -> Accept:
    """The acceptance curve of Desfontaines et al. (2020), the largest for a single key."""
    found = [F(0)]
    for _ in range(40):
        p = found[-1]
        found.append(max(p, min(e * p + delta, 1 - (1 - p - delta) / e, F(1))))
    return lambda n: found[min(max(n, 0), 40)]


def leader_only(votes: Votes, level: Callable[[int, int], F]) -> Law:
    """DESIGN's runner-up selector: the leader, with a probability of (votes, lead), or None."""
    if not votes:
        return {None: F(1)}
    order = sorted(votes, key=lambda key: (-votes[key], key))
    second = votes[order[1]] if len(order) > 1 else 0
    p = level(votes[order[0]], votes[order[0]] - second)
    return {order[0]: p, None: 1 - p}


def kept_by_count_alone(votes: Votes, curve: AcceptanceCurve) -> Law:
    weight = {key: (curve.growth - 1) * curve.growth ** (n - 1) for key, n in votes.items()}
    total = 1 + sum(weight.values())
    named: dict[bytes | None, F] = {k: w / total * curve.at(votes[k]) for k, w in weight.items()}
    named[None] = 1 - sum(named.values(), F(0))
    return named


C = acceptance_curve(F(1), F(1, 100))
LIMIT = limit_curve(C.growth**2, C.delta)
STEEPER = acceptance_curve(C.epsilon * F(6, 5), C.delta)
CERTAIN = F(1) - 2 * C.delta

FAULTS: dict[str, Callable[[Votes], Law]] = {
    "first vote at twice delta": lambda v: written_out(
        v, C.growth, lambda n: C.at(n) * (1 + (n == 1))
    ),
    "curve one vote ahead": lambda v: written_out(v, C.growth, lambda n: C.at(n + 1)),
    "curve of 1.2 epsilon": lambda v: written_out(v, C.growth, STEEPER.at),
    "curve that skips a step": lambda v: written_out(v, C.growth, lambda n: C.at(n + (n > 4))),
    "certain too soon": lambda v: written_out(
        v, C.growth, lambda n: F(1) if C.at(n) > CERTAIN else C.at(n)
    ),
    "no weight for None": lambda v: (
        written_out(v, C.growth, C.at, none=F(1, 1000)) if v else {None: F(1)}
    ),
    "weights of slope epsilon": lambda v: written_out(v, C.growth, C.at, slope=2),
    "drawn, then kept by its count alone": lambda v: kept_by_count_alone(v, C),
    "the leader by min(votes, 1 + lead/2)": lambda v: leader_only(
        v, lambda n, lead: LIMIT(min(n, 1 + (lead + 1) // 2))
    ),
    "the leader by min(votes, 3 + lead/2)": lambda v: leader_only(
        v, lambda n, lead: LIMIT(min(n, 3 + (lead + 1) // 2))
    ),
    "the leader by its votes": lambda v: leader_only(v, lambda n, lead: LIMIT(n)),
    "the leader by its lead": lambda v: leader_only(v, lambda n, lead: LIMIT(lead)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    found = max(worst(FAULTS[fault], C.growth**2, keys, n) for keys, n in ((3, 10), (2, 16)))
    assert found > F(101, 100) * C.delta


def test_the_leader_alone_is_private_at_half_speed() -> None:
    """What is left of the runner-up selector: one level for two votes of lead, and it is tight."""
    for keys, total in ((4, 10), (2, 20)):
        found = worst(
            lambda v: leader_only(v, lambda n, lead: LIMIT((lead + 1) // 2)),
            C.growth**2, keys, total,
        )  # fmt: skip
        assert found == C.delta
