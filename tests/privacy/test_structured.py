"""Structured draws: exactly the law of the exponential mechanism over the whole list."""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from littlestone._privacy import BadParameter
from littlestone._privacy.noise import Address
from littlestone._privacy.stay import STAY
from littlestone._privacy.structured import (
    NO_PAIR,
    GroupScores,
    PairScores,
    StructuredExponential,
    StructuredStayOrDraw,
    free_place,
    pair_of,
)
from littlestone._privacy.testing import ScriptedNoise, SeededNoise

DIGITS = 40
# A pair of places, no pair, or staying.
Candidate = tuple[int, int] | None | str


def candidate_of(key: bytes) -> Candidate:
    return "stay" if key == STAY else pair_of(key)


class Cell:
    """A random score structure: places, cells, penalties."""

    def __init__(self, seed: int, places: int) -> None:
        draw = np.random.default_rng(seed)
        self.prefix = np.concatenate([[0], np.cumsum(draw.integers(-2, 3, places - 1))])
        cuts = draw.choice(np.arange(1, places), min(places - 1, seed % 4), replace=False)
        self.starts = np.array([0, *sorted(cuts.tolist())])
        self.penalties = draw.integers(0, 5, (len(self.starts),) * 2)
        self.no_pair = int(draw.integers(-3, 3))
        self.stay = int(draw.integers(-3, 3)) if seed % 2 else None

    @property
    def scores(self) -> PairScores:
        return PairScores(self.prefix, self.starts, self.penalties, self.no_pair, self.stay)

    def naive(self) -> dict[Candidate, int]:
        """The score of every candidate, written out."""
        found: dict[Candidate, int] = {None: self.no_pair}
        if self.stay is not None:
            found["stay"] = self.stay
        cell = np.searchsorted(self.starts, np.arange(len(self.prefix)), side="right") - 1
        for a, b in combinations(range(len(self.prefix)), 2):
            penalty = self.penalties[cell[a], cell[b]]
            found[a, b] = int(self.prefix[a] - self.prefix[b] - penalty)
        return found


def parts_of(cell: Cell, rate: Fraction) -> Iterator[tuple[list[Candidate], float]]:
    """The candidates of every part, and the middle of what encloses its weight."""
    scores = cell.scores
    for part, (low, high) in zip(scores._parts(), scores._enclosed(rate, DIGITS), strict=True):
        assert 0 <= high - low <= max(10**12, high >> 60), "enclosures are close"
        weight = float(Fraction(low + high, 2))
        if part.first < 0:
            yield [None if part == NO_PAIR else "stay"], weight
            continue
        ends = [*cell.starts[1:].tolist(), len(cell.prefix)]
        first = range(cell.starts[part.first], ends[part.first])
        second = range(cell.starts[part.second], ends[part.second])
        if part.first != part.second:
            yield list(product(first, second)), weight
            continue
        starts, _, lengths = scores._runs[part.first]
        begin = int(cell.starts[part.first] + starts[part.run])
        run = range(begin, begin + int(lengths[part.run]))
        yield (
            (
                list(combinations(run, 2))
                if part.inside
                else list(product(range(first.start, begin), run))
            ),
            weight,
        )


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(3)])
@pytest.mark.parametrize("seed", range(12))
def test_the_parts_are_the_list_and_weigh_what_their_candidates_weigh(
    seed: int, rate: Fraction
) -> None:
    cell = Cell(seed, 2 + seed)
    naive, seen, found, expected = cell.naive(), Counter[Candidate](), [], []
    for members, weight in parts_of(cell, rate):
        seen.update(members)
        found.append(weight)
        expected.append(math.fsum(math.exp(rate * naive[member]) for member in members))
    assert seen == Counter(naive.keys()), "every candidate is in one part"
    share = [weight / math.fsum(found) for weight in found]
    assert share == pytest.approx([weight / math.fsum(expected) for weight in expected], rel=1e-12)


class Scripted(SeededNoise):
    """Chooses the part: its point is the middle of the part's share."""

    def __init__(self, seed: int, point: int) -> None:
        super().__init__(seed)
        self.point = point

    def uniform(self, below: int, at: Address) -> int:
        return self.point if at[0] == "group" and at[2] == 1 else super().uniform(below, at)


def test_members_of_every_part_are_drawn_by_their_weights() -> None:
    """Each part by itself, many times: frequencies beside the naive weights."""
    cell, rate, times = Cell(3, 9), Fraction(1, 2), 1500
    naive, at = cell.naive(), 0.0
    parts = list(parts_of(cell, rate))
    total = math.fsum(weight for _, weight in parts)
    for members, weight in parts:
        middle, at = at + weight / 2, at + weight
        if weight == 0:
            continue
        point = int(middle / total * 2**64)
        keys = (cell.scores.draw(rate, Scripted(n, point), 0) for n in range(times))
        drawn = Counter(candidate_of(key) for key in keys)
        weights = [math.exp(rate * naive[member]) for member in members]
        for member, one in zip(members, weights, strict=True):
            share = one / sum(weights)
            assert abs(drawn[member] / times - share) < 5 * math.sqrt(share / times) + 1e-9
        assert set(drawn) <= set(members)


def test_the_two_ends_are_drawn_with_different_noise() -> None:
    """One address for both draws would tie the ends to each other."""

    class Recording(SeededNoise):
        def __init__(self) -> None:
            super().__init__(1)
            self.asked: list[Address] = []

        def uniform(self, below: int, at: Address) -> int:
            self.asked.append(at)
            return super().uniform(below, at)

    cell = Cell(3, 9)
    for release in range(40):
        noise = Recording()
        cell.scores.draw(Fraction(1, 2), noise, release)
        assert len(set(noise.asked)) == len(noise.asked)


def test_groups_are_drawn_as_if_written_out() -> None:
    groups = GroupScores([3, 0, 3, -4], [2, 10**8, 0, 7])
    rate, times = Fraction(5), 2000
    drawn = Counter(groups.draw_member(rate, SeededNoise(n), 0)[0] for n in range(times))
    weights = [n * math.exp(5 * s) for s, n in zip(groups.scores, groups.sizes, strict=True)]
    for group, weight in enumerate(weights):
        share = weight / sum(weights)
        assert abs(drawn[group] / times - share) < 5 * math.sqrt(share / times) + 1e-9


def test_faint_parts_are_enclosed() -> None:
    """Scores far apart: what is too small for the digits has a bound, and is not lost."""
    cell = Cell(1, 4)
    cell.prefix = np.array([0, 10**6, -(10**6), 0])
    enclosed = cell.scores._enclosed(Fraction(1, 2), 30)
    assert sum(low == 0 < high for low, high in enclosed) >= 2
    assert pair_of(cell.scores.draw(Fraction(1, 2), SeededNoise(1), 0)) == (1, 2)


def test_free_places() -> None:
    for taken in ([], [0], [0, 1, 4], [7]):
        free = [n for n in range(20) if n not in taken]
        assert [free_place(place, taken) for place in range(10)] == free[:10]


def test_nothing_can_be_left_out() -> None:
    mechanism = StructuredExponential("all", epsilon=1)
    with pytest.raises(BadParameter, match="left out"):
        mechanism.select(Cell(1, 3).scores, ScriptedNoise({}), 0, b"key")
    assert mechanism.rate == Fraction(1, 2)


def test_staying_is_one_more_candidate_and_so_is_a_draw_of_the_published_pair() -> None:
    cell, mechanism = Cell(3, 9), StructuredStayOrDraw("all", epsilon=2, sensitivity=4)
    assert mechanism.rate == Fraction(1, 4)
    key = cell.scores.draw(mechanism.rate, SeededNoise(5), 0)
    assert mechanism.select(cell.scores, SeededNoise(5), 0) == (None if key == STAY else key)
    assert mechanism.select(cell.scores, SeededNoise(5), 0, leave_out=key) is None
    cell.stay = 10**6
    assert mechanism.select(cell.scores, SeededNoise(5), 0) is None
