"""Share what River's and scikit-learn's estimators have in common: terms as parameters, one budget.

A mechanism refuses to be copied. An estimator of scikit-learn or River cannot: their searches and
ensembles work by cloning one that has not begun. So what must not be doubled is the budget. An
estimator and everything cloned, copied or unpickled from it hold one `Budget`, and together they
spend at most its total (docs/guarantee.md, Theorem 8, "Estimators").
"""

import os
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from fractions import Fraction
from threading import Lock
from typing import Any, ClassVar, Self
from uuid import uuid4

from littlestone._classes.base import checked_class
from littlestone._learners.base import PrivateLearner
from littlestone._learners.rate_to_beat import Baseline
from littlestone._learners.registry import AUTO, LEARNERS, Terms, check_name, choose, planned_names
from littlestone._privacy.accounting import NOTHING, Cost
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, Real, positive, probability, whole


class Budget:
    """Hold an amount of (epsilon, delta) that all holders of the object spend together, once."""

    def __init__(self, split_by: str) -> None:
        self.split_by = split_by
        self.total: Cost | None = None
        self.spent = NOTHING
        self._token = uuid4().hex
        self._home: int | None = os.getpid()
        self._lock = Lock()

    @property
    def exhausted(self) -> bool:
        """Return whether nothing can be spent any more: every learner needs some epsilon."""
        return self.total is not None and self.spent.epsilon >= self.total.epsilon

    def fix(self, total: Cost) -> None:
        """Fix the total, if it has not been fixed."""
        with self._lock:
            if self.total is None:
                self.total = total

    def check(self, cost: Cost, total: Cost) -> None:
        """Raise if `cost` cannot be spent."""
        # What copies in another process spend is not known here, so nothing may be spent.
        if os.getpid() != self._home:
            raise BadParameter(
                "this estimator was made in another process, and only there is it known what its "
                "other copies have spent: fit it in that process (n_jobs=1), or make a new "
                "estimator in this one, with a budget of its own"
            )
        total = total if self.total is None else self.total
        after = self.spent + cost
        if after.epsilon > total.epsilon or after.delta > total.delta:
            left = Cost(total.epsilon - self.spent.epsilon, total.delta - self.spent.delta)
            raise BadParameter(
                f"this would spend {_text(cost)}, and {_text(left)} is left of the budget of "
                f"{_text(total)}, which this estimator shares with its clones and copies because "
                "what they spend on the same data adds up. For several learners (cross-validation, "
                f"a grid search, an ensemble without bootstrap) say {self.split_by}=N before the "
                "first, and each gets 1/N of the budget; for other data make a new estimator"
            )

    def draw(self, cost: Cost, total: Cost) -> None:
        """Spend `cost`, or raise and spend nothing."""
        with self._lock:
            # Under the lock: two fits at once must not both see the same rest.
            self.check(cost, total)
            self.total = total if self.total is None else self.total
            self.spent += cost

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[[str], "Budget"], tuple[str]]:
        # For as long as the process lives: a pickle may be loaded at any time.
        _PICKLED[self._token] = self
        return _loaded, (self._token,)


# By token, so that a pickle loaded in this process finds the budget it belongs to.
_PICKLED: dict[str, Budget] = {}


def _loaded(token: str) -> Budget:
    """Return the budget of this process with this token, or one that refuses."""
    if token in _PICKLED:
        return _PICKLED[token]
    foreign = Budget("")
    foreign._token, foreign._home = token, None
    return foreign


def _text(cost: Cost) -> str:
    return f"(epsilon {float(cost.epsilon):.4g}, delta {float(cost.delta):.4g})"


_MAKING = Lock()


class HasTerms:
    """Make learners from parameters that are terms, each with a share of one budget. A mixin.

    All that is cloned, copied or unpickled from an estimator shares its budget.
    """

    _split_by: ClassVar[str]
    _budget: Budget | None = None
    # A `BudgetFile`, which is then drawn from and nothing else; or None.
    budget: Any

    # A class of rules; scikit-learn makes estimators without one.
    cls: Any
    epsilon: Real | None
    delta: Real | None
    learner: str
    change_cost: Real
    min_rate: Real | str
    baseline: Baseline
    seed: int | None
    # Tests script it; None is the secret noise of the system.
    _noise: Noise | None = None

    def _begun(self, horizon: int, **unit: Any) -> PrivateLearner:
        """Return a learner whose cost has been taken from the budget."""
        total = self._total()
        terms = Terms(
            # A copy, because a class caches results, and parameters must stay as they were.
            cls=deepcopy(checked_class(self.cls)),
            # Shares are exact fractions: N of them are the budget, and not a rounding error more.
            epsilon=total.epsilon * self._share,
            delta=total.delta * self._share,
            horizon=horizon,
            change_cost=self.change_cost,
            min_rate=self.min_rate,
            baseline=self.baseline,
            learner=self.learner,
            **unit,
        )
        learner = choose(terms).make(terms.cls, self.seed, noise=self._noise)
        self._draw(learner.plan)
        return learner

    def _learner_begun(self) -> object:
        """Return the learner that was begun, or None."""
        raise NotImplementedError

    def _own_budget(self) -> Budget:
        with _MAKING:
            if self._budget is None:
                self._budget = Budget(self._split_by)
            return self._budget

    def _shared_budget(self) -> Budget:
        """Return the budget for a copy to share, its total fixed if the parameters say it."""
        budget = self._own_budget()
        with suppress(BadParameter):
            budget.fix(self._total())
        return budget

    def _draw(self, plan: Any) -> None:
        """Spend what a learner with this plan spends, or raise."""
        if self.budget is None:
            self._own_budget().draw(plan.cost, self._total())
        else:
            cost, note = plan.cost, type(self).__name__
            self.budget.draw(cost.epsilon, cost.delta, unit=plan.unit, note=note)

    def __getstate__(self) -> object:
        # copy.copy, copy.deepcopy and every pickler come this way.
        # A copy of a learner that has begun would release from the same noise again.
        if self._learner_begun() is not None:
            raise TypeError(
                "a fitted estimator cannot be copied or pickled: a copy would release twice"
            )
        self._shared_budget()
        return super().__getstate__()

    def _total(self) -> Cost:
        epsilon = positive(self._given("epsilon"), "epsilon")
        if self.delta is None and not self._needs_delta:
            return Cost(epsilon)
        return Cost(epsilon, probability(self._given("delta"), "delta"))

    @property
    def _needs_delta(self) -> bool:
        """Return whether the learner has a delta. "auto" may take one that has."""
        check_name(self.learner, planned_names())
        return self.learner == AUTO or "delta" in LEARNERS[self.learner].takes

    @property
    def _share(self) -> Fraction:
        """Return the part of the budget that one learner may spend."""
        return Fraction(1, whole(getattr(self, self._split_by), self._split_by, least=1))

    def _given(self, name: str) -> Any:
        if getattr(self, name) is None:
            raise BadParameter(f"give {name}")
        return getattr(self, name)
