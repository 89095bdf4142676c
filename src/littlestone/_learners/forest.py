"""Grow the forest of Algorithm 1: many learners of one class, each on its own share of the rounds.

A round is routed to one tree and one of its leaves by random bits. A *pertinent* vertex holds a
learner; at first these are the leaves. While two pertinent siblings hold the same rule they are a
collision, and both go on learning. When one makes a mistake and they no longer agree, they play: a
point on which they differ gets a guessed label, and the one that contradicts the guess is updated
with it and moves up to their parent. A tree votes for the rule of a collision, chosen at random.

One replaced round changes the vote of at most one tree, at every round and whatever the labels,
because a round is routed by (seed, round) or (seed, user) alone and all other random bits belong to
the tree (docs/guarantee.md, Theorem 9). Between epochs the forest never reads what is published; a
restart is passed to it.

Repairs to the paper: siblings of which one has no rule (None) leave their parent without one; a
root that is reached goes on learning and votes (`root="learns"`, so that a tree of one leaf is the
natural small case) or is dead, as in the paper (`root="dies"`); dead trees may be replaced, with
fresh random bits, which the paper does not do.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import (
    HypothesisClass,
    VersionSpace,
    checked_class,
    disagreement_of,
    predict_rows,
)
from littlestone._data.rounds import Rounds
from littlestone._hypotheses.rules import Hypothesis, rule_from_json
from littlestone._learners.loop import ChangedState, StateData
from littlestone._learners.tree import (
    DEAD,
    ROOT,
    Indices,
    Purpose,
    RoutedBatch,
    Tree,
    VertexLearner,
    below,
    disagree,
    leaves_below,
    next_mistake,
    random_bits,
    tree_from_bytes,
    tree_to_bytes,
    updated,
)
from littlestone.errors import BadClass

# What routes rows to trees: the number of the round, or of the user.
Routes = npt.NDArray[np.integer[Any]]

Root = Literal["learns", "dies"]

# A rule is common when at least one in so many vertices holds it.
MOST_COMMON = 16


class EpochStart(NamedTuple):
    """Hold the state in which all learners begin an epoch. Public."""

    rule: Hypothesis | None
    state: VersionSpace

    @classmethod
    def first(cls, family: HypothesisClass) -> "EpochStart":
        """Return the start before anything was published but the class's first rule."""
        return cls(family.hypothesis(family.start()), family.start())

    def after(self, family: HypothesisClass, rule: Hypothesis) -> "EpochStart":
        """Return the start of the epochs after one more rule was published."""
        return self if rule == self.rule else EpochStart(rule, family.restart(rule, self.state))


class Forest:
    """Hold trees over one class. Deterministic given the seed: it draws no secret noise."""

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
                raise BadClass(f"a tree has {count} leaves: the number must be a power of two")
        if not leaves:
            raise BadClass("a forest has at least one tree")
        # Such a tree would die at its first mistake and never vote again.
        if root == "dies" and min(leaves) == 1:
            raise BadClass("a tree of one leaf is only a root: it requires root='learns'")
        self.cls, self.seed, self.root, self.replant = checked_class(cls), seed, root, replant
        self._leaves = np.array(leaves)
        self.share = range(len(leaves)) if share is None else share
        self.epoch = 0
        self._from: Hypothesis | None = None
        self._start = EpochStart.first(cls)
        self._begin(VertexLearner(self._start.state, self._start.rule))

    def publish(self, rule: Hypothesis) -> None:
        """Add a rule to those published so far, on which the start of an epoch may depend."""
        self._start = self._start.after(self.cls, rule)

    def restart(self, published: Hypothesis) -> None:
        """Begin the next epoch: every tree anew, from the published rule."""
        self.publish(published)
        self.begin_epoch(self.epoch + 1, self._start)

    def begin_epoch(self, epoch: int, start: "EpochStart") -> None:
        """Begin an epoch from the published rule."""
        published, self._start = start.rule, start
        # A class may have no state for the published rule: then the rule is held without a state
        # until its first mistake (`tree.updated`).
        representable = self.cls.hypothesis(start.state) == published
        # The epoch is part of the address of a guess: without it a tree would guess as in the last.
        self.epoch, self._from = epoch, published
        self._begin(VertexLearner(start.state if representable else None, published))

    def _begin(self, learner: VertexLearner) -> None:
        self._fresh = learner
        self.trees = {number: self._planted(int(self._leaves[number])) for number in self.share}
        self._cleared, self._changed = True, set[int]()
        self._count()

    def _count(self) -> None:
        # Counted once here and then kept up to date: a batch changes few trees of many.
        self._held = Counter(rule for tree in self.trees.values() for rule in tree.rules)
        self._voted = Counter(vote for vote in self.standing if vote is not None)
        self.ballot = {rule.key: votes for rule, votes in self._voted.items()}

    def _planted(self, leaves: int) -> Tree:
        return Tree(leaves, dict.fromkeys(range(leaves, 2 * leaves), self._fresh), voter=leaves)

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule; `ballot` is the same by key. Private."""
        return self._voted

    @property
    def standing(self) -> list[Hypothesis | None]:
        """Return the vote of each tree, in order. Private."""
        return [tree.vote for tree in self.trees.values()]

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that some tree votes for."""
        return next(rule for rule in self._voted if rule.key == key)

    @property
    def rules(self) -> Collection[Hypothesis]:
        """Return the rules of all pertinent vertices: only a mistake of one causes an update."""
        return self._held.keys()

    def routed(self, routes: Routes) -> tuple[Indices, Indices]:
        """Return the tree and the leaf of each route: the number of a round, or of a user."""
        tree = trees_of(self.seed, len(self._leaves), routes)
        leaf = below(self._leaves[tree], random_bits(self.seed, Purpose.LEAF, routes))
        return tree, leaf

    def learn(self, rounds: Rounds) -> None:
        """Learn rounds."""
        batch, answers, routes = rounds.columns, rounds.answers, rounds.routes()
        # Only trees in which a rule may be wrong are visited: those that get a row which a
        # common rule gets wrong, and those that hold a rule that is not common. On all other trees
        # the batch has no effect.
        # One evaluation of a common rule serves all trees that hold it.
        wrong = {rule: predict_rows(self.cls, rule, batch) != answers for rule in self._common()}
        active: set[int] = set()
        for mask in wrong.values():
            # Of most small batches a good rule gets no row wrong.
            if mask.any():
                active |= set(trees_of(self.seed, len(self._leaves), routes[mask]).tolist())
        if len(wrong) < len(self._held):
            active |= self._uncommon(wrong)
        if not active:
            return
        trees, leaves = self.routed(routes)
        # Stable, so that the rows of a tree stay in the order of the rounds.
        order = np.argsort(trees.astype(np.uint32), kind="stable")
        starts = np.searchsorted(trees[order], np.arange(len(self._leaves) + 1)).tolist()
        routed = RoutedBatch(self.cls, batch, answers, order, wrong)
        for number in sorted(active):
            begin, end = starts[number], starts[number + 1]
            self._walk(number, routed, leaves[order[begin:end]], begin)

    def _common(self) -> list[Hypothesis]:
        """Return the rules that many vertices hold: worth an evaluation on every row."""
        many = self._held.total() / MOST_COMMON
        return [rule for rule, held in self._held.items() if held >= many]

    def _uncommon(self, common: Collection[Hypothesis]) -> set[int]:
        """Return the trees that hold some other rule."""
        return {
            number
            for number, tree in self.trees.items()
            if any(rule not in common for rule in tree.rules)
        }

    def _walk(self, number: int, routed: RoutedBatch, leaves: Indices, begin: int) -> None:
        """Pass one tree through its rows, from place `begin` on, from mistake to mistake."""
        at, end = begin, begin + len(leaves)
        while at < end:
            tree = self.trees[number]
            found = next_mistake(tree, routed, leaves, begin, at)
            if found is None:
                return
            # Read before the update, which may replace the tree itself.
            before, held = tree.vote, tree.rules
            self._changed.add(number)
            self._update_vertex(
                number, int(tree.owner[leaves[found - begin]]), *routed.example(found)
            )
            after = self.trees[number].vote
            _exchange(self._held, held, self.trees[number].rules)
            if after != before:
                _exchange(self._voted, [before], [after])
                self._recount(before, after)
            at = found + 1

    def _recount(self, *rules: Hypothesis | None) -> None:
        """Update the ballot for some rules."""
        for rule in rules:
            if rule is not None and rule in self._voted:
                self.ballot[rule.key] = self._voted[rule]
            elif rule is not None:
                del self.ballot[rule.key]

    def _update_vertex(self, number: int, vertex: int, x: object, y: bool) -> None:
        """Update a vertex that made a mistake on (x, y), and play while siblings disagree."""
        tree = self.trees[number]
        # Only the vertex that owns the leaf learns: one row updates one learner of one tree.
        tree.pertinent[vertex] = updated(self.cls, tree.pertinent[vertex], x, y)
        played = False
        while vertex != ROOT and disagree(tree.pertinent, vertex):
            vertex, played = self._play(number, tree, vertex), True
        if vertex == ROOT and self.root == "dies" and played:
            tree.pertinent[ROOT] = DEAD
        if played:
            # The choice stays until the next play, so a tree's vote moves only by its own rows.
            tree.voter = self._chosen(number, tree)
        # A replaced tree has a new generation, so that it uses fresh random bits.
        if self.replant and tree.vote is None and set(tree.pertinent) == {ROOT}:
            self.trees[number] = self._planted(tree.leaves)
            # Its own count, not a common one: another tree's death must not move it (Theorem 9).
            self.trees[number].generation = tree.generation + 1

    def get_state(self) -> StateData:
        """Return the number of the epoch, and the rule that it began with."""
        return {"epoch": self.epoch, "from": None if self._from is None else self._from.to_json()}

    def unsaved(self) -> ChangedState:
        """Return the trees that changed since the last call."""
        parts = {number: tree_to_bytes(self.trees[number]) for number in sorted(self._changed)}
        found = ChangedState(self._cleared, parts)
        self._cleared, self._changed = False, set()
        return found

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load the saved trees, each from the examples it was updated with."""
        if live["from"] is not None:
            self.publish(rule_from_json(live["from"]))
            self.begin_epoch(live["epoch"], self._start)
        self.regrow(parts)

    def regrow(self, parts: Mapping[int, bytes]) -> None:
        """Load some trees of this epoch, which must be fresh."""
        for number, part in parts.items():
            self.trees[number] = tree_from_bytes(
                self.cls, self._fresh, self.trees[number].leaves, part
            )
        self._cleared = False
        self._count()

    def _play(self, number: int, tree: Tree, vertex: int) -> int:
        """Replace two pertinent siblings that disagree by their parent."""
        # Siblings are 2v and 2v + 1: clear and set the lowest bit.
        one, other = (tree.pertinent.pop(v) for v in (vertex & ~1, vertex | 1))
        parent = vertex // 2
        tree.pertinent[parent] = self._winner(one, other, self._guess(number, tree, parent))
        tree.owner[leaves_below(tree.leaves, parent)] = parent
        tree.merges += 1
        return parent

    def _winner(self, one: VertexLearner, other: VertexLearner, guess: bool) -> VertexLearner:
        """Update the learner that contradicts a guessed label where the two differ."""
        # No point distinguishes a rule from none: the parent cannot be decided by a play.
        if one.rule is None or other.rule is None:
            return DEAD
        for x in disagreement_of(self.cls, one.rule, other.rule):
            return updated(self.cls, one if one.rule(x) != guess else other, x, guess)
        return DEAD

    def _guess(self, number: int, tree: Tree, parent: int) -> bool:
        """Guess a label by random bits."""
        # Only names of the tree itself: another row cannot move this guess (Theorem 9).
        address = self.epoch, number, tree.generation, parent
        return bool(int(random_bits(self.seed, Purpose.GUESS, *address)) >> 63)

    def _chosen(self, number: int, tree: Tree) -> int:
        """Choose a collision by random bits; where none is left, the root."""
        # Sorted, so that the choice depends on the vertices and not on the order of their plays.
        pairs = sorted(v for v in tree.pertinent if v % 2 == 0 and v + 1 in tree.pertinent)
        if not pairs:
            return ROOT
        address = self.epoch, number, tree.generation, tree.merges
        return pairs[int(below(len(pairs), random_bits(self.seed, Purpose.CHOICE, *address)))]


def trees_of(seed: int, trees: int, routes: Routes) -> Indices:
    """Return the tree of each route."""
    # A function of the route alone: a replaced row stays in its tree (Theorem 9).
    return below(trees, random_bits(seed, Purpose.TREE, routes))


def _exchange(
    counts: Counter[Hypothesis], out: Iterable[Hypothesis | None], into: Iterable[Hypothesis | None]
) -> None:
    """Remove some rules from a count and add others; delete those without votes."""
    for rule in out:
        if rule is not None:
            counts[rule] -= 1
            if not counts[rule]:
                del counts[rule]
    for rule in into:
        if rule is not None:
            counts[rule] += 1
