"""Parts of matched rounds are the matched parts, whichever way they are cut."""

import pickle
from collections import Counter
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
        known = KnownKeys(cls, {"country": ["SE", "NO"]}) if causes else None
        asked = Asked(causes, known, () if causes else ("version", "country"))
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


def test_a_round_votes_once_and_by_its_number_wherever_it_is_kept() -> None:
    """A block on a cluster numbers its rows from 0, and knows the numbers of rounds later."""
    table, names = columns(400), ("version", "country")
    batch: dict[str, Any] = {name: np.array(table[name], dtype=object) for name in names}
    batch["age"] = np.array(table["age"], dtype=np.int64)
    number, labels = np.arange(400), np.zeros(400, dtype=bool)
    since, wanted, counted = 250, Counter[bytes](), Counter[bytes]()
    whole = match(CAUSES, Rounds(batch, labels, numbers=number), Asked((), None, names))
    for place in range(since, 400):
        (value,) = whole.taken(number == place).votes(names, since).items()
        wanted.update({value[0]: value[1]})
        assert value[1] == 1
    for begin, end in ((0, 100), (100, 260), (260, 400)):
        block = {name: column[begin:end] for name, column in batch.items()}
        local = np.arange(end - begin)
        rounds = Rounds(block, labels[begin:end], numbers=local)
        answer = match(CAUSES, rounds, Asked((), None, names))
        # Rows after a span may be null rounds or not: that changes no vote within it.
        for span in (answer, answer.between(0, (end - begin) // 2)):
            votes = span._replace(number=span.number + begin).votes(names, since)
            alone = whole.between(begin, begin + span.size).votes(names, since)
            assert votes == alone
        counted += answer._replace(number=answer.number + begin).votes(names, since)
    assert counted == wanted == whole.votes(names, since)
    assert sum(wanted.values()) == 400 - since
    assert whole.votes(names, 400) == Counter()


def same(one: Matched, other: Matched) -> bool:
    arrays: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = [
        (one.number, other.number),
        (one.answers, other.answers),
        (one.counts, other.counts),
        (one.first, other.first),
    ]
    parts = [(rows.negatives.columns, rows.positives) for rows in (one.unmatched, other.unmatched)]
    for ours, theirs in zip(*parts, strict=True):
        arrays += zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True)
    arrays += zip(map(np.asarray, one.lone), map(np.asarray, other.lone), strict=True)
    arrays += zip(map(np.asarray, one.voted), map(np.asarray, other.voted), strict=True)
    if one.own is not None and other.own is not None:
        arrays.append((one.own, other.own))
    same_kind = (one.own is None) == (other.own is None) or not one.size or not other.size
    return same_kind and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)
