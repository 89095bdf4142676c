"""Run learners x streams x seeds, one cell each, and summarise the cells that differ in seed only.

Promises: the learner of a cell is made where the cell is run, so no mechanism crosses a process;
the same cell has the same key, in every run; what a learner or an adversary does not support is an
error in the result, not the end of the sweep.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from littlestone._classes.base import HypothesisClass
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._learners.registry import LearnerTerms, make_learner
from littlestone._plots import plot_mistakes
from littlestone._privacy.parameters import BadParameter
from littlestone._simulate.adversaries import adversary_of
from littlestone._simulate.games import Mistakes, Transcript, play
from littlestone._simulate.streams import Stream
from littlestone.errors import BadClass, BadExample, TooLarge

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REFUSALS = (BadClass, BadExample, BadParameter, TooLarge)
# How the name of a stream begins that is read from a file; a digest of the file follows.
FILE = "file:"


@dataclass(frozen=True)
class Cell:
    """Describe one learner on one stream with one seed."""

    cls: str
    learner: str
    stream: str
    rounds: int
    epsilon: float
    delta: float
    seed: int
    noise: float = 0.0
    change_cost: float = CHANGE_COST
    version: str = version("littlestone")
    min_rate: float | str = AUTO_RATE

    @property
    def key(self) -> str:
        """Return what identifies it among all cells."""
        # Sorted, so that a key does not depend on the order of the fields.
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, repr=False)
class Result:
    """Hold how a cell came out. Private where the stream is."""

    cell: Cell
    dimension: int | None
    rounds: int = 0
    curve: tuple[Mistakes, ...] = ()
    best: int | None = None
    unavoidable: int | None = None
    releases: int = 0
    rule: str = ""
    truth: str | None = None
    guarantee: str = ""
    seconds: float = 0.0
    error: str | None = None
    vacuous: bool = False
    missed: int | None = None

    def __repr__(self) -> str:
        return f"Result({self.cell.learner} on {self.cell.stream}, private)"

    @property
    def mistakes(self) -> int:
        """Return how many there were in all."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def false_alarms(self) -> int | None:
        """Return the mistakes on negatives, where they are known."""
        return None if self.missed is None else self.mistakes - self.missed

    @property
    def excess(self) -> int | None:
        """Return the mistakes beyond those of the best fixed rule."""
        return None if self.best is None else self.mistakes - self.best

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mistakes over the rounds. PRIVATE where the stream is."""
        return plot_mistakes(self.curve, [], ax, label=self.cell.learner)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; `result_from_json` reads it back."""
        data = asdict(self)
        data["curve"] = [list(point) for point in self.curve]
        return data


def result_from_json(data: Mapping[str, Any]) -> Result:
    """Read back what `Result.to_json` wrote."""
    curve = tuple((rounds, mistakes) for rounds, mistakes in data["curve"])
    return Result(**{**data, "cell": Cell(**data["cell"]), "curve": curve})


def run_cell(cls: HypothesisClass, cell: Cell, given: Stream | None = None) -> Result:
    """Play a cell's game."""
    try:
        game, vacuous = _played(cls, cell, given)
    # One cell that cannot be played must not end a sweep of hours.
    except REFUSALS as refusal:
        return Result(cell, _dimension_of(cls), error=str(refusal))
    return Result(
        cell,
        _dimension_of(cls),
        rounds=game.rounds,
        curve=game.curve,
        best=game.best,
        unavoidable=game.unavoidable,
        releases=len(game.releases) - 1,
        rule=str(game.rule),
        truth=None if game.truth is None else str(game.truth),
        guarantee=game.guarantee,
        seconds=game.seconds,
        vacuous=vacuous,
        missed=game.missed,
    )


def _dimension_of(cls: HypothesisClass) -> int | None:
    """Return the Littlestone dimension of a class, if it is known."""
    try:
        return cls.dimension
    except TooLarge:
        return None


def _played(cls: HypothesisClass, cell: Cell, given: Stream | None) -> tuple[Transcript, bool]:
    """Return the game, and whether the learner's plan said that it would learn nothing."""
    if given is None:
        adversary = adversary_of(cell.stream)(cls, cell.rounds, cell.seed, cell.noise)
    else:
        adversary = given
    terms = LearnerTerms(
        cls=cls,
        epsilon=cell.epsilon,
        delta=cell.delta,
        horizon=cell.rounds,
        change_cost=cell.change_cost,
        min_rate=cell.min_rate,
    )
    learner = make_learner(cell.learner, terms, seed=cell.seed)
    game = play(
        learner, adversary, cell.rounds, name=cell.learner, opponent=cell.stream, seed=cell.seed
    )
    return game, is_vacuous(learner)


def is_vacuous(learner: object) -> bool:
    """Return whether a learner's plan says that its first rule will stand on every stream."""
    return bool(getattr(getattr(learner, "plan", None), "vacuous", False))


# By (epsilon, delta) and rounds: the mistakes that a *concentrated* private learner cannot avoid at
# d = 1, from the recursion of Dmitriev, Szabo and Sanyal 2024, optimised. Not for every learner: a
# random first guess escapes the constant, not the logarithm.
LOWER_BOUND = {
    (1.0, 1e-6): {10**5: 23.8, 10**6: 25.9, 10**7: 27.0},
    (0.5, 1e-6): {10**5: 44.8, 10**6: 46.2, 10**7: 47.0},
    (2.0, 1e-6): {10**5: 12.9, 10**6: 13.9, 10**7: 14.9},
    (1.0, 1e-9): {10**5: 30.7, 10**6: 32.9, 10**7: 34.0},
}


class SummaryLine(NamedTuple):
    """Hold the summary of several seeds of one learner on one stream."""

    cls: str
    dimension: int | None
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
    error: str | None = None
    missed: float | None = None
    false_alarms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return self._asdict()


def _group_of(cell: Cell) -> tuple[str, str, int, float, str]:
    """Return what cells of one line have in common."""
    return cell.cls, cell.stream, cell.rounds, cell.epsilon, cell.learner


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Return the results in groups that differ in their seed only, in the order they came."""
    groups: dict[tuple[str, str, int, float, str], list[Result]] = {}
    for result in results:
        groups.setdefault(_group_of(result.cell), []).append(result)
    return list(groups.values())


def summary_lines(results: Iterable[Result]) -> list[SummaryLine]:
    """Return one line for each group of results, those of one stream together."""
    found = [_line(group) for group in grouped(results)]
    # Groups in the order in which they came first, rounds ascending within.
    places = {(line.cls, line.stream): n for n, line in reversed([*enumerate(found)])}
    return sorted(found, key=lambda line: (places[line.cls, line.stream], line.rounds))


def _line(group: Sequence[Result]) -> SummaryLine:
    cell, played = group[0].cell, [result for result in group if result.error is None]
    line = SummaryLine(
        cell.cls, group[0].dimension, cell.stream, cell.rounds, cell.epsilon, cell.learner
    )
    if not played:
        return line._replace(error=group[0].error)
    excess = [result.excess for result in played if result.excess is not None]
    beyond = [game.mistakes - game.unavoidable for game in played if game.unavoidable is not None]
    missed = [result.missed for result in played if result.missed is not None]
    alarms = [result.false_alarms for result in played if result.false_alarms is not None]
    return line._replace(
        missed=median(missed) if missed else None,
        false_alarms=median(alarms) if alarms else None,
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
