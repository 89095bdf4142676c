"""The door to randomness: the right laws, tested with power; nothing kept, copied or shared."""

import copy
import math
import os
import pickle
import secrets
import statistics
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import scaled
from littlestone._audit.enumeration import laplace_mass, tails
from littlestone._privacy.noise import BUFFER, LARGEST_SCALE, Noise, SystemNoise, noise_scale, tail
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import ScriptedNoise, SeededNoise

DRAWS = 20_000
SCALE = Fraction(10)


def draws(noise: Noise, scale: Fraction, one_sided: bool) -> list[int]:
    draw = noise.geometric if one_sided else noise.laplace
    # Seeded draws are slow, and the same in each run: with fewer of them a test cannot flake.
    count = DRAWS if isinstance(noise, SystemNoise) else scaled(DRAWS)
    return [draw(scale, ("test", n, 0)) for n in range(count)]


def has_scale(sample: list[int], scale: Fraction, one_sided: bool) -> bool:
    """Whether the mean size fits, to 5 %.

    The mean of 20,000 sizes is known to 0.7 %, so a right scale fails, or a scale that is 10 % off
    passes, once in 10^11 runs.
    """
    a = math.exp(-1 / scale)
    expected = a / (1 - a) if one_sided else 2 * a / (1 - a * a)
    return abs(statistics.fmean(map(abs, sample)) / expected - 1) < 0.05


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("noise", [SystemNoise(), SeededNoise(1)], ids=repr)
def test_the_scale_is_right_and_the_test_has_power(noise: Noise, one_sided: bool) -> None:
    for factor, fits in ((Fraction(1), True), (Fraction(9, 10), False), (Fraction(11, 10), False)):
        sample = draws(noise, noise_scale(SCALE * factor), one_sided)
        assert has_scale(sample, SCALE, one_sided) == fits


@pytest.mark.parametrize("noise", [SystemNoise(), SeededNoise(2)], ids=repr)
def test_the_law_is_right_value_by_value(noise: Noise) -> None:
    """Every cell within 7 standard deviations: wrong by chance once in 10^10 runs."""
    scale = noise_scale(Fraction(3, 2))
    sample = draws(noise, scale, one_sided=False)
    counts, drawn = Counter(sample), len(sample)
    for k in range(-6, 7):
        p = laplace_mass(k, scale)
        assert abs(counts[k] - drawn * p) < 7 * math.sqrt(drawn * p * (1 - p))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(17, 2)])
def test_folding_the_laplace_law_gives_the_geometric_law(scale: Fraction) -> None:
    for k in range(8):
        folded = laplace_mass(k, scale) + laplace_mass(-k - 1, scale)
        here, after = tails(np.array([k, k + 1]), scale, True)[0]
        expected = here - after
        assert folded == pytest.approx(expected, rel=1e-12)
    at = ("test", 0, 0)
    folds = [ScriptedNoise({at: z}).geometric(scale, at) for z in (-3, -2, -1, 0, 1, 2)]
    assert folds == [2, 1, 0, 0, 1, 2]


@given(gap=st.integers(-9, 9), drawn=st.integers(-9, 9))
def test_noise_exceeds_a_gap_that_it_equals(gap: int, drawn: int) -> None:
    at = ("test", 0, 0)
    assert ScriptedNoise({at: drawn}).exceeds(gap, SCALE, at, False) == (drawn >= gap)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=LARGEST_SCALE))
def test_a_scale_is_never_rounded_down(scale: Fraction) -> None:
    used = noise_scale(scale)
    assert scale <= used <= scale * (1 + Fraction(1, 2**52))
    assert Fraction(float(used)) == used


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(LARGEST_SCALE + 1)])
def test_a_scale_out_of_range_is_refused(scale: Fraction) -> None:
    with pytest.raises(BadParameter):
        noise_scale(scale)


def test_a_scale_that_was_not_rounded_up_is_refused() -> None:
    with pytest.raises(BadParameter):
        SystemNoise().laplace(Fraction(1, 3), ("test", 0, 0))


@pytest.mark.parametrize("scale", [Fraction(1, 10**6), Fraction(10**6), Fraction(LARGEST_SCALE)])
def test_extreme_scales_can_be_drawn(scale: Fraction) -> None:
    sample = [SystemNoise().laplace(noise_scale(scale), ("test", n, 0)) for n in range(3)]
    assert all(abs(z) < 2**62 for z in sample)


def test_draws_are_used_once() -> None:
    noise = SystemNoise()
    wide = Fraction(2**40)
    sample = [noise.laplace(wide, ("test", n, 0)) for n in range(BUFFER + 1)]
    assert len(set(sample)) == len(sample)


def wide_draws(noise: Noise) -> list[int]:
    return [noise.laplace(Fraction(2**40), ("test", n, 0)) for n in range(3)]


def coins(noise: Noise) -> list[bool]:
    return [noise.exceeds(1, Fraction(3, 2), ("query", n, 0), True) for n in range(200)]


@pytest.mark.parametrize("draw", [wide_draws, coins])
def test_forked_children_share_nothing_with_their_parent_or_with_each_other(
    draw: Callable[[Noise], list[Any]],
) -> None:
    """Draws made ahead are in memory when a process forks: a child must not use them."""
    noise = SystemNoise()
    draw(noise)
    seen = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, repr(draw(noise)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        seen.append(os.read(reader, 4096).decode())
    assert len({*seen, repr(draw(noise))}) == 3


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_secret_noise_cannot_be_copied(duplicate: object) -> None:
    assert callable(duplicate)
    with pytest.raises(TypeError, match="once only"):
        duplicate(SystemNoise())


def test_only_the_operating_system_is_private() -> None:
    assert SystemNoise().private
    assert not SeededNoise(1).private
    assert not ScriptedNoise({}).private
    assert "NOT PRIVATE" in repr(SeededNoise(1))
    assert "NOT PRIVATE" in repr(ScriptedNoise({}))


@given(st.integers(0, 2**64), st.text(max_size=5), st.integers(0, 10**9), st.integers(0, 99))
def test_seeded_noise_depends_on_the_address_alone(
    seed: int, purpose: str, number: int, rank: int
) -> None:
    noise, at = SeededNoise(seed), (purpose, number, rank)
    first = noise.laplace(SCALE, at)
    noise.laplace(SCALE, ("elsewhere", 0, 0))
    assert noise.laplace(SCALE, at) == SeededNoise(seed).laplace(SCALE, at) == first
    assert 0 <= noise.uniform(7, at) < 7


def test_uniform_integers_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda below: below - 1)
    assert SystemNoise().uniform(10, ("test", 0, 0)) == 9


def test_a_coin_is_used_once() -> None:
    """Checks one at a time: fresh bits each, of the law of the noise."""
    noise, scale = SystemNoise(), Fraction(2)
    for one_sided in (True, False):
        low, _ = tail(1, scale, one_sided, digits=20)
        answers = [noise.exceeds(1, scale, ("query", n, 0), one_sided) for n in range(20_000)]
        assert abs(sum(answers) / 20_000 - float(low)) < 0.02
        changes = sum(one != other for one, other in pairwise(answers))
        assert abs(changes / 20_000 - 2 * float(low * (1 - low))) < 0.02
