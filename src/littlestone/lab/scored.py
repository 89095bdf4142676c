"""Make neighbouring streams for private experts, and for releases at every round.

Experts: two kinds of rows that the first rule gets wrong, mixed so that the rules which are right
on the replaced one are drawn with a probability that a flipped label moves most. The laws of the
draw and of one check at the threshold are known (Theorems 3 and 6), so the mix is computed.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone.lab.bounds import separation
from littlestone.lab.neighbours import first_rule, surprises_of, turned
from littlestone.lab.runs import NULL, Neighbours, Row
from littlestone.learning.adaptive import EveryRoundPlan
from littlestone.learning.evidence import Evidence, evidence
from littlestone.learning.experts import PrivateExperts
from littlestone.learning.weighing import ExpertsPlan
from littlestone.privacy.exact import BadParameter
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.rows import as_batch

MOST_POINTS = 12
SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""How much of the other rows is like the replaced one."""
LONGEST = 400


class Mix(NamedTuple):
    """Hold a stream whose first row is the replaced one, and how well it separates two worlds."""

    merit: float
    stream: tuple[Row, ...]


def for_experts(cls: HypothesisClass, plan: ExpertsPlan, seed: int) -> list[Neighbours]:
    """Return the mix that shows most, if the draws spent twice their epsilon.

    Parameters
    ----------
    cls
        The class.
    plan
        The plan.
    seed
        The seed of the first rule.

    Returns
    -------
    list of Neighbours
        One pair.

    Examples
    --------
    >>> from littlestone.theory.thresholds import Thresholds
    >>> plan = ExpertsPlan.practical(Thresholds(1, 7), epsilon=1, horizon=100)
    >>> [(pair.what, len(pair.one)) for pair in for_experts(Thresholds(1, 7), plan, seed=0)]
    [('the label of round 1 is turned round', 16)]
    """
    rule = PrivateExperts(cls, plan=plan, seed=seed).hypothesis
    points = list(cls.skeleton()[1])
    spread = points[:: max(1, len(points) // MOST_POINTS)]
    rows: list[Row] = [(x, not rule(x)) for x in spread]
    if not rows:
        raise BadParameter(f"{cls!r} has no example that its first rule gets wrong")
    best = max(_mixes(evidence(cls), plan, rows), key=lambda mix: mix.merit)
    pad = (NULL,) * (-len(best.stream) % plan.check_every)
    stream = (*best.stream, *pad)[: plan.horizon]
    what = "the label of round 1 is turned round"
    return [Neighbours(what, stream, turned(stream, 0), plan.check_every)]


def _mixes(memory: Evidence, plan: ExpertsPlan, rows: Sequence[Row]) -> Iterator[Mix]:
    count = _mistakes(plan)
    claimed, rate = float(plan.epsilon), float(plan.epsilon_selector)
    fires = 1 / (1 + math.exp(-2 * float(plan.epsilon_monitor)))
    holds = 1 - fires
    for row, other, share in product(rows, rows, SHARES):
        alike = round(share * (count - 1))
        stream = (row, *(row,) * alike, *(other,) * (count - 1 - alike))
        right = _mistakes_of(memory, [row]) == 0
        p, q = (
            _drawn(_mistakes_of(memory, world), rate, right)
            for world in (stream, turned(stream, 0))
        )
        yield Mix(separation(fires * p, holds * q, claimed), stream)


def _mistakes(plan: ExpertsPlan) -> int:
    """Return as many mistakes as reach the first threshold at the age that they take."""
    schedule = plan.schedule()
    count, every = plan.threshold, plan.check_every
    while count < min(schedule(count + -count % every, 0), plan.horizon):
        count += 1
    return count


def _mistakes_of(memory: Evidence, rows: Sequence[Row]) -> npt.NDArray[np.int64]:
    xs, ys = map(list, zip(*rows, strict=True))
    memory.restart(memory.rule(0))
    memory.learn(as_batch(xs), np.array(ys), np.arange(len(rows)))
    return memory.mistakes.copy()


def _drawn(mistakes: npt.NDArray[np.int64], rate: float, right: npt.NDArray[np.bool_]) -> float:
    """Return the probability that a rule that is `right` is drawn, at twice the epsilon."""
    weights = np.exp(-rate * (mistakes - mistakes.min()))
    return float(weights[right].sum() / weights.sum())


def for_every_round(cls: HypothesisClass, plan: EveryRoundPlan) -> list[Neighbours]:
    """Return one mistake again and again, up to about half of the trees; then null rounds.

    Parameters
    ----------
    cls
        The class.
    plan
        The plan.

    Returns
    -------
    list of Neighbours
        One pair.
    """
    surprise = next(iter(surprises_of(cls, first_rule(cls))), None)
    if surprise is None:
        raise BadParameter(f"{cls!r} has no example that its first rule gets wrong")
    length = min(plan.horizon, LONGEST)
    count = max(1, min(length, round(plan.trees * math.log(2))))
    stream = (surprise,) * count + (NULL,) * (length - count)
    return [Neighbours("the label of round 1 is turned round", stream, turned(stream, 0))]
