"""Run `littlestone learn`: learn from a stream of labelled rows."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from littlestone._cli.options import (
    AsJson,
    BudgetOption,
    CapOption,
    ChangeCost,
    DatasetOption,
    Delta,
    Epsilon,
    KafkaConfig,
    KafkaOption,
    LabelOption,
    MinRate,
    NegativeOption,
    PositiveOption,
    PrivateJson,
    Seed,
    Spec,
    UserOption,
    WhichEngine,
    WhichLearner,
    given,
    read_min_rate,
)
from littlestone._cli.terminal import (
    plain_console,
    print_private,
    print_result,
    progress_bar,
)
from littlestone._data.kafka import is_topic, read_settings
from littlestone._learners.plan_table import CHANGE_COST
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


def learn(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV or JSON lines, plain or .gz; Parquet or Arrow, or a folder of such; a "
            "URI such as s3://bucket/events; - is stdin; kafka://BROKERS/TOPIC."
        ),
    ],
    spec: Spec = None,
    label: LabelOption = None,
    positive: PositiveOption = None,
    negative: NegativeOption = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    horizon: Annotated[
        int | None, typer.Option(help="Rounds to plan for; by default the rows of the file.")
    ] = None,
    user: UserOption = None,
    cap: CapOption = None,
    change_cost: ChangeCost = CHANGE_COST,
    min_rate: MinRate = "auto",
    learner: WhichLearner = "auto",
    db: Annotated[
        Path | None,
        typer.Option(help="Keep the learner in this file, and go on from it. Private."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the releases here, as JSON lines. Public.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here. Private.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a bad row, outside the guarantee.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out and --report.")] = False,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="csv, tsv, jsonl, parquet or arrow; else by name."),
    ] = None,
    private_json: PrivateJson = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="With --db: a last line without a line feed is a row."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="With --db: check every row that was learned before."),
    ] = False,
    new_rows: Annotated[
        bool,
        typer.Option(
            "--new-rows",
            help="With --db: no row of the file was learned before; of a topic: go on though "
            "messages are gone.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="With --db: learn known rows once more; epsilon adds up."),
    ] = False,
    budget: BudgetOption = None,
    dataset: DatasetOption = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Wait for rows that are added to a text file, as tail -F."),
    ] = False,
    until_end: Annotated[
        bool,
        typer.Option("--until-end", help="For kafka://: learn what the topic holds now, and end."),
    ] = False,
    kafka_option: KafkaOption = None,
    kafka_config: KafkaConfig = None,
    seed: Seed = None,
    engine: WhichEngine = None,
    workers: Annotated[
        int | None, typer.Option(help="Shards of the engine; as many as it has cores by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a rule from a stream of labelled rows, privately: before each row a rule is published."""
    from littlestone._cli.learn_run import run
    from littlestone._ray import redirect_output

    # A store knows what it was begun with.
    if db is None or not db.exists():
        asked = {"which --class of rules to learn": spec, "which column is the --label": label}
        if missing := [what for what, said in asked.items() if said is None]:
            advice = "" if is_topic(file) else f": `littlestone init {file}` proposes both"
            raise BadParameter(f"say {', and '.join(missing)}{advice}")
    check_name(learner, planned_names())
    task = LearnRequest(
        source=file,
        spec=spec or "",
        label=label or "",
        positive=tuple(positive or ()),
        negative=tuple(negative or ()),
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        user=user,
        cap=cap,
        change_cost=change_cost,
        min_rate=read_min_rate(min_rate),
        learner=learner,
        seed=seed,
        strict=strict,
        format=format_,
        out=out,
        report=report,
        private_json=private_json,
        force=force,
        engine=engine,
        workers=workers,
        given=given(context),
        again=again,
        new_rows=new_rows,
        complete=complete,
        verify=verify,
        budget=budget,
        dataset=dataset,
        follow=follow,
        until_end=until_end,
        kafka=read_settings(kafka_option or (), kafka_config),
    )
    # Before the first row is read: options that need a store must not be ignored in silence.
    task.refuse_without_store(db)
    task.refuse_other_kind()
    refuse_file(private_json, force)
    try:
        with (
            redirect_output(engine),
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
