"""Arrow IPC: files (`.arrow`, `.feather`) and streams (`.arrows`), told apart by their first bytes.

A file has an index, and is read from any record batch on. A stream has none: it is passed over
batch by batch. On this machine both are mapped into memory, so the columns that are not wanted are
not read from disk. Where record batches begin does not matter: rows come in blocks of equal size.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from io import BufferedReader, FileIO
from itertools import islice
from typing import Any, NamedTuple

from littlestone._data.cells import validated
from littlestone._data.locations import NEEDS_PYARROW, Location, in_one_line
from littlestone._data.rounds import BadStream, Rounds, Start
from littlestone._data.schema import Schema
from littlestone._data.tables import TableFile, column_types, rounds_of_tables
from littlestone._data.text import STDIN

ENDINGS = (".arrow", ".feather", ".arrows", ".ipc")
# What a file begins with, and what Feather began with before it was Arrow.
_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"
_NOT_ARROW = "not an Arrow file or stream"
_DAMAGED = "the file is damaged, or its writer has not finished it"


class OpenArrow(NamedTuple):
    """Hold an open file or stream."""

    schema: Any
    rows: int | None
    batches: Callable[[int], Iterator[Any]]


class ArrowFile(TableFile):
    """Read one file or stream, whose schema is checked at once."""

    def __init__(self, location: Location, schema: Schema) -> None:
        with open_arrow(location, _NOT_ARROW) as file:
            super().__init__(location, schema, file.schema)

    @cached_property
    def groups(self) -> Sequence[int]:
        """Implement `TableFile.groups`: record batches, of which one column is read to count."""
        with self._opened(self.names[:1]) as file:
            return [batch.num_rows for batch in file.batches(0)]

    def batches(self, size: int, skipped: int = 0) -> Iterator[Any]:
        """Implement `TableFile.batches`."""
        first = 0
        if skipped:
            while first < len(self.groups) and skipped >= self.groups[first]:
                skipped -= self.groups[first]
                first += 1
        with self._opened(self.names) as file:
            for batch in map(validated, file.batches(first)):
                for at in range(skipped, batch.num_rows, size):
                    yield batch.slice(at, size)
                skipped = 0

    def _opened(self, names: Sequence[str]) -> AbstractContextManager[OpenArrow]:
        return open_arrow(self.location, _DAMAGED, names)


class ArrowPipe:
    """Read an Arrow stream from a pipe, once."""

    unit, unfinished = "row", 0

    def __init__(self, path: str, name: str, schema: Schema) -> None:
        self.name, self.schema, self._open = name, schema, ExitStack()
        piped = path == STDIN
        raw = FileIO(0 if piped else path, closefd=not piped)
        # Buffered, because a pipe returns less than what is asked for.
        file = self._open.enter_context(BufferedReader(raw))
        try:
            with _arrow_errors(name, _NOT_ARROW):
                self._reader = _ipc(name).open_stream(file)
            column_types(self._reader.schema, Location(name, path), schema)
        except BaseException:
            self.close()
            raise

    def length(self) -> None:
        """Return None: how many rows will come is not known."""

    def identity(self, rows: int) -> None:
        """Return None: a pipe cannot be found again."""

    def close(self) -> None:
        """Close the pipe."""
        self._open.close()

    def blocks(
        self,
        size: int,
        start: Start | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[Rounds]:
        """Yield the rows."""
        return rounds_of_tables(self.schema, self._tables(), size)

    def _tables(self) -> Iterator[Any]:
        import pyarrow

        with _arrow_errors(self.name, _DAMAGED):
            for batch in map(validated, self._reader):
                yield pyarrow.Table.from_batches([batch])


@contextmanager
def open_arrow(
    location: Location, otherwise: str, names: Sequence[str] = ()
) -> Iterator[OpenArrow]:
    """Open a file or a stream, and raise what pyarrow raises as `BadStream`."""
    ipc = _ipc(location.name)
    with ExitStack() as stack:
        raw = stack.enter_context(location.open())
        start = bytes(raw.read(len(_FILE)))
        if start.startswith(_FEATHER_1):
            raise BadStream(
                f"{location.name}: Feather of version 1, which is not Arrow: read it with "
                "pyarrow.feather.read_table, and write it again with write_feather"
            )
        with _arrow_errors(location.name, otherwise):
            raw.seek(0)
            if location.filesystem is None:
                import pyarrow

                raw = stack.enter_context(pyarrow.memory_map(location.path))
            is_file = start == _FILE
            make = ipc.open_file if is_file else ipc.open_stream
            reader = make(raw)
            if names:
                raw.seek(0)
                wanted = [reader.schema.get_field_index(name) for name in names]
                reader = make(raw, options=ipc.IpcReadOptions(included_fields=wanted))
            if is_file:
                yield OpenArrow(
                    reader.schema,
                    reader.count_rows() if hasattr(reader, "count_rows") else None,
                    lambda first: map(reader.get_batch, range(first, reader.num_record_batches)),
                )
            else:
                yield OpenArrow(reader.schema, None, lambda first: islice(reader, first, None))


@contextmanager
def _arrow_errors(name: str, otherwise: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadStream(f"{name}: {otherwise}: {in_one_line(error)}") from None


def _ipc(name: str) -> Any:
    try:
        import pyarrow.ipc
    except ModuleNotFoundError:
        raise BadStream(f"{name}: reading Arrow {NEEDS_PYARROW}") from None
    return pyarrow.ipc
