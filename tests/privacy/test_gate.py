"""The gate's own code: batches of any size, states that move, ages, ledgers, and its schedules."""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import state_of
from effort import scaled
from littlestone._learners.stay import COUNTED, LARGEST_LOSS, StaySchedule, Tenure
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import CausesMechanism, CausesSchedule, Gains, SparseExponential
from littlestone._privacy.draws import STAY, ExponentialMechanism, StayOrDraw, draw_by_score
from littlestone._privacy.gates import NO_CHANGE, Decision, Gate
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import LARGEST_INTEGER, BadParameter
from littlestone._privacy.schedules import (
    MOST_GIVEN_UP,
    Climbing,
    EpochEnd,
    Settling,
)
from littlestone._privacy.selection import SearchOrCompare, StableHistogram
from littlestone._privacy.testing import ScriptedNoise, SeededNoise

F = Fraction
TWO = F(2)
OLD, A, B = b"o", b"a", b"b"


def climbing_gate(noise: Noise, **options: Any) -> Gate[Any]:
    usual: dict[str, Any] = {
        "epsilon": 1,
        "schedule": Climbing(lambda ages, refusals: 2 + refusals),
        "draw": StableHistogram(epsilon=2, delta=0.01),
        "published": OLD,
        "check_every": 2,
    }
    return Gate(noise, **usual | options)


def settling_gate(noise: Noise, **options: Any) -> Gate[Any]:
    public = {
        "threshold": lambda ages, refusals, comparing: 1,
        "margin": lambda refusals, comparing: 2,
        "fallbacks": tuple,
    }
    settling = Settling(**{name: options.pop(name, usual) for name, usual in public.items()})
    draw = SearchOrCompare(StableHistogram(epsilon=2, delta=0.01), settling)
    usual: dict[str, Any] = {"published": OLD, "check_every": 2}
    return Gate(noise, epsilon=1, schedule=settling, draw=draw, **usual | options)


def stay_gate(noise: Noise, units: int = 3) -> Gate[Any]:
    return Gate(
        noise,
        epsilon=1,
        schedule=StaySchedule(2 * units, 1 / units, 2, units),
        draw=StayOrDraw((A, B), epsilon=2, sensitivity=units),
        published=A,
        check_every=2,
        largest_loss=units,
    )


def causes_gate(noise: Noise) -> Gate[Any]:
    def threshold(ages: Any, refusals: int, rate: Fraction, margin: int) -> Any:
        return np.ceil(4 + refusals + float(rate) * ages).astype(np.int64)

    schedule = CausesSchedule(threshold, longest_epoch=60)
    draw = SparseExponential(
        rate=F(1, 2),
        delta=F(1, 100),
        prior=[F(1)],
        alarm=F(1, 3),
        margin=lambda: schedule.margin,
    )
    return Gate(noise, epsilon=1, schedule=schedule, draw=draw, check_every=2, largest_loss=3)


def scores_for(gate: Gate[Any]) -> Any:
    """Scores that a gate accepts now; on most of them it draws now this, now that."""
    if isinstance(gate.schedule, Settling):
        keys = (gate.published, *gate.schedule.known(gate.published))
        return dict.fromkeys(keys, 3) if gate.schedule.comparing else {A: 9, B: 9, OLD: 9}
    if isinstance(gate.schedule, CausesSchedule):
        adds, drops = np.array([40, 1]), np.array([5])
        return Gains(adds, np.zeros(2, np.intp), [A, B].__getitem__, drops, [OLD])
    return [0, -3, 0] if isinstance(gate.schedule, StaySchedule) else {A: 9, B: 8}


def _scores_at(gate: Gate[Any], place: int) -> Any:
    return scores_for(gate)


GATES: dict[str, Callable[[Noise], Gate[Any]]] = {
    "climbing": climbing_gate,
    "settling": settling_gate,
    "staying": stay_gate,
    "causes": causes_gate,
}


@pytest.mark.parametrize("kind", GATES)
@given(seed=st.integers(0, 2**32))
def test_batches_of_any_size_and_moved_states_decide_alike(kind: str, seed: int) -> None:
    """Windows that end, epochs that end by their age, and a state that moves through JSON."""
    make, draw = GATES[kind], random.Random(seed)
    whole = make(SeededNoise(seed))
    losses = [draw.choice([0, 0, 1, whole.largest_loss]) for _ in range(300)]
    wanted = [whole.run([loss], lambda place, fired: scores_for(whole)).decision for loss in losses]
    gate, found = make(SeededNoise(seed)), list[Any]()
    while len(found) < len(losses):
        batch = losses[len(found) :][: draw.randint(1, 60)]
        checks, decision = gate.run(batch, partial(_scores_at, gate))
        found += [NO_CHANGE] * (checks - 1) + [decision]
        if draw.random() < 0.2:
            state = state_of(gate)
            gate = make(SeededNoise(seed))
            gate.resume(state)
    assert found == wanted
    assert gate.schedule.dump() == whole.schedule.dump()
    assert gate.ledger == whole.ledger
    assert gate.spent.epsilon <= gate.total.epsilon
    assert sum(decision.fired for decision in found) == gate.releases_made > 3
    assert gate.spent == gate.total
    assert not gate.exhausted
    assert math.isinf(gate.guarantee.epsilon), "noise that anyone may know protects no one"


@pytest.mark.parametrize("kind", GATES)
def test_a_state_moves_between_equal_promises_only(kind: str) -> None:
    gate = GATES[kind](SeededNoise(1))
    state = state_of(gate)
    with pytest.raises(BadParameter):
        GATES[kind](SeededNoise(2)).resume(state)
    with pytest.raises(BadParameter):
        climbing_gate(SeededNoise(1), epsilon=3).resume(state)


def test_a_larger_loss_than_rounds_can_have_is_refused() -> None:
    with pytest.raises(BadParameter, match="loss of 7 in 2 rounds"):
        stay_gate(SeededNoise(1)).run([7], lambda place, fired: [0, 0, 0])


def test_the_schedule_hears_public_things_only() -> None:
    heard: list[tuple[int, int]] = []

    def threshold(ages: Any, refusals: int) -> int:
        heard.append((int(ages), refusals))
        return 2

    gate = climbing_gate(ScriptedNoise({}), schedule=Climbing(threshold), check_every=4)
    for loss in (0, 4, 4, 0):
        gate.run([loss], lambda place, fired: {A: 3})
    assert heard == [(4, 0), (8, 0), (4, 1), (4, 2)]
    assert gate.run([4], lambda place, fired: {A: 90}).decision.key == A
    gate.run([0], lambda place, fired: {})
    assert heard[-2:] == [(8, 2), (4, 0)], "a rule that is named ends the refusals"


def test_scores_are_asked_for_at_draws_only_and_for_the_check_that_fired() -> None:
    asked: list[int] = []

    def scores(place: int) -> dict[bytes, int]:
        asked.append(place)
        return {A: 90}

    gate = climbing_gate(ScriptedNoise({}))
    assert gate.run([0, 0, 1, 1, 0], scores) == (4, Decision(True, A))
    assert asked == [3]


@pytest.mark.parametrize("left_out", [True, False])
def test_the_published_key_may_be_left_out(left_out: bool) -> None:
    keys = [b"%d" % n for n in range(5)]
    gate = climbing_gate(
        ScriptedNoise({}),
        schedule=Climbing(lambda ages, refusals: 1),
        draw=ExponentialMechanism(keys, epsilon=0.5),
        published=keys[0],
        leave_out_published=left_out,
    )
    answers = [gate.run([1], lambda n: [-9, -1, -5, -5, -5]).decision.key for _ in range(4)]
    assert answers == ([b"1", b"2", b"1", b"2"] if left_out else [b"1"] * 4)
    assert gate.spent.epsilon == gate.total.epsilon == 1.5


def test_draws_that_read_a_user_add_up_to_the_cap() -> None:
    gate = climbing_gate(SeededNoise(1), unit="user", cap=3)
    assert gate.spent.epsilon == 1
    while not gate.run([1], lambda place, fired: {A: 1}).decision.fired:
        pass
    assert gate.spent == gate.total == Cost(1 + 3 * F(2), 3 * F(0.01))
    for options in ({"cap": 3}, {"unit": "user"}, {"unit": "day"}):
        with pytest.raises(BadParameter):
            climbing_gate(ScriptedNoise({}), **options)


def test_an_end_that_has_passed_is_reached_at_the_next_check() -> None:
    """An epoch may be told its age in its middle: that is public at any time."""
    gate = causes_gate(ScriptedNoise({}))
    gate.run([0] * 5, lambda place, fired: None)
    schedule = gate.schedule
    assert isinstance(schedule, CausesSchedule)
    schedule.begin_epoch(4)
    assert gate.run([0, 0], lambda place, fired: scores_for(gate)).checks == 1
    assert gate.releases_made == 1


# Settling.


def decide(gate: Gate[Any], scores: Any) -> Decision:
    return gate.run([1], lambda place, fired: scores).decision


def test_known_keys_are_left_out_of_searches_and_decided_by_comparisons() -> None:
    gate = settling_gate(ScriptedNoise({}), fallbacks=lambda: (B,))
    settling = gate.schedule
    assert isinstance(settling, Settling)
    assert decide(gate, {A: 60}) == Decision(True, A)
    assert settling.known(A) == (B, OLD)
    assert decide(gate, {OLD: 60, B: 70}) == Decision(True, None)
    assert settling.comparing
    assert decide(gate, {A: 9, OLD: 9, B: 8}) == Decision(True, None)
    assert not settling.comparing
    assert decide(gate, {}) == Decision(True, None)
    assert decide(gate, {A: 9, OLD: 0, B: 9}) == Decision(True, OLD)
    assert (settling.known(OLD), settling.comparing, settling.refusals) == ((B, A), False, 0)


def test_votes_within_the_margin_do_not_count() -> None:
    least = StableHistogram(epsilon=2, delta=0.01).threshold
    for votes, key in ((least + 2, A), (least + 1, None)):
        assert decide(settling_gate(ScriptedNoise({})), {A: votes}).key == key


def test_only_the_latest_keys_are_remembered() -> None:
    gate = settling_gate(ScriptedNoise({}))
    for number in range(MOST_GIVEN_UP + 5):
        assert decide(gate, {b"%d" % number: 99}).key == b"%d" % number
    assert isinstance(gate.schedule, Settling)
    assert len(gate.schedule.given_up) == MOST_GIVEN_UP
    assert OLD not in gate.schedule.given_up


def test_a_comparison_asks_for_every_known_key_and_cuts_its_margin_off() -> None:
    huge = {"margin": lambda refusals, comparing: 2**70 if comparing else 0}
    gates = settling_gate(ScriptedNoise({})), settling_gate(ScriptedNoise({}), **huge)
    for gate in gates:
        decide(gate, {A: 60})
        decide(gate, {})
    with pytest.raises(BadParameter, match="every known key"):
        decide(gates[0], {A: 3})
    assert decide(gates[1], {A: LARGEST_INTEGER + 99, OLD: 0}) == Decision(True, OLD)


# Staying.


def test_a_tenure_comes_to_windows_and_to_draws_at_a_public_age() -> None:
    gate = stay_gate(SeededNoise(1), units=1)
    schedule = gate.schedule
    assert isinstance(schedule, StaySchedule)
    while schedule.tenure.refusals < COUNTED + 2:
        gate.run([1], lambda place, fired: [0, -90, 0])
    assert schedule.window is not None
    assert schedule.epoch == 2 * schedule.tenure.longest
    # Without any further mistake nothing fires, and the draw comes by its age.
    epoch = schedule.epoch
    assert 2 * gate.run([0] * 10**4, lambda place, fired: [0, -90, 0]).checks == epoch


def test_a_change_begins_a_new_tenure_and_the_published_key_is_no_candidate() -> None:
    gate = stay_gate(SeededNoise(3), units=1)
    while gate.run([2], lambda place, fired: [90, 0, -90]).decision.key is None:
        pass
    assert gate.published == B
    assert isinstance(gate.schedule, StaySchedule)
    assert gate.schedule.tenure == Tenure()


@pytest.mark.parametrize("fired", [False, True])
def test_what_the_monitor_answers_at_a_public_age_is_not_remembered(fired: bool) -> None:
    """The draw is made there in any case, so the transcript does not tell whether it fired."""
    schedule = StaySchedule(2, 1.0, 2)
    schedule.tenure = Tenure(COUNTED, 0, 5.0, 7.0, 1)
    schedule.after(EpochEnd(None, fired, aged=True, window_age=2, epoch_age=2), A)
    assert schedule.tenure == Tenure(COUNTED + 1, 0, 5.0, 7.0, 2)


@pytest.mark.parametrize("margin", [0, 2**40, LARGEST_LOSS])
@pytest.mark.parametrize("base", [1, 2**63, 2**70])
def test_thresholds_stay_within_what_a_monitor_takes(base: int, margin: int) -> None:
    schedule = StaySchedule(base, 1e-9, 4)
    schedule.set_margin(margin)
    for _ in range(COUNTED + 3):
        limits = np.asarray(schedule.limits(np.array([4, 2**40])))
        assert (limits > 0).all()
        assert (limits <= LARGEST_INTEGER).all()
        assert (np.diff(limits) >= 0).all()
        schedule.after(EpochEnd(None, True, False, 2**40, 2**40), A)


def test_staying_has_the_law_of_one_more_candidate() -> None:
    mechanism, scores = StayOrDraw((A, B), epsilon=2), [3, 1, 2]
    for release in range(scaled(200, least=50)):
        key = mechanism.select(scores, SeededNoise(7), release)
        drawn = [A, B, STAY][draw_by_score(scores, F(1), SeededNoise(7), release)]
        assert key == (None if drawn == STAY else drawn)


# What the mechanisms of the causes learner share.


def mechanism(epsilon: Fraction = TWO, **options: Any) -> CausesMechanism:
    usual: dict[str, Any] = {
        "per_round": Cost(epsilon, F(1, 100)),
        "epsilon_evidence": F(1, 10),
        "gate": lambda cost, base: causes_gate(SeededNoise(1)),
        "cost": None,
    }
    return CausesMechanism(SeededNoise(1), **usual | options)


def test_evidence_counts_in_what_a_round_may_cost() -> None:
    joint = causes_gate(SeededNoise(1)).total.epsilon
    mechanism(joint + F(1, 10)).begin(F(1, 3))
    with pytest.raises(BadParameter, match="more than a round may cost"):
        mechanism(joint).begin(F(1, 3))


def test_there_is_one_first_window_and_one_gate() -> None:
    made = mechanism()
    with pytest.raises(BadParameter, match="first window"):
        made.run([0], scores_for)  # type: ignore[arg-type]
    made.release_first([3, 4])
    with pytest.raises(BadParameter, match="one first window"):
        made.release_first([3, 4])
    made.begin(F(1, 3))
    with pytest.raises(BadParameter, match="has begun"):
        made.begin(F(1, 3))
    with pytest.raises(BadParameter, match="one first window"):
        mechanism(cost=F(1, 3)).release_first([3, 4])


def test_a_margin_is_at_least_zero_and_a_false_alarm_costs_at_most_one() -> None:
    gains = scores_for(causes_gate(SeededNoise(1)))
    with pytest.raises(BadParameter, match="margin"):
        SparseExponential(rate=1, delta=0.1, prior=[F(1)], margin=lambda: -1).scored(gains)
    for alarm in (F(0), F(3, 2)):
        with pytest.raises(BadParameter, match="false alarm"):
            SparseExponential(rate=1, delta=0.1, prior=[F(1)], alarm=alarm)
