"""Text files: lines become records, records become pieces of the stream, whatever the format."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from littlestone.edge.blocks import Wanted
from littlestone.edge.cells import Cells, read_cells
from littlestone.edge.lines import Bytes, chunks_of, count_lines, lines_of
from littlestone.edge.pieces import Faults, Piece

LOOKED_AT = 1000
"""How many of the first rows are looked at before anything is handed out."""


class Split(NamedTuple):
    """Records: the cells of each wanted column, what is wrong with rows, the line at which each row
    begins (counted from the first given), and how many lines were used."""

    cells: Mapping[str, Cells]
    faults: Faults
    offsets: npt.NDArray[np.intp]
    used: int


class TextFormat(Protocol):
    """What CSV and JSON lines differ in."""

    @property
    def wanted(self) -> Wanted:
        """What is to be read."""
        ...

    def begin(self, lines: list[str]) -> int:
        """Check the beginning of the file; say how many lines its header takes."""
        ...

    def is_plain(self, chunk: bytes) -> bool:
        """Whether every line of a chunk is sure to be one record."""
        ...

    def split(self, lines: list[str], last: bool) -> Split:
        """The records of some lines; unless these are the last, it leaves those for later that
        further lines could change."""
        ...


class TextStream:
    """The records of a text file from some place on.

    Parameters
    ----------
    file : Bytes
        The file, which stands at byte `at`.
    form : TextFormat
        Its format. If `at` is not 0, it has read the beginning of the file already.
    growing : bool
        Whether the file may still be written to. Then what is unfinished at its end (a line without
        a line feed, a quoted cell that is still open) is no record yet.
    at, line : int
        Where a record begins.
    """

    def __init__(
        self, file: Bytes, form: TextFormat, *, growing: bool = False, at: int = 0, line: int = 1
    ) -> None:
        self._file, self._form, self._growing = file, form, growing
        self._at, self._line = at, line
        self.unfinished = 0
        """How many lines were left at the end. Known when all records were read."""

    def pieces(self) -> Iterator[Piece]:
        """Return the records as rows."""
        for split, places in self._splits():
            form, lines = self._form, places[:, 1]
            yield replace(
                read_cells(form.wanted, split.cells, split.faults, lines),
                places=places,
            )

    def _splits(self) -> Iterator[tuple[Split, npt.NDArray[np.int64]]]:
        """The records of each chunk, and the byte and the line at which each of them begins."""
        rest, starts, line = list[str](), np.zeros(0, dtype=np.int64), self._line
        begun, cut_off = self._at > 0, False
        for chunk in chunks_of(self._file, self._at):
            if self._growing and not chunk.is_finished:
                cut_off = True
                break
            starts = np.append(starts, chunk.starts(self._at))
            self._at = chunk.end
            rest += lines_of(chunk.data)
            if not begun:
                used, begun = _begun(rest, self._form), True
                starts, line = starts[used:], line + used
            split = self._form.split(rest, False)
            yield split, self._places(split, starts, line)
            starts, line = starts[split.used :], line + split.used
            del rest[: split.used]
        if rest and not self._growing:
            split = self._form.split(rest, True)
            yield split, self._places(split, starts, line)
            rest.clear()
        self.unfinished = len(rest) + cut_off

    def _places(
        self, split: Split, starts: npt.NDArray[np.int64], line: int
    ) -> npt.NDArray[np.int64]:
        return np.column_stack([starts[split.offsets], split.offsets + line])

    def count(self) -> int:
        """Count the records, without reading cells where lines can be counted instead."""
        total, rest = 0, list[str]()
        for number, chunk in enumerate(chunks_of(self._file)):
            if self._growing and not chunk.is_finished:
                break
            if number == 0:
                rest = lines_of(chunk.data)
                _begun(rest, self._form)
            elif not rest and self._form.is_plain(chunk.data):
                total += count_lines(chunk.data)
                continue
            else:
                rest += lines_of(chunk.data)
            split = self._form.split(rest, False)
            total += len(split.offsets)
            del rest[: split.used]
        if rest and not self._growing:
            total += len(self._form.split(rest, True).offsets)
        return total


def _begun(lines: list[str], form: TextFormat) -> int:
    """Take the header off the first lines, and say how many it took."""
    lines[0] = lines[0].removeprefix("\ufeff")
    used = form.begin(lines)
    del lines[:used]
    return used
