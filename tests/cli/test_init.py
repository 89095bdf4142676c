"""`littlestone init` proposes a command from the header of a file, and never from its values."""

import csv
import gzip
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import littlestone
from littlestone._cli.init import propose
from littlestone._data.readers import Header

NAMES = ["time", "version", "country", "user_id", "amount", "failed"]
Write = Callable[[Path, list[list[str]]], None]


def delimited(path: Path, rows: list[list[str]], delimiter: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([NAMES, *rows])


def packed(path: Path, rows: list[list[str]]) -> None:
    delimited(path, rows)
    path.write_bytes(gzip.compress(path.read_bytes()))


def json_lines(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows))


def parquet(path: Path, rows: list[list[str]]) -> None:
    cells = zip(NAMES, zip(*rows, strict=True), strict=True)
    pq.write_table(pa.table({name: pa.array(column, pa.string()) for name, column in cells}), path)


FORMATS: dict[str, Write] = {
    "events.csv": delimited,
    "events.tsv": lambda path, rows: delimited(path, rows, "\t"),
    "events.csv.gz": packed,
    "events.jsonl": json_lines,
    "events.parquet": parquet,
}

# Values that would change a guess: numbers, truth values, text, nothing, many words, few words.
VALUES: list[Callable[[int], str]] = [
    lambda n: str(n),
    lambda n: str(n % 2),
    lambda n: ["true", "false"][n % 2],
    lambda n: "",
    lambda n: f"2026-01-{n % 28 + 1:02}",
    lambda n: f"user{n}@mail.example",
    lambda n: 'a "quoted" cell, with\nlines',
]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["words", "json"])
def test_no_value_changes_what_is_printed(name: str, options: list[str], tmp_path: Path) -> None:
    printed = set()
    for value in VALUES:
        rows = [[value(6 * row + n) for n in range(6)] for row in range(20)]
        FORMATS[name](tmp_path / name, rows)
        done = littlestone("init", name, *options, folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        printed.add(done.stdout)
    assert len(printed) == 1


def test_a_name_and_a_number_of_rows_change_what_is_printed(tmp_path: Path) -> None:
    """The test above can fail: what is read of a file is seen in what is printed."""
    row = ["x"] * 6
    printed = []
    for rows in ([row] * 20, [row] * 300_000):
        parquet(tmp_path / "events.parquet", rows)
        done = littlestone("init", tmp_path / "events.parquet", "--json")
        printed.append(json.loads(done.stdout))
    assert [found["rows"] for found in printed] == [20, 300_000]
    assert [found["delta"] for found in printed] == [1e-7, 1e-7]


def test_delta_follows_the_rounds_beyond_a_million() -> None:
    found = {n: propose("f", Header(("a",), None, n, "")).delta for n in (None, 999_999, 10**7)}
    assert list(found.values()) == ["1e-7", "1e-7", "1e-9"]


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "events.csv.gz"
    whole = gzip.compress("".join(f"column{n}," for n in range(99)).encode())
    for place in range(10, len(whole) - 8):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        done = littlestone("init", path)
        assert done.returncode in (0, 2)
        assert "Traceback" not in done.stderr
        if done.returncode == 2 and "gzip" in done.stderr:
            assert f"{path}: the gzip file is damaged or cut off" in done.stderr
            return
    pytest.fail("no place at which damage is seen")


def proposal(*names: str, types: dict[str, Any] | None = None) -> dict[str, Any]:
    return propose("f.csv", Header(names, types, None, "")).to_json()


def test_columns_are_told_apart_by_their_names() -> None:
    found = proposal(*NAMES, "event_id", "merchant_id", "client_version", "createdAt", "risk score")
    assert found["label"] == "failed"
    assert found["columns"] == ["version", "country", "merchant_id", "client_version"]
    assert set(found["left_out"]) == {
        "time", "user_id", "amount", "event_id", "createdAt", "risk score",
    }  # fmt: skip
    assert found["users"] == ["user_id"]
    assert "amount@" in found["left_out"]["amount"]
    assert "'thresholds:risk score:LO:HI:STEP'" in found["reasons"]["instead"]


def test_the_likeliest_label_comes_first() -> None:
    assert proposal("status", "isFraud", "label2")["label"] == "isFraud"
    found = proposal("outcome", "status", "a")
    assert (found["label"], found["other_labels"]) == ("outcome", ["status"])
    assert "several values" in found["reasons"]["--label outcome"]
    guessed = proposal("a", "b")
    assert guessed["label"] == "b"
    assert "unsure: no name looks like that of a label" in guessed["reasons"]["--label b"]
    assert proposal("a", "user_id")["label"] is None
    assert "LABEL" in proposal("a", "user_id")["command"]


# The columns of public tables, shortened, and which of them is the label.
TABLES = {
    "y": "age job default balance housing day month duration poutcome y",  # a bank's campaign
    "income": "age workclass fnlwgt marital_status capital_gain sex income",  # adults
    "left": "satisfaction_level average_montly_hours time_spend_company left sales salary",
    "class": "class cap-shape odor habitat",  # mushrooms
    "Survived": "PassengerId Survived Pclass Name Sex Age Ticket Fare",
    "survived": "survived pclass sex class who alive",
    "Churn": "customerID gender tenure PhoneService TotalCharges Churn",
    "Outcome": "Pregnancies Glucose BMI Age Outcome",
    "is_canceled": "hotel is_canceled lead_time meal reservation_status reservation_status_date",
    "readmitted": "encounter_id patient_nbr race admission_type_id readmitted",
    "click": "id click hour banner_pos device_id device_ip device_model",
    "label": "duration service num_failed_logins serror_rate label",
    "Exited": "RowNumber CustomerId Surname Geography EstimatedSalary Exited",
    "diagnosis": "id diagnosis radius_mean",
    "RainTomorrow": "Date Location RainToday RainTomorrow",
}


@pytest.mark.parametrize("label", TABLES)
def test_the_labels_of_public_tables_are_found(label: str) -> None:
    assert proposal(*TABLES[label].split())["label"] == label


def test_persons_and_rows_are_no_causes_and_words_are() -> None:
    left_out = {name for names in TABLES.values() for name in proposal(*names.split())["left_out"]}
    ids = "PassengerId Name customerID encounter_id patient_nbr device_id device_ip RowNumber id"
    assert set(ids.split()) < left_out
    kept = proposal("salary", "age_group", "amount_band", "sha256", "trace_id", "failed")
    assert kept["columns"] == ["salary", "age_group", "amount_band"]
    assert kept["unsure"] == ["salary"]
    assert "What holds numbers is better read by ranges: salary@" in kept["reasons"]["unsure"]
    many = proposal(*(f"c{n}" for n in range(60)), "failed")
    assert len(many["columns"]) == 40
    assert "40 columns already" in many["left_out"]["c40"]


def test_a_month_of_a_year_is_a_time_and_an_id_may_name_persons() -> None:
    flights = proposal("year", "month", "carrier", "late")
    assert flights["times"] == ["year", "month"]
    assert "--table" not in flights["command"]
    seasons = proposal("month", "id", "late")
    assert seasons["columns"] == ["month"]
    assert "--user id" in seasons["left_out"]["id"]
    assert "--table" in seasons["command"]


def test_a_sample_that_is_public_is_looked_at(tmp_path: Path) -> None:
    """The sample decides, and the file itself changes nothing, whatever its values are."""
    draw = np.random.default_rng(1)
    names = "shop;age;level;code;weight;serial;same;bought"
    rows = [
        f"{draw.choice(['A', 'B'])};{draw.integers(18, 90)};{draw.choice(['low', 'high'])};{n}x;"
        f"{draw.random():.6f};{n};s;{draw.choice(['Yes', 'No', 'No'])}"
        for n in range(400)
    ]
    (tmp_path / "public.csv").write_text("\n".join([names, *rows]))
    printed = set()
    for value in VALUES[:-1]:
        (tmp_path / "f.csv").write_text(
            "\n".join([names, *(";".join([value(n)] * 8) for n in range(9))])
        )
        done = littlestone("init", "f.csv", "--sample", "public.csv", "--json", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    found = json.loads(printed.pop())
    assert not printed
    assert found["label"] == "bought"
    assert found["command"][6:10] == ["bought", "--positive", "Yes", "--epsilon"]
    assert found["columns"] == ["shop", "age", "level", "weight"]
    assert "," in found["class"]
    assert "age@" in found["class"]
    assert "weight@0.2" in found["class"]
    assert set(found["left_out"]) == {"code", "serial", "same"}
    parquet(tmp_path / "p.parquet", [["x"] * 6, ["y"] * 6])
    typed = littlestone("init", "f.csv", "--sample", "p.parquet", folder=tmp_path)
    assert "values of p.parquet, which you declared public" in typed.stdout
    itself = littlestone("init", "f.csv", "--sample", "./f.csv", folder=tmp_path)
    assert itself.returncode == 2
    assert "A sample may be published: take another file" in itself.stderr


def test_times_and_names_of_persons_are_no_causes() -> None:
    """Names from published tables: flights of 2013, deaths in a riot, penguins."""
    flights = proposal("dep_time", "sched_arr_time", "carrier", "time_hour", "hour", "air_time")
    assert flights["columns"] == ["carrier", "hour"]
    assert "air_time@10/20/50" in flights["left_out"]["air_time"]
    riots = proposal("first_name", "lastName", "address", "race", "death_date", "Flipper Length")
    assert (riots["label"], riots["columns"], riots["users"]) == (None, ["race"], [])
    typed = proposal("arr_time", "late", types={"arr_time": "whole number", "late": "truth value"})
    assert (typed["label"], typed["columns"]) == ("late", [])


def test_a_label_that_is_said_is_no_cause(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("resp,mode,failed\n")
    asked = littlestone("init", "people.csv", "--label", "resp", folder=tmp_path)
    assert "--class causes:mode,failed" in asked.stdout
    assert "--label resp " in asked.stdout
    assert "as you said" in asked.stdout
    wrong = littlestone("init", "people.csv", "--label", "respons", folder=tmp_path)
    assert wrong.returncode == 2
    assert "--label 'respons' is not there: the columns are 'resp', 'mode'" in wrong.stderr
    (tmp_path / "plain.csv").write_text("resp,mode\n")
    unsaid = littlestone("init", "plain.csv", folder=tmp_path)
    assert "init plain.csv --label COLUMN" in " ".join(unsaid.stdout.split())
    assert "in place of ROWS" in unsaid.stdout


def test_types_of_a_schema_count() -> None:
    types = {"price": "text", "kind": "number", "when": "time", "vip": "truth value", "x": "other"}
    found = proposal(*types, "error", types=types | {"error": "number"})
    # A column of floats is no label; a column of truth values may be one, whatever its name.
    assert found["label"] == "vip"
    assert found["columns"] == ["price"]
    assert set(found["left_out"]) == {"kind", "when", "x", "error"}


@pytest.mark.parametrize("names", [["a:b", "c,d", "e f", "g@h", "is\\it"], ["--version", "$HOME"]])
def test_the_command_runs_as_it_is_printed(names: list[str], tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    with (tmp_path / "my events.csv").open("w", newline="") as file:
        rows = [[*draw.choice(["u", "v", "w"], len(names)), n % 2] for n in range(200)]
        csv.writer(file).writerows([[*names, "failed"], *rows])
    done = littlestone("init", "my events.csv", folder=tmp_path)
    shown = done.stdout.replace("\\\n", " ").splitlines()
    command = next(line for line in shown if line.startswith("  littlestone learn"))
    learned = littlestone(*shlex.split(command)[1:], folder=tmp_path)
    assert learned.returncode == 0, learned.stderr
    assert (tmp_path / "releases.jsonl").exists()
    planned = next(line for line in shown if line.startswith("  littlestone plan"))
    words = [word.replace("ROWS", "1000") for word in shlex.split(planned)[1:]]
    assert littlestone(*words).returncode == 0


@pytest.mark.parametrize(
    ("content", "name", "options", "advice"),
    [
        ("a,b\n", "f.csv", ["--delimiter", "no"], "it is one character"),
        ("", "f.csv", [], "there is no first line, which should name the columns"),
        ("secret,1\n", "f.jsonl", [], "name it: --format csv, tsv, parquet or arrow"),
        ("a,b\n", "f.csv", ["--format", "excel"], "it is one of csv, tsv"),
        ("a,b\n", "f.parquet", [], "not a Parquet file"),
        ("a,b\n", "f.csv", ["--horizon", "0"], "at least 1"),
    ],
)
def test_a_refusal_says_what_to_do(
    content: str, name: str, options: list[str], advice: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    done = littlestone("init", name, *options, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert advice in done.stderr
    assert "secret" not in done.stderr


def test_a_pipe_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    assert "save the stream to a file" in littlestone("init", "-").stderr
    assert "there is no Parquet file" in littlestone("init", tmp_path).stderr


def test_a_folder_of_parquet_is_one_stream(tmp_path: Path) -> None:
    for day in "ab":
        parquet(tmp_path / f"{day}.parquet", [["x"] * 6] * 10)
    found = json.loads(littlestone("init", tmp_path, "--json").stdout)
    assert (found["rows"], found["label"]) == (20, "failed")
