"""Columns of Arrow tables as the arrays of a block: each cell read by the column's type.

The type of a column is in the schema of its file, which is public; so a cell becomes the same value
whatever the other rows hold (docs/guarantee.md, Lemma 0). Dictionaries are decoded: a cell is its
value, not its code.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._data.blocks import (
    NULL,
    WRONG,
    AnyArray,
    ColumnSchema,
    Faults,
    Piece,
    label_cells,
    make_piece,
    number_cells,
    quoted,
    value_cells,
)
from littlestone._hypotheses.causes import OUTCOME
from littlestone._hypotheses.rows import Kind


def piece_from_table(schema: ColumnSchema, table: Any, first: int) -> Piece:
    """Return the rows of an Arrow table as a piece."""
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
    column.dictionary.cast(_BYTES_OF[held]).validate(full=True)
    return column.from_arrays(column.indices, column.dictionary.cast(_BYTES_OF[held]))


_BYTES_OF = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}


# What a column must hold to be read as a kind, for errors.
EXPECTED: dict[Kind, str] = {
    "value": "text, bytes or whole numbers; convert the column to text",
    "number": "whole numbers, floats, decimals, truth values or text",
    "truth": "truth values, numbers or text",
}


def flat_type(held: Any) -> Any:
    """Return the type of the values of a column, also of a dictionary."""
    return held.value_type if hasattr(held, "value_type") and hasattr(held, "index_type") else held


def is_usable(held: Any, kind: Kind) -> bool:
    """Return whether a column of some type can be read as a kind of value."""
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
    flat = flat_type(column.type)
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
    """Return texts as objects, equal ones as one object; None if texts hardly repeat."""
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
