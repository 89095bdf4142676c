"""Hypothesis classes as JSON data, and back: exactly the class, whatever it was made from.

A class that was read from a file keeps no tie to the file, so whoever stores one stores this.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from littlestone.theory.bins import Bins
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.combinations import Complement, Union
from littlestone.theory.conjunctions import Conjunctions
from littlestone.theory.errors import BadClass
from littlestone.theory.finite import FiniteClass
from littlestone.theory.grids import Edges, Grid, OnGrid
from littlestone.theory.intervals import Intervals
from littlestone.theory.rules import Rules
from littlestone.theory.sets import Points, Sets
from littlestone.theory.thresholds import Thresholds
from littlestone.theory.values import from_json, to_json

_FAMILIES: dict[str, type[Any]] = {
    "points": Points,
    "sets": Sets,
    "rules": Rules,
    "thresholds": Thresholds,
    "intervals": Intervals,
    "bins": Bins,
    "conjunctions": Conjunctions,
}
"""Families whose parameters are plain values: their fields are what they are made from."""

_GRIDS: dict[str, type[Grid] | type[Edges]] = {"grid": Grid, "edges": Edges}


def class_to_json(cls: HypothesisClass) -> dict[str, Any]:
    """Return a class as JSON data; `class_from_json` makes the same class of it.

    Raises
    ------
    BadClass
        If the class is not one of littlestone's own, such as one that a user has written.

    Examples
    --------
    >>> from littlestone.theory.sets import Points
    >>> class_to_json(Complement(Points("merchant")))
    {'kind': 'complement', 'of': {'kind': 'points', 'column': 'merchant'}}
    """
    match cls:
        case Complement(of=inner) if type(cls) is Complement:
            return {"kind": "complement", "of": class_to_json(inner)}
        case Union(members=members) if type(cls) is Union:
            return {"kind": "union", "members": [class_to_json(member) for member in members]}
        case FiniteClass() if type(cls) is FiniteClass:
            return {"kind": "table", **_table_to_json(cls)}
    for kind, family in _FAMILIES.items():
        if type(cls) is family:
            return {"kind": kind, **_parameters(cls)}
    raise BadClass(
        f"{cls!r} cannot be written to a file: only the classes of littlestone can, and unions and "
        "complements of them"
    )


def class_from_json(data: Mapping[str, Any]) -> HypothesisClass:
    """Return the class that `class_to_json` wrote.

    Examples
    --------
    >>> class_from_json({"kind": "sets", "k": 2, "column": "merchant"})
    Sets(k=2, column='merchant')
    """
    parts = {name: part for name, part in data.items() if name != "kind"}
    readers: dict[str, Callable[[], HypothesisClass]] = {
        "complement": lambda: Complement(class_from_json(data["of"])),
        "union": lambda: Union(*map(class_from_json, data["members"])),
        "table": lambda: _table_from_json(data),
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
    if isinstance(cls, OnGrid):  # the grid has the one spelling of a number: 70, not 70.0
        grid = cls.grid
        return {"lo": grid.lo, "hi": grid.hi, "step": grid.step, "column": cls.column}
    names = ["column"] if isinstance(cls, Points) else [field.name for field in fields(cls)]
    return {name: to_json(getattr(cls, name)) for name in names}


def _table_to_json(cls: FiniteClass) -> dict[str, Any]:
    grid = None
    for kind, some in _GRIDS.items():
        if isinstance(cls.grid, some):
            named = {field.name: to_json(getattr(cls.grid, field.name)) for field in fields(some)}
            grid = {"kind": kind, **named}
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
        named = {name: from_json(v) for name, v in data["grid"].items() if name != "kind"}
        grid = _GRIDS[data["grid"]["kind"]](**named)  # type: ignore[arg-type]
    rows = [[int(label) for label in row] for row in data["rows"]]
    points: Any = from_json(data["points"])
    return FiniteClass(rows, points, data["column"], data["vote"], grid)
