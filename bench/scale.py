"""The engine: its speed as a ratio to one process on the same Parquet files, and what it costs.

Prints rounds a second of `littlestone learn` on a folder of Parquet (Rules on five columns of
strings), without an engine and with one and two workers, the start of Ray left out; the bytes that
pass the driver; the share of commits; and the parts of the model in docs/scale.md: the gate alone,
the messages to the shards, and trees.
"""

import io
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow
import pyarrow.parquet
import ray
from ray.cloudpickle import CloudPickler
from rich.console import Console
from rich.table import Table

from bench.clock import seconds
from bench.streams import rows
from littlestone import DPSOA, Plan, Rules
from littlestone._classes.base import HypothesisClass, kinds_of
from littlestone._cli.learn import run as run_task
from littlestone._data.rounds import Numbers, Rounds
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask
from littlestone._learners.forest import Forest
from littlestone._learners.loop import Mistakes
from littlestone._ray import Ray
from littlestone._ray.rows import open_remote_rows
from littlestone._store.request import LearnRequest
from littlestone._store.store import Store

ROUNDS, PART, GROUP, TRIES = 2 * 10**7, 10**6, 1 << 17, 2
AIM = 0.6
RULES = Rules(["a", "b", "c", "d", "e"])
SPEC = "rules:a,b,c,d,e"
NOISE = 0.02
STORED = "noise, in a store"
TREES = 100_000


def run() -> None:
    """Print the tables."""
    console = Console(highlight=False, width=100)
    with TemporaryDirectory() as place:
        clean, noisy = Path(place, "clean"), Path(place, "noisy")
        _write(clean, ROUNDS, 0.0)
        _write(noisy, ROUNDS // 2, NOISE)
        console.print(_speed(clean, noisy))
        with _cluster(2):
            for line in (*_bytes(clean, noisy), *_messages(clean), *_commits(noisy)):
                console.print(line)
    for line in (*_gate(), *_trees()):
        console.print(line)


def _write(folder: Path, rounds: int, noise: float) -> None:
    """A day's rows a file, each day other rows with the same cause."""
    for part in range(rounds // PART):
        stream = rows(7, PART, 0.06, noise=noise, part=part)
        assert isinstance(stream.batch, dict)
        table = pyarrow.table({**stream.batch, "y": stream.answers.astype(np.int8)})
        day = folder / f"day={part:02}"
        day.mkdir(parents=True)
        pyarrow.parquet.write_table(table, day / "part.parquet", row_group_size=GROUP)


@contextmanager
def _cluster(cores: int) -> Iterator[None]:
    """A cluster of this machine with so many cores, as far as Ray gives out work."""
    ray.init(address="local", num_cpus=cores, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def _speed(clean: Path, noisy: Path) -> Table:
    title = "Learning from partitioned Parquet, Rules on 5 columns of strings; the ratios count"
    table = Table("stream", "T", "engine", title=title)
    for name in ("rounds/s", "ratio", "aim", "ok"):
        table.add_column(name, justify="right" if name in ("rounds/s", "ratio") else "left")
    for name, folder, rounds in (
        ("clean", clean, ROUNDS),
        ("2 % noise", noisy, ROUNDS // 2),
        (STORED, noisy, ROUNDS // 2),
    ):
        here = rounds / _learned(folder, None, name == STORED)
        table.add_row(name, f"{rounds:.0e}", "none: one process", f"{here:,.0f}", "1.00", "", "")
        for cores, workers in ((1, 1), (2, 1), (2, 2)):
            with _cluster(cores):
                speed = rounds / _learned(folder, workers, name == STORED)
            what = f"{workers} worker{'s' * (workers > 1)}, Ray has {cores} core{'s' * (cores > 1)}"
            aimed = name == "clean" and workers == 1
            table.add_row(
                name, f"{rounds:.0e}", what, f"{speed:,.0f}", f"{speed / here:.2f}",
                f">= {AIM}" if aimed else "",
                ("yes" if speed / here >= AIM else "NO") if aimed else "",
            )  # fmt: skip
        table.add_section()
    return table


def _task(folder: Path, workers: int | None) -> LearnRequest:
    return LearnRequest(
        source=str(folder),
        spec=SPEC,
        label="y",
        epsilon=1.0,
        delta=1e-9,
        engine="ray" if workers else None,
        workers=workers,
    )


def _learned(folder: Path, workers: int | None, stored: bool) -> float:
    task = _task(folder, workers)
    if not stored:
        return seconds(lambda: run_task(task, lambda outcome: None), TRIES)
    with TemporaryDirectory() as place:
        stores = (Path(place, f"{number}.db") for number in count())
        return seconds(lambda: run_task(task, lambda outcome: None, next(stores)), TRIES)


class _Sizer(CloudPickler):
    """Pickles as Ray does; an address is 28 bytes."""

    def persistent_id(self, value: object) -> object:
        return value.binary() if isinstance(value, ray.ObjectRef) else None


@dataclass
class _Meter:
    """In the place of the module ray: counts the bytes of what the driver sends and gets. Ray's own
    messages are not in it."""

    sent: int = 0
    got: int = 0

    def get(self, asked: Any) -> Any:
        found = ray.get(asked)
        self.got += _size(found)
        return found

    def put(self, value: Any) -> Any:
        self.sent += _size(value)
        return ray.put(value)

    def remote(self, thing: Any) -> "_Metered":
        return _Metered(self, ray.remote(thing))

    def __getattr__(self, name: str) -> Any:
        return getattr(ray, name)


@dataclass
class _Metered:
    """A task, or an actor, or what is asked of one."""

    meter: _Meter
    inner: Any

    def remote(self, *arguments: Any) -> Any:
        self.meter.sent += _size(arguments)
        found = self.inner.remote(*arguments)
        return found if isinstance(found, ray.ObjectRef | list) else _Metered(self.meter, found)

    def options(self, **options: Any) -> "_Metered":
        return _Metered(self.meter, self.inner.options(**options))

    def __getattr__(self, name: str) -> "_Metered":
        return _Metered(self.meter, getattr(self.inner, name))


def _size(value: Any) -> int:
    buffer = io.BytesIO()
    sizer: Any = _Sizer
    sizer(buffer).dump(value)
    return len(buffer.getbuffer())


@dataclass(frozen=True)
class _Counted(Ray):
    """The engine, with a meter."""

    meter: _Meter = field(default_factory=_Meter)

    def connected(self) -> Any:
        return self.meter


def _bytes(clean: Path, noisy: Path) -> Iterator[str]:
    for folder in (clean, noisy):
        engine = _Counted(workers=2)
        with open_remote_rows(
            engine, str(folder), RULES, label="y", user=None, strict=False
        ) as far:
            assert far.length is not None
            plan = Plan.practical(RULES, 1, 1e-9, far.length)
            learner = DPSOA(RULES, plan=plan, engine=engine)
            for block in far:
                learner.learn(block)
        held = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / far.length
        sent, got = engine.meter.sent / far.length, engine.meter.got / far.length
        yield (
            f"{folder.name}: through the driver {sent:.3f} bytes a round out, {got:.3f} in; "
            f"in the files {held:.1f}"
        )


def _messages(folder: Path) -> Iterator[str]:
    """What it takes to send a block of rows to the shards, and to count their votes."""
    plan, truth = Plan.practical(RULES, 1, 1e-9, ROUNDS), rows(7, 1, 0.06).truth
    assert truth is not None
    for workers in (1, 2):
        engine = Ray(workers=workers)
        far = open_remote_rows(engine, str(folder), RULES, label="y", user=None, strict=False)
        with far:
            block = next(block for block in far if len(block) == 1 << 17)
        forest = engine.create_forest(RULES, plan.shapes, 7, "learns", True)
        for active in (1, plan.trees // 10, plan.trees):
            took = seconds(partial(_message, forest, truth, block, active), 5)
            yield (
                f"workers: {workers}; a block of {len(block):,} rounds, {active} of {plan.trees} "
                f"trees active, learned and its votes counted: {1000 * took:.0f} ms"
            )


def _message(forest: Any, rule: Hypothesis, block: Any, active: int) -> None:
    forest.restart(rule)
    forest.active[:active] = True
    forest.learn_remote(block.numbered(0, None))
    _ = forest.votes


def _commits(folder: Path) -> Iterator[str]:
    """What could be gained by committing a block while the next one is learned."""
    times: list[float] = []
    commit = Store._commit

    def timed(store: Store) -> None:
        times.append(seconds(partial(commit, store), 1))

    with TemporaryDirectory() as place, patch.object(Store, "_commit", timed):
        task = _task(folder, 2)
        took = seconds(lambda: run_task(task, lambda outcome: None, Path(place, "run.db")), 1)
    yield (
        f"noise, in a store, 2 workers: {len(times)} commits, {sum(times) / took:.1%} of the time"
    )


class _Known:
    """A batch of which the mistakes are known: what is left is the gate."""

    def __init__(self, wrong: Numbers, start: int, stop: int) -> None:
        self._wrong, self._start, self._stop = wrong, start, stop
        self.has_users = False

    def __len__(self) -> int:
        return self._stop - self._start

    def between(self, start: int, stop: int) -> "_Known":
        first, last = np.searchsorted(self._wrong, [start, stop])
        return _Known(self._wrong[first:last], start, stop)

    def apply(self, function: Any, cls: HypothesisClass, published: Hypothesis) -> Mistakes:
        return Mistakes(self._wrong)

    def update(self, state: Any) -> None:
        pass

    def numbered(self, first: int, within: Mask | None) -> "_Known":
        return self

    def null_rounds(self, within: Mask | None) -> int:
        return 0


def _gate() -> Iterator[str]:
    draw = np.random.default_rng(1)
    for noise in (0.0, NOISE):
        plan = Plan.practical(RULES, 1, 1e-9, ROUNDS)
        wrong = np.flatnonzero(draw.random(ROUNDS) < noise * 0.9)

        def gate(plan: Plan = plan, wrong: Any = wrong) -> None:
            rounds: Any = _Known(wrong, 0, ROUNDS)
            DPSOA(RULES, plan=plan).learn(rounds)

        took = seconds(gate, TRIES)
        yield f"the gate alone, {noise:.0%} noise: {ROUNDS / took:,.0f} rounds a second"


def _trees() -> Iterator[str]:
    tracemalloc.start()
    forest = Forest(RULES, [1] * TREES, 7, replant=True)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    first = RULES.hypothesis(RULES.start())
    assert first is not None
    took = seconds(lambda: forest.restart(first), 3)
    row = dict.fromkeys(RULES.columns, "v12345")
    forest.learn(Rounds(as_batch([row], kinds_of(RULES)), np.array([True])))
    kept = max(len(forest.saved(number)) for number in forest.share)
    yield (
        f"trees: {held / TREES:,.0f} bytes each, {1e6 * took / TREES:.1f} us each to begin an "
        f"epoch, {kept} bytes to keep one that learned one row"
    )
