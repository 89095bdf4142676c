"""Convert hypothesis classes to JSON data and back, exactly.

A class that was read from a file does not depend on the file afterwards: stores keep this JSON.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

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
from littlestone._hypotheses.values import from_json, to_json
from littlestone.errors import BadClass

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
        case Causes(columns, width, limit, normal) if type(cls) is Causes:
            listed = [_column_to_json(column) for column in columns]
            outcomes = {"normal": list(normal)} if normal else {}
            return {
                "kind": "causes", "columns": listed, "width": width, "limit": limit, **outcomes
            }  # fmt: skip
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
