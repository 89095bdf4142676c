"""Remote rows: row groups of Parquet files, decoded by tasks, and what the driver knows of them.

A block is some row groups of a file as `Rounds`, in Ray's object store. Tasks keep nothing. They
answer *questions*: a question is a function of rounds and of what is published, the same one that
is asked of local rounds. The driver gets the answers, and which rows can be read; rows for the
shards go to the object store, and only references to them pass the driver.

The driver asks a few blocks ahead, always the last question: after a release it asks again, which
draws no noise (docs/guarantee.md, Theorem 13).
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._data.locations import Location
from littlestone._data.readers import RowReader, open_table_rows
from littlestone._data.rounds import (
    FIRST_BLOCK,
    BadRow,
    BadStream,
    BlockSize,
    Numbers,
    Rounds,
    Start,
)
from littlestone._data.schema import Schema, file_schema
from littlestone._data.tables import TableFile, concatenated, rounds_of_table
from littlestone._hypotheses.columns import Column
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.epoch_rows import HashedRows, Wanted, count_listed
from littlestone._learners.loop import mistakes
from littlestone._learners.matched import Matched
from littlestone._privacy.causes import Counts
from littlestone._privacy.parameters import BadParameter
from littlestone._ray.cluster import Ray, task_errors

# Rows of a block, at least, if so many precede it and the file has them.
LARGEST_BLOCK = 1 << 18
# Blocks that are read and asked ahead, for each worker.
BLOCKS_AHEAD = 2
# Counts that one task adds up.
SUMMANDS = 8
# Answers that a block keeps: the rule of the epoch and the published one alternate.
MOST_ANSWERS = 2


class Span(NamedTuple):
    """Specify row groups of a file that are read together, and how many rows precede them."""

    file: Location
    groups: slice
    row: int
    rows: int
    # How many rows at the beginning of the groups are left out.
    skipped: int = 0


class Summary(NamedTuple):
    """Hold what the driver knows of a block: which rows can be read, as bits, and why others not."""

    usable: npt.NDArray[np.uint8]
    users: Numbers | None
    bad: tuple[BadRow, ...]


# A function of the class, rounds and what is published; and what is published.
Question = tuple[Callable[..., Any], Any]


def read_span(schema: Schema, span: Span) -> tuple[Rounds, Summary]:
    """Return row groups of a file as rounds."""
    try:
        parts = TableFile(span.file, schema, "parquet").parts(span.groups, LARGEST_BLOCK)
        table = concatenated(list(parts))
    except OSError as error:
        raise BadStream(f"{span.file.name}: {error.strerror or error}") from None
    rounds = rounds_of_table(schema, table.slice(span.skipped), span.row)
    return rounds, Summary(np.packbits(rounds.usable), rounds.users, rounds.bad)


def answer(schema: Schema, rounds: Rounds, question: Question) -> tuple[Any, Any]:
    """Return the answer to a question about a block, by the places of its rounds.

    It comes in two parts: what the driver reads, and what stays on the cluster until it is counted.
    """
    function, published = question
    places, rest = function(schema.cls, rounds.numbered(0), published).detached()
    return places._replace(number=places.number.astype(np.uint32)), rest


def count(schema: Schema, wanted: Wanted, rows: slice, columns: tuple[Column, ...]) -> Counts:
    """Return how many negative rows of a block list each wanted key."""
    assert isinstance(schema.cls, Causes)
    return count_listed(schema.cls, wanted, [HashedRows(columns).part(rows).columns])


def add(*counts: Counts) -> Counts:
    """Return the sum of counts, on the cluster: the driver gets one."""
    return np.asarray(np.sum(counts, axis=0))


class RemoteParquet:
    """Read Parquet files on the cluster; only their footers and first rows are read locally."""

    unit, unfinished = "row", 0

    def __init__(self, engine: Ray, path: str, schema: Schema) -> None:
        self._local = open_table_rows(path, path, schema, "parquet")
        self.name, self.schema = path, schema
        self.workers, self._ray = engine.count(), engine.connected()
        self._schema = self._ray.put(schema)
        self._read = self._ray.remote(read_span).options(num_returns=2)
        self._answer = self._ray.remote(answer).options(num_returns=2)
        self._count, self._add = self._ray.remote(count), self._ray.remote(add)
        self._time_cell = self._ray.remote(Rounds.time_cell)
        self._ahead: deque[RemoteBlock] = deque()
        self._question: Question | None = None

    def length(self) -> int:
        """Return the number of rows."""
        return self._local.length()

    def identity(self, rows: int) -> str:
        """Return what changes when a file that holds one of the first rows is written again."""
        return self._local.identity(rows)

    def beginning(self) -> Rounds:
        """Return the first rows, read locally, before anything is started on the cluster."""
        first = next(self._local.blocks(lambda row: FIRST_BLOCK), None)
        return Rounds({}, np.zeros(0, np.int32)) if first is None else first[0]

    def blocks(
        self, size: BlockSize, after: Start | None = None
    ) -> "Iterator[tuple[RemoteRounds, Start]]":
        """Yield the rows; a few blocks ahead are read, and asked the last question."""
        spans = self._spans(size, after.row if after else 0)
        while True:
            while len(self._ahead) <= BLOCKS_AHEAD * self.workers and (span := next(spans, None)):
                self._ahead.append(RemoteBlock(self, span))
                if self._question is not None:
                    self._ahead[-1].ask(self._question)
            if not self._ahead:
                return
            block = self._ahead.popleft()
            span = block.span
            yield RemoteRounds(block, 0, span.rows), Start(span.row + span.rows)

    def _spans(self, size: BlockSize, start: int) -> Iterator[Span]:
        """Yield the row groups that are read together, from the row `start` on."""
        row = 0
        for file in self._local.files:
            # Workers may have been started in other folders.
            where = file.location
            if where.filesystem is None:
                where = where._replace(path=os.path.abspath(where.path))
            first, rows = 0, 0
            for group, count in enumerate(file.groups):
                rows += count
                skipped = max(0, start - row)
                # Row groups before the first row are not read at all.
                is_last = group == len(file.groups) - 1
                if rows <= skipped:
                    first, row, rows = group + 1, row + rows, 0
                elif is_last or rows - skipped >= size(row + skipped):
                    groups = slice(first, group + 1)
                    yield Span(where, groups, row + skipped, rows - skipped, skipped)
                    first, row, rows = group + 1, row + rows, 0

    def ask_ahead(self, question: Question) -> None:
        """Ask the blocks ahead what is asked now: what the gate reads of the published rule."""
        if question != self._question:
            self._question = question
            for block in self._ahead:
                block.ask(question)

    def read(self, span: Span) -> Any:
        """Start to read a block; return references to its rounds and to their summary."""
        return self._read.remote(self._schema, span)

    def answer(self, rounds: Any, question: Question) -> Any:
        """Start to answer a question; return references to the two parts of the answer."""
        return self._answer.remote(self._schema, rounds, question)

    def count(self, negatives: "Sequence[RemoteNegatives]", wanted: Wanted) -> Counts:
        """Return how many rows list each wanted key: a sum over blocks, made where they are."""
        keys = self._ray.put(wanted)
        refs = [
            self._count.remote(self._schema, keys, slice(rows.begin, rows.end), rows.ref)
            for rows in negatives
        ]
        while len(refs) > 1:
            refs = [
                self._add.remote(*refs[first : first + SUMMANDS])
                for first in range(0, len(refs), SUMMANDS)
            ]
        counts: Counts = self.get(refs[0])
        return counts

    def time_cell(self, rounds: Any, row: int) -> Any:
        """Start to find the time of a row; return a reference to its cell."""
        return self._time_cell.remote(rounds, row)

    def get(self, ref: Any) -> Any:
        """Return what a reference refers to."""
        with task_errors(self._ray):
            return self._ray.get(ref)


def open_remote_rows(
    engine: Ray,
    path: str,
    cls: HypothesisClass,
    *,
    label: str,
    user: str | None = None,
    strict: bool = False,
    **others: Any,
) -> "RowReader[RemoteRounds]":
    """Open Parquet files of labelled rows, to be read on a cluster; `others` as `file_schema` has."""
    source = RemoteParquet(engine, path, file_schema(cls, label, user, **others))
    beginning = source.beginning()
    return RowReader(source, strict=strict, block_rows=LARGEST_BLOCK, beginning=beginning)


class RemoteBlock:
    """Refer to a block, and hold the answers that it gave."""

    def __init__(self, source: RemoteParquet, span: Span) -> None:
        self.source, self.span = source, span
        self.rounds, self._summary = source.read(span)
        # References to the answers to the last questions, and those that were fetched.
        self._answers: dict[Question, Any] = {}
        self._fetched: dict[Question, Any] = {}

    @cached_property
    def summary(self) -> Summary:
        """Return what is known of the rows."""
        summary: Summary = self.source.get(self._summary)
        return summary

    @cached_property
    def usable(self) -> Mask:
        """Return which rows can be read."""
        return np.unpackbits(self.summary.usable, count=self.span.rows).view(bool)

    def ask(self, question: Question) -> Any:
        """Start to answer a question, unless that has begun; return a reference to the answer."""
        if question not in self._answers:
            last = list(self._answers.items())[1 - MOST_ANSWERS :]
            self._answers = dict(last) | {question: self.source.answer(self.rounds, question)}
        return self._answers[question]

    def answer(self, question: Question) -> Any:
        """Return the answer to a question, by the places of the rounds."""
        ref, rest = self.ask(question)
        if question not in self._fetched:
            kept = {
                asked: self._fetched[asked] for asked in self._answers if asked in self._fetched
            }
            whole = self.source.get(ref)
            if isinstance(whole, Matched) and whole.users is None:
                size = int(np.count_nonzero(whole.is_unmatched(positive=False)))
                whole = whole.attached(RemoteNegatives(self.source, rest, 0, size))
            self._fetched = kept | {question: whole}
        return self._fetched[question]


@dataclass(frozen=True, eq=False)
class RemoteNegatives:
    """Refer to negative rows of a block, which stay on the cluster: an epoch keeps them there."""

    source: RemoteParquet
    ref: Any
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def part(self, rows: slice) -> "RemoteNegatives":
        """Implement `NegativeRows.part`."""
        return replace(self, begin=self.begin + rows.start, end=self.begin + rows.stop)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Implement `NegativeRows.columns`: a store keeps them."""
        whole = HashedRows(self.source.get(self.ref))
        return whole.part(slice(self.begin, self.end)).columns

    def count_with(
        self, others: "Iterable[RemoteNegatives]", cls: HypothesisClass, wanted: Wanted
    ) -> Counts:
        """Implement `NegativeRows.count_with`: one task for each block."""
        blocks = [self]
        for rows in others:
            last = blocks[-1]
            if (rows.ref, rows.begin) == (last.ref, last.end):
                blocks[-1] = replace(last, end=rows.end)
            else:
                blocks.append(rows)
        return self.source.count(blocks, wanted)


@dataclass(frozen=True, eq=False)
class RemoteRounds:
    """Refer to rows of a block, from `begin` up to `end`."""

    block: RemoteBlock
    begin: int
    end: int
    # The number of a round, less its place in the block.
    shift: int = 0
    # The rows of the block that are within a cap.
    within: Mask | None = None

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def columns(self) -> NoReturn:
        """Refuse a learner that reads rows here."""
        raise BadParameter("remote rows require a learner with engine='ray'")

    @property
    def has_users(self) -> bool:
        """Return whether a column names users."""
        return self.block.source.schema.user is not None

    def routes(self) -> Numbers:
        """Return the number of each row's user."""
        users = self.block.summary.users
        assert users is not None, "the plan protects users"
        return users[self.begin : self.end]

    def part(self, start: int, stop: int) -> Self:
        """Implement `RowSpan.part`."""
        begin, end = (min(self.begin + place, self.end) for place in (start, stop))
        return replace(self, begin=begin, end=end)

    @property
    def bad(self) -> tuple[BadRow, ...]:
        """Implement `RowSpan.bad`."""
        return self.block.summary.bad

    def time_cell(self, row: int) -> object:
        """Implement `RowSpan.time_cell`: fetched from the cluster, at the end of a window only."""
        source = self.block.source
        if source.schema.time is None:
            return None
        return source.get(source.time_cell(self.block.rounds, self.begin + row))

    def null_rounds(self, within: Mask | None = None) -> int:
        """Return how many rows cannot be read, or are not within a cap. Private."""
        usable = self.block.usable[self.begin : self.end]
        return int(np.count_nonzero(~(usable if within is None else usable & within)))

    def numbered(self, first: int, within: Mask | None = None) -> Self:
        """Return the rows as rounds from `first` on."""
        if within is not None:
            whole = np.zeros(self.block.span.rows, dtype=bool)
            whole[self.begin : self.end] = within
            within = whole
        return replace(self, shift=first - self.begin, within=within)

    def between(self, start: int, stop: int) -> Self:
        """Return the rounds from `start` up to, not including, `stop`."""
        begin = max(start - self.shift, self.begin)
        return replace(self, begin=begin, end=max(begin, min(stop - self.shift, self.end)))

    def followed_by(self, other: "RemoteRounds") -> "RemoteRounds | None":
        """Return these rounds and those that follow, if they are of one block."""
        if (self.block, self.end, self.shift) != (other.block, other.begin, other.shift):
            return None
        if self.within is not other.within:  # each knows the cap for its own rows only
            return None
        return replace(self, end=other.end)

    def answer(self, function: Callable[..., Any], published: Any) -> Any:
        """Return the answer to a question about the rounds, by their numbers."""
        answer = self.block.answer((function, published)).between(self.begin, self.end)
        if self.within is not None:
            answer = answer.taken(self.within[answer.number])
        return answer._replace(number=answer.number.astype(np.int64) + self.shift)

    def apply(self, function: Callable[..., Any], cls: HypothesisClass, published: Any) -> Any:
        """Implement `RowSpan.apply`: the answer to a question, also asked of the rows ahead."""
        self.block.ask((function, published))  # first the rows that are waited for
        self.block.source.ask_ahead((function, published))
        return self.answer(function, published)

    def wrong_routes(self, rule: Hypothesis) -> Numbers:
        """Return the routes of the rounds that a rule gets wrong."""
        number: Numbers = self.answer(mistakes, rule).number
        users = self.block.summary.users
        return number if users is None else users[number - self.shift]
