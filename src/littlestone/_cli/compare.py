"""Compare learners: play the cells of a sweep in processes, and write each down when it is done.

Promises: what is wrong with the arguments is said before anything is run. With `resume`, every cell
is done exactly once over any number of runs: a finished one is a line of the file, a line that was
torn by a crash is cut off and its cell done again, and a file that is not ours is left alone.

Print a comparison as a table, as one HTML page, and as SVG files.

Promises: the page asks the network for nothing and runs no script; when the stream was a user's
file, everything says that it is private before it says anything else, and what it spent.

Run `littlestone compare`: arguments in, a comparison out.
"""

import hashlib
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._classes.specs import parse_spec
from littlestone._cli.options import (
    AsJson,
    ChangeCost,
    MinRate,
    PositiveOption,
    PrivateJson,
    WhichEngine,
    read_min_rate,
)
from littlestone._cli.terminal import plain_console, wide_console
from littlestone._data.blocks import BadStream, Block
from littlestone._data.readers import open_rows
from littlestone._display import environment, library_version, short_number
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.plan_table import (
    CHANGE_COST,
    checked_change_cost,
    planned_delta,
    planned_epsilon,
)
from littlestone._learners.registry import AUTO, LEARNERS, learner_names
from littlestone._plots import inline_svg
from littlestone._privacy.parameters import BadParameter
from littlestone._ray import ray_of, redirect_output
from littlestone._report.figures import charts
from littlestone._report.report import refuse_file, write_private
from littlestone._simulate.adversaries import ADVERSARIES, adversary_of
from littlestone._simulate.streams import Stream
from littlestone._simulate.sweeps import (
    FILE,
    Cell,
    Result,
    SummaryLine,
    result_from_json,
    run_cell,
    summary_lines,
)

MOST_ROUNDS = 10**8
# How every line of a file of results begins.
OURS = '{"cell":'


@dataclass(frozen=True)
class Sweep:
    """Hold what a person asked to compare: every combination is a cell."""

    specs: Sequence[str]
    learners: Sequence[str]
    streams: Sequence[str]
    rounds: Sequence[int]
    epsilons: Sequence[float]
    delta: float
    seeds: int
    noise: float = 0.0
    change_cost: float = CHANGE_COST
    file: str | None = None
    label: str | None = None
    min_rate: float | str = AUTO_RATE
    positive: Sequence[str] = ()

    def __post_init__(self) -> None:
        _known("learner", self.learners, learner_names())
        if not self.streams:
            _known("stream", [], ADVERSARIES)
        for stream in self.streams:
            adversary_of(stream)
        causes = any(isinstance(parse_spec(spec), Causes) for spec in self.specs)
        if self.min_rate != AUTO_RATE and not causes and not {"auto", "experts"} & {*self.learners}:
            raise BadParameter("--min-rate is about causes and experts: leave it out")
        for name, values in (("--rounds", self.rounds), ("--epsilon", self.epsilons)):
            if not values or not all(value > 0 for value in values):
                raise BadParameter(f"{name} is one or more numbers above zero, with commas between")
        if max(self.rounds) > MOST_ROUNDS:
            raise BadParameter(
                f"--rounds is at most {MOST_ROUNDS:,}, not {max(self.rounds):,}: a made-up stream "
                "is held in memory"
            )
        for epsilon in self.epsilons:
            planned_epsilon(epsilon)
        if self.seeds < 1:
            raise BadParameter(f"--seeds is at least 1, not {self.seeds}")
        checked_change_cost(self.change_cost)
        if not 0 <= self.noise < 1:
            raise BadParameter(f"--noise is at least 0 and below 1, not {self.noise:g}")
        planned_delta(self.delta)
        if (self.file is None) != (self.label is None):
            raise BadParameter("--file and --label go together: which column is the label?")
        if self.file is not None and (len(self.specs) > 1 or self.noise):
            raise BadParameter("a --file is compared as it is, with one --class and no --noise")

    def cells(self, stream: str | None = None, rounds: int = 0) -> list[Cell]:
        """Return every cell, in an order that shows something of each learner early."""
        streams, lengths = (self.streams, self.rounds) if stream is None else ([stream], [rounds])
        ways = product(
            range(1, self.seeds + 1), self.specs, lengths, self.epsilons, streams, self.learners
        )
        return [
            Cell(
                spec,
                learner,
                name,
                length,
                epsilon,
                self.delta,
                seed,
                self.noise,
                self.change_cost,
                min_rate=self.min_rate,
            )
            for seed, spec, length, epsilon, name, learner in ways
        ]


def _known(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    if not names:
        raise BadParameter(f"name at least one {kind}: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise BadParameter(f"no {kind} is called {name!r}: there are {', '.join(known)}")


def run_sweep(
    sweep: Sweep,
    *,
    resume: Path | None = None,
    workers: int | None = None,
    engine: str | None = None,
    watch: Callable[[int, int, Result | None], None] = lambda done, total, result: None,
) -> list[Result]:
    """Play all cells, and return their results in order."""
    classes = {spec: parse_spec(spec) for spec in sweep.specs}
    stream, cells = None, sweep.cells()
    # A file has one stream, whose length is known only now.
    if sweep.file is not None and sweep.label is not None:
        name = _digest(sweep.file, resume is not None)
        stream = read_stream(sweep.file, classes[sweep.specs[0]], sweep.label, sweep.positive)
        cells = sweep.cells(name, len(stream))
    done = {} if resume is None else finished(resume)
    left = [cell for cell in cells if cell.key not in done]
    watch(len(cells) - len(left), len(cells), None)
    for result in _results(classes, stream, left, workers, engine):
        done[result.cell.key] = result
        if resume is not None:
            _append(resume, result, private=stream is not None)
        watch(sum(cell.key in done for cell in cells), len(cells), result)
    return [done[cell.key] for cell in cells]


def read_stream(
    file: str, cls: HypothesisClass, label: str, positive: Sequence[str] = ()
) -> Stream:
    """Read a file as a stream whose truth is not known."""
    with open_rows(file, cls, label=label, positive=positive) as rows:
        parts = [_usable(block) for block in rows]
    columns = {name: np.concatenate([p.batch[name] for p in parts]) for name in parts[0].batch}
    return Stream(columns, np.concatenate([part.answers for part in parts]), None)


@dataclass(frozen=True)
class _Usable:
    batch: dict[str, np.ndarray]
    answers: np.ndarray


def _usable(block: Block) -> _Usable:
    # A null round has the label -1.
    keep = block.labels >= 0
    batch = {name: column[keep] for name, column in block.columns.items()}
    return _Usable(batch, block.labels[keep].astype(bool))


def _digest(file: str, needed: bool) -> str:
    """Return the name of a file's stream, which changes with the file."""
    if not Path(file).is_file():
        if needed:
            raise BadStream(f"{file}: only a file that can be read again can be resumed")
        return f"{FILE}{file}"
    with open(file, "rb") as source:
        return f"{FILE}{file}:{hashlib.file_digest(source, 'sha256').hexdigest()[:16]}"


_GIVEN: dict[str, HypothesisClass] = {}
_STREAM: list[Stream | None] = [None]


def _prepare(classes: dict[str, HypothesisClass], stream: Stream | None) -> None:
    """Set up a worker: what all of its cells share."""
    warnings.simplefilter("ignore")
    _GIVEN.update(classes)
    _STREAM[0] = stream


def _one(cell: Cell) -> Result:
    return run_cell(_GIVEN[cell.cls], cell, _STREAM[0])


def _results(
    classes: dict[str, HypothesisClass],
    stream: Stream | None,
    cells: list[Cell],
    workers: int | None,
    engine: str | None,
) -> Iterator[Result]:
    """Yield results as they come, from processes of this machine or from a cluster."""
    if engine is None:
        return _run(classes, stream, cells, workers or os.cpu_count() or 1)
    from littlestone._ray.cluster import play_on

    return play_on(ray_of(engine, workers), classes, stream, cells)


def _run(
    classes: dict[str, HypothesisClass], stream: Stream | None, cells: list[Cell], workers: int
) -> Iterator[Result]:
    """Yield results as they come, from processes of this machine."""
    # Workers are started afresh, never forked: a mechanism refuses to work in a fork.
    if not cells:
        return
    # Classes and stream are sent once a worker, not once a cell.
    pool = ProcessPoolExecutor(
        min(workers, len(cells)), get_context("spawn"), _prepare, (classes, stream)
    )
    try:
        for future in as_completed([pool.submit(_one, cell) for cell in cells]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def finished(path: Path) -> dict[str, Result]:
    """Return the results in a file, by key; a torn last line is cut off the file."""
    if not path.exists():
        return {}
    text = path.read_bytes()
    whole, _, torn = text.rpartition(b"\n")
    done: dict[str, Result] = {}
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        try:
            result = result_from_json(json.loads(line))
        except (ValueError, KeyError, TypeError):
            raise BadStream(
                f"{path}: line {number} is not a result of `compare`: give --resume another name"
            ) from None
        done[result.cell.key] = result
    # A process that died while it wrote leaves a line without an end: only if it is ours, cut it.
    start = torn[: len(OURS)].decode("utf-8", "replace")
    if torn and not OURS.startswith(start):
        raise BadStream(f"{path}: this is not a file of `compare`: give --resume another name")
    if torn:
        os.truncate(path, len(text) - len(torn))
    return done


def _append(path: Path, result: Result, private: bool) -> None:
    line = json.dumps(result.to_json(), ensure_ascii=False) + "\n"
    # On a user's file the results count mistakes, which are private.
    mode = 0o600 if private else 0o666
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode), "a", encoding="utf-8"
    ) as f:
        f.write(line)


TABLE_COLUMNS = (
    "stream",
    "T",
    "epsilon",
    "learner",
    "median",
    "worst",
    "missed",
    "alarms",
    "excess",
    "releases",
    "rounds/s",
)
EXCESS = (
    "Mistakes over seeds: median and worst. Excess: the median over the mistakes of the best rule"
    " that never changes. Missed and alarms: the mistakes on positives and on negatives, medians."
    " Releases: those after the first rule, median."
)


def spending(sweep: Sweep) -> str:
    """Say what comparing learners on a user's own file has cost."""
    open_ones = [n for n in sweep.learners if n != AUTO and not LEARNERS[n].private]
    total = sum(sweep.epsilons) * sweep.seeds * (len(sweep.learners) - len(open_ones))
    open_note = f" {', '.join(open_ones)} follow the data without noise." if open_ones else ""
    return (
        f"PRIVATE: for studying, not for publishing. Every private learner and seed spends its"
        f" epsilon on this data, {total:g} in all if their rules were published.{open_note}"
    )


def what_is(name: str) -> str:
    """Return what a learner is, in a few words."""
    if name == AUTO:
        return "what `recommend` takes for the class and the budget"
    return LEARNERS[name].what


def notes(sweep: Sweep, results: Sequence[Result]) -> list[str]:
    """Return what a reader should know about the figures."""
    said = list[str]()
    if sweep.file is None and sweep.delta * 10 * max(sweep.rounds) > 1:
        said.append(
            f"delta = {sweep.delta:g} is above 1 / (10 x rounds): that allows some record of a"
            " stream to be published"
        )
    return [*said, *vacuous_learners(results)]


def vacuous_learners(results: Sequence[Result]) -> list[str]:
    """List the learners whose plans said that they would learn nothing, by epsilon."""
    about: dict[tuple[str, float], set[int]] = {}
    for result in results:
        if result.vacuous:
            cell = result.cell
            about.setdefault((cell.learner, cell.epsilon), set()).add(cell.rounds)
    return [
        f"{learner} at epsilon {epsilon:g} is vacuous: the first rule will stand, by its own plan"
        f" (T = {', '.join(f'{rounds:,}' for rounds in sorted(lengths))})"
        for (learner, epsilon), lengths in about.items()
    ]


def print_comparison(console: Console, sweep: Sweep, results: Sequence[Result]) -> None:
    """Print a comparison as tables."""
    if sweep.file is not None:
        console.print(spending(sweep) + "\n")
    found = summary_lines(results)
    for spec in dict.fromkeys(line.cls for line in found):
        of_class = [line for line in found if line.cls == spec]
        seeds = max(line.seeds for line in of_class)
        console.print(
            f"{spec}, {_dimension_in_words(of_class[0].dimension)}delta {sweep.delta:g},"
            f" {seeds} seed{'s' * (seeds != 1)}"
        )
        table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False)
        for name in TABLE_COLUMNS:
            side: JustifyMethod = "left" if name in ("stream", "learner") else "right"
            table.add_column(name, justify=side, no_wrap=True)
        for line in of_class:
            table.add_row(*cells(line))
        wide_console(console).print(table)
        for said in unsupported(of_class):
            console.print(f"  {said}")
        console.print()
    console.print(EXCESS)
    for note in notes(sweep, results):
        console.print(f"note: {note}")


def _dimension_in_words(dimension: int | None) -> str:
    return "" if dimension is None else f"Littlestone dimension {dimension}, "


def cells(line: SummaryLine) -> list[str]:
    """Return the cells of a line of the table."""
    start = [_stream(line), f"{line.rounds:,}", f"{line.epsilon:g}", line.learner]
    if line.error:
        return [*start, "cannot", *[""] * (len(TABLE_COLUMNS) - len(start) - 1)]
    return [
        *start,
        f"{line.median:,.4g}" if line.median < 10_000 else f"{line.median:,.0f}",
        f"{line.worst:,}",
        *(
            "" if number is None else f"{number:,.0f}"
            for number in (line.missed, line.false_alarms)
        ),
        "unknown" if line.excess is None else f"{line.excess:,.0f}",
        f"{line.releases:,.4g}",
        _brief(line.per_second),
    ]


def _brief(number: float) -> str:
    """Return two digits that matter: `61k`, `3.3M`."""
    return short_number(round(float(f"{number:.2g}")))


def unsupported(found: Sequence[SummaryLine]) -> list[str]:
    """Say why some learners could not play, each reason once, with the streams it is about."""
    about: dict[tuple[str, str], dict[str, None]] = {}
    for line in found:
        if line.error:
            about.setdefault((line.learner, line.error), {})[_stream(line)] = None
    return [f"{name} on {', '.join(on)}: {why}" for (name, why), on in about.items()]


def _stream(line: SummaryLine) -> str:
    return "file" if line.stream.startswith(FILE) else line.stream


def render_comparison(sweep: Sweep, results: Sequence[Result], command: str) -> str:
    """Return the comparison as the text of one HTML file."""
    found = summary_lines(results)
    figures = [
        (chart.title, chart.words, inline_svg(chart.figure(), chart.name))
        for chart in charts(results)
    ]
    several = len(sweep.specs) > 1
    template = environment("littlestone._report").get_template("compare.html.j2")
    return template.render(
        warning=None if sweep.file is None else spending(sweep),
        classes=", ".join(sweep.specs),
        notes=notes(sweep, results),
        figures=figures,
        excess=EXCESS,
        # The headline names a single class.
        columns=[*(["class"] if several else []), *TABLE_COLUMNS],
        rows=[[*([line.cls] if several else []), *cells(line)] for line in found],
        unsupported=unsupported(found),
        provenance=[
            ("command", command),
            ("littlestone", library_version()),
            ("delta", f"{sweep.delta:g}"),
            (
                "seeds",
                f"1 to {sweep.seeds}, of the streams and of the random bits; the noise is secret",
            ),
            *((name, what_is(name)) for name in sweep.learners),
        ],
    )


def write_figures(folder: Path, results: Sequence[Result]) -> list[Path]:
    """Write every figure as an SVG file of its own, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chart in charts(results):
        path = folder / f"{chart.name}.svg"
        path.write_text(chart.svg(), encoding="utf-8")
        written.append(path)
    return written


EXAMPLE = (
    "Example: littlestone compare --class points:merchant --learners dpsoa,soa "
    "--streams iid,halving --rounds 10000,100000 --seeds 5 --html compare.html; or, for causes, "
    "littlestone compare --class causes:a,b,c --learners causes,dpsoa --streams rates:0.3:0.01:0.05"
)
OBLIVIOUS = "iid,sorted,burst,halving"


def compare(
    specs: Annotated[
        list[str],
        typer.Option("--class", metavar="SPEC", help="As in `dimension --help`; may be repeated."),
    ],
    learners: Annotated[
        str, typer.Option(help=f"Some of {', '.join(learner_names())}, with commas.")
    ] = "dpsoa,soa",
    streams: Annotated[
        str,
        typer.Option(
            help=f"Some of {', '.join(ADVERSARIES)}, with commas. rates:0.3:0.01:0.05 is a cause "
            "whose events are positive 30 % of the time, others 1 %, that 5 % of events have."
        ),
    ] = OBLIVIOUS,
    rounds: Annotated[str, typer.Option(help="Rounds a game; several with commas.")] = "100000",
    epsilon: Annotated[str, typer.Option(help="Privacy budget; several with commas.")] = "1",
    delta: Annotated[float, typer.Option(help="Well below 1 / (10 x rounds).")] = 1e-6,
    seeds: Annotated[int, typer.Option(help="Games of each learner on each stream.")] = 5,
    noise: Annotated[float, typer.Option(help="The share of labels that is flipped.")] = 0.0,
    change_cost: ChangeCost = CHANGE_COST,
    min_rate: MinRate = "auto",
    file: Annotated[
        str | None,
        typer.Option(help="Compare on this file, instead of synthetic streams. PRIVATE."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The file's column of 0 and 1.")
    ] = None,
    positive: PositiveOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Append each finished game here, and skip those that are there."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures here.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Write the pictures as SVG files into this folder.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Games at a time; as many as there are cores by default.")
    ] = None,
    engine: WhichEngine = None,
    as_json: AsJson = False,
    private_json: PrivateJson = None,
) -> None:
    """Compare learners: on synthetic streams that know the truth, or on a file of yours."""
    sweep = Sweep(
        specs,
        _words(learners),
        _words(streams),
        [int(number) for number in _numbers("--rounds", rounds, whole=True)],
        _numbers("--epsilon", epsilon),
        delta,
        seeds,
        noise,
        change_cost,
        file,
        label,
        read_min_rate(min_rate),
        tuple(positive or ()),
    )
    # Figures are made for publishing; mistakes on a person's own rows are private.
    if file is not None and figures is not None:
        raise BadParameter(
            "--figures are for publishing, and what a --file shows is private: take --html"
        )
    if file is not None and as_json:
        raise BadParameter(
            "--json prints on standard output, and what a --file shows is private: take "
            "--private-json FILE"
        )
    if file is None and private_json is not None:
        raise BadParameter(
            "synthetic streams have nothing private: take --json, not --private-json"
        )
    refuse_file(private_json)
    with redirect_output(engine), _watching(Console(stderr=True)) as watch:
        results = run_sweep(sweep, resume=resume, workers=workers, engine=engine, watch=watch)
    if html is not None:
        page = render_comparison(sweep, results, shlex.join(["littlestone", *sys.argv[1:]]))
        if file is not None:
            write_private(html, page)
        else:
            html.write_text(page, encoding="utf-8")
    # Files before tables: what is printed names the files that exist.
    drawn = [] if figures is None else write_figures(figures, results)
    if private_json is not None:
        data = {"private": spending(sweep)} | _as_json(sweep, results)
        write_private(private_json, json.dumps(data, ensure_ascii=False) + "\n")
    if as_json:
        typer.echo(json.dumps(_as_json(sweep, results), ensure_ascii=False))
        return
    console = plain_console(stderr=file is not None)
    print_comparison(console, sweep, results)
    for path in [*filter(None, (html, private_json)), *drawn]:
        console.print(f"written to {path}")


def _as_json(sweep: Sweep, results: list[Result]) -> dict[str, Any]:
    return {
        "version": library_version(),
        "notes": notes(sweep, results),
        "lines": [line.to_json() for line in summary_lines(results)],
        "results": [result.to_json() for result in results],
    }


def _words(text: str) -> list[str]:
    # In the order given, once each: a repeated name would play its games twice.
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(option: str, text: str, whole: bool = False) -> list[float]:
    try:
        found = [float(word) for word in _words(text)]
    except ValueError:
        found = []
    if not found or (whole and not all(number.is_integer() for number in found)):
        kind = "whole numbers" if whole else "numbers"
        raise BadParameter(f"{option} is one or more {kind} with commas between, not {text!r}")
    return found


@contextmanager
def _watching(console: Console) -> Iterator[Callable[[int, int, Result | None], None]]:
    """Yield a callback that moves a progress bar; without a terminal there is none."""
    columns = (
        BarColumn(32),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None, last="")

        def watch(done: int, total: int, result: Result | None) -> None:
            last = "" if result is None else f"{result.cell.learner}, {result.cell.stream[:30]}"
            bar.update(task, completed=done, total=total, last=last.replace("[", r"\["))

        yield watch
