"""`littlestone audit`, exactly: plans keep their claims and come close; planted faults do not."""

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

import littlestone as ls
from littlestone._audit.audit import AuditTarget
from littlestone._audit.audit import published as seen_of
from littlestone._audit.enumeration import Finding
from littlestone._audit.gates import enumerated, mistakes_monitor, scaled_down, selection
from littlestone._audit.neighbours import for_causes
from littlestone._learners.causes_plan import CausesPlan
from littlestone._privacy.accounting import Cost
from littlestone._privacy.gates import MistakesMonitor
from littlestone._privacy.selection import StableHistogram

from . import faults

F = Fraction


def convicted(findings: Iterable[Finding]) -> bool:
    return not all(finding.kept for finding in findings)


PLANS: dict[str, Any] = {
    "practical": lambda: ls.Plan.practical(ls.Points(), 8, 1e-6, 1000),
    "capped": lambda: ls.Plan.practical(ls.Points(), 24, 1e-3, 1000, unit="user", cap=2),
    "experts": lambda: ls.ExpertsPlan.practical(ls.Thresholds(1, 99), 1, 1000),
    "tracking": lambda: ls.ExpertsPlan.practical(ls.Thresholds(1, 99), 3, 1000, change_cost=0),
    "costs": lambda: ls.ExpertsPlan.practical(ls.Thresholds(1, 99), 3, 1000, min_rate=0.2),
    "causes": lambda: CausesPlan.practical(ls.Causes(["a", "b"]), 1, 1e-6, 1000, min_rate=0.1),
    "auto": lambda: CausesPlan.practical(ls.Causes(["a", "b"], 2), 1, 1e-6, 1000),
    "fixed": lambda: CausesPlan.practical(
        ls.Causes(["a", "b"]), 1, 1e-6, 1000, min_rate=0.2, baseline="fixed"
    ),
    "users": lambda: CausesPlan.practical(ls.Causes(["a"]), 2, 1e-6, 1000, unit="user", cap=2),
    "table": lambda: CausesPlan.practical(ls.Causes(["a", "b"], 2), 1, 1e-6, 1000, table=True),
    "users of a table": lambda: CausesPlan.practical(
        ls.Causes(["a"]), 1, 1e-6, 1000, min_rate=0.5, unit="user", table=True
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_keeps_its_claims_and_comes_close_to_them(name: str) -> None:
    found = enumerated(PLANS[name]())
    assert found.kept
    reached: dict[str, float] = {}
    for finding in found.findings:
        reached[finding.mechanism] = max(reached.get(finding.mechanism, 0.0), finding.share)
        if finding.claim.delta == 0 and finding.share > 0.6:
            assert not replace(finding, claim=Cost(finding.claim.epsilon / 2)).kept
    least = {"capped": 0.45, "auto": 0.85, "users": 0.75, "users of a table": 0.75}.get(name, 0.95)
    assert min(reached.values()) > least, reached
    assert ("first window" in reached) == ("values" in reached) == (name == "auto")
    assert ("base rate" in reached) == ("table" in name)


@pytest.mark.parametrize("name", ["users", "table", "users of a table"])
def test_draws_without_a_monitor_cost_all_that_the_plan_leaves_them(name: str) -> None:
    """What is claimed for one draw, as often as it reads a unit, and for all counts, is the plan's."""
    plan = PLANS[name]()
    claims = {finding.mechanism: finding.claim for finding in enumerated(plan).findings}
    draws = [claim for mechanism, claim in claims.items() if mechanism.startswith("draw")]
    counted = [claims[part] for part in ("evidence", "base rate") if part in claims]
    spent = sum(counted, draws[0].times(plan.reads))
    assert 0 <= plan.epsilon - spent.epsilon < F(1, 10**5)
    assert spent.delta <= plan.delta < spent.delta * (1 + F(1, 10**5))


def test_what_cannot_be_enumerated_is_said() -> None:
    plan = ls.Plan.practical(ls.Points(), 8, 1e-6, 1000)
    small, notes = scaled_down(replace(plan, epsilon=F(1, 200), epsilon_monitor=F(1, 500)))
    assert small.epsilon > F(1, 200)
    assert "not enumerated at this size" in " ".join(notes)


@pytest.mark.parametrize(
    "kind",
    [
        faults.CountKeptAtFiring,
        faults.ThresholdNoiseShared,
        faults.Clamped,
        faults.NoQueryNoise,
        faults.SkipsQuietChecks,
    ],
)
def test_faulty_monitors_are_convicted(kind: type[MistakesMonitor]) -> None:
    assert convicted(mistakes_monitor(partial(kind, epsilon=1), F(1)))


@pytest.mark.parametrize("cap", [1, 3])
def test_the_monitor_costs_epsilon_once_and_all_of_it(cap: int) -> None:
    """However often it fires, and however a user's rounds are spread over epochs."""
    findings = list(mistakes_monitor(partial(MistakesMonitor, epsilon=cap, cap=cap), F(cap), cap))
    assert not convicted(findings)
    assert findings[-1].share > 0.999


@pytest.mark.parametrize(
    "kind",
    [
        StableHistogram,
        faults.NoiseForOneContribution,
        faults.MassAtThresholdLeftOut,
        faults.TiesByEntry,
        faults.TrueTopOfTheKept,
    ],
)
def test_faulty_histograms_are_convicted(kind: type[StableHistogram]) -> None:
    claim = Cost(F(2), F(1, 100))
    findings = list(selection(kind(epsilon=2, delta=0.01), claim))
    assert convicted(findings) == (kind is not StableHistogram)
    if kind is StableHistogram:
        assert findings[0].delta > 0.9 * mass_of_one_vote(), "a lone vote reaches delta"
        assert findings[-1].share > 0.99, "an underdog that wins reaches epsilon"


def mass_of_one_vote() -> float:
    histogram = StableHistogram(epsilon=2, delta=0.01)
    rate = 1 / float(histogram.scale)
    return math.exp(-(histogram.threshold - 1) * rate) / (1 + math.exp(-rate))


def test_keys_without_votes_that_stay_are_convicted() -> None:
    sound = StableHistogram(epsilon=1, delta=0.01)
    lone = max(finding.delta for finding in selection(sound, Cost(F(1), F(1, 100))))
    claim = Cost(F(1), F(lone * 1.001))
    assert convicted(selection(faults.EmptyKeysStay(epsilon=1, delta=lone * 1.001), claim))


def test_neighbours_for_runs_are_checked_at_the_threshold() -> None:
    cls = ls.Causes(["a", ls.Ranges("n", [1, 2])], width=2)
    plan = CausesPlan.practical(cls, 2, 1e-4, 1000, min_rate=0.2)
    (pair,) = for_causes(cls, plan)
    assert len(pair.one) % plan.check_every == 0
    missed = sum(y is True for _, y in pair.one)
    terms = plan.terms(1 / 4)
    level = plan.threshold(terms) * plan.slack(1 / 4, 0, known=False)
    assert missed == math.floor(level)
    control = AuditTarget("causes", cls, plan, 0).control
    assert control is not None
    assert isinstance(control.plan, CausesPlan)
    # Twice the epsilon, and the thresholds as they were.
    assert control.plan.epsilon == 2 * plan.epsilon
    double = terms._replace(monitor=2 * terms.monitor, rate=2 * terms.rate)
    assert control.plan.threshold(double) == plan.threshold(terms)
    seen = seen_of(control(), pair.one, pair)
    assert all(firing.round % plan.check_every == 0 for firing in seen)
