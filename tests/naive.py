"""Slow, obvious twins of the fast code, in the shape of the definitions. They are the oracles."""

from collections.abc import Iterator, Sequence
from itertools import product

Row = tuple[int, ...]
Tree = tuple[int, "Tree", "Tree"] | None
"""A mistake tree over the columns of a table: (point, zero branch, one branch); None is a leaf."""


def complete_trees(points: int, depth: int) -> Iterator[Tree]:
    """Every complete mistake tree of a depth."""
    if depth == 0:
        yield None
        return
    for point in range(points):
        branches = complete_trees(points, depth - 1), complete_trees(points, depth - 1)
        for zero, one in product(*(list(branch) for branch in branches)):
            yield (point, zero, one)


def is_shattered(tree: Tree, rows: Sequence[Row]) -> bool:
    """The definition: every path from the root has a row that labels its points just so."""
    if tree is None:
        return bool(rows)
    point, zero, one = tree
    return is_shattered(zero, [row for row in rows if row[point] == 0]) and is_shattered(
        one, [row for row in rows if row[point] == 1]
    )


def dimension_by_trees(rows: Sequence[Row]) -> int:
    """The Littlestone dimension by its definition: try every tree. For two or three points."""
    depth = 0
    while any(is_shattered(tree, rows) for tree in complete_trees(len(rows[0]), depth + 1)):
        depth += 1
    return depth


def dimension(rows: Sequence[Row]) -> int:
    """The Littlestone dimension by its recursion: the best root and its worse branch."""
    best = 0 if rows else -1
    for point in range(len(rows[0]) if rows else 0):
        halves = [[row for row in rows if row[point] == answer] for answer in (0, 1)]
        if all(halves):
            best = max(best, 1 + min(dimension(half) for half in halves))
    return best


def soa_label(rows: Sequence[Row], point: int) -> int | None:
    """Littlestone's rule: the label whose rows have the larger dimension; None on a tie."""
    zero, one = (dimension([row for row in rows if row[point] == answer]) for answer in (0, 1))
    return None if zero == one else int(one > zero)
