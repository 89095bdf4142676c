"""A run over a file with a store: from where it stopped, each row once.

Promises: a row is learned once, however often the run was killed; a release is in the store before
it is in the releases file. Rows are known by their file and their place in it: standard input has
no place, and is taken as new rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from littlestone.edge.about import BadStore
from littlestone.edge.blocks import Array, Block
from littlestone.edge.outcome import Outcome
from littlestone.edge.readers import Rows
from littlestone.edge.running import (
    Watch,
    finish,
    horizon_of,
    note_bad_rows,
    noting,
    parts,
    refuse_existing,
    rows_of,
    vacuous,
)
from littlestone.edge.specs import parse_spec
from littlestone.edge.store import Source, Store, create, open_store, read_store
from littlestone.edge.tasks import Task, chosen_for
from littlestone.edge.witness import ReleasesFile

STANDARD_INPUT = "-"


def run_stored(task: Task, path: Path, watch: Watch) -> Outcome:
    """Do what a task asks, in a store; go on with it if there is one."""
    if path.exists():
        about = read_store(path).about
        about.refuse_other(task, path)
        task = replace(task, **about.terms)
    refuse_existing(task, task.report)
    with rows_of(task, parse_spec(task.spec)) as rows:
        notes: list[str] = []
        with noting(notes):
            store = open_store(path) if path.exists() else _created(task, path, rows)
        with store, ReleasesFile(task.out, store.published.guarantee) as file:
            file.catch_up(store.published.releases)
            outcome = Outcome(task, store.about.chosen, store.learner, rows.length, notes=notes)
            outcome.notes += vacuous(store.about.chosen)
            before = store.learner.rounds
            watch(outcome)
            for block, source in _rest(rows, _taken(store, task.source), outcome):
                store.learn(block, source=source)
                file.publish(store.published.releases)
                watch(outcome)
            if before and store.learner.rounds == before:
                outcome.notes.append(
                    f"no new rows: all of {rows.name} was learned before, nothing is spent again"
                )
    finish(outcome)
    return outcome


def _created(task: Task, path: Path, rows: Rows) -> Store:
    return create(path, task, chosen_for(task, horizon_of(task, rows)))


def _taken(store: Store, source: str) -> Source:
    """How far a file has been learned."""
    name = source if source == STANDARD_INPUT else str(Path(source).absolute())
    return store.taken_from(name)


def _rest(rows: Rows, taken: Source, outcome: Outcome) -> Iterator[tuple[Block, Source | None]]:
    """The rows that were not learned yet, each part with how far the file is read after it."""
    unnamed = taken.name == STANDARD_INPUT
    again, read, sums = 0 if unnamed else taken.rows, 0, CheckSums()
    for whole in rows:
        known = min(len(whole), again - read)
        if known > 0:
            read += known
            sums.add(whole.part(0, known))
            if read == again and str(sums) != taken.check_sums:
                raise BadStore(
                    f"{rows.name}: its first {again:,} rows are not those that were learned: the "
                    "file has changed"
                )
        else:
            note_bad_rows(outcome, whole)
        for part in parts(whole.part(max(0, known), len(whole)), outcome.learner.rounds):
            read += len(part)
            sums.add(part)
            yield part, None if unnamed else Source(taken.name, read, str(sums))
    if read < again:
        raise BadStore(f"{rows.name} has {read:,} rows, and {again:,} of it were learned before")


class CheckSums:
    """A running checksum of each column, the same however the rows are cut into blocks."""

    def __init__(self) -> None:
        self._sums: list[int] = []

    def add(self, block: Block) -> None:
        """Take some rows into account."""
        columns = [block.labels, *block.columns.values()]
        if block.users is not None:
            columns.append(block.users)
        before = self._sums or [0] * len(columns)
        self._sums = [crc32(_bytes(one), sum_) for one, sum_ in zip(columns, before, strict=True)]

    def __str__(self) -> str:
        return " ".join(f"{one:08x}" for one in self._sums)


def _bytes(column: Array) -> bytes:
    if column.dtype != object:
        return column.tobytes()
    return "".join(f"{value}\0" for value in column.tolist()).encode("utf-8", "surrogatepass")
