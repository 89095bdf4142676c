"""Budget files: no more is drawn than there is, whoever draws; what is wrong is said."""

import importlib
import math
import os
import pickle
import shutil
import signal
import sqlite3
from contextlib import closing
from copy import deepcopy
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import FORKS
from effort import scaled
from littlestone._privacy import budget_file as module
from littlestone._privacy.accounting import Cost, composed_cost, composed_epsilon
from littlestone._privacy.budget_file import BadBudget, BudgetFile, read_budgets
from littlestone._privacy.budget_state import (
    BudgetExceeded,
    BudgetState,
    float_below,
    still_possible,
)
from littlestone._privacy.parameters import BadParameter

E1, DELTA = Fraction(1), Fraction(1, 10**6)


@pytest.fixture
def budget(tmp_path: Path) -> BudgetFile:
    return BudgetFile.create(tmp_path / "budgets.db", "visits", epsilon=3, delta=1e-6)


# Many processes.


def draws_in_child(budget: BudgetFile, together: Any, results: Any) -> None:
    together.wait()
    try:
        results.put(budget.draw(1, note=f"process {os.getpid()}").run)
    except BudgetExceeded as error:
        results.put(str(error))


def checks_then_writes(budget: BudgetFile, together: Any, results: Any) -> None:
    """The planted fault: the check and the write are two transactions."""
    budget.check(1)
    together.wait()
    with module._transaction(Path(budget.path)) as db:
        entry = {"kind": "draw", "dataset": budget.dataset, "run": str(os.getpid()), "note": ""}
        cost = {"epsilon": "1", "delta": "0"}
        module._append(db, {**entry, **cost, "planned": cost, "charged": "sum", "unit": "event"})
    results.put(str(os.getpid()))


def race(budget: BudgetFile, target: Any, processes: int = 8) -> tuple[list[str], BudgetState]:
    together, results = FORKS.Barrier(processes), FORKS.Queue()
    children = [
        FORKS.Process(target=target, args=(budget, together, results)) for _ in range(processes)
    ]
    for child in children:
        child.start()
    said = [results.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    return said, budget.read()


def test_eight_processes_cannot_overdraw(budget: BudgetFile) -> None:
    said, state = race(budget, draws_in_child)
    assert sum("What fits" in one or "Nothing fits" in one for one in said) == 5
    assert state.spent == Cost(Fraction(3))
    assert {draw.run for draw in state.draws} < set(said)
    assert not state.left.epsilon


def test_the_race_finds_a_check_that_is_not_in_the_transaction(budget: BudgetFile) -> None:
    _, state = race(budget, checks_then_writes, processes=4)
    assert state.spent.epsilon == 4 > state.total.epsilon


def killed_while_drawing(budget: BudgetFile, before: str) -> None:
    """Die before a statement of the draw's transaction is executed."""
    connect = module._connected

    class Dying(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql.startswith(before):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().execute(sql, *parameters)

    def connected(path: Path, create: bool = False) -> sqlite3.Connection:
        connect(path, create).close()
        return sqlite3.connect(path, factory=Dying, isolation_level=None)

    module._connected = connected
    budget.draw(1, run="killed")


@pytest.mark.parametrize("before", ["BEGIN", "INSERT", "COMMIT"])
def test_a_draw_is_made_whole_or_not_at_all(budget: BudgetFile, before: str) -> None:
    child = FORKS.Process(target=killed_while_drawing, args=(budget, before))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert budget.read().draws == ()
    budget.draw(1, run="killed")
    assert len(budget.read().of_run("killed")) == 1


# What is charged.


def test_draws_add_up_exactly(budget: BudgetFile) -> None:
    budget.draw(Fraction(1, 3))
    budget.draw(Fraction(1, 7), Fraction(1, 10**7))
    state = budget.read()
    assert state.spent == Cost(Fraction(10, 21), Fraction(1, 10**7))
    with pytest.raises(BudgetExceeded, match=r"What fits: --epsilon 2.5238 --delta 9e-07 or less"):
        budget.draw(2.6)
    with pytest.raises(BudgetExceeded):
        budget.draw(0.1, 1e-6)
    assert budget.read() == state, "a refused draw changes nothing"
    budget.draw(float_below(state.left.epsilon), float_below(state.left.delta))


def test_ten_tenths_are_one_and_no_eleventh_fits(tmp_path: Path) -> None:
    """As a float a tenth is more than 1/10: what is enforced, and quoted, allows for it."""
    budget = BudgetFile.create(tmp_path / "b.db", "d", epsilon=1, delta=1e-6)
    for _ in range(10):
        budget.draw(0.1, 1e-7)
    state = budget.read()
    assert state.spent.epsilon > 1, "exactly, it is more"
    assert Fraction(state.guarantee.epsilon) >= state.spent.epsilon
    assert Fraction(state.guarantee.delta) >= state.spent.delta
    with pytest.raises(BudgetExceeded, match="Nothing fits"):
        budget.draw(1e-9)


def test_a_run_that_has_drawn_is_not_charged_again(budget: BudgetFile) -> None:
    first = budget.draw(1, 1e-7, run="mine")
    again = budget.draw(1, 1e-7, run="mine")
    assert (first.charged.epsilon, first.how) == (Fraction(1), "sum")
    assert (again.charged.epsilon, again.how) == (Fraction(0), "known")
    with pytest.raises(BadBudget, match="has drawn"):
        budget.draw(2, 1e-7, run="mine")


def test_a_repetition_draws_epsilon_again_and_is_refused_with_a_delta(budget: BudgetFile) -> None:
    budget.draw(1, run="mine")
    for repeats in (1, 2, 2):
        budget.draw_again("mine", repeats)
    drawn = budget.read().of_run("mine")
    assert [draw.charged for draw in drawn] == ["sum", "repeat"]
    assert [draw.cost for draw in drawn] == [Cost(Fraction(1))] * 2
    with pytest.raises(BudgetExceeded):
        budget.draw_again("mine", 4)
    with pytest.raises(BadBudget, match="no draw of run"):
        budget.draw_again("another", 2)
    budget.draw(0.5, 1e-8, run="with a delta")
    assert budget.draw_again("with a delta", 1).how == "known"
    before = budget.read()
    with pytest.raises(BadParameter, match="has a delta"):
        budget.draw_again("with a delta", 2)
    assert budget.read() == before


def test_runs_of_one_cost_that_are_declared_twice_are_all_there(budget: BudgetFile) -> None:
    budget.declare([(2, 0.25, 0), (3, 0.25, 0)], 0)
    for _ in range(5):
        assert budget.draw(0.25).how == "series"
    assert budget.draw(0.25).how == "sum"


def test_per_user_a_repetition_costs_nothing(budget: BudgetFile) -> None:
    budget.draw(1, 1e-8, run="mine", unit="user")
    assert budget.draw_again("mine", 5).charged == Cost(Fraction(0))


def test_unlike_units_are_refused_or_converted_by_the_stated_rule(tmp_path: Path) -> None:
    users = BudgetFile.create(tmp_path / "b.db", "users", epsilon=1, unit="user")
    events = BudgetFile.create(tmp_path / "b.db", "events", epsilon=1)
    with pytest.raises(BadParameter, match="counted per user"):
        users.draw(1)
    with pytest.raises(BadParameter, match="counted per user"):
        users.check(1)
    users.draw(1, unit="user")
    events.draw(1, unit="user")
    assert [state.spent.epsilon for state in read_budgets(tmp_path / "b.db")] == [1, 1]


# Series that are declared.


def test_a_declared_series_is_charged_by_optimal_composition(budget: BudgetFile) -> None:
    each = Cost(Fraction(1, 10))
    got = budget.declare([(40, Fraction(1, 10), 0)], delta=Fraction(5, 10**7), note="sweep")
    assert got.charged.epsilon == composed_epsilon(each, 40, Fraction(5, 10**7)) < 4
    for _ in range(40):
        assert budget.draw(Fraction(1, 10)).how == "series"
    assert budget.read().spent == got.charged
    assert budget.draw(Fraction(1, 100)).how == "sum", "the forty-first is charged by itself"


def test_a_run_takes_the_cheapest_place_that_holds_it(budget: BudgetFile) -> None:
    budget.declare([(1, 0.5, 1e-8), (2, 0.25, 0)], delta=1e-7)
    assert budget.draw(0.2).state.draws[-1].slot == Cost(Fraction(1, 4))
    assert budget.draw(0.2, 1e-9).state.draws[-1].slot == Cost(Fraction(1, 2), Fraction(1e-8))
    assert budget.draw(0.3).how == "sum", "0.25 is declared, not 0.3"
    assert dict(budget.read().slots()) == {(budget.read().draws[0].run, Cost(Fraction(1, 4))): 1}


def test_few_runs_are_better_added_up(budget: BudgetFile) -> None:
    got = budget.declare([(2, 1, 1e-8)], delta=1e-6)
    assert got.charged == Cost(Fraction(2), 2 * Fraction(1e-8))


@pytest.mark.parametrize(
    ("costs", "delta", "step"),
    [
        ([(0.25, 0.0)] * 8 + [(0.5, 0.0)] * 4, 1e-4, 0.25),
        ([(0.125, 1e-9)] * 20 + [(0.5, 1e-8)] * 2 + [(0.25, 0.0)] * 5, 1e-6, 0.125),
        ([(1.0, 0.0)] * 3 + [(0.5, 1e-3)], 1e-2, 0.5),
    ],
)
def test_unequal_runs_agree_with_dp_accounting(
    costs: list[tuple[float, float]], delta: float, step: float
) -> None:
    pld: Any = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    common: Any = importlib.import_module("dp_accounting.pld.common")
    single = [
        pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(*cost), value_discretization_interval=step
        )
        for cost in costs
    ]
    peer = single[0]
    for one in single[1:]:
        peer = peer.compose(one)
    ours = composed_cost([Cost(Fraction(e), Fraction(d)) for e, d in costs], Fraction(delta))
    assert float(ours.epsilon) == pytest.approx(peer.get_epsilon_for_delta(delta), abs=1e-8)


@settings(max_examples=scaled(30, least=10))
@given(
    st.lists(
        st.sampled_from([Fraction(1, 4), Fraction(1, 2), Fraction(1)]), min_size=2, max_size=6
    ),
    st.sampled_from([1e-4, 1e-2, 0.2]),
)
def test_unequal_composition_is_the_hockey_stick_of_all_outcomes(
    epsilons: list[Fraction], delta: float
) -> None:
    """Every sequence of answers, one by one; never below the curve, never above the sum."""
    cost = composed_cost([Cost(epsilon) for epsilon in epsilons], Fraction(delta))
    curve = 0.0
    for answers in product([1, -1], repeat=len(epsilons)):
        chances = [
            1 / (1 + math.exp(-sign * float(e))) for sign, e in zip(answers, epsilons, strict=True)
        ]
        others = [1 - chance for chance in chances]
        curve += max(0.0, math.prod(chances) - math.exp(cost.epsilon) * math.prod(others))
    assert cost.epsilon <= sum(epsilons)
    assert curve <= delta * (1 + 1e-9)
    if cost.delta and cost.epsilon:
        assert curve == pytest.approx(delta, rel=1e-9)


def test_what_still_fits_does(budget: BudgetFile) -> None:
    for row in still_possible(budget.read().left):
        assert composed_cost([row.declared] * row.runs, DELTA).epsilon <= 3
        assert row.added.times(row.runs).epsilon == 3
    with pytest.raises(BadParameter, match="more than"):
        budget.declare([(10, 0.1, 1e-7)], delta=1e-7)
    with pytest.raises(BadParameter, match="more of them the same epsilon"):
        budget.declare([(100, e / 10, 0) for e in range(1, 5)], delta=1e-7)


# The file.


def refused(path: Path, dataset: str = "visits") -> str:
    with pytest.raises(BadBudget) as error:
        BudgetFile(path, dataset).draw(1)
    return str(error.value)


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, budget: BudgetFile) -> None:
    path = Path(budget.path)
    assert "is not there" in refused(tmp_path / "nothing.db")
    assert not (tmp_path / "nothing.db").exists()
    assert "only 'visits'" in refused(path, "visists")
    (tmp_path / "text.db").write_text("merchant,fraud\n" * 100)
    assert "not a budget file" in refused(tmp_path / "text.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE t (x)")
    assert "not a budget file" in refused(tmp_path / "other.db")
    with pytest.raises(BadBudget, match="not a budget file"):
        BudgetFile.create(tmp_path / "other.db", "d", epsilon=1)
    with pytest.raises(BadBudget, match="already"):
        BudgetFile.create(path, "visits", epsilon=9)
    os.link(path, tmp_path / "second.db")
    assert "hard link" in refused(path)


def test_a_locked_file_says_so(budget: BudgetFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(budget.path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(BadBudget, match="is locked"):
            budget.draw(1)
    assert budget.draw(1).charged.epsilon == 1


@pytest.mark.parametrize(
    "harm",
    [
        'UPDATE log SET entry = replace(entry, \'"epsilon": "2"\', \'"epsilon": "1"\')',
        "DELETE FROM log WHERE number = 2",
        "DELETE FROM log WHERE number = 3; UPDATE log SET number = 3 WHERE number = 4",
        "UPDATE about SET value = 'another'",
        "UPDATE log SET entry = '[]' WHERE number = 1",
    ],
)
def test_a_log_that_was_changed_is_damaged(budget: BudgetFile, harm: str) -> None:
    for epsilon in (2, Fraction(1, 2), Fraction(1, 4)):
        budget.draw(epsilon)
    with closing(sqlite3.connect(budget.path)) as db:
        db.executescript(harm)
    assert "damaged" in refused(Path(budget.path))


def test_flipped_bytes_never_give_budget_back(budget: BudgetFile) -> None:
    for _ in range(2):
        budget.draw(1, note="x" * 200)
    path = Path(budget.path)
    sound = path.read_bytes()
    used = [place for place, byte in enumerate(sound) if byte]
    for place in used[:: max(1, len(used) // scaled(120, least=40))]:
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 0x11]) + sound[place + 1 :])
        try:
            assert budget.read().spent.epsilon >= 2
        except BadBudget:
            continue


def test_half_a_file_is_refused_and_an_empty_one_can_be_begun(budget: BudgetFile) -> None:
    path = Path(budget.path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "damaged" in refused(path)
    path.write_bytes(b"")
    BudgetFile.create(path, "visits", epsilon=1)


def test_an_object_is_two_names_and_its_copies_draw_from_one_file(budget: BudgetFile) -> None:
    for twin in (deepcopy(budget), pickle.loads(pickle.dumps(budget))):
        twin.draw(1)
        assert twin == budget
    assert budget.read().left.epsilon == 1


def test_a_copy_of_the_file_is_another_budget_which_nothing_here_can_see(
    budget: BudgetFile, tmp_path: Path
) -> None:
    """docs/limits.md says so: this is the attack that is not detected."""
    shutil.copy(budget.path, tmp_path / "copy.db")
    twin = BudgetFile(tmp_path / "copy.db", "visits")
    budget.draw(3)
    twin.draw(3)
    assert twin.identity == budget.identity


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 0), (-1, 0), (math.inf, 0), (1, 1), (1, -1e-9), (True, 0)]
)
def test_bad_amounts_are_refused_before_a_file_is_made(
    tmp_path: Path, epsilon: float, delta: float
) -> None:
    with pytest.raises(BadParameter):
        BudgetFile.create(tmp_path / "b.db", "d", epsilon=epsilon, delta=delta)
    assert not (tmp_path / "b.db").exists()
