"""Neighbouring streams to audit a learner on, and learners to audit.

Streams are as long as the plan's first threshold asks: one mistake then decides whether the monitor
fires, and one vote what the selector answers, which is where a leak shows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from littlestone.lab.audits import Audited, Neighbours, Row
from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.plain import SOA
from littlestone.learning.plan import Plan
from littlestone.learning.schedule import Schedule
from littlestone.privacy.exact import BadParameter
from littlestone.theory.classes import HypothesisClass
from littlestone.theory.errors import BadExample
from littlestone.theory.hypothesis import Hypothesis

LearnerName = Literal["dpsoa", "soa"]


@dataclass(frozen=True)
class Subject:
    """Makes the learner of that name, with fresh secret noise and the coins of `seed`.

    The coins are not secret: the guarantee holds for each value of them, so both worlds and all
    runs have the same ones.
    """

    name: LearnerName
    cls: HypothesisClass
    plan: Plan
    seed: int

    def __call__(self) -> Audited:
        if self.name == "soa":
            return SOA(self.cls)
        return DPSOA(self.cls, plan=self.plan, seed=self.seed)


def built_in(cls: HypothesisClass, plan: Plan) -> list[Neighbours]:
    """Neighbours for a class and a plan: a label turned round, and a vote that stands alone.

    >>> from littlestone.theory.sets import Points
    >>> plan = Plan.practical(Points(), epsilon=8, delta=1e-6, horizon=100)
    >>> for pair in built_in(Points(), plan):
    ...     print(pair.what, len(pair.one))
    one label is turned round 7
    one example is unlike all others 7
    """
    rule = _first_rule(cls)
    surprises = list(_surprises(cls, rule))
    if not surprises:
        raise BadParameter(f"{cls!r} has no example that its first rule gets wrong")
    x, y = surprises[0]
    stream = _as_long_as_it_takes(plan, (x, y))
    pairs = [Neighbours("one label is turned round", stream, ((x, not y), *stream[1:]))]
    others = [row for row in surprises if row != stream[0]]
    if others:
        lone = others[0], *stream[1:]
        pairs.append(Neighbours("one example is unlike all others", lone, stream))
    return pairs


def _surprises(cls: HypothesisClass, rule: Hypothesis) -> Iterator[Row]:
    """Examples that the first rule gets wrong and another rule right."""
    points = cls.skeleton()[1]
    for x in [*points, *map(_next, points)]:
        try:
            learned = cls.learn(cls.start(), x, not rule(x))
        except BadExample:
            continue
        if cls.hypothesis(learned) is not None:
            yield x, not rule(x)


def _next(x: Any) -> Any:
    """Another example, which the class may or may not be able to read."""
    if isinstance(x, dict):
        return {name: _next(value) for name, value in x.items()}
    return x + "'" if isinstance(x, str) else x + 1


def with_a_null_round(cls: HypothesisClass, rows: Sequence[Row]) -> Neighbours:
    """A stream, and the same without its first example that the first rule gets wrong."""
    rule = _first_rule(cls)
    wrong = (n for n, (x, y) in enumerate(rows) if y is not None and rule(x) != y)
    at = next(wrong, None)
    if at is None:
        raise BadParameter("the first rule is right on every row: there is nothing to tell apart")
    other = (*rows[:at], (None, None), *rows[at + 1 :])
    return Neighbours(f"row {at + 1:,} is a null round", tuple(rows), other)


def _first_rule(cls: HypothesisClass) -> Hypothesis:
    rule = cls.hypothesis(cls.start())
    if rule is None:
        raise BadParameter(f"{cls!r} has no rule before any example")
    return rule


def _as_long_as_it_takes(plan: Plan, row: Row) -> tuple[Row, ...]:
    """As many surprises as reach the threshold of their age, or three a tree, then null rounds up
    to a check."""
    every = plan.check_every
    surprises = 3 * plan.trees
    if plan.monitor == "mistakes":
        rate = float(plan.epsilon_monitor) / (plan.cap or 1)
        allowed = Schedule(plan.thresholds[0], rate, every, plan.tolerance)
        surprises = plan.thresholds[0]
        while surprises < min(allowed(surprises + -surprises % every, 0), plan.horizon):
            surprises += 1
    return ((row,) * surprises + ((None, None),) * (-surprises % every))[: plan.horizon]
