"""Runs of checks: the tails are enclosed, the bits decide as the noise would, runs equal checks."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import scaled
from littlestone._audit.enumeration import largest_loss, tails, transcripts
from littlestone._audit.gates import fixed
from littlestone._privacy.gates import NO_CHANGE, Gate, MistakesMonitor, Step
from littlestone._privacy.noise import WORD_BITS, SystemNoise, bounds, first_exceeding, tail
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.schedules import Climbing
from littlestone._privacy.selection import StableHistogram
from littlestone._privacy.testing import ScriptedNoise, SeededNoise

SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("one_sided", [False, True])
def test_tails_are_enclosed_tightly(scale: Fraction, one_sided: bool) -> None:
    for gap in range(-60, 61):
        low, high = tail(gap, scale, one_sided, digits=30)
        assert low <= high <= low + Fraction(1, 10**26)
        assert float(low) == pytest.approx(
            tails(np.array([gap]), scale, one_sided)[0][0], rel=1e-12
        )
        finer = tail(gap, scale, one_sided, digits=60)
        assert low <= finer[0] <= finer[1] <= high
        below, above = bounds(gap, scale, one_sided)
        assert below <= low * 2**WORD_BITS <= high * 2**WORD_BITS <= above <= 2**WORD_BITS
        assert above - below <= 2


def bits(*words: int) -> Callable[[int], bytes]:
    """Secret bytes from a script: first the words of the run, then those that refine."""
    left = list(words)

    def secret(count: int) -> bytes:
        first = count // 8 == 1 and len(left) < len(words)
        taken = [left.pop(0) for _ in range(count // 8)]
        order: Any = "big" if first else "little"
        return b"".join(word.to_bytes(8, order) for word in taken)

    return secret


@pytest.mark.parametrize("gap", [-3, 0, 1, 5, 30])
@pytest.mark.parametrize("one_sided", [False, True])
def test_a_word_decides_where_the_enclosure_can_tell(gap: int, one_sided: bool) -> None:
    scale = Fraction(7, 2)
    low, high = bounds(gap, scale, one_sided)
    gaps = np.array([gap])
    for word, reached in ((0, True), (low - 1, True), (high, False), (2**WORD_BITS - 1, False)):
        if 0 <= word < 2**WORD_BITS and not (one_sided and gap <= 0):
            found = first_exceeding(gaps, scale, one_sided, bits(word))
            assert (found == 0) == reached
    if one_sided and gap <= 0:
        assert first_exceeding(gaps, scale, one_sided, bits(2**WORD_BITS - 1)) == 0


@pytest.mark.parametrize("gap", [1, 5, 30])
def test_where_it_cannot_tell_more_bits_do(gap: int) -> None:
    """The word that straddles the tail: its continuation, compared with 128 bits of the tail."""
    scale, gaps = Fraction(7, 2), np.array([gap])
    low, high = bounds(gap, scale, one_sided=True)
    assert high - low == 1, "one word is open"
    exact, _ = tail(gap, scale, one_sided=True, digits=80)
    turn = int(exact * 2 ** (2 * WORD_BITS)) - (low << WORD_BITS)
    assert first_exceeding(gaps, scale, True, bits(low, turn - 1)) == 0
    assert first_exceeding(gaps, scale, True, bits(low, turn + 1)) is None


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize(("factor", "accepted"), [(0.8, False), (1.0, True), (1.25, False)])
def test_secret_runs_have_the_law(one_sided: bool, factor: float, accepted: bool) -> None:
    """How often a gap of 4 is reached at scale 3, in 10,000 to 40,000 checks, in runs and one by
    one: accepted within six standard deviations; noise of another scale is twelve off or more."""
    noise, n = SystemNoise(), scaled(40_000, least=10_000)
    gaps, in_runs, start = np.full(n, 4), 0, 0
    while start < n:
        place = noise.first_exceeding(gaps[start:], Fraction(3), 0, one_sided)
        in_runs, start = (in_runs, n) if place is None else (in_runs + 1, start + place + 1)
    singly = sum(noise.exceeds(4, Fraction(3), ("query", t, 0), one_sided) for t in range(n))
    p = float(tails(np.array([4]), Fraction(3) * Fraction(factor), one_sided)[0][0])
    for reached in (in_runs, singly):
        assert (abs(reached - n * p) < 6 * (n * p * (1 - p)) ** 0.5) == accepted


@pytest.mark.parametrize(("gap", "ends"), [(10**12, (0, 1)), (46, (0, 1)), (44, (1, 2))])
def test_a_tail_too_thin_for_a_word_is_not_written_out(gap: int, ends: tuple[int, int]) -> None:
    """2^64 exp(-44) is 1.4: the last tail that a word can still reach."""
    for one_sided in (False, True):
        assert bounds(gap, Fraction(1), one_sided) == ends
    low, high = bounds(1 - gap, Fraction(1), one_sided=False)
    assert (2**WORD_BITS - high, 2**WORD_BITS - low) == ends


COUNTS = st.lists(st.integers(0, 8), max_size=50)


@given(counts=COUNTS, seed=st.integers(0, 999), size=st.integers(1, 20))
def test_a_run_of_the_monitor_is_its_checks(counts: list[int], seed: int, size: int) -> None:
    one, other = (MistakesMonitor(SeededNoise(seed), epsilon=1) for _ in "ab")
    singly = [one.advance([count], 20) is not None for count in counts]
    together: list[bool] = []
    while len(together) < len(counts):
        part = counts[len(together) : len(together) + size]
        fired = other.advance(part, 20)
        together += [False] * len(part) if fired is None else [*[False] * fired, True]
    assert together == singly
    assert one.dump() == other.dump()


def test_bad_runs_are_refused_and_empty_ones_are_nothing() -> None:
    gate = Gate(
        SeededNoise(1),
        epsilon=1,
        schedule=Climbing(lambda ages, refusals: 12),
        draw=StableHistogram(epsilon=2, delta=0.01),
        published=b"o",
    )
    assert gate.run([], lambda place, fired: {}) == Step(0, NO_CHANGE)
    untyped: Any = gate
    for losses in ([1.5], [-1], [1, -1], [2**50], ["a"], [0, 0.5]):
        with pytest.raises(BadParameter):
            untyped.run(losses, lambda place, fired: {})
    with pytest.raises(BadParameter, match="loss of 2 in 1 rounds"):
        gate.run([0, 2], lambda place, fired: {})


def test_a_public_restart_is_free() -> None:
    class Restarting(MistakesMonitor):
        def advance(self, mistakes: Any, thresholds: Any) -> int | None:
            fired = super().advance(mistakes, thresholds)
            if self.checks == 2:
                self.restart()
            return fired

    streams = list(product((0, 1), repeat=4))
    make = partial(Restarting, epsilon=1)
    laws = {stream: transcripts(make, fixed([(n, 1) for n in stream]), 4) for stream in streams}
    worst = max(
        largest_loss(laws[one], laws[(*one[:i], 1 - one[i], *one[i + 1 :])])
        for one, i in product(streams, range(4))
    )
    assert worst <= 1 + 1e-9


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_the_mistakes_monitor_agrees_with_the_definition(
    steps: list[tuple[int, int, int]],
) -> None:
    script = {("query", n, 0): shock for n, (_, shock, _) in enumerate(steps)}
    script |= {
        ("threshold", n, 0): threshold_noise for n, (_, _, threshold_noise) in enumerate(steps)
    }
    monitor = MistakesMonitor(ScriptedNoise(script), epsilon=1)
    count = epoch = 0
    for new, shock, _ in steps:
        count += new
        fired = count + shock >= 5 + steps[epoch][2]
        assert (monitor.advance([new], 5) is not None) == fired
        count, epoch = (0, epoch + 1) if fired else (count, epoch)
