"""A run over a file with a store: from where it stopped, each row once.

Promises: a row is learned once, however often the run was killed; a release is in the store before
it is in the releases file. Rows are known by their file and their place in it: standard input has
no place, and is taken as new rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from littlestone.edge.about import BadStore, OldCopy
from littlestone.edge.blocks import Block
from littlestone.edge.outcome import Outcome
from littlestone.edge.readers import Rows
from littlestone.edge.running import (
    Watch,
    engine_for,
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
from littlestone.edge.storefile import refuse_leftovers
from littlestone.edge.tasks import RowsAway, Task, chosen_for
from littlestone.edge.witness import ReleasesFile

STANDARD_INPUT = "-"


def run_stored(task: Task, path: Path, watch: Watch) -> Outcome:
    """Do what a task asks, in a store; go on with it if there is one."""
    if path.exists():
        about = read_store(path).about
        about.refuse_other(task, path)
        task, cls = replace(task, **about.terms), about.cls
    else:
        refuse_leftovers(path)
        cls = parse_spec(task.spec)
    refuse_existing(task, task.report)
    engine = engine_for(task)
    with rows_of(task, cls, engine, summed=True) as rows:
        notes: list[str] = []
        with noting(notes):
            if path.exists():
                store = open_store(path, engine=engine)
            else:
                chosen = chosen_for(task, horizon_of(task, rows), cls)
                store = create(path, task, chosen, cls=cls, engine=engine)
        with store, ReleasesFile(task.out, store.published.guarantee, store.run) as file:
            try:
                file.catch_up(store.published.releases, store.refuse_if_taken)
            except OldCopy:
                store.condemn()
                raise
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


def _taken(store: Store, source: str) -> Source:
    """How far a file has been learned."""
    name = source if source == STANDARD_INPUT else str(Path(source).absolute())
    return store.taken_from(name)


def _rest(
    rows: Rows[Any], taken: Source, outcome: Outcome
) -> Iterator[tuple[Block | RowsAway, Source | None]]:
    """The rows that were not learned yet, each part with how far the file is read after it."""
    unnamed = taken.name == STANDARD_INPUT
    again, read, sums = 0 if unnamed else taken.rows, 0, list[int]()
    for whole in rows:
        known = min(len(whole), again - read)
        if known > 0:
            read += known
            sums = whole.part(0, known).check_sums(sums)
            if read == again and _told(sums) != taken.check_sums:
                raise BadStore(
                    f"{rows.name}: its first {again:,} rows are not those that were learned: the "
                    "file has changed"
                )
        else:
            note_bad_rows(outcome, whole)
        for part in parts(whole.part(max(0, known), len(whole)), outcome.learner.rounds):
            read += len(part)
            sums = part.check_sums(sums)
            yield part, None if unnamed else Source(taken.name, read, _told(sums))
    if read < again:
        raise BadStore(f"{rows.name} has {read:,} rows, and {again:,} of it were learned before")


def _told(sums: list[int]) -> str:
    return " ".join(f"{one:08x}" for one in sums)
