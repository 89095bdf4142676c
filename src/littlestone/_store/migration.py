"""Migration of a store that an earlier littlestone wrote, in one transaction.

Promises: a process may die at any instruction and leaves the file as it was or migrated whole.
Whoever had the file open before can commit no more. What is migrated goes on as a learner of the
same class with what is left of the same budget (docs/guarantee.md, Theorem 12); what cannot go on
so is refused with the reason, is left as it is, and can still be read.

Version 2 is that of the commits before 0.2.0. Some of them had a tolerance instead of a change
cost; their JSON is rewritten here. The tables of versions 2 and 3 are the same.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from littlestone._store.files import VERSION, checked_file, schema_version, step_generation
from littlestone._store.serialization import BadStore, load, run_config_from_json

Json = dict[str, Any]


def migrate(path: Path, db: sqlite3.Connection) -> None:
    """Migrate a file of an earlier version, in a transaction of its own."""
    if schema_version(db) == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        if (unsupported := _rewrite(path, db) or _why_not_resumed(db)) is not None:
            raise BadStore(
                f"{path} was written by an earlier littlestone, and {unsupported}: it can be read, "
                "and continued only with the littlestone that wrote it"
            )
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


@contextmanager
def migrated(path: Path, db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Yield a connection to what a file would be in this version, without writing to the file."""
    if schema_version(db) >= VERSION:
        yield db
        return
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        db.backup(copy)
        _rewrite(path, copy)  # also one that cannot go on can be read
        yield copy


def _rewrite(path: Path, db: sqlite3.Connection) -> str | None:
    """Rewrite what another version wrote; return why it cannot go on, if so."""
    seal = checked_file(path, db).seal
    unsupported: str | None = None
    # One version after the other: each step knows the next version only.
    for version in range(schema_version(db), VERSION):
        unsupported = unsupported or STEPS[version](db)
    # An earlier version reads the generation before every commit: it must not write any more.
    step_generation(db)
    db.execute("INSERT OR REPLACE INTO about VALUES ('schema', ?)", [str(VERSION)])
    seal.renew()
    db.execute(f"PRAGMA user_version = {VERSION}")  # part of the transaction, as all of it
    return unsupported


def _why_not_resumed(db: sqlite3.Connection) -> str | None:
    """Return why no learner of this version can go on from what is in the file, if so."""
    # Before the COMMIT, after which the earlier version could not go on with it either. The learner
    # is thrown away: it draws nothing, and nothing of it is published.
    try:
        (text,) = db.execute("SELECT value FROM about WHERE name = 'begun'").fetchone()
        about = run_config_from_json(json.loads(text))
        about.chosen.make(about.cls, about.seed, watched=True).resume(load(db))
    except Exception as error:
        return f"its learner has another state now ({type(error).__name__})"
    return None


def _from_2(db: sqlite3.Connection) -> str | None:
    (text,) = db.execute("SELECT value FROM about WHERE name = 'begun'").fetchone()
    begun: Json = json.loads(text)
    if "tolerance" not in begun["terms"]:
        return None  # a later commit of version 2, which differs in nothing but the number
    tolerance = begun["terms"].pop("tolerance")
    (text,) = db.execute("SELECT state FROM live").fetchone()
    state: Json = json.loads(text)
    begun["terms"]["change_cost"] = 0.0
    begun["terms"].setdefault("negative", [])
    _CONVERTED[begun["chosen"]["learner"]](begun["chosen"]["plan"], state, db)
    values = ("begun", json.dumps(begun))
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", values)
    db.execute("UPDATE live SET state = ?", [json.dumps(state)])
    if tolerance:
        return f"has a tolerance ({tolerance}), which learners have no more"
    if state["gate"]["kind"] == "HistSparse":
        return "protects users without a cap by votes that are counted in another way now"
    return None


def _convert_causes(plan: Json, state: Json, db: sqlite3.Connection) -> None:
    # Without a change cost the margin is always 0, which is the learner as it was.
    plan["change_cost"] = "0"
    gate = state["gate"]["live"]["gate"]
    if gate is not None:
        gate["live"]["margin"] = 0


def _convert_experts(plan: Json, state: Json, db: sqlite3.Connection) -> None:
    del plan["tolerance"], plan["restart_every"]
    # Without a change cost nothing is charged and no draw stays: the learner as it was.
    plan |= {"change_cost": "0", "min_rate": "1/2", "stay_nats": "0", "free_charges": "0"}


def _convert_forest(plan: Json, state: Json, db: sqlite3.Connection) -> None:
    del plan["tolerance"], plan["restart_every"]
    gate = state["gate"]
    if gate["kind"] != "MistakesGate":
        return
    # From here on epochs also compare known rules: the same cost, by Theorem 7. Thresholds and the
    # kind of an epoch stay functions of the transcript.
    gate["kind"] = "SettlingGate"
    gate["live"] |= {"comparing": False, "has_compared": False, "given_up": []}
    state["runner"]["counts"] = {}
    # Trees begin an epoch from another state now. Those of the open epoch are grown anew, without
    # the rows before: a vote less, whatever the rows were.
    db.execute("DELETE FROM parts")


_CONVERTED: dict[str, Callable[[Json, Json, sqlite3.Connection], None]] = {
    "PrivateCauses": _convert_causes,
    "PrivateExperts": _convert_experts,
    "DPSOA": _convert_forest,
}
STEPS: dict[int, Callable[[sqlite3.Connection], str | None]] = {2: _from_2}
