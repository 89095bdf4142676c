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

from collections.abc import Mapping, Sequence
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
from littlestone._hypotheses.rows import Batch, batch_cells, part_of, unpacked
from littlestone._hypotheses.rules import Hypothesis, rule_from_json
from littlestone._hypotheses.values import Mask, decode, encode
from littlestone._learners.loop import ChangedState, StateData
from littlestone._learners.tree import (
    DEAD,
    DEAD_NUMBER,
    FRESH_NUMBER,
    ROOT,
    Indices,
    LearnerTable,
    Purpose,
    VertexLearner,
    below,
    leaves_below,
    random_bits,
    updates_to_data,
)
from littlestone.errors import BadClass

# What routes rows to trees: the number of the round, or of the user.
Routes = npt.NDArray[np.integer[Any]]

Root = Literal["learns", "dies"]

# A rule is common when at least one in so many vertices holds it.
MOST_COMMON = 16
# The rows of each tree, on average, that are searched for mistakes together.
LOOK_AHEAD = 64
# The learners that are remembered before those that no vertex holds are forgotten.
MOST_LEARNERS = 1 << 16
# In the place of a learner.
NOT_PERTINENT = -1


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
        # All trees lie in one array, one after the other, each as a heap: vertex v of a tree is at
        # place first + v. Trees are counted from the first of the share here.
        self._sizes = self._leaves[self.share.start : self.share.stop]
        self._first = np.cumsum(2 * self._sizes) - 2 * self._sizes
        self._tree_at = np.repeat(np.arange(len(self._sizes), dtype=np.int32), 2 * self._sizes)
        vertices = np.arange(len(self._tree_at)) - self._first[self._tree_at]
        self._is_leaf = vertices >= self._sizes[self._tree_at]
        # Of each place the number of its learner and of its rule, and of a leaf the place of the
        # pertinent vertex above it.
        self._held, self._rule, self._owner = np.zeros((3, len(vertices)), dtype=np.int32)
        self._voter, self._merges, self._generation = np.zeros((3, len(self._sizes)), dtype=np.intp)
        self._changed = np.zeros(len(self._sizes), dtype=bool)
        self.epoch = 0
        self._from: Hypothesis | None = None
        self._start = EpochStart.first(cls)
        learner = VertexLearner(self._start.state, self._start.rule)
        self._table = LearnerTable(cls, [DEAD, learner])
        self._begin(learner)

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
        held = self._table[FRESH_NUMBER]
        # From the same start, what learners become of an example is known already.
        if learner.state is not held.state or learner.rule is not held.rule:
            self._table = LearnerTable(self.cls, [DEAD, learner])
        self._plant(slice(None), np.arange(len(self._held)))
        self._generation[:], self._changed[:], self._cleared = 0, False, True

    def _plant(self, trees: Any, places: Indices) -> None:
        """Let all leaves of some trees, which lie at some places, hold fresh learners."""
        is_leaf = self._is_leaf[places]
        self._held[places] = np.where(is_leaf, FRESH_NUMBER, NOT_PERTINENT)
        self._rule[places] = np.where(is_leaf, self._table.rule_numbers[FRESH_NUMBER], 0)
        self._owner[places] = places
        self._voter[trees], self._merges[trees] = self._first[trees] + self._sizes[trees], 0
        self._note_changes()

    def _note_changes(self) -> None:
        self._votes: dict[Hypothesis, int] | None = None
        self._search: tuple[list[Hypothesis], Mask] | None = None

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule; `ballot` is the same by key. Private."""
        if self._votes is None:
            counts = np.bincount(self._rule[self._voter])
            voted = [(self._table.rules.rules[n], int(counts[n])) for n in np.flatnonzero(counts)]
            self._votes = {rule: votes for rule, votes in voted if rule is not None}
        return self._votes

    @property
    def ballot(self) -> Mapping[bytes, int]:
        """Return the votes by key. Private."""
        return {rule.key: votes for rule, votes in self.votes.items()}

    @property
    def standing(self) -> list[Hypothesis | None]:
        """Return the vote of each tree, in order. Private."""
        rules = self._table.rules.rules
        return [rules[number] for number in self._rule[self._voter].tolist()]

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that some tree votes for."""
        return next(rule for rule in self.votes if rule.key == key)

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
        common, uncommon = self._searched()
        wrong = [predict_rows(self.cls, rule, batch) != answers for rule in common]
        # Of most small batches a good rule gets no row wrong.
        if not uncommon.any() and not any(mask.any() for mask in wrong):
            return
        self._forget()
        trees = trees_of(self.seed, len(self._leaves), routes) - self.share.start
        active = uncommon.copy()
        for mask in wrong:
            active[trees[mask]] = True
        rows = np.flatnonzero(active[trees])
        trees = trees[rows]
        leaves = self._first[trees] + self._sizes[trees]
        # A tree of one leaf needs no random bits.
        if len(self._held) > 2 * len(self._sizes):
            leaves += self.routed(routes[rows])[1]
        step = LOOK_AHEAD * len(self._sizes)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            self._walk(batch, answers, rows[part], trees[part], leaves[part])

    def _searched(self) -> tuple[list[Hypothesis], Mask]:
        """Return the rules that many vertices hold, and the trees that hold some other rule."""
        if self._search is None:
            held = np.bincount(self._rule)
            held[0] = 0
            # Worth an evaluation on every row, which serves all trees that hold the rule.
            common = (held > 0) & (held >= held.sum() / MOST_COMMON)
            rules = [self._table.rules.rules[number] for number in np.flatnonzero(common).tolist()]
            uncommon = np.zeros(len(self._sizes), dtype=bool)
            uncommon[self._tree_at[(~common & (held > 0))[self._rule]]] = True
            self._search = [rule for rule in rules if rule is not None], uncommon
        return self._search

    def _walk(
        self, batch: Batch, answers: Mask, rows: Indices, trees: Indices, leaves: Indices
    ) -> None:
        """Pass rows through their trees, all trees at once, from mistake to mistake of each."""
        never = len(answers)
        first_mistake = np.full(len(self._sizes), never)
        while len(rows):
            places = self._owner[leaves]
            which = self._rule[places]
            labels = self._table.rules.predict(which, part_of(batch, rows))
            wrong = np.flatnonzero((labels != answers[rows]) & (which > 0))
            # Backwards, so that of each tree the first one is written last.
            first_mistake[trees[wrong[::-1]]] = rows[wrong[::-1]]
            found = wrong[first_mistake[trees[wrong]] == rows[wrong]]
            if len(found):
                mistaken = part_of(batch, rows[found]), answers[rows[found]]
                self._update(trees[found], places[found], *mistaken)
            # Rows before the mistake were learned by vertices that may be gone; trees without a
            # mistake have none left.
            later = rows > first_mistake[trees]
            first_mistake[trees[found]] = never
            rows, trees, leaves = rows[later], trees[later], leaves[later]

    def _update(self, trees: Indices, places: Indices, batch: Batch, answers: Mask) -> None:
        """Update in each of some trees the vertex that made a mistake, and play."""
        held = self._held[places].tolist()
        # Only the vertex that owns the leaf learns: one row updates one learner of one tree.
        self._hold(places, self._table.after(held, *batch_cells(batch), answers.tolist()))
        self._changed[trees] = True
        tall = self._sizes[trees] > 1
        for tree, place in zip(trees[tall].tolist(), places[tall].tolist(), strict=True):
            self._settle(tree, place)
        roots = self._first[trees] + ROOT
        dead = trees[(self._held[roots] != NOT_PERTINENT) & (self._rule[roots] == 0)]
        if self.replant and len(dead):
            self._replant(dead)
        self._note_changes()

    def _hold(self, places: Any, learners: list[int]) -> None:
        """Let vertices hold learners, by number."""
        numbers = self._table.rule_numbers
        self._held[places], self._rule[places] = learners, [numbers[held] for held in learners]

    def _replant(self, trees: Indices) -> None:
        """Replace some trees; a new generation uses fresh random bits."""
        vertices = 2 * self._sizes[trees]
        before = np.cumsum(vertices) - vertices
        places = np.repeat(self._first[trees] - before, vertices)
        self._plant(trees, places + np.arange(len(places)))
        # Its own count, not a common one: another tree's death must not move it (Theorem 9).
        self._generation[trees] += 1

    def _settle(self, tree: int, place: int) -> None:
        """Play from a vertex upwards while siblings disagree."""
        first = int(self._first[tree])
        vertex, played = place - first, False
        while vertex != ROOT and self._disagree(first, vertex):
            vertex, played = self._play(tree, vertex), True
        if vertex == ROOT and self.root == "dies" and played:
            self._hold([first + ROOT], [DEAD_NUMBER])
        if played:
            # The choice stays until the next play, so a tree's vote moves only by its own rows.
            self._voter[tree] = first + self._chosen(tree)

    def _disagree(self, first: int, vertex: int) -> bool:
        """Tell whether a vertex and its sibling are both pertinent and do not hold the same rule."""
        rule, sibling = self._rule[first + vertex], first + (vertex ^ 1)
        differs = rule == 0 or rule != self._rule[sibling]
        return bool(self._held[sibling] != NOT_PERTINENT and differs)

    def _play(self, tree: int, vertex: int) -> int:
        """Replace two pertinent siblings that disagree by their parent."""
        first, parent = int(self._first[tree]), vertex // 2
        # Siblings are 2v and 2v + 1: clear and set the lowest bit.
        siblings = [first + (vertex & ~1), first + (vertex | 1)]
        one, other = self._held[siblings].tolist()
        winner = self._winner(one, other, self._guess(tree, parent))
        self._held[siblings], self._rule[siblings] = NOT_PERTINENT, 0
        self._hold([first + parent], [winner])
        self._own(tree, parent)
        self._merges[tree] += 1
        return parent

    def _own(self, tree: int, vertex: int) -> None:
        """Let a vertex own the leaves below it."""
        first, leaves = int(self._first[tree]), int(self._sizes[tree])
        self._owner[first + leaves :][leaves_below(leaves, vertex)] = first + vertex

    def _winner(self, one: int, other: int, guess: bool) -> int:
        """Update the learner that contradicts a guessed label where the two differ."""
        rules = [self._table[number].rule for number in (one, other)]
        # No point distinguishes a rule from none: the parent cannot be decided by a play.
        if rules[0] is None or rules[1] is None:
            return DEAD_NUMBER
        for x in disagreement_of(self.cls, rules[0], rules[1]):
            return self._table.updated(one if rules[0](x) != guess else other, x, guess)
        return DEAD_NUMBER

    def _guess(self, tree: int, parent: int) -> bool:
        """Guess a label by random bits."""
        # Only names of the tree itself: another row cannot move this guess (Theorem 9).
        address = self.epoch, self.share[tree], self._generation[tree], parent
        return bool(int(random_bits(self.seed, Purpose.GUESS, *address)) >> 63)

    def _chosen(self, tree: int) -> int:
        """Choose a collision by random bits; where none is left, the root."""
        first, leaves = int(self._first[tree]), int(self._sizes[tree])
        pertinent = self._held[first : first + 2 * leaves] != NOT_PERTINENT
        # In order, so that the choice depends on the vertices and not on the order of their plays.
        pairs = 2 + 2 * np.flatnonzero(pertinent[2::2] & pertinent[3::2])
        if not len(pairs):
            return ROOT
        address = self.epoch, self.share[tree], self._generation[tree], self._merges[tree]
        return int(pairs[below(len(pairs), random_bits(self.seed, Purpose.CHOICE, *address))])

    def _forget(self) -> None:
        """Forget learners that no vertex holds, once there are many."""
        if len(self._table) <= max(MOST_LEARNERS, 2 * len(self._held)):
            return
        used = np.unique(np.append(self._held, [NOT_PERTINENT, DEAD_NUMBER, FRESH_NUMBER]))
        self._table = LearnerTable(self.cls, [self._table[number] for number in used[1:].tolist()])
        # Those that are not pertinent come first, and stay at -1.
        self._held = np.searchsorted(used, self._held).astype(np.int32) - np.int32(1)
        self._rule = np.append(self._table.rule_numbers, 0).astype(np.int32)[self._held]
        self._note_changes()

    def get_state(self) -> StateData:
        """Return the number of the epoch, and the rule that it began with."""
        return {"epoch": self.epoch, "from": None if self._from is None else self._from.to_json()}

    def unsaved(self) -> ChangedState:
        """Return the trees that changed since the last call."""
        numbers = [self.share[tree] for tree in np.flatnonzero(self._changed).tolist()]
        found = ChangedState(self._cleared, {number: self.saved(number) for number in numbers})
        self._cleared, self._changed[:] = False, False
        return found

    def saved(self, number: int) -> bytes:
        """Return a tree as canonical bytes: for each vertex, the examples it was updated with."""
        tree = number - self.share.start
        first, size = int(self._first[tree]), int(self._sizes[tree])
        held = self._held[first : first + 2 * size].tolist()
        parts = [
            (vertex, updates_to_data(self._table[learner]))
            for vertex, learner in enumerate(held)
            if learner != NOT_PERTINENT
        ]
        names = self._voter[tree] - first, self._merges[tree], self._generation[tree]
        return encode((*map(int, names), *parts))

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load the saved trees, each from the examples it was updated with."""
        if live["from"] is not None:
            self.publish(rule_from_json(live["from"]))
            self.begin_epoch(live["epoch"], self._start)
        self.regrow(parts)

    def regrow(self, parts: Mapping[int, bytes]) -> None:
        """Load some trees of this epoch."""
        for number, part in parts.items():
            self._regrow(number - self.share.start, part)
        self._cleared = False
        self._note_changes()

    def _regrow(self, tree: int, part: bytes) -> None:
        """Load one tree, by updating fresh learners again."""
        values: Any = decode(part)
        voter, merges, generation, *held = values
        first, end = int(self._first[tree]), int(self._first[tree] + 2 * self._sizes[tree])
        self._held[first:end], self._rule[first:end] = NOT_PERTINENT, 0
        for vertex, updates in held:
            learner = DEAD_NUMBER if updates is None else FRESH_NUMBER
            # Replayed, not unpickled: the state of a class is not data that a store could write.
            for x, y in updates or ():
                learner = self._table.updated(learner, unpacked(x), y)
            self._hold([first + vertex], [learner])
            self._own(tree, vertex)
        self._voter[tree], self._merges[tree] = first + voter, merges
        self._generation[tree] = generation


def trees_of(seed: int, trees: int, routes: Routes) -> Indices:
    """Return the tree of each route."""
    # A function of the route alone: a replaced row stays in its tree (Theorem 9).
    return below(trees, random_bits(seed, Purpose.TREE, routes))
