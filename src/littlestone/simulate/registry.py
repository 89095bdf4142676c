"""Register the learners that can be compared, by name.

To add one, write a function of `Terms` and add it to `CONTENDERS`. One that does not support a
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
from littlestone.simulate.games import Learner


class Terms(NamedTuple):
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


class Contender(NamedTuple):
    """Hold how to make a learner, whether it is private, and what it is."""

    make: Callable[[Terms], Learner]
    private: bool
    what: str


def _dpsoa(terms: Terms) -> Learner:
    cls, epsilon, delta, horizon, seed, tolerance, noise = terms
    plan = Plan.practical(cls, epsilon, delta, horizon, tolerance=tolerance)
    return DPSOA(cls, plan=plan, seed=seed, noise=noise)


def _paper(terms: Terms) -> Learner:
    plan = Plan.paper(terms.cls, terms.epsilon, terms.delta, terms.horizon)
    return DPSOA(terms.cls, plan=plan, seed=terms.seed, noise=terms.noise)


def _experts(terms: Terms, first: FirstRule = "drawn") -> Learner:
    return PrivateExperts(
        terms.cls,
        terms.epsilon,
        terms.horizon,
        tolerance=terms.tolerance,
        first=first,
        seed=terms.seed,
        noise=terms.noise,
    )


def _auto(terms: Terms) -> Learner:
    """Make what `recommend` would take, given the class and the budget only."""
    cls, epsilon, delta, horizon = terms[:4]
    chosen = recommend(cls, epsilon, delta, horizon, tolerance=terms.tolerance)
    experts = chosen.learner_name == "PrivateExperts"
    return _experts(terms, FIRST) if experts else _dpsoa(terms)


def _adaptive(terms: Terms) -> Learner:
    cls, epsilon, delta, horizon, seed, _, noise = terms
    return AdaptiveDPSOA(cls, epsilon, delta, horizon, seed=seed, noise=noise)


def _every_round(terms: Terms) -> Learner:
    cls, epsilon, delta, horizon, seed, _, noise = terms
    return EveryRound(cls, epsilon, delta, horizon, seed=seed, noise=noise)


CONTENDERS: dict[str, Contender] = {
    "auto": Contender(_auto, True, "what `recommend` takes for the class and the budget"),
    "dpsoa": Contender(_dpsoa, True, "DP-SOA, the practical plan"),
    "dpsoa-paper": Contender(_paper, True, "DP-SOA, the paper's shape with the repairs"),
    "experts": Contender(_experts, True, "private experts, for finite classes"),
    "adaptive": Contender(_adaptive, True, "a release at every round (Theorem 4.2)"),
    "every-round": Contender(_every_round, True, "the same with one forest, the naive baseline"),
    "soa": Contender(lambda terms: SOA(terms.cls), False, "the optimal learner, not private"),
    "halving": Contender(lambda terms: Halving(terms.cls), False, "majority vote, not private"),
}


def contender(
    name: str,
    cls: HypothesisClass,
    epsilon: float,
    delta: float,
    horizon: int,
    seed: int,
    tolerance: float = 0.0,
    noise: Noise | None = None,
) -> Learner:
    """Make a learner by its name.

    Parameters
    ----------
    name
        A name in `CONTENDERS`.
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
    Learner
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
    if name not in CONTENDERS:
        raise BadParameter(f"no learner is called {name!r}: there are {', '.join(CONTENDERS)}")
    terms = Terms(cls, epsilon, delta, horizon, seed, tolerance, noise)
    return CONTENDERS[name].make(terms)


def is_vacuous(learner: Learner) -> bool:
    """Return whether a learner's plan says that its first rule will stand on every stream.

    >>> from littlestone.classes.sets import Points
    >>> is_vacuous(contender("adaptive", Points(), 1, 1e-6, 100, seed=7))
    True
    """
    return bool(getattr(getattr(learner, "plan", None), "vacuous", False))
