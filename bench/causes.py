"""Causes: the private causes learner on generated streams, beside other ways to find causes.

    python -m bench causes [--kinds big,ramp,...] [--streams N] [--seed S] [--epsilon E] [--jobs J]
                           [--methods causes,group-by,ceiling,...] [--fixed] [--width W]

A kind is one of `MAKERS`; `--kinds` also takes the families of `FAMILIES`. By default 100 streams
of every kind but the fixed ones, whose rates and shares are given, and `more`. Nothing was tuned on
seeds from 10,000 on, the default. Noise of the learner is `SeededNoise`, which is not private:
these are rehearsals.

What is scored. A published cause is *right* when its conditions are those of a planted cause, or
when it matches exactly the same rows of the stream.

- **F1**: 2 TP / (published + active), over the causes of the last published set and those active in
  the last round; **over time**: TP, published and active are summed over all rounds, so a cause
  that is found late, or kept after its end, costs in proportion. 0/0 counts as 1.
- **false**: causes published at any time that were not planted, each distinct one once.
- **changes**: published sets after the first, empty one; **silent**: streams without any.
- **flapping**: streams in which one cause was dropped more than twice.
- **gain**: what the rule in force gained when each row came, as a share of what the planted causes
  gain (or of 100, if that is more): an alarm on a positive gains 1, another one loses the odds of
  `min_rate` where that is given, else twice the odds in that tenth of the stream. A stream counts
  from -3 to 3, so that no single one decides: large causes raise the odds that they must beat.
- **of greedy**: the same gain as a share of that of a greedy search without privacy that is told
  the whole stream in advance (bench/ceiling.py); where the base rate rises or falls.
- **regret**: what the planted causes gain less what was gained, in missed positives.
- **first**: rounds from the beginning of the first planted cause to the first release that names
  an active cause; the stream's end if there is none.

Intervals are 95 % bootstrap intervals of the mean over streams.
"""

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import signature
from itertools import pairwise
from math import isnan, nan
from multiprocessing import get_context
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table

import littlestone as ls
from bench.ceiling import run_ceiling
from bench.fixed_incidents import FIXED, make_fixed, make_real
from bench.group_by import Timeline, run_group_by
from bench.incidents import GROUPS, Cause, Incident, Maker, make_group
from bench.moving_incidents import (
    HARD,
    MOVING,
    WITHOUT_CAUSE,
    make_campaign,
    make_hard,
    make_moving,
    make_permuted,
    make_sorted,
    make_tempting,
)
from bench.output import publish, publish_text
from littlestone._hypotheses.causes import causes_of
from littlestone._privacy.testing import SeededNoise

EPSILON, DELTA, BLOCK = 1.0, 1e-7, 65_536
STREAMS, FIXED_STREAMS, SEED, RESAMPLES, JOBS = 100, 20, 10_000, 2_000, 2
MOST_GAIN = 3.0
PERMUTED = {
    f"permuted {rate:.0%}": partial(make_permuted, rate)
    for rate in (0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.9)
}
MAKERS: dict[str, Maker] = {
    **{kind: partial(make_group, kind) for kind in GROUPS},
    **{kind: partial(make_hard, kind) for kind in HARD},
    "tempt": make_tempting,
    "campaign": make_campaign,
    **{kind: partial(make_moving, kind) for kind in MOVING},
    **PERMUTED,
    "sorted": make_sorted,
    **{kind: partial(make_fixed, kind) for kind in FIXED},
    "real": make_real,
}
MORE = ("wide", "long", "real")
FAMILIES: dict[str, tuple[str, ...]] = {
    "bench": tuple(kind for kind in GROUPS if kind not in MORE),
    "incidents": (*HARD, "tempt", "campaign"),
    "moving": tuple(MOVING),
    "permuted": tuple(PERMUTED),
    "labels": (*PERMUTED, "sorted"),
    "fixed": tuple(FIXED),
    "more": MORE,
}
USUAL = ("bench", "incidents", "moving", "labels")
RAMPS = ("ramp", "ramp2", "fall", "campaign")


# Methods.


def run_private_causes(
    incident: Incident, width: int, epsilon: float, *, auto: bool = False, declared: bool = False
) -> Timeline:
    """Run the causes learner on an incident, in blocks; return its published sets."""
    known: dict[str, Any] = {}
    if declared:
        known["values"] = {name: values.tolist() for name, values in incident.values.items()}
    learner = ls.PrivateCauses(
        ls.Causes(list(incident.codes), width=width, **known),
        epsilon=epsilon,
        delta=DELTA,
        horizon=incident.rounds,
        min_rate="auto" if auto or incident.min_rate is None else incident.min_rate,
        seed=incident.seed,
        noise=SeededNoise(incident.seed),
    )
    for start in range(0, incident.rounds, BLOCK):
        part = incident.table.slice(start, BLOCK)
        learner.learn_many(part, incident.labels[start : start + BLOCK])
    return [(release.round - 1, read_causes(release.rule)) for release in learner.releases]


def read_causes(rule: Any) -> tuple[Cause, ...]:
    """Return the causes of a published rule as sets of (column, value)."""
    return tuple(
        frozenset((str(condition.column), str(condition.value)) for condition in cause.conditions)
        for cause in causes_of(rule)
    )


def _group_by(incident: Incident, width: int, epsilon: float) -> Timeline:
    return run_group_by(incident, epsilon, DELTA, width=width, min_rate=incident.min_rate)


Method: TypeAlias = Callable[[Incident, int, float], Timeline]
METHODS: dict[str, Method] = {
    "causes": run_private_causes,
    "causes-auto": partial(run_private_causes, auto=True),
    "causes-declared": partial(run_private_causes, declared=True),
    "group-by": _group_by,
    "ceiling": lambda incident, width, epsilon: run_ceiling(incident, width=width),
    "nothing": lambda incident, width, epsilon: [(0, ())],
}


def usual_methods(kind: str) -> tuple[str, ...]:
    """Return what a kind is measured with unless said otherwise."""
    if kind in FIXED and FIXED[kind].min_rate is not None:
        return "causes", "causes-auto", "causes-declared", "group-by"
    if kind in FIXED:
        return "causes", "group-by"
    return ("causes", "ceiling") if kind in RAMPS else ("causes",)


def _available(name: str) -> bool:
    if name == "causes-declared":
        return "values" in signature(ls.Causes).parameters
    return True


# Scores.


class Score(NamedTuple):
    """What one method did on one stream; `net` is its gain in missed positives."""

    kind: str
    seed: int
    method: str
    f1: float
    over_time: float
    false: int
    changes: int
    drops: int
    net: float
    gain: float
    regret: float
    first: float
    found: bool
    seconds: float
    of_greedy: float = nan


class Judge:
    """Tell which published causes are right, on one incident."""

    def __init__(self, incident: Incident) -> None:
        self.incident = incident
        self._names: dict[Cause, Cause | None] = {p.cause: p.cause for p in incident.planted}
        self._sizes = {p.cause: int(incident.mask(p.cause).sum()) for p in incident.planted}

    def name(self, cause: Cause) -> Cause | None:
        """Return the planted cause that a cause equals or is equivalent to, or None."""
        if cause not in self._names:
            mask = self.incident.mask(cause)
            size = int(mask.sum())
            equal = (
                planted
                for planted, own in self._sizes.items()
                if own == size and np.array_equal(mask, self.incident.mask(planted))
            )
            self._names[cause] = next(equal, None)
        return self._names[cause]

    def hits(self, published: Sequence[Cause], active: Sequence[Cause]) -> int:
        """Return how many active causes are published."""
        return len({self.name(cause) for cause in published} & set(active))


def f1_of(hits: float, published: float, active: float) -> float:
    """Return 2 hits / (published + active), 1 when both are 0."""
    return 2 * hits / (published + active) if published + active else 1.0


def pieces(incident: Incident, timeline: Timeline) -> Iterator[tuple[int, int, tuple[Cause, ...]]]:
    """Return (start, stop, published) for stretches in which neither side changes."""
    sets = dict(timeline)
    edges = sorted({*sets, *incident.changes})
    published: tuple[Cause, ...] = ()
    for start, stop in pairwise([edge for edge in edges if edge <= incident.rounds]):
        published = sets.get(start, published)
        yield start, stop, published


def score(incident: Incident, timeline: Timeline, method: str, seconds: float = 0.0) -> Score:
    """Score the published sets of a method against the planted causes."""
    judge, net, best = Judge(incident), 0.0, 0.0
    hits = named = active_rounds = 0
    first: float | None = None
    for start, stop, published in pieces(incident, timeline):
        active, length = incident.active(start), stop - start
        right = judge.hits(published, active)
        hits, named = hits + right * length, named + len(published) * length
        active_rounds += len(active) * length
        net += _gain(incident, published, start, stop)
        best += _gain(incident, active, start, stop)
        if right and first is None:
            first = start
    begun = min((p.first for p in incident.planted), default=nan)
    sets = [causes for _, causes in timeline]
    last, at_end = sets[-1], incident.active(incident.rounds)
    released = {cause for causes in sets for cause in causes}
    left = Counter(cause for old, new in pairwise(sets) for cause in {*old} - {*new})
    return Score(
        kind=incident.kind,
        seed=incident.seed,
        method=method,
        f1=f1_of(judge.hits(last, at_end), len(last), len(at_end)),
        over_time=f1_of(hits, named, active_rounds),
        false=sum(judge.name(cause) is None for cause in released),
        changes=sum({*old} != {*new} for old, new in pairwise([(), *sets])),
        drops=max(left.values(), default=0),
        net=net,
        gain=_clipped(net / max(best, 100.0)),
        regret=best - net,
        first=(incident.rounds if first is None else first) - begun,
        found=judge.hits(list(released), [p.cause for p in incident.planted])
        == len({p.cause for p in incident.planted}),
        seconds=seconds,
    )


def _clipped(share: float) -> float:
    return min(MOST_GAIN, max(-MOST_GAIN, share))


def _gain(incident: Incident, causes: Sequence[Cause], start: int, stop: int) -> float:
    alarms = np.zeros(stop - start, dtype=bool)
    for cause in causes:
        alarms |= incident.mask(cause, start, stop)
    return float(incident.weights[start:stop][alarms].sum())


# Runs.


class Task(NamedTuple):
    """One stream and the methods to run on it."""

    kind: str
    seed: int
    methods: tuple[str, ...]
    width: int | None = None
    epsilon: float = EPSILON


def attempt(task: Task) -> list[Score]:
    """Make a stream and score each method on it."""
    warnings.filterwarnings("ignore", message="delta = .* is above")
    incident = MAKERS[task.kind](task.seed)
    scores = {}
    for name in task.methods:
        begun = perf_counter()
        timeline = METHODS[name](incident, task.width or incident.width, task.epsilon)
        scores[name] = score(incident, timeline, name, perf_counter() - begun)
    greedy = scores["ceiling"].net if "ceiling" in scores else 0.0
    if greedy > 0:
        shares = {name: _clipped(each.net / greedy) for name, each in scores.items()}
        return [each._replace(of_greedy=shares[name]) for name, each in scores.items()]
    return list(scores.values())


def attempts(tasks: Sequence[Task], jobs: int = JOBS) -> list[Score]:
    """Run all tasks, some at a time, and print progress to stderr; scores are in their order."""
    found: list[Score] = []
    begun = perf_counter()
    with get_context("spawn").Pool(jobs) as pool:
        for number, scores in enumerate(pool.imap(attempt, tasks), 1):
            found += scores
            spent = perf_counter() - begun
            what = f"{tasks[number - 1].kind} {tasks[number - 1].seed}"
            print(f"\r{number}/{len(tasks)} {spent:,.0f} s {what:24}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return found


# Tables.


def interval(values: Iterable[float]) -> tuple[float, float, float]:
    """Return mean and 95 % bootstrap interval of the mean, of those that are numbers."""
    array = np.array([value for value in values if not isnan(value)], dtype=float)
    if not len(array):
        return nan, nan, nan
    drawn = np.random.default_rng(1).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.quantile(array[drawn].mean(axis=1), [0.025, 0.975])
    return float(array.mean()), float(low), float(high)


def _number(value: float, digits: str) -> str:
    return "" if isnan(value) else f"{value:{digits}}"


def _mean(name: str, digits: str = ".2f") -> Callable[[Sequence[Score]], str]:
    def cell(scores: Sequence[Score]) -> str:
        return _with_interval([getattr(each, name) for each in scores], digits)

    return cell


def _with_interval(values: Iterable[float], digits: str) -> str:
    mean, low, high = interval(values)
    return _number(mean, digits) and f"{mean:{digits}} [{low:{digits}}, {high:{digits}}]"


def _median_and_worst(scores: Sequence[Score]) -> str:
    regrets = [each.regret for each in scores]
    return f"{np.median(regrets):,.0f} ({max(regrets):,.0f})"


Cells: TypeAlias = dict[str, Callable[[Sequence[Score]], str]]
PUBLISHED: Cells = {
    "F1": _mean("f1", ".3f"),
    "over time": _mean("over_time", ".3f"),
    "false": _mean("false"),
    "none false": lambda scores: f"{sum(each.false == 0 for each in scores)}",
    "silent": lambda scores: f"{sum(each.changes == 0 for each in scores)}",
    "changes": _mean("changes", ".1f"),
    "flapping": lambda scores: f"{sum(each.drops > 2 for each in scores)}",
}
IN_FORCE: Cells = {
    "gain": _mean("gain"),
    "of greedy": _mean("of_greedy"),
    "regret: median (worst)": _median_and_worst,
    "first": lambda scores: _number(np.median([each.first for each in scores]), ",.0f"),
    "all found": lambda scores: f"{sum(each.found for each in scores)}",
    "s": lambda scores: f"{np.mean([each.seconds for each in scores]):.2f}",
}
Groups: TypeAlias = dict[tuple[str, str], list[Score]]


def grouped(scores: Iterable[Score]) -> Groups:
    """Return the scores of each kind and method, then of each family whose kinds were all run."""
    groups: Groups = {}
    for each in scores:
        groups.setdefault((each.kind, each.method), []).append(each)
    for family, kinds in FAMILIES.items():
        for method in METHODS:
            if all((kind, method) in groups for kind in kinds):
                groups[f"all {family}", method] = [
                    s for kind in kinds for s in groups[kind, method]
                ]
    return groups


def _table(title: str, cells: Cells, groups: Groups) -> Table:
    table = Table("stream", "n", "method", title=title)
    for name in cells:
        table.add_column(name, justify="right")
    for (kind, method), scores in groups.items():
        row = [cell(scores) for cell in cells.values()]
        table.add_row(kind, str(len(scores)), method, *row)
    return table


# Aims.


class Aim(NamedTuple):
    """What a figure must reach on every one of some kinds; `most` if it may not be exceeded."""

    text: str
    kinds: Sequence[str]
    figure: Callable[[Sequence[Score]], float]
    bound: float
    most: bool = False
    method: str = "causes"


def _average(name: str) -> Callable[[Sequence[Score]], float]:
    return lambda scores: interval([getattr(each, name) for each in scores])[0]


def _silent(scores: Sequence[Score]) -> float:
    return float(np.mean([each.changes == 0 for each in scores]))


def _median_regret(scores: Sequence[Score]) -> float:
    return float(np.median([each.regret for each in scores]))


def _most_drops(scores: Sequence[Score]) -> float:
    return max(each.drops for each in scores)


WITH_CAUSE = (
    *FAMILIES["bench"],
    *FAMILIES["incidents"],
    *(kind for kind in MOVING if kind not in WITHOUT_CAUSE),
)
STATIONARY = ("one", "pair", "triple", "two", "nested", "unfiltered", "high", "null", "tempt")
AIMS = (
    # F1: .04 below the prototype's figure.
    Aim("F1, large share", ["big"], _average("f1"), 0.775),
    Aim("F1, hard", ["hard"], _average("f1"), 0.672),
    Aim("F1, tempting children", ["shift"], _average("f1"), 0.753),
    Aim("F1, bench", ["all bench"], _average("f1"), 0.883),
    Aim("F1, drift, storm, high base, null", ["all moving"], _average("f1"), 0.932),
    Aim("false causes, the same", list(MOVING), _average("false"), 0.05, most=True),
    Aim("silent, storms without a cause", ["storm0"], _silent, 1.0),
    Aim("silent, permuted labels", list(PERMUTED), _silent, 0.99),
    Aim("false causes, sorted by label", ["sorted"], _average("false"), 0.0, most=True),
    Aim("gain in force", WITH_CAUSE, _average("gain"), 0.0),
    Aim("gain of greedy's, ramp", ["ramp"], _average("of_greedy"), 0.7),
    Aim("drops of one cause, stationary", (*STATIONARY, *HARD), _most_drops, 2, most=True),
    Aim("regret", ["p.3 q.01"], _median_regret, 55, True),
    Aim("regret", ["p.3 q.01"], _median_regret, 45, True, "causes-declared"),
    Aim("regret", ["p.3 q.01"], _median_regret, 90, True, "causes-auto"),
    Aim("regret", ["p1 q0"], _median_regret, 62, True),
    Aim("regret", ["changing"], _median_regret, 2506, True),
)


def _aims(groups: Groups) -> Table:
    """Compare the worst kind of each aim, of those that were run, with its bound."""
    table = Table("aim", "method", "worst", title="What version 0.3 must show")
    for name in ("figure", "bound", "ok"):
        table.add_column(name, justify="right")
    for aim in AIMS:
        sign = 1 if aim.most else -1
        kinds = [kind for kind in aim.kinds if (kind, aim.method) in groups]
        figures = {kind: aim.figure(groups[kind, aim.method]) for kind in kinds}
        if figures:
            worst = max(figures, key=lambda kind: sign * figures[kind])
            ok = "yes" if sign * figures[worst] <= sign * aim.bound else "NO"
            cells = f"{figures[worst]:.3f}", f"{'<=' if aim.most else '>='} {aim.bound:g}", ok
            table.add_row(aim.text, aim.method, worst, *cells)
    return table


# What the documents quote.

LINES = {
    "all bench": "nine kinds of incidents that stand still",
    "hard": "hard: values have rates of their own, 1 to 3 causes",
    "big": "big: a cause has much of the traffic",
    "shift": "shift: causes add up in the odds, and their children look better",
    "traffic": "traffic: big and shift together",
    "tempt": "tempt: wide causes beside their children",
    "campaign": "campaign: the base rate drifts with the mix of rows",
    "ramp": "ramp: the base rate rises from 3 to 45 %",
    "ramp2": "the same, causes are pairs of columns",
    "fall": "the base rate falls",
    "jump": "the base rate jumps",
    "storm": "storms, with a cause",
    "storm0": "storms, without a cause",
    "high": "base rates of 30 to 80 %",
    "day": "the base rate moves by day",
    "null": "no cause",
    "nullramp": "no cause, and a ramp",
    "all permuted": "permuted labels, base rates from 1 to 90 %",
    "sorted": "sorted by the label",
}
FIXED_LINES = {
    "p.3 q.01": "p .3, q .01, share 5 %, min_rate .09",
    "p.7 q.05": "p .7, q .05, 0/1 loss",
    "p.6 q.05": "p .6, q .05, 0/1 loss, share 2.5 %",
    "p.7 q.1": "p .7, q .1, 0/1 loss",
    "p1 q0": "p 1, q 0, 0/1 loss",
    "p1 q0 column": "the same, one column",
    "common pair": "a pair of common values, width 2, p .3, share 2 %",
    "3 causes": "three causes of 3 % each, p .3",
    "10 columns": "10 columns, width 2",
    "share .3%": "share .3 %, a million rounds",
    "appears": "the culprit appears at round 120,000",
    "changing": "a new culprit every 20,000 rounds, p .9",
    "no cause": "no cause",
    "storms": "no cause, the base rate moves by day",
    "storms p.5": "p .5 while the base rate moves by day",
}


def publish_lines(groups: Groups) -> None:
    """Publish F1, false causes and gain of each kind of stream, and the sentences on them."""
    table = Table("kind of stream")
    for name in ("streams", "F1", "false", "gain"):
        table.add_column(name, justify="right")
    for kind, line in LINES.items():
        if scores := groups.get((kind, "causes")):
            f1, low, high = interval([each.f1 for each in scores])
            means = [f"{_average(name)(scores):.2f}" for name in ("false", "gain")]
            spread = max(high - f1, f1 - low)
            table.add_row(line, f"{len(scores):,}", f"{f1:.2f} ± {spread:.2f}", *means)
    publish("causes", table)
    if not all((kind, "causes") in groups for kind in LINES):
        return
    still, null = groups["all bench", "causes"], groups["null", "causes"]
    publish_text(
        "causes.readme",
        f"on {len(still):,} made-up streams with causes that stand still the F1 score of the "
        f"published causes was {_average('f1')(still):.2f}, with {_average('false')(still):.2f} "
        f"false causes per stream. {_speaking(null)} streams without a cause published one.",
    )
    publish_text(
        "causes.notes",
        f"- On ramps the learner gains {_average('of_greedy')(groups['ramp', 'causes']):.2f} of what "
        "a greedy search gains that has no privacy and is told the whole stream.\n"
        f"- {_speaking(groups['all permuted', 'causes'])} streams with permuted labels published "
        f"something, and {_speaking(groups['storm0', 'causes'])} storms without a cause.",
    )


def _speaking(scores: Sequence[Score]) -> str:
    """Say how many of the streams published anything."""
    return f"{sum(each.changes > 0 for each in scores)} of {len(scores):,}"


def publish_fixed(groups: Groups) -> None:
    """Publish the regret of each fixed stream: of the learner as it is told more, and GROUP BY."""
    table = Table("stream")
    for name in ("rate given", "nothing given", "values declared", "noisy GROUP BY"):
        table.add_column(name, justify="right")
    for kind, line in FIXED_LINES.items():
        given = "none" if FIXED[kind].min_rate is None else "causes"
        nothing = "causes" if given == "none" else "causes-auto"
        methods = (given, nothing, "causes-declared", "group-by")
        played = [groups.get((kind, method)) for method in methods]
        if any(played):
            table.add_row(line, *(_median_and_worst(scores) if scores else "" for scores in played))
    publish("causes_fixed", table)
    if not all((kind, "group-by") in groups for kind in FIXED_LINES):
        return
    late, new = (
        {name: _median_regret(groups[kind, name]) for name in ("causes", "causes-auto", "group-by")}
        for kind in ("appears", "changing")
    )
    publish_text("causes_fixed.ratio", f"{new['group-by'] / new['causes']:.1f}")
    publish_text(
        "causes_fixed.readme",
        f"if one cause appears late, its regret is {late['causes']:,.0f} missed positives, and that "
        f"of a `GROUP BY` on windows {late['group-by']:,.0f}. With a new cause every 20,000 events "
        f"it is {new['causes']:,.0f} against {new['group-by']:,.0f}, and {new['causes-auto']:,.0f} "
        "if only the `GROUP BY` is told that rate.",
    )
    told = {kind for kind in FIXED_LINES if FIXED[kind].min_rate is not None}
    with_rate = [s for kind in told for s in groups[kind, "causes"]]
    without = [
        s for kind in FIXED_LINES for s in groups[kind, "causes-auto" if kind in told else "causes"]
    ]
    publish_text(
        "causes_fixed.false",
        f"A false cause was published in {sum(s.false > 0 for s in with_rate)} of {len(with_rate)} "
        f"streams with `min_rate` given, and in {sum(s.false > 0 for s in without)} of "
        f"{len(without)} with nothing given.",
    )


# The command.


def parser() -> argparse.ArgumentParser:
    """Return the options of `python -m bench causes`."""
    made = argparse.ArgumentParser(prog="python -m bench causes")
    kinds = ", ".join([*FAMILIES, *MAKERS]).replace("%", "%%")
    made.add_argument("--kinds", default=",".join(USUAL), help=f"comma-separated: {kinds}")
    made.add_argument("--fixed", action="store_true", help="only the fixed streams")
    made.add_argument("--streams", type=int, default=STREAMS, help="streams of each kind")
    made.add_argument("--seed", type=int, default=SEED, help="seed of the first stream")
    made.add_argument("--epsilon", type=float, default=EPSILON)
    made.add_argument("--methods", default="", help=f"comma-separated: {', '.join(METHODS)}")
    made.add_argument("--width", type=int, help="width of all methods, instead of the stream's")
    made.add_argument("--jobs", type=int, default=JOBS, help="processes")
    return made


def _asked(options: argparse.Namespace) -> Iterator[Task]:
    names = ["fixed"] if options.fixed else options.kinds.split(",")
    kinds = [kind for name in names for kind in FAMILIES.get(name, (name,))]
    methods = tuple(options.methods.split(",")) if options.methods else ()
    unknown = (set(kinds) - set(MAKERS)) | (set(methods) - set(METHODS))
    if unknown:
        sys.exit(f"unknown kind or method: {', '.join(sorted(unknown))}")
    for kind in kinds:
        available = tuple(name for name in methods or usual_methods(kind) if _available(name))
        for seed in range(options.seed, options.seed + options.streams):
            yield Task(kind, seed, available, options.width, options.epsilon)


def run(arguments: Sequence[str] = ()) -> None:
    """Run the streams that are asked for and print the tables."""
    options = parser().parse_args(list(arguments))
    scores = attempts(list(_asked(options)), options.jobs)
    groups = grouped(scores)
    console = Console(highlight=False, emoji=False, width=160)
    title = f"epsilon {options.epsilon:g}, delta {DELTA:g}; 95 % bootstrap intervals"
    console.print(_table(f"What was published: {title}", PUBLISHED, groups))
    console.print(_table(f"The rule in force: {title}", IN_FORCE, groups))
    console.print(_aims(groups))
    (publish_fixed if options.fixed else publish_lines)(groups)


def run_fixed(arguments: Sequence[str] = ()) -> None:
    """Run the fixed streams, beside a noisy GROUP BY."""
    run(["--fixed", "--streams", str(FIXED_STREAMS), *arguments])


if __name__ == "__main__":
    # Without the other parts of the bench, for a venv that has the peers and not their packages.
    run(sys.argv[1:])
