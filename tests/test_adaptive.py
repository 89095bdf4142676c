"""AdaptiveDPSOA and EveryRound: votes equal to those of trees grown one by one, however batched."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from classes import CASES, targets
from littlestone.learning.prefix import Learned, Prefix, replayed
from littlestone.privacy.rehearsal import SeededNoise
from littlestone.theory.rows import as_batch

TREES = 5


def stream_of(name: str, length: int, seed: int) -> list[tuple[object, bool]]:
    cls, points = CASES[name]
    draw = random.Random(seed)
    truth = draw.choice(targets(cls, points))
    xs = [draw.choice(points) for _ in range(length)]
    return [(x, truth(x) != (draw.random() < 0.1)) for x in xs]


@pytest.mark.parametrize("name", CASES)
def test_all_trees_at_once_are_the_trees_one_by_one(name: str) -> None:
    cls, _ = CASES[name]
    for seed in range(4):
        stream = stream_of(name, 60, seed)
        routes = np.array([random.Random(n + 7 * seed).randrange(TREES) for n in range(60)])
        wanted: Counter[ls.Hypothesis] = Counter()
        for tree in range(TREES):
            state = cls.start()
            for (x, y), route in zip(stream, routes, strict=True):
                rule = cls.hypothesis(state)
                if route == tree and rule is not None and rule(x) != y:
                    state = cls.learn(state, x, y)
            last = cls.hypothesis(state)
            wanted.update([] if last is None else [last])
        batch = as_batch([x for x, _ in stream])
        answers = np.array([y for _, y in stream])
        assert replayed(Learned(cls), batch, answers, np.arange(60), routes, TREES) == wanted


@pytest.mark.parametrize("name", ["points", "rules", "thresholds"])
def test_a_replaced_round_moves_one_vote_of_each_ballot(name: str) -> None:
    cls, points = CASES[name]
    stream = stream_of(name, 30, 1)
    for place in range(30):
        ballots = []
        for row in (stream[place], (points[0], True)):
            prefix = Prefix(cls, TREES, seed=3)
            shown = [*stream[:place], row, *stream[place + 1 :]]
            batch = as_batch([x for x, _ in shown])
            prefix.learn(batch, np.array([y for _, y in shown]), np.arange(30))
            ballots.append([Counter(prefix.ballot(planted)) for planted in range(4)])
        for one, other in zip(*ballots, strict=True):
            assert (one - other).total() <= 1
            assert (other - one).total() <= 1


@pytest.mark.parametrize("kind", [ls.AdaptiveDPSOA, ls.EveryRound])
def test_batches_do_not_matter_and_null_rounds_keep_their_number(
    kind: type[ls.AdaptiveDPSOA],
) -> None:
    draw = random.Random(2)
    xs: list[object] = [draw.choice([1, 2.0, "a"]) for _ in range(150)]
    ys: list[object] = [None if draw.random() < 0.1 else x == "a" for x in xs]
    found = []
    for size in (0, 1, 40, 150):
        learner = kind(ls.Points(), 60, 0.01, 140, seed=1, noise=SeededNoise(2))
        for at in range(0, 150, max(1, size)):
            if size:
                learner.learn_many(xs[at : at + size], ys[at : at + size], bad_rows="null")
            elif ys[at] is None:
                learner.skip_one()
            else:
                learner.learn_one(xs[at], ys[at])
        found.append((learner.releases, learner.mistakes, learner.null_rounds, len(learner.ledger)))
    assert found == [found[0]] * 4
    assert len(found[0][0]) > 1


def test_fresh_forests_have_coins_of_their_own() -> None:
    ballots = {}
    for fresh in (True, False):
        prefix = Prefix(ls.Points(), 20, seed=3, fresh=fresh)
        prefix.learn(np.array([7] * 15), np.ones(15, dtype=bool), np.arange(15))
        ballots[fresh] = {tuple(sorted(prefix.ballot(n).values())) for n in range(30)}
    assert len(ballots[True]) > 1 == len(ballots[False])


def test_the_plan_says_that_epsilon_one_is_vacuous() -> None:
    learner = ls.AdaptiveDPSOA(ls.Points(), 1, 1e-6, 1000)
    assert learner.plan.vacuous
    assert learner.plan.not_vacuous_from > 10_000
    assert "vacuous" in str(learner.plan)
    assert (learner.guarantee.epsilon, learner.guarantee.delta) == (1.0, 1e-6)
    assert not ls.EveryRoundPlan.of(20, 1e-6, 1000).vacuous


def test_batches_may_come_as_columns_as_rows_and_with_columns_to_spare() -> None:
    """Found by the fuzz: the prefix took every batch for one of the shape of its first."""
    rows: list[Any] = [{"m": "a", "n": 1}, {"m": "b"}, {"m": "a"}, {"m": "a", "z": 2}]
    alone = ls.AdaptiveDPSOA(ls.Points("m"), 60, 0.01, 6, seed=1, noise=SeededNoise(1))
    mixed = ls.AdaptiveDPSOA(ls.Points("m"), 60, 0.01, 6, seed=1, noise=SeededNoise(1))
    for row in rows:
        alone.learn_one(row, row["m"] == "a")
    as_objects = np.empty(2, dtype=object)
    as_objects[:] = rows[:2]
    mixed.learn_many(as_objects, [1, 0])
    mixed.learn_many(rows[2:3], [1])
    mixed.learn_many({"m": ["a"], "z": [2]}, [1])
    assert alone.releases == mixed.releases
    assert alone._engine.forest.votes == mixed._engine.forest.votes
