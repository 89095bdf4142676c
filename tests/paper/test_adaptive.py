"""AdaptiveDPSOA and EveryRound: votes equal to those of trees grown one by one, however batched."""

import random
from collections import Counter
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from classes import CASES, targets
from effort import scaled
from littlestone._classes.base import HypothesisClass, VersionSpace, distinguishing_example
from littlestone._data.rounds import Rounds
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import one_of
from littlestone._learners.tree import Purpose, below, random_bits
from littlestone._privacy.testing import SeededNoise
from littlestone.paper.adaptive import AdaptiveDPSOA, EveryRound, EveryRoundPlan, Prefix

TREES = 5


def stream_of(name: str, length: int, seed: int) -> list[tuple[object, bool]]:
    cls, points = CASES[name]
    draw = random.Random(seed)
    truth = draw.choice(targets(cls, points))
    xs = [draw.choice(points) for _ in range(length)]
    return [(x, truth(x) != (draw.random() < 0.1)) for x in xs]


def one_by_one(
    cls: ls.HypothesisClass, stream: list[tuple[object, bool]], routes: list[int]
) -> Counter[ls.Hypothesis]:
    """The votes of trees that are grown one after the other."""
    votes: Counter[ls.Hypothesis] = Counter()
    for tree in range(TREES):
        state = cls.start()
        for (x, y), route in zip(stream, routes, strict=True):
            rule = cls.hypothesis(state)
            if route == tree and rule is not None and rule(x) != y:
                state = cls.learn(state, x, y)
        last = cls.hypothesis(state)
        votes.update([] if last is None else [last])
    return votes


@pytest.mark.parametrize("name", CASES)
def test_all_trees_at_once_are_the_trees_one_by_one(name: str) -> None:
    """Also when the stream grows from ballot to ballot."""
    cls, _ = CASES[name]
    for seed in range(scaled(4, least=2)):
        stream, prefix = stream_of(name, 60, seed), Prefix(cls, TREES, seed)
        for start, length in pairwise((0, 1, 20, 21, 60)):
            part = stream[start:length]
            answers = np.array([y for _, y in part])
            numbers = np.arange(start, length)
            prefix.learn(Rounds(as_batch([x for x, _ in part]), answers, numbers=numbers))
            prefix.ballot(length)
            bits = random_bits(seed, Purpose.TREE, length, np.arange(length))
            routes = np.asarray(below(TREES, bits)).tolist()
            assert prefix.votes == one_by_one(cls, stream[:length], routes)


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
            prefix.learn(Rounds(batch, np.array([y for _, y in shown])))
            ballots.append([Counter(prefix.ballot(planted)) for planted in range(4)])
        for one, other in zip(*ballots, strict=True):
            assert (one - other).total() <= 1
            assert (other - one).total() <= 1


class LastMistake(HypothesisClass):
    """Predicts 1 on the example of its last mistake only, and keeps that as it came."""

    dimension = mistake_bound = 1

    def start(self) -> VersionSpace:
        return VersionSpace(())

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        return VersionSpace((x,))

    def hypothesis(self, state: VersionSpace) -> ls.Hypothesis | None:
        return one_of(state.content)

    def disagreement(self, one: ls.Hypothesis, other: ls.Hypothesis) -> object:
        return distinguishing_example(one, other)

    def __contains__(self, rule: object) -> bool:
        return True


def test_states_that_are_equal_and_of_different_types_are_not_one() -> None:
    values = np.empty(3, dtype=object)
    values[:] = [1, True, 1.0]
    prefix = Prefix(LastMistake(), 60, seed=1)
    prefix.learn(Rounds(values, np.ones(3, dtype=bool)))
    prefix.ballot(0)
    assert set(prefix.votes) == {one_of([]), *(one_of([x]) for x in (1, True, 1.0))}
    assert len(prefix.votes) == 4


@pytest.mark.parametrize("kind", [AdaptiveDPSOA, EveryRound])
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_batches_do_not_matter_and_null_rounds_keep_their_number(
    kind: type[AdaptiveDPSOA],
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


def test_fresh_forests_have_random_bits_of_their_own() -> None:
    ballots = {}
    for fresh in (True, False):
        prefix = Prefix(ls.Points(), 20, seed=3, fresh=fresh)
        prefix.learn(Rounds(np.array([7] * 15), np.ones(15, dtype=bool)))
        ballots[fresh] = {tuple(sorted(prefix.ballot(n).values())) for n in range(30)}
    assert len(ballots[True]) > 1 == len(ballots[False])


def test_the_plan_says_that_epsilon_one_is_vacuous() -> None:
    learner = AdaptiveDPSOA(ls.Points(), 1, 1e-6, 1000)
    assert learner.plan.vacuous
    assert "the first rule will stand" in str(learner.plan)
    assert (learner.guarantee.epsilon, learner.guarantee.delta) == (1.0, 1e-6)
    assert not EveryRoundPlan.of(20, 1e-6, 1000).vacuous


def erring(epsilon: float, horizon: int, seed: int, trees: int | None = None) -> AdaptiveDPSOA:
    """A learner after a stream on which its first rule is wrong at every round."""
    noise = SeededNoise(seed)
    learner = AdaptiveDPSOA(
        ls.Points(), epsilon, 1e-6, horizon, seed=seed, noise=noise, trees=trees
    )
    learner.learn_many(np.full(horizon, 7), np.ones(horizon, dtype=bool))
    return learner


def as_predicted(predicted: int | None, measured: float) -> bool:
    """Whether a number of mistakes is within a twentieth of what was predicted."""
    return predicted is not None and abs(measured / predicted - 1) < 0.05


@pytest.mark.parametrize(
    ("epsilon", "horizon", "trees"),
    [(60, 300, None), (30, 600, None), (100, 200, None), (100, 200, 200)],
)
def test_the_mistakes_needed_are_those_made(
    epsilon: float, horizon: int, trees: int | None
) -> None:
    learners = [erring(epsilon, horizon, seed, trees) for seed in range(scaled(5, least=3))]
    plan, measured = learners[0].plan, median(learner.mistakes for learner in learners)
    assert as_predicted(plan.mistakes_needed, measured)
    assert not as_predicted(plan.votes_needed, measured), "planted: a vote for every mistake"


def test_a_plan_that_says_vacuous_learns_nothing_and_the_next_one_does() -> None:
    """Votes alone, the old measure, would call the first of these not vacuous."""
    vacuous, useful = (EveryRoundPlan.of(epsilon, 1e-6, 300) for epsilon in (20, 30))
    assert vacuous.votes_needed < vacuous.horizon
    assert vacuous.vacuous
    assert not useful.vacuous
    assert all(erring(20, 300, seed).hypothesis == ls.NEVER for seed in range(4))
    assert all(erring(30, 300, seed).hypothesis == ls.one_of([7]) for seed in range(4))


def test_too_few_trees_are_vacuous_whatever_comes() -> None:
    plan = EveryRoundPlan.of(30, 1e-6, 600, trees=100)
    assert plan.mistakes_needed is None
    assert plan.vacuous
    assert "vacuous" in str(plan)


def test_batches_may_come_as_columns_as_rows_and_with_columns_to_spare() -> None:
    """Found by the fuzz: the prefix took every batch for one of the shape of its first."""
    rows: list[Any] = [{"m": "a", "n": 1}, {"m": "b"}, {"m": "a"}, {"m": "a", "z": 2}]
    alone = AdaptiveDPSOA(ls.Points("m"), 60, 0.01, 6, seed=1, noise=SeededNoise(1))
    mixed = AdaptiveDPSOA(ls.Points("m"), 60, 0.01, 6, seed=1, noise=SeededNoise(1))
    for row in rows:
        alone.learn_one(row, row["m"] == "a")
    as_objects = np.empty(2, dtype=object)
    as_objects[:] = rows[:2]
    mixed.learn_many(as_objects, [1, 0])
    mixed.learn_many(rows[2:3], [1])
    mixed.learn_many({"m": ["a"], "z": [2]}, [1])
    assert alone.releases == mixed.releases
    assert alone.loop.state.votes == mixed.loop.state.votes
