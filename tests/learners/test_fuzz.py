"""Thousands of random plans, classes and streams through every learner: nothing breaks, nothing
stalls, nothing is spent that was not promised, and batches do not matter."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest

import littlestone as ls
from classes import CASES, targets
from effort import scaled
from littlestone._learners.base import Release
from littlestone._learners.forest import Root
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection
from littlestone._privacy.testing import SeededNoise
from littlestone.paper import AdaptiveDPSOA, EveryRound, PaperDPSOA, PaperPlan

pytestmark = pytest.mark.filterwarnings("ignore:delta")
Maker = Callable[[random.Random, ls.HypothesisClass, int], Any]
"""Draws a plan, and makes the same learner as often as it is called with the same numbers."""

MOST_ROUNDS = 30
BAD_LABELS: list[object] = [None, 2, "yes", float("nan")]
USERS: list[object] = ["ann", 1, True, (1,), (True,), "bob", 2.5]


def budgets(draw: random.Random) -> tuple[Fraction, Fraction, Fraction]:
    """Epsilon, delta, and the monitor's part of epsilon."""
    epsilon = Fraction(draw.choice([0.01, 0.5, 3, 8, 40, 200])).limit_denominator(1000)
    delta = Fraction(draw.choice([1e-9, 0.01, 0.3, 0.9])).limit_denominator(10**9)
    return epsilon, delta, epsilon * Fraction(draw.randint(1, 9), 10)


def leaves(draw: random.Random, least: int = 1) -> dict[int, int]:
    shapes = draw.sample([n for n in (1, 2, 4, 8) if n >= least], draw.randint(1, 2))
    return {shape: draw.randint(1, 9) for shape in shapes}


def mistakes_plan(draw: random.Random, cls: ls.HypothesisClass) -> ls.Plan:
    epsilon, delta, monitor = budgets(draw)
    per_user = draw.random() < 0.3
    return ls.Plan(
        made_for=repr(cls),
        epsilon=epsilon,
        delta=delta,
        horizon=draw.randint(1, 2 * MOST_ROUNDS),
        unit="user" if per_user else "event",
        epsilon_monitor=monitor,
        thresholds=tuple(draw.randint(1, 6) for _ in range(draw.randint(1, 3))),
        check_every=draw.randint(1, 7),
        selector=draw.choice(
            [UnknownDomainSelection.name if epsilon > 0.4 else "", StableHistogram.name]
        )
        or StableHistogram.name,
        leaves=leaves(draw),
        cap=draw.randint(1, 5) if per_user else None,
    )


def votes_plan(draw: random.Random, cls: ls.HypothesisClass) -> PaperPlan:
    plan = mistakes_plan(draw, cls)
    root: Root = draw.choice(get_args(Root))
    return PaperPlan(
        made_for=plan.made_for,
        epsilon=plan.epsilon,
        delta=plan.delta,
        horizon=plan.horizon,
        unit=plan.unit,
        releases=draw.randint(1, 4),
        threshold=plan.thresholds[0],
        check_every=plan.check_every,
        selector=plan.selector,
        leaves=leaves(draw, 1 if root == "learns" else 2),
        root=root,
        replant=draw.random() < 0.5,
    )


def restarting(draw: random.Random, cls: ls.HypothesisClass, seed: int) -> Callable[[], Any]:
    plan = mistakes_plan(draw, cls)
    return lambda: ls.DPSOA(cls, plan=plan, seed=seed, noise=SeededNoise(seed))


def lasting(draw: random.Random, cls: ls.HypothesisClass, seed: int) -> Callable[[], Any]:
    plan = votes_plan(draw, cls)
    return lambda: PaperDPSOA(cls, plan, seed=seed, noise=SeededNoise(seed))


def experts(draw: random.Random, cls: ls.HypothesisClass, seed: int) -> Callable[[], Any]:
    epsilon, _, monitor = budgets(draw)
    plan = ls.ExpertsPlan(
        made_for=repr(cls),
        epsilon=epsilon,
        horizon=draw.randint(1, 2 * MOST_ROUNDS),
        epsilon_monitor=monitor,
        threshold=draw.randint(1, 6),
        check_every=draw.randint(1, 7),
        change_cost=Fraction(draw.choice([0, 1, 50, 2**40])),
        min_rate=Fraction(1, draw.choice([2, 2, 3, 1000])),
        stay_nats=Fraction(draw.choice([0, 2, 2**70])),
        free_charges=Fraction(draw.choice([0, 1])),
    )
    first = draw.choice(["drawn", "own"])
    untyped: Any = ls.PrivateExperts
    return lambda: untyped(cls, plan=plan, first=first, seed=seed, noise=SeededNoise(seed))


def every_round(draw: random.Random, cls: ls.HypothesisClass, seed: int) -> Callable[[], Any]:
    """Few budgets: each is solved for, once in a process."""
    epsilon, horizon = draw.choice([(4, 3), (300, 6), (300, 12)])
    kind: Any = draw.choice([AdaptiveDPSOA, EveryRound])
    trees = draw.choice([None, 1, 3])
    return lambda: kind(
        cls, epsilon, 0.01, horizon, trees=trees, seed=seed, noise=SeededNoise(seed)
    )


def plain(draw: random.Random, cls: ls.HypothesisClass, seed: int) -> Callable[[], Any]:
    kind = ls.Halving if draw.random() < 0.5 and takes(ls.Halving, cls) else ls.SOA
    return lambda: kind(cls)


def takes(kind: type[ls.SOA] | type[ls.Halving], cls: ls.HypothesisClass) -> bool:
    """Whether it can be made for a class: an honest refusal is no game."""
    try:
        kind(cls)
    except (ls.TooLarge, ls.BadClass):
        return False
    return True


FINITE = sorted(name for name, (cls, _) in CASES.items() if cls.size is not None)
EVERY = sorted(CASES)
TARGETS = {name: targets(*case) for name, case in CASES.items()}
LEARNERS: dict[str, tuple[Any, list[str], int]] = {
    "restarting": (restarting, EVERY, 1200),
    "lasting": (lasting, EVERY, 800),
    "experts": (experts, FINITE, 500),
    "every round": (every_round, EVERY, 100),
    "plain": (plain, [name for name in EVERY if takes(ls.SOA, CASES[name][0])], 500),
}
"""How each is made, on which classes, and how many games are played."""


def stream(draw: random.Random, points: list[object], rule: Any, nulls: bool) -> list[Any]:
    """Rows, labels and users. Labels are a rule's, or a rule's with noise, or random; some rows
    have none, and some cannot be read."""
    noise = draw.choice([0.0, 0.1, 0.5])
    rows = []
    for _ in range(draw.randint(0, MOST_ROUNDS)):
        x = draw.choice(points)
        y: object = rule(x) != (draw.random() < noise)
        if nulls and draw.random() < 0.15:
            x, y = draw.choice([(x, draw.choice(BAD_LABELS)), ([x], y), ({"no": 1}, y)])
        rows.append((x, y, draw.choice([*USERS, None] if nulls else USERS)))
    return rows


def play(
    learner: Any, rows: list[Any], sizes: Callable[[], int], check: Callable[[], None]
) -> None:
    """The rows in batches of the sizes drawn; a batch of none is one row on its own."""
    per_user = getattr(getattr(learner, "plan", None), "unit", None) == "user"
    private = hasattr(learner, "skip_one")
    at = 0
    while at < len(rows):
        size = sizes()
        part = rows[at : at + max(1, size)]
        xs, ys, users = (list(column) for column in zip(*part, strict=True))
        named = {"users": users} if per_user else {}
        if not private:
            learner.learn_many(xs, ys)
        elif size:
            learner.learn_many(_objects(xs), ys, **named, bad_rows="null")
        else:
            who = {"user": users[0]} if per_user else {}
            try:
                learner.learn_one(xs[0], ys[0], **who)
            except ls.BadExample:
                learner.skip_one(**who)
        at += len(part)
        check()


def _objects(rows: list[Any]) -> Any:
    batch = np.empty(len(rows), dtype=object)
    batch[:] = rows
    return batch


def check_private(learner: Any, promised: str, rounds: int, total: Any) -> None:
    assert learner.rounds == rounds, "every round is counted"
    assert str(learner.guarantee) == promised, "the promise stands"
    assert learner.spent.epsilon <= total.epsilon
    assert learner.spent.delta <= total.delta
    assert 0 <= learner.mistakes <= rounds - learner.null_rounds


def check_releases(releases: tuple[Any, ...], rounds: int, horizon: int) -> None:
    numbers = [release.round for release in releases]
    assert numbers == sorted(set(numbers)), "in the order of their rounds, one at each"
    assert numbers[0] == 1
    assert numbers[-1] <= min(rounds, horizon) + 1


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_any_plan_any_class_any_stream(name: str) -> None:
    make, cases, most = LEARNERS[name]
    games = scaled(most)
    changed = 0
    for seed in range(games):
        draw = random.Random(f"{name} {seed}")
        case = draw.choice(cases)
        cls, points = CASES[case]
        maker = make(draw, cls, seed)
        nulls = name != "plain" and draw.random() < 0.5
        target = draw.choice(TARGETS[case])
        rows = stream(draw, points, target, nulls)
        try:
            releases = one_game(draw, maker, rows, name != "plain")
        except Exception as problem:
            problem.add_note(f"game {seed} of {name}: {cls!r}, {rows!r}")
            raise
        changed += len(releases) > 1
    assert changed > games / 40, f"only {changed} games published anything"


def one_game(
    draw: random.Random, maker: Callable[[], Any], rows: list[Any], private: bool
) -> tuple[Release, ...]:
    """The same stream twice, in batches of other sizes: the same releases, each a beginning of the
    releases at the end."""
    games = []
    for sizes in (lambda: draw.choice([1, 2, 7, 40]), lambda: draw.choice([0, 0, 3])):
        learner = maker()
        promised = str(learner.guarantee) if private else ""
        total = learner.loop.gate.total if private else None
        seen: list[tuple[Any, ...]] = []

        def check(learner: Any = learner, promised: str = promised, total: Any = total) -> None:
            seen.append(learner.releases)  # noqa: B023
            if private:
                check_private(learner, promised, learner.rounds, total)

        play(learner, rows, sizes, check)
        final = learner.releases
        assert all(part == final[: len(part)] for part in seen), "what is published stays"
        check_releases(final, len(rows), learner.plan.horizon if private else len(rows))
        if private:
            assert learner.rounds == len(rows)
        games.append((final, learner.mistakes, getattr(learner, "ledger", None)))
    assert games[0] == games[1], "batches do not matter"
    published: tuple[Release, ...] = games[0][0]
    return published
