"""Kill -9 at random moments: `make soak` runs it some hundred times, the tests twenty.

Checked after every kill: what was acknowledged is there, no row is counted twice, the releases so
far are the beginning of the releases later, and the ledger is within the guarantee.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from littlestone.edge.about import BadStore
from littlestone.edge.specs import parse_spec
from littlestone.edge.store import Shown, read_store

ROWS = 150_000


class Soaked(NamedTuple):
    """How many kills there were, and at how many different rounds they came."""

    kills: int
    moments: int


def soak_learn(folder: Path, kills: int, seed: int) -> Soaked:
    """`littlestone learn --db`, killed and started again; when all rows are in, from the start."""
    draw = random.Random(seed)
    (folder / "day.csv").write_text(_rows(draw))
    took = _timed(folder)
    moments, before = set[int](), _checked(folder, None)
    for _ in range(kills):
        if before is None or before.published.rounds == ROWS:
            _clear(folder)
            before = None
        process = _started(folder)
        time.sleep(took * draw.uniform(0.3, 1.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = _checked(folder, before)
        moments.add(0 if before is None else before.published.rounds)
    _timed(folder)
    last = _checked(folder, before)
    assert last is not None
    assert last.published.rounds == ROWS
    return Soaked(kills, len(moments))


def _rows(draw: random.Random) -> str:
    """A stream whose culprit changes, so that there are releases all along; some rows are bad."""
    lines = ["a,b,y"]
    for n in range(ROWS):
        a, b = draw.randrange(6), draw.randrange(6)
        lines.append(f"{a},{b},{'?' if n % 101 == 7 else int(a == 6 * n // ROWS)}")
    return "\n".join(lines) + "\n"


def _started(folder: Path) -> subprocess.Popen[bytes]:
    arguments = ["learn", "day.csv", "--class", "rules:a,b", "--label", "y", "--delta", "1e-8",
                 "--db", "run.db", "--out", "r.jsonl"]  # fmt: skip
    code = (
        f"import sys; sys.argv[1:] = {arguments!r}; from littlestone.edge.cli import main; main()"
    )
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.DEVNULL)


def _timed(folder: Path) -> float:
    """Run to the end: how long it took."""
    began = time.monotonic()
    assert _started(folder).wait() == 0
    return time.monotonic() - began


def _clear(folder: Path) -> None:
    for name in ("run.db", "run.db-wal", "run.db-shm", "r.jsonl"):
        (folder / name).unlink(missing_ok=True)


def _checked(folder: Path, before: Shown | None) -> Shown | None:
    """What is in the store, if it was begun; refused unless it goes on from what was there."""
    try:
        now = read_store(folder / "run.db")
    except BadStore:  # killed before the first commit
        assert before is None
        return None
    published, live = now.published, now.saved.live
    assert live["rounds"] == published.rounds == sum(source.rows for source in now.sources)
    expected = sum(1 for n in range(published.rounds) if n % 101 == 7)
    assert live["null_rounds"] == expected
    written = [json.loads(line)["round"] for line in _whole_lines(folder / "r.jsonl")]
    assert written == [release.round for release in published.releases][: len(written)]
    learner = now.about.chosen.make(parse_spec(now.about.spec), now.about.seed)
    learner.resume(now.saved)
    assert learner.spent.epsilon <= learner.plan.epsilon
    assert (learner.releases, learner.rounds) == (published.releases, published.rounds)
    if before is not None:
        assert published.rounds >= before.published.rounds
        assert published.releases[: len(before.published.releases)] == before.published.releases
        assert now.about == before.about
        assert now.generation >= before.generation
    return now


def _whole_lines(path: Path) -> list[str]:
    """The lines of a file that were written to their end."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = soak_learn(Path(place), int(sys.argv[1]), random.randrange(10**6))
        sys.stdout.write(f"{found.kills} kills at {found.moments} different rounds: all is well\n")
