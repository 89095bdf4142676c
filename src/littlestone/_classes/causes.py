"""Provide causes: an or of ands of `column = value` and ranges, where any value may occur.

A *pattern* of a row is a cause that holds for it. A row lists at most L patterns, a public number:
of n columns of text n at width 1, n + n(n-1)/2 at width 2.

The learner: every pattern of a row on which `never` was wrong is a candidate, the rule is the or of
all candidates, and a negative row removes its patterns for good. A positive mistake shows a cause
of the truth that was no candidate: there are at most `limit` of them, each adds at most L
candidates. A negative mistake removes a candidate that is no cause of the truth, so `limit` L
mistakes are the most. It is not proper: it publishes more causes than `limit`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import chain, combinations, islice, pairwise, product
from math import comb, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import (
    INCONSISTENT,
    MOST_EXAMPLES_TRIED,
    HypothesisClass,
    VersionSpace,
    distinguishes,
    fresh_value,
    reads_plain_rows,
)
from littlestone._classes.dimension import refuse_absurd
from littlestone._hypotheses.causes import (
    OUTCOME,
    WIDEST,
    Cause,
    Condition,
    any_of,
    cause_from_key,
    causes_of,
)
from littlestone._hypotheses.cells import Kind, Number, float_not_below, label, number_of, simplest
from littlestone._hypotheses.rows import Column, checked_column, checked_columns, value_of
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Plain, canonical, encode, key_of, plain
from littlestone.errors import BadClass, BadExample, TooLarge


@dataclass(frozen=True)
class Ranges:
    """Read a numeric column by the dyadic ranges between public edges.

    m edges make m + 1 cells, the first without a lower limit, the last without an upper one. Their
    number is filled up to a power of two; a dyadic range is a half, a quarter, ... a single cell,
    clipped to the cells that exist. The whole line is none. So a number lies in at most
    ceil(log2(m + 1)) ranges, and every range of cells is the union of twice as many.

    Parameters
    ----------
    column : str
        The column to read.
    edges : sequence of int or float
        The edges, increasing, at least one. They must be public.

    Raises
    ------
    BadClass
        If the column is not a name, or the edges do not increase.

    Examples
    --------
    >>> ages = Ranges("age", [18, 30, 65])
    >>> print(*ages.conditions_of(20), sep=" | ")
    18 <= age < 30 | age < 30
    >>> ages.count, ages.cell(None), ages.cell("30")
    (2, 0, 2)
    """

    column: str
    edges: Sequence[Number]

    def __post_init__(self) -> None:
        if checked_column(self.column) is None:
            raise BadClass("ranges are of a column with a name, not None", "columns")
        try:
            edges = tuple(simplest(edge) for edge in self.edges)
        except (BadExample, TypeError) as error:
            raise BadClass(f"edges of {self.column!r}: {error}", "columns") from None
        if not edges:
            raise BadClass(f"column {self.column!r} needs at least one edge", "columns")
        for low, high in pairwise(edges):
            if low >= high:
                raise BadClass(
                    f"edges of {self.column!r} must increase: {high} comes after {low}", "columns"
                )
        object.__setattr__(self, "edges", edges)

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return len(self.edges) + 1

    @property
    def count(self) -> int:
        """Return the largest number of ranges in which a number lies: ceil(log2(cells))."""
        return (self.cells - 1).bit_length()

    def cell(self, value: object) -> int:
        """Return the index of the cell of a number; that of a missing one is 0."""
        return bisect_right(self.edges, number_of(value))

    def cells_of(self, column: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return the index of the cell of each entry of a column.

        Examples
        --------
        >>> Ranges("age", [18, 30]).cells_of(np.array([17.5, 18, np.nan, 99]))
        array([0, 1, 0, 2])
        """
        if column.dtype.kind not in "biuf":
            return np.fromiter(map(self.cell, column), dtype=np.intp, count=len(column))
        numbers = column.astype(np.float64, copy=False)
        cells = np.searchsorted(np.array(list(map(float_not_below, self.edges))), numbers, "right")
        # A search puts NaN at the end; a missing number is below every edge.
        cells[np.isnan(numbers)] = 0
        return cells

    def number(self, cell: int) -> Number | None:
        """Return a number in a cell: its lower limit where it has one."""
        return self.edges[cell - 1] if cell else _below(self.edges[0])

    @cached_property
    def conditions(self) -> tuple[tuple[Condition, ...], ...]:
        """Return, for each cell, the ranges that hold there, from the narrowest on."""
        return tuple(tuple(self._at(cell)) for cell in range(self.cells))

    def _at(self, cell: int) -> Iterator[Condition]:
        # Clipped ranges of several sizes may be equal: one pattern is listed once.
        spans = dict.fromkeys(
            (cell >> size << size, min(((cell >> size) + 1) << size, self.cells))
            for size in range(self.count)
        )
        for start, end in spans:
            low = self.edges[start - 1] if start else None
            high = self.edges[end - 1] if end < self.cells else None
            yield Condition(self.column, low=low, high=high)

    def conditions_of(self, value: object) -> tuple[Condition, ...]:
        """Return the ranges in which a number lies, from the narrowest on."""
        return self.conditions[self.cell(value)]

    def __contains__(self, condition: object) -> bool:
        return (
            isinstance(condition, Condition)
            and condition.is_range
            and condition.column == self.column
            and condition
            in self.conditions[0 if condition.low is None else self.cell(condition.low)]
        )


class _VersionSpace(NamedTuple):
    """Hold the patterns that the mistakes so far leave, by key."""

    lists: frozenset[frozenset[bytes]] = frozenset()
    claimed: frozenset[bytes] = frozenset()
    refuted: frozenset[bytes] = frozenset()


# Causes of one row: each positive row is scored under all of them. 180 columns at width 3.
MOST_PATTERNS = 1_000_000


@reads_plain_rows
@dataclass(frozen=True)
class Causes(HypothesisClass):
    """Learn an or of at most `limit` causes, each an and of at most `width` conditions.

    A condition is `column = value`, of any value, or a dyadic range of a numeric column (`Ranges`).

    The learner publishes the or of all candidates. Its rule is None exactly when no rule of the
    class fits its mistakes: by the argument above more than `limit` positive mistakes fit none,
    and up to `limit` of them are fitted by one pattern out of the list of each, as long as no list
    is empty. From `restart(rule)` it makes at most `limit` more mistakes, one for each claim.

    Notes
    -----
    The Littlestone dimension d lies between `dimension_bounds`.

    *Above.* Take a shattered tree of depth d, the subtree below label 1 of its root, of depth
    m = d - 1, and walk down one of its 2^m paths with the rule of the leaf. Keep a set of causes:
    at first one that holds at the root, and at each node of label 1 where no cause of the set holds
    add one that does, both out of the leaf's rule, hence out of the at most L patterns of the
    point. All other labels are those that the set predicts. So the path is given by the nodes where
    the set grew, j < limit of them, and the patterns taken, L^(1 + j) ways, hence
    2^m <= L * sum over j < limit of L^j binomial(m, j). This holds for every smaller m too, as a
    shattered tree contains shallower ones. With one cause it says d <= 1 + floor(log2 L). Besides,
    d is at most `mistake_bound`, and where all columns have ranges at most the number of
    combinations of their cells.

    *Below.* One cause: take a row. If it is positive, its patterns are told apart by rows that
    share some of its cells: sort patterns by their last column, and those of one column from the
    widest range to the narrowest; then "at most this one" is a row that differs from the first one
    behind it, so a tree of depth D = floor(log2 sum of 2^depth) searches among subtrees for the
    rest of the pattern, which has one condition less. If it is negative, another row serves: with
    fresh values of text, and numbers in the second half of the first half of the cells, then of the
    first quarter and so on, whose ranges hold none of the rows before. So after j negative rows
    there are count - j ranges of a column, hence 1 + D_j levels, and min over j of j + 1 + D_j in
    all.

    Several causes: for each but one a tree of 1 + D levels over the patterns with an equality, and
    fresh values of its own. The causes of one do not hold for the rows of another, so the levels
    add up. Where all columns have ranges, `limit` combinations of cells (of `width` columns) are
    shattered by their subsets.

    Both bounds agree for one cause wherever D_0 = floor(log2 L), such as up to 7 columns of text
    of width 2, for one column of text, where the class is `Sets(limit)`, and for two columns of
    width 1.

    Parameters
    ----------
    columns : sequence of str or Ranges
        The columns: a name for a column of text, `Ranges` for a column of numbers.
    width : int
        The most conditions of a cause, from 1 to 3.
    limit : int
        The most causes of a rule, from 1 to 100.
    normal : sequence of str
        The labels of normal events, where labels have several values: every other label is an
        *outcome*, and a cause says which (`timeout when version = '4.2.1'`). Only `PrivateCauses`
        learns outcomes. None by default: labels are 0 and 1.
    values : mapping of str to sequence
        For columns of text, values that are known before any row is read, such as all countries:
        `PrivateCauses` names them on half of the evidence. They must be public. Other values may
        occur, and are found too.

    Raises
    ------
    BadClass
        If a column is named twice, or width or limit is out of range, or a normal label is no
        text, or values are declared for what is no column of text.

    Examples
    --------
    >>> causes = Causes(["version", Ranges("age", [18, 30, 65])], width=2)
    >>> print(*causes.patterns_of({"version": "4.2.1", "age": 20}), sep="\\n")
    version = '4.2.1'
    18 <= age < 30
    age < 30
    18 <= age < 30 and version = '4.2.1'
    age < 30 and version = '4.2.1'
    >>> causes.patterns, causes.pattern_counts
    (5, (3, 2))
    >>> one = Causes(["version", "country"], limit=1)
    >>> one.dimension, one.mistake_bound
    (2, 2)
    >>> Causes(["version"], normal=["ok"])
    Causes(columns=('version',), width=1, limit=8, normal=('ok',))
    >>> Causes(["version", "country"], values={"country": ["SE", "NO", "DK"]}).undeclared
    ('version',)
    """

    columns: Sequence[str | Ranges]
    width: int = 1
    limit: int = 8
    normal: Sequence[str] = ()
    values: Mapping[str, Sequence[object]] = field(default_factory=dict)

    def __repr__(self) -> str:
        # Without `normal` and `values` where there are none: plans in stores keep this text.
        outcomes = f", normal={self.normal!r}" if self.normal else ""
        sizes = f"width={self.width!r}, limit={self.limit!r}"
        parts = (f"{name!r}: {len(values)} values" for name, values in self.values.items())
        declared = f", values={{{', '.join(parts)}; {self._digest}}}" if self.values else ""
        return f"{type(self).__name__}(columns={self.columns!r}, {sizes}{outcomes}{declared})"

    @cached_property
    def _digest(self) -> str:
        keys = (encode((name, *values)) for name, values in self.values.items())
        return sha256(b"".join(keys)).hexdigest()[:16]

    def __hash__(self) -> int:
        # Declared values are many: they are read once.
        return hash(repr(self))

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Return the columns of text of which no values are declared."""
        return tuple(c for c in self.columns if isinstance(c, str) and c not in self.values)

    def __post_init__(self) -> None:
        if isinstance(self.columns, str | Ranges) or not isinstance(self.columns, Sequence):
            raise BadClass(
                f"columns are a list of names and Ranges: {self.columns!r} is not one", "columns"
            )
        object.__setattr__(self, "columns", tuple(self.columns))
        checked_columns(self.names)
        # Made here and not when it is first read: scikit-learn checks that reading changes nothing.
        named = zip(self.names, self.columns, strict=True)
        kinds = {name: "number" if isinstance(c, Ranges) else "value" for name, c in named}
        object.__setattr__(self, "_reads", kinds)
        object.__setattr__(self, "width", _checked(self.width, "width", WIDEST))
        # Counts of matching causes are kept in one byte a row (`match_counts`).
        object.__setattr__(self, "limit", _checked(self.limit, "limit", 100))
        if self.patterns > MOST_PATTERNS:
            raise BadClass(
                f"a row would have {self.patterns:,} causes of up to {self.width} of these "
                f"{len(self.columns):,} columns, and {MOST_PATTERNS:,} is the most: name fewer "
                "columns, or a smaller width",
                "columns",
            )
        object.__setattr__(self, "normal", _normal_labels(self.normal))
        object.__setattr__(self, "values", _declared(self.values, self.columns))
        # Rows carry their outcome under this name: as a column it would predict itself.
        if self.normal and OUTCOME in self.names:
            raise BadClass(f"no column may be named {OUTCOME!r}: rename it", "columns")

    @property
    def has_outcomes(self) -> bool:
        """Return whether labels are outcomes, and causes have one."""
        return bool(self.normal)

    @cached_property
    def _normal_keys(self) -> frozenset[bytes]:
        return frozenset(map(key_of, self.normal))

    def outcome(self, y: object) -> Plain:
        """Return the outcome that a label is; None for a normal one.

        Parameters
        ----------
        y : object
            The label, identified by its text.

        Raises
        ------
        BadExample
            If the label is missing, or has no text.

        Examples
        --------
        >>> causes = Causes(["version"], normal=["ok"])
        >>> causes.outcome("timeout"), causes.outcome("ok")
        ('timeout', None)
        """
        if key_of(y) in self._normal_keys:
            return None
        text = canonical(y)
        # As in a file: what is missing is no outcome. A float that is not a number is missing.
        if text in (None, "") or (isinstance(y, float | np.floating) and y != y):
            raise BadExample(f"label {y!r} is missing: it is neither normal nor an outcome")
        return text

    @cached_property
    def _own(self) -> dict[str, str | Ranges]:
        return dict(zip(self.names, self.columns, strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in the order given."""
        return tuple(c.column if isinstance(c, Ranges) else c for c in self.columns)

    def conditions_of(self, x: object) -> tuple[tuple[Condition, ...], ...]:
        """Return, for each column, the conditions that hold for a row.

        Raises
        ------
        BadExample
            If a column is missing or cannot be read.
        """
        return tuple(
            c.conditions_of(value_of(x, c.column))
            if isinstance(c, Ranges)
            else (Condition(c, value_of(x, c)),)  # type: ignore[arg-type]
            for c in self.columns
        )

    def patterns_of(self, x: object) -> tuple[Cause, ...]:
        """Return the patterns of a row: every cause that holds for it, once each, narrow ones last.

        Raises
        ------
        BadExample
            If a column is missing or cannot be read.
        """
        listed = self.conditions_of(x)
        return tuple(
            Cause(conditions)
            for width in range(1, self.width + 1)
            for chosen in combinations(listed, width)
            for conditions in product(*chosen)
        )

    @cached_property
    def pattern_counts(self) -> tuple[int, ...]:
        """Return the most patterns of a row with one condition, with two, and so on."""
        # Column by column, the sums of the products of so many counts: 1,000 columns have 166 million
        # triples, which nobody can go through.
        sums = [1, *[0] * self.width]
        for column in self.columns:
            count = column.count if isinstance(column, Ranges) else 1
            sums = [1, *(sums[width] + count * sums[width - 1] for width in range(1, len(sums)))]
        return tuple(sums[1:])

    @property
    def patterns(self) -> int:
        """Return L, the largest number of patterns of a row. Public."""
        return sum(self.pattern_counts)

    @property
    def mistake_bound(self) -> int:
        return self.limit * self.patterns

    def _refuse_outcomes(self) -> None:
        if self.has_outcomes:
            raise BadClass(
                f"{self!r} has outcomes, which only PrivateCauses learns (--learner causes); leave "
                "out normal= (--negative) for labels of 0 and 1"
            )

    def start(self) -> VersionSpace:
        self._refuse_outcomes()
        return VersionSpace(_VersionSpace())

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        self._refuse_outcomes()
        claims = causes_of(rule) if rule in self else ()
        return VersionSpace(_VersionSpace(claimed=frozenset(cause.key for cause in claims)))

    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        row, positive = frozenset(cause.key for cause in self.patterns_of(x)), label(y)
        if state == INCONSISTENT:
            return INCONSISTENT
        lists, claimed, refuted = state.content
        if positive:
            lists |= {row - refuted}
        else:
            lists = frozenset(patterns - row for patterns in lists)
            claimed, refuted = claimed - row, refuted | row
        if frozenset() in lists or len(lists) > self.limit:
            return INCONSISTENT
        return VersionSpace(_VersionSpace(lists, claimed, refuted))

    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        if state == INCONSISTENT:
            return None
        space: _VersionSpace = state.content
        return any_of(map(cause_from_key, space.claimed.union(*space.lists)))

    def check(self, x: object) -> None:
        for c in self.columns:
            if isinstance(c, Ranges):
                number_of(value_of(x, c.column))
            else:
                cell = value_of(x, c)
                # Every text identifies a value: its key is not made to find that out.
                if type(cell) is not str:
                    key_of(cell)

    @property
    def reads(self) -> Mapping[Column, Kind]:
        kinds: Mapping[Column, Kind] = self.__dict__["_reads"]
        return kinds

    def __contains__(self, rule: object) -> bool:
        try:
            causes = causes_of(rule)  # type: ignore[arg-type]
        except BadClass:
            return False
        return len(causes) <= self.limit and all(
            self.lists(cause) and (cause.outcome is not None) == self.has_outcomes
            for cause in causes
        )

    def lists(self, cause: Cause) -> bool:
        """Return whether a cause is a pattern of some row."""
        return cause.width <= self.width and all(
            condition in c if isinstance(c, Ranges) else c is not None and not condition.is_range
            for condition in cause.conditions
            for c in [self._own.get(condition.column)]
        )

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        rows = islice(self._telling(one, other), MOST_EXAMPLES_TRIED)
        example = next((row for row in rows if distinguishes(row, one, other)), None)
        if example is None:
            raise TooLarge(f"no example was found that distinguishes {one} from {other}")
        return example

    def _telling(self, one: Hypothesis, other: Hypothesis) -> Iterator[dict[str, object]]:
        """Return rows of which one distinguishes two rules, if any row does."""
        mentioned: dict[Column, set[Any]] = {}
        for rule in (one, other):
            for column, some in rule.mentions().items():
                mentioned.setdefault(column, set()).update(some)
        free: dict[str, list[Any]] = {
            name: [fresh_value(mentioned.get(name, ()))]
            if kind == "value"
            else _one_in_each_cell(mentioned.get(name, ()))
            for name, kind in self.reads.items()
            if name is not None
        }
        for cause in (*_causes_or_none(one), *_causes_or_none(other), None):
            conditions = cause.conditions if cause else ()
            fixed = {c.column: [c.value] for c in conditions if not c.is_range}
            domain = {name: fixed.get(name, some) for name, some in free.items()}
            rows = (dict(zip(domain, row, strict=True)) for row in product(*domain.values()))
            yield from (row for row in rows if cause is None or cause(row))

    @property
    def dimension(self) -> int:
        least, most = self.dimension_bounds
        if least < most:
            raise TooLarge(
                f"the dimension of {self!r} has no closed form: it is from {least} to {most}; "
                "with limit=1 it often has"
            )
        return least

    @property
    def dimension_bounds(self) -> tuple[int, int]:
        """Return numbers between which the Littlestone dimension lies: see the notes."""
        most = min(self._most_by_counting(), self.mistake_bound)
        if len(self._ranges) == len(self.columns):
            most = min(most, prod(c.cells for c in self._ranges))
        return min(self._least(), most), most

    def _most_by_counting(self) -> int:
        # The first depth m that the inequality of the notes excludes: d - 1 is below it.
        depth = 0
        while 2**depth <= self.patterns * sum(
            self.patterns**j * comb(depth, j) for j in range(self.limit)
        ):
            depth += 1
        return depth

    def _least(self) -> int:
        texts = len(self._counts) - len(self._ranges)
        if texts:
            return self._levels_of_one + (self.limit - 1) * self._levels_with_text
        cells = sorted(c.cells for c in self._ranges)
        return max(self._levels_of_one, min(self.limit, prod(cells[-self.width :])))

    @cached_property
    def _ranges(self) -> list[Ranges]:
        return sorted((c for c in self.columns if isinstance(c, Ranges)), key=lambda c: c.cells)

    @cached_property
    def _counts(self) -> list[int]:
        """Return how many conditions of each column hold for a row, those of text last."""
        return [*(c.count for c in self._ranges), *[1] * (len(self.columns) - len(self._ranges))]

    @property
    def _levels_with_text(self) -> int:
        return 1 + _depth(self._counts, self.width, first=len(self._ranges))

    @property
    def _levels_of_one(self) -> int:
        ranges = len(self._ranges)
        shorter = (
            [*(max(0, count - j) for count in self._counts[:ranges]), *self._counts[ranges:]]
            for j in range(1 + max(self._counts))
        )
        return min(j + 1 + _depth(counts, self.width) for j, counts in enumerate(shorter))

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        depth = self.dimension
        if depth > self._levels_of_one and len(self._ranges) == len(self.columns):
            return self._core_of_cells()
        # The trees of the lower bound: one for each cause, each with rows of fresh values.
        levels = [self._levels_of_one, *[self._levels_with_text] * (self.limit - 1)]
        refuse_absurd(prod(1 + count * self.patterns for count in levels), depth)
        roots = [
            [(f"v{number}.{j}", j if number == 0 else 0) for j in range(count)]
            for number, count in enumerate(levels)
        ]
        choices = [
            dict.fromkeys([(), *((p,) for at in some for p in self.patterns_of(self._row(*at)))])
            for some in roots
        ]
        rules = [any_of(chain.from_iterable(chosen)) for chosen in product(*choices)]
        points: dict[bytes, object] = {
            encode(tuple(row.values())): row
            for at in chain.from_iterable(roots)
            for row in self._rows_for(*at)
        }
        return list(dict.fromkeys(rules)), list(points.values())

    def _row(
        self, value: str, j: int, levels: Mapping[str, int | None] | None = None
    ) -> dict[str, object]:
        """Return a row that shares cells with the j-th row of fresh values."""
        chosen = levels or {}
        return {
            name: c.number(_cell_at(c.count, j, chosen.get(name)))
            if isinstance(c, Ranges)
            else ("other" if chosen.get(name) == 0 else value)
            for name, c in self._own.items()
        }

    def _rows_for(self, value: str, j: int) -> Iterator[dict[str, object]]:
        """Return rows that tell the patterns of a row of fresh values apart."""
        texts = [name for name, c in self._own.items() if not isinstance(c, Ranges)]
        names = [*(c.column for c in self._ranges), *texts]
        for last, count in enumerate(self._counts):
            after = names[last + 1 :]
            for kept in chain.from_iterable(combinations(after, n) for n in range(self.width)):
                for level in range(count + 1):
                    levels: dict[str, int | None] = dict.fromkeys(after, 0)
                    yield self._row(value, j, levels | dict.fromkeys(kept) | {names[last]: level})

    def _core_of_cells(self) -> tuple[list[Hypothesis], list[object]]:
        most = self._ranges[-self.width :]
        count = prod(c.cells for c in most)
        refuse_absurd(sum(comb(count, size) for size in range(self.limit + 1)), count)
        cells = list(product(*(range(c.cells) for c in most)))
        causes = [
            Cause(tuple(c.conditions[cell][0] for c, cell in zip(most, at, strict=True)))
            for at in cells
        ]
        some = chain.from_iterable(combinations(causes, n) for n in range(self.limit + 1))
        first: dict[str, object] = {c.column: c.number(0) for c in self._ranges}
        points: list[object] = [
            first | {c.column: c.number(cell) for c, cell in zip(most, at, strict=True)}
            for at in cells
        ]
        return list(map(any_of, some)), points


def _declared(
    values: Mapping[str, Sequence[object]], columns: Sequence[object]
) -> Mapping[str, tuple[Plain, ...]]:
    """Return declared values in their canonical form, each once, in the order of the columns."""
    if not isinstance(values, Mapping):
        raise BadClass(f"values are given for columns, as a dict: {values!r} is not one", "values")
    for name, listed in values.items():
        if not isinstance(name, str) or name not in columns:
            raise BadClass(f"values of {name!r}: it is no column of text of the class", "values")
        if isinstance(listed, str) or not isinstance(listed, Sequence) or not listed:
            raise BadClass(
                f"values of {name!r} are a list of at least one, not {listed!r}", "values"
            )
    return {
        name: tuple(dict.fromkeys(map(canonical, values[name])))
        for name in columns
        if isinstance(name, str) and name in values
    }


def _normal_labels(given: object) -> tuple[str, ...]:
    """Return the texts of normal labels, each once."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise BadClass(f"normal labels are a list of texts: {given!r} is not one", "normal")
    for text in given:
        if not isinstance(text, str):
            raise BadClass(f"a normal label is a text: {text!r} is not one", "normal")
    return tuple({key_of(text): str(text) for text in given}.values())


def _checked(given: object, name: str, most: int) -> int:
    number = plain(given)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise BadClass(f"{name} must be a whole number from 1 to {most}, not {given!r}", name)
    return number


def _causes_or_none(rule: Hypothesis) -> tuple[Cause, ...]:
    try:
        return causes_of(rule)
    except BadClass:
        return ()


def _one_in_each_cell(cuts: Iterable[Any]) -> list[Any]:
    """Return a number between any two neighbouring cuts, and beyond the first and the last."""
    edges = sorted(cuts)
    return [_below(edges[0]), *edges] if edges else [0]


def _below(edge: Number) -> Number | None:
    """Return a number below an edge; a missing one where floats are too sparse."""
    return simplest(edge - 1) if edge - 1 < edge else None


def _cell_at(count: int, j: int, level: int | None) -> int:
    """Return a cell in the `level` widest ranges of the j-th row of fresh values, and no others."""
    ranges = max(0, count - j)
    start = 1 << (ranges - 1) if j and ranges else 0
    if level is None or level >= ranges:
        return start
    if level == 0 and j:
        return 0
    return start + (1 << (ranges - level - 1))


def _depth(counts: Sequence[int], width: int, first: int = 0, empty: int = 0) -> int:
    """Return the depth D of the tree that searches for a pattern: see *Below* in `Causes`."""
    total = empty
    if width:
        total += sum(
            counts[last] << _depth(counts[:last], width - 1, empty=1)
            for last in range(first, len(counts))
        )
    return total.bit_length() - 1
