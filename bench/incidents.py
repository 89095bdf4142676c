"""Generate incident streams: rows of text columns, labels, and the causes planted in them.

`make_group(kind, seed)` gives the same incident every time; bench/fixed_incidents.py and
bench/moving_incidents.py have further kinds. Nothing was chosen by looking at seeds from 10,000 on.

A row's label is positive with probability max(base rate of its round, rates of the active causes
that match it). Causes are chosen among patterns that occur in the table with about the wanted
share, so that columns keep their frequencies, correlations and nesting.

In every group but `unfiltered`, causes are drawn again (up to `TRIES` times)
until the incident is *solvable*, by a criterion that only reads its own parameters. With min_rate
= clamp(2 x expected positive rate of the first 2,000 rows, .02, .5) and c = min_rate / (1 -
min_rate), each cause must have

1. an expected gain (positives - c x negatives, over the rows of its life that no other active cause
   matches) of at least `MULTIPLE * NEEDED`, 3 x 60: 60 is about what a private draw over unknown
   keys needs at epsilon 1 and delta 1e-7;
2. a rate of at least 3 times the mean base rate;
3. no rival: no other pattern of at most 3 conditions, that matches other rows, has 80 % of its
   expected gain. (Such a pattern matches 80 % of the cause's rows or is near it in gain by chance;
   the former are searched, the latter cannot be when gains come from the cause's rows alone.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import nan
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Cause: TypeAlias = frozenset[tuple[str, str]]
Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]

# Rows whose positive rate sets min_rate, by the formula of `auto_rate`.
FIRST = 2_000
NEEDED, MULTIPLE, LIFT, RIVAL = 60, 3, 3, 0.8
TRIES = 60
# Rows that are looked at when a pattern of a given share is wanted.
SAMPLE = 50_000


def auto_rate(base: float) -> float:
    """Return min_rate for a base rate: clamp(2 * base, .02, .5)."""
    return min(max(2 * base, 0.02), 0.5)


class Planted(NamedTuple):
    """A cause and the rounds [first, last) in which it is active."""

    cause: Cause
    first: int
    last: int


@dataclass(frozen=True)
class Incident:
    """A stream with planted causes.

    Parameters
    ----------
    kind : str
        The kind of stream, one of `bench.causes.MAKERS`.
    seed : int
        The seed it was made from.
    codes : dict of str to array of int32
        For each column the code of every row's value.
    values : dict of str to array of object
        For each column the text of each code; codes that no row has are allowed.
    labels : array of bool
        The outcome of each row.
    planted : tuple of Planted
        The causes, with the rounds in which they are active.
    min_rate : float or None
        The rate that learners are given; None means that they find it (`auto`).
    width : int
        The width that learners are given.
    """

    kind: str
    seed: int
    codes: dict[str, Codes]
    values: dict[str, NDArray[np.object_]]
    labels: Mask
    planted: tuple[Planted, ...]
    min_rate: float | None = None
    width: int = 3

    @property
    def rounds(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @cached_property
    def weights(self) -> Floats:
        """Return what an alarm on each row gains: 1 if positive, else minus the local cost.

        The cost is min_rate / (1 - min_rate) where a rate is given, else twice the odds of a
        positive in this tenth of the stream, at a rate from 2 to 98 %.
        """
        if self.min_rate is not None:
            return np.where(self.labels, 1.0, -self.min_rate / (1 - self.min_rate))
        parts = np.array_split(self.labels, 10)
        rates = [np.clip(2 * part.mean() / (1 + part.mean()), 0.02, 0.98) for part in parts]
        costs = np.repeat([rate / (1 - rate) for rate in rates], [len(part) for part in parts])
        return np.where(self.labels, 1.0, -costs)

    @cached_property
    def table(self) -> pa.Table:
        """Return the rows, each column with its dictionary of values."""
        return pa.table(
            {
                name: pa.DictionaryArray.from_arrays(codes, pa.array(self.values[name]))
                for name, codes in self.codes.items()
            }
        )

    @cached_property
    def _lookup(self) -> dict[str, dict[str, int]]:
        return {name: {v: n for n, v in enumerate(of)} for name, of in self.values.items()}

    def mask(self, cause: Cause, start: int = 0, stop: int | None = None) -> Mask:
        """Return which rows of [start, stop) match all conditions of a cause."""
        coded = [(name, self._lookup[name].get(value, -1)) for name, value in cause]
        return matches(self.codes, coded, start, stop)

    def active(self, start: int) -> list[Cause]:
        """Return the causes that are active at a round (the last round's at `rounds`)."""
        at = min(start, self.rounds - 1)
        return [p.cause for p in self.planted if p.first <= at < p.last]

    @cached_property
    def changes(self) -> list[int]:
        """Return 0, every round at which the set of active causes changes, and `rounds`."""
        inner = {edge for p in self.planted for edge in (p.first, p.last)}
        return sorted(inner | {0, self.rounds})


Pattern: TypeAlias = tuple[tuple[str, int], ...]


def matches(codes: dict[str, Codes], pattern: Any, start: int = 0, stop: int | None = None) -> Mask:
    """Return which rows of [start, stop) have all the (column, code) pairs of a pattern."""
    found: Mask | None = None
    for name, code in pattern:
        equal = codes[name][start:stop] == code
        found = equal if found is None else found & equal
    assert found is not None, "a cause has at least one condition"
    return found


# Tables.


def zipf(rng: np.random.Generator, rounds: int, size: int, exponent: float) -> Codes:
    """Draw values of a vocabulary of `size`, in random order of rank, with Zipf frequencies."""
    ranks = zipf_ranks(rng, rounds, size, exponent)
    return rng.permutation(size).astype(np.int32)[ranks]


def zipf_ranks(
    rng: np.random.Generator, rounds: int, size: int, exponent: float
) -> NDArray[np.int64]:
    """Draw ranks below `size` with Zipf frequencies."""
    weights = np.arange(1, size + 1) ** -exponent
    ends = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(ends, rng.random(rounds)), size - 1)


def _plain(rng: np.random.Generator, rounds: int, sizes: list[int]) -> dict[str, Codes]:
    names = ("version", "country", "device", "plan", "region", "host", "browser", "client")
    picked = [str(name) for name in rng.permutation(names)[: len(sizes)]]
    table = {
        name: zipf(rng, rounds, size, rng.uniform(0.6, 1.3))
        for name, size in zip(picked, sizes, strict=True)
    }
    if rng.random() < 0.3:
        table[picked[1]] = _follows(rng, table[picked[0]], table[picked[1]], rng.uniform(0.3, 0.9))
    return table


def _follows(rng: np.random.Generator, leader: Codes, own: Codes, strength: float) -> Codes:
    """Replace own values, with a probability, by a function of another column's."""
    usual = rng.integers(0, own.max() + 1, leader.max() + 1).astype(np.int32)
    return np.where(rng.random(len(own)) < strength, usual[leader], own)


def _nested(rng: np.random.Generator, rounds: int) -> dict[str, Codes]:
    """Cities lie in countries and builds belong to versions; a device mostly has one system."""
    city = zipf(rng, rounds, int(rng.integers(60, 400)), rng.uniform(0.7, 1.1))
    build = zipf(rng, rounds, int(rng.integers(20, 120)), rng.uniform(0.7, 1.2))
    device = zipf(rng, rounds, int(rng.integers(10, 80)), rng.uniform(0.7, 1.2))
    system = _follows(rng, device, zipf(rng, rounds, 4, 0.8), rng.uniform(0.6, 0.95))
    country = rng.integers(0, 14, city.max() + 1).astype(np.int32)[city]
    version = rng.integers(0, 7, build.max() + 1).astype(np.int32)[build]
    return {
        "city": city,
        "country": country,
        "build": build,
        "version": version,
        "device": device,
        "system": system,
    }


def sizes_of(rng: np.random.Generator, count: int, smallest: int, largest: int) -> list[int]:
    """Draw vocabulary sizes, log-uniform."""
    logs = rng.uniform(np.log(smallest), np.log(largest + 1), count)
    return [int(size) for size in np.exp(logs)]


def spell(codes: dict[str, Codes]) -> dict[str, NDArray[np.object_]]:
    """Name the values of each column, `country17` and the like."""
    return {
        name: np.array([f"{name}{code}" for code in range(int(column.max()) + 1)], dtype=object)
        for name, column in codes.items()
    }


# Causes.


class Recipe(NamedTuple):
    """What a group draws: the table, how many causes of which widths, and when they are active."""

    causes: tuple[int, int] = (1, 1)
    widths: tuple[int, ...] = (1, 2, 3)
    lengths: tuple[int, int] = (50_000, 600_000)
    table: str = "plain"
    life: str = "always"
    filtered: bool = True


GROUPS: dict[str, Recipe] = {
    "one": Recipe(widths=(1,)),
    "pair": Recipe(widths=(2,)),
    "triple": Recipe(widths=(3,), lengths=(100_000, 600_000)),
    "two": Recipe((2, 2), (1, 1, 2, 2, 3)),
    # Cities lie in countries, builds belong to versions.
    "nested": Recipe((1, 2), (1, 1, 2), table="nested"),
    "late": Recipe(life="late"),
    "repaired": Recipe(life="repaired"),
    "drift": Recipe((3, 5), (1, 1, 2), (200_000, 600_000), life="drift"),
    "unfiltered": Recipe((1, 3), filtered=False),
    "wide": Recipe((1, 3), (1, 2), table="wide"),
    "long": Recipe((1, 3), (1, 2, 3), (1_000_000, 3_000_000)),
}


def _table(rng: np.random.Generator, kind: str, rounds: int) -> dict[str, Codes]:
    if kind == "nested":
        return _nested(rng, rounds)
    if kind == "wide":
        return _plain(rng, rounds, [*sizes_of(rng, 4, 3, 100_000), 100_000])
    return _plain(rng, rounds, [*sizes_of(rng, 4, 3, 300), int(rng.integers(300, 3_000))])


def _pattern(
    rng: np.random.Generator, codes: dict[str, Codes], width: int, share: float
) -> Pattern | None:
    """Choose a pattern of about the wanted share, on columns chosen at random; None if there is
    none, or if one of its conditions follows from the others."""
    names = [str(name) for name in rng.permutation(list(codes))[:width]]
    sample = {name: codes[name][:SAMPLE].astype(np.int64) for name in names}
    key, scale = np.zeros(min(SAMPLE, len(codes[names[0]])), dtype=np.int64), 1
    for name in names:
        key += scale * sample[name]
        scale *= int(sample[name].max()) + 1
    _, firsts, counts = np.unique(key, return_index=True, return_counts=True)
    near = np.abs(np.log(counts / len(key) / share)) < 0.25
    if not near.any():
        return None
    row = int(firsts[rng.choice(np.flatnonzero(near))])
    pattern = tuple((name, int(sample[name][row])) for name in names)
    size = matches(sample, pattern).sum()  # type: ignore[arg-type]
    for condition in pattern:
        rest = tuple(other for other in pattern if other != condition)
        if rest and matches(sample, rest).sum() < 1.1 * size:  # type: ignore[arg-type]
            return None
    return pattern


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


class Draft(NamedTuple):
    """A pattern with its life, and its rate where that is one number, before it is spelt."""

    pattern: Pattern
    first: int
    last: int
    rate: float = nan


def _lives(
    rng: np.random.Generator, life: str, count: int, rounds: int
) -> Iterator[tuple[int, int]]:
    if life == "late":
        yield int(rounds * rng.uniform(0.3, 0.8)), rounds
    elif life == "repaired":
        yield 0, int(rounds * rng.uniform(0.4, 0.6))
    elif life == "drift":
        edges = np.linspace(0, rounds, count + 1).astype(int)
        yield from ((int(a), int(b)) for a, b in pairwise(edges))
    else:
        yield from [(0, rounds)] * count


def _drafts(
    rng: np.random.Generator, codes: dict[str, Codes], recipe: Recipe, base: float
) -> list[Draft] | None:
    count, rounds = int(rng.integers(recipe.causes[0], recipe.causes[1] + 1)), _length(codes)
    drafts: list[Draft] = []
    for first, last in _lives(rng, recipe.life, count, rounds):
        lowest = min(max(0.1, LIFT * base), 0.9) if recipe.filtered else 0.1
        rate = log_uniform(rng, lowest, 1)
        width = min(int(rng.choice(recipe.widths)), len(codes))
        pattern = _pattern(rng, codes, width, log_uniform(rng, 0.003, 0.2))
        if pattern is None or any(_overlap(codes, pattern, d.pattern) for d in drafts):
            return None
        drafts.append(Draft(pattern, first, last, rate))
    return drafts


def _length(codes: dict[str, Codes]) -> int:
    return len(next(iter(codes.values())))


def _overlap(codes: dict[str, Codes], one: Pattern, other: Pattern) -> bool:
    """Tell whether two patterns share more than 30 % of the rows of the smaller one."""
    sample = {name: column[:SAMPLE] for name, column in codes.items()}
    a, b = matches(sample, one), matches(sample, other)
    return bool((a & b).sum() > 0.3 * min(a.sum(), b.sum()))


def chances_of(codes: dict[str, Codes], base: Floats, drafts: list[Draft]) -> Floats:
    chances = base.copy()
    for draft in drafts:
        inside = matches(codes, draft.pattern, draft.first, draft.last)
        part = chances[draft.first : draft.last]
        np.maximum(part, draft.rate, out=part, where=inside)
    return chances


def _solvable(
    codes: dict[str, Codes],
    base: Floats,
    chances: Floats,
    drafts: list[Draft],
) -> bool:
    """Tell whether every cause fulfils the criterion of this module."""
    rate = auto_rate(float(chances[:FIRST].mean()))
    return all(_clear(codes, base, chances, drafts, number, rate) for number in range(len(drafts)))


def _clear(
    codes: dict[str, Codes],
    base: Floats,
    chances: Floats,
    drafts: list[Draft],
    number: int,
    rate: float,
) -> bool:
    own, cost = drafts[number], rate / (1 - rate)
    if own.rate < LIFT * base.mean():
        return False
    start, stop = own.first, own.last
    gains = chances[start:stop] * (1 + cost) - cost
    for other in drafts:
        if other is not own:
            low, high = max(start, other.first), min(stop, other.last)
            if low < high:
                gains[low - start : high - start][matches(codes, other.pattern, low, high)] = 0
    inside = matches(codes, own.pattern, start, stop)
    gain, size = gains[inside].sum(), inside.sum()
    if gain < MULTIPLE * NEEDED:
        return False
    attached = [_commonest(codes[name][start:stop][inside], name) for name in codes]
    near = [(name, code) for name, code, count in attached if count >= RIVAL * size]
    for width in (1, 2, 3):
        for rival in combinations(near, width):
            found = matches(codes, rival, start, stop)
            if gains[found].sum() >= RIVAL * gain and not np.array_equal(found, inside):
                return False
    return True


def _commonest(column: Codes, name: str) -> tuple[str, int, int]:
    counts = np.bincount(column)
    code = int(counts.argmax())
    return name, code, int(counts[code])


def finish(
    rng: np.random.Generator,
    codes: dict[str, Codes],
    chances: Floats,
    drafts: list[Draft],
    *,
    values: dict[str, NDArray[np.object_]] | None = None,
    **facts: Any,
) -> Incident:
    """Draw the labels and spell the causes: the last step of every incident."""
    labels = rng.random(len(chances)) < chances
    values = values or spell(codes)
    planted = tuple(
        Planted(frozenset((n, str(values[n][c])) for n, c in d.pattern), d.first, d.last)
        for d in drafts
    )
    return Incident(codes=codes, values=values, labels=labels, planted=planted, **facts)


def plant(
    rng: np.random.Generator, codes: dict[str, Codes], recipe: Recipe
) -> tuple[Floats, list[Draft]]:
    """Draw the base rate and causes; again, up to `TRIES` times, while they are not solvable."""
    rounds = _length(codes)
    last: tuple[Floats, list[Draft]] | None = None
    while last is None:
        for _ in range(TRIES):
            base = np.full(rounds, log_uniform(rng, 0.005, 0.1))
            drafts = _drafts(rng, codes, recipe, float(base.mean()))
            if drafts is None:
                continue
            last = base, drafts
            if not recipe.filtered:
                return last
            if _solvable(codes, base, chances_of(codes, base, drafts), drafts):
                return last
    return last


def make_group(kind: str, seed: int) -> Incident:
    """Make an incident of one of `GROUPS`."""
    recipe = GROUPS[kind]
    rng = np.random.default_rng([crc32(kind.encode()), seed])
    rounds = int(log_uniform(rng, *recipe.lengths))
    codes = _table(rng, recipe.table, rounds)
    base, drafts = plant(rng, codes, recipe)
    return finish(rng, codes, chances_of(codes, base, drafts), drafts, kind=kind, seed=seed)


Maker: TypeAlias = Callable[[int], Incident]
