"""Accounting: agrees with dp-accounting, and rounds towards less privacy claimed."""

import importlib
import math
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import scaled
from littlestone._privacy.accounting import Cost, Guarantee
from littlestone._privacy.noise import SystemNoise
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone.paper import composed_epsilon, per_release

SMALL = st.fractions(Fraction(1, 1000), Fraction(2)).filter(bool)


def peer_epsilon(epsilon: float, each: float, count: int, delta: float) -> float:
    """The same question, asked of dp-accounting."""
    pld: Any = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    common: Any = importlib.import_module("dp_accounting.pld.common")
    single = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, each), value_discretization_interval=epsilon
    )
    return float(single.self_compose(count).get_epsilon_for_delta(delta))


@pytest.mark.parametrize(
    ("epsilon", "each", "count", "delta"),
    [
        (0.1, 0.0, 100, 1e-6),
        (0.5, 0.0, 20, 1e-9),
        (1.0, 0.0, 5, 1e-3),
        (0.25, 1e-8, 30, 1e-6),
        (0.125, 1e-9, 7, 1e-5),
        (0.02, 0.0, 1000, 1e-6),
    ],
)
def test_optimal_composition_agrees_with_dp_accounting(
    epsilon: float, each: float, count: int, delta: float
) -> None:
    cost = Cost(Fraction(epsilon), Fraction(each))
    ours = float(composed_epsilon(cost, count, Fraction(delta)))
    assert ours == pytest.approx(peer_epsilon(epsilon, each, count, delta), abs=1e-8)


@pytest.mark.parametrize(("epsilon", "count"), [(Fraction(1, 3), 6), (Fraction(1), 4)])
def test_optimal_composition_is_the_hockey_stick_of_all_outcomes(
    epsilon: Fraction, count: int
) -> None:
    """Every sequence of coin flips, one by one."""
    up = 1 / (1 + math.exp(-epsilon))
    for delta in (1e-4, 1e-2, 0.2):
        total = float(composed_epsilon(Cost(epsilon), count, Fraction(delta)))
        curve = sum(
            max(
                0.0,
                up**n * (1 - up) ** (count - n)
                - math.exp(total) * up ** (count - n) * (1 - up) ** n,
            )
            for n in (bin(flips).count("1") for flips in range(2**count))
        )
        assert curve == pytest.approx(delta, rel=1e-9)


@settings(max_examples=scaled(40, least=10))
@given(SMALL, st.integers(1, 200), st.fractions(Fraction(1, 10**9), Fraction(1, 10)))
def test_composition_is_never_worse_than_adding(
    epsilon: Fraction, count: int, delta: Fraction
) -> None:
    cost = Cost(epsilon, delta / (2 * count))
    assert composed_epsilon(cost, count, delta) <= cost.times(count).epsilon


@settings(max_examples=scaled(25, least=10))
@given(SMALL, st.integers(1, 300), st.sampled_from([Fraction(0), Fraction(1, 10**6)]))
def test_releases_fit_into_their_total(epsilon: Fraction, count: int, delta: Fraction) -> None:
    each = per_release(Cost(epsilon, delta), count)
    assert each.epsilon >= epsilon / count * Fraction(1, 1)
    assert each.delta * count <= delta
    assert composed_epsilon(each, count, delta) <= epsilon


@pytest.mark.slow
def test_a_million_releases_can_be_solved() -> None:
    each = per_release(Cost(Fraction(1), Fraction(1, 10**6)), 10**6)
    assert float(each.epsilon) == pytest.approx(2.2909e-4, rel=1e-3)


def test_releases_that_cost_more_delta_than_there_is_are_refused() -> None:
    with pytest.raises(BadParameter):
        composed_epsilon(Cost(Fraction(1), Fraction(1, 100)), 10, Fraction(1, 100))


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_a_bad_count_is_refused(count: int) -> None:
    with pytest.raises(BadParameter):
        per_release(Cost(Fraction(1), Fraction(1, 100)), count)


def test_guarantees_are_rounded_up_and_frozen() -> None:
    guarantee = Guarantee.of(Cost(Fraction(1, 3), Fraction(1, 10**7)), SystemNoise())
    assert Fraction(guarantee.epsilon) >= Fraction(1, 3)
    assert Fraction(guarantee.delta) >= Fraction(1, 10**7)
    assert (guarantee.adjacency, guarantee.unit) == ("replace-one", "event")
    field = "epsilon"
    with pytest.raises(FrozenInstanceError):
        setattr(guarantee, field, 0.0)


def test_noise_of_tests_guarantees_nothing() -> None:
    guarantee = Guarantee.of(Cost(Fraction(1)), SeededNoise(3))
    assert math.isinf(guarantee.epsilon)
    assert "no privacy at all" in str(guarantee)
    assert "SeededNoise(3, NOT PRIVATE)" in str(guarantee)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 1.1, 3.0, 10.0, 300.0, 5000.0])
@pytest.mark.parametrize("delta", [0.0, 1e-7, 3e-5])
def test_words_never_understate_the_numbers(epsilon: float, delta: float) -> None:
    said = Guarantee(epsilon, delta).meaning()
    factor, _, chance = (
        said["The guarantee"]
        .partition("factor of ")[2]
        .partition(". This")[0]
        .partition(", plus 1 in ")
    )
    power = math.exp(min(epsilon, 700))
    if not factor.startswith("e^"):
        assert power <= float(factor.replace(",", "")) <= 1.02 * power
    assert bool(chance) == bool(delta)
    if delta:
        assert delta <= 1 / int(chance.replace(",", "")) <= 1.001 * delta
    # The best test of two hypotheses under (epsilon, delta), each as likely as the other.
    best = (power + delta) / (power + 1)
    guess = float(said["In other words"].partition("at most ")[2].partition(" %")[0]) / 100
    assert best <= guess <= best + 0.001


def test_a_guarantee_is_explained_for_the_unit_that_it_protects() -> None:
    users = Guarantee(1.0, 1e-6, unit="user", cap=5).explain()
    assert "Each user: the values and labels of all events" in users
    assert "At most\n  5 of them count" in users
    assert "Several events of one person: k of them" in Guarantee(1.0, 0.0).explain()
    assert max(map(len, users.splitlines())) <= 80
    nothing = Guarantee.of(Cost(Fraction(1)), SeededNoise(3))
    assert nothing.explain() == f"The guarantee\n  There is no privacy here: {nothing.noise}."


def test_costs_that_make_no_sense() -> None:
    for epsilon, delta in ((-1, 0), (1, -1)):
        with pytest.raises(BadParameter):
            Cost(Fraction(epsilon), Fraction(delta))
    for total in (Fraction(-1), Fraction(1), Fraction(2)):
        with pytest.raises(BadParameter, match="delta"):
            composed_epsilon(Cost(Fraction(1)), 2, total)
