"""What the mechanisms of the causes learner are shown: the terms of Theorems 15, 16 and 19.

The real learner runs with noise that follows a script and a selector that writes down what it is
shown. World A writes a transcript; world B, its neighbour, replays it. Given the transcript, what
is shown may differ only as the theorems allow. What is shown is also that of a plain twin, on
which the gate's law is enumerated (`littlestone._audit.gates`). Planted faults must show.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import littlestone as ls
from effort import scaled
from littlestone._hypotheses.causes import Cause, any_of, cause_from_key, causes_of
from littlestone._hypotheses.values import encode
from littlestone._learners import cause_counts, causes, epoch_rows
from littlestone._learners.cause_counts import CauseCounts
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.epoch_rows import EpochRows
from littlestone._learners.loop import Judged
from littlestone._learners.matched import Asked, Matched, match
from littlestone._privacy.causes import ADD, DROP, Moves, UserBound, Weights, replace_move
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.noise import Address, Noise
from naive import add_rows

pytestmark = pytest.mark.filterwarnings("ignore:delta")

LENGTH = 60
AT_AGE = (None, 0, 1)
"""The ranks of moves at the ages of epochs, in turn."""
Example = tuple[dict[str, object], Any] | None
"""A row and its label: true, false, or with outcomes a text, of which "ok" is normal."""
Scores = dict[bytes, int]
Fault = Callable[[pytest.MonkeyPatch], None]


class Impossible(Exception):
    """The other world cannot draw what the transcript says."""


class PublicDraw(NamedTuple):
    """What is public of a draw, beside its weights."""

    parameters: dict[str, str]
    margin: int
    penalty: int
    users: UserBound | None
    known: set[bytes]
    may_add: bool
    # By width, what the positives of an unknown key must exceed those of one row by.
    gaps: tuple[int, ...] = ()


@dataclass
class Shown:
    """What was shown under a transcript."""

    script: Mapping[int, int | None] | None
    """The checks at which world A fires, and the rank of the move; None is nothing."""
    transcript: dict[int, Decision]
    """The checks with a draw: whether they fired, and the move. At an age no check has to fire."""
    gaps: dict[int, int] = field(default_factory=dict)
    ballots: dict[int, Scores] = field(default_factory=dict)
    priors: dict[int, dict[bytes, Fraction]] = field(default_factory=dict)
    """Of the keys that nobody knows."""
    weights: dict[int, Weights] = field(default_factory=dict)
    draws: dict[int, "PublicDraw"] = field(default_factory=dict)
    windows: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    first: tuple[int, ...] = ()
    votes: dict[bytes, int] = field(default_factory=dict)


class Scripted(Noise):
    """Fires where the script says, and writes down the gap of every check."""

    def __init__(self, shown: Shown) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        return "Scripted(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        return 0

    def geometric(self, scale: Fraction, at: Address) -> int:
        return 0

    def uniform(self, below: int, at: Address) -> int:
        raise AssertionError("the selector is a stand-in")

    def exceeds(self, gap: int, scale: Fraction, at: Address, one_sided: bool) -> bool:
        self.shown.gaps[at[1]] = int(gap)
        if self.shown.script is None:
            return self.shown.transcript.get(at[1], NO_CHANGE).drawn
        return at[1] in self.shown.script


class Selector:
    """In place of the real one: writes down the gain of every move."""

    def __init__(self, shown: Shown, real: Any) -> None:
        self.shown, self.real, self.cost, self.name = shown, real, real.cost, real.name
        self.users = real.users

    def parameters(self) -> dict[str, str]:
        return dict(self.real.parameters())

    def joint(self, monitor: Any, reads: int) -> Any:
        return self.real.joint(monitor, reads)

    def select(
        self, read: Moves, noise: object, release: int, published: bytes | None = None
    ) -> bytes | None:
        # Without a monitor draws are counted, and not checks.
        check = max(self.shown.gaps, default=release)
        table = self.real.table(read)
        scores = iter(table.scores.tolist()[1:])
        moves = {DROP + key: next(scores) for key in read.drop_keys}
        keys = [read.add_key(place) for place in range(len(read.adds))]
        known_keys = set[bytes]()
        if read.may_add:
            adds = {ADD + key: next(scores) for key in keys}
            # Known keys that no row lists are one group: here each has its own score.
            for width, known in enumerate(self.real.known):
                idle = next(scores)
                every = [ADD + read.known_key(width, number) for number in range(known.keys)]
                known_keys.update(every)
                moves |= dict.fromkeys(every, idle)
            moves |= adds
            # A key that is there twice would be lost in the dict.
            assert len(adds) == len(keys)
        for cause, counts in enumerate(read.replaces):
            for place in range(len(counts)):
                narrow = read.replace_key(cause, place)
                moves[replace_move(read.drop_keys[cause], narrow)] = next(scores)
        self.shown.ballots[check], self.shown.weights[check] = moves, read.weights
        public = self.real.margin, self.real.drop_penalty, self.users, known_keys, read.may_add
        gaps = tuple(self.real.gaps)
        self.shown.draws[check] = PublicDraw(self.real.parameters(), *public, gaps)
        self.shown.priors[check] = {
            key: self.real.prior[width]
            for key, width, known in zip(keys, read.widths.tolist(), read.known, strict=True)
            if known < 0
        }
        if self.shown.script is None:
            move = self.shown.transcript[check].key
            if move is not None and move not in moves:
                raise Impossible
            return move
        # An epoch that ends by its age draws too, where the script has no firing.
        rank = self.shown.script.get(check, AT_AGE[check % len(AT_AGE)])
        ranked = sorted(moves, key=lambda move: (-moves[move], move))
        named = rank is not None and rank < len(ranked)
        drawn = ranked[rank] if named and rank is not None else None
        self.shown.transcript[check] = Decision(check in self.shown.script, drawn)
        return drawn


@dataclass(frozen=True)
class Setting:
    """All that is public."""

    cls: ls.Causes
    plan: CausesPlan
    script: Mapping[int, int | None]
    size: int = 0
    """Rounds a batch; 0 is one by one."""
    ends: tuple[int, ...] = ()
    """Rounds after which the caller ends the window."""
    resumed: int | None = None
    """The round after which the learner is saved and resumed."""
    users: tuple[str, ...] | None = None


Stream = Callable[[int, ls.Hypothesis], Example]


def learner_of(setting: Setting, shown: Shown) -> ls.PrivateCauses:
    """The real learner, with its noise, its selector and its counts watched."""
    return watched(ls.PrivateCauses(setting.cls, plan=setting.plan, noise=Scripted(shown)), shown)


def watched(
    made: ls.PrivateCauses, shown: Shown, first: Sequence[int] = (9, 1)
) -> ls.PrivateCauses:
    """A learner whose mechanisms write down what they are shown; the first counts are scripted."""
    mechanism: Any = made.loop.gate
    real = mechanism._draw

    def release(counts: Any) -> list[int]:
        shown.windows.append(
            (made.windows[-1].stop if made.windows else 0, tuple(map(int, counts)))
        )
        return [0] * len(counts)

    def release_first(counts: Any) -> list[int]:
        shown.first = tuple(map(int, counts))
        return list(first)

    def discover(votes: Mapping[bytes, int]) -> list[bytes]:
        shown.votes = dict(votes)
        return [encode(("a", "x")), encode(("b", "p"))]

    mechanism._draw = lambda terms: Selector(shown, real(terms))
    mechanism.release_evidence = release
    mechanism.release_first, mechanism.discover = release_first, discover
    if mechanism.gate is not None:
        mechanism.gate.draw = Selector(shown, mechanism.gate.draw)
    return made


def world(setting: Setting, stream: Stream, transcript: Mapping[int, Decision] | None) -> Shown:
    """What is shown: under the script, or under the transcript of another world."""
    shown = Shown(setting.script if transcript is None else None, dict(transcript or {}))
    learner = learner_of(setting, shown)
    step = max(1, setting.size)
    for at in range(0, LENGTH, step):
        rows = [stream(t, learner.hypothesis) for t in range(at, min(at + step, LENGTH))]
        users = None if setting.users is None else list(setting.users[at : at + step])
        learn(learner, rows, users, setting.size > 0)
        if learner.rounds in setting.ends:
            learner.end_window()
        if learner.rounds == setting.resumed:
            with learner.checkpoint() as saved:
                after = learner_of(setting, shown)
                after.resume(saved)
            learner = after
    return shown


def learn(
    learner: ls.PrivateCauses, rows: list[Example], users: list[str] | None, many: bool
) -> None:
    if many:
        xs = [{"a": 0, "b": 0, "n": 0} if row is None else row[0] for row in rows]
        ys = [None if row is None else row[1] for row in rows]
        learner.learn_many(xs, ys, users, bad_rows="null")
        return
    who: dict[str, Any] = {} if users is None else {"user": users[0]}
    if rows[0] is None:
        learner.skip_one(**who)
    else:
        learner.learn_one(*rows[0], **who)


@pytest.mark.parametrize(
    "change",
    [
        {"pattern_counts": "1"},
        {"min_rate": "1/100003"},
        {"min_rate": "6/5"},
        {"baseline": "moving"},
        {"longest_epoch": 1 << 22},
        {"min_rate": "auto"},
        {"first_window": 8},
        {"first_window": -8},
        {"base_rounds": 8},
    ],
    ids=str,
)
def test_a_plan_that_would_break_the_terms_is_refused(change: dict[str, Any]) -> None:
    """Priors that sum to more than 1 over a row's patterns, scores beyond 64 bits, no gate."""
    cls = ls.Causes(["a", "b"])
    plan = CausesPlan.practical(cls, 1, 1e-6, 1000, min_rate=0.1)
    with pytest.raises(ls.BadParameter):
        ls.PrivateCauses(cls, plan=replace(plan, **change))


# What the theorems allow.


def distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(abs(m - n) for m, n in zip(one, other, strict=True))


def within_terms(setting: Setting, a: Shown, b: Shown, at: int) -> bool:
    """Whether two worlds that differ in round `at` are shown what the theorems allow."""
    plan = setting.plan
    assert a.gaps.keys() == b.gaps.keys()
    assert a.ballots.keys() == b.ballots.keys()
    assert [start for start, _ in a.windows] == [start for start, _ in b.windows]
    counts = sum(distance(m, n) for (_, m), (_, n) in zip(a.windows, b.windows, strict=True))
    first = distance(a.first, b.first)
    shifts = {check: a.gaps[check] - b.gaps[check] for check in a.gaps}
    keys = a.votes.keys() | b.votes.keys()
    votes = sum(abs(a.votes.get(key, 0) - b.votes.get(key, 0)) for key in keys)
    if at < plan.first_window:
        # The first window is read by nothing else, and each of its rounds by one part of it.
        here, there = (first, votes) if at < plan.base_rounds else (votes, first)
        later = counts or any(shifts.values()) or a.ballots != b.ballots
        return here <= 2 and not there and not later
    check = (at - plan.first_window) // plan.check_every
    own = range(check, _epoch_end(a, check))
    moved = {shift for check, shift in shifts.items() if check in own}
    elsewhere = any(shift for check, shift in shifts.items() if check not in own)
    ends = [check for check in a.ballots if check in own]
    sizes = [
        _joint(a, b, check, bool(moved - {0})) if check in ends else
        a.ballots[check] == b.ballots[check]
        for check in a.ballots
    ]  # fmt: skip
    steady = len(moved) <= 1 and all(abs(shift) <= plan.units for shift in moved)
    # Weights are public: a replaced row does not move them.
    public = a.weights == b.weights and a.draws == b.draws and not first and not votes
    return steady and not elsewhere and all(sizes) and counts <= 2 and public


def _epoch_end(shown: Shown, check: int) -> int:
    """The check after the epoch that holds a check: every epoch ends with a draw."""
    return min((end for end in shown.ballots if end >= check), default=max(shown.gaps)) + 1


def _joint(a: Shown, b: Shown, check: int, shifted: bool) -> bool:
    """Theorem 15, steps 1 and 4: common moves rise and fall together, the others are light."""
    one, other, weights = a.ballots[check], b.ballots[check], a.weights[check]
    changes = [other[move] - one[move] for move in one.keys() & other.keys()]
    spread = max([0, *changes]) - min([0, *changes])
    for here, there, priors in ((one, other, a.priors), (other, one, b.priors)):
        alone = here.keys() - there.keys()
        if any(here[move] > 0 or not move.startswith(ADD) for move in alone):
            return False
        if sum(priors[check].get(move[1:], 2) for move in alone) > 1:
            return False
    return spread <= (sum(weights) if shifted else 2 * max(weights))


# Settings and neighbours.

TEXT = ls.Causes(["a", "b"], width=1, limit=2)
WIDE = ls.Causes(["a", "b"], width=2, limit=3)
RANGES = ls.Causes(["a", ls.Ranges("n", [1, 2, 3])], width=2, limit=3)
DECLARED = ls.Causes(["a", "b"], width=2, limit=2, values={"a": ["x", "w"], "b": ["p", "q"]})


def plan_of(cls: ls.Causes, **changes: Any) -> CausesPlan:
    rate = changes.pop("min_rate", 0.2)
    plan = CausesPlan.practical(cls, 4, 0.01, LENGTH, min_rate=rate)
    usual: dict[str, Any] = {"check_every": 4, "longest_epoch": 24, "evidence_every": 12}
    return replace(plan, **(usual | changes))


PLANS: dict[str, tuple[ls.Causes, CausesPlan]] = {
    "text": (TEXT, plan_of(TEXT)),
    "every round": (TEXT, plan_of(TEXT, check_every=1, longest_epoch=30, min_rate=0.5)),
    "wide": (WIDE, plan_of(WIDE, longest_epoch=40, evidence_every=7, horizon=384)),
    "ranges": (RANGES, plan_of(RANGES, check_every=3, min_rate=0.1)),
    "auto": (WIDE, plan_of(WIDE, min_rate="auto", first_window=16, base_rounds=6)),
    "declared": (DECLARED, plan_of(DECLARED, check_every=2, min_rate=0.3)),
    "fixed": (WIDE, plan_of(WIDE, min_rate=0.6, baseline="fixed")),
}


def random_example(draw: random.Random, positives: float = 0.5) -> Example:
    if draw.random() < 0.08:
        return None
    x = {"a": draw.choice("xyz"), "b": draw.choice("pq"), "n": draw.randrange(4)}
    return x, draw.random() < positives


def random_setting(kind: str, number: int, **changes: Any) -> tuple[Setting, list[Example], int]:
    draw = random.Random(number)
    cls, plan = PLANS[kind]
    checks = (LENGTH - plan.first_window) // plan.check_every
    script = {
        check: draw.choice([None, 0, 0, 1, 2, 5])
        for check in draw.sample(range(checks), min(checks, 6))
    }
    rows = [random_example(draw, 0.25 if plan.check_every == 1 else 0.5) for _ in range(LENGTH)]
    size = draw.choice([0, 1, 5, LENGTH])
    # Windows end, and learners are saved, at public times only.
    ends = (20, 45) if size in (0, 1, 5) else ()
    resumed = draw.choice([None, 10, 35]) if size in (0, 1, 5) else None
    setting = Setting(cls, plan, script, size, ends, resumed)
    return replace(setting, **changes), rows, draw.randrange(LENGTH)


def fixed(rows: Sequence[Example]) -> Stream:
    return lambda t, rule: rows[t]


def reacting(rows: Sequence[Example], at: int) -> Stream:
    """Labels that depend on what is published, but for one round."""

    def stream(t: int, rule: ls.Hypothesis) -> Example:
        row = rows[t]
        if t == at or row is None:
            return row
        return row[0], row[1] != (rule.key[-1] % 2 == t % 2)

    return stream


def compared(setting: Setting, one: Stream, other: Stream) -> tuple[Shown, Shown] | None:
    a = world(setting, one, None)
    try:
        return a, world(setting, other, a.transcript)
    except Impossible:
        return None


def holds(kind: str, number: int, reacts: bool = False, **changes: Any) -> bool | None:
    """Whether a random pair of neighbours is shown what is allowed; None if it cannot follow."""
    setting, rows, at = random_setting(kind, number, **changes)
    new = random_example(random.Random(~number))
    other = [*rows[:at], new, *rows[at + 1 :]]
    if reacts:
        setting = replace(setting, size=0)
        pair = compared(setting, reacting(rows, at), reacting(other, at))
    else:
        pair = compared(setting, fixed(rows), fixed(other))
    return None if pair is None else within_terms(setting, *pair, at)


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("reacts", [False, True])
@settings(max_examples=20)
@given(number=st.integers(0, 2**32))
def test_neighbours_are_shown_what_the_theorems_allow(kind: str, reacts: bool, number: int) -> None:
    assert holds(kind, number, reacts) is not False


@pytest.mark.parametrize("kind", ["wide", "auto"])
def test_also_where_all_negatives_collide(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few_hashes(monkeypatch)
    assert all(holds(kind, number) is not False for number in range(60))


def few_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hashes for all texts, in rows, in batches and in conditions."""

    def two_hashes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
        return np.array([len(repr(value)) % 2 for value in values], np.uint32)

    monkeypatch.setattr(epoch_rows, "hash_values", two_hashes)


def test_few_hashes_do_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    few_hashes(monkeypatch)
    rows = EpochRows(ls.Causes(["a"]))
    batch = {"a": np.array(["x", "y", "z"], dtype=object)}
    add_rows(rows, batch, np.array([True, False, False]))
    # The negatives of y and z are those of x as well.
    assert rows.counts()[0].tolist() == [[2, 1]]


@pytest.mark.parametrize("kind", PLANS)
def test_what_is_shown_does_not_depend_on_batches_or_on_resuming(kind: str) -> None:
    for number in range(12):
        setting, rows, _ = random_setting(kind, number, size=0, resumed=None, ends=())
        alone = world(setting, fixed(rows), None)
        several: list[dict[str, Any]] = [
            {"size": 7},
            {"size": LENGTH},
            {"resumed": 10},
            {"resumed": 33},
        ]
        for changes in several:
            assert world(replace(setting, **changes), fixed(rows), None) == alone


# Users.

USERS = ("ann", "bob", "cem", "dan", "eve")
OUTCOMES = ls.Causes(["a", "b"], width=2, limit=2, normal=["ok"])
CLASSES = {"wide": WIDE, "ranges": RANGES, "declared": DECLARED, "outcomes": OUTCOMES}


class FewRounds(CausesPlan):
    """Epochs read two rounds of a user, so that sixty rounds have more."""

    @property
    def rounds_of_user(self) -> int:
        return 2


def user_setting(kind: str, cap: int, number: int, **changes: Any) -> tuple[Setting, list[Example]]:
    draw = random.Random(f"{kind} {cap} {number}")
    cls = CLASSES[kind]
    plan = CausesPlan.practical(
        cls, 4, 0.01, draw.choice([58, LENGTH]), min_rate=draw.choice([0.2, 0.6]), unit="user",
        cap=cap,
    )  # fmt: skip
    lengths = {"check_every": 4, "longest_epoch": draw.choice([12, 20]), "evidence_every": 7}
    plan = FewRounds(**vars(plan) | lengths)
    rows = [random_example(draw) for _ in range(LENGTH)]
    if kind == "outcomes":
        rows = [row and (row[0], draw.choice("tu") if row[1] else "ok") for row in rows]
    size = draw.choice([0, 1, 5, LENGTH])
    setting = Setting(
        cls,
        plan,
        {release: draw.choice([None, 0, 0, 1, 2]) for release in range(6)},
        size,
        (20, 45) if size < LENGTH else (),
        draw.choice([None, 10, 35]) if size < LENGTH else None,
        # Some come often, and some are not there at first.
        tuple(draw.choice(USERS[: 2 + t // 10]) for t in range(LENGTH)),
    )
    return replace(setting, **changes), rows


def within_user_terms(setting: Setting, a: Shown, b: Shown) -> bool:
    """Theorem 19, for two worlds that differ in all rounds of a user."""
    plan = setting.plan
    assert a.ballots.keys() == b.ballots.keys()
    assert [start for start, _ in a.windows] == [start for start, _ in b.windows]
    counts = sum(distance(m, n) for (_, m), (_, n) in zip(a.windows, b.windows, strict=True))
    moved = [release for release in a.ballots if a.ballots[release] != b.ballots[release]]
    public = a.weights == b.weights and a.draws == b.draws and not a.gaps and not b.gaps
    bounded = all(_user_moves(a, b, release, plan.units) for release in moved)
    return public and bounded and counts <= 2 * plan.counts_of_unit and len(moved) <= plan.reads


def _user_moves(a: Shown, b: Shown, release: int, units: int) -> bool:
    """Whether common moves rise and fall by a part at most, and keys of one world are light."""
    one, other = a.ballots[release], b.ballots[release]
    bound = a.draws[release].users
    assert bound is not None
    changes = [abs(other[move] - one[move]) for move in one.keys() & other.keys()]
    for here, there, priors in ((one, other, a.priors), (other, one, b.priors)):
        alone = here.keys() - there.keys()
        if any(here[move] > 0 or not move.startswith(ADD) for move in alone):
            return False
        if sum(priors[release].get(move[1:], bound.rounds + 1) for move in alone) > bound.rounds:
            return False
    return max(changes, default=0) <= (1 + bound.lowest) * units


def user_holds(kind: str, cap: int, number: int) -> tuple[Shown, Shown, bool] | None:
    """A random pair of worlds in which all rounds of a user differ, and whether that is allowed."""
    setting, rows = user_setting(kind, cap, number)
    assert setting.users is not None
    draw = random.Random(~number)
    # All of one kind, so that the user does all that it can; or with keys of their own.
    label = "t" if kind == "outcomes" else True
    changed: list[Example] = draw.choice(
        [
            [draw.choice(rows)] * LENGTH,
            [draw.choice(rows) for _ in rows],
            [({"a": f"own {t}", "b": f"{t}", "n": t % 4}, label) for t in range(LENGTH)],
        ]
    )
    other = [changed[t] if setting.users[t] == "ann" else row for t, row in enumerate(rows)]
    if draw.random() < 0.3:
        rows = [None if setting.users[t] == "ann" else row for t, row in enumerate(rows)]
    pair = compared(setting, fixed(rows), fixed(other))
    return None if pair is None else (*pair, within_user_terms(setting, *pair))


@pytest.mark.filterwarnings("ignore:.*after the horizon")
@pytest.mark.parametrize("cap", [1, 2, 9])
@pytest.mark.parametrize("kind", CLASSES)
def test_users_whose_rounds_are_all_replaced_are_shown_as_the_theorem_allows(
    kind: str, cap: int
) -> None:
    found = [
        pair for number in range(scaled(40, least=20)) if (pair := user_holds(kind, cap, number))
    ]
    assert all(held for _, _, held in found)
    moved = [sum(a.ballots[n] != b.ballots[n] for n in a.ballots) for a, b, _ in found]
    counts = [
        sum(distance(m, n) for (_, m), (_, n) in zip(a.windows, b.windows, strict=True))
        for a, b, _ in found
    ]
    # Power: users are read as often as they may be, and counted in several epochs.
    assert len(found) > 5
    assert max(moved) >= min(cap, 2)
    assert max(counts) > 2


@pytest.mark.filterwarnings("ignore:.*after the horizon")
@pytest.mark.parametrize("kind", ["wide", "outcomes"])
def test_users_are_shown_so_also_where_all_negatives_collide(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_hashes(monkeypatch)
    found = [pair for number in range(20) if (pair := user_holds(kind, 2, number))]
    assert len(found) > 5
    assert all(held for _, _, held in found)


@pytest.mark.filterwarnings("ignore:.*after the horizon")
@pytest.mark.parametrize("kind", CLASSES)
def test_what_is_shown_of_users_is_that_of_a_plain_twin(kind: str) -> None:
    """However rounds come, and whether the learner is saved in the middle of an epoch."""
    moved = 0
    for number in range(scaled(24, least=12)):
        setting, rows = user_setting(kind, 1 + number % 3, number)
        shown = world(setting, fixed(rows), None)
        assert shown.ballots == user_scores(setting, rows, shown)
        assert [counts for _, counts in shown.windows] == user_windows(setting, rows, shown)
        moved += sum(key is not None for _, key in shown.transcript.values())
    assert moved > 5


def read_rounds(setting: Setting) -> tuple[set[int], set[int]]:
    """The rounds that draws read, and those that the evidence counts, by who appears when."""
    plan, users, read, counted = setting.plan, setting.users, set[int](), set[int]()
    assert users is not None
    for user in set(users):
        rounds: dict[int, list[int]] = {}
        for t in range(plan.horizon):
            if users[t] == user:
                rounds.setdefault(t // plan.longest_epoch, []).append(t)
        for place, epoch in enumerate(sorted(rounds)):
            counted.add(rounds[epoch][0])
            if place < plan.reads:
                read.update(rounds[epoch][: plan.rounds_of_user])
    return read, counted


def causes_after(causes: tuple[Cause, ...], move: bytes | None) -> tuple[Cause, ...]:
    """The published causes after a move."""
    if move is None:
        return causes
    others = [cause for cause in causes if cause.key != move[1:]]
    return causes_of(
        any_of(others if move.startswith(DROP) else [*others, cause_from_key(move[1:])])
    )


def outcome_of(label: Any) -> Any:
    """The outcome of a label: False if it is normal, None where outcomes are not told apart."""
    return None if label is True else False if label in (False, "ok") else label


def user_scores(setting: Setting, rows: Sequence[Example], shown: Shown) -> dict[int, Scores]:
    """The scores of all draws from a stream of users, by their definition."""
    plan, (read, _) = setting.plan, read_rounds(setting)
    found, causes, begin = {}, tuple[Cause, ...](), 0
    last = plan.horizon // plan.check_every * plan.check_every
    assert setting.users is not None
    for release, decision in sorted(shown.transcript.items()):
        end = min(begin + plan.longest_epoch, last)
        epoch = [(rows[t], setting.users[t]) for t in range(begin, end) if t in read]
        found[release] = draw_scores(setting.cls, epoch, causes, shown, release)
        causes, begin = causes_after(causes, decision.key), end
    return found


def draw_scores(
    cls: ls.Causes,
    epoch: Sequence[tuple[Example, Any]],
    causes: Sequence[Cause],
    shown: Shown,
    release: int,
) -> Scores:
    """The scores of a draw from rows of users, by Theorem 19; what is public is taken as shown.

    Without a bound on users they are those of Theorem 15, if each row is of a user of its own.
    """
    weights, draw, units = shown.weights[release], shown.draws[release], CausesPlan.units
    # What each user does to each score.
    parts: dict[bytes, Counter[Any]] = {DROP + cause.key: Counter() for cause in causes}
    # Of the keys that may be added, without their negative rows.
    positives: dict[bytes, Counter[Any]] = {}
    normal: list[tuple[set[bytes], Any]] = []
    for row, user in epoch:
        if row is None:
            continue
        x, outcome = row[0], outcome_of(row[1])
        matched = [cause for cause in causes if cause(x)]
        patterns = [pattern.conditions for pattern in cls.patterns_of(x)]
        if not matched and outcome is False:
            normal.append(({Cause(pattern).key for pattern in patterns}, user))
        elif not matched:
            for pattern in patterns:
                key = ADD + Cause(pattern, outcome).key
                for counted in (parts, positives):
                    counted.setdefault(key, Counter())[user] += weights.positive
        elif len(matched) == 1 and outcome is False:
            parts[DROP + matched[0].key][user] -= weights.negative
        elif len(matched) == 1 and matched[0].outcome == outcome:
            parts[DROP + matched[0].key][user] += weights.positive
    for move, part in parts.items():
        for keys, user in normal if move.startswith(ADD) else []:
            if Cause(cause_from_key(move[1:]).conditions).key in keys:
                part[user] -= weights.negative
    lowest, highest = -units, units
    if draw.users is not None:
        lowest = -math.floor(draw.users.lowest * units)
    nets, listed = (
        {
            move: sum(min(max(one, lowest), highest) for one in part.values())
            for move, part in counted.items()
        }
        for counted in (parts, positives)
    )
    scores = {move: -net - draw.penalty * units for move, net in nets.items() if move[:1] == DROP}
    if draw.may_add:
        scores |= dict.fromkeys(draw.known, -draw.margin * units)
        most = weights.positive if draw.users is None else units
        for move, net in nets.items():
            if move.startswith(ADD):
                gap = draw.gaps[cause_from_key(move[1:]).width - 1]
                unknown = min(net, listed[move] - most - gap) if any(draw.gaps) else net - most
                scores[move] = max(net, 0) if move in draw.known else unknown
                scores[move] -= draw.margin * units
    return scores


def user_windows(setting: Setting, rows: Sequence[Example], shown: Shown) -> list[tuple[int, ...]]:
    """The counts of all windows, of one round of each user in each epoch."""
    plan, (_, counted) = setting.plan, read_rounds(setting)
    starts = [start for start, _ in shown.windows]
    last = plan.horizon // plan.check_every * plan.check_every
    found = []
    for start, stop in zip(starts, [*starts[1:], plan.horizon], strict=True):
        causes: tuple[Cause, ...] = ()
        for release, decision in sorted(shown.transcript.items()):
            if min((release + 1) * plan.longest_epoch, last) <= start:
                causes = causes_after(causes, decision.key)
        told = list(dict.fromkeys(c.outcome for c in causes if c.outcome is not None))
        cells = Counter[object]()
        for t in counted & set(range(start, stop)):
            row = rows[t]
            if row is None:
                continue
            outcome = outcome_of(row[1])
            first = next((n for n, cause in enumerate(causes) if cause(row[0])), len(causes))
            if first < len(causes):
                cells[first, outcome is not False and outcome == causes[first].outcome] += 1
            else:
                cells[outcome if outcome in told else (first, outcome is not False)] += 1
        pairs = [(n, label) for n in range(len(causes) + 1) for label in (False, True)]
        found.append(tuple(cells[cell] for cell in [*pairs, *told]))
    return found


def read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user is read in an epoch too many: by the round that the evidence counts."""
    real = CauseCounts.note_user
    monkeypatch.setattr(
        CauseCounts, "note_user", lambda self, number, read: real(self, number, True)
    )


def all_rounds_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of a user beyond the first few make keys active too."""
    monkeypatch.setattr(causes, "USER_ROUNDS", 1)


def all_rounds_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evidence counts every round that a draw reads."""
    monkeypatch.setattr(CauseCounts, "_counted_rows", lambda self, rows: rows)


def parts_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has a part of its own, which is bounded."""
    real = EpochRows.add

    def add(self: EpochRows, rows: Any) -> None:
        negative, positive = rows.users
        numbers = np.arange(len(negative) + len(positive), dtype=np.uint64) + 1000 * self.size
        real(self, rows._replace(users=(numbers[: len(negative)], numbers[len(negative) :])))

    monkeypatch.setattr(EpochRows, "add", add)


@pytest.mark.filterwarnings("ignore:.*after the horizon")
@pytest.mark.parametrize(
    "fault", [read_once_more, all_rounds_read, all_rounds_counted, parts_by_row]
)
def test_planted_faults_of_users_are_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = (user_holds("wide", 1 + number % 2, number) for number in range(300))
    assert any(pair is not None and not pair[2] for pair in found)


# Planted faults: searched for a violation, and it must be found; without the fault, none is.


def kept_at_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of an epoch are kept where nothing was drawn."""
    real = CauseCounts.restart

    def restart(self: CauseCounts, number: int, rule: ls.Hypothesis) -> None:
        if causes_of(rule) != self.causes:
            real(self, number, rule)

    monkeypatch.setattr(CauseCounts, "restart", restart)


def later_rounds_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draw reads rounds after the check that fired; the next epoch reads them again."""
    monkeypatch.setattr(Judged, "before", lambda self, number: self)


def windows_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window counts the rows of the one before it too, unless the causes have changed."""
    real = CauseCounts._begin_window

    def begin(self: CauseCounts) -> None:
        cells = getattr(self, "_cells", None)
        real(self)
        if cells is not None and len(cells) == len(self.causes) + 1:
            self._cells = cells

    monkeypatch.setattr(CauseCounts, "_begin_window", begin)


def first_window_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the first window are rows of the first epoch too."""
    real, ends, held = CauseCounts.count, CauseCounts._end_first_window, list[Any]()

    def count(self: CauseCounts, judged: Judged) -> None:
        real(self, judged)
        if judged.rows.size and judged.rows.number[0] < self.plan.first_window:
            held.append(judged.rows.unmatched)

    def end(self: CauseCounts, number: int) -> None:
        ends(self, number)
        while held:
            self.rows.add(held.pop())

    monkeypatch.setattr(CauseCounts, "count", count)
    monkeypatch.setattr(CauseCounts, "_end_first_window", end)


class AllKept(Matched):
    """Rounds of which every row is kept for the draw."""

    def taken(self, rows: Any) -> Matched:
        kept = np.zeros(self.size, dtype=bool)
        kept[rows] = True
        rows = self.unmatched.part(kept[~self.answers], kept[self.answers])
        lone = tuple(column[kept[self.alone]] for column in self.lone)
        arrays = (self.number[kept], self.answers[kept], self.counts[kept], self.first[kept])
        return AllKept(*arrays, rows, None if self.own is None else self.own[kept], lone)


def matched_rows_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a cause matches move the gains of keys."""

    def matched(cls: ls.Causes, rounds: Any, asked: Asked) -> Matched:
        every = match(cls, rounds, Asked(())).unmatched
        return AllKept(*match(cls, rounds, asked)._replace(unmatched=every))

    monkeypatch.setattr(cause_counts, "match", matched)


def negatives_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the conditions that share a hash, only the first that occurred reads its negatives."""
    few_hashes(monkeypatch)
    real = EpochRows._slot

    def first(self: EpochRows, *arguments: Any) -> Any:
        slot = real(self, *arguments)
        _, places = np.unique(slot.group_of, return_index=True)
        # No row is in the last group: all other conditions read no negatives.
        group_of = np.full_like(slot.group_of, slot.groups + 1)
        group_of[places] = slot.group_of[places]
        return slot._replace(group_of=group_of, groups=slot.groups + 1)

    monkeypatch.setattr(EpochRows, "_slot", first)


def counted_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negatives before the first positive row of the epoch are left out."""
    real = CauseCounts.add

    def add(self: CauseCounts, judged: Judged) -> None:
        rows, before = judged.rows, sum(chunk.positives.shape[1] for chunk in self.rows._chunks)
        seen = np.cumsum(rows.answers & (rows.counts == 0)) + before > 0
        late = rows.taken(seen | (rows.counts > 0)).unmatched
        real(self, judged._replace(rows=rows._replace(unmatched=late)))

    monkeypatch.setattr(CauseCounts, "add", add)


def votes_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round of the first window votes, also those that find the base rate."""
    real = Matched.votes
    monkeypatch.setattr(Matched, "votes", lambda rows, names, since: real(rows, names, 0))


FAULTS: dict[str, tuple[Fault, str]] = {
    "votes for all": (votes_for_all, "auto"),
    "kept at a refusal": (kept_at_a_refusal, "text"),
    "later rounds read": (later_rounds_read, "text"),
    "windows overlap": (windows_overlap, "text"),
    "first window read twice": (first_window_read_twice, "auto"),
    "matched rows kept": (matched_rows_kept, "text"),
    "negatives to the first": (negatives_to_the_first, "every round"),
    "counted late": (counted_late, "every round"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, kind = FAULTS[name]
    assert all(holds(kind, number) is not False for number in range(40))
    fault(monkeypatch)
    assert any(holds(kind, number) is False for number in range(300))


def test_the_scripts_do_publish() -> None:
    """The tests above have power: gaps, ballots and counts do differ, moves are made."""
    shifted, changed, counted, added, dropped, at_age = 0, 0, 0, 0, 0, 0
    for number in range(60):
        setting, rows, at = random_setting("text", number)
        other = [*rows[:at], random_example(random.Random(~number)), *rows[at + 1 :]]
        pair = compared(setting, fixed(rows), fixed(other))
        if pair is None:
            continue
        a, b = pair
        shifted += a.gaps != b.gaps
        changed += a.ballots != b.ballots
        counted += a.windows != b.windows
        moves = [move for _, move in a.transcript.values() if move is not None]
        added += sum(move.startswith(ADD) for move in moves)
        dropped += sum(move.startswith(DROP) for move in moves)
        at_age += sum(not fired for fired, _ in a.transcript.values())
    assert min(shifted, changed, counted, added, dropped, at_age) > 5
