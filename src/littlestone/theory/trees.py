"""Mistake trees (Section 2.1): the witness of a Littlestone dimension.

A node is a point; its branches are the two labels. A tree is shattered when for every path from
the root to a leaf some hypothesis gives its points the labels of the path. Here each leaf holds
that hypothesis, so the witness can be checked by evaluation, one path at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from littlestone.theory.hypothesis import Hypothesis


@dataclass(frozen=True)
class Leaf:
    """End a path.

    Parameters
    ----------
    rule : Hypothesis
        A hypothesis with the labels of the path.
    """

    rule: Hypothesis


@dataclass(frozen=True)
class Node:
    """Branch by the label of a point.

    Parameters
    ----------
    point : object
        An example.
    zero, one : Node or Leaf
        The subtrees for label 0 and label 1.
    """

    point: object
    zero: "MistakeTree"
    one: "MistakeTree"


MistakeTree = Node | Leaf
Path = tuple[tuple[object, bool], ...]
"""The points from the root to a leaf, each with its label."""


def paths(tree: MistakeTree, before: Path = ()) -> Iterator[tuple[Path, Hypothesis]]:
    """Return every path from the root, with the hypothesis at its leaf.

    Parameters
    ----------
    tree : Node or Leaf
        The tree.
    before : Path
        What to put in front of each path.

    Returns
    -------
    iterator of (Path, Hypothesis)
        The paths, from left to right.
    """
    if isinstance(tree, Leaf):
        yield before, tree.rule
    else:
        yield from paths(tree.zero, (*before, (tree.point, False)))
        yield from paths(tree.one, (*before, (tree.point, True)))


def shattered_depth(tree: MistakeTree) -> int | None:
    """Return the depth of a tree that is complete and shattered by its leaves, else None.

    This evaluates the hypotheses on the points, and shares no code with the search for trees.

    Examples
    --------
    >>> from littlestone.theory.vocabulary import NEVER, one_of
    >>> shattered_depth(Node(7, Leaf(NEVER), Leaf(one_of([7]))))
    1
    >>> shattered_depth(Node(7, Leaf(NEVER), Leaf(one_of([8])))) is None
    True
    """
    lengths = set()
    for path, rule in paths(tree):
        if any(rule(point) != answer for point, answer in path):
            return None
        lengths.add(len(path))
    return lengths.pop() if len(lengths) == 1 else None


def draw(tree: MistakeTree, levels: int = 6) -> str:
    """Return the tree as text.

    Parameters
    ----------
    tree : Node or Leaf
        The tree.
    levels : int
        The depth below which subtrees are left out.

    Returns
    -------
    str
        The drawing, a line for each node and leaf.

    Examples
    --------
    >>> from littlestone.theory.vocabulary import NEVER, one_of
    >>> print(draw(Node(7, Leaf(NEVER), Leaf(one_of([7])))))
    x = 7 ?
    ├─ 0 ─ never
    └─ 1 ─ x = 7
    """
    return "\n".join(_lines(tree, levels))


def _lines(tree: MistakeTree, levels: int) -> Iterator[str]:
    if isinstance(tree, Leaf):
        yield str(tree.rule)
    elif levels == 0:
        yield "..."
    else:
        yield f"{describe(tree.point)} ?"
        for branch, first, rest in (
            (tree.zero, "├─ 0 ─ ", "│      "),
            (tree.one, "└─ 1 ─ ", "       "),
        ):
            head, *tail = _lines(branch, levels - 1)
            yield first + head
            yield from (rest + line for line in tail)


def describe(point: object) -> str:
    """Return an example as text.

    Examples
    --------
    >>> describe({"version": "4.2.1", "country": "SE"}), describe("a")
    ("version = '4.2.1', country = 'SE'", "x = 'a'")
    """
    row = point if isinstance(point, Mapping) else {"x": point}
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())
