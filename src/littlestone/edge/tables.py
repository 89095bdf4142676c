"""Reading an explicit class from a CSV file.

The first line names the column and its points; every further line is a hypothesis: its name, then a
0 or 1 for each point.

    merchant,A,B,C
    only A,1,0,0
    all but A,0,1,1
"""

import csv
from collections.abc import Iterable
from pathlib import Path

from littlestone.theory.errors import BadClass, BadExample
from littlestone.theory.finite import FiniteClass


def read_table(path: str | Path) -> FiniteClass:
    """The class in a CSV file, with errors that name file, line and column."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            return parse_table(file)
        except (BadClass, BadExample) as error:
            raise BadClass(f"{path}: {error}") from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadClass(f"{path}: not a CSV file of text: {error}") from None


def parse_table(lines: Iterable[str]) -> FiniteClass:
    """The class in the lines of a CSV file.

    >>> print(*parse_table(["merchant,A,B", "only A,1,0", "nobody,0,0"]).hypotheses(), sep="; ")
    merchant = 'A'; never
    """
    reader = csv.reader(lines)
    header = next(reader, [])
    if len(header) < 2:
        raise BadClass("line 1: expected a column name and points, with commas, such as 'x,a,b,c'")
    rows: dict[tuple[int, ...], int] = {}
    for cells in reader:
        if not cells:
            continue
        row = _labels(cells, header, reader.line_num)
        if row in rows:
            raise BadClass(
                f"line {reader.line_num}: {cells[0]!r} is the same hypothesis as line {rows[row]}: "
                "keep one of the two"
            )
        rows[row] = reader.line_num
    if not rows:
        raise BadClass("the table is empty: no line after the first holds a hypothesis")
    return FiniteClass(list(rows), header[1:], header[0] or None)


def _labels(cells: list[str], header: list[str], line: int) -> tuple[int, ...]:
    if len(cells) != len(header):
        raise BadClass(f"line {line}: {len(cells)} cells where line 1 has {len(header)}")
    for point, cell in zip(header[1:], cells[1:], strict=True):
        if cell.strip() not in ("0", "1"):
            raise BadClass(f"line {line}, column {point!r}: {cell!r} is not 0 or 1")
    return tuple(int(cell) for cell in cells[1:])
