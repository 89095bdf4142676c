"""Class specifications: one grammar for every verb.

    points:COLUMN                     at most one positive value
    sets:COLUMN:K                     at most K positive values
    rules:COLUMN,COLUMN,...           one column = value
    thresholds:COLUMN:LO:HI[:STEP]    column >= cut, on a grid (STEP is 1 if left out)
    intervals:COLUMN:LO:HI[:STEP]     low <= column < high, on a grid
    conjunctions:COLUMN,COLUMN,...    ands of boolean columns, negated or not
    table:FILE.csv                    any explicit class

A table is a CSV file. Its first line names the column and the points, which are read as text; each
further line is a hypothesis, its name and then 0 or 1 for each point:

    merchant,A,B,C
    only A,1,0,0
    all but A,0,1,1

A backslash before a colon, a comma or a backslash makes it part of a name.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from littlestone.edge.tables import read_table
from littlestone.errors import LittlestoneError
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.conjunctions import Conjunctions
from littlestone.theory.errors import BadClass
from littlestone.theory.intervals import Intervals
from littlestone.theory.numbers import Number
from littlestone.theory.rules import Rules
from littlestone.theory.sets import Points, Sets
from littlestone.theory.thresholds import Thresholds


class BadSpec(LittlestoneError, ValueError):
    """A specification that cannot be read; its text points at the bad part."""

    def __init__(self, spec: str, start: int, end: int, sentence: str) -> None:
        marker = " " * start + "^" * max(1, end - start)
        super().__init__(f"{sentence}\n  {spec}\n  {marker}")


class _Part(NamedTuple):
    """A piece of a specification and where it stands."""

    text: str
    start: int
    end: int

    def named(self) -> str:
        """The piece with its backslashes resolved."""
        return re.sub(r"\\([:,\\])", r"\1", self.text)


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
}


def parse_spec(spec: str) -> HypothesisClass:
    """The class that a specification names.

    >>> parse_spec("thresholds:score:0:100:5")
    Thresholds(lo=0, hi=100, step=5, column='score')
    >>> parse_spec("thresholds:score:0:100:7")
    Traceback (most recent call last):
    littlestone.edge.specs.BadSpec: step 7 does not divide the range from 0 to 100: ...
      thresholds:score:0:100:7
                             ^
    """
    name, _, rest = spec.partition(":")
    if name == "table":
        if not rest:
            raise BadSpec(spec, len(spec), len(spec), "expected table:FILE.csv")
        return read_table(rest)
    if name not in _FAMILIES:
        known = ", ".join([*_FAMILIES, "table"])
        raise BadSpec(spec, 0, len(name), f"unknown family {name!r}: it is one of {known}")
    return _build(spec, _FAMILIES[name])


def _build(spec: str, family: _Family) -> HypothesisClass:
    parts = _split(spec, ":", 0)[1:]
    fewest, most = len(family.fields) - family.optional, len(family.fields)
    if len(parts) < fewest:
        missing = family.fields[len(parts)].upper()
        raise BadSpec(spec, len(spec), len(spec), f"{missing} is missing: {family.usage}")
    if len(parts) > most:
        raise BadSpec(spec, parts[most].start, len(spec), f"one part too many: {family.usage}")
    given = dict(zip(family.fields, parts, strict=False))
    try:
        return family.build(**{field: _read(spec, field, part) for field, part in given.items()})
    except BadClass as error:
        part = given.get(error.field or "", given[family.fields[0]])
        raise BadSpec(spec, part.start, part.end, str(error)) from None


def _read(spec: str, field: str, part: _Part) -> object:
    if field == "column":
        return _named(spec, part)
    if field == "columns":
        return _columns(spec, _split(part.text, ",", part.start))
    number = _number(part.text)
    if number is None or (field == "k" and not isinstance(number, int)):
        kind = "whole number" if field == "k" else "number"
        raise BadSpec(
            spec, part.start, part.end, f"{field.upper()} is a {kind}: {part.text!r} is not"
        )
    return number


def _columns(spec: str, parts: list[_Part]) -> list[str]:
    names: list[str] = []
    for part in parts:
        if _named(spec, part) in names:
            raise BadSpec(spec, part.start, part.end, f"column {part.named()!r} is named twice")
        names.append(part.named())
    return names


def _named(spec: str, part: _Part) -> str:
    if not part.text:
        raise BadSpec(spec, part.start, part.end, "a column name is missing")
    return part.named()


def _split(text: str, mark: str, offset: int) -> list[_Part]:
    """The pieces between marks that no backslash precedes."""
    ends = [found.start() for found in re.finditer(rf"\\.|{mark}", text) if found[0] == mark]
    starts = [0, *(end + 1 for end in ends)]
    return [
        _Part(text[start:end], offset + start, offset + end)
        for start, end in zip(starts, [*ends, len(text)], strict=True)
    ]


def _number(text: str) -> Number | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
