"""Stores of earlier versions, made by the code of commit 62ec852 on 2,000 made-up rows."""

import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killed import kill_at_every_write
from test_store import contents

from littlestone._data.blocks import Block
from littlestone._store import migration
from littlestone._store.copies import back_up, take_over
from littlestone._store.files import VERSION, generation_of, schema_version
from littlestone._store.serialization import BadStore
from littlestone._store.store import open_store, read_store

pytestmark = pytest.mark.filterwarnings("ignore:delta", "ignore:This process:DeprecationWarning")
EARLIER = Path(__file__).parent / "earlier"
GO_ON = ("causes", "experts", "points")


@pytest.fixture
def earlier(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file of version 2."""
    path = tmp_path / "run.db"
    path.write_bytes(gzip.decompress((EARLIER / f"{request.param}.db.gz").read_bytes()))
    path.chmod(0o600)
    return path


def rows(count: int) -> Block:
    draw = np.random.default_rng(7)
    versions = draw.choice(["4.1", "4.2", "4.3"], count).astype(object)
    columns: dict[str, Any] = {
        "version": versions,
        "country": draw.choice(["SE", "NO"], count).astype(object),
        "score": draw.integers(0, 100, count).astype(float),
    }
    labels = (draw.random(count) < np.where(versions == "4.2", 0.4, 0.02)).astype(np.int8)
    return Block(columns, labels, None, (), 0)


def of_class(block: Block, path: Path) -> Block:
    reads = read_store(path).about.cls.reads
    names = [name for name in block.columns if name in str(reads)]
    return Block({n: block.columns[n] for n in names}, block.labels, None, (), 0)


@pytest.mark.parametrize("earlier", GO_ON, indirect=True)
def test_an_earlier_store_is_read_without_a_change_and_goes_on(earlier: Path) -> None:
    before = earlier.read_bytes()
    shown = read_store(earlier)
    assert earlier.read_bytes() == before
    assert not list(earlier.parent.glob("run.db-*"))
    assert shown.published.rounds == 2000
    with open_store(earlier) as store:
        assert store.published.releases == shown.published.releases
        assert str(store.guarantee) == shown.published.guarantee
        assert store.published.spent == shown.published.spent
        store.learn(of_class(rows(3000), earlier))
        assert store.published.rounds == 5000
        assert store.published.releases[: len(shown.published.releases)] == (
            shown.published.releases
        )
        assert store.spent.epsilon <= store.guarantee.epsilon
    with closing(sqlite3.connect(earlier)) as db:
        assert schema_version(db) == VERSION
    assert read_store(earlier).published.rounds == 5000


def test_every_earlier_learner_is_tried() -> None:
    names = {file.name.partition(".")[0] for file in EARLIER.glob("*.db.gz")}
    assert names == {*GO_ON, "tolerance", "users"}


@pytest.mark.parametrize("earlier", ["tolerance", "users"], indirect=True)
def test_what_cannot_go_on_is_left_as_it_is_and_read(earlier: Path) -> None:
    before = contents(earlier)
    with pytest.raises(BadStore, match="only with the littlestone that wrote it"):
        open_store(earlier)
    assert contents(earlier) == before
    with closing(sqlite3.connect(earlier)) as db:
        assert schema_version(db) == 2
    assert read_store(earlier).published.rounds == 2000


@pytest.mark.parametrize("earlier", ["causes"], indirect=True)
def test_a_learner_of_causes_goes_on_exactly_as_it_was(earlier: Path) -> None:
    """All that version 3 adds to its state is a margin, and without a change cost that is 0."""
    with closing(sqlite3.connect(earlier)) as db:
        (before,) = db.execute("SELECT state FROM live").fetchone()
    with open_store(earlier) as store:
        plan: Any = store.about.chosen.plan
        assert plan.change_cost == 0
        store.learn(of_class(rows(3000), earlier))
        runner: Any = store.learner._runner
        assert runner.gate.gate.margin == 0
    assert "margin" not in before


@pytest.mark.parametrize("earlier", ["points"], indirect=True)
def test_a_migration_that_is_killed_has_happened_or_not(earlier: Path) -> None:
    before = earlier.with_name("before.db")
    shutil.copy(earlier, before)
    found, versions = contents(before), []
    for _ in kill_at_every_write(lambda: open_store(earlier).close()):
        with closing(sqlite3.connect(earlier)) as db:
            versions.append(schema_version(db))
        if versions[-1] == 2:
            assert contents(earlier) == found
        assert read_store(earlier).published == read_store(before).published
    assert set(versions) == {2, VERSION}
    assert versions == sorted(versions)
    open_store(earlier).close()


@pytest.mark.parametrize("earlier", ["points"], indirect=True)
def test_an_earlier_process_that_has_the_file_can_commit_no_more(earlier: Path) -> None:
    """It reads the generation in every transaction, as this version does."""
    with closing(sqlite3.connect(earlier)) as db:
        before = generation_of(db)
        open_store(earlier).close()
        assert generation_of(db) > before + 1


@pytest.mark.parametrize("earlier", ["points"], indirect=True)
def test_a_backup_may_come_before_the_migration(earlier: Path) -> None:
    copy, before = earlier.with_name("copy.db"), earlier.read_bytes()
    back_up(earlier, copy)
    assert earlier.read_bytes() == before
    take_over(copy)
    open_store(copy).close()
    with pytest.raises(BadStore, match="handed over"):
        open_store(earlier)


@pytest.mark.parametrize("earlier", ["points"], indirect=True)
@pytest.mark.parametrize(
    ("version", "said"), [(VERSION + 1, "newer littlestone"), (1, "has schema 1"), (0, "schema 0")]
)
def test_other_versions_are_refused(earlier: Path, version: int, said: str) -> None:
    with closing(sqlite3.connect(earlier)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    for look in (read_store, open_store):
        with pytest.raises(BadStore, match=said):
            look(earlier)


@pytest.mark.parametrize("earlier", ["points"], indirect=True)
def test_a_damaged_earlier_store_is_not_migrated(earlier: Path) -> None:
    with closing(sqlite3.connect(earlier)) as db:
        db.execute("UPDATE releases SET round = round + 1")
        db.commit()
    with pytest.raises(BadStore, match="checksum"):
        open_store(earlier)
    with closing(sqlite3.connect(earlier)) as db:
        assert schema_version(db) == 2


@pytest.mark.parametrize("earlier", ["experts"], indirect=True)
def test_what_no_learner_could_resume_is_not_migrated(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither version could go on with it."""
    monkeypatch.setitem(migration._CONVERTED, "PrivateExperts", _leave_out_a_field)
    with pytest.raises(BadStore, match="its learner has another state now"):
        open_store(earlier)
    with closing(sqlite3.connect(earlier)) as db:
        assert schema_version(db) == 2


def _leave_out_a_field(plan: dict[str, Any], state: dict[str, Any], db: object) -> None:
    del plan["tolerance"], plan["restart_every"]
