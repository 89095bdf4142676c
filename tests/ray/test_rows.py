"""Remote rows: what one process learns, whatever the blocks, and no row at the driver.

Tasks run in this process here; test_engine.py has them on a cluster.
"""

from pathlib import Path
from typing import Any

import pytest
from events import (
    KINDS,
    ROWS,
    kinds,
    learned,
    learner_of,
    observed,
    opened,
    shorten_blocks,
    written,
)
from test_checkpoint import MemoryStore

import littlestone as ls
from at_once import Pretended
from littlestone._data.rounds import Rounds
from littlestone._learners.cause_counts import CauseCounts
from littlestone._ray.rows import RemoteRounds

pytestmark = pytest.mark.filterwarnings("ignore:delta")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("events"))


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_blocks(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_remote_rows_are_learned_as_local_ones(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, has_users = learned(kind, folder), kinds()[kind].user is not None
    rules = [str(release.rule) for release in expected["releases"]]
    # A user of causes is read in one epoch, so there is one release.
    assert len(rules) > 2 - (kind == "outcomes, users")
    assert expected["rounds"] == ROWS
    assert expected["null_rounds"] > 50
    assert (expected["beyond_cap"] > 100) == has_users
    if kind in ("causes", "causes, auto"):
        assert any("age" in rule for rule in rules)
        assert len(expected["windows"]) > 5
        assert all("when" in rule for rule in rules[1:]) == (kind == "outcomes, users")
    for largest, workers in ((1100, 3), (9000, 1)):
        shorten_blocks(monkeypatch, largest)
        assert learned(kind, folder, Pretended(workers=workers)) == expected


@pytest.mark.parametrize("kind", ["trees", "experts", "causes, auto"])
def test_no_row_comes_to_the_driver(kind: str, folder: Path) -> None:
    engine = Pretended(workers=2)
    learned(kind, folder, engine)
    # At the end of a window, the one cell that holds the time of its last row.
    more = {"trees": {"scatter"}, "experts": set[str]()}.get(kind, {"time_cell", "count", "add"})
    assert set(engine.cluster.tasks) == {"read_span", "answer"} | more
    assert not any(isinstance(value, Rounds) for value in engine.cluster.fetched)


def test_a_draw_reads_the_same_counts_wherever_negatives_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn may be the same all the same: the counts themselves must be equal."""
    scores, read = CauseCounts.scores, list[tuple[int, Any, Any]]()

    def noting(self: CauseCounts, number: int, fired: bool) -> Any:
        moves = scores(self, number, fired)
        read.append((number, moves.adds.tolist(), moves.drops.tolist()))
        return moves

    monkeypatch.setattr(CauseCounts, "scores", noting)
    learned("causes", folder)
    local = read.copy()
    assert max(len(adds) for _, adds, _ in local) > 10
    for largest in (500, 1100, 9000):
        shorten_blocks(monkeypatch, largest)
        read.clear()
        learned("causes", folder, Pretended(workers=2))
        assert read == local


@pytest.mark.parametrize("kind", KINDS)
def test_a_learner_moves_between_here_and_there(kind: str, folder: Path) -> None:
    """Saved every few blocks and resumed elsewhere: as if it had stayed."""
    store, stayed = MemoryStore(), learned(kind, folder)
    for turn, start in enumerate(range(0, ROWS, 1700)):
        engine, row = [None, Pretended(workers=2), Pretended(workers=3)][turn % 3], 0
        learner = learner_of(kind, engine=engine)
        if turn:
            learner.resume(store.whole)
        with opened(kind, folder, engine) as rows:
            for block in rows:
                part = block.part(max(0, start - row), max(0, start + 1700 - row))
                row += len(block)
                if len(part):
                    learner.learn(part)
        store.take(learner)
    assert observed(learner) | {"memory": store.parts, "users": store.users} == stayed


@pytest.mark.parametrize("kind", ["trees", "trees, users"])
def test_a_block_may_be_learned_in_parts(kind: str, folder: Path) -> None:
    """Messages of one block are joined, but not where each has a cap of its own."""
    learner = learner_of(kind, engine=Pretended(workers=2))
    with opened(kind, folder, Pretended(workers=2)) as rows:
        for block in rows:
            for start in range(0, len(block), 40):
                learner.learn(block.part(start, start + 40))
    assert observed(learner) == learned(kind, folder)


def test_a_cap_that_was_ignored_would_be_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: rounds beyond the cap of their user are learned where rows are remote."""

    def uncapped(self: RemoteRounds, first: int, within: Any = None) -> RemoteRounds:
        return numbered(self, first)

    numbered = RemoteRounds.numbered
    monkeypatch.setattr(RemoteRounds, "numbered", uncapped)
    for kind in ("trees, users", "outcomes, users"):
        assert learned(kind, folder, Pretended(workers=1)) != learned(kind, folder)


def test_an_engine_is_checked_when_the_learner_is_made() -> None:
    with pytest.raises(ls.BadParameter, match="engine='dask' is unknown: use ray"):
        ls.PrivateCauses(ls.Causes(["a"]), 1, 1e-7, 1000, engine="dask")
