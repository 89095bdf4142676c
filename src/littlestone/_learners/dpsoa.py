"""Learn privately with a forest of learners and a gate (DP-SOA: Algorithm 1), under a plan.

Before each example there is a published rule; the whole sequence of published rules, and the rounds
at which the gate fired, are differentially private at `guarantee` (docs/guarantee.md, Theorem 9).
All other state (mistakes, votes, null rounds) is private: it is for the data owner.

The trees of the forest grow in this process, unless an engine is named, as in
`DPSOA(..., engine="ray")`. The gate, the noise and the published rule never leave the learner
(docs/guarantee.md, Theorem 13).
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._hypotheses.rules import Hypothesis
from littlestone._learners.base import PrivateLearner
from littlestone._learners.forest import Forest, Root
from littlestone._learners.loop import ChangedState, EpochState, Judged, StateData, mistakes
from littlestone._learners.plan import Plan
from littlestone._learners.plan_table import delta_warning, given_plan
from littlestone._learners.tree import fresh_seed
from littlestone._learners.tuning import fallbacks_of, is_narrower, missing_from
from littlestone._privacy.accounting import Unit
from littlestone._privacy.gates import Gate
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, Real
from littlestone._privacy.schedules import Settling


class Engine:
    """Create forests, in this process; a subclass may have its trees elsewhere."""

    # Whether the trees are in another process, and the most rounds that are learned in one step.
    remote: bool = False
    largest_window: int = EpochState.largest_step

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
        seed, engine = fresh_seed() if seed is None else seed, engine_of(engine)
        forest = engine.create_forest(cls, plan.shapes, seed, "learns", True)
        state = TreeVotes(forest, rule, slow=engine.remote, watched=watched)
        state.largest_step = engine.largest_window
        noise = SystemNoise() if noise is None else noise
        state.gate = plan.gate(noise, rule.key, lambda: state.missing, lambda: state.fallbacks)
        super().__init__(plan, seed, rule, state, state.gate)

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule. Private."""
        self.loop.gather()
        return dict(self.loop.state.votes)


class TreeVotes(EpochState):
    """Let a forest search by votes, or count the mistakes of known rules, as the gate schedules."""

    gate: Gate[Mapping[bytes, int]]
    # A forest learns few rows in nearly the time of many.
    first_step = 1 << 10

    def __init__(self, forest: Any, rule: Hypothesis, *, slow: bool, watched: bool) -> None:
        self.cls, self.forest, self._slow, self._watched = forest.cls, forest, slow, watched
        # Of a comparison: the mistakes of each known rule, and of the published one.
        self._counts: Counter[bytes] = Counter()
        self._rules: dict[bytes, Hypothesis] = {}
        self._note(rule)

    def _note(self, rule: Hypothesis) -> None:
        """Work out what thresholds and comparisons read of the published rule."""
        fallbacks = fallbacks_of(rule, self.cls)
        self._published, self.missing = rule, missing_from(rule, self.cls)
        self.fallbacks = [fallback.key for fallback in fallbacks]
        self._rules |= {known.key: known for known in (rule, *fallbacks)}

    @property
    def _schedule(self) -> Settling:
        assert isinstance(self.gate.schedule, Settling)
        return self.gate.schedule

    @property
    def _compared(self) -> list[Hypothesis]:
        published = self.gate.published
        return [self._rules[key] for key in (published, *self._schedule.known(published))]

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule. Private."""
        votes: Mapping[Hypothesis, int] = self.forest.votes
        return votes

    def sampled_votes(self, last: bool) -> Mapping[Hypothesis, int] | None:
        """Return votes for a sample: where reading them is slow, once a batch, and if watched."""
        if self._slow and not (last and self._watched):
            return None if last or self._watched else {}
        return None if last and not self._slow else self.votes

    def add(self, judged: Judged) -> None:
        """Let the forest learn rounds, or count the mistakes of known rules."""
        if not self._schedule.comparing:
            self.forest.learn(judged.rows)
            return
        # The forest rests: these rounds are read by the comparison, and by no search.
        for rule in self._compared:
            self._counts[rule.key] += len(judged.rows.apply(mistakes, self.cls, rule).number)

    def scores(self, number: int, fired: bool) -> Mapping[bytes, int]:
        """Return the votes of each rule, or the mistakes of each known one."""
        if self._schedule.comparing:
            return {rule.key: self._counts[rule.key] for rule in self._compared}
        # Which keys are left out depends on the key and the published rule alone: public.
        left_out = partial(is_narrower, published=self._published, cls=self.cls)
        return {rule.key: votes for rule, votes in self.votes.items() if not left_out(rule)}

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key: a known one, or one that a tree votes for."""
        rule: Hypothesis = self._rules.get(key) or self.forest.named(key)
        return rule

    def restart(self, number: int, rule: Hypothesis) -> None:
        """Begin an epoch: every tree anew, from the published rule."""
        if rule != self._published:
            self._note(rule)
        self.forest.restart(rule)
        self._counts.clear()

    def get_state(self) -> StateData:
        """Return the epoch of the forest, and the counts of a comparison."""
        counts = {key.hex(): count for key, count in self._counts.items()}
        return {"counts": counts, "forest": self.forest.get_state()}

    def unsaved(self) -> ChangedState:
        """Return the trees that have changed since the last call."""
        changed: ChangedState = self.forest.unsaved()
        return changed

    def load_state(
        self, live: StateData, parts: Mapping[int, bytes], rules: Sequence[tuple[int, Hypothesis]]
    ) -> None:
        """Load the saved trees and counts."""
        for _, rule in rules:
            # Not saved: the start of an epoch is a function of the releases, as the proof requires.
            self.forest.publish(rule)
            self._note(rule)
        self.forest.load_state(live["forest"], parts)
        self._counts = Counter({bytes.fromhex(key): n for key, n in live["counts"].items()})


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
