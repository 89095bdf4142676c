"""Read labels with several values: which rows are normal, and what the outcome of the others is.

The outcome of a row is kept in the batch, as the column `OUTCOME` beside those that the class
reads. So whatever cuts, copies, stores or sends rows keeps it with its row, and labels stay truth
values: false for a normal row.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, read_row
from littlestone._classes.causes import Causes
from littlestone._hypotheses.causes import OUTCOME, outcomes_of
from littlestone._hypotheses.rows import Batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone.errors import BadClass


def read_outcome(cls: Causes, x: object, y: object) -> tuple[dict[str, Any], bool]:
    """Read a row and its label: return the row with its outcome, and whether it has one."""
    row: Any = read_row(cls, x)
    outcome = cls.outcome(y)
    return {**row, OUTCOME: outcome}, outcome is not None


def refuse_outcomes(cls: HypothesisClass, where: str) -> None:
    """Refuse a class of outcomes where labels have two values."""
    if isinstance(cls, Causes) and cls.has_outcomes:
        raise BadClass(
            f"{where} takes two labels, and those of {cls!r} are outcomes: learn them with "
            "PrivateCauses itself, whose learn_one and learn_many take outcomes as labels"
        )


def predicted_labels(cls: HypothesisClass, rule: Hypothesis, batch: Batch) -> npt.NDArray[Any]:
    """Return the labels that a rule gives to rows: truth values, or outcomes if the class has them."""
    if not isinstance(cls, Causes) or not cls.has_outcomes:
        return np.asarray(cls.predict(rule, batch), dtype=bool)
    predicted = outcomes_of(rule, batch)
    predicted[predicted == None] = cls.normal[0]  # noqa: E711
    return predicted
