"""Run a learner state and a gate through the rounds, in batches.

What is published depends on the rounds, the random bits and the noise, not on how the rounds were
batched. Between checks nothing is published, so a batch is processed at once: the counts that the
gate reads are computed for all checks, the gate runs over them up to its first firing, and what
comes after the firing is processed again.

- `EpochRunner`: the mistakes of the published rule decide when to release. At every firing the
  state starts again from the published rule, so monitor and selector read the rounds of their own
  epoch only, and epochs compose in parallel (docs/guarantee.md, Theorems 7 and 10). The state is
  read at firings only. With `lazy` rounds are buffered and learned before the first read: where a
  public restart comes first, most are never learned, and noisy labels cost next to nothing. A
  watched runner reads it at the end of every batch as well.
- `SettlingRunner`: the same with the forest of DPSOA and a gate that settles. In epochs that compare
  known rules it counts their mistakes, and the forest rests.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from littlestone._classes.base import HypothesisClass, kinds_of, predict_row
from littlestone._hypotheses.rows import Batch, as_batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.base import Checkpointable, Release, StateData
from littlestone._learners.rounds import Numbers, RoundBatch, Rounds
from littlestone._learners.tuning import fallbacks_of, is_narrower
from littlestone._privacy.gates import Gate
from littlestone._privacy.gates import Scores as Ballot
from littlestone._privacy.settling import Settling
from littlestone.errors import BadExample

# The rounds of one step: few after a firing, since the next may be near, then twice as many each
# time, up to what fits the processor's cache where the trees are in this process.
FIRST_WINDOW, LARGEST_WINDOW = 256, 1 << 14

# The most rounds that are buffered: memory does not grow with the stream.
MOST_BUFFERED = 1 << 18
# The most rounds that are kept one by one before they become a batch.
MOST_SINGLE = 1 << 10

# Called with the number of rounds before a rule, and the rule. What it gets is the decision of a
# gate: nothing else may be passed to it.
Publish = Callable[[int, Hypothesis], None]

# Called with the number of rounds so far, the votes, and whether the gate has fired. Private.
BallotWatcher = Callable[[int, Mapping[Hypothesis, int], bool], None]


BallotOut = TypeVar("BallotOut", covariant=True)


class EpochState(Checkpointable, Protocol[BallotOut]):
    """Describe the state of an epoch: a forest, or the mistakes of every rule. Private."""

    cls: HypothesisClass

    @property
    def ballot(self) -> BallotOut:
        """Return the scores for the selector."""

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many votes each rule has, for the data owner."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> object:
        """Learn a batch of rounds."""

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that the selector released."""

    def restart(self, published: Hypothesis) -> None:
        """Discard all rounds, and start from the published rule."""


class EpochRunner(Generic[Ballot]):
    """Run a learner state and a gate of epochs through the rounds."""

    def __init__(
        self,
        forest: EpochState[Ballot],
        gate: Gate[Ballot],
        rule: Hypothesis,
        publish: Publish,
        watch: BallotWatcher,
        lazy: bool,
        watched: bool = True,
        largest_window: int = LARGEST_WINDOW,
    ) -> None:
        self.forest, self.gate, self.rule = forest, gate, rule
        self._lazy, self._watched = lazy, watched
        self._buffer: list[RoundBatch] = []
        # Rounds that came one by one, after those of the buffer: example, label, route.
        self._singles: list[tuple[object, bool, int]] = []
        self.mistakes = 0
        self._publish, self._watch = publish, watch
        self._every = gate.check_every
        self._pending = 0
        self._window, self._largest = FIRST_WINDOW, largest_window

    def learn_buffered(self) -> None:
        """Learn the buffered rounds, so that `forest` is the state after all rounds so far."""
        self._gather()
        for part in self._buffer:
            part.update(self.forest)
        self._buffer.clear()

    def get_state(self) -> StateData:
        """Return the runner's own state; the gate, the rule and the learner state have theirs."""
        return {"mistakes": self.mistakes, "pending": self._pending}

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Load the runner's own state; gate and learner state are loaded already."""
        self.mistakes, self._pending = live["mistakes"], live["pending"]
        self.rule = releases[-1].rule

    def advance(self, rounds: RoundBatch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        self._gather()
        while start < stop:
            start = self._learn(rounds, start, min(stop, start + self._window))
        if self._buffer and self._watched:
            # Once a batch, not at every step: each reading waits for all remote trees, and the
            # steps between two readings go to them as one message.
            self.learn_buffered()
            self._watch(stop, self.forest.votes, False)

    def _learn(self, rounds: RoundBatch, start: int, stop: int) -> int:
        """Learn up to `stop`, or up to the first firing; return where it stopped."""
        part, every = rounds.between(start, stop), self._every
        wrong = part.wrong(self.forest.cls, self.rule)
        first, complete = start // every, stop // every - start // every
        losses = self._losses(part, wrong)
        counts = np.bincount(wrong // every - first, losses, minlength=complete + 1)
        # Weights make floats, which hold these sums exactly.
        counts = counts.astype(np.int64)
        # Mistakes since the last check belong to the first check of this part.
        counts[0] += self._pending

        # Called at a firing only. The selector must not read rounds after the check that fired:
        # they belong to the next epoch (Theorem 7).
        def scores_at(place: int) -> Ballot:
            self._add(part.between(start, (first + place + 1) * every))
            return self._ballot()

        step = self.gate.run(counts[:complete], scores_at)
        if step.decision.fired:
            stop = (first + step.checks) * every
            self.mistakes += int((wrong < stop).sum())
            self._begin_epoch(stop, step.decision.key)
            return stop
        self.mistakes += len(wrong)
        self._pending = int(counts[complete])
        self._add(part)
        # Reading the votes would learn the buffer. Unwatched, a sample does without them. Watched,
        # there is none before the end of the batch: every sample has votes.
        if not (self._buffer and self._watched):
            self._watch(stop, {} if self._buffer else self.forest.votes, False)
        self._window = min(2 * self._window, self._largest)
        return stop

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round, without arrays."""
        if predict_row(self.rule, x) != y:
            self.mistakes += 1
            self._pending += self._loss(y)
        # The state is read at firings only, and a batch is learned faster than its rows.
        self._singles.append((x, y, route))
        if len(self._singles) >= MOST_SINGLE:
            self._gather()
        if not (number + 1) % self._every:
            self.pass_one(number)

    def pass_one(self, number: int) -> None:
        """End a round, null or not: check if one is due."""
        if (number + 1) % self._every:
            return
        fired, key = self.gate.run([self._pending], lambda check: self._ballot()).decision
        if fired:
            self._begin_epoch(number + 1, key)
        else:
            self._pending = 0

    def _ballot(self) -> Ballot:
        """Return what the selector reads, of all rounds of the epoch so far."""
        self.learn_buffered()
        return self.forest.ballot

    def _gather(self) -> None:
        """Make a batch of the rounds that came one by one."""
        if not self._singles:
            return
        rows, answers, routes = zip(*self._singles, strict=True)
        self._singles = []
        # Numbers of users may need all 64 bits.
        numbers, labels = np.array(routes, dtype=np.uint64), np.array(answers)
        try:
            batch = as_batch(list(rows), kinds_of(self.forest.cls))
        except BadExample:  # a class may read a column where there is one: each row is a batch
            for place, x in enumerate(rows):
                one = slice(place, place + 1)
                self._add(Rounds(as_batch([x]), labels[one], numbers[one], numbers[one]))
            return
        # What learns them reads their routes, not the numbers of the rounds.
        self._add(Rounds(batch, labels, numbers, numbers))

    def _loss(self, answer: bool) -> int:
        """Return what a mistake costs on a row of this label, in units."""
        return 1

    def _losses(self, part: RoundBatch, wrong: Numbers) -> Numbers | None:
        """Return what the mistakes of a part cost, or None if each costs one."""
        return None

    def _add(self, part: RoundBatch) -> None:
        self._buffer.append(part.copied() if self._lazy else part)
        if not self._lazy or sum(some.size for some in self._buffer) > MOST_BUFFERED:
            self.learn_buffered()

    def _begin_epoch(self, number: int, key: bytes | None) -> None:
        """End the epoch after a firing, and publish the rule of `key`, if there is one."""
        self._watch(number, self.forest.votes, True)
        rule = self.rule if key is None else self._named(key)
        # A key may name the published rule again; that is no new release.
        if rule != self.rule:
            self.rule = rule
            self._publish(number, rule)
        # Also when nothing was released: a count that survives a firing breaks Theorem 3.
        self._restart_state()
        self._pending, self._window = 0, FIRST_WINDOW

    def _named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that was released."""
        return self.forest.named(key)

    def _restart_state(self) -> None:
        """Start the next epoch from the published rule."""
        self.forest.restart(self.rule)


class SettlingRunner(EpochRunner[Mapping[bytes, int]]):
    """Run a forest and a gate that settles through the rounds."""

    @property
    def _comparing(self) -> bool:
        return self._settling.comparing

    @property
    def _settling(self) -> Settling:
        assert isinstance(self.gate.schedule, Settling)
        return self.gate.schedule

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # Of a comparison: the mistakes of each known rule, and of the published one.
        self._counts: Counter[bytes] = Counter()
        self._rules: dict[bytes, Hypothesis] = {}
        self._remember(self.rule)

    def _remember(self, rule: Hypothesis) -> None:
        self._rules |= {some.key: some for some in (rule, *fallbacks_of(rule, self.forest.cls))}

    @property
    def _compared(self) -> list[Hypothesis]:
        return [
            self._rules[key]
            for key in (self.gate.published, *self._settling.known(self.gate.published))
        ]

    def get_state(self) -> StateData:
        counts = {key.hex(): count for key, count in self._counts.items()}
        return super().get_state() | {"counts": counts}

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        super().load_state(live, releases)
        self._counts = Counter({bytes.fromhex(key): n for key, n in live["counts"].items()})
        for release in releases:
            self._remember(release.rule)

    def _ballot(self) -> Mapping[bytes, int]:
        if self._comparing:
            self._gather()
            return {rule.key: self._counts[rule.key] for rule in self._compared}
        self.learn_buffered()
        # Which keys are left out depends on the key and the published rule alone: public.
        voted = self.forest.votes.items()
        left_out = partial(is_narrower, published=self.rule, cls=self.forest.cls)
        return {rule.key: votes for rule, votes in voted if not left_out(rule)}

    def _add(self, part: RoundBatch) -> None:
        if not self._comparing:
            super()._add(part)
            return
        for rule in self._compared:
            self._counts[rule.key] += len(part.wrong(self.forest.cls, rule))

    def _named(self, key: bytes) -> Hypothesis:
        rule = self._rules.get(key) or super()._named(key)
        self._remember(rule)
        return rule

    def _restart_state(self) -> None:
        super()._restart_state()
        self._counts.clear()
