"""Find the path that a target takes down a class's mistake tree, without writing the tree out.

A shattered tree of depth d has 2^d leaves, and a path in it d points: only the path is made, so d
may be 20. The tree is one that the class shatters and in which the target's labels are a path. A
family without a bound, or with a symmetry, has such a tree around every target; a class that is
only known by its table is searched, one node a level.

Make the streams and adaptive adversaries that choose the examples of a game.

An *oblivious* adversary is a `Stream`, fixed before the game. An *adaptive* one chooses each
example against the published rule, and stays realizable: a private learner's guarantee holds
against it too, but a small number of mistakes is not guaranteed. Each is made by one function of
(class, rounds, seed, noise) and has a name in `ADVERSARIES`. All but `noisy`, `rates` and `_drift`
are realizable while noise is 0: a rule of the class fits all their examples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import prod
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, fresh_value, points_of
from littlestone._classes.causes import Causes, Ranges
from littlestone._classes.conjunctions import Conjunctions
from littlestone._classes.dimension import (
    Leaf,
    MistakeTree,
    Shattering,
    Table,
    refuse_absurd,
    tabulate,
    witness,
)
from littlestone._classes.intervals import Intervals
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Sets
from littlestone._classes.thresholds import Cuts
from littlestone._classes.union import Complement, Union
from littlestone._hypotheses.causes import causes_of
from littlestone._hypotheses.rows import as_batch, example, part_of
from littlestone._hypotheses.rules import All, Hypothesis, negation
from littlestone._hypotheses.values import Mask
from littlestone._privacy.parameters import BadParameter
from littlestone._simulate.streams import SHARE, Stream, examples, target_of, value_for
from littlestone.errors import TooLarge

RuleT = TypeVar("RuleT")
Labelled = tuple[object, bool]
# Runs of points without a known positive, as (first point, length): see `_classes/intervals.py`.
Pieces = tuple[tuple[int, int], ...]


def path_of(cls: HypothesisClass, target: Hypothesis, draw: np.random.Generator) -> list[Labelled]:
    """Return the points on the path of the mistake tree, each with the target's label."""
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
        case Causes():
            # Part of a path only: the dimension of such a class is not always known.
            return list(_of_causes(cls, target))
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


def _of_causes(cls: Causes, target: Hypothesis) -> Iterator[Labelled]:
    """Yield a row of each cause of the target, then that row with each condition broken."""
    if cls.width == 1 and all(isinstance(column, str) for column in cls.columns):
        yield from _of_rule(cls.names, target)
        return
    other = fresh_value([v for listed in target.mentions().values() for v in listed])
    plain = {
        name: column.number(0) if isinstance(column, Ranges) else other
        for name, column in zip(cls.names, cls.columns, strict=True)
    }
    for cause in causes_of(target):
        row = plain | {c.column: value_for(cls, c) for c in cause.conditions}
        broken = [row | {c.column: value_for(cls, c, holds=False)} for c in cause.conditions]
        for x in [row, *broken]:
            yield x, target(x)


def _of_conjunction(
    cls: Conjunctions, target: Hypothesis, draw: np.random.Generator
) -> Iterator[Labelled]:
    """Yield a row that the target accepts, then that row with each column changed."""
    literals = dict(target.literals) if isinstance(target, All) else {}
    row = {name: not cls.negation or bool(draw.integers(2)) for name in cls.columns} | literals
    changed = [row | {name: not row[name]} for name in cls.columns]
    for x in [row, *changed] if cls.negation else changed:
        yield x, target(x)


def _of_interval(cls: Intervals, target: Hypothesis) -> Iterator[Labelled]:
    """Yield points as the proof of the dimension does up to the first positive, then both ends."""
    point = _at(cls)
    pieces: Pieces = ((0, cls.grid.count + 1),)
    for cuts in range(cls.dimension, 0, -1):
        index, size, pieces = _cut(pieces, cuts)
        x = point([index])
        y = target(x)
        yield x, y
        if y:
            # After a positive the two ends are independent searches.
            start, stop = index + 1 - size[0], index + size[1]
            yield from _halved(range(start, index + 1), point, target)
            yield from _halved(range(stop - 1, index - 1, -1), point, target)
            return


def _cut(pieces: Pieces, left: int) -> tuple[int, tuple[int, int], Pieces]:
    """Return the next point when so many cuts are left: its index, and the pieces."""
    lengths = tuple(sorted(length for _, length in pieces))
    whole, first = next(_cuts(lengths, left))
    start = next(start for start, length in pieces if length == whole)
    halves = ((start, first), (start + first, whole - first))
    rest = tuple(piece for piece in pieces if piece != (start, whole))
    return start + first - 1, (first, whole - first), (*rest, *halves)


def _cuts(lengths: tuple[int, ...], left: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces that can be cut now so that all later cuts can be made too, and where."""
    for whole in dict.fromkeys(lengths):
        for bits in range((whole // 2).bit_length()):
            first = 1 << bits
            deep = bits + (whole - first).bit_length() - 1
            # A cut must leave enough for both ends, and all later cuts must still be possible.
            if deep >= left - 1 and _goes_on(_divided(lengths, whole, first), left - 1):
                yield whole, first


def _divided(lengths: tuple[int, ...], whole: int, first: int) -> tuple[int, ...]:
    place = lengths.index(whole)
    return tuple(sorted((*lengths[:place], *lengths[place + 1 :], first, whole - first)))


@cache
def _goes_on(lengths: tuple[int, ...], left: int) -> bool:
    return left == 0 or next(_cuts(lengths, left), None) is not None


def _of_union(cls: Union, target: Hypothesis, draw: np.random.Generator) -> list[Labelled]:
    """Walk down the union's own tree or, if it is not known, that of the target's member."""
    try:
        return _searched(cls, target)
    # The union is too large for a table, but any of its members is shattered on its own.
    except TooLarge:
        member = next(member for member in cls.members if target in member)
        return [(cls.filled(x), y) for x, y in path_of(member, target, draw)]


def _searched(cls: HypothesisClass, target: Hypothesis) -> list[Labelled]:
    """Search exactly, as `_classes/dimension.py` does, for one node a level."""
    table = tabulate(*cls.finite_core())
    exact, space, path = Shattering(table), table.everything, list[Labelled]()
    for depth in range(cls.dimension, 0, -1):
        point = exact.root(space, depth)
        x, ones = table.points[point], space & table.ones[point]
        path.append((x, target(x)))
        space = ones if target(x) else space ^ ones
    return path


MOST_POINTS = 4_096


class TreeAdversary:
    """Walk down a mistake tree, always against the published rule."""

    def __init__(self, tree: MistakeTree) -> None:
        self._tree = tree

    @property
    def truth(self) -> Hypothesis | None:
        return self._tree.rule if isinstance(self._tree, Leaf) else None

    def challenge(self, rule: Hypothesis) -> tuple[object, bool] | None:
        return None if isinstance(self._tree, Leaf) else self._down(not rule(self._tree.point))

    def _down(self, y: bool) -> tuple[object, bool] | None:
        if isinstance(self._tree, Leaf):
            return None
        x = self._tree.point
        self._tree = self._tree.one if y else self._tree.zero
        return x, y


class Mirror:
    """Choose examples that the published rule gets wrong, while some rule fits all so far."""

    def __init__(self, cls: HypothesisClass) -> None:
        self._table = _table(cls)
        self._batch = as_batch(list(self._table.points))
        self._space = self._table.everything
        self._rule: Hypothesis | None = None
        self._move: tuple[object, bool] | None = None

    @property
    def truth(self) -> Hypothesis:
        return self._table.hypotheses[(self._space & -self._space).bit_length() - 1]

    def challenge(self, rule: Hypothesis) -> tuple[object, bool] | None:
        # The best answer to a rule does not change while the rule stands.
        if rule is not self._rule and rule != self._rule:
            self._move = self._against(rule)
        self._rule = rule
        return self._move

    def _against(self, rule: Hypothesis) -> tuple[object, bool]:
        """Return the best example against a rule."""
        predicted = rule.predict(self._batch)
        spaces = [
            (self._space & ~ones if answer else self._space & ones)
            for ones, answer in zip(self._table.ones, predicted, strict=True)
        ]
        # The example that leaves the most rules keeps the adversary realizable for longest.
        best = max(range(len(spaces)), key=lambda point: spaces[point].bit_count())
        if spaces[best]:
            self._space = spaces[best]
            return self._table.points[best], not predicted[best]
        return self._table.points[0], bool(predicted[0])


def _table(cls: HypothesisClass) -> Table:
    """Return the class written out; its finite core where it is infinite or too large."""
    try:
        size, domain = cls.size, cls.domain()
        count = prod(map(len, domain.values()))
        if size is None or count > MOST_POINTS:
            raise TooLarge(f"{cls!r} has too many points to try one by one")
        refuse_absurd(size, count)
        return tabulate(list(cls.hypotheses()), points_of(domain))
    except TooLarge:
        return tabulate(*cls.finite_core())


class Adaptive(Protocol):
    """Choose each example after seeing the published rule; None ends the game."""

    @property
    def truth(self) -> Hypothesis | None: ...

    def challenge(self, rule: Hypothesis) -> tuple[object, bool] | None: ...


Adversary = Stream | Adaptive
Make = Callable[[HypothesisClass, int, int, float], Adversary]

# How many rounds of the stall stream differ from each other.
VARIETY = 256

USUAL_NOISE = 0.02


def _iid(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Stream:
    """Draw independent examples of one target."""
    draw = np.random.default_rng(seed)
    target = target_of(cls, draw)
    batch = examples(cls, target, draw, rounds)
    return Stream(batch, flipped(draw, target.predict(batch), noise), target)


def noisy(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Stream:
    """Draw as `_iid`, with one label in fifty flipped if `noise` is 0."""
    return _iid(cls, rounds, seed, noise or USUAL_NOISE)


def rates(
    cls: HypothesisClass,
    rounds: int,
    seed: int,
    noise: float = 0.0,
    *,
    rate: float = 0.3,
    base: float = 0.01,
    share: float = SHARE,
) -> Stream:
    """Draw labels that the target makes likely, not certain: as causes of failures do."""
    _check_rates(rate=rate, base=base, share=share)
    draw = np.random.default_rng(seed)
    target = target_of(cls, draw)
    batch = examples(cls, target, draw, rounds, share=share)
    chance = np.where(target.predict(batch), rate, base)
    return Stream(batch, flipped(draw, draw.random(rounds) < chance, noise), target)


def adversary_of(name: str) -> Make:
    """Return what makes a stream or adversary, by its name on the command line."""
    kind, _, given = name.partition(":")
    if kind not in ADVERSARIES:
        raise BadParameter(f"no stream is called {name!r}: there are {', '.join(ADVERSARIES)}")
    if not given:
        return ADVERSARIES[kind]
    if kind != "rates":
        raise BadParameter(f"the stream {kind} takes no parameters: {name!r}")
    try:
        numbers = dict(zip(("rate", "base", "share"), map(float, given.split(":")), strict=False))
    except ValueError:
        numbers = {}
    if not 1 <= given.count(":") + 1 == len(numbers):
        raise BadParameter(f"expected rates:RATE:BASE:SHARE, such as rates:0.3:0.01, not {name!r}")
    usual = {"rate": 0.3, "base": 0.01, "share": SHARE} | numbers
    _check_rates(**usual)
    return lambda cls, rounds, seed, noise: rates(cls, rounds, seed, noise, **usual)


def _check_rates(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 <= value <= 1:
            raise BadParameter(f"rates:RATE:BASE:SHARE: {name} is from 0 to 1, not {value:g}")


def _in_order(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Stream:
    """Draw as `_iid`, all negatives before all positives; numbers in ascending order."""
    stream = _iid(cls, rounds, seed)
    keys: list[npt.NDArray[np.generic]] = [stream.answers]
    first = next(iter(stream.batch.values())) if isinstance(stream.batch, dict) else stream.batch
    if first.dtype.kind in "iuf":
        keys.insert(0, first)
    return _rearranged(stream, np.lexsort(keys), seed, noise)


def _burst(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Stream:
    """Draw as `_iid`, all positives in one burst at a random time."""
    stream = _iid(cls, rounds, seed)
    quiet, loud = np.flatnonzero(~stream.answers), np.flatnonzero(stream.answers)
    # A generator of its own, so that other draws of the seed stay as they are.
    start = int(np.random.default_rng([seed, 1]).integers(len(quiet) + 1))
    return _rearranged(stream, np.concatenate([quiet[:start], loud, quiet[start:]]), seed, noise)


def halving(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Stream:
    """Follow the target's path in the class's mistake tree, a block of rounds at each point."""
    draw = np.random.default_rng(seed)
    target = target_of(cls, draw)
    path = path_of(cls, target, draw)
    if not path:
        raise TooLarge(f"{cls!r} has one rule only: it has no path")
    points, answers = zip(*path, strict=True)
    # Equal blocks, the remainder spread over them.
    blocks = np.arange(rounds) * len(path) // max(1, rounds)
    labels = flipped(draw, np.array(answers)[blocks], noise)
    return Stream(part_of(as_batch(list(points)), blocks), labels, target)


def _drift(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Stream:
    """Draw independent examples whose target changes half-way."""
    draw = np.random.default_rng([seed, 2])
    half = rounds // 2
    before = _iid(cls, half, seed)
    # Another target, or nothing would drift.
    later = next(rule for rule in iter(lambda: target_of(cls, draw), None) if rule != before.truth)
    after = examples(cls, later, draw, rounds - half)
    batch = (
        {name: np.concatenate([before.batch[name], after[name]]) for name in after}
        if isinstance(after, dict) and isinstance(before.batch, dict)
        else np.concatenate([np.asarray(before.batch), np.asarray(after)])
    )
    answers = np.concatenate([before.answers, later.predict(after)])
    return Stream(batch, flipped(draw, answers, noise), before.truth, later, half)


def _stall(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Stream:
    """Draw a variety of examples, then repeat one that the class's first rule gets wrong."""
    stream = _iid(cls, rounds, seed)
    variety = min(VARIETY, rounds // 4)
    start = cls.hypothesis(cls.start())
    wrong = stream.answers if start is None else start.predict(stream.batch) != stream.answers
    chosen = np.flatnonzero(wrong)
    order = np.arange(rounds)
    # One example for the rest of the stream, if there is one that is wrong.
    order[variety:] = chosen[0] if len(chosen) else 0
    return _rearranged(stream, order, seed, noise)


def mirror(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> Mirror:
    """Return an adversary that chooses what the published rule gets wrong, if a rule can fit."""
    _no_noise("mirror", noise)
    return Mirror(cls)


def tree(cls: HypothesisClass, rounds: int, seed: int, noise: float = 0.0) -> TreeAdversary:
    """Return an adversary that walks down the mistake tree; it ends after `dimension` rounds."""
    _no_noise("tree", noise)
    return TreeAdversary(witness(cls))


ADVERSARIES: dict[str, Make] = {
    "iid": _iid,
    "noisy": noisy,
    "rates": rates,
    "sorted": _in_order,
    "burst": _burst,
    "halving": halving,
    "drift": _drift,
    "stall": _stall,
    "mirror": mirror,
    "tree": tree,
}


def _no_noise(name: str, noise: float) -> None:
    if noise:
        raise BadParameter(f"the {name} adversary is realizable: it takes no label noise")


def _rearranged(stream: Stream, order: npt.NDArray[np.intp], seed: int, noise: float) -> Stream:
    answers = flipped(np.random.default_rng([seed, 3]), stream.answers[order], noise)
    return replace(stream, batch=part_of(stream.batch, order), answers=answers)


def flipped(draw: np.random.Generator, answers: Mask, noise: float) -> Mask:
    """Return labels of which a share is flipped."""
    return np.asarray(answers ^ (draw.random(len(answers)) < noise)) if noise else answers
