"""A batch as the forest sees it: tree by tree, and looked through from error to error.

Rules that many trees hold are evaluated once, on every row; what is then left is to look up the
next error. Any other rule is evaluated on the rows of its tree, a little ahead at a time.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone.theory.classes import HypothesisClass, predict_rows
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import Batch, part_of, row_of
from littlestone.theory.values import Mask

Indices = npt.NDArray[np.intp]
AHEAD = 64


class Shown:
    """Rows in the order of their trees: a *place* is a position in that order.

    `wrong` tells, for each common rule, the rows that it gets wrong.
    """

    def __init__(
        self,
        cls: HypothesisClass,
        batch: Batch,
        answers: Mask,
        order: Indices,
        wrong: Mapping[Hypothesis, Mask],
    ) -> None:
        self._cls, self._batch, self._answers, self._order = cls, batch, answers, order
        self._errors = {rule: np.flatnonzero(mask[order]).tolist() for rule, mask in wrong.items()}

    def row(self, place: int) -> int:
        """The row at a place."""
        return int(self._order[place])

    def example(self, place: int) -> tuple[object, bool]:
        """The example and the label at a place."""
        row = self._order[place]
        return row_of(self._batch, row), bool(self._answers[row])

    def next_error(self, rule: Hypothesis, start: int, stop: int) -> int | None:
        """The first place from `start` up to `stop` that a rule gets wrong."""
        known = self._errors.get(rule)
        if known is not None:
            at = bisect_left(known, start)
            return known[at] if at < len(known) and known[at] < stop else None
        ahead = AHEAD
        while start < stop:
            end = min(stop, start + ahead)
            wrong = self.errors(rule, slice(start, end))
            first = int(wrong.argmax())
            if wrong[first]:
                return start + first
            start, ahead = end, 2 * ahead
        return None

    def errors(self, rule: Hypothesis, places: Any) -> Mask:
        """Which of some places a rule gets wrong."""
        rows = self._order[places]
        return np.asarray(
            predict_rows(self._cls, rule, part_of(self._batch, rows)) != self._answers[rows]
        )
