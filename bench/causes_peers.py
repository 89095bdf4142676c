"""Peers: who else finds causes, on the same streams and tables, with privacy and without.

    python -m bench causes_peers [--methods littlestone,OpenDP,...] [--streams N] [--seed S]
                                 [--tables phishing,...] [--runs N] [--epsilon E] [--jobs J]
    python -m bench causes_peers --tune [--methods ...] [--streams N]

A cell is F1 / gain. **Streams** are the generated incidents of `GROUPS`, the first of each kind from
a seed on that have at most `LONGEST` rows, scored as in bench/causes.py: F1 of the last answer, and
what the answers gained while they were in force. Only littlestone reads a stream as such. All others
have no notion of time: they run at the end of each public window (`WINDOWS`), on the rows of that
window (or on all so far, which no private one can afford), and what they answer stands until the end
of the next. **Tables** are real ones, all rows at once, width 1. What causes them nobody knows, so
F1 compares with the greedy search without privacy that is told everything, and gain is a share of
its gain (bench/tables.py).

Without privacy, each at its setting in `SETTINGS`:

- **DuckDB**: GROUPING SETS over all patterns, the one of the highest gain, again without its rows.
- **divexplorer**: patterns of a least support by divergence or by t, pruned of redundant ones.
- **sliceline**: `Slicefinder`, k 100, `max_l` the width, a least support of 1 % of the rows.
- **pysubgroup**: depth-first search for the 100 best by weighted relative accuracy (its README's
  measure, a = 1); values of a least share of 1 %.

All of them walk their own ranking and keep a pattern if, on rows that none kept before matches, it
gains more than `margin` standard deviations at twice the odds of the window; 8 at most.

With privacy, at the same epsilon and delta, and for the same neighbours (one row replaced):

- **OpenDP**: one `make_gaussian_threshold` for a window (unknown keys), over the counts of every
  pattern with every label, calibrated by OpenDP's own privacy map. Given to it, by the proof of
  bench/group_by.py: a replaced row moves at most 2P of the counts by 1, and windows are disjoint.
- **PipelineDP**: `DPEngine.aggregate` of the same keys, each counted once a row, with post-aggregation
  thresholding and Gaussian noise.

Negatives are counted only where positives passed, in a second call: the law of what is used is that
of one call, and a real use would make one call, which takes OpenDP about ten times as long. What they
release is turned into causes by `bench.group_by.Choice`; on a table they peel, as often as
`bench.group_by.peels_for` says. Their noise is their own, so a second run differs a little; that of
littlestone is `SeededNoise`, which is not private: a rehearsal.

`--tune` chose the settings on the first streams from seed 0 on of `DEVELOPMENT`, by the mean of F1 and
gain: first the windows, then the peer's own numbers of `TRIED`, then a margin of `MARGINS`. OpenDP and
DuckDB had three streams of each of the six kinds, divexplorer, sliceline and pysubgroup one, which is
few: margins of 2 and 3 are nearly the same to them. Ranking by t instead of divergence is what helped
divexplorer most. PipelineDP has the setting of OpenDP. The defaults of the packages were left where
`TRIED` has no others; smaller least supports took too long. The table is of seeds from 20,000 on.

divexplorer has no longest pattern, so tables of many columns take it minutes: the two have 9. A peer
that is not installed is said to be so; the extra `bench` has them all.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice, pairwise, product
from math import prod, sqrt
from statistics import mean
from time import process_time
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from rich.table import Table

from bench.causes import DELTA, MAKERS, MOST_GAIN, run_private_causes, score
from bench.ceiling import run_ceiling
from bench.group_by import (
    LIMIT,
    Choice,
    Config,
    Counts,
    Ints,
    Key,
    Timeline,
    gaussian_sigma,
    keys_of,
    peels_for,
    spelt,
    split_key,
    subsets,
)
from bench.incidents import Cause, Incident, Mask, Planted, matches
from bench.moving_incidents import WITHOUT_CAUSE
from bench.output import publish, publish_text
from bench.tables import LEAST_GAIN, learn_causes, make_real_table, played, twice_the_odds

EPSILON, SEED, STREAMS, RUNS, JOBS = 1.0, 20_000, 4, 5, 2
LONGEST, RANKED = 80_000, 100
GROUPS = {
    "stand still": ("one", "pair", "two", "nested"),
    "move": ("late", "repaired", "ramp", "fall", "jump", "storm", "campaign"),
    "hard": ("hard", "big", "shift", "tempt"),
    "no cause": ("null", "storm0"),
}
TABLES = ("phishing", "shuttle")


class Setting(NamedTuple):
    """What a peer is told: its windows, the margin of a cause, and two numbers of its own."""

    windows: str = "tenths"
    margin: float = 3.0
    first: float = 0.0
    second: float = 0.0


Ends: TypeAlias = list[tuple[int, int]]


def _doubling(rounds: int) -> list[int]:
    return [0, *(rounds >> shift for shift in reversed(range(6)))]


WINDOWS: dict[str, Callable[[int], Ends]] = {
    "tenths": lambda rounds: list(pairwise(np.linspace(0, rounds, 11).astype(int).tolist())),
    "doubling": lambda rounds: list(pairwise(_doubling(rounds))),
    "all so far": lambda rounds: [(0, stop) for stop in _doubling(rounds)[1:]],
}


# Without privacy: a function ranks the patterns of a window, best first.


def _codes(incident: Incident, start: int, stop: int) -> pd.DataFrame:
    return pd.DataFrame({name: codes[start:stop] for name, codes in incident.codes.items()})


def _duckdb(incident: Incident, start: int, stop: int, setting: Setting) -> Iterator[Key]:
    """Yield the pattern of the highest gain, then that of the rows without it, and so on."""
    import duckdb

    labels, names = incident.labels[start:stop], list(incident.codes)
    rate = twice_the_odds(labels)
    weights = np.where(labels, 1.0, -rate / (1 - rate))
    events = _codes(incident, start, stop).assign(_weight=weights)
    columns = ", ".join(f'"{name}"' for name in names)
    sets = ", ".join(
        "(" + ", ".join(f'"{name}"' for name in some) + ")"
        for some in subsets(incident, incident.width)
    )
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set enable_progress_bar = false")
        connection.from_df(events).create("events")
        while True:
            row = connection.execute(
                f"select {columns} from events group by grouping sets ({sets}) having"
                f" sum(_weight) > {setting.margin} * sqrt(sum(_weight * _weight))"
                f" order by sum(_weight) desc, grouping_id({columns}) desc limit 1"
            ).fetchone()
            if row is None:
                return
            pairs = [
                (name, code) for name, code in zip(names, row, strict=True) if code is not None
            ]
            yield frozenset(pairs)
            equal = " and ".join(f'"{name}" = {code}' for name, code in pairs)
            connection.execute(f"delete from events where {equal}")


def _divexplorer(incident: Incident, start: int, stop: int, setting: Setting) -> Iterator[Key]:
    """First: the least support. Second: what a redundant pattern may differ by; below 0 rank by t."""
    from divexplorer import DivergenceExplorer, DivergencePatternProcessor

    frame = _codes(incident, start, stop).assign(_label=incident.labels[start:stop].astype(int))
    patterns = DivergenceExplorer(frame).get_pattern_divergence(
        min_support=setting.first, boolean_outcomes=["_label"], attributes=list(incident.codes)
    )
    patterns = patterns[patterns["length"] <= incident.width]
    ranked = DivergencePatternProcessor(patterns, "_label").get_patterns(
        th_redundancy=abs(setting.second)
    )
    ranked = ranked[(ranked["_label_div"] > 0) & (ranked["length"] > 0)]
    if setting.second < 0:
        ranked = ranked.sort_values("_label_t", ascending=False, kind="stable")
    for itemset in ranked["itemset"]:
        pairs = (item.rpartition("=") for item in itemset)
        yield frozenset((name, int(code)) for name, _, code in pairs)


def _sliceline(incident: Incident, start: int, stop: int, setting: Setting) -> Iterator[Key]:
    """First: alpha. Second: the least support."""
    from sliceline.slicefinder import Slicefinder

    support = max(32, int(setting.second * (stop - start)))
    finder = Slicefinder(setting.first, RANKED, incident.width, support, verbose=False)
    frame, labels = _codes(incident, start, stop), incident.labels[start:stop]
    if not labels.any():
        return
    finder.fit(frame.to_numpy(), labels.astype(float))
    for codes in finder.top_slices_:
        pairs = zip(incident.codes, codes, strict=True)
        yield frozenset((name, int(code)) for name, code in pairs if code is not None)


def _pysubgroup(incident: Incident, start: int, stop: int, setting: Setting) -> Iterator[Key]:
    """First: the exponent of the size. Second: the least share of a value."""
    import pysubgroup as ps

    frame = _codes(incident, start, stop).assign(_label=incident.labels[start:stop])
    space = [
        ps.EqualitySelector(name, code)
        for name in incident.codes
        for code, size in frame[name].value_counts().items()
        if size >= setting.second * len(frame)
    ]
    task = ps.SubgroupDiscoveryTask(
        frame,
        ps.BinaryTarget("_label", True),
        space,
        result_set_size=RANKED,
        depth=incident.width,
        qf=ps.StandardQF(setting.first),
    )
    for _, subgroup in ps.DFS(ps.BitSetRepresentation).execute(task).to_descriptions():
        if subgroup.selectors:
            yield frozenset((s.attribute_name, int(s.attribute_value)) for s in subgroup.selectors)


def keep(
    incident: Incident, start: int, stop: int, ranked: Iterable[Key], margin: float
) -> list[Key]:
    """Keep, in their order, patterns that gain by rows which none kept before matches."""
    labels = incident.labels[start:stop]
    rate = twice_the_odds(labels)
    weights = np.where(labels, 1.0, -rate / (1 - rate))
    left, kept = np.ones(stop - start, dtype=bool), list[Key]()
    for key in ranked:
        inside = left & matches(incident.codes, key, start, stop)
        own = weights[inside]
        if own.sum() > margin * sqrt(np.square(own).sum()):
            kept.append(key)
            left &= ~inside
            if len(kept) == LIMIT:
                break
    return kept


# With privacy: a function releases the counts of a window.


class Released(NamedTuple):
    """Noisy counts by number of pattern and label, and what they had to exceed."""

    counts: dict[int, float]
    deviation: float
    threshold: float


class Numbered:
    """Number every pattern with every label; a number is a name, and no choice depends on it."""

    def __init__(self, incident: Incident) -> None:
        self.incident = incident
        self.sets = [(), *subsets(incident, incident.width)]
        sizes = [2 * prod(len(incident.values[name]) for name in names) for names in self.sets]
        self.offsets = np.cumsum([0, *sizes])

    def rows(self, start: int, stop: int, left: Mask) -> Iterator[Ints]:
        """Return for each set of columns the number of every row that is left."""
        places = np.flatnonzero(left)
        labels = self.incident.labels[start:stop][places]
        for names, offset in zip(self.sets, self.offsets, strict=False):
            keys = keys_of(self.incident, names, start, stop, places)
            yield offset + 2 * keys + labels

    def pattern(self, number: int) -> tuple[Key, bool]:
        """Return the pattern and the label of a number."""
        place = int(np.searchsorted(self.offsets, number, side="right")) - 1
        key, label = divmod(number - int(self.offsets[place]), 2)
        return split_key(self.incident, self.sets[place], key), bool(label)


@cache
def _opendp_measurement(moved: int, epsilon: float, delta: float) -> tuple[Any, float, float]:
    """Return what releases counts of which a replaced row moves so many by 1; sigma, threshold."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (
        dp.map_domain(dp.atom_domain(T=dp.i64), dp.atom_domain(T=dp.i64)),
        dp.l02inf_distance(dp.absolute_distance(T=dp.f64)),
    )
    d_in = (moved, sqrt(moved), 1.0)

    def noisy(scale: float, threshold: float) -> Any:
        return dp.m.make_gaussian_threshold(*space, scale=scale, threshold=threshold)

    def private(scale: float, threshold: float, spent: float) -> Any:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(noisy(scale, threshold)), spent)

    # Half of delta is for the noise, the rest for keys of one row.
    scale = dp.binary_search_param(
        lambda scale: private(scale, 10**9, delta / 2),
        d_in,
        (epsilon, delta / 2),
        bounds=(sqrt(moved / (8 + 8 * epsilon)), 100 * sqrt(moved) / epsilon),
    )
    rho, _ = noisy(scale, 10**9).map(d_in)
    threshold = dp.binary_search_param(
        lambda threshold: noisy(scale, threshold), d_in, (rho, delta / 2), bounds=(1, 10**8)
    )
    measurement = private(scale, threshold, delta)
    assert measurement.check(d_in, (epsilon, delta)), "more is spent than asked for"
    return measurement, scale, threshold


def _opendp(rows: Iterable[Ints], moved: int, epsilon: float) -> Released:
    measurement, scale, threshold = _opendp_measurement(moved, epsilon, DELTA)
    tallies = [np.unique(numbers, return_counts=True) for numbers in rows]
    pairs = chain.from_iterable(zip(k.tolist(), c.tolist(), strict=True) for k, c in tallies)
    return Released(measurement(dict(pairs)), scale, threshold)


def _pipeline_dp(rows: Iterable[Ints], moved: int, epsilon: float) -> Released:
    import pipeline_dp as pdp

    accountant = pdp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=DELTA)
    params = pdp.AggregateParams(
        metrics=[pdp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pdp.NoiseKind.GAUSSIAN,
        # A row lists half as many: what a replaced one moves is what such a unit could.
        max_partitions_contributed=moved,
        max_contributions_per_partition=1,
        partition_selection_strategy=pdp.PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING,
        post_aggregation_thresholding=True,
    )
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda pair: pair[0],
        partition_extractor=lambda pair: pair[1],
        value_extractor=lambda pair: 0,
    )
    pairs = [pair for numbers in rows for pair in enumerate(numbers.tolist())]
    result = pdp.DPEngine(accountant, pdp.LocalBackend()).aggregate(pairs, params, extractors)
    accountant.compute_budgets()
    counts = {number: metrics.privacy_id_count for number, metrics in result}
    # It does not say what its noise and threshold are; these decide nothing about privacy.
    sigma = gaussian_sigma(sqrt(moved), epsilon, DELTA / 2)
    return Released(counts, sigma, min(counts.values(), default=0.0))


def choose(
    numbered: Numbered, released: Released, published: list[Key], rows: int, setting: Setting
) -> list[Key]:
    """Choose causes from released counts alone; one that is not there is half the threshold."""
    counts: dict[Key, dict[bool, float]] = {}
    for number, noisy in released.counts.items():
        key, label = numbered.pattern(number)
        counts.setdefault(key, {})[label] = noisy
    unseen = released.threshold / 2
    of_all = counts.pop(frozenset(), {})
    positives, negatives = of_all.get(True, unseen), of_all.get(False, unseen)
    cost = min(max(2 * positives / max(negatives, 1.0), 0.02 / 0.98), 49.0)
    pairs = {
        key: Counts(of[True], of.get(False, unseen)) for key, of in counts.items() if True in of
    }
    # In the order of their text: codes and numbers follow the order in which values appear.
    texts = {key: sorted(*spelt(numbered.incident, [key])) for key in pairs}
    pairs = {key: pairs[key] for key in sorted(pairs, key=texts.__getitem__)}
    config = Config(margin=setting.margin, keep=setting.first)
    choice = Choice(cost, released.deviation, released.threshold, numbered.incident.width, config)
    return choice.choose(pairs, published, rows)


# Methods: what they answer on a stream, and on a table.


class Peer(NamedTuple):
    """A package, and its rank or its release."""

    package: str
    rank: Callable[[Incident, int, int, Setting], Iterable[Key]] | None = None
    release: Callable[[Iterable[Ints], int, float], Released] | None = None

    def answer(
        self, incident: Incident, start: int, stop: int, public: list[Key], setting: Setting,
        epsilon: float, peels: int = 1,
    ) -> list[Key]:  # fmt: skip
        """Return the causes of a window; peel so often, with a part of the budget each."""
        if self.rank is not None:
            ranked = self.rank(incident, start, stop, setting)
            return keep(incident, start, stop, ranked, setting.margin)
        assert self.release is not None
        numbered, chosen = Numbered(incident), list[Key]()
        left = np.ones(stop - start, dtype=bool)
        moved = 2 * len(numbered.sets) * peels
        for peel in reversed(range(peels)):
            released = self._released(numbered, start, stop, left, moved, epsilon)
            found = choose(numbered, released, public, int(left.sum()), setting)
            chosen += found[: 1 if peel else LIMIT - len(chosen)]
            if not found:
                break
            left &= ~matches(incident.codes, found[0], start, stop)
        return chosen

    def _released(
        self, numbered: Numbered, start: int, stop: int, left: Mask, moved: int, epsilon: float
    ) -> Released:
        """Release positives, then the negatives of those that passed: no others would be looked at.

        Noise is drawn for each count alone, so the law is that of one release of all counts.
        """
        assert self.release is not None
        labels = numbered.incident.labels[start:stop]
        positive = self.release(numbered.rows(start, stop, left & labels), moved, epsilon)
        # An odd number is a pattern with positive rows, the even one before it with negative rows.
        wanted = np.array([0, *(number - 1 for number in positive.counts)])
        negatives = (
            numbers[np.isin(numbers, wanted)]
            for numbers in numbered.rows(start, stop, left & ~labels)
        )
        counts = positive.counts | self.release(negatives, moved, epsilon).counts
        return positive._replace(counts=counts)


PEERS = {
    "DuckDB": Peer("duckdb", _duckdb),
    "divexplorer": Peer("divexplorer", _divexplorer),
    "sliceline": Peer("sliceline", _sliceline),
    "pysubgroup": Peer("pysubgroup", _pysubgroup),
    "OpenDP": Peer("opendp", release=_opendp),
    "PipelineDP": Peer("pipeline_dp", release=_pipeline_dp),
}
OURS, GREEDY = "littlestone", "greedy, told all"
METHODS = (OURS, *reversed(PEERS), GREEDY)
SETTINGS = {
    "DuckDB": Setting("all so far"),
    "divexplorer": Setting("all so far", first=0.01, second=-0.01),
    "sliceline": Setting("all so far", margin=2.0, first=0.9, second=0.01),
    "pysubgroup": Setting("all so far", margin=2.0, first=1.0, second=0.01),
    "OpenDP": Setting("doubling"),
    "PipelineDP": Setting("doubling"),
}


def answers(
    name: str, incident: Incident, setting: Setting | None = None, epsilon: float = EPSILON
) -> Timeline:
    """Return what a method says of a stream, and from which round on."""
    if name == OURS:
        return run_private_causes(incident, incident.width, epsilon)
    if name == GREEDY:
        return run_ceiling(incident, width=incident.width)
    setting, timeline, keys = setting or SETTINGS[name], [(0, tuple[Cause, ...]())], list[Key]()
    for start, stop in WINDOWS[setting.windows](incident.rounds):
        keys = PEERS[name].answer(incident, start, stop, keys, setting, epsilon)
        timeline.append((stop, spelt(incident, keys)))
    return timeline


def answer_once(
    name: str, table: Incident, run: int, setting: Setting | None = None, epsilon: float = EPSILON
) -> tuple[Cause, ...]:
    """Return what a method says of a finished table."""
    if name == OURS:
        return tuple(learn_causes(table, epsilon, run))
    if name == GREEDY:
        return tuple(p.cause for p in table.planted)
    peer = PEERS[name]
    peels = 1 if peer.release is None else peels_for(table.rounds)
    keys = peer.answer(table, 0, table.rounds, [], setting or SETTINGS[name], epsilon, peels)
    return spelt(table, keys)


def with_greedy(table: Incident) -> Incident:
    """Return a table whose planted causes are those of the greedy search that is told everything."""
    ((_, causes),) = run_ceiling(table, width=table.width, margin=0)
    return replace(table, planted=tuple(Planted(cause, 0, table.rounds) for cause in causes))


def score_once(table: Incident, causes: tuple[Cause, ...]) -> tuple[float, float]:
    """Return F1 and the share of the gain of a table's planted causes."""
    scored = score(table, [(0, causes)], "")
    return scored.f1, max(scored.net / max(scored.net + scored.regret, LEAST_GAIN), -MOST_GAIN)


# Runs.


class Task(NamedTuple):
    """One stream of a kind, or one table, and the methods to play on it, each at its setting."""

    kind: str
    seed: int
    number: int
    methods: tuple[tuple[str, Setting | None], ...]
    epsilon: float = EPSILON


class Score(NamedTuple):
    """F1, gain, false causes and processor time."""

    f1: float
    gain: float
    false: int
    seconds: float


def make_short(kind: str, seed: int, number: int) -> Incident:
    """Return the stream of this number, from 0 on, of those that are short enough from a seed on."""
    streams = (MAKERS[kind](each) for each in range(seed, seed + 1_000))
    return next(islice((s for s in streams if s.rounds <= LONGEST), number, None))


def attempt(task: Task) -> list[Score]:
    """Play the methods of a task."""
    warnings.filterwarnings("ignore")
    if task.kind not in MAKERS:
        table, scores = with_greedy(make_real_table(task.kind)), list[Score]()
        for name, setting in task.methods:
            begun = process_time()
            causes = answer_once(name, table, task.seed + task.number, setting, task.epsilon)
            scores.append(Score(*score_once(table, causes), 0, process_time() - begun))
        return scores
    stream, scores = make_short(task.kind, task.seed, task.number), list[Score]()
    for name, setting in task.methods:
        begun = process_time()
        timeline = answers(name, stream, setting, task.epsilon)
        spent = process_time() - begun
        scored = score(stream, timeline, name)
        scores.append(Score(scored.f1, scored.gain, scored.false, spent))
    return scores


def _cell(scores: Sequence[Score], spread: bool) -> str:
    """Return the mean of F1, with half of its 95 % interval if asked for, and that of the gain."""
    f1 = np.array([s.f1 for s in scores])
    half = f" ± {1.96 * f1.std() / sqrt(len(f1)):.2f}" if spread else ""
    return f"{f1.mean():.2f}{half} / {mean(s.gain for s in scores):.2f}"


def _compare(options: argparse.Namespace, methods: Sequence[str]) -> None:
    """Play all methods on all streams and tables, and publish one table."""
    tables = options.tables.split(",")
    installed = [m for m in methods if m not in PEERS or find_spec(PEERS[m].package)]
    group_of = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
    sizes = dict.fromkeys(group_of, options.streams) | dict.fromkeys(tables, options.runs)
    tasks = [
        Task(kind, options.seed, number, tuple((m, None) for m in installed), options.epsilon)
        for kind, size in sizes.items()
        for number in range(size)
    ]
    scores: dict[tuple[str, str], list[Score]] = {}
    for task, played_scores in zip(
        tasks, played(attempt, tasks, options.jobs, "peers"), strict=True
    ):
        for (method, _), each in zip(task.methods, played_scores, strict=True):
            scores.setdefault((method, group_of.get(task.kind, task.kind)), []).append(each)
    columns = [*(group for group in GROUPS if group != "no cause"), *tables]
    table = Table("method", "private", title=f"epsilon {options.epsilon:g}, delta {DELTA:g}")
    for name in (*columns, "false causes", "s"):
        table.add_column(name, justify="right")
    for method in methods:
        private = method == OURS or (method in PEERS and PEERS[method].release is not None)
        row = [method, "yes" if private else "no"]
        if method not in installed:
            table.add_row(*row, "not installed", *["" for _ in columns[1:]], "", "")
            continue
        streams = [each for group in GROUPS for each in scores[method, group]]
        row += [_cell(scores[method, name], name in GROUPS) for name in columns]
        table.add_row(
            *row, f"{mean(s.false for s in streams):.2f}", f"{mean(s.seconds for s in streams):.1f}"
        )
    publish("causes_peers", table)
    counts = ", ".join(f"{options.streams * len(of)} {name}" for name, of in GROUPS.items())
    publish_text(
        "causes_peers.caption",
        f"A cell is F1, with half of its 95 % interval, and gain. Streams: {counts}. False causes "
        "are per stream, those without a cause included. Seconds are processor time per stream. "
        f"Private methods spend epsilon {options.epsilon:g} and delta {DELTA:g} on each stream, and "
        f"play each table {options.runs} times.",
    )


# Settings, one of three after the other: windows, own numbers, margin.

TRIED: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "DuckDB": ((0.0,), (0.0,)),
    "divexplorer": ((0.01, 0.03), (0.01, -0.01)),
    "sliceline": ((0.9, 0.95, 0.99), (0.01,)),
    "pysubgroup": ((1.0, 0.5), (0.01,)),
    "OpenDP": ((0.0, 2.0), (0.0,)),
}
MARGINS = (2.0, 3.0, 5.0, 8.0)
DEVELOPMENT = ("pair", "late", "hard", "shift", "jump", "storm0")


def tune(name: str, options: argparse.Namespace) -> Setting:
    """Print the mean of F1 and gain of each setting on development seeds; return the best."""
    best, marks = SETTINGS[name], dict[Setting, float]()
    firsts, seconds = TRIED[name]
    private = PEERS[name].release is not None
    windows = [w for w in WINDOWS if not private or w != "all so far"]
    steps: list[Callable[[Setting], list[Setting]]] = [
        lambda best: [best._replace(windows=w) for w in windows],
        lambda best: [best._replace(first=a, second=b) for a, b in product(firsts, seconds)],
        lambda best: [best._replace(margin=margin) for margin in MARGINS],
    ]
    for step in steps:
        settings = [setting for setting in step(best) if setting not in marks]
        tasks = [
            Task(kind, 0, number, tuple((name, s) for s in settings))
            for kind in DEVELOPMENT
            for number in range(options.streams)
        ]
        # Without a cause there is nothing to gain.
        rows = [
            [s.f1 if task.kind in WITHOUT_CAUSE else (s.f1 + s.gain) / 2 for s in scores]
            for task, scores in zip(tasks, played(attempt, tasks, options.jobs, name), strict=True)
        ]
        for setting, column in zip(settings, zip(*rows, strict=True), strict=True):
            marks[setting] = mean(column)
            print(f"{name}  {marks[setting]:.3f}  {setting}", flush=True)
        best = max(marks, key=marks.__getitem__)
    print(f"{name}: {best}")
    return best


def run(arguments: Sequence[str] = ()) -> None:
    """Print the table, or tune."""
    made = argparse.ArgumentParser(prog="python -m bench causes_peers", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--methods", default="", help=f"comma-separated: {', '.join(METHODS)}")
    made.add_argument("--tables", default=",".join(TABLES), help="comma-separated, of bench.tables")
    made.add_argument("--streams", type=int, default=STREAMS, help="streams of each kind")
    made.add_argument("--runs", type=int, default=RUNS, help="of each table")
    made.add_argument("--seed", type=int, default=SEED, help="the first seed")
    made.add_argument("--epsilon", type=float, default=EPSILON)
    made.add_argument("--jobs", type=int, default=JOBS, help="processes")
    made.add_argument("--tune", action="store_true", help="choose settings on seeds from 0 on")
    options = made.parse_args(list(arguments))
    methods = options.methods.split(",") if options.methods else METHODS
    if unknown := set(methods) - set(METHODS):
        sys.exit(f"unknown method: {', '.join(sorted(unknown))}")
    if not options.tune:
        _compare(options, methods)
    for name in TRIED if options.tune else ():
        if name in methods and find_spec(PEERS[name].package):
            tune(name, options)
