"""The algorithms of Golowich and Livni, *Littlestone Classes are Privately Online Learnable*.

For readers of the paper, and for study: the practical learners are in `littlestone` itself. Each
module is one piece, and names the lines that it implements; docs/paper.md walks through them and
says where the print was repaired.

- Algorithm 1, the loop over rounds: `PaperDPSOA`, on the forest of `littlestone._learners.forest`.
- Algorithm 2 (Lemma 5.3): `HistSparse`. Algorithm 3: `AboveThreshold`. Theorem 5.1, `hist`:
  `StableHistogram`.
- Theorem 4.1: `TheoremPlan`, the constants of the proof, and `PaperPlan`, numbers that can be run.
- Theorem 4.2: `AdaptiveDPSOA`; `EveryRound`, a naive baseline. Lemma 5.4: `per_release`.

>>> import littlestone as ls
>>> from littlestone import paper
>>> plan = paper.PaperPlan.of(ls.Points(), epsilon=60, delta=1e-6, horizon=2000)
>>> learner = paper.PaperDPSOA(ls.Points(), plan, seed=1)
>>> learner.learn_many(["a", "b"] * 1000, [1, 0] * 1000)
>>> print(learner.guarantee)
(60.0, 1e-06)-differential privacy, replace-one, per event
"""

from littlestone._privacy.selection import StableHistogram
from littlestone.paper.adaptive import AdaptiveDPSOA, EveryRound, EveryRoundPlan
from littlestone.paper.gates import (
    AboveThreshold,
    EveryCheck,
    HistSparse,
    composed_epsilon,
    per_release,
)
from littlestone.paper.learner import PaperDPSOA
from littlestone.paper.plan import PaperPlan, TheoremPlan

__all__ = [
    "AboveThreshold",
    "AdaptiveDPSOA",
    "EveryCheck",
    "EveryRound",
    "EveryRoundPlan",
    "HistSparse",
    "PaperDPSOA",
    "PaperPlan",
    "StableHistogram",
    "TheoremPlan",
    "composed_epsilon",
    "per_release",
]
