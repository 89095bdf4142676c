"""The shelf: a learner in the tables of a SQLite file, and back. Never pickle.

Everything here runs inside a transaction of the store. A batch writes what it changed: the parts of
the memory that it touched, new releases, new uses of a mechanism, samples that came or went.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from littlestone.learning.releases import Release
from littlestone.learning.saving import Saved, Unsaved
from littlestone.learning.trace import Entry, Sample, Thinned
from littlestone.privacy.accounting import Event
from littlestone.theory.reading import rule_from_json

SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE live (one INTEGER PRIMARY KEY CHECK (one = 1), state TEXT NOT NULL,
                   public TEXT NOT NULL) STRICT;
CREATE TABLE parts (number INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;
CREATE TABLE users (route INTEGER PRIMARY KEY, shown INTEGER NOT NULL) STRICT;
CREATE TABLE releases (number INTEGER PRIMARY KEY, round INTEGER NOT NULL,
                       rule TEXT NOT NULL) STRICT;
CREATE TABLE ledger (number INTEGER PRIMARY KEY, mechanism TEXT NOT NULL, epsilon TEXT NOT NULL,
                     delta TEXT NOT NULL, epoch INTEGER) STRICT;
CREATE TABLE trace (kept INTEGER, number INTEGER, round INTEGER NOT NULL, mistakes INTEGER NOT NULL,
                    votes TEXT NOT NULL, PRIMARY KEY (kept, number)) STRICT, WITHOUT ROWID;
CREATE TABLE batches (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, digest BLOB NOT NULL,
                      first INTEGER NOT NULL, rounds INTEGER NOT NULL,
                      nulls INTEGER NOT NULL) STRICT;
CREATE TABLE sources (number INTEGER PRIMARY KEY, told TEXT NOT NULL) STRICT;
"""

T = TypeVar("T")
HALF = 1 << 63
"""Users are numbered up to 2^64, and SQLite counts from -2^63."""


def write(db: sqlite3.Connection, saved: Saved, ledger: Sequence[Event], public: str) -> None:
    """Write what has changed of a learner, and what is public of it."""
    db.execute("INSERT OR REPLACE INTO live VALUES (1, ?, ?)", [json.dumps(saved.live), public])
    if saved.memory.cleared:
        db.execute("DELETE FROM parts")
    db.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?)", saved.memory.parts.items())
    users = ((route - HALF, shown) for route, shown in saved.users.items())
    db.executemany("INSERT OR REPLACE INTO users VALUES (?, ?)", users)
    _append(db, "releases", saved.releases, lambda r: (r.round, json.dumps(r.rule.to_json())))
    _append(db, "ledger", ledger, _used)
    db.executemany("DELETE FROM trace WHERE kept = ? AND number = ?", saved.trace.gone)
    db.executemany("INSERT INTO trace VALUES (?, ?, ?, ?, ?)", map(_sampled, saved.trace.new))


def load(db: sqlite3.Connection) -> Saved:
    """The whole learner that is written."""
    (live,) = db.execute("SELECT state FROM live").fetchone()
    parts = dict(db.execute("SELECT number, state FROM parts"))
    users = {route + HALF: shown for route, shown in db.execute("SELECT * FROM users")}
    return Saved(
        json.loads(live),
        Unsaved(True, parts),
        users,
        releases(db),
        Thinned((), tuple(_entries(db))),
    )


def releases(db: sqlite3.Connection) -> tuple[Release, ...]:
    """Every release, in order."""
    rows = db.execute("SELECT round, rule FROM releases ORDER BY number")
    return tuple(Release(number, rule_from_json(json.loads(rule))) for number, rule in rows)


def _append(
    db: sqlite3.Connection, table: str, rows: Sequence[T], written: Callable[[T], tuple[Any, ...]]
) -> None:
    """Write the rows that are not there yet: these tables only grow."""
    (count,) = db.execute(f"SELECT coalesce(max(number) + 1, 0) FROM {table}").fetchone()
    for number, row in enumerate(map(written, rows[count:]), start=count):
        marks = ", ".join("?" * (1 + len(row)))
        db.execute(f"INSERT INTO {table} VALUES ({marks})", (number, *row))


def _used(event: Event) -> tuple[Any, ...]:
    return event.mechanism, str(event.cost.epsilon), str(event.cost.delta), event.epoch


def _sampled(entry: Entry) -> tuple[Any, ...]:
    number, mistakes, votes = entry.sample
    written = json.dumps([[rule.to_json(), count] for rule, count in votes])
    return (*entry.place, number, mistakes, written)


def _entries(db: sqlite3.Connection) -> Iterator[Entry]:
    rows = db.execute("SELECT kept, number, round, mistakes, votes FROM trace ORDER BY round, kept")
    for kept, number, at, mistakes, written in rows:
        votes = tuple((rule_from_json(rule), count) for rule, count in json.loads(written))
        yield Entry(Sample(at, mistakes, votes), bool(kept), number)
