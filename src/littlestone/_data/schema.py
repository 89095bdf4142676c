"""The schema of a stream: which columns are read, how, and what makes a row a null round.

This is where rows become rounds, from whatever they come (docs/guarantee.md, Lemma 0): `Schema.read`
for columns of cells (files, messages, requests), `read_rounds` for tables in memory. Each cell is
read by itself (`_data/cells.py`), and whether the class can read a row is asked once.
"""

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import (
    HypothesisClass,
    check_row,
    checked_class,
    kinds_of,
    readable_rows,
)
from littlestone._classes.causes import Causes
from littlestone._data.cells import (
    NO_USER,
    WRONG,
    WRONG_USER,
    WRONG_VALUE,
    read_file_column,
    read_labels,
    read_users,
)
from littlestone._data.rounds import NULL, BadRow, BadStream, Labels, Rounds, UserNumbers
from littlestone._hypotheses.causes import OUTCOME
from littlestone._hypotheses.cells import (
    Cells,
    Kind,
    cell_of,
    coded,
    float_of,
    is_missing,
    label,
    passes,
    quoted,
)
from littlestone._hypotheses.columns import Column, objects
from littlestone._hypotheses.frames import arrow_stream, arrow_table
from littlestone._hypotheses.rows import (
    Batch,
    checked_cells,
    example_at,
    named_column,
    read_examples,
    row_of,
)
from littlestone._hypotheses.values import Mask, Plain, key_of
from littlestone.errors import BadExample

# The first fault of each bad row, by row.
Faults = dict[int, str]
# The most bad rows whose faults are kept.
MOST_FAULTS_KEPT = 100


@dataclass(frozen=True)
class Schema:
    """Hold which columns are read. Make one with `file_schema`."""

    cls: HypothesisClass
    kinds: dict[str, Kind]
    label: str
    user: str | None
    positive: tuple[str, ...] = ()
    positive_if: tuple[str, ...] = ()
    # The column of times, which are public: no row is null for want of one.
    time: str | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return every column, once."""
        others = (name for name in (self.user, self.time) if name is not None)
        return tuple(dict.fromkeys((*self.kinds, self.label, *others)))

    @cached_property
    def normal(self) -> tuple[str, ...]:
        """Return the labels of normal rows, if all others are outcomes."""
        return tuple(self.cls.normal) if isinstance(self.cls, Causes) else ()

    @cached_property
    def named_labels(self) -> bool:
        """Return whether labels have other values than 0 and 1."""
        return bool(self.positive or self.positive_if or self.normal)

    @cached_property
    def label_kind(self) -> Kind:
        """Return how the column of labels is read."""
        if self.bounds:
            return "number"
        return "value" if self.named_labels else "truth"

    @cached_property
    def bounds(self) -> tuple["Bound", ...]:
        """Return the conditions under which a number is a positive label, if there are any."""
        return tuple(map(label_bound, self.positive_if))

    @cached_property
    def wrong_label(self) -> str:
        """Return the fault of a label that cannot be read."""
        return WRONG_VALUE if self.label_kind == "value" else WRONG[self.label_kind]

    def label_of(self, cell: Any) -> Plain:
        """Read one label: whether it is positive, or its outcome, None if it is normal."""
        if isinstance(self.cls, Causes) and self.normal:
            return self.cls.outcome(cell)
        if self.bounds:
            number = float_of(cell)
            if math.isnan(number):
                raise BadExample("the label is missing")
            return any(_COMPARE[compare](number, bound) for compare, bound in self.bounds)
        if not self.positive:
            return label(cell)
        if cell is None or cell != cell or (cell == "" and "" not in self.positive):
            raise BadExample("the label is missing")
        return key_of(cell) in self._positive_keys

    @cached_property
    def _positive_keys(self) -> frozenset[bytes]:
        return frozenset(map(key_of, self.positive))

    def read(
        self, cells: Mapping[str, Cells], faults: Faults, lines: npt.NDArray[np.integer[Any]]
    ) -> Rounds:
        """Read the columns of some rows; those with faults, old and new, are null rounds."""
        columns = self.read_columns(cells, faults)
        column = coded(cells[self.label])
        if self.label_kind == "value":
            column, _ = read_file_column(column, "value")
        labels, outcomes, _ = read_labels(column, self.label_of)
        self._note(faults, cells, self.label, self.wrong_label, labels == NULL)
        users = None
        if self.user is not None:
            users, _ = read_users(read_file_column(cells[self.user], "value")[0])
            self._note(faults, cells, self.user, WRONG_USER, users == NO_USER)
        # The round stays, without a label: the rows after it keep their numbers (Lemma 0).
        labels[list(faults)] = NULL
        # The class judges rows before the gate sees them: a learner never meets an unreadable one.
        (unread,) = ((labels != NULL) & ~readable_rows(self.cls, columns)).nonzero()
        labels[unread] = NULL
        for row in unread[:MOST_FAULTS_KEPT].tolist():
            faults[row] = why_unread(self.cls, row_of(columns, row))
        kept = sorted(faults)[:MOST_FAULTS_KEPT]
        bad = tuple(BadRow(int(lines[row]), faults[row]) for row in kept)
        if self.normal:
            columns[OUTCOME] = Column(objects(outcomes), column.codes)
        times = None if self.time is None else cells[self.time]
        return Rounds(columns, labels, users, bad, times=times)

    def read_columns(self, cells: Mapping[str, Cells], faults: Faults) -> dict[str, Any]:
        """Read the columns of the class; cells that are not of their kind are faults."""
        columns = {}
        for name, kind in self.kinds.items():
            columns[name], wrong = read_file_column(cells[name], kind)
            self._note(faults, cells, name, WRONG[kind], wrong)
        return columns

    def _note(
        self, faults: Faults, cells: Mapping[str, Cells], name: str, sentence: str, wrong: Mask
    ) -> None:
        """Add the faults of a column to those of its rows, of which the first counts."""
        for row in wrong.nonzero()[0].tolist():
            cell = cell_of(cells[name], row)
            what = " is empty" if is_missing(cell) else f": {quoted(cell)} {sentence}"
            faults.setdefault(row, f"column {name!r}{what}")

    def check_names(self, where: str, found: Iterable[str]) -> None:
        """Check that a file has every column to read, once."""
        names = list(found)
        for name in self.names:
            if name not in names:
                raise BadStream(
                    f"{where}: no column {name!r}, which {self._reader(name)}: "
                    f"the file has {_listed(names)}.{self._hint(name, names)}"
                )
            if names.count(name) > 1:
                raise BadStream(f"{where}: column {name!r} is there twice: which of them to read?")

    def _hint(self, name: str, names: list[str]) -> str:
        """Return what to do about a column that is missing."""
        if len(names) == 1 and not names[0].isidentifier():
            return " If it should be several, say what separates them: --delimiter ';', say."
        if "," in name and set(name.split(",")) <= set(names):
            if name in self.kinds:
                return f" This class reads one column: causes:{name} reads several."
            return " It is one column: run once for each, or make one column of them."
        if name in self.kinds:
            return _alike(name, names) or " Name one of them in --class."
        option = {self.label: "label", self.time: "time"}.get(name, "user")
        return _alike(name, names) or f" Name one of them as --{option}."

    def _reader(self, name: str) -> str:
        if name == self.label:
            return "holds the label"
        if name == self.time:
            return "holds the time"
        return "the class reads" if name in self.kinds else "holds the user"


def _alike(name: str, names: list[str]) -> str:
    """Return a hint for a mistyped name."""
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def file_schema(
    cls: HypothesisClass,
    label: str,
    user: str | None,
    positive: Sequence[str] = (),
    positive_if: Sequence[str] = (),
    time: str | None = None,
) -> Schema:
    """Return which columns of a file a class needs."""
    kinds = dict(checked_class(cls).reads)
    named = {name: kind for name, kind in kinds.items() if name is not None}
    if not kinds:
        raise BadStream(
            f"{cls!r} does not declare which columns it reads: give it a property `reads`"
        )
    if len(named) < len(kinds):
        raise BadStream(f"{cls!r} reads bare values, and a file has columns: name one with column=")
    if label in named:
        raise BadStream(
            f"column {label!r} is the label: a class that reads it would only copy it. Leave it "
            "out of --class, or name another --label"
        )
    if label == user:
        raise BadStream(
            f"column {label!r} is named as the label and as the user: it can be one of them. Name "
            "the column that identifies a person as --user"
        )
    if time is not None and not isinstance(cls, Causes):
        raise BadStream("--time requires a class of causes: other learners release no counts")
    if time is not None and time in (*named, label, user):
        raise BadStream(
            f"column {time!r} is named as --time, whose values are published, and as one that is "
            "protected: it can be one of them"
        )
    schema = Schema(cls, named, label, user, tuple(positive), tuple(positive_if), time)
    # Read here, so that a condition that cannot be read is an error before anything is read.
    if len(list(filter(None, (schema.positive, schema.bounds, schema.normal)))) > 1:
        raise BadStream(LABELS_CONFLICT)
    return schema


def _listed(names: list[str]) -> str:
    limit = 20
    listed = ", ".join(map(repr, names[:limit])) or "none"
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"


def why_unread(cls: HypothesisClass, x: object) -> str:
    """Return why a class cannot read an example."""
    try:
        check_row(cls, x)
    except BadExample as error:
        return error.sentence
    return "the class cannot read the row"


LABELS_CONFLICT = (
    "--positive conflicts with --positive-if and --negative (normal=). Give one of them: the positive "
    "values, and all others are negative; conditions on a number; or the normal values, and each "
    "other value is an outcome of its own"
)
# A condition on a number: how it is compared, and with what.
Bound = tuple[str, float]
_BOUND = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def label_bound(text: str) -> Bound:
    """Read a condition under which a number is a positive label."""
    if (bound := _bound(text)) is None:
        raise BadStream(
            f"--positive-if {text!r} is no condition on a number, such as '>60' or '<=0.5'"
        )
    return bound


def _bound(text: str) -> Bound | None:
    match = _BOUND.fullmatch(text.strip())
    if match is None or not passes(float_of, match[2]) or is_missing(match[2]):
        return None
    return match[1], float_of(match[2])


def literal_note(positive: Sequence[str]) -> list[str]:
    """Say of a positive value that looks like a condition that it is none."""
    return [
        f"--positive {text!r} is the text {text!r} itself. For a column of numbers, say "
        f"--positive-if {text!r}"
        for text in positive
        if _bound(text)
    ]


# What happens to rows that cannot be read: the batch is refused, or they are null rounds.
BadRows = Literal["refuse", "null"]


def read_rounds(
    cls: HypothesisClass, X: Any, y: object, users: Any = None, bad_rows: BadRows = "refuse"
) -> Rounds:
    """Read a table in memory with its labels, and its users if there are any."""
    if bad_rows not in get_args(BadRows):
        raise BadExample(f"bad_rows must be 'refuse' or 'null', not {bad_rows!r}")
    schema, refuses = Schema(cls, {}, "", None), bad_rows == "refuse"
    # Read as values are: a type that was guessed from other rows is refused (Lemma 0).
    column = coded(checked_cells(y, "value" if schema.normal else "truth", "labels"))
    batch, readable = read_batch(cls, X, refuses)
    if len(column) != len(readable):
        raise BadExample(f"{len(readable)} examples and {len(column)} labels")
    labels, outcomes, wrong = read_labels(column, schema.label_of)
    if refuses and wrong:
        _refuse_cell(column, wrong)
    labels[~readable] = NULL
    numbers = None if users is None else _read_users(users, labels, refuses)
    if schema.normal:
        batch = {**batch, OUTCOME: Column(objects(outcomes), column.codes)}
    return Rounds(batch, labels, numbers)


def read_parts(
    cls: HypothesisClass, X: Any, y: object, users: Any, bad_rows: BadRows
) -> Iterator[Rounds]:
    """Read a table in memory; or a stream of Arrow data batch by batch, if its labels go by name."""
    named = [name for name in (y, users) if isinstance(name, str)]
    if not named:
        yield read_rounds(cls, X, y, users, bad_rows)
        return
    reads = kinds_of(cls)
    if not reads or None in reads:
        raise BadExample(
            f"{cls!r} does not say which columns it reads, so it would read {named[0]!r} as well: "
            "pass labels and users apart"
        )
    for name in named:
        if name in reads:
            raise BadExample(f"column {name!r} is read by the class: it is no label and no user")
    stream = arrow_stream(X) if isinstance(y, str) and (users is None or len(named) == 2) else None
    done = 0
    for part in [arrow_table(X)] if stream is None else stream:
        labels, names = (
            named_column(part, given) if isinstance(given, str) else given for given in (y, users)
        )
        try:
            yield read_rounds(cls, part, labels, names, bad_rows)
        except BadExample as error:
            if not done:
                raise
            raise BadExample(
                f"{error.sentence} (the {done:,} rows of the stream before this batch are learned)",
                None if error.row is None else done + error.row,
            ) from None
        done += 0 if stream is None else len(part)


def _read_users(users: Any, labels: Labels, refuses: bool) -> UserNumbers:
    """Return the number of each user; a round of nobody becomes a null round."""
    column = _user_column(users)
    numbers, wrong = read_users(column)
    if len(numbers) != len(labels):
        raise BadExample(f"{len(labels)} examples and {len(numbers)} users")
    nobody = numbers == NO_USER
    if refuses and wrong:
        _refuse_cell(column, wrong)
    # A round of nobody could not be counted against a cap.
    if refuses and nobody.any():
        raise BadExample("the round has no user", int(np.argmax(nobody)))
    labels[nobody] = NULL
    return numbers


def _user_column(users: Any) -> Column:
    # Read as values are: a type that was guessed from other rows is refused (Lemma 0).
    return coded(checked_cells(users, "value", "users"))


def user_numbers(users: Any) -> UserNumbers:
    """Return the number of each user; `NO_USER` for nobody, and where there is no text."""
    return read_users(_user_column(users))[0]


def _refuse_cell(column: Column, wrong: Mapping[int, BadExample]) -> None:
    """Raise the fault of the first row that has one."""
    row = int(np.argmax(np.isin(column.codes, list(wrong))))
    raise BadExample(wrong[int(column.codes[row])].sentence, row)


def readable_batch(cls: HypothesisClass, X: Any) -> Batch:
    """Return a table as a batch, if the class can read every row of it."""
    return read_batch(cls, X, True)[0]


def read_batch(cls: HypothesisClass, X: Any, refuses: bool) -> tuple[Batch, Mask]:
    """Return a table in memory as a batch, and which of its rows the class can read."""
    X, reads = arrow_table(X), kinds_of(cls)
    batch, wrong = read_examples(X, reads)
    readable = readable_rows(cls, batch) & ~wrong
    if refuses and not readable.all():
        row = int(np.argmin(readable))
        raise BadExample(why_unread(cls, example_at(X, reads, row)), row)
    return batch, readable
