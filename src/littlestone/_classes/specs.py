"""Parse class specifications: one grammar for every command.

    points:COLUMN                     at most one positive value
    sets:COLUMN:K                     at most K positive values
    rules:COLUMN,COLUMN,...           one column = value
    thresholds:COLUMN:LO:HI[:STEP]    column >= cut, on a grid (STEP is 1 if left out)
    intervals:COLUMN:LO:HI[:STEP]     low <= column < high, on a grid
    conjunctions:COLUMN,COLUMN,...    ands of boolean columns, negated or not
    causes:COLUMN,...[:WIDTH[:LIMIT]] an or of up to LIMIT ands of up to WIDTH conditions, each
                                      column = value, or a range of a numeric column with edges,
                                      written age@18/30/65 (WIDTH is 1, LIMIT 8 if left out)
    table:FILE.csv                    any explicit class

A table is a CSV file. Its first line names the column and the points, which are read as text; each
further line is a hypothesis, its name and then 0 or 1 for each point:

    merchant,A,B,C
    only A,1,0,0
    all but A,0,1,1

A backslash before a colon, a comma or a backslash makes it part of a name; in `causes` also before
an at sign.
"""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes, Ranges
from littlestone._classes.conjunctions import Conjunctions
from littlestone._classes.finite import FiniteClass
from littlestone._classes.intervals import Intervals
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Points, Sets
from littlestone._classes.thresholds import Thresholds
from littlestone._hypotheses.compare import Number
from littlestone.errors import BadClass, BadExample, LittlestoneError

# Characters. What is larger is no class that somebody wrote down, or has no end, as /dev/zero.
LARGEST_TABLE = 16_000_000


def read_table(path: str | Path) -> FiniteClass:
    """Read the class in a CSV file, with errors that name file, line and column.

    Parameters
    ----------
    path : str or Path
        The file. Its first line names the column and the points; each further line is a rule, its
        name and then 0 or 1 for each point.

    Raises
    ------
    BadClass
        If the file does not hold such a table.
    """
    # "utf-8-sig", because spreadsheets write a byte-order mark, which would become part of a name.
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            text = file.read(LARGEST_TABLE + 1)
            if len(text) > LARGEST_TABLE:
                raise BadClass(f"a table has at most {LARGEST_TABLE:,} characters: this has more")
            return _parse_table(StringIO(text, newline=""))
        except (BadClass, BadExample) as error:
            raise BadClass(f"{path}: {error}") from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadClass(f"{path}: not a CSV file of text: {error}") from None


def _parse_table(lines: Iterable[str]) -> FiniteClass:
    """Read the class in the lines of a CSV file."""
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


class BadSpec(LittlestoneError, ValueError):
    """Report a specification that cannot be read, with a mark below the bad part."""

    def __init__(self, spec: str, start: int, end: int, sentence: str) -> None:
        marker = " " * start + "^" * max(1, end - start)
        super().__init__(f"{sentence}\n  {spec}\n  {marker}")


class _Part(NamedTuple):
    """Hold a piece of a specification, and its place."""

    text: str
    start: int
    end: int

    def name(self) -> str:
        """Return the piece with its backslashes resolved."""
        return re.sub(r"\\([:,@\\])", r"\1", self.text)


class _Family(NamedTuple):
    usage: str
    fields: tuple[str, ...]
    optional: int
    build: Callable[..., HypothesisClass]


def _grid(kind: type[Thresholds] | type[Intervals]) -> Callable[..., HypothesisClass]:
    def build(column: str, lo: Number, hi: Number, step: Number = 1) -> HypothesisClass:
        return kind(lo, hi, step, column)

    return build


_FAMILIES = {
    "points": _Family("points:COLUMN", ("column",), 0, lambda column: Points(column)),
    "sets": _Family("sets:COLUMN:K", ("column", "k"), 0, lambda column, k: Sets(k, column)),
    "rules": _Family("rules:COLUMN,COLUMN,...", ("columns",), 0, lambda columns: Rules(columns)),
    "thresholds": _Family(
        "thresholds:COLUMN:LO:HI[:STEP]", ("column", "lo", "hi", "step"), 1, _grid(Thresholds)
    ),
    "intervals": _Family(
        "intervals:COLUMN:LO:HI[:STEP]", ("column", "lo", "hi", "step"), 1, _grid(Intervals)
    ),
    "conjunctions": _Family(
        "conjunctions:COLUMN,COLUMN,...", ("columns",), 0, lambda columns: Conjunctions(columns)
    ),
    "causes": _Family(
        "causes:COLUMN,COLUMN,...[:WIDTH[:LIMIT]]",
        ("conditions", "width", "limit"),
        2,
        lambda conditions, **sizes: Causes(conditions, **sizes),
    ),
}


def parse_spec(spec: str, negative: Sequence[str] = ()) -> HypothesisClass:
    """Return the class that a specification describes."""
    name, _, rest = spec.partition(":")
    if negative:
        found = parse_spec(spec)
        if not isinstance(found, Causes):
            raise BadSpec(
                spec, 0, len(name), "--negative is for causes:COLUMN,...: use --positive VALUE here"
            )
        return replace(found, normal=tuple(negative))
    if name == "table":
        if not rest:
            raise BadSpec(spec, len(spec), len(spec), "expected table:FILE.csv")
        return read_table(rest)
    if name not in _FAMILIES:
        known = ", ".join([*_FAMILIES, "table"])
        # People write the columns alone: they mean the class of causes.
        usage = "" if rest or not name else f". For a column, write causes:{name}"
        raise BadSpec(spec, 0, len(name), f"unknown family {name!r}: it is one of {known}{usage}")
    return _build(spec, _FAMILIES[name])


def _build(spec: str, family: _Family) -> HypothesisClass:
    parts = _split(spec, ":", 0)[1:]
    fewest, most = len(family.fields) - family.optional, len(family.fields)
    if len(parts) < fewest:
        missing = family.fields[len(parts)].replace("conditions", "columns").upper()
        raise BadSpec(spec, len(spec), len(spec), f"{missing} is missing: {family.usage}")
    if len(parts) > most:
        raise BadSpec(spec, parts[most].start, len(spec), f"one part too many: {family.usage}")
    given = dict(zip(family.fields, parts, strict=False))
    try:
        return family.build(**{field: _read(spec, field, part) for field, part in given.items()})
    except BadClass as error:
        # The error of a class names its field, so the mark goes below that part.
        part = given.get(error.field or "", given[family.fields[0]])
        raise BadSpec(spec, part.start, part.end, str(error)) from None


def _read(spec: str, field: str, part: _Part) -> object:
    if field == "column":
        return _column_name(spec, part)
    if field == "columns":
        return _columns(spec, _split(part.text, ",", part.start))
    if field == "conditions":
        return _conditions(spec, _split(part.text, ",", part.start))
    number, whole = _number(part.text), field in _WHOLE
    if number is None or (whole and not isinstance(number, int)):
        kind = "whole number" if whole else "number"
        raise BadSpec(
            spec, part.start, part.end, f"{field.upper()} is a {kind}: {part.text!r} is not"
        )
    return number


# The fields of specifications that are whole numbers.
_WHOLE = {"k", "width", "limit"}


def _conditions(spec: str, parts: list[_Part]) -> list[str | Ranges]:
    """Return the columns of causes: names, and numeric columns with their edges."""
    split = [_split(part.text, "@", part.start) for part in parts]
    names = _columns(spec, [name for name, *_ in split])
    found: list[str | Ranges] = []
    for column, (_, *edges) in zip(names, split, strict=True):
        if len(edges) > 1:
            sentence = f"column {column!r} has edges twice: write a name with an at sign as \\@"
            raise BadSpec(spec, edges[1].start - 1, edges[1].end, sentence)
        found.append(_ranges(spec, column, edges[0]) if edges else column)
    return found


def _ranges(spec: str, column: str, part: _Part) -> Ranges:
    edges: list[Number] = []
    for edge in _split(part.text, "/", part.start):
        number = _number(edge.text)
        if number is None:
            sentence = f"an edge is a number: {edge.text!r} is not; write {column}@18/30/65"
            raise BadSpec(spec, edge.start, edge.end, sentence)
        if edges and number <= edges[-1]:
            sentence = f"edges must increase: {number} comes after {edges[-1]}"
            raise BadSpec(spec, edge.start, edge.end, sentence)
        edges.append(number)
    try:
        return Ranges(column, edges)
    except BadClass as error:
        raise BadSpec(spec, part.start, part.end, str(error)) from None


def _columns(spec: str, parts: list[_Part]) -> list[str]:
    names: list[str] = []
    for part in parts:
        if _column_name(spec, part) in names:
            raise BadSpec(spec, part.start, part.end, f"column {part.name()!r} is named twice")
        names.append(part.name())
    return names


def _column_name(spec: str, part: _Part) -> str:
    if not part.text:
        raise BadSpec(spec, part.start, part.end, "a column name is missing")
    return part.name()


def _split(text: str, mark: str, offset: int) -> list[_Part]:
    """Return the pieces between marks that no backslash precedes."""
    # Escapes are matched first: a mark after a backslash is never found alone.
    ends = [found.start() for found in re.finditer(rf"\\.|{mark}", text) if found[0] == mark]
    starts = [0, *(end + 1 for end in ends)]
    return [
        _Part(text[start:end], offset + start, offset + end)
        for start, end in zip(starts, [*ends, len(text)], strict=True)
    ]


def _number(text: str) -> Number | None:
    # Whole numbers first: 7 and 7.0 print differently in a rule.
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
