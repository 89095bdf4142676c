"""Run one forest for the whole stream with the gate of Algorithm 2, per event or per user.

Lost votes decide when to release, the same votes decide what. The forest never reads what is
published. Routed by user it is private per user without a limit on a user's rounds, as all of them
go to one tree (docs/guarantee.md, Theorems 7 and 9).

What is published depends on the rounds, the random bits and the noise, not on how the rounds were
batched: the forest returns its changes of votes; then the gate runs over the lost votes.
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
    """Describe a forest whose changes of votes are followed one by one. Private."""

    cls: HypothesisClass

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule, for the data owner."""

    @property
    def standing(self) -> Sequence[Hypothesis | None]:
        """Return the vote of each tree, in order."""

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> Iterable[VoteChange]:
        """Learn a batch of rounds.

        Parameters
        ----------
        batch : Batch
            The examples.
        answers : Mask
            Their labels.
        routes : Numbers
            What routes each to a tree.

        Returns
        -------
        Iterable of VoteChange
            The changes of votes, in the order of the rows.
        """


class Lasting:
    """Run a forest and the gate of Algorithm 2 through the rounds.

    Parameters
    ----------
    forest : Voters
        The forest, which is never restarted.
    gate : HistSparse
        Decides when and what to release.
    rule : Hypothesis
        The first published rule.
    check_every : int
        Rounds between checks.
    publish : Publish
        Called when a rule is released.
    watch : Watch
        Called after each batch, with private votes.
    largest_window : int
        The most rounds that are learned in one step.
    """

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
        """Return the runner's own state; the gate, the rule and the forest have theirs."""
        return {"mistakes": self.mistakes}

    def revive(self, live: Live, releases: Sequence[Release]) -> None:
        """Load the runner's own state; gate and forest are loaded already.

        Parameters
        ----------
        live : Live
            What `live` returned.
        releases : Sequence of Release
            Everything published so far.
        """
        self.mistakes, self.rule = live["mistakes"], releases[-1].rule
        self._votes = list(self.forest.standing)

    def advance(self, rounds: Stretch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`.

        Parameters
        ----------
        rounds : Stretch
            A batch of rounds that contains them.
        start, stop : int
            Round numbers; `stop` is not included.
        """
        while start < stop:
            end = min(stop, start + self._window)
            self._learn(rounds.between(start, end), start, end)
            start = end

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round.

        Parameters
        ----------
        number : int
            The number of the round.
        x : object
            The example.
        y : bool
            The label.
        route : int
            What routes the round to a tree.
        """
        one = Rounds(as_batch([x]), np.array([y]), np.array([number]), np.array([route]))
        self._learn(one, number, number + 1)

    def pass_one(self, number: int) -> None:
        """End a null round: check if one is due."""
        self._run([], number, number + 1)

    def _learn(self, part: Stretch, start: int, stop: int) -> None:
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
        """Run the checks from `start` up to `stop`: where they fired, and the rule until then."""
        check, last = start // self._every, stop // self._every
        fired: list[tuple[int, Hypothesis]] = []
        while check < last:
            lost = len(self._votes) - self._held(changes, check, last)

            # Called at a firing only, so the votes are brought to the round of that check.
            def votes_at(place: int, check: int = check) -> Mapping[bytes, int]:
                self._apply(changes, (check + place + 1) * self._every)
                return self._counts()

            step = self.gate.run(lost, votes_at)
            check += step.checks
            if step.decision.fired:
                fired.append((check * self._every, self.rule))
                self._decided(check * self._every, step.decision.key)
        self._apply(changes, stop)
        return fired

    def _held(self, changes: list[VoteChange], check: int, last: int) -> Numbers:
        """Return the votes for the published rule at each check."""
        votes, moves = list(self._votes), np.zeros(last - check, dtype=int)
        for number, tree, vote in changes:
            place = number // self._every - check
            if place < len(moves):
                moves[place] += (vote == self.rule) - (votes[tree] == self.rule)
            votes[tree] = vote
        return self._votes.count(self.rule) + np.cumsum(moves)

    def _apply(self, changes: list[VoteChange], stop: int) -> None:
        """Apply the changes of votes before round `stop`, and remove them from the list."""
        while changes and changes[0].row < stop:
            change = changes.pop(0)
            self._votes[change.tree] = change.vote

    def _counts(self) -> dict[bytes, int]:
        return Counter(vote.key for vote in self._votes if vote is not None)

    def _decided(self, number: int, key: bytes | None) -> None:
        rules = (vote for vote in self._votes if vote is not None and vote.key == key)
        if key is not None:
            self.rule = next(rules)
            self._publish(number, self.rule)
