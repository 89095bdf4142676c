"""Private experts that draw or stay, replayed on neighbouring streams: the exact loss of long runs.

Enumeration covers all transcripts of a few rounds. Here one transcript of a long run is prescribed,
likely or not: which checks fire, and what each draw selects. The whole learner runs it on two
streams that differ in one round. The gaps of its checks and the scores of its draws give the exact
likelihood of the transcript on each, by summing over the threshold noise; what is public must be
the same on both.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import littlestone as ls
from effort import scaled
from littlestone._learners.experts import ExpertScores
from littlestone._learners.scores import MistakeCounts
from littlestone._learners.stay import StaySchedule
from littlestone._privacy import draws
from littlestone._privacy.gates import Gate, MistakesMonitor
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import Real

Row = tuple[int, bool] | None


class Replay(Noise):
    """Answers checks and draws by a script, which the first run of a pair writes."""

    def __init__(self, seed: int, script: list[Any] | None = None) -> None:
        self.draw, self.script, self.at = random.Random(seed), script or [], 0
        self.follows = script is not None
        self.fires, self.stays = self.draw.choice([0.02, 0.1, 0.5]), self.draw.choice([0, 0.5, 1])
        # Of each epoch of the monitor: its threshold noise's scale, and gap, scale and answer of
        # each check. Of each draw: its scores, its rate and the place drawn.
        self.epochs: list[tuple[Fraction, list[tuple[int, Fraction, bool]]]] = []
        self.draws: list[tuple[list[int], Fraction, int]] = []

    def laplace(self, scale: Fraction, at: Any) -> int:
        raise AssertionError("only one-sided noise is drawn")

    def uniform(self, below: int, at: Any) -> int:
        raise AssertionError("draws are prescribed")

    def geometric(self, scale: Fraction, at: Any) -> int:
        self.epochs.append((scale, []))
        return 0

    def exceeds(self, gap: int, scale: Fraction, at: Any, one_sided: bool) -> bool:
        # Some firings first: windows and draws at a public age come after four stays.
        likely = self.at < 8 or self.draw.random() < self.fires
        answer = bool(self.next(likely))
        self.epochs[-1][1].append((int(gap), scale, answer))
        return answer

    def select(self, scores: Any, rate: Fraction) -> int:
        stay = self.draw.random() < self.stays
        place = self.next(len(scores) - 1 if stay else self.draw.randrange(len(scores)))
        self.draws.append(([int(score) for score in scores], rate, place))
        return int(place)

    def next(self, choice: Any) -> Any:
        if not self.follows:
            self.script.append(choice)
        self.at += 1
        return self.script[self.at - 1]

    def likelihood(self) -> float:
        """The logarithm of the transcript's probability."""
        return sum(_epoch_likelihood(*epoch) for epoch in self.epochs) + sum(
            _draw_likelihood(*draw) for draw in self.draws
        )


def _epoch_likelihood(scale: Fraction, checks: list[tuple[int, Fraction, bool]]) -> float:
    width = float(scale)
    # Noise that cannot exceed its gap: a "no" needs a gap of at least 1.
    least = max([0, *(1 - gap for gap, _, fired in checks if not fired)])
    most = max([least, *(-gap for gap, _, _ in checks)]) + math.ceil(45 * width)
    noise = np.arange(least, most + 30, dtype=float)
    logs = math.log(-math.expm1(-1 / width)) - noise / width
    for gap, query, fired in checks:
        nats = (gap + noise) / float(query)
        logs += -np.maximum(nats, 0) if fired else np.log(-np.expm1(-nats))
    return float(np.logaddexp.reduce(logs))


def _draw_likelihood(scores: list[int], rate: Fraction, place: int) -> float:
    nats = np.array([float((score - max(scores)) * rate) for score in scores])
    return float(nats[place] - np.logaddexp.reduce(nats))


class World(NamedTuple):
    """What a trial runs: a plan, and two streams that differ in one round."""

    cls: ls.FiniteClass
    plan: ls.ExpertsPlan
    one: list[Row]
    other: list[Row]
    seed: int


def worlds(count: int) -> Iterator[World]:
    for seed in range(count):
        draw = random.Random(seed)
        points, size = 3, draw.randint(2, 8)
        tables = [[n >> at & 1 for at in range(points)] for n in draw.sample(range(8), size)]
        cls = ls.FiniteClass(tables)
        plan = ls.ExpertsPlan.practical(
            cls,
            draw.choice([1, 4]),
            1000,
            change_cost=draw.choice([1, 50]),
            min_rate=draw.choice([Fraction(1, 2), Fraction(1, 3), Fraction(2, 5)]),
        )
        plan = replace(
            plan,
            threshold=draw.choice([1, 4]),
            check_every=draw.choice([1, 2]),
            stay_nats=Fraction(draw.choice([0, 2])),
            free_charges=Fraction(draw.choice([0, 1])),
            epsilon_monitor=plan.epsilon * draw.choice([Fraction(1, 10), Fraction(9, 20)]),
        )
        one: list[Row] = [
            None if draw.random() < 0.05 else (draw.randrange(points), draw.random() < 0.5)
            for _ in range(draw.choice([6, 60]))
        ]
        replaced = draw.randrange(min(len(one), 20))
        fresh = draw.randrange(points), draw.random() < 0.5
        other = [*one[:replaced], fresh, *one[replaced + 1 :]]
        yield World(cls, plan, one, other, seed)


def replayed(world: World, rows: list[Row], noise: Replay) -> list[Any]:
    """What is public after each round."""
    learner = ls.PrivateExperts(world.cls, plan=world.plan, seed=world.seed, noise=noise)
    gate: Any = learner.loop.gate
    counts = cast(ExpertScores, learner.loop.state).counts
    assert isinstance(gate.schedule, StaySchedule)
    public = []
    for row in rows:
        if row is None:
            learner.skip_one()
        else:
            learner.learn_one(*row)
        penalties = np.asarray(counts.penalised).tolist()
        public.append(
            (learner.hypothesis, gate.schedule.tenure, gate.window_age, gate.epoch_age, penalties)
        )
    return public


def share_of_claim(
    monkeypatch: pytest.MonkeyPatch, count: int, enough: float = math.inf
) -> tuple[float, int]:
    """The largest loss, in units of epsilon, and how many draws were made at a public age."""

    def draw(scores: Any, rate: Fraction, noise: Replay, release: int) -> int:
        return noise.select(scores, rate)

    monkeypatch.setattr(draws, "draw_by_score", draw)
    worst, by_age = 0.0, 0
    for world in worlds(count):
        first = Replay(world.seed)
        seen = replayed(world, world.one, first)
        second = Replay(world.seed, first.script)
        if seen != replayed(world, world.other, second) or second.at != len(first.script):
            return math.inf, by_age
        loss = abs(first.likelihood() - second.likelihood())
        worst = max(worst, loss / float(world.plan.epsilon))
        fired = sum(answer for _, checks in first.epochs for *_, answer in checks)
        by_age += len(first.draws) - fired
        if worst > enough:
            break
    return worst, by_age


def test_long_runs_of_the_learner_are_within_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    worst, by_age = share_of_claim(monkeypatch, scaled(400, least=80))
    assert 0.8 < worst <= 1 + 1e-9
    assert by_age > 10


def counts_kept(patch: pytest.MonkeyPatch) -> None:
    """The mistakes survive a draw."""
    patch.setattr(MistakeCounts, "restart", lambda counts, published: None)


def loss_kept(patch: pytest.MonkeyPatch) -> None:
    """The monitor's loss survives its epoch."""
    begin = MistakesMonitor.restart

    def kept(self: MistakesMonitor) -> None:
        loss = self.mistakes
        begin(self)
        self.mistakes = loss

    patch.setattr(MistakesMonitor, "restart", kept)


def unit_noise(patch: pytest.MonkeyPatch) -> None:
    """The monitor has the noise of one unit, whatever a missed positive costs."""
    begin = MistakesMonitor.__init__

    def one_unit(self: MistakesMonitor, noise: Noise, *, epsilon: Real, cap: int = 1) -> None:
        begin(self, noise, epsilon=epsilon)

    patch.setattr(MistakesMonitor, "__init__", one_unit)


def standing_twice(patch: pytest.MonkeyPatch) -> None:
    """A mistake of the published rule counts twice against staying."""
    once = MistakeCounts.mistakes_of
    patch.setattr(MistakeCounts, "mistakes_of", lambda self, rule: 2 * once(self, rule))


def tenure_from_rows(patch: pytest.MonkeyPatch) -> None:
    """The tenure holds the true loss instead of the threshold that was reached."""
    draw = Gate._end_epoch

    def told(self: Gate[Any], scores: Any, fired: bool, aged: bool) -> Any:
        schedule = cast(StaySchedule, self.schedule)
        schedule.tenure = schedule.tenure._replace(loss=schedule.tenure.loss - float(scores[-1]))
        return draw(self, scores, fired, aged)

    patch.setattr(Gate, "_end_epoch", told)


@pytest.mark.parametrize(
    "plant", [counts_kept, loss_kept, unit_noise, standing_twice, tenure_from_rows]
)
def test_planted_faults_are_caught(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert share_of_claim(monkeypatch, 200, enough=1.1)[0] > 1.1
