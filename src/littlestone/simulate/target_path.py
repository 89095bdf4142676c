"""Find the path that a target takes down a class's mistake tree, without writing the tree out.

A shattered tree of depth d has 2^d leaves, and a path in it d points: only the path is made, so d
may be 20. The tree is one that the class shatters and in which the target's labels are a path. A
family without a bound, or with a symmetry, has such a tree around every target; a class that is
only known by its table is searched, one node a level.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TypeVar

import numpy as np

from littlestone.classes.base import HypothesisClass, fresh_value
from littlestone.classes.conjunctions import Conjunctions
from littlestone.classes.dimension import Shattering, tabulate
from littlestone.classes.intervals import Intervals
from littlestone.classes.rules import Rules
from littlestone.classes.sets import Sets
from littlestone.classes.thresholds import Cuts
from littlestone.classes.union import Complement, Union
from littlestone.errors import TooLarge
from littlestone.hypotheses.base import Hypothesis
from littlestone.hypotheses.kinds import All, negation
from littlestone.hypotheses.rows import example

RuleT = TypeVar("RuleT")
Labelled = tuple[object, bool]
# Runs of points without a known positive, as (first point, length): see `classes/intervals.py`.
Pieces = tuple[tuple[int, int], ...]


def path_of(cls: HypothesisClass, target: Hypothesis, draw: np.random.Generator) -> list[Labelled]:
    """Return the points on the path of the mistake tree, each with the target's label.

    Parameters
    ----------
    cls
        The class.
    target
        A rule of the class.
    draw
        Random bits, for what the target leaves open.

    Examples
    --------
    >>> from littlestone.classes.thresholds import Thresholds
    >>> from littlestone.hypotheses.kinds import between
    >>> path_of(Thresholds(1, 7), between(6, None), np.random.default_rng(1))
    [(4, False), (6, True), (5, False)]
    >>> len(path_of(Thresholds(1, 2**20 - 1), between(6, None), np.random.default_rng(1)))
    20
    """
    match cls:
        case Complement(of):
            return [(x, not y) for x, y in path_of(of, negation(target), draw)]
        case Union():
            return _of_union(cls, target, draw)
        case Cuts():
            points = _halved(range(cls.size), _at(cls), target)
        case Intervals():
            points = _of_interval(cls, target)
        case Sets(_, column):
            points = ((example(v, column), True) for v in target.mentions().get(column, ()))
        case Rules(columns):
            points = _of_rule(columns, target)
        case Conjunctions():
            points = _of_conjunction(cls, target, draw)
        case _:
            return _searched(cls, target)
    return list(islice(points, cls.dimension))


def _halved(
    candidates: Sequence[RuleT], point_for: Callable[[Sequence[RuleT]], object], target: Hypothesis
) -> Iterator[Labelled]:
    """Search by bisection: `point_for` a half is positive if the target is in it."""
    while len(candidates) > 1:
        first, rest = candidates[: len(candidates) // 2], candidates[len(candidates) // 2 :]
        x = point_for(first)
        y = target(x)
        yield x, y
        candidates = first if y else rest


def _at(cls: Cuts | Intervals) -> Callable[[Sequence[int]], object]:
    """Return a function that gives the last of some points of a grid, by index."""
    return lambda some: example(cls.grid[some[-1]], cls.column)


def _of_rule(columns: Sequence[str], target: Hypothesis) -> Iterator[Labelled]:
    """Yield rows with the cause's value in all columns, then in half of those left, and so on."""
    values = [value for some in target.mentions().values() for value in some]
    # `never` mentions no value: any will do.
    value, other = (values or ["v"])[0], fresh_value(values)

    def row(some: Sequence[str]) -> object:
        return dict.fromkeys(columns, other) | dict.fromkeys(some, value)

    yield row(columns), target(row(columns))
    yield from _halved(columns, row, target)


def _of_conjunction(
    cls: Conjunctions, target: Hypothesis, draw: np.random.Generator
) -> Iterator[Labelled]:
    """Yield a row that the target accepts, then that row with each column changed.

    The first is left out where there is no negation: it could only be the row of all truths.
    """
    literals = dict(target.literals) if isinstance(target, All) else {}
    row = {name: not cls.negation or bool(draw.integers(2)) for name in cls.columns} | literals
    changed = [row | {name: not row[name]} for name in cls.columns]
    for x in [row, *changed] if cls.negation else changed:
        yield x, target(x)


def _of_interval(cls: Intervals, target: Hypothesis) -> Iterator[Labelled]:
    """Yield points as the proof of the dimension does up to the first positive, then both ends."""
    at = _at(cls)
    pieces: Pieces = ((0, cls.grid.count + 1),)
    for left in range(cls.dimension, 0, -1):
        index, size, pieces = _cut(pieces, left)
        x = at([index])
        y = target(x)
        yield x, y
        if y:
            # After a positive the two ends are independent searches.
            start, stop = index + 1 - size[0], index + size[1]
            yield from _halved(range(start, index + 1), at, target)
            yield from _halved(range(stop - 1, index - 1, -1), at, target)
            return


def _cut(pieces: Pieces, left: int) -> tuple[int, tuple[int, int], Pieces]:
    """Return the next point when so many cuts are left: its index, and the pieces.

    The lengths of the two pieces that it makes come second, all pieces after it third.
    """
    lengths = tuple(sorted(length for _, length in pieces))
    whole, first = next(_cuts(lengths, left))
    start = next(start for start, length in pieces if length == whole)
    halves = ((start, first), (start + first, whole - first))
    rest = tuple(piece for piece in pieces if piece != (start, whole))
    return start + first - 1, (first, whole - first), (*rest, *halves)


def _cuts(lengths: tuple[int, ...], left: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces that can be cut now so that all later cuts can be made too, and where.

    One side is a power of two, as everywhere in the proof.
    """
    for whole in dict.fromkeys(lengths):
        for bits in range((whole // 2).bit_length()):
            first = 1 << bits
            deep = bits + (whole - first).bit_length() - 1
            # A cut must leave enough for both ends, and all later cuts must still be possible.
            if deep >= left - 1 and _goes_on(_divided(lengths, whole, first), left - 1):
                yield whole, first


def _divided(lengths: tuple[int, ...], whole: int, first: int) -> tuple[int, ...]:
    at = lengths.index(whole)
    return tuple(sorted((*lengths[:at], *lengths[at + 1 :], first, whole - first)))


@cache
def _goes_on(lengths: tuple[int, ...], left: int) -> bool:
    return left == 0 or next(_cuts(lengths, left), None) is not None


def _of_union(cls: Union, target: Hypothesis, draw: np.random.Generator) -> list[Labelled]:
    """Walk down the union's own tree or, if it is not known, that of the target's member.

    The union shatters the member's tree too.
    """
    try:
        return _searched(cls, target)
    # The union is too large for a table, but any of its members is shattered on its own.
    except TooLarge:
        member = next(member for member in cls.members if target in member)
        return [(cls.filled(x), y) for x, y in path_of(member, target, draw)]


def _searched(cls: HypothesisClass, target: Hypothesis) -> list[Labelled]:
    """Search exactly, as `classes/dimension.py` does, for one node a level."""
    table = tabulate(*cls.finite_core())
    exact, space, found = Shattering(table), table.everything, list[Labelled]()
    for depth in range(cls.dimension, 0, -1):
        point = exact.root(space, depth)
        x, ones = table.points[point], space & table.ones[point]
        found.append((x, target(x)))
        space = ones if target(x) else space ^ ones
    return found
