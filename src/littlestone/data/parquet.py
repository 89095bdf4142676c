"""Parquet in blocks: only the columns that are wanted, read by the type in the schema.

A folder is all Parquet files below it, in the order of their paths: one stream. The values of
folder names (`day=monday`) are not columns.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.data.blocks import (
    NULL,
    WRONG,
    AnyArray,
    BadStream,
    Block,
    ColumnSchema,
    Faults,
    Piece,
    Start,
    in_blocks,
    label_cells,
    number_cells,
    piece_of,
    quoted,
    value_cells,
)
from littlestone.hypotheses.rows import Kind


class ParquetRows:
    """Parquet files, one after the other; their lengths are in their footers."""

    unit, unfinished = "row", 0

    def __init__(self, path: str, name: str, wanted: ColumnSchema) -> None:
        self.name, self.wanted = name, wanted
        self.files = [ParquetFile(one, wanted) for one in files_below(path)]
        if not self.files:
            raise BadStream(f"{name}: there is no Parquet file in the folder")
        first = self.files[0]
        for other in self.files[1:]:
            first.refuse_other_types(other)

    def length(self) -> int:
        """How many rows there are."""
        return sum(file.rows for file in self.files)

    def close(self) -> None:
        """Files are open while they are read only."""

    def identity(self, rows: int) -> str:
        """Return what changes when a file that holds one of the first rows is written again."""
        known, row = hashlib.sha256(), 0
        for file in self.files:
            if row >= rows:
                break
            status = os.stat(file.path)
            known.update(f"{status.st_ino} {status.st_size} {status.st_mtime_ns} ".encode())
            row += file.rows
        return known.hexdigest()[:32]

    def blocks(
        self,
        size: int,
        start: Start | None = None,
        passing: Callable[[int, int], None] | None = None,
    ) -> Iterator[Block]:
        """Return the rows, `size` at a time, however the files group them, from a row on. Row
        groups before it are not read."""
        return in_blocks(self._pieces(size, start.row if start else 0), size)

    def _pieces(self, size: int, start: int) -> Iterator[Piece]:
        before = 0
        for file in self.files:
            row = max(before, start)
            for batch in file.batches(size, row - before):
                yield piece_of_table(self.wanted, batch, row + 1)
                row += batch.num_rows
            before += file.rows


class ParquetFile:
    """What the footer of a file says, checked against what is wanted of it."""

    def __init__(self, path: str, wanted: ColumnSchema) -> None:
        self.path, self._wanted = path, wanted
        with self._opened("not a Parquet file") as file:
            self._check(file.schema_arrow)
            self.types = [_flat(file.schema_arrow.field(name).type) for name in wanted.names]
            footer = file.metadata
            self.groups = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.groups)

    def batches(self, size: int, skipped: int = 0) -> Iterator[Any]:
        """Return the rows after the first `skipped` as tables of at most `size`."""
        groups = list(enumerate(self.groups))
        while groups and skipped >= groups[0][1]:
            skipped -= groups.pop(0)[1]
        if not groups:
            return
        with self._opened("the file is damaged") as file:
            names, left = list(self._wanted.names), [number for number, _ in groups]
            for batch in file.iter_batches(size, left, columns=names, use_threads=False):
                rest = batch.slice(min(skipped, batch.num_rows))
                skipped -= batch.num_rows - rest.num_rows
                if rest.num_rows:
                    yield rest

    def table(self, groups: Sequence[int]) -> Any:
        """The rows of some row groups, as one table."""
        with self._opened("the file is damaged") as file:
            names = list(self._wanted.names)
            return file.read_row_groups(groups, columns=names, use_threads=False)

    def refuse_other_types(self, other: "ParquetFile") -> None:
        """A column has one type in all files: otherwise one file would spell another's values."""
        for name, mine, theirs in zip(self._wanted.names, self.types, other.types, strict=True):
            if mine != theirs:
                raise BadStream(
                    f"{other.path}: column {name!r} has type {theirs}, and {mine} in {self.path}: "
                    "a column of one stream has one type"
                )

    @contextmanager
    def _opened(self, otherwise: str) -> Iterator[Any]:
        """The file, open. Sentences of what pyarrow raises if it is not what it should be."""
        try:
            import pyarrow.parquet
        except ModuleNotFoundError:
            raise BadStream(
                f"{self.path}: reading Parquet needs pyarrow: pip install 'littlestone[parquet]'"
            ) from None
        with open(self.path, "rb"):
            try:
                # Buffered ahead, and in threads, a group takes twice the memory and no less time.
                with pyarrow.parquet.ParquetFile(self.path, pre_buffer=False) as file:
                    yield file
            except (pyarrow.ArrowException, OSError) as error:
                said = " ".join(str(error).split())
                raise BadStream(f"{self.path}: {otherwise}: {said}") from None

    def _check(self, schema: Any) -> None:
        wanted = self._wanted
        wanted.check_names(self.path, schema.names)
        for name in wanted.names:
            kind = wanted.kinds.get(name, "truth" if name == wanted.label else "value")
            held = schema.field(name).type
            if not _is_usable(_flat(held), kind):
                raise BadStream(
                    f"{self.path}: column {name!r} has type {held}, which cannot be read as a "
                    f"{kind}: expected {_EXPECTED[kind]}"
                )


def files_below(path: str) -> list[str]:
    """A file; or the Parquet files in a folder and its folders, in the order of their paths."""
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    found = ((file.relative_to(folder).parts, file) for file in folder.rglob("*.parquet"))
    return [
        str(file)
        for parts, file in sorted(found)
        if file.is_file() and not any(part.startswith(("_", ".")) for part in parts)
    ]


def piece_of_table(wanted: ColumnSchema, table: Any, first: int) -> Piece:
    """The rows of an Arrow table, of which the first has this number, as a class reads them."""
    cells = {name: _decoded(table.column(name)) for name in wanted.names}
    faults: Faults = {}

    def noted(name: str, wrong: str, rows: npt.NDArray[np.intp]) -> None:
        for row in rows.tolist():
            cell = quoted(_scalar(cells[name][row]))
            faults.setdefault(row, f"column {name!r}: {cell} {wrong}")

    columns = {}
    for name, kind in wanted.kinds.items():
        columns[name], rows = _READ[kind](cells[name])
        noted(name, WRONG[kind], rows)
    labels, rows = _labels(cells[wanted.label])
    noted(wanted.label, WRONG["truth"], rows)
    users = None
    if wanted.user is not None:
        users, rows = _users(cells[wanted.user])
        noted(wanted.user, "does not name a user", rows)
    lines = np.arange(first, first + table.num_rows)
    return piece_of(wanted, columns, labels, users, faults, lines)


_EXPECTED: dict[Kind, str] = {
    "value": "text, bytes or whole numbers; convert the column to text",
    "number": "whole numbers, floats, decimals, truth values or text",
    "truth": "truth values, numbers or text",
}


def _flat(held: Any) -> Any:
    """The type of the values, where the column is a dictionary of them."""
    return held.value_type if hasattr(held, "value_type") and hasattr(held, "index_type") else held


def _is_usable(held: Any, kind: Kind) -> bool:
    from pyarrow import types

    if kind == "value":
        # Floats and truth values have no one text: whoever wrote the file may have guessed the
        # type from the rows, and one missing cell makes 3.0 of 3 (docs/guarantee.md, Lemma 0).
        whole = bool(types.is_integer(held) or types.is_null(held))
        return whole or _is_text(held) or _is_bytes(held)
    number = bool(types.is_integer(held) or types.is_floating(held) or types.is_boolean(held))
    if kind == "number":
        number = number or bool(types.is_decimal(held) or types.is_null(held))
    return number or _is_text(held)


def _is_text(held: Any) -> bool:
    return str(held) in ("string", "large_string", "string_view")


def _is_bytes(held: Any) -> bool:
    return str(held) in ("binary", "large_binary", "binary_view")


def _decoded(column: Any) -> Any:
    """The column without a dictionary."""
    flat = _flat(column.type)
    return column if flat == column.type else column.cast(flat)


_NONE_WRONG = np.zeros(0, dtype=np.intp)
ReadColumn = tuple[AnyArray, npt.NDArray[np.intp]]


def _values(column: Any) -> ReadColumn:
    """Values in their own type; with a missing one among them, as objects."""
    if _is_text(column.type):
        return _texts(column)
    if column.null_count == 0 or _is_bytes(column.type):
        return column.to_numpy(zero_copy_only=False), _NONE_WRONG
    array = np.full(len(column), None, dtype=object)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    array[present] = column.drop_null().to_numpy(zero_copy_only=False).astype(object)
    return array, _NONE_WRONG


def _texts(column: Any) -> ReadColumn:
    from pyarrow import ArrowException

    try:
        return column.to_numpy(zero_copy_only=False), _NONE_WRONG
    except (UnicodeDecodeError, ArrowException):  # some text is not UTF-8
        raw = [_scalar(cell) for cell in column]
        array, wrong = value_cells(raw)
        return array, np.array(wrong, dtype=np.intp)


def _scalar(cell: Any) -> object:
    """The value of a cell; text that is not UTF-8 shows lone surrogates."""
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")


def _numbers(column: Any) -> ReadColumn:
    import pyarrow

    if _is_text(column.type) or pyarrow.types.is_decimal(column.type):
        # Decimals one by one as well: a cast makes 0.30000000000000004 of 0.3.
        array, wrong = number_cells([_scalar(cell) for cell in column])
        return array, np.array(list(wrong), dtype=np.intp)
    floats = column.cast(pyarrow.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False), _NONE_WRONG


def _labels(column: Any) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.intp]]:
    if _is_text(column.type):
        array, wrong = label_cells([_scalar(cell) for cell in column])
        return array, np.array(wrong, dtype=np.intp)
    found, _ = _numbers(column)
    array = np.full(len(found), NULL, dtype=np.int8)
    array[found == 0], array[found == 1] = 0, 1
    return array, np.flatnonzero(array == NULL)


def _truths(column: Any) -> ReadColumn:
    array, wrong = _labels(column)
    return array == 1, wrong


def _users(column: Any) -> ReadColumn:
    found, _ = _values(column)
    array = found.astype(object)
    nobody = (array == None) | (array == "") | (array != array)  # noqa: E711
    array[nobody] = None
    return array, np.flatnonzero(nobody)


_READ = {"value": _values, "number": _numbers, "truth": _truths}
