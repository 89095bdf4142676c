"""Slow, obvious twins of the fast code, in the shape of the definitions. They are the oracles."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import littlestone as ls
from checks import check_gate
from littlestone._data.cells import user_number
from littlestone._hypotheses.causes import OUTCOME, Cause, any_of, cause_from_key, causes_of
from littlestone._hypotheses.values import canonical, decode, encode
from littlestone._learners.epoch_rows import EpochRows, PatternIndex
from littlestone._learners.evidence import Window
from littlestone._learners.rate_to_beat import Firing, RateToBeat, rate_of_odds, weights_of
from littlestone._learners.tree import Purpose, random_bits
from littlestone._learners.tuning import fallbacks_of, is_narrower, missing_from
from littlestone._privacy.causes import DROP, REPLACE, CausesMechanism, Moves, replaced
from littlestone._privacy.noise import Noise
from littlestone.paper import PaperPlan

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
        self.published: list[ls.Hypothesis] = []
        self.create_forest()

    def restart(self, published: ls.Hypothesis) -> None:
        self.epoch += 1
        if self.published[-1:] != [published]:
            self.published.append(published)
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
        for published in self.published:
            if published != rule:
                state = self.cls.restart(published, state)
            rule = published
        claim = self.cls.hypothesis(state) != rule
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
        self.forest = Forest(cls, plan.shapes, addressed(seed), "learns", True)
        rule = cls.hypothesis(cls.start())
        assert rule is not None
        self.rule, self.releases = rule, [(1, rule)]
        self.gate = plan.gate(
            noise,
            rule.key,
            lambda: missing_from(self.rule, cls),
            lambda: [some.key for some in fallbacks_of(self.rule, cls)],
        )
        self.settling: Any = getattr(self.gate, "schedule", None)
        self.t = self.mistakes = self.recent = 0
        self.shown: dict[int, int] = {}
        self.epoch: list[tuple[object, bool]] = []

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
                self.epoch.append((x, y))
                if not self.settling.comparing:
                    self.forest.step(x, y, route)
        self.t += 1
        if self.t <= self.plan.horizon and self.t % self.plan.check_every == 0:
            self.check()

    def check(self) -> None:
        voted = [vote for vote in self.forest.votes() if vote is not None]
        rules = {rule.key: rule for rule in voted}
        if self.settling.comparing:
            known = [*(rule for _, rule in self.releases), *fallbacks_of(self.rule, self.cls)]
            rules = {rule.key: rule for rule in known}
            rules = {
                key: rules[key] for key in (self.rule.key, *self.settling.known(self.rule.key))
            }
            erred = {key: sum(rules[key](x) != y for x, y in self.epoch) for key in rules}
            fired, key = check_gate(self.gate, self.recent, erred)
        else:
            wide = [rule.key for rule in voted if not is_narrower(rule, self.rule, self.cls)]
            fired, key = check_gate(self.gate, self.recent, Counter(wide))
        self.recent = 0
        if key is not None:
            self.rule = rules[key]
            self.releases.append((self.t + 1, self.rule))
        if fired:
            self.epoch = []
            self.forest.restart(self.rule)


class PaperLearner:
    """Algorithm 1 one round at a time: a naive forest, and the gate of Algorithm 2."""

    def __init__(self, cls: ls.HypothesisClass, plan: PaperPlan, seed: int, noise: Noise) -> None:
        self.plan = plan
        self.forest = Forest(cls, plan.shapes, addressed(seed), plan.root, plan.replant)
        rule = cls.hypothesis(cls.start())
        assert rule is not None
        self.rule, self.releases = rule, [(1, rule)]
        self.gate = plan.gate(noise, rule.key)
        self.t = self.mistakes = 0

    def step(self, x: object, y: bool | None, user: object = None) -> None:
        """One round; a null one has no label."""
        if y is not None:
            self.mistakes += self.rule(x) != y
            if self.t < self.plan.horizon:
                self.forest.step(x, y, self.t if user is None else user_number(user))
        self.t += 1
        if self.t <= self.plan.horizon and self.t % self.plan.check_every == 0:
            rules = {vote.key: vote for vote in self.forest.votes() if vote is not None}
            votes = Counter(vote.key for vote in self.forest.votes() if vote is not None)
            _, key = self.gate.check(votes)
            if key is not None:
                self.rule = rules[key]
                self.releases.append((self.t + 1, self.rule))


class EpochCounts:
    """What the causes learner knows of an epoch, by the definition: every row is kept as it is.

    The label of a row is False, or its outcome: None where outcomes are not told apart.
    """

    def __init__(self, cls: ls.Causes) -> None:
        self.cls = cls
        self.rows: list[tuple[object, Any]] = []

    def add(self, x: object, label: Any) -> None:
        self.rows.append((x, None if label is True else label))

    def positives(self) -> list[tuple[object, Any]]:
        return [(x, y) for x, y in self.rows if y is not False]

    def counts(self) -> dict[bytes, tuple[int, int, int]]:
        """Of every pattern that a positive row lists, its negatives, positives and width from 0."""
        listed = [({cause.key for cause in self.cls.patterns_of(x)}, y) for x, y in self.rows]
        active = {
            Cause(c.conditions, y) for x, y in self.positives() for c in self.cls.patterns_of(x)
        }
        found = {}
        for cause in active:
            labels = [y for keys, y in listed if cause.pattern.key in keys]
            own = sum(y is not False and y == cause.outcome for y in labels)
            found[cause.key] = labels.count(False), own, cause.width - 1
        return found


class CausesLearner:
    """The causes learner one round at a time, in the shape of docs/guarantee.md, Theorem 15.

    A label is True or False; with outcomes it is False or the outcome. What is public (the rate to
    beat, the terms of an epoch, the threshold) is asked of the plan, as the fast path does.
    """

    def __init__(self, cls: ls.Causes, plan: ls.CausesPlan, noise: Noise) -> None:
        self.cls, self.plan, self.index = cls, plan, PatternIndex(cls)
        self.causes: tuple[Cause, ...] = ()
        self.releases: list[tuple[int, ls.Hypothesis]] = [(1, any_of([]))]
        self.windows: list[Window] = []
        self.mechanism = CausesMechanism(
            noise, budget=plan.budget, epsilon_evidence=plan.epsilon_evidence,
            draw=plan.draw, check_every=plan.check_every,
        )  # fmt: skip
        self.known: dict[str, list[Any]] = {name: list(some) for name, some in cls.values.items()}
        self.beat = RateToBeat(plan.baseline, plan.units, float(plan.given_rate))
        self.t = self.mistakes = self.missed = 0
        self.window_start, self.window_length = 0, plan.evidence_every
        self.window: list[tuple[int, Any]] = []
        self.votes: list[bytes] = []
        if plan.min_rate != "auto":
            self.beat.begin(0.0)
            self.new_epoch()

    @property
    def watched(self) -> bool:
        return self.mechanism.gate is not None

    def new_epoch(self) -> None:
        plan, self.begin, self.loss = self.plan, self.t, 0
        schedule = self.mechanism.schedule if self.watched else None
        aged, refusals, rate = (
            (schedule.aged, schedule.refusals, schedule.loss_rate)
            if schedule
            else (0, 0, Fraction(0))
        )
        self.epoch = EpochCounts(self.cls)
        # The rows that speak on one cause, which alone matches them.
        self.lone: list[list[tuple[Any, bool]]] = [[] for _ in self.causes]
        counts = [len(self.known_causes(width)) for width in range(1, self.cls.width + 1)]
        terms = plan.terms(self.beat.cost, counts, plan.margin(self.windows, self.causes))
        rounds = plan.longest_epoch
        # An epoch with causes ends by age: after a 32nd of the horizon, then twice that, ...
        if self.causes:
            checks = -(-max(1, plan.horizon // 32 * 2 ** min(aged, 32)) // plan.check_every)
            rounds = min(checks * plan.check_every, rounds)
        # And at the last check of the stream.
        last = plan.horizon // plan.check_every * plan.check_every
        rounds = max(plan.check_every, min(rounds, last - self.t))
        limit = plan.limit(terms, self.beat, refusals, rate)
        self.mechanism.begin_epoch(terms, rounds, limit)
        self.costs = weights_of(self.beat.cost, terms.swing)

    def known_causes(self, width: int) -> list[Cause]:
        """All known patterns of a width, in their public order."""
        found = []
        for form in (form for form in self.index.forms if len(form) == width):
            for conditions in product(*map(self.known_conditions, form)):
                outcomes = self.known.get(OUTCOME, []) if self.cls.has_outcomes else [None]
                found += [Cause(conditions, outcome) for outcome in outcomes]
        return found

    def known_conditions(self, slot: int) -> list[ls.Condition]:
        name = self.index.names[self.index.slots[slot]]
        values = self.known.get(name, [])
        size = len(values) if self.index.tables[slot] is None else self.index.size(slot)
        return [self.index.condition(slot, number, values) for number in range(size)]

    def narrower(self, cause: Cause) -> list[Cause]:
        """The patterns with one more known condition, in their public order."""
        if cause.width == self.cls.width:
            return []
        slots = range(len(self.index.slots))
        more = [c for slot in slots for c in self.known_conditions(slot)]
        free = [c for c in more if c.column not in cause.columns]
        return [Cause((*cause.conditions, c), cause.outcome) for c in free]

    def learn_values(self, pairs: Iterable[tuple[str, Any]]) -> None:
        for name, value in pairs:
            if value not in self.known.setdefault(name, []):
                self.known[name].append(value)

    def step(self, x: object, y: Any) -> None:
        """One round; a null one has no label."""
        outcome = None if y is True else y and canonical(y)
        if y is not None:
            self.judge(x, outcome)
        if self.t >= self.plan.horizon:
            self.t += 1
            return
        if y is not None:
            self.learn(x, outcome)
        self.t += 1
        if self.watched and self.t % self.plan.check_every == 0:
            self.check()
        if not self.watched and self.t == self.plan.first_window:
            self.end_first_window()
        elif self.watched and self.t in (self.window_start + self.window_length, self.plan.horizon):
            self.end_window()
            longest = max(self.plan.horizon // 8, self.plan.evidence_every)
            self.window_length = -(-min(2 * self.window_length, longest) // 8) * 8

    def judge(self, x: object, outcome: Any) -> None:
        matched = [cause for cause in self.causes if cause(x)]
        missed = outcome is not False and all(cause.outcome != outcome for cause in matched)
        self.missed += missed
        self.mistakes += missed or (outcome is False and bool(matched))

    def learn(self, x: Any, outcome: Any) -> None:
        matched = [place for place, cause in enumerate(self.causes) if cause(x)]
        right = outcome is not False and any(self.causes[at].outcome == outcome for at in matched)
        # A cell: the first cause that matches, or none, and the outcome.
        cell = matched[0] if matched else len(self.causes), outcome
        if not self.watched:
            if self.t < self.plan.base_rounds:
                self.window.append(cell)
            elif self.cls.undeclared:
                # The column of the vote: by the high bits of a multiple of the round's number.
                place = (self.t * 0x9E3779B97F4A7C15 % 2**64 >> 33) % len(self.cls.undeclared)
                name = self.cls.undeclared[place]
                self.votes.append(encode((name, canonical(x[name]))))
            return
        self.window.append(cell)
        alarm = outcome is False and bool(matched)
        missed = outcome is not False and not right
        self.loss += self.costs.positive * missed + self.costs.negative * alarm
        if not matched:
            self.epoch.add(x, outcome)
        if len(matched) == 1 and (right or alarm):
            self.lone[matched[0]].append((x, right))

    def check(self) -> None:
        fired, key = self.mechanism.run(
            [self.loss], lambda check, fired: self.moves(fired)
        ).decision
        self.loss = 0
        if key is not None:
            old, new = replaced(key) if key.startswith(REPLACE) else (key[1:], key[1:])
            others = [other for other in self.causes if other.key != old]
            rule = any_of(others if key.startswith(DROP) else [*others, cause_from_key(new)])
            if rule != self.releases[-1][1]:
                self.causes = causes_of(rule)
                self.releases.append((self.t + 1, rule))
                self.window_length = self.plan.evidence_every
                conditions = [c for cause in self.causes for c in cause.conditions]
                self.learn_values((c.column, c.value) for c in conditions if not c.is_range)
                told = [cause.outcome for cause in self.causes]
                self.learn_values((OUTCOME, y) for y in told if y is not None)
        if fired:
            self.new_epoch()

    def moves(self, fired: bool) -> Moves:
        gate, terms = self.mechanism.gate, self.mechanism.terms
        assert gate is not None
        assert terms is not None
        reached = int(gate.schedule.limits(gate.window_age))
        firing = Firing(reached, self.costs, float(terms.monitor)) if fired else None
        self.end_window()
        windows = [window for window in self.windows if window.start > self.begin]
        cost = self.beat.at_end(windows, self.t - self.begin, firing)
        self.windows[-1] = self.windows[-1]._replace(to_beat=rate_of_odds(cost), drawn=True)
        # In the order of the fast path, which is public: by form, then by first appearance.
        found = self.epoch.counts()
        keys = sorted(found, key=self.order)
        ranks = [
            {cause.key: rank for rank, cause in enumerate(self.known_causes(width))}
            if terms.known[width - 1].keys else {}
            for width in range(1, self.cls.width + 1)
        ]  # fmt: skip
        narrower = [self.narrower(cause) for cause in self.causes]
        return Moves(
            weights_of(cost, terms.swing),
            pairs(found[key][:2] for key in keys),
            np.array([found[key][2] for key in keys], dtype=np.intp),
            np.array([ranks[found[key][2]].get(key, -1) for key in keys], dtype=np.int64),
            keys.__getitem__,
            lambda width, rank: self.known_causes(width + 1)[rank].key,
            pairs(split(labels) for labels in ([y for _, y in rows] for rows in self.lone)),
            [cause.key for cause in self.causes],
            [
                pairs(split([y for x, y in rows if narrow(x)]) for narrow in some)
                for rows, some in zip(self.lone, narrower, strict=True)
            ],
            lambda cause, place: narrower[cause][place].key,
            len(self.causes) < self.cls.limit and self.beat.can_tell(cost),
        )

    def order(self, key: bytes) -> tuple[object, ...]:
        cause, index = cause_from_key(key), self.index
        slots, numbers = [], []
        for condition in cause.conditions:
            place = index.names.index(condition.column)
            for slot in (s for s, column in enumerate(index.slots) if column == place):
                values = self.seen(condition.column)
                count = len(values) if index.tables[slot] is None else index.size(slot)
                some = [index.condition(slot, number, values) for number in range(count)]
                if condition in some:
                    slots.append(slot)
                    numbers.append(some.index(condition))
                    break
        both = sorted(zip(slots, numbers, strict=True))
        form = tuple(slot for slot, _ in both)
        outcomes = list(dict.fromkeys(y for _, y in self.epoch.positives()))
        numbers = [number for _, number in both]
        return index.forms.index(form), numbers, outcomes.index(cause.outcome)

    def seen(self, column: str) -> list[Any]:
        """The values of a column in positive rows of the epoch, in order."""
        rows: list[Any] = [x for x, _ in self.epoch.positives()]
        return list(dict.fromkeys(canonical(x[column]) for x in rows))

    def end_window(self) -> None:
        if self.t <= self.window_start:
            return
        labels = [[y for at, y in self.window if at == n] for n in range(len(self.causes) + 1)]
        # Of each cause the rows of its outcome and the others; of the rest also each outcome.
        told = dict.fromkeys(cause.outcome for cause in self.causes if cause.outcome is not None)
        named = [labels[-1].count(outcome) for outcome in told]
        own = [part.count(c.outcome) for part, c in zip(labels, self.causes, strict=False)]
        own.append(len(labels[-1]) - labels[-1].count(False) - sum(named))
        others = [len(part) - n for part, n in zip(labels, own, strict=True)]
        others[-1] = labels[-1].count(False)
        size = 2 * len(own)
        cells = [count for pair in zip(others, own, strict=True) for count in pair]
        counts = self.mechanism.release_evidence([*cells, *named])
        shown = tuple(zip(told, counts[size:], strict=True))
        counts[size - 1] += sum(counts[size:])
        no, yes, scale = (
            tuple(counts[:size:2]),
            tuple(counts[1:size:2]),
            float(self.mechanism.evidence.scale),
        )
        to_beat = rate_of_odds(self.beat.cost)
        self.windows.append(
            Window(self.window_start + 1, self.t, self.causes, no, yes, scale, shown, to_beat)
        )
        self.window_start, self.window = self.t, []

    def end_first_window(self) -> None:
        positives = sum(y is not False for _, y in self.window)
        negatives, positives = self.mechanism.release_first(
            [len(self.window) - positives, positives]
        )
        if self.cls.undeclared:
            found: Any = map(decode, self.mechanism.discover(Counter(self.votes)))
            self.learn_values(found)
        whole = max(negatives + positives, 1)
        self.beat.begin(min(max(positives, 0), whole) / whole)
        scale, to_beat = float(self.mechanism.first_scale), rate_of_odds(self.beat.cost)
        first = (1, self.plan.base_rounds, (), (negatives,), (positives,), scale, (), to_beat)
        self.windows.append(Window(*first))
        self.window_start, self.window = self.t, []
        self.new_epoch()


def split(labels: Sequence[bool]) -> tuple[int, int]:
    """How many negatives and positives there are."""
    return len(labels) - sum(labels), sum(labels)


def pairs(counts: Iterable[tuple[int, ...]]) -> Any:
    """Rows of two counts, as an array."""
    return np.array(list(counts), dtype=np.int64).reshape(-1, 2)


def add_rows(rows: EpochRows, batch: Any, labels: Any, unmatched: Any = True) -> None:
    """Add the rows of a batch that no published cause matches."""
    negative, positive = np.flatnonzero(unmatched & ~labels), np.flatnonzero(unmatched & labels)
    rows.add(rows.index.read(batch, negative, positive))
