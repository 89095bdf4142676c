"""A run of the learner over a file: rows in, releases out (public), a report (private).

Promises: what is wrong with the arguments or the shape of the file is said before anything is
learned or written. A release is in its file before the next row is read.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from littlestone.edge.blocks import BadStream, Block, SomeRows
from littlestone.edge.engine import Ray, ray_of
from littlestone.edge.outcome import Outcome, refuse_file, report_of, write_private
from littlestone.edge.readers import Rows, is_parquet, open_rows
from littlestone.edge.report import render
from littlestone.edge.specs import parse_spec
from littlestone.edge.tasks import Chosen, RowsAway, Task, chosen_for, learn_block
from littlestone.edge.witness import ReleasesFile
from littlestone.privacy.exact import BadParameter
from littlestone.theory.classes import HypothesisClass

MOST_BAD_ROWS = 20
FIRST_BLOCK, LARGEST_BLOCK = 4096, 65536

UNCHANGED = (
    "the first rule stood to the end, with a --tolerance of 0: where some labels are wrong the "
    "copies may never agree, so say beforehand what share of them you expect"
)
"""From public things only: the releases and the plan."""

Watch = Callable[[Outcome], None]


def run(task: Task, watch: Watch) -> Outcome:
    """Do what a task asks; `watch` is told how it goes after every block."""
    cls = parse_spec(task.spec)
    refuse_existing(task, task.out, task.report)
    engine = engine_for(task)
    with rows_of(task, cls, engine) as rows:
        notes: list[str] = []
        with noting(notes):
            chosen = chosen_for(task, horizon_of(task, rows))
            learner = chosen.make(cls, task.seed, watched=task.report is not None, engine=engine)
        outcome = Outcome(task, chosen, learner, rows.length, notes=notes + vacuous(chosen))
        with ReleasesFile(task.out, str(learner.guarantee)) as file:
            file.begin()
            file.publish(learner.releases)
            watch(outcome)
            for block in rows:
                for part in parts(block, learner.rounds):
                    learn_block(learner, part)
                    file.publish(learner.releases)
                    watch(outcome)
                note_bad_rows(outcome, block)
    if len(learner.releases) == 1 and not task.tolerance and not vacuous(chosen):
        outcome.notes.append(UNCHANGED)
    finish(outcome)
    return outcome


def refuse_existing(task: Task, *paths: Path | None) -> None:
    """Nothing is overwritten unasked."""
    for path in paths:
        refuse_file(path, task.force)


def engine_for(task: Task) -> Ray | None:
    """Where trees are to grow, if not here."""
    if task.engine is not None:
        return ray_of(task.engine, task.workers)
    if task.workers is not None:
        raise BadParameter("--workers are an engine's: say --engine ray")
    return None


def rows_of(
    task: Task, cls: HypothesisClass, engine: Ray | None, stored: bool = False
) -> Rows[Any]:
    """The rows that a task is about; Parquet is read where the trees grow.

    For a store checksums are found on the way, and what is unfinished at the end of a text file is
    left for a later run, unless the file is said to be complete.
    """
    if engine is not None and is_parquet(task.source, task.format):
        from littlestone.edge.engine.far import open_far_rows

        return open_far_rows(
            engine,
            task.source,
            cls,
            label=task.label,
            user=task.user,
            strict=task.strict,
            summed=stored,
        )
    return open_rows(
        task.source,
        cls,
        label=task.label,
        user=task.user,
        strict=task.strict,
        format=task.format,
        block_rows=LARGEST_BLOCK,
        growing=stored and not task.complete,
    )


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Warnings become notes for the person."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += [str(warning.message) for warning in caught]


def vacuous(chosen: Chosen) -> list[str]:
    """What a plan says when it can do nothing."""
    return [f"{value}; {why}" for what, value, why in chosen.plan.lines() if what == "vacuous"]


def note_bad_rows(outcome: Outcome, block: SomeRows) -> None:
    """Keep the first few rows that could not be read, for the data's holder."""
    outcome.bad_rows += block.bad[: MOST_BAD_ROWS - len(outcome.bad_rows)]


def finish(outcome: Outcome) -> None:
    """Say what the end of the stream has to say, and write the report."""
    learner = outcome.learner
    if learner.final is not None and learner.rounds > outcome.chosen.plan.horizon:
        outcome.notes.append(learner.final)
    if outcome.task.report is not None:
        write_private(outcome.task.report, render(report_of(outcome)))
    if outcome.task.private_json is not None:
        private = json.dumps(outcome.private(), ensure_ascii=False)
        write_private(outcome.task.private_json, private + "\n")


def horizon_of(task: Task, rows: Rows[Any]) -> int:
    """The rounds to plan for: what was said, or the rows of the file."""
    if task.horizon is not None:
        return task.horizon
    if rows.length is None:
        raise BadStream(
            f"{rows.name}: how many rows will come is not known, and the plan depends on it: say "
            "--horizon N. A guess made from the rows themselves would not be private"
        )
    return max(1, rows.length)


def parts(block: Block | RowsAway, rounds: int) -> Iterator[Block | RowsAway]:
    """A block in parts: short ones while the stream is young, so that there is something to see.
    Rows that are elsewhere come in such parts."""
    if not isinstance(block, Block):
        yield from [block] if len(block) else []
        return
    start = 0
    while start < len(block):
        stop = start + min(max(FIRST_BLOCK, rounds + start), LARGEST_BLOCK)
        yield block.part(start, stop)
        start = stop
