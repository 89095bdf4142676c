"""Parquet files: only the columns that the class needs, read by their types in the footer.

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
    make_piece,
    number_cells,
    quoted,
    value_cells,
)
from littlestone.hypotheses.causes import OUTCOME
from littlestone.hypotheses.rows import Kind


class ParquetRows:
    """Read Parquet files, one after the other.

    Parameters
    ----------
    path, name
        The file or folder, and what errors call it.
    schema
        The columns to read.
    """

    unit, unfinished = "row", 0

    def __init__(self, path: str, name: str, schema: ColumnSchema) -> None:
        self.name, self.schema = name, schema
        self.files = [ParquetFile(one, schema) for one in files_below(path)]
        if not self.files:
            raise BadStream(f"{name}: there is no Parquet file in the folder")
        # One value must have one text in the whole stream, so the types must agree before any row
        # is read.
        first = self.files[0]
        for other in self.files[1:]:
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
            status = os.stat(file.path)
            known.update(f"{status.st_ino} {status.st_size} {status.st_mtime_ns} ".encode())
            row += file.rows
        return known.hexdigest()[:32]

    def blocks(
        self,
        size: int,
        start: Start | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[Block]:
        """Yield the rows.

        Parameters
        ----------
        size
            Rows of a block.
        start
            The first row; row groups before it are not read.
        progress
            Not called: nothing has to be skipped by reading it.
        """
        return in_blocks(self._pieces(size, start.row if start else 0), size)

    def _pieces(self, size: int, start: int) -> Iterator[Piece]:
        before = 0
        for file in self.files:
            row = max(before, start)
            for batch in file.batches(size, row - before):
                yield piece_from_table(self.schema, batch, row + 1)
                row += batch.num_rows
            before += file.rows


class ParquetFile:
    """Read one file, whose footer is checked at once.

    Parameters
    ----------
    path
        The file.
    schema
        The columns to read.
    """

    def __init__(self, path: str, schema: ColumnSchema) -> None:
        self.path, self._schema = path, schema
        with open_parquet(path, "not a Parquet file") as file:
            self._check(file.schema_arrow)
            self.types = [_flat(file.schema_arrow.field(name).type) for name in schema.names]
            footer = file.metadata
            self.groups = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(self.groups)

    def batches(self, size: int, skipped: int = 0) -> Iterator[Any]:
        """Yield the rows as record batches.

        Parameters
        ----------
        size
            The most rows of a batch.
        skipped
            How many of the first rows to leave out.
        """
        groups = list(enumerate(self.groups))
        while groups and skipped >= groups[0][1]:
            skipped -= groups.pop(0)[1]
        if not groups:
            return
        with open_parquet(self.path, "the file is damaged") as file:
            names, left = list(self._schema.names), [number for number, _ in groups]
            # Row groups before the first row are not read at all; of the rest a slice is left out.
            for batch in file.iter_batches(size, left, columns=names, use_threads=False):
                rest = batch.slice(min(skipped, batch.num_rows))
                skipped -= batch.num_rows - rest.num_rows
                if rest.num_rows:
                    yield rest

    def table(self, groups: Sequence[int]) -> Any:
        """Return the rows of some row groups, as one table."""
        with open_parquet(self.path, "the file is damaged") as file:
            names = list(self._schema.names)
            return file.read_row_groups(groups, columns=names, use_threads=False)

    def refuse_other_types(self, other: "ParquetFile") -> None:
        """Raise `BadStream` if a column has another type in another file.

        Two types would print one value in two ways (docs/guarantee.md, Lemma 0).
        """
        for name, mine, theirs in zip(self._schema.names, self.types, other.types, strict=True):
            if mine != theirs:
                raise BadStream(
                    f"{other.path}: column {name!r} has type {theirs}, and {mine} in {self.path}: "
                    "a column of one stream has one type"
                )

    def _check(self, found: Any) -> None:
        schema = self._schema
        schema.check_names(self.path, found.names)
        for name in schema.names:
            kind = schema.kinds.get(name, schema.label_kind if name == schema.label else "value")
            held = found.field(name).type
            if not _is_usable(_flat(held), kind):
                raise BadStream(
                    f"{self.path}: column {name!r} has type {held}, which cannot be read as a "
                    f"{kind}: expected {_EXPECTED[kind]}"
                )


@contextmanager
def open_parquet(path: str, otherwise: str) -> Iterator[Any]:
    """Open a file, and raise what pyarrow raises as `BadStream`.

    Parameters
    ----------
    path
        The file.
    otherwise
        What is wrong with the file if pyarrow cannot read it.
    """
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise BadStream(
            f"{path}: reading Parquet needs pyarrow: pip install 'littlestone[parquet]'"
        ) from None
    with open(path, "rb"):
        try:
            # Buffered ahead, and in threads, a group takes twice the memory and no less time.
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
                yield file
        except (pyarrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise BadStream(f"{path}: {otherwise}: {reason}") from None


def files_below(path: str) -> list[str]:
    """Return a file, or the Parquet files below a folder, in the order of their paths."""
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    found = ((file.relative_to(folder).parts, file) for file in folder.rglob("*.parquet"))
    return [
        str(file)
        for parts, file in sorted(found)
        if file.is_file() and not any(part.startswith(("_", ".")) for part in parts)
    ]


def piece_from_table(schema: ColumnSchema, table: Any, first: int) -> Piece:
    """Return the rows of an Arrow table as a piece.

    Parameters
    ----------
    schema
        What is read.
    table
        The table.
    first
        The number of its first row.
    """
    cells = {name: _decoded(table.column(name)) for name in schema.names}
    faults: Faults = {}

    def add_faults(name: str, wrong: str, rows: npt.NDArray[np.intp]) -> None:
        for row in rows.tolist():
            cell = quoted(_scalar(cells[name][row]))
            faults.setdefault(row, f"column {name!r}: {cell} {wrong}")

    columns = {}
    for name, kind in schema.kinds.items():
        columns[name], rows = _READ[kind](cells[name])
        add_faults(name, WRONG[kind], rows)
    labels, rows = _labels_by_schema(schema, cells[schema.label])
    add_faults(schema.label, schema.wrong_label, rows)
    if schema.normal:
        columns[OUTCOME], _ = _values(cells[schema.label])
    users = None
    if schema.user is not None:
        users, rows = _users(cells[schema.user])
        add_faults(schema.user, "does not name a user", rows)
    lines = np.arange(first, first + table.num_rows)
    return make_piece(schema, columns, labels=labels, users=users, faults=faults, lines=lines)


_EXPECTED: dict[Kind, str] = {
    "value": "text, bytes or whole numbers; convert the column to text",
    "number": "whole numbers, floats, decimals, truth values or text",
    "truth": "truth values, numbers or text",
}


def _flat(held: Any) -> Any:
    """Return the type of the values of a column, also of a dictionary."""
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
    """Return a column without its dictionary."""
    flat = _flat(column.type)
    return column if flat == column.type else column.cast(flat)


_NONE_WRONG = np.zeros(0, dtype=np.intp)
ReadColumn = tuple[AnyArray, npt.NDArray[np.intp]]


def _values(column: Any) -> ReadColumn:
    """Read values in their own type; as objects if some are missing."""
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
        shared = _shared_texts(column)
        found = column.to_numpy(zero_copy_only=False) if shared is None else shared
        return found, _NONE_WRONG
    except (UnicodeDecodeError, ArrowException):  # some text is not UTF-8
        raw = [_scalar(cell) for cell in column]
        array, wrong = value_cells(raw)
        return array, np.array(wrong, dtype=np.intp)


# Rows at the beginning of a column that show whether texts repeat.
_SAMPLE = 1 << 11


def _shared_texts(column: Any) -> AnyArray | None:
    """Return texts as objects, equal ones as one object; None if texts hardly repeat.

    A text is made once, and what reads the column finds out once what it is.
    """
    chunks = getattr(column, "chunks", [column])
    if len(chunks) != 1 or str(column.type) == "string_view":
        return None
    if 2 * len(column[:_SAMPLE].unique()) > len(column[:_SAMPLE]):
        return None
    coded = chunks[0].dictionary_encode()
    texts = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    # The last one is that of missing cells.
    indices = coded.indices.fill_null(len(texts) - 1) if coded.null_count else coded.indices
    return np.asarray(texts[indices.to_numpy()])


def _scalar(cell: Any) -> object:
    """Return the value of a cell; text that is not UTF-8 gets lone surrogates."""
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
    # safe=False: integers above 2^53 are rounded, as they are in every other format.
    floats = column.cast(pyarrow.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False), _NONE_WRONG


def _labels(column: Any) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.intp]]:
    if _is_text(column.type):
        array, wrong = label_cells([_scalar(cell) for cell in column])
        return array, np.array(wrong, dtype=np.intp)
    # A label that is neither 0 nor 1, a missing one too, makes a null round.
    found, _ = _numbers(column)
    array = np.full(len(found), NULL, dtype=np.int8)
    array[found == 0], array[found == 1] = 0, 1
    return array, np.flatnonzero(array == NULL)


def _labels_by_schema(
    schema: ColumnSchema, column: Any
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.intp]]:
    if not schema.named_labels:
        return _labels(column)
    array, wrong = schema.labels_of([_scalar(cell) for cell in column])
    return array, np.array(wrong, dtype=np.intp)


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
