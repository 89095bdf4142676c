"""The plane that the pictures of a report are drawn on: one axis of rounds, and values upwards.

Promises: pictures with equal axes put a round at the same place, and no value from 0 to `top` is
drawn outside the plane. Scaling and nothing else.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from littlestone.edge.markup import Markup, element, joined

WIDTH, LEFT, RIGHT = 760, 56, 740
CEILING, FLOOR = 10, 24
"""The room above a plane, and below it for the numbers of the rounds."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """Rounds from left to right; with `log`, equal steps multiply the rounds by equal factors."""

    rounds: int
    log: bool

    @property
    def name(self) -> str:
        return "log" if self.log else "linear"

    @property
    def end(self) -> int:
        return max(self.rounds, 10)

    def x(self, number: int) -> float:
        """Where a round is."""
        number = min(max(number, int(self.log)), self.end)
        share = math.log(number) / math.log(self.end) if self.log else number / self.end
        return round(LEFT + share * (RIGHT - LEFT), 1)

    def ticks(self) -> list[int]:
        """The rounds that have a number."""
        powers = len(str(self.end))
        tens = [10**power for power in range(0, powers, math.ceil(powers / 10))]
        found = tens if self.log else ticks(self.end, 6)
        return found + [self.end] * (self.x(found[-1]) + 48 < RIGHT)


@dataclass(frozen=True)
class Plane:
    """Where a round and a value meet. `top` None: bands instead of values."""

    axis: Axis
    top: int | None = None
    height: float = 150

    @property
    def base(self) -> float:
        return CEILING + self.height

    def y(self, value: int) -> float:
        """Where a value is: 0 at the base, `top` at the ceiling."""
        return round(self.base - self.height * value / (self.top or 1), 1)

    def levels(self) -> list[int]:
        """The values that have a line: round ones, and the top, which makes room for itself."""
        if self.top is None:
            return []
        return [tick for tick in ticks(self.top, 5) if tick <= 0.85 * self.top] + [self.top]


def picture(plane: Plane, name: str, title: str, words: str, marks: Iterable[Markup]) -> Markup:
    """Marks on their plane, with its grid and what they say to a person who cannot see them."""
    ident = f"{name}-{plane.axis.name}"
    return element(
        "svg",
        element("title", title, id=f"{ident}-title"),
        element("desc", words, id=f"{ident}-desc"),
        joined(_rounds(plane)),
        joined(_levels(plane)),
        *marks,
        role="img",
        aria_labelledby=f"{ident}-title",
        aria_describedby=f"{ident}-desc",
        viewBox=f"0 0 {WIDTH} {plane.base + FLOOR:g}",
        class_=plane.axis.name,
    )


def _rounds(plane: Plane) -> Iterator[Markup]:
    numbers, base = plane.axis.ticks(), plane.base
    for number, written in zip(numbers, shortened(numbers), strict=True):
        x = plane.axis.x(number)
        yield element("line", class_="grid", x1=x, x2=x, y1=CEILING, y2=f"{base + 4:g}")
        yield element("text", written, class_="tick", x=x, y=f"{base + 18:g}")


def _levels(plane: Plane) -> Iterator[Markup]:
    levels = plane.levels()
    for level, written in zip(levels, shortened(levels), strict=True):
        y = plane.y(level)
        yield element("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y)
        yield element("text", written, class_="level", x=LEFT - 8, y=round(y + 4, 1))


def steps(points: Sequence[Point]) -> str:
    """The path that holds each value until the next is known.

    >>> steps([(56, 90), (60, 90), (70, 40), (80, 20)])
    'M56 90H70V40H80V20H80'
    """
    path = [f"M{x:g} {y:g}" for x, y in points[:1]]
    for (_, before), (x, after) in pairwise(points):
        if after != before:
            path.append(f"H{x:g}V{after:g}")
    return "".join([*path, *(f"H{x:g}" for x, _ in points[-1:])])


def slopes(points: Sequence[Point]) -> str:
    """The path straight from value to value: for what grows between samples.

    >>> slopes([(56, 90), (60, 90), (70, 40)])
    'M56 90L60 90L70 40'
    """
    return "".join(f"{'L' if n else 'M'}{x:g} {y:g}" for n, (x, y) in enumerate(points))


def area(path: str, points: Sequence[Point], base: float) -> str:
    """The path around what lies between a path through the points and the base."""
    return f"{path}V{base:g}H{points[0][0]:g}Z" if points else ""


def ticks(end: int, most: int) -> list[int]:
    """Round numbers from 0 to `end`, in at most `most` steps.

    >>> ticks(400_000, 6), ticks(83, 5), ticks(1, 5)
    ([0, 100000, 200000, 300000, 400000], [0, 20, 40, 60, 80], [0, 1])
    """
    ten = 10 ** max(0, len(str(end)) - 2)
    step = next(ten * by for by in (1, 2, 5, 10, 20, 50, 100) if end <= ten * by * most)
    return list(range(0, end + 1, step))


def shortened(values: Sequence[int]) -> list[str]:
    """Numbers for an axis: all in full, or in thousands and millions if one of them is long.

    >>> shortened([0, 50_000]), shortened([0, 500_000, 1_000_000])
    (['0', '50,000'], ['0', '500k', '1M'])
    """
    long = max(values, default=0) >= 100_000
    return [_short(value) if long else f"{value:,}" for value in values]


def _short(value: int) -> str:
    for size, unit in ((10**9, "bn"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:,.4g}{unit}"
    return str(value)
