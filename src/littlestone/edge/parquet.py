"""Parquet files in blocks: only the columns that are wanted, read by the type in the schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.edge.blocks import NULL, Array, BadStream, Block, Wanted, shown
from littlestone.edge.cells import WRONG, labels_of, values
from littlestone.edge.pieces import Faults, Piece, in_blocks, piece_of
from littlestone.theory.rows import Kind


class ParquetRows:
    """A Parquet file, open; its length is in its footer."""

    unit = "row"

    def __init__(self, path: str, name: str, wanted: Wanted) -> None:
        try:
            import pyarrow.parquet
        except ModuleNotFoundError:
            raise BadStream(
                f"{name}: reading Parquet needs pyarrow: pip install 'littlestone[parquet]'"
            ) from None
        self.name, self.wanted = name, wanted
        with open(path, "rb"), self._sound("not a Parquet file"):
            # Buffered ahead, and in threads, a row group takes twice the memory and no less time.
            self._file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
        try:
            self._check()
        except BadStream:
            self.close()
            raise

    def length(self) -> int:
        """How many rows there are."""
        return int(self._file.metadata.num_rows)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    @contextmanager
    def _sound(self, otherwise: str) -> Iterator[None]:
        """Make a sentence of what pyarrow raises on a file that is not what it should be."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, OSError) as error:
            raise BadStream(f"{self.name}: {otherwise}: {error}") from None

    def _check(self) -> None:
        schema = self._file.schema_arrow
        self.wanted.check_names(self.name, schema.names)
        for name in self.wanted.names:
            kind = self.wanted.kinds.get(name, "truth" if name == self.wanted.label else "value")
            held = schema.field(name).type
            if not _is_usable(_flat(held), kind):
                raise BadStream(
                    f"{self.name}: column {name!r} has type {held}, which cannot be read as a "
                    f"{kind}: expected {_EXPECTED[kind]}"
                )

    def blocks(self, size: int) -> Iterator[Block]:
        """The rows, `size` at a time, however the file groups them."""
        with self._sound("the file is damaged"):
            yield from in_blocks(self._pieces(size), size)

    def _pieces(self, size: int) -> Iterator[Piece]:
        row = 1
        names = list(self.wanted.names)
        for batch in self._file.iter_batches(size, columns=names, use_threads=False):
            yield self._piece(batch, row)
            row += batch.num_rows

    def _piece(self, table: Any, first: int) -> Piece:
        cells = {name: _decoded(table.column(name)) for name in self.wanted.names}
        faults: Faults = {}

        def noted(name: str, wrong: str, rows: npt.NDArray[np.intp]) -> None:
            for row in rows.tolist():
                cell = shown(_scalar(cells[name][row]))
                faults.setdefault(row, f"column {name!r}: {cell} {wrong}")

        columns = {}
        for name, kind in self.wanted.kinds.items():
            columns[name], rows = _READ[kind](cells[name])
            noted(name, WRONG[kind], rows)
        labels, rows = _labels(cells[self.wanted.label])
        noted(self.wanted.label, WRONG["truth"], rows)
        users = None
        if self.wanted.user is not None:
            users, rows = _users(cells[self.wanted.user])
            noted(self.wanted.user, "does not name a user", rows)
        lines = np.arange(first, first + table.num_rows)
        return piece_of(self.wanted, columns, labels, users, faults, lines)


_EXPECTED: dict[Kind, str] = {
    "value": "text, bytes, whole numbers, floats or truth values",
    "number": "whole numbers, floats or decimals",
    "truth": "truth values, numbers or text",
}


def _flat(held: Any) -> Any:
    """The type of the values, where the column is a dictionary of them."""
    return held.value_type if hasattr(held, "value_type") and hasattr(held, "index_type") else held


def _is_usable(held: Any, kind: Kind) -> bool:
    from pyarrow import types

    number = bool(types.is_integer(held) or types.is_floating(held))
    if kind == "number":
        return number or bool(types.is_decimal(held) or types.is_null(held))
    plain = number or bool(types.is_boolean(held)) or _is_text(held)
    if kind == "truth":
        return plain
    return plain or _is_bytes(held) or bool(types.is_null(held))


def _is_text(held: Any) -> bool:
    return str(held) in ("string", "large_string", "string_view")


def _is_bytes(held: Any) -> bool:
    return str(held) in ("binary", "large_binary", "binary_view")


def _decoded(column: Any) -> Any:
    """The column without a dictionary."""
    flat = _flat(column.type)
    return column if flat == column.type else column.cast(flat)


_NONE_WRONG = np.zeros(0, dtype=np.intp)
Read = tuple[Array, npt.NDArray[np.intp]]


def _values(column: Any) -> Read:
    """Values in their own type; with a missing one among them, as objects."""
    if _is_text(column.type):
        return _texts(column)
    if column.null_count == 0 or _is_bytes(column.type):
        return column.to_numpy(zero_copy_only=False), _NONE_WRONG
    array = np.full(len(column), None, dtype=object)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    array[present] = column.drop_null().to_numpy(zero_copy_only=False).astype(object)
    return array, _NONE_WRONG


def _texts(column: Any) -> Read:
    from pyarrow import ArrowException

    try:
        return column.to_numpy(zero_copy_only=False), _NONE_WRONG
    except (UnicodeDecodeError, ArrowException):  # some text is not UTF-8
        raw = [_scalar(cell) for cell in column]
        array, wrong = values(raw)
        return array, np.array(wrong, dtype=np.intp)


def _scalar(cell: Any) -> object:
    """The value of a cell; text that is not UTF-8 shows lone surrogates."""
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")


def _numbers(column: Any) -> Read:
    import pyarrow

    floats = column.cast(pyarrow.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False), _NONE_WRONG


def _labels(column: Any) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.intp]]:
    if _is_text(column.type):
        array, wrong = labels_of([_scalar(cell) for cell in column])
        return array, np.array(wrong, dtype=np.intp)
    numbers, _ = _numbers(column)
    array = np.full(len(numbers), NULL, dtype=np.int8)
    array[numbers == 0], array[numbers == 1] = 0, 1
    return array, np.flatnonzero(array == NULL)


def _truths(column: Any) -> Read:
    array, wrong = _labels(column)
    return array == 1, wrong


def _users(column: Any) -> Read:
    found, _ = _values(column)
    array = found.astype(object)
    nobody = (array == None) | (array == "") | (array != array)  # noqa: E711
    array[nobody] = None
    return array, np.flatnonzero(nobody)


_READ = {"value": _values, "number": _numbers, "truth": _truths}
