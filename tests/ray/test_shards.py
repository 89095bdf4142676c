"""A forest in shards: the forest, whatever the number of shards and whichever of them is lost."""

import random
from collections import Counter
from typing import Any, get_args

import pytest
from test_checkpoint import MemoryStore
from test_dpsoa import LENGTH, PLANS, fed, stream_of, users_of

import littlestone as ls
from at_once import AtOnce, How, Pretended, losing
from classes import CASES
from littlestone._learners.forest import Forest
from littlestone._privacy.mechanism import MechanismMoved
from littlestone._privacy.testing import SeededNoise
from littlestone._ray import ClusterLost
from littlestone._ray import shards as sharded
from littlestone._ray.shards import ForestSpec, Shard, ShardRestarted

pytestmark = pytest.mark.filterwarnings("ignore:delta", "ignore:.*after the horizon")


def observable(learner: ls.DPSOA) -> dict[str, Any]:
    """All that must be equal."""
    names = ("releases", "mistakes", "null_rounds", "rounds", "ledger", "spent", "final", "votes")
    return {name: getattr(learner, name) for name in names}


def make(name: str, kind: str, **options: Any) -> ls.DPSOA:
    cls, _ = CASES[name]
    return ls.DPSOA(cls, plan=PLANS[kind](cls), seed=5, noise=SeededNoise(3), **options)


def after(learner: ls.DPSOA, name: str, size: int) -> dict[str, Any]:
    """A learner after a stream in batches of a size."""
    fed(learner, stream_of(name, 0.1, seed=2), users_of(learner.plan), size)
    return observable(learner)


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("name", CASES)
def test_a_forest_in_shards_is_the_forest(name: str, kind: str) -> None:
    here = after(make(name, kind), name, LENGTH)
    for workers, size, watched in ((1, 7, False), (2, LENGTH, True), (3, 1, True), (5, 0, False)):
        engine = Pretended(workers=workers)
        there = make(name, kind, engine=engine, watched=watched)
        assert after(there, name, size) == here
        assert len(engine.cluster.actors) == min(workers, there.plan.trees)


def calls_of(kind: str) -> int:
    """How many calls a run of the next test makes to its shards."""
    calls = Counter[str]()

    def counted() -> bool:
        calls["made"] += 1
        return False

    after(make("points", kind, engine=Pretended("", 2, AtOnce(counted)), watched=True), "points", 9)
    return calls["made"]


def lost(kind: str, fatal: int, how: How) -> dict[str, Any]:
    """A run in which a call goes wrong."""
    engine = Pretended("", 2, losing(fatal, how))
    return after(make("points", kind, engine=engine, watched=True), "points", 9)


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("kind", PLANS)
def test_any_call_to_a_shard_may_go_wrong(kind: str, how: How) -> None:
    here, calls = after(make("points", kind), "points", 9), calls_of(kind)
    assert calls > 20
    for fatal in range(calls):
        assert lost(kind, fatal, how) == here, fatal


def test_a_shard_that_did_not_notice_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a shard that was started again and answers as if nothing had been."""

    def unsuspecting(self: Any, version: int) -> Forest:
        forest: Forest = self._forest
        return forest

    here = after(make("points", "practical"), "points", 9)
    monkeypatch.setattr(Shard, "checked_forest", unsuspecting)
    assert any(lost("practical", fatal, "died") != here for fatal in range(60))


def test_a_message_that_nobody_missed_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: votes are counted, and whether every message arrived is not checked."""
    here = after(make("points", "practical"), "points", 9)
    monkeypatch.setattr(sharded.ShardedForest, "receive", lambda self: None)
    assert any(lost("practical", fatal, "misses") != here for fatal in range(60))


def test_rows_that_were_not_sent_again_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a lost shard is grown from what was kept, without the rows since."""

    def forgetful(self: sharded.ShardedForest) -> None:
        self._since = []
        reset(self)

    reset = sharded.ShardedForest.reset_shards
    here = after(make("points", "practical"), "points", 9)
    monkeypatch.setattr(sharded.ShardedForest, "reset_shards", forgetful)
    assert any(lost("practical", fatal, "dies") != here for fatal in range(60))


@pytest.mark.parametrize("kind", PLANS)
def test_what_was_kept_is_enough(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are kept every few rounds, and whatever came before them is never sent again."""
    monkeypatch.setattr(sharded, "MAX_REPLAYED_ROUNDS", 10)
    here = after(make("points", kind), "points", 9)
    for fatal in range(0, 120, 7):
        there = make("points", kind, engine=Pretended("", 3, losing(fatal, "dies")))
        assert after(there, "points", 9) == here, fatal


@pytest.mark.parametrize("kind", PLANS)
def test_a_learner_moves_between_here_and_there(kind: str) -> None:
    """Saved after every batch and resumed elsewhere: here, in two shards, in three, and so on."""
    name = "points"
    plan, stream = PLANS[kind](CASES[name][0]), stream_of(name, 0.1, seed=2)
    users, memory_store = users_of(plan), MemoryStore()
    grounds = [None, Pretended(workers=2), Pretended(workers=3)]
    learner = make(name, kind, watched=True)
    for turn, at in enumerate(range(0, LENGTH, 10)):
        xs, ys = zip(*stream[at : at + 10], strict=True)
        some = None if users is None else users[at : at + 10]
        learner.learn_many(list(xs), list(ys), some, bad_rows="null")
        memory_store.take(learner)
        learner = make(name, kind, watched=True, engine=grounds[turn % 3])
        learner.resume(memory_store.whole)
    stayed = make(name, kind, watched=True)
    assert observable(learner) == after(stayed, name, 10)
    other = MemoryStore()
    other.take(stayed)
    assert memory_store.parts == other.parts


def test_a_cluster_that_loses_everything_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "PAUSE", 0)
    cluster = AtOnce(lambda: True)
    learner = make("points", "practical", engine=Pretended("", 2, cluster), watched=True)
    with pytest.raises(ClusterLost, match="it has lost trees 12 times in a row"):
        after(learner, "points", 9)


def test_what_goes_wrong_in_a_shard_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go wrong again: it is not done again, and nothing is learned on top of it."""

    def full(self: Shard, *_: object) -> None:
        raise MemoryError("no room for trees")

    monkeypatch.setattr(Shard, "learn", full)
    learner = make("points", "practical", engine=Pretended("", 2))
    with pytest.raises(MemoryError, match="no room for trees"):
        after(learner, "points", 9)
    with pytest.raises(MechanismMoved, match="was interrupted"):
        learner.learn_one(1, 1)


def test_many_small_messages_are_kept_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "MAX_REPLAYED_MESSAGES", 3)
    longest, send = 0, sharded.ShardedForest.send

    def noting(self: sharded.ShardedForest, message: Any) -> None:
        nonlocal longest
        longest = max(longest, len(self._since))
        send(self, message)

    monkeypatch.setattr(sharded.ShardedForest, "send", noting)
    there = make("points", "practical", engine=Pretended(workers=2))
    assert after(there, "points", 1) == after(make("points", "practical"), "points", 1)
    assert longest == 4


def test_a_watched_learner_waits_for_its_shards_once_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps double from 256 rounds on after a firing, so a batch has several; the shards are asked
    for votes at its end, and at firings. The trace has the votes of one process there."""
    asked, call = Counter[str](), sharded.ShardedForest.call_all

    def counted(self: sharded.ShardedForest, method: str) -> list[Any]:
        asked[method] += 1
        return call(self, method)

    monkeypatch.setattr(sharded.ShardedForest, "call_all", counted)
    cls, size, batches = ls.Points(), 4000, 5
    plan = ls.Plan.practical(cls, 1, 1e-6, size * batches)
    draw, traces = random.Random(4), []
    xs = draw.choices("abcdefgh", k=size * batches)
    ys = [(x == "c") != (draw.random() < 0.1) for x in xs]
    for engine in (None, Pretended(workers=2)):
        learner = ls.DPSOA(
            cls, plan=plan, seed=1, noise=SeededNoise(3), watched=True, engine=engine
        )
        for at in range(0, len(xs), size):
            learner.learn_many(xs[at : at + size], ys[at : at + size])
        traces.append({sample.round: sample for sample in learner._trace.samples})
    here, there = traces
    assert there.keys() < here.keys()
    assert there == {number: here[number] for number in there}
    assert {*range(size, len(xs) + 1, size)} <= there.keys()
    assert all(sample.votes for sample in there.values())
    firings = sum(entry.keep for entry in learner._trace._entries)
    assert firings > 1
    assert asked["votes"] <= batches + firings


def test_a_shard_that_knows_nothing_says_so() -> None:
    cls, _ = CASES["points"]
    shard = Shard(ForestSpec(cls, (1, 1, 1), 7, "learns", False), range(1, 3))
    for asked in (shard.votes, shard.changed):
        with pytest.raises(ShardRestarted):
            asked(1)
    shard.reset(1, 0, None, {})
    assert sum(shard.votes(1).values()) == 2
    with pytest.raises(ShardRestarted):
        shard.votes(2)


def test_rows_of_trees_without_an_error_stay_where_they_are() -> None:
    """Only the rows of trees on which the rule of the epoch has erred are sent to anybody."""
    sent = 0

    class Counting(Shard):
        def learn(self, version: int, rows: Any) -> None:
            nonlocal sent
            sent += len(rows)
            super().learn(version, rows)

    cls = ls.Points()
    plan = ls.Plan.practical(cls, 1, 1e-9, 10_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "Shard", Counting)
        learner = ls.DPSOA(cls, plan=plan, seed=1, engine=Pretended(workers=2))
        learner.learn_many(["b"] * 5000, [0] * 5000)
        assert sent == 0
        learner.learn_many(["a"] + ["b"] * 4999, [1] + [0] * 4999)
        _ = learner.votes
    assert 0 < sent < 5000 / plan.trees * 3
