"""Enumerate the gate of the causes learner (Theorem 15) and the counts of its windows (Theorem 16).

Monitor, schedule, accounting, scores and weights are those of the code. Three things are done here
instead, each with a test of its own: the threshold noise of an epoch is summed over and not drawn
(it enters a gap by addition), a draw is taken by the weights that the selector says, and the rows
of an epoch are counted by a plain twin of the learner, which knows keys only.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from littlestone._audit.enumeration import EnumeratedTranscript, laplace_mass
from littlestone._audit.laws import Finding, Laws, worst
from littlestone._learners.causes_plan import AUTO, LEAST_RATE, MOST_RATE, CausesPlan
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import ADD, CausesGate, Gains, SparseExponential, WindowCounts
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.noise import Address, Noise
from littlestone._privacy.testing import ScriptedNoise

# The keys that a row lists, and its label, or outcome if it is not normal; None is a null round.
KeyRow: TypeAlias = tuple[tuple[bytes, ...], bool | bytes] | None
# The rows of the next check, given the transcript so far: worlds may react.
KeyStream: TypeAlias = Callable[[EnumeratedTranscript], tuple[KeyRow, ...]]
Published: TypeAlias = frozenset[bytes]
MakeGate: TypeAlias = Callable[[Noise], CausesGate]
# The threshold in units for (age, refusals, rate, margin), as `CausesGate` has it.
Threshold: TypeAlias = Callable[[Any, int, Fraction, int], Any]
# The rounds after which an epoch ends by its age, given the published causes and how many epochs
# have ended so since the last move.
EpochAge: TypeAlias = Callable[[frozenset[bytes], int], int]
Law: TypeAlias = dict[EnumeratedTranscript, float]
Moves: TypeAlias = dict[bytes | None, float]
# What joins the conditions of a key.
AND = b"&"
# What joins a pattern and its outcome.
OUTCOME_MARK = b">"
# How many scales of threshold noise are summed over: e^-40 is left out.
SCALES = 40


class QuietNoise(Noise):
    """Answer every check with no, and note how likely a yes was, over all threshold noise."""

    def __init__(self, step: int = 1) -> None:
        self.step = step
        # P(no firing before the epoch of the monitor began), then P(no firing yet, noise).
        self._before, self._joint = 1.0, np.ones(1)
        self._noise = np.zeros(1, dtype=np.int64)
        self.fired: list[float] = []

    def __repr__(self) -> str:
        return "QuietNoise(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        raise AssertionError("the gate's noise is one-sided")

    def uniform(self, below: int, at: Address) -> int:
        raise AssertionError("draws are taken by the weights that the selector says")

    def geometric(self, scale: Fraction, at: Address) -> int:
        """Return 0, and sum over all values from here on."""
        self._before = float(self._joint.sum())
        count = math.ceil(SCALES * scale / self.step)
        self._noise = self.step * np.arange(count)
        law = np.exp(-self._noise / float(scale))
        self._joint = self._before * law / law.sum()
        return 0

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        steps = np.maximum(0, -(-(gap + self._noise) // self.step))
        fires = np.exp(-self.step * steps / float(scale))
        self.fired.append(float((self._joint * fires).sum()))
        self._joint = self._joint * -np.expm1(-self.step * steps / float(scale))
        return False

    @property
    def quiet(self) -> float:
        """Return the probability that no check fired."""
        return float(self._joint.sum())


class GateStart(NamedTuple):
    """Hold what a gate knows at the start of an epoch, all of it public."""

    refusals: int
    loss_rate: Fraction
    rounds: int
    margin: int = 0

    def begin(self, make: MakeGate, noise: Noise) -> CausesGate:
        """Return a gate at the start of this epoch."""
        gate = make(noise)
        gate.refusals, gate.loss_rate = self.refusals, self.loss_rate
        gate.begin_epoch(self.rounds, self.margin)
        return gate


class _EpochAtAge(Exception):
    """Report that an epoch has reached its age, where the gate draws."""


def _at_age(check: int) -> Gains:
    raise _EpochAtAge


def epoch_law(
    make: MakeGate, losses: Sequence[int], state: GateStart, step: int = 1
) -> tuple[float, ...]:
    """Return the probability that each check of an epoch fires; last, that none does."""
    noise = QuietNoise(step)
    gate = state.begin(make, noise)
    with suppress(_EpochAtAge):
        gate.run(losses, _at_age)
    return (*noise.fired, noise.quiet)


def move_law(selector: SparseExponential, ballot: Gains) -> Moves:
    """Return the probability of each move, from the selector's scores and weights."""
    scores, classes = selector.scores(ballot)
    weights = np.array([math.log(weight) for weight in selector.weights])
    logs = weights[classes] + float(selector.rate / selector.units) * scores
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    drops = [b"-" + key for key in ballot.drop_keys]
    adds = [ADD + ballot.add_key(place) for place in range(len(ballot.adds))]
    return dict(zip([None, *drops, *adds], chances.tolist(), strict=True))


class KeyCounts:
    """Count rows as the learner does, plainly: the loss of each, and the gains of an epoch."""

    def __init__(self, cost: Fraction, limit: int = 8) -> None:
        self.units, self.alarm, self.limit = cost.denominator, cost.numerator, limit

    def loss(self, published: Published, row: KeyRow) -> int:
        """Return the loss of the published rule on a row, in units."""
        if row is None:
            return 0
        matched = bool(published.intersection(row[0]))
        if row[1]:
            return 0 if matched else self.units
        return self.alarm if matched else 0

    def active(self, published: Published, rows: Sequence[KeyRow]) -> list[bytes]:
        """Return the keys that an unmatched positive row lists."""
        found = (row[0] for row in rows if row and row[1] and not published.intersection(row[0]))
        return list(dict.fromkeys(key for keys in found for key in keys))

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        """Return the loss of the published rule less that with the key added."""
        unmatched = [row for row in rows if row and not published.intersection(row[0])]
        listed = [bool(label) for keys, label in unmatched if key in keys]
        return self.units * sum(listed) - self.alarm * (len(listed) - sum(listed))

    def drop(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        """Return the loss of the published rule less that without the key."""
        alone = [bool(row[1]) for row in rows if row and published.intersection(row[0]) == {key}]
        return self.alarm * (len(alone) - sum(alone)) - self.units * sum(alone)

    def ballot(self, published: Published, rows: Sequence[KeyRow]) -> Gains:
        """Return the gains of all moves."""
        adds = [] if len(published) >= self.limit else self.active(published, rows)
        drops = sorted(published)
        return Gains(
            np.array([self.net(published, rows, key) for key in adds], dtype=np.int64),
            np.array([key.count(AND) for key in adds], dtype=np.intp),
            adds.__getitem__,
            np.array([self.drop(published, rows, key) for key in drops], dtype=np.int64),
            drops,
        )

    def publish(self, published: Published, move: bytes | None) -> Published:
        """Return the causes after a move; one that is added removes those that it contains."""
        if move is None:
            return published
        key = move[1:]
        if not move.startswith(ADD):
            return published - {key}
        parts = set(key.split(AND))
        return frozenset(k for k in published if not parts < set(k.split(AND))) | {key}


class OutcomeCounts(KeyCounts):
    """Count rows with outcomes as the learner does, plainly."""

    @staticmethod
    def matching(published: Published, row: KeyRow) -> list[tuple[bytes, bytes]]:
        """Return the published keys whose pattern a row lists, each with its outcome."""
        pairs = ((key, *key.rpartition(OUTCOME_MARK)[::2]) for key in sorted(published))
        return [(key, outcome) for key, pattern, outcome in pairs if row and pattern in row[0]]

    def loss(self, published: Published, row: KeyRow) -> int:
        if row is None:
            return 0
        matching = self.matching(published, row)
        if not row[1]:
            return self.alarm if matching else 0
        return 0 if row[1] in [outcome for _, outcome in matching] else self.units

    def active(self, published: Published, rows: Sequence[KeyRow]) -> list[bytes]:
        """Return the patterns of each unmatched row that is not normal, with its outcome."""
        found = (row for row in rows if row and row[1] and not self.matching(published, row))
        return list(dict.fromkeys(self.key(k, label) for keys, label in found for k in keys))

    @staticmethod
    def key(pattern: bytes, label: bool | bytes) -> bytes:
        """Return the key of a pattern and an outcome."""
        assert isinstance(label, bytes), "a normal row has no outcome"
        return pattern + OUTCOME_MARK + label

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        pattern, _, outcome = key.rpartition(OUTCOME_MARK)
        labels = [
            row[1]
            for row in rows
            if row and pattern in row[0] and not self.matching(published, row)
        ]
        return self.units * labels.count(outcome) - self.alarm * labels.count(False)

    def drop(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        outcome = key.rpartition(OUTCOME_MARK)[2]
        alone = [
            row[1] for row in rows if row and self.matching(published, row) == [(key, outcome)]
        ]
        return self.alarm * alone.count(False) - self.units * alone.count(outcome)

    def publish(self, published: Published, move: bytes | None) -> Published:
        """Return the causes after a move; one that is added removes those of its outcome in it."""
        if move is None or not move.startswith(ADD):
            return super().publish(published, move)
        pattern, _, outcome = move[1:].rpartition(OUTCOME_MARK)
        same = {key for key in published if key.rpartition(OUTCOME_MARK)[2] == outcome}
        patterns = frozenset(key.rpartition(OUTCOME_MARK)[0] for key in same)
        kept = super().publish(patterns, ADD + pattern)
        return (published - same) | {self.key(one, outcome) for one in kept}


class EnumeratedStart(NamedTuple):
    """Hold how an epoch begins: what is public, and rows that a faulty learner has kept."""

    past: EnumeratedTranscript
    published: Published
    refusals: int
    loss_rate: Fraction
    ended_by_age: int
    rows: tuple[KeyRow, ...]


class KeyWorld:
    """Compute the transcript's law of a gate on a stream, epoch by epoch."""

    def __init__(
        self,
        make: MakeGate,
        counts: KeyCounts,
        checks: int,
        *,
        published: Published = frozenset(),
        step: int = 1,
        kept: bool = False,
        draw: Callable[[SparseExponential, Gains], Moves] = move_law,
        age: EpochAge | None = None,
        margin: Callable[[EnumeratedTranscript], int] = lambda past: 0,
    ) -> None:
        gate = make(ScriptedNoise({}))
        assert isinstance(gate._selector, SparseExponential)
        self._make, self._counts, self._selector = make, counts, gate._selector
        self.checks, self._published, self._step, self._kept = checks, published, step, kept
        rounds = gate.restart_every
        assert rounds is not None, "every epoch of this gate has an age"
        self._draw, self._every = draw, gate.check_every
        self._age: EpochAge = age or (lambda published, ended: rounds)
        self._margin = margin
        # Laws repeat: streams have the same losses and the same ballots.
        self._firings: dict[tuple[tuple[int, ...], GateStart], tuple[float, ...]] = {}
        self._moves: dict[tuple[Published, tuple[KeyRow, ...], int], Moves] = {}

    def law(self, stream: KeyStream) -> Law:
        """Return the probability of every transcript."""
        found: Law = {}
        pending = [(EnumeratedStart((), self._published, 0, Fraction(0), 0, ()), 1.0)]
        while pending:
            start, weight = pending.pop()
            for begun, chance in self._epoch(stream, start):
                if len(begun.past) == self.checks:
                    found[begun.past] = found.get(begun.past, 0.0) + weight * chance
                else:
                    pending.append((begun, weight * chance))
        return found

    def _epoch(
        self, stream: KeyStream, start: EnumeratedStart
    ) -> Iterator[tuple[EnumeratedStart, float]]:
        """Yield how an epoch may end, with probabilities."""
        past, published, rows = start.past, start.published, start.rows
        rounds = self._age(published, start.ended_by_age)
        state = GateStart(start.refusals, start.loss_rate, rounds, self._margin(past))
        # Whole checks: an epoch ends at the first check that reaches its age.
        to_age = -(-rounds // self._every)
        losses: list[int] = []
        held: list[tuple[KeyRow, ...]] = []
        for number in range(min(self.checks - len(past), to_age)):
            fresh = stream((*past, *(NO_CHANGE,) * number))
            rows = (*rows, *fresh)
            losses.append(sum(self._counts.loss(published, row) for row in fresh))
            held.append(rows)
        *fires, quiet = self._fires(tuple(losses), state)
        for number, chance in enumerate(fires):
            yield from self._ends(
                start, state, held[number], number=number, chance=chance, fired=True
            )
        if len(losses) == to_age:
            # Quiet to the end: a draw at a public round.
            yield from self._ends(
                start, state, held[-1], number=to_age - 1, chance=quiet, fired=False
            )
        elif quiet > 0:
            yield start._replace(past=(*past, *(NO_CHANGE,) * len(losses)), rows=()), quiet

    def _ends(
        self,
        start: EnumeratedStart,
        state: GateStart,
        rows: tuple[KeyRow, ...],
        *,
        number: int,
        chance: float,
        fired: bool,
    ) -> Iterator[tuple[EnumeratedStart, float]]:
        """Yield the starts of the next epoch, where one ends with a draw at a check."""
        if chance <= 0:
            return
        before = (*start.past, *(NO_CHANGE,) * number)
        by_age = self._every * (number + 1) >= state.rounds
        for move, share in self._draws(start.published, rows, state).items():
            refusals, rate, ended = 0, Fraction(0), 0
            if move is None:
                refusals, rate = state.refusals, state.loss_rate
                ended = start.ended_by_age + by_age
                if fired:
                    refusals, rate = refusals + 1, self._reached(state, number)
            yield (
                EnumeratedStart(
                    (*before, Decision(fired, move)),
                    self._counts.publish(start.published, move),
                    refusals,
                    rate,
                    ended,
                    rows if self._kept and move is None else (),
                ),
                chance * share,
            )

    def _reached(self, state: GateStart, number: int) -> Fraction:
        """Return the threshold at a check of an epoch, for each round of it."""
        gate, age = state.begin(self._make, ScriptedNoise({})), self._every * (number + 1)
        return Fraction(int(gate._threshold(age, state.refusals)), age)

    def _fires(self, losses: tuple[int, ...], state: GateStart) -> tuple[float, ...]:
        key = losses, state
        if key not in self._firings:
            self._firings[key] = epoch_law(self._make, losses, state, self._step)
        return self._firings[key]

    def _draws(self, published: Published, rows: tuple[KeyRow, ...], state: GateStart) -> Moves:
        key = published, rows, state.margin
        if key not in self._moves:
            gate = state.begin(self._make, ScriptedNoise({}))
            ballot = gate.less_margin(self._counts.ballot(published, rows))
            self._moves[key] = self._draw(self._selector, ballot)
        return self._moves[key]


def fixed_keys(checks: Sequence[tuple[KeyRow, ...]]) -> KeyStream:
    """Return rows fixed in advance, those of each check together."""
    return lambda past: checks[len(past)]


def one_by_one(rows: Sequence[KeyRow]) -> KeyStream:
    """Return rows fixed in advance, a check for each."""
    return lambda past: (rows[len(past)],)


def neighbouring_laws(world: KeyWorld, alphabet: Sequence[KeyRow]) -> Iterator[Laws]:
    """Yield the laws of every pair of neighbours over an alphabet of rows, a check for each row."""
    numbers = range(len(alphabet))
    laws = {
        chosen: world.law(one_by_one([alphabet[n] for n in chosen]))
        for chosen in product(numbers, repeat=world.checks)
    }
    for chosen, place in product(laws, range(world.checks)):
        # Both directions are compared for each pair, so one order of it is enough.
        for other in range(chosen[place]):
            yield laws[chosen], laws[(*chosen[:place], other, *chosen[place + 1 :])]


@dataclass(frozen=True)
class GateParameters:
    """Hold the parameters of a gate, and make it with any threshold and schedule."""

    cost: Fraction
    epsilon_monitor: Fraction
    rate: Fraction
    delta: Fraction
    prior: tuple[Fraction, ...]
    drop_penalty: int = 0
    selector: type[SparseExponential] = SparseExponential

    @property
    def claim(self) -> Cost:
        """Return what the gate says that it costs."""
        return self.gate(ScriptedNoise({}))._total()

    def gate(
        self,
        noise: Noise,
        threshold: Threshold = lambda age, refusals, rate, margin: 1 + refusals,
        check_every: int = 1,
        longest_epoch: int = 1 << 40,
    ) -> CausesGate:
        """Return the gate."""
        return CausesGate(
            noise,
            epsilon=self.epsilon_monitor,
            selector=self.selector(
                rate=self.rate,
                delta=self.delta,
                prior=self.prior,
                units=self.cost.denominator,
                drop_penalty=self.drop_penalty,
            ),
            cost=self.cost,
            threshold=threshold,
            check_every=check_every,
            longest_epoch=longest_epoch,
        )

    def at_once(
        self, one: Sequence[KeyRow], other: Sequence[KeyRow], threshold: int, published: Published
    ) -> Laws:
        """Return the laws of two streams that are checked once, at their end."""

        def make(noise: Noise) -> CausesGate:
            return self.gate(noise, lambda age, refusals, rate, margin: threshold, len(one))

        world = KeyWorld(make, KeyCounts(self.cost), 1, published=published)
        first, second = (world.law(fixed_keys([tuple(rows)])) for rows in (one, other))
        return first, second


# A key is drawn with about this probability where its share of the weight shall not matter.
RARE = math.exp(-7)
CERTAIN = -(10**6)


def extremal_pairs(gate: GateParameters, listed: Sequence[bytes]) -> Iterator[tuple[str, Laws]]:
    """Yield pairs of streams that cost all that is claimed, each with its family in words."""
    fresh = (tuple(listed), True)
    yield "keys of one row alone", gate.at_once([fresh], [None], CERTAIN, frozenset())
    rare = _positives_for(gate, RARE)
    key, other = (b"k",), (b"l",)
    # A firing is unlikely by exp(-gap) from gap 1 on: any shift is paid in full.
    high = gate.cost.denominator * (rare + 2)
    row = [(key, True)] * (rare - 1)
    yield (
        "a missed positive or a negative of a rare key",
        gate.at_once([*row, (key, True)], [*row, (key, False)], high, frozenset()),
    )
    many = _positives_for(gate, 1 / RARE)
    even = _positives_for(gate, 1)
    rows = [*[(key, True)] * (even - 1), *[(other, True)] * (many - 1)]
    yield (
        "a positive of a rare key or of a leading one",
        gate.at_once([*rows, (key, True)], [*rows, (other, True)], CERTAIN, frozenset()),
    )


def _positives_for(gate: GateParameters, weight: float) -> int:
    """Return the positives of a key of width 1 that give it about this weight."""
    least = math.log(float(gate.delta * gate.prior[0]))
    return max(2, round(1 + (math.log(weight) - least) / float(gate.rate)))


def window_findings(name: str, epsilon: Fraction) -> Iterator[Finding]:
    """Enumerate the counts of a window, in which a replaced round leaves one cell for another."""
    claim = Cost(epsilon)
    scale = WindowCounts(ScriptedNoise({}), epsilon=epsilon, name=name).scale
    pairs = {
        "a round moves from one cell to another": ((1, 0), (0, 1)),
        "a round becomes a null round": ((1, 0), (0, 0)),
    }
    for family, (one, other) in pairs.items():
        largest = 0.0
        for counts in product(range(-3, 4), repeat=2):
            p, q = (
                math.prod(laplace_mass(n - at, scale) for n, at in zip(counts, cells, strict=True))
                for cells in (one, other)
            )
            largest = max(largest, abs(math.log(p / q)))
        yield Finding(name, family, claim, largest, 0.0)


def gate_parameters(plan: CausesPlan, cost: Fraction) -> GateParameters:
    """Return the parameters of a plan's gate for a cost of false alarms."""
    selector = plan.gate(ScriptedNoise({}), cost)._selector
    assert isinstance(selector, SparseExponential)
    return GateParameters(
        cost,
        plan.epsilon_monitor(cost),
        selector.rate,
        selector.delta,
        selector.prior,
        selector.drop_penalty,
    )


def listed_keys(plan: CausesPlan) -> tuple[bytes, ...]:
    """Return the keys of a row that lists as many of each width as the plan allows."""
    return tuple(
        AND.join(b"%d.%d" % (number, part) for part in range(width))
        for width, count in enumerate(map(int, plan.pattern_counts.split()), start=1)
        for number in range(count)
    )


def causes_findings(plan: CausesPlan) -> Iterator[Finding]:
    """Enumerate the gate and the counts of a plan of causes."""
    auto = plan.min_rate == AUTO
    for rate in (LEAST_RATE, MOST_RATE) if auto else (plan.given_rate,):
        gate = gate_parameters(plan, plan.cost_of(rate))
        name, claim = f"causes gate, c = {gate.cost}", gate.claim
        small = KeyWorld(gate.gate, KeyCounts(gate.cost), 2, published=frozenset([b"p"]))
        pairs = neighbouring_laws(small, SMALL_ROWS)
        yield worst(name, f"{len(SMALL_ROWS) ** 2} streams of 2 rounds", claim, pairs)
        for family, laws in extremal_pairs(gate, listed_keys(plan)):
            yield worst(name, family, claim, [laws])
    yield from window_findings("evidence", plan.epsilon_evidence)
    if auto:
        yield from window_findings("first window", plan.per_round.epsilon)


# Rows that a cause p matches, or not, with keys of their own and keys in common.
SMALL_ROWS: tuple[KeyRow, ...] = (
    None,
    *(
        (keys, label)
        for keys in ((b"a", b"b"), (b"a", b"c"), (b"p", b"a"), (b"d",))
        for label in (True, False)
    ),
)
