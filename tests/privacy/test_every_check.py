"""A selection at every check (Theorem 11), enumerated."""

from fractions import Fraction

import pytest

from effort import scaled
from littlestone._audit.enumeration import Enumerated, delta_at, transcripts
from littlestone._audit.gates import every_check
from littlestone._audit.laws import OLD, A, forest, reacting_rows
from littlestone._privacy import EveryCheck, Noise, StableHistogram, composed_epsilon
from littlestone._privacy.testing import SeededNoise

EPSILON, DELTA, RELEASES = 8, 0.3, 3
_laws: dict[object, Enumerated] = {}


def gate(noise: Noise) -> EveryCheck:
    made = EveryCheck(noise, epsilon=EPSILON, delta=DELTA, releases=RELEASES, published=OLD)
    if made.each not in _laws:
        histogram = StableHistogram(epsilon=made.each.epsilon, delta=made.each.delta)
        _laws[made.each] = Enumerated(histogram, width=24)
    made._selector = _laws[made.each]
    return made


def test_every_small_stream_is_within_the_claim() -> None:
    found = every_check(Fraction(EPSILON), Fraction(DELTA), RELEASES)
    assert found.kept
    assert 0.2 * DELTA < found.delta <= DELTA


def test_worlds_that_react_are_within_the_claim() -> None:
    for seed in range(scaled(6, least=2)):
        one = transcripts(gate, forest(reacting_rows(seed)), RELEASES, 24)
        for replaced in range(RELEASES):
            other = transcripts(gate, forest(reacting_rows(seed, replaced)), RELEASES, 24)
            assert delta_at(EPSILON, one, other) <= DELTA


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
    assert spending[-1] <= epsilon
    assert spending[-1] > Fraction(9, 10) * epsilon
    assert composed_epsilon(made.each, releases, Fraction(1e-3)) <= epsilon
