"""A shard: some trees of a forest, in an actor. A machine, not a spender; it knows no noise.

Every call says which sowing it is for. A shard that was lost and started again by Ray knows of
none, and says so, whatever it is asked.

A forest in shards: what a learner's driver holds in the place of the trees.

A tree that only holds the rule that its epoch began with is surprised by nothing but that rule's
errors. So the driver marks the trees on which that rule has erred; the rows of all others stay
where they are. Rows are sent on without waiting, a few errands ahead, and votes are counted
together when somebody asks.

Promises: the same votes and changes as one forest, whatever the number of shards. A shard that is
lost is sown again from what was kept of it (what was committed, or more) and shown the rows since;
so are all if one errand fails. The gate never notices: a forest draws no noise.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from littlestone.classes.base import HypothesisClass, predict_rows
from littlestone.data.blocks import ColumnSchema
from littlestone.hypotheses.base import Hypothesis
from littlestone.hypotheses.kinds import rule_from_json
from littlestone.hypotheses.rows import Batch
from littlestone.hypotheses.values import Mask
from littlestone.learners.base import ChangedState, StateData
from littlestone.learners.forest import Forest, Root, Routes, VoteChange
from littlestone.learners.rounds import Rounds
from littlestone.privacy.parameters import BadParameter
from littlestone.ray.cluster import ClusterLost, Ray, cause_of
from littlestone.ray.rows import RemoteRounds, ShardRequest, StoredRows


class ShardRestarted(Exception):
    """A shard was started again, and knows nothing."""


class ForestSpec(NamedTuple):
    """What a forest grows from."""

    cls: HypothesisClass
    leaves: tuple[int, ...]
    seed: int
    root: Root
    replant: bool

    def create(self, share: range) -> Forest:
        """The trees of a share."""
        return Forest(
            self.cls, self.leaves, self.seed, root=self.root, replant=self.replant, share=share
        )


class Shard:
    """The trees of a share."""

    def __init__(self, seeds: ForestSpec, share: range) -> None:
        self._seeds, self._share = seeds, share
        self._forest = seeds.create(share)
        self._sowing = 0

    def reset(
        self, sowing: int, epoch: int, published: Hypothesis | None, parts: Mapping[int, bytes]
    ) -> None:
        """Begin an epoch, with some of the trees grown as far as they were kept."""
        if published is None:
            self._forest = self._seeds.create(self._share)
        else:
            self._forest.begin_epoch(epoch, published)
        self._forest.regrow(parts)
        self._sowing = sowing

    def learn(self, sowing: int, rows: Rounds, told: bool) -> list[VoteChange]:
        """Show the trees some rows of theirs; the changes, by the numbers of the rows, if told."""
        changes = rows.update(self._sown(sowing))
        if not told:
            return []
        return [change._replace(row=rows.number_of(change.row)) for change in changes]

    def fetch(
        self, sowing: int, wanted: ColumnSchema, spread: list[Any], place: int, told: bool
    ) -> list[VoteChange]:
        """Show the trees the rows that were put by for them, at a place of a list."""
        import ray

        self._sown(sowing)
        put: StoredRows = ray.get(spread[place])
        return self.learn(sowing, put.rounds(wanted), told)

    def votes(self, sowing: int) -> Counter[Hypothesis]:
        """How many of the trees vote for each rule."""
        return Counter(self._sown(sowing).votes)

    def standing(self, sowing: int) -> list[Hypothesis | None]:
        """What each of the trees votes for."""
        return self._sown(sowing).standing

    def changed(self, sowing: int) -> dict[int, bytes]:
        """The trees that have changed since this was asked last, for keeping."""
        return self._sown(sowing).unsaved().parts

    def _sown(self, sowing: int) -> Forest:
        if self._sowing != sowing:
            raise ShardRestarted
        return self._forest


MOST_UNDER_WAY = 8
"""How many errands a shard may be behind: more rows wait where they are."""
MOST_SINCE = 1 << 20
"""How many rounds may have to be shown again to a shard that is lost."""
MOST_MESSAGES = 1000
"""In how many errands."""
MOST_TRIES, PAUSE = 12, 0.1
"""How often shards are sown again before the cluster is given up, and how many seconds it is left
alone before the third time; then for twice as long each time: some three minutes in all."""


@dataclass
class Message:
    """Rows for the shards; the answers to come, and what they were. Only if `told`, the changes of
    votes are among them."""

    rows: list[Rounds] | RemoteRounds
    told: bool = False
    answers: list[Any] = field(default_factory=list)
    changes: list[list[VoteChange]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many rounds, at most."""
        return sum(r.size for r in self.rows) if isinstance(self.rows, list) else self.rows.size


class ShardedForest:
    """The trees of a forest, on a cluster."""

    def __init__(self, engine: Ray, seeds: ForestSpec) -> None:
        self._ray, self.cls, self._seeds = engine.connected(), seeds.cls, seeds
        trees, start = len(seeds.leaves), seeds.cls.hypothesis(seeds.cls.start())
        if start is None:
            raise BadParameter(f"{seeds.cls!r} has no rule before any example")
        count = min(engine.count(), trees)
        self.bounds = [trees * place // count for place in range(count + 1)]
        actor = self._ray.remote(Shard).options(
            num_cpus=0, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self.shards = [actor.remote(seeds, range(*ends)) for ends in pairwise(self.bounds)]
        self.epoch = 0
        self._from: Hypothesis | None = None
        self._sowings = 0
        self._begin(start)

    def _begin(self, rule: Hypothesis) -> None:
        """All trees hold one rule, and no shard knows of it yet."""
        self._rule = rule
        self.marked = np.zeros(len(self._seeds.leaves), dtype=bool)
        self._sown, self._cleared = False, True
        self._kept: dict[int, bytes] = {}
        self._unsaved: set[int] = set()
        self._since: list[Message] = []
        self._heard = self._rounds_since = 0
        self._waiting: Message | None = None
        self._votes: Counter[Hypothesis] | None = Counter({rule: len(self._seeds.leaves)})

    def restart(self, published: Hypothesis) -> None:
        """Begin an epoch: every tree anew, from the published rule."""
        self.epoch, self._from = self.epoch + 1, published
        self._begin(published)

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """How many trees vote for each rule. Private."""
        if self._votes is None:
            self._votes = sum(self._asked("votes"), Counter[Hypothesis]())
        return self._votes

    @property
    def ballot(self) -> Mapping[bytes, int]:
        """The votes by key. Private."""
        return {rule.key: votes for rule, votes in self.votes.items()}

    @property
    def standing(self) -> Sequence[Hypothesis | None]:
        """What each tree votes for, in their order. Private."""
        if not self._sown and self._waiting is None:
            return [self._rule] * len(self._seeds.leaves)
        return [vote for shard in self._asked("standing") for vote in shard]

    def named(self, key: bytes) -> Hypothesis:
        """The rule of a key that some tree votes for."""
        return next(rule for rule in self.votes if rule.key == key)

    def may_err(self, x: object, y: bool, right: Hypothesis) -> bool:
        """Whether a row that `right` is known to get right could matter."""
        return bool(right != self._rule or self.marked.any())

    def share(self) -> ShardRequest:
        """Whose rows are wanted, and by whom."""
        return ShardRequest(self._seeds.seed, self.marked.copy(), self.bounds)

    def learn(self, batch: Batch, answers: Mask, routes: Routes) -> Iterator[VoteChange]:
        """Show the forest a batch that is here; the changes of votes, in the order of the rows.

        Nobody waits for the changes unless they are asked for.
        """
        share, wrong = self.share(), predict_rows(self.cls, self._rule, batch) != answers
        self.marked[share.trees_of(routes[wrong])] = True
        if not self.marked.any():
            return iter(())
        trees = share.trees_of(routes)
        every = Rounds(batch, answers, np.arange(len(answers)), routes)
        errand = Message(
            [
                every.taken(np.flatnonzero((trees >= first) & (trees < end) & self.marked[trees]))
                for first, end in pairwise(self.bounds)
            ]
        )
        return self._take(errand)

    def learn_remote(self, rounds: RemoteRounds) -> Iterator[VoteChange]:
        """Show the forest rounds that are elsewhere; the changes of votes, in their order."""
        if not self.marked.all():
            self.marked[self.share().trees_of(rounds.wrong_routes(self._rule))] = True
        return self._take(Message(rounds)) if self.marked.any() else iter(())

    def _take(self, errand: Message) -> Iterator[VoteChange]:
        """Note an errand; the one before is sent, unless the two are one."""
        joined = self._waiting and _joined(self._waiting, errand)
        if not joined:
            self._dispatch()
            if self._rounds_since > MOST_SINCE or len(self._since) > MOST_MESSAGES:
                self._keep()
        self._waiting, self._votes = joined or errand, None
        return self._changes(self._waiting)

    def _changes(self, errand: Message) -> Iterator[VoteChange]:
        """The changes, for one who asks before more rows come."""
        errand.told = True
        self._asked(None)
        yield from sorted(change for answer in errand.changes for change in answer)

    def _asked(self, what: str | None) -> list[Any]:
        """What every shard says, after all rows so far; those that are lost are sown again."""
        for again in range(MOST_TRIES):
            try:
                if again:
                    time.sleep(PAUSE * (2 ** (again - 1) - 1))
                    self._sow()
                self._dispatch()
                self._hear()
                return self._ask(what)
            except (ShardRestarted, self._ray.exceptions.RayError) as error:
                lost = cause_of(self._ray, error)
                if not isinstance(lost, ShardRestarted | self._ray.exceptions.RayError):
                    raise lost from error
        raise ClusterLost(f"it has lost trees {MOST_TRIES} times in a row", lost)

    def _hear(self) -> None:
        """Have the answer to every errand: a shard that is well may have missed one."""
        new = self._since[self._heard :]
        found = iter(self._ray.get([answer for errand in new for answer in errand.answers]))
        for errand in new:
            errand.changes = list(islice(found, len(errand.answers)))
        self._heard = len(self._since)

    def _ask(self, what: str | None) -> list[Any]:
        if what is None:
            return []
        asked = [getattr(shard, what).remote(self._sowings) for shard in self.shards]
        return list(self._ray.get(asked))

    def _sow(self) -> None:
        """Bring every shard to what was kept of its trees, and send the rows since again."""
        self._sowings += 1
        for shard, ends in zip(self.shards, pairwise(self.bounds), strict=True):
            kept = {n: part for n, part in self._kept.items() if ends[0] <= n < ends[1]}
            shard.reset.remote(self._sowings, self.epoch, self._from, kept)
        self._sown, self._heard = True, 0
        for errand in self._since:
            self._send(errand)

    def _dispatch(self) -> None:
        """Send what is waiting."""
        if self._waiting is None:
            return
        errand, self._waiting = self._waiting, None
        if not self._sown:
            self._sow()
        self._since.append(errand)
        self._rounds_since += errand.size
        self._send(errand)
        if len(self._since) > MOST_UNDER_WAY and (due := self._since[-MOST_UNDER_WAY].answers):
            self._ray.wait(due, num_returns=len(due), fetch_local=False)

    def _send(self, errand: Message) -> None:
        if isinstance(errand.rows, list):
            pairs = zip(self.shards, errand.rows, strict=True)
            sent = [
                shard.learn.remote(self._sowings, rows, errand.told)
                for shard, rows in pairs
                if rows.size
            ]
        else:
            wanted, spread = errand.rows.wanted_there, errand.rows.scatter(self.share())
            sent = [
                shard.fetch.remote(self._sowings, wanted, spread, place, errand.told)
                for place, shard in enumerate(self.shards)
                if self.marked[self.bounds[place] : self.bounds[place + 1]].any()
            ]
        errand.answers = sent

    def _keep(self) -> None:
        """Have the trees that have changed kept here: what came before need not be shown again."""
        if self._since or self._waiting is not None:
            for parts in self._asked("changed"):
                self._kept |= parts
                self._unsaved |= parts.keys()
            self._since, self._heard, self._rounds_since = [], 0, 0

    def get_state(self) -> StateData:
        """The epoch, and the rule that it began with."""
        return {"epoch": self.epoch, "from": None if self._from is None else self._from.to_json()}

    def unsaved(self) -> ChangedState:
        """The trees that have learned something since this was asked last."""
        self._keep()
        found = ChangedState(self._cleared, {n: self._kept[n] for n in sorted(self._unsaved)})
        self._cleared, self._unsaved = False, set()
        return found

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Grow the trees that were saved, each from what it was taught."""
        if live["from"] is not None:
            published = rule_from_json(live["from"])
            self.epoch, self._from = live["epoch"], published
            self._begin(published)
        self._kept, self._cleared, self._votes = dict(parts), False, None
        self.marked[list(parts)] = True
        self._sow()


def _joined(one: Message, other: Message) -> Message | None:
    """Two errands as one, where the rounds follow each other in one block."""
    if isinstance(one.rows, list) or isinstance(other.rows, list):
        return None
    rows = one.rows.followed_by(other.rows)
    return None if rows is None else Message(rows)
