"""DPSOA: equal to a twin that goes round by round; what its gate is shown is one-sensitive; and it
behaves as its user would expect, also when things go wrong."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import littlestone as ls
import naive
from classes import CASES, targets
from littlestone._classes.base import HypothesisClass
from littlestone._classes.union import Complement
from littlestone._learners.dpsoa import Engine
from littlestone._learners.tuning import is_narrower
from littlestone._privacy.testing import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore:delta")

Example = tuple[object, bool | None]
SUBSETS = [ls.one_of(values) for n in range(4) for values in combinations("abc", n)]
USERS = ["ann", "bob", "cem", 1, True, 1.0]
HORIZON, LENGTH = 120, 130


class Away(Engine):
    """Reads votes at draws only, as if its trees were in other processes."""

    remote = True


def small(plan: ls.Plan, **changes: Any) -> ls.Plan:
    """A plan that releases rules on short streams."""
    return replace(plan, thresholds=(3,), check_every=3, **changes)


PLANS: dict[str, Callable[[HypothesisClass], ls.Plan]] = {
    "practical": lambda cls: ls.Plan.practical(cls, 12, 0.01, HORIZON),
    "few trees": lambda cls: small(ls.Plan.practical(cls, 24, 0.1, HORIZON), leaves={1: 6}),
    "capped users": lambda cls: small(
        ls.Plan.practical(cls, 400, 0.1, HORIZON, unit="user", cap=15), leaves={1: 5}
    ),
}


def stream_of(name: str, noise: float, seed: int) -> list[Example]:
    """A stream with a few null rounds."""
    cls, points = CASES[name]
    draw = random.Random(seed)
    truth = draw.choice(targets(cls, points))
    xs = [draw.choice(points) for _ in range(LENGTH)]
    labelled = [(x, truth(x) != (draw.random() < noise)) for x in xs]
    return [(x, None if draw.random() < 0.05 else y) for x, y in labelled]


def users_of(plan: ls.Plan) -> list[object] | None:
    draw = random.Random(1)
    return [draw.choice(USERS) for _ in range(LENGTH)] if plan.unit == "user" else None


def fed(learner: ls.DPSOA, stream: list[Example], users: list[object] | None, size: int) -> None:
    """The stream in batches of a size; 0 is one by one."""
    if size == 0:
        for n, (x, y) in enumerate(stream):
            who = {} if users is None else {"user": users[n]}
            if y is None:
                learner.skip_one(**who)
            else:
                assert learner.predict_one(x) == learner.hypothesis(x)
                learner.learn_one(x, y, **who)
        return
    for at in range(0, len(stream), size):
        xs, ys = zip(*stream[at : at + size], strict=True)
        some = None if users is None else users[at : at + size]
        learner.learn_many(list(xs), list(ys), some, bad_rows="null")


def test_a_rule_is_narrower_without_some_of_the_values() -> None:
    """The votes of such rules are not drawn from; also where the rules are negations."""
    held = [{value for value in "abc" if rule(value)} for rule in SUBSETS]
    for (rule, some), (published, every) in product(zip(SUBSETS, held, strict=True), repeat=2):
        # `never` is left out whatever is published.
        narrower = not some or some < every
        assert is_narrower(rule, published, ls.Sets(3)) == narrower
        pair = ls.negation(rule), ls.negation(published)
        assert is_narrower(*pair, Complement(ls.Sets(3))) == narrower
        assert not is_narrower(*pair, ls.Sets(3))


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_the_learner_is_its_twin_however_it_is_batched(name: str, kind: str) -> None:
    cls, _ = CASES[name]
    plan, stream = PLANS[kind](cls), stream_of(name, 0.1, seed=2)
    users = users_of(plan)
    twin = naive.Learner(cls, plan, 5, SeededNoise(3))
    for n, (x, y) in enumerate(stream):
        twin.step(x, y, *([] if users is None else [users[n]]))
    here, away = Engine(), Away()
    for size, watched, engine in (
        (0, False, here),
        (1, True, here),
        (7, False, away),
        (LENGTH, True, here),
        (LENGTH, False, away),
    ):
        learner = ls.DPSOA(
            cls, plan=plan, seed=5, noise=SeededNoise(3), watched=watched, engine=engine
        )
        fed(learner, stream, users, size)
        assert list(learner.releases) == twin.releases
        assert learner.mistakes == twin.mistakes
        assert learner.ledger == twin.gate.ledger
        assert learner.votes == Counter(v for v in twin.forest.votes() if v is not None)
        assert learner.rounds == LENGTH


@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_the_twins_do_publish() -> None:
    """The test above has power: its plans release rules on its streams."""
    published: Counter[str] = Counter()
    for kind, make in PLANS.items():
        for name in ("points", "rules", "thresholds", "table"):
            plan = make(CASES[name][0])
            learner = ls.DPSOA(CASES[name][0], plan=plan, seed=5, noise=SeededNoise(3))
            fed(learner, stream_of(name, 0.1, seed=2), users_of(plan), LENGTH)
            published[kind] += len(learner.releases) - 1
    assert set(published) == set(PLANS)
    assert min(published.values()) > 0, published


def test_rounds_put_by_are_the_learners_own() -> None:
    """A caller may reuse its arrays."""
    cls, plan = ls.Points(), PLANS["few trees"](ls.Points())
    learners = []
    for reuse in (False, True):
        learner = ls.DPSOA(cls, plan=plan, seed=5, noise=SeededNoise(3))
        draw = np.random.default_rng(1)
        buffer = np.zeros(10, dtype=int)
        for _ in range(11):
            buffer[:] = draw.integers(0, 3, size=10)
            learner.learn_many(buffer if reuse else buffer.copy(), buffer == 1)
        buffer[:] = 0
        learners.append(learner)
    assert learners[0].releases == learners[1].releases
    assert learners[0].votes == learners[1].votes
