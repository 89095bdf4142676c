"""The Littlestone dimension of a class, and the shattered tree that proves it from below."""

from littlestone.theory.classes import HypothesisClass, checked_class
from littlestone.theory.errors import TooLarge
from littlestone.theory.shattering import Shattering, tabulate
from littlestone.theory.trees import MistakeTree, paths, shattered_depth

DEEPEST = 10
"""The largest dimension whose tree is built: it has 2^DEEPEST leaves."""


def dimension(cls: HypothesisClass) -> int:
    """Return the Littlestone dimension of a class.

    Raises
    ------
    TooLarge
        If the class has no closed form and the exact search would take too long.

    Examples
    --------
    >>> from littlestone.theory.thresholds import Thresholds
    >>> dimension(Thresholds(0, 100, 5))
    4
    """
    return checked_class(cls).dimension


def witness(cls: HypothesisClass) -> MistakeTree:
    """Return a shattered mistake tree as deep as the dimension, checked path by path.

    Raises
    ------
    TooLarge
        If the dimension is above `DEEPEST`, or cannot be computed.

    Examples
    --------
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
    # The closed form, the search and the checker of trees are independent: each checks the others.
    exact = Shattering(table)
    if not exact.at_least(table.everything, depth):
        raise AssertionError(f"the finite core of {cls} does not have its dimension {depth}")
    tree = exact.tree(table.everything, depth)
    if shattered_depth(tree) != depth or not all(rule in cls for _, rule in paths(tree)):
        raise AssertionError(f"the tree found for {cls} is not shattered at depth {depth}")
    return tree
