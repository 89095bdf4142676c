"""The restarting forest: mistakes say when, fresh trees say what. Epochs all the way.

At every firing the forest starts again from the published rule, so monitor and selector read the
rounds of their own epoch only, and epochs compose in parallel (docs/guarantee.md, Theorem 7).

Promises: what is published depends on the rounds, the coins and the noise, not on how the rounds
were batched. Between checks nothing is published, so a batch is: evaluate the published rule,
vectorised; let the gate run over the counts; show the forest what came before the firing.

The forest is read at firings only. If `patient`, rounds are put by and shown when somebody asks:
where a public restart may come first, most never are, and noisy labels cost next to nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from littlestone.learning.releases import Release
from littlestone.learning.rounds import Numbers, Stretch
from littlestone.learning.saving import Live, Saving
from littlestone.privacy.epochs import MistakesGate
from littlestone.privacy.gate import Ballot, Decision
from littlestone.theory.classes import HypothesisClass, predict_row
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import Batch, as_batch
from littlestone.theory.values import Mask

FIRST_WINDOW, LARGEST_WINDOW = 256, 1 << 14
"""After a firing the next may be near: look ahead a little, then further and further; no further
than the processor's cache, where the trees are here."""

MOST_PUT_BY = 1 << 18
"""How many rounds may wait to be shown to the forest: memory does not grow with the stream."""

Publish = Callable[[int, Hypothesis], None]
"""Told the number of rounds before a rule, and the rule: the one line at which private becomes
public is the decision of the gate; this passes it on."""

Watch = Callable[[int, Mapping[Hypothesis, int], bool], None]
"""Told, privately, the number of rounds so far, the votes, and whether the gate has fired."""


BallotOut = TypeVar("BallotOut", covariant=True)


class Memory(Saving, Protocol[BallotOut]):
    """What an epoch remembers of its rounds: a forest, or the mistakes of every rule. Private."""

    cls: HypothesisClass

    @property
    def ballot(self) -> BallotOut:
        """What the selector is asked with."""

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """What the data's holder may look at."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> object:
        """Take some rounds in."""

    def may_be_surprised(self, x: object, y: bool, right: Hypothesis) -> bool:
        """Whether an example that the rule `right` gets right could matter."""

    def named(self, key: bytes) -> Hypothesis:
        """The rule of a key that the selector named."""

    def restart(self, published: Hypothesis) -> None:
        """Forget all rounds."""


class Restarting(Generic[Ballot]):
    """A memory and a gate of epochs, moving through the rounds together."""

    def __init__(
        self,
        forest: Memory[Ballot],
        gate: MistakesGate[Ballot],
        rule: Hypothesis,
        publish: Publish,
        watch: Watch,
        patient: bool,
        largest_window: int = LARGEST_WINDOW,
    ) -> None:
        self._forest, self.gate, self.rule = forest, gate, rule
        self._patient = patient
        self._put_by: list[Stretch] = []
        self.mistakes = 0
        self._publish, self._watch = publish, watch
        self._every = gate.check_every
        self._pending = 0
        self._window, self._largest = FIRST_WINDOW, largest_window

    @property
    def forest(self) -> Memory[Ballot]:
        """The forest, after all rounds so far."""
        for part in self._put_by:
            part.teach(self._forest)
        self._put_by.clear()
        return self._forest

    def live(self) -> Live:
        """What is needed to go on, beside the gate, the rule and the memory."""
        return {"mistakes": self.mistakes, "pending": self._pending}

    def revive(self, live: Live, releases: Sequence[Release]) -> None:
        """Go on from where another was saved; gate and memory are revived already."""
        self.mistakes, self._pending = live["mistakes"], live["pending"]
        self.rule = releases[-1].rule

    def advance(self, rounds: Stretch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        every = self._every
        while start < stop:
            restart = (start // every + self.gate.checks_to_restart) * every
            start = self._stretch(rounds, start, min(stop, start + self._window, restart))

    def _stretch(self, rounds: Stretch, start: int, stop: int) -> int:
        """Learn up to `stop`, or up to the first firing: where it stopped."""
        part, every = rounds.between(start, stop), self._every
        wrong = part.wrong(self._forest.cls, self.rule)
        first, complete = start // every, stop // every - start // every
        counts = np.bincount(wrong // every - first, minlength=complete + 1)
        counts[0] += self._pending

        def ballot(place: int) -> Ballot:
            self._show(part.between(start, (first + place + 1) * every))
            return self.forest.ballot

        step = self.gate.run(counts[:complete], ballot)
        if step.decision.fired:
            stop = (first + step.checks) * every
            self.mistakes += int((wrong < stop).sum())
            self._begin_epoch(stop, step.decision.key)
            return stop
        self.mistakes += len(wrong)
        self._pending = int(counts[complete])
        self._show(part)
        self._watch(stop, {} if self._put_by else self._forest.votes, False)
        if complete:
            self._restart_if_due()
        self._window = min(2 * self._window, self._largest)
        return stop

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round: what `advance` does, without arrays unless a tree is surprised."""
        wrong = predict_row(self.rule, x) != y
        if wrong:
            self.mistakes += 1
            self._pending += 1
        forest = self.forest if self._put_by else self._forest
        if wrong or forest.may_be_surprised(x, y, self.rule):
            forest.learn(as_batch([x]), np.array([y]), np.array([route]))
        if not (number + 1) % self._every:
            self.pass_one(number)

    def pass_one(self, number: int) -> None:
        """The end of a round, null or not: look at the schedule."""
        if (number + 1) % self._every:
            return
        fired, key = self._look()
        if fired:
            self._begin_epoch(number + 1, key)
        else:
            self._pending = 0
            self._restart_if_due()

    def _look(self) -> Decision:
        """One check, of the mistakes since the last."""
        return self.gate.check(self._pending, self.forest.ballot)

    def _show(self, part: Stretch) -> None:
        self._put_by.append(part.copied() if self._patient else part)
        if not self._patient or sum(some.size for some in self._put_by) > MOST_PUT_BY:
            _ = self.forest

    def _restart_if_due(self) -> None:
        """The public restart: the gate has made it, the forest follows."""
        if self.gate.restart_every is not None and self.gate.age == 0:
            self._put_by.clear()
            self._forest.restart(self.rule)

    def _begin_epoch(self, number: int, key: bytes | None) -> None:
        self._watch(number, self.forest.votes, True)
        rule = self.rule if key is None else self.forest.named(key)
        if rule != self.rule:
            self.rule = rule
            self._publish(number, rule)
        self._forget()
        self._pending, self._window = 0, FIRST_WINDOW

    def _forget(self) -> None:
        """A new epoch begins, from the published rule."""
        self.forest.restart(self.rule)
