"""Mistakes by horizon, epsilon and dimension: tables and figures of docs/results.md. Some 13 minutes.

Noise is that of the system, and secret: a second run differs a little.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from bench.charts import Chart, Curve
from littlestone._classes.specs import parse_spec
from littlestone._cli.compare import print_lines
from littlestone._learners.registry import Terms
from littlestone._plots import COLOURS, INK, SOFT
from littlestone._simulate.games import Line, play_line

PROCESSES = 2
DELTA = 1e-6
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
class Table:
    """Games to play, and the figures that are drawn of them: of which stream, against what."""

    specs: Sequence[str]
    learners: Sequence[str]
    streams: Sequence[str]
    rounds: Sequence[int]
    epsilons: Sequence[float] = (1.0,)
    seeds: int = 20
    figures: Sequence[tuple[str, str, str]] = ()


CUTS = [f"thresholds:x:1:{points}" for points in (1, 3, 15, 63, 255, 1023)]
LONG = (1_000, 10_000, 100_000, 1_000_000)
TABLES = [
    Table(
        ["points:x"],
        ["dpsoa", "soa"],
        ["iid", "halving"],
        LONG,
        figures=[("horizon-points", "halving", "T")],
    ),
    Table(
        ["thresholds:x:1:1023"],
        ["dpsoa", "experts", "soa"],
        ["iid", "halving"],
        LONG,
        figures=[("horizon-iid", "iid", "T"), ("horizon-halving", "halving", "T")],
    ),
    Table(
        ["points:x"],
        ["dpsoa", "soa"],
        ["iid", "halving"],
        [100_000],
        (0.5, 1.0, 2.0),
        figures=[("epsilon", "halving", "epsilon")],
    ),
    Table(
        CUTS,
        ["dpsoa", "experts", "soa"],
        ["iid", "halving", "mirror"],
        [20_000],
        seeds=10,
        figures=[("dimension-halving", "halving", "d"), ("dimension-mirror", "mirror", "d")],
    ),
]


def run() -> None:
    """Play all games, print the tables, draw the figures."""
    for table in TABLES:
        lines = _lines(table)
        for spec in table.specs:
            print_lines(f"{spec}, {_dimension(spec)}, {table.seeds} seeds", lines[spec])
        for name, stream, across in table.figures:
            file = FOLDER / f"{name}.svg"
            file.write_text(_chart(name, table, lines, stream, across).svg(), encoding="utf-8")
            print(f"drawn: {file}")


def _dimension(spec: str) -> str:
    return f"Littlestone dimension {parse_spec(spec).dimension}, delta {DELTA:g}"


def _lines(table: Table) -> dict[str, list[Line]]:
    ways = [*product(table.specs, table.streams, table.rounds, table.epsilons, table.learners)]
    asked = [(*way, table.seeds) for way in ways]
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


def _chart(
    name: str, table: Table, lines: dict[str, list[Line]], stream: str, across: str
) -> Chart:
    """Mistakes against T, epsilon or d, of each learner, with what is needed at least."""
    points: dict[str, list[tuple[float, float]]] = {learner: [] for learner in table.learners}
    for spec, line in [(spec, line) for spec, played in lines.items() for line in played]:
        if line.stream == stream and line.games:
            place = {"T": line.rounds, "epsilon": line.epsilon, "d": parse_spec(spec).dimension}
            points[line.learner].append((place[across], median(g.mistakes for g in line.games)))
    curves = [
        Curve(learner, COLOURS[number], points[learner])
        for number, learner in enumerate(table.learners)
        if points[learner]
    ]
    at = sorted({x for curve in curves for x, _ in curve.points})
    depth = {x: x if across == "d" else parse_spec(table.specs[0]).dimension for x in at}
    curves.append(Curve(FLOOR, SOFT, [(x, depth[x]) for x in at], ":"))
    bounds = [(x, bound) for x in at if (bound := _bound(table, across, x)) is not None]
    curves += [Curve(BOUND, INK, bounds, "--")] if bounds else []
    title = f"Mistakes against {across}, {stream} (median)"
    names = {"T": "horizon T, in rounds", "d": "Littlestone dimension d"}
    label = names.get(across, across)
    return Chart(name, title, label, curves, log_across=across != "d", at=at)


def _bound(table: Table, across: str, x: float) -> float | None:
    epsilon = x if across == "epsilon" else table.epsilons[0]
    rounds = table.rounds[0] if across == "epsilon" else int(x)
    return None if across == "d" else LOWER_BOUND.get(epsilon, {}).get(rounds)


if __name__ == "__main__":
    run()
