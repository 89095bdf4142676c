"""PrivateExperts: equal to a twin that goes round by round; one round moves a score by one; and it
behaves as its user would expect."""

import copy
import math
import pickle
import random
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import littlestone as ls
from checks import check_gate
from classes import CASES, targets
from littlestone._classes.base import HypothesisClass, points_of
from littlestone._hypotheses.rows import as_batch, row_of
from littlestone._learners.experts import (
    ERROR_RATE,
    EVEN_SHARE,
    LARGEST_PENALTY,
    FixedSharePrior,
    _gate,
    mistakes_to_outweigh,
)
from littlestone._learners.scores import (
    DomainIndex,
    batch_of,
    index_key,
    mistake_counts,
    why_unsupported,
)
from littlestone._learners.stay import FORGIVEN_AFTER, StaySchedule
from littlestone._learners.tuning import firing_law
from littlestone._privacy.mechanism import MechanismMoved
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import mirror
from littlestone._simulate.games import play

Example = tuple[object, bool | None]
HORIZON, LENGTH = 240, 260
FINITE = [name for name, (cls, _) in CASES.items() if cls.size is not None]


def plan_for(cls: HypothesisClass, **changes: Any) -> ls.ExpertsPlan:
    """A plan that goes through many epochs on short streams."""
    plan = ls.ExpertsPlan.practical(cls, 6, HORIZON)
    return replace(plan, threshold=1, check_every=3, **changes)


PLANS: dict[str, dict[str, Any]] = {
    "tracking": {"change_cost": Fraction(0)},
    "staying": {"change_cost": Fraction(3), "stay_nats": Fraction(1), "free_charges": Fraction(1)},
    "tracking, costs": {"change_cost": Fraction(0), "min_rate": Fraction(1, 4)},
    "staying, costs": {"change_cost": Fraction(1), "min_rate": Fraction(2, 5)},
}


def stream_of(name: str, noise: float, seed: int) -> list[Example]:
    """A stream that changes its target half-way, with a few null rounds."""
    cls, points = CASES[name]
    draw = random.Random(seed)
    truths = draw.choices(targets(cls, points), k=2)
    xs = [draw.choice(points) for _ in range(LENGTH)]
    rules = [truths[2 * n // LENGTH] for n in range(LENGTH)]
    labelled = [(x, rule(x) != (draw.random() < noise)) for x, rule in zip(xs, rules, strict=True)]
    return [(x, None if draw.random() < 0.05 else y) for x, y in labelled]


class Twin:
    """Private experts in the plainest way: every rule asked about every round of an epoch."""

    def __init__(self, cls: HypothesisClass, plan: ls.ExpertsPlan, seed: int, noise: Any) -> None:
        self.rules = list(cls.hypotheses())
        self.points = points_of(cls.domain())
        self.weights = np.full(len(self.rules), 1 / len(self.rules))
        self.plan = plan
        self.gate = _gate(plan, len(self.rules), noise)
        self.rule = ls.PrivateExperts(cls, plan=plan, seed=seed).hypothesis
        self.releases = [(1, self.rule)]
        self.shown: list[tuple[object, bool]] = []
        self.t = self.mistakes = self.recent = 0
        self.charged, self.charged_at = 0.0, 0

    def loss(self, rule: ls.Hypothesis, x: object, y: bool) -> int:
        """What a rule loses on a row: 1 - min_rate if it misses a positive, min_rate if it alarms,
        in whole units."""
        if rule(x) == y:
            return 0
        rate = self.plan.min_rate
        return rate.denominator - rate.numerator if y else rate.numerator

    def step(self, x: object, y: bool | None) -> None:
        if y is not None:
            self.mistakes += self.rule(x) != y
            self.recent += self.loss(self.rule, x, y)
            self.shown.append((x, y))
        self.t += 1
        if self.t > self.plan.horizon or self.t % self.plan.check_every:
            return
        nats = np.log(self.weights.max() / self.weights)
        penalties = np.round(nats / float(self.plan.rate)).astype(int)
        mistakes = [sum(self.loss(rule, x, y) for x, y in self.shown) for rule in self.rules]
        if isinstance(self.gate.schedule, StaySchedule):
            tenure = self.gate.schedule.tenure
            named = self.gate.published in map(index_key, range(len(self.rules)))
            penalties -= penalties[int.from_bytes(self.gate.published)] if named else 0
            penalties += self.plan.stay_penalty(tenure.refusals) + tenure.margin
        scores = [-m - p for m, p in zip(mistakes, penalties.tolist(), strict=True)]
        if isinstance(self.gate.schedule, StaySchedule):
            scores.append(-sum(self.loss(self.rule, x, y) for x, y in self.shown))
        fired, key = check_gate(self.gate, self.recent, scores)
        self.recent = 0
        if fired:
            self.shown = []
        if key is not None and self.rules[int.from_bytes(key)] != self.rule:
            old, self.rule = self.rule, self.rules[int.from_bytes(key)]
            self.releases.append((self.t + 1, self.rule))
            self.update_prior(old, self.rule)
        if fired and isinstance(self.gate.schedule, StaySchedule):
            beyond = self.charges() - float(self.plan.free_charges)
            units = self.plan.min_rate.denominator - self.plan.min_rate.numerator
            self.gate.schedule.set_margin(
                int(float(self.plan.change_cost) * max(0.0, beyond)) * units
            )

    def charges(self) -> float:
        """The weights that changes contradicted, less what was forgiven since."""
        if not self.plan.change_cost:
            return 0.0
        forgiven = (self.t - self.charged_at) / (FORGIVEN_AFTER * float(self.plan.change_cost))
        return max(0.0, self.charged - forgiven)

    def update_prior(self, old: ls.Hypothesis, new: ls.Hypothesis) -> None:
        """Bayes' rule, with a little shared out."""
        telling = [x for x in self.points if old(x) != new(x)]
        siding = np.array([all(rule(x) == old(x) for x in telling) for rule in self.rules])
        self.charged, self.charged_at = self.charges() + self.weights[siding].sum(), self.t
        for place, sides in enumerate(siding):
            self.weights[place] *= ERROR_RATE if sides else 1 - ERROR_RATE
        size = len(self.rules)
        self.weights = (1 - EVEN_SHARE) * self.weights / self.weights.sum() + EVEN_SHARE / size


def fed(learner: ls.PrivateExperts, stream: list[Example], size: int) -> None:
    """The stream in batches of a size; 0 is one by one."""
    if size == 0:
        for x, y in stream:
            if y is None:
                learner.skip_one()
            else:
                assert learner.predict_one(x) == learner.hypothesis(x)
                learner.learn_one(x, y)
        return
    for at in range(0, len(stream), size):
        xs, ys = zip(*stream[at : at + size], strict=True)
        learner.learn_many(list(xs), list(ys), bad_rows="null")


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("name", FINITE)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_the_learner_is_its_twin_however_it_is_batched(name: str, kind: str) -> None:
    cls, _ = CASES[name]
    plan, stream = plan_for(cls, **PLANS[kind]), stream_of(name, 0.3, seed=2)
    twin = Twin(cls, plan, 5, SeededNoise(3))
    for x, y in stream:
        twin.step(x, y)
    assert twin.gate.releases_made > 3, "the twin has not come to later epochs"
    for size in (0, 1, 7, LENGTH):
        learner = ls.PrivateExperts(cls, plan=plan, seed=5, noise=SeededNoise(3))
        fed(learner, stream, size)
        assert list(learner.releases) == twin.releases
        assert learner.mistakes == twin.mistakes
        assert learner.ledger == twin.gate.ledger
        assert learner.spent == learner.ledger[0].cost + learner.ledger[-1].cost
        assert learner.rounds == LENGTH
        assert learner.null_rounds == sum(y is None for _, y in stream)


@pytest.mark.parametrize("name", FINITE)
def test_mistake_counts_count_the_mistakes_of_every_rule(name: str) -> None:
    cls, points = CASES[name]
    found, draw = mistake_counts(cls), random.Random(1)
    rules = list(cls.hypotheses())
    assert [found.rule(n) for n in range(found.size)] == rules
    shown: list[tuple[object, bool]] = []
    for _ in range(4):
        some = [(draw.choice(points), draw.random() < 0.5) for _ in range(9)]
        batch = as_batch([x for x, _ in some])
        found.learn(found.index(batch), np.array([y for _, y in some]))
        shown += some
        assert found.mistakes.tolist() == [sum(r(x) != y for x, y in shown) for r in rules]
    found.restart(rules[0])
    assert not found.mistakes.any()


@pytest.mark.parametrize("name", FINITE)
def test_a_replaced_round_moves_every_score_by_one_at_most(name: str) -> None:
    cls, points = CASES[name]
    for one in points:
        for other in points:
            scores = []
            for x, y in ((one, True), (other, False)):
                found = mistake_counts(cls)
                found.learn(found.index(as_batch([x])), np.array([y]))
                scores.append(found.mistakes)
            assert np.abs(scores[0] - scores[1]).max() <= 1


@pytest.mark.parametrize("name", FINITE)
def test_rules_that_side_with_a_dropped_one_are_found(name: str) -> None:
    cls, _ = CASES[name]
    found, points, draw = mistake_counts(cls), points_of(cls.domain()), random.Random(3)
    rules = [found.rule(index) for index in range(found.size)]
    for _ in range(10):
        old, new = draw.sample(rules, 2)
        telling = [x for x in points if old(x) != new(x)]
        wanted = [all(rule(x) == old(x) for x in telling) for rule in rules]
        assert found.agreement_with(old, new).tolist() == wanted


def test_what_was_published_is_remembered_though_the_data_is_not() -> None:
    """The mirror leads a learner without a prior round in circles: planted, by a prior that never
    learns."""
    cls = ls.Thresholds(1, 255)

    def mistakes(seed: int) -> int:
        learner = ls.PrivateExperts(cls, 1, 3000, seed=seed, noise=SeededNoise(seed))
        return play(learner, mirror(cls, 3000, seed), 3000).mistakes

    with_prior = [mistakes(seed) for seed in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FixedSharePrior, "drop", lambda self, agreement: 0.0)
        forgetting = [mistakes(seed) for seed in range(3)]
    assert max(with_prior) < 600
    assert min(forgetting) > 2 * max(with_prior)


def test_a_prior_gives_way_when_the_truth_changes() -> None:
    prior, low = FixedSharePrior(100), np.arange(100) < 50
    for _ in range(50):
        prior.drop(low)
    assert 10 < prior.penalties(Fraction(1, 4)).max() <= round(4 * math.log(2 / EVEN_SHARE))
    for _ in range(4):
        prior.drop(~low)
    assert prior.penalties(Fraction(1, 4))[0] == 0


@given(st.lists(st.sampled_from([-7, 0, 0.25, 1, 2.5, 3, 1e300, None, float("nan"), True])))
def test_numbers_are_placed_as_their_grid_does(values: list[Any]) -> None:
    for cls in (
        ls.Thresholds(0, 3),
        ls.Thresholds(0, 3, 0.25),
        ls.Thresholds(-0.3, 2.5, 0.1),
        ls.Thresholds(-(2**60), 2**60, 2**58),
    ):
        index = DomainIndex(cls)
        column = np.array([*values, 0], dtype=object)
        wanted = [cls.grid.place(value) for value in column]
        assert index(column).tolist() == wanted
        floats = np.array([np.nan if v is None else float(v) for v in column])
        assert index(floats).tolist() == wanted
        ints = np.array([0, 1, 2, 2**62, -5])
        assert index(ints).tolist() == [cls.grid.place(value) for value in ints]


def test_equal_tuples_of_different_values_lie_at_points_of_their_own() -> None:
    values: list[Any] = [(1,), (True,), (1.0,)]
    index = DomainIndex(ls.FiniteClass([[0, 1, 0], [1, 0, 0]], points=values))
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        column = np.empty(3, dtype=object)
        column[:] = [values[place] for place in order]
        assert index(column).tolist() == order


def test_a_row_that_lies_nowhere_tells_nothing() -> None:
    class Half(ls.FiniteClass):
        def domain(self) -> Any:
            return {None: self._points[:2]}

    found = mistake_counts(Half([[0, 1, 0], [1, 0, 1]]))
    found.learn(found.index(np.array([2, 0])), np.array([True, True]))
    assert found.mistakes.tolist() == [1, 0]


@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_the_guarantee_is_pure() -> None:
    learner = ls.PrivateExperts(ls.Thresholds(1, 9), epsilon=0.7, horizon=50)
    assert (learner.guarantee.epsilon, learner.guarantee.delta) == (0.7, 0.0)
    learner.learn_many([1, 9] * 400, [1, 0] * 400)
    assert (learner.guarantee.epsilon, learner.guarantee.delta) == (0.7, 0.0)
    assert learner.spent.epsilon <= Fraction(0.7)
    assert learner.final == "the horizon of 50 rounds is reached: nothing changes any more"


def test_it_learns_and_forgets_a_stream_that_changes() -> None:
    cls = ls.Thresholds(1, 100, column="score")
    learner = ls.PrivateExperts(cls, 1, 40_000, seed=1, noise=SeededNoise(1))
    draw = np.random.default_rng(1)
    scores = draw.integers(1, 101, 40_000)
    cut = np.where(np.arange(40_000) < 20_000, 30, 80)
    learner.learn_many({"score": scores}, scores >= cut)
    assert learner.mistakes < 400
    assert 70 <= int(str(learner.hypothesis).split()[-1]) <= 90


@pytest.mark.parametrize(
    "cls", [ls.Points(), ls.Rules(["a", "b"]), ls.Union(ls.Points(), ls.Sets(2))]
)
def test_a_class_without_end_gets_a_sentence_that_names_the_learner_to_use(cls: Any) -> None:
    with pytest.raises(ls.TooLarge, match="DPSOA"):
        ls.PrivateExperts(cls, 1, 100)


def test_a_table_too_large_to_write_out_gets_a_sentence() -> None:
    large = ls.Conjunctions([f"c{n}" for n in range(12)])
    assert "cells" in str(why_unsupported(large))
    with pytest.raises(ls.TooLarge, match="4,000,000 rules"):
        ls.PrivateExperts(ls.Intervals(1, 5_000), 1, 100)
    with pytest.raises(ls.TooLarge, match="4,000,000 rules"):
        ls.PrivateExperts(ls.Complement(ls.Intervals(1, 5_000)), 1, 100)


def test_a_million_cuts_are_weighed_without_a_table() -> None:
    cls = ls.Thresholds(1, 10**6)
    learner = ls.PrivateExperts(cls, 4, 50_000, seed=1, noise=SeededNoise(1))
    scores = np.random.default_rng(1).integers(1, 10**6 + 1, 50_000)
    learner.learn_many(scores, scores >= 300_000)
    cut = int(str(learner.hypothesis).split()[-1])
    assert abs(cut - 300_000) < 20_000


def test_it_goes_forward_only_and_an_interrupted_one_learns_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = ls.PrivateExperts(ls.Thresholds(1, 9), 1, 100)
    with pytest.raises(TypeError):
        copy.deepcopy(learner)
    with pytest.raises(TypeError):
        pickle.dumps(learner)
    monkeypatch.setattr(learner.loop, "advance", None)
    with pytest.raises(TypeError):
        learner.learn_many([1] * 50, [1] * 50)
    with pytest.raises(MechanismMoved):
        learner.learn_one(1, 1)
    with pytest.raises(MechanismMoved):
        learner.skip_one()
    assert learner.predict_many([1, 9]).shape == (2,)


def test_a_bad_batch_changes_nothing_and_what_is_asked_twice_must_agree() -> None:
    learner = ls.PrivateExperts(ls.Thresholds(1, 9), 1, 100)
    with pytest.raises(ls.BadExample):
        learner.learn_many([1, "x"], [0, 1])
    with pytest.raises(ls.BadExample):
        learner.learn_one("x", 1)
    assert learner.rounds == 0
    with pytest.raises(ValueError, match="conflicts with the plan"):
        ls.PrivateExperts(ls.Thresholds(1, 9), 2, plan=learner.plan)
    with pytest.raises(ValueError, match="give horizon, or a plan"):
        ls.PrivateExperts(ls.Thresholds(1, 9), 2)
    with pytest.raises(ValueError, match="first is"):
        ls.PrivateExperts(ls.Thresholds(1, 9), 2, 9, first=cast(Any, "best"))


def test_the_first_rule_is_the_seeds_or_the_classes_own() -> None:
    cls = ls.Thresholds(1, 1000)
    drawn = {ls.PrivateExperts(cls, 1, 9, seed=n).hypothesis for n in range(20)}
    assert len(drawn) > 15
    assert all(rule in cls for rule in drawn)
    own = ls.PrivateExperts(cls, 1, 9, first="own")
    assert own.hypothesis == cls.hypothesis(cls.start())


def test_points_are_in_the_order_of_the_domain() -> None:
    cls = ls.Conjunctions(["a", "b", "c"])
    index = DomainIndex(cls)
    rows = points_of(index.domain)
    assert index(as_batch(rows)).tolist() == list(range(8))


def test_the_points_of_a_domain_are_the_same_one_by_one_and_at_once() -> None:
    for name in FINITE:
        index = DomainIndex(CASES[name][0])
        if index.domain:
            rows, batch = points_of(index.domain), batch_of(index.domain)
            assert [row_of(batch, n) for n in range(len(rows))] == rows


@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
def test_the_threshold_covers_what_the_noise_takes_off(epsilon: float) -> None:
    """In a burst few firings come too early; in a trickle no more than about half of them."""
    plan = ls.ExpertsPlan.practical(ls.Thresholds(1, 1023), epsilon, 10**6, change_cost=0)
    rate, wanted = (
        float(plan.epsilon_monitor),
        mistakes_to_outweigh(float(plan.epsilon_selector), math.log(2)),
    )
    early = []
    for pace in (1, 4096):
        thresholds = partial(plan.schedule(), refusals=0)
        law = firing_law(rate, thresholds, plan.check_every, pace)
        early.append(float(law.chance[law.mistakes < wanted].sum()))
    assert early[0] < 0.3
    assert early[1] < 0.7


def test_penalties_do_not_wrap_around_at_any_rate() -> None:
    """With a rate of 4e-19 a prior of a few nats is worth more mistakes than 64 bits hold."""
    prior = FixedSharePrior(4)
    prior.drop(np.array([True, True, False, False]))
    found = prior.penalties(Fraction(1, 10**19))
    assert found.tolist() == [LARGEST_PENALTY, LARGEST_PENALTY, 0, 0]


def test_a_stream_goes_on_at_any_change_cost() -> None:
    """The margin is at its bound after a few changes, and the thresholds are above it."""
    learner = ls.PrivateExperts(
        ls.Thresholds(1, 9),
        8,
        20_000,
        change_cost=2**40,
        min_rate=0.45,
        seed=1,
        noise=SeededNoise(0),
    )
    scores = np.random.default_rng(0).integers(0, 10, 20_000)
    cut = np.where(np.arange(20_000) // 200 % 2, 2, 8)
    learner.learn_many(scores, scores >= cut)
    assert learner.rounds == 20_000
    assert cast(Any, learner.loop.gate).schedule.tenure.margin == LARGEST_PENALTY


@pytest.mark.parametrize("change_cost", [0, 50])
@pytest.mark.parametrize("threshold", [2**41, 2**70])
def test_a_threshold_beyond_reach_leaves_the_first_rule(threshold: int, change_cost: int) -> None:
    plan = replace(
        ls.ExpertsPlan.practical(ls.Thresholds(1, 9), 4, 400, change_cost=change_cost),
        threshold=threshold,
    )
    learner = ls.PrivateExperts(ls.Thresholds(1, 9), plan=plan)
    learner.learn_many([1, 9] * 200, [1, 0] * 200)
    assert len(learner.releases) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon_monitor": 1 - Fraction(1, 10**400)},
        {"change_cost": Fraction(1, 10**400)},
        {"stay_nats": Fraction(10**400)},
        {"free_charges": Fraction(10**400)},
    ],
)
def test_a_plan_beyond_what_floats_hold_is_refused(change: dict[str, Any]) -> None:
    """A rate that is 0 as a float would make penalties of 0 / 0 mistakes, which wrap around."""
    with pytest.raises(ls.BadParameter):
        replace(ls.ExpertsPlan.practical(ls.Thresholds(1, 9), 1, 400), **change)
