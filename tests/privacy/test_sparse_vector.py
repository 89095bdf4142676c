"""Sparse vector, enumerated: the loss never passes the claim, and reaches it where it can."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littlestone._audit.enumeration import (
    Transcript,
    World,
    largest_loss,
    transcripts,
)
from littlestone._privacy import MistakesMonitor, Noise
from littlestone._privacy.testing import ScriptedNoise, SeededNoise
from littlestone.paper import AboveThreshold

Pair = tuple[World, World]
Make = Callable[[Noise], AboveThreshold]


def sparse(releases: int, epsilon: float = 1, sensitivity: int = 1) -> Make:
    return lambda noise: AboveThreshold(
        noise, epsilon=epsilon, releases=releases, sensitivity=sensitivity
    )


def mistakes(noise: Noise) -> MistakesMonitor:
    return MistakesMonitor(noise, epsilon=1)


def fixed(values: tuple[int, ...], threshold: int) -> World:
    return lambda past: (values[len(past)], threshold)


def loss_on(make: Callable[[Noise], Any], pair: Pair, only: Transcript) -> float:
    """The loss at a single transcript."""
    return largest_loss(*(transcripts(make, world, len(only), only) for world in pair))


@pytest.mark.parametrize("releases", [1, 2])
def test_every_small_pair_of_neighbours_is_within_the_claim(releases: int) -> None:
    make = sparse(releases, epsilon=4)
    worlds = list(product((0, 1, 2), repeat=3))
    laws = {world: transcripts(make, fixed(world, 1), 3) for world in worlds}
    worst = max(
        largest_loss(laws[one], laws[other])
        for one, other in product(worlds, worlds)
        if all(abs(x - y) <= 1 for x, y in zip(one, other, strict=True))
    )
    assert 0.3 * 4 < worst <= 4 + 1e-9


@pytest.mark.parametrize("releases", [1, 2])
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_high_below_answers_then_low_firings_reach_the_claim(
    releases: int, sensitivity: int
) -> None:
    make = sparse(releases, epsilon=2, sensitivity=sensitivity)
    quiet: Transcript = (False,) * 10
    only = quiet + (True,) * releases
    # High enough to pin the threshold_noise, and low enough that every firing is expensive.
    high, low, shift = 25 * sensitivity, -90 * sensitivity, sensitivity
    pair: Pair = (
        lambda past: (low if only[len(past)] else high, 0),
        lambda past: (low - shift if only[len(past)] else high + shift, 0),
    )
    assert loss_on(make, pair, only) == pytest.approx(2, rel=1e-6)


def test_every_small_stream_of_mistakes_costs_epsilon_once() -> None:
    streams = list(product((0, 1), repeat=5))
    laws = {stream: transcripts(mistakes, fixed(stream, 1), 5) for stream in streams}
    worst = max(
        largest_loss(laws[one], laws[(*one[:i], 1 - one[i], *one[i + 1 :])])
        for one, i in product(streams, range(5))
    )
    assert 0.999 < worst <= 1 + 1e-9


def test_a_shift_up_is_paid_by_the_threshold_noise_alone_and_all_of_it() -> None:
    only: Transcript = (False,) * 12
    pair: Pair = (lambda past: (0 if past else 12, 0), lambda past: (0 if past else 13, 0))
    assert loss_on(mistakes, pair, only) == pytest.approx(1, rel=1e-6)


def test_a_shift_down_is_paid_by_the_firing_alone_and_all_of_it() -> None:
    only: Transcript = (*(False,) * 12, True)
    thresholds, quiet = [0] * 12 + [40], [12] + [0] * 11
    pair: Pair = (
        lambda past: ([*quiet, 0][len(past)], thresholds[len(past)]),
        lambda past: ([*quiet, 1][len(past)], thresholds[len(past)]),
    )
    assert loss_on(mistakes, pair, only) == pytest.approx(1, rel=1e-6)


def test_a_user_with_three_rounds_in_three_epochs_costs_epsilon_once() -> None:
    make = partial(MistakesMonitor, epsilon=3, cap=3)
    streams = list(product((0, 1), repeat=4))
    laws = {stream: transcripts(make, fixed(stream, 1), 4) for stream in streams}
    worst = max(
        largest_loss(laws[one], laws[other])
        for one, other in product(streams, streams)
        if sum(x != y for x, y in zip(one, other, strict=True)) <= 3
    )
    assert 2 < worst <= 3 + 1e-9


def test_a_public_restart_is_free() -> None:
    class Restarting(MistakesMonitor):
        def run(self, mistakes: Any, thresholds: Any) -> int | None:
            fired = super().run(mistakes, thresholds)
            if self.checks == 2:
                self.restart()
            return fired

    streams = list(product((0, 1), repeat=4))
    make = partial(Restarting, epsilon=1)
    laws = {stream: transcripts(make, fixed(stream, 1), 4) for stream in streams}
    worst = max(
        largest_loss(laws[one], laws[(*one[:i], 1 - one[i], *one[i + 1 :])])
        for one, i in product(streams, range(4))
    )
    assert worst <= 1 + 1e-9


@given(
    seed=st.integers(0, 2**32),
    releases=st.integers(1, 4),
    queries=st.lists(st.integers(-(10**9), 10**9), max_size=30),
    epsilon=st.sampled_from([1e-6, 0.1, 1.0, 100.0]),
)
def test_it_fires_as_often_as_promised_and_never_again(
    seed: int, releases: int, queries: list[int], epsilon: float
) -> None:
    monitor = sparse(releases, epsilon)(SeededNoise(seed))
    answers = [monitor.check(query, threshold=0) for query in queries]
    assert sum(answers) == monitor.firings <= releases
    assert monitor.exhausted == (sum(answers) == releases)
    if monitor.exhausted:
        assert not monitor.check(10**9, threshold=0)


@given(
    threshold_noise=st.integers(-50, 50),
    shocks=st.lists(st.integers(-50, 50), min_size=1, max_size=12),
    data=st.data(),
)
def test_it_agrees_with_the_definition(
    threshold_noise: int, shocks: list[int], data: st.DataObject
) -> None:
    script = {("threshold", 0, 0): threshold_noise}
    script |= {("query", n, 0): shock for n, shock in enumerate(shocks)}
    monitor = sparse(99)(ScriptedNoise(script))
    for shock in shocks:
        query = data.draw(st.integers(-100, 100))
        assert monitor.check(query, threshold=7) == (query + shock >= 7 + threshold_noise)


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
        assert (monitor.run([new], [5]) is not None) == fired
        count, epoch = (0, epoch + 1) if fired else (count, epoch)


def test_the_split_is_the_best_one_and_spends_everything() -> None:
    for releases in (1, 4, 1000):
        monitor = sparse(releases)(ScriptedNoise({}))
        threshold_noise, query = monitor._scales()
        assert 1 / threshold_noise + 2 * releases / query == 1
        assert float(2 * releases * threshold_noise / query) == pytest.approx(
            (2 * releases) ** (2 / 3), rel=1e-3
        )
