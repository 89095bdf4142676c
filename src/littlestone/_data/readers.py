"""Streams of labelled rows from files: CSV, TSV and JSON lines (plain or gzip), Parquet, Arrow.

A fault in the *shape* of a file (no such column, another format) stops it before anything is
learned. A fault in a *row* makes it a null round, which keeps its place (`Schema.read`). One check
of the shape depends on rows: the file is refused when more than half of the first thousand cannot be
read, or when more than 5 % of them have a label that is neither 0 nor 1, nor missing, and nobody said
what it means. Near that edge a single row decides, and that decision is outside the guarantee.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._classes.sets import Points
from littlestone._data.cells import WRONG
from littlestone._data.formats import (
    JSON_ARRAY,
    NO_OBJECT,
    NOT_JSON,
    Delimited,
    JsonLines,
    checked_delimiter,
    delimited_names,
    object_names,
)
from littlestone._data.locations import Location, is_uri, locate
from littlestone._data.rounds import (
    LARGEST_BLOCK,
    BadRow,
    BadStream,
    BlockSize,
    Rounds,
    RowSpan,
    Start,
    block_size,
)
from littlestone._data.schema import Schema, file_schema
from littlestone._data.tables import (
    ENDINGS,
    ArrowPipe,
    ColumnType,
    TableFile,
    TableRows,
    describe_tables,
)
from littlestone._data.text import (
    CHECKED_ROWS,
    STDIN,
    UTF_8,
    FollowedRows,
    TextFormat,
    TextRows,
    checked_encoding,
    first_line,
    is_regular,
    refuse_to_follow,
)
from littlestone._hypotheses.cells import Kind, coded
from littlestone._hypotheses.columns import Column

UNFINISHED = (
    "its last lines may still be written (a line without a line feed, or a quote that is not "
    "closed). They are left for the next run; if the file is complete, pass --complete"
)
_QUOTED_FAULTS = 3
OTHER_LABELS = (
    "If the labels have other values, say which of them are positive: --positive VALUE, once or "
    "more often; all others are negative then"
)
OTHER_QUANTITY = (
    ". If they are a quantity, say from where on they are positive: --positive-if '>60', with a "
    "bound that you know beforehand"
)
# Of two labels that often go together the positive one, by the other.
PAIRS = {"no": "yes", "n": "y", "f": "t", "off": "on", "-1": "1", "negative": "positive"}
NAMED_LABEL = "Say which label is positive: --positive {}. All others are negative then"
# More labels than these cannot be read, and the file is refused: a share of the rows, and a number.
_UNREAD_LABELS = 0.05, 5
OTHER_OUTCOMES = (
    ". Or, in learn and serve, say which are normal: --negative VALUE, once or more often; then "
    "each other value is an outcome, and a cause says which outcome it is of"
)
# What to do when the class reads a column as another kind than it is of.
OTHER_KIND: dict[Kind, str] = {
    "number": "The class reads numbers there; causes:COLUMN and points:COLUMN read text",
    "truth": "The class reads truth values there; causes:COLUMN,... reads any values",
}
OTHER_ENCODING = "The text is not in UTF-8: name its encoding, --encoding latin-1, say"
OTHER_JSON = f"Each line must be an object, or name another --format. {JSON_ARRAY}"
# What the names of files end in, and --format may say.
FORMATS = {
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    **{ending.removeprefix("."): form for form, endings in ENDINGS.items() for ending in endings},
}


class LineFormat(NamedTuple):
    """Hold how a text of some format is read, and what its first line says."""

    make: Callable[[str, Schema], TextFormat]
    names: Callable[[str, str], list[str]]
    header: str
    encoding: str = UTF_8


LINE_FORMATS = {
    "csv": LineFormat(Delimited, delimited_names, "the names of its columns, on the first line"),
    "tsv": LineFormat(
        partial(Delimited, delimiter="\t"),
        partial(delimited_names, delimiter="\t"),
        "the names of its columns, on the first line",
    ),
    "jsonl": LineFormat(JsonLines, object_names, "the keys of its first line"),
}

SpanT = TypeVar("SpanT", bound=RowSpan)
SpanOutT = TypeVar("SpanOutT", bound=RowSpan, covariant=True)


class RowSource(Protocol[SpanOutT]):
    """Specify where rows come from; `unit` is what they are counted in, for errors."""

    name: str
    schema: Schema
    unit: str
    # How many lines at the end of a growing file are no rows yet, once it was read.
    unfinished: int

    def length(self) -> int | None:
        """Return the number of rows, which may take a pass of its own; None for a pipe."""

    def identity(self, rows: int) -> str | None:
        """Return what changes when a file with one of the first rows changes; None for a pipe."""

    def blocks(
        self, size: BlockSize, after: Start | None = None
    ) -> Iterator[tuple[SpanOutT, Start]]:
        """Yield the rows in blocks, each with the position after it."""


class RowReader(Generic[SpanT]):
    """Read the rows of a source in blocks, once, after a look at the first of them."""

    def __init__(
        self,
        source: RowSource[SpanT],
        *,
        strict: bool,
        block_rows: int,
        beginning: Rounds | None = None,
        followed: bool = False,
    ) -> None:
        self.name, self.unit = source.name, source.unit
        self._source, self._strict, self._size = source, strict, block_rows
        self._blocks = self._checked(source.blocks(self._size_after()))
        self._rest: Iterator[tuple[SpanT, Start]] | None = None
        try:
            read = [] if beginning is not None else self._first(1 if followed else CHECKED_ROWS)
            first = [block for block, _ in read] if beginning is None else [beginning]
            # Before anything is learned: the decision to refuse looks at rows, and is outside the
            # guarantee.
            if not followed and not any(map(len, first)):
                yet = f" yet: {UNFINISHED}" if self.unfinished else ""
                raise BadStream(f"{self.name}: there are no rows in the file{yet}")
            refuse_mostly_bad(self.name, self.unit, first, source.schema)
        except BaseException:
            self.close()
            raise
        self.beginning: RowSpan = first[0]
        self.is_whole = len(self.beginning) < block_size(0, block_rows)
        self._rest = chain(read, self._blocks)

    @cached_property
    def length(self) -> int | None:
        """Return the number of rows, which may take a pass of its own; None for a pipe."""
        return self._source.length()

    @property
    def unfinished(self) -> int:
        """Return how many lines at the end of a growing file are no rows yet, once it was read."""
        return self._source.unfinished

    def identity(self, rows: int) -> str | None:
        """Return what changes when a file with one of the first rows changes; None for a pipe."""
        return self._source.identity(rows)

    def __iter__(self) -> Iterator[SpanT]:
        return (block for block, _ in self.blocks())

    def blocks(self, after: Start | None = None, until: int = 0) -> Iterator[tuple[SpanT, Start]]:
        """Return the rows in blocks, each with the position after it.

        Those from a position on begin with one block of the rows up to `until`.
        """
        if self._rest is None:
            raise BadStream(f"{self.name}: these rows have been read: open the file again")
        rest, self._rest = self._rest, None
        if after is None:
            return rest
        # The blocks that were read for the check are dropped: rows must not be learned twice.
        self.close()
        self._blocks = self._checked(self._source.blocks(self._size_after(until), after))
        return self._blocks

    def _size_after(self, until: int = 0) -> BlockSize:
        return lambda row: until - row if row < until else block_size(row, self._size)

    def _checked(self, blocks: Iterator[tuple[SpanT, Start]]) -> Generator[tuple[SpanT, Start]]:
        for block, after in blocks:
            if self._strict:
                refuse_bad_row(self.name, self.unit, block)
            yield block, after

    def _first(self, enough: int) -> list[tuple[SpanT, Start]]:
        """Return the first blocks, of so many rows or all; an empty one says that none is there."""
        first, rows = list[tuple[SpanT, Start]](), 0
        while rows < enough and (read := next(self._blocks, None)) is not None:
            rows += len(read[0]) or enough
            first.append(read)
        return first

    def close(self) -> None:
        """Close what is open: a source is open only while its blocks are read."""
        self._blocks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def refuse_mostly_bad(name: str, unit: str, first: Sequence[RowSpan], schema: Schema) -> None:
    """Refuse a source when most of its first rows cannot be read, or many of their labels."""
    rows = nulls = 0
    bad = list[BadRow]()
    for block in first:
        bad_rows = block.part(0, CHECKED_ROWS - rows).null_rounds()
        bad += block.bad[:bad_rows]
        nulls, rows = nulls + bad_rows, rows + len(block)
    checked = min(rows, CHECKED_ROWS)
    labels = [row for row in bad if row.sentence.startswith(f"column {schema.label!r}: ")]
    share, number = _UNREAD_LABELS
    if len(labels) > max(share * checked, number):
        bad = labels
    elif 2 * nulls <= checked:
        return
    bad = bad[:_QUOTED_FAULTS]
    advice = _advice([row.sentence for row in bad], unit, schema)
    # One value is enough to see what is wrong; the others are the data owner's.
    quoted = "; ".join(f"{unit} {row.line}: {row.sentence}" for row in bad[: 1 if advice else None])
    raise BadStream(
        f"{name}: {nulls} of the first {checked} rows cannot be read. {quoted}"
        + (f". {advice}" if advice else "")
    )


def _advice(faults: list[str], unit: str, schema: Schema) -> str:
    """Return what to do about rows that share a fault; nothing if they do not."""
    if unit == "line" and all(
        fault.startswith(NOT_JSON) or fault.endswith(NO_OBJECT) for fault in faults
    ):
        return OTHER_JSON
    # Bytes that are not UTF-8 are quoted as lone surrogates.
    if all(fault.endswith(WRONG["value"]) and "\\udc" in fault for fault in faults):
        return OTHER_ENCODING
    start = f"column {schema.label!r}: "
    if all(fault.startswith(start) for fault in faults) and not schema.named_labels:
        outcomes = OTHER_OUTCOMES if isinstance(schema.cls, Causes) else ""
        cell = faults[0].removeprefix(start).removesuffix(f" {WRONG['truth']}").strip("'")
        return _named_label(cell) or f"{OTHER_LABELS}{outcomes}{OTHER_QUANTITY}"
    for kind, sentence in OTHER_KIND.items():
        if all(fault.endswith(WRONG[kind]) for fault in faults):
            return sentence
    return ""


def _named_label(cell: str) -> str:
    """Return which option to give for a label of a usual pair; nothing for any other."""
    word = cell.lower()
    if word == "2":
        return NAMED_LABEL.format("2, or --positive 1")
    positive = word if word in PAIRS.values() else PAIRS.get(word)
    if positive is None:
        return ""
    spelt = positive.upper() if cell.isupper() else positive
    return NAMED_LABEL.format(spelt.capitalize() if cell.istitle() else spelt)


def refuse_bad_row(name: str, unit: str, block: RowSpan) -> None:
    """Refuse rows of a strict run of which one cannot be read."""
    if block.null_rounds():
        bad = block.bad[0]
        raise BadStream(
            f"{name}: {unit} {bad.line}: {bad.sentence} (the stop of a strict run tells about that "
            "row: it is outside the privacy guarantee)"
        )


def open_rows(
    path: str | Path,
    cls: HypothesisClass,
    *,
    label: str,
    user: str | None = None,
    strict: bool = False,
    block_rows: int = LARGEST_BLOCK,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    encoding: str | None = None,
    growing: bool = False,
    positive: Sequence[str] = (),
    positive_if: Sequence[str] = (),
    time: str | None = None,
    follow: Event | None = None,
) -> RowReader[Rounds]:
    """Open a file of labelled rows.

    Parameters
    ----------
    path
        A file, a folder of Parquet or Arrow files, a URI of one such as "s3://bucket/events", or
        "-" for standard input.
    cls
        The class that reads the rows.
    label, user
        The columns of labels, and of users if they are protected.
    strict
        Whether a row that cannot be read stops the stream instead of becoming a null round.
    block_rows
        The most rows of a block; the first blocks are shorter.
    format
        csv, tsv, jsonl, ndjson, json, parquet or arrow; by default as the name says (the text ones
        with .gz too), parquet for a folder, and CSV otherwise.
    delimiter
        What separates the cells of CSV: one character, or "tab"; by default the one of comma,
        semicolon, tab and | that separates the names on the first line.
    encoding
        Of a text file, such as "latin-1"; UTF-8 by default.
    growing
        Whether a text file may still be written to: then a last line without a line feed is no row
        yet.
    positive
        The values of the label that are positive, as they are written.
    positive_if
        Conditions under which a number is a positive label, such as ">60".
    time
        The column of times, which are public.
    follow
        Wait for further rows of a text file until this is set.

    Raises
    ------
    BadStream
        If the file cannot be read as a stream of such rows.

    Examples
    --------
    >>> import tempfile
    >>> from littlestone._classes.sets import Points
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("merchant,fraud\\nM,1\\nN,0\\nN,perhaps\\n")
    ...     file.flush()
    ...     with open_rows(file.name, Points("merchant"), label="fraud") as rows:
    ...         rows.length, [(list(block.columns["merchant"]), block.labels) for block in rows]
    (3, [(['M', 'N', 'N'], array([ 1,  0, -1], dtype=int32))])
    """
    if block_rows < 1:
        raise ValueError(f"a block has at least one row: block_rows is {block_rows}")
    name = "standard input" if str(path) == STDIN else str(path)
    schema = file_schema(cls, label, user, positive, positive_if, time)
    form = format_of(str(path), name, format)
    lines = line_format(name, form, delimiter, encoding)
    source = _open_source(str(path), name, schema, lines or form, growing, follow)
    return RowReader(source, strict=strict, block_rows=block_rows, followed=follow is not None)


def line_format(
    name: str, form: str, delimiter: str | None = None, encoding: str | None = None
) -> LineFormat | None:
    """Return how the lines of a format are read; None of a format that has no lines."""
    lines = LINE_FORMATS.get(form)
    if encoding is not None:
        if lines is None:
            raise BadStream(f"{name}: --encoding is for text files, and {form} is none")
        lines = lines._replace(encoding=checked_encoding(encoding))
    if delimiter is not None:
        if lines is None or form not in ("csv", "tsv"):
            raise BadStream(f"{name}: --delimiter is for CSV files, and this is {form}")
        mark = checked_delimiter(delimiter)
        lines = lines._replace(
            make=partial(Delimited, delimiter=mark), names=partial(delimited_names, delimiter=mark)
        )
    return lines


def _open_source(
    path: str,
    name: str,
    schema: Schema,
    form: LineFormat | str,
    growing: bool,
    follow: Event | None,
) -> RowSource[Rounds]:
    if follow is not None:
        refuse_to_follow(path, name, is_text=isinstance(form, LineFormat))
    if isinstance(form, LineFormat):
        text = form.make(name, schema)
        if follow is not None:
            return FollowedRows(path, name, text, follow, form.encoding)
        return TextRows(path, name, text, growing=growing, encoding=form.encoding)
    if is_uri(path) or is_regular(path) or Path(path).is_dir():
        return open_table_rows(path, name, schema, form)
    if form == "arrow":
        return ArrowPipe(path, name, schema)
    raise BadStream(f"{name}: Parquet is read from a file, not from a pipe")


def open_table_rows(path: str, name: str, schema: Schema, form: str) -> TableRows:
    """Open a file with a schema, or a folder of such files."""
    files = [TableFile(file, schema, form) for file in table_files(path, name, form)]
    return TableRows(name, files, schema)


def table_files(path: str, name: str, form: str) -> list[Location]:
    """Return the files of a format in a folder, in order; or the one file that is named."""
    files = locate(path).files(ENDINGS[form])
    if not files:
        advice = "; say --format arrow if it holds Arrow files" if form == "parquet" else ""
        raise BadStream(f"{name}: there is no {form.capitalize()} file in the folder{advice}")
    return files


def is_parquet(path: str, format: str | None) -> bool:  # noqa: A002
    """Return whether a file is Parquet, by its name or by the format given."""
    return format_of(path, path, format) == "parquet"


def format_of(path: str, name: str, given: str | None) -> str:
    """Return the format of a file: csv, tsv, jsonl, parquet or arrow."""
    if given is None:
        # What follows a question mark in a URI are options of its file system.
        plain = path.partition("?")[0] if is_uri(path) else path
        ending = plain.lower().removesuffix(".gz").rpartition(".")[2]
        if ending not in FORMATS or Path(path).is_dir():
            return "parquet" if locate(path).is_folder else "csv"
        return FORMATS[ending]
    if given.lower() not in FORMATS:
        raise BadStream(f"{name}: unknown format {given!r}: it is one of {', '.join(FORMATS)}")
    return FORMATS[given.lower()]


class Header(NamedTuple):
    """Hold what a file says about itself before its values."""

    names: tuple[str, ...]
    types: Mapping[str, ColumnType] | None
    rows: int | None
    source: str


# The most rows of a sample that are read.
_SAMPLE_ROWS = 10_000
_SAMPLE_KINDS: dict[str, Kind] = {"number": "number", "truth value": "truth"}


def read_sample(
    path: str,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    encoding: str | None = None,
) -> dict[str, Column]:
    """Read the first rows of a file that may be published: every column that has a name of its own."""
    header, form = read_header(path, format, delimiter, encoding), format_of(path, path, format)
    types: Mapping[str, str] = header.types or {}
    kinds: dict[str, Kind] = {
        name: _SAMPLE_KINDS.get(types.get(name, ""), "value")
        for name in header.names
        if name and header.names.count(name) == 1 and types.get(name) not in ("time", "other")
    }
    if not kinds:
        raise BadStream(f"{path}: no column of the sample can be read")
    # Which of them is called the label does not matter: labels are not looked at.
    schema = Schema(Points(next(iter(kinds))), kinds, next(iter(kinds)), None)
    lines = line_format(path, form, delimiter, encoding)
    source = _open_source(path, path, schema, lines or form, growing=False, follow=None)
    for block, _ in source.blocks(lambda row: _SAMPLE_ROWS):
        return {name: coded(block.columns[name]) for name in kinds}
    raise BadStream(f"{path}: there are no rows in the sample")


def read_header(
    path: str,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Header:
    """Read the names of the columns of a file, and their types if it has a schema; no value."""
    if path == STDIN:
        raise BadStream(
            "standard input: reading its header would use it up; save the stream to a file first"
        )
    form = format_of(path, path, format)
    if (lines := line_format(path, form, delimiter, encoding)) is not None:
        names = lines.names(path, first_line(path, lines.encoding))
        return Header(tuple(names), None, None, lines.header)
    files = table_files(path, path, form)
    types, rows = describe_tables(files, form)
    where = "schema" if form == "arrow" else "footer"
    where = f"the {where}s of its files" if len(files) > 1 else f"its {where}"
    count = "" if rows is None else ", number of rows"
    return Header(tuple(types), types, rows, f"{where}: names, types{count}")
