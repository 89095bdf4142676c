"""Provide rules over public vocabularies: one `column = value`, of values that are known before.

The class is finite, so it can be learned without delta, by drawing from all rules. A value outside
its column's vocabulary matches no rule. A vocabulary is public: a list of versions, of countries,
of devices, made without looking at the data. One that is collected from the data publishes it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from littlestone._classes.base import fresh_value, points_of
from littlestone._classes.dimension import Shattering, tabulate
from littlestone._classes.rules import Rules
from littlestone._hypotheses.rows import Column, checked_columns, value_of
from littlestone._hypotheses.rules import NEVER, Hypothesis, OneOf, one_of
from littlestone._hypotheses.values import Plain, canonical, encode, key_of
from littlestone.errors import BadClass, BadExample


@dataclass(frozen=True, init=False, repr=False)
class VocabularyRules(Rules):
    """Learn one `column = value`, of public vocabularies, or `never`.

    Parameters
    ----------
    columns : mapping of str to list
        For each column the values that a rule may name, without repeats. They are public.

    Raises
    ------
    BadClass
        If a vocabulary is empty, has a value twice, or may come from data.

    Examples
    --------
    >>> rules = VocabularyRules({"version": ["4.2.0", "4.2.1"], "country": ["SE", "NO", "FR"]})
    >>> rules, rules.size
    (VocabularyRules(version: 2 values, country: 3 values), 6)
    """

    vocabularies: tuple[tuple[Plain, ...], ...] = ()

    def __init__(self, columns: Mapping[str, Sequence[object]]) -> None:
        if not isinstance(columns, Mapping):
            raise BadClass(
                f"columns map names to lists of values, as in {{'country': ['SE', 'NO']}}: "
                f"{columns!r} does not",
                "columns",
            )
        object.__setattr__(self, "columns", checked_columns(list(columns)))
        object.__setattr__(self, "guess", "first")
        found = tuple(_checked(name, values) for name, values in columns.items())
        object.__setattr__(self, "vocabularies", found)

    def __repr__(self) -> str:
        sizes = (
            f"{name}: {len(values):,} value{'s' * (len(values) > 1)}"
            for name, values in zip(self.columns, self.vocabularies, strict=True)
        )
        return f"VocabularyRules({', '.join(sizes)})"

    @cached_property
    def places(self) -> tuple[dict[bytes, int], ...]:
        """Return the place of each value in its vocabulary, by canonical bytes."""
        return tuple(
            {encode(value): place for place, value in enumerate(values)}
            for values in self.vocabularies
        )

    @cached_property
    def digest(self) -> str:
        """Return a digest of all vocabularies, in their order."""
        found = sha256()
        for name, values in zip(self.columns, self.vocabularies, strict=True):
            for part in (encode(name), encode(len(values)), *map(encode, values)):
                found.update(len(part).to_bytes(8) + part)
        return found.hexdigest()

    @property
    def size(self) -> int:
        return 1 + sum(map(len, self.vocabularies))

    @cached_property
    def dimension(self) -> int:
        # A column that has as many values as the tree is deep has a fresh one for every level, as
        # in `Rules`; with fewer values the tree is searched.
        most = len(self.columns).bit_length()
        if min(map(len, self.vocabularies)) >= most:
            return most
        table = tabulate(*self.finite_core())
        return Shattering(table).dimension(table.everything)

    def rule(self, column: int, place: int) -> Hypothesis:
        """Return a rule.

        Parameters
        ----------
        column : int
            The number of its column.
        place : int
            The place of its value in the vocabulary.
        """
        return one_of([self.vocabularies[column][place]], self.columns[column])

    def _pairs(self, x: object) -> dict[str, tuple[str, bytes]]:
        keys = ((name, key_of(value_of(x, name))) for name in self.columns)
        pairs = zip(list(keys), self.places, strict=True)
        return {name: (name, key) for (name, key), places in pairs if key in places}

    def __contains__(self, rule: object) -> bool:
        match rule:
            case OneOf((value,), str(column)) if column in self.columns:
                return encode(value) in self.places[list(self.columns).index(column)]
        return rule == NEVER

    def hypotheses(self) -> Iterator[Hypothesis]:
        for column, values in enumerate(self.vocabularies):
            yield from (self.rule(column, place) for place in range(len(values)))
        yield NEVER

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        return {
            name: (*values, fresh_value(values))
            for name, values in zip(self.columns, self.vocabularies, strict=True)
        }

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        # Values beyond the depth of the tree are like those before.
        most = len(self.columns).bit_length()
        few = [values[:most] for values in self.vocabularies]
        rules = [
            one_of([value], name)
            for name, values in zip(self.columns, few, strict=True)
            for value in values
        ]
        domain: dict[Column, tuple[Plain, ...]] = {
            name: (*values, fresh_value(self.vocabularies[at]))
            for at, (name, values) in enumerate(zip(self.columns, few, strict=True))
        }
        return [*rules, NEVER], points_of(domain)


def _checked(name: str, values: Iterable[object]) -> tuple[Plain, ...]:
    """Return a vocabulary in canonical form."""
    if not isinstance(values, list | tuple):
        raise BadClass(
            f"the vocabulary of {name!r} is public: give a list of values that are chosen without "
            f"looking at the data, not a {type(values).__name__}",
            "columns",
        )
    seen: dict[bytes, Plain] = {}
    for value in values:
        try:
            plain = canonical(value)
        except BadExample as error:
            raise BadClass(f"the vocabulary of {name!r}: {error}", "columns") from None
        if encode(plain) in seen:
            raise BadClass(f"the vocabulary of {name!r} has {value!r} twice", "columns")
        seen[encode(plain)] = plain
    if not seen:
        raise BadClass(f"the vocabulary of {name!r} is empty", "columns")
    return tuple(seen.values())


def read_vocabulary(path: str | Path) -> list[str]:
    """Read a vocabulary from a text file in UTF-8: one value a line, spaces around it left out."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = Path(path).read_bytes()[: error.start].count(b"\n") + 1
        raise BadClass(f"{path}, line {line}: not text in UTF-8: save the file as UTF-8") from None
    except OSError as error:
        raise BadClass(f"{path}: the vocabulary cannot be read: {error.strerror}") from None
    seen: dict[str, int] = {}
    lines: list[Any] = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        value = line.strip()
        if not value:
            raise BadClass(f"{path}, line {number}: it is empty: write one value a line")
        if value in seen:
            raise BadClass(
                f"{path}, line {number}: {value!r} is already on line {seen[value]}: keep one"
            )
        seen[value] = number
    if not seen:
        raise BadClass(f"{path}: the vocabulary is empty: write one value a line")
    return list(seen)
