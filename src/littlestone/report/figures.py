"""Curves: several learners in one picture, with the floor and the lower bound drawn in.

Promises: a learner has one colour in all pictures of a comparison; every curve is named in the
picture itself, so that it can stand alone; what is a bound says for whom it holds.

The pictures of a comparison: mistakes against t, against T, against epsilon and against d.

A picture is there when the results have more than one place to draw. The floor is the dimension,
which a learner without privacy needs at worst; the lower bound is FIELD's for concentrated private
learners at d = 1, drawn where it is known and never elsewhere.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from littlestone.display import Markup, element, join_markup
from littlestone.report.html import CEILING, LEFT, RIGHT, WIDTH, shortened, slopes, ticks
from littlestone.simulate.sweeps import (
    LOWER_BOUND,
    Result,
    SummaryLine,
    grouped,
    median_curve,
    summary_lines,
)

HEIGHT, LINE, LETTER = 260.0, 18, 6.4
COLOURS = 6


@dataclass(frozen=True)
class Curve:
    """Values at places from left to right. `style` is a colour of the style sheet, or a reference:
    `floor` and `bound` are dashed."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A picture: what it shows, what runs across, and the curves."""

    name: str
    title: str
    across: str
    curves: Sequence[Curve]
    log_across: bool = True
    at: Sequence[float] = ()
    """The places that have a number; powers of ten when there are none."""


class _Scales:
    """Where a value of a chart is drawn. Upwards it is logarithmic (of 1 + value) when the largest
    value is far above the smallest curve's end."""

    def __init__(self, chart: Chart) -> None:
        xs = [x for curve in chart.curves for x, _ in curve.points] or [1.0]
        ends = [curve.points[-1][1] for curve in chart.curves if curve.points] or [1.0]
        self.log_across = chart.log_across
        self.low, self.high = min(xs), max(xs)
        self.top = max(1.0, *(y for curve in chart.curves for _, y in curve.points), 1.0)
        self.log_up = self.top > 20 * max(1.0, min(ends))

    def x(self, value: float) -> float:
        low, high = self._across(self.low), self._across(self.high)
        share = (self._across(value) - low) / (high - low) if high > low else 0.5
        return round(LEFT + share * (RIGHT - LEFT), 1)

    def y(self, value: float) -> float:
        return round(CEILING + HEIGHT * (1 - self._up(value) / self._up(self.top)), 1)

    def _across(self, value: float) -> float:
        return math.log(max(value, 1e-12)) if self.log_across else value

    def _up(self, value: float) -> float:
        return math.log1p(value) if self.log_up else value

    def levels(self) -> list[int]:
        """The values that have a line."""
        if not self.log_up:
            return [tick for tick in ticks(math.ceil(self.top), 5) if tick <= self.top]
        tens = [10**n for n in range(len(str(int(self.top))))]
        return [0, *tens]

    def places(self, chart: Chart) -> list[float]:
        if chart.at:
            return list(chart.at)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        return [10.0**n for n in powers if self.low <= 10.0**n <= self.high]


def drawn(chart: Chart) -> Markup:
    """The chart as one SVG element that names all of its curves."""
    scales, base = _Scales(chart), CEILING + HEIGHT
    key, height = _key(chart, base + 54)
    return element(
        "svg",
        element("title", chart.title),
        element("desc", words(chart)),
        join_markup(_grid(chart, scales, base)),
        *(mark for curve in chart.curves for mark in _marks(curve, scales)),
        *key,
        role="img",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
    )


def _grid(chart: Chart, scales: _Scales, base: float) -> Iterator[Markup]:
    places = scales.places(chart)
    for place, written in zip(places, _written(places), strict=True):
        x = scales.x(place)
        yield element("line", class_="grid", x1=x, x2=x, y1=CEILING, y2=f"{base + 4:g}")
        yield element("text", written, class_="tick", x=x, y=f"{base + 18:g}")
    middle = (LEFT + RIGHT) / 2
    yield element("text", chart.across, class_="tick", x=f"{middle:g}", y=f"{base + 36:g}")
    for level, written in zip(scales.levels(), shortened(scales.levels()), strict=True):
        y = scales.y(level)
        yield element("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y)
        yield element("text", written, class_="level", x=LEFT - 8, y=round(y + 4, 1))


def _written(places: Sequence[float]) -> list[str]:
    if all(place == int(place) for place in places):
        return shortened([int(place) for place in places])
    return [f"{place:g}" for place in places]


def _marks(curve: Curve, scales: _Scales) -> Iterator[Markup]:
    points = [(scales.x(x), scales.y(y)) for x, y in curve.points]
    title = element("title", curve.name)
    yield element("path", title, class_=f"line {curve.style}-line", d=slopes(points))
    if len(points) <= 12 and curve.style != "floor":
        for x, y in points:
            yield element("circle", class_=curve.style, cx=x, cy=y, r=3)


def _key(chart: Chart, y: float) -> tuple[list[Markup], float]:
    """The names of the curves under the picture, in rows; and where the last row ends."""
    marks, x = list[Markup](), float(LEFT)
    for curve in chart.curves:
        width = 34 + LETTER * len(curve.name) + 18
        if x > LEFT and x + width > RIGHT:
            x, y = float(LEFT), y + LINE
        style = f"line {curve.style}-line"
        marks.append(element("path", class_=style, d=f"M{x:g} {y - 4:g}h26"))
        marks.append(element("text", curve.name, x=f"{x + 34:g}", y=f"{y:g}"))
        x += width
    return marks, y + 8


def words(chart: Chart) -> str:
    """What a chart says to a person who cannot see it."""
    ends = (
        f"{curve.name}: {curve.points[-1][1]:,.4g} at {curve.points[-1][0]:,.6g}"
        for curve in chart.curves
        if curve.points
    )
    return f"{chart.title}. {'; '.join(ends)}."


def standalone(svg: Markup, style: str) -> str:
    """A picture with its style sheet inside, as a file of its own."""
    start, rest = svg.split(">", 1)
    return f"{start}><style>{style}</style>{rest}\n"


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name, by its name in the style sheet."""
    return {name: f"c{number % COLOURS}" for number, name in enumerate(dict.fromkeys(names))}


FLOOR = "the dimension: what the best learner without privacy needs at worst"
FILES = {"T": "horizon", "epsilon": "epsilon", "d": "dimension"}
BOUND = "lower bound for concentrated private learners, d = 1"


def charts(results: Sequence[Result]) -> list[Chart]:
    """All pictures that the results have something for."""
    played = [result for result in results if result.trouble is None]
    palette = colours(result.cell.learner for result in results)
    return [*_against_t(played, palette), *_against_others(summary_lines(played), played, palette)]


def _against_t(results: Sequence[Result], palette: dict[str, str]) -> Iterator[Chart]:
    """One for each class, stream and epsilon, of the longest games."""
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
        curves.append(Curve(FLOOR, "floor", [(1, dimension), (longest, dimension)]))
        curves += _bound(epsilon, delta, longest)
        title = f"Mistakes so far, {spec}, {_named(stream)}, epsilon {epsilon:g} (median)"
        yield Chart(f"rounds-{number}", title, "rounds", curves)


def _bound(epsilon: float, delta: float, longest: int) -> list[Curve]:
    known = LOWER_BOUND.get((epsilon, delta), {})
    points = [(float(rounds), value) for rounds, value in known.items() if rounds <= longest]
    return [Curve(BOUND, "bound", points)] if points else []


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
    for learner, style in palette.items():
        points = sorted((place(line), line.median) for line in group if line.learner == learner)
        if points:
            yield Curve(learner, style, points)


def _references(
    name: str, group: Sequence[SummaryLine], at: Sequence[float], delta: float
) -> Iterator[Curve]:
    first = group[0]
    if name == "d":
        yield Curve(FLOOR, "floor", [(d, d) for d in at])
        return
    yield Curve(FLOOR, "floor", [(at[0], first.dimension), (at[-1], first.dimension)])
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
        yield Curve(BOUND, "bound", points)
