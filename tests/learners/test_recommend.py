"""Recommendations: by class and budget alone, and what is recommended can be made."""

import pytest

import littlestone as ls
from classes import CASES
from littlestone._learners.registry import Terms, make_learner


@pytest.mark.parametrize("name", CASES)
def test_causes_a_finite_class_and_any_other_get_their_learner(name: str) -> None:
    cls, points = CASES[name]
    found = ls.recommend(cls, 1, 1e-6, 1000)
    if isinstance(cls, ls.Causes):
        assert found.learner_name == "PrivateCauses"
    else:
        assert found.learner_name == ("DPSOA" if cls.size is None else "PrivateExperts")
    assert 1 <= found.why.count(". ") <= 2
    learner = found.make()
    assert type(learner).__name__ == found.learner_name
    learner.learn_one(points[0], 1)
    assert learner.guarantee.epsilon == 1.0


def test_users_and_classes_too_large_get_a_forest() -> None:
    users = ls.recommend(ls.Thresholds(1, 9), 1, 1e-6, 1000, unit="user", cap=3)
    assert users.learner_name == "DPSOA"
    assert users.make().guarantee.unit == "user"
    large = ls.recommend(ls.Conjunctions([f"c{n}" for n in range(12)]), 1, 1e-6, 1000)
    assert large.learner_name == "DPSOA"
    assert "531,442 rules" in large.why


def test_experts_begin_with_the_classes_own_rule_as_votes_do() -> None:
    cls = ls.Thresholds(1, 1000)
    made = {ls.recommend(cls, 1, 1e-6, 1000).make().hypothesis for _ in range(4)}
    terms = Terms(cls=cls, epsilon=1, delta=1e-6, horizon=1000)
    competing = {make_learner("auto", terms, seed=seed).hypothesis for seed in range(4)}
    assert made == competing == {cls.hypothesis(cls.start())}


def test_a_change_cost_is_passed_on_and_bad_budgets_are_refused() -> None:
    made = ls.recommend(ls.Thresholds(1, 9), 1, 1e-6, 1000, change_cost=7).make()
    assert isinstance(made, ls.PrivateExperts)
    assert made.plan.change_cost == 7
    with pytest.raises(ValueError, match="epsilon"):
        ls.recommend(ls.Thresholds(1, 9), 0, 1e-6, 1000)
    with pytest.raises(ValueError, match="delta"):
        ls.recommend(ls.Thresholds(1, 9), 1, 0, 1000)
