"""Learn privately with a forest of learners and a gate (DP-SOA: Algorithm 1), under a plan.

Before each example there is a published rule; the whole sequence of published rules, and the rounds
at which the gate fired, are differentially private at `guarantee` (docs/guarantee.md, Theorem 9).
All other state (mistakes, votes, null rounds) is private: it is for the data owner.

The trees of the forest grow in this process, unless an engine is named, as in
`DPSOA(..., engine="ray")`. The gate, the noise and the published rule never leave the learner
(docs/guarantee.md, Theorem 13).
"""

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._hypotheses.rules import Hypothesis
from littlestone._learners.base import Checkpoint, PrivateLearner
from littlestone._learners.forest import Forest, Root
from littlestone._learners.loop import LARGEST_WINDOW, VotesLoop
from littlestone._learners.plan import Plan
from littlestone._learners.plan_table import delta_warning, given_plan
from littlestone._learners.tuning import fallbacks_of, missing_from
from littlestone._privacy.accounting import Unit
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, Real


class Engine:
    """Create forests, in this process; a subclass may have its trees elsewhere."""

    # Whether the trees are in another process, and the most rounds that are learned in one step.
    remote: bool = False
    largest_window: int = LARGEST_WINDOW

    def connected(self) -> object:
        """Return the connection to the other processes, made if there is none yet."""
        return None

    def create_forest(
        self, cls: HypothesisClass, leaves: Sequence[int], seed: int, root: Root, replant: bool
    ) -> Any:
        """Create a forest."""
        return Forest(cls, leaves, seed, root=root, replant=replant)


# What makes an engine of an address, which may be empty; imported when it is asked for.
ENGINES = {"ray": ("littlestone._ray", "Ray")}


def engine_of(given: "str | Engine | None") -> Engine:
    """Return the engine of a name: `ray`, or `ray:ADDRESS` for a running cluster."""
    if given is None:
        return Engine()
    if not isinstance(given, str):
        return given
    name, _, address = given.partition(":")
    if name not in ENGINES:
        raise BadParameter(
            f"engine={given!r} is unknown: use {', '.join(ENGINES)}, or with an address, ray:auto"
        )
    module, factory = ENGINES[name]
    engine: Engine = getattr(import_module(module), factory)(address)
    return engine


# Of all trees together, each of which is an object: more of them do not fit a machine.
MOST_LEAVES = 10**7


class DPSOA(PrivateLearner):
    """Learn online and privately. Forward only: it cannot be copied or pickled.

    Privacy holds for every stream, also one chosen in reaction to the published rules, and the
    rules do not depend on how the rounds are batched (docs/guarantee.md, Theorem 9).

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    epsilon, delta : Real, optional
        The privacy budget; not needed with a plan.
    horizon : int, optional
        The number of rounds after which the last rule stands; not needed with a plan.
    plan : Plan, optional
        All constants; `Plan.practical` if not given.
    unit : {"event", "user"}
        What is protected: one round, or all rounds of a user. With "user" each round needs its
        user.
    cap : int, optional
        The rounds that count per user, required for users; later ones are null rounds.
    seed : int, optional
        Fixes the forest's random bits, which are not secret.
    noise : Noise, optional
        The source of secret noise; the system's if not given.
    watched : bool
        Have the votes in the trace between firings too. With an engine these are read at the end
        of every batch, which is slow when labels are noisy.
    engine : str or Engine, optional
        Where the trees grow: "ray" for a Ray cluster (docs/scale.md). The rules are the same.

    Raises
    ------
    BadParameter
        If a parameter is missing, out of range, or in conflict with the plan.

    Examples
    --------
    >>> from littlestone._classes.rules import Rules
    >>> learner = DPSOA(Rules(["version", "country"]), epsilon=1, delta=1e-9, horizon=10_000)
    >>> rows = {"version": ["4.2.1", "4.2.0"] * 1000, "country": ["SE", "NO", "FR", "DK"] * 500}
    >>> learner.learn_many(rows, [1, 0] * 1000)
    >>> print(learner.hypothesis)
    version = '4.2.1'
    >>> print(learner.guarantee)
    (1.0, 1e-09)-differential privacy, replace-one, per event
    """

    plan: Plan

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        delta: Real | None = None,
        horizon: int | None = None,
        *,
        plan: Plan | None = None,
        unit: Unit = "event",
        cap: int | None = None,
        seed: int | None = None,
        noise: Noise | None = None,
        watched: bool = False,
        engine: str | Engine | None = None,
    ) -> None:
        checked_class(cls)
        needed = {"epsilon": epsilon, "delta": delta, "horizon": horizon}
        plan = given_plan(Plan, cls, plan, needed, unit=unit, cap=cap)
        _warn_of_delta(plan)
        _refuse_too_many_trees(plan)
        # The first rule reads no data, so publishing it costs nothing.
        rule = cls.hypothesis(cls.start())
        if rule is None:
            raise BadParameter(f"{cls!r} has no rule before the first example")
        super().__init__(cls, plan, seed, rule)
        noise = SystemNoise() if noise is None else noise
        self._runner = self._begin(rule, noise, watched, engine_of(engine))

    def _begin(self, rule: Hypothesis, noise: Noise, watched: bool, engine: Engine) -> VotesLoop:
        plan = self.plan
        forest = engine.create_forest(self.cls, plan.shapes, self.seed, "learns", True)
        self._forest = forest
        self._note_published(rule)
        gate = plan.gate(noise, rule.key, lambda: self._missing, lambda: self._fallbacks)
        loop = forest, gate, rule, self._publish, self._watch, plan.check_every
        # Buffering pays where reading the trees is slow.
        largest = engine.largest_window
        return VotesLoop(*loop, lazy=engine.remote, watched=watched, largest=largest)

    def _note_published(self, rule: Hypothesis) -> None:
        """Work out what thresholds and comparisons read of the published rule."""
        self._missing = missing_from(rule, self.cls)
        self._fallbacks = [some.key for some in fallbacks_of(rule, self.cls)]

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule. Private."""
        self._runner.learn_buffered()
        return dict(self._runner.forest.votes)

    def _load_memory(self, saved: Checkpoint) -> None:
        # Not saved: the start of an epoch is a function of the releases, as the proof requires.
        for release in saved.releases[1:]:
            self._forest.publish(release.rule)
        super()._load_memory(saved)

    def resume(self, saved: Checkpoint) -> None:
        """Load the state of a saved learner of the same class, plan and seed."""
        super().resume(saved)
        self._note_published(self.hypothesis)

    def _publish(self, number: int, rule: Hypothesis) -> None:
        super()._publish(number, rule)
        self._note_published(rule)


def _refuse_too_many_trees(plan: Plan) -> None:
    leaves = sum(each * trees for each, trees in plan.leaves.items())
    if leaves > MOST_LEAVES:
        raise BadParameter(
            f"the plan has {plan.trees:,} trees with {leaves:,} leaves in all, and "
            f"{MOST_LEAVES:,} is the limit: take a larger epsilon or delta"
            + (", a smaller cap" if plan.cap else "")
            + ", or a smaller horizon"
        )


def _warn_of_delta(plan: Plan) -> None:
    """Warn of a delta so large that some record might be published as it is."""
    if (warning := delta_warning(plan.delta, plan.horizon)) is not None:
        warnings.warn(warning, stacklevel=3)
