"""Generations (Theorem 10), enumerated: the gate with the exponential mechanism's own law."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littlestone.lab.enumeration import largest_loss, transcripts
from littlestone.lab.other_gates import (
    KEYS,
    extremal_generations,
    gate_of_two,
    small_generations,
)
from littlestone.lab.small_streams import (
    A,
    BelieveIn,
    experts,
    generation_of,
    neighbours,
    of,
    reacting,
    streams,
)
from littlestone.privacy import BadParameter, ExponentialMechanism, GenerationsGate, Noise
from littlestone.privacy.accounting import spent
from littlestone.privacy.exponential import Scores
from littlestone.privacy.rehearsal import ScriptedNoise, SeededNoise

BUDGET = Fraction(1), Fraction(2)


class OneReleaseTooMany(GenerationsGate[Scores]):
    """A fault: a generation goes on for one release more than its budget was divided by."""

    def _generation_of(self, release: int) -> int:
        if release < self.singles:
            return release
        return self.singles + (release - self.singles) // (self.releases_each + 1)


@pytest.mark.parametrize(("singles", "rounds"), [(0, 3), (1, 4), (3, 3)])
def test_every_small_stream_is_within_the_claim(singles: int, rounds: int) -> None:
    found = small_generations(*BUDGET, singles, rounds)
    assert found.kept
    assert found.share > 0.5


@pytest.mark.parametrize("belief", ["nothing", "published"])
@pytest.mark.parametrize("singles", [0, 1])
def test_worlds_that_react_are_within_the_claim(singles: int, belief: BelieveIn) -> None:
    def make(noise: Noise) -> GenerationsGate[Scores]:
        return gate_of_two(noise, *BUDGET, singles=singles)

    for seed in range(6):
        one = transcripts(make, experts(reacting(seed), singles, believe=belief), 4, width=8)
        for replaced in range(4):
            rows = reacting(seed, replaced)
            other = transcripts(make, experts(rows, singles, believe=belief), 4, width=8)
            assert largest_loss(one, other) <= float(sum(BUDGET)) + 1e-9


def worst_with(belief: BelieveIn) -> float:
    """The largest loss over all streams of three rounds, when every release is a generation."""

    def make(noise: Noise) -> GenerationsGate[Scores]:
        return gate_of_two(noise, *BUDGET, singles=9)

    rounds = 3
    laws = {
        rows: transcripts(make, experts(of(rows), 9, believe=belief), rounds, width=8)
        for rows in streams(rounds)
    }
    return max(largest_loss(laws[a], laws[b]) for a in laws for b in neighbours(a))


def test_a_belief_in_what_was_published_costs_nothing() -> None:
    assert 0.5 * float(sum(BUDGET)) < worst_with("published") <= float(sum(BUDGET)) + 1e-9


def test_a_belief_in_the_rows_themselves_is_caught() -> None:
    assert worst_with("rows") > 1.2 * float(sum(BUDGET))


@pytest.mark.parametrize("singles", [0, 9])
def test_one_round_can_cost_a_generation_all_that_it_claims(singles: int) -> None:
    found = extremal_generations(*BUDGET, singles)
    assert found.kept
    assert found.share > 0.97


@pytest.mark.parametrize("singles", [0, 9])
def test_scores_that_are_not_restarted_are_caught(singles: int) -> None:
    assert extremal_generations(*BUDGET, singles, restarted=False).share > 1.2


def test_one_release_too_many_is_caught() -> None:
    assert extremal_generations(*BUDGET, 0, kind=OneReleaseTooMany, too_many=1).share > 1.2


@given(
    seed=st.integers(0, 2**32),
    singles=st.integers(0, 4),
    releases=st.integers(1, 4),
    restart_every=st.sampled_from([None, 6]),
)
def test_the_ledger_counts_generations_and_never_passes_the_promise(
    seed: int, singles: int, releases: int, restart_every: int | None
) -> None:
    made = real_gate(SeededNoise(seed), singles, releases, restart_every)
    for _ in range(60):
        before = made.releases_made
        fired = made.check(2, [0, -3]).fired
        assert made.releases_made == before + fired
        assert made.spent == spent(made.ledger)
        assert made.spent.epsilon <= made._total().epsilon
        assert made.generation == generation_of(made.releases_made, singles, releases)
    assert made.releases_made > singles + releases
    assert not made.exhausted
    assert made.spent == made._total()
    assert float(made._total().epsilon) == pytest.approx(3)


def real_gate(
    noise: Noise, singles: int, releases: int, restart_every: int | None = None
) -> GenerationsGate[Scores]:
    return GenerationsGate(
        noise,
        epsilon=1,
        alone=ExponentialMechanism(KEYS, epsilon=2),
        singles=singles,
        shared=ExponentialMechanism(KEYS, epsilon=2 / releases),
        releases=releases,
        threshold=lambda age, refusals: 1,
        published=A,
        check_every=2,
        restart_every=restart_every,
    )


def test_a_state_moves_between_equal_promises_only() -> None:
    first, second = real_gate(SeededNoise(1), 2, 3), real_gate(SeededNoise(1), 2, 3)
    straight = real_gate(SeededNoise(1), 2, 3)
    said = [straight.check(2, [0, -3]) for _ in range(40)]
    moved = [first.check(2, [0, -3]) for _ in range(17)]
    state = first.export()
    with pytest.raises(BadParameter):
        real_gate(SeededNoise(1), 2, 4).resume(state)
    second.resume(state)
    assert moved + [second.check(2, [0, -3]) for _ in range(23)] == said
    assert second.ledger == straight.ledger


def test_selectors_of_two_names_are_refused() -> None:
    class Other(ExponentialMechanism):
        name = "another"

    with pytest.raises(BadParameter, match="one mechanism"):
        GenerationsGate(
            ScriptedNoise({}),
            epsilon=1,
            alone=ExponentialMechanism(KEYS, epsilon=1),
            singles=1,
            shared=Other(KEYS, epsilon=1),
            releases=1,
            threshold=lambda age, refusals: 1,
            published=A,
        )
