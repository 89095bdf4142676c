"""Play a learner against an adversary, and record the game.

Promises: a game against a stream is played in batches and is the game that round by round would be;
against an adaptive adversary it is played round by round.

The mistakes of the best fixed rule are exact for points, sets and rules, by counting values, and
for finite classes whose rules can be tried on every distinct row. For other classes they are those
of the best target of the stream.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Sets
from littlestone._hypotheses.rows import Batch, Column, column_of, part_of
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._hypotheses.values import key_of
from littlestone._learners.base import PrivateLearner, Release
from littlestone._learners.plan_table import AUTO_RATE
from littlestone._learners.rate_to_beat import CERTAIN, LEAST_RATE, LIFT, odds
from littlestone._learners.registry import Terms, make_learner
from littlestone._learners.soa import SOA, Halving
from littlestone._plots import plot_private
from littlestone._privacy.parameters import BadParameter, Real
from littlestone._simulate.adversaries import Adaptive, Adversary, adversary_of
from littlestone._simulate.streams import Stream
from littlestone.errors import BadClass, BadExample, TooLarge

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Playable = PrivateLearner | SOA | Halving
# A number of rounds, and the mistakes made in them.
Mistakes = tuple[int, int]


@dataclass(frozen=True, repr=False)
class Transcript:
    """Hold a game. Private, as it counts mistakes: it does not print."""

    learner: str
    adversary: str
    rounds: int
    curve: tuple[Mistakes, ...]
    releases: tuple[Release, ...]
    truth: Hypothesis | None
    best: float | None
    unavoidable: int | None
    missed: int | None
    guarantee: str
    seconds: float
    # What a false alarm costs, in missed positives.
    alarm_cost: float = 1.0

    def __repr__(self) -> str:
        return f"Transcript({self.learner} against {self.adversary}, private)"

    @property
    def mistakes(self) -> int:
        """Return how many there were in all."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def cost(self) -> float:
        """Return what the mistakes cost, in missed positives."""
        return self.mistakes - (1 - self.alarm_cost) * (self.mistakes - (self.missed or 0))

    @property
    def rule(self) -> Hypothesis:
        """Return the rule that is published at the end."""
        return self.releases[-1].rule

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mistakes over the rounds, with a mark where another rule is published. PRIVATE."""
        return plot_private(self.curve, [release.round for release in self.releases[1:]], ax)


# Rules times distinct rows that are tried before settling for the targets.
MOST_RULES_TRIED = 20_000_000


def best_mistakes(cls: HypothesisClass, stream: Stream) -> int | None:
    """Return the mistakes of the best fixed rule; None when that would take too long."""
    errors = [stream.errors(rule) for rule in stream.targets]
    # No rule does better than none, so the search can stop.
    if 0 in errors:
        return 0
    positives = int(stream.answers.sum())
    match cls:
        case Sets(k, column):
            return positives - sum(sorted(_gains(stream, column), reverse=True)[:k])
        case Rules(columns):
            return positives - max(0, *(max(_gains(stream, c), default=0) for c in columns))
    tried = _tried(cls, stream)
    return min(errors, default=None) if tried is None else tried


def alarm_cost(stream: Stream, min_rate: Real | str = AUTO_RATE) -> float:
    """Return what a false alarm costs where causes are looked for: the odds of the rate to beat.

    Where no rate is given, it is the one that a learner would follow if it knew the base rate.
    """
    if not isinstance(min_rate, str):
        return odds(float(min_rate))
    unmatched = ~np.any([rule.predict(stream.batch) for rule in stream.targets or [NEVER]], axis=0)
    base = float(stream.answers[unmatched].mean()) if unmatched.any() else 0.0
    return max(odds(float(LEAST_RATE)), LIFT * odds(min(base, CERTAIN)))


def _best_cost(stream: Stream, each: float) -> float:
    """Return the cost of the best of the targets and of publishing nothing."""
    rules = [NEVER, *stream.targets]
    missed = [int((stream.answers & ~rule.predict(stream.batch)).sum()) for rule in rules]
    return min(
        each * stream.errors(rule) + (1 - each) * count
        for rule, count in zip(rules, missed, strict=True)
    )


def _gains(stream: Stream, column: Column) -> list[int]:
    """Return, for each value that is positive more often than not, by how much."""
    entries = column_of(stream.batch, column, "value")
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
        _, inner = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (inner.max() + 1) + inner, return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first, inverse


# The factor from one sample of a curve to the next, once they are far apart.
GROWTH = 1.2


def marks(rounds: int) -> list[int]:
    """Return the rounds at which a curve is sampled: all early ones, then ever fewer, and the last."""
    marks, number = list[int](), 1
    while number < rounds:
        marks.append(number)
        number = max(number + 1, int(number * GROWTH))
    return [*marks, rounds] if rounds else []


def play(
    learner: Playable,
    adversary: Adversary,
    rounds: int,
    *,
    name: str = "",
    opponent: str = "",
    min_rate: Real | str = AUTO_RATE,
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
    each = 1.0
    if isinstance(adversary, Stream) and isinstance(learner.cls, Causes):
        played = adversary.part(0, learner.rounds)
        each = alarm_cost(played, min_rate)
        best = _best_cost(played, each)
    return Transcript(
        learner=name or type(learner).__name__,
        adversary=opponent or type(adversary).__name__,
        rounds=learner.rounds,
        curve=tuple(curve),
        releases=learner.releases,
        truth=adversary.truth,
        best=best,
        unavoidable=unavoidable,
        missed=_missed(adversary, learner.releases, learner.rounds),
        guarantee=str(learner.guarantee),
        seconds=seconds,
        alarm_cost=each,
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


def _batched(learner: Playable, stream: Stream, rounds: int) -> list[Mistakes]:
    curve = list[Mistakes]()
    # Batches end where the curve is sampled; what is published does not depend on them.
    for start, stop in pairwise([0, *marks(min(rounds, len(stream)))]):
        part = stream.part(start, stop)
        learner.learn_many(part.batch, part.answers)
        curve.append((stop, learner.mistakes))
    return curve


def _one_by_one(learner: Playable, adversary: Adaptive, rounds: int) -> list[Mistakes]:
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
) -> tuple[float | None, int | None]:
    """Return the mistakes of the best fixed rule, and of the targets."""
    if not isinstance(adversary, Stream):
        return 0, 0
    played = adversary.part(0, rounds)
    return best_mistakes(cls, played), played.unavoidable


# What a learner or an adversary does not support: a line of a comparison says so.
REFUSALS = (BadClass, BadExample, BadParameter, TooLarge)


@dataclass(frozen=True)
class Line:
    """Hold the games of one learner on one stream, a seed each, or why there are none."""

    stream: str
    rounds: int
    epsilon: float
    learner: str
    games: Sequence[Transcript] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON data: medians over the seeds, null where they are not known."""
        about = {
            "stream": self.stream,
            "rounds": self.rounds,
            "epsilon": self.epsilon,
            "learner": self.learner,
        }
        if self.error:
            return {**about, "error": self.error}
        games = self.games
        return {
            **about,
            "seeds": len(games),
            "median": median(game.cost for game in games),
            "worst": max(game.cost for game in games),
            "missed": _median(game.missed for game in games),
            "alarms": _median(
                g.mistakes - g.missed if g.missed is not None else None for g in games
            ),
            "excess": _median(g.cost - g.best if g.best is not None else None for g in games),
            "releases": median(len(game.releases) - 1 for game in games),
            "per_second": median(game.rounds / max(game.seconds, 1e-9) for game in games),
            "rules": [str(game.rule) for game in games],
        }


def _median(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


def play_line(stream: str, learner: str, terms: Terms, seeds: int, noise: float) -> Line:
    """Play a learner on a stream, once for each seed of the stream and of its public random bits."""
    games, error = list[Transcript](), ""
    try:
        for seed in range(1, seeds + 1):
            adversary = adversary_of(stream)(terms.cls, terms.horizon, seed, noise)
            player = make_learner(learner, terms, seed=seed)
            rounds, rate = terms.horizon, terms.min_rate
            games.append(
                play(player, adversary, rounds, name=learner, opponent=stream, min_rate=rate)
            )
    except REFUSALS as refusal:
        error = str(refusal)
    return Line(stream, terms.horizon, float(terms.epsilon), learner, games, error)
