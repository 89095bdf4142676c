"""Make neighbouring streams on which a leak shows most, from public things: class, plan, seed.

One replaced round moves the monitor's count by one and one vote by one. The worlds differ most
where both are at their thresholds: the count just reaches its threshold at a check, and the votes
are so many that the leader is named about as often as not. So a stream is played against a forest
with the same random bits: one mistake again and again up to those votes, then mistakes that leave
the votes alone.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

import numpy as np

from littlestone.lab.runs import NULL, Neighbours, Row
from littlestone.lab.subjects import votes_at_the_rim
from littlestone.learning.forest import Forest, Routes
from littlestone.learning.plan import Plan
from littlestone.learning.rounds import user_numbers
from littlestone.learning.schedule import Schedule
from littlestone.privacy.exact import BadParameter
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.errors import BadExample
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import as_batch

KINDS = 16
"""So many different surprises are tried."""
LONGEST = 2000


def for_forests(cls: HypothesisClass, plan: Plan, seed: int) -> list[Neighbours]:
    """Return neighbours for DPSOA.

    Parameters
    ----------
    cls
        The class.
    plan
        The plan.
    seed
        The seed of the forest.

    Returns
    -------
    list of Neighbours
        With votes at the threshold of twice the epsilon, at that of the epsilon, and a vote alone.

    Raises
    ------
    BadParameter
        If no stream is found.

    Examples
    --------
    >>> from littlestone.theory.sets import Points
    >>> plan = Plan.practical(Points(), epsilon=8, delta=1e-6, horizon=100)
    >>> for pair in for_forests(Points(), plan, seed=0):
    ...     print(pair.what, len(pair.one))
    the label of round 1 is turned round: one of 2 votes 7
    the label of round 1 is turned round: one of 4 votes 7
    the label of round 1 is turned round: a vote that stands alone 7
    """
    surprises = list(islice(surprises_of(cls, first_rule(cls)), KINDS))
    if not surprises:
        raise BadParameter(f"{cls!r} has no example that its first rule gets wrong")
    rims = dict.fromkeys([votes_at_the_rim(plan, times=2), votes_at_the_rim(plan), 1])
    reached = (votes for votes in rims if votes <= plan.trees)
    streams = {votes: _Played(cls, plan, seed, surprises, votes).stream() for votes in reached}
    pairs = [
        Neighbours(_what(at, votes), stream, turned(stream, at), plan.check_every)
        for votes, stream in streams.items()
        if (at := _telling(cls, plan, seed, stream)) is not None
    ]
    if not pairs:
        raise BadParameter("no stream was found on which one round moves a vote of this plan")
    return pairs


def _what(at: int, votes: int) -> str:
    alone = "a vote that stands alone" if votes == 1 else f"one of {votes} votes"
    return f"the label of round {at + 1:,} is turned round: {alone}"


def turned(stream: Sequence[Row], at: int) -> tuple[Row, ...]:
    """Return the stream with one label flipped.

    Parameters
    ----------
    stream
        The rows.
    at
        The index of the row.

    Returns
    -------
    tuple
        The rows.
    """
    x, y = stream[at]
    return (*stream[:at], (x, not y), *stream[at + 1 :])


class _Played:
    """Play a stream against the forest of a plan, which never fires here, and the first rule."""

    def __init__(
        self, cls: HypothesisClass, plan: Plan, seed: int, surprises: Sequence[Row], votes: int
    ) -> None:
        self.rule, self.plan, self.votes = first_rule(cls), plan, votes
        self.forest = planted(cls, plan, seed)
        self.surprises = surprises
        self.rows: list[Row] = []
        self.mistakes = 0

    def stream(self) -> tuple[Row, ...]:
        """Return rows up to the check at which the threshold is reached."""
        every = self.plan.check_every
        longest = min(self.plan.horizon, max(LONGEST, every))
        while len(self.rows) < longest and (len(self.rows) % every or not self._there()):
            self._play(NULL if self._there() else self._next())
        return tuple(self.rows)

    def _there(self) -> bool:
        """Return whether the monitor's count is at its threshold at the next check."""
        plan, every = self.plan, self.plan.check_every
        if plan.monitor == "votes":
            return plan.trees - self.forest.votes.get(self.rule, 0) >= plan.thresholds[-1]
        rate = float(plan.epsilon_monitor) / (plan.cap or 1)
        allowed = Schedule(plan.thresholds[0], rate, every, plan.tolerance)
        age = max(every, len(self.rows) + -len(self.rows) % every)
        return bool(self.mistakes >= allowed(age, 0))

    def _next(self) -> Row:
        """Return the leading mistake up to the votes wanted, then one that leaves them alone.

        The latter makes no rival strong and gives nothing back to the first rule.
        """
        if sum(n for rule, n in self.forest.votes.items() if self._leads(rule)) < self.votes:
            return self.surprises[0]
        moves = [(row, self._move(row)) for row in self.surprises]
        harmless = [
            (row, before, after)
            for row, (before, after) in moves
            if self._leads(before) == self._leads(after)
        ]
        return min(harmless, key=lambda move: self._harm(*move[1:]), default=(NULL,))[0]

    def _leads(self, rule: Hypothesis | None) -> bool:
        """Return whether a rule gets the leading mistake right."""
        x, y = self.surprises[0]
        return rule is not None and rule(x) == y

    def _harm(self, before: Hypothesis | None, after: Hypothesis | None) -> tuple[bool, int]:
        rival = after is not None and after not in (before, self.rule)
        return after == self.rule, self.forest.votes.get(after, 0) + 1 if rival and after else 0

    def _move(self, row: Row) -> tuple[Hypothesis | None, Hypothesis | None]:
        """Return the vote of the tree that the next round reaches, before and after this row."""
        forest, (x, y) = self.forest, row
        number, leaf = (
            int(places[0]) for places in forest.routed(routes_of(self.plan, [len(self.rows)]))
        )
        tree = forest.trees[number]
        vertex = int(tree.owner[leaf])
        held = tree.pertinent[vertex].rule
        if held is None or held(x) == y:
            return tree.vote, tree.vote
        kept = deepcopy(tree)
        forest._surprised(number, vertex, x, bool(y))
        after = forest.trees[number].vote
        forest.trees[number] = kept
        return kept.vote, after

    def _play(self, row: Row) -> None:
        show(self.forest, self.plan, [row], len(self.rows))
        self.rows.append(row)
        self.mistakes += row != NULL


def planted(cls: HypothesisClass, plan: Plan, seed: int) -> Forest:
    """Return the forest of a plan, at its beginning.

    Parameters
    ----------
    cls
        The class.
    plan
        The plan.
    seed
        The seed of the forest.

    Returns
    -------
    Forest
        The forest.
    """
    return Forest(cls, plan.shapes, seed, root=plan.root, replant=plan.replant)


def show(forest: Forest, plan: Plan, rows: Sequence[Row], start: int = 0) -> None:
    """Have a forest learn rounds, each of a user of its own; null rounds are passed over.

    Parameters
    ----------
    forest
        The forest.
    plan
        Its plan.
    rows
        The rounds.
    start
        The number of the first.
    """
    told = [(number, x, y) for number, (x, y) in enumerate(rows, start) if y is not None]
    if told:
        numbers, xs, ys = map(list, zip(*told, strict=True))
        forest.learn(as_batch(xs), np.array(ys), routes_of(plan, numbers))


def routes_of(plan: Plan, numbers: list[int]) -> Routes:
    """Return what routes rounds to their trees.

    Parameters
    ----------
    plan
        The plan.
    numbers
        The numbers of the rounds.

    Returns
    -------
    array
        One route a round.
    """
    if plan.unit == "user":
        return user_numbers(numbers, len(numbers))
    return np.array(numbers)


def _telling(cls: HypothesisClass, plan: Plan, seed: int, stream: Sequence[Row]) -> int | None:
    """Return the first round whose flipped label leaves the leader with a vote less at the end."""
    x, y = next(row for row in stream if row != NULL)

    def held(rows: Sequence[Row]) -> int:
        forest = planted(cls, plan, seed)
        show(forest, plan, rows)
        return sum(votes for rule, votes in forest.votes.items() if rule(x) == y)

    whole = held(stream)
    places = (at for at, row in enumerate(stream) if row == (x, y))
    return next((at for at in places if held(turned(stream, at)) < whole), None)


def surprises_of(cls: HypothesisClass, rule: Hypothesis) -> Iterator[Row]:
    """Yield examples that the first rule gets wrong and another rule right.

    Parameters
    ----------
    cls
        The class.
    rule
        Its first rule.

    Returns
    -------
    iterator of Row
        The examples.
    """
    points = list(cls.skeleton()[1])
    for _ in range(KINDS):
        for x in points:
            try:
                learned = cls.learn(cls.start(), x, not rule(x))
            except BadExample:
                continue
            if cls.hypothesis(learned) is not None:
                yield x, not rule(x)
        points = [_next(x) for x in points]


def _next(x: Any) -> Any:
    """Return another example, which the class may or may not be able to read."""
    if isinstance(x, dict):
        return {name: _next(value) for name, value in x.items()}
    return x + "'" if isinstance(x, str) else x + 1


def with_a_null_round(rule: Hypothesis, rows: Sequence[Row], every: int = 1) -> Neighbours:
    """Return a stream, and the same without the first example that the first rule gets wrong.

    Parameters
    ----------
    rule
        The first rule.
    rows
        The stream.
    every
        The rounds from one check to the next.

    Returns
    -------
    Neighbours
        The pair.

    Raises
    ------
    BadParameter
        If the rule is right on every row.
    """
    wrong = (n for n, (x, y) in enumerate(rows) if y is not None and rule(x) != y)
    at = next(wrong, None)
    if at is None:
        raise BadParameter("the first rule is right on every row: there is nothing to tell apart")
    other = (*rows[:at], NULL, *rows[at + 1 :])
    return Neighbours(f"row {at + 1:,} is a null round", tuple(rows), other, every)


def first_rule(cls: HypothesisClass) -> Hypothesis:
    """Return the rule before any example."""
    rule = cls.hypothesis(cls.start())
    if rule is None:
        raise BadParameter(f"{cls!r} has no rule before any example")
    return rule
