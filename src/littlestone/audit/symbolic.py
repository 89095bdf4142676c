"""Represent draws symbolically: fork only where the enumerated code compares.

A uniform integer below 10^40, or Laplace noise without a cut-off, cannot be enumerated value by
value. But code uses a draw in few ways: is it above this? which part of the range is it in? Here
every such comparison is one fork, and narrows the draw for all later ones. What is not supported
by comparing (arithmetic with another draw, or a use as an index) forks over the values that are
left; anything else is a TypeError, never a wrong law.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Protocol, TypeVar

T = TypeVar("T")
SymbolicOrInt = Fraction | float


class Chooser(Protocol):
    """Take one of several outcomes by their probabilities, and remember it as a fork."""

    def choose(self, outcomes: Sequence[tuple[T, SymbolicOrInt]]) -> T: ...


class Draw:
    """Hold an integer known to lie in [low, high].

    Parameters
    ----------
    chooser
        Takes the forks.
    mass
        The probability of an interval; None is an open end.
    low
        The least value left, or None.
    high
        The largest value left, or None.
    width
        Where an open end is cut off, if values have to be listed.
    """

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
        """Return (draw + offset) // by: a fork over the quotients that are left.

        Parameters
        ----------
        offset
            What is added.
        by
            What it is divided by.
        """
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
    """Represent a draw plus a known number: what mechanisms add, compare and divide.

    Parameters
    ----------
    draw
        The draw.
    offset
        The number.
    """

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
