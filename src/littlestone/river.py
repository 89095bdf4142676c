"""Learners as River classifiers: `pip install 'littlestone[river]'`.

>>> from river import datasets, evaluate, metrics
>>> from littlestone import Thresholds
>>> from littlestone.river import PrivateExperts
>>> popular = Thresholds(0, 1, 0.5, column="is_popular")
>>> model = PrivateExperts(popular, epsilon=1, horizon=1250)
>>> score = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
>>> print(model.learner.guarantee)
(1.0, 0.0)-differential privacy, replace-one, per event

What River's conventions come to here:

- A model begins its learner when it is first used. Until then it can be copied and pickled.
- **A budget is spent once.** A model and everything cloned, copied or unpickled from it spend, all
  together, at most the epsilon and delta of the first of them. A learner draws its part when it is
  begun, and is refused if too little is left. For an ensemble or a selection of models say
  `learners=N` beforehand: each learner gets 1/N of epsilon and delta.
- In another process than the one that made it, a model can be loaded but begins no learner.
- A private model that has begun is a spender: it refuses copy, deepcopy and pickle, because
  stepping a copy is a second release. So the checks of River in `NOT_APPLICABLE` do not apply to
  it; nor, to `PrivateExperts`, those in `NOISY`.
- A row that the class cannot read, such as one that lacks its column, is a null round, which keeps
  it inside the guarantee; there is no prediction for it (None, and no probabilities).
- Probabilities are 0 and 1: a published rule says yes or no, and nothing more is public.
- `seed` fixes the coins that are not secret. The noise is, so runs differ, whatever the seed.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from littlestone.learning import adaptive, dpsoa, experts, plain
from littlestone.learning.plan import Plan
from littlestone.learning.private import PrivateLearner
from littlestone.learning.weighing import ExpertsPlan
from littlestone.privacy.accounting import Cost
from littlestone.privacy.budget import HasBudget, cost_of
from littlestone.privacy.exact import BadParameter, Real, positive, probability, whole
from littlestone.theory.classes import HypothesisClass, check_row, kinds_of
from littlestone.theory.errors import BadExample
from littlestone.theory.rows import (
    Batch,
    as_batch,
    batch_length,
    column_names,
    column_of,
    each,
    label,
    part_of,
    passes,
)
from littlestone.theory.thresholds import Thresholds

try:
    from river import base
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "littlestone.river needs River: pip install 'littlestone[river]'"
    ) from error

__all__ = [
    "DPSOA",
    "NOISY",
    "NOT_APPLICABLE",
    "SOA",
    "AdaptiveDPSOA",
    "EveryRound",
    "Halving",
    "PrivateExperts",
    "feed",
]

NOT_APPLICABLE: Mapping[str, str] = {
    "check_pickling": "pickles a model that has learned: a spender is moved, never copied",
    "check_no_state_aliasing_with_input": "compares pickles of a model that has learned",
}
"""The checks of River that a private model skips, each with why. Everything else passes."""

NOISY: Mapping[str, str] = dict.fromkeys(
    (
        "check_shuffle_features_no_impact",
        "check_learn_many_matches_learn_one",
        "check_seeding_is_idempotent",
    ),
    "compares two runs: among rules with as many mistakes the noise decides, however large epsilon",
)
"""What `PrivateExperts` skips beside. With noise that is not secret they pass, in the tests."""

MANY = 10**6
"""River's checks clone one model over and over: among so many learners its budget is split."""


class _Model(base.MiniBatchClassifier):
    """What the models share: they keep what they were given, and begin when first used."""

    cls: HypothesisClass
    _learner: Any = None

    @abstractmethod
    def _begin(self) -> Any:
        """The learner, before its first round."""

    @property
    def learner(self) -> Any:
        """The learner at work: its rule, its releases, its guarantee."""
        if self._learner is None:
            self._learner = self._begin()
        return self._learner

    def _skip(self, x: Any) -> None:
        """A round without a usable example."""

    def _learn_batch(self, X: Any, batch: Batch, y: npt.NDArray[Any]) -> None:
        usable = self.cls.readable(batch) & each(partial(passes, label), y)
        self.learner.learn_many(part_of(batch, usable), y[usable])

    def learn_one(self, x: Any, y: Any) -> None:
        """See one example's label; a row or a label that cannot be read is a null round."""
        if passes(partial(check_row, self.cls), x) and passes(label, y):
            self._learn(x, label(y))
        else:
            self._skip(x)

    def _learn(self, x: Any, answer: bool) -> None:
        self.learner.learn_one(x, answer)

    def learn_many(self, X: Any, y: Any) -> None:
        """See a batch of labels, as `learn_one` would, row by row; X is a table of any kind."""
        batch, answers = self._batch(X), column_of(y, None)
        count = _length(X) if batch is None else batch_length(batch)
        if count != len(answers):
            raise BadExample(f"{count} examples and {len(answers)} labels")
        if batch is not None:
            self._learn_batch(X, batch, answers)
            return
        for x in self._rest(X, count):
            self._skip(x)

    def _rest(self, X: Any, count: int) -> Iterable[Mapping[str, object]]:
        """What is left to tell of rows that cannot be read."""
        return [{}] * count

    def _batch(self, X: Any) -> Batch | None:
        """A table as arrays; None if it lacks a column that the class reads."""
        names, kinds = column_names(X), kinds_of(self.cls)
        if names is not None and not set(kinds) - {None} <= set(names):
            return None
        return as_batch(X, kinds)

    def predict_one(self, x: Any, **kwargs: Any) -> bool | None:
        """What the published rule says of an example; None if it cannot be read."""
        return (
            bool(self.learner.predict_one(x)) if passes(partial(check_row, self.cls), x) else None
        )

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[base.typing.ClfTarget, float]:
        """Certainty: 1 for what the published rule says, 0 for the other."""
        said = self.predict_one(x)
        return {} if said is None else {False: 1.0 - said, True: float(said)}

    def predict_many(self, X: Any) -> Any:
        """What the published rule says of each row, as a pandas Series."""
        said = self._said(X)
        return _pandas().Series(said, index=getattr(X, "index", None), dtype=_dtype(said))

    def predict_proba_many(self, X: Any) -> Any:
        """Certainty for each row, as a pandas DataFrame; NaN where a row cannot be read."""
        yes = np.array([np.nan if one is None else float(one) for one in self._said(X)])
        columns = {False: 1.0 - yes, True: yes}
        return _pandas().DataFrame(columns, index=getattr(X, "index", None))

    def _said(self, X: Any) -> list[bool | None]:
        batch = self._batch(X)
        if batch is None:
            return [None] * _length(X)
        readable = self.cls.readable(batch)
        said: list[bool | None] = [None] * len(readable)
        found = self.learner.predict_many(part_of(batch, readable)).tolist()
        for row, one in zip(np.flatnonzero(readable), found, strict=True):
            said[row] = one
        return said

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"cls": Thresholds(0, 1, 0.5, column="is_popular")}


class _Private(HasBudget, _Model):
    """A model around a spender. So large an epsilon for River's checks that noise vanishes: some
    compare two runs, and can only be about what is not noise."""

    _split_by = "learners"
    epsilon: Real | None
    learners: int

    @abstractmethod
    def _made(self, epsilon: Real | None, delta: Real | None) -> Any:
        """Return the learner, with its part of the budget."""

    def _begin(self) -> Any:
        count = whole(self.learners, "learners", least=1)
        if self._plan is None:
            total = self._total()
            learner = self._made(total.epsilon / count, total.delta / count)
        elif count == 1:
            learner = self._made(self.epsilon, getattr(self, "delta", None))
        else:
            raise BadParameter(
                f"a plan says what one learner spends and is not split among learners={count}: "
                "give epsilon, delta and horizon instead of a plan"
            )
        self._draw(learner.plan)
        return learner

    def _spender(self) -> object:
        return self._learner

    @property
    def _plan(self) -> Any:
        return getattr(self, "plan", None)

    def _total(self) -> Cost:
        if self._plan is not None:
            return cost_of(self._plan)
        if self.epsilon is None:
            raise BadParameter("say epsilon, or give a plan")
        epsilon = positive(self.epsilon, "epsilon")
        if not hasattr(self, "delta"):
            return Cost(epsilon)
        if self.delta is None:
            raise BadParameter("say delta, or give a plan")
        return Cost(epsilon, probability(self.delta, "delta"))

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return a model that has not begun and shares the budget of this one."""
        twin = super().clone(new_params, include_attributes)
        twin._budget = self._shared_budget()
        return twin

    def _skip(self, x: Any) -> None:
        self.learner.skip_one()

    def _learn_batch(self, X: Any, batch: Batch, y: npt.NDArray[Any]) -> None:
        self.learner.learn_many(batch, y, bad_rows="null")

    def _unit_test_skips(self) -> set[str]:
        return set(NOT_APPLICABLE)


class DPSOA(_Private):
    """`littlestone.DPSOA` as a River classifier: for any class, also one without end.

    `user` names the column that holds the user of a row: then all the rounds of a user are
    protected together, at most `cap` of them if that is given. `epsilon` and `delta` are for the
    learners of this model and of its clones together, of which each gets the `learners`-th part.

    >>> from littlestone import Rules
    >>> model = DPSOA(Rules(["version"]), epsilon=4, delta=1e-6, horizon=10_000)
    >>> for number in range(1000):
    ...     model.learn_one({"version": f"4.{number % 5}"}, number % 5 == 2)
    >>> print(model.learner.hypothesis)
    version = '4.2'
    """

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        *,
        plan: Plan | None = None,
        user: str | None = None,
        cap: int | None = None,
        tolerance: Real = 0,
        learners: int = 1,
        seed: int | None = None,
    ) -> None:
        self.cls, self.epsilon, self.delta, self.horizon = cls, epsilon, delta, horizon
        self.plan, self.user, self.cap = plan, user, cap
        self.tolerance, self.learners, self.seed = tolerance, learners, seed

    def _made(self, epsilon: Real | None, delta: Real | None) -> PrivateLearner:
        return dpsoa.DPSOA(
            self.cls,
            epsilon,
            delta,
            self.horizon,
            plan=self.plan,
            unit="event" if self.user is None else "user",
            cap=self.cap,
            tolerance=self.tolerance,
            seed=self.seed,
        )

    def _skip(self, x: Any) -> None:
        self.learner.skip_one(None if self.user is None else x.get(self.user))

    def _rest(self, X: Any, count: int) -> Iterable[Mapping[str, object]]:
        if self.user is None or self.user not in (column_names(X) or []):
            return super()._rest(X, count)
        return [{self.user: user} for user in column_of(X, self.user)]

    def _learn(self, x: Any, answer: bool) -> None:
        if self.user is None:
            self.learner.learn_one(x, answer)
        elif x.get(self.user) is None:
            self.learner.skip_one()
        else:
            self.learner.learn_one(x, answer, x[self.user])

    def _learn_batch(self, X: Any, batch: Batch, y: npt.NDArray[Any]) -> None:
        users = None if self.user is None else column_of(X, self.user)
        self.learner.learn_many(batch, y, users, bad_rows="null")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        for given in super()._unit_test_params():
            yield (
                given | {"learners": MANY} | {"epsilon": 1000 * MANY, "delta": 0.5, "horizon": 2000}
            )


class PrivateExperts(_Private):
    """`littlestone.PrivateExperts` as a River classifier: for finite classes, without a delta.

    >>> from littlestone import Thresholds
    >>> model = PrivateExperts(Thresholds(0, 9, column="score"), epsilon=8, horizon=10_000)
    >>> for number in range(1000):
    ...     model.learn_one({"score": number % 10}, number % 10 >= 5)
    >>> model.predict_one({"score": 0}), model.predict_one({"score": 9}), model.predict_one({})
    (False, True, None)
    """

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        horizon: int | None = None,
        *,
        plan: ExpertsPlan | None = None,
        tolerance: Real = 0,
        first: experts.FirstRule = "drawn",
        learners: int = 1,
        seed: int | None = None,
    ) -> None:
        self.cls, self.epsilon, self.horizon = cls, epsilon, horizon
        self.plan, self.tolerance, self.first = plan, tolerance, first
        self.learners, self.seed = learners, seed

    def _made(self, epsilon: Real | None, delta: Real | None) -> PrivateLearner:
        return experts.PrivateExperts(
            self.cls,
            epsilon,
            self.horizon,
            plan=self.plan,
            tolerance=self.tolerance,
            first=self.first,
            seed=self.seed,
        )

    def _unit_test_skips(self) -> set[str]:
        return {*NOT_APPLICABLE, *NOISY}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        for given in super()._unit_test_params():
            yield given | {"learners": MANY} | {"epsilon": 1000 * MANY, "horizon": 2000}


class AdaptiveDPSOA(_Private):
    """`littlestone.AdaptiveDPSOA` as a River classifier: for study, O(t) a round."""

    _kind: type[adaptive.AdaptiveDPSOA] = adaptive.AdaptiveDPSOA

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        trees: int | None = None,
        learners: int = 1,
        seed: int | None = None,
    ) -> None:
        self.cls, self.epsilon, self.delta, self.horizon = cls, epsilon, delta, horizon
        self.trees, self.learners, self.seed = trees, learners, seed

    def _made(self, epsilon: Any, delta: Any) -> PrivateLearner:
        return self._kind(self.cls, epsilon, delta, self.horizon, trees=self.trees, seed=self.seed)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        for given in super()._unit_test_params():
            budget = {"epsilon": 10**6 * MANY, "delta": 0.5}
            yield given | {"learners": MANY} | budget | {"horizon": 2000, "trees": 100}


class EveryRound(AdaptiveDPSOA):
    """`littlestone.EveryRound` as a River classifier: the naive private baseline."""

    _kind = adaptive.EveryRound


class SOA(_Model):
    """`littlestone.SOA` as a River classifier. Not private.

    >>> from littlestone import Points
    >>> model = SOA(Points("merchant"))
    >>> model.learn_one({"merchant": "M"}, True)
    >>> model.predict_one({"merchant": "M"})
    True
    """

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls

    def _begin(self) -> plain.SOA:
        return plain.SOA(self.cls)


class Halving(_Model):
    """`littlestone.Halving` as a River classifier. Not private."""

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls

    def _begin(self) -> plain.Halving:
        return plain.Halving(self.cls)


BLOCK = 4096


def feed(learner: Any, stream: Iterable[Any], horizon: int | None = None) -> int:
    """Have a learner of `littlestone` learn from a River dataset, generator, or any (x, y) pairs.

    At most `horizon` rounds, which a stream without end needs; by default as many as the learner's
    plan has left. Says how many rounds there were. A row that cannot be read is a null round.

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
            raise BadParameter(f"say after how many rounds to stop: {learner!r} has no horizon")
        horizon = max(0, plan.horizon - learner.rounds)
    options = {"bad_rows": "null"} if isinstance(learner, PrivateLearner) else {}
    rounds, count = islice(stream, horizon), 0
    while block := list(islice(rounds, BLOCK)):
        xs, ys = zip(*block, strict=True)
        learner.learn_many(list(xs), list(ys), **options)
        count += len(block)
    return count


def _length(X: Any) -> int:
    """How many rows a table has, which no column says that the class could read."""
    return len(next(iter(X.values()), ())) if isinstance(X, Mapping) else len(X)


def _dtype(said: list[bool | None]) -> type:
    return object if None in said else bool


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "River's batches of predictions are pandas objects: pip install pandas"
        ) from error
    return pandas
