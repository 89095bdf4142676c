"""The files of a store: locked, created whole or not at all, and checked before they are used.

A store is `run.db`. While it is open, or after a crash, the last commits are in `run.db-wal`, the
log of SQLite, and `run.db-mark` says how many commits there are. SQLite itself takes a log that was
removed, cut short or damaged for one with fewer commits, which would be an older learner. So every
commit is counted under the checksum of the file, and then in the mark, before anything of it is
published. A file that was not closed, and holds fewer commits than its mark says, or has no mark,
is refused. A clean stop folds the log in, and removes log and mark.
"""

import glob
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from littlestone._store.serialization import SCHEMA, TABLES, BadStore, Seal, run_name

T = TypeVar("T")
PAUSE = 0.02
# Seconds to wait for another process that holds a lock.
LOCK_TIMEOUT = 5.0
# The version of the schema: that of the tables, and of the JSON in them.
APPLICATION, VERSION = 0x4C53746E, 4
# Seconds to wait for another process that is writing.
PATIENCE = 5.0
BESIDE = ("-wal", "-shm", "-journal", "-mark")
DAMAGED = (
    "{path} is damaged ({what}): what it holds cannot be trusted, and nothing was changed. An "
    "older copy of it would publish again for the same rows: begin another file with a new budget "
    "(docs/limits.md)"
)
LOST = (
    "{path}: the last commits of {name} are missing. It was not closed, so they are in {name}-wal, "
    "and {name}-wal or {name}-mark was removed, cut short, damaged, or replaced by those of another "
    "file. Nothing was changed. To go on, put {name}-wal and {name}-mark back as they were. If they "
    "are gone for good, what was published last is not known here, and going on would publish again "
    "for the same rows: begin another file with a new budget (docs/limits.md)"
)
BUSY = (
    "{path}: another process is reading the file, and what was committed cannot be written into "
    "it: end the others, and try again"
)


@contextmanager
def file_lock(file: IO[Any], timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
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


def wal_file(path: Path) -> Path:
    """Return the log that SQLite keeps beside a database file."""
    return Path(f"{path}-wal")


def mark_file(path: Path) -> Path:
    """Return the file that says how many commits a database file has, until it is closed."""
    return Path(f"{path}-mark")


# Creating a file.


def serialized(fill: Callable[[sqlite3.Connection], None]) -> bytes:
    """Return the bytes of a new database file, after `fill` has written to its empty tables."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.executescript(SCHEMA)
        fill(db)
        # The bytes of a database in memory: no half-written file ever has the final name.
        data = bytearray(db.serialize())
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


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """Create a file from what is written to a draft inside a `with` block, or none at all."""
    refuse_leftovers(path)
    try:
        _remove_drafts(path)
        number, name = tempfile.mkstemp(".draft", f".{path.name}.", path.parent)
        try:
            with open(number, "wb") as file, file_lock(file):
                yield Path(name)
                os.fsync(file.fileno())
                os.link(name, path)  # unlike rename, it fails if there is a file
        finally:
            os.unlink(name)
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


def read_file(path: Path, read: Callable[[sqlite3.Connection, Seal], T]) -> T:
    """Return what `read` finds in a sound file, in one transaction that changes nothing."""
    try:
        return _read_once(path, read)
    except BadStore:
        # A writer may have begun or ended while the file was read: one more attempt settles it.
        return _read_once(path, read)


def _read_once(path: Path, read: Callable[[sqlite3.Connection, Seal], T]) -> T:
    # Without a log SQLite needs no shared files, so the folder need not be writable. If a writer
    # comes meanwhile, what was read may be torn: the seal does not match then.
    mode = "ro" if _length(wal_file(path)) else "ro&immutable=1"
    # The mark first: a writer may commit meanwhile, and then there are more than it says.
    mark = _read_mark(path)
    with reading(path), closing(_connected(path, mode)) as db:
        db.execute("BEGIN")
        return read(db, _checked(path, db, mark))


def for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection that may write, and whose commits last."""
    _remove_drafts(path)  # of a process that was killed after the link
    _refuse_other_names(path)
    if _length(wal_file(path)):
        # A connection that may write folds the log in when it is closed, whatever is wrong with
        # both together: so they are checked with one that cannot.
        read_file(path, lambda db, seal: None)
    db = _connected(path, "rw")
    # Before anything is written: the file is as sensitive as the rows.
    os.chmod(path, 0o600)
    db.execute("PRAGMA journal_mode = WAL")
    # A commit that a power cut undoes would be decided again with fresh noise: a second release.
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 0")  # `fold_in` does it
    db.execute("PRAGMA cache_spill = OFF")  # the log is written in order, at the COMMIT
    return db


def begin_writing(path: Path, db: sqlite3.Connection) -> Seal:
    """Begin a transaction that writes, and return the seal of the file if that is sound."""
    # IMMEDIATE takes the write lock: mark and file change only with it.
    db.execute("BEGIN IMMEDIATE")
    return _checked(path, db, _read_mark(path))


def fold_in(path: Path, db: sqlite3.Connection) -> None:
    """Write the log into the file; readers that began before the last commit are waited for."""
    until = time.monotonic() + PATIENCE
    while True:
        # Not FULL, which looks for a gap between readers less and less often.
        _, frames, folded = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if frames == folded:
            return
        if time.monotonic() >= until:
            raise BadStore(BUSY.format(path=path))
        time.sleep(PAUSE / 10)


def empty_log(db: sqlite3.Connection) -> None:
    """Write the log into the file and empty it, if nobody is reading."""
    db.execute("PRAGMA busy_timeout = 0")
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")


def _refuse_other_names(path: Path) -> None:
    """Refuse a file with hard links: under each name SQLite keeps another log."""
    # A file that is just being created also has its draft's name, until that is removed. Names are
    # counted after drafts: a draft removed in between makes too few names, never too many.
    drafts = sum(identity(draft) == identity(path) for draft in _drafts(path))
    if path.exists() and path.stat().st_nlink - drafts > 1:
        raise BadStore(
            f"{path} has a second name (a hard link). The last commits lie in a log beside one of "
            "them, and under the other the file is an old copy: keep the name that it was used "
            "under, and remove the others"
        )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise `BadStore` for whatever reading a file raises: damaged bytes can raise anything."""
    with sentences(path):
        try:
            yield
        except (BadStore, sqlite3.Error):
            raise
        except Exception as error:
            raise BadStore(DAMAGED.format(path=path, what=type(error).__name__)) from None


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise BadStore(_describe(path, error)) from None


def _describe(path: Path, error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return f"{path} is not a learner of littlestone: {error}"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) and _length(wal_file(path)):
        return (
            f"{path}: {error}. Its last commits are in {wal_file(path).name}, and to read them the "
            f"folder must be writable: copy {path.name}, {wal_file(path).name} and "
            f"{mark_file(path).name} to one that is, and read them there"
        )
    kinds = ("CANTOPEN", "READONLY", "BUSY", "LOCKED", "FULL", "IOERR", "PERM", "AUTH", "NOMEM")
    if name.startswith(tuple(f"SQLITE_{kind}" for kind in kinds)):
        return f"{path}: {error}"
    # After "with text" SQLite quotes the file, which is private.
    return DAMAGED.format(path=path, what=str(error).partition(" with text")[0])


def _checked(path: Path, db: sqlite3.Connection, mark: str | None) -> Seal:
    """Return the seal of a file, if it holds exactly what was written to it, and all of it."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise BadStore(f"{path} is a SQLite file, but not a learner of littlestone")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    _refuse_other_version(path, version)
    if dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")) != TABLES:
        raise BadStore(_damaged(path, "its tables are not as they were made"))
    seal = Seal.of(db)
    if not _is_own_log(path, seal):
        raise BadStore(LOST.format(path=path, name=path.name))
    # Not the quick check: a damaged index would hide a batch that was learned.
    (problem,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise BadStore(_damaged(path, problem.splitlines()[-1]))
    if not seal.holds():
        raise BadStore(_damaged(path, "a checksum does not match"))
    if seal.is_open and not _has_all(seal, mark):
        raise BadStore(LOST.format(path=path, name=path.name))
    return seal


def _is_own_log(path: Path, seal: Seal) -> bool:
    """Return whether a file without its log is the same learner, and has no more commits."""
    if not _length(wal_file(path)):
        return True
    with closing(_connected(path, "ro&immutable=1")) as db:
        alone = Seal.of(db)
    return alone.key == seal.key and alone.commits <= seal.commits


def _damaged(path: Path, what: str) -> str:
    together = f", together with {wal_file(path).name}" if _length(wal_file(path)) else ""
    return DAMAGED.format(path=path, what=what + together)


def _refuse_other_version(path: Path, version: int) -> None:
    if version > VERSION:
        raise BadStore(
            f"{path} was made by a newer littlestone (schema {version}, this one writes "
            f"{VERSION}): upgrade littlestone"
        )
    if version < VERSION:
        raise BadStore(
            f"{path} was made by an earlier littlestone (schema {version}, this one reads "
            f"{VERSION}): go on with the littlestone that wrote it, or begin another file with a "
            "new budget"
        )


def generation_of(db: sqlite3.Connection) -> int:
    """Return how many times the file has been opened for writing."""
    (value,) = db.execute("SELECT value FROM about WHERE name = 'generation'").fetchone()
    return int(value)


def step_generation(db: sqlite3.Connection) -> None:
    """Count an opening for writing: whoever holds the generation before can commit no more."""
    db.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")


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
    with open(mark_file(path), "r+b", buffering=0) as mark:
        mark.write(f"{run_name(seal.key)} {seal.commits:020}\n".encode())
        if sync:
            os.fsync(mark.fileno())


def _read_mark(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return mark_file(path).read_text("ascii", "replace")
    return None


def _has_all(seal: Seal, mark: str | None) -> bool:
    """Return whether a file has all commits that its mark knows of; without a mark it has not."""
    run, _, commits = (mark or "").strip().partition(" ")
    return run == run_name(seal.key) and commits.isdecimal() and seal.commits >= int(commits)
