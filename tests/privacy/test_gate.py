"""The gate's own code: batches of any size, states that move, ages, ledgers, and its schedules."""

import math
import random
from collections import Counter
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
from littlestone._audit.enumeration import ByLaw
from littlestone._learners.stay import COUNTED, LARGEST_LOSS, StaySchedule, Tenure
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import (
    CausesMechanism,
    CausesSchedule,
    EpochTerms,
    Known,
    Moves,
    SparseExponential,
    StableValues,
    Threshold,
    Weights,
)
from littlestone._privacy.draws import STAY, ExponentialMechanism, StayOrDraw, draw_by_score
from littlestone._privacy.gates import NO_CHANGE, Decision, Gate
from littlestone._privacy.mechanism import MechanismMoved
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


TERMS = EpochTerms(F(1), F(1, 2), F(4, 3), (Known(3, F(1, 50)),))


def sparse(terms: EpochTerms = TERMS, **options: Any) -> SparseExponential:
    usual: dict[str, Any] = {"delta": F(1, 100), "prior": [F(1)], "units": 3}
    return SparseExponential(terms, **usual | options)


def causes_gate(noise: Noise) -> Gate[Any]:
    schedule = CausesSchedule(60, Threshold(24, 4, 0.25))
    return Gate(noise, epsilon=1, schedule=schedule, draw=sparse(), check_every=2, largest_loss=3)


def moves(weights: tuple[int, int] = (3, 1), **options: Any) -> Moves:
    """Two active keys, one of them known, and a cause with two narrower keys."""
    found = Moves(
        Weights(*weights),
        np.array([[0, 14], [2, 1]]),
        np.zeros(2, np.intp),
        np.array([-1, 1]),
        [A, B].__getitem__,
        lambda width, number: b"known %d" % number,
        np.array([[5, 0]]),
        [OLD],
        [np.array([[1, 0], [0, 0]])],
        lambda cause, place: b"narrower %d" % place,
    )
    return found._replace(**options)


def scores_for(gate: Gate[Any]) -> Any:
    """Scores that a gate accepts now; on most of them it draws now this, now that."""
    if isinstance(gate.schedule, Settling):
        keys = (gate.published, *gate.schedule.known(gate.published))
        return dict.fromkeys(keys, 3) if gate.schedule.comparing else {A: 9, B: 9, OLD: 9}
    if isinstance(gate.schedule, CausesSchedule):
        return moves()
    return [0, -3, 0] if isinstance(gate.schedule, StaySchedule) else {A: 9, B: 8}


def _scores_at(gate: Gate[Any], place: int, fired: bool) -> Any:
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
    assert sum(decision.drawn for decision in found) == gate.releases_made > 3
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
    asked: list[tuple[int, bool]] = []

    def scores(place: int, fired: bool) -> dict[bytes, int]:
        asked.append((place, fired))
        return {A: 90}

    gate = climbing_gate(ScriptedNoise({}))
    assert gate.run([0, 0, 1, 1, 0], scores) == (4, Decision(True, A))
    assert asked == [(3, True)]


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
    answers = [
        gate.run([1], lambda place, fired: [-9, -1, -5, -5, -5]).decision.key for _ in range(4)
    ]
    assert answers == ([b"1", b"2", b"1", b"2"] if left_out else [b"1"] * 4)
    assert gate.spent.epsilon == gate.total.epsilon == 1.5


def test_draws_that_read_a_user_add_up_to_the_cap() -> None:
    gate = climbing_gate(SeededNoise(1), unit="user", cap=3)
    assert gate.spent.epsilon == 1
    while not gate.run([1], lambda place, fired: {A: 1}).decision.drawn:
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
    schedule.begin_epoch(4, Threshold(99))
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


def test_a_draw_of_a_move_has_the_law_that_is_enumerated() -> None:
    """Nothing, drops, keys that are known or not, active or idle, and replaces: by their weights."""
    draw, runs = sparse(replace_weight=F(1, 2)), scaled(4000, least=1500)
    for read in (moves(), moves(may_add=False), moves(adds=np.array([[0, 3], [9, 1]]))):
        law = dict(ByLaw(draw).law(read))
        assert sum(law.values()) == pytest.approx(1)
        noise = SeededNoise(5)
        drawn = Counter(draw.select(read, noise, release) for release in range(runs))
        assert drawn.keys() <= {key for key, p in law.items() if p > 0}
        for key, p in law.items():
            spread = math.sqrt(runs * p * (1 - p))
            assert abs(drawn[key] - runs * p) <= 5 * spread + 1, key
        if read.may_add:
            # A known key that no row lists has its weight, beside 1 for nothing.
            assert law[b"+known 0"] / law[None] == pytest.approx(1 / 50)
    idle = {key for key in law if key is not None and key.startswith(b"+known")}
    assert idle == {b"+known 0", b"+known 2"}, "the other known key is active"


def mechanism(epsilon: Fraction = TWO, **options: Any) -> CausesMechanism:
    usual: dict[str, Any] = {
        "budget": Cost(epsilon, F(1, 100)),
        "epsilon_evidence": F(1, 10),
        "draw": sparse,
        "units": 3,
    }
    return CausesMechanism(SeededNoise(1), **usual | options)


def test_terms_of_an_epoch_cost_no_more_than_a_round_may() -> None:
    """Evidence included; at the first epoch and at every later one."""
    begin = 60, Threshold(9)
    joint = causes_gate(SeededNoise(1)).total.epsilon
    made = mechanism(joint + F(1, 10))
    made.begin_epoch(TERMS, *begin)
    for terms in (
        TERMS._replace(monitor=F(11, 10)),
        TERMS._replace(rate=F(1)),
        TERMS._replace(swing=F(3, 2)),
    ):
        with pytest.raises(BadParameter, match="more than a unit may cost"):
            made.begin_epoch(terms, *begin)
        with pytest.raises(BadParameter, match="more than a unit may cost"):
            mechanism(joint + F(1, 10)).begin_epoch(terms, *begin)
    with pytest.raises(BadParameter, match="more than a unit may cost"):
        mechanism(joint).begin_epoch(TERMS, *begin)
    # What costs no more is fine, and is what the next epoch has.
    other = TERMS._replace(monitor=F(1, 2), rate=F(3, 4))
    made.begin_epoch(other, 2, Threshold(99))
    assert made.gate is not None
    assert made.gate.monitor is not None
    assert made.gate.monitor.cost == Cost(F(1, 2))
    made.run([0], lambda check, fired: moves())
    with pytest.raises(BadParameter, match="under way"):
        made.begin_epoch(TERMS, *begin)
    made.run([0], lambda check, fired: moves())
    made.begin_epoch(TERMS, *begin)
    # A state moves with the terms of its epoch.
    state = state_of(made)
    again = mechanism(joint + F(1, 10))
    again.resume(state)
    assert again.terms == made.terms == TERMS
    assert state_of(again) == state


def test_there_is_one_first_window_before_the_gate() -> None:
    made = mechanism()
    with pytest.raises(BadParameter, match="first window"):
        made.run([0], lambda check, fired: moves())
    made.release_first([3, 4])
    made.discover({A: 3})
    assert made.spent == Cost(TWO, F(1, 100)), "parallel: a round is in one part"
    for again in (lambda: made.release_first([3, 4]), lambda: made.discover({A: 3})):
        with pytest.raises(BadParameter, match="one first window"):
            again()
    begun = mechanism()
    begun.begin_epoch(TERMS, 60, Threshold(9))
    for late in (lambda: begun.release_first([3, 4]), lambda: begun.discover({A: 3})):
        with pytest.raises(BadParameter, match="one first window"):
            late()


def test_a_table_is_drawn_from_as_often_as_was_charged_and_counted_once() -> None:
    made = mechanism(epsilon_base=F(1, 10))
    made.begin_epoch(TERMS._replace(monitor=F(0)), 1, Threshold(9))
    assert made.run([0], lambda check, fired: moves()).decision.drawn
    with pytest.raises(BadParameter, match="begin the next"):
        made.run([0], lambda check, fired: moves())
    assert made.releases_made == 1
    made.release_evidence([3, 4])
    with pytest.raises(BadParameter, match="counted once"):
        made.release_evidence([3, 4])


def test_users_of_a_stream_have_no_first_window() -> None:
    made = mechanism(rounds=3)
    for first in (lambda: made.release_first([3, 4]), lambda: made.discover({A: 3})):
        with pytest.raises(BadParameter, match="no first window"):
            first()


def test_evidence_is_not_released_after_a_failed_checkpoint() -> None:
    made = mechanism()
    with pytest.raises(OSError, match="full"), made.checkpoint():
        raise OSError("the disk is full")
    with pytest.raises(MechanismMoved):
        made.release_evidence([3, 4])


def test_values_are_released_from_their_threshold_on() -> None:
    values = StableValues(ScriptedNoise({}), Cost(F(1), F(1, 1000)))
    votes = {A: values.threshold, B: values.threshold - 1, OLD: 99}
    assert values.release(votes) == [A, OLD]
    with pytest.raises(BadParameter, match="at least 1"):
        values.release({A: 0})


@pytest.mark.parametrize(
    ("terms", "what"),
    [
        ({"margin": -1}, "margin"),
        ({"swing": F(9, 10)}, "weights sum"),
        ({"swing": F(21, 10)}, "weights sum"),
        ({"rate": F(0)}, "rate"),
    ],
)
def test_terms_that_a_draw_cannot_have_are_refused(terms: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        sparse(TERMS._replace(**terms))


@pytest.mark.parametrize("weights", [(3, 2), (4, 0), (0, 3), (2, -1), (1, 4)])
def test_weights_that_the_terms_do_not_allow_are_refused(weights: tuple[int, int]) -> None:
    """Above 4/3 together, above 1, or none: in thirds."""
    with pytest.raises(BadParameter, match="not within the terms"):
        sparse().select(moves(weights), SeededNoise(1), 0)
    with pytest.raises(BadParameter, match="not within the terms"):
        sparse(TERMS._replace(swing=TWO)).select(moves((4, 1)), SeededNoise(1), 0)
