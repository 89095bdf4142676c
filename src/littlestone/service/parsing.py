"""Bodies: bytes that a client sent, as rows. A row means what it means in a file of JSON lines.

Stricter than a file in what only a client can get wrong: NaN and infinities are not JSON, nor is a
float too large for a computer, and a row has a limited number of fields. What is wrong with
a row is that row's fault; what is wrong with the whole (no JSON, not UTF-8) refuses it all.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from littlestone.classes.base import readable_rows
from littlestone.data.blocks import (
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
from littlestone.data.jsonl import column, objects, only_objects
from littlestone.data.text import count_lines, lines_of
from littlestone.hypotheses.rows import row_of
from littlestone.service.limits import Limits, Refused

Form: TypeAlias = Literal["json", "ndjson"]
FAULTS_LISTED = 20
"""The most bad rows that an answer tells about."""

FORMS: Mapping[str, Form] = {
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
}


def content_kind(content_type: str | None) -> Form:
    """What a body is, by its content type; JSON where nothing is said.

    >>> form_of("application/json; charset=utf-8"), form_of("application/x-ndjson")
    ('json', 'ndjson')
    """
    kind, _, parameters = (content_type or "application/json").partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "").partition("charset=")[2]
    if kind.strip().lower() not in FORMS or charset not in ("", "utf-8", "utf8"):
        raise Refused(415, f"a body is one of {', '.join(FORMS)}, in UTF-8")
    return FORMS[kind.strip().lower()]


class Parsed(NamedTuple):
    """The rows of a body, and what is wrong with some of them; `single` if it was one row."""

    rows: Sequence[dict[str, Any]]
    faults: Faults
    single: bool = False


def parse_body(body: bytes, form: Form, limits: Limits, one: bool = False) -> Parsed:
    """The rows of a body; with `one`, an object that is a row itself will do."""
    faults: Faults = {}
    single = False
    if form == "ndjson":
        _check_count(count_lines(body), limits)
        rows = objects(lines_of(body), faults, _STRICT.decode)
    else:
        value = _value(body)
        single = one and isinstance(value, dict) and not isinstance(value.get("rows"), list)
        found = [value] if single else _listed(value, one)
        _check_count(len(found), limits)
        rows = only_objects(found, faults)
    for at, row in enumerate(rows if max(map(len, rows)) > limits.fields else ()):
        if len(row) > limits.fields:
            faults.setdefault(at, f"{len(row):,} fields, and a row may have {limits.fields:,}")
    return Parsed(rows, faults, single)


def parse_block(body: bytes, form: Form, wanted: ColumnSchema, limits: Limits) -> Block:
    """Labelled rows, as a block that a learner can learn; rows at fault are null rounds in it."""
    rows, faults, _ = parse_body(body, form, limits)
    cells = _cells(rows, wanted.names, faults)
    return read_cells(wanted, cells, faults, np.arange(1, 1 + len(rows))).block()


def parse_examples(
    body: bytes, form: Form, wanted: ColumnSchema, limits: Limits
) -> tuple[dict[str, AnyArray], bool]:
    """Rows without labels, and whether it was a single one; refused if any is at fault."""
    rows, faults, single = parse_body(body, form, limits, one=True)
    columns = read_columns(wanted, _cells(rows, wanted.kinds, faults), faults)
    unread = np.flatnonzero(~readable_rows(wanted.cls, columns)).tolist()
    for row in unread[:FAULTS_LISTED]:
        faults.setdefault(row, why_unread(wanted.cls, row_of(columns, row)))
    if faults:
        bad = [BadRow(1 + row, faults[row]) for row in sorted(faults)[:FAULTS_LISTED]]
        raise rows_at_fault(bad, len(faults), len(rows))
    return columns, single


def rows_at_fault(bad: Sequence[BadRow], count: int, rows: int) -> Refused:
    """The refusal of a body for its rows."""
    said = f"{count:,} of {rows:,} rows cannot be read: row {bad[0].line}: {bad[0].sentence}"
    return Refused(422, said, rows=bad[:FAULTS_LISTED])


def _check_count(count: int, limits: Limits) -> None:
    if count == 0:
        raise Refused(422, "there are no rows in the body")
    if count > limits.rows:
        raise Refused(413, f"{count:,} rows, and a body may have {limits.rows:,}: send them apart")


def _value(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
        try:
            return _STRICT.decode(text)
        except ValueError:
            # One number too long to convert is that row's fault, not the whole body's. Slower.
            return _WITH_LONG_NUMBERS.decode(text)
    except UnicodeDecodeError as error:
        raise Refused(400, f"the body is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise Refused(400, "the body is nested too deep to be rows") from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None


def _listed(value: object, one: bool) -> list[Any]:
    if isinstance(value, dict) and list(value) == ["rows"]:
        value = value["rows"]
    if isinstance(value, list):
        return value
    single = ", or one row" if one else ""
    raise Refused(422, f'the body is an array of rows, or an object {{"rows": [...]}}{single}')


def _cells(
    rows: Sequence[dict[str, Any]], names: Sequence[str] | Mapping[str, Any], faults: Faults
) -> dict[str, Cells]:
    cells = {name: column(rows, name, faults) for name in names}
    for name, found in cells.items():
        if math.inf in found or -math.inf in found:
            for row, cell in enumerate(found):
                if cell in (math.inf, -math.inf):
                    faults.setdefault(row, f"column {name!r}: the number is too large")
    return cells


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not a value of JSON")


def _whole(digits: str) -> int | float:
    """Return a whole number, or infinity, which no row may hold, for one too long to convert."""
    return int(digits) if len(digits) <= MOST_DIGITS else math.inf


MOST_DIGITS = 4300
"""Python converts no longer whole numbers."""
_STRICT = json.JSONDecoder(parse_constant=_no_constant)
_WITH_LONG_NUMBERS = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole)
