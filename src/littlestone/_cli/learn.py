"""Run `littlestone learn`: rows of a file or a topic in, releases and a report out.

Promises: what is wrong with the arguments or the shape of the file is said before anything is
learned or written. A release is in its file before the next row is read. With a store, a row is
learned once, however often the run was killed, and a release is in the store before it is in the
releases file.
"""

import secrets
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os.path import realpath
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import numpy as np
import typer
from rich.console import Console

from littlestone._classes.base import HypothesisClass
from littlestone._cli.terminal import (
    noting,
    plain_console,
    print_json,
    print_private,
    print_result,
    progress_bar,
)
from littlestone._data.kafka import TopicRows, is_topic, read_settings
from littlestone._data.readers import UNFINISHED, RowReader, is_parquet, open_rows
from littlestone._data.rounds import LARGEST_BLOCK, BadStream, Rounds, RowSpan, join_rounds
from littlestone._data.schema import literal_note
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.dpsoa import DPSOA
from littlestone._learners.plan_table import PlanTable, delta_warning
from littlestone._learners.registry import check_name, planned_names
from littlestone._privacy.parameters import BadParameter
from littlestone._ray import Ray, ray_of, redirect_output
from littlestone._report.alerts import Alerts, destinations_of
from littlestone._report.report import (
    RunResult,
    refuse_file,
    refuse_unwritable,
    render_report,
    report_of,
    write_private,
    write_private_json,
)
from littlestone._store.budgets import BudgetFile, charge_run, check_budget, stored_budget
from littlestone._store.files import refuse_leftovers
from littlestone._store.releases_file import ReleasesFile, refuse_begun
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.sources import (
    Source,
    all_rows,
    known_topic,
    new_messages,
    new_rows,
    open_topic,
    recognised,
    topic_source,
)
from littlestone._store.store import Run, begin, create, open_store, read_store

# From public things only: the releases and the plan.
UNCHANGED = (
    "the first rule stood to the end: a culprit has to fail more than half of its events here. "
    "Where failures are less certain, learn causes: --class causes:COLUMN,COLUMN"
)

# Of a stream without an end, from the plan, which is public.
REACHED = (
    "the horizon of {horizon:,} rounds is reached, and the last rule stands: no more is read. To "
    "learn on, begin another store with a budget of its own"
)
PLANNED = (
    "{path} is planned for the {rows:,} rows that the file has now: rows of later files will not be "
    "learned. If more will come, begin another --db with --horizon N, all the rows you expect; what "
    "is learned twice spends twice"
)
NO_TIMES = (
    "no time could be read in the column {column!r}, so pictures have rounds. Times are ISO 8601, "
    "such as 2026-07-12T14:05:00Z, or seconds since 1970"
)
# The most rows of a table that are held in memory.
MOST_TABLE_ROWS = 1 << 23
SAMPLED = (
    "a random sample of {sample:,} of the {rows:,} rows is learned and counted: more are not held in "
    "memory. The guarantee covers every row"
)
WAITING = "{name}: {problem}. Waiting for the brokers; what was learned is safe"

ProgressCallback = Callable[[RunResult], None]
AnyRows = RowReader[Any] | TopicRows
# What a request says of the rows of a file, whatever its format.
ROWS = ("label", "user", "strict", "positive", "positive_if", "time")


def learn(
    file: str,
    task: LearnRequest,
    *,
    db: Path | None,
    kafka_option: Sequence[str] | None,
    kafka_config: Path | None,
    as_json: bool,
) -> None:
    """Learn a rule from a stream of labelled rows, privately: before each row a rule is published."""
    # A store knows what it was begun with.
    if db is None or not db.exists():
        asked = {
            "which --class of rules to learn": task.spec,
            "which column is the --label": task.label,
        }
        if missing := [what for what, said in asked.items() if not said]:
            advice = "" if is_topic(file) else f": `littlestone init {file}` proposes both"
            raise BadParameter(f"say {', and '.join(missing)}{advice}")
    check_name(task.learner, planned_names())
    task = replace(task, source=file, kafka=read_settings(kafka_option or (), kafka_config))
    # Before the first row is read: options that need a store must not be ignored in silence.
    refuse_conflicts(task, db)
    refuse_file(task.private_json, task.force)
    try:
        with (
            redirect_output(task.engine),
            progress_bar(Console(stderr=True)) as watch,
            _stop_on_signal(task.follow or is_topic(file)) as stop,
        ):
            outcome = run(task, watch, db, stop)
    except KeyboardInterrupt:
        # Standard output is public, and where a run stopped may depend on the rows.
        typer.echo(_stopped(db), err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json({"public": outcome.public()})
    else:
        print_result(plain_console(), outcome)
    # Standard output and standard error may be one terminal: keep their order.
    sys.stdout.flush()
    print_private(plain_console(stderr=True), outcome)


def refuse_conflicts(task: LearnRequest, db: Path | None) -> None:
    """Refuse options that are of no use without a store, for this source, or beside each other."""
    from_topic = is_topic(task.source)
    no_store = "--db: without it every run begins anew"
    no_file, no_topic = "a file as source", "a topic (kafka://BROKERS/TOPIC) as source"
    needed = dict.fromkeys(("again", "new_rows", "complete"), None if db else no_store)
    of_files = ("follow", "again", "complete", "delimiter", "encoding")
    needed |= dict.fromkeys(of_files, no_file) if from_topic else {}
    needed |= {} if from_topic else dict.fromkeys(("until_end", "kafka"), no_topic)
    for name, what in needed.items():
        if what is not None and getattr(task, name):
            option = f"--{name.replace('_', '-')}" if name != "kafka" else "--kafka-option"
            raise BadParameter(f"{option} requires {what}")
    if task.again and task.new_rows:
        raise BadParameter("--again conflicts with --new-rows: rows are known, or they are not")
    if task.follow and task.complete:
        raise BadParameter("--follow conflicts with --complete: a file grows, or it does not")
    if from_topic and task.format not in (None, "jsonl", "ndjson"):
        raise BadParameter(f"--format {task.format}: the messages of a topic are JSON objects")


def _stopped(db: Path | None) -> str:
    if db is None:
        return (
            "stopped: what was released so far stands, and running again spends again. With --db "
            "FILE a run that is stopped goes on"
        )
    return "stopped: what was learned is in the file; the same command goes on, each row once"


@contextmanager
def _stop_on_signal(waits: bool) -> Iterator[Event]:
    """Yield an event that SIGINT and SIGTERM set, if rows are waited for."""
    stop = Event()
    before: dict[int, Any] = {}

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[number])

    if waits and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, end)
    try:
        yield stop
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)


def run(
    task: LearnRequest, watch: ProgressCallback, db: Path | None = None, stop: Event | None = None
) -> RunResult:
    """Learn the rows of a file or a topic."""
    stop, notes = stop or Event(), list[str]()
    sources: tuple[Source, ...] = ()
    if db is not None and db.exists():
        view = read_store(db)
        view.about.refuse_other(task, db)
        budget, sources = stored_budget(view, task, db), view.sources
        # The store keeps the class itself: what a specification names may have changed since.
        task, cls = task.begun_as(view.about.terms), view.about.cls
    else:
        if db is not None:
            refuse_leftovers(db)
            refuse_begun(task.out)
        # Before the file is opened: whether there is enough left does not depend on a row.
        budget, cls = check_budget(task), task.cls
    # A store knows that it is of a table, too: nothing is drawn for what it cannot have.
    if task.table:
        _refuse_beside_table(task)
    _refuse_unusable_files(task, db)
    # Everything that can be refused is refused before the store is taken over.
    engine, receivers = engine_for(task), destinations_of(task)
    with rows_of(task, cls, engine, stored=db is not None, stop=stop) as rows:
        if isinstance(rows, TopicRows) and known_topic(sources, rows) is None:
            notes += [note for note in [rows.check()] if note is not None]
        with noting() as caught:
            begun = _begin(db, task, cls, rows, engine)
        notes += caught
        with (
            begun,
            ReleasesFile(task.out, begun) as file,
            Alerts(begun, receivers, notes.append) as alerts,
        ):
            length = rows.length if db is None else begun.about.chosen.plan.horizon
            outcome = RunResult(task, begun, length, notes=notes)
            file.refuse_other()
            # Committed before the first row is learned; nothing after this is refused.
            notes += charge_run(begun, budget, task.source)
            file.begin()

            def publish() -> None:
                file.publish()
                alerts.publish(begun.published)

            _learn_rows(outcome, rows, publish, watch, stop, budget)
    _finish(outcome)
    return outcome


def _refuse_unusable_files(task: LearnRequest, db: Path | None) -> None:
    """Refuse files that cannot be written, or are there, before anything is drawn."""
    # A store goes on with its releases file; without one the file is written anew.
    for path in (task.report, task.private_json, task.out if db is None else None):
        refuse_file(path, task.force)
    refuse_unwritable(task.out)
    paths = (db, task.out, task.report, task.private_json)
    named = [realpath(path) for path in paths if path is not None]
    for twice in {path for path in named if named.count(path) > 1}:
        raise BadParameter(
            f"{twice} is named twice: --db, --out, --report and --private-json differ"
        )


def _begin(
    path: Path | None, task: LearnRequest, cls: HypothesisClass, rows: AnyRows, engine: Ray | None
) -> Run:
    """Return the run that goes on, or a new one: kept in a file, or nowhere."""
    if path is not None and path.exists():
        return open_store(path, engine=engine)
    chosen = choose_learner(task, horizon_of(task, rows), cls)
    if path is not None:
        if task.horizon is None and not task.table:
            warnings.warn(PLANNED.format(path=path, rows=chosen.plan.horizon), stacklevel=2)
        return create(path, task, chosen, cls=cls, engine=engine)
    about = begin(task, chosen, cls)
    learner = about.make(watched=task.report is not None, engine=engine)
    return Run(about, learner, secrets.token_hex(8))


def _refuse_beside_table(task: LearnRequest) -> None:
    """Refuse what a finished table has no use for."""
    for name, why in {
        "horizon": "the rows of the file are counted",
        "time": "the rows of a table are in no order",
        "cap": "--user protects all rows of a user without it",
        "engine": "a table is learned in one process",
        "follow": "a table does not grow",
        "again": "a second run has a --db and a budget of its own",
    }.items():
        if name in task.given:
            raise BadParameter(f"--table conflicts with --{name}: {why}. Leave out one of them")
    if is_topic(task.source) or task.source == "-":
        raise BadParameter("--table requires a file: its rows are counted before they are learned")


def _whole_table(
    parts: Iterable[tuple[RowSpan | None, Source | None]],
    rows: int,
    kept: int,
    tell: Callable[[int], None],
) -> Iterator[tuple[RowSpan | None, Source | None]]:
    """Yield a table as one block, which is learned at once or not at all; so many of its rows.

    Where these are fewer, they are a random sample, drawn without a look at the rows.
    """
    draw, blocks, reached = np.random.default_rng(), list[Rounds](), None
    for block, place in parts:
        if not isinstance(block, Rounds):
            yield block, place
            continue
        rows -= len(block)
        taken = kept if rows <= 0 else int(draw.hypergeometric(len(block), rows, kept))
        if taken < len(block):
            block = block.taken(np.sort(draw.choice(len(block), taken, replace=False)))
        kept -= taken
        blocks.append(block)
        reached = place
        tell(sum(map(len, blocks)))
    if blocks:
        yield join_rounds(blocks), reached


def _learn_rows(
    outcome: RunResult,
    rows: AnyRows,
    publish: Callable[[], None],
    watch: ProgressCallback,
    stop: Event,
    budget: BudgetFile | None = None,
) -> None:
    """Learn what is new in a file, and publish each release before the next row is read."""
    task, run, learner, notes = outcome.task, outcome.run, outcome.learner, outcome.notes
    plan, vacuous = learner.plan, vacuous_note(learner.plan)
    notes += vacuous + literal_note(task.positive)
    outcome.unit = rows.unit
    # Other learners with a delta warn of it themselves.
    if isinstance(plan, CausesPlan) and (warning := delta_warning(plan.delta, plan.horizon)):
        notes.append(warning)
    # Recognising the file comes after the releases file: an old copy must not learn a row.
    before, new = learner.rounds, _new_rows(outcome, rows, watch, budget)
    if task.table:

        def tell(count: int) -> None:
            outcome.passing = f"{count:,} of {plan.horizon:,} rows read"
            if count == plan.horizon:
                outcome.passing = f"looking for causes in all {count:,} rows"
            watch(outcome)

        new = _whole_table(new, rows.length or 0, plan.horizon, tell)
        if rows.length is not None and rows.length > plan.horizon:
            notes.append(SAMPLED.format(sample=plan.horizon, rows=rows.length))
    watch(outcome)
    for block, reached in new:
        if block is not None:
            run.learn(block, reached)
        elif reached is not None and reached not in run.sources():
            run.keep_source(reached)  # the file has another name or place now
        publish()
        watch(outcome)
        if task.is_endless and learner.rounds >= plan.horizon:
            break
    if task.is_endless and learner.rounds >= plan.horizon:
        notes.append(REACHED.format(horizon=plan.horizon))
    # The number of rounds is public, so the last window may end with the file. A run that was
    # killed before this ends it when it is run again. When a person stops an endless run may
    # depend on what they saw: then nothing more is released.
    if not stop.is_set():
        run.end_window()
        publish()
    if task.time is not None and not any(window.time for window in learner.windows):
        notes.append(NO_TIMES.format(column=task.time))
    if run.path is None:
        # Not with a store: its stream may go on in another run.
        if isinstance(learner, DPSOA) and len(learner.releases) == 1 and not vacuous:
            notes.append(UNCHANGED)
        return
    # A store that has just been begun may wait for its first rows: that is no remark.
    if before and learner.rounds == before and not task.is_endless:
        notes.append(f"no new rows: all of {rows.name} was learned before, nothing is spent again")
    if rows.unfinished:
        notes.append(f"{rows.name}: {UNFINISHED}")


def _new_rows(
    outcome: RunResult, rows: AnyRows, watch: ProgressCallback, budget: BudgetFile | None
) -> Iterable[tuple[RowSpan | None, Source | None]]:
    """Return the rows to learn, each part with how far the file is learned then, for a store."""
    task, run, learner = outcome.task, outcome.run, outcome.learner
    if isinstance(rows, TopicRows):
        return _topic_rows(outcome, rows)
    if run.path is None:
        return all_rows(rows, outcome.bad_rows)

    def tell(passing: str) -> None:
        outcome.passing = passing
        watch(outcome)

    source = recognised(run.sources(), rows, task, rounds=learner.rounds, notes=outcome.notes)
    # The file is recognised by then, and nothing of it has been learned.
    if budget is not None and source.repeat > 1:
        outcome.notes += budget.draw_again(run.run, source.repeat).in_words()
    return new_rows(rows, source, bad=outcome.bad_rows, tell=tell)


def _topic_rows(
    outcome: RunResult, rows: TopicRows
) -> Iterator[tuple[Rounds | None, Source | None]]:
    """Yield the rows of a topic, and note when its brokers are away."""
    run, learner = outcome.run, outcome.learner
    if run.path is not None:
        rows.commit_to(run.run)
    source = topic_source(run.sources(), rows, outcome.task, rounds=learner.rounds)
    most = learner.plan.horizon - learner.rounds if outcome.task.is_endless else None
    before = None
    for block, reached in new_messages(
        rows, source, size=LARGEST_BLOCK, most=most, bad=outcome.bad_rows
    ):
        problem = rows.problem if block is None else None
        if problem is not None and before is None:
            outcome.notes.append(WAITING.format(name=rows.name, problem=problem))
        outcome.passing = "waiting for the brokers" if problem else ""
        before = problem
        yield block, None if block is None else reached


def engine_for(task: LearnRequest) -> Ray | None:
    """Return where trees are to grow, if not here."""
    if task.engine is not None:
        return ray_of(task.engine, task.workers)
    if task.workers is not None:
        raise BadParameter("--workers requires --engine ray")
    return None


def rows_of(
    task: LearnRequest,
    cls: HypothesisClass,
    engine: Ray | None,
    stored: bool = False,
    stop: Event | None = None,
) -> AnyRows:
    """Open the rows that a request is about; Parquet is read where the trees grow."""
    if is_topic(task.source):
        return open_topic(task, cls, stop)
    # Parquet has none of these: `open_rows` refuses each with a sentence.
    of_lines = task.delimiter is not None or task.encoding is not None or task.follow
    if engine is not None and is_parquet(task.source, task.format) and not of_lines:
        from littlestone._ray.rows import open_remote_rows

        return open_remote_rows(engine, task.source, cls, **_asked(task, *ROWS))
    return open_rows(
        task.source,
        cls,
        growing=stored and not task.complete,
        follow=stop if task.follow else None,
        **_asked(task, *ROWS, "format", "delimiter", "encoding"),
    )


def _asked(task: LearnRequest, *names: str) -> dict[str, Any]:
    return {name: getattr(task, name) for name in names}


def horizon_of(task: LearnRequest, rows: AnyRows) -> int:
    """Return the rounds to plan for: what was said, or the rows of the file."""
    if task.horizon is not None:
        return task.horizon
    if rows.length is None:
        raise BadStream(
            f"{rows.name}: how many rows will come is not known, and the plan depends on it: say "
            "--horizon N. A guess made from the rows themselves would not be private"
        )
    return max(1, min(rows.length, MOST_TABLE_ROWS) if task.table else rows.length)


def vacuous_note(plan: PlanTable) -> list[str]:
    """Return what a plan says when it can do nothing."""
    return [f"{value}; {why}" for what, value, why in plan.lines() if what == "vacuous"]


def _finish(outcome: RunResult) -> None:
    """Note that the horizon was passed, and write the report and the private figures."""
    learner, task = outcome.learner, outcome.task
    if learner.final is not None and learner.rounds > learner.plan.horizon:
        outcome.notes.append(learner.final)
    if task.report is not None:
        write_private(task.report, render_report(report_of(outcome)))
    write_private_json(task.private_json, outcome.private())
