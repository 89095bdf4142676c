"""Budget the privacy of estimators, which other libraries clone, copy and pickle.

A mechanism refuses to be copied. An estimator of scikit-learn or River cannot: their searches and
ensembles work by cloning one that has not begun. So what must not be doubled is the budget. An
estimator and everything cloned, copied or unpickled from it hold one `Budget`, and together they
spend at most its total (docs/guarantee.md, Theorem 8, "Estimators").
"""

import os
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from threading import Lock
from typing import Any, ClassVar, Self
from uuid import uuid4

from littlestone.privacy.accounting import NOTHING, Cost
from littlestone.privacy.parameters import BadParameter


class Budget:
    """Hold an amount of (epsilon, delta) that all holders of the object spend together, once.

    Copying returns the same budget. A pickle holds its token only: loaded in the process that made
    the budget it is that budget, loaded in another it is one from which nothing can be spent.

    Parameters
    ----------
    split_by
        The name of the parameter that divides it, for the message of a refusal.

    Examples
    --------
    >>> budget, half = Budget("fits"), Cost(Fraction(1, 2))
    >>> budget.draw(half, total=Cost(Fraction(1)))
    >>> budget.spent, budget.exhausted
    (Cost(epsilon=Fraction(1, 2), delta=Fraction(0, 1)), False)
    """

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
        """Raise if `cost` cannot be spent.

        Parameters
        ----------
        cost
            What a learner would spend.
        total
            What the total is going to be, if it has not been fixed.

        Raises
        ------
        BadParameter
            If less is left, or if the budget belongs to another process.
        """
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
                f"a grid search, an ensemble) say {self.split_by}=N before the first, and each "
                "gets 1/N of the budget; for other data make a new estimator"
            )

    def draw(self, cost: Cost, total: Cost) -> None:
        """Spend `cost`, or raise and spend nothing.

        Parameters
        ----------
        cost
            What a learner will spend.
        total
            The total, which is fixed now if it has not been.

        Raises
        ------
        BadParameter
            If less is left, or if the budget belongs to another process.
        """
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


def cost_of(plan: Any) -> Cost:
    """Return what a learner with this plan spends in all; one without a delta needs none."""
    return Cost(plan.epsilon, getattr(plan, "delta", Fraction(0)))


def _text(cost: Cost) -> str:
    return f"(epsilon {float(cost.epsilon):.4g}, delta {float(cost.delta):.4g})"


class HasBudget:
    """Share one budget among all that is cloned, copied or unpickled from an estimator. A mixin.

    Its total is what `_total` returns when the first learner is begun or, if that comes first, when
    the first copy is made: not later, because a search changes the parameters of its clones.
    """

    _split_by: ClassVar[str]
    _budget: Budget | None = None

    def _total(self) -> Cost:
        """Return what the parameters allow in all; raise BadParameter if they do not say."""
        raise NotImplementedError

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
        self._own_budget().draw(cost_of(plan), self._total())

    def __getstate__(self) -> object:
        # copy.copy, copy.deepcopy and every pickler come this way.
        # A copy of a learner that has begun would release from the same noise again.
        if self._learner_begun() is not None:
            raise TypeError(
                "a fitted estimator cannot be copied or pickled: a copy would release twice"
            )
        self._shared_budget()
        return super().__getstate__()


_MAKING = Lock()
