"""Attack what epochs begin with: whatever the rows are, the public transcript must fix it.

Firings, draws and released counts are scripted, so that streams that have nothing in common have
the same transcript. Then margins and starting states must be the same, however rows are fed.
"""

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import pytest
from test_checkpoint import MemoryStore

import littlestone as ls
from classes import targets
from littlestone._classes.base import points_of
from littlestone._hypotheses.causes import causes_of
from littlestone._hypotheses.values import encode
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.evidence import Window
from littlestone._learners.forest import EpochStart, Forest
from littlestone._privacy.causes import (
    ADD,
    DROP,
    LARGEST_MARGIN,
    CausesMechanism,
    EpochTerms,
    SparseExponential,
    StableValues,
    Weights,
    WindowCounts,
)
from littlestone._privacy.gates import MistakesMonitor
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.selection import SearchOrCompare
from littlestone._privacy.testing import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore:delta")

ROUNDS = 1600


def culprits(outcome: str | None = None) -> list[ls.Cause]:
    return [ls.Cause((ls.Condition("a", value),), outcome) for value in "xyz"]


CULPRITS = culprits()
# What is protected, or how rows come: options of the learner.
KINDS: dict[str, dict[str, Any]] = {
    "events": {},
    "outcomes": {},
    "users": {"unit": "user", "cap": 2},
    "table": {"table": True},
}


class Script:
    """Decide when monitors fire, by the number of the check alone."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.checks = 0
        patch.setattr(MistakesMonitor, "advance", lambda _, counts, limits: self.run(len(counts)))

    def run(self, checks: int) -> int | None:
        for place in range(checks):
            self.checks += 1
            if random.Random(self.checks).random() < 0.1:
                return place
        return None


# Margins.


def causes_rows(seed: int) -> list[tuple[dict[str, str], bool]]:
    draw = random.Random(seed)
    return [
        ({"a": draw.choice("xyz"), "b": draw.choice("uv")}, draw.random() < 0.1 * seed)
        for _ in range(ROUNDS)
    ]


def starts(
    patch: pytest.MonkeyPatch,
    kind: str,
    seed: int,
    sizes: int | None,
    *,
    resume: bool = False,
    exact: bool,
) -> list[tuple[Any, ...]]:
    """What every epoch begins with, for one stream; `exact` plants counts without noise."""
    Script(patch)
    found: list[tuple[Any, ...]] = []
    begin = CausesMechanism.begin_epoch

    def record(gate: CausesMechanism, *public: Any) -> None:
        found.append(public)
        begin(gate, *public)

    def select(self: Any, moves: Any, noise: Any, release: int, published: Any = None) -> Any:
        # What a draw reads beside private counts is public too.
        found.append((moves.weights, moves.drop_keys, list(map(len, moves.replaces))))
        if moves.drop_keys and release % 3 and (kind != "table" or release == 4):
            return DROP + moves.drop_keys[0]
        # A table is read until a draw selects nothing.
        silent = release == 6 if kind == "table" else release % 2 == 0
        return None if silent else ADD + named[release % 3].key

    def release(self: WindowCounts, counts: Any) -> list[int]:
        number, self.windows = self.windows, self.windows + 1
        if exact:
            return [int(count) for count in counts]
        return random.Random(number).choices(range(-20, 60), k=len(counts))

    patch.setattr(SparseExponential, "select", select)
    patch.setattr(WindowCounts, "release", release)
    patch.setattr(StableValues, "release", lambda *_: [encode(("a", "x")), encode(("b", "u"))])
    normal, named = list[str](), CULPRITS
    if kind == "outcomes":
        normal, named = ["False"], culprits("True")
    cls = ls.Causes(["a", "b"], width=2, limit=3, normal=normal)

    def make() -> ls.PrivateCauses:
        noise, options = SeededNoise(1), KINDS[kind]
        return ls.PrivateCauses(cls, 8, 1e-3, ROUNDS, change_cost=20, noise=noise, **options)

    rows, learner, at = causes_rows(seed), make(), 0
    store = MemoryStore()
    patch.setattr(CausesMechanism, "begin_epoch", record)
    while at < len(rows):
        part = rows[at : at + (sizes or 1)]
        xs, ys = [x for x, _ in part], [str(y) if normal else y for _, y in part]
        # Who sends each round is public: the same users in every world.
        users = [n % 500 for n in range(at, at + len(part))] if kind == "users" else None
        if sizes is None:
            learner.learn_one(xs[0], ys[0], *(users or ()))
        else:
            learner.learn_many(xs, ys, users)
        at += len(part)
        mechanism, causes = learner.loop.gate, causes_of(learner.hypothesis)
        # At any round a computation from what is public gives the margin of the epoch.
        assert mechanism.terms is None or mechanism.terms.margin == learner.plan.margin(
            learner.windows, causes
        )
        if resume and at % 5 == 0:
            patch.setattr(CausesMechanism, "begin_epoch", begin)
            store.take(learner)
            learner = make()
            learner.resume(store.whole)
            patch.setattr(CausesMechanism, "begin_epoch", record)
    return found


@pytest.mark.parametrize("exact", [False, True], ids=["released counts", "planted: exact counts"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_transcript_fixes_what_every_epoch_begins_with(kind: str, exact: bool) -> None:
    ways: list[tuple[int, int | None, bool]] = [
        (1, None, False),
        (5, None, True),
        (2, 50, False),
        (5, 37, False),
        (3, 5, True),
    ]
    if kind == "table":
        ways = [(seed, ROUNDS, False) for seed in (1, 5, 2)]
    found = []
    for seed, sizes, resume in ways:
        with pytest.MonkeyPatch.context() as patch:
            found.append(starts(patch, kind, seed, sizes, resume=resume, exact=exact))
    terms = [public[0] for public in found[0] if isinstance(public[0], EpochTerms)]
    weights = {public[0] for public in found[0] if isinstance(public[0], Weights)}
    if kind in ("events", "outcomes"):
        assert len({one.margin for one in terms}) > 3
        assert len({one.monitor for one in terms}) > 1
        assert len(weights) > 3
    assert len(terms) > 1
    assert all(other == found[0] for other in found) != exact


PLAN = CausesPlan.practical(ls.Causes(["a"]), 1, 1e-6, 100_000, min_rate=0.1)


def window(negatives: tuple[int, ...], positives: tuple[int, ...], *causes: ls.Cause) -> Window:
    return Window(1, 1000, causes, negatives, positives, 20.0, to_beat=0.1)


def test_a_cause_that_matches_all_rows_is_not_charged_for_the_noise_of_the_others() -> None:
    """Of no other rows the released rate is noise: here 1. That must not count as a loss."""
    stood = window((700, -5), (300, 7), CULPRITS[0])
    assert PLAN.margin([stood, window((1000,), (0,))], ()) == 0
    # False alarms do.
    idle = window((1900, 3), (0, 0), CULPRITS[0])
    assert PLAN.margin([idle, window((1000,), (0,))], ()) == 212


def test_what_a_change_costs_is_checked_in_plans_made_by_hand_too() -> None:
    for cost in (-1, "much", float("nan"), 2**41):
        with pytest.raises(BadParameter, match="change_cost"):
            replace(PLAN, change_cost=cost)  # type: ignore[arg-type]


def test_margins_stay_within_64_bits() -> None:
    plan = replace(PLAN, change_cost=Fraction(2**40))
    dropped = [window((1000, 0), (0, 0), CULPRITS[0]), window((1000,), (0,))] * 2
    draw = plan.draw(plan.terms(1.0, margin=plan.margin(dropped, ())))
    assert draw.margin == LARGEST_MARGIN


# The states in which epochs begin.

FORESTS: dict[str, tuple[ls.HypothesisClass, list[object]]] = {
    "rules": (ls.Rules(list("abc")), points_of(dict.fromkeys("abc", (0, 1, 2)))),
    "conjunctions": (ls.Conjunctions(list("abc")), points_of(dict.fromkeys("abc", (False, True)))),
    "intervals": (ls.Intervals(1, 9), list(range(1, 10))),
    "cuts": (ls.Thresholds(1, 9), list(range(1, 10))),
    "sets": (ls.Sets(3), [0, 1, 2, 3]),
    "complement": (ls.Complement(ls.Intervals(1, 6)), list(range(1, 7))),
    "union": (ls.Union(ls.Thresholds(1, 6), ls.Intervals(1, 6)), list(range(1, 7))),
}


def forest_of(learner: ls.DPSOA) -> Forest:
    """The trees of a learner, in this process."""
    forest: Forest = cast(Any, learner.loop.state).forest
    return forest


def epochs(
    patch: pytest.MonkeyPatch, name: str, seed: int, sizes: int, changed: int | None = None
) -> tuple[list[EpochStart], list[list[ls.Hypothesis | None]]]:
    """The start of every epoch, and all votes after every batch, where releases are scripted."""
    Script(patch)
    cls, points = FORESTS[name]
    rules = {rule.key: rule for rule in targets(cls, points)}

    def select(self: Any, scores: Any, noise: Any, release: int, published: Any = None) -> Any:
        return random.Random(release + 1).choice([None, *sorted(rules)])

    patch.setattr(SearchOrCompare, "select", select)
    patch.setattr(Forest, "named", lambda self, key: rules[key])
    starts: list[EpochStart] = []
    begin = Forest.begin_epoch

    def record(forest: Forest, epoch: int, start: EpochStart) -> None:
        starts.append(start)
        begin(forest, epoch, start)

    def make() -> ls.DPSOA:
        return ls.DPSOA(cls, 2, 1e-3, ROUNDS, seed=3, noise=SeededNoise(1))

    draw = random.Random(seed)
    stream = [(draw.choice(points), draw.random() < 0.5) for _ in range(ROUNDS // 2)]
    if changed is not None:
        x, y = stream[changed]
        stream[changed] = x, not y
    learner, store, votes = make(), MemoryStore(), []
    for at in range(0, len(stream), sizes):
        patch.setattr(Forest, "begin_epoch", record)
        part = stream[at : at + sizes]
        learner.learn_many([x for x, _ in part], [y for _, y in part])
        patch.setattr(Forest, "begin_epoch", begin)
        store.take(learner)
        forest = forest_of(learner)
        votes.append(forest.standing)
        kept = forest._start
        learner = make()
        learner.resume(store.whole)
        assert forest_of(learner)._start == kept
    return starts, votes


@pytest.mark.parametrize("name", FORESTS)
def test_the_published_rules_fix_where_trees_begin_and_one_round_moves_one_vote(name: str) -> None:
    def run(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            return epochs(patch, name, *given)

    starts, votes = run(1, 40)
    assert len(set(starts)) > 3
    assert run(2, 25)[0] == starts
    differ = 0
    for changed in range(0, ROUNDS // 2, 97):
        others, moved = run(1, 40, changed)
        assert others == starts
        for one, other in zip(votes, moved, strict=True):
            trees = sum(a != b for a, b in zip(one, other, strict=True))
            assert trees <= 1
            differ += trees
    assert differ, "no replaced round moved a vote: this test has no power"
