"""Files that are followed while they grow: whole lines only, and never another file."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import littlestone as ls
from commands import MAIN
from littlestone._cli.learn import run
from littlestone._data import text
from littlestone._data.readers import open_rows
from littlestone._data.rounds import BadStream, Rounds
from littlestone._store.files import BadStore
from littlestone._store.request import LearnRequest
from littlestone._store.store import read_store

pytestmark = pytest.mark.filterwarnings("ignore:delta")
CSV = (
    "merchant,fraud,note\n" + "".join(f"M{n % 7},{int(n % 7 == 3)},\n" for n in range(40))
    + 'Mé,1,"two\nlines"\nM1,?,\n"M, 2",0,"quoted ""q"""\nM3,1,x\n\nM4,0,last\n'
)  # fmt: skip
JSONL = "".join(json.dumps({"merchant": f"M{n}é", "fraud": n % 2}) + "\n" for n in range(30))


class Growing(Event):
    """A stop that is set when there is nothing more to write; each wait writes one more piece."""

    def __init__(self, path: Path, pieces: list[bytes | Callable[[Path], Any]]) -> None:
        super().__init__()
        self.path, self.pieces = path, pieces

    def wait(self, timeout: float | None = None) -> bool:
        if not self.pieces:
            self.set()
            return True
        piece = self.pieces.pop(0)
        if callable(piece):
            piece(self.path)
        else:
            with open(self.path, "ab") as file:
                file.write(piece)
        return False


def rounds(blocks: list[Rounds]) -> list[Any]:
    return [
        (x, y)
        for block in blocks
        for x, y in zip(block.columns["merchant"].tolist(), block.labels.tolist(), strict=True)
    ]


def cut(content: bytes, places: list[int]) -> list[Any]:
    at = sorted({0, len(content), *(place % (len(content) + 1) for place in places)})
    return [content[a:b] for a, b in pairwise(at)]


def followed(path: Path, stop: Event, **options: Any) -> list[Any]:
    with open_rows(path, ls.Points("merchant"), label="fraud", follow=stop, **options) as rows:
        assert rows.length is None
        return rounds(list(rows))


@pytest.mark.parametrize(("name", "content"), [("a.csv", CSV), ("a.jsonl", JSONL)])
@given(places=st.lists(st.integers(0, 3000), max_size=12), chunk=st.integers(3, 99))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_that_grows_is_read_as_the_whole(
    tmp_path: Path, name: str, content: str, places: list[int], chunk: int
) -> None:
    """Wherever a write ends: in a line, in a character, in a quoted cell, in the header."""
    path = tmp_path / name
    first, *rest = cut(content.encode(), places)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_CHUNK_BYTES", chunk)
        path.write_bytes(first)
        found = followed(path, Growing(path, rest))
    path.write_text(content)
    with open_rows(path, ls.Points("merchant"), label="fraud", growing=True) as rows:
        assert found == rounds(list(rows))


def test_a_line_is_no_row_before_its_line_feed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("merchant,fraud\n")
    stop = Growing(path, [b"M1,1\nM2", b",0", b""])
    with open_rows(path, ls.Points("merchant"), label="fraud", follow=stop) as rows:
        assert [len(block) for block in rows] == [0, 1]
        assert rows.unfinished == 1


def replace(path: Path) -> None:
    path.rename(path.with_suffix(".1"))
    with open(path.with_suffix(".1"), "a") as old:  # its writer has not noticed yet
        old.write("M9,1\n")
    path.write_text(CSV)


@pytest.mark.parametrize(
    ("change", "what", "rows"),
    [
        (replace, "moved or replaced.*--new-rows", 2),
        (Path.unlink, "moved or replaced", 1),
        (lambda path: os.truncate(path, 3), "cut off.*copytruncate", 1),
    ],
)
def test_another_file_is_an_error(
    tmp_path: Path, change: Callable[[Path], Any], what: str, rows: int
) -> None:
    """What the old one held, and what was written to it after a renaming, is read before."""
    path = tmp_path / "a.csv"
    path.write_text("merchant,fraud\nM1,1\n")
    stop, found = Growing(path, [change, lambda path: None, lambda path: None]), 0
    with open_rows(path, ls.Points("merchant"), label="fraud", follow=stop) as reader:

        def all_of_them() -> None:
            nonlocal found
            for block in reader:
                found += len(block)

        with pytest.raises(BadStream, match=what):
            all_of_them()
    assert found == rows


def test_only_plain_text_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    (tmp_path / "b.csv").write_bytes(gzip.compress(CSV.encode()))
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    for name, what in (("a.csv.gz", "compressed"), ("b.csv", "compressed"), ("c.parquet", "grow")):
        with pytest.raises(BadStream, match=what):
            followed(tmp_path / name, Event())
    with pytest.raises(BadStream, match="a pipe is read until it ends"):
        followed(Path("-"), Event())


def asked(path: Path, **more: Any) -> LearnRequest:
    return LearnRequest(
        source=str(path), spec="points:merchant", label="fraud", epsilon=4.0, delta=1e-6,
        **({"horizon": 4000, "follow": True} | more),
    )  # fmt: skip


def lines(first: int, count: int) -> bytes:
    return b"".join(f"M{n * 7919 % 31},{int(n * 7919 % 31 == 3)}\n".encode() for n in range(
        first, first + count))  # fmt: skip


def test_a_stored_learner_goes_on_following(tmp_path: Path) -> None:
    """Each row once, over runs that follow and runs that do not; the file is recognised."""
    path, db = tmp_path / "a.csv", tmp_path / "run.db"
    path.write_bytes(b"merchant,fraud\n" + lines(0, 10))

    def learn(*pieces: Any, **more: Any) -> int:
        return run(
            asked(path, **more), lambda outcome: None, db, Growing(path, list(pieces))
        ).learner.rounds

    assert learn(lines(10, 30), lines(40, 60)[:-3]) == 99
    assert max(read_store(db).sources[0].marks) >= 64
    assert learn(lines(40, 60)[-3:], lines(100, 100)) == 200
    assert learn(follow=False) == 200
    assert learn(lines(200, 5)) == 205
    # Another file of the same name is refused, and accepted when asked for.
    path.write_bytes(b"merchant,fraud\nX,1\n" + lines(0, 90))
    with pytest.raises(BadStore, match="are not those that were learned"):
        learn()
    assert learn(lines(90, 9), new_rows=True) == 305


def test_following_without_a_store_ends_at_the_horizon(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"merchant,fraud\n" + lines(0, 50))
    pieces: list[Any] = [lines(50 * n, 50) for n in range(1, 10)]
    outcome = run(asked(path, horizon=120), lambda outcome: None, None, Growing(path, pieces))
    assert outcome.learner.rounds == 150
    assert any("horizon of 120 rounds is reached" in note for note in outcome.notes)
    with pytest.raises(BadStream, match="say --horizon"):
        run(asked(path, horizon=None), lambda outcome: None, None, Growing(path, []))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """With what stands committed, and printed."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"merchant,fraud\n" + lines(0, 500))
    words = ["learn", str(path), "--follow", "--class", "points:merchant", "--label", "fraud",
             "--horizon", "4000", "--db", str(tmp_path / "run.db"), "--json"]  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE)
    try:
        while not (tmp_path / "run.db").exists() or not read_store(tmp_path / "run.db").sources:
            assert process.poll() is None
            time.sleep(0.05)
        with open(path, "ab") as file:
            file.write(lines(500, random.randrange(1, 9)))
        process.send_signal(number)
        out, _ = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0
    assert json.loads(out)["public"]["rounds"] == read_store(tmp_path / "run.db").published.rounds
