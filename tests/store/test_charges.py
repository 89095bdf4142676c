"""Runs that draw from a budget: before a row is learned, once, however often they are killed."""

import json
import os
import random
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from killed import forked, kill_self

from commands import littlestone
from littlestone._classes.sets import Points
from littlestone._cli import learn as learn_verb
from littlestone._cli import serve as serve_verb
from littlestone._cli.learn import run
from littlestone._data.readers import open_rows
from littlestone._data.rounds import BadStream
from littlestone._privacy.accounting import Cost
from littlestone._privacy.parameters import BadParameter
from littlestone._report.report import RunResult
from littlestone._store.budgets import BadBudget, BudgetExceeded, BudgetFile, check_budget
from littlestone._store.copies import back_up, take_over
from littlestone._store.files import BadStore, OldCopy
from littlestone._store.request import LearnRequest
from littlestone._store.store import Run, Store, open_store, read_store

pytestmark = pytest.mark.filterwarnings("ignore:delta", "ignore:This process:DeprecationWarning")


@pytest.fixture
def day(tmp_path: Path) -> Path:
    draw = random.Random(0)
    merchants = [draw.choice(["M1", "M2", "M3", "M7"]) for _ in range(200)]
    rows = [f"{m},{int(m == 'M7')},u{n % 50},{n % 10}\n" for n, m in enumerate(merchants)]
    path = tmp_path / "day.csv"
    path.write_text("merchant,fraud,who,amount\n" + "".join(rows))
    return path


@pytest.fixture
def budget(tmp_path: Path) -> BudgetFile:
    return BudgetFile.create(tmp_path / "budgets.db", "visits", epsilon=3, delta=1e-6)


def task(source: Path, *, spec: str = "points:merchant", **more: Any) -> LearnRequest:
    options: dict[str, Any] = {
        "epsilon": 1.0, "delta": 1e-8, "horizon": 4000, "seed": 3,
        "budget": source.parent / "budgets.db", "dataset": "visits",
    } | more  # fmt: skip
    return LearnRequest(source=str(source), spec=spec, label="fraud", **options)


def learned(source: Path, db: str | None = None, **more: Any) -> RunResult:
    path = None if db is None else source.parent / db
    return run(task(source, **more), lambda outcome: None, path)


def test_every_run_draws_and_the_one_too_many_reads_no_row(
    day: Path, budget: BudgetFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        outcome = learned(day)
    assert "drew (epsilon 1, delta 1e-08) from data set 'visits'" in " ".join(outcome.notes)
    assert budget.read().spent.epsilon == 3
    opened = []
    monkeypatch.setattr(learn_verb, "rows_of", lambda *_: opened.append("rows"))
    with pytest.raises(BudgetExceeded, match="Nothing fits any more"):
        learned(day)
    with pytest.raises(BudgetExceeded):
        learned(day, "run.db")
    assert opened == []
    assert not (day.parent / "run.db").exists()


def test_the_draw_is_committed_before_the_first_row_is_learned(
    day: Path, budget: BudgetFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    for kind in (Run, Store):
        monkeypatch.setattr(kind, "learn", lambda *_: drawn.append(budget.read().spent))
    for db in (None, "run.db"):
        learned(day, db)
    assert [spent.epsilon for spent in drawn] == [1, 2]


def test_what_the_plan_costs_is_drawn_and_experts_have_no_delta(
    day: Path, budget: BudgetFile
) -> None:
    request = replace(task(day, epsilon=0.5, delta=0.5, horizon=None), spec="thresholds:amount:0:9")
    run(request, lambda outcome: None)
    assert budget.read().spent.delta == 0
    assert float(budget.read().spent.epsilon) == 0.5


def test_a_call_that_is_refused_for_another_reason_draws_nothing(
    day: Path, budget: BudgetFile
) -> None:
    for request in (replace(task(day), label="frod"), replace(task(day), source="nothing.csv")):
        for db in (None, day.parent / "run.db"):
            with pytest.raises((BadStream, OSError)):
                run(request, lambda outcome: None, db)
    with pytest.raises(BadParameter, match="belong together"):
        learned(day, budget=None)
    with pytest.raises(BadBudget, match="no data set"):
        learned(day, dataset="visists")
    assert budget.read().draws == ()


@pytest.mark.parametrize("db", [[], ["--db", "run.db"]])
@pytest.mark.parametrize(
    ("option", "name", "sentence"),
    [
        ("--report", "nowhere/r.html", "nowhere/r.html: the folder is not there"),
        ("--private-json", "nowhere/p.json", "nowhere/p.json: the folder is not there"),
        ("--out", "nowhere/r.jsonl", "nowhere/r.jsonl: the folder is not there"),
        ("--report", "folder", "folder: it is a folder"),
        ("--private-json", "folder", "folder: it is a folder"),
        ("--out", "folder", "folder: it is a folder"),
        ("--out", "other.jsonl", "other.jsonl"),
        ("--out", "run.db", "run.db"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_drawn(
    day: Path, budget: BudgetFile, db: list[str], option: str, name: str, sentence: str
) -> None:
    folder = day.parent
    (folder / "folder").mkdir()
    (folder / "other.jsonl").write_text('{"kind": "release", "round": 1}\n')
    (folder / "run.db").touch() if not db else None
    before = sorted(os.listdir(folder))
    learn = ["learn", "day.csv", "--class", "points:merchant", "--label", "fraud", "--delta", 1e-8]
    drawn = ["--budget", "budgets.db", "--dataset", "visits", "--force" if name == "folder" else ""]
    done = littlestone(*learn, *filter(None, drawn), *db, option, name, folder=folder, width=300)
    assert done.returncode == 2, done.stdout
    assert sentence in done.stderr
    assert budget.read().draws == ()
    assert sorted(os.listdir(folder)) == before


def test_a_store_that_has_not_drawn_does_not_for_the_releases_of_another(
    day: Path, budget: BudgetFile
) -> None:
    """It was killed between its first commit and the draw."""
    assert not forked(lambda: killed_run(day, "before the draw"))
    assert (day.parent / "run.db").exists()
    out = day.parent / "other.jsonl"
    out.write_text('{"kind": "release", "round": 1}\n')
    with pytest.raises(BadStore, match="the releases of another run"):
        learned(day, "run.db", out=out)
    assert budget.read().draws == ()
    learned(day, "run.db")
    assert len(budget.read().draws) == 1


def test_a_run_that_goes_on_is_not_charged_again(day: Path, budget: BudgetFile) -> None:
    learned(day, "run.db")
    with day.open("a") as file:
        file.write("M7,1,u3,1\n" * 10)
    # The store remembers its budget.
    outcome = learned(day, "run.db", budget=None, dataset=None)
    assert outcome.learner.rounds == 210
    assert len(budget.read().draws) == 1
    learned(day, "another.db")
    assert budget.read().spent.epsilon == 2


def killed_run(day: Path, where: str) -> None:
    """Die in a run with a store: before the draw, after it, or when a part was learned."""

    kind = Run if "unstored" in where else Store
    learn = kind.learn

    def die(*_: object) -> None:
        kill_self()

    def learn_and_die(*given: Any) -> None:
        learn(*given)
        kill_self()

    if where == "before the draw":
        setattr(learn_verb, "charge_run", die)  # noqa: B010
    else:
        setattr(kind, "learn", die if where == "before a row" else learn_and_die)  # noqa: B010
    learned(day, None if "unstored" in where else "run.db")


@pytest.mark.parametrize(
    ("where", "drawn"),
    [("before the draw", 0), ("before a row", 1), ("after rows", 1), ("after rows, unstored", 1)],
)
def test_a_killed_run_is_charged_once(
    day: Path, budget: BudgetFile, where: str, drawn: int
) -> None:
    assert not forked(lambda: killed_run(day, where))
    state = budget.read()
    assert len(state.draws) == drawn
    if "unstored" in where:
        # Nothing is given back, and nothing can go on from it: the next is another run.
        learned(day)
        assert budget.read().spent.epsilon == 2
        return
    outcome = learned(day, "run.db")
    assert outcome.learner.rounds == 200
    (draw,) = budget.read().draws
    assert draw.run == read_store(day.parent / "run.db").run


# A finite class, whose learner has no delta.
CUTS = "thresholds:amount:0:9"


def test_again_draws_again_and_new_rows_do_not(day: Path, budget: BudgetFile) -> None:
    learned(day, "run.db", spec=CUTS)
    learned(day, "run.db", spec=CUTS, again=True)
    spent = budget.read().spent
    assert spent == Cost(Fraction(2))
    other = day.with_name("other.csv")
    other.write_text(day.read_text())
    learned(other, "run.db", spec=CUTS, new_rows=True)
    assert budget.read().spent == spent
    # All rows of the file for the third time; another file for the second is within that.
    learned(day, "run.db", spec=CUTS, again=True)
    assert budget.read().spent.epsilon == 3
    with pytest.raises(BudgetExceeded, match="learning rows once more"):
        learned(day, "run.db", spec=CUTS, again=True)
    store = read_store(day.parent / "run.db")
    assert store.published.rounds == 4 * 200
    assert max(source.repeat for source in store.sources) == 3


def test_a_run_with_a_delta_learns_no_row_again(day: Path, budget: BudgetFile) -> None:
    """What is drawn at a repetition does not bound its delta (Theorem 18)."""
    learned(day, "run.db")
    with pytest.raises(BadParameter, match="has a delta"):
        learned(day, "run.db", again=True)
    assert read_store(day.parent / "run.db").published.rounds == 200
    assert budget.read().spent.epsilon == 1


def test_a_repetition_that_was_killed_is_charged_once(day: Path, budget: BudgetFile) -> None:
    learned(day, "run.db", spec=CUTS)
    run_of = budget.read().draws[0].run
    # As if the process had died between the draw and the first row.
    budget.draw_again(run_of, 2)
    learned(day, "run.db", spec=CUTS, again=True)
    assert budget.read().spent.epsilon == 2


def test_per_user_rows_may_be_learned_again(day: Path, tmp_path: Path) -> None:
    users = BudgetFile.create(tmp_path / "budgets.db", "visits", epsilon=1, delta=1e-6, unit="user")
    with pytest.raises(BadParameter, match="counted per user"):
        learned(day, "run.db")
    learned(day, "run.db", user="who", cap=5)
    learned(day, "run.db", again=True)
    assert users.read().spent.epsilon == 1


def test_a_store_that_python_opens_draws_before_its_first_row(
    day: Path, budget: BudgetFile
) -> None:
    """Nothing is learned that was not drawn, also after a kill between the file and the draw."""
    assert not forked(lambda: killed_run(day, "before the draw"))
    path, points = day.parent / "run.db", Points("merchant")
    with open_rows(day, points, label="fraud") as rows:
        block = next(iter(rows))
    assert budget.read().draws == ()
    with open_store(path) as store:
        assert store.learn(block).rounds == 200
    assert [draw.run for draw in budget.read().draws] == [store.run]


# Old copies, and other files.


def test_a_store_that_was_put_back_is_refused(day: Path, budget: BudgetFile) -> None:
    learned(day, "run.db")
    shutil.copy(day.parent / "run.db", day.parent / "backup.db")
    learned(day, "run.db")
    shutil.copy(day.parent / "backup.db", day.parent / "run.db")
    for _ in range(3):
        with pytest.raises(OldCopy, match="old copy"):
            learned(day, "run.db")
    assert len(budget.read().draws) == 1


def test_a_copy_that_runs_beside_is_found_out_when_the_first_goes_on(
    day: Path, budget: BudgetFile
) -> None:
    learned(day, "run.db")
    shutil.copy(day.parent / "run.db", day.parent / "copy.db")
    learned(day, "copy.db")
    with pytest.raises(OldCopy):
        learned(day, "run.db")


def test_a_copy_that_was_taken_over_goes_on_though_its_original_was_opened_since(
    day: Path, budget: BudgetFile
) -> None:
    """The budget file remembers the openings of the original, and the copy counts on from them."""
    run_db, copy = day.parent / "run.db", day.parent / "copy.db"
    learned(day, "run.db")
    back_up(run_db, copy)
    for _ in range(5):
        learned(day, "run.db")
    take_over(copy)
    with day.open("a") as file:
        file.write("M7,1,u3,1\n" * 10)
    assert learned(day, "copy.db").learner.rounds == 210
    with pytest.raises(OldCopy):
        learned(day, "run.db")


def test_a_budget_file_that_was_put_back_is_refused(day: Path, budget: BudgetFile) -> None:
    path = Path(budget.path)
    shutil.copy(path, day.parent / "before")
    learned(day, "run.db", spec=CUTS)
    shutil.copy(path, day.parent / "between")
    learned(day, "run.db", spec=CUTS, again=True)
    for copy, sentence in (("before", "knows 0 draws"), ("between", "knows 1 draws")):
        shutil.copy(day.parent / copy, path)
        with pytest.raises(BadBudget, match=sentence):
            learned(day, "run.db", spec=CUTS)


def test_a_run_keeps_its_budget_wherever_the_file_is(day: Path, budget: BudgetFile) -> None:
    learned(day, "run.db")
    moved = Path(budget.path).rename(day.parent / "moved.db")
    with pytest.raises(BadBudget, match="is not there"):
        learned(day, "run.db", budget=None, dataset=None)
    learned(day, "run.db", budget=moved)
    BudgetFile.create(day.parent / "other.db", "visits", epsilon=9)
    with pytest.raises(BadBudget, match="is not the budget file"):
        learned(day, "run.db", budget=day.parent / "other.db")
    with pytest.raises(BadStore, match="draws from data set 'visits'"):
        learned(day, "run.db", budget=moved, dataset="other")
    learned(day, "free.db", budget=None, dataset=None)
    with pytest.raises(BadStore, match="begun without a budget"):
        learned(day, "free.db", budget=moved)


def test_a_store_that_lost_the_race_is_not_left_behind(
    day: Path, budget: BudgetFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(request: LearnRequest) -> BudgetFile | None:
        found = check_budget(request)
        budget.draw(3, note="another process, just now")
        return found

    monkeypatch.setattr(learn_verb, "check_budget", checked)
    with pytest.raises(BudgetExceeded):
        learned(day, "run.db")
    assert sorted(path.name for path in day.parent.iterdir()) == ["budgets.db", "day.csv"]


# The verbs.


def test_serve_draws_at_its_first_start(day: Path, budget: BudgetFile) -> None:
    path = day.parent / "run.db"
    for _ in range(2):
        serve_verb._store(path, task(day)).close()
    assert len(budget.read().draws) == 1
    (day.parent / "more.db").unlink(missing_ok=True)
    budget.draw(2)
    with pytest.raises(BudgetExceeded):
        serve_verb._store(day.parent / "more.db", task(day))
    assert not (day.parent / "more.db").exists()


def test_the_verbs_as_their_user_meets_them(day: Path) -> None:
    folder = day.parent
    shown = littlestone("budget", "create", "b.db", "visits", "--epsilon", 3, folder=folder)
    assert "(epsilon 3, delta 0), per event, nothing drawn" in shown.stdout
    cuts = "thresholds:amount:0:9"
    words = ["learn", "day.csv", "--class", cuts, "--label", "fraud", "--budget", "b.db"]
    done = littlestone(*words, "--dataset", "visits", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "drew (epsilon 1, delta 0) from data set 'visits'" in done.stderr
    by_hand = ["budget", "draw", "b.db", "visits", "--epsilon", 1, "--note", "survey"]
    assert "drew (epsilon 1," in littlestone(*by_hand, folder=folder).stdout
    table = littlestone("budget", "show", "b.db", folder=folder).stdout
    assert "1 of 3" in table
    assert "###" in table
    told = littlestone("budget", "explain", "b.db", "visits", folder=folder).stdout
    for part in (f"learn {cuts} of day.csv", "survey", "(epsilon 0.5, delta 0)"):
        assert part in told, told
    assert "(3.0001, 0.0)-differential privacy" in told
    assert "rounded up to five digits" in told
    (data,) = json.loads(littlestone("budget", "explain", "b.db", "--json", folder=folder).stdout)
    assert data["left"] == {"epsilon": 1.0, "delta": 0.0}
    assert [draw["charged"]["epsilon"] for draw in data["draws"]] == [1.0, 1.0]
    assert data["still_possible"][1] == {"runs": 2, "each": {"epsilon": 0.5, "delta": 0.0}}
    over = littlestone(*words, "--dataset", "visits", "--epsilon", 1.5, folder=folder)
    assert over.returncode == 2
    assert over.stderr.startswith("error: data set 'visits' has (epsilon 1, delta 0) left")
    assert over.stdout == ""
    assert littlestone("budget", "show", "none.db", folder=folder).returncode == 2
    twin = littlestone("budget", "create", "b.db", "Visits", "--epsilon", 1, folder=folder)
    assert "has a data set 'visits' too" in twin.stdout.replace("\n", " ")
