"""JSON lines: every line is a record, and a record is an object.

A line that is blank, or no JSON, or JSON but no object, or without a key that is wanted, is a null
round. A line never reaches into the next, so no row can move another.
"""

import json
from typing import Any

import numpy as np

from littlestone.edge.blocks import Wanted, shown
from littlestone.edge.cells import Cells, Read, json_numbers
from littlestone.edge.pieces import Faults
from littlestone.edge.text import LOOKED_AT, Split

_NOTHING = object()


class JsonLines:
    """Objects, one a line, whose keys are the columns."""

    def __init__(self, name: str, wanted: Wanted) -> None:
        self.name, self.wanted = name, wanted

    def begin(self, lines: list[str]) -> int:
        """Refuse a file whose first objects all lack a wanted key. There is no header."""
        rows = _objects(lines[:LOOKED_AT], {})
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
        rows = _objects(lines, faults)
        cells = {name: _column(rows, name, faults) for name in self.wanted.names}
        return Split(cells, faults, np.arange(len(lines)), len(lines))

    def numbers(self, cells: Cells) -> Read:
        """A column of values as numbers."""
        return json_numbers(cells)


def _objects(lines: list[str], faults: Faults) -> list[dict[str, Any]]:
    """The object of each line; an empty one, at fault, where there is none."""
    try:
        rows = list(map(json.loads, lines))
        if {*map(type, rows)} <= {dict}:
            return rows
    except (ValueError, RecursionError):
        pass
    return [_object(line, at, faults) for at, line in enumerate(lines)]


def _object(line: str, at: int, faults: Faults) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if isinstance(row, dict):
            return row
        faults[at] = f"{shown(row)} is not an object of JSON"
    except (ValueError, RecursionError) as error:
        faults[at] = f"not a line of JSON: {error}" if line.strip() else "the line is blank"
    return {}


def _column(rows: list[dict[str, Any]], name: str, faults: Faults) -> Cells:
    try:
        return [row[name] for row in rows]
    except KeyError:
        cells = [row.get(name, _NOTHING) for row in rows]
    for at, cell in enumerate(cells):
        if cell is _NOTHING:
            faults.setdefault(at, f"no column {name!r}")
            cells[at] = None
    return cells
