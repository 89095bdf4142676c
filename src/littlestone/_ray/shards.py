"""The forest in shards: trees in actors, and what the driver holds in the place of the trees.

A tree that holds only the rule with which its epoch began changes only at that rule's mistakes. So
the driver keeps which trees are *active*: those on which that rule has erred. Rows of other trees
are not sent. Messages are sent without waiting, a few ahead, and votes are counted when they are
needed.

Promises: the same votes as one forest, whatever the number of shards. A lost shard is
reset to its saved trees (what was committed, or later) and given the rows since; all shards are, if
one message fails. The gate does not notice, because a forest draws no noise (docs/guarantee.md,
Theorem 13). Every call carries the version of the last reset: a shard that Ray has restarted knows
of none, and raises `ShardRestarted`.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import Any, NamedTuple

import numpy as np

from littlestone._classes.base import HypothesisClass, predict_rows
from littlestone._data.rounds import Rounds
from littlestone._hypotheses.rules import Hypothesis, rule_from_json
from littlestone._hypotheses.values import Mask
from littlestone._learners.forest import EpochStart, Forest, Root, Routes, trees_of
from littlestone._learners.loop import ChangedState, StateData
from littlestone._learners.tree import Indices
from littlestone._privacy.parameters import BadParameter
from littlestone._ray.cluster import ClusterLost, Ray, task_cause
from littlestone._ray.rows import RemoteRounds


class ShardRestarted(Exception):
    """Report a shard that was restarted, and has lost its trees."""


class ForestSpec(NamedTuple):
    """Hold what a forest is made from."""

    cls: HypothesisClass
    leaves: tuple[int, ...]
    seed: int
    root: Root
    replant: bool

    def create(self, share: range) -> Forest:
        """Return a forest with some of the trees."""
        return Forest(
            self.cls, self.leaves, self.seed, root=self.root, replant=self.replant, share=share
        )


class Shard:
    """Grow some trees of a forest, in an actor. It draws no noise."""

    def __init__(self, spec: ForestSpec, share: range) -> None:
        self._spec, self._share = spec, share
        self._forest = spec.create(share)
        self._version = 0

    def reset(
        self, version: int, epoch: int, start: EpochStart | None, parts: Mapping[int, bytes]
    ) -> None:
        """Begin an epoch."""
        if start is None:
            self._forest = self._spec.create(self._share)
        else:
            self._forest.begin_epoch(epoch, start)
        self._forest.regrow(parts)
        self._version = version

    def learn(self, version: int, rounds: Rounds) -> None:
        """Learn rounds."""
        # A message to an earlier version must not reach the trees: its rows are sent again.
        self.checked_forest(version).learn(rounds)

    def votes(self, version: int) -> Counter[Hypothesis]:
        """Return how many of the trees vote for each rule."""
        return Counter(self.checked_forest(version).votes)

    def changed(self, version: int) -> dict[int, bytes]:
        """Return the states of the trees that have changed since the last call, to be saved."""
        return self.checked_forest(version).unsaved().parts

    def checked_forest(self, version: int) -> Forest:
        if self._version != version:
            raise ShardRestarted
        return self._forest


class Share(NamedTuple):
    """Specify which trees are active, and in which shards they are."""

    seed: int
    active: Mask
    bounds: list[int]

    def trees_of(self, routes: Routes) -> Indices:
        """Return the tree of each route."""
        return trees_of(self.seed, len(self.active), routes)

    def split(self, rounds: Rounds) -> list[Rounds]:
        """Return the rounds of active trees, for each shard its own."""
        trees = self.trees_of(rounds.routes())
        active = self.active[trees]
        return [
            rounds.taken(np.flatnonzero(active & (trees >= first) & (trees < end)))
            for first, end in pairwise(self.bounds)
        ]


def scatter(
    rounds: Rounds, begin: int, end: int, shift: int, within: Mask | None, share: Share
) -> Any:
    """Return the rounds of a block, from place `begin` up to `end`, that each shard needs."""
    numbered = rounds.numbered(shift, within).between(begin + shift, end + shift)
    parts = share.split(numbered)
    return parts if len(parts) > 1 else parts[0]


# How many messages a shard may be behind.
MAX_PENDING = 8
# How much may have to be sent again to a lost shard: rounds, and messages.
MAX_REPLAYED_ROUNDS, MAX_REPLAYED_MESSAGES = 1 << 20, 1000
# How often shards are reset before the cluster is given up, and the pause in seconds before the
# third time, which doubles each time: some three minutes in all.
MAX_TRIES, PAUSE = 12, 0.1


@dataclass
class Message:
    """Hold rows for the shards, and their replies."""

    rows: list[Rounds] | RemoteRounds
    refs: list[Any] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the number of rounds, at most."""
        return sum(map(len, self.rows)) if isinstance(self.rows, list) else len(self.rows)


class ShardedForest:
    """Grow the trees of a forest on a cluster."""

    def __init__(self, engine: Ray, spec: ForestSpec) -> None:
        self._ray, self.cls, self._spec = engine.connected(), spec.cls, spec
        trees, start = len(spec.leaves), spec.cls.hypothesis(spec.cls.start())
        if start is None:
            raise BadParameter(f"{spec.cls!r} has no rule before any example")
        count = min(engine.count(), trees)
        self.bounds = [trees * place // count for place in range(count + 1)]
        # Ray restarts a lost actor, but repeats no call: only the driver knows which rows are due.
        actor = self._ray.remote(Shard).options(
            num_cpus=0, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self._scatter = self._ray.remote(scatter).options(num_returns=count)
        self.shards = [actor.remote(spec, range(*ends)) for ends in pairwise(self.bounds)]
        self.epoch = 0
        self._from: Hypothesis | None = None
        self._start = EpochStart.first(spec.cls)
        self._version = 0
        self._begin(start)

    def _begin(self, rule: Hypothesis) -> None:
        """Let all trees hold one rule; no shard is asked before one of them is active."""
        self._rule = rule
        self.active = np.zeros(len(self._spec.leaves), dtype=bool)
        self._is_reset, self._cleared = False, True
        self._saved: dict[int, bytes] = {}
        self._unsaved: set[int] = set()
        self._since: list[Message] = []
        self._received = self._rounds_since = 0
        self._waiting: Message | None = None
        self._votes: Counter[Hypothesis] | None = Counter({rule: len(self._spec.leaves)})

    def restart(self, published: Hypothesis) -> None:
        """Implement `Forest.restart`: every tree anew, from the published rule."""
        self.publish(published)
        self.epoch, self._from = self.epoch + 1, published
        self._begin(published)

    def publish(self, rule: Hypothesis) -> None:
        """Implement `Forest.publish`: the start of an epoch may depend on all published rules."""
        self._start = self._start.after(self._spec.cls, rule)

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule. Private."""
        if self._votes is None:
            self._votes = sum(self.call_all("votes"), Counter[Hypothesis]())
        return self._votes

    @property
    def ballot(self) -> Mapping[bytes, int]:
        """Return the votes by key. Private."""
        return {rule.key: votes for rule, votes in self.votes.items()}

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that some tree votes for."""
        return next(rule for rule in self.votes if rule.key == key)

    def share(self) -> Share:
        """Return which trees are active, and in which shards they are."""
        return Share(self._spec.seed, self.active.copy(), self.bounds)

    def learn(self, rounds: Rounds | RemoteRounds) -> None:
        """Learn rounds, wherever they are."""
        # Active first: a row on which the epoch's rule errs is itself sent to its tree.
        if not self.active.all():
            self.active[self.share().trees_of(self._wrong_routes(rounds))] = True
        if self.active.any():
            rows = self.share().split(rounds) if isinstance(rounds, Rounds) else rounds
            self._enqueue(Message(rows))

    def _wrong_routes(self, rounds: Rounds | RemoteRounds) -> Routes:
        """Return the routes of the rounds that the epoch's rule gets wrong."""
        if isinstance(rounds, RemoteRounds):
            return rounds.wrong_routes(self._rule)
        wrong = predict_rows(self.cls, self._rule, rounds.columns) != rounds.answers
        routes: Routes = rounds.routes()[wrong]
        return routes

    def _enqueue(self, message: Message) -> None:
        """Keep a message, and send the one before it, unless both can be joined."""
        # Small windows of one block are joined: a message costs milliseconds, whatever its size.
        joined = self._waiting and _join(self._waiting, message)
        if not joined:
            self._dispatch()
            if self._rounds_since > MAX_REPLAYED_ROUNDS or len(self._since) > MAX_REPLAYED_MESSAGES:
                self._save_changed()
        self._waiting, self._votes = joined or message, None

    def call_all(self, method: str) -> list[Any]:
        """Return the results of a method of every shard, after all rows so far."""
        for again in range(MAX_TRIES):
            try:
                if again:
                    # Not at once: a node needs time to come back, and trying costs little.
                    time.sleep(PAUSE * (2 ** (again - 1) - 1))
                    self.reset_shards()
                self._dispatch()
                self.receive()
                calls = [getattr(shard, method).remote(self._version) for shard in self.shards]
                return list(self._ray.get(calls))
            except (ShardRestarted, self._ray.exceptions.RayError) as error:
                lost = task_cause(self._ray, error)
                if not isinstance(lost, ShardRestarted | self._ray.exceptions.RayError):
                    raise lost from error
        raise ClusterLost(f"it has lost trees {MAX_TRIES} times in a row", lost)

    def receive(self) -> None:
        """Wait for the reply to every message: a shard that is alive may have missed one."""
        new = self._since[self._received :]
        self._ray.get([ref for message in new for ref in message.refs])
        self._received = len(self._since)

    def reset_shards(self) -> None:
        """Reset every shard to its saved trees, and send the rows since again."""
        self._version += 1
        for shard, ends in zip(self.shards, pairwise(self.bounds), strict=True):
            saved = {n: part for n, part in self._saved.items() if ends[0] <= n < ends[1]}
            start = None if self._from is None else self._start
            shard.reset.remote(self._version, self.epoch, start, saved)
        self._is_reset, self._received = True, 0
        for message in self._since:
            self.send(message)

    def _dispatch(self) -> None:
        """Send the message that waits."""
        if self._waiting is None:
            return
        message, self._waiting = self._waiting, None
        if not self._is_reset:
            self.reset_shards()
        self._since.append(message)
        self._rounds_since += message.size
        self.send(message)
        if len(self._since) > MAX_PENDING and (due := self._since[-MAX_PENDING].refs):
            self._ray.wait(due, num_returns=len(due), fetch_local=False)

    def send(self, message: Message) -> None:
        if isinstance(message.rows, list):
            parts: list[Any] = message.rows
            needed = [len(part) > 0 for part in parts]
        else:
            parts = self._scattered(message.rows)
            needed = [bool(self.active[first:end].any()) for first, end in pairwise(self.bounds)]
        message.refs = [
            shard.learn.remote(self._version, part)
            for shard, part in compress(zip(self.shards, parts, strict=True), needed)
        ]

    def _scattered(self, rounds: RemoteRounds) -> list[Any]:
        """Return references to what the shards need of remote rounds, for each shard its own."""
        where = rounds.begin, rounds.end, rounds.shift, rounds.within
        refs = self._scatter.remote(rounds.block.rounds, *where, self.share())
        return [refs] if len(self.shards) == 1 else list(refs)

    def _save_changed(self) -> None:
        """Fetch the trees that have changed: rows before now need not be sent again."""
        if self._since or self._waiting is not None:
            # `changed` also waits for all rows sent so far, so the saved trees include them.
            for parts in self.call_all("changed"):
                self._saved |= parts
                self._unsaved |= parts.keys()
            self._since, self._received, self._rounds_since = [], 0, 0

    def get_state(self) -> StateData:
        """Implement `get_state`: the epoch, and the rule that it began with."""
        return {"epoch": self.epoch, "from": None if self._from is None else self._from.to_json()}

    def unsaved(self) -> ChangedState:
        """Implement `unsaved`: the trees that have changed since the last call."""
        self._save_changed()
        found = ChangedState(self._cleared, {n: self._saved[n] for n in sorted(self._unsaved)})
        self._cleared, self._unsaved = False, set()
        return found

    def load_state(self, state: StateData, parts: Mapping[int, bytes]) -> None:
        """Implement `load_state`: reset the shards to the saved trees."""
        if state["from"] is not None:
            published = rule_from_json(state["from"])
            self.publish(published)
            self.epoch, self._from = state["epoch"], published
            self._begin(published)
        self._saved, self._cleared, self._votes = dict(parts), False, None
        # A saved tree differs from the rule of its epoch, so any row may change it.
        self.active[list(parts)] = True
        self.reset_shards()


def _join(one: Message, other: Message) -> Message | None:
    """Return two messages as one, if their rounds follow each other in one block."""
    if isinstance(one.rows, list) or isinstance(other.rows, list):
        return None
    rows = one.rows.followed_by(other.rows)
    return None if rows is None else Message(rows)
