"""Reading a stream of labelled rows from a file: CSV, TSV, JSON lines or Parquet, plain or gzip.

What is wrong with the *shape* of a file (no such column, not the format it says) stops it before
anything is learned. What is wrong with a *row* makes it a null round, which keeps its place: see
`blocks`, and `delimited` for what makes a row of CSV. One check of the shape looks at rows: when
more than half of the first thousand cannot be read, the file is refused. Near that edge a single
row decides, and that decision is outside the guarantee.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from littlestone.edge.blocks import BadRow, BadStream, Block, SomeRows, Wanted, wanted
from littlestone.edge.delimited import Delimited
from littlestone.edge.jsonlines import JsonLines
from littlestone.edge.opening import STDIN, TextRows, is_regular
from littlestone.edge.parquet import ParquetRows
from littlestone.edge.text import LOOKED_AT
from littlestone.theory.classes import HypothesisClass

_SHOWN = 3
_FORMATS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet"}


Some = TypeVar("Some", bound=SomeRows)
SomeOut = TypeVar("SomeOut", bound=SomeRows, covariant=True)


class _Source(Protocol[SomeOut]):
    """An open file; `unit` is what its rows are counted in."""

    unit: str

    def length(self) -> int | None: ...

    def blocks(self, size: int) -> Iterator[SomeOut]: ...

    def close(self) -> None: ...


class Rows(Generic[Some]):
    """The rows of a file in blocks, once. `length` is how many, or None where only reading tells.

    A context manager: leaving it closes the file, as reading to the end does.
    """

    def __init__(self, name: str, source: _Source[Some], strict: bool, block_rows: int) -> None:
        self.name = name
        self._source, self._strict = source, strict
        self._rest: Iterator[Some] | None = None
        try:
            blocks = self._checked(source.blocks(block_rows))
            self._rest = chain(self._looked_at(blocks), blocks)
            self.length = source.length()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Some]:
        if self._rest is None:
            raise BadStream(f"{self.name}: these rows have been read: open the file again")
        blocks, self._rest = self._rest, None
        return blocks

    def _checked(self, blocks: Iterator[Some]) -> Iterator[Some]:
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

    def _looked_at(self, blocks: Iterator[Some]) -> list[Some]:
        """The first blocks, refused when most of their rows cannot be read."""
        first: list[Some] = []
        rows = nulls = 0
        while rows < LOOKED_AT and (block := next(blocks, None)) is not None:
            nulls += block.nulls_before(LOOKED_AT - rows)
            rows += len(block)
            first.append(block)
        if not rows:
            raise BadStream(f"{self.name}: there are no rows in the file")
        seen = min(rows, LOOKED_AT)
        if 2 * nulls > seen:
            bad = [self._said(row) for block in first for row in block.bad][:_SHOWN]
            raise BadStream(
                f"{self.name}: {nulls} of the first {seen} rows cannot be read. {'; '.join(bad)}"
            )
        return first

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
) -> Rows[Block]:
    """The labelled rows of a file, as a class reads them.

    `path` is a file, a folder of Parquet files, or "-" for standard input. The format is told by
    the name (.csv, .tsv, .jsonl, .ndjson, .parquet, the text ones with .gz too), or by `format`;
    CSV otherwise. With `strict`, a row that cannot be read stops the stream instead of becoming a
    null round.

    >>> import tempfile
    >>> from littlestone.theory.sets import Points
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
    source = _source(str(path), name, wanted(cls, label, user), format)
    return Rows(name, source, strict, block_rows)


def _source(path: str, name: str, wanted: Wanted, format: str | None) -> _Source[Block]:  # noqa: A002
    match _format(path, name, format):
        case "parquet":
            if not is_regular(path) and not Path(path).is_dir():
                raise BadStream(f"{name}: Parquet is read from a file, not from a pipe")
            return ParquetRows(path, name, wanted)
        case "jsonl":
            return TextRows(path, name, JsonLines(name, wanted))
        case "tsv":
            return TextRows(path, name, Delimited(name, wanted, "\t"))
    return TextRows(path, name, Delimited(name, wanted))


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
