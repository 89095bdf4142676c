"""Enumerate gates and their parts on families of small neighbours, against their claims.

`enumerated(plan)` takes the plan's own monitor, draw and gate, with its epsilons, its delta and its
noise. Counts that only utility depends on (thresholds, trees, the schedule) are scaled down, and so
is noise too wide to enumerate; the notes say what was changed. Each function that makes findings
runs the code it is given (the real one, or a faulty twin) on all small neighbours and on the
extremal families of docs/guarantee.md, which come close to the claim, so that too little noise is
noticed. Counts are in units of the noise, so any epsilon can be checked.

The smallest learners that can drive a gate are here too, as worlds: rows in, what each check reads
out, given the transcript. Rows may react to the transcript.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np

from littlestone._audit.audit import AnyPlan
from littlestone._audit.enumeration import (
    ByLaw,
    Finding,
    Law,
    Laws,
    Make,
    Transcript,
    World,
    at_one,
    enumerable,
    laplace_mass,
    law,
    transcripts,
    worst,
)
from littlestone._learners.causes_plan import AUTO, KNOWN_WEIGHT, CausesPlan
from littlestone._learners.effect import NORMAL, NULL, Effect, effect
from littlestone._learners.experts import ExpertsPlan
from littlestone._learners.plan import Plan
from littlestone._learners.rate_to_beat import FOLLOW, MOST_RATE, odds, weights_of
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import (
    ADD,
    DROP,
    CausesSchedule,
    EpochTerms,
    Known,
    Moves,
    SparseExponential,
    StableValues,
    Threshold,
    UserPairs,
    Weights,
    WindowCounts,
    replaced,
)
from littlestone._privacy.draws import Draw, ExponentialMechanism, StayOrDraw
from littlestone._privacy.gates import NO_CHANGE, Decision, Gate, MistakesMonitor
from littlestone._privacy.noise import Noise
from littlestone._privacy.schedules import Climbing, Schedule
from littlestone._privacy.selection import SearchOrCompare, StableHistogram, UnknownDomainSelection
from littlestone._privacy.testing import ScriptedNoise

# The widest noise that is enumerated: beyond it, a larger epsilon is enumerated instead.
WIDEST = 256


@dataclass(frozen=True)
class Enumeration:
    """Hold what was found for a plan, and what was not enumerated as it stands."""

    plan: AnyPlan
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Return whether every claim holds on every family."""
        return all(finding.kept for finding in self.findings)


def enumerated(
    plan: AnyPlan, watch: Callable[[Finding], None] = lambda finding: None
) -> Enumeration:
    """Enumerate every mechanism of a plan."""
    findings: list[Finding] = []
    notes, found = _enumerated(plan)
    for finding in found:
        findings.append(finding)
        watch(finding)
    return Enumeration(plan, tuple(findings), tuple(notes))


def _enumerated(plan: AnyPlan) -> tuple[list[str], Iterator[Finding]]:
    if isinstance(plan, ExpertsPlan):
        factor, notes = _narrowed(max(1 / plan.epsilon_monitor, 1 / plan.epsilon_selector))
        larger = replace(
            plan, epsilon=plan.epsilon * factor, epsilon_monitor=plan.epsilon_monitor * factor
        )
        return [*notes, "the gate enumerated with two rules"], _experts_findings(larger)
    if isinstance(plan, CausesPlan):
        return _causes_notes(plan), causes_findings(plan)
    small, notes = scaled_down(plan)
    return notes, _findings(small)


def _experts_findings(plan: ExpertsPlan) -> Iterator[Finding]:
    """Enumerate every mechanism of a plan of private experts."""
    monitor, selector = plan.epsilon_monitor, plan.epsilon_selector
    yield from mistakes_monitor(lambda noise: MistakesMonitor(noise, epsilon=monitor), monitor)
    yield from exponential(selector)
    stays = bool(plan.change_cost)
    yield from rules_findings(monitor, selector, stays=stays, costed=plan.units > 1)


def _causes_notes(plan: CausesPlan) -> list[str]:
    """Return what is not enumerated as the plan has it."""
    units = (
        f"in {GRID} units or fewer (the plan's: {plan.units:,}) and with two known keys: none of it"
    )
    notes = [f"the draw enumerated {units} enters a proof"]
    if plan.watches:
        notes = [
            "the gate enumerated with thresholds of its families and a check each round, or one for "
            f"all rounds (the plan's: every {plan.check_every}), {units}: none of it enters a proof"
        ]
    if plan.baseline == FOLLOW:
        notes.append("the rate to beat follows the stream: enumerated at the least, 1/2, the most")
    if plan.table:
        notes.append(
            "one draw with all that draws may cost: of several the costs add up (Theorem 20)"
        )
    elif not plan.watches:
        notes.append(
            f"claims are for one draw, and {plan.reads} at most read a user: their costs and that of "
            "the evidence add up to those of the plan (Theorem 19)"
        )
    return notes


def _narrowed(widest: Fraction) -> tuple[int, list[str]]:
    """Return the factor by which epsilon is raised so that noise can be enumerated, and a note."""
    # The proof scales with epsilon, so a larger one tests the same code.
    factor = max(1, math.ceil(widest / WIDEST))
    note = (
        f"noise of scale {math.ceil(widest):,} is not enumerated at this size: the same code was, "
        f"at {factor:,} times the plan's epsilon"
    )
    return factor, [note] if factor > 1 else []


def scaled_down(plan: Plan) -> tuple[Plan, list[str]]:
    """Return the plan with counts that can be enumerated, and notes on what was changed."""
    # Privacy is proved for every threshold and schedule: the smallest are enumerated fastest.
    small = replace(plan, thresholds=(1,), check_every=1)
    thresholds = ", ".join(map(str, plan.thresholds))
    notes = [
        f"gates enumerated with a threshold of 1 (the plan's: {thresholds}) and a check each round "
        f"(the plan's: every {plan.check_every}): neither enters a proof"
    ]
    factor, note = _narrowed(max(_query_scale(small), 2 / small.epsilon_selector))
    small = replace(
        small, epsilon=plan.epsilon * factor, epsilon_monitor=plan.epsilon_monitor * factor
    )
    return small, notes + note


def _gate(plan: Plan, noise: Noise) -> Gate[Mapping[bytes, int]]:
    return plan.gate(noise, OLD, lambda: 1)


def _query_scale(plan: Plan) -> Fraction:
    monitor = _gate(plan, ScriptedNoise({})).monitor
    assert monitor is not None
    return monitor.query_scale


def _findings(plan: Plan) -> Iterator[Finding]:
    draw = _gate(plan, ScriptedNoise({})).draw
    assert isinstance(draw, SearchOrCompare)
    search, by_law = draw.search, ByLaw(draw.search)
    yield from mistakes_monitor(
        lambda noise: _gate(plan, noise).monitor, plan.epsilon_monitor, plan.cap or 1
    )
    yield from selection(search, Cost(plan.epsilon_selector, plan.delta_selector))

    def make(noise: Noise) -> Gate[Mapping[bytes, int]]:
        gate = enumerable(_gate(plan, noise))
        assert isinstance(gate.draw, SearchOrCompare)
        # One for all, so that the law of a ballot is computed once.
        gate.draw.search = by_law
        return gate

    claim = Cost(plan.epsilon, plan.delta)
    yield from votes_findings(make, claim, _query_scale(plan), search)


OLD, A, B = b"o", b"a", b"b"
# The row of the next round, given the transcript so far.
Stream = Callable[[Transcript], Any]
QUIET = 8


def fixed(rows: Sequence[Any]) -> Stream:
    """Return rows fixed in advance."""
    return lambda past: rows[len(past)]


def neighbouring_laws(
    law_of: Callable[[Stream], Law], alphabet: Sequence[Any], rounds: int
) -> Iterator[Laws]:
    """Yield the laws of every pair of streams over an alphabet that differ in one round."""
    numbers = range(len(alphabet))
    laws = {
        chosen: law_of(fixed([alphabet[n] for n in chosen]))
        for chosen in product(numbers, repeat=rounds)
    }
    for chosen, place in product(laws, range(rounds)):
        # Both directions are compared for each pair, so one order of it is enough.
        for other in range(chosen[place]):
            yield laws[chosen], laws[(*chosen[:place], other, *chosen[place + 1 :])]


# Votes: a row is the key that it is evidence for; None is a null round.
VOTES = (A, B, None)


class SettlingTranscript:
    """Derive from a transcript what the settling schedule derives from it: a plain twin."""

    def __init__(self, past: Transcript) -> None:
        self.published, self.comparing, self.begin = OLD, False, 0
        self.known: list[bytes] = []
        for number, decision in enumerate(past):
            if not decision.drawn:
                continue
            self.begin = number + 1
            if decision.key is None:
                self.comparing = bool(self.known) and not self.comparing
                continue
            known = [key for key in (*self.known, self.published) if key != decision.key]
            self.published, self.known, self.comparing = decision.key, known, False


def voting(rows: Stream, settles: bool = True, restarted: bool = True) -> World:
    """Return votes for the keys that rows are evidence for, or the mistakes of known keys."""

    def world(past: Transcript) -> tuple[Any, ...]:
        public, row = SettlingTranscript(past), rows(past)
        since = public.begin if restarted else 0
        epoch = [some for n in range(since, len(past) + 1) if (some := rows(past[:n]))]
        wrong = int(row is not None and row != public.published)
        if settles and public.comparing:
            keys = (public.published, *public.known)
            return wrong, {key: sum(some != key for some in epoch) for key in keys}
        return wrong, dict(Counter(epoch))

    return world


# Two rules: a row is what the rules A and B lose on it, in units.
EVEN_ROWS = ((0, 0), (1, 0), (0, 1), (1, 1))
COSTED_ROWS = ((0, 0), (2, 0), (0, 1), (0, 2))


def two_rules(rows: Stream, stays: bool) -> World:
    """Return the losses of two rules, of the last of which one is published, or may be kept."""

    def world(past: Transcript) -> tuple[Any, ...]:
        published, since, changes, refusals = A, 0, 0, 0
        for number, decision in enumerate(past):
            if decision.drawn:
                since, changes = number + 1, changes + (decision.key is not None)
                refusals = refusals + 1 if decision.key is None else 0
                published = decision.key or published
        rounds = [rows(past[:number]) for number in range(since, len(past) + 1)]
        lost = [sum(row[place] for row in rounds) for place in (0, 1)]
        place = (A, B).index(published)
        loss = rows(past)[place]
        if not stays:
            return loss, [-n for n in lost]
        ahead = 1 + changes + bool(refusals)
        scores = [*(-n - ahead for n in lost), -lost[place]]
        return loss, scores, lambda gate: gate.schedule.set_margin(changes)

    return world


class SmallStays(Schedule):
    """Count to a threshold first; after one refusal use windows, and draw at a public age."""

    _margin = 0

    def set_margin(self, margin: int) -> None:
        """Set the margin of the epoch."""
        self._margin = margin

    @property
    def window(self) -> int | None:
        return 1 if self.refusals else None

    @property
    def epoch(self) -> int | None:
        return 2 if self.refusals else None

    def limits(self, ages: Any) -> Any:
        return 1 + self._margin


def rules_gate(
    noise: Noise,
    monitor: Fraction,
    selector: Fraction,
    *,
    stays: bool,
    units: int = 1,
    schedule: Schedule | None = None,
    check_every: int = 1,
) -> Gate[Any]:
    """Return the gate over two rules, at its beginning."""
    kind = StayOrDraw if stays else ExponentialMechanism
    usual = SmallStays() if stays else Climbing(lambda ages, refusals: 1)
    return enumerable(
        Gate(
            noise,
            epsilon=monitor,
            schedule=schedule or usual,
            draw=kind((A, B), epsilon=selector, sensitivity=units),
            published=A,
            check_every=check_every,
            largest_loss=units,
            leave_out_published=stays,
        )
    )


def rules_findings(
    monitor: Fraction, selector: Fraction, *, stays: bool, costed: bool = False
) -> Iterator[Finding]:
    """Enumerate the gate of private experts, with staying or without."""
    claim = Cost(monitor + selector)
    alphabet, units = (COSTED_ROWS, 2) if costed else (EVEN_ROWS, 1)
    rounds = 2

    def law_of(rows: Stream) -> Law:
        def make(noise: Noise) -> Gate[Any]:
            return rules_gate(noise, monitor, selector, stays=stays, units=units)

        return transcripts(make, two_rules(rows, stays), rounds)

    family = f"{len(alphabet) ** rounds} streams of {rounds} rounds"
    yield worst("gate of rules", family, claim, neighbouring_laws(law_of, alphabet, rounds))
    unit = math.ceil(1 / monitor)
    # Many rounds a check, so that the mistakes of one can lie far beyond the threshold noise. The
    # quiet checks are noes although the loss is far above the threshold: they force the threshold
    # noise up, where the replaced round costs most.
    every, lead = 12 * unit, math.ceil(28 / selector)
    only = (*(NO_CHANGE,) * QUIET, Decision(True, B))

    def pinned(noise: Noise) -> Gate[Any]:
        high = 30 * unit
        quiet = Climbing(lambda ages, refusals: np.where(ages <= QUIET * every, 0, high))
        return rules_gate(noise, monitor, selector, stays=stays, schedule=quiet, check_every=every)

    def world(new: int) -> World:
        def inputs(past: Transcript) -> tuple[Any, ...]:
            scores = [0, new - lead, -new] if stays else [-new, new - lead]
            return new if len(past) == QUIET else 0 if past else every, scores

        return inputs

    one, other = (transcripts(pinned, world(new), len(only), only) for new in (1, 0))
    yield at_one("gate of rules", "quiet checks, then an underdog", claim, [(one, other)])


def exponential(epsilon: Fraction) -> Iterator[Finding]:
    """Enumerate the exponential mechanism, on scores that one example moves by one (Theorem 6)."""
    # Pure: the exponential mechanism spends no delta.
    claim, name = Cost(epsilon), ExponentialMechanism.name

    def law_of(scores: Sequence[int]) -> Law:
        keys = [index.to_bytes(2) for index in range(len(scores))]
        return dict(ByLaw(ExponentialMechanism(keys, epsilon=epsilon)).law(scores))

    laws = {scores: law_of(scores) for scores in product(range(3), repeat=3)}
    small = [
        (laws[one], laws[other])
        for one, other in product(laws, laws)
        if all(abs(x - y) <= 1 for x, y in zip(one, other, strict=True))
    ]
    yield worst(name, f"{len(laws)} lists of 3 scores", claim, small)
    lead = 1000 * math.ceil(1 / epsilon)
    many = law_of([1, *[0] * lead]), law_of([0, *[1] * lead])
    yield worst(name, f"one up, {lead:,} down", claim, [many])


def mistakes_monitor(make: Make, epsilon: Fraction, cap: int = 1) -> Iterator[Finding]:
    """Enumerate the monitor of Theorem 3."""
    name, claim = "mistakes monitor", Cost(epsilon)
    length = 5 if cap <= epsilon else 3

    def at(counts: Sequence[int], limits: Sequence[int], only: Transcript | None = None) -> Law:
        return transcripts(
            make, lambda past: (counts[len(past)], limits[len(past)]), len(counts), only
        )

    laws = {counts: at(counts, [1] * length) for counts in product((0, 1), repeat=length)}
    small = [
        (laws[one], laws[other])
        for one, other in product(laws, laws)
        if sum(x != y for x, y in zip(one, other, strict=True)) <= cap
    ]
    yield worst(name, f"{len(laws)} streams of {length} checks", claim, small)

    def scales(count: int) -> int:
        # Whole mistakes. At a large epsilon many would be too rare for floats.
        return math.ceil(count * cap / epsilon)

    # In scales of the noise: high enough that a "no" is unlikely, far enough that a firing is.
    high, far = scales(12), scales(40)
    quiet = (False,) * 12
    extremal: list[tuple[Transcript, list[int], list[int], int]] = [
        (quiet, [high] + [0] * 11, [0] * 12, 0),
        ((*quiet, True), [high] + [0] * 12, [0] * 12 + [far], 12),
        ((True,) * 3, [0] * 3, [far] * 3, 0),
        ((*quiet, True, True, True), [high] + [0] * 14, [0] * 12 + [high + far] * 3, 0),
        (
            (*(False,) * 14, True),
            [scales(10), *[scales(5)] * 11, 0, 0, 0],
            [0] * 14 + [scales(60)],
            0,
        ),
    ]

    pairs = [
        (
            at(counts, limits, only),
            at([n + cap * (i == place) for i, n in enumerate(counts)], limits, only),
        )
        for only, counts, limits, place in extremal
    ]
    yield at_one(name, "a shift up, a shift down, then firings", claim, pairs)


def selection(draw: Draw[Mapping[bytes, int]], claim: Cost) -> Iterator[Finding]:
    """Enumerate a selection of one key by votes (Theorems 4 and 5)."""
    unit = math.ceil(2 / claim.epsilon)
    lead, enough, by_law = 100 * unit, votes_without_delta(draw), ByLaw(draw)

    def pair(one: dict[bytes, int], other: dict[bytes, int]) -> Laws:
        return dict(by_law.law(one)), dict(by_law.law(other))

    counts = list(product(range(4), repeat=2))
    ballots = [({A: a, B: b}, {A: c, B: d}) for a, b in counts for c, d in counts
               if abs(a - c) <= 1 and abs(b - d) <= 1 and abs(a + b - c - d) <= 1]  # fmt: skip
    # A key with zero votes must be the same as a key that is not there.
    small = [*(pair(*ballot) for ballot in ballots), pair({A: 0, B: 0}, {})]
    yield worst(draw.name, "2 keys, up to 3 votes", claim, small)
    steps = sorted({-1, 0, 1, *(unit * n for n in (1, 2, 3, 5, 8, 12, 18, 24, 30))})
    leads = [
        pair({A: n + 1, B: n + step}, {B: n + step + 1, A: n})
        for n in (1, enough)
        for step in steps
        if n + step >= 1
    ]
    yield worst(draw.name, f"leads up to {30 * unit}", claim, leads)
    one, other = pair({A: enough + 1, B: enough + lead}, {B: enough + lead + 1, A: enough})
    underdog = {A: one.get(A, 0.0)}, {A: other.get(A, 0.0)}
    yield at_one(draw.name, f"an underdog wins by {lead}", claim, [underdog])


def votes_without_delta(draw: object) -> int:
    """Return a number of votes at which delta plays no part."""
    if isinstance(draw, UnknownDomainSelection):
        # From here on a drawn key is accepted for certain.
        return len(draw.curve.accept)
    return draw.threshold if isinstance(draw, StableHistogram) else 1


def votes_findings(
    make: Make, claim: Cost, scale: Fraction, draw: Draw[Mapping[bytes, int]]
) -> Iterator[Finding]:
    """Enumerate a gate that selects by votes (Theorem 7), and checks each round."""
    name = "gate of votes"
    length = 3 if scale <= 2 else 2
    pairs = neighbouring_laws(lambda rows: transcripts(make, voting(rows), length), VOTES, length)
    yield worst(name, f"{len(VOTES) ** length} streams of {length} rounds", claim, pairs)
    enough, lead = votes_without_delta(draw), 100 * math.ceil(2 / draw.cost.epsilon)
    ballots = {A: enough + 1, B: enough + lead}, {B: enough + lead + 1, A: enough}

    def constant(mistakes: int, ballot: dict[bytes, int]) -> World:
        return lambda past: (0 if past else mistakes, ballot)

    def at(only: Transcript, one: World, other: World) -> Laws:
        return transcripts(make, one, len(only), only), transcripts(make, other, len(only), only)

    # Firings that release nothing cost as much: they are compared as well.
    extremal = [
        at((Decision(True, A),), constant(1, ballots[0]), constant(0, ballots[1])),
        at((Decision(True, None),) * 4, constant(1, {}), constant(0, {})),
    ]
    yield at_one(name, "one round fires it and wins", claim, extremal)


# Causes: a row is the patterns that it lists and its label, as in `effect`.
CauseRow = tuple[tuple[bytes, ...], int]
NULL_ROW: CauseRow = ((), NULL)
# What joins the conditions of a pattern, and a pattern with its outcome.
AND, OF = b"&", b">"
Causes = tuple[tuple[bytes, int], ...]


def cause_key(pattern: bytes, label: int) -> bytes:
    """Return the key of a cause."""
    return pattern if label == 1 else pattern + OF + b"%d" % label


def cause_of(key: bytes) -> tuple[bytes, int]:
    """Return the pattern and the outcome of a key."""
    pattern, _, label = key.partition(OF)
    return pattern, int(label or 1)


def moved(causes: Causes, move: bytes | None) -> Causes:
    """Return the causes after a move; one that is added removes those of its outcome in it."""
    if move is None:
        return causes
    if move.startswith(DROP):
        return tuple(cause for cause in causes if cause != cause_of(move[1:]))
    if not move.startswith(ADD):
        old, new = replaced(move)
        return moved(moved(causes, DROP + old), ADD + new)
    pattern, label = cause_of(move[1:])
    parts = set(pattern.split(AND))
    kept = [c for c in causes if c[1] != label or not parts < set(c[0].split(AND))]
    return tuple(sorted({*kept, (pattern, label)}))


Effects = Sequence[tuple[CauseRow, Effect]]
# Negative and positive rows.
Pair = tuple[int, int]
ONE_UNIT = Threshold(1)


class CauseWorld:
    """Sum the effects of rows, plainly: the loss of each check, and the moves of an epoch.

    Costs (of the monitor) and weights (of the draw) are functions of the transcript, and so is what
    `tell` tells the gate. Known keys and the narrower ones of a pattern are public.
    """

    def __init__(
        self,
        gate: "CauseGate",
        published: Causes = (),
        limit: int = 8,
        *,
        known: Causes = (),
        narrower: Mapping[bytes, Sequence[bytes]] | None = None,
        costs: Callable[[Transcript], Weights] | None = None,
        weights: Callable[[Transcript], Weights] | None = None,
        tell: Callable[[Transcript], Callable[[Any], object]] = lambda past: lambda gate: None,
    ) -> None:
        self.published, self.limit, self._tell = published, limit, tell
        self.known, self.narrower = known, narrower or {}
        self.costs = costs or (lambda past: gate.costs)
        self.weights = weights or (lambda past: gate.weights)

    def __call__(self, stream: Stream) -> World:
        def world(past: Transcript) -> tuple[Any, ...]:
            causes, since = self.epoch(past)
            rows = [row for n in range(since, len(past) + 1) for row in stream(past[:n])]
            loss = self.check_loss(stream, past, since, causes)
            return loss, self.moves(rows, causes, self.weights(past)), self._tell(past)

        return world

    def epoch(self, past: Transcript) -> tuple[Causes, int]:
        """Return what is published, and the check with which the epoch began."""
        causes, since = self.published, 0
        for number, decision in enumerate(past):
            if decision.drawn:
                since = self.begins(since, number, decision)
                causes = moved(causes, decision.key)
        return causes, since

    def begins(self, since: int, number: int, decision: Decision) -> int:
        """Return the check with which the next epoch begins, after a draw at check `number`."""
        return number + 1

    def effect(self, row: CauseRow, causes: Causes, costs: Weights, weights: Weights) -> Effect:
        """Return what one row does."""
        return effect(*row, causes, costs, weights)

    def check_loss(self, stream: Stream, past: Transcript, since: int, causes: Causes) -> int:
        """Return the loss of the rows of a check: the costs of an epoch stand when it begins."""
        return self.loss(stream(past), causes, self.costs(past[:since]))

    def loss(self, rows: Sequence[CauseRow], causes: Causes, costs: Weights) -> int:
        """Return the loss of rows."""
        return sum(self.effect(row, causes, costs, costs).loss for row in rows)

    def moves(
        self,
        rows: Sequence[CauseRow],
        causes: Causes,
        weights: Weights,
        users: Sequence[int] | None = None,
    ) -> Moves:
        """Return the negative and positive rows that speak on each move; of each user, if given."""
        effects = [(row, self.effect(row, causes, weights, weights)) for row in rows]
        keys = self.active(effects)
        numbered = [[key for key in self.known if key[0].count(AND) == n] for n in range(3)]
        own = [[pair for pair in effects if _cause_of(pair[1]) == n] for n in range(len(causes))]
        narrower = [self.candidates(cause, alone) for cause, alone in zip(causes, own, strict=True)]
        drops = [_pair([e.drop for _, e in alone], sign=-1) for alone in own]
        add_pairs = drop_pairs = None
        if users is not None:
            parts: dict[int, list[tuple[CauseRow, Effect]]] = {user: [] for user in users}
            for pair, user in zip(effects, users, strict=True):
                parts[user].append(pair)
            add_pairs = _user_pairs([[self.net(p, key) for key in keys] for p in parts.values()])
            speaks = [
                [[e.drop for _, e in part if _cause_of(e) == n] for n in range(len(causes))]
                for part in parts.values()
            ]
            drop_pairs = _user_pairs([[_pair(own, sign=-1) for own in some] for some in speaks])
        return Moves(
            weights,
            _pairs([self.net(effects, key) for key in keys]),
            np.array([pattern.count(AND) for pattern, _ in keys], dtype=np.intp),
            np.array([self.number(numbered, effects, key) for key in keys], dtype=np.int64),
            lambda place: cause_key(*keys[place]),
            lambda width, number: cause_key(*numbered[width][number]),
            _pairs(drops),
            [cause_key(*cause) for cause in causes],
            [
                _pairs([self.listing(key, effects, alone) for key in found])
                for found, alone in zip(narrower, own, strict=True)
            ],
            lambda cause, place: cause_key(narrower[cause][place], causes[cause][1]),
            len(causes) < self.limit,
            add_pairs,
            drop_pairs,
        )

    def active(self, effects: Effects) -> list[tuple[bytes, int]]:
        """Return the keys that a row speaks for."""
        listed = ((p, row[1]) for row, e in effects if e.add > 0 for p in row[0])
        return list(dict.fromkeys(listed))

    def net(self, effects: Effects, key: tuple[bytes, int]) -> Pair:
        """Return the negative and positive rows of a key."""
        pattern, label = key
        return _pair(
            [e.add for row, e in effects if pattern in row[0] and (e.add < 0 or row[1] == label)]
        )

    def number(
        self, numbered: Sequence[Causes | list[tuple[bytes, int]]], effects: Effects, key: Any
    ) -> int:
        """Return the place of a key among the known ones of its width, or -1."""
        same = numbered[key[0].count(AND)]
        return same.index(key) if key in same else -1

    def candidates(self, cause: tuple[bytes, int], alone: Effects) -> Sequence[bytes]:
        """Return what a cause may be replaced by."""
        return self.narrower.get(cause[0], ())

    def listing(self, key: bytes, effects: Effects, alone: Effects) -> Pair:
        """Return the negative and positive rows of a cause alone that list a narrower key."""
        return _pair([e.drop for row, e in alone if key in row[0]], sign=-1)


def _cause_of(effect: Effect) -> int | None:
    """Return the place of the cause that a row alone speaks on."""
    return effect.cell[0] if effect.drop and effect.cell else None


def _pair(scores: Sequence[int], sign: int = 1) -> Pair:
    """Count what speaks against, and for; by their sign."""
    return sum(sign * score < 0 for score in scores), sum(sign * score > 0 for score in scores)


def _pairs(pairs: Sequence[Pair]) -> Any:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _user_pairs(by_user: Sequence[Sequence[Pair]]) -> UserPairs:
    """Return what each user has of each key, which may be nothing."""
    places = [place for pairs in by_user for place in range(len(pairs))]
    return UserPairs(_pairs([pair for pairs in by_user for pair in pairs]), np.array(places, int))


@dataclass(frozen=True)
class CauseGate:
    """Hold the parameters of a gate of causes, and make it with any threshold and schedule.

    Costs of the monitor and weights of the draw are in units, and need not be related.
    """

    terms: EpochTerms
    delta: Fraction
    prior: tuple[Fraction, ...]
    costs: Weights
    weights: Weights
    units: int = 1
    drop_penalty: int = 0
    replace_weight: Fraction = Fraction(1)
    replace_penalty: int = 0
    kind: type[SparseExponential] = SparseExponential

    @property
    def claim(self) -> Cost:
        """Return what the gate says that it costs."""
        return self.gate(ScriptedNoise({})).total

    @cached_property
    def draw(self) -> ByLaw:
        """Return the draw, as one that forks once."""
        draw = self.kind(
            self.terms,
            delta=self.delta,
            prior=self.prior,
            units=self.units,
            drop_penalty=self.drop_penalty,
            replace_weight=self.replace_weight,
            replace_penalty=self.replace_penalty,
        )
        return ByLaw(draw)

    def gate(
        self,
        noise: Noise,
        threshold: Threshold = ONE_UNIT,
        check_every: int = 1,
        longest_epoch: int = 1 << 40,
    ) -> Gate[Any]:
        """Return the gate."""
        return Gate(
            noise,
            epsilon=self.terms.monitor or None,
            schedule=CausesSchedule(longest_epoch, threshold),
            draw=self.draw,
            check_every=check_every,
            largest_loss=self.units,
        )

    def begins(self, gate: Gate[Any]) -> None:
        """Tell a gate that an epoch begins with these terms, if one begins."""
        if not gate.epoch_age:
            gate.begin_epoch(self.terms.monitor or None, self.draw)

    def at_once(
        self,
        one: Sequence[CauseRow],
        other: Sequence[CauseRow],
        threshold: int,
        world: CauseWorld | None = None,
    ) -> Laws:
        """Return the laws of two streams that are checked once, at their end."""

        def make(noise: Noise) -> Gate[Any]:
            return self.gate(noise, Threshold(threshold), len(one))

        of = world or CauseWorld(self)
        first, second = (transcripts(make, of(fixed([rows])), 1) for rows in (one, other))
        return first, second

    def drawn(self, rows: Sequence[CauseRow], users: Sequence[int], world: CauseWorld) -> Law:
        """Return the law of a draw without a monitor, from rows of users, or of nobody's."""
        whose = None if self.terms.users is None else users
        return dict(self.draw.law(world.moves(rows, world.published, self.weights, whose)))


# A key is drawn with about this probability where its share of the weight shall not matter.
RARE = math.exp(-7)
CERTAIN = -(10**9)


def positives_of_weights(gate: CauseGate) -> Iterator[int]:
    """Yield the positives, each of its own user, that give a key a weight of RARE, 1 and 1 / RARE."""
    alone = gate.delta / (gate.terms.users.rounds if gate.terms.users else 1)
    least = math.log(float(alone * gate.prior[0]))
    step = float(gate.terms.rate) * gate.weights.positive / gate.units
    for weight in (RARE, 1, 1 / RARE):
        yield max(2, round(1 + (math.log(weight) - least) / step))


def extremal_causes(gate: CauseGate, listed: Sequence[bytes]) -> Iterator[tuple[str, Laws]]:
    """Yield pairs of streams that cost all that is claimed, each with its family in words."""
    yield "keys of one row alone", gate.at_once([(tuple(listed), 1)], [NULL_ROW], CERTAIN)
    rare, even, many = positives_of_weights(gate)
    positive, negative, leading = ((b"k",), 1), ((b"k",), NORMAL), ((b"l",), 1)
    # A firing is unlikely by exp(-gap) from gap 1 on: any shift is paid in full.
    high = gate.costs.positive * (rare + 2)
    rows: list[CauseRow] = [positive] * (rare - 1)
    yield (
        "a missed positive or a negative of a rare key",
        gate.at_once([*rows, positive], [*rows, negative], high),
    )
    # Of the two kinds of rows, those that weigh more.
    label = 1 if gate.weights.positive >= gate.weights.negative else NORMAL
    rows = [*[positive] * (even - 1), *[leading] * (many - 1)]
    yield (
        "a row of a rare key or of a leading one",
        gate.at_once([*rows, ((b"k",), label)], [*rows, ((b"l",), label)], CERTAIN),
    )


def unwatched_draws(gate: CauseGate, listed: Sequence[bytes]) -> Iterator[tuple[str, Laws]]:
    """Yield neighbours that cost all that a draw without a monitor claims (Theorems 19 and 20).

    They differ in one row, or in all rows of one user that are read.
    """
    bound, unit = gate.terms.users, "row" if gate.terms.users is None else "user"
    rounds, lowest = (1, Fraction(1)) if bound is None else (bound.rounds, bound.lowest)

    def laws(one: list[CauseRow], other: list[CauseRow], rest: list[CauseRow]) -> Laws:
        users = [*[0] * len(one), *range(1, len(rest) + 1)]
        world = CauseWorld(gate)
        return gate.drawn([*one, *rest], users, world), gate.drawn([*other, *rest], users, world)

    # Of users each round names keys of its own.
    keys = [tuple(b"%d " % number + key for key in listed) for number in range(rounds)]
    yield f"keys of one {unit} alone", laws([(row, 1) for row in keys], [NULL_ROW] * rounds, [])
    _, even, many = positives_of_weights(gate)

    def moved_by(positives: int) -> int:
        """Return how far a unit of so many positives of one key, and negatives of another, moves."""
        up, down = gate.weights.positive * positives, gate.weights.negative * (rounds - positives)
        return min(up, gate.units) + min(down, math.floor(lowest * gate.units))

    best = max(range(rounds + 1), key=moved_by)
    rest: list[CauseRow] = [*[((b"k",), 1)] * (even - 1), *[((b"l",), 1)] * (many - 1)]
    draw = gate.draw.draw
    assert isinstance(draw, SparseExponential)
    if gap := draw.gaps[0]:
        # Frequent keys: negatives count only beyond the gap; positives make up for the rest of them.
        least = min(gate.weights.negative, math.floor(lowest * gate.units))
        against = math.ceil((gap + 3 * gate.units) / least)
        more = math.ceil(2 * gate.units / gate.weights.positive)
        for key in (b"k", b"l"):
            rest += [*[((key,), NORMAL)] * against, *[((key,), 1)] * more]
    both: list[list[CauseRow]] = [
        [*[((up,), 1)] * best, *[((down,), NORMAL)] * (rounds - best)]
        for up, down in ((b"k", b"l"), (b"l", b"k"))
    ]
    yield f"a {unit} of a rare key or of a leading one", laws(both[0], both[1], rest)


def window_findings(
    name: str, epsilon: Fraction, rounds: int = 1, sensitivity: int | None = None
) -> Iterator[Finding]:
    """Enumerate the counts of windows, in which replaced rounds leave one cell for another."""
    # So many rounds of a unit, each in a window of its own.
    most = 2 * rounds if sensitivity is None else sensitivity
    scale = WindowCounts(ScriptedNoise({}), epsilon=epsilon, name=name, sensitivity=most).scale
    pairs = {
        "a round becomes a null round": ((1, 0), (0, 0)),
        "a round moves from one cell to another": ((1, 0), (0, 1)),
    }
    for family, (one, other) in list(pairs.items())[:most]:
        largest = 0.0
        for counts in product(range(-3, 4), repeat=2):
            p, q = (
                math.prod(
                    laplace_mass(n - cell, scale) for n, cell in zip(counts, cells, strict=True)
                )
                for cells in (one, other)
            )
            largest = max(largest, abs(math.log(p / q)))
        family += f", in each of {rounds} windows" * (rounds > 1)
        yield Finding(name, family, Cost(epsilon), rounds * largest, 0.0)


def values_findings(make: Callable[[Noise], StableValues], claim: Cost) -> Iterator[Finding]:
    """Enumerate the values that are discovered, where a replaced round moves its vote."""

    def law_of(votes: Mapping[bytes, int]) -> Law:
        kept = {value: n for value, n in votes.items() if n}
        return law(lambda noise: tuple(make(noise).release(kept)))

    high = make(ScriptedNoise({})).threshold
    near = [{A: 1, B: 0}, {A: 0, B: 1}, {A: 0, B: 0}]
    yield worst("values", "a vote alone", claim, combinations(map(law_of, near), 2))
    # Released although it has few votes, and not released although it has many: the tails.
    pairs = [(law_of({A: high - 2 + n, B: high + 3 - n}), law_of({A: high - 2, B: high + 3}))
             for n in (0, 1)]  # fmt: skip
    yield worst("values", "a vote that moves", claim, pairs)


# The units in which the gate of a plan is enumerated.
GRID = 100


def cause_gate(plan: CausesPlan, cost: float, units: int = GRID) -> CauseGate:
    """Return the parameters of a plan's gate at odds to beat, without known keys."""
    terms = plan.terms(cost)
    if plan.epsilon_base is not None:
        # Of a table the only draw, which costs everything.
        left = plan.epsilon - plan.epsilon_evidence - plan.epsilon_base
        terms = plan.next_draw(terms, left, 0.0, None) or terms
    draw = plan.draw(terms)
    weights = weights_of(cost, terms.swing, units)
    penalties = draw.drop_penalty, draw.replace_weight, draw.replace_penalty
    return CauseGate(terms, draw.delta, draw.prior, weights, weights, units, *penalties)


def listed_keys(plan: CausesPlan) -> tuple[bytes, ...]:
    """Return the keys of a row that lists as many of each width as the plan allows."""
    return tuple(
        AND.join(b"%d.%d" % (number, part) for part in range(width))
        for width, count in enumerate(map(int, plan.pattern_counts.split()), start=1)
        for number in range(count)
    )


# Rows that a cause p matches, or not, with keys of their own and keys in common.
SMALL_ROWS: tuple[CauseRow, ...] = (
    NULL_ROW,
    *(
        (keys, label)
        for keys in ((b"a", b"b"), (b"a", b"c"), (b"p", b"a"), (b"d",))
        for label in (1, NORMAL)
    ),
)


def causes_findings(plan: CausesPlan) -> Iterator[Finding]:
    """Enumerate the gate and the counts of a plan of causes."""
    rates = [float(plan.given_rate)]
    for rate in [*rates, 0.5, float(MOST_RATE)] if plan.baseline == FOLLOW else rates:
        gate = cause_gate(plan, odds(rate))
        kind = "gate" if plan.watches else "draw"
        name, claim = f"{kind} of causes, rate to beat {rate:.3g}", gate.claim
        # As few units as let a negative row weigh something.
        few = cause_gate(plan, odds(rate), math.ceil(1 / (gate.terms.swing - 1)))
        few = replace(few, terms=few.terms._replace(known=(Known(2, KNOWN_WEIGHT),)))
        world = CauseWorld(few, ((b"p", 1),), known=((b"a", 1), (b"e", 1)))
        rounds = 2 if plan.watches or plan.unit == "event" else 3
        small = (small_causes if plan.watches else small_draws)(few, world, SMALL_ROWS, rounds)
        family = f"{len(SMALL_ROWS) ** rounds} streams of {rounds} rounds"
        yield worst(name, family, claim, small)
        extremal = extremal_causes if plan.watches else unwatched_draws
        for family, laws in extremal(gate, listed_keys(plan)):
            yield worst(name, family, claim, [laws])
    yield from window_findings("evidence", plan.epsilon_evidence, plan.counts_of_unit)
    if plan.epsilon_base is not None:
        yield from window_findings("base rate", plan.epsilon_base, sensitivity=1)
    if plan.watches and plan.min_rate == AUTO:
        yield from window_findings("first window", plan.budget.epsilon)
        yield from values_findings(lambda noise: StableValues(noise, plan.budget), plan.budget)


def small_causes(
    gate: CauseGate, world: CauseWorld, rows: Sequence[CauseRow], rounds: int, **options: Any
) -> Iterator[Laws]:
    """Yield the laws of all small neighbours, a check for each row."""

    def law_of(stream: Stream) -> Law:
        return transcripts(
            lambda noise: gate.gate(noise, **options), world(lambda past: (stream(past),)), rounds
        )

    return neighbouring_laws(law_of, rows, rounds)


def small_draws(
    gate: CauseGate, world: CauseWorld, rows: Sequence[CauseRow], rounds: int
) -> Iterator[Laws]:
    """Yield the laws of a draw where all rounds but the last are replaced: they are of one user."""
    users = [*[0] * (rounds - 1), 1]
    for last in rows:
        every = product(rows, repeat=rounds - 1)
        yield from combinations([gate.drawn([*own, last], users, world) for own in every], 2)
