"""The forest: equal to Algorithm 1 written with lists, and one-sensitive."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import littlestone as ls
import naive
from classes import CASES, targets
from effort import scaled
from littlestone._classes.base import kinds_of
from littlestone._data.cells import user_address
from littlestone._data.rounds import Rounds
from littlestone._hypotheses.rows import as_batch
from littlestone._learners.forest import Forest
from littlestone._learners.tree import (
    DEAD,
    LearnerTable,
    Purpose,
    RuleTable,
    VertexLearner,
    below,
    random_bits,
)

Stream = list[tuple[object, bool]]
Votes = list[ls.Hypothesis | None]
MIXED = [1, 2, 4, 8, 1, 2]
TALL = [2, 4, 4, 8]
PLANS: dict[str, dict[str, Any]] = {
    "practical": {"leaves": MIXED},
    "paper": {"leaves": TALL, "root": "dies"},
    "replanted": {"leaves": MIXED, "replant": True},
    "replanted paper": {"leaves": TALL, "root": "dies", "replant": True},
}


def stream_of(name: str, length: int, noise: float, seed: int) -> Stream:
    cls, points = CASES[name]
    draw = random.Random(seed)
    truth = draw.choice(targets(cls, points))
    xs = [draw.choice(points) for _ in range(length)]
    return [(x, truth(x) != (draw.random() < noise)) for x in xs]


def fast_votes(
    forest: Forest, stream: Stream, size: int, first: int = 0, read: bool = True
) -> Iterator[Votes]:
    """The votes after every batch of this size, and after the last, of batches that are read."""
    for at in range(0, len(stream), size):
        part = stream[at : at + size]
        rows = as_batch([x for x, _ in part], kinds_of(forest.cls) if read else {})
        numbers = np.arange(first + at, first + at + len(part))
        forest.learn(Rounds(rows, np.array([y for _, y in part]), numbers=numbers))
        votes: Votes = forest.standing
        assert forest.votes == Counter(vote for vote in votes if vote is not None)
        assert forest.ballot == {rule.key: votes for rule, votes in forest.votes.items()}
        yield votes


def slow_votes(forest: naive.Forest, stream: Stream, first: int = 0) -> Iterator[Votes]:
    for t, (x, y) in enumerate(stream, start=first):
        forest.step(x, y, t)
        yield forest.votes()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_the_forest_is_algorithm_1(name: str, plan: str, noise: float) -> None:
    """Equal after every batch, for every batch size, on every family; then through an epoch."""
    cls, points = CASES[name]
    stream = stream_of(name, 70, noise, seed=5)
    published = targets(cls, points)[-1]
    options = dict(PLANS[plan])
    leaves = options.pop("leaves")
    slow = naive.Forest(cls, leaves, naive.addressed(11), **options)
    before = list(slow_votes(slow, stream[:40]))
    slow.restart(published)
    after = list(slow_votes(slow, stream[40:], first=40))
    for size, read in [(1, True), (7, True), (7, False), (40, True), (40, False)]:
        fast = Forest(cls, leaves, 11, **options)
        found = list(fast_votes(fast, stream[:40], size, read=read))
        fast.restart(published)
        found += list(fast_votes(fast, stream[40:], size, first=40, read=read))
        expected = [
            some[min(at + size, len(some)) - 1]
            for some in (before, after)
            for at in range(0, len(some), size)
        ]
        assert found == expected


@pytest.mark.parametrize("name", ["points", "sets", "thresholds", "rules", "conjunctions"])
@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("forest.MOST_COMMON", 0.5),
        ("forest.MOST_COMMON", 1000.0),
        ("forest.LOOK_AHEAD", 1),
        ("forest.LOOK_AHEAD", 3),
        ("forest.MOST_LEARNERS", 0),
        ("tree.MOST_MARKS", 1),
        ("tree.MOST_MARKS", 0),
    ],
)
def test_how_rows_are_searched_changes_nothing(
    name: str, constant: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is evaluated together, how far ahead, and what is forgotten: the same trees."""
    cls, stream = CASES[name][0], stream_of(name, 300, 0.3, seed=3)

    def run() -> tuple[list[Votes], list[bytes]]:
        forest = Forest(cls, MIXED, 1, replant=True)
        votes = list(fast_votes(forest, stream, 20))
        return votes, [forest.saved(number) for number in forest.share]

    usual = run()
    monkeypatch.setattr(f"littlestone._learners.{constant}", value)
    assert run() == usual


def test_learners_that_no_vertex_holds_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long stream of noise does not fill the memory, within an epoch and across epochs."""
    monkeypatch.setattr("littlestone._learners.forest.MOST_LEARNERS", 100)
    sizes, draw, after = list[int](), random.Random(2), LearnerTable.after

    def noting(self: LearnerTable, *row: Any) -> list[int]:
        sizes.append(len(self))
        return after(self, *row)

    monkeypatch.setattr(LearnerTable, "after", noting)
    forest = Forest(ls.Points(), [1] * 8, 1, replant=True)
    for start in range(0, 4000, 20):
        rows = as_batch([draw.randrange(10**6) for _ in range(20)], kinds_of(forest.cls))
        numbers = np.arange(start, start + 20)
        forest.learn(Rounds(rows, np.array([True] * 20), numbers=numbers))
    assert 100 < max(sizes) < 200


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["sets", "rules", "thresholds", "union"])
def test_a_saved_tree_grows_again(name: str, plan: str) -> None:
    """In a fresh forest, and over a tree that went on: the same votes, now and later."""
    cls, stream = CASES[name][0], stream_of(name, 120, 0.2, seed=8)
    options = dict(PLANS[plan])
    forest = Forest(cls, options.pop("leaves"), 5, **options)
    votes = list(fast_votes(forest, stream[:60], 60))
    saved = forest.unsaved()
    assert saved.cleared
    assert saved.parts
    later = list(fast_votes(forest, stream[60:], 10, first=60))
    fresh = Forest(cls, PLANS[plan]["leaves"], 5, **options)
    untouched = {n: fresh.saved(n) for n in fresh.share if n not in saved.parts}
    for grown, parts in [(fresh, saved.parts), (forest, saved.parts | untouched)]:
        grown.regrow(parts)
        assert grown.standing == votes[-1]
        assert {n: grown.saved(n) for n in saved.parts} == saved.parts
        assert list(fast_votes(grown, stream[60:], 10, first=60)) == later


RULES = [
    ls.ALWAYS,
    ls.NEVER,
    ls.one_of(["a"], "v"),
    ls.one_of(["a", 1, None], "v"),
    ls.one_of(range(9), "v"),
    ls.one_of(["1.0"], "w"),
    ls.steps(True, [0], "n"),
    ls.steps(False, [-1, 0, 2.5, 7], "n"),
    ls.steps(True, range(9), "n"),
    ls.between(2**53 + 1, None, "n"),
    ls.negation(ls.one_of(["b"], "w")),
    ls.at_least(2, [("v", "a"), ("w", "b")]),
]
CELLS: list[object] = ["a", "b", "1", 1, True, 1.0, "1.0", None, 8, "-0.0", 0.0]
FLOATS: list[object] = [-1, -0.0, 0, 1, 2.5, 7, 8, None, float("nan"), 2.0**53, 2.0**53 + 2]


class Mixed(ls.Points):
    """A class that reads three columns."""

    @property
    def reads(self) -> Any:
        return {"v": "value", "w": "value", "n": "number"}


class Contrary(Mixed):
    """A class that evaluates its rules in its own way."""

    def predict(self, rule: ls.Hypothesis, X: Any) -> Any:
        return ~rule.predict(X)


@pytest.mark.parametrize("cls", [Mixed("v"), Contrary("v"), ls.Points("v")])
@pytest.mark.parametrize("read", [True, False])
def test_rules_evaluated_at_once_are_those_rules(cls: ls.HypothesisClass, read: bool) -> None:
    """Each row by a rule of its own: as by that rule alone, whatever it is and when it came."""
    draw, table = random.Random(4), RuleTable(cls)
    for some in (RULES[:3], RULES[:8], RULES):
        numbers = [table.number(rule) for rule in draw.sample(some, len(some))]
        which = np.array(draw.choices([0, *numbers], k=400))
        rows = [
            {"v": draw.choice(CELLS), "w": draw.choice(CELLS), "n": draw.choice(FLOATS)}
            for _ in which
        ]
        labels = table.predict(which, as_batch(rows, Mixed("v").reads if read else {}))
        for number, x, answer in zip(which.tolist(), rows, labels.tolist(), strict=True):
            rule = table.rules[number]
            assert answer == (rule is not None and rule(x) != isinstance(cls, Contrary))


class Types(ls.Points):
    """A class whose rule tells apart what `==` does not."""

    def learn(self, state: Any, x: object, y: object) -> Any:
        return super().learn(state, f"{type(x).__name__} {x}", y)


def test_examples_that_are_equal_in_python_are_learned_apart() -> None:
    """1, True, 1.0 and '1': who was asked first must not decide for the others (Theorem 9)."""
    for order in permutations([1, True, 1.0, "1", 0.0, 0, False, None]):
        table = LearnerTable(Types(), [DEAD, VertexLearner(Types().start(), ls.NEVER)])
        found = [table[table.updated(1, x, True)].rule for x in order[:4]]
        assert found == [ls.one_of([f"{type(x).__name__} {x}"]) for x in order[:4]]
        # Many at once, known and new, also beside one that cannot be remembered.
        for also in ([], [("b", -0.0)]):
            rows: list[Any] = [*order[2:], *order[4:], *also]
            after = table.after([1] * len(rows), None, [rows], [True] * len(rows))
            texts = [f"{type(x).__name__} {x}" for x in rows]
            assert [table[number].rule for number in after] == [ls.one_of([t]) for t in texts]
            assert bool(also) or after[6:10] == after[2:6]
    table = LearnerTable(Types(), [DEAD, VertexLearner(Types().start(), ls.NEVER)])
    assert table.updated(1, -0.0, True) == table.updated(1, 0.0, True)
    assert table[table.updated(1, -0.0, True)].rule == ls.one_of(["float 0.0"])


def most_changed(one: list[Votes], other: list[Votes]) -> int:
    pairs = zip(one, other, strict=True)
    return max(sum(a != b for a, b in zip(u, v, strict=True)) for u, v in pairs)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    "name", ["points", "rules", "thresholds", "conjunctions", "table", "union"]
)
@settings(max_examples=scaled(15, least=10))
@given(data=st.data())
def test_one_replaced_round_changes_one_vote(name: str, plan: str, data: st.DataObject) -> None:
    cls, points = CASES[name]
    example = st.tuples(st.sampled_from(points), st.booleans())
    stream = data.draw(st.lists(example, min_size=1, max_size=60))
    at = data.draw(st.integers(0, len(stream) - 1))
    replaced = [*stream[:at], data.draw(example), *stream[at + 1 :]]
    seed = data.draw(st.integers(0, 2**64))
    options = dict(PLANS[plan])
    leaves = options.pop("leaves")
    votes = [
        list(fast_votes(Forest(cls, leaves, seed, **options), rows, 1))
        for rows in (stream, replaced)
    ]
    assert most_changed(*votes) <= 1


@settings(max_examples=scaled(40, least=10))
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.booleans()), max_size=60),
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=60, max_size=60),
)
def test_one_replaced_user_changes_one_vote(
    rows: list[tuple[int, int, bool]], user: int, others: list[tuple[int, bool]]
) -> None:
    """All the rounds of one user, replaced at will."""
    swapped = [
        (who, *new) if who == user else (who, x, y)
        for (who, x, y), new in zip(rows, others, strict=False)
    ]
    worlds = []
    for world in (rows, swapped):
        forest, votes = Forest(ls.Sets(2), MIXED, 3), []
        for who, x, y in world:
            users = np.array([user_address(b"%d" % who)], np.uint64)
            forest.learn(Rounds(as_batch([x]), np.array([y]), users))
            votes.append(forest.standing)
        worlds.append(votes)
    assert not rows or most_changed(*worlds) <= 1


def test_random_bits_read_as_a_stream_leak() -> None:
    """The planted fault of DESIGN: with a generator read in the order of use, one replaced example
    shifts the random bits of other trees."""

    def votes(stream: Stream) -> list[Votes]:
        generator = random.Random(7)

        def bits(purpose: Purpose, *address: int) -> int:
            routing = purpose in (Purpose.TREE, Purpose.LEAF)
            return int(random_bits(7, purpose, *address)) if routing else generator.getrandbits(64)

        forest = naive.Forest(ls.FiniteClass(np.eye(8, dtype=int).tolist()), [4] * 12, bits)
        return list(slow_votes(forest, stream))

    draw = random.Random(1)
    worst = 0
    for _ in range(20):
        stream: Stream = [(draw.randrange(8), draw.random() < 0.5) for _ in range(150)]
        replaced: Stream = [(stream[0][0], not stream[0][1]), *stream[1:]]
        worst = max(worst, most_changed(votes(stream), votes(replaced)))
    assert worst > 1


def test_random_bits_are_a_function_and_look_fair() -> None:
    rounds = np.arange(100_000)
    drawn = random_bits(5, Purpose.LEAF, rounds)
    assert (drawn == random_bits(5, Purpose.LEAF, rounds[::-1])[::-1]).all()
    assert int(random_bits(5, Purpose.LEAF, 77)) == int(drawn[77])
    assert (drawn != random_bits(6, Purpose.LEAF, rounds)).all()
    assert (drawn != random_bits(5, Purpose.TREE, rounds)).all()
    assert (
        len(
            {
                int(random_bits(5, Purpose.GUESS, *pair))
                for pair in [(0, 1), (1, 0), (1,), (0, 0, 1)]
            }
        )
        == 4
    )
    counts = np.bincount(below(100, drawn), minlength=100)
    assert ((counts - 1000) ** 2 / 1000).sum() < 180, "chi-square with 99 degrees of freedom"
    ones = ((drawn[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
    assert abs(ones - 0.5).max() < 0.01


@pytest.mark.parametrize(
    ("leaves", "options", "why"),
    [
        ([], {}, "at least one tree"),
        ([3], {}, "must be a power of two"),
        ([0], {}, "must be a power of two"),
        ([1, 2], {"root": "dies"}, "only a root"),
    ],
)
def test_forests_that_make_no_sense(leaves: list[int], options: dict[str, Any], why: str) -> None:
    with pytest.raises(ls.BadClass, match=why):
        Forest(ls.Points(), leaves, 1, **options)
