"""Move through the rounds: the only loop of all learners.

What is published depends on the rounds, the random bits and the noise, not on how the rounds were
batched. Between checks nothing is published, so a batch is processed at once: the losses that the
gate reads are computed for all checks, the gate runs over them up to its first draw, and what comes
after the draw is processed again. Rounds that come one by one are judged by the published rule and
wait; they become a batch before anything reads them.

At every draw the state starts again from the published rule, so monitor and draw read the rounds of
their own epoch only (docs/guarantee.md, Theorem 7). The state of an epoch is read at draws only. With
`lazy` rounds are buffered and learned before the first read, because remote trees are slow to read.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from littlestone._classes.base import kinds_of, predict_row
from littlestone._data.rounds import Numbers, RoundBatch, UsableRounds
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone._learners.base import Release, StateData
from littlestone._learners.tuning import fallbacks_of, is_narrower
from littlestone._privacy.schedules import Settling
from littlestone.errors import BadExample

# The rounds of one step: few after a draw, since the next may be near, then twice as many each
# time, up to what fits the processor's cache where the trees are in this process.
FIRST_WINDOW, LARGEST_WINDOW = 256, 1 << 14
# The most rounds that are buffered: memory does not grow with the stream.
MOST_BUFFERED = 1 << 18
# The most rounds that wait one by one before they become a batch.
MOST_WAITING = 1 << 10
# Beyond every stream.
NEVER_DUE = 1 << 62

# Called with the number of rounds before a rule, and the rule. What it gets is the decision of a
# gate: nothing else may be passed to it.
Publish = Callable[[int, Hypothesis], None]
# Called with the number of rounds so far, the votes, and whether a key was drawn. Private.
BallotWatcher = Callable[[int, Mapping[Hypothesis, int], bool], None]


class Runner(ABC):
    """Move rounds past a gate, and hold what was learned of them."""

    gate: Any
    rule: Hypothesis
    forest: Any
    mistakes: int

    @abstractmethod
    def advance(self, rounds: RoundBatch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""

    @abstractmethod
    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round."""

    @abstractmethod
    def pass_one(self, number: int) -> None:
        """End a round, null or not."""

    def learn_buffered(self) -> None:  # noqa: B027 (most have no buffer)
        """Learn the buffered rounds, if there are any."""

    def count_late(self, rounds: RoundBatch) -> None:
        """Count mistakes past the horizon for the data owner: nothing else reads these rounds."""
        self.mistakes += len(rounds.wrong(self.forest.cls, self.rule))

    def count_late_one(self, x: object, y: bool) -> None:
        """Count one round past the horizon: a batch of one."""
        batch, number = as_batch([x], self._kinds()), np.zeros(1, dtype=np.int64)
        self.count_late(UsableRounds(batch, np.array([y]), number, number))

    def _kinds(self) -> dict[Any, Any]:
        return dict(kinds_of(self.forest.cls))

    def get_state(self) -> StateData:
        """Return the runner's own state; the gate, the rule and the learner state have theirs."""
        return {"mistakes": self.mistakes}

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Load the runner's own state; gate and learner state are loaded already."""
        self.mistakes, self.rule = live["mistakes"], releases[-1].rule


class Judged(NamedTuple):
    """Hold rounds with the numbers of those that have a loss, and the loss of each if not 1."""

    part: RoundBatch
    wrong: Numbers
    losses: Numbers | None = None

    def before(self, number: int) -> "Judged":
        """Return the rounds before a round."""
        stop = int(np.searchsorted(self.wrong, number))
        losses = None if self.losses is None else self.losses[:stop]
        return Judged(self.part.between(0, number), self.wrong[:stop], losses)


class Loop(Runner):
    """Run the state of an epoch and a gate through the rounds."""

    first_step, largest_step = FIRST_WINDOW, LARGEST_WINDOW

    def __init__(
        self,
        forest: Any,
        gate: Any,
        rule: Hypothesis,
        publish: Publish,
        watch: BallotWatcher,
        check_every: int,
    ) -> None:
        self.forest, self.gate, self.rule = forest, gate, rule
        self._publish, self._watch, self._every = publish, watch, check_every
        # Rounds that came one by one: number, example, label, route.
        self._waiting: list[tuple[int, object, bool, int]] = []
        self._mistakes = self._pending = 0
        self._step = self.first_step

    @property
    def mistakes(self) -> int:
        """Return the mistakes of the published rules so far."""
        self._gather()
        return self._mistakes

    @mistakes.setter
    def mistakes(self, mistakes: int) -> None:
        self._mistakes = mistakes

    def learn_buffered(self) -> None:
        """Learn the rounds that wait, so that `forest` is the state after all rounds so far."""
        self._gather()

    def get_state(self) -> StateData:
        """Return the loop's own state; the gate, the rule and the learner state have theirs."""
        return {"mistakes": self.mistakes, "pending": self._pending}

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Load the loop's own state; gate and learner state are loaded already."""
        super().load_state(live, releases)
        self._pending = live["pending"]

    def advance(self, rounds: RoundBatch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        self._gather()
        while start < stop:
            end = min(stop, start + self._step, self._boundary(start))
            start = self._learn(self._judge(rounds.between(start, end)), start, end)
            self._end_rounds(start)

    def _learn(self, judged: Any, start: int, stop: int) -> int:
        """Learn up to `stop`, or up to the first draw; return where it stopped."""
        if start < self._unwatched:
            self._add(judged)
            return stop
        every = self._every
        first, complete = start // every, stop // every - start // every
        losses = np.bincount(judged.wrong // every - first, judged.losses, minlength=complete + 1)
        # Weights make floats, which hold these sums exactly.
        losses = losses.astype(np.int64)
        # Losses since the last check belong to the first check of this part.
        losses[0] += self._pending

        # Called at a draw only. It must not read rounds after its check: they belong to the next
        # epoch (Theorem 7).
        def scores_at(place: int) -> Any:
            self._add(judged.before((first + place + 1) * every))
            return self._scores()

        step = self.gate.run(losses[:complete], scores_at)
        if step.decision.fired:
            stop = (first + step.checks) * every
            self._end_epoch(stop, step.decision.key)
            return stop
        self._pending = int(losses[complete])
        self._add(judged)
        self._sample(stop)
        self._step = min(2 * self._step, self.largest_step)
        return stop

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round: the published rule judges it, then it waits."""
        if number >= self._unwatched:
            self._pending += self._loss(x, y)
        self._waiting.append((number, x, y, route))
        if len(self._waiting) >= MOST_WAITING:
            self._gather()
        self.pass_one(number)

    def pass_one(self, number: int) -> None:
        """End a round, null or not: check if one is due."""
        number += 1
        if not number % self._every and number > self._unwatched:
            fired, key = self.gate.run([self._pending], lambda check: self._scores()).decision
            if fired:
                self._end_epoch(number, key)
            else:
                self._pending = 0
        self._end_rounds(number)

    def _gather(self) -> None:
        """Make a batch of the rounds that came one by one."""
        if not self._waiting:
            return
        numbers, rows, answers, routes = zip(*self._waiting, strict=True)
        self._waiting = []
        number, labels = np.array(numbers), np.array(answers)
        # Numbers of users may need all 64 bits.
        route = np.array(routes, dtype=np.uint64)
        try:
            batch = as_batch(list(rows), self._kinds())
        except BadExample:  # a class may read a column where there is one: each row is a batch
            for place, x in enumerate(rows):
                one = slice(place, place + 1)
                alone = UsableRounds(as_batch([x]), labels[one], number[one], route[one])
                self._add(self._judge(alone))
            return
        self._add(self._judge(UsableRounds(batch, labels, number, route)))

    # What learners have of their own.

    # The rounds before this one are counted, and no gate reads them.
    _unwatched = 0

    def _boundary(self, number: int) -> int:
        """Return the next round at which something public happens whatever the rows are."""
        return NEVER_DUE

    def _end_rounds(self, number: int) -> None:
        """Do what is due after so many rounds."""

    def _judge(self, part: RoundBatch) -> Any:
        """Return rounds with their losses under the published rule."""
        return Judged(part, part.wrong(self.forest.cls, self.rule))

    def _loss(self, x: object, y: bool) -> int:
        """Return the loss of one row under the published rule, in units."""
        return int(predict_row(self.rule, x) != y)

    def _add(self, judged: Any) -> None:
        """Count rounds, and keep what the next draw reads of them."""
        self._mistakes += len(judged.wrong)
        judged.part.update(self.forest)

    def _scores(self) -> Any:
        """Return what the draw reads, of all rounds of the epoch so far."""
        self.learn_buffered()
        return self.forest.ballot

    def _sample(self, number: int) -> None:
        """Offer a sample to the private trace."""
        self._watch(number, self.forest.votes, False)

    def _end_epoch(self, number: int, key: bytes | None) -> None:
        """End the epoch after a draw, and publish the rule of `key`, if there is one."""
        self._watch(number, self.forest.votes, True)
        rule = self.rule if key is None else self._named(key)
        # A key may name the published rule again; that is no new release.
        if rule != self.rule:
            self.rule = rule
            self._publish(number, rule)
        # Also when nothing was released: a count that survives a draw breaks Theorem 3.
        self._begin_epoch(number)
        self._pending, self._step = 0, self.first_step

    def _named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that was drawn."""
        rule: Hypothesis = self.forest.named(key)
        return rule

    def _begin_epoch(self, number: int) -> None:
        """Start the next epoch from the published rule."""
        self.forest.restart(self.rule)


class VotesLoop(Loop):
    """Run a forest through the rounds: it searches by votes, or known rules are compared."""

    def __init__(
        self, *args: Any, lazy: bool = False, watched: bool = True, largest: int = LARGEST_WINDOW
    ) -> None:
        super().__init__(*args)
        self._lazy, self._watched, self.largest_step = lazy, watched, largest
        self._buffer: list[RoundBatch] = []
        # Of a comparison: the mistakes of each known rule, and of the published one.
        self._counts: Counter[bytes] = Counter()
        self._rules: dict[bytes, Hypothesis] = {}
        self._remember(self.rule)

    @property
    def _settling(self) -> Settling:
        schedule: Settling = self.gate.schedule
        return schedule

    def _remember(self, rule: Hypothesis) -> None:
        rules = (rule, *fallbacks_of(rule, self.forest.cls))
        self._rules |= {fallback.key: fallback for fallback in rules}

    @property
    def _compared(self) -> list[Hypothesis]:
        published = self.gate.published
        return [self._rules[key] for key in (published, *self._settling.known(published))]

    def learn_buffered(self) -> None:
        """Learn all rounds so far."""
        self._gather()
        for part in self._buffer:
            part.update(self.forest)
        self._buffer.clear()

    def get_state(self) -> StateData:
        """Return the loop's own state."""
        counts = {key.hex(): count for key, count in self._counts.items()}
        return super().get_state() | {"counts": counts}

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Load the loop's own state."""
        super().load_state(live, releases)
        self._counts = Counter({bytes.fromhex(key): n for key, n in live["counts"].items()})
        for release in releases:
            self._remember(release.rule)

    def advance(self, rounds: RoundBatch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        super().advance(rounds, start, stop)
        if self._buffer and self._watched:
            # Once a batch, not at every step: each reading waits for all remote trees, and the
            # steps between two readings go to them as one message.
            self.learn_buffered()
            self._watch(stop, self.forest.votes, False)

    def _sample(self, number: int) -> None:
        # Reading the votes would learn the buffer. Unwatched, a sample does without them. Watched,
        # there is none before the end of the batch: every sample has votes.
        if not (self._buffer and self._watched):
            self._watch(number, {} if self._buffer else self.forest.votes, False)

    def _add(self, judged: Judged) -> None:
        self._mistakes += len(judged.wrong)
        part = judged.part
        if self._settling.comparing:
            # The forest rests: these rounds are read by the comparison, and by no search.
            for rule in self._compared:
                self._counts[rule.key] += len(part.wrong(self.forest.cls, rule))
            return
        self._buffer.append(part.copied() if self._lazy else part)
        if not self._lazy or sum(some.size for some in self._buffer) > MOST_BUFFERED:
            for some in self._buffer:
                some.update(self.forest)
            self._buffer.clear()

    def _scores(self) -> Mapping[bytes, int]:
        if self._settling.comparing:
            self._gather()
            return {rule.key: self._counts[rule.key] for rule in self._compared}
        self.learn_buffered()
        # Which keys are left out depends on the key and the published rule alone: public.
        left_out = partial(is_narrower, published=self.rule, cls=self.forest.cls)
        return {rule.key: votes for rule, votes in self.forest.votes.items() if not left_out(rule)}

    def _named(self, key: bytes) -> Hypothesis:
        rule = self._rules.get(key) or super()._named(key)
        self._remember(rule)
        return rule

    def _begin_epoch(self, number: int) -> None:
        super()._begin_epoch(number)
        self._counts.clear()
