"""Kill -9 at random moments: `make soak` runs it some hundred times, the tests twenty.

`python -m soak 400 --only serve` runs one of the ways alone.

Five ways: `littlestone learn --db` over a file, with rules and with causes; over a topic of Kafka
with four partitions; over Parquet on a Ray cluster, where now the driver is killed and now a shard
or a reader; and `littlestone serve` under load from clients who send a batch again, with its key,
until it is acknowledged. All of them draw from a budget.
Checked after every kill: what was acknowledged is there, no row is counted twice, the releases so
far are the beginning of the releases later, the ledger is within the guarantee, and each run has
drawn what it costs, exactly once.
"""

import argparse
import http.client
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pyarrow
import pyarrow.parquet

from commands import MAIN
from littlestone._store.budgets import BudgetFile
from littlestone._store.files import BadStore
from littlestone._store.store import StoreView, read_store
from mock_kafka import PARTITIONS, mock_cluster

ROWS, BATCH, CLIENTS = 300_000, 200, 3
# The budget that all runs of a soak draw from.
BUDGET = ("--budget", "budgets.db", "--dataset", "day")
# What the last run said on standard error.
ERRORS = "errors.txt"


class Soaked(NamedTuple):
    """How many kills there were, and at how many different rounds they came."""

    kills: int
    moments: int


def soak_learn(folder: Path, kills: int, seed: int) -> Soaked:
    """`littlestone learn --db`, killed and started again; when all rows are in, from the start."""
    draw = random.Random(seed)
    (folder / "day.csv").write_text(_rows(draw))
    return _soaked(folder, ["day.csv", "--class", "rules:a,b"], kills, draw)


def soak_causes(folder: Path, kills: int, seed: int) -> Soaked:
    """The same with a learner of causes, whose evidence is released too."""
    draw = random.Random(seed)
    (folder / "day.csv").write_text(_rows(draw))
    return _soaked(folder, ["day.csv", "--class", "causes:a,b:2"], kills, draw)


def soak_kafka(folder: Path, kills: int, seed: int) -> Soaked:
    """The same over a topic, whose offsets are kept with the learner."""
    draw = random.Random(seed)
    names, *lines = (line.split(",") for line in _rows(draw).splitlines())
    with mock_cluster() as cluster:
        cluster.send("day", (dict(zip(names, cells, strict=True)) for cells in lines))
        source = [cluster.address("day"), "--until-end", "--class", "rules:a,b"]
        found = _soaked(folder, source, kills, draw)
    (topic,) = read_store(folder / "run.db").sources
    assert topic.topic is not None
    assert {place.next for place in topic.topic.values()} == {ROWS // PARTITIONS}
    return found


def soak_engine(folder: Path, kills: int, seed: int) -> Soaked:
    """`littlestone learn --db --engine ray`, of which every second kill is of a worker."""
    draw = random.Random(seed)
    header, *lines = _rows(draw).splitlines()
    for day in range(5):
        cells = [line.split(",") for line in lines[day * ROWS // 5 : (day + 1) * ROWS // 5]]
        table = pyarrow.table(dict(zip(header.split(","), zip(*cells, strict=True), strict=True)))
        (folder / "days" / f"day={day}").mkdir(parents=True)
        pyarrow.parquet.write_table(table, folder / "days" / f"day={day}" / "part.parquet")
    return _soaked(
        folder, ["days", "--class", "rules:a,b", "--engine", "ray", "--workers", "2"], kills, draw
    )


def _soaked(folder: Path, source: list[str], kills: int, draw: random.Random) -> Soaked:
    _begin_budget(folder)
    took = _timed(folder, source)
    moments, before = set[int](), _checked(folder, None)
    for kill in range(kills):
        if before is None or before.published.rounds == ROWS:
            _clear(folder)
            before = None
        process = _started(folder, source)
        if "--engine" in source:
            _wait_for_rounds(process, folder, draw.randrange(ROWS // 2))
        elif "--until-end" in source:
            learned = 0 if before is None else before.published.rounds
            _wait_for_rounds(process, folder, learned + draw.randrange(ROWS // 3))
            time.sleep(draw.uniform(0, 0.1))
        else:
            time.sleep(took * draw.uniform(0.4, 1.05))
        if "--engine" in source and kill % 2:
            _kill_a_worker(process, draw)
            assert process.wait() == 0, (folder / ERRORS).read_text()
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = _checked(folder, before)
        moments.add(0 if before is None else before.published.rounds)
        _tell(kill, kills)
    _timed(folder, source)
    last = _checked(folder, before)
    assert last is not None
    assert last.published.rounds == ROWS
    return Soaked(kills, len(moments))


def _tell(kill: int, kills: int) -> None:
    """Say how far it is: hundreds of kills take long."""
    if (kill + 1) % 10 == 0:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {kill + 1} of {kills} kills\n")


def _wait_for_rounds(process: "subprocess.Popen[bytes]", folder: Path, rounds: int) -> None:
    """Until so many are committed: the start of a cluster takes longer than all the rest."""
    while process.poll() is None:
        with suppress(BadStore):
            if read_store(folder / "run.db").published.rounds > rounds:
                return
        time.sleep(0.01)


def _kill_a_worker(process: "subprocess.Popen[bytes]", draw: random.Random) -> None:
    """Kill one of those who hold trees or look at rows, if there is one yet, or still."""
    with suppress(psutil.Error):
        names = ("ray::Shard", "ray::read_span", "ray::answer", "ray::scatter")
        family = psutil.Process(process.pid).children(recursive=True)
        workers = [one for one in family if any(name in one.name() for name in names)]
        if workers:
            draw.choice(workers).kill()


class Feeder(threading.Thread):
    """A client who sends batches one after the other, each until it is acknowledged."""

    def __init__(self, number: int, service: "Served") -> None:
        super().__init__(daemon=True)
        self.number, self.service = number, service
        self.batch, self.acknowledged, self.over = 0, 0, False

    def run(self) -> None:
        while not self.over:
            while not self._sent():
                time.sleep(0.01)
            self.batch += 1

    def _sent(self) -> bool:
        """Whether the batch is acknowledged now."""
        try:
            self.acknowledged += self.service.post(f"{self.number}-{self.batch}", self.batch)
        except (OSError, http.client.HTTPException, Later):
            return False
        return True


class Later(Exception):
    """Not acknowledged: to be sent again."""


class Served:
    """`littlestone serve` in a process that may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.start()

    def start(self) -> None:
        arguments = ["serve", "run.db", "--class", "rules:a,b", "--label", "y", "--delta", "1e-9",
                     "--horizon", "10000000", "--port", str(self.port), *BUDGET]  # fmt: skip
        program = [sys.executable, "-c", MAIN, *arguments]
        self.process = subprocess.Popen(
            program, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().split()[1]
        self.port = int(address.rstrip("/").rpartition(":")[2])
        self.token = json.loads((self.folder / "run.db.tokens").read_text())["feeder"]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def post(self, key: str, number: int) -> int:
        """Send a batch: the rows that are acknowledged."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key,
                   "Content-Type": "application/json"}  # fmt: skip
        rows = [{"a": n % 7, "b": n % 5, "y": int(n % 7 == number // 40 % 7)} for n in range(BATCH)]
        with closing(link):
            link.request("POST", "/rounds", json.dumps(rows), headers)
            answer = link.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise Later(body)
        return int(json.loads(body)["rounds"])


def soak_serve(folder: Path, kills: int, seed: int) -> Soaked:
    """`littlestone serve` under load, killed and started again."""
    _begin_budget(folder)
    draw, service = random.Random(seed), Served(folder)
    feeders = [Feeder(number, service) for number in range(CLIENTS)]
    for feeder in feeders:
        feeder.start()
    moments, before, promised = set[int](), None, 0
    for kill in range(kills):
        # Every second kill comes when a batch was learned: on a busy machine few others would.
        until = time.monotonic() + 60
        while kill % 2 and _acknowledged(feeders) == promised and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(draw.uniform(0.05, 0.6))
        promised = _acknowledged(feeders)
        service.kill()
        now = _goes_on(folder, before)
        assert now is not None
        assert now.published.rounds >= promised
        before = now
        moments.add(now.published.rounds)
        _tell(kill, kills)
        service.start()
    for feeder in feeders:
        feeder.over = True
    for feeder in feeders:
        feeder.join()
    service.kill()
    last = _goes_on(folder, before)
    assert last is not None
    assert last.published.rounds == _acknowledged(feeders)
    return Soaked(kills, len(moments))


def _acknowledged(feeders: list[Feeder]) -> int:
    return sum(feeder.acknowledged for feeder in feeders)


def _begin_budget(folder: Path) -> None:
    """Make a budget that is enough for as many runs as there may be."""
    BudgetFile.create(folder / "budgets.db", "day", epsilon=10**6, delta=0.5)


def _check_budget(folder: Path, now: StoreView) -> None:
    """Check that the run in the store has drawn what it costs, once, and every other run too."""
    budget = BudgetFile(folder / "budgets.db", "day").read()
    costs = [draw.cost for draw in budget.of_run(now.run)]
    cost = now.about.chosen.plan.cost
    # Killed before its first row, it may not have come to that.
    assert costs == [cost] or (not costs and not now.published.rounds)
    runs = [draw.run for draw in budget.draws]
    assert len(runs) == len(set(runs))
    assert budget.spent == cost.times(len(runs))


def _rows(draw: random.Random) -> str:
    """A stream whose culprit changes, so that there are releases all along; some rows are bad."""
    lines = ["a,b,y"]
    for n in range(ROWS):
        a, b = draw.randrange(6), draw.randrange(6)
        lines.append(f"{a},{b},{'?' if n % 101 == 7 else int(a == 6 * n // ROWS)}")
    return "\n".join(lines) + "\n"


def _started(folder: Path, source: list[str]) -> subprocess.Popen[bytes]:
    arguments = ["learn", *source, "--label", "y", "--delta", "1e-8",
                 "--db", "run.db", "--out", "r.jsonl", *BUDGET]  # fmt: skip
    code = (
        f"import sys; sys.argv[1:] = {arguments!r}; from littlestone._cli.main import main; main()"
    )
    # On the terminal its words would hide how far the soak is.
    with open(folder / ERRORS, "wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors
        )


def _timed(folder: Path, source: list[str]) -> float:
    """Run to the end: how long it took."""
    began = time.monotonic()
    assert _started(folder, source).wait() == 0, (folder / ERRORS).read_text()
    return time.monotonic() - began


def _clear(folder: Path) -> None:
    for name in ("run.db", "run.db-wal", "run.db-shm", "run.db-mark", "r.jsonl"):
        (folder / name).unlink(missing_ok=True)


def _checked(folder: Path, before: StoreView | None) -> StoreView | None:
    """What is in the store of a file's rows, and in its releases file."""
    now = _goes_on(folder, before)
    if now is None:
        return None
    published, live = now.published, now.saved.state
    assert published.rounds == sum(source.rows for source in now.sources)
    for source in now.sources:
        places = (source.topic or {}).values()
        assert not places or source.rows == sum(place.next for place in places)
    assert live["null_rounds"] == sum(1 for n in range(published.rounds) if n % 101 == 7)
    lines = [json.loads(line) for line in _whole_lines(folder / "r.jsonl")]
    windows = [line["round"] for line in lines if line["kind"] == "evidence"]
    assert windows == sorted(set(windows)), "counts of one window are released once"
    written = [line["round"] for line in lines if line["kind"] == "release"]
    assert written == [release.round for release in published.releases][: len(written)]
    return now


def _goes_on(folder: Path, before: StoreView | None) -> StoreView | None:
    """What is in the store, if it was begun; refused unless it goes on from what was there."""
    if not (folder / "run.db").exists():  # killed before the first commit
        assert before is None
        return None
    now = read_store(folder / "run.db")
    published = now.published
    _check_budget(folder, now)
    assert now.saved.state["rounds"] == published.rounds
    learner = now.about.chosen.make(now.about.cls, now.about.terms.seed)
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


# Every way, and its share of the kills.
PARTS = {
    "learn": (soak_learn, 0.2),
    "causes": (soak_causes, 0.1),
    "kafka": (soak_kafka, 0.2),
    "serve": (soak_serve, 0.3),
    "engine": (soak_engine, 0.2),
}


def main() -> None:
    """Run every part with its share of the kills, or one with all of them."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    chosen = {options.only: (PARTS[options.only][0], 1.0)} if options.only else PARTS
    for name, (soak, share) in chosen.items():
        sys.stderr.write(f"{name}: {int(share * options.kills)} kills\n")
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            found = soak(Path(place), int(share * options.kills), random.randrange(10**6))
        took = f"in {time.monotonic() - began:,.0f} s"
        summary = f"{found.kills} kills at {found.moments} different rounds {took}: all is well"
        sys.stdout.write(f"{soak.__name__}: {summary}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
