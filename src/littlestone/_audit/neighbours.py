"""Make neighbouring streams on which a leak shows most, from public things: class, plan, seed.

One replaced round moves the monitor's count by one and one vote by one. The worlds differ most
where both are at their thresholds: the count just reaches its threshold at a check, and the votes
are so many that the leader is released about as often as not. So a stream is played against a
forest with the same random bits: one mistake again and again up to those votes, then mistakes that
do not change the votes.

For private experts, two kinds of rows that the first rule gets wrong are mixed so that the rules
which are right on the replaced one are drawn with a probability that a flipped label moves most.
The laws of the draw and of one check at the threshold are known (Theorems 3 and 6), so the mix is
computed.

For causes, positives of one cause, as many as let the draw name it about as often as not, come
among positives of causes of their own, up to the threshold. The replaced one becomes a negative.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._audit.audit import NULL, Neighbours, Row, critical_votes, separation
from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes, Ranges
from littlestone._data.rounds import Rounds
from littlestone._data.schema import user_numbers
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.experts import ExpertsPlan
from littlestone._learners.forest import Forest, Routes
from littlestone._learners.plan import Plan
from littlestone._learners.rate_to_beat import RateToBeat, weights_of
from littlestone._learners.registry import LEARNERS
from littlestone._learners.scores import MistakeCounts, mistake_counts
from littlestone._learners.tuning import Climb
from littlestone._privacy.causes import EpochTerms, Weights
from littlestone._privacy.parameters import BadParameter
from littlestone.errors import BadExample

# How many different mistaken examples are tried.
KINDS = 16
LONGEST_STREAM = 2000


def for_forests(cls: HypothesisClass, plan: Plan, seed: int) -> list[Neighbours]:
    """Return neighbours for DPSOA."""
    mistaken = list(islice(_mistaken_examples(cls, _first_rule(cls)), KINDS))
    if not mistaken:
        raise BadParameter(f"{cls!r} has no example that its first rule gets wrong")
    counts = dict.fromkeys([critical_votes(plan, times=2), critical_votes(plan), 1])
    reached = (votes for votes in counts if votes <= plan.trees)
    streams = {votes: _Played(cls, plan, seed, mistaken, votes).stream() for votes in reached}
    pairs = [
        Neighbours(_what(at, votes), stream, _flip_label(stream, at), plan.check_every)
        for votes, stream in streams.items()
        if (at := _deciding_round(cls, plan, seed, stream)) is not None
    ]
    if not pairs:
        raise BadParameter("no stream was found on which one round moves a vote of this plan")
    return pairs


def _what(at: int, votes: int) -> str:
    alone = "a single vote" if votes == 1 else f"one of {votes} votes"
    return f"the label of round {at + 1:,} is flipped: {alone}"


def _flip_label(stream: Sequence[Row], at: int) -> tuple[Row, ...]:
    """Return the stream with one label flipped."""
    x, y = stream[at]
    return (*stream[:at], (x, not y), *stream[at + 1 :])


class _Played:
    """Play a stream against the forest of a plan, which never fires here, and the first rule."""

    def __init__(
        self, cls: HypothesisClass, plan: Plan, seed: int, mistaken: Sequence[Row], votes: int
    ) -> None:
        self.rule, self.plan, self.votes = _first_rule(cls), plan, votes
        self.forest = _initial_forest(cls, plan, seed)
        self.mistaken = mistaken
        self.rows: list[Row] = []
        self.mistakes = 0

    def stream(self) -> tuple[Row, ...]:
        """Return rows up to the check at which the threshold is reached."""
        every = self.plan.check_every
        # A threshold that is never reached must not make an endless stream.
        longest = min(self.plan.horizon, max(LONGEST_STREAM, every))
        while len(self.rows) < longest and (len(self.rows) % every or not self._there()):
            self._play(NULL if self._there() else self._next())
        return tuple(self.rows)

    def _there(self) -> bool:
        """Return whether the monitor's count is at its threshold at the next check."""
        plan, every = self.plan, self.plan.check_every
        rate = float(plan.epsilon_monitor) / (plan.cap or 1)
        allowed = Climb(plan.thresholds[0], rate, every)
        age = max(every, len(self.rows) + -len(self.rows) % every)
        return bool(self.mistakes >= allowed(age, 0))

    def _next(self) -> Row:
        """Return the leading mistake up to the votes to reach, then one that does not change them."""
        if sum(n for rule, n in self.forest.votes.items() if self._leads(rule)) < self.votes:
            return self.mistaken[0]
        moves = [(row, self._move(row)) for row in self.mistaken]
        harmless = [
            (row, before, after)
            for row, (before, after) in moves
            if self._leads(before) == self._leads(after)
        ]
        return min(harmless, key=lambda move: self._harm(*move[1:]), default=(NULL,))[0]

    def _leads(self, rule: Hypothesis | None) -> bool:
        """Return whether a rule gets the leading mistake right."""
        x, y = self.mistaken[0]
        return rule is not None and rule(x) == y

    def _harm(self, before: Hypothesis | None, after: Hypothesis | None) -> tuple[bool, int]:
        competes = after is not None and after not in (before, self.rule)
        return after == self.rule, self.forest.votes.get(after, 0) + 1 if competes and after else 0

    def _move(self, row: Row) -> tuple[Hypothesis | None, Hypothesis | None]:
        """Return the vote of the tree that the next round reaches, before and after this row."""
        forest, number = self.forest, len(self.rows)
        tree = int(forest.routed(_user_routes(self.plan, [number]))[0][0])
        before, saved = forest.standing[tree], forest.saved(tree)
        # Tried on the tree itself, then undone: the forest has no other way to ask.
        _learn_rounds(forest, self.plan, [row], number)
        after = forest.standing[tree]
        forest.regrow({tree: saved})
        return before, after

    def _play(self, row: Row) -> None:
        _learn_rounds(self.forest, self.plan, [row], len(self.rows))
        self.rows.append(row)
        self.mistakes += row != NULL


def _initial_forest(cls: HypothesisClass, plan: Plan, seed: int) -> Forest:
    """Return the forest of a plan, at its beginning."""
    return Forest(cls, plan.shapes, seed, root="learns", replant=True)


def _learn_rounds(forest: Forest, plan: Plan, rows: Sequence[Row], start: int = 0) -> None:
    """Make a forest learn rounds, each of a user of its own, without the null rounds."""
    labelled = [(number, x, y) for number, (x, y) in enumerate(rows, start) if y is not None]
    if labelled:
        numbers, xs, ys = map(list, zip(*labelled, strict=True))
        forest.learn(Rounds(as_batch(xs), np.array(ys), _user_routes(plan, numbers)))


def _user_routes(plan: Plan, numbers: list[int]) -> Routes:
    """Return what routes rounds to their trees."""
    if plan.unit == "user":
        return user_numbers(numbers)
    return np.array(numbers)


def _deciding_round(
    cls: HypothesisClass, plan: Plan, seed: int, stream: Sequence[Row]
) -> int | None:
    """Return the first round whose flipped label leaves the leader with a vote less at the end."""
    x, y = next(row for row in stream if row != NULL)

    def held(rows: Sequence[Row]) -> int:
        forest = _initial_forest(cls, plan, seed)
        _learn_rounds(forest, plan, rows)
        return sum(votes for rule, votes in forest.votes.items() if rule(x) == y)

    # A flipped label may leave the votes alone: then the pair would show nothing.
    whole = held(stream)
    places = (at for at, row in enumerate(stream) if row == (x, y))
    return next((at for at in places if held(_flip_label(stream, at)) < whole), None)


def _mistaken_examples(cls: HypothesisClass, rule: Hypothesis) -> Iterator[Row]:
    """Yield examples that the first rule gets wrong and another rule right."""
    points = list(cls.finite_core()[1])
    for _ in range(KINDS):
        for x in points:
            try:
                learned = cls.learn(cls.start(), x, not rule(x))
            except BadExample:
                continue
            if cls.hypothesis(learned) is not None:
                yield x, not rule(x)
        # The core has few points: vary them, so that mistakes of several kinds are tried.
        points = [_next(x) for x in points]


def _next(x: Any) -> Any:
    """Return another example, which the class may or may not be able to read."""
    if isinstance(x, dict):
        return {name: _next(value) for name, value in x.items()}
    return x + "'" if isinstance(x, str) else x + 1


def with_a_null_round(rule: Hypothesis, rows: Sequence[Row], every: int = 1) -> Neighbours:
    """Return a stream, and the same without the first example that the first rule gets wrong."""
    wrong = (n for n, (x, y) in enumerate(rows) if y is not None and rule(x) != y)
    at = next(wrong, None)
    if at is None:
        raise BadParameter(
            "the first rule is right on every row: the two streams would be the same to it"
        )
    other = (*rows[:at], NULL, *rows[at + 1 :])
    return Neighbours(f"row {at + 1:,} is a null round", tuple(rows), other, every)


def _first_rule(cls: HypothesisClass) -> Hypothesis:
    """Return the rule before any example."""
    rule = cls.hypothesis(cls.start())
    if rule is None:
        raise BadParameter(f"{cls!r} has no rule before any example")
    return rule


MOST_DOMAIN_POINTS = 12
# How much of the other rows is like the replaced one.
SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
LONGEST_SCORED = 400


class _Mix(NamedTuple):
    """Hold a stream whose first row is the replaced one, and how well it separates two worlds."""

    merit: float
    stream: tuple[Row, ...]


def for_experts(cls: HypothesisClass, plan: ExpertsPlan, seed: int) -> list[Neighbours]:
    """Return the mix that shows most, if the draws spent twice their epsilon."""
    rule = LEARNERS["experts"].make(cls, plan, seed=seed).hypothesis
    points = list(cls.finite_core()[1])
    spread = points[:: max(1, len(points) // MOST_DOMAIN_POINTS)]
    rows: list[Row] = [(x, not rule(x)) for x in spread]
    if not rows:
        raise BadParameter(f"{cls!r} has no example that its first rule gets wrong")
    best = max(_mixes(mistake_counts(cls), plan, rows), key=lambda mix: mix.merit)
    # Null rounds up to the next check: nothing is published in between.
    pad = (NULL,) * (-len(best.stream) % plan.check_every)
    stream = (*best.stream, *pad)[: plan.horizon]
    what = "the label of round 1 is flipped"
    return [Neighbours(what, stream, _flip_label(stream, 0), plan.check_every)]


def _mixes(counted: MistakeCounts, plan: ExpertsPlan, rows: Sequence[Row]) -> Iterator[_Mix]:
    count = _mistakes(plan)
    claimed, rate = float(plan.epsilon), float(plan.epsilon_selector)
    # The chances of a firing at the threshold, with and without the round, at twice the epsilon.
    fires = 1 / (1 + math.exp(-2 * float(plan.epsilon_monitor)))
    holds = 1 - fires
    for row, other, share in product(rows, rows, SHARES):
        alike = round(share * (count - 1))
        stream = (row, *(row,) * alike, *(other,) * (count - 1 - alike))
        right = _mistakes_of(counted, [row]) == 0
        p, q = (
            _drawn(_mistakes_of(counted, world), rate, right)
            for world in (stream, _flip_label(stream, 0))
        )
        yield _Mix(separation(fires * p, holds * q, claimed), stream)


def _mistakes(plan: ExpertsPlan) -> int:
    """Return as many mistakes as reach the first threshold at the age that they take."""
    schedule = plan.schedule()
    count, every = plan.threshold, plan.check_every
    while count < min(schedule(count + -count % every, 0), plan.horizon):
        count += 1
    return count


def _mistakes_of(counted: MistakeCounts, rows: Sequence[Row]) -> npt.NDArray[np.int64]:
    xs, ys = map(list, zip(*rows, strict=True))
    counted.restart(counted.rule(0))
    counted.learn(counted.index(as_batch(xs)), np.array(ys))
    return counted.mistakes.copy()


def _drawn(mistakes: npt.NDArray[np.int64], rate: float, right: npt.NDArray[np.bool_]) -> float:
    """Return the probability that a rule that is `right` is drawn, at twice the epsilon."""
    # Twice the epsilon: the pair is chosen to reveal a learner that overspends.
    weights = np.exp(-rate * (mistakes - mistakes.min()))
    return float(weights[right].sum() / weights.sum())


def for_causes(cls: HypothesisClass, plan: CausesPlan) -> list[Neighbours]:
    """Return positives of one cause among others, up to the threshold; one becomes a negative."""
    if not isinstance(cls, Causes) or all(isinstance(c, Ranges) for c in cls.columns):
        raise BadParameter(f"{cls!r} has no column of text: no neighbours are known for it")
    beat = RateToBeat(plan.baseline, plan.units, float(plan.given_rate))
    # The first window has no positive, so that the least rate is to be beaten.
    beat.begin(0.0)
    terms = plan.terms(beat.cost)
    weights = weights_of(beat.cost, terms.swing, plan.units)
    # Below the threshold, so that the shift by one costs the monitor its whole epsilon.
    missed = plan.limit(terms, beat, 0, Fraction(0)).most // weights.positive
    alike = min(missed, _positives_of_a_cause(plan, terms, weights))
    start = plan.first_window
    rows: list[Row] = [(_row_of_its_own(cls, number), False) for number in range(start)]
    rows += [(_row_of_its_own(cls, start + number, "k"), True) for number in range(alike)]
    rows += [(_row_of_its_own(cls, start + number), True) for number in range(alike, missed)]
    # Null rounds up to the next check: nothing is published in between.
    rows += [NULL] * (-len(rows) % plan.check_every)
    if len(rows) > plan.horizon:
        raise BadParameter(f"a horizon of {plan.horizon} is too short for a firing: plan for more")
    stream = tuple(rows)
    what = f"the label of round {start + 1:,} is flipped"
    return [Neighbours(what, stream, _flip_label(stream, start), plan.check_every)]


def _row_of_its_own(cls: Causes, number: int, first: str | None = None) -> dict[str, object]:
    """Return a row whose text is its own, but for that of the first column of text."""
    row: dict[str, object] = {
        c.column if isinstance(c, Ranges) else c: c.number(number % c.cells)
        if isinstance(c, Ranges)
        else f"v{number}"
        for c in cls.columns
    }
    if first is not None:
        row[next(c for c in cls.columns if isinstance(c, str))] = first
    return row


def _positives_of_a_cause(plan: CausesPlan, terms: EpochTerms, weights: Weights) -> int:
    """Return how many positives of a cause show most, if the draw spent twice its rate."""
    rate, claimed = 2 * float(terms.rate), float(plan.epsilon)
    fires = 1 / (1 + math.exp(-2 * float(terms.monitor)))
    least = math.log(float(plan.budget.delta * plan.prior[0]))
    gain, loss = (weight / plan.units for weight in weights)

    def merit(count: int) -> float:
        # With all of them, and with a negative instead of one.
        nets = gain * (count - 1), gain * (count - 2) - loss
        p, q = (1 / (1 + math.exp(-least - rate * net)) for net in nets)
        return separation(fires * p, (1 - fires) * q, claimed)

    return max(range(2, 4 + math.ceil((10 - least) / (rate * gain))), key=merit)
