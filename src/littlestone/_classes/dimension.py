"""Compute the Littlestone dimension of a class, and the mistake tree that proves it from below.

A node of a mistake tree is a point; its branches are the two labels. A tree is shattered when for
every path from the root to a leaf some hypothesis gives its points the labels of the path (Section
2.1). Here each leaf holds that hypothesis, so the witness can be checked by evaluation, one path at
a time.

The dimension of an explicit class is found by a decision procedure. A version space is a bitmask
over hypotheses. It shatters a tree of depth k when some root splits it into two halves that shatter
depth k - 1. The search is fast because fewer than 2^k hypotheses shatter nothing of depth k;
balanced roots come first; results are cached for each version space as a lower and an upper bound;
points that split a version space in the same way are tried once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone.errors import TooLarge


@dataclass(frozen=True)
class Leaf:
    """End a path."""

    rule: Hypothesis


@dataclass(frozen=True)
class Node:
    """Branch by the label of a point."""

    point: object
    zero: "MistakeTree"
    one: "MistakeTree"


MistakeTree = Node | Leaf
# The points from the root to a leaf, each with its label.
Path = tuple[tuple[object, bool], ...]


def paths(tree: MistakeTree, before: Path = ()) -> Iterator[tuple[Path, Hypothesis]]:
    """Return every path from the root, with the hypothesis at its leaf."""
    if isinstance(tree, Leaf):
        yield before, tree.rule
    else:
        yield from paths(tree.zero, (*before, (tree.point, False)))
        yield from paths(tree.one, (*before, (tree.point, True)))


def shattered_depth(tree: MistakeTree) -> int | None:
    """Return the depth of a tree that is complete and shattered by its leaves, else None.

    This evaluates the hypotheses on the points, and shares no code with the search for trees.

    Parameters
    ----------
    tree : MistakeTree
        The tree, such as `witness` returns.

    Examples
    --------
    >>> from littlestone._hypotheses.rules import NEVER, one_of
    >>> shattered_depth(Node(7, Leaf(NEVER), Leaf(one_of([7]))))
    1
    >>> shattered_depth(Node(7, Leaf(NEVER), Leaf(one_of([8])))) is None
    True
    """
    # Checked by evaluation alone, so that an error of the search cannot hide here.
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

    Examples
    --------
    >>> from littlestone._hypotheses.rules import NEVER, one_of
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
    """Return an example as text."""
    row = point if isinstance(point, Mapping) else {"x": point}
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())


# The largest number of hypotheses times points in a table.
MAX_CELLS = 2_000_000

# The most words of bitmask that a search reads, which takes some seconds.
MAX_WORK = 20_000_000


@dataclass(frozen=True)
class Table:
    """Hold the labels of hypotheses at points."""

    hypotheses: tuple[Hypothesis, ...]
    points: tuple[object, ...]
    ones: tuple[int, ...]

    @property
    def everything(self) -> int:
        """Return the version space of all hypotheses."""
        return (1 << len(self.hypotheses)) - 1


def tabulate(hypotheses: Sequence[Hypothesis], points: Sequence[object]) -> Table:
    """Return the table of a finite class."""
    refuse_absurd(len(hypotheses), len(points))
    batch = as_batch(list(points))
    # Reversed, so that the first of equal rows is the one that stays; and reversed back below.
    rows = {rule.predict(batch).tobytes(): rule for rule in reversed(hypotheses)}
    matrix = np.array([np.frombuffer(row, dtype=bool) for row in rows]).reshape(len(rows), -1)
    return Table(tuple(rows.values())[::-1], tuple(points), bitmasks(matrix[::-1]))


def bitmasks(matrix: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Return, for each column of a truth table, the bitmask of its true rows."""
    packed = np.packbits(matrix.T, axis=1, bitorder="little")
    return tuple(int.from_bytes(column.tobytes(), "little") for column in packed)


def refuse_absurd(hypotheses: int, points: int) -> None:
    """Raise if a table would be too large, before it is built."""
    if hypotheses * points > MAX_CELLS:
        raise TooLarge(
            f"a table of {_size(hypotheses)} hypotheses on {_size(points)} points is too large: "
            f"{MAX_CELLS:,} cells, such as 10,000 on 200, would work"
        )


def _size(number: int) -> str:
    return f"{number:,}" if number < 10**18 else "more than 10^18"


class Shattering:
    """Decide which version spaces of a table shatter trees of which depth."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._splits = _distinct_splits(table)
        self._bounds: dict[int, tuple[int, int]] = {}
        self._work = 0

    def dimension(self, space: int) -> int:
        """Return the dimension of a version space; -1 when it is empty."""
        depth = -1
        while self.at_least(space, depth + 1):
            depth += 1
        return depth

    def at_least(self, space: int, depth: int) -> bool:
        """Return whether a version space shatters a tree of this depth."""
        size = space.bit_count()
        if depth <= 1 or size < 1 << depth:
            # Two different hypotheses differ at some point: depth 1 needs no search.
            return size >= 1 << depth
        # Two hypotheses shatter depth 1, and depth k takes 2^k of them.
        low, high = self._bounds.get(space, (1, size.bit_length() - 1))
        if low < depth <= high:
            shattered = any(
                self.at_least(smaller, depth - 1) and self.at_least(larger, depth - 1)
                for smaller, larger, _ in self._roots(space, depth)
            )
            low, high = (depth, high) if shattered else (low, depth - 1)
            self._bounds[space] = (low, high)
        return depth <= low

    def _roots(self, space: int, depth: int) -> list[tuple[int, int, int]]:
        """Return the points that may be roots, as (smaller half, larger half, point)."""
        # The search is exponential in the worst case: it is stopped by work, not by time, so that
        # the result is the same on every machine.
        self._spend()
        size, needed = space.bit_count(), 1 << (depth - 1)
        roots: dict[int, tuple[int, int, int]] = {}
        for point, ones in self._splits:
            yes = space & ones
            count = yes.bit_count()
            if needed <= count <= size - needed:
                smaller = yes if 2 * count <= size else space ^ yes
                roots[smaller] = (min(count, size - count), smaller, point)
        # Balanced halves shatter deep trees more often, so the search ends sooner.
        best_first = sorted(roots.values(), reverse=True)
        return [(smaller, space ^ smaller, point) for _, smaller, point in best_first]

    def _spend(self) -> None:
        words = 4 + len(self._table.hypotheses) // 64
        self._work += len(self._splits) * words
        if self._work > MAX_WORK:
            raise TooLarge(
                f"the dimension of {len(self._table.hypotheses):,} hypotheses on "
                f"{len(self._splits):,} points takes too long: 1,000 random hypotheses on 40 "
                "points would work, more if they are similar"
            )

    def refill(self) -> None:
        """Allow the searches from here on, together, `MAX_WORK` again."""
        self._work = 0

    def root(self, space: int, depth: int) -> int:
        """Return the root of a tree of this depth that a version space shatters."""
        return next(
            point
            for smaller, larger, point in self._roots(space, depth)
            if self.at_least(smaller, depth - 1) and self.at_least(larger, depth - 1)
        )

    def tree(self, space: int, depth: int) -> MistakeTree:
        """Return a mistake tree of this depth that a version space shatters."""
        if depth == 0:
            return Leaf(self._table.hypotheses[(space & -space).bit_length() - 1])
        point = self.root(space, depth)
        ones = space & self._table.ones[point]
        return Node(
            self._table.points[point],
            self.tree(space ^ ones, depth - 1),
            self.tree(ones, depth - 1),
        )


def _distinct_splits(table: Table) -> list[tuple[int, int]]:
    """Return one (point, ones) for each way in which points split the class in two."""
    splits: dict[int, tuple[int, int]] = {}
    for point, ones in reversed(list(enumerate(table.ones))):
        # A point and its complement split the class alike.
        splits[min(ones, table.everything ^ ones)] = (point, ones)
    return [split for halves, split in splits.items() if halves]


# The largest dimension whose tree is built: it has 2^DEEPEST leaves.
DEEPEST = 10


def dimension(cls: HypothesisClass) -> int:
    """Return the Littlestone dimension of a class.

    Parameters
    ----------
    cls : HypothesisClass
        The class.

    Raises
    ------
    TooLarge
        If the class has no closed form and the exact search would take too long.

    Examples
    --------
    >>> from littlestone._classes.thresholds import Thresholds
    >>> dimension(Thresholds(0, 100, 5))
    4
    """
    return checked_class(cls).dimension


def witness(cls: HypothesisClass) -> MistakeTree:
    """Return a shattered mistake tree as deep as the dimension, checked path by path.

    Parameters
    ----------
    cls : HypothesisClass
        The class.

    Raises
    ------
    TooLarge
        If the dimension is above `DEEPEST`, or cannot be computed.

    Examples
    --------
    >>> from littlestone._classes.sets import Sets
    >>> from littlestone._classes.dimension import draw
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
    table = tabulate(*cls.finite_core())
    # The closed form, the search and the checker of trees are independent: each checks the others.
    exact = Shattering(table)
    if not exact.at_least(table.everything, depth):
        raise AssertionError(f"the finite core of {cls} does not have its dimension {depth}")
    tree = exact.tree(table.everything, depth)
    if shattered_depth(tree) != depth or not all(rule in cls for _, rule in paths(tree)):
        raise AssertionError(f"the tree found for {cls} is not shattered at depth {depth}")
    return tree
