"""Generations (Theorem 10), enumerated: the gate with the exponential mechanism's own law."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from littlestone.lab.enumeration import Branching, Transcript, World, largest_loss, transcripts
from littlestone.lab.small_streams import A, B, Row, Rows, neighbours, of, reacting, streams
from littlestone.learning.belief import Belief
from littlestone.privacy import BadParameter, Decision, ExponentialMechanism, GenerationsGate, Noise
from littlestone.privacy.accounting import spent
from littlestone.privacy.exponential import Scores
from littlestone.privacy.gate import STAY
from littlestone.privacy.rehearsal import ScriptedNoise, SeededNoise

from .test_exponential import law_of

KEYS = (A, B)
EPSILON_MONITOR, EPSILON_SELECTOR = 1.0, 2.0
CLAIM = EPSILON_MONITOR + EPSILON_SELECTOR
_laws: dict[object, list[tuple[bytes, float]]] = {}


class FromLaw(ExponentialMechanism):
    """The mechanism with its law, found from its code by bisection, chosen from in one step."""

    def select(
        self, scores: Scores, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        assert isinstance(noise, Branching)
        assert leave_out is None
        question = (tuple(scores), self.rate)
        if question not in _laws:
            levels, counts = np.unique(scores, return_counts=True)
            gaps = [int(levels[-1] - level) for level in levels[::-1]]
            masses = law_of(gaps, counts[::-1].tolist(), self.rate)
            chance = dict(zip(levels[::-1].tolist(), masses, strict=True))
            size = dict(zip(levels.tolist(), counts.tolist(), strict=True))
            pairs = zip(self.candidates, scores, strict=True)
            _laws[question] = [(key, chance[int(n)] / size[int(n)]) for key, n in pairs]
        return noise.choose(_laws[question])


class OneReleaseTooMany(GenerationsGate[Scores]):
    """A fault: a generation goes on for one release more than its budget was divided by."""

    def _generation_of(self, release: int) -> int:
        if release < self.singles:
            return release
        return self.singles + (release - self.singles) // (self.releases_each + 1)


def gate(
    noise: Noise,
    kind: type[GenerationsGate[Scores]] = GenerationsGate,
    singles: int = 1,
    releases: int = 2,
    threshold: Callable[[Any, int], Any] = lambda age, refusals: 1,
    **plan: Any,
) -> GenerationsGate[Scores]:
    each = EPSILON_SELECTOR / releases
    return kind(
        noise,
        epsilon=EPSILON_MONITOR,
        alone=FromLaw(KEYS, epsilon=EPSILON_SELECTOR),
        singles=singles,
        shared=FromLaw(KEYS, epsilon=each),
        releases=releases,
        threshold=threshold,
        published=A,
        **plan,
    )


def generation_of(firings: int, singles: int, releases: int) -> int:
    return firings if firings < singles else singles + (firings - singles) // releases


def experts(
    rows: Rows, singles: int = 1, releases: int = 2, restarted: bool = True, belief: str = "none"
) -> World:
    """Two rules; a row speaks for one of them, and the other errs on it.

    `restarted=False` is a fault: scores then count all rounds, those of earlier generations too.
    `belief` is "none", or follows what is "published"; one that follows the "rows" is a fault.
    """

    def world(past: Transcript) -> tuple[object, ...]:
        published, since, firings = A, 0, 0
        believed = Belief(len(KEYS))
        for number, decision in enumerate(past):
            assert isinstance(decision, Decision)
            if belief == "published" and decision.key not in (None, published):
                believed.drop(np.array([key == published for key in KEYS]))
            if belief == "rows" and rows(past[:number]) is not None:
                believed.drop(np.array([key != rows(past[:number]) for key in KEYS]))
            published = decision.key or published
            if decision.fired:
                firings += 1
                before, after = (
                    generation_of(n, singles, releases) for n in (firings - 1, firings)
                )
                since = number + 1 if before != after and restarted else since
        shown: list[Row] = [rows(past[:n]) for n in range(since, len(past) + 1)]
        each = Fraction(EPSILON_SELECTOR) / (1 if firings < singles else releases)
        mistakes = [sum(row not in (key, None) for row in shown) for key in KEYS]
        pairs = zip(mistakes, believed.penalties(each / 2).tolist(), strict=True)
        scores = tuple(-count - penalty for count, penalty in pairs)
        row = rows(past)
        return int(row is not None and row != published), scores

    return world


@pytest.mark.parametrize(("singles", "rounds"), [(0, 3), (1, 4), (3, 3)])
def test_every_small_stream_is_within_the_claim(singles: int, rounds: int) -> None:
    make = partial(gate, singles=singles)
    laws = {
        rows: transcripts(make, experts(of(rows), singles), rounds, width=8)
        for rows in streams(rounds)
    }
    worst = max(largest_loss(laws[a], laws[b]) for a in laws for b in neighbours(a))
    assert 0.5 * CLAIM < worst <= CLAIM + 1e-9


@pytest.mark.parametrize("belief", ["none", "published"])
@pytest.mark.parametrize("singles", [0, 1])
def test_worlds_that_react_are_within_the_claim(singles: int, belief: str) -> None:
    make = partial(gate, singles=singles)
    for seed in range(6):
        one = transcripts(make, experts(reacting(seed), singles, belief=belief), 4, width=8)
        for replaced in range(4):
            rows = reacting(seed, replaced)
            other = transcripts(make, experts(rows, singles, belief=belief), 4, width=8)
            assert largest_loss(one, other) <= CLAIM + 1e-9


def worst_with(belief: str) -> float:
    """The largest loss over all streams of three rounds, when every release is a generation."""
    make, rounds = partial(gate, singles=9), 3
    laws = {
        rows: transcripts(make, experts(of(rows), 9, belief=belief), rounds, width=8)
        for rows in streams(rounds)
    }
    return max(largest_loss(laws[a], laws[b]) for a in laws for b in neighbours(a))


def test_a_belief_in_what_was_published_costs_nothing() -> None:
    assert 0.5 * CLAIM < worst_with("published") <= CLAIM + 1e-9


def test_a_belief_in_the_rows_themselves_is_caught() -> None:
    assert worst_with("rows") > 1.2 * CLAIM


LEAD, QUIET = 16, 8


def extremal(kind: type[GenerationsGate[Scores]], singles: int, restarted: bool = True) -> float:
    """Quiet checks pin the lift; the replaced round then fires the gate, and speaks for an
    underdog, which is named by every release that still remembers the round."""
    most, releases = (1, 1) if singles else (2, 2)
    fires = most + (not restarted) + (kind is OneReleaseTooMany)
    make = partial(
        gate,
        kind=kind,
        singles=singles,
        releases=releases,
        threshold=lambda age, refusals: 0 if age <= QUIET * 12 else 30,
        check_every=12,
    )
    # The second firing and those after it are certain, whatever the replaced round was.
    only: Transcript = (*(STAY,) * QUIET, *(Decision(True, A) for _ in range(fires)))

    def world(new: int) -> World:
        def inputs(past: Transcript) -> tuple[object, ...]:
            firings = len(past) - QUIET
            mistakes = 12 if not past or firings > 0 else new if firings == 0 else 0
            remembered = new if firings < most or fires > most else 0
            return mistakes, (-LEAD + remembered, 0 - remembered)

        return inputs

    one, other = (transcripts(make, world(n), len(only), 60, only) for n in (1, 0))
    return largest_loss(one, other)


@pytest.mark.parametrize("singles", [0, 9])
def test_one_round_can_cost_a_generation_all_that_it_claims(singles: int) -> None:
    assert 0.97 * CLAIM < extremal(GenerationsGate, singles) <= CLAIM + 1e-9


@pytest.mark.parametrize("singles", [0, 9])
def test_scores_that_are_not_restarted_are_caught(singles: int) -> None:
    assert extremal(GenerationsGate, singles, restarted=False) > 1.2 * CLAIM


def test_one_release_too_many_is_caught() -> None:
    assert extremal(OneReleaseTooMany, 0) > 1.2 * CLAIM


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
