"""Causes on a Ray cluster: two workers beside one process on the same Parquet files, and the bytes.

18 million rows of five columns of text, causes of width 3, learned plain and in a store. Both sides
use the same addressed noise, and must publish the same. A try of one side follows one of the other,
and the best of each counts; the start of Ray is left out. On a busy machine more processes get more
time: processor time says what each side needs, whoever else runs. From it follows what two idle cores
would do, and a cluster of many nodes.
"""

import io
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow
import pyarrow.parquet
import ray
from ray.cloudpickle import CloudPickler
from rich.table import Table

from bench.causes_speed import NAMES, SIZES
from bench.output import publish, publish_text
from littlestone import PrivateCauses
from littlestone._data.readers import open_rows
from littlestone._privacy.testing import SeededNoise
from littlestone._ray import Ray
from littlestone._ray.rows import open_remote_rows
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import create, open_store

ROWS, PART, GROUP, TRIES, WORKERS = 18 * 10**6, 10**6, 1 << 17, 2, 2
NODES = 100
SPEC = f"causes:{','.join(NAMES)}:3"
AIM = 1.6


def run() -> None:
    """Publish the tables."""
    with TemporaryDirectory() as place:
        folder = Path(place, "events")
        _write(folder)
        stores = (Path(place, f"{number}.db") for number in count())
        ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
        try:
            # Workers import what they need once.
            _learn(folder, Ray(workers=WORKERS), None)
            table, best = _speed(folder, stores)
            publish("scale", table)
            table, received = _bytes(folder, stores)
            publish("scale.bytes", table)
            publish_text("scale.forecast", _forecast(best, received))
        finally:
            ray.shutdown()


def _write(folder: Path) -> None:
    """Write a day's rows a file."""
    for part in range(ROWS // PART):
        draw = np.random.default_rng(part)
        codes = [np.minimum(draw.zipf(1.5, PART), size) - 1 for size in SIZES]
        failed = draw.random(PART) < np.where(codes[1] == 1, 0.3, 0.01)
        columns = {
            name: pyarrow.array([f"v{n:03d}" for n in range(size)]).take(pyarrow.array(column))
            for name, size, column in zip(NAMES, SIZES, codes, strict=True)
        }
        table = pyarrow.table(columns | {"y": failed.astype(np.int8)})
        day = folder / f"day={part}"
        day.mkdir(parents=True)
        pyarrow.parquet.write_table(table, day / "part.parquet", row_group_size=GROUP)


class _Try(NamedTuple):
    """Hold what a run took, in seconds, and what it published."""

    wall: float
    here: float
    workers: float
    published: Any


def _learn(folder: Path, engine: Ray | None, db: Path | None) -> _Try:
    """Learn the files, in one process or on a cluster, plain or in a store."""
    asked = LearnRequest(source=str(folder), spec=SPEC, label="y", epsilon=1.0, delta=1e-7)
    chosen, noise, cls = choose_learner(asked, ROWS), SeededNoise(1), asked.cls
    plan: Any = chosen.plan
    began = _clocks()
    with ExitStack() as stack:
        learned: Any = PrivateCauses(cls, plan=plan, noise=noise, engine=engine)
        if db is not None:
            create(db, asked, chosen, noise=noise).close()
            learned = stack.enter_context(open_store(db, noise=noise, engine=engine))
        rows: Any = (
            open_rows(str(folder), cls, label="y")
            if engine is None
            else open_remote_rows(engine, str(folder), cls, label="y")
        )
        for block in stack.enter_context(rows):
            learned.learn(block)
        learner = learned if db is None else learned.learner
        published = [(release.round, str(release.rule)) for release in learner.releases]
        wall, here, workers = (now - then for then, now in zip(began, _clocks(), strict=True))
        return _Try(wall, here, workers, (published, learner.windows))


def _clocks() -> tuple[float, float, float]:
    """Return the time, the processor time of this process, and that of those Ray has started."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    cluster = sum((spent.user + spent.system for spent in times), 0.0)
    return time.perf_counter(), time.process_time(), cluster


class _Best(NamedTuple):
    """Hold the least seconds of several runs: on the clock, of the driver, of the cluster."""

    wall: float
    here: float
    workers: float


# By kind: one process, and the cluster.
_Sides = dict[str, tuple[_Best, _Best]]


def _speed(folder: Path, stores: Iterator[Path]) -> tuple[Table, _Sides]:
    title = f"Causes of width 3, {ROWS:,} rows of Parquet, on {psutil.cpu_count()} cores"
    table = Table("run", title=title)
    names = ("seconds", "times one process", "processor time of the driver", "of the cluster")
    for name in (*names, "aim"):
        table.add_column(name, justify="right")
    both: _Sides = {}
    for kind in ("plain", "--db"):
        sides: dict[str, list[_Try]] = {"one process": [], f"{WORKERS} workers": []}
        for _ in range(TRIES):
            for engine, tries in zip((None, Ray(workers=WORKERS)), sides.values(), strict=True):
                tries.append(_learn(folder, engine, next(stores) if kind == "--db" else None))
        published = [side.published for tries in sides.values() for side in tries]
        assert all(one == published[0] for one in published), "the releases differ"
        least = [_Best(*(min(t[i] for t in tries) for i in range(3))) for tries in sides.values()]
        both[kind] = alone, _ = least[0], least[1]
        for name, (wall, here, workers) in zip(sides, least, strict=True):
            cells = [f"{wall:.1f}", f"{alone.wall / wall:.2f}", f"{here:.2f}"]
            cells += ["", ""] if name == "one process" else [f"{workers:.2f}", f"{AIM}"]
            table.add_row(f"{kind}, {name}", *cells)
    return table, both


def _forecast(best: _Sides, received: dict[str, float]) -> str:
    """Say what follows from processor time, on two idle cores and on a cluster of many nodes."""
    ideal = {
        kind: WORKERS * one.here / (many.here + many.workers) for kind, (one, many) in best.items()
    }
    alone, many = best["plain"]
    full, stored = ROWS / many.here, ROWS / best["--db"][1].here
    nodes = NODES * ROWS / many.workers
    return (
        f"- Two idle cores would be at best {ideal['plain']:.2f} times (plain) and "
        f"{ideal['--db']:.2f} times (`--db`) as fast as one process: its time, divided by half of "
        "what driver and cluster need together.\n"
        f"- *The driver is full with {many.workers / many.here:.1f} cores of workers.* It needs "
        f"{1e6 / full:.2f} microseconds a round and the cluster {1e6 * many.workers / ROWS:.2f}, so "
        f"it takes {full / 1e6:.1f} million rounds a second. {NODES} nodes with one core each could "
        f"read and match {nodes / 1e6:,.0f} million, and would be idle for "
        f"{1 - full / nodes:.0%} of the time. 10^9 rounds take {1e9 / full:,.0f} seconds so, and "
        f"{1e9 * alone.here / ROWS:,.0f} in one process.\n"
        f"- *The network is not what breaks.* At that speed {received['plain'] * full / 1e6:,.0f} MB "
        f"a second come to the driver. To use all {NODES} nodes it would have to take "
        f"{received['plain'] * nodes / 1e9:.1f} GB a second.\n"
        "- *With `--db`* the hashes of all rows that no cause matches also pass the driver into the "
        f"store: {received['--db']:.0f} bytes a round in all, and {1e6 / stored:.2f} microseconds of "
        f"the driver, so {stored / 1e6:.1f} million rounds a second."
    ).replace("%", " %")


class _Sizer(CloudPickler):
    """Pickles as Ray does; a reference is 28 bytes."""

    def persistent_id(self, value: object) -> object:
        return value.binary() if isinstance(value, ray.ObjectRef) else None


def _size(value: Any) -> int:
    buffer = io.BytesIO()
    sizer: Any = _Sizer
    sizer(buffer).dump(value)
    return len(buffer.getbuffer())


@dataclass
class _Meter:
    """In the place of the module ray: counts what the driver sends and gets, not Ray's messages."""

    sent: dict[str, int] = field(default_factory=dict)
    got: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    made: dict[Any, str] = field(default_factory=dict)

    def put(self, value: Any) -> Any:
        self._note(self.sent, "what is asked", value)
        return ray.put(value)

    def get(self, ref: Any) -> Any:
        value = ray.get(ref)
        # What has come to the driver's node is there: it comes once.
        if ref in self.made:
            self._note(self.got, self.made.pop(ref), value)
        return value

    def remote(self, function: Any) -> "_Metered":
        return _Metered(self, function.__name__, ray.remote(function))

    def _note(self, side: dict[str, int], name: str, value: Any) -> None:
        side[name] = side.get(name, 0) + _size(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(ray, name)


@dataclass
class _Metered:
    """A task, of which the meter knows name and arguments."""

    meter: _Meter
    name: str
    task: Any

    def options(self, **options: Any) -> "_Metered":
        return _Metered(self.meter, self.name, self.task.options(**options))

    def remote(self, *arguments: Any) -> Any:
        meter = self.meter
        meter.calls += 1
        meter._note(meter.sent, "what is asked", arguments)
        refs = self.task.remote(*arguments)
        parts = {"answer": ["answers", "hashes of negatives"], "read_span": ["", "readable rows"]}
        names = parts.get(self.name, ["counts of draws"])
        meter.made |= zip(refs if isinstance(refs, list) else [refs], names, strict=True)
        return refs


@dataclass(frozen=True)
class _Counted(Ray):
    """The engine, with a meter."""

    meter: _Meter = field(default_factory=_Meter, compare=False)

    def connected(self) -> Any:
        return self.meter


def _bytes(folder: Path, stores: Iterator[Path]) -> tuple[Table, dict[str, float]]:
    table = Table("through the driver", title="Bytes a round")
    kinds, meters = ("plain", "--db"), list[_Meter]()
    for kind in kinds:
        engine = _Counted(workers=WORKERS)
        _learn(folder, engine, next(stores) if kind == "--db" else None)
        meters.append(engine.meter)
        table.add_column(kind, justify="right")
    for name in dict.fromkeys(name for meter in meters for name in meter.got):
        table.add_row(f"in: {name}", *(f"{meter.got.get(name, 0) / ROWS:.3f}" for meter in meters))
    table.add_row("out", *(f"{sum(meter.sent.values()) / ROWS:.3f}" for meter in meters))
    table.add_row(
        "tasks for a million rounds", *(f"{meter.calls / ROWS * 1e6:.0f}" for meter in meters)
    )
    held = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / ROWS
    table.add_row("in the files, not through the driver", *[f"{held:.1f}"] * len(kinds))
    received = [sum(meter.got.values()) / ROWS for meter in meters]
    return table, dict(zip(kinds, received, strict=True))
