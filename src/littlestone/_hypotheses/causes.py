"""Causes: ands of conditions, and rules that are an or of causes.

A *condition* is `column = value`, by the text of the value, or `low <= column < high`. A *cause* is
an and of one to three conditions on different columns. A rule such as

    device = 'K9' or (country = 'SE' and version = '4.2.1')

holds where one of its causes does. Build one with `any_of`, and read its causes with `causes_of`.

Where labels have several values, a cause may have an *outcome*: the rule

    timeout when version = '4.2.1' or crash when device = 'K9'

also says what happens where a cause holds. A rule's causes all have an outcome, or none has.

**One set of causes has one rule**: repeated causes, and causes that a wider one contains, are left
out, and the rest is sorted. Two different sets of causes are different rules even where they are
the same function, as `age < 18 or age >= 18` is `always`: a learner that adds and drops causes one
by one must find again what it has published.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._hypotheses.cells import Kind, Number, simplest
from littlestone._hypotheses.rows import Batch, Column, checked_column, column_of, table_length
from littlestone._hypotheses.rules import (
    NEVER,
    Hypothesis,
    OneOf,
    Steps,
    between,
    one_of,
    register_kind,
)
from littlestone._hypotheses.values import (
    Mask,
    Plain,
    canonical,
    decode,
    encode,
    from_json,
    read_back,
    to_json,
)
from littlestone.errors import BadClass, BadExample

# The most conditions of a cause: more are hard to read, and a row would list too many patterns.
WIDEST = 3
# The column of a batch, or of a row, that holds its outcome on the way to a learner of outcomes.
OUTCOME = "littlestone.outcome"
# An outcome that is one word is printed without quotes.
_WORD = re.compile(r"[\w.:/+-]+")


@dataclass(frozen=True)
class Condition:
    """Test `column = value`, or `low <= column < high` where a limit is given.

    A missing number is below every limit, as in the rules of `between`.

    Parameters
    ----------
    column : str
        The column to read.
    value : object, optional
        The value that the column must have, identified by its text.
    low, high : int or float, optional
        The limits of a range; None for no limit. At least one is given for a range.

    Raises
    ------
    BadClass
        If the column is not a name, the range is empty, or it has a value as well.
    BadExample
        If the value has no canonical form, or a limit is not a finite number.

    Examples
    --------
    >>> print(Condition("version", "4.2.1"), "|", Condition("age", low=18, high=30))
    version = '4.2.1' | 18 <= age < 30
    >>> Condition("version", 3) == Condition("version", "3")
    True
    """

    column: str
    value: Plain = None
    low: Number | None = None
    high: Number | None = None

    def __post_init__(self) -> None:
        if checked_column(self.column) is None:
            raise BadClass("a condition reads a column with a name, not None")
        # In canonical form: equal conditions have equal fields, hashes and keys.
        object.__setattr__(self, "value", canonical(self.value))
        for name in ("low", "high"):
            limit = getattr(self, name)
            object.__setattr__(self, name, None if limit is None else simplest(limit))
        if self.is_range and self.value is not None:
            raise BadClass(f"a condition has a value or limits, not both: {self.value!r}")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise BadClass(f"no number lies in the range from {self.low} to {self.high}")

    @property
    def is_range(self) -> bool:
        """Return whether it is a range, not an equality."""
        return self.low is not None or self.high is not None

    @cached_property
    def rule(self) -> Hypothesis:
        """Return the condition as a rule."""
        if self.is_range:
            return between(self.low, self.high, self.column)
        return one_of([self.value], self.column)

    @property
    def parts(self) -> tuple[Plain, ...]:
        """Return (column, value) or (column, low, high)."""
        if self.is_range:
            return self.column, self.low, self.high
        return self.column, self.value

    @cached_property
    def key(self) -> bytes:
        """Return the canonical bytes: two conditions are equal exactly when their keys are."""
        return encode(self.parts)

    def __str__(self) -> str:
        return str(self.rule)

    def __call__(self, x: object) -> bool:
        return self.rule(x)

    def contains(self, other: "Condition") -> bool:
        """Return whether it holds wherever the other one does.

        A range and an equality never contain each other: they read the column in different ways.

        Examples
        --------
        >>> Condition("age", high=30).contains(Condition("age", low=18, high=30))
        True
        """
        if not self.is_range or not other.is_range or self.column != other.column:
            return self == other
        return _below(self.low) <= _below(other.low) and _above(other.high) <= _above(self.high)

    def to_json(self) -> dict[str, object]:
        """Return the condition as JSON data, from which `condition_from_json` restores it.

        Examples
        --------
        >>> Condition("version", "4.2.1").to_json(), Condition("age", low=18).to_json()
        ({'column': 'version', 'value': '4.2.1'}, {'column': 'age', 'low': 18, 'high': None})
        """
        if self.is_range:
            return {"column": self.column, "low": self.low, "high": self.high}
        return {"column": self.column, "value": to_json(self.value)}


def _below(low: Number | None) -> Number:
    return -math.inf if low is None else low


def _above(high: Number | None) -> Number:
    return math.inf if high is None else high


def _condition(parts: Any) -> Condition:
    """Return the condition that has these parts; raise `ValueError` if there is none."""
    if len(parts) == 3:
        return Condition(parts[0], low=parts[1], high=parts[2])
    column, value = parts
    return Condition(column, value)


def condition_from_json(data: Any) -> Condition:
    """Return the condition that `Condition.to_json` wrote."""

    def build() -> Condition:
        parts: dict[str, Any] = {name: from_json(part) for name, part in data.items()}
        return Condition(**parts)

    return read_back(data, build, "a condition")


@dataclass(frozen=True)
class Cause:
    """Test whether all of one to three conditions on different columns hold.

    Parameters
    ----------
    conditions : tuple of Condition
        The conditions, in any order; kept in the order of their columns.
    outcome : object, optional
        What happens where it holds, identified by its text; None where labels are 0 and 1.

    Raises
    ------
    BadClass
        If there is none, or more than three, or two on one column.
    BadExample
        If the outcome has no canonical form.

    Examples
    --------
    >>> cause = Cause((Condition("version", "4.2.1"), Condition("country", "SE")))
    >>> print(cause)
    country = 'SE' and version = '4.2.1'
    >>> cause({"country": "SE", "version": "4.2.1"}), cause_from_key(cause.key) == cause
    (True, True)
    >>> print(Cause((Condition("device", "K9"),), "crash"))
    crash when device = 'K9'
    """

    conditions: tuple[Condition, ...]
    outcome: Plain = None

    def __post_init__(self) -> None:
        conditions = tuple(sorted(self.conditions, key=lambda condition: condition.column))
        object.__setattr__(self, "conditions", conditions)
        object.__setattr__(self, "outcome", canonical(self.outcome))
        if not 1 <= len(conditions) <= WIDEST:
            raise BadClass(f"a cause has 1 to {WIDEST} conditions, not {len(conditions)}")
        if len(set(self.columns)) < len(conditions):
            raise BadClass(f"a cause has one condition for each column: not so {self}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it reads, sorted."""
        return tuple(condition.column for condition in self.conditions)

    @property
    def width(self) -> int:
        """Return the number of conditions."""
        return len(self.conditions)

    @cached_property
    def key(self) -> bytes:
        """Return the canonical bytes, which `cause_from_key` reads."""
        parts = tuple(condition.parts for condition in self.conditions)
        # The parts of a condition are a tuple, so a word tells the two forms apart.
        return encode(parts if self.outcome is None else (_WHEN, self.outcome, *parts))

    @property
    def pattern(self) -> "Cause":
        """Return the cause without its outcome."""
        return Cause(self.conditions)

    def __str__(self) -> str:
        holds = " and ".join(map(str, self.conditions))
        return holds if self.outcome is None else f"{outcome_text(self.outcome)} when {holds}"

    def __call__(self, x: object) -> bool:
        # A list and not a generator: a column that cannot be read raises wherever it stands.
        holds = [condition(x) for condition in self.conditions]
        return all(holds)

    def predict(self, X: Any) -> Mask:
        """Return where it holds in a batch."""
        return _masks([self], X)[0]

    def contains(self, other: "Cause") -> bool:
        """Return whether the other cause is at least as narrow: it holds wherever that one does.

        Causes of different outcomes never contain each other.

        Examples
        --------
        >>> wide = Cause((Condition("a", 1),))
        >>> wide.contains(Cause((Condition("a", 1), Condition("b", 2))))
        True
        """
        return self.outcome == other.outcome and all(
            any(condition.contains(narrow) for narrow in other.conditions)
            for condition in self.conditions
        )

    def to_json(self) -> list[dict[str, object]] | dict[str, object]:
        """Return the cause as JSON data, from which `cause_from_json` restores it.

        Examples
        --------
        >>> Cause((Condition("a", 1),)).to_json()
        [{'column': 'a', 'value': 1}]
        >>> Cause((Condition("a", 1),), "crash").to_json()
        {'outcome': 'crash', 'conditions': [{'column': 'a', 'value': 1}]}
        """
        conditions = [condition.to_json() for condition in self.conditions]
        if self.outcome is None:
            return conditions
        return {"outcome": to_json(self.outcome), "conditions": conditions}


# What the key of a cause with an outcome begins with.
_WHEN = "when"


def outcome_text(outcome: Plain) -> str:
    """Return an outcome as it is printed: in quotes, unless it is one word."""
    text = str(outcome)
    return text if _WORD.fullmatch(text) else repr(outcome)


def cause_from_key(key: bytes) -> Cause:
    """Return the cause that has this key."""
    try:
        parts: Any = decode(key)
        outcome = None
        if parts and parts[0] == _WHEN:
            _, outcome, *parts = parts
        cause = Cause(tuple(map(_condition, parts)), outcome)
    except (TypeError, ValueError) as error:
        raise BadExample(f"{key!r} is not the key of a cause") from error
    if cause.key != key:
        raise BadExample(f"{key!r} is not the key of a cause")
    return cause


def cause_from_json(data: Any) -> Cause:
    """Return the cause that `Cause.to_json` wrote."""

    def build() -> Cause:
        conditions, outcome = data, None
        if isinstance(data, Mapping):
            conditions, outcome = data["conditions"], from_json(data["outcome"])
        return Cause(tuple(map(condition_from_json, conditions)), outcome)

    return read_back(data, build, "a cause")


def match_counts(
    causes: Sequence[Cause], X: Any
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Return how many causes match each row of a batch, and which is the first."""
    masks = _masks(causes, X)
    length = len(masks[0]) if masks else table_length(X)
    counts, first = np.zeros(length, dtype=np.int8), np.full(length, -1, dtype=np.int8)
    # From the last to the first: the first that matches is written last.
    for index in reversed(range(len(masks))):
        counts += masks[index].view(np.int8)
        np.putmask(first, masks[index], index)
    return counts, first


def own_causes(
    causes: Sequence[Cause], X: Any, counts: npt.NDArray[np.int8]
) -> npt.NDArray[np.int8]:
    """Return, for each row of a batch with outcomes, the first cause that has its outcome."""
    outcomes = {OUTCOME: column_of(X, OUTCOME, "value")}
    distinct = dict.fromkeys(cause.outcome for cause in causes)
    same = {outcome: one_of([outcome], OUTCOME).predict(outcomes) for outcome in distinct}
    own = np.full(len(counts), -1, dtype=np.int8)
    # From the last to the first: the first is written last.
    for index, matches in reversed(list(enumerate(_masks(causes, X)))):
        own[(matches | (counts == 0)) & same[causes[index].outcome]] = index
    return own


def _masks(causes: Sequence[Cause], X: Any) -> list[Mask]:
    """Return where each cause holds, each column read once and each condition evaluated once."""
    conditions = dict.fromkeys(condition for cause in causes for condition in cause.conditions)
    kinds: dict[str, Kind] = {}
    for condition in conditions:
        kind: Kind = "number" if condition.is_range else "value"
        # Values in which ranges find their numbers, if there are conditions of both kinds.
        kinds[condition.column] = "value" if kinds.get(condition.column, kind) != kind else kind
    batch: Batch = {name: column_of(X, name, kind) for name, kind in kinds.items()}
    holds = {condition: condition.rule.predict(batch) for condition in conditions}
    masks = []
    for cause in causes:
        mask, *others = (holds[condition] for condition in cause.conditions)
        for other in others:
            mask = mask & other
        masks.append(mask)
    return masks


@dataclass(frozen=True, eq=False)
class AnyOf(Hypothesis):
    """Test whether one of several causes holds."""

    kind = "any of"
    causes: tuple[Cause, ...]

    @cached_property
    def key(self) -> bytes:
        """Return the canonical bytes: two rules are equal exactly when their keys are."""
        return encode((self.kind, *(cause.key for cause in self.causes)))

    def __call__(self, x: object) -> bool:
        holds = [cause(x) for cause in self.causes]
        return any(holds)

    def predict(self, X: Any) -> Mask:
        return np.logical_or.reduce(_masks(self.causes, X))  # type: ignore[no-any-return]

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        mentioned: dict[Column, dict[Plain, None]] = {}
        for cause in self.causes:
            for condition in cause.conditions:
                for column, values in condition.rule.mentions().items():
                    mentioned.setdefault(column, {}).update(dict.fromkeys(values))
        return {column: tuple(values) for column, values in mentioned.items()}

    def __str__(self) -> str:
        if len(self.causes) == 1:
            return str(self.causes[0])
        return either(self.causes)

    def to_json(self) -> dict[str, object]:
        """Return the rule as JSON data, from which `rule_from_json` restores it exactly."""
        return {"kind": self.kind, "causes": [cause.to_json() for cause in self.causes]}


def either(causes: Iterable[Cause]) -> str:
    """Return several causes as text, in their order."""
    return " or ".join(map(_bracketed, causes))


def _bracketed(cause: Cause) -> str:
    """Return a cause as a part of an or: several conditions stand in brackets."""
    alone = len(cause.conditions) == 1 or cause.outcome is not None
    return str(cause) if alone else f"({cause})"


def any_of(causes: Iterable[Cause]) -> Hypothesis:
    """Return the rule that one of several causes holds.

    Parameters
    ----------
    causes : iterable of Cause
        The causes, in any order. Those that another one contains are left out.

    Returns
    -------
    Hypothesis
        The rule: `NEVER` without causes; for one cause with one condition and no outcome the rule
        that `one_of` or `between` returns.

    Raises
    ------
    BadClass
        If something is not a cause, or some of the causes have an outcome and others have none.

    Examples
    --------
    >>> k9, se = Cause((Condition("device", "K9"),)), Condition("country", "SE")
    >>> print(any_of([Cause((se, Condition("version", "4.2.1"))), k9]))
    device = 'K9' or (country = 'SE' and version = '4.2.1')
    >>> print(any_of([k9, Cause((se, Condition("device", "K9")))]), "|", any_of([]))
    device = 'K9' | never
    """
    distinct = dict.fromkeys(causes)
    for cause in distinct:
        if not isinstance(cause, Cause):
            raise BadClass(f"{cause!r} is not a cause")
    if len({cause.outcome is None for cause in distinct}) > 1:
        raise BadClass("the causes of a rule all have an outcome, or none has")
    by_columns: dict[tuple[str, ...], list[Cause]] = {}
    for cause in distinct:
        by_columns.setdefault(cause.columns, []).append(cause)
    kept = [
        cause
        for cause in distinct
        if not any(
            wider.contains(cause)
            for columns in _parts_of(cause.columns)
            for wider in by_columns.get(columns, ())
            if wider is not cause
        )
    ]
    kept.sort(key=_reading_order)
    match kept:
        case []:
            return NEVER
        case [Cause((condition,), None)]:
            return condition.rule
    return AnyOf(tuple(kept))


def _parts_of(columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return the columns that a cause may read which contains one that reads these."""
    return (part for size in range(1, len(columns) + 1) for part in combinations(columns, size))


def _reading_order(cause: Cause) -> tuple[int, tuple[str, ...], bytes]:
    """Return the key by which the causes of a rule are sorted: short ones first."""
    return cause.width, cause.columns, cause.key


def causes_of(rule: Hypothesis) -> tuple[Cause, ...]:
    """Return the causes of a rule that `any_of` returned.

    Parameters
    ----------
    rule : Hypothesis
        The rule.

    Raises
    ------
    BadClass
        If `any_of` does not return such a rule.

    Examples
    --------
    >>> from littlestone._hypotheses.rules import between, one_of
    >>> [str(cause) for cause in causes_of(between(18, 30, "age"))], causes_of(NEVER)
    (['18 <= age < 30'], ())
    """
    match rule:
        case AnyOf(causes):
            return causes
        case OneOf((value,), str(column)):
            return (Cause((Condition(column, value),)),)
        case Steps(False, (low,), str(column)):
            return (Cause((Condition(column, low=low),)),)
        case Steps(True, (high,), str(column)):
            return (Cause((Condition(column, high=high),)),)
        case Steps(False, (low, high), str(column)):
            return (Cause((Condition(column, low=low, high=high),)),)
    if rule == NEVER:
        return ()
    raise BadClass(f"{rule} is not an or of causes")


def outcome_of(rule: Hypothesis, x: object) -> Plain:
    """Return the outcome that a rule predicts: that of the first cause that holds, or None."""
    return next((cause.outcome for cause in causes_of(rule) if cause(x)), None)


def outcomes_of(rule: Hypothesis, X: Any) -> npt.NDArray[np.object_]:
    """Return `outcome_of` for each row of a batch."""
    causes = causes_of(rule)
    _, first = match_counts(causes, X)
    predicted = np.empty(len(causes) + 1, dtype=object)
    # Place -1, of no cause, stays None.
    predicted[: len(causes)] = [cause.outcome for cause in causes]
    return np.asarray(predicted[first], dtype=object)


def _from_json(causes: object) -> Hypothesis:
    if not isinstance(causes, list):
        raise BadExample(f"{causes!r} are not causes that littlestone wrote")
    return any_of(map(cause_from_json, causes))


register_kind(AnyOf.kind, _from_json)
