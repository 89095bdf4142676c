"""Provide noise for tests and simulations. NOT PRIVATE, and it says so everywhere.

A draw is a function of its address, so a run is the same for any batch size and any number of
workers. Only tests, audits and benchmarks import this module, and import-linter enforces that.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from littlestone._privacy.noise import Address, Gaps, Noise

Words: TypeAlias = npt.NDArray[np.uint64]


class ScriptedNoise(Noise):
    """Return the draw that a script has for an address, and 0 where it has none."""

    def __init__(self, script: Mapping[Address, int]) -> None:
        self._script = dict(script)

    def __repr__(self) -> str:
        return "ScriptedNoise(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        return self._script.get(at, 0)

    def uniform(self, below: int, at: Address) -> int:
        return self._script.get(at, 0) % below


class SeededNoise(Noise):
    """Draw from the right laws (to a float's precision) with a seed that anyone may know."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __repr__(self) -> str:
        return f"SeededNoise({self.seed}, NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        return int(self._laplaces(scale, at[0], np.array([at[1]]), at[2])[0])

    def uniform(self, below: int, at: Address) -> int:
        up, down = (int(words[0]) for words in self._words(at[0], np.array([at[1]]), at[2]))
        return (up << 64 | down) * below >> 128

    def first_exceeding(
        self, gaps: Gaps, scale: Fraction, check: int, one_sided: bool
    ) -> int | None:
        numbers = np.arange(check, check + len(gaps))
        drawn = self._laplaces(scale, "query", numbers, 0)
        if one_sided:
            drawn = np.where(drawn >= 0, drawn, ~drawn)
        exceeding = drawn >= gaps
        return int(np.argmax(exceeding)) if exceeding.any() else None

    def _laplaces(self, scale: Fraction, purpose: str, numbers: Gaps, rank: int) -> Gaps:
        """Return differences of two geometric integers: these have the Laplace law."""
        up, down = (
            np.floor(-np.log((words + 1.0) / 2**64) * float(scale)).astype(np.int64)
            for words in self._words(purpose, numbers, rank)
        )
        return np.asarray(up - down)

    def _words(self, purpose: str, numbers: Gaps, rank: int) -> tuple[Words, Words]:
        """Return twice 64 bits for each number, which depend on the seed and the address only."""
        start = np.uint64(_start(self.seed, purpose, rank))
        # By address, not in order of use: any batching gives the same draws.
        up = _mixed(start + _mixed(numbers.astype(np.uint64)))
        return up, _mixed(up)


@cache
def _start(seed: int, purpose: str, rank: int) -> int:
    # Hashed by name, not by `hash`, which differs from process to process.
    name = repr((seed, purpose, rank)).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest())


def _mixed(words: Words) -> Words:
    """Apply the finalizer of splitmix64: every bit depends on every bit."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
