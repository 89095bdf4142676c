"""JSON lines: every line is a record, and a record is an object.

A line that is blank, or no JSON, or JSON but no object, or without a key that is wanted, is a null
round. A line never reaches into the next, so no row can move another.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from littlestone.data.blocks import Cells, ColumnSchema, Faults, quoted
from littlestone.data.text import LOOKED_AT, Split

_NOTHING = object()


class JsonLines:
    """Objects, one a line, whose keys are the columns."""

    def __init__(self, name: str, wanted: ColumnSchema) -> None:
        self.name, self.wanted = name, wanted

    def begin(self, lines: list[str]) -> int:
        """Refuse a file whose first objects all lack a wanted key. There is no header."""
        rows = objects(lines[:LOOKED_AT], {})
        keys = dict.fromkeys(key for row in rows for key in row)
        if keys:
            self.wanted.check_names(self.name, keys)
        return 0

    def is_plain(self, chunk: bytes) -> bool:
        """Every line is a record."""
        return True

    def split(self, lines: list[str], last: bool) -> Split:
        """The values of each wanted key; what is missing is None, and its row at fault."""
        faults: Faults = {}
        rows = objects(lines, faults)
        cells = {name: column(rows, name, faults) for name in self.wanted.names}
        return Split(cells, faults, np.arange(len(lines)), len(lines))


def objects(
    lines: list[str], faults: Faults, decode: Callable[[str], Any] = json.loads
) -> list[dict[str, Any]]:
    """The object of each line; an empty one, at fault, where there is none."""
    try:
        values = list(map(decode, lines))
    except (ValueError, RecursionError):
        values = [_value(line, at, faults, decode) for at, line in enumerate(lines)]
    return only_objects(values, faults)


def _value(line: str, at: int, faults: Faults, decode: Callable[[str], Any]) -> Any:
    try:
        return decode(line)
    except (ValueError, RecursionError) as error:
        faults[at] = f"not a line of JSON: {error}" if line.strip() else "the line is blank"
    return {}


def only_objects(values: Sequence[Any], faults: Faults) -> list[dict[str, Any]]:
    """The values that are objects; an empty one, at fault, in place of any other.

    >>> faults: Faults = {}
    >>> only_objects([{"a": 1}, 7], faults), faults
    ([{'a': 1}, {}], {1: '7 is not an object of JSON'})
    """
    if {*map(type, values)} <= {dict}:
        return list(values)
    for at, value in enumerate(values):
        if not isinstance(value, dict):
            faults[at] = f"{quoted(value)} is not an object of JSON"
    return [value if isinstance(value, dict) else {} for value in values]


def column(rows: Sequence[dict[str, Any]], name: str, faults: Faults) -> Cells:
    """What each row holds under a key; where it holds nothing, None, and the row is at fault."""
    try:
        return [row[name] for row in rows]
    except KeyError:
        cells = [row.get(name, _NOTHING) for row in rows]
    for at, cell in enumerate(cells):
        if cell is _NOTHING:
            faults.setdefault(at, f"no column {name!r}")
            cells[at] = None
    return cells
