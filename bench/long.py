"""10^9 rounds in one process, measured to the end: seconds, rounds a second, memory, and the rule.

Rounds are made a part at a time, as a stream would bring them, and learned as they come. Text comes
as Arrow dictionaries, which is what Parquet files, polars and pandas categories hold; numbers come
as arrays. `python -m bench long --rounds 10000000` is a quick look.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow
from rich.table import Table

from bench.output import publish
from littlestone import DPSOA, Causes, Points, PrivateCauses, PrivateExperts, Thresholds

ROUNDS, PART = 10**9, 10**6
MERCHANTS = pyarrow.array([f"m{number}" for number in range(1000)])
VERSIONS = pyarrow.array([f"4.{number}" for number in range(20)])
COUNTRIES = pyarrow.array(["SE", "NO", "DK", "FI", "IS"])
CULPRIT = 7
Part = tuple[dict[str, Any], Any]


class Contest(NamedTuple):
    """A learner by the number of rounds, and the rounds of a part by random bits."""

    name: str
    make: Callable[[int], Any]
    part: Callable[[np.random.Generator], Part]


def run(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench long")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args(list(arguments)).rounds
    title = (
        f"{rounds:,} rounds in one process, in parts of {PART:,}: made, and learned as they come"
    )
    table = Table("learner", title=title)
    for name in ("seconds", "processor s", "learning", "rounds/s", "MB at 1/10", "at the end"):
        table.add_column(name, justify="right")
    table.add_column("published last")
    for number, contest in enumerate(_contests()):
        # In a process of its own: what other parts of the bench have held is none of its memory.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            table.add_row(contest.name, *process.submit(_measured, number, rounds).result())
    publish("long", table)


def _contests() -> Iterator[Contest]:
    points, causes = Points("merchant"), Causes(["version", "country"], width=2)
    yield Contest("DPSOA, points, no noise", lambda n: DPSOA(points, 1, 1e-11, n), _merchants)
    yield Contest("causes, width 2", lambda n: PrivateCauses(causes, 1, 1e-11, n), _versions)
    cuts = Thresholds(1, 25, column="score")
    yield Contest("experts, 5 % noise", lambda n: PrivateExperts(cuts, 1, n), _scores)


def _merchants(draw: np.random.Generator) -> Part:
    codes = draw.integers(0, len(MERCHANTS), PART, dtype=np.int16)
    return {"merchant": _coded(MERCHANTS, codes)}, codes == CULPRIT


def _versions(draw: np.random.Generator) -> Part:
    version = draw.integers(0, len(VERSIONS), PART, dtype=np.int8)
    country = draw.integers(0, len(COUNTRIES), PART, dtype=np.int8)
    failed = draw.random(PART, dtype=np.float32) < np.where(version == CULPRIT, 0.3, 0.01)
    return {"version": _coded(VERSIONS, version), "country": _coded(COUNTRIES, country)}, failed


def _scores(draw: np.random.Generator) -> Part:
    score = draw.integers(1, 26, PART)
    return {"score": score}, (score >= 13) ^ (draw.random(PART, dtype=np.float32) < 0.05)


def _coded(values: Any, codes: Any) -> Any:
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes), values)


def _measured(number: int, rounds: int) -> list[str]:
    contest = list(_contests())[number]
    learner, process, parts = contest.make(rounds), psutil.Process(), rounds // PART
    memory, learning = list[float](), 0.0
    begun, used = time.perf_counter(), time.process_time()
    for part in range(parts):
        rows, labels = contest.part(np.random.default_rng(part))
        start = time.process_time()
        learner.learn_many(rows, labels)
        learning += time.process_time() - start
        if part in (parts // 10, parts - 1):
            memory.append(process.memory_info().rss / 1e6)
    seconds, used = time.perf_counter() - begun, time.process_time() - used
    figures = seconds, used, learning, parts * PART / learning, memory[0], memory[-1]
    return [*(f"{figure:,.0f}" for figure in figures), str(learner.hypothesis)]
