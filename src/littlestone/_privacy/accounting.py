"""Account for what was spent. Rounding is always towards less privacy claimed.

Events are frozen records of what happened; how they are counted is a function of them
(docs/guarantee.md, Theorem 8).

Budget the privacy of estimators, which other libraries clone, copy and pickle.

A mechanism refuses to be copied. An estimator of scikit-learn or River cannot: their searches and
ensembles work by cloning one that has not begun. So what must not be doubled is the budget. An
estimator and everything cloned, copied or unpickled from it hold one `Budget`, and together they
spend at most its total (docs/guarantee.md, Theorem 8, "Estimators").
"""

import math
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from threading import Lock
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias
from uuid import uuid4

from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import (
    BadParameter,
    enclose_exp,
    float_above,
    whole,
)

Unit: TypeAlias = Literal["event", "user"]

DIGITS = 60
# Powers of e above it are not computed.
LARGEST_POWER = 1000


@dataclass(frozen=True)
class Cost:
    """Hold an exact (epsilon, delta) that one mechanism claims. Costs add: basic composition."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        # `not >=` also refuses a NaN, should a float ever get here.
        if self.epsilon < 0 or not self.delta >= 0:
            raise BadParameter("a cost has epsilon and delta of at least 0")

    def parameters(self, name: str) -> dict[str, str]:
        """Return the cost as the parameters of the mechanism of this name."""
        return {"name": name, "epsilon": str(self.epsilon), "delta": str(self.delta)}

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta)

    def times(self, count: int) -> "Cost":
        """Return the basic composition of `count` mechanisms of this cost."""
        return Cost(self.epsilon * count, self.delta * count)

    def for_group(self, rounds: int) -> "Cost":
        """Return what this cost of one round amounts to for a row that is in several rounds."""
        if whole(rounds, "rounds", least=1) == 1:
            return self
        epsilon, delta = self.epsilon * rounds, self.delta
        # A delta of 1 claims nothing, hence is true.
        if epsilon > LARGEST_POWER:
            return Cost(epsilon, Fraction(1 if delta else 0))
        # Theorem 14: k replaced rounds cost k epsilon and delta (1 + e^epsilon + ...).
        powers = (Fraction(enclose_exp(self.epsilon * n, DIGITS)[1]) for n in range(1, rounds))
        return Cost(epsilon, min(delta * (1 + sum(powers)), Fraction(1)))


NOTHING = Cost(Fraction(0))


@dataclass(frozen=True)
class Guarantee:
    """Hold what may be quoted: floats, rounded up. Without secret noise there is no guarantee.

    Parameters
    ----------
    epsilon, delta
        The guarantee; infinite and 1 if there is none.
    adjacency
        What neighbouring streams are.
    unit
        What is protected whole: an event or a user.
    noise
        Where the noise was drawn.
    cap
        How many rounds of a user count, where there is a limit.
    repeats
        How often the same row was learned, at most.

    Examples
    --------
    >>> print(Guarantee(1.0, 1e-6))
    (1.0, 1e-06)-differential privacy, replace-one, per event
    >>> print(Guarantee(1.0, 1e-6, unit="user", cap=5))
    (1.0, 1e-06)-differential privacy, replace-one, per user: at most 5 rounds a user count
    """

    epsilon: float
    delta: float
    adjacency: str = "replace-one"
    unit: Unit = "event"
    noise: str = "SystemNoise()"
    cap: int | None = None
    repeats: int = 1

    def for_repeats(self, repeats: int) -> "Guarantee":
        """Return the guarantee of a row that is learned up to `repeats` times (Theorem 14).

        Per user nothing changes: all rounds of a user are protected together, however many.

        >>> print(Guarantee(1.0, 0.0).for_repeats(2))
        (2.0, 0.0)-differential privacy, replace-one, per event (rows were learned up to 2 times)
        """
        # Theorem 14: per user, all rounds are protected together already.
        if repeats == 1 or self.unit == "user" or math.isinf(self.epsilon):
            return self
        cost = Cost(Fraction(self.epsilon), Fraction(self.delta)).for_group(repeats)
        epsilon, delta = float_above(cost.epsilon), float_above(cost.delta)
        return replace(self, epsilon=epsilon, delta=delta, repeats=repeats)

    @classmethod
    def of(
        cls, cost: Cost, noise: Noise, unit: Unit = "event", cap: int | None = None
    ) -> "Guarantee":
        """Return the guarantee that a cost amounts to, in floats rounded up.

        Parameters
        ----------
        cost
            What everything costs together.
        noise
            Where the noise is drawn; if it is not private, there is no guarantee.
        unit
            What is protected whole.
        cap
            How many rounds of a user count, where there is a limit: later ones are not read.
        """
        # Whatever the mechanisms claim, draws that anyone can know protect no one.
        if not noise.private:
            return cls(math.inf, 1.0, unit=unit, noise=f"the noise was {noise!r}", cap=cap)
        epsilon, delta = float_above(cost.epsilon), float_above(cost.delta)
        return cls(epsilon, delta, unit=unit, noise=repr(noise), cap=cap)

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"no privacy at all: {self.noise}"
        pair = f"({self.epsilon!r}, {self.delta!r})"
        text = f"{pair}-differential privacy, {self.adjacency}, per {self.unit}"
        rounds = "round" if self.cap == 1 else "rounds"
        capped = f": at most {self.cap:,} {rounds} a user count" if self.cap else ""
        again = f" (rows were learned up to {self.repeats} times)" if self.repeats > 1 else ""
        return text + capped + again


@dataclass(frozen=True)
class PrivacyEvent:
    """Record one use of a mechanism."""

    mechanism: str
    cost: Cost
    epoch: int | None = None
    noise: str = "SystemNoise()"


def spent(events: Iterable[PrivacyEvent], max_epochs: int = 1) -> Cost:
    """Return what events cost together."""
    whole(max_epochs, "max_epochs", least=1)
    # `groupby` needs them sorted; the order within a mechanism does not matter.
    ordered = sorted(events, key=lambda event: event.mechanism)
    groups = (list(uses) for _, uses in groupby(ordered, key=lambda event: event.mechanism))
    return sum((_mechanism_cost(uses, max_epochs) for uses in groups), NOTHING)


def _mechanism_cost(uses: list[PrivacyEvent], max_epochs: int) -> Cost:
    """Return the cost of one mechanism's events."""
    always = [event.cost for event in uses if event.epoch is None]
    epochs: dict[int, Cost] = {}
    for event in uses:
        if event.epoch is not None:
            epochs[event.epoch] = epochs.get(event.epoch, NOTHING) + event.cost
    # Epochs read disjoint rounds, so a unit meets at most `max_epochs` of them (Theorem 7).
    # The largest epsilons and the largest deltas may sit in different epochs: take both.
    epsilon = sum(sorted(cost.epsilon for cost in epochs.values())[-max_epochs:])
    delta = sum(sorted(cost.delta for cost in epochs.values())[-max_epochs:])
    return sum(always, Cost(Fraction(epsilon), Fraction(delta)))


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


def cost_of(plan: Any) -> Cost:
    """Return what a learner with this plan spends in all; one without a delta needs none."""
    return Cost(plan.epsilon, getattr(plan, "delta", Fraction(0)))


def _text(cost: Cost) -> str:
    return f"(epsilon {float(cost.epsilon):.4g}, delta {float(cost.delta):.4g})"


class DrawsFrom(Protocol):
    """Describe a budget that processes share: `BudgetFile`."""

    def check(self, epsilon: Fraction, delta: Fraction, *, unit: Unit = "event") -> None:
        """Raise what `draw` would raise."""

    def draw(
        self, epsilon: Fraction, delta: Fraction, *, unit: Unit = "event", note: str = ""
    ) -> object:
        """Draw what a learner costs, or raise."""


class HasBudget:
    """Share one budget among all that is cloned, copied or unpickled from an estimator. A mixin."""

    _split_by: ClassVar[str]
    _budget: Budget | None = None
    # The parameter of an estimator: with a budget file, that is drawn from and nothing else.
    budget: DrawsFrom | None

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
        cost = cost_of(plan)
        if self.budget is None:
            self._own_budget().draw(cost, self._total())
        else:
            unit: Unit = getattr(plan, "unit", "event")
            self.budget.draw(cost.epsilon, cost.delta, unit=unit, note=type(self).__name__)

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
