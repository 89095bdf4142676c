"""Run `littlestone learn`: learn from a stream of labelled rows."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from littlestone._cli.options import (
    BUDGET_AND_UNIT,
    LABELS,
    AsJson,
    KafkaConfig,
    KafkaOption,
    takes_request,
)
from littlestone._cli.terminal import (
    plain_console,
    print_private,
    print_result,
    progress_bar,
)
from littlestone._data.kafka import is_topic, read_settings
from littlestone._learners.registry import check_name, planned_names
from littlestone._privacy.parameters import BadParameter
from littlestone._report.report import refuse_file
from littlestone._store.request import LearnRequest

EXAMPLE = (
    "Example: littlestone learn events.csv --class causes:version,country,device:2 --label failed "
    "--epsilon 1 --delta 1e-7 --out releases.jsonl --report report.html\n\n"
    "Example: littlestone learn kafka://localhost:9092/events --db run.db --class points:merchant "
    "--label fraud --horizon 10000000 --delta 1e-9"
)


@takes_request(
    *LABELS, *BUDGET_AND_UNIT, "out", "report", "private_json", "force", "budget", "dataset",
    "strict", "format", "complete", "new_rows", "again", "follow", "until_end", "seed",
    "engine", "workers",
)  # fmt: skip
def learn(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV or JSON lines, plain or .gz; Parquet or Arrow, or a folder of such; a "
            "URI such as s3://bucket/events; - is stdin; kafka://BROKERS/TOPIC."
        ),
    ],
    task: LearnRequest,
    db: Annotated[
        Path | None,
        typer.Option(help="Keep the learner in this file, and go on from it. Private."),
    ] = None,
    kafka_option: KafkaOption = None,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Learn a rule from a stream of labelled rows, privately: before each row a rule is published."""
    from littlestone._cli.learn_run import run
    from littlestone._ray import redirect_output

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
        typer.echo(json.dumps({"public": outcome.public()}, ensure_ascii=False))
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
    needed |= dict.fromkeys(("follow", "again", "complete"), no_file) if from_topic else {}
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
