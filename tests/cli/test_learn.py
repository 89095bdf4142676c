"""`littlestone learn`, `plan` and `demo` as their user meets them."""

import csv
import gzip
import json
import re
import stat
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import littlestone as ls
from commands import Command, littlestone
from littlestone._cli.learn import run
from littlestone._cli.verbs import app
from littlestone._learners.registry import LearnerChoice
from littlestone._privacy.testing import SeededNoise
from littlestone._report.report import RunResult
from littlestone._simulate import streams as telemetry
from littlestone._store.request import LearnRequest

ROWS, CULPRIT = 3000, "M7"


@pytest.fixture
def command() -> Command:
    return littlestone


def events() -> list[dict[str, Any]]:
    """A stream with one culprit, and two users in turn."""
    draw = np.random.default_rng(3)
    merchants = draw.integers(0, 40, size=ROWS)
    return [
        {
            "merchant": f"M{m}",
            "amount": int(m) * 2,
            "fraud": int(f"M{m}" == CULPRIT),
            "who": n % 700,
        }
        for n, m in enumerate(merchants.tolist())
    ]


def as_csv(rows: list[dict[str, Any]]) -> str:
    lines = [",".join(map(str, row.values())) for row in rows]
    return "\n".join([",".join(rows[0]), *lines]) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(as_csv(events()))
    return path


OPTIONS = ["--class", "points:merchant", "--label", "fraud", "--delta", "1e-6"]


def test_a_file_in_releases_and_a_report_out(command: Command, file: Path) -> None:
    out, report = file.with_name("releases.jsonl"), file.with_name("report.html")
    done = command("learn", file, *OPTIONS, "--out", out, "--report", report)
    assert done.returncode == 0, done.stderr
    assert "merchant = 'M7'" in done.stdout
    assert "(1.0, 1e-06)-differential privacy, replace-one, per event" in done.stdout
    assert "mistakes" in done.stderr.split("PRIVATE")[1]
    assert "mistakes" not in done.stdout
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["sentence"] for line in lines] == ["never", "merchant = 'M7'"]
    assert lines[0]["round"] == 1
    assert ls.rule_from_json(lines[1]["rule"]) == ls.one_of(["M7"], "merchant")
    assert {"kind", "round", "sentence", "rule", "label", "guarantee"} < set(lines[1])
    assert (lines[1]["label"], lines[1]["class"]) == ("fraud", "points:merchant")
    assert lines[1]["horizon"] > 0
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    page = report.read_text()
    assert "Private" in page
    assert "merchant = &#39;M7&#39;" in page


def test_every_format_is_the_same_stream(
    command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = events()
    packed = file.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    lines = file.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = file.with_suffix(".parquet")
    pq.write_table(pa.Table.from_pylist(rows), table)
    found = []
    for path in (file, packed, lines, table):
        done = command("learn", path, *OPTIONS, "--json")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    piped = command("learn", "-", *OPTIONS, "--horizon", ROWS, "--json", text=file.read_text())
    found.append(json.loads(piped.stdout))
    for result in found:
        assert result["public"]["rule"] == "merchant = 'M7'"
        assert result["public"]["rounds"] == ROWS
        assert set(result) == {"public"}


@pytest.mark.parametrize(
    ("options", "learner", "guarantee"),
    [
        (["--class", "points:merchant"], "DPSOA", "(1.0, 1e-07)"),
        (["--class", "thresholds:amount:0:80"], "PrivateExperts", "(1.0, 0.0)"),
        (["--class", "thresholds:amount:0:80", "--learner", "dpsoa"], "DPSOA", "(1.0, 1e-07)"),
        (
            ["--class", "thresholds:amount:0:80", "--user", "who", "--cap", "5"],
            "DPSOA",
            "(1.0, 1e-07)",
        ),
    ],
)
def test_the_learner_follows_from_class_budget_and_unit(
    command: Command, file: Path, options: list[str], learner: str, guarantee: str
) -> None:
    report = file.with_name("report.html")
    done = command("learn", file, *options, "--label", "fraud", "--json", "--report", report)
    assert done.returncode == 0, done.stderr
    public = json.loads(done.stdout)["public"]
    assert public["learner"] == learner
    assert public["guarantee"].startswith(guarantee)
    assert public["why"] in done.stdout
    assert public["rounds"] == ROWS
    assert ("Votes of" in report.read_text()) == (learner == "DPSOA")


def test_a_learner_that_cannot_change_its_rule_says_so(command: Command, file: Path) -> None:
    done = command("learn", file, *OPTIONS, "--epsilon", 0.001, "--horizon", 300)
    assert done.returncode == 0, done.stderr
    assert "note: a change requires more mistakes than there are rounds" in done.stderr
    planned = command("plan", "points:merchant", "--horizon", 300, "--epsilon", 0.001)
    assert "vacuous" in planned.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--learner", "experts", "--user", "who"], "experts protects events, not users"),
        (["--learner", "dpsoa", "--change-cost", "7"], "dpsoa has no change_cost"),
        (["--user", "who"], "--user who requires --cap N: of causes, how many epochs read a user"),
        (["--learner", "experts"], "has infinitely many rules"),
        (["--learner", "oracle"], "no learner is called 'oracle': there are auto, dpsoa"),
    ],
)
def test_a_learner_that_does_not_fit_is_refused(
    command: Command, file: Path, options: list[str], sentence: str
) -> None:
    done = command("learn", file, *OPTIONS, *options)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def outcome(monkeypatch: pytest.MonkeyPatch, task: LearnRequest) -> RunResult:
    """A run under noise that can be repeated."""
    make = partial(LearnerChoice.make, noise=SeededNoise(4))
    monkeypatch.setattr(LearnerChoice, "make", lambda *args, **named: make(*args, **named))
    return run(task, lambda _: None)


def test_a_bad_row_uses_up_its_round(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files that differ in one row: the rest of the stream is where it was."""
    lines = file.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if n > 5 and line.split(",")[2] == "0")
    spoilt = file.with_name("spoilt.csv")
    spoilt.write_text("\n".join([*lines[:at], "rubbish", *lines[at + 1 :]]) + "\n")
    whole, broken = (
        outcome(
            monkeypatch,
            LearnRequest(
                source=str(path),
                spec="points:merchant",
                label="fraud",
                epsilon=1,
                delta=1e-6,
                seed=1,
            ),
        )
        for path in (file, spoilt)
    )
    assert broken.learner.releases == whole.learner.releases
    assert broken.learner.mistakes == whole.learner.mistakes
    assert broken.learner.rounds == whole.learner.rounds == ROWS
    assert broken.learner.null_rounds == 1
    assert [bad.line for bad in broken.bad_rows] == [at + 1]
    assert len(whole.learner.releases) == 2, "the runs compared do publish something"


def test_a_bad_row_is_reported_privately_or_stops_a_strict_run(
    command: Command, file: Path
) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:40], "M1,2,maybe,1", *lines[41:]]) + "\n")
    done = command("learn", file, *OPTIONS)
    private = done.stderr.split("PRIVATE")[1]
    assert "1 row that could not be read: null rounds" in private
    assert "line 41" in private
    assert "maybe" not in done.stdout
    strict = command("learn", file, *OPTIONS, "--strict")
    assert strict.returncode == 2
    assert "line 41" in strict.stderr
    assert "outside the privacy guarantee" in strict.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--class", "points:merchnt", "--label", "fraud"], "Did you mean 'merchant'?"),
        (["--class", "points:merchant", "--label", "frauds"], "Did you mean 'fraud'?"),
        (["--class", "pints:merchant", "--label", "fraud"], "unknown family"),
        (["--class", "points:merchant", "--label", "fraud", "--epsilon", "0"], "epsilon must be"),
        (["--class", "points:merchant", "--label", "fraud", "--delta", "1"], "delta must lie"),
        (["--class", "points:merchant", "--label", "fraud", "--cap", "3"], "cap"),
        (["--class", "points:merchant", "--label", "fraud", "--user", "whom"], "holds the user"),
        (["--class", "points:merchant", "--label", "fraud", "--horizon", "0"], "horizon"),
        (
            ["--class", "points:merchant", "--label", "fraud", "--change-cost", "1"],
            "dpsoa has no change_cost",
        ),
        (["--class", "points:merchant"], "error: say which column is the --label"),
        (["--label", "fraud"], "error: say which --class of rules to learn: `littlestone init "),
        (["--class", "points:merchant", "--label", "y"], "Name one of them as --label."),
        (["--class", "points:z", "--label", "fraud"], "Name one of them in --class."),
        (["--class", "points:merchant", "--label", "merchant"], "or name another --label"),
        (["--class", "points:merchant", "--label", "fraud,who"], "one column: run once for each"),
        (["--class", "points:merchant,who", "--label", "fraud"], "causes:merchant,who reads"),
        (["--class", "merchant", "--label", "fraud"], "For a column, write causes:merchant"),
        (["--class", "points:merchant", "--label", "amount"], "If they are a quantity, say from"),
        (["--class", "thresholds:merchant:0:9", "--label", "fraud"], "points:COLUMN read text"),
        (["--class", "conjunctions:merchant", "--label", "fraud"], "reads any values"),
        ([], "error: say which --class of rules to learn, and which column is the --label"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    command: Command, file: Path, arguments: list[str], sentence: str
) -> None:
    out = file.with_name("releases.jsonl")
    done = command("learn", file, *arguments, "--out", out)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "running again spends again"),
        (["--db", "run.db"], "the same command goes on, each row once"),
    ],
)
def test_who_stops_a_run_is_told_what_that_means(
    monkeypatch: pytest.MonkeyPatch, file: Path, options: list[str], sentence: str
) -> None:
    def interrupted(*_: object) -> RunResult:
        raise KeyboardInterrupt

    monkeypatch.setattr("littlestone._cli.learn.run", interrupted)
    done = CliRunner().invoke(app, ["learn", str(file), *OPTIONS, *options])
    assert done.exit_code == 130
    assert sentence in done.output


def test_a_first_rule_that_stays_is_no_mistake(command: Command, tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.csv"
    quiet.write_text(as_csv([row | {"fraud": 0} for row in events()]))
    done = command("learn", quiet, *OPTIONS)
    assert "tolerance" not in done.stderr
    assert "0 mistakes in 3,000 rounds" in done.stderr


def test_an_epsilon_beyond_all_sense_is_no_traceback(command: Command, file: Path) -> None:
    done = command("learn", file, *OPTIONS, "--epsilon", "1e6")
    assert done.returncode == 0, done.stderr
    assert "merchant = 'M7'" in done.stdout


def test_a_stream_of_unknown_length_needs_a_horizon(command: Command, file: Path) -> None:
    done = command("learn", "-", *OPTIONS, text=file.read_text())
    assert done.returncode == 2
    assert "--horizon N" in done.stderr


def test_files_are_not_overwritten_unless_forced(command: Command, file: Path) -> None:
    out = file.with_name("releases.jsonl")
    out.write_text("precious\n")
    done = command("learn", file, *OPTIONS, "--out", out)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert out.read_text() == "precious\n"
    assert command("learn", file, *OPTIONS, "--out", out, "--force").returncode == 0
    assert "precious" not in out.read_text()


def test_past_the_horizon_the_last_rule_stands(command: Command, file: Path) -> None:
    done = command("learn", file, *OPTIONS, "--horizon", "1000", "--json")
    result = json.loads(done.stdout)
    assert result["public"]["rounds"] == ROWS
    assert "note: the horizon of 1,000 rounds" in done.stderr
    assert all(release["round"] <= 1001 for release in result["public"]["releases"])


def test_a_store_says_on_its_first_day_that_it_is_planned_for_one_file(
    command: Command, file: Path
) -> None:
    words = f"is planned for the {ROWS:,} rows that the file has now: rows of later files will not"
    for name, options, said in [("a.db", [], True), ("b.db", ["--horizon", 10**6], False)]:
        done = command("learn", file, *OPTIONS, "--db", file.with_name(name), *options)
        assert done.returncode == 0, done.stderr
        assert (words in done.stderr) == said
    assert words not in command("learn", file, "--db", file.with_name("a.db")).stderr


def test_users_are_protected_whole(command: Command, file: Path) -> None:
    done = command("learn", file, *OPTIONS, "--user", "who", "--cap", "5", "--json")
    assert done.returncode == 0, done.stderr
    assert "per user" in json.loads(done.stdout)["public"]["guarantee"]


def test_a_large_delta_is_noted(command: Command, file: Path) -> None:
    done = command("learn", file, *OPTIONS[:-1], "0.01")
    assert done.stderr.count("note: delta = 0.01 is above") == 1
    assert done.stderr.startswith("note: delta = 0.01 is above")  # before it is spent


def test_a_plan_says_what_is_proved_and_what_is_hoped(command: Command) -> None:
    done = command("plan", "rules:version,country", "--delta", "1e-7", "--horizon", "100000")
    assert done.returncode == 0, done.stderr
    for words in ("privacy: proved", "utility: heuristic", "monitor's budget"):
        assert words in done.stdout
    per_user = command("plan", "points:m", "--horizon", 1000, "--user", "who", "--cap", 2, "--json")
    data = json.loads(per_user.stdout)
    assert ls.Plan.from_json(data["plan"]).unit == "user"


def test_the_demo_finds_the_culprit(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    for _ in "ab":
        done = command("demo", "--out", folder)
        assert (done.returncode, done.stderr.split(":")[0].strip()) == (0, "PRIVATE")
    assert f"version = '{telemetry.CULPRIT}'" in done.stdout
    assert {path.name for path in folder.iterdir()} == {
        "events.csv",
        "releases.jsonl",
        "report.html",
    }
    with open(folder / "events.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 300_000
    assert len({row["device"] for row in rows}) > 5_000
    bad = [row["failed"] == "1" for row in rows if row["version"] == telemetry.CULPRIT]
    others = [row["failed"] == "1" for row in rows if row["version"] != telemetry.CULPRIT]
    assert 0.27 < sum(bad) / len(bad) < 0.33
    assert 0.009 < sum(others) / len(others) < 0.011
    # The evidence of the published cause, after the table's head.
    told = re.search(r"version = '4.2.1' +([\d,]+ ± [\d,]+) +([\d.]+)%", done.stdout)
    assert told is not None
    assert abs(float(told[2]) - 30) < 5


TABLE_ROWS = 3_000


def table_file(path: Path) -> Path:
    """A table of one cause, sorted by its label."""
    draw = np.random.default_rng(3)
    version = draw.choice(["4.0", "4.1", "4.2", "4.3"], TABLE_ROWS)
    failed = draw.random(TABLE_ROWS) < np.where(version == "4.2", 0.6, 0.05)
    order = np.argsort(failed)
    rows = zip(version[order], order % 700, failed[order].astype(int), strict=True)
    path.write_text("version,who,failed\n" + "".join(f"{v},{n},{y}\n" for v, n, y in rows))
    return path


TABLE = ("--class", "causes:version", "--label", "failed", "--table")


@pytest.mark.parametrize("users", [[], ["--user", "who"]], ids=["rows", "users"])
def test_a_table_sorted_by_its_label_has_its_cause(
    command: Command, tmp_path: Path, users: list[str]
) -> None:
    path, db = table_file(tmp_path / "table.csv"), tmp_path / "run.db"
    found = command("learn", path, *TABLE, *users, "--epsilon", 4, "--db", db)
    assert found.returncode == 0, found.stderr
    assert "failed when version = '4.2'" in found.stdout
    assert "of this table of 3,000 rows" in found.stdout
    assert "from round" not in found.stdout
    assert "the sum of these" in found.stderr
    again = command("learn", path, "--db", db)
    assert again.stdout == found.stdout, "a table is learned once"
    assert "no new rows" in again.stderr


def test_of_a_large_table_a_random_sample_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table_file(tmp_path / "table.csv")
    monkeypatch.setattr("littlestone._cli.learn.MOST_TABLE_ROWS", 1_000)
    task = LearnRequest(
        spec="causes:version", label="failed", epsilon=8, delta=1e-5, table=True, source=str(path)
    )
    found = run(task, lambda _: None)
    assert str(found.learner.hypothesis) == "version = '4.2'"
    assert found.learner.rounds == 1_000
    # The rows are sorted by their label: a block of them would be all positive, or have none.
    assert 100 < found.learner.mistakes < 250
    assert any("random sample of 1,000 of the 3,000 rows" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--follow"], "--table conflicts with --follow: a table does not grow"),
        (["--horizon", "9"], "--table conflicts with --horizon"),
        (["--user", "who", "--cap", "1"], "--table conflicts with --cap"),
        (["--learner", "dpsoa"], "dpsoa has no table"),
    ],
)
def test_what_a_table_has_no_use_for_is_refused(
    command: Command, tmp_path: Path, options: list[str], sentence: str
) -> None:
    said = command("learn", table_file(tmp_path / "table.csv"), *TABLE, *options)
    assert said.returncode != 0
    assert sentence in said.stderr
