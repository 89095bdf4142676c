"""Play a learner against an adversary, and record the game.

Promises: a game against a stream is played in batches and is the game that round by round would be;
against an adaptive adversary it is played round by round. A `Transcript` goes to JSON and back.

The mistakes of the best fixed rule are exact for points, sets and rules, by counting values, and
for finite classes whose rules can be tried on every distinct row. For other classes they are those
of the best target of the stream.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Sets
from littlestone._display import facts, library_version, side_by_side
from littlestone._hypotheses.rows import Batch, Column, column_of, part_of
from littlestone._hypotheses.rules import NEVER, Hypothesis, rule_from_json
from littlestone._hypotheses.values import key_of
from littlestone._learners.base import Release, Releases
from littlestone._plots import plot_private
from littlestone._privacy.accounting import Guarantee
from littlestone._simulate.adversaries import Adaptive, Adversary
from littlestone._simulate.streams import Stream
from littlestone.errors import TooLarge

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A number of rounds, and the mistakes made in them.
Mistakes = tuple[int, int]


@dataclass(frozen=True, repr=False)
class Transcript:
    """Hold a game and its provenance. Private, as it counts mistakes: it does not print."""

    version: str
    learner: str
    cls: str
    plan: Mapping[str, Any] | None
    learner_seed: int | None
    adversary: str
    seed: int | None
    rounds: int
    curve: tuple[Mistakes, ...]
    releases: tuple[Release, ...]
    truth: Hypothesis | None
    best: int | None
    unavoidable: int | None
    guarantee: str
    seconds: float
    missed: int | None = None

    def __repr__(self) -> str:
        return f"Transcript({self.learner} against {self.adversary}, private)"

    def _repr_html_(self) -> str:
        fields = {
            "learner": self.learner,
            "against": self.adversary,
            "class": self.cls,
            "rounds": f"{self.rounds:,}",
            "guarantee": self.guarantee,
        }
        note = "what is public; mistakes are private, and do not show"
        releases = Releases(self.releases)._repr_html_()
        return side_by_side([facts("Transcript", fields, note), releases])

    @property
    def mistakes(self) -> int:
        """Return how many there were in all."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def rule(self) -> Hypothesis:
        """Return the rule that is published at the end."""
        return self.releases[-1].rule

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mistakes over the rounds, with a mark where another rule is published. PRIVATE."""
        return plot_private(self.curve, [release.round for release in self.releases[1:]], ax)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; `transcript_from_json` reads it back exactly."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data["curve"] = [list(point) for point in self.curve]
        data["releases"] = [[number, rule.to_json()] for number, rule in self.releases]
        data["truth"] = None if self.truth is None else self.truth.to_json()
        return data


def transcript_from_json(data: Mapping[str, Any]) -> Transcript:
    """Read back what `Transcript.to_json` wrote."""
    truth = data["truth"]
    return Transcript(
        **{
            **data,
            "curve": tuple((rounds, mistakes) for rounds, mistakes in data["curve"]),
            "releases": tuple(Release(n, rule_from_json(rule)) for n, rule in data["releases"]),
            "truth": None if truth is None else rule_from_json(truth),
        }
    )


# Rules times distinct rows that are tried before settling for the targets.
MOST_RULES_TRIED = 20_000_000


def best_mistakes(cls: HypothesisClass, stream: Stream) -> int | None:
    """Return the mistakes of the best fixed rule; None when that would take too long."""
    targets = [rule for rule in (stream.truth, stream.later) if rule is not None]
    # A cause that is seldom positive makes more mistakes than `never`, which is in the class too.
    targets += [NEVER] if isinstance(cls, Causes) else []
    known = [stream.errors(rule) for rule in targets]
    # No rule does better than none, so the search can stop.
    if 0 in known:
        return 0
    positives = int(stream.answers.sum())
    match cls:
        case Sets(k, column):
            return positives - sum(sorted(_gains(stream, column), reverse=True)[:k])
        case Rules(columns):
            return positives - max(0, *(max(_gains(stream, c), default=0) for c in columns))
    tried = _tried(cls, stream)
    return min(known, default=None) if tried is None else tried


def _gains(stream: Stream, column: Column) -> list[int]:
    """Return, for each value that is positive more often than not, by how much."""
    entries = column_of(stream.batch, column)
    seen = Counter(map(key_of, entries[stream.answers].tolist()))
    # Values that are never positive cannot be part of the best rule.
    likely = set(seen)
    for key in map(key_of, entries[~stream.answers].tolist()):
        if key in likely:
            seen[key] -= 1
    return [gain for gain in seen.values() if gain > 0]


def _tried(cls: HypothesisClass, stream: Stream) -> int | None:
    if cls.size is None or not len(stream):
        return None if cls.size is None else 0
    try:
        first, inverse = _distinct(stream.batch)
    except TypeError:
        return None
    if cls.size * len(first) > MOST_RULES_TRIED:
        return None
    rows = part_of(stream.batch, first)
    ones = np.bincount(inverse, weights=stream.answers, minlength=len(first))
    cost = np.bincount(inverse, minlength=len(first)) - 2 * ones
    try:
        rules = cls.hypotheses()
        return int(ones.sum() + min(float(cost[rule.predict(rows)].sum()) for rule in rules))
    except TooLarge:
        return None


def _distinct(batch: Batch) -> tuple[Any, Any]:
    """Return the first of each set of equal rows, and to which set a row belongs."""
    columns = list(batch.values()) if isinstance(batch, dict) else [batch]
    # Column by column: rows of mixed types cannot be compared at once.
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, own = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (own.max() + 1) + own, return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first, inverse


# The factor from one sample of a curve to the next, once they are far apart.
GROWTH = 1.2


class PlayableLearner(Protocol):
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
    """Return the rounds at which a curve is sampled: all early ones, then ever fewer, and the last."""
    found, at = list[int](), 1
    while at < rounds:
        found.append(at)
        at = max(at + 1, int(at * GROWTH))
    return [*found, rounds] if rounds else []


def play(
    learner: PlayableLearner,
    adversary: Adversary,
    rounds: int,
    *,
    name: str = "",
    opponent: str = "",
    seed: int | None = None,
) -> Transcript:
    """Play a game of at most so many rounds."""
    start = perf_counter()
    if isinstance(adversary, Stream):
        curve = _batched(learner, adversary, rounds)
    else:
        curve = _one_by_one(learner, adversary, rounds)
    # The references below are not part of the learner's time.
    seconds = perf_counter() - start
    best, unavoidable = _references(learner.cls, adversary, learner.rounds)
    return Transcript(
        version=library_version(),
        learner=name or type(learner).__name__,
        cls=repr(learner.cls),
        plan=_plan_of(learner),
        learner_seed=getattr(learner, "seed", None),
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
        missed=_missed(adversary, learner.releases, learner.rounds),
    )


def _missed(adversary: Adversary, releases: tuple[Release, ...], rounds: int) -> int | None:
    """Return how many positives of a stream the published rules missed."""
    if not isinstance(adversary, Stream):
        return None
    missed = 0
    ends = [*(release.round - 1 for release in releases[1:]), rounds]
    for (first, rule), end in zip(releases, ends, strict=True):
        part = adversary.part(min(first - 1, rounds), min(end, rounds))
        missed += int((part.answers & ~rule.predict(part.batch)).sum()) if len(part) else 0
    return missed


def _plan_of(learner: PlayableLearner) -> dict[str, Any] | None:
    """Return the constants of a learner that has a plan, as they come back from JSON."""
    plan = getattr(learner, "plan", None)
    if plan is None:
        return None
    # Through JSON, so that a transcript equals the one that is read back.
    data: dict[str, Any] = json.loads(json.dumps(plan.to_json()))
    return data


def _batched(learner: PlayableLearner, stream: Stream, rounds: int) -> list[Mistakes]:
    curve = list[Mistakes]()
    # Batches end where the curve is sampled; what is published does not depend on them.
    for start, stop in pairwise([0, *marks(min(rounds, len(stream)))]):
        part = stream.part(start, stop)
        learner.learn_many(part.batch, part.answers)
        curve.append((stop, learner.mistakes))
    return curve


def _one_by_one(learner: PlayableLearner, adversary: Adaptive, rounds: int) -> list[Mistakes]:
    curve, sampled, done = list[Mistakes](), set(marks(rounds)), 0
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
    """Return the mistakes of the best fixed rule, and of the targets."""
    if not isinstance(adversary, Stream):
        return 0, 0
    played = adversary.part(0, rounds)
    return best_mistakes(cls, played), played.unavoidable
