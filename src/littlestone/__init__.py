"""Differentially private online classification.

>>> import littlestone as ls
>>> print(ls.one_of(["4.2.1"], "version"))
version = '4.2.1'
"""

from littlestone.edge.tables import read_table
from littlestone.learning.adaptive import AdaptiveDPSOA, EveryRound, EveryRoundPlan
from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.engines import ENGINES, Engine
from littlestone.learning.experts import PrivateExperts
from littlestone.learning.plain import SOA, Halving
from littlestone.learning.plan import Plan, plan_from_json
from littlestone.learning.recommend import Recommendation, recommend
from littlestone.learning.releases import Release
from littlestone.learning.weighing import ExpertsPlan
from littlestone.theory.bins import Bins, binned
from littlestone.theory.classes import DEAD, HypothesisClass, State, differ
from littlestone.theory.combinations import Complement, Union
from littlestone.theory.conjunctions import Conjunctions
from littlestone.theory.dimension import dimension, witness
from littlestone.theory.errors import BadClass, BadExample, TooLarge
from littlestone.theory.finite import FiniteClass
from littlestone.theory.hypothesis import ALWAYS, NEVER, Hypothesis
from littlestone.theory.intervals import Intervals
from littlestone.theory.reading import rule_from_json
from littlestone.theory.rows import label
from littlestone.theory.rules import Rules
from littlestone.theory.sets import Points, Sets
from littlestone.theory.thresholds import Thresholds
from littlestone.theory.trees import MistakeTree, draw, shattered_depth
from littlestone.theory.vocabulary import (
    all_of,
    at_least,
    between,
    negation,
    one_of,
    steps,
)

__version__: str


def _ray(address: str) -> Engine:
    """The engine ray, imported when somebody asks for it."""
    from littlestone.edge.engine import Ray

    return Ray(address)


ENGINES["ray"] = _ray


def __getattr__(name: str) -> str:
    """The version, when asked for: the module that knows it is slow to import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("littlestone")


__all__ = [
    "ALWAYS",
    "DEAD",
    "DPSOA",
    "NEVER",
    "SOA",
    "AdaptiveDPSOA",
    "BadClass",
    "BadExample",
    "Bins",
    "Complement",
    "Conjunctions",
    "EveryRound",
    "EveryRoundPlan",
    "ExpertsPlan",
    "FiniteClass",
    "Halving",
    "Hypothesis",
    "HypothesisClass",
    "Intervals",
    "MistakeTree",
    "Plan",
    "Points",
    "PrivateExperts",
    "Recommendation",
    "Release",
    "Rules",
    "Sets",
    "State",
    "Thresholds",
    "TooLarge",
    "Union",
    "all_of",
    "at_least",
    "between",
    "binned",
    "differ",
    "dimension",
    "draw",
    "label",
    "negation",
    "one_of",
    "plan_from_json",
    "read_table",
    "recommend",
    "rule_from_json",
    "shattered_depth",
    "steps",
    "witness",
]
