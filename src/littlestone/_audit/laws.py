"""Enumerate mechanisms on families of small neighbours, against their claims.

Each function runs the code it is given (the real one, or a faulty twin) on all small neighbours and
on the extremal families of docs/guarantee.md, which come close to the claim, so that too little
noise is noticed. Counts are in units of the noise, so any epsilon can be checked. The law of the
exponential mechanism is found from its code by bisection. The smallest learners that can drive a
gate are here too: rows in, what each check reads out. Whole gates, and plans, are in `gates`.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from littlestone._audit.enumeration import (
    BranchingNoise,
    Enumerated,
    EnumeratedTranscript,
    Stepper,
    World,
    delta_at,
    epsilon_at,
    largest_loss,
    law,
    transcripts,
)
from littlestone._learners.experts import FixedSharePrior
from littlestone._privacy.accounting import Cost
from littlestone._privacy.exponential import ExponentialMechanism, Scores, _draw_group
from littlestone._privacy.gates import Decision, Selector
from littlestone._privacy.noise import Address, Noise
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection

LawKey = tuple[tuple[int, ...], Fraction, tuple[bytes, ...]]
_laws: dict[LawKey, list[tuple[bytes, float]]] = {}


class FixedPointNoise(Noise):
    """Return a given point of [0, 2^64) as the first draw, and 0 for every later one."""

    def __init__(self, point: int) -> None:
        self.point = point

    def __repr__(self) -> str:
        return "Point(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        raise AssertionError("the exponential mechanism has no use for Laplace noise")

    def uniform(self, below: int, at: Address) -> int:
        # Later draws only refine a point that the first 64 bits leave open: 0 takes its lower end.
        return self.point if at[2] == 1 else 0


def law_of(gaps: list[int], sizes: list[int], rate: Fraction) -> list[float]:
    """Return the probability of each group."""
    ends = ends_of(gaps, sizes, rate)
    return [(end - start) / 2**64 for start, end in zip([0, *ends], ends, strict=False)]


def lead_for(epsilon: Fraction) -> int:
    """Return a lead in scores that makes the rule behind rare, and not too rare for `law_of`."""
    return math.ceil(28 / epsilon)


def ends_of(gaps: list[int], sizes: list[int], rate: Fraction) -> list[int]:
    """Return where in [0, 2^64) each group ends: bisect for the first point of the next one."""
    ends = []
    for group in range(len(gaps)):
        low, high = 0, 2**64
        while low < high:
            middle = (low + high) // 2
            # The groups are intervals of the first 64 bits, so their ends can be found by
            # bisection.
            if _draw_group(gaps, sizes, rate, FixedPointNoise(middle), 0) <= group:
                low = middle + 1
            else:
                high = middle
        ends.append(low)
    return ends


class FromLaw(ExponentialMechanism):
    """Select from the mechanism's law in one step of an enumeration."""

    def select(
        self, ballot: Scores, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        if not isinstance(noise, BranchingNoise):
            raise TypeError("an enumerated mechanism is for enumeration: it protects no one")
        assert leave_out is None, "experts leave no rule out"
        return noise.choose(self.law(ballot))

    def law(self, scores: Scores) -> list[tuple[bytes, float]]:
        """Return the probability of each candidate."""
        # As plain integers: an array cannot be a key.
        key = (tuple(map(int, scores)), self.rate, self.candidates)
        if key not in _laws:
            levels, counts = np.unique(scores, return_counts=True)
            gaps = [int(levels[-1] - level) for level in levels[::-1]]
            masses = law_of(gaps, counts[::-1].tolist(), self.rate)
            chance = dict(zip(levels[::-1].tolist(), masses, strict=True))
            size = dict(zip(levels.tolist(), counts.tolist(), strict=True))
            pairs = zip(self.candidates, key[0], strict=True)
            _laws[key] = [(name, chance[n] / size[n]) for name, n in pairs]
        return _laws[key]


OLD, A, B = b"o", b"a", b"b"
# A row is the key it is evidence for; None is a null round.
Row = bytes | None
# The row of the next round, given the transcript so far.
SmallStream = Callable[[EnumeratedTranscript], Row]


def fixed_rows(rows: tuple[Row, ...]) -> SmallStream:
    """Return rows fixed in advance."""
    return lambda past: rows[len(past)]


def reacting_rows(seed: int, replaced: int | None = None) -> SmallStream:
    """Return rows that depend on everything released before."""

    def row(past: EnumeratedTranscript) -> Row:
        world = "other" if len(past) == replaced else "one"
        # Apart from the replaced round a function of the past alone: the worlds react alike.
        return random.Random(repr((seed, past, world))).choice([A, B, None])

    return row


def streams(horizon: int) -> list[tuple[Row, ...]]:
    """Return every stream of so many rounds."""
    return list(product((A, B, None), repeat=horizon))


def neighbours(rows: tuple[Row, ...]) -> Iterator[tuple[Row, ...]]:
    """Yield every stream that differs in at most one round."""
    for number, row in product(range(len(rows)), (A, B, None)):
        yield (*rows[:number], row, *rows[number + 1 :])


def epochs(rows: SmallStream, restarted: bool = True) -> World:
    """Return a flat forest with a tree for each round."""

    def world(past: EnumeratedTranscript) -> tuple[object, ...]:
        published, since = OLD, 0
        for number, decision in enumerate(past):
            assert isinstance(decision, Decision)
            published = decision.key or published
            # The runner empties its trees at a firing; without that (a planted fault) epochs
            # overlap.
            since = number + 1 if decision.fired and restarted else since
        votes = Counter(row for n in range(since, len(past) + 1) if (row := rows(past[:n])))
        row = rows(past)
        return int(row is not None and row != published), dict(votes)

    return world


class SettlingTranscript:
    """Derive from a transcript what `SettlingGate` derives from it: a plain twin."""

    def __init__(self, past: EnumeratedTranscript) -> None:
        self.published, self.comparing, self.begin = OLD, False, 0
        self.known: list[bytes] = []
        for number, decision in enumerate(past):
            assert isinstance(decision, Decision)
            if not decision.fired:
                continue
            self.begin = number + 1
            if decision.key is None:
                self.comparing = bool(self.known) and not self.comparing
                continue
            known = [key for key in (*self.known, self.published) if key != decision.key]
            self.published, self.known, self.comparing = decision.key, known, False


def settling(rows: SmallStream) -> World:
    """Return votes for the keys that rows are evidence for, or the mistakes of known keys."""

    def world(past: EnumeratedTranscript) -> tuple[object, ...]:
        public, row = SettlingTranscript(past), rows(past)
        epoch = [some for n in range(public.begin, len(past) + 1) if (some := rows(past[:n]))]
        wrong = int(row is not None and row != public.published)
        if public.comparing:
            keys = (public.published, *public.known)
            return wrong, {key: sum(some != key for some in epoch) for key in keys}
        return wrong, dict(Counter(epoch))

    return world


def forest(rows: SmallStream, trees: int = 2) -> World:
    """Return a forest: round n goes to tree n mod `trees`, which votes for its latest row."""

    def world(past: EnumeratedTranscript) -> tuple[object, ...]:
        votes: list[Row] = [OLD] * trees
        for n in range(len(past) + 1):
            # The tree of a round depends on its number alone, so a replaced row moves one vote.
            votes[n % trees] = rows(past[:n])
        return (dict(Counter(vote for vote in votes if vote is not None)),)

    return world


PriorFrom = Literal["nothing", "published", "rows"]
TWO = Fraction(2)


def experts(
    rows: SmallStream,
    restarted: bool = True,
    prior_from: PriorFrom = "nothing",
    epsilon: Fraction = TWO,
) -> World:
    """Return two rules; a row is evidence for one of them, and the other errs on it."""

    def world(past: EnumeratedTranscript) -> tuple[object, ...]:
        published, since = A, 0
        prior = FixedSharePrior(2)
        for number, decision in enumerate(past):
            assert isinstance(decision, Decision)
            if prior_from == "published" and decision.key not in (None, published):
                prior.drop(np.array([key == published for key in (A, B)]))
            if prior_from == "rows" and rows(past[:number]) is not None:
                prior.drop(np.array([key != rows(past[:number]) for key in (A, B)]))
            published = decision.key or published
            since = number + 1 if decision.fired and restarted else since
        rounds: list[Row] = [rows(past[:n]) for n in range(since, len(past) + 1)]
        mistakes = [sum(row not in (key, None) for row in rounds) for key in (A, B)]
        row = rows(past)
        wrong = int(row is not None and row != published)
        return wrong, tuple((-np.array(mistakes) - prior.penalties(epsilon / 2)).tolist())

    return world


Votes: TypeAlias = Mapping[bytes, int]
Make: TypeAlias = Callable[[Noise], Stepper]
Outcome = TypeVar("Outcome")
Pair: TypeAlias = tuple[Mapping[Outcome, float], Mapping[Outcome, float]]
Laws: TypeAlias = Pair[EnumeratedTranscript]

# How many scales of threshold noise are enumerated on small families: e^-18 is left out.
NEGLIGIBLE_MASS = 18

# What floats may add to a computed loss: a share of the claim, and to a delta an amount.
ROUNDING = 1e-6, 1e-13


@dataclass(frozen=True)
class Finding:
    """Hold the loss of the most expensive pair of neighbours of a family."""

    mechanism: str
    family: str
    claim: Cost
    epsilon: float
    delta: float

    @property
    def share(self) -> float:
        """Return the larger share of the claim that was reached."""
        shares = [self.epsilon / float(self.claim.epsilon)]
        if self.claim.delta:
            # A claim without delta has no share of one.
            shares.append(self.delta / float(self.claim.delta))
        return max(shares)

    @property
    def kept(self) -> bool:
        """Return whether the claim holds on this family, to the precision of floats."""
        share, amount = ROUNDING
        if self.epsilon <= float(self.claim.epsilon) * (1 + share):
            return True
        return self.claim.delta > 0 and self.delta <= float(self.claim.delta) * (1 + share) + amount


def worst(mechanism: str, family: str, claim: Cost, pairs: Iterable[Pair[Outcome]]) -> Finding:
    """Return the finding over pairs of laws."""
    epsilon = delta = 0.0
    for one, other in pairs:
        # Both views of one claim: the loss at its delta, and the delta at its loss.
        epsilon = max(epsilon, epsilon_at(float(claim.delta), one, other))
        delta = max(delta, delta_at(float(claim.epsilon), one, other))
    return Finding(mechanism, family, claim, epsilon, delta)


def at_one(mechanism: str, family: str, claim: Cost, laws: Iterable[Laws]) -> Finding:
    """Return the loss at single transcripts, for inputs on which delta plays no part."""
    # A pair that neither world can produce compares nothing.
    losses = [largest_loss(*pair) for pair in laws if pair[0] or pair[1]]
    return Finding(mechanism, family, Cost(claim.epsilon), max(losses, default=0.0), 0.0)


def mistakes_monitor(make: Make, epsilon: Fraction, cap: int = 1) -> Iterator[Finding]:
    """Enumerate the monitor of Theorem 3."""
    name, claim, unit = "mistakes monitor", Cost(epsilon), math.ceil(cap / epsilon)
    length = 5 if unit == 1 else 3
    laws = {
        counts: transcripts(make, _counting(counts, [1] * length), length, NEGLIGIBLE_MASS * unit)
        for counts in product((0, 1), repeat=length)
    }
    small = (
        (laws[one], laws[other])
        for one, other in product(laws, laws)
        if sum(x != y for x, y in zip(one, other, strict=True)) <= cap
    )
    yield worst(name, f"{len(laws)} streams of {length} checks", claim, small)

    def scales(count: int) -> int:
        # Whole mistakes. At a large epsilon many would be too rare for floats.
        return math.ceil(count * cap / epsilon)

    # In scales of the noise: high enough that a "no" is unlikely, far enough that a firing is.
    high, far = scales(12), scales(40)
    quiet = (False,) * 12
    extremal: list[tuple[EnumeratedTranscript, list[int], list[int], int]] = [
        (quiet, [high] + [0] * 11, [0] * 12, 0),
        ((*quiet, True), [high] + [0] * 12, [0] * 12 + [far], 12),
        ((True,) * 3, [0] * 3, [far] * 3, 0),
        ((*quiet, True, True, True), [high] + [0] * 14, [0] * 12 + [high + far] * 3, 0),
        (
            (*(False,) * 14, True),
            [scales(10), *[scales(5)] * 11, 0, 0, 0],
            [0] * 14 + [scales(60)],
            0,
        ),
    ]
    pairs = (
        _shifted(make, only, counts, thresholds, place, cap, sum(counts) + 20 * unit)
        for only, counts, thresholds, place in extremal
    )
    yield at_one(name, "a shift up, a shift down, then firings", claim, pairs)


def sparse_vector(
    make: Make,
    epsilon: Fraction,
    releases: int,
    scales: tuple[Fraction, Fraction],
) -> Iterator[Finding]:
    """Enumerate the sparse vector of Theorem 2, on queries that move by one."""
    name, claim = "sparse vector", Cost(epsilon)
    threshold_width, query = (math.ceil(scale) for scale in scales)
    length = 3 if threshold_width <= 2 else 2
    worlds = list(product((0, 1, 2), repeat=length))
    laws = {
        w: transcripts(make, _counting(w, [1] * 3), length, NEGLIGIBLE_MASS * threshold_width)
        for w in worlds
    }
    small = (
        (laws[one], laws[other])
        for one, other in product(worlds, worlds)
        if all(abs(x - y) <= 1 for x, y in zip(one, other, strict=True))
    )
    yield worst(name, f"{len(worlds)} streams of {length} queries", claim, small)
    # High noes force the threshold noise up; a shift of one in every query then costs the monitor's
    # whole share, and each firing its own.
    high, quiet = 14 * query, (False,) * 10
    only = quiet + (True,) * releases
    one, other = (
        transcripts(
            make,
            _counting([-high - s if fired else high + s for fired in only], [0] * len(only)),
            len(only),
            high + 20 * threshold_width,
            only,
        )
        for s in (0, 1)
    )
    yield at_one(name, f"high noes, then {releases} low firings", claim, [(one, other)])


def selection(selector: Selector[Votes], claim: Cost) -> Iterator[Finding]:
    """Enumerate a selector of one key by votes (Theorems 4 and 5)."""
    unit = math.ceil(2 / claim.epsilon)
    lead = 100 * unit
    enough = votes_without_delta(selector)
    laws = _Laws(Enumerated(selector, width=enough + 2 * lead))
    counts = list(product(range(4), repeat=2))
    ballots = [({A: a, B: b}, {A: c, B: d}) for a, b in counts for c, d in counts
               if abs(a - c) <= 1 and abs(b - d) <= 1 and abs(a + b - c - d) <= 1]  # fmt: skip
    # A key with zero votes must be the same as a key that is not there.
    gone: list[tuple[dict[bytes, int], dict[bytes, int]]] = [({A: 0, B: 0}, {})]
    small = (laws.pair(one, other) for one, other in [*ballots, *gone])
    yield worst(selector.name, "2 keys, up to 3 votes", claim, small)
    steps = sorted({-1, 0, 1, *(unit * n for n in (1, 2, 3, 5, 8, 12, 18, 24, 30))})
    leads = [
        ({A: n + 1, B: n + step}, {B: n + step + 1, A: n})
        for n in (1, enough)
        for step in steps
        if n + step >= 1
    ]
    yield worst(
        selector.name, f"leads up to {30 * unit}", claim, (laws.pair(*pair) for pair in leads)
    )
    under = laws.pair({A: enough + 1, B: enough + lead}, {B: enough + lead + 1, A: enough})
    only_a: list[Laws] = [({("a",): under[0][A]}, {("a",): under[1][A]})]
    yield at_one(selector.name, f"an underdog wins by {lead}", claim, only_a)


def votes_without_delta(selector: object) -> int:
    """Return a number of votes at which delta plays no part."""
    if isinstance(selector, UnknownDomainSelection):
        # From here on a drawn key is accepted for certain.
        return len(selector.curve.accept)
    return selector.threshold if isinstance(selector, StableHistogram) else 1


def _counting(counts: Sequence[int], thresholds: Sequence[int]) -> World:
    """Return a world that gives a monitor these counts, at these thresholds."""
    return lambda past: (counts[len(past)], thresholds[len(past)])


def _shifted(
    make: Make,
    only: EnumeratedTranscript,
    counts: list[int],
    thresholds: list[int],
    place: int,
    shift: int,
    width: int,
) -> Laws:
    """Return the probability of one transcript, without and with a shift at one check."""
    other = [n + shift * (at == place) for at, n in enumerate(counts)]
    worlds = _counting(counts, thresholds), _counting(other, thresholds)
    one, two = (transcripts(make, world, len(only), width, only) for world in worlds)
    return one, two


class _Laws:
    """Compute the law of a selector's answers, once for each ballot."""

    def __init__(self, selector: Enumerated) -> None:
        self._selector = selector

    def pair(self, one: dict[bytes, int], other: dict[bytes, int]) -> Pair[bytes | None]:
        return self._of(one), self._of(other)

    def _of(self, ballot: dict[bytes, int]) -> dict[bytes | None, float]:
        return law(lambda noise: self._selector.select(ballot, noise, 0), 0)
