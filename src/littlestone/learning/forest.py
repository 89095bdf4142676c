"""The forest of Algorithm 1: many copies of one learner, each on its own share of the rounds.

A round is routed to one tree and one of its leaves by a coin. A vertex that is *pertinent* holds a
learner; at first these are the leaves. While two pertinent siblings hold the same rule they are a
collision, and both go on learning. When one is surprised (its rule errs) and they no longer agree,
they play: a point on which they differ gets a guessed label, and the one whom the guess contradicts
learns it and moves up to their parent. A tree votes for the rule of a collision, chosen by coin.

Promises: one replaced round changes the vote of at most one tree, at every round, whatever the
labels, because a round is routed by (seed, round) or (seed, user) alone and every other coin is the
tree's own. Between epochs it never looks at what is published; a restart is an event it is told of.

Repairs to the print: siblings of which one has no rule (None) leave their parent without one; a
root that is reached goes on learning and votes (`root="learns"`, so that a tree of one leaf is the
natural small case) or is dead, as the paper has it (`root="dies"`); dead trees may be replanted,
with fresh coins, which the paper does not do.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone.learning.coins import Purpose, below, coins
from littlestone.learning.saving import Live, Unsaved
from littlestone.learning.shown import Indices, Shown
from littlestone.learning.tree import (
    DEAD,
    ROOT,
    Learner,
    Tree,
    disagree,
    leaves_below,
    next_surprise,
    read_tree,
    taught,
    written,
)
from littlestone.theory.classes import (
    HypothesisClass,
    checked_class,
    disagreement_of,
    predict_row,
    predict_rows,
)
from littlestone.theory.errors import BadClass
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.reading import rule_from_json
from littlestone.theory.rows import Batch
from littlestone.theory.values import Mask

Routes = npt.NDArray[np.integer[Any]]
"""What decides where rows go: the number of the round, or of the user."""

Root = Literal["learns", "dies"]

MOST_COMMON = 16
"""A rule is common when at least one in so many vertices holds it."""


class VoteChange(NamedTuple):
    """After row `row` of the batch, tree `tree` votes for `vote` (None: for nothing)."""

    row: int
    tree: int
    vote: Hypothesis | None


class Forest:
    """Trees over one class. Deterministic given its seed: a machine, not a spender.

    With a `share`, only those trees grow here, and only their rows may be shown: forests that share
    the trees out do together what one does.

    >>> from littlestone.theory.rows import as_batch
    >>> from littlestone.theory.sets import Points
    >>> forest = Forest(Points(), leaves=[1] * 4, seed=7)
    >>> rows, rounds = as_batch(["a", "b", "a"]), np.arange(3)
    >>> for change in forest.learn(rows, np.array([True, False, True]), rounds):
    ...     print(f"row {change.row}: tree {change.tree} votes {change.vote}")
    row 0: tree 0 votes x = 'a'
    row 2: tree 3 votes x = 'a'
    """

    def __init__(
        self,
        cls: HypothesisClass,
        leaves: Sequence[int],
        seed: int,
        *,
        root: Root = "learns",
        replant: bool = False,
        share: range | None = None,
    ) -> None:
        for count in leaves:
            if count < 1 or count & (count - 1):
                raise BadClass(f"a tree has 1, 2, 4, ... leaves: {count} is not such a number")
        if not leaves:
            raise BadClass("a forest has at least one tree")
        if root == "dies" and min(leaves) == 1:
            raise BadClass("a tree of one leaf is all root: it needs root='learns'")
        self.cls, self.seed, self.root, self.replant = checked_class(cls), seed, root, replant
        self._leaves = np.array(leaves)
        self.share = range(len(leaves)) if share is None else share
        self.epoch = 0
        self._from: Hypothesis | None = None
        self._begin(Learner(cls.start(), cls.hypothesis(cls.start())))

    def restart(self, published: Hypothesis) -> None:
        """Begin an epoch: every tree anew, from the published rule."""
        self.begin_epoch(self.epoch + 1, published)

    def begin_epoch(self, epoch: int, published: Hypothesis) -> None:
        """Begin the epoch of this number, from the published rule."""
        state = self.cls.restart(published)
        offered = self.cls.hypothesis(state) == published
        self.epoch, self._from = epoch, published
        self._begin(Learner(state if offered else None, published))

    def _begin(self, learner: Learner) -> None:
        self._fresh = learner
        self.trees = {number: self._planted(int(self._leaves[number])) for number in self.share}
        self._cleared, self._changed = True, set[int]()
        self._count()

    def _count(self) -> None:
        self._held = Counter(rule for tree in self.trees.values() for rule in tree.rules)
        self._voted = Counter(vote for vote in self.standing if vote is not None)
        self.ballot = {rule.key: votes for rule, votes in self._voted.items()}

    def _planted(self, leaves: int) -> Tree:
        return Tree(leaves, dict.fromkeys(range(leaves, 2 * leaves), self._fresh), voter=leaves)

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """How many trees vote for each rule; `ballot` is the same by key. Private."""
        return self._voted

    @property
    def standing(self) -> list[Hypothesis | None]:
        """What each tree votes for, in their order. Private."""
        return [tree.vote for tree in self.trees.values()]

    def named(self, key: bytes) -> Hypothesis:
        """The rule of a key that some tree votes for."""
        return next(rule for rule in self._voted if rule.key == key)

    @property
    def rules(self) -> Collection[Hypothesis]:
        """Every rule that a pertinent vertex holds: only a row on which one errs can surprise."""
        return self._held.keys()

    def may_be_surprised(self, x: object, y: bool, right: Hypothesis) -> bool:
        """Whether some rule of the forest errs on a row that `right` is known to get right."""
        if len(self._held) == 1 and right in self._held:
            return False
        return any(predict_row(rule, x) != y for rule in self._held if rule is not right)

    def routed(self, routes: Routes) -> tuple[Indices, Indices]:
        """The tree and the leaf of each route: the number of a round, or of a user."""
        tree = trees_of(self.seed, len(self._leaves), routes)
        leaf = below(self._leaves[tree], coins(self.seed, Purpose.LEAF, routes))
        return tree, leaf

    def learn(self, batch: Batch, answers: Mask, routes: Routes) -> list[VoteChange]:
        """Show the forest a batch; the changes of votes, in the order of the rows.

        Only the trees that may be surprised are walked through: those with a row on which a common
        rule errs, and those that hold a rule that is not common.
        """
        wrong = {rule: predict_rows(self.cls, rule, batch) != answers for rule in self._common()}
        touched: set[int] = set()
        for mask in wrong.values():
            touched |= set(self.routed(routes[mask])[0].tolist())
        if len(wrong) < len(self._held):
            touched |= self._uncommon(wrong)
        if not touched:
            return []
        trees, leaves = self.routed(routes)
        order = np.argsort(trees.astype(np.uint32), kind="stable")
        starts = np.searchsorted(trees[order], np.arange(len(self._leaves) + 1)).tolist()
        shown = Shown(self.cls, batch, answers, order, wrong)
        changes: list[VoteChange] = []
        for number in sorted(touched):
            begin, end = starts[number], starts[number + 1]
            changes += self._walk(number, shown, leaves[order[begin:end]], begin)
        return sorted(changes)

    def _common(self) -> list[Hypothesis]:
        """The rules that many vertices hold: worth an evaluation on every row."""
        many = self._held.total() / MOST_COMMON
        return [rule for rule, held in self._held.items() if held >= many]

    def _uncommon(self, common: Collection[Hypothesis]) -> set[int]:
        """The trees that hold some other rule."""
        return {
            number
            for number, tree in self.trees.items()
            if any(rule not in common for rule in tree.rules)
        }

    def _walk(self, number: int, shown: Shown, leaves: Indices, begin: int) -> Iterator[VoteChange]:
        """One tree through its rows, which are at the places from `begin` on: from surprise to
        surprise."""
        at, end = begin, begin + len(leaves)
        while at < end:
            tree = self.trees[number]
            found = next_surprise(tree, shown, leaves, begin, at)
            if found is None:
                return
            before, held = tree.vote, tree.rules
            self._changed.add(number)
            self._surprised(number, int(tree.owner[leaves[found - begin]]), *shown.example(found))
            after = self.trees[number].vote
            _exchange(self._held, held, self.trees[number].rules)
            if after != before:
                _exchange(self._voted, [before], [after])
                self._recount(before, after)
                yield VoteChange(shown.row(found), number, after)
            at = found + 1

    def _recount(self, *rules: Hypothesis | None) -> None:
        """Bring the ballot up to date for some rules."""
        for rule in rules:
            if rule is not None and rule in self._voted:
                self.ballot[rule.key] = self._voted[rule]
            elif rule is not None:
                del self.ballot[rule.key]

    def _surprised(self, number: int, vertex: int, x: object, y: bool) -> None:
        tree = self.trees[number]
        tree.pertinent[vertex] = taught(self.cls, tree.pertinent[vertex], x, y)
        played = False
        while vertex != ROOT and disagree(tree.pertinent, vertex):
            vertex, played = self._play(number, tree, vertex), True
        if vertex == ROOT and self.root == "dies" and played:
            tree.pertinent[ROOT] = DEAD
        if played:
            tree.voter = self._chosen(number, tree)
        if self.replant and tree.vote is None and set(tree.pertinent) == {ROOT}:
            self.trees[number] = self._planted(tree.leaves)
            self.trees[number].generation = tree.generation + 1

    def live(self) -> Live:
        """The epoch, and the rule that it began with."""
        return {"epoch": self.epoch, "from": None if self._from is None else self._from.to_json()}

    def unsaved(self) -> Unsaved:
        """The trees that have learned something since this was asked last."""
        parts = {number: written(self.trees[number]) for number in sorted(self._changed)}
        found = Unsaved(self._cleared, parts)
        self._cleared, self._changed = False, set()
        return found

    def revive(self, live: Live, parts: Mapping[int, bytes]) -> None:
        """Grow the trees that were saved, each from what it was taught."""
        if live["from"] is not None:
            self.begin_epoch(live["epoch"], rule_from_json(live["from"]))
        self.regrow(parts)

    def regrow(self, parts: Mapping[int, bytes]) -> None:
        """Grow some trees of this epoch, which are fresh, as far as they were kept."""
        for number, part in parts.items():
            self.trees[number] = read_tree(self.cls, self._fresh, self.trees[number].leaves, part)
        self._cleared = False
        self._count()

    def _play(self, number: int, tree: Tree, vertex: int) -> int:
        """Two pertinent siblings that disagree give way to their parent."""
        one, other = (tree.pertinent.pop(v) for v in (vertex & ~1, vertex | 1))
        parent = vertex // 2
        tree.pertinent[parent] = self._winner(one, other, self._guess(number, tree, parent))
        tree.owner[leaves_below(tree.leaves, parent)] = parent
        tree.merges += 1
        return parent

    def _winner(self, one: Learner, other: Learner, guess: bool) -> Learner:
        if one.rule is None or other.rule is None:
            return DEAD
        for x in disagreement_of(self.cls, one.rule, other.rule):
            return taught(self.cls, one if one.rule(x) != guess else other, x, guess)
        return DEAD

    def _guess(self, number: int, tree: Tree, parent: int) -> bool:
        address = self.epoch, number, tree.generation, parent
        return bool(int(coins(self.seed, Purpose.GUESS, *address)) >> 63)

    def _chosen(self, number: int, tree: Tree) -> int:
        """A collision, by coin; where none is left, the root."""
        pairs = sorted(v for v in tree.pertinent if v % 2 == 0 and v + 1 in tree.pertinent)
        if not pairs:
            return ROOT
        address = self.epoch, number, tree.generation, tree.merges
        return pairs[int(below(len(pairs), coins(self.seed, Purpose.CHOICE, *address)))]


def trees_of(seed: int, trees: int, routes: Routes) -> Indices:
    """The tree of each route: a coin of the round, or of the user, and of nothing else."""
    return below(trees, coins(seed, Purpose.TREE, routes))


def _exchange(
    counts: Counter[Hypothesis], out: Iterable[Hypothesis | None], into: Iterable[Hypothesis | None]
) -> None:
    """Take some rules out of a count and put others in; what has no votes left is not there."""
    for rule in out:
        if rule is not None:
            counts[rule] -= 1
            if not counts[rule]:
                del counts[rule]
    for rule in into:
        if rule is not None:
            counts[rule] += 1
