"""Learn with one forest for the whole stream (Algorithm 1) and the gate of Algorithm 2.

The forest never reads what is published, so a replaced round moves one vote, at every round
(Lemma 6.1); lost votes decide when to release, and the same votes decide what. Routed by user it is
private per user without a limit on a user's rounds, as all of them go to one tree
(docs/guarantee.md, Theorems 7 and 9).
"""

import warnings

import numpy as np

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._data.rounds import RoundBatch, UsableRounds
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone._learners.base import PrivateLearner
from littlestone._learners.forest import Forest
from littlestone._learners.loop import BallotWatcher, Publish, Runner
from littlestone._learners.plan_table import delta_warning
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter
from littlestone.paper.gates import HistSparse
from littlestone.paper.plan import PaperPlan


class SingleForestRunner(Runner):
    """Run a forest and the gate of Algorithm 2 through the rounds, one check after the other."""

    def __init__(
        self,
        forest: Forest,
        gate: HistSparse,
        rule: Hypothesis,
        check_every: int,
        publish: Publish,
        watch: BallotWatcher,
    ) -> None:
        self.forest, self.gate, self.rule, self.mistakes = forest, gate, rule, 0
        self._every, self._publish, self._watch = check_every, publish, watch

    def advance(self, rounds: RoundBatch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        while start < stop:
            end = min(stop, (start // self._every + 1) * self._every)
            self._learn(rounds.between(start, end))
            self.pass_one(end - 1)
            start = end

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round."""
        self._learn(
            UsableRounds(as_batch([x]), np.array([y]), np.array([number]), np.array([route]))
        )
        self.pass_one(number)

    def _learn(self, part: RoundBatch) -> None:
        """Learn rounds between two checks (Algorithm 1, from "Choose v_1" to the end of the loop)."""
        if part.size:
            self.mistakes += len(part.wrong(self.forest.cls, self.rule))
            part.update(self.forest)

    def pass_one(self, number: int) -> None:
        """End a round, null or not: "Run HistSparse on the list L_t and receive h_t", where due."""
        if (number + 1) % self._every:
            return
        fired, key = self.gate.check(self.forest.ballot)
        if key is not None:
            # Some tree votes for the key, since only keys with votes are selected.
            self.rule = self.forest.named(key)
            self._publish(number + 1, self.rule)
        self._watch(number + 1, self.forest.votes, fired)


class PaperDPSOA(PrivateLearner):
    """Learn as Algorithms 1 and 2 do. Forward only: it cannot be copied or pickled.

    Privacy holds for every stream, also one chosen in reaction to the published rules. After
    `plan.releases` releases the last rule stands; `littlestone.DPSOA` has no such limit.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    plan : PaperPlan
        All constants.
    seed : int, optional
        Fixes the forest's random bits, which are not secret.
    noise : Noise, optional
        The source of secret noise; the system's if not given.

    Raises
    ------
    BadParameter
        If the class has no rule before the first example.
    """

    plan: PaperPlan

    def __init__(
        self,
        cls: HypothesisClass,
        plan: PaperPlan,
        *,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        if (warning := delta_warning(plan.delta, plan.horizon)) is not None:
            warnings.warn(warning, stacklevel=2)
        # h_1 = A(empty) reads no data, so publishing it costs nothing.
        rule = checked_class(cls).hypothesis(cls.start())
        if rule is None:
            raise BadParameter(f"{cls!r} has no rule before the first example")
        super().__init__(cls, plan, seed, rule)
        forest = Forest(cls, plan.shapes, self.seed, root=plan.root, replant=plan.replant)
        gate = plan.gate(SystemNoise() if noise is None else noise, rule.key)
        self._runner = SingleForestRunner(
            forest, gate, rule, plan.check_every, self._publish, self._watch
        )
