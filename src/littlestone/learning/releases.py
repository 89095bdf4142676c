"""Record what is published: the releases, which are the public transcript."""

from typing import NamedTuple

from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.markup import Markup
from littlestone.theory.notebook import few, table


class Release(NamedTuple):
    """Record that from round `round` on the published rule is `rule`.

    Parameters
    ----------
    round : int
        The round; the first is 1.
    rule : Hypothesis
        The published rule.
    """

    round: int
    rule: Hypothesis


class Releases(tuple[Release, ...]):
    """Hold the rules published so far, each with its first round: the public transcript.

    >>> from littlestone.theory.hypothesis import NEVER
    >>> Releases([Release(1, NEVER)])
    (Release(round=1, rule=Constant(answer=False)),)
    """

    __slots__ = ()

    def _repr_html_(self) -> Markup:
        rows = [(f"{number:,}", str(rule)) for number, rule in self]
        return table("releases", few(rows), ("from round", "rule"))
