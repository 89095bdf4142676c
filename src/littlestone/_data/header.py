"""What a file says about itself before its values: names of columns, types, the number of rows.

Of a CSV or TSV file that is its first line, of JSON lines the keys of the first line, of Parquet
the footer, of Arrow the schema and the index. No value is looked at, so nothing that follows from a
header depends on one.
"""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from typing import Any, Literal, cast

from littlestone._data.formats import JSON_ARRAY, delimited_names
from littlestone._data.locations import locate
from littlestone._data.readers import format_of, table_files
from littlestone._data.rounds import BadStream
from littlestone._data.schema import separator_hint
from littlestone._data.tables import open_table
from littlestone._data.text import GZIP, MAX_LINE_BYTES, STDIN, lines_of

ColumnType = Literal["text", "whole number", "number", "truth value", "time", "other"]


@dataclass(frozen=True)
class Header:
    """Hold what is known of a file without its values."""

    names: tuple[str, ...]
    types: Mapping[str, ColumnType] | None
    rows: int | None
    source: str


def read_header(path: str, format: str | None = None) -> Header:  # noqa: A002
    """Read the names of the columns of a file, and their types if it has a schema."""
    if path == STDIN:
        raise BadStream(
            "standard input: reading its header would use it up; save the stream to a file first"
        )
    form = format_of(path, path, format)
    if form in ("parquet", "arrow"):
        return _table_header(path, form)
    line = _first_line(path)
    if form == "jsonl":
        return Header(_keys(path, line), None, None, "the keys of its first line")
    names = delimited_names(path, line, "\t" if form == "tsv" else ",")
    if hint := separator_hint(names):
        raise BadStream(f"{path}: line 1 names one column, {names[0]!r}.{hint}")
    return Header(tuple(names), None, None, "the names of its columns, on the first line")


def _first_line(path: str) -> str:
    try:
        with BufferedReader(cast(RawIOBase, locate(path).open())) as file:
            packed = file.peek(len(GZIP)).startswith(GZIP)
            lines = gzip.GzipFile(fileobj=file) if packed else file
            line = lines.readline(MAX_LINE_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
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
            "If it is of another format, name it: --format csv, tsv, parquet or arrow. "
            f"{JSON_ARRAY}"
        )
    return tuple(record)


def _table_header(path: str, form: str) -> Header:
    files = table_files(path, path, form)
    counts, types = [], dict[str, ColumnType]()
    for number, file in enumerate(files):
        with open_table(file, form) as table:
            counts.append(table.rows)
        if number == 0:
            types = {field.name: _type_of(field.type) for field in table.schema}
            # The names of folders are public, and so is that they name a column.
            types |= {name: "text" for name, _ in file.partition}
    known = [rows for rows in counts if rows is not None]
    total = sum(known) if len(known) == len(files) else None
    where = "schema" if form == "arrow" else "footer"
    where = f"the {where}s of its files" if len(files) > 1 else f"its {where}"
    count = "" if total is None else ", number of rows"
    return Header(tuple(types), types, total, f"{where}: names, types{count}")


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
