"""Mistake trees (Section 2.1): the witness of a Littlestone dimension.

A node asks about a point; its branches are the two labels. A tree is shattered when every path from
the root to a leaf has a hypothesis that labels the points on it just so. Here each leaf holds that
hypothesis, so the witness can be checked by anyone, one path at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from littlestone.theory.hypothesis import Hypothesis


@dataclass(frozen=True)
class Leaf:
    """The end of a path, and a hypothesis that takes it."""

    rule: Hypothesis


@dataclass(frozen=True)
class Node:
    """A question about a point, and what follows each answer."""

    point: object
    zero: "MistakeTree"
    one: "MistakeTree"


MistakeTree = Node | Leaf
Path = tuple[tuple[object, bool], ...]


def paths(tree: MistakeTree, before: Path = ()) -> Iterator[tuple[Path, Hypothesis]]:
    """Every path from the root, as labelled points, with the hypothesis at its leaf."""
    if isinstance(tree, Leaf):
        yield before, tree.rule
    else:
        yield from paths(tree.zero, (*before, (tree.point, False)))
        yield from paths(tree.one, (*before, (tree.point, True)))


def shattered_depth(tree: MistakeTree) -> int | None:
    """The depth of a tree that is complete and shattered by its leaves, or None when it is not.

    It evaluates the hypotheses on the points and shares nothing with the search that found them.

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
    """The tree as text, down to a number of levels.

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
    """A point as a person would write it.

    >>> describe({"version": "4.2.1", "country": "SE"}), describe("a")
    ("version = '4.2.1', country = 'SE'", "x = 'a'")
    """
    row = point if isinstance(point, Mapping) else {"x": point}
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())
