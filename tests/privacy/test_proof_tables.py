"""What Coq defines and what Python runs: the tables of proofs/tables, instance by instance.

A table was computed by Coq from proofs/Executable.v, in exact rationals. Here the real code is run
over every branch of its noise, with exact rationals too: where it draws noise of some scale, a
rational base stands for exp(-1/scale), and the exponential mechanism encloses powers of that base
instead of powers of e. Everything else is the code as it stands. Equal means equal.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import partial
from itertools import accumulate, groupby
from math import ceil
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest

from checks import check_gate, check_monitor
from littlestone._audit.enumeration import (
    BranchingNoise,
    Transcript,
    branches,
)
from littlestone._learners.effect import effect
from littlestone._privacy import draws as draws_module
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import (
    EpochTerms,
    Known,
    Moves,
    SparseExponential,
    StableValues,
    UserBound,
    UserPairs,
    Weights,
    WindowCounts,
    replace_move,
)
from littlestone._privacy.draws import ExponentialMechanism
from littlestone._privacy.gates import Gate, MistakesMonitor
from littlestone._privacy.noise import Address, Noise
from littlestone._privacy.parameters import context, decimal_of
from littlestone._privacy.schedules import Climbing
from littlestone._privacy.selection import (
    GROWTH_BITS,
    AcceptanceCurve,
    StableHistogram,
    UnknownDomainSelection,
    acceptance_bits,
    acceptance_curve,
)
from littlestone.paper import AboveThreshold

PROOFS = Path(__file__).parents[2] / "proofs"
F = Fraction
Instance = dict[str, Any]
Outcome = TypeVar("Outcome", bound=Hashable)
RATE = F(1, 2)


def table(name: str) -> list[Instance]:
    return cast(list[Instance], json.loads((PROOFS / "tables" / f"{name}.json").read_text()))


class RationalNoise(BranchingNoise):
    """Fork over noise whose exp(-1/scale) is a rational: one for the threshold, one for all else.

    The formulas are those of `littlestone._privacy.noise.tail` and of Lemma 1.
    """

    def __init__(
        self,
        path: Sequence[int],
        width: int,
        *,
        base: F,
        query_base: F | None = None,
        whole: bool = False,
    ) -> None:
        super().__init__(path, width)
        self.base, self.query_base = base, base if query_base is None else query_base
        self.whole = whole

    def laplace(self, scale: F, at: Address) -> int:
        a, width = self.base, self.width
        masses = {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-width, width + 1)}
        if self.whole:
            # What lies beyond the width is put at its ends: nothing is lost of a comparison.
            masses[-width] = masses[width] = a**width / (1 + a)
        return self.choose(list(masses.items()))

    def geometric(self, scale: F, at: Address) -> int:
        return self.choose([(k, (1 - self.base) * self.base**k) for k in range(self.width + 1)])

    def exceeds(self, gap: int, scale: F, at: Address, one_sided: bool) -> bool:
        a = self.query_base
        if one_sided:
            yes = a ** max(gap, 0)
        else:
            yes = a**gap / (1 + a) if gap > 0 else 1 - a ** (1 - gap) / (1 + a)
        return self.choose([(answer, p) for answer, p in ((True, yes), (False, 1 - yes)) if p > 0])


def exact_law(
    run: Callable[[Noise], Outcome], x: Instance, width: int = 0
) -> dict[Outcome, Fraction]:
    """The exact law of code that draws its noise at the bases of an instance."""
    base = F(x.get("base", F(1, 2)))
    query_base, whole = F(x.get("query_base", base)), "threshold" in x
    noise = partial(RationalNoise, base=base, query_base=query_base, whole=whole)
    total: defaultdict[Outcome, Fraction] = defaultdict(Fraction)
    for outcome, probability in branches(run, lambda path: noise(path, width)):
        total[outcome] += F(probability)
    return {outcome: p for outcome, p in total.items() if p > 0}


def expected(x: Instance, read: Callable[[Any], Outcome]) -> dict[Outcome, Fraction]:
    """The law that Coq computed."""
    return {read(outcome): F(p) for outcome, p in x["law"] if F(p) > 0}


def key_of(number: int | None) -> bytes | None:
    return None if number is None else bytes([65 + number])


def ballot_of(x: Instance) -> dict[bytes, int]:
    return {bytes([65 + key]): n for key, n in x["votes"]}


def test_the_tables_hold_some_hundred_instances_each_of_its_own() -> None:
    names = sorted(path.stem for path in (PROOFS / "tables").glob("*.json"))
    assert names == ["causes", "counts", "curves", "effect", "exponential", "gate", "histogram",
                     "monitor", "selection", "sparse_vector", "users", "values"]  # fmt: skip
    made = [json.dumps(x) for name in names for x in table(name)]
    assert len(made) == len(set(made)) > 400


def test_the_mistakes_monitor() -> None:
    for x in table("monitor"):

        def run(noise: Noise, x: Instance = x) -> tuple[bool, ...]:
            monitor = MistakesMonitor(noise, epsilon=1)
            return tuple(check_monitor(monitor, *check) for check in x["checks"])

        assert exact_law(run, x, x["width"]) == expected(x, tuple)


def test_the_sparse_vector() -> None:
    for x in table("sparse_vector"):

        def run(noise: Noise, x: Instance = x) -> tuple[bool, ...]:
            monitor = AboveThreshold(noise, epsilon=1, releases=x["releases"])
            return tuple(monitor.check(*check) for check in x["checks"])

        assert exact_law(run, x, x["width"]) == expected(x, tuple)


def test_the_stable_histogram() -> None:
    for x in table("histogram"):
        histogram = StableHistogram(epsilon=1, delta=0.1)
        histogram.threshold = x["tau"]
        law = exact_law(partial(_select, histogram, ballot_of(x)), x, x["width"])
        assert law == expected(x, key_of)


def test_released_counts() -> None:
    for x in table("counts"):

        def run(noise: Noise, x: Instance = x) -> tuple[int, ...]:
            return tuple(WindowCounts(noise, epsilon=1, name="counts").release(x["counts"]))

        assert exact_law(run, x, x["width"]) == expected(x, tuple)


def test_discovered_values() -> None:
    """No count is further than 6 from a threshold, so noise beyond is as good as at the end."""
    for x in table("values"):
        votes = {bytes([65 + place]): n for place, n in enumerate(x["votes"])}

        def run(noise: Noise, x: Instance = x, votes: Any = votes) -> tuple[bool, ...]:
            values = StableValues(noise, Cost(F(1), F(1, 10)))
            values.threshold = x["threshold"]
            released = values.release(votes)
            return tuple(value in released for value in votes)

        assert exact_law(run, x, 6) == expected(x, tuple)


def _select(selector: Any, ballot: Any, noise: Noise) -> Any:
    return selector.select(ballot, noise, 0)


def test_the_acceptance_curves() -> None:
    """Curves of the code, and some on coarser grids; `AcceptanceCurve` checks what Coq checked."""
    own = 0
    for x in table("curves"):
        epsilon, delta = F(x["epsilon"]), F(x["delta"])
        assert x["law"][2] is True
        curve = curve_of(x)
        if x["growth_bits"] == GROWTH_BITS and x["bits"] == acceptance_bits(epsilon, delta):
            assert curve == acceptance_curve(epsilon, delta)
            own += 1
    assert own == 2


def curve_of(x: Instance) -> AcceptanceCurve:
    (growth,), accept, _ = x["law"]
    parameters = F(x["epsilon"]), F(x["delta"]), F(growth)
    return AcceptanceCurve(*parameters, tuple(F(p) for p in accept))


def selector_of(x: Instance) -> UnknownDomainSelection:
    curve = curve_of(table("curves")[x["curve"]])
    selector = UnknownDomainSelection(epsilon=curve.epsilon, delta=curve.delta)
    selector.curve = curve
    return selector


def test_unknown_domain_selection() -> None:
    """Both `law` and the law of `select`, over all of its two uniform integers."""
    for x in table("selection"):
        selector = selector_of(x)
        known = expected(x, key_of)
        law = selector.law(ballot_of(x))
        assert {key: p for key, p in law.items() if p > 0} == known
        assert exact_law(partial(_select, selector, ballot_of(x)), x) == known


class Falling(Climbing):
    """The schedule of the table: public windows and epochs, a threshold that falls with the age."""

    window: int | None = None
    epoch: int | None = None

    def __init__(self, window: int | None, epoch: int | None) -> None:
        super().__init__(lambda ages, refusals: 2 + refusals - ages)
        self.window, self.epoch = window, epoch


def test_the_gate() -> None:
    for x in table("gate"):
        selector = selector_of(x)

        def run(noise: Noise, x: Instance = x, selector: Any = selector) -> Transcript:
            schedule = Falling(x["window"], x["epoch"])
            gate = Gate(noise, epsilon=1, schedule=schedule, draw=selector, published=b"A")
            past: Transcript = ()
            rows: list[bytes] = []
            for key in map(key_of, x["rows"]):
                rows += [] if key is None else [key]
                mistake = int(key not in (None, gate.published))
                past = (*past, check_gate(gate, mistake, Counter(rows)))
                rows = [] if past[-1].drawn else rows
            return past

        def read(outcome: Any) -> Transcript:
            return tuple((fired, key_of(key)) for fired, key in outcome)

        assert exact_law(run, x, x["width"]) == expected(x, read)


def test_what_a_row_does() -> None:
    for x in table("effect"):
        causes = [(bytes([pattern]), outcome) for pattern, outcome in x["causes"]]
        costs, weights = Weights(*x["costs"]), Weights(*x["weights"])
        found = effect(bytes_of(x["listed"]), x["label"], causes, costs, weights)
        assert [found.loss, found.add, found.drop, *(found.cell or ())] == x["law"], x


def bytes_of(patterns: Sequence[int]) -> set[bytes]:
    return {bytes([pattern]) for pattern in patterns}


class PointNoise(RationalNoise):
    """Answer the first 64 bits of a group with a point, and leave the member symbolic."""

    def __init__(self, path: Sequence[int], width: int, *, point: int) -> None:
        super().__init__(path, width, base=F(1, 2))
        self.point = point

    def uniform(self, below: int, at: Address) -> int:
        if at[0] == "group":
            return self.point if at[2] == 1 else 0
        if at[0] == "known":
            # Which of the idle keys of a width it is: one after another is tried.
            return int(at[2])
        return super().uniform(below, at)


def enclose_power(base: F) -> Callable[[F, int], tuple[Decimal, Decimal]]:
    """`enclose_exp`, with exp(-RATE) replaced by a rational base."""

    def enclose(x: F, digits: int) -> tuple[Decimal, Decimal]:
        low, high = context(digits, ROUND_FLOOR), context(digits, ROUND_CEILING)
        steps = -x / RATE
        assert steps.denominator == 1
        power = base ** int(steps)
        return decimal_of(power, low).next_minus(low), decimal_of(power, high).next_plus(high)

    return enclose


def drawn_law(select: Callable[[Noise], Hashable]) -> Iterator[tuple[int, dict[Hashable, F]]]:
    """Yield, group by group, the first point of [0, 2^64) after it, and the shares of its members.

    A group is an interval of points, and its members are those of a uniform integer.
    """

    def first(point: int) -> Hashable:
        """Return the first member of the group in which a point lies."""
        return select(PointNoise((), 0, point=point))

    start = 0
    while start < 2**64:
        group, low, high = first(start), start, 2**64
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if first(middle) == group else (low, middle)
        shares: defaultdict[Hashable, F] = defaultdict(F)
        for key, p in branches(select, partial(PointNoise, width=0, point=start)):
            shares[key] += F(p)
        yield low, dict(shares)
        start = low


def check_draw(select: Callable[[Noise], Hashable], law: Sequence[tuple[Hashable, int, F]]) -> None:
    """Compare a draw with its law: moves with their scores and probabilities.

    The code draws groups of equal score, the best first; the end of each among all points of 64
    bits must be where the law puts it, and the shares within it must be exactly those of the law.
    """
    ordered = sorted(law, key=lambda move: -move[1])
    groups = [list(moves) for _, moves in groupby(ordered, key=lambda move: move[1])]
    masses = [sum((p for _, _, p in moves), F(0)) for moves in groups]
    ends = [ceil(end * 2**64) for end in accumulate(masses)]
    assert ends[-1] == 2**64
    found = list(drawn_law(select))
    # A group that is too light for 64 bits has no point of its own.
    seen = [i for i, end in enumerate(ends) if end > (ends[i - 1] if i else 0)]
    assert [end for end, _ in found] == [ends[i] for i in seen]
    for (_, group), i in zip(found, seen, strict=True):
        assert group == {move: p / masses[i] for move, _, p in groups[i]}


def test_the_exponential_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    for x in table("exponential"):
        monkeypatch.setattr(draws_module, "enclose_exp", enclose_power(F(x["base"])))
        draws_module.step_weights.cache_clear()
        keys = [bytes([65 + n]) for n in range(len(x["scores"]))]
        mechanism = ExponentialMechanism(keys, epsilon=2 * RATE)
        law = [(key, n, F(p)) for key, n, p in zip(keys, x["scores"], x["law"], strict=True)]
        check_draw(partial(_select, mechanism, x["scores"]), law)
    draws_module.step_weights.cache_clear()


def moves_of(weights: Weights, drops: int, adds: Sequence[tuple[int, int]]) -> Moves:
    """Return moves without a count: so many drops, and keys of these widths and numbers."""
    return Moves(
        weights,
        adds=np.zeros((len(adds), 2), np.int64),
        widths=np.array([width for width, _ in adds], dtype=np.intp),
        known=np.array([number for _, number in adds], dtype=np.int64),
        add_key=lambda place: bytes([97 + place]),
        # Idle keys of a width are one entry of the table.
        known_key=lambda width, number: b"idle %d" % width,
        drops=np.zeros((drops, 2), np.int64),
        drop_keys=[bytes([65 + place]) for place in range(drops)],
        replace_key=lambda cause, place: bytes([48 + place]),
    )


def check_moves(x: Instance, terms: EpochTerms, moves: Moves, law: Sequence[str]) -> None:
    """Compare a draw of the causes learner with its law, move by move."""
    replace_weight, replace_penalty = x.get("replace", ["1", 0])
    mechanism = SparseExponential(
        terms,
        delta=F(x["delta"]),
        prior=[F(share) for share in x["prior"]],
        units=x["units"],
        drop_penalty=x["penalty"],
        replace_weight=F(replace_weight),
        replace_penalty=replace_penalty,
    )
    if x["gaps"] is not None:
        # The code finds gaps for powers of e; those of a table are given.
        mechanism.unknown, mechanism.gaps = [F(weight) for weight in x["frequent"]], x["gaps"]
    keys: list[bytes | None] = [None, *(b"-" + key for key in moves.drop_keys)]
    if moves.may_add:
        keys += [b"+" + moves.add_key(place) for place in range(len(moves.adds))]
        keys += [b"+" + moves.known_key(width, 0) for width in range(len(terms.known))]
    for cause, narrower in enumerate(moves.replaces):
        for place in range(len(narrower)):
            new = moves.replace_key(cause, place)
            keys.append(replace_move(moves.drop_keys[cause], new))
    scores = mechanism.table(moves).scores.tolist()
    laws = [(move, n, F(p)) for move, n, p in zip(keys, scores, law, strict=True) if F(p) > 0]
    check_draw(partial(_select, mechanism, moves), laws)


def test_the_draw_of_the_causes_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drops, replaces, known and unknown keys, frequent ones too, and a limit."""
    for x in table("causes"):
        monkeypatch.setattr(draws_module, "enclose_exp", enclose_power(F(x["base"])))
        draws_module.step_weights.cache_clear()
        moves = moves_of(
            Weights(*x["weights"]), len(x["drops"]), [add[:2] for add in x["adds"]]
        )._replace(
            replaces=[np.array(counts, np.int64).reshape(-1, 2) for counts in x["replaces"]],
            may_add=x["may_add"],
        )
        moves.drops[:] = np.array(x["drops"]).reshape(-1, 2)
        moves.adds[:] = np.array([add[2:] for add in x["adds"]]).reshape(-1, 2)
        known = tuple(Known(keys, F(weight)) for keys, weight in x["known"])
        terms = EpochTerms(F(1), RATE * x["units"], F(2), known, x["margin"])
        check_moves(x, terms, moves, x["law"])
    draws_module.step_weights.cache_clear()


def pairs_of(pairs: Sequence[Sequence[int]]) -> UserPairs:
    counts = np.array(pairs, np.int64).reshape(-1, 3)
    return UserPairs(counts[:, 1:], counts[:, 0])


def test_the_draw_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the scores, in which the part of each user is clipped, and the draw by them."""
    for x in table("users"):
        monkeypatch.setattr(draws_module, "enclose_exp", enclose_power(F(x["base"])))
        draws_module.step_weights.cache_clear()
        units, lowest, weights = x["units"], x["lowest"], Weights(*x["weights"])
        drops, adds, law = x["law"]
        drop_pairs, add_pairs = pairs_of(x["drops"]), pairs_of(x["adds"])
        clipped = partial(UserPairs.score, weights=weights, lowest=-lowest, highest=units)
        assert [-n for n in clipped(drop_pairs, size=len(drops)).tolist()] == drops
        assert clipped(add_pairs, size=len(adds)).tolist() == adds
        # A key of each width: the prior of a place is that of its width.
        moves = moves_of(weights, len(drops), [(place, -1) for place in range(len(adds))])
        moves = moves._replace(drop_pairs=drop_pairs, add_pairs=add_pairs)
        users = UserBound(F(lowest, units), x["rounds"])
        terms = EpochTerms(F(0), RATE * units, F(2), users=users)
        check_moves(x, terms, moves, law)
    draws_module.step_weights.cache_clear()
