"""One factor for how much the tests do: games, kills, seeds, examples and cases of a test.

`make test` and `make test-all` set LITTLESTONE_EFFORT to a fraction, `make test-all EFFORT=1` to 1.
A test with many cases keeps an even spread of them, the same in every process.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

EFFORT = float(os.environ.get("LITTLESTONE_EFFORT", "1"))
# Whether this run does everything that the tests describe, and not a part of it.
EVERYTHING = EFFORT >= 1
# So many cases of a test are kept at least: 2 by `make test`, 4 by `make test-all`.
FEW = max(1, round(10 * EFFORT))


def scaled(count: int, least: int = 1) -> int:
    """Return how many of `count` games, kills or examples there should be."""
    return min(count, max(least, round(count * EFFORT)))


def spread(cases: int) -> set[int]:
    """Return which of so many cases of a test are kept: few, evenly spread, the last included."""
    kept = scaled(cases, least=min(cases, FEW))
    return {cases - 1 - (n * cases) // kept for n in range(kept)}


def thinned(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that are kept of those that one test goes through."""
    kept = spread(len(cases))
    return [case for place, case in enumerate(cases) if place in kept]
