"""Learners as River classifiers: `pip install 'littlestone[river]'`.

>>> from river import datasets, evaluate, metrics
>>> from littlestone import Thresholds
>>> from littlestone.river import PrivateClassifier
>>> popular = Thresholds(0, 1, 0.5, column="is_popular")
>>> model = PrivateClassifier(popular, epsilon=1, delta=1e-6, horizon=1250)
>>> score = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
>>> print(model.learner_.guarantee)
(1.0, 0.0)-differential privacy, replace-one, per event

How River's conventions apply:

- A model makes its learner when it is first used. Until then it can be copied and pickled.
- **A budget is spent once.** A model and everything cloned, copied or unpickled from it spend, all
  together, at most the epsilon and delta of the first of them. A learner takes its share when it
  is made, and is refused if too little is left. For an ensemble or a selection of models set
  `learners=N` beforehand: each learner gets 1/N of epsilon and delta. One that passes a row on
  several times, as bagging does, costs as many times the epsilon of its learners.
- In another process than the one that made it, a model can be loaded but makes no learner. With
  `budget=BudgetFile("budgets.db", "NAME")` learners draw from that file instead, in any process.
- A private model that has a learner refuses copy, deepcopy and pickle, because running a copy is a
  second release. So the checks of River in `NOT_APPLICABLE` do not apply to it; nor, to private
  experts, those in `NOISY`.
- A row that the class cannot read, such as one that lacks its column, is a null round, which keeps
  it inside the guarantee; there is no prediction for it (None, and no probabilities).
- Probabilities are 0 and 1: a published rule is deterministic, and nothing more is public.
- `seed` fixes the random bits that are not secret. The noise is secret, so runs differ, whatever
  the seed.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np

from littlestone._classes.base import HypothesisClass, check_row, kinds_of
from littlestone._classes.causes import Causes, Ranges
from littlestone._classes.thresholds import Thresholds
from littlestone._data.cells import named_user
from littlestone._data.schema import read_batch, read_rounds
from littlestone._hypotheses.cells import coded, label, passes
from littlestone._hypotheses.frames import raw_cells
from littlestone._hypotheses.rows import checked_cells, column_names, named_column, part_of
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.estimators import HasTerms
from littlestone._learners.outcomes import refuse_outcomes
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._learners.rate_to_beat import FOLLOW, Baseline
from littlestone._learners.registry import AUTO
from littlestone._learners.soa import SOA
from littlestone._privacy.accounting import Unit
from littlestone._privacy.parameters import BadParameter, Real
from littlestone._store.budgets import BudgetFile
from littlestone.errors import BadExample

try:
    from river import base
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "littlestone.river needs River: pip install 'littlestone[river]'"
    ) from error

__all__ = ["NOISY", "NOT_APPLICABLE", "PrivateClassifier", "SOAClassifier", "feed"]

# The checks of River that a private model skips, each with the reason. All others pass.
NOT_APPLICABLE: Mapping[str, str] = {
    "check_pickling": "pickles a model that has learned: a private learner is never copied",
    "check_no_state_aliasing_with_input": "compares pickles of a model that has learned",
}

# The checks that private experts skip too. With scripted noise they pass, in the tests.
NOISY: Mapping[str, str] = dict.fromkeys(
    (
        "check_shuffle_features_no_impact",
        "check_learn_many_matches_learn_one",
        "check_seeding_is_idempotent",
    ),
    "compares two runs: noise decides between rules with equally many mistakes, at any epsilon",
)

# River's checks clone one model many times: into so many shares its budget is split.
MANY = 10**6


class _Model(base.MiniBatchClassifier):
    """Keep the parameters, and make the learner when it is first used."""

    cls: HypothesisClass
    _made: Any = None

    def _begin(self) -> Any:
        """Return a new learner."""
        return SOA(self.cls)

    @property
    def learner_(self) -> Any:
        """Return the learner of littlestone, with its rule, its releases and its guarantee."""
        if self._made is None:
            refuse_outcomes(self.cls, "a River model")
            self._made = self._begin()
        return self._made

    def _skip(self, x: Any) -> None:
        """Handle a round without a usable example."""

    def _learn_batch(self, X: Any, y: Any) -> None:
        rounds = read_rounds(self.cls, X, y, None, "null")
        kept = np.flatnonzero(rounds.usable)
        self.learner_.learn_many(part_of(rounds.columns, kept), rounds.answers[kept])

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn from an example; a row or a label that cannot be read is a null round."""
        if passes(partial(check_row, self.cls), x) and passes(label, y):
            self._learn(x, label(y))
        else:
            self._skip(x)

    def _learn(self, x: Any, answer: bool) -> None:
        self.learner_.learn_one(x, answer)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from a batch, as `learn_one` would row by row."""
        if not self._lacks_a_column(X):
            self._learn_batch(X, y)
            return
        count, labels = _length(X), len(checked_cells(y, "truth", "labels"))
        if count != labels:
            raise BadExample(f"{count} examples and {labels} labels")
        for x in self._unreadable(X, count):
            self._skip(x)

    def _unreadable(self, X: Any, count: int) -> Iterable[Mapping[str, object]]:
        """Return what `_skip` needs of rows that cannot be read."""
        return [{}] * count

    def _lacks_a_column(self, X: Any) -> bool:
        """Return whether a table lacks a column that the class reads: no row of it can be read."""
        names = column_names(X)
        return names is not None and not set(kinds_of(self.cls)) - {None} <= set(names)

    def predict_one(self, x: Any, **kwargs: Any) -> bool | None:
        """Return the label that the published rule gives to an example."""
        return (
            bool(self.learner_.predict_one(x)) if passes(partial(check_row, self.cls), x) else None
        )

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[base.typing.ClfTarget, float]:
        """Return probability 1 for the label of the published rule, 0 for the other."""
        predicted = self.predict_one(x)
        return {} if predicted is None else {False: 1.0 - predicted, True: float(predicted)}

    def predict_many(self, X: Any) -> Any:
        """Return the label of each row, as a pandas Series; None where a row cannot be read."""
        labels = self._labels(X)
        return _pandas().Series(labels, index=_index(X), dtype=_dtype(labels))

    def predict_proba_many(self, X: Any) -> Any:
        """Return `predict_proba_one` of each row, as a pandas DataFrame; NaN if unreadable."""
        yes = np.array([np.nan if answer is None else float(answer) for answer in self._labels(X)])
        columns = {False: 1.0 - yes, True: yes}
        return _pandas().DataFrame(columns, index=_index(X))

    def _labels(self, X: Any) -> list[bool | None]:
        if self._lacks_a_column(X):
            return [None] * _length(X)
        batch, readable = read_batch(self.cls, X, False)
        labels: list[bool | None] = [None] * len(readable)
        answers = self.learner_.predict_many(part_of(batch, readable)).tolist()
        for row, answer in zip(np.flatnonzero(readable), answers, strict=True):
            labels[row] = answer
        return labels

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"cls": Thresholds(0, 1, 0.5, column="is_popular")}


class PrivateClassifier(HasTerms, _Model):
    """Run a private learner as a River classifier.

    Parameters
    ----------
    cls : HypothesisClass
        The class of rules.
    epsilon, delta : int, float or Fraction
        The budget of the learners of this model and of its clones together; "experts" needs no
        delta.
    horizon : int
        The number of rounds to plan for.
    learner : {"auto", "dpsoa", "experts", "causes"}
        The learner; "auto" takes what `recommend` returns.
    change_cost : int, float or Fraction
        The mistakes that one change of rule is worth; for causes and private experts.
    min_rate : int, float, Fraction or "auto"
        The positive rate above which it pays to predict positive; for private experts, and at
        least for causes.
    baseline : {"follow", "fixed"}
        For causes: whether the rate to beat follows the stream.
    user : str, optional
        The column that holds the user of a row: then all rounds of a user are protected together.
    cap : int, optional
        Required with `user`: how many epochs of causes read a user, or how many rounds of a user
        count for other classes.
    learners : int
        The number of learners among which the budget is split.
    budget : BudgetFile, optional
        A budget that other processes draw from too, instead of one for this model and its clones.
    seed : int, optional
        Fixes the random bits that are not secret.

    Examples
    --------
    >>> from littlestone import Causes
    >>> model = PrivateClassifier(Causes(["version"]), epsilon=4, delta=1e-6, horizon=10_000)
    >>> for number in range(3000):
    ...     model.learn_one({"version": f"4.{number % 5}"}, number % 10 == 2)
    >>> print(model.learner_.hypothesis)
    version = '4.2'
    """

    _split_by = "learners"

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        learner: str = AUTO,
        *,
        change_cost: Real = CHANGE_COST,
        min_rate: Real | str = AUTO_RATE,
        baseline: Baseline = FOLLOW,
        user: str | None = None,
        cap: int | None = None,
        learners: int = 1,
        budget: BudgetFile | None = None,
        seed: int | None = None,
    ) -> None:
        self.cls, self.epsilon, self.delta, self.horizon = cls, epsilon, delta, horizon
        self.learner, self.change_cost = learner, change_cost
        self.min_rate, self.baseline = min_rate, baseline
        self.user, self.cap = user, cap
        self.learners, self.budget, self.seed = learners, budget, seed

    def _begin(self) -> PrivateLearner:
        if self.horizon is None:
            raise BadParameter("give horizon: a stream does not say how many rows will follow")
        unit: Unit = "event" if self.user is None else "user"
        return self._begun(self.horizon, unit=unit, cap=self.cap)

    def _learner_begun(self) -> object:
        return self._made

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return a model without a learner that shares the budget of this one."""
        # River clones by the constructor, which knows nothing of budgets.
        twin = super().clone(new_params, include_attributes)
        twin._budget = self._shared_budget()
        return twin

    def _user(self, x: Any) -> object:
        """Return the user of a row; None where it names nobody."""
        named = self.user is not None and isinstance(x, Mapping)
        return named_user(x.get(self.user)) if named else None

    def _skip(self, x: Any) -> None:
        self.learner_.skip_one(*([] if self.user is None else [self._user(x)]))

    def _unreadable(self, X: Any, count: int) -> Iterable[Mapping[str, object]]:
        # A null round of a user counts for the cap, so its user has to be known.
        if self.user is None or self.user not in (column_names(X) or []):
            return super()._unreadable(X, count)
        return [{self.user: user} for user in coded(raw_cells(named_column(X, self.user)))]

    def _learn(self, x: Any, answer: bool) -> None:
        user = self._user(x)
        # A row without its user cannot be protected with the others of that user: a null round.
        if self.user is None:
            self.learner_.learn_one(x, answer)
        elif user is None:
            self.learner_.skip_one()
        else:
            self.learner_.learn_one(x, answer, user)

    def _learn_batch(self, X: Any, y: Any) -> None:
        users: list[Any] = []
        if self.user is not None:
            listed = isinstance(X, list | tuple)
            users = [list(map(self._user, X)) if listed else _user_column(X, self.user)]
        self.learner_.learn_many(X, y, *users, bad_rows="null")

    def _unit_test_skips(self) -> set[str]:
        return {*NOT_APPLICABLE, *(NOISY if self.learner == "experts" else ())}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        budget: dict[str, Any] = {
            "epsilon": 1000 * MANY, "delta": 0.5, "horizon": 2000, "learners": MANY
        }  # fmt: skip
        for given in super()._unit_test_params():
            yield given | budget | {"learner": "dpsoa"}
            yield given | budget | {"learner": "experts", "delta": None}
        # River's own dataset has numbers, which a class of causes reads by public edges.
        causes = Causes([Ranges("is_popular", [0.5])])
        yield budget | {"cls": causes, "min_rate": 0.5, "learner": "causes"}


class SOAClassifier(_Model):
    """Run `littlestone.SOA` as a River classifier. Not private.

    Parameters
    ----------
    cls : HypothesisClass
        The class of rules.

    Examples
    --------
    >>> from littlestone import Points
    >>> model = SOAClassifier(Points("merchant"))
    >>> model.learn_one({"merchant": "M"}, True)
    >>> model.predict_one({"merchant": "M"})
    True
    """

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls


# How many rounds `feed` gives to the learner at a time.
BLOCK = 4096


def feed(learner: Any, stream: Iterable[Any], horizon: int | None = None) -> int:
    """Learn from a River dataset, a generator, or any (x, y) pairs.

    Parameters
    ----------
    learner : object
        A learner of `littlestone`; a private one makes a null round of a row that it cannot read.
    stream : iterable of (x, y)
        Rows with their labels; it may be endless.
    horizon : int, optional
        The most rounds; by default those that the learner's plan has left.

    Returns
    -------
    int
        The number of rounds.

    Raises
    ------
    BadParameter
        If no horizon is given and the learner has no plan.

    Examples
    --------
    >>> from river.datasets import synth
    >>> from littlestone import PrivateExperts, Thresholds
    >>> learner = PrivateExperts(Thresholds(0, 10, 0.5, column="salary"), epsilon=1, horizon=500)
    >>> loans = (({"salary": x["salary"] / 15_000}, y) for x, y in synth.Agrawal(seed=1))
    >>> feed(learner, loans), learner.rounds
    (500, 500)
    """
    if horizon is None:
        plan = getattr(learner, "plan", None)
        if plan is None:
            raise BadParameter(f"give horizon, when to stop: {learner!r} has no plan that says it")
        horizon = max(0, plan.horizon - learner.rounds)
    options = {"bad_rows": "null"} if isinstance(learner, PrivateLearner) else {}
    # In blocks: a stream may be endless, and a learner is fast on batches only.
    rounds, count = islice(stream, horizon), 0
    while block := list(islice(rounds, BLOCK)):
        xs, ys = zip(*block, strict=True)
        learner.learn_many(list(xs), list(ys), **options)
        count += len(block)
    return count


def _user_column(X: Any, name: str) -> Any:
    """Return the users of a table: objects keep their own types, others may be guessed."""
    users = named_column(X, name)
    return np.asarray(users) if getattr(users, "dtype", None) == np.dtype(object) else users


def _length(X: Any) -> int:
    """Return the number of rows of a table that lacks a column of the class."""
    return len(next(iter(X.values()), ())) if isinstance(X, Mapping) else len(X)


def _index(X: Any) -> Any:
    """Return the index of a table of pandas; None for any other, also for a list."""
    return X.index if hasattr(X, "iloc") else None


def _dtype(labels: list[bool | None]) -> type:
    return object if None in labels else bool


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "River's batches of predictions are pandas objects: pip install pandas"
        ) from error
    return pandas
