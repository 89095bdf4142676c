"""Share what private learners have in common: steps, releases, checkpoints.

Releases are the public transcript. A checkpoint is all that a learner needs to go on elsewhere, as
data: as sensitive as the stream.

A learner is a gate (counts and live noise), a state learned from rounds, and its releases. The
state comes in numbered parts (a tree; a page of counts) and knows which have changed since they
were last saved: a checkpoint writes what a batch of rounds changed, however large the rest.

Before each example there is a published rule; past the horizon the last one stands; a null round
uses up its number; a step that is interrupted half-way is the last one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from markupsafe import Markup

from littlestone._classes.base import HypothesisClass, row_reader
from littlestone._data.cells import NO_USER, user_number
from littlestone._data.rounds import Rounds
from littlestone._data.schema import BadRows, read_rounds, readable_batch, user_numbers
from littlestone._display import facts, facts_table, few, side_by_side
from littlestone._hypotheses.rows import Batch, label
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.rounds import Numbers, RoundBatch, learn_parts, usable_rounds
from littlestone._learners.trace import TOP, Sample, Thinned, Trace
from littlestone._plots import plot_private
from littlestone._privacy.accounting import Cost, Guarantee, PrivacyEvent, Unit
from littlestone._privacy.mechanism import ForwardOnly, MechanismMoved
from littlestone._privacy.parameters import BadParameter
from littlestone.errors import BadExample

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Release(NamedTuple):
    """Record that from round `round` on the published rule is `rule`.

    Parameters
    ----------
    round : int
        The round; the first is 1.
    rule : Hypothesis
        The published rule.
    """

    round: int
    rule: Hypothesis


class Releases(tuple[Release, ...]):
    """Hold the rules published so far, each with its first round: the public transcript."""

    __slots__ = ()

    def _repr_html_(self) -> Markup:
        rows = [(f"{number:,}", str(rule)) for number, rule in self]
        return facts_table("releases", few(rows), ("from round", "rule"))


# Small state that changes with every batch, as JSON data.
StateData: TypeAlias = dict[str, Any]


class ChangedState(NamedTuple):
    """Hold the parts that have changed."""

    cleared: bool
    parts: dict[int, bytes]


class Checkpoint(NamedTuple):
    """Hold a learner as data: what changed since the last checkpoint or, for resuming, all of it."""

    state: StateData
    memory: ChangedState
    users: Mapping[int, int]
    releases: tuple[Release, ...]
    trace: Thinned


class LearnerPlan(Protocol):
    """Describe a plan: all constants of a learner, chosen before any data. It is public."""

    @property
    def epsilon(self) -> Fraction:
        """Return the epsilon of all that is published."""

    @property
    def horizon(self) -> int:
        """Return the number of rounds after which the last rule stands."""

    def lines(self) -> Iterable[tuple[str, str, str]]:
        """Return the rows of the plan table: a quantity, its value, the reason."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""


class PrivateLearner(ForwardOnly, ABC):
    """Publish rules that are differentially private. Forward only.

    A subclass sets `plan`, `seed` and `_runner`, which moves through the rounds, holds the gate and
    calls `_publish` and `_watch`. It has `learn_one`, `skip_one` and `learn_many`; one that
    protects users takes those too, as further arguments.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    rule : Hypothesis
        The first published rule.
    horizon : int
        The number of rounds after which the last rule stands.
    """

    plan: LearnerPlan
    seed: int
    # Moves through the rounds (`_learners/loop.py`), which it imports this module for.
    _runner: Any

    def __init__(self, cls: HypothesisClass, rule: Hypothesis, horizon: int) -> None:
        self.cls, self._horizon = cls, horizon
        self._releases = [Release(1, rule)]
        self._trace = Trace()
        self.rounds = self.null_rounds = self.beyond_cap = 0
        self._under_way = Lock()
        self._read_row = row_reader(cls)

    @abstractmethod
    def learn_one(self, x: object, y: object) -> None:
        """Learn one labelled example.

        Parameters
        ----------
        x : object
            The example.
        y : object
            Its label: 0 or 1.
        """

    @abstractmethod
    def skip_one(self) -> None:
        """Pass a null round: it uses up its number, and nothing is learned."""

    @abstractmethod
    def learn_many(self, X: Any, y: object, *, bad_rows: BadRows = "refuse") -> None:
        """Learn a batch of labelled examples, as if one after the other.

        Parameters
        ----------
        X : table, array or list of rows
            The examples.
        y : sequence
            Their labels.
        bad_rows : {"refuse", "null"}
            What happens to rows that cannot be read.
        """

    @property
    def hypothesis(self) -> Hypothesis:
        """Return the rule published for the next example. Public."""
        rule: Hypothesis = self._runner.rule
        return rule

    @property
    def releases(self) -> Releases:
        """Return the rules published so far, each with its first round. Public."""
        return Releases(self._releases)

    @property
    def guarantee(self) -> Guarantee:
        """Return the guarantee of all that is published, however long the stream gets."""
        guarantee: Guarantee = self._runner.gate.guarantee
        return guarantee

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far. Public: it follows from the transcript."""
        ledger: tuple[PrivacyEvent, ...] = self._runner.gate.ledger
        return ledger

    @property
    def spent(self) -> Cost:
        """Return the sum of the ledger: never more than the guarantee."""
        spent: Cost = self._runner.gate.spent
        return spent

    @property
    def final(self) -> str | None:
        """Return why the published rule will not change any more, if so. Public."""
        if self.rounds >= self._horizon:
            return f"the horizon of {self._horizon:,} rounds is reached: the last rule stands"
        gate = self._runner.gate
        if gate.exhausted:
            return f"all {gate.releases_made} releases are used up: the last rule stands"
        return None

    @property
    def mistakes(self) -> int:
        """Return the mistakes of the published rules so far. Private."""
        return int(self._runner.mistakes)

    @property
    def counted_rounds(self) -> int:
        """Return the rounds that had an example and counted: mistakes are among these. Private.

        The others are the `null_rounds`. Of those, `beyond_cap` had an example of a user with no
        rounds left under the plan's cap; the rest could not be read.
        """
        return self.rounds - self.null_rounds

    @property
    def trace(self) -> tuple[Sample, ...]:
        """Return the history of mistakes and votes. Private."""
        self._runner.learn_buffered()
        now = self._sample(self.rounds, self._runner.forest.votes)
        # The last sample may be of this very round.
        past = self._trace.samples
        return past if past and past[-1].round == now.round else (*past, now)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw what there is to see of a run: here `plot_private`. A learner of causes has more.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. Their title says whether they are PRIVATE.
        """
        return self.plot_private(ax)

    def plot_private(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mistakes over the rounds, with a mark where another rule is published. PRIVATE.

        The curve carries no noise: it belongs to the data owner and must not be published.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw, such as those of `pyplot.subplots`; new axes by default, which pyplot
            does not know of: `learner.plot_private().figure.savefig("private.svg")`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        points = [(sample.round, sample.mistakes) for sample in self.trace]
        return plot_private(points, [release.round for release in self._releases[1:]], ax)

    def __repr__(self) -> str:
        state = f"round {self.rounds:,}: {self.hypothesis}"
        return f"{type(self).__name__}({self.cls!r}) at {state}; {self.final or self.guarantee}"

    def _repr_html_(self) -> str:
        """Return what is public, and nothing else: no mistakes, no votes, no null rounds."""
        shown = {
            "class": repr(self.cls),
            "published rule": str(self.hypothesis),
            "rounds": f"{self.rounds:,} of {self._horizon:,}",
            "guarantee": str(self.guarantee),
        }
        if self.final is not None:
            shown["final"] = self.final
        name = type(self).__name__
        return side_by_side([facts(name, shown, note="public"), self.releases._repr_html_()])

    @abstractmethod
    def learn(self, rounds: Rounds) -> None:
        """Learn rounds that a schema has read for this class."""

    def predict_one(self, x: object) -> bool:
        """Predict the label of an example by the published rule."""
        return bool(self._runner.rule(x))

    def predict_many(self, X: Any) -> Mask:
        """Predict the labels of a batch by the published rule."""
        return self.cls.predict(self._runner.rule, readable_batch(self.cls, X))

    @contextmanager
    def checkpoint(self) -> Iterator[Checkpoint]:
        """Yield the learner's state to be saved by the `with` block; after the block, go on.

        If the block raises, this learner learns no more: whether the state was saved is unknown
        (docs/guarantee.md, Theorem 12).

        Yields
        ------
        Checkpoint
            What has changed since the last checkpoint.

        Raises
        ------
        MechanismMoved
            If a step is under way, or one was interrupted.

        Examples
        --------
        >>> from littlestone._classes.sets import Points
        >>> from littlestone._learners.dpsoa import DPSOA
        >>> learner = DPSOA(Points(), epsilon=1, delta=1e-6, horizon=1000)
        >>> learner.learn_one("a", 1)
        >>> with learner.checkpoint() as saved:
        ...     print(saved.state["rounds"])
        1
        """
        self._enter()
        runner = self._runner
        with runner.gate.checkpoint() as gate:
            runner.learn_buffered()
            live: StateData = {
                "rounds": self.rounds,
                "null_rounds": self.null_rounds,
                "beyond_cap": self.beyond_cap,
                "gate": gate,
                "runner": runner.get_state(),
                "memory": runner.forest.get_state(),
                "trace": self._trace.get_state(),
            }
            memory, trace = runner.forest.unsaved(), self._trace.unsaved()
            yield Checkpoint(live, memory, self._unsaved_users(), self.releases, trace)
        # Not in a `finally`: after a block that raised, this learner must not take another step.
        self._under_way.release()

    def resume(self, saved: Checkpoint) -> None:
        """Load the state of a saved learner of the same class, plan and seed.

        The store must ensure that a state is resumed only once.

        Raises
        ------
        BadParameter
            If this learner has already learned.
        """
        if self.rounds or self._under_way.locked():
            raise BadParameter(
                f"this learner is at round {self.rounds}: only a learner that has not begun can "
                "resume"
            )
        self._enter()
        live, runner = saved.state, self._runner
        # The gate first: it refuses the state of another plan before anything is loaded.
        runner.gate.resume(live["gate"])
        self._load_memory(saved)
        runner.load_state(live["runner"], saved.releases)
        self._releases = list(saved.releases)
        self._trace.load_state(live["trace"], saved.trace.new)
        self.rounds, self.null_rounds = live["rounds"], live["null_rounds"]
        self.beyond_cap = live.get("beyond_cap", 0)
        self._load_users(saved.users)
        self._under_way.release()

    def _unsaved_users(self) -> Mapping[int, int]:
        """Return the users whose count has changed since the last call."""
        return {}

    def _load_memory(self, saved: Checkpoint) -> None:
        """Load what was learned."""
        self._runner.forest.load_state(saved.state["memory"], saved.memory.parts)

    def _load_users(self, users: Mapping[int, int]) -> None:
        """Load the saved counts."""

    def _enter(self) -> None:
        """Begin a step: one at a time, and none after one that was interrupted half-way."""
        # A step that raises keeps the lock: its noise must not be drawn again (Theorem 12).
        if not self._under_way.acquire(False):
            raise MechanismMoved(
                "another step of this learner is running, or one was interrupted: the learner "
                "still predicts, but learns no more"
            )

    def _pass(self, x: object, y: bool | None, route: int) -> None:
        """Learn one round of a step that has been entered; a null one has no label."""
        number, runner = self.rounds, self._runner
        # Past the horizon the last rule stands, and mistakes are counted for the owner only.
        if y is not None:
            if number >= self._horizon:
                self._runner.count_late_one(x, y)
            else:
                runner.advance_one(number, x, y, route)
        elif number < self._horizon:
            runner.pass_one(number)
        self.null_rounds += y is None
        self.rounds = number + 1
        self._under_way.release()

    def _pass_many(
        self, batch: Batch, answers: Mask, usable: Mask, routes: Numbers | None = None
    ) -> None:
        """Learn the rounds of a step that has been entered; those not usable are null rounds."""
        rounds = usable_rounds(batch, answers, usable, self.rounds, routes)
        self._pass_rounds(rounds, len(answers))
        self.null_rounds += len(answers) - rounds.size
        self._under_way.release()

    def _pass_rounds(self, rounds: RoundBatch, count: int) -> None:
        """Learn `count` rounds, null ones included; past the horizon they are only counted."""
        end = self.rounds + count
        # The gate sees no round past the horizon: that is what its budget is planned for.
        stop = max(self.rounds, min(end, self._horizon))
        self._runner.advance(rounds, self.rounds, stop)
        if stop < end:
            self._runner.count_late(rounds.between(stop, end))
        self.rounds = end

    def _publish(self, number: int, rule: Hypothesis) -> None:
        """Record a release. The argument is the rounds before it."""
        self._releases.append(Release(number + 1, rule))

    def _watch(self, number: int, votes: Mapping[Hypothesis, int], fired: bool) -> None:
        """Add a sample to the private trace."""
        # Nearer to the last than a thousandth of the stream it would be thinned out soon, and
        # until then every small batch of a store would write one.
        if fired or number - self._trace.last_round >= number >> 10:
            self._trace.add(self._sample(number, votes), keep=fired)

    def _sample(self, number: int, votes: Mapping[Hypothesis, int]) -> Sample:
        # Ties by the rule itself: the trace must not depend on the order in which trees voted.
        top = sorted(votes.items(), key=lambda pair: (-pair[1], pair[0]))[:TOP]
        return Sample(number, self.mistakes, tuple(top))


class EventLearner(PrivateLearner):
    """Protect one round, whoever it belongs to."""

    def learn_one(self, x: object, y: object) -> None:
        """Learn one labelled example."""
        x, answer = self._read_row(x), label(y)
        self._enter()
        self._pass(x, answer, self.rounds)

    def skip_one(self) -> None:
        """Pass a null round: it uses up its number, and nothing is learned."""
        self._enter()
        self._pass(None, None, self.rounds)

    def learn_many(self, X: Any, y: object, *, bad_rows: BadRows = "refuse") -> None:
        """Learn a batch of labelled examples, as if one after the other."""
        learn_parts(self.cls, X, y, None, partial(self._learn_batch, bad_rows))

    def _learn_batch(self, bad_rows: BadRows, X: Any, y: object, users: Any) -> None:
        """Learn one batch, all of it or nothing."""
        self.learn(read_rounds(self.cls, X, y, None, bad_rows))

    def learn(self, rounds: Rounds) -> None:
        """Learn rounds that a schema has read for this class."""
        self._enter()
        self._pass_many(rounds.batch, rounds.answers, rounds.usable)


class RemoteRows(Protocol):
    """Describe consecutive remote rows, as far as a learner needs to know them."""

    @property
    def count(self) -> int:
        """Return how many rows there are."""

    @property
    def has_users(self) -> bool:
        """Tell whether each row has a user."""

    def routes(self) -> Numbers:
        """Return the number of each row's user, which is public."""

    def numbered(self, first: int, within: Mask | None) -> RoundBatch:
        """Return the rows as rounds."""

    def null_rounds(self, within: Mask | None) -> int:
        """Return how many of the rows are null rounds."""


class UserPlan(LearnerPlan, Protocol):
    """Describe a plan that says what is protected."""

    @property
    def unit(self) -> Unit:
        """Return what is protected: one round, or all rounds of a user."""

    @property
    def cap(self) -> int | None:
        """Return how many rounds of a user count; None is no limit."""


class UserLearner(PrivateLearner):
    """Protect one round, or all rounds of a user, as the plan says."""

    plan: UserPlan

    def __init__(self, cls: HypothesisClass, rule: Hypothesis, horizon: int) -> None:
        super().__init__(cls, rule, horizon)
        self._rounds_of: dict[int, int] = {}
        self._unsaved: set[int] = set()

    def learn_one(self, x: object, y: object, user: object = None) -> None:
        """Learn one labelled example."""
        x, answer = self._read_one(x, y)
        if user is None and self.plan.unit == "event":
            # The common case, without users and caps.
            self._enter()
            self._pass(x, answer, self.rounds)
        else:
            self._one(x, answer, self._route(user))

    def _read_one(self, x: object, y: object) -> tuple[object, bool]:
        """Return a row as it is learned, and its label."""
        return self._read_row(x), y if y is True or y is False else label(y)

    def skip_one(self, user: object = None) -> None:
        """Pass a null round: it uses up its number, and nothing is learned."""
        if user is not None:
            self._need_users(True)
        self._one(None, None, int(user_numbers([user])[0]))

    def _one(self, x: object, y: bool | None, route: int) -> None:
        """Learn one round, or pass it if its user's cap is reached."""
        self._enter()
        # Null rounds count against the cap too: who appears when is public, the label is not.
        if self.plan.cap is not None and not self._within_cap(route):
            self.beyond_cap += y is not None
            y = None
        self._pass(x, y, route)

    def learn_many(
        self, X: Any, y: object, users: Any = None, *, bad_rows: BadRows = "refuse"
    ) -> None:
        """Learn a batch of labelled examples, as if one after the other."""
        learn_parts(self.cls, X, y, users, partial(self._learn_batch, bad_rows))

    def _learn_batch(self, bad_rows: BadRows, X: Any, y: object, users: Any) -> None:
        """Learn one batch, all of it or nothing."""
        self.learn(read_rounds(self.cls, X, y, users, bad_rows))

    def learn(self, rounds: Rounds) -> None:
        """Learn rounds that a schema has read for this class."""
        # Refused before `_enter`: a refusal must leave the learner as it was.
        self._need_users(rounds.users is not None)
        self._enter()
        usable = rounds.usable
        if rounds.users is not None and self.plan.cap is not None:
            within = np.fromiter(map(self._within_cap, rounds.users.tolist()), dtype=bool)
            self.beyond_cap += int((usable & ~within).sum())
            usable = usable & within
        self._pass_many(rounds.batch, rounds.answers, usable, rounds.users)

    def learn_remote(self, rows: RemoteRows) -> None:
        """Learn remote rows, as if one by one. Rows that cannot be read are null rounds."""
        self._need_users(rows.has_users)
        self._enter()
        # Who is within the cap is public, so it is decided here and not where the rows are.
        within = None
        if self.plan.cap is not None:
            within = np.fromiter(map(self._within_cap, rows.routes().tolist()), dtype=bool)
        self._pass_rounds(rows.numbered(self.rounds, within), rows.count)
        nulls = rows.null_rounds(within)
        self.null_rounds += nulls
        if within is not None:
            self.beyond_cap += nulls - rows.null_rounds(None)
        self._under_way.release()

    def _route(self, user: object) -> int:
        """Return what routes a round to its tree: its own number, or its user's."""
        if user is None and self.plan.unit == "event":
            return self.rounds
        self._need_users(user is not None)
        route = user_number(user)
        if route == NO_USER:
            raise BadExample("the round has no user")
        return route

    def _need_users(self, given: bool) -> None:
        """Refuse users where the plan has none, and their absence where it has."""
        if given != (self.plan.unit == "user"):
            needs = "takes no users" if given else "requires the user of each round"
            raise BadExample(f"a learner with unit={self.plan.unit!r} {needs}")

    def _within_cap(self, route: int) -> bool:
        """Count a user's round, and tell whether it is within the cap; both are public."""
        if self.plan.cap is None or route == NO_USER:
            return True
        # Counted whatever the row holds: who appears when is public, so the cap depends on that
        # alone.
        self._rounds_of[route] = self._rounds_of.get(route, 0) + 1
        self._unsaved.add(route)
        return self._rounds_of[route] <= self.plan.cap

    def _unsaved_users(self) -> Mapping[int, int]:
        found = {route: self._rounds_of[route] for route in sorted(self._unsaved)}
        self._unsaved = set()
        return found

    def _load_users(self, users: Mapping[int, int]) -> None:
        self._rounds_of = dict(users)
