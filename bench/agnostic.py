"""Private experts on streams that no rule fits, with the default `change_cost`, epsilon 1.

Prints every figure with its aim beside it: i.i.d. noise, a culprit among 200 values, labels that
depend on each other in blocks, drift, and realizable streams. The constants of the learner were
chosen on other seeds, but on streams of the same kinds.
`python -m bench agnostic --seeds 5` is a quick look.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table

import littlestone as ls
from bench.output import publish
from bench.streams import scores
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import Adversary, halving, mirror
from littlestone._simulate.games import play

SEEDS, ROUNDS, VALUES, COST = 20, 300_000, 25, 50
PROCESSES = 2
CULPRIT, CANDIDATES = 7, 200
CUTS = ls.Thresholds(1, VALUES)
Truths = npt.NDArray[np.bool_]
Random = np.random.Generator


class Result(NamedTuple):
    """Mistakes beyond the yardstick, changes of rule, and whether an innocent was named."""

    regret: int
    releases: int
    innocent: bool = False


class Line(NamedTuple):
    """One line of the table: a stream, a run for a seed, and the aims."""

    name: str
    run: Callable[[int], Result]
    cells: Callable[[Sequence[Result]], tuple[str, str, bool]]


def run(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench agnostic")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="lines whose name begins with this")
    asked = parser.parse_args(list(arguments))
    lines = [line for line in LINES if line.name.startswith(asked.only)]
    jobs = [(line.name, asked.first + seed) for line in lines for seed in range(asked.seeds)]
    found: dict[str, list[Result]] = {line.name: [] for line in lines}
    with get_context("spawn").Pool(PROCESSES) as pool:
        results = pool.imap_unordered(_one, jobs)
        console = Console(stderr=True)
        for name, result in track(results, "agnostic", len(jobs), console=console, transient=True):
            found[name].append(result)
    title = f"PrivateExperts, epsilon 1, change_cost {COST}, {asked.seeds} seeds"
    table = Table("stream", "found", "aim", "", title=title)
    for line in lines:
        shown, aim, met = line.cells(found[line.name])
        table.add_row(line.name, shown, aim, "met" if met else "MISSED")
    publish("agnostic", table)


def _one(job: tuple[str, int]) -> tuple[str, Result]:
    name, seed = job
    line = next(line for line in LINES if line.name == name)
    return name, line.run(seed)


def learned(cls: ls.HypothesisClass, rows: Any, labels: Truths, seed: int) -> ls.PrivateExperts:
    """Let a learner with the default change cost learn a stream."""
    noise = SeededNoise(seed)
    learner = ls.PrivateExperts(cls, 1, len(labels), seed=seed, noise=noise)
    learner.learn_many(rows, labels)
    return learner


def best_fixed(rows: npt.NDArray[np.int64], labels: Truths) -> int:
    """Return the mistakes of the best cut."""
    return min(int(((rows >= cut) != labels).sum()) for cut in range(1, VALUES + 2))


def on_cuts(make: Callable[..., tuple[Any, Truths]], seed: int) -> Result:
    """Run thresholds of 25 values on a stream, against the best cut."""
    rows, labels = make(np.random.default_rng([seed, 17]))
    learner = learned(CUTS, rows, labels, seed)
    return Result(learner.mistakes - best_fixed(rows, labels), len(learner.releases) - 1)


def flipped(draw: Random, wrong: float) -> tuple[Any, Truths]:
    """Return rows of a cut whose labels are flipped."""
    rows, cut = draw.integers(1, VALUES + 1, ROUNDS), draw.integers(4, VALUES - 2)
    return rows, (rows >= cut) ^ (draw.random(ROUNDS) < wrong)


def smooth(draw: Random, wrong: float) -> tuple[Any, Truths]:
    """Return rows whose positive rate is a logistic curve; the best cut errs on so many."""
    points = np.arange(1, VALUES + 1)
    centre = draw.uniform(0.35, 0.65) * VALUES

    def rates(width: float) -> npt.NDArray[np.float64]:
        return np.asarray(1 / (1 + np.exp(-(points - centre) / width)))

    def error(width: float) -> float:
        up = rates(width)
        return min(float(np.where(points >= c, 1 - up, up).mean()) for c in range(1, VALUES + 2))

    low, high = 0.01, 1000.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if error(middle) < wrong else (low, middle)
    rows = draw.integers(1, VALUES + 1, ROUNDS)
    return rows, draw.random(ROUNDS) < rates(low)[rows - 1]


def in_blocks(draw: Random, kind: str, length: int) -> tuple[Any, Truths]:
    """Return rows whose labels have something in common in each block of rounds."""
    count = -(-ROUNDS // length)
    block = np.arange(ROUNDS) // length
    rows, cut = draw.integers(1, VALUES + 1, ROUNDS), int(draw.integers(6, VALUES - 4))
    noise = draw.random(ROUNDS) < 0.05
    some = (draw.random(count) < 0.15)[block]
    if kind == "storms":
        return rows, ((rows >= cut) ^ noise) | (some & (draw.random(ROUNDS) < 0.6))
    if kind == "flips":
        return rows, (rows >= cut) ^ some ^ noise
    if kind == "moving cut":
        return rows, (rows >= (cut + np.round(draw.normal(0, 4, count)))[block]) ^ noise
    moved = np.zeros(count)
    for number in range(1, count):
        moved[number] = 0.8 * moved[number - 1] + draw.normal(0, 1.8)
    return rows, (rows >= (cut + moved)[block]) ^ (draw.random(ROUNDS) < 0.1)


def drifting(wrong: float, seed: int) -> Result:
    """Run a stream whose best cut changes five times, against the cut of each time."""
    draw = np.random.default_rng([seed, 18])
    cuts = [int(draw.integers(1, VALUES + 2))]
    while len(cuts) < 6:
        cut = int(draw.integers(1, VALUES + 2))
        cuts += [cut] if abs(cut - cuts[-1]) >= 3 else []
    rows = draw.integers(1, VALUES + 1, ROUNDS)
    noise = draw.random(ROUNDS) < wrong
    labels = (rows >= np.array(cuts)[np.arange(ROUNDS) * 6 // ROUNDS]) ^ noise
    learner = learned(CUTS, rows, labels, seed)
    return Result(learner.mistakes - int(noise.sum()), len(learner.releases) - 1)


def culprit(rate: float | None, seed: int) -> Result:
    """Run a class of 200 values, or none, of which at most one is positive more often."""
    draw = np.random.default_rng([seed, 19])
    # Never, or one of the values.
    cls = ls.FiniteClass([[0] * CANDIDATES, *np.eye(CANDIDATES, dtype=int).tolist()])
    place = draw.integers(0, CANDIDATES, ROUNDS)
    place[draw.random(ROUNDS) < 0.02] = CULPRIT
    labels = draw.random(ROUNDS) < np.where(place == CULPRIT, rate or 0.05, 0.05)
    learner = ls.PrivateExperts(cls, 1, ROUNDS, first="own", seed=seed, noise=SeededNoise(seed))
    learner.learn_many(place, labels)
    points = np.arange(CANDIDATES)
    named = {n for one in learner.releases[1:] for n in np.flatnonzero(one.rule.predict(points))}
    best = min(int(labels.sum()), int((labels != (place == CULPRIT)).sum()))
    innocent = bool(named - ({CULPRIT} if rate else set()))
    return Result(learner.mistakes - best, len(learner.releases) - 1, innocent)


def against(make: Callable[[int], Adversary], cuts: int, rounds: int, seed: int) -> Result:
    """Run thresholds against a realizable stream or adversary."""
    cls = ls.Thresholds(1, cuts)
    learner = ls.PrivateExperts(cls, 1, rounds, seed=seed, noise=SeededNoise(seed))
    game = play(learner, make(seed), rounds)
    return Result(game.mistakes, len(game.releases) - 1)


def nineteen_of_twenty(values: Sequence[int]) -> int:
    """Return what 19 of 20 values do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def settles(releases: int, regret: int, found: Sequence[Result]) -> tuple[str, str, bool]:
    """Show releases and regret in 19 of 20 runs."""
    most = nineteen_of_twenty([one.releases for one in found])
    lost = nineteen_of_twenty([one.regret for one in found])
    middle = median(one.regret for one in found)
    shown = f"releases {most}, regret {lost:,} (median {middle:,.0f})"
    aim = f"releases {releases}, regret {regret}"
    return shown, aim, most <= releases and lost <= regret


def pays(found: Sequence[Result]) -> tuple[str, str, bool]:
    """Show mistakes and change costs beyond the best fixed rule."""
    totals = [one.regret + COST * one.releases for one in found]
    middle, lost = median(totals), nineteen_of_twenty(totals)
    shown = f"median {middle:,.0f}, 19 of 20 {lost:,}"
    return shown, "median 2,500, 19 of 20 5,500", middle <= 2500 and lost <= 5500


def at_most(most: float, found: Sequence[Result]) -> tuple[str, str, bool]:
    """Show the median of the regret."""
    values = [one.regret for one in found]
    shown = f"median {median(values):,.0f}, 19 of 20 {nineteen_of_twenty(values):,}"
    return shown, f"median {most:,.0f}", median(values) <= most


def no_innocent(found: Sequence[Result]) -> tuple[str, str, bool]:
    """Show in how many runs an innocent value was named."""
    runs = sum(one.innocent for one in found)
    shown = f"innocents in {runs}, regret {median(one.regret for one in found):,.0f} (median)"
    return shown, "innocents in 1 of 20", runs <= len(found) / 20


def _lines() -> Iterator[Line]:
    for name, make, most, regret in (("flipped", flipped, 8, 250), ("smooth", smooth, 11, 360)):
        for wrong in (0.05, 0.1, 0.2, 0.3):
            stream = partial(on_cuts, partial(make, wrong=wrong))
            yield Line(
                f"i.i.d., {name}, best errs on {wrong:.0%}", stream, partial(settles, most, regret)
            )
    for rate in (1.0, 0.7, None):
        name = "no culprit" if rate is None else f"culprit p = {rate:g}"
        yield Line(f"200 values, {name}", partial(culprit, rate), no_innocent)
    for kind in ("storms", "moving cut", "flips", "AR"):
        for length in (200, 2000):
            stream = partial(on_cuts, partial(in_blocks, kind=kind, length=length))
            yield Line(f"blocks of {length:,}, {kind}", stream, pays)
    for wrong, today in ((0.0, 377), (0.05, 409), (0.2, 443)):
        yield Line(
            f"drift, base noise {wrong:.0%}", partial(drifting, wrong), partial(at_most, 3 * today)
        )
    for cuts, iid, halved in ((15, 20, 48), (255, 46, 96), (1023, 57, 118)):
        uniform = partial(_uniform, cuts)
        yield Line(
            f"realizable, {cuts:,} cuts, i.i.d.",
            partial(against, uniform, cuts, 10**5),
            partial(at_most, 1.3 * iid),
        )
        path = partial(_halving, cuts)
        yield Line(
            f"realizable, {cuts:,} cuts, halving",
            partial(against, path, cuts, 10**5),
            partial(at_most, 1.3 * halved),
        )
    facing = partial(_mirror, 1023)
    yield Line(
        "realizable, 1,023 cuts, mirror",
        partial(against, facing, 1023, 20_000),
        partial(at_most, 500),
    )


def _uniform(cuts: int, seed: int) -> Adversary:
    return scores(seed, 10**5, cuts)


def _halving(cuts: int, seed: int) -> Adversary:
    return halving(ls.Thresholds(1, cuts), 10**5, seed)


def _mirror(cuts: int, seed: int) -> Adversary:
    return mirror(ls.Thresholds(1, cuts), 20_000, seed)


LINES = tuple(_lines())
