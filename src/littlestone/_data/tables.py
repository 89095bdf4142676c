"""Files with a schema, Parquet and Arrow, one after the other: one stream of rows.

Only the columns that the class needs are read, by their types in the schema. A folder is all files
of the format below it, in the order of their paths, and its partitions are columns
(`_data/locations.py`). The names of files and folders, and how many rows each file has, are public:
a partition's value is the same in neighbouring streams (docs/guarantee.md, Lemma 0).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from littlestone._data.cells import EXPECTED, flat_type, is_usable
from littlestone._data.locations import Location
from littlestone._data.rounds import BadStream, Rounds, Start
from littlestone._data.schema import Schema


class TableFile(ABC):
    """Read one file, whose schema is checked when it is made."""

    def __init__(self, location: Location, schema: Schema, found: Any) -> None:
        self.location, self.schema = location, schema
        self.types = column_types(found, location, schema)
        self._partition = dict(location.partition)
        # The columns that are read from the file itself.
        self.names = [name for name in schema.names if name not in self._partition]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(self.groups)

    @property
    @abstractmethod
    def groups(self) -> Sequence[int]:
        """Return the number of rows of each part that can be read by itself."""

    @abstractmethod
    def batches(self, size: int, skipped: int = 0) -> Iterator[Any]:
        """Yield the rows as record batches."""

    def with_partition(self, table: Any) -> Any:
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
        if not is_usable(flat_type(held), kind):
            raise BadStream(
                f"{where}: column {name!r} has type {held}, which cannot be read as a {kind}: "
                f"expected {EXPECTED[kind]}"
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

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""

    def identity(self, rows: int) -> str:
        """Return what changes when a file that holds one of the first rows is written again."""
        known, row = hashlib.sha256(), 0
        for file in self.files:
            if row >= rows:
                break
            known.update(f"{file.location.identity()} ".encode())
            row += file.rows
        return known.hexdigest()[:32]

    def blocks(
        self,
        size: int,
        start: Start | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[Rounds]:
        """Yield the rows."""
        first = start.row if start else 0
        return rounds_of_tables(self.schema, self._tables(size, first), size, first)

    def _tables(self, size: int, start: int) -> Iterator[Any]:
        import pyarrow

        before = 0
        for file in self.files:
            for batch in file.batches(size, max(before, start) - before):
                yield file.with_partition(pyarrow.Table.from_batches([batch]))
            before += file.rows


def rounds_of_tables(
    schema: Schema, tables: Iterable[Any], size: int, first: int = 0
) -> Iterator[Rounds]:
    """Yield the rows of Arrow tables as rounds, `size` at a time; `first` rows precede them."""
    import pyarrow

    waiting: list[Any] = []
    for table in tables:
        waiting.append(table.select(list(schema.names)))
        # Exactly so many rows, however a file cuts its batches.
        while sum(part.num_rows for part in waiting) >= size:
            whole = pyarrow.concat_tables(waiting)
            yield rounds_of_table(schema, whole.slice(0, size), first)
            waiting, first = [whole.slice(size)], first + size
    if sum(part.num_rows for part in waiting):
        yield rounds_of_table(schema, pyarrow.concat_tables(waiting), first)


def rounds_of_table(schema: Schema, table: Any, first: int) -> Rounds:
    """Return the rows of an Arrow table as rounds; `first` rows precede them."""
    cells = {name: table.column(name) for name in schema.names}
    return schema.read(cells, {}, np.arange(first + 1, first + 1 + table.num_rows))
