"""Parse class specifications: one grammar for every command; `littlestone dimension --help` has it."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes, Ranges
from littlestone._classes.conjunctions import Conjunctions
from littlestone._classes.finite import FiniteClass
from littlestone._classes.grids import Edges, Grid, OnGrid
from littlestone._classes.intervals import Intervals
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Points, Sets
from littlestone._classes.thresholds import Bins, Thresholds
from littlestone._classes.union import Complement, Union
from littlestone._hypotheses.cells import Number
from littlestone._hypotheses.values import from_json, to_json
from littlestone.errors import BadClass, BadExample, LittlestoneError

Read = TypeVar("Read")
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
    return _read_file(path, _parse_table)


def read_values(path: str | Path) -> dict[str, list[str]]:
    """Read the values of columns in a CSV file: a header `column,value`, then a pair a line."""
    return _read_file(path, _parse_values)


def _read_file(path: str | Path, parse: Callable[[Iterable[str]], Read]) -> Read:
    """Read a file that somebody wrote down, with errors that name it."""
    # "utf-8-sig", because spreadsheets write a byte-order mark, which would become part of a name.
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            text = file.read(LARGEST_TABLE + 1)
            if len(text) > LARGEST_TABLE:
                raise BadClass(f"a table has at most {LARGEST_TABLE:,} characters: this has more")
            return parse(StringIO(text, newline=""))
        except (BadClass, BadExample) as error:
            raise BadClass(f"{path}: {error}") from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadClass(f"{path}: not a CSV file of text: {error}") from None


def _parse_values(lines: Iterable[str]) -> dict[str, list[str]]:
    reader = csv.reader(lines)
    if next(reader, []) != ["column", "value"]:
        raise BadClass(
            "line 1: expected the header 'column,value', then a column and a value a line"
        )
    values: dict[str, list[str]] = {}
    for cells in filter(None, reader):
        if len(cells) != 2:
            raise BadClass(f"line {reader.line_num}: {len(cells)} cells where 2 are expected")
        values.setdefault(cells[0], []).append(cells[1])
    return values


def _parse_list(lines: Iterable[str]) -> list[str]:
    values = [line.rstrip("\r\n") for line in lines]
    return [value for value in values if value]


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


_GRAMMAR = {
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
        lambda conditions, **sizes: Causes(conditions[0], values=conditions[1], **sizes),
    ),
}


def parse_spec(
    spec: str, negative: Sequence[str] = (), values: str | Path | None = None
) -> HypothesisClass:
    """Return the class that a specification describes; of causes, with normal labels and values."""
    name, _, rest = spec.partition(":")
    if negative or values is not None:
        causes = parse_spec(spec)
        if not isinstance(causes, Causes):
            sentence = "--values is for causes:COLUMN,...: leave it out here"
            if negative:
                sentence = "--negative is for causes:COLUMN,...: use --positive VALUE here"
            raise BadSpec(spec, 0, len(name), sentence)
        more = {} if values is None else read_values(values)
        try:
            return replace(causes, normal=tuple(negative), values={**causes.values, **more})
        except BadClass as error:
            raise BadClass(f"{values}: {error}" if more else str(error)) from None
    if name == "table":
        if not rest:
            raise BadSpec(spec, len(spec), len(spec), "expected table:FILE.csv")
        return read_table(rest)
    if name not in _GRAMMAR:
        families = ", ".join([*_GRAMMAR, "table"])
        # People write the columns alone: they mean the class of causes.
        usage = "" if rest or not name else f". For a column, write causes:{name}"
        raise BadSpec(
            spec, 0, len(name), f"unknown family {name!r}: it is one of {families}{usage}"
        )
    return _build(spec, _GRAMMAR[name])


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


def _conditions(
    spec: str, parts: list[_Part]
) -> tuple[list[str | Ranges], dict[str, Sequence[str]]]:
    """Return the columns of causes: names, also with values, and numeric ones with their edges."""
    split = [_split(part.text, "@", part.start) for part in parts]
    # COLUMN=@FILE: the part before the at sign ends with what no column that has edges ends with.
    listed = [len(some) > 1 and some[0].text.endswith("=") for some in split]
    heads = [
        head._replace(text=head.text[:-1], end=head.end - 1) if values else head
        for (head, *_), values in zip(split, listed, strict=True)
    ]
    names = _columns(spec, heads)
    columns: list[str | Ranges] = []
    declared: dict[str, Sequence[str]] = {}
    for column, (_, *after), values in zip(names, split, listed, strict=True):
        if len(after) > 1:
            sentence = f"column {column!r} has edges twice: write a name with an at sign as \\@"
            raise BadSpec(spec, after[1].start - 1, after[1].end, sentence)
        if values:
            declared[column] = _listed_values(spec, column, after[0])
        columns.append(_ranges(spec, column, after[0]) if after and not values else column)
    return columns, declared


def _listed_values(spec: str, column: str, part: _Part) -> Sequence[str]:
    """Return the values in a file, one a line."""
    try:
        values = _read_file(part.name(), _parse_list)
    except (OSError, BadClass) as error:
        reason = getattr(error, "strerror", None) or error
        sentence = f"the values of {column!r} are in a file, one a line: {part.name()!r}: {reason}"
        raise BadSpec(spec, part.start, part.end, sentence) from None
    if not values:
        sentence = f"{part.name()!r} is empty: expected the values of {column!r}, one a line"
        raise BadSpec(spec, part.start, part.end, sentence)
    return values


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
    ends = [match.start() for match in re.finditer(rf"\\.|{mark}", text) if match[0] == mark]
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


# Classes as JSON, from which a store restores them exactly: a class that was read from a file does
# not depend on the file afterwards.

# Families whose parameters are plain values: the dataclass fields are the parameters.
_FAMILIES: dict[str, type[Any]] = {
    "points": Points,
    "sets": Sets,
    "rules": Rules,
    "thresholds": Thresholds,
    "intervals": Intervals,
    "bins": Bins,
    "conjunctions": Conjunctions,
}

_GRIDS: dict[str, type[Grid] | type[Edges]] = {"grid": Grid, "edges": Edges}


def class_to_json(cls: HypothesisClass) -> dict[str, Any]:
    """Return a class as JSON data, from which `class_from_json` restores the same class."""
    match cls:
        # Exact types: a subclass of a user may mean something else.
        case Complement(of=inner) if type(cls) is Complement:
            return {"kind": "complement", "of": class_to_json(inner)}
        case Union(members=members) if type(cls) is Union:
            return {"kind": "union", "members": [class_to_json(member) for member in members]}
        case FiniteClass() if type(cls) is FiniteClass:
            return {"kind": "table", **_table_to_json(cls)}
        case Causes(columns, width, limit, normal, values) if type(cls) is Causes:
            listed = [_column_to_json(column) for column in columns]
            more: dict[str, Any] = {"normal": list(normal)} if normal else {}
            if values:
                more["values"] = {name: list(map(to_json, some)) for name, some in values.items()}
            return {"kind": "causes", "columns": listed, "width": width, "limit": limit, **more}
    for kind, family in _FAMILIES.items():
        if type(cls) is family:
            return {"kind": kind, **_parameters(cls)}
    raise BadClass(
        f"{cls!r} cannot be written to a file: only the classes of littlestone can, and unions and "
        "complements of them"
    )


def class_from_json(data: Mapping[str, Any]) -> HypothesisClass:
    """Return the class that `class_to_json` wrote."""
    parts = {name: part for name, part in data.items() if name != "kind"}
    readers: dict[str, Callable[[], HypothesisClass]] = {
        "complement": lambda: Complement(class_from_json(data["of"])),
        "union": lambda: Union(*map(class_from_json, data["members"])),
        "table": lambda: _table_from_json(data),
        "causes": lambda: Causes(
            list(map(_column_from_json, data["columns"])),
            data["width"],
            data["limit"],
            data.get("normal", ()),
            {name: list(map(from_json, some)) for name, some in data.get("values", {}).items()},
        ),
    }
    kind = data["kind"]
    if kind in readers:
        return readers[kind]()
    if kind not in _FAMILIES:
        raise BadClass(f"no class is called {kind!r}")
    made: HypothesisClass = _FAMILIES[kind](**{name: from_json(v) for name, v in parts.items()})
    return made


def same_class(one: HypothesisClass, other: HypothesisClass) -> bool:
    """Return whether two classes are the same, each value in its own type (1 is not True)."""
    # The text tells 1 from True and 1.0, and calls NaN equal to itself: `==` does neither.
    first, second = (json.dumps(class_to_json(cls), sort_keys=True) for cls in (one, other))
    return first == second


def _parameters(cls: Any) -> dict[str, Any]:
    if isinstance(cls, OnGrid):
        # Its numbers are canonical (70, not 70.0), those of the class as given.
        grid = cls.grid
        return {"lo": grid.lo, "hi": grid.hi, "step": grid.step, "column": cls.column}
    # Points inherits the field k of Sets, which its constructor does not take.
    names = ["column"] if isinstance(cls, Points) else [field.name for field in fields(cls)]
    return {name: to_json(getattr(cls, name)) for name in names}


def _column_to_json(column: str | Ranges) -> object:
    if isinstance(column, Ranges):
        return {"column": column.column, "edges": list(column.edges)}
    return column


def _column_from_json(data: Any) -> str | Ranges:
    return Ranges(data["column"], data["edges"]) if isinstance(data, Mapping) else data


def _table_to_json(cls: FiniteClass) -> dict[str, Any]:
    grid = None
    for kind, grid_type in _GRIDS.items():
        if isinstance(cls.grid, grid_type):
            names = [field.name for field in fields(grid_type)]
            grid = {"kind": kind, **{name: to_json(getattr(cls.grid, name)) for name in names}}
    return {
        "rows": ["".join("1" if label else "0" for label in row) for row in cls.rows],
        "points": to_json(tuple(cls.points or ())),
        "column": cls.column,
        "vote": cls.vote,
        "grid": grid,
    }


def _table_from_json(data: Mapping[str, Any]) -> FiniteClass:
    grid = None
    if data["grid"] is not None:
        parameters = {name: from_json(v) for name, v in data["grid"].items() if name != "kind"}
        grid = _GRIDS[data["grid"]["kind"]](**parameters)  # type: ignore[arg-type]
    rows = [[int(label) for label in row] for row in data["rows"]]
    points: Any = from_json(data["points"])
    return FiniteClass(rows, points, data["column"], data["vote"], grid)
