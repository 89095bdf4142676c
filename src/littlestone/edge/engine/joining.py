"""The checksum of two texts, one after the other, from theirs.

A CRC is linear: a text that is followed by zeros has the checksum of the text, times a matrix over
the field of two elements. With it checksums can be found where the rows are, and joined here.
"""

from functools import cache

Matrix = tuple[int, ...]
"""32 columns, each 32 bits."""


def joined(first: int, second: int, length: int) -> int:
    """The CRC-32 of a text that ends with `length` bytes whose CRC-32 is `second`, if that of the
    part before is `first`.

    >>> from zlib import crc32
    >>> joined(crc32(b"Little"), crc32(b"stone"), 5) == crc32(b"Littlestone")
    True
    """
    power = 0
    while length:
        if length & 1:
            first = _times(_zeros(power), first)
        length, power = length >> 1, power + 1
    return first ^ second


@cache
def _zeros(power: int) -> Matrix:
    """What 2 ** power bytes of zeros do to a checksum."""
    if power > -3:
        half = _zeros(power - 1)
        return tuple(_times(half, column) for column in half)
    return 0xEDB88320, *(1 << bit for bit in range(31))


def _times(matrix: Matrix, vector: int) -> int:
    product = 0
    for bit, column in enumerate(matrix):
        if vector >> bit & 1:
            product ^= column
    return product
