"""The gate of the causes learner (Theorem 15): its transcript's law, enumerated, and its faults.

Everything is compared by the hockey-stick divergence: keys of one world have an infinite ratio.
Neighbours whose keys are all fresh miss most faults, so families have keys in common as well.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import littlestone as ls
from littlestone._audit.causes import (
    CERTAIN,
    SMALL_ROWS,
    GateParameters,
    GateStart,
    KeyCounts,
    KeyRow,
    KeyStream,
    KeyWorld,
    Law,
    epoch_law,
    extremal_pairs,
    fixed_keys,
    gate_parameters,
    listed_keys,
    move_law,
    neighbouring_laws,
    one_by_one,
    window_findings,
)
from littlestone._audit.enumeration import (
    BranchingNoise,
    EnumeratedTranscript,
    delta_at,
    epsilon_at,
    laplace_mass,
    law,
    transcripts,
)
from littlestone._audit.gates import enumerated
from littlestone._audit.laws import Laws, worst
from littlestone._audit.neighbours import for_causes
from littlestone._audit.runs import AuditTarget
from littlestone._audit.runs import published as seen_of
from littlestone._learners.causes_plan import CausesPlan
from littlestone._privacy import MistakesMonitor, Noise
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import (
    DROP,
    CausesGate,
    Gains,
    SparseExponential,
    WindowCounts,
    joint_epsilon,
)
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.noise import Address
from littlestone._privacy.testing import ScriptedNoise

from . import causes_faults as planted
from . import faults

F = Fraction
ONE = F(1)
COSTS = [F(1, 9), F(1, 2), F(1)]
A, B, K, L, P = b"a", b"b", b"k", b"l", b"p"


def gate_of(
    cost: Fraction, *, e: Fraction = ONE, s: Fraction = ONE, listed: int = 2
) -> GateParameters:
    """A gate whose rows list so many keys of width 1, with a delta that is easy to see."""
    return GateParameters(cost, e, s, F(1, 10), (F(1, listed),))


# The machinery.


@pytest.mark.parametrize("longest", [2, 8])
@pytest.mark.parametrize("cost", COSTS)
def test_summing_over_the_threshold_noise_is_drawing_it(cost: Fraction, longest: int) -> None:
    """The law of the firings, against an enumeration of every value of the noise."""
    gate, losses = gate_of(cost), [cost.denominator, 0, cost.numerator]

    def make(noise: Noise) -> CausesGate:
        return replace(gate, selector=planted.FromWeights).gate(
            noise,
            lambda age, refusals, rate, margin: 2 + refusals + age * int(2 * rate),
            longest_epoch=longest,
        )

    state = GateStart(1, F(1, 2), longest)
    *summed, quiet = epoch_law(make, losses, state)
    if longest == 2:
        # At its age the epoch ends with a draw, quiet or not.
        summed[-1], quiet = summed[-1] + quiet, 0.0
    drawn = [0.0] * (len(summed) + 1)
    nothing = KeyCounts(cost).ballot(frozenset(), [])

    def world(past: EnumeratedTranscript) -> tuple[object, ...]:
        return losses[len(past)], nothing

    def resumed(noise: Noise) -> CausesGate:
        return state.begin(make, noise)

    for past, chance in transcripts(resumed, world, len(summed), 40 * cost.denominator).items():
        fired = [isinstance(d, Decision) and d.fired for d in past]
        drawn[fired.index(True) if True in fired else -1] += chance
    assert len(summed) == min(3, longest)
    assert [*summed, quiet] == pytest.approx(drawn, rel=1e-9)


class TwoPoints(Noise):
    """Answers the draw of the group, and that of the member, with given points of [0, 1)."""

    def __init__(self, group: int, member: Fraction) -> None:
        self.group, self.member = group, member

    def laplace(self, scale: Fraction, at: Address) -> int:
        raise AssertionError

    def uniform(self, below: int, at: Address) -> int:
        if at[0] == "member":
            return int(self.member * below)
        return self.group if at[2] == 1 else 0


@pytest.mark.parametrize("seed", range(4))
def test_moves_are_drawn_by_the_weights_that_are_said(seed: int) -> None:
    """The selector's own draw, bisected in the bits that it reads, has the law of `move_law`."""
    draw = random.Random(seed)
    prior = (F(3, 10), F(1, 10))
    selector = SparseExponential(rate=F(1, 2), delta=F(1, 5), prior=prior, units=2, drop_penalty=1)
    keys, drops = [A, B, K, L][: draw.randint(1, 4)], [P, b"q"][: draw.randint(0, 2)]
    ballot = Gains(
        np.array([draw.randint(-3, 5) for _ in keys]),
        np.array([draw.randint(0, 1) for _ in keys]),
        keys.__getitem__,
        np.array([draw.randint(-3, 5) for _ in drops], dtype=np.int64),
        drops,
    )
    found: dict[bytes | None, float] = {}
    at = 0
    members = [F(n, 211) for n in range(211)]

    def group(point: int) -> bytes | None:
        return selector.select(ballot, TwoPoints(point, F(0)), 0)

    while at < 1 << 64:
        # The end of the group that begins at `at`.
        low, high, here = at, 1 << 64, group(at)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if group(middle) == here else (low, middle)
        for member in members:
            move = selector.select(ballot, TwoPoints(at, member), 0)
            found[move] = found.get(move, 0.0) + (high - at) / 2**64 / len(members)
        at = high
    said = move_law(selector, ballot)
    assert found.keys() == said.keys()
    assert all(found[move] == pytest.approx(said[move], abs=5e-3) for move in said)


class SummedNoise(BranchingNoise):
    """Forks at every check and draw, and sums over the threshold noise; windows get none."""

    def __init__(self, path: Sequence[int], width: int) -> None:
        super().__init__(path, width)
        self._law, self.fired = np.ones(1), False

    def laplace(self, scale: Fraction, at: Address) -> int:
        return 0

    def geometric(self, scale: Fraction, at: Address) -> int:
        law = np.exp(-np.arange(math.ceil(40 * scale)) / float(scale))
        self._law = law / law.sum()
        return 0

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        fires = np.exp(-np.maximum(0, gap + np.arange(len(self._law))) / float(scale))
        yes = float((self._law * fires).sum())
        parts = [(answer, p) for answer, p in ((True, yes), (False, 1 - yes)) if p > 1e-15]
        self.fired = self.choose(parts)
        posterior = self._law * (fires if self.fired else 1 - fires)
        self._law = posterior / posterior.sum()
        return self.fired


@dataclass(frozen=True)
class LowPlan(CausesPlan):
    """A threshold of one missed positive, so that a few rounds fire."""

    def threshold(self, cost: Fraction) -> float:
        return 1.0


@pytest.mark.parametrize("rate", [0.2, 0.5])
@pytest.mark.parametrize(
    ("seed", "every", "longest", "checks"),
    [(0, 1, 2, 3), (1, 1, 2, 3), (2, 1, 2, 3), (3, 8, 16, 3), (4, 8, 16, 4)],
)
def test_the_whole_learner_has_the_law_of_the_twin(
    rate: float, seed: int, every: int, longest: int, checks: int
) -> None:
    """`PrivateCauses` itself, over all of its noise: its rows, epochs, their ages and moves."""
    cls, draw = ls.Causes(["a", "b"], limit=2), random.Random(seed)
    # Without a margin, which reads windows: a transcript here has none.
    practical = CausesPlan.practical(cls, 4, 0.2, 100, min_rate=rate, change_cost=0)
    fields = {field.name: getattr(practical, field.name) for field in dataclass_fields(practical)}
    plan = LowPlan(
        **fields | {"check_every": every, "longest_epoch": longest, "evidence_every": 2 * every}
    )
    points = [{"a": a, "b": b} for a in "xy" for b in "pq"]
    rows = [(draw.choice(points), draw.random() < 0.7) for _ in range(checks)]

    def run(noise: BranchingNoise) -> EnumeratedTranscript:
        assert isinstance(noise, SummedNoise)
        learner = ls.PrivateCauses(cls, plan=plan, noise=noise)
        gate: Any = learner._runner.gate.gate
        real, moves = gate._selector, list[bytes | None]()

        def select(ballot: Gains, *rest: object) -> bytes | None:
            moves.append(noise.choose(list(move_law(real, ballot).items())))
            return moves[-1]

        real.select = select
        said: list[Decision] = []
        for x, y in rows:
            before = len(moves)
            learner.learn_one(x, y)
            for _ in range(every - 1):
                learner.skip_one()
            said.append(Decision(noise.fired, moves[-1]) if len(moves) > before else NO_CHANGE)
        return tuple(said)

    whole = law(run, 0, SummedNoise)
    keyed: list[KeyRow] = [(tuple(c.key for c in cls.patterns_of(x)), y) for x, y in rows]
    assert not any(b"&" in key for row in keyed if row for key in row[0])
    cost = plan.cost_of(plan.given_rate)

    def age(published: frozenset[bytes], ended: int) -> int:
        # With causes: a 32nd of the horizon, doubled at each end by age, in whole checks.
        share = -(-(100 // 32 << ended) // every) * every
        return min(share, longest) if published else longest

    twin = KeyWorld(lambda noise: plan.gate(noise, cost), KeyCounts(cost, 2), checks, age=age)
    said = twin.law(one_by_one(keyed))
    assert whole.keys() == said.keys()
    assert len(said) > 20
    assert all(whole[past] == pytest.approx(said[past], rel=1e-9) for past in said)


# Everything small.

SQUARE: tuple[KeyRow, ...] = (
    None,
    *(((x, y), label) for x in (b"x0", b"x1") for y in (b"y0", b"y1") for label in (True, False)),
)
"""Two columns of two values: rows list two keys."""
PAIRS: tuple[KeyRow, ...] = (
    None,
    *(
        ((x, y, x + b"&" + y), label)
        for x, y in ((b"x0", b"y0"), (b"x0", b"y1"), (b"x1", b"y1"))
        for label in (True, False)
    ),
)
"""The same at width 2: rows list three keys, and x0 contains x0&y0."""
FOUR: tuple[KeyRow, ...] = (
    None,
    *(
        (tuple(bytes([n]) for n in keys), label)
        for keys in (b"abcd", b"abef", b"ghij")
        for label in (True, False)
    ),
)
"""Rows that list four keys, some in common."""
FEW: tuple[KeyRow, ...] = (None, ((A, B), True), ((A, B), False), ((A, K), True), ((P, A), False))


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize(
    ("e", "s"), [(F(1), F(1)), (F(1, 4), F(3, 2)), (F(2), F(1, 2))], ids=["even", "draw", "monitor"]
)
@pytest.mark.parametrize(
    ("rows", "rounds", "published"),
    [
        (SQUARE, 2, {b"x0"}),
        (SQUARE, 2, {b"x0", b"y0"}),
        (SMALL_ROWS, 2, {P}),
        (PAIRS, 2, {b"x0&y0"}),
        (FOUR, 2, set()),
        (FEW, 3, set()),
        (FEW[1:4], 4, {P}),
    ],
    ids=["square", "both", "mixed", "pairs", "four", "three", "long"],
)
def test_all_small_neighbours_are_within_the_claim(
    rows: Sequence[KeyRow],
    rounds: int,
    published: set[bytes],
    e: Fraction,
    s: Fraction,
    cost: Fraction,
) -> None:
    listed = max(len(row[0]) for row in rows if row)
    gate = gate_of(cost, e=e, s=s, listed=listed)
    if rows is PAIRS:
        gate = replace(gate, prior=(F(2, 5), F(1, 5)))
    for longest, limit in ((8, 8), (1, 2)) if rounds == 2 else ((2, 2),):
        world = KeyWorld(
            partial(gate.gate, longest_epoch=longest),
            KeyCounts(cost, limit),
            rounds,
            published=frozenset(published),
        )
        found = worst("gate", "small", gate.claim, neighbouring_laws(world, rows))
        assert found.kept, found
        assert found.delta < 0.1 / 1.1 + 1e-9
        assert found.share > 0.3


@pytest.mark.parametrize("cost", COSTS)
def test_five_rounds(cost: Fraction) -> None:
    gate = gate_of(cost)
    rows = [((A, B), True), ((A, B), False), ((A, K), True)]
    world = KeyWorld(gate.gate, KeyCounts(cost, limit=1), 5)
    pairs = neighbouring_laws(world, rows[:2] if cost == 1 else rows[1:])
    assert worst("gate", "five rounds", gate.claim, pairs).kept


def reacting(seed: int, rows: Sequence[KeyRow], replaced: int | None = None) -> KeyStream:
    """Rows that depend on the transcript; the same in both worlds but for the replaced round."""

    def stream(past: EnumeratedTranscript) -> tuple[KeyRow, ...]:
        world = "other" if len(past) == replaced else "one"
        return (random.Random(repr((seed, past, world))).choice(rows),)

    return stream


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("rows", [SQUARE, SMALL_ROWS, FOUR], ids=["square", "mixed", "four"])
def test_worlds_that_react_are_within_the_claim(rows: Sequence[KeyRow], cost: Fraction) -> None:
    gate = gate_of(cost, listed=4 if rows is FOUR else 2)
    world = KeyWorld(gate.gate, KeyCounts(cost, 3), 3, published=frozenset([P, b"x0"]))
    laws: list[Laws] = []
    for seed in range(12):
        one = world.law(reacting(seed, rows))
        assert sum(one.values()) == pytest.approx(1)
        laws += [(one, world.law(reacting(seed, rows, at))) for at in range(3)]
    found = worst("gate", "reacting", gate.claim, laws)
    assert found.kept
    assert found.share > 0.2


@pytest.mark.parametrize("cost", COSTS)
def test_thresholds_by_the_rate_and_ages_by_what_was_published(cost: Fraction) -> None:
    """All that a gate remembers is a function of its transcript, firings and draws at an age."""
    gate = gate_of(cost)
    world = KeyWorld(
        partial(
            gate.gate,
            threshold=lambda age, refusals, rate, margin: 1 + refusals + age * int(2 * rate),
        ),
        KeyCounts(cost),
        3,
        age=lambda published, ended: 1 << ended if published else 2,
    )
    found = worst("gate", "ages", gate.claim, neighbouring_laws(world, FEW[:4]))
    assert found.kept, found
    assert found.share > 0.3


def dropped(past: EnumeratedTranscript) -> int:
    """How many causes a transcript has dropped."""
    return sum(
        d.key is not None and d.key.startswith(DROP) for d in past if isinstance(d, Decision)
    )


@pytest.mark.parametrize("cost", COSTS)
def test_a_margin_by_the_transcript_is_within_the_claim(cost: Fraction) -> None:
    gate = gate_of(cost)
    start: dict[str, Any] = {"published": frozenset([P])}
    threshold = partial(gate.gate, threshold=lambda age, refusals, rate, margin: 1 + margin)
    world = KeyWorld(threshold, KeyCounts(cost), 3, **start, margin=dropped)
    found = worst("gate", "margin", gate.claim, neighbouring_laws(world, FEW[:4]))
    assert found.kept, found
    assert found.share > 0.3
    # It does something: without it the law is another one.
    rows = one_by_one([((P,), False), ((A, B), True), ((A, B), True)])
    assert KeyWorld(gate.gate, KeyCounts(cost), 3, **start).law(rows) != world.law(rows)


def test_a_margin_by_exact_counts_is_convicted() -> None:
    """Planted: the margin counts the positives of earlier epochs themselves, without noise."""
    gate = replace(gate_of(F(1), listed=1), delta=F(1, 1000))
    later: list[tuple[KeyRow, ...]] = [(((key,), True),) * 9 for key in (A, B, K)]

    def world_law(positive: bool, exact: bool) -> Law:
        checks: list[tuple[KeyRow, ...]] = [(((P,), positive), *[None] * 8), *later]

        def margin(past: EnumeratedTranscript) -> int:
            return 2 if exact and past and positive else 0

        world = KeyWorld(
            lambda noise: gate.gate(noise, lambda age, refusals, rate, margin: CERTAIN, 9),
            KeyCounts(F(1)),
            len(checks),
            published=frozenset([P]),
            margin=margin,
        )
        return world.law(fixed_keys(checks))

    for exact in (True, False):
        laws = world_law(False, exact), world_law(True, exact)
        assert worst("gate", "exact counts", gate.claim, [laws]).kept != exact


# The claim is attained.


@pytest.mark.parametrize("cost", [F(1, 199), *COSTS])
@pytest.mark.parametrize("s", [F(1, 4), F(1)])
def test_the_claim_is_attained(cost: Fraction, s: Fraction) -> None:
    """Each of the three terms of the claim has a pair of neighbours that costs it."""
    e = F(1, 2)
    gate = GateParameters(cost, e, s, F(1, 10**7), (F(1, 6), F(1, 6)))
    keys = [A, B, K, b"a&b", b"b&k", b"a&k"]
    terms = {"alone": None, "negative": e + (1 + cost) * s, "leading": 2 * s}
    for family, laws in extremal_pairs(gate, keys):
        term = next(value for name, value in terms.items() if name in family)
        assert worst("gate", family, gate.claim, [laws]).kept
        if term is None:
            claimed = float(gate.delta / (1 + gate.delta))
            assert delta_at(float(gate.claim.epsilon), *laws) == pytest.approx(claimed, rel=1e-9)
        else:
            reached = epsilon_at(float(gate.delta), *laws)
            assert 0.99 * float(term) < reached <= float(term), family
    assert gate.claim.epsilon == max(terms["negative"] or 0, terms["leading"] or 0)


def test_monitor_and_draw_together_cost_less_than_apart() -> None:
    assert joint_epsilon(F(1), F(1), F(1, 9)) == 1 + F(10, 9) < 1 + 2


# Plans.


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("width", [1, 2])
def test_the_gate_of_a_plan(rate: float, width: int) -> None:
    plan = CausesPlan.practical(ls.Causes(["a", "b", "c"], width), 1, 1e-6, 1000, min_rate=rate)
    gate = gate_parameters(plan, plan.cost_of(plan.given_rate))
    assert gate.claim == Cost(plan.epsilon * F(9, 10), plan.delta)
    found = [
        worst("gate", family, gate.claim, [laws])
        for family, laws in extremal_pairs(gate, listed_keys(plan))
    ]
    assert all(finding.kept for finding in found)
    assert max(f.epsilon for f in found) > 0.99 * float(gate.claim.epsilon)
    assert max(f.delta for f in found) == pytest.approx(1e-6, rel=1e-5)


@pytest.mark.parametrize("rate", ["auto", 0.1])
def test_an_audit_enumerates_a_plan(rate: float | str) -> None:
    cls = ls.Causes(["a", "b"])
    found = enumerated(CausesPlan.practical(cls, 1, 1e-6, 1000, min_rate=rate))
    assert found.kept
    reached: dict[str, float] = {}
    for finding in found.findings:
        reached[finding.mechanism] = max(reached.get(finding.mechanism, 0.0), finding.share)
    assert min(reached.values()) > 0.99
    assert ("first window" in reached) == (rate == "auto")
    assert not replace(found.findings[0], claim=Cost(F(1, 2), F(1, 10**7))).kept


def test_neighbours_for_runs_are_checked_at_the_threshold() -> None:
    cls = ls.Causes(["a", ls.Ranges("n", [1, 2])], width=2)
    plan = CausesPlan.practical(cls, 2, 1e-4, 1000, min_rate=0.2)
    (pair,) = for_causes(cls, plan)
    assert len(pair.one) % plan.check_every == 0
    missed = sum(y is True for _, y in pair.one)
    cost = plan.cost_of(plan.given_rate)
    assert missed == math.floor(plan.threshold(cost) * plan.slack(cost, 0, known=False))
    control = AuditTarget("causes", cls, plan, 0).control
    assert control is not None
    assert isinstance(control.plan, CausesPlan)
    # Twice the epsilon, and the thresholds as they were.
    assert control.plan.epsilon == 2 * plan.epsilon
    assert control.plan.threshold(F(1, 4)) == plan.threshold(F(1, 4))
    seen = seen_of(control(), pair.one, pair)
    assert all(firing.round % plan.check_every == 0 for firing in seen)


def test_windows_cost_what_they_claim() -> None:
    for finding in window_findings("evidence", F(1, 10)):
        assert finding.kept
    assert max(f.share for f in window_findings("evidence", F(1, 10))) > 0.999


def counted_loss(epsilon: Fraction, one: Sequence[int], other: Sequence[int]) -> float:
    """The largest loss of windows with these counts, over outcomes beyond both."""
    scale = WindowCounts(ScriptedNoise({}), epsilon=epsilon, name="evidence").scale
    pairs = zip(one, other, strict=True)
    # Far out on the side of the first world: each count adds its whole distance.
    return sum(
        math.log(laplace_mass(far - a, scale) / laplace_mass(far - b, scale))
        for a, b in pairs
        for far in [50 if a > b else -50]
    )


def test_windows_that_overlap_and_a_first_window_that_is_read_twice() -> None:
    """A round in two windows: twice what they claim. In first window and gate: 1.9 times."""
    assert counted_loss(F(1, 10), [1, 0], [0, 1]) <= 0.1 + 1e-12
    assert counted_loss(F(1, 10), [1, 0, 1, 0], [0, 1, 0, 1]) == pytest.approx(0.2)
    plan = CausesPlan.practical(ls.Causes(["a"]), 1, 1e-6, 1000)
    gate = gate_parameters(plan, F(1))
    fires = max(
        epsilon_at(float(gate.delta), *laws) for _, laws in extremal_pairs(gate, listed_keys(plan))
    )
    first = counted_loss(plan.epsilon, [1, 0], [0, 1])
    assert first == pytest.approx(1)
    # The noise of the two is independent, so that their losses add up where both are largest.
    assert first + fires > 1.89 * float(plan.epsilon)


def user_pair(gate: GateParameters) -> Laws:
    """A user's two rounds, with keys of their own, or two null rounds."""
    return gate.at_once([((A,), True), ((B,), True)], [None, None], CERTAIN, frozenset())


def test_a_user_of_two_rounds() -> None:
    cls = ls.Causes(["a"])
    plan = CausesPlan.practical(cls, 2, 1e-3, 1000, min_rate=0.5, unit="user", cap=2)
    gate = gate_parameters(plan, F(1))
    claim = gate.claim.for_group(2)
    assert claim.delta <= plan.delta
    assert worst("gate", "user", claim, [user_pair(gate)]).kept
    small = KeyWorld(gate.gate, KeyCounts(F(1)), 2, published=frozenset([P]))
    laws = [small.law(one_by_one([a, b])) for a in SMALL_ROWS for b in SMALL_ROWS[:5]]
    pairs = ((one, other) for one in laws for other in laws)
    assert worst("gate", "all users", claim, pairs).kept
    # Without the division of delta a user of two rounds has nearly twice of it.
    undivided = replace(gate, delta=plan.delta)
    found = worst("gate", "user", Cost(claim.epsilon, plan.delta), [user_pair(undivided)])
    assert not found.kept
    assert found.delta > 1.95 * float(plan.delta)


# Planted faults: the same families clear the code and convict its faulty twin. A factor is how many
# times the claimed delta goes with the claimed epsilon.


def counted_by(
    gate: GateParameters,
    one: Sequence[KeyRow],
    other: Sequence[KeyRow],
    counts: KeyCounts,
    published: Sequence[bytes] = (),
) -> Laws:
    """The laws of two streams that are checked once, where the gate surely fires."""

    def make(noise: Noise) -> CausesGate:
        return gate.gate(noise, lambda age, refusals, rate, margin: CERTAIN, len(one))

    world = KeyWorld(make, counts, 1, published=frozenset(published))
    first, second = (world.law(fixed_keys([tuple(rows)])) for rows in (one, other))
    return first, second


def factor(gate: GateParameters, *pairs: Laws) -> float:
    """How many times the claimed delta the worst pair of laws has."""
    return worst("gate", "planted", gate.claim, pairs).delta / float(gate.claim.delta)


TINY = replace(gate_of(F(1, 2)), delta=F(1, 10**4))
TWELVE = 12
POSITIVE, NEGATIVE = ((K,), True), ((K,), False)
OTHER = ((L,), True)
LATE = [*[NEGATIVE] * TWELVE, *[POSITIVE] * TWELVE]
MATCHED = [((P, K), True)] * TWELVE
COLLIDING = [*[POSITIVE] * TWELVE, *[OTHER] * TWELVE, *[NEGATIVE] * TWELVE]


class Planted(NamedTuple):
    """A fault of the counts, the neighbours that show it, and its factor."""

    fault: type[KeyCounts]
    one: Sequence[KeyRow]
    other: Sequence[KeyRow]
    least: float
    published: Sequence[bytes] = ()


COUNTS = {
    # A key of one row has net 2: e^s times delta (179 times at s = 5.2).
    "patterns listed twice": Planted(planted.ListedTwice, [((A, B), True)], [None], 2.7),
    # The replaced row decides whether the negatives after it count.
    "negatives counted late": Planted(planted.CountedLate, [POSITIVE, *LATE], [None, *LATE], 5000),
    # A key of one world is heavy by the matched positives that list it.
    "matched rows move net": Planted(
        planted.MatchedRowsMoveNet, [POSITIVE, *MATCHED], [None, *MATCHED], 8900, [P]
    ),
    # A key of one world is heavy by the positives of a key that has its hash.
    "a sketch of positives": Planted(
        planted.SketchedPositives,
        [POSITIVE, *[OTHER] * TWELVE],
        [None, *[OTHER] * TWELVE],
        4700,
    ),
    # Both keys are in both worlds; which of them gets the negatives of their hash is not.
    "negatives go to the first key of a hash": Planted(
        planted.NegativesToTheFirst, [POSITIVE, *COLLIDING], [OTHER, *COLLIDING], 6800
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_faulty_counts_are_convicted(name: str) -> None:
    fault, one, other, least, published = COUNTS[name]
    laws = [
        counted_by(TINY, one, other, counts(TINY.cost), published) for counts in (KeyCounts, fault)
    ]
    assert worst("gate", name, TINY.claim, laws[:1]).kept
    assert factor(TINY, laws[1]) > least


@pytest.mark.parametrize("cost", COSTS)
def test_negatives_that_every_key_of_a_hash_reads_are_within_the_claim(cost: Fraction) -> None:
    gate, rows = gate_of(cost, listed=1), [None, POSITIVE, NEGATIVE, OTHER, ((L,), False)]
    world = KeyWorld(gate.gate, planted.NegativesOfAHash(cost), 3)
    assert worst("gate", "hashed", gate.claim, neighbouring_laws(world, rows)).kept
    hashed = counted_by(
        TINY, [POSITIVE, *COLLIDING], [OTHER, *COLLIDING], planted.NegativesOfAHash(TINY.cost)
    )
    assert worst("gate", "hashed", TINY.claim, [hashed]).kept


@pytest.mark.parametrize("cost", COSTS)
def test_keys_that_any_row_makes_active_would_be_within_the_claim_too(cost: Fraction) -> None:
    """Not a fault: a key that one row alone makes active has net 1 at most, whichever row it is."""
    gate = gate_of(cost, listed=2)
    for rows, published in ((SQUARE, {b"x0"}), (SMALL_ROWS, {P})):
        counts = planted.ActiveByAnyRow(cost)
        world = KeyWorld(gate.gate, counts, 2, published=frozenset(published))
        assert worst("gate", "active", gate.claim, neighbouring_laws(world, rows)).kept


def test_the_naive_move_that_replaces_a_cause() -> None:
    """A key of one world inherits what dropping a cause gains (767 times delta in one example)."""
    gate, rows = replace(TINY, drop_penalty=10), [((P,), False)] * 2 * TWELVE
    found = []
    for draw in (move_law, planted.with_replacing):
        world = KeyWorld(
            partial(
                gate.gate,
                threshold=lambda age, refusals, rate, margin: CERTAIN,
                check_every=len(rows) + 1,
            ),
            KeyCounts(gate.cost),
            1,
            published=frozenset([P]),
            draw=draw,
        )
        one, other = (world.law(fixed_keys([(row, *rows)])) for row in (POSITIVE, None))
        found.append((one, other))
    assert worst("gate", "dropping", gate.claim, found[:1]).kept
    assert factor(gate, found[1]) > 1000


@pytest.mark.parametrize(
    ("threshold", "longest"), [(CERTAIN, 8), (-CERTAIN, 1)], ids=["at firings", "at ages"]
)
def test_rows_that_are_kept_where_nothing_was_drawn(threshold: int, longest: int) -> None:
    """Each of five draws reads the replaced row: nearly 5 times delta."""
    for kept, least, most in ((False, 0.9, 1.0), (True, 4.9, 5.0)):
        world = KeyWorld(
            partial(
                TINY.gate,
                threshold=lambda age, refusals, rate, margin: threshold,
                longest_epoch=longest,
            ),
            KeyCounts(TINY.cost),
            5,
            kept=kept,
        )
        one, other = (world.law(one_by_one([row, *[None] * 4])) for row in (((A, B), True), None))
        assert least < factor(TINY, (one, other)) <= most


def test_a_prior_that_sums_to_more_than_one() -> None:
    """Four keys at 1/2 each: twice delta."""
    row: KeyRow = ((A, B, K, L), True)
    assert factor(TINY, counted_by(TINY, [row], [None], KeyCounts(TINY.cost))) > 1.99


def test_a_weight_by_the_gain_instead_of_the_gain_less_one() -> None:
    """A key of one row has e^s times its weight."""
    gate = replace(TINY, selector=planted.GainWithoutOneOff)
    row: KeyRow = ((A, B), True)
    assert factor(gate, counted_by(gate, [row], [None], KeyCounts(gate.cost))) > 2.7


def test_noise_that_is_not_on_the_grid() -> None:
    """Whole noise where c = 1/2: half a shift is paid by the threshold noise and by the firing.

    A positive that a cause alone matches becomes a negative. One quiet check, at which the shift
    moves the least threshold noise; then a firing, at which it moves nothing but the threshold
    noise is higher: 2e, and (1 + c) s for the draw of nothing.
    """
    gate = GateParameters(F(1, 2), F(2), F(1, 4), F(1, 10**6), (F(1),))
    negatives = [((P,), False)] * 25
    found = []
    for step in (1, 2):
        world = KeyWorld(
            partial(
                gate.gate,
                threshold=lambda age, refusals, rate, margin: np.where(age <= 26, 24, 25),
                check_every=26,
            ),
            KeyCounts(gate.cost),
            2,
            published=frozenset([P]),
            step=step,
        )
        one, other = (
            world.law(fixed_keys([(((P,), label), *negatives), (None,) * 26]))
            for label in (True, False)
        )
        found.append(worst("gate", "grid", gate.claim, [(one, other)]))
    assert found[0].kept
    assert not found[1].kept
    # By the hockey-stick divergence, so that the outcomes are likely enough to matter.
    assert found[1].delta > 800 * float(gate.delta)
    assert found[1].epsilon > 1.8 * float(gate.claim.epsilon)


QUICK = GateParameters(F(1), F(1), F(1, 10), F(1, 10**4), (F(1),))
"""Nearly all of the budget is the monitor's, so that its faults are not covered by the draw's."""


def said(
    monitor: type[MistakesMonitor], only: EnumeratedTranscript, threshold: int, losses: list[int]
) -> dict[EnumeratedTranscript, float]:
    """The probability of one transcript, under a gate with this monitor; ballots are empty."""
    gate = replace(QUICK, selector=planted.FromWeights)
    nothing = KeyCounts(gate.cost).ballot(frozenset(), [])

    def make(noise: Noise) -> CausesGate:
        made = gate.gate(noise, lambda age, refusals, rate, margin: threshold)
        made._monitor = monitor(noise, epsilon=gate.epsilon_monitor)
        return made

    return transcripts(make, lambda past: (losses[len(past)], nothing), len(only), 60, only)


REFUSED = Decision(True, None)


@pytest.mark.parametrize(
    ("fault", "only", "threshold", "least"),
    [
        # The quiet check, and the refusals of two later epochs, pay for the shift: 3e.
        (faults.ThresholdNoiseShared, (NO_CHANGE, REFUSED, REFUSED, REFUSED), 0, 60),
        # Each of three refusals reads the round: 3e.
        (faults.CountKeptAtFiring, (REFUSED, REFUSED, REFUSED), 1, 3000),
    ],
    ids=["threshold noise shared by epochs", "the monitor's count kept at a refusal"],
)
def test_a_monitor_that_remembers(
    fault: type[MistakesMonitor], only: EnumeratedTranscript, threshold: int, least: float
) -> None:
    """One transcript alone has more than the claimed delta at the joint epsilon."""
    found = {}
    for monitor in (MistakesMonitor, fault):
        laws = [said(monitor, only, threshold, [n, 0, 0, 0]) for n in (0, 1)]
        found[monitor] = factor(QUICK, (laws[0], laws[1]))
    assert found[MistakesMonitor] <= 1
    assert found[fault] > least


def test_noise_for_one_unit_where_losses_are_counted_in_units() -> None:
    """A missed positive is 9 units: 9e, where e is claimed."""
    gate = replace(QUICK, cost=F(1, 9))

    def make(noise: Noise, fault: bool) -> CausesGate:
        made = gate.gate(noise, lambda age, refusals, rate, margin: 10)
        if fault:
            made._monitor = planted.NoiseForOneUnit(noise, epsilon=F(1), cap=9)
        return made

    found = []
    for fault in (False, True):
        world = KeyWorld(partial(make, fault=fault), KeyCounts(gate.cost), 1)
        one, other = (world.law(one_by_one([row])) for row in (((A,), True), None))
        found.append(worst("gate", "units", gate.claim, [(one, other)]))
    assert found[0].kept
    assert found[1].delta > 2000 * float(gate.delta)
    assert found[1].epsilon > 8.9
