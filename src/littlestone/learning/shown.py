"""Present a batch to the forest tree by tree, and search it from error to error.

Rules that many trees hold are evaluated once, on every row; then the next error is a lookup. Any
other rule is evaluated on the rows of its tree, a little ahead at a time.
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
"""The rows of the first window in which a rule is evaluated."""


class Shown:
    """Hold rows in the order of their trees: a *place* is a position in that order.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    batch : Batch
        The examples.
    answers : Mask
        Their labels.
    order : Indices
        The row at each place.
    wrong : Mapping of Hypothesis to Mask
        For each common rule, the rows that it gets wrong.
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
        """Return the row at a place."""
        return int(self._order[place])

    def example(self, place: int) -> tuple[object, bool]:
        """Return the example and the label at a place."""
        row = self._order[place]
        return row_of(self._batch, row), bool(self._answers[row])

    def next_error(self, rule: Hypothesis, start: int, stop: int) -> int | None:
        """Find the next error of a rule.

        Parameters
        ----------
        rule : Hypothesis
            The rule.
        start, stop : int
            Places; `stop` is not included.

        Returns
        -------
        int or None
            The first place that the rule gets wrong.
        """
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
        """Return which places a rule gets wrong.

        Parameters
        ----------
        rule : Hypothesis
            The rule.
        places : Indices or slice
            The places.

        Returns
        -------
        Mask
        """
        rows = self._order[places]
        return np.asarray(
            predict_rows(self._cls, rule, part_of(self._batch, rows)) != self._answers[rows]
        )
