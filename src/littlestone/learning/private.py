"""What private learners share: one step at a time, what is published, and where the stream is.

Promises: before each example there is a published rule; past the horizon the last one stands; a
null round uses up its number; a step that was interrupted half-way is the last.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Protocol

from littlestone.learning.releases import Release, Releases
from littlestone.learning.rounds import (
    BadRows,
    Numbers,
    Stretch,
    readable_batch,
    readable_rounds,
    usable_rounds,
)
from littlestone.learning.saving import Live, Saved, Saving
from littlestone.learning.trace import TOP, Sample, Trace
from littlestone.privacy.accounting import Cost, Event, Guarantee
from littlestone.privacy.exact import BadParameter
from littlestone.privacy.spender import ForwardOnly, Moved, State
from littlestone.theory.classes import HypothesisClass, check_row, predict_row
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.notebook import facts, side_by_side
from littlestone.theory.rows import Batch, label
from littlestone.theory.values import Mask


class HasVotes(Saving, Protocol):
    """What a runner learns with, as far as a learner tells of it."""

    @property
    def votes(self) -> Mapping[Hypothesis, int]: ...


class HasGate(Protocol):
    """A gate, as far as a learner tells of it."""

    releases_made: int

    @property
    def guarantee(self) -> Guarantee: ...

    @property
    def ledger(self) -> tuple[Event, ...]: ...

    @property
    def spent(self) -> Cost: ...

    @property
    def exhausted(self) -> bool: ...

    def checkpoint(self, keep: Callable[[State], None]) -> None: ...

    def resume(self, state: State) -> None: ...


class Runner(Protocol):
    """What moves through the rounds: a gate, what is learned with, and the published rule."""

    rule: Hypothesis
    mistakes: int

    @property
    def gate(self) -> HasGate: ...

    @property
    def forest(self) -> HasVotes: ...

    def advance(self, rounds: Stretch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round."""

    def pass_one(self, number: int) -> None:
        """The end of a null round."""

    def live(self) -> Live:
        """What is needed to go on, beside the gate, the rule and what is learned with."""

    def revive(self, live: Live, releases: Sequence[Release]) -> None:
        """Go on from where another was saved."""


class PrivateLearner(ForwardOnly):
    """A learner whose published rules are differentially private. Forward only.

    A learner of this kind brings its `_runner`, which moves through the rounds, holds the gate and
    tells `_publish` and `_watch`.
    """

    _runner: Runner

    def __init__(self, cls: HypothesisClass, rule: Hypothesis, horizon: int) -> None:
        self.cls, self._horizon = cls, horizon
        self._releases = [Release(1, rule)]
        self._trace = Trace()
        self.rounds = self.null_rounds = self.beyond_cap = 0
        self._under_way = Lock()

    @property
    def hypothesis(self) -> Hypothesis:
        """The rule published for the next example. Public."""
        return self._runner.rule

    @property
    def releases(self) -> Releases:
        """The rules published so far, each with the round from which it stood. Public."""
        return Releases(self._releases)

    @property
    def guarantee(self) -> Guarantee:
        """What all that is published promises, however long the stream gets."""
        return self._runner.gate.guarantee

    @property
    def ledger(self) -> tuple[Event, ...]:
        """Every use of a mechanism so far. Public: it follows from the rounds of the firings."""
        return self._runner.gate.ledger

    @property
    def spent(self) -> Cost:
        """What the ledger adds up to: never more than the guarantee."""
        return self._runner.gate.spent

    @property
    def final(self) -> str | None:
        """Why the published rule will not change any more, if so. Public."""
        if self.rounds >= self._horizon:
            return f"the horizon of {self._horizon:,} rounds is reached: the last rule stands"
        gate = self._runner.gate
        if gate.exhausted:
            return f"all {gate.releases_made} releases are used up: the last rule stands"
        return None

    @property
    def mistakes(self) -> int:
        """Mistakes of the published rules so far. Private."""
        return self._runner.mistakes

    @property
    def counted_rounds(self) -> int:
        """The rounds that had an example and counted: mistakes are mistakes among these. Private.

        The others are the `null_rounds`. Of those, `beyond_cap` had an example of a user with no
        rounds left under the plan's cap; the rest could not be read.
        """
        return self.rounds - self.null_rounds

    @property
    def trace(self) -> tuple[Sample, ...]:
        """How mistakes and votes came about, up to now. Private."""
        now = self._sample(self.rounds, self._runner.forest.votes)
        past = self._trace.samples
        return past if past and past[-1].round == now.round else (*past, now)

    def __repr__(self) -> str:
        state = f"round {self.rounds:,}: {self.hypothesis}"
        return f"{type(self).__name__}({self.cls!r}) at {state}; {self.final or self.guarantee}"

    def _repr_html_(self) -> str:
        """What is public, and nothing else: no mistakes, no votes, no null rounds."""
        told = {
            "class": repr(self.cls),
            "published rule": str(self.hypothesis),
            "rounds": f"{self.rounds:,} of {self._horizon:,}",
            "guarantee": str(self.guarantee),
        }
        if self.final is not None:
            told["final"] = self.final
        name = type(self).__name__
        return side_by_side([facts(name, told, note="public"), self.releases._repr_html_()])

    def predict_one(self, x: object) -> bool:
        """What the published rule says of an example."""
        return self._runner.rule(x)

    def predict_many(self, X: Any) -> Mask:
        """What the published rule says of a batch."""
        return self.cls.predict(self._runner.rule, readable_batch(self.cls, X))

    def checkpoint(self, keep: Callable[[Saved], None]) -> None:
        """Have the learner kept as data, for a store; then go on. If `keep` fails, this one learns
        no more: nobody knows whether it was kept."""
        self._enter()
        runner = self._runner

        def with_gate(gate: State) -> None:
            live: Live = {
                "rounds": self.rounds,
                "null_rounds": self.null_rounds,
                "beyond_cap": self.beyond_cap,
                "gate": gate,
                "runner": runner.live(),
                "memory": runner.forest.live(),
                "trace": self._trace.live(),
            }
            memory, trace = runner.forest.unsaved(), self._trace.unsaved()
            keep(Saved(live, memory, self._unsaved_users(), self.releases, trace))

        runner.gate.checkpoint(with_gate)
        self._under_way.release()

    def resume(self, saved: Saved) -> None:
        """Go on from where another was kept. Only a learner that has not begun may, with the same
        class, plan and seed. That a state is resumed once only is the store's to see to."""
        if self.rounds or self._under_way.locked():
            raise BadParameter("only a learner that has not begun can resume")
        self._enter()
        live, runner = saved.live, self._runner
        runner.gate.resume(live["gate"])
        runner.forest.revive(live["memory"], saved.memory.parts)
        runner.revive(live["runner"], saved.releases)
        self._releases = list(saved.releases)
        self._trace.revive(live["trace"], saved.trace.new)
        self.rounds, self.null_rounds = live["rounds"], live["null_rounds"]
        self.beyond_cap = live.get("beyond_cap", 0)
        self._revive_users(saved.users)
        self._under_way.release()

    def _unsaved_users(self) -> Mapping[int, int]:
        """The users whose count has changed since this was asked last."""
        return {}

    def _revive_users(self, users: Mapping[int, int]) -> None:
        """Take the counts that were saved."""

    def _enter(self) -> None:
        """One step at a time; one that was interrupted half-way is the last."""
        if not self._under_way.acquire(blocking=False):
            raise Moved(
                "another step of this learner is under way, or one was interrupted half-way: it "
                "still serves its rule, and learns no more"
            )

    def _pass(self, x: object, y: bool | None, route: int) -> None:
        """One round of a step that has been entered; a null one has no label."""
        number, runner = self.rounds, self._runner
        if number >= self._horizon:
            runner.mistakes += y is not None and predict_row(runner.rule, x) != y
        elif y is not None:
            runner.advance_one(number, x, y, route)
        else:
            runner.pass_one(number)
        self.null_rounds += y is None
        self.rounds = number + 1
        self._under_way.release()

    def _pass_many(
        self, batch: Batch, answers: Mask, usable: Mask, routes: Numbers | None = None
    ) -> None:
        """The rounds of a step that has been entered; those not usable are null rounds."""
        rounds = usable_rounds(batch, answers, usable, self.rounds, routes)
        self._pass_stretch(rounds, len(answers))
        self.null_rounds += len(answers) - rounds.size
        self._under_way.release()

    def _pass_stretch(self, rounds: Stretch, count: int) -> None:
        """So many rounds, null ones among them; past the horizon they are only counted."""
        end = self.rounds + count
        stop = max(self.rounds, min(end, self._horizon))
        self._runner.advance(rounds, self.rounds, stop)
        if stop < end:
            late = rounds.between(stop, end)
            self._runner.mistakes += len(late.wrong(self.cls, self.hypothesis))
        self.rounds = end

    def _publish(self, number: int, rule: Hypothesis) -> None:
        self._releases.append(Release(number + 1, rule))

    def _watch(self, number: int, votes: Mapping[Hypothesis, int], fired: bool) -> None:
        self._trace.add(self._sample(number, votes), keep=fired)

    def _sample(self, number: int, votes: Mapping[Hypothesis, int]) -> Sample:
        top = sorted(votes.items(), key=lambda pair: (-pair[1], pair[0]))[:TOP]
        return Sample(number, self.mistakes, tuple(top))


class EventLearner(PrivateLearner):
    """A private learner that protects one round, whoever it belongs to."""

    def learn_one(self, x: object, y: object) -> None:
        """See one example's label.

        A row that the class cannot read is refused, and nothing has happened: stopping there is
        outside the guarantee. `skip_one` makes it a null round, which is inside.
        """
        check_row(self.cls, x)
        answer = label(y)
        self._enter()
        self._pass(x, answer, self.rounds)

    def skip_one(self) -> None:
        """A null round: it uses up its number, and teaches nothing."""
        self._enter()
        self._pass(None, None, self.rounds)

    def learn_many(self, X: Any, y: object, *, bad_rows: BadRows = "refuse") -> None:
        """See a batch of labels, as if one after the other.

        `bad_rows="refuse"`: a batch with a row or a label that cannot be read changes nothing, and
        the refusal is outside the guarantee. `"null"`: such rows are null rounds, which is inside.
        """
        batch, usable, answers = readable_rounds(self.cls, X, y, bad_rows)
        self._enter()
        self._pass_many(batch, answers, usable)
