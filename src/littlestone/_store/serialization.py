"""Serialization: a learner and its configuration in the tables of a SQLite file. Never pickle.

Everything here runs inside a transaction of the store. A batch writes only what it changed: parts
of the learner's state, new releases, samples that came or went.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from littlestone._hypotheses.rules import Hypothesis, rule_from_json
from littlestone._learners.base import Checkpoint, Release
from littlestone._learners.loop import ChangedState
from littlestone._learners.trace import Entry, Sample, Thinned
from littlestone._store.files import FileKind

OLD_COPY = (
    "the file is an old copy: somebody has seen rules, or rounds, that it does not know. Learning "
    "on would release twice. Put the newest file back, or begin another with a new budget"
)


SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE live (one INTEGER PRIMARY KEY CHECK (one = 1), state TEXT NOT NULL,
                   public TEXT NOT NULL) STRICT;
CREATE TABLE parts (number INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;
CREATE TABLE users (route INTEGER PRIMARY KEY, rounds INTEGER NOT NULL) STRICT;
CREATE TABLE releases (number INTEGER PRIMARY KEY, round INTEGER NOT NULL,
                       rule TEXT NOT NULL) STRICT;
CREATE TABLE trace (kept INTEGER, number INTEGER, round INTEGER NOT NULL, mistakes INTEGER NOT NULL,
                    votes TEXT NOT NULL, PRIMARY KEY (kept, number)) STRICT, WITHOUT ROWID;
CREATE TABLE batches (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, digest BLOB NOT NULL,
                      first INTEGER NOT NULL, rounds INTEGER NOT NULL,
                      nulls INTEGER NOT NULL) STRICT;
CREATE TABLE sources (number INTEGER PRIMARY KEY, entry TEXT NOT NULL) STRICT;
"""
LEARNER = FileKind(
    name="a learner",
    application=0x4C53746E,
    version=7,
    schema=SCHEMA,
    damage="what it holds cannot be trusted, and nothing was changed. An older copy of it would "
    "publish again for the same rows: begin another file with a new budget (docs/limits.md)",
    older="go on with the littlestone that wrote it, or begin another file with a new budget",
)
# Users are numbered from 0 to 2^64, and integers of SQLite begin at -2^63.
HALF = 1 << 63


def write(
    db: sqlite3.Connection, saved: Checkpoint, public: str, releases: Sequence[Release]
) -> None:
    """Write what has changed of a learner, and the releases that are new."""
    db.execute("INSERT OR REPLACE INTO live VALUES (1, ?, ?)", [json.dumps(saved.state), public])
    # A new epoch: what its trees had learned is gone.
    if saved.memory.cleared:
        db.execute("DELETE FROM parts")
    # No statement without rows: each lets another thread run, for which the writer then waits.
    if saved.memory.parts:
        db.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?)", saved.memory.parts.items())
    if saved.users:
        users = ((route - HALF, rounds) for route, rounds in saved.users.items())
        db.executemany("INSERT OR REPLACE INTO users VALUES (?, ?)", users)
    if releases:
        rows = ((release.round, _rule_text(release.rule)) for release in releases)
        db.executemany("INSERT INTO releases (round, rule) VALUES (?, ?)", rows)
    if saved.trace.gone:
        db.executemany("DELETE FROM trace WHERE kept = ? AND number = ?", saved.trace.gone)
    if saved.trace.new:
        db.executemany("INSERT INTO trace VALUES (?, ?, ?, ?, ?)", map(_sampled, saved.trace.new))


def load(db: sqlite3.Connection) -> Checkpoint:
    """Return the whole learner that is in the file."""
    (live,) = db.execute("SELECT state FROM live").fetchone()
    parts = dict(db.execute("SELECT number, state FROM parts"))
    users = {route + HALF: rounds for route, rounds in db.execute("SELECT * FROM users")}
    return Checkpoint(
        json.loads(live),
        ChangedState(True, parts),
        users,
        releases(db),
        Thinned((), tuple(_entries(db))),
    )


def releases(db: sqlite3.Connection) -> tuple[Release, ...]:
    """Return every release, in order."""
    rows = db.execute("SELECT round, rule FROM releases ORDER BY number")
    return tuple(Release(number, rule_from_json(json.loads(rule))) for number, rule in rows)


def _sampled(entry: Entry) -> tuple[Any, ...]:
    number, mistakes, votes = entry.sample
    written = ", ".join(f"[{_rule_text(rule)}, {count}]" for rule, count in votes)
    return (*entry.place, number, mistakes, f"[{written}]")


@lru_cache(maxsize=64)
def _rule_text(rule: Hypothesis) -> str:
    """Return a rule as JSON: one that stands is written with every sample."""
    return json.dumps(rule.to_json())


def _entries(db: sqlite3.Connection) -> Iterator[Entry]:
    rows = db.execute("SELECT kept, number, round, mistakes, votes FROM trace ORDER BY round, kept")
    for kept, number, rounds, mistakes, written in rows:
        votes = tuple((rule_from_json(rule), count) for rule, count in json.loads(written))
        yield Entry(Sample(rounds, mistakes, votes), bool(kept), number)


def generation_of(db: sqlite3.Connection) -> int:
    """Return how many times the file has been opened for writing."""
    (value,) = db.execute("SELECT value FROM about WHERE name = 'generation'").fetchone()
    return int(value)


def step_generation(db: sqlite3.Connection) -> None:
    """Count an opening for writing: whoever holds the generation before can commit no more."""
    db.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")
