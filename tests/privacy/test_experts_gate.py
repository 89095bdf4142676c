"""Epochs with the exponential mechanism (Theorem 10), enumerated, with its own law."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import scaled
from littlestone._audit.enumeration import largest_loss, transcripts
from littlestone._audit.gates import KEYS, extremal_experts, gate_of_two, small_experts
from littlestone._audit.laws import (
    A,
    PriorFrom,
    experts,
    fixed_rows,
    neighbours,
    reacting_rows,
    streams,
)
from littlestone._privacy import BadParameter, ExponentialMechanism, MistakesGate, Noise
from littlestone._privacy.accounting import spent
from littlestone._privacy.exponential import Scores
from littlestone._privacy.testing import SeededNoise

BUDGET = Fraction(1), Fraction(2)


def make(noise: Noise) -> MistakesGate[Scores]:
    return gate_of_two(noise, *BUDGET)


@pytest.mark.parametrize("rounds", [3, pytest.param(4, marks=pytest.mark.audit)])
def test_every_small_stream_is_within_the_claim(rounds: int) -> None:
    found = small_experts(*BUDGET, rounds)
    assert found.kept
    assert found.share > 0.5


@pytest.mark.parametrize("prior", ["nothing", "published"])
def test_worlds_that_react_are_within_the_claim(prior: PriorFrom) -> None:
    for seed in range(scaled(6, least=2)):
        one = transcripts(make, experts(reacting_rows(seed), prior_from=prior), 4, width=8)
        for replaced in range(4):
            rows = reacting_rows(seed, replaced)
            other = transcripts(make, experts(rows, prior_from=prior), 4, width=8)
            assert largest_loss(one, other) <= float(sum(BUDGET)) + 1e-9


def worst_with(prior: PriorFrom) -> float:
    """The largest loss over all streams of three rounds."""
    laws = {
        rows: transcripts(make, experts(fixed_rows(rows), prior_from=prior), 3, width=8)
        for rows in streams(3)
    }
    return max(largest_loss(laws[a], laws[b]) for a in laws for b in neighbours(a))


def test_a_prior_from_what_was_published_costs_nothing() -> None:
    assert 0.5 * float(sum(BUDGET)) < worst_with("published") <= float(sum(BUDGET)) + 1e-9


def test_a_prior_from_the_rows_themselves_is_caught() -> None:
    assert worst_with("rows") > 1.2 * float(sum(BUDGET))


def test_one_round_can_cost_an_epoch_all_that_it_claims() -> None:
    found = extremal_experts(*BUDGET)
    assert found.kept
    assert found.share > 0.97


def test_scores_that_are_not_restarted_are_caught() -> None:
    assert extremal_experts(*BUDGET, restarted=False).share > 1.2


def real_gate(
    noise: Noise, epsilon: int = 2, restart_every: int | None = None
) -> MistakesGate[Scores]:
    return MistakesGate(
        noise,
        epsilon=1,
        selector=ExponentialMechanism(KEYS, epsilon=epsilon),
        threshold=lambda age, refusals: 1,
        published=A,
        check_every=2,
        restart_every=restart_every,
        leave_out_published=False,
    )


@given(seed=st.integers(0, 2**32), restart_every=st.sampled_from([None, 6]))
def test_the_ledger_counts_epochs_and_never_passes_the_promise(
    seed: int, restart_every: int | None
) -> None:
    made = real_gate(SeededNoise(seed), restart_every=restart_every)
    for _ in range(60):
        before = made.releases_made
        fired = made.check(2, [0, -3]).fired
        assert made.releases_made == before + fired
        assert made.spent == spent(made.ledger)
        assert made.spent.epsilon <= made._total().epsilon
    assert made.releases_made > 5
    assert not made.exhausted
    assert made.spent == made._total()
    assert made._total().epsilon == 3


def test_a_state_moves_between_equal_promises_only() -> None:
    first, second, straight = (real_gate(SeededNoise(1)) for _ in range(3))
    said = [straight.check(2, [0, -3]) for _ in range(40)]
    moved = [first.check(2, [0, -3]) for _ in range(17)]
    state = first.export()
    with pytest.raises(BadParameter):
        real_gate(SeededNoise(1), epsilon=3).resume(state)
    second.resume(state)
    assert moved + [second.check(2, [0, -3]) for _ in range(23)] == said
    assert second.ledger == straight.ledger
