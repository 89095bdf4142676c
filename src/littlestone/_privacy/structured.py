"""Draw from lists that are too long to write out, with exactly the law of `ExponentialMechanism`.

Promises: a candidate is drawn with probability proportional to exp(rate * score), and no other law.
The candidates are divided into parts whose total weights are enclosed between integers; a part is
drawn by its total weight, then a member of it, each time with the enclosures refined until the
drawn bits decide (Theorem 6). So the number of candidates does not matter, only that of the parts:

- `GroupScores`: groups of candidates of equal score, of any size.
- `PairScores`: all pairs a < b of places, scored by P[a] - P[b]: the intervals of a line, by prefix
  sums. Cells of places, one public penalty for each pair of cells. About n steps for n places.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from hashlib import sha256
from math import isqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from littlestone._privacy.accounting import Cost
from littlestone._privacy.exponential import draw_by_score, draw_enclosed, enclose_decay
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, Real, positive, whole
from littlestone._privacy.stay import STAY

Integers = npt.NDArray[np.int64]
# Integers that enclose a weight, times a power of ten.
Enclosure = tuple[int, int]


class StructuredScores(Protocol):
    """Describe the scores of a long public list of candidates. Private."""

    def draw(self, rate: Fraction, noise: Noise, release: int) -> bytes:
        """Draw the key of a candidate with probability proportional to exp(rate * score)."""


class StructuredExponential:
    """Select a candidate of a long public list, by scores."""

    name = "exponential mechanism"

    def __init__(self, candidates: str, *, epsilon: Real, sensitivity: int = 1) -> None:
        self.candidates = candidates
        self.cost = Cost(positive(epsilon, "epsilon"))
        self.sensitivity = whole(sensitivity, "sensitivity", least=1)
        # Theorem 6: weight and sum of weights each move by at most exp(epsilon/2).
        self.rate = self.cost.epsilon / (2 * self.sensitivity)

    def select(
        self, ballot: StructuredScores, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        """Select a candidate."""
        if leave_out is not None:
            raise BadParameter("no candidate of a structured list can be left out")
        return ballot.draw(self.rate, noise, release)

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        digest = sha256(self.candidates.encode()).hexdigest()
        return self.cost.parameters(self.name) | {
            "sensitivity": str(self.sensitivity),
            "candidates": digest,
        }


class StructuredStayOrDraw(StructuredExponential):
    """Select a candidate of a long public list, or stay with what is published."""

    name = "exponential mechanism with staying"

    def select(
        self, ballot: StructuredScores, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        """Select a candidate, or None to stay."""
        key = ballot.draw(self.rate, noise, release)
        return None if key in (STAY, leave_out) else key


class GroupScores(NamedTuple):
    """Hold groups of candidates of equal score. Private."""

    scores: Sequence[int]
    sizes: Sequence[int]

    def draw_member(self, rate: Fraction, noise: Noise, release: int) -> tuple[int, int]:
        """Draw a candidate: its group, and its place in it."""
        full = [group for group, size in enumerate(self.sizes) if size]
        top = max(self.scores[group] for group in full)

        def enclosed(digits: int) -> list[Enclosure]:
            found = enclose_decay(rate, digits, top - min(self.scores[group] for group in full))
            return [
                (self.sizes[group] * low, self.sizes[group] * high)
                for group in full
                for low, high in [found(top - self.scores[group])]
            ]

        group = full[draw_enclosed(enclosed, noise, release)]
        return group, noise.uniform(self.sizes[group], ("member", release, 0))


class _Part(NamedTuple):
    """Hold pairs with a common way of drawing one: from one cell to another, or within a run."""

    first: int
    second: int
    run: int = 0
    inside: bool = False


NO_PAIR, STAYING = _Part(-1, -1), _Part(-1, -1, 1)


class PairScores:
    """Hold the scores of all pairs a < b of places, and that of no pair. Private."""

    def __init__(
        self,
        prefix: Integers,
        starts: Integers,
        penalties: Integers,
        no_pair: int,
        stay: int | None = None,
    ) -> None:
        ends = np.append(starts[1:], len(prefix))
        self._cells = [prefix[start:end] for start, end in zip(starts, ends, strict=True)]
        self._starts, self._penalties = starts, penalties
        # Candidates on their own, each with its score.
        self._single = {NO_PAIR: no_pair} | ({} if stay is None else {STAYING: stay})
        self._runs = [_runs_of(cell) for cell in self._cells]

    def draw(self, rate: Fraction, noise: Noise, release: int) -> bytes:
        """Draw a pair; its key is both places, and empty for no pair."""
        parts = self._parts()
        part = parts[draw_enclosed(lambda n: self._enclosed(rate, n), noise, release)]
        if part in self._single:
            return b"" if part == NO_PAIR else STAY
        if part.first != part.second:
            a = draw_by_score(self._cells[part.first], rate, noise, release, stage="first ")
            b = draw_by_score(-self._cells[part.second], rate, noise, release, stage="last ")
            return pair_key(self._starts[part.first] + a, self._starts[part.second] + b)
        cell, (starts, _, lengths) = self._cells[part.first], self._runs[part.first]
        begin, length = int(starts[part.run]), int(lengths[part.run])
        if part.inside:
            place = noise.uniform(length * (length - 1) // 2, ("inside", release, 0))
            # Pairs 0 <= a < b by b, then by a: the inverse of the triangular numbers.
            b = (isqrt(8 * place + 1) + 1) // 2
            a, b = begin + place - b * (b - 1) // 2, begin + b
        else:
            b = begin + noise.uniform(length, ("inside", release, 0))
            a = draw_by_score(cell[:begin], rate, noise, release, stage="first ")
        return pair_key(self._starts[part.first] + a, self._starts[part.second] + b)

    def _parts(self) -> list[_Part]:
        """Return the parts, in the order of `_enclosed`."""
        cells = range(len(self._cells))
        found = [*self._single, *(_Part(x, y) for x in cells for y in cells[x + 1 :])]
        for cell in cells:
            lengths = self._runs[cell][2].tolist()
            found += [_Part(cell, cell, run) for run in range(len(lengths))]
            found += [_Part(cell, cell, run, True) for run, n in enumerate(lengths) if n > 1]
        return found

    def _enclosed(self, rate: Fraction, digits: int) -> list[Enclosure]:
        """Return what encloses the weight of each part, up to a common factor."""
        one = 10**digits
        lows = [int(cell.min()) for cell in self._cells]
        highs = [int(cell.max()) for cell in self._cells]
        decay = enclose_decay(rate, digits, max(highs) - min(lows))
        # For each part its largest score, and the sum of weights relative to that.
        tops, masses = list(self._single.values()), [(one, one)] * len(self._single)
        ups = downs = list[Enclosure]()
        if len(self._cells) > 1:
            pairs_of = list(zip(lows, highs, self._cells, strict=True))
            ups = [_summed(high - cell, decay) for _, high, cell in pairs_of]
            downs = [_summed(cell - low, decay) for low, _, cell in pairs_of]
        for x, (up_low, up_high) in enumerate(ups):
            for y in range(x + 1, len(downs)):
                tops.append(highs[x] - lows[y] - int(self._penalties[x, y]))
                low, high = downs[y]
                masses.append((up_low * low // one, -(-up_high * high // one)))
        for cell, (_, values, lengths) in enumerate(self._runs):
            penalty, best, before = int(self._penalties[cell, cell]), int(values[0]), (0, 0)
            for value, length in zip(values.tolist(), lengths.tolist(), strict=True):
                # `before`: the sum of exp(rate (P[a] - best)) over all places before this run.
                tops.append(best - value - penalty)
                masses.append((length * before[0], length * before[1]))
                if value > best:
                    low, high = decay(value - best)
                    before = before[0] * low // one, -(-before[1] * high // one)
                    best = value
                low, high = decay(best - value)
                before = before[0] + length * low, before[1] + length * high
            pairs = [n * (n - 1) // 2 * one for n in lengths.tolist() if n > 1]
            tops += [-penalty] * len(pairs)
            masses += [(each, each) for each in pairs]
        top = max(top for top, mass in zip(tops, masses, strict=True) if mass[1])
        least = min(top for top, mass in zip(tops, masses, strict=True) if mass[1])
        scale = enclose_decay(rate, digits, top - least)
        return [
            (low * factor[0] // one, -(-high * factor[1] // one)) if high else (0, 0)
            for part_top, (low, high) in zip(tops, masses, strict=True)
            for factor in [scale(top - part_top) if high else (0, 0)]
        ]


def pair_key(a: Any, b: Any) -> bytes:
    """Return the key of a pair of places."""
    return int(a).to_bytes(8) + int(b).to_bytes(8)


def pair_of(key: bytes) -> tuple[int, int] | None:
    """Return the pair of a key; None for the key of no pair."""
    return (int.from_bytes(key[:8]), int.from_bytes(key[8:])) if key else None


def _runs_of(cell: Integers) -> tuple[Integers, Integers, Integers]:
    """Return where the runs of equal numbers begin, the numbers, and their lengths."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(cell)) + 1])
    return starts, cell[starts], np.diff(np.append(starts, len(cell)))


def _summed(gaps: Integers, decay: Any) -> Enclosure:
    """Return what encloses the sum of exp(-rate * gap)."""
    levels, counts = np.unique(gaps, return_counts=True)
    found = [
        (count, decay(gap)) for gap, count in zip(levels.tolist(), counts.tolist(), strict=True)
    ]
    return sum(n * low for n, (low, _) in found), sum(n * high for n, (_, high) in found)


def free_place(place: int, taken: Iterable[int]) -> int:
    """Return the number with this place among the whole numbers that are not taken."""
    ordered = np.fromiter(taken, dtype=np.int64)
    return place + int(np.searchsorted(ordered - np.arange(len(ordered)), place, side="right"))
