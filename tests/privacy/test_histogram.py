"""Stable histogram: its delta computed exactly, for all small neighbours, ties, left-out keys."""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from littlestone._audit.enumeration import delta_at, laplace_mass, law, tails
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.selection import StableHistogram, release_threshold
from littlestone._privacy.testing import ScriptedNoise

A, B, C = b"a", b"b", b"c"
Votes = dict[bytes, int]


def below(gap: int, scale: Fraction) -> float:
    """P(noise < gap)."""
    return float(tails(np.array([gap]), scale, False)[1][0])


def twin(
    votes: Mapping[bytes, int], scale: Fraction, threshold: int, leave_out: bytes | None = None
) -> dict[bytes | None, float]:
    """The law of the selection, from its definition: key i wins at n if all others stay below."""
    keys = sorted(key for key, n in votes.items() if n > 0 and key != leave_out)
    reach = threshold + max(votes.values(), default=0) + math.ceil(40 * scale)
    answers: dict[bytes | None, float] = dict.fromkeys(keys, 0.0)
    for winner, n in product(range(len(keys)), range(threshold, reach)):
        p = laplace_mass(n - votes[keys[winner]], scale)
        for rival, key in enumerate(keys):
            if rival != winner:
                p *= below(n - votes[key] + (rival > winner), scale)
        answers[keys[winner]] += p
    answers[None] = math.prod(below(threshold - votes[key], scale) for key in keys)
    return answers


def neighbours(votes: Votes) -> Iterator[Votes]:
    """All votes that one replaced example can make of these: one taken, one given, or either."""
    for taken, given_to in product([None, *votes], [None, *votes]):
        other = dict(votes)
        if taken is not None:
            other[taken] -= 1
        if given_to is not None:
            other[given_to] += 1
        if all(n >= 0 for n in other.values()):
            yield other


def mass_of_one_vote(scale: Fraction, threshold: int) -> float:
    return math.exp(-(threshold - 1) / scale) / (1 + math.exp(-1 / scale))


@pytest.mark.parametrize("votes", [{A: 1}, {A: 2, B: 2}, {A: 0, B: 3, C: 1}, {C: 5, B: 3, A: 4}])
@pytest.mark.parametrize("leave_out", [None, A])
def test_the_code_has_the_law_of_the_definition(votes: Votes, leave_out: bytes | None) -> None:
    histogram = StableHistogram(epsilon=6, delta=0.01)
    expected = twin(votes, histogram.scale, histogram.threshold, leave_out)
    for key, p in law(lambda n: histogram.select(votes, n, 0, leave_out)).items():
        assert p == pytest.approx(expected[key], rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, 0.01), (3, 1e-4), (0.2, 0.3), (0.1, 0.45), (8, 0.2), (2, 0.9)]
)
@pytest.mark.slow
def test_every_small_pair_of_neighbours_is_within_the_claim(epsilon: float, delta: float) -> None:
    histogram = StableHistogram(epsilon=epsilon, delta=delta)
    scale, threshold = histogram.scale, histogram.threshold
    claimed = mass_of_one_vote(scale, threshold)
    assert claimed <= delta
    laws = {
        n: twin(dict(zip((A, B, C), n, strict=True)), scale, threshold)
        for n in product(range(5), repeat=3)
    }
    worst = 0.0
    for counts in product(range(4), repeat=3):
        for other in neighbours(dict(zip((A, B, C), counts, strict=True))):
            worst = max(worst, delta_at(epsilon, laws[counts], laws[tuple(other.values())]))
    assert worst == pytest.approx(claimed, rel=1e-9)


def test_a_left_out_key_changes_nothing() -> None:
    histogram = StableHistogram(epsilon=1, delta=0.05)
    scale, threshold = histogram.scale, histogram.threshold
    for counts in product(range(4), repeat=3):
        votes = dict(zip((A, B, C), counts, strict=True))
        one = twin(votes, scale, threshold, leave_out=B)
        for other in neighbours(votes):
            loss = delta_at(1, one, twin(other, scale, threshold, leave_out=B))
            assert loss <= mass_of_one_vote(scale, threshold) * (1 + 1e-9)


@given(
    scale=st.fractions(Fraction(1, 50), 10**7),
    delta=st.fractions(Fraction(1, 10**12), Fraction(99, 100)).filter(lambda d: 0 < d < 1),
)
def test_the_threshold_is_the_smallest_that_will_do(scale: Fraction, delta: Fraction) -> None:
    threshold = release_threshold(scale, delta)
    with localcontext() as arithmetic:
        arithmetic.prec = 200
        unit = -Decimal(scale.denominator) / scale.numerator
        bound = (1 + unit.exp()) * delta.numerator / delta.denominator
        assert ((threshold - 1) * unit).exp() <= bound
        assert threshold == 1 or ((threshold - 2) * unit).exp() > bound


def test_the_threshold_is_not_fooled_by_floats() -> None:
    """Deltas a hair on either side of the exact mass, closer than floats can tell."""
    for n in (3, 17, 40):
        with localcontext() as arithmetic:
            arithmetic.prec = 120
            mass = Fraction(Decimal(-n).exp() / (1 + Decimal(-1).exp()))
        hair = mass / 10**60
        assert release_threshold(Fraction(1), mass + hair) == n + 1
        assert release_threshold(Fraction(1), mass - hair) == n + 2


@given(st.dictionaries(st.binary(max_size=2), st.integers(0, 9), max_size=6))
def test_order_of_entry_and_empty_keys_do_not_matter(votes: Votes) -> None:
    histogram = StableHistogram(epsilon=9, delta=0.4)
    script = {("histogram", 0, rank): rank % 3 for rank in range(6)}
    tidy = {key: votes[key] for key in sorted(votes, reverse=True) if votes[key]}
    answers = [histogram.select(v, ScriptedNoise(script), 0) for v in (votes, tidy)]
    assert answers[0] == answers[1]


def test_ties_go_to_the_first_in_the_order_of_bytes() -> None:
    histogram = StableHistogram(epsilon=1, delta=1e-6)
    assert histogram.select({B: 99, A: 99, C: 99}, ScriptedNoise({}), 0) == A


@pytest.mark.parametrize("votes", [{"a": 3}, {A: -1}, {A: 1.5}, {bytearray(b"a").hex(): 1}])
def test_bad_votes_are_refused(votes: Votes) -> None:
    with pytest.raises(BadParameter):
        StableHistogram(epsilon=1, delta=1e-6).select(votes, ScriptedNoise({}), 0)


def test_counts_may_be_huge() -> None:
    histogram = StableHistogram(epsilon=1e-6, delta=1e-12)
    assert histogram.select({A: 10**9, B: 0}, ScriptedNoise({}), 0) == A
