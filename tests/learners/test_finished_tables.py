"""Finished tables: every draw reads every row, costs add up, and order has no effect (Theorem 20).

The draws of the whole learner are enumerated for tiny tables. What they read of larger ones is that of
a plain twin. The base rate is scripted: it is public, and has a cost of its own.
"""

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, count, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_causes_inputs import (
    OUTCOMES,
    RANGES,
    WIDE,
    Example,
    Shown,
    causes_after,
    draw_scores,
    outcome_of,
    random_example,
    watched,
)

import littlestone as ls
from effort import scaled
from littlestone._audit.enumeration import (
    BranchingNoise,
    ByLaw,
    EnumeratingNoise,
    delta_at,
    law,
    worst,
)
from littlestone._hypotheses.causes import Cause
from littlestone._learners import cause_counts, causes_plan
from littlestone._learners.causes_plan import LARGEST_RATE, CausesPlan
from littlestone._privacy.accounting import Cost
from littlestone._privacy.causes import CausesMechanism, EpochTerms, Moves, Threshold, Weights
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore:delta")

Law = dict[tuple[bytes | None, ...], float]
DRAWN: list[bytes | None] = []


class Recorded(ByLaw):
    """Draw by law, and note what is drawn."""

    def __init__(self, draw: Any) -> None:
        super().__init__(draw)
        self.users = draw.users

    def select(self, *read: Any) -> bytes | None:
        DRAWN.append(super().select(*read))
        return DRAWN[-1]


class SmallPlan(CausesPlan):
    """Draws by law, from one row of a user."""

    @property
    def rounds_of_user(self) -> int | None:
        return 1 if self.unit == "user" else None

    def draw(self, terms: EpochTerms) -> Any:
        return Recorded(super().draw(terms))


class NoCounts(EnumeratingNoise):
    """Counts get no noise: no transcript here has them."""

    def laplace(self, scale: Fraction, at: Any) -> int:
        return 0


TINY = ls.Causes(["a"], limit=3)
DECLARED = ls.Causes(["a"], limit=3, values={"a": ["x", "z"]})


def plan_of(cls: ls.Causes, rows: int, **options: Any) -> CausesPlan:
    # So small that keys which are known weigh more.
    delta = 1e-4 if cls.values else 0.3
    plan = CausesPlan.practical(cls, 4, delta, rows, min_rate=0.4, table=True, **options)
    return SmallPlan(**vars(plan))


def weigh_frequent(frequent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let keys that enough positives list weigh more than delta leaves them, if they shall."""
    if frequent:
        monkeypatch.setattr(causes_plan, "TABLE_KNOWN_WEIGHT", Fraction(1))


def law_of(
    plan: CausesPlan, cls: ls.Causes, rows: Sequence[Example], users: Any = None, seed: int = 0
) -> Law:
    """The law of all draws from a table."""

    def run(noise: BranchingNoise) -> tuple[bytes | None, ...]:
        DRAWN.clear()
        learner = ls.PrivateCauses(cls, plan=plan, noise=noise, seed=seed)
        learner.loop.gate.release_first = lambda counts: [1]
        learn(learner, rows, users)
        return tuple(DRAWN)

    return law(run, NoCounts)


def learn(learner: ls.PrivateCauses, rows: Sequence[Example], users: Any = None) -> None:
    xs = [{"a": 0, "b": 0, "n": 0} if row is None else row[0] for row in rows]
    ys = [None if row is None else row[1] for row in rows]
    learner.learn_many(xs, ys, users, bad_rows="null")


def row(a: str, label: bool) -> Example:
    return {"a": a}, label


ROWS: list[Example] = [None, *(row(a, label) for a in "xy" for label in (True, False))]


@pytest.mark.parametrize(
    ("cls", "frequent"),
    [(TINY, False), (TINY, True), (DECLARED, False)],
    ids=["unknown", "frequent", "known"],
)
def test_all_draws_together_are_within_the_budget_and_draws_charged_once_are_not(
    cls: ls.Causes, frequent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables of three rows, and all neighbours: several draws of one table, which add up."""
    weigh_frequent(frequent, monkeypatch)
    # Small rates first, so that tables of a few rows have several draws.
    monkeypatch.setattr(causes_plan, "TABLE_SHARE", 50)
    plan = plan_of(cls, 3)
    tables: list[tuple[int, ...]] = list(combinations_with_replacement(range(len(ROWS)), 3))
    laws = {table: law_of(plan, cls, [ROWS[n] for n in table]) for table in tables}
    assert max(len(draws) for found in laws.values() for draws in found) > 3
    pairs = [
        (laws[table], laws[tuple(sorted((*table[:place], new, *table[place + 1 :])))])
        for table in tables
        for place in range(3)
        for new in range(table[place])
    ]
    mechanism = ls.PrivateCauses(cls, plan=plan).loop.gate
    assert bool(plan.known(plan.declared)[0].keys) == (cls is DECLARED)
    assert any(CausesPlan.draw(plan, plan.terms(2 / 3)).gaps) == (frequent or cls is DECLARED)
    found = worst("draws", "tables of 3 rows", mechanism.left, pairs)
    assert found.kept, found
    assert found.share > 0.3
    # Planted: the cost of the dearest draw, though several read the table.
    terms = plan.terms(2 / 3)._replace(rate=LARGEST_RATE, share=Fraction(1, 3))
    once = plan.draw(terms).cost
    assert 3 * once.epsilon == mechanism.left.epsilon
    assert not worst("draws", "planted", once, pairs).kept


def test_the_law_is_the_same_for_every_order_of_the_rows() -> None:
    plan, rows = plan_of(TINY, 4), [ROWS[n] for n in (1, 1, 2, 3)]
    laws = [law_of(plan, TINY, list(order)) for order in distinct_orders(rows)]
    assert len(laws) == 12
    assert all(found == pytest.approx(laws[0], rel=1e-9) for found in laws)


def distinct_orders(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    numbers = [rows.index(row) for row in rows]
    for order in sorted(set(permutations(numbers))):
        yield [rows[number] for number in order]


def seeds_of_all_orders(rows: int) -> list[int]:
    """One seed for each order in which rows of users may be chosen."""
    found: dict[tuple[int, ...], int] = {}
    for seed in count():
        found.setdefault(tuple(np.random.default_rng(seed).permutation(rows).tolist()), seed)
        if len(found) == len(list(permutations(range(rows)))):
            return list(found.values())
    raise AssertionError("unreachable")


WHOSE: list[tuple[Example, str]] = [(ROWS[1], "u"), (ROWS[4], "u"), (ROWS[1], "v"), (ROWS[3], "u")]


def mean_law(plan: CausesPlan, table: Sequence[tuple[Example, str]]) -> Law:
    """The law over all orders in which a seed may choose the rows of a user."""
    rows, users = [row for row, _ in table], [user for _, user in table]
    seeds = seeds_of_all_orders(len(rows))
    total: Law = {}
    for seed in seeds:
        for draws, chance in law_of(plan, TINY, rows, users, seed).items():
            total[draws] = total.get(draws, 0.0) + chance / len(seeds)
    return total


@pytest.mark.parametrize("fault", [False, True], ids=["sound", "planted: by the order of the file"])
def test_which_rows_of_a_user_are_read_does_not_follow_from_their_order(
    fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault:
        monkeypatch.delattr(ls.PrivateCauses, "_within")
    plan = plan_of(TINY, 3, unit="user")
    laws = [mean_law(plan, order) for order in distinct_orders(WHOSE[:3])]
    assert all(found == pytest.approx(laws[0], rel=1e-9) for found in laws) != fault


@pytest.mark.parametrize("frequent", [False, True], ids=["usual", "frequent"])
@pytest.mark.parametrize("seed", seeds_of_all_orders(4)[:6])
def test_users_of_a_table_are_within_the_budget(
    seed: int, frequent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows of a user are replaced, whichever of them is read."""
    weigh_frequent(frequent, monkeypatch)
    plan, users = plan_of(TINY, 4, unit="user"), [user for _, user in WHOSE]
    rest = [row for row, user in WHOSE if user == "v"]
    laws = []
    for own in ([1, 1, 1], [2, 2, 2], [3, 4, 1], [0, 0, 0], [3, 3, 3], [4, 1, 2]):
        mine, others = iter([ROWS[n] for n in own]), iter(rest)
        rows = [next(mine if user == "u" else others) for user in users]
        laws.append(law_of(plan, TINY, rows, users, seed))
    left = ls.PrivateCauses(TINY, plan=plan).loop.gate.left
    pairs = [(one, other) for one in laws for other in laws]
    assert worst("draws", "users", left, pairs).kept
    assert max(delta_at(0.1, *pair) for pair in pairs) > 0.01


# What the draws of larger tables read.


@pytest.mark.parametrize("unit", ["event", "user"])
@pytest.mark.parametrize("cls", [WIDE, RANGES, OUTCOMES], ids=["wide", "ranges", "outcomes"])
def test_what_the_draws_of_a_table_read_is_that_of_a_plain_twin(cls: ls.Causes, unit: Any) -> None:
    draws = 0
    for number in range(scaled(20, least=8)):
        draw = random.Random(number)
        rows = [random_example(draw) for _ in range(40)]
        if cls is OUTCOMES:
            rows = [row and (row[0], draw.choice("tu") if row[1] else "ok") for row in rows]
        users = [draw.choice("uvwxyz") for _ in rows] if unit == "user" else None
        shown = table_shown(cls, rows, users, number)
        order = np.random.default_rng(number).permutation(len(rows)).tolist()
        whose: list[Any] = users or list(range(len(rows)))
        mine = {user: [t for t in order if whose[t] == user] for user in whose}
        counted = [rows[own[0]] for own in mine.values()]
        read = [(rows[t], user) for user, own in mine.items() for t in own[:2]]
        positives = sum(row is not None and outcome_of(row[1]) is not False for row in counted)
        assert shown.first == (positives,)
        causes: tuple[Cause, ...] = ()
        for release, decision in sorted(shown.transcript.items()):
            # What was found in a table stays.
            scores = draw_scores(cls, read, causes, shown, release)
            adds = {move: score for move, score in scores.items() if move.startswith(b"+")}
            assert shown.ballots[release] == adds
            causes = causes_after(causes, decision.key)
        (counts,) = [counts for _, counts in shown.windows]
        assert sum(counts) == sum(row is not None for row in counted)
        draws += len(shown.transcript)
    assert draws > 12


class TwoRows(CausesPlan):
    """Two rows of a user are read."""

    @property
    def rounds_of_user(self) -> int | None:
        return 2 if self.unit == "user" else None


def table_shown(cls: ls.Causes, rows: list[Example], users: Any, seed: int) -> Shown:
    """What is shown to the mechanisms of a learner of a table, whose draws find something."""
    unit: Any = "event" if users is None else "user"
    plan = CausesPlan.practical(cls, 8, 0.01, len(rows), min_rate=0.3, unit=unit, table=True)
    shown = Shown({release: release % 3 for release in range(4)}, {})
    learner = ls.PrivateCauses(cls, plan=TwoRows(**vars(plan)), noise=SeededNoise(1), seed=seed)
    learn(watched(learner, shown, first=[2 if users else 20]), rows, users)
    return shown


# What is spent.


@given(
    epsilon=st.floats(0.05, 20),
    rows=st.integers(1, 3000),
    unit=st.sampled_from(["event", "user"]),
    seed=st.integers(0, 9),
)
def test_draws_never_cost_more_than_the_budget(
    epsilon: float, rows: int, unit: Any, seed: int
) -> None:
    """Exactly: base rate, draws and evidence of the ledger, and what is left."""
    cls = ls.Causes(["a", "b"], width=2)
    draw = np.random.default_rng(seed)
    noise = SeededNoise(seed)
    learner = ls.PrivateCauses(cls, epsilon, 1e-3, rows, unit=unit, table=True, noise=noise)
    labels = draw.random(rows) < draw.random()
    X = {"a": draw.integers(3, size=rows).astype(str), "b": draw.integers(9, size=rows).astype(str)}
    users = draw.integers(1 + rows // 3, size=rows).astype(str) if unit == "user" else None
    assert learner.spent == Cost(Fraction(0))
    learner.learn_many(X, labels, users)
    plan, mechanism = learner.plan, learner.loop.gate
    spent = sum((event.cost for event in learner.ledger), Cost(Fraction(0)))
    assert spent == learner.spent
    assert spent.epsilon <= plan.epsilon
    assert spent.delta <= plan.delta
    assert mechanism.left == Cost(plan.epsilon - spent.epsilon, plan.delta - spent.delta)
    assert [event.mechanism for event in learner.ledger].count("base rate") == 1
    assert [event.mechanism for event in learner.ledger].count("evidence") == 1


def test_a_draw_that_would_exceed_the_budget_is_refused() -> None:
    plan = CausesPlan.practical(TINY, 4, 0.3, 100, min_rate=0.4, table=True)
    mechanism: CausesMechanism = ls.PrivateCauses(TINY, plan=plan).loop.gate
    terms = plan.next_draw(plan.terms(2 / 3), mechanism.left.epsilon, 1.0, None)
    assert terms is not None
    refused = terms._replace(rate=mechanism.left.epsilon / 2 + Fraction(1, 10**9))
    with pytest.raises(BadParameter, match="cost more"):
        mechanism.begin_epoch(refused, 100, Threshold(0))
    # The first leaves too little for a second.
    mechanism.begin_epoch(terms._replace(rate=mechanism.left.epsilon / 3), 100, Threshold(0))
    mechanism.run([0], lambda check, fired: no_rows())
    with pytest.raises(BadParameter, match="cost more"):
        mechanism.begin_epoch(terms._replace(rate=plan.epsilon / 3), 100, Threshold(0))


def no_rows() -> Moves:
    nothing = np.zeros((0, 2), np.int64)
    numbers = np.zeros(0, np.int64)
    weights = Weights(100, 100)
    return Moves(weights, nothing, numbers, numbers, list[bytes]().__getitem__, lambda *_: b"",
                 nothing, [])  # fmt: skip


@pytest.mark.parametrize("unit", ["event", "user"])
def test_where_nearly_all_rows_are_positive_nothing_is_drawn_but_counted(unit: Any) -> None:
    rows = [row(f"{n % 3}", True) for n in range(400)]
    users = [f"{n}" for n in range(400)] if unit == "user" else None
    learner = ls.PrivateCauses(TINY, 4, 1e-6, 400, unit=unit, table=True)
    learn(learner, rows, users)
    assert learner.draws == 0
    assert [event.mechanism for event in learner.ledger] == ["base rate", "evidence"]
    assert [remark for remark in learner.remarks if "no draw was made" in remark]
    assert not [remark for remark in learner.remarks if "no draw found" in remark]


def test_a_table_is_learned_whole_and_once() -> None:
    rows = [row("x", True), row("y", False)] * 4
    for taken in (rows[:7], [*rows, rows[0]]):
        learner = ls.PrivateCauses(TINY, 4, 1e-6, 8, table=True)
        with pytest.raises(BadParameter, match="learned whole"):
            learn(learner, taken)
        assert (learner.rounds, learner.ledger) == (0, ())
    with pytest.raises(BadParameter, match="not learn_one"):
        learner.learn_one({"a": "x"}, True)
    with pytest.raises(BadParameter, match="not learn_one"):
        learner.skip_one()
    learn(learner, rows)
    spent = learner.spent
    with pytest.raises(BadParameter, match="learned whole"):
        learn(learner, rows)
    learner.end_window()
    assert learner.spent == spent
    # Nor after it was saved.
    with learner.checkpoint() as saved:
        other = ls.PrivateCauses(TINY, plan=learner.plan, seed=learner.seed)
        other.resume(saved)
    assert (other.spent, other.ledger, other.windows) == (spent, learner.ledger, learner.windows)
    with pytest.raises(BadParameter, match="learned whole"):
        learn(other, rows)


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(ls.BadExample, match="the table has no rows"):
        ls.find_causes({"a": []}, [], ["a"], epsilon=1, delta=1e-7)


def test_noise_is_taken_off_the_base_rate_but_little_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cause has to beat follows from the count less its doubt, at most a tenth of it."""
    rows = [row(f"{n % 3}", n % 4 == 0) for n in range(400)]

    def odds_to_beat() -> float:
        learner = ls.PrivateCauses(TINY, 1, 1e-6, 400, table=True, noise=SeededNoise(3))
        learn(learner, rows, None)
        assert learner.rate_to_beat is not None
        return learner.rate_to_beat / (1 - learner.rate_to_beat)

    less = odds_to_beat()
    monkeypatch.setattr(cause_counts, "BASE_DOUBT", 0)
    whole = odds_to_beat()
    assert 0.8 * whole < less < 0.97 * whole
