"""What a batch of rows does is the sum of what its rows do (`_learners/effect.py`), with outcomes and
without, whatever is published."""

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from effort import scaled
from littlestone._audit.gates import CauseGate, CauseWorld, cause_of
from littlestone._data.rounds import Rounds
from littlestone._hypotheses.causes import OUTCOME, cause_from_key
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import NEVER
from littlestone._learners.cause_counts import CauseCounts
from littlestone._learners.effect import NOBODY, NORMAL, effect
from littlestone._privacy.causes import EpochTerms, Weights
from littlestone._privacy.testing import SeededNoise

ONE = Fraction(1)
LABELS: dict[bool, list[Any]] = {True: ["ok", "t", "u"], False: [False, True]}


def published(draw: random.Random, outcomes: bool) -> CauseCounts:
    """The counts of an epoch that begins, with up to three causes published."""
    normal: dict[str, Any] = {"normal": ["ok"]} if outcomes else {}
    cls = ls.Causes(["a", "b"], width=2, values={"b": ["x", "z", "w"]}, **normal)
    plan = ls.CausesPlan.practical(cls, 4, 1e-3, 10_000, min_rate=0.2)
    learner = ls.PrivateCauses(cls, plan=plan, noise=SeededNoise(1))
    conditions = [ls.Condition(name, value) for name in "ab" for value in "xyz"]
    chosen = []
    for _ in range(draw.randint(0, 3)):
        of = {"outcome": draw.choice("tu")} if outcomes else {}
        columns = draw.sample("ab", draw.randint(1, 2))
        pattern = tuple(draw.choice([c for c in conditions if c.column == n]) for n in columns)
        chosen.append(ls.Cause(pattern, **of))
    counts = learner.loop.state
    assert isinstance(counts, CauseCounts)
    counts.restart(0, ls.any_of(chosen))
    return counts


@pytest.mark.parametrize("outcomes", [False, True])
@pytest.mark.parametrize("seed", range(scaled(40, least=10)))
def test_a_batch_does_what_its_rows_do(seed: int, outcomes: bool) -> None:
    draw = random.Random(seed)
    counts = published(draw, outcomes)
    cls = counts.cls
    rows = [{"a": draw.choice("xyz"), "b": draw.choice("xyz")} for _ in range(40)]
    labels = [draw.choice(LABELS[outcomes]) for _ in rows]
    code = {"ok": NORMAL, "t": 1, "u": 2, False: NORMAL, True: 1}
    listed = [tuple(cause.key for cause in cls.patterns_of(x)) for x in rows]
    coded = list(zip(listed, [code[label] for label in labels], strict=True))
    causes = tuple(
        (cause.pattern.key, code[cause.outcome] if outcomes else 1) for cause in counts.causes
    )
    # The costs of the monitor and the weights of the draw need not be related.
    costs, weights = counts.costs, Weights(draw.randint(1, 10_000), draw.randint(1, 2_000))
    effects = [effect(*row, causes, costs, weights) for row in coded]

    told = [{**x, OUTCOME: None if y == "ok" else y} for x, y in zip(rows, labels, strict=True)]
    batch = as_batch(told if outcomes else rows, counts.kinds())
    answers = np.array([label > NORMAL for _, label in coded])
    judged = counts.judge(Rounds(batch, answers), NEVER)
    losses = np.zeros(len(rows), dtype=int)
    losses[judged.wrong] = judged.losses
    assert losses.tolist() == [one.loss for one in effects]
    # A single row is judged alike.
    answered = zip(told if outcomes else rows, answers.tolist(), strict=True)
    assert [counts.loss(x, y, NEVER) for x, y in answered] == losses.tolist()

    counts.add(judged)
    alone = np.zeros(len(causes), dtype=int)
    cells: dict[tuple[int, int], int] = {}
    for one in effects:
        assert one.cell is not None
        if one.drop:
            alone[one.cell[0]] += one.drop
        cells[one.cell] = cells.get(one.cell, 0) + 1
    found = counts.moves(weights)
    assert (-weights.score(found.drops)).tolist() == alone.tolist()
    # A narrower cause keeps what the rows say that it lists.
    for place, cause in enumerate(counts.causes):
        for at, listing in enumerate(found.replaces[place]):
            narrow = cause_from_key(found.replace_key(place, at))
            assert cause.contains(narrow)
            lists = [narrow.pattern.key in keys for keys in listed]
            speaking = [
                one.drop if one.cell and one.cell[0] == place else 0 for one in effects
            ]  # fmt: skip
            kept = sum(n for n, here in zip(speaking, lists, strict=True) if here)
            assert weights.score(listing[None, :])[0] == -kept
    some = CauseGate(EpochTerms(ONE, ONE, 2 * ONE), ONE / 2, (ONE,), costs, weights)
    wanted = CauseWorld(some, causes, cls.limit).moves(coded, causes, weights)
    assert gains_of(found) == {words_of(wanted.add_key(n), outcomes): counted.tolist()
                               for n, counted in enumerate(wanted.adds)}  # fmt: skip
    evidence = counts.get_state()
    # Evidence: each row in one cell, of the first cause that matches it or of nobody.
    for place in range(len(causes)):
        positive = sum(n for (at, label), n in cells.items() if at == place and label > NORMAL)
        assert evidence["cells"][place] == [cells.get((place, NORMAL), 0), positive]
    outcomes_told = {label for _, label in causes} if outcomes else set()
    rest = {label: n for (at, label), n in cells.items() if at == NOBODY}
    named = sum(n for label, n in rest.items() if label in outcomes_told)
    others = sum(n for label, n in rest.items() if label > NORMAL and label not in outcomes_told)
    assert evidence["cells"][-1] == [rest.get(NORMAL, 0), others]
    assert sum(evidence["named"]) == named


def gains_of(found: Any) -> dict[str, list[int]]:
    """The rows that speak on every move that adds a cause, by the cause in words."""
    keys = [found.add_key(place) for place in range(len(found.adds))]
    return {words(key): pair.tolist() for key, pair in zip(keys, found.adds, strict=True)}


def words(key: bytes) -> str:
    """A cause in words, by its key."""
    return str(cause_from_key(key))


def words_of(key: bytes, outcomes: bool) -> str:
    """The same cause in words, by its key in the plain world."""
    pattern, label = cause_of(key)
    cause = cause_from_key(pattern)
    return str(ls.Cause(cause.conditions, outcome=" tu"[label]) if outcomes else cause)
