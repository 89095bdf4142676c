"""Mechanisms go forward only, a move is a move, and bad parameters are refused before any draw."""

import copy
import json
import math
import os
import pickle
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import check_gate, check_monitor, state_of
from littlestone._privacy.draws import ExponentialMechanism
from littlestone._privacy.gates import Gate, MistakesMonitor
from littlestone._privacy.mechanism import Mechanism, MechanismMoved
from littlestone._privacy.noise import Address, Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, float_above
from littlestone._privacy.schedules import Climbing
from littlestone._privacy.selection import StableHistogram
from littlestone._privacy.testing import ScriptedNoise, SeededNoise
from littlestone.paper import AboveThreshold
from littlestone.paper.gates import HistSparse

Votes = dict[bytes, int]


def sparse(noise: Noise, **plan: Any) -> AboveThreshold:
    return AboveThreshold(noise, **{"epsilon": 1, "releases": 3, **plan})


def mistakes(noise: Noise, **plan: Any) -> MistakesMonitor:
    return MistakesMonitor(noise, **{"epsilon": 1, **plan})


def hist_sparse(noise: Noise, **plan: Any) -> HistSparse:
    usual: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "releases": 3, "trees": 50}
    usual |= {"threshold": 20, "published": b"old"}
    return HistSparse(noise, **{**usual, **plan})


def epochs(noise: Noise, **plan: Any) -> Gate[Votes]:
    usual: dict[str, Any] = {
        "epsilon": 0.5,
        "draw": StableHistogram(epsilon=0.5, delta=1e-6),
        "schedule": Climbing(lambda ages, refusals: 20 + refusals),
        "published": b"old",
        "check_every": 8,
    }
    return Gate(noise, **{**usual, **plan})


MECHANISMS: list[Callable[..., Mechanism]] = [sparse, hist_sparse, epochs]
STEPS: dict[Callable[..., Mechanism], Callable[[int], tuple[object, ...]]] = {
    sparse: lambda n: (n, 9),
    hist_sparse: lambda n: ({b"old": 50 - 4 * n, b"new": 4 * n},),
    epochs: lambda n: (n % 9, {b"new": 20 * n}),
}


def verb(mechanism: Mechanism) -> Callable[..., object]:
    if isinstance(mechanism, Gate):
        return partial(check_gate, mechanism)
    assert isinstance(mechanism, AboveThreshold | HistSparse)
    return mechanism.check


@pytest.mark.parametrize("make", MECHANISMS)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_mechanism_cannot_be_copied(
    make: Callable[..., Mechanism], duplicate: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match=r"second release|move"):
        duplicate(make(SystemNoise()))


@pytest.mark.parametrize("make", MECHANISMS)
@given(steps=st.lists(st.integers(0, 12), max_size=30), seed=st.integers(0, 99), data=st.data())
def test_a_move_changes_nothing(
    make: Callable[..., Mechanism], steps: list[int], seed: int, data: st.DataObject
) -> None:
    """Moved at any moment, through JSON, the transcript is the same."""
    stays, moves = make(SeededNoise(seed)), make(SeededNoise(seed))
    for step in steps:
        if data.draw(st.booleans()):
            state = state_of(moves)
            moves = make(SeededNoise(seed))
            moves.resume(state)
        assert verb(stays)(*STEPS[make](step)) == verb(moves)(*STEPS[make](step))


@pytest.mark.parametrize("make", MECHANISMS)
def test_a_mechanism_whose_state_may_have_been_saved_is_dead(
    make: Callable[..., Mechanism],
) -> None:
    mechanism = make(SystemNoise())
    verb(mechanism)(*STEPS[make](1))
    with pytest.raises(OSError, match="disk"), mechanism.checkpoint():
        raise OSError("the disk is full, perhaps after the state was written")
    with pytest.raises(MechanismMoved):
        verb(mechanism)(*STEPS[make](1))
    with pytest.raises(MechanismMoved):
        state_of(mechanism)


@pytest.mark.parametrize("make", MECHANISMS)
def test_a_fork_is_a_copy(make: Callable[..., Mechanism]) -> None:
    mechanism = make(SystemNoise())
    child = os.fork()
    if child == 0:
        try:
            verb(mechanism)(*STEPS[make](1))
        except MechanismMoved:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    verb(mechanism)(*STEPS[make](1))


@pytest.mark.parametrize("make", MECHANISMS)
def test_the_live_threshold_noise_moves_and_draws_made_ahead_do_not(
    make: Callable[..., Mechanism],
) -> None:
    noise = SystemNoise()
    mechanism = make(noise)
    verb(mechanism)(*STEPS[make](0))
    text = json.dumps(state_of(mechanism))
    assert '"threshold_noise": ' in text
    assert '"threshold_noise": null' not in text
    assert len(text) < 1500


@pytest.mark.parametrize("make", MECHANISMS)
def test_a_state_moves_only_to_a_fresh_mechanism_with_the_same_promise(
    make: Callable[..., Mechanism],
) -> None:
    state = state_of(make(SeededNoise(1)))
    begun = make(SeededNoise(1))
    verb(begun)(*STEPS[make](0))
    with pytest.raises(BadParameter, match="not begun"):
        begun.resume(state)
    with pytest.raises(BadParameter, match="belongs to"):
        make(SeededNoise(1), epsilon=2).resume(state)
    with pytest.raises(BadParameter, match="belongs to"):
        make(SystemNoise()).resume(state)
    for other in MECHANISMS:
        if other is not make:
            with pytest.raises(BadParameter, match="belongs to"):
                other(SeededNoise(1)).resume(state)


class Untouched(Noise):
    """Fails the test if anything is drawn."""

    def laplace(self, scale: Fraction, at: Address) -> int:
        raise AssertionError("something was drawn")

    def uniform(self, below: int, at: Address) -> int:
        raise AssertionError("something was drawn")


BAD_EPSILON = [0, -1, math.nan, math.inf, True, "1", None, 1j]
BAD_COUNT = [0, -1, 1.5, True, "2", math.nan]


@pytest.mark.parametrize("make", MECHANISMS)
@pytest.mark.parametrize("epsilon", BAD_EPSILON)
def test_a_bad_epsilon_is_refused(make: Callable[..., Mechanism], epsilon: object) -> None:
    with pytest.raises(BadParameter, match="epsilon"):
        make(Untouched(), epsilon=epsilon)


@pytest.mark.parametrize("delta", [0, 1, -1e-9, 1.5, math.nan, True, None])
def test_a_bad_delta_is_refused(delta: float) -> None:
    with pytest.raises(BadParameter, match="delta"):
        hist_sparse(Untouched(), delta=delta)
    with pytest.raises(BadParameter, match="delta"):
        StableHistogram(epsilon=1, delta=delta)


@pytest.mark.parametrize("count", BAD_COUNT)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (sparse, "releases"),
        (mistakes, "cap"),
        (hist_sparse, "releases"),
        (hist_sparse, "trees"),
        (epochs, "check_every"),
        (epochs, "largest_loss"),
    ],
)
def test_a_bad_count_is_refused(make: Callable[..., Mechanism], name: str, count: object) -> None:
    with pytest.raises(BadParameter, match=name):
        make(Untouched(), **{name: count})


@pytest.mark.parametrize(
    ("make", "plan"),
    [
        (hist_sparse, {"published": "old"}),
        (hist_sparse, {"unit": "person"}),
        (hist_sparse, {"threshold": 1.5}),
        (epochs, {"unit": "person"}),
        (epochs, {"published": None}),
    ],
)
def test_other_bad_parameters_are_refused(
    make: Callable[..., Mechanism], plan: dict[str, Any]
) -> None:
    with pytest.raises(BadParameter):
        make(Untouched(), **plan)


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (sparse, (1.5, 3)),
        (sparse, (math.nan, 3)),
        (sparse, (True, 3)),
        (sparse, (1, 3.0)),
        (hist_sparse, ({b"old": 1.5},)),
        (epochs, (9, {})),
        (epochs, (-1, {})),
        (epochs, (1.0, {})),
    ],
)
def test_a_bad_query_is_refused_before_anything_is_drawn(
    make: Callable[..., Mechanism], inputs: tuple[object, ...]
) -> None:
    with pytest.raises(BadParameter):
        verb(make(Untouched()))(*inputs)


@pytest.mark.parametrize("epsilon", [1e-6, 100])
@pytest.mark.parametrize("size", [0, 10**9])
def test_extremes_work(epsilon: float, size: int) -> None:
    noise = SystemNoise()
    sparse(noise, epsilon=epsilon, releases=1000).check(size, threshold=size)
    gate = epochs(noise, epsilon=epsilon, check_every=10**9)
    check_gate(gate, size, {b"new": size})
    hist_sparse(noise, epsilon=epsilon, releases=10).check({b"old": size})
    ExponentialMechanism([b"a", b"b"], epsilon=epsilon).select([size, -size], noise, 0)


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_a_report_is_never_rounded_down(value: Fraction) -> None:
    assert Fraction(float_above(value)) >= value
    assert Fraction(math.nextafter(float_above(value), 0)) < value


def test_a_guarantee_is_what_was_asked_for_and_no_less() -> None:
    gate = hist_sparse(SystemNoise(), epsilon=0.1, delta=1e-9, releases=7)
    assert (gate.guarantee.epsilon, gate.guarantee.delta) == (0.1, 1e-9)
    assert str(gate.guarantee) == "(0.1, 1e-09)-differential privacy, replace-one, per event"
    users = hist_sparse(SystemNoise(), unit="user").guarantee
    assert str(users).endswith(", replace-one, per user")
    capped = epochs(SystemNoise(), unit="user", cap=3).guarantee
    assert str(capped).endswith(", replace-one, per user: at most 3 rounds a user count")


def test_noise_of_tests_is_named_in_the_guarantee_and_in_the_ledger() -> None:
    gate = hist_sparse(ScriptedNoise({}))
    assert "NOT PRIVATE" in str(gate.guarantee)
    assert all("NOT PRIVATE" in event.noise for event in gate.ledger)


def test_noise_of_tests_cannot_be_imported_by_mechanisms() -> None:
    import littlestone._privacy as room

    assert not {"ScriptedNoise", "SeededNoise"} & set(vars(room))


@pytest.mark.parametrize("make", MECHANISMS)
def test_a_mechanism_takes_one_step_at_a_time(make: Callable[..., Mechanism]) -> None:
    """While one thread is in a step, another is refused; and no firing is spent twice."""
    entered, leave = threading.Event(), threading.Event()

    class Slow(SeededNoise):
        def laplace(self, scale: Fraction, at: Address) -> int:
            entered.set()
            leave.wait(10)
            return super().laplace(scale, at)

    mechanism = make(Slow(1))
    thread = threading.Thread(target=lambda: verb(mechanism)(*STEPS[make](1)))
    thread.start()
    entered.wait(10)
    with pytest.raises(MechanismMoved, match="one at a time"):
        verb(mechanism)(*STEPS[make](1))
    with pytest.raises(MechanismMoved, match="one at a time"):
        state_of(mechanism)
    leave.set()
    thread.join()
    verb(mechanism)(*STEPS[make](1))


BROKEN: list[Callable[[dict[str, Any]], object]] = [
    lambda state: state.pop("live"),
    lambda state: state["live"].clear(),
    lambda state: state["live"].update(threshold_noise=1.5, monitor={}),
    lambda state: state["live"].update(checks=-1, monitor={}),
    lambda state: state["live"].update(firings=-5, mistakes=-5, releases_made=-5),
    lambda state: state["live"].update(
        firings=10**6, mistakes=0.5, releases_made=10**6, epoch_age=-1
    ),
]


@pytest.mark.parametrize("make", MECHANISMS)
@pytest.mark.parametrize("breaks", BROKEN)
def test_a_broken_state_leaves_a_dead_mechanism(
    make: Callable[..., Mechanism], breaks: Callable[[dict[str, Any]], object]
) -> None:
    """Not a fresh budget."""
    before = make(SeededNoise(1))
    verb(before)(*STEPS[make](1))
    state = state_of(before)
    breaks(state)
    after = make(SeededNoise(1))
    with pytest.raises((BadParameter, KeyError)):
        after.resume(state)
    with pytest.raises(MechanismMoved):
        verb(after)(*STEPS[make](1))


def test_releases_and_firings_must_agree() -> None:
    gate = hist_sparse(SeededNoise(1))
    state = state_of(gate)
    state["live"]["releases_made"] = 2
    with pytest.raises(BadParameter, match="differently"):
        hist_sparse(SeededNoise(1)).resume(state)


def test_a_state_is_bound_to_its_selector() -> None:
    def gate(keys: list[bytes], sensitivity: int) -> Gate[Any]:
        draw = ExponentialMechanism(keys, epsilon=1, sensitivity=sensitivity)
        return epochs(SeededNoise(1), draw=draw)

    for other in (gate([b"a", b"b", b"c"], 3), gate([b"a", b"b"], 1)):
        with pytest.raises(BadParameter, match="belongs to"):
            other.resume(state_of(gate([b"a", b"b"], 3)))


def test_a_check_whose_noise_failed_can_be_tried_again() -> None:
    class Failing(SeededNoise):
        failures = 1

        def laplace(self, scale: Fraction, at: Address) -> int:
            raise AssertionError("a check asks for less")

        def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
            if self.failures:
                self.failures -= 1
                raise OSError("no randomness")
            return False

        def geometric(self, scale: Fraction, at: Address) -> int:
            return 0

    monitor = mistakes(Failing(1))
    with pytest.raises(OSError, match="no randomness"):
        check_monitor(monitor, 1, 100)
    check_monitor(monitor, 1, 100)
    assert monitor.dump()["mistakes"] == 1


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.uint32])
def test_votes_of_fixed_width_do_not_wrap_around(kind: Any) -> None:
    narrow, wide = (hist_sparse(SeededNoise(3)) for _ in range(2))
    for n in range(40):
        votes = {b"old": 40 - n, b"new": n}
        assert narrow.check({key: kind(v) for key, v in votes.items()}) == wide.check(votes)


def test_a_user_needs_a_cap() -> None:
    with pytest.raises(BadParameter, match="cap"):
        epochs(Untouched(), unit="user")
    with pytest.raises(BadParameter, match="cap"):
        epochs(Untouched(), cap=3)


def test_noise_grows_with_what_a_user_or_a_score_can_move() -> None:
    monitor = epochs(Untouched(), unit="user", cap=3).monitor
    assert monitor is not None
    assert monitor.query_scale == 6
    assert ExponentialMechanism([b"a"], epsilon=1, sensitivity=3).rate == Fraction(1, 6)


def test_a_public_restart_draws_new_threshold_noise() -> None:
    monitor = mistakes(ScriptedNoise({("threshold", 1, 0): 5}))
    assert not check_monitor(monitor, 1, 2)
    monitor.restart()
    assert not check_monitor(monitor, 6, 2), "the count begins anew, under threshold noise of 5"
    assert check_monitor(monitor, 1, 2)


def test_extreme_numbers_get_a_sentence() -> None:
    for epsilon in (Fraction(1, 10**400), 1e-320):
        with pytest.raises(BadParameter):
            sparse(Untouched(), epsilon=epsilon, releases=10**300)
