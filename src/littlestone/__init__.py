"""Find what causes the failures in a stream of sensitive events, and publish it privately.

>>> import littlestone as ls
>>> print(ls.one_of(["4.2.1"], "version"))
version = '4.2.1'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from littlestone._classes.base import (
        INCONSISTENT,
        HypothesisClass,
        VersionSpace,
        distinguishing_example,
    )
    from littlestone._classes.causes import Causes, Ranges
    from littlestone._classes.conjunctions import Conjunctions
    from littlestone._classes.dimension import (
        MistakeTree,
        dimension,
        draw,
        shattered_depth,
        witness,
    )
    from littlestone._classes.finite import FiniteClass
    from littlestone._classes.intervals import Intervals
    from littlestone._classes.rules import Rules
    from littlestone._classes.sets import Points, Sets
    from littlestone._classes.specs import read_table
    from littlestone._classes.thresholds import Bins, Thresholds, binned
    from littlestone._classes.union import Complement, Union
    from littlestone._data.readers import open_rows
    from littlestone._data.rounds import BadStream
    from littlestone._hypotheses.causes import Cause, Condition, any_of, causes_of
    from littlestone._hypotheses.cells import label
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
    from littlestone._learners.base import PrivateLearner, Release
    from littlestone._learners.causes import PrivateCauses, find_causes
    from littlestone._learners.causes_plan import CausesPlan
    from littlestone._learners.dpsoa import DPSOA
    from littlestone._learners.experts import ExpertsPlan, PrivateExperts
    from littlestone._learners.plan import Plan
    from littlestone._learners.registry import (
        Recommendation,
        SmallestEpsilon,
        recommend,
        smallest_epsilon,
    )
    from littlestone._learners.soa import SOA, Halving
    from littlestone._privacy.accounting import Guarantee
    from littlestone._privacy.mechanism import MechanismMoved
    from littlestone._privacy.parameters import BadParameter
    from littlestone._store.budgets import (
        BadBudget,
        BudgetExceeded,
        BudgetFile,
        BudgetState,
        read_budgets,
    )
    from littlestone._store.copies import back_up, take_over
    from littlestone._store.files import BadStore
    from littlestone._store.store import Store, open_store, read_store
    from littlestone.errors import BadClass, BadExample, LittlestoneError, TooLarge

__version__: str

# Where each name comes from. It is imported when somebody asks for it, so that `--help` is quick.
_HOMES = {
    "_classes.base": "HypothesisClass INCONSISTENT VersionSpace distinguishing_example",
    "_classes.causes": "Causes Ranges",
    "_classes.conjunctions": "Conjunctions",
    "_classes.dimension": "MistakeTree dimension draw shattered_depth witness",
    "_classes.finite": "FiniteClass",
    "_classes.intervals": "Intervals",
    "_classes.rules": "Rules",
    "_classes.sets": "Points Sets",
    "_classes.specs": "read_table",
    "_classes.thresholds": "Bins Thresholds binned",
    "_classes.union": "Complement Union",
    "_data.rounds": "BadStream",
    "_data.readers": "open_rows",
    "_hypotheses.causes": "Cause Condition any_of causes_of",
    "_hypotheses.cells": "label",
    "_hypotheses.rules": "ALWAYS Hypothesis NEVER all_of at_least between negation one_of "
    "rule_from_json steps",
    "_learners.base": "PrivateLearner Release",
    "_learners.causes": "PrivateCauses find_causes",
    "_learners.causes_plan": "CausesPlan",
    "_learners.dpsoa": "DPSOA",
    "_learners.experts": "ExpertsPlan PrivateExperts",
    "_learners.plan": "Plan",
    "_learners.registry": "Recommendation SmallestEpsilon recommend smallest_epsilon",
    "_learners.soa": "Halving SOA",
    "_privacy.accounting": "Guarantee",
    "_privacy.mechanism": "MechanismMoved",
    "_privacy.parameters": "BadParameter",
    "_store.budgets": "BadBudget BudgetExceeded BudgetFile BudgetState read_budgets",
    "_store.copies": "back_up take_over",
    "_store.files": "BadStore",
    "_store.store": "Store open_store read_store",
    "errors": "BadClass BadExample LittlestoneError TooLarge",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for, and keep it; the version is looked up."""
    if name == "__version__":
        from littlestone._display import library_version

        return library_version()
    home = next((module for module, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "ALWAYS", "DPSOA", "INCONSISTENT", "NEVER", "SOA", "BadBudget", "BadClass", "BadExample",
    "BadParameter", "BadStore", "BadStream", "Bins", "BudgetExceeded", "BudgetFile", "BudgetState",
    "Cause", "Causes", "CausesPlan", "Complement", "Condition", "Conjunctions", "ExpertsPlan",
    "FiniteClass", "Guarantee", "Halving", "Hypothesis", "HypothesisClass", "Intervals",
    "LittlestoneError", "MechanismMoved", "MistakeTree", "Plan", "Points", "PrivateCauses",
    "PrivateExperts", "PrivateLearner", "Ranges", "Recommendation", "Release", "Rules", "Sets",
    "SmallestEpsilon", "Store", "Thresholds", "TooLarge", "Union", "VersionSpace", "all_of",
    "any_of", "at_least", "back_up", "between", "binned", "causes_of", "dimension",
    "distinguishing_example", "draw", "find_causes", "label", "negation", "one_of", "open_rows",
    "open_store", "read_budgets", "read_store", "read_table", "recommend", "rule_from_json",
    "shattered_depth", "smallest_epsilon", "steps", "take_over", "witness",
]  # fmt: skip
