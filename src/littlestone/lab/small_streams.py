"""Provide the smallest learners that can drive a gate: rows in, what each check reads out."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Literal

import numpy as np

from littlestone.lab.enumeration import Transcript, World
from littlestone.learning.belief import Belief
from littlestone.privacy import Decision

OLD, A, B = b"o", b"a", b"b"
Row = bytes | None
"""A row is the key it speaks for; None is a null round."""
Rows = Callable[[Transcript], Row]
"""The row of the next round, given the transcript so far."""


def of(rows: tuple[Row, ...]) -> Rows:
    """Return rows fixed in advance."""
    return lambda past: rows[len(past)]


def reacting(seed: int, replaced: int | None = None) -> Rows:
    """Return rows that depend on everything released before.

    Parameters
    ----------
    seed
        The seed of the rows.
    replaced
        The round that is replaced, if one is.

    Returns
    -------
    Rows
        The rows, the same but for the replaced round.
    """

    def row(past: Transcript) -> Row:
        world = "other" if len(past) == replaced else "one"
        return random.Random(repr((seed, past, world))).choice([A, B, None])

    return row


def streams(horizon: int) -> list[tuple[Row, ...]]:
    """Return every stream of so many rounds."""
    return list(product((A, B, None), repeat=horizon))


def neighbours(rows: tuple[Row, ...]) -> Iterator[tuple[Row, ...]]:
    """Yield every stream that differs in at most one round."""
    for number, row in product(range(len(rows)), (A, B, None)):
        yield (*rows[:number], row, *rows[number + 1 :])


def epochs(rows: Rows, restarted: bool = True) -> World:
    """Return a flat forest with a tree for each round.

    Parameters
    ----------
    rows
        The rows. A row is a mistake unless it speaks for the published key.
    restarted
        False is a fault: the forest then keeps the rows of earlier epochs.

    Returns
    -------
    World
        What each check reads.
    """

    def world(past: Transcript) -> tuple[object, ...]:
        published, since = OLD, 0
        for number, decision in enumerate(past):
            assert isinstance(decision, Decision)
            published = decision.key or published
            since = number + 1 if decision.fired and restarted else since
        votes = Counter(row for n in range(since, len(past) + 1) if (row := rows(past[:n])))
        row = rows(past)
        return int(row is not None and row != published), dict(votes)

    return world


def forest(rows: Rows, trees: int = 2) -> World:
    """Return a forest: round n goes to tree n mod `trees`, which votes for its latest row.

    Parameters
    ----------
    rows
        The rows.
    trees
        How many trees there are; they vote for OLD at first.

    Returns
    -------
    World
        What each check reads.
    """

    def world(past: Transcript) -> tuple[object, ...]:
        votes: list[Row] = [OLD] * trees
        for n in range(len(past) + 1):
            votes[n % trees] = rows(past[:n])
        return (dict(Counter(vote for vote in votes if vote is not None)),)

    return world


BelieveIn = Literal["nothing", "published", "rows"]
TWO = Fraction(2)


def experts(
    rows: Rows,
    restarted: bool = True,
    believe: BelieveIn = "nothing",
    epsilon: Fraction = TWO,
) -> World:
    """Return two rules; a row speaks for one of them, and the other errs on it.

    Parameters
    ----------
    rows
        The rows.
    restarted
        False is a fault: scores then count all rounds, those of earlier epochs too.
    believe
        What the prior is made from: what was "published" costs nothing, the "rows" themselves are a
        fault.
    epsilon
        What a draw spends.

    Returns
    -------
    World
        What each check reads.
    """

    def world(past: Transcript) -> tuple[object, ...]:
        published, since = A, 0
        belief = Belief(2)
        for number, decision in enumerate(past):
            assert isinstance(decision, Decision)
            if believe == "published" and decision.key not in (None, published):
                belief.drop(np.array([key == published for key in (A, B)]))
            if believe == "rows" and rows(past[:number]) is not None:
                belief.drop(np.array([key != rows(past[:number]) for key in (A, B)]))
            published = decision.key or published
            since = number + 1 if decision.fired and restarted else since
        shown: list[Row] = [rows(past[:n]) for n in range(since, len(past) + 1)]
        mistakes = [sum(row not in (key, None) for row in shown) for key in (A, B)]
        row = rows(past)
        wrong = int(row is not None and row != published)
        return wrong, tuple((-np.array(mistakes) - belief.penalties(epsilon / 2)).tolist())

    return world
