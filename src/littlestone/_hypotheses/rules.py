"""The base of hypotheses: rules that can be published.

A hypothesis is a canonical function from examples to {0, 1}. Its identity is its `key`, canonical
bytes; equality, hash, order, JSON and text all derive from the same fields. It holds no sample and
no version space, so publishing it publishes nothing but its text.

The kinds of hypotheses: sets of values, ranges, conjunctions, thresholds of pairs, negations.

Build one with `one_of`, `between`, `all_of`, `at_least` or `negation`, never with the classes: the
builders return the canonical form of a function (no values at all is `NEVER`, not an empty set).
`rule_from_json` reads exactly what `Hypothesis.to_json` wrote, and nothing else.
"""

import operator
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property, total_ordering
from itertools import pairwise
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from littlestone._display import code
from littlestone._hypotheses.cells import Number, float_not_below, number_of, simplest, truth_of
from littlestone._hypotheses.rows import (
    Column,
    checked_column,
    checked_columns,
    column_of,
    table_length,
    value_of,
)
from littlestone._hypotheses.values import (
    Mask,
    Plain,
    canonical,
    encode,
    from_json,
    key_of,
    read_back,
    to_json,
)
from littlestone.errors import BadClass


@cache
def _head(kind: "type[Hypothesis]") -> tuple[tuple[str, ...], bytes]:
    """Return the names of the fields of a kind, and the bytes with which its keys begin."""
    return tuple(field.name for field in fields(kind)), encode((kind.kind,))


@total_ordering
@dataclass(frozen=True, eq=False)
class Hypothesis(ABC):
    """Label examples by a rule, identified by its canonical form.

    To add a kind, write a frozen dataclass with `eq=False` whose fields are values, tuples of
    values, or hypotheses, with `kind` and the abstract methods below.
    """

    kind: ClassVar[str]
    # Not a field: the key, once it is made.
    _key: ClassVar[bytes | None] = None

    @abstractmethod
    def __call__(self, x: object) -> bool:
        """Return the label of one example."""

    @abstractmethod
    def predict(self, X: Any) -> Mask:
        """Return the label of each example of a batch."""

    @abstractmethod
    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        """Return, for each column that the rule reads, the values at which its label can change."""

    @abstractmethod
    def __str__(self) -> str: ...

    def negated(self) -> str:
        """Return the text of the negation."""
        return f"not ({self})"

    @property
    def key(self) -> bytes:
        """Return the canonical bytes: two hypotheses are equal exactly when their keys are."""
        # A forest makes many rules, and `cached_property` takes as long as the key itself.
        if self._key is None:
            # As `encode` writes a tuple of the kind and the fields.
            names, key = _head(type(self))
            for name in names:
                part = getattr(self, name)
                # No value has a key: a part that has one is a hypothesis.
                data = encode(getattr(part, "key", part))
                key += len(data).to_bytes(8) + data
            object.__setattr__(self, "_key", key)
            return key
        return self._key

    def _repr_html_(self) -> str:
        return code(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hypothesis) and self.key == other.key

    def __lt__(self, other: object) -> bool:
        return self.key < other.key if isinstance(other, Hypothesis) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key or self.key)

    def to_json(self) -> dict[str, object]:
        """Return the rule as JSON data, from which `rule_from_json` restores it exactly.

        Examples
        --------
        >>> from littlestone._hypotheses.rules import one_of
        >>> one_of(["4.2.1"], "version").to_json()
        {'kind': 'one of', 'values': {'tuple': ['4.2.1']}, 'column': 'version'}
        """
        data: dict[str, object] = {"kind": self.kind}
        for field in fields(self):
            part = getattr(self, field.name)
            data[field.name] = part.to_json() if isinstance(part, Hypothesis) else to_json(part)
        return data


@dataclass(frozen=True, eq=False)
class Constant(Hypothesis):
    """Give every example the same label: `always` or `never`."""

    kind = "constant"
    answer: bool

    def __call__(self, x: object) -> bool:
        return self.answer

    def predict(self, X: Any) -> Mask:
        return np.full(table_length(X), self.answer)

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return {}

    def __str__(self) -> str:
        return "always" if self.answer else "never"


ALWAYS = Constant(True)
NEVER = Constant(False)


def _name(column: Column) -> str:
    return "x" if column is None else column


@dataclass(frozen=True, eq=False)
class OneOf(Hypothesis):
    """Test `column in values`, or `column = value` for one value."""

    kind = "one of"
    values: tuple[Plain, ...]
    column: Column

    @cached_property
    def _keys(self) -> frozenset[bytes]:
        return frozenset(map(encode, self.values))

    @cached_property
    def _texts(self) -> frozenset[str]:
        """Return the texts that are one of the values: for text, the same test without a key."""
        texts = {str(value) for value in self.values if isinstance(value, str | int)}
        # What a negative zero prints as is a text of zero.
        return frozenset(text for text in (*texts, "-0.0") if key_of(text) in self._keys)

    def has(self, cell: object) -> bool:
        """Return whether a cell is one of the values."""
        return cell in self._texts if type(cell) is str else key_of(cell) in self._keys

    def __call__(self, x: object) -> bool:
        column = self.column
        return self.has(x[column] if type(x) is dict and column in x else value_of(x, column))

    def predict(self, X: Any) -> Mask:
        mask: Mask = column_of(X, self.column, "value").among(self._keys)
        return mask

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return {self.column: self.values}

    def __str__(self) -> str:
        return self._text("=", "in")

    def negated(self) -> str:
        return self._text("!=", "not in")

    def _text(self, single: str, several: str) -> str:
        listed = ", ".join(repr(value) for value in sorted(self.values, key=_reading_order))
        if len(self.values) == 1:
            return f"{_name(self.column)} {single} {listed}"
        return f"{_name(self.column)} {several} {{{listed}}}"


def _reading_order(value: Plain) -> tuple[str, Any]:
    """Return the key by which values are printed: by type, and numbers by size."""
    is_number = isinstance(value, int | float) and value == value
    return type(value).__name__, value if is_number else encode(value)


def one_of(values: Iterable[object], column: Column = None) -> Hypothesis:
    """Return the rule that holds for some values of a column.

    Parameters
    ----------
    values : iterable of object
        The values, in any order; equal ones count once.
    column : str, optional
        The column to read; None if an example is the value itself.

    Returns
    -------
    Hypothesis
        The rule; `NEVER` without values.

    Raises
    ------
    BadExample
        If a value has no canonical form.

    Examples
    --------
    >>> print(one_of(["4.2.1"], "version"), "|", one_of([2, 1, 1]), "|", one_of([]))
    version = '4.2.1' | x in {1, 2} | never
    """
    # In the order of the keys: two sets of the same values must have the same bytes.
    distinct = {encode(value): value for value in map(canonical, values)}
    if not distinct:
        return NEVER
    return OneOf(tuple(distinct[key] for key in sorted(distinct)), checked_column(column))


@dataclass(frozen=True, eq=False)
class Steps(Hypothesis):
    """Test in which range a number lies, such as `score >= 70`."""

    kind = "steps"
    below: bool
    cuts: tuple[Number, ...]
    column: Column

    def __call__(self, x: object) -> bool:
        column = self.column
        # First the common case; `value_of` has it too, but a call takes as long as all the rest.
        cell: Any = x[column] if type(x) is dict and column in x else value_of(x, column)
        # NaN, which is not equal to itself, is a missing number.
        plain = type(cell) is float and cell == cell
        passed = bisect_right(self.cuts, cell if plain else number_of(cell))
        return self.below != bool(passed % 2)

    def predict(self, X: Any) -> Mask:
        numbers = column_of(X, self.column, "number")
        passed = [numbers >= float_not_below(cut) for cut in self.cuts]
        # A missing number, NaN, passes no cut.
        odd = np.asarray(np.logical_xor.reduce(passed))
        return ~odd if self.below else odd

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return {self.column: self.cuts}

    def __str__(self) -> str:
        # The ranges with label 1 lie between the cuts in pairs; None is an open end.
        ends: list[Number | None] = [None] * self.below + [*self.cuts]
        ends += [None] * (len(ends) % 2)
        pairs = zip(ends[::2], ends[1::2], strict=True)
        return " or ".join(_range(low, high, _name(self.column)) for low, high in pairs)


def _range(low: Number | None, high: Number | None, name: str) -> str:
    if low is None:
        return f"{name} < {high}"
    return f"{name} >= {low}" if high is None else f"{low} <= {name} < {high}"


def steps(below: bool, cuts: Iterable[Number], column: Column = None) -> Hypothesis:
    """Return the rule that has one label below the first cut and changes it at each cut.

    Parameters
    ----------
    below : bool
        The label below the first cut.
    cuts : iterable of int or float
        The cuts, increasing.
    column : str, optional
        The column to read; None if an example is the number itself.

    Returns
    -------
    Hypothesis
        The rule; a constant without cuts.

    Raises
    ------
    BadClass
        If the cuts do not increase.

    Examples
    --------
    >>> print(steps(False, [3, 9], "hour"), "|", steps(True, [3, 9], "hour"))
    3 <= hour < 9 | hour < 3 or hour >= 9
    """
    # Canonical numbers first: 70 and 70.0 are one cut, and would otherwise be two rules.
    numbers = tuple(simplest(cut) for cut in cuts)
    if any(one >= other for one, other in pairwise(numbers)):
        raise BadClass(f"cuts must increase: {numbers} do not")
    return Steps(bool(below), numbers, checked_column(column)) if numbers else Constant(bool(below))


def between(low: Number | None, high: Number | None, column: Column = None) -> Hypothesis:
    """Return the rule `low <= column < high`.

    Parameters
    ----------
    low, high : int, float or None
        The limits; None for no limit.
    column : str, optional
        The column to read; None if an example is the number itself.

    Returns
    -------
    Hypothesis
        The rule; `NEVER` if the range is empty.

    Examples
    --------
    >>> print(between(70, None, "score"), "|", between(10, 20.5), "|", between(None, None))
    score >= 70 | 10 <= x < 20.5 | always
    """
    if low is not None and high is not None and low >= high:
        return NEVER
    return steps(low is None, [cut for cut in (low, high) if cut is not None], column)


# A boolean column and the value it must have.
Literal = tuple[str, bool]


@dataclass(frozen=True, eq=False)
class All(Hypothesis):
    """Test whether every literal holds, such as `a and not b`."""

    kind = "all"
    literals: tuple[Literal, ...]

    def __call__(self, x: object) -> bool:
        # A list and not a generator: a column that cannot be read raises wherever it stands.
        holds = [truth_of(value_of(x, name), name) == value for name, value in self.literals]
        return all(holds)

    def predict(self, X: Any) -> Mask:
        holds = [column_of(X, name, "truth") == value for name, value in self.literals]
        return np.asarray(np.logical_and.reduce(holds))

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return {name: (False, True) for name, _ in self.literals}

    def __str__(self) -> str:
        return " and ".join(name if value else f"not {name}" for name, value in self.literals)


def all_of(literals: Iterable[Literal]) -> Hypothesis:
    """Return the rule that every (column, truth value) holds.

    Parameters
    ----------
    literals : iterable of (str, bool)
        The columns, each with the truth value that it must have.

    Raises
    ------
    BadClass
        If a literal is not a column and a truth value.

    Examples
    --------
    >>> print(all_of([("vip", False), ("new", True)]), "|", all_of([]))
    new and not vip | always
    """
    distinct = sorted(set(map(_checked_literal, literals)))
    if len({name for name, _ in distinct}) < len(distinct):  # a column is both true and false
        return NEVER
    return All(tuple(distinct)) if distinct else ALWAYS


def _checked_literal(literal: Literal) -> Literal:
    name, value = literal
    if not isinstance(name, str) or not name or not isinstance(value, bool | np.bool_):
        raise BadClass(f"a literal is a column and a truth value: {literal!r} is not one")
    return name, bool(value)


# A column and the value it must equal.
Pair = tuple[str, Plain]


@dataclass(frozen=True, eq=False)
class AtLeast(Hypothesis):
    """Test whether at least `count` of some `column = value` hold."""

    kind = "at least"
    count: int
    pairs: tuple[Pair, ...]

    @cached_property
    def _equalities(self) -> tuple[Hypothesis, ...]:
        return tuple(one_of([value], name) for name, value in self.pairs)

    def __call__(self, x: object) -> bool:
        return sum(equality(x) for equality in self._equalities) >= self.count

    def predict(self, X: Any) -> Mask:
        hits = [equality.predict(X) for equality in self._equalities]
        return np.asarray(np.sum(hits, axis=0, dtype=np.intp) >= self.count)

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return {name: (value,) for name, value in self.pairs}

    def __str__(self) -> str:
        listed = [f"{name} = {value!r}" for name, value in self.pairs]
        if self.count == 1:
            return " or ".join(listed)
        if self.count == len(self.pairs):
            return " and ".join(listed)
        return f"at least {self.count} of: {', '.join(listed)}"


def at_least(count: int, pairs: Iterable[tuple[str, object]]) -> Hypothesis:
    """Return the rule that at least `count` of some `column = value` hold.

    Parameters
    ----------
    count : int
        How many must hold.
    pairs : iterable of (str, object)
        The columns and the values they must equal, each column at most once.

    Returns
    -------
    Hypothesis
        The rule; a constant if it always or never holds.

    Raises
    ------
    BadClass
        If a column is named twice.

    Examples
    --------
    >>> print(at_least(1, [("a", 1)]), "|", at_least(2, [("b", 2), ("a", 1), ("c", None)]))
    a = 1 | at least 2 of: a = 1, b = 2, c = None
    """
    count = int(operator.index(count))
    distinct = sorted(((name, canonical(value)) for name, value in pairs), key=itemgetter(0))
    checked_columns([name for name, _ in distinct] or ["none"])
    if count <= 0:
        return ALWAYS
    if count > len(distinct):
        return NEVER
    # One pair is an equality, which has a kind of its own: equal functions have equal keys.
    if len(distinct) == 1:
        return one_of([distinct[0][1]], distinct[0][0])
    return AtLeast(count, tuple(distinct))


@dataclass(frozen=True, eq=False)
class Not(Hypothesis):
    """Negate a rule."""

    kind = "not"
    rule: Hypothesis

    def __call__(self, x: object) -> bool:
        return not self.rule(x)

    def predict(self, X: Any) -> Mask:
        return ~self.rule.predict(X)

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return self.rule.mentions()

    def __str__(self) -> str:
        return self.rule.negated()


def negation(rule: Hypothesis) -> Hypothesis:
    """Return the negation of a rule.

    Parameters
    ----------
    rule : Hypothesis
        The rule.

    Raises
    ------
    BadClass
        If it is not a rule.

    Examples
    --------
    >>> print(negation(one_of([1, 2])), "|", negation(between(70, None)), "|", negation(NEVER))
    x not in {1, 2} | x < 70 | always
    """
    if not isinstance(rule, Hypothesis):
        raise BadClass(f"{rule!r} is not a rule")
    # In the canonical form of its own kind where there is one, so that equal functions are equal.
    match rule:
        case Constant(answer):
            return Constant(not answer)
        case Not(inner):
            return inner
        case Steps(below, cuts, column):
            return Steps(not below, cuts, column)
        case All(((name, value),)):
            return all_of([(name, not value)])
    return Not(rule)


# A function that makes a rule from the fields of its JSON, given by name.
Builder = Callable[..., Hypothesis]

_BUILDERS: dict[str, Builder] = {
    Constant.kind: lambda answer: ALWAYS if answer is True else NEVER,
    OneOf.kind: one_of,
    Steps.kind: steps,
    All.kind: all_of,
    AtLeast.kind: at_least,
    Not.kind: negation,
}


def register_kind(kind: str, build: Builder) -> None:
    """Add a kind of rules that another module defines to those that `rule_from_json` reads."""
    _BUILDERS[kind] = build


def _part_from_json(part: object, also: Mapping[str, Builder] | None) -> object:
    """Return a field of a rule: a rule, a value, or a list for the builder to read."""
    if isinstance(part, Mapping) and "kind" in part:
        return rule_from_json(part, also)
    return part if isinstance(part, list) else from_json(part)


def rule_from_json(data: object, also: Mapping[str, Builder] | None = None) -> Hypothesis:
    """Return the rule that `Hypothesis.to_json` wrote.

    Parameters
    ----------
    data : object
        JSON data.
    also : mapping of str to Builder, optional
        Builders of further kinds of rules, by `Hypothesis.kind`.

    Returns
    -------
    Hypothesis
        The rule.

    Raises
    ------
    BadExample
        If `to_json` of no rule gives this data.

    Examples
    --------
    >>> from littlestone._hypotheses.rules import one_of
    >>> rule_from_json(one_of([1.0, None]).to_json()) == one_of([None, 1.0])
    True
    >>> rule_from_json({"kind": "constant", "answer": 1})
    Traceback (most recent call last):
    littlestone.errors.BadExample: {'kind': ...} is not a rule that littlestone wrote
    """

    def build() -> Hypothesis:
        fields: Any = data
        parts = {name: _part_from_json(part, also) for name, part in fields.items()}
        return {**_BUILDERS, **(also or {})}[str(parts.pop("kind"))](**parts)

    return read_back(data, build, "a rule")
