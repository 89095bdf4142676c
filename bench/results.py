"""Mistakes by horizon, epsilon and dimension: tables and figures of docs/results.md.

    python -m bench results [--seeds N]

Noise is that of the system, and secret: a second run differs a little.
"""

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from rich.table import Table

from bench.charts import Chart, Curve
from bench.output import publish, publish_figure, publish_text
from littlestone._classes.specs import parse_spec
from littlestone._learners.registry import Terms
from littlestone._plots import COLOURS, INK, SOFT
from littlestone._simulate.games import Line, play_line

PROCESSES, SEEDS, DELTA = 2, 20, 1e-6
FOLDER = Path("docs/figures/results")
FLOOR = "the dimension: needed at worst without privacy"
BOUND = "lower bound for concentrated private learners, d = 1"
# By epsilon and rounds, at delta 1e-6: the mistakes that a *concentrated* private learner cannot
# avoid at d = 1, from the recursion of Dmitriev, Szabo and Sanyal 2024, optimised. Not for every
# learner: a random first guess escapes the constant, not the logarithm.
LOWER_BOUND = {
    1.0: {10**5: 23.8, 10**6: 25.9, 10**7: 27.0},
    0.5: {10**5: 44.8, 10**6: 46.2, 10**7: 47.0},
    2.0: {10**5: 12.9, 10**6: 13.9, 10**7: 14.9},
}


@dataclass(frozen=True)
class Games:
    """Games to play, a line for each T, epsilon or d, and figures: (name, stream)."""

    name: str
    across: str
    specs: Sequence[str]
    learners: Sequence[str]
    streams: Sequence[str]
    rounds: Sequence[int]
    epsilons: Sequence[float] = (1.0,)
    figures: Sequence[tuple[str, str]] = ()


CUTS = [f"thresholds:x:1:{points}" for points in (1, 3, 15, 63, 255, 1023)]
LONG = (1_000, 10_000, 100_000, 1_000_000)
TABLES = [
    Games(
        "results.points",
        "T",
        ["points:x"],
        ["dpsoa", "soa"],
        ["iid", "halving"],
        LONG,
        figures=[("horizon-points", "halving")],
    ),
    Games(
        "results.thresholds",
        "T",
        ["thresholds:x:1:1023"],
        ["dpsoa", "experts", "soa"],
        ["iid", "halving"],
        LONG,
        figures=[("horizon-iid", "iid"), ("horizon-halving", "halving")],
    ),
    Games(
        "results.epsilon",
        "epsilon",
        ["points:x"],
        ["dpsoa", "soa"],
        ["iid", "halving"],
        [100_000],
        (0.5, 1.0, 2.0),
        figures=[("epsilon", "halving")],
    ),
    Games(
        "results.dimension",
        "d",
        CUTS,
        ["dpsoa", "experts", "soa"],
        ["iid", "halving", "mirror"],
        [20_000],
        figures=[("dimension-halving", "halving"), ("dimension-mirror", "mirror")],
    ),
]


def run(arguments: Sequence[str] = ()) -> None:
    """Play all games, publish the tables, draw the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench results")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = parser.parse_args(list(arguments)).seeds
    for games in TABLES:
        lines = _lines(games, seeds)
        publish(games.name, _table(games, lines))
        for name, stream in games.figures:
            publish_figure(FOLDER / f"{name}.svg", _chart(name, games, lines, stream).svg())
    publish_text("results.seeds", str(seeds))


def _table(games: Games, lines: dict[str, list[Line]]) -> Table:
    """Return median and worst mistakes: a line for each T, epsilon or d."""
    table, columns = Table(), [*product(games.streams, games.learners)]
    table.add_column(games.across, justify="right")
    for stream, learner in columns:
        table.add_column(f"{learner}, {stream}", justify="right")
    if games.across == "epsilon":
        table.add_column("lower bound", justify="right")
    cells: dict[float, dict[tuple[str, str], str]] = {}
    for spec, played in lines.items():
        for line in played:
            mistakes = [game.mistakes for game in line.games]
            cell = f"{median(mistakes):,.10g} ({max(mistakes):,})" if mistakes else "cannot"
            cells.setdefault(_place(games, spec, line), {})[line.stream, line.learner] = cell
    for place, row in cells.items():
        bound = [str(_bound(games, place))] if games.across == "epsilon" else []
        table.add_row(f"{place:,.10g}", *(row[column] for column in columns), *bound)
    return table


def _place(games: Games, spec: str, line: Line) -> float:
    """Return where a line stands: its T, epsilon or d."""
    places = {"T": line.rounds, "epsilon": line.epsilon, "d": parse_spec(spec).dimension}
    return places[games.across]


def _lines(table: Games, seeds: int) -> dict[str, list[Line]]:
    ways = [*product(table.specs, table.streams, table.rounds, table.epsilons, table.learners)]
    asked = [(*way, seeds) for way in ways]
    with get_context("spawn").Pool(PROCESSES) as pool:
        played = pool.map(_line, asked, chunksize=1)
    lines: dict[str, list[Line]] = {spec: [] for spec in table.specs}
    for (spec, *_), line in zip(ways, played, strict=True):
        lines[spec].append(line)
    return lines


def _line(asked: tuple[str, str, int, float, str, int]) -> Line:
    spec, stream, rounds, epsilon, learner, seeds = asked
    warnings.simplefilter("ignore")
    terms = Terms(cls=parse_spec(spec), epsilon=epsilon, delta=DELTA, horizon=rounds)
    return play_line(stream, learner, terms, seeds, 0.0)


def _chart(name: str, table: Games, lines: dict[str, list[Line]], stream: str) -> Chart:
    """Mistakes against T, epsilon or d, of each learner, with what is needed at least."""
    points: dict[str, list[tuple[float, float]]] = {learner: [] for learner in table.learners}
    for spec, line in [(spec, line) for spec, played in lines.items() for line in played]:
        if line.stream == stream and line.games:
            at = _place(table, spec, line)
            points[line.learner].append((at, median(game.mistakes for game in line.games)))
    curves = [
        Curve(learner, COLOURS[number], points[learner])
        for number, learner in enumerate(table.learners)
        if points[learner]
    ]
    across, places = table.across, sorted({x for curve in curves for x, _ in curve.points})
    depth = {x: x if across == "d" else parse_spec(table.specs[0]).dimension for x in places}
    curves.append(Curve(FLOOR, SOFT, [(x, depth[x]) for x in places], ":"))
    bounds = [(x, bound) for x in places if (bound := _bound(table, x)) is not None]
    curves += [Curve(BOUND, INK, bounds, "--")] if bounds else []
    title = f"Mistakes against {across}, {stream} (median)"
    names = {"T": "horizon T, in rounds", "d": "Littlestone dimension d"}
    label = names.get(across, across)
    return Chart(name, title, label, curves, log_across=across != "d", at=places)


def _bound(table: Games, x: float) -> float | None:
    epsilon = x if table.across == "epsilon" else table.epsilons[0]
    rounds = table.rounds[0] if table.across == "epsilon" else int(x)
    return None if table.across == "d" else LOWER_BOUND.get(epsilon, {}).get(rounds)
