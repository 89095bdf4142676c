"""DP-SOA: the private learner (Algorithm 1 with a gate), under a plan.

Before each example it has a published rule; the whole sequence of published rules, and the rounds
at which its gate fired, are differentially private at `guarantee`. Everything else it knows
(mistakes, votes, null rounds) is private: it belongs to the data's holder.
"""

import warnings
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from littlestone.learning.choosing import missing_from
from littlestone.learning.coins import fresh_seed
from littlestone.learning.engines import Engine, engine_of
from littlestone.learning.lasting import Lasting
from littlestone.learning.plan import Plan
from littlestone.learning.private import PrivateLearner
from littlestone.learning.restarting import Restarting
from littlestone.learning.rounds import (
    NOBODY,
    BadRows,
    Numbers,
    Stretch,
    readable_rounds,
    user_number,
    user_numbers,
)
from littlestone.learning.schedule import tolerated
from littlestone.learning.theorem import TheoremPlan
from littlestone.privacy.accounting import Unit
from littlestone.privacy.exact import BadParameter, Real
from littlestone.privacy.gate import HistSparse
from littlestone.privacy.noise import Noise, SystemNoise
from littlestone.theory.classes import HypothesisClass, check_row, checked_class
from littlestone.theory.errors import BadExample
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import label
from littlestone.theory.values import Mask

MOST_LEAVES = 10**7
"""Of all trees together, each of which is an object: more of them do not fit a machine."""


class Away(Protocol):
    """Consecutive rows that are elsewhere, as far as a learner needs to know of them."""

    @property
    def count(self) -> int: ...

    @property
    def has_users(self) -> bool: ...

    def routes(self) -> Numbers:
        """The number of each row's user, which is public."""

    def numbered(self, first: int, within: Mask | None) -> Stretch:
        """As rounds from `first` on; those that are not `within` a cap are null rounds."""

    def null_rounds(self, within: Mask | None) -> int:
        """How many of them are null rounds."""


class DPSOA(PrivateLearner):
    """The private online learner. Forward only: it cannot be copied or pickled.

    Requires: nothing of the stream. Promises: `guarantee`, for every stream, also one chosen in
    reaction to the rules published so far; the same rules however the rounds are batched.

    `plan` defaults to `Plan.practical`. `unit="user"` protects all the rounds of a user together:
    then every round comes with its user. `seed` fixes the forest's coins, which are not secret.
    `watched` keeps the votes of the trace up to date between firings, which takes time when labels
    are noisy. `engine="ray"` grows the trees on a Ray cluster (docs/scale.md): the same rules.

    >>> from littlestone.theory.rules import Rules
    >>> learner = DPSOA(Rules(["version", "country"]), epsilon=1, delta=1e-9, horizon=10_000)
    >>> rows = {"version": ["4.2.1", "4.2.0"] * 1000, "country": ["SE", "NO", "FR", "DK"] * 500}
    >>> learner.learn_many(rows, [1, 0] * 1000)
    >>> print(learner.hypothesis)
    version = '4.2.1'
    >>> print(learner.guarantee)
    (1.0, 1e-09)-differential privacy, replace-one, per event
    """

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        *,
        plan: Plan | TheoremPlan | None = None,
        unit: Unit = "event",
        cap: int | None = None,
        tolerance: Real = 0,
        seed: int | None = None,
        noise: Noise | None = None,
        watched: bool = False,
        engine: str | Engine | None = None,
    ) -> None:
        checked_class(cls)
        asked = {"epsilon": epsilon, "delta": delta, "horizon": horizon}
        self.plan = _plan(cls, asked, plan, unit=unit, cap=cap, tolerance=tolerance)
        self.seed = fresh_seed() if seed is None else seed
        _warn_of_delta(self.plan)
        _refuse_too_many_trees(self.plan)
        rule = cls.hypothesis(cls.start())
        if rule is None:
            raise BadParameter(f"{cls!r} has no rule before any example")
        super().__init__(cls, rule, self.plan.horizon)
        self._shown: dict[int, int] = {}
        self._unsaved: set[int] = set()
        noise = SystemNoise() if noise is None else noise
        self._runner = self._begin(rule, noise, watched, engine_of(engine))

    def _begin(
        self, rule: Hypothesis, noise: Noise, watched: bool, engine: Engine
    ) -> Restarting[Mapping[bytes, int]] | Lasting:
        plan = self.plan
        forest = engine.plant(self.cls, plan.shapes, self.seed, plan.root, plan.replant)
        self._missing = missing_from(rule, self.cls)
        gate = plan.gate(noise, rule.key, lambda: self._missing)
        told, window = (self._publish, self._watch), engine.largest_window
        if isinstance(gate, HistSparse):
            return Lasting(forest, gate, rule, plan.check_every, *told, window)
        patient = not watched and (engine.far or gate.restart_every is not None)
        return Restarting(forest, gate, rule, *told, patient, window)

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """How many trees vote for each rule. Private."""
        return dict(self._runner.forest.votes)

    def learn_one(self, x: object, y: object, user: object = None) -> None:
        """See one example's label.

        A row that the class cannot read is refused, and nothing has happened: stopping there is
        outside the guarantee. `skip_one` makes it a null round, which is inside.
        """
        check_row(self.cls, x)
        self._one(x, label(y), self._route(user))

    def skip_one(self, user: object = None) -> None:
        """A null round: it uses up its number, and teaches nothing. A user whose name has no text
        is nobody."""
        if user is not None:
            self._need_users(True)
        self._one(None, None, int(user_numbers([user], 1, "null")[0]))

    def _one(self, x: object, y: bool | None, route: int) -> None:
        self._enter()
        if self.plan.cap is not None and not self._within_cap(route):
            self.beyond_cap += y is not None
            y = None
        self._pass(x, y, route)

    def learn_many(
        self, X: Any, y: object, users: Any = None, *, bad_rows: BadRows = "refuse"
    ) -> None:
        """See a batch of labels, as if one after the other.

        `bad_rows="refuse"`: a batch with a row or a label that cannot be read changes nothing, and
        the refusal is outside the guarantee. `"null"`: such rows are null rounds, which is inside.
        """
        batch, usable, answers = readable_rounds(self.cls, X, y, bad_rows)
        self._need_users(users is not None)
        routes = None if users is None else user_numbers(users, len(answers), bad_rows)
        if routes is not None:
            usable = usable & self._with_user(routes, bad_rows)
        self._enter()
        if routes is not None and self.plan.cap is not None:
            within = np.fromiter(map(self._within_cap, routes.tolist()), dtype=bool)
            self.beyond_cap += int((usable & ~within).sum())
            usable = usable & within
        self._pass_many(batch, answers, usable, routes)

    def learn_away(self, rows: Away) -> None:
        """See the labels of rows that are elsewhere, as if one after the other.

        Rows that cannot be read are null rounds.
        """
        self._need_users(rows.has_users)
        self._enter()
        within = None
        if self.plan.cap is not None:
            within = np.fromiter(map(self._within_cap, rows.routes().tolist()), dtype=bool)
        self._pass_stretch(rows.numbered(self.rounds, within), rows.count)
        nulls = rows.null_rounds(within)
        self.null_rounds += nulls
        if within is not None:
            self.beyond_cap += nulls - rows.null_rounds(None)
        self._under_way.release()

    def _route(self, user: object) -> int:
        """What sends a round to its tree: its own number, or its user's."""
        if user is None and self.plan.unit == "event":
            return self.rounds
        self._need_users(user is not None)
        return user_number(user)

    def _with_user(self, routes: Numbers, bad_rows: BadRows) -> Mask:
        """Which rounds have a user; one without is bad."""
        known = np.asarray(routes != NOBODY)
        if bad_rows == "refuse" and not known.all():
            raise BadExample("the round has no user", int(np.argmin(known)))
        return known

    def _need_users(self, given: bool) -> None:
        if given != (self.plan.unit == "user"):
            needs = "needs the user of each round" if not given else "takes no users"
            raise BadExample(f"a learner with unit={self.plan.unit!r} {needs}")

    def _within_cap(self, route: int) -> bool:
        """Whether a user has rounds left under the cap; who appears when is public."""
        if self.plan.cap is None or route == NOBODY:
            return True
        self._shown[route] = self._shown.get(route, 0) + 1
        self._unsaved.add(route)
        return self._shown[route] <= self.plan.cap

    def _unsaved_users(self) -> Mapping[int, int]:
        found = {route: self._shown[route] for route in sorted(self._unsaved)}
        self._unsaved = set()
        return found

    def _revive_users(self, users: Mapping[int, int]) -> None:
        self._shown = dict(users)
        self._missing = missing_from(self.hypothesis, self.cls)

    def _publish(self, number: int, rule: Hypothesis) -> None:
        super()._publish(number, rule)
        self._missing = missing_from(rule, self.cls)


def _refuse_too_many_trees(plan: Plan) -> None:
    leaves = sum(each * trees for each, trees in plan.leaves.items())
    if leaves > MOST_LEAVES:
        raise BadParameter(
            f"the plan asks for {plan.trees:,} trees of {leaves:,} leaves in all, and "
            f"{MOST_LEAVES:,} are the most that are grown: take a larger epsilon or delta"
            + (", a smaller cap" if plan.cap else "")
            + (", or the practical plan" if plan.name == "paper" else ", or a smaller horizon")
        )


def _plan(
    cls: HypothesisClass, asked: dict[str, Any], plan: Plan | TheoremPlan | None, **options: Any
) -> Plan:
    """The plan given, or the practical one for what was asked."""
    if plan is None:
        missing = [name for name, value in asked.items() if value is None]
        if missing:
            raise BadParameter(f"say {' and '.join(missing)}, or give a plan")
        return Plan.practical(cls, **asked, **options)
    if isinstance(plan, TheoremPlan):
        raise BadParameter(plan.refusal())
    asked |= {name: value for name, value in options.items() if value != DEFAULTS[name]}
    for name, value in asked.items():
        meant = tolerated(value) if name == "tolerance" else value
        if value is not None and meant != getattr(plan, name):
            raise BadParameter(f"{name} is {value}, and {getattr(plan, name)} in the plan")
    return plan


DEFAULTS = {"unit": "event", "cap": None, "tolerance": 0}


def _warn_of_delta(plan: Plan) -> None:
    if plan.delta * 10 * plan.horizon > 1:
        warnings.warn(
            f"delta = {float(plan.delta):g} is above 1 / (10 x horizon) = "
            f"{1 / (10 * plan.horizon):g}: that allows some record of the stream to be published",
            stacklevel=3,
        )
