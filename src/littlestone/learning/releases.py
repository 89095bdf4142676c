"""A release: the moment a rule is published."""

from typing import NamedTuple

from littlestone.theory.hypothesis import Hypothesis


class Release(NamedTuple):
    """From round `round` on (the first is 1) the published rule is `rule`."""

    round: int
    rule: Hypothesis
