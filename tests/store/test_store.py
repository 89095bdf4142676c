"""The store: a learner that survives. What was committed is there, once; what was not never was."""

import json
import os
import random
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Command, littlestone
from effort import scaled
from littlestone._data.rounds import Checksums, Rounds
from littlestone._data.schema import user_numbers
from littlestone._privacy.testing import SeededNoise
from littlestone._store import store as stores
from littlestone._store.files import BadStore, OldCopy, for_writing
from littlestone._store.releases_file import ReleasesFile
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.serialization import LEARNER
from littlestone._store.store import Receipt, Store, StoreLost, create, open_store, read_store
from soak import Soaked, soak_causes, soak_learn, soak_serve

pytestmark = pytest.mark.filterwarnings("ignore:delta")
HORIZON = 4000


def task(learner: str = "auto", spec: str = "points:merchant", **more: Any) -> LearnRequest:
    return LearnRequest(
        spec=spec,
        label="fraud",
        epsilon=4.0,
        delta=1e-6,
        horizon=HORIZON,
        learner=learner,
        seed=3,
        **more,
    )


def block(start: int, rows: int, users: bool = False) -> Rounds:
    """Rows of a stream that is the same however it is cut; a few are null rounds."""
    values = [random.Random(n).choice(["M1", "M2", "M3", "M7"]) for n in range(start, start + rows)]
    labels = np.array([value == "M7" for value in values], dtype=np.int32)
    labels[[n for n in range(rows) if (start + n) % 37 == 5]] = -1
    names = np.array([f"u{(start + n) % 50}" for n in range(rows)], dtype=object)
    column = np.array(values, dtype=object)
    return Rounds({"merchant": column}, labels, user_numbers(names) if users else None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def made(path: Path, connections: list[sqlite3.Connection]) -> Store:
    return create(path, task(), choose_learner(task(), HORIZON), noise=SeededNoise(1))


opened = partial(open_store, noise=SeededNoise(1))


def contents(path: Path) -> dict[str, list[Any]]:
    """Every table of a store, without taking it over."""
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE sql > ''")]
        found = {name: list(db.execute(f"SELECT * FROM {name}")) for name in names}
    db.close()
    return found


def scores(start: int, rows: int, users: bool) -> Rounds:
    draw = np.random.default_rng(1).integers(0, 101, 1000)[start : start + rows]
    return Rounds({"score": draw.astype(np.float64)}, (draw >= 63).astype(np.int32))


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        (task("dpsoa"), block),
        (task("dpsoa", user="who", cap=5), block),
        (task("experts", spec="thresholds:score:0:100"), scores),
    ],
)
def test_a_stored_learner_is_the_learner(
    path: Path, asked: LearnRequest, rows: Callable[[int, int, bool], Rounds]
) -> None:
    """Closed and opened after every batch, of any size, it publishes what one in memory does."""
    chosen, users = choose_learner(asked, HORIZON), asked.user is not None
    plain = chosen.make(asked.cls, 3, noise=SeededNoise(1))
    plain.learn(rows(0, 600, users))
    create(path, asked, chosen, noise=SeededNoise(1)).close()
    start = 0
    for size in (1, 7, 92, 100, 250, 150):
        with open_store(path, noise=SeededNoise(1)) as store:
            assert store.learn(rows(start, size, users)).first == start + 1
            start += size
            last = store.published
    assert start == 600 == last.rounds
    assert last.releases == plain.releases
    assert len(last.releases) > 1 or users
    shown = read_store(path)
    assert shown.published == last
    assert shown.saved.state["loop"]["mistakes"] == plain.mistakes
    assert shown.saved.state["null_rounds"] == plain.null_rounds
    assert shown.generation == 7


def test_only_the_owner_can_read_it_and_it_is_what_it_says(made: Store, path: Path) -> None:
    made.learn(block(0, 100))
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    made.close()
    pragmas = {"journal_mode": "wal", "synchronous": 2, "application_id": LEARNER.application}
    with closing(for_writing(path, LEARNER)) as db:
        for name, value in pragmas.items():
            assert db.execute(f"PRAGMA {name}").fetchone()[0] == value
    os.chmod(path, 0o644)
    opened(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_opening_is_a_move(made: Store, path: Path) -> None:
    made.learn(block(0, 100))
    before = contents(path)["live"]
    with opened(path) as later:
        for _ in range(2):
            with pytest.raises(StoreLost, match="opened for writing by another process"):
                made.learn(block(100, 50))
        assert contents(path)["live"] == before
        assert later.learn(block(100, 50)) == Receipt(101, 50, 1)
    made.close()


def test_a_batch_with_a_known_key_is_learned_once(made: Store, path: Path) -> None:
    first = made.learn(block(0, 100), key="a", digest=b"1")
    assert first == Receipt(1, 100, 3)
    before = contents(path)
    assert made.learn(block(0, 100), key="a", digest=b"1") == first._replace(again=True)
    with pytest.raises(BadStore, match="used for other rows"):
        made.learn(block(100, 100), key="a", digest=b"2")
    assert contents(path) == before
    made.close()
    with opened(path) as again:
        assert again.learn(block(0, 100), key="a", digest=b"1").again
        assert again.learn(block(100, 1), key="b", digest=b"1").first == 101


def test_old_keys_are_forgotten(made: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_KEYS", 3)
    for n in range(10):
        made.learn(block(n, 1), key=str(n))
    assert [row[1] for row in contents(path)["batches"]] == ["7", "8", "9"]
    made.close()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"not a database" * 100)
    with pytest.raises(BadStore, match="not a learner of littlestone"):
        open_store(garbage)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    with pytest.raises(BadStore, match="but not a learner"):
        open_store(other)
    with pytest.raises(BadStore, match="unable to open"):
        open_store(tmp_path / "nothing.db")
    with pytest.raises(FileExistsError):
        create(other, task(), choose_learner(task(), HORIZON))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["garbage.db", "other.db"]


def test_a_full_disk_loses_nothing_and_publishes_nothing(
    made: Store, path: Path, connections: list[sqlite3.Connection]
) -> None:
    made.learn(block(0, 100))
    (pages,) = connections[-1].execute("PRAGMA page_count").fetchone()
    connections[-1].execute(f"PRAGMA max_page_count = {pages}")
    made.learn(block(100, 50))
    before, published = contents(path), made.published
    with pytest.raises(BadStore, match=r"full\. What was committed before is safe"):
        made.learn(block(150, 50), key="x" * 100_000)
    assert contents(path) == before
    assert made.published == published
    with pytest.raises(BadStore, match="cut short"):
        made.learn(block(150, 1))
    made.close()
    with opened(path) as again:
        assert again.published == published
        assert again.learn(block(0, 10)).first == published.rounds + 1


@pytest.mark.parametrize("step", [lambda s: s.learn(causes_block(300)), Store.end_window])
def test_nothing_is_published_when_the_commit_fails(
    path: Path, connections: list[sqlite3.Connection], step: Callable[[Store], object]
) -> None:
    """All was written but the last word: the commit itself is refused, by SQLite."""

    def refuse_commit(action: int, name: str | None, *rest: object) -> int:
        commits = action == sqlite3.SQLITE_TRANSACTION and name == "COMMIT"
        return sqlite3.SQLITE_DENY if commits else sqlite3.SQLITE_OK

    asked = causes_task()
    with create(path, asked, choose_learner(asked, HORIZON)) as store:
        writing = connections[-1]
        store.learn(causes_block(1500))
        before, published = contents(path), store.published
        writing.set_authorizer(refuse_commit)
        with pytest.raises(BadStore, match="not authorized"):
            step(store)
        assert store.published == published
        assert contents(path) == before
    with open_store(path) as again:
        assert again.published == published


def test_a_batch_that_was_cut_short_is_never_committed(made: Store, path: Path) -> None:
    """The learner has moved on, and nobody has kept it: it would count the batch twice."""
    made.learn(block(0, 100))
    made.learner.learn(block(100, 50))
    with pytest.raises(BadStore, match="cut short"):
        made.learn(block(100, 50))
    made.close()
    with opened(path) as again:
        assert again.learn(block(100, 50)).first == 101


def test_a_torn_write_is_as_if_it_never_was(made: Store, path: Path) -> None:
    """The log of a batch that was not acknowledged, cut off anywhere."""
    made.learn(block(0, 200))
    log, mark = path.with_name("run.db-wal"), path.with_name("run.db-mark").read_bytes()
    acknowledged, kept = log.stat().st_size, made.published
    made.learn(block(200, 200))
    later, whole, file = made.published, log.read_bytes(), path.read_bytes()
    draw = random.Random(1)
    cuts = [
        acknowledged,
        *(draw.randrange(acknowledged, len(whole)) for _ in range(scaled(25))),
        len(whole),
    ]
    for number, cut in enumerate([acknowledged, *cuts, len(whole)]):
        copy = path.with_name(f"copy{number}.db")
        copy.write_bytes(file)
        copy.with_name(copy.name + "-wal").write_bytes(whole[:cut])
        copy.with_name(copy.name + "-mark").write_bytes(mark)
        with opened(copy) as store:
            assert store.published == (later if cut == len(whole) else kept)
    made.close()


def test_checksums_do_not_depend_on_the_blocks() -> None:
    whole = block(0, 90, users=True)
    sums = set()
    for sizes in ((90,), (1, 89), (30, 30, 30)):
        found: Checksums = ()
        at = 0
        for size in sizes:
            found = whole.part(at, at + size).sums(found)
            at += size
        sums.add(found)
    assert len(sums) == 1
    assert block(1, 90, users=True).sums() not in sums


def lines(rows: int, culprit: str = "M7", start: int = 0) -> str:
    whole = block(start, rows)
    values, labels = whole.columns["merchant"].tolist(), whole.labels.tolist()
    text = [
        f"{v},{'?' if y < 0 else int(v == culprit)}" for v, y in zip(values, labels, strict=True)
    ]
    return "\n".join(["merchant,fraud", *text]) + "\n"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return partial(littlestone, folder=tmp_path, width=200)


OPTIONS = ["--class", "points:merchant", "--label", "fraud", "--epsilon", 4, "--horizon", HORIZON]


def test_learn_goes_on_where_it_stopped(command: Command, tmp_path: Path) -> None:
    """A file that grows, then another, then standard input: each row once."""
    day = tmp_path / "day.csv"
    counts = []
    for rows in (500, 500, 800):
        day.write_text(lines(rows))
        done = command("learn", day, "--db", "run.db", *OPTIONS, "--out", "r.jsonl", "--json")
        assert done.returncode == 0, done.stderr
        counts.append(json.loads(done.stdout)["public"]["rounds"])
        unchanged = "note: no new rows" in done.stderr
        assert unchanged == (counts[-2:] == [500, 500])
    (tmp_path / "next.csv").write_text(lines(100, start=2000))
    piped = [("-", lines(50, start=start)) for start in (3000, 4000)]
    for source, text in (("next.csv", None), *piped):
        done = command("learn", source, "--db", "run.db", "--json", text=text)
        assert done.returncode == 0, done.stderr
        counts.append(json.loads(done.stdout)["public"]["rounds"])
    assert counts == [500, 500, 800, 900, 950, 1000]
    public = json.loads(done.stdout)["public"]
    assert public["rule"] == "merchant = 'M7'"
    kept = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [line["round"] for line in kept] == [release["round"] for release in public["releases"]]
    shown = json.loads(command("show", "run.db", "--json").stdout)
    assert set(shown) == {"public"}
    assert shown["public"]["releases"] == public["releases"]
    command("show", "run.db", "--json", "--private-json", "private.json")
    private = json.loads((tmp_path / "private.json").read_text())
    found = [(source["name"], source["rows"]) for source in private["sources"]]
    assert found == [(str(day), 800), (str(tmp_path / "next.csv"), 100), ("-", 50), ("-", 50)]
    printed = command("show", "run.db")
    assert "merchant = 'M7'" in printed.stdout
    assert "mistakes" not in printed.stdout
    assert " mistakes in " in command("show", "run.db", "--private").stderr


@pytest.mark.parametrize(
    ("spoil", "arguments", "sentence"),
    [
        (lambda f: f("day.csv", lines(600, "M1")), [], "first rows are not those that were"),
        (lambda f: f("day.csv", lines(300)), [], "has 300 rows, and 500 of it were learned before"),
        (lambda f: None, ["--epsilon", 1], "was begun with --epsilon 4.0, not 1.0"),
        (lambda f: None, ["--class", "sets:merchant:2"], "was begun with --class points:merchant"),
        (lambda f: f("r.jsonl", "{}\n"), [], "holds the releases of another run"),
        (lambda f: f("r.jsonl", "{}\n", "a"), [], "or lines that this one did not write"),
        (lambda f: f("day.csv", "merchant\nM1\n"), [], "no column 'fraud'"),
    ],
)
def test_what_does_not_fit_the_store_is_refused_and_changes_nothing(
    command: Command,
    tmp_path: Path,
    spoil: Callable[[Any], None],
    arguments: list[object],
    sentence: str,
) -> None:
    (tmp_path / "day.csv").write_text(lines(500))
    again = ["learn", "day.csv", "--db", "run.db", "--out", "r.jsonl"]
    assert command(*again, *OPTIONS).returncode == 0

    def write(name: str, text: str, mode: str = "w") -> None:
        with open(tmp_path / name, mode) as file:
            file.write(text)

    before = contents(tmp_path / "run.db")
    spoil(write)
    done = command(*again, *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    after = contents(tmp_path / "run.db")
    for name in after.keys() - {"about", "seal"}:
        assert after[name] == before[name], name


def test_a_releases_file_that_was_cut_off_is_completed(command: Command, tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text(lines(500))
    again = ["learn", "day.csv", "--db", "run.db", "--out", "r.jsonl", *OPTIONS]
    assert command(*again).returncode == 0
    whole = (tmp_path / "r.jsonl").read_text()
    for keep in (0, 10, len(whole) - 1):
        (tmp_path / "r.jsonl").write_text(whole[:keep])
        assert command(*again).returncode == 0
        assert (tmp_path / "r.jsonl").read_text() == whole


def test_a_line_that_was_cut_off_within_a_letter_is_completed(path: Path) -> None:
    asked, out = replace(task(), label="Zoë"), path.with_name("r.jsonl")
    with create(path, asked, choose_learner(asked, HORIZON)) as store:
        with ReleasesFile(out, store) as file:
            file.begin()
        whole = out.read_bytes()
        out.write_bytes(whole[: whole.index("ë".encode()) + 1])
        with ReleasesFile(out, store) as file:
            file.begin()
    assert out.read_bytes() == whole


def causes_task(**more: Any) -> LearnRequest:
    return LearnRequest(
        spec="causes:who", label="y", epsilon=4.0, delta=1e-4, horizon=4000, min_rate=0.2, **more
    )


def causes_block(rows: int) -> Rounds:
    who = np.array([f"v{n % 4}" for n in range(rows)], dtype=object)
    return Rounds({"who": who}, (who == "v1").astype(np.int32))


def test_the_last_window_is_committed_once_and_found_by_the_next_run(tmp_path: Path) -> None:
    path, task = tmp_path / "run.db", causes_task()
    with create(path, task, choose_learner(task, 4000)) as store:
        store.learn(causes_block(1500))
        before = len(store.published.windows)
    # Killed here: the next run ends the window, and a third one has nothing to end.
    with open_store(path) as store:
        store.end_window()
        ended = store.published.windows
        assert len(ended) == before + 1
        assert ended[-1].stop == 1500
        store.end_window()
        assert store.published.windows == ended
    assert read_store(path).published.windows == ended
    with open_store(path) as store:
        store.learn(causes_block(300))
        store.end_window()
        assert [w.start for w in store.published.windows[1:]] == [
            w.stop + 1 for w in store.published.windows[:-1]
        ], "disjoint, and none left out"


def test_evidence_lines_prove_an_old_copy(tmp_path: Path) -> None:
    """The store was put back to before a window ended: its counts would be released again."""
    path, out, task = tmp_path / "run.db", tmp_path / "r.jsonl", causes_task()
    with create(path, task, choose_learner(task, 4000)) as store:
        store.learn(causes_block(1500))
    old = path.read_bytes()
    with open_store(path) as store, ReleasesFile(out, store) as file:
        store.end_window()
        new = store.published
        for write in (file.begin, file.publish, file.begin):
            write()
            lines = [json.loads(line) for line in out.read_text().splitlines()]
            assert len(lines) == len(new.releases) + len(new.windows), "written once"
    path.write_bytes(old)
    with open_store(path) as store, ReleasesFile(out, store) as file, pytest.raises(OldCopy):
        file.refuse_other()
    with pytest.raises(OldCopy):
        open_store(path)


KILLS = 10


@pytest.mark.slow
@pytest.mark.parametrize("soak", [soak_learn, soak_causes, soak_serve])
def test_killed_at_any_moment_each_row_is_learned_once(
    tmp_path: Path, soak: Callable[[Path, int, int], Soaked]
) -> None:
    """The same in `make soak`, a hundred times each."""
    found = soak(tmp_path, KILLS, random.randrange(10**6))
    assert found.kills == KILLS
    assert found.moments > 1
