"""The files of a store: locked, created whole or not at all, and checked before they are used.

A store is `run.db`, and while it is open, or after a crash, also `run.db-wal`, the log that holds
the last commits, and `run.db-shm`, an index of the log. SQLite takes a log for that of whatever
database file lies beside it, and reads a damaged log up to the damage: both would silently be
another learner, or an older one. So both are checked here, before SQLite opens the files.
"""

import glob
import os
import sqlite3
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._store.serialization import SCHEMA, TABLES, BadStore, Seal

PAUSE = 0.02
# Seconds to wait for another process that holds a lock.
LOCK_TIMEOUT = 5.0


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


# The version of the schema: that of the tables, and of the JSON in them (`_store/migration.py`).
APPLICATION, VERSION = 0x4C53746E, 3
# The earliest version that is migrated.
EARLIEST_VERSION = 2
# Seconds to wait for another process that is writing.
PATIENCE = 5.0
DAMAGED = (
    "{path} is damaged ({what}): what it holds cannot be trusted, and nothing was changed. An "
    "older copy of it would publish again for the same rows: begin another file with a new budget "
    "(docs/limits.md)"
)
FOREIGN_LOG = (
    "{log} holds the last commits of another learner than {path}, or of another copy of it: put "
    "each beside the file that it belongs to, or, if that learner must not go on, delete the log"
)


def database_file(path: Path) -> Path:
    """Return the file that a path leads to, if the path is a symbolic link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def wal_file(path: Path) -> Path:
    """Return the log that SQLite keeps beside a database file."""
    return Path(f"{path}-wal")


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
    beside = (Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal"))
    found = [file.name for file in beside if file.exists()]
    if found and not path.exists():  # else another process has just created it, with these
        raise BadStore(
            f"{path} is not there, but {' and '.join(found)} beside it: the last commits of a "
            "learner whose database file was removed or moved. End it if it is still running. To "
            "go on with that learner, put its file back; if it must not go on, delete these too"
        )


def put_in_place(path: Path, content: bytes) -> None:
    """Create a file, whole and on disk, or none at all; never over another."""
    with drafted(path) as draft:
        draft.write_bytes(content)


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


def connected(path: Path, mode: str) -> sqlite3.Connection:
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


def for_reading(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing, nor leaves anything beside the file."""
    _refuse_bad_log(path)
    # Without a log SQLite needs no shared files, so the folder need not be writable. If a writer
    # comes meanwhile, what was read may be torn: the seal does not match then.
    return connected(path, "ro" if _length(wal_file(path)) else "ro&immutable=1")


def for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection that may write. Closing it folds the log in and removes it."""
    _remove_drafts(path)  # of a process that was killed after the link
    _refuse_other_names(path)
    is_cut_short = _refuse_bad_log(path)
    if _length(wal_file(path)):
        # A connection that may write folds the log in when it is closed, whatever is wrong with
        # both together: so they are checked with one that cannot.
        with closing(connected(path, "ro")) as db:
            db.execute("BEGIN")
            checked_file(path, db)
    db = connected(path, "rw")
    if is_cut_short:
        _fold_in_commit_cut_short(path, db)
    return db


def configure(path: Path, db: sqlite3.Connection) -> None:
    """Set a connection that may write up for commits that last."""
    # Before anything is written: the file is as sensitive as the rows.
    os.chmod(path, 0o600)
    db.execute("PRAGMA journal_mode = WAL")
    # A commit that a power cut undoes would be decided again with fresh noise: a second release.
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 0")  # `Store` folds the log in
    db.execute("PRAGMA cache_spill = OFF")  # the log is written in order, at the COMMIT


def _fold_in_commit_cut_short(path: Path, db: sqlite3.Connection) -> None:
    """Fold a log in that ends with a part of a commit, and empty it."""
    (is_busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        db.close()
        raise BadStore(
            f"{path}: its last commit was cut short, and to repair that no other process may "
            "read or write the file: end the others, and try again"
        )


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


def _refuse_bad_log(path: Path) -> bool:
    """Refuse a log that is damaged or not of this file; return whether its end was cut short."""
    is_cut_short = refuse_damaged_log(path)
    _refuse_foreign_log(path)
    return is_cut_short


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise `BadStore` for whatever reading a file raises: damaged bytes can raise anything."""
    try:
        yield
    except BadStore:
        raise
    except sqlite3.Error as error:
        raise BadStore(_describe(path, error)) from None
    except Exception as error:
        raise BadStore(DAMAGED.format(path=path, what=type(error).__name__)) from None


def _describe(path: Path, error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return f"{path} is not a learner of littlestone: {error}"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) and _length(wal_file(path)):
        return (
            f"{path}: {error}. Its last commits are in {wal_file(path).name}, and to read them the "
            "folder must be writable: copy both files to one that is, and read them there"
        )
    kinds = ("CANTOPEN", "READONLY", "BUSY", "LOCKED", "FULL", "IOERR", "PERM", "AUTH", "NOMEM")
    if name.startswith(tuple(f"SQLITE_{kind}" for kind in kinds)):
        return f"{path}: {error}"
    # After "with text" SQLite quotes the file, which is private.
    return DAMAGED.format(path=path, what=str(error).partition(" with text")[0])


class FileHeader(NamedTuple):
    """Hold what is read of a file first."""

    begun: str
    key: bytes
    seal: Seal


def checked_file(path: Path, db: sqlite3.Connection) -> FileHeader:
    """Return the header of a file, if it holds exactly what was written to it."""
    try:
        return _checked(path, db)
    except sqlite3.OperationalError:
        raise  # it could not be read, which says nothing about its content
    except (BadStore, sqlite3.Error):
        if _length(wal_file(path)) and _is_sound_alone(path):
            raise BadStore(FOREIGN_LOG.format(log=wal_file(path), path=path)) from None
        raise


def _is_sound_alone(path: Path) -> bool:
    """Return whether a file without its log is a sound store, as it was at some time."""
    with suppress(Exception), closing(connected(path, "ro&immutable=1")) as db:
        _checked(path, db)
        return True
    return False


def _checked(path: Path, db: sqlite3.Connection) -> FileHeader:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise BadStore(f"{path} is a SQLite file, but not a learner of littlestone")
    _refuse_other_version(path, schema_version(db))
    if dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")) != TABLES:
        raise BadStore(DAMAGED.format(path=path, what="its tables are not as they were made"))
    # Not the quick check: a damaged index would hide a batch that was learned.
    (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise BadStore(DAMAGED.format(path=path, what=found.splitlines()[-1]))
    about = dict(db.execute("SELECT name, value FROM about"))
    key = bytes.fromhex(about["key"])
    seal = Seal(db, key)
    if not seal.holds():
        raise BadStore(DAMAGED.format(path=path, what="a checksum does not match"))
    # No checksum covers SQLite's own number, so it is kept twice; version 2 kept it once.
    if int(about.get("schema", EARLIEST_VERSION)) != schema_version(db):
        raise BadStore(DAMAGED.format(path=path, what="its version is another"))
    return FileHeader(about["begun"], key, seal)


def schema_version(db: sqlite3.Connection) -> int:
    """Return the version of a file's schema."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _refuse_other_version(path: Path, version: int) -> None:
    """Refuse a file of a later version, or of one that is too early to be migrated."""
    if version > VERSION:
        raise BadStore(
            f"{path} was made by a newer littlestone (schema {version}, this one writes "
            f"{VERSION}): upgrade littlestone"
        )
    if version < EARLIEST_VERSION:
        raise BadStore(
            f"{path} has schema {version}, and this littlestone reads {EARLIEST_VERSION} to "
            f"{VERSION}: go on with the littlestone that wrote it, or begin another file"
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
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# The log.


def _refuse_foreign_log(path: Path) -> None:
    """Refuse a file beside the log of another: with and without its log it has one key."""
    if not _length(wal_file(path)):
        return
    # Read with the log and without it: the key of a learner never changes.
    keys = []
    for mode in ("ro", "ro&immutable=1"):
        with suppress(sqlite3.Error), closing(connected(path, mode)) as db:
            keys += db.execute("SELECT value FROM about WHERE name = 'key'").fetchall()
    if len(set(keys)) > 1:
        raise BadStore(FOREIGN_LOG.format(log=wal_file(path), path=path))


HEADER, FRAME_HEADER = 32, 24
# The log's first number, but for its last bit, which is the byte order of its checksums.
MAGIC = 0x377F0682
# Frames that are checked together.
FRAMES_AT_ONCE = 1024

Words = npt.NDArray[np.uint32]


def refuse_damaged_log(path: Path) -> bool:
    """Refuse a log of which SQLite would read only a part."""
    for _ in range(3):  # a writer may restart its log meanwhile
        with suppress(FileNotFoundError), open(wal_file(path), "rb") as file:
            if (is_cut_short := _is_cut_short(file)) is not None:
                return is_cut_short
            continue
        return False
    raise BadStore(
        DAMAGED.format(path=wal_file(path), what="a checksum does not match in the middle of it")
    )


def _is_cut_short(file: BinaryIO) -> bool | None:
    """Return whether a log ends inside a commit; None if a whole frame has a wrong checksum."""
    header = file.read(HEADER)
    rest = os.fstat(file.fileno()).st_size - HEADER
    if rest <= FRAME_HEADER:
        return False
    magic, _, page = struct.unpack(">3I", header[:12])
    order, salts = (">" if magic & 1 else "<"), np.frombuffer(header, ">u4")[4:6]
    plain = np.frombuffer(header[:24], f"{order}u4")[None, :]
    expected = np.frombuffer(header, ">u4")[6:]
    if magic & ~1 != MAGIC or page < 512 or page & (page - 1):
        return None if rest > 512 else False  # a frame, at least
    sums = _sums(plain)[0]
    if (sums != expected).any():
        return None if rest >= page else False
    step, size = _power(page // 8 + 1), FRAME_HEADER + page
    sound, is_open = True, False
    left = rest // size  # what is written meanwhile is not checked
    while count := min(left, FRAMES_AT_ONCE):
        data = file.read(count * size)
        if len(data) < count * size:
            return False  # it was folded in and restarted meanwhile
        left -= count
        frames = np.frombuffer(data, np.uint8).reshape(count, size)
        heads = frames[:, :FRAME_HEADER].copy().view(">u4").astype(np.uint32)
        others = _bits(heads[:, 2:4] ^ salts.astype(np.uint32))
        covered = np.concatenate([frames[:, :8], frames[:, FRAME_HEADER:]], axis=1)
        added = _sums(covered.view(f"{order}u4"))
        for number in range(count):
            if sound:
                sums = step @ sums + added[number]
                matches = (sums == heads[number, 4:6]).all()
                sound = bool(matches and (heads[number, 2:4] == salts).all())
                if sound:  # the last frame of a commit has the size of the database, others 0
                    is_open = not heads[number, 1]
            # Salts are drawn for each log: a frame with others is of an earlier one in this file,
            # unless it is in them that a bit is damaged.
            if not sound and others[number] <= 1:
                return None
    return is_open


def _bits(words: Words) -> list[int]:
    """Return how many bits of each row are set."""
    return [sum(word.bit_count() for word in row) for row in words.tolist()]


def _sums(words: npt.NDArray[Any]) -> Words:
    """Return SQLite's checksum of each row of words, begun with zeros."""
    native, pairs = words.astype(np.uint32), words.shape[1] // 2
    weights = _weights(pairs)
    return np.stack([(native * weights[side]).sum(1, dtype=np.uint32) for side in (0, 1)], axis=1)


@cache
def _weights(pairs: int) -> Words:
    """Return for both sums the weight of every word."""
    found, power = np.zeros((2, 2 * pairs), np.uint32), np.eye(2, dtype=np.uint32)
    for pair in reversed(range(pairs)):
        found[:, 2 * pair] = power[:, 0] + power[:, 1]
        found[:, 2 * pair + 1] = power[:, 1]
        power = power @ _STEP
    return found


@cache
def _power(pairs: int) -> Words:
    """Return the matrix by which so many pairs of words multiply the sums before them."""
    power = np.eye(2, dtype=np.uint32)
    for _ in range(pairs):
        power = power @ _STEP
    return power


_STEP = np.array([[1, 1], [1, 2]], dtype=np.uint32)
