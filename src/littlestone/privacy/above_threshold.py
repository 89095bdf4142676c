"""Sparse vector: when to change. Integers in, a bit out (Alg. 3, repaired; Thm 3.26 of DR14).

Both monitors ask one question, "query + noise >= threshold + lift?", where the lift is noise on
the threshold that lives on between checks. They differ in what a replaced example can do to the
queries, hence in what they pay. Thresholds are public. Proofs: docs/guarantee.md.
"""

from fractions import Fraction
from typing import SupportsIndex

import numpy as np

from littlestone.privacy.accounting import Cost
from littlestone.privacy.exact import BadParameter, Numbers, Real, positive, whole, whole_numbers
from littlestone.privacy.noise import Noise, noise_scale
from littlestone.privacy.spender import Spender, State, lift_field, whole_field


class AboveThreshold(Spender):
    """Pays epsilon for at most `releases` firings, on queries that one example moves by D at most.

    Requires: given the answers so far, a replaced example moves each query by at most
    `sensitivity`. Promises: all answers together are epsilon-differentially private.
    After the last firing it is exhausted: every further answer is no, and free.

    The lift is drawn once, or, when `refreshed`, again after each firing as the paper prints it.
    The print compares with the bare threshold, which loses without bound; here it has its lift.

    >>> from littlestone.privacy.rehearsal import ScriptedNoise
    >>> monitor = AboveThreshold(ScriptedNoise({}), epsilon=1, releases=1)
    >>> [monitor.check(query, threshold=5) for query in (4, 5, 6)], monitor.exhausted
    ([False, True, False], True)
    """

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real,
        releases: int,
        sensitivity: int = 1,
        refreshed: bool = False,
        one_sided: bool = False,
    ) -> None:
        super().__init__()
        self._noise = noise
        self.cost = Cost(positive(epsilon, "epsilon"))
        self.releases = whole(releases, "releases", least=1)
        self.sensitivity = whole(sensitivity, "sensitivity", least=1)
        self.refreshed, self.one_sided = refreshed, one_sided
        self._lift_scale, self._query_scale = map(noise_scale, self._scales())
        self.firings = self.checks = 0
        self._lift: int | None = None

    @property
    def exhausted(self) -> bool:
        """Whether every firing has been used."""
        return self.firings >= self.releases

    def check(self, query: SupportsIndex, threshold: SupportsIndex) -> bool:
        """Whether the query, with noise, reaches the public threshold, with its lift."""
        query, threshold = whole(query, "a query"), whole(threshold, "a threshold")
        with self._step:
            if self.exhausted:
                return False
            margin, at = threshold + self._lifted() - query, ("query", self.checks, 0)
            fired = self._noise.reaches(margin, self._query_scale, at, self.one_sided)
            self.checks += 1
            if fired:
                self._fire()
            return fired

    def run(self, queries: Numbers, threshold: SupportsIndex) -> int | None:
        """Checks in a row, up to the first that fires: its place, or None. Vectorised.

        What is left after a firing was not read, and has to be shown again.
        """
        counts, threshold = whole_numbers(queries, "queries"), whole(threshold, "a threshold")
        with self._step:
            if self.exhausted or not len(counts):
                return None
            margins = threshold + self._lifted() - counts
            fired = self._noise.first_reaching(
                margins, self._query_scale, self.checks, self.one_sided
            )
            self.checks += len(counts) if fired is None else fired + 1
            if fired is not None:
                self._fire()
            return fired

    def _lifted(self) -> int:
        """The lift, drawn when it is first needed."""
        if self._lift is None:
            at = ("threshold", self.firings, 0)
            self._lift = self._noise.draw(self._lift_scale, at, self.one_sided)
        return self._lift

    def _fire(self) -> None:
        self.firings += 1
        if self.refreshed:
            self._lift = None

    def _scales(self) -> tuple[Fraction, Fraction]:
        """Scales of the lift and of the query noise."""
        epsilon, reach = self.cost.epsilon, Fraction(self.sensitivity)
        if self.refreshed:
            each = epsilon / self.releases
            return 2 * reach / each, 4 * reach / each
        return kept_lift_scales(epsilon, self.releases, reach)

    def _promise(self) -> State:
        return {
            "epsilon": str(self.cost.epsilon),
            "releases": self.releases,
            "sensitivity": self.sensitivity,
            "refreshed": self.refreshed,
            "one_sided": self.one_sided,
            "noise": repr(self._noise),
        }

    def _live(self) -> State:
        return {"checks": self.checks, "firings": self.firings, "lift": self._lift}

    def _revive(self, live: State) -> None:
        self.checks = whole_field(live, "checks")
        self.firings = whole_field(live, "firings", most=self.releases)
        self._lift = lift_field(live)


class MistakesMonitor(Spender):
    """Counts mistakes since its epoch began; pays epsilon once, however often it fires.

    Requires: given the answers so far, a replaced example changes the mistakes of one check by at
    most one (a user with up to `cap` rounds: by at most `cap` over all checks together).
    Promises: all answers, over all epochs, are epsilon-differentially private. After Asi, Feldman,
    Koren and Talwar (2023).

    An epoch ends at *every* firing, whatever is then selected, and at a public `restart`: the
    count goes back to zero and the lift is drawn afresh. So a round is read in one epoch only,
    and there its shift, once begun, stays: up is paid by the lift alone, down by the firing alone.

    >>> from littlestone.privacy.rehearsal import ScriptedNoise
    >>> monitor = MistakesMonitor(ScriptedNoise({}), epsilon=1)
    >>> [monitor.check(1, threshold=2) for _ in range(6)]
    [False, True, False, True, False, True]
    """

    def __init__(
        self, noise: Noise, *, epsilon: Real, cap: int = 1, one_sided: bool = True
    ) -> None:
        super().__init__()
        self._noise = noise
        self.cost = Cost(positive(epsilon, "epsilon"))
        self.cap = whole(cap, "cap", least=1)
        self.one_sided = one_sided
        self._scale = noise_scale(self.cap / self.cost.epsilon)
        self.epoch = self.checks = 0
        self._mistakes = 0
        self._lift: int | None = None

    def check(self, mistakes: SupportsIndex, threshold: SupportsIndex) -> bool:
        """Whether this epoch's mistakes, `mistakes` new ones included, reach the threshold."""
        mistakes, threshold = whole(mistakes, "mistakes", least=0), whole(threshold, "a threshold")
        with self._step:
            counted = self._counted(mistakes)
            margin, at = threshold + self._lifted() - counted, ("query", self.checks, 0)
            fired = self._noise.reaches(margin, self._scale, at, self.one_sided)
            # Nothing is counted before its noise is drawn: a failed check can be tried again.
            self._mistakes, self.checks = counted, self.checks + 1
            if fired:
                self._begin_epoch()
            return fired

    def run(self, mistakes: Numbers, thresholds: Numbers) -> int | None:
        """Checks in a row, up to the first that fires: its place, or None. Vectorised.

        What is left after a firing was not read, and has to be shown again.
        """
        fresh = whole_numbers(mistakes, "mistakes", least=0)
        limits = whole_numbers(thresholds, "thresholds")
        if len(fresh) != len(limits):
            raise BadParameter(f"{len(fresh)} checks and {len(limits)} thresholds")
        if len(fresh) == 0:
            return None
        with self._step:
            counted = self._mistakes + np.cumsum(fresh)
            margins = limits + self._lifted() - counted
            fired = self._noise.first_reaching(margins, self._scale, self.checks, self.one_sided)
            self.checks += len(fresh) if fired is None else fired + 1
            self._mistakes = int(counted[-1])
            if fired is not None:
                self._begin_epoch()
            return fired

    def restart(self) -> None:
        """Begin a new epoch; free, when it happens on a public schedule."""
        with self._step:
            self._begin_epoch()

    def _lifted(self) -> int:
        """The lift of this epoch, drawn when it is first needed."""
        if self._lift is None:
            at = ("threshold", self.epoch, 0)
            self._lift = self._noise.draw(self._scale, at, self.one_sided)
        return self._lift

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self._mistakes, self._lift = 0, None

    def _counted(self, mistakes: int) -> int:
        return self._mistakes + mistakes

    def _promise(self) -> State:
        return {
            "epsilon": str(self.cost.epsilon),
            "cap": self.cap,
            "one_sided": self.one_sided,
            "noise": repr(self._noise),
        }

    def _live(self) -> State:
        return {
            "checks": self.checks,
            "epoch": self.epoch,
            "mistakes": self._mistakes,
            "lift": self._lift,
        }

    def _revive(self, live: State) -> None:
        self.checks, self.epoch = whole_field(live, "checks"), whole_field(live, "epoch")
        self._mistakes, self._lift = whole_field(live, "mistakes"), lift_field(live)


def kept_lift_scales(
    epsilon: Fraction, releases: int, reach: Fraction = Fraction(1)
) -> tuple[Fraction, Fraction]:
    """Scales of the lift and of the query noise when one lift serves all releases."""
    lift = epsilon / (1 + _two_thirds_power(2 * releases))
    return reach / lift, 2 * releases * reach / (epsilon - lift)


def _two_thirds_power(n: int) -> Fraction:
    """A rational close to n^(2/3): the best ratio of query budget to lift budget."""
    return Fraction(round(1024 * n ** (2 / 3)), 1024)
