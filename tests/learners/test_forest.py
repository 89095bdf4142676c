"""The forest: equal to Algorithm 1 written with lists, and one-sensitive."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import littlestone as ls
import naive
from classes import CASES, targets
from effort import scaled
from littlestone._data.cells import user_address
from littlestone._data.rounds import Rounds
from littlestone._hypotheses.rows import as_batch
from littlestone._learners.forest import Forest
from littlestone._learners.tree import Purpose, RoutedBatch, below, random_bits

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


def fast_votes(forest: Forest, stream: Stream, size: int, first: int = 0) -> Iterator[Votes]:
    """The votes after every batch of this size, and after the last."""
    for at in range(0, len(stream), size):
        part = stream[at : at + size]
        rows = as_batch([x for x, _ in part])
        numbers = np.arange(first + at, first + at + len(part))
        forest.learn(Rounds(rows, np.array([y for _, y in part]), numbers=numbers))
        votes: Votes = forest.standing
        assert votes == [tree.vote for tree in forest.trees.values()]
        assert forest.votes == Counter(vote for vote in votes if vote is not None)
        assert forest.ballot == {rule.key: votes for rule, votes in forest.votes.items()}
        assert set(forest.rules) == {rule for tree in forest.trees.values() for rule in tree.rules}
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
    for size in (1, 7, 40):
        fast = Forest(cls, leaves, 11, **options)
        found = list(fast_votes(fast, stream[:40], size))
        fast.restart(published)
        found += list(fast_votes(fast, stream[40:], size, first=40))
        expected = [
            some[min(at + size, len(some)) - 1]
            for some in (before, after)
            for at in range(0, len(some), size)
        ]
        assert found == expected


@pytest.mark.parametrize("many", [0.5, 2.0, 1000.0])
def test_what_counts_as_common_changes_nothing(
    many: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules evaluated for all trees at once, and rules evaluated tree by tree: the same votes."""
    stream = stream_of("sets", 200, 0.3, seed=3)
    usual = list(fast_votes(Forest(ls.Sets(2), MIXED, 1), stream, 50))
    monkeypatch.setattr("littlestone._learners.forest.MOST_COMMON", many)
    monkeypatch.setattr("littlestone._learners.tree.LOOK_AHEAD", 3)
    assert list(fast_votes(Forest(ls.Sets(2), MIXED, 1), stream, 50)) == usual


@pytest.mark.parametrize("ahead", [1, 2, 5, 64])
def test_the_next_error_is_the_next_error(ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that are common and rules that are not, from every place, with errors far between."""
    monkeypatch.setattr("littlestone._learners.tree.LOOK_AHEAD", ahead)
    draw, rule = random.Random(ahead), ls.one_of([1])
    for _ in range(20):
        batch = as_batch([int(draw.random() < 0.04) for _ in range(150)])
        order = np.array(draw.sample(range(150), 150))
        wrong = rule.predict(batch)
        rare, common = (
            RoutedBatch(ls.Points(), batch, np.zeros(150, dtype=bool), order, known)
            for known in ({}, {rule: wrong})
        )
        for start, stop in [(0, 150), (0, 0), *(sorted(draw.sample(range(151), 2)) for _ in "abc")]:
            places = [place for place in range(start, stop) if wrong[order[place]]]
            first = places[0] if places else None
            assert rare.next_error(rule, start, stop) == first
            assert common.next_error(rule, start, stop) == first


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
            votes.append([tree.vote for tree in forest.trees.values()])
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
