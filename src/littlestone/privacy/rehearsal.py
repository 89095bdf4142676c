"""Noise for rehearsals: tests, twins and simulations. NOT PRIVATE, and it says so everywhere.

These sources are functions of the address of a draw, so a run is the same for any batch size and
any number of workers. Nothing in this room imports this module: only the lab and the tests may.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from hashlib import blake2b

from littlestone.privacy.noise import Address, Noise


class ScriptedNoise(Noise):
    """Every draw is looked up by its address; what the script leaves out is 0.

    >>> noise = ScriptedNoise({("query", 3, 0): -7})
    >>> noise.laplace(Fraction(1), ("query", 3, 0)), noise.laplace(Fraction(1), ("query", 4, 0))
    (-7, 0)
    >>> noise
    ScriptedNoise(NOT PRIVATE)
    """

    def __init__(self, script: Mapping[Address, int]) -> None:
        self._script = dict(script)

    def __repr__(self) -> str:
        return "ScriptedNoise(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        return self._script.get(at, 0)

    def uniform(self, below: int, at: Address) -> int:
        return self._script.get(at, 0) % below


class SeededNoise(Noise):
    """The right laws (to a float's precision) from a seed that anyone may know.

    >>> SeededNoise(7).laplace(Fraction(10), ("query", 3, 0))
    8
    >>> SeededNoise(7)
    SeededNoise(7, NOT PRIVATE)
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __repr__(self) -> str:
        return f"SeededNoise({self.seed}, NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        # The difference of two geometric integers of this scale has the Laplace law.
        up, down = divmod(self._bits(at), 1 << 64)
        return _geometric(up, scale) - _geometric(down, scale)

    def uniform(self, below: int, at: Address) -> int:
        return self._bits(at) * below >> 128

    def _bits(self, at: Address) -> int:
        """128 bits that depend on the seed and the address only."""
        return int.from_bytes(blake2b(repr((self.seed, *at)).encode(), digest_size=16).digest())


def _geometric(bits: int, scale: Fraction) -> int:
    """The geometric integer at the quantile that 64 bits stand for."""
    return math.floor(-math.log((bits + 1) / 2**64) * float(scale))
