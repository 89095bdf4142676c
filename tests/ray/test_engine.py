"""The engine on a real Ray cluster of this machine: the same rules, whoever is killed."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from events import KINDS, ROWS, columns, kinds, learned, opened, shorten_blocks, written
from test_dpsoa import LENGTH, PLANS
from test_shards import after, make
from two_nodes import rounds_in

import littlestone as ls
from commands import MAIN, littlestone
from littlestone._cli.learn import run
from littlestone._data.rounds import BadStream
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone._ray import ClusterLost, Ray
from littlestone._ray import rows as far
from littlestone._ray.cluster import Peer, raise_cause
from littlestone._ray.shards import ShardedForest
from littlestone._report.report import RunResult
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import Store, create, open_store, read_store
from soak import soak_engine

pytestmark = pytest.mark.filterwarnings("ignore:delta")

CANARY = "canary-5301"

# What a process of its own needs to import these tests.
WITH_TESTS = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[Path]:
    """The folder in which the cluster keeps its files."""
    connected = Ray().connected()
    yield Path(connected._private.worker._global_node.get_session_dir_path())
    ray.shutdown()


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_blocks(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("events"))


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_trees_on_a_cluster_learn_rows_from_here(kind: str) -> None:
    expected = after(make("points", kind), "points", LENGTH)
    assert after(make("points", kind, engine=Ray(workers=2)), "points", 40) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_rows_on_a_cluster_are_learned_as_local_ones(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers may have been started anywhere: the path need not be absolute."""
    expected = learned(kind, folder)
    monkeypatch.chdir(folder.parent)
    for workers in (1, 2):
        assert learned(kind, Path(folder.name), Ray(workers=workers)) == expected


def running(name: str) -> list[psutil.Process]:
    """The processes of the cluster that do this now."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found += [process] if name in " ".join(process.cmdline()) else []
    return found


@pytest.mark.parametrize("kind", ["trees", "trees, users"])
def test_a_shard_killed_in_mid_batch_changes_nothing(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a message was sent, before its answer is asked for."""
    expected, send, kills = learned(kind, folder), ShardedForest.send, 0

    def and_kill(forest: ShardedForest, message: Any) -> None:
        nonlocal kills
        send(forest, message)
        for shard in running("ray::Shard")[: kills < 3]:  # none, if it is not back yet
            shard.kill()
            kills += 1

    monkeypatch.setattr(ShardedForest, "send", and_kill)
    assert learned(kind, folder, Ray(workers=2), watched=True) == expected
    assert kills


@pytest.mark.parametrize("kind", ["trees, users", "causes"])
def test_readers_killed_in_mid_block_change_nothing(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks keep nothing: Ray does them again elsewhere."""
    expected, get, kills = learned(kind, folder), far.RemoteParquet.get, 0

    def kill(self: far.RemoteParquet, ref: Any) -> Any:
        nonlocal kills
        tasks = ("ray::read_span", "ray::answer", "ray::count")
        for process in [p for name in tasks for p in running(name)][: kills < 3]:
            process.kill()
            kills += 1
        return get(self, ref)

    monkeypatch.setattr(far.RemoteParquet, "get", kill)
    for _ in range(20):
        assert learned(kind, folder, Ray(workers=2)) == expected
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
    pq.write_table(pa.table(columns(60_000)), tmp_path / "days" / "1.parquet", row_group_size=500)
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


SEEDED = """
from littlestone._cli.main import main
from littlestone._data import rounds
from littlestone._learners import causes
from littlestone._privacy.testing import SeededNoise
from littlestone._ray import rows as far
causes.SystemNoise = lambda: SeededNoise(3)
rounds.FIRST_BLOCK = far.LARGEST_BLOCK = 200
main()
"""


@pytest.mark.slow
def test_a_head_that_is_killed_costs_no_row_and_no_release(tmp_path: Path) -> None:
    """The head node of a cluster takes the control of it along; the same command goes on."""
    (tmp_path / "days").mkdir()
    pq.write_table(pa.table(columns(40_000)), tmp_path / "days" / "1.parquet", row_group_size=500)

    def started(name: str, *engine: str) -> "subprocess.Popen[str]":
        options = ("--class", "causes:version,country:2", "--label", "failed", "--epsilon", "2")
        learn = ["learn", "days", "--db", f"{name}.db", *options, "--delta", "1e-6", *engine]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        code = [sys.executable, "-c", SEEDED, *learn]
        return subprocess.Popen(code, cwd=tmp_path, env=WITH_TESTS, **pipes)

    def ended(process: "subprocess.Popen[str]", *statuses: int) -> None:
        errors = process.communicate()[1]
        assert process.returncode in statuses, errors[-2000:]

    ended(started("alone"), 0)
    expected = read_store(tmp_path / "alone.db").published
    assert len(expected.releases) > 2
    kills, store = 0, tmp_path / "there.db"
    for share in (0.2, 0.6):
        there = started("there", "--engine", "ray", "--workers", "2")
        while there.poll() is None and rounds_in(store) < share * 40_000:
            time.sleep(0.02)
        for process in psutil.Process(there.pid).children(recursive=True):
            with suppress(psutil.Error):
                if process.name() in ("gcs_server", "raylet"):
                    process.kill()
                    kills += 1
        ended(there, 1, 2)  # 1, where Ray ends the process before we can
        between = read_store(store).published
        assert 0 < between.rounds < 40_000
        assert between.releases == expected.releases[: len(between.releases)]
    assert kills == 4
    ended(started("there", "--engine", "ray", "--workers", "2"), 0)
    assert read_store(store).published == expected


def test_a_peer_is_gone_when_it_was_unreachable_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peers = [Peer("gone", server.getsockname(), timeout) for timeout in (0, 3600)]
        assert [peer.is_gone() for peer in peers * 2] == [False] * 4
        server.accept()[0].close()  # the end of a connection, not of the server
        assert [peer.is_gone() for peer in peers] == [False] * 2
    assert [peer.is_gone() for peer in peers] == [True, False]


def test_what_ray_raises_is_a_sentence() -> None:
    """Whatever it is, and wherever: but what went wrong in a task is said as it was said there."""
    errors: Any = ray.exceptions
    for error in (errors.ObjectStoreFullError("full"), errors.LocalRayletDiedError()):
        with pytest.raises(ClusterLost, match=r"the cluster failed: Ray gave up .*What a --db has"):
            raise_cause(error)
    with pytest.raises(BadStream, match="damaged"):
        raise_cause(BadStream("damaged"))


def task(folder: Path, **more: Any) -> LearnRequest:
    """A request for the learner with trees, or for another."""
    asked = {"spec": "rules:version,country,day", "label": "broken", "learner": "dpsoa"}
    return LearnRequest(source=str(folder), epsilon=2, delta=1e-6, **asked | more)


def stored(store: Store, folder: Path, engine: Ray | None, start: int, stop: int) -> None:
    """Have a store learn some of the rows."""
    row = 0
    with opened("trees", folder, engine) as rows:
        for block in rows:
            part = block.part(max(0, start - row), max(0, stop - row))
            row += len(block)
            if len(part):
                store.learn(part)


def test_a_store_moves_between_a_cluster_and_none(tmp_path: Path, folder: Path) -> None:
    """Begun here, gone on with on a cluster, and so on: as if it had stayed."""
    asked = task(folder, seed=5)
    chosen = choose_learner(asked, ROWS)
    with create(tmp_path / "stayed.db", asked, chosen, noise=SeededNoise(3)) as stayed:
        stored(stayed, folder, None, 0, ROWS)
    create(tmp_path / "went.db", asked, chosen, noise=SeededNoise(3)).close()
    for turn, start in enumerate(range(0, ROWS, 2000)):
        engine = [None, Ray(workers=2), Ray(workers=1)][turn % 3]
        with open_store(tmp_path / "went.db", noise=SeededNoise(3), engine=engine) as went:
            stored(went, folder, engine, start, start + 2000)
    one, other = (read_store(tmp_path / f"{name}.db") for name in ("stayed", "went"))
    assert one.published == other.published
    assert one.saved.memory == other.saved.memory
    assert len(one.published.releases) > 2


CAUSES: dict[str, Any] = {"spec": "causes:version,country:2", "label": "failed", "learner": "auto"}


@pytest.mark.parametrize("of_causes", [False, True])
def test_rows_that_were_learned_are_not_read_again(
    of_causes: bool, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on reads the row groups of its place and what comes after them; what it has
    learned is the same source for a run without a cluster, and the other way round."""
    begun, blocks, stop_at = list[int](), far.RemoteParquet.blocks, 0

    def noting(self: far.RemoteParquet, *places: Any) -> Any:
        read = blocks(self, *places)
        first = next(read)
        begun.append(first[0].block.span.row)
        yield first
        yield from read

    def stop(outcome: RunResult) -> None:
        if outcome.learner.rounds >= stop_at:
            raise KeyboardInterrupt

    monkeypatch.setattr(far.RemoteParquet, "blocks", noting)
    here = task(folder, **(CAUSES if of_causes else {}))
    there, store = replace(here, engine="ray", workers=1), tmp_path / "run.db"
    for stop_at in (2500, 5500):
        with pytest.raises(KeyboardInterrupt):
            run(there, stop, store)
        assert stop_at <= read_store(store).published.rounds < stop_at + 900
    for asked in (there, there, here):
        assert run(asked, lambda outcome: None, store).learner.rounds == ROWS
    first, second, third, fourth = begun
    assert first == 0
    assert 1500 <= second < third < fourth


def test_driver_and_workers_killed_at_any_moment(tmp_path: Path) -> None:
    """The same in `make soak`, more often: nothing lost, nothing doubled, releases go on."""
    found = soak_engine(tmp_path, 3, random.randrange(10**6))
    assert found.moments > 1


COMMAND = ("--class", "rules:version,country", "--label", "broken", "--delta", 1e-6, "--epsilon", 2)


def test_a_command_says_the_same_with_a_cluster_though_a_shard_is_killed(folder: Path) -> None:
    """What Ray has to say of it is not on standard output."""
    code = [sys.executable, "-c", MAIN, "learn", folder, *COMMAND, "--engine", "ray", "--json"]
    process = subprocess.Popen(
        list(map(str, code)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    family, shards = psutil.Process(process.pid), list[psutil.Process]()
    while process.poll() is None and not shards:
        with suppress(psutil.Error):
            shards = [p for p in family.children(recursive=True) if "ray::Shard" in p.name()]
            for shard in shards[:1]:
                shard.kill()
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
    for option in (("--delimiter", ";"), ("--encoding", "latin-1"), ("--follow", "--db", "x.db")):
        said = refused(folder, *COMMAND, *ray_, "--horizon", 1000, *option)
        assert f"{option[0]} " in said
        assert "requires" not in said


def test_one_process_has_one_cluster() -> None:
    with pytest.raises(BadParameter, match="connected to another cluster already"):
        ls.DPSOA(ls.Points(), 1, 1e-9, 1000, engine="ray:192.0.2.1:6379")


def test_a_file_that_is_damaged_inside_is_a_sentence(tmp_path: Path) -> None:
    good, bad = tmp_path / "day=1" / "1.parquet", tmp_path / "day=1" / "2.parquet"
    good.parent.mkdir()
    pq.write_table(pa.table(columns(2000)), good)
    whole = good.read_bytes()
    bad.write_bytes(whole[:100] + bytes(200) + whole[300:])
    with pytest.raises(BadStream, match=r"2\.parquet: the file is damaged"):
        learned("trees", tmp_path, Ray(workers=2))


def test_a_strict_run_stops_at_a_bad_row(folder: Path) -> None:
    label, cls = kinds()["trees"].label, kinds()["trees"].cls
    rows = far.open_remote_rows(Ray(workers=1), str(folder), cls, label=label, strict=True)
    with pytest.raises(BadStream, match=r"row \d+: column 'broken': 'perhaps' is not 0, 1"):
        list(rows)


def test_a_file_of_rubbish_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    rubbish = columns(2000) | {"broken": ["?"] * 2000}
    pq.write_table(pa.table(rubbish), tmp_path / "day=1" / "1.parquet")
    with pytest.raises(BadStream, match="1000 of the first 1000 rows cannot be read"):
        learned("trees", tmp_path, Ray(workers=1))


def test_what_a_cluster_of_ours_leaves_on_disk_is_its_owners(session: Path) -> None:
    files = [path for path in session.rglob("*") if path.is_file()]
    assert [path.name for path in files if path.stat().st_mode & 0o077] == []


def test_nothing_of_the_data_is_in_the_logs(tmp_path: Path, session: Path) -> None:
    """Ray writes logs about everything: about rows, also bad ones and lost ones, nothing."""
    rows = columns(3000)
    rows["version"] = [CANARY if v == "4.2.1" else v for v in rows["version"]]
    rows["broken"] = [f"{CANARY}-label" if y == "perhaps" else y for y in rows["broken"]]
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "day=1" / "1.parquet")
    learned("trees", tmp_path, Ray(workers=2), watched=True)
    files = [path for path in (session / "logs").rglob("*") if path.is_file()]
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
