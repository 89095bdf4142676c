"""Every planted fault is caught: the machinery that clears the code convicts its faulty twin."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from effort import EVERYTHING
from littlestone._audit.enumeration import (
    Enumerated,
    EnumeratedTranscript,
    Stepper,
    World,
    delta_at,
    largest_loss,
    law,
    transcripts,
)
from littlestone._audit.laws import OLD, A, B, epochs, fixed_rows, neighbours, streams
from littlestone._privacy import Decision, MistakesGate, MistakesMonitor, Noise, StableHistogram
from littlestone._privacy.gates import NO_CHANGE

from . import faults

Pair = tuple[World, World]


def loss(
    make: Callable[[Noise], Stepper], pair: Pair, only: EnumeratedTranscript, width: int = 60
) -> float:
    return largest_loss(*(transcripts(make, world, len(only), width, only) for world in pair))


def test_the_printed_algorithm_3_loses_more_with_every_check() -> None:
    make = partial(faults.PrintedAlgorithm3, epsilon=1, releases=1)
    pair: Pair = (lambda past: (10, 0), lambda past: (11, 0))
    assert loss(make, pair, (False,) * 12) == pytest.approx(3, rel=1e-3)
    assert loss(make, pair, (False,) * 200) == pytest.approx(50, rel=1e-3)


@pytest.mark.parametrize("fault", [faults.QueryNoiseNotScaled, faults.HalvedNoise])
def test_too_little_noise_in_the_sparse_vector(fault: type[faults.HalvedNoise]) -> None:
    make = partial(fault, epsilon=1, releases=3)
    only: EnumeratedTranscript = (*(False,) * 10, True, True, True)
    pair: Pair = (
        lambda past: (-100 if only[len(past)] else 40, 0),
        lambda past: (-101 if only[len(past)] else 41, 0),
    )
    assert loss(make, pair, only, width=120) > 1.9


def test_the_three_halves_of_the_printed_algorithm_2() -> None:
    histogram = StableHistogram(epsilon=2, delta=0.01)
    selector, tau = Enumerated(histogram, width=100), histogram.threshold

    def make(noise: Noise) -> faults.PrintedAlgorithm2:
        gate = faults.PrintedAlgorithm2(
            noise,
            epsilon=4,
            delta=0.01,
            releases=1,
            trees=1000,
            threshold=960,
            published=OLD,
        )
        gate._selector = selector
        return gate

    def world(shift: int) -> World:
        quiet, loud = {OLD: 2 - shift}, {OLD: tau + 60 + shift, A: 2 - shift}
        return lambda past: (quiet if len(past) < 10 else loud,)

    only = (*(NO_CHANGE,) * 10, Decision(True, A))
    assert 1.49 * 4 < loss(make, (world(0), world(1)), only, width=140) < 1.51 * 4


def test_a_count_that_is_kept_at_a_firing() -> None:
    make = partial(faults.CountKeptAtFiring, epsilon=1)
    pair: Pair = (lambda past: (0, 40), lambda past: (0 if past else 1, 40))
    assert loss(make, pair, (True,) * 3) > 2.9


def test_threshold_noise_shared_by_epochs() -> None:
    make = partial(faults.ThresholdNoiseShared, epsilon=1)
    only: EnumeratedTranscript = (*(False,) * 12, True, True, True)
    pair: Pair = (
        lambda past: (0 if past else 12, 0 if len(past) < 12 else 60),
        lambda past: (0 if past else 13, 0 if len(past) < 12 else 60),
    )
    assert loss(make, pair, only, width=80) > 2.9


def test_a_count_clamped_at_zero() -> None:
    make = partial(faults.Clamped, epsilon=1)
    only: EnumeratedTranscript = (*(False,) * 14, True)

    def world(shift: int) -> World:
        mistakes = [10 + shift, *[5] * 11, 0, 0, 0]
        return lambda past: (mistakes[len(past)], 0 if len(past) < 14 else 60)

    assert loss(make, (world(0), world(1)), only, width=80) > 1.9


def test_a_count_that_is_kept_when_the_selector_says_none() -> None:
    selector = Enumerated(StableHistogram(epsilon=1, delta=0.01), width=60)
    make = partial(
        faults.CountKeptAtNone,
        epsilon=1,
        selector=selector,
        threshold=lambda age, refusals: 40,
        published=OLD,
    )
    pair: Pair = (lambda past: (0, {}), lambda past: (0 if past else 1, {}))
    assert loss(make, pair, (Decision(True, None),) * 4) > 3.9


@pytest.mark.parametrize("fault", [faults.NoQueryNoise, faults.SkipsQuietChecks])
def test_a_check_that_cannot_fire(fault: type[MistakesMonitor]) -> None:
    make = partial(fault, epsilon=1)
    pair: Pair = (lambda past: (0, 1), lambda past: (len(past), 1))
    assert loss(make, pair, (False, True)) > 100


def test_a_firing_that_is_not_charged() -> None:
    selector = Enumerated(StableHistogram(epsilon=2, delta=0.01), width=60)

    def make(noise: Noise) -> faults.NoneIsNotCharged:
        gate = faults.NoneIsNotCharged(
            noise,
            epsilon=4,
            delta=0.01,
            releases=1,
            trees=1000,
            threshold=960,
            published=OLD,
        )
        gate._selector, gate.leave_out_published = selector, True
        return gate

    def world(shift: int) -> World:
        return lambda past: ({OLD: 2 - shift if len(past) < 10 else 80 + shift},)

    only = (*(NO_CHANGE,) * 10, *(Decision(True, None),) * 6)
    assert loss(make, (world(0), world(1)), only, width=100) > 2 * 4


def test_a_forest_that_is_not_restarted() -> None:
    """The same gate, the same claim; but the ballots hold rounds of earlier epochs."""
    selector = Enumerated(StableHistogram(epsilon=1, delta=0.3), width=40)
    make = partial(
        MistakesGate,
        epsilon=0.25,
        selector=selector,
        threshold=lambda age, refusals: 0,
        published=OLD,
        leave_out_published=False,
    )
    worst = {True: 0.0, False: 0.0}
    for restarted in worst:
        laws = {
            rows: transcripts(
                make, epochs(fixed_rows(rows), restarted), 3, 80 if EVERYTHING else 40
            )
            for rows in streams(3)
            if None not in rows[1:]
            # The most expensive pairs end so; their loss is the same at half the width.
            and (EVERYTHING or rows[1:] == (A, A))
        }
        worst[restarted] = max(
            delta_at(1.25, laws[one], laws[other])
            for one in laws
            for other in neighbours(one)
            if other in laws
        )
    assert worst[True] <= 0.3 < worst[False]


CLAIM = {"epsilon": 1.0, "delta": 0.01}


def histogram_laws(
    histogram: StableHistogram, *ballots: dict[bytes, int], width: int = 40
) -> list[dict[bytes | None, float]]:
    return [law(partial(_select, histogram, votes), width) for votes in ballots]


def _select(histogram: StableHistogram, votes: dict[bytes, int], noise: Noise) -> bytes | None:
    return histogram.select(votes, noise, release=0)


def test_histogram_noise_for_one_contribution() -> None:
    histogram = faults.NoiseForOneContribution(**CLAIM)
    high = histogram.threshold + 50
    laws = histogram_laws(histogram, {A: 2, B: high}, {A: 1, B: high + 1}, width=100)
    assert math.log(laws[0][A] / laws[1][A]) > 1.9


def test_the_mass_at_the_threshold_left_out() -> None:
    laws = histogram_laws(faults.MassAtThresholdLeftOut(**CLAIM), {A: 1}, {B: 1}, width=80)
    assert delta_at(1, *laws) > 0.01


def test_ties_broken_by_the_order_of_entry() -> None:
    histogram = faults.TiesByEntry(epsilon=2, delta=0.5)
    high = histogram.threshold + 30
    laws = histogram_laws(histogram, {A: 2, B: high}, {B: high + 1, A: 1}, width=70)
    assert math.log(laws[0][A] / laws[1][A]) > 1.2 * 2


def test_empty_keys_that_stay() -> None:
    """A replaced example can change a tree's whole past: here, two keys it once voted for."""
    sound = StableHistogram(epsilon=1, delta=0.01)
    lone = histogram_laws(sound, {A: 1}, width=80)[0][A]
    histogram = faults.EmptyKeysStay(epsilon=1, delta=lone * 1.001)
    assert histogram.threshold == sound.threshold
    laws = histogram_laws(histogram, {A: 0, B: 0}, {}, width=60)
    assert delta_at(1, *laws) > 1.2 * lone


def test_the_true_top_of_the_kept() -> None:
    histogram = faults.TrueTopOfTheKept(epsilon=2, delta=0.01)
    n = histogram.threshold + 20
    laws = histogram_laws(histogram, {A: n + 1, B: n}, {A: n, B: n + 1}, width=60)
    assert delta_at(2, *laws) > 0.9


def test_the_same_machinery_clears_the_code_on_the_same_families() -> None:
    """So that the convictions above convict the faults and not the families."""
    monitor = partial(MistakesMonitor, epsilon=1)
    for pair, only in product(
        [
            (lambda past: (0, 40), lambda past: (0 if past else 1, 40)),
            (lambda past: (0 if past else 12, 0), lambda past: (0 if past else 13, 0)),
        ],
        [(True,) * 3, (False,) * 5, (False, True, False)],
    ):
        assert loss(monitor, pair, only, width=120) <= 1 + 1e-9
    histogram = StableHistogram(**CLAIM)
    high = histogram.threshold + 50
    laws = histogram_laws(histogram, {A: 2, B: high}, {A: 1, B: high + 1}, width=100)
    assert delta_at(1, *laws) <= 0.01
