"""Enumerate the output law of real code, over every draw that it could make.

Noise is integer, so the law of what a mechanism publishes can be *computed*: run it once for every
branch of its noise and add up. `EnumeratingNoise` forks as little as possible:

- The noise of a threshold is summed over, not drawn: it enters a comparison by addition, so its law
  given all answers so far is kept as an array. Each check forks into yes and no.
- All other draws are symbolic, and fork only where the code compares them. What is not supported
  by comparing (arithmetic with another draw, or a use as an index) forks over the values that are
  left; anything else is a TypeError, never a wrong law.

Two approximations, both harmless: the threshold noise beyond a hundred scales is left out, and
probabilities are floats. Selections by weight are one fork, by the weights that the code states;
that they are drawn by these weights is checked against the code elsewhere (tests/privacy).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import ADD, Moves, SparseExponential
from littlestone._privacy.draws import STAY, Draw, ExponentialMechanism
from littlestone._privacy.gates import Gate, MistakesMonitor
from littlestone._privacy.noise import Address, Noise
from littlestone._privacy.selection import SearchOrCompare, UnknownDomainSelection

T = TypeVar("T")
Outcome = TypeVar("Outcome", bound=Hashable)
Probability = Fraction | float
Mass = Callable[[int | None, int | None], Probability]
# How far threshold noise is summed over, in scales and in whole numbers: e^-100 is left out.
SCALES, NUMBERS = 100, 40


class Interval:
    """Hold a drawn integer that is known to lie in [low, high]."""

    def __init__(
        self, chooser: "BranchingNoise", mass: Mass, low: int | None, high: int | None, width: int
    ) -> None:
        self._chooser, self._mass, self._width = chooser, mass, width
        self.low, self.high = low, high

    def exceeds(self, gap: int) -> bool:
        """Return whether it is at least `gap`: decided already, or a fork."""
        if self.low is not None and self.low >= gap:
            return True
        if self.high is not None and self.high < gap:
            return False
        parts = {True: (gap, self.high), False: (self.low, gap - 1)}
        return self._forked(parts)

    def quotient(self, offset: int, by: int) -> int:
        """Return (draw + offset) // by: a fork over the quotients that are left."""
        if self.low is None or self.high is None:
            raise TypeError("an unbounded draw has no finite number of quotients")
        first, last = (self.low + offset) // by, (self.high + offset) // by
        starts = {q: q * by - offset for q in range(first, last + 1)}
        return self._forked(
            {
                q: (max(self.low, start), min(self.high, start + by - 1))
                for q, start in starts.items()
            }
        )

    def value(self) -> int:
        """Return the integer itself: a fork over all that are left."""
        value = self._chooser.choose(_values(self._mass, self.low, self.high, self._width))
        self.low = self.high = value
        return value

    def _forked(self, parts: Mapping[T, tuple[int | None, int | None]]) -> T:
        whole = self._mass(self.low, self.high)
        masses = [(name, self._mass(*ends) / whole) for name, ends in parts.items()]
        name = self._chooser.choose([(name, p) for name, p in masses if p > 0])
        self.low, self.high = parts[name]
        return name


class SymbolicInt:
    """Represent a draw plus a known number: what mechanisms add, compare and divide."""

    __slots__ = ("_draw", "_offset")

    def __init__(self, draw: Interval, offset: int = 0) -> None:
        self._draw, self._offset = draw, offset

    def __index__(self) -> int:
        return self._draw.value() + self._offset

    def __add__(self, other: int) -> "SymbolicInt":
        return SymbolicInt(self._draw, self._offset + other.__index__())

    __radd__ = __add__

    def __sub__(self, other: int) -> "SymbolicInt":
        return SymbolicInt(self._draw, self._offset - other.__index__())

    def __floordiv__(self, by: int) -> int:
        return self._draw.quotient(self._offset, by)

    def __ge__(self, other: int) -> bool:
        return self._draw.exceeds(other.__index__() - self._offset)

    def __gt__(self, other: int) -> bool:
        return self._draw.exceeds(other.__index__() + 1 - self._offset)

    def __lt__(self, other: int) -> bool:
        return not self >= other

    def __le__(self, other: int) -> bool:
        return not self > other

    def __hash__(self) -> int:
        # Hashing would need the value, and list all of them: nobody must do that by accident.
        raise TypeError("an undecided integer cannot be a key")


@lru_cache(maxsize=1024)
def _values(
    mass: Mass, low: int | None, high: int | None, width: int
) -> list[tuple[int, Probability]]:
    """Return the values left, with their probabilities; an open end is cut at the width."""
    first = min(0, high or 0) - width if low is None else low
    last = max(0, first) + width if high is None else high
    whole = mass(low, high)
    masses = ((value, mass(value, value) / whole) for value in range(first, last + 1))
    return [(value, p) for value, p in masses if p > 0]


def uniform_mass(below: int) -> Mass:
    """Return the law of a uniform integer of [0, below), exactly."""

    def mass(low: int | None, high: int | None) -> Probability:
        return Fraction((below - 1 if high is None else high) - (low or 0) + 1, below)

    return mass


@cache
def laplace_mass_between(scale: Fraction) -> Mass:
    """Return the mass of [low, high] under the discrete Laplace law, without cancellation."""
    rate = 1 / float(scale)
    both = 1 + math.exp(-rate)

    def upper(low: int, high: int | None) -> float:
        """Return the mass of [low, high], low >= 0."""
        if high is None:
            return math.exp(-rate * low) / both
        return math.exp(-rate * low) * -math.expm1(-rate * (high - low + 1)) / both

    def mass(low: int | None, high: int | None) -> Probability:
        total = 0.0
        if high is None or high >= 0:
            total += upper(max(low or 0, 0), high)
        if low is None or low < 0:
            # The negative side is the mirror image, without zero.
            mirrored = 1 if high is None else max(1, -high)
            total += upper(mirrored, None if low is None else -low)
        return total

    return mass


def laplace_mass(k: int, scale: Fraction) -> float:
    """Return P(noise = k)."""
    return float(laplace_mass_between(scale)(k, k))


class BranchingNoise(Noise):
    """Follow a given path of choices, then the first choice at every new fork."""

    def __init__(self, path: Sequence[int], width: int = 200) -> None:
        self.path, self.width = path, width
        self.taken: list[int] = []
        self.forks: list[int] = []
        self.probability: Probability = Fraction(1)

    def __repr__(self) -> str:
        return "Branching(NOT PRIVATE)"

    def choose(self, outcomes: Sequence[tuple[T, Probability]]) -> T:
        """Take the next choice among outcomes with their probabilities."""
        depth = len(self.taken)
        choice = self.path[depth] if depth < len(self.path) else 0
        self.taken.append(choice)
        self.forks.append(len(outcomes))
        value, probability = outcomes[choice]
        self.probability *= probability
        return value

    def laplace(self, scale: Fraction, at: Address) -> int:
        draw = Interval(self, laplace_mass_between(scale), None, None, self.width)
        return cast(int, SymbolicInt(draw))

    def uniform(self, below: int, at: Address) -> int:
        return cast(int, SymbolicInt(Interval(self, uniform_mass(below), 0, below - 1, self.width)))


class EnumeratingNoise(BranchingNoise):
    """Sum over the noise of thresholds, and fork at every check."""

    # Noise is a multiple of it: an audit of noise that is too coarse sets another one.
    grid = 1

    def __init__(self, path: Sequence[int], width: int = 200) -> None:
        super().__init__(path, width)
        self._threshold: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._law: npt.NDArray[np.float64] = np.ones(1)

    def laplace(self, scale: Fraction, at: Address) -> int:
        if at[0] != "threshold":
            return super().laplace(scale, at)
        reach = math.ceil(SCALES * scale) + NUMBERS
        return self._summed(np.arange(-reach, reach + 1), scale)

    def geometric(self, scale: Fraction, at: Address) -> int:
        return self._summed(
            self.grid * np.arange(math.ceil(SCALES * scale / self.grid) + NUMBERS), scale
        )

    def _summed(self, values: npt.NDArray[np.int64], scale: Fraction) -> int:
        """Return 0, and sum over these values from here on."""
        law = np.exp(-np.abs(values) / float(scale))
        self._threshold, self._law = values, law / law.sum()
        return 0

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        fires, rests = tails(gap + self._threshold, scale, one_sided, self.grid)
        yes, no = float((self._law * fires).sum()), float((self._law * rests).sum())
        fired = self.choose([(answer, p) for answer, p in ((True, yes), (False, no)) if p > 0])
        posterior = self._law * (fires if fired else rests)
        self._law = posterior / posterior.sum()
        return fired


def tails(
    gaps: npt.NDArray[Any], scale: Fraction, one_sided: bool, grid: int = 1
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return P(noise >= gap) and P(noise < gap) of each gap, without cancellation."""
    rate = grid / float(scale)
    steps = -(-gaps // grid)
    up = np.maximum(steps, 0)
    if one_sided:
        return np.exp(-rate * up), -np.expm1(-rate * up)
    both = 1 + math.exp(-rate)
    far, back = np.exp(-rate * up) / both, np.exp(-rate * np.maximum(1 - steps, 0)) / both
    return np.where(steps >= 1, far, 1 - back), np.where(steps >= 1, 1 - far, back)


def law(
    run: Callable[[BranchingNoise], Outcome],
    noise: Callable[[Sequence[int]], BranchingNoise] = EnumeratingNoise,
) -> dict[Outcome, float]:
    """Return the probability of every outcome of a run."""
    total: defaultdict[Outcome, float] = defaultdict(float)
    for outcome, probability in branches(run, noise):
        total[outcome] += float(probability)
    return dict(total)


def branches(
    run: Callable[[BranchingNoise], Outcome],
    noise: Callable[[Sequence[int]], BranchingNoise] = EnumeratingNoise,
) -> Iterator[tuple[Outcome, Probability]]:
    """Yield the outcome of every branch of a run with its probability; outcomes may repeat."""
    pending: list[list[int]] = [[]]
    while pending:
        path = pending.pop()
        branch = noise(path)
        yield run(branch), branch.probability
        for depth in range(len(path), len(branch.forks)):
            # Every fork after the given path: all other choices there are paths of their own.
            pending.extend([*branch.taken[:depth], i] for i in range(1, branch.forks[depth]))


Transcript = tuple[Any, ...]
Law = Mapping[Any, float]
# What the next check reads, given the transcript so far: worlds may react.
World = Callable[[Transcript], tuple[Any, ...]]
# A mechanism, with the noise that it draws.
Make = Callable[[Noise], Any]
_ELSEWHERE = ("another transcript",)


def transcripts(
    make: Make,
    world: World,
    checks: int,
    only: Transcript | None = None,
    noise: Callable[[Sequence[int]], BranchingNoise] = EnumeratingNoise,
) -> dict[Transcript, float]:
    """Return the law of the transcript of several checks, or the probability of one transcript."""
    # Branches share their beginnings.
    inputs = cache(world)

    def run(drawn: BranchingNoise) -> Transcript:
        check = _check_of(make(drawn))
        past: Transcript = ()
        for number in range(checks):
            past = (*past, check(*inputs(past)))
            # Other branches cannot produce the one transcript that is asked for.
            if only is not None and past[-1] != only[number]:
                return _ELSEWHERE
        return past

    return {past: p for past, p in law(run, noise).items() if past != _ELSEWHERE}


def _check_of(mechanism: Any) -> Callable[..., Hashable]:
    """Return what makes one check of a gate or of a monitor."""
    if isinstance(mechanism, MistakesMonitor):
        return lambda mistakes, limit: mechanism.advance([mistakes], limit) is not None
    if not isinstance(mechanism, Gate):
        return cast(Callable[..., Hashable], mechanism.check)

    def check(
        loss: int, scores: object, tell: Callable[[Any], object] = lambda gate: None
    ) -> Hashable:
        # What a learner tells its gate and schedule: public, a function of the transcript.
        tell(mechanism)
        return mechanism.run([loss], lambda place, fired: scores).decision

    return check


class ByLaw(Draw[Any]):
    """Draw in one fork of an enumeration, by the law of a draw."""

    def __init__(self, draw: Draw[Any]) -> None:
        self.name, self.cost, self.parameters = draw.name, draw.cost, draw.parameters  # type: ignore[method-assign]
        self.draw, self.joint = draw, draw.joint  # type: ignore[method-assign]
        self._laws: dict[Hashable, list[tuple[bytes | None, float]]] = {}
        self._kept: list[Moves] = []

    def select(
        self, scores: Any, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        if not isinstance(noise, BranchingNoise):
            # A law that is drawn without secret noise protects no one.
            raise TypeError("a draw by its law is for enumeration: it protects no one")
        return noise.choose(self.law(scores, published))

    def law(self, scores: Any, published: bytes | None = None) -> list[tuple[bytes | None, float]]:
        """Return every key that may be drawn, with its probability."""
        if isinstance(scores, Moves):
            if id(scores) not in self._laws:
                # Kept, so that no other has its identity.
                self._kept.append(scores)
                self._laws[id(scores)] = _sparse_law(cast(SparseExponential, self.draw), scores)
            return self._laws[id(scores)]
        listed = tuple(scores.items() if isinstance(scores, Mapping) else map(int, scores))
        if (listed, published) not in self._laws:
            self._laws[listed, published] = draw_law(self.draw, scores, published)
        return self._laws[listed, published]


def enumerable(gate: Gate[Any]) -> Gate[Any]:
    """Return a gate with its draw replaced by one that forks once."""
    if isinstance(gate.draw, SearchOrCompare):
        gate.draw.search = ByLaw(gate.draw.search)
        gate.draw.comparison = _comparison
    else:
        gate.draw = ByLaw(gate.draw)
    return gate


def _comparison(keys: Sequence[bytes], *, epsilon: Fraction) -> ByLaw:
    return ByLaw(ExponentialMechanism(keys, epsilon=epsilon))


def draw_law(
    draw: Draw[Any], scores: Any, published: bytes | None = None
) -> list[tuple[bytes | None, float]]:
    """Return every key that a draw may select, with its probability."""
    if isinstance(draw, UnknownDomainSelection):
        exact = draw.law(scores, published)
        return [(key, float(p)) for key, p in exact.items() if p > 0]
    if not isinstance(draw, ExponentialMechanism):
        return list(law(lambda noise: draw.select(scores, noise, 0, published)).items())
    pairs = zip(draw.candidates, map(int, scores), strict=True)
    listed = {key: score for key, score in pairs if key != published}
    chances = _by_weight(np.array(list(listed.values())) * float(draw.rate))
    return [(None if key == STAY else key, p) for key, p in zip(listed, chances, strict=True)]


def _sparse_law(draw: SparseExponential, moves: Moves) -> list[tuple[bytes | None, float]]:
    table = draw.table(moves)
    logs = np.array([math.log(weight) if weight else -math.inf for weight in table.weights])
    chances = _by_weight(logs[table.classes] + float(draw.rate / draw.units) * table.scores)
    found: defaultdict[bytes | None, float] = defaultdict(float)
    first_idle = 1 + len(moves.drops) + len(moves.adds)
    for place, chance in enumerate(chances):
        width = place - first_idle
        if moves.may_add and 0 <= width < len(draw.known):
            # All known keys that no row lists are one entry, and each of them as likely.
            active = moves.known[moves.widths == width].tolist()
            idle = [n for n in range(draw.known[width].keys) if n not in active]
            for number in idle:
                found[ADD + moves.known_key(width, number)] += chance / len(idle)
        else:
            found[draw.key_at(moves, place, BranchingNoise(()), 0)] += chance
    return list(found.items())


def _by_weight(logs: npt.NDArray[np.float64]) -> list[float]:
    chances = np.exp(logs - logs.max())
    return cast(list[float], (chances / chances.sum()).tolist())


def largest_loss(one: Mapping[T, float], other: Mapping[T, float]) -> float:
    """Return the largest |ln P/Q| over outcomes: the epsilon of pure differential privacy."""
    if not one and not other:
        # An empty comparison would pass every test.
        raise ArithmeticError("no outcome was reached: nothing would be compared")
    return max(abs(_log_ratio(one.get(o, 0.0), other.get(o, 0.0))) for o in {**one, **other})


def _log_ratio(p: float, q: float) -> float:
    if p == q == 0:
        raise ArithmeticError("too rare for floats: nothing would be compared")
    return math.log(p / q) if p > 0 and q > 0 else math.inf


def delta_at(epsilon: float, one: Mapping[T, float], other: Mapping[T, float]) -> float:
    """Return the smallest delta, in both directions, that goes with an epsilon."""
    there = sum(max(0.0, p - math.exp(epsilon) * other.get(o, 0.0)) for o, p in one.items())
    back = sum(max(0.0, q - math.exp(epsilon) * one.get(o, 0.0)) for o, q in other.items())
    return max(there, back)


def epsilon_at(delta: float, one: Mapping[T, float], other: Mapping[T, float]) -> float:
    """Return the smallest epsilon, in both directions, that goes with a delta."""
    return max(_one_way(delta, one, other), _one_way(delta, other, one), 0.0)


def _one_way(delta: float, one: Mapping[T, float], other: Mapping[T, float]) -> float:
    pairs = [(p, other.get(o, 0.0)) for o, p in one.items() if p > 0]
    # By ratio: the sets that maximise the loss are beginnings of this order.
    pairs.sort(key=lambda pair: pair[1] / pair[0])
    p = q = worst = 0.0
    for more_p, more_q in pairs:
        p, q = p + more_p, q + more_q
        if p > delta:
            worst = max(worst, math.log((p - delta) / q) if q > 0 else math.inf)
    return worst


# What floats may add to a computed loss: a share of the claim, and to a delta an amount.
ROUNDING = 1e-6, 1e-13
Laws = tuple[Mapping[Any, float], Mapping[Any, float]]


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


def worst(mechanism: str, family: str, claim: Cost, pairs: Iterable[Laws]) -> Finding:
    """Return the finding over pairs of laws."""
    epsilon = delta = 0.0
    for one, other in pairs:
        # Both views of one claim: the loss at its delta, and the delta at its loss.
        epsilon = max(epsilon, epsilon_at(float(claim.delta), one, other))
        delta = max(delta, delta_at(float(claim.epsilon), one, other))
    return Finding(mechanism, family, claim, epsilon, delta)


def at_one(mechanism: str, family: str, claim: Cost, pairs: Sequence[Laws]) -> Finding:
    """Return the loss at single transcripts, for inputs on which delta plays no part."""
    # A pair that neither world can produce compares nothing.
    losses = [largest_loss(*pair) for pair in pairs if pair[0] or pair[1]]
    return Finding(mechanism, family, Cost(claim.epsilon), max(losses, default=0.0), 0.0)
