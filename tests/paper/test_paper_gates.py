"""The paper's own gates (Algorithms 2 and 3, Theorem 4.2): enumerated, and with planted faults."""

from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import scaled
from littlestone._audit.enumeration import (
    ByLaw,
    Finding,
    World,
    delta_at,
    largest_loss,
    transcripts,
    worst,
)
from littlestone._audit.gates import OLD, VOTES, A, B, fixed, neighbouring_laws
from littlestone._privacy.accounting import Cost
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.noise import Noise
from littlestone._privacy.selection import StableHistogram
from littlestone._privacy.testing import ScriptedNoise, SeededNoise
from littlestone.paper import AboveThreshold, composed_epsilon
from littlestone.paper.gates import EveryCheck, HistSparse
from privacy import faults
from privacy.paper_laws import every_check, forest, sparse_vector, votes_gate
from privacy.reacting import reacting, reacting_laws

F = Fraction


def convicted(findings: Iterable[Finding]) -> bool:
    return not all(finding.kept for finding in findings)


def hist_sparse(noise: Noise, kind: type[HistSparse] = HistSparse, **options: Any) -> HistSparse:
    usual = {"epsilon": 8, "delta": 0.4, "releases": 2, "trees": 2, "threshold": 1}
    gate = kind(noise, published=OLD, **usual | options)
    cost = gate.selector.cost
    if cost not in _laws:
        _laws[cost] = ByLaw(StableHistogram(epsilon=cost.epsilon, delta=cost.delta))
    gate.selector = _laws[cost]
    return gate


_laws: dict[object, ByLaw] = {}


def test_hist_sparse_keeps_its_claim() -> None:
    law_of = lambda rows: transcripts(hist_sparse, forest(rows), 3)  # noqa: E731
    found = worst("gate", "small", Cost(F(8), F(2, 5)), neighbouring_laws(law_of, VOTES, 3))
    assert found.kept
    assert 0.1 < found.delta <= 0.2
    pairs = reacting_laws(law_of, VOTES, 3, scaled(6, least=2))
    assert all(delta_at(8, *pair) <= 0.2 for pair in pairs)


def test_the_last_firing_still_releases_and_then_it_serves_for_ever() -> None:
    gate = HistSparse(
        ScriptedNoise({}),
        epsilon=1,
        delta=1e-6,
        releases=2,
        trees=300,
        threshold=150,
        published=OLD,
    )
    assert gate.check({A: 300}) == Decision(True, A)
    assert gate.check({A: 300}) == NO_CHANGE
    assert gate.check({B: 300}) == Decision(True, B)
    assert gate.exhausted
    assert gate.check({A: 300}) == NO_CHANGE
    assert gate.published == B


def test_the_ledger_never_passes_the_promise() -> None:
    gate = HistSparse(
        SeededNoise(3), epsilon=1, delta=1e-6, releases=3, trees=9, threshold=0, published=OLD
    )
    for _ in range(2000):
        gate.check({A: 9})
    assert gate.exhausted
    assert gate.spent == gate.cost == gate.total


def test_the_printed_algorithm_3_loses_more_with_every_check() -> None:
    make = partial(faults.PrintedAlgorithm3, epsilon=1, releases=1)
    for checks, loss in ((12, 3), (200, 50)):
        one, other = (
            transcripts(make, fixed([(n, 0)] * checks), checks, (False,) * checks) for n in (10, 11)
        )
        assert largest_loss(one, other) == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "releases"),
    [
        (AboveThreshold, 2),
        (faults.PrintedAlgorithm3, 1),
        (faults.QueryNoiseNotScaled, 2),
        (faults.HalvedNoise, 1),
    ],
)
def test_faulty_sparse_vectors_are_convicted(kind: type[AboveThreshold], releases: int) -> None:
    make = partial(kind, epsilon=1, releases=releases)
    scale = AboveThreshold(ScriptedNoise({}), epsilon=1, releases=releases).query_scale
    findings = list(sparse_vector(make, F(1), releases, scale))
    if kind is not AboveThreshold:
        assert convicted(findings)
    else:
        assert all(finding.kept for finding in findings)
        assert findings[-1].share > 0.999, "the claim is attained"


@pytest.mark.parametrize("kind", [HistSparse, faults.PrintedAlgorithm2, faults.NoneIsNotCharged])
def test_faulty_votes_gates_are_convicted(kind: type[HistSparse]) -> None:
    histogram = StableHistogram(epsilon=2, delta=0.01)

    def make(noise: Noise, trees: int, threshold: int) -> HistSparse:
        asked: dict[str, Any] = {"epsilon": 4, "delta": 0.01, "releases": 1}
        return hist_sparse(noise, kind, **asked, trees=trees, threshold=threshold)

    found = convicted(votes_gate(make, Cost(F(4), F(1, 100)), 1, F(2), histogram))
    assert found == (kind is not HistSparse)


EPSILON, DELTA, RELEASES = 8, 0.3, 3


def every(noise: Noise) -> EveryCheck:
    made = EveryCheck(noise, epsilon=EPSILON, delta=DELTA, releases=RELEASES, published=OLD)
    if made.each not in _laws:
        histogram = StableHistogram(epsilon=made.each.epsilon, delta=made.each.delta)
        _laws[made.each] = ByLaw(histogram)
    made.selector = _laws[made.each]
    return made


def test_a_selection_at_every_check_is_within_the_claim() -> None:
    found = every_check(F(EPSILON), F(DELTA), RELEASES)
    assert found.kept
    assert 0.2 * DELTA < found.delta <= DELTA

    def world(replaced: int | None) -> World:
        return forest(reacting(0, VOTES, replaced))

    one = transcripts(every, world(None), RELEASES)
    for replaced in range(RELEASES):
        assert delta_at(EPSILON, one, transcripts(every, world(replaced), RELEASES)) <= DELTA


@pytest.mark.parametrize(("epsilon", "releases"), [(4, 3), (2, 400)])
def test_what_is_spent_grows_up_to_the_promise(epsilon: float, releases: int) -> None:
    made = EveryCheck(SeededNoise(1), epsilon=epsilon, delta=1e-3, releases=releases, published=OLD)
    spending = []
    for _ in range(releases + 2):
        made.check({A: 9})
        if made.releases_made % 50 < 4:
            spending.append(made.spent.epsilon)
    assert made.exhausted
    assert made.releases_made == len(made.ledger) == releases
    assert spending == sorted(spending)
    assert F(9, 10) * epsilon < spending[-1] <= epsilon
    assert composed_epsilon(made.each, releases, F(1e-3)) <= epsilon


@given(
    seed=st.integers(0, 2**32),
    releases=st.integers(1, 4),
    queries=st.lists(st.integers(-(10**9), 10**9), max_size=30),
    epsilon=st.sampled_from([1e-6, 0.1, 1.0, 100.0]),
)
def test_it_fires_as_often_as_promised_and_never_again(
    seed: int, releases: int, queries: list[int], epsilon: float
) -> None:
    monitor = AboveThreshold(SeededNoise(seed), epsilon=epsilon, releases=releases)
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
    monitor = AboveThreshold(ScriptedNoise(script), epsilon=1, releases=99)
    for shock in shocks:
        query = data.draw(st.integers(-100, 100))
        assert monitor.check(query, threshold=7) == (query + shock >= 7 + threshold_noise)


def test_the_split_is_the_best_one_and_spends_everything() -> None:
    for releases in (1, 4, 1000):
        monitor = AboveThreshold(ScriptedNoise({}), epsilon=1, releases=releases)
        threshold_noise, query = monitor.threshold_scale, monitor.query_scale
        assert float(1 / threshold_noise + 2 * releases / query) == pytest.approx(1)
        assert float(2 * releases * threshold_noise / query) == pytest.approx(
            (2 * releases) ** (2 / 3), rel=1e-3
        )
