"""Planted faults: each is the real code with one published or plausible error put in."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, SupportsIndex

from littlestone._privacy import (
    AboveThreshold,
    Cost,
    HistSparse,
    MistakesGate,
    MistakesMonitor,
    Noise,
    StableHistogram,
)
from littlestone._privacy.gates import Decision
from littlestone._privacy.selection import positive_votes

Votes = Mapping[bytes, int]


class PrintedAlgorithm3(AboveThreshold):
    """The paper's print: noise on the threshold is drawn after each firing, and its budget set
    aside, but the query is compared with the threshold without it."""

    def _scales(self) -> tuple[Fraction, Fraction]:
        each = self.cost.epsilon / self.releases
        return 2 / each, 4 / each

    def check(self, query: SupportsIndex, threshold: SupportsIndex) -> bool:
        self._threshold_draw = 0
        return super().check(query, threshold)


class QueryNoiseNotScaled(AboveThreshold):
    """The query noise does not grow with the number of firings."""

    def _scales(self) -> tuple[Fraction, Fraction]:
        threshold, query = super()._scales()
        return threshold, query / self.releases


class HalvedNoise(AboveThreshold):
    """Half of all the noise."""

    def _scales(self) -> tuple[Fraction, Fraction]:
        threshold, query = super()._scales()
        return threshold / 2, query / 2


class NoneIsNotCharged(HistSparse):
    """A firing that releases nothing is taken back."""

    def check(self, votes: Votes) -> Decision:
        decision = super().check(votes)
        if decision.fired and decision.key is None:
            self._monitor.firings -= 1
            self.releases_made -= 1
        return decision


class PrintedAlgorithm2(HistSparse):
    """The paper's print: all of epsilon to the sparse vector, half as much again to the rest."""

    def __init__(self, noise: Noise, **plan: Any) -> None:
        super().__init__(noise, **plan)
        self._monitor = AboveThreshold(noise, epsilon=self.cost.epsilon, releases=self.releases)


class CountKeptAtFiring(MistakesMonitor):
    """The count is not zeroed when the monitor fires."""

    def _begin_epoch(self) -> None:
        kept = self._mistakes
        super()._begin_epoch()
        self._mistakes = kept


class ThresholdNoiseShared(MistakesMonitor):
    """One threshold draw serves all epochs."""

    def _begin_epoch(self) -> None:
        threshold_noise = self._threshold_draw
        super()._begin_epoch()
        self._threshold_draw = threshold_noise


class Clamped(MistakesMonitor):
    """A tolerance of five mistakes a check is taken off, and the count is clamped at zero."""

    def _counted(self, mistakes: int) -> int:
        return max(0, self._mistakes + mistakes - 5)


class NoQueryNoise(MistakesMonitor):
    """Only the threshold is noisy."""

    def check(self, mistakes: SupportsIndex, threshold: SupportsIndex) -> bool:
        self._query_scale = Fraction(1, 10**3)
        return super().check(mistakes, threshold)


class SkipsQuietChecks(MistakesMonitor):
    """A check without a new mistake is skipped: the schedule depends on the data."""

    def check(self, mistakes: SupportsIndex, threshold: SupportsIndex) -> bool:
        return super().check(mistakes, threshold) if mistakes else False


class CountKeptAtNone(MistakesGate[Votes]):
    """The count is not zeroed when the selector returned None."""

    def check(self, mistakes: SupportsIndex, ballot: Votes) -> Decision:
        before = self._monitor._mistakes
        decision = super().check(mistakes, ballot)
        if decision.fired and decision.key is None:
            self._monitor._mistakes = before + int(mistakes)
        return decision


class NoiseForOneContribution(StableHistogram):
    """Scale 1/epsilon: as if a replaced example moved the votes by one only."""

    def __init__(self, *, epsilon: float, delta: float) -> None:
        super().__init__(epsilon=2 * epsilon, delta=delta)
        self.cost = Cost(Fraction(epsilon), Fraction(delta))


class MassAtThresholdLeftOut(StableHistogram):
    """Releases at noisy >= tau, accounts for noisy > tau."""

    def __init__(self, *, epsilon: float, delta: float) -> None:
        super().__init__(epsilon=epsilon, delta=delta)
        self.threshold -= 1


class TiesByEntry(StableHistogram):
    """Ties go to the key that was entered first, which depends on the data."""

    def select(
        self, ballot: Votes, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        noisy = {
            key: n + noise.laplace(self.scale, ("histogram", release, rank))
            for rank, (key, n) in enumerate(ballot.items())
        }
        best = max(noisy, key=lambda key: noisy[key], default=None)
        return best if best is not None and noisy[best] >= self.threshold else None


class EmptyKeysStay(StableHistogram):
    """A key that once had votes keeps its place, and its noise, at zero."""

    def select(
        self, ballot: Votes, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        raised = {key: n + 1 for key, n in ballot.items()}
        shifted = StableHistogram(epsilon=self.cost.epsilon, delta=self.cost.delta)
        shifted.threshold = self.threshold + 1
        return shifted.select(raised, noise, release, leave_out)


class TrueTopOfTheKept(StableHistogram):
    """Among the keys whose noisy count is high enough, the one with the most true votes."""

    def select(
        self, ballot: Votes, noise: Noise, release: int, leave_out: bytes | None = None
    ) -> bytes | None:
        kept = [
            key
            for rank, key in enumerate(positive_votes(ballot, leave_out))
            if ballot[key] + noise.laplace(self.scale, ("histogram", release, rank))
            >= self.threshold
        ]
        return max(kept, key=lambda key: ballot[key], default=None)
