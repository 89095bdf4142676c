"""Represent a tree of the forest (Algorithm 1), its random bits, and the rows routed to it.

*Random bits* are hashed from an address: `random_bits(seed, purpose, address)` is a function, not a
stream. A generator read in the order of use would let one replaced example shift all later bits,
and with them many votes. By address, one example changes what its own tree does and nothing else
(docs/guarantee.md, Theorem 9); any batch size and any number of workers see the same bits. They are
not secret: the privacy proof fixes them (Lemma 6.1). Secret noise is in `privacy`.

*A tree* is a tournament of learners. A pertinent vertex holds a learner, which is determined by the
examples it was updated with, in order: that is how a tree is saved and loaded, whatever the class.

*A routed batch* is searched from error to error. Rules that many trees hold are evaluated once, on
every row; any other rule is evaluated on the rows of its tree, a little ahead at a time.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from random import SystemRandom
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import (
    HypothesisClass,
    VersionSpace,
    learn_row,
    predict_row,
    predict_rows,
)
from littlestone._hypotheses.rows import Batch, packed, part_of, row_of, unpacked
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask, decode, encode

RandomBits = npt.NDArray[np.uint64]


class Purpose(IntEnum):
    """Name what random bits are for: equal addresses for different purposes give different bits."""

    TREE = 1
    LEAF = 2
    GUESS = 3
    CHOICE = 4
    FIRST = 5


def random_bits(seed: int, purpose: Purpose, *address: Any) -> RandomBits:
    """Return 64 random-looking bits for each address."""
    state = _first_state(seed, purpose)
    # Mixed between parts, so that (1, 2) and (2, 1) are different addresses.
    with np.errstate(over="ignore"):
        for part in address:
            state = _mixed(state + _mixed(np.asarray(part).astype(np.uint64)))
    return np.asarray(state)


def below(size: Any, drawn: RandomBits) -> npt.NDArray[np.intp]:
    """Map random bits to integers from 0 to size - 1."""
    # Multiply and shift: a remainder would need the low bits too, and a division each.
    high = drawn >> np.uint64(32)
    return np.asarray((high * np.asarray(size).astype(np.uint64)) >> np.uint64(32)).astype(np.intp)


def fresh_seed() -> int:
    """Draw a random seed. It need not be secret."""
    return SystemRandom().getrandbits(63)


_ALL = (1 << 64) - 1
_STEP, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@lru_cache(maxsize=256)
def _first_state(seed: int, purpose: Purpose) -> Any:
    """Return the bits of an empty address; a learner asks for a few of them, again and again."""
    with np.errstate(over="ignore"):
        return _mixed(np.uint64(seed & _ALL) ^ _mixed(np.uint64(purpose)))


def _mixed(state: Any) -> Any:
    """Mix all bits with the finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    first, second, third = _SHIFTS
    state = state + _STEP
    state = (state ^ (state >> first)) * _FIRST
    state = (state ^ (state >> second)) * _SECOND
    return state ^ (state >> third)


Indices = npt.NDArray[np.intp]
# The rows of the first window in which a rule is evaluated.
LOOK_AHEAD = 64


class RoutedBatch:
    """Hold rows in the order of their trees: a *place* is a position in that order."""

    def __init__(
        self,
        cls: HypothesisClass,
        batch: Batch,
        answers: Mask,
        order: Indices,
        wrong: Mapping[Hypothesis, Mask],
    ) -> None:
        self._cls, self._batch, self._answers, self._order = cls, batch, answers, order
        self._errors = {rule: np.flatnonzero(mask[order]).tolist() for rule, mask in wrong.items()}

    def example(self, place: int) -> tuple[object, bool]:
        """Return the example and the label at a place."""
        row = self._order[place]
        return row_of(self._batch, row), bool(self._answers[row])

    def next_error(self, rule: Hypothesis, start: int, stop: int) -> int | None:
        """Return the first place that a rule gets wrong, or None."""
        # Common rules were evaluated on the whole batch before: only a search is left.
        known = self._errors.get(rule)
        if known is not None:
            at = bisect_left(known, start)
            return known[at] if at < len(known) and known[at] < stop else None
        ahead = LOOK_AHEAD
        while start < stop:
            end = min(stop, start + ahead)
            wrong = self.errors(rule, slice(start, end))
            first = int(wrong.argmax())
            if wrong[first]:
                return start + first
            start, ahead = end, 2 * ahead
        return None

    def errors(self, rule: Hypothesis, places: Any) -> Mask:
        """Return which places a rule gets wrong."""
        rows = self._order[places]
        return np.asarray(
            predict_rows(self._cls, rule, part_of(self._batch, rows)) != self._answers[rows]
        )


# Vertices of a tree are numbered as in a heap: 1 is the root, 2v and 2v + 1 the children of v.
ROOT = 1


class VertexLearner(NamedTuple):
    """Hold the learner of a pertinent vertex."""

    state: VersionSpace | None
    rule: Hypothesis | None
    updates: tuple[tuple[object, bool], ...] | None = ()


DEAD = VertexLearner(None, None, None)


@dataclass
class Tree:
    """Hold one tournament."""

    leaves: int
    pertinent: dict[int, VertexLearner]
    voter: int
    merges: int = 0
    generation: int = 0
    # The pertinent vertex above each leaf.
    owner: Indices = field(init=False)

    def __post_init__(self) -> None:
        self.owner = np.arange(self.leaves, 2 * self.leaves)

    @property
    def vote(self) -> Hypothesis | None:
        """Return the rule that the tree votes for, if any."""
        return self.pertinent[self.voter].rule

    @property
    def rules(self) -> list[Hypothesis]:
        """Return the rules of the pertinent vertices."""
        return [held.rule for held in self.pertinent.values() if held.rule is not None]


def updated(cls: HypothesisClass, learner: VertexLearner, x: object, y: bool) -> VertexLearner:
    """Return a learner after an update with a mistake."""
    updates = (*(learner.updates or ()), (x, y))
    state, rule = learner.state, learner.rule
    if state is None:
        # The published rule was held without a state: start the class's learner here.
        state = cls.start()
        rule = cls.hypothesis(state)
        if rule is None or predict_row(rule, x) == y:
            return VertexLearner(state, rule, updates)
    return VertexLearner(*learn_row(cls, state, x, y), updates)


def next_mistake(
    tree: Tree, routed: RoutedBatch, leaves: Indices, begin: int, at: int
) -> int | None:
    """Find the next mistake of a tree."""
    end = begin + len(leaves)
    if len(tree.pertinent) == 1:
        return None if tree.vote is None else routed.next_error(tree.vote, at, end)
    # Only from `at` on: earlier rows were learned by vertices that may be gone.
    owners, wrong = tree.owner[leaves[at - begin :]], np.zeros(end - at, dtype=bool)
    for vertex, learner in tree.pertinent.items():
        mine = np.flatnonzero(owners == vertex)
        if len(mine) and learner.rule is not None:
            wrong[mine] = routed.errors(learner.rule, at + mine)
    first = int(np.argmax(wrong))
    return at + first if wrong[first] else None


def disagree(pertinent: dict[int, VertexLearner], vertex: int) -> bool:
    """Tell whether a vertex and its sibling are both pertinent and do not hold the same rule."""
    sibling = pertinent.get(vertex ^ 1)
    if sibling is None:
        return False
    rule = pertinent[vertex].rule
    return rule is None or rule != sibling.rule


def leaves_below(leaves: int, vertex: int) -> slice:
    """Return the leaves below a vertex."""
    # In a heap the leaves below a vertex are consecutive.
    depth = leaves.bit_length() - vertex.bit_length()
    return slice((vertex << depth) - leaves, ((vertex + 1) << depth) - leaves)


def tree_to_bytes(tree: Tree) -> bytes:
    """Return a tree as canonical bytes: for each vertex, the examples it was updated with."""
    held = []
    for vertex, (_, _, updates) in tree.pertinent.items():
        # Packed: rows may hold values of numpy, which the canonical encoding does not know.
        data = None if updates is None else tuple((packed(x), y) for x, y in updates)
        held.append((vertex, data))
    return encode((tree.voter, tree.merges, tree.generation, *held))


def tree_from_bytes(cls: HypothesisClass, fresh: VertexLearner, leaves: int, part: bytes) -> Tree:
    """Load the tree that `tree_to_bytes` saved, by updating fresh learners again."""
    values: Any = decode(part)
    voter, merges, generation, *held = values
    tree = Tree(leaves, {}, voter, merges, generation)
    for vertex, updates in held:
        learner = DEAD if updates is None else fresh
        # Replayed, not unpickled: the state of a class is not data that a store could write.
        for x, y in updates or ():
            learner = updated(cls, learner, unpacked(x), y)
        tree.pertinent[vertex] = learner
        tree.owner[leaves_below(leaves, vertex)] = vertex
    return tree
