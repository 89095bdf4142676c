"""scikit-learn: its own checks, and a budget that no search can spend twice."""

import copy
import multiprocessing
import os
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import littlestone as ls
from littlestone.privacy.exact import BadParameter
from littlestone.privacy.rehearsal import SeededNoise
from littlestone.sklearn import EXPECTED_FAILURES, NOISY, PrivateClassifier, _budget_of

CUTS = ls.Thresholds(-5, 5, 0.5, column="x0")
SPENT = "has spent its budget"
MANY = 10**6
"""The checks fit clones of one estimator over and over: each fit gets epsilon 1, delta 1e-9."""


class Rehearsed(PrivateClassifier):
    """A classifier whose noise is not secret, and the same in every fit."""

    def _made(self, name: str, share: Fraction, horizon: int) -> Any:
        cls, epsilon = copy.deepcopy(CUTS), self._given("epsilon") * share
        return ls.PrivateExperts(cls, epsilon, horizon, seed=1, noise=SeededNoise(1))


CHECKED = [
    *(
        PrivateClassifier(CUTS, MANY, 1e-3, 2000, learner, fits=MANY, seed=1)
        for learner in ("auto", "dpsoa", "experts")
    ),
    Rehearsed(CUTS, 50 * MANY, 1e-3, 2000, fits=MANY),
]


@parametrize_with_checks(CHECKED, expected_failed_checks=lambda _: dict(EXPECTED_FAILURES))
def test_sklearn_checks(estimator: Any, check: Any) -> None:
    name = check.func.__name__
    if name in NOISY and type(estimator) is PrivateClassifier:
        pytest.skip(NOISY[name])
    check(estimator)


def data(rows: int = 300) -> tuple[Any, Any]:
    X = np.random.default_rng(1).uniform(-5, 5, (rows, 2))
    return X, X[:, 0] >= 1


def model(**given: Any) -> PrivateClassifier:
    usual: dict[str, Any] = {"cls": CUTS, "epsilon": 50, "delta": 1e-6, "seed": 1}
    return PrivateClassifier(**usual | given)


def test_it_learns() -> None:
    X, y = data(2000)
    assert model().fit(X, y).score(X, y) > 0.9


def test_a_second_fit_raises_and_changes_nothing() -> None:
    X, y = data()
    fitted = model().fit(X, y)
    before = fitted.learner_, fitted.predict(X).tolist(), fitted.classes_.tolist()
    with pytest.raises(BadParameter, match=SPENT):
        fitted.fit(X[:, :1], np.where(y, "yes", "no"))
    assert (fitted.learner_, fitted.predict(X).tolist(), fitted.classes_.tolist()) == before


def test_a_fit_that_is_refused_spends_nothing() -> None:
    X, y = data()
    for bad, labels in (
        (X, y[:-1]),
        (X, np.arange(len(y)) % 3),
        (pd.DataFrame(X, columns=["a", "b"]), y),
    ):
        estimator = model()
        with pytest.raises(ValueError, match=r"inconsistent|binary|no column 'x0'"):
            estimator.fit(bad, labels)
        assert _budget_of(estimator).spent == 0
        estimator.fit(X, y)


def test_clones_share_the_budget() -> None:
    X, y = data()
    first = model()
    second, third = clone(first), clone(clone(first))
    second.fit(X, y)
    for other in (first, third, clone(second)):
        with pytest.raises(BadParameter, match=SPENT):
            other.fit(X, y)


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_a_grid_search_does_not_spend_the_budget_twice() -> None:
    X, y = data()
    search = GridSearchCV(model(), {"tolerance": [0, 0.1]}, cv=3)
    with pytest.warns(FitFailedWarning, match=SPENT), pytest.raises(BadParameter, match=SPENT):
        search.fit(X, y)
    assert _budget_of(search.estimator).spent == 1
    strict = GridSearchCV(model(), {"tolerance": [0, 0.1]}, cv=3, error_score="raise")
    with pytest.raises(BadParameter, match=SPENT):
        strict.fit(X, y)


def test_a_grid_search_may_split_the_budget() -> None:
    X, y = data()
    search = GridSearchCV(model(fits=7), {"tolerance": [0, 0.1]}, cv=3).fit(X, y)
    assert _budget_of(search.estimator).spent == 1
    assert search.best_estimator_.learner_.plan.epsilon == Fraction(50, 7)
    with pytest.raises(BadParameter, match=SPENT):
        clone(search.estimator).fit(X, y)


def test_cross_validation_says_that_it_failed() -> None:
    X, y = data()
    with pytest.warns(FitFailedWarning, match=SPENT):
        scores = cross_val_score(model(), X, y, cv=3)
    assert np.isnan(scores).tolist() == [False, True, True]


def test_more_fits_cannot_be_asked_for_afterwards() -> None:
    X, y = data()
    fitted = model(fits=2).fit(X, y)
    fitted.set_params(fits=3).fit(X, y)
    with pytest.raises(BadParameter, match=SPENT):
        fitted.fit(X, y)
    assert _budget_of(fitted).spent == Fraction(5, 6)


def test_delta_is_split_too() -> None:
    X, y = data()
    fitted = model(fits=4, learner="dpsoa").fit(X, y)
    assert isinstance(fitted.learner_, ls.DPSOA)
    assert fitted.learner_.plan.delta == Fraction(1e-6) / 4


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_fitted_estimator_is_not_copied(copying: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="a spender cannot be"):
        copying(model().fit(*data()))


def test_an_unfitted_copy_shares_the_budget_and_a_pickle_is_refused() -> None:
    """So that a search with several processes raises instead of spending in each."""
    X, y = data()
    first = model()
    assert isinstance(pickle.loads(pickle.dumps(first)), PrivateClassifier)
    second = copy.deepcopy(first)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(second)
    copy.copy(second).fit(X, y)
    with pytest.raises(BadParameter, match=SPENT):
        first.fit(X, y)


def fits_in_child(estimator: PrivateClassifier, queue: Any) -> None:
    try:
        estimator.fit(*data())
        queue.put("fitted")
    except BadParameter as error:
        queue.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_fit() -> None:
    context = multiprocessing.get_context("fork")
    estimator, queue = model(), context.Queue()
    clone(estimator)
    child = context.Process(target=fits_in_child, args=(estimator, queue))
    child.start()
    assert "another process" in queue.get(timeout=60)
    child.join()


def test_partial_fit_goes_on_with_one_learner() -> None:
    X, y = data(600)
    streamed = model(horizon=600)
    with pytest.raises(ValueError, match="say classes="):
        streamed.partial_fit(X, y)
    with pytest.raises(BadParameter, match="say horizon"):
        model().partial_fit(X, y, classes=[False, True])
    for start in range(0, 600, 100):
        streamed.partial_fit(X[start : start + 100], y[start : start + 100], classes=[False, True])
    assert streamed.learner_.rounds == 600
    assert _budget_of(streamed).spent == 1
    with pytest.raises(BadParameter, match=SPENT):
        streamed.fit(X, y)


def test_labels_are_public_and_can_be_stated() -> None:
    X, y = data()
    named = model(classes=["bad", "good"]).fit(X, np.where(y, "good", "bad"))
    assert set(named.predict(X)) <= {"bad", "good"}
    one_sided = model(classes=[0, 1]).fit(X, np.ones(len(y), dtype=int))
    assert one_sided.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="one class only"):
        model().fit(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="label 2 is not one of the classes"):
        model(classes=[0, 1]).fit(X, y.astype(int) + 1)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_go_by_name(table: Callable[[Any], Any]) -> None:
    X, y = data()
    frame = table({"b": X[:, 1], "x0": X[:, 0]})
    fitted = model(fits=2).fit(frame, y)
    assert fitted.n_features_in_ == 2
    assert fitted.predict(frame).tolist() == [
        fitted.learner_.predict_one({"x0": v}) for v in X[:, 0]
    ]


def test_categories_and_strings_are_read() -> None:
    versions = np.array(["4.1", "4.2", "4.3"] * 200)
    frame = pd.DataFrame({"version": pd.Categorical(versions)})
    fitted = model(cls=ls.Points("version")).fit(frame, versions == "4.2")
    assert str(fitted.learner_.hypothesis) == "version = '4.2'"
    array = model(cls=ls.Points()).fit(versions.astype(object)[:, None], versions == "4.2")
    assert str(array.learner_.hypothesis) == "x = '4.2'"


def test_what_is_missing_is_said() -> None:
    X, y = data()
    for given, sentence in (
        ({"cls": None}, "say cls"),
        ({"epsilon": None}, "say epsilon"),
        ({"delta": None}, "say delta"),
        ({"learner": "best"}, "learner is auto"),
        ({"fits": 0}, "fits"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model(**given).fit(X, y)
    assert model(delta=None, learner="experts").fit(X, y).learner_.guarantee.delta == 0
    with pytest.raises(NotFittedError):
        model().predict(X)


def test_it_ends_a_pipeline() -> None:
    X, y = data()
    chain = make_pipeline(StandardScaler(), model())
    assert chain.fit(X, y).predict(X).shape == y.shape
    with pytest.raises(BadParameter, match=SPENT):
        chain.fit(X, y)


def test_adaptive_is_offered() -> None:
    X, y = data(60)
    fitted = model(learner="adaptive", epsilon=10**4).fit(X, y)
    assert isinstance(fitted.learner_, ls.AdaptiveDPSOA)
