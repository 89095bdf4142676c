"""Move through the rounds: the only loop of all learners, and what it asks of an epoch's state.

What is published depends on the rounds, the random bits and the noise, not on how the rounds were
batched. Between checks nothing is published, so a batch is processed at once: the losses that the
gate reads are computed for all checks, the gate runs over them up to its first draw, and what comes
after the draw is processed again. Rounds that come one by one are judged by the published rule and
wait; they become a batch before anything reads them.

At every draw the state starts again from the published rule, so monitor and draw read the rounds of
their own epoch only (docs/guarantee.md, Theorem 7).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from littlestone._classes.base import HypothesisClass, kinds_of, predict_row, predict_rows
from littlestone._data.rounds import Numbers, Rounds, RowSpan
from littlestone._hypotheses.columns import objects
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone.errors import BadExample

# Beyond every stream.
NEVER_DUE = 1 << 62

# Small state that changes with every batch, as JSON data.
StateData: TypeAlias = dict[str, Any]
# A round that came by itself: number, example, label, route.
OneRound: TypeAlias = tuple[int, object, bool, int]
# Called with the number of rounds before a rule, and the rule. What it gets is the decision of a
# gate: nothing else may be passed to it.
Publish = Callable[[int, Hypothesis], None]
TimeOf = Callable[[int], str | None]
# Returns how many trees vote for each rule, or None where no sample is taken. Private.
ReadVotes = Callable[[], Mapping[Hypothesis, int] | None]
# Called with the number of rounds so far, what reads the votes, and whether a key was drawn. Private.
BallotWatcher = Callable[[int, ReadVotes, bool], None]


class ChangedState(NamedTuple):
    """Hold the parts that have changed."""

    cleared: bool
    parts: dict[int, bytes]


class Mistakes(NamedTuple):
    """Hold the numbers of the rounds that a rule gets wrong."""

    number: Numbers

    def between(self, start: int, stop: int) -> "Mistakes":
        """Return those from `start` up to, not including, `stop`."""
        return Mistakes(self.number[slice(*np.searchsorted(self.number, [start, stop]))])

    def taken(self, kept: Mask) -> "Mistakes":
        """Return those of a mask."""
        return Mistakes(self.number[kept])

    def detached(self) -> tuple["Mistakes", tuple[()]]:
        """Return all of it: nothing stays where the rows are."""
        return self, ()


def mistakes(cls: HypothesisClass, rounds: Rounds, rule: Hypothesis) -> Mistakes:
    """Return the rounds that a rule gets wrong; a function of its own, as rows may be remote."""
    return Mistakes(rounds.number[predict_rows(cls, rule, rounds.columns) != rounds.answers])


class Judged(NamedTuple):
    """Hold rounds with the numbers of those that have a loss, and the loss of each if not 1."""

    # A batch of rounds, or what the state reads of one.
    rows: Any
    wrong: Numbers
    losses: Numbers | None = None

    def before(self, number: int) -> "Judged":
        """Return the rounds before a round."""
        stop = int(np.searchsorted(self.wrong, number))
        losses = None if self.losses is None else self.losses[:stop]
        return Judged(self.rows.between(0, number), self.wrong[:stop], losses)


class EpochState(ABC):
    """Hold what the next draw reads of the rounds of an epoch."""

    cls: HypothesisClass
    # The rounds of one step: few after a draw, since the next may be near, then twice as many each
    # time, up to what fits the processor's cache.
    first_step, largest_step = 1 << 8, 1 << 14
    # The most rounds that wait one by one before they become a batch.
    most_waiting = 1 << 10
    # The rounds before this one are counted, and no gate reads them.
    unwatched = 0
    # The next round after which something public happens, whatever the rows are.
    due = NEVER_DUE
    # Of a finished table, whether all draws are made.
    complete = True
    # Returns the time of a round by its number, from 1 on: for those who read what is released.
    # Nothing that is decided depends on it.
    time_of: TimeOf = dict[int, str | None]().get

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule; where there are no trees, nothing. Private."""
        return {}

    def sampled_votes(self, last: bool) -> Mapping[Hypothesis, int] | None:
        """Return votes for a sample after a step, or after the last of a batch; None for none."""
        return None if last else self.votes

    def kinds(self) -> dict[Any, Any]:
        """Return the columns that are read, and how."""
        return dict(kinds_of(self.cls))

    def judge(self, part: RowSpan, rule: Hypothesis) -> Judged:
        """Return rounds with their losses under the published rule."""
        return Judged(part, part.apply(mistakes, self.cls, rule).number)

    def loss(self, x: object, y: bool, rule: Hypothesis) -> int:
        """Return the loss of one row under the published rule, in units."""
        return int(predict_row(rule, x) != y)

    def count(self, judged: Judged) -> None:  # noqa: B027 (most count nothing)
        """Count for the data owner what no draw reads."""

    @abstractmethod
    def add(self, judged: Judged) -> None:
        """Keep what the next draw reads of rounds."""

    @abstractmethod
    def scores(self, number: int, fired: bool) -> Any:
        """Return what the draw after so many rounds reads, of the epoch; it may be by age only."""

    @abstractmethod
    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that was drawn."""

    @abstractmethod
    def restart(self, number: int, rule: Hypothesis) -> None:
        """Begin an epoch from the published rule after so many rounds, and forget all rows."""

    def pass_due(self, number: int) -> None:  # noqa: B027 (most have nothing due)
        """Do what is due after so many rounds."""

    @abstractmethod
    def get_state(self) -> StateData:
        """Return what is not in parts, as JSON data."""

    @abstractmethod
    def unsaved(self) -> ChangedState:
        """Return the parts that have changed since the last call."""

    @abstractmethod
    def load_state(
        self, live: StateData, parts: Mapping[int, bytes], rules: Sequence[tuple[int, Hypothesis]]
    ) -> None:
        """Load a saved state, after the gate has loaded its own; `rules` are those published."""


class Loop:
    """Run the state of an epoch and a gate through the rounds."""

    def __init__(
        self,
        state: EpochState,
        gate: Any,
        rule: Hypothesis,
        check_every: int,
        publish: Publish,
        watch: BallotWatcher,
    ) -> None:
        self.state, self.gate, self.rule = state, gate, rule
        self._every, self._publish, self._watch = check_every, publish, watch
        self._waiting: list[OneRound] = []
        self._mistakes = self._pending = 0
        self._step = state.first_step

    @property
    def mistakes(self) -> int:
        """Return the mistakes of the published rules so far."""
        self.gather()
        return self._mistakes

    def advance(self, rounds: RowSpan, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        self.gather()
        while start < stop:
            end = min(stop, start + self._step, self.state.due)
            judged = self.state.judge(rounds.between(start, end), self.rule)
            start = self._learn(judged, start, end)
            if start == self.state.due:
                self.state.pass_due(start)
        self._sample(stop, last=True)

    def _learn(self, judged: Judged, start: int, stop: int) -> int:
        """Learn up to `stop`, or up to the first draw; return where it stopped."""
        if start < self.state.unwatched:
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
        def scores_at(place: int, fired: bool) -> Any:
            number = (first + place + 1) * every
            self._add(judged.before(number))
            return self.state.scores(number, fired)

        step = self.gate.run(losses[:complete], scores_at)
        if step.decision.drawn:
            stop = (first + step.checks) * every
            self._end_epoch(stop, step.decision.key)
            return stop
        self._pending = int(losses[complete])
        self._add(judged)
        self._sample(stop)
        self._step = min(2 * self._step, self.state.largest_step)
        return stop

    def advance_one(self, number: int, x: object, y: bool | None, route: int) -> None:
        """Learn one round, a null one if it has no label: the rule judges it, then it waits."""
        state = self.state
        watched = number >= state.unwatched
        if y is not None:
            if watched:
                self._pending += state.loss(x, y, self.rule)
            self._waiting.append((number, x, y, route))
            if len(self._waiting) >= state.most_waiting:
                self.gather()
        number += 1
        if watched and not number % self._every:

            def scores(place: int, fired: bool) -> Any:
                self.gather()
                return state.scores(number, fired)

            drawn, key = self.gate.run([self._pending], scores).decision
            if drawn:
                self._end_epoch(number, key)
            self._pending = 0
        if number == state.due:
            self.gather()
            state.pass_due(number)

    def gather(self) -> None:
        """Make a batch of the rounds that came one by one: then all rounds so far are learned."""
        if self._waiting:
            batches = self._batches(self._waiting)
            judged = [self.state.judge(rounds, self.rule) for rounds in batches]
            # Only now: a learner whose rounds could not be judged must not go on without them.
            self._waiting = []
            for batch in judged:
                self._add(batch)

    def _batches(self, waiting: list[OneRound]) -> Iterator[Rounds]:
        numbers, rows, answers, routes = zip(*waiting, strict=True)
        # Numbers of users may need all 64 bits.
        users = np.array(routes, dtype=np.uint64)
        every = Rounds(objects(rows), np.array(answers), users, (), np.array(numbers))
        try:
            yield replace(every, columns=as_batch(list(rows), self.state.kinds()))
        except BadExample:  # a class may read a column where there is one: each row is a batch
            for place, x in enumerate(rows):
                yield replace(every.part(place, place + 1), columns=as_batch([x]))

    def count_late(self, rounds: RowSpan) -> None:
        """Count mistakes past the horizon for the data owner: nothing else reads these rounds."""
        self._count(self.state.judge(rounds, self.rule))

    def count_late_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Count the mistakes of one round past the horizon."""
        for rounds in self._batches([(number, x, y, route)]):
            self.count_late(rounds)

    def _count(self, judged: Judged) -> None:
        self._mistakes += len(judged.wrong)
        self.state.count(judged)

    def _add(self, judged: Judged) -> None:
        self._count(judged)
        self.state.add(judged)

    def _sample(self, number: int, last: bool = False) -> None:
        """Offer a sample to the private trace."""
        # Not read here: counting votes takes time, and most samples are not due.
        self._watch(number, partial(self.state.sampled_votes, last), False)

    def _end_epoch(self, number: int, key: bytes | None) -> None:
        """End the epoch after a draw, and publish the rule of `key`, if there is one."""
        self._watch(number, lambda: self.state.votes, True)
        rule = self.rule if key is None else self.state.named(key)
        # A key may name the published rule again; that is no new release.
        if rule != self.rule:
            self.rule = rule
            self._publish(number, rule)
        # Also when nothing was released: a count that survives a draw breaks Theorem 3.
        self.state.restart(number, self.rule)
        self._pending, self._step = 0, self.state.first_step

    def learn_table(self, rounds: RowSpan, stop: int) -> None:
        """Pass over a finished table for each draw, then count what stands, and publish it.

        Every draw reads every row; nothing is published before the last (Theorem 20).
        """
        state, first = self.state, self.rule
        while not state.complete:
            for judged in self._judged(rounds, stop):
                state.add(judged)
            key = self.gate.run([0], lambda _, fired: state.scores(stop, fired)).decision.key
            if key is not None:
                self.rule = state.named(key)
            state.restart(0, self.rule)
        for judged in self._judged(rounds, stop):
            self._add(judged)
        state.pass_due(stop)
        if self.rule != first:
            self._publish(stop, self.rule)
        self._sample(stop, last=True)

    def _judged(self, rounds: RowSpan, stop: int) -> Iterator[Judged]:
        step = self.state.largest_step
        for start in range(0, stop, step):
            yield self.state.judge(rounds.between(start, min(start + step, stop)), self.rule)

    def get_state(self) -> StateData:
        """Return the state of loop and epoch; gate and published rules have theirs."""
        mistakes = self.mistakes
        return {"mistakes": mistakes, "pending": self._pending} | self.state.get_state()

    def load_state(
        self, live: StateData, parts: Mapping[int, bytes], rules: Sequence[tuple[int, Hypothesis]]
    ) -> None:
        """Load the state of loop and epoch; the gate has loaded its own."""
        self._mistakes, self._pending = live["mistakes"], live["pending"]
        self.rule = rules[-1][1]
        self.state.load_state(live, parts, rules)
