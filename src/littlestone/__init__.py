"""Differentially private online classification.

>>> import littlestone as ls
>>> print(ls.one_of(["4.2.1"], "version"))
version = '4.2.1'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from littlestone.classes.base import (
    INCONSISTENT,
    HypothesisClass,
    VersionSpace,
    distinguishing_example,
)
from littlestone.classes.causes import Causes, Ranges
from littlestone.classes.conjunctions import Conjunctions
from littlestone.classes.dimension import MistakeTree, dimension, draw, shattered_depth, witness
from littlestone.classes.finite import FiniteClass
from littlestone.classes.intervals import Intervals
from littlestone.classes.rules import Rules
from littlestone.classes.sets import Points, Sets
from littlestone.classes.specs import read_table
from littlestone.classes.thresholds import Bins, Thresholds, binned
from littlestone.classes.union import Complement, Union
from littlestone.classes.vocabulary import VocabularyRules
from littlestone.display import library_version
from littlestone.errors import BadClass, BadExample, LittlestoneError, TooLarge
from littlestone.hypotheses.causes import Cause, Condition, any_of, causes_of
from littlestone.hypotheses.rows import label
from littlestone.hypotheses.rules import (
    ALWAYS,
    NEVER,
    Hypothesis,
    all_of,
    at_least,
    between,
    negation,
    one_of,
    rule_from_json,
    steps,
)
from littlestone.learners.adaptive import AdaptiveDPSOA, EveryRound, EveryRoundPlan
from littlestone.learners.base import PrivateLearner, Release
from littlestone.learners.causes import PrivateCauses
from littlestone.learners.causes_plan import CausesPlan
from littlestone.learners.dpsoa import DPSOA, ENGINES, Engine
from littlestone.learners.experts import ExpertsPlan, PrivateExperts
from littlestone.learners.plan import Plan, plan_from_json
from littlestone.learners.registry import Recommendation, recommend
from littlestone.learners.soa import SOA, Halving
from littlestone.privacy.accounting import Guarantee
from littlestone.privacy.mechanism import MechanismMoved
from littlestone.privacy.parameters import BadParameter

if TYPE_CHECKING:
    from littlestone.data.blocks import BadStream
    from littlestone.data.readers import open_rows
    from littlestone.learners.inverse_plan import SmallestEpsilon, smallest_epsilon
    from littlestone.privacy.budget_file import BadBudget, BudgetFile, read_budgets
    from littlestone.privacy.budget_state import BudgetExceeded, BudgetState
    from littlestone.store.copies import back_up, take_over
    from littlestone.store.serialization import BadStore
    from littlestone.store.store import Store, open_store, read_store

__version__: str


def _ray(address: str) -> Engine:
    """Return the engine `ray`, imported when it is asked for."""
    from littlestone.ray import Ray

    return Ray(address)


ENGINES["ray"] = _ray


# Names that are imported when somebody asks for them: what they need takes time to import.
LAZY = {
    "BadBudget": "littlestone.privacy.budget_file",
    "BadStore": "littlestone.store.serialization",
    "BadStream": "littlestone.data.blocks",
    "BudgetExceeded": "littlestone.privacy.budget_state",
    "BudgetFile": "littlestone.privacy.budget_file",
    "BudgetState": "littlestone.privacy.budget_state",
    "SmallestEpsilon": "littlestone.learners.inverse_plan",
    "Store": "littlestone.store.store",
    "open_rows": "littlestone.data.readers",
    "back_up": "littlestone.store.copies",
    "take_over": "littlestone.store.copies",
    "open_store": "littlestone.store.store",
    "read_budgets": "littlestone.privacy.budget_file",
    "read_store": "littlestone.store.store",
    "smallest_epsilon": "littlestone.learners.inverse_plan",
}


def __getattr__(name: str) -> Any:
    """Return the version, or a name of `LAZY`, when it is asked for."""
    if name == "__version__":
        return library_version()
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LAZY[name]), name)


__all__ = [
    "ALWAYS",
    "DPSOA",
    "INCONSISTENT",
    "NEVER",
    "SOA",
    "AdaptiveDPSOA",
    "BadBudget",
    "BadClass",
    "BadExample",
    "BadParameter",
    "BadStore",
    "BadStream",
    "Bins",
    "BudgetExceeded",
    "BudgetFile",
    "BudgetState",
    "Cause",
    "Causes",
    "CausesPlan",
    "Complement",
    "Condition",
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
    "MechanismMoved",
    "MistakeTree",
    "Plan",
    "Points",
    "PrivateCauses",
    "PrivateExperts",
    "PrivateLearner",
    "Ranges",
    "Recommendation",
    "Release",
    "Rules",
    "Sets",
    "SmallestEpsilon",
    "Store",
    "Thresholds",
    "TooLarge",
    "Union",
    "VersionSpace",
    "VocabularyRules",
    "all_of",
    "any_of",
    "at_least",
    "back_up",
    "between",
    "binned",
    "causes_of",
    "dimension",
    "distinguishing_example",
    "draw",
    "label",
    "negation",
    "one_of",
    "open_rows",
    "open_store",
    "plan_from_json",
    "read_budgets",
    "read_store",
    "read_table",
    "recommend",
    "rule_from_json",
    "shattered_depth",
    "smallest_epsilon",
    "steps",
    "take_over",
    "witness",
]
