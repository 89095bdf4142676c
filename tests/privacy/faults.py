"""Planted faults: each is the real code with one published or plausible error put in."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np

from littlestone._audit.enumeration import EnumeratingNoise, Transcript
from littlestone._audit.gates import (
    CauseRow,
    Causes,
    CauseWorld,
    Effects,
    Pair,
    Stream,
)
from littlestone._learners.effect import NORMAL, NULL, Effect
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import (
    Counts,
    EpochTerms,
    Known,
    Moves,
    MoveTable,
    SparseExponential,
    StableValues,
    UserPairs,
    Weights,
    WindowCounts,
)
from littlestone._privacy.gates import Decision, Gate, MistakesMonitor
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import Real
from littlestone._privacy.schedules import EpochEnd, Settling
from littlestone._privacy.selection import SearchOrCompare, StableHistogram, positive_votes
from littlestone.paper import AboveThreshold
from littlestone.paper.gates import HistSparse

Votes = Mapping[bytes, int]


# The sparse vector and the paper's gate.


class PrintedAlgorithm3(AboveThreshold):
    """The paper's print: noise on the threshold is drawn after each firing, and its budget set
    aside, but the query is compared with the threshold without it."""

    def _scales(self) -> tuple[Fraction, Fraction]:
        each = self.cost.epsilon / self.releases
        return 2 / each, 4 / each

    def check(self, query: SupportsIndex, threshold: SupportsIndex) -> bool:
        self._threshold_draw = 0
        return super().check(query, threshold)


class QueryNoiseNotScaled(AboveThreshold):
    """The query noise does not grow with the number of firings."""

    def _scales(self) -> tuple[Fraction, Fraction]:
        threshold, query = super()._scales()
        return threshold, query / self.releases


class HalvedNoise(AboveThreshold):
    """Half of all the noise."""

    def _scales(self) -> tuple[Fraction, Fraction]:
        threshold, query = super()._scales()
        return threshold / 2, query / 2


class NoneIsNotCharged(HistSparse):
    """A firing that releases nothing is taken back; the published key is left out."""

    def check(self, votes: Votes) -> Decision:
        fired, key = super().check(votes)
        if fired and key in (None, self.published):
            self.monitor.firings -= 1
            self.releases_made -= 1
            key = None
        return Decision(fired, key)


class PrintedAlgorithm2(HistSparse):
    """The paper's print: all of epsilon to the sparse vector, half as much again to the rest."""

    def __init__(self, noise: Noise, **plan: Any) -> None:
        super().__init__(noise, **plan)
        self.monitor = AboveThreshold(noise, epsilon=self.cost.epsilon, releases=self.releases)


# The monitor.


class CountKeptAtFiring(MistakesMonitor):
    """The count is not zeroed when the monitor fires."""

    def restart(self) -> None:
        kept = self.mistakes
        super().restart()
        self.mistakes = kept


class ThresholdNoiseShared(MistakesMonitor):
    """One threshold draw serves all epochs."""

    def restart(self) -> None:
        threshold_noise = self._threshold_draw
        super().restart()
        self._threshold_draw = threshold_noise


class Clamped(MistakesMonitor):
    """A tolerance of five mistakes a check is taken off, and the count is clamped at zero."""

    def advance(self, mistakes: Any, thresholds: Any) -> int | None:
        count = max(0, self.mistakes + int(mistakes[0]) - 5)
        self.mistakes = 0
        return super().advance([count], thresholds)


class NoQueryNoise(MistakesMonitor):
    """Only the threshold is noisy."""

    def __init__(self, noise: Noise, **plan: Any) -> None:
        super().__init__(noise, **plan)
        self.query_scale = Fraction(1, 10**3)


class SkipsQuietChecks(MistakesMonitor):
    """A check without a new mistake is skipped: the schedule depends on the data."""

    def advance(self, mistakes: Any, thresholds: Any) -> int | None:
        return super().advance(mistakes, thresholds) if mistakes[0] else None


class NoiseForOneUnit(MistakesMonitor):
    """The noise of a monitor that counts mistakes, where losses are counted in units."""

    def __init__(self, noise: Noise, *, epsilon: Real, cap: int = 1) -> None:
        super().__init__(noise, epsilon=epsilon)


class CoarseNoise(EnumeratingNoise):
    """Whole noise where losses are counted in halves."""

    grid = 2


# The draws.


class NoiseForOneContribution(StableHistogram):
    """Scale 1/epsilon: as if a replaced example moved the votes by one only."""

    def __init__(self, *, epsilon: float, delta: float) -> None:
        super().__init__(epsilon=2 * epsilon, delta=delta)
        self.cost = Cost(Fraction(epsilon), Fraction(delta))


class MassAtThresholdLeftOut(StableHistogram):
    """Releases at noisy >= tau, accounts for noisy > tau."""

    def __init__(self, *, epsilon: float, delta: float) -> None:
        super().__init__(epsilon=epsilon, delta=delta)
        self.threshold -= 1


class TiesByEntry(StableHistogram):
    """Ties go to the key that was entered first, which depends on the data."""

    def select(
        self, scores: Votes, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        noisy = {
            key: n + noise.laplace(self.scale, ("histogram", release, rank))
            for rank, (key, n) in enumerate(scores.items())
        }
        best = max(noisy, key=lambda key: noisy[key], default=None)
        return best if best is not None and noisy[best] >= self.threshold else None


class EmptyKeysStay(StableHistogram):
    """A key that once had votes keeps its place, and its noise, at zero."""

    def select(
        self, scores: Votes, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        raised = {key: n + 1 for key, n in scores.items()}
        shifted = StableHistogram(epsilon=self.cost.epsilon, delta=self.cost.delta)
        shifted.threshold = self.threshold + 1
        return shifted.select(raised, noise, release, published)


class TrueTopOfTheKept(StableHistogram):
    """Among the keys whose noisy count is high enough, the one with the most true votes."""

    def select(
        self, scores: Votes, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        kept = [
            key
            for rank, key in enumerate(positive_votes(scores, published))
            if scores[key] + noise.laplace(self.scale, ("histogram", release, rank))
            >= self.threshold
        ]
        return max(kept, key=lambda key: scores[key], default=None)


class GainWithoutOneOff(SparseExponential):
    """Weighs a key by its gain, not by its gain less the weight of a positive."""

    def add_scores(self, moves: Moves) -> Counts:
        return super().add_scores(moves) + np.where(moves.known < 0, moves.weights.positive, 0)


class NoGap(SparseExponential):
    """Keys of one row weigh what frequent ones do."""

    def _gap(self, ratio: Fraction) -> int:
        # Of a unit, or there would be no frequent keys.
        return 1


class HeavyPositives(SparseExponential):
    """What makes a key frequent weighs two whole weights a row, and not what it has in the gain."""

    def add_scores(self, moves: Moves) -> Counts:
        heavy = (moves.adds[:, 1] - 1) * 2 * self.units - self.gaps[0]
        return np.minimum(moves.weights.score(moves.adds), heavy)


class WeightsNotScaled(SparseExponential):
    """Takes weights of any size."""

    def check(self, weights: Weights) -> None:
        pass


class ActiveKnownKeys(SparseExponential):
    """Shares the weight of the known keys among those that rows list."""

    def table(self, moves: Moves) -> MoveTable:
        (some,) = self.known
        active = int((moves.known >= 0).sum())
        self.known = (Known(active, some.keys * some.weight / max(active, 1)),)
        table = super().table(moves)
        self.known = (some,)
        return table


class UnclippedKnownKeys(SparseExponential):
    """Known keys have their gain, and those that no row lists a score of 0 all the same."""

    def add_scores(self, moves: Moves) -> Counts:
        gains = moves.weights.score(moves.adds)
        return np.where(moves.known >= 0, gains, super().add_scores(moves))


# Users.


class UsersNotClipped(SparseExponential):
    """A user has all of its rows in a score."""

    def _score(self, counts: Counts, pairs: UserPairs | None, weights: Weights) -> Counts:
        assert pairs is not None
        return pairs.score(weights, len(counts), -(10**9), 10**9)


class DeltaOfOneRound(SparseExponential):
    """Each round of a user may name keys that weigh all of delta."""

    def __init__(self, terms: EpochTerms, **options: Any) -> None:
        assert terms.users is not None
        super().__init__(terms._replace(users=terms.users._replace(rounds=1)), **options)


class LessOneWeight(SparseExponential):
    """Takes off a key the weight of a positive row, as if rows were protected."""

    def add_scores(self, moves: Moves) -> Counts:
        off = self.units - moves.weights.positive
        return super().add_scores(moves) + np.where(moves.known < 0, off, 0)


class OneDirection(SparseExponential):
    """Claims that all scores move the same way."""

    def __init__(self, terms: EpochTerms, **options: Any) -> None:
        super().__init__(terms, **options)
        self.cost = Cost(self.cost.epsilon / 2, self.cost.delta)


# Counts that are released.


class EvidenceForOneCell(WindowCounts):
    """Noise for a row that enters a cell, and leaves none."""

    def __init__(self, noise: Noise, *, epsilon: Fraction, name: str) -> None:
        super().__init__(noise, epsilon=2 * epsilon, name=name)


class ThresholdOneTooLow(StableValues):
    """Values are released with a vote less."""

    def __init__(self, noise: Noise, cost: Cost) -> None:
        super().__init__(noise, cost)
        self.threshold -= 1


class VotesTwice(StableValues):
    """A row votes for a value twice."""

    def release(self, votes: Votes) -> list[bytes]:
        return super().release({value: 2 * count for value, count in votes.items()})


# Schedules and searches that read what is private.


class CountKeptAtNone(Gate[Votes]):
    """The count is not zeroed when nothing was drawn."""

    def _end_epoch(self, scores: Votes, fired: bool, aged: bool) -> Decision:
        # At a firing the monitor has begun afresh: what it had counted is what the world says.
        decision = super()._end_epoch(scores, fired, aged)
        if decision.key is None:
            assert self.monitor is not None
            self.monitor.mistakes = self._kept
        return decision

    def run(self, losses: Any, scores: Any) -> Any:
        assert self.monitor is not None
        self._kept = self.monitor.mistakes + int(losses[0])
        return super().run(losses, scores)


class MarginOfVotes(SearchOrCompare):
    """The votes that do not count follow from those of the second key."""

    def select(
        self, scores: Votes, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        second = sorted([0, 0, *scores.values()])[-2]
        self._schedule.margin_of = lambda refusals, comparing: 0 if comparing else 3 * second
        return super().select(scores, noise, release, published)


class KnownByVotes(SearchOrCompare):
    """What is left out of the next search depends on the votes of this one."""

    def select(
        self, scores: Votes, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        if self._schedule.comparing:
            return None
        key = super().select(scores, noise, release, published)
        if scores:
            leader = max(scores, key=lambda key: scores[key])
            self._schedule.fallbacks = lambda: (leader,)
        return key


class ComparesByVotes(SearchOrCompare):
    """Whether the next epoch compares depends on the votes of this one."""

    def select(
        self, scores: Votes, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        self._schedule.after = _comparing_if(self._schedule, scores.get(b"b", 0) > 0)  # type: ignore[method-assign]
        return super().select(scores, noise, release, published)


def _comparing_if(schedule: Settling, wanted: bool) -> Any:
    def after(end: EpochEnd, published: bytes) -> None:
        Settling.after(schedule, end, published)
        schedule.comparing = end.key is None and wanted and bool(schedule.known(published))

    return after


# What rows do to the causes learner.

HASHES = {b"k": 1, b"l": 1}
"""The keys k and l share a hash, all others have their own."""


def hash_of(key: bytes) -> object:
    return HASHES.get(key, key)


SIGN = Weights(1, 1)
"""Costs and weights of which only the sign of an effect is read."""


class ListedTwice(CauseWorld):
    """A row's patterns are a list in which each occurs twice."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        negatives, positives = super().net(effects, key)
        return 2 * negatives, 2 * positives


class CountedLate(CauseWorld):
    """Negatives count only for keys that a positive row has listed before."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        lists = [e.add > 0 and key[0] in row[0] for row, e in effects]
        return super().net(effects[lists.index(True) :], key)


class MatchedRowsMoveNet(CauseWorld):
    """Rows that a published cause matches move the scores of their patterns too."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        return super().net([(row, self.effect(row, (), SIGN, SIGN)) for row, _ in effects], key)


class SketchedPositives(CauseWorld):
    """Positives are counted by hash: an overestimate, as in a count-min sketch."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        alike = sum(e.add > 0 and hash_of(key[0]) in map(hash_of, row[0]) for row, e in effects)
        return super().net(effects, key)[0], alike


class NegativesOfAHash(CauseWorld):
    """No fault: every key reads the negatives of its hash."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        alike = sum(e.add < 0 and hash_of(key[0]) in map(hash_of, row[0]) for row, e in effects)
        return alike, super().net(effects, key)[1]


class NegativesToTheFirst(NegativesOfAHash):
    """The negatives of a hash go to the colliding key that was listed first."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        same = [k for k in self.active(effects) if hash_of(k[0]) == hash_of(key[0])]
        negatives, positives = super().net(effects, key)
        return negatives if same[0] == key else 0, positives


class ActiveByAnyRow(CauseWorld):
    """No fault: a key is active whichever row lists it."""

    def active(self, effects: Effects) -> list[tuple[bytes, int]]:
        keys = dict.fromkeys((p, 1) for row, _ in effects for p in row[0])
        return [key for key in keys if key not in self.published]


class WrongOutcomeMovesNet(CauseWorld):
    """Rows that only causes of other outcomes match move their patterns, but make none active."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        missed = [
            (row, self.effect(row, (), SIGN, SIGN) if e.loss and row[1] != NORMAL else e)
            for row, e in effects
        ]
        return super().net(missed, key)


class WrongOutcomeSpeaks(CauseWorld):
    """No fault, but useless: such rows make their keys active, too.

    These are the exact loss differences where a rule may tell several outcomes of a row. No normal
    row speaks against a second outcome of a pattern, so it is published at any rate.
    """

    def effect(self, row: CauseRow, causes: Causes, costs: Weights, weights: Weights) -> Effect:
        found = super().effect(row, causes, costs, weights)
        speaks = found.loss and row[1] > NORMAL
        return found._replace(add=weights.positive) if speaks else found


class OutcomeListedTwice(CauseWorld):
    """The outcomes of a row are a list in which its own occurs twice."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        return super().net([*effects, *((row, e) for row, e in effects if e.add > 0)], key)


class PairsByRow(CauseWorld):
    """Each row of a user is a part of its own."""

    def moves(
        self, rows: Sequence[CauseRow], causes: Causes, weights: Weights, users: Any = None
    ) -> Moves:
        return super().moves(rows, causes, weights, range(len(rows)))


class EveryOutcome(CauseWorld):
    """A row counts for its patterns with every outcome, 1 and 2."""

    def active(self, effects: Effects) -> list[tuple[bytes, int]]:
        patterns = dict.fromkeys(pattern for pattern, _ in super().active(effects))
        return [(pattern, label) for pattern in patterns for label in (1, 2)]

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        negatives, _ = super().net(effects, key)
        return negatives, sum(e.add > 0 and key[0] in row[0] for row, e in effects)


class FoundRowsOppose(CauseWorld):
    """A row whose outcome is told lowers its patterns with other outcomes, as much as one raises.

    These are the exact loss differences where a rule tells one outcome of a row, the last added.
    """

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        negatives, positives = super().net(effects, key)
        told = sum(
            row[1] not in (NULL, NORMAL, key[1]) and not e.loss and key[0] in row[0]
            for row, e in effects
        )
        return negatives, positives - told


class FalseAlarmsOppose(CauseWorld):
    """A false alarm lowers its patterns with other outcomes, and raises its drop."""

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        negatives, positives = super().net(effects, key)
        alarms = sum(
            row[1] == NORMAL and e.loss > 0 and key[0] in row[0] and key[1] != 1
            for row, e in effects
        )
        return negatives + alarms, positives


class RowsKeptAtNone(CauseWorld):
    """The rows of an epoch survive a draw of nothing."""

    def begins(self, since: int, number: int, decision: Decision) -> int:
        return since if decision.key is None else number + 1


class WeighedAgain(CauseWorld):
    """The monitor weighs the rows of its epoch again, once the next costs are known."""

    def check_loss(self, stream: Stream, past: Transcript, since: int, causes: Causes) -> int:
        def total(checks: int) -> int:
            seen = [row for n in range(since, checks) for row in stream(past[:n])]
            return self.loss(seen, causes, self.costs(past[: checks - 1]) if checks else SIGN)

        return total(len(past) + 1) - total(len(past))


class WeighedByCause(CauseWorld):
    """A false alarm of any cause but the first costs the monitor nothing."""

    def effect(self, row: CauseRow, causes: Causes, costs: Weights, weights: Weights) -> Effect:
        found = super().effect(row, causes, costs, weights)
        later = row[1] == NORMAL and found.cell is not None and found.cell[0] > 0
        return found._replace(loss=0) if later else found


class ExactWeights(CauseWorld):
    """The weights follow from the rows, not from released counts."""

    def moves(
        self, rows: Sequence[CauseRow], causes: Causes, weights: Weights, users: Any = None
    ) -> Moves:
        odd = sum(label > NORMAL for _, label in rows) % 2
        return super().moves(rows, causes, Weights(*reversed(weights)) if odd else weights)


class KnownByRows(CauseWorld):
    """A key is known because two rows of the epoch show it."""

    def number(self, numbered: Any, effects: Effects, key: Any) -> int:
        shown = sum(key[0] in row[0] for row, _ in effects) > 1
        # It takes the number of the last one.
        return len(numbered[0]) - 1 if shown else super().number(numbered, effects, key)


class NotNested(CauseWorld):
    """A key that takes the place of a cause need not be narrower: unmatched rows speak on it."""

    def listing(self, key: bytes, effects: Effects, alone: Effects) -> Pair:
        pair, unmatched = super().listing(key, effects, alone), self.net(effects, (key, 1))
        return pair[0] + unmatched[0], pair[1] + unmatched[1]


class UnlistedAtZero(CauseWorld):
    """A narrower key that no row lists has a score of 0, not that of dropping the cause."""

    def listing(self, key: bytes, effects: Effects, alone: Effects) -> Pair:
        listed = any(key in row[0] for row, _ in effects)
        every = [(((key,), row[1]), e) for row, e in alone]
        return super().listing(key, effects, alone if listed else every)


class OnlyListed(CauseWorld):
    """Only narrower keys that a row lists are drawn."""

    def candidates(self, cause: tuple[bytes, int], alone: Effects) -> Sequence[bytes]:
        found = super().candidates(cause, alone)
        return [key for key in found if any(key in row[0] for row, _ in alone)]


def restated(row: CauseRow, causes: Causes, costs: Weights, weights: Weights) -> Effect:
    """What one row does, read off docs/guarantee.md by itself: a twin of `effect`."""
    listed, label = row
    matching = [cause for cause in causes if cause[0] in listed]
    first = causes.index(matching[0]) if matching else -1
    alone = len(matching) == 1
    if label == NULL:
        return Effect()
    if label == NORMAL:
        loss = costs.negative * bool(matching)
        return Effect(
            loss, (first, 0), -weights.negative * (not matching), weights.negative * alone
        )
    told = label in [outcome for _, outcome in matching]
    shown = label if not matching or matching[0][1] == label else 0
    drop = -weights.positive if alone and told else 0
    loss = costs.positive * (not told)
    return Effect(loss, (first, shown), weights.positive * (not matching), drop)
