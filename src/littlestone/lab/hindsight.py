"""Count the mistakes of the best fixed rule of a class on a stream.

Exact for points, sets and rules, by counting values, and for finite classes whose rules can be
tried on every distinct row. Elsewhere it is the better of the targets behind the stream.
"""

from collections import Counter
from typing import Any

import numpy as np

from littlestone.lab.streams import Stream
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.errors import TooLarge
from littlestone.theory.rows import Batch, Column, column_of, part_of
from littlestone.theory.rules import Rules
from littlestone.theory.sets import Sets
from littlestone.theory.values import key_of

MOST_TRIED = 20_000_000
"""Rules times distinct rows that are tried before settling for the targets."""


def best_mistakes(cls: HypothesisClass, stream: Stream) -> int | None:
    """Return the mistakes of the best fixed rule; None when that would take too long.

    Parameters
    ----------
    cls
        The class.
    stream
        The stream.

    Returns
    -------
    int or None
        The mistakes.

    Examples
    --------
    >>> from littlestone.theory.sets import Points
    >>> best_mistakes(Points(), Stream(np.array([1, 1, 2]), np.array([True, True, True]), None))
    1
    """
    known = [stream.errors(rule) for rule in (stream.truth, stream.later) if rule is not None]
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
    if cls.size * len(first) > MOST_TRIED:
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
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, own = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (own.max() + 1) + own, return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first, inverse
