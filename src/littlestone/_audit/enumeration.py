"""Represent draws symbolically: fork only where the enumerated code compares.

A uniform integer below 10^40, or Laplace noise without a cut-off, cannot be enumerated value by
value. But code uses a draw in few ways: is it above this? which part of the range is it in? Here
every such comparison is one fork, and narrows the draw for all later ones. What is not supported
by comparing (arithmetic with another draw, or a use as an index) forks over the values that are
left; anything else is a TypeError, never a wrong law.

Enumerate the output law of real code, over every draw that it could make.

Noise is integer, so a mechanism's output law can be *computed*: run it once for every branch of
its noise and add up. Nothing here depends on how a mechanism works. Three approximations, all
harmless: stored noise is cut off at `width` (the mass beyond is left out, not moved), probabilities
are floats, and equal states are merged between checks. `littlestone audit` runs it on a plan.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Protocol, TypeVar, cast

from littlestone._privacy.gates import Selector
from littlestone._privacy.mechanism import State
from littlestone._privacy.noise import Address, Noise

T = TypeVar("T")
SymbolicOrInt = Fraction | float


class Chooser(Protocol):
    """Take one of several outcomes by their probabilities, and remember it as a fork."""

    def choose(self, outcomes: Sequence[tuple[T, SymbolicOrInt]]) -> T: ...


class Draw:
    """Hold an integer known to lie in [low, high]."""

    def __init__(
        self,
        chooser: Chooser,
        mass: Callable[[int | None, int | None], SymbolicOrInt],
        low: int | None,
        high: int | None,
        width: int,
    ) -> None:
        self._chooser, self._mass, self._width = chooser, mass, width
        self.low, self.high = low, high

    def exceeds(self, gap: int) -> bool:
        """Return whether it is at least `gap`: decided already, or a fork."""
        # Decided by earlier comparisons: no new fork.
        if self.low is not None and self.low >= gap:
            return True
        if self.high is not None and self.high < gap:
            return False
        whole = self._mass(self.low, self.high)
        parts = [
            (True, self._mass(gap, self.high) / whole),
            (False, self._mass(self.low, gap - 1) / whole),
        ]
        yes = self._chooser.choose([(answer, p) for answer, p in parts if p > 0])
        self.low, self.high = (gap, self.high) if yes else (self.low, gap - 1)
        return yes

    def quotient(self, offset: int, by: int) -> int:
        """Return (draw + offset) // by: a fork over the quotients that are left."""
        if self.low is None or self.high is None:
            raise TypeError("an unbounded draw has no finite number of quotients")
        first, last = (self.low + offset) // by, (self.high + offset) // by
        parts = {q: (q * by - offset, q * by - offset + by - 1) for q in range(first, last + 1)}
        return self._forked(parts)

    def value(self) -> int:
        """Return the integer itself: a fork over all that are left."""
        value = self._chooser.choose(_values(self._mass, self.low, self.high, self._width))
        self.low = self.high = value
        return value

    def _forked(self, parts: dict[int, tuple[int, int]]) -> int:
        whole = self._mass(self.low, self.high)
        within = {n: (self._above(low), self._below(high)) for n, (low, high) in parts.items()}
        masses = [(name, self._mass(*ends) / whole) for name, ends in within.items()]
        name = self._chooser.choose([(name, p) for name, p in masses if p > 0])
        self.low, self.high = within[name]
        return name

    def _above(self, end: int) -> int:
        return end if self.low is None else max(self.low, end)

    def _below(self, end: int) -> int:
        return end if self.high is None else min(self.high, end)


class SymbolicDraw:
    """Represent a draw plus a known number: what mechanisms add, compare and divide."""

    __slots__ = ("_draw", "_offset")

    def __init__(self, draw: Draw, offset: int = 0) -> None:
        self._draw, self._offset = draw, offset

    def __index__(self) -> int:
        return self._draw.value() + self._offset

    def __add__(self, other: int) -> "SymbolicDraw":
        return SymbolicDraw(self._draw, self._offset + _decided(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> "SymbolicDraw":
        return SymbolicDraw(self._draw, self._offset - _decided(other))

    def __floordiv__(self, by: int) -> int:
        return self._draw.quotient(self._offset, by)

    def __ge__(self, other: int) -> bool:
        return self._draw.exceeds(_decided(other) - self._offset)

    def __gt__(self, other: int) -> bool:
        return self._draw.exceeds(_decided(other) + 1 - self._offset)

    def __lt__(self, other: int) -> bool:
        return not self >= other

    def __le__(self, other: int) -> bool:
        return not self > other

    def __hash__(self) -> int:
        # Hashing would need the value, and list all of them: refuse, so that nobody does it by
        # accident.
        raise TypeError("an undecided integer cannot be a key")


def _decided(other: int) -> int:
    """Return a known number; another draw is decided first."""
    return other.__index__()


@lru_cache(maxsize=1024)
def _values(
    mass: Callable[[int | None, int | None], SymbolicOrInt],
    low: int | None,
    high: int | None,
    width: int,
) -> list[tuple[int, SymbolicOrInt]]:
    """Return the values left, with their probabilities; an open end is cut at the width."""
    first = min(0, high or 0) - width if low is None else low
    last = max(0, first) + width if high is None else high
    whole = mass(low, high)
    masses = ((value, mass(value, value) / whole) for value in range(first, last + 1))
    return [(value, p) for value, p in masses if p > 0]


def uniform_mass(below: int) -> Callable[[int | None, int | None], SymbolicOrInt]:
    """Return the law of a uniform integer of [0, below), exactly."""

    def mass(low: int | None, high: int | None) -> SymbolicOrInt:
        return Fraction((below - 1 if high is None else high) - (low or 0) + 1, below)

    return mass


@cache
def laplace_mass_between(scale: Fraction) -> Callable[[int | None, int | None], SymbolicOrInt]:
    """Return the mass of [low, high] under the discrete Laplace law, without cancellation."""
    rate = 1 / float(scale)
    both = 1 + math.exp(-rate)

    def upper(low: int, high: int | None) -> float:
        """Return the mass of [low, high], low >= 0."""
        if high is None:
            return math.exp(-rate * low) / both
        return math.exp(-rate * low) * -math.expm1(-rate * (high - low + 1)) / both

    def mass(low: int | None, high: int | None) -> SymbolicOrInt:
        total = 0.0
        if high is None or high >= 0:
            total += upper(max(low or 0, 0), high)
        if low is None or low < 0:
            # The negative side is the mirror image, without zero.
            near = 1 if high is None else max(1, -high)
            total += upper(near, None if low is None else -low)
        return total

    return mass


Outcome = TypeVar("Outcome", bound=Hashable)
EnumeratedTranscript = tuple[Hashable, ...]
# What the next check reads, given the transcript so far: worlds may react.
World = Callable[[EnumeratedTranscript], tuple[object, ...]]


class BranchingNoise(Noise):
    """Follow a given path of choices, then the first choice at every new fork."""

    def __init__(self, path: Sequence[int], width: int) -> None:
        self.path, self.width = path, width
        self.taken: list[int] = []
        self.forks: list[int] = []
        self.probability: SymbolicOrInt = Fraction(1)

    def __repr__(self) -> str:
        return "Branching(NOT PRIVATE)"

    def choose(self, outcomes: Sequence[tuple[T, SymbolicOrInt]]) -> T:
        """Take the next choice among outcomes with their probabilities."""
        depth = len(self.taken)
        choice = self.path[depth] if depth < len(self.path) else 0
        self.taken.append(choice)
        self.forks.append(len(outcomes))
        value, probability = outcomes[choice]
        self.probability *= probability
        return value

    def laplace(self, scale: Fraction, at: Address) -> int:
        return self.choose(_laplace_law(scale, self.width))

    def geometric(self, scale: Fraction, at: Address) -> int:
        return self.choose(_geometric_law(scale, self.width))

    def uniform(self, below: int, at: Address) -> int:
        return self.choose([(n, 1 / below) for n in range(below)])

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        yes, no = (geometric_tail if one_sided else laplace_tail)(gap, scale)
        return self.choose([(answer, p) for answer, p in ((True, yes), (False, no)) if p > 0])


class SymbolicNoise(BranchingNoise):
    """Leave draws symbolic, and fork only where the code compares: for selectors."""

    def laplace(self, scale: Fraction, at: Address) -> int:
        draw = Draw(self, laplace_mass_between(scale), None, None, self.width)
        return cast(int, SymbolicDraw(draw))

    def uniform(self, below: int, at: Address) -> int:
        return cast(int, SymbolicDraw(Draw(self, uniform_mass(below), 0, below - 1, self.width)))


def law(
    run: Callable[[BranchingNoise], Outcome],
    width: int,
    noise: type[BranchingNoise] = BranchingNoise,
) -> dict[Outcome, float]:
    """Return the probability of every outcome of a run."""
    total: defaultdict[Outcome, float] = defaultdict(float)
    for outcome, probability in branches(run, width, noise):
        total[outcome] += float(probability)
    return dict(total)


def branches(
    run: Callable[[BranchingNoise], Outcome],
    width: int,
    noise: Callable[[Sequence[int], int], BranchingNoise] = BranchingNoise,
) -> Iterator[tuple[Outcome, SymbolicOrInt]]:
    """Yield the outcome of every branch of a run with its probability; outcomes may repeat."""
    pending: list[list[int]] = [[]]
    while pending:
        path = pending.pop()
        branch = noise(path, width)
        yield run(branch), branch.probability
        for depth in range(len(path), len(branch.forks)):
            # Every fork after the given path: all other choices there are paths of their own.
            pending.extend([*branch.taken[:depth], i] for i in range(1, branch.forks[depth]))


class Stepper(Protocol):
    """Describe a mechanism with state: its `check`, and its state."""

    @property
    def check(self) -> Callable[..., Hashable]: ...

    def export(self) -> State: ...

    def resume(self, state: State) -> None: ...


def transcripts(
    make: Callable[[Noise], Stepper],
    world: World,
    horizon: int,
    width: int,
    only: EnumeratedTranscript | None = None,
) -> dict[EnumeratedTranscript, float]:
    """Return the law of the transcript of several checks, or the probability of one transcript."""
    frontier: dict[EnumeratedTranscript, dict[str, float]] = {(): {"null": 1.0}}
    for number in range(horizon):
        after: defaultdict[EnumeratedTranscript, defaultdict[str, float]]
        after = defaultdict(lambda: defaultdict(float))
        for past, states in frontier.items():
            inputs = world(past)
            for state, weight in states.items():
                for (answer, moved), p in law(_step(make, state, inputs), width).items():
                    # Other branches cannot produce the one transcript that is asked for.
                    if only is None or answer == only[number]:
                        after[(*past, answer)][moved] += weight * p
        frontier = {past: dict(states) for past, states in after.items()}
    return {past: sum(states.values()) for past, states in frontier.items()}


def _step(
    make: Callable[[Noise], Stepper], state: str, inputs: tuple[object, ...]
) -> Callable[[BranchingNoise], tuple[Hashable, str]]:
    def run(noise: BranchingNoise) -> tuple[Hashable, str]:
        mechanism = make(noise)
        if state != "null":
            mechanism.resume(json.loads(state))
        answer = mechanism.check(*inputs)
        return answer, json.dumps(mechanism.export(), sort_keys=True)

    return run


class Enumerated:
    """Select from a selector's law, which is computed once for every ballot."""

    def __init__(self, selector: Selector[Mapping[bytes, int]], width: int) -> None:
        self.name, self.cost = selector.name, selector.cost
        self._selector, self._width, self.parameters = selector, width, selector.parameters
        self._laws: dict[object, list[tuple[bytes | None, float]]] = {}

    def select(
        self,
        ballot: Mapping[bytes, int],
        noise: Noise,
        release: int,
        leave_out: bytes | None = None,
    ) -> bytes | None:
        if not isinstance(noise, BranchingNoise):
            # A law that is drawn without secret noise protects no one.
            raise TypeError("an enumerated selector is for enumeration: it protects no one")
        key = (tuple(ballot.items()), leave_out)
        if key not in self._laws:
            answers = law(
                lambda n: self._selector.select(ballot, n, release, leave_out),
                self._width,
                SymbolicNoise,
            )
            self._laws[key] = list(answers.items())
        return noise.choose(self._laws[key])


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


@cache
def laplace_mass(k: int, scale: Fraction) -> float:
    """Return P(noise = k)."""
    # (1-a)/(1+a) without cancellation for a wide noise.
    return math.tanh(1 / (2 * scale)) * math.exp(-abs(k) / scale)


@cache
def _laplace_law(scale: Fraction, width: int) -> list[tuple[int, float]]:
    """Return every value up to the width, with its probability."""
    return [(k, laplace_mass(k, scale)) for k in range(-width, width + 1)]


@cache
def _geometric_law(scale: Fraction, width: int) -> list[tuple[int, float]]:
    """Return every value up to the width, with its probability."""
    a = math.exp(-1 / scale)
    return [(k, (1 - a) * a**k) for k in range(width + 1)]


@cache
def laplace_tail(gap: int, scale: Fraction) -> tuple[float, float]:
    """Return P(noise >= gap) and P(noise < gap), each without cancellation."""
    a = math.exp(-1 / scale)
    if gap >= 1:
        return a**gap / (1 + a), 1 - a**gap / (1 + a)
    return 1 - a ** (1 - gap) / (1 + a), a ** (1 - gap) / (1 + a)


@cache
def geometric_tail(gap: int, scale: Fraction) -> tuple[float, float]:
    """Return P(noise >= gap) and P(noise < gap)."""
    if gap <= 0:
        return 1.0, 0.0
    yes = math.exp(-gap / scale)
    return yes, -math.expm1(-gap / scale)
