"""Hold what a person chooses before any data: the terms from which every plan is made.

The command line, the store, the service, River, scikit-learn and `compare` pass them as one thing.
"""

from dataclasses import dataclass

from littlestone._classes.base import HypothesisClass
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._privacy.accounting import Unit
from littlestone._privacy.parameters import Real

# The name that stands for the learner that the class, the budget and the unit recommend.
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Hold class, budget, horizon, unit, costs and learner. All of it is public."""

    cls: HypothesisClass
    epsilon: Real
    delta: Real
    horizon: int
    unit: Unit = "event"
    cap: int | None = None
    change_cost: Real = CHANGE_COST
    min_rate: Real | str = AUTO_RATE
    learner: str = AUTO
