"""The file of a store: how it is laid out, connected to and checked."""

import json
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from littlestone.edge.about import About, BadStore, about_from_json
from littlestone.edge.shelf import SCHEMA

APPLICATION, VERSION = 0x4C53746E, 1
PATIENCE = 5.0
"""Seconds to wait for another process that is writing."""


def lay_out(path: Path, about: About) -> None:
    """The tables of a store, and how its learner is to begin."""
    with closing(connected(path, "rw")) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        for statement in SCHEMA.split(";"):
            db.execute(statement)
        begun = json.dumps(about.to_json())
        rows = {"generation": "0", "begun": begun, "key": secrets.token_hex(32)}
        db.executemany("INSERT INTO about VALUES (?, ?)", rows.items())
        db.execute("COMMIT")


def connected(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that begins and ends transactions when told, and works in any one thread."""
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=PATIENCE,
            check_same_thread=False,
        )
    except sqlite3.OperationalError as error:
        raise BadStore(f"{path}: {error}") from None


def checked(path: Path, db: sqlite3.Connection) -> About:
    """How the learner of a file was begun, if it is one of ours and whole."""
    try:
        application, version = (
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if application != APPLICATION:
            raise BadStore(f"{path} is a SQLite file, but not a learner of littlestone")
        if version != VERSION:
            raise BadStore(f"{path} has schema {version}, and this littlestone reads {VERSION}")
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise BadStore(f"{path} is damaged ({found}): put back a copy, and see docs/limits.md")
        (begun,) = db.execute("SELECT value FROM about WHERE name = 'begun'").fetchone()
    except sqlite3.DatabaseError as error:
        raise BadStore(f"{path} is not a learner of littlestone: {error}") from None
    return about_from_json(json.loads(begun))


def generation_of(db: sqlite3.Connection) -> int:
    """How often the file has been opened for writing."""
    (value,) = db.execute("SELECT value FROM about WHERE name = 'generation'").fetchone()
    return int(value)
