"""Remote rows: Parquet read on the cluster by Ray Data, and what the driver knows of it.

A block of rows is a slice of an Arrow table in Ray's object store. The first half of this module
are tasks: functions that run where the rows are and keep nothing. The driver gets the numbers of
the rounds that a rule gets wrong; rows for the shards go to the object store, and only references
to them pass the driver. A learner of causes has no shards: the driver gets its rounds coded.

The driver requests that a few blocks ahead, always for the last rule that it knows: a new rule
makes it request again.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

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
    Checksums,
    Numbers,
    Rounds,
    Start,
    UsableRounds,
)
from littlestone._data.schema import Schema, file_schema
from littlestone._data.tables import TableFile, rounds_of_table
from littlestone._hypotheses.causes import Cause
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.coded_rounds import CodedRounds
from littlestone._learners.epoch_rows import ColumnsOfRows, PatternIndex
from littlestone._learners.forest import Routes, trees_of
from littlestone._learners.tree import Indices
from littlestone._ray.cluster import Ray, ray_data, task_errors

# The column with the number of a row in the stream, by which another order is noticed.
ROW = "littlestone.row"
VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}
# The only column of a table that could not be read: why. Ray Data would print a page for it.
ERROR = "littlestone.error"


class TableSlice(NamedTuple):
    """Specify some rows of a table."""

    offset: int
    size: int
    row: int


class RuleErrors(NamedTuple):
    """Hold the mistakes of a rule in a block."""

    wrong: npt.NDArray[np.uint32]
    routes: npt.NDArray[np.uint64] | None
    nulls: int
    bad: tuple[BadRow, ...]
    sums: Checksums


@dataclass(frozen=True)
class CodedBlock:
    """Hold what the causes learner reads of a block, in few bytes."""

    size: int
    usable: npt.NDArray[np.uint8]
    answers: npt.NDArray[np.uint8]
    matches: tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]] | None
    unmatched: ColumnsOfRows
    nulls: int
    bad: tuple[BadRow, ...]
    sums: Checksums
    own: npt.NDArray[np.int8] | None = None

    @cached_property
    def rounds(self) -> CodedRounds:
        """Return the rows that can be read, by their places."""
        number = np.flatnonzero(np.unpackbits(self.usable, count=self.size))
        answers = np.unpackbits(self.answers, count=len(number)).view(bool)
        none = np.zeros(len(number), np.int8), np.full(len(number), -1, np.int8)
        matches = self.matches or none
        return CodedRounds(number, answers, *matches, self.unmatched, self.own)


class ShardRequest(NamedTuple):
    """Specify which rows the shards need."""

    seed: int
    active: Mask
    bounds: list[int]

    def trees_of(self, routes: Routes) -> Indices:
        """Return the tree of each route."""
        return trees_of(self.seed, len(self.active), routes)


def read_span(span: dict[str, Any], schema: Schema, files: Sequence[Location]) -> Any:
    """Return some row groups of a file as a table, with the number of each row."""
    import pyarrow

    # Ray Data passes a batch of columns; ours has one row.
    file, row = files[int(span["file"][0])], int(span["row"][0])
    first, end = int(span["first"][0]), int(span["end"][0])
    try:
        parts = TableFile(file, schema, "parquet").parts(slice(first, end), SPAN)
        table = pyarrow.concat_tables(parts)
    except BadStream as error:
        return pyarrow.table({ERROR: [str(error)]})
    except OSError as error:
        return pyarrow.table({ERROR: [f"{file.name}: {error.strerror or error}"]})
    for place, held in enumerate(table.schema):
        if str(held.type) in VIEWS:  # Arrow has no `take` for views
            table = table.set_column(
                place, held.name, table.column(place).cast(VIEWS[str(held.type)])
            )
    return table.append_column(ROW, pyarrow.array(np.arange(row, row + len(table))))


def slice_table(table: Any, where: TableSlice) -> Any:
    """Return some rows of a table."""
    if ERROR in table.column_names:
        raise BadStream(table.column(ERROR)[0].as_py())
    part = table.slice(where.offset, where.size)
    # Round i is row i (docs/guarantee.md, Lemma 0): another order must stop the run.
    if part.num_rows != where.size or part.column(ROW)[0].as_py() != where.row:
        raise RuntimeError("the rows of the stream have come in another order than they are in")
    return part


def block_from_table(schema: Schema, table: Any, where: TableSlice) -> Rounds:
    """Return some rows of a table as rounds."""
    return rounds_of_table(schema, slice_table(table, where), where.row)


def evaluate_rule(
    schema: Schema, table: Any, where: TableSlice, rule: Hypothesis, summed: bool
) -> RuleErrors:
    """Return the mistakes of a rule in some rows."""
    block = block_from_table(schema, table, where)
    rounds = block.numbered(0)
    wrong = rounds.wrong(schema.cls, rule)
    routes = None
    if schema.user is not None:
        routes = rounds.route[np.searchsorted(rounds.number, wrong)].astype(np.uint64)
    sums = block.sums() if summed else Checksums()
    return RuleErrors(wrong.astype(np.uint32), routes, len(block) - rounds.size, block.bad, sums)


def code_rows(
    schema: Schema, table: Any, where: TableSlice, causes: tuple[Cause, ...], summed: bool
) -> CodedBlock:
    """Return what the causes learner reads of some rows."""
    assert isinstance(schema.cls, Causes), "other classes have no learner of causes"
    block = block_from_table(schema, table, where)
    rounds = CodedRounds.of(block.numbered(0), causes, PatternIndex(schema.cls))
    usable = np.zeros(len(block), dtype=bool)
    usable[rounds.number] = True
    return CodedBlock(
        size=len(block),
        usable=np.packbits(usable),
        answers=np.packbits(rounds.answers),
        matches=(rounds.counts, rounds.first) if causes else None,
        unmatched=rounds.unmatched,
        nulls=len(block) - rounds.size,
        bad=block.bad,
        sums=block.sums() if summed else Checksums(),
        own=rounds.own,
    )


class Evaluation(NamedTuple):
    """Specify what is computed for every row, on the blocks ahead too."""

    task: Callable[..., RuleErrors | CodedBlock]
    published: Hypothesis | tuple[Cause, ...]


def read_routes(
    schema: Schema, table: Any, where: TableSlice
) -> tuple[npt.NDArray[np.uint64], Mask]:
    """Return the user of each row, and which rows can be read."""
    block = block_from_table(schema, table, where)
    assert block.users is not None, "the plan protects users"
    return block.users, block.usable


def fetch_rows(
    schema: Schema, table: Any, where: TableSlice, first: int, within: Mask | None
) -> UsableRounds:
    """Return the rows as rounds."""
    return block_from_table(schema, table, where).numbered(first, within)


class StoredRows(NamedTuple):
    """Hold rows for a shard, in the object store."""

    table: Any
    number: Numbers

    def taken(self, places: Numbers) -> "StoredRows":
        """Return some of the rows."""
        return StoredRows(self.table.take(places), self.number[places])

    def rounds(self, schema: Schema) -> UsableRounds:
        """Return the rows as rounds."""
        some = rounds_of_table(schema, self.table, 0).numbered(0)
        number = self.number[some.number]
        return some._replace(number=number, route=number if schema.user is None else some.route)


def scatter(
    schema: Schema,
    table: Any,
    where: TableSlice,
    first: int,
    within: Mask | None,
    share: ShardRequest,
) -> list[Any]:
    """Store the rows of active trees, for each shard its own, and return references to them."""
    import ray

    part = slice_table(table, where)
    # Not decoded here: the shard does it, and most rows are dropped below.
    whole = StoredRows(part.select(list(schema.names)), first + np.arange(where.size))
    if within is not None:
        whole = whole.taken(np.flatnonzero(within))
    route = whole.number
    if schema.user is not None:  # the user decides the tree, so the rows must be decoded
        read = rounds_of_table(schema, whole.table, 0).numbered(0)
        whole, route = whole.taken(read.number), read.route
    trees = share.trees_of(route)
    active = share.active[trees]
    by_shard = (
        np.flatnonzero(active & (trees >= begin) & (trees < end))
        for begin, end in pairwise(share.bounds)
    )
    return [ray.put(whole.taken(some)) for some in by_shard]


# The most rows of a block.
LARGEST_BLOCK = 1 << 18
# Rows that are read together, at least, if the file has them.
SPAN = 1 << 18
# Blocks that are evaluated ahead, for each worker.
BLOCKS_AHEAD = 2


@runtime_checkable
class LearnsRemotely(Protocol):
    """Specify a learner of remote rows."""

    def learn_remote(self, rounds: "RemoteRounds") -> object: ...


class RemoteParquet:
    """Read Parquet files on the cluster; only their footers are read locally."""

    unit, unfinished = "row", 0

    def __init__(self, engine: Ray, path: str, schema: Schema, summed: bool) -> None:
        self._local = open_table_rows(path, path, schema, "parquet")
        self.schema, self.summed, self._workers = schema, summed, engine.count()
        self._ray = engine.connected()
        self.schema_ref = self._ray.put(schema)
        self._tasks: dict[Callable[..., object], Any] = {}
        self._ahead: deque[RemoteParquetBlock] = deque()
        # What is evaluated on the blocks ahead. Which learner reads them is not known yet.
        first: Hypothesis = NEVER
        if not schema.normal:
            first = schema.cls.hypothesis(schema.cls.start()) or NEVER
        self.evaluation = Evaluation(evaluate_rule, first)

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
        self,
        size: BlockSize,
        after: Start | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> "Iterator[tuple[RemoteParquetBlock, Start]]":
        """Yield the rows, evaluated a few blocks ahead."""
        row = after.row if after else 0
        blocks = self._remote_blocks(row, size)
        while True:
            while len(self._ahead) <= BLOCKS_AHEAD * self._workers and (
                block := next(blocks, None)
            ):
                self._ahead.append(block)
                block.request(self.evaluation)
            if not self._ahead:
                return
            block = self._ahead.popleft()
            row += len(block)
            yield block, Start(row)

    def request_ahead(self, evaluation: Evaluation) -> None:
        """Evaluate what is published now on the blocks ahead."""
        # The gate needs the mistakes of the published rule only.
        if evaluation != self.evaluation:
            self.evaluation = evaluation
            for block in self._ahead:
                block.request(evaluation)

    def submit(
        self, task: Callable[..., object], table: Any, where: TableSlice, *arguments: Any
    ) -> Any:
        """Run a task where some rows are, and return a reference to its result."""
        if task not in self._tasks:
            self._tasks[task] = self._ray.remote(task)
        return self._tasks[task].remote(self.schema_ref, table, where, *arguments)

    def get(self, ref: Any) -> Any:
        """Return what a reference refers to."""
        with task_errors(self._ray):
            return self._ray.get(ref)

    def _remote_blocks(self, start: int, size_after: BlockSize) -> "Iterator[RemoteParquetBlock]":
        spans = [span for span in self._spans() if span["row"] + span["rows"] > start]
        row = start
        offset = start - spans[0]["row"] if spans else 0
        for table, count in self._tables(spans):
            while offset < count:
                size = min(size_after(row), count - offset)
                yield RemoteParquetBlock(self, table, TableSlice(offset, size, row))
                offset, row = offset + size, row + size
            offset = 0

    def _tables(self, spans: list[dict[str, Any]]) -> Iterator[tuple[Any, int]]:
        """Yield references to tables in the object store, in the order of the rows."""
        if not spans:
            return
        data = ray_data()
        at_once = min(self._workers, len(spans))
        # A copy: the options of other users of Ray Data in this process stay as they are.
        context = data.DataContext.get_current().copy()
        context.execution_options.preserve_order, context.enable_progress_bars = True, False
        with data.DataContext.current(context):
            tables = data.from_items(spans, override_num_blocks=len(spans)).map_batches(
                read_span, fn_args=[self.schema, self.files], batch_size=1, concurrency=at_once
            )
        with task_errors(self._ray):
            for bundle in tables.iter_internal_ref_bundles():
                for entry in bundle.blocks:
                    yield entry.ref, entry.metadata.num_rows

    @property
    def files(self) -> list[Location]:
        """Return where the files are, for tasks that run in other folders."""
        found = [file.location for file in self._local.files]
        return [
            file._replace(path=os.path.abspath(file.path)) if file.filesystem is None else file
            for file in found
        ]

    def _spans(self) -> list[dict[str, Any]]:
        """Return the row groups that are read together."""
        spans: list[dict[str, Any]] = []
        row = 0
        for number, file in enumerate(self._local.files):
            first, rows = 0, 0
            for group, count in enumerate(file.groups):
                rows += count
                if rows and (rows >= SPAN or group == len(file.groups) - 1):
                    where = {"first": first, "end": group + 1, "row": row, "rows": rows}
                    spans.append({"file": number} | where)
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
    positive: Sequence[str] = (),
) -> "RowReader[RemoteParquetBlock]":
    """Open Parquet files of labelled rows, to be read on a cluster."""
    source = RemoteParquet(engine, path, file_schema(cls, label, user, positive), summed)
    return RowReader(
        path, source, strict=strict, block_rows=LARGEST_BLOCK, beginning=source.beginning()
    )


class RemoteParquetBlock:
    """Refer to consecutive remote rows; a `RowSpan`."""

    def __init__(self, source: RemoteParquet, table: Any, where: TableSlice) -> None:
        self._source, self._table, self._where = source, table, where
        self._results: dict[Evaluation, Any] = {}
        self._readable: tuple[Numbers, Mask] | None = None

    def __len__(self) -> int:
        return self._where.size

    @property
    def has_users(self) -> bool:
        """Return whether a column names users."""
        return self._source.schema.user is not None

    def part(self, start: int, stop: int) -> "RemoteParquetBlock":
        """Implement `RowSpan.part`."""
        offset, count, row = self._where
        start, stop = min(start, count), min(stop, count)
        # The same object keeps the results that were requested for it.
        if (start, stop) == (0, count):
            return self
        where = TableSlice(offset + start, stop - start, row + start)
        return RemoteParquetBlock(self._source, self._table, where)

    def request(self, evaluation: Evaluation) -> None:
        """Start to evaluate what is published on the rows."""
        if evaluation not in self._results:
            # The last result is kept too: the rule of the epoch and the published one alternate.
            last = list(self._results.items())[-1:]
            task, published = evaluation
            self._results = dict(last) | {
                evaluation: self._submit(task, published, self._source.summed)
            }

    def result_of(self, evaluation: Evaluation) -> RuleErrors | CodedBlock:
        """Return the result of an evaluation."""
        self.request(evaluation)
        if not isinstance(self._results[evaluation], RuleErrors | CodedBlock):
            self._results[evaluation] = self._source.get(self._results[evaluation])
        return cast(RuleErrors | CodedBlock, self._results[evaluation])

    def errors_of(self, rule: Hypothesis) -> RuleErrors:
        """Return the mistakes of a rule in the rows."""
        return cast(RuleErrors, self.result_of(Evaluation(evaluate_rule, rule)))

    def coded(self, causes: tuple[Cause, ...]) -> CodedRounds:
        """Return what the causes learner reads of the rows, by their places in the block."""
        coding = Evaluation(code_rows, causes)
        # First the rows that are waited for.
        self.request(coding)
        self._source.request_ahead(coding)
        return cast(CodedBlock, self.result_of(coding)).rounds

    def _any_result(self) -> RuleErrors | CodedBlock:
        """Return any result, for what all of them have."""
        for result in self._results.values():
            if isinstance(result, RuleErrors | CodedBlock):
                return result
        # The last one: the learner will ask for it too, and not for what was published before.
        return self.result_of(next(reversed(self._results), self._source.evaluation))

    @property
    def bad(self) -> tuple[BadRow, ...]:
        """Implement `RowSpan.bad`."""
        return self._any_result().bad

    def nulls_before(self, stop: int) -> int:
        """Implement `RowSpan.nulls_before`."""
        return self.part(0, stop)._any_result().nulls

    @property
    def nulls(self) -> int:
        """Implement `RowSpan.nulls`."""
        return self._any_result().nulls

    def null_rounds(self, within: Mask | None = None) -> int:
        """Return how many rows cannot be read, or are not within a cap. Private."""
        return self.nulls if within is None else len(self) - int((within & self._read()[1]).sum())

    def routes(self) -> Numbers:
        """Return the number of each row's user."""
        return self._read()[0]

    def _read(self) -> tuple[Numbers, Mask]:
        if self._readable is None:
            self._readable = self._source.get(self._submit(read_routes))
        return self._readable

    def sums(self) -> Checksums:
        """Implement `RowSpan.sums`."""
        return self._any_result().sums

    def numbered(self, first: int, within: Mask | None = None) -> "RemoteRounds":
        """Return the rows as rounds from `first` on."""
        return RemoteRounds(self, first, within, first, first + len(self))

    def here(self, first: int, within: Mask | None) -> UsableRounds:
        """Fetch the rows, as rounds from `first` on."""
        return cast(UsableRounds, self._source.get(self._submit(fetch_rows, first, within)))

    def scatter(self, first: int, within: Mask | None, share: ShardRequest) -> Any:
        """Store the rows of active trees; return a reference to the shards' references."""
        return self._submit(scatter, first, within, share)

    @property
    def schema_ref(self) -> Any:
        """Return a reference to the schema of the rows."""
        return self._source.schema_ref

    def _submit(self, task: Callable[..., object], *arguments: Any) -> Any:
        return self._source.submit(task, self._table, self._where, *arguments)

    def request_ahead(self, rule: Hypothesis) -> None:
        """Evaluate a new published rule on the blocks ahead, too."""
        self._source.request_ahead(Evaluation(evaluate_rule, rule))


class RemoteRounds:
    """Refer to the rounds of a remote block; a `RoundBatch`."""

    def __init__(
        self, block: RemoteParquetBlock, first: int, within: Mask | None, start: int, stop: int
    ) -> None:
        self._block, self._first, self._within = block, first, within
        self._start, self._stop = start, stop

    @property
    def size(self) -> int:
        """Return the number of rounds, at most."""
        return self._stop - self._start

    def between(self, start: int, stop: int) -> "RemoteRounds":
        """Return the rounds from `start` up to, not including, `stop`."""
        start, stop = max(start, self._start), min(stop, self._stop)
        return RemoteRounds(self._block, self._first, self._within, start, max(start, stop))

    def followed_by(self, other: "RemoteRounds") -> "RemoteRounds | None":
        """Return these rounds and those that follow, if they are of one block."""
        same = self._block is other._block and self._first == other._first
        if not same or self._stop != other._start:
            return None
        return RemoteRounds(self._block, self._first, self._within, self._start, other._stop)

    def wrong(self, cls: HypothesisClass, rule: Hypothesis) -> Numbers:
        """Return the numbers of the rounds that a rule gets wrong, in order."""
        self._block.request_ahead(rule)
        return self._wrong(rule)[0]

    def wrong_routes(self, rule: Hypothesis) -> Numbers:
        """Return the routes of the rounds that a rule gets wrong."""
        numbers, routes = self._wrong(rule)
        return numbers if routes is None else routes

    def _wrong(self, rule: Hypothesis) -> tuple[Numbers, Numbers | None]:
        if not self.size:
            return np.zeros(0, dtype=int), None
        found = self._block.errors_of(rule)
        begin, end = np.searchsorted(
            found.wrong, [self._start - self._first, self._stop - self._first]
        )
        places = found.wrong[begin:end].astype(np.intp)
        routes = None if found.routes is None else found.routes[begin:end]
        if self._within is not None:
            kept = self._within[places]
            places, routes = places[kept], None if routes is None else routes[kept]
        return self._first + places, routes

    def coded(self, causes: tuple[Cause, ...]) -> CodedRounds:
        """Return what the causes learner reads of the rounds."""
        start, stop = self._start - self._first, self._stop - self._first
        part = self._block.coded(causes).between(start, stop)
        if self._within is not None:
            part = part.taken(self._within[part.number])
        return part._replace(number=self._first + part.number)

    def update(self, memory: object) -> None:
        """Let a forest in shards learn the rounds, where they are."""
        if not isinstance(memory, LearnsRemotely):
            raise TypeError("remote rows require a forest on the cluster")
        memory.learn_remote(self)

    def copied(self) -> "RemoteRounds":
        """Return the same rounds: the cluster keeps them as long as there is a reference."""
        return self

    def here(self) -> UsableRounds:
        """Fetch the rows."""
        return self._block.here(self._first, self._within).between(self._start, self._stop)

    @property
    def schema_ref(self) -> Any:
        """Return a reference to the schema of the rows."""
        return self._block.schema_ref

    def scatter(self, share: ShardRequest) -> Any:
        """Store the rows of active trees; return a reference to the shards' references."""
        start, stop = self._start - self._first, self._stop - self._first
        within = None if self._within is None else self._within[start:stop]
        return self._block.part(start, stop).scatter(self._start, within, share)
