"""Causes of outcomes (Theorem 15, "Outcomes"): the law of the transcript, and planted faults.

Rows are normal, or have an outcome; a key is a pattern and an outcome. The gate is the same as
without outcomes: what is new is what a row does.
"""

import random
from collections.abc import Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import pytest

import littlestone as ls
from littlestone._audit.causes import (
    OUTCOME_MARK,
    GateParameters,
    KeyRow,
    KeyStream,
    KeyWorld,
    OutcomeCounts,
    fixed_keys,
    move_law,
    neighbouring_laws,
    one_by_one,
)
from littlestone._audit.enumeration import BranchingNoise, EnumeratedTranscript, law
from littlestone._audit.laws import Laws, worst
from littlestone._hypotheses.causes import cause_from_key
from littlestone._learners.causes_plan import CausesPlan
from littlestone._privacy.causes import CausesGate, Gains, SparseExponential
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.noise import Noise

from . import causes_faults as planted
from .test_causes import COSTS, TINY, LowPlan, SummedNoise, counted_by, factor, gate_of

F = Fraction
A, B, K, P = b"a", b"b", b"k", b"p"
T, U = b"t", b"u"
OUTCOMES = (T, U, False)
PT, PU, QU = P + OUTCOME_MARK + T, P + OUTCOME_MARK + U, b"q" + OUTCOME_MARK + U


@pytest.mark.parametrize("rate", [0.2, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_the_whole_learner_has_the_law_of_the_twin(rate: float, seed: int) -> None:
    """`PrivateCauses` itself with outcomes, over all of its noise, round by round."""
    cls, draw = ls.Causes(["a", "b"], limit=2, normal=["ok"]), random.Random(seed)
    practical = CausesPlan.practical(cls, 4, 0.2, 100, min_rate=rate, change_cost=0)
    parts = {field.name: getattr(practical, field.name) for field in dataclass_fields(practical)}
    plan = LowPlan(**parts | {"check_every": 1, "longest_epoch": 2, "evidence_every": 2})
    points = [{"a": a, "b": b} for a in "xy" for b in "pq"]
    rows = [(draw.choice(points), draw.choice(["t", "t", "u", "ok"])) for _ in range(4)]

    def in_twin(move: bytes | None) -> bytes | None:
        if move is None:
            return None
        cause = cause_from_key(move[1:])
        return move[:1] + cause.pattern.key + OUTCOME_MARK + str(cause.outcome).encode()

    def run(noise: BranchingNoise) -> EnumeratedTranscript:
        assert isinstance(noise, SummedNoise)
        learner = ls.PrivateCauses(cls, plan=plan, noise=noise)
        gate = learner._runner.gate.gate
        assert gate is not None
        real, moves = gate._selector, list[bytes | None]()
        assert isinstance(real, SparseExponential)

        def select(ballot: Gains, *rest: object) -> bytes | None:
            moves.append(noise.choose(list(move_law(real, ballot).items())))
            return moves[-1]

        real.select = select  # type: ignore[method-assign, assignment]
        said: list[Decision] = []
        for x, y in rows:
            before = len(moves)
            learner.learn_one(x, y)
            drawn = len(moves) > before
            said.append(Decision(noise.fired, in_twin(moves[-1])) if drawn else NO_CHANGE)
        return tuple(said)

    whole = law(run, 0, SummedNoise)
    keyed: list[KeyRow] = [
        (tuple(c.key for c in cls.patterns_of(x)), y != "ok" and y.encode()) for x, y in rows
    ]
    cost = plan.cost_of(plan.given_rate)

    def age(published: frozenset[bytes], ended: int) -> int:
        # With causes: a 32nd of the horizon, doubled at each end by age, in whole checks.
        return min(100 // 32 << ended, 2) if published else 2

    twin = KeyWorld(lambda noise: plan.gate(noise, cost), OutcomeCounts(cost, 2), 4, age=age)
    said = twin.law(one_by_one(keyed))
    assert whole.keys() == said.keys()
    assert len(said) > 20
    assert all(whole[past] == pytest.approx(said[past], rel=1e-9) for past in said)


SQUARE: tuple[KeyRow, ...] = (
    None,
    *(((x, y), label) for x, y in ((A, B), (A, K), (P, A)) for label in OUTCOMES),
)
"""Rows of two patterns, with keys in common, matched by p or not."""
NESTED: tuple[KeyRow, ...] = (
    None,
    *(((P, y, P + b"&" + y), label) for y in (A, b"q") for label in OUTCOMES),
    ((A,), U),
)
"""Rows that causes of different outcomes match, one within the other."""
FEW: tuple[KeyRow, ...] = (None, ((A, B), T), ((A, B), U), ((A, B), False), ((P, A), U))


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize(
    ("e", "s"), [(F(1), F(1)), (F(1, 4), F(3, 2)), (F(2), F(1, 2))], ids=["even", "draw", "monitor"]
)
@pytest.mark.parametrize(
    ("rows", "rounds", "published"),
    [
        (SQUARE, 2, set()),
        (SQUARE, 2, {PT}),
        (SQUARE, 2, {PT, A + OUTCOME_MARK + U}),
        (NESTED, 2, {PT, QU}),
        (NESTED, 2, {P + b"&" + A + OUTCOME_MARK + U, PT}),
        (FEW, 3, {PT}),
    ],
    ids=["none", "one", "two", "nested", "narrow", "three"],
)
def test_all_small_neighbours_are_within_the_claim(
    rows: Sequence[KeyRow],
    rounds: int,
    published: set[bytes],
    e: Fraction,
    s: Fraction,
    cost: Fraction,
) -> None:
    gate = gate_of(cost, e=e, s=s)
    if rows is NESTED:
        gate = replace(gate, prior=(F(2, 5), F(1, 5)))
    for longest, limit in ((8, 8), (1, 2)) if rounds == 2 else ((2, 2),):
        world = KeyWorld(
            partial(gate.gate, longest_epoch=longest),
            OutcomeCounts(cost, limit),
            rounds,
            published=frozenset(published),
        )
        found = worst("gate", "small", gate.claim, neighbouring_laws(world, rows))
        assert found.kept, found
        assert found.delta < 0.1 / 1.1 + 1e-9


@pytest.mark.parametrize("cost", COSTS)
def test_worlds_that_react(cost: Fraction) -> None:
    """The second row is chosen by what was published after the first one."""
    gate = gate_of(cost)
    world = KeyWorld(gate.gate, OutcomeCounts(cost), 2, published=frozenset([PT]))
    rows = [row for row in SQUARE if row is None or row[0] != (A, K)]

    def reacting(first: KeyRow, drawn: KeyRow, otherwise: KeyRow) -> KeyStream:
        def stream(past: EnumeratedTranscript) -> tuple[KeyRow, ...]:
            if not past:
                return (first,)
            last = past[0]
            return (drawn if isinstance(last, Decision) and last.key is not None else otherwise,)

        return stream

    pairs = (
        (world.law(reacting(one, drawn, rest)), world.law(reacting(other, drawn, rest)))
        for one in rows
        for other in rows[: rows.index(one)]
        for drawn, rest in ((((P, A), U), ((A, B), T)), (((A, B), False), ((P, A), T)))
    )
    assert worst("gate", "reacting", gate.claim, pairs).kept


def test_a_row_of_fresh_keys_costs_the_whole_delta() -> None:
    """A row has one outcome, so its keys are as many as its patterns: the prior sums to 1."""
    gate = gate_of(F(1, 2))
    laws = counted_by(gate, [((A, B), T)], [None], OutcomeCounts(gate.cost))
    found = worst("gate", "fresh", gate.claim, [laws])
    assert found.kept
    assert found.delta == pytest.approx(0.1 / 1.1)


# Planted faults: the same neighbours clear the code and convict its faulty twin.

TWELVE = 12
FRESH: KeyRow = ((K,), U)


class Planted(NamedTuple):
    """A fault of the counts, the neighbours that show it, and the factor of delta."""

    fault: type[OutcomeCounts]
    one: Sequence[KeyRow]
    other: Sequence[KeyRow]
    least: float
    published: Sequence[bytes] = ()


COUNTS = {
    # A key of one world is heavy by rows of its outcome that a cause of another one matches.
    "a wrong outcome moves net": Planted(
        planted.WrongOutcomeMovesNet,
        [FRESH, *[((P, K), U)] * TWELVE],
        [None, *[((P, K), U)] * TWELVE],
        8000,
        [PT],
    ),
    # A key of one row has net 2.
    "an outcome listed twice": Planted(planted.OutcomeListedTwice, [((A, B), T)], [None], 2.7),
    # A row has twice as many keys, of which each has the prior of one.
    "a row counts for every outcome": Planted(planted.EveryOutcome, [((A, B), T)], [None], 1.99),
}


@pytest.mark.parametrize("name", COUNTS)
def test_faulty_counts_are_convicted(name: str) -> None:
    fault, one, other, least, published = COUNTS[name]
    laws = [
        counted_by(TINY, one, other, counts(TINY.cost), published)
        for counts in (OutcomeCounts, fault)
    ]
    assert worst("gate", name, TINY.claim, laws[:1]).kept
    assert factor(TINY, laws[1]) > least


def at_threshold(
    gate: GateParameters,
    counts: OutcomeCounts,
    one: Sequence[KeyRow],
    other: Sequence[KeyRow],
    threshold: int,
) -> Laws:
    """The laws of two streams that are checked once; p tells t."""

    def make(noise: Noise) -> CausesGate:
        return gate.gate(noise, lambda age, refusals, rate, margin: threshold, len(one))

    world = KeyWorld(make, counts, 1, published=frozenset([PT]))
    first, second = (world.law(fixed_keys([tuple(rows)])) for rows in (one, other))
    return first, second


def test_a_row_that_is_told_must_not_oppose_other_outcomes_by_one() -> None:
    """One key rises by 2 while the monitor moves: e + 2s, where e + (1 + c) s is claimed."""
    gate = GateParameters(F(1, 9), F(1), F(1), F(1, 10**9), (F(1),), drop_penalty=10)
    # The key is drawn rarely, so that its share of the weight does not matter.
    rows, units = [FRESH] * 14, gate.cost.denominator
    found = [
        worst(
            "gate",
            "found",
            gate.claim,
            [at_threshold(gate, counts, [*rows, FRESH], [*rows, ((P, K), T)], 17 * units)],
        )
        for counts in (OutcomeCounts(gate.cost), planted.FoundRowsOppose(gate.cost))
    ]
    assert float(gate.claim.epsilon) == pytest.approx(1 + 10 / 9)
    assert found[0].kept
    assert found[1].epsilon > 0.99 * 3


def test_a_false_alarm_must_not_oppose_other_outcomes() -> None:
    """One key rises by 1 + c and a drop falls by c: e (1 - c) + s (1 + 2c), and 2s is claimed."""
    gate = GateParameters(F(1, 2), F(1, 4), F(3, 2), F(1, 10**9), (F(1),))
    rows: list[KeyRow] = [*[FRESH] * 15, *[((P,), False)] * TWELVE]
    found = [
        worst(
            "gate",
            "alarms",
            gate.claim,
            [at_threshold(gate, counts, [*rows, FRESH], [*rows, ((P, K), False)], 50)],
        )
        for counts in (OutcomeCounts(gate.cost), planted.FalseAlarmsOppose(gate.cost))
    ]
    assert float(gate.claim.epsilon) == pytest.approx(3)
    assert found[0].kept
    assert found[1].epsilon > 0.99 * 3.125


@pytest.mark.parametrize("cost", COSTS)
def test_rows_of_another_outcome_that_speak_for_their_own_would_be_within_the_claim(
    cost: Fraction,
) -> None:
    """Not a fault of privacy: the exact loss differences of a rule that tells several outcomes."""
    gate = gate_of(cost)
    counts = planted.WrongOutcomeSpeaks(cost)
    world = KeyWorld(gate.gate, counts, 2, published=frozenset([PT]))
    assert worst("gate", "speaks", gate.claim, neighbouring_laws(world, SQUARE)).kept
    one, other = COUNTS["a wrong outcome moves net"][1:3]
    laws = counted_by(TINY, one, other, planted.WrongOutcomeSpeaks(TINY.cost), [PT])
    assert worst("gate", "speaks", TINY.claim, [laws]).kept
