"""Planted faults of the causes learner: its counts, its draw or its noise with one error put in."""

from collections.abc import Sequence
from fractions import Fraction
from math import exp

import numpy as np
import numpy.typing as npt

from littlestone._audit.causes import (
    OUTCOME_MARK,
    KeyCounts,
    KeyRow,
    Moves,
    OutcomeCounts,
    Published,
    move_law,
)
from littlestone._audit.enumeration import BranchingNoise
from littlestone._privacy import MistakesMonitor, Noise
from littlestone._privacy.causes import Counts, Gains, SparseExponential

HASHES = {b"k": 1, b"l": 1}
"""The keys k and l share a hash, all others have their own."""


def hash_of(key: bytes) -> object:
    return HASHES.get(key, key)


class ListedTwice(KeyCounts):
    """A row's patterns are a list in which each occurs twice."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        return 2 * super().net(published, rows, key)


class CountedLate(KeyCounts):
    """Negatives count only for keys that a positive row has listed before."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        first = next((n for n, row in enumerate(rows) if row and row[1] and key in row[0]), 0)
        return super().net(published, rows[first:], key)


class MatchedRowsMoveNet(KeyCounts):
    """Rows that a published cause matches move `net` too."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        return super().net(frozenset(), rows, key)


class SketchedPositives(KeyCounts):
    """Positives are counted by hash: an overestimate, as in a count-min sketch."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        unmatched = [row for row in rows if row and not published.intersection(row[0])]
        alike = sum(
            bool(label) and hash_of(key) in set(map(hash_of, keys)) for keys, label in unmatched
        )
        negatives = sum(key in keys and not label for keys, label in unmatched)
        return self.units * alike - self.alarm * negatives


class NegativesOfAHash(KeyCounts):
    """No fault: every key reads the negatives of its hash."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        unmatched = [row for row in rows if row and not published.intersection(row[0])]
        positives = sum(bool(label) and key in keys for keys, label in unmatched)
        alike = sum(
            not label and hash_of(key) in set(map(hash_of, keys)) for keys, label in unmatched
        )
        return self.units * positives - self.alarm * alike


class NegativesToTheFirst(NegativesOfAHash):
    """The negatives of a hash go to the colliding key that was listed first."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        same = [k for k in self.active(published, rows) if hash_of(k) == hash_of(key)]
        if same[0] == key:
            return super().net(published, rows, key)
        return super().net(published, [row for row in rows if row and row[1]], key)


class ActiveByAnyRow(KeyCounts):
    """A key is active whichever row lists it: matched positives and negatives too."""

    def active(self, published: Published, rows: Sequence[KeyRow]) -> list[bytes]:
        listed = (key for row in rows if row for key in row[0])
        return [key for key in dict.fromkeys(listed) if key not in published]


class WrongOutcomeMovesNet(OutcomeCounts):
    """Rows that a cause of another outcome matches move `net`, but make no key active."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        missed = [row for row in rows if self._misses(published, row)]
        return super().net(frozenset(), missed, key)

    def _misses(self, published: Published, row: KeyRow) -> bool:
        if row is None or not row[1]:
            return row is not None and not self.matching(published, row)
        return row[1] not in [outcome for _, outcome in self.matching(published, row)]


class WrongOutcomeSpeaks(WrongOutcomeMovesNet):
    """No fault, but useless: such rows make their keys active, too.

    These are the exact loss differences where a rule may tell several outcomes of a row. No normal
    row speaks against a second outcome of a pattern, so it is published at any rate.
    """

    def active(self, published: Published, rows: Sequence[KeyRow]) -> list[bytes]:
        missed = [row for row in rows if row and row[1] and self._misses(published, row)]
        return super().active(frozenset(), missed)


class OutcomeListedTwice(OutcomeCounts):
    """The outcomes of a row are a list in which its own occurs twice."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        twice = [row for row in rows if row and row[1]]
        return super().net(published, [*rows, *twice], key)


class EveryOutcome(OutcomeCounts):
    """A row counts for its patterns with every outcome, t and u."""

    def active(self, published: Published, rows: Sequence[KeyRow]) -> list[bytes]:
        found = {key.rpartition(OUTCOME_MARK)[0]: None for key in super().active(published, rows)}
        return [self.key(pattern, outcome) for pattern in found for outcome in (b"t", b"u")]

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        outcome = key.rpartition(OUTCOME_MARK)[2]
        alike: list[KeyRow] = [(row[0], row[1] and outcome) if row else None for row in rows]
        return super().net(published, alike, key)


class FoundRowsOppose(OutcomeCounts):
    """A row whose outcome is told lowers its patterns with other outcomes by 1.

    These are the exact loss differences where a rule tells one outcome of a row, the last added.
    """

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        pattern, _, outcome = key.rpartition(OUTCOME_MARK)
        found = sum(
            row[1] in [own for _, own in self.matching(published, row)]
            for row in rows
            if row and pattern in row[0] and row[1] != outcome
        )
        return super().net(published, rows, key) - self.units * found


class FalseAlarmsOppose(OutcomeCounts):
    """A false alarm lowers its patterns with other outcomes by c, and raises `drop` by c."""

    def net(self, published: Published, rows: Sequence[KeyRow], key: bytes) -> int:
        pattern, _, outcome = key.rpartition(OUTCOME_MARK)
        alarms = sum(
            outcome not in [own for _, own in self.matching(published, row)]
            for row in rows
            if row and not row[1] and pattern in row[0] and self.matching(published, row)
        )
        return super().net(published, rows, key) - self.alarm * alarms


class GainWithoutOneOff(SparseExponential):
    """Weighs a key by its gain, not by its gain less 1."""

    def scores(self, ballot: Gains) -> tuple[Counts, npt.NDArray[np.intp]]:
        scores, classes = super().scores(ballot)
        return scores + np.where(classes > 0, self.units, 0), classes


def with_replacing(selector: SparseExponential, ballot: Gains) -> Moves:
    """The naive move "replace b by k": the product of both weights, at the same rate."""
    moves, rate = move_law(selector, ballot), float(selector.rate / selector.units)
    for drop, drop_key in zip(ballot.drops.tolist(), ballot.drop_keys, strict=True):
        for place, gain in enumerate(ballot.adds.tolist()):
            weight = float(selector.weights[ballot.classes[place] + 1])
            gained = drop + gain - selector.units
            # Relative to nothing, which weighs 1.
            moves[b"~" + drop_key + b">" + ballot.add_key(place)] = (
                moves[None] * weight * exp(rate * gained)
            )
    total = sum(moves.values())
    return {move: share / total for move, share in moves.items()}


class FromWeights(SparseExponential):
    """No fault: a draw is one fork of an enumeration."""

    def select(
        self, ballot: Gains, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        assert isinstance(noise, BranchingNoise)
        return noise.choose(list(move_law(self, ballot).items()))


class NoiseForOneUnit(MistakesMonitor):
    """The noise of a monitor that counts mistakes, where losses are counted in units."""

    def _scales(self) -> tuple[Fraction, Fraction]:
        return 1 / self.cost.epsilon, 1 / self.cost.epsilon
