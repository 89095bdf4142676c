"""What `learn --db` knows of a source: that it was learned before, what of it is new, where to go
on."""

import gzip
import json
import os
import random
from collections.abc import Callable
from fractions import Fraction
from io import FileIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import littlestone as ls
import running_service
from commands import littlestone
from littlestone._cli.learn import run
from littlestone._data import locations, readers
from littlestone._data import text as lines
from littlestone._data.readers import open_rows
from littlestone._data.rounds import BadStream
from littlestone._privacy.accounting import Cost, Guarantee
from littlestone._report.report import RunResult
from littlestone._store import sources
from littlestone._store.files import BadStore
from littlestone._store.request import LearnRequest
from littlestone._store.store import open_store, read_store

pytestmark = pytest.mark.filterwarnings("ignore:delta")
HORIZON = 4000
HEADER = "merchant,fraud,who\n"


def rows(count: int, seed: int = 0) -> list[str]:
    """Rows of CSV with one culprit."""
    draw = random.Random(seed)
    merchants = [draw.choice(["M1", "M2", "M3", "M7"]) for _ in range(count)]
    return [f"{m},{int(m == 'M7')},u{n % 50}\n" for n, m in enumerate(merchants)]


def csv_of(count: int, seed: int = 0) -> str:
    return HEADER + "".join(rows(count, seed))


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "day.csv"
    path.write_text(csv_of(200))
    return path


def task(source: object, **more: Any) -> LearnRequest:
    options: dict[str, Any] = {"horizon": HORIZON, "seed": 3, "spec": "points:merchant"} | more
    return LearnRequest(
        source=str(source),
        label="fraud",
        epsilon=4.0,
        delta=1e-6,
        **options,
    )


def learned(source: Path, **more: Any) -> RunResult:
    """The outcome of `learn --db run.db`, beside a file."""
    return run(task(source, **more), lambda outcome: None, source.parent / "run.db")


def refused(source: Path, **more: Any) -> str:
    with pytest.raises((BadStore, BadStream)) as error:
        learned(source, **more)
    return str(error.value)


def dotted(day: Path) -> Path:
    (day.parent / "sub").mkdir()
    return day.parent / "sub" / ".." / "day.csv"


def linked(day: Path) -> Path:
    (day.parent / "link.csv").symlink_to(day)
    return day.parent / "link.csv"


def hard_linked(day: Path) -> Path:
    os.link(day, day.parent / "hard.csv")
    return day.parent / "hard.csv"


def packed(day: Path) -> Path:
    path = day.parent / "day.csv.gz"
    path.write_bytes(gzip.compress(day.read_bytes()))
    return path


def moved(day: Path) -> Path:
    return day.rename(day.parent / "moved.csv")


def dicts(day: Path) -> list[dict[str, str]]:
    names = HEADER.strip().split(",")
    cells = [line.split(",") for line in day.read_text().splitlines()[1:]]
    return [dict(zip(names, row, strict=True)) for row in cells]


def as_json_lines(day: Path) -> Path:
    path = day.parent / "day.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in dicts(day)))
    return path


def as_parquet(day: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(dicts(day)), day.parent / "day.parquet")
    return day.parent / "day.parquet"


def as_arrow(day: Path, ending: str = "arrow") -> Path:
    """The rows as an Arrow file, or a stream, in record batches of 80."""
    table, path = pa.Table.from_pylist(dicts(day)), day.parent / f"day.{ending}"
    make = pa.ipc.new_stream if ending == "arrows" else pa.ipc.new_file
    with make(path, table.schema) as file:
        file.write_table(table, max_chunksize=80)
    return path


def as_stream(day: Path) -> Path:
    return as_arrow(day, "arrows")


NAMES = [dotted, linked, hard_linked, packed, moved, as_json_lines, as_parquet, as_arrow, as_stream]


@pytest.mark.parametrize("other", NAMES)
@pytest.mark.parametrize("count", [3, 200])
def test_the_same_rows_under_another_name_are_not_learned_again(
    day: Path, other: Callable[[Path], Path], count: int
) -> None:
    day.write_text(csv_of(count))
    assert learned(day).learner.rounds == count
    path = other(day)
    for _ in "ab":
        again = learned(path)
        assert again.learner.rounds == count
        assert any("no new rows" in note for note in again.notes)
    (known,) = read_store(day.parent / "run.db").sources
    assert known.name == os.path.realpath(path)


@pytest.mark.parametrize("make", [lambda day: day, as_parquet, as_arrow, as_stream])
def test_a_uri_is_gone_on_with(day: Path, make: Callable[[Path], Path]) -> None:
    """Object stores replace a file as a whole: a longer one begins with the rows that are known."""
    db, uri = day.parent / "run.db", make(day).as_uri()
    for count, new in ((200, 200), (200, 0), (350, 150)):
        day.write_text(csv_of(350)[: len(csv_of(count))])
        make(day)
        before = read_store(db).published.rounds if db.exists() else 0
        outcome = run(task(uri), lambda outcome: None, db)
        assert outcome.learner.rounds - before == new
    (known,) = read_store(db).sources
    assert (known.name, known.rows) == (uri, 350)
    day.write_text(csv_of(350, seed=1))
    make(day)
    with pytest.raises(BadStore, match="the file has changed"):
        run(task(uri), lambda outcome: None, db)


@pytest.mark.parametrize("make", [as_arrow, as_stream])
def test_arrow_is_gone_on_with_after_every_stop(
    day: Path, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_blocks(monkeypatch)
    day.write_text(csv_of(640))
    path, db = make(day), day.parent / "run.db"
    for rounds in range(64, 640, 64):
        with pytest.raises(KeyboardInterrupt):
            run(task(path), stop_after(rounds), db)
        assert read_store(db).published.rounds == rounds
    assert learned(path).learner.rounds == 640
    assert learned(day).learner.rounds == 640, "the same rows in another format"


def test_a_source_that_is_moved_or_rotated_is_gone_on_with(day: Path) -> None:
    learned(day)
    first = day.rename(day.parent / "day.1")
    first.write_text(csv_of(300))
    day.write_text(csv_of(100, seed=1))
    assert "its first rows are not those that were learned" in refused(day)
    known = learned(first)
    assert known.learner.rounds == 300
    assert f"begins with the rows of {day}, of which 200 were learned" in known.notes[0]
    assert learned(day).learner.rounds == 400
    first.rename(day.parent / "day.2")
    day.rename(first)
    assert learned(first).learner.rounds == 400
    assert learned(day.parent / "day.2").learner.rounds == 400
    day.write_text(csv_of(50, seed=2))
    assert learned(day).learner.rounds == 450


def test_files_that_begin_alike_are_not_the_same(day: Path) -> None:
    """A few equal rows, or some of many, are no sign; whoever knows better says so."""
    learned(day)
    other, short = day.parent / "other.csv", day.parent / "short.csv"
    other.write_text(HEADER + "".join(rows(199) + rows(30, seed=1)))
    assert learned(other).learner.rounds == 200 + 229
    short.write_text(csv_of(31))
    assert learned(short).learner.rounds == 429 + 31
    longer = day.parent / "longer.csv"
    longer.write_text(HEADER + "".join(rows(31) + rows(30, seed=5)))
    assert learned(longer).learner.rounds == 460 + 61
    part = day.parent / "part.csv"
    part.write_text(csv_of(150))
    assert "it seems to be a part of it. If none" in refused(part)
    assert learned(part, new_rows=True).learner.rounds == 521 + 150
    assert learned(part).learner.rounds == 671


def test_new_rows_that_were_interrupted_are_gone_on_with(
    day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command is given again: by then a part of the rows is not new any more."""
    learned(day)
    monkeypatch.setattr("littlestone._data.rounds.FIRST_BLOCK", 50)

    def stop(outcome: RunResult) -> None:
        if outcome.learner.rounds > 200:
            raise KeyboardInterrupt

    day.write_text(csv_of(600, seed=7))  # a log that was begun anew
    with pytest.raises(KeyboardInterrupt):
        run(task(day, new_rows=True), stop, day.parent / "run.db")
    assert 200 < read_store(day.parent / "run.db").published.rounds < 800
    done = learned(day, new_rows=True)
    assert done.learner.rounds == 800
    assert any("were learned under this name before" in note for note in done.notes)
    day.write_text(csv_of(500, seed=7))  # fewer: another file, of which a person knows more
    assert learned(day, new_rows=True).learner.rounds == 1300


def test_standard_input_is_recognised_by_its_rows(day: Path) -> None:
    learned(day)
    counts = []
    batches = [csv_of(200), csv_of(230), csv_of(20, 7), csv_of(20, 7), csv_of(40, 8), csv_of(40, 8)]
    for text in batches:
        done = littlestone("learn", "-", "--db", "run.db", "--json", text=text, folder=day.parent)
        assert done.returncode == 0, done.stderr
        counts.append(json.loads(done.stdout)["public"]["rounds"])
    assert counts == [200, 230, 250, 270, 310, 310]
    day.write_text(csv_of(240))
    assert learned(day).learner.rounds == 320


GUARANTEES = {
    1: "(4.0, 1e-06)-differential privacy, replace-one, per event",
    2: "(8.0, {})-differential privacy, replace-one, per event (rows were learned up to 2 times)",
    3: "(12.0, {})-differential privacy, replace-one, per event (rows were learned up to 3 times)",
}


def test_rows_learned_again_are_paid_for(day: Path) -> None:
    """The guarantee adds up, wherever it is stated, and stays so."""
    store, out = day.parent / "run.db", day.parent / "r.jsonl"
    deltas = {2: 1e-6 * (1 + 2.718281828459045**4)}
    deltas[3] = deltas[2] + 1e-6 * 2.718281828459045**8
    assert "was not learned before: leave out --again" in refused(day, again=True)
    learned(day, out=out)
    for repeat in (2, 3):
        done = littlestone(
            "learn", packed(day), "--db", store, "--again", "--out", out, folder=day.parent
        )
        assert done.returncode == 0, done.stderr
        shown = read_store(store).published
        assert shown.rounds == 200 * repeat
        quoted, delta = str(shown.guarantee), shown.guarantee.delta
        assert delta == pytest.approx(deltas[repeat])
        assert quoted == GUARANTEES[repeat].format(delta)
        assert quoted in done.stdout
        assert quoted in littlestone("show", store).stdout
    learned(day, out=out)  # goes on with its own file
    with open_store(store) as opened:
        assert (opened.guarantee.epsilon, opened.repeats) == (12.0, 3)
        assert opened.spent.epsilon == 3 * opened.learner.spent.epsilon
    with running_service.running(store, store=open_store(store)) as served:
        public = served.client.get("/guarantee").json()
    assert (public["guarantee"], public["epsilon"]) == (quoted, 12.0)
    assert public["spent_epsilon"] == float(opened.spent.epsilon)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["round"] for line in lines] == [one.round for one in shown.releases]
    for line in lines:
        repeats = (line["round"] - 2) // 200 + 1 if line["round"] > 1 else 1
        assert line["guarantee"].startswith(GUARANTEES[repeats][:5])


def test_a_release_during_a_repetition_has_its_guarantee(day: Path) -> None:
    """Each line tells what holds for the rules up to it, also when the file is made afterwards."""
    learned(day)
    learned(day, again=True)
    assert learned(day, again=True).run.repeats == 3
    with open_store(day.parent / "run.db") as store:
        first, *_ = store.published.releases
        at = [store.guarantee_up_to(first._replace(round=n)) for n in (1, 201, 202, 401, 402)]
    assert [said[:5] for said in at] == ["(4.0,", "(4.0,", "(8.0,", "(8.0,", "(12.0"]


def test_a_repetition_that_was_interrupted_goes_on(
    day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_blocks(monkeypatch)
    learned(day)
    with pytest.raises(KeyboardInterrupt):
        run(task(day, again=True), stop_after(210), day.parent / "run.db")
    assert learned(day).learner.rounds == 264
    assert learned(day, again=True).learner.rounds == 400
    assert [one.repeat for one in read_store(day.parent / "run.db").sources] == [1, 2]


def test_per_user_nothing_adds_up(day: Path) -> None:
    """A user's rounds are protected together, however many they are."""
    promised = learned(day, user="who", cap=9).run.guarantee
    assert learned(day, user="who", cap=9, again=True).run.guarantee == promised
    with open_store(day.parent / "run.db") as store:
        assert (store.repeats, store.guarantee) == (2, promised)
        assert store.spent == store.learner.spent


def test_what_a_row_in_several_rounds_costs() -> None:
    assert Guarantee(1e6, 1e-6).for_repeats(2).delta == 1.0
    assert Guarantee(1.0, 1e-6).for_repeats(40).delta == 1.0
    assert Guarantee(1.0, 0.0).for_repeats(40).delta == 0.0
    assert Cost(Fraction(1, 2)).for_group(3) == Cost(Fraction(3, 2))


@pytest.mark.parametrize("option", ["--again", "--new-rows", "--complete"])
def test_options_of_a_store_require_one(day: Path, option: str) -> None:
    spec = ["--class", "points:merchant", "--label", "fraud"]
    done = littlestone("learn", day, *spec, option)
    assert (done.returncode, f"{option} requires --db" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("whole", "cut"),
    [
        (csv_of(5) + "M1,0,u1\n", len("0,u1\n")),
        (csv_of(5) + "M1,0,u1\n", 1),
        (csv_of(5) + "M1,0,u1\r\n", 1),
        (csv_of(5) + 'M1,0,"a\nb"\nM2,0,u\n', len('b"\nM2,0,u\n')),
        (csv_of(5) + "Zoë,0,u1\n", len("\x00,0,u1\n")),
    ],
)
def test_an_unfinished_last_line_is_no_row_yet(day: Path, whole: str, cut: int) -> None:
    day.write_bytes(whole.encode()[:-cut])
    first = learned(day)
    assert (first.learner.rounds, first.learner.null_rounds) == (5, 0)
    assert "if the file is complete, pass --complete" in first.notes[-1]
    day.write_bytes(whole.encode())
    later = learned(day)
    assert later.learner.rounds == whole.replace('"a\n', "").count("\n") - 1
    assert later.learner.null_rounds == 0
    assert not [note for note in later.notes if "--complete" in note]


def test_an_unfinished_line_of_json(day: Path) -> None:
    path = as_json_lines(day)
    whole = path.read_text()
    path.write_text(whole[:-9])
    assert learned(path).learner.rounds == 199
    path.write_text(whole)
    assert learned(path).learner.rounds == 200
    path.write_text(whole.splitlines()[0])
    assert "there are no rows in the file yet" in refused(path)


@pytest.mark.parametrize("spec", ["points:merchant", "thresholds:merchant:0:9"])
def test_a_file_that_grew_is_known_by_what_its_cells_mean(tmp_path: Path, spec: str) -> None:
    # Which lines are cut depends on the shape of most, and only there a zero keeps its sign.
    zeros = [
        f'{{"merchant": {cell}, "fraud": {n % 2}}}\n' for n in range(40) for cell in (0.0, -0.0)
    ]
    others = [f'{{"merchant": "{n % 7}", "fraud": "1"}}\n' for n in range(900)]
    path = tmp_path / "day.jsonl"
    path.write_text("".join(zeros))
    assert learned(path, spec=spec).learner.rounds == 80
    path.write_text("".join(zeros + others))
    assert learned(path, spec=spec).learner.rounds == 980


def test_a_complete_file_may_end_without_a_line_feed(day: Path) -> None:
    day.write_text(csv_of(200)[:-1])
    assert learned(day, horizon=None, user="who", cap=9).run.about.chosen.plan.horizon == 199
    assert learned(day, user="who", cap=9, complete=True).learner.rounds == 200
    day.write_text(csv_of(210))
    assert learned(day, user="who", cap=9).learner.rounds == 210
    day.write_text(csv_of(210)[:-1] + "2\n" + rows(1)[0])
    assert "the file has changed" in refused(day, user="who", cap=9)


def test_a_packed_file_that_is_cut_off_goes_on_when_it_is_whole(day: Path) -> None:
    path = packed(day)
    learned(path)
    more = gzip.compress("".join(rows(300)[200:]).encode())
    whole = path.read_bytes()
    path.write_bytes(whole + more[:-30])
    assert "cut off" in refused(path)
    assert "goes on from here when the file is whole" in refused(path)
    path.write_bytes(whole + more)
    assert learned(path).learner.rounds == 300


def small_blocks(monkeypatch: pytest.MonkeyPatch, size: int = 64) -> None:
    monkeypatch.setattr(readers, "block_size", lambda row, largest: size)
    monkeypatch.setattr(readers, "CHECKED_ROWS", size)
    monkeypatch.setattr(lines, "_CHUNK_BYTES", 500)
    monkeypatch.setattr(sources, "MOST_MARK", size)


def stop_after(rounds: int) -> Callable[[RunResult], None]:
    def watch(outcome: RunResult) -> None:
        if outcome.learner.rounds >= rounds:
            raise KeyboardInterrupt

    return watch


def test_short_runs_make_progress_in_constant_time(
    day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is stopped after its first block; none reads more than the first did."""
    small_blocks(monkeypatch)
    size, count = 0, 3200

    class Counting(FileIO):
        def readinto(self, buffer: Any) -> int | None:
            nonlocal size
            read = super().readinto(buffer)
            size += read or 0
            return read

    monkeypatch.setattr(locations, "FileIO", Counting)
    day.write_text(HEADER + "".join(f"{line[:-1]:x<100}\n" for line in rows(count)))
    sizes, learned_before = [], 0
    while learned_before < count:
        size = 0
        with pytest.raises(KeyboardInterrupt):
            run(task(day), stop_after(learned_before + 1), day.parent / "run.db")
        sizes.append(size)
        learned_before = read_store(day.parent / "run.db").published.rounds
    assert len(sizes) == count // 64
    assert max(sizes) < 50_000 < day.stat().st_size / 4
    size = 0
    assert learned(day).learner.rounds == count
    assert size < 50_000


def test_row_groups_that_were_learned_are_not_read(
    day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_blocks(monkeypatch)
    read, groups = list[int](), [80] * 20
    folder = day.parent / "days"
    folder.mkdir()
    day.write_text(csv_of(sum(groups)))
    table = pa.Table.from_pylist(dicts(day))
    for part in (0, 1):
        half = table.slice(part * 800, 800)
        pq.write_table(half, folder / f"{part}.parquet", row_group_size=80)
    batches = pq.ParquetFile.iter_batches

    def counting(file: Any, size: int, *args: Any, **options: Any) -> Any:
        for batch in batches(file, 64, *args, **options):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counting)
    for rounds in range(64, 1600, 64):
        read.clear()
        with pytest.raises(KeyboardInterrupt):
            run(task(folder), stop_after(rounds), day.parent / "run.db")
        assert sum(read) <= 64 + 4 * 80
        assert read_store(day.parent / "run.db").published.rounds == rounds
    os.utime(folder / "0.parquet")
    read.clear()
    whole = run(task(folder), lambda outcome: None, day.parent / "run.db")
    assert whole.learner.rounds == 1600
    assert sum(read) >= 1600, "a file with a new time is checked again"
    plain = run(task(day), lambda outcome: None, day.parent / "other.db")
    assert plain.learner.mistakes >= 0
    assert learned(day).learner.rounds == 1600, "the same rows in another format"


def spoilt(day: Path, row: int) -> None:
    """Replace a row of a file by another of the same length, in the file as it is."""
    whole = day.read_bytes().splitlines(keepends=True)
    whole[row + 1] = b"M9" + whole[row + 1][2:]
    with day.open("r+b") as file:
        file.write(b"".join(whole))


@pytest.mark.parametrize("row", [0, 63, 970, 999])
def test_a_change_at_the_beginning_or_before_the_place_is_noticed(
    day: Path, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_blocks(monkeypatch)
    day.write_text(csv_of(1000))
    learned(day)
    spoilt(day, row)
    assert "are not those that were learned: the file has changed" in refused(day)


def test_a_file_that_takes_the_place_of_another_is_gone_on_with_by_its_rows(day: Path) -> None:
    """The first rows are compared; then so many are passed over, from the beginning."""
    day.write_text(csv_of(1000))
    learned(day)
    other = day.with_name("new.csv")
    other.write_text(csv_of(1100))
    other.replace(day)
    assert learned(day).learner.rounds == 1100
    day.write_text(csv_of(900))
    assert "has 900 rows, and 1,100 of it were learned before" in refused(day)


def test_progress_is_shown_where_rows_have_to_be_read_again(
    day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_blocks(monkeypatch)
    day.write_text(csv_of(1000))
    learned(packed(day))
    seen = list[str]()
    run(task(day), lambda outcome: seen.append(outcome.passing), day.parent / "run.db")
    assert "512 of 1,000 rows passed" in seen
    assert seen[-1] == ""


ODD = (
    "﻿merchant,fraud,who\r\nM1,0,u1\r\n\r\n"
    'M2,0,"two\nlines"\n"M7",1,"a ""b"""\n'
    'M3,"0,u\nM3,0,u3\n' + "x" * 300 + ",1,u\nM1,0,é\nM4,0,\xff\nM5,1,last"
)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl"])
def test_every_place_is_where_its_row_begins(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that span lines, blank and over-long lines, bytes that are no text: read from any row
    on, a file has the rows that it has after it."""
    monkeypatch.setattr(lines, "_CHUNK_BYTES", 7)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    path, data = tmp_path / f"odd{suffix}", ODD.encode("utf-8", "replace") * 2
    if suffix == ".jsonl":
        objects = [{"merchant": "é" * n, "fraud": n % 2, "who": "u"} for n in range(40)]
        data = "\n".join([*(json.dumps(one, ensure_ascii=False) for one in objects), ""]).encode()
        data = b"\n" + data + b"[]\n\n" + data[:-1]
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)

    def opened() -> Any:
        cls = ls.Points("merchant")
        return open_rows(path, cls, label="fraud", user="who", block_rows=1)

    with opened() as found:
        blocks = list(found.blocks())
    assert len(blocks) > 10
    for row, (_, place) in enumerate(blocks, 1):
        with opened() as found:
            rest = list(found.blocks(place))
        assert [(block.sums(), block.bad, after) for block, after in rest] == [
            (block.sums(), block.bad, after) for block, after in blocks[row:]
        ]


def test_a_copy_is_gone_on_with_from_its_own_place(day: Path) -> None:
    """The bytes of the place are those of the file that was learned, until the copy is read."""
    learned(day)
    day.with_name("copy.csv").write_bytes(day.read_bytes())
    day.with_name("copy.csv").replace(day)
    assert learned(day).learner.rounds == 200
    with day.open("a") as file:
        file.write("".join(rows(300)[200:]))
    assert learned(day).learner.rounds == 300
    (source,) = read_store(day.parent / "run.db").sources
    assert source.start.row == 200
