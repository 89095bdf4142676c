"""Enumerate every mechanism of a plan against its claim.

`enumerated(plan)` takes the plan's own monitor, draw and gate, with its epsilons, its delta and its
noise. Counts that only utility depends on (thresholds, trees, the schedule) are scaled down, and so
is noise too wide to enumerate; the notes say what was changed.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from littlestone._audit.enumeration import ByLaw, Finding, enumerable
from littlestone._audit.gates import (
    OLD,
    causes_findings,
    exponential,
    mistakes_monitor,
    rules_findings,
    selection,
    votes_findings,
)
from littlestone._audit.runs import AnyPlan
from littlestone._learners.causes_plan import AUTO, CausesPlan
from littlestone._learners.experts import ExpertsPlan
from littlestone._learners.plan import Plan
from littlestone._privacy.accounting import Cost
from littlestone._privacy.gates import Gate
from littlestone._privacy.noise import Noise
from littlestone._privacy.settling import SearchOrCompare
from littlestone._privacy.sparse_vector import MistakesMonitor
from littlestone._privacy.testing import ScriptedNoise

# The widest noise that is enumerated: beyond it, a larger epsilon is enumerated instead.
WIDEST = 256


@dataclass(frozen=True)
class Enumeration:
    """Hold what was found for a plan, and what was not enumerated as it stands."""

    plan: AnyPlan
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Return whether every claim holds on every family."""
        return all(finding.kept for finding in self.findings)


def enumerated(
    plan: AnyPlan, watch: Callable[[Finding], None] = lambda finding: None
) -> Enumeration:
    """Enumerate every mechanism of a plan."""
    findings: list[Finding] = []
    notes, found = _enumerated(plan)
    for finding in found:
        findings.append(finding)
        watch(finding)
    return Enumeration(plan, tuple(findings), tuple(notes))


def _enumerated(plan: AnyPlan) -> tuple[list[str], Iterator[Finding]]:
    if isinstance(plan, ExpertsPlan):
        factor, notes = _narrowed(max(1 / plan.epsilon_monitor, 1 / plan.epsilon_selector))
        larger = replace(
            plan, epsilon=plan.epsilon * factor, epsilon_monitor=plan.epsilon_monitor * factor
        )
        return [*notes, "the gate enumerated with two rules"], _experts_findings(larger)
    if isinstance(plan, CausesPlan):
        return _causes_notes(plan), causes_findings(plan)
    small, notes = scaled_down(plan)
    return notes, _findings(small)


def _experts_findings(plan: ExpertsPlan) -> Iterator[Finding]:
    """Enumerate every mechanism of a plan of private experts."""
    monitor, selector = plan.epsilon_monitor, plan.epsilon_selector
    yield from mistakes_monitor(lambda noise: MistakesMonitor(noise, epsilon=monitor), monitor)
    yield from exponential(selector)
    stays = bool(plan.change_cost)
    yield from rules_findings(monitor, selector, stays=stays, costed=plan.units > 1)


def _causes_notes(plan: CausesPlan) -> list[str]:
    """Return what is not enumerated as the plan has it."""
    notes = [
        f"the gate enumerated with thresholds of its families and a check each round, or one for "
        f"all rounds (the plan's: every {plan.check_every}): neither enters a proof"
    ]
    if plan.min_rate == AUTO:
        notes.append("the gate enumerated at the smallest and the largest min_rate of 'auto'")
    if plan.cap is not None:
        notes.append(
            f"claims are for one round: a user of {plan.cap} is a group of so many (Theorem 14)"
        )
    return notes


def _narrowed(widest: Fraction) -> tuple[int, list[str]]:
    """Return the factor by which epsilon is raised so that noise can be enumerated, and a note."""
    # The proof scales with epsilon, so a larger one tests the same code.
    factor = max(1, math.ceil(widest / WIDEST))
    note = (
        f"noise of scale {math.ceil(widest):,} is not enumerated at this size: the same code was, "
        f"at {factor:,} times the plan's epsilon"
    )
    return factor, [note] if factor > 1 else []


def scaled_down(plan: Plan) -> tuple[Plan, list[str]]:
    """Return the plan with counts that can be enumerated, and notes on what was changed."""
    # Privacy is proved for every threshold and schedule: the smallest are enumerated fastest.
    small = replace(plan, thresholds=(1,), check_every=1)
    thresholds = ", ".join(map(str, plan.thresholds))
    notes = [
        f"gates enumerated with a threshold of 1 (the plan's: {thresholds}) and a check each round "
        f"(the plan's: every {plan.check_every}): neither enters a proof"
    ]
    factor, note = _narrowed(max(_query_scale(small), 2 / small.epsilon_selector))
    small = replace(
        small, epsilon=plan.epsilon * factor, epsilon_monitor=plan.epsilon_monitor * factor
    )
    return small, notes + note


def _gate(plan: Plan, noise: Noise) -> Gate[Mapping[bytes, int]]:
    return plan.gate(noise, OLD, lambda: 1)


def _query_scale(plan: Plan) -> Fraction:
    return _gate(plan, ScriptedNoise({}))._monitor._query_scale


def _findings(plan: Plan) -> Iterator[Finding]:
    draw = _gate(plan, ScriptedNoise({})).draw
    assert isinstance(draw, SearchOrCompare)
    search, by_law = draw.search, ByLaw(draw.search)
    yield from mistakes_monitor(
        lambda noise: _gate(plan, noise)._monitor, plan.epsilon_monitor, plan.cap or 1
    )
    yield from selection(search, Cost(plan.epsilon_selector, plan.delta_selector))

    def make(noise: Noise) -> Gate[Mapping[bytes, int]]:
        gate = enumerable(_gate(plan, noise))
        assert isinstance(gate.draw, SearchOrCompare)
        # One for all, so that the law of a ballot is computed once.
        gate.draw.search = by_law
        return gate

    claim = Cost(plan.epsilon, plan.delta)
    yield from votes_findings(make, claim, _query_scale(plan), search)
