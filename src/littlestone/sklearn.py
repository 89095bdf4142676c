"""A private classifier for scikit-learn: `pip install 'littlestone[sklearn]'`.

>>> import numpy as np
>>> from littlestone import Thresholds
>>> from littlestone.sklearn import PrivateClassifier
>>> scores = np.random.default_rng(0).uniform(0, 10, (2000, 1))
>>> model = PrivateClassifier(Thresholds(0, 10, column="x0"), epsilon=4, delta=1e-6)
>>> print(model.fit(scores, scores[:, 0] >= 7).learner_.guarantee)
(4.0, 0.0)-differential privacy, replace-one, per event

**A budget is spent once.** `epsilon` and `delta` are for all that an estimator and its clones ever
publish. Each fit reads the data again, so a second one would spend a second budget: it raises. That
goes for `fit` twice, and for `GridSearchCV`, `cross_val_score` and the like, which fit clones: say
`fits=N` beforehand, and each of N fits gets 1/N of the budget. A search over m settings with k
folds fits m k + 1 times. What such a search tells you (the best setting, the scores) is outside the
promise: scores count mistakes, and are for the data's holder.

`partial_fit` goes on with the learner there is, which is what this library is for: the rules that
it published on the way are covered, however many.

What is read: of a data frame the columns that the class names, by name; of an array column n as
`xn` ("x0", "x1", ...), or its only column where the class names none. A row that the class cannot
read is a null round. The two labels are public by assumption; `classes` states them, so that they
need not be looked for in the data. The number of rows is public too.
"""

import os
from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from fractions import Fraction
from threading import Lock
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from littlestone.learning.adaptive import AdaptiveDPSOA
from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.experts import PrivateExperts
from littlestone.learning.recommend import recommend
from littlestone.privacy.exact import BadParameter, Real, positive, probability, whole
from littlestone.theory.classes import HypothesisClass, checked_class, kinds_of
from littlestone.theory.rows import Batch, as_batch, column_names

try:
    from scipy.sparse import issparse
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "littlestone.sklearn needs scikit-learn: pip install 'littlestone[sklearn]'"
    ) from error

__all__ = ["EXPECTED_FAILURES", "NOISY", "PrivateClassifier"]

EXPECTED_FAILURES: Mapping[str, str] = {
    "check_estimators_pickle": "a fitted estimator holds a spender, which is moved, never copied",
}
"""The checks of scikit-learn that fail, each with why it must."""

NOISY: Mapping[str, str] = dict.fromkeys(
    ("check_fit_idempotent", "check_classifier_data_not_an_array", "check_supervised_y_2d"),
    "compares two fits, whose noise differs: it passes when the noise is the same",
)
"""The checks that pass or fail as the noise falls. With noise that is not secret they pass."""

LearnerName = Literal["auto", "dpsoa", "experts", "adaptive"]
AnyLearner = DPSOA | PrivateExperts | AdaptiveDPSOA


class _Budget:
    """What an estimator and its clones have spent, as a share of the whole."""

    def __init__(self) -> None:
        self.spent = Fraction(0)
        self._home, self._lock = os.getpid(), Lock()

    def allow(self, share: Fraction) -> None:
        """Raise if there is no such share left."""
        if os.getpid() != self._home:
            raise BadParameter(
                "this estimator was copied into another process, where nobody knows what the "
                "other copies spend: fit it where it was made (n_jobs=1)"
            )
        if self.spent + share > 1:
            raise BadParameter(
                "this estimator, or one cloned from it, has spent its budget: fitting again would "
                "spend epsilon and delta again on the same data, and they add up. For several "
                "fits (cross-validation, a grid search) say fits=N before the first, which splits "
                "the budget among N of them; for other data make a new estimator"
            )

    def take(self, share: Fraction) -> None:
        """Spend a share, or raise and spend nothing."""
        with self._lock:
            self.allow(share)
            self.spent += share


_BUDGETS: WeakKeyDictionary[Any, _Budget] = WeakKeyDictionary()
"""Beside the estimators, not in them: scikit-learn wants nothing in them that was not given."""


def _budget_of(estimator: object) -> _Budget:
    return _BUDGETS.setdefault(estimator, _Budget())


class PrivateClassifier(ClassifierMixin, BaseEstimator):
    """A private learner as a scikit-learn classifier with two classes.

    `cls` is the class of rules to publish from; `learner` is "auto" (what `recommend` says),
    "dpsoa", "experts" (no delta) or "adaptive". `horizon` is how many rounds to plan for: `fit` may
    leave it out and plans for the rows it is given, `partial_fit` needs it. `tolerance` is the
    share of mistakes that should cause no change, `classes` the two labels, the larger one the
    positive one, `fits` among how many fits the budget is split, `seed` what fixes the coins that
    are not secret.

    After a fit, `learner_` is the learner at work: its rule, its releases, its guarantee, which is
    that of one fit. It cannot be copied or pickled then; `sklearn.base.clone` gives one that has
    not been fitted and shares what is left of the budget.
    """

    def __init__(
        self,
        cls: HypothesisClass | None = None,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        learner: LearnerName = "auto",
        *,
        tolerance: Real = 0,
        classes: Iterable[Any] | None = None,
        fits: int = 1,
        seed: int | None = None,
    ) -> None:
        self.cls = cls
        self.epsilon = epsilon
        self.delta = delta
        self.horizon = horizon
        self.learner = learner
        self.tolerance = tolerance
        self.classes = classes
        self.fits = fits
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from all rows, in their order. Spends a share of the budget."""
        _budget_of(self).allow(self._share)
        batch = self._batch(X, reset=True)
        classes, answers = _labels(X, y, self.classes)
        self.learner_ = self._begun(len(answers) if self.horizon is None else self.horizon)
        self.classes_ = classes
        self.learner_.learn_many(batch, answers, bad_rows="null")
        return self

    def partial_fit(self, X: Any, y: Any, classes: Iterable[Any] | None = None) -> Self:
        """Go on learning. The first call spends a share of the budget, and needs the classes."""
        known = self.classes if classes is None else classes
        if hasattr(self, "learner_"):
            batch, (_, answers) = self._batch(X, reset=False), _labels(X, y, self.classes_)
        elif known is None:
            raise ValueError("say classes= at the first partial_fit: later labels are not known")
        elif self.horizon is None:
            raise BadParameter("say horizon: how many rows there will be in all is not known")
        else:
            batch, (found, answers) = self._batch(X, reset=True), _labels(X, y, known)
            self.learner_ = self._begun(self.horizon)
            self.classes_ = found
        self.learner_.learn_many(batch, answers, bad_rows="null")
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """What the published rule says of each row."""
        check_is_fitted(self)
        said = self.learner_.predict_many(self._batch(X, reset=False))
        return np.asarray(self.classes_[said.astype(np.intp)])

    def _begun(self, horizon: int) -> AnyLearner:
        """A learner with its share of the budget, which is spent from here on."""
        learner = self._made(self.learner, self._share, horizon)
        _budget_of(self).take(self._share)
        return learner

    @property
    def _share(self) -> Fraction:
        """What one fit may spend, of the whole."""
        return Fraction(1, whole(self.fits, "fits", least=1))

    def _made(self, name: str, share: Fraction, horizon: int) -> AnyLearner:
        # A copy, because a class remembers what it worked out, and parameters stay as they were.
        cls, seed, tolerance = deepcopy(checked_class(self.cls)), self.seed, self.tolerance
        epsilon = positive(self._given("epsilon"), "epsilon") * share
        if name == "experts":
            return PrivateExperts(cls, epsilon, horizon, tolerance=tolerance, seed=seed)
        delta = probability(self._given("delta"), "delta") * share
        match name:
            case "auto":
                found = recommend(cls, epsilon, delta, horizon, tolerance=tolerance)
                experts = found.learner_name == PrivateExperts.__name__
                return self._made("experts" if experts else "dpsoa", share, horizon)
            case "dpsoa":
                return DPSOA(cls, epsilon, delta, horizon, tolerance=tolerance, seed=seed)
            case "adaptive":
                return AdaptiveDPSOA(cls, epsilon, delta, horizon, seed=seed)
        raise BadParameter(f"learner is auto, dpsoa, experts or adaptive, not {name!r}")

    def _given(self, name: str) -> Any:
        if getattr(self, name) is None:
            raise BadParameter(f"say {name}")
        return getattr(self, name)

    def _batch(self, X: Any, *, reset: bool) -> Batch:
        """The batch as the class reads it. Of an array only views are taken, a column each."""
        if self.cls is None:
            raise BadParameter("say cls: the class of rules, such as Thresholds(0, 9, column='x0')")
        kinds = kinds_of(checked_class(self.cls))
        if _has_names(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return as_batch(X, kinds)
        given = _cell_by_cell(X)
        array = validate_data(self, given, reset=reset, dtype=None, ensure_all_finite=False)
        if None in kinds and array.shape[1] == 1:
            return as_batch(array[:, 0], kinds)
        return as_batch({f"x{n}": array[:, n] for n in range(array.shape[1])}, kinds)

    def __sklearn_clone__(self) -> Self:
        twin: Self = super().__sklearn_clone__()
        _BUDGETS[twin] = _budget_of(self)
        return twin

    def __copy__(self) -> Self:
        fitted = getattr(self, "learner_", None)
        twin: Self = clone(self) if fitted is None else copy(fitted)
        return twin

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        if hasattr(self, "learner_"):
            return self.learner_.__reduce_ex__(protocol)
        if self in _BUDGETS:
            raise TypeError(
                "an estimator that shares its budget with clones cannot be pickled: a copy in "
                "another process would spend it again (use n_jobs=1)"
            )
        return super().__reduce_ex__(protocol)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _has_names(X: Any) -> bool:
    """Whether columns go by name. By number, as in an array, they are scikit-learn's to read."""
    names = None if issparse(X) else column_names(X)
    return names is not None and any(isinstance(name, str) for name in names)


def _cell_by_cell(X: Any) -> Any:
    """Return rows given as lists in an array that keeps the type of every cell.

    numpy would give all cells one type, which one cell can change: 3 is 3.0 beside 2.5, and '3'
    beside text. Then one replaced row would respell all others.
    """
    if not isinstance(X, list | tuple) or not all(isinstance(row, list | tuple) for row in X):
        return X
    if len(set(map(len, X))) != 1:
        return X  # rows of different lengths: scikit-learn's own sentence
    array = np.empty((len(X), len(X[0])), dtype=object)
    for number, row in enumerate(X):
        array[number, :] = row
    return array


def _labels(
    X: Any, y: Any, classes: Iterable[Any] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The two classes, and the labels as truths: the second class is the positive one."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple) and len(set(map(type, y))) > 1:
        # As objects, so that one label does not make numbers or text of the others.
        y = np.fromiter(y, dtype=object, count=len(y))
    given = column_or_1d(y, warn=True)
    check_consistent_length(X, given)
    if given.dtype.kind == "f":
        assert_all_finite(given, input_name="y")
    check_classification_targets(given)
    two = _two(np.unique(given if classes is None else list(classes)), given)
    odd = ~np.isin(given, two)
    if odd.any():
        raise ValueError(
            f"label {given[odd].tolist()[0]!r} is not one of the classes {two.tolist()}"
        )
    return two, np.asarray(given == two[1])


def _two(classes: npt.NDArray[Any], given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Exactly two classes, or a sentence."""
    if len(classes) > 2:
        kind = type_of_target(given)
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}, with "
            f"{len(classes)} classes."
        )
    if len(classes) < 2:
        raise ValueError(
            f"there is one class only, {classes.tolist()}: say both with classes=, so that they "
            "are not taken from the data"
        )
    return classes
