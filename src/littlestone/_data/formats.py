"""The text formats: CSV, TSV and JSON lines. Which lines make a record, and which cells it has.

Every line after a header is a record, blank lines too (they are null rounds): a row that is
replaced by a blank line must not move the rows after it (docs/guarantee.md, Lemma 0).

CSV. The first line names the columns, which are public. Unless the delimiter is given, it is the mark
that separates these names, and no other line is looked at for it. A quoted cell may hold line
breaks, and an unclosed quote would swallow the rows after it. So a quote that is still open at the
end of its line goes on only if it is closed within `MAX_RECORD_LINES` lines, the whole then has the
right number of cells, and none of the further lines is by itself a sound row: the right number of
cells, quotes around whole cells only. Otherwise its line alone is a null round. Hence a sound row on
one line is never swallowed, whatever stands before it.

What this cannot do: a quoted cell that holds a line which looks like a sound row is taken apart;
and an unclosed quote just before a row that spans lines, or before a line with a stray quote in it
(`5" pipe`), may take both for one row, and the rows after them move up. Where that matters, write
files without line breaks and stray quotes in cells, or JSON lines.

JSON lines. A record is an object. A line that is blank, or not JSON, or not an object, or nested
deeper than 100 levels, or lacks a column, is a null round. A line never reaches into the next, so
no row can move another.
"""

import csv
import json
import re
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._data.rounds import BadStream
from littlestone._data.schema import Faults, Schema
from littlestone._data.text import CHECKED_ROWS, Split
from littlestone._hypotheses.cells import quoted

# The most lines of one record of CSV.
MAX_RECORD_LINES = 100

# The message of `csv` for a quote that is open when the lines end; other faults come before.
_OPEN_QUOTE = "unexpected end of data"
# What a zip archive begins with.
ZIP_ARCHIVE = "PK\x03\x04"
# What may separate cells, if nobody says it; the first where a header has none of them.
DELIMITERS = ",;\t|"
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1f\ud800-\udfff]")
# How JSON begins. A name in brackets, as some databases write them, is not among these.
_JSON = re.compile(r'\s*(\{\s*("|$)|\[\s*(\{|$))')
# The faults of lines of JSON.
NOT_JSON, NO_OBJECT = "not a line of JSON", "is not an object of JSON"
JSON_ARRAY = "Of an array make lines, an object each: `jq -c '.[]' FILE > rows.jsonl`"
_MISSING = object()


def delimiter_of(header: str) -> str:
    """Return what separates the names of a header: the mark that it has most often outside quotes."""
    return max(DELIMITERS, key=re.sub('"[^"]*"', "", header).count)


def checked_delimiter(given: str) -> str:
    """Return a delimiter that a person gave, a tab also in words."""
    mark = "\t" if given in ("\\t", "tab") else given
    if len(mark) != 1 or mark in '"\r\n' or (mark != "\t" and not mark.isprintable()):
        raise BadStream(
            f"--delimiter {given!r}: it is one character, such as ';', or tab; no quote and no "
            "line break"
        )
    return mark


def delimited_names(name: str, line: str, delimiter: str | None = None) -> list[str]:
    """Return the names in the first line of a file."""
    where = f"{name}: line 1"
    if line.startswith(ZIP_ARCHIVE):
        raise BadStream(
            f"{name}: a zip archive: unpack it first, or pass one file of it on: "
            "`unzip -p ARCHIVE FILE | littlestone learn - ...`. Of packed files gzip is read. Save "
            "a spreadsheet as CSV"
        )
    # A wrong format would otherwise be reported as a missing column, with bytes for names.
    if _NOT_TEXT.search(line):
        raise BadStream(
            f"{where}: not text in UTF-8, and a CSV file begins with the names of its columns. "
            "If it is of another format, name it: --format csv, tsv, jsonl, parquet "
            "or arrow. If it is text in another encoding, name that: --encoding latin-1, say; of "
            "UTF-16 make UTF-8 first: `iconv -f utf-16 -t utf-8 FILE > NEW`"
        )
    if _JSON.match(line):
        raise BadStream(
            f"{where}: it looks like JSON, not like the names of columns. If each line is an "
            f"object, pass --format jsonl. {JSON_ARRAY}"
        )
    mark = delimiter or delimiter_of(line)
    try:
        return next(csv.reader([line], delimiter=mark, strict=True))
    except csv.Error as error:
        raise BadStream(
            f"{where}: the header is not a row of CSV: {error}. It was read with {mark!r} between "
            "names; if that is another character, say --delimiter"
        ) from None


def object_names(name: str, line: str) -> list[str]:
    """Return the keys in the first line of a file."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        # The line itself is not quoted: it holds values.
        raise BadStream(
            f'{name}: the first line is not an object of JSON, such as {{"version": "4.2.1"}}. '
            "If it is of another format, name it: --format csv, tsv, parquet or arrow. "
            f"{JSON_ARRAY}"
        )
    return list(record)


class Delimited:
    """Read text with a delimiter between cells and a header in its first line."""

    def __init__(self, name: str, schema: Schema, delimiter: str | None = None) -> None:
        self.name, self.schema, self._given = name, schema, delimiter
        # What the header says.
        self.delimiter, self.width, self._columns = "", 0, dict[str, int]()
        self._sound_row = re.compile("")

    def begin(self, lines: list[str]) -> int:
        """Implement `TextFormat.begin`: read the header, which takes one line."""
        self.delimiter = self._given or delimiter_of(lines[0])
        header = delimited_names(self.name, lines[0], self.delimiter)
        self.schema.check_names(f"{self.name}: line 1", header)
        self.width = len(header)
        mark = re.escape(self.delimiter)
        cell = f'(?:"(?:[^"]|"")*"|[^"{mark}]*)'
        self._sound_row = re.compile(f"{cell}(?:{mark}{cell})*")
        self._columns = {name: header.index(name) for name in self.schema.names}
        return 1

    def is_plain(self, chunk: bytes) -> bool:
        """Implement `TextFormat.is_plain`: without quotes every line is a record."""
        return b'"' not in chunk

    def split(self, lines: list[str], last: bool) -> Split:
        """Implement `TextFormat.split`: rows without the right cells are blank, and faults."""
        text = ("\n".join(lines) + "\n").replace("\r\n", "\n")
        if not self._is_simple(text, lines):
            return self._split_by_rules(lines, last)
        flat = text.replace("\n", self.delimiter).split(self.delimiter)
        # The text ends with a line feed, so there is an empty cell after the last.
        flat.pop()
        cells = {name: flat[first :: self.width] for name, first in self._columns.items()}
        return Split(cells, {}, np.arange(len(lines)), len(lines))

    def _is_simple(self, text: str, lines: list[str]) -> bool:
        """Return whether splitting at the delimiters gives what the rules of CSV give, faster."""
        # Whatever the `csv` module treats in a special way goes to the slow path, which is the law.
        if '"' in text or "\r" in text or len(text) > csv.field_size_limit():
            return False
        return {*map(str.count, lines, repeat(self.delimiter))} == {self.width - 1}

    def _split_by_rules(self, lines: list[str], last: bool) -> Split:
        try:
            rows: list[list[str] | str] = [*self._read(lines)]
        except csv.Error:
            return self._split_by_lines(lines, last)
        # A record took several lines: its lines have to be counted, so that others keep their
        # numbers.
        if len(rows) < len(lines):
            return self._split_by_lines(lines, last)
        return self._select(rows, np.arange(len(lines)), len(lines))

    def _split_by_lines(self, lines: list[str], last: bool) -> Split:
        rows: list[list[str] | str] = []
        offsets: list[int] = []
        line = 0
        while line < len(lines):
            # Lemma 0: bounded, so that one open quote spoils at most so many lines, not the whole
            # file.
            row, used = self._record(lines[line : line + MAX_RECORD_LINES], last)
            if not used:
                break
            rows.append(row)
            offsets.append(line)
            line += used
        return self._select(rows, np.array(offsets, dtype=np.intp), line)

    def _record(self, lines: list[str], last: bool) -> tuple[list[str] | str, int]:
        """Return the record that begins at the first of some lines, and how many it takes."""
        try:
            return self._read(lines[:1])[0], 1
        except csv.Error as error:
            sentence = f"not a row of CSV: {error}"
        reader = csv.reader([f"{line}\n" for line in lines], delimiter=self.delimiter, strict=True)
        try:
            cells = next(reader)
        except csv.Error as error:
            # The quote may be closed by lines that are not read yet; `last` says that there are
            # none.
            is_open = str(error) == _OPEN_QUOTE and len(lines) < MAX_RECORD_LINES
            return sentence, 0 if is_open and not last else 1
        # Lemma 0: a sound row inside the quote would be swallowed, so the quote is the fault.
        if len(cells) != self.width or any(map(self._is_sound, lines[1 : reader.line_num])):
            return sentence, 1
        return cells, reader.line_num

    def _is_sound(self, line: str) -> bool:
        """Return whether a line is certainly a row by itself."""
        try:
            cells = self._read([line])[0]
        except csv.Error:
            return False
        return len(cells) == self.width and self._sound_row.fullmatch(line) is not None

    def _read(self, lines: list[str]) -> list[list[str]]:
        return list(csv.reader(lines, delimiter=self.delimiter, strict=True))

    def _select(
        self, rows: list[list[str] | str], offsets: npt.NDArray[np.intp], used: int
    ) -> Split:
        """Return the cells of the columns to read."""
        faults: Faults = {}
        if {*map(type, rows)} != {list} or {*map(len, rows)} != {self.width}:
            rows = [self._of_width(row, place, faults) for place, row in enumerate(rows)]
        cells = {name: list(map(itemgetter(place), rows)) for name, place in self._columns.items()}
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
        # A row of the right width in its place: a null round must keep its number (Theorem 9).
        return [""] * self.width


class JsonLines:
    """Read objects, one a line, whose keys are the columns."""

    def __init__(self, name: str, schema: Schema) -> None:
        self.name, self.schema = name, schema

    def begin(self, lines: list[str]) -> int:
        """Implement `TextFormat.begin`: refuse a file whose first objects all lack a column."""
        rows = parse_objects(lines[:CHECKED_ROWS], {})
        keys = dict.fromkeys(key for row in rows for key in row)
        if keys:
            self.schema.check_names(self.name, keys)
        return 0

    def is_plain(self, chunk: bytes) -> bool:
        """Implement `TextFormat.is_plain`: every line is a record."""
        return True

    def split(self, lines: list[str], last: bool) -> Split:
        """Implement `TextFormat.split`: a missing key is None, and a fault."""
        faults: Faults = {}
        rows = parse_objects(lines, faults)
        return Split(
            object_columns(self.schema, rows, faults), faults, np.arange(len(lines)), len(lines)
        )


def parse_objects(
    lines: list[str], faults: Faults, decode: Callable[[str], Any] = json.loads
) -> list[dict[str, Any]]:
    """Return the object of each line; an empty one, with a fault, where there is none."""
    deep = {row for row, line in enumerate(lines) if len(line) > MOST_NESTED and _is_deep(line)}
    if deep:
        faults |= dict.fromkeys(deep, f"nested deeper than {MOST_NESTED} levels")
        lines = ["{}" if row in deep else line for row, line in enumerate(lines)]
    try:
        # All at once is faster; only where a line fails are they decoded one by one to find it.
        values = list(map(decode, lines))
    except (ValueError, RecursionError):
        values = [_decode(line, row, faults, decode) for row, line in enumerate(lines)]
    return only_objects(values, faults)


# Python's decoder gives up at a depth that follows from how it was called, and so from whether
# another line of the block failed. This is far below, and the same for every line.
MOST_NESTED = 100
_TEXT, _BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL), re.compile(r"[\[\]{}]")


def _is_deep(line: str) -> bool:
    if line.count("[") + line.count("{") <= MOST_NESTED:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_TEXT.sub("", line)):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_NESTED:
            return True
    return False


def _decode(line: str, at: int, faults: Faults, decode: Callable[[str], Any]) -> Any:
    try:
        return decode(line)
    except (ValueError, RecursionError) as error:
        faults[at] = f"{NOT_JSON}: {error}" if line.strip() else "the line is blank"
    return {}


def only_objects(values: Sequence[Any], faults: Faults) -> list[dict[str, Any]]:
    """Return values of JSON that are objects; an empty one, with a fault, for any other."""
    if {*map(type, values)} <= {dict}:
        return list(values)
    for row, value in enumerate(values):
        if not isinstance(value, dict):
            faults[row] = f"{quoted(value)} {NO_OBJECT}"
    return [value if isinstance(value, dict) else {} for value in values]


def object_columns(
    schema: Schema, rows: Sequence[dict[str, Any]], faults: Faults
) -> dict[str, list[Any]]:
    """Return the values of every column of a schema; a row without a time has no fault."""
    missing: Faults = {}
    return {
        name: column(rows, name, missing if name == schema.time else faults)
        for name in schema.names
    }


def column(rows: Sequence[dict[str, Any]], name: str, faults: Faults) -> list[Any]:
    """Return the values of a column; None, with a fault, where a row lacks it."""
    try:
        # A missing key is rare, so the common case asks for none.
        return [row[name] for row in rows]
    except KeyError:
        cells = [row.get(name, _MISSING) for row in rows]
    for at, cell in enumerate(cells):
        if cell is _MISSING:
            faults.setdefault(at, f"no column {name!r}")
            cells[at] = None
    return cells
