"""Reading a stream of labelled rows from a file: CSV, TSV, JSON lines or Parquet, plain or gzip.

What is wrong with the *shape* of a file (no such column, not the format it says) stops it before
anything is learned. What is wrong with a *row* makes it a null round, which keeps its place: see
`blocks`, and `delimited` for what makes a row of CSV. One check of the shape looks at rows: when
more than half of the first thousand cannot be read, the file is refused. Near that edge a single
row decides, and that decision is outside the guarantee.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from littlestone.classes.base import HypothesisClass
from littlestone.data.blocks import (
    BadRow,
    BadStream,
    Block,
    ColumnSchema,
    RowSpan,
    Start,
    column_schema,
)
from littlestone.data.csv import Delimited
from littlestone.data.jsonl import JsonLines
from littlestone.data.parquet import ParquetRows
from littlestone.data.text import LOOKED_AT, STDIN, Passing, TextRows, ignore, is_regular

UNFINISHED = (
    "what stands at its end may still be written (a line without a line feed, or a quote that is "
    "not closed). It is left for the next run; if the file is complete, say --complete"
)
BEGINNING = 1 << 16
"""How many rows a source that is read elsewhere begins with."""
_SHOWN = 3
_FORMATS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet"}


SpanT = TypeVar("SpanT", bound=RowSpan)
SpanOutT = TypeVar("SpanOutT", bound=RowSpan, covariant=True)


class _Source(Protocol[SpanOutT]):
    """An open file; `unit` is what its rows are counted in."""

    unit: str
    unfinished: int

    def length(self) -> int | None: ...

    def identity(self, rows: int) -> str | None: ...

    def blocks(
        self, size: int, start: Start | None = None, passing: Passing = ...
    ) -> Iterator[SpanOutT]: ...

    def close(self) -> None: ...


class RowReader(Generic[SpanT]):
    """The rows of a file in blocks, once.

    A context manager: leaving it closes the file, as reading to the end does. `beginning` are the
    rows of the first block (if given, the first `BEGINNING` rows, read in another way), `is_whole`
    whether they are all.
    """

    def __init__(
        self,
        name: str,
        source: _Source[SpanT],
        strict: bool,
        block_rows: int,
        beginning: Block | None = None,
    ) -> None:
        self.name = name
        self._source, self._strict, self._size = source, strict, block_rows
        self._rest: Iterator[SpanT] | None = None
        try:
            self._blocks = self._checked(source.blocks(block_rows))
            looked: list[SpanT] = [] if beginning is not None else self._first(self._blocks)
            first = looked if beginning is None else [beginning]
            self._refuse_unreadable(first)
            self.beginning: RowSpan = first[0]
            size = block_rows if beginning is None else BEGINNING
            self.is_whole = len(self.beginning) < size
            self._rest = chain(looked, self._blocks)
        except BaseException:
            self.close()
            raise

    @cached_property
    def length(self) -> int | None:
        """How many rows there are, which may take a pass of its own; None for a pipe."""
        return self._source.length()

    @property
    def unfinished(self) -> int:
        """How many lines at the end of a growing file are no rows yet, once it was read."""
        return self._source.unfinished

    def identity(self, rows: int) -> str | None:
        """Return what changes when the file with the first rows is written anew; None for a pipe,
        which cannot be read from a place on."""
        return self._source.identity(rows)

    def __iter__(self) -> Iterator[SpanT]:
        return self._once()

    def after(self, start: Start, passing: Passing = ignore) -> Iterator[SpanT]:
        """Return the rows from a place on instead of from the first.

        Parameters
        ----------
        start : Start
            Where a row begins, as a block of the same file told.
        passing : callable
            Told how far it is, where that takes reading what comes before.
        """
        self._once()
        self._blocks.close()
        return self._checked(self._source.blocks(self._size, start, passing))

    def _once(self) -> Iterator[SpanT]:
        if self._rest is None:
            raise BadStream(f"{self.name}: these rows have been read: open the file again")
        blocks, self._rest = self._rest, None
        return blocks

    def _checked(self, blocks: Iterator[SpanT]) -> Generator[SpanT]:
        try:
            for block in blocks:
                if self._strict and block.nulls:
                    raise BadStream(
                        f"{self.name}: {self._said(block.bad[0])} (a strict run's stop tells about "
                        "that row: it is outside the privacy guarantee)"
                    )
                yield block
        finally:
            self.close()

    def _first(self, blocks: Iterator[SpanT]) -> list[SpanT]:
        """The first blocks, of a thousand rows or all."""
        first: list[SpanT] = []
        rows = 0
        while rows < LOOKED_AT and (block := next(blocks, None)) is not None:
            rows += len(block)
            first.append(block)
        return first

    def _refuse_unreadable(self, first: Sequence[RowSpan]) -> None:
        """Refuse a file when most of its first rows cannot be read."""
        rows = nulls = 0
        for block in first:
            nulls += block.nulls_before(LOOKED_AT - rows)
            rows += len(block)
        if not rows:
            yet = f" yet: {UNFINISHED}" if self.unfinished else ""
            raise BadStream(f"{self.name}: there are no rows in the file{yet}")
        seen = min(rows, LOOKED_AT)
        if 2 * nulls > seen:
            bad = [self._said(row) for block in first for row in block.bad][:_SHOWN]
            raise BadStream(
                f"{self.name}: {nulls} of the first {seen} rows cannot be read. {'; '.join(bad)}"
            )

    def _said(self, bad: BadRow) -> str:
        return f"{self._source.unit} {bad.line}: {bad.sentence}"

    def close(self) -> None:
        """Let go of the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_rows(
    path: str | Path,
    cls: HypothesisClass,
    *,
    label: str,
    user: str | None = None,
    strict: bool = False,
    block_rows: int = 65536,
    format: str | None = None,  # noqa: A002
    growing: bool = False,
) -> RowReader[Block]:
    """The labelled rows of a file, as a class reads them.

    `path` is a file, a folder of Parquet files, or "-" for standard input. The format is told by
    the name (.csv, .tsv, .jsonl, .ndjson, .parquet, the text ones with .gz too), or by `format`;
    CSV otherwise. With `strict`, a row that cannot be read stops the stream instead of becoming a
    null round. If a text file is `growing`, a last line without a line feed is no row yet.

    >>> import tempfile
    >>> from littlestone.classes.sets import Points
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("merchant,fraud\\nM,1\\nN,0\\nN,perhaps\\n")
    ...     file.flush()
    ...     with open_rows(file.name, Points("merchant"), label="fraud") as rows:
    ...         rows.length, [(block.columns, block.labels) for block in rows]
    (3, [({'merchant': array(['M', 'N', 'N'], dtype=object)}, array([ 1,  0, -1], dtype=int8))])
    """
    if block_rows < 1:
        raise ValueError(f"a block has at least one row: block_rows is {block_rows}")
    name = "standard input" if str(path) == STDIN else str(path)
    source = _source(str(path), name, column_schema(cls, label, user), format, growing)
    return RowReader(name, source, strict, block_rows)


def _source(
    path: str,
    name: str,
    wanted: ColumnSchema,
    format: str | None,  # noqa: A002
    growing: bool,
) -> _Source[Block]:
    match _format(path, name, format):
        case "parquet":
            if not is_regular(path) and not Path(path).is_dir():
                raise BadStream(f"{name}: Parquet is read from a file, not from a pipe")
            return ParquetRows(path, name, wanted)
        case "jsonl":
            return TextRows(path, name, JsonLines(name, wanted), growing)
        case "tsv":
            return TextRows(path, name, Delimited(name, wanted, "\t"), growing)
    return TextRows(path, name, Delimited(name, wanted), growing)


def is_parquet(path: str, format: str | None) -> bool:  # noqa: A002
    """Whether a file is Parquet, by its name or by what was said."""
    return _format(path, path, format) == "parquet"


def _format(path: str, name: str, given: str | None) -> str:
    if given is None:
        if Path(path).is_dir():
            return "parquet"
        ending = path.lower().removesuffix(".gz").rpartition(".")[2]
        return _FORMATS.get(ending, "csv")
    if given.lower() not in _FORMATS:
        raise BadStream(f"{name}: unknown format {given!r}: it is one of {', '.join(_FORMATS)}")
    return _FORMATS[given.lower()]
