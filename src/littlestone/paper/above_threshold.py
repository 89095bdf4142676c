"""Report which queries exceed a threshold: Algorithm 3, repaired (Thm 3.26 of Dwork and Roth 2014).

"If Q_t(D) + nu_i >= theta" compares with the bare threshold in print, which loses without bound: the
noisy one pays for every "no". Its noise is drawn once, not after each firing, which needs less noise
for the same epsilon (docs/guarantee.md, Theorem 2).
"""

from fractions import Fraction
from typing import SupportsIndex

from littlestone._privacy.mechanism import State, threshold_noise_field, whole_field
from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import Real, whole
from littlestone._privacy.sparse_vector import Monitor


class AboveThreshold(Monitor):
    """Report which queries exceed a threshold, `releases` times at most (Theorem 2)."""

    _one_sided = False

    def __init__(self, noise: Noise, *, epsilon: Real, releases: int, sensitivity: int = 1) -> None:
        super().__init__(noise, epsilon)
        self.releases = whole(releases, "releases", least=1)
        self.sensitivity = whole(sensitivity, "sensitivity", least=1)
        self.firings = 0
        self._set_scales()

    @property
    def exhausted(self) -> bool:
        """Return whether every firing has been used."""
        return self.firings >= self.releases

    def check(self, query: SupportsIndex, threshold: SupportsIndex) -> bool:
        """Return whether the noisy query exceeds the noisy threshold, or equals it."""
        query, threshold = whole(query, "a query"), whole(threshold, "a threshold")
        with self._step:
            if self.exhausted:
                return False
            fired = self._exceeds(query, threshold)
            self.checks += 1
            # Theorem 2: at most `releases` firings are paid for; after the last all answers are no.
            self.firings += fired
            return fired

    def _exceeds(self, query: int, threshold: int) -> bool:
        """Return whether one noisy query exceeds the noisy threshold."""
        # Theorem 2 asks for the threshold noise in every comparison: it pays for every "no".
        gap, at = threshold + self._threshold_noise() - query, ("query", self.checks, 0)
        return self._noise.exceeds(gap, self._query_scale, at, one_sided=self._one_sided)

    def _scales(self) -> tuple[Fraction, Fraction]:
        return sparse_vector_scales(self.cost.epsilon, self.releases, Fraction(self.sensitivity))

    def _parameters(self) -> State:
        own = {"releases": self.releases, "sensitivity": self.sensitivity}
        return {"epsilon": str(self.cost.epsilon), **own, "noise": repr(self._noise)}

    def _state_data(self) -> State:
        return {
            "checks": self.checks,
            "firings": self.firings,
            "threshold_noise": self._threshold_draw,
        }

    def _load_state_data(self, data: State) -> None:
        self.checks = whole_field(data, "checks")
        self.firings = whole_field(data, "firings", most=self.releases)
        self._threshold_draw = threshold_noise_field(data)


def sparse_vector_scales(
    epsilon: Fraction, releases: int, sensitivity: Fraction = Fraction(1)
) -> tuple[Fraction, Fraction]:
    """Return the noise scales of a sparse vector whose threshold noise is drawn once (Theorem 2)."""
    # Theorem 2: threshold noise of scale D/e1 and query noise of scale 2cD/e2 cost e1 + e2. Any
    # split is private; e1 : e2 = 1 : (2c)^(2/3) makes the sum of the two variances least.
    ratio = Fraction(round(1024 * (2 * releases) ** (2 / 3)), 1024)
    own = epsilon / (1 + ratio)
    return sensitivity / own, 2 * releases * sensitivity / (epsilon - own)
