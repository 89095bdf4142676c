"""Lines of a text file, in chunks, with bounded memory.

A line ends at a line feed, or at the end of the file; a line feed at the very end begins no further
line. A byte that is not UTF-8 becomes a lone surrogate, which spoils the cell it is in and nothing
else. A line of more than `LONGEST` bytes is replaced by a short one that no format can read.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

LONGEST = 1 << 20
"""The most bytes of a line."""

_PIECE = 1 << 15
"""The most bytes that are read at a time: no more than `LONGEST`."""

_LINE_FEED = 10
_TOO_LONG = f"<a line of more than {LONGEST} bytes>".encode()


class Bytes(Protocol):
    """A file of bytes, plain or unpacked on the way."""

    def read1(self, size: int, /) -> bytes:
        """What is there, up to a size; nothing at the end."""
        ...


class Chunk(NamedTuple):
    """Whole lines of a file, and the byte of the file at which they end."""

    data: bytes
    end: int

    @property
    def is_finished(self) -> bool:
        """Whether the last line has its line feed; without one it may still be written."""
        return self.data.endswith(b"\n")

    def starts(self, before: int) -> npt.NDArray[np.int64]:
        """Return the byte of the file at which each line begins; the first begins at `before`.

        A line that was replaced by a short one is the first of its chunk, so the others are as far
        from the end of the chunk as they are in the file.
        """
        feeds = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == _LINE_FEED)
        ends = self.end - len(self.data) + 1 + feeds
        return np.append(before, ends[:-1] if self.is_finished else ends)


def chunks_of(file: Bytes, at: int = 0) -> Iterator[Chunk]:
    """The bytes of a file, which is read from byte `at` on, in pieces of whole lines.

    >>> import io
    >>> [*chunks_of(io.BytesIO(b"a\\nb"))]
    [Chunk(data=b'a\\n', end=2), Chunk(data=b'b', end=3)]
    """
    held = b""
    while data := file.read1(_PIECE):
        at += len(data)
        first, end = data.find(b"\n"), data.rfind(b"\n") + 1
        if end:
            whole = _bounded(held + data[:first]) + data[first:end]
            held = data[end:]
            yield Chunk(whole, at - len(held))
        elif len(held) <= LONGEST:
            held += data
    if held:
        yield Chunk(_bounded(held), at)


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
