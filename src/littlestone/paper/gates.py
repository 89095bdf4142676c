"""The mechanisms of the paper, whose releases are limited because each of them reads the whole stream.

- `composed_epsilon`, `per_release`: Lemma 5.4, which is true but loose, solved instead of quoted. The
  optimal curve is that of Kairouz, Oh and Viswanath (2015). Rounding is always towards less privacy
  claimed.
- `AboveThreshold` is Algorithm 3, repaired (Thm 3.26 of Dwork and Roth 2014): "if Q_t(D) + nu_i >=
  theta" compares with the bare threshold in print, which loses without bound: the noisy one pays for
  every "no". Its noise is drawn once, not after each firing, which needs less noise for the same
  epsilon.
- `HistSparse` is Alg. 2 of the paper (Lemma 5.3), repaired: every selection reads the whole stream,
  so the number of releases is limited and their costs add up.
- `EveryCheck` has no monitor and selects at every check (Thm 4.2 of the paper); the costs compose
  to what `per_release` solves for.

Proofs: docs/guarantee.md, Theorems 2, 7, 8 and 11.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import SupportsIndex

from littlestone._privacy.accounting import DIGITS, NOTHING, Cost, Guarantee, PrivacyEvent, Unit
from littlestone._privacy.draws import Draw
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.mechanism import Mechanism, State, threshold_noise_field, whole_field
from littlestone._privacy.noise import Noise, noise_scale
from littlestone._privacy.parameters import (
    BadParameter,
    Real,
    context,
    decimal_of,
    enclose_exp,
    positive,
    probability,
    whole,
)
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection, positive_votes

# Far above what rounding to 60 digits can do in a million steps; always added, never taken.
SLACK = Decimal("1e-40")
NEGLIGIBLE = Decimal("1e-80")


def composed_epsilon(cost: Cost, count: int, delta: Fraction) -> Fraction:
    """Return an epsilon for adaptive uses of one cost at a total delta: optimal, rounded up."""
    count = whole(count, "count", least=1)
    if not 0 <= delta < 1:
        raise BadParameter(f"delta must be at least 0 and below 1, not {delta}")
    if cost.delta * count > delta:
        raise BadParameter(f"{count} releases cost more than delta = {float(delta):g} already")
    with localcontext(context(DIGITS, ROUND_HALF_EVEN)) as arithmetic:
        each, total = decimal_of(cost.delta, arithmetic), decimal_of(delta, arithmetic)
        # SLACK is taken from what may be spent, so rounding never spends more than `delta`.
        spare = 1 - (1 - total) / (1 - each) ** count - SLACK
        # Theorem 8: the smallest E is the logarithm of the largest (A_n - D)/B_n.
        steepest = max((a - spare) / b for a, b in _lines(cost.epsilon, count))
        solved = Fraction(max(steepest, Decimal(1)).ln() + SLACK)
    # Basic composition holds too, and is better for few uses.
    return min(solved, cost.epsilon * count)


def _lines(epsilon: Fraction, count: int) -> Iterable[tuple[Decimal, Decimal]]:
    """Yield pairs (A, B): the probability in each world of at most n unlikely answers."""
    # Rounded up: more unlikely answers can only overestimate the curve.
    odds = enclose_exp(-epsilon, DIGITS)[1]
    middle = int(count * odds / (1 + odds))
    lower = _masses(n / odds / (count - n + 1) for n in range(middle, 0, -1))
    upper = _masses((count - n) * odds / (n + 1) for n in range(middle, count))
    masses = lower[:0:-1] + upper
    total = sum(masses)
    first = middle - len(lower) + 1
    ratio = enclose_exp((2 * first - count) * epsilon, DIGITS)[0] * (1 - SLACK)
    # The masses that are left out: at most `count` on either side, each below NEGLIGIBLE.
    a, b = 2 * count * NEGLIGIBLE, Decimal(0)
    for mass in masses:
        a += mass / total * (1 + SLACK)
        b += mass / total * ratio
        ratio /= odds * odds
        yield a, b


def _masses(ratios: Iterable[Decimal]) -> list[Decimal]:
    """Return 1 and its running products with `ratios`, down to the first negligible one."""
    masses = [Decimal(1)]
    for ratio in ratios:
        # Relative to the mode: all masses are divided by their sum later.
        masses.append(masses[-1] * ratio)
        if masses[-1] < NEGLIGIBLE:
            break
    return masses


@cache
def per_release(total: Cost, count: int) -> Cost:
    """Return the cost that each of several adaptive releases may have, solved to nine digits."""
    count = whole(count, "count", least=1)
    plain = Cost(total.epsilon / count, total.delta / count)
    if total.delta == 0 or count == 1:
        return plain
    # Composition is monotone in epsilon, so bisection finds the largest that fits.
    low, high = float(plain.epsilon), float(total.epsilon)
    while high > low * (1 + 1e-9):
        middle = (low + high) / 2
        each = Cost(Fraction(middle), total.delta / (2 * count))
        fits = composed_epsilon(each, count, total.delta) <= total.epsilon
        low, high = (middle, high) if fits else (low, middle)
    solved = Cost(Fraction(low), total.delta / (2 * count))
    # Plain division has the simpler proof: it is given up only for a gain of a tenth.
    return solved if solved.epsilon > plain.epsilon * Fraction(11, 10) else plain


class AboveThreshold(Mechanism):
    """Report which queries exceed a threshold, `releases` times at most (Theorem 2)."""

    def __init__(self, noise: Noise, *, epsilon: Real, releases: int) -> None:
        super().__init__()
        self._noise, self.cost = noise, Cost(positive(epsilon, "epsilon"))
        self.releases = whole(releases, "releases", least=1)
        self.threshold_scale, self.query_scale = map(noise_scale, self._scales())
        self.checks = self.firings = 0
        self._threshold_draw: int | None = None

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
        if self._threshold_draw is None:
            address = ("threshold", 0, 0)
            self._threshold_draw = self._noise.laplace(self.threshold_scale, address)
        # Theorem 2 asks for the threshold noise in every comparison: it pays for every "no".
        gap, address = threshold + self._threshold_draw - query, ("query", self.checks, 0)
        return self._noise.exceeds(gap, self.query_scale, address, one_sided=False)

    def _scales(self) -> tuple[Fraction, Fraction]:
        return sparse_vector_scales(self.cost.epsilon, self.releases)

    def _parameters(self) -> State:
        epsilon, noise = str(self.cost.epsilon), repr(self._noise)
        return {"epsilon": epsilon, "releases": self.releases, "noise": noise}

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


def sparse_vector_scales(epsilon: Fraction, releases: int) -> tuple[Fraction, Fraction]:
    """Return the noise scales of a sparse vector whose threshold noise is drawn once (Theorem 2)."""
    # Theorem 2: threshold noise of scale 1/e1 and query noise of scale 2c/e2 cost e1 + e2. Any
    # split is private; e1 : e2 = 1 : (2c)^(2/3) makes the sum of the two variances least.
    ratio = Fraction(round(1024 * (2 * releases) ** (2 / 3)), 1024)
    threshold_share = epsilon / (1 + ratio)
    return 1 / threshold_share, 2 * releases / (epsilon - threshold_share)


class LimitedGate(Mechanism):
    """Hold what the gates of the paper share: the published key, the releases, the ledger."""

    def __init__(
        self, noise: Noise, selector: Draw[Mapping[bytes, int]], published: bytes, unit: Unit
    ) -> None:
        super().__init__()
        # `str` keys would compare unequal to every selected key, and the published one would never
        # be left out.
        if type(published) is not bytes:
            raise BadParameter(f"the first published key must be bytes, not {published!r}")
        if unit not in ("event", "user"):
            raise BadParameter(f"the unit is 'event' or 'user', not {unit!r}")
        self._noise, self.selector = noise, selector
        self.published, self.unit = published, unit
        self.releases_made = 0

    @property
    def guarantee(self) -> Guarantee:
        """Return what the whole transcript guarantees, however long it gets."""
        return Guarantee.of(self.total, self._noise, self.unit, None)

    @property
    @abstractmethod
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far."""

    @property
    def spent(self) -> Cost:
        """Return what the ledger adds up to: never more than the guarantee."""
        return sum((event.cost for event in self.ledger), NOTHING)

    @property
    @abstractmethod
    def total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""

    def _release(self, ballot: Mapping[bytes, int]) -> Decision:
        """Charge a release, then select. None leaves the published key in place."""
        # Charged first: a selection that fails on the way, or selects None, costs as much
        # (Theorem 7 counts selections, whatever they return).
        # The number is part of every noise address: two releases must not have the same.
        number = self.releases_made
        self.releases_made += 1
        key = self.selector.select(ballot, self._noise, number)
        # None leaves the rule that stands: there is nothing better that may be known.
        if key is not None:
            self.published = key
        return Decision(True, key)

    def _event(self, mechanism: str, cost: Cost) -> PrivacyEvent:
        return PrivacyEvent(mechanism, cost, None, repr(self._noise))

    def _parameters(self) -> State:
        return {"selector": self.selector.parameters(), "unit": self.unit}

    def _state_data(self) -> State:
        return {"published": self.published.hex(), "releases_made": self.releases_made}

    def _load_state_data(self, data: State) -> None:
        self.published = bytes.fromhex(data["published"])
        self.releases_made = whole_field(data, "releases_made")


class HistSparse(LimitedGate):
    """Fire when the published rule has lost its votes, then select by votes (Alg. 2, repaired)."""

    def __init__(
        self,
        noise: Noise,
        *,
        epsilon: Real,
        delta: Real,
        releases: int,
        trees: int,
        threshold: int,
        published: bytes,
        selector: type[StableHistogram] | type[UnknownDomainSelection] = StableHistogram,
        unit: Unit = "event",
    ) -> None:
        self.cost = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        self.releases = whole(releases, "releases", least=1)
        self.trees, self.threshold = whole(trees, "trees", least=1), whole(threshold, "threshold")
        # Theorem 7 with k = releases: e_m = epsilon/2, and the selections share the rest.
        half = self.cost.epsilon / 2
        # Each selection may read all rounds, so the shares add up (basic composition).
        chosen = selector(epsilon=half / releases, delta=self.cost.delta / releases)
        super().__init__(noise, chosen, published, unit)
        # The sparse vector stops after `releases` firings: its cost is for all of them together.
        self.monitor = AboveThreshold(noise, epsilon=half, releases=releases)

    @property
    def exhausted(self) -> bool:
        """Return whether the published key is final."""
        return self.monitor.exhausted

    def check(self, votes: Mapping[bytes, int]) -> Decision:
        """Make one scheduled check of the votes (private); the decision is public."""
        # Before the step: a ballot that cannot be read must not spend anything.
        counts = positive_votes(votes)
        with self._step:
            if self.monitor.check(self.trees - counts.get(self.published, 0), self.threshold):
                return self._release(counts)
            return NO_CHANGE

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        monitor = self._event("sparse vector", self.monitor.cost)
        release = self._event(self.selector.name, self.selector.cost)
        return (monitor, *[release] * self.releases_made)

    @property
    def total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""
        # Theorem 7: selections over the whole stream add up.
        return self.monitor.cost + self.selector.cost.times(self.releases)

    def _parameters(self) -> State:
        public = {"trees": self.trees, "threshold": self.threshold}
        return super()._parameters() | {"monitor": self.monitor._parameters()} | public

    def _state_data(self) -> State:
        return {**super()._state_data(), "monitor": self.monitor._state()}

    def _load_state_data(self, data: State) -> None:
        super()._load_state_data(data)
        self.monitor.resume(data["monitor"])
        # A state in which they differ was edited: it would give more releases than were paid for.
        if self.releases_made != self.monitor.firings:
            raise BadParameter("the state counts releases and firings differently")


class EveryCheck(LimitedGate):
    """Select by the stable histogram at every check, `releases` times at most."""

    def __init__(
        self, noise: Noise, *, epsilon: Real, delta: Real, releases: int, published: bytes
    ) -> None:
        self.releases = whole(releases, "releases", least=1)
        self._budget = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        # Theorem 11: each selection reads the whole stream, so adaptive composition pays for all.
        each = per_release(self._budget, self.releases)
        selector = StableHistogram(epsilon=each.epsilon, delta=each.delta)
        super().__init__(noise, selector, published, "event")

    @property
    def each(self) -> Cost:
        """Return what one selection costs."""
        return self.selector.cost

    @property
    def exhausted(self) -> bool:
        """Return whether every release has been made."""
        return self.releases_made >= self.releases

    def check(self, ballot: Mapping[bytes, int]) -> Decision:
        """Select once; None leaves the published key in place."""
        with self._step:
            return NO_CHANGE if self.exhausted else self._release(ballot)

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        return (self._event(self.selector.name, self.each),) * self.releases_made

    @property
    def spent(self) -> Cost:
        """Return what the releases so far compose to, solved; never more than the guarantee."""
        made = self.releases_made
        if made == 0:
            return NOTHING
        delta = self._budget.delta
        return Cost(composed_epsilon(self.each, made, delta), delta)

    @property
    def total(self) -> Cost:
        """Return the exact cost of everything this gate may ever do."""
        return self._budget

    def _parameters(self) -> dict[str, object]:
        asked = [str(self._budget.epsilon), str(self._budget.delta)]
        return super()._parameters() | {"asked": asked, "releases": self.releases}
