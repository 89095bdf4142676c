"""Share what private learners have in common: steps, releases, checkpoints.

Releases are the public transcript. A checkpoint is all that a learner needs to go on elsewhere, as
data: as sensitive as the stream.

A learner is a gate (counts and live noise), a state learned from rounds, and its releases. The
state comes in numbered parts (a tree; a page of counts) and knows which have changed since they
were last saved: a checkpoint writes what a batch of rounds changed, however large the rest.

Before each example there is a published rule; past the horizon the last one stands; a null round
uses up its number; a step that is interrupted half-way is the last one.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from littlestone._classes.base import read_row
from littlestone._data.cells import NO_USER, read_time, user_number
from littlestone._data.rounds import RowSpan
from littlestone._data.schema import BadRows, read_parts, readable_batch, user_numbers
from littlestone._display import facts, facts_table, few, side_by_side
from littlestone._hypotheses.cells import label
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.loop import ChangedState, EpochState, Loop, ReadVotes, StateData
from littlestone._learners.trace import TOP, Sample, Thinned, Trace
from littlestone._plots import plot_private
from littlestone._privacy.accounting import Cost, Guarantee, PrivacyEvent, Unit
from littlestone._privacy.mechanism import ForwardOnly, MechanismMoved
from littlestone._privacy.parameters import BadParameter
from littlestone.errors import BadExample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from littlestone._learners.evidence import Window


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


class Checkpoint(NamedTuple):
    """Hold a learner as data: what changed since the last checkpoint or, for resuming, all of it."""

    state: StateData
    memory: ChangedState
    users: Mapping[int, int]
    releases: tuple[Release, ...]
    trace: Thinned


class PrivateLearner(ForwardOnly):
    """Publish rules that are differentially private. Forward only.

    What is protected, one round or all rounds of a user, is a fact of the plan. A kind of learner
    is a plan, a gate and the state of an epoch, put together by its constructor.

    Parameters
    ----------
    plan : PlanTable
        All constants of the learner.
    seed : int
        Fixes the random bits that are not secret.
    rule : Hypothesis
        The first published rule.
    state : EpochState
        What is learned in an epoch, of which class.
    gate : Gate
        What decides when to publish what.
    """

    # What moves through the rounds.
    _loop_type: type[Loop] = Loop

    def __init__(
        self, plan: Any, seed: int, rule: Hypothesis, state: EpochState, gate: Any
    ) -> None:
        self.cls, self.plan, self.seed, self._horizon = state.cls, plan, seed, plan.horizon
        self._unit: Unit = plan.unit
        self._cap: int | None = plan.cap
        self._releases = [Release(1, rule)]
        self._trace = Trace()
        self.rounds = self.null_rounds = self.beyond_cap = 0
        # Of learners with a cap: the rounds of each user, and whose are not saved yet.
        self._rounds_of: dict[int, int] = {}
        self._unsaved: set[int] = set()
        self._under_way = Lock()
        # Gate and state of the epoch. Private, like all counts: for the data owner.
        self.loop = self._loop_type(state, gate, rule, plan.check_every, self._publish, self._watch)

    def learn_one(self, x: object, y: object, user: object = None) -> None:
        """Learn one labelled example.

        Parameters
        ----------
        x : object
            The example.
        y : object
            Its label: 0 or 1.
        user : object, optional
            Whose it is, if the plan protects users.
        """
        x, answer = self._read_one(x, y)
        by_round = user is None and self._unit == "event"
        self._pass(x, answer, self.rounds if by_round else self._route(user))

    def skip_one(self, user: object = None) -> None:
        """Pass a null round: it uses up its number, and nothing is learned.

        Parameters
        ----------
        user : object, optional
            Whose it is, if that is known: it counts for the cap.
        """
        if user is not None:
            self._need_users(True)
        self._pass(None, None, int(user_numbers([user])[0]))

    def learn_many(
        self, X: Any, y: object, users: Any = None, *, bad_rows: BadRows = "refuse"
    ) -> None:
        """Learn a batch of labelled examples, as if one after the other.

        Parameters
        ----------
        X : table, array or list of rows
            The examples.
        y : sequence or str
            Their labels, or the name of their column.
        users : sequence or str, optional
            Their users, or the name of their column, if the plan protects users.
        bad_rows : {"refuse", "null"}
            What happens to rows that cannot be read.
        """
        before = self.rounds
        for rounds in read_parts(self.cls, X, y, users, bad_rows):
            self.learn(rounds)
        if (late := self.rounds - max(before, self._horizon)) > 0:
            warnings.warn(
                f"{late:,} of these rows come after the horizon of {self._horizon:,} rounds, and are "
                "not learned: the last rule stands. Begin a learner with a larger horizon, and a "
                "budget of its own, for what will come",
                stacklevel=2,
            )

    @property
    def hypothesis(self) -> Hypothesis:
        """Return the rule published for the next example. Public."""
        return self.loop.rule

    @property
    def releases(self) -> Releases:
        """Return the rules published so far, each with its first round. Public."""
        return Releases(self._releases)

    @property
    def guarantee(self) -> Guarantee:
        """Return the guarantee of all that is published, however long the stream gets."""
        guarantee: Guarantee = self.loop.gate.guarantee
        return guarantee

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far. Public: it follows from the transcript."""
        ledger: tuple[PrivacyEvent, ...] = self.loop.gate.ledger
        return ledger

    @property
    def spent(self) -> Cost:
        """Return the sum of the ledger: never more than the guarantee."""
        spent: Cost = self.loop.gate.spent
        return spent

    @property
    def draws(self) -> int:
        """Return how often the gate drew what to publish. Public."""
        return int(self.loop.gate.releases_made)

    @property
    def final(self) -> str | None:
        """Return why the published rule will not change any more, if so. Public."""
        if self.rounds >= self._horizon:
            return f"{self._reached}: nothing changes any more"
        gate = self.loop.gate
        if gate.exhausted:
            return f"all {gate.releases_made} releases are used up: the last rule stands"
        return None

    # What is counted to the horizon.
    _noun = "round"

    @property
    def _reached(self) -> str:
        return f"the horizon of {self._horizon:,} rounds is reached"

    @property
    def windows(self) -> "tuple[Window, ...]":
        """Return the counts of windows of rounds that were released: most learners have none."""
        return ()

    def end_window(self) -> None:
        """Release the counts of the present window now, if there are windows."""

    @property
    def mistakes(self) -> int:
        """Return the mistakes of the published rules so far. Private."""
        return int(self.loop.mistakes)

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
        self.loop.gather()
        now = self._sample(self.rounds, self.loop.state.votes)
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
        state = f"{self._noun} {self.rounds:,}: {self._in_words()}"
        return f"{type(self).__name__}({self.cls!r}) at {state}; {self.final or self.guarantee}"

    def _in_words(self) -> str:
        """Return the published rule as text. Public."""
        return str(self.hypothesis)

    def _repr_html_(self) -> str:
        """Return what is public, and nothing else: no mistakes, no votes, no null rounds."""
        shown = {
            "class": repr(self.cls),
            "published rule": self._in_words(),
            f"{self._noun}s": f"{self.rounds:,} of {self._horizon:,}",
            "guarantee": str(self.guarantee),
        }
        if self.final is not None:
            shown["final"] = self.final
        name = type(self).__name__
        return side_by_side([facts(name, shown, note="public"), self._published_html()])

    def _published_html(self) -> Markup:
        return self.releases._repr_html_()

    def learn(self, rounds: RowSpan) -> None:
        """Learn rounds that a schema has read for this class: the only loop of all learners."""
        # Refused before `_enter`: a refusal must leave the learner as it was.
        self._need_users(rounds.has_users)
        self._enter()
        # Who is within the cap is public, so it is decided here, wherever the rows are.
        within = None
        if self._cap is not None:
            within = self._within(rounds.routes().tolist())
        batch, end = rounds.numbered(self.rounds, within), self.rounds + len(rounds)
        # The gate sees no round past the horizon: that is what its budget is planned for.
        stop = max(self.rounds, min(end, self._horizon))
        first, state = self.rounds, self.loop.state
        kept, state.time_of = (
            state.time_of,
            lambda number: read_time(rounds.time_cell(number - first - 1)),
        )
        self._advance(batch, stop)
        # The last time stays, without the batch: a window may still end with it (`end_window`).
        state.time_of = {stop: state.time_of(stop)}.get if first < stop else kept
        if stop < end:
            self.loop.count_late(batch.between(stop, end))
        self.rounds = end
        nulls = rounds.null_rounds(within)
        self.null_rounds += nulls
        if within is not None:
            self.beyond_cap += nulls - rounds.null_rounds(None)
        self._under_way.release()

    def _advance(self, rounds: RowSpan, stop: int) -> None:
        """Learn rounds up to one."""
        self.loop.advance(rounds, self.rounds, stop)

    def predict_one(self, x: object) -> bool:
        """Predict the label of an example by the published rule."""
        return self.loop.rule(x)

    def predict_many(self, X: Any) -> Mask:
        """Predict the labels of a batch by the published rule."""
        return self.cls.predict(self.loop.rule, readable_batch(self.cls, X))

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
        loop = self.loop
        with loop.gate.checkpoint() as gate:
            live: StateData = {
                "rounds": self.rounds,
                "null_rounds": self.null_rounds,
                "beyond_cap": self.beyond_cap,
                "gate": gate,
                "loop": loop.get_state(),
                "time": loop.state.time_of(min(self.rounds, self._horizon)),
                "trace": self._trace.get_state(),
            }
            memory, trace = loop.state.unsaved(), self._trace.unsaved()
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
        live = saved.state
        # The gate first: it refuses the state of another plan before anything is loaded.
        self.loop.gate.resume(live["gate"])
        self.loop.load_state(live["loop"], saved.memory.parts, saved.releases)
        self._releases = list(saved.releases)
        self._trace.load_state(live["trace"], saved.trace.new)
        self.rounds, self.null_rounds = live["rounds"], live["null_rounds"]
        self.beyond_cap = live["beyond_cap"]
        self.loop.state.time_of = {min(self.rounds, self._horizon): live.get("time")}.get
        self._rounds_of = dict(saved.users)
        self._under_way.release()

    def _unsaved_users(self) -> Mapping[int, int]:
        """Return the users whose count has changed since the last call."""
        counts = {route: self._rounds_of[route] for route in sorted(self._unsaved)}
        self._unsaved = set()
        return counts

    def _enter(self) -> None:
        """Begin a step: one at a time, and none after one that was interrupted half-way."""
        # A step that raises keeps the lock: its noise must not be drawn again (Theorem 12).
        if not self._under_way.acquire(False):
            raise MechanismMoved(
                "another step of this learner is running, or one was interrupted: the learner "
                "still predicts, but learns no more"
            )

    def _pass(self, x: object, y: bool | None, route: int) -> None:
        """Learn one round; a null one, or one of a user whose cap is reached, has no label."""
        self._enter()
        # Null rounds count against the cap too: who appears when is public, the label is not.
        if self._cap is not None and not self._within_cap(route, self.rounds):
            self.beyond_cap += y is not None
            y = None
        number = self.rounds
        if number < self._horizon:
            self.loop.advance_one(number, x, y, route)
        elif y is not None:
            # The last rule stands, and its mistakes are counted for the owner only.
            self.loop.count_late_one(number, x, y, route)
        self.null_rounds += y is None
        self.rounds = number + 1
        self._under_way.release()

    def _read_one(self, x: object, y: object) -> tuple[object, bool]:
        """Return a row as it is learned, and its label."""
        return read_row(self.cls, x), y if y is True or y is False else label(y)

    def _route(self, user: object) -> int:
        """Return what routes a round of a user to its tree."""
        self._need_users(user is not None)
        route = user_number(user)
        if route == NO_USER:
            raise BadExample("the round has no user")
        return route

    def _need_users(self, given: bool) -> None:
        """Refuse users where the plan has none, and their absence where it has."""
        if given != (self._unit == "user"):
            needs = "takes no users" if given else "requires the user of each round"
            raise BadExample(f"a learner with unit={self._unit!r} {needs}")

    def _within(self, routes: list[int]) -> Mask:
        """Return which of the next rounds are within the cap of their users. Public."""
        return np.fromiter(map(self._within_cap, routes, count(self.rounds)), dtype=bool)

    def _within_cap(self, route: int, number: int) -> bool:
        """Count a user's round, and tell whether it is within the cap; both are public."""
        if self._cap is None or route == NO_USER:
            return True
        # Counted whatever the row holds: who appears when is public, so the cap depends on that
        # alone.
        self._rounds_of[route] = self._rounds_of.get(route, 0) + 1
        self._unsaved.add(route)
        return self._rounds_of[route] <= self._cap

    def _publish(self, number: int, rule: Hypothesis) -> None:
        """Record a release. The argument is the rounds before it."""
        self._releases.append(Release(number + 1, rule))

    def _watch(self, number: int, read_votes: ReadVotes, fired: bool) -> None:
        """Add a sample to the private trace, if it is due and there are votes for it."""
        # Nearer to the last than a thousandth of the stream it would be thinned out soon, and
        # until then every small batch of a store would write one.
        if fired or number - self._trace.last_round >= number >> 10:
            votes = read_votes()
            if votes is not None:
                self._trace.add(self._sample(number, votes), keep=fired)

    def _sample(self, number: int, votes: Mapping[Hypothesis, int]) -> Sample:
        least = min(sorted(votes.values(), reverse=True)[:TOP], default=0)
        leading = [pair for pair in votes.items() if pair[1] >= least]
        # Ties by the rule itself: the trace must not depend on the order in which trees voted.
        top = sorted(leading, key=lambda pair: (-pair[1], pair[0].key))[:TOP]
        return Sample(number, self.mistakes, tuple(top))
