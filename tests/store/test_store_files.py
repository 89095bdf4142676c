"""The files of a store: whatever befalls them, a sentence or the learner that was committed."""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from test_store import HORIZON, OPTIONS, block, lines, task

from classes import GROUPS
from commands import Command, littlestone
from effort import EVERYTHING, scaled, thinned
from littlestone._privacy.testing import SeededNoise
from littlestone._store.files import BadStore, OldCopy, mark_file, wal_file
from littlestone._store.releases_file import ReleasesFile
from littlestone._store.request import choose_learner
from littlestone._store.sources import Source
from littlestone._store.store import (
    KeyedBatch,
    Store,
    StoreLost,
    StoreMoved,
    create,
    open_store,
    read_store,
)
from littlestone.errors import BadClass

pytestmark = pytest.mark.filterwarnings("ignore:delta")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return partial(littlestone, folder=tmp_path, width=200)


def made(path: Path, epsilon: float = 4.0, **more: Any) -> Store:
    asked = replace(task("dpsoa", **more), epsilon=epsilon)
    return create(path, asked, choose_learner(asked, HORIZON), noise=SeededNoise(1))


def full(path: Path) -> Store:
    """A store with something in every table."""
    store = made(path, 200.0, user="who", cap=60)
    for at in range(0, 2000, 250):
        rows, source = block(at, 250, users=True), Source(1, 1, 1, 1, "day.csv", rows=at)
        store.learn(rows, key=f"batch {at}", digest=bytes(32), source=source)
    rows.labels[:] = 1 - rows.labels.clip(0)  # so that trees have something to remember
    store.learn(rows.part(0, 20))
    return store


def files_of(path: Path) -> dict[Path, bytes]:
    """What a process that is killed now leaves."""
    return {file: file.read_bytes() for file in (path, wal_file(path), mark_file(path))}


def put_back(files: dict[Path, bytes]) -> None:
    for file, content in files.items():
        file.write_bytes(content)


def beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


# A log without its database.


def killed_after_a_commit(path: Path) -> None:
    """Leave a file and its log, as a learner does that is killed."""
    with made(path) as store:
        store.learn(block(0, 100))
        files = files_of(path)
    put_back(files)


def test_a_log_without_its_file_is_not_read_into_a_new_one(path: Path, command: Command) -> None:
    killed_after_a_commit(path)
    (path.parent / "day.csv").write_text(lines(50))
    log, database = wal_file(path).read_bytes(), path.read_bytes()
    path.unlink()
    other = ["--class", "sets:merchant:2", "--label", "fraud", "--horizon", 1000, "--epsilon", 1]
    for verb in (["learn", "day.csv", "--db", "run.db"], ["serve", "run.db", "--port", 0]):
        done = command(*verb, *other)
        assert done.returncode == 2
        assert "run.db is not there, but run.db-wal and run.db-mark beside it" in done.stderr
        assert "put its file back; if it must not go on, delete these too" in done.stderr
    assert wal_file(path).read_bytes() == log
    assert not path.exists()
    path.write_bytes(database)
    assert read_store(path).published.rounds == 100


@pytest.mark.parametrize("longest", [1, 10**9])
def test_a_log_beside_the_file_of_another_learner_is_not_read_into_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    """A log that was folded in once does not hold all pages."""
    with made(path) as store:
        monkeypatch.setattr("littlestone._store.store.LONGEST_LOG", longest)
        store.learn(block(0, 100))
        monkeypatch.undo()
        store.learn(block(100, 50))
        files = files_of(path)
    put_back(files)
    made(path.with_name("other.db")).close()
    content = path.with_name("other.db").read_bytes()
    path.write_bytes(content)
    for mark in (files[mark_file(path)], None):
        if mark is None:
            mark_file(path).unlink()
        for opened in (open_store, read_store):
            with pytest.raises(BadStore, match=r"run.db-wal"):
                opened(path)
        assert path.read_bytes() == content
        assert wal_file(path).read_bytes() == files[wal_file(path)]


def test_what_a_killed_commit_left_in_the_log_is_no_damage(path: Path) -> None:
    """Two kills: one in the middle of a long commit, and one after a short one over its rest."""
    with made(path) as store:
        store.learn(block(0, 100))
        before = files_of(path)
        store.learn_all(
            KeyedBatch(block(at, 1), f"key {at}", bytes(2000)) for at in range(100, 140)
        )
        log = wal_file(path).read_bytes()
    frame = 4096 + 24
    assert len(log) > len(before[wal_file(path)]) + 20 * frame
    put_back({**before, wal_file(path): log[:-frame]})
    assert read_store(path).published.rounds == 100
    with open_store(path, noise=SeededNoise(1)) as store:
        assert store.learn(block(100, 10)).first == 101
        files = files_of(path)
    put_back(files)
    assert read_store(path).published.rounds == 110
    with open_store(path, noise=SeededNoise(1)) as store:
        assert store.learn(block(110, 10)).first == 111


# Other names of the file.


def test_through_a_symbolic_link_it_is_the_same_file(path: Path) -> None:
    """The log lies beside the file, and not beside the link."""
    link = path.with_name("link.db")
    link.symlink_to(path.name)
    with made(path) as store:
        store.learn(block(0, 100))
        assert read_store(link).published.rounds == 100
        files = files_of(path)
    damaged = flipped(files[wal_file(path)], 8 * (len(files[wal_file(path)]) - 2000))
    put_back({**files, wal_file(path): damaged})
    for opened in (read_store, open_store):
        with pytest.raises(BadStore, match="the last commits of"):
            opened(link)
    assert wal_file(path).read_bytes() == damaged
    path.unlink()
    with pytest.raises(BadStore, match=r"run.db is not there, but run.db-wal"):
        made(link)


def test_a_file_with_two_names_is_not_written(path: Path) -> None:
    """Each name has a log of its own, and only one of them the last commits."""
    made(path).close()
    path.with_name("second.db").hardlink_to(path)
    with pytest.raises(BadStore, match="has a second name"):
        open_store(path.with_name("second.db"))
    path.with_name("second.db").unlink()
    open_store(path, noise=SeededNoise(1)).close()


# The class.


def test_the_class_is_kept_not_its_name(path: Path, command: Command) -> None:
    table = path.parent / "rules.csv"
    table.write_text("merchant,M1,M2,M3,M7\nonly M1,1,0,0,0\nonly M7,0,0,0,1\n")
    (path.parent / "day.csv").write_text(lines(300))
    spec = ["--class", "table:rules.csv"]
    learn = ["learn", "day.csv", "--db", "run.db"]
    begun = command(*learn, *spec, "--label", "fraud", "--horizon", HORIZON, "--json")
    assert begun.returncode == 0, begun.stderr
    assert command(*learn, *spec).returncode == 0
    table.write_text("merchant,M1,M2,M3,M7\nonly M1,1,0,0,0\nboth,1,0,0,1\n")
    refused = command(*learn, *spec)
    assert refused.returncode == 2
    assert "was begun with another class under the name table:rules.csv" in refused.stderr
    assert "Leave --class out to go on with the class that the file keeps" in refused.stderr
    table.unlink()
    (path.parent / "day.csv").write_text(lines(400))
    again = command(*learn, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["public"]["rounds"] == 400
    rules = {str(rule) for rule in read_store(path).about.cls.hypotheses()}
    assert rules == {"merchant = 'M1'", "merchant = 'M7'"}


def test_a_class_that_no_file_can_keep_is_refused(path: Path) -> None:
    with pytest.raises(BadClass, match="cannot be written to a file"):
        create(path, task("dpsoa"), choose_learner(task("dpsoa"), HORIZON), cls=GROUPS)
    assert beside(path) == []


# Damage.


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_a_bit_that_flips_is_harmless_or_a_sentence(path: Path) -> None:
    full(path).close()
    content, sound = path.read_bytes(), read_store(path)
    assert sound.saved.users
    assert len(sound.published.releases) > 1
    draw, refused = random.Random(1), 0
    bits = [*range(0, 800, 3), *(draw.randrange(800, 8 * len(content)) for _ in range(300))]
    bits = thinned(bits)
    bits += [8 * (found.start() + 6) for found in re.finditer(b"batch 0", content)]
    for bit in bits:
        path.write_bytes(flipped(content, bit))
        try:
            assert read_store(path) == sound, bit
            if bit % 8 == 0:  # and it goes on
                with open_store(path, noise=SeededNoise(1)) as store:
                    assert store.learn(block(0, 250), key="batch 0", digest=bytes(32)).again, bit
                    assert store.learn(block(2000, 10, users=True)).first == 2021, bit
        except BadStore:
            refused += 1
        for file in (wal_file(path), mark_file(path)):
            file.unlink(missing_ok=True)
    assert refused > scaled(50)


def test_a_bit_that_flips_in_the_log_is_harmless_or_a_sentence(path: Path) -> None:
    """SQLite itself reads a log up to the damage: an older learner."""
    with full(path) as store:
        files, sound = files_of(path), read_store(path)
        assert store.published == sound.published
    log, draw = files[wal_file(path)], random.Random(1)
    last = len(log) - 4096 - 24
    bits = [*range(0, 32 * 8, 5), *range(8 * last, 8 * last + 24 * 8, 5),
            *(draw.randrange(8 * len(log)) for _ in range(100))]  # fmt: skip
    for bit in thinned(bits):
        put_back({**files, wal_file(path): flipped(log, bit)})
        for opened in (read_store, open_store):
            with pytest.raises(BadStore, match="the last commits of"):
                opened(path)
    put_back(files)
    assert read_store(path) == sound


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM batches WHERE key = 'batch 250'",
        "DELETE FROM users WHERE route = (SELECT min(route) FROM users)",
        "UPDATE users SET rounds = rounds - 1 WHERE route = (SELECT min(route) FROM users)",
        "DELETE FROM releases WHERE number = 1",
        "DELETE FROM parts WHERE number = (SELECT min(number) FROM parts)",
        "UPDATE sources SET entry = '{}'",
        "UPDATE about SET value = replace(value, '200.0', '100.0') WHERE name = 'begun'",
        "DELETE FROM trace WHERE number = 0",
        "DROP TABLE sources",
    ],
)
def test_every_row_is_sealed(path: Path, statement: str) -> None:
    full(path).close()
    with sqlite3.connect(path) as db:
        assert db.execute(statement).rowcount != 0
    db.close()
    for opened in (read_store, open_store):
        with pytest.raises(BadStore, match="is damaged"):
            opened(path)


# Killed, or out of disk, at the start.

KILLED = """
import os, signal, sys
from pathlib import Path
from test_store import HORIZON, block, task
from littlestone._store.store import create, open_store, read_store
from littlestone._store.request import choose_learner

asked = task("dpsoa")
chosen = choose_learner(asked, HORIZON)
path, kill_at, step = Path(sys.argv[1]), *map(int, sys.argv[2:])

def run(kill_at):
    calls = 0
    def profile(frame, event, function):
        nonlocal calls
        module = getattr(function, "__module__", None) or type(
            getattr(function, "__self__", None)).__module__
        if event == "c_call" and module in ("posix", "sqlite3"):
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(profile)
    store = open_store(path) if path.exists() else create(path, asked, chosen)
    store.learn(block(0, 10))
    store.close()
    sys.setprofile(None)

kills, left = 0, set()
while True:
    for file in path.parent.iterdir():
        file.unlink()
    child = os.fork()
    if not child:
        run(kill_at)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    left.add(tuple(sorted(file.suffix for file in path.parent.iterdir())))
    before = read_store(path).published.rounds if path.exists() else 0
    assert before in (0, 10), before
    with open_store(path) if path.exists() else create(path, asked, chosen) as store:
        assert store.learn(block(before, 10)).first == before + 1
    assert [file.name for file in path.parent.iterdir()] == [path.name], list(path.parent.iterdir())
    if status == 0:
        break
    kills, kill_at = kills + 1, kill_at + step
print(kills, len(left))
"""


def test_killed_at_any_step_of_the_start_it_can_be_started_again(path: Path) -> None:
    """Before a third of the calls to the system and to SQLite, another third each time."""
    step = 3 if EVERYTHING else 9
    start = random.randrange(1, step + 1)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(path), str(start), str(step)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kills, left = map(int, done.stdout.split())
    assert kills > 120 // step
    assert left >= 3  # nothing, a draft, a file, a file with its log


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[str], int]]:
    """A file system that can be given other options."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)]
    try:
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("a file system of a few pages takes the rights to mount one")
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    try:
        remount = ["mount", "-o"]
        yield lambda options: subprocess.check_call([*remount, f"remount,{options}", str(folder)])
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_out_of_disk_is_a_sentence_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    path, stages = tmp_path / "disk" / "run.db", set()
    with small_disk(path.parent) as remount:
        for pages in range(1, 60, 2):
            remount(f"size={4 * pages}k")
            stage = "begin"
            try:
                with made(path) as store:
                    stage = "learn"
                    store.learn(block(0, 500))
                    stage = "done"
            except (BadStore, OSError):
                stage += " again" if path.exists() else ""
            assert not beside(path) or path.exists(), "a log without its file"
            names = {f"run.db{end}" for end in ("", "-wal", "-shm", "-mark")}
            assert {*beside(path)} <= names
            remount("size=2m")
            if path.exists():
                with open_store(path, noise=SeededNoise(1)) as store:
                    store.learn(block(0, 10))
                path.unlink()
            stages.add(stage)
    assert {"begin", "begin again", "learn again", "done"} >= stages >= {"begin", "done"}
    assert "learn again" in stages


# Two who begin.


def test_a_file_that_somebody_else_has_begun_is_left_to_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is no leftover, even if it came as soon as the file had its name."""
    link, others = os.link, list[Store]()

    def link_and_lose(source: str, target: Path) -> None:
        link(source, target)
        others.append(open_store(path, noise=SeededNoise(1)))
        others[0].learn(block(0, 100))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", link_and_lose)
        with pytest.raises(StoreLost):
            made(path)
    with pytest.raises(FileExistsError):
        made(path)
    with others[0] as store:
        assert store.learn(block(100, 50)).first == 101
    assert beside(path) == ["run.db"]


# Two writers and one file of releases.

STOPPED = """
import os, signal, sys
from littlestone._cli.main import main
from littlestone._store.releases_file import ReleasesFile
publish, stopped = ReleasesFile.publish, []

def stop_before(self):
    if len(self.run.published.releases) > 1 and not stopped:
        stopped.append(True)
        os.kill(os.getpid(), signal.SIGSTOP)
    publish(self)

ReleasesFile.publish = stop_before
main()
"""


def test_a_writer_that_was_stopped_after_its_commit_writes_no_line_twice(
    tmp_path: Path, command: Command
) -> None:
    (tmp_path / "day.csv").write_text(lines(500))
    learn = ["learn", "day.csv", "--db", "run.db", "--out", "r.jsonl", *map(str, OPTIONS)]
    first = subprocess.Popen(
        [sys.executable, "-c", STOPPED, *learn], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 1
        (tmp_path / "day.csv").write_text(lines(800))
        second = command(*learn)
        assert second.returncode == 0, second.stderr
        written = (tmp_path / "r.jsonl").read_text()
    finally:
        first.send_signal(signal.SIGCONT)
    errors = first.communicate()[1]
    assert first.returncode == 2
    assert "was written by another process: this one may not go on" in errors
    assert (tmp_path / "r.jsonl").read_text() == written
    rounds = [json.loads(line)["round"] for line in written.splitlines()]
    assert rounds == [r.round for r in read_store(tmp_path / "run.db").published.releases]
    assert len(rounds) > 1
    assert command(*learn).returncode == 0


def test_a_writer_that_lost_the_file_takes_no_lines_for_those_of_an_old_copy(path: Path) -> None:
    first, out = made(path), path.with_name("r.jsonl")
    with open_store(path, noise=SeededNoise(1)) as second:
        second.learn(block(0, 1000))
        assert len(second.published.releases) > 1
        with ReleasesFile(out, second) as file:
            file.begin()
    written = out.read_bytes()
    taken = pytest.raises(StoreLost, match="opened for writing by another process")
    with first, ReleasesFile(out, first) as file, taken:
        file.begin()
    assert out.read_bytes() == written


def test_an_old_copy_that_its_releases_told_of_stays_one(tmp_path: Path, command: Command) -> None:
    (tmp_path / "day.csv").write_text(lines(30))
    learn = ["learn", "day.csv", "--db", "run.db"]
    assert command(*learn, *OPTIONS, "--out", "r.jsonl").returncode == 0
    backup = (tmp_path / "run.db").read_bytes()
    (tmp_path / "day.csv").write_text(lines(900))
    assert command(*learn, "--out", "r.jsonl").returncode == 0
    (tmp_path / "run.db").write_bytes(backup)
    for out in (["--out", "r.jsonl"], ["--out", "r.jsonl"], []):
        done = command(*learn, *out)
        assert done.returncode == 2
        assert "old" in done.stderr
    with pytest.raises(OldCopy):
        open_store(tmp_path / "run.db")


def test_a_copy_that_went_on_is_told_by_the_releases_of_the_other(
    tmp_path: Path, command: Command
) -> None:
    """It has the run of the lines, and other releases: one state was gone on with twice."""
    (tmp_path / "day.csv").write_text(lines(30))
    learn = ["learn", "day.csv", "--db", "run.db"]
    assert command(*learn, *OPTIONS, "--out", "r.jsonl").returncode == 0
    begun = (tmp_path / "r.jsonl").read_text()
    line = json.loads(begun.splitlines()[0]) | {"round": 31}
    (tmp_path / "r.jsonl").write_text(begun + json.dumps(line) + "\n")
    (tmp_path / "day.csv").write_text(lines(500))
    assert command(*learn).returncode == 0
    assert len(read_store(tmp_path / "run.db").published.releases) > 1
    for out in (["--out", "r.jsonl"], ["--out", "other.jsonl"]):
        done = command(*learn, *out)
        assert done.returncode == 2
        assert "old" in done.stderr


# A file that is moved, or cannot be written beside.


@pytest.mark.parametrize("away", ["run.db", "run.db-wal", "run.db-mark"])
def test_rounds_are_not_acknowledged_in_a_file_that_was_moved_away(path: Path, away: str) -> None:
    with made(path) as store:
        store.learn(block(0, 100))
        published = store.published
        path.with_name(away).rename(path.with_name("away"))
        for _ in range(2):
            with pytest.raises(StoreMoved, match=f"{away} was moved, removed or replaced"):
                store.learn(block(100, 50))
        assert store.published == published
        path.with_name("away").rename(path.with_name(away))
        assert store.learn(block(100, 50)).first == 101  # nothing of it had been learned


def test_a_file_that_is_moved_in_the_middle_of_a_batch_publishes_nothing(
    path: Path, connections: list[sqlite3.Connection]
) -> None:
    """The batch may be committed in the file that went: whoever opens that publishes it."""
    with made(path) as store:
        writing = connections[-1]
        store.learn(block(0, 100))
        published = store.published
        writing.set_trace_callback(
            lambda statement: (
                path.rename(path.with_name("away"))
                if statement.startswith("INSERT OR REPLACE INTO live") and path.exists()
                else None
            )
        )
        with pytest.raises(StoreMoved):
            store.learn(block(100, 900))
        assert store.published == published


def test_a_clean_close_leaves_one_file_and_looking_leaves_no_other(path: Path) -> None:
    with full(path) as store:
        assert beside(path) == ["run.db", "run.db-mark", "run.db-shm", "run.db-wal"]
        assert read_store(path).published == store.published
    assert beside(path) == ["run.db"]
    read_store(path)
    assert beside(path) == ["run.db"]


def test_it_is_opened_and_closed_while_others_read(path: Path) -> None:
    """Nobody waits for a gap between readers, and none of them reads half an opening."""
    made(path).close()
    stop = Event()

    def read() -> int:
        reads = 0
        while not stop.is_set():
            reads += read_store(path).published.rounds >= 0
        return reads

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in "ab"]
        try:
            for start in range(0, 10 * scaled(30, least=8), 10):
                with open_store(path, noise=SeededNoise(1)) as store:
                    assert store.learn(block(start, 10)).first == start + 1
        finally:
            stop.set()
        assert all(reader.result() for reader in readers)


def test_a_log_that_grows_long_is_folded_in(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("littlestone._store.store.LONGEST_LOG", 200_000)
    lengths = []
    with made(path) as store:
        for at in range(0, 3000, 50):
            store.learn(block(at, 50))
            lengths.append(wal_file(path).stat().st_size)
            assert read_store(path).published == store.published
    assert max(lengths) < 500_000
    assert 0 in lengths


def test_a_learner_in_a_folder_that_cannot_be_written_can_be_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "disk" / "run.db"
    with small_disk(path.parent) as remount:
        remount("size=4m")
        with made(path) as store:
            store.learn(block(0, 100))
            files = files_of(path)
        remount("ro")
        shown = littlestone("show", path)
        assert shown.returncode == 0, shown.stderr
        assert "3,900 of 4,000 planned rounds are left" in shown.stdout
        remount("rw")
        put_back(files)
        remount("ro")
        done = littlestone("show", path, width=300)
        assert done.returncode == 2
        assert "Its last commits are in run.db-wal" in done.stderr
        assert "copy run.db, run.db-wal and run.db-mark" in done.stderr
        for file in files:
            shutil.copy(file, tmp_path / file.name)
        assert (
            "3,900 of 4,000 planned rounds are left"
            in littlestone("show", tmp_path / "run.db").stdout
        )
        remount("rw")
