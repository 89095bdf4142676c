"""Differentially private online classification.

>>> import littlestone as ls
>>> print(ls.one_of(["4.2.1"], "version"))
version = '4.2.1'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from littlestone._classes.base import (
    INCONSISTENT,
    HypothesisClass,
    VersionSpace,
    distinguishing_example,
)
from littlestone._classes.causes import Causes, Ranges
from littlestone._classes.conjunctions import Conjunctions
from littlestone._classes.dimension import MistakeTree, dimension, draw, shattered_depth, witness
from littlestone._classes.finite import FiniteClass
from littlestone._classes.intervals import Intervals
from littlestone._classes.rules import Rules
from littlestone._classes.sets import Points, Sets
from littlestone._classes.specs import read_table
from littlestone._classes.thresholds import Bins, Thresholds, binned
from littlestone._classes.union import Complement, Union
from littlestone._classes.vocabulary import VocabularyRules
from littlestone._display import library_version
from littlestone._hypotheses.causes import Cause, Condition, any_of, causes_of
from littlestone._hypotheses.rows import label
from littlestone._hypotheses.rules import (
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
from littlestone._learners.adaptive import AdaptiveDPSOA, EveryRound, EveryRoundPlan
from littlestone._learners.base import PrivateLearner, Release
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.dpsoa import DPSOA, ENGINES, Engine
from littlestone._learners.experts import ExpertsPlan, PrivateExperts
from littlestone._learners.plan import Plan, plan_from_json
from littlestone._learners.registry import Recommendation, recommend
from littlestone._learners.soa import SOA, Halving
from littlestone._privacy.accounting import Guarantee
from littlestone._privacy.mechanism import MechanismMoved
from littlestone._privacy.parameters import BadParameter
from littlestone.errors import BadClass, BadExample, LittlestoneError, TooLarge

if TYPE_CHECKING:
    from littlestone._data.blocks import BadStream
    from littlestone._data.readers import open_rows
    from littlestone._learners.inverse_plan import SmallestEpsilon, smallest_epsilon
    from littlestone._privacy.budget_file import BadBudget, BudgetFile, read_budgets
    from littlestone._privacy.budget_state import BudgetExceeded, BudgetState
    from littlestone._store.copies import back_up, take_over
    from littlestone._store.serialization import BadStore
    from littlestone._store.store import Store, open_store, read_store

__version__: str


def _ray(address: str) -> Engine:
    """Return the engine `ray`, imported when it is asked for."""
    from littlestone._ray import Ray

    return Ray(address)


ENGINES["ray"] = _ray


# Names that are imported when somebody asks for them: what they need takes time to import.
LAZY = {
    "BadBudget": "littlestone._privacy.budget_file",
    "BadStore": "littlestone._store.serialization",
    "BadStream": "littlestone._data.blocks",
    "BudgetExceeded": "littlestone._privacy.budget_state",
    "BudgetFile": "littlestone._privacy.budget_file",
    "BudgetState": "littlestone._privacy.budget_state",
    "SmallestEpsilon": "littlestone._learners.inverse_plan",
    "Store": "littlestone._store.store",
    "open_rows": "littlestone._data.readers",
    "back_up": "littlestone._store.copies",
    "take_over": "littlestone._store.copies",
    "open_store": "littlestone._store.store",
    "read_budgets": "littlestone._privacy.budget_file",
    "read_store": "littlestone._store.store",
    "smallest_epsilon": "littlestone._learners.inverse_plan",
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
