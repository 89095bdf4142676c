"""Draws that bound what a user does, enumerated (docs/guarantee.md, Theorem 19): claims are kept,
attained, and refuted for planted faults; for one draw, for several epochs, and with the evidence."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from typing import Any

import pytest

import littlestone as ls
from littlestone._audit.enumeration import (
    Transcript,
    World,
    delta_at,
    epsilon_at,
    laplace_mass,
    transcripts,
    worst,
)
from littlestone._audit.gates import (
    NULL_ROW,
    CauseGate,
    CauseRow,
    Causes,
    CauseWorld,
    Stream,
    small_draws,
    unwatched_draws,
)
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.effect import NORMAL
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import (
    CausesMechanism,
    EpochTerms,
    Known,
    SparseExponential,
    Threshold,
    UserBound,
    Weights,
    WindowCounts,
)
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import ScriptedNoise

from . import faults

F = Fraction
ONE, HALVES = F(1), F(1, 2)
K, L, P = b"k", b"l", b"p"
WITH_P: Causes = ((P, 1),)


def gate_of(
    weights: tuple[int, int] = (1, 1),
    lowest: Fraction = ONE,
    *,
    rounds: int = 2,
    s: Fraction = HALVES,
    known: Sequence[Known] = (),
    frequent: Fraction | None = None,
    **options: Any,
) -> CauseGate:
    """A draw without a monitor, from so many rounds of each user."""
    units = options.pop("units", max(weights))
    swing = min(F(2), max(1 + lowest, F(sum(weights), units)))
    terms = EpochTerms(F(0), s, swing, tuple(known), users=UserBound(lowest, rounds))
    terms = terms._replace(frequent=() if frequent is None else (frequent,))
    usual: dict[str, Any] = {"delta": F(1, 10), "prior": (F(1, 2),), "units": units}
    return CauseGate(terms, costs=Weights(1, 1), weights=Weights(*weights), **usual | options)


ROWS: tuple[CauseRow, ...] = (
    NULL_ROW,
    *((keys, label) for keys in ((K,), (L,), (K, L), (P, K)) for label in (1, NORMAL)),
)
"""Rows of two keys that may be added, and rows that a cause matches."""
OUTCOMES: tuple[CauseRow, ...] = (
    NULL_ROW,
    *((keys, label) for keys in ((K,), (P, L)) for label in (NORMAL, 1, 2)),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "even": {},
    "halves": {"weights": (2, 1), "lowest": F(1, 2)},
    # A positive row is less than a whole part.
    "light positives": {"weights": (1, 4), "lowest": F(3, 4)},
    "heavy positives": {"weights": (9, 1), "lowest": F(5, 9), "s": F(3, 2)},
    "a lowest part that is no whole number of units": {"weights": (3, 2), "lowest": F(7, 10)},
    "less than all units": {"weights": (2, 1), "lowest": F(1, 2), "units": 3},
    "rounds that are not used": {"rounds": 5},
    # Keys are frequent from two users on, or not yet.
    "frequent": {"weights": (9, 4), "lowest": F(5, 9), "s": F(3), "frequent": HALVES},
    "rarely frequent": {"weights": (5, 9), "frequent": ONE, "delta": F(1, 1000)},
}


@pytest.mark.parametrize("published", [(), WITH_P], ids=["nothing", "a cause"])
@pytest.mark.parametrize("known", [(), ((K, 1), (b"idle", 1))], ids=["unknown", "known"])
@pytest.mark.parametrize("name", SETTINGS)
def test_one_draw_is_within_the_claim_for_all_small_users(
    name: str, known: Causes, published: Causes
) -> None:
    """Two rounds of a user, all replaced, beside one of another."""
    gate = gate_of(**SETTINGS[name], known=[Known(len(known), F(1, 9))] if known else ())
    world = CauseWorld(gate, published, known=known)
    found = worst("draw", name, gate.claim, small_draws(gate, world, ROWS, 3))
    assert found.kept, found
    assert found.share > 0.08
    users = gate.terms.users
    assert users is not None
    assert gate.claim == Cost(2 * (1 + users.lowest) * gate.terms.rate, gate.delta)


@pytest.mark.parametrize("name", ["even", "light positives", "frequent", "rarely frequent"])
def test_one_draw_is_within_the_claim_with_outcomes_and_with_more_users(name: str) -> None:
    gate = gate_of(**SETTINGS[name])
    world = CauseWorld(gate, (*WITH_P, (P, 2)))
    assert worst("draw", name, gate.claim, small_draws(gate, world, OUTCOMES, 3)).kept
    # The rows of others that pull the same keys up and down.
    rest: list[CauseRow] = [((K,), 1), ((K,), 1), ((K,), NORMAL), ((L,), 1), ((K, L), NORMAL)]
    for count in range(1, len(rest) + 1):
        users = [0, 0, *range(1, count + 1)]
        laws = [
            gate.drawn([*own, *rest[:count]], users, CauseWorld(gate))
            for own in product(ROWS[:7], repeat=2)
        ]
        assert worst("draw", name, gate.claim, combinations(laws, 2)).kept


@pytest.mark.parametrize(
    "setting",
    [
        {"weights": (1, 1), "lowest": ONE},
        {"weights": (2, 1), "lowest": F(1, 2)},
        {"weights": (1, 3), "lowest": ONE, "rounds": 6},
        {"weights": (9, 1), "lowest": F(5, 9), "rounds": 6},
    ],
    ids=str,
)
def test_the_claim_of_a_draw_is_attained(setting: dict[str, Any]) -> None:
    """Two keys in opposite directions cost all of epsilon, keys of a user alone all of delta."""
    gate = gate_of(**setting, delta=F(1, 10**7), s=F(1, 4))
    (_, alone), (_, turned) = unwatched_draws(gate, (K, L))
    claimed = float(gate.claim.epsilon)
    assert 0.99 * claimed < epsilon_at(float(gate.delta), *turned) <= claimed
    # What a claim for one direction would say.
    assert delta_at(claimed / 2, *turned) > 1000 * float(gate.delta)
    reached = delta_at(claimed, *alone)
    if setting["weights"][0] >= setting["weights"][1]:
        assert reached == pytest.approx(float(gate.delta / (1 + gate.delta)), rel=1e-9)
    assert reached <= float(gate.delta)


@pytest.mark.parametrize("users", [True, False], ids=["users", "rows"])
def test_the_claim_is_attained_with_frequent_keys(users: bool) -> None:
    """Where others speak against a key, its gain counts: all of epsilon; and alone, all of delta."""
    gate = gate_of((1000, 1000), rounds=6, delta=F(1, 10**7), s=F(1, 4), frequent=HALVES)
    gate = gate if users else replace(gate, terms=gate.terms._replace(users=None))
    (_, alone), (_, turned) = unwatched_draws(gate, (K, L))
    claimed, most = float(gate.claim.epsilon), float(gate.delta / (1 + gate.delta))
    # The gap is a whole number of units.
    assert 0.999 * most < delta_at(claimed, *alone) <= most
    assert 0.99 * claimed < epsilon_at(float(gate.delta), *turned) <= claimed


# Planted faults of a draw: the same neighbours clear the code and convict its faulty twin.

TINY = gate_of(delta=F(1, 10**6), rounds=4)
FREQUENT = gate_of(delta=F(1, 10**6), rounds=4, frequent=HALVES)
HALF = gate_of((1, 2), delta=F(1, 10**6), rounds=4, s=F(3))
OTHERS: list[CauseRow] = [((K,), 1)] * 12


def users_of(rows: int, others: int) -> list[int]:
    return [*[0] * rows, *range(1, others + 1)]


@pytest.mark.parametrize(
    ("fault", "gate", "one", "other", "rest", "least"),
    [
        # Four positives of one user count as four users.
        (faults.UsersNotClipped, TINY, [((K,), 1)] * 4, [((K,), NORMAL)] * 4, OTHERS, 100),
        (faults.PairsByRow, TINY, [((K,), 1)] * 4, [((K,), NORMAL)] * 4, OTHERS, 100),
        # Keys of four rows, each of which may weigh all of delta.
        (faults.DeltaOfOneRound, TINY, [((bytes([n]), bytes([n, n])), 1) for n in range(4)],
         [NULL_ROW] * 4, [], 3.9),
        # Two rows of half a weight make a whole part, from which half a weight is taken.
        (faults.LessOneWeight, HALF, [((K, L), 1), ((K, L), 1), *[((b"x", b"y"), 1)] * 2],
         [NULL_ROW] * 4, [],         2.2),
        # As heavy as if many users had it.
        (faults.NoGap, FREQUENT, [((K, L), 1)] * 4, [NULL_ROW] * 4, [], 1000),
    ],
)  # fmt: skip
def test_faulty_draws_are_convicted(
    fault: Any, gate: CauseGate, one: Any, other: Any, rest: Any, least: float
) -> None:
    draws = issubclass(fault, SparseExponential)
    faulty = replace(gate, kind=fault) if draws else gate
    users = users_of(len(one), len(rest))
    found = []
    for tried, world in (
        (gate, CauseWorld(gate)),
        (faulty, (CauseWorld if draws else fault)(faulty)),
    ):
        laws = [tried.drawn([*rows, *rest], users, world) for rows in (one, other)]
        found.append(worst("draw", "planted", gate.claim, [(laws[0], laws[1])]))
    assert found[0].kept
    assert not found[1].kept
    assert found[1].delta > least * float(gate.claim.delta)


def test_a_claim_for_one_direction_is_convicted() -> None:
    gate = replace(TINY, kind=faults.OneDirection)
    (_, _), (_, turned) = unwatched_draws(gate, (K, L))
    assert not worst("draw", "planted", gate.claim, [turned]).kept
    assert worst("draw", "sound", TINY.claim, [turned]).kept


def test_what_the_theorem_does_not_cover_is_refused() -> None:
    """Rows without their users, replaces, a monitor: none of them is bounded by user."""
    gate = gate_of()
    rows: list[CauseRow] = [((P, K), 1), ((K,), 1)]
    with pytest.raises(BadParameter, match="by user"):
        gate.draw.law(CauseWorld(gate).moves(rows, (), gate.weights))
    narrower = CauseWorld(gate, WITH_P, narrower={P: [b"p&k"]})
    with pytest.raises(BadParameter, match="replace"):
        gate.drawn(rows, [0, 1], narrower)
    with pytest.raises(BadParameter, match="no users"):
        gate.draw.joint(Cost(ONE), 1)


# Several epochs, each of which ends after one check.


class Epochs(CauseWorld):
    """At each check a row of user 0, of which so many epochs read, and one of a new user."""

    def __init__(self, gate: CauseGate, reads: int, **options: Any) -> None:
        super().__init__(gate, **options)
        self.reads = reads

    def __call__(self, stream: Stream) -> World:
        def world(past: Transcript) -> tuple[Any, ...]:
            causes, _ = self.epoch(past)
            own, other = stream(past)
            rows = [own if len(past) < self.reads else NULL_ROW, other]
            users = [0, 1 + len(past)]
            return 0, self.moves(rows, causes, self.weights(past), users), self._tell(past)

        return world


def reacting(own: Sequence[CauseRow]) -> Stream:
    """The rows of a user, beside those of others that depend on what was drawn."""

    def stream(past: Transcript) -> tuple[CauseRow, CauseRow]:
        key = past[-1].key if past else None
        return own[len(past)], ((L,), 1) if key is None else ((K, L), int(key[-1] % 2))

    return stream


@pytest.mark.parametrize(("reads", "read"), [(1, 1), (2, 2), (1, 2), (2, 3)])
def test_epochs_add_up_and_no_more_may_read_a_user_than_are_charged(reads: int, read: int) -> None:
    """Also where rates and weights follow from the transcript; one epoch too many is convicted."""
    gate = gate_of((2, 1), F(1, 2), delta=F(1, 20), rounds=1)
    # The same cost: less for a row, and a larger part below.
    other = gate_of((1, 2), ONE, delta=F(1, 20), rounds=1, s=F(3, 8))
    assert other.claim == gate.claim
    checks = 3

    def tell(past: Transcript) -> Any:
        return (other if fired(past) % 2 else gate).begins

    world = Epochs(
        gate, read, tell=tell, weights=lambda past: (other if fired(past) % 2 else gate).weights
    )
    make = partial(gate.gate, longest_epoch=1)
    rows = [NULL_ROW, ((b"x", b"y"), 1), ((K,), 1), ((L,), NORMAL)]
    laws = [
        transcripts(make, world(reacting(own)), checks)
        for own in product(rows, repeat=min(read + 1, checks))
        for own in [(*own, *[NULL_ROW] * checks)]
    ]
    claim = gate.claim.times(reads)
    found = worst("gate", "epochs", claim, combinations(laws, 2))
    assert found.kept == (read <= reads), found
    if read <= reads:
        assert found.share > 0.4


def fired(past: Transcript) -> int:
    return sum(decision.key is not None for decision in past)


@pytest.mark.parametrize("share", [F(1, 2), ONE], ids=["divided", "planted: not divided"])
def test_delta_is_divided_among_the_epochs_that_read_a_user(share: Fraction) -> None:
    reads, budget = 2, Cost(F(5), F(1, 100))
    gate = gate_of(delta=budget.delta * share, rounds=1)
    world = Epochs(gate, reads)
    make = partial(gate.gate, longest_epoch=1)

    def stream(row: CauseRow) -> Stream:
        # Others have no keys, so that the keys of the user are of one world.
        return lambda past: (row, NULL_ROW)

    one, other = (transcripts(make, world(stream(row)), reads) for row in (((K, L), 1), NULL_ROW))
    reached = delta_at(float(budget.epsilon), one, other)
    assert (reached <= float(budget.delta)) == (share < 1)
    assert reached > 0.98 * float(reads * gate.delta)
    mechanism = mechanism_of(gate, budget, reads=reads, rounds=reads)
    if share < 1:
        mechanism.begin_epoch(gate.terms, 1, Threshold(0))
    else:
        with pytest.raises(BadParameter, match="cost more"):
            mechanism.begin_epoch(gate.terms, 1, Threshold(0))


def mechanism_of(gate: CauseGate, budget: Cost, **options: Any) -> CausesMechanism:
    def draw(terms: EpochTerms) -> SparseExponential:
        return SparseExponential(terms, delta=gate.delta, prior=gate.prior, units=gate.units)

    return CausesMechanism(
        ScriptedNoise({}), budget=budget, epsilon_evidence=F(1, 100), draw=draw, **options
    )


def test_what_epochs_of_different_rates_have_cost_is_known_of_each() -> None:
    """The ledger has what each draw cost, and `spent` the most that a user may have paid."""
    cheap, dear = gate_of(s=F(1, 8)), gate_of()
    mechanism = mechanism_of(dear, Cost(F(5), ONE), reads=2, rounds=4)
    for gate in (dear, cheap, cheap):
        mechanism.begin_epoch(gate.terms, 1, Threshold(0))
        moves = CauseWorld(gate).moves([], (), Weights(1, 1), [])
        mechanism.run([0], partial(read, moves))
    draws = [event.cost for event in mechanism.ledger]
    assert draws == [dear.claim, cheap.claim, cheap.claim]
    assert mechanism.spent == dear.claim + cheap.claim
    other = mechanism_of(dear, Cost(F(5), ONE), reads=2, rounds=4)
    with mechanism.checkpoint() as saved:
        other.resume(saved)
    assert (other.ledger, other.spent) == (mechanism.ledger, mechanism.spent)


def read(moves: Any, check: int, fired: bool) -> Any:
    return moves


# Counts.


def counted_loss(counts: WindowCounts, one: Sequence[int], other: Sequence[int]) -> float:
    """The largest loss of counts, over outcomes beyond both."""
    pairs = [(a, b, 50 if a > b else -50) for a, b in zip(one, other, strict=True)]
    masses = partial(laplace_mass, scale=counts.scale)
    return sum(math.log(masses(far - a) / masses(far - b)) for a, b, far in pairs)


@pytest.mark.parametrize("cap", [1, 2, 5])
def test_evidence_counts_a_user_in_every_epoch_and_a_fault_is_convicted(cap: int) -> None:
    plan = CausesPlan.practical(ls.Causes(["a"]), 2, 1e-6, 1000, unit="user", cap=cap)
    learner = ls.PrivateCauses(ls.Causes(["a"]), plan=plan)
    evidence, epochs = learner.loop.gate.evidence, plan.counts_of_unit
    assert epochs == max(2, cap)
    # In each epoch a round of the user leaves one cell for another.
    both = [1, 0] * epochs, [0, 1] * epochs
    assert counted_loss(evidence, *both) == pytest.approx(float(plan.epsilon_evidence))
    planted = WindowCounts(ScriptedNoise({}), epsilon=plan.epsilon_evidence, name="evidence")
    assert counted_loss(planted, *both) == pytest.approx(epochs * float(plan.epsilon_evidence))


@pytest.mark.parametrize("unit", ["event", "user"])
def test_the_base_rate_of_a_table_is_charged_and_a_fault_is_convicted(unit: Any) -> None:
    cls = ls.Causes(["a"])
    plan = CausesPlan.practical(cls, 1, 1e-6, 1000, unit=unit, table=True)
    learner = ls.PrivateCauses(cls, plan=plan)
    mechanism, base = learner.loop.gate, plan.epsilon_base
    assert base is not None
    made = WindowCounts(ScriptedNoise({}), epsilon=base, name="base rate", sensitivity=1)
    assert mechanism.first_scale == made.scale
    # A positive row becomes another one.
    assert counted_loss(made, [1], [0]) == pytest.approx(float(base))
    # At the noise of the first window of a stream, which nothing else reads.
    planted = WindowCounts(ScriptedNoise({}), epsilon=plan.epsilon, name="first window")
    assert counted_loss(planted, [1], [0]) > 3 * float(base)
    assert mechanism.left == Cost(plan.epsilon - plan.epsilon_evidence - base, plan.delta)
