"""Define what one row does to the causes learner: the one definition, which batches only sum.

A row lists patterns, such as `version = '4.2'`, and has a label. Of a row that no published cause
matches, the patterns gain or lose; a row that one cause alone matches speaks for or against that
cause; rows of several causes and null rounds move no score. That is all that a draw, the monitor
and the evidence ever read of a row (docs/guarantee.md, Theorem 15).
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

from littlestone._privacy.causes import Weights

# Labels are codes: a null round, a normal row, and from 1 on an outcome. Without outcomes, 1 is a
# positive row.
NULL, NORMAL = -1, 0
# The place of a row that no published cause matches.
NOBODY = -1

# A pattern by its key, and the label that it is a cause of.
PublishedCause: TypeAlias = tuple[bytes, int]


class Effect(NamedTuple):
    """Hold what one row does. Losses and scores are in units; 0 moves nothing."""

    # What the row adds to the loss that the monitor watches.
    loss: int = 0
    # The cause that matches it first, or NOBODY, and the label that is counted there.
    cell: tuple[int, int] | None = None
    # What it adds to the score of each pattern that it lists: of its own outcome if it is more than
    # 0, of every outcome if it is less.
    add: int = 0
    # What it adds to the score of dropping the cause of its cell, and of replacing that cause by a
    # narrower one that the row does not list.
    drop: int = 0


def effect(
    listed: Collection[bytes],
    label: int,
    causes: Sequence[PublishedCause],
    costs: Weights,
    weights: Weights,
) -> Effect:
    """Return what a row does, given the published causes.

    A missed positive and a false alarm have costs for the monitor; a positive and a negative row have
    weights in the draw. They need not be related. A row of an outcome is missed unless a cause of
    its own outcome matches it.
    """
    if label == NULL:
        return Effect()
    matching = [place for place, (pattern, _) in enumerate(causes) if pattern in listed]
    if not matching:
        if label == NORMAL:
            return Effect(0, (NOBODY, NORMAL), add=-weights.negative)
        return Effect(costs.positive, (NOBODY, label), add=weights.positive)
    first, alone = matching[0], len(matching) == 1
    if label == NORMAL:
        return Effect(costs.negative, (first, NORMAL), drop=weights.negative if alone else 0)
    told = any(causes[place][1] == label for place in matching)
    # The rate of a cause is that of its own outcome: all other rows that it matches are not.
    cell = first, label if causes[first][1] == label else NORMAL
    loss = 0 if told else costs.positive
    return Effect(loss, cell, drop=-weights.positive if alone and told else 0)
