"""Bodies of requests: received within limits, and read as rows.

A row means the same as in a file of JSON lines, with three rules more: NaN and infinities are not
JSON, nor is a float beyond the range of 64 bits, and a row has a limited size. A fault inside a row
makes that row bad; a fault of the whole (not JSON, not UTF-8) refuses the body.
"""

import asyncio
import hashlib
import json
import math
import re
from asyncio import Timeout
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from starlette.requests import Request

from littlestone._classes.base import readable_rows
from littlestone._data.formats import column, object_columns, only_objects, parse_objects
from littlestone._data.rounds import BadRow, Rounds
from littlestone._data.schema import Faults, Schema, why_unread
from littlestone._data.text import count_lines, lines_of
from littlestone._hypotheses.rows import row_of
from littlestone._service.limits import STOPPING, Limits, Refused, unavailable

T = TypeVar("T")
BodyFormat: TypeAlias = Literal["json", "ndjson"]
FORMATS: Mapping[str, BodyFormat] = {
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
}
# Bytes up to which a body is parsed in the event loop; a thread costs more than that saves.
INLINE = 1 << 14
# The most characters of a row, and of rows that are parsed by one call: the interpreter does nothing
# else meanwhile.
MAX_ROW, MANY_ROWS = 1 << 18, 1 << 16
# The most bad rows that a response lists.
MAX_BAD_ROWS = 20
# Python converts no longer whole numbers from text.
MAX_DIGITS = 4300
NOT_ROWS = 'the body must be an array of rows, or {"rows": [...]}'


# Receiving.


class Waits:
    """Hold the timeouts of bodies that come in, so that a stop can end them."""

    def __init__(self) -> None:
        self.timeouts: set[Timeout] = set()
        self.ended = False

    def end(self) -> None:
        """End every wait."""
        self.ended = True
        for timeout in self.timeouts:
            # One that has just expired can be moved no more.
            if not timeout.expired():
                timeout.reschedule(asyncio.get_running_loop().time())


@dataclass(frozen=True)
class Body:
    """Hold what a client sent."""

    data: bytes
    form: BodyFormat

    def digest(self, mode: str) -> bytes:
        """Return a hash that differs for bodies that must not share an idempotency key."""
        return hashlib.sha256(f"{self.form} {mode}\n".encode() + self.data).digest()


async def receive_body(request: Request, limits: Limits, maximum: int, waits: Waits) -> Body:
    """Return the body of a request."""
    headers, data = request.headers, bytearray()
    form = _format_of(headers.get("content-type"))
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "a body must not be compressed")
    # A promise of the client, so it only refuses early: what arrives is counted as well.
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > maximum:
        raise _too_long(maximum)
    clock, is_more = asyncio.get_running_loop().time, True
    # Two clocks: a body that trickles is never silent, and must not hold a slot for ever.
    end = clock() + limits.body_timeout
    timeout = asyncio.timeout_at(min(end, clock() + limits.idle_timeout))
    try:
        async with timeout:
            waits.timeouts.add(timeout)
            # Not by the generator of `stream`: that takes as long as parsing a few rows.
            while is_more:
                message = await request.receive()
                if message["type"] != "http.request":
                    raise Refused(400, "the body was cut off")
                chunk, is_more = message.get("body", b""), message.get("more_body", False)
                data += chunk
                if len(data) > maximum:
                    raise _too_long(maximum)
                if chunk and is_more:
                    timeout.reschedule(min(end, clock() + limits.idle_timeout))
    except TimeoutError:
        raise (unavailable(STOPPING) if waits.ended else _late(limits)) from None
    finally:
        waits.timeouts.discard(timeout)
    return Body(bytes(data), form)


def _late(limits: Limits) -> Refused:
    return Refused(
        408,
        f"the body took longer than {limits.body_timeout:g} seconds, or nothing of it came for "
        f"{limits.idle_timeout:g}",
    )


def _too_long(maximum: int) -> Refused:
    return Refused(413, f"a body may have {maximum:,} bytes: send the rows in parts")


def _format_of(content_type: str | None) -> BodyFormat:
    """Return the format of a body by its content type; JSON if there is none."""
    kind, _, parameters = (content_type or "application/json").partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "").partition("charset=")[2]
    if kind.strip().lower() not in FORMATS or charset not in ("", "utf-8", "utf8"):
        raise Refused(415, f"a body must be one of {', '.join(FORMATS)}, in UTF-8")
    return FORMATS[kind.strip().lower()]


async def parse_in(pool: Executor, data: bytes, work: Callable[..., T], *arguments: Any) -> T:
    """Call a function on a body, in a thread unless the body is small."""
    if len(data) <= INLINE:
        return work(*arguments)
    return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)


# Reading.


def parse_block(body: bytes, form: BodyFormat, schema: Schema, limits: Limits) -> Rounds:
    """Return labelled rows as a block to learn from; bad rows are null rounds in it."""
    rows, faults = _parse_body(body, form, limits)
    cells = object_columns(schema, rows, faults)
    _note_infinite({name: cells[name] for name in cells if name != schema.time}, faults)
    return schema.read(cells, faults, np.arange(1, 1 + len(rows)))


def parse_examples(body: bytes, form: BodyFormat, schema: Schema, limits: Limits) -> dict[str, Any]:
    """Return rows without labels, or a single one, as columns."""
    rows, faults = _parse_body(body, form, limits, allow_single=True)
    cells = {name: column(rows, name, faults) for name in schema.kinds}
    _note_infinite(cells, faults)
    examples = schema.read_columns(cells, faults)
    unread = np.flatnonzero(~readable_rows(schema.cls, examples)).tolist()
    for row in unread[:MAX_BAD_ROWS]:
        faults.setdefault(row, why_unread(schema.cls, row_of(examples, row)))
    if faults:
        bad = [BadRow(1 + row, faults[row]) for row in sorted(faults)[:MAX_BAD_ROWS]]
        raise bad_rows_refusal(bad, len(faults), len(rows))
    return examples


def bad_rows_refusal(bad: Sequence[BadRow], count: int, rows: int) -> Refused:
    """Return the refusal of a body for its bad rows."""
    sentence = f"{count:,} of {rows:,} rows cannot be read: row {bad[0].line}: {bad[0].sentence}"
    return Refused(422, sentence, rows=bad[:MAX_BAD_ROWS])


def _parse_body(
    body: bytes, form: BodyFormat, limits: Limits, *, allow_single: bool = False
) -> tuple[list[dict[str, Any]], Faults]:
    """Return the rows of a body, and what is wrong with some of them."""
    faults: Faults = {}
    if form == "ndjson":
        _check_count(count_lines(body), limits)
        lines = lines_of(body)
        for row, line in enumerate(lines if max(map(len, lines)) > MAX_ROW else ()):
            if len(line) > MAX_ROW:
                lines[row] = "{}"
                faults[row] = f"{len(line):,} characters, and a row may have {MAX_ROW:,}"
        rows = parse_objects(lines, faults, _DECODER.decode)
    else:
        try:
            rows = only_objects(_parse_json(body, limits, allow_single), faults)
        except RecursionError:
            raise Refused(400, "the body is nested too deep to be rows") from None
    for row, cells in enumerate(rows if max(map(len, rows)) > limits.fields else ()):
        if len(cells) > limits.fields:
            faults.setdefault(row, f"{len(cells):,} fields, and a row may have {limits.fields:,}")
    return rows, faults


def _check_count(count: int, limits: Limits) -> None:
    if count == 0:
        raise Refused(422, "there are no rows in the body")
    if count > limits.rows:
        raise Refused(413, f"a body may have {limits.rows:,} rows: send them in parts")


_SPACE = r"[ \t\n\r]*"
_OPENING = re.compile(rf'{_SPACE}(\{{{_SPACE}"rows"{_SPACE}:{_SPACE})?\[{_SPACE}')
_SPACES = re.compile(_SPACE)
_AFTER_ROW = re.compile(rf"{_SPACE}([,\]]){_SPACE}")
_END = {False: re.compile(rf"{_SPACE}\Z"), True: re.compile(rf"{_SPACE}\}}{_SPACE}\Z")}


def _parse_json(body: bytes, limits: Limits, allow_single: bool) -> list[Any]:
    """Return the rows of an array of JSON, which may be wrapped in an object."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(400, f"the body is not UTF-8 at byte {error.start}") from None
    opening = _OPENING.match(text)
    if opening is None:
        text = text.strip(" \t\n\r")
        row, end = _scan_row(text[:MAX_ROW], 0, whole=len(text) <= MAX_ROW)
        if allow_single and isinstance(row, dict) and end == len(text):
            return [row]
        raise Refused(422, f"{NOT_ROWS}{', or one row' if allow_single else ''}")
    rows, end = _scan_rows(text, opening.end(), limits)
    if _END[opening[1] is not None].match(text, end) is None:
        raise Refused(400, f"{NOT_ROWS}: something is left at character {end:,}")
    return rows


def _scan_rows(text: str, start: int, limits: Limits) -> tuple[list[Any], int]:
    """Return the rows of an array whose opening bracket stands before `start`, and its end.

    Some rows by each call, not all by one: rows beyond the limit are not parsed, and other threads
    run between two calls.
    """
    rows: list[Any] = []
    if text.startswith("]", start):
        _check_count(0, limits)
    window, origin, in_doubt = text[start : start + 2 * MAX_ROW], start, start
    while True:
        if start >= in_doubt:
            many, start = _scan_many(text, start)
            rows += many
            in_doubt = start if many else start + MANY_ROWS
        if start - origin > MAX_ROW:
            window, origin = text[start : start + 2 * MAX_ROW], start
        row, end = _scan_row(window, start - origin, whole=origin + len(window) == len(text))
        after = _AFTER_ROW.match(text, origin + end)
        if after is None:
            raise Refused(400, f"a comma or a bracket is missing at character {origin + end:,}")
        rows.append(row)
        start = after.end()
        if after[1] == "]" or len(rows) > limits.rows:
            _check_count(len(rows), limits)
            return rows, start


def _scan_many(text: str, start: int) -> tuple[list[Any], int]:
    """Return rows that end within a window, and where the next begins; none if that is in doubt."""
    # If this is no end of a row (but inside a text, or of an object inside one), what stands before
    # it is not JSON: a bracket or a quote is open.
    end = 1 + text.rfind("},", start, start + MANY_ROWS)
    try:
        rows = _PLAIN_DECODER.decode(f"[{text[start:end]}]") if end else []
    except ValueError:  # also for a number that is too long, which makes one row bad
        rows = []
    if not rows:
        return [], start
    return rows, _SPACES.match(text, 1 + end).end()  # type: ignore[union-attr]


def _scan_row(window: str, start: int, *, whole: bool) -> tuple[Any, int]:
    """Return the value at a place in a window of the body, and where it ends."""
    try:
        return _DECODER.raw_decode(window, start)
    except json.JSONDecodeError as error:
        if whole:
            raise Refused(400, f"the body is not JSON: {error.msg}") from None
        raise Refused(413, f"a row has more than {MAX_ROW:,} characters, or is not JSON") from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None


def _note_infinite(columns: Mapping[str, list[Any]], faults: Faults) -> None:
    """Add the faults of cells that hold an infinite number."""
    for name, cells in columns.items():
        # Python's decoder makes infinity of 1e999: no NaN or infinity may come in as a number.
        if float in {*map(type, cells)} and (math.inf in cells or -math.inf in cells):
            for row, cell in enumerate(cells):
                if cell in (math.inf, -math.inf):
                    faults.setdefault(row, f"column {name!r}: the number is too large")


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a value of JSON")


def _parse_int(digits: str) -> int | float:
    """Return a whole number; infinity, which `_cells` refuses, for one too long to convert."""
    # As Python counts them, without the sign.
    return int(digits) if len(digits.removeprefix("-")) <= MAX_DIGITS else math.inf


_PLAIN_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_parse_int)
