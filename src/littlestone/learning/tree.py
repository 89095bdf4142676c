"""Represent a tree of the forest, a tournament of learners (Algorithm 1), and save it as data.

A pertinent vertex holds a learner. A learner is determined by the examples it was updated with, in
order, since it was fresh: that is how a tree is saved and loaded, whatever the class.
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
    """Hold the learner of a pertinent vertex.

    Parameters
    ----------
    state : State or None
        The state of the class's learner; None while it only holds the published rule.
    rule : Hypothesis or None
        Its rule; None if it has none.
    taught : tuple or None
        All examples it was updated with since it was fresh, in order; None when it is dead.
    """

    state: State | None
    rule: Hypothesis | None
    taught: tuple[tuple[object, bool], ...] | None = ()


DEAD = Learner(None, None, None)


@dataclass
class Tree:
    """Hold one tournament.

    Parameters
    ----------
    leaves : int
        The number of leaves: a power of two.
    pertinent : dict of int to Learner
        The learner of each pertinent vertex.
    voter : int
        The vertex whose rule is the tree's vote.
    merges : int
        How many plays there were; part of the address of random bits.
    generation : int
        How often the tree was replaced; part of the address of random bits.
    """

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
        """Return the rule that the tree votes for, if any."""
        return self.pertinent[self.voter].rule

    @property
    def rules(self) -> list[Hypothesis]:
        """Return the rules of the pertinent vertices."""
        return [held.rule for held in self.pertinent.values() if held.rule is not None]


def taught(cls: HypothesisClass, learner: Learner, x: object, y: bool) -> Learner:
    """Return a learner after an update with a mistake.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    learner : Learner
        The learner that made the mistake.
    x : object
        The example.
    y : bool
        Its label.

    Returns
    -------
    Learner
    """
    updates = (*(learner.taught or ()), (x, y))
    state, rule = learner.state, learner.rule
    if state is None:
        # The published rule was held without a state: start the class's learner here.
        state = cls.start()
        rule = cls.hypothesis(state)
        if rule is None or predict_row(rule, x) == y:
            return Learner(state, rule, updates)
    return Learner(*learn_row(cls, state, x, y), updates)


def next_surprise(tree: Tree, shown: Shown, leaves: Indices, begin: int, at: int) -> int | None:
    """Find the next mistake of a tree.

    Parameters
    ----------
    tree : Tree
        The tree.
    shown : Shown
        The batch, in the order of the trees.
    leaves : Indices
        The leaf of each row of the tree.
    begin : int
        The place of the tree's first row.
    at : int
        The place to search from.

    Returns
    -------
    int or None
        The first place from `at` on at which the vertex that the row reaches is wrong.
    """
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
    """Tell whether a vertex and its sibling are both pertinent and do not hold the same rule.

    Parameters
    ----------
    pertinent : dict of int to Learner
        The pertinent vertices of a tree.
    vertex : int
        One of them.

    Returns
    -------
    bool
        Also True if the vertex has no rule.
    """
    sibling = pertinent.get(vertex ^ 1)
    if sibling is None:
        return False
    rule = pertinent[vertex].rule
    return rule is None or rule != sibling.rule


def leaves_below(leaves: int, vertex: int) -> slice:
    """Return the leaves below a vertex.

    Parameters
    ----------
    leaves : int
        The leaves of the tree.
    vertex : int
        The vertex.

    Returns
    -------
    slice
    """
    depth = leaves.bit_length() - vertex.bit_length()
    return slice((vertex << depth) - leaves, ((vertex + 1) << depth) - leaves)


def written(tree: Tree) -> bytes:
    """Return a tree as canonical bytes: for each vertex, the examples it was updated with."""
    held = []
    for vertex, (_, _, updates) in tree.pertinent.items():
        data = None if updates is None else tuple((packed(x), y) for x, y in updates)
        held.append((vertex, data))
    return encode((tree.voter, tree.merges, tree.generation, *held))


def read_tree(cls: HypothesisClass, fresh: Learner, leaves: int, part: bytes) -> Tree:
    """Load the tree that `written` saved, by updating fresh learners again.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    fresh : Learner
        What every leaf held when the epoch began.
    leaves : int
        The leaves of the tree.
    part : bytes
        What `written` returned.

    Returns
    -------
    Tree
    """
    values: Any = decode(part)
    voter, merges, generation, *held = values
    tree = Tree(leaves, {}, voter, merges, generation)
    for vertex, updates in held:
        learner = DEAD if updates is None else fresh
        for x, y in updates or ():
            learner = taught(cls, learner, unpacked(x), y)
        tree.pertinent[vertex] = learner
        tree.owner[leaves_below(leaves, vertex)] = vertex
    return tree
