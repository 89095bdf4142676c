"""Run `littlestone compare`: arguments in, a comparison out."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from littlestone.cli.compare_run import (
    Sweep,
    notes,
    print_comparison,
    render_comparison,
    run_sweep,
    spending,
    write_figures,
)
from littlestone.cli.options import AsJson, PrivateJson, WhichEngine
from littlestone.cli.terminal import plain_console
from littlestone.display import library_version
from littlestone.learners.registry import learner_names
from littlestone.privacy.parameters import BadParameter
from littlestone.ray import redirect_output
from littlestone.report.result import refuse_file, write_private
from littlestone.simulate.adversaries import ADVERSARIES
from littlestone.simulate.sweeps import Result, summary_lines

EXAMPLE = (
    "Example: littlestone compare --class points:merchant --learners dpsoa,soa "
    "--streams iid,halving --rounds 10000,100000 --seeds 5 --html compare.html"
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
        str, typer.Option(help=f"Some of {', '.join(ADVERSARIES)}, with commas.")
    ] = OBLIVIOUS,
    rounds: Annotated[str, typer.Option(help="Rounds a game; several with commas.")] = "100000",
    epsilon: Annotated[str, typer.Option(help="Privacy budget; several with commas.")] = "1",
    delta: Annotated[float, typer.Option(help="Well below 1 / (10 x rounds).")] = 1e-6,
    seeds: Annotated[int, typer.Option(help="Games of each learner on each stream.")] = 5,
    noise: Annotated[float, typer.Option(help="The share of labels that is flipped.")] = 0.0,
    tolerance: Annotated[
        float, typer.Option(help="The share of mistakes that should not cause a change of rule.")
    ] = 0.0,
    file: Annotated[
        str | None, typer.Option(help="Compare on this file, instead of made-up streams. PRIVATE.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The file's column of 0 and 1.")
    ] = None,
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
    """Compare learners: on made-up streams that know the truth, or on a file of yours.

    Noise is secret as always, so two runs differ. On a --file every learner spends its epsilon:
    what it shows is private, for studying and not for publishing. It is printed on standard error,
    or goes to the files of --html and --private-json, which only their owner may read.
    """
    sweep = Sweep(
        specs,
        _words(learners),
        _words(streams),
        [int(number) for number in _numbers("--rounds", rounds, whole=True)],
        _numbers("--epsilon", epsilon),
        delta,
        seeds,
        noise,
        tolerance,
        file,
        label,
    )
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
        raise BadParameter("made-up streams have nothing private: take --json, not --private-json")
    refuse_file(private_json)
    with redirect_output(engine), _watching(Console(stderr=True)) as watch:
        results = run_sweep(sweep, resume=resume, workers=workers, engine=engine, watch=watch)
    if html is not None:
        page = render_comparison(sweep, results, shlex.join(["littlestone", *sys.argv[1:]]))
        if file is not None:
            write_private(html, page)
        else:
            html.write_text(page, encoding="utf-8")
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
