"""Draw a comparison of learners: mistakes against t, against T, against epsilon and against d.

A figure is there when the results have more than one place to draw. A learner has one colour in all
figures of a comparison; every curve is named in the figure itself, so that it can stand alone.

The floor is the dimension, which a learner without privacy needs at worst; the lower bound is the
one for concentrated private learners at d = 1, drawn where it is known and never elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from littlestone._display import short_number
from littlestone._plots import (
    COLOURS,
    INK,
    LETTERS,
    SOFT,
    new_figure,
    short_numbers,
    style_axes,
    svg_file,
)
from littlestone._simulate.sweeps import (
    LOWER_BOUND,
    Result,
    SummaryLine,
    grouped,
    median_curve,
    summary_lines,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """Hold values at places from left to right."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    line: str = "-"


@dataclass(frozen=True)
class Chart:
    """Hold what a figure shows."""

    name: str
    title: str
    across: str
    curves: Sequence[Curve]
    log_across: bool = True
    at: Sequence[float] = ()
    up: str = "mistakes"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the chart."""
        if ax is None:
            return self.figure().axes[0]
        self._draw(ax)
        ax.legend(fontsize=LETTERS)
        return ax

    def figure(self) -> "Figure":
        """Return the chart as a figure, with the names of its curves below it."""
        figure = new_figure(2.6 + 0.2 * len(self.curves))
        self._draw(style_axes(figure.subplots()))
        figure.legend(loc="outside lower left", frameon=False, fontsize=LETTERS, labelcolor=INK)
        return figure

    def _draw(self, ax: "Axes") -> None:
        for curve in self.curves:
            marker = "o" if len(curve.points) <= 12 and curve.line in ("-", BOUND_LINE) else ""
            ax.plot(
                [x for x, _ in curve.points],
                [y for _, y in curve.points],
                color=curve.colour,
                linestyle=curve.line,
                marker=marker,
                markersize=4,
                label=curve.name,
            )
        self._number_axes(ax)
        ax.set_xlabel(self.across)

    def _number_axes(self, ax: "Axes") -> None:
        tops = [max((y for _, y in curve.points), default=0.0) for curve in self.curves]
        ends = [curve.points[-1][1] for curve in self.curves if curve.points]
        short_numbers(ax.xaxis)
        short_numbers(ax.yaxis)
        top, log_up = max([1.0, *tops]), max([1.0, *tops]) > FAR * max(1.0, min(ends, default=1.0))
        if log_up:
            ax.set_yscale("symlog", linthresh=1)
        # Room above the highest curve, so that it is not cut.
        ax.set_ylim(0, top * (1.6 if log_up else 1.05))
        ax.set_ylabel(f"{self.up} (logarithmic)" if log_up else self.up)
        if self.log_across:
            ax.set_xscale("log")
        if self.at:
            ax.set_xticks(self.at)
        ax.minorticks_off()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda value, _: short_number(value))

    @property
    def words(self) -> str:
        """Say what the chart shows, to people who cannot see it."""
        ends = (
            f"{curve.name}: {curve.points[-1][1]:,.4g} at {curve.points[-1][0]:,.6g}"
            for curve in self.curves
            if curve.points
        )
        return f"{self.title}. {'; '.join(ends)}."

    def svg(self) -> str:
        """Return the chart as the text of an SVG file."""
        return svg_file(self.figure(), self.name, self.words)


# How many times the lowest end the highest value is where a linear axis would hide the lowest.
FAR = 100
FLOOR = "the dimension: needed at worst without privacy"
FILES = {"T": "horizon", "epsilon": "epsilon", "d": "dimension"}
BOUND = "lower bound for concentrated private learners, d = 1"
FLOOR_LINE, BOUND_LINE = ":", "--"


def charts(results: Sequence[Result]) -> list[Chart]:
    """Return all charts that the results have something for."""
    played = [result for result in results if result.error is None]
    names = dict.fromkeys(result.cell.learner for result in results)
    palette = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    return [*_against_t(played, palette), *_against_others(summary_lines(played), played, palette)]


def _against_t(results: Sequence[Result], palette: dict[str, str]) -> Iterator[Chart]:
    """Yield one for each class, stream and epsilon, of the longest games."""
    games: dict[tuple[str, str, float], list[list[Result]]] = {}
    for group in grouped(results):
        cell = group[0].cell
        games.setdefault((cell.cls, cell.stream, cell.epsilon), []).append(group)
    for number, ((spec, stream, epsilon), groups) in enumerate(games.items(), 1):
        longest = max(group[0].cell.rounds for group in groups)
        kept = [group for group in groups if group[0].cell.rounds == longest]
        curves = [
            Curve(g[0].cell.learner, palette[g[0].cell.learner], median_curve(g)) for g in kept
        ]
        delta, dimension = kept[0][0].cell.delta, kept[0][0].dimension
        # A class whose dimension is not known has no such line.
        if dimension is not None:
            curves.append(_floor((1, dimension), (longest, dimension)))
        curves += _bound(epsilon, delta, longest)
        title = f"Mistakes so far, {spec}, {_named(stream)}, epsilon {epsilon:g} (median)"
        # Linear: on a logarithmic axis the first rounds fill the picture, and mistakes seem to grow
        # though the right rule stands.
        yield Chart(f"rounds-{number}", title, "rounds", curves, log_across=False)


def _floor(*points: tuple[float, float]) -> Curve:
    return Curve(FLOOR, SOFT, points, FLOOR_LINE)


def _bound(epsilon: float, delta: float, longest: int) -> list[Curve]:
    known = LOWER_BOUND.get((epsilon, delta), {})
    points = [(float(rounds), value) for rounds, value in known.items() if rounds <= longest]
    return [Curve(BOUND, INK, points, BOUND_LINE)] if points else []


def _named(stream: str) -> str:
    return "your file" if stream.startswith("file:") else stream


def _against_others(
    found: Sequence[SummaryLine], results: Sequence[Result], palette: dict[str, str]
) -> Iterator[Chart]:
    delta = results[0].cell.delta if results else 0.0
    ways: list[tuple[str, str, Callable[..., float], Callable[..., object], bool]] = [
        ("T", "horizon T", lambda line: line.rounds,
         lambda line: (line.cls, line.stream, line.epsilon), True),
        ("epsilon", "epsilon", lambda line: line.epsilon,
         lambda line: (line.cls, line.stream, line.rounds), True),
        ("d", "Littlestone dimension d", lambda line: line.dimension,
         lambda line: (line.stream, line.rounds, line.epsilon), False),
    ]  # fmt: skip
    for name, across, place, same, log in ways:
        groups: dict[object, list[SummaryLine]] = {}
        for line in found:
            if name != "d" or line.dimension is not None:
                groups.setdefault(same(line), []).append(line)
        for number, group in enumerate(groups.values(), 1):
            at = sorted({place(line) for line in group})
            if len(at) > 1:
                curves = [*_by_learner(group, place, palette), *_references(name, group, at, delta)]
                title = f"Mistakes against {name}, {_setting(name, group[0])} (median)"
                yield Chart(f"{FILES[name]}-{number}", title, across, curves, log, at)


def _setting(name: str, line: SummaryLine) -> str:
    parts = {
        "d": None if name == "d" else line.cls,
        "stream": _named(line.stream),
        "T": None if name == "T" else f"T = {line.rounds:,}",
        "epsilon": None if name == "epsilon" else f"epsilon {line.epsilon:g}",
    }
    return ", ".join(part for part in parts.values() if part)


def _by_learner(
    group: Sequence[SummaryLine], place: Callable[[SummaryLine], float], palette: dict[str, str]
) -> Iterator[Curve]:
    for learner, colour in palette.items():
        points = sorted((place(line), line.median) for line in group if line.learner == learner)
        if points:
            yield Curve(learner, colour, points)


def _references(
    name: str, group: Sequence[SummaryLine], at: Sequence[float], delta: float
) -> Iterator[Curve]:
    first = group[0]
    if name == "d":
        yield _floor(*((d, d) for d in at))
        return
    if first.dimension is not None:
        yield _floor((at[0], first.dimension), (at[-1], first.dimension))
    if name == "T":
        known = LOWER_BOUND.get((first.epsilon, delta), {})
        points = [(T, known[int(T)]) for T in at if int(T) in known]
    else:
        points = [
            (epsilon, LOWER_BOUND[epsilon, delta][first.rounds])
            for epsilon in at
            if first.rounds in LOWER_BOUND.get((epsilon, delta), {})
        ]
    if points:
        yield Curve(BOUND, INK, points, BOUND_LINE)
