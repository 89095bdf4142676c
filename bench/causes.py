"""Causes: the private causes learner beside a noisy GROUP BY, a ceiling and non-private peers.

    python -m bench causes [--seeds N] [--groups one,pair,...] [--heldout] [--learner-only]
                           [--methods group-by,ceiling,...] [--fixed] [--width W] [--processes P]

Incidents come from bench/incidents.py. By default 2 development seeds of every group, then 2 of the
fixed streams of DESIGN's table; `--heldout` takes seeds that nothing was tuned on.

What is scored. A published cause is *right* when its conditions are those of a planted cause, or
when it matches exactly the same rows of the stream.

- **F1**: 2 TP / (published + active) over causes. In groups whose causes end (`repaired`,
  `drift`, `changing`) it is the F1 over time: TP, published and active are summed over all rounds,
  so a cause that is found late, or kept after its end, costs in proportion. In the other groups it
  is the F1 of the last published set against the causes active in the last round. 0/0 counts as 1.
- **regret**: loss of the published sets less the loss of the planted causes, round by round, where
  a missed positive costs 1 and a false alarm c; in missed positives.
- **first**: rounds from the beginning of the first planted cause to the first release that names
  an active cause; the stream's end if there is none.
- **false**: causes released that were not planted, each distinct one once.
- **releases**: published sets after the first, empty one.

Intervals are 95 % bootstrap intervals of the mean over incidents; differences are paired by
incident. Noise of the learner is `SeededNoise`, which is not private: these are rehearsals.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.ceiling import run_ceiling
from bench.fixed_incidents import FIXED, MAKERS, make
from bench.group_by import Timeline, run_group_by
from bench.incidents import GROUPS, Cause, Incident, seeds
from bench.subgroup_peers import PEERS, run_peer

EPSILON, DELTA, BLOCK = 1.0, 1e-7, 65_536
SEEDS, RESAMPLES = 2, 2_000
# Groups whose causes end before the stream does: F1 is over time.
OVER_TIME = ("repaired", "drift", "changing")


class Score(NamedTuple):
    """What one method did on one incident."""

    group: str
    seed: int
    method: str
    solvable: bool
    f1: float
    final_f1: float
    regret: float
    first: float
    false: int
    releases: int
    seconds: float
    found: bool


# Learners.


def private_causes_exist() -> bool:
    """Tell whether this tree has the causes learner."""
    import littlestone as ls

    return hasattr(ls, "PrivateCauses") and hasattr(ls, "Causes")


def run_private_causes(
    incident: Incident,
    epsilon: float,
    delta: float,
    *,
    width: int,
    min_rate: float | None,
) -> Timeline:
    """Run the causes learner on an incident, in blocks; return its published sets."""
    import littlestone as ls
    from littlestone._privacy.testing import SeededNoise

    # The learner may not be built yet in this tree, so its names are looked up at run time.
    library: Any = ls
    options: dict[str, Any] = {"seed": incident.seed, "noise": SeededNoise(incident.seed)}
    learner = library.PrivateCauses(
        library.Causes(list(incident.codes), width=width),
        epsilon=epsilon,
        delta=delta,
        horizon=incident.rounds,
        min_rate="auto" if min_rate is None else min_rate,
        **options,
    )
    for start in range(0, incident.rounds, BLOCK):
        part = {name: column[start : start + BLOCK] for name, column in incident.columns.items()}
        learner.learn_many(part, incident.labels[start : start + BLOCK])
    return [(at - 1, read_causes(rule)) for at, rule in learner.releases]


def read_causes(rule: Any) -> tuple[Cause, ...]:
    """Return the causes of a published rule as sets of (column, value)."""
    from importlib import import_module

    causes_of = import_module("littlestone._hypotheses.causes").causes_of
    return tuple(
        frozenset((str(condition.column), str(condition.value)) for condition in cause.conditions)
        for cause in causes_of(rule)
    )


def run_dpsoa(incident: Incident) -> Timeline:
    """Run DPSOA on `Rules` of the columns: 0/1 loss, one condition, no tolerance."""
    from littlestone import DPSOA, Plan, Rules
    from littlestone._privacy.testing import SeededNoise

    rules = Rules(list(incident.codes))
    plan = Plan.practical(rules, EPSILON, DELTA, incident.rounds)
    learner = DPSOA(rules, plan=plan, seed=incident.seed, noise=SeededNoise(incident.seed))
    for start in range(0, incident.rounds, BLOCK):
        part = {name: column[start : start + BLOCK] for name, column in incident.columns.items()}
        learner.learn_many(part, incident.labels[start : start + BLOCK])
    timeline: Timeline = []
    for release in learner.releases:
        named = release.rule.mentions()
        causes = tuple(frozenset({(str(n), str(v))}) for n, of in named.items() for v in of)
        timeline.append((release.round - 1, causes))
    return timeline


Method: TypeAlias = Callable[[Incident, int], Timeline]


def _private(incident: Incident, width: int) -> Timeline:
    rate = incident.min_rate
    return run_private_causes(incident, EPSILON, DELTA, width=width, min_rate=rate)


def _group_by(incident: Incident, width: int) -> Timeline:
    rate = incident.min_rate
    return run_group_by(incident, EPSILON, DELTA, width=width, min_rate=rate)


METHODS: dict[str, Method] = {
    "causes": _private,
    "group-by": _group_by,
    "ceiling": lambda incident, width: run_ceiling(incident, width=width),
    "dpsoa": lambda incident, width: run_dpsoa(incident),
    "nothing": lambda incident, width: [(0, ())],
    **{name: partial(run_peer, name) for name in PEERS},
}
DEFAULT = ("causes", "group-by", "ceiling")


# Scores.


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
    judge, regret = Judge(incident), 0.0
    hits = named = active_rounds = 0
    first: float | None = None
    for start, stop, published in pieces(incident, timeline):
        active, length = incident.active(start), stop - start
        right = judge.hits(published, active)
        hits, named = hits + right * length, named + len(published) * length
        active_rounds += len(active) * length
        regret += _regret(incident, published, active, start, stop)
        if right and first is None:
            first = start
    begun = min((p.first for p in incident.planted), default=0)
    last = dict(timeline)[max(at for at, _ in timeline)]
    at_end = incident.active(incident.rounds)
    final = f1_of(judge.hits(last, at_end), len(last), len(at_end))
    over_time = f1_of(hits, named, active_rounds)
    released = {cause for _, causes in timeline for cause in causes}
    return Score(
        group=incident.group,
        seed=incident.seed,
        method=method,
        solvable=incident.solvable,
        f1=over_time if incident.group in OVER_TIME else final,
        final_f1=final,
        regret=regret,
        first=(incident.rounds if first is None else first) - begun,
        false=sum(judge.name(cause) is None for cause in released),
        releases=sum(1 for at, _ in timeline if at > 0),
        seconds=seconds,
        found=judge.hits(list(released), [p.cause for p in incident.planted])
        == len({p.cause for p in incident.planted}),
    )


def _regret(
    incident: Incident, published: Sequence[Cause], active: Sequence[Cause], start: int, stop: int
) -> float:
    labels = incident.labels[start:stop]
    return _loss(incident, published, start, stop, labels) - _loss(
        incident, active, start, stop, labels
    )


def _loss(incident: Incident, causes: Sequence[Cause], start: int, stop: int, labels: Any) -> float:
    alarms = np.zeros(stop - start, dtype=bool)
    for cause in causes:
        alarms |= incident.mask(cause, start, stop)
    return float((labels & ~alarms).sum() + incident.cost * (alarms & ~labels).sum())


# Runs.


class Task(NamedTuple):
    """One incident and the methods to run on it."""

    group: str
    seed: int
    methods: tuple[str, ...]
    width: int | None = None


def attempt(task: Task) -> list[Score]:
    """Make an incident and score each method on it."""
    warnings.filterwarnings("ignore", message="delta = .* is above")
    incident = make(task.group, task.seed)
    scores = []
    for name in task.methods:
        begun = perf_counter()
        timeline = METHODS[name](incident, task.width or incident.width)
        scores.append(score(incident, timeline, name, perf_counter() - begun))
    return scores


def attempts(tasks: Sequence[Task], processes: int = 2) -> list[Score]:
    """Run all tasks, two at a time, and print progress to stderr."""
    found: list[Score] = []
    begun = perf_counter()
    with get_context("spawn").Pool(min(processes, 2)) as pool:
        for number, scores in enumerate(pool.imap_unordered(attempt, tasks), 1):
            found += scores
            what = f"{scores[0].group} {scores[0].seed}" if scores else ""
            spent = perf_counter() - begun
            print(f"\r{number}/{len(tasks)} {spent:,.0f} s {what:24}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return found


# Tables.


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean and 95 % bootstrap interval of the mean."""
    array = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(1).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.quantile(array[drawn].mean(axis=1), [0.025, 0.975])
    return float(array.mean()), float(low), float(high)


def _with_interval(values: Sequence[float], digits: str = ".2f") -> str:
    mean, low, high = interval(values)
    return f"{mean:{digits}} [{low:{digits}}, {high:{digits}}]"


def _of(scores: Iterable[Score], method: str) -> list[Score]:
    return sorted((s for s in scores if s.method == method), key=lambda s: (s.group, s.seed))


def _kinds(groups: Sequence[str], scores: Sequence[Score]) -> Iterator[tuple[str, list[Score]]]:
    """Yield each group with its scores, then the solvable ones and all generated incidents."""
    for group in groups:
        mine = [s for s in scores if s.group == group]
        if mine:
            yield group + ("*" if group in OVER_TIME else ""), mine
    generated = [s for s in scores if s.group in GROUPS or s.group == "real"]
    if generated:
        yield "solvable", [s for s in generated if s.solvable]
        yield "not solvable", [s for s in generated if not s.solvable]
        yield "all with causes", generated


def print_tables(groups: Sequence[str], scores: Sequence[Score], methods: Sequence[str]) -> None:
    """Print the scores of each group and method, and paired differences to the GROUP BY."""
    console = Console(highlight=False, emoji=False, width=132)
    title = f"Causes found: epsilon {EPSILON:g}, delta {DELTA:g}; 95 % bootstrap intervals"
    table = Table("incidents", "n", "method", title=title)
    for name in ("F1", "regret: median (worst)", "first", "all found", "false", "releases", "s"):
        table.add_column(name, justify="right")
    for kind, mine in _kinds(groups, scores):
        for method in methods:
            some = _of(mine, method)
            if some:
                table.add_row(kind, str(len(some)), method, *_cells(some))
        table.add_section()
    console.print(table)
    print("* F1 over time")
    if "group-by" in methods and "causes" in methods:
        console.print(_differences(groups, scores))


def _cells(some: Sequence[Score]) -> list[str]:
    regrets = [s.regret for s in some]
    return [
        _with_interval([s.f1 for s in some]),
        f"{np.median(regrets):,.0f} ({max(regrets):,.0f})",
        f"{np.median([s.first for s in some]):,.0f}",
        f"{sum(s.found for s in some)}/{len(some)}",
        _with_interval([s.false for s in some], ".1f"),
        f"{np.mean([s.releases for s in some]):.1f}",
        f"{np.mean([s.seconds for s in some]):.1f}",
    ]


def _differences(groups: Sequence[str], scores: Sequence[Score]) -> Table:
    table = Table("incidents", title="causes learner less GROUP BY, paired by incident")
    for name in ("F1", "regret", "ratio of median regrets"):
        table.add_column(name, justify="right")
    for kind, mine in _kinds(groups, scores):
        ours, theirs = _of(mine, "causes"), _of(mine, "group-by")
        pairs = list(zip(ours, theirs, strict=True))
        if pairs:
            below = np.median([b.regret for b in theirs])
            ratio = np.median([a.regret for a in ours]) / below if below else float("nan")
            table.add_row(
                kind,
                _with_interval([a.f1 - b.f1 for a, b in pairs]),
                _with_interval([a.regret - b.regret for a, b in pairs], ",.0f"),
                f"{ratio:.2f}",
            )
    return table


# The command.


def parser() -> argparse.ArgumentParser:
    """Return the options of `python -m bench causes`."""
    made = argparse.ArgumentParser(prog="python -m bench causes")
    made.add_argument("--seeds", type=int, default=SEEDS, help="incidents of each group")
    made.add_argument("--groups", default="", help=f"comma-separated: {', '.join(MAKERS)}")
    made.add_argument("--fixed", action="store_true", help="only DESIGN's fixed streams")
    made.add_argument("--generated", action="store_true", help="only generated groups")
    made.add_argument("--heldout", action="store_true", help="seeds that nothing was tuned on")
    made.add_argument("--learner-only", action="store_true", help="only the causes learner")
    made.add_argument("--methods", default="", help=f"comma-separated: {', '.join(METHODS)}")
    made.add_argument("--width", type=int, help="width of all methods (3; fixed: the row's)")
    made.add_argument("--processes", type=int, default=2)
    return made


def _asked(options: argparse.Namespace) -> tuple[list[str], tuple[str, ...]]:
    groups = options.groups.split(",") if options.groups else list(MAKERS)
    if options.fixed:
        groups = [name for name in groups if name in FIXED]
    if options.generated:
        groups = [name for name in groups if name not in FIXED]
    methods = tuple(options.methods.split(",")) if options.methods else DEFAULT
    if options.learner_only:
        methods = ("causes",)
    unknown = (set(groups) - set(MAKERS)) | (set(methods) - set(METHODS))
    if unknown:
        sys.exit(f"unknown group or method: {', '.join(sorted(unknown))}")
    return groups, _available(methods)


def _available(methods: Iterable[str]) -> tuple[str, ...]:
    kept = []
    for name in methods:
        if name == "causes" and not private_causes_exist():
            print("skipped: the causes learner is not in this tree")
        elif name in PEERS and not PEERS[name].installed():
            print(f"skipped: {name} is not installed")
        else:
            kept.append(name)
    return tuple(kept)


def run(arguments: Sequence[str] = ()) -> None:
    """Run the incidents that are asked for and print the tables."""
    options = parser().parse_args(list(arguments))
    groups, methods = _asked(options)
    which = seeds(options.seeds, heldout=options.heldout)
    # The longest first, so that two processes end at about the same time.
    order = sorted(groups, key=lambda group: group not in ("long", "share .3%"))
    tasks = [Task(group, seed, methods, options.width) for group in order for seed in which]
    found = attempts(tasks, options.processes)
    print_tables(groups, found, methods)


if __name__ == "__main__":
    # Without the other parts of the bench, for a venv that has the peers and not their packages.
    run(sys.argv[1:])
