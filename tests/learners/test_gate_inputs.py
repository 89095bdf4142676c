"""What the gate is shown: the terms on which Theorems 3, 5 and 7 promise privacy.

The gate's monitor and selector are replaced by stand-ins that write down what they are shown and
answer from a script. World A writes a transcript; world B, its neighbour, replays it. Given the
transcript, what is shown may differ only as the theorems allow. Planted faults must show.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import littlestone as ls
from classes import CASES
from effort import scaled
from littlestone._data.rounds import Rounds
from littlestone._learners.forest import Forest
from littlestone.paper import PaperDPSOA, PaperPlan

pytestmark = pytest.mark.filterwarnings("ignore:delta")

LENGTH = 72
Example = tuple[object, bool] | None
Script = Mapping[int, int | None]
"""The checks at which world A fires: the rank of the key it then names, or None."""
Transcript = dict[int, bytes | None]
Fault = Callable[[Any], None]


class Impossible(Exception):
    """The other world cannot say what the transcript says."""


@dataclass
class Shown:
    """What a gate was shown under a transcript: everything that its proof speaks of."""

    script: Script | None
    transcript: Transcript
    counts: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    ballots: list[dict[bytes, int]] = field(default_factory=list)
    firings: list[int] = field(default_factory=list)
    compared: list[bool] = field(default_factory=list)
    """Of each ballot: whether it holds the scores of known rules."""

    def fires(self, count: int, limit: int) -> bool:
        check = len(self.counts)
        self.counts.append(int(count))
        self.limits.append(int(limit))
        fired = check in (self.transcript if self.script is None else self.script)
        if fired:
            self.firings.append(check)
        return fired

    def names(
        self, ballot: Mapping[bytes, int], leave_out: bytes | None, compared: bool = False
    ) -> bytes | None:
        self.ballots.append(dict(ballot))
        self.compared.append(compared)
        check = self.firings[-1]
        if self.script is None:
            key = self.transcript[check]
            if key is not None and key not in ballot:
                raise Impossible
            return key
        ranked = sorted((-n, key) for key, n in ballot.items() if n and key != leave_out)
        rank = self.script[check]
        named = rank is not None and rank < len(ranked)
        self.transcript[check] = ranked[rank][1] if named and rank is not None else None
        return self.transcript[check]


class Monitor:
    """In place of either monitor."""

    def __init__(self, shown: Shown, real: Any) -> None:
        self.shown, self.cost = shown, real.cost
        self.cap, self.releases = getattr(real, "cap", 1), getattr(real, "releases", None)

    @property
    def exhausted(self) -> bool:
        return self.releases is not None and len(self.shown.firings) >= self.releases

    def check(self, count: int, limit: int) -> bool:
        return self.advance([count], limit) is not None

    def advance(self, counts: Any, limits: Any) -> int | None:
        if self.exhausted:
            return None
        for place, limit in enumerate(np.broadcast_to(limits, len(counts)).tolist()):
            if self.shown.fires(counts[place], limit):
                return place
        return None

    def restart(self) -> None:
        """Public: nothing to note."""


class Selector:
    """In place of either selector."""

    def __init__(self, shown: Shown, real: Any) -> None:
        self.shown, self.cost, self.name = shown, real.cost, real.name

    def select(
        self,
        ballot: Mapping[bytes, int],
        noise: object,
        release: int,
        leave_out: bytes | None = None,
    ) -> bytes | None:
        return self.shown.names(ballot, leave_out)


class Comparison:
    """In place of the draw among known rules; None is the published one, which comes first."""

    def __init__(self, shown: Shown, keys: Sequence[bytes]) -> None:
        self.shown, self.keys = shown, keys

    def select(self, scores: Sequence[int], noise: object, release: int) -> bytes | None:
        ballot = dict(zip(self.keys, scores, strict=True))
        return self.shown.names(ballot, self.keys[0], compared=True) or self.keys[0]


Stream = Callable[[int, ls.Hypothesis], Example]
"""The example of a round, in reaction to the rule published for it."""


@dataclass(frozen=True)
class Setting:
    """All that is public."""

    cls: ls.HypothesisClass
    plan: ls.Plan | PaperPlan
    seed: int
    script: Script
    users: Sequence[object] | None = None
    size: int = 0
    """Rounds a batch; 0 is one by one."""
    fault: Fault | None = None
    watched: bool = False
    """Whether the forest gets every round, also where rounds may be buffered."""


def world(setting: Setting, stream: Stream, transcript: Transcript | None = None) -> Shown:
    """What the gate is shown: under the script, or under the transcript of another world."""
    shown = Shown(setting.script if transcript is None else None, dict(transcript or {}))
    learner: ls.DPSOA | PaperDPSOA
    if isinstance(setting.plan, PaperPlan):
        learner = PaperDPSOA(setting.cls, setting.plan, seed=setting.seed)
    else:
        learner = ls.DPSOA(
            setting.cls, plan=setting.plan, seed=setting.seed, watched=setting.watched
        )
    gate: Any = learner.loop.gate
    gate.monitor = Monitor(shown, gate.monitor)
    draw: Any = getattr(gate, "draw", None)
    if isinstance(setting.plan, PaperPlan):
        gate.selector = Selector(shown, gate.selector)
    else:
        draw.search = Selector(shown, draw.search)
        draw.comparison = lambda keys, epsilon: Comparison(shown, keys)
    if setting.fault is not None:
        setting.fault(learner)
    step = max(1, setting.size)
    for at in range(0, LENGTH, step):
        rows = [stream(t, learner.hypothesis) for t in range(at, min(at + step, LENGTH))]
        users = None if setting.users is None else list(setting.users[at : at + step])
        _show(learner, rows, users, setting.size > 0)
    assert learner.rounds == LENGTH
    return shown


def _show(
    learner: ls.DPSOA | PaperDPSOA, rows: list[Example], users: list[object] | None, many: bool
) -> None:
    if many:
        xs = [0 if row is None else row[0] for row in rows]
        ys = [None if row is None else row[1] for row in rows]
        some = next((row[0] for row in rows if row is not None), 0)
        xs = [some if row is None else x for x, row in zip(xs, rows, strict=True)]
        learner.learn_many(xs, ys, users, bad_rows="null")
        return
    who: dict[str, Any] = {} if users is None else {"user": users[0]}
    if rows[0] is None:
        learner.skip_one(**who)
    else:
        learner.learn_one(*rows[0], **who)


def fixed(rows: Sequence[Example]) -> Stream:
    return lambda t, rule: rows[t]


def reacting(rows: Sequence[Example], replaced: Mapping[int, Example]) -> Stream:
    """Rounds that depend on what is published, but for the replaced ones."""

    def stream(t: int, rule: ls.Hypothesis) -> Example:
        row = rows[t]
        if t in replaced or row is None:
            return replaced.get(t)
        x, y = row
        return x, y != (rule.key[-1] % 2 == t % 2)

    return stream


# What the theorems allow.


def moved(one: Mapping[bytes, int], other: Mapping[bytes, int]) -> float:
    """Moved votes between two ballots; more than one key that gains, or loses, is too many."""
    gains = [other.get(key, 0) - one.get(key, 0) for key in {*one, *other}]
    return max(sum(n for n in gains if n > 0), -sum(n for n in gains if n < 0))


def differences(a: Shown, b: Shown) -> tuple[list[int], list[float]]:
    """How far the counts and the ballots of two worlds are apart."""
    assert a.firings == b.firings
    counts = [abs(m - n) for m, n in zip(a.counts, b.counts, strict=True)]
    assert a.compared == b.compared
    return counts, [
        # Theorem 6: each score by so much; the rules that are compared are the same.
        max(abs(m[key] - n[key]) for key in m | n) if compared else moved(m, n)
        for m, n, compared in zip(a.ballots, b.ballots, a.compared, strict=True)
    ]


def epochs_hold(setting: Setting, a: Shown, b: Shown, at: int) -> bool:
    """Theorems 3 and 7, per event: one check by one, one ballot by one vote, of one epoch."""
    counts, ballots = differences(a, b)
    check = at // setting.plan.check_every
    ended = sum(fired < check for fired in a.firings)
    return (
        a.limits == b.limits
        and max(ballots, default=0) <= 1
        and all(n <= (place == check) for place, n in enumerate(counts))
        and all(n <= (place == ended) for place, n in enumerate(ballots))
    )


def capped_hold(setting: Setting, a: Shown, b: Shown) -> bool:
    """Theorem 7 for users with at most `cap` rounds."""
    counts, ballots = differences(a, b)
    cap = setting.plan.cap or 1
    searched = [n for n, compared in zip(ballots, a.compared, strict=True) if not compared]
    # Votes by one, in a comparison each score by as many rounds as are read: `cap` in all.
    within = max(searched, default=0) <= 1 and sum(ballots) <= cap
    return a.limits == b.limits and sum(counts) <= cap and within


def votes_hold(setting: Setting, a: Shown, b: Shown) -> bool:
    """Theorems 2 and 7: every query by one, every ballot by one vote."""
    counts, ballots = differences(a, b)
    return a.limits == b.limits and max(counts, default=0) <= 1 and max(ballots, default=0) <= 1


# Settings and neighbours.

NAMES = ["points", "sets", "rules", "thresholds", "conjunctions", "table", "complement", "union"]
BASE = ls.Plan.practical(ls.Points(), 8, 0.01, 2 * LENGTH)
VOTES = PaperPlan.for_users(ls.Points(), 8, 0.01, 2 * LENGTH, releases=3)
EPOCHS = {
    "flat": replace(BASE, leaves={1: 6}, check_every=4, thresholds=(3,)),
    "mixed": replace(BASE, leaves={1: 3, 2: 2, 4: 3}, check_every=3, thresholds=(3,)),
    "two thresholds": replace(BASE, leaves={1: 4, 4: 2}, check_every=3, thresholds=(2, 3)),
    "short": replace(BASE, leaves={1: 5}, check_every=2, thresholds=(3,), horizon=50),
}
CAPPED = {
    cap: replace(
        ls.Plan.practical(ls.Points(), 8, 0.01, 2 * LENGTH, unit="user", cap=cap),
        leaves={1: 4, 4: 2},
        check_every=3,
        thresholds=(3,),
    )
    for cap in (1, 3, 8)
}
LASTING = {
    "users": replace(VOTES, leaves={1: 3, 2: 3}, check_every=3, threshold=3),
    "events": replace(VOTES, unit="event", leaves={1: 4, 4: 3}, check_every=4, threshold=3),
    "dying": replace(
        VOTES, unit="event", leaves={2: 4, 4: 2}, root="dies", check_every=2, threshold=3
    ),
}
USERS = ["ann", "bob", ("cem", 1), 1, True]


def examples(points: Sequence[object], nulls: bool = True) -> st.SearchStrategy[Example]:
    usable = st.tuples(st.sampled_from(points), st.booleans())
    return st.one_of(usable, usable, usable, st.none()) if nulls else usable


def streams(points: Sequence[object]) -> st.SearchStrategy[list[Example]]:
    return st.lists(examples(points), min_size=LENGTH, max_size=LENGTH)


scripts = st.dictionaries(
    st.integers(0, LENGTH // 2), st.one_of(st.none(), st.integers(0, 2)), max_size=8
)
sizes = st.sampled_from([0, 1, 5, LENGTH])
seeds = st.integers(0, 2**63)


def compared(setting: Setting, one: Stream, other: Stream) -> tuple[Shown, Shown] | None:
    """World A under the script, world B under its transcript; None if it cannot follow."""
    a = world(setting, one)
    try:
        return a, world(setting, other, a.transcript)
    except Impossible:
        return None


def worlds(setting: Setting, one: Stream, other: Stream) -> tuple[Shown, Shown]:
    pair = compared(setting, one, other)
    assume(pair is not None)
    assert pair is not None
    return pair


@pytest.mark.parametrize("kind", EPOCHS)
@settings(max_examples=scaled(30, least=10))
@given(st.data(), st.sampled_from(NAMES), scripts, sizes, seeds, st.integers(0, LENGTH - 1))
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_epochs_are_shown_one_round_once(
    kind: str, data: st.DataObject, name: str, script: Script, size: int, seed: int, at: int
) -> None:
    cls, points = CASES[name]
    setting = Setting(cls, EPOCHS[kind], seed, script, size=size)
    rows = data.draw(streams(points))
    other = [*rows[:at], data.draw(examples(points)), *rows[at + 1 :]]
    assert epochs_hold(setting, *worlds(setting, fixed(rows), fixed(other)), at)


@pytest.mark.parametrize("kind", ["mixed", "two thresholds"])
@settings(max_examples=scaled(30, least=10))
@given(st.data(), st.sampled_from(NAMES), scripts, seeds, st.integers(0, LENGTH - 1))
def test_epochs_hold_for_streams_that_react(
    kind: str, data: st.DataObject, name: str, script: Script, seed: int, at: int
) -> None:
    cls, points = CASES[name]
    setting = Setting(cls, EPOCHS[kind], seed, script)
    rows = data.draw(streams(points))
    one = reacting(rows, {at: rows[at]})
    other = reacting(rows, {at: data.draw(examples(points))})
    assert epochs_hold(setting, *worlds(setting, one, other), at)


@pytest.mark.parametrize("cap", CAPPED)
@settings(max_examples=scaled(30, least=10))
@given(st.data(), st.sampled_from(NAMES), scripts, sizes, seeds, st.sampled_from(USERS))
def test_capped_users_are_shown_cap_times(
    cap: int, data: st.DataObject, name: str, script: Script, size: int, seed: int, user: object
) -> None:
    cls, points = CASES[name]
    who = data.draw(st.lists(st.sampled_from(USERS), min_size=LENGTH, max_size=LENGTH))
    setting = Setting(cls, CAPPED[cap], seed, script, who, size)
    rows, new = data.draw(streams(points)), data.draw(streams(points))
    assert capped_hold(setting, *worlds(setting, fixed(rows), fixed(_of(who, user, rows, new))))


@pytest.mark.parametrize("kind", LASTING)
@settings(max_examples=scaled(30, least=10))
@given(st.data(), st.sampled_from(NAMES), scripts, sizes, seeds, st.booleans())
def test_lasting_votes_are_one_sensitive(
    kind: str,
    data: st.DataObject,
    name: str,
    script: Script,
    size: int,
    seed: int,
    reacts: bool,
) -> None:
    """Per user without a cap, and per event; also when the stream reacts."""
    cls, points = CASES[name]
    plan = LASTING[kind]
    rows, new = data.draw(streams(points)), data.draw(streams(points))
    who = data.draw(st.lists(st.sampled_from(USERS), min_size=LENGTH, max_size=LENGTH))
    replaced = [data.draw(st.integers(0, LENGTH - 1))]
    if plan.unit == "user":
        replaced = [t for t in range(LENGTH) if _same(who[t], who[replaced[0]])]
    users, size = (who if plan.unit == "user" else None), 0 if reacts else size
    setting = Setting(cls, plan, seed, script, users, size)
    if reacts:
        one = reacting(rows, {t: rows[t] for t in replaced})
        other = reacting(rows, {t: new[t] for t in replaced})
    else:
        one = fixed(rows)
        other = fixed([new[t] if t in replaced else rows[t] for t in range(LENGTH)])
    assert votes_hold(setting, *worlds(setting, one, other))


def _same(one: object, other: object) -> bool:
    """1 and True are two users."""
    return type(one) is type(other) and one == other


def _of(
    who: Sequence[object], user: object, rows: list[Example], new: list[Example]
) -> list[Example]:
    """The rounds of one user replaced."""
    pairs = zip(who, rows, new, strict=True)
    return [there if _same(name, user) else here for name, here, there in pairs]


@pytest.mark.parametrize("plan", [*EPOCHS.values(), *CAPPED.values(), *LASTING.values()])
@settings(max_examples=scaled(12, least=10))
@given(st.data(), st.sampled_from(["sets", "thresholds", "union"]), scripts, seeds)
def test_what_is_shown_does_not_depend_on_batches(
    plan: ls.Plan | PaperPlan, data: st.DataObject, name: str, script: Script, seed: int
) -> None:
    """Every count, every threshold, every ballot: nothing of a later round is in them."""
    cls, points = CASES[name]
    who = data.draw(st.lists(st.sampled_from(USERS), min_size=LENGTH, max_size=LENGTH))
    setting = Setting(cls, plan, seed, script, who if plan.unit == "user" else None)
    rows = fixed(data.draw(streams(points)))
    assert world(setting, rows) == world(replace(setting, size=7), rows)
    assert world(setting, rows) == world(replace(setting, size=LENGTH), rows)


# Planted faults: searched for a violation, and it must be found; without the fault, none is.


def not_restarted(learner: Any) -> None:
    """Parallel composition is claimed and the forest goes on."""
    learner.loop.state.forest.restart = lambda rule: None


def old_trees_kept(learner: Any) -> None:
    """The restart draws new random bits and keeps the trees."""
    forest: Forest = learner.loop.state.forest

    def restart(rule: ls.Hypothesis) -> None:
        forest.epoch += 1

    vars(forest)["restart"] = restart


def one_tree_kept(learner: Any) -> None:
    """The restart forgets one tree."""
    forest: Forest = learner.loop.state.forest
    whole_restart = forest.restart

    def restart(rule: ls.Hypothesis) -> None:
        kept = forest.saved(0)
        whole_restart(rule)
        forest.regrow({0: kept})

    vars(forest)["restart"] = restart


def cap_ignored(learner: Any) -> None:
    """Rounds beyond the cap are learned."""
    learner._within_cap = lambda route, number: True


numbered = Rounds.numbered


def routed_by_round(block: Rounds, first: int, within: Any = None) -> Rounds:
    """User mode, and each round goes its own way."""
    rounds = numbered(block, first, within)
    return replace(rounds, users=rounds.number)


def routed_by_place(block: Rounds, first: int, within: Any = None) -> Rounds:
    """A null round shifts the routes of the rounds after it."""
    rounds = numbered(block, first, within)
    return replace(rounds, users=np.arange(first, first + len(rounds), dtype=np.uint64))


def breaks(setting: Setting, per_user: bool, number: int) -> bool:
    """Whether a random pair of neighbours breaks what is allowed."""
    draw = random.Random(number)
    rows, new = (_random_rows(draw) for _ in range(2))
    script = {check: draw.choice([None, 0, 1]) for check in draw.sample(range(24), 5)}
    users = [draw.choice(USERS) for _ in range(LENGTH)] if per_user else None
    here = replace(setting, seed=number, script=script, users=users)
    at = draw.randrange(LENGTH // 2)
    other = [*rows[:at], None if draw.random() < 0.5 else new[at], *rows[at + 1 :]]
    if users is not None:
        other = _of(users, users[0], rows, new)
    pair = compared(here, fixed(rows), fixed(other))
    if pair is None:
        return False
    if isinstance(setting.plan, PaperPlan):
        return not votes_hold(here, *pair)
    return not (capped_hold(here, *pair) if per_user else epochs_hold(here, *pair, at))


def _random_rows(draw: random.Random) -> list[Example]:
    rows = [(draw.randrange(3), draw.random() < 0.5) for _ in range(LENGTH)]
    return [None if draw.random() < 0.1 else row for row in rows]


def caught(setting: Setting, per_user: bool = False) -> bool:
    """Whether one of many pairs shows a fault."""
    return any(breaks(setting, per_user, number) for number in range(150))


def clean(setting: Setting, per_user: bool = False) -> bool:
    """Whether, without it, the first pairs show none."""
    return not any(breaks(setting, per_user, number) for number in range(20))


SETS = ls.Sets(2)


LOOKING_BACK = [not_restarted, old_trees_kept, one_tree_kept]


@pytest.mark.parametrize("size", [0, LENGTH])
@pytest.mark.parametrize("kind", EPOCHS)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_epochs_that_look_back_are_caught(kind: str, size: int) -> None:
    setting = Setting(SETS, EPOCHS[kind], 0, {}, size=size, watched=True)
    assert clean(setting)
    assert clean(replace(setting, watched=False))
    assert all(caught(replace(setting, fault=fault)) for fault in LOOKING_BACK)


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("size", [0, LENGTH])
def test_a_cap_that_does_not_hold_is_caught(cap: int, size: int) -> None:
    setting = Setting(SETS, CAPPED[cap], 0, {}, size=size)
    assert clean(setting, per_user=True)
    assert caught(replace(setting, fault=cap_ignored), per_user=True)


@pytest.mark.parametrize("plan", [CAPPED[8], LASTING["users"]], ids=["capped", "lasting"])
def test_users_routed_by_round_are_caught(
    plan: ls.Plan | PaperPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Setting(SETS, plan, 0, {}, size=24)
    assert clean(setting, per_user=True)
    monkeypatch.setattr(Rounds, "numbered", routed_by_round)
    assert caught(setting, per_user=True)


@pytest.mark.parametrize(
    "plan", [EPOCHS["flat"], EPOCHS["mixed"], LASTING["events"]], ids=["flat", "mixed", "lasting"]
)
def test_null_rounds_that_shift_others_are_caught(
    plan: ls.Plan | PaperPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Setting(SETS, plan, 0, {}, size=24)
    assert clean(setting)
    monkeypatch.setattr(Rounds, "numbered", routed_by_place)
    assert caught(setting)


def test_the_scripts_do_publish() -> None:
    """The tests above have power: ballots and counts do differ, rules are named."""
    counts, ballots, named = 0, 0, 0
    for number in range(40):
        draw = random.Random(number)
        rows: list[Example] = [(draw.randrange(3), draw.random() < 0.5) for _ in range(LENGTH)]
        at = draw.randrange(LENGTH)
        other = [*rows[:at], None, *rows[at + 1 :]]
        script: Script = dict.fromkeys(range(4, 24, 5), 0)
        pair = compared(Setting(SETS, EPOCHS["mixed"], number, script), fixed(rows), fixed(other))
        if pair is not None:
            found = differences(*pair)
            counts, ballots = counts + sum(found[0]), ballots + sum(map(bool, found[1]))
            named += sum(key is not None for key in pair[0].transcript.values())
    assert min(counts, ballots, named) > 5
