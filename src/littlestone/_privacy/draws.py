"""Draw a key from private scores: what a gate asks of a draw, and the exponential mechanism.

`ExponentialMechanism` chooses from a finite public list, exactly: index i is drawn with probability
proportional to exp(epsilon score_i / (2 D)) and no other law. Weights are enclosed between integers
and refined until the drawn bits decide, so no rounding is left to attack. Candidates of equal score
are one group, and a group is one weight.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import ROUND_FLOOR
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from itertools import count
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from littlestone._privacy.accounting import Cost
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import (
    BadParameter,
    Real,
    context,
    enclose_exp,
    positive,
    whole,
)

Scores = TypeVar("Scores", contravariant=True)


class Draw(ABC, Generic[Scores]):
    """Select a key from the private scores of one epoch, at a stated cost."""

    name: str
    # What one draw costs, for scores that one replaced round moves as its lemma allows.
    cost: Cost

    @abstractmethod
    def select(
        self, scores: Scores, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        """Select a key, or None; the published one is public and may be left out."""

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        return self.cost.parameters(self.name)

    def joint(self, monitor: Cost, reads: int) -> Cost:
        """Return what the monitor costs together with so many draws that read one unit."""
        # Theorem 7: basic composition, unless a draw knows better.
        return monitor + self.cost.times(reads)


Integers: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

WORD = 64


class ExponentialMechanism(Draw[Integers]):
    """Select one of a fixed list of candidates, by scores."""

    name = "exponential mechanism"

    def __init__(self, candidates: Sequence[bytes], *, epsilon: Real, sensitivity: int = 1) -> None:
        self._known = frozenset(candidates)
        # A key given twice would have twice its weight.
        if not len(self._known) == len(candidates) > 0:
            raise BadParameter("candidates must be a list of at least one key, without repeats")
        self.candidates = tuple(candidates)
        self.cost = Cost(positive(epsilon, "epsilon"))
        self.sensitivity = whole(sensitivity, "sensitivity", least=1)
        # Theorem 6: weight and sum of weights each move by at most exp(epsilon/2).
        self.rate = self.cost.epsilon / (2 * self.sensitivity)

    def select(
        self, scores: Integers, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        """Select a candidate, or None if all are left out."""
        values, size = _integers(scores), len(self.candidates)
        if len(values) != size:
            raise BadParameter(f"{len(values)} scores for {size} candidates")
        # The left-out key is public, so leaving it out costs nothing (Theorem 6 on the others).
        skipped = self.candidates.index(published) if published in self._known else size
        if skipped < size:
            values = np.delete(values, skipped)
        if len(values) == 0:
            return None
        drawn = draw_by_score(values, self.rate, noise, release)
        return self.candidates[drawn if drawn < skipped else drawn + 1]

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        # Lengths are part of the digest: b"ab", b"c" and b"a", b"bc" are different lists.
        digest = sha256(b"".join(len(key).to_bytes(8) + key for key in self.candidates))
        extra = {"sensitivity": str(self.sensitivity), "candidates": digest.hexdigest()}
        return super().parameters() | extra


# The key of staying, which names no rule. Its score is the last one.
STAY = b"stay"


class StayOrDraw(ExponentialMechanism):
    """Select one of a fixed list of candidates, or stay with what is published."""

    name = "exponential mechanism with staying"

    def __init__(self, candidates: Sequence[bytes], *, epsilon: Real, sensitivity: int = 1) -> None:
        super().__init__([*candidates, STAY], epsilon=epsilon, sensitivity=sensitivity)

    def select(
        self, scores: Integers, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        """Select a candidate, or None to stay."""
        key = super().select(scores, noise, release, published)
        return None if key == STAY else key


def draw_by_score(
    scores: Integers,
    rate: Fraction,
    noise: Noise,
    release: int,
    *,
    classes: NDArray[np.integer[Any]] | None = None,
    weights: Sequence[int] = (1,),
) -> int:
    """Draw an index with probability proportional to weight * exp(rate * score)."""
    values = _integers(scores)
    kinds = np.zeros(len(values), dtype=np.intp) if classes is None else np.asarray(classes)
    # Equal scores have equal exponentials: one for the group, then a member by weight.
    sizes: dict[int, int] = {}
    for kind, weight in enumerate(weights):
        levels, counts = np.unique(values[kinds == kind], return_counts=True)
        for level, count_ in zip(levels.tolist(), counts.tolist(), strict=True):
            sizes[level] = sizes.get(level, 0) + weight * count_
    ordered = sorted(sizes, reverse=True)
    gaps = [ordered[0] - level for level in ordered]
    group = _draw_group(gaps, [sizes[level] for level in ordered], rate, noise, release)
    place = noise.uniform(sizes[ordered[group]], ("member", release, 0))
    for kind, weight in enumerate(weights):
        members = np.flatnonzero((values == ordered[group]) & (kinds == kind))
        if place < weight * len(members):
            return int(members[place // weight])
        place -= weight * len(members)
    raise AssertionError("unreachable")


def _draw_group(
    gaps: list[int], sizes: list[int], rate: Fraction, noise: Noise, release: int
) -> int:
    """Return the group in which a uniform point of the total weight falls, exactly."""
    # The point gets 64 more bits, and the weights 20 more digits, until one index is certain
    # (Theorem 6: the law is exact).
    bits = 0
    for words in count(1):
        bits = bits << WORD | noise.uniform(1 << WORD, ("group", release, words))
        group = _group_at(bits, words * WORD, _weights(gaps, sizes, rate, 20 * words + 10))
        if group is not None:
            return group
    raise AssertionError("unreachable")


def _group_at(point: int, width: int, weights: list[tuple[int, int]]) -> int | None:
    """Return the group of [point, point + 1) / 2^width of the total, or None if undecided."""
    least = point * sum(low for low, _ in weights)
    most = (point + 1) * sum(high for _, high in weights)
    start_high = end_low = 0
    for group, (low, high) in enumerate(weights):
        end_low += low << width
        if start_high <= least and most <= end_low:
            return group
        start_high += high << width
    return None


def _weights(
    gaps: list[int], sizes: list[int], rate: Fraction, digits: int
) -> list[tuple[int, int]]:
    """Return integers that enclose size * exp(-rate * gap) * 10^digits, the best group first."""
    weights: list[tuple[int, int]] = []
    low = high = one = 10**digits
    last, steps = 0, step_weights(rate, digits)
    for group, (gap, size) in enumerate(zip(gaps, sizes, strict=True)):
        # Too small for these digits, like all that follow: one bound for all of them.
        if low == 0:
            return [*weights, (0, sum(sizes[group:]) * high)]
        step, last, place = gap - last, gap, 0
        # Byte by byte, as most steps are different, and a few exponentials serve all of them.
        while step:
            step, byte = step >> 8, step & 255
            if byte:
                part = steps.get(byte << place)
                if part is None:
                    part = steps[byte << place] = step_weight(byte << place, rate, digits)
                # Rounded outwards each time, so that the true weight stays between the two.
                low, high = low * part[0] // one, -(-high * part[1] // one)
            place += 8
        weights.append((size * low, size * high))
    return weights


@lru_cache(maxsize=16)
def step_weights(rate: Fraction, digits: int) -> dict[int, tuple[int, int]]:
    """Return the weights of steps that were needed before, of which there are a few hundred."""
    return {}


def step_weight(step: int, rate: Fraction, digits: int) -> tuple[int, int]:
    """Return integers that enclose exp(-rate * step) * 10^digits."""
    # Decimals are moved by powers of ten, exactly, before they are rounded outwards.
    arithmetic = context(digits, ROUND_FLOOR)
    low, high = (bound.scaleb(digits, arithmetic) for bound in enclose_exp(-rate * step, digits))
    return int(low), int(high) + 1


def _integers(scores: Integers) -> NDArray[np.integer[Any]]:
    """Return the scores as an array, if they are integers and there is at least one."""
    values = np.asarray(scores)
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iu":
        raise BadParameter("scores must be a non-empty list of whole numbers of 64 bits")
    return values
