"""A day's worth of rounds in one process: seconds, memory, and what 10^9 rounds would take.

Rounds are made in parts, as a stream would bring them, and learned as they come. The last column is
extrapolated from the second half of the run. `python -m bench long --rounds 10000000` is a quick
look.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from rich.console import Console
from rich.table import Table

from littlestone import DPSOA, Causes, Points, PrivateCauses, PrivateExperts, Thresholds

ROUNDS, PART, DAY = 10**8, 10**6, 10**9
VALUES, CULPRIT = 1000, 7
Part = tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]


def run(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench long")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args(list(arguments)).rounds
    columns = (
        "learner",
        "rounds",
        "seconds",
        "of them learning",
        "MB at 1/10",
        "MB at the end",
        "10^9: minutes",
    )
    table = Table(*columns, title="generated and learned in one process, parts of 10^6")
    console = Console(highlight=False, width=110)
    for name, make, parts in _contests():
        table.add_row(name, f"{rounds:,}", *_measure(make(rounds), parts, rounds))
    console.print(table)


def _contests() -> Iterator[tuple[str, Callable[[int], Any], Callable[[int], Part]]]:
    yield "DPSOA, Points", lambda n: DPSOA(Points("x"), 1, 1e-11, n), _points
    yield "PrivateExperts, 25 cuts, 5 % noise", lambda n: PrivateExperts(CUTS, 1, n), _cuts
    yield "PrivateCauses, two columns", lambda n: PrivateCauses(CAUSES, 1, 1e-11, n), _causes


CUTS, CAUSES = Thresholds(1, 25, column="x"), Causes(["version", "country"])
NAMES = np.array([f"4.{n}" for n in range(20)])
COUNTRIES = np.array(["SE", "NO", "DK", "FI", "IS"])


def _points(part: int) -> Part:
    values = np.random.default_rng(part).integers(0, VALUES, PART)
    return {"x": values}, values == CULPRIT


def _cuts(part: int) -> Part:
    draw = np.random.default_rng(part)
    values = draw.integers(1, 26, PART)
    return {"x": values}, (values >= 13) ^ (draw.random(PART) < 0.05)


def _causes(part: int) -> Part:
    draw = np.random.default_rng(part)
    version = draw.integers(0, len(NAMES), PART)
    failed = draw.random(PART) < np.where(version == CULPRIT, 0.3, 0.01)
    country = COUNTRIES[draw.integers(0, len(COUNTRIES), PART)]
    return {"version": NAMES[version], "country": country}, failed


def _measure(learner: Any, parts: Callable[[int], Part], rounds: int) -> tuple[str, ...]:
    process, count = psutil.Process(), rounds // PART
    learning, early, half = 0.0, 0.0, 0.0
    begun = time.perf_counter()
    for part in range(count):
        rows, labels = parts(part)
        start = time.perf_counter()
        learner.learn_many(rows, labels)
        learning += time.perf_counter() - start
        if part == count // 10:
            early = process.memory_info().rss / 1e6
        if part == count // 2 - 1:
            half = time.perf_counter()
    end = time.perf_counter()
    minutes = (end - half) / (rounds - count // 2 * PART) * DAY / 60
    memory = process.memory_info().rss / 1e6
    return tuple(f"{figure:.0f}" for figure in (end - begun, learning, early, memory, minutes))
