"""Exponential mechanism: its law found from the code, by asking where each group begins."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littlestone._privacy.draws import ExponentialMechanism, _draw_group, draw_by_score
from littlestone._privacy.noise import Address, Noise
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import ScriptedNoise, SeededNoise

RATE = Fraction(1, 2)


class FixedPointNoise(Noise):
    """Return a given point of [0, 2^64) as the first draw, and 0 for every later one."""

    def __init__(self, point: int) -> None:
        self.point = point

    def __repr__(self) -> str:
        return "Point(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        raise AssertionError("the exponential mechanism has no use for Laplace noise")

    def uniform(self, below: int, at: Address) -> int:
        # Later draws only refine a point that the first 64 bits leave open: 0 takes its lower end.
        return self.point if at[2] == 1 else 0


def law_of(gaps: list[int], sizes: list[int], rate: Fraction) -> list[float]:
    """Return the probability of each group."""
    ends = ends_of(gaps, sizes, rate)
    return [(end - start) / 2**64 for start, end in zip([0, *ends], ends, strict=False)]


def ends_of(gaps: list[int], sizes: list[int], rate: Fraction) -> list[int]:
    """Return where in [0, 2^64) each group ends: bisect for the first point of the next one."""
    ends = []
    for group in range(len(gaps)):
        low, high = 0, 2**64
        while low < high:
            middle = (low + high) // 2
            # The groups are intervals of the first 64 bits, so their ends can be found by
            # bisection.
            if _draw_group(gaps, sizes, rate, FixedPointNoise(middle), 0) <= group:
                low = middle + 1
            else:
                high = middle
        ends.append(low)
    return ends


def test_the_law_is_the_exponential_one() -> None:
    gaps, sizes = [0, 1, 5, 30], [2, 1, 7, 10**6]
    weights = [n * math.exp(-gap / 2) for gap, n in zip(gaps, sizes, strict=True)]
    expected = [weight / sum(weights) for weight in weights]
    assert law_of(gaps, sizes, RATE) == pytest.approx(expected, rel=1e-12)


def test_every_small_pair_of_neighbours_is_within_the_claim_and_some_reach_it() -> None:
    """One candidate up, all the others down: the whole epsilon, in the limit of many others."""

    def probability(scores: tuple[int, ...]) -> float:
        levels = sorted(set(scores), reverse=True)
        gaps, sizes = [levels[0] - level for level in levels], [scores.count(n) for n in levels]
        group = law_of(gaps, sizes, RATE)[levels.index(scores[0])]
        return group / scores.count(scores[0])

    chances = {scores: probability(scores) for scores in product(range(3), repeat=3)}
    worst = max(
        abs(math.log(chances[one] / chances[other]))
        for one, other in product(chances, chances)
        if all(abs(x - y) <= 1 for x, y in zip(one, other, strict=True))
    )
    assert worst <= 1 + 1e-12
    crowd = (1,) * 4000
    reached = math.log(probability((1, *[0] * 4000)) / probability((0, *crowd)))
    assert 0.999 < reached <= 1 + 1e-12


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1, 1), (3, 1), (3, 4)])
def test_a_candidate_is_drawn_at_half_of_epsilon_by_its_sensitivity(
    epsilon: int, sensitivity: int
) -> None:
    """The rate that the guarantee rests on, found from `select`, by bisection."""
    mechanism = ExponentialMechanism([b"b", b"a"], epsilon=epsilon, sensitivity=sensitivity)
    low, high = 0, 2**64
    while low < high:
        middle = (low + high) // 2
        if mechanism.select([0, 1], FixedPointNoise(middle), 0) == b"a":
            low = middle + 1
        else:
            high = middle
    assert math.log(low / (2**64 - low)) == pytest.approx(epsilon / (2 * sensitivity), rel=1e-9)


def test_a_point_on_a_boundary_is_refined_and_not_guessed() -> None:
    gaps, sizes = [0, 1], [1, 1]
    end = ends_of(gaps, sizes, RATE)[0]
    asked: list[Address] = []

    class Recording(FixedPointNoise):
        def uniform(self, below: int, at: Address) -> int:
            asked.append(at)
            return super().uniform(below, at)

    for point, words in ((end - 2, 1), (end - 1, 2), (end, 1)):
        asked.clear()
        _draw_group(gaps, sizes, RATE, Recording(point), 0)
        assert len(asked) == words


def test_a_group_too_faint_for_the_first_digits_is_found_all_the_same() -> None:
    """exp(-100) is 2^-144: the last point of 2^192 belongs to it, the last of 2^64 does not yet."""

    class Ones(FixedPointNoise):
        def uniform(self, below: int, at: Address) -> int:
            return below - 1 if at[2] <= self.point else 0

    gaps, sizes = [0, 200, 300], [1, 1, 1]
    assert _draw_group(gaps, sizes, RATE, Ones(1), 0) == 0
    assert _draw_group(gaps, sizes, RATE, Ones(3), 0) == 1
    assert _draw_group(gaps, sizes, RATE, Ones(9), 0) == 2


def test_members_of_a_group_are_drawn_alike() -> None:
    scores = [3, 0, 3, 3, -50]
    counts = Counter(draw_by_score(scores, RATE, SeededNoise(n), 0) for n in range(6000))
    expected = 1 / (3 + math.exp(-1.5))
    for index in (0, 2, 3):
        assert abs(counts[index] / 6000 - expected) < 0.05


@given(
    scores=st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20),
    epsilon=st.sampled_from([1e-6, 1.0, 100.0]),
    seed=st.integers(0, 2**32),
    out=st.integers(0, 19),
)
def test_it_always_answers_with_a_candidate_that_is_not_left_out(
    scores: list[int], epsilon: float, seed: int, out: int
) -> None:
    keys = [b"%d" % n for n in range(len(scores))]
    mechanism = ExponentialMechanism(keys, epsilon=epsilon)
    leave_out = b"%d" % out
    key = mechanism.select(scores, SeededNoise(seed), 0, leave_out)
    assert key in set(keys) - {leave_out} or (key is None and keys == [leave_out])


@pytest.mark.parametrize(
    "scores", [[], [1.5, 2.0], [True, False], [[1], [2]], [1, 2, 3], ["a", "b"]]
)
def test_bad_scores_are_refused(scores: list[int]) -> None:
    with pytest.raises(BadParameter):
        ExponentialMechanism([b"a", b"b"], epsilon=1).select(scores, ScriptedNoise({}), 0)


@pytest.mark.parametrize("keys", [[], [b"a", b"a"]])
def test_bad_candidates_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(BadParameter):
        ExponentialMechanism(keys, epsilon=1)
