"""The gate of causes, enumerated (docs/guarantee.md, Theorems 15 and 16): claims are kept, attained,
and refuted for planted faults; on fixed streams, on worlds that react, and for the whole learner."""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest

import littlestone as ls
from effort import scaled
from littlestone._audit.enumeration import (
    BranchingNoise,
    ByLaw,
    EnumeratingNoise,
    Laws,
    Transcript,
    World,
    delta_at,
    epsilon_at,
    laplace_mass,
    law,
    transcripts,
    worst,
)
from littlestone._audit.gates import (
    AND,
    CERTAIN,
    NULL_ROW,
    SMALL_ROWS,
    A,
    B,
    CauseGate,
    CauseRow,
    Causes,
    CauseWorld,
    Stream,
    cause_gate,
    extremal_causes,
    fixed,
    listed_keys,
    neighbouring_laws,
    small_causes,
    values_findings,
    window_findings,
)
from littlestone._hypotheses.causes import cause_from_key
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.effect import NOBODY, NORMAL, NULL, effect
from littlestone._learners.rate_to_beat import RateToBeat, odds, weights_of
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import (
    DROP,
    REPLACE,
    EpochTerms,
    Known,
    SparseExponential,
    StableValues,
    Threshold,
    Weights,
    WindowCounts,
    replaced,
)
from littlestone._privacy.gates import NO_CHANGE, Decision, Gate, MistakesMonitor
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import ScriptedNoise

from . import faults
from .reacting import Law, reacting_laws

F = Fraction
ONE = F(1)
REFUSED = Decision(True, None)
K, L, P, Q = b"k", b"l", b"p", b"q"
WITH_P = ((P, 1),)


def gate_of(
    costs: tuple[int, int] = (2, 1),
    weights: tuple[int, int] = (2, 1),
    *,
    e: Fraction = ONE,
    s: Fraction = ONE,
    listed: int = 2,
    known: Sequence[Known] = (),
    frequent: Fraction | None = None,
    **options: Any,
) -> CauseGate:
    """A gate whose rows list so many keys of width 1, with a delta that is easy to see."""
    units = max(*costs, *weights)
    terms = EpochTerms(e, s, max(ONE, F(sum(weights), units)), tuple(known))
    terms = terms._replace(frequent=() if frequent is None else (frequent,))
    usual: dict[str, Any] = {"delta": F(1, 10), "prior": (F(1, listed),), "units": units}
    return CauseGate(terms, costs=Weights(*costs), weights=Weights(*weights), **usual | options)


# What a row does: the lemma.

COLUMNS = (b"a0", b"a1"), (b"b0", b"b1"), (b"c0", b"c1")


def patterns_of(values: Sequence[bytes]) -> tuple[bytes, ...]:
    """Every and of up to three conditions."""
    return tuple(AND.join(part) for n in (1, 2, 3) for part in combinations(values, n))


LISTINGS = [patterns_of(values) for values in product(*COLUMNS)]
PATTERNS = sorted({pattern for listed in LISTINGS for pattern in listed})
PUBLISHED: list[Causes] = [
    (),
    ((b"a0", 1),),
    ((b"a0", 1), (b"a0", 2)),
    ((b"a0", 1), (b"b0", 1)),
    ((b"a0&b0", 1), (b"b0", 2)),
    ((b"a0", 1), (b"b0", 2), (b"c0", 1)),
    ((b"a0&b0", 1), (b"a1", 2), (b"b1&c1", 2)),
    ((b"a0&b0&c0", 1), (b"a0&b1", 1), (b"c1", 2)),
]
NUMBERS = [(1, 1), (1, 3), (3, 1), (2, 3), (3, 2), (3, 3), (1, 2), (2, 1)]
"""Costs of the monitor, and weights of the draw, in thirds."""


def narrower_than(pattern: bytes) -> list[bytes]:
    """Every pattern with one condition more, also those that no row lists."""
    parts = pattern.split(AND)
    more = [value for values in COLUMNS for value in values if value[:1] not in map(_column, parts)]
    return [AND.join(sorted([*parts, value])) for value in more] if len(parts) < 3 else []


def _column(part: bytes) -> bytes:
    return part[:1]


def moves_of(row: CauseRow, causes: Causes, weights: Weights, nested: bool = True) -> list[int]:
    """What a row adds to the score of every move: adds, drops and replaces."""
    listed, label = row
    found = effect(*row, causes, weights, weights)
    speaks = [
        found.add if pattern in listed and (found.add < 0 or label == outcome) else 0
        for pattern in PATTERNS
        for outcome in (1, 2)
    ]
    for place, (pattern, outcome) in enumerate(causes):
        own = found.drop if found.cell and found.cell[0] == place else 0
        speaks.append(own)
        for key in narrower_than(pattern) if nested else PATTERNS:
            replaces = own if key not in listed else 0
            if not nested and key in listed and found.add and (found.add < 0 or label == outcome):
                replaces += found.add
            speaks.append(replaces)
    return speaks


def rise_and_fall(
    causes: Causes, costs: Weights, weights: Weights, nested: bool = True
) -> tuple[int, int, int]:
    """The largest rise + fall where the monitor does not move and where it does, and its move."""
    rows = [((), NULL), *product(LISTINGS, (NORMAL, 1, 2))]
    moves = np.array([moves_of(row, causes, weights, nested) for row in rows])
    loss = np.array([effect(*row, causes, costs, weights).loss for row in rows])
    shifts = moves[:, None, :] - moves[None, :, :]
    both = shifts.max(axis=2).clip(0) - shifts.min(axis=2).clip(max=0)
    sigma = np.abs(loss[:, None] - loss[None, :])
    return int(both[sigma == 0].max()), int(both[sigma > 0].max()), int(sigma.max())


@pytest.mark.parametrize("costs", NUMBERS)
def test_the_lemma_holds_for_all_pairs_of_rows_and_is_tight(costs: tuple[int, int]) -> None:
    """Theorem 15, step 1: width to 3, up to three causes, two outcomes, replaces."""
    attained = set()
    for numbers, causes in product(NUMBERS, PUBLISHED):
        weights = Weights(*numbers)
        still, moving, sigma = rise_and_fall(causes, Weights(*costs), weights)
        assert still <= 2 * max(weights)
        assert moving <= sum(weights)
        assert sigma <= max(costs)
        if (still, moving, sigma) == (2 * max(weights), sum(weights), max(costs)):
            attained.add(numbers)
        for row in product(LISTINGS, (NULL, NORMAL, 1, 2)):
            both = (*row, causes, Weights(*costs), weights)
            assert effect(*both) == faults.restated(row, *both[2:])
    assert attained == set(NUMBERS)


def test_a_cause_is_replaced_by_narrower_ones_only() -> None:
    """Of a key that is not narrower the score moves by 2 where the monitor moves."""
    assert rise_and_fall(WITH_A, Weights(3, 1), Weights(3, 1), nested=False)[1] > 3 + 1


WITH_A = ((b"a0", 1),)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_a_draw_reads_the_summed_effects(numbers: tuple[int, int]) -> None:
    """The scores of the real draw, over all moves, are those of the lemma."""
    weights, draw = Weights(*numbers), random.Random(repr(numbers))
    gate = gate_of(weights=numbers, drop_penalty=2, replace_penalty=5, prior=(F(1, 9),) * 3)
    for causes in PUBLISHED:
        rows = [(draw.choice(LISTINGS), draw.choice((NULL, 0, 1, 2))) for _ in range(12)]
        narrower = {pattern: narrower_than(pattern) for pattern in PATTERNS}
        moves = CauseWorld(gate, causes, narrower=narrower).moves(rows, causes, weights)
        sums = np.sum([moves_of(row, causes, weights) for row in rows], axis=0).tolist()
        wanted = dict(zip(names_of(causes), sums, strict=True))
        units, real = gate.units, gate.draw.draw
        assert isinstance(real, SparseExponential)
        for place, score in enumerate(real.table(moves).scores.tolist()):
            key = real.key_at(moves, place, ScriptedNoise({}), 0)
            less = {DROP: 2 * units, REPLACE: 5 * units}.get(key[:1], weights[0]) if key else 0
            assert score == (wanted[key] - less if key else 0), key


def names_of(causes: Causes) -> list[bytes]:
    """The keys of all moves, in the order of `moves_of`."""

    def name(pattern: bytes, outcome: int) -> bytes:
        return pattern if outcome == 1 else pattern + b">%d" % outcome

    names = [b"+" + name(pattern, outcome) for pattern in PATTERNS for outcome in (1, 2)]
    for pattern, outcome in causes:
        old = name(pattern, outcome)
        names.append(DROP + old)
        names += [
            REPLACE + len(old).to_bytes(4) + old + name(key, outcome)
            for key in narrower_than(pattern)
        ]
    return names


# Whole gates.

SQUARE: tuple[CauseRow, ...] = (
    NULL_ROW,
    *(((x, y), label) for x in (b"x0", b"x1") for y in (b"y0", b"y1") for label in (1, NORMAL)),
)
"""Two columns of two values: rows list two keys."""
PAIRS: tuple[CauseRow, ...] = (
    NULL_ROW,
    *(
        ((x, y, x + AND + y), label)
        for x, y in ((b"x0", b"y0"), (b"x0", b"y1"), (b"x1", b"y1"))
        for label in (1, NORMAL)
    ),
)
"""The same at width 2: rows list three keys, and x0 contains x0&y0."""
FOUR: tuple[CauseRow, ...] = (
    NULL_ROW,
    *(
        (tuple(bytes([n]) for n in keys), label)
        for keys in (b"abcd", b"abef", b"ghij")
        for label in (1, NORMAL)
    ),
)
"""Rows that list four keys, some in common."""
FEW: tuple[CauseRow, ...] = (NULL_ROW, ((A, B), 1), ((A, B), NORMAL), ((A, K), 1), ((P, A), NORMAL))
OUTCOMES: tuple[CauseRow, ...] = (
    NULL_ROW,
    *((keys, label) for keys in ((A, B), (A, K), (P, A)) for label in (NORMAL, 1, 2)),
)
"""Rows of two patterns and two outcomes, with keys in common, matched by p or not."""
NESTED: tuple[CauseRow, ...] = (
    NULL_ROW,
    *(((P, y, P + AND + y), label) for y in (A, Q) for label in (NORMAL, 1, 2)),
    ((A,), 2),
)
"""Rows that causes of different outcomes match, one within the other."""
X0 = ((b"x0", 1),)
KNOWN_A: Causes = ((A, 1), (K, 1), (L, 1))
REPLACES: dict[str, Any] = {"narrower": {b"x0": [b"x0&y0", b"x0&y1", b"x0&y2"]}}
FAMILIES: dict[str, tuple[Sequence[CauseRow], int, Causes, dict[str, Any]]] = {
    "square": (SQUARE, 2, X0, {}),
    "both": (SQUARE, 2, (*X0, (b"y0", 1)), {}),
    "mixed": (SMALL_ROWS, 2, WITH_P, {}),
    "pairs": (PAIRS, 2, ((b"x0&y0", 1),), {}),
    "four": (FOUR, 2, (), {}),
    "three": (FEW, 3, (), {}),
    "outcomes": (OUTCOMES, 2, WITH_P, {}),
    "two outcomes": (OUTCOMES, 2, (*WITH_P, (A, 2)), {}),
    "nested": (NESTED, 2, (*WITH_P, (Q, 2)), {}),
    "known": (SMALL_ROWS, 2, WITH_P, {"known": KNOWN_A}),
    "known outcomes": (OUTCOMES, 2, WITH_P, {"known": ((A, 1), (A, 2), (L, 2))}),
    "replaces": (PAIRS, 2, X0, REPLACES),
    "replaces of known": (PAIRS, 2, X0, {**REPLACES, "known": ((b"y0", 1), (b"x1", 1))}),
}
SETTINGS: list[dict[str, Any]] = [
    {"costs": (9, 1), "weights": (9, 1)},
    {"costs": (2, 1), "weights": (1, 2), "e": F(1, 4), "s": F(3, 2)},
    {"costs": (1, 3), "weights": (3, 1)},
    {"costs": (1, 1), "weights": (1, 1), "e": F(2), "s": F(1, 2)},
    {"costs": (3, 2), "weights": (9, 5), "s": F(3), "frequent": F(1, 2)},
    {"costs": (2, 1), "weights": (5, 9), "s": F(3, 2), "frequent": ONE},
]
"""Costs and weights that are equal, and some that are not related; frequent keys."""


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['costs']} {s['weights']}")
@pytest.mark.parametrize("family", FAMILIES)
def test_causes_are_within_the_claim_for_all_small_neighbours(
    family: str, setting: dict[str, Any]
) -> None:
    rows, rounds, published, options = FAMILIES[family]
    known = [Known(len(options["known"]), F(1, 9))] if "known" in options else []
    gate = gate_of(**setting, listed=max(len(listed) for listed, _ in rows), known=known)
    if len(rows[1][0]) == 3:
        terms = gate.terms._replace(frequent=2 * gate.terms.frequent)
        gate = replace(gate, prior=(F(2, 5), F(1, 5)), terms=terms)
    for longest, limit in ((8, 8), (1, 2)) if rounds == 2 else ((2, 2),):
        world = CauseWorld(gate, published, limit, **options)
        pairs = small_causes(gate, world, rows, rounds, longest_epoch=longest)
        found = worst("gate", family, gate.claim, pairs)
        assert found.kept, found
        assert found.delta < 0.1 / 1.1 + 1e-9
        assert found.share > 0.2


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['costs']} {s['weights']}")
@pytest.mark.parametrize("rows", [SQUARE, OUTCOMES, FOUR], ids=["square", "outcomes", "four"])
def test_causes_hold_in_worlds_that_react(
    rows: Sequence[CauseRow], setting: dict[str, Any]
) -> None:
    gate = gate_of(**setting, listed=4 if rows is FOUR else 2)
    world = CauseWorld(gate, (*WITH_P, *X0), 3)
    law_of = lambda stream: transcripts(  # noqa: E731
        gate.gate, world(lambda past: (stream(past),)), 3
    )
    pairs = reacting_laws(law_of, rows, 3, scaled(8, least=2))
    assert worst("gate", "reacting", gate.claim, pairs).kept


def fired(past: Transcript) -> int:
    return sum(decision.drawn for decision in past)


FIRST = gate_of((3, 1), (3, 1), known=[Known(2, F(1, 9))])
EPOCHS = [
    FIRST,
    gate_of((1, 3), (3, 2), e=F(1, 2), s=F(3, 4), known=[Known(2, F(1, 5))]),
    gate_of((2, 3), (1, 3), e=F(3, 4), s=F(1, 2), known=[Known(2, F(1, 9))]),
]
"""Terms, costs and weights of one epoch after the other."""


@cache
def with_margin(epoch: int, margin: int) -> CauseGate:
    gate = EPOCHS[epoch]
    return replace(gate, terms=gate.terms._replace(margin=margin))


def test_terms_costs_and_weights_may_change_from_epoch_to_epoch() -> None:
    """All by the transcript: thresholds, ages, margins, rates, weights, and how keys are known."""

    def gate_at(past: Transcript) -> CauseGate:
        return EPOCHS[fired(past) % 3]

    def tell(past: Transcript) -> Callable[[Any], None]:
        def told(gate: Any) -> None:
            if not gate.epoch_age:
                with_margin(fired(past) % 3, dropped(past)).begins(gate)
            gate.schedule.begin_epoch(1 + fired(past), Threshold(1 + fired(past)))

        return told

    def weights(past: Transcript) -> Weights:
        # Also by how long the epoch took.
        both = gate_at(past).weights
        return Weights(*map(int, (both[0], 1))) if len(past) % 2 else both

    claim = max((gate.claim for gate in EPOCHS), key=lambda cost: cost.epsilon)
    rows = ((P,), NORMAL), ((A, B), 1), ((A, B), NORMAL)
    world = CauseWorld(
        FIRST,
        WITH_P,
        known=((A, 1), (L, 1)),
        costs=lambda past: gate_at(past).costs,
        weights=weights,
        tell=tell,
    )
    found = worst("gate", "epochs", claim, small_causes(FIRST, world, rows, 3))
    assert found.kept
    assert found.share > 0.15
    law_of = lambda stream: transcripts(  # noqa: E731
        FIRST.gate, world(lambda past: (stream(past),)), 3
    )
    pairs = reacting_laws(law_of, rows, 3, scaled(8, least=2))
    assert worst("gate", "reacting", claim, pairs).kept


def dropped(past: Transcript) -> int:
    return sum(d.key is not None and d.key.startswith(DROP) for d in past)


def test_a_margin_by_exact_counts_is_convicted() -> None:
    """Planted: the margin counts the positives of earlier epochs themselves, without noise."""
    gate = replace(gate_of((1, 1), (1, 1), listed=1), delta=F(1, 1000))
    make = partial(gate.gate, threshold=Threshold(CERTAIN), check_every=9)
    later = [[((key,), 1)] * 9 for key in (A, B, K)]

    def law_of(label: int, exact: bool) -> Law:
        rows = [[((P,), label), *[NULL_ROW] * 8], *later]
        margin = replace(gate, terms=gate.terms._replace(margin=2))
        told = margin.begins if exact and label else gate.begins
        world = CauseWorld(gate, WITH_P, tell=lambda past: told if past else gate.begins)
        return transcripts(make, world(fixed(rows)), 3)

    for exact in (True, False):
        pair = law_of(NORMAL, exact), law_of(1, exact)
        assert worst("gate", "exact counts", gate.claim, [pair]).kept != exact


# The claim is attained.


@pytest.mark.parametrize("weights", [(199, 1), (9, 1), (2, 1), (1, 1), (1, 3)])
def test_the_joint_claim_is_attained(weights: tuple[int, int]) -> None:
    """Each of the three terms of the claim has a pair of neighbours that costs it."""
    e, s = F(1, 2), F(1, 4)
    units = max(weights)
    gate = gate_of((units, 1), weights, e=e, s=s, delta=F(1, 10**7), prior=(F(1, 6), F(1, 6)))
    keys = [A, B, K, b"a&b", b"b&k", b"a&k"]
    joint = e + gate.terms.swing * s
    terms = {"alone": None, "negative": joint, "leading": 2 * s}
    for family, laws in extremal_causes(gate, keys):
        term = next(value for name, value in terms.items() if name in family)
        assert worst("gate", family, gate.claim, [laws]).kept
        if term is None:
            claimed = float(gate.delta / (1 + gate.delta))
            assert delta_at(float(gate.claim.epsilon), *laws) == pytest.approx(claimed, rel=1e-9)
        else:
            assert 0.99 * float(term) < epsilon_at(float(gate.delta), *laws) <= float(term), family
    assert gate.claim.epsilon == joint <= e + 2 * s


@pytest.mark.parametrize("family", ["known", "replaced"])
def test_known_keys_and_replaces_need_no_delta_and_cost_all_of_epsilon(family: str) -> None:
    """A rare key against a leading one: 2s. A row of a cause alone: e + (1 + c0) s."""
    s, heavy = F(1, 4), 40
    known, rest = [Known(2, F(1, 10**4))], [((K,), 1)] * heavy + [((L,), 1)] * 2 * heavy
    if family == "known":
        gate = gate_of((1, 1), (1, 1), e=F(1, 2), s=s, known=known, delta=F(1, 10**12))
        world = CauseWorld(gate, known=((K, 1), (L, 1)))
        laws = gate.at_once([*rest, ((K,), 1)], [*rest, ((L,), 1)], CERTAIN, world)
        claimed, outcome = 2 * s, b"+k"
    else:
        gate = gate_of(
            (1, 2), (2, 1), e=F(1, 2), s=s, delta=F(1, 10**12), drop_penalty=20, replace_penalty=20
        )
        world = CauseWorld(gate, WITH_P, narrower={P: [b"p&a", b"p&b"]})
        laws = gate.at_once([((P, A, b"p&a"), NORMAL)], [((P, A, b"p&a"), 1)], 20, world)
        claimed, outcome = F(1, 2) + F(3, 2) * s, REPLACE + (1).to_bytes(4) + b"pp&b"
    one, other = (found[Decision(True, outcome),] for found in laws)
    assert 0.99 * float(claimed) < abs(math.log(one / other)) <= float(claimed) + 1e-9
    assert epsilon_at(0.0, *laws) <= float(gate.claim.epsilon) + 1e-9


# Planted faults: the same families clear the code and convict its faulty twin. A factor is how many
# times the claimed delta goes with the claimed epsilon.

TINY = replace(gate_of(), delta=F(1, 10**4))
TWELVE = 12
POSITIVE, NEGATIVE, OTHER = ((K,), 1), ((K,), NORMAL), ((L,), 1)
SECOND: CauseRow = ((K,), 2)
MATCHED = [((P, K), 1)] * TWELVE
WRONG = [((P, K), 2)] * TWELVE
BEHIND = [*[NEGATIVE] * TWELVE, *[POSITIVE] * TWELVE]
COLLIDING = [*[POSITIVE] * TWELVE, *[OTHER] * TWELVE, *[NEGATIVE] * TWELVE]


def factor(gate: CauseGate, laws: Laws) -> float:
    return worst("gate", "planted", gate.claim, [laws]).delta / float(gate.claim.delta)


@pytest.mark.parametrize(
    ("fault", "one", "other", "least", "published"),
    [
        # A key of one row has twice its score: e^s times delta.
        (faults.ListedTwice, [((A, B), 1)], [NULL_ROW], 2.7, ()),
        # The replaced row decides whether the negatives after it count.
        (faults.CountedLate, [POSITIVE, *BEHIND], [NULL_ROW, *BEHIND], 5000, ()),
        # A key of one world is heavy by the matched positives that list it.
        (faults.MatchedRowsMoveNet, [POSITIVE, *MATCHED], [NULL_ROW, *MATCHED], 8900, WITH_P),
        # A key of one world is heavy by the positives of a key that has its hash.
        (faults.SketchedPositives, [POSITIVE, *[OTHER] * 12], [NULL_ROW, *[OTHER] * 12], 4700, ()),
        # Both keys are in both worlds; which of them gets the negatives of their hash is not.
        (faults.NegativesToTheFirst, [POSITIVE, *COLLIDING], [OTHER, *COLLIDING], 6800, ()),
        # A key of one world is heavy by rows of its outcome that a cause of another one matches.
        (faults.WrongOutcomeMovesNet, [SECOND, *WRONG], [NULL_ROW, *WRONG], 8000, WITH_P),
        (faults.OutcomeListedTwice, [((A, B), 1)], [NULL_ROW], 2.7, ()),
        # A row has twice as many keys, of which each has the prior of one.
        (faults.EveryOutcome, [((A, B), 1)], [NULL_ROW], 1.99, ()),
        # One row turns the weights of all others around.
        (faults.ExactWeights, [POSITIVE, *COLLIDING], [NULL_ROW, *COLLIDING], 5000, ()),
    ],
)
def test_faulty_counts_are_convicted(
    fault: type[CauseWorld], one: Any, other: Any, least: float, published: Causes
) -> None:
    sound, faulty = (
        TINY.at_once(one, other, CERTAIN, kind(TINY, published)) for kind in (CauseWorld, fault)
    )
    assert factor(TINY, sound) <= 1
    assert factor(TINY, faulty) > least


@pytest.mark.parametrize(
    "kind", [faults.NegativesOfAHash, faults.ActiveByAnyRow, faults.WrongOutcomeSpeaks]
)
@pytest.mark.parametrize("weights", [(9, 1), (1, 1)])
def test_other_counts_would_be_within_the_claim_too(
    kind: type[CauseWorld], weights: tuple[int, int]
) -> None:
    gate = gate_of(weights, weights)
    rows = OUTCOMES if kind is faults.WrongOutcomeSpeaks else SMALL_ROWS
    hashed: Sequence[CauseRow] = [*rows, POSITIVE, NEGATIVE, OTHER, ((L,), NORMAL)]
    pairs = small_causes(gate, kind(gate, WITH_P), hashed, 2)
    assert worst("gate", "other counts", gate.claim, pairs).kept


LEADING = [*[POSITIVE] * 5, *[OTHER] * 10]
FREQUENT = gate_of((1, 1), (1, 1), delta=F(1, 10**6), frequent=F(1, 2))
KNOWN = gate_of((1, 1), (1, 1), known=[Known(3, F(1, 100))], delta=F(1, 10**6))
SWAP = gate_of((1, 1), (1, 1), delta=F(1, 10**6))
PQ = b"p&q"
REPAIRED = [((P,), NORMAL)] * TWELVE


@pytest.mark.parametrize(
    ("fault", "gate", "one", "other", "least", "options"),
    [
        # Active in one world only, and then as heavy as all known keys together.
        (faults.ActiveKnownKeys, KNOWN, [POSITIVE], [NULL_ROW], 10_000, {}),
        # As heavy as if many rows listed it.
        (faults.NoGap, FREQUENT, [((A, B), 1)], [NULL_ROW], 100_000, {}),
        # One key rises by 2 and the other falls by as much.
        (faults.HeavyPositives, FREQUENT, [POSITIVE, *LEADING], [OTHER, *LEADING], 100, {}),
        # With a positive a key has all of its negatives, without one it has none.
        (faults.UnclippedKnownKeys, KNOWN, [POSITIVE, *[NEGATIVE] * 12], [NULL_ROW, *[NEGATIVE] * 12],
         1000, {}),
        # The second row makes the key heavy.
        (faults.KnownByRows, KNOWN, [POSITIVE, POSITIVE], [NULL_ROW, POSITIVE], 10_000, {}),
        # A row of the cause takes all from the key that no row lists, or gives it to it.
        (faults.UnlistedAtZero, SWAP, [((P, PQ), NORMAL), *REPAIRED], [NULL_ROW, *REPAIRED], 10_000,
         {"published": WITH_P, "narrower": {P: [PQ]}}),
        (faults.OnlyListed, SWAP, [((P, PQ), NORMAL), *REPAIRED], [NULL_ROW, *REPAIRED], 10_000,
         {"published": WITH_P, "narrower": {P: [PQ]}}),
    ],
)  # fmt: skip
def test_faults_of_known_keys_and_replaces_are_convicted(
    fault: Any, gate: CauseGate, one: Any, other: Any, least: float, options: dict[str, Any]
) -> None:
    known = (A if fault is faults.KnownByRows else K, L, B)
    options = {"known": tuple((key, 1) for key in known)} if gate is KNOWN else options
    draws = issubclass(fault, SparseExponential)
    faulty = replace(gate, kind=fault) if draws else gate
    worlds = CauseWorld(gate, **options), (CauseWorld if draws else fault)(faulty, **options)
    sound, wrong = (
        tried.at_once(one, other, CERTAIN, world)
        for tried, world in zip((gate, faulty), worlds, strict=True)
    )
    assert factor(gate, sound) <= 1
    assert factor(gate, wrong) > least


@pytest.mark.parametrize(
    ("fault", "gate", "rows", "other", "threshold", "options", "reached"),
    [
        # One key rises by 2 while the monitor moves: e + 2s, where e + (1 + c) s is claimed.
        (faults.FoundRowsOppose,
         gate_of((9, 1), (9, 1), delta=F(1, 10**9), prior=(ONE,), drop_penalty=10),
         [SECOND] * 15, ((P, K), 1), 17 * 9, {}, 3),
        # One key rises by 1 + c and a drop falls by c: e (1 - c) + s (1 + 2c), and 2s is claimed.
        (faults.FalseAlarmsOppose,
         gate_of((2, 1), (2, 1), e=F(1, 4), s=F(3, 2), delta=F(1, 10**9), prior=(ONE,)),
         [*[((P,), NORMAL)] * TWELVE, *[SECOND] * 16], ((P, K), NORMAL), 50, {}, 3.125),
        # A swap rises by 2 while the monitor moves: unmatched rows speak on it too.
        (faults.NotNested,
         gate_of((9, 9), (9, 1), delta=F(1, 10**9), prior=(ONE,), drop_penalty=99, replace_penalty=9),
         [((Q,), 1)], ((P,), 1), 12, {"narrower": {P: [Q]}}, 3),
        # Two false alarms move the monitor and scores by 2B.
        (faults.WeighedByCause,
         gate_of((9, 9), (1, 9), delta=F(1, 10**9), prior=(ONE,), drop_penalty=4),
         [*[((Q,), NORMAL)] * 8, ((P,), NORMAL)], ((Q,), NORMAL), 12, {"published": (*WITH_P, (Q, 1))},
         3),
    ],
)  # fmt: skip
def test_scores_that_move_too_much_with_the_monitor_are_convicted(
    fault: type[CauseWorld],
    gate: CauseGate,
    rows: list[CauseRow],
    other: CauseRow,
    threshold: int,
    options: dict[str, Any],
    reached: float,
) -> None:
    options = {"published": WITH_P} | options
    found = [
        worst(
            "gate",
            "together",
            gate.claim,
            [gate.at_once(rows, [*rows[:-1], other], threshold, kind(gate, **options))],
        )
        for kind in (CauseWorld, fault)
    ]
    assert found[0].kept
    assert found[1].epsilon > 0.97 * reached > float(gate.claim.epsilon)


@pytest.mark.parametrize("weights", [(10, 10), (10, 30), (1, 11)])
def test_weights_that_are_not_scaled_are_refused_and_would_be_convicted(
    weights: tuple[int, int],
) -> None:
    """Together they may have 11 of 10 units, and none more than 10."""
    terms = EpochTerms(ONE, F(1, 2), F(11, 10))
    scaled_down, told = Weights(10, 1), Weights(*weights)
    gate = CauseGate(terms, F(1, 10**6), (ONE,), Weights(10, 10), told, 10)
    with pytest.raises(BadParameter, match="not within the terms"):
        gate.at_once([POSITIVE], [NULL_ROW], CERTAIN)
    for kept, tried in (
        (True, replace(gate, weights=scaled_down)),
        (False, replace(gate, kind=faults.WeightsNotScaled)),
    ):
        pairs = [laws for _, laws in extremal_causes(tried, [A])]
        assert worst("gate", "unscaled", gate.claim, pairs).kept == kept


def test_a_monitor_that_weighs_rows_again_is_convicted() -> None:
    """A false alarm costs 1, and after the first check a third; missed positives the other way."""
    gate = replace(gate_of((1, 3), (3, 1), e=ONE, s=F(1, 10)), delta=F(1, 10**6))
    # Below the loss of the first check, so that a quiet one pins the threshold noise; then above.
    make = partial(gate.gate, threshold=Threshold(8, -16.0, 3.0), check_every=4)
    rest = [POSITIVE, POSITIVE, NULL_ROW]
    found = []
    for kind in (CauseWorld, faults.WeighedAgain):
        world = kind(gate, WITH_P, costs=lambda past: Weights(3, 1) if past else Weights(1, 3))
        one, other = (
            transcripts(make, world(fixed([[row, *rest], [NULL_ROW] * 4])), 2)
            for row in (((P,), NORMAL), NULL_ROW)
        )
        found.append(worst("gate", "again", gate.claim, [(one, other)]))
    assert found[0].kept
    assert found[1].epsilon > 1.3 * float(gate.claim.epsilon)


@pytest.mark.parametrize(
    ("threshold", "longest"), [(CERTAIN, 8), (-CERTAIN, 1)], ids=["at firings", "at ages"]
)
def test_rows_that_are_kept_where_nothing_was_drawn(threshold: int, longest: int) -> None:
    """Each of five draws reads the replaced row: nearly 5 times delta."""
    make = partial(TINY.gate, threshold=Threshold(threshold), longest_epoch=longest)
    for kind, least, most in ((CauseWorld, 0.9, 1.0), (faults.RowsKeptAtNone, 4.9, 5.0)):
        world = kind(TINY)
        one, other = (
            transcripts(make, world(fixed([[row], *[[NULL_ROW]] * 4])), 5)
            for row in (((A, B), 1), NULL_ROW)
        )
        assert least < factor(TINY, (one, other)) <= most


def test_faults_of_the_draw_are_convicted() -> None:
    row: CauseRow = ((A, B, K, L), 1)
    # Four keys at 1/2 each: a prior that sums to 2.
    assert factor(TINY, TINY.at_once([row], [NULL_ROW], CERTAIN)) > 1.99
    # A key of one row has e^s times its weight.
    gate = replace(TINY, kind=faults.GainWithoutOneOff)
    assert factor(gate, gate.at_once([((A, B), 1)], [NULL_ROW], CERTAIN)) > 2.7


def test_noise_that_is_not_on_the_grid_is_convicted() -> None:
    """Whole noise where c = 1/2: half a shift is paid by the threshold noise and by the firing.

    A positive that a cause alone matches becomes a negative. One quiet check, at which the shift
    moves the least threshold noise; then a firing, at which it moves nothing but the threshold
    noise is higher: 2e, and (1 + c) s for the draw of nothing.
    """
    gate = gate_of(e=F(2), s=F(1, 4), delta=F(1, 10**6), prior=(ONE,))
    make = partial(gate.gate, threshold=Threshold(25, 23.0, 1 / 26), check_every=26)
    world, rest = CauseWorld(gate, WITH_P), [((P,), NORMAL)] * 25
    found = []
    for noise in (None, faults.CoarseNoise):
        kinds: dict[str, Any] = {} if noise is None else {"noise": noise}
        one, other = (
            transcripts(make, world(fixed([[((P,), label), *rest], [NULL_ROW] * 26])), 2, **kinds)
            for label in (1, NORMAL)
        )
        found.append(worst("gate", "grid", gate.claim, [(one, other)]))
    assert found[0].kept
    assert found[1].delta > 800 * float(gate.delta)
    assert found[1].epsilon > 1.8 * float(gate.claim.epsilon)


# Nearly all of the budget is the monitor's, so that its faults are not covered by the draw's.
QUICK = gate_of((1, 1), (1, 1), s=F(1, 10), delta=F(1, 10**4), prior=(ONE,))


@pytest.mark.parametrize(
    ("fault", "only", "threshold", "least"),
    [
        # The quiet check, and the refusals of two later epochs, pay for the shift: 3e.
        (faults.ThresholdNoiseShared, (NO_CHANGE, REFUSED, REFUSED, REFUSED), 0, 60),
        # Each of three refusals reads the round: 3e.
        (faults.CountKeptAtFiring, (REFUSED, REFUSED, REFUSED), 1, 3000),
    ],
)
def test_a_monitor_that_remembers_is_convicted(
    fault: type[MistakesMonitor], only: Transcript, threshold: int, least: float
) -> None:
    nothing = CauseWorld(QUICK).moves([], (), QUICK.weights)
    found = {}
    for kind in (MistakesMonitor, fault):

        def make(noise: Noise, kind: type[MistakesMonitor] = kind) -> Gate[Any]:
            gate = QUICK.gate(noise, Threshold(threshold))
            gate.monitor = kind(noise, epsilon=F(1))
            return gate

        laws = [
            transcripts(make, fixed([(n, nothing), *[(0, nothing)] * 3]), len(only), only)
            for n in (0, 1)
        ]
        found[kind] = factor(QUICK, (laws[0], laws[1]))
    assert found[MistakesMonitor] <= 1
    assert found[fault] > least


def test_noise_for_one_unit_is_convicted() -> None:
    """A missed positive is 9 units: 9e, where e is claimed."""
    gate = replace(QUICK, units=9, costs=Weights(9, 1), weights=Weights(9, 1))

    def make(noise: Noise) -> Gate[Any]:
        made = gate.gate(noise, Threshold(10))
        made.monitor = faults.NoiseForOneUnit(noise, epsilon=F(1), cap=9)
        return made

    world = CauseWorld(gate)
    one, other = (transcripts(make, world(fixed([[row]])), 1) for row in (POSITIVE, NULL_ROW))
    found = worst("gate", "units", gate.claim, [(one, other)])
    assert found.delta > 2000 * float(gate.delta)
    assert found.epsilon > 8.9


# Counts that are released, by themselves and inside the history of a gate.


def test_windows_cost_what_they_claim() -> None:
    findings = list(window_findings("evidence", F(1, 10)))
    assert all(finding.kept for finding in findings)
    assert max(finding.share for finding in findings) > 0.999


def counted_loss(epsilon: Fraction, one: Sequence[int], other: Sequence[int]) -> float:
    """The largest loss of windows with these counts, over outcomes beyond both."""
    scale = WindowCounts(ScriptedNoise({}), epsilon=epsilon, name="evidence").scale
    # Far out on the side of the first world: each count adds its whole distance.
    return sum(
        math.log(laplace_mass(far - a, scale) / laplace_mass(far - b, scale))
        for a, b in zip(one, other, strict=True)
        for far in [50 if a > b else -50]
    )


def test_windows_that_overlap_and_a_first_window_that_is_read_twice() -> None:
    """A round in two windows: twice what they claim. In first window and gate: 1.9 times."""
    assert counted_loss(F(1, 10), [1, 0], [0, 1]) <= 0.1 + 1e-12
    assert counted_loss(F(1, 10), [1, 0, 1, 0], [0, 1, 0, 1]) == pytest.approx(0.2)
    plan = CausesPlan.practical(ls.Causes(["a"]), 1, 1e-6, 1000)
    gate = cause_gate(plan, 1.0)
    fires = max(
        epsilon_at(float(gate.delta), *laws) for _, laws in extremal_causes(gate, listed_keys(plan))
    )
    first = counted_loss(plan.epsilon, [1, 0], [0, 1])
    assert first == pytest.approx(1)
    # The noise of the two is independent, so that their losses add up where both are largest.
    assert first + fires > 1.89 * float(plan.epsilon)
    votes = list(values_findings(lambda noise: StableValues(noise, plan.budget), plan.budget))
    assert max(finding.epsilon for finding in votes) + fires > 1.89 * float(plan.epsilon)


@pytest.mark.parametrize("kind", [StableValues, faults.ThresholdOneTooLow, faults.VotesTwice])
@pytest.mark.parametrize("epsilon", [F(1, 2), F(1), F(3)])
def test_values_are_discovered_within_the_claim_and_attain_it(kind: Any, epsilon: Fraction) -> None:
    # Just what a value with one vote has at a threshold, so that a smaller one is too likely.
    a, threshold = math.exp(-float(epsilon) / 2), 1 + math.ceil(32 / epsilon)
    claim = Cost(epsilon, F(a ** (threshold - 1) / (1 + a) * (1 + 1e-9)))
    found = list(values_findings(lambda noise: kind(noise, claim), claim))
    assert all(finding.kept for finding in found) == (kind is StableValues)
    if kind is StableValues:
        assert kind(ScriptedNoise({}), claim).threshold == threshold
        assert found[0].delta > 0.999 * float(claim.delta)
        assert found[1].epsilon > 0.99 * float(epsilon)


def test_parts_of_a_first_window_compose_in_parallel() -> None:
    """A round is counted, or votes: the larger cost. Counted and voting: the sum."""
    claim = Cost(F(1), F(1, 10**6))

    def law_of(counts: Sequence[int], votes: Mapping[bytes, int]) -> Law:
        def run(noise: BranchingNoise) -> Any:
            first = WindowCounts(noise, epsilon=claim.epsilon, name="first window")
            released = [(n >= 3) + (n >= -2) for n in first.release(counts)]
            return tuple(released), tuple(StableValues(noise, claim).release(votes))

        return law(run)

    high = StableValues(ScriptedNoise({}), claim).threshold
    few, many = {A: high - 2, B: high + 3}, {A: high - 1, B: high + 2}
    base = law_of([1, 0], few)
    for other in (law_of([0, 1], few), law_of([1, 0], many)):
        found = worst("first", "parallel", claim, [(base, other)])
        assert found.kept
        assert found.epsilon > 0.99
    assert worst("first", "both", claim, [(base, law_of([0, 1], many))]).epsilon > 1.99


class Counted(NamedTuple):
    """What one check of a gate with evidence makes public."""

    drawn: bool
    key: bytes | None
    counts: tuple[int, ...]


class CountedGate:
    """A gate whose weights follow from the counts of its epoch, which are released before a draw."""

    def __init__(self, gate: Gate[Any], evidence: WindowCounts, high: int) -> None:
        self.gate, self.evidence, self.high = gate, evidence, high

    def check(self, loss: int, read: tuple[Any, list[int]]) -> Counted:
        moves, cells = read
        public: list[int] = []

        def scores(check: int, fired: bool) -> Any:
            # Of each count only whether it is high, low, or neither.
            public.extend((n >= self.high) + (n >= -1) for n in self.evidence.release(cells))
            turned = Weights(*reversed(moves.weights)) if public[1] == 0 else moves.weights
            return moves._replace(weights=turned)

        return Counted(*self.gate.run([loss], scores).decision, tuple(public))


class CountedWorld(CauseWorld):
    """Also return the cells of the rows of an epoch."""

    def __call__(self, stream: Stream) -> World:
        inputs = super().__call__(stream)

        def world(past: Transcript) -> tuple[Any, ...]:
            loss, moves, _ = inputs(past)
            causes, since = self.epoch(past)
            counts = Counter[tuple[int, bool]]()
            for number in range(since, len(past) + 1):
                for listed, label in stream(past[:number]):
                    cell = effect(listed, label, causes, faults.SIGN, faults.SIGN).cell
                    if cell is not None:
                        counts[cell[0], cell[1] > NORMAL] += 1
            cells = product([*range(len(causes)), NOBODY], (False, True))
            return loss, (moves, [counts[cell] for cell in cells])

        return world


@pytest.mark.parametrize("kind", [WindowCounts, faults.EvidenceForOneCell])
def test_weights_may_follow_from_counts_that_are_released_before_the_draw(kind: Any) -> None:
    """Evidence inside the history: the costs add up, and the weights are public by then."""
    gate = gate_of((3, 1), (3, 1), e=ONE, s=F(1, 2), delta=F(1, 10**9))
    claim, world = gate.claim + Cost(F(1, 2)), CountedWorld(gate)

    def make(noise: Noise, high: int = 3, **options: Any) -> CountedGate:
        evidence = kind(noise, epsilon=F(1, 2), name="evidence")
        return CountedGate(gate.gate(noise, **options), evidence, high)

    law_of = lambda stream: transcripts(make, world(lambda past: (stream(past),)), 2)  # noqa: E731
    if kind is WindowCounts:
        pairs = neighbouring_laws(law_of, (POSITIVE, NEGATIVE, NULL_ROW), 2)
        assert worst("gate", "small", claim, pairs).kept
    # A positive of a rare key becomes a negative, and both counts are far on one side.
    rare = 30
    options: dict[str, Any] = {"threshold": Threshold(3 * rare + 6), "check_every": rare}
    pair = [
        transcripts(partial(make, high=rare + 2, **options), world(fixed([rows])), 1)
        for rows in ([POSITIVE] * rare, [*[POSITIVE] * (rare - 1), NEGATIVE])
    ]
    found = worst("gate", "counted", claim, [(pair[0], pair[1])])
    assert found.kept == (kind is WindowCounts)
    assert found.share > 0.98


# Whole learners.


class NoWindows(EnumeratingNoise):
    """Counts of windows get no noise: no transcript here has them."""

    def laplace(self, scale: Fraction, at: Any) -> int:
        return 0


class Recorded(ByLaw):
    """Note what is drawn."""

    def __init__(self, draw: Any, drawn: list[bytes | None]) -> None:
        super().__init__(draw)
        self._drawn = drawn

    def select(self, *read: Any) -> bytes | None:
        self._drawn.append(super().select(*read))
        return self._drawn[-1]


@dataclass(frozen=True)
class LowPlan(CausesPlan):
    """A threshold of one missed positive, so that a few rounds fire; few units; draws by law."""

    units = 20

    def threshold(self, terms: EpochTerms) -> float:
        return 1.0

    def draw(self, terms: EpochTerms) -> Any:
        return Recorded(super().draw(terms), DRAWN)


DRAWN: list[bytes | None] = []


def name_of(key: bytes) -> bytes:
    """A cause in the words of the plain world."""
    cause = cause_from_key(key)
    parts = sorted(f"{c.column}={c.value!s}".encode() for c in cause.conditions)
    return AND.join(parts) + (b">2" if cause.outcome == "u" else b"")


def in_world(move: bytes | None) -> bytes | None:
    if move is None:
        return None
    if not move.startswith(REPLACE):
        return move[:1] + name_of(move[1:])
    old, new = map(name_of, replaced(move))
    return REPLACE + len(old).to_bytes(4) + old + new


CASES: list[tuple[int, int, int, int, dict[str, Any]]] = [
    (0, 1, 2, 3, {}),
    (3, 8, 16, 3, {}),
    (4, 8, 16, 4, {}),
    (0, 1, 2, 4, {"normal": ["ok"]}),
    (2, 1, 2, 3, {"normal": ["ok"]}),
    (1, 1, 2, 3, {"width": 2, "values": {"a": ["x", "y"], "b": ["p", "q", "r"]}}),
    (5, 1, 2, 4, {"width": 2, "values": {"a": ["x", "y"], "b": ["p", "q", "r"]}}),
]


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(("seed", "every", "longest", "checks", "options"), CASES)
def test_the_causes_learner_has_the_law_of_summed_effects(
    rate: float, seed: int, every: int, longest: int, checks: int, options: dict[str, Any]
) -> None:
    """`PrivateCauses` itself, over all of its noise: rows, epochs, ages, known keys and moves."""
    labels = ["t", "t", "u", "ok"] if "normal" in options else [True, True, False]
    cls = ls.Causes(["a", "b"], limit=2, **options)
    draw = random.Random(seed)
    # Without a margin, which reads windows, and at a fixed rate: a transcript here has no counts.
    delta = 1e-3 if "values" in options else 0.2
    practical = CausesPlan.practical(
        cls, 4, delta, 100, min_rate=rate, baseline="fixed", change_cost=0
    )
    values = {field.name: getattr(practical, field.name) for field in dataclass_fields(practical)}
    plan = LowPlan(
        **values | {"check_every": every, "longest_epoch": longest, "evidence_every": 2 * every}
    )
    points = [{"a": a, "b": b} for a in "xy" for b in "pq"]
    rows = [(draw.choice(points), draw.choice(labels)) for _ in range(checks)]
    code = {"ok": NORMAL, "t": 1, "u": 2, True: 1, False: NORMAL}

    def run(noise: BranchingNoise) -> Transcript:
        DRAWN.clear()
        learner = ls.PrivateCauses(cls, plan=plan, noise=noise)
        said: list[Decision] = []
        for x, y in rows:
            before = len(DRAWN)
            learner.learn_many([x] * every, [y, *[None] * (every - 1)], bad_rows="null")
            drawn = len(DRAWN) > before
            said.append(Decision(True, in_world(DRAWN[-1])) if drawn else NO_CHANGE)
        return tuple(said)

    whole = law(run, NoWindows)
    keyed = [[(tuple(name_of(c.key) for c in cls.patterns_of(x)), code[y])] for x, y in rows]
    make, world = world_of(plan, cls, every, longest)
    said = transcripts(make, world(fixed(keyed)), checks)
    assert whole.keys() == said.keys()
    assert len(said) > 10
    assert all(whole[past] == pytest.approx(said[past], rel=1e-9) for past in said)


def world_of(
    plan: CausesPlan, cls: ls.Causes, every: int, longest: int
) -> tuple[Callable[[Noise], Gate[Any]], CauseWorld]:
    """The gate of a plan at its rate, and its plain world."""
    cost = odds(float(plan.given_rate))
    beat = RateToBeat(plan.baseline, plan.units, float(plan.given_rate))
    beat.begin(0.0)
    singles = [b"%s=%s" % (n.encode(), v.encode()) for n, vs in cls.values.items() for v in vs]  # type: ignore[attr-defined]
    pairs = [a + AND + b for a, b in combinations(singles, 2) if a[:1] != b[:1]]
    terms = plan.terms(cost, (len(singles), len(pairs))[: cls.width] if singles else ())
    weights = weights_of(cost, terms.swing, plan.units)
    drawn = [keys for keys, some in zip((singles, pairs), terms.known, strict=False) if some.keys]
    known = [(key, 1) for keys in drawn for key in keys]
    narrower = {one: [pair for pair in pairs if one in pair.split(AND)] for one in singles}
    world = CauseWorld(
        CauseGate(terms, plan.delta, plan.prior, weights, weights, plan.units),
        limit=cls.limit,
        known=tuple(known),
        narrower=narrower,
        tell=lambda past: partial(tell, past),
    )

    def tell(past: Transcript, gate: Any) -> None:
        ended, age, causes = 0, 0, world.published
        for number, decision in enumerate(past):
            age += every
            if decision.drawn:
                aged = age >= until(bool(causes), ended)
                causes, _ = world.epoch(past[: number + 1])
                ended, age = (ended + aged if decision.key is None else 0), 0
        if not gate.epoch_age:
            schedule = gate.schedule
            limit = plan.limit(terms, beat, schedule.refusals, schedule.loss_rate)
            schedule.begin_epoch(until(bool(causes), ended), limit)

    def until(causes: bool, ended: int) -> int:
        # With causes: a 32nd of the horizon, doubled at each end by age, in whole checks.
        share = -(-(100 // 32 << ended) // every) * every
        return min(share, longest) if causes else longest

    by_law = plan.draw(terms)

    def make(noise: Noise) -> Gate[Any]:
        gate = CauseGate(terms, plan.delta, plan.prior, weights, weights, plan.units)
        made = gate.gate(noise, check_every=every, longest_epoch=longest)
        made.begin_epoch(terms.monitor, by_law)
        return made

    return make, world
