"""Learn with one forest for the whole stream (Algorithm 1) and the gate of Algorithm 2.

The forest never reads what is published, so a replaced round moves one vote, at every round
(Lemma 6.1); lost votes decide when to release, and the same votes decide what. Routed by user it is
private per user without a limit on a user's rounds, as all of them go to one tree
(docs/guarantee.md, Theorems 7 and 9).
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from littlestone._classes.base import HypothesisClass, checked_class
from littlestone._data.rounds import RowSpan
from littlestone._hypotheses.rules import Hypothesis
from littlestone._learners.base import PrivateLearner
from littlestone._learners.forest import Forest
from littlestone._learners.loop import ChangedState, EpochState, Judged, Loop, StateData
from littlestone._learners.plan_table import delta_warning
from littlestone._learners.tree import fresh_seed
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter
from littlestone.paper.plan import PaperPlan


class OneForest(EpochState):
    """Let one forest learn the whole stream: nothing is ever forgotten."""

    def __init__(self, forest: Any) -> None:
        self.cls, self.forest = forest.cls, forest

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return how many trees vote for each rule. Private."""
        votes: Mapping[Hypothesis, int] = self.forest.votes
        return votes

    def add(self, judged: Judged) -> None:
        """Learn rounds (Algorithm 1, from "Choose v_1" to the end of the loop)."""
        self.forest.learn(judged.rows)

    def scores(self, number: int, fired: bool) -> Mapping[bytes, int]:
        """Return the votes by key."""
        ballot: Mapping[bytes, int] = self.forest.ballot
        return ballot

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that some tree votes for."""
        rule: Hypothesis = self.forest.named(key)
        return rule

    def restart(self, number: int, rule: Hypothesis) -> None:
        """Do nothing: there is one epoch."""

    def get_state(self) -> StateData:
        """Return what is not in parts."""
        return {"forest": self.forest.get_state()}

    def unsaved(self) -> ChangedState:
        """Return the parts that have changed since the last call."""
        changed: ChangedState = self.forest.unsaved()
        return changed

    def load_state(
        self, live: StateData, parts: Mapping[int, bytes], rules: Sequence[tuple[int, Hypothesis]]
    ) -> None:
        """Load what was saved."""
        self.forest.load_state(live["forest"], parts)


class CheckedLoop(Loop):
    """Show the votes to a gate at every check, whatever the losses are."""

    def advance(self, rounds: RowSpan, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`."""
        while start < stop:
            end = min(stop, (start // self._every + 1) * self._every)
            self._add(self.state.judge(rounds.between(start, end), self.rule))
            self._check(end)
            start = end

    def advance_one(self, number: int, x: object, y: bool | None, route: int) -> None:
        """Learn one round."""
        if y is not None:
            self._waiting.append((number, x, y, route))
            self.gather()
        self._check(number + 1)

    def _check(self, number: int) -> None:
        """After so many rounds: "Run HistSparse on the list L_t and receive h_t", where due."""
        if number % self._every:
            return
        fired, key = self.gate.check(self.state.scores(number, True))
        if key is not None:
            # Some tree votes for the key, since only keys with votes are selected.
            self.rule = self.state.named(key)
            self._publish(number, self.rule)
        self._watch(number, lambda: self.state.votes, fired)


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
    _loop_type = CheckedLoop

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
        seed = fresh_seed() if seed is None else seed
        forest = Forest(cls, plan.shapes, seed, root=plan.root, replant=plan.replant)
        gate = plan.gate(SystemNoise() if noise is None else noise, rule.key)
        super().__init__(plan, seed, rule, OneForest(forest), gate)
