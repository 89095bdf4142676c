"""A column of times (`--time`): public, for pictures, and never for learning."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from commands import littlestone
from littlestone import BadStream, Causes, Points, PrivateCauses, Store, open_store, read_store
from littlestone._data.cells import read_time
from littlestone._data.readers import open_rows
from littlestone._privacy.testing import SeededNoise
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import create

ROWS = 12_000
# A year that nothing else has.
BEGUN = datetime(1987, 3, 14, 15, 9, 26, 535897, UTC)
CLS = Causes(["version"])


def moment(row: int) -> datetime:
    return BEGUN + timedelta(seconds=row)


def second(row: int) -> str:
    return moment(row).isoformat(timespec="seconds")


def events(spoil: bool = False) -> list[dict[str, Any]]:
    """Events of which one version fails until a rollback; times may be missing, or no times."""
    draw = np.random.default_rng(7)
    versions = draw.choice(["4.2.1", "4.2.0", "4.3.0", "4.1.9"], ROWS).tolist()
    failed = draw.random(ROWS) < 0.6
    rows: list[dict[str, Any]] = [
        {"at": moment(n).isoformat(), "version": versions[n], "failed": 0} for n in range(ROWS)
    ]
    for n, row in enumerate(rows):
        row["failed"] = int(failed[n] and row["version"] == "4.2.1" and n < ROWS // 2)
        if spoil and n % 2:
            row["at"] = ["", "soon", "\udcff", "1e999", "9" * 5000][n % 5]
        if spoil and n % 10 == 4:
            del row["at"]
    return rows


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = (f"{row.get('at', '')},{row['version']},{row['failed']}" for row in rows)
    text = "\n".join(["at,version,failed", *lines]) + "\n"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    names = "version", "failed"
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in names}
    times = [datetime.fromisoformat(row["at"]) if is_time(row) else None for row in rows]
    columns["at"] = pa.array(times, pa.timestamp("ns", "Europe/Stockholm"))
    pq.write_table(pa.table(columns), path, row_group_size=1000)


def is_time(row: dict[str, Any]) -> bool:
    return str(row.get("at", "")).startswith("1987")


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    "csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet
}  # fmt: skip


def learned(path: Path, time: str | None, block_rows: int = 1 << 16) -> PrivateCauses:
    learner = PrivateCauses(CLS, 4, 1e-6, ROWS, min_rate=0.2, noise=SeededNoise(3))
    with open_rows(path, CLS, label="failed", time=time, block_rows=block_rows) as rows:
        for block in rows:
            learner.learn(block)
    learner.end_window()
    return learner


@pytest.mark.parametrize("spoil", [False, True], ids=["times", "spoilt times"])
@pytest.mark.parametrize("form", WRITERS)
def test_a_learner_is_the_same_with_times_and_without(
    form: str, spoil: bool, tmp_path: Path
) -> None:
    path, rows = tmp_path / f"e.{form}", events(spoil)
    WRITERS[form](path, rows)
    without, timed, cut = learned(path, None), learned(path, "at"), learned(path, "at", 700)
    assert "4.2.1" in str(timed.releases)
    assert timed.releases == without.releases
    assert timed.null_rounds == without.null_rounds == 0, "a time is no reason for a null round"
    assert [window._replace(time=None) for window in timed.windows] == list(without.windows)
    assert timed.windows == cut.windows, "however the rows were batched"
    assert not [window for window in without.windows if window.time is not None]
    for window in timed.windows:
        row = window.stop - 1
        assert window.time == (second(row) if is_time(rows[row]) else None)
    assert all(window.time for window in timed.windows) is not spoil


def test_times_do_not_depend_on_other_rows_that_have_none(tmp_path: Path) -> None:
    """Each cell by itself: a world in which one time is replaced has the others' times."""
    rows = events()
    for name, cell in (("one", rows[2999]["at"]), ("other", "never")):
        rows[2999]["at"] = cell
        write_csv(tmp_path / f"{name}.csv", rows)
    one, other = (learned(tmp_path / f"{name}.csv", "at").windows for name in ("one", "other"))
    differ = {a.stop for a, b in zip(one, other, strict=True) if a != b}
    assert differ <= {3000}


def run(folder: Path, *more: object) -> str:
    done = littlestone(
        "learn", "e.csv", "--class", "causes:version", "--label", "failed", "--delta", "1e-7",
        "--epsilon", 4, *more, folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return f"{done.stdout}{done.stderr}"


FILES = ("--db", "run.db", "--out", "out.jsonl", "--report", "r.html", "--private-json", "p.json")


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "e.csv"}


def test_without_the_option_no_time_of_a_row_is_anywhere(tmp_path: Path) -> None:
    write_csv(tmp_path / "e.csv", events())
    told = run(tmp_path, *FILES)
    shown = littlestone("show", "run.db", "--json", folder=tmp_path).stdout
    for text in (told, shown):
        assert "1987-0" not in text
    for name, data in written(tmp_path).items():
        assert b"1987-0" not in data, name
    view = read_store(tmp_path / "run.db")
    assert len(view.published.windows) > 2
    assert view.published.guarantee.public_times is None
    assert "--time" not in view.published.guarantee.explain()


def test_with_the_option_times_are_public_and_the_guarantee_says_so(tmp_path: Path) -> None:
    write_csv(tmp_path / "e.csv", events())
    told = run(tmp_path, *FILES, "--time", "at")
    assert "per event; the times in 'at' are not protected" in told
    shown = littlestone("show", "run.db", folder=tmp_path).stdout
    said = (line for line in shown.splitlines() if "the rate came down" in line)
    sentence = next(line for line in said if "version = '4.2.1': " in line)
    assert "(1987-03-14 1" in sentence
    assert sentence in told
    statement = littlestone("show", "run.db", "--statement", folder=tmp_path).stdout
    words = " ".join(statement.split())
    assert "The times in the column 'at', which --time declares public" in words
    assert "replaced by another of the same time" in words
    # To the second only, and none but those of the rows at the ends of windows.
    windows = read_store(tmp_path / "run.db").published.windows
    first, *others = windows
    assert [window.time for window in others] == [second(window.stop - 1) for window in others]
    assert first.time is not None
    assert first.time > second(first.stop - 1), "the rounds after it vote for values first"
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    at = [(line["round"], line["time"]) for line in lines if line["kind"] == "evidence"]
    assert at == [(window.stop + 1, window.time) for window in windows]
    assert "time" not in lines[0], "nothing was counted yet"
    assert all("are not protected" in line["guarantee"] for line in lines)
    public = json.loads(littlestone("show", "run.db", "--json", folder=tmp_path).stdout)["public"]
    history = next(one for one in public["causes"]["over_time"] if "4.2.1" in one["cause"])
    assert {part["time"] for part in history["stretches"]} < {window.time for window in windows}
    assert history["words"] in shown
    report = (tmp_path / "r.html").read_text()
    assert "the rate came down" in report
    assert "time (UTC)" in report
    for name, data in written(tmp_path).items():
        assert b".535897" not in data, name


def stored(path: Path) -> tuple[Store, LearnRequest]:
    asked = LearnRequest(
        spec="causes:version", label="failed", epsilon=4.0, delta=1e-6, horizon=ROWS, min_rate=0.2,
        time="at", seed=1,
    )  # fmt: skip
    store = create(path, asked, choose_learner(asked, ROWS), noise=SeededNoise(3))
    return store, asked


def test_times_survive_a_store_and_a_process_that_dies_before_the_last_window(
    tmp_path: Path,
) -> None:
    path, rows = tmp_path / "e.csv", events()[:11_111]
    write_csv(path, rows)
    store, _ = stored(tmp_path / "run.db")
    with open_rows(path, CLS, label="failed", time="at", block_rows=997) as blocks:
        for block in blocks:
            store.learn(block)
    before = store.published.windows
    store.close()
    assert read_store(tmp_path / "run.db").published.windows == before
    with open_store(tmp_path / "run.db", noise=SeededNoise(3)) as again:
        assert again.published.windows == before
        again.end_window()
        *earlier, last = again.published.windows
        assert earlier == list(before)
        assert (last.stop, last.time) == (11_111, second(11_110))
    assert read_store(tmp_path / "run.db").published.windows[-1] == last


def test_a_file_that_is_gone_on_with_keeps_the_lines_and_the_option(tmp_path: Path) -> None:
    rows, files = events(), ("--db", "run.db", "--out", "out.jsonl")
    write_csv(tmp_path / "e.csv", rows[:7000])
    run(tmp_path, *files, "--time", "at", "--horizon", ROWS)
    first = (tmp_path / "out.jsonl").read_text()
    write_csv(tmp_path / "e.csv", rows)
    run(tmp_path, *files)
    after = (tmp_path / "out.jsonl").read_text()
    assert after.startswith(first)
    times = [json.loads(line).get("time") for line in after.splitlines()][1:]
    assert times[-1] == second(ROWS - 1)
    assert all(one <= other for one, other in pairwise(times))
    refused = littlestone("learn", "e.csv", *files, "--time", "version", folder=tmp_path)
    assert "was begun with --time at, not version" in refused.stderr


def test_a_column_of_no_times_is_noted(tmp_path: Path) -> None:
    rows = events()
    write_csv(tmp_path / "e.csv", rows)
    assert "no time could be read" not in run(tmp_path, "--time", "at")
    write_csv(tmp_path / "e.csv", [row | {"at": "12/07/2026"} for row in rows])
    assert "no time could be read in the column 'at'" in run(tmp_path, "--time", "at")


@pytest.mark.parametrize("name", ["version", "failed"])
def test_a_column_that_is_protected_is_no_time(name: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "e.csv", events()[:100])
    with pytest.raises(BadStream, match="published, and as one that is protected"):
        open_rows(tmp_path / "e.csv", CLS, label="failed", time=name)


def test_a_column_that_is_not_there_and_a_learner_without_counts_are_refused(
    tmp_path: Path,
) -> None:
    write_csv(tmp_path / "e.csv", events()[:100])
    with pytest.raises(BadStream, match=r"no column 'when', which holds the time.*as --time"):
        open_rows(tmp_path / "e.csv", CLS, label="failed", time="when")
    with pytest.raises(BadStream, match="--time requires a class of causes"):
        open_rows(tmp_path / "e.csv", Points("version"), label="failed", time="at")


AT = "2026-07-12T14:05:09"
SECONDS = int(datetime.fromisoformat(f"{AT}+00:00").timestamp())
NO_TIMES: list[object] = [
    None, "", "soon", "12/07/2026", "nan", "inf", "-inf", float("inf"), float("nan"), "1e999",
    10**400, 10**5000, "9" * 5000, True, b"2026-07-12", [AT], {}, "\udcff",
    "0001-01-01T00:00:00+14:00",
]  # fmt: skip
TIMES: list[tuple[object, str | None]] = [
    (AT, AT),
    (f" {AT}.987654 ", AT),
    (AT.replace("T", " "), AT),
    (f"{AT}Z", f"{AT}+00:00"),
    ("2026-07-12T16:05:09+02:00", f"{AT}+00:00"),
    ("2026-07-12", "2026-07-12T00:00:00"),
    (date(2026, 7, 12), "2026-07-12T00:00:00"),
    (datetime(2026, 7, 12, 14, 5, 9, 1), AT),
    *((cell, f"{AT}+00:00") for cell in (
        SECONDS, SECONDS + 0.5, f"{SECONDS}", SECONDS * 1000, SECONDS * 10**6, SECONDS * 10**9
    )),
    *((cell, None) for cell in NO_TIMES),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "time"), TIMES, ids=[str(n) for n in range(len(TIMES))])
def test_a_cell_is_read_as_a_time_to_the_second_or_as_none(cell: object, time: str | None) -> None:
    assert read_time(cell) == time


@pytest.mark.parametrize(
    "column",
    [
        pa.array([10**18, -(10**18)] * 100, pa.timestamp("ns")),
        pa.array([2**62, None] * 100, pa.timestamp("s")),
        pa.array([2**62, 7] * 100, pa.timestamp("us", "Nowhere/At-All")),
        pa.array([7, 2**62] * 100, pa.duration("s")),
        pa.array([{"a": 1}, None] * 100),
        pa.array([b"\xff", None] * 100),
        pa.array(["2026-07-12", None] * 100).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_no_column_of_times_can_stop_a_table(column: Any, tmp_path: Path) -> None:
    rows = {"version": ["a", "b"] * 100, "failed": [0, 1] * 100, "at": column}
    feather.write_feather(pa.table(rows), str(tmp_path / "e.arrow"))
    with open_rows(tmp_path / "e.arrow", CLS, label="failed", time="at") as found:
        (block,) = found
        for row in range(200):
            time = read_time(block.time_cell(row))
            assert time is None or datetime.fromisoformat(time)
