"""A comparison: what was asked for, as cells, run in processes, each written down when it is done.

Promises: what is wrong with the arguments is said before anything is run. With `resume`, every cell
is done exactly once over any number of runs: a finished one is a line of the file, a line that was
torn by a crash is cut off and its cell done again, and a file that is not ours is left alone.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from littlestone.edge.blocks import BadStream, Block
from littlestone.edge.engine import ray_of
from littlestone.edge.readers import open_rows
from littlestone.edge.specs import parse_spec
from littlestone.lab.adversaries import ADVERSARIES
from littlestone.lab.contenders import CONTENDERS
from littlestone.lab.streams import Stream
from littlestone.lab.sweeps import FILE, Cell, Result, result_from_json, run_cell
from littlestone.privacy.exact import BadParameter, planned_delta, planned_epsilon
from littlestone.theory.classes import HypothesisClass

MOST_ROUNDS = 10**8
OURS = '{"cell":'
"""How every line of a file of results begins."""


@dataclass(frozen=True)
class Sweep:
    """What a person asked to compare. With `file` the one stream is that file, which is private."""

    specs: Sequence[str]
    learners: Sequence[str]
    streams: Sequence[str]
    rounds: Sequence[int]
    epsilons: Sequence[float]
    delta: float
    seeds: int
    noise: float = 0.0
    tolerance: float = 0.0
    file: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        _known("learner", self.learners, CONTENDERS)
        _known("stream", self.streams, ADVERSARIES)
        for name, values in (("--rounds", self.rounds), ("--epsilon", self.epsilons)):
            if not values or not all(value > 0 for value in values):
                raise BadParameter(f"{name} is one or more numbers above zero, with commas between")
        if max(self.rounds) > MOST_ROUNDS:
            raise BadParameter(
                f"--rounds is at most {MOST_ROUNDS:,}, not {max(self.rounds):,}: a made-up stream "
                "is held in memory"
            )
        for epsilon in self.epsilons:
            planned_epsilon(epsilon)
        if self.seeds < 1:
            raise BadParameter(f"--seeds is at least 1, not {self.seeds}")
        for name, share in (("--noise", self.noise), ("--tolerance", self.tolerance)):
            if not 0 <= share < 1:
                raise BadParameter(f"{name} is at least 0 and below 1, not {share:g}")
        planned_delta(self.delta)
        if (self.file is None) != (self.label is None):
            raise BadParameter("--file and --label go together: which column is the label?")
        if self.file is not None and (len(self.specs) > 1 or self.noise):
            raise BadParameter("a --file is compared as it is, with one --class and no --noise")

    def cells(self, stream: str | None = None, rounds: int = 0) -> list[Cell]:
        """Every cell, in an order that shows something of each learner early."""
        streams, lengths = (self.streams, self.rounds) if stream is None else ([stream], [rounds])
        ways = product(
            range(1, self.seeds + 1), self.specs, lengths, self.epsilons, streams, self.learners
        )
        return [
            Cell(spec, learner, name, length, epsilon, self.delta, seed, self.noise, self.tolerance)
            for seed, spec, length, epsilon, name, learner in ways
        ]


def _known(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    if not names:
        raise BadParameter(f"name at least one {kind}: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise BadParameter(f"no {kind} is called {name!r}: there are {', '.join(known)}")


def compare(
    sweep: Sweep,
    *,
    resume: Path | None = None,
    workers: int | None = None,
    engine: str | None = None,
    watch: Callable[[int, int, Result | None], None] = lambda done, total, result: None,
) -> list[Result]:
    """The results of all cells, in their order; `watch` is told how many are done, of how many."""
    classes = {spec: parse_spec(spec) for spec in sweep.specs}
    stream, cells = None, sweep.cells()
    if sweep.file is not None and sweep.label is not None:
        name = _digest(sweep.file, resume is not None)
        stream = read_stream(sweep.file, classes[sweep.specs[0]], sweep.label)
        cells = sweep.cells(name, len(stream))
    done = {} if resume is None else finished(resume)
    left = [cell for cell in cells if cell.key not in done]
    watch(len(cells) - len(left), len(cells), None)
    for result in _results(classes, stream, left, workers, engine):
        done[result.cell.key] = result
        if resume is not None:
            _append(resume, result, private=stream is not None)
        watch(sum(cell.key in done for cell in cells), len(cells), result)
    return [done[cell.key] for cell in cells]


def read_stream(file: str, cls: HypothesisClass, label: str) -> Stream:
    """A file as a stream whose truth nobody knows. Rows that cannot be read are left out: this is
    for studying learners, and no promise rests on it."""
    with open_rows(file, cls, label=label) as rows:
        parts = [_usable(block) for block in rows]
    columns = {name: np.concatenate([p.batch[name] for p in parts]) for name in parts[0].batch}
    return Stream(columns, np.concatenate([part.answers for part in parts]), None)


@dataclass(frozen=True)
class _Usable:
    batch: dict[str, np.ndarray]
    answers: np.ndarray


def _usable(block: Block) -> _Usable:
    keep = block.labels >= 0
    batch = {name: column[keep] for name, column in block.columns.items()}
    return _Usable(batch, block.labels[keep].astype(bool))


def _digest(file: str, needed: bool) -> str:
    """The name of a file's stream: it changes with the file."""
    if not Path(file).is_file():
        if needed:
            raise BadStream(f"{file}: only a file that can be read again can be resumed")
        return f"{FILE}{file}"
    with open(file, "rb") as source:
        return f"{FILE}{file}:{hashlib.file_digest(source, 'sha256').hexdigest()[:16]}"


_GIVEN: dict[str, HypothesisClass] = {}
_STREAM: list[Stream | None] = [None]


def _prepare(classes: dict[str, HypothesisClass], stream: Stream | None) -> None:
    """Once a worker: what all of its cells share."""
    warnings.simplefilter("ignore")
    _GIVEN.update(classes)
    _STREAM[0] = stream


def _one(cell: Cell) -> Result:
    return run_cell(_GIVEN[cell.cls], cell, _STREAM[0])


def _results(
    classes: dict[str, HypothesisClass],
    stream: Stream | None,
    cells: list[Cell],
    workers: int | None,
    engine: str | None,
) -> Iterator[Result]:
    """Results as they come, from processes of this machine or from a cluster."""
    if engine is None:
        return _run(classes, stream, cells, workers or os.cpu_count() or 1)
    from littlestone.edge.engine.sweeping import play_on

    return play_on(ray_of(engine, workers), classes, stream, cells)


def _run(
    classes: dict[str, HypothesisClass], stream: Stream | None, cells: list[Cell], workers: int
) -> Iterator[Result]:
    """Results as they come. Workers are started afresh, never forked: a spender does not cross."""
    if not cells:
        return
    pool = ProcessPoolExecutor(
        min(workers, len(cells)), get_context("spawn"), _prepare, (classes, stream)
    )
    try:
        for future in as_completed([pool.submit(_one, cell) for cell in cells]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def finished(path: Path) -> dict[str, Result]:
    """The results in a file, by key; a torn last line is cut off the file."""
    if not path.exists():
        return {}
    text = path.read_bytes()
    whole, _, torn = text.rpartition(b"\n")
    done: dict[str, Result] = {}
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        try:
            result = result_from_json(json.loads(line))
        except (ValueError, KeyError, TypeError):
            raise BadStream(
                f"{path}: line {number} is not a result of `compare`: give --resume another name"
            ) from None
        done[result.cell.key] = result
    start = torn[: len(OURS)].decode("utf-8", "replace")
    if torn and not OURS.startswith(start):
        raise BadStream(f"{path}: this is not a file of `compare`: give --resume another name")
    if torn:
        os.truncate(path, len(text) - len(torn))
    return done


def _append(path: Path, result: Result, private: bool) -> None:
    line = json.dumps(result.to_json(), ensure_ascii=False) + "\n"
    mode = 0o600 if private else 0o666
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode), "a", encoding="utf-8"
    ) as f:
        f.write(line)
