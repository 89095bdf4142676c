"""After kill -9 the last commits are in the log: a store that has lost them must say so."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from test_store import OPTIONS, lines

from commands import MAIN, Command, littlestone
from littlestone._store.files import BadStore
from littlestone._store.store import read_store

LEARN = ("learn", "day.csv", "--db", "run.db")


def rounds(folder: Path) -> int:
    with suppress(BadStore, FileNotFoundError):
        return read_store(folder / "run.db").published.rounds
    return 0


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned 2,000 rows in twenty commits, and was then killed."""
    folder = tmp_path_factory.mktemp("killed")
    text = lines(2000).splitlines(keepends=True)
    (folder / "day.csv").write_text("".join(text[:101]))
    command = [sys.executable, "-c", MAIN, *LEARN, *map(str, OPTIONS), "--follow"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for stop in range(101, 2002, 100):
            with (folder / "day.csv").open("a") as file:
                file.write("".join(text[stop : stop + 100]))
            while rounds(folder) < min(stop + 99, 2000):
                assert process.poll() is None
                time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return folder


@pytest.fixture
def folder(killed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(killed, tmp_path / "copy")


@pytest.fixture
def command(folder: Path) -> Command:
    return partial(littlestone, folder=folder, width=300)


def test_with_its_log_a_killed_run_goes_on(folder: Path, command: Command) -> None:
    assert (folder / "run.db-wal").stat().st_size > 0
    done = command(*LEARN)
    assert done.returncode == 0, done.stderr
    assert "no new rows" in done.stderr + done.stdout
    assert sorted(os.listdir(folder)) == ["day.csv", "run.db"]


REMOVED = [("-wal",), ("-wal", "-shm"), ("-wal", "-shm", "-mark")]
LENGTHS = [0, 0.9999, *(random.Random(seed).random() for seed in range(20))]


@pytest.mark.parametrize("ends", REMOVED)
def test_a_log_that_is_gone_is_noticed(
    folder: Path, command: Command, ends: tuple[str, ...]
) -> None:
    for end in ends:
        (folder / f"run.db{end}").unlink()
    refused_unchanged(folder, command)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_log_that_is_cut_short_is_noticed(folder: Path, command: Command, length: float) -> None:
    log = folder / "run.db-wal"
    os.truncate(log, int(length * log.stat().st_size))
    refused_unchanged(folder, command)


def refused_unchanged(folder: Path, command: Command) -> None:
    kept = {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".db-shm"}
    for arguments in (LEARN, ("show", "run.db"), ("backup", "run.db", "copy.db")):
        done = command(*arguments)
        assert done.returncode == 2, (arguments, done.stdout)
        assert "the last commits of run.db are missing" in done.stderr
        assert "put run.db-wal and run.db-mark back" in done.stderr
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".db-shm"}
    assert found == kept


def test_the_log_of_an_earlier_day_is_not_read_over_the_file(
    folder: Path, command: Command
) -> None:
    """A clean stop folds the log in; a copy of the log from before would undo commits."""
    log = (folder / "run.db-wal").read_bytes()
    assert command(*LEARN).returncode == 0
    (folder / "day.csv").write_text(lines(2500))
    assert command(*LEARN).returncode == 0
    (folder / "run.db-wal").write_bytes(log)
    done = command(*LEARN)
    assert done.returncode == 2
    assert "run.db-wal" in done.stderr
    (folder / "run.db-wal").unlink()
    assert command(*LEARN).returncode == 0
