"""Parts of matched rounds are the matched parts, whichever way they are cut."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from events import CAUSES, OUTCOMES, columns

from littlestone._data.rounds import Rounds
from littlestone._hypotheses.causes import OUTCOME, Cause, Condition
from littlestone._learners.known import KnownKeys
from littlestone._learners.matched import Asked, Matched, match


def test_parts_of_matched_rounds_are_the_matched_parts() -> None:
    table = columns(400)
    batch: dict[str, Any] = {
        name: np.array(table[name], dtype=object if name != "age" else np.int64)
        for name in ("version", "country", "age")
    }
    answers = np.array([value == "1" for value in table["failed"]])
    number = np.arange(0, 800, 2) + 100
    batch[OUTCOME] = np.array(table["outcome"], dtype=object)
    rounds = Rounds(batch, answers, numbers=number)
    two = (Cause((Condition("version", "4.2.1"),)), Cause((Condition("country", "NO"),)))
    named = (replace(two[0], outcome="slow"), replace(two[1], outcome="lost"))
    draw = np.random.default_rng(1)
    for causes in ((), two, named):
        cls = OUTCOMES if causes == named else CAUSES
        asked = Asked(causes, KnownKeys(cls, {"country": ["SE", "NO"]}) if causes else None)
        whole = match(cls, rounds, asked)
        assert same(pickle.loads(pickle.dumps(whole)), whole)
        for start, stop in ((0, 2000), (100, 102), (101, 500), (700, 2000), (300, 300)):
            assert same(
                whole.between(start, stop),
                match(cls, rounds.between(start, stop), asked),
            )
        for share in (0.0, 0.5, 1.0):
            kept = draw.random(400) < share
            assert same(whole.taken(kept), match(cls, rounds.taken(kept), asked))


def same(one: Matched, other: Matched) -> bool:
    arrays: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = [
        (one.number, other.number),
        (one.answers, other.answers),
        (one.counts, other.counts),
        (one.first, other.first),
    ]
    for ours, theirs in zip(one.unmatched, other.unmatched, strict=True):
        arrays += zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True)
    arrays += zip(map(np.asarray, one.lone), map(np.asarray, other.lone), strict=True)
    if one.own is not None and other.own is not None:
        arrays.append((one.own, other.own))
    same_kind = (one.own is None) == (other.own is None) or not one.size or not other.size
    return same_kind and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)
