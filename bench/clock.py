"""Timing: the best of several runs, which is the least noisy thing to take a ratio of."""

import time
from collections.abc import Callable


def seconds(work: Callable[[], object], tries: int = 7) -> float:
    """The shortest of several runs."""
    best = float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best
