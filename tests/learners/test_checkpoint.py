"""Saving: a learner that moves to a new object after every batch is the learner that stayed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from test_dpsoa import PLANS, Example, stream_of, users_of
from test_experts import PLANS as EXPERTS_PLANS
from test_experts import plan_for

import littlestone as ls
from classes import CASES
from littlestone._learners.base import Checkpoint, PrivateLearner
from littlestone._learners.loop import ChangedState
from littlestone._learners.trace import Entry, Thinned
from littlestone._privacy.mechanism import MechanismMoved
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import Mirror
from littlestone.paper import AdaptiveDPSOA, PaperDPSOA

pytestmark = pytest.mark.filterwarnings("ignore:delta")

Learner = ls.DPSOA | ls.PrivateExperts | AdaptiveDPSOA | PaperDPSOA


class MemoryStore:
    """Keeps a learner as a store would: parts by number, everything else as JSON."""

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.users: dict[int, int] = {}
        self.trace: dict[tuple[bool, int], Entry] = {}
        self.written = 0

    def take(self, learner: PrivateLearner) -> None:
        """Keep what has changed of a learner."""
        with learner.checkpoint() as saved:
            self._keep(saved)

    def _keep(self, saved: Checkpoint) -> None:
        if saved.memory.cleared:
            self.parts.clear()
        self.parts |= saved.memory.parts
        self.users |= saved.users
        for place in saved.trace.gone:
            del self.trace[place]
        self.trace |= {entry.place: entry for entry in saved.trace.new}
        self.written += len(saved.memory.parts)
        self.rest = saved._replace(state=json.loads(json.dumps(saved.state)))

    @property
    def whole(self) -> Checkpoint:
        entries = sorted(self.trace.values(), key=lambda entry: (entry.sample.round, entry.keep))
        return self.rest._replace(
            memory=ChangedState(True, dict(self.parts)),
            users=dict(self.users),
            trace=Thinned((), tuple(entries)),
        )


def fed(learner: Learner, stream: list[Example], users: list[object] | None) -> None:
    xs, ys = zip(*stream, strict=True)
    who = {} if users is None else {"users": users}
    learner.learn_many(list(xs), list(ys), bad_rows="null", **who)


def moved(make: Callable[[], Learner], stream: list[Example], users: Any, size: int) -> Learner:
    """Fed in batches; after each the learner is kept, thrown away and resumed."""
    memory_store, learner = MemoryStore(), make()
    for at in range(0, len(stream), size):
        fed(learner, stream[at : at + size], None if users is None else users[at : at + size])
        memory_store.take(learner)
        learner = make()
        learner.resume(memory_store.whole)
    return learner


def same(make: Callable[[], Learner], stream: list[Example], users: Any = None) -> Learner:
    stayed = make()
    fed(stayed, stream, users)
    for size in (1, 7, 50):
        went = moved(make, stream, users, size)
        for name in ("releases", "mistakes", "null_rounds", "rounds", "ledger", "spent", "final"):
            assert getattr(went, name) == getattr(stayed, name), name
        one, other = MemoryStore(), MemoryStore()
        one.take(went)
        other.take(stayed)
        for name in ("rounds", "null_rounds", "gate", "loop"):
            assert one.rest.state[name] == other.rest.state[name], name
        assert went.trace[-1] == stayed.trace[-1]
    return stayed


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_a_forest_that_moves_is_the_forest_that_stayed(name: str, kind: str) -> None:
    cls, _ = CASES[name]
    plan = PLANS[kind](cls)
    stream = stream_of(name, 0.1, seed=2)
    same(lambda: ls.DPSOA(cls, plan=plan, seed=5, noise=SeededNoise(3)), stream, users_of(plan))


@pytest.mark.parametrize("name", [name for name, (cls, _) in CASES.items() if cls.size is not None])
@pytest.mark.parametrize("kind", ["tracking", "staying, costs"])
def test_experts_that_move_are_the_experts_that_stayed(name: str, kind: str) -> None:
    cls, _ = CASES[name]
    plan, stream = plan_for(cls, **EXPERTS_PLANS[kind]), stream_of(name, 0.2, seed=3)
    stayed = same(lambda: ls.PrivateExperts(cls, plan=plan, seed=5, noise=SeededNoise(3)), stream)
    assert len(stayed.ledger) > 3


def test_a_batch_saves_what_it_touched() -> None:
    plan = ls.Plan.practical(ls.Points(), 1, 1e-9, 10_000)
    learner, memory_store = ls.DPSOA(ls.Points(), plan=plan, seed=1), MemoryStore()
    learner.learn_many(["a"] * 5, [1] * 5)
    memory_store.take(learner)
    assert 0 < memory_store.written <= 5
    learner.learn_many(["b"] * 100, [0] * 100)
    memory_store.take(learner)
    assert memory_store.written <= 5


def test_a_learner_that_could_not_be_kept_learns_no_more() -> None:
    learner = ls.DPSOA(ls.Points(), 1, 1e-9, 100)
    learner.learn_one("a", 1)

    with pytest.raises(OSError, match="disk full"), learner.checkpoint():
        raise OSError("disk full")
    with pytest.raises(MechanismMoved):
        learner.learn_one("a", 1)
    with pytest.raises(MechanismMoved), learner.checkpoint():
        pass
    with (
        pytest.raises(MechanismMoved, match="saving its state failed"),
        learner.loop.gate.checkpoint(),
    ):
        pass


def test_nothing_is_learned_while_a_checkpoint_is_saved() -> None:
    """What the block saves would not be what the learner is after it."""
    learner = ls.DPSOA(ls.Points(), 1, 1e-9, 100)
    with learner.checkpoint():
        with pytest.raises(MechanismMoved):
            learner.learn_one("a", 1)
        with pytest.raises(MechanismMoved), learner.loop.gate.checkpoint():
            pass
    learner.learn_one("a", 1)
    assert learner.rounds == 1


def test_a_checkpoint_that_is_never_left_is_the_last_step() -> None:
    """A thread that ended inside of the block may have saved, or not."""
    learner = ls.DPSOA(ls.Points(), 1, 1e-9, 100)
    learner.checkpoint().__enter__()
    with pytest.raises(MechanismMoved):
        learner.learn_one("a", 1)


def test_only_a_fresh_learner_of_the_same_promise_resumes() -> None:
    memory_store = MemoryStore()
    learner = ls.DPSOA(ls.Points(), 1, 1e-9, 100)
    learner.learn_one("a", 1)
    memory_store.take(learner)
    with pytest.raises(BadParameter, match="not begun"):
        learner.resume(memory_store.whole)
    for other in (ls.DPSOA(ls.Points(), 2, 1e-9, 100), ls.DPSOA(ls.Points(), 1, 1e-8, 100)):
        with pytest.raises(BadParameter, match="the state belongs to"):
            other.resume(memory_store.whole)
        with pytest.raises(MechanismMoved):
            other.learn_one("a", 1)


def test_what_is_saved_holds_no_noise_that_was_not_used() -> None:
    """A resumed learner draws its own: two that resume one state part ways."""
    memory_store = MemoryStore()
    learner = ls.DPSOA(ls.Points(), 1, 1e-9, 10_000, seed=1)
    learner.learn_many(["a"] * 40, [1] * 40)
    memory_store.take(learner)
    rounds = set()
    for _ in range(60):
        again = ls.DPSOA(ls.Points(), 1, 1e-9, 10_000, seed=1)
        again.resume(memory_store.whole)
        again.learn_many(["a"] * 200, [1] * 200)
        rounds.add(again.releases[1].round)
    assert len(rounds) > 1


@pytest.mark.parametrize(
    "cls", [ls.Rules(["a", "b", "c"]), ls.Intervals(1, 6)], ids=["rules", "intervals"]
)
def test_where_epochs_begin_is_restored_from_the_releases(cls: ls.HypothesisClass) -> None:
    """It depends on all published rules, not on the last alone, and is not saved."""

    def make() -> ls.DPSOA:
        return ls.DPSOA(cls, 8, 1e-3, 2_000, seed=3, noise=SeededNoise(4))

    learner, adversary, stream = make(), Mirror(cls), list[Example]()
    for _ in range(400):
        move = adversary.challenge(learner.hypothesis)
        assert move is not None
        stream.append(move)
        learner.learn_one(*move)
    assert len(learner.releases) > 3
    assert same(make, stream).releases == learner.releases
