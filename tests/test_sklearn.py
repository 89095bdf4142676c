"""scikit-learn: its own checks, and a budget that no search can spend twice."""

import copy
import gc
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import joblib
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
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone._store.budgets import BudgetFile
from littlestone.sklearn import EXPECTED_FAILURES, NOISY, PrivateClassifier

CUTS = ls.Thresholds(-5, 5, 0.5, column="x0")
CAUSES = ls.Causes([ls.Ranges("x0", [-2, -1, 0, 1, 2])])
SPENT = "is left of the budget"
MANY = 10**6
"""The checks fit clones of one estimator over and over: each fit gets epsilon 1, delta 1e-9."""


class WithSeededNoise(PrivateClassifier):
    """A classifier whose noise is not secret, and the same in every fit."""

    @property
    def _noise(self) -> SeededNoise:  # type: ignore[override]
        return SeededNoise(1)


CHECKED = [
    *(
        PrivateClassifier(CUTS, MANY, 1e-3, 2000, learner, fits=MANY, seed=1)
        for learner in ("auto", "dpsoa", "experts")
    ),
    PrivateClassifier(CAUSES, MANY, 1e-3, 2000, min_rate=0.5, fits=MANY, seed=1),
    WithSeededNoise(CUTS, 50 * MANY, 1e-3, 2000, "experts", fits=MANY, seed=1),
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


def spent(estimator: PrivateClassifier) -> tuple[float, float]:
    """What an estimator and all that share its budget have spent."""
    cost = estimator._own_budget().spent
    return float(cost.epsilon), float(cost.delta)


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
        assert spent(estimator) == (0, 0)
        estimator.fit(X, y)


def test_clones_share_the_budget() -> None:
    X, y = data()
    first = model()
    second, third = clone(first), clone(clone(first))
    second.fit(X, y)
    for again in (lambda: first.fit(X, y), lambda: third.fit(X, y), lambda: clone(second)):
        with pytest.raises(BadParameter, match=SPENT):
            again()


@pytest.mark.parametrize("error_score", [np.nan, "raise"])
def test_a_search_that_has_spent_the_budget_raises_whatever_its_error_score(
    error_score: Any,
) -> None:
    """A nan would be no reason; scikit-learn takes what `fit` raises for one, but not `clone`."""
    X, y = data()
    search = GridSearchCV(model(), {"seed": [0, 1]}, cv=3, error_score=error_score)
    with pytest.raises(BadParameter, match=SPENT):
        search.fit(X, y)
    assert spent(search.estimator)[0] == 50
    with pytest.raises(BadParameter, match="say fits=N before the first"):
        cross_val_score(model(), X, y, cv=3, error_score=error_score)


def test_a_grid_search_may_split_the_budget() -> None:
    X, y = data()
    search = GridSearchCV(model(fits=7), {"seed": [0, 1]}, cv=3).fit(X, y)
    assert spent(search.estimator)[0] == 50
    assert search.best_estimator_.learner_.plan.epsilon == Fraction(50, 7)
    with pytest.raises(BadParameter, match=SPENT):
        clone(search.estimator)


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_a_grid_over_epsilon_draws_what_each_candidate_spends() -> None:
    X, y = data()
    base = model(learner="experts", epsilon=10)
    search = GridSearchCV(base, {"epsilon": [1, 2]}, cv=3, refit=False).fit(X, y)
    assert spent(search.estimator) == (9, 0)
    more = GridSearchCV(model(learner="experts", epsilon=8), {"epsilon": [1, 2]}, cv=3, refit=False)
    with pytest.warns(FitFailedWarning, match=r"spend \(epsilon 2, .* and \(epsilon 1, .* is left"):
        more.fit(X, y)
    assert spent(more.estimator) == (7, 0), "the last of six fits was refused"


def test_the_budget_is_an_amount_that_parameters_do_not_change() -> None:
    X, y = data()
    fitted = model(fits=2, epsilon=1).fit(X, y)
    for changed in ({"epsilon": 1000}, {"epsilon": 1.01}, {"fits": 1}):
        with pytest.raises(BadParameter, match=SPENT):
            clone(fitted).set_params(**changed).fit(X, y)
    other = model(learner="experts", delta=None, fits=2).fit(X, y)
    with pytest.raises(BadParameter, match=r"\(epsilon 25, delta 0\) is left"):
        other.set_params(learner="dpsoa", delta=1e-9).fit(X, y)
    waiting = model(epsilon=1)
    clone(waiting)
    with pytest.raises(BadParameter, match=SPENT):
        waiting.set_params(epsilon=2).fit(X, y)


def test_the_total_is_not_fixed_before_it_is_said() -> None:
    X, y = data()
    empty = clone(PrivateClassifier(CUTS, learner="dpsoa"))
    with pytest.raises(BadParameter, match="give epsilon"):
        empty.fit(X, y)
    with pytest.raises(BadParameter, match="give delta"):
        clone(empty).set_params(epsilon=1).fit(X, y)
    clone(empty).set_params(epsilon=1, delta=1e-6, horizon=400).fit(X, y)
    assert spent(empty) == (1, 1e-6)


def test_a_fit_that_the_budget_refuses_reads_no_row() -> None:
    class Unread:
        """Rows that nobody may look at."""

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("a row was read")

    fitted = model().fit(*data())
    with pytest.raises(BadParameter, match=SPENT):
        fitted.fit(Unread(), Unread())
    waiting = model(horizon=300, classes=[0, 1])
    copy.copy(waiting).fit(*data())
    with pytest.raises(BadParameter, match=SPENT):
        waiting.partial_fit(Unread(), Unread())


def test_more_fits_cannot_be_asked_for_afterwards() -> None:
    X, y = data()
    fitted = model(fits=2).fit(X, y)
    fitted.set_params(fits=3).fit(X, y)
    with pytest.raises(BadParameter, match=SPENT):
        fitted.fit(X, y)
    assert spent(fitted)[0] == pytest.approx(50 * 5 / 6)


def test_delta_is_split_too() -> None:
    X, y = data()
    fitted = model(fits=4, learner="dpsoa").fit(X, y)
    assert isinstance(fitted.learner_, ls.DPSOA)
    assert fitted.learner_.plan.delta == Fraction(1e-6) / 4


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_fitted_estimator_is_not_copied(copying: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="cannot be"):
        copying(model().fit(*data()))


def with_the_state_of(estimator: Any) -> Any:
    """A copy by the two halves of a pickle, without one."""
    other = PrivateClassifier()
    other.__setstate__(estimator.__getstate__())
    return other


def dumped_and_loaded(estimator: Any) -> Any:
    """A copy as joblib and its processes make it."""
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    "copying",
    [
        copy.copy,
        copy.deepcopy,
        lambda one: pickle.loads(pickle.dumps(one)),
        dumped_and_loaded,
        with_the_state_of,
    ],
)
def test_an_unfitted_copy_shares_the_budget(copying: Callable[[Any], Any]) -> None:
    X, y = data()
    first = model()
    second, third = copying(first), copying(copying(first))
    copying(second).fit(X, y)
    for other in (first, second, third):
        with pytest.raises(BadParameter, match=SPENT):
            other.fit(X, y)


def test_a_pickle_outlives_its_estimator_but_not_its_budget() -> None:
    X, y = data()
    kept = pickle.dumps(model())
    pickle.loads(kept).fit(X, y)
    gc.collect()
    with pytest.raises(BadParameter, match=SPENT):
        pickle.loads(kept).fit(X, y)


ELSEWHERE = """
import pickle, sys
estimator = pickle.load(sys.stdin.buffer)
assert estimator.epsilon == 50
try:
    estimator.fit([[0], [1]], [0, 1])
except ValueError as error:
    print(error)
sys.stdout.flush()
sys.stdout.buffer.write(b"PICKLE" + pickle.dumps(estimator))
"""


@pytest.mark.slow
def test_in_another_process_an_estimator_loads_but_does_not_fit() -> None:
    X, y = data()
    here = model()
    python = [sys.executable, "-c", ELSEWHERE]
    done = subprocess.run(python, input=pickle.dumps(here), capture_output=True, check=True)
    said, back = done.stdout.split(b"PICKLE", 1)
    assert b"was made in another process" in said
    assert b"n_jobs=1" in said
    pickle.loads(back).fit(X, y)
    with pytest.raises(BadParameter, match=SPENT):
        here.fit(X, y)


def test_a_search_in_several_processes_says_why_it_cannot() -> None:
    X, y = data()
    with pytest.raises(ValueError, match=r"(?s)3 fits failed.*was made in another process"):
        cross_val_score(model(fits=3), X, y, cv=3, n_jobs=2)


def test_threads_spend_no_more_than_there_is() -> None:
    estimator = model(fits=3)
    clones, together = [clone(estimator) for _ in range(8)], threading.Barrier(8)

    def fitted(one: PrivateClassifier) -> bool:
        together.wait()
        with suppress(BadParameter):
            one.fit(*data(50))
        return hasattr(one, "learner_")

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(fitted, clones)) == 3
    assert spent(estimator)[0] == 50


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
    with pytest.raises(ValueError, match="give classes"):
        streamed.partial_fit(X, y)
    with pytest.raises(BadParameter, match="give horizon"):
        model().partial_fit(X, y, classes=[False, True])
    for start in range(0, 600, 100):
        streamed.partial_fit(X[start : start + 100], y[start : start + 100], classes=[False, True])
    assert streamed.learner_.rounds == 600
    assert spent(streamed)[0] == 50
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


@pytest.mark.parametrize("other", [2, 0.5, "maybe", None, float("nan"), "1.0", True])
@pytest.mark.parametrize("column", [list, np.array, pd.Series])
def test_one_label_is_a_null_round_at_most_where_the_classes_are_stated(
    other: object, column: Callable[[Any], Any]
) -> None:
    """Whatever type it gives to the column: 1 is then 1.0 or '1'."""
    X, nulls = [[3], [2], [3], [2]], int(other not in ("1.0", True))
    for classes in ([0, 1], ["0", "1"], [False, True]):
        fitted = model(classes=classes, horizon=99).fit(X, column([1, 0, other, 0]))
        fitted.partial_fit(X, column([1, 0, other, 0]))
        assert (fitted.learner_.rounds, fitted.learner_.null_rounds) == (8, 2 * nulls)
        assert set(fitted.predict(X)) <= set(classes)
    named = model(classes=["no", "yes"]).fit(X, column(["yes", "no", other, "no"]))
    assert named.learner_.null_rounds == 1
    with pytest.raises(ValueError, match=r"label|binary|NaN"):
        model().fit(X, column([2, 3, "maybe", None]))


@pytest.mark.parametrize("other", [[1, 2, 3], [1], None, "ab", 5, {"x0": 3}, [[1], [2]]])
def test_one_row_of_another_shape_is_a_null_round(other: object) -> None:
    X: list[Any] = [[3, 1], (2, 1), np.array([3, 1]), other]
    fitted = model(fits=2).fit(X, [1, 0, 1, 0])
    assert (fitted.learner_.rounds, fitted.learner_.null_rounds) == (4, 1)
    assert fitted.n_features_in_ == 2
    with pytest.raises(ValueError, match=r"2D array|shape"):
        model().fit([1, 2, 3], [1, 0, 1])
    with pytest.raises(ValueError, match="a dict of columns"):
        model().fit({"x0": [3, 2]}, [1, 0])


def test_columns_by_number_are_not_made_one_array() -> None:
    """`read_csv(header=None)` guesses a type for each: 007 is 7 unless there are letters."""
    for cell in ("3", "2.5", ""):
        frame = pd.read_csv(io.StringIO(f"007,x\n{cell},y\n"), header=None)
        with pytest.raises(ls.BadExample, match=r"column 'x0'.*dtype=str"):
            model(cls=ls.Points("x0")).fit(frame, [1, 0])
    frame = pd.read_csv(io.StringIO("007,1\noops,2\n"), header=None)
    fitted = model(cls=ls.Points("x0"), fits=2).fit(frame, [1, 0])
    assert fitted.predict(frame[::-1]).shape == (2,)
    assert model().fit(pd.DataFrame([[1], [2]]), [1, 0]).learner_.null_rounds == 0


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
        ({"cls": None}, "give cls"),
        ({"epsilon": None}, "give epsilon"),
        ({"delta": None}, "give delta"),
        ({"learner": "best"}, "no learner is called 'best': there are auto, dpsoa"),
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


def test_causes_are_found_in_frames_and_arrays_of_objects() -> None:
    draw = np.random.default_rng(3)
    version, country = draw.choice(["4.2.0", "4.2.1"], 4000), draw.choice(["SE", "NO"], 4000)
    y = (version == "4.2.1") & (country == "SE") & (draw.random(4000) < 0.4)
    named = ls.Causes(["version", "country"], width=2)
    numbered = ls.Causes(["x0", "x1"], width=2)
    columns = {"version": version, "country": country}
    for cls, X in (
        (named, pd.DataFrame(columns)),
        (named, pl.DataFrame(columns)),
        (named, pa.table(columns)),
        (numbered, np.stack([version, country], axis=1).astype(object)),
    ):
        fitted = PrivateClassifier(cls, 8, 1e-5, min_rate=0.2).fit(X, y)
        assert fitted.learner_.plan.to_json()["min_rate"] == "1/5"
        first, second = cls.names
        rule = " and ".join(sorted([f"{first} = '4.2.1'", f"{second} = 'SE'"]))
        assert str(fitted.learner_.hypothesis) == rule
        assert fitted.predict(X).tolist() == ((version == "4.2.1") & (country == "SE")).tolist()
    assert PrivateClassifier(named, min_rate=0.3).get_params()["min_rate"] == 0.3
    assert PrivateClassifier(named, baseline="fixed").get_params()["baseline"] == "fixed"
    with pytest.raises(BadParameter, match="min_rate"):
        model(min_rate=0.7).fit(*data())


def fits_from_file(estimator: PrivateClassifier, together: Any, results: Any) -> None:
    together.wait()
    try:
        estimator.fit(*data())
        results.put("fitted")
    except BadParameter as error:
        results.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fits_in_different_processes_draw_from_one_file(tmp_path: Path) -> None:
    budget = BudgetFile.create(tmp_path / "budgets.db", "scores", epsilon=100)
    context = multiprocessing.get_context("fork")
    together, results = context.Barrier(3), context.Queue()
    here = model(epsilon=50, learner="experts", budget=budget)
    children = [
        context.Process(target=fits_from_file, args=(clone(here), together, results))
        for _ in range(3)
    ]
    for child in children:
        child.start()
    said = [results.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    assert sorted(one == "fitted" for one in said) == [False, True, True]
    assert budget.read().spent.epsilon == 100
    assert {draw.note for draw in budget.read().draws} == {"PrivateClassifier"}
    with pytest.raises(BadParameter, match="Nothing fits any more"):
        here.fit(*data())
    with pytest.raises(BadParameter, match="Nothing fits any more"):
        clone(here)


def test_a_search_in_several_processes_draws_from_a_file(tmp_path: Path) -> None:
    X, y = data()
    budget = BudgetFile.create(tmp_path / "budgets.db", "scores", epsilon=50)
    scores = cross_val_score(
        model(epsilon=50, fits=2, learner="experts", budget=budget), X, y, cv=2, n_jobs=2
    )
    assert len(scores) == 2
    assert [draw.cost.epsilon for draw in budget.read().draws] == [25, 25]


def test_a_fit_that_the_file_refuses_reads_no_row(tmp_path: Path) -> None:
    budget = BudgetFile.create(tmp_path / "budgets.db", "scores", epsilon=1)
    with pytest.raises(BadParameter, match="What fits: --epsilon 1"):
        model(epsilon=2, budget=budget).fit(object(), object())
    users = BudgetFile.create(tmp_path / "budgets.db", "people", epsilon=9, unit="user")
    with pytest.raises(BadParameter, match="counted per user"):
        model(epsilon=2, budget=users).fit(object(), object())
    assert not budget.read().draws
