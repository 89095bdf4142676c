"""Summarise the cells of a sweep that differ in their seed only, as one line."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

from littlestone.lab.sweeps import Cell, Result

LOWER_BOUND = {
    (1.0, 1e-6): {10**5: 23.8, 10**6: 25.9, 10**7: 27.0},
    (0.5, 1e-6): {10**5: 44.8, 10**6: 46.2, 10**7: 47.0},
    (2.0, 1e-6): {10**5: 12.9, 10**6: 13.9, 10**7: 14.9},
    (1.0, 1e-9): {10**5: 30.7, 10**6: 32.9, 10**7: 34.0},
}
"""By (epsilon, delta) and rounds: the mistakes that a *concentrated* private learner cannot avoid
at d = 1, from the recursion of Dmitriev, Szabo and Sanyal 2024, optimised. Not for every learner: a
random first guess escapes the constant, not the logarithm."""


class Line(NamedTuple):
    """Hold the summary of several seeds of one learner on one stream.

    `excess` is over the best fixed rule, `beyond_targets` over the targets, each in its time (they
    differ under drift); `trouble` is the error, if no game was played.
    """

    cls: str
    dimension: int
    stream: str
    rounds: int
    epsilon: float
    learner: str
    seeds: int = 0
    median: float = 0.0
    worst: int = 0
    excess: float | None = None
    beyond_targets: float | None = None
    releases: float = 0.0
    per_second: float = 0.0
    trouble: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return self._asdict()


def group_of(cell: Cell) -> tuple[str, str, int, float, str]:
    """Return what cells of one line have in common."""
    return cell.cls, cell.stream, cell.rounds, cell.epsilon, cell.learner


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Return the results in groups that differ in their seed only, in the order they came."""
    groups: dict[tuple[str, str, int, float, str], list[Result]] = {}
    for result in results:
        groups.setdefault(group_of(result.cell), []).append(result)
    return list(groups.values())


def lines(results: Iterable[Result]) -> list[Line]:
    """Return one line for each group of results, those of one stream together."""
    found = [_line(group) for group in grouped(results)]
    places = {(line.cls, line.stream): n for n, line in reversed([*enumerate(found)])}
    return sorted(found, key=lambda line: (places[line.cls, line.stream], line.rounds))


def _line(group: Sequence[Result]) -> Line:
    cell, played = group[0].cell, [result for result in group if result.trouble is None]
    line = Line(cell.cls, group[0].dimension, cell.stream, cell.rounds, cell.epsilon, cell.learner)
    if not played:
        return line._replace(trouble=group[0].trouble)
    excess = [result.excess for result in played if result.excess is not None]
    beyond = [game.mistakes - game.unavoidable for game in played if game.unavoidable is not None]
    return line._replace(
        seeds=len(played),
        median=median(result.mistakes for result in played),
        worst=max(result.mistakes for result in played),
        excess=median(excess) if excess else None,
        beyond_targets=median(beyond) if beyond else None,
        releases=median(result.releases for result in played),
        per_second=median(result.rounds / max(result.seconds, 1e-9) for result in played),
    )


def median_curve(group: Sequence[Result]) -> list[tuple[int, float]]:
    """Return the median of the mistakes at each round at which the curves were sampled."""
    points = sorted(point for result in group for point in result.curve)
    return [
        (rounds, median(mistakes for _, mistakes in some))
        for rounds, some in ((r, [*s]) for r, s in groupby(points, key=lambda point: point[0]))
    ]
