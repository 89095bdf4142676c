"""The command line with a class of causes: evidence, rates, releases files, labels, forecasts."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import littlestone as ls
from commands import littlestone
from littlestone._cli.terminal import print_causes
from littlestone._hypotheses.causes import Cause, Condition, any_of
from littlestone._hypotheses.rules import NEVER, rule_from_json
from littlestone._learners.causes_plan import CausesPlan, forecast
from littlestone._learners.evidence import (
    COUNTED_ONCE,
    Window,
    evidence_of,
    over_time,
    summarize_causes,
)
from littlestone._report.causes import CausesSummary

ROWS, RATE, BASE = 40_000, 0.4, 0.01
SPEC = "causes:version,country,age@18/30/65"
OPTIONS = ("--class", SPEC, "--label", "failed", "--epsilon", 1, "--delta", "1e-7")


def columns() -> dict[str, list[Any]]:
    draw = np.random.default_rng(2)
    version = draw.choice(["4.2.0", "4.2.1", "4.3.0"], ROWS, p=[0.6, 0.1, 0.3])
    chance = np.where(version == "4.2.1", RATE, BASE)
    failed = draw.random(ROWS) < chance
    return {
        "version": version.tolist(),
        "country": draw.choice(["SE", "NO"], ROWS).tolist(),
        "age": draw.integers(10, 80, ROWS).tolist(),
        "failed": failed.astype(int).tolist(),
        "outcome": np.where(failed, "lost", "ok").tolist(),
        "delay": np.where(failed, 60.5, 60.0).tolist(),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the events as CSV and Parquet, and what one run of `learn --db` left there."""
    place, table = tmp_path_factory.mktemp("causes"), columns()
    lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    (place / "e.csv").write_text("\n".join([",".join(table), *lines]) + "\n")
    pq.write_table(pa.table(table), place / "e.parquet")
    (place / "empty.txt").write_text("\n")
    (place / "ages.csv").write_text("column,value\nage,18\n")
    (place / "versions.csv").write_text("column,value\nversion,4.2.1\nversion,4.3.0\n")
    done = littlestone("learn", "e.csv", *OPTIONS, "--db", "run.db", "--out", "r.jsonl",
                       folder=place)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (place / "first.txt").write_text(done.stdout)
    return place


def test_learn_and_show_print_causes_with_their_evidence(folder: Path) -> None:
    shown = littlestone("show", "run.db", "--private", folder=folder)
    for text in ((folder / "first.txt").read_text(), shown.stdout):
        assert "PUBLIC: failed when version = '4.2.1'" in text
        line = next(x for x in text.splitlines() if "%" in x and "version = '4.2.1' " in x)
        assert "to" in line
        assert line.rstrip().endswith("####"), "a bar of about 40 %, plain as it is no terminal"
        assert "a cause has to beat a rate of" in text
        assert "longest draw" not in text, "silence is explained, and nothing else"
    assert re.search(
        r"missed positives; [\d,]+ false alarms, which cost as much as [\d,]+; in", shown.stderr
    )
    data = json.loads(littlestone("show", "run.db", "--json", folder=folder).stdout)["public"]
    (entry,) = data["causes"]["evidence"]
    # The noise is secret, so an interval of 95 % is widened: this must not fail by chance.
    assert entry["low"] - 0.1 < RATE < entry["high"] + 0.1
    assert abs(entry["events"] - ROWS / 10) < 2000
    assert entry["until"] == ROWS, "the last window ended with the file"
    assert data["label"] == "failed"
    assert data["causes"]["remarks"] == []
    assert 0.02 <= data["causes"]["rate_to_beat"] < entry["to_beat"] < RATE


def test_the_owner_is_told_that_no_row_was_positive(folder: Path) -> None:
    learn = ("learn", "e.csv", "--class", SPEC, "--label", "outcome", "--positive")
    typed = littlestone(*learn, "lsot", "--report", "lsot.html", folder=folder)
    meant = littlestone(*learn, "lost", "--report", "lost.html", folder=folder)
    assert typed.returncode == meant.returncode == 0
    assert "no row was positive" in typed.stderr.partition("PRIVATE")[2]
    assert "no row was positive" not in typed.stdout
    assert "no row was positive" not in meant.stderr
    total, *uses = meant.stderr.partition("spent in all: ")[2].splitlines()
    assert total.startswith("epsilon 1, delta 1e-07, not the sum of these")
    assert any("evidence x" in use for use in uses), "the total leads"
    head = (folder / "lost.html").read_text().partition("<h1>")[2].partition("</h1>")[0]
    assert "outcome is &#39;lost&#39;</bdi> when" in head


def test_mistakes_past_the_horizon_are_told_apart(folder: Path) -> None:
    """The first rule stands to the end, so that every positive is missed and no alarm is false."""
    done = littlestone("learn", "e.csv", *OPTIONS, "--horizon", 50, folder=folder)
    positives = sum(columns()["failed"])
    assert f"{positives:,} missed positives; 0 false alarms; in" in done.stderr


def test_every_line_of_the_releases_file_says_all(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    for line in lines:
        assert {"kind", "round", "sentence", "rule", "label", "guarantee", "run"} <= set(line)
        assert str(ls.rule_from_json(line["rule"])) == line["sentence"]
        assert line["label"] == "failed"
    assert [line["round"] for line in lines] == sorted(line["round"] for line in lines)
    releases = [line for line in lines if line["kind"] == "release"]
    assert [line["sentence"] for line in releases] == ["never", "version = '4.2.1'"]
    assert "evidence" not in lines[0]
    assert lines[-1]["kind"] == "evidence"
    assert lines[-1]["sentence"] == "version = '4.2.1'"
    assert lines[-1]["round"] == ROWS + 1
    assert [entry["cause"] for entry in lines[-1]["evidence"]] == ["version = '4.2.1'"]


def test_a_run_without_new_rows_releases_nothing_more(folder: Path) -> None:
    before = (folder / "r.jsonl").read_bytes()
    done = littlestone("learn", "e.csv", "--db", "run.db", "--out", "r.jsonl", folder=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "r.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["learn", "e.csv", *OPTIONS, "--min-rate", 2], "min_rate must be above 0 and below 1"),
        (["learn", "e.csv", *OPTIONS, "--min-rate", "often"], "or 'auto', not often"),
        (["learn", "e.csv", "--class", "rules:version", "--label", "failed", "--min-rate", 0.1],
         "dpsoa has no min_rate: leave it out, or use a class of causes or experts"),
        (["learn", "e.csv", "--db", "run.db", "--min-rate", 0.1], "was begun with --min-rate auto"),
        (["learn", "e.csv", *OPTIONS, "--baseline", "moves"],
         "baseline is 'follow' or 'fixed', not 'moves'"),
        (["learn", "e.csv", "--class", "rules:version", "--label", "failed", "--baseline", "fixed"],
         "dpsoa has no baseline: leave it out, or use a class of causes\n"),
        (["learn", "e.csv", "--class", "rules:version", "--label", "failed", "--table"],
         "dpsoa has no table: leave it out, or use a class of causes\n"),
        (["learn", "e.csv", "--db", "run.db", "--baseline", "fixed"],
         "was begun with --baseline follow, not fixed"),
        (["learn", "e.csv", "--class", "causes:version=@none.txt", "--label", "failed"],
         "the values of 'version' are in a file, one a line: 'none.txt': No such file"),
        (["learn", "e.csv", "--class", "causes:version=@empty.txt", "--label", "failed"],
         "'empty.txt' is empty: expected the values of 'version', one a line"),
        (["learn", "e.csv", *OPTIONS, "--values", "e.csv"],
         "e.csv: line 1: expected the header 'column,value'"),
        (["learn", "e.csv", *OPTIONS, "--values", "ages.csv"],
         "ages.csv: values of 'age': it is no column of text of the class"),
        (["learn", "e.csv", "--class", "points:version", "--label", "failed", "--values", "e.csv"],
         "--values is for causes:COLUMN,...: leave it out here"),
        (["learn", "e.csv", "--db", "run.db", "--values", "versions.csv"],
         "was begun with --values None, not versions.csv"),
        (["learn", "e.csv", "--db", "run.db", "--positive", "lost"],
         "was begun with --positive []"),
        (["learn", "e.csv", "--class", "causes:versoin", "--label", "failed"],
         "Did you mean 'version'?"),
        (["learn", "e.csv", "--class", SPEC, "--label", "outcome"], "--positive VALUE"),
        (["learn", "e.csv", "--class", SPEC, "--label", "outcome"], "--negative VALUE"),
        (["learn", "e.csv", "--class", SPEC, "--label", "outcome", "--negative", "ok",
          "--positive", "lost"], "conflicts with --positive-if and --negative"),
        (["learn", "e.csv", "--class", SPEC, "--label", "delay", "--positive-if", ">x"],
         "--positive-if '>x' is no condition on a number, such as '>60'"),
        (["learn", "e.csv", "--class", SPEC, "--label", "delay", "--positive-if", ">6",
          "--positive", "lost"], "--positive conflicts with --positive-if"),
        (["learn", "e.csv", "--class", "points:version", "--label", "outcome", "--negative", "ok"],
         "--negative is for causes"),
        (["learn", "e.csv", "--class", SPEC, "--label", "outcome", "--negative", "ok",
          "--learner", "dpsoa"], "only PrivateCauses learns"),
        (["compare", "--class", "points:m", "--min-rate", 0.1],
         "none of these learners has --min-rate"),
        (["compare", "--class", SPEC, "--streams", "rates:7"], "rate is from 0 to 1, not 7"),
        (["plan", "points:m", "--horizon", 1000, "--rate", 0.1], "is about a class of causes"),
        (["plan", "points:m", "--horizon", 1000, "--html", "w"], "is about a class of causes"),
        (["plan", SPEC, "--horizon", 1000, "--html", "e.csv"], "it exists already"),
        (["plan", SPEC, "--horizon", 1000, "--share", 0.1], "require --rate"),
        (["plan", SPEC, "--horizon", 1000, "--positives", 9], "--positives requires --rate"),
        (["plan", SPEC, "--horizon", 1000, "--rate", 30], "rate is above 0 and at most 1, not 30"),
        (["audit", "points:m", "--horizon", 1000, "--min-rate", 0.1], "dpsoa has no min_rate"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_sentence(folder: Path, arguments: list[object], why: str) -> None:
    done = littlestone(*arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert done.stderr.startswith("error: ")


def test_labels_without_a_positive_value_show_one_value_only(folder: Path) -> None:
    done = littlestone("learn", "e.csv", "--class", SPEC, "--label", "outcome", folder=folder)
    # Whichever of the two is first; never both.
    assert ("'ok'" in done.stderr) != ("'lost'" in done.stderr)


@pytest.mark.parametrize("name", ["e.csv", "e.parquet"])
def test_a_positive_value_may_be_named(folder: Path, name: str) -> None:
    done = littlestone("learn", name, "--class", SPEC, "--label", "outcome", "--positive", "lost",
                       "--delta", "1e-7", "--json", folder=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    public = json.loads(done.stdout)["public"]
    assert public["rule"] == "version = '4.2.1'"
    assert (public["label"], public["positive"]) == ("outcome", ["lost"])
    (entry,) = public["causes"]["evidence"]
    assert entry["low"] - 0.1 < RATE < entry["high"] + 0.1


@pytest.mark.parametrize("name", ["e.csv", "e.parquet"])
def test_numbers_may_be_positive_from_a_bound_on(folder: Path, name: str) -> None:
    given = ("--class", SPEC, "--delta", "1e-7", "--json")
    done = littlestone("learn", name, *given, "--label", "delay", "--positive-if", ">60",
                       folder=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    public = json.loads(done.stdout)["public"]
    assert public["rule"] == "version = '4.2.1'"
    assert (public["label"], public["positive_if"]) == ("delay", [">60"])
    (entry,) = public["causes"]["evidence"]
    assert entry["low"] - 0.1 < RATE < entry["high"] + 0.1


def test_a_positive_value_is_meant_letter_by_letter(tmp_path: Path) -> None:
    """A column of income is >50K or not; one of readmissions is >30, <30 or NO."""
    draw = np.random.default_rng(1)
    positive, bad = draw.random(20_000), draw.random(20_000) < 0.2
    rows = [
        ("A" if b else "B", "<=50K" if y else ">50K", "NO" if y else ">30")
        for b, y in zip(bad, positive > np.where(bad, 0.6, 0.02), strict=True)
    ]
    lines = ["job,income,readmitted", *map(",".join, rows)]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    given = ("learn", "people.csv", "--class", "causes:job", "--epsilon", 4)
    income = littlestone(*given, "--label", "income", "--positive", ">50K", folder=tmp_path)
    assert "PUBLIC: income is '>50K' when job = 'A'" in income.stdout
    assert "note" not in income.stderr
    again = littlestone(*given, "--label", "readmitted", "--positive", ">30", folder=tmp_path)
    assert "PUBLIC: readmitted is '>30' when job = 'A'" in again.stdout
    assert "note: --positive '>30' is the text '>30' itself" in again.stderr
    assert "say --positive-if '>30'" in again.stderr


@pytest.mark.parametrize("name", ["e.csv", "e.jsonl", "e.parquet"])
def test_outcomes_are_told_apart_when_the_normal_one_is_named(folder: Path, name: str) -> None:
    if name == "e.jsonl":
        table = columns()
        rows = (dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = littlestone("learn", name, "--class", SPEC, "--label", "outcome", "--negative", "ok",
                       "--delta", "1e-7", "--json", "--out", f"{name}.out", "--report",
                       f"{name}.html", folder=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    public = json.loads(done.stdout)["public"]
    assert public["rule"] == "lost when version = '4.2.1'"
    assert (public["label"], public["negative"]) == ("outcome", ["ok"])
    (entry,) = public["causes"]["evidence"]
    assert entry["outcome"] == "lost"
    assert entry["low"] - 0.1 < RATE < entry["high"] + 0.1
    last = json.loads((folder / f"{name}.out").read_text().splitlines()[-1])
    assert str(rule_from_json(last["rule"])) == last["sentence"] == public["rule"]
    assert "outcome</bdi>:" in (folder / f"{name}.html").read_text()


def test_a_store_of_outcomes_goes_on_with_them(folder: Path) -> None:
    begin = ("--class", SPEC, "--label", "outcome", "--negative", "ok", "--delta", "1e-7")
    done = littlestone("learn", "e.csv", *begin, "--db", "outcomes.db", folder=folder)
    assert "PUBLIC: lost when version = '4.2.1'" in done.stdout
    again = littlestone("learn", "e.csv", *begin, "--db", "outcomes.db", folder=folder)
    assert "no new rows" in again.stderr
    other = littlestone("learn", "e.csv", "--negative", "lost", "--db", "outcomes.db",
                        folder=folder)  # fmt: skip
    assert "was begun with --negative ['ok'], not ['lost']" in other.stderr
    shown = littlestone("show", "outcomes.db", folder=folder)
    assert "PUBLIC: lost when version = '4.2.1'" in shown.stdout


def test_declared_values_are_kept_by_a_store(folder: Path) -> None:
    (folder / "countries.txt").write_text("SE\nNO\n")
    spec = "causes:version,country=@countries.txt"
    learn = ("learn", "e.csv", "--class", spec, "--values", "versions.csv", "--label", "failed",
             "--db", "values.db")  # fmt: skip
    plan = littlestone("plan", spec, "--values", "versions.csv", "--horizon", 1000, folder=folder)
    assert "4 patterns" in plan.stdout
    assert "PUBLIC: failed when version = '4.2.1'" in littlestone(*learn, folder=folder).stdout
    assert "no new rows" in littlestone(*learn, folder=folder).stderr
    (folder / "countries.txt").write_text("SE\nDK\n")
    changed = littlestone(*learn, folder=folder)
    assert changed.returncode == 2
    assert f"another class under the name {spec} with versions.csv" in changed.stderr
    (folder / "countries.txt").unlink()
    assert "no new rows" in littlestone("learn", "e.csv", "--db", "values.db", folder=folder).stderr


def test_a_min_rate_below_the_base_rate_is_a_floor_or_warned_about(folder: Path) -> None:
    learn = ("learn", "e.csv", *OPTIONS, "--min-rate", 0.002)
    done = littlestone(*learn, "--baseline", "fixed", folder=folder)
    assert "a cause has to beat a rate of 0.2%, as given; it does not follow" in done.stdout
    plan = CausesPlan.practical(ls.Causes(["a"]), 1, 1e-7, 9000, min_rate=0.002, baseline="fixed")
    for base, warned in ((0.01, True), (0.001, False), (None, False)):
        said = plan.rate_in_words(0.002, base)
        assert ("nothing to do with the label may be published" in said) == warned
    done = littlestone(*learn, folder=folder)
    assert "and never below 0.2%" in done.stdout
    assert "PUBLIC: failed when version = '4.2.1'" in done.stdout


def written(path: Path, rate: float, order: str = "") -> None:
    """A file of rows whose labels no column explains, perhaps sorted by them."""
    draw = np.random.default_rng(3)
    failed = draw.random(20_000) < rate
    failed = np.sort(failed) if order == "sorted" else failed
    rows = zip(draw.choice(list("xyz"), 20_000), draw.choice(list("pq"), 20_000), strict=True)
    lines = [f"{a},{b},{int(y)}" for (a, b), y in zip(rows, failed, strict=True)]
    path.write_text("\n".join(["a,b,failed", *lines]) + "\n")


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.7, 0.9])
def test_labels_that_nothing_explains_have_no_cause_and_silence_says_why(
    tmp_path: Path, rate: float
) -> None:
    written(tmp_path / "e.csv", rate)
    learn = ("learn", "e.csv", "--class", "causes:a,b:2", "--label", "failed", "--delta", "1e-7")
    done = littlestone(*learn, "--db", "run.db", "--report", "r.html", folder=tmp_path)
    shown = littlestone("show", "run.db", folder=tmp_path)
    for text in (done.stdout, shown.stdout):
        assert "PUBLIC: no cause of failed is published" in text
        assert "The longest draw read rounds" in text
        assert re.search(r" of these events would have needed [\d, or]+ positives\n", text)
        assert "what to try: more rows or a larger epsilon" in text
        assert "never\n" not in text, "there were failures"
        assert "the next comes" not in text, "the horizon is reached: nothing more comes"
        assert "sorted" not in text
    assert "The longest draw read rounds" in (tmp_path / "r.html").read_text()
    longer = littlestone(*learn, "--horizon", 10**6, folder=tmp_path)
    assert "the next comes at round 1,000,000 at the latest" in longer.stdout


def test_rows_sorted_by_their_label_have_no_cause_and_a_sentence(tmp_path: Path) -> None:
    written(tmp_path / "e.csv", 0.4, "sorted")
    done = littlestone("learn", "e.csv", "--class", "causes:a,b:2", "--label", "failed",
                       "--delta", "1e-7", folder=tmp_path)  # fmt: skip
    assert "PUBLIC: no cause of failed is published" in done.stdout
    assert "if the rows are sorted by their label" in done.stdout


def test_a_plan_says_how_many_positives_a_cause_takes() -> None:
    asked = ("plan", "causes:a,b:2", "--horizon", 200_000, "--delta", "1e-7", "--rate", 0.3)
    done = littlestone(*asked, "--share", 0.05, "--base", 0.01)
    assert done.returncode == 0, done.stderr
    assert "of 1 condition: published after about" in done.stdout
    assert "of 2 conditions: published after about" in done.stdout
    assert "paper's proof" not in done.stdout
    whose = littlestone(*asked, "--user", "who", "--cap", 1).stdout
    assert "of its users have failed" in whose
    assert "at most 1 read a user (--cap)" in whose
    assert "later ones are null rounds" not in whose
    one, two = json.loads(littlestone(*asked, "--share", 0.05, "--json").stdout)["forecast"]
    assert one["positives"] == pytest.approx(0.3 * 0.05 * one["rounds"], abs=1)
    assert two["positives"] >= one["positives"]
    far = littlestone(*asked[:-1], 0.015, "--share", 0.05, "--base", 0.01)
    assert "not expected to be published" in far.stdout


def test_names_of_columns_are_text_on_the_page_of_sliders(tmp_path: Path) -> None:
    asked = ("plan", "causes:<script>,b", "--horizon", 9000, "--html", "w.html")
    done = littlestone(*asked, "--json", folder=tmp_path)
    assert (done.returncode, done.stderr, "forecast" in done.stdout) == (0, "", False)
    assert (tmp_path / "w.html").read_text("utf-8").count("<script>") == 1
    assert littlestone(*asked, "--force", folder=tmp_path).returncode == 0


def test_a_forecast_is_about_right() -> None:
    """The median of some runs is near it; see the plan's heuristic."""
    cls, rounds = ls.Causes(["a", "b"]), 30_000
    plan = CausesPlan.practical(cls, 1, 1e-6, rounds, min_rate=0.1)
    told = forecast(plan, 0.4, share=0.1, base=0.01)
    found = []
    for seed in range(7):
        draw = np.random.default_rng(seed)
        rows = {c: draw.choice(list("xyz"), rounds).astype(object) for c in "ab"}
        bad = draw.random(rounds) < 0.1
        rows["a"][bad] = "bad"
        learner = ls.PrivateCauses(cls, plan=plan)
        learner.learn_many(rows, draw.random(rounds) < np.where(bad, 0.4, 0.01))
        found += [r.round for r in learner.releases if str(r.rule) == "a = 'bad'"][:1]
    assert len(found) >= 5
    assert told.rounds is not None
    assert 0.4 < float(np.median(found)) / told.rounds < 2


def test_a_plan_has_one_forecast_for_one_question() -> None:
    asked = ("plan", "causes:a,b", "--horizon", 200_000, "--delta", "1e-7")
    question = ("--rate", 0.3, "--share", 0.05, "--base", 0.01)
    done, general = littlestone(*asked, *question), littlestone(*asked)
    (one,) = json.loads(littlestone(*asked, *question, "--json").stdout)["forecast"]
    assert f"published after about {one['positives']:,} of its positives" in done.stdout
    assert "utility: heuristic" not in done.stdout, "which is about another cause"
    assert "utility: heuristic" in general.stdout
    assert "if nothing else ever fails" in general.stdout


def summary(*causes: Cause) -> CausesSummary:
    """What is published of causes that all stand."""
    count = len(causes)
    named = tuple((cause.outcome, 30) for cause in causes if cause.outcome is not None)
    window = Window(2, 9_000, causes, (*[700] * count, 9_000), (*[300] * count, 90), 20.0, named)
    evidence = evidence_of([window], causes)
    shown = summarize_causes([(1, NEVER), (2, any_of(causes))], evidence)
    said = {
        "remarks": [COUNTED_ONCE],
        "base_rate": None,
        "why_that_rate": "a cause has to beat a rate of 2.0%",
    }
    return CausesSummary(shown, evidence, over_time([window], evidence), said)


def printed(causes: CausesSummary, width: int) -> list[str]:
    text = StringIO()
    print_causes(Console(file=text, width=width, force_terminal=True, color_system=None,
                         highlight=False, markup=False), causes, "failed")  # fmt: skip
    return text.getvalue().splitlines()


def test_where_lines_are_short_a_cause_stands_whole_above_its_figures() -> None:
    pairs = [
        Cause((Condition("country", "SE"), Condition("version", f"4.2.{n}-beta"))) for n in (1, 2)
    ]
    narrow, wide = printed(summary(*pairs), 80), printed(summary(*pairs), 160)
    assert max(map(len, narrow)) <= 80
    for pair in pairs:
        row = narrow.index(f"  {pair}")
        assert narrow[row + 1].startswith("    1,000 ± 83  30.0%")
        (line,) = [line for line in wide if line.startswith(f"  {pair}  1,000 ± 83  30.0%")]
        assert line.endswith("██████")
    assert [line for line in narrow if line.startswith("    events ")]
    assert COUNTED_ONCE in " ".join(line.strip() for line in narrow[-4:])


def test_many_causes_are_named_in_the_table_and_a_few_in_their_order() -> None:
    few = [Cause((Condition("device", f"K{n}"),)) for n in range(2)]
    assert summary(*few).headline("failed") == "failed when device = 'K0' or device = 'K1'"
    many = [Cause((Condition("device", f"K{n}"),)) for n in range(8)]
    assert summary(*many).headline("failed") == "failed when one of these 8 causes holds"
    said = Cause((Condition("device", "K9"),), "timeout")
    assert summary(said).headline("outcome") == "timeout when device = 'K9'"


@pytest.mark.parametrize("rows", [1, 7, 19, 40])
def test_a_file_of_a_few_rows_is_learned(tmp_path: Path, rows: int) -> None:
    (tmp_path / "e.csv").write_text("version,failed\n" + "4.2.1,1\n" * rows)
    done = littlestone("learn", "e.csv", "--class", "causes:version", "--label", "failed",
                       "--delta", "1e-7", folder=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "PUBLIC: no cause of failed is published" in done.stdout


def test_compare_has_missed_positives_and_false_alarms() -> None:
    done = littlestone("compare", "--class", "causes:a,b", "--learners", "causes,dpsoa",
                       "--streams", "rates:0.4:0.01:0.1", "--rounds", 20_000, "--seeds", 1,
                       "--delta", "1e-7", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    causes, dpsoa = json.loads(done.stdout)["lines"]
    positives = 20_000 * (0.1 * 0.4 + 0.9 * 0.01)
    assert causes["missed"] < 0.8 * positives < dpsoa["missed"]
    assert causes["median"] < 0.8 * dpsoa["median"], "a right cause is better than nothing"
