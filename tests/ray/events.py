"""Events as partitioned Parquet, and learners of them: with their rows here, or on a cluster."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import littlestone as ls
from littlestone._data import rounds
from littlestone._data.readers import RowReader, open_rows
from littlestone._privacy.testing import SeededNoise
from littlestone._ray import Ray
from littlestone._ray import rows as far

ROWS = 8_000
RULES = ls.Rules(["version", "country", "day"])
CAUSES = ls.Causes(["version", "country", ls.Ranges("age", [18, 30, 65])], width=2)
AGES = ls.Intervals(0, 100, 5, column="age")
OUTCOMES = replace(CAUSES, normal=["0", "fine"])


class Kind(NamedTuple):
    """What is learned, of which columns."""

    learner: Any
    plan: Any
    label: str
    user: str | None = None

    @property
    def cls(self) -> Any:
        named = {ls.DPSOA: RULES, ls.PrivateExperts: AGES}
        return named.get(self.learner) or (OUTCOMES if self.user else CAUSES)


@cache
def kinds() -> dict[str, Kind]:
    """Learners with trees, experts and causes; the horizon of the first of each is before the end."""
    trees, causes = ls.Plan.practical, ls.CausesPlan.practical
    users: dict[str, Any] = {"unit": "user", "cap": 10}
    of_users: dict[str, Any] = {"min_rate": 0.2, "unit": "user", "cap": 8}
    return {
        "trees": Kind(ls.DPSOA, trees(RULES, 2, 1e-6, ROWS - 500), "broken"),
        "trees, users": Kind(ls.DPSOA, trees(RULES, 400, 1e-3, ROWS, **users), "failed", "device"),
        "experts": Kind(
            ls.PrivateExperts,
            ls.ExpertsPlan.practical(AGES, 2, ROWS - 500, min_rate=0.3, change_cost=0),
            "failed",
        ),
        "causes": Kind(
            ls.PrivateCauses, causes(CAUSES, 8, 1e-5, ROWS - 500, min_rate=0.2), "failed"
        ),
        "causes, auto": Kind(ls.PrivateCauses, causes(CAUSES, 8, 1e-5, ROWS), "failed"),
        "outcomes, users": Kind(
            ls.PrivateCauses,
            causes(OUTCOMES, 60, 1e-3, ROWS, **of_users | {"cap": 1}),
            "outcome",
            "device",
        ),
    }


KINDS = ("trees", "trees, users", "experts", "causes", "causes, auto", "outcomes, users")


def columns(rows: int = ROWS) -> dict[str, list[Any]]:
    """Events with causes that change half-way, and a few that cannot be read."""
    draw = random.Random(4)
    names = ("version", "country", "age", "device", "broken", "failed", "outcome")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for row in range(rows):
        version, country = draw.choice(["4.2.0", "4.2.1", "4.3"]), draw.choice(["SE", "NO", None])
        age, early = draw.randrange(90), row < rows // 2
        broken = version == "4.2.1" if early else country == "NO"
        failed = draw.random() < (0.7 if broken or (early and 18 <= age < 30) else 0.02)
        unknown = draw.random() < 0.01
        outcome = "" if unknown else ("slow" if version == "4.2.1" else "lost") if failed else "0"
        device = "" if draw.random() < 0.01 else f"d{draw.randrange(600)}"
        labels = ["perhaps" if unknown else str(int(label)) for label in (broken, failed)]
        cells = (version, country, age, device, *labels, outcome)
        for name, value in zip(names, cells, strict=True):
            found[name].append(value)
    return found | {"at": [1_700_000_000 + row for row in range(rows)]}


def written(folder: Path) -> Path:
    """The events in files of several sizes, in row groups of several, and what is left of a job."""
    whole = pa.table(columns())
    for number, (start, end) in enumerate(pairwise([0, 1, 1500, 1500, 4000, ROWS])):
        day = folder / f"day={number}"
        day.mkdir()
        pq.write_table(whole.slice(start, end - start), day / "part.parquet", row_group_size=430)
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part.parquet").write_bytes(b"half written")
    return folder


def shorten_blocks(patch: pytest.MonkeyPatch, largest: int = 700) -> None:
    """Have many blocks, most of them of several row groups."""
    patch.setattr(rounds, "FIRST_BLOCK", 300)
    patch.setattr(far, "LARGEST_BLOCK", largest)


def learner_of(kind: str, **options: Any) -> Any:
    make, plan = kinds()[kind].learner, kinds()[kind].plan
    more = {} if make is ls.PrivateCauses else {"seed": 5}
    return make(kinds()[kind].cls, plan=plan, noise=SeededNoise(3), **more, **options)


def opened(kind: str, folder: Path, engine: Ray | None) -> RowReader[Any]:
    """The rows, here or on a cluster."""
    of = kinds()[kind]
    asked: dict[str, Any] = {"label": of.label, "user": of.user}
    asked["time"] = "at" if isinstance(of.cls, ls.Causes) else None
    if engine is None:
        return open_rows(folder, of.cls, **asked, block_rows=500)
    return far.open_remote_rows(engine, str(folder), of.cls, **asked)


def learned(
    kind: str,
    folder: Path,
    engine: Ray | None = None,
    before: Callable[[int], None] = lambda number: None,
    **options: Any,
) -> dict[str, Any]:
    """What is learned of the events; something may happen before each block."""
    learner = learner_of(kind, **options, **({} if engine is None else {"engine": engine}))
    with opened(kind, folder, engine) as rows:
        for number, block in enumerate(rows):
            before(number)
            learner.learn(block)
    return observed(learner)


def observed(learner: Any) -> dict[str, Any]:
    """All that must be equal: what is published, what is counted, and what is stored."""
    names = ("releases", "mistakes", "null_rounds", "beyond_cap", "rounds", "ledger", "spent")
    some = ("final", "votes", "windows", "evidence", "min_rate", "missed")
    found = {name: getattr(learner, name, None) for name in names + some}
    with learner.checkpoint() as saved:
        # Samples of the trace are at the ends of batches.
        state = {name: part for name, part in saved.state.items() if name != "trace"}
        return found | {"memory": saved.memory.parts, "users": saved.users, "state": state}
