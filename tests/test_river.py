"""River: its own checks on every adapter, its pipelines, and what a learner refuses."""

import copy
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import compose, datasets, ensemble, evaluate, metrics, preprocessing, utils
from river.checks import check_estimator, yield_checks
from river.datasets import synth

import littlestone as ls
from littlestone import river
from littlestone._privacy.accounting import Cost
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone.paper import AdaptiveDPSOA

PRIVATE = list(river.PrivateClassifier._unit_test_params())
POPULAR = ls.Thresholds(0, 1, 0.5, column="is_popular")
RULES = ls.Rules(["version", "country"])


def models() -> Iterator[Any]:
    """A model of every kind, as River's checks are given it."""
    for kind in (river.PrivateClassifier, river.SOAClassifier):
        for params in kind._unit_test_params():
            yield kind(**params)


def named(model: Any) -> str:
    return getattr(model, "learner", "soa")


def checks() -> Iterator[Any]:
    """Every check that applies, with its model; a check on several datasets is numbered."""
    for model in models():
        skipped, seen = model._unit_test_skips(), dict[str, int]()
        for check in yield_checks(model):
            name = check.__name__
            seen[name] = seen.get(name, 0) + 1
            if name not in skipped:
                yield pytest.param(model, check, id=f"{named(model)}-{name}-{seen[name]}")


@pytest.mark.parametrize(("model", "check"), list(checks()))
def test_river_checks(model: Any, check: Callable[[Any], None]) -> None:
    check(model.clone())


@pytest.mark.slow
def test_river_checks_the_whole_at_once() -> None:
    check_estimator(next(models()))


@pytest.mark.parametrize("model", list(models()), ids=named)
def test_only_the_listed_checks_are_skipped(model: Any) -> None:
    skipped = model._unit_test_skips()
    listed = set() if named(model) == "soa" else set(river.NOT_APPLICABLE)
    if named(model) == "experts":
        listed |= set(river.NOISY)
    assert skipped == listed
    assert skipped <= {check.__name__ for check in yield_checks(model)}


@pytest.mark.parametrize("name", river.NOT_APPLICABLE)
def test_what_is_skipped_would_be_refused_for_the_reason_given(name: str) -> None:
    model = next(models())
    refused = [check for check in yield_checks(model) if check.__name__ == name]
    for check in refused:
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            check(model.clone())


class WithSeededNoise(river.PrivateClassifier):
    """A model whose noise is not secret, and the same in every run."""

    @property
    def _noise(self) -> SeededNoise:  # type: ignore[override]
        return SeededNoise(7)


@pytest.mark.parametrize("epsilon", [1, 1000])
@pytest.mark.parametrize("name", river.NOISY)
def test_what_is_left_to_the_noise_passes_when_the_noise_is_the_same(
    name: str, epsilon: float
) -> None:
    given: dict[str, Any] = {"horizon": 2000, "learner": "experts", "learners": river.MANY}
    model = WithSeededNoise(POPULAR, epsilon * river.MANY, **given)
    found = [check for check in yield_checks(model) if check.__name__ == name]
    assert found
    for check in found:
        check(model.clone())


def begun() -> river.PrivateClassifier:
    """A private model that has learned a row."""
    model = river.PrivateClassifier(ls.Points("m"), epsilon=1, delta=1e-6, horizon=100)
    model.learn_one({"m": "a"}, True)
    return model


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_model_that_has_begun_is_not_copied(copying: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="cannot be"):
        copying(begun())
    with pytest.raises(TypeError, match="cannot be copied"):
        begun().clone(include_attributes=True)


def test_a_clone_has_not_begun() -> None:
    model = river.PrivateClassifier(ls.Points("m"), epsilon=1, delta=1e-6, horizon=100, learners=2)
    model.learn_one({"m": "a"}, True)
    clone = model.clone()
    assert clone._get_params() == model._get_params()
    assert clone.learner_.rounds == 0
    assert model.learner_.rounds == 1


COPIES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda model: model.clone(),
    "clone with more": lambda model: model.clone({"epsilon": 1000}),
    "clone with attributes": lambda model: model.clone(include_attributes=True),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "pipeline": lambda model: (compose.Select("m") | model).clone()["PrivateClassifier"],
    "grid": lambda model: utils.expand_param_grid(model, {"seed": [1]})[0],
    "ensemble": lambda model: ensemble.BaggingClassifier(model, n_models=2, seed=1)[1],
}


@pytest.mark.parametrize("copying", COPIES.values(), ids=COPIES)
def test_a_copy_is_not_a_second_budget(copying: Callable[[Any], Any]) -> None:
    model = river.PrivateClassifier(ls.Points("m"), epsilon=1, delta=1e-6, horizon=100)
    other = copying(model)
    model.learn_one({"m": "a"}, True)
    for late in (other, copying(other)):
        with pytest.raises(BadParameter, match="is left of the budget"):
            late.learn_one({"m": "a"}, True)


def test_a_budget_is_split_among_learners() -> None:
    model = river.PrivateClassifier(ls.Points("m"), epsilon=1, delta=1e-6, horizon=100, learners=3)
    bag = ensemble.BaggingClassifier(model, n_models=4, seed=1)
    for one in bag.models[:3]:
        assert one.learner_.plan.epsilon == Fraction(1, 3)
        assert one.learner_.plan.delta == Fraction(1e-6) / 3
    with pytest.raises(BadParameter, match="say learners=N before the first"):
        bag.learn_one({"m": "a"}, True)


def test_parameters_are_kept_as_given() -> None:
    cls = ls.Points("m")
    model = river.PrivateClassifier(cls, learner="dpsoa", change_cost=7, seed=3)
    assert model.cls is cls
    assert (model.learner, model.change_cost) == ("dpsoa", 7)
    assert (model.epsilon, model.user, model.seed) == (None, None, 3)
    with pytest.raises(BadParameter, match="give horizon"):
        model.learn_one({"m": "a"}, True)


def test_a_pipeline_is_evaluated() -> None:
    experts = river.PrivateClassifier(POPULAR, 4, horizon=1250, learner="experts")
    model = compose.Select("is_popular") | experts
    accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert model["PrivateClassifier"].learner_.rounds == 1250
    assert accuracy.get() > 0.5


def test_a_pipeline_may_make_the_column() -> None:
    scaled = preprocessing.Binarizer(0.4) | river.PrivateClassifier(
        ls.Rules(["is_popular", "https"]), epsilon=4, delta=1e-6, horizon=1250
    )
    evaluate.progressive_val_score(datasets.Phishing(), scaled, metrics.Accuracy())
    assert scaled["PrivateClassifier"].learner_.null_rounds == 0


def test_clones_in_an_ensemble_are_learners_of_their_own() -> None:
    bag = ensemble.BaggingClassifier(river.SOAClassifier(POPULAR), n_models=3, seed=1)
    for x, y in datasets.Phishing().take(50):
        bag.learn_one(x, y)
    assert len({id(model.learner_) for model in bag.models}) == 3


def test_a_row_that_cannot_be_read_is_a_null_round_without_a_prediction() -> None:
    model = river.PrivateClassifier(ls.Thresholds(0, 9, 1, "s"), epsilon=1, delta=1e-6, horizon=100)
    model.learn_one({"t": 1}, True)
    model.learn_one({"s": "text"}, False)
    model.learn_many(pd.DataFrame({"t": [1, 2]}), pd.Series([True, False]))
    model.learn_many(pd.DataFrame({"s": [3, "text"]}), pd.Series([True, False]))
    assert (model.learner_.rounds, model.learner_.null_rounds) == (6, 5)
    assert model.predict_one({"t": 1}) is None
    assert model.predict_proba_one({"t": 1}) == {}
    assert model.predict_many(pd.DataFrame({"t": [1, 2]})).tolist() == [None, None]
    said = model.predict_many(pd.DataFrame({"s": [9, "text"]}, index=[5, 6]))
    assert said.index.tolist() == [5, 6]
    assert said.tolist() == [model.predict_one({"s": 9}), None]
    assert model.predict_proba_many(pd.DataFrame({"s": [9, "text"]})).isna()[True].tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("params", PRIVATE, ids=lambda params: params["learner"])
def test_every_private_model_gives_a_null_round_its_number(params: dict[str, Any]) -> None:
    model = river.PrivateClassifier(**params)
    model.learn_one({"other": 1}, True)
    model.learn_many(pd.DataFrame({"other": [1, 2]}), pd.Series([True, False]))
    model.learn_many(pd.DataFrame({"is_popular": [1, "text"]}), pd.Series([True, False]))
    assert (model.learner_.rounds, model.learner_.null_rounds) == (5, 4)


def test_a_label_that_is_none_makes_a_null_round() -> None:
    model = begun()
    before = model.learner_.rounds, model.learner_.null_rounds
    model.learn_one({"m": "a"}, "yes")
    model.learn_many(pd.DataFrame({"m": ["a", "b"]}), pd.Series([1, 2]))
    assert (model.learner_.rounds, model.learner_.null_rounds) == (before[0] + 3, before[1] + 2)
    with pytest.raises(ls.BadExample, match="2 examples and 1 labels"):
        model.learn_many(pd.DataFrame({"m": ["a", "b"]}), pd.Series([1]))
    with pytest.raises(ls.BadExample, match="2 examples and 1 labels"):
        model.learn_many(pd.DataFrame({"n": ["a", "b"]}), pd.Series([1]))
    assert model.learner_.rounds == before[0] + 3


def test_users_come_from_a_column() -> None:
    model = river.PrivateClassifier(ls.Points("m"), 1, 1e-6, 100, user="who", cap=2)
    assert model.learner_.guarantee.unit == "user"
    for _ in range(3):
        model.learn_one({"m": "a", "who": "alice"}, True)
    model.learn_one({"m": "a"}, True)
    assert model.learner_.null_rounds == 2, "one above the cap, one without a user"
    frame = pd.DataFrame({"m": ["a", "b", "c"], "who": ["alice", "bob", None]})
    model.learn_many(frame, pd.Series([1, 0, 0]))
    model.learn_many(frame[["who"]], pd.Series([1, 0, 0]))
    model.learn_one({"m": object(), "who": "bob"}, True)
    assert (model.learner_.rounds, model.learner_.null_rounds) == (11, 8)


def test_predictions_agree_one_by_one_and_in_a_batch() -> None:
    model = river.SOAClassifier(POPULAR)
    rows = list(datasets.Phishing().take(100))
    for x, y in rows:
        model.learn_one(x, y)
    frame = pd.DataFrame([x for x, _ in rows])
    assert model.predict_many(frame).tolist() == [model.predict_one(x) for x, _ in rows]


def test_a_learner_is_fed_from_a_dataset() -> None:
    learner = ls.PrivateExperts(POPULAR, epsilon=1, horizon=1000)
    assert river.feed(learner, datasets.Phishing()) == learner.rounds == 1000
    assert river.feed(learner, datasets.Phishing()) == 0
    assert river.feed(ls.SOA(POPULAR), datasets.Phishing(), 10) == 10


def test_a_stream_without_end_needs_a_horizon() -> None:
    learner = ls.SOA(ls.Thresholds(0, 10, 1, "0"))
    with pytest.raises(ValueError, match="give horizon"):
        river.feed(learner, synth.SEA(seed=1))
    rows = (({str(k): v for k, v in x.items()}, y) for x, y in synth.SEA(seed=1))
    assert river.feed(learner, rows, 5000) == learner.rounds == 5000


def test_rows_of_a_stream_that_cannot_be_read_are_null_rounds() -> None:
    learner = ls.DPSOA(ls.Points("m"), 1, 1e-6, 100)
    river.feed(learner, [({"m": "a"}, 1), ({"n": 1}, 0), ({"m": "a"}, np.bool_(True))])
    assert (learner.rounds, learner.null_rounds) == (3, 1)


def test_rows_may_differ_in_columns_that_nobody_reads() -> None:
    """River's own checks found a learner that stopped at them, in the middle of a step."""
    for cls in (ls.Points("m"), ls.Union(ls.Points("m"), ls.Thresholds(0, 1, 1, "m"))):
        learner = AdaptiveDPSOA(cls, epsilon=10**6, delta=1e-6, horizon=50, trees=10)
        for x in ({"m": 1, "n": 2}, {"m": 1}, {"o": 3, "m": 1}):
            learner.learn_one(x, True)
        learner.learn_many({"m": [1, 0], "p": [3, 3]}, [1, 0])
        assert learner.rounds == 5
    ls.SOA(ls.Points("m")).learn_many([{"m": 1, "p": 3}, {"m": 0, "q": 3}], [1, 0])


def test_what_was_learned_does_not_change_with_the_array_it_came_in() -> None:
    learner = AdaptiveDPSOA(ls.Points(), 400, 1e-6, 500, seed=1)
    values = np.full(learner.plan.first - 1, 7)
    learner.learn_many(values, np.ones(len(values)))
    values[:] = 8
    learner.learn_many(np.full(10, 9), np.zeros(10))
    assert {str(rule) for rule, _ in learner.trace[-1].votes} == {"never", "x = 7"}


def test_one_odd_row_of_a_list_is_a_null_round() -> None:
    rows: list[Any] = [{"m": "a", "n": 1}, {"n": 1}, None, 7, {"m": object()}, {"m": "a"}]
    private = river.PrivateClassifier(ls.Points("m"), 1, 1e-6, 100)
    for model in (river.SOAClassifier(ls.Points("m")), private):
        model.learn_many(rows, [1, 1, 1, 1, 1, "maybe"])
        for x in rows:
            model.learn_one(x, 0)
        said = [model.predict_one(x) for x in rows]
        assert model.predict_many(rows).tolist() == said
        assert model.predict_proba_many(rows)[True].isna().tolist() == [one is None for one in said]
    assert (model.learner_.rounds, model.learner_.null_rounds) == (12, 9)


NO_USER: list[Any] = [object(), 10**5000, float("nan"), np.float64("nan"), "", None, pd.NA, [1]]


@pytest.mark.parametrize("user", NO_USER, ids=lambda user: type(user).__name__)
def test_a_user_without_a_name_makes_one_null_round(user: object) -> None:
    """One by one, in a list, in a frame; as in a file, what is missing or empty is nobody."""
    rows = [{"m": "a", "who": "alice"}, {"m": "a", "who": user}]
    model = river.PrivateClassifier(ls.Points("m"), 1, 1e-6, 100, user="who", cap=4)
    for x in [*rows, {"m": object(), "who": user}]:
        model.learn_one(x, True)
    model.learn_many(rows, [1, 1])
    frame = pd.DataFrame(rows, dtype=object)
    model.learn_many(frame, [1, 1])
    model.learn_many(frame[["who"]], [1, 1])
    assert (model.learner_.rounds, model.learner_.null_rounds) == (9, 6)
    assert model.learner_.beyond_cap == 0
    model.learn_one(rows[0], True)
    assert model.learner_.beyond_cap == 1, "alice had four rounds, and nobody none"
    with pytest.raises(ls.BadExample):
        model.learner_.learn_one({"m": "a"}, 1, user)
    with pytest.raises(ls.BadExample, match="row 1"):
        model.learner_.learn_many(rows, [1, 1], ["alice", user])
    assert model.learner_.rounds == 10


def test_causes_are_learned_one_by_one_and_in_batches() -> None:
    """With noise that is the same both ways give the same releases, per user too."""

    causes = ls.Causes(["version", "country"], width=2)
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "version": draw.choice(["4.2.0", "4.2.1", "4.3.0"], 3000),
            "country": draw.choice(["SE", "NO"], 3000),
            "who": draw.choice([f"user {n}" for n in range(2500)], 3000),
        }
    )
    failed = pd.Series((frame["version"] == "4.2.1") & (draw.random(3000) < 0.6))
    settings: list[dict[str, Any]] = [{}, {"user": "who", "cap": 3}]
    for more in settings:
        given: dict[str, Any] = {"epsilon": 12, "delta": 1e-4, "horizon": 3000, "min_rate": 0.3}
        one_by_one, batched = (WithSeededNoise(causes, **given, **more) for _ in range(2))
        for x, y in zip(frame.to_dict("records"), failed, strict=True):
            one_by_one.learn_one(x, y)
        for start in range(0, 3000, 700):
            part = slice(start, start + 700)
            batched.learn_many(frame.iloc[part], failed.iloc[part])
        assert one_by_one.learner_.releases == batched.learner_.releases
        assert one_by_one.learner_.windows == batched.learner_.windows
        assert str(batched.learner_.hypothesis) == "version = '4.2.1'"
        assert batched.learner_.evidence[0].estimate.rate is not None


def test_a_model_of_causes_takes_a_rate() -> None:
    causes = ls.Causes(["m"])
    given: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "horizon": 1000}
    assert river.PrivateClassifier(causes, **given).learner_.plan.min_rate == "auto"
    assert river.PrivateClassifier(
        causes, **given, min_rate=0.7
    ).learner_.rate_to_beat == pytest.approx(0.7)
    with pytest.raises(BadParameter, match="min_rate"):
        assert river.PrivateClassifier(causes, **given, min_rate=1).learner_
    with pytest.raises(BadParameter, match="baseline is 'follow' or 'fixed'"):
        assert river.PrivateClassifier(causes, **given, baseline="x").learner_  # type: ignore[arg-type]
    plan = river.PrivateClassifier(causes, **given, baseline="fixed").learner_.plan
    assert plan.baseline == "fixed"
    with pytest.raises(ValueError, match="learns Causes"):
        assert river.PrivateClassifier(ls.Points("m"), **given, learner="causes").learner_
    changes = river.PrivateClassifier(causes, **given, change_cost=7).learner_.plan.change_cost
    assert changes == 7, "as every entrance has it"


def test_models_draw_from_a_budget_file(tmp_path: Path) -> None:
    budget = ls.BudgetFile.create(tmp_path / "budgets.db", "phishing", epsilon=2, delta=1e-6)
    model = river.PrivateClassifier(
        POPULAR, epsilon=1, horizon=100, learner="experts", budget=budget
    )
    twin, loaded = model.clone(), pickle.loads(pickle.dumps(model))
    for one in (model, loaded):
        one.learn_one({"is_popular": 1}, True)
        one.learn_one({"is_popular": 0}, False)
    assert budget.read().spent == Cost(Fraction(2))
    with pytest.raises(BadParameter, match="Nothing fits any more"):
        twin.learn_one({"is_popular": 1}, True)


def test_a_model_per_user_draws_per_user(tmp_path: Path) -> None:
    budget = ls.BudgetFile.create(
        tmp_path / "budgets.db", "people", epsilon=9, delta=1e-6, unit="user"
    )
    row = {"version": "4.2", "country": "SE", "who": "u1"}
    given: dict[str, Any] = {"epsilon": 4, "delta": 1e-7, "horizon": 100, "budget": budget}
    with pytest.raises(BadParameter, match="counted per user"):
        river.PrivateClassifier(RULES, **given).learn_one(row, True)
    river.PrivateClassifier(RULES, user="who", cap=2, **given).learn_one(row, True)
    assert [draw.unit for draw in budget.read().draws] == ["user"]
