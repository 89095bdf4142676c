"""Count what `PrivateCauses` reads of an epoch: losses, rows that speak for a move, evidence.

The weighted loss of the published rule is monitored; when it has grown too large a move is drawn:
add a cause that the epoch's rows speak for, drop one that costs more than it finds, or nothing
(docs/guarantee.md, Theorems 15 and 16).

Where labels are outcomes a cause is a pattern and an outcome. A row that causes match, but none of
its own outcome, is a missed positive and moves no score: see Theorem 15, "Outcomes".
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from littlestone._classes.causes import Causes
from littlestone._data.rounds import RowSpan
from littlestone._hypotheses.causes import OUTCOME, any_of, cause_from_key, causes_of
from littlestone._hypotheses.rows import value_of
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._hypotheses.values import Plain, canonical
from littlestone._learners.causes_plan import (
    AUTO,
    FEWEST_WINDOWS,
    FIRST_EPOCHS,
    CausesPlan,
    at_checks,
    auto_min_rate,
)
from littlestone._learners.epoch_rows import EpochRows
from littlestone._learners.evidence import Window, rate_of, window_from_json
from littlestone._learners.loop import ChangedState, EpochState, Judged, StateData
from littlestone._learners.matched import Matched, match
from littlestone._privacy.causes import ADD, CausesMechanism, CausesSchedule, Gains


class CauseCounts(EpochState):
    """Hold the unmatched rows of an epoch, the rows of each cause, and the counts of a window."""

    cls: Causes
    first_step, largest_step = 1 << 11, 1 << 16
    # Few: a row that waits takes ten times the memory of one that is kept.
    most_waiting = 1 << 8

    def __init__(self, cls: Causes, plan: CausesPlan, gate: CausesMechanism) -> None:
        self.cls, self.plan, self.gate = cls, plan, gate
        self.min_rate = None if plan.min_rate == AUTO else plan.given_rate
        self.unwatched = plan.first_window
        self.rows = EpochRows(cls)
        self.missed = 0
        self.windows: list[Window] = []
        self._window_start, self._window_length = 0, plan.evidence_every
        self._set_rule(NEVER)
        self._begin_window()
        self._begin_epoch()

    def _set_rule(self, rule: Hypothesis) -> None:
        self.causes = causes_of(rule)
        outcomes = [cause.outcome for cause in self.causes] if self.cls.has_outcomes else []
        # The outcomes of the published causes, each once, and for each cause its place among them.
        self._outcomes: tuple[Plain, ...] = tuple(dict.fromkeys(outcomes))
        self._outcome_places = np.array(list(map(self._outcomes.index, outcomes)), dtype=np.int64)

    def _begin_epoch(self) -> None:
        self.rows.clear()
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
        longest, every = self.plan.longest_epoch, self.plan.check_every
        if not self.causes:
            return longest
        share = self.plan.horizon // FIRST_EPOCHS << min(aged, FIRST_EPOCHS)
        # At a check, as `longest_epoch` is.
        return min(-(-max(share, 1) // every) * every, longest)

    def _begin_window(self) -> None:
        self._cells = np.zeros((len(self.causes) + 1, 2), dtype=np.int64)
        # Of rows that no cause matches, those with the outcome of a published cause.
        self._rest_named = np.zeros(len(self._outcomes), dtype=np.int64)
        self._set_due()

    def _set_due(self) -> None:
        end = min(self._window_start + self._window_length, self.plan.horizon)
        self.due = self.unwatched if self.gate.gate is None else end

    def kinds(self) -> dict[Any, Any]:
        """Return the columns that are read; rows that came one by one hold their outcome."""
        return super().kinds() | ({OUTCOME: "value"} if self.cls.has_outcomes else {})

    @property
    def _costs(self) -> tuple[int, int]:
        """Return the units of a missed positive and of a false alarm."""
        cost = self.gate.cost
        # In the first window nothing reads them.
        return (1, 1) if cost is None else (cost.denominator, cost.numerator)

    def judge(self, part: RowSpan, rule: Hypothesis) -> Judged:
        """Match rounds with the published causes, wherever the rows are."""
        rows: Matched = part.apply(match, self.cls, self.causes)
        wrong = np.flatnonzero(rows.wrong)
        return Judged(rows, rows.number[wrong], np.where(rows.answers[wrong], *self._costs))

    def loss(self, x: object, y: bool, rule: Hypothesis) -> int:
        """Return the loss of one row, in units."""
        matching = [cause for cause in self.causes if cause(x)]
        told = bool(matching)
        if y and self.cls.has_outcomes:
            outcome = canonical(value_of(x, OUTCOME))
            told = any(cause.outcome == outcome for cause in matching)
        return 0 if told == y else self._costs[0 if y else 1]

    def count(self, judged: Judged) -> None:
        """Count the positives that were missed."""
        rows: Matched = judged.rows
        self.missed += int(np.count_nonzero(rows.wrong & rows.answers))

    def add(self, judged: Judged) -> None:
        """Count rows for the window, and keep what the next draw reads."""
        rows: Matched = judged.rows
        self._cells += rows.cells(len(self.causes))
        if rows.own is not None:
            named = rows.named(self._outcome_places)
            self._rest_named += named
            self._cells[-1, 1] -= named.sum()
        if self.gate.gate is None:
            return
        if self.causes:
            self._alone += rows.alone(len(self.causes))
        self.rows.add(rows.unmatched)

    def scores(self) -> Gains:
        """Return what adding each pattern, and dropping each cause, would gain."""
        units, alarm = self._costs
        adds, classes, keys = self.rows.gains(units=units, alarm=alarm)
        if len(self.causes) >= self.cls.limit:
            # The number of published causes is public, so this choice costs nothing.
            adds, classes = adds[:0], classes[:0]
        drops = alarm * self._alone[:, 0] - units * self._alone[:, 1]
        return Gains(adds, classes, keys, drops, [cause.key for cause in self.causes])

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule after the move of a key."""
        move, cause = key[:1], cause_from_key(key[1:])
        others = [other for other in self.causes if other != cause]
        return any_of([*others, cause] if move == ADD else others)

    def restart(self, number: int, rule: Hypothesis) -> None:
        """Begin an epoch; with a new rule, also a window."""
        if causes_of(rule) != self.causes:
            # The window's cells are those of the old causes: it ends with them.
            self.end_window(number)
            self._set_rule(rule)
            self._window_length = self.plan.evidence_every
            self._begin_window()
        # Also when nothing was drawn: counts that survive a draw are read twice (Theorem 15).
        self._begin_epoch()

    def pass_due(self, number: int) -> None:
        """Release counts where a window ends."""
        if self.gate.gate is None:
            self._end_first_window(number)
        else:
            self.end_window(number)

    def _end_first_window(self, number: int) -> None:
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
        if number <= self._window_start or number < self.unwatched:
            return
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
        """Return all but the rows of the epoch."""
        return {
            "rows": self.rows.get_state(),
            "missed": self.missed,
            "alone": self._alone.tolist(),
            "cells": self._cells.tolist(),
            "named": self._rest_named.tolist(),
            "window": [self._window_start, self._window_length],
            "windows": [window.to_json() for window in self.windows],
            "min_rate": None if self.min_rate is None else str(self.min_rate),
        }

    def unsaved(self) -> ChangedState:
        """Return the rows that are new since the last call."""
        return self.rows.unsaved()

    def load_state(
        self, live: StateData, parts: Mapping[int, bytes], rules: Sequence[tuple[int, Hypothesis]]
    ) -> None:
        """Load what was saved."""
        self.rows.load_state(live["rows"], parts)
        self._set_rule(rules[-1][1])
        self.missed = live["missed"]
        self._alone = np.array(live["alone"], dtype=np.int64).reshape(len(self.causes), 2)
        self._cells = np.array(live["cells"], dtype=np.int64).reshape(len(self.causes) + 1, 2)
        self._rest_named = np.array(live["named"], dtype=np.int64)
        self._window_start, self._window_length = live["window"]
        self._set_due()
        self.windows = [window_from_json(window) for window in live["windows"]]
        self.min_rate = None if live["min_rate"] is None else Fraction(live["min_rate"])
