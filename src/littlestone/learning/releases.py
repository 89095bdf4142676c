"""A release: the moment a rule is published; and all of them, which are what is public."""

from typing import NamedTuple

from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.markup import Markup
from littlestone.theory.notebook import few, table


class Release(NamedTuple):
    """From round `round` on (the first is 1) the published rule is `rule`."""

    round: int
    rule: Hypothesis


class Releases(tuple[Release, ...]):
    """The rules published so far, each with the round from which it stood: the public transcript.

    >>> from littlestone.theory.hypothesis import NEVER
    >>> Releases([Release(1, NEVER)])
    (Release(round=1, rule=Constant(answer=False)),)
    """

    __slots__ = ()

    def _repr_html_(self) -> Markup:
        rows = [(f"{number:,}", str(rule)) for number, rule in self]
        return table("releases", few(rows), ("from round", "rule"))
