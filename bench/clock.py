"""Timing: the best of several runs, which is the least noisy thing to take a ratio of."""

import time
from collections.abc import Callable


def seconds(
    work: Callable[[], object], tries: int = 7, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest of several runs."""
    best = float("inf")
    for _ in range(tries):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best
