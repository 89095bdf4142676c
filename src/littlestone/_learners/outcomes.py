"""Read labels with several values: which rows are normal, and what the outcome of the others is.

The outcome of a row is kept in the batch, as the column `OUTCOME` beside those that the class
reads. So whatever cuts, copies, stores or sends rows keeps it with its row, and labels stay truth
values: false for a normal row.
"""

from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, read_row
from littlestone._classes.causes import Causes
from littlestone._hypotheses.causes import OUTCOME, outcomes_of
from littlestone._hypotheses.rows import Batch, column_of
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask, Plain
from littlestone._learners.rounds import BadRows, read_labelled
from littlestone.errors import BadClass, BadColumn, BadExample

# Labels of these types are one key of a dict exactly if they are one label.
_PLAIN_LABELS = {str, NoneType}


def read_outcome(cls: Causes, x: object, y: object) -> tuple[dict[str, Any], bool]:
    """Read a row and its label: return the row with its outcome, and whether it has one."""
    row: Any = read_row(cls, x)
    outcome = cls.outcome(y)
    return {**row, OUTCOME: outcome}, outcome is not None


def readable_outcomes(
    cls: Causes, X: Any, y: object, bad_rows: BadRows
) -> tuple[Batch, Mask, Mask]:
    """Read a batch of rows whose labels have several values, as `readable_rounds` reads others."""
    # Read as values are: a type that was guessed from other rows is refused (Lemma 0).
    try:
        given = column_of(y, None, "value")
    except BadColumn as error:
        raise BadColumn(f"labels: {error.sentence}") from None
    batch, readable = read_labelled(cls, X, len(given), bad_rows)
    outcomes, known = _outcomes(cls, given, bad_rows)
    if not isinstance(batch, dict):
        # Rows that do not line up, so none of them has the columns of the class.
        return batch, np.zeros(len(given), dtype=bool), np.zeros(len(given), dtype=bool)
    answers = np.asarray(outcomes != None)  # noqa: E711
    return {**batch, OUTCOME: outcomes}, readable & known, answers


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


class _Outcomes(dict[object, "Plain | BadExample"]):
    """Remember the outcomes of labels: they repeat."""

    def __init__(self, cls: Causes) -> None:
        super().__init__()
        self._cls = cls

    def __missing__(self, label: object) -> "Plain | BadExample":
        self[label] = found = self.read(label)
        return found

    def read(self, label: object) -> "Plain | BadExample":
        try:
            return self._cls.outcome(label)
        except BadExample as error:
            return error


def _outcomes(
    cls: Causes, given: npt.NDArray[Any], bad_rows: BadRows
) -> tuple[npt.NDArray[np.object_], Mask]:
    """Return the outcome of each label, None for normal ones, and which labels can be read."""
    labels, known = given.tolist(), _Outcomes(cls)
    plain = set(map(type, labels)) <= _PLAIN_LABELS
    # 1, 1.0 and True are one key of a dict and three labels: such labels are read one by one.
    found = np.empty(len(labels), dtype=object)
    found[:] = list(map(known.__getitem__ if plain else known.read, labels))
    bad = [row for row, outcome in enumerate(found) if isinstance(outcome, BadExample)]
    if bad and bad_rows == "refuse":
        raise BadExample(found[bad[0]].sentence, bad[0])
    found[bad] = None
    readable = np.ones(len(labels), dtype=bool)
    readable[bad] = False
    return found, readable
