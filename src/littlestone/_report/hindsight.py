"""Compare what was published with publishing nothing and with the best published rule. Private.

All of it is exact, from a second look at the rows: it belongs to the data owner.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import HypothesisClass, readable_rows
from littlestone._data.blocks import NULL, Block
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.base import Release

# Points of a curve, and the most rules that are tried for the whole stream.
POINTS, MOST_RULES = 240, 12


class HindsightSample(NamedTuple):
    """Hold what the rules have cost after a round."""

    round: int
    published: float
    nothing: float
    best: float


class Hindsight(NamedTuple):
    """Hold exact costs by the rounds. Private, so it does not print."""

    rule: Hypothesis
    samples: tuple[HindsightSample, ...]

    def __repr__(self) -> str:
        return "Hindsight(private)"


def hindsight_of(
    blocks: Iterable[Block],
    cls: HypothesisClass,
    releases: Sequence[Release],
    *,
    rounds: int,
    mistakes: int,
    cost: float = 1.0,
) -> Hindsight | None:
    """Return what the rules cost on the rows that a learner has learned."""
    rules = _longest(releases, rounds)
    bins = max(1, min(POINTS, rounds))
    spent = np.zeros((1 + len(rules), bins))
    seen = wrong = 0
    for block in blocks:
        keep = (block.labels != NULL) & readable_rows(cls, block.columns)
        truth = block.labels == 1
        place = np.minimum((np.arange(seen, seen + len(block)) * bins) // max(1, rounds), bins - 1)
        published = _published(block, releases, seen)
        wrong += int(((published != truth) & keep).sum())
        for row, said in enumerate([published, *(rule.predict(block.columns) for rule in rules)]):
            loss = np.where(truth, ~said, cost * said) * keep
            spent[row] += np.bincount(place, loss, minlength=bins)
        seen += len(block)
    if not seen or (seen, wrong) != (rounds, mistakes):
        return None
    return _summed(spent, rules, rounds)


def _summed(spent: npt.NDArray[np.float64], rules: Sequence[Hypothesis], rounds: int) -> Hindsight:
    bins = spent.shape[1]
    sums = np.cumsum(spent, axis=1)
    best = 1 + int(np.argmin(sums[1:, -1]))
    # Bin b holds the rounds below (b + 1) rounds / bins.
    ends = [-(-(at + 1) * rounds // bins) for at in range(bins)]
    curves = (sums[row].tolist() for row in (0, 1, best))
    samples = map(HindsightSample, ends, *curves)
    return Hindsight(rules[best - 1], (HindsightSample(0, 0.0, 0.0, 0.0), *samples))


def _longest(releases: Sequence[Release], rounds: int) -> list[Hypothesis]:
    """Return `never`, and the other published rules that stood for most rounds."""
    stood: dict[Hypothesis, int] = {}
    ends = [*(release.round for release in releases[1:]), rounds + 1]
    for (start, rule), end in zip(releases, ends, strict=True):
        stood[rule] = stood.get(rule, 0) + max(0, end - start)
    stood.pop(NEVER, None)
    return [NEVER, *sorted(stood, key=lambda rule: -stood[rule])[:MOST_RULES]]


def _published(block: Block, releases: Sequence[Release], before: int) -> Mask:
    """Return what the rules that stood predict for rows of which so many came before."""
    said = np.zeros(len(block), bool)
    ends = [*(release.round for release in releases[1:]), before + len(block) + 1]
    for (start, rule), end in zip(releases, ends, strict=True):
        some = slice(max(0, start - 1 - before), max(0, min(len(block), end - 1 - before)))
        if some.start < some.stop:
            part = {name: column[some] for name, column in block.columns.items()}
            said[some] = rule.predict(part)
    return said
