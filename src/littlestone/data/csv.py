"""CSV and TSV: which lines make a record, and which cells it has.

The first line names the columns. After it every line is a record, blank lines too (they are null
rounds): a row that is replaced by a blank line must not move the rows after it.

A quoted cell may hold line breaks, and an unclosed quote would swallow the rows after it. So a
quote that is still open at the end of its line goes on only if it is closed within `MOST_LINES`
lines, the whole then has the right number of cells, and none of the further lines is by itself a
sound row: the right number of cells, quotes around whole cells only. Otherwise its line alone is a
null round. Hence a sound row on one line is never swallowed, whatever stands before it.

What this cannot do: a quoted cell that holds a line which looks like a sound row is taken apart;
and an unclosed quote just before a row that spans lines, or before a line with a stray quote in it
(`5" pipe`), may take both for one row, and the rows after them move up. Where that matters, write
files without line breaks and stray quotes in cells, or JSON lines.
"""

import csv
import re
from itertools import repeat
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from littlestone.data.blocks import BadStream, ColumnSchema, Faults
from littlestone.data.text import Split

MOST_LINES = 100
"""The most lines of one record."""

_OPEN_QUOTE = "unexpected end of data"
"""What `csv` says of a quote that is not closed when the lines end; other faults come before."""
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1f\ud800-\udfff]")


class Delimited:
    """Text with a delimiter between cells and a header in its first line."""

    def __init__(self, name: str, wanted: ColumnSchema, delimiter: str = ",") -> None:
        self.name, self.wanted, self.delimiter = name, wanted, delimiter
        self.width = 0
        cell = f'(?:"(?:[^"]|"")*"|[^"{delimiter}]*)'
        self.sound = re.compile(f"{cell}(?:{delimiter}{cell})*")
        self.places: dict[str, int] = {}

    def begin(self, lines: list[str]) -> int:
        """Read the header; say how many lines it takes."""
        where = f"{self.name}: line 1"
        if _NOT_TEXT.search(lines[0]):
            raise BadStream(
                f"{where}: not text in UTF-8, and a CSV file begins with the names of its columns. "
                "If it is of another format, name it: csv, tsv, jsonl or parquet"
            )
        try:
            header = self._cells(lines[:1])[0]
        except csv.Error as error:
            raise BadStream(f"{where}: the header is not a row of CSV: {error}") from None
        self.wanted.check_names(where, header)
        self.width = len(header)
        self.places = {name: header.index(name) for name in self.wanted.names}
        return 1

    def is_plain(self, chunk: bytes) -> bool:
        """Whether every line is a record, as far as can be told at a glance."""
        return b'"' not in chunk

    def split(self, lines: list[str], last: bool) -> Split:
        """The cells of each wanted column; rows without the right cells are blank, and at fault."""
        text = ("\n".join(lines) + "\n").replace("\r\n", "\n")
        if not self._is_simple(text, lines):
            return self._split_by_rules(lines, last)
        flat = text.replace("\n", self.delimiter).split(self.delimiter)
        flat.pop()
        cells = {name: flat[at :: self.width] for name, at in self.places.items()}
        return Split(cells, {}, np.arange(len(lines)), len(lines))

    def _is_simple(self, text: str, lines: list[str]) -> bool:
        """Whether lines have the right number of cells and nothing that CSV has rules for, so that
        cutting at the delimiters gives what the rules would give, sooner."""
        if '"' in text or "\r" in text or len(text) > csv.field_size_limit():
            return False
        return {*map(str.count, lines, repeat(self.delimiter))} == {self.width - 1}

    def _split_by_rules(self, lines: list[str], last: bool) -> Split:
        try:
            rows: list[list[str] | str] = [*self._cells(lines)]
        except csv.Error:
            return self._split_by_lines(lines, last)
        if len(rows) < len(lines):
            return self._split_by_lines(lines, last)
        return self._picked(rows, np.arange(len(lines)), len(lines))

    def _split_by_lines(self, lines: list[str], last: bool) -> Split:
        rows: list[list[str] | str] = []
        offsets: list[int] = []
        at = 0
        while at < len(lines):
            row, used = self._record(lines[at : at + MOST_LINES], last)
            if not used:
                break
            rows.append(row)
            offsets.append(at)
            at += used
        return self._picked(rows, np.array(offsets, dtype=np.intp), at)

    def _record(self, lines: list[str], last: bool) -> tuple[list[str] | str, int]:
        """The record that begins at the first of some lines, or a sentence that says why there is
        none; and how many of the lines it takes: 0 if that depends on lines to come."""
        try:
            return self._cells(lines[:1])[0], 1
        except csv.Error as error:
            sentence = f"not a row of CSV: {error}"
        reader = csv.reader([f"{line}\n" for line in lines], delimiter=self.delimiter, strict=True)
        try:
            cells = next(reader)
        except csv.Error as error:
            is_open = str(error) == _OPEN_QUOTE and len(lines) < MOST_LINES
            return sentence, 0 if is_open and not last else 1
        if len(cells) != self.width or any(map(self._is_sound, lines[1 : reader.line_num])):
            return sentence, 1
        return cells, reader.line_num

    def _is_sound(self, line: str) -> bool:
        """Whether a line is a row by itself, beyond doubt."""
        try:
            found = self._cells([line])[0]
        except csv.Error:
            return False
        return len(found) == self.width and self.sound.fullmatch(line) is not None

    def _cells(self, lines: list[str]) -> list[list[str]]:
        return list(csv.reader(lines, delimiter=self.delimiter, strict=True))

    def _picked(
        self, rows: list[list[str] | str], offsets: npt.NDArray[np.intp], used: int
    ) -> Split:
        faults: Faults = {}
        if {*map(type, rows)} != {list} or {*map(len, rows)} != {self.width}:
            rows = [self._of_width(row, at, faults) for at, row in enumerate(rows)]
        cells = {name: list(map(itemgetter(at), rows)) for name, at in self.places.items()}
        return Split(cells, faults, offsets, used)

    def _of_width(self, row: list[str] | str, at: int, faults: Faults) -> list[str]:
        if len(row) == self.width and not isinstance(row, str):
            return row
        if isinstance(row, str):
            faults[at] = row
        elif not row:
            faults[at] = "the line is blank"
        else:
            faults[at] = f"{len(row)} cells where line 1 has {self.width}"
        return [""] * self.width
