"""Derive the forest's random bits by hashing an address: a function, not a stream.

`coins(seed, purpose, address)` is an integer hash, vectorised over addresses: the leaf of a round,
the label that a vertex guesses, a tree's choice among collisions. A generator read in the order of
use would let one replaced example shift all later random bits, and with them many votes. By
address, one example changes what its own tree does and nothing else (docs/guarantee.md, Theorem 9);
any batch size and any number of workers see the same bits.

These bits are not secret: the privacy proof fixes them (Lemma 6.1). Secret noise is in `privacy`.
"""

from enum import IntEnum
from hashlib import blake2b
from random import SystemRandom
from typing import Any

import numpy as np
import numpy.typing as npt

Coins = npt.NDArray[np.uint64]


class Purpose(IntEnum):
    """Name what random bits are for: equal addresses for different purposes give different bits."""

    TREE = 1
    LEAF = 2
    GUESS = 3
    CHOICE = 4
    FIRST = 5


def coins(seed: int, purpose: Purpose, *address: Any) -> Coins:
    """Return 64 random-looking bits for each address.

    Parameters
    ----------
    seed : int
        The seed; not secret.
    purpose : Purpose
        What the bits are for.
    *address : int or array of int
        The parts of the address, broadcast against each other.

    Returns
    -------
    ndarray of uint64

    Examples
    --------
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
    """Map random bits to integers from 0 to size - 1.

    Parameters
    ----------
    size : int or array of int
        At most 2^32.
    drawn : ndarray of uint64
        What `coins` returned.

    Returns
    -------
    ndarray of intp

    Examples
    --------
    >>> below(3, coins(7, Purpose.TREE, np.arange(8)))
    array([0, 0, 2, 0, 2, 1, 2, 1])
    """
    # Multiply and shift: a remainder would need the low bits too, and a division each.
    high = drawn >> np.uint64(32)
    return np.asarray((high * np.asarray(size).astype(np.uint64)) >> np.uint64(32)).astype(np.intp)


def fresh_seed() -> int:
    """Draw a seed that nobody chose. It need not be secret."""
    return SystemRandom().getrandbits(63)


def number_of(name: bytes) -> int:
    """Return the number that stands for a name (a user's canonical bytes) in an address.

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
    """Mix all bits with the finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        state = state + _STEP
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        return state ^ (state >> np.uint64(31))
