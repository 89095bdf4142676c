"""Backup copies: they can be read, and of a copy and its original only one ever goes on."""

import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from killed import kill_at_every_write
from test_store import HORIZON, block, contents, task

from commands import Command, littlestone
from littlestone._privacy.testing import SeededNoise
from littlestone._store import store as stores
from littlestone._store.copies import back_up, take_over
from littlestone._store.files import BadStore, OldCopy
from littlestone._store.request import choose_learner
from littlestone._store.store import Store, StoreLost, create, open_store, read_store

pytestmark = pytest.mark.filterwarnings("ignore:delta", "ignore:This process:DeprecationWarning")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = create(
        tmp_path / "run.db", task(), choose_learner(task(), HORIZON), noise=SeededNoise(1)
    )
    made.learn(block(0, 500))
    return made


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


@pytest.fixture(name="command")
def _command() -> Command:
    return littlestone


def learned(path: Path, rows: int = 100) -> int:
    """Go on with a store; the rounds that it has then."""
    with open_store(path, noise=SeededNoise(1)) as found:
        found.learn(block(found.published.rounds, rows))
        return found.published.rounds


def continued(*paths: Path) -> list[Path]:
    """Those of some files that can be gone on with; a copy of each is tried."""
    found = []
    for path in paths:
        scratch = path.with_name(f"scratch-{path.name}")
        for end in ("", "-wal", "-mark"):
            Path(f"{scratch}{end}").unlink(missing_ok=True)
            if Path(f"{path}{end}").exists():
                shutil.copy(f"{path}{end}", f"{scratch}{end}")
        if scratch.exists():
            try:
                learned(scratch)
                found.append(path)
            except OldCopy:
                pass
    return found


def test_a_copy_made_while_the_learner_runs_is_its_last_commit(store: Store, copy: Path) -> None:
    mark = back_up(store.path, copy)
    assert mark.rounds == 500
    assert read_store(copy).published == store.published
    assert sorted(os.listdir(copy.parent)) == [
        "copy.db",
        "run.db",
        "run.db-mark",
        "run.db-shm",
        "run.db-wal",
    ]
    store.learn(block(500, 100))  # the original goes on
    assert read_store(copy).published.rounds == 500
    assert copy.stat().st_mode & 0o077 == 0


def test_copies_made_while_batches_are_committed_are_whole(
    store: Store, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the log is folded into the file, which is done often here."""
    monkeypatch.setattr(stores, "LONGEST_LOG", 1 << 16)
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set() and store.published.rounds < HORIZON - 100:
            store.learn(block(store.published.rounds, 20))

    writing = threading.Thread(target=write)
    writing.start()
    try:
        seen = []
        for number in range(10):
            target = copy.with_name(f"copy{number}.db")
            seen.append(back_up(store.path, target).rounds)
            shown = read_store(target)
            assert shown.published.rounds == seen[-1] == shown.saved.state["rounds"]
    finally:
        stopped.set()
        writing.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


def test_a_copy_is_read_and_not_continued(store: Store, copy: Path, command: Command) -> None:
    back_up(store.path, copy)
    shown = command("show", copy, "--json")
    assert json.loads(shown.stdout)["public"]["backup_copy"] == {"round": 500}
    with pytest.raises(OldCopy, match="backup copy, made at round 500"):
        open_store(copy)
    (copy.parent / "rows.csv").write_text("merchant,fraud\nM1,0\n")
    refused = command("learn", copy.parent / "rows.csv", "--db", copy)
    assert refused.returncode == 2
    assert "--take-over" in refused.stderr
    with pytest.raises(OldCopy, match="backup copy"):
        back_up(copy, copy.with_name("another.db"))
    with pytest.raises(FileExistsError):
        back_up(store.path, copy)


def test_a_learner_is_handed_over_once(store: Store, copy: Path) -> None:
    other = copy.with_name("other.db")
    back_up(store.path, copy)
    back_up(store.path, other)
    assert take_over(copy) == 500
    # Who had the original open cannot commit, nobody can open it, and no other copy goes on.
    with pytest.raises(StoreLost):
        store.learn(block(500, 100))
    store.close()
    with pytest.raises(OldCopy, match="handed over to the copy"):
        open_store(store.path)
    with pytest.raises(OldCopy, match="handed over"):
        back_up(store.path, copy.with_name("third.db"))
    with pytest.raises(OldCopy, match="handed over"):
        take_over(other)
    with pytest.raises(BadStore, match="not a backup copy"):
        take_over(copy)
    assert continued(store.path, copy, other) == [copy]
    assert learned(copy) == 600


def test_what_is_continued_is_what_the_original_would_have_been(store: Store, copy: Path) -> None:
    back_up(store.path, copy)
    twin = copy.with_name("twin.db")
    store.close()
    shutil.copy(store.path, twin)
    take_over(copy)
    assert learned(twin) == learned(copy)
    one, other = contents(twin), contents(copy)
    assert {n: one[n] for n in one if n not in ("about", "seal")} == {
        n: other[n] for n in other if n not in ("about", "seal")
    }


def test_a_copy_that_is_behind_is_refused_and_changes_nothing(store: Store, copy: Path) -> None:
    back_up(store.path, copy)
    store.learn(block(500, 1))
    with pytest.raises(BadStore, match="has gone on since"):
        take_over(copy)
    store.learn(block(501, 100))
    assert continued(store.path, copy) == [store.path]


def test_an_original_that_was_only_opened_again_is_handed_over(store: Store, copy: Path) -> None:
    back_up(store.path, copy)
    store.close()
    open_store(store.path, noise=SeededNoise(1)).close()
    assert take_over(copy) == 500


def test_another_learner_is_no_original(store: Store, copy: Path, tmp_path: Path) -> None:
    back_up(store.path, copy)
    other = tmp_path / "else.db"
    create(other, task(), choose_learner(task(), HORIZON)).close()
    with pytest.raises(BadStore, match="another learner"):
        take_over(copy, other)
    with pytest.raises(BadStore, match="the copy itself"):
        take_over(copy, copy)
    with pytest.raises(BadStore, match="is not there"):
        take_over(copy, tmp_path / "nothing.db")
    with pytest.raises(BadStore, match="so it is not lost"):
        take_over(copy, lost=True)
    assert continued(store.path, copy) == [store.path]


def test_a_lost_original_takes_a_promise_which_stays_in_the_file(
    store: Store, copy: Path, command: Command
) -> None:
    back_up(store.path, copy)
    store.close()
    store.path.unlink()
    refused = command("backup", "--take-over", copy)
    assert refused.returncode == 2
    assert "--original-lost" in refused.stderr
    assert command("backup", "--take-over", copy, "--original-lost").returncode == 0
    assert learned(copy) == 600
    assert "rests on a promise" in command("show", copy, width=1000).stdout


def test_the_copy_of_a_copy_cannot_be_taken_over_too(store: Store, copy: Path) -> None:
    """A file that was copied by hand carries the mark, and the original names one place."""
    back_up(store.path, copy)
    twin = copy.with_name("twin.db")
    shutil.copy(copy, twin)
    take_over(copy)
    with pytest.raises(OldCopy, match="handed over to the copy"):
        take_over(twin)
    assert continued(store.path, copy, twin) == [copy]


def test_a_mark_cannot_be_taken_off_by_hand(store: Store, copy: Path) -> None:
    back_up(store.path, copy)
    with closing(sqlite3.connect(copy)) as db:
        db.execute("DELETE FROM about WHERE name = 'copy'")
        db.commit()
    with pytest.raises(BadStore, match="checksum"):
        open_store(copy)


def test_a_backup_that_is_killed_leaves_a_whole_copy_or_none(store: Store, copy: Path) -> None:
    moments = 0
    for _ in kill_at_every_write(lambda: back_up(store.path, copy)):
        moments += 1
        if copy.exists():
            assert read_store(copy).marks.copy is not None
            copy.unlink()
        assert not list(copy.parent.glob("*.draft-*")), "a draft has no journal of its own"
    assert moments >= 8
    assert read_store(copy).published.rounds == 500
    assert not list(copy.parent.glob(".*")), "the next call cleared the drafts away"


@pytest.mark.slow
def test_a_hand_over_that_is_killed_never_leaves_two(store: Store, copy: Path) -> None:
    back_up(store.path, copy)
    store.close()
    seen = set[tuple[Path, ...]]()
    for _ in kill_at_every_write(lambda: take_over(copy)):
        seen.add(tuple(continued(store.path, copy)))
    # Before the mark of the original, after it, and at the end: the same call ended what it began.
    assert seen <= {(store.path,), (), (copy,)}
    assert {(store.path,), ()} <= seen
    assert continued(store.path, copy) == [copy]
    assert learned(copy) == 600


def test_the_command_line_says_what_it_needs(tmp_path: Path, command: Command) -> None:
    for words in ([], ["run.db"], ["run.db", "copy.db", "--original-lost"]):
        refused = command("backup", *words, folder=tmp_path)
        assert refused.returncode == 2
        assert "littlestone backup RUN.DB COPY.DB" in refused.stderr
    refused = command("backup", "run.db", "copy.db", folder=tmp_path)
    assert "no such file" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_the_copy_of_a_copy_is_refused_in_the_place_of_the_copy_too(
    store: Store, copy: Path
) -> None:
    """The original names the copy that was taken over, and not whatever lies at its place."""
    back_up(store.path, copy)
    twin, moved = copy.with_name("twin.db"), copy.with_name("moved.db")
    shutil.copy(copy, twin)
    take_over(copy)
    assert learned(copy) == 600
    copy.rename(moved)
    twin.rename(copy)
    with pytest.raises(OldCopy, match="handed over to the copy"):
        take_over(copy)
    assert continued(store.path, copy, moved) == [moved]
