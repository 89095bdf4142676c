"""Run learners x streams x seeds, one cell each. A cell can be run anywhere, once.

Promises: the learner of a cell is made where the cell is run, so no mechanism crosses a process;
the same cell has the same key, in every run; what a learner or an adversary does not support is an
error in the result, not the end of the sweep.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from littlestone.lab.adversaries import ADVERSARIES
from littlestone.lab.contenders import contender, is_vacuous
from littlestone.lab.games import play
from littlestone.lab.streams import Stream
from littlestone.lab.transcripts import Point, Transcript
from littlestone.privacy.exact import BadParameter
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.errors import BadClass, BadExample, TooLarge

REFUSALS = (BadClass, BadExample, BadParameter, TooLarge)
FILE = "file:"
"""How the name of a stream begins that is read from a file; a digest of the file follows."""


@dataclass(frozen=True)
class Cell:
    """Describe one learner on one stream with one seed.

    Parameters
    ----------
    cls
        The class, as on the command line.
    learner
        The learner's name.
    stream
        The stream's name.
    rounds
        The number of rounds.
    epsilon
        The privacy budget.
    delta
        The privacy budget.
    seed
        The seed of stream and learner.
    noise
        The share of labels that are flipped.
    tolerance
        The share of mistakes that causes no change.
    version
        Our version.
    """

    cls: str
    learner: str
    stream: str
    rounds: int
    epsilon: float
    delta: float
    seed: int
    noise: float = 0.0
    tolerance: float = 0.0
    version: str = version("littlestone")

    @property
    def key(self) -> str:
        """Return what identifies it among all cells."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, repr=False)
class Result:
    """Hold how a cell came out. Private where the stream is.

    `trouble` is the error, if no game was played; `vacuous` is what the learner's plan said before
    the game.
    """

    cell: Cell
    dimension: int
    rounds: int = 0
    curve: tuple[Point, ...] = ()
    best: int | None = None
    unavoidable: int | None = None
    releases: int = 0
    rule: str = ""
    truth: str | None = None
    guarantee: str = ""
    seconds: float = 0.0
    trouble: str | None = None
    vacuous: bool = False

    def __repr__(self) -> str:
        return f"Result({self.cell.learner} on {self.cell.stream}, private)"

    @property
    def mistakes(self) -> int:
        """Return how many there were in all."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def excess(self) -> int | None:
        """Return the mistakes beyond those of the best fixed rule."""
        return None if self.best is None else self.mistakes - self.best

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
    """Play a cell's game.

    Parameters
    ----------
    cls
        The class.
    cell
        The cell.
    given
        The stream, when it is read from a file.

    Returns
    -------
    Result
        How it came out.

    Examples
    --------
    >>> from littlestone.theory.thresholds import Thresholds
    >>> cell = Cell("thresholds:s:1:7", "soa", "halving", 1000, 1.0, 1e-6, seed=1)
    >>> run_cell(Thresholds(1, 7, column="s"), cell).mistakes
    2
    """
    try:
        game, vacuous = _played(cls, cell, given)
    except REFUSALS as refusal:
        return Result(cell, cls.dimension, trouble=str(refusal))
    return Result(
        cell,
        cls.dimension,
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
    )


def _played(cls: HypothesisClass, cell: Cell, given: Stream | None) -> tuple[Transcript, bool]:
    """Return the game, and whether the learner's plan said that it would learn nothing."""
    if given is None:
        make = ADVERSARIES.get(cell.stream)
        if make is None:
            raise BadParameter(
                f"no stream is called {cell.stream!r}: there are {', '.join(ADVERSARIES)}"
            )
        adversary = make(cls, cell.rounds, cell.seed, cell.noise)
    else:
        adversary = given
    learner = contender(
        cell.learner, cls, cell.epsilon, cell.delta, cell.rounds, cell.seed, cell.tolerance
    )
    game = play(
        learner, adversary, cell.rounds, name=cell.learner, opponent=cell.stream, seed=cell.seed
    )
    return game, is_vacuous(learner)
