"""After kill -9 the last commits are in the log: a store that has lost them must say so."""

import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from killed import forked, kill_self
from test_store import HORIZON, block, lines, task

from commands import Command, littlestone
from littlestone._store.copies import back_up
from littlestone._store.files import BadStore
from littlestone._store.request import choose_learner
from littlestone._store.store import create, open_store, read_store

pytestmark = pytest.mark.filterwarnings("ignore:delta", "ignore:This process:DeprecationWarning")
LEARN = ("learn", "day.csv", "--db", "run.db")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned 2,000 rows in twenty commits, and was then killed."""
    folder = tmp_path_factory.mktemp("killed")

    def learn() -> None:
        store = create(folder / "run.db", task(), choose_learner(task(), HORIZON))
        for start in range(0, 2000, 100):
            store.learn(block(start, 100))
        kill_self()

    assert not forked(learn)
    return folder


@pytest.fixture
def folder(killed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(killed, tmp_path / "copy")


@pytest.fixture
def command(folder: Path) -> Command:
    return partial(littlestone, folder=folder, width=300)


def test_with_its_log_a_killed_run_goes_on(folder: Path) -> None:
    assert (folder / "run.db-wal").stat().st_size > 0
    with open_store(folder / "run.db") as store:
        assert store.published.rounds == 2000
        assert store.learn(block(2000, 10)).first == 2001
    assert os.listdir(folder) == ["run.db"]


def remove(*ends: str, path: Path) -> None:
    for end in ends:
        Path(f"{path}{end}").unlink()


def cut(share: float, *, path: Path) -> None:
    os.truncate(f"{path}-wal", int(share * os.stat(f"{path}-wal").st_size))


LOSSES = [
    partial(remove, "-wal"),
    partial(remove, "-wal", "-shm"),
    partial(remove, "-wal", "-shm", "-mark"),
    *(partial(cut, share) for share in (0, 0.9999)),
    *(partial(cut, random.Random(seed).random()) for seed in range(20)),
]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_log_that_is_gone_or_cut_short_is_noticed(
    folder: Path, lose: Callable[..., None]
) -> None:
    path = folder / "run.db"
    lose(path=path)

    def left() -> dict[str, bytes]:
        contents = {file.name: file.read_bytes() for file in folder.iterdir()}
        # A log without a byte says what no log says: SQLite may remove it.
        return {name: text for name, text in contents.items() if "-shm" not in name and text}

    kept = left()
    for use in (open_store, read_store, lambda path: back_up(path, folder / "copy.db")):
        with pytest.raises(BadStore, match=r"the last commits of run.db are missing") as refusal:
            use(path)
        assert "put run.db-wal and run.db-mark back" in str(refusal.value)
    assert left() == kept


def test_the_verbs_say_so_too(folder: Path, command: Command) -> None:
    (folder / "day.csv").write_text(lines(10))
    os.truncate(folder / "run.db-wal", 9000)
    for words in (LEARN, ("show", "run.db"), ("backup", "run.db", "copy.db")):
        done = command(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "the last commits of run.db are missing" in done.stderr


def test_the_log_of_an_earlier_day_is_not_read_over_the_file(folder: Path) -> None:
    """A clean stop folds the log in; a copy of the log from before would undo commits."""
    path, log = folder / "run.db", (folder / "run.db-wal").read_bytes()
    for start in (2000, 2500):
        with open_store(path) as store:
            store.learn(block(start, 500))
    (folder / "run.db-wal").write_bytes(log)
    with pytest.raises(BadStore, match=r"run.db-wal"):
        open_store(path)
    (folder / "run.db-wal").unlink()
    open_store(path).close()
