"""Share what River's and scikit-learn's estimators have in common: terms as parameters, one budget."""

from copy import deepcopy
from fractions import Fraction
from typing import Any

from littlestone._classes.base import checked_class
from littlestone._learners.base import PrivateLearner
from littlestone._learners.registry import LEARNERS, check_name, choose, planned_names
from littlestone._learners.terms import AUTO, Terms
from littlestone._privacy.accounting import Cost, HasBudget
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, Real, positive, probability, whole


class HasTerms(HasBudget):
    """Make learners from parameters that are terms, each with a share of the budget. A mixin."""

    # A class of rules; scikit-learn makes estimators without one.
    cls: Any
    epsilon: Real | None
    delta: Real | None
    learner: str
    change_cost: Real
    min_rate: Real | str
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
            learner=self.learner,
            **unit,
        )
        learner = choose(terms).make(terms.cls, self.seed, noise=self._noise)
        self._draw(learner.plan)
        return learner

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
