"""Text files: lines become records, records become pieces of the stream, whatever the format."""

from collections.abc import Iterator, Mapping
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
        """The records of some lines; unless these are the last, it may leave some for later."""
        ...


def pieces_of(file: Bytes, form: TextFormat) -> Iterator[Piece]:
    """The rows of a text file."""
    line, rest = 0, list[str]()
    for chunk in chunks_of(file):
        rest += lines_of(chunk)
        if not line:
            line = 1 + _begun(rest, form)
        split = form.split(rest, False)
        yield _piece(form, split, line)
        line += split.used
        del rest[: split.used]
    if rest:
        yield _piece(form, form.split(rest, True), line)


def _piece(form: TextFormat, split: Split, line: int) -> Piece:
    return read_cells(form.wanted, split.cells, split.faults, split.offsets + line)


def _begun(lines: list[str], form: TextFormat) -> int:
    """Take the header off the first lines, and say how many it took."""
    lines[0] = lines[0].removeprefix("\ufeff")
    used = form.begin(lines)
    del lines[:used]
    return used


def count_records(file: Bytes, form: TextFormat) -> int:
    """How many records a file has, without reading cells where lines can be counted instead."""
    total, rest = 0, list[str]()
    for number, chunk in enumerate(chunks_of(file)):
        if number == 0:
            rest = lines_of(chunk)
            _begun(rest, form)
        elif not rest and form.is_plain(chunk):
            total += count_lines(chunk)
            continue
        else:
            rest += lines_of(chunk)
        split = form.split(rest, False)
        total += len(split.offsets)
        del rest[: split.used]
    return total + (len(form.split(rest, True).offsets) if rest else 0)
