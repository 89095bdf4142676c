"""Budget files: no more is drawn than there is, whoever draws; what is wrong is said."""

import math
import os
import pickle
import random
import shutil
import sqlite3
from contextlib import closing
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from killed import kill_at_every_write

from commands import FORKS
from effort import scaled
from littlestone._privacy.accounting import Cost
from littlestone._privacy.parameters import BadParameter
from littlestone._store import files
from littlestone._store.budgets import (
    BadBudget,
    BudgetExceeded,
    BudgetFile,
    BudgetState,
    float_below,
    read_budgets,
)

E1 = Fraction(1)


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
    setattr(BudgetState, "refuse_overdraft", lambda *_: None)  # noqa: B010
    results.put(budget.draw(1).run)


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


def test_a_draw_that_is_killed_is_made_whole_or_not_at_all(budget: BudgetFile) -> None:
    counts = []
    for _ in kill_at_every_write(lambda: budget.draw(1, run="killed")):
        counts.append(len(budget.read().of_run("killed")))
    assert set(counts) == {0}
    assert len(counts) >= 3
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
    assert str(state.guarantee).startswith("(1.0001, 1.0001e-06)-"), "people read it"
    with pytest.raises(BudgetExceeded, match="Nothing fits"):
        budget.draw(1e-9)


def test_a_run_that_has_drawn_is_not_charged_again(budget: BudgetFile) -> None:
    first = budget.draw(1, 1e-7, run="mine")
    again = budget.draw(1, 1e-7, run="mine")
    assert (first.charged, again.charged) == (Cost(E1, Fraction(1e-7)), Cost(Fraction(0)))
    with pytest.raises(BadBudget, match="has drawn"):
        budget.draw(2, 1e-7, run="mine")


def test_a_repetition_draws_epsilon_again_and_is_refused_with_a_delta(budget: BudgetFile) -> None:
    budget.draw(1, run="mine")
    for repeats in (1, 2, 2):
        budget.draw_again("mine", repeats)
    drawn = budget.read().of_run("mine")
    assert [draw.is_repeat for draw in drawn] == [False, True]
    assert [draw.cost for draw in drawn] == [Cost(Fraction(1))] * 2
    with pytest.raises(BudgetExceeded):
        budget.draw_again("mine", 4)
    with pytest.raises(BadBudget, match="no draw of run"):
        budget.draw_again("another", 2)
    budget.draw(0.5, 1e-8, run="with a delta")
    assert not budget.draw_again("with a delta", 1).charged.epsilon
    before = budget.read()
    with pytest.raises(BadParameter, match="has a delta"):
        budget.draw_again("with a delta", 2)
    assert budget.read() == before


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
    monkeypatch.setattr(files, "PATIENCE", 0.05)
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
        "UPDATE seal SET key = x'00'",
        "UPDATE seal SET commits = commits - 1",
        "UPDATE log SET entry = '[]' WHERE number = 1",
    ],
)
def test_a_log_that_was_changed_is_damaged(budget: BudgetFile, harm: str) -> None:
    for epsilon in (2, Fraction(1, 2), Fraction(1, 4)):
        budget.draw(epsilon)
    with closing(sqlite3.connect(budget.path)) as db:
        db.executescript(harm)
    assert "damaged" in refused(Path(budget.path))


def test_a_flipped_bit_is_harmless_or_a_sentence(budget: BudgetFile) -> None:
    """The openings of runs are under the seal too."""
    budget.draw(1, note="x" * 200)
    budget.note_opening("mine", 5)
    path, state = Path(budget.path), budget.read()
    sound, draw, refused = path.read_bytes(), random.Random(1), 0
    first = draw.sample(range(8 * 4096), scaled(4000, least=800))
    for bit in [*first, *draw.sample(range(8 * len(sound)), scaled(1000, least=200))]:
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert (budget.read(), budget.last_opening("mine")) == (state, 5), bit
        except BadBudget:
            refused += 1
    assert refused > scaled(200, least=40)


@pytest.mark.parametrize("name", ["", " ", " visits", "visits ", "visits\t", "a\nb"])
def test_a_name_that_looks_like_another_is_refused(budget: BudgetFile, name: str) -> None:
    with pytest.raises(BadParameter, match="no name of a data set"):
        BudgetFile.create(budget.path, name, epsilon=1)
    assert len(read_budgets(budget.path)) == 1


@pytest.mark.parametrize("name", ["Visits", "VISITS", "\uff56isits"])
def test_a_name_that_differs_in_case_only_is_warned_of(budget: BudgetFile, name: str) -> None:
    with pytest.warns(UserWarning, match="has a data set 'visits' too"):
        BudgetFile.create(budget.path, name, epsilon=1)
    BudgetFile.create(budget.path, "orders", epsilon=1)


def test_half_a_file_is_refused_and_so_is_an_empty_one(budget: BudgetFile) -> None:
    path = Path(budget.path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "damaged" in refused(path)
    path.write_bytes(b"")
    assert "not a budget file" in refused(path)


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
