"""The base of hypotheses: rules that can be published.

A hypothesis is a canonical function from examples to {0, 1}. Its identity is its `key`, canonical
bytes; equality, hash, order, JSON and text all derive from the same fields. It holds no sample and
no version space, so publishing it publishes nothing but its text.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property, total_ordering
from typing import Any, ClassVar

import numpy as np

from littlestone.display import element
from littlestone.hypotheses.rows import Column, as_batch, batch_length
from littlestone.hypotheses.values import Mask, Plain, encode, to_json


@total_ordering
@dataclass(frozen=True, eq=False)
class Hypothesis(ABC):
    """Label examples by a rule, identified by its canonical form.

    To add a kind, write a frozen dataclass with `eq=False` whose fields are values, tuples of
    values, or hypotheses, with `kind` and the abstract methods below.
    """

    kind: ClassVar[str]

    @abstractmethod
    def __call__(self, x: object) -> bool:
        """Return the label of one example."""

    @abstractmethod
    def predict(self, X: Any) -> Mask:
        """Return the label of each example of a batch."""

    @abstractmethod
    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        """Return, for each column that the rule reads, the values at which its label can change."""

    @abstractmethod
    def __str__(self) -> str: ...

    def negated(self) -> str:
        """Return the text of the negation."""
        return f"not ({self})"

    @cached_property
    def key(self) -> bytes:
        """Return the canonical bytes: two hypotheses are equal exactly when their keys are."""
        # The kind is part of the key: two kinds with the same fields are different rules.
        parts = (getattr(self, field.name) for field in fields(self))
        return encode((self.kind, *(p.key if isinstance(p, Hypothesis) else p for p in parts)))

    def _repr_html_(self) -> str:
        return element("code", str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hypothesis) and self.key == other.key

    def __lt__(self, other: object) -> bool:
        return self.key < other.key if isinstance(other, Hypothesis) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def to_json(self) -> dict[str, object]:
        """Return the rule as JSON data, from which `rule_from_json` restores it exactly.

        Examples
        --------
        >>> from littlestone.hypotheses.kinds import one_of
        >>> one_of(["4.2.1"], "version").to_json()
        {'kind': 'one of', 'values': {'tuple': ['4.2.1']}, 'column': 'version'}
        """
        data: dict[str, object] = {"kind": self.kind}
        for field in fields(self):
            part = getattr(self, field.name)
            data[field.name] = part.to_json() if isinstance(part, Hypothesis) else to_json(part)
        return data


@dataclass(frozen=True, eq=False)
class Constant(Hypothesis):
    """Give every example the same label: `always` or `never`.

    Parameters
    ----------
    answer : bool
        The label.
    """

    kind = "constant"
    answer: bool

    def __call__(self, x: object) -> bool:
        return self.answer

    def predict(self, X: Any) -> Mask:
        return np.full(batch_length(as_batch(X)), self.answer)

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return {}

    def __str__(self) -> str:
        return "always" if self.answer else "never"


ALWAYS = Constant(True)
NEVER = Constant(False)
