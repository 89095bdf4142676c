"""The pictures of a comparison: mistakes against t, against T, against epsilon and against d.

A picture is there when the results have more than one place to draw. The floor is the dimension,
which a learner without privacy needs at worst; the lower bound is FIELD's for concentrated private
learners at d = 1, drawn where it is known and never elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence

from littlestone.edge.curves import Chart, Curve, colours
from littlestone.lab.summary import LOWER_BOUND, Line, grouped, lines, median_curve
from littlestone.lab.sweeps import Result

FLOOR = "the dimension: what the best learner without privacy needs at worst"
FILES = {"T": "horizon", "epsilon": "epsilon", "d": "dimension"}
BOUND = "lower bound for concentrated private learners, d = 1"


def charts(results: Sequence[Result]) -> list[Chart]:
    """All pictures that the results have something for."""
    played = [result for result in results if result.trouble is None]
    palette = colours(result.cell.learner for result in results)
    return [*_against_t(played, palette), *_against_others(lines(played), played, palette)]


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
    found: Sequence[Line], results: Sequence[Result], palette: dict[str, str]
) -> Iterator[Chart]:
    delta = results[0].cell.delta if results else 0.0
    ways: list[tuple[str, str, Callable[[Line], float], Callable[[Line], object], bool]] = [
        ("T", "horizon T", lambda line: line.rounds,
         lambda line: (line.cls, line.stream, line.epsilon), True),
        ("epsilon", "epsilon", lambda line: line.epsilon,
         lambda line: (line.cls, line.stream, line.rounds), True),
        ("d", "Littlestone dimension d", lambda line: line.dimension,
         lambda line: (line.stream, line.rounds, line.epsilon), False),
    ]  # fmt: skip
    for name, across, place, same, log in ways:
        groups: dict[object, list[Line]] = {}
        for line in found:
            groups.setdefault(same(line), []).append(line)
        for number, group in enumerate(groups.values(), 1):
            at = sorted({place(line) for line in group})
            if len(at) > 1:
                curves = [*_by_learner(group, place, palette), *_references(name, group, at, delta)]
                title = f"Mistakes against {name}, {_setting(name, group[0])} (median)"
                yield Chart(f"{FILES[name]}-{number}", title, across, curves, log, at)


def _setting(name: str, line: Line) -> str:
    parts = {
        "d": None if name == "d" else line.cls,
        "stream": _named(line.stream),
        "T": None if name == "T" else f"T = {line.rounds:,}",
        "epsilon": None if name == "epsilon" else f"epsilon {line.epsilon:g}",
    }
    return ", ".join(part for part in parts.values() if part)


def _by_learner(
    group: Sequence[Line], place: Callable[[Line], float], palette: dict[str, str]
) -> Iterator[Curve]:
    for learner, style in palette.items():
        points = sorted((place(line), line.median) for line in group if line.learner == learner)
        if points:
            yield Curve(learner, style, points)


def _references(
    name: str, group: Sequence[Line], at: Sequence[float], delta: float
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
