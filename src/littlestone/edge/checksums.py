"""Checksums of rows, column by column: the same however the rows are cut into blocks.

A CRC is linear: a text that is followed by zeros has the checksum of the text, times a matrix over
the field of two elements. With it checksums can be found where the rows are, and joined here.
"""

from collections.abc import Iterable
from functools import cache

Matrix = tuple[int, ...]
"""32 columns, each 32 bits."""


class Sums(tuple[tuple[int, int], ...]):
    """The CRC-32 of each column of some rows, and the bytes that it was taken over.

    `+` gives those of the rows of both, one after the other.

    >>> from zlib import crc32
    >>> one, other = (Sums([(crc32(text), len(text))]) for text in (b"Little", b"stone"))
    >>> one + other == Sums([(crc32(b"Littlestone"), 11)]), Sums() + one == one
    (True, True)
    >>> Sums.from_text(str(one)) == one
    True
    """

    def __new__(cls, columns: Iterable[tuple[int, int]] = ()) -> "Sums":
        return super().__new__(cls, columns)

    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        if not self or not other:
            return self or other
        pairs = zip(self, other, strict=True)
        return Sums((joined(a, b, more), length + more) for (a, length), (b, more) in pairs)

    def __str__(self) -> str:
        return " ".join(f"{crc:08x}:{length:x}" for crc, length in self)

    @classmethod
    def from_text(cls, text: str) -> "Sums":
        """Read what `str` wrote."""
        columns = (column.split(":") for column in text.split())
        return cls((int(crc, 16), int(length, 16)) for crc, length in columns)


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
