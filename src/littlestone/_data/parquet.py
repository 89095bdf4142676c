"""Parquet files: only the columns that the class needs, read by row group."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from littlestone._data.cells import validated
from littlestone._data.locations import NEEDS_PYARROW, Location, in_one_line
from littlestone._data.rounds import BadStream
from littlestone._data.schema import Schema
from littlestone._data.tables import TableFile

ENDINGS = (".parquet",)


class ParquetFile(TableFile):
    """Read one Parquet file, whose footer is checked at once."""

    groups: Sequence[int] = ()

    def __init__(self, location: Location, schema: Schema) -> None:
        with open_parquet(location, "not a Parquet file") as file:
            super().__init__(location, schema, file.schema_arrow)
            footer = file.metadata
            self.groups = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]

    def batches(self, size: int, skipped: int = 0) -> Iterator[Any]:
        """Implement `TableFile.batches`."""
        groups = list(enumerate(self.groups))
        while groups and skipped >= groups[0][1]:
            skipped -= groups.pop(0)[1]
        if not groups:
            return
        with open_parquet(self.location, "the file is damaged") as file:
            left = [number for number, _ in groups]
            # Row groups before the first row are not read at all; of the rest a slice is left out.
            for batch in file.iter_batches(size, left, columns=self.names, use_threads=False):
                rest = validated(batch).slice(min(skipped, batch.num_rows))
                skipped -= batch.num_rows - rest.num_rows
                if rest.num_rows:
                    yield rest

    def table(self, groups: Sequence[int]) -> Any:
        """Return the rows of some row groups, as one table."""
        with open_parquet(self.location, "the file is damaged") as file:
            table = file.read_row_groups(groups, columns=self.names, use_threads=False)
            for batch in table.to_batches():
                validated(batch)
            return self.with_partition(table)


@contextmanager
def open_parquet(location: Location, otherwise: str) -> Iterator[Any]:
    """Open a file, and raise what pyarrow raises as `BadStream`."""
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise BadStream(f"{location.name}: reading Parquet {NEEDS_PYARROW}") from None
    with location.open() as raw:
        source = location.path if location.filesystem is None else raw
        try:
            # Buffered ahead, and in threads, a group takes twice the memory and no less time.
            with pyarrow.parquet.ParquetFile(source, pre_buffer=False) as file:
                yield file
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise BadStream(f"{location.name}: {otherwise}: {in_one_line(error)}") from None
