"""Files with a schema, Parquet and Arrow IPC, one after the other: one stream of rows.

Only the columns that the class needs are read, by their types in the schema. A folder is all files
of the format below it, in the order of their paths, and its partitions are columns
(`_data/locations.py`). The names of files and folders, and how many rows each file has, are public:
a partition's value is the same in neighbouring streams (docs/guarantee.md, Lemma 0).

Arrow files (`.arrow`, `.feather`) and streams (`.arrows`) are told apart by their first bytes. A
Parquet or an Arrow file has an index, and is read from any row group or record batch on. A stream
has none: it is passed over batch by batch. Where groups and batches begin does not matter: rows come
in blocks of equal size. Every batch is validated before it is read.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from importlib import import_module
from io import BufferedReader, FileIO
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from littlestone._data.locations import NEEDS_PYARROW, Location, in_one_line
from littlestone._data.rounds import BadStream, BlockSize, Rounds, Start
from littlestone._data.schema import Schema
from littlestone._data.text import STDIN
from littlestone._hypotheses.cells import Kind, flat_type, is_text

# How the names of files end.
ENDINGS = {"parquet": (".parquet",), "arrow": (".arrow", ".feather", ".arrows", ".ipc")}
_MODULES = {"parquet": "pyarrow.parquet", "arrow": "pyarrow.ipc"}
_NOT_OF_FORMAT = {"parquet": "not a Parquet file", "arrow": "not an Arrow file or stream"}
_DAMAGED = "the file is damaged or not finished, or pyarrow cannot read its encoding"
# The most rows of a batch that is read from Parquet.
BATCH_ROWS = 1 << 16
# What an Arrow file begins with, and what Feather began with before it was Arrow.
_ARROW_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"


class OpenTable(NamedTuple):
    """Hold an open file; `groups` and `rows` are None where they have to be counted."""

    schema: Any
    # The rows of each part that can be read by itself, and of all.
    groups: Sequence[int] | None
    rows: int | None
    # Yields the record batches of some of the parts, validated, of at most so many rows if they can
    # be cut.
    batches: Callable[[slice, int], Iterator[Any]]


@contextmanager
def open_table(location: Location, form: str, names: Sequence[str] | None = None) -> Iterator[Any]:
    """Open a file to read its schema, or some of its columns; yield an `OpenTable`."""
    library = _library(form, location.name)
    wrong = _NOT_OF_FORMAT[form] if names is None else _DAMAGED
    with ExitStack() as stack:
        raw = stack.enter_context(location.open())
        stack.enter_context(_arrow_errors(location.name, wrong))
        if form == "arrow":
            yield _open_arrow(library, raw, location, names, stack)
        else:
            source = location.path if location.filesystem is None else raw
            # Buffered ahead, and in threads, a group takes twice the memory and no less time.
            file = plain = coded = stack.enter_context(
                library.ParquetFile(source, pre_buffer=False)
            )

            def reader(columns: Sequence[str]) -> Any:
                """Open the file again, some columns as dictionaries, if there are any."""
                if not columns:
                    return file
                options = {"metadata": file.metadata, "read_dictionary": columns}
                again = library.ParquetFile(source, pre_buffer=False, **options)
                return stack.enter_context(again)

            if names:
                held = _held_coded(file, names)
                plain, coded = reader(held), reader([*held, *_repeating(file, names)])
            yield open_parquet(plain, coded, names)


# A file of fewer bytes a cell repeats few values.
_REPEATING_BYTES = 3


def _held_coded(file: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that a writer held as dictionaries of text or bytes.

    Asked for as such, their codes have 32 bits. Else pyarrow makes the writer's type of them again:
    one value more than codes of 8 bits hold, or text that is not UTF-8, and the file is not read.
    """
    types = {name: file.schema_arrow.field(name).type for name in names}
    texts = {*_BYTES_OF, *_BYTES_OF.values()}
    return [
        name
        for name, held in types.items()
        if hasattr(held, "index_type") and str(flat_type(held)) in texts
    ]


def _repeating(file: Any, names: Sequence[str]) -> list[str]:
    """Return the columns of text, if a file has few distinct values and codes: read so, too."""
    footer, schema = file.metadata, file.schema_arrow
    # Asked about a column, a damaged footer ends the process; about a group of rows, it does not.
    groups = map(footer.row_group, range(footer.num_row_groups))
    if sum(g.total_byte_size for g in groups) >= (
        _REPEATING_BYTES * footer.num_rows * footer.num_columns
    ):
        return []
    return [name for name in names if is_text(schema.field(name).type)]


def open_parquet(file: Any, coded: Any, names: Sequence[str] | None) -> OpenTable:
    """Read a file, by the reader that keeps dictionaries as long as that works."""
    from pyarrow import ArrowException

    footer = file.metadata
    groups = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]

    def batches(parts: slice, size: int) -> Iterator[Any]:
        chosen = {"row_groups": list(range(len(groups))[parts]), "columns": names}
        done = 0
        try:
            for batch in map(validated, coded.iter_batches(size, **chosen, use_threads=False)):
                yield batch
                done += batch.num_rows
        except (ArrowException, OSError):
            # Which way a file is read follows from all of its rows, so it must change nothing but the
            # time (Lemma 0): of some encodings pyarrow makes no dictionary. The other reader decides.
            for batch in map(validated, file.iter_batches(size, **chosen, use_threads=False)):
                rest = batch.slice(min(done, batch.num_rows))
                done -= batch.num_rows - rest.num_rows
                yield rest

    return OpenTable(file.schema_arrow, groups, footer.num_rows, batches)


def _open_arrow(
    ipc: Any, raw: Any, location: Location, names: Sequence[str] | None, stack: ExitStack
) -> OpenTable:
    start = bytes(raw.read(len(_ARROW_FILE)))
    if start.startswith(_FEATHER_1):
        raise BadStream(
            f"{location.name}: Feather of version 1, which is not Arrow: read it with "
            "pyarrow.feather.read_table, and write it again with write_feather"
        )
    raw.seek(0)
    if location.filesystem is None:
        # Mapped into memory, columns that are not wanted are not read from disk.
        from pyarrow import memory_map

        raw = stack.enter_context(memory_map(location.path))
    make = ipc.open_file if start == _ARROW_FILE else ipc.open_stream
    reader = make(raw)
    if names:
        raw.seek(0)
        fields = [reader.schema.get_field_index(name) for name in names]
        reader = make(raw, options=ipc.IpcReadOptions(included_fields=fields))
    if start != _ARROW_FILE:
        return _open_stream(reader)
    # pyarrow 17 does not count.
    rows = reader.count_rows() if hasattr(reader, "count_rows") else None

    def batches(parts: slice, size: int) -> Iterator[Any]:
        return map(validated, map(reader.get_batch, range(reader.num_record_batches)[parts]))

    return OpenTable(reader.schema, None, rows, batches)


def _open_stream(reader: Any) -> OpenTable:
    def batches(parts: slice, size: int) -> Iterator[Any]:
        return map(validated, islice(reader, parts.start, parts.stop))

    return OpenTable(reader.schema, None, None, batches)


@contextmanager
def _arrow_errors(name: str, otherwise: str) -> Iterator[None]:
    """Raise what pyarrow raises as `BadStream`."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadStream(f"{name}: {otherwise}: {in_one_line(error)}") from None


def _library(form: str, name: str) -> Any:
    try:
        return import_module(_MODULES[form])
    except ModuleNotFoundError:
        raise BadStream(f"{name}: reading {form.capitalize()} {NEEDS_PYARROW}") from None


class TableFile:
    """Read one file, whose schema is checked at once."""

    def __init__(self, location: Location, schema: Schema, form: str) -> None:
        self.location, self.schema, self._form = location, schema, form
        with open_table(location, form) as file:
            self.types = column_types(file.schema, location, schema)
            self._groups = file.groups
        self._partition = dict(location.partition)
        # The columns that are read from the file itself.
        self._names = [name for name in schema.names if name not in self._partition]

    @cached_property
    def groups(self) -> Sequence[int]:
        """Return the rows of each part that can be read by itself: a row group, or a batch."""
        if self._groups is not None:
            return list(self._groups)
        with self._opened(self._names[:1]) as file:
            return [batch.num_rows for batch in file.batches(slice(None), 0)]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(self.groups)

    def tables(self, skipped: int = 0) -> Iterator[Any]:
        """Yield the rows after the first `skipped`; parts before them are not read at all."""
        first = 0
        while skipped and first < len(self.groups) and skipped >= self.groups[first]:
            skipped -= self.groups[first]
            first += 1
        for table in self.parts(slice(first, None)):
            rest = table.slice(min(skipped, table.num_rows))
            skipped -= table.num_rows - rest.num_rows
            yield rest

    def parts(self, parts: slice, size: int = BATCH_ROWS) -> Iterator[Any]:
        """Yield the rows of some parts."""
        import pyarrow

        with self._opened(self._names) as file:
            for batch in file.batches(parts, size):
                yield self._with_partition(pyarrow.Table.from_batches([batch]))

    def _opened(self, names: Sequence[str]) -> AbstractContextManager[OpenTable]:
        return open_table(self.location, self._form, names)

    def _with_partition(self, table: Any) -> Any:
        """Return rows of the file with the columns that its folders name."""
        import pyarrow

        for name in self.schema.names:
            if name in self._partition:
                value = pyarrow.scalar(self._partition[name], pyarrow.string())
                table = table.append_column(name, pyarrow.repeat(value, table.num_rows))
        return table

    def refuse_other_types(self, other: "TableFile") -> None:
        """Raise `BadStream` if a column has another type in another file."""
        for name, mine, theirs in zip(self.schema.names, self.types, other.types, strict=True):
            if mine != theirs:
                raise BadStream(
                    f"{other.location.name}: column {name!r} has type {theirs}, and {mine} in "
                    f"{self.location.name}: a column of one stream has one type"
                )


def column_types(found: Any, location: Location, schema: Schema) -> list[Any]:
    """Check the schema that was found in a file, and return the types of the columns to read."""
    import pyarrow

    where, partition, types = location.name, dict(location.partition), []
    for name in schema.names:
        if name in partition and name in found.names:
            raise BadStream(
                f"{where}: column {name!r} is in the file and in the name of a folder on its path, "
                "and they may differ: rename the folder, or write the file without the column"
            )
    schema.check_names(where, [*found.names, *partition])
    for name in schema.names:
        kind = schema.kinds.get(name, schema.label_kind if name == schema.label else "value")
        held = pyarrow.string() if name in partition else found.field(name).type
        # A time that cannot be read is no fault, whatever it is.
        if name != schema.time and not _is_usable(flat_type(held), kind):
            raise BadStream(
                f"{where}: column {name!r} has type {held}, which cannot be read as a {kind}: "
                f"expected {_EXPECTED[kind]}"
            )
        types.append(flat_type(held))
    return types


class TableRows:
    """Read files with a schema, one after the other."""

    unit, unfinished = "row", 0

    def __init__(self, name: str, files: Sequence[TableFile], schema: Schema) -> None:
        self.name, self.schema, self.files = name, schema, files
        # One value must have one text in the whole stream, so the types must agree before any row
        # is read.
        first, *others = files
        for other in others:
            first.refuse_other_types(other)

    def length(self) -> int:
        """Return the number of rows."""
        return sum(file.rows for file in self.files)

    def identity(self, rows: int) -> str:
        """Return what changes when a file that holds one of the first rows is written again."""
        digest, row = hashlib.sha256(), 0
        for file in self.files:
            if row >= rows:
                break
            digest.update(f"{file.location.identity()} ".encode())
            row += file.rows
        return digest.hexdigest()[:32]

    def blocks(self, size: BlockSize, after: Start | None = None) -> Iterator[tuple[Rounds, Start]]:
        """Yield the rows."""
        row = after.row if after else 0
        return blocks_of_tables(self.schema, self._tables(row), size, row)

    def _tables(self, start: int) -> Iterator[Any]:
        before = 0
        for file in self.files:
            yield from file.tables(max(before, start) - before)
            before += file.rows


class ArrowPipe:
    """Read an Arrow stream from a pipe, once."""

    unit, unfinished = "row", 0

    def __init__(self, path: str, name: str, schema: Schema) -> None:
        self.path, self.name, self.schema = path, name, schema

    def length(self) -> None:
        """Return None: how many rows will come is not known."""

    def identity(self, rows: int) -> None:
        """Return None: a pipe cannot be found again."""

    def blocks(self, size: BlockSize, after: Start | None = None) -> Iterator[tuple[Rounds, Start]]:
        """Yield the rows."""
        return blocks_of_tables(self.schema, self._tables(), size)

    def _tables(self) -> Iterator[Any]:
        import pyarrow

        ipc, piped = _library("arrow", self.name), self.path == STDIN
        # Buffered, because a pipe returns less than what is asked for.
        with BufferedReader(FileIO(0 if piped else self.path, closefd=not piped)) as file:
            with _arrow_errors(self.name, _NOT_OF_FORMAT["arrow"]):
                reader = ipc.open_stream(file)
            column_types(reader.schema, Location(self.name, self.path), self.schema)
            with _arrow_errors(self.name, _DAMAGED):
                for batch in map(validated, reader):
                    yield pyarrow.Table.from_batches([batch])


def blocks_of_tables(
    schema: Schema, tables: Iterable[Any], size_after: BlockSize, row: int = 0
) -> Iterator[tuple[Rounds, Start]]:
    """Yield the rows of Arrow tables as rounds; `row` others precede them."""
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table.select(list(schema.names)))
        # Exactly so many rows, however a file cuts its batches.
        while sum(part.num_rows for part in waiting) >= (size := size_after(row)):
            whole = concatenated(waiting)
            yield rounds_of_table(schema, whole.slice(0, size), row), Start(row + size)
            waiting, row = [whole.slice(size)], row + size
    if count := sum(part.num_rows for part in waiting):
        yield rounds_of_table(schema, concatenated(waiting), row), Start(row + count)


def concatenated(tables: Sequence[Any]) -> Any:
    """Return the rows of several tables as one; what one has as a dictionary another may not."""
    import pyarrow

    types = tables[0].schema.types
    if any(table.schema.types != types for table in tables):
        types = list(map(flat_type, types))
        tables = [
            pyarrow.table(
                {
                    name: table.column(name).cast(flat_type(table.column(name).type)).cast(held)
                    for name, held in zip(table.column_names, types, strict=True)
                }
            )
            for table in tables
        ]
    return pyarrow.concat_tables(tables)


def rounds_of_table(schema: Schema, table: Any, first: int) -> Rounds:
    """Return the rows of an Arrow table as rounds; `first` rows precede them."""
    cells = {name: table.column(name) for name in schema.names}
    if schema.time is not None:
        cells[schema.time] = _whole_seconds(cells[schema.time])
    return schema.read(cells, {}, np.arange(first + 1, first + 1 + table.num_rows))


def _whole_seconds(column: Any) -> Any:
    """Return a column of times to the second, in UTC if it has a zone: so Python can hold them."""
    from pyarrow import timestamp, types

    if not types.is_timestamp(column.type):
        return column
    return column.cast(timestamp("s", column.type.tz and "UTC"), safe=False)


# What a column holds, as far as its type says.
ColumnType = Literal["text", "whole number", "number", "truth value", "time", "other"]


def describe_tables(
    files: Sequence[Location], form: str
) -> tuple[dict[str, ColumnType], int | None]:
    """Return the types of the columns of some files, and how many rows they have if they say it."""
    types, total = dict[str, ColumnType](), 0
    counted = True
    for number, location in enumerate(files):
        with open_table(location, form) as file:
            total, counted = total + (file.rows or 0), counted and file.rows is not None
        if number == 0:
            types = {field.name: _type_of(field.type) for field in file.schema}
            # The names of folders are public, and so is that they name a column.
            types |= {name: "text" for name, _ in location.partition}
    return types, total if counted else None


def _type_of(held: Any) -> ColumnType:
    from pyarrow import types

    if types.is_dictionary(held):
        held = held.value_type
    tests: dict[ColumnType, list[Any]] = {
        "truth value": [types.is_boolean],
        "whole number": [types.is_integer],
        "number": [types.is_floating, types.is_decimal],
        "time": [types.is_temporal],
        "text": [types.is_string, types.is_large_string, types.is_string_view],
    }
    names = (name for name, each in tests.items() if any(test(held) for test in each))
    return next(names, "other")


def validated(batch: Any) -> Any:
    """Return a batch that comes from outside; raise `ArrowInvalid` if reading it is not safe.

    An offset or an index that leads out of its buffer would read other memory, or end the process.
    """
    # First the sizes of the buffers, without which nothing below may look into them.
    batch.validate()
    for column in batch.columns:
        _as_bytes(column).validate(full=True)
    return batch


def _as_bytes(column: Any) -> Any:
    """Return a column with bytes in place of text: text that is not UTF-8 is a fault of its row."""
    held = str(flat_type(column.type))
    if held not in _BYTES_OF:
        return column
    if held == str(column.type):
        return column.cast(_BYTES_OF[held])
    values = column.dictionary.cast(_BYTES_OF[held])
    values.validate(full=True)
    # Not "safe", which looks at every index: `validated` does.
    return column.from_arrays(column.indices, values, safe=False)


_BYTES_OF = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}


# What a column must hold to be read as a kind, for errors.
_EXPECTED: dict[Kind, str] = {
    "value": "text, bytes or whole numbers; convert the column to text",
    "number": "whole numbers, floats, decimals, truth values or text",
    "truth": "truth values, numbers or text",
}


def _is_usable(held: Any, kind: Kind) -> bool:
    """Return whether a column of some type can be read as a kind of value."""
    from pyarrow import types

    if kind == "value":
        # Floats and truth values have no one text: whoever wrote the file may have guessed the
        # type from the rows, and one missing cell makes 3.0 of 3 (docs/guarantee.md, Lemma 0).
        whole = bool(types.is_integer(held) or types.is_null(held))
        return whole or is_text(held) or str(held) in _BYTES_OF.values()
    number = bool(types.is_integer(held) or types.is_floating(held) or types.is_boolean(held))
    if kind == "number":
        number = number or bool(types.is_decimal(held) or types.is_null(held))
    return number or is_text(held)
