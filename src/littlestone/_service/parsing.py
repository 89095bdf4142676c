"""Parsing of bodies: the bytes that a client sent, as rows.

A row means the same as in a file of JSON lines, with three rules more: NaN and infinities are not
JSON, nor is a float beyond the range of 64 bits, and a row has a limited number of fields. A fault
inside a row makes that row bad; a fault of the whole (not JSON, not UTF-8) refuses the body.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from littlestone._classes.base import readable_rows
from littlestone._data.blocks import (
    AnyArray,
    BadRow,
    Block,
    Cells,
    ColumnSchema,
    Faults,
    read_cells,
    read_columns,
    why_unread,
)
from littlestone._data.formats import column, only_objects, parse_objects
from littlestone._data.text import count_lines, lines_of
from littlestone._hypotheses.rows import row_of
from littlestone._service.limits import Limits, Refused

BodyFormat: TypeAlias = Literal["json", "ndjson"]
FORMATS: Mapping[str, BodyFormat] = {
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
}
# The most bad rows that a response lists.
MAX_BAD_ROWS = 20

# Python converts no longer whole numbers from text.
MAX_DIGITS = 4300


def body_format(content_type: str | None) -> BodyFormat:
    """Return the format of a body by its content type; JSON if there is none."""
    kind, _, parameters = (content_type or "application/json").partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "").partition("charset=")[2]
    if kind.strip().lower() not in FORMATS or charset not in ("", "utf-8", "utf8"):
        raise Refused(415, f"a body must be one of {', '.join(FORMATS)}, in UTF-8")
    return FORMATS[kind.strip().lower()]


def parse_block(body: bytes, form: BodyFormat, schema: ColumnSchema, limits: Limits) -> Block:
    """Return labelled rows as a block to learn from; bad rows are null rounds in it."""
    rows, faults, _ = _parse_body(body, form, limits)
    cells = _cells(rows, schema.names, faults)
    return read_cells(schema, cells, faults, np.arange(1, 1 + len(rows))).block()


def parse_examples(
    body: bytes, form: BodyFormat, schema: ColumnSchema, limits: Limits
) -> tuple[dict[str, AnyArray], bool]:
    """Return rows without labels as columns, and whether the body was a single row."""
    rows, faults, single = _parse_body(body, form, limits, allow_single=True)
    columns = read_columns(schema, _cells(rows, schema.kinds, faults), faults)
    unread = np.flatnonzero(~readable_rows(schema.cls, columns)).tolist()
    for row in unread[:MAX_BAD_ROWS]:
        faults.setdefault(row, why_unread(schema.cls, row_of(columns, row)))
    if faults:
        bad = [BadRow(1 + row, faults[row]) for row in sorted(faults)[:MAX_BAD_ROWS]]
        raise bad_rows_refusal(bad, len(faults), len(rows))
    return columns, single


def bad_rows_refusal(bad: Sequence[BadRow], count: int, rows: int) -> Refused:
    """Return the refusal of a body for its bad rows."""
    sentence = f"{count:,} of {rows:,} rows cannot be read: row {bad[0].line}: {bad[0].sentence}"
    return Refused(422, sentence, rows=bad[:MAX_BAD_ROWS])


class _ParsedBody(NamedTuple):
    rows: Sequence[dict[str, Any]]
    faults: Faults
    single: bool = False


def _parse_body(
    body: bytes, form: BodyFormat, limits: Limits, *, allow_single: bool = False
) -> _ParsedBody:
    """Return the rows of a body, and what is wrong with some of them."""
    faults: Faults = {}
    single = False
    if form == "ndjson":
        _check_count(count_lines(body), limits)
        rows = parse_objects(lines_of(body), faults, _STRICT.decode)
    else:
        value = _decode(body)
        # A row may itself have a column `rows`, but not one with a list in it.
        single = (
            allow_single and isinstance(value, dict) and not isinstance(value.get("rows"), list)
        )
        found = [value] if single else _listed(value, allow_single)
        _check_count(len(found), limits)
        rows = only_objects(found, faults)
    for at, row in enumerate(rows if max(map(len, rows)) > limits.fields else ()):
        if len(row) > limits.fields:
            faults.setdefault(at, f"{len(row):,} fields, and a row may have {limits.fields:,}")
    return _ParsedBody(rows, faults, single)


def _check_count(count: int, limits: Limits) -> None:
    if count == 0:
        raise Refused(422, "there are no rows in the body")
    if count > limits.rows:
        raise Refused(
            413, f"{count:,} rows, and a body may have {limits.rows:,}: send them in parts"
        )


def _decode(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
        try:
            return _STRICT.decode(text)
        except ValueError:
            # A number too long to convert makes its row bad, not the whole body. Slower, so second.
            return _WITH_LONG_NUMBERS.decode(text)
    except UnicodeDecodeError as error:
        raise Refused(400, f"the body is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise Refused(400, "the body is nested too deep to be rows") from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None


def _listed(value: object, allow_single: bool) -> list[Any]:
    if isinstance(value, dict) and list(value) == ["rows"]:
        value = value["rows"]
    if isinstance(value, list):
        return value
    single = ", or one row" if allow_single else ""
    raise Refused(422, f'the body must be an array of rows, or {{"rows": [...]}}{single}')


def _cells(
    rows: Sequence[dict[str, Any]], names: Sequence[str] | Mapping[str, Any], faults: Faults
) -> dict[str, Cells]:
    cells = {name: column(rows, name, faults) for name in names}
    for name, found in cells.items():
        # Python's decoder makes infinity of 1e999: no NaN or infinity may come in as a number.
        if float in {*map(type, found)} and (math.inf in found or -math.inf in found):
            for row, cell in enumerate(found):
                if cell in (math.inf, -math.inf):
                    faults.setdefault(row, f"column {name!r}: the number is too large")
    return cells


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a value of JSON")


def _parse_int(digits: str) -> int | float:
    """Return a whole number; infinity, which `_cells` refuses, for one too long to convert."""
    # As Python counts them, without the sign: how a row is read must not depend on another.
    return int(digits) if len(digits.removeprefix("-")) <= MAX_DIGITS else math.inf


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
_WITH_LONG_NUMBERS = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_parse_int)
