"""The gate that draws a rule or stays (Theorem 17), enumerated, with planted faults."""

import json
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import scaled
from littlestone._audit.enumeration import EnumeratedTranscript, largest_loss, transcripts
from littlestone._audit.laws import A, B
from littlestone._audit.stay import (
    EVEN_ROWS,
    Losses,
    extremal_stays,
    pinned_stays,
    repeated_stays,
    small_stays,
    stay_gate,
    two_rules,
)
from littlestone._learners.stay import COUNTED, LARGEST_LOSS, StaySchedule
from littlestone._privacy import BadParameter
from littlestone._privacy.accounting import spent
from littlestone._privacy.exponential import draw_by_score
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import LARGEST_INTEGER
from littlestone._privacy.stay import STAY, StayGate, StayOrDraw, Tenure
from littlestone._privacy.testing import ScriptedNoise, SeededNoise

BUDGET = Fraction(1), Fraction(2)


@pytest.mark.parametrize("costed", [False, True])
@pytest.mark.parametrize("rounds", [2, pytest.param(3, marks=pytest.mark.audit)])
def test_every_small_stream_is_within_the_claim(rounds: int, costed: bool) -> None:
    found = small_stays(*BUDGET, rounds, costed=costed)
    assert found.kept
    assert found.share > 0.8


def test_one_round_can_cost_all_that_is_claimed() -> None:
    found = extremal_stays(*BUDGET)
    assert found.kept
    assert found.share > 0.999


def test_stays_and_firings_later_on_cost_nothing_more() -> None:
    assert repeated_stays(*BUDGET).kept
    assert pinned_stays(*BUDGET).kept


def rows_that_react(seed: int, replaced: int | None = None) -> Any:
    """Rows that depend on everything released before; the same but for the replaced round."""

    def row(past: EnumeratedTranscript) -> Losses:
        world = "other" if len(past) == replaced else "one"
        return random.Random(repr((seed, past, world))).choice(EVEN_ROWS)

    return row


def test_worlds_that_react_are_within_the_claim() -> None:
    def make(noise: Noise) -> StayGate:
        return stay_gate(noise, *BUDGET)

    for seed in range(scaled(4, least=1)):
        one = transcripts(make, two_rules(rows_that_react(seed)), 4, width=8)
        for replaced in range(4):
            other = transcripts(make, two_rules(rows_that_react(seed, replaced)), 4, width=8)
            assert largest_loss(one, other) <= float(sum(BUDGET)) + 1e-9


def test_a_stay_weight_that_is_read_from_the_rows_is_caught() -> None:
    assert small_stays(*BUDGET, 2, fault="stay weight from rows").share > 1.3


def test_a_loss_that_survives_a_draw_is_caught() -> None:
    assert small_stays(*BUDGET, 3, fault="loss kept").share > 1.3


def test_costs_with_the_noise_of_a_unit_are_caught() -> None:
    assert small_stays(*BUDGET, 2, costed=True, fault="unit noise").share > 1.3


def test_counts_that_survive_a_stay_are_caught() -> None:
    assert repeated_stays(*BUDGET, fault="counts kept").share > 1.3


def test_epochs_that_share_their_threshold_noise_are_caught() -> None:
    assert pinned_stays(*BUDGET, fault="shared noise").share > 1.3


def real_gate(noise: Noise, units: int = 1) -> StayGate:
    return StayGate(
        noise,
        epsilon=1,
        selector=StayOrDraw((A, B), epsilon=2, sensitivity=units),
        schedule=StaySchedule(base=2 * units, rate=1 / units, check_every=2, units=units),
        published=A,
        check_every=2,
        largest_loss=units,
    )


def losses_of(seed: int, units: int, checks: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.choice([0, 0, 0, 1, units, 2 * units]) for _ in range(checks)]


@given(seed=st.integers(0, 2**32), units=st.sampled_from([1, 3]))
def test_runs_of_any_size_are_checks_one_by_one_also_across_a_restart(
    seed: int, units: int
) -> None:
    """Windows that end, epochs that end by their age, and a state that moves through JSON."""
    losses = losses_of(seed, units, 400)
    single = real_gate(SeededNoise(seed), units)
    ballot = [0, -3, 0]
    wanted = [single.check(loss, ballot) for loss in losses]
    gate, draw = real_gate(SeededNoise(seed), units), random.Random(seed)
    found: list[Any] = []
    while len(found) < len(losses):
        step = gate.run(losses[len(found) :][: draw.randint(1, 60)], lambda place: ballot)
        found += [(False, None)] * (step.checks - 1) + [step.decision]
        if draw.random() < 0.2:
            state = json.loads(json.dumps(gate.export()))
            gate = real_gate(SeededNoise(seed), units)
            gate.resume(state)
    assert found == wanted
    assert gate.tenure == single.tenure
    assert gate.ledger == single.ledger
    assert gate.spent == spent(gate.ledger)
    assert gate._total().epsilon == 3
    assert single.releases_made > 3


def test_a_tenure_comes_to_windows_and_to_draws_at_a_public_age() -> None:
    gate = real_gate(SeededNoise(1))
    fired = 0
    while gate.tenure.refusals < COUNTED + 2:
        fired += gate.check(1, [0, -90, 0]).fired
    assert fired == gate.releases_made
    window, epoch = gate._schedule.window(gate.tenure), gate._schedule.epoch(gate.tenure)
    assert window is not None
    assert epoch == 2 * gate.tenure.longest
    # Without any further mistake nothing fires, and the draw comes by its age.
    checks = 1
    while not gate.check(0, [0, -90, 0]).fired:
        checks += 1
    assert 2 * checks == epoch


@pytest.mark.parametrize("losses", [0, 2])
def test_what_the_monitor_answers_at_a_public_age_is_not_remembered(losses: int) -> None:
    """The draw is made there in any case, so the transcript does not tell whether it fired."""
    gate = real_gate(ScriptedNoise({}))
    while gate.tenure.refusals < COUNTED:
        gate.check(1, [0, -90, 0])
    before = gate.tenure
    gate.tenure = before._replace(longest=1)
    # The epoch's only check: with a loss of 2 and these thresholds the monitor fires at it.
    gate._schedule = FiringSchedule(gate._schedule)
    assert gate.check(losses, [0, -90, 0]) == (True, None)
    assert gate.tenure == Tenure(COUNTED + 1, 0, before.loss, before.rounds, 2)


class FiringSchedule:
    """A schedule with thresholds that a loss of 2 reaches."""

    def __init__(self, schedule: Any) -> None:
        self.window, self.epoch, self.stayed = schedule.window, schedule.epoch, schedule.stayed

    def thresholds(self, tenure: Tenure, ages: Any) -> Any:
        return 2 if isinstance(ages, int) else np.full(len(ages), 2)


def test_a_change_begins_a_new_tenure_and_the_published_key_is_no_candidate() -> None:
    gate = real_gate(SeededNoise(3))
    while gate.check(2, [90, 0, -90]).key is None:
        pass
    assert gate.published == B
    assert gate.tenure == Tenure()


def test_a_margin_is_set_before_an_epoch_only() -> None:
    gate = real_gate(SeededNoise(1))
    gate.set_margin(5)
    assert gate.tenure.margin == 5
    gate.check(0, [0, 0, 0])
    with pytest.raises(BadParameter, match="begun"):
        gate.set_margin(6)


def test_more_mistakes_than_rounds_are_refused() -> None:
    with pytest.raises(BadParameter, match="7 mistakes in 2 rounds"):
        real_gate(SeededNoise(1), units=3).check(7, [0, 0, 0])


def test_staying_has_the_law_of_one_more_candidate() -> None:
    mechanism, scores = StayOrDraw((A, B), epsilon=2), [3, 1, 2]
    keys = [A, B, STAY]
    for release in range(scaled(200, least=50)):
        key = mechanism.select(scores, SeededNoise(7), release)
        drawn = keys[draw_by_score(scores, Fraction(1), SeededNoise(7), release)]
        assert key == (None if drawn == STAY else drawn)


@pytest.mark.parametrize("margin", [0, 2**40, LARGEST_LOSS])
@pytest.mark.parametrize("base", [1, 2**63, 2**70])
def test_thresholds_stay_within_what_a_monitor_takes(base: int, margin: int) -> None:
    schedule = StaySchedule(base=base, rate=1e-9, check_every=4)
    tenure = Tenure(margin=margin)
    ages = np.array([4, 2**40])
    for _ in range(COUNTED + 3):
        limits = schedule.thresholds(tenure, ages)
        assert (limits > 0).all()
        assert (limits <= LARGEST_INTEGER).all()
        assert (np.diff(limits) >= 0).all()
        tenure = schedule.stayed(tenure, 2**40, 2**40)


def test_checks_one_by_one_are_a_run_of_checks() -> None:
    single, batch = real_gate(SeededNoise(5)), real_gate(SeededNoise(5))
    losses, ballot, done = [1, 0, 0, 1, 0, 0] * 3000, [0, -90, 0], 0
    while done < len(losses):
        made, decision = batch.run(losses[done:], lambda place: ballot)
        one_by_one = [single.check(loss, ballot) for loss in losses[done : done + made]]
        done += made
        assert one_by_one[-1] == decision
        assert not any(one.fired for one in one_by_one[:-1])
        assert (single.tenure, single.age) == (batch.tenure, batch.age)
    assert batch.tenure.refusals > COUNTED, "windows ended, too"
