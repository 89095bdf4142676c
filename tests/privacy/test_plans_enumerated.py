"""`littlestone audit`, exactly: plans keep their claims, and the planted faults do not."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

import littlestone as ls
from littlestone._audit.enumeration import Enumerated
from littlestone._audit.gates import enumerated, epochs_gate, scaled_down, votes_gate
from littlestone._audit.laws import OLD, Finding, mistakes_monitor, selection, sparse_vector
from littlestone._privacy import (
    AboveThreshold,
    Cost,
    HistSparse,
    MistakesGate,
    MistakesMonitor,
    Noise,
    StableHistogram,
)
from littlestone._privacy.testing import ScriptedNoise

from . import faults

F = Fraction
ONE = F(1)


def convicted(findings: Iterator[Finding]) -> bool:
    return not all(finding.kept for finding in findings)


@pytest.mark.parametrize(
    "plan",
    [
        ls.Plan.practical(ls.Points(), 8, 1e-6, 1000),
        pytest.param(
            ls.Plan.practical(ls.Points(), 24, 1e-3, 1000, unit="user", cap=2),
            marks=pytest.mark.audit,
        ),
    ],
    ids=["practical", "capped"],
)
def test_a_plan_keeps_its_claims_and_comes_close_to_them(plan: ls.Plan) -> None:
    found = enumerated(plan)
    assert found.kept
    assert {finding.mechanism for finding in found.findings} >= {plan.selector}
    reached = {finding.mechanism: 0.0 for finding in found.findings}
    for finding in found.findings:
        reached[finding.mechanism] = max(reached[finding.mechanism], finding.share)
        if finding.claim.delta == 0 and finding.share > 0.6:
            half = Cost(finding.claim.epsilon / 2)
            assert not replace(finding, claim=half).kept
    least = 0.45 if plan.cap else 0.95
    assert min(reached.values()) > least, reached


def test_what_cannot_be_enumerated_is_said() -> None:
    plan = ls.Plan.practical(ls.Points(), 8, 1e-6, 1000)
    small, notes = scaled_down(replace(plan, epsilon=F(1, 20), epsilon_monitor=F(1, 50)))
    assert small.epsilon > F(1, 20)
    assert "not enumerated at this size" in " ".join(notes)


def sparse(kind: type[AboveThreshold], releases: int) -> Iterator[Finding]:
    make = partial(kind, epsilon=1, releases=releases)
    claimed = AboveThreshold(ScriptedNoise({}), epsilon=1, releases=releases)._scales()
    return sparse_vector(make, ONE, releases, claimed)


def test_faulty_sparse_vectors_are_convicted() -> None:
    assert not convicted(sparse(AboveThreshold, 2))
    assert convicted(sparse(faults.PrintedAlgorithm3, 1))
    assert convicted(sparse(faults.QueryNoiseNotScaled, 2))
    assert convicted(sparse(faults.HalvedNoise, 1))


@pytest.mark.parametrize(
    "fault",
    [
        faults.CountKeptAtFiring,
        pytest.param(faults.ThresholdNoiseShared, marks=pytest.mark.audit),
        pytest.param(faults.Clamped, marks=pytest.mark.audit),
        faults.NoQueryNoise,
        faults.SkipsQuietChecks,
    ],
)
def test_faulty_monitors_are_convicted(fault: type[MistakesMonitor]) -> None:
    assert convicted(mistakes_monitor(partial(fault, epsilon=1), ONE))


@pytest.mark.audit
def test_the_monitor_is_cleared_on_the_same_families() -> None:
    assert not convicted(mistakes_monitor(partial(MistakesMonitor, epsilon=1), ONE))


@pytest.mark.parametrize(
    "fault",
    [
        faults.NoiseForOneContribution,
        faults.MassAtThresholdLeftOut,
        faults.TiesByEntry,
        faults.TrueTopOfTheKept,
    ],
)
def test_faulty_histograms_are_convicted(fault: type[StableHistogram]) -> None:
    claim = Cost(F(2), F(1, 100))
    assert convicted(selection(fault(epsilon=2, delta=0.01), claim))
    assert not convicted(selection(StableHistogram(epsilon=2, delta=0.01), claim))


def test_keys_without_votes_that_stay_are_convicted() -> None:
    sound = StableHistogram(epsilon=1, delta=0.01)
    lone = max(finding.delta for finding in selection(sound, Cost(ONE, F(1, 100))))
    claim = Cost(ONE, F(lone * 1.001))
    assert convicted(selection(faults.EmptyKeysStay(epsilon=1, delta=lone * 1.001), claim))


def test_a_count_kept_at_none_is_convicted() -> None:
    histogram = StableHistogram(epsilon=1, delta=0.01)
    gates = {
        kind: partial(
            kind,
            epsilon=1,
            selector=Enumerated(histogram, width=600),
            threshold=lambda age, refusals: 1,
            published=OLD,
        )
        for kind in (faults.CountKeptAtNone, MistakesGate)
    }
    verdicts = [
        convicted(epochs_gate(make, Cost(F(2), F(1, 100)), ONE, histogram))
        for make in gates.values()
    ]
    assert verdicts == [True, False]


@pytest.mark.parametrize(
    "fault",
    [pytest.param(faults.PrintedAlgorithm2, marks=pytest.mark.audit), faults.NoneIsNotCharged],
)
def test_faulty_votes_gates_are_convicted(fault: type[HistSparse]) -> None:
    histogram = StableHistogram(epsilon=2, delta=0.01)
    selector = Enumerated(histogram, width=1000)
    claim = Cost(F(4), F(1, 100))

    def make(kind: type[HistSparse], noise: Noise, trees: int, threshold: int) -> HistSparse:
        gate = kind(
            noise,
            epsilon=4,
            delta=0.01,
            releases=1,
            trees=trees,
            threshold=threshold,
            published=OLD,
        )
        gate._selector = selector
        gate.leave_out_published = fault is faults.NoneIsNotCharged
        return gate

    scales = F(2), F(2)
    assert convicted(votes_gate(partial(make, fault), claim, 1, scales, histogram))
    if fault is faults.PrintedAlgorithm2:
        assert not convicted(votes_gate(partial(make, HistSparse), claim, 1, scales, histogram))
