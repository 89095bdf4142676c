"""Measure how often the intervals of the evidence hold the true rate.

>>> found = interval_coverage(events=2000, rate=0.3, epsilon=0.1, runs=100,
...                           draw=np.random.default_rng(1))
>>> found.share > 0.8
True
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._learners.evidence import estimate_rate


class Coverage(NamedTuple):
    """Hold how often an interval held the true rate, and how long it was."""

    share: float
    length: float


def interval_coverage(
    *,
    events: int,
    rate: float,
    windows: int = 1,
    epsilon: float,
    runs: int,
    draw: np.random.Generator,
) -> Coverage:
    """Simulate released counts, and see how often their interval holds the true rate."""
    scale = 2 / epsilon
    sizes = np.full(windows, events // windows)
    sizes[: events % windows] += 1
    held, lengths = 0, []
    for _ in range(runs):
        positives = draw.binomial(sizes, rate)
        noisy = [
            counts + _laplace(scale, windows, draw) for counts in (sizes - positives, positives)
        ]
        cells = [(int(no), int(yes), scale) for no, yes in zip(*noisy, strict=True)]
        found = estimate_rate(cells)
        held += found.low <= rate <= found.high
        lengths.append(found.high - found.low)
    return Coverage(held / runs, float(np.median(lengths)))


def _laplace(scale: float, size: int, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return discrete Laplace noise: the difference of two geometric integers."""
    share = -np.expm1(-1 / scale)
    return np.asarray(draw.geometric(share, size) - draw.geometric(share, size))
