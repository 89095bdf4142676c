"""Worlds that react: rows that depend on everything released before."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from littlestone._audit.enumeration import Laws, Transcript
from littlestone._audit.gates import Stream

Law = Mapping[Any, float]


def reacting(seed: int, alphabet: Sequence[Any], replaced: int | None = None) -> Stream:
    """Rows that depend on everything released before; the same but for the replaced round."""

    def row(past: Transcript) -> Any:
        world = "other" if len(past) == replaced else "one"
        return random.Random(repr((seed, past, world))).choice(alphabet)

    return row


def reacting_laws(
    law_of: Callable[[Stream], Law], alphabet: Sequence[Any], rounds: int, seeds: int
) -> list[Laws]:
    """Laws of neighbours, each of which reacts; one round, chosen in advance, is replaced."""
    pairs: list[Laws] = []
    for seed in range(seeds):
        one = law_of(reacting(seed, alphabet))
        assert sum(one.values()) == pytest.approx(1)
        pairs += [(one, law_of(reacting(seed, alphabet, n))) for n in range(rounds)]
    return pairs
