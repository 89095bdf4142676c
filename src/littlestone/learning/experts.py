"""Learn privately from a finite public class: draw a rule when the last has erred too often.

After Asi, Feldman, Koren and Talwar (2023), with epochs (docs/guarantee.md, Theorem 10): the
mistakes monitor decides when, the exponential mechanism over all rules decides what. There is no
delta, and nothing is ever used up. An epoch forgets the data of those before it; the rules they
published give a public prior (`belief`).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from littlestone.learning.belief import Belief
from littlestone.learning.coins import Purpose, below, coins, fresh_seed
from littlestone.learning.evidence import Evidence, evidence, index_key
from littlestone.learning.private import EventLearner
from littlestone.learning.releases import Release
from littlestone.learning.restarting import Publish, Restarting, Watch
from littlestone.learning.saving import Live
from littlestone.learning.weighing import ExpertsPlan
from littlestone.privacy.epochs import MistakesGate
from littlestone.privacy.exact import BadParameter, Real
from littlestone.privacy.exponential import ExponentialMechanism, Scores
from littlestone.privacy.gate import Decision
from littlestone.privacy.noise import Noise, SystemNoise
from littlestone.theory.classes import HypothesisClass, checked_class
from littlestone.theory.hypothesis import Hypothesis

FIRST = b"first"
"""The key of the first rule, which no draw has named."""

FirstRule = Literal["drawn", "own"]


class PrivateExperts(EventLearner):
    """Learn privately from a finite class. Forward only: it cannot be copied or pickled.

    Requires: nothing of the stream. Promises: `guarantee`, which is (epsilon, 0), for every stream,
    also an adaptive one; the same rules however the rounds are batched.

    Parameters
    ----------
    cls
        The hypothesis class, which must be finite.
    epsilon
        The privacy budget; leave it out if a plan is given.
    horizon
        The number of rounds after which the last rule stands.
    plan
        The constants; `ExpertsPlan.practical` if left out.
    tolerance
        The share of mistakes that causes no change.
    first
        Where the first rule comes from: "drawn" by the seed, or the class's "own". Neither makes
        fewer mistakes on the whole (`make bench`, "experts"); a drawn one cannot be aimed at.
    seed
        The seed of the first rule, which is not secret.
    noise
        Where all noise is drawn; `SystemNoise()` if left out.

    Examples
    --------
    >>> from littlestone.theory.thresholds import Thresholds
    >>> learner = PrivateExperts(Thresholds(0, 100, column="score"), epsilon=8, horizon=10_000)
    >>> learner.learn_many({"score": [40, 90, 60, 80] * 1000}, [0, 1, 0, 1] * 1000)
    >>> learner.predict_one({"score": 90}), learner.predict_one({"score": 40})
    (True, False)
    >>> print(learner.guarantee)
    (8.0, 0.0)-differential privacy, replace-one, per event
    """

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real | None = None,
        horizon: int | None = None,
        *,
        plan: ExpertsPlan | None = None,
        tolerance: Real = 0,
        first: FirstRule = "drawn",
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        memory = evidence(checked_class(cls))
        self.plan = _plan(cls, epsilon, horizon, plan, tolerance)
        self.seed = fresh_seed() if seed is None else seed
        rule = _first_rule(memory, first, self.seed)
        super().__init__(cls, rule, self.plan.horizon)
        gate = _gate(self.plan, memory.size, SystemNoise() if noise is None else noise)
        rate = self.plan.epsilon_selector / 2
        self._runner = Weighing(memory, gate, rule, self._publish, self._watch, rate)


class Weighing(Restarting[Scores]):
    """Move the mistake counts of a class and the gate of epochs through the rounds together.

    Parameters
    ----------
    forest
        The mistake counts.
    gate
        Decides when to draw a rule, and draws it.
    rule
        The first rule.
    publish
        Called with every new rule.
    watch
        Called with private figures, for the data owner.
    rate
        A mistake divides a rule's weight in the draw by exp(rate).
    """

    def __init__(
        self,
        forest: Evidence,
        gate: MistakesGate[Scores],
        rule: Hypothesis,
        publish: Publish,
        watch: Watch,
        rate: Fraction,
    ) -> None:
        super().__init__(forest, gate, rule, publish, watch, patient=False)
        self._evidence, self._belief, self._stood = forest, Belief(forest.size), rule
        self._rate = rate

    def revive(self, live: Live, releases: Sequence[Release]) -> None:
        """Restore a saved state; the prior follows from what was published."""
        super().revive(live, releases)
        for release in releases[1:]:
            self._believe(release.rule)
        self._evidence.penalised = self._belief.penalties(self._rate)

    def _look(self) -> Decision:
        """Make one check; all rules are scored at a firing only."""
        return self.gate.run([self._pending], lambda place: self.forest.ballot).decision

    def _forget(self) -> None:
        """Begin an epoch without earlier rounds; the prior from what was published stays."""
        if self.rule != self._stood:
            self._believe(self.rule)
            self._evidence.penalised = self._belief.penalties(self._rate)
        # The next draw must not read these rounds again: Theorem 10 has each read once.
        super()._forget()

    def _believe(self, rule: Hypothesis) -> None:
        """Update the prior: a rule was published in the place of the one before."""
        self._belief.drop(self._evidence.siding(self._stood, rule))
        self._stood = rule

    def _restart_if_due(self) -> None:
        """Keep the counts: a public restart is the monitor's alone (Theorem 10)."""


def _plan(
    cls: HypothesisClass,
    epsilon: Real | None,
    horizon: int | None,
    plan: ExpertsPlan | None,
    tolerance: Real,
) -> ExpertsPlan:
    """Return the plan given, or the practical one for these parameters."""
    if plan is None:
        if epsilon is None or horizon is None:
            raise BadParameter("say epsilon and horizon, or give a plan")
        return ExpertsPlan.practical(cls, epsilon, horizon, tolerance=tolerance)
    asked = {"epsilon": epsilon, "horizon": horizon, "tolerance": tolerance or None}
    for name, value in asked.items():
        if value is not None and value != getattr(plan, name):
            raise BadParameter(
                f"{name}={value} conflicts with the plan's {name}={getattr(plan, name)}"
            )
    return plan


def _first_rule(memory: Evidence, first: FirstRule, seed: int) -> Hypothesis:
    """Return the rule before any example: it reads no data, hence costs nothing."""
    if first not in ("drawn", "own"):
        raise BadParameter(f"first is 'drawn' or 'own', not {first!r}")
    own = memory.cls.hypothesis(memory.cls.start())
    if first == "own" and own is not None:
        return own
    return memory.rule(int(below(memory.size, coins(seed, Purpose.FIRST))))


def _gate(plan: ExpertsPlan, size: int, noise: Noise) -> MistakesGate[Scores]:
    keys = [index_key(index) for index in range(size)]
    return MistakesGate(
        noise,
        epsilon=plan.epsilon_monitor,
        selector=ExponentialMechanism(keys, epsilon=plan.epsilon_selector),
        threshold=plan.schedule(),
        published=FIRST,
        check_every=plan.check_every,
        restart_every=plan.restart_every,
        # A false alarm on a right rule must not replace it for certain (Theorem 10).
        leave_out_published=False,
    )
