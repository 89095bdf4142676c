"""The engine on a real Ray cluster of this machine: the same rules, whoever is killed."""

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
import test_causes_rows
from test_dpsoa import LENGTH, PLANS
from test_shards import after, make, observable

import littlestone as ls
from commands import MAIN, littlestone
from effort import EVERYTHING
from littlestone._cli.learn import run
from littlestone._data.readers import open_rows
from littlestone._data.rounds import BadStream
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone._ray import ClusterLost, Ray
from littlestone._ray import cluster as cluster_module
from littlestone._ray import rows as far
from littlestone._ray.rows import open_remote_rows
from littlestone._ray.shards import ShardedForest
from littlestone._report.report import RunResult
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import Store, create, open_store, read_store
from soak import soak_engine

pytestmark = pytest.mark.filterwarnings("ignore:delta")

ROWS = 9_000
CANARY = "canary-5301"
SHORT = {"LARGEST_BLOCK": 700}
"""Many blocks, most of them of several row groups."""

# What a process of its own needs to import these tests.
WITH_TESTS = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    yield Ray().connected()
    ray.shutdown()


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SHORT.items():
        monkeypatch.setattr(far, name, value)
    monkeypatch.setattr("littlestone._data.rounds.FIRST_BLOCK", 300)


def columns(rows: int = ROWS) -> dict[str, list[Any]]:
    """Events with a cause that changes half-way, and a few that cannot be read."""
    draw = random.Random(4)
    found: dict[str, list[Any]] = {"version": [], "country": [], "device": [], "failed": []}
    for row in range(rows):
        version, country = draw.choice(["4.2.0", "4.2.1", "4.3"]), draw.choice(["SE", "NO", None])
        cause = version == "4.2.1" if row < rows // 2 else country == "NO"
        label = "perhaps" if draw.random() < 0.01 else str(int(cause))
        device = "" if draw.random() < 0.01 else f"d{draw.randrange(200)}"
        for name, value in zip(found, (version, country, device, label), strict=True):
            found[name].append(value)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events as partitioned Parquet: files of several sizes, in row groups of several."""
    path, whole = tmp_path_factory.mktemp("events"), pa.table(columns())
    ends = [0, 1, 1500, 1500, 4000, ROWS]
    for number, (start, end) in enumerate(pairwise(ends)):
        day = path / f"day={number}"
        day.mkdir()
        pq.write_table(whole.slice(start, end - start), day / "part.parquet", row_group_size=430)
    (path / "_temporary").mkdir()
    (path / "_temporary" / "part.parquet").write_bytes(b"half written")
    return path


RULES = ls.Rules(["version", "country"])
KINDS: dict[str, tuple[ls.Plan, str | None]] = {
    "events": (ls.Plan.practical(RULES, 2, 1e-6, ROWS - 500), None),
    "noise": (ls.Plan.practical(RULES, 4, 1e-5, ROWS), None),
    "capped": (ls.Plan.practical(RULES, 400, 1e-3, ROWS, unit="user", cap=30), "device"),
}


def learner_of(kind: str, **options: Any) -> ls.DPSOA:
    return ls.DPSOA(RULES, plan=KINDS[kind][0], seed=5, noise=SeededNoise(3), **options)


def here(kind: str, folder: Path) -> dict[str, Any]:
    """What is learned without a cluster."""
    learner = learner_of(kind)
    with open_rows(folder, RULES, label="failed", user=KINDS[kind][1]) as rows:
        for block in rows:
            learner.learn(block)
    return observable(learner)


def there(kind: str, folder: Path, engine: Ray, **options: Any) -> dict[str, Any]:
    """What is learned with its rows and its trees on a cluster."""
    return there_with(kind, folder, engine, lambda number: None, **options)


def there_with(
    kind: str, folder: Path, engine: Ray, before: Callable[[int], None], **options: Any
) -> dict[str, Any]:
    """The same; something happens before each block."""
    learner, user = learner_of(kind, engine=engine, **options), KINDS[kind][1]
    opened = open_remote_rows(engine, str(folder), RULES, label="failed", user=user, strict=False)
    with opened as rows:
        for number, block in enumerate(rows):
            before(number)
            learner.learn(block)
    return observable(learner)


@pytest.mark.parametrize("kind", PLANS)
def test_trees_on_a_cluster_learn_rows_from_here(kind: str) -> None:
    expected = after(make("points", kind), "points", LENGTH)
    for workers, size in ((1, 7), (2, LENGTH)) if EVERYTHING else ((2, LENGTH),):
        engine = Ray(workers=workers)
        assert after(make("points", kind, engine=engine), "points", size) == expected


WORKERS = ((1, False), (2, True), (3, False)) if EVERYTHING else ((2, True),)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_trees_on_a_cluster(kind: str, folder: Path) -> None:
    expected = here(kind, folder)
    assert len(expected["releases"]) > 2
    assert expected["null_rounds"] > 50
    assert expected["rounds"] == ROWS
    for workers, watched in WORKERS:
        assert there(kind, folder, Ray(workers=workers), watched=watched) == expected


@pytest.mark.parametrize("kind", test_causes_rows.PLANS)
def test_causes_of_rows_on_a_cluster(kind: str, tmp_path: Path) -> None:
    """Causes, evidence and stored rows are those of one process."""
    events = test_causes_rows.written(tmp_path)
    expected = test_causes_rows.here(kind, events)
    assert len(expected["releases"]) > 3
    assert test_causes_rows.there(kind, events, Ray(workers=2)) == expected


def test_a_store_of_causes_moves_between_a_cluster_and_none(tmp_path: Path) -> None:
    """Half of the rows here, the others there, and here nothing is new."""
    days, later = tmp_path / "days", tmp_path / "later"
    days.mkdir()
    later.mkdir()
    files = sorted(test_causes_rows.written(later).iterdir())
    asked = LearnRequest(
        source=str(days),
        spec="causes:version,country,age@18/30/65:2",
        label="failed",
        epsilon=8,
        delta=1e-5,
        horizon=test_causes_rows.ROWS,
    )
    there = replace(asked, engine="ray", workers=2)
    for new, rounds, task in (
        (files[:3], 4000, asked),
        (files[3:], 8000, there),
        ([], 8000, asked),
    ):
        for file in new:
            file.rename(days / file.name)
        done = run(task, lambda outcome: None, tmp_path / "run.db")
        assert done.learner.rounds == rounds


class Killer:
    """Sends SIGKILL to a shard in the middle of a batch: after a message was sent, before its
    answer is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: set[int]) -> None:
        self.at, self.sent, self.kills = at, 0, 0
        send = ShardedForest._send

        def and_kill(forest: ShardedForest, message: Any) -> None:
            send(forest, message)
            self.sent += 1
            if self.sent in self.at:
                self.kill(self.sent)

        monkeypatch.setattr(ShardedForest, "_send", and_kill)

    def kill(self, place: int) -> None:
        shards = running("ray::Shard")  # one that was killed may not be back yet
        if shards:
            shards[place % len(shards)].kill()
            self.kills += 1


def running(name: str) -> list[psutil.Process]:
    """The processes of the cluster that do this now."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found += [process] if name in " ".join(process.cmdline()) else []
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_killed_in_mid_batch_changes_nothing(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = here(kind, folder)
    killer = Killer(monkeypatch, at={1, 3, 4})
    assert there(kind, folder, Ray(workers=2), watched=True) == expected
    assert killer.kills


@pytest.mark.parametrize("learned", ["trees", "causes"])
def test_readers_killed_in_mid_block_change_nothing(
    learned: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks keep nothing: Ray does them again elsewhere."""
    kills, get = 0, far.RemoteParquet.get

    def kill(self: far.RemoteParquet, ref: Any) -> Any:
        nonlocal kills
        for process in [*running("ray::read_span"), *running("ray::answer")][: kills < 3]:
            process.kill()
            kills += 1
        return get(self, ref)

    monkeypatch.setattr(far.RemoteParquet, "get", kill)
    rows = folder if learned == "trees" else test_causes_rows.written(tmp_path)
    one, other = (
        (here, there) if learned == "trees" else (test_causes_rows.here, test_causes_rows.there)
    )
    for _ in range(20):
        assert other("capped", rows, Ray(workers=2)) == one("capped", rows)
        if kills:
            break
    assert kills


def test_a_node_that_is_lost_changes_nothing(folder: Path) -> None:
    """Two nodes on this machine, with a store of objects each; one is killed on the way."""
    code = [sys.executable, "-m", "two_nodes", str(folder)]
    done = subprocess.run(code, env=WITH_TESTS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith("the same\n")


def test_a_command_that_loses_its_node_says_so_and_can_be_run_again(tmp_path: Path) -> None:
    """Ray would end the process with exit code 1 and without a sentence."""
    (tmp_path / "days").mkdir()
    pq.write_table(pa.table(columns(60_000)), tmp_path / "days" / "1.parquet", row_group_size=5000)
    code = [sys.executable, "-m", "two_nodes", str(tmp_path), "node"]
    done = subprocess.run(code, env=WITH_TESTS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    status, out, last, rounds = json.loads(done.stdout)
    assert (status, out) == (2, "")
    assert last.startswith("error: the cluster failed: ")
    assert "What a --db has committed is safe: the same command goes on from there" in last
    assert 1000 <= rounds < 60_000
    again = littlestone("learn", "days", "--db", "run.db", "--json", folder=tmp_path)
    assert json.loads(again.stdout)["public"]["rounds"] == 60_000


def test_a_peer_is_gone_when_it_was_unreachable_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peers = [cluster_module._Peer("gone", server.getsockname(), p) for p in (0, 3600)]
        assert [peer.is_gone() for peer in peers * 2] == [False] * 4
        server.accept()[0].close()  # the end of a connection, not of the server
        assert [peer.is_gone() for peer in peers] == [False] * 2
    assert [peer.is_gone() for peer in peers] == [True, False]


def test_what_ray_raises_is_a_sentence() -> None:
    """Whatever it is, and wherever: but what went wrong in a task is said as it was said there."""
    errors: Any = ray.exceptions
    for error in (errors.ObjectStoreFullError("full"), errors.LocalRayletDiedError()):
        with pytest.raises(ClusterLost, match=r"the cluster failed: Ray gave up .*What a --db has"):
            cluster_module._raise_cause(error)
    with pytest.raises(BadStream, match="damaged"):
        cluster_module._raise_cause(BadStream("damaged"))


def task(folder: Path, **more: Any) -> LearnRequest:
    return LearnRequest(
        source=str(folder),
        spec="rules:version,country",
        label="failed",
        epsilon=2,
        delta=1e-6,
        learner="dpsoa",
        **more,
    )


def stored(store: Store, folder: Path, engine: Ray | None, start: int, stop: int) -> None:
    """Have a store learn some of the blocks."""
    if engine is None:
        rows: Any = open_rows(folder, RULES, label="failed", block_rows=700)
    else:
        rows = open_remote_rows(engine, str(folder), RULES, label="failed", user=None, strict=False)
    at = 0
    with rows:
        for block in rows:
            some = block.part(max(0, start - at), max(0, min(len(block), stop - at)))
            at += len(block)
            if len(some):
                store.learn(some)


def test_a_store_moves_between_a_cluster_and_none(tmp_path: Path, folder: Path) -> None:
    """Begun here, gone on with on a cluster, and so on: as if it had stayed."""
    asked = task(folder)
    chosen = choose_learner(asked, ROWS)
    stayed = create(tmp_path / "stayed.db", task(folder, seed=5), chosen, noise=SeededNoise(3))
    stored(stayed, folder, None, 0, ROWS)
    create(tmp_path / "went.db", task(folder, seed=5), chosen, noise=SeededNoise(3)).close()
    for turn, start in enumerate(range(0, ROWS, 2000)):
        engine = [None, Ray(workers=2), Ray(workers=1)][turn % 3]
        with open_store(tmp_path / "went.db", noise=SeededNoise(3), engine=engine) as went:
            stored(went, folder, engine, start, start + 2000)
    one, other = (read_store(tmp_path / f"{name}.db") for name in ("stayed", "went"))
    assert one.published == other.published
    assert one.saved.memory == other.saved.memory
    assert len(one.published.releases) > 2
    stayed.close()


def test_rows_that_were_learned_are_not_read_again(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on reads the row groups of its place and what comes after them; what it has
    learned is the same source for a run without a cluster, and the other way round."""
    begun, blocks, stop_at = list[int](), far.RemoteParquet.blocks, 0

    def noting(self: far.RemoteParquet, *places: Any) -> Any:
        found = blocks(self, *places)
        first = next(found)
        begun.append(first[0].block.span.row)
        yield first
        yield from found

    def stop(outcome: RunResult) -> None:
        if outcome.learner.rounds >= stop_at:
            raise KeyboardInterrupt

    monkeypatch.setattr(far.RemoteParquet, "blocks", noting)
    there, store = task(folder, engine="ray", workers=1), tmp_path / "run.db"
    for stop_at in (2500, 5500):
        with pytest.raises(KeyboardInterrupt):
            run(there, stop, store)
        assert stop_at <= read_store(store).published.rounds < stop_at + 900
    for asked in (there, there, task(folder)):
        assert run(asked, lambda outcome: None, store).learner.rounds == ROWS
    first, second, third, fourth = begun
    assert first == 0
    assert 1500 <= second < third < fourth


def test_driver_and_workers_killed_at_any_moment(tmp_path: Path) -> None:
    """The same in `make soak`, more often: nothing lost, nothing doubled, releases go on."""
    found = soak_engine(tmp_path, 3, random.randrange(10**6))
    assert found.moments > 1


COMMAND = ("--class", "rules:version,country", "--label", "failed", "--delta", 1e-6, "--epsilon", 2)


def test_a_command_says_the_same_with_a_cluster_though_a_shard_is_killed(folder: Path) -> None:
    """What Ray has to say of it is not on standard output."""
    code = [sys.executable, "-c", MAIN, "learn", folder, *COMMAND, "--engine", "ray", "--json"]
    process = subprocess.Popen(
        list(map(str, code)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    family = psutil.Process(process.pid)
    while process.poll() is None:
        with suppress(psutil.Error):
            shards = [p for p in family.children(recursive=True) if "ray::Shard" in p.name()]
            if shards:
                shards[0].kill()
                break
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert json.loads(output)["public"]["rounds"] == ROWS
    assert "Traceback" not in errors


def refused(*arguments: object) -> str:
    """The sentence of a command that was refused."""
    done = littlestone("learn", *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


def test_what_cannot_be_is_said_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    ray_ = ("--engine", "ray")
    assert "engine='spark' is unknown" in refused(folder, *COMMAND, "--engine", "spark")
    assert "at least one worker" in refused(folder, *COMMAND, *ray_, "--workers", 0)
    assert "--workers requires --engine ray" in refused(folder, *COMMAND, "--workers", 2)
    assert "no Ray cluster to reach at 'localhost:1'" in refused(
        folder, *COMMAND, "--engine", "ray:localhost:1"
    )
    assert "give HOST:PORT or auto" in refused(folder, *COMMAND, "--engine", "ray:ray://there:1")
    assert "no Parquet file in the folder" in refused(tmp_path, *COMMAND, *ray_)
    scores = tmp_path / "scores.csv"
    scores.write_text("x,y\n" + "3,1\n1,0\n" * 50)
    said = refused(scores, "--class", "thresholds:x:1:7", "--label", "y", *ray_, "--db",
                   tmp_path / "run.db")  # fmt: skip
    assert "PrivateExperts cannot: leave out --engine, or use --learner dpsoa" in said
    assert not (tmp_path / "run.db").exists()


def test_paths_need_not_be_absolute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers may have been started anywhere."""
    expected = here("events", folder)
    monkeypatch.chdir(folder.parent)
    assert there("events", Path(folder.name), Ray(workers=1)) == expected


def test_what_a_cluster_of_ours_leaves_on_disk_is_its_owners(cluster: Any) -> None:
    session = Path(cluster._private.worker._global_node.get_session_dir_path())
    open_to_all = [
        path.name for path in session.rglob("*") if path.is_file() and path.stat().st_mode & 0o077
    ]
    assert open_to_all == []


def test_one_process_has_one_cluster() -> None:
    with pytest.raises(BadParameter, match="connected to another cluster already"):
        ls.DPSOA(ls.Points(), 1, 1e-9, 1000, engine="ray:192.0.2.1:6379")


def test_a_file_that_is_damaged_inside_is_a_sentence(folder: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "days" / "1.parquet", tmp_path / "days" / "2.parquet"
    good.parent.mkdir()
    pq.write_table(pa.table(columns(2000)), good)
    whole = good.read_bytes()
    bad.write_bytes(whole[:100] + bytes(200) + whole[300:])
    with pytest.raises(BadStream, match=r"2\.parquet: the file is damaged"):
        there("events", bad.parent, Ray(workers=2))


def test_a_strict_run_stops_at_a_bad_row(folder: Path) -> None:
    stream = partial(open_remote_rows, Ray(workers=1), label="failed", user=None, strict=True)
    with pytest.raises(BadStream, match=r"row \d+: column 'failed': 'perhaps' is not 0, 1"):
        list(stream(path=str(folder), cls=RULES))


def test_a_file_of_rubbish_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    pq.write_table(pa.table(columns(2000) | {"failed": ["?"] * 2000}), tmp_path / "1.parquet")
    with pytest.raises(BadStream, match="1000 of the first 1000 rows cannot be read"):
        there("events", tmp_path, Ray(workers=1))


def test_nothing_of_the_data_is_in_the_logs(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray writes logs about everything: about rows, also bad ones and lost ones, nothing."""
    rows = columns(3000)
    rows["version"] = [CANARY if v == "4.2.1" else v for v in rows["version"]]
    rows["failed"] = [f"{CANARY}-label" if y == "perhaps" else y for y in rows["failed"]]
    pq.write_table(pa.table(rows), tmp_path / "1.parquet")
    there("events", tmp_path, Ray(workers=2), watched=True)
    logs = Path(cluster._private.worker._global_node.get_session_dir_path(), "logs")
    files = [path for path in logs.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def test_without_ray_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadParameter, match=r"pip install 'littlestone\[ray\]'"):
        ls.DPSOA(ls.Points(), 1, 1e-9, 1000, engine="ray")


def test_the_name_of_an_engine_is_enough() -> None:
    learner = ls.DPSOA(ls.Points(), 4, 1e-6, 2000, engine="ray")
    learner.learn_many(["a", "b"] * 1000, [1, 0] * 1000)
    assert str(learner.hypothesis) == "x = 'a'"
    with pytest.raises(BadParameter, match="engine='dask' is unknown: use ray"):
        ls.DPSOA(ls.Points(), 1, 1e-9, 1000, engine="dask")
