"""A tree of the forest: a tournament of learners (Algorithm 1), and how it is kept as data.

A vertex that is pertinent holds a learner. What a learner is follows from what it was taught, in
order, since it was fresh: that is how a tree is written and grown again, whatever the class.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from littlestone.learning.shown import Indices, Shown
from littlestone.theory.classes import HypothesisClass, State, learn_row, predict_row
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import packed, unpacked
from littlestone.theory.values import decode, encode

ROOT = 1
"""Vertices of a tree are numbered as in a heap: 1 is the root, 2v and 2v + 1 the children of v."""


class Learner(NamedTuple):
    """What a pertinent vertex holds. `state` is None while it only claims the published rule.

    `taught` is all it learned since it was fresh, in order, which makes it what it is; None when it
    is dead.
    """

    state: State | None
    rule: Hypothesis | None
    taught: tuple[tuple[object, bool], ...] | None = ()


DEAD = Learner(None, None, None)


@dataclass
class Tree:
    """One tournament: its pertinent vertices, the one it votes with, and the coins it has used."""

    leaves: int
    pertinent: dict[int, Learner]
    voter: int
    merges: int = 0
    generation: int = 0
    owner: Indices = field(init=False)
    """The pertinent vertex above each leaf."""

    def __post_init__(self) -> None:
        self.owner = np.arange(self.leaves, 2 * self.leaves)

    @property
    def vote(self) -> Hypothesis | None:
        return self.pertinent[self.voter].rule

    @property
    def rules(self) -> list[Hypothesis]:
        """What its pertinent vertices hold."""
        return [held.rule for held in self.pertinent.values() if held.rule is not None]


def taught(cls: HypothesisClass, learner: Learner, x: object, y: bool) -> Learner:
    """The learner after a mistake. A mere claim gives way to a learner that starts here."""
    lessons = (*(learner.taught or ()), (x, y))
    state, rule = learner.state, learner.rule
    if state is None:
        state = cls.start()
        rule = cls.hypothesis(state)
        if rule is None or predict_row(rule, x) == y:
            return Learner(state, rule, lessons)
    return Learner(*learn_row(cls, state, x, y), lessons)


def next_surprise(tree: Tree, shown: Shown, leaves: Indices, begin: int, at: int) -> int | None:
    """The first place from `at` on at which the vertex that the row reaches is wrong."""
    end = begin + len(leaves)
    if len(tree.pertinent) == 1:
        return None if tree.vote is None else shown.next_error(tree.vote, at, end)
    owners, wrong = tree.owner[leaves[at - begin :]], np.zeros(end - at, dtype=bool)
    for vertex, learner in tree.pertinent.items():
        mine = np.flatnonzero(owners == vertex)
        if len(mine) and learner.rule is not None:
            wrong[mine] = shown.errors(learner.rule, at + mine)
    first = int(np.argmax(wrong))
    return at + first if wrong[first] else None


def disagree(pertinent: dict[int, Learner], vertex: int) -> bool:
    """Whether a vertex and its sibling are both pertinent and do not hold one and the same rule."""
    sibling = pertinent.get(vertex ^ 1)
    if sibling is None:
        return False
    rule = pertinent[vertex].rule
    return rule is None or rule != sibling.rule


def leaves_below(leaves: int, vertex: int) -> slice:
    """The leaves below a vertex."""
    depth = leaves.bit_length() - vertex.bit_length()
    return slice((vertex << depth) - leaves, ((vertex + 1) << depth) - leaves)


def written(tree: Tree) -> bytes:
    """A tree as canonical bytes: for each vertex, what it was taught."""
    held = []
    for vertex, (_, _, lessons) in tree.pertinent.items():
        told = None if lessons is None else tuple((packed(x), y) for x, y in lessons)
        held.append((vertex, told))
    return encode((tree.voter, tree.merges, tree.generation, *held))


def read_tree(cls: HypothesisClass, fresh: Learner, leaves: int, part: bytes) -> Tree:
    """The tree that `written` wrote, grown again from fresh learners."""
    values: Any = decode(part)
    voter, merges, generation, *held = values
    tree = Tree(leaves, {}, voter, merges, generation)
    for vertex, lessons in held:
        learner = DEAD if lessons is None else fresh
        for x, y in lessons or ():
            learner = taught(cls, learner, unpacked(x), y)
        tree.pertinent[vertex] = learner
        tree.owner[leaves_below(leaves, vertex)] = vertex
    return tree
