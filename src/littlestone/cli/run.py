"""A run of the learner over a file: rows in, releases out (public), a report (private).

Promises: what is wrong with the arguments or the shape of the file is said before anything is
learned or written. A release is in its file before the next row is read.

A run over a file with a store: from where it stopped, each row once.

Promises: a row is learned once, however often the run was killed; a release is in the store before
it is in the releases file. A source is recognised by its rows, so that the same rows under another
name, or in another format, are not learned again unasked (`recognised`).
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os.path import realpath
from pathlib import Path
from typing import Any

from littlestone.classes.base import HypothesisClass
from littlestone.classes.specs import parse_spec
from littlestone.data.blocks import BadStream, Block, Checksums, RowSpan, Start
from littlestone.data.readers import UNFINISHED, RowReader, is_parquet, open_rows
from littlestone.privacy.parameters import BadParameter
from littlestone.ray import Ray, ray_of
from littlestone.report.html import render_report
from littlestone.report.result import RunResult, refuse_file, report_of, write_private
from littlestone.store.files import refuse_leftovers
from littlestone.store.releases_file import ReleasesFile
from littlestone.store.run_config import (
    LearnerChoice,
    LearnRequest,
    RemoteBlock,
    choose_learner,
    learn_block,
)
from littlestone.store.serialization import BadStore, OldCopy
from littlestone.store.store import Source, Store, create, open_store, read_store

MOST_BAD_ROWS = 20
FIRST_BLOCK, LARGEST_BLOCK = 4096, 65536

UNCHANGED = (
    "the first rule stood to the end, with a --tolerance of 0: where some labels are wrong the "
    "copies may never agree, so say beforehand what share of them you expect"
)
"""From public things only: the releases and the plan."""

ProgressCallback = Callable[[RunResult], None]


def run(task: LearnRequest, watch: ProgressCallback) -> RunResult:
    """Do what a task asks; `watch` is told how it goes after every block."""
    cls = parse_spec(task.spec)
    refuse_existing(task, task.out, task.report)
    engine = engine_for(task)
    with rows_of(task, cls, engine) as rows:
        notes: list[str] = []
        with noting(notes):
            chosen = choose_learner(task, horizon_of(task, rows))
            learner = chosen.make(cls, task.seed, watched=task.report is not None, engine=engine)
        outcome = RunResult(task, chosen, learner, rows.length, notes=notes + vacuous_note(chosen))
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
    if len(learner.releases) == 1 and not task.tolerance and not vacuous_note(chosen):
        outcome.notes.append(UNCHANGED)
    finish(outcome)
    return outcome


def refuse_existing(task: LearnRequest, *paths: Path | None) -> None:
    """Nothing is overwritten unasked."""
    for path in paths:
        refuse_file(path, task.force)


def engine_for(task: LearnRequest) -> Ray | None:
    """Where trees are to grow, if not here."""
    if task.engine is not None:
        return ray_of(task.engine, task.workers)
    if task.workers is not None:
        raise BadParameter("--workers are an engine's: say --engine ray")
    return None


def rows_of(
    task: LearnRequest, cls: HypothesisClass, engine: Ray | None, stored: bool = False
) -> RowReader[Any]:
    """The rows that a task is about; Parquet is read where the trees grow.

    For a store checksums are found on the way, and what is unfinished at the end of a text file is
    left for a later run, unless the file is said to be complete.
    """
    if engine is not None and is_parquet(task.source, task.format):
        from littlestone.ray.rows import open_remote_rows

        return open_remote_rows(
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


def vacuous_note(chosen: LearnerChoice) -> list[str]:
    """What a plan says when it can do nothing."""
    return [f"{value}; {why}" for what, value, why in chosen.plan.lines() if what == "vacuous"]


def note_bad_rows(outcome: RunResult, block: RowSpan) -> None:
    """Keep the first few rows that could not be read, for the data owner."""
    outcome.bad_rows += block.bad[: MOST_BAD_ROWS - len(outcome.bad_rows)]


def finish(outcome: RunResult) -> None:
    """Say what the end of the stream has to say, and write the report."""
    learner = outcome.learner
    if learner.final is not None and learner.rounds > outcome.chosen.plan.horizon:
        outcome.notes.append(learner.final)
    if outcome.task.report is not None:
        write_private(outcome.task.report, render_report(report_of(outcome)))
    if outcome.task.private_json is not None:
        private = json.dumps(outcome.private(), ensure_ascii=False)
        write_private(outcome.task.private_json, private + "\n")


def horizon_of(task: LearnRequest, rows: RowReader[Any]) -> int:
    """The rounds to plan for: what was said, or the rows of the file."""
    if task.horizon is not None:
        return task.horizon
    if rows.length is None:
        raise BadStream(
            f"{rows.name}: how many rows will come is not known, and the plan depends on it: say "
            "--horizon N. A guess made from the rows themselves would not be private"
        )
    return max(1, rows.length)


def parts(block: Block | RemoteBlock, rounds: int) -> Iterator[Block | RemoteBlock]:
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


STANDARD_INPUT = "-"
LEAST_MARK = 32
"""Fewer rows that are equal are no sign that two sources are one, unless they are all."""
LEAST_TAIL, MOST_TAIL = 4096, 1 << 18
"""How many rows before the place that was reached are compared. Few rows are added to the rows that
were compared before, so that a log that grows by a row at a time is checked by more than one."""


def run_stored(task: LearnRequest, path: Path, watch: ProgressCallback) -> RunResult:
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
    with rows_of(task, cls, engine, stored=True) as rows:
        notes: list[str] = []
        with noting(notes):
            if path.exists():
                store = open_store(path, engine=engine)
            else:
                chosen = choose_learner(task, horizon_of(task, rows), cls)
                store = create(path, task, chosen, cls=cls, engine=engine)
        with store, ReleasesFile(task.out, store.guarantee_up_to, store.run) as file:
            try:
                file.catch_up(store.published.releases, store.refuse_if_taken)
            except OldCopy:
                store.condemn()
                raise
            horizon = store.about.chosen.plan.horizon
            outcome = RunResult(task, store.about.chosen, store.learner, horizon, notes=notes)
            outcome.notes += vacuous_note(store.about.chosen)
            source = recognised(store, rows, task, outcome.notes)
            before, outcome.repeats = store.learner.rounds, store.repeats
            watch(outcome)
            for block, reached in _Rest(rows, source, outcome, watch):
                if block is not None:
                    store.learn(block, source=reached)
                elif reached not in store.sources():  # it has another name or place now
                    store.keep_source(reached)
                file.publish(store.published.releases)
                outcome.repeats = store.repeats
                watch(outcome)
            if before and store.learner.rounds == before:
                outcome.notes.append(
                    f"no new rows: all of {rows.name} was learned before, nothing is spent again"
                )
            if rows.unfinished:
                outcome.notes.append(f"{rows.name}: {UNFINISHED}")
    finish(outcome)
    return outcome


def recognised(store: Store, rows: RowReader[Any], task: LearnRequest, notes: list[str]) -> Source:
    """Return the source that a file is, if its rows were learned before; otherwise a new one.

    The rule, which docs/limits.md tells too: a file is a known source if its first rows are the
    rows that were learned of that source, as far as both go and up to the first block. Under
    another name at least 32 rows must agree, or all rows of both.

    Parameters
    ----------
    store : Store
        What was learned before.
    rows : RowReader
        The file. Its first block is looked at.
    task : LearnRequest
        What is asked: `again` to learn known rows once more, `new_rows` to recognise no rows under
        another name, nor others under this one.
    notes : list of str
        Is told if the file is known under another name.

    Raises
    ------
    BadStore
        If the file has a known name and other rows, or fewer rows than were learned; or if there is
        nothing to learn again.
    """
    # A pipe has no name that could be found again.
    name = STANDARD_INPUT if rows.identity(0) is None else realpath(task.source)
    sources = store.sources()
    number = max([0, *(source.number for source in sources)]) + 1
    new = Source(number, number, 1, store.learner.rounds + 1, name)
    if task.new_rows:
        return _begun_before(sources, rows, name, notes) or new
    known = _known(sources, rows, name)
    if task.again:
        return _again(sources, known, new, rows.name)
    if known is None:
        return new
    if known.name != name:
        notes.append(
            f"{rows.name} begins with the rows of {_told(known.name)}, of which {known.rows:,} "
            "were learned: it is taken for the same source, and only what comes after them is "
            "learned. If none of its rows was learned before, say --new-rows; to learn them once "
            "more, --again"
        )
    return known if name == STANDARD_INPUT else known._replace(name=name)


def _known(sources: list[Source], rows: RowReader[Any], name: str) -> Source | None:
    """The source that begins with the same rows, if there is one: of that name rather than of
    another, with more rows rather than fewer."""
    named = [source for source in sources if source.name == name != STANDARD_INPUT]
    firsts = [source for source in sources if source.repeat == 1 and source.rows]
    alike = [one for one in firsts if _agrees(one, rows, name)]
    if alike:
        found = max(alike, key=lambda source: (source.name == name, source.rows))
        if rows.is_whole and len(rows.beginning) < found.rows:
            _refuse_shorter(found, rows, name)
        return found
    if named:
        raise BadStore(
            f"{rows.name}: its first {named[-1].rows:,} rows are not those that were learned: the "
            f"file has changed. {_OTHERWISE}"
        )
    return None


def _begun_before(
    sources: list[Source], rows: RowReader[Any], name: str, notes: list[str]
) -> Source | None:
    """The source of this name that begins with the same rows, if there is one: `--new-rows` began
    it and was interrupted, and the same command is given again."""
    alike = [
        source
        for source in sources
        if source.repeat == 1
        and source.name == name != STANDARD_INPUT
        and source.rows >= LEAST_MARK
        and not (rows.is_whole and len(rows.beginning) < source.rows)
        and _agrees(source, rows, name)
    ]
    if not alike:
        return None
    found = max(alike, key=lambda source: source.rows)
    notes.append(
        f"{rows.name}: its first {found.rows:,} rows were learned under this name before, so only "
        "what comes after them is new. To learn them once more, say --again; if they are other "
        "rows that happen to be equal, give the file another name"
    )
    return found


def _agrees(source: Source, rows: RowReader[Any], name: str) -> bool:
    """Whether a file begins with the rows of a source."""
    first = rows.beginning
    count, sums = source.rows, source.sums
    if count > len(first):
        count = max((mark for mark in source.marks if mark <= len(first)), default=0)
        sums = source.marks.get(count, Checksums())
    if source.name == name != STANDARD_INPUT:
        is_enough = count > 0
    else:
        is_all = rows.is_whole and len(first) == source.rows and name != STANDARD_INPUT
        is_enough = count >= LEAST_MARK or is_all
    return is_enough and first.part(0, count).sums() == sums


def _refuse_shorter(source: Source, rows: RowReader[Any], name: str) -> None:
    count = len(rows.beginning)
    if source.name == name:
        raise BadStore(
            f"{rows.name} has {count:,} rows, and {source.rows:,} of it were learned before: the "
            f"file has changed. {_OTHERWISE}"
        )
    raise BadStore(
        f"{rows.name} begins as {_told(source.name)} does and has {count:,} rows, and "
        f"{source.rows:,} of that were learned before: it seems to be a part of it. If none of its "
        "rows was learned before, say --new-rows; to learn them once more, name the whole and say "
        "--again"
    )


_OTHERWISE = (
    "Put it back as it was; or, if none of its rows was learned before (a log that was begun anew),"
    " say --new-rows"
)


def _again(sources: list[Source], known: Source | None, new: Source, name: str) -> Source:
    """The source to go on with when rows are to be learned once more: the last repetition if it was
    interrupted, otherwise the next."""
    if known is None:
        raise BadStore(f"{name} was not learned before: leave out --again")
    *_, last = (source for source in sources if source.original == known.original)
    if last.repeat > 1 and last.rows < known.rows:
        return last
    return new._replace(original=known.original, repeat=last.repeat + 1)


def _told(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else name


class _Rest:
    """The rows of a file that were not learned yet, each part with how far the file is then read;
    and no rows, with the place, when those that were learned before have been found the same.

    Where the file can be read from a place on, it is: then only the last rows before that place are
    compared with what was learned. A pipe, a file in another's place and `--verify` take the whole.
    """

    def __init__(
        self, rows: RowReader[Any], source: Source, outcome: RunResult, watch: ProgressCallback
    ) -> None:
        self._rows, self._source, self._outcome, self._watch = rows, source, outcome, watch
        known = rows.identity(source.rows)
        same_file = known is not None and known == source.identity
        self._seeks = same_file and not outcome.task.verify
        self._marks = _marks_of(rows.beginning)
        self._row, self._start, self._tail = 0, Start(0), Checksums()

    def __iter__(self) -> Iterator[tuple[Block | RemoteBlock | None, Source]]:
        rows, source, found = self._rows, self._source, Checksums()
        expected = source.tail if self._seeks else source.sums
        blocks = self._blocks()
        for whole in blocks:
            old = max(0, min(len(whole), source.rows - self._row))
            if old:
                found += self._pass(whole.part(0, old))
                self._tell(f"{self._row:,} of {source.rows:,} rows checked")
                if self._row == source.rows:
                    self._tell("")
                    if found != expected:
                        raise BadStore(
                            f"{rows.name}: its first {source.rows:,} rows are not those that were "
                            f"learned: the file has changed. {_OTHERWISE}"
                        )
                    if rows.identity(0) is not None:
                        yield None, self._reached(source.sums)
            else:
                note_bad_rows(self._outcome, whole)
            sums = source.sums
            for part in parts(whole.part(old, len(whole)), self._outcome.learner.rounds):
                sums += self._pass(part)
                yield part, self._reached(sums)
            source = self._source = self._source._replace(sums=sums)
        if self._row < source.rows:
            raise BadStore(
                f"{rows.name} has {self._row:,} rows, and {source.rows:,} of it were learned "
                f"before: the file has changed. {_OTHERWISE}"
            )

    def _blocks(self) -> Iterator[Any]:
        start = self._source.start
        if not self._seeks:
            return iter(self._rows)
        self._row = start.row
        return self._rows.after(start, lambda done, of: self._tell(f"{done / of:.0%} unpacked"))

    def _pass(self, part: RowSpan) -> Checksums:
        """Go past some rows; their checksums."""
        sums = part.sums()
        is_long = len(part) >= LEAST_TAIL or self._row - self._start.row > MOST_TAIL
        if is_long or not self._tail:
            self._start, self._tail = part.start(self._row), Checksums()
        self._tail += sums
        self._row += len(part)
        return sums

    def _reached(self, sums: Checksums) -> Source:
        return self._source._replace(
            identity=self._rows.identity(self._row),
            rows=self._row,
            sums=sums,
            start=self._start,
            tail=self._tail,
            marks=self._marks,
        )

    def _tell(self, passing: str) -> None:
        self._outcome.passing = passing
        self._watch(self._outcome)


def _marks_of(beginning: RowSpan) -> dict[int, Checksums]:
    """The checksums of the first 32, 64, 128, ... rows."""
    marks, count = dict[int, Checksums](), LEAST_MARK
    while count <= len(beginning):
        marks[count] = beginning.part(0, count).sums()
        count *= 2
    return marks
