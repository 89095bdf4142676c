"""What is done where the rows are: small functions that keep nothing, run by Ray as tasks.

A block of rows is a slice of an Arrow table in Ray's object store. What comes back to the driver is
which rounds a rule gets wrong; what goes on to the shards is put by for them, and only its address
passes the driver.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone.edge.blocks import BadRow, BadStream, Block, Wanted
from littlestone.edge.checksums import Sums
from littlestone.edge.parquet import ParquetFile, piece_of_table
from littlestone.learning.forest import Routes, trees_of
from littlestone.learning.rounds import (
    NOBODY,
    Numbers,
    Rounds,
    readable_rounds,
    usable_rounds,
    user_numbers,
)
from littlestone.learning.shown import Indices
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.values import Mask

ROW = "littlestone.row"
"""The column with the place of a row in the stream: what comes in another order is noticed."""
VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}
TROUBLE = "littlestone.trouble"
"""The only column of a table that could not be read: why. Ray Data would make a page of it."""


class Where(NamedTuple):
    """Which rows of a table: `size` of them from `offset` on; the first is row `row` of all."""

    offset: int
    size: int
    row: int


class Found(NamedTuple):
    """What a rule makes of a block: the places it gets wrong, and, per user, their routes.

    `nulls` rows cannot be read; `bad` tells why of the first. `sums` are checksums and lengths of
    the columns, if they were asked for.
    """

    wrong: npt.NDArray[np.uint32]
    routes: npt.NDArray[np.uint64] | None
    nulls: int
    bad: tuple[BadRow, ...]
    sums: Sums


class Share(NamedTuple):
    """Whose rows are wanted: the coins' seed, the trees that are marked, where shards begin."""

    seed: int
    marked: Mask
    bounds: list[int]

    def trees_of(self, routes: Routes) -> Indices:
        """The tree of each route."""
        return trees_of(self.seed, len(self.marked), routes)


def read_span(span: dict[str, Any], wanted: Wanted) -> Any:
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


def table_of(table: Any, where: Where) -> Any:
    """Rows of a table, if they are those that are meant."""
    if TROUBLE in table.column_names:
        raise BadStream(table.column(TROUBLE)[0].as_py())
    part = table.slice(where.offset, where.size)
    if part.num_rows != where.size or part.column(ROW)[0].as_py() != where.row:
        raise RuntimeError("the rows of the stream have come in another order than they are in")
    return part


def block_of(wanted: Wanted, table: Any, where: Where) -> Block:
    """Rows of a table as a class reads them."""
    return piece_of_table(wanted, table_of(table, where), where.row + 1).block()


def rounds_of(wanted: Wanted, block: Block, first: int) -> Rounds:
    """Rows as rounds from `first` on; those that cannot be read are null rounds."""
    batch, usable, answers = readable_rounds(wanted.cls, block.columns, block.labels, "null")
    routes = None
    if block.users is not None:
        routes = user_numbers(block.users, len(block), "null")
        usable = usable & (routes != NOBODY)
    return usable_rounds(batch, answers, usable, first, routes)


def look(wanted: Wanted, table: Any, where: Where, rule: Hypothesis, summed: bool) -> Found:
    """What a rule makes of some rows."""
    block = block_of(wanted, table, where)
    rounds = rounds_of(wanted, block, 0)
    wrong = rounds.wrong(wanted.cls, rule)
    routes = None
    if wanted.user is not None:
        routes = rounds.route[np.searchsorted(rounds.number, wrong)].astype(np.uint64)
    sums = block.sums() if summed else Sums()
    return Found(wrong.astype(np.uint32), routes, len(block) - rounds.size, block.bad, sums)


def routes_of(wanted: Wanted, table: Any, where: Where) -> tuple[npt.NDArray[np.uint64], Mask]:
    """The user of each row, and which rows can be read."""
    block = block_of(wanted, table, where)
    usable = np.zeros(len(block), dtype=bool)
    usable[rounds_of(wanted, block, 0).number] = True
    return user_numbers(block.users, len(block), "null"), usable


def fetch(wanted: Wanted, table: Any, where: Where, first: int, within: Mask | None) -> Rounds:
    """The rows themselves."""
    rounds = rounds_of(wanted, block_of(wanted, table, where), first)
    return rounds if within is None else rounds.taken(within[rounds.number - first])


class Put(NamedTuple):
    """Rows that were put by for a shard, not decoded yet, each with the number of its round."""

    table: Any
    number: Numbers

    def taken(self, places: Numbers) -> "Put":
        """Some of them."""
        return Put(self.table.take(places), self.number[places])

    def rounds(self, wanted: Wanted) -> Rounds:
        """The rows as rounds."""
        some = rounds_of(wanted, piece_of_table(wanted, self.table, 1).block(), 0)
        number = self.number[some.number]
        return some._replace(number=number, route=number if wanted.user is None else some.route)


def spread(
    wanted: Wanted, table: Any, where: Where, first: int, within: Mask | None, share: Share
) -> list[Any]:
    """Put the rows of marked trees by, for each shard its own."""
    import ray

    part = table_of(table, where)
    whole = Put(part.select(list(wanted.names)), first + np.arange(where.size))
    if within is not None:
        whole = whole.taken(np.flatnonzero(within))
    route = whole.number
    if wanted.user is not None:  # who says which tree it is
        read = rounds_of(wanted, piece_of_table(wanted, whole.table, 1).block(), 0)
        whole, route = whole.taken(read.number), read.route
    trees = share.trees_of(route)
    marked = share.marked[trees]
    by_shard = (
        np.flatnonzero(marked & (trees >= begin) & (trees < end))
        for begin, end in pairwise(share.bounds)
    )
    return [ray.put(whole.taken(some)) for some in by_shard]
