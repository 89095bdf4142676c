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

Lines that repeat a few cells are cut all at once, and each distinct piece is read once (`_cut`). What
is not certain to give the same is read line by line.
"""

import csv
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, reduce
from itertools import compress
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._data.rounds import BadStream
from littlestone._data.schema import Faults, Schema
from littlestone._data.text import (
    CHECKED_ROWS,
    SURROGATES,
    UTF_8,
    Places,
    Split,
    as_bytes,
    as_lines,
    count_lines,
    line_ends,
    lines_among,
)
from littlestone._hypotheses.cells import quoted
from littlestone._hypotheses.columns import (
    Column,
    join_columns,
    number_pieces,
    objects,
    used_codes,
)
from littlestone._hypotheses.values import Mask

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
# A cell of CSV in quotes.
_QUOTED = re.compile('"(?:[^"]|"")*"')


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

    def split(self, data: bytes, last: bool) -> Split:
        """Implement `TextFormat.split`: rows without the right cells are blank, and faults."""
        sound, cells = self._cut(data)
        return _with_others(cells, sound, lambda: self._split_others(data, ~sound, last))

    def _cut(self, data: bytes) -> tuple[Mask, dict[str, Column]]:
        """Return which lines are sound rows for certain, and their cells.

        A sound row is never swallowed, so it does not matter what stands on other lines.
        """
        mark = self.delimiter.encode()
        if len(mark) > 1:
            return np.zeros(count_lines(data), dtype=bool), {}
        marks, ends = _places(data, mark, b"\n"), line_ends(data)
        sound = _counts(marks, ends) == self.width
        if not sound.all():
            data = lines_among(data, sound)
            marks = _places(data, mark, b"\n")
        # Cells that are not read matter only where a quote or a carriage return may be in them, or
        # where they may be too long.
        returns, limit = data.count(b"\r"), csv.field_size_limit()
        special = (
            b'"' in data
            or (returns and returns > data.count(b"\r\n"))
            # No cell is longer than its line, and there are fewer lines.
            or np.diff(ends, prepend=0).max(initial=0) > limit
        )
        names = {place: name for name, place in self._columns.items()}
        places = list(range(self.width)) if special else sorted(names)
        chosen = None
        if len(places) < self.width:
            chosen = np.add.outer(np.arange(0, len(marks), self.width), places).ravel()
        marks += 1
        pieces, codes = number_pieces(data, marks, chosen)
        read = partial(self._cell, limit=limit)
        readers = [(names.get(place), read) for place in places]
        return _read_pieces(sound, pieces, codes, readers)

    def _cell(self, piece: bytes, limit: int) -> object:
        """Return the cell before a mark; `_MISSING` if the rules may say otherwise."""
        text = piece[:-1].decode(UTF_8, SURROGATES)
        if piece.endswith(b"\n"):
            text = text.removesuffix("\r")
        if "\r" in text or len(piece) > limit or (not text and self.width == 1):
            return _MISSING
        if '"' not in text:
            return text
        return text[1:-1].replace('""', '"') if _QUOTED.fullmatch(text) else _MISSING

    def _split_others(self, data: bytes, others: Mask, last: bool) -> Split:
        """Return the records of the lines that are no sound rows."""
        numbers, lines = np.flatnonzero(others), as_lines(lines_among(data, others))
        rows: list[list[str] | str] = []
        with suppress(csv.Error):
            rows += self._read(lines)
        if len(rows) == len(lines):
            return self._select(rows, numbers)
        # A record takes several lines: they have to be counted, so that others keep their numbers.
        # None goes on beyond lines without a gap between them, before a sound row.
        gaps = np.append(np.flatnonzero(np.diff(numbers) > 1) + 1, len(lines))
        ends = gaps[gaps.searchsorted(np.arange(len(lines)), side="right")].tolist()
        rows, offsets, line = [], list[int](), 0
        while line < len(lines):
            is_last = last or numbers[ends[line] - 1] < len(others) - 1
            # Lemma 0: bounded, so that one open quote spoils at most so many lines, not the whole
            # file.
            end = min(ends[line], line + MAX_RECORD_LINES)
            row, used = self._record(lines[line:end], is_last)
            if not used:
                break
            rows.append(row)
            offsets.append(line)
            line += used
        return self._select(rows, numbers[offsets], as_bytes(lines[line:]))

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
        row = line.removesuffix("\r")
        return len(cells) == self.width and self._sound_row.fullmatch(row) is not None

    def _read(self, lines: list[str]) -> list[list[str]]:
        return list(csv.reader(lines, delimiter=self.delimiter, strict=True))

    def _select(self, rows: list[list[str] | str], offsets: Places, rest: bytes = b"") -> Split:
        """Return the cells of the columns to read."""
        faults: Faults = {}
        if {*map(type, rows)} != {list} or {*map(len, rows)} != {self.width}:
            rows = [self._of_width(row, place, faults) for place, row in enumerate(rows)]
        cells = {name: list(map(itemgetter(place), rows)) for name, place in self._columns.items()}
        return Split(cells, faults, offsets, rest)

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

    def split(self, data: bytes, last: bool) -> Split:
        """Implement `TextFormat.split`: a missing key is None, and a fault."""
        sound, cells = self._cut(data)
        return _with_others(cells, sound, lambda: self._split_others(data, ~sound))

    def _split_others(self, data: bytes, others: Mask) -> Split:
        """Return the objects of some lines, each parsed by itself."""
        faults: Faults = {}
        rows = parse_objects(as_lines(lines_among(data, others)), faults)
        return Split(object_columns(self.schema, rows, faults), faults, np.flatnonzero(others))

    def _cut(self, data: bytes) -> tuple[Mask, dict[str, Column]]:
        """Return which lines were cut into members of an object, and the values of these.

        An object is the sum of its members: if each member is an object in brackets of its own, and
        commas are between them, then the line is an object with all of them. So where lines are cut
        matters to the time only: at the keys of one of them, where others have as many quotes.
        """
        quotes, ends = _places(data, b'"'), line_ends(data)
        counts = _counts(quotes, ends)
        most = int(np.bincount(counts).argmax()) if len(quotes) else 0
        regular = counts == most
        first = int(np.argmax(regular)) if most else 0
        keys = _keys(data[ends[first - 1] if first else 0 : ends[first]]) if most else {}
        if not keys or not set(self.schema.names) <= set(keys):
            return np.zeros(len(ends), dtype=bool), {}
        if not regular.all():
            data = lines_among(data, regular)
            quotes, ends = _places(data, b'"'), line_ends(data)
        cuts = np.column_stack([quotes.reshape(-1, most)[:, list(keys.values())[1:]], ends])
        pieces, codes = number_pieces(data, cuts.ravel())
        # Parsed piece by piece, many different ones take longer than the lines.
        if len(pieces) > len(ends):
            return np.zeros(len(regular), dtype=bool), {}
        names = list(keys)
        readers = [
            (
                name if name in self.schema.names else None,
                _member_reader(name, b"{" if name == names[0] else b"", name == names[-1]),
            )
            for name in names
        ]
        return _read_pieces(regular, pieces, codes, readers)


def _keys(line: bytes) -> dict[str, int]:
    """Return the keys of the object on a line, and how many quotes precede each, as far as is seen."""
    text, keys, end = line.decode(UTF_8, SURROGATES), dict[str, int](), 0
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return keys
    for key in record if isinstance(record, dict) else ():
        if (match := re.compile(re.escape(f'"{key}"') + r"\s*:").search(text, end)) is None:
            return {}
        keys[key] = text.count('"', 0, match.start())
        end = match.end()
    return keys


def _member_reader(key: str, start: bytes, is_last: bool) -> Callable[[bytes], object]:
    """Return what reads the value of a key, if a piece of a line is that member of its object."""
    # The key as JSON spells it: a key that holds a quote or a backslash is not its own bytes.
    name = re.escape(json.dumps(key, ensure_ascii=False).encode(UTF_8, SURROGATES))
    end = b"}" if is_last else b","
    # Text without escapes, as most values are, means itself.
    parts = [re.escape(start), name, b":", rb'"([^"\\\x00-\x1f]*)"', end]
    is_text = re.compile(b"[ \t\r\n]*".join([b"", *parts, b""])).fullmatch

    def read(piece: bytes) -> object:
        if match := is_text(piece):
            return match[1].decode(UTF_8, SURROGATES)
        text = piece.strip(b" \t\r\n")
        if not (text.startswith(start) and text.endswith(end)):
            return _MISSING
        member = "{" + text[len(start) : -1].decode(UTF_8, SURROGATES) + "}"
        if len(member) > MOST_NESTED and _is_deep(member):
            return _MISSING
        try:
            record = json.loads(member)
        except (ValueError, RecursionError):
            return _MISSING
        return record[key] if list(record) == [key] else _MISSING

    return read


def _places(data: bytes, *marks: bytes) -> Places:
    """Return where some marks are, each of one byte."""
    held = np.frombuffer(data, dtype=np.uint8)
    return np.flatnonzero(reduce(np.logical_or, [held == ord(mark) for mark in marks]))


def _counts(marks: Places, ends: Places) -> Places:
    """Return how many of some marks each line has that ends before one of `ends`."""
    each, more = divmod(len(marks), max(1, len(ends)))
    if each and not more:
        # The usual case, all lines alike, without a search.
        table = marks.reshape(-1, each)
        if (table[:, -1] < ends).all() and (table[1:, 0] >= ends[:-1]).all():
            return np.full(len(ends), each)
    return np.diff(marks.searchsorted(ends), prepend=0)


def _read_pieces(
    regular: Mask,
    pieces: Sequence[bytes],
    codes: npt.NDArray[np.int32],
    readers: Sequence[tuple[str | None, Callable[[bytes], object]]],
) -> tuple[Mask, dict[str, Column]]:
    """Read the pieces of regular lines, one for each reader; return which lines are sound, and cells.

    A reader is a function of one piece. A line is not sound if one of its pieces cannot be read.
    """
    columns, sound = dict[str, Column](), np.ones(len(codes) // len(readers), dtype=bool)
    for place, (name, read) in enumerate(readers):
        occurs, numbers = used_codes(codes[place :: len(readers)], len(pieces))
        cells = [read(piece) for piece in compress(pieces, occurs.tolist())]
        unread = [number for number, cell in enumerate(cells) if cell is _MISSING]
        if unread:
            sound &= ~np.isin(numbers, unread)
        if name is not None:
            columns[name] = Column(objects(cells), numbers).without(unread)
    lines = regular.copy()
    lines[regular] = sound
    return lines, columns if sound.all() else {name: columns[name][sound] for name in columns}


def _with_others(cells: dict[str, Column], sound: Mask, split_others: Callable[[], Split]) -> Split:
    """Return the records of all lines, in order: those of sound ones, and those of the others."""
    if sound.all():
        return Split(cells, {}, np.arange(len(sound)))
    others = split_others()
    if not sound.any():
        return others
    offsets = np.append(np.flatnonzero(sound), others.offsets)
    order = np.argsort(offsets)
    rows = np.argsort(order)[np.count_nonzero(sound) :].tolist()
    joined = {
        name: join_columns([column, others.cells[name]])[order] for name, column in cells.items()
    }
    faults = {rows[row]: why for row, why in others.faults.items()}
    return Split(joined, faults, offsets[order], others.rest)


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
