"""Theorem 18, by enumeration: adding up is a valid filter, optimal composition is none."""

import math
import random
from itertools import product

import pytest

from effort import scaled

# An answer: its probability in world 0, and in world 1.
Answer = tuple[float, float]


def answers(epsilon: float, delta: float = 0.0) -> list[Answer]:
    """The worst (epsilon, delta)-DP mechanism: it tells the world, or answers at random."""
    up = (1 - delta) / (1 + math.exp(-epsilon))
    down = 1 - delta - up
    return [(delta, 0.0), (0.0, delta), (up, down), (down, up)]


def excess(paths: list[list[Answer]], epsilon: float) -> float:
    """The delta of all sequences of answers at this epsilon: their hockey-stick divergence."""
    pairs = [(math.prod(p for p, _ in path), math.prod(q for _, q in path)) for path in paths]
    return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in pairs)


def adaptive_paths(
    left: tuple[float, float], steps: int, draw: random.Random, so_far: list[Answer]
) -> list[list[Answer]]:
    """All sequences of an adversary who chooses each epsilon and delta from what is left."""
    if not steps:
        return [so_far]
    found = []
    # Different parameters after each answer: chosen after seeing it.
    epsilon, delta = (amount * draw.choice([0.0, 0.3, 0.6, 1.0]) for amount in left)
    rest = left[0] - epsilon, left[1] - delta
    for answer in answers(epsilon, delta):
        found += adaptive_paths(rest, steps - 1, draw, [*so_far, answer])
    return found


@pytest.mark.parametrize("seed", range(scaled(60, least=20)))
def test_adding_up_is_a_valid_filter(seed: int) -> None:
    total = (1.0, 0.05)
    paths = adaptive_paths(total, 4, random.Random(seed), [])
    assert sum(math.prod(p for p, _ in path) for path in paths) == pytest.approx(1)
    assert excess(paths, total[0]) <= total[1] + 1e-12


def test_optimal_composition_is_no_filter() -> None:
    """The example of docs/guarantee.md, with its numbers."""
    first, many, one, limit = 0.25, [0.75] * 4, 2.064, 2.0
    ways = {
        name: [list(path) for path in product(answers(first), *map(answers, rest))]
        for name, rest in (("many", many), ("one", [one]))
    }
    most = max(excess(paths, limit) for paths in ways.values())
    likely = answers(first)[2]
    chosen = [path for path in ways["one"] if path[0] == likely]
    chosen += [path for path in ways["many"] if path[0] != likely]
    assert sum(math.prod(p for p, _ in path) for path in chosen) == pytest.approx(1)
    assert most == pytest.approx(0.1345, abs=1e-4)
    assert excess(chosen, limit) == pytest.approx(0.1836, abs=1e-4)


def test_a_delta_that_is_drawn_at_a_repetition_is_not_enough() -> None:
    """The example of docs/guarantee.md, with its numbers: why `draw_again` refuses a delta.

    The first stage of a run says "once more" or not, of one row. Asked once more, it answers of
    that row and of its repetition. Where it was not asked, another run tells the world.
    """
    epsilon, delta = 1.0, 0.001
    e = math.exp(epsilon)
    # By (row, repeated row): the probabilities of "once more" with the answers 0 and 1.
    asked = {
        (0, 0): (delta * (1 + e), delta),
        (1, 0): (delta, delta / e),
        (0, 1): (delta, delta * (1 + e)),
        (1, 1): (0.0, delta + delta / e),
    }
    laws = {rows: [*two, 1 - sum(two)] for rows, two in asked.items()}
    for one, other in product(laws, laws):
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1:
            pairs = [[pair] for pair in zip(laws[one], laws[other], strict=True)]
            assert excess(pairs, epsilon) <= delta + 1e-15, "the run is (epsilon, delta)-DP"
    total = 2 * epsilon, delta + delta * math.exp(2 * epsilon - epsilon)
    told = answers(epsilon, total[1] - delta)
    paths = [[pair] for pair in zip(laws[0, 0][:2], laws[1, 1][:2], strict=True)]
    paths += [[(laws[0, 0][2], laws[1, 1][2]), answer] for answer in told]
    assert sum(math.prod(p for p, _ in path) for path in paths) == pytest.approx(1)
    assert total[1] == pytest.approx(0.003718, abs=1e-6)
    assert excess(paths, total[0]) == pytest.approx(0.006424, abs=1e-6)
