"""Rows that are elsewhere: Parquet read by Ray Data, and what the driver knows of it.

The driver knows how many rows there are, which round is which row, and which rounds a rule gets
wrong. It asks for that a few blocks ahead, always with the rule it asked for last: a new rule makes
it ask again.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from littlestone.edge.blocks import BadRow, Block, Start, Wanted, wanted
from littlestone.edge.checksums import Sums
from littlestone.edge.engine import tasks
from littlestone.edge.engine.cluster import Ray, plainly, ray_data
from littlestone.edge.engine.tasks import Found, Share, Where
from littlestone.edge.parquet import ParquetRows
from littlestone.edge.readers import BEGINNING, Rows
from littlestone.learning.rounds import Learns, Numbers, Rounds, Told
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.hypothesis import NEVER, Hypothesis
from littlestone.theory.values import Mask

FIRST_BLOCK, LARGEST_BLOCK = 4096, 1 << 18
"""Blocks are short while the stream is young, so that there is something to see."""
SPAN = 1 << 18
"""How many rows are read together, at least, if the file has them."""
AHEAD = 2
"""How many blocks a worker is ahead of the gate."""


@runtime_checkable
class LearnsFar(Protocol):
    """What can be shown rows that are elsewhere."""

    def learn_far(self, rounds: "FarRounds") -> object: ...


class FarParquet:
    """Parquet files whose rows are read on the cluster. Only their footers are read here."""

    unit, unfinished = "row", 0

    def __init__(self, engine: Ray, path: str, wanted: Wanted, summed: bool) -> None:
        self._near = ParquetRows(path, path, wanted)
        self.wanted, self.summed, self._workers = wanted, summed, engine.count()
        self._ray = engine.connected()
        self.wanted_there = self._ray.put(wanted)
        self._tasks: dict[Callable[..., object], Any] = {}
        self._ahead: deque[FarBlock] = deque()
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
    ) -> "Iterator[FarBlock]":
        """Return the rows from a row on, some at a time, each asked for before its turn; `size` is
        for rows here. Row groups before that row are not read."""
        coming = self._coming(start.row if start else 0)
        while True:
            while len(self._ahead) <= AHEAD * self._workers and (block := next(coming, None)):
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

    def there(self, task: Callable[..., object], table: Any, where: Where, *more: Any) -> Any:
        """Have a task done where some rows are: the address of its answer."""
        if task not in self._tasks:
            self._tasks[task] = self._ray.remote(task)
        return self._tasks[task].remote(self.wanted_there, table, where, *more)

    def brought(self, answer: Any) -> Any:
        """What is at an address."""
        with plainly(self._ray):
            return self._ray.get(answer)

    def _coming(self, start: int) -> "Iterator[FarBlock]":
        spans = [span for span in self._spans() if span["row"] + span["rows"] > start]
        row = start
        offset = start - spans[0]["row"] if spans else 0
        for table, count in self._tables(spans):
            while offset < count:
                size = min(max(FIRST_BLOCK, row), LARGEST_BLOCK, count - offset)
                yield FarBlock(self, table, Where(offset, size, row))
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
                tasks.read_span, fn_args=[self.wanted], batch_size=1, concurrency=at_once
            )
        with plainly(self._ray):
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


def open_far_rows(
    engine: Ray,
    path: str,
    cls: HypothesisClass,
    *,
    label: str,
    user: str | None = None,
    strict: bool = False,
    summed: bool = False,
) -> "Rows[FarBlock]":
    """The labelled rows of Parquet files, read on a cluster: what `open_rows` is here. If `summed`,
    their checksums are found on the way."""
    source = FarParquet(engine, path, wanted(cls, label, user), summed)
    return Rows(path, source, strict, LARGEST_BLOCK, source.beginning())


class FarBlock:
    """Some consecutive rows that are elsewhere."""

    def __init__(self, source: FarParquet, table: Any, where: Where) -> None:
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

    def part(self, start: int, stop: int) -> "FarBlock":
        """Some of the rows."""
        offset, count, row = self._where
        start, stop = min(start, count), min(stop, count)
        if (start, stop) == (0, count):
            return self
        where = Where(offset + start, stop - start, row + start)
        return FarBlock(self._source, self._table, where)

    def start(self, row: int) -> Start:
        """Where the first of the rows is, if `row` rows of the source come before it."""
        return Start(row)

    def ask(self, rule: Hypothesis) -> None:
        """Have somebody find out what a rule makes of the rows."""
        if rule not in self._asked:
            last = list(self._asked.items())[-1:]
            self._asked = dict(last) | {rule: self._there(tasks.look, rule, self._source.summed)}

    def found(self, rule: Hypothesis) -> Found:
        """What a rule makes of the rows."""
        self.ask(rule)
        if not isinstance(self._asked[rule], Found):
            self._asked[rule] = self._brought(self._asked[rule])
        return cast(Found, self._asked[rule])

    def _any(self) -> Found:
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
            self._readable = self._brought(self._there(tasks.routes_of))
        return self._readable

    def sums(self) -> Sums:
        """The checksums of the columns."""
        return self._any().sums

    def numbered(self, first: int, within: Mask | None) -> "FarRounds":
        """The rows as rounds from `first` on."""
        return FarRounds(self, first, within, first, first + len(self))

    def here(self, first: int, within: Mask | None) -> Rounds:
        """The rows themselves, as rounds from `first` on."""
        return cast(Rounds, self._brought(self._there(tasks.fetch, first, within)))

    def spread(self, first: int, within: Mask | None, share: Share) -> Any:
        """Have the rows of marked trees put by for the shards: the address of their addresses."""
        return self._there(tasks.spread, first, within, share)

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


class FarRounds:
    """The rounds of a block from `start` up to `stop`; the first round of the block is `first`."""

    def __init__(
        self, block: FarBlock, first: int, within: Mask | None, start: int, stop: int
    ) -> None:
        self._block, self._first, self._within = block, first, within
        self._start, self._stop = start, stop

    @property
    def size(self) -> int:
        """How many rounds, at most."""
        return self._stop - self._start

    def between(self, start: int, stop: int) -> "FarRounds":
        """The rounds from `start` up to, not including, `stop`."""
        start, stop = max(start, self._start), min(stop, self._stop)
        return FarRounds(self._block, self._first, self._within, start, max(start, stop))

    def followed_by(self, other: "FarRounds") -> "FarRounds | None":
        """These rounds and those that come next, if they are of one block."""
        same = self._block is other._block and self._first == other._first
        if not same or self._stop != other._start:
            return None
        return FarRounds(self._block, self._first, self._within, self._start, other._stop)

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

    def teach(self, memory: Learns[Told]) -> Told:
        """Show the rounds to a forest in shards, from where they are."""
        if not isinstance(memory, LearnsFar):
            raise TypeError("rows on a cluster are for trees on a cluster")
        return cast(Told, memory.learn_far(self))

    def number_of(self, row: int) -> int:
        """The number of the round of a row: shards tell of rounds."""
        return row

    def copied(self) -> "FarRounds":
        """The same rounds: the cluster keeps them for as long as somebody knows of them."""
        return self

    def here(self) -> Rounds:
        """The rows themselves."""
        return self._block.here(self._first, self._within).between(self._start, self._stop)

    @property
    def wanted_there(self) -> Any:
        """The address of what is to be read of the rows."""
        return self._block.wanted_there

    def spread(self, share: Share) -> Any:
        """Have the rows of marked trees put by for the shards: the address of their addresses."""
        start, stop = self._start - self._first, self._stop - self._first
        within = None if self._within is None else self._within[start:stop]
        return self._block.part(start, stop).spread(self._start, within, share)
