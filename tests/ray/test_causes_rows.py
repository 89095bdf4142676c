"""Causes of remote rows: what one process finds, whatever the blocks, and no row at the driver.

Tasks run in this process here; test_engine.py has them on a cluster.
"""

import pickle
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_checkpoint import MemoryStore

import littlestone as ls
from at_once import Pretended
from littlestone._classes.causes import Causes, Ranges
from littlestone._data.readers import open_rows
from littlestone._data.rounds import Rounds, UsableRounds
from littlestone._hypotheses.causes import OUTCOME, Cause, Condition
from littlestone._learners.matched import Matched, match
from littlestone._privacy.testing import SeededNoise
from littlestone._ray import Ray
from littlestone._ray import rows as far
from littlestone._ray.rows import RemoteRounds, open_remote_rows

pytestmark = pytest.mark.filterwarnings("ignore:delta")

ROWS = 8_000
SHORT = {"LARGEST_BLOCK": 1100}
COLUMNS = Causes(["version", "country", Ranges("age", [18, 30, 65])], width=2)
OUTCOMES = replace(COLUMNS, normal=["0", "fine"])
PLANS: dict[str, tuple[ls.CausesPlan, str | None]] = {
    "events": (ls.CausesPlan.practical(COLUMNS, 8, 1e-5, ROWS - 500, min_rate=0.2), None),
    "auto": (ls.CausesPlan.practical(COLUMNS, 8, 1e-5, ROWS), None),
    "capped": (
        ls.CausesPlan.practical(COLUMNS, 60, 1e-3, ROWS, min_rate=0.2, unit="user", cap=8),
        "device",
    ),
    "outcomes": (
        ls.CausesPlan.practical(OUTCOMES, 60, 1e-3, ROWS, min_rate=0.2, unit="user", cap=8),
        "device",
    ),
}


def class_of(kind: str) -> Causes:
    return OUTCOMES if kind == "outcomes" else COLUMNS


def label_of(kind: str) -> str:
    return "outcome" if kind == "outcomes" else "failed"


def columns(rows: int = ROWS) -> dict[str, list[Any]]:
    """Events with two causes, another one later, and a few that cannot be read."""
    draw = random.Random(4)
    found: dict[str, list[Any]] = {
        name: [] for name in ("version", "country", "age", "device", "failed", "outcome")
    }
    for row in range(rows):
        version, country = draw.choice(["4.2.0", "4.2.1", "4.3"]), draw.choice(["SE", "NO", None])
        age = draw.randrange(90)
        cause = version == "4.2.1" or 18 <= age < 30 if row < rows // 2 else country == "NO"
        failed = draw.random() < (0.7 if cause else 0.02)
        label = "perhaps" if draw.random() < 0.01 else str(int(failed))
        device = "" if draw.random() < 0.01 else f"d{draw.randrange(1100)}"
        # Null rounds have no outcome.
        outcome = {"1": "slow" if version == "4.2.1" else "lost", "perhaps": ""}.get(label, "0")
        row_of = (version, country, age, device, label, outcome)
        for name, value in zip(found, row_of, strict=True):
            found[name].append(value)
    return found


def written(path: Path) -> Path:
    """The events as Parquet files of several sizes, in row groups of several."""
    whole = pa.table(columns())
    for number, (start, end) in enumerate(pairwise([0, 1, 1500, 4000, ROWS])):
        part = whole.slice(start, end - start)
        pq.write_table(part, path / f"{number}.parquet", row_group_size=430)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("events"))


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SHORT.items():
        monkeypatch.setattr(far, name, value)
    monkeypatch.setattr("littlestone._data.rounds.FIRST_BLOCK", 300)


def learner_of(kind: str, **options: Any) -> ls.PrivateCauses:
    return ls.PrivateCauses(class_of(kind), plan=PLANS[kind][0], noise=SeededNoise(3), **options)


def told(learner: ls.PrivateCauses) -> dict[str, Any]:
    """All that must be equal: what is published, what is counted, and what is stored."""
    names = ("releases", "windows", "evidence", "min_rate", "mistakes", "missed", "rounds")
    more = ("null_rounds", "beyond_cap", "ledger", "spent", "final")
    found = {name: getattr(learner, name) for name in names + more}
    with learner.checkpoint() as saved:
        return found | {"memory": saved.memory, "users": saved.users, "state": stored_state(saved)}


def stored_state(saved: Any) -> dict[str, Any]:
    """The state but for the trace, whose samples are at the ends of batches."""
    return {name: part for name, part in saved.state.items() if name != "trace"}


def here(kind: str, folder: Path) -> dict[str, Any]:
    """What is learned without a cluster."""
    learner = learner_of(kind)
    user = PLANS[kind][1]
    with open_rows(folder, class_of(kind), label=label_of(kind), user=user) as rows:
        for block in rows:
            learner.learn(block)
    return told(learner)


def there(kind: str, folder: Path, engine: Ray) -> dict[str, Any]:
    """What is learned of remote rows."""
    learner, user = learner_of(kind, engine=engine), PLANS[kind][1]
    cls, label = class_of(kind), label_of(kind)
    with open_remote_rows(engine, str(folder), cls, label=label, user=user) as rows:
        for block in rows:
            learner.learn(block)
    return told(learner)


@pytest.mark.parametrize("kind", PLANS)
def test_remote_rows_have_the_causes_of_local_ones(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = here(kind, folder)
    assert len(expected["releases"]) > 3
    assert any("age" in str(release.rule) for release in expected["releases"])
    assert len(expected["windows"]) > 5
    assert expected["null_rounds"] > 50
    assert (expected["beyond_cap"] > 100) == (kind in ("capped", "outcomes"))
    assert all("when" in str(r.rule) for r in expected["releases"][1:]) == (kind == "outcomes")
    for largest, workers in ((1100, 3), (9000, 1)):
        monkeypatch.setattr(far, "LARGEST_BLOCK", largest)
        assert there(kind, folder, Pretended(workers=workers)) == expected


def test_no_row_comes_to_the_driver(folder: Path) -> None:
    engine = Pretended(workers=2)
    there("auto", folder, engine)
    assert set(engine.cluster.tasks) == {"read_span", "answer"}


@pytest.mark.parametrize("kind", PLANS)
def test_a_learner_moves_between_here_and_there(kind: str, folder: Path) -> None:
    """Saved every few blocks and resumed elsewhere: as if it had stayed."""
    user, store, learner = PLANS[kind][1], MemoryStore(), learner_of(kind)
    stayed = here(kind, folder)
    cls, options = class_of(kind), dict[str, Any](label=label_of(kind), user=user)
    for turn, start in enumerate(range(0, ROWS, 1700)):
        engine = [None, Pretended(workers=2)][turn % 2]
        if engine is None:
            rows: Any = open_rows(folder, cls, block_rows=500, **options)
        else:
            rows = open_remote_rows(engine, str(folder), cls, **options)
        at = 0
        with rows:
            for block in rows:
                some = block.part(max(0, start - at), min(len(block), max(0, start + 1700 - at)))
                at += len(block)
                if len(some):
                    assert isinstance(some, Rounds) == (engine is None)
                    learner.learn(some)
        store.take(learner)
        learner = learner_of(kind, engine=engine)
        learner.resume(store.whole)
    moved = told(learner)
    for name in ("releases", "windows", "evidence", "mistakes", "missed", "null_rounds", "state"):
        assert moved[name] == stayed[name], name
    assert store.parts == stayed["memory"].parts


def test_a_cap_that_was_ignored_would_be_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: rounds beyond the cap of their user are learned where rows are remote."""
    expected = here("capped", folder)
    real = RemoteRounds.numbered
    monkeypatch.setattr(
        RemoteRounds, "numbered", lambda rows, first, within=None: real(rows, first)
    )
    assert there("capped", folder, Pretended(workers=1))["windows"] != expected["windows"]


def test_parts_of_coded_rounds_are_the_coded_parts() -> None:
    table = columns(400)
    batch: dict[str, Any] = {
        name: np.array(table[name], dtype=object if name != "age" else np.int64)
        for name in ("version", "country", "age")
    }
    answers = np.array([value == "1" for value in table["failed"]])
    number = np.arange(0, 800, 2) + 100
    batch[OUTCOME] = np.array(table["outcome"], dtype=object)
    rounds = UsableRounds(batch, answers, number, number)
    two = (Cause((Condition("version", "4.2.1"),)), Cause((Condition("country", "NO"),)))
    named = (replace(two[0], outcome="slow"), replace(two[1], outcome="lost"))
    draw = np.random.default_rng(1)
    for causes in ((), two, named):
        cls = OUTCOMES if causes == named else COLUMNS
        coded = match(cls, rounds, causes)
        assert same(pickle.loads(pickle.dumps(coded)), coded)
        for start, stop in ((0, 2000), (100, 102), (101, 500), (700, 2000), (300, 300)):
            assert same(
                coded.between(start, stop),
                match(cls, rounds.between(start, stop), causes),
            )
        for share in (0.0, 0.5, 1.0):
            kept = draw.random(400) < share
            assert same(coded.taken(kept), match(cls, rounds.taken(kept), causes))


def same(one: Matched, other: Matched) -> bool:
    arrays: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = [
        (one.number, other.number),
        (one.answers, other.answers),
        (one.counts, other.counts),
        (one.first, other.first),
    ]
    for ours, theirs in zip(one.unmatched, other.unmatched, strict=True):
        arrays += zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True)
    if one.own is not None and other.own is not None:
        arrays.append((one.own, other.own))
    same_kind = (one.own is None) == (other.own is None) or not one.size or not other.size
    return same_kind and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)


def test_an_engine_is_checked_when_the_learner_is_made() -> None:
    with pytest.raises(ls.BadParameter, match="engine='dask' is unknown: use ray"):
        ls.PrivateCauses(COLUMNS, 1, 1e-7, 1000, engine="dask")
