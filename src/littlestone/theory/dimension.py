"""The Littlestone dimension of a class, and the shattered tree that proves it from below."""

from littlestone.theory.classes import HypothesisClass, checked_class
from littlestone.theory.errors import TooLarge
from littlestone.theory.shattering import Shattering, tabulate
from littlestone.theory.trees import MistakeTree, paths, shattered_depth

DEEPEST = 10


def dimension(cls: HypothesisClass) -> int:
    """The Littlestone dimension.

    >>> from littlestone.theory.thresholds import Thresholds
    >>> dimension(Thresholds(0, 100, 5))
    4
    """
    return checked_class(cls).dimension


def witness(cls: HypothesisClass) -> MistakeTree:
    """A shattered mistake tree as deep as the dimension, checked path by path.

    >>> from littlestone.theory.sets import Sets
    >>> from littlestone.theory.trees import draw
    >>> print(draw(witness(Sets(2))))
    x = 2 ?
    ├─ 0 ─ x = 1 ?
    │      ├─ 0 ─ never
    │      └─ 1 ─ x = 1
    └─ 1 ─ x = 1 ?
           ├─ 0 ─ x = 2
           └─ 1 ─ x in {1, 2}
    """
    depth = dimension(cls)
    if depth > DEEPEST:
        raise TooLarge(
            f"the shattered tree of depth {depth} has 2^{depth} leaves: "
            f"a class of dimension {DEEPEST} or less would work"
        )
    table = tabulate(*cls.skeleton())
    exact = Shattering(table)
    if not exact.at_least(table.everything, depth):
        raise AssertionError(f"the finite part of {cls} does not have its dimension {depth}")
    tree = exact.tree(table.everything, depth)
    if shattered_depth(tree) != depth or not all(rule in cls for _, rule in paths(tree)):
        raise AssertionError(f"the tree found for {cls} is not shattered at depth {depth}")
    return tree
