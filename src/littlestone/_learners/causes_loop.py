"""Tell the loop what `PrivateCauses` has of its own: count losses, draw moves, release counts.

The weighted loss of the published rule is monitored; when it has grown too large a move is drawn:
add a cause that the epoch's rows speak for, drop one that costs more than it finds, or nothing
(docs/guarantee.md, Theorems 15 and 16).

Where labels are outcomes a cause is a pattern and an outcome. A row that causes match, but none of
its own outcome, is a missed positive and moves no score: see Theorem 15, "Outcomes".
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.causes import Causes
from littlestone._data.rounds import RoundBatch, UsableRounds
from littlestone._hypotheses.causes import (
    OUTCOME,
    Cause,
    any_of,
    cause_from_key,
    causes_of,
    match_counts,
    own_causes,
)
from littlestone._hypotheses.rows import value_of
from littlestone._hypotheses.rules import NEVER
from littlestone._hypotheses.values import Mask, Plain, canonical
from littlestone._learners.base import Release, StateData
from littlestone._learners.causes_plan import (
    AUTO,
    FEWEST_WINDOWS,
    FIRST_EPOCHS,
    CausesPlan,
    at_checks,
    auto_min_rate,
)
from littlestone._learners.coded_rounds import CodedRounds
from littlestone._learners.epoch_rows import EpochRows
from littlestone._learners.evidence import (
    Window,
    rate_of,
    window_from_json,
)
from littlestone._learners.loop import BallotWatcher, Loop, Publish
from littlestone._privacy.causes import ADD, CausesMechanism, CausesSchedule, Counts, Gains
from littlestone._privacy.noise import Noise

# Rounds that are learned at once: few after a draw, then more and more.
FIRST_CHUNK, LARGEST_CHUNK = 1 << 11, 1 << 16


class CausesLoop(Loop):
    """Count the weighted loss, draw moves, release counts of windows."""

    first_step, largest_step = FIRST_CHUNK, LARGEST_CHUNK
    gate: CausesMechanism
    forest: EpochRows

    def __init__(
        self, cls: Causes, plan: CausesPlan, noise: Noise, publish: Publish, watch: BallotWatcher
    ) -> None:
        given = None if plan.min_rate == AUTO else plan.given_rate
        mechanism = CausesMechanism(
            noise,
            per_round=plan.per_round,
            epsilon_evidence=plan.epsilon_evidence,
            gate=partial(plan.gate, noise),
            cost=None if given is None else plan.cost_of(given),
            unit=plan.unit,
            cap=plan.cap,
        )
        super().__init__(EpochRows(cls), mechanism, NEVER, publish, watch, plan.check_every)
        self.plan, self.min_rate = plan, given
        self._unwatched = plan.first_window
        self._limit, self._has_outcomes = cls.limit, cls.has_outcomes
        self.causes, self._missed = causes_of(NEVER), 0
        self.windows: list[Window] = []
        self._window_start, self._window_length = 0, plan.evidence_every
        self._begin_epoch(0)
        self._begin_window()

    @property
    def missed(self) -> int:
        """Return the positives that the published rules missed."""
        self._gather()
        return self._missed

    def _begin_epoch(self, number: int) -> None:
        self.forest.clear()
        gate = self.gate.gate
        if gate is not None:
            assert isinstance(gate.schedule, CausesSchedule)
            assert self.gate.cost is not None, "it is known when the gate is"
            margin = self.plan.margin(self.windows, self.causes, self.gate.cost)
            gate.schedule.begin_epoch(self._longest(gate.schedule.aged), margin)
        # For each cause, the negatives and positives that it alone matches.
        self._alone = np.zeros((len(self.causes), 2), dtype=np.int64)

    def _longest(self, aged: int) -> int:
        """Return the rounds after which an epoch ends by its age; so many before it have."""
        longest = self.plan.longest_epoch
        if not self.causes:
            return longest
        share = self.plan.horizon // FIRST_EPOCHS << min(aged, FIRST_EPOCHS)
        # At a check, as `longest_epoch` is.
        return min(-(-max(share, 1) // self._every) * self._every, longest)

    def _begin_window(self) -> None:
        self._cells = np.zeros((len(self.causes) + 1, 2), dtype=np.int64)
        # Of rows that no cause matches, those with the outcome of a published cause.
        self._rest_named = np.zeros(len(self._outcomes), dtype=np.int64)

    @property
    def _outcomes(self) -> tuple[Plain, ...]:
        """Return the outcomes of the published causes, each once. Public."""
        found = dict.fromkeys(cause.outcome for cause in self.causes)
        return tuple(found) if self._has_outcomes else ()

    @property
    def _outcome_places(self) -> Counts:
        """Return, for each published cause, the place of its outcome."""
        places = {outcome: place for place, outcome in enumerate(self._outcomes)}
        return np.array([places[cause.outcome] for cause in self.causes], dtype=np.int64)

    def _boundary(self, number: int) -> int:
        if number < self._unwatched:
            return self._unwatched
        assert self.gate.gate is not None, "it begins when the first window ends"
        at_age = (number // self._every + self.gate.gate.checks_to_epoch_end) * self._every
        return min(at_age, self._window_start + self._window_length)

    def _judge(self, part: Any) -> "_Matched":
        # Remote rows stay where they are, and are matched there.
        remote = getattr(part, "coded", None)
        rows = part.here() if remote is None else remote(self.causes)
        return _Matched.of(rows, self.causes, self._has_outcomes, self._costs)

    def _loss(self, x: object, y: bool) -> int:
        matching = [cause for cause in self.causes if cause(x)]
        told = bool(matching)
        if y and self._has_outcomes:
            outcome = canonical(value_of(x, OUTCOME))
            told = any(cause.outcome == outcome for cause in matching)
        return 0 if told == y else self._costs[0 if y else 1]

    def _kinds(self) -> dict[Any, Any]:
        outcomes = {OUTCOME: "value"} if self._has_outcomes else {}
        return super()._kinds() | outcomes

    def _sample(self, number: int) -> None:
        self._watch(number, {}, False)

    @property
    def _costs(self) -> tuple[int, int]:
        """Return the units of a missed positive and of a false alarm."""
        cost = self.gate.cost
        # In the first window nothing reads them.
        return (1, 1) if cost is None else (cost.denominator, cost.numerator)

    def _count(self, rows: "_Matched") -> None:
        """Count rows for the window, and mistakes for the data owner."""
        cells = rows.cells(len(self.causes))
        self._cells += cells
        missed, alarms = int(cells[-1, 1]), int(cells[:-1, 0].sum())
        if rows.own is not None:
            named = rows.named(self._outcome_places)
            self._rest_named += named
            self._cells[-1, 1] -= named.sum()
            missed, alarms = rows.missed_and_alarms
        self._missed += missed
        self._mistakes += missed + alarms

    def count_late(self, rounds: RoundBatch) -> None:
        """Count mistakes past the horizon for the data owner: no window and no draw reads them."""
        missed, alarms = self._judge(rounds).missed_and_alarms
        self._missed += missed
        self._mistakes += missed + alarms

    def _add(self, rows: "_Matched") -> None:
        self._count(rows)
        if self.gate.gate is None:
            return
        if self.causes:
            self._alone += rows.alone(len(self.causes))
        if isinstance(rows.part, CodedRounds):
            self.forest.add_columns(rows.part.unmatched)
        elif rows.part.size:
            self.forest.add(rows.part.batch, rows.part.answers, rows.counts == 0)

    def _scores(self) -> Gains:
        self._gather()
        units, alarm = self._costs
        adds, classes, keys = self.forest.gains(units=units, alarm=alarm)
        if len(self.causes) >= self._limit:
            # The number of published causes is public, so this choice costs nothing.
            adds, classes = adds[:0], classes[:0]
        drops = alarm * self._alone[:, 0] - units * self._alone[:, 1]
        return Gains(adds, classes, keys, drops, [cause.key for cause in self.causes])

    def _end_epoch(self, number: int, key: bytes | None) -> None:
        """End the epoch after a draw, and make the move that was drawn."""
        self._watch(number, {}, True)
        if key is not None:
            move, cause = key[:1], cause_from_key(key[1:])
            others = [other for other in self.causes if other != cause]
            rule = any_of([*others, cause] if move == ADD else others)
            if rule != self.rule:
                # The window's cells are those of the old causes: it ends with them.
                self.end_window(number)
                self.rule, self.causes = rule, causes_of(rule)
                self._window_length = self.plan.evidence_every
                self._begin_window()
                self._publish(number, rule)
        # Also when nothing was drawn: counts that survive a draw are read twice (Theorem 15).
        self._begin_epoch(number)
        self._pending, self._step = 0, self.first_step

    def _end_rounds(self, number: int) -> None:
        """Release counts where a window ends."""
        if number == self.plan.first_window and self.gate.gate is None:
            self._end_first_window(number)
        elif number == self._window_start + self._window_length or number == self.plan.horizon:
            self.end_window(number)

    def _end_first_window(self, number: int) -> None:
        self._gather()
        negatives, positives = self.gate.release_first(self._cells.ravel())
        scale = float(self.gate.first_scale)
        self.windows.append(Window(1, number, (), (negatives,), (positives,), scale))
        self.min_rate = auto_min_rate(negatives, positives)
        base = rate_of(positives, negatives + positives)
        self.gate.begin(self.plan.cost_of(self.min_rate), base)
        self._window_start = number
        self._begin_window()

    def end_window(self, number: int) -> None:
        """Release the counts of the window that ends after `number` rounds, and begin the next."""
        if number <= self._window_start or number < self._unwatched:
            return
        self._gather()
        # A row is in one cell only, of either array (Theorem 16).
        counts = self.gate.evidence.release(np.concatenate([self._cells.ravel(), self._rest_named]))
        counts, named = counts[: self._cells.size], counts[self._cells.size :]
        counts[-1] += sum(named)
        self.windows.append(
            Window(
                self._window_start + 1,
                number,
                self.causes,
                tuple(counts[::2]),
                tuple(counts[1::2]),
                float(self.gate.evidence.scale),
                tuple(zip(self._outcomes, named, strict=True)),
            )
        )
        self._window_start = number
        # Noise adds up over windows: fewer and longer ones, the longer a rule stands.
        longest = max(self.plan.horizon // FEWEST_WINDOWS, self.plan.evidence_every)
        self._window_length = at_checks(min(2 * self._window_length, longest))
        self._begin_window()

    def get_state(self) -> StateData:
        """Return the loop's own state; gate, rule and rows of the epoch have theirs."""
        named = {"named": self._rest_named.tolist()} if self._has_outcomes else {}
        return (
            super().get_state()
            | named
            | {
                "missed": self.missed,
                "alone": self._alone.tolist(),
                "cells": self._cells.tolist(),
                "window": [self._window_start, self._window_length],
                "windows": [window.to_json() for window in self.windows],
                "min_rate": None if self.min_rate is None else str(self.min_rate),
            }
        )

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Load the loop's own state; gate and rows of the epoch are loaded already."""
        super().load_state(live, releases)
        self.causes, self._missed = causes_of(self.rule), live["missed"]
        self._alone = np.array(live["alone"], dtype=np.int64).reshape(len(self.causes), 2)
        self._cells = np.array(live["cells"], dtype=np.int64).reshape(len(self.causes) + 1, 2)
        self._rest_named = np.array(live.get("named", ()), dtype=np.int64)
        self._window_start, self._window_length = live["window"]
        self.windows = [window_from_json(window) for window in live["windows"]]
        self.min_rate = None if live["min_rate"] is None else Fraction(live["min_rate"])


class _Matched(NamedTuple):
    """Hold rounds with how many causes match each, and which is the first (-1 if none)."""

    part: UsableRounds | CodedRounds
    counts: npt.NDArray[np.int8]
    first: npt.NDArray[np.int8]
    own: npt.NDArray[np.int8] | None
    costs: tuple[int, int]

    @classmethod
    def of(
        cls,
        part: UsableRounds | CodedRounds,
        causes: Sequence[Cause],
        has_outcomes: bool,
        costs: tuple[int, int],
    ) -> "_Matched":
        """Match rounds with causes; a missed positive and a false alarm have their costs."""
        if isinstance(part, CodedRounds):
            return cls(part, part.counts, part.first, part.own, costs)
        counts, first = np.zeros(part.size, np.int8), np.full(part.size, -1, np.int8)
        if not causes or not part.size:
            return cls(part, counts, first, None, costs)
        counts, first = match_counts(causes, part.batch)
        own = own_causes(causes, part.batch, counts) if has_outcomes else None
        return cls(part, counts, first, own, costs)

    def before(self, number: int) -> "_Matched":
        """Return the rounds before a round."""
        part = self.part.between(0, number)
        own = None if self.own is None else self.own[: part.size]
        return _Matched(part, self.counts[: part.size], self.first[: part.size], own, self.costs)

    @property
    def predicted(self) -> Mask:
        """Return the rows that a cause matches; of positive rows, a cause of their own outcome."""
        matched = self.first >= 0
        if self.own is None:
            return np.asarray(matched)
        return np.asarray(matched & ((self.own >= 0) | ~self.part.answers))

    @property
    def right(self) -> Mask:
        """Return the positive rows that no cause matches, or first one of their outcome."""
        if self.own is None:
            return self.part.answers
        return np.asarray(self.part.answers & ((self.first < 0) | (self.own == self.first)))

    @property
    def missed_and_alarms(self) -> tuple[int, int]:
        """Return how many positives were missed, and how many negatives are matched."""
        wrong = self.predicted != self.part.answers
        missed = int(np.count_nonzero(wrong & self.part.answers))
        return missed, int(np.count_nonzero(wrong)) - missed

    def named(self, places: Counts) -> Counts:
        """Return how many rows that no cause matches have each outcome of a published cause."""
        assert self.own is not None, "causes have outcomes"
        rows = self.part.answers & (self.first < 0) & (self.own >= 0)
        found = np.bincount(places[self.own[rows]], minlength=int(places.max()) + 1)
        return found.astype(np.int64)

    @property
    def wrong(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the rounds with a loss."""
        return np.asarray(self.part.number[self.predicted != self.part.answers])

    @property
    def losses(self) -> npt.NDArray[np.int64]:
        """Return the loss of each of them, in units."""
        wrong = self.predicted != self.part.answers
        return np.where(self.part.answers[wrong], *self.costs)

    def cells(self, causes: int) -> npt.NDArray[np.int64]:
        """Return the negatives and positives that each cause matches first; last, of none."""
        positives = int(np.count_nonzero(self.part.answers))
        found = np.array([[self.part.size - positives, positives]])
        if not causes:
            return found
        matched = np.flatnonzero(self.counts)
        first = _by_label(self.first[matched], self.right[matched], causes)
        answers = _by_label(self.first[matched], self.part.answers[matched], causes)
        return np.concatenate([first, found - answers.sum(axis=0)])

    def alone(self, causes: int) -> npt.NDArray[np.int64]:
        """Return the negatives and positives that each cause alone matches."""
        alone = self.counts == 1
        if self.own is not None:
            # A positive of another outcome moves no score.
            alone &= self.right == self.part.answers
        one = np.flatnonzero(alone)
        return _by_label(self.first[one], self.part.answers[one], causes)


def _by_label(place: npt.NDArray[Any], labels: Mask, size: int) -> npt.NDArray[np.int64]:
    counts = np.bincount(2 * place.astype(np.int64) + labels, minlength=2 * size)
    return counts.reshape(size, 2).astype(np.int64)
