"""The lasting forest: lost votes say when, the same votes say what. Algorithm 2, and per user.

One forest for the whole stream, which never looks at what is published. Routed by user it is
private per user without a limit on a user's rounds, as all of them live in one tree.

Promises: what is published depends on the rounds, the coins and the noise, not on how the rounds
were batched. A batch is: the forest's changes of votes; then the gate runs over the lost votes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from littlestone.learning.forest import VoteChange
from littlestone.learning.releases import Release
from littlestone.learning.restarting import LARGEST_WINDOW, Publish, Watch
from littlestone.learning.rounds import Numbers, Rounds, Stretch
from littlestone.learning.saving import Live, Saving
from littlestone.privacy.gate import HistSparse
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import Batch, as_batch
from littlestone.theory.values import Mask


class Voters(Saving, Protocol):
    """A forest, as far as its votes are followed one by one. Private."""

    cls: HypothesisClass

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """What the data's holder may look at."""

    @property
    def standing(self) -> Sequence[Hypothesis | None]:
        """What each tree votes for, in their order."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> Iterable[VoteChange]:
        """Take some rounds in: the changes of votes, in the order of the rows."""


class Lasting:
    """A forest and the gate of Algorithm 2, moving through the rounds together."""

    def __init__(
        self,
        forest: Voters,
        gate: HistSparse,
        rule: Hypothesis,
        check_every: int,
        publish: Publish,
        watch: Watch,
        largest_window: int = LARGEST_WINDOW,
    ) -> None:
        self.forest, self.gate, self.rule = forest, gate, rule
        self.mistakes = 0
        self._every, self._window = check_every, largest_window
        self._publish, self._watch = publish, watch
        self._votes = list(forest.standing)

    def live(self) -> Live:
        """What is needed to go on, beside the gate, the rule and the forest."""
        return {"mistakes": self.mistakes}

    def revive(self, live: Live, releases: Sequence[Release]) -> None:
        """Go on from where another was saved; gate and forest are revived already."""
        self.mistakes, self.rule = live["mistakes"], releases[-1].rule
        self._votes = list(self.forest.standing)

    def advance(self, rounds: Stretch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        while start < stop:
            end = min(stop, start + self._window)
            self._stretch(rounds.between(start, end), start, end)
            start = end

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round."""
        one = Rounds(as_batch([x]), np.array([y]), np.array([number]), np.array([route]))
        self._stretch(one, number, number + 1)

    def pass_one(self, number: int) -> None:
        """The end of a null round: look at the schedule."""
        self._run([], number, number + 1)

    def _stretch(self, part: Stretch, start: int, stop: int) -> None:
        changes = [
            change._replace(row=part.number_of(change.row)) for change in part.teach(self.forest)
        ]
        at = start
        for end, before in self._run(changes, start, stop):
            self.mistakes += len(part.between(at, end).wrong(self.forest.cls, before))
            at = end
        self.mistakes += len(part.between(at, stop).wrong(self.forest.cls, self.rule))
        self._watch(stop, self.forest.votes, at > start)

    def _run(
        self, changes: list[VoteChange], start: int, stop: int
    ) -> list[tuple[int, Hypothesis]]:
        """The checks from `start` up to `stop`: where they fired, and the rule until then."""
        check, last = start // self._every, stop // self._every
        fired: list[tuple[int, Hypothesis]] = []
        while check < last:
            lost = len(self._votes) - self._held(changes, check, last)

            def ballot(place: int, check: int = check) -> Mapping[bytes, int]:
                self._apply(changes, (check + place + 1) * self._every)
                return self._ballot()

            step = self.gate.run(lost, ballot)
            check += step.checks
            if step.decision.fired:
                fired.append((check * self._every, self.rule))
                self._decided(check * self._every, step.decision.key)
        self._apply(changes, stop)
        return fired

    def _held(self, changes: list[VoteChange], check: int, last: int) -> Numbers:
        """The votes for the published rule at each check."""
        votes, moves = list(self._votes), np.zeros(last - check, dtype=int)
        for number, tree, vote in changes:
            place = number // self._every - check
            if place < len(moves):
                moves[place] += (vote == self.rule) - (votes[tree] == self.rule)
            votes[tree] = vote
        return self._votes.count(self.rule) + np.cumsum(moves)

    def _apply(self, changes: list[VoteChange], stop: int) -> None:
        """Take the changes of the rounds before `stop` off the list, and into account."""
        while changes and changes[0].row < stop:
            change = changes.pop(0)
            self._votes[change.tree] = change.vote

    def _ballot(self) -> dict[bytes, int]:
        return Counter(vote.key for vote in self._votes if vote is not None)

    def _decided(self, number: int, key: bytes | None) -> None:
        rules = (vote for vote in self._votes if vote is not None and vote.key == key)
        if key is not None:
            self.rule = next(rules)
            self._publish(number, self.rule)
