"""What a file says about itself before its values: names of columns, types, the number of rows.

Of a CSV or TSV file that is its first line, of JSON lines the keys of the first line, of Parquet
the footer. No value is looked at, so nothing that follows from a header depends on one.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from littlestone.data.blocks import BadStream, separator_hint
from littlestone.data.formats import delimited_names
from littlestone.data.parquet import files_below, open_parquet
from littlestone.data.readers import format_of
from littlestone.data.text import GZIP, MAX_LINE_BYTES, STDIN, lines_of

ColumnType = Literal["text", "whole number", "number", "truth value", "time", "other"]


@dataclass(frozen=True)
class Header:
    """Hold what is known of a file without its values.

    Parameters
    ----------
    names : tuple of str
        The columns.
    types : mapping of str to str, optional
        The type of each column, where the file has a schema.
    rows : int, optional
        The number of rows, where the file says it.
    source : str
        What was read, in words.
    """

    names: tuple[str, ...]
    types: Mapping[str, ColumnType] | None
    rows: int | None
    source: str


def read_header(path: str, format: str | None = None) -> Header:  # noqa: A002
    """Read the names of the columns of a file, and their types if it has a schema.

    Parameters
    ----------
    path : str
        A file, or a folder of Parquet files.
    format : str, optional
        csv, tsv, jsonl, ndjson or parquet; by default as the name says.

    Returns
    -------
    Header
        What the file says about itself.

    Raises
    ------
    BadStream
        If it has no header that can be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("version,failed\\n4.2.1,1\\n")
    ...     file.flush()
    ...     print(read_header(file.name).names)
    ('version', 'failed')
    """
    if path == STDIN:
        raise BadStream(
            "standard input: reading its header would use it up; save the stream to a file first"
        )
    form = format_of(path, path, format)
    if form == "parquet":
        return _parquet_header(path)
    line = _first_line(path)
    if form == "jsonl":
        return Header(_keys(path, line), None, None, "the keys of its first line")
    names = delimited_names(path, line, "\t" if form == "tsv" else ",")
    if hint := separator_hint(names):
        raise BadStream(f"{path}: line 1 names one column, {names[0]!r}.{hint}")
    return Header(tuple(names), None, None, "the names of its columns, on the first line")


def _first_line(path: str) -> str:
    with open(path, "rb") as plain:
        packed = plain.read(len(GZIP)) == GZIP
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            line = file.readline(MAX_LINE_BYTES + 1)
    except (EOFError, gzip.BadGzipFile) as error:
        raise BadStream(f"{path}: the gzip file is damaged or cut off: {error}") from None
    if not line.strip():
        raise BadStream(f"{path}: there is no first line, which should name the columns")
    if len(line) > MAX_LINE_BYTES:
        raise BadStream(f"{path}: the first line is longer than {MAX_LINE_BYTES} bytes")
    return lines_of(line)[0].removeprefix("\ufeff").removesuffix("\r")


def _keys(path: str, line: str) -> tuple[str, ...]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        # The line itself is not quoted: it holds values.
        raise BadStream(
            f'{path}: the first line is not an object of JSON, such as {{"version": "4.2.1"}}. '
            "If it is of another format, name it: --format csv, tsv or parquet"
        )
    return tuple(record)


def _parquet_header(path: str) -> Header:
    files = files_below(path)
    if not files:
        raise BadStream(f"{path}: there is no Parquet file in the folder")
    rows, types, names = 0, dict[str, ColumnType](), tuple[str, ...]()
    for number, file in enumerate(files):
        with open_parquet(file, "not a Parquet file") as opened:
            rows += opened.metadata.num_rows
            if number == 0:
                names = tuple(opened.schema_arrow.names)
                types = {field.name: _type_of(field.type) for field in opened.schema_arrow}
    where = "the footers of its files" if len(files) > 1 else "its footer"
    return Header(names, types, rows, f"{where}: names, types, number of rows")


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
    found = (name for name, each in tests.items() if any(test(held) for test in each))
    return next(found, "other")
