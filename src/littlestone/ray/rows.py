"""What is done where the rows are: small functions that keep nothing, run by Ray as tasks.

A block of rows is a slice of an Arrow table in Ray's object store. What comes back to the driver is
which rounds a rule gets wrong; what goes on to the shards is put by for them, and only its address
passes the driver.

Rows that are elsewhere: Parquet read by Ray Data, and what the driver knows of it.

The driver knows how many rows there are, which round is which row, and which rounds a rule gets
wrong. It asks for that a few blocks ahead, always with the rule it asked for last: a new rule makes
it ask again.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from littlestone.classes.base import HypothesisClass
from littlestone.data.blocks import (
    BadRow,
    BadStream,
    Block,
    Checksums,
    ColumnSchema,
    Start,
    column_schema,
)
from littlestone.data.parquet import ParquetFile, ParquetRows, piece_from_table
from littlestone.data.readers import BEGINNING, RowReader
from littlestone.hypotheses.base import NEVER, Hypothesis
from littlestone.hypotheses.values import Mask
from littlestone.learners.forest import Routes, trees_of
from littlestone.learners.rounds import (
    NO_USER,
    Learnable,
    Numbers,
    Rounds,
    Told,
    readable_rounds,
    usable_rounds,
    user_numbers,
)
from littlestone.learners.tree import Indices
from littlestone.ray.cluster import Ray, plain_error, ray_data

ROW = "littlestone.row"
"""The column with the place of a row in the stream: what comes in another order is noticed."""
VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}
TROUBLE = "littlestone.trouble"
"""The only column of a table that could not be read: why. Ray Data would make a page of it."""


class TableSlice(NamedTuple):
    """Which rows of a table: `size` of them from `offset` on; the first is row `row` of all."""

    offset: int
    size: int
    row: int


class RuleErrors(NamedTuple):
    """What a rule makes of a block: the places it gets wrong, and, per user, their routes.

    `nulls` rows cannot be read; `bad` tells why of the first. `sums` are checksums and lengths of
    the columns, if they were asked for.
    """

    wrong: npt.NDArray[np.uint32]
    routes: npt.NDArray[np.uint64] | None
    nulls: int
    bad: tuple[BadRow, ...]
    sums: Checksums


class ShardRequest(NamedTuple):
    """Whose rows are wanted: the coins' seed, the trees that are marked, where shards begin."""

    seed: int
    marked: Mask
    bounds: list[int]

    def trees_of(self, routes: Routes) -> Indices:
        """The tree of each route."""
        return trees_of(self.seed, len(self.marked), routes)


def read_span(span: dict[str, Any], wanted: ColumnSchema) -> Any:
    """Some row groups of a file, as a table, with the place of each row."""
    import pyarrow

    path, row = str(span["path"][0]), int(span["row"][0])
    first, end = int(span["first"][0]), int(span["end"][0])
    try:
        table = ParquetFile(path, wanted).table(range(first, end))
    except BadStream as error:
        return pyarrow.table({TROUBLE: [str(error)]})
    except OSError as error:
        return pyarrow.table({TROUBLE: [f"{path}: {error.strerror or error}"]})
    for place, held in enumerate(table.schema):
        if str(held.type) in VIEWS:  # of which Arrow cannot take some
            table = table.set_column(
                place, held.name, table.column(place).cast(VIEWS[str(held.type)])
            )
    return table.append_column(ROW, pyarrow.array(np.arange(row, row + len(table))))


def table_of(table: Any, where: TableSlice) -> Any:
    """Rows of a table, if they are those that are meant."""
    if TROUBLE in table.column_names:
        raise BadStream(table.column(TROUBLE)[0].as_py())
    part = table.slice(where.offset, where.size)
    if part.num_rows != where.size or part.column(ROW)[0].as_py() != where.row:
        raise RuntimeError("the rows of the stream have come in another order than they are in")
    return part


def block_from_table(wanted: ColumnSchema, table: Any, where: TableSlice) -> Block:
    """Rows of a table as a class reads them."""
    return piece_from_table(wanted, table_of(table, where), where.row + 1).block()


def rounds_of(wanted: ColumnSchema, block: Block, first: int) -> Rounds:
    """Rows as rounds from `first` on; those that cannot be read are null rounds."""
    batch, usable, answers = readable_rounds(wanted.cls, block.columns, block.labels, "null")
    routes = None
    if block.users is not None:
        routes = user_numbers(block.users, len(block), "null")
        usable = usable & (routes != NO_USER)
    return usable_rounds(batch, answers, usable, first, routes)


def evaluate_rule(
    wanted: ColumnSchema, table: Any, where: TableSlice, rule: Hypothesis, summed: bool
) -> RuleErrors:
    """What a rule makes of some rows."""
    block = block_from_table(wanted, table, where)
    rounds = rounds_of(wanted, block, 0)
    wrong = rounds.wrong(wanted.cls, rule)
    routes = None
    if wanted.user is not None:
        routes = rounds.route[np.searchsorted(rounds.number, wrong)].astype(np.uint64)
    sums = block.sums() if summed else Checksums()
    return RuleErrors(wrong.astype(np.uint32), routes, len(block) - rounds.size, block.bad, sums)


def read_routes(
    wanted: ColumnSchema, table: Any, where: TableSlice
) -> tuple[npt.NDArray[np.uint64], Mask]:
    """The user of each row, and which rows can be read."""
    block = block_from_table(wanted, table, where)
    usable = np.zeros(len(block), dtype=bool)
    usable[rounds_of(wanted, block, 0).number] = True
    return user_numbers(block.users, len(block), "null"), usable


def fetch_rows(
    wanted: ColumnSchema, table: Any, where: TableSlice, first: int, within: Mask | None
) -> Rounds:
    """The rows themselves."""
    rounds = rounds_of(wanted, block_from_table(wanted, table, where), first)
    return rounds if within is None else rounds.taken(within[rounds.number - first])


class StoredRows(NamedTuple):
    """Rows that were put by for a shard, not decoded yet, each with the number of its round."""

    table: Any
    number: Numbers

    def taken(self, places: Numbers) -> "StoredRows":
        """Some of them."""
        return StoredRows(self.table.take(places), self.number[places])

    def rounds(self, wanted: ColumnSchema) -> Rounds:
        """The rows as rounds."""
        some = rounds_of(wanted, piece_from_table(wanted, self.table, 1).block(), 0)
        number = self.number[some.number]
        return some._replace(number=number, route=number if wanted.user is None else some.route)


def scatter(
    wanted: ColumnSchema,
    table: Any,
    where: TableSlice,
    first: int,
    within: Mask | None,
    share: ShardRequest,
) -> list[Any]:
    """Put the rows of marked trees by, for each shard its own."""
    import ray

    part = table_of(table, where)
    whole = StoredRows(part.select(list(wanted.names)), first + np.arange(where.size))
    if within is not None:
        whole = whole.taken(np.flatnonzero(within))
    route = whole.number
    if wanted.user is not None:  # who says which tree it is
        read = rounds_of(wanted, piece_from_table(wanted, whole.table, 1).block(), 0)
        whole, route = whole.taken(read.number), read.route
    trees = share.trees_of(route)
    marked = share.marked[trees]
    by_shard = (
        np.flatnonzero(marked & (trees >= begin) & (trees < end))
        for begin, end in pairwise(share.bounds)
    )
    return [ray.put(whole.taken(some)) for some in by_shard]


FIRST_BLOCK, LARGEST_BLOCK = 4096, 1 << 18
"""Blocks are short while the stream is young, so that there is something to see."""
SPAN = 1 << 18
"""How many rows are read together, at least, if the file has them."""
BLOCKS_AHEAD = 2
"""How many blocks a worker is ahead of the gate."""


@runtime_checkable
class LearnsRemotely(Protocol):
    """What can be shown rows that are elsewhere."""

    def learn_remote(self, rounds: "RemoteRounds") -> object: ...


class RemoteParquet:
    """Parquet files whose rows are read on the cluster. Only their footers are read here."""

    unit, unfinished = "row", 0

    def __init__(self, engine: Ray, path: str, wanted: ColumnSchema, summed: bool) -> None:
        self._near = ParquetRows(path, path, wanted)
        self.wanted, self.summed, self._workers = wanted, summed, engine.count()
        self._ray = engine.connected()
        self.wanted_there = self._ray.put(wanted)
        self._tasks: dict[Callable[..., object], Any] = {}
        self._ahead: deque[RemoteParquetBlock] = deque()
        self.rule = wanted.cls.hypothesis(wanted.cls.start()) or NEVER
        """What was asked of the blocks to come."""

    def length(self) -> int:
        """How many rows there are."""
        return self._near.length()

    def close(self) -> None:
        """Nothing is open here."""

    def identity(self, rows: int) -> str:
        """Return what changes when a file that holds one of the first rows is written again."""
        return self._near.identity(rows)

    def beginning(self) -> Block:
        """Return the first rows, read here: the whole would have to be begun on the cluster."""
        return next(self._near.blocks(BEGINNING), Block({}, np.zeros(0, np.int8), None, (), 0))

    def blocks(
        self,
        size: int,
        start: Start | None = None,
        passing: Callable[[int, int], None] | None = None,
    ) -> "Iterator[RemoteParquetBlock]":
        """Return the rows from a row on, some at a time, each asked for before its turn; `size` is
        for rows here. Row groups before that row are not read."""
        coming = self._coming(start.row if start else 0)
        while True:
            while len(self._ahead) <= BLOCKS_AHEAD * self._workers and (
                block := next(coming, None)
            ):
                self._ahead.append(block)
                block.ask(self.rule)
            if not self._ahead:
                return
            yield self._ahead.popleft()

    def ask_ahead(self, rule: Hypothesis) -> None:
        """Ask what a rule makes of the blocks to come."""
        if rule != self.rule:
            self.rule = rule
            for block in self._ahead:
                block.ask(rule)

    def there(self, task: Callable[..., object], table: Any, where: TableSlice, *more: Any) -> Any:
        """Have a task done where some rows are: the address of its answer."""
        if task not in self._tasks:
            self._tasks[task] = self._ray.remote(task)
        return self._tasks[task].remote(self.wanted_there, table, where, *more)

    def brought(self, answer: Any) -> Any:
        """What is at an address."""
        with plain_error(self._ray):
            return self._ray.get(answer)

    def _coming(self, start: int) -> "Iterator[RemoteParquetBlock]":
        spans = [span for span in self._spans() if span["row"] + span["rows"] > start]
        row = start
        offset = start - spans[0]["row"] if spans else 0
        for table, count in self._tables(spans):
            while offset < count:
                size = min(max(FIRST_BLOCK, row), LARGEST_BLOCK, count - offset)
                yield RemoteParquetBlock(self, table, TableSlice(offset, size, row))
                offset, row = offset + size, row + size
            offset = 0

    def _tables(self, spans: list[dict[str, Any]]) -> Iterator[tuple[Any, int]]:
        """The addresses of tables in Ray's object store, in the order of the rows."""
        if not spans:
            return
        data = ray_data()
        at_once = min(self._workers, len(spans))
        context = data.DataContext.get_current().copy()
        context.execution_options.preserve_order, context.enable_progress_bars = True, False
        with data.DataContext.current(context):
            tables = data.from_items(spans, override_num_blocks=len(spans)).map_batches(
                read_span, fn_args=[self.wanted], batch_size=1, concurrency=at_once
            )
        with plain_error(self._ray):
            for bundle in tables.iter_internal_ref_bundles():
                for entry in bundle.blocks:
                    yield entry.ref, entry.metadata.num_rows

    def _spans(self) -> list[dict[str, Any]]:
        """Row groups that are read together."""
        spans: list[dict[str, Any]] = []
        row = 0
        for file in self._near.files:
            path, first, rows = os.path.abspath(file.path), 0, 0
            for group, count in enumerate(file.groups):
                rows += count
                if rows >= SPAN or group == len(file.groups) - 1:
                    where = {"first": first, "end": group + 1, "row": row, "rows": rows}
                    spans.append({"path": path} | where)
                    first, row, rows = group + 1, row + rows, 0
        return spans


def open_remote_rows(
    engine: Ray,
    path: str,
    cls: HypothesisClass,
    *,
    label: str,
    user: str | None = None,
    strict: bool = False,
    summed: bool = False,
) -> "RowReader[RemoteParquetBlock]":
    """The labelled rows of Parquet files, read on a cluster: what `open_rows` is here. If `summed`,
    their checksums are found on the way."""
    source = RemoteParquet(engine, path, column_schema(cls, label, user), summed)
    return RowReader(
        path, source, strict=strict, block_rows=LARGEST_BLOCK, beginning=source.beginning()
    )


class RemoteParquetBlock:
    """Some consecutive rows that are elsewhere."""

    def __init__(self, source: RemoteParquet, table: Any, where: TableSlice) -> None:
        self._source, self._table, self._where = source, table, where
        self._asked: dict[Hypothesis, Any] = {}
        self._readable: tuple[Numbers, Mask] | None = None

    def __len__(self) -> int:
        return self._where.size

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._where.size

    @property
    def has_users(self) -> bool:
        """Whether a column names users."""
        return self._source.wanted.user is not None

    def part(self, start: int, stop: int) -> "RemoteParquetBlock":
        """Some of the rows."""
        offset, count, row = self._where
        start, stop = min(start, count), min(stop, count)
        if (start, stop) == (0, count):
            return self
        where = TableSlice(offset + start, stop - start, row + start)
        return RemoteParquetBlock(self._source, self._table, where)

    def start(self, row: int) -> Start:
        """Where the first of the rows is, if `row` rows of the source come before it."""
        return Start(row)

    def ask(self, rule: Hypothesis) -> None:
        """Have somebody find out what a rule makes of the rows."""
        if rule not in self._asked:
            last = list(self._asked.items())[-1:]
            self._asked = dict(last) | {rule: self._there(evaluate_rule, rule, self._source.summed)}

    def found(self, rule: Hypothesis) -> RuleErrors:
        """What a rule makes of the rows."""
        self.ask(rule)
        if not isinstance(self._asked[rule], RuleErrors):
            self._asked[rule] = self._brought(self._asked[rule])
        return cast(RuleErrors, self._asked[rule])

    def _any(self) -> RuleErrors:
        """What some rule makes of them."""
        return self.found(next(iter(self._asked), self._source.rule))

    @property
    def bad(self) -> tuple[BadRow, ...]:
        """Why the first null rounds are null. Private."""
        return self._any().bad

    def nulls_before(self, stop: int) -> int:
        """How many of the first rows cannot be read. Private."""
        return self.part(0, stop)._any().nulls

    @property
    def nulls(self) -> int:
        """How many rows cannot be read. Private."""
        return self._any().nulls

    def null_rounds(self, within: Mask | None) -> int:
        """How many rows cannot be read, or are not within a cap. Private."""
        return self.nulls if within is None else len(self) - int((within & self._read()[1]).sum())

    def routes(self) -> Numbers:
        """The number of each row's user."""
        return self._read()[0]

    def _read(self) -> tuple[Numbers, Mask]:
        if self._readable is None:
            self._readable = self._brought(self._there(read_routes))
        return self._readable

    def sums(self) -> Checksums:
        """The checksums of the columns."""
        return self._any().sums

    def numbered(self, first: int, within: Mask | None) -> "RemoteRounds":
        """The rows as rounds from `first` on."""
        return RemoteRounds(self, first, within, first, first + len(self))

    def here(self, first: int, within: Mask | None) -> Rounds:
        """The rows themselves, as rounds from `first` on."""
        return cast(Rounds, self._brought(self._there(fetch_rows, first, within)))

    def scatter(self, first: int, within: Mask | None, share: ShardRequest) -> Any:
        """Have the rows of marked trees put by for the shards: the address of their addresses."""
        return self._there(scatter, first, within, share)

    @property
    def wanted_there(self) -> Any:
        """The address of what is to be read of the rows."""
        return self._source.wanted_there

    def _there(self, task: Callable[..., object], *more: Any) -> Any:
        return self._source.there(task, self._table, self._where, *more)

    def _brought(self, answer: Any) -> Any:
        return self._source.brought(answer)

    def ask_ahead(self, rule: Hypothesis) -> None:
        """A rule stands: ask what it makes of the blocks to come, too."""
        self._source.ask_ahead(rule)


class RemoteRounds:
    """The rounds of a block from `start` up to `stop`; the first round of the block is `first`."""

    def __init__(
        self, block: RemoteParquetBlock, first: int, within: Mask | None, start: int, stop: int
    ) -> None:
        self._block, self._first, self._within = block, first, within
        self._start, self._stop = start, stop

    @property
    def size(self) -> int:
        """How many rounds, at most."""
        return self._stop - self._start

    def between(self, start: int, stop: int) -> "RemoteRounds":
        """The rounds from `start` up to, not including, `stop`."""
        start, stop = max(start, self._start), min(stop, self._stop)
        return RemoteRounds(self._block, self._first, self._within, start, max(start, stop))

    def followed_by(self, other: "RemoteRounds") -> "RemoteRounds | None":
        """These rounds and those that come next, if they are of one block."""
        same = self._block is other._block and self._first == other._first
        if not same or self._stop != other._start:
            return None
        return RemoteRounds(self._block, self._first, self._within, self._start, other._stop)

    def wrong(self, cls: HypothesisClass, rule: Hypothesis) -> Numbers:
        """The numbers of the rounds that a rule gets wrong, in order."""
        self._block.ask_ahead(rule)
        return self._wrong(rule)[0]

    def wrong_routes(self, rule: Hypothesis) -> Numbers:
        """What routes the rounds that a rule gets wrong."""
        numbers, routes = self._wrong(rule)
        return numbers if routes is None else routes

    def _wrong(self, rule: Hypothesis) -> tuple[Numbers, Numbers | None]:
        if not self.size:
            return np.zeros(0, dtype=int), None
        found = self._block.found(rule)
        begin, end = np.searchsorted(
            found.wrong, [self._start - self._first, self._stop - self._first]
        )
        places = found.wrong[begin:end].astype(np.intp)
        routes = None if found.routes is None else found.routes[begin:end]
        if self._within is not None:
            kept = self._within[places]
            places, routes = places[kept], None if routes is None else routes[kept]
        return self._first + places, routes

    def update(self, memory: Learnable[Told]) -> Told:
        """Show the rounds to a forest in shards, from where they are."""
        if not isinstance(memory, LearnsRemotely):
            raise TypeError("rows on a cluster are for trees on a cluster")
        return cast(Told, memory.learn_remote(self))

    def number_of(self, row: int) -> int:
        """The number of the round of a row: shards tell of rounds."""
        return row

    def copied(self) -> "RemoteRounds":
        """The same rounds: the cluster keeps them for as long as somebody knows of them."""
        return self

    def here(self) -> Rounds:
        """The rows themselves."""
        return self._block.here(self._first, self._within).between(self._start, self._stop)

    @property
    def wanted_there(self) -> Any:
        """The address of what is to be read of the rows."""
        return self._block.wanted_there

    def scatter(self, share: ShardRequest) -> Any:
        """Have the rows of marked trees put by for the shards: the address of their addresses."""
        start, stop = self._start - self._first, self._stop - self._first
        within = None if self._within is None else self._within[start:stop]
        return self._block.part(start, stop).scatter(self._start, within, share)
