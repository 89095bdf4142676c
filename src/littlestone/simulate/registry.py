"""Register the learners that can be compared, by name.

To add one, write a function of `LearnerTerms` and add it to `LEARNERS`. One that does not support a
class raises `BadClass`, `TooLarge` or `BadParameter`: its message stands in its place.
"""

from collections.abc import Callable
from typing import NamedTuple

from littlestone.classes.base import HypothesisClass
from littlestone.learners.adaptive import AdaptiveDPSOA, EveryRound
from littlestone.learners.dpsoa import DPSOA
from littlestone.learners.experts import FirstRule, PrivateExperts
from littlestone.learners.plan import Plan
from littlestone.learners.recommend import FIRST, recommend
from littlestone.learners.soa import SOA, Halving
from littlestone.privacy.noise import Noise
from littlestone.privacy.parameters import BadParameter
from littlestone.simulate.games import PlayableLearner


class LearnerTerms(NamedTuple):
    """Hold what every learner is made from.

    Parameters
    ----------
    cls
        The hypothesis class.
    epsilon
        The privacy budget.
    delta
        The privacy budget.
    horizon
        The number of rounds.
    seed
        The seed of the random bits, which are not secret.
    tolerance
        The share of mistakes that causes no change.
    noise
        Where all noise is drawn; secret if left out.
    """

    cls: HypothesisClass
    epsilon: float
    delta: float
    horizon: int
    seed: int
    tolerance: float
    noise: Noise | None


class LearnerEntry(NamedTuple):
    """Hold how to make a learner, whether it is private, and what it is."""

    make: Callable[[LearnerTerms], PlayableLearner]
    private: bool
    what: str


def _dpsoa(terms: LearnerTerms) -> PlayableLearner:
    cls, epsilon, delta, horizon, seed, tolerance, noise = terms
    plan = Plan.practical(cls, epsilon, delta, horizon, tolerance=tolerance)
    return DPSOA(cls, plan=plan, seed=seed, noise=noise)


def _paper(terms: LearnerTerms) -> PlayableLearner:
    plan = Plan.paper(terms.cls, terms.epsilon, terms.delta, terms.horizon)
    return DPSOA(terms.cls, plan=plan, seed=terms.seed, noise=terms.noise)


def _experts(terms: LearnerTerms, first: FirstRule = "drawn") -> PlayableLearner:
    return PrivateExperts(
        terms.cls,
        terms.epsilon,
        terms.horizon,
        tolerance=terms.tolerance,
        first=first,
        seed=terms.seed,
        noise=terms.noise,
    )


def _auto(terms: LearnerTerms) -> PlayableLearner:
    """Make what `recommend` would take, given the class and the budget only."""
    cls, epsilon, delta, horizon = terms[:4]
    chosen = recommend(cls, epsilon, delta, horizon, tolerance=terms.tolerance)
    experts = chosen.learner_name == "PrivateExperts"
    return _experts(terms, FIRST) if experts else _dpsoa(terms)


def _adaptive(terms: LearnerTerms) -> PlayableLearner:
    cls, epsilon, delta, horizon, seed, _, noise = terms
    return AdaptiveDPSOA(cls, epsilon, delta, horizon, seed=seed, noise=noise)


def _every_round(terms: LearnerTerms) -> PlayableLearner:
    cls, epsilon, delta, horizon, seed, _, noise = terms
    return EveryRound(cls, epsilon, delta, horizon, seed=seed, noise=noise)


LEARNERS: dict[str, LearnerEntry] = {
    "auto": LearnerEntry(_auto, True, "what `recommend` takes for the class and the budget"),
    "dpsoa": LearnerEntry(_dpsoa, True, "DP-SOA, the practical plan"),
    "dpsoa-paper": LearnerEntry(_paper, True, "DP-SOA, the paper's shape with the repairs"),
    "experts": LearnerEntry(_experts, True, "private experts, for finite classes"),
    "adaptive": LearnerEntry(_adaptive, True, "a release at every round (Theorem 4.2)"),
    "every-round": LearnerEntry(_every_round, True, "the same with one forest, the naive baseline"),
    "soa": LearnerEntry(lambda terms: SOA(terms.cls), False, "the optimal learner, not private"),
    "halving": LearnerEntry(lambda terms: Halving(terms.cls), False, "majority vote, not private"),
}


def make_learner(
    name: str,
    cls: HypothesisClass,
    epsilon: float,
    delta: float,
    horizon: int,
    seed: int,
    tolerance: float = 0.0,
    noise: Noise | None = None,
) -> PlayableLearner:
    """Make a learner by its name.

    Parameters
    ----------
    name
        A name in `LEARNERS`.
    cls
        The hypothesis class.
    epsilon
        The privacy budget.
    delta
        The privacy budget.
    horizon
        The number of rounds.
    seed
        The seed of the random bits, which are not secret.
    tolerance
        The share of mistakes that causes no change.
    noise
        Where all noise is drawn; secret if left out.

    Returns
    -------
    PlayableLearner
        The learner, before its first round.

    Raises
    ------
    BadParameter
        If no learner has the name.

    Examples
    --------
    >>> from littlestone.classes.sets import Points
    >>> contender("soa", Points(), 1, 1e-6, 100, seed=7)
    SOA(Points(column=None)): never (not private)
    """
    if name not in LEARNERS:
        raise BadParameter(f"no learner is called {name!r}: there are {', '.join(LEARNERS)}")
    terms = LearnerTerms(cls, epsilon, delta, horizon, seed, tolerance, noise)
    return LEARNERS[name].make(terms)


def is_vacuous(learner: PlayableLearner) -> bool:
    """Return whether a learner's plan says that its first rule will stand on every stream.

    >>> from littlestone.classes.sets import Points
    >>> is_vacuous(contender("adaptive", Points(), 1, 1e-6, 100, seed=7))
    True
    """
    return bool(getattr(getattr(learner, "plan", None), "vacuous", False))
