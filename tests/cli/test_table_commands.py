"""Finished tables and users, as people see them: no words of a stream, and what is refused why."""

import json
import re
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

import littlestone as ls
from commands import littlestone
from littlestone._store.request import LearnRequest
from running_service import begun, running

ROWS = 4000
SPEC = "causes:dish,day"
OPTIONS = ("--class", SPEC, "--label", "ill", "--epsilon", 2, "--delta", "1e-6")
TABLE = (*OPTIONS, "--table")
OF_A_STREAM = re.compile(
    r"\brounds?\b|\blive\b|so far|from event|As of|horizon|ever will|Over time|How it went|stands now"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)


def write(path: Path, rate: float) -> None:
    """A table sorted by its label, in which a dish is the cause; each user has four rows."""
    draw = np.random.default_rng(3)
    dish, day = draw.choice(["fish", "soup", "cake"], ROWS), draw.choice(["Mo", "Tu"], ROWS)
    ill = (draw.random(ROWS) < np.where(dish == "fish", rate, 0.05)).astype(int)
    rows = zip(draw.permutation(ROWS) // 4, dish, day, ill, strict=True)
    lines = [",".join(map(str, row)) for row in sorted(rows, key=lambda row: row[-1])]
    path.write_text("\n".join(["user,dish,day,ill", *lines]) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, and what runs on them left there."""
    place = tmp_path_factory.mktemp("tables")
    write(place / "t.csv", 0.5)
    write(place / "quiet.csv", 0.05)
    (place / "header.csv").write_text("user,dish,day,ill\n")
    for name, ill in {"ill": 1, "well": 0}.items():
        (place / f"{name}.csv").write_text("dish,day,ill\n" + f"fish,Mo,{ill}\n" * 500)
    users = ("t.csv", *TABLE, "--user", "user")
    runs = {"t": ("t.csv", *TABLE), "quiet": ("quiet.csv", *TABLE), "users": users}
    for name, options in runs.items():
        files = ("--db", f"{name}.db", "--out", f"{name}.jsonl", "--report", f"{name}.html")
        done = littlestone("learn", *options, *files, folder=place)
        assert done.returncode == 0, done.stderr
        (place / f"{name}.txt").write_text(done.stdout + done.stderr)
    return place


def seen(folder: Path, name: str) -> dict[str, str]:
    """All that people see of a run, as text."""
    page = (folder / f"{name}.html").read_text("utf-8")
    body = page.partition("<body")[2]
    forms = [(), ("--statement",), ("--markdown",), ("--private",)]
    shown = [littlestone("show", f"{name}.db", *form, folder=folder) for form in forms]
    return {
        "learn": (folder / f"{name}.txt").read_text(),
        "report": unescape(re.sub(r"<[^>]*>", " ", body)).partition("Null rounds")[0],
        **{str(form): done.stdout + done.stderr for form, done in zip(forms, shown, strict=True)},
    }


@pytest.mark.parametrize("name", ["t", "quiet"])
def test_a_table_is_shown_in_words_of_a_table(folder: Path, name: str) -> None:
    for where, text in seen(folder, name).items():
        # The warning above a report lists what may be private.
        said = text.replace("(mistakes, votes, null rounds)", "")
        assert not OF_A_STREAM.search(said), (where, OF_A_STREAM.search(said))
        assert "dish = 'fish'" in text if name == "t" else re.search("[Nn]o (cause|rule)", text), (
            where
        )
    learned = (folder / f"{name}.txt").read_text()
    assert "of this table of 4,000 rows" in learned
    assert re.search(
        rf"no {'other ' if name == 't' else ''}cause has enough positives to be", learned
    )
    assert ("% of all events are positive" in learned) == (name == "quiet"), "the base rate"


def test_events_of_users_are_said_to_be_one_of_each(folder: Path) -> None:
    texts = seen(folder, "users")
    assert "what is counted are events, one of each user: rates are those" in texts["learn"]
    assert re.search(r"% of about 3\d\d ± \d+ events, one of each user\b", texts["report"])
    assert not re.search(r"later ones|null rounds", texts["report"].partition("The plan")[2])
    assert "what is counted are events, one of each user" in texts["('--markdown',)"].lower()


def test_the_releases_file_of_a_table_ends_with_the_cause_and_its_counts(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "t.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["release", "release", "evidence"]
    assert [line["sentence"] for line in lines] == ["never", "dish = 'fish'", "dish = 'fish'"]
    assert lines[-1]["evidence"][0]["standing"]


def test_python_shows_the_evidence_of_a_table() -> None:
    draw = np.random.default_rng(0)
    dish = draw.choice(["fish", "soup"], 2000)
    ill = draw.random(2000) < np.where(dish == "fish", 0.5, 0.05)
    users = np.arange(2000) // 2
    found = ls.find_causes({"dish": dish}, ill, ["dish"], epsilon=2, delta=1e-6, users=users)
    assert "the table of 2,000 rows is learned" in repr(found)
    html = found._repr_html_()
    assert "95 % interval" in html
    assert "round " not in html
    assert found.plot().get_title("left").endswith("counts of events, one of each user")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["t.csv", *TABLE, "--follow"], "--table conflicts with --follow: a table does not grow"),
        (["t.csv", *TABLE, "--horizon", 9], "the rows of the file are counted. Leave out one"),
        (["t.csv", *TABLE, "--user", "user", "--cap", 1], "--user protects all rows of a user"),
        (["t.csv", *TABLE, "--time", "day"], "the rows of a table are in no order"),
        (["-", *TABLE], "--table requires a file"),
        (["kafka://localhost/x", *TABLE], "--table requires a file"),
        (["header.csv", *TABLE], "header.csv: there are no rows in the file"),
        (["t.csv", "--class", "points:dish", "--label", "ill", "--table"],
         "dpsoa has no table: leave it out, or use a class of causes"),
        (["quiet.csv", "--db", "t.db"], "a finished table is learned whole, once"),
        (["quiet.csv", "--db", "t.db"], "(another --db) and a budget of their own"),
        (["t.csv", "--db", "t.db", "--again"], "a second run has a --db and a budget of its own"),
    ],
)  # fmt: skip
def test_what_a_table_cannot_have_is_refused(
    folder: Path, arguments: list[object], why: str
) -> None:
    before = littlestone("show", "t.db", "--json", folder=folder).stdout
    done = littlestone("learn", *arguments, folder=folder)
    assert done.returncode == 2
    assert why in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert littlestone("show", "t.db", "--json", folder=folder).stdout == before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ill", "nearly all rows are positive, so no cause can be told apart"),
        ("well", "no row was positive"),
    ],
)
def test_labels_that_are_all_the_same_are_noted(folder: Path, name: str, why: str) -> None:
    done = littlestone("learn", f"{name}.csv", *TABLE, folder=folder)
    assert done.returncode == 0, done.stderr
    assert why in done.stdout + done.stderr


def test_a_table_that_was_begun_is_learned_once(folder: Path, tmp_path: Path) -> None:
    task = LearnRequest(spec=SPEC, label="ill", epsilon=2.0, delta=1e-6, horizon=ROWS, table=True)
    begun(tmp_path / "k.db", task).close()
    shown = littlestone("show", tmp_path / "k.db")
    assert "the table is not learned yet: the `littlestone learn` that began it" in shown.stdout
    for said in ("in 4,000 rows", "no new rows: all of"):
        done = littlestone("learn", folder / "t.csv", "--db", tmp_path / "k.db")
        assert done.returncode == 0, done.stderr
        assert said in " ".join(done.stderr.replace("|", " ").split())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["t.db", "--source", "kafka://localhost:1/x"], "t.db holds a finished table: leave out"),
        (["n.db", *TABLE, "--horizon", 9], "begin n.db with `littlestone learn FILE --table"),
    ],
)
def test_a_service_takes_no_table(folder: Path, options: list[object], why: str) -> None:
    done = littlestone("serve", *options, "--port", 0, folder=folder)
    assert done.returncode == 2
    assert why in " ".join(done.stderr.split())
    assert not (folder / "n.db").exists()


def test_rows_that_are_sent_to_a_table_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "t.db", tmp_path / "t.db")
    with running(tmp_path / "t.db") as served:
        answer = served.feed([{"dish": "fish", "day": "Mo", "ill": 1}])
        assert answer.status_code == 409
        assert "a finished table, which is learned whole" in answer.json()["error"]
        assert served.get("/guarantee").json()["rounds"] == ROWS


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("name", ["t", "quiet", "users"])
def test_the_page_of_a_table_has_no_word_of_a_stream(
    folder: Path, tmp_path: Path, name: str
) -> None:
    shutil.copy(folder / f"{name}.db", tmp_path / "t.db")
    with running(tmp_path / "t.db") as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto(served.url)
        page.get_by_text("Learned from a finished table of 4,000 rows.").wait_for()
        page.locator("#status", has_text="a finished table").wait_for()
        text = page.locator("body").inner_text().replace("rounds a user count", "")
        assert not OF_A_STREAM.search(text), OF_A_STREAM.search(text)
        assert ("events, one of each user (95" in text) == (name == "users")
        browser.close()


def test_the_smallest_epsilon_of_a_table_is_forecast_for_a_table() -> None:
    case = ("plan", SPEC, "--delta", "1e-6", "--horizon", 5000, "--rate", 0.3, "--share", 0.1)
    asked = littlestone(*case, "--table", "--positives", 60)
    assert asked.returncode == 0, asked.stderr
    found = re.search(r"epsilon (\S+) is the smallest", asked.stdout)
    assert found
    told = littlestone(*case, "--table", "--epsilon", found[1]).stdout
    numbers = re.search(r"after about (\d+) of its positives, [\d,]+ rows", told)
    assert numbers
    assert int(numbers[1]) <= 60
    assert "60 positives or fewer" in littlestone(*case, "--positives", 60).stderr, "of a stream"
