"""Coins by address: the forest's randomness, a function and not a stream.

`coins(seed, purpose, address)` is an integer hash, vectorised over addresses: the leaf of a round,
the label that a vertex guesses, a tree's choice among collisions. A generator read in the order of
use would let one replaced example shift every later coin, and with it many votes. By address, one
example changes what its own tree does and nothing else; any batch size and any number of workers
see the same coins.

These coins are not secret: the privacy proof fixes them (Lemma 6.1). Secret noise is in `privacy`.
"""

from enum import IntEnum
from hashlib import blake2b
from random import SystemRandom
from typing import Any

import numpy as np
import numpy.typing as npt

Coins = npt.NDArray[np.uint64]


class Purpose(IntEnum):
    """What a coin is for. Equal addresses for different purposes are different coins."""

    TREE = 1
    LEAF = 2
    GUESS = 3
    CHOICE = 4
    FIRST = 5


def coins(seed: int, purpose: Purpose, *address: Any) -> Coins:
    """64 random-looking bits for each address; parts of an address are integers or arrays of them.

    >>> coins(7, Purpose.LEAF, np.arange(3)) & np.uint64(15)
    array([9, 6, 2], dtype=uint64)
    >>> int(coins(7, Purpose.LEAF, 2)) == int(coins(7, Purpose.LEAF, np.arange(3))[2])
    True
    """
    state = _mixed(np.uint64(seed & _ALL) ^ _mixed(np.uint64(purpose)))
    with np.errstate(over="ignore"):
        for part in address:
            state = _mixed(state + _mixed(np.asarray(part).astype(np.uint64)))
    return np.asarray(state)


def below(size: Any, drawn: Coins) -> npt.NDArray[np.intp]:
    """Each coin as a number from 0 to size - 1; sizes are at most 2^32.

    >>> below(3, coins(7, Purpose.TREE, np.arange(8)))
    array([0, 0, 2, 0, 2, 1, 2, 1])
    """
    high = drawn >> np.uint64(32)
    return np.asarray((high * np.asarray(size).astype(np.uint64)) >> np.uint64(32)).astype(np.intp)


def fresh_seed() -> int:
    """A seed that nobody chose, and that everybody may know."""
    return SystemRandom().getrandbits(63)


def number_of(name: bytes) -> int:
    """The number that stands for a name (a user's canonical bytes) in an address.

    >>> number_of(b"alice") == number_of(b"alice") != number_of(b"bob")
    True
    """
    return int.from_bytes(blake2b(name, digest_size=8).digest())


_ALL = (1 << 64) - 1
_STEP, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def _mixed(state: Any) -> Any:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014): every bit depends on every bit."""
    with np.errstate(over="ignore"):
        state = state + _STEP
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        return state ^ (state >> np.uint64(31))
