"""Make streams that move, and incidents that are like real ones.

- `make_moving`: seven columns, two of which change their mix with time; a base rate that moves (or
  stands high), and up to two causes that multiply the odds by 4 to 10. `null` and `nullramp` and
  `storm0` have no cause.
- `make_tempting`: causes of width 1 to 3 with one rate each, some of which begin later; patterns
  beside a cause look good too.
- `make_hard`: few values a column, columns that follow each other, values with effects of their
  own, 1 to 3 causes of width 1 to 3 that begin together; no filter but 60 expected positives more
  than twice the base rate. In `shift` and `traffic` causes are additive in the log odds, so
  children of a cause differ; in `big` and `traffic` the first cause is much of the traffic.
- `make_campaign`: rows in their own time order: the mix of values moves, and with it the base rate;
  every value has a weak effect, a cause multiplies the odds of a value or pair by 3 to 8.
- `make_permuted`: labels that have nothing to do with the rows; `make_sorted`: rows of `big`, all
  of one label before all of the other.

Draws are made in the order of the prototype of version 0.3's design: its seed s is 7000 + s here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from bench.fixed_incidents import stormy
from bench.incidents import (
    Codes,
    Draft,
    Floats,
    Incident,
    Mask,
    Pattern,
    finish,
    log_uniform,
    matches,
    zipf_ranks,
)

Rng: TypeAlias = np.random.Generator
Table: TypeAlias = dict[str, Codes]
NAMES = "abcdefghi"


def _generator(kind: str, seed: int) -> Rng:
    return np.random.default_rng([crc32(kind.encode()), seed])


def _sizes(rng: Rng, count: int, low: float, high: float) -> list[int]:
    return [max(2, int(log_uniform(rng, low, high))) for _ in range(count)]


def _columns(rng: Rng, rounds: int, sizes: list[int], exponents: tuple[float, float]) -> Table:
    table = {}
    for name, size in zip(NAMES, sizes, strict=False):
        exponent, order = rng.uniform(*exponents), rng.permutation(size).astype(np.int32)
        table[name] = order[zipf_ranks(rng, rounds, size, exponent)]
    return table


# Causes.


def _candidates(
    rng: Rng, codes: Table, widths: tuple[int, ...], tries: int
) -> Iterator[tuple[Pattern, Mask]]:
    """Yield the values of random rows in random columns, with the rows that have them."""
    names = list(codes)
    for _ in range(tries):
        width = int(rng.choice(widths))
        picked = rng.permutation(len(names))[:width]
        row = int(rng.integers(len(codes[names[0]])))
        pattern = tuple((names[i], int(codes[names[i]][row])) for i in picked)
        yield pattern, matches(codes, pattern)


def _separate(
    codes: Table, pattern: Pattern, inside: Mask, drafts: list[Draft], wider: float
) -> bool:
    """Tell whether every condition matters, by a factor of rows, and other causes are elsewhere."""
    size = inside.sum()
    for condition in pattern if len(pattern) > 1 else ():
        rest = [other for other in pattern if other != condition]
        if matches(codes, rest).sum() < wider * size:
            return False
    others = [matches(codes, draft.pattern) for draft in drafts]
    return all((inside & other).sum() <= 0.3 * min(size, other.sum()) for other in others)


def _raise(chances: Floats, inside: Mask, first: int, raised: Floats | float) -> None:
    """Raise the chances of a cause's rows from a round on."""
    chance = np.maximum(chances, raised)
    chances[first:] = np.where(inside[first:], chance[first:], chances[first:])


def _logistic(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def _odds_times(rate: Floats, factor: float) -> Floats:
    return factor * rate / (1 + (factor - 1) * rate)


# Streams whose base rate moves.


def _ramp(rng: Rng, time: Floats, *, rising: bool) -> Floats:
    low, high = log_uniform(rng, 0.02, 0.06), rng.uniform(0.3, 0.5)
    risen = _logistic((time - rng.uniform(0.3, 0.7)) * 12)
    return low + (high - low) * (risen if rising else 1 - risen)


def _jumps(rng: Rng, time: Floats) -> Floats:
    edges = np.sort(rng.uniform(0.1, 0.9, 3))
    levels = np.array([log_uniform(rng, 0.02, 0.5) for _ in range(4)])
    return levels[np.searchsorted(edges, time)]


def _days(rng: Rng, time: Floats) -> Floats:
    level = log_uniform(rng, 0.02, 0.15)
    return level * (1 + 0.8 * np.sin(2 * np.pi * (time * rng.uniform(3, 20) + rng.random())))


NULL_RATES = (0.2, 0.4, 0.6, 0.8, 0.01, 0.05)
MOVING: dict[str, Callable[[Rng, Floats, int], Floats]] = {
    "ramp": lambda rng, time, seed: _ramp(rng, time, rising=True),
    "ramp2": lambda rng, time, seed: _ramp(rng, time, rising=True),
    "fall": lambda rng, time, seed: _ramp(rng, time, rising=False),
    "jump": lambda rng, time, seed: _jumps(rng, time),
    "storm": lambda rng, time, seed: stormy(rng, len(time), 0.05),
    "storm0": lambda rng, time, seed: stormy(rng, len(time), 0.05),
    "high": lambda rng, time, seed: np.full(len(time), rng.uniform(0.3, 0.8)),
    "day": lambda rng, time, seed: _days(rng, time),
    "null": lambda rng, time, seed: np.full(len(time), NULL_RATES[seed % len(NULL_RATES)]),
    "nullramp": lambda rng, time, seed: 0.03 + 0.42 * time,
}
WITHOUT_CAUSE = ("storm0", "null", "nullramp")


def make_moving(kind: str, seed: int) -> Incident:
    """Make a stream of one of `MOVING`."""
    rng = _generator(kind, seed)
    rounds = int(log_uniform(rng, 25_000, 100_000))
    time = np.arange(rounds) / rounds
    sizes = [*_sizes(rng, 5, 2, 12), *_sizes(rng, 1, 10, 60), *_sizes(rng, 1, 30, 300)]
    codes = _columns(rng, rounds, sizes, (0.3, 1.2))
    # One value becomes common, another one rare.
    codes["a"] = np.where(rng.random(rounds) < 0.1 + 0.85 * time, np.int32(0), codes["a"])
    codes["b"] = np.where(rng.random(rounds) < 0.9 - 0.8 * time, np.int32(1), codes["b"])
    count = 0 if kind in WITHOUT_CAUSE else int(rng.integers(1, 3))
    base = MOVING[kind](rng, time, seed)
    chances, drafts = base.copy(), list[Draft]()
    widths = (1, 2) if kind == "ramp2" else (1,)
    for _ in range(count):
        for pattern, inside in _candidates(rng, codes, widths, 200):
            moves = any(name in "ab" for name, _ in pattern)
            if moves or not 0.03 <= inside.mean() <= 0.2:
                continue
            if _separate(codes, pattern, inside, drafts, 1.25):
                _raise(chances, inside, 0, _odds_times(base, rng.uniform(4, 10)))
                drafts.append(Draft(pattern, 0, rounds))
                break
    return finish(rng, codes, chances, drafts, kind=kind, seed=seed, width=max(widths))


# Incidents like real ones.


def make_tempting(seed: int) -> Incident:
    """Make a stream whose causes have tempting children."""
    rng = _generator("tempt", seed)
    rounds = int(log_uniform(rng, 8_000, 150_000))
    sizes = _sizes(rng, int(rng.integers(4, 7)), 2, 25)
    codes = _columns(rng, rounds, sizes, (0.3, 1.2))
    count, base = int(rng.integers(1, 3)), log_uniform(rng, 0.01, 0.1)
    chances, drafts = np.full(rounds, base), list[Draft]()
    for _ in range(count):
        for pattern, inside in _candidates(rng, codes, (1, 2, 3), 200):
            if not 0.02 <= inside.mean() <= 0.35:
                continue
            if not _separate(codes, pattern, inside, drafts, 1.25):
                continue
            first = int(rounds * rng.choice([0, 0, rng.uniform(0.1, 0.5)]))
            rate = log_uniform(rng, max(0.15, 3.5 * base), 0.9)
            if (rate - 2 * base) * inside[first:].sum() >= 150:
                _raise(chances, inside, first, rate)
                drafts.append(Draft(pattern, first, rounds))
                break
    return finish(rng, codes, chances, drafts, kind="tempt", seed=seed)


class Traffic(NamedTuple):
    """What a hard kind draws: shares of the first cause and of others, effects of the values."""

    first: float = 0.004
    others: float = 0.004
    largest: float = 0.4
    effects: tuple[float, float] = (0.1, 0.5)
    additive: bool = False


HARD = {
    "hard": Traffic(),
    "big": Traffic(first=0.15, largest=0.6),
    "shift": Traffic(0.02, 0.02, 0.6, (0.3, 0.8), additive=True),
    "traffic": Traffic(0.2, 0.1, 0.7, (0.3, 0.8), additive=True),
}


def _related_columns(rng: Rng) -> tuple[Table, list[int]]:
    """Draw four to six columns of few values, some of which mostly follow another one."""
    rounds, count = int(log_uniform(rng, 5_000, 300_000)), int(rng.integers(4, 7))
    sizes = _sizes(rng, count, 2, 40)
    codes = _columns(rng, rounds, sizes, (0.3, 1.5))
    for _ in range(int(rng.integers(0, 3))):
        leader, follower = rng.permutation(count)[:2].tolist()
        usual = rng.integers(0, sizes[follower], sizes[leader]).astype(np.int32)
        follows = rng.random(rounds) < rng.uniform(0.3, 0.8)
        name = NAMES[follower]
        codes[name] = np.where(follows, usual[codes[NAMES[leader]]], codes[name])
    return codes, sizes


def make_hard(kind: str, seed: int) -> Incident:
    """Make an incident of one of `HARD`."""
    wanted, rng = HARD[kind], _generator(kind, seed)
    codes, sizes = _related_columns(rng)
    rounds = len(codes["a"])
    level, spread = np.log(log_uniform(rng, 0.01, 0.12)), rng.uniform(*wanted.effects)
    log_odds = np.full(rounds, level)
    for name, size in zip(codes, sizes, strict=True):
        log_odds += rng.normal(0, spread, size)[codes[name]]
    begin = int(rounds * rng.choice([0.0, rng.uniform(0.1, 0.6)]))
    log_odds[begin:] += rng.normal(0, 0.3)
    base = _logistic(log_odds)
    chances, drafts = base.copy(), list[Draft]()
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        for pattern, inside in _candidates(rng, codes, (1, 1, 2, 2, 3), 300):
            rate = log_uniform(rng, min(0.9, max(0.12, 3 * base.mean())), 0.95)
            smallest = wanted.others if drafts else wanted.first
            if not smallest <= inside.mean() <= wanted.largest:
                continue
            active = inside[begin:]
            if (rate - 2 * base[begin:][active]).sum() < 60:
                continue
            if _separate(codes, pattern, inside, drafts, 1.15):
                shifted = _shifted(log_odds, log_odds[begin:][active], rate)
                _raise(chances, inside, begin, shifted if wanted.additive else rate)
                drafts.append(Draft(pattern, begin, rounds))
                break
    return finish(rng, codes, chances, drafts, kind=kind, seed=seed)


def _shifted(log_odds: Floats, active: Floats, rate: float) -> Floats:
    """Return the chances if log odds rise by what gives the active rows a mean rate."""
    low, high = 0.0, 8.0
    for _ in range(30):
        shift = (low + high) / 2
        low, high = (shift, high) if _logistic(active + shift).mean() < rate else (low, shift)
    return _logistic(log_odds + shift)


def make_campaign(seed: int) -> Incident:
    """Make a table in its own time order."""
    rng = _generator("campaign", seed)
    rounds, count = int(log_uniform(rng, 10_000, 100_000)), int(rng.integers(6, 10))
    time = np.arange(rounds) / rounds
    sizes = [12, *_sizes(rng, count - 1, 2, 30)]
    codes = _columns(rng, rounds, sizes, (0.3, 1.2))
    # Months come one after the other, and in two columns a value becomes the usual one.
    codes["a"] = (time * rng.integers(8, 13)).astype(np.int32)
    for name in "bc":
        usual = rng.random(rounds) < 0.8 * _logistic((time - rng.uniform(0.2, 0.8)) * 12)
        codes[name] = np.where(usual, codes[name][0], codes[name])
    log_odds = np.full(rounds, np.log(log_uniform(rng, 0.03, 0.15)))
    for name, size in zip(codes, sizes, strict=True):
        effects = rng.normal(0, 0.25, size).clip(-0.5, 0.5)
        log_odds += (effects if name != "a" else np.cumsum(0.2 + effects))[codes[name]]
    base = _logistic(log_odds)
    chances, drafts = base.copy(), list[Draft]()
    for _ in range(int(rng.integers(1, 3))):
        for pattern, inside in _candidates(rng, codes, (1, 1, 2), 200):
            raised = _odds_times(base, rng.uniform(3, 8))
            # What an alarm gains, at a cost of twice the odds of the base rate.
            gains = raised - (1 - raised) * 2 * base / (1 - base)
            if "a" in dict(pattern) or not 0.03 <= inside.mean() <= 0.25:
                continue
            if gains[inside].sum() >= 150 and _separate(codes, pattern, inside, drafts, 1.25):
                _raise(chances, inside, 0, raised)
                drafts.append(Draft(pattern, 0, rounds))
                break
    return finish(rng, codes, chances, drafts, kind="campaign", seed=seed, width=2)


# Labels that the rows do not explain.


def make_permuted(rate: float, seed: int) -> Incident:
    """Make a stream whose labels are drawn without looking at the rows."""
    kind = f"permuted {rate:.0%}"
    rng = _generator(kind, seed)
    codes, _ = _related_columns(rng)
    return finish(rng, codes, np.full(len(codes["a"]), rate), [], kind=kind, seed=seed)


def make_sorted(seed: int) -> Incident:
    """Make an incident of `big` whose rows are sorted by their label, up or down by the seed."""
    incident = make_hard("big", seed)
    order = np.argsort(incident.labels ^ bool(seed % 2), kind="stable")
    return replace(
        incident,
        kind="sorted",
        codes={name: column[order] for name, column in incident.codes.items()},
        labels=incident.labels[order],
        planted=tuple(planted._replace(first=0) for planted in incident.planted),
    )
