"""Serialization: a learner and its configuration in the tables of a SQLite file. Never pickle.

Everything here runs inside a transaction of the store. A batch writes only what it changed: parts
of the learner's state, new releases, new uses of a mechanism, samples that came or went. A seal
over all rows of all tables is kept up to date with what is written, so that damage is noticed.
"""

import hmac
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from littlestone._classes.base import HypothesisClass
from littlestone._classes.serialization import class_from_json, class_to_json, same_class
from littlestone._classes.specs import parse_spec
from littlestone._hypotheses.rules import rule_from_json
from littlestone._learners.base import ChangedState, Checkpoint, Release
from littlestone._learners.registry import LearnerChoice, learner_choice_from_json
from littlestone._learners.trace import Entry, Sample, Thinned
from littlestone._privacy.accounting import PrivacyEvent
from littlestone._store.request import LearnRequest, StreamTerms
from littlestone.errors import LittlestoneError

OLD_COPY = (
    "the file is an old copy: somebody has seen rules, or rounds, that it does not know. Learning "
    "on would release twice. Put the newest file back, or begin another with a new budget"
)


class BadStore(LittlestoneError, ValueError):
    """Report a file that is not a store, or another one than expected."""


class OldCopy(BadStore):
    """Report a file that is behind what was published from it."""


@dataclass(frozen=True)
class RunConfig:
    """Hold how a learner was begun. It never changes."""

    terms: StreamTerms
    chosen: LearnerChoice
    seed: int
    cls: HypothesisClass
    # The file of budgets, and the data set in it, that the run draws from, if any.
    account: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as JSON data."""
        return {
            "terms": self.terms.to_json(),
            "account": self.account,
            "chosen": self.chosen.to_json(),
            "seed": self.seed,
            "class": class_to_json(self.cls),
        }

    def refuse_other(self, task: LearnRequest, path: Path) -> None:
        """Raise `BadStore` if an option differs from what the learner was begun with."""
        # The class by what it is, not by its text: a table's file may have changed under the same
        # name.
        if "spec" in task.given:
            self._refuse_other_class(task.spec, path)
        asked = task.to_json() | {"seed": task.seed}
        stored = self.terms.to_json() | {"seed": self.seed}
        for name in sorted(task.given & {*asked} - {"spec"}):
            given, begun = asked[name], stored[name]
            if given != begun:
                raise BadStore(
                    f"{path} was begun with --{name.replace('_', '-')} {begun}, not {given}: leave "
                    "it out to go on, or begin another file"
                )

    def _refuse_other_class(self, spec: str, path: Path) -> None:
        # Normal labels are compared with the other options.
        if same_class(parse_spec(spec, self.terms.negative), self.cls):
            return
        if spec != self.terms.spec:
            raise BadStore(
                f"{path} was begun with --class {self.terms.spec}, not {spec}: leave it out to go on, "
                "or begin another file"
            )
        raise BadStore(
            f"{path} was begun with another class under the name {spec}: what it names has changed "
            "since. Leave --class out to go on with the class that the file keeps, or begin "
            "another file"
        )


def run_config_from_json(data: Mapping[str, Any]) -> RunConfig:
    """Return what `RunConfig.to_json` wrote."""
    cls = class_from_json(data["class"])
    chosen = learner_choice_from_json(data["chosen"])
    return RunConfig(StreamTerms(**data["terms"]), chosen, data["seed"], cls, data["account"])


def run_name(key: bytes) -> str:
    """Return a public name of a learner, by which its releases can be told from others'."""
    # Derived from the secret key by a one-way function: the name is public, the key stays secret.
    return hmac.new(key, b"run", "sha256").hexdigest()[:16]


SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE live (one INTEGER PRIMARY KEY CHECK (one = 1), state TEXT NOT NULL,
                   public TEXT NOT NULL) STRICT;
CREATE TABLE parts (number INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;
CREATE TABLE users (route INTEGER PRIMARY KEY, rounds INTEGER NOT NULL) STRICT;
CREATE TABLE releases (number INTEGER PRIMARY KEY, round INTEGER NOT NULL,
                       rule TEXT NOT NULL) STRICT;
CREATE TABLE ledger (number INTEGER PRIMARY KEY, mechanism TEXT NOT NULL, epsilon TEXT NOT NULL,
                     delta TEXT NOT NULL, epoch INTEGER) STRICT;
CREATE TABLE trace (kept INTEGER, number INTEGER, round INTEGER NOT NULL, mistakes INTEGER NOT NULL,
                    votes TEXT NOT NULL, PRIMARY KEY (kept, number)) STRICT, WITHOUT ROWID;
CREATE TABLE batches (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, digest BLOB NOT NULL,
                      first INTEGER NOT NULL, rounds INTEGER NOT NULL,
                      nulls INTEGER NOT NULL) STRICT;
CREATE TABLE sources (number INTEGER PRIMARY KEY, entry TEXT NOT NULL) STRICT;
CREATE TABLE seal (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL, total BLOB NOT NULL,
                   commits INTEGER NOT NULL, is_open INTEGER NOT NULL) STRICT;
"""
SUM_BYTES = 16

T = TypeVar("T")
# Users are numbered from 0 to 2^64, and integers of SQLite begin at -2^63.
HALF = 1 << 63


def _layout() -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the SQL of all tables, and the columns of those that the seal covers."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        tables = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        columns = {
            name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in tables
        }
    # The seal cannot cover itself.
    del columns["seal"]
    return tables, columns


TABLES, SEALED = _layout()


class Seal:
    """Keep a checksum of all rows of a file, and count its commits under it.

    Triggers keep the checksum up to date with every row that is written. The key is a secret that
    stays with the learner, wherever its file goes; `is_open` says that commits may be in the log.
    """

    def __init__(self, db: sqlite3.Connection, key: bytes) -> None:
        self._db, self.key = db, key
        self._rows, self.commits, self.is_open = 0, 0, False

    @classmethod
    def of(cls, db: sqlite3.Connection) -> "Seal":
        """Return the seal that is in a file."""
        (key,) = db.execute("SELECT key FROM seal").fetchone()
        seal = cls(db, key)
        seal.begin()
        return seal

    def watch(self) -> None:
        """Install the triggers: from now on everything that this connection writes counts."""
        self._db.execute("PRAGMA recursive_triggers = ON")  # else REPLACE deletes without a trigger
        self._db.create_function("row_moved", -1, self._toggle)
        events = {"INSERT": ["NEW"], "DELETE": ["OLD"], "UPDATE": ["OLD", "NEW"]}
        for table, columns in SEALED.items():
            for event, sides in events.items():
                rows = (", ".join(f"{side}.{name}" for name in columns) for side in sides)
                moved = "".join(f"SELECT row_moved('{table}', {row}); " for row in rows)
                self._db.execute(
                    f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} "
                    f"BEGIN {moved}END"
                )

    def _toggle(self, *row: Any) -> None:
        """Add or remove a row: an exclusive or is its own inverse, so both are the same."""
        self._rows ^= self._digest(row)

    def _digest(self, row: tuple[Any, ...]) -> int:
        # `repr` tells apart all that SQLite holds here: integers, text, blobs, NULL.
        digest = blake2b(repr(row).encode(), digest_size=SUM_BYTES, key=self.key).digest()
        return int.from_bytes(digest)

    def begin(self) -> None:
        """Start from what is in the file, without what was rolled back since."""
        total, self.commits, is_open = self._db.execute(
            "SELECT total, commits, is_open FROM seal"
        ).fetchone()
        self.is_open = bool(is_open)
        self._rows = int.from_bytes(total) ^ self._digest(self._counted)

    @property
    def _counted(self) -> tuple[Any, ...]:
        return "seal", self.commits, self.is_open

    def write(self, *, is_open: bool | None = None) -> None:
        """Count a commit and seal it, to be committed with what it covers."""
        self.commits += 1
        self.is_open = self.is_open if is_open is None else is_open
        total = (self._rows ^ self._digest(self._counted)).to_bytes(SUM_BYTES)
        self._db.execute(
            "INSERT OR REPLACE INTO seal VALUES (1, ?, ?, ?, ?)",
            [self.key, total, self.commits, self.is_open],
        )

    def holds(self) -> bool:
        """Return whether the file holds exactly the rows that were written."""
        return self._sum() == self._rows

    def digest(self, leave_out: str) -> str:
        """Return a checksum of all rows but those of one table."""
        return self._sum(leave_out).to_bytes(SUM_BYTES).hex()

    def _sum(self, leave_out: str | None = None) -> int:
        total = 0
        for table, columns in SEALED.items():
            if table != leave_out:
                for row in self._db.execute(f"SELECT {', '.join(columns)} FROM {table}"):
                    total ^= self._digest((table, *row))
        return total


def write(
    db: sqlite3.Connection,
    saved: Checkpoint,
    ledger: Sequence[PrivacyEvent],
    public: str,
    *,
    is_longer: bool = True,
) -> None:
    """Write what has changed of a learner."""
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
    if is_longer:
        _append(db, "releases", saved.releases, lambda r: (r.round, json.dumps(r.rule.to_json())))
        _append(db, "ledger", ledger, _used)
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


def _append(
    db: sqlite3.Connection, table: str, rows: Sequence[T], written: Callable[[T], tuple[Any, ...]]
) -> None:
    """Write the rows that are not in the table yet: these tables only grow."""
    (count,) = db.execute(f"SELECT coalesce(max(number) + 1, 0) FROM {table}").fetchone()
    for number, row in enumerate(map(written, rows[count:]), start=count):
        marks = ", ".join("?" * (1 + len(row)))
        db.execute(f"INSERT INTO {table} VALUES ({marks})", (number, *row))


def _used(event: PrivacyEvent) -> tuple[Any, ...]:
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
