"""The SQLite files that littlestone keeps: created whole or not at all, sealed, and checked.

A file is of a `FileKind`: one learner (`LEARNER`, `_store/serialization.py`) or the budgets of data
sets (`BUDGETS`, `_store/budgets.py`). A `Seal` over all rows is written with every commit, so a file
that does not hold what was written to it is refused.

A learner's file is held open by one process. While it is, or after a crash, the last commits are in
`run.db-wal`, the log of SQLite, and `run.db-mark` says how many commits there are. SQLite itself
takes a log that was removed, cut short or damaged for one with fewer commits, which would be an
older learner. So every commit is counted under the seal, and then in the mark, before anything of it
is published. A file that was not closed, and holds fewer commits than its mark says, or has no mark,
is refused. A clean stop folds the log in, and removes log and mark.
"""

import glob
import hmac
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, TypeVar

from littlestone.errors import LittlestoneError

T = TypeVar("T")
PAUSE = 0.02
# Seconds to wait for another process that holds a lock, or is writing.
PATIENCE = 5.0
BESIDE = ("-wal", "-shm", "-journal", "-mark")
SUM_BYTES = 16
LOST = (
    "{path}: the last commits of {name} are missing. It was not closed, so they are in {name}-wal, "
    "and {name}-wal or {name}-mark was removed, cut short, damaged, or replaced by those of another "
    "file. Nothing was changed. To go on, put {name}-wal and {name}-mark back as they were. If they "
    "are gone for good, what was published last is not known here, and going on would publish again "
    "for the same rows: begin another file with a new budget (docs/limits.md)"
)


class BadStore(LittlestoneError, ValueError):
    """Report a file that is not a store, or another one than expected."""


class OldCopy(BadStore):
    """Report a file that is behind what was published from it."""


@dataclass(frozen=True)
class FileKind:
    """Describe a kind of file: its tables, and what to say of one that cannot be used."""

    name: str
    application: int
    # Of the tables, and of the JSON in them.
    version: int
    schema: str
    # What damage means, and what to do about an older version.
    damage: str
    older: str
    error: type[BadStore] = BadStore
    # Whether one process holds it open, private and with a log; otherwise it is shared.
    is_held: bool = True

    @property
    def mode(self) -> int:
        """Return who may read and write a new file; a process may be told less (`umask`)."""
        return 0o600 if self.is_held else 0o666

    @cached_property
    def layout(self) -> dict[str, tuple[str, list[str]]]:
        """Return the SQL and the columns of each table, by name."""
        with closing(sqlite3.connect(":memory:")) as db:
            db.executescript(self.schema + SEAL_TABLE)
            return {
                name: (sql, [row[1] for row in db.execute(f"PRAGMA table_info({name})")])
                for name, sql in _tables(db).items()
            }

    @cached_property
    def sealed(self) -> dict[str, list[str]]:
        """Return the columns of each table that the seal covers; it cannot cover itself."""
        return {name: columns for name, (_, columns) in self.layout.items() if name != "seal"}

    def damaged(self, path: Path, what: str) -> BadStore:
        """Return the refusal of a file that does not hold what was written to it."""
        together = f", together with {wal_file(path).name}" if _length(wal_file(path)) else ""
        return self.error(f"{path} is damaged ({what}{together}): {self.damage}")

    def refuse_other(self, path: Path, db: sqlite3.Connection) -> None:
        """Refuse a file of another kind, of another version, or with other tables."""
        application, version = (
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if application != self.application:
            raise self.error(f"{path} is a SQLite file, but not {self.name} of littlestone")
        if version != self.version:
            was = "a newer" if version > self.version else "an earlier"
            advice = "upgrade littlestone" if version > self.version else self.older
            raise self.error(
                f"{path} was made by {was} littlestone (schema {version}, this one has "
                f"{self.version}): {advice}"
            )
        if _tables(db) != {name: sql for name, (sql, _) in self.layout.items()}:
            raise self.damaged(path, "its tables are not as they were made")


def _tables(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


# The seal.

SEAL_TABLE = """
CREATE TABLE seal (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL, total BLOB NOT NULL,
                   commits INTEGER NOT NULL, is_open INTEGER NOT NULL) STRICT;
"""


class Seal:
    """Keep a checksum of all rows of a file, and count its commits under it.

    Triggers keep the checksum up to date with every row that is written. The key is a secret that
    stays with what the file holds, wherever it goes; `is_open` says that commits may be in the log.
    """

    def __init__(self, db: sqlite3.Connection, kind: FileKind, key: bytes) -> None:
        self._db, self._kind, self.key = db, kind, key
        self._rows, self.commits, self.is_open = 0, 0, False

    @classmethod
    def of(cls, db: sqlite3.Connection, kind: FileKind) -> "Seal":
        """Return the seal that is in a file."""
        (key,) = db.execute("SELECT key FROM seal").fetchone()
        seal = cls(db, kind, key)
        seal.begin()
        return seal

    @cached_property
    def name(self) -> str:
        """Return a public name of what the file holds, by which it is told from others."""
        # Derived from the secret key by a one-way function: the name is public, the key is not.
        return hmac.new(self.key, b"run", "sha256").hexdigest()[:16]

    def watch(self) -> None:
        """Install the triggers: from now on everything that this connection writes counts."""
        self._db.execute("PRAGMA recursive_triggers = ON")  # else REPLACE deletes without a trigger
        self._db.create_function("row_moved", -1, self._toggle)
        events = {"INSERT": ["NEW"], "DELETE": ["OLD"], "UPDATE": ["OLD", "NEW"]}
        for table, columns in self._kind.sealed.items():
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
        # `repr` tells apart all that SQLite holds here: integers, text, NULL. A blob is a tuple
        # with its length, which nothing else is, and follows as it is: as text it would be longer.
        blobs = [cell for cell in row if isinstance(cell, bytes)]
        cells = repr([(len(cell),) if isinstance(cell, bytes) else cell for cell in row])
        digest = blake2b(cells.encode(), digest_size=SUM_BYTES, key=self.key)
        for blob in blobs:
            digest.update(blob)
        return int.from_bytes(digest.digest())

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

    def write(self, *, is_open: bool = False) -> None:
        """Count a commit and seal it, to be committed with what it covers."""
        self.commits, self.is_open = self.commits + 1, is_open
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
        for table, columns in self._kind.sealed.items():
            if table != leave_out:
                for row in self._db.execute(f"SELECT {', '.join(columns)} FROM {table}"):
                    total ^= self._digest((table, *row))
        return total


# Names and locks.


@contextmanager
def file_lock(file: IO[Any], timeout: float = PATIENCE) -> Iterator[None]:
    """Lock a file inside a `with` block; the lock ends with the process, too."""
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock  # not on every system

    until = time.monotonic() + timeout
    while True:
        try:
            flock(file, LOCK_EX | LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(PAUSE)
    try:
        yield
    finally:
        flock(file, LOCK_UN)


def database_file(path: Path) -> Path:
    """Return the file that a path leads to, if the path is a symbolic link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@lru_cache(maxsize=64)
def wal_file(path: Path) -> Path:
    """Return the log that SQLite keeps beside a database file."""
    return Path(f"{path}-wal")


@lru_cache(maxsize=64)
def mark_file(path: Path) -> Path:
    """Return the file that says how many commits a database file has, until it is closed."""
    return Path(f"{path}-mark")


def identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, which changes if it is replaced; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# Creating a file.


def serialized(kind: FileKind, fill: Callable[[sqlite3.Connection], None]) -> bytes:
    """Return the bytes of a new file, after `fill` has written to its empty tables."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"PRAGMA application_id = {kind.application}")
        db.execute(f"PRAGMA user_version = {kind.version}")
        db.executescript(kind.schema + SEAL_TABLE)
        fill(db)
        # The bytes of a database in memory: no half-written file ever has the final name.
        data = bytearray(db.serialize())
    if kind.is_held:
        data[18:20] = b"\2\2"  # the header bytes of a database with a write-ahead log
    return bytes(data)


def refuse_leftovers(path: Path) -> None:
    """Refuse to begin a file beside the log of another, which SQLite would read into it."""
    leftovers = [Path(f"{path}{end}").name for end in BESIDE if Path(f"{path}{end}").exists()]
    if leftovers and not path.exists():  # else another process has just created it, with these
        raise BadStore(
            f"{path} is not there, but {' and '.join(leftovers)} beside it: the last commits of a "
            "learner whose database file was removed or moved. End it if it is still running. To "
            "go on with that learner, put its file back; if it must not go on, delete these too"
        )


def create_file(path: Path, kind: FileKind, content: bytes) -> None:
    """Create a file that holds all of its content, or none; a file that is there stays."""
    refuse_leftovers(path)
    try:
        _remove_drafts(path)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
        number = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, kind.mode)
        try:
            with open(number, "wb") as file, file_lock(file):
                file.write(content)
                file.flush()
                os.fsync(number)
                os.link(draft, path)  # unlike rename, it fails if there is a file
        finally:
            os.unlink(draft)
        _sync(path.parent)
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}: nothing was begun", str(path)) from None


def _remove_drafts(path: Path) -> None:
    """Remove the drafts of killed processes; a live one has its draft locked."""
    for draft in _drafts(path):
        # A draft that is locked belongs to a live process; open or lock fails, and it stays.
        with suppress(OSError), open(draft, "rb") as file, file_lock(file, timeout=0):
            draft.unlink()


def _drafts(path: Path) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.*.draft"))


def _sync(folder: Path) -> None:
    """Write the names in a folder to disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# Opening a file.


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection that begins transactions explicitly, and works in any one thread."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=PATIENCE,
        check_same_thread=False,
    )


def read_file(path: Path, kind: FileKind, read: Callable[[sqlite3.Connection, Seal], T]) -> T:
    """Return what `read` finds in a sound file, in one transaction that changes nothing."""
    try:
        return _read_once(path, kind, read)
    except BadStore:
        # A writer may have begun or ended while the file was read: one more attempt settles it.
        return _read_once(path, kind, read)


def _read_once(path: Path, kind: FileKind, read: Callable[[sqlite3.Connection, Seal], T]) -> T:
    # What a killed writer of a shared file left is undone by whoever reads next.
    mode = "rw"
    if kind.is_held:
        # Without a log SQLite needs no shared files, so the folder need not be writable. If a
        # writer comes meanwhile, what was read may be torn: the seal does not match then.
        mode = "ro" if _length(wal_file(path)) else "ro&immutable=1"
    # The mark first: a writer may commit meanwhile, and then there are more than it says.
    mark = _read_mark(path)
    with sentences(path, kind), closing(_connected(path, mode)) as db:
        db.execute("BEGIN")
        return read(db, _checked(path, kind, db, mark))


def for_writing(path: Path, kind: FileKind) -> sqlite3.Connection:
    """Return a connection that may write, and whose commits last."""
    _remove_drafts(path)  # of a process that was killed after the link
    _refuse_other_names(path, kind)
    if kind.is_held and _length(wal_file(path)):
        # A connection that may write folds the log in when it is closed, whatever is wrong with
        # both together: so they are checked with one that cannot.
        read_file(path, kind, lambda db, seal: None)
    with ExitStack() as failed:
        db = failed.enter_context(closing(_connected(path, "rw")))
        if kind.is_held:
            # Before anything is written: the file is as sensitive as the rows.
            os.chmod(path, 0o600)
            db.execute("PRAGMA journal_mode = WAL")
            # A commit that a power cut undoes would be decided again with fresh noise: a second
            # release.
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA wal_autocheckpoint = 0")  # `fold_in` does it
            db.execute("PRAGMA cache_spill = OFF")  # the log is written in order, at the COMMIT
        else:
            # A power cut must not undo a draw: EXTRA also syncs the folder after the commit.
            db.execute("PRAGMA synchronous = EXTRA")
        failed.pop_all()  # closed only where a line above has failed
    return db


def begin_writing(path: Path, kind: FileKind, db: sqlite3.Connection) -> Seal:
    """Begin a transaction that writes, and return the seal of the file if that is sound."""
    # IMMEDIATE takes the write lock: mark and file change only with it.
    db.execute("BEGIN IMMEDIATE")
    return _checked(path, kind, db, _read_mark(path))


@contextmanager
def transaction(path: Path, kind: FileKind) -> Iterator[tuple[sqlite3.Connection, Seal]]:
    """Yield a connection to a sound file and its seal; what the block writes is one commit."""
    with sentences(path, kind), closing(for_writing(path, kind)) as db:
        seal = begin_writing(path, kind, db)
        seal.watch()
        before = db.total_changes
        yield db, seal
        if db.total_changes > before:
            seal.write()
        db.execute("COMMIT")
        # In the file itself: what comes next relies on it, also if the log is lost.
        fold_in(path, db)


def fold_in(path: Path, db: sqlite3.Connection) -> None:
    """Write the log into the file; readers that began before the last commit are waited for."""
    until = time.monotonic() + PATIENCE
    while True:
        # Not FULL, which looks for a gap between readers less and less often.
        _, frames, folded = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if frames == folded:
            return
        if time.monotonic() >= until:
            raise BadStore(
                f"{path}: another process is reading the file, and what was committed cannot be "
                "written into it: end the others, and try again"
            )
        time.sleep(PAUSE / 10)


def empty_log(db: sqlite3.Connection) -> None:
    """Write the log into the file and empty it, if nobody is reading."""
    db.execute("PRAGMA busy_timeout = 0")
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")


def _refuse_other_names(path: Path, kind: FileKind) -> None:
    """Refuse a file with hard links: under each name SQLite keeps another log."""
    # A file that is just being created also has its draft's name, until that is removed. Names are
    # counted after drafts: a draft removed in between makes too few names, never too many.
    drafts = sum(identity(draft) == identity(path) for draft in _drafts(path))
    if path.exists() and path.stat().st_nlink - drafts > 1:
        raise kind.error(
            f"{path} has a second name (a hard link). The last commits lie in a log beside one of "
            "them, and under the other the file is an old copy: keep the name that it was used "
            "under, and remove the others"
        )


@contextmanager
def sentences(path: Path, kind: FileKind) -> Iterator[None]:
    """Turn whatever a file raises into a sentence: damaged bytes can raise anything."""
    try:
        yield
    except (LittlestoneError, OSError):
        raise
    except sqlite3.Error as error:
        raise _in_words(path, kind, error) from None
    except Exception as error:
        raise kind.damaged(path, type(error).__name__) from None


def _in_words(path: Path, kind: FileKind, error: sqlite3.Error) -> BadStore:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return kind.error(f"{path} is not {kind.name} of littlestone: {error}")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return kind.error(
            f"{path} is locked: another process has been writing it for {PATIENCE:g} seconds. "
            "Nothing was changed; try again, or end that process"
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) and _length(wal_file(path)):
        return kind.error(
            f"{path}: {error}. Its last commits are in {wal_file(path).name}, and to read them the "
            f"folder must be writable: copy {path.name}, {wal_file(path).name} and "
            f"{mark_file(path).name} to one that is, and read them there"
        )
    kinds = ("CANTOPEN", "READONLY", "FULL", "IOERR", "PERM", "AUTH", "NOMEM")
    if name.startswith(tuple(f"SQLITE_{kind}" for kind in kinds)):
        return kind.error(f"{path}: {error}. Nothing was changed")
    # After "with text" SQLite quotes the file, which is private.
    return kind.damaged(path, str(error).partition(" with text")[0])


def _checked(path: Path, kind: FileKind, db: sqlite3.Connection, mark: str | None) -> Seal:
    """Return the seal of a file, if it holds exactly what was written to it, and all of it."""
    kind.refuse_other(path, db)
    seal = Seal.of(db, kind)
    if not _is_own_log(path, kind, seal):
        raise BadStore(LOST.format(path=path, name=path.name))
    # Not the quick check: a damaged index would hide a batch that was learned.
    (problem,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise kind.damaged(path, problem.splitlines()[-1])
    if not seal.holds():
        raise kind.damaged(path, "a checksum does not match")
    if seal.is_open and not _has_all(seal, mark):
        raise BadStore(LOST.format(path=path, name=path.name))
    return seal


def _is_own_log(path: Path, kind: FileKind, seal: Seal) -> bool:
    """Return whether a file without its log is the same learner, and has no more commits."""
    if not _length(wal_file(path)):
        return True
    with closing(_connected(path, "ro&immutable=1")) as db:
        alone = Seal.of(db, kind)
    return alone.key == seal.key and alone.commits <= seal.commits


# The mark.


def create_mark(path: Path, seal: Seal) -> None:
    """Put a mark beside a file, on disk with the commits so far; call with the write lock."""
    mark_file(path).touch(0o600)
    write_mark(path, seal, sync=True)
    _sync(path.parent)


def write_mark(path: Path, seal: Seal, *, sync: bool = False) -> None:
    """Say how many commits there are: after each of them, before anything of it is published."""
    # Not synced, which would take as long as the commit: a kill cannot undo it, and after a power
    # cut an older mark is there, which is one that the file still satisfies.
    mark = os.open(mark_file(path), os.O_WRONLY)
    try:
        os.write(mark, f"{seal.name} {seal.commits:020}\n".encode())
        if sync:
            os.fsync(mark)
    finally:
        os.close(mark)


def _read_mark(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return mark_file(path).read_text("ascii", "replace")
    return None


def _has_all(seal: Seal, mark: str | None) -> bool:
    """Return whether a file has all commits that its mark knows of; without a mark it has not."""
    run, _, commits = (mark or "").strip().partition(" ")
    return run == seal.name and commits.isdecimal() and seal.commits >= int(commits)
