"""The tables of docs/results.md and their figures: some 13 minutes of processor time on two cores.

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
FOLDER = Path("docs/figures")
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
        figures=[("rounds/horizon-2", "halving", "T"), ("rounds/rounds-2", "halving", "t")],
    ),
    Table(
        ["thresholds:x:1:1023"],
        ["dpsoa", "experts", "soa"],
        ["iid", "halving"],
        LONG,
        figures=[("experts/horizon-1", "iid", "T"), ("experts/horizon-2", "halving", "T")],
    ),
    Table(
        ["points:x"],
        ["dpsoa", "soa"],
        ["iid", "halving"],
        [100_000],
        (0.5, 1.0, 2.0),
        figures=[("epsilon/epsilon-2", "halving", "epsilon")],
    ),
    Table(
        CUTS,
        ["dpsoa", "experts", "soa"],
        ["iid", "halving", "mirror"],
        [20_000],
        seeds=10,
        figures=[
            ("dimension/dimension-2", "halving", "d"),
            ("dimension/dimension-3", "mirror", "d"),
        ],
    ),
]


def run() -> None:
    """Play all games, print the tables, draw the figures."""
    for table in TABLES:
        lines = _lines(table)
        for spec in table.specs:
            print_lines(f"{spec}, {_dimension(spec)}, {table.seeds} seeds", lines[spec])
        for path, stream, across in table.figures:
            file = FOLDER / f"{path}.svg"
            file.parent.mkdir(parents=True, exist_ok=True)
            chart = _chart(path.rpartition("/")[2], table, lines, stream, across)
            file.write_text(chart.svg(), encoding="utf-8")
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
    """Mistakes against t, T, epsilon or d, of each learner, with what is needed at least."""
    points: dict[str, list[tuple[float, float]]] = {learner: [] for learner in table.learners}
    for spec, line in [(spec, line) for spec, played in lines.items() for line in played]:
        if line.stream != stream or not line.games:
            continue
        if across == "t" and line.rounds == max(table.rounds):
            points[line.learner] = _curve(line)
        elif across != "t":
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
    names = {"t": "rounds", "T": "horizon T", "d": "Littlestone dimension d"}
    log = across in ("T", "epsilon")
    ticks = () if across == "t" else at
    return Chart(name, title, names.get(across, across), curves, log_across=log, at=ticks)


def _bound(table: Table, across: str, x: float) -> float | None:
    epsilon = x if across == "epsilon" else table.epsilons[0]
    rounds = table.rounds[0] if across == "epsilon" else int(x)
    return None if across == "d" else LOWER_BOUND.get(epsilon, {}).get(rounds)


def _curve(line: Line) -> list[tuple[float, float]]:
    """The median over the seeds, at each round at which the curves were sampled."""
    curves = [game.curve for game in line.games]
    return [(points[0][0], median(y for _, y in points)) for points in zip(*curves, strict=True)]


if __name__ == "__main__":
    run()
