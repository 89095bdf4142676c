"""Black-box auditors from outside, on our mechanisms and on the planted faults of tests/privacy.

Three published auditors are written here from their papers' definitions. None of them reads the
code: they draw outputs on two neighbouring inputs and test whether these could come from a
mechanism with the claimed (epsilon, delta).

- StatDP (Ding, Wang, Wang, Zhang and Kifer 2018): choose one event of a list on one half of the
  samples, thin its count by exp(-epsilon), and compare with Fisher's exact test on the other.
- DP-Sniper (Bichsel, Steffen, Bogunovic and Vechev 2021): train a classifier to tell the two inputs
  apart; the attack set holds the outputs it is surest of, cut (with ties broken at random) so that
  it has probability c = 0.01 under the second input; Clopper and Pearson bound the ratio. For pure
  epsilon only.
- Delta-Siege (Lokna, Paradis, Dimitrov and Vechev 2023): the same classifier for (epsilon, delta).
  Claims are ordered by one number rho, and the cut is where the largest rho is refuted. Here the
  claims of rho are (rho epsilon, rho delta), so a rho above 1 refutes ours.

Each gets the same inputs, and on these rho is also computed exactly, over all noise; then on inputs
of docs/guarantee.md that are extremal, at outputs of any probability, however small.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module
from math import exp, inf, log
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from scipy.stats import hypergeom
from sklearn.linear_model import LogisticRegression

from bench.output import publish, publish_text
from littlestone._audit.audit import lower_bound, upper_bound
from littlestone._audit.enumeration import (
    ByLaw,
    World,
    delta_at,
    largest_loss,
    law,
    transcripts,
)
from littlestone._privacy.causes import EpochTerms, Moves, SparseExponential, Weights
from littlestone._privacy.draws import ExponentialMechanism
from littlestone._privacy.gates import MistakesMonitor
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection
from littlestone.paper import AboveThreshold

# Inputs on which a fault is to be seen at 10,000 outputs, as far as some were found: of random
# ones, enumeration said which show most at a confidence of 95 %. Each check has a query, or the
# number of mistakes, and a threshold.
Worlds = tuple[list[tuple[int, int]], list[tuple[int, int]]]
SPARSE: Worlds = (
    [(1, 0), (-1, 0), (-3, 0), (7, 0), (6, 0), (3, 0)],
    [(0, 0), (0, 0), (-4, 0), (8, 0), (7, 0), (2, 0)],
)
SHARED: Worlds = (
    [(4, 5), (2, 5), (0, -1), (1, 5), (2, 3), (1, 3)],
    [(5, 5), (2, 5), (0, -1), (1, 5), (2, 3), (1, 3)],
)
CLAMPED: Worlds = (
    [(5, 3), (5, 0), (3, 1), (5, 0), (4, 3)],
    [(6, 3), (5, 0), (3, 1), (5, 0), (4, 3)],
)
SAMPLES = 10_000
AUDITORS, ENUMERATED = ("StatDP", "DP-Sniper", "Delta-Siege"), "enumeration only"
SMALLEST_EVENT = 0.01
MISS = 0.05
THINNINGS = 20
Output = tuple[int, ...]
Mechanism = Callable[[Noise, Any], Output]
Features = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Target:
    """Hold a mechanism, what it claims, two neighbouring inputs, and what enumeration computes."""

    name: str
    faulty: bool
    epsilon: float
    delta: float
    mechanism: Mechanism
    inputs: tuple[Any, Any]
    stepper: Callable[[Noise], Any] | None = None
    known: Callable[[Any], Any] | None = None
    extremal: Callable[[], float] | None = None

    def samples(
        self, count: int, noise: Callable[[int], Noise]
    ) -> tuple[list[Output], list[Output]]:
        """Draw outputs of both inputs, from the code as it runs; `noise` is that of a run."""
        one, two = (
            [self.mechanism(noise(run + half * count), x) for run in range(count)]
            for half, x in enumerate(self.inputs)
        )
        return one, two

    def laws(self) -> tuple[Any, Any]:
        """Return the exact laws of the output on both inputs."""
        one, two = map(self._law, self.inputs)
        return one, two

    def _law(self, x: Any) -> Any:
        if self.known is not None:
            return self.known(x)
        if self.stepper is not None:
            return transcripts(self.stepper, scripted(x), len(x))
        return law(lambda noise: self.mechanism(noise, x))


def scripted(checks: Sequence[tuple[int, int]]) -> World:
    """Return a world that does not react."""
    return lambda past: checks[len(past)]


def statdp(one: Sequence[Output], two: Sequence[Output], epsilon: float, seed: int) -> float:
    """Return StatDP's p-value for the claim P(one in E) <= exp(epsilon) P(two in E)."""
    draw, half = np.random.default_rng(seed), len(one) // 2
    events = [*candidates([*one[:half], *two[:half]])]
    chosen = min(events, key=lambda e: p_value(e, one[:half], two[:half], epsilon, draw))
    return p_value(chosen, one[half:], two[half:], epsilon, draw)


def candidates(outputs: Sequence[Output]) -> Iterator[Callable[[Output], bool]]:
    """Yield events: every common output, every value of a place, every sum."""
    for output, _ in Counter(outputs).most_common(60):
        yield partial(_equals, output)
    for place in range(len(outputs[0])):
        for value in {output[place] for output in outputs}:
            yield partial(_has, place, value)
    for value in {sum(output) for output in outputs}:
        yield partial(_sums_to, value)


def _equals(known: Output, output: Output) -> bool:
    return output == known


def _has(place: int, value: int, output: Output) -> bool:
    return output[place] == value


def _sums_to(value: int, output: Output) -> bool:
    return sum(output) == value


def p_value(
    event: Callable[[Output], bool],
    one: Sequence[Output],
    two: Sequence[Output],
    epsilon: float,
    draw: np.random.Generator,
) -> float:
    """Return the p-value of one event, whose count is thinned by exp(-epsilon)."""
    first, second, runs = sum(map(event, one)), sum(map(event, two)), len(one)
    thinned = draw.binomial(first, exp(-epsilon), THINNINGS)
    return float(np.mean(hypergeom.sf(thinned - 1, 2 * runs, runs, thinned + second)))


def features(outputs: Sequence[Output]) -> Features:
    """Return what the classifier sees: the places, their sum, and where the first 1 is."""
    table = np.array(outputs, dtype=np.float64)
    first = np.where((table == 1).any(axis=1), (table == 1).argmax(axis=1), table.shape[1])
    return np.column_stack([table, table.sum(axis=1), first])


def trained(one: Sequence[Output], two: Sequence[Output]) -> Callable[[Sequence[Output]], Features]:
    """Train the classifier; return the probability that outputs came from the first input."""
    table, labels = features([*one, *two]), np.repeat([1, 0], [len(one), len(two)])
    # One indicator for each value of a place: keys have no order.
    values = [np.unique(column) for column in table.T]

    def encoded(rows: Features) -> Features:
        return np.column_stack(
            [rows[:, [n]] == known for n, known in enumerate(values)]
        ).astype(np.float64)  # fmt: skip

    model = LogisticRegression(max_iter=500).fit(encoded(table), labels)

    def surest(outputs: Sequence[Output]) -> Features:
        # Rounded, so that equal outputs have equal scores in batches of any size.
        found: Features = model.predict_proba(encoded(features(outputs)))[:, 1]
        return np.round(found, 9)

    return surest


def dp_sniper(one: Sequence[Output], two: Sequence[Output], seed: int) -> float:
    """Return DP-Sniper's lower bound on epsilon: what it is surest of, down to probability c."""
    draw, half = np.random.default_rng(seed), len(one) // 2
    surest = trained(one[:half], two[:half])
    order = np.sort(surest(two[:half]))[::-1]
    cut = order[int(SMALLEST_EVENT * half)]
    above = float(np.mean(order > cut))
    ties = float(np.mean(order == cut))
    share = (SMALLEST_EVENT - above) / ties if ties else 0.0

    def hits(outputs: Sequence[Output]) -> int:
        score = surest(outputs)
        chosen = (score > cut) | ((score == cut) & (draw.random(len(score)) < share))
        return int(chosen.sum())

    likely, unlikely, runs = hits(one[half:]), hits(two[half:]), len(one) - half
    low, high = lower_bound(likely, runs, MISS / 4), upper_bound(unlikely, runs, MISS / 4)
    return log(low / high) if low > 0 else -inf


def delta_siege(
    one: Sequence[Output], two: Sequence[Output], epsilon: float, delta: float
) -> float:
    """Return the largest rho for which (rho epsilon, rho delta) is refuted."""
    third = len(one) // 3
    surest = trained(one[:third], two[:third])

    scores = [surest(world[third : 3 * third]) for world in (one, two)]

    def at(cut: float, start: int) -> float:
        likely, unlikely = (int((score[start : start + third] >= cut).sum()) for score in scores)
        low, high = lower_bound(likely, third, MISS / 4), upper_bound(unlikely, third, MISS / 4)
        return refuted_rho(low, high, epsilon, delta)

    cuts = np.unique(np.concatenate([score[:third] for score in scores]))
    # The cut is chosen on the second third of the outputs, and counted on the last.
    return at(max(cuts[-200:], key=lambda cut: at(cut, 0)), third)


def exact_rho(one: Any, two: Any, epsilon: float, delta: float) -> float:
    """Return the same number from exact laws: over all sets of outputs, without an error."""
    if delta == 0:
        return largest_loss(one, two) / epsilon
    least, most = 0.0, 100.0
    for _ in range(60):
        rho = (least + most) / 2
        refuted = delta_at(min(rho * epsilon, 700), one, two) > rho * delta
        least, most = (rho, most) if refuted else (least, rho)
    return least


def refuted_rho(low: float, high: float, epsilon: float, delta: float) -> float:
    """Return the largest rho with low > exp(rho epsilon) high + rho delta, by bisection."""
    least, most = 0.0, 100.0
    if low <= high:
        return 0.0
    for _ in range(60):
        rho = (least + most) / 2
        refuted = log(low) > rho * epsilon + log(high) if delta == 0 else (
            low > exp(min(rho * epsilon, 700)) * high + rho * delta
        )  # fmt: skip
        least, most = (rho, most) if refuted else (least, rho)
    return least


def _checked(monitor: Any, query: int, limit: int) -> bool:
    if isinstance(monitor, MistakesMonitor):
        return monitor.advance([query], limit) is not None
    return bool(monitor.check(query, limit))


def monitored(make: Callable[[Noise], Any]) -> Mechanism:
    """Return a monitor as a mechanism: checks in, answers out."""

    def run(noise: Noise, checks: Sequence[tuple[int, int]]) -> Output:
        monitor = make(noise)
        return tuple(int(_checked(monitor, *check)) for check in checks)

    return run


def selected(selector: Any) -> Mechanism:
    """Return a selector as a mechanism: a ballot in, the place of the key out, 0 for None."""

    def run(noise: Noise, ballot: Any) -> Output:
        key = selector.select(ballot, noise, 0)
        return (0 if key is None else 1 + key[0] - ord("a"),)

    return run


def gains(*keys: bytes) -> Moves:
    """Return what an epoch of one row knows that lists these keys: each has one positive row."""
    return Moves(
        Weights(1, 1),
        np.array([[0, 1]] * len(keys), dtype=np.int64).reshape(-1, 2),
        np.zeros(len(keys), dtype=np.intp),
        np.full(len(keys), -1),
        lambda place: keys[place],
        lambda width, number: b"",
        np.zeros((0, 2), dtype=np.int64),
        (),
    )


def moved(selector: SparseExponential) -> Mechanism:
    """Return the draw of the causes learner as a mechanism: gains in, 1 for a key out."""
    return lambda noise, ballot: (int(selector.select(ballot, noise, 0) is not None),)


class TwiceTheRate(ExponentialMechanism):
    """Weighs by exp(epsilon score / D): as if the sum of the weights did not move."""

    def __init__(self, candidates: Sequence[bytes], *, epsilon: float) -> None:
        super().__init__(candidates, epsilon=epsilon)
        self.rate *= 2


class OneVoteEarly(UnknownDomainSelection):
    """Accepts a key as if it had one vote more."""

    def __init__(self, *, epsilon: float, delta: float) -> None:
        super().__init__(epsilon=epsilon, delta=delta)
        accept = (*self.curve.accept[:1], *self.curve.accept[2:])
        object.__setattr__(self.curve, "accept", accept)


def drawn(mechanism: ExponentialMechanism) -> Mechanism:
    """Return the exponential mechanism as one: scores in, a place out."""
    places = {key: place for place, key in enumerate(mechanism.candidates)}
    return lambda noise, scores: (places[mechanism.select(scores, noise, 0) or b""],)


def likelihood(
    make: Callable[[Noise], Any], worlds: Worlds, only: tuple[bool, ...]
) -> Callable[[], float]:
    """Return the exact loss at one transcript, for inputs of enumeration's own choice."""

    def loss() -> float:
        one, two = (transcripts(make, scripted(checks), len(only), only) for checks in worlds)
        return largest_loss(one, two)

    return loss


def targets() -> Iterator[Target]:
    """Yield mechanisms and faults, each on inputs near its thresholds, where most is to be seen."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    faults = import_module("privacy.faults")
    yield from sparse_vectors(faults)
    yield from monitors(faults)
    yield from draws(faults)
    yield from histograms(faults)
    yield from selections()


def sparse_vectors(faults: Any) -> Iterator[Target]:
    """Yield the sparse vector of Theorem 2 and its faults."""
    quiet, worst = ([(0, 0)] * 9, [(1, 0)] * 9), ([(11, 0)] * 12, [(10, 0)] * 12)
    for make, name in (
        (AboveThreshold, "sparse vector, c = 1"),
        (faults.PrintedAlgorithm3, "Alg. 3 as printed"),
    ):
        stepper = partial(make, epsilon=1, releases=1)
        extremal = likelihood(stepper, worst, (False,) * 12)
        yield Target(name, make is not AboveThreshold, 1, 0, monitored(stepper), quiet,
                     stepper=stepper, extremal=extremal)  # fmt: skip
    only = (*(False,) * 10, True, True, True)
    one, two = ([(-100 - s if fired else 40 + s, 0) for fired in only] for s in (0, 1))
    for make, name in (
        (AboveThreshold, "sparse vector, c = 3"),
        (faults.HalvedNoise, "all noise halved"),
        (faults.QueryNoiseNotScaled, "query noise not scaled by c = 3"),
    ):
        stepper = partial(make, epsilon=1, releases=3)
        extremal = likelihood(stepper, (one, two), only)
        yield Target(name, make is not AboveThreshold, 1, 0, monitored(stepper), SPARSE,
                     stepper=stepper, extremal=extremal)  # fmt: skip


def monitors(faults: Any) -> Iterator[Target]:
    """Yield the mistakes monitor of Theorem 3 and its faults."""
    near = [(1, 2), (0, 2), (1, 2), (0, 2)], [(0, 2), (0, 2), (1, 2), (0, 2)]
    down = ([(0, 40)] * 3, [(1, 40), (0, 40), (0, 40)]), (True,) * 3
    zeros, fives = [(0, 0)] * 11 + [(0, 60)] * 3, [(5, 0)] * 11 + [(0, 0)] * 2 + [(0, 60)]
    up = ([(12, 0), *zeros], [(13, 0), *zeros]), (*(False,) * 12, True, True, True)
    away = ([(10, 0), *fives], [(11, 0), *fives]), (*(False,) * 14, True)
    silent = ([(0, 1), (0, 1)], [(0, 1), (1, 1)]), (False, True)
    for make, name, inputs, (worlds, only) in (
        (MistakesMonitor, "mistakes monitor", near, down),
        (faults.CountKeptAtFiring, "count kept at a firing", near, down),
        (faults.ThresholdNoiseShared, "threshold noise shared", SHARED, up),
        (faults.Clamped, "count clamped at zero", CLAMPED, away),
        (faults.NoQueryNoise, "no query noise", near, silent),
        (faults.SkipsQuietChecks, "quiet checks skipped", near, silent),
    ):
        stepper = partial(make, epsilon=1)
        extremal = likelihood(stepper, worlds, only)
        yield Target(name, make is not MistakesMonitor, 1, 0, monitored(stepper), inputs,
                     stepper=stepper, extremal=extremal)  # fmt: skip


def draws(faults: Any) -> Iterator[Target]:
    """Yield the exponential mechanism, the draw of causes, and a fault of each."""
    keys, scores = [bytes([97 + n]) for n in range(8)], ([1, *[0] * 7], [0, *[1] * 7])
    for name, mechanism in (
        ("exponential mechanism", ExponentialMechanism(keys, epsilon=1)),
        ("weights at double rate", TwiceTheRate(keys, epsilon=1)),
    ):
        yield Target(
            name, isinstance(mechanism, TwiceTheRate), 1, 0, drawn(mechanism), scores,
            known=partial(_weights_of, mechanism), extremal=partial(_exact_weights, mechanism),
        )  # fmt: skip
    for kind, name in (
        (SparseExponential, "draw of causes"),
        (faults.GainWithoutOneOff, "gain instead of gain - 1"),
    ):
        terms = EpochTerms(Fraction(1), Fraction(1, 2), Fraction(2))
        draw = kind(terms, delta=Fraction(1, 100), prior=[Fraction(1)], units=1)
        yield Target(
            name, kind is not SparseExponential, 1, 0.01, moved(draw), (gains(b"a"), gains()),
            known=partial(_moves_of, draw),
        )  # fmt: skip


def _moves_of(draw: SparseExponential, found: Moves) -> dict[bytes | None, float]:
    return dict(ByLaw(draw).law(found))


def histograms(faults: Any) -> Iterator[Target]:
    """Yield the stable histogram of Theorem 4 and its faults."""
    a, b = b"a", b"b"
    sound = StableHistogram(epsilon=1, delta=0.01)
    tau, base = sound.threshold, exp(-1 / float(sound.scale))
    # The delta of Theorem 4, which this threshold reaches, and no more.
    delta = base ** (tau - 1) / (1 + base) * 1.0001
    high = tau + 30
    for kind, ballots in (
        (StableHistogram, ({a: 1}, {b: 1})),
        (faults.NoiseForOneContribution, ({a: tau + 2, b: tau + 1}, {a: tau + 1, b: tau + 2})),
        (faults.MassAtThresholdLeftOut, ({a: 1}, {b: 1})),
        (faults.TiesByEntry, ({a: tau + 1, b: tau}, {b: tau + 1, a: tau})),
        (faults.EmptyKeysStay, ({a: 0, b: 0}, {})),
        (faults.TrueTopOfTheKept, ({a: tau + 9, b: tau + 8}, {a: tau + 8, b: tau + 9})),
    ):
        mechanism = selected(kind(epsilon=1, delta=delta))
        # An underdog far above tau, where delta plays no part.
        underdog = {a: high + 1, b: high + 15}, {b: high + 16, a: high}
        yield Target(HISTOGRAMS[kind.__name__], kind is not StableHistogram, 1, delta, mechanism,
                     ballots, extremal=partial(_underdog, mechanism, underdog))  # fmt: skip


def _underdog(mechanism: Mechanism, ballots: tuple[Any, Any]) -> float:
    """Return the exact loss where the first key is selected."""
    one, two = (law(partial(_on, mechanism, ballot)) for ballot in ballots)
    # A fault may never select it.
    return abs(log(one[(1,)] / two[(1,)])) if (1,) in one and (1,) in two else 0.0


def _on(mechanism: Mechanism, ballot: Any, noise: Noise) -> Output:
    return mechanism(noise, ballot)


def selections() -> Iterator[Target]:
    """Yield the selection of Theorem 5 and a fault."""
    for delta in (0.01, 1e-4):
        for kind, name in (
            (UnknownDomainSelection, "unknown-domain selection"),
            (OneVoteEarly, "accepted a vote early"),
        ):
            yield Target(
                f"{name}, delta {delta:g}", kind is OneVoteEarly, 1, delta,
                selected(kind(epsilon=1, delta=delta)), ({b"a": 1}, {b"b": 1}),
            )  # fmt: skip


HISTOGRAMS = {
    "StableHistogram": "stable histogram",
    "NoiseForOneContribution": "histogram noise 1/epsilon",
    "MassAtThresholdLeftOut": "mass at the threshold left out",
    "TiesByEntry": "ties by order of entry",
    "EmptyKeysStay": "keys without votes stay",
    "TrueTopOfTheKept": "the true top of the accepted",
}


def _weights_of(mechanism: ExponentialMechanism, scores: Sequence[int]) -> dict[int, float]:
    """Return the law that the weights say: the code draws 64 bits at a time until it has it."""
    weights = np.exp(float(mechanism.rate) * np.array(scores))
    return dict(enumerate((weights / weights.sum()).tolist()))


def _exact_weights(mechanism: ExponentialMechanism) -> float:
    """Return the exact loss of one score up and 4,000 down, from the weights."""
    up, crowd = exp(float(mechanism.rate)), 4000
    one, two = up / (up + crowd), 1 / (1 + crowd * up)
    return log(one / two)


def audit(target: Target, count: int, noise: Callable[[int], Noise]) -> list[str]:
    """Return a row of the table."""
    one, two = target.samples(count, noise)
    # Both directions, at half of the error each; a bound on a ratio is two bounds, at a quarter.
    both = [(one, two), (two, one)]
    p = min(statdp(x, y, target.epsilon, seed=1) for x, y in both)
    sniper = max(dp_sniper(x, y, seed=1) for x, y in both)
    rho = max(delta_siege(x, y, target.epsilon, target.delta) for x, y in both)
    pure = target.delta == 0
    exact = exact_rho(*target.laws(), target.epsilon, target.delta)
    other = max(exact, target.extremal() / target.epsilon if target.extremal else 0.0)
    found = [
        *(["StatDP"] if pure and p < MISS / 2 else []),
        *(["DP-Sniper"] if pure and sniper > target.epsilon else []),
        *(["Delta-Siege"] if rho > 1 else []),
    ]
    return [
        target.name,
        f"{p:.3f}" if pure else "",
        f"{sniper / target.epsilon:.2f}" if pure else "",
        f"{rho:.2f}",
        *("infinite" if rho > 90 else f"{rho:.2f}" for rho in (exact, other)),
        ", ".join(found) or (ENUMERATED if other > 1.001 else ""),
    ]


def run(arguments: Sequence[str] = ()) -> None:
    """Print the table of docs/results.md, "Auditors from outside"."""
    parser = argparse.ArgumentParser(prog="python -m bench auditors", description=__doc__)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="outputs of each input")
    count = parser.parse_args(list(arguments)).samples
    title = f"Auditors from outside: {count:,} outputs of each input, errors at most 5 %"
    table, secret, rows = Table("mechanism or **fault**", title=title), SystemNoise(), []
    for head in ("StatDP p", "DP-Sniper", "Delta-Siege", "exact", "extremal"):
        table.add_column(head, justify="right")
    table.add_column("found by")
    for target in targets():
        row = audit(target, count, lambda run: secret)
        table.add_row(f"**{row[0]}**" if target.faulty else row[0], *row[1:])
        rows.append((target.faulty, target.delta == 0, row[-1]))
    publish("auditors", table)
    accused = sum(found not in ("", ENUMERATED) for fault, _, found in rows if not fault)
    pure = [found for fault, epsilon_only, found in rows if fault and epsilon_only]
    faults = [found for fault, _, found in rows if fault]
    by = {name: sum(name in found for found in faults) for name in AUDITORS}
    publish_text(
        "auditors.notes",
        f"- {accused} sound mechanisms are accused by an auditor. StatDP finds {by['StatDP']} and "
        f"DP-Sniper {by['DP-Sniper']} of the {len(pure)} faults of pure epsilon, Delta-Siege "
        f"{by['Delta-Siege']} of all {len(faults)}.\n"
        f"- {faults.count(ENUMERATED)} faults are found by enumeration only: losses that add up over "
        "rare answers, a delta that is missed by a factor below 2, ties, and a delta of 1e-4, which "
        f"{count:,} outputs do not show.",
    )
