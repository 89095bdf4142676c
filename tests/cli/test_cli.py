"""The edge as its user meets it: specifications, CSV tables, the command line, bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import littlestone as ls
from commands import Command, littlestone
from littlestone._classes.specs import BadSpec, parse_spec, read_table


@pytest.fixture
def run() -> Command:
    return littlestone


@pytest.mark.parametrize(
    ("spec", "cls"),
    [
        ("points:merchant", ls.Points("merchant")),
        ("sets:merchant:3", ls.Sets(3, "merchant")),
        ("rules:version,country", ls.Rules(["version", "country"])),
        ("thresholds:score:0:100:5", ls.Thresholds(0, 100, 5, "score")),
        ("thresholds:score:0:100", ls.Thresholds(0, 100, 1, "score")),
        ("intervals:hour:0:1:0.1", ls.Intervals(0, 1, 0.1, "hour")),
        ("conjunctions:new,vip", ls.Conjunctions(["new", "vip"])),
        (r"rules:a\,b,c\:d", ls.Rules(["a,b", "c:d"])),
        (r"rules:a\\,b", ls.Rules(["a\\", "b"])),
        ("points:an odd name", ls.Points("an odd name")),
    ],
)
def test_specifications(spec: str, cls: ls.HypothesisClass) -> None:
    assert parse_spec(spec) == cls


@pytest.mark.parametrize(
    ("spec", "pointed", "why"),
    [
        ("circles:x", "circles", "unknown family 'circles'"),
        ("", "", "unknown family ''"),
        ("points", "", "COLUMN is missing"),
        ("points:", "", "a column name is missing"),
        ("points:a:b", "b", "one part too many"),
        ("sets:m:two", "two", "K is a whole number"),
        ("sets:m:2.5", "2.5", "K is a whole number"),
        ("sets:m:0", "0", "k must be a whole number from 1 on"),
        ("rules:a,,b", ",", "a column name is missing"),
        ("rules:a,b,a", "a", "column 'a' is named twice"),
        ("thresholds:s:0", "", "HI is missing"),
        ("thresholds:s:low:9:1", "low", "LO is a number"),
        ("thresholds:s:0:100:7", "7", "step 7 does not divide"),
        ("thresholds:s:0:100:0", "0", "step must be above zero"),
        ("thresholds:s:9:1:1", "1", "ends before it begins"),
        ("thresholds:s:0:nan:1", "nan", "hi: nan is not a finite number"),
        ("table:", "", "expected table:FILE.csv"),
    ],
)
def test_a_bad_specification_is_pointed_at(spec: str, pointed: str, why: str) -> None:
    with pytest.raises(BadSpec) as refusal:
        parse_spec(spec)
    sentence, shown, marker = str(refusal.value).split("\n")
    assert why in sentence
    start = marker.index("^") - 2
    assert shown[2:] == spec
    assert spec[start : start + marker.count("^")] == pointed


TABLE = "merchant,A,B,C\nonly A,1,0,0\nnobody,0,0,0\nall but A,0,1,1\n"


def test_a_table_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "class.csv"
    path.write_text(TABLE, encoding="utf-8")
    cls = read_table(path)
    assert cls == parse_spec(f"table:{path}")
    assert list(map(str, cls.hypotheses())) == ["merchant = 'A'", "never", "merchant in {'B', 'C'}"]
    assert cls.dimension == 1
    path.write_bytes(b"\xef\xbb\xbf" + TABLE.replace("\n", "\r\n").encode())
    assert ls.read_table(path) == cls, "with a byte order mark and DOS line ends"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1: expected a column name"),
        ("x\n", "line 1: expected a column name"),
        ("x,a,b\n", "the table is empty"),
        ("x,a,b\nh,1\n", "line 2: 2 cells where line 1 has 3"),
        ("x,a,b\nh,1,0\ng,1,0,1\n", "line 3: 4 cells where line 1 has 3"),
        ("x,a,b\nh,1,2\n", "line 2, column 'b': '2' is not 0 or 1"),
        ("x,a,b\nh,1,\n", "line 2, column 'b': '' is not 0 or 1"),
        ("x,a,b\nh,1,0\n\ng,1,0\n", "line 4: 'g' is the same hypothesis as line 2"),
        ("x,a,a\nh,1,0\n", "point 'a' is named twice"),
    ],
)
def test_a_bad_table_names_file_line_and_column(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "class.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ls.BadClass) as refusal:
        read_table(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert why in str(refusal.value)


def test_a_table_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "class.csv"
    path.write_bytes(b"x,\xff\xfe\n")
    with pytest.raises(ls.BadClass, match="not a CSV file of text"):
        read_table(path)


def test_dimension_for_people(run: Command) -> None:
    done = run("dimension", "thresholds:score:0:100:5", "--witness")
    assert done.returncode == 0
    assert "thresholds:score:0:100:5" in done.stdout
    assert "Littlestone dimension   4" in done.stdout
    assert done.stdout.count("└─ 1") == 15


def test_dimension_for_machines(run: Command) -> None:
    found = json.loads(run("dimension", "rules:version,country", "--witness", "--json").stdout)
    assert (found["dimension"], found["hypotheses"], found["mistake_bound"]) == (2, None, 2)
    tree = found["witness"]
    assert tree["point"] == {"version": "v2", "country": "v2"}
    assert ls.rule_from_json(tree["zero"]["zero"]["rule"]) == ls.NEVER
    assert tree["zero"]["zero"]["sentence"] == "never"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["thresholds:score:0:100:7"], "                         ^"),
        (["table:no such file.csv"], "error: no such file.csv: No such file or directory"),
        (["thresholds:x:0:1000000000000", "--witness"], "dimension 10 or less would work"),
        (["circles:x"], "unknown family"),
        (["thresholds:x:0:" + "9" * 400], "is not a finite number"),
        ([], "SPEC"),
    ],
)
def test_bad_input_is_a_sentence_and_code_2(run: Command, arguments: list[str], why: str) -> None:
    done = run("dimension", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_line_drawing_gets_its_tree() -> None:
    code = "from littlestone._cli.main import main; main()"
    for verb in (["plan", "points:m", "--horizon", "9"], ["dimension", "points:m", "--witness"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *verb],
            capture_output=True,
            env={"PYTHONIOENCODING": "ascii"},
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_pipe_is_no_error() -> None:
    code = "from littlestone._cli.main import main; main()"
    verb = f"{sys.executable} -c '{code}' dimension thresholds:x:0:1000 --witness | true"
    done = subprocess.run(["sh", "-c", verb], capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("v,failed\n" + "a,1\n" * 9)
    code = "from littlestone._cli.main import main; main()"
    words = f"learn events.csv --class points:v --label failed --out releases.jsonl {closed}"
    verb = f"exec {sys.executable} -c '{code}' {words}"
    done = subprocess.run(["sh", "-c", verb], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    lines = (tmp_path / "releases.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["release"], "nothing else is in it"


@pytest.mark.parametrize("verb", [["dimension"], ["plan", "--horizon", "100000"]])
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("causes:" + ",".join(f"c{n}" for n in range(1000)) + ":3", "name fewer columns"),
        ("sets:m:1000000000", "k must be at most 1,000,000"),
        ("table:/dev/zero", "/dev/zero: a table has at most"),
    ],
)
def test_what_would_never_end_is_a_sentence(
    run: Command, verb: list[str], spec: str, why: str
) -> None:
    done = run(*verb, spec)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_sizes_beyond_counting(run: Command) -> None:
    spec = "conjunctions:" + ",".join(f"c{n}" for n in range(10_000))
    assert "about 10^4771" in run("dimension", spec).stdout
    assert json.loads(run("dimension", spec, "--json").stdout)["hypotheses"] is None


def test_version_and_help(run: Command) -> None:
    assert run("--version").stdout == f"littlestone {ls.__version__}\n"
    for verb in ("dimension", "learn", "plan", "demo"):
        assert "Example: littlestone" in run(verb, "--help").stdout
