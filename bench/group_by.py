"""Find causes by a private noisy GROUP BY on disjoint windows: the competitor to beat.

The first 2,000 rows give the base rate, and min_rate = clamp(2 * base, .02, .5) unless it is given.
Then the stream is cut into disjoint windows on a public schedule. At the end of a window, for every
pattern of at most `width` conditions: the number of positive and of negative rows, with noise; the
positives of a pattern that was never published must exceed a threshold. From these noisy counts
alone a set of causes is chosen, greedily by gain = positives - c x negatives, and published.

**Privacy.** (epsilon, delta), replace-one, for the whole series of published sets:

1. Windows are disjoint and end at public rounds, so the replaced row is in one window. What later
   windows do with earlier output is post-processing of it (their counts come from other rows). So
   the series is as private as one window, and adaptive streams change nothing: given the published
   past, the next window's counts are those of fresh rows.
2. A row lists L patterns, a set. Call a key *active* when a positive row of the window lists it, or
   when it was published before (public keys are active in all worlds). Noise is added to the two
   counts of every active key. Over the keys that are active in both worlds the old row moves at
   most L counts by 1 and the new row at most L: L1 distance 2L, L2 distance sqrt(2L). Discrete
   Laplace noise of scale 2L / epsilon is epsilon-DP (delta_0 = 0); Gaussian noise, of the sigma
   that Balle and Wang's exact formula gives for sqrt(2L), is (epsilon, delta_0)-DP.
3. A key that is active in one world only is listed there by the replaced row alone: at most L of
   them in each world, each with 1 positive. With t = P(1 + noise >= threshold), none of m of them
   is published with probability (1-t)^m. Let v <= 1 be such that the common part lands in a set S
   with probability at most v + delta_0 here and at least v / e^epsilon there. Then the excess of
   P(S) over e^epsilon P'(S) is at most delta_0 + v ((1-t)^m - (1-t)^m') + 1 - (1-t)^m, linear in v,
   so at most delta_0 + max(1 - (1-t)^m, 1 - (1-t)^m') <= delta_0 + L t. The threshold is the
   smallest with L t <= delta - delta_0.
4. The base rate comes from rows of their own (disjoint again): a count with discrete Laplace noise
   of scale 1 / epsilon.

Noise is integer valued (Gaussian noise is rounded), so no low bits of floats are published; the
numbers come from numpy's generator, which a real use would replace by a secret source.

Negatives are counted for the keys that pass the threshold only; the noise of the others would be
thrown away, so the law of the output is the same.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations, pairwise
from math import comb, exp, log, prod, sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bench.incidents import FIRST, Cause, Incident, Mask, auto_rate, matches

Key: TypeAlias = frozenset[tuple[str, int]]
Timeline: TypeAlias = list[tuple[int, tuple[Cause, ...]]]
Ints: TypeAlias = NDArray[np.int64]
LIMIT = 8


class Config(NamedTuple):
    """Choices of the competitor; the defaults are the best of bench/group_by_tuning.py.

    Gaussian noise is far better here (F1 .67 against .40): a row moves 2L counts, so its noise
    grows with sqrt(2L) and Laplace noise with 2L.

    Parameters
    ----------
    noise : str
        `laplace` or `gaussian`.
    start : int
        Rows of the first window.
    largest : float
        Windows double up to this many rows, or, at most 1, up to this share of the horizon; 0 for
        windows of equal length.
    margin : float
        Standard deviations by which the gain of a new cause must exceed 0.
    keep : float
        Standard deviations by which the gain of a published cause must exceed 0 for it to stay.
    """

    noise: str = "gaussian"
    start: int = 2_000
    largest: float = 1.0
    margin: float = 3.0
    keep: float = 2.0

    def ends(self, rounds: int) -> list[int]:
        """Return where windows begin and end: `FIRST`, ..., `rounds`."""
        largest = self.largest * rounds if self.largest <= 1.0 else self.largest
        ends, length = [FIRST], float(self.start)
        while ends[-1] + 1.5 * length < rounds:
            ends.append(ends[-1] + int(length))
            length = min(2 * length, max(largest, self.start))
        return [*ends, rounds]


class Counts(NamedTuple):
    """Noisy positives and negatives of a key."""

    positives: float
    negatives: float

    def gain(self, cost: float) -> float:
        """Return positives - c x negatives."""
        return self.positives - cost * self.negatives


class Noise(NamedTuple):
    """Integer noise for counts: a sampler, its standard deviation, and the threshold for keys."""

    draw: Callable[[np.random.Generator, int], Ints]
    deviation: float
    threshold: float


def discrete_laplace(rng: np.random.Generator, scale: float, size: int) -> Ints:
    """Draw noise with P(k) proportional to exp(-|k| / scale): the difference of two geometrics."""
    p = 1 - exp(-1 / scale)
    return rng.geometric(p, size) - rng.geometric(p, size)


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the smallest sigma that is (epsilon, delta)-DP (Balle and Wang 2018, Theorem 8)."""

    def excess(sigma: float) -> float:
        a, b = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return float(norm.cdf(a - b) - exp(epsilon) * norm.cdf(-a - b))

    low, high = 1e-3 * sensitivity, 1e3 * sensitivity / epsilon
    for _ in range(100):
        middle = sqrt(low * high)
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high


@lru_cache
def calibrated(kind: str, patterns: int, epsilon: float, delta: float) -> Noise:
    """Return the noise for rows that list so many patterns (steps 2 and 3 of the proof)."""
    if kind == "laplace":
        scale = 2 * patterns / epsilon
        # P(noise >= n) = exp(-n / scale) / (1 + exp(-1 / scale)) for integers n >= 1.
        needed = scale * log(patterns / delta / (1 + exp(-1 / scale)))
        return Noise(
            lambda rng, size: discrete_laplace(rng, scale, size),
            sqrt(2) * scale,
            1 + np.ceil(max(needed, 1)),
        )
    sigma = gaussian_sigma(sqrt(2 * patterns), epsilon, delta / 2)
    # Rounded noise reaches an integer n when the Gaussian exceeds n - 1/2.
    needed = 0.5 + sigma * float(norm.isf(delta / 2 / patterns))
    return Noise(
        lambda rng, size: np.rint(rng.normal(0, sigma, size)).astype(np.int64),
        sqrt(sigma**2 + 1 / 12),
        1 + np.ceil(needed),
    )


def patterns_of(columns: int, width: int) -> int:
    """Return L, the number of patterns that a row lists."""
    return sum(comb(columns, conditions) for conditions in range(1, width + 1))


def keys_of(
    incident: Incident, names: tuple[str, ...], start: int, stop: int, rows: Ints | None = None
) -> Ints:
    """Return one integer for the values of some columns, for rows of a window (or some of them)."""
    keys = np.zeros(stop - start if rows is None else len(rows), dtype=np.int64)
    for name in names:
        column = incident.codes[name][start:stop]
        keys *= len(incident.values[name])
        keys += column if rows is None else column[rows]
    return keys


def split_key(incident: Incident, names: tuple[str, ...], key: int) -> Key:
    """Return the conditions that an integer of `keys_of` stands for."""
    conditions = []
    for name in reversed(names):
        key, code = divmod(key, len(incident.values[name]))
        conditions.append((name, code))
    return frozenset(conditions)


def subsets(incident: Incident, width: int) -> Iterator[tuple[str, ...]]:
    """Return every set of at most `width` columns."""
    for conditions in range(1, width + 1):
        yield from combinations(incident.codes, conditions)


def spelt(incident: Incident, keys: list[Key]) -> tuple[Cause, ...]:
    """Return keys as causes."""
    return tuple(frozenset((n, str(incident.values[n][c])) for n, c in key) for key in keys)


class Choice(NamedTuple):
    """What causes are chosen by: the cost of a false alarm, the noise of counts, and the margins."""

    cost: float
    deviation: float
    threshold: float
    width: int
    config: Config

    def choose(self, counts: dict[Key, Counts], published: list[Key], rows: int) -> list[Key]:
        """Choose causes greedily by gain, less what the chosen ones take away: post-processing."""
        chosen: list[Key] = []
        left = dict.fromkeys(counts, (0.0, 0.0, 1))
        while counts and len(chosen) < LIMIT:
            scores = {}
            for key in counts:
                if key in chosen:
                    continue
                lost_r, lost_n, terms = left[key]
                own = counts[key]
                rest = Counts(own.positives - lost_r, own.negatives - lost_n)
                noise = self.deviation**2 * (1 + self.cost**2) * terms
                sampling = max(rest.positives, 0) + self.cost**2 * max(rest.negatives, 0)
                bar = self.config.keep if key in published else self.config.margin
                score = rest.gain(self.cost)
                if score > bar * sqrt(noise + sampling):
                    scores[key] = score
            if not scores:
                break
            best = max(scores, key=scores.__getitem__)
            chosen.append(best)
            for key in counts:
                if key not in chosen:
                    left[key] = self._less(left[key], counts, key, best, rows)
        return chosen

    def _less(
        self,
        left: tuple[float, float, int],
        counts: dict[Key, Counts],
        key: Key,
        best: Key,
        rows: int,
    ) -> tuple[float, float, int]:
        """Return what chosen causes take of a key's counts, with the rows that `best` shares."""
        lost_r, lost_n, terms = left
        both = key | best
        if len({name for name, _ in both}) < len(both):
            return left
        if both == key:
            return lost_r + counts[key].positives, lost_n + counts[key].negatives, terms
        if both in counts:
            shared = counts[both]
            return lost_r + shared.positives, lost_n + shared.negatives, terms + 1
        # Not counted, or below the threshold: as if the two were independent.
        part = min(1.0, max(0.0, sum(counts[key]) / rows))
        positives = max(0.0, counts[best].positives * part)
        if len(both) <= self.width:
            positives = min(positives, self.threshold)
        return lost_r + positives, lost_n + max(0.0, counts[best].negatives * part), terms


class GroupBy:
    """A private noisy GROUP BY over the windows of one incident."""

    def __init__(
        self,
        incident: Incident,
        epsilon: float,
        delta: float,
        *,
        width: int,
        min_rate: float | None = None,
        config: Config | None = None,
        seed: int = 0,
    ) -> None:
        self.incident, self.epsilon, self.width = incident, epsilon, width
        self.config = config or Config()
        self.rng = np.random.default_rng([seed, incident.seed, 7])
        patterns = patterns_of(len(incident.codes), width)
        self.noise = calibrated(self.config.noise, patterns, epsilon, delta)
        rate = min_rate or self._found_rate()
        self.choice = Choice(
            rate / (1 - rate), self.noise.deviation, self.noise.threshold, width, self.config
        )

    def _found_rate(self) -> float:
        positives = self.incident.labels[:FIRST].sum()
        noisy = positives + discrete_laplace(self.rng, 1 / self.epsilon, 1)[0]
        return auto_rate(float(noisy) / FIRST)

    def run(self) -> Timeline:
        """Return the published sets, each with the round from which it stands."""
        published: list[Key] = []
        timeline: Timeline = [(0, ())]
        for start, stop in pairwise(self.config.ends(self.incident.rounds)):
            chosen = self.choice.choose(
                self._counts(start, stop, published), published, stop - start
            )
            if set(chosen) != set(published):
                published = chosen
                timeline.append((stop, spelt(self.incident, chosen)))
        return timeline

    def _counts(self, start: int, stop: int, public: list[Key]) -> dict[Key, Counts]:
        """Return noisy counts of the keys of a window that pass, and of the public ones."""
        labels = self.incident.labels[start:stop]
        rows = np.flatnonzero(labels)
        # A public key has its counts from here only: two draws for one count would be two releases.
        found = {key: self._public(key, start, stop) for key in public}
        for names in subsets(self.incident, self.width):
            keys, counts = np.unique(
                keys_of(self.incident, names, start, stop, rows), return_counts=True
            )
            noisy = counts + self.noise.draw(self.rng, len(counts))
            passed = noisy >= self.noise.threshold
            if not passed.any():
                continue
            keys, noisy, counts = keys[passed], noisy[passed], counts[passed]
            listed = keys_of(self.incident, names, start, stop)
            places = np.minimum(np.searchsorted(keys, listed), len(keys) - 1)
            totals = np.bincount(places[keys[places] == listed], minlength=len(keys))
            negatives = totals - counts + self.noise.draw(self.rng, len(counts))
            for key, r, n in zip(keys.tolist(), noisy.tolist(), negatives.tolist(), strict=True):
                found.setdefault(split_key(self.incident, names, key), Counts(r, n))
        return found

    def _public(self, key: Key, start: int, stop: int) -> Counts:
        inside = matches(self.incident.codes, key, start, stop)
        labels = self.incident.labels[start:stop]
        positives = int((inside & labels).sum())
        r, n = self.noise.draw(self.rng, 2).tolist()
        return Counts(positives + r, int(inside.sum()) - positives + n)


def run_group_by(
    incident: Incident,
    epsilon: float,
    delta: float,
    *,
    width: int,
    min_rate: float | None = None,
    config: Config | None = None,
) -> Timeline:
    """Run the private GROUP BY on an incident; return its published sets."""
    return GroupBy(incident, epsilon, delta, width=width, min_rate=min_rate, config=config).run()


# Finished tables.


def peels_for(rows: int) -> int:
    """Return how many causes are peeled: what served the GROUP BY best on generated tables."""
    return 1 if rows < 2_000 else 2 if rows < 15_000 else 4


def peel(
    table: Incident, epsilon: float, delta: float, *, seed: int, declared: bool, margin: float = 2.0
) -> tuple[Cause, ...]:
    """Find causes of a finished table: count all patterns, keep the best, remove its rows, again.

    All counts have Gaussian noise, as one mechanism: of `peels` rounds in which a row moves at most
    2L counts by 1, and of the number of positives, an L2 distance of sqrt(2 L peels + 1). Where
    values are declared every pattern of them is counted; else those that a positive row lists, if
    their noisy positives pass a threshold, with half of delta for all rounds (step 3 of the proof
    above). The gain of a cause at twice the odds must exceed 0 by `margin` standard deviations.
    """
    rng, peels = np.random.default_rng([seed, table.seed, 11]), peels_for(table.rounds)
    listed = patterns_of(len(table.codes), table.width)
    spent = delta if declared else delta / 2
    sigma = gaussian_sigma(sqrt(2 * listed * peels + 1), epsilon, spent)
    threshold = 1 + sigma * float(norm.isf(delta / 2 / listed / peels))
    rate = (table.labels.sum() + rng.normal(0, sigma)) / table.rounds
    cost = 2 * min(max(rate, 0.01), 0.97) / (1 - min(max(rate, 0.01), 0.97))
    left, chosen = np.ones(table.rounds, dtype=bool), list[Key]()
    for _ in range(peels):
        best, highest = None, margin * sigma * sqrt(1 + cost**2)
        for names in subsets(table, table.width):
            keys, yes, no = _listed(table, names, left, declared)
            noisy = yes + rng.normal(0, sigma, len(yes))
            gains = noisy - cost * np.maximum(no + rng.normal(0, sigma, len(no)), 0)
            if not declared:
                gains[noisy < threshold] = -np.inf
            if len(gains) and gains.max() > highest:
                highest, best = gains.max(), split_key(table, names, int(keys[gains.argmax()]))
        if best is None:
            break
        chosen.append(best)
        left &= ~matches(table.codes, best)
    return spelt(table, chosen)


def _listed(
    table: Incident, names: tuple[str, ...], left: Mask, every: bool
) -> tuple[Ints, Ints, Ints]:
    """Return patterns, every one or those of positive rows, and their positives and negatives."""
    of_row = keys_of(table, names, 0, table.rounds)
    keys: Ints = np.unique(of_row[left & table.labels])
    if every:
        keys = np.arange(prod(len(table.values[name]) for name in names))
    if not len(keys):
        return keys, keys, keys
    places = np.minimum(np.searchsorted(keys, of_row), len(keys) - 1)
    counted = left & (keys[places] == of_row)
    yes, no = (
        np.bincount(places[counted & (table.labels == label)], minlength=len(keys))
        for label in (True, False)
    )
    return keys, yes, no
