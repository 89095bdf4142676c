"""A plan in words: what is proved, where the budget goes, what is hoped."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from littlestone.learning.plan import Plan


class Line(NamedTuple):
    """One line of a plan's table."""

    what: str
    value: str
    why: str


VACUOUS = Line(
    "vacuous",
    "a change takes more mistakes than there are rounds",
    "the first rule will stand: more rounds, or a larger epsilon",
)


def lines(plan: "Plan") -> Iterator[Line]:
    """A plan as a table: what is proved, where the budget goes, what is hoped."""
    yield from _proved(plan)
    yield from _machinery(plan)
    yield from _hoped(plan)


def _proved(plan: "Plan") -> Iterator[Line]:
    pair = f"epsilon {float(plan.epsilon):g}, delta {float(plan.delta):g}"
    yield Line("privacy: proved", pair, f"replace-one, per {plan.unit}; any stream")
    yield Line(
        "monitor's budget", f"epsilon {float(plan.epsilon_monitor):.4g}", "once, for all rounds"
    )
    each = f"epsilon {float(plan.epsilon_selector):.4g}, delta {float(plan.delta_selector):.3g}"
    if plan.releases is not None:
        why = f"each of {plan.releases} releases: they add up"
    elif plan.cap is not None:
        why = f"each; a user's rounds meet at most {plan.cap}"
    else:
        why = "each epoch reads its own rounds: releases are unlimited"
    yield Line("selector's budget", each, why)


def _machinery(plan: "Plan") -> Iterator[Line]:
    shapes = ", ".join(f"{count:,} of {n}" for n, count in plan.leaves.items())
    yield Line("trees x leaves", shapes, "copies of the class's learner")
    watched = "mistakes of the published rule" if plan.monitor == "mistakes" else "lost votes"
    limits = " / ".join(f"{count:,}" for count in _few(plan.thresholds))
    yield Line("monitor", f"{watched} >= {limits}", "then ask the trees")
    yield Line("selector", plan.selector, f"needs about {plan.votes_needed} votes")
    yield Line("check every", f"{plan.check_every:,} rounds", "a public schedule")
    if plan.tolerance:
        yield Line("tolerance", f"{float(plan.tolerance):.2%}", "mistakes that cause no change")
    if plan.restart_every is not None:
        yield Line("fresh start every", f"{plan.restart_every:,} rounds", "banks no credit")
    if plan.cap is not None:
        yield Line("rounds a user", f"at most {plan.cap}", "later ones are null rounds")
    yield Line("horizon", f"{plan.horizon:,} rounds", "then the last rule stands")


def _few(several: Sequence[int]) -> Sequence[int]:
    """All of them, or the first and the last."""
    return several if len(several) < 6 else [several[0], several[-1]]


def _hoped(plan: "Plan") -> Iterator[Line]:
    if plan.expected_mistakes is None:
        yield Line("utility: heuristic", "no prediction", "measure it on synthetic streams")
        return
    yield Line(
        "utility: heuristic",
        f"about {plan.expected_mistakes:,} mistakes a change of rule",
        "when some rule of the class fits the stream",
    )
    yield Line("a firing in vain", f"{plan.refusal:.1%}", "then it goes on collecting votes")
    if plan.vacuous:
        yield VACUOUS
