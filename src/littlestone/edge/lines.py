"""Lines of a text file, in chunks, with bounded memory.

A line ends at a line feed, or at the end of the file; a line feed at the very end begins no further
line. A byte that is not UTF-8 becomes a lone surrogate, which spoils the cell it is in and nothing
else. A line of more than `LONGEST` bytes is replaced by a short one that no format can read.
"""

from collections.abc import Iterator
from typing import Protocol

LONGEST = 1 << 20
"""The most bytes of a line."""

_PIECE = 1 << 15
"""The most bytes that are read at a time: no more than `LONGEST`."""

_TOO_LONG = f"<a line of more than {LONGEST} bytes>".encode()


class Bytes(Protocol):
    """A file of bytes, plain or unpacked on the way."""

    def read1(self, size: int, /) -> bytes:
        """What is there, up to a size; nothing at the end."""
        ...


def chunks_of(file: Bytes) -> Iterator[bytes]:
    """The bytes of a file in pieces of whole lines.

    >>> import io
    >>> list(chunks_of(io.BytesIO(b"a\\nb")))
    [b'a\\n', b'b']
    """
    held = b""
    while data := file.read1(_PIECE):
        first, end = data.find(b"\n"), data.rfind(b"\n") + 1
        if end:
            yield _bounded(held + data[:first]) + data[first:end]
            held = data[end:]
        elif len(held) <= LONGEST:
            held += data
    if held:
        yield _bounded(held)


def _bounded(line: bytes) -> bytes:
    return line if len(line) <= LONGEST else _TOO_LONG


def lines_of(chunk: bytes) -> list[str]:
    """The lines of a chunk, as text.

    >>> lines_of(b"a\\n\\nb\\n"), lines_of(b"\\xff")
    (['a', '', 'b'], ['\\udcff'])
    """
    lines = chunk.decode("utf-8", "surrogateescape").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def count_lines(chunk: bytes) -> int:
    """How many lines a chunk has."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n") and chunk != b"")
