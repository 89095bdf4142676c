"""Trials: learners on synthetic streams, seed by seed, two at a time; the same figures every time.

The noise is `SeededNoise`, which is NOT PRIVATE: these runs test the learner and protect nobody.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.progress import track

from littlestone import DPSOA, HypothesisClass, Plan
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.streams import Stream
from littlestone.paper import PaperDPSOA, PaperPlan

PROCESSES = 2
PART = 10**6
"""Rounds that are held at once."""


@dataclass(frozen=True)
class Case:
    """A class, the plans to try on the same rounds, and a stream: of seed, rounds and part."""

    cls: HypothesisClass
    plans: tuple[Plan | PaperPlan, ...]
    stream: partial[Stream]


class Outcome(NamedTuple):
    """Mistakes beyond those that the true rule makes, changes of rule, and whether it was found."""

    excess: int
    releases: int
    found: bool


class Tally:
    """The outcomes of several seeds."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        excess = [outcome.excess for outcome in outcomes]
        self.median, self.mean, self.worst = median(excess), sum(excess) / len(excess), max(excess)
        self.releases = max(outcome.releases for outcome in outcomes)
        self.found = sum(outcome.found for outcome in outcomes)

    @property
    def cells(self) -> list[str]:
        """Median, worst, most releases, how often the truth was found."""
        return [f"{self.median:,.0f}", f"{self.worst:,}", str(self.releases), str(self.found)]


def tallies(cases: Sequence[Case], seeds: range, doing: str) -> list[list[Tally]]:
    """For each case, and each plan of it, the outcomes of all seeds."""
    asked = [(number, case, seed) for number, case in enumerate(cases) for seed in seeds]
    found: dict[int, list[list[Outcome]]] = {number: [] for number in range(len(cases))}
    with get_context("spawn").Pool(PROCESSES) as pool:
        answers = pool.imap_unordered(_answer, asked)
        console = Console(stderr=True)
        for number, outcomes in track(answers, doing, len(asked), console=console, transient=True):
            found[number].append(outcomes)
    return [[Tally(of_plan) for of_plan in zip(*found[n], strict=True)] for n in sorted(found)]


def _answer(asked: tuple[int, Case, int]) -> tuple[int, list[Outcome]]:
    number, case, seed = asked
    return number, list(_tried(case, seed))


def _learner(cls: HypothesisClass, plan: Plan | PaperPlan, seed: int) -> DPSOA | PaperDPSOA:
    if isinstance(plan, PaperPlan):
        return PaperDPSOA(cls, plan, seed=seed, noise=SeededNoise(seed))
    return DPSOA(cls, plan=plan, seed=seed, noise=SeededNoise(seed))


def _tried(case: Case, seed: int) -> Iterator[Outcome]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="delta = .* is above")
        learners = [_learner(case.cls, plan, seed) for plan in case.plans]
    unavoidable, horizon = 0, case.plans[0].horizon
    for part, start in enumerate(range(0, horizon, PART)):
        stream = case.stream(seed, min(PART, horizon - start), part=part)
        unavoidable += stream.unavoidable or 0
        for learner in learners:
            learner.learn_many(stream.batch, stream.answers)
    for learner in learners:
        found = learner.hypothesis == stream.truth
        yield Outcome(learner.mistakes - unavoidable, len(learner.releases) - 1, found)
