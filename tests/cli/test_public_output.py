"""Standard output is public: nothing on it depends on what only the data owner may know."""

import csv
import json
import stat
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from commands import littlestone
from littlestone import Causes, PrivateCauses, open_store, read_store

ROWS = 400
Row = Sequence[object]
PRIVATE_WORDS = (
    " mistakes in ",
    "null round",
    "PRIVATE",
    "could not be read",
    "votes for",
    "canary",
)


def stream(canary: bool) -> list[Row]:
    """Two streams with the same releases, as a change of rule takes more mistakes than come; they
    differ in labels, in rows that cannot be read, and in what those hold."""
    rows: list[Row] = [(f"m{n % 5}", int(n == 1), f"u{n % 3}") for n in range(ROWS)]
    if canary:
        for at in range(0, 60, 2):
            rows[at] = (rows[at][0], 1, rows[at][2])
        rows[7] = ("canary-77", "canary-label", "u1")
    return rows


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A folder for each world, so that the paths which a command prints are the same."""
    folders = [tmp_path / name for name in ("one", "other")]
    for canary, folder in enumerate(folders):
        folder.mkdir()
        lines = [",".join(map(str, row)) for row in stream(bool(canary))]
        (folder / "e.csv").write_text("\n".join(["merchant,fraud,who", *lines]) + "\n")
    return folders


LEARN = ("learn", "e.csv", "--class", "points:merchant", "--label", "fraud", "--delta", "1e-9",
         "--epsilon", 0.1, "--seed", 5)  # fmt: skip
COMMANDS: dict[str, list[tuple[object, ...]]] = {
    "learn": [LEARN],
    "json": [(*LEARN, "--json")],
    "files": [(*LEARN, "--out", "out.jsonl", "--report", "r.html", "--private-json", "p.json")],
    "capped": [(*LEARN, "--user", "who", "--cap", 5)],
    "show": [(*LEARN, "--db", "run.db"), ("show", "run.db", "--private")],
    "show json": [
        (*LEARN, "--db", "run.db", "--json"),
        ("show", "run.db", "--private", "--json", "--private-json", "p.json"),
    ],
    "audit": [
        ("audit", "points:merchant", "--file", "e.csv", "--label", "fraud", "--horizon", 400,
         "--learner", "soa", "--runs", 4, "--epsilon", 8, "--delta", 0.01, "--workers", 1,
         "--private-json", "p.json"),
    ],
}  # fmt: skip


AUDITS = pytest.param("audit", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [AUDITS if name == "audit" else name for name in COMMANDS])
def test_what_is_private_is_not_on_standard_output(name: str, files: list[Path]) -> None:
    """Byte for byte the same in both worlds; what differs is on standard error."""
    outs, errs = [], []
    for folder in files:
        for command in COMMANDS[name]:
            done = littlestone(*command, folder=folder)
            assert done.returncode in ((0, 1) if name == "audit" else (0,)), done.stderr
            outs.append(done.stdout)
            errs.append(done.stderr)
        for path in (folder / "p.json", folder / "r.html"):
            if path.exists():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
    half = len(outs) // 2
    assert outs[:half] == outs[half:]
    assert not [word for word in PRIVATE_WORDS for out in outs if word in out]
    assert "PRIVATE" in errs[-1]
    if name != "audit":
        assert "1 row that could not be read" in errs[-1]
        assert "1 row that could not be read" not in errs[half - 1]


def test_a_cap_is_told_apart_from_rows_that_cannot_be_read(files: list[Path]) -> None:
    """Three users have 400 rounds, of which 5 each count; one row cannot be read."""
    arguments = (*LEARN, "--user", "who", "--cap", 5, "--db", "run.db", "--report", "r.html")
    done = littlestone(*arguments, "--private-json", "p.json", folder=files[1])
    assert done.returncode == 0, done.stderr
    assert "per user: at most 5 rounds a user count" in done.stdout
    assert "without a limit" not in done.stdout
    private: dict[str, Any] = json.loads((files[1] / "p.json").read_text())
    expected = {"counted_rounds": 14, "null_rounds": 386, "beyond_cap": 385, "unreadable": 1}
    assert {name: private[name] for name in expected} == expected
    shown = littlestone("show", "run.db", "--private", folder=files[1])
    for err in (done.stderr, shown.stderr):
        lines = [line.strip("| ") for line in err.splitlines()]
        # Of the first 15 rows the even ones and row 1 are positive, and no rule is published.
        assert "9 mistakes in the 14 rounds that counted (64.286%)" in lines
        assert "385 rounds beyond the cap of their user: not learned, null rounds" in lines
        assert "1 row that could not be read: null rounds" in lines
    with (files[1] / "e.csv").open("a") as more:
        more.write("m0,0,u0\nm0,0,u9\n")
    again = ("learn", "e.csv", "--db", "run.db", "--private-json", "again.json")
    assert littlestone(*again, folder=files[1]).returncode == 0
    private = json.loads((files[1] / "again.json").read_text())
    assert (private["counted_rounds"], private["beyond_cap"]) == (15, 386)
    report = (files[1] / "r.html").read_text()
    assert "385 further rounds were beyond the cap of their user" in report
    assert "1 row could not be read" in report


def test_the_statement_is_one_page_that_can_be_quoted(files: list[Path]) -> None:
    done = littlestone(*LEARN, "--db", "run.db", folder=files[0])
    assert done.returncode == 0, done.stderr
    said = littlestone("show", "run.db", "--statement", folder=files[0])
    lines = said.stdout.splitlines()
    assert (said.returncode, said.stderr) == (0, "")
    assert len(lines) < 50
    assert max(map(len, lines)) <= 80
    whole = " ".join(said.stdout.split())
    view = read_store(files[0] / "run.db")
    assert str(view.published.guarantee) in whole
    assert f"computed from {view.published.rounds} events" in whole
    for text in view.published.guarantee.meaning().values():
        assert text in whole


def test_what_is_published_is_exported_as_markdown_csv_and_a_frame(tmp_path: Path) -> None:
    value, rows = "<b>|*x*, y", ["version,failed"]
    rows += [f'"{value if n % 3 == 0 else "ok"}",{int(n % 3 == 0)}' for n in range(6000)]
    tmp_path.joinpath("e.csv").write_text("\n".join(rows) + "\n")
    learn = ("learn", "e.csv", "--class", "causes:version", "--label", "failed", "--min-rate", 0.1)
    done = littlestone(*learn, "--db", "run.db", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = littlestone("show", "run.db", "--markdown", folder=tmp_path).stdout.splitlines()
    cause = f"version = {value!r}"
    shown = r"version = '\<b\>\|\*x\*, y'"
    assert told[0] == f"**failed when {shown}**"
    assert told[4].startswith(f"| {shown} | ")
    assert "(1.0, 1e-07)-differential privacy, replace-one, per event." in told[-1]
    table = list(
        csv.DictReader(StringIO(littlestone("show", "run.db", "--csv", folder=tmp_path).stdout))
    )
    assert [row["cause"] for row in table] == [cause]
    both = littlestone("show", "run.db", "--csv", "--json", folder=tmp_path)
    assert (both.returncode, both.stdout) == (2, "")
    with open_store(tmp_path / "run.db") as store:
        assert isinstance(store.learner, PrivateCauses)
        frame = store.learner.evidence.to_frame()
    assert list(frame["cause"]) == [cause]
    assert float(table[0]["rate"]) == frame["rate"][0]
    empty = PrivateCauses(
        Causes(["version"]), epsilon=1, delta=1e-7, horizon=10
    ).evidence.to_frame()
    assert list(empty) == list(table[0])
