"""Play a learner against an adversary, and record the game.

Promises: a game against a stream is played in batches and is the game that round by round would be;
against an adaptive adversary it is played round by round.
"""

import json
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

from littlestone.lab.adversaries import Adaptive, Adversary
from littlestone.lab.hindsight import best_mistakes
from littlestone.lab.streams import Stream
from littlestone.lab.transcripts import Point, Transcript
from littlestone.learning.releases import Release
from littlestone.privacy.accounting import Guarantee
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.hypothesis import Hypothesis

GROWTH = 1.2
"""The factor from one sample of a curve to the next, once they are far apart."""


class Learner(Protocol):
    """Describe what a game needs of a learner."""

    cls: HypothesisClass
    rounds: int

    @property
    def mistakes(self) -> int: ...

    @property
    def hypothesis(self) -> Hypothesis: ...

    @property
    def releases(self) -> tuple[Release, ...]: ...

    @property
    def guarantee(self) -> Guarantee: ...

    def learn_one(self, x: Any, y: Any) -> None: ...

    def learn_many(self, X: Any, y: Any) -> None: ...


def marks(rounds: int) -> list[int]:
    """Return the rounds at which a curve is sampled: all early ones, then ever fewer, and the last.

    >>> marks(20)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19, 20]
    """
    found, at = list[int](), 1
    while at < rounds:
        found.append(at)
        at = max(at + 1, int(at * GROWTH))
    return [*found, rounds] if rounds else []


def play(
    learner: Learner,
    adversary: Adversary,
    rounds: int,
    *,
    name: str = "",
    opponent: str = "",
    seed: int | None = None,
) -> Transcript:
    """Play a game of at most so many rounds.

    Parameters
    ----------
    learner
        The learner, before its first round.
    adversary
        The stream, or the adaptive adversary.
    rounds
        The most rounds.
    name
        The learner's name in the transcript.
    opponent
        The adversary's name in the transcript.
    seed
        The adversary's seed in the transcript.

    Returns
    -------
    Transcript
        The game.

    Examples
    --------
    >>> from littlestone.lab.adversaries import halving
    >>> from littlestone.learning.plain import SOA
    >>> from littlestone.theory.sets import Sets
    >>> play(SOA(Sets(2)), halving(Sets(2), 10, seed=1), rounds=10).curve[-1]
    (10, 2)
    """
    start = perf_counter()
    if isinstance(adversary, Stream):
        curve = _batched(learner, adversary, rounds)
    else:
        curve = _one_by_one(learner, adversary, rounds)
    seconds = perf_counter() - start
    best, unavoidable = _references(learner.cls, adversary, learner.rounds)
    return Transcript(
        version=_version(),
        learner=name or type(learner).__name__,
        cls=repr(learner.cls),
        plan=_plan_of(learner),
        coins=getattr(learner, "seed", None),
        adversary=opponent or type(adversary).__name__,
        seed=seed,
        rounds=learner.rounds,
        curve=tuple(curve),
        releases=learner.releases,
        truth=adversary.truth,
        best=best,
        unavoidable=unavoidable,
        guarantee=str(learner.guarantee),
        seconds=seconds,
    )


def _version() -> str:
    """Return our version; imported here, because `importlib.metadata` is slow to import."""
    from importlib.metadata import version

    return version("littlestone")


def _plan_of(learner: Learner) -> dict[str, Any] | None:
    """Return the constants of a learner that has a plan, as they come back from JSON."""
    plan = getattr(learner, "plan", None)
    if plan is None:
        return None
    data: dict[str, Any] = json.loads(json.dumps(plan.to_json()))
    return data


def _batched(learner: Learner, stream: Stream, rounds: int) -> list[Point]:
    curve = list[Point]()
    for start, stop in pairwise([0, *marks(min(rounds, len(stream)))]):
        part = stream.part(start, stop)
        learner.learn_many(part.batch, part.answers)
        curve.append((stop, learner.mistakes))
    return curve


def _one_by_one(learner: Learner, adversary: Adaptive, rounds: int) -> list[Point]:
    curve, sampled, done = list[Point](), set(marks(rounds)), 0
    while done < rounds:
        move = adversary.challenge(learner.hypothesis)
        if move is None:
            break
        learner.learn_one(*move)
        done += 1
        if done in sampled:
            curve.append((done, learner.mistakes))
    if done and (not curve or curve[-1][0] < done):
        curve.append((done, learner.mistakes))
    return curve


def _references(
    cls: HypothesisClass, adversary: Adversary, rounds: int
) -> tuple[int | None, int | None]:
    """Return the mistakes of the best fixed rule, and of the targets.

    An adaptive adversary is realizable: none.
    """
    if not isinstance(adversary, Stream):
        return 0, 0
    played = adversary.part(0, rounds)
    return best_mistakes(cls, played), played.unavoidable
