"""Differentially private online classification.

>>> import littlestone as ls
>>> print(ls.one_of(["4.2.1"], "version"))
version = '4.2.1'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from littlestone.edge.tables import read_table
from littlestone.errors import LittlestoneError
from littlestone.learning.adaptive import AdaptiveDPSOA, EveryRound, EveryRoundPlan
from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.engines import ENGINES, Engine
from littlestone.learning.experts import PrivateExperts
from littlestone.learning.plain import SOA, Halving
from littlestone.learning.plan import Plan, plan_from_json
from littlestone.learning.recommend import Recommendation, recommend
from littlestone.learning.releases import Release
from littlestone.learning.weighing import ExpertsPlan
from littlestone.privacy.accounting import Guarantee
from littlestone.privacy.exact import BadParameter
from littlestone.privacy.spender import Moved
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

if TYPE_CHECKING:
    from littlestone.edge.about import BadStore
    from littlestone.edge.blocks import BadStream
    from littlestone.edge.readers import open_rows
    from littlestone.edge.store import Store, open_store, read_store

__version__: str


def _ray(address: str) -> Engine:
    """The engine ray, imported when somebody asks for it."""
    from littlestone.edge.engine import Ray

    return Ray(address)


ENGINES["ray"] = _ray


LAZY = {
    "BadStore": "littlestone.edge.about",
    "BadStream": "littlestone.edge.blocks",
    "Store": "littlestone.edge.store",
    "open_rows": "littlestone.edge.readers",
    "open_store": "littlestone.edge.store",
    "read_store": "littlestone.edge.store",
}
"""Names that are imported when somebody asks for them: what they need takes time to import."""


def __getattr__(name: str) -> Any:
    """Return the version, or a name of `LAZY`, when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("littlestone")
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LAZY[name]), name)


__all__ = [
    "ALWAYS",
    "DEAD",
    "DPSOA",
    "NEVER",
    "SOA",
    "AdaptiveDPSOA",
    "BadClass",
    "BadExample",
    "BadParameter",
    "BadStore",
    "BadStream",
    "Bins",
    "Complement",
    "Conjunctions",
    "EveryRound",
    "EveryRoundPlan",
    "ExpertsPlan",
    "FiniteClass",
    "Guarantee",
    "Halving",
    "Hypothesis",
    "HypothesisClass",
    "Intervals",
    "LittlestoneError",
    "MistakeTree",
    "Moved",
    "Plan",
    "Points",
    "PrivateExperts",
    "Recommendation",
    "Release",
    "Rules",
    "Sets",
    "State",
    "Store",
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
    "open_rows",
    "open_store",
    "plan_from_json",
    "read_store",
    "read_table",
    "recommend",
    "rule_from_json",
    "shattered_depth",
    "steps",
    "witness",
]
