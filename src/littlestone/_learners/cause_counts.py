"""Count what `PrivateCauses` reads of an epoch: losses, rows that speak for a move, evidence.

The weighted loss of the published rule is monitored; when it has grown too large a move is drawn:
add a cause that the epoch's rows speak for, drop one that costs more than it finds, or nothing
(docs/guarantee.md, Theorems 15 and 16).

A stream of users has no monitor: epochs end at public ages, and each user has a bounded part in every
score (Theorem 19). A finished table is read by every draw (Theorem 20).

Where labels are outcomes a cause is a pattern and an outcome. A row that causes match, but none of
its own outcome, is a missed positive and moves no score: see Theorem 15, "Several outcomes".
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from littlestone._classes.causes import Causes
from littlestone._data.rounds import RowSpan
from littlestone._hypotheses.causes import OUTCOME, Cause, any_of, cause_from_key, causes_of
from littlestone._hypotheses.rows import value_of
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._hypotheses.values import Plain, canonical, decode, from_json, to_json
from littlestone._learners.causes_plan import (
    AUTO,
    BASE_DOUBT,
    FEWEST_WINDOWS,
    FIRST_EPOCHS,
    MOST_DOUBT,
    CausesPlan,
    at_checks,
)
from littlestone._learners.epoch_rows import EpochRows
from littlestone._learners.evidence import Window, rate_of, window_from_json
from littlestone._learners.known import KnownKeys
from littlestone._learners.loop import ChangedState, EpochState, Judged, StateData
from littlestone._learners.matched import Asked, Matched, match
from littlestone._learners.rate_to_beat import (
    FOLLOW,
    Firing,
    RateToBeat,
    odds,
    rate_of_odds,
    weights_of,
)
from littlestone._privacy.causes import (
    ADD,
    REPLACE,
    CausesMechanism,
    Counts,
    EpochTerms,
    Moves,
    Threshold,
    UserPairs,
    Weights,
    replaced,
)

# What a missed positive costs, in the units in which costs are summed up.
MILLION = 10**6


class CauseCounts(EpochState):
    """Hold the unmatched rows of an epoch, the rows of each cause, and the counts of a window."""

    cls: Causes
    first_step, largest_step = 1 << 11, 1 << 16
    # Few: a row that waits takes ten times the memory of one that is kept.
    most_waiting = 1 << 8
    complete = False

    def __init__(self, cls: Causes, plan: CausesPlan, gate: CausesMechanism) -> None:
        self.cls, self.plan, self.gate = cls, plan, gate
        self.beat = RateToBeat(plan.baseline, plan.units, float(plan.given_rate))
        self.known = KnownKeys(cls, cls.values)
        self._values_named: Counter[bytes] = Counter()
        self.unwatched = plan.first_window
        self.by_user = plan.unit == "user"
        self.rows = EpochRows(cls, self.by_user)
        # Of users, the rounds that the evidence counts, one of each in an epoch, and those among them
        # that no draw reads. Public.
        self._counted: set[int] = set()
        self._unread: set[int] = set()
        # Of a finished table, whether the last draw found a cause.
        self._found = False
        # Positives that were missed, and what false alarms cost, in millionths of one. Private.
        self.missed = self.alarm_cost = 0
        self.windows: list[Window] = []
        self._epoch_start = self._window_start = 0
        self._window_length = plan.evidence_every
        self._set_rule(NEVER)
        # Before the first epoch nothing reads them.
        self.costs = Weights(1, 1)
        self._clear_scores()
        if not plan.table and not plan.first_window:
            self.beat.begin(0.0)
            self._begin_epoch(0)
        self._begin_window()

    def _set_rule(self, rule: Hypothesis) -> None:
        self.causes = causes_of(rule)
        outcomes = [cause.outcome for cause in self.causes] if self.cls.has_outcomes else []
        # The outcomes of the published causes, each once, and for each cause its place among them.
        self._outcomes: tuple[Plain, ...] = tuple(dict.fromkeys(outcomes))
        self._outcome_places = np.array(list(map(self._outcomes.index, outcomes)), dtype=np.int64)

    def _begin_epoch(self, number: int) -> None:
        """Forget all rows, and choose the terms of the epoch: all of them follow from releases."""
        self._epoch_start = number
        self.rows.clear()
        plan, beat, begun = self.plan, self.beat, self.gate.gate is not None
        aged, refusals, loss_rate = 0, 0, Fraction(0)
        if begun:
            schedule = self.gate.schedule
            aged, refusals, loss_rate = schedule.aged, schedule.refusals, schedule.loss_rate
        margin = 0 if plan.table else plan.margin(self.windows, self.causes)
        terms = plan.terms(beat.cost, self.known.counts, margin)
        if plan.table:
            drawn = self._next_draw(terms)
            if drawn is None:
                self.complete = True
                return
            self.gate.begin_epoch(drawn, plan.horizon, Threshold(0))
            terms = drawn
        else:
            limit = plan.limit(terms, beat, refusals, loss_rate) if plan.watches else Threshold(0)
            self.gate.begin_epoch(terms, self._longest(number, aged), limit)
        self.costs = weights_of(beat.cost, terms.swing, plan.units)
        self._clear_scores()

    def _clear_scores(self) -> None:
        # For each cause, the negatives and positives that it alone matches; and of them, those that
        # list each narrower pattern.
        self._alone = np.zeros((len(self.causes), 2), dtype=np.int64)
        self._alone_by_user: Counter[tuple[int, int, bool]] = Counter()
        self._slots = self._narrower_slots()
        self._narrower = [
            np.zeros((sum(size for _, size in slots), 2), dtype=np.int64) for slots in self._slots
        ]

    def _narrower_slots(self) -> list[list[tuple[int, int]]]:
        """Return, for each cause, the slots of the narrower patterns that may replace it."""
        watches = self.plan.watches
        return [self.known.narrower(cause) if watches else [] for cause in self.causes]

    def _next_draw(self, terms: EpochTerms) -> EpochTerms | None:
        """Return the terms of the next draw from a finished table, or None after the last."""
        before, gate = None, self.gate
        if gate.releases_made:
            assert gate.terms is not None
            before = gate.terms.rate, self._found
        if len(self.causes) >= self.cls.limit or not self.beat.can_tell(self.beat.cost):
            return None
        weight = weights_of(self.beat.cost, terms.swing, self.plan.units).positive / self.plan.units
        positives = self._countable * self.beat.base * weight
        return self.plan.next_draw(terms, gate.left.epsilon, positives, before)

    def note_user(self, number: int, read: bool) -> None:
        """Note the round of a user that the evidence counts in an epoch, and whether draws read it."""
        self._counted.add(number)
        if not read:
            self._unread.add(number)

    @property
    def _countable(self) -> int:
        """Return how many rounds of a finished table may be counted: all, or one of each user."""
        return len(self._counted) if self.by_user else self.plan.horizon

    def begin_table(self, rounds: RowSpan) -> None:
        """Find the base rate of a finished table, and begin its first epoch."""
        rows: Matched = rounds.apply(match, self.cls, Asked((), by_user=self.by_user))
        (positives,) = self.gate.release_first([self._counted_rows(rows).cells(0)[0, 1]])
        # What a cause has to beat may be given; how many positives there are is always known. Less
        # what the noise may have added: in a small table that would hide causes.
        fewer = max(0, min(positives, self._countable - positives))
        doubt = min(BASE_DOUBT * self.gate.first_scale, MOST_DOUBT * fewer)
        self.beat.begin(float(rate_of(math.ceil(positives - doubt), self._countable)))
        if self.plan.baseline != FOLLOW and self.plan.min_rate != AUTO:
            self.beat.cost = odds(float(self.plan.given_rate))
        self._begin_epoch(0)

    def _counted_rows(self, rows: Matched) -> Matched:
        """Return the rows that released counts are about: all, or one of each user and epoch."""
        if not self.by_user:
            return rows
        return rows.taken(np.array([n in self._counted for n in rows.number.tolist()], bool))

    def _longest(self, number: int, aged: int) -> int:
        """Return the rounds after which an epoch ends by its age; so many before it have."""
        longest, every = self.plan.longest_epoch, self.plan.check_every
        # The last check draws too: without it the last rows would be read by no draw.
        left = self.plan.horizon // every * every - number
        if self.causes and self.plan.watches:
            share = self.plan.horizon // FIRST_EPOCHS << min(aged, FIRST_EPOCHS)
            # At a check, as `longest_epoch` is.
            longest = min(-(-max(share, 1) // every) * every, longest)
        return max(every, min(longest, left))

    def _begin_window(self) -> None:
        self._cells = np.zeros((len(self.causes) + 1, 2), dtype=np.int64)
        # Of rows that no cause matches, those with the outcome of a published cause.
        self._rest_named = np.zeros(len(self._outcomes), dtype=np.int64)
        self._set_due()

    def _set_due(self) -> None:
        end = min(self._window_start + self._window_length, self.plan.horizon)
        # A table is counted once, when all is drawn.
        if not self.plan.table:
            self.due = self.unwatched if self.gate.gate is None else end

    def kinds(self) -> dict[Any, Any]:
        """Return the columns that are read; rows that came one by one hold their outcome."""
        return super().kinds() | ({OUTCOME: "value"} if self.cls.has_outcomes else {})

    @property
    def _in_first_window(self) -> bool:
        return self.gate.gate is None and not self.plan.table

    @property
    def _asked(self) -> Asked:
        if self._in_first_window:
            return Asked((), None, self.cls.undeclared)
        return Asked(self.causes, self.known if any(self._slots) else None, (), self.by_user)

    def judge(self, part: RowSpan, rule: Hypothesis) -> Judged:
        """Match rounds with the published causes, wherever the rows are."""
        rows: Matched = part.apply(match, self.cls, self._asked)
        wrong = np.flatnonzero(rows.wrong)
        return Judged(rows, rows.number[wrong], np.where(rows.answers[wrong], *self.costs))

    def loss(self, x: object, y: bool, rule: Hypothesis) -> int:
        """Return the loss of one row, in units."""
        matching = [cause for cause in self.causes if cause(x)]
        told = bool(matching)
        if y and self.cls.has_outcomes:
            outcome = canonical(value_of(x, OUTCOME))
            told = any(cause.outcome == outcome for cause in matching)
        return 0 if told == y else self.costs[0 if y else 1]

    def count(self, judged: Judged) -> None:
        """Count the positives that were missed, and what the false alarms cost when they were made."""
        rows: Matched = judged.rows
        self.missed += int(np.count_nonzero(rows.wrong & rows.answers))
        # Whole numbers, so that the sum does not depend on how rows came in batches.
        each = MILLION * self.costs.negative // self.costs.positive
        self.alarm_cost += each * int(np.count_nonzero(rows.wrong & ~rows.answers))

    def add(self, judged: Judged) -> None:
        """Count rows for the window, and keep what the next draw reads."""
        rows: Matched = judged.rows
        if self._in_first_window:
            # A round finds the base rate, or votes for a value: never both (Theorem 16).
            self._cells += rows.between(0, self.plan.base_rounds).cells(0)
            if self.cls.undeclared:
                self._values_named += rows.votes(self.cls.undeclared, self.plan.base_rounds)
            return
        counted = self._counted_rows(rows)
        self._cells += counted.cells(len(self.causes))
        if counted.own is not None:
            named = counted.named(self._outcome_places)
            self._rest_named += named
            self._cells[-1, 1] -= named.sum()
        if self.complete:
            return
        if self._unread:
            rows = rows.taken(np.array([n not in self._unread for n in rows.number.tolist()], bool))
        if self.by_user:
            self._alone_by_user += rows.on_drops_by_user()
        elif self.causes:
            self._alone += rows.on_drops(len(self.causes))
        if rows.lone:
            for counts, found in zip(self._narrower, rows.on_replaces(self._slots), strict=True):
                counts += found
        self.rows.add(rows.unmatched)

    def scores(self, number: int, fired: bool) -> Moves:
        """End the window, find the rate to beat, and return the rows that speak on each move."""
        gate, terms = self.gate.gate, self.gate.terms
        assert gate is not None
        assert terms is not None
        firing = None
        if fired:
            reached = int(gate.schedule.limits(gate.window_age))
            firing = Firing(reached, self.costs, float(terms.monitor))
        if self.plan.table:
            return self.moves(weights_of(self.beat.cost, terms.swing, self.plan.units))
        # Counts first: what is drawn depends on them, and not the other way round (Theorem 16).
        self.end_window(number)
        of_epoch = [window for window in self.windows if window.start > self._epoch_start]
        cost = self.beat.at_end(of_epoch, number - self._epoch_start, firing)
        self.windows[-1] = self.windows[-1]._replace(to_beat=rate_of_odds(cost), drawn=True)
        weights = weights_of(cost, terms.swing, self.plan.units)
        return self.moves(weights, can_tell=self.beat.can_tell(cost))

    def moves(self, weights: Weights, can_tell: bool = True) -> Moves:
        """Return the rows of the epoch that speak on each move, with weights that are public."""
        assert self.gate.terms is not None
        adds, widths, keys, pairs = self.rows.counts()
        drawn = [width for width, known in enumerate(self.gate.terms.known, start=1) if known.keys]
        # What was found in a table stays.
        causes = () if self.plan.table else self.causes
        if self.by_user and pairs is None:
            pairs = UserPairs(np.zeros((0, 2), np.int64), np.zeros(0, np.int64))
        return Moves(
            weights,
            adds,
            widths,
            self.known.ranks(keys, drawn) if len(adds) else widths.astype(np.int64),
            keys,
            lambda width, rank: self.known.cause(width + 1, rank).key,
            self._alone[: len(causes)],
            [cause.key for cause in causes],
            self._narrower[: len(causes)],
            lambda cause, place: self.known.narrowed(causes[cause], place).key,
            # The number of published causes and the rate to beat are public: this costs nothing.
            may_add=can_tell and len(self.causes) < self.cls.limit,
            add_pairs=pairs,
            drop_pairs=self._drop_pairs() if self.by_user else None,
        )

    def _drop_pairs(self) -> UserPairs:
        """Return the rows of users that a cause alone matches, for each pair of them."""
        pairs: dict[tuple[int, int], list[int]] = {}
        if not self.plan.table:
            for (user, cause, label), count in self._alone_by_user.items():
                pairs.setdefault((user, cause), [0, 0])[label] = count
        causes = np.array([cause for _, cause in pairs], dtype=np.int64)
        return UserPairs(_pairs(list(pairs.values())), causes)

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule after the move of a key."""
        if key.startswith(REPLACE):
            old, new = map(cause_from_key, replaced(key))
            return any_of([*(other for other in self.causes if other != old), new])
        move, cause = key[:1], cause_from_key(key[1:])
        others = [other for other in self.causes if other != cause]
        return any_of([*others, cause] if move == ADD else others)

    def restart(self, number: int, rule: Hypothesis) -> None:
        """Begin an epoch; with a new rule, its window is short again."""
        self._found = causes_of(rule) != self.causes
        if not self.plan.table:
            self._counted = {later for later in self._counted if later >= number}
            self._unread = {later for later in self._unread if later >= number}
        if self._found:
            self._set_rule(rule)
            self.known = self.known.with_values(_values_of(self.causes))
            self._window_length = self.plan.evidence_every
        # Also when nothing was drawn: counts that survive a draw are read twice (Theorem 15).
        self._begin_epoch(number)
        self._begin_window()

    def pass_due(self, number: int) -> None:
        """Release counts where a window ends."""
        if self.plan.table:
            self.end_window(number)
            return
        if self.gate.gate is None:
            self._end_first_window(number)
            return
        self.end_window(number)
        # Noise adds up over windows: fewer and longer ones, the longer a rule stands.
        longest = max(self.plan.horizon // FEWEST_WINDOWS, self.plan.evidence_every)
        self._window_length = at_checks(min(2 * self._window_length, longest))
        self._set_due()

    def _end_first_window(self, number: int) -> None:
        negatives, positives = self.gate.release_first(self._cells.ravel())
        scale = float(self.gate.first_scale)
        if self.cls.undeclared:
            found = map(decode, self.gate.discover(self._values_named))
            self.known = self.known.with_values(_by_column(found))
            self._values_named.clear()
        self.beat.begin(float(rate_of(positives, negatives + positives)))
        first = self.plan.base_rounds
        to_beat = rate_of_odds(self.beat.cost)
        counts = (), (negatives,), (positives,), scale, (), to_beat
        self.windows.append(Window(1, first, *counts, time=self.time_of(number)))
        self._window_start = number
        self._begin_epoch(number)
        self._begin_window()

    def end_window(self, number: int) -> None:
        """Release the counts of the window that ends after `number` rounds, and begin the next."""
        if number <= self._window_start or number < self.unwatched:
            return
        # A row is in one cell only, of either array (Theorem 16).
        counts = self.gate.release_evidence(np.concatenate([self._cells.ravel(), self._rest_named]))
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
                rate_of_odds(self.beat.cost),
                drawn=self.plan.table and self.gate.releases_made > 0,
                time=self.time_of(number),
            )
        )
        self._window_start = number
        self._begin_window()

    def get_state(self) -> StateData:
        """Return all but the rows of the epoch."""
        return {
            "rows": self.rows.get_state(),
            "missed": self.missed,
            "alarm_cost": self.alarm_cost,
            "alone": self._alone.tolist(),
            "alone_by_user": [[*of, count] for of, count in self._alone_by_user.items()],
            "narrower": [counts.tolist() for counts in self._narrower],
            "votes": {vote.hex(): count for vote, count in self._values_named.items()},
            "known": [[name, *map(to_json, some)] for name, some in self.known.values.items()],
            "beat": self.beat.to_json(),
            "cells": self._cells.tolist(),
            "named": self._rest_named.tolist(),
            "epoch": self._epoch_start,
            "window": [self._window_start, self._window_length],
            "windows": [window.to_json() for window in self.windows],
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
        self.missed, self.alarm_cost = live["missed"], live["alarm_cost"]
        self.windows = [window_from_json(window) for window in live["windows"]]
        known = {name: map(from_json, some) for name, *some in live["known"]}
        self.known, self._values_named = KnownKeys(self.cls, known), Counter()
        self._values_named.update(
            {bytes.fromhex(vote): count for vote, count in live["votes"].items()}
        )
        self.beat.load(live["beat"])
        self._alone = _pairs(live["alone"])
        alone = {(user, cause, label): n for user, cause, label, n in live["alone_by_user"]}
        self._alone_by_user = Counter(alone)
        # A table is learned in one step.
        self.complete = self.plan.table and bool(self.windows)
        self._slots = self._narrower_slots()
        self._narrower = [_pairs(counts) for counts in live["narrower"]]
        if self.gate.terms is not None:
            self.costs = weights_of(self.beat.cost, self.gate.terms.swing, self.plan.units)
        self._cells, self._rest_named = _pairs(live["cells"]), np.array(live["named"], np.int64)
        self._epoch_start = live["epoch"]
        self._window_start, self._window_length = live["window"]
        self._set_due()


def _pairs(counts: list[list[int]]) -> Counts:
    return np.array(counts, dtype=np.int64).reshape(-1, 2)


def _by_column(pairs: Iterable[Any]) -> dict[str, list[Plain]]:
    """Return values by their column, of pairs of column and value."""
    found: dict[str, list[Plain]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _values_of(causes: Iterable[Cause]) -> dict[str, list[Plain]]:
    """Return the values, and the outcomes, that causes name: they are published."""
    pairs = [(c.column, c.value) for cause in causes for c in cause.conditions if not c.is_range]
    return _by_column(pairs + [(OUTCOME, c.outcome) for c in causes if c.outcome is not None])
