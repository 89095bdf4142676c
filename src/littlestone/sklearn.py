"""A private classifier for scikit-learn: `pip install 'littlestone[sklearn]'`.

>>> import numpy as np
>>> from littlestone import Thresholds
>>> from littlestone.sklearn import PrivateClassifier
>>> scores = np.random.default_rng(0).uniform(0, 10, (2000, 1))
>>> model = PrivateClassifier(Thresholds(0, 10, column="x0"), epsilon=4, delta=1e-6)
>>> print(model.fit(scores, scores[:, 0] >= 7).learner_.guarantee)
(4.0, 0.0)-differential privacy, replace-one, per event

**A budget is an amount, and is spent once.** An estimator and everything cloned, copied or
unpickled from it spend, all together, at most (epsilon, delta), as these stood when the first of
them was fitted or cloned. Each fit reads the data again and takes its share; one that would exceed
the total is refused before a row is read. So a second `fit` raises, and so do `GridSearchCV`,
`cross_val_score` and the like, which fit clones: set `fits=N` beforehand, and each fit gets 1/N of
the epsilon and delta. A search over m settings with k folds fits m k + 1 times; over `epsilon`,
each candidate takes its own. The results of such a search (the best setting, the scores) are
outside the guarantee: scores count mistakes, and are for the data owner.

A fit counts each row that it is given once. `BaggingClassifier` draws rows with replacement: say
`bootstrap=False`, or a row that is drawn k times costs up to k times the epsilon of that fit.

The count is kept in the process that made the estimator. An estimator that has not been fitted can
be pickled; loaded in another process (`n_jobs=2`) it refuses to fit. With
`budget=BudgetFile("budgets.db", "NAME")` the count is kept in that file instead, for all processes
and all estimators that name it: each fit draws epsilon / fits and delta / fits from it before a row
is read.

`partial_fit` continues with the same learner, which is what this library is for: the guarantee
covers all rules that it publishes on the way.

What is read: of a data frame the columns that the class names, by name; of an array column n as
`xn` ("x0", "x1", ...), as of a frame whose columns go by number, or its only column where the class
names none. A row that the class cannot read is a null round; so is, in a list of rows, one that is
longer or shorter than most. The two labels are public by assumption; `classes` states them, so that
they need not be looked for in the data, and then any other label makes a null round, too. Without
it such a label is refused. The number of rows is public too.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, checked_class, kinds_of
from littlestone._data.rounds import Rounds
from littlestone._data.schema import read_rounds
from littlestone._hypotheses.cells import float_of, passes
from littlestone._hypotheses.columns import objects
from littlestone._hypotheses.rows import column_names
from littlestone._hypotheses.values import key_of
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.estimators import HasTerms
from littlestone._learners.outcomes import refuse_outcomes
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._learners.rate_to_beat import FOLLOW, Baseline
from littlestone._learners.registry import AUTO
from littlestone._privacy.accounting import Cost
from littlestone._privacy.parameters import BadParameter, Real
from littlestone._store.budgets import BudgetFile

try:
    from scipy.sparse import issparse
    from sklearn.base import BaseEstimator, ClassifierMixin
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

# The checks of scikit-learn that fail, each with the reason why it must.
EXPECTED_FAILURES: Mapping[str, str] = {
    "check_estimators_pickle": "a fitted estimator holds a private learner, which is never copied"
}

# The checks whose result depends on the noise. With scripted noise they pass.
NOISY: Mapping[str, str] = dict.fromkeys(
    ("check_fit_idempotent", "check_classifier_data_not_an_array", "check_supervised_y_2d"),
    "compares two fits, whose noise differs: it passes when the noise is the same",
)


class PrivateClassifier(HasTerms, ClassifierMixin, BaseEstimator):
    """Run a private learner as a scikit-learn classifier with two classes.

    A fitted estimator cannot be copied or pickled; `sklearn.base.clone` gives one that has not been
    fitted and shares what is left of the budget, and raises if nothing is left.

    Parameters
    ----------
    cls : HypothesisClass
        The class of rules.
    epsilon, delta : int, float or Fraction
        The budget of all fits of this estimator and its clones together; "experts" needs no delta.
    horizon : int, optional
        The number of rounds to plan for. `fit` by default plans for its rows; `partial_fit` needs
        it.
    learner : {"auto", "dpsoa", "experts", "causes"}
        The learner; "auto" takes what `recommend` returns.
    change_cost : int, float or Fraction
        The mistakes that one change of rule is worth; for private experts.
    min_rate : int, float, Fraction or "auto"
        The positive rate above which it pays to predict positive; for private experts, and at
        least for causes.
    baseline : {"follow", "fixed"}
        For causes: whether the rate to beat follows the stream.
    classes : iterable, optional
        The two labels; the larger one is the positive one.
    fits : int
        The number of fits among which the budget is split.
    budget : BudgetFile, optional
        A budget that other processes draw from too: each fit draws its share of epsilon and delta
        from it, and as many fits are made as it allows, in whatever process.
    seed : int, optional
        Fixes the random bits that are not secret.

    Attributes
    ----------
    learner_ : PrivateLearner
        The learner, with its rule, its releases and its guarantee, which is that of one fit.
    classes_ : numpy.ndarray
        The two labels.
    """

    _split_by = "fits"

    def __init__(
        self,
        cls: HypothesisClass | None = None,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        learner: str = AUTO,
        *,
        change_cost: Real = CHANGE_COST,
        min_rate: Real | str = AUTO_RATE,
        baseline: Baseline = FOLLOW,
        classes: Iterable[Any] | None = None,
        fits: int = 1,
        budget: BudgetFile | None = None,
        seed: int | None = None,
    ) -> None:
        self.cls, self.epsilon, self.delta, self.horizon = cls, epsilon, delta, horizon
        self.learner, self.change_cost = learner, change_cost
        self.min_rate, self.baseline = min_rate, baseline
        self.classes, self.fits, self.budget, self.seed = classes, fits, budget, seed

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from all rows, in their order, with a share of the budget.

        Parameters
        ----------
        X : object
            The rows: a data frame, an array, or lists.
        y : object
            The labels, one for each row.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        BadParameter
            If a parameter is missing, or too little is left of the budget.
        """
        # Before a row is read: whether a fit is refused must not depend on the data.
        self._check_budget()
        two, rounds = self._read(X, y, self.classes, reset=True)
        self.learner_ = self._begun(len(rounds) if self.horizon is None else self.horizon)
        self.classes_ = two
        self.learner_.learn(rounds)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Iterable[Any] | None = None) -> Self:
        """Continue learning; the first call takes a share of the budget.

        Parameters
        ----------
        X : object
            The rows: a data frame, an array, or lists.
        y : object
            The labels, one for each row.
        classes : iterable, optional
            The two labels; the first call needs them, here or in the constructor.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        BadParameter
            If a parameter is missing, or too little is left of the budget.
        """
        stated = self.classes if classes is None else classes
        if hasattr(self, "learner_"):
            _, rounds = self._read(X, y, self.classes_, reset=False)
        elif stated is None:
            raise ValueError("give classes at the first partial_fit: later labels are not known")
        elif self.horizon is None:
            raise BadParameter("give horizon: partial_fit does not know how many rows will follow")
        else:
            self._check_budget()
            two, rounds = self._read(X, y, stated, reset=True)
            self.learner_ = self._begun(self.horizon)
            self.classes_ = two
        self.learner_.learn(rounds)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label that the published rule gives to each row."""
        check_is_fitted(self)
        positive = self.learner_.predict_many(self._table(X, reset=False))
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def _learner_begun(self) -> object:
        return getattr(self, "learner_", None)

    def _check_budget(self) -> None:
        """Raise if a fit could spend more than is left; this reads no row."""
        if self.cls is not None:
            refuse_outcomes(self.cls, "the scikit-learn classifier")
        total = self._total()
        delta = total.delta if self._needs_delta else Fraction(0)
        cost = Cost(total.epsilon * self._share, delta * self._share)
        if self.budget is None:
            self._own_budget().check(cost, total)
        else:
            self.budget.check(cost.epsilon, cost.delta)

    def _read(
        self, X: Any, y: Any, classes: Iterable[Any] | None, *, reset: bool
    ) -> tuple[npt.NDArray[Any], Rounds]:
        """Return the two classes, and the rows as rounds."""
        table = self._table(X, reset=reset)
        two, answers = _labels(X, y, classes)
        return two, read_rounds(checked_class(self.cls), table, answers, None, "null")

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return rows as the table that the learner reads; of an array, as views of its columns."""
        if self.cls is None:
            raise BadParameter("give cls, a class of rules such as Thresholds(0, 9, column='x0')")
        kinds = kinds_of(checked_class(self.cls))
        if isinstance(X, Mapping) and not issparse(X):
            raise ValueError("X is a dict of columns: pass a table, such as pandas.DataFrame(X)")
        if _has_names(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
            # A frame of pandas whose columns go by number. As one array all its columns would have
            # one type, and it would not be seen any more that pandas guessed the type of each.
            validate_data(self, X, reset=reset, skip_check_array=True)
            columns = [X.iloc[:, n] for n in range(X.shape[1])]
        else:
            given = _cell_by_cell(X)
            array = validate_data(self, given, reset=reset, dtype=None, ensure_all_finite=False)
            columns = list(array.T)
        if None in kinds and len(columns) == 1:
            return columns[0]
        return {f"x{n}": column for n, column in enumerate(columns)}

    def __sklearn_clone__(self) -> Self:
        budget = self._shared_budget()
        if budget.exhausted or self.budget is not None:
            # Here and not only in `fit`: a search turns what `fit` raises into a score of nan.
            self._check_budget()
        # The copy shares the budget: what the two spend on the same data adds up.
        twin: Self = super().__sklearn_clone__()
        twin._budget = budget
        return twin

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
    """Return whether columns have names. Columns with numbers are validated as an array."""
    names = None if issparse(X) else column_names(X)
    return names is not None and any(isinstance(name, str) for name in names)


def _cell_by_cell(X: Any) -> Any:
    """Return rows given as lists in an array that keeps the type of every cell."""
    if not isinstance(X, list | tuple):
        return X
    lengths = Counter(len(row) for row in X if _is_row(row))
    # By majority, so that one replaced row does not change how all the others are read.
    width, rows = lengths.most_common(1)[0] if lengths else (0, 0)
    if 2 * rows <= len(X) and rows < len(X):
        return X
    array = np.full((len(X), width), _UNREADABLE, dtype=object)
    for number, row in enumerate(X):
        for place, cell in enumerate(row if _is_row(row) and len(row) == width else ()):
            array[number, place] = cell
    return array


_UNREADABLE = object()


def _is_row(row: object) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _labels(
    X: Any, y: Any, classes: Iterable[Any] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int8]]:
    """Return the two classes, and each label as the place of its class; -1 if it is neither."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if classes is None:
        _refuse_several_types(y)
    elif isinstance(y, list | tuple):
        # As objects, so that one label does not change the type of the others.
        y = objects(y)
    given = column_or_1d(y, warn=True)
    check_consistent_length(X, given)
    if classes is None:
        two = _found(given)
        return two, (given == two[1]).astype(np.int8)
    two = _two(np.unique(list(classes)), given)
    numbers = all(passes(float_of, label) and math.isfinite(float_of(label)) for label in two)
    read = float_of if numbers else key_of
    place = {read(label): number for number, label in enumerate(two)}
    places = (place.get(read(label), -1) if passes(read, label) else -1 for label in given)
    return two, np.fromiter(places, dtype=np.int8, count=len(given))


def _refuse_several_types(y: Any) -> None:
    """Raise ValueError for labels of several types, of which numpy would make one."""
    listed = isinstance(y, list | tuple) or getattr(y, "dtype", None) == np.dtype(object)
    types = sorted({type(label).__name__ for label in y}) if listed else []
    if len(types) > 1:
        raise ValueError(
            f"Unknown label type: labels are of several types ({', '.join(types)}). Say which are "
            "the two with classes=; any other then makes a null round"
        )


def _found(given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the two classes that labels are of."""
    if given.dtype.kind == "f":
        assert_all_finite(given, input_name="y")
    check_classification_targets(given)
    return _two(np.unique(given), given)


def _two(classes: npt.NDArray[Any], given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the classes; raise ValueError unless they are two."""
    if len(classes) > 2:
        kind = type_of_target(given)
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}, with "
            f"{len(classes)} classes."
        )
    if len(classes) < 2:
        raise ValueError(
            f"there is one class only, {classes.tolist()}: give both as classes, so that they are "
            "not taken from the data"
        )
    return classes
