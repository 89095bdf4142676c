"""Slow, obvious twins of the fast code, in the shape of the definitions. They are the oracles."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import littlestone as ls
from littlestone.learners.rounds import user_number
from littlestone.learners.tree import Purpose, random_bits
from littlestone.learners.tuning import missing_from
from littlestone.privacy import HistSparse, Noise

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


Example = tuple[object, bool]
RandomBits = Callable[..., int]


def addressed(seed: int) -> RandomBits:
    """Random bits by address, as the forest has them."""
    return lambda purpose, *address: int(random_bits(seed, purpose, *address))


def number(bits: int, size: int) -> int:
    """Random bits as a number below `size`."""
    return (bits >> 32) * size >> 32


class Forest:
    """Algorithm 1 with the paper's lists: S_v for every vertex, V for the pertinent ones.

    `bits` is a function of (purpose, address). A test hands it one that reads a stream instead.
    """

    def __init__(
        self,
        cls: ls.HypothesisClass,
        leaves: Sequence[int],
        bits: RandomBits,
        root: str = "learns",
        replant: bool = False,
    ) -> None:
        self.cls, self.leaves, self.bits, self.root = cls, leaves, bits, root
        self.replant, self.epoch = replant, 0
        self.published: ls.Hypothesis | None = None
        self.create_forest()

    def restart(self, published: ls.Hypothesis) -> None:
        self.published, self.epoch = published, self.epoch + 1
        self.create_forest()

    def create_forest(self) -> None:
        self.generation = [0] * len(self.leaves)
        self.merges = [0] * len(self.leaves)
        self.samples: list[dict[int, list[Example] | None]] = [self.bare(k) for k in self.leaves]
        self.pertinent = [set(range(k, 2 * k)) for k in self.leaves]
        self.voter = list(self.leaves)

    def bare(self, leaves: int) -> dict[int, list[Example] | None]:
        return {v: [] for v in range(leaves, 2 * leaves)}

    def A(self, sample: list[Example] | None) -> ls.Hypothesis | None:  # noqa: N802
        """The learner's rule after a whole sample; None on bottom and on what no rule fits."""
        if sample is None:
            return None
        state, rule = self.cls.start(), self.cls.hypothesis(self.cls.start())
        claim = False
        if self.published is not None:
            state = self.cls.restart(self.published)
            claim = self.cls.hypothesis(state) != self.published
            rule = self.published
        for x, y in sample:
            if rule is None:
                return None
            if rule(x) == y:
                continue
            if claim:
                claim, state = False, self.cls.start()
                rule = self.cls.hypothesis(state)
                if rule is not None and rule(x) == y:
                    continue
            state = self.cls.learn(state, x, y)
            rule = self.cls.hypothesis(state)
        return rule

    def votes(self) -> list[ls.Hypothesis | None]:
        return [self.A(sample[v]) for sample, v in zip(self.samples, self.voter, strict=True)]

    def step(self, x: object, y: bool, route: int) -> None:
        """One round of Algorithm 1, after the prediction."""
        i = number(self.bits(Purpose.TREE, route), len(self.leaves))
        leaf = self.leaves[i] + number(self.bits(Purpose.LEAF, route), self.leaves[i])
        samples, pertinent = self.samples[i], self.pertinent[i]
        v1 = leaf
        while v1 not in pertinent:
            v1 //= 2
        if v1 == 1 and self.root == "dies":
            return
        if samples[v1] is not None:
            samples[v1] = [*(samples[v1] or []), (x, y)]
        played = False
        while (
            v1 != 1
            and v1 ^ 1 in pertinent
            and (self.A(samples[v1]) != self.A(samples[v1 ^ 1]) or not self.A(samples[v1]))
        ):
            v1, played = self.parent(i, v1), True
        if played:
            if v1 == 1 and self.root == "dies":
                samples[1] = None
            pairs = sorted(v for v in pertinent if v % 2 == 0 and v + 1 in pertinent)
            address = self.epoch, i, self.generation[i], self.merges[i]
            chosen = number(self.bits(Purpose.CHOICE, *address), len(pairs)) if pairs else 0
            self.voter[i] = pairs[chosen] if pairs else 1
        if self.replant and pertinent == {1} and self.A(samples[1]) is None:
            self.generation[i] += 1
            self.merges[i] = 0
            self.samples[i], self.voter[i] = self.bare(self.leaves[i]), self.leaves[i]
            self.pertinent[i] = set(range(self.leaves[i], 2 * self.leaves[i]))

    def parent(self, i: int, v1: int) -> int:
        samples, up = self.samples[i], v1 // 2
        one, other = samples[v1 & ~1], samples[v1 | 1]
        first, second = self.A(one), self.A(other)
        if first is None or second is None:
            samples[up] = None
        else:
            x = self.cls.disagreement(first, second)
            y = bool(self.bits(Purpose.GUESS, self.epoch, i, self.generation[i], up) >> 63)
            samples[up] = [*((one if first(x) != y else other) or []), (x, y)]
        self.pertinent[i] -= {v1, v1 ^ 1}
        self.pertinent[i].add(up)
        self.merges[i] += 1
        return up


class Learner:
    """A private learner one round at a time: a naive forest, and the gate of a plan."""

    def __init__(self, cls: ls.HypothesisClass, plan: ls.Plan, seed: int, noise: Noise) -> None:
        self.cls, self.plan = cls, plan
        self.forest = Forest(cls, plan.shapes, addressed(seed), plan.root, plan.replant)
        rule = cls.hypothesis(cls.start())
        assert rule is not None
        self.rule, self.releases = rule, [(1, rule)]
        self.gate = plan.gate(noise, rule.key, lambda: missing_from(self.rule, cls))
        self.t = self.mistakes = self.recent = 0
        self.shown: dict[int, int] = {}

    def step(self, x: object, y: bool | None, user: object = None) -> None:
        """One round; a null one has no label."""
        route = self.t if user is None else user_number(user)
        self.shown[route] = self.shown.get(route, 0) + 1
        if self.plan.cap is not None and self.shown[route] > self.plan.cap:
            y = None
        if y is not None:
            self.mistakes += self.rule(x) != y
            self.recent += self.rule(x) != y
            if self.t < self.plan.horizon:
                self.forest.step(x, y, route)
        self.t += 1
        if self.t <= self.plan.horizon and self.t % self.plan.check_every == 0:
            self.check()

    def check(self) -> None:
        votes = Counter(vote.key for vote in self.forest.votes() if vote is not None)
        if isinstance(self.gate, HistSparse):
            fired, key = self.gate.check(votes)
        else:
            fired, key = self.gate.check(self.recent, votes)
        self.recent = 0
        if key is not None:
            rules = [vote for vote in self.forest.votes() if vote is not None and vote.key == key]
            self.rule = rules[0]
            self.releases.append((self.t + 1, self.rule))
        if isinstance(self.gate, HistSparse):
            return
        restarted = self.gate.restart_every is not None and self.gate.age == 0
        if fired or restarted:
            self.forest.restart(self.rule)
